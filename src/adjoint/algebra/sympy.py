"""Terms as SymPy expressions, and back. SymPy is imported on first use."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ..core.errors import AdjointError, UnsupportedError
from . import terms
from .convert import apply
from .terms import PI, Number, Term, is_integer, number, post_order


class MissingError(AdjointError, ImportError):
    """An optional package that is not installed."""


def load() -> Any:
    try:
        return importlib.import_module("sympy")
    except ImportError:
        raise MissingError("SymPy is not installed; pip install sympy") from None


# ours: SymPy's, where the names differ
_NAMES = {
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "atan2",
    "abs": "Abs",
    "ceil": "ceiling",
    "maximum": "Max",
    "minimum": "Min",
    "fmax": "Max",
    "fmin": "Min",
    "equal": "Eq",
    "not_equal": "Ne",
    "less": "Lt",
    "less_equal": "Le",
    "greater": "Gt",
    "greater_equal": "Ge",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_not": "Not",
    "gammaln": "loggamma",
    "psi": "digamma",
    "remainder": "Mod",
}
_SAME = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "sign",
        "floor",
        "erf",
        "erfc",
        "erfi",
        "erfinv",
        "erfcinv",
        "gamma",
        "beta",
        "loggamma",
        "digamma",
        "zeta",
    ]
)
# written out in SymPy's terms
_WRITTEN: dict[str, Callable[..., Any]] = {
    "exp2": lambda s, x: 2**x,
    "expm1": lambda s, x: s.exp(x) - 1,
    "log1p": lambda s, x: s.log(1 + x),
    "log2": lambda s, x: s.log(x) / s.log(2),
    "log10": lambda s, x: s.log(x) / s.log(10),
    "expit": lambda s, x: 1 / (1 + s.exp(-x)),
    "logit": lambda s, x: s.log(x / (1 - x)),
    "log_expit": lambda s, x: -s.log(1 + s.exp(-x)),
    "hypot": lambda s, a, b: s.sqrt(a**2 + b**2),
    "cbrt": lambda s, x: s.sign(x) * s.Abs(x) ** s.Rational(1, 3),
    "sinc": lambda s, x: s.sinc(s.pi * x),
    "deg2rad": lambda s, x: s.pi * x / 180,
    "rad2deg": lambda s, x: 180 * x / s.pi,
    "logaddexp": lambda s, a, b: s.log(s.exp(a) + s.exp(b)),
    "xlogy": lambda s, a, b: a * s.log(b),
    "xlog1py": lambda s, a, b: a * s.log(1 + b),
    "trunc": lambda s, x: s.sign(x) * s.floor(s.Abs(x)),
    "floor_divide": lambda s, a, b: s.floor(a / b),
    "where": lambda s, c, a, b: s.Piecewise((a, c), (b, True)),
    "stop_gradient": lambda s, x: x,
    "pi": lambda s: s.pi,
}


def to_sympy(root: Term) -> Any:
    """The same expression in SymPy, over plain symbols."""
    s = load()
    done: dict[Term, Any] = {}
    for term in post_order(root):
        if term.kind == "number":
            done[term] = _number(s, term.head)
        elif term.kind == "symbol":
            done[term] = s.Symbol(term.head)
        elif term.kind == "sum":
            done[term] = s.Add(_number(s, term.head), *(_number(s, c) * done[t] for c, t in term.parts))
        elif term.kind == "product":
            done[term] = s.Mul(_number(s, term.head), *(done[b] ** done[e] for b, e in term.parts))
        else:
            done[term] = _function(s, term.head)(*(done[t] for t in term.parts))
    return done[root]


def _number(s: Any, value: Number) -> Any:
    return s.Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else s.Float(value)


def _function(s: Any, name: str) -> Callable[..., Any]:
    if name in _WRITTEN:
        written = _WRITTEN[name]
        return lambda *args: written(s, *args)
    if name in _SAME or name in _NAMES:
        return getattr(s, _NAMES.get(name, name))
    raise UnsupportedError(f"{name!r} has no counterpart in SymPy")


_BACK = {
    **{theirs: ours for ours, theirs in _NAMES.items() if ours not in ("fmax", "fmin")},
    "Equality": "equal",
    "Unequality": "not_equal",
    "StrictLessThan": "less",
    "LessThan": "less_equal",
    "StrictGreaterThan": "greater",
    "GreaterThan": "greater_equal",
    "loggamma": "gammaln",
    "digamma": "psi",
    **{name: name for name in _SAME if name not in ("loggamma", "digamma")},
}
_REWRITTEN = {"sec": "cos", "csc": "sin", "cot": "tan", "sech": "cosh", "csch": "sinh", "coth": "tanh"}


def from_sympy(expression: Any, names: Mapping[str, Term]) -> Term:
    """The term of a SymPy expression over the given names."""
    s = load()
    done: dict[Any, Term] = {}
    stack: list[tuple[Any, bool]] = [(s.sympify(expression), False)]
    while stack:
        node, is_ready = stack.pop()
        if node in done:
            continue
        if is_ready or not node.args:
            done[node] = _term(s, node, [done.get(a) for a in node.args], names)
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)
    return terms.arithmetic(done[s.sympify(expression)])


def _term(s: Any, node: Any, args: list[Any], names: Mapping[str, Term]) -> Term:
    name = type(node).__name__
    if node.is_Symbol:
        if node.name not in names:
            raise UnsupportedError(
                f"the symbol {node.name} of the SymPy expression is not among the names given ({', '.join(names)})"
            )
        return names[node.name]
    if node in (s.true, s.false):
        return number(node == s.true)
    if name == "ExprCondPair":
        return terms.ZERO  # read by the enclosing Piecewise
    if name == "Piecewise":
        return _piecewise(s, node, names)
    if node.is_Rational:
        return number(Fraction(int(node.p), int(node.q)))
    if node == s.pi:
        return PI
    if node.is_number and not args:
        if not node.is_extended_real:
            raise UnsupportedError(f"{node} of the SymPy expression is not a real number")
        return number(float(node))
    if node.is_Add:
        return terms.add(*args)
    if node.is_Mul:
        return terms.multiply(*args)
    if node.is_Pow:
        return terms.power(*args)
    if name in _REWRITTEN:
        return terms.divide(terms.ONE, terms.call(_REWRITTEN[name], *args))
    if name == "polygamma" and is_integer(args[0]):
        n = int(args[0].head)
        scaled_zeta = terms.scale(Fraction(-math.factorial(n) * (-1) ** n), terms.call("zeta", number(n + 1), args[1]))
        return scaled_zeta if n else terms.call("psi", args[1])
    if name == "sinc":
        return terms.divide(terms.call("sin", *args), args[0])
    if name in _BACK:
        ours = _BACK[name]
        result = args[0] if len(args) > 1 else apply(ours, *args)
        if ours in ("maximum", "minimum", "logical_and", "logical_or"):
            for a in args[1:]:
                result = apply(ours, result, a)
            return result
        return apply(ours, *args)
    raise UnsupportedError(f"{name} of the SymPy expression has no counterpart here")


def _piecewise(s: Any, node: Any, names: Mapping[str, Term]) -> Term:
    *pairs, (last, condition) = node.args
    if condition != s.true:
        raise UnsupportedError("a Piecewise without a last case that always holds has no value in between")
    result = from_sympy(last, names)
    for value, condition in reversed(pairs):
        result = terms.where(from_sympy(condition, names), from_sympy(value, names), result)
    return result
