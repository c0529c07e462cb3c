"""Distribution functions of scipy.special: incomplete gamma and beta functions and their relatives.

The derivative of a distribution function is its density, that of a quantile function one over the density. There are rules for
the shapes of the gamma and the beta distribution too (`gamma_shape.py`, `beta_shape.py`), and none for counts.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.op import case
from ..core.types import Value
from .beta_shape import beta_by_shapes, betainc_by, log_odds_density, student_by_df, student_log_density
from .broadcast import where
from .elementwise import equal, exp, floor, greater, greater_equal, less, less_equal, log, log1p, logical_and
from .gamma import betaln, gammaln
from .gamma_shape import gammainc_by_a
from .lazy import special
from .special import ndtri, xlog1py, xlogy


def by_shape(a: Value, x: Value) -> Value:
    """∂P(a, x)/∂a, the slope of the distribution function of the gamma distribution by its shape."""
    return gammainc_by_a(a, x, order=1)


# -- densities --------------------------------------------------------------------------------------------------


def gamma_density(a: Value, x: Value) -> Value:
    """x^(a−1) e^(−x) / Γ(a), zero for x < 0."""
    inside = greater_equal(x, 0)
    return where(inside, exp(xlogy(a - 1, where(inside, x, 1.0)) - x - gammaln(a)), 0.0)


def beta_density(a: Value, b: Value, x: Value) -> Value:
    """x^(a−1) (1−x)^(b−1) / B(a, b), zero outside [0, 1]."""
    inside = logical_and(greater_equal(x, 0), less_equal(x, 1))
    x = where(inside, x, 0.5)
    return where(inside, exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b)), 0.0)


def student_density(df: Value, t: Value) -> Value:
    normal = exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
    finite = where(equal(df, np.inf), 1.0, df)
    return where(equal(df, np.inf), normal, exp(student_log_density(finite, t)))


def student_slope(df: Value, t: Value) -> Value:
    """The slope of Student's distribution function by df, none at infinity."""
    finite = where(equal(df, np.inf), 1.0, df)
    return where(equal(df, np.inf), 0.0, student_by_df(finite, t, order=1))


def fisher_density(dfn: Value, dfd: Value, x: Value) -> Value:
    inside = greater(x, 0)
    x = where(inside, x, 1.0)
    r = dfn / dfd
    return where(
        inside,
        exp(0.5 * dfn * log(r) + (0.5 * dfn - 1) * log(x) - 0.5 * (dfn + dfd) * log1p(r * x) - betaln(0.5 * dfn, 0.5 * dfd)),
        0.0,
    )


def _fisher_shapes(dfn: Value, dfd: Value, x: Value) -> tuple[Value, Value]:
    """The slopes of Fisher's distribution function by dfn and dfd: I(dfn/2, dfd/2) at u = log(dfn x / dfd).

    Each is a sum that cancels where one parameter is large, or x small and dfn near 2: some digits are lost there.
    """
    inside = logical_and(greater(x, 0), less(x, np.inf))
    a, b, u = 0.5 * dfn, 0.5 * dfd, log(dfn) - log(dfd) + log(where(inside, x, 1.0))
    density = log_odds_density(a, b, u)
    by_dfn = 0.5 * beta_by_shapes(a, b, u, i=1, j=0) + density / dfn
    by_dfd = 0.5 * beta_by_shapes(a, b, u, i=0, j=1) - density / dfd
    return where(inside, by_dfn, 0.0), where(inside, by_dfd, 0.0)


# -- incomplete gamma and beta ----------------------------------------------------------------------------------

_SHAPE = ((0.5, 3), (0.3, 4))
_PROBABILITY = ((0.5, 3), (0.2, 0.8))
gammainc = special("gammainc", lambda y, a, x: (by_shape(a, x), gamma_density(a, x)), domain=_SHAPE)
gammaincc = special("gammaincc", lambda y, a, x: (-by_shape(a, x), -gamma_density(a, x)), domain=_SHAPE)
gammaincinv = special(
    "gammaincinv",
    lambda x, a, y: (-by_shape(a, x) / gamma_density(a, x), 1 / gamma_density(a, x)),
    domain=_PROBABILITY,
)
gammainccinv = special(
    "gammainccinv",
    lambda x, a, y: (-by_shape(a, x) / gamma_density(a, x), -1 / gamma_density(a, x)),
    domain=_PROBABILITY,
)

