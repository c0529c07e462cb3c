"""Matrix functions (expm, sqrtm, logm, powers), the Sylvester equation and LU factors, over the last two axes.

With the pairing Re Σ g·t, the transpose of E ↦ L(A, E), the derivative of an analytic function of a matrix, is
G ↦ L(Aᵀ, G). L itself is a block of the function of a larger matrix:

    f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.op import case
from ..core.types import Value, dtype_of, ndim_of, shape_of
from .broadcast import broadcast_to, cast, reshape, sum_, where
from .declare import constant, opaque
from .elementwise import equal, less
from .gaps import magnitude
from .index import gather
from .lazy import Lazy
from .linalg import swap
from .matrix import columns, is_complex, real_part, rows, triangle
from .pseudo import rank
from .reduce import argsort, max_
from .regular import Regular, regular
from .shape import concatenate
from .solve import triangular_solve

_A = np.array([[1.6, 0.3, -0.4], [0.1, 1.2, 0.6], [-0.5, 0.2, 1.4]])
_STACK = np.array([0.7, 1.3]).reshape(2, 1, 1) * _A


def _each(function: Callable[..., Any], *xs: Any, **options: Any) -> Any:
    """Apply a matrix function to every matrix of stacks, which broadcast."""
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
    if not lead:
        return function(*xs, **options)
    flat = [np.broadcast_to(x, lead + x.shape[-2:]).reshape(math.prod(lead), *x.shape[-2:]) for x in xs]
    if not len(flat[0]):
        # An empty stack: run on ones for the type of the result.
        sample = np.asarray(function(*(np.eye(*x.shape[-2:], dtype=x.dtype) for x in xs), **options))
        return np.empty(lead + sample.shape, sample.dtype)
    results = np.array([function(*parts, **options) for parts in zip(*flat, strict=True)])
    return results.reshape(lead + results.shape[1:])


def _corner(a: Value, e: Value, bottom: Value) -> Value:
    """[[a, e], [0, bottom]]."""
    axis = ndim_of(a) - 1
    zeros = np.zeros(shape_of(a), dtype_of(a))
    return concatenate(concatenate(a, e, axis=axis), concatenate(zeros, bottom, axis=axis), axis=axis - 1)


def _same_shape(*xs: Value) -> list[Value]:
    shape = np.broadcast_shapes(*map(shape_of, xs))
    return [x if shape_of(x) == shape else broadcast_to(x, shape=shape) for x in xs]


def _upper_right(x: Value) -> Value:
    n = shape_of(x)[-1] // 2
    return columns(rows(x, 0, n), n, 2 * n)


# -- the exponential --------------------------------------------------------------------------------------------


def _of_floats(name: str) -> Callable[..., Any]:
    """A function of scipy.linalg, which newer versions refuse to call with whole numbers."""
    function = Lazy("scipy.linalg", name)

    def call(*args: Any, **options: Any) -> Any:
        return function(*[a.astype(float) if isinstance(a, np.ndarray) and a.dtype.kind in "biu" else a for a in args], **options)

    return call


_expm = _of_floats("expm")
_expm_frechet = _of_floats("expm_frechet")


def _slope(a: Any, e: Any) -> Any:
    if not a.shape[-1]:
        return np.zeros(a.shape, np.result_type(a, e))
    dtype = np.result_type(a, e)
    return _each(lambda a, e: _expm_frechet(a, e, compute_expm=False, check_finite=False).astype(dtype), a, e)


expm = opaque(
    "expm",
    lambda a: _expm(a),
    jvp=lambda ts, y, a: expm_slope(a, ts[0]),
    vjp=lambda g, y, a: (expm_slope(swap(a), g),),
    axes=(),
    cases=[case((3, 3)), case((2, 2, 2)), case((1, 1))],
    domain=(-1, 1),
    complex_domain=True,
    doc="The exponential of a matrix.",
    may_fail=True,
)


def _second_slope(a: Value, e: Value, t: Value) -> Value:
    """The derivative of L(a, e) by a in the direction t; it is symmetric in e and t."""
    a, e, t = _same_shape(a, e, t)
    return _upper_right(expm_slope(_corner(a, t, a), _corner(e, np.zeros(shape_of(e), dtype_of(e)), e)))


def _slope_jvp(ts: Any, y: Value, a: Value, e: Value) -> Value:
    ta, te = ts
    parts = [] if te is None else [expm_slope(a, te)]
    if ta is not None:
        parts.append(_second_slope(a, e, ta))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


expm_slope = opaque(
    "expm_slope",
    _slope,
    jvp=_slope_jvp,
    vjp=lambda g, y, a, e: (_second_slope(swap(a), swap(e), g), expm_slope(swap(a), g)),
    axes=(),
    cases=[case((3, 3), (3, 3)), case((2, 2, 2), (2, 2)), case((1, 1), (1, 1))],
    domain=(-1, 1),
    complex_domain=True,
    doc="L(a, e), the derivative of expm at a in the direction e.",
)

# -- the logarithm ------------------------------------------------------------------------------------------------

_logm = _of_floats("logm")


def _regular(a: Value) -> Regular:
    lead, n = shape_of(a)[:-2], shape_of(a)[-1]
    if not n:
        return Regular(np.zeros((*lead, 1, 1), bool))
    singular = reshape(less(rank(a, tol=None, rtol=None, hermitian=False), n), shape=(*lead, 1, 1))
    return regular(singular, "the logarithm, the roots and the fractional powers of a singular matrix have no derivative")


def _log_slope(a: Value, e: Value) -> Value:
    """L(a, e). It is linear in e, which is scaled to the size of a."""
    a, e = _same_shape(a, e)
    only = _regular(a)
    a = only.of(a)
    ratio = _size(e) / _size(a)
    ratio = where(equal(ratio, 0.0), 1.0, ratio)
    return only.checked(ratio * _upper_right(logm(_corner(a, e / ratio, a))))


def _size(x: Value) -> Value:
    """The largest element of each matrix, as a matrix; it has no derivative."""
    if not shape_of(x)[-1]:
        return np.ones((*shape_of(x)[:-2], 1, 1), np.finfo(dtype_of(x)).dtype)
    return max_(magnitude(x), axis=(ndim_of(x) - 2, ndim_of(x) - 1), keepdims=True)


def _estimating(function: Callable[..., Any], *args: Any) -> Any:
    """SciPy estimates a norm with random vectors: restore the state of the generator."""
    state = np.random.get_state()
    try:
        return function(*args)
    finally:
        np.random.set_state(state)


logm = opaque(
    "logm",
    lambda a: _each(lambda a: _estimating(_logm, a), a),
    jvp=lambda ts, y, a: _log_slope(a, ts[0]),
    vjp=lambda g, y, a: (_log_slope(swap(a), g),),
    axes=(),
    cases=[case(_A), case(_STACK), case(np.array([[2.0]]))],
    doc="The principal logarithm of a matrix.",
    may_fail=True,
    typed_by_value=True,
)

# -- powers: a^t = exp(t log a) -----------------------------------------------------------------------------------------

_power = _of_floats("fractional_matrix_power")


def _power_of_each(a: Any, t: Any) -> Any:
    return _each(lambda a, t: _estimating(_power, a, t[0, 0]), a, t)


def _logarithm(a: Value) -> tuple[Value, Value, Regular]:
    """a and log a, in double precision."""
    wide = cast(a, dtype=np.result_type(dtype_of(a), np.float64))
    only = _regular(wide)
    wide = only.of(wide)
    return wide, logm(wide), only


def _like(x: Value, y: Value) -> Value:
    return cast(x, dtype=dtype_of(y))


def _power_jvp(ts: Any, y: Value, a: Value, t: Value) -> Value:
    wide, log, only = _logarithm(a)
    parts = [] if ts[0] is None else [expm_slope(t * log, t * _log_slope(wide, ts[0]))]
    if ts[1] is not None:
        parts.append(ts[1] * (log @ y))
    return _like(only.checked(parts[0] if len(parts) == 1 else parts[0] + parts[1]), y)


def _power_vjp(g: Value, y: Value, a: Value, t: Value) -> Any:
    wide, log, only = _logarithm(a)
    by_a = _log_slope(swap(wide), t * expm_slope(swap(t * log), g))
    by_t = sum_(g * only.checked(log @ y), axis=(ndim_of(y) - 2, ndim_of(y) - 1), keepdims=True)
    by_a = only.checked(by_a)
    return by_a if is_complex(a) else real_part(by_a), real_part(by_t)


fractional_power = opaque(
    "fractional_power",
    _power_of_each,
    jvp=_power_jvp,
    vjp=_power_vjp,
    axes=(),
    cases=[case(_A, np.array([[0.3]])), case(_STACK, np.array([[[0.3]], [[-1.4]]])), case(np.array([[2.0]]), np.array([[0.5]]))],
    doc="A matrix to any power, the principal one. The exponent is a matrix of one element.",
    may_fail=True,
    typed_by_value=True,
)

# -- Sylvester's equation and the square root -------------------------------------------------------------------------

_solve_sylvester = _of_floats("solve_sylvester")


def _sylvester_jvp(ts: Any, x: Value, a: Value, b: Value, q: Value) -> Value:
    ta, tb, tq = ts
    right = tq
    for term in (None if ta is None else ta @ x, None if tb is None else x @ tb):
        if term is not None:
            right = -term if right is None else right - term
    return sylvester(a, b, right)


def _sylvester_vjp(g: Value, x: Value, a: Value, b: Value, q: Value) -> Any:
    s = sylvester(swap(a), swap(b), g)
    return -(s @ swap(x)), -(swap(x) @ s), s


sylvester = opaque(
    "sylvester",
    lambda a, b, q: _each(_solve_sylvester, a, b, q),
    jvp=_sylvester_jvp,
    vjp=_sylvester_vjp,
    axes=(),
    cases=[case(_A, _A[:2, :2], (3, 2)), case(_STACK, _A, (3, 3)), case(_A, _A, (2, 3, 3))],
    doc="x with a x + x b = q.",
)


def _root_slope(y: Value, a: Value, e: Value) -> Value:
    only = _regular(a)
    y = only.of(y)
    return only.checked(sylvester(y, y, e))


_sqrtm = _of_floats("sqrtm")
sqrtm = opaque(
    "sqrtm",
    lambda a: _each(_sqrtm, a),
    jvp=lambda ts, y, a: _root_slope(y, a, ts[0]),
    vjp=lambda g, y, a: (_root_slope(swap(y), swap(a), g),),
    axes=(),
    cases=[case(_A), case(_STACK), case(np.array([[2.0]]))],
    doc="The principal square root of a matrix.",
    may_fail=True,
    typed_by_value=True,
)

# -- LU: a[p] = l u, packed in one matrix; dl and du are the parts of l⁻¹ da[p] u⁻¹ ----------------------------------------

_lu_factor = _of_floats("lu_factor")


def _lu(a: Any) -> Any:
    lead, n = a.shape[:-2], a.shape[-1]
    packed = np.empty(a.shape, np.result_type(a, np.float32))
    pivots = np.empty((math.prod(lead), n), np.int32)
    flat = packed.reshape(-1, n, n) if n else packed
    for i in range(math.prod(lead) if n else 0):
        flat[i], pivots[i] = _lu_factor(a.reshape(-1, n, n)[i], check_finite=False)
    return packed, pivots.reshape(*lead, n)


def _permutation(pivots: Any) -> Any:
    """The row permutation of LAPACK's interchanges."""
    order = np.broadcast_to(np.arange(pivots.shape[-1]), pivots.shape).copy()
    if not order.size:
        return order
    flat, swaps = order.reshape(-1, pivots.shape[-1]), pivots.reshape(-1, pivots.shape[-1])
    for p, exchange in zip(flat, swaps, strict=True):
        for i, j in enumerate(exchange):
            p[i], p[j] = p[j], p[i]
    return order


