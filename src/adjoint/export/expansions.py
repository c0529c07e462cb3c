"""What ops are in terms of other ops, for languages that do not have them; written in our own ops.

    norm(x)      = sqrt(sum(x²))
    log1p(x)     = log(1 + x) · x / ((1 + x) − 1)                  exact to a few ulp, near 0 too
    roll(x)      = concatenate(x[-k:], x[:-k])

An expansion has the signature of the op's implementation. It is used only where a target has no spelling of the op (`normal.py`),
and may use ops that have an expansion themselves. Results agree with NumPy's and SciPy's to about 10⁻¹⁴, and the special values
(infinities, nan, signed zeros of a function that is 0) are theirs. An expansion that holds for some dtypes only returns
`NotImplemented` for the others.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from typing import Any

import numpy as np

from ..api.control import scan, while_loop
from ..compiler.llvm.vecmath import coefficients as table
from ..core.op import Op
from ..core.types import Shape, Value, dtype_of, ndim_of, shape_of
from ..ops import broadcast, control, convolve, index, integer, linalg, norm, reduce, shape, shift, sort, special, windows
from ..ops import elementwise as ew
from ..ops.broadcast import broadcast_to, cast, expand_dims, moveaxis, reshape, sum_, transpose, where
from ..ops.elementwise import (
    absolute,
    copysign,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isinf,
    isnan,
    ldexp,
    less,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    power,
    rint,
    signbit,
    sin,
    sqrt,
    sub,
    trunc,
)
from ..ops.index import gather, getitem, place
from ..ops.integer import right_shift
from ..ops.linalg import matmul
from ..ops.reduce import all_, any_, argmax, argsort, max_
from ..ops.shape import concatenate, flip
from ..ops.sort import take_along
from .factorisations import FACTORISATIONS

Expansion = Callable[..., Any]
INT64 = np.dtype(np.int64)


def _kind(x: Value) -> str:
    return dtype_of(x).kind


def _integers(x: Value) -> Value:
    return cast(x, dtype=INT64)


# -- products, choices, truths ----------------------------------------------------------------------------------


def _strong_mul(g: Value, p: Value) -> Value:
    return where(equal(g, 0), np.zeros((), dtype_of(g)), mul(g, p))


def _strong_mul_either(a: Value, b: Value) -> Value:
    return where(logical_or(equal(a, 0), equal(b, 0)), np.zeros((), dtype_of(a)), mul(a, b))


def _choose(c: Value, a: Value, b: Value) -> Value:
    """where, of truths."""
    return logical_or(logical_and(c, a), logical_and(logical_not(c), b))


def _of_truths(op: Expansion) -> Expansion:
    """An op on truths as one of logic."""
    return lambda *xs, **params: op(*xs, **params) if _kind(xs[0]) == "b" else NotImplemented


def _maximum(a: Value, b: Value) -> Value:
    if _kind(a) == "b":
        return logical_or(a, b)
    return where(logical_or(greater_equal(a, b), isnan(a)), a, b)


def _minimum(a: Value, b: Value) -> Value:
    if _kind(a) == "b":
        return logical_and(a, b)
    return where(logical_or(greater_equal(b, a), isnan(a)), a, b)


def _signbit(x: Value) -> Value:
    """The sign of a zero is that of its reciprocal; that of a nan is not seen."""
    return logical_or(less(x, 0), logical_and(equal(x, 0), less(1 / x, 0)))


# -- exponentials, logarithms, powers ---------------------------------------------------------------------------


def _expm1(x: Value) -> Value:
    """After Kahan: the error of u = exp(x) cancels in (u − 1)·x/log(u)."""
    u = exp(x)
    near = less(absolute(x), 1)
    safe = where(logical_and(near, not_equal(u, 1)), u, 2.0)
    return where(near, where(equal(u, 1), x, (safe - 1) * x / log(safe)), u - 1)


def _log1p(x: Value) -> Value:
    u = 1 + x
    exact = logical_or(equal(u, 1), isinf(u))
    near = less(absolute(x), 1)
    safe = where(logical_and(near, logical_not(exact)), u, 2.0)
    return where(near, where(equal(u, 1), x, log(safe) * (x / (safe - 1))), log(u))


def _logaddexp(a: Value, b: Value) -> Value:
    same = equal(a, b)  # two equal infinities have no difference
    gap = where(same, 0.0, absolute(a - b))
    return maximum(a, b) + log1p(exp(-gap))


def _logaddexp2(a: Value, b: Value) -> Value:
    gap = where(equal(a, b), 0.0, absolute(a - b))
    return maximum(a, b) + log1p(ew.exp2(-gap)) / math.log(2)


def _hypot(a: Value, b: Value) -> Value:
    a, b = absolute(a), absolute(b)
    large, small = maximum(a, b), minimum(a, b)
    plain = logical_and(greater(large, 0), less(large, math.inf))
    ratio = small / where(plain, large, 1.0)
    infinite = logical_or(equal(a, math.inf), equal(b, math.inf))
    return where(infinite, math.inf, where(plain, large * sqrt(1 + ratio * ratio), large))


def _cbrt(x: Value) -> Value:
    a = absolute(x)
    plain = logical_and(greater(a, 0), less(a, math.inf))
    a1 = where(plain, a, 1.0)
    y = power(a1, 1 / 3)
    y = y - (y - a1 / (y * y)) / 3  # the third of 1/3 that is not a double
    return copysign(where(plain, y, a), x)


def _power(a: Value, b: Value) -> Value:
    """A power of integers, by squaring: an exponent has six bits that matter."""
    if _kind(a) not in "iu":
        return NotImplemented
    one = np.ones((), dtype_of(a))
    total: Value = one
    for _ in range(6):
        half = floor_divide(b, 2)
        total = total * where(equal(b - 2 * half, 1), a, one)
        a, b = a * a, half
    return total


# -- trigonometric and hyperbolic functions ---------------------------------------------------------------------


def _horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    total: Value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def _arc(x: Value) -> tuple[Value, Value]:
    """(large, r) with arcsin|x| = r where |x| ≤ ½, else π/2 − 2r."""
    a = absolute(x)
    large = greater(a, 0.5)
    z = where(large, (1 - a) * 0.5, a * a)
    s = where(large, sqrt(z), a)
    return large, s + s * z * _horner(z, table.ASIN_64)


def _arcsin(x: Value) -> Value:
    large, r = _arc(x)
    return copysign(where(large, math.pi / 2 - 2 * r, r), x)


def _arccos(x: Value) -> Value:
    large, r = _arc(x)
    return where(large, where(less(x, 0), math.pi - 2 * r, 2 * r), math.pi / 2 - copysign(r, x))


def _arctan(x: Value) -> Value:
    """arctan a = π/4 + arctan((a − 1)/(a + 1)) = π/2 − arctan(1/a)."""
    a = minimum(absolute(x), 1e300)
    bound = math.sqrt(2) - 1
    middle, large = greater(a, bound), greater(a, 1 / bound)
    t = where(large, -1 / maximum(a, 1.0), where(middle, (a - 1) / (a + 1), a))
    turn = where(large, math.pi / 2, where(middle, math.pi / 4, 0.0))
    square = t * t
    return copysign(turn + (t + t * square * _horner(square, table.ATAN_64)), x)


def _arctan2(y: Value, x: Value) -> Value:
    a, b = absolute(y), absolute(x)
    infinite = logical_and(isinf(a), isinf(b))
    steep = greater(a, b)
    large, small = where(steep, a, b), where(steep, b, a)
    ratio = where(infinite, 1.0, where(equal(large, 0), 0.0, small / where(equal(large, 0), 1.0, large)))
    angle = ew.arctan(ratio)
    angle = where(steep, math.pi / 2 - angle, angle)
    angle = where(signbit(x), math.pi - angle, angle)
    return where(logical_or(isnan(x), isnan(y)), math.nan, copysign(angle, y))


def _sinh(x: Value) -> Value:
    a = absolute(x)
    e = expm1(minimum(a, 700.0))
    half = exp(a / 2)
    return copysign(where(greater(a, 700.0), 0.5 * half * half, 0.5 * (e + e / (e + 1))), x) + where(isnan(x), x, 0.0)


def _cosh(x: Value) -> Value:
    half = exp(absolute(x) / 2)
    return 0.5 * half * half + 0.5 / (half * half)


def _arcsinh(x: Value) -> Value:
    a = absolute(x)
    far = greater(a, 1e150)
    b = where(far, 1.0, a)
    return copysign(where(far, log(a) + math.log(2), log1p(b + b * b / (1 + sqrt(b * b + 1)))), x)


def _arccosh(x: Value) -> Value:
    far = greater(x, 1e150)
    t = where(far, 1.0, x) - 1
    return where(far, log(x) + math.log(2), log1p(t + sqrt(2 * t + t * t)))


# -- rounding and remainders ------------------------------------------------------------------------------------


def _trunc(x: Value) -> Value:
    return x if _kind(x) in "biu" else where(signbit(x), -floor(-x), floor(x))


def _unless_whole(op: Op) -> Expansion:
    """The rounding of an integer is itself; of a float, the target's."""
    return lambda x: x if _kind(x) in "biu" else op(x)


