"""Between graphs and terms: a graph of scalars read as a term, a term run on values (traced ones too)."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import OPS, Op
from ..ir.graph import Equation, Graph, Literal
from ..ops.broadcast import broadcast_to, cast, conj, real, reshape, sum_, transpose
from ..ops.elementwise import (
    add,
    div,
    ieee_mul,
    mul,
    neg,
    pos,
    power,
    reciprocal,
    sin,
    sinc,
    sqrt,
    square,
    strong_mul_either_op,
    strong_mul_op,
    sub,
)
from . import canonical
from .terms import ONE, PI, Number, Term, number, post_order

# -- graphs to terms --------------------------------------------------------------------------------------------

_SAME: frozenset[Op] = frozenset({pos, cast, reshape, broadcast_to, transpose, sum_, real, conj})  # of one real number
_RULES: dict[Op, Callable[..., Term]] = {
    add: canonical.add,
    sub: canonical.subtract,
    mul: canonical.multiply,
    strong_mul_op: canonical.multiply,
    strong_mul_either_op: canonical.multiply,
    ieee_mul: canonical.multiply,
    div: canonical.divide,
    power: canonical.power,
    neg: lambda x: canonical.scale(Fraction(-1), x),
    square: lambda x: canonical.power(x, number(2)),
    reciprocal: lambda x: canonical.divide(ONE, x),
}


def apply(name: str, *args: Term) -> Term:
    """An op by its name, on terms."""
    rule = _RULES.get(OPS[name])
    return rule(*map(canonical.arithmetic, args)) if rule else canonical.call(name, *args)


def from_graph(graph: Graph, inputs: Sequence[Term]) -> Term:
    """The term that a graph of scalars with one output computes."""

    def term(equation: Equation, operands: list[Any]) -> Term:
        name = equation.op.name
        shapes = [t.shape for t in equation.types] + [o.type.shape for o in equation.inputs if isinstance(o, Literal)]
        if len(equation.types) != 1 or any(shapes) or equation.types[0].dtype.kind not in "fbiu":
            raise _unsupported(f"{name} gives or takes an array or a complex number", equation)
        args = [_constant(o, equation) if isinstance(o, Literal) else x for o, x in zip(equation.inputs, operands, strict=True)]
        if equation.op in _SAME and len(args) == 1:
            return args[0]
        if equation.params:
            raise _unsupported(f"{name} has options", equation)
        return apply(name, *args)

    (output,) = graph.outputs
    found = graph.evaluate(inputs, term)
    return canonical.arithmetic(_constant(output, None) if isinstance(output, Literal) else found[output])


def _constant(literal: Literal, equation: Equation | None) -> Term:
    value = literal.value
    if np.ndim(value) or np.asarray(value).dtype.kind not in "fbiu":
        raise _unsupported(f"the constant {value!r} is not a real number", equation)
    return number(value if isinstance(value, int | float) else value.item())


def _unsupported(what: str, equation: Equation | None) -> UnsupportedError:
    line = f" at {equation.line}" if equation is not None and equation.line else ""
    return UnsupportedError(f"an expression is made of real scalars, but {what}{line}; use ad.graph for functions of arrays")


# -- terms to values --------------------------------------------------------------------------------------------


def plain(value: Number) -> Any:
    return np.float64(value)


def evaluate(root: Term, values: Mapping[str, Any]) -> Any:
    """The value of a term."""
    with np.errstate(all="ignore"):
        return _Evaluation(values, plain, False).run(root)


def evaluate_staged(root: Term, values: Mapping[str, Any], numbers: Mapping[Number, Any]) -> Any:
    """As `evaluate`, for differentiation: numbers are taken from `numbers`, where they are staged and stay exact, and functions
    whose rules switch formulas near a point are expanded."""
    return _Evaluation(values, lambda n: numbers[n] if n in numbers else plain(n), True).run(root)


def numbers_of(root: Term) -> list[Number]:
    """The numbers in a term, except 0, 1 and -1."""
    found: dict[Number, None] = {math.pi: None}
    for term in post_order(root):
        numbers = [term.head] if term.kind in ("number", "sum", "product") else []
        numbers += [c for c, _ in term.parts] if term.kind == "sum" else []
        numbers += [-e.head for _, e in term.parts if e.is_number] if term.kind == "product" else []
        found.update(dict.fromkeys(n for n in numbers if n not in (0, 1, -1) and n == n))  # nan does not equal itself
    return list(found)


class _Evaluation:
    def __init__(self, values: Mapping[str, Any], number_: Callable[[Number], Any], is_staged: bool) -> None:
        self.values, self.number, self.is_staged = values, number_, is_staged
        self.done: dict[Term, Any] = {}

    def run(self, root: Term) -> Any:
        for term in post_order(root):
            self.done[term] = getattr(self, term.kind)(term) if term.kind != "number" else self.number(term.head)
        return self.done[root]

    def symbol(self, term: Term) -> Any:
        return self.values[term.head]

    def call(self, term: Term) -> Any:
        if term == PI:
            return self.number(math.pi)
        args = [self.done[t] for t in term.parts]
        if OPS[term.head] is sinc and self.is_staged:
            angle = self.number(math.pi) * args[0]
            return sin(angle) / angle
        return OPS[term.head](*args)

    def sum(self, term: Term) -> Any:
        total: Any = None
        for coefficient, t in term.parts:
            x = self.done[t]
            if total is not None and coefficient == -1:
                total = total - x
                continue
            x = x if coefficient == 1 else -x if coefficient == -1 else self.number(coefficient) * x
            total = x if total is None else total + x
        return total if term.head == 0 else total + self.number(term.head)

    def product(self, term: Term) -> Any:
        above, below = [], []
        for base, exponent in term.parts:
            x = self.done[base]
            if not exponent.is_number:
                above.append(x ** self.done[exponent])
            elif exponent.head > 0:
                above.append(self.power(x, exponent.head))
            else:
                below.append(self.power(x, -exponent.head))
        coefficient, denominator = (term.head, Fraction(1)) if self.is_staged else _ratio(term.head)
        if denominator != 1:
            below.insert(0, self.number(denominator))
        if abs(coefficient) != 1 or not above:
            above.insert(0, self.number(coefficient))
        elif coefficient == -1:
            above[0] = -above[0]
        result = functools.reduce(operator.mul, above)
        return result / functools.reduce(operator.mul, below) if below else result

    def power(self, x: Any, n: Number) -> Any:
        if n == 1:
            return x
        if n == Fraction(1, 2):
            return sqrt(x)
        if isinstance(n, Fraction) and n.denominator == 1:
            return x ** int(n)
        return x ** self.number(n)


def _ratio(value: Number) -> tuple[Number, Number]:
    """Numerator and denominator; a float has the denominator 1."""
    if isinstance(value, float):
        return value, Fraction(1)
    return Fraction(value.numerator), Fraction(value.denominator)
