"""Elementwise ops: one line of calculus each. `y` is the result, the other names are the arguments.

A partial never sees the cotangent; `derive/` multiplies the two. At a kink the partial is the mean of both sides, so
ties share equally: abs'(0) = 0, relu'(0) = ½.
"""

from __future__ import annotations

import math
import operator
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..core.bind import Traced, bind
from ..core.op import case
from ..core.types import Value
from .broadcast import where
from .declare import constant, elementwise, multilinear

# -- the product of the chain rule ------------------------------------------------------------------------------
# A strong zero stays zero in a product, whatever the other factor: where(x > 0, log(x), 0) hands log the cotangent 0 at x = 0,
# and 0 · (1/0) has to be 0, not nan. Three ops multiply a cotangent (or tangent) by a partial:
#
#     strong_mul g, p          a zero of g is strong
#     strong_mul_either a, b   a zero of either factor is strong
#     ieee_mul g, p            no zero is strong: none of them comes from a mask
#
# Which one is used where: docs/adr/0001-the-zero-of-a-mask-wins.md.


def is_finite(g: Value | None) -> bool:
    """Whether all elements are finite, in one read: a sum is, unless one of its terms is not (or it overflows)."""
    if not isinstance(g, np.ndarray):
        return g is None or (not isinstance(g, Traced) and math.isfinite(abs(g)))
    if g.size <= 10_000 and (g.ndim < 2 or g.flags.c_contiguous):
        return math.isfinite(abs(np.vdot(g, g)))  # quicker, and up to here without threads
    return math.isfinite(abs(np.add.reduce(g, axis=None)))


_LARGE = 1 << 16  # elements of an array worth a look at its strides

#: Of the rule of an opaque op that runs on numbers: a list with an entry for each product in which a zero that is given won over
#: an infinity or nan (eager/rules.py).
zero_won: ContextVar[list[bool] | None] = ContextVar("adjoint_zero_won", default=None)


def _note(g: Any, r: Any) -> Any:
    """Where g is zero, and note whether it met an infinity or nan."""
    zero, met = np.equal(g, 0), zero_won.get()
    if met is not None and np.any(zero & np.isnan(r)):
        met.append(True)
    return zero


def _strong_mul(g: Any, p: Any) -> Any:
    """g·p, and exactly 0 wherever g is exactly 0, even if p is infinite or nan.

    A number that is repeated by strides of 0, as the cotangent of a sum is, stays one: staging makes a constant of it.
    """
    if type(g) is np.ndarray and g.size > _LARGE and not any(g.strides) and type(p) in (float, np.float64, np.float32):
        return np.broadcast_to(_strong_mul(g[(slice(1),) * g.ndim], p), g.shape)
    r = g * p
    return r if is_finite(r) else np.where(_note(g, r), np.zeros((), r.dtype), r)[()]


def _strong_mul_either(a: Any, b: Any) -> Any:
    """a·b, and exactly 0 wherever either is exactly 0."""
    r = a * b
    if is_finite(r):
        return r
    ended = np.equal(b, 0)
    return np.where(ended | _note(a, np.where(ended, 0.0, r)), np.zeros((), r.dtype), r)[()]


def product_of_live(g: Value, p: Value, masked: Value) -> Value:
    """g·p as IEEE arithmetic has it, and exactly 0 where it is masked: there `g` or `p` is a zero of a mask, not of rounding."""
    return where(masked, 0.0, ieee_mul(g, p) if isinstance(g, Traced) or isinstance(p, Traced) else g * p)


def strong_mul(g: Value, p: Value) -> Value:
    """Cotangent (or tangent) times partial: the product in which an exactly zero `g` gives exactly zero."""
    if isinstance(g, Traced) or isinstance(p, Traced):
        return bind(strong_mul_op, g, p)
    return _strong_mul(g, p)


def strong_mul_either(a: Value, b: Value) -> Value:
    """The product in which either exact zero wins: for a choice, and for a tangent, which a zero partial ends.

    What forward mode multiplies last, reverse mode multiplies first: with this product both end at the same zeros.
    """
    if isinstance(a, Traced) or isinstance(b, Traced):
        return bind(strong_mul_either_op, a, b)
    return _strong_mul_either(a, b)


