"""scipy.special, differentiable: `from adjoint.scipy import special`.

SciPy's ufuncs work on traced values through NumPy's protocol; here they are added to the table. The Python functions are replaced
by differentiable ones. `status` says for each function whether it is differentiable, constant or refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as _public

from ..core.errors import UnsupportedError
from ..core.op import Constant
from ..core.types import Value, canonical_axes, dtype_of, ndim_of, shape_of
from ..numpy.dropin import drop_in
from ..numpy.table import CONSTANT, FUNCTIONS, REFUSED, UFUNCS, implements, lift, piecewise_constant, refuse
from ..ops import bessel, distribution, elliptic, parameter
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import gamma as gammas
from ..ops import reduce as reductions
from ..ops import special as rules
from ..ops.elementwise import stop_gradient
from ..ops.hypergeometric import eval_genlaguerre
from ..ops.lazy import SPECIAL
from ..ops.pairs import from_parts
from .guard import guarded

_ = (distribution, elliptic, parameter)


class _Originals:
    """scipy.special, without the wrappers that SCIPY_ARRAY_API=1 puts around its ufuncs."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(_public, name)
        inner = getattr(function, "__wrapped__", None)
        return inner if isinstance(inner, np.ufunc) else function

    def __dir__(self) -> list[str]:
        return dir(_public)


_scipy: Any = _Originals()

# -- ufuncs -----------------------------------------------------------------------------------------------------

for _name, _op in SPECIAL.items():
    _function = getattr(_scipy, _name, None)
    if isinstance(_function, np.ufunc):
        UFUNCS[_function] = _op
        if isinstance(_op, Constant):
            piecewise_constant(_function)

UFUNCS.update(
    {
        _scipy.cbrt: ops.cbrt,
        _scipy.exp2: ops.exp2,
        _scipy.expm1: ops.expm1,
        _scipy.log1p: ops.log1p,
        _scipy.expit: ops.expit,
    }
)
for _name, _op in {"_zeta": gammas.zeta, "_lambertw": rules.lambertw}.items():
    _function = getattr(_scipy._ufuncs, _name, None)
    if isinstance(_function, np.ufunc):
        UFUNCS[_function] = _op


@implements(_scipy.kelvin)
def _kelvin(x: Value) -> tuple[Value, ...]:
    pairs = ((bessel.ber, bessel.bei), (bessel.ker, bessel.kei), (bessel.berp, bessel.beip), (bessel.kerp, bessel.keip))
    return tuple(from_parts(a(x), b(x)) for a, b in pairs)


def _cylinder(name: str) -> None:
    value, slope = bessel.CYLINDER[name]
    implements(getattr(_scipy, name))(lambda v, x: (value(v, x), slope(v, x)))


for _name in bessel.CYLINDER:
    _cylinder(_name)

# -- sums of exponentials ---------------------------------------------------------------------------------------


def _axes(x: Value, axis: Any) -> tuple[int, ...]:
    return canonical_axes(axis, ndim_of(x))


def _peak(x: Value, axes: tuple[int, ...]) -> Value:
    """The largest element, as a constant to shift by; 0 where it is infinite."""
    if not math.prod(shape_of(x)[i] for i in axes):
        return np.zeros(tuple(1 if i in axes else n for i, n in enumerate(shape_of(x))), dtype_of(x))
    top = stop_gradient(reductions.max_(x, axis=axes, keepdims=True)) if axes else stop_gradient(x)
    return shapes.where(ops.isfinite(top), top, 0.0)


