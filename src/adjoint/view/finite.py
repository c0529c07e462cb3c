"""Which values of a graph are finite wherever its inputs are: products with them need no strong zero.

    where(g != 0, g * p, 0)  →  g * p          if p is finite
    where(live, g * p, 0)    →  g * p          if p is finite, and g is zero wherever live is False (`Masks`)

A quotient is finite if its divisor has a positive lower bound, as in 1 / (1 + exp(-x)). Generated source for people to read uses
this. Overflow is not considered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ..core.op import Linear, Multilinear, Op
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from ..ops.broadcast import broadcast_to, reshape, sum_, transpose, where
from ..ops.elementwise import (
    absolute,
    add,
    div,
    equal,
    exp,
    exp2,
    hypot,
    ieee_mul,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    neg,
    not_equal,
    sqrt,
    square,
    strong_mul_either_op,
    strong_mul_op,
    sub,
)
from ..ops.index import getitem
from ..ops.reduce import max_, min_

_STRUCTURED: frozenset[Op] = frozenset({control.scan, control.while_, control.while_vjp, control.cond, control.checkpoint})


def is_tame(o: Operand, tame: set[int]) -> bool:
    return o in tame if isinstance(o, int) else bool(np.all(np.isfinite(o.value)))


class Finite(set[int]):
    """Values that are finite, with the lower bounds of those that are known not to be negative."""

    def __init__(self, values: Iterable[int] = (), least: dict[int, float] | None = None) -> None:
        super().__init__(values)
        self.least: dict[int, float] = {} if least is None else least

    def bound(self, o: Operand) -> float:
        """A lower bound, if there is one that is not negative."""
        if isinstance(o, int):
            return self.least.get(o, -math.inf)
        value = np.asarray(o.value)
        return float(value.min()) if value.dtype.kind in "iuf" and value.size and np.all(value >= 0) else -math.inf


def finite(graph: Graph, inputs: Iterable[int] | None = None) -> Finite:
    """The values that are finite if those inputs are, all of them by default, and nothing overflows."""
    known, types = inputs.least if isinstance(inputs, Finite) else {}, graph.types
    tame = Finite(range(len(graph.input_types)) if inputs is None else inputs, dict(known))
    never = set[Operand]()  # tests for nan of finite values
    for equation in graph.equations:
        op = equation.op
        if op is isnan and is_tame(equation.inputs[0], tame):
            never.update(equation.outputs)
        if op is where and equation.inputs[0] in never and is_tame(equation.inputs[2], tame):
            tame.update(equation.outputs)
        if op in _STRUCTURED:
            for n, least in _finite_results(equation, tame):
                tame.add(n)
                tame.least |= {n: least} if least >= 0 else {}
            continue
        if all(is_tame(o, tame) for o in equation.inputs) and (op.finite or (op is div and tame.bound(equation.inputs[1]) > 0)):
            tame.update(equation.outputs)
        if len(equation.outputs) == 1 and (least := _lower_bound(equation, tame, types)) >= 0:
            tame.least[equation.outputs[0]] = least
    return tame


_NOT_NEGATIVE = frozenset({square, absolute, sqrt, hypot})
_LEAST_POWER = 1e-300  # of exp: that it underflows is not considered either
#: Ops of which every element is one of the first operand.
_MOVES = frozenset({getitem, reshape, broadcast_to, transpose, max_, min_})


def _lower_bound(equation: Equation, tame: Finite, types: dict[int, Type]) -> float:
    """A lower bound of a result, if there is one that is not negative."""
    op, inputs = equation.op, equation.inputs
    if op in (exp, exp2):
        return _LEAST_POWER if equation.types[0].dtype.kind == "f" else -math.inf
    if op in _NOT_NEGATIVE and equation.types[0].dtype.kind != "c":
        return 0.0
    bounds = [tame.bound(o) for o in inputs]
    if op is mul and inputs[0] == inputs[1] and equation.types[0].dtype.kind == "f":
        return 0.0
    if op is maximum:
        return max(bounds)
    if op in (add, mul, minimum) and min(bounds) >= 0:
        return bounds[0] + bounds[1] if op is add else bounds[0] * bounds[1] if op is mul else min(bounds)
    if op is div and bounds[0] >= 0 and bounds[1] > 0:
        return 0.0
    if op in _MOVES:
        return bounds[0]
    if op is sum_ and bounds[0] >= 0:
        summed = inputs[0].type if isinstance(inputs[0], Literal) else types[inputs[0]]
        return bounds[0] if summed.size else 0.0
    return -math.inf


def operands(inputs: Sequence[Operand], tame: set[int]) -> Finite:
    """The operands that are finite, by place."""
    known = tame if isinstance(tame, Finite) else Finite(tame)
    bounds = {i: known.bound(o) for i, o in enumerate(inputs)}
    return Finite((i for i, o in enumerate(inputs) if is_tame(o, tame)), {i: b for i, b in bounds.items() if b >= 0})


def ordinary_products(graph: Graph, tame: set[int], pairs: Pairs = frozenset()) -> Graph:
    """Without a strong zero where that is the same: no factor that a zero would have to win over is infinite or nan.

    Of the pairs of inputs, the second is known to be zero wherever the first is False.
    """
    made: dict[int, Equation] = {}
    masks = Masks(graph, tame, pairs, made)
    for equation in graph.equations:
        ordinary = _ordinary(equation, masks)
        made |= dict.fromkeys(equation.outputs, ordinary)
    needed, kept = {o for o in graph.outputs if isinstance(o, int)}, list[Equation]()
    for equation in reversed([made[e.outputs[0]] if e.outputs else e for e in graph.equations]):
        if not needed.isdisjoint(equation.outputs):
            needed.update(o for o in equation.inputs if isinstance(o, int))
            kept.append(equation)
    return replace(graph, equations=tuple(kept[::-1]))


G = TypeVar("G", bound=Graph)


def ordinary(graph: G, tame: set[int] | None = None, pairs: Pairs = frozenset()) -> G:
    """A graph whose products are ordinary ones where no factor can be infinite or nan for finite arguments, in loops too."""
    tame = finite(graph) if tame is None else tame
    masks = Masks(graph, tame, pairs)
    equations = []
    for equation in ordinary_products(graph, tame, pairs).equations:
        bodies = {}
        for key, (body, known) in _bodies(equation, tame).items():
            bodies[key] = ordinary(body, known, masks.pairs_inside(equation, key, known))
        equations.append(replace(equation, params={**equation.params, **bodies}) if bodies else equation)
    return replace(graph, equations=tuple(equations))


def _bodies(equation: Equation, tame: set[int]) -> dict[str, tuple[Graph, Finite]]:
    """The graphs of a loop or a branch, each with its finite values."""
    params, inputs = equation.params, equation.inputs
    if equation.op is control.cond:
        known = operands(inputs[1:], tame)
        return {key: (params[key], finite(params[key], known)) for key in ("true", "false")}
    if equation.op is control.checkpoint:
        return {"body": (params["body"], finite(params["body"], operands(inputs, tame)))}
    if equation.op is control.scan:
        return {"body": (params["body"], loop_tame(params["body"], equation, tame, params["consts"], params["carries"]))}
    if equation.op is control.while_:
        inner = replace(equation, inputs=inputs[params["cond_consts"] :])
        return {"body": (params["body"], loop_tame(params["body"], inner, tame, params["body_consts"], len(equation.outputs)))}
    if equation.op is not control.while_vjp:
        return {}
    step, pull, consts, count = params["step"], params["pull"], params["consts"], len(params["wanted"])
    forward = loop_tame(step, replace(equation, inputs=inputs[1 : 1 + count]), tame, consts, count - consts)
    known = Finite(
        {i for i in range(count) if i in forward} | {i for i in range(count, len(inputs) - 1) if is_tame(inputs[1 + i], tame)}
    )
    last = len(pull.outputs) - (len(inputs) - 1 - count)  # the first results are totals
    while True:
        found = finite(pull, known)
        lost = {count + i for i, o in enumerate(pull.outputs[last:]) if not is_tame(o, found)} & known
        if not lost:
            return {"step": (step, forward), "pull": (pull, found)}
        known -= lost


def _ordinary(equation: Equation, masks: Masks) -> Equation:
    op, inputs = equation.op, equation.inputs
    if op in (strong_mul_op, strong_mul_either_op):
        pairs = [inputs] if op is strong_mul_op else [inputs, inputs[::-1]]  # a zero of the first wins over what the second is
        if all(is_tame(p, masks.tame) or not _may_be_zero(g) for g, p in pairs):
            return replace(equation, op=mul)
    if op is where and _is_zero(inputs[2]) and isinstance(inputs[1], int):  # where(g != 0, g * p, 0)
        product = masks.made.get(inputs[1])
        if product is not None and product.op in (mul, ieee_mul) and product.types == equation.types:
            return replace(product, op=mul, outputs=equation.outputs) if masks.is_zero(inputs[1], inputs[0]) else equation
    return equation


# -- masks --------------------------------------------------------------------------------------------------------------

Pairs = frozenset[tuple[Operand, Operand]]  # masks, and values that are zero wherever they are False


class Masks:
    """Finds values that are zero wherever a mask is False, as the masks of cotangents are made."""

    def __init__(self, graph: Graph, tame: set[int], pairs: Pairs, made: dict[int, Equation] | None = None) -> None:
        self.tame, self.pairs = tame, pairs
        self.made = {n: e for e in graph.equations for n in e.outputs} if made is None else made
        self.types = graph.types
        self.known: dict[tuple[Operand, Operand], bool] = {}

    def is_zero(self, x: Operand, mask: Operand) -> bool:
        """Whether x is zero wherever the mask is False, if all values that are known to be finite are."""
        if isinstance(mask, Literal) and np.all(mask.value):
            return True
        if isinstance(x, Literal) and isinstance(mask, Literal):
            return not np.any(np.where(mask.value, 0, x.value))
        if isinstance(x, Literal) or isinstance(mask, Literal):
            return _is_zero(x)
        key = x, mask
        if key not in self.known:
            fits = _spreads(self.types[mask].shape, self.types[x].shape)
            rules = (self._by_mask, self._by_value, self._by_moves)
            self.known[key] = fits and (key[::-1] in self.pairs or any(rule(x, mask) for rule in rules))
        return self.known[key]

    def _by_mask(self, x: int, mask: int) -> bool:
        e = self.made.get(mask)
        if e is None:
            return False
        if e.op is logical_or:
            return any(self.is_zero(x, part) for part in e.inputs)
        if e.op is logical_and:
            return all(self.is_zero(x, part) for part in e.inputs)
        inner = self.made.get(e.inputs[0]) if e.op is logical_not and isinstance(e.inputs[0], int) else None
        test = inner if inner is not None and inner.op is equal else e if e.op is not_equal else None
        if test is not None and test.inputs[0] == x:
            return _is_zero(test.inputs[1])
        return e.op is control.cond and e is self.made.get(x) and self._by_branches(e, x, mask)

    def _by_value(self, x: int, mask: int) -> bool:
        e = self.made.get(x)
        if e is None:
            return False
        if e.op is where:
            test, a, b = e.inputs
            return (test == mask and _is_zero(b)) or (self.is_zero(a, mask) and self.is_zero(b, mask))
        if e.op in (mul, ieee_mul):
            a, b = e.inputs
            return any(self.is_zero(p, mask) and is_tame(q, self.tame) for p, q in ((a, b), (b, a)))
        return e.op in (add, sub, neg) and all(self.is_zero(o, mask) for o in e.inputs)

    def _by_moves(self, x: int, mask: int) -> bool:
        """Whether an op moves the elements of a value and of its mask to the same places: an index, a write, a transpose."""
        e, of = self.made.get(x), self.made.get(mask)
        if e is None or of is None or e.op is not of.op or not isinstance(e.op, Linear) or isinstance(e.op, Multilinear):
            return False
        if not e.op.terms or e.params != of.params or len(e.inputs) != len(of.inputs):
            return False
        pairs = zip(e.inputs, of.inputs, strict=True)
        return all(p == q or (self._shape(p) == self._shape(q) and self.is_zero(p, q)) for p, q in pairs)

    def _shape(self, o: Operand) -> tuple[int, ...]:
        return o.type.shape if isinstance(o, Literal) else self.types[o].shape

    def _by_branches(self, e: Equation, x: int, mask: int) -> bool:
        places = e.outputs.index(x), e.outputs.index(mask)
        for key, (body, known) in _bodies(e, self.tame).items():
            inside = Masks(body, known, self.pairs_inside(e, key, known))
            if not inside.is_zero(*(body.outputs[i] for i in places)):
                return False
        return True

    def pairs_inside(self, e: Equation, key: str, tame: set[int]) -> Pairs:
        """The pairs of a loop's carries, or of a branch's operands, that hold whenever the body runs."""
        body = e.params[key]
        if e.op is control.cond:
            return self._given(e.inputs[1:], body.input_types)
        if e.op is control.scan:
            first, last = e.params["consts"], 0
            start = e.inputs[first : first + e.params["carries"]]
        elif e.op is control.while_vjp and key == "pull":
            first = len(e.params["wanted"])
            start = e.inputs[1 + first :]
            last = len(body.outputs) - len(start)
        else:
            return frozenset()
        pairs = {(first + b, first + x) for b, x in self._given(start, body.input_types[first : first + len(start)])}
        while True:
            inside = Masks(body, tame, frozenset(pairs))
            after = {n: body.outputs[last + n - first] for pair in pairs for n in pair}
            lost = {(b, x) for b, x in pairs if not inside.is_zero(after[x], after[b])}
            if not lost:
                return frozenset(pairs)
            pairs -= lost

    def _given(self, operands: Sequence[Operand], types: Sequence[Type]) -> Pairs:
        """The pairs among operands, by place."""
        places = range(len(operands))
        return frozenset(
            (b, x)
            for b in places
            for x in places
            if types[b].dtype.kind == "b"
            and types[x].dtype.kind == "f"
            and _spreads(types[b].shape, types[x].shape)
            and self.is_zero(operands[x], operands[b])
        )


def _spreads(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    tail = large[len(large) - len(small) :]
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, tail, strict=True))


def _may_be_zero(o: Operand) -> bool:
    return not isinstance(o, Literal) or not np.all(o.value)


def _is_zero(o: Operand) -> bool:
    return isinstance(o, Literal) and not np.any(o.value)


def _finite_results(equation: Equation, tame: set[int]) -> Iterator[tuple[int, float]]:
    """The finite results of a loop or a branch, with their lower bounds."""
    if equation.op is control.while_vjp:
        pull, found = _bodies(equation, tame)["pull"]
        yield from ((n, -math.inf) for n, o in zip(equation.outputs, pull.outputs, strict=True) if is_tame(o, found))
        return
    bodies = _bodies(equation, tame).values()
    stacked = equation.params["carries"] if equation.op is control.scan else len(equation.outputs)
    for i, n in enumerate(equation.outputs):
        if all(is_tame(body.outputs[i], found) for body, found in bodies):
            yield n, min(found.bound(body.outputs[i]) for body, found in bodies) if i >= stacked else -math.inf


def loop_tame(body: Graph, equation: Equation, tame: set[int], consts: int, carries: int) -> Finite:
    """The finite values of a body: a carry is one if it starts so and every iteration keeps it so."""
    known = operands(equation.inputs, tame)
    for i in range(consts, consts + carries):
        known.least.pop(i, None)
    while True:
        found = finite(body, known)
        lost = {consts + i for i, o in enumerate(body.outputs[:carries]) if not is_tame(o, found)} & known
        if not lost:
            return found
        known -= lost