# Linear in each factor. In the derivative by p the zero of g still wins, whatever arrives: so either zero does.
strong_mul_op = multilinear(
    "strong_mul",
    _strong_mul,
    transpose=(lambda h, g, p: strong_mul_either_op(h, p), lambda h, g, p: strong_mul_either_op(h, g)),
    axes=(),
    cases=[case((3,), (3,)), case((2, 3), (3,)), case((), (2,))],
    cost=1,
    infix="*",
    python="strong_mul",
)
# A cotangent times a partial of which it is known that no zero of a mask is among them: an ordinary product.
ieee_mul = multilinear(
    "ieee_mul",
    lambda g, p: g * p,
    transpose=(lambda h, g, p: ieee_mul(h, p), lambda h, g, p: ieee_mul(h, g)),
    axes=(),
    scalar="mul",
    cases=[case((3,), (3,)), case((2, 3), (3,)), case((), (2,))],
    cost=1,
    infix="*",
)
strong_mul_either_op = multilinear(
    "strong_mul_either",
    _strong_mul_either,
    transpose=(lambda h, a, b: strong_mul_either_op(h, b), lambda h, a, b: strong_mul_either_op(h, a)),
    axes=(),
    cases=[case((3,), (3,)), case((2, 3), (3,)), case((), (2,))],
    cost=1,
    commutative=True,
    infix="*",
    python="strong_mul_either",
)
#: The products of a cotangent, or a tangent, and a partial.
PRODUCTS = (strong_mul_op, ieee_mul, strong_mul_either_op)

# The derivative of `where(lost, nan, x)` is 0 where x is lost: a second derivative through it would be a number there.
nan_where = elementwise(
    "nan_where",
    lambda lost, x: np.asarray(np.where(lost, np.nan, x))[()],
    partials=lambda y, lost, x: (0, where(lost, np.nan, 1.0)),
    cases=[case(np.array([False] * 3), (3,)), case(np.array(False), (2, 3)), case(np.array([[False], [False]]), (2, 3))],
    doc="x, and nan where it is lost, as a number is that overflowed; its derivative is nan there, too.",
    cost=1,
    scalar=lambda lost, x: where(lost, math.nan, x),
    python="np.where({0}, np.nan, {1})[()]",
)


# -- arithmetic -------------------------------------------------------------------------------------------------
# Python's operators, so that NumPy scalars take their fast path and Python numbers stay weak in promotion.


def _divide(a: Any, b: Any) -> Any:
    try:
        return a / b
    except ZeroDivisionError:  # two Python numbers: give what NumPy gives
        return np.true_divide(a, b)


def _square(x: Any) -> Any:
    """The square of a Python number is one too, and weak in promotion."""
    return x * x if type(x) in (float, int) else np.square(x)


def _power(a: Any, b: Any) -> Any:
    if type(b) is int and type(a) is int and b > 64 and abs(a) > 1:
        raise OverflowError("a power of Python integers exceeds 64 bits")  # and takes very long to compute
    try:
        y = a**b
    except (ZeroDivisionError, OverflowError):
        if type(a) not in (float, int):
            raise  # a Python int that does not fit the dtype of an array
        return np.power(float(a), b)  # two Python numbers: give what NumPy gives
    return np.power(float(a), b) if type(y) is complex and type(a) in (float, int) and type(b) is not complex else y


