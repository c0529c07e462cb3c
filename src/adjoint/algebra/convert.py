"""Between graphs and terms: a graph of scalars read as a term, a term run on values (traced ones too)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import OPS
from ..ir.graph import Equation, Graph, Literal, Operand
from . import terms
from .terms import ONE, PI, Number, Term, number, post_order

# -- graphs to terms --------------------------------------------------------------------------------------------

_SAME = frozenset({"pos", "cast", "reshape", "broadcast_to", "transpose", "sum", "real", "conj", "mean"})  # of one real number
_RULES: dict[str, Callable[..., Term]] = {
    "add": terms.add,
    "sub": terms.subtract,
    "mul": terms.multiply,
    "chain": terms.multiply,
    "absorb": terms.multiply,
    "div": terms.divide,
    "power": terms.power,
    "neg": lambda x: terms.scale(Fraction(-1), x),
    "square": lambda x: terms.power(x, number(2)),
    "reciprocal": lambda x: terms.divide(ONE, x),
}


def apply(name: str, *args: Term) -> Term:
    """An op by its name, on terms."""
    rule = _RULES.get(name)
    return rule(*map(terms.arithmetic, args)) if rule else terms.call(name, *args)


def from_graph(graph: Graph, inputs: Sequence[Term]) -> Term:
    """The term that a graph of scalars with one output computes."""
    environment: dict[int, Term] = dict(enumerate(inputs))

    def read(operand: Operand, equation: Equation | None) -> Term:
        if isinstance(operand, int):
            return environment[operand]
        return _constant(operand, equation)

    for equation in graph.equations:
        name = equation.op.name
        shapes = [t.shape for t in equation.types] + [o.type.shape for o in equation.inputs if isinstance(o, Literal)]
        if len(equation.types) != 1 or any(shapes) or equation.types[0].dtype.kind not in "fbiu":
            raise _unsupported(f"{name} gives or takes an array or a complex number", equation)
        args = [read(o, equation) for o in equation.inputs]
        if name in _SAME and len(args) == 1:
            result = args[0]
        elif equation.params:
            raise _unsupported(f"{name} has options", equation)
        else:
            result = apply(name, *args)
        environment[equation.outputs[0]] = result
    return terms.arithmetic(read(graph.outputs[0], None))


def _constant(literal: Literal, equation: Equation | None) -> Term:
    value = literal.value
    if np.ndim(value) or np.asarray(value).dtype.kind not in "fbiu":
        raise _unsupported(f"the constant {value!r} is not a real number", equation)
    return number(value if isinstance(value, int | float) else value.item())


def _unsupported(what: str, equation: Equation | None) -> UnsupportedError:
    line = f" at {equation.line}" if equation is not None and equation.line else ""
    return UnsupportedError(f"an expression is made of real scalars, but {what}{line}; use ad.graph for functions of arrays")


# -- terms to values --------------------------------------------------------------------------------------------


def evaluate(root: Term, values: Mapping[str, Any], *, elementary: bool = False) -> Any:
    """The value of a term. With `elementary`, functions whose rules hide a formula near a point are written out."""
    environment: dict[Term, Any] = {}
    with np.errstate(all="ignore"):
        for term in post_order(root):
            environment[term] = _evaluate(term, environment, values, elementary)
    return environment[root]


def _evaluate(term: Term, environment: Mapping[Term, Any], values: Mapping[str, Any], elementary: bool) -> Any:
    if term.kind == "number":
        return _plain(term.head)
    if term.kind == "symbol":
        return values[term.head]
    if term.kind == "sum":
        return _evaluate_sum(term, environment)
    if term.kind == "product":
        return _evaluate_product(term, environment)
    if term == PI:
        return math.pi
    args = [environment[t] for t in term.parts]
    if term.head == "sinc" and elementary:
        return OPS["sin"](math.pi * args[0]) / (math.pi * args[0])
    return OPS[term.head](*args)


def _plain(value: Number) -> Any:
    if isinstance(value, float):
        return np.float64(value)
    return np.float64(value.numerator / value.denominator)


def _evaluate_sum(term: Term, environment: Mapping[Term, Any]) -> Any:
    total: Any = None
    for coefficient, t in term.parts:
        x = environment[t]
        if total is not None and coefficient == -1:
            total = total - x
            continue
        x = x if coefficient == 1 else -x if coefficient == -1 else _plain(coefficient) * x
        total = x if total is None else total + x
    return total if term.head == 0 else total + _plain(term.head)


def _evaluate_product(term: Term, environment: Mapping[Term, Any]) -> Any:
    above: Any = None
    below: Any = None
    numerator, denominator = ratio(term.head)
    for base, exponent in term.parts:
        x = environment[base]
        is_below = exponent.is_number and exponent.head < 0
        if exponent.is_number:
            n = abs(exponent.head)
            factor = x if n == 1 else OPS["sqrt"](x) if n == Fraction(1, 2) else x ** (int(n) if n == int(n) else float(n))
        else:
            factor = x ** environment[exponent]
        if is_below:
            below = factor if below is None else below * factor
        else:
            above = factor if above is None else above * factor
    if denominator != 1:
        below = _plain(denominator) if below is None else _plain(denominator) * below
    if above is None:
        above = _plain(numerator)
    elif numerator != 1:
        above = -above if numerator == -1 else _plain(numerator) * above
    return above if below is None else above / below


def ratio(value: Number) -> tuple[Number, Number]:
    """Numerator and denominator; a float has the denominator 1."""
    if isinstance(value, float):
        return value, Fraction(1)
    return Fraction(value.numerator), Fraction(value.denominator)
