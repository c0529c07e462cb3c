"""Terms as SymPy expressions, and back. SymPy is imported on first use."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ..core.errors import AdjointError, UnsupportedError
from ..core.op import OPS, Op
from ..ops import elementwise as ops
from ..ops import gamma, special
from ..ops.broadcast import where
from . import canonical, terms
from .convert import apply
from .parse import FOLDED
from .terms import PI, Number, Term, is_integer, number, post_order


class MissingError(AdjointError, ImportError):
    """An optional package that is not installed."""


def load() -> Any:
    try:
        return importlib.import_module("sympy")
    except ImportError:
        raise MissingError("SymPy is not installed; pip install sympy") from None


#: SymPy's names.
_NAMES: dict[Op, str] = {
    **{op: op.name for op in (ops.sin, ops.cos, ops.tan, ops.sinh, ops.cosh, ops.tanh, ops.exp, ops.log, ops.sign, ops.floor)},
    **{op: op.name for op in (special.erf, special.erfc, special.erfi, special.erfinv, special.erfcinv)},
    **{op: op.name for op in (gamma.gamma, gamma.beta, gamma.loggamma, gamma.zeta)},
    **{op: op.name.replace("arc", "a") for op in (ops.arcsin, ops.arccos, ops.arctan, ops.arcsinh, ops.arccosh, ops.arctanh)},
    ops.arctan2: "atan2",
    ops.absolute: "Abs",
    ops.ceil: "ceiling",
    ops.maximum: "Max",
    ops.minimum: "Min",
    ops.fmax: "Max",
    ops.fmin: "Min",
    ops.equal: "Eq",
    ops.not_equal: "Ne",
    ops.less: "Lt",
    ops.less_equal: "Le",
    ops.greater: "Gt",
    ops.greater_equal: "Ge",
    ops.logical_and: "And",
    ops.logical_or: "Or",
    ops.logical_not: "Not",
    ops.remainder: "Mod",
    gamma.gammaln: "loggamma",
    gamma.psi: "digamma",
}
# written out in SymPy's terms
_WRITTEN: dict[Op, Callable[..., Any]] = {
    ops.exp2: lambda s, x: 2**x,
    ops.expm1: lambda s, x: s.exp(x) - 1,
    ops.log1p: lambda s, x: s.log(1 + x),
    ops.log2: lambda s, x: s.log(x) / s.log(2),
    ops.log10: lambda s, x: s.log(x) / s.log(10),
    ops.expit: lambda s, x: 1 / (1 + s.exp(-x)),
    special.logit: lambda s, x: s.log(x / (1 - x)),
    special.log_expit: lambda s, x: -s.log(1 + s.exp(-x)),
    ops.hypot: lambda s, a, b: s.sqrt(a**2 + b**2),
    ops.cbrt: lambda s, x: s.sign(x) * s.Abs(x) ** s.Rational(1, 3),
    ops.sinc: lambda s, x: s.sinc(s.pi * x),
    ops.deg2rad: lambda s, x: s.pi * x / 180,
    ops.rad2deg: lambda s, x: 180 * x / s.pi,
    ops.logaddexp: lambda s, a, b: s.log(s.exp(a) + s.exp(b)),
    special.xlogy: lambda s, a, b: a * s.log(b),
    special.xlog1py: lambda s, a, b: a * s.log(1 + b),
    ops.trunc: lambda s, x: s.sign(x) * s.floor(s.Abs(x)),
    ops.floor_divide: lambda s, a, b: s.floor(a / b),
    where: lambda s, c, a, b: s.Piecewise((a, c), (b, True)),
    ops.stop_gradient: lambda s, x: x,
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
    if name == PI.head:
        return lambda: s.pi
    op = OPS[name]
    if op in _WRITTEN:
        return functools.partial(_WRITTEN[op], s)
    if op in _NAMES:
        return getattr(s, _NAMES[op])  # type: ignore[no-any-return]
    raise UnsupportedError(f"{name!r} has no counterpart in SymPy")


_BACK: dict[str, Op] = {
    **{theirs: ours for ours, theirs in _NAMES.items() if ours not in (ops.fmax, ops.fmin, gamma.loggamma)},
    "Equality": ops.equal,
    "Unequality": ops.not_equal,
    "StrictLessThan": ops.less,
    "LessThan": ops.less_equal,
    "StrictGreaterThan": ops.greater,
    "GreaterThan": ops.greater_equal,
}
_REWRITTEN = {"sec": ops.cos, "csc": ops.sin, "cot": ops.tan, "sech": ops.cosh, "csch": ops.sinh, "coth": ops.tanh}


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
    return canonical.arithmetic(done[s.sympify(expression)])


def _term(s: Any, node: Any, args: list[Any], names: Mapping[str, Term]) -> Term:
    """The term of a node, whose arguments have been read: a symbol, a number, arithmetic, a choice, or a function."""
    if node.is_Symbol:
        if node.name not in names:
            raise UnsupportedError(
                f"the symbol {node.name} of the SymPy expression is not among the names given ({', '.join(names)})"
            )
        return names[node.name]
    if node in (s.true, s.false):
        return number(node == s.true)
    if node.is_Rational:
        return number(Fraction(int(node.p), int(node.q)))
    if node == s.pi:
        return PI
    if node.is_number and not args:
        if not node.is_extended_real:
            raise UnsupportedError(f"{node} of the SymPy expression is not a real number")
        return number(float(node))
    if node.is_Add:
        return canonical.add(*args)
    if node.is_Mul:
        return canonical.multiply(*args)
    if node.is_Pow:
        return canonical.power(*args)
    name = type(node).__name__
    if name == "ExprCondPair":
        return terms.ZERO  # read by the enclosing Piecewise
    if name == "Piecewise":
        return _piecewise(s, node, names)
    return _call(name, args)


def _call(name: str, args: list[Term]) -> Term:
    """The term of SymPy's function of this name."""
    if name in _REWRITTEN:
        return canonical.divide(terms.ONE, canonical.call(_REWRITTEN[name].name, *args))
    if name == "polygamma" and is_integer(args[0]):
        return _polygamma(int(args[0].head), args[1])
    if name == "sinc":
        return canonical.divide(canonical.call(ops.sin.name, *args), args[0])
    if name in _BACK:
        ours = _BACK[name].name
        result = args[0] if len(args) > 1 else apply(ours, *args)
        if ours in FOLDED:
            for a in args[1:]:
                result = apply(ours, result, a)
            return result
        return apply(ours, *args)
    raise UnsupportedError(f"{name} of the SymPy expression has no counterpart here")


def _polygamma(n: int, x: Term) -> Term:
    """ψ(x) for n = 0, else −n! (−1)ⁿ ζ(n + 1, x)."""
    if n == 0:
        return canonical.call(gamma.psi.name, x)
    return canonical.scale(Fraction(-math.factorial(n) * (-1) ** n), canonical.call(gamma.zeta.name, number(n + 1), x))


def _piecewise(s: Any, node: Any, names: Mapping[str, Term]) -> Term:
    *pairs, (last, condition) = node.args
    if condition != s.true:
        raise UnsupportedError("a Piecewise without a last case that always holds has no value in between")
    result = from_sympy(last, names)
    for value, condition in reversed(pairs):
        result = canonical.where(from_sympy(condition, names), from_sympy(value, names), result)
    return result