add = elementwise("add", operator.add, partials=lambda y, a, b: (1, 1), complex_domain=True, commutative=True, finite=True)
sub = elementwise("sub", operator.sub, partials=lambda y, a, b: (1, -1), complex_domain=True, finite=True)
mul = elementwise("mul", operator.mul, partials=lambda y, a, b: (b, a), complex_domain=True, commutative=True, finite=True)
div = elementwise(
    "div", _divide, partials=lambda y, a, b: (1 / b, -y / b), domain=((-2, 2), (0.5, 2)), complex_domain=True, cost=4, infix="/"
)
neg = elementwise("neg", operator.neg, partials=lambda y, x: (-1,), complex_domain=True, finite=True)
pos = elementwise("pos", operator.pos, partials=lambda y, x: (1,), complex_domain=True, scalar=lambda x: x, finite=True)
square = elementwise(
    "square",
    _square,
    partials=lambda y, x: (2 * x,),
    complex_domain=True,
    scalar=lambda x: x * x,
    python="np.square",
    finite=True,
)
reciprocal = elementwise(
    "reciprocal", np.reciprocal, partials=lambda y, x: (-(y * y),), domain=(0.5, 2), complex_domain=True, scalar=lambda x: 1 / x
)

# d(x**0) = 0, at 0 too, and d(0**b)/db = 0: guard the factors that would be 0·∞.
power = elementwise(
    "power",
    _power,
    partials=lambda y, a, b: (
        b * power(a, where(logical_and(equal(a, 0), equal(b, 0)), 1.0, b - 1.0)),
        y * log(where(equal(a, 0), 1.0, a)),
    ),
    domain=((0.5, 2), (-2, 2)),
    infix="**",
)

# Of a real number; the modulus of a complex one is hypot(real, imag).
absolute = elementwise(
    "abs",
    abs,
    partials=lambda y, x: (sign(x),),
    cost=1,
    parity="even",
    latex=r"\left|#1\right|",
    python="np.abs",
    finite=True,
)

# -- signs and parts of a float ---------------------------------------------------------------------------------

fabs = elementwise("fabs", np.fabs, partials=lambda y, x: (sign(x),), scalar=absolute, finite=True)
copysign = elementwise(
    "copysign",
    np.copysign,
    partials=lambda y, a, b: (where(signbit(b), -sign(a), sign(a)), 0),
    scalar=lambda a, b: where(signbit(b), -absolute(a), absolute(a)),
    finite=True,
)
heaviside = elementwise(
    "heaviside",
    np.heaviside,
    partials=lambda y, x, at_zero: (0, where(equal(x, 0), 1.0, 0.0)),
    scalar=lambda x, at_zero: where(greater(x, 0), 1, where(less(x, 0), 0, where(equal(x, 0), at_zero, x))),
    finite=True,
)
nextafter = elementwise("nextafter", np.nextafter, partials=lambda y, x, towards: (1, 0))

# x = fraction + whole, both with the sign of x; x = mantissa · 2^exponent with ½ ≤ |mantissa| < 1.
fraction = elementwise(
    "fraction",
    lambda x: np.modf(x)[0],
    partials=lambda y, x: (1,),
    domain=(0.1, 0.9),
    scalar=lambda x: copysign(where(isinf(x), 0, x - trunc(x)), x),
    python="np.modf({0})[0]",
)
whole = constant("whole", lambda x: np.modf(x)[1], cases=[case((3,))], scalar=lambda x: trunc(x), python="np.modf({0})[1]")
mantissa = elementwise(
    "mantissa", lambda x: np.frexp(x)[0], partials=lambda y, x: (ldexp(1.0, -exponent(x)),), python="np.frexp({0})[0]"
)
exponent = constant("exponent", lambda x: np.frexp(x)[1], cases=[case((3,))], python="np.frexp({0})[1]")
ldexp = elementwise("ldexp", np.ldexp, partials=lambda y, x, n: (ldexp(1.0, n), 0), cases=[case((3,), np.array([1, -2, 0]))])

# -- exponentials and logarithms --------------------------------------------------------------------------------

