"""A family of distributions: the methods of scipy.stats from the formulas of the standard member.

A formula is written for loc = 0 and scale = 1 inside the support. Everything else is done here once: shift and scale,
zero density and zero slope outside the support, nan for invalid parameters, arguments by position or by name.
With no traced argument SciPy's own method runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of
from ..numpy.table import holds_traced, lift
from ..ops.broadcast import cast, where
from ..ops.declare import elementwise
from ..ops.elementwise import (
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    not_equal,
)

Formula = Callable[..., Value]
_METHODS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")

# A count has no derivative: the probability is zero between integers.
count = elementwise("count", np.positive, lambda y, k: (None,), scalar=lambda k: k)


class Distribution:
    """A distribution by its name. What a subclass does not define is SciPy's, as `method` lets it through."""

    name = ""

    def __repr__(self) -> str:
        return f"<adjoint.scipy.stats.{self.name}>"

    @property
    def scipy(self) -> Any:
        """SciPy's distribution of the same name."""
        import scipy.stats

        return getattr(scipy.stats, self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.method(name, getattr(self.scipy, name))

    def method(self, name: str, original: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Frozen(self, args, kwargs)


class Family(Distribution):
    """The methods of one distribution. `support(*shapes)` are its ends, `valid(*shapes)` is whether the shapes are valid."""

    discrete = False

    def __init__(
        self,
        name: str,
        shapes: str,
        *,
        logpdf: Formula,
        support: Callable[..., tuple[Any, Any]] = lambda *shapes: (-np.inf, np.inf),
        inside: float = 0.0,
        closed: bool = True,
        valid: Callable[..., Value] | None = None,
        cdf: Formula | None = None,
        sf: Formula | None = None,
        logcdf: Formula | None = None,
        logsf: Formula | None = None,
        ppf: Formula | None = None,
        isf: Formula | None = None,
    ) -> None:
        self.name = name
        self.shapes = shapes.split()
        self.support = support
        self.inside = inside  # a point of the support, for elements outside of it to be computed at
        self.closed = closed  # whether the ends of the support have a density
        self.valid = valid
        self.formulas = {"logpdf": logpdf, "cdf": cdf, "sf": sf, "logcdf": logcdf, "logsf": logsf, "ppf": ppf, "isf": isf}
        self.names = ["x", *self.shapes, "loc", *(() if self.discrete else ("scale",))]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name[1:] in _METHODS and hasattr(self.scipy, name):
            return getattr(self, name[1:])  # without a location and a scale: the standard distribution
        return super().__getattr__(name)

    def method(self, name: str, original: Any) -> Any:
        if name not in _METHODS:
            return original

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._run(name, args, kwargs)

        method.__name__, method.__doc__ = name, original.__doc__
        return method

    def freeze(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def _run(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(map(holds_traced, (*args, *kwargs.values()))):
            return getattr(self.scipy, method)(*args, **kwargs)
        first = "q" if method in ("ppf", "isf") else "k" if self.discrete else "x"
        x, *shapes, loc, scale = (_double(lift(v)) for v in self._arguments(method, first, args, kwargs))
        with np.errstate(all="ignore"):
            return self._evaluate(method, x, shapes, loc, scale)

    def _arguments(self, method: str, first: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The argument, the shapes, loc and scale, given by position or by name."""
        given = dict(zip(self.names, args, strict=False))
        named = {"x" if name == first else name: value for name, value in kwargs.items()}
        if len(args) > len(self.names) or not named.keys() <= set(self.names) or named.keys() & given.keys():
            raise TypeError(
                f"{self.name}.{method} takes {first}, {', '.join(self.names[1:])}; got {len(args)} and {sorted(kwargs)}"
            )
        values = {"loc": 0, "scale": 1, **given, **named}
        missing = [first if name == "x" else name for name in self.names if name not in values]
        if missing:
            raise TypeError(f"{self.name}.{method} is missing its argument {missing[0]!r}")
        return [values[name] for name in ("x", *self.shapes, "loc", "scale")]

    def _evaluate(self, method: str, x: Value, shapes: list[Value], loc: Value, scale: Value) -> Value:
        fine = _both(greater(scale, 0), self.valid(*shapes) if self.valid else True)
        if method in ("ppf", "isf"):
            return self._quantile(method, x, shapes, loc, scale, fine)
        y = x if type(loc) is int and loc == 0 else x - loc
        y = y if type(scale) is int and scale == 1 else y / scale
        low, high = self.support(*shapes)
        if high is np.inf and low == -np.inf:  # the formulas hold everywhere, and keep nan
            return _replace(fine, self._everywhere(method, y, shapes, scale), np.nan)
        if method in ("pdf", "logpdf"):
            above, below = (greater_equal, less_equal) if self.closed else (greater, less)
            within = _both(above(y, low), below(y, high))
            density = _replace(within, self._formula("logpdf", _replace(within, y, self.inside), shapes) - log(scale), -np.inf)
            result = exp(density) if method == "pdf" else density
        else:
            result = self._tail(method, y, shapes, low, high)
        return _replace(_both(fine, logical_not(isnan(y))), result, np.nan)

    def _everywhere(self, method: str, y: Value, shapes: list[Value], scale: Value) -> Value:
        if method not in ("pdf", "logpdf"):
            return self._formula(method, y, shapes)
        density = self._formula("logpdf", y, shapes) - log(scale)
        return exp(density) if method == "pdf" else density

    def _tail(self, method: str, y: Value, shapes: list[Value], low: Any, high: Any) -> Value:
        """A distribution function: its value is known where the support ends."""
        before, after = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-np.inf, 0.0), "logsf": (0.0, -np.inf)}[method]
        above, below = greater(y, low), self._below(y, high)
        z = _replace(_both(above, below), y, self.inside)
        return _replace(above, _replace(below, self._formula(method, z, shapes), after), before)

    def _below(self, y: Value, high: Any) -> Value:
        return logical_not(greater_equal(y, high))

    def _formula(self, method: str, z: Value, shapes: list[Value]) -> Value:
        formula = self.formulas[method]
        if formula is not None:
            return formula(z, *shapes)
        if method in ("logcdf", "logsf"):
            near, far = ("cdf", "sf") if method == "logcdf" else ("sf", "cdf")
            p = self._formula(near, z, shapes)
            if self.discrete:
                return log(p)
            # Near one its logarithm is known from the other tail alone.
            return where(less(p, 0.5), log(p), log1p(-self._formula(far, z, shapes)))
        raise UnsupportedError(f"scipy.stats.{self.name}.{method} has no derivative rule; use another method, or ad.custom_vjp")

    def _quantile(self, method: str, q: Value, shapes: list[Value], loc: Value, scale: Value, fine: Value) -> Value:
        formula, p = self.formulas[method], q
        start, end = self.support(*shapes)
        if method == "isf":
            start, end = end, start
        if formula is None and method == "isf":
            formula, p = self.formulas["ppf"], 1 - q
        if formula is None:
            raise UnsupportedError(
                f"scipy.stats.{self.name}.{method} has no derivative rule; use another method, or ad.custom_vjp"
            )
        within = _both(greater(q, 0), less(q, 1))
        y = formula(_replace(within, p, 0.5), *shapes) * scale + loc
        for side, bound in ((0, start), (1, end)):  # where the support begins and ends
            y = _replace(not_equal(q, side), y, bound if np.isinf(bound) else bound * scale + loc)
        return _replace(_both(fine, _both(greater_equal(q, 0), less_equal(q, 1))), y, np.nan)


class Counts(Family):
    """A distribution over integers. There is no scale, and no derivative by the count."""

    discrete = True

    def _evaluate(self, method: str, x: Value, shapes: list[Value], loc: Value, scale: Value) -> Value:
        fine = self.valid(*shapes) if self.valid else True
        k = count(x - loc)
        low, high = self.support(*shapes)
        if method in ("pmf", "logpmf"):
            within = _both(_both(greater_equal(k, low), less_equal(k, high)), equal(k, floor(k)))
            density = _replace(within, self._formula("logpdf", _replace(within, k, self.inside), shapes), -np.inf)
            result = exp(density) if method == "pmf" else density
        elif method in ("cdf", "sf", "logcdf", "logsf"):
            result = self._tail(method, floor(k), shapes, low - 1, high)
        else:
            raise UnsupportedError(
                f"scipy.stats.{self.name}.{method} is piecewise constant in its arguments; it has no useful derivative"
            )
        return _replace(_both(fine, logical_not(isnan(k))), result, np.nan)


class Frozen:
    """A distribution with its parameters: `norm(loc, scale).logpdf(x)`. Other attributes are SciPy's."""

    def __init__(self, family: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.family, self.args, self.kwargs = family, args, kwargs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in _METHODS:
            if any(map(holds_traced, (*self.args, *self.kwargs.values()))):
                raise UnsupportedError(f"scipy.stats.{self.family.name}(…).{name} is not available with traced parameters")
            return getattr(self.family.scipy(*self.args, **self.kwargs), name)
        method = getattr(self.family, name)
        return lambda x: method(x, *self.args, **self.kwargs)


def _double(x: Value) -> Value:
    """In double precision, as scipy.stats computes."""
    if dtype_of(x).kind == "c":
        raise UnsupportedError(
            "the distributions of adjoint.scipy.stats take real numbers, not complex ones; use their real parts"
        )
    return x if dtype_of(x) == np.float64 or dtype_of(x).kind != "f" else cast(x, dtype=np.dtype(float))


def _known(condition: Value) -> bool:
    """Whether a condition is known to hold everywhere."""
    return not isinstance(condition, Traced) and bool(np.all(condition))


def _both(a: Value, b: Value) -> Value:
    return b if _known(a) and np.ndim(a) == 0 else a if _known(b) and np.ndim(b) == 0 else logical_and(a, b)


def _replace(condition: Value, x: Value, other: Value) -> Value:
    """x, and `other` where the condition fails."""
    if _known(condition) and np.broadcast_shapes(np.shape(condition), np.shape(x)) == np.shape(x):
        return x
    return where(condition, x, other)
