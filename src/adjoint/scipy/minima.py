"""Minima and fits of scipy.optimize, differentiable by what their functions and data depend on.

    ad.grad(lambda k: optimize.minimize(lambda x: np.sum((x - k) ** 4 + x**2), x0).x[0])(2.0)

At a minimum the gradient is zero: SciPy finds it with plain numbers, and its derivatives are those of Newton steps on the
gradient from there (`optimize.by_system`). A variable that lies on one of its bounds is as constant as the bound is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize as _scipy

from .. import numpy as anp
from ..api.grad import grad
from ..api.jacobian import jacfwd
from ..core.errors import UnsupportedError
from .numbers import is_traced, number, plain
from .optimize import by_number, by_system, solved

_WHAT = "the minimum by"
_NEAR = 1e-9  # relative distance from a bound at which a variable lies on it


def _stationary(f: Callable[[Any], Any], x: Any, bounds: Any) -> Any:
    """A minimum of f with its derivatives."""
    low, high = bounds if bounds is not None else (None, None)
    if bounds is None:
        return by_system(lambda t: grad(f)(t), x)
    at, shape = number(x, _WHAT), anp.shape(x)
    sides = [anp.broadcast_to(anp.asarray(side), shape) for side in (low, high)]
    numbers = [np.asarray(number(side, _WHAT), float) for side in sides]
    on = [np.isclose(at, side, rtol=_NEAR, atol=_NEAR) for side in numbers]
    free = ~(on[0] | on[1])
    fixed = anp.where(on[0], sides[0], anp.where(on[1], sides[1], x))
    if not free.any():
        return fixed
    places = np.flatnonzero(free)

    def inside(t: Any) -> Any:
        return f(_placed(fixed, t, places, shape))

    return _placed(fixed, by_system(lambda t: grad(inside)(t), anp.ravel(x)[places]), places, shape)


def _placed(x: Any, part: Any, places: Any, shape: tuple[int, ...]) -> Any:
    """x with other values at some places."""
    spread = np.zeros((anp.size(x), len(places)))
    spread[places, np.arange(len(places))] = 1.0
    kept = np.ones(anp.size(x))
    kept[places] = 0.0
    return anp.reshape(anp.where(kept > 0, anp.ravel(x), 0.0) + spread @ part, shape)


def _sides(bounds: Any, size: int) -> Any:
    """Lower and upper bounds, from what SciPy takes for them."""
    if bounds is None:
        return None
    if isinstance(bounds, _scipy.Bounds):
        return bounds.lb, bounds.ub
    pairs = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds]
    return anp.array([low for low, _ in pairs]), anp.array([high for _, high in pairs])


def _plain_bounds(bounds: Any) -> Any:
    if bounds is None or isinstance(bounds, _scipy.Bounds):
        return bounds
    return [tuple(None if side is None else number(plain(side), _WHAT) for side in pair) for pair in bounds]


def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, jac: Any = None, hess: Any = None, **options: Any) -> Any:
    """`scipy.optimize.minimize`, of a function that computes with traced values."""
    bounds = options.get("bounds")
    given = {**options, "bounds": _plain_bounds(bounds), "args": args, "method": method, "jac": jac, "hess": hess}
    result, is_dependent, of = solved("minimize", fun, (x0,), given)
    sides = _sides(bounds, anp.size(x0))
    if not is_dependent and not (sides is not None and any(map(is_traced, sides))):
        return result
    if options.get("constraints"):
        raise UnsupportedError(
            "minimize with constraints has no rule; write the conditions of Karush, Kuhn and Tucker as equations, "
            "and solve them with scipy.optimize.root"
        )
    result.x = _stationary(lambda x: anp.sum(of(x)), result.x, sides)
    result.fun = of(result.x)
    return result


def minimize_scalar(fun: Any, bracket: Any = None, bounds: Any = None, args: Any = (), method: Any = None, **options: Any) -> Any:
    """`scipy.optimize.minimize_scalar`, of a function that computes with traced values."""
    ends = None if bounds is None else tuple(number(plain(side), _WHAT) for side in bounds)
    given = {**options, "bracket": bracket, "bounds": ends, "args": args, "method": method}
    result, is_dependent, of = solved("minimize_scalar", fun, (), given)
    if not is_dependent:
        return result
    x = result.x
    if ends is not None and min(abs(number(x, _WHAT) - side) for side in ends) <= 1e-5 * abs(ends[1] - ends[0]):
        raise UnsupportedError("minimize_scalar found an end of its bounds, which is no minimum; widen the bounds")
    result.x = by_number(lambda t: grad(of)(t), x)
    result.fun = of(result.x)
    return result


# -- least squares --------------------------------------------------------------------------------------------------------


def least_squares(
    fun: Any, x0: Any, jac: Any = "2-point", bounds: Any = (-np.inf, np.inf), method: str = "trf", *rest: Any, **options: Any
) -> Any:
    """`scipy.optimize.least_squares`, of residuals that are traced values."""
    if rest:
        raise TypeError("least_squares of traced values takes ftol and what follows it by name")
    sides = (bounds.lb, bounds.ub) if isinstance(bounds, _scipy.Bounds) else tuple(bounds)
    args, kwargs = options.pop("args", ()), options.pop("kwargs", {})
    residuals = (lambda x: fun(x, *args, **kwargs)) if kwargs else fun
    given = {**options, "args": () if kwargs else args, "jac": jac, "method": method}
    given["bounds"] = tuple(number(plain(side), _WHAT) for side in sides)
    result, is_dependent, of = solved("least_squares", residuals, (x0,), given)
    if not is_dependent and not any(map(is_traced, map(plain, sides))):
        return result
    if options.get("loss", "linear") != "linear":
        raise UnsupportedError(
            f"least_squares with loss={options['loss']!r} has no rule for traced values; minimize the sum of the losses"
        )
    unbounded = all(np.all(np.isinf(side)) for side in given["bounds"])
    result.x = _stationary(lambda x: 0.5 * anp.sum(anp.asarray(of(x)) ** 2), result.x, None if unbounded else sides)
    result.fun = anp.atleast_1d(of(result.x))
    result.cost = 0.5 * anp.sum(result.fun**2)
    result.jac = jacfwd(lambda x: anp.atleast_1d(of(x)))(result.x)
    result.grad = result.jac.T @ result.fun
    return result


def leastsq(func: Any, x0: Any, args: Any = (), Dfun: Any = None, full_output: bool = False, *rest: Any, **options: Any) -> Any:
    """`scipy.optimize.leastsq`, of residuals that are traced values."""
    names = ("col_deriv", "ftol", "xtol", "gtol", "maxfev", "epsfcn", "factor", "diag")
    options |= dict(zip(names, rest, strict=False))
    args = args if isinstance(args, tuple) else (args,)
    noted = _PlainResults(func)
    numbers = [number(plain(x), _WHAT) for x in args]
    found = _scipy.leastsq(noted, number(plain(x0), _WHAT), tuple(numbers), Dfun, full_output, **options)
    if not noted.traced and not any(map(is_traced, map(plain, args))):
        return found
    x = _stationary(lambda t: 0.5 * anp.sum(anp.asarray(func(t, *args)) ** 2), found[0], None)
    return (x, *found[1:])


class _PlainResults:
    """A function whose results are numbers, which notes whether one of them was traced."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f, self.traced = f, False

    def __call__(self, *args: Any) -> Any:
        y = plain(self.f(*args))
        self.traced = self.traced or is_traced(y)
        return number(y, _WHAT)


