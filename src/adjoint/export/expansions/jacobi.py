"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations of many pairs of columns at a time.

A sweep rotates every pair of columns once. Its n − 1 rounds are a tournament: in each, a column has one partner, and all pairs
are rotated together, so that a round is arithmetic on whole arrays and one exchange of columns.

    eigh    rotations of columns and rows, until all elements off the diagonal are rounding errors
    svd     rotations of columns (Hestenes), until all are orthogonal; their lengths are the singular values

The sign of a vector is arbitrary: LAPACK may have the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...api.control import scan, while_loop
from ...core.op import Op
from ...core.types import Value, dtype_of, ndim_of, shape_of
from ...ops import decompose
from ...ops.broadcast import expand_dims, where
from ...ops.index import gather
from ...ops.linalg import swap
from ...ops.matrix import diagonal_of, hermitian
from ...ops.reduce import argsort
from ...ops.sort import take_along
from .numerics import Expansion, kind_of

_SWEEPS = 60


def _tournament(n: int) -> Any:
    """The partner of each column in each round; a column without one is its own."""
    places = n + n % 2
    others = np.arange(1, places)
    rounds = []
    for _ in range(places - 1):
        circle = np.concatenate([[0], others])
        partner = np.empty(places, np.int64)
        partner[circle] = circle[::-1]
        rounds.append(np.where(partner < n, partner, np.arange(places))[:n])
        others = np.roll(others, 1)
    return np.array(rounds)


def _columns(x: Value, at: Value) -> Value:
    return gather(x, at, axis=ndim_of(x) - 1)


def _rotation(first: Value, second: Value, product: Value, rotates: Value, partner: Value) -> tuple[Value, Value]:
    """(c, t) of the rotation c (x − t y) of a column x and its partner y, which has −t: it makes their product 0."""
    h = (second - first) / where(rotates, product + product, 1.0)
    before = np.arange(shape_of(partner)[-1]) < partner
    t = 1.0 / (np.abs(h) + np.sqrt(h * h + 1.0))
    t = where(rotates, where(np.logical_or(h > 0, np.logical_and(h == 0, before)), t, -t), 0.0)
    return 1.0 / np.sqrt(t * t + 1.0), t


def _swept(round_: Callable[[Any, Value], Any], start: tuple[Any, ...], n: int) -> Any:
    """Sweeps of rounds until one rotates nothing. `round_(state, partner)` gives the next state, and where it rotated."""

    def step(carry: Any, partner: Value) -> Any:
        state, going = carry
        state, rotates = round_(state, partner)
        return (state, np.logical_or(going, np.any(rotates))), None

    def sweep(carry: Any) -> Any:
        state, _, count = carry
        state, going = scan(step, (state, np.False_), _tournament(n))[0]
        return state, going, count + 1

    first = (start, np.True_, np.int64(0))
    return while_loop(lambda c: np.logical_and(c[1], c[2] < _SWEEPS), sweep, first)[0]


def _eigh(a: Value, *, lower: bool) -> Any:
    if kind_of(a) == "c":
        return NotImplemented
    n, dtype = shape_of(a)[-1], dtype_of(a)
    eps = float(np.finfo(dtype).eps)
    a = hermitian(a, lower=lower)
    least = eps / 16 * np.max(np.abs(a), axis=(-2, -1))[..., None]

    def round_(state: Any, partner: Value) -> Any:
        a, v = state
        d = diagonal_of(a)
        other = _columns(d, partner)
        met = np.expand_dims(partner, 1) == np.arange(n)
        b = np.sum(where(met, a, 0.0), axis=-1)
        size = np.maximum(eps / 4 * (np.abs(d) + np.abs(other)), least)
        rotates = np.logical_and(np.abs(b) > size, partner != np.arange(n))
        c, t = _rotation(d, other, b, rotates, partner)
        ct, tt = expand_dims(c, (ndim_of(c) - 1,)), expand_dims(t, (ndim_of(t) - 1,))
        a = ct * (a - tt * _columns(a, partner))
        a = swap(a)
        a = ct * (a - tt * _columns(a, partner))
        a = where(np.logical_and(met, rotates[..., None]), 0.0, a)
        return (a, ct * (v - tt * _columns(v, partner))), rotates

    one = np.broadcast_to(np.eye(n, dtype=dtype), shape_of(a)).copy()
    a, v = _swept(round_, (a, one), n)
    w = diagonal_of(a)
    order = argsort(w, axis=ndim_of(w) - 1, kind="stable")
    return take_along(w, order, axis=ndim_of(w) - 1), _in_order(v, order)


def _in_order(x: Value, order: Value) -> Value:
    """The columns of a matrix in an order."""
    at = np.broadcast_to(expand_dims(order, (ndim_of(order) - 1,)), shape_of(x))
    return take_along(x, at, axis=ndim_of(x) - 1)


def _svd(a: Value, *, full: bool) -> Any:
    if kind_of(a) == "c":
        return NotImplemented
    m, n = shape_of(a)[-2:]
    if m < n:
        u, s, vh = _svd(swap(a), full=full)
        return swap(vh), s, swap(u)
    dtype = dtype_of(a)
    eps = float(np.finfo(dtype).eps)
    noise = (eps * m) ** 2
    top = np.max(np.abs(a), axis=(-2, -1), keepdims=True)
    scale = where(top > 0, top, 1.0)

    def round_(state: Any, partner: Value) -> Any:
        g, z = state
        h = _columns(g, partner)
        size, product = np.sum(g * g, axis=-2), np.sum(g * h, axis=-2)
        other = _columns(size, partner)
        rotates = np.logical_and(np.abs(product) > eps * np.sqrt(size) * np.sqrt(other), partner != np.arange(n))
        rotates = np.logical_and(rotates, np.minimum(size, other) > noise)
        c, t = _rotation(size, other, product, rotates, partner)
        ct, tt = expand_dims(c, (ndim_of(c) - 1,)), expand_dims(t, (ndim_of(t) - 1,))
        return (ct * (g - tt * h), ct * (z - tt * _columns(z, partner))), rotates

    one = np.broadcast_to(np.eye(n, dtype=dtype), (*shape_of(a)[:-2], n, n)).copy()
    g, z = _swept(round_, (a / scale, one), n)
    s = np.sqrt(np.sum(g * g, axis=-2))
    order = argsort(-s, axis=ndim_of(s) - 1, kind="stable")
    s, g, z = take_along(s, order, axis=ndim_of(s) - 1), _in_order(g, order), _in_order(z, order)
    # Columns that are rounding errors, and further ones, complete an orthogonal basis: those of Q where the column is zero.
    known = expand_dims(s * s > noise, (ndim_of(s) - 1,))
    u = where(known, g / where(known, expand_dims(s, (ndim_of(s) - 1,)), 1.0), 0.0)
    q = decompose.qr(u, complete=full)[0]
    u = np.concatenate([where(known, u, q[..., :n]), q[..., n:]], axis=-1) if full and m > n else where(known, u, q)
    return u, s * scale[..., 0], swap(z)


EXPANSIONS: dict[Op, Expansion] = {decompose.eigh: _eigh, decompose.svd: _svd}