def _fmod(a: Value, b: Value) -> Value:
    if _kind(a) not in "iu":
        return NotImplemented
    r = ew.remainder(absolute(a), absolute(b))
    return where(less(a, 0), -r, r)


def _remainder(a: Value, b: Value) -> Value:
    if _kind(a) in "iu":
        return where(equal(b, 0), np.zeros((), dtype_of(a)), a - floor_divide(a, b) * b)
    r = ew.fmod(a, b)
    shifted = where(logical_and(not_equal(r, 0), not_equal(less(b, 0), less(r, 0))), r + b, r)
    return where(equal(shifted, 0), copysign(np.zeros((), dtype_of(a)), b), shifted)


def _floor_divide(a: Value, b: Value) -> Value:
    """As NumPy: the quotient without the remainder, rounded to a whole number."""
    r = ew.fmod(a, b)
    quotient = (a - r) / b
    quotient = where(logical_and(not_equal(r, 0), not_equal(less(b, 0), less(r, 0))), quotient - 1, quotient)
    whole = floor(quotient)
    whole = where(greater(quotient - whole, 0.5), whole + 1, whole)
    return where(equal(b, 0), a / b, where(equal(quotient, 0), copysign(np.zeros((), dtype_of(a)), a / b), whole))


def _round_to(x: Value, *, decimals: int) -> Value:
    if _kind(x) in "biu" and decimals >= 0:
        return x
    scale = 10.0 ** abs(decimals)
    return rint(x * scale) / scale if decimals >= 0 else rint(x / scale) * scale