permutation = constant(
    "permutation",
    _permutation,
    cases=[case(np.array([1, 1, 2])), case(np.array([[1, 1], [0, 1]]))],
)


def permute_rows(x: Value, order: Value) -> Value:
    """x[order], with one order per matrix of a stack."""
    lead = shape_of(x)[:-2]
    grids = [np.arange(n).reshape((n,) + (1,) * (len(lead) - i)) for i, n in enumerate(lead)]
    return gather(x, *grids, order, axis=0)


def inverse_order(order: Value) -> Value:
    return argsort(order, axis=ndim_of(order) - 1, kind=None)


def unit_lower(packed: Value) -> Value:
    n = shape_of(packed)[-1]
    return triangle(n, True, packed, diagonal=0.0) * packed + np.eye(n, dtype=dtype_of(packed))


def upper(packed: Value) -> Value:
    return triangle(shape_of(packed)[-1], False, packed) * packed


def _lu_jvp(ts: Any, y: Any, a: Value) -> Any:
    packed, pivots = y
    n = shape_of(a)[-1]
    low, up = unit_lower(packed), upper(packed)
    f = triangular_solve(low, permute_rows(ts[0], permutation(pivots)), lower=True, transposed=False)
    f = swap(triangular_solve(up, swap(f), lower=False, transposed=True))
    return low @ (triangle(n, True, a, diagonal=0.0) * f) + (triangle(n, False, a) * f) @ up, None


def _lu_vjp(g: Any, y: Any, a: Value) -> Any:
    packed, pivots = y
    n = shape_of(a)[-1]
    low, up = unit_lower(packed), upper(packed)
    below, above = triangle(n, True, a, diagonal=0.0), triangle(n, False, a)
    f = below * (swap(low) @ (below * g[0])) + above * ((above * g[0]) @ swap(up))
    f = triangular_solve(low, f, lower=True, transposed=True)
    d = swap(triangular_solve(up, swap(f), lower=False, transposed=False))
    return (permute_rows(d, inverse_order(permutation(pivots))),)


lu = opaque(
    "lu",
    _lu,
    jvp=_lu_jvp,
    vjp=_lu_vjp,
    axes=(),
    cases=[case(_A[::-1].copy()), case(_STACK[:, [1, 2, 0]]), case(np.array([[2.0]]))],
    many=True,
    doc="The LU factors of a square matrix packed in one, and LAPACK's pivots.",
    may_fail=True,
)