_BETA = [case((3,), (3,), (3,)), case((2, 1), (2,), ()), case(1.5, 2.5, (2, 2))]
_BETA_SHAPES = ((0.5, 3), (0.5, 3), (0.1, 0.9))


def beta_slopes(a: Value, b: Value, x: Value) -> tuple[Value, Value, Value]:
    return betainc_by(1, 0, a, b, x), betainc_by(0, 1, a, b, x), beta_density(a, b, x)


def solved(slopes: tuple[Value, ...], unknown: int, level: Value = 1) -> tuple[Value, ...]:
    """The slopes of the argument that solves F(…) = y, by y and by the other arguments of F."""
    by_unknown = slopes[unknown]
    return (level / by_unknown, *(-s / by_unknown for i, s in enumerate(slopes) if i != unknown))


def _quantile(slopes: tuple[Value, ...], level: Value = 1) -> tuple[Value, ...]:
    """The slopes of the last argument of F, which solves F = y, by the others and y."""
    by_y, *others = solved(slopes, len(slopes) - 1, level)
    return (*others, by_y)


betainc = special("betainc", lambda y, a, b, x: beta_slopes(a, b, x), domain=_BETA_SHAPES, cases=_BETA)
betaincc = special("betaincc", lambda y, a, b, x: tuple(-s for s in beta_slopes(a, b, x)), domain=_BETA_SHAPES, cases=_BETA)
betaincinv = special("betaincinv", lambda x, a, b, y: _quantile(beta_slopes(a, b, x)), domain=_BETA_SHAPES, cases=_BETA)
betainccinv = special("betainccinv", lambda x, a, b, y: _quantile(beta_slopes(a, b, x), -1), domain=_BETA_SHAPES, cases=_BETA)

# -- continuous distributions -----------------------------------------------------------------------------------

chdtr = special("chdtr", lambda y, v, x: (0.5 * by_shape(0.5 * v, 0.5 * x), 0.5 * gamma_density(0.5 * v, 0.5 * x)), domain=_SHAPE)
chdtrc = special(
    "chdtrc", lambda y, v, x: (-0.5 * by_shape(0.5 * v, 0.5 * x), -0.5 * gamma_density(0.5 * v, 0.5 * x)), domain=_SHAPE
)
chdtri = special(
    "chdtri",
    lambda x, v, p: (
        -by_shape(0.5 * v, 0.5 * x) / gamma_density(0.5 * v, 0.5 * x),
        -2 / gamma_density(0.5 * v, 0.5 * x),
    ),
    domain=_PROBABILITY,
)
_THREE = [case((3,), (3,), (3,)), case((2, 1), (2,), ())]
gdtr = special(
    "gdtr",
    lambda y, a, b, x: (x * gamma_density(b, a * x), by_shape(b, a * x), a * gamma_density(b, a * x)),
    domain=(0.5, 2),
    cases=_THREE,
)
gdtrc = special(
    "gdtrc",
    lambda y, a, b, x: (-x * gamma_density(b, a * x), -by_shape(b, a * x), -a * gamma_density(b, a * x)),
    domain=(0.5, 2),
    cases=_THREE,
)
gdtrix = special(
    "gdtrix",
    lambda x, a, b, p: (
        -x / a,
        -by_shape(b, a * x) / (a * gamma_density(b, a * x)),
        1 / (a * gamma_density(b, a * x)),
    ),
    domain=((0.5, 2), (0.5, 2), (0.2, 0.8)),
    cases=_THREE,
)
gdtria = special(
    "gdtria",
    lambda a, p, b, x: (
        1 / (x * gamma_density(b, a * x)),
        -by_shape(b, a * x) / (x * gamma_density(b, a * x)),
        -a / x,
    ),
    domain=((0.2, 0.8), (0.5, 2), (0.5, 2)),
    cases=_THREE,
)


def student_slopes(df: Value, t: Value) -> tuple[Value, Value]:
    return student_slope(df, t), student_density(df, t)


def fisher_slopes(dfn: Value, dfd: Value, x: Value) -> tuple[Value, Value, Value]:
    return (*_fisher_shapes(dfn, dfd, x), fisher_density(dfn, dfd, x))