sqrt = elementwise(
    "sqrt", np.sqrt, partials=lambda y, x: (0.5 / y,), domain=(0.2, 3), complex_domain=True, cost=4, latex=r"\sqrt{#1}"
)
cbrt = elementwise(
    "cbrt",
    np.cbrt,
    partials=lambda y, x: (1 / (3 * y * y),),
    domain=(0.2, 3),
    parity="odd",
    latex=r"\sqrt[3]{#1}",
    finite=True,
)
exp = elementwise("exp", np.exp, partials=lambda y, x: (y,), complex_domain=True, latex="e^{#1}", finite=True)
exp2 = elementwise("exp2", np.exp2, partials=lambda y, x: (y * math.log(2),), complex_domain=True, latex="2^{#1}", finite=True)
expm1 = elementwise("expm1", np.expm1, partials=lambda y, x: (exp(x),), complex_domain=True, finite=True)
log = elementwise("log", np.log, partials=lambda y, x: (1 / x,), domain=(0.2, 3), complex_domain=True, symbol="ln")
log2 = elementwise(
    "log2", np.log2, partials=lambda y, x: (1 / (x * math.log(2)),), domain=(0.2, 3), complex_domain=True, latex=r"\log_{2}"
)
log10 = elementwise(
    "log10", np.log10, partials=lambda y, x: (1 / (x * math.log(10)),), domain=(0.2, 3), complex_domain=True, latex=r"\log_{10}"
)
log1p = elementwise("log1p", np.log1p, partials=lambda y, x: (1 / (1 + x),), domain=(-0.5, 2), complex_domain=True)


def _expit(x: Any) -> Any:
    with np.errstate(over="ignore"):  # exp(-x) is inf where the result is 0
        return 1 / (1 + np.exp(-x))


# 1 / (1 + exp(-x)), exact in the tails.
expit = elementwise(
    "expit",
    _expit,
    partials=lambda y, x: (y * expit(-x),),
    symbol="σ",
    latex=r"\sigma",
    python="1 / (1 + np.exp(-{0}))",
    finite=True,
)

# The weights of log-sum-exp; two infinite arguments share equally.
logaddexp = elementwise("logaddexp", np.logaddexp, partials=lambda y, a, b: (share(a, b), share(b, a)), finite=True)
logaddexp2 = elementwise("logaddexp2", np.logaddexp2, partials=lambda y, a, b: (share2(a, b), share2(b, a)))


def share(a: Value, b: Value) -> Value:
    """exp(a) / (exp(a) + exp(b)), without overflow."""
    return expit(where(logical_and(equal(a, b), isinf(a)), 0.0, a - b))


def share2(a: Value, b: Value) -> Value:
    return share(a * math.log(2), b * math.log(2))


# -- trigonometric and hyperbolic -------------------------------------------------------------------------------

sin = elementwise("sin", np.sin, partials=lambda y, x: (cos(x),), complex_domain=True, parity="odd", finite=True)
cos = elementwise("cos", np.cos, partials=lambda y, x: (-sin(x),), complex_domain=True, parity="even", finite=True)
tan = elementwise("tan", np.tan, partials=lambda y, x: (1 + y * y,), domain=(-1.2, 1.2), complex_domain=True, parity="odd")
arcsin = elementwise(
    "arcsin", np.arcsin, partials=lambda y, x: (1 / sqrt(1 - x * x),), domain=(-0.8, 0.8), complex_domain=True, parity="odd"
)
arccos = elementwise("arccos", np.arccos, partials=lambda y, x: (-1 / sqrt(1 - x * x),), domain=(-0.8, 0.8), complex_domain=True)
arctan = elementwise(
    "arctan", np.arctan, partials=lambda y, x: (1 / (1 + x * x),), complex_domain=True, parity="odd", finite=True
)
sinh = elementwise("sinh", np.sinh, partials=lambda y, x: (cosh(x),), complex_domain=True, parity="odd", finite=True)
cosh = elementwise("cosh", np.cosh, partials=lambda y, x: (sinh(x),), complex_domain=True, parity="even", finite=True)
tanh = elementwise("tanh", np.tanh, partials=lambda y, x: (1 - y * y,), complex_domain=True, parity="odd", finite=True)
arcsinh = elementwise(
    "arcsinh",
    np.arcsinh,
    partials=lambda y, x: (_arcsinh_slope(x, x * x + 1),),
    complex_domain=True,
    parity="odd",
    finite=True,
)
arccosh = elementwise(
    "arccosh", np.arccosh, partials=lambda y, x: (1 / (sqrt(x - 1) * sqrt(x + 1)),), domain=(1.3, 3), complex_domain=True
)
arctanh = elementwise(
    "arctanh", np.arctanh, partials=lambda y, x: (1 / (1 - x * x),), domain=(-0.8, 0.8), complex_domain=True, parity="odd"
)


