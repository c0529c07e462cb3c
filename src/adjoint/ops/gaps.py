"""Gaps between eigenvalues, and quotients by them, for the derivatives of decompositions, including zero gaps.

The vectors of a repeated eigenvalue are any basis of their space. A function that does not depend on the choice has a derivative,
given by the formula for distinct eigenvalues: at v (w + ε s) vᴴ, with s that separates equal ones, the numerator of g/(w_j − w_i)
vanishes with ε as the denominator does, and the quotient of their derivatives by ε is the limit. The tape computes these (`Limit`
in core/op.py): after a repeated eigenvalue it works with numbers a + bε.

Almost equal eigenvalues are treated as equal: an error of the order of the gap is smaller than that of dividing by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.op import Constant, case
from ..core.types import Value, ndim_of, shape_of
from .broadcast import where
from .declare import constant, opaque
from .elementwise import equal, logical_and, logical_or, not_equal
from .linalg import column, row
from .matrix import diagonal_of
from .reduce import any_
from .shape import all_batched


def _slack(x: Any) -> float:
    """Below this, relative to the largest eigenvalue, a gap counts as zero: there both errors above are of the same size."""
    return float(np.finfo(x.dtype).eps ** 0.5)


def _largest(x: Any, axes: int) -> Any:
    if 0 in x.shape[x.ndim - axes :]:
        return np.zeros((*x.shape[: x.ndim - axes], *(1,) * axes), np.finfo(x.dtype).dtype)
    return np.max(np.abs(x), axis=tuple(range(-axes, 0)), keepdims=True)


def _combined(w: Any, sign: int) -> Any:
    return w[..., None, :] + sign * w[..., :, None]


# -- which are equal ---------------------------------------------------------------------------------------------


def rounding(w: Any) -> Any:
    """The error of eigenvalues: those that differ by no more count as equal."""
    return 8 * np.finfo(w.dtype).eps * np.sum(np.abs(w), axis=-1, keepdims=True)


def _negligible(w: Any, *, sign: int) -> Any:
    return np.abs(_combined(w, sign)) <= rounding(w)[..., None]


negligible = constant(
    "negligible",
    _negligible,
    cases=[case((3,), sign=-1), case((2, 3), sign=1), case(np.array([1.0, 1.0, 2.0]), sign=-1), case((0,), sign=1)],
    python="def",
)


def _clusters(w: Any) -> tuple[Any, Any]:
    """For each of the eigenvalues, in order, the first and the last of those that are almost equal to it."""
    n = w.shape[-1]
    place = np.arange(n)
    apart = np.abs(np.diff(w, axis=-1)) > _slack(w) * _largest(w, 1)
    edge = np.ones((*w.shape[:-1], 1), bool)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, apart], -1), place, 0), axis=-1)
    ends = np.where(np.concatenate([apart, edge], -1), place, n)
    return first, np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]


def _splitting(w: Any, *, kind: str) -> Any:
    """Distinct numbers for equal eigenvalues, with sum zero; 0 for a simple one.

    kind  "real": in order · "positive": in order and not negative, zeros get positive numbers · "any": in no order,
    all get numbers once two are equal
    """
    n = w.shape[-1]
    real, place = np.finfo(w.dtype).dtype, np.arange(n)
    if n == 0:
        return np.zeros(w.shape, real)
    limit = _slack(w) * _largest(w, 1)
    if kind == "any":
        close = np.abs(_combined(w, -1)) <= limit[..., None]
        return np.where(np.sum(close, axis=(-1, -2))[..., None] > n, place - (n - 1) / 2, 0.0).astype(real)
    first, last = _clusters(w)
    split = place - (first + last) / 2
    if kind == "positive":
        split = np.where(np.abs(w) <= limit, 1.0 + last - place, split)
    return split.astype(real)


splitting = constant(
    "splitting",
    _splitting,
    cases=[
        case(np.array([1.0, 1.0, 2.0]), kind="real"),
        case(np.array([[2.0, 1.0, 0.0, 0.0]]), kind="positive"),
        case(np.array([1.0, 2.0, 1.0]), kind="any"),
        case((0,), kind="real"),
    ],
    python="def",
)


def _gap_splitting(w: Any, *, sign: int, kind: str) -> Any:
    small = np.abs(_combined(w, sign)) <= _slack(w) * _largest(w, 1)[..., None]
    return np.where(small, _combined(_splitting(w, kind=kind), sign), 0.0)


gap_splitting = constant(
    "gap_splitting",
    _gap_splitting,
    cases=[case(np.array([1.0, 1.0, 2.0]), sign=-1, kind="real"), case(np.array([[1.0, 0.0]]), sign=1, kind="positive")],
    python="def",
)


def _crowded(w: Any, *, kind: str) -> Any:
    if kind == "any" or w.shape[-1] == 0:
        return np.full(w.shape, w.shape[-1] > 2)
    first, last = _clusters(w)
    many = last - first > 1
    if kind == "positive":
        many = many | (np.abs(w) <= _slack(w) * _largest(w, 1))
    return many


crowded = constant(
    "crowded",
    _crowded,
    cases=[case(np.array([1.0, 1.0, 1.0, 2.0]), kind="real"), case(np.array([[1.0, 0.0]]), kind="positive")],
    python="def",
)

magnitude = constant("magnitude", np.abs)


def _cancelled(above: Any, terms: Any) -> Any:
    return np.abs(above) <= 8 * _slack(above) * _largest(terms, 2)


cancelled = constant(
    "cancelled",
    _cancelled,
    batch=lambda flags, *xs: cancelled(*all_batched(flags, xs)),
    cases=[case(np.array([[0.0, 1e-12], [1.0, 0.0]]), (2, 2))],
    python="def",
)


def _told_apart(g: Any, w: Any) -> Any:
    differ = np.abs(_combined(g, -1)) > 8 * _slack(g) * _largest(g, 1)[..., None]
    return np.any(_negligible(w, sign=-1) & differ, -1)


told_apart = constant(
    "told_apart",
    _told_apart,
    batch=lambda flags, *xs: told_apart(*all_batched(flags, xs)),
    cases=[case(np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])), case((3,), np.array([1.0, 1.0, 2.0]))],
    python="def",
)


def _is_noise(g: Any, w: Any, *others: Any, size: float) -> Any:
    """Whether a cotangent of vectors is no more than the rounding errors of a function of the size given, or of one that has
    such other derivatives by the eigenvalues w.
    """
    for x in others:
        size = size + _largest(w, 1)[..., None] * _largest(x, x.ndim - w.ndim + 1).reshape(*w.shape[:-1], 1, 1)
    return _largest(g, 2) <= 64 * g.shape[-2] * np.finfo(g.dtype).eps * size


is_noise = Constant(
    "is_noise",
    _is_noise,
    batch=lambda flags, *xs, size: is_noise(*all_batched(flags, xs), size=size),
)


def _doubt(x: Any, y: Any, *given: Any) -> Any:
    """0 for matrices that differ by no more than errors of what was given, nan for others."""
    size = np.maximum(_largest(x, 2), _largest(y, 2))
    for g in given:
        size = np.maximum(size, _largest(g, g.ndim - x.ndim + 2).reshape(size.shape))
    same = np.all(np.abs(x - y) <= 8 * _slack(x) * size, (-1, -2), keepdims=True)
    return np.where(same, 0.0, np.nan).astype(size.dtype)


doubt = Constant(
    "doubt",
    _doubt,
    batch=lambda flags, *xs: doubt(*all_batched(flags, xs)),
)

# -- quotients by gaps ---------------------------------------------------------------------------------------------

# The derivative of the limit by the eigenvalues is known only if two are split, by ±½: in larger groups it is nan.
first_order = opaque(
    "first_order",
    lambda w, crowded: np.ones_like(w),
    jvp=lambda ts, y, w, crowded: where(crowded, np.nan * ts[0], 0.0 * ts[0]),
    vjp=lambda g, y, w, crowded: (where(crowded, np.nan * g, 0.0 * g), None),
    batch=lambda flags, *xs: first_order(*all_batched(flags, xs)),
    cases=[case((2,), np.zeros(2, bool))],
    python="np.ones_like({0})",
)


class Gaps(NamedTuple):
    """The gaps w_j − w_i (or the sums w_j + w_i) of a matrix, and the growth with ε of those that vanish."""

    gaps: Value
    zero: Value
    split: Value | None = None
    one: Value = 1.0  # whose derivative by the eigenvalues is nan, where that of a limit is not known

    def divide(self, above: Value, terms: Value, by_epsilon: Value | None = None) -> Value:
        """above / gap, where `above` is a difference of numbers of the size of `terms`.

        Where the gap is zero it is the limit if `above` is zero too, up to rounding, and nan if it is not, or if the limit is
        not known; but zero if there are no terms.
        """
        nothing = logical_and(equal(terms, 0.0), equal(above, 0.0))
        quotient = where(self.zero, where(nothing, above, np.nan * above), above / where(self.zero, 1.0, self.gaps))
        if self.split is None:
            return quotient
        is_split = not_equal(self.split, 0.0)
        rate = 0.0 * above if by_epsilon is None else by_epsilon
        limit = self.one * (rate / where(is_split, self.split, 1.0))
        return where(logical_and(is_split, cancelled(above, terms)), limit, quotient)

    def cotangent(self, g: Value, w: Value, zeros: bool = False) -> Value:
        """The cotangents of eigenvalues, next to those of vectors. Of equal ones they belong together, so that without a limit
        the result is nan. With `zeros`, that of a zero does as well.
        """
        if self.split is not None:
            return g
        n = shape_of(w)[-1]
        shared = any_(logical_and(negligible(w, sign=-1), ~np.eye(n, dtype=bool)), axis=(ndim_of(w),), keepdims=False)
        if zeros:
            shared = logical_or(shared, diagonal_of(negligible(w, sign=+1)))
        return where(logical_and(shared, not_equal(g, 0.0)), np.nan * g, g)


def gaps_of(w: Value, sign: int = -1, split: str = "") -> Gaps:
    """Of eigenvalues; `split` is their kind (see `splitting`) if there are derivatives by ε."""
    gaps, zero = (row(w) - column(w) if sign < 0 else row(w) + column(w)), negligible(w, sign=sign)
    if not split:
        return Gaps(gaps, zero)
    return Gaps(gaps, zero, gap_splitting(w, sign=sign, kind=split), row(first_order(w, crowded(w, kind=split))))


def even(g: Value, w: Value) -> Value:
    """The cotangents of eigenvalues; nan where those of equal ones differ: such a function has a kink there."""
    return where(told_apart(g, w), np.nan * g, g)