def _parts(x: Value) -> tuple[Value, Value]:
    """The mantissa and the exponent of a float: x = m·2ᵉ with ½ ≤ |m| < 1. The logarithm is right but for one step."""
    plain = logical_and(not_equal(x, 0), less(absolute(x), math.inf))
    tiny = less(absolute(x), 2.0**-100)
    y = where(plain, where(tiny, x * 2.0**100, x), 0.5)
    e = floor(ew.log2(absolute(y))) + 1
    m = ldexp(y, _integers(-e))
    for _ in range(2):
        up, down = greater_equal(absolute(m), 1), less(absolute(m), 0.5)
        m = where(up, m * 0.5, where(down, m * 2.0, m))
        e = where(up, e + 1, where(down, e - 1, e))
    return where(plain, m, x), where(plain, where(tiny, e - 100, e), 0.0)


def _ldexp(x: Value, n: Value) -> Value:
    """In three steps, so that no power of two is beyond the format."""
    n = minimum(maximum(_integers(n), -3000), 3000)
    third = floor_divide(n, 3)
    dtype = dtype_of(x)
    small, rest = (power(np.asarray(2, dtype), cast(k, dtype=dtype)) for k in (third, n - 2 * third))
    return x * small * small * rest


# -- integers ---------------------------------------------------------------------------------------------------


def _gcd(a: Value, b: Value) -> Value:
    a, b = (broadcast_to(absolute(x), shape=np.broadcast_shapes(shape_of(a), shape_of(b))) for x in (a, b))
    axes = tuple(range(ndim_of(a)))

    def step(pair: Any) -> Any:
        a, b = pair
        done = equal(b, 0)
        return where(done, a, b), where(done, b, ew.remainder(a, where(done, np.ones((), dtype_of(b)), b)))

    return while_loop(lambda pair: any_(not_equal(pair[1], 0), axis=axes, keepdims=False), step, (a, b))[0]


def _lcm(a: Value, b: Value) -> Value:
    divisor = integer.gcd(a, b)
    one = np.ones((), dtype_of(a))
    return absolute(floor_divide(a, where(equal(divisor, 0), one, divisor)) * b)


def _bitwise_count(x: Value) -> Value:
    """Of the magnitude, as in NumPy: sums of neighbouring bits, then of neighbouring sums."""
    x = _integers(absolute(x) if _kind(x) == "i" else x)
    for bits, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        m = np.int64(mask)
        x = ew.bitwise_and(x, m) + ew.bitwise_and(right_shift(x, np.int64(bits)), m)
    total = ew.bitwise_and(x, np.int64(255))
    for i in range(1, 8):
        total = total + ew.bitwise_and(right_shift(x, np.int64(8 * i)), np.int64(255))
    return total


# -- special functions ------------------------------------------------------------------------------------------


def _growth(a: Value) -> Value:
    """(1 + 2a)·exp(a²)·erfc(a)."""
    return _horner((a - 3.75) / (a + 3.75), table.ERFCX_64) + 1.25


def _erf_small(x: Value) -> Value:
    return x + x * _horner(x * x, table.ERF_64)


def _erf(x: Value) -> Value:
    a = absolute(x)
    bounded = minimum(maximum(a, 1.0), 6.5)
    rest = exp(-(bounded * bounded)) * _growth(bounded) / (2 * bounded + 1)
    return where(less(a, 1), _erf_small(where(less(a, 1), x, 0.0)), copysign(1 - rest, x)) + where(isnan(x), x, 0.0)


def _erfc(x: Value) -> Value:
    """exp(−a²)·p/(1 + 2a) for a = |x|. The square is split, since its rounding would be magnified."""
    a = absolute(x)
    bounded = minimum(maximum(a, 0.5), 28.0)
    high = floor(bounded * 2.0**20) * 2.0**-20
    far = exp(-(high * high)) * exp(-(bounded - high) * (bounded + high)) * _growth(bounded) / (2 * bounded + 1)
    near = 1 - _erf_small(where(less(a, 0.5), x, 0.0))
    return where(less(a, 0.5), near, where(less(x, 0), 2 - far, far)) + where(isnan(x), x, 0.0)


def _logit(x: Value) -> Value:
    near = less(absolute(x - 0.5), 0.2)
    return where(near, log1p((2 * x - 1) / where(near, 1 - x, 1.0)), log(x / (1 - x)))