def _arcsinh_slope(x: Value, square: Value) -> Value:
    """1 / √(x² + 1), also where the square overflows."""
    return where(isinf(square), 1 / absolute(x), 1 / sqrt(square))


# At the origin both partials of the angle and of the length are taken as 0, as for abs.
arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    partials=lambda y, a, b: (_over_square(b, hypot(a, b)), -_over_square(a, hypot(a, b))),
    finite=True,
)
hypot = elementwise("hypot", np.hypot, partials=lambda y, a, b: (safe_ratio(a, y), safe_ratio(b, y)), finite=True)


def _over_square(a: Value, r: Value) -> Value:
    """a / r², whose square may overflow or underflow; 0 where r is 0."""
    return safe_ratio(safe_ratio(a, r), r)


def safe_ratio(a: Value, b: Value) -> Value:
    """a / b, and 0 where b is 0."""
    zero = equal(b, 0)
    return where(zero, 0.0, a / where(zero, 1.0, b))


deg2rad = elementwise(
    "deg2rad", np.deg2rad, partials=lambda y, x: (math.pi / 180,), scalar=lambda x: x * (math.pi / 180), finite=True
)
rad2deg = elementwise(
    "rad2deg", np.rad2deg, partials=lambda y, x: (180 / math.pi,), scalar=lambda x: x * (180 / math.pi), finite=True
)
sinc = elementwise(
    "sinc",
    np.sinc,
    partials=lambda y, x: (where(less(absolute(x), 1e-3), _sinc_slope_near_0(x), safe_ratio(cos(math.pi * x) - y, x)),),
    scalar=lambda x: _sine_over(where(equal(x, 0.0), 1e-20, math.pi * x)),
    finite=True,
)


def _sine_over(x: Value) -> Value:
    return sin(x) / x


def _sinc_slope_near_0(x: Value) -> Value:
    s = (math.pi * x) * (math.pi * x)
    return -(math.pi**2) * x * (1 / 3 - s / 30 + s * s / 840)


# -- choices ----------------------------------------------------------------------------------------------------
# What is not chosen gets exactly zero, even of an infinite cotangent: sqrt(maximum(x, 0)) at -1.

maximum = elementwise(
    "maximum",
    np.maximum,
    partials=lambda y, a, b: (wins(a, b), wins(b, a)),
    choice=True,
    cost=1,
    latex=r"\max",
    finite=True,
)
minimum = elementwise(
    "minimum",
    np.minimum,
    partials=lambda y, a, b: (wins(b, a), wins(a, b)),
    choice=True,
    cost=1,
    latex=r"\min",
    finite=True,
)
fmax = elementwise(
    "fmax",
    np.fmax,
    partials=lambda y, a, b: (fwins(a, b, a, b), fwins(b, a, b, a)),
    choice=True,
    scalar=lambda a, b: where(isnan(a), b, where(isnan(b), a, maximum(a, b))),
    finite=True,
)
fmin = elementwise(
    "fmin",
    np.fmin,
    partials=lambda y, a, b: (fwins(b, a, a, b), fwins(a, b, b, a)),
    choice=True,
    scalar=lambda a, b: where(isnan(a), b, where(isnan(b), a, minimum(a, b))),
    finite=True,
)


def wins(a: Value, b: Value) -> Value:
    """1 where a > b, ½ on a tie, 0 elsewhere; nan where either is nan, as in the result."""
    return where(logical_or(isnan(a), isnan(b)), np.nan, 0.5 * greater(a, b) + 0.5 * greater_equal(a, b))


def fwins(a: Value, b: Value, mine: Value, other: Value) -> Value:
    """As `wins`, for the versions that pass over nan: the operand that is not nan wins."""
    ordered = 0.5 * greater(a, b) + 0.5 * greater_equal(a, b)
    return where(isnan(mine), 0.0, where(isnan(other), 1.0, ordered))