def curve_fit(
    f: Any, xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None, absolute_sigma: bool = False, *rest: Any, **options: Any
) -> Any:
    """`scipy.optimize.curve_fit`, of traced data, or of a function that computes with traced values."""
    names = ("check_finite", "bounds", "method", "jac")
    options |= dict(zip(names, rest, strict=False))
    xdata, ydata, sigma = (plain(x) for x in (xdata, ydata, sigma))
    noted = _PlainResults(f)
    numbers = [number(x, _WHAT) for x in (xdata, ydata)]
    extra = {"sigma": number(sigma, _WHAT), "absolute_sigma": absolute_sigma}
    if p0 is None:  # their number, which SciPy reads from the signature
        p0 = np.ones(len(_scipy._minpack_py._getfullargspec(f).args) - 1)
        p0 = p0 if "bounds" not in options else _inside(options["bounds"], p0)
    found = _scipy.curve_fit(noted, *numbers, number(plain(p0), _WHAT), **extra, **options)
    if not noted.traced and not any(map(is_traced, (xdata, ydata, sigma))):
        return found

    def residuals(p: Any) -> Any:
        r = f(xdata, *p) - ydata
        if sigma is None:
            return r
        if anp.ndim(sigma) == 2:
            return anp.linalg.solve(anp.linalg.cholesky(sigma), r)
        return r / sigma

    sides = options.get("bounds")
    sides = (sides.lb, sides.ub) if isinstance(sides, _scipy.Bounds) else sides
    p = _stationary(lambda p: 0.5 * anp.sum(residuals(p) ** 2), found[0], sides)
    slopes = jacfwd(residuals)(p)
    covariance = anp.linalg.inv(slopes.T @ slopes)
    count = slopes.shape[0]
    if not absolute_sigma and count > len(found[0]):
        covariance = covariance * anp.sum(residuals(p) ** 2) / (count - len(found[0]))
    return (p, covariance if np.all(np.isfinite(found[1])) else found[1], *found[2:])


def _inside(bounds: Any, ones: Any) -> Any:
    low, high = (bounds.lb, bounds.ub) if isinstance(bounds, _scipy.Bounds) else bounds
    return _scipy._minpack_py._initialize_feasible(*(np.broadcast_to(side, ones.shape).astype(float) for side in (low, high)))
