"""scipy.interpolate, differentiable in one dimension: by the place, and by the data if the interpolant is linear in it.

    from adjoint.scipy import interpolate
    spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    ad.grad(spline)(1.5)

SciPy's interpolants consist of polynomials between breakpoints (`PPoly`), and so do those of traced values: the interval is
looked up, and its polynomial is evaluated. The breakpoints have no derivative. Interpolants in several dimensions are SciPy's.
"""

from __future__ import annotations

import math
from abc import ABCMeta
from typing import Any

import numpy as np
import scipy.interpolate as _scipy

from .. import numpy as anp
from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..numpy.dropin import without_examples
from ..staging.stage import Stage
from . import host
from .numbers import is_traced, known_numbers, number, plain


class Pieces:
    """Polynomials between breakpoints x: on [x[i], x[i+1]) the sum of c[m] (t − x[i])^(k−m), as in `scipy.interpolate.PPoly`.

    >>> line = Pieces(np.array([[2.0], [1.0]]), np.array([0.0, 1.0]))
    >>> line(0.5), line(0.5, 1), line.antiderivative()(1.0)
    (np.float64(2.0), np.float64(2.0), np.float64(2.0))
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = True) -> None:
        self.c, self.x, self.extrapolate = c, x, True if extrapolate is None else extrapolate
        self.axis = 0

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        t, knots = anp.asarray(x), self.x
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            t = knots[0] + anp.mod(t - knots[0], knots[-1] - knots[0])
        at = anp.clip(anp.searchsorted(knots, t, side="right") - 1, 0, len(knots) - 2)
        step = anp.reshape(t - anp.take(knots, at), (*anp.shape(t), *(1,) * (self.c.ndim - 2)))
        y = anp.take(self.c[0], at, axis=0)
        for c in self.c[1:]:
            y = y * step + anp.take(c, at, axis=0)
        if extrapolate is False:
            outside = ((t < knots[0]) | (t > knots[-1])).reshape(anp.shape(step))
            y = anp.where(outside, np.nan, y)
        return y[()] if anp.ndim(y) == 0 else y

    def derivative(self, nu: int = 1) -> Pieces:
        if nu < 0:
            return self.antiderivative(-nu)
        order = len(self.c)
        if nu >= order:
            return Pieces(anp.zeros_like(self.c[:1]), self.x, self.extrapolate)
        factors = np.array([math.perm(order - 1 - m, nu) for m in range(order - nu)], float)
        return Pieces(self.c[: order - nu] * _column(factors, self.c), self.x, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> Pieces:
        if nu <= 0:
            return self.derivative(-nu)
        order = len(self.c)
        c = self.c / _column(np.arange(order, 0, -1.0), self.c)
        widths = anp.diff(self.x).reshape((-1, *(1,) * (self.c.ndim - 2)))
        inside = sum(c[m] * widths ** (order - m) for m in range(order))  # the integral over each interval
        starts = anp.concatenate([anp.zeros_like(inside[:1]), anp.cumsum(inside, axis=0)[:-1]])
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return Pieces(anp.concatenate([c, starts[None]]), self.x, extrapolate).antiderivative(nu - 1)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        whole = self.antiderivative()
        return whole(b, 0, extrapolate) - whole(a, 0, extrapolate)


def _column(x: Any, like: Any) -> Any:
    return x.reshape((-1, *(1,) * (like.ndim - 1)))


def _pieces(spline: Any) -> Pieces:
    """The polynomials of an interpolant of SciPy's."""
    if isinstance(spline, _scipy.UnivariateSpline):
        extend = spline.ext
        if extend not in (0, "extrapolate"):
            raise UnsupportedError("a UnivariateSpline at a traced place must have ext=0; use np.where for the places outside")
        spline = _scipy.BSpline(*spline._eval_args)
    if isinstance(spline, _scipy.BSpline):
        columns = spline.c.reshape(len(spline.c), -1).T  # PPoly takes one at a time
        parts = [_scipy.PPoly.from_spline((spline.t, column, spline.k)) for column in columns]
        c = np.stack([part.c for part in parts], axis=-1).reshape(*parts[0].c.shape, *spline.c.shape[1:])
        return Pieces(c, parts[0].x, spline.extrapolate)
    if spline.axis != 0:
        raise UnsupportedError("an interpolant at a traced place must have axis=0; move the axis of the data to the front")
    return Pieces(spline.c, spline.x, spline.extrapolate)