def _sindg(x: Value) -> Value:
    r = x - 360 * rint(x / 360)
    folded = where(greater(absolute(r), 90), copysign(180.0, r) - r, r)
    return sin(folded * (math.pi / 180))


def _boxcox(x: Value, power_: Value, logarithm: Any = log) -> Value:
    plain = greater_equal(absolute(power_), 1e-19)
    t = logarithm(x)
    return where(plain, expm1(power_ * t) / where(plain, power_, 1.0), t)


def _inv_boxcox(y: Value, power_: Value, exponential: Any = exp) -> Value:
    plain = not_equal(power_, 0)
    safe = where(plain, power_, 1.0)
    return where(plain, exponential(log1p(safe * y) / safe), exponential(y))


def _rel_entr(x: Value, y: Value, more: Any = lambda x, y: 0.0) -> Value:
    inside = logical_and(greater(x, 0), greater(y, 0))
    a, b = where(inside, x, 1.0), where(inside, y, 1.0)
    edge = logical_and(equal(x, 0), greater_equal(y, 0))
    value = where(inside, more(a, b) + a * log(a / b), where(edge, more(x, y), math.inf))
    return where(logical_or(isnan(x), isnan(y)), math.nan, value)


def _powm1(a: Value, b: Value) -> Value:
    positive = greater(a, 0)
    product = b * log(where(positive, a, 1.0))
    near = logical_and(positive, less(absolute(product), 0.5))
    return where(near, expm1(where(near, product, 0.0)), power(a, b) - 1)


def _huber(delta: Value, r: Value) -> Value:
    a = absolute(r)
    inside = greater_equal(delta, a)
    return where(less(delta, 0), math.inf, where(inside, 0.5 * r * r, delta * (a - 0.5 * delta)))


def _pseudo_huber(delta: Value, r: Value) -> Value:
    none = logical_or(equal(delta, 0), equal(r, 0))
    v = r / where(none, 1.0, delta)
    return where(less(delta, 0), math.inf, where(none, 0.0, delta * delta * expm1(0.5 * log1p(v * v))))


def _sinc(x: Value) -> Value:
    zero = equal(x, 0)
    t = math.pi * where(zero, 1.0, x)
    return where(zero, 1.0, sin(t) / t)


def _exprel(x: Value) -> Value:
    zero = equal(x, 0)
    return where(zero, 1.0, expm1(x) / where(zero, 1.0, x))


def _logsumexp(x: Value, *, axis: Shape) -> Value:
    top = max_(x, axis=axis, keepdims=True)
    level = where(less(absolute(top), math.inf), top, 0.0)
    total = log(sum_(exp(x - level), axis=axis, keepdims=False))
    return total + reshape(level, shape=shape_of(total))


# -- reductions and scans over an axis --------------------------------------------------------------------------


def _norm(x: Value, *, axis: Shape, keepdims: bool) -> Value:
    if _kind(x) == "c":
        re, im = broadcast.real(x), broadcast.imag(x)
        squares = re * re + im * im
    else:
        squares = x * x
    return sqrt(sum_(squares, axis=axis, keepdims=keepdims))


def _rows(x: Value, axis: int, start: int, stop: int) -> Value:
    return getitem(x, spec=(slice(None),) * axis + (slice(start, stop),))


def _accumulate(step: Expansion) -> Expansion:
    """Running results: y₀ = x₀, yᵢ = step(yᵢ₋₁, xᵢ)."""

    def expansion(*xs: Value, axis: int) -> Value:
        full = np.broadcast_shapes(*map(shape_of, xs))
        moved = [moveaxis(broadcast_to(x, shape=full), axis, 0) for x in xs]
        if full[axis] < 2:
            return xs[-1]
        first = _rows(moved[-1], 0, 0, 1)

        def body(y: Value, rows: Any) -> Any:
            y = step(y, *rows)
            return y, y

        start = reshape(first, shape=shape_of(first)[1:])
        rest = scan(body, start, tuple(_rows(m, 0, 1, full[axis]) for m in moved))[1]
        return moveaxis(concatenate(first, rest, axis=0), 0, axis)

    return expansion


def _count_nonzero(x: Value, *, axis: Shape, keepdims: bool) -> Value:
    return sum_(_integers(x), axis=axis, keepdims=keepdims)


def _argmin(x: Value, *, axis: int) -> Value:
    """The negative of an integer is not its mirror image: its complement is."""
    kind = _kind(x)
    return argmax(logical_not(x) if kind == "b" else ew.invert(x) if kind in "iu" else -x, axis=axis)


def _order_statistics(x: Value, *, kth: tuple[int, ...], axis: int) -> Value:
    ordered = take_along(x, argsort(x, axis=axis, kind="stable"), axis=axis)
    return gather(ordered, np.array([k % shape_of(x)[axis] for k in kth]), axis=axis)


def _lexsort(keys: Value, *, axis: int) -> Value:
    """By the last key, then the one before: stable sorts from the first key on."""
    count = shape_of(keys)[0]
    order: Any = None
    for k in range(count):
        key = getitem(keys, spec=(k,))
        if order is not None:
            key = take_along(key, order, axis=axis)
        found = argsort(key, axis=axis, kind="stable")
        order = found if order is None else take_along(order, found, axis=axis)
    return order


