"""Concrete staging: the function is recorded as a graph while it runs on numbers.

Python code that asks for a number gets that of this call, so the graph holds what this call did: the branch taken by each `if`,
the iterations run by each loop.
"""

from __future__ import annotations

from typing import Any

from ..core.bind import Traced, bind, class_of, is_array
from ..core.op import Op
from ..core.types import Type, Value
from .stage import Stage


class Concrete(Stage):
    """One recording with numbers. `value` is the number, `aux` as in `Stage`; `values` keeps all of them."""

    __slots__ = ("values",)
    has_numbers = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.values: list[Value] = []

    def input_like(self, name: str, value: Value) -> Traced:
        if isinstance(value, Traced) and isinstance(value.by, Concrete):
            value = value.underlying
        number, type_, _ = super().input(name, Type.of(value)).aux
        self.values.append(value)
        return Traced(self, value, (number, type_, is_array(value)))

    def inner(self, name: str) -> Concrete:
        return Concrete(name)

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        inputs = tuple([self.operand(a) for a in args])
        numbers = [self.values[o] if isinstance(o, int) else o.value for o in inputs]
        result = bind(op, *numbers, **params)
        self.values.extend(result if op.many else (result,))
        return self.note_values(op, inputs, params, result)

    def class_of(self, x: Traced) -> type:
        return class_of(x.underlying)

    def concrete(self, x: Traced, what: str) -> Any:
        return x.underlying