# -- classes that also take traced values -------------------------------------------------------------------------


class _Also(ABCMeta):
    """The class of a class that extends one of SciPy's, and makes other objects of traced data; both count as its instances.

    A class that user code derives makes its own objects. (An `ABCMeta`, so that it may derive from an abstract class as well.)
    """

    def __call__(cls, *args: Any, **options: Any) -> Any:
        of_traced = vars(cls).get("of_traced")
        if of_traced is None:
            return super().__call__(*args, **options)
        args, options = tuple(map(plain, args)), {key: plain(x) for key, x in options.items()}
        if any(map(is_traced, (*args, *options.values()))):
            return of_traced(*args, **options)
        return super().__call__(*args, **options)

    def __instancecheck__(cls, x: Any) -> bool:
        if "of_traced" not in vars(cls):
            return super().__instancecheck__(x)
        return type.__instancecheck__(cls.__bases__[0], x) or isinstance(x, Pieces)


def _extended(original: Any, of_traced: Any) -> Any:
    def call(self: Any, x: Any, nu: int = 0, extrapolate: Any = None, **options: Any) -> Any:
        x = plain(x)
        if not is_traced(x):
            return original.__call__(self, x, nu, **({} if extrapolate is None else {"extrapolate": extrapolate}), **options)
        return _pieces(self)(x, nu, extrapolate)

    body = {
        "__call__": call,
        "of_traced": staticmethod(of_traced),
        "__doc__": without_examples(original.__doc__ or ""),
        "__module__": __name__,
    }
    return _Also(original.__name__, (original,), body)


def _refusing(name: str, what: str) -> Any:
    def refuse(*args: Any, **options: Any) -> Any:
        raise UnsupportedError(f"scipy.interpolate.{name} cannot be differentiated by its data: {what}")

    return refuse


def _units(make: Any, x: Any, size: int, args: Any, options: dict[str, Any]) -> Pieces:
    """The interpolants of the unit vectors. Staged breakpoints are those of each call of the program."""
    kinds = []

    def solve(_: Any, given: Any) -> Any:
        made = _pieces(make(np.asarray(given[0]), np.eye(size), *args, **options))
        kinds.append(made.extrapolate)
        return made.c, made.x

    c, knots = host.called(solve, {}, (), (x,)) if isinstance(x, Traced) else solve({}, (x,))
    return Pieces(c, knots, kinds[0])


def _are_staged(x: Any) -> bool:
    """Whether breakpoints are those of each call of a program."""
    return isinstance(x, Traced) and isinstance(x.by, Stage) and host.is_deferred()


def _linear_in_data(make: Any) -> Any:
    """An interpolant of traced data: the sum of those of the unit vectors, times the data."""

    def of_traced(x: Any, y: Any, *args: Any, axis: int = 0, **options: Any) -> Any:
        is_staged = _are_staged(x)
        x = x if is_staged else known_numbers(x, "the breakpoints of")
        if any(map(is_traced, (*args, *options.values()))) or (is_traced(x) and not is_staged):
            raise UnsupportedError(f"scipy.interpolate.{make.__name__} is differentiable by the data y, not by x or its options")
        y = anp.moveaxis(anp.asarray(y), axis, 0)
        if axis % y.ndim:
            raise UnsupportedError("an interpolant of traced data must have axis=0; move the axis of the data to the front")
        units = _units(make, x, y.shape[0], args, options)
        return Pieces(anp.tensordot(units.c, y, axes=1), units.x, units.extrapolate)

    return of_traced