def _searchsorted(a: Value, v: Value, *, side: str) -> Value:
    """How many elements lie before; a nan lies behind all numbers."""
    v = expand_dims(v, (ndim_of(v),))
    before = less(a, v) if side == "left" else logical_not(less(v, a))
    if _kind(a) == "f" or _kind(v) == "f":
        a_nan, v_nan = isnan(a), isnan(v)
        before = logical_and(before, logical_not(a_nan))
        before = logical_or(before, logical_and(v_nan, logical_not(a_nan)))
        if side == "right":
            before = logical_or(before, logical_and(v_nan, a_nan))
    return sum_(_integers(before), axis=(ndim_of(v) - 1,), keepdims=False)


# -- shapes and indices -----------------------------------------------------------------------------------------


def _stack(*xs: Value, axis: int) -> Value:
    return concatenate(*[expand_dims(x, (axis,)) for x in xs], axis=axis)


def _roll(x: Value, *, shifts: Shape, axes: Shape) -> Value:
    for k, axis in zip(shifts, axes, strict=True):
        n = shape_of(x)[axis]
        k = k % n if n else 0
        if k:
            x = concatenate(_rows(x, axis, n - k, n), _rows(x, axis, 0, n - k), axis=axis)
    return x


def _difference(x: Value, *, axis: int) -> Value:
    n = shape_of(x)[axis]
    return sub(_rows(x, axis, 1, n), _rows(x, axis, 0, n - 1))


def _put(x: Value, v: Value, *, spec: Any) -> Value:
    """Where the index is, the value; elsewhere x. The mask is a constant."""
    mask = np.zeros(shape_of(x), bool)
    region = mask[(*spec, ...)]
    region[...] = True
    return where(mask, place(broadcast_to(v, shape=region.shape), spec=spec, shape=shape_of(x)), x)


def _place(g: Value, *, spec: Any, shape: Shape) -> Value:
    """Zeros with a value at a basic index: axis by axis, in forward order and without gaps, then within the whole."""
    region = np.broadcast_to(False, shape)[(*spec, ...)].shape
    g = broadcast_to(g, shape=region)
    if not math.prod(region):
        return np.zeros(shape, dtype_of(g))
    sizes, plain, axis = list(shape), [], 0
    every = [slice(None)] * len(shape)
    g = reshape(g, shape=tuple(_extents(spec, shape)))
    for part in (p for p in spec if p is not None):
        n = sizes[axis]
        taken = range(n)[part] if isinstance(part, slice) else range(part % n, part % n + 1)
        if taken.step < 0:
            g, taken = flip(g, axis), taken[::-1]
        if taken.step > 1 and len(taken) > 1:  # each element with the zeros behind it
            full = shape_of(g)
            wide = (*full[: axis + 1], taken.step, *full[axis + 1 :])
            g = place(expand_dims(g, (axis + 1,)), spec=(*every[: axis + 1], slice(0, 1)), shape=wide)
            g = reshape(g, shape=(*full[:axis], len(taken) * taken.step, *full[axis + 1 :]))
            g = _rows(g, axis, 0, taken[-1] - taken[0] + 1)
        plain.append(slice(taken[0], taken[-1] + 1))
        axis += 1
    return place(g, spec=tuple(plain), shape=shape)


def _extents(spec: Any, shape: Shape) -> list[int]:
    """The number of elements that a basic index takes of each axis."""
    sizes = list(shape)
    for axis, part in enumerate(p for p in spec if p is not None):
        sizes[axis] = len(range(sizes[axis])[part]) if isinstance(part, slice) else 1
    return sizes


def _flat_index(arrays: tuple[Value, ...], extent: Shape) -> Value:
    """Several index arrays as one into the flattened axes."""
    flat: Value = np.int64(0)
    for a, n in zip(arrays, extent, strict=True):
        a = _integers(a)
        flat = flat * n + where(less(a, 0), a + n, a)
    return flat


def _merged(shape: Shape, axis: int, count: int) -> Shape:
    return (*shape[:axis], math.prod(shape[axis : axis + count]), *shape[axis + count :])


def _gather(x: Value, *arrays: Value, axis: int) -> Value:
    full = shape_of(x)
    flat = reshape(x, shape=_merged(full, axis, len(arrays)))
    return gather(flat, _flat_index(arrays, full[axis : axis + len(arrays)]), axis=axis)


def _scatter_add(g: Value, *arrays: Value, axis: int, shape: Shape) -> Value:
    """Into one flat axis; the values are broadcast to the region that is indexed."""
    at = _flat_index(arrays, shape[axis : axis + len(arrays)])
    region = (*shape[:axis], *shape_of(at), *shape[axis + len(arrays) :])
    full = index.scatter_add(broadcast_to(g, shape=region), at, axis=axis, shape=_merged(shape, axis, len(arrays)))
    return reshape(full, shape=shape)


