"""A program as an immutable list of equations, each value assigned once.

    graph f(x: float64[3]) {
      v1: float64[3] = sin x
      v2: float64[] = sum v1 {axis=(0,), keepdims=False}
      return v2
    }

Values are numbered: the inputs first, then the results of the equations in order. An operand is the number of a value
or a `Literal`. There is one kind of node, `Equation`; transforms make new graphs. A parameter of an equation may
be a graph: the body of a loop, a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.bind import Traced, bind, unwrap_fresh
from ..core.errors import ArgumentError, DtypeError, ShapeError, written_on
from ..core.locks import cached
from ..core.op import Op
from ..core.tree import LEAF, Structure
from ..core.types import PYTHON_NUMBERS, Type, Value, dtype_of, shape_of
from .contents import contents, same_bits
from .straight import straight

_VALUES = (np.ndarray, np.generic, bool, int, float, complex, Traced)


class Literal:
    """A constant operand: a Python number, weak in promotion as in NumPy, or an array."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if type(value) not in PYTHON_NUMBERS:
            value = np.asarray(value).view()
            value.flags.writeable = False
        self.value = value

    @property
    def is_weak(self) -> bool:
        """Whether it is a Python number."""
        return not isinstance(self.value, np.ndarray)

    @property
    def type(self) -> Type:
        return Type.of(self.value)

    def strong(self) -> Literal:
        """The same value with a dtype that promotion keeps."""
        return Literal(np.asarray(self.value))

    def handed_out(self) -> Any:
        """Its value as a result that the caller may write to."""
        return self.value if self.is_weak else self.value.copy()[()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal) or type(self.value) is not type(other.value):
            return False
        if type(self.value) is int:  # perhaps beyond 64 bits
            return bool(self.value == other.value)
        a, b = np.asarray(self.value), np.asarray(other.value)
        return (a.dtype, a.shape) == (b.dtype, b.shape) and same_bits(a, b)

    def __hash__(self) -> int:
        return hash(self.value if type(self.value) is int else contents(np.asarray(self.value)))

    def __reduce__(self) -> Any:
        return Literal, (self.value,)  # an array that is unpickled is read-only again

    def __repr__(self) -> str:
        return f"Literal({self.value!r})"


Operand = int | Literal
_NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Equation:
    """One op applied once: `outputs = op(inputs, **params)`. `line` is the user's source line, not compared."""

    op: Op
    inputs: tuple[Operand, ...]
    params: dict[str, Any]  # read-only, but passed on as an ordinary dict
    outputs: tuple[int, ...]
    types: tuple[Type, ...]
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.params, MappingProxyType):  # else shared with another equation
            object.__setattr__(self, "params", MappingProxyType(dict(self.params)) if self.params else _NO_PARAMS)

    def __reduce__(self) -> Any:
        return Equation, (self.op, self.inputs, dict(self.params), self.outputs, self.types, self.line)


Apply = Callable[[Equation, list[Any]], Any]


def _bound(equation: Equation, operands: list[Value]) -> Any:
    """The result of an equation, from the interpreter of its operands."""
    return bind(equation.op, *operands, **equation.params)


def weak_numbers(operands: Sequence[Operand]) -> list[Any]:
    """The Python numbers among operands, which are weak in promotion; None for each other one."""
    return [o.value if isinstance(o, Literal) and o.is_weak else None for o in operands]