_NOT_LINEAR = "its slopes are chosen by compiled code; use CubicSpline or make_interp_spline"
CubicSpline = _extended(_scipy.CubicSpline, _linear_in_data(_scipy.CubicSpline))
PchipInterpolator = _extended(_scipy.PchipInterpolator, _refusing("PchipInterpolator", _NOT_LINEAR))
Akima1DInterpolator = _extended(_scipy.Akima1DInterpolator, _refusing("Akima1DInterpolator", _NOT_LINEAR))
CubicHermiteSpline = _extended(_scipy.CubicHermiteSpline, _refusing("CubicHermiteSpline", "use Pieces or CubicSpline"))
PPoly = _extended(_scipy.PPoly, lambda c, x, extrapolate=None, axis=0: Pieces(anp.asarray(c), np.asarray(x), extrapolate))
BSpline = _extended(_scipy.BSpline, _refusing("BSpline", "use make_interp_spline of the data"))
UnivariateSpline = _extended(_scipy.UnivariateSpline, _refusing("UnivariateSpline", "use CubicSpline or make_interp_spline"))
InterpolatedUnivariateSpline = _extended(
    _scipy.InterpolatedUnivariateSpline, _refusing("InterpolatedUnivariateSpline", "use CubicSpline or make_interp_spline")
)


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> Any:
    """`scipy.interpolate.make_interp_spline`, of plain or traced data."""
    x, y = plain(x), plain(y)
    if is_traced(y) or is_traced(x):
        return _linear_in_data(_scipy.make_interp_spline)(x, y, k, t, bc_type, axis=axis)
    spline = _scipy.make_interp_spline(x, y, k, t, bc_type, axis, check_finite)
    spline.__class__ = BSpline
    return spline


_ORDERS = {"slinear": 1, "linear": 1, "quadratic": 2, "cubic": 3}


class interp1d(_scipy.interp1d):  # type: ignore[misc]  # noqa: N801 - SciPy's name
    """`scipy.interpolate.interp1d`, at plain or traced places, of plain or traced data."""

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: Any = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        is_staged = _are_staged(x)
        y, fill_value = plain(y), fill_value if isinstance(fill_value, tuple) else plain(fill_value)
        x = x if is_staged else known_numbers(x, "the breakpoints of")
        self._given_kind, self._axis_given = kind, axis
        if (is_traced(x) and not is_staged) or is_traced(fill_value):
            raise UnsupportedError("scipy.interpolate.interp1d is differentiable by the data y, not by x or fill_value")
        known = np.zeros(y.shape) if is_traced(y) else y
        places = np.arange(float(x.shape[0])) if is_staged else x
        super().__init__(places, known, kind, axis, copy, bounds_error, fill_value, assume_sorted)
        order = slice(None) if assume_sorted else anp.argsort(anp.asarray(x), kind="stable")
        self._data = anp.moveaxis(anp.asarray(y), axis, 0)[order]
        if is_staged:
            self.x = x[order]

    def __call__(self, x: Any) -> Any:
        x = plain(x)
        if not any(map(is_traced, (x, self._data, self.x))):
            return super().__call__(x)
        t = anp.asarray(x)
        outside = (t < self.x[0]), (t > self.x[-1])
        if self.bounds_error and any(bool(anp.any(o)) for o in outside):
            self._check_bounds(np.atleast_1d(number(t, "the range of")))  # raises
        y = self._data
        result = self._evaluated(t, y)
        if not self._extrapolates():
            wide = [anp.reshape(o, (*anp.shape(o), *(1,) * (y.ndim - 1))) for o in outside]
            below, above = self._fills()
            result = anp.where(wide[0], below, anp.where(wide[1], above, result))
        first = self._axis_given % y.ndim
        return anp.moveaxis(result, range(t.ndim), range(first, first + t.ndim))

    def _extrapolates(self) -> bool:
        return isinstance(self.fill_value, str) and self.fill_value == "extrapolate"

    def _fills(self) -> tuple[Any, Any]:
        fill = self.fill_value
        return fill if isinstance(fill, tuple) else (fill, fill)

    def _evaluated(self, t: Any, y: Any) -> Any:
        kind = self._given_kind
        if kind in ("nearest", "nearest-up", "previous", "next", "zero", 0):
            return anp.take(y, self._chosen(t), axis=0)
        order = _ORDERS[kind] if isinstance(kind, str) else int(kind)
        units = _units(_scipy.make_interp_spline, self.x, y.shape[0], (order,), {})
        return Pieces(anp.tensordot(units.c, y, axes=1), units.x, True)(t)

    def _chosen(self, t: Any) -> Any:
        """The sample whose value is taken."""
        x, last = self.x, len(self.x) - 1
        if self._given_kind in ("previous", "next", "zero", 0):
            side, back = ("left", 0) if self._given_kind == "next" else ("right", 1)
            return anp.clip(anp.searchsorted(x, t, side=side) - back, 0, last)
        side = "left" if self._given_kind == "nearest" else "right"
        return anp.clip(anp.searchsorted((x[1:] + x[:-1]) / 2, t, side=side), 0, last)


def __getattr__(name: str) -> Any:
    return getattr(_scipy, name)


def __dir__() -> list[str]:
    return dir(_scipy)