def _put_at(x: Value, v: Value, *arrays: Value, axis: int) -> Value:
    """Of writes to one element the last survives: the others add nothing."""
    full = shape_of(x)
    count = len(arrays)
    wins = index.last_write(*arrays, extent=full[axis : axis + count])
    region = (*full[:axis], *shape_of(wins), *full[axis + count :])
    mask = broadcast_to(reshape(wins, shape=shape_of(wins) + (1,) * (len(full) - axis - count)), shape=region)
    zero = np.zeros((), dtype_of(x))
    written = index.scatter_add(where(mask, v, zero), *arrays, axis=axis, shape=full)
    hit = greater(index.scatter_add(_integers(mask), *arrays, axis=axis, shape=full), 0)
    return where(hit, written, x)


def _last_write(*arrays: Value, extent: Shape) -> Value:
    """An entry survives unless a later one has the same index."""
    at = _flat_index(arrays, extent)
    flat = reshape(at, shape=(math.prod(shape_of(at)),))
    n = shape_of(flat)[0]
    later = np.triu(np.ones((n, n), bool), 1)
    same = logical_and(equal(expand_dims(flat, (1,)), expand_dims(flat, (0,))), later)
    return reshape(logical_not(any_(same, axis=(1,), keepdims=False)), shape=shape_of(at))


def _take_along(x: Value, at: Value, *, axis: int) -> Value:
    """Without its own spelling: each element by its flat number."""
    full = shape_of(x)
    lead = np.broadcast_shapes((*full[:axis], 1, *full[axis + 1 :]), (*shape_of(at)[:axis], 1, *shape_of(at)[axis + 1 :]))
    x = broadcast_to(x, shape=(*lead[:axis], full[axis], *lead[axis + 1 :]))
    at = broadcast_to(at, shape=(*lead[:axis], shape_of(at)[axis], *lead[axis + 1 :]))
    return gather(reshape(x, shape=(math.prod(shape_of(x)),)), _flat_along(at, shape_of(x), axis), axis=0)


def _flat_along(at: Value, full: Shape, axis: int) -> Value:
    """The flat numbers of elements that are named by their place along an axis."""
    strides = [math.prod(full[i + 1 :]) for i in range(len(full))]
    lead = [np.arange(n).reshape((-1,) + (1,) * (len(full) - i - 1)) * strides[i] for i, n in enumerate(full) if i != axis]
    at = _integers(at)
    return where(less(at, 0), at + full[axis], at) * strides[axis] + np.asarray(sum(lead) if lead else 0, np.int64)


def _add_along(g: Value, at: Value, *, axis: int, shape: Shape) -> Value:
    flat = _flat_along(broadcast_to(at, shape=shape_of(g)), shape, axis)
    size = math.prod(shape_of(g))
    total = index.scatter_add(
        reshape(g, shape=(size,)), reshape(flat, shape=(size,)), axis=0, shape=(math.prod(shape),)
    )
    return reshape(total, shape=shape)


def _share_equal(t: Value, y: Value, *, axis: int, ordered: bool) -> Value:
    """The mean over the elements that are equal in y, each compared with each."""
    same = cast(equal(expand_dims(y, (axis + 1,)), expand_dims(y, (axis,))), dtype=dtype_of(t))
    same = maximum(same, np.eye(shape_of(y)[axis], dtype=dtype_of(t)).reshape((-1, shape_of(y)[axis]) + (1,) * (ndim_of(y) - axis - 1)))
    total = sum_(where(equal(same, 0), np.zeros((), dtype_of(t)), expand_dims(t, (axis,))), axis=(axis + 1,), keepdims=False)
    return total / sum_(same, axis=(axis + 1,), keepdims=False)


def _windows(x: Value, *, width: Shape, axes: Shape) -> Value:
    for w, axis in zip(width, axes, strict=True):
        at = np.arange(shape_of(x)[axis] - w + 1)[:, None] + np.arange(w)
        x = moveaxis(gather(x, at, axis=axis), axis + 1, ndim_of(x))
    return x


def _overlap(g: Value, *, shape: Shape, axes: Shape) -> Value:
    for axis in reversed(axes):
        g = moveaxis(g, ndim_of(g) - 1, axis + 1)
        full = shape_of(g)
        at = np.arange(full[axis])[:, None] + np.arange(full[axis + 1])
        g = index.scatter_add(g, at, axis=axis, shape=(*full[:axis], shape[axis], *full[axis + 2 :]))
    return g


def _convolve(a: Value, v: Value, *, mode: str) -> Value:
    """Windows of a, padded for every overlap, times v from its end."""
    n, m = shape_of(a)[-1], shape_of(v)[-1]
    if m > n and ndim_of(a) == ndim_of(v) == 1:
        a, v, n, m = v, a, m, n
    last = ndim_of(a) - 1
    if mode == "full":
        spec = (slice(None),) * last + (slice(m - 1, m - 1 + n),)
        a = place(a, spec=spec, shape=(*shape_of(a)[:-1], n + 2 * (m - 1)))
    parts = _windows(a, width=(m,), axes=(last,))
    flipped = flip(v, ndim_of(v) - 1)
    return reshape(matmul(parts, expand_dims(flipped, (ndim_of(v),))), shape=(*_lead(a, v), shape_of(parts)[-2]))


