"""The functions of scipy.special that solve a distribution function F(…) = y for one of its parameters.

Their derivative with respect to y is one over ∂F, with respect to another argument of F the quotient of the two slopes. Counts
are real numbers here.
"""

from __future__ import annotations

from ..core.op import case
from ..core.types import Value
from .beta_shape import betainc_by
from .distribution import beta_density, beta_slopes, by_shape, fisher_slopes, gamma_density, solved, student_slopes
from .lazy import special

_CASES = [case((3,), (3,), (3,)), case((2, 1), (2,), ())]
_LEVEL = (0.2, 0.8)


def _binomial_slopes(k: Value, n: Value, p: Value) -> tuple[Value, Value, Value]:
    """Of 1 − I_p(k + 1, n − k)."""
    by_a, by_b = betainc_by(1, 0, k + 1, n - k, p), betainc_by(0, 1, k + 1, n - k, p)
    return by_b - by_a, -by_b, -beta_density(k + 1, n - k, p)


def _negative_binomial_slopes(k: Value, n: Value, p: Value) -> tuple[Value, Value, Value]:
    """Of I_p(n, k + 1)."""
    by_n, by_k, by_p = beta_slopes(n, k + 1, p)
    return by_k, by_n, by_p


def _second(slopes: tuple[Value, ...]) -> tuple[Value, ...]:
    """For f(first, y, third), which solves for the second."""
    by_y, by_first, by_third = solved(slopes, 1)
    return by_first, by_y, by_third


btdtria = special(
    "btdtria", lambda a, p, b, x: solved(beta_slopes(a, b, x), 0), domain=(_LEVEL, (0.5, 3), (0.2, 0.8)), cases=_CASES
)
btdtrib = special(
    "btdtrib", lambda b, a, p, x: _second(beta_slopes(a, b, x)), domain=((0.5, 3), _LEVEL, (0.2, 0.8)), cases=_CASES
)
chdtriv = special(
    "chdtriv",
    lambda v, p, x: (2 / by_shape(0.5 * v, 0.5 * x), -gamma_density(0.5 * v, 0.5 * x) / by_shape(0.5 * v, 0.5 * x)),
    domain=(_LEVEL, (0.5, 3)),
)
gdtrib = special(
    "gdtrib",
    lambda b, a, p, x: (
        -x * gamma_density(b, a * x) / by_shape(b, a * x),
        1 / by_shape(b, a * x),
        -a * gamma_density(b, a * x) / by_shape(b, a * x),
    ),
    domain=((0.5, 2), _LEVEL, (0.5, 2)),
    cases=_CASES,
)
stdtridf = special("stdtridf", lambda df, p, t: solved(student_slopes(df, t), 0), domain=((0.8, 0.85), (1.05, 1.2)))
# By dfd Fisher's distribution function may rise and fall: the solution is the one that SciPy finds.
fdtridfd = special(
    "fdtridfd",
    lambda dfd, dfn, p, x: _second(fisher_slopes(dfn, dfd, x)),
    domain=((2, 2.5), (0.6, 0.75), (1.8, 2.2)),
    cases=_CASES,
)

bdtrik = special(
    "bdtrik", lambda k, y, n, p: solved(_binomial_slopes(k, n, p), 0), domain=(_LEVEL, (4, 6), (0.4, 0.6)), cases=_CASES
)
bdtrin = special(
    "bdtrin", lambda n, k, y, p: _second(_binomial_slopes(k, n, p)), domain=((1, 3), _LEVEL, (0.4, 0.6)), cases=_CASES
)
nbdtrik = special(
    "nbdtrik",
    lambda k, y, n, p: solved(_negative_binomial_slopes(k, n, p), 0),
    domain=((0.4, 0.8), (2, 4), (0.4, 0.6)),
    cases=_CASES,
)
nbdtrin = special(
    "nbdtrin",
    lambda n, k, y, p: _second(_negative_binomial_slopes(k, n, p)),
    domain=((1, 3), (0.3, 0.7), (0.4, 0.6)),
    cases=_CASES,
)
pdtrik = special(
    "pdtrik",
    lambda k, p, m: (-1 / by_shape(k + 1, m), -gamma_density(k + 1, m) / by_shape(k + 1, m)),
    domain=((0.4, 0.8), (2, 4)),
)
