"""An `if` of rewritten code as a `cond`: both branches run once on symbolic values, and become graphs.

    if x > 0: y = 2 * x                 y = cond(x > 0, 2 * x, -x)
    else:     y = -x

The results are the variables that either branch assigns, or whose arrays it writes to, and what the branches return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, unwrap_fresh
from ..core.tree import LEAF, Structure, flatten
from ..core.types import Type, Value, dtype_of, shape_of
from ..ops import control as ops
from ..staging.body import Body
from ..staging.python import EXAMPLES
from .body import TYPES, WIDE, SourceBody
from .jumps import is_returned
from .rewrite import Site
from .staged import LoopState, innermost, keep_python, require, state_names, with_written
from .state import Ending, Variable, as_type, common_class, is_number, python_class, type_of
from .variables import Cells, NotStagedError, Surroundings


class StagedBranch(NamedTuple):
    """A staged branch."""

    body: SourceBody
    endings: dict[str, Ending]
    leaves: list[Any]  # of what it returned
    structure: Structure
    is_bounded: bool  # the bounds of its integers follow from those outside

    def sound(self) -> Value:
        with reopened(self.body):
            return self.body.sound()


def stage_branch(site: Site, cells: Cells, chosen: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
    """Stage both branches of an `if`; what they return."""
    return with_written(lambda names: _stage_branch(site, cells, names, chosen, true, false), state_names(site, cells))


def _stage_branch(
    site: Site, cells: Cells, names: set[str], chosen: Any, true: Callable[[], Any], false: Callable[[], Any]
) -> Any:
    state = LoopState(cells, names)
    state.assigned = site.assigned
    yes = _way(state, true, None)
    no = _way(state, false, yes.body)
    merge = Merge(yes, no)
    variables = [merged for v in state.variables if (merged := merge.variable(v)) is not None]
    if yes.structure != no.structure:
        raise NotStagedError(f"it gives {yes.structure} in one branch and {no.structure} in the other")
    given = [merge.leaf(x, y, "the result") for x, y in zip(yes.leaves, no.leaves, strict=True)]
    conditional = bool(yes.body.conditions or no.body.conditions)
    if conditional:
        merge.outputs.append((yes.sound(), no.sound()))
    results = merge.cond(chosen, state) if merge.outputs else ()
    if conditional and not require(results[-1], arithmetic=True):
        raise NotStagedError("it depends on a condition, which only jit can check")
    for name, leaves, ending in variables:
        state.place(name, ending.structure, [_picked(x, results) for x in leaves], ending)
    return yes.structure.unflatten([_picked(x, results) for x in given])


class Merge:
    """What the variables are after a branch: the results of a `cond`, where the branches differ."""

    def __init__(self, yes: StagedBranch, no: StagedBranch) -> None:
        self.yes, self.no = yes, no
        self.outputs: list[tuple[Value, Value]] = []  # of each result, its value in either branch
        self.is_bounded = yes.is_bounded and no.is_bounded

    def variable(self, v: Variable) -> tuple[str, list[Any], Ending] | None:
        """The name of a variable, its leaves or their places, and how it ends; None if it stays as it is."""
        a, b = self.yes.endings.get(v.name), self.no.endings.get(v.name)
        if a is None and b is None:
            return None
        if (a is None or b is None) and is_returned(v.name):
            a, b = a or _zeros(b), b or _zeros(a)
        if a is None or b is None:
            raise NotStagedError(f"{v.name} has a value after one of the branches only")
        if a.structure != b.structure:
            raise NotStagedError(f"{v.name} is {a.structure} after one branch and {b.structure} after the other")
        written = [x or y for x, y in zip(a.written, b.written, strict=True)]
        if a.is_same and b.is_same and not any(written) and not isinstance(v.first, (list, dict)):
            return None
        leaves = [self.leaf(x, y, v.name) for x, y in zip(a.leaves, b.leaves, strict=True)]
        if any(written) and a.is_same != b.is_same:
            if v.is_aliased or a.structure is not LEAF:
                raise NotStagedError(f"{v.name} is written to in one branch and assigned in the other")
            written = [False]  # no other name can see it
        return v.name, leaves, a._replace(written=written, is_same=a.is_same and b.is_same)

    def leaf(self, a: Any, b: Any, name: str) -> Any:
        """The place of a leaf that is a in one branch and b in the other; the leaf itself where it is the same object."""
        a, b = unwrap_fresh(a), unwrap_fresh(b)
        if a is b and not isinstance(a, Traced):
            return a
        if not is_number(a) or not is_number(b):
            if type(a) is type(b) and isinstance(a, (str, bytes)) and a == b:
                return a
            raise NotStagedError(f"{name} is {a!r:.40} after one branch and {b!r:.40} after the other")
        if shape_of(a) != shape_of(b):
            raise NotStagedError(f"{name} is {type_of(a)!r} after one branch and {type_of(b)!r} after the other")
        cls = common_class([a, b])
        t = Type(shape_of(a), _common_dtype(a, b) if cls is None else TYPES[cls].dtype)
        with reopened(self.yes.body):
            first = as_type(a, t)
        with reopened(self.no.body):
            second = as_type(b, t)
        self.outputs.append((first, second))
        bound = max(self.yes.body.size(a), self.no.body.size(b)) if cls is int and self.is_bounded else np.inf
        return ResultPlace(len(self.outputs) - 1, cls, bound)

    def cond(self, chosen: Any, state: LoopState) -> Sequence[Value]:
        """The results of the branch that is chosen."""
        bodies = self.yes.body, self.no.body
        columns = list(zip(*self.outputs, strict=True))
        for body, column in zip(bodies, columns, strict=True):
            for y in column:
                body.operand(y)  # records captured values, which both graphs take
        true, false = (body.graph(name, ys) for body, name, ys in zip(bodies, ("true", "false"), columns, strict=True))
        operands = [as_type(leaf.held, leaf.type) for leaf in state.leaves if leaf.type is not None and leaf.held is not None]
        return ops.cond(chosen, *self.yes.body.captured, *operands, true=true, false=false)


def _zeros(ending: Ending | None) -> Ending:
    """The value that a loop returns, in an iteration in which it does not."""
    assert ending is not None
    leaves = []
    for x in ending.leaves:
        cls = python_class(x)
        leaves.append(x if not is_number(x) else np.zeros(shape_of(x), dtype_of(x)) if cls is None else cls(0))
    return ending._replace(leaves=leaves, is_same=False)


def _common_dtype(a: Any, b: Any) -> np.dtype[Any]:
    """The common dtype of two numbers, either of which may be a Python number."""
    return np.result_type(*[dtype_of(x) if (cls := python_class(x)) is None else EXAMPLES[cls] for x in (a, b)])


class ResultPlace(NamedTuple):
    """The place of a leaf among the results of a branch, and its class if it is a Python number."""

    number: int
    python: type | None
    bound: float  # of an integer


def _picked(x: Any, results: Sequence[Value]) -> Any:
    if type(x) is not ResultPlace:
        return x
    y = results[x.number]
    keep_python(y, x.python)
    if isinstance(y, Traced) and isinstance(y.by, SourceBody) and x.bound < WIDE:
        y.by.bounds[y.aux[0]] = x.bound
    return y


@contextmanager
def reopened(body: Body) -> Iterator[None]:
    """Let ops on the values of a branch be added to it."""
    body.closed = False
    try:
        yield
    finally:
        body.closed = True


def _way(state: LoopState, f: Callable[[], Any], sibling: SourceBody | None) -> StagedBranch:
    surroundings = Surroundings(state.cells, state.names, state.assigned)
    around = innermost()

    def staged() -> StagedBranch:
        with SourceBody("cond", sibling, alone=True) as body:
            state.enter(body)
            is_bounded = isinstance(around, SourceBody) and _bound_inputs(state, body, around)
            leaves, structure = flatten(f())
            return StagedBranch(body, state.leave(), leaves, structure, is_bounded)

    return state.apart(surroundings, staged)


def _bound_inputs(state: LoopState, body: SourceBody, around: SourceBody) -> bool:
    """Give the integers that enter a branch the bounds that they have outside; whether all of them have one."""
    pairs = [(leaf.held, x) for v in state.variables for leaf, x in zip(v.leaves, state.inputs[v.name], strict=True)]
    counts = [(held, x) for held, x in pairs if isinstance(x, Traced) and body.light.get(x.aux[0]) is int]
    if not all(isinstance(held, int) or (isinstance(held, Traced) and held.by is around) for held, _ in counts):
        return False
    for held, x in counts:
        body.bounds[x.aux[0]] = around.size(held)
    return True