def _lead(a: Value, v: Value) -> Shape:
    return tuple(np.broadcast_shapes(shape_of(a)[:-1], shape_of(v)[:-1]))


# -- products of arrays -----------------------------------------------------------------------------------------


def _einsum(*xs: Value, inputs: tuple[str, ...], output: str) -> Value:
    """One factor after the other; a letter is summed over as soon as no other factor has it."""
    value, letters = _distinct(xs[0], inputs[0])
    for i in range(1, len(xs)):
        later = set(output).union(*inputs[i + 1 :])
        other, names = _distinct(xs[i], inputs[i])
        value, letters = _contract(value, letters, other, names, later)
    value, letters = _summed(value, letters, set(output))
    return transpose(value, axes=tuple(letters.index(c) for c in output)) if letters != output else value


def _distinct(x: Value, letters: str) -> tuple[Value, str]:
    """A repeated letter reads a diagonal."""
    for c in string.ascii_letters:
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            full = shape_of(x)
            rest = [k for k in range(len(full)) if k not in (i, j)]
            moved = transpose(x, axes=(i, j, *rest))
            step = np.arange(full[i])
            x = gather(moved, step, step, axis=0)
            letters = c + "".join(letters[k] for k in rest)
    return x, letters


def _summed(x: Value, letters: str, kept: set[str]) -> tuple[Value, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in kept)
    return (sum_(x, axis=axes, keepdims=False) if axes else x), "".join(c for c in letters if c in kept)


def _contract(a: Value, left: str, b: Value, right: str, later: set[str]) -> tuple[Value, str]:
    """Two factors as one stack of matrix products."""
    a, left = _summed(a, left, later | set(right))
    b, right = _summed(b, right, later | set(left))
    sizes = {**dict(zip(left, shape_of(a), strict=True)), **dict(zip(right, shape_of(b), strict=True))}
    common = [c for c in left if c in right]
    batch, inner = [c for c in common if c in later], [c for c in common if c not in later]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]

    def arranged(x: Value, letters: str, *groups: list[str]) -> Value:
        x = transpose(x, axes=tuple(letters.index(c) for group in groups for c in group))
        return reshape(x, shape=tuple(math.prod(sizes[c] for c in group) for group in groups))

    y = matmul(arranged(a, left, batch, rows, inner), arranged(b, right, batch, inner, columns))
    made = "".join((*batch, *rows, *columns))
    return reshape(y, shape=tuple(sizes[c] for c in made)), made


# -- the backward pass of a while -------------------------------------------------------------------------------


def _while_vjp(count: Value, *args: Any, step: Any, pull: Any, consts: int, wanted: tuple[bool, ...], checkpoint: Any) -> Any:
    """From the last iteration to the first. An array of unknown length holds no states: each is computed again from the start."""
    fixed, start, gs = args[:consts], args[consts : len(wanted)], args[len(wanted) :]
    shared = len(pull.output_types) - len(gs)
    totals = [np.zeros(t.shape, t.dtype) for t in pull.output_types[:shared]]

    def back(carry: Any) -> Any:
        left, totals, gs, fixed, start = carry

        def forth(inner: Any) -> Any:
            i, state, fixed = inner
            return i - 1, tuple(step.run_flat([*fixed, *state])), fixed

        state = while_loop(lambda inner: greater(inner[0], 1), forth, (left, start, fixed))[1]
        results = pull.run_flat([*fixed, *state, *gs])
        totals = tuple(a + b for a, b in zip(totals, results[:shared], strict=True))
        return left - 1, totals, tuple(results[shared:]), fixed, start

    first = (_integers(count), tuple(totals), tuple(gs), tuple(fixed), tuple(start))
    made = while_loop(lambda carry: greater(carry[0], 0), back, first)
    return (*made[1], *made[2])


