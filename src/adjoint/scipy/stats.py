"""scipy.stats, differentiable: densities and distribution functions by their argument, location, scale and shapes.

    from adjoint.scipy import stats
    ad.grad(lambda mu, sigma: stats.norm.logpdf(data, mu, sigma).sum(), argnums=(0, 1))(0.0, 1.0)

Statistics of samples (`skew`, `pearsonr`, `ttest_ind`) run as adopted copies of SciPy's code. Distributions that are not listed
here are SciPy's own and take plain numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.types import Value
from ..ops.broadcast import where
from ..ops.distribution import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    chdtr,
    chdtrc,
    chdtri,
    fdtr,
    fdtrc,
    fdtri,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    pdtr,
    pdtrc,
    stdtr,
    stdtrit,
)
from ..ops.elementwise import (
    absolute,
    arctan2,
    equal,
    exp,
    expit,
    expm1,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    power,
    square,
    tan,
)
from ..ops.gamma import betaln, gammaln
from ..ops.special import erf, log_expit, log_ndtr, logit, ndtr, ndtri, xlog1py, xlogy
from .binomial import log_binomial
from .copied import of_module
from .family import Counts, Family, count
from .multivariate import Dirichlet, MultivariateNormal

_HALF_LINE = lambda *shapes: (0.0, np.inf)
_UNIT = lambda *shapes: (0.0, 1.0)
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def _positive(*shapes: Value) -> Value:
    result = greater(shapes[0], 0)
    for s in shapes[1:]:
        result = logical_and(result, greater(s, 0))
    return result


def _is_probability(p: Value) -> Value:
    return logical_and(greater_equal(p, 0), less_equal(p, 1))


def _log1mexp(x: Value) -> Value:
    """log(1 − e^(−x)) for x > 0."""
    return where(less(x, math.log(2)), log(-expm1(-x)), log1p(-exp(-x)))


# -- on the whole line --------------------------------------------------------------------------------------------

norm = Family(
    "norm",
    "",
    logpdf=lambda x: -0.5 * square(x) - _LOG_ROOT_2PI,
    cdf=ndtr,
    sf=lambda x: ndtr(-x),
    logcdf=log_ndtr,
    logsf=lambda x: log_ndtr(-x),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)
t = Family(
    "t",
    "df",
    logpdf=lambda x, df: where(equal(df, np.inf), -0.5 * x * x - _LOG_ROOT_2PI, _student(x, where(equal(df, np.inf), 1.0, df))),
    valid=_positive,
    cdf=lambda x, df: stdtr(df, x),
    sf=lambda x, df: stdtr(df, -x),
    ppf=lambda q, df: stdtrit(df, q),
    isf=lambda q, df: -stdtrit(df, q),
)
laplace = Family(
    "laplace",
    "",
    logpdf=lambda x: -absolute(x) - math.log(2),
    cdf=lambda x: where(greater(x, 0), 1 - 0.5 * exp(-x), 0.5 * exp(x)),
    sf=lambda x: where(greater(x, 0), 0.5 * exp(-x), 1 - 0.5 * exp(x)),
    logcdf=lambda x: _laplace_log(x),
    logsf=lambda x: _laplace_log(-x),
    ppf=lambda q: where(greater(q, 0.5), -log(2 * (1 - q)), log(2 * q)),
    isf=lambda q: where(greater(q, 0.5), log(2 * (1 - q)), -log(2 * q)),
)
logistic = Family(
    "logistic",
    "",
    logpdf=lambda x: log_expit(x) + log_expit(-x),
    cdf=expit,
    sf=lambda x: expit(-x),
    logcdf=log_expit,
    logsf=lambda x: log_expit(-x),
    ppf=logit,
    isf=lambda q: -logit(q),
)
cauchy = Family(
    "cauchy",
    "",
    logpdf=lambda x: -math.log(math.pi) - _log_of_square(x),
    cdf=lambda x: arctan2(1.0, -x) / math.pi,
    sf=lambda x: arctan2(1.0, x) / math.pi,
    ppf=lambda q: _cotangent_of(q),
    isf=lambda q: -_cotangent_of(q),
)
gumbel_r = Family(
    "gumbel_r",
    "",
    logpdf=lambda x: -x - exp(-x),
    cdf=lambda x: exp(-exp(-x)),
    sf=lambda x: -expm1(-exp(-x)),
    logcdf=lambda x: -exp(-x),
    ppf=lambda q: -log(-log(q)),
    isf=lambda q: -log(-log1p(-q)),
)


def _log_of_square(x: Value) -> Value:
    """log(1 + x²), where x² may overflow."""
    size = absolute(x)
    return where(less(size, 1), log1p(square(x)), 2 * log(size) + log1p(square(1 / size)))


def _cotangent_of(q: Value) -> Value:
    """−cot(π q): exact near 1/2 as a tangent, and near 0 and 1, where it is large."""
    far = 1 / tan(math.pi * where(less(q, 0.5), -q, 1 - q))
    return where(less(absolute(q - 0.5), 0.25), tan(math.pi * (q - 0.5)), far)


def _student(x: Value, df: Value) -> Value:
    return -0.5 * log(df) - betaln(0.5 * df, 0.5) - 0.5 * (df + 1) * log1p(x * x / df)


def _laplace_log(x: Value) -> Value:
    return where(greater(x, 0), log1p(-0.5 * exp(-x)), x - math.log(2))


# -- on the half line ---------------------------------------------------------------------------------------------

gamma = Family(
    "gamma",
    "a",
    logpdf=lambda x, a: xlogy(a - 1, x) - x - gammaln(a),
    support=_HALF_LINE,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, a: gammainc(a, x),
    sf=lambda x, a: gammaincc(a, x),
    ppf=lambda q, a: gammaincinv(a, q),
    isf=lambda q, a: gammainccinv(a, q),
)
chi2 = Family(
    "chi2",
    "df",
    logpdf=lambda x, df: xlogy(0.5 * df - 1, x) - 0.5 * x - gammaln(0.5 * df) - 0.5 * math.log(2) * df,
    support=_HALF_LINE,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, df: chdtr(df, x),
    sf=lambda x, df: chdtrc(df, x),
    ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q),
    isf=lambda q, df: chdtri(df, q),
)
expon = Family(
    "expon",
    "",
    logpdf=lambda x: -x,
    support=_HALF_LINE,
    inside=1.0,
    cdf=lambda x: -expm1(-x),
    sf=lambda x: exp(-x),
    logcdf=_log1mexp,
    logsf=lambda x: -x,
    ppf=lambda q: -log1p(-q),
    isf=lambda q: -log(q),
)
lognorm = Family(
    "lognorm",
    "s",
    logpdf=lambda x, s: -0.5 * square(log(x) / s) - log(s * x) - _LOG_ROOT_2PI,
    support=_HALF_LINE,
    closed=False,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, s: ndtr(log(x) / s),
    sf=lambda x, s: ndtr(-log(x) / s),
    logcdf=lambda x, s: log_ndtr(log(x) / s),
    logsf=lambda x, s: log_ndtr(-log(x) / s),
    ppf=lambda q, s: exp(s * ndtri(q)),
    isf=lambda q, s: exp(-s * ndtri(q)),
)
weibull_min = Family(
    "weibull_min",
    "c",
    logpdf=lambda x, c: log(c) + xlogy(c - 1, x) - power(x, c),
    support=_HALF_LINE,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, c: -expm1(-power(x, c)),
    sf=lambda x, c: exp(-power(x, c)),
    logsf=lambda x, c: -power(x, c),
    ppf=lambda q, c: power(-log1p(-q), 1 / c),
    isf=lambda q, c: power(-log(q), 1 / c),
)
halfnorm = Family(
    "halfnorm",
    "",
    logpdf=lambda x: 0.5 * math.log(2 / math.pi) - 0.5 * x * x,
    support=_HALF_LINE,
    inside=1.0,
    cdf=lambda x: erf(math.sqrt(0.5) * x),
    sf=lambda x: 2 * ndtr(-x),
    ppf=lambda q: ndtri(0.5 * (1 + q)),
    isf=lambda q: -ndtri(0.5 * q),
)
rayleigh = Family(
    "rayleigh",
    "",
    logpdf=lambda x: log(x) - 0.5 * x * x,
    support=_HALF_LINE,
    closed=False,
    inside=1.0,
    cdf=lambda x: -expm1(-0.5 * x * x),
    sf=lambda x: exp(-0.5 * x * x),
    logsf=lambda x: -0.5 * x * x,
    ppf=lambda q: power(-2 * log1p(-q), 0.5),
    isf=lambda q: power(-2 * log(q), 0.5),
)
invgamma = Family(
    "invgamma",
    "a",
    logpdf=lambda x, a: -(a + 1) * log(x) - gammaln(a) - 1 / x,
    support=_HALF_LINE,
    closed=False,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, a: gammaincc(a, 1 / x),
    sf=lambda x, a: gammainc(a, 1 / x),
    ppf=lambda q, a: 1 / gammainccinv(a, q),
    isf=lambda q, a: 1 / gammaincinv(a, q),
)


pareto = Family(
    "pareto",
    "b",
    logpdf=lambda x, b: log(b) - (b + 1) * log(x),
    support=lambda b: (1.0, np.inf),
    inside=2.0,
    valid=_positive,
    cdf=lambda x, b: 1 - power(x, -b),
    sf=lambda x, b: power(x, -b),
    logsf=lambda x, b: -b * log(x),
    ppf=lambda q, b: power(1 - q, -1 / b),
    isf=lambda q, b: power(q, -1 / b),
)
f = Family(
    "f",
    "dfn dfd",
    logpdf=lambda x, dfn, dfd: (
        0.5 * dfn * log(dfn / dfd)
        + xlogy(0.5 * dfn - 1, x)
        - 0.5 * (dfn + dfd) * log1p(dfn / dfd * x)
        - betaln(0.5 * dfn, 0.5 * dfd)
    ),
    support=_HALF_LINE,
    inside=1.0,
    valid=_positive,
    cdf=lambda x, dfn, dfd: fdtr(dfn, dfd, x),
    sf=lambda x, dfn, dfd: fdtrc(dfn, dfd, x),
    ppf=lambda q, dfn, dfd: fdtri(dfn, dfd, q),
)

# -- on an interval -----------------------------------------------------------------------------------------------

uniform = Family(
    "uniform",
    "",
    logpdf=lambda x: 0.0 * x,
    support=_UNIT,
    inside=0.5,
    cdf=lambda x: x,
    sf=lambda x: 1 - x,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
)
beta = Family(
    "beta",
    "a b",
    logpdf=lambda x, a, b: xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b),
    support=_UNIT,
    inside=0.5,
    valid=_positive,
    cdf=lambda x, a, b: betainc(a, b, x),
    sf=lambda x, a, b: betaincc(a, b, x),
    ppf=lambda q, a, b: betaincinv(a, b, q),
    isf=lambda q, a, b: betainccinv(a, b, q),
)

# -- counts -------------------------------------------------------------------------------------------------------


def _is_count(n: Value) -> Value:
    return logical_and(greater_equal(n, 0), equal(n, floor(n)))


poisson = Counts(
    "poisson",
    "mu",
    logpdf=lambda k, mu: xlogy(k, mu) - gammaln(k + 1) - mu,
    support=_HALF_LINE,
    valid=lambda mu: greater_equal(mu, 0),
    cdf=lambda k, mu: pdtr(k, mu),
    sf=lambda k, mu: pdtrc(k, mu),
)
binom = Counts(
    "binom",
    "n p",
    logpdf=lambda k, n, p: log_binomial(k, count(n), p),
    support=lambda n, p: (0.0, n),
    valid=lambda n, p: logical_and(_is_count(n), _is_probability(p)),
    cdf=lambda k, n, p: betaincc(k + 1, count(n) - k, p),
    sf=lambda k, n, p: betainc(k + 1, count(n) - k, p),
)
bernoulli = Counts(
    "bernoulli",
    "p",
    logpdf=lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
    support=_UNIT,
    valid=_is_probability,
    cdf=lambda k, p: 1 - p,
    sf=lambda k, p: p,
)
nbinom = Counts(
    "nbinom",
    "n p",
    logpdf=lambda k, n, p: log_binomial(n, n + k, p) + log(n / (n + k)),
    support=_HALF_LINE,
    valid=lambda n, p: logical_and(greater(n, 0), logical_and(greater(p, 0), less_equal(p, 1))),
    cdf=lambda k, n, p: betainc(n, k + 1, p),
    sf=lambda k, n, p: betaincc(n, k + 1, p),
)
geom = Counts(
    "geom",
    "p",
    logpdf=lambda k, p: xlog1py(k - 1, -p) + log(p),
    support=lambda p: (1.0, np.inf),
    inside=1.0,
    valid=lambda p: logical_and(greater(p, 0), less_equal(p, 1)),
    cdf=lambda k, p: -expm1(k * log1p(-p)),
    sf=lambda k, p: exp(k * log1p(-p)),
    logsf=lambda k, p: k * log1p(-p),
)


# -- several dimensions -------------------------------------------------------------------------------------------

multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()


def _scipy() -> Any:
    import scipy.stats

    return scipy.stats


def __getattr__(name: str) -> Any:
    globals()[name] = found = of_module(_scipy(), name)
    return found


def __dir__() -> list[str]:
    return dir(_scipy())