@dataclass(frozen=True)
class Graph:
    """Inputs, equations, outputs. `in_structure` and `out_structure` are the containers of the arguments and the result."""

    name: str
    input_names: tuple[str, ...]
    input_types: tuple[Type, ...]
    equations: Sequence[Equation]  # a tuple, or `Columns`
    outputs: tuple[Operand, ...]
    in_structure: Structure | None = field(default=None, compare=False)
    out_structure: Structure = field(default=LEAF, compare=False)

    def __len__(self) -> int:
        return len(self.equations)

    @property
    def types(self) -> dict[int, Type]:
        """The type of every value."""
        found = dict(enumerate(self.input_types))
        for equation in self.equations:
            found.update(zip(equation.outputs, equation.types, strict=True))
        return found

    @cached
    def output_types(self) -> tuple[Type, ...]:
        types = self.types
        return tuple(o.type if isinstance(o, Literal) else types[o] for o in self.outputs)

    @cached
    def derived(self) -> dict[Any, Any]:
        """A cache of transforms of this graph, by key: loop bodies are transformed repeatedly."""
        return {}

    @cached
    def straight(self) -> Callable[..., tuple[Value, ...]]:
        """The graph as a Python function of plain arrays, for repeated calls."""
        return straight(self)

    def __hash__(self) -> int:
        return hash((self.name, self.input_types, len(self.equations), self.outputs))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # without cached properties

    def last_uses(self) -> dict[int, int]:
        """For each value, the index of the last equation that reads it."""
        last: dict[int, int] = {}
        for i, equation in enumerate(self.equations):
            for operand in equation.inputs:
                if isinstance(operand, int):
                    last[operand] = i
        return last

    def run_flat(self, values: Sequence[Value]) -> list[Value]:
        """Evaluate on flat inputs: arrays, or traced values, so that a graph can be differentiated and batched."""
        found = self.evaluate(values)
        return [found[o] if isinstance(o, int) else o.handed_out() for o in self.outputs]

    def evaluate(self, values: Sequence[Any], apply: Apply = _bound, *, keep: bool = False) -> dict[int, Any]:
        """The outputs by number, computed by `apply` from each equation and its operands; with `keep`, all values."""
        environment: dict[int, Any] = dict(enumerate(values))
        last, line = {} if keep else self.last_uses(), written_on.get()
        for o in self.outputs:
            if isinstance(o, int):
                last.pop(o, None)
        for i, equation in enumerate(self.equations):
            written_on.set(equation.line or line)
            try:
                result = apply(equation, [environment[o] if isinstance(o, int) else o.value for o in equation.inputs])
            except Exception as error:
                self.explain(error, equation)
                raise
            finally:
                written_on.set(line)
            environment.update(zip(equation.outputs, result if equation.op.many else (result,), strict=True))
            for o in equation.inputs:  # free dead values
                if isinstance(o, int) and last.get(o) == i:
                    environment.pop(o, None)
        return environment

    def explain(self, error: BaseException, equation: Equation) -> None:
        """Add to an error which equation it comes from, and the user's line."""
        targets = ", ".join(f"v{n}" for n in equation.outputs)
        line = f" ({equation.line})" if equation.line else ""
        error.add_note(f"in {targets} = {equation.op.name} of the graph {self.name!r}{line}")

    def bind_inputs(self, values: Sequence[Any]) -> list[Value]:
        """Inputs checked against their types."""
        if len(values) != len(self.input_types):
            raise ShapeError(
                f"the graph {self.name!r} takes {len(self.input_types)} inputs ({', '.join(self.input_names)}), got {len(values)}"
            )
        checked = []
        for name, wanted, value in zip(self.input_names, self.input_types, values, strict=True):
            value = unwrap_fresh(value)
            what = f"input {name!r} of the graph {self.name!r}"
            if not isinstance(value, _VALUES):
                raise ArgumentError(f"{what} is {type(value).__name__}, expected an array of type {wanted!r}")
            if shape_of(value) != wanted.shape:
                raise ShapeError(f"{what} has shape {shape_of(value)}, expected {wanted.shape}")
            if dtype_of(value) != wanted.dtype:
                raise DtypeError(f"{what} has dtype {dtype_of(value)}, expected {wanted.dtype}")
            checked.append(value)
        return checked

    def sources(self) -> Iterator[str]:
        """The distinct source lines, in order."""
        yield from dict.fromkeys(equation.line for equation in self.equations if equation.line)
