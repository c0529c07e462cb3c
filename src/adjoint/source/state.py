"""The state of a loop or a branch: variables whose values go in, and come out.

    total, pos = 0, {"x": x}            leaves: total (a Python number), pos['x'] (float64[3])

A variable may be a container of numbers and arrays. Anything else in it (a string, a function) must stay the same object.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, class_of, is_array, unwrap_fresh
from ..core.tree import LEAF, Structure, flatten
from ..core.types import Type, Value, dtype_of, is_weak, shape_of
from ..ir.edit import distinct
from ..numpy.views import View, become
from ..ops.broadcast import cast
from ..staging.python import EXAMPLES
from .body import CARRIED, TYPES, SourceBody
from .variables import UNBOUND, Cells, NotStagedError, with_article


class ChangeError(NotStagedError):
    """A variable has another shape or structure after the first iteration than before it."""


def is_number(x: Any) -> bool:
    """Whether x is a number or an array of numbers."""
    if isinstance(x, np.ndarray):
        return type(x) is np.ndarray and x.dtype.kind in "biufc"
    return isinstance(x, (Traced, bool, int, float, complex)) or (isinstance(x, np.generic) and x.dtype.kind in "biufc")


def python_class(x: Any) -> type | None:
    """The class of a Python number, which may be traced; None for anything else."""
    cls = class_of(x)
    return cls if cls in TYPES else None


def common_class(values: Sequence[Any]) -> type | None:
    """The class of a result that is one of several values, if all are Python numbers."""
    classes = [cls for cls in map(python_class, values) if cls is not None]
    return max(classes, key=list(TYPES).index) if len(classes) == len(values) else None


def type_of(x: Any) -> Type:
    return Type.of(np.asarray(x) if type(x) is bool or is_weak(x) else x)


def as_type(x: Any, type_: Type) -> Value:
    """A value in the dtype of the state."""
    x = unwrap_fresh(x)
    if isinstance(x, Traced):
        return x if dtype_of(x) == type_.dtype else cast(x, dtype=type_.dtype)
    made = np.asarray(x, type_.dtype)
    return made if isinstance(x, np.ndarray) else made[()]


@dataclasses.dataclass
class StateLeaf:
    """A number or array of the state, or an object that must stay the same."""

    label: str
    held: Any  # the object before; None if the variable has no value then
    type: Type | None  # None: not a number
    python: Any = None  # the class of a Python number

    @property
    def fixed(self) -> bool:
        return self.type is None


def shown(name: str) -> str:
    """The name of a variable for a reader: `stop` for a flag that stands for a `break`."""
    return re.sub(r"__adjoint_(\w+)_\d+__", r"\1", name)


class Ending(NamedTuple):
    """A variable after a body has run: its leaves, and which of them are the objects that went in, and were written to."""

    structure: Structure
    leaves: list[Any]
    is_same: bool  # the variable still holds the container, or the array, that went in
    written: list[bool]


class Variable:
    """A variable of the state."""

    def __init__(self, name: str, cells: Cells) -> None:
        self.name, self.first = name, cells[name]
        self.is_aliased = name in cells.shared
        self.structure: Structure | None = None
        self.leaves: list[StateLeaf] = []
        if self.first is not UNBOUND:
            leaves, self.structure = flatten(self.first)
            for x, path in zip(leaves, self.structure.paths(), strict=True):
                type_ = type_of(unwrap_fresh(x)) if is_number(x) else None
                self.leaves.append(StateLeaf(f"{shown(name)}{path}", x, type_, python_class(x)))

    def join(self, ending: Ending) -> None:
        """Take the structure and types that the first iteration gives a variable without a value."""
        self.structure = ending.structure
        for x, path in zip(ending.leaves, ending.structure.paths(), strict=True):
            if not is_number(x):
                raise NotStagedError(f"{self.name}{path} is {with_article(type(x).__name__)}, which a loop cannot carry")
            self.leaves.append(StateLeaf(f"{shown(self.name)}{path}", None, type_of(x), python_class(x)))


class State:
    """The variables of a loop or a branch, and what they refer to before it."""

    def __init__(self, cells: Cells, names: set[str]) -> None:
        self.cells = cells
        self.variables = [Variable(name, cells) for name in sorted(names)]
        self.before = {name: cells[name] for name in cells.by_name}

    @property
    def names(self) -> set[str]:
        return {v.name for v in self.variables}

    @property
    def leaves(self) -> list[StateLeaf]:
        """The leaves that are inputs and outputs of a body."""
        return [leaf for v in self.variables for leaf in v.leaves if not leaf.fixed]

    def enter(self, body: SourceBody) -> None:
        """Let the variables refer to inputs of a body; what is not a number stays as it is."""
        self.given: dict[str, Any] = {}
        self.inputs: dict[str, list[Any]] = {}
        for v in self.variables:
            inputs = self.inputs[v.name] = [_input(body, leaf) for leaf in v.leaves]
            if v.first is not UNBOUND:
                assert v.structure is not None
                self.given[v.name] = v.structure.unflatten(inputs)
        names = sorted(
            self.before, key=lambda name: name not in self.names
        )  # the name of a captured value is not that of a carry
        held = [(name, self.before[name]) for name in names]
        body.variables |= {(id(x.underlying), id(x.aux)): name for name, x in held if isinstance(x, Traced)}
        body.entered |= {id(x) for inputs in self.inputs.values() for x in inputs}
        self.starts = {name: [getattr(x, "aux", None) for x in inputs] for name, inputs in self.inputs.items()}
        for v in self.variables:
            self.cells[v.name] = self.given.get(v.name, UNBOUND)

    def leave(self) -> dict[str, Ending]:
        """What the variables refer to after the body; those without a value are left out."""
        found: dict[str, Ending] = {}
        for v in self.variables:
            value = self.cells[v.name]
            if value is UNBOUND:
                continue
            leaves, structure = flatten(value)
            is_same = v.name in self.given and value is self.given[v.name]
            inputs, starts = self.inputs[v.name], self.starts[v.name]
            written = [isinstance(x, Traced) and x.aux is not start for x, start in zip(inputs, starts, strict=True)]
            if any(written) and structure is LEAF and not is_same and not v.is_aliased:
                written = [False]  # no other name can see what was written before it was assigned
            elif any(written):
                self._check_written(v, leaves, written)
            found[v.name] = Ending(structure, [unwrap_fresh(x) for x in leaves], is_same, written)
        return found

    def _check_written(self, v: Variable, leaves: Sequence[Any], written: Sequence[bool]) -> None:
        """Refuse a write to an array that has another name, by which the program would not see it."""
        for i, leaf in enumerate(v.leaves):
            if not written[i]:
                continue
            if leaf.held is None:
                continue
            if i >= len(leaves) or leaves[i] is not self.inputs[v.name][i]:
                raise NotStagedError(f"{leaf.label} is written to and then assigned")
            if v.is_aliased and not isinstance(leaf.held, Traced):
                raise NotStagedError(f"{leaf.label} is written to, and the array has another name; make it with adjoint.numpy")
            if isinstance(leaf.held, View) and leaf.held.base is not None:
                raise NotStagedError(f"{leaf.label} is written to, and is a view of another array")
            for name, other in self.before.items():
                root = other.root if isinstance(other, View) else other
                if name != v.name and isinstance(root, Traced) and root is leaf.held:
                    raise NotStagedError(f"{leaf.label} is written to, and {name} is the same array or a part of it")

    def place(self, name: str, structure: Structure, leaves: Sequence[Any], ending: Ending) -> None:
        """Give a variable its value after the loop or branch; what was written to in place stays the same object."""
        v = next(v for v in self.variables if v.name == name)
        leaves = list(leaves)
        for i, leaf in enumerate(v.leaves):
            if i < len(ending.written) and ending.written[i] and isinstance(leaf.held, Traced):
                become(leaf.held, leaves[i])
                leaves[i] = leaf.held
        made = structure.unflatten(leaves)
        if ending.is_same and isinstance(v.first, (list, dict)):
            if any(isinstance(x, (list, dict)) for x in (v.first.values() if isinstance(v.first, dict) else v.first)):
                raise NotStagedError(f"{name} is a container in a container")
            if isinstance(v.first, list):
                v.first[:] = made
            else:
                v.first.update(made)
            made = v.first
        self.cells[name] = made


def _input(body: SourceBody, leaf: StateLeaf) -> Any:
    if leaf.type is None:
        return leaf.held
    name = distinct(leaf.label, set(body.names))
    if leaf.python is not None:
        return body.number(name, leaf.python, CARRIED)
    made = body.input(name, leaf.type)
    made.aux = (*made.aux[:2], is_array(leaf.held) or leaf.type.shape != ())
    return made


def widen(leaf: StateLeaf, y: Any) -> bool:
    """Take the type of a leaf that is y after an iteration; whether it was another."""
    assert leaf.type is not None
    if shape_of(y) != leaf.type.shape:
        raise ChangeError(f"{leaf.label} changes from {leaf.type!r} to {type_of(y)!r}")
    before = leaf.type, leaf.python
    cls = python_class(y)
    if leaf.python is not None and cls is not None:
        leaf.python = max(leaf.python, cls, key=list(TYPES).index)
        leaf.type = TYPES[leaf.python]
    else:
        own, new = (EXAMPLES[c] if c is not None else d for c, d in ((leaf.python, leaf.type.dtype), (cls, dtype_of(y))))
        leaf.type, leaf.python = Type(leaf.type.shape, np.result_type(own, new)), None
    return before != (leaf.type, leaf.python)
