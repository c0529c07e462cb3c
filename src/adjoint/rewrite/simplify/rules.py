"""The rules of simplification: the left side of a rule may be replaced by its right side.

Conditions under which a rule preserves values:

nothing          the same bits for every input: infinities, nan (of any sign and payload) and signed zeros
rounding         the same, up to the last bits of the significand
unsigned zeros   the same, up to the sign of a zero, where that sign is not defined: in `strong_mul` and `strong_mul_either`, the
                 products of the chain rule, in which an exact zero wins over any other factor; and in sums of a single term
finite           that all values the program computes are finite and the sign of a zero is not looked at; the result may
                 differ by rounding. Used with assume="finite" only, and for integers, for which it is exact

A rule marked `real` is exact for real numbers only: the complex product (a + bi)(1 + 0i) contains b·0, which is nan for an
infinite b. For complex numbers it is used with assume="finite".

Derivatives are preserved too, where they are defined: a value that is constant for derivatives (`stop_gradient`) stays so. Those
of FINAL preserve values only: they are for graphs that are compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.op import OPS
from ...core.types import Shape, Type
from ...ops import broadcast, elementwise, index, linalg, reduce, shift  # noqa: F401 - they declare the ops named here
from .indices import joined
from .pattern import RESULT, ZERO, Computed, ConstantHole, Hole, Needs, OpPattern, Parameter, Rule, calls, computed

X, Y, Z = Hole("X"), Hole("Y"), Hole("Z")
C, D = ConstantHole("C"), ConstantHole("D")
A, B, K, S, T = Parameter("A"), Parameter("B"), Parameter("K"), Parameter("S"), Parameter("T")

RULES: list[Rule] = []
FINAL: list[Rule] = []


def rule(
    name: str,
    left: OpPattern,
    right: Any,
    when: Computed | None = None,
    *,
    needs: Needs = "nothing",
    real: bool = False,
    cases: tuple[dict[str, Any], ...] = ({},),
    into: list[Rule] = RULES,
) -> None:
    into.append(Rule(name, left, right, when, needs, real, cases))


add, sub, mul, div, neg, pos, square, power = calls("add", "sub", "mul", "div", "neg", "pos", "square", "power")
strong_mul, strong_mul_either, ieee_mul = calls("strong_mul", "strong_mul_either", "ieee_mul")
where, nan_where = calls("where", "nan_where")
exp, log, expm1, log1p, sqrt, abs_ = calls("exp", "log", "expm1", "log1p", "sqrt", "abs")
logical_and, logical_or, logical_not = calls("logical_and", "logical_or", "logical_not")
equal, greater, greater_equal = calls("equal", "greater", "greater_equal")
conj, real_, cast, isfinite, stop_gradient = calls("conj", "real", "cast", "isfinite", "stop_gradient")
reshape, transpose, broadcast_to, sum_, matmul = calls("reshape", "transpose", "broadcast_to", "sum", "matmul")
getitem, gather, place, roll = calls("getitem", "gather", "place", "roll")

# -- the products of the chain rule -----------------------------------------------------------------------------

rule("strong-mul-zero", strong_mul(0, X), ZERO, needs="unsigned zeros")
rule("strong-mul-one", strong_mul(1, X), X, real=True)
rule("strong-mul-by-one", strong_mul(X, 1), X, needs="unsigned zeros", real=True)
rule("strong-mul-by-minus-one", strong_mul(X, -1), neg(X), needs="unsigned zeros", real=True)
rule("strong-mul-product", strong_mul(X, Y), mul(X, Y), needs="finite")
rule("strong-mul-either-zero", strong_mul_either(X, 0), ZERO, needs="unsigned zeros")
rule("strong-mul-either-one", strong_mul_either(X, 1), X, needs="unsigned zeros", real=True)
rule("strong-mul-either-minus-one", strong_mul_either(X, -1), neg(X), needs="unsigned zeros", real=True)
rule("strong-mul-either-product", strong_mul_either(X, Y), mul(X, Y), needs="finite")
rule("ieee-mul-one", ieee_mul(1, X), X, real=True)
rule("ieee-mul-by-one", ieee_mul(X, 1), X, real=True)
rule("ieee-mul-by-minus-one", ieee_mul(X, -1), neg(X), real=True)
rule("ieee-mul-product", ieee_mul(X, Y), mul(X, Y), needs="finite")
rule("add-no-sign", add(X, ZERO), X, needs="unsigned zeros")
rule("sub-no-sign", sub(X, ZERO), X, needs="unsigned zeros")

# -- arithmetic -------------------------------------------------------------------------------------------------

rule("mul-one", mul(X, 1), X, real=True)
rule("mul-minus-one", mul(X, -1), neg(X), real=True)
rule("mul-zero", mul(X, 0), ZERO, needs="finite")
rule("div-one", div(X, 1), X, real=True)
rule("div-minus-one", div(X, -1), neg(X), real=True)
rule("div-zero", div(0, X), ZERO, needs="finite")
rule("div-self", div(X, X), 1, needs="finite")
rule("add-minus-zero", add(X, -0.0), X, real=True)  # x + 0.0 is not x for x = -0.0
rule("add-zero", add(X, 0), X, needs="finite")
rule("sub-plus-zero", sub(X, 0.0), X)
rule("sub-minus-zero", sub(X, -0.0), X, needs="finite")
rule("zero-sub", sub(0, X), neg(X), needs="finite")
rule("minus-zero-sub", sub(-0.0, X), neg(X), real=True)
rule("sub-self", sub(X, X), ZERO, needs="finite")
rule("neg-neg", neg(neg(X)), X)
rule("neg-sub", neg(sub(X, Y)), sub(Y, X), needs="finite")
rule("pos", pos(X), X)
rule("add-neg", add(X, neg(Y)), sub(X, Y))
rule("sub-neg", sub(X, neg(Y)), add(X, Y))
rule("mul-neg-neg", mul(neg(X), neg(Y)), mul(X, Y))
rule("div-neg-neg", div(neg(X), neg(Y)), div(X, Y), real=True)
rule("mul-constants", mul(mul(X, C), D), mul(X, mul(C, D)), needs="finite", cases=({"C": 3.0, "D": 0.7},))
rule("add-constants", add(add(X, C), D), add(X, add(C, D)), needs="finite", cases=({"C": 3.0, "D": 0.7},))
rule("add-sub", sub(add(X, Y), Y), X, needs="finite")
rule("sub-add", add(sub(X, Y), Y), X, needs="finite")
rule("mul-reciprocal", mul(X, div(1, Y)), div(X, Y), needs="finite")

# -- powers, exponentials, logarithms ---------------------------------------------------------------------------

rule("power-zero", power(X, 0), 1, real=True)
rule("power-one", power(X, 1), X, real=True)
rule("power-two", power(X, 2), square(X), needs="rounding", real=True)
rule("power-minus-one", power(X, -1), div(1, X), needs="rounding", real=True)
rule("power-half", power(X, 0.5), sqrt(X), needs="finite")  # sqrt(-0.0) is -0.0, power(-inf, 0.5) is inf
rule("square-neg", square(neg(X)), square(X))
rule("square-sqrt", square(sqrt(X)), X, needs="finite")
rule("sqrt-square", sqrt(square(X)), abs_(X), computed(lambda x: x.dtype.kind == "f")(X), needs="finite")
rule("abs-abs", abs_(abs_(X)), abs_(X))
rule("abs-neg", abs_(neg(X)), abs_(X), computed(lambda x: x.dtype.kind != "u")(X))
rule("exp-log", exp(log(X)), X, needs="finite")
rule("log-exp", log(exp(X)), X, computed(lambda x: x.dtype.kind == "f")(X), needs="finite")
rule("log1p", log(add(1, X)), log1p(X), needs="finite")  # log(1 + -0.0) is 0.0; for small x, log1p is more accurate
rule("expm1", sub(exp(X), 1), expm1(X), needs="finite")
rule("expm1-log1p", expm1(log1p(X)), X, needs="finite")
rule("log1p-expm1", log1p(expm1(X)), X, computed(lambda x: x.dtype.kind == "f")(X), needs="finite")

# -- choices and logic ------------------------------------------------------------------------------------------

_BOOL = Type((2, 1), np.dtype(bool))
_CHOICE: dict[str, Any] = {"T": (300, 20), "X": (300, 20), "Y": (300, 20)}  # too large to be folded


@computed
def is_bool(x: Type) -> bool:
    return x.dtype.kind == "b"


@computed
def is_real(x: Type) -> bool:
    return x.dtype.kind == "f"


rule("where-true", where(True, X, Y), X)
rule("where-false", where(False, X, Y), Y)
rule("where-all-true", where(broadcast_to(True, shape=T), X, Y), X, cases=(_CHOICE,))
rule("where-all-false", where(broadcast_to(False, shape=T), X, Y), Y, cases=(_CHOICE,))
rule("nan-where-false", nan_where(False, X), X)
rule("nan-where-all-false", nan_where(broadcast_to(False, shape=T), X), X, cases=(_CHOICE,))
rule("where-same", where(Z, X, X), X, cases=({"Z": _BOOL},))
rule("where-not", where(logical_not(Z), X, Y), where(Z, Y, X), cases=({"Z": _BOOL},))
# The exponential of a difference is mostly computed anyway: see `softmax_of`. Its derivative is nan where the difference is.
rule("exp-where", exp(where(Z, -math.inf, X)), where(Z, 0.0, exp(X)), is_real(X), cases=({"Z": _BOOL},), into=FINAL)
# Where the partial of a choice is 0: see `elementwise.wins`.
rule(
    "zero-or-nan",
    equal(where(Z, math.nan, X), 0),
    logical_and(logical_not(Z), equal(X, 0)),
    is_real(X),
    cases=({"Z": _BOOL},),
    into=FINAL,
)
rule(
    "does-not-win",
    equal(add(mul(0.5, greater(X, Y)), mul(0.5, greater_equal(X, Y))), 0),
    logical_not(greater_equal(X, Y)),
    is_real(X),
    into=FINAL,
)
rule("where-no-change", where(isfinite(sub(stop_gradient(X), X)), sub(stop_gradient(X), X), 0.0), 0.0, is_real(X), into=FINAL)
rule("and-same", logical_and(X, X), X, is_bool(X), cases=({"X": _BOOL},))
rule("or-same", logical_or(X, X), X, is_bool(X), cases=({"X": _BOOL},))
rule("and-false", logical_and(X, False), False, cases=({"X": _BOOL},))
rule("and-true", logical_and(X, True), X, is_bool(X), cases=({"X": _BOOL},))
rule("or-false", logical_or(X, False), X, is_bool(X), cases=({"X": _BOOL},))
rule("or-true", logical_or(X, True), True, cases=({"X": _BOOL},))
rule("not-and-not", logical_not(logical_and(logical_not(X), logical_not(Y))), logical_or(X, Y), cases=({"X": _BOOL, "Y": _BOOL},))
rule("not-not", logical_not(logical_not(X)), X, is_bool(X), cases=({"X": _BOOL},))

# -- dtypes -----------------------------------------------------------------------------------------------------

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


@computed
def is_dtype(x: Type, dtype: np.dtype[Any]) -> bool:
    return x.dtype == dtype


@computed
def is_wider(dtype: np.dtype[Any], x: Type) -> bool:
    return np.can_cast(x.dtype, dtype, "safe")


rule("cast-own", cast(X, dtype=A), X, is_dtype(X, A), cases=({"A": _DOUBLE},))
rule(
    "cast-wider",
    cast(cast(X, dtype=A), dtype=B),
    cast(X, dtype=B),
    is_wider(A, X),
    cases=({"X": Type((3,), _SINGLE), "A": _DOUBLE, "B": _SINGLE}, {"A": np.dtype(complex), "B": _SINGLE}),
)
rule("conj-real", conj(X), X, is_real(X))
rule("conj-conj", conj(conj(X)), X, cases=({"X": Type((3,), np.dtype(complex))},))
rule("real-real", real_(X), X, is_real(X))

# -- shapes -----------------------------------------------------------------------------------------------------


@computed
def has_shape(x: Type, shape: Shape) -> bool:
    return x.shape == shape


@computed
def in_order(axes: Shape) -> bool:
    return axes == tuple(range(len(axes)))


@computed
def composed(inner: Shape, outer: Shape) -> Shape:
    return tuple(inner[i] for i in outer)


@computed
def pads(x: Type, shape: Shape) -> bool:
    """Whether a reshape only puts axes of length one in front."""
    extra = len(shape) - x.ndim
    return extra >= 0 and shape == (1,) * extra + x.shape


@computed
def whole(x: Type, spec: tuple[Any, ...]) -> bool:
    """Whether an index reads everything, in order."""
    return all(isinstance(s, slice) and s.indices(n) == (0, n, 1) for s, n in zip(spec, x.shape, strict=False))


@computed
def joined_spec(x: Type, first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    return joined(x.shape, first, second)


@computed
def is_joined(x: Type, first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    return joined(x.shape, first, second) is not None


joined_place = computed(joined)


@computed
def is_joined_place(shape: Shape, first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    return joined(shape, first, second) is not None


@computed
def moves_ones(x: Type, axes: Shape) -> bool:
    """Whether a transpose moves nothing but axes of length one."""
    moved = [a for a in axes if x.shape[a] != 1]
    return moved == sorted(moved)


rule("reshape-own", reshape(X, shape=S), X, has_shape(X, S), cases=({"X": (2, 3), "S": (2, 3)},))
rule("reshape-twice", reshape(reshape(X, shape=S), shape=T), reshape(X, shape=T), cases=({"X": (2, 3), "S": (6,), "T": (3, 2)},))
rule("transpose-in-order", transpose(X, axes=A), X, in_order(A), cases=({"X": (2, 3), "A": (0, 1)},))
rule(
    "reshape-of-transpose",
    reshape(transpose(X, axes=A), shape=S),
    reshape(X, shape=S),
    moves_ones(X, A),
    cases=({"X": (2, 1, 3), "A": (1, 0, 2), "S": (6,)},),
)
rule(
    "transpose-twice",
    transpose(transpose(X, axes=A), axes=B),
    transpose(X, axes=composed(A, B)),
    cases=({"X": (2, 3, 4), "A": (2, 0, 1), "B": (0, 2, 1)}, {"X": (2, 3), "A": (1, 0), "B": (1, 0)}),
)
rule("broadcast-own", broadcast_to(X, shape=S), X, has_shape(X, S), cases=({"X": (2, 3), "S": (2, 3)},))
rule(
    "broadcast-twice",
    broadcast_to(broadcast_to(X, shape=S), shape=T),
    broadcast_to(X, shape=T),
    cases=({"X": (3, 1), "S": (3, 2), "T": (4, 3, 2)},),
)
rule(
    "broadcast-padded",
    broadcast_to(reshape(X, shape=S), shape=T),
    broadcast_to(X, shape=T),
    pads(X, S),
    cases=({"X": (3,), "S": (1, 3), "T": (2, 3)},),
)
rule("getitem-whole", getitem(X, spec=S), X, whole(X, S), cases=({"X": (2, 3), "S": (slice(None), slice(0, 3))},))
rule(
    "getitem-place",
    getitem(place(X, spec=S, shape=T), spec=S),
    X,
    cases=({"X": (2,), "S": (slice(1, 3),), "T": (4,)},),
)

rule(
    "getitem-twice",
    getitem(getitem(X, spec=S), spec=T),
    getitem(X, spec=joined_spec(X, S, T)),
    is_joined(X, S, T),
    cases=(
        {"X": (5, 4), "S": (slice(1, None),), "T": (slice(None, None, -2), 0)},
        {"X": (4, 3), "S": (slice(None, None, -1), None, 1), "T": (-1, slice(0, 1))},
        {"X": (6,), "S": (slice(None, None, -1),), "T": (slice(None, None, -1),)},
        {"X": (4,), "S": (slice(1, 3),), "T": (slice(2, 2),)},
    ),
)
rule(
    "add-places",
    add(place(X, spec=S, shape=T), place(Y, spec=S, shape=T)),
    place(add(X, Y), spec=S, shape=T),
    computed(lambda x, y: (x.shape, x.dtype) == (y.shape, y.dtype))(X, Y),
    cases=({"S": (slice(1, 3),), "T": (4, 3), "X": (2, 3), "Y": (2, 3)},),
)


def _reads_most(result: Type, x: Type, spec: tuple[Any, ...] = ()) -> bool:
    """Whether a roll, or an index without steps, reads at least half of a real array."""
    has_steps = any(isinstance(s, slice) and s.step not in (None, 1) for s in spec)
    return x.dtype.kind != "c" and 2 * result.size >= x.size and not has_steps


reads_most = computed(_reads_most)


@computed
def reads_most_by(result: Type, x: Type, number: Type, spec: tuple[Any, ...] = ()) -> bool:
    """The same, of what is computed from an array and a number."""
    return bool(x.shape) and not number.shape and _reads_most(result, x, spec)


# A stencil reads parts of an array, or rolls it: a multiple of the array is computed there, and not stored first.
_PARTS: dict[str, Any] = {"X": (6, 4), "S": (slice(1, -1),)}
_ROLLED: dict[str, Any] = {"X": (6, 4), "A": (1, 1), "B": (0, 1)}
for _name in ("add", "sub", "mul", "div"):
    (_op,) = calls(_name)
    rule(
        f"getitem-of-{_name}",
        getitem(_op(X, Y), spec=S),
        _op(getitem(X, spec=S), Y),
        reads_most_by(RESULT, X, Y, S),
        cases=({**_PARTS, "Y": ()},),
        into=FINAL,
    )
    rule(
        f"roll-of-{_name}",
        roll(_op(X, Y), shifts=A, axes=B),
        _op(roll(X, shifts=A, axes=B), Y),
        reads_most_by(RESULT, X, Y),
        cases=({**_ROLLED, "Y": ()},),
        into=FINAL,
    )
rule("getitem-of-neg", getitem(neg(X), spec=S), neg(getitem(X, spec=S)), reads_most(RESULT, X, S), cases=(_PARTS,), into=FINAL)
rule(
    "roll-of-neg",
    roll(neg(X), shifts=A, axes=B),
    neg(roll(X, shifts=A, axes=B)),
    reads_most(RESULT, X),
    cases=(_ROLLED,),
    into=FINAL,
)


@computed
def behind(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    return (slice(None), *spec)


@computed
def is_one_row(table: Type, row: Type, spec: tuple[Any, ...]) -> bool:
    return table.dtype.kind != "c" and not row.shape and all(isinstance(i, slice) for i in spec)


# Part of a row of a table is read from that part of the table: a view, so that the row is not copied. Complex tables are split.
rule(
    "getitem-of-row",
    getitem(gather(X, Y, axis=0), spec=S),
    gather(getitem(X, spec=behind(S)), Y, axis=0),
    is_one_row(X, Y, S),
    cases=({"X": (3, 4), "Y": Type((), np.dtype(int)), "S": (slice(1, 3),)},),
    into=FINAL,
)
rule(
    "place-twice",
    place(place(X, spec=S, shape=A), spec=T, shape=B),
    place(X, spec=joined_place(B, T, S), shape=B),
    is_joined_place(B, T, S),
    cases=({"X": (2,), "S": (slice(1, 3),), "A": (4,), "T": (0,), "B": (3, 4)},),
)

# What is computed on a broadcast value is computed before it is broadcast.
_SPREAD: tuple[dict[str, Any], ...] = ({"X": (3,), "S": (2, 3), "Y": (2, 3)}, {"X": (1,), "S": (4, 3), "Y": (3,)})
for _name in (
    "add",
    "sub",
    "mul",
    "div",
    "power",
    "strong_mul",
    "strong_mul_either",
    "ieee_mul",
    "less",
    "greater",
    "equal",
    "maximum",
    "minimum",
):
    (_op,) = calls(_name)
    rule(f"{_name}-of-broadcast", _op(broadcast_to(X, shape=S), Y), _op(X, Y), cases=_SPREAD)
    if not OPS[_name].commutative:
        rule(f"{_name}-by-broadcast", _op(Y, broadcast_to(X, shape=S)), _op(Y, X), cases=_SPREAD)
for _name in ("neg", "square", "abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "isnan", "logical_not"):
    (_op,) = calls(_name)
    rule(f"{_name}-of-broadcast", _op(broadcast_to(X, shape=S)), _op(X), needs="rounding", cases=_SPREAD)
rule(
    "cast-of-broadcast",
    cast(broadcast_to(X, shape=S), dtype=A),
    cast(X, dtype=A),
    cases=({"X": (3,), "S": (2, 3), "A": _SINGLE},),
)

# -- sums and products ------------------------------------------------------------------------------------------


@computed
def single(x: Type, axis: Shape) -> bool:
    """Whether the axes have length one."""
    return all(x.shape[a] == 1 for a in axis)


@computed
def shape_of(x: Type) -> Shape:
    return x.shape


@computed
def both_axes(x: Type, inner: Shape, outer: Shape, inner_keeps: bool) -> Shape:
    """The axes of x that a sum of a sum runs over."""
    left = tuple(range(x.ndim)) if inner_keeps else tuple(a for a in range(x.ndim) if a not in inner)
    return tuple(sorted({*inner, *(left[a] for a in outer)}))


def _own_axes(x: Type, shape: Shape, axis: Shape) -> Shape:
    """Those of the axes along which x, broadcast to a shape, has elements of its own."""
    extra = len(shape) - x.ndim
    return tuple(a for a in axis if a >= extra and x.shape[a - extra] == shape[a])


@computed
def own_axes(x: Type, shape: Shape, axis: Shape) -> Shape:
    extra = len(shape) - x.ndim
    return tuple(a - extra for a in _own_axes(x, shape, axis))


@computed
def repeats(x: Type, shape: Shape, axis: Shape) -> int:
    """How many equal terms each sum has."""
    return math.prod(shape[a] for a in axis if a not in _own_axes(x, shape, axis))


@computed
def summed_shape(x: Type, shape: Shape, axis: Shape, keepdims: bool) -> Shape:
    """The shape of the sum before it is broadcast along the axes that are not summed over."""
    extra = len(shape) - x.ndim
    padded = (1,) * extra + x.shape
    return tuple(1 if a in axis else n for a, n in enumerate(padded) if keepdims or a not in axis)


def _swaps(axes: Shape) -> bool:
    n = len(axes)
    return n >= 2 and axes == (*range(n - 2), n - 1, n - 2)


@computed
def swaps_matrices(*axes: Shape) -> bool:
    """Whether transposes swap the last two axes and no others, of arrays of one rank."""
    return all(map(_swaps, axes)) and len(set(map(len, axes))) == 1


@computed
def swaps_like(axes: Shape, outer: Shape, other: Type) -> bool:
    return axes == outer and _swaps(axes) and other.ndim == len(axes)


@computed
def mapped(axes: Shape, chosen: Shape) -> Shape:
    """The axes of an array that are chosen after its transpose."""
    return tuple(sorted(axes[a] for a in chosen))


@computed
def leaves_order(axes: Shape, chosen: Shape) -> bool:
    """Whether the axes that are left have the order they had before the transpose."""
    left = [a for i, a in enumerate(axes) if i not in chosen]
    return left == sorted(left)


@computed
def is_all_of(shape: Shape, axis: Shape) -> bool:
    return len(axis) == len(shape)


@computed
def all_axes(x: Type) -> Shape:
    return tuple(range(x.ndim))


# A sum may start at 0.0 or at its first term: NumPy decides by the layout what becomes of -0.0.
rule("sum-no-axes", sum_(X, axis=(), keepdims=K), X, needs="unsigned zeros", cases=({"X": (2, 3), "K": False},))
rule(
    "sum-single",
    sum_(X, axis=A, keepdims=K),
    reshape(X, shape=shape_of(RESULT)),
    single(X, A),
    needs="unsigned zeros",
    cases=({"X": (3, 1), "A": (1,), "K": False}, {"X": (3, 1), "A": (1,), "K": True}),
)
rule(
    "sum-twice",
    sum_(sum_(X, axis=A, keepdims=K), axis=B, keepdims=False),
    reshape(sum_(X, axis=both_axes(X, A, B, K), keepdims=False), shape=shape_of(RESULT)),
    needs="finite",
    cases=({"X": (2, 3, 4), "A": (1,), "K": False, "B": (1,)}, {"X": (2, 3, 4), "A": (1,), "K": True, "B": (0, 1)}),
)
rule(
    "sum-of-broadcast",
    sum_(broadcast_to(X, shape=S), axis=A, keepdims=K),
    mul(
        reshape(sum_(X, axis=own_axes(X, S, A), keepdims=True), shape=summed_shape(X, S, A, K)),
        repeats(X, S, A),
    ),
    needs="finite",
    cases=(
        {"X": (3,), "S": (2, 3), "A": (0,), "K": False},
        {"X": (3,), "S": (2, 3), "A": (0, 1), "K": False},
        {"X": (3, 1), "S": (4, 3, 2), "A": (0, 1), "K": True},
        {"X": (), "S": (5,), "A": (0,), "K": False},
    ),
)
rule(
    "sum-of-transpose",
    sum_(transpose(X, axes=A), axis=B, keepdims=False),
    sum_(X, axis=mapped(A, B), keepdims=False),
    leaves_order(A, B),
    needs="finite",
    cases=({"X": (2, 3, 4), "A": (2, 0, 1), "B": (0,)}, {"X": (2, 3), "A": (1, 0), "B": (0, 1)}),
)
rule(
    "sum-of-reshape",
    sum_(reshape(X, shape=S), axis=A, keepdims=False),
    sum_(X, axis=all_axes(X), keepdims=False),
    is_all_of(S, A),
    needs="finite",
    cases=({"X": (2, 3), "S": (6,), "A": (0,)},),
)
rule(
    "matmul-transposes",
    matmul(transpose(X, axes=A), transpose(Y, axes=B)),
    transpose(matmul(Y, X), axes=A),
    swaps_matrices(A, B),
    needs="finite",
    cases=(
        {"X": (3, 2), "Y": (4, 3), "A": (1, 0), "B": (1, 0)},
        {"X": (2, 3, 2), "Y": (1, 4, 3), "A": (0, 2, 1), "B": (0, 2, 1)},
    ),
)
rule(
    "transpose-matmul-left",
    transpose(matmul(transpose(X, axes=A), Y), axes=B),
    matmul(transpose(Y, axes=A), X),
    swaps_like(A, B, Y),
    needs="rounding",
    cases=({"X": (3, 2), "Y": (3, 4), "A": (1, 0), "B": (1, 0)},),
)
rule(
    "transpose-matmul-right",
    transpose(matmul(X, transpose(Y, axes=A)), axes=B),
    matmul(Y, transpose(X, axes=A)),
    swaps_like(A, B, X),
    needs="rounding",
    cases=({"X": (2, 3), "Y": (4, 3), "A": (1, 0), "B": (1, 0)},),
)
