"""Arithmetic of float16 becomes that of float32: operands are widened, results rounded.

    v1: float16[3] = mul x, y           v1: float32[3] = cast x;  v2: float32[3] = cast y
                                   →    v3: float32[3] = mul v1, v2
                                        v4: float16[3] = cast v3

NumPy computes functions of float16 in the same way, and rounds each result. A sum along the last axes has one rounding, at its
end. Other sums, which NumPy rounds at each step, and ops that depend on the dtype itself (`spacing`) stay ops of float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.op import Constant, Elementwise, Op
from ..core.types import Type
from ..derive import type_rule
from ..ir.edit import bodies, map_bodies, renumber, unused_number
from ..ir.graph import Equation, Graph, Literal, Operand, weak_numbers
from ..ops.broadcast import cast, sum_, where
from ..ops.elementwise import ldexp, nextafter, spacing, truncate
from ..ops.linalg import matmul
from ..ops.reduce import max_, min_

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_AS_THEY_ARE: frozenset[Op] = frozenset({nextafter, spacing, ldexp})  # that depend on the dtypes of their operands
_WHOLE: frozenset[Op] = frozenset({matmul, max_, min_, where})  # for which float32 gives NumPy's results, rounded


def has_halves(graph: Graph) -> bool:
    """Whether any value is float16, in the bodies of loops too."""
    if any(t.dtype == HALF for t in graph.input_types):
        return True
    return any(
        any(t.dtype == HALF for t in e.types)
        or any(isinstance(o, Literal) and not o.is_weak and o.value.dtype == HALF for o in e.inputs)
        or any(map(has_halves, bodies(e.params).values()))
        for e in graph.equations
    )


def widen_halves(graph: Graph) -> Graph:
    """The graph in which float16 is loaded, stored, moved and converted only, but for the ops that NumPy runs."""
    return _Widening(map_bodies(graph, widen_halves)).run() if has_halves(graph) else graph


class _Widening:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.types, self.free = graph, graph.types, unused_number(graph)
        self.equations: list[Equation] = []
        self.wide: dict[int, int] = {}  # values of float16 as float32

    def run(self) -> Graph:
        for e in self.graph.equations:
            if not self.widened(e):
                self.equations.append(e)
        return renumber(replace(self.graph, equations=tuple(self.equations)))

    def type_of(self, o: Operand) -> Type:
        return self.types[o] if isinstance(o, int) else o.type

    def widened(self, e: Equation) -> bool:
        """Write an equation in float32; false if it stays as it is."""
        given = [self.type_of(o) for o in e.inputs]
        if not any(t.dtype == HALF for t in (*given, *e.types)) or not _is_suited(e, given):
            return False
        if e.op in (cast, truncate):
            return self.converted(e, given[0])
        operands = [self.operand(e, o, t) for o, t in zip(e.inputs, given, strict=True)]
        if None in operands:
            return False
        wide = [o for o in operands if o is not None]
        types = [self.type_of(o) for o in wide]
        found = type_rule(e.op, types, dict(e.params), weak_numbers(wide))
        wanted = tuple(Type(t.shape, SINGLE) if t.dtype == HALF else t for t in e.types)
        if (found if e.op.many else (found,)) != wanted:
            return False
        results = [self.new(t) for t in wanted]
        self.equations.append(Equation(e.op, tuple(wide), e.params, tuple(results), wanted, e.line))
        for result, number, t in zip(results, e.outputs, e.types, strict=True):
            dtype = {"dtype": t.dtype}
            self.equations.append(Equation(cast, (result,), dtype, (number,), (t,), e.line))
        return True

    def converted(self, e: Equation, given: Type) -> bool:
        """A conversion from float16 to another dtype, by way of float32: it has all numbers of float16."""
        (result,), (x,) = e.types, e.inputs
        if given.dtype != HALF or result.dtype in (HALF, SINGLE):
            return False
        self.equations.append(replace(e, inputs=(self.widen(x, e.line),)))
        return True

    def operand(self, e: Equation, o: Operand, t: Type) -> Operand | None:
        """An operand as one of float32; None if it is not known how NumPy takes it."""
        if t.dtype == HALF:
            return self.widen(o, e.line)
        if t.dtype.kind not in "f" and np.can_cast(t.dtype, HALF):
            return o  # a bool or a small integer
        if isinstance(o, Literal) and o.is_weak and t.dtype.kind != "c":
            with np.errstate(over="ignore"):
                return Literal(np.asarray(HALF.type(o.value), SINGLE))  # which has the precision of the array beside it
        gives_half, is_test = (any(r.dtype == d for r in e.types) for d in (HALF, np.dtype(bool)))
        if not gives_half and (t.shape or not is_test):
            return o  # of a dtype that has all numbers of float16
        if gives_half and t.dtype.kind in "fi" and not t.shape:  # a Python number: beside an array of that dtype, it would not
            return self.widen(self.add(cast, o, Type((), HALF), e.line), e.line)
        return None

    def widen(self, o: Operand, line: str) -> Operand:
        if isinstance(o, Literal):
            return Literal(o.value.astype(SINGLE))
        if o not in self.wide:
            self.wide[o] = self.add(cast, o, Type(self.types[o].shape, SINGLE), line)
        return self.wide[o]

    def add(self, op: Op, o: Operand, t: Type, line: str) -> int:
        number = self.new(t)
        self.equations.append(Equation(op, (o,), {"dtype": t.dtype}, (number,), (t,), line))
        return number

    def new(self, t: Type) -> int:
        number, self.free = self.free, self.free + 1
        self.types[number] = t
        return number


def _is_suited(e: Equation, given: Sequence[Type]) -> bool:
    """Whether an op gives NumPy's results if it is computed in float32 and rounded at its end."""
    if e.op in _AS_THEY_ARE:
        return False
    if isinstance(e.op, (Elementwise, Constant)) or e.op in _WHOLE:
        return True
    return e.op is sum_ and _are_last(e.params, given[0].ndim)


def _are_last(params: Any, ndim: int) -> bool:
    axes = sorted(params["axis"])
    return axes == list(range(ndim - len(axes), ndim))
