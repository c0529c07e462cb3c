"""Calls of the distributions of scipy.stats: every method that has a formula, by its argument and all its parameters."""

import numpy as np
from surface.calls import F, call, entry

from adjoint.scipy import stats
from adjoint.scipy.family import Counts, Family

REAL = "distributions are over real numbers"
DISCRETE = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")
CONTINUOUS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")

#: Where the argument is drawn, and the ranges of the shapes. Counts are given.
DOMAINS = {
    "norm": ((-2, 2), []),
    "t": ((-2, 2), [(1.5, 4)]),
    "laplace": ((-2, 2), []),
    "logistic": ((-2, 2), []),
    "cauchy": ((-2, 2), []),
    "gumbel_r": ((-1, 2), []),
    "gamma": ((1.2, 3), [(0.8, 3)]),
    "chi2": ((1.2, 3), [(1.5, 4)]),
    "expon": ((1.2, 3), []),
    "lognorm": ((1.2, 3), [(0.5, 1.5)]),
    "weibull_min": ((1.2, 3), [(0.8, 2)]),
    "halfnorm": ((1.2, 3), []),
    "rayleigh": ((1.2, 3), []),
    "invgamma": ((1.2, 3), [(0.8, 3)]),
    "pareto": ((5, 7), [(0.8, 2)]),
    "f": ((1.2, 3), [(2, 4), (2, 4)]),
    "uniform": ((0.6, 1.2), []),
    "beta": ((0.6, 1.2), [(0.8, 3), (0.8, 3)]),
    "poisson": (np.array([0, 2, 3]), [(1, 3)]),
    "bernoulli": (np.array([0, 1, 1]), [(0.2, 0.8)]),
    "binom": (np.array([0, 2, 3]), [4, (0.2, 0.8)]),
    "nbinom": (np.array([0, 2, 3]), [(1, 3), (0.2, 0.8)]),
    "geom": (np.array([1, 2, 3]), [(0.2, 0.8)]),
}
FAMILIES = {name: f for name, f in vars(stats).items() if isinstance(f, Family)}


def methods(family):
    """The methods that have a formula, or follow from one."""
    given = {name for name, formula in family.formulas.items() if formula is not None}
    given |= {"pdf", "pmf", "logpmf"} | {f"log{name}" for name in given if name in ("cdf", "sf")}
    given |= {"isf"} if "ppf" in given else set()
    return [m for m in (DISCRETE if isinstance(family, Counts) else CONTINUOUS) if m in given]


def calls(name, method):
    where, ranges = DOMAINS[name]
    shapes = lambda *shape: [F(*shape, low=r[0], high=r[1]) if isinstance(r, tuple) else r for r in ranges]
    first = lambda *shape: F(*shape, low=0.2, high=0.8) if method in ("ppf", "isf") else F(*shape, low=where[0], high=where[1])
    names = dict(zip(FAMILIES[name].shapes, shapes(), strict=True))
    if isinstance(FAMILIES[name], Counts):
        if (name, method) == ("bernoulli", "logsf"):
            where = np.zeros(3, int)  # beyond it is -inf
        return [call(where, *shapes(3)), call(where[2], *shapes()), call(where, *shapes(2, 1)),
                call(where + 1, *shapes(3), 1), call(k=where, **names, loc=0)]  # fmt: skip
    loc, scale = lambda *s: F(*s, low=-0.1, high=0.1), lambda *s: F(*s, low=1.5, high=2)
    return [
        call(first(), *shapes(), loc(), scale()), call(first(2, 3), *shapes(3), loc(), scale(2, 1)),
        call(first(3), *shapes(), 0.1),
        call(**{"q" if method in ("ppf", "isf") else "x": first(2)}, **names, loc=loc(), scale=scale()),
    ]  # fmt: skip


def frozen(name):
    """The family as a function: its parameters first, then a method."""
    method = "logpmf" if isinstance(FAMILIES[name], Counts) else "logpdf"
    chosen = [c for c in calls(name, method) if c.args]
    return entry(*chosen, run=lambda f, x, *args, **kwargs: getattr(f(*args, **kwargs), method)(x))


CASES = {f"{name}.{m}": calls(name, m) for name, family in FAMILIES.items() for m in methods(family)}
CASES |= {name: frozen(name) for name in FAMILIES}


def covariance(a):
    return a @ a.T + np.eye(a.shape[0], dtype=a.dtype)


def simplex(x):
    """On the simplex, as exactly as SciPy wants it: in double precision."""
    x = x.astype(float)
    return x / x.sum(0)


NORMAL = entry(
    call(F(2), F(2), F(2, 2, through=covariance)), call(F(3, 2), F(2), F(2, 2, through=covariance)), call(F(), F(), F(low=0.5)),
    call(F(3), mean=F(), cov=F(low=0.5)), call(F(2), mean=F(2), cov=F(2, low=0.5)), call(F(3), F(1), F(1, 1, low=0.5)),
    call(F(2, 3, 2), mean=F(2)), call(F(2), F(2), F(2, 2, through=covariance), allow_singular=False), call(F(3), cov=F(low=0.5)),
)  # fmt: skip
POSITIVE = {"low": 0.5, "high": 2.0}
DIRICHLET = entry(
    call(F(3, **POSITIVE, through=simplex), F(3, **POSITIVE)), call(F(2, **POSITIVE, through=simplex), F(2, **POSITIVE)),
    call(F(3, 2, **POSITIVE, through=simplex), alpha=F(3, **POSITIVE)), call(F(2, low=0.1, high=0.4), F(3, **POSITIVE)),
    call(x=F(3, **POSITIVE, through=simplex), alpha=F(3, **POSITIVE)),
)  # fmt: skip
for _name, _calls in {"multivariate_normal": NORMAL, "dirichlet": DIRICHLET}.items():
    CASES |= {f"{_name}.{m}": _calls for m in ("pdf", "logpdf")}
CASES["multivariate_normal"] = entry(*NORMAL, run=lambda f, x, *args, **kwargs: f(*args, **kwargs).logpdf(x))
CASES["dirichlet"] = entry(*DIRICHLET[:4], run=lambda f, x, *args, **kwargs: f(*args, **kwargs).logpdf(x))

CASES = {name: [c.but(complex=REAL) for c in found] for name, found in CASES.items()}