EXPANSIONS: dict[Op, Expansion] = {
    ew.strong_mul_op: _strong_mul,
    ew.strong_mul_either_op: _strong_mul_either,
    ew.ieee_mul: mul,
    ew.add: _of_truths(logical_or),
    ew.mul: _of_truths(logical_and),
    where: lambda c, a, b: _choose(c, a, b) if _kind(a) == "b" else NotImplemented,
    ew.maximum: _maximum,
    ew.minimum: _minimum,
    ew.absolute: lambda x: x if _kind(x) in "bu" else where(less(x, 0), -x, x),
    ew.signbit: _signbit,
    ew.isnan: lambda x: not_equal(x, x),
    ew.bitwise_and: _of_truths(logical_and),
    ew.bitwise_or: _of_truths(logical_or),
    ew.bitwise_xor: _of_truths(ew.logical_xor),
    ew.invert: _of_truths(logical_not),
    ew.not_equal: _of_truths(lambda a, b: logical_not(equal(a, b))),
    ew.less: _of_truths(lambda a, b: logical_and(logical_not(a), b)),
    ew.less_equal: _of_truths(lambda a, b: logical_or(logical_not(a), b)),
    ew.greater: _of_truths(lambda a, b: logical_and(a, logical_not(b))),
    ew.greater_equal: _of_truths(lambda a, b: logical_or(a, logical_not(b))),
    ew.expm1: _expm1,
    ew.log1p: _log1p,
    ew.exp2: lambda x: power(np.asarray(2, dtype_of(x)), x),
    ew.log2: lambda x: log(x) / math.log(2),
    ew.log10: lambda x: log(x) / math.log(10),
    ew.expit: lambda x: 1 / (1 + exp(-x)),
    ew.logaddexp: _logaddexp,
    ew.logaddexp2: _logaddexp2,
    ew.hypot: _hypot,
    ew.cbrt: _cbrt,
    ew.power: _power,
    ew.tan: lambda x: sin(x) / ew.cos(x),
    ew.arcsin: _arcsin,
    ew.arccos: _arccos,
    ew.arctan: _arctan,
    ew.arctan2: _arctan2,
    ew.sinh: _sinh,
    ew.cosh: _cosh,
    ew.arcsinh: _arcsinh,
    ew.arccosh: _arccosh,
    ew.arctanh: lambda x: 0.5 * log1p(2 * x / (1 - x)),
    ew.sinc: _sinc,
    ew.floor: _unless_whole(floor),
    ew.ceil: _unless_whole(ew.ceil),
    ew.rint: _unless_whole(rint),
    ew.trunc: _trunc,
    ew.fmod: _fmod,
    ew.remainder: _remainder,
    ew.floor_divide: _floor_divide,
    ew.rounded: _round_to,
    ew.mantissa: lambda x: _parts(x)[0],
    ew.exponent: lambda x: _parts(x)[1],
    ew.ldexp: _ldexp,
    ew.truncate: lambda x, *, dtype: cast(trunc(x) if _kind(x) == "f" and dtype.kind in "iu" else x, dtype=dtype),
    integer.gcd: _gcd,
    integer.lcm: _lcm,
    integer.bitwise_count: _bitwise_count,
    special.erf: _erf,
    special.erfc: _erfc,
    special.exp10: lambda x: power(np.asarray(10, dtype_of(x)), x),
    special.exprel: _exprel,
    special.cosm1: lambda x: -2 * sin(x / 2) * sin(x / 2),
    special.logit: _logit,
    special.powm1: _powm1,
    special.sindg: _sindg,
    special.cosdg: lambda x: special.sindg(90 - absolute(x - 360 * rint(x / 360))),
    special.tandg: lambda x: special.sindg(x) / special.cosdg(x),
    special.cotdg: lambda x: special.cosdg(x) / special.sindg(x),
    special.radian: lambda d, m, s: (d + m / 60 + s / 3600) * (math.pi / 180),
    special.round_: lambda x, *out: rint(x),
    special.rel_entr: _rel_entr,
    special.kl_div: lambda x, y: _rel_entr(x, y, lambda x, y: y - x),
    special.huber: _huber,
    special.pseudo_huber: _pseudo_huber,
    special.boxcox: _boxcox,
    special.boxcox1p: lambda x, p: _boxcox(x, p, log1p),
    special.inv_boxcox: _inv_boxcox,
    special.inv_boxcox1p: lambda y, p: _inv_boxcox(y, p, expm1),
    special.logsumexp: _logsumexp,
    norm.norm: _norm,
    reduce.max_: _of_truths(any_),
    reduce.min_: _of_truths(all_),
    reduce.cumprod: _accumulate(mul),
    reduce.running_max: _accumulate(maximum),
    reduce.running_min: _accumulate(minimum),
    reduce.recurrence: _accumulate(lambda y, a, b: a * y + b),
    reduce.count_nonzero: _count_nonzero,
    reduce.argmin: _argmin,
    reduce.argmax: _of_truths(lambda x, *, axis: argmax(_integers(x), axis=axis)),
    sort.order_statistics: _order_statistics,
    sort.lexsort: _lexsort,
    sort.searchsorted: _searchsorted,
    sort.take_along: _take_along,
    sort.add_along: _add_along,
    sort.share_equal: _share_equal,
    sort.equal_shared: lambda x, *, axis, ordered: x,
    shape.stack: _stack,
    shift.roll: _roll,
    shift.difference: _difference,
    index.put: _put,
    index.place: _place,
    index.gather: _gather,
    index.scatter_add: _scatter_add,
    index.put_at: _put_at,
    index.last_write: _last_write,
    windows.windows: _windows,
    windows.overlap: _overlap,
    convolve.convolve: _convolve,
    linalg.matmul: _of_truths(lambda a, b: not_equal(matmul(_integers(a), _integers(b)), 0)),
    linalg.einsum: _einsum,
    broadcast.real: lambda x: x,
    broadcast.imag: lambda x: x * 0,
    broadcast.conj: lambda x: x,
    control.while_vjp: _while_vjp,
    **FACTORISATIONS,
}

__all__ = ["EXPANSIONS", "Expansion"]