_STUDENT = [case((3,), (3,)), case((2, 1), (2,)), case(np.array([0.7, 12.0]), (2, 2))]
stdtr = special("stdtr", lambda y, df, t: student_slopes(df, t), domain=((1, 6), (-2, 2)), cases=_STUDENT)
stdtrit = special("stdtrit", lambda t, df, p: _quantile(student_slopes(df, t)), domain=((1, 6), (0.1, 0.9)), cases=_STUDENT)
_FISHER = [*_THREE, case(np.array([1.5, 6.0]), 5.0, (2, 2))]
_FISHER_SHAPES = ((1, 6), (1, 6), (0.3, 3))
fdtr = special("fdtr", lambda y, dfn, dfd, x: fisher_slopes(dfn, dfd, x), domain=_FISHER_SHAPES, cases=_FISHER)
fdtrc = special(
    "fdtrc", lambda y, dfn, dfd, x: tuple(-s for s in fisher_slopes(dfn, dfd, x)), domain=_FISHER_SHAPES, cases=_FISHER
)
fdtri = special(
    "fdtri",
    lambda x, dfn, dfd, p: _quantile(fisher_slopes(dfn, dfd, x)),
    domain=((1, 6), (1, 6), (0.1, 0.9)),
    cases=_FISHER,
)

# The mean and the deviation of a normal distribution from one quantile: x = mn + std ndtri(p).
nrdtrimn = special(
    "nrdtrimn",
    lambda mn, p, std, x: (-std * math.sqrt(2 * math.pi) * exp(0.5 * ndtri(p) * ndtri(p)), -ndtri(p), 1),
    domain=((0.2, 0.8), (0.5, 2), (-1, 1)),
    cases=_THREE,
)
nrdtrisd = special(
    "nrdtrisd",
    lambda std, mn, p, x: (
        -1 / ndtri(p),
        -std / ndtri(p) * math.sqrt(2 * math.pi) * exp(0.5 * ndtri(p) * ndtri(p)),
        1 / ndtri(p),
    ),
    domain=((-1, 0.5), (0.6, 0.9), (1, 2)),
    cases=_THREE,
)

# -- counts: sums of binomial, negative binomial and Poisson probabilities, by the probability or the mean ------


_COUNTS = [case(np.array([0.0, 2.0, 3.0]), np.array([2, 5, 6]), (3,)), case(1.0, 4, (2, 2))]


def _binomial_density(k: Value, n: Value, p: Value) -> Value:
    return beta_density(floor(k) + 1, n - floor(k), p)


bdtr = special("bdtr", lambda y, k, n, p: (None, None, -_binomial_density(k, n, p)), domain=(0.2, 0.8), cases=_COUNTS)
bdtrc = special("bdtrc", lambda y, k, n, p: (None, None, _binomial_density(k, n, p)), domain=(0.2, 0.8), cases=_COUNTS)
bdtri = special("bdtri", lambda p, k, n, y: (None, None, -1 / _binomial_density(k, n, p)), domain=(0.2, 0.8), cases=_COUNTS)
_NEGATIVE = [case(np.array([0, 2, 3]), np.array([2, 5, 6]), (3,)), case(1, 4, (2, 2))]
nbdtr = special("nbdtr", lambda y, k, n, p: (None, None, beta_density(n, k + 1, p)), domain=(0.2, 0.8), cases=_NEGATIVE)
nbdtrc = special("nbdtrc", lambda y, k, n, p: (None, None, -beta_density(n, k + 1, p)), domain=(0.2, 0.8), cases=_NEGATIVE)
nbdtri = special("nbdtri", lambda p, k, n, y: (None, None, 1 / beta_density(n, k + 1, p)), domain=(0.2, 0.8), cases=_NEGATIVE)
_POISSON = [case(np.array([0, 2, 3]), (3,)), case(1, (2, 2))]
pdtr = special("pdtr", lambda y, k, m: (None, -gamma_density(floor(k) + 1, m)), domain=(0.5, 4), cases=_POISSON)
pdtrc = special("pdtrc", lambda y, k, m: (None, gamma_density(floor(k) + 1, m)), domain=(0.5, 4), cases=_POISSON)
pdtri = special("pdtri", lambda m, k, y: (None, -1 / gamma_density(k + 1, m)), domain=(0.2, 0.8), cases=_POISSON)
