"""Staging: running a function on types instead of numbers, to record it as a graph.

Every op on a staged value becomes an equation. Python code that asks for a number (an `if`, `float()`) is refused:
the graph would be valid for one branch only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, is_array, table, unwrap_fresh
from ..core.code import NamedLine
from ..core.errors import UnsupportedError, user_line, written_on
from ..core.op import Op
from ..core.types import Shape, Type, Value, is_inexact
from ..derive import type_rule
from ..ir.contents import is_repeated
from ..ir.graph import Equation, Graph, Literal, Operand, weak_numbers

_RECENT = 6  # equations among which the result of an expression is looked for, when it is assigned


def with_numbers(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an op, in which a traced integer (a size, an axis) becomes its number, with a guard."""
    for x in params.values():
        if isinstance(x, Traced) or (type(x) is tuple and any(isinstance(y, Traced) for y in x)):
            return {key: _as_number(value) for key, value in params.items()}
    return params


def _as_number(x: Any) -> Any:
    if type(x) is tuple:
        return tuple(map(_as_number, x))
    return operator.index(x) if isinstance(x, Traced) else x  # type: ignore[arg-type]


class Stage(Trace):
    """One recording. `value` is not used; `aux` is the number of the value, its type, and whether it is an array."""

    __slots__ = ("asks_for_tables", "constants", "equations", "has_tables", "inputs", "masks", "names")
    has_numbers = False
    light: Any = MappingProxyType({})  # the values that are Python numbers in the user's program

    def __init__(self, name: str, tables: bool = True) -> None:
        super().__init__(name)
        self.has_tables = tables  # plain arrays can be read at traced indices,
        self.asks_for_tables = False  # and should be
        self.inputs: list[Type] = []
        self.names: list[str] = []
        self.equations: list[Equation] = []
        self.masks: set[int] = set()  # floats that are computed from bools and integers alone
        self.constants: dict[int, Literal] = {}  # by identity, so that a repeated array is stored once

    def input(self, name: str, type_: Type) -> Traced:
        """A new input of the graph; all inputs come before the first op."""
        self.inputs.append(type_)
        self.names.append(name)
        return Traced(self, None, (len(self.inputs) - 1, type_, type_.shape != ()))

    def input_like(self, name: str, value: Value) -> Traced:
        """A new input with the type of a value."""
        return self.input(name, Type.of(value))

    def reserve(self) -> None:
        """Make room for values that the function reads outside. Here they are constants."""

    def capture(self, name: str, value: Value) -> Any:
        """A value that the function reads outside."""
        return table(value.copy())

    def inner(self, name: str) -> Stage:
        """A recording of the same kind, for a body that becomes one equation of this graph."""
        return Stage(name)

    def operate(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator in user code, where there are Python numbers."""
        return run(*args)

    def operand(self, x: Value) -> Operand:
        x = unwrap_fresh(x)
        if isinstance(x, Traced):
            if x.by is self:
                return x.aux[0]  # type: ignore[no-any-return]
            if x.by.ended:
                raise x.by.leaked()
            raise UnsupportedError(
                f"a value traced by {x.by.name} is used inside {self.name}, which would freeze it as a constant; pass it as an "
                "argument of the staged function"
            )
        return self.constant(x)

    def constant(self, x: Value) -> Literal:
        """The current contents of a number or array: later writes to the array do not affect the graph."""
        if not isinstance(x, np.ndarray):
            return Literal(x)
        known = self.constants.get(id(x))
        if known is None or known != Literal(x):
            own = np.broadcast_to(x.flat[0], x.shape) if is_repeated(x) else x.copy()
            known = self.constants[id(x)] = Literal(own)
        return known

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        params = with_numbers(params)
        inputs: list[Operand] = []
        types: list[Type] = []
        for a in args:
            if isinstance(a, Traced) and a.by is self:
                number, type_, _ = a.aux
                inputs.append(number)
                types.append(type_)
            else:
                literal = self.operand(a)
                inputs.append(literal)
                types.append(literal.type)  # type: ignore[union-attr]
        found = self.infer(op, inputs, types, params)
        numbers = self.note(op, tuple(inputs), params, found)
        if len(found) == 1 and is_inexact(found[0].dtype):
            floats = [o for o, t in zip(inputs, types, strict=True) if isinstance(o, int) and is_inexact(t.dtype)]
            if self.masks.issuperset(floats):
                self.masks.update(numbers)
        results = [Traced(self, None, (n, t, t.shape != () or op.gives_array(args))) for n, t in zip(numbers, found, strict=True)]
        return tuple(results) if op.many else results[0]

    def note(self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...]) -> range:
        """Record an equation; returns the numbers of its results."""
        # A loop whose results are unused has none.
        first = next((e.outputs[-1] + 1 for e in reversed(self.equations) if e.outputs), len(self.inputs))
        numbers = range(first, first + len(types))
        self.equations.append(Equation(op, inputs, params, tuple(numbers), types, written_on.get() or user_line()))
        return numbers

    def name_result(self, x: Traced, variable: str) -> None:
        """Note that the source assigns x to a variable, if x is the result of one of the last ops."""
        for i, e in enumerate(self.equations[:-_RECENT:-1], 1):
            if e.outputs == (x.aux[0],):
                if not isinstance(e.line, NamedLine):
                    self.equations[-i] = replace(e, line=NamedLine(e.line, variable, e.op.name))
                return

    def note_values(self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], result: Any) -> Any:
        """As `note`, for an op that has run on numbers; returns its results, traced."""
        parts = tuple(result) if op.many else (result,)
        types = tuple(map(Type.of, parts))
        numbers = self.note(op, inputs, params, types)
        results = [Traced(self, y, (n, t, is_array(y))) for y, n, t in zip(parts, numbers, types, strict=True)]
        return tuple(results) if op.many else results[0]

    def infer(self, op: Op, inputs: Sequence[Operand], types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
        """The types of an op's results. Python numbers stay numbers, so that they are weak in promotion."""
        numbers = weak_numbers(inputs)
        result = type_rule(op, types, params, numbers)
        return result if op.many else (result,)

    def is_mask(self, x: Traced) -> bool:
        return x.aux[0] in self.masks

    def shape(self, x: Traced) -> Shape:
        return x.aux[1].shape  # type: ignore[no-any-return]

    def is_array(self, x: Traced) -> bool:
        return x.aux[2]  # type: ignore[no-any-return]

    def class_of(self, x: Traced) -> type:
        return np.ndarray if self.is_array(x) else self.dtype(x).type

    def dtype(self, x: Traced) -> np.dtype[Any]:
        return x.aux[1].dtype  # type: ignore[no-any-return]

    def line(self, x: Traced) -> str:
        return self.equations[-1].line if self.equations else ""

    def show(self, x: Traced) -> str:
        number, type_, _ = x.aux
        return f"<staged {self.names[number] if number < len(self.names) else f'v{number}'}: {type_!r}>"

    def concrete(self, x: Traced, what: str) -> Any:
        raise UnsupportedError(
            f"{what} a value inside {self.name} is not known: the graph is staged without numbers. Use np.where to choose "
            "between values, or make the argument a constant"
        )

    def graph(self, name: str, outputs: Sequence[Value]) -> Graph:
        return Graph(
            name,
            tuple(self.names),
            tuple(self.inputs),
            tuple(self.equations),
            tuple(self.operand(y) for y in outputs),
        )