@drop_in(_scipy.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    x = _floating(lift(a))
    if b is not None:
        weights = np.asarray(b, dtype_of(x)) if type(b) in (int, float) else lift(b)
        shape = np.broadcast_shapes(shape_of(x), shape_of(weights))
        x, weights = (shapes.broadcast_to(v, shape=shape) for v in (x, weights))
    if ndim_of(x) == 0:
        x = shapes.reshape(x, shape=(1,))
        weights = shapes.reshape(weights, shape=(1,)) if b is not None else None
    axes = _axes(x, axis)
    if b is None and dtype_of(x).kind != "c" and not return_sign:
        y = rules.logsumexp(x, axis=axes)
        return shapes.expand_dims(y, axes) if keepdims else y
    real = shapes.real(x) if dtype_of(x).kind == "c" else x
    if b is None:
        peak = _peak(real, axes)
        total = shapes.sum_(ops.exp(x - peak), axis=axes, keepdims=True)
    else:
        # An element of weight zero is ignored, even if it is infinite.
        void = ops.logical_and(ops.equal(weights, 0), ops.logical_not(ops.isfinite(x)))
        x = shapes.where(void, -np.inf, x)
        peak = _peak(shapes.where(ops.equal(weights, 0), -np.inf, real), axes)
        total = shapes.sum_(weights * ops.exp(x - peak), axis=axes, keepdims=True)
    sign = np.sign(total) if return_sign else None
    y = ops.log(np.absolute(total) if return_sign else total) + peak
    if not keepdims:
        kept = tuple(n for i, n in enumerate(shape_of(y)) if i not in axes)
        y = shapes.reshape(y, shape=kept)
        sign = np.reshape(sign, kept)[()] if return_sign else None  # type: ignore[arg-type]
    return (y, sign) if return_sign else y


@drop_in(_scipy.softmax)
def softmax(x: Any, axis: Any = None) -> Value:
    x = _floating(lift(x))
    axes = _axes(x, axis)
    weights = ops.exp(x - _peak(x, axes))
    return weights / shapes.sum_(weights, axis=axes, keepdims=True)


@drop_in(_scipy.log_softmax)
def log_softmax(x: Any, axis: Any = None) -> Value:
    x = _floating(lift(x))
    axes = _axes(x, axis)
    if not axes:
        return x - x  # the logarithm of one
    shifted = x - _peak(x, axes)
    return shifted - shapes.expand_dims(rules.logsumexp(shifted, axis=axes), axes)


def _floating(x: Value) -> Value:
    return x if dtype_of(x).kind in "fc" else np.asarray(x, float)


if hasattr(_scipy, "softplus"):

    @drop_in(_scipy.softplus)
    def softplus(x: Any, **options: Any) -> Value:
        return np.logaddexp(0, lift(x), **options)


# -- the gamma function's relatives -----------------------------------------------------------------------------


def _strong(x: Any) -> Value:
    """An array_like as a value; a Python number counts as an array, where SciPy makes one of it."""
    return np.asarray(x) if type(x) in (int, float, complex) else lift(x)


@drop_in(_scipy.polygamma)
def polygamma(n: Any, x: Any) -> Value:
    return gammas.polygamma(_strong(n), lift(x))


@drop_in(_scipy.zeta)
def zeta(x: Any, q: Any = None, out: Any = None) -> Value:
    if q is None:
        raise UnsupportedError(
            "scipy.special.zeta has no derivative with respect to its argument 'x'; it has one by q, zeta(x, q)"
        )
    return gammas.zeta(lift(x), lift(q))


@drop_in(_scipy.multigammaln)
def multigammaln(a: Any, d: int) -> Value:
    if not np.isscalar(d) or float(d) % 1:  # type: ignore[arg-type]
        raise ValueError("d should be a positive integer (dimension)")
    a, d = lift(a), int(d)  # type: ignore[arg-type]
    terms = [gammas.gammaln(a - (j - 1.0) / 2) for j in range(1, d + 1)]
    return sum(terms[1:], terms[0]) + d * (d - 1) * np.float64(0.25 * math.log(math.pi))  # in double precision, as SciPy's


def _real_numbers(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedError(f"scipy.special.{name} with exact=True computes with integers; use exact=False to differentiate")


@drop_in(_scipy.comb)
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Value:
    _real_numbers("comb", exact)
    N, k = _strong(N), _strong(k)
    if repetition:
        nothing = ops.logical_and(ops.equal(k, 0), ops.greater_equal(N, 0))  # there is one way to choose nothing
        return shapes.where(nothing, 1.0, gammas.binom(N + k - 1, k))
    return shapes.where(_countable(N, k), gammas.binom(N, k), 0.0)


@drop_in(_scipy.perm)
def perm(N: Any, k: Any, exact: bool = False) -> Value:
    _real_numbers("perm", exact)
    N, k = _strong(N), _strong(k)
    return shapes.where(_countable(N, k), gammas.poch(N - k + 1, k), 0.0)


def _countable(N: Value, k: Value) -> Value:
    return ops.logical_and(ops.less_equal(k, N), ops.logical_and(ops.greater_equal(N, 0), ops.greater_equal(k, 0)))


@drop_in(_scipy.factorial)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Value:
    _real_numbers("factorial", exact)
    n = lift(n)
    if extend == "complex":
        return gammas.gamma(n + 1)
    if dtype_of(n).kind == "c":
        raise ValueError("complex numbers need extend='complex' (which changes the result for negative numbers, 0 by default)")
    n = shapes.cast(n, dtype=np.dtype(float)) if dtype_of(n) != np.dtype(float) else n  # as in SciPy
    return shapes.where(ops.less(n, 0), 0.0, gammas.gamma(n + 1))


# -- Bessel functions -------------------------------------------------------------------------------------------


def _spherical(name: str) -> Any:
    op = SPECIAL[name]

    def function(n: Any, z: Any, derivative: bool = False) -> Value:
        return bessel.spherical_slope(op, lift(n), lift(z)) if derivative else op(lift(n), lift(z))  # type: ignore[arg-type]

    function.__name__ = function.__qualname__ = name
    return drop_in(getattr(_scipy, name))(function)


spherical_jn = _spherical("spherical_jn")
spherical_yn = _spherical("spherical_yn")
spherical_in = _spherical("spherical_in")
spherical_kn = _spherical("spherical_kn")


def _nth_slope(name: str, op: Any, step: int, sign: int) -> Any:
    """The n-th derivative of a Bessel function: 2⁻ⁿ Σ binom(n, k) (±1)ᵏ f(v − n + 2k), times (−1)ⁿ for K."""

    def function(v: Any, z: Any, n: int = 1) -> Value:
        v, z = _strong(v) if n else lift(v), lift(z)
        terms = [math.comb(n, k) * step**k * op(v - n + 2 * k, z) for k in range(n + 1)]
        return sign**n * 0.5**n * sum(terms[1:], terms[0])

    function.__name__ = function.__qualname__ = name
    return drop_in(getattr(_scipy, name))(function)


jvp = _nth_slope("jvp", bessel.jv, -1, 1)
yvp = _nth_slope("yvp", bessel.yv, -1, 1)
ivp = _nth_slope("ivp", bessel.iv, 1, 1)
kvp = _nth_slope("kvp", bessel.kv, 1, -1)
h1vp = _nth_slope("h1vp", bessel.hankel1, -1, 1)
h2vp = _nth_slope("h2vp", bessel.hankel2, -1, 1)

# -- others -----------------------------------------------------------------------------------------------------


@drop_in(_scipy.lambertw)
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Value:
    return rules.lambertw(lift(z), lift(k), tol)


@drop_in(_scipy.diric)
def diric(x: Any, n: Any) -> Value:
    return rules.diric(lift(x), lift(n))


@drop_in(_scipy.sinc)
def sinc(x: Any) -> Value:
    return ops.sinc(lift(x))


@drop_in(_scipy.assoc_laguerre)
def assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Value:
    return eval_genlaguerre(lift(n), lift(k), lift(x))


# -- where each function stands ---------------------------------------------------------------------------------

_WHOLE = "it takes integers only"
_NO_RULE = "its derivative has no closed form in scipy.special"
_NONCENTRAL = "the derivatives of noncentral distribution functions are infinite sums that SciPy does not have"
_WAVE = "SciPy computes it by expansions whose derivatives it does not have"
_SHAPES = "nodes, weights and coefficients have no derivative by the parameters of the polynomials here"
_TABLES = "it returns a whole table of functions; use the single functions (lpmv, eval_legendre, jv) instead"

_REASONS: dict[str, str] = {
    name: reason
    for reason, names in {
        _NO_RULE: "zetac kolmogorov kolmogi smirnov smirnovi elliprj besselpoly ellip_harm ellip_harm_2 ellip_normal",
        _NONCENTRAL: "chndtr chndtridf chndtrinc chndtrix ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc "
        "nctdtr nctdtridf nctdtrinc nctdtrit",
        _WAVE: "mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem "
        "obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv "
        "pro_ang1 pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv "
        "mathieu_even_coef mathieu_odd_coef obl_cv_seq pro_cv_seq",
        "the scaling exp(−|Re|) is not analytic; use airy instead": "airye",
        _SHAPES: "roots_jacobi roots_genlaguerre roots_gegenbauer roots_sh_jacobi j_roots la_roots cg_roots js_roots "
        "jacobi genlaguerre gegenbauer sh_jacobi",
        _WHOLE: "factorial2 factorialk stirling2",
        _TABLES: "lmbda lqmn lqn pbdn_seq pbdv_seq pbvv_seq riccati_jn riccati_yn assoc_legendre_p assoc_legendre_p_all "
        "legendre_p legendre_p_all sph_harm_y sph_harm_y_all sph_legendre_p sph_legendre_p_all lpn lpmn clpmn sph_harm",
    }.items()
    for name in names.split()
}
for _name, _reason in _REASONS.items():
    if hasattr(_scipy, _name):
        refuse(_reason, getattr(_scipy, _name))

# Privately named ufuncs that SciPy's functions call.
for _name, _reason in {
    "_riemann_zeta": "there is no derivative by the exponent; zeta(x, q) has one by q",
    "_ellip_harm": _REASONS["ellip_harm"],
}.items():
    _function = getattr(_scipy._ufuncs, _name, None)
    if isinstance(_function, np.ufunc):
        refuse(_reason, _function)

# The rest depends on integers only (zeros, nodes, the orthogonal polynomials as objects) or is not a function.
for _name in _scipy.__all__:
    _function = getattr(_scipy, _name)
    if _function not in UFUNCS and _function not in FUNCTIONS and _name not in _REASONS:
        piecewise_constant(_function)


def status(name: str) -> str:
    """The status of a function of scipy.special: "differentiable", "constant" or "refused".

    >>> status("erf"), status("round"), status("zetac")
    ('differentiable', 'constant', 'refused')
    """
    function = getattr(_scipy, name)
    if function in REFUSED:
        return "refused"
    if function in CONSTANT:
        return "constant"
    return "differentiable" if function in UFUNCS or function in FUNCTIONS else "refused"


def __getattr__(name: str) -> Any:
    function = getattr(_scipy, name)
    if name in _REASONS and not isinstance(function, np.ufunc):
        return guarded(function, f"scipy.special.{name}", _REASONS[name])
    return function


def __dir__() -> list[str]:
    return dir(_scipy)


__all__ = [name for name in _scipy.__all__ if not name.startswith("_")]