# The quotient is piecewise constant.
remainder = elementwise(
    "remainder", operator.mod, partials=lambda y, a, b: (1, -floor(a / b)), domain=((0.3, 0.9), (1.2, 2)), cost=20
)
fmod = elementwise("fmod", np.fmod, partials=lambda y, a, b: (1, -trunc(a / b)), domain=((0.3, 0.9), (1.2, 2)))

# -- piecewise constant -----------------------------------------------------------------------------------------

equal = constant("equal", operator.eq)
not_equal = constant("not_equal", operator.ne)
less = constant("less", operator.lt)
less_equal = constant("less_equal", operator.le)
greater = constant("greater", operator.gt)
greater_equal = constant("greater_equal", operator.ge)
sign = constant(
    "sign",
    np.sign,
    parity="odd",
    # Minus one is the negative of a 1: unsigned integers have no -1.
    scalar=lambda x: where(greater(x, 0), 1, where(less(x, 0), -where(less(x, 0), 1, x), where(equal(x, 0), 0, x))),
)
signbit = constant("signbit", np.signbit, cost=1)
floor = constant("floor", np.floor, cost=4, latex=r"\left\lfloor #1 \right\rfloor")
ceil = constant("ceil", np.ceil, cost=4, latex=r"\left\lceil #1 \right\rceil")
trunc = constant("trunc", np.trunc, cost=4)
rint = constant("rint", np.rint, cost=4)
floor_divide = constant("floor_divide", operator.floordiv, domain=((-2, 2), (0.5, 2)), cost=20, finite=False)
isnan = constant("isnan", np.isnan, cost=1)
isinf = constant("isinf", np.isinf, scalar=lambda x: equal(absolute(x), math.inf))
isfinite = constant("isfinite", np.isfinite, scalar=lambda x: less(absolute(x), math.inf))
logical_and = constant("logical_and", np.logical_and, cost=1, commutative=True, latex=r"#1 \land #2", scalar="and")
logical_or = constant("logical_or", np.logical_or, cost=1, commutative=True, latex=r"#1 \lor #2", scalar="or")
logical_xor = constant("logical_xor", np.logical_xor, cost=1, scalar="xor")
logical_not = constant("logical_not", np.logical_not, cost=1, latex=r"\lnot \left(#1\right)", scalar="not")
bitwise_and = constant("bitwise_and", operator.and_, cost=1, scalar="bits.and", cases=[case(np.array([3, 5]), np.array([1, 4]))])
bitwise_or = constant("bitwise_or", operator.or_, cost=1, scalar="bits.or", cases=[case(np.array([3, 5]), np.array([1, 4]))])
bitwise_xor = constant("bitwise_xor", operator.xor, cost=1, scalar="bits.xor", cases=[case(np.array([3, 5]), np.array([1, 4]))])
invert = constant(
    "invert",
    lambda x: ~x if type(x) is int else np.invert(x),
    cases=[case(np.array([True, False]))],
    cost=1,
    scalar="bits.not",
    python="np.invert",
)
spacing = constant("spacing", np.spacing)

# The square root of a sum of squares: its slope at 0 is taken as 0, the mean over all directions.
root = elementwise("root", np.sqrt, partials=lambda y, x: (safe_ratio(0.5, y),), domain=(0.2, 3), scalar=sqrt)
truncate = constant(
    "truncate",
    lambda x, *, dtype: np.asarray(x).astype(dtype)[()],
    cases=[case((3,), dtype=np.dtype(np.int64)), case((2, 2), dtype=np.dtype(bool))],
    cost=1,
)
rounded = constant(
    "round_to",
    lambda x, *, decimals: np.round(x, decimals),
    cases=[case((3,), decimals=1), case((2, 2), decimals=-1)],
    python="np.round",
)
# A copy, so that writing to the constant does not reach the value it was taken from.
stop_gradient = constant(
    "stop_gradient",
    lambda x: np.array(x) if isinstance(x, np.ndarray) else x,
    symbol="constant",
    scalar=lambda x: x,
    python="np.array({0})[()]",
)
