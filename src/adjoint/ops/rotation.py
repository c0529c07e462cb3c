"""Another valid choice of eigenvectors: those of equal eigenvalues, rotated within their space by a fixed arbitrary rotation.

    eigh(I): w = [1, 1], v = I          rotated: the same w, v = [[0.21, 0.98], [0.98, -0.21]], say

A function of the vectors has a derivative there if it does not depend on their choice. At the vectors that LAPACK chooses it may
be stationary by chance (`v[0, 0]` at the identity matrix), at rotated ones it is not.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .gaps import rounding


@functools.cache
def _rotation(n: int, is_complex: bool) -> Any:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if is_complex else 0.0)
    return np.linalg.qr(x)[0]


def _rotated(v: Any) -> Any:
    """The columns of v rotated among each other, real ones by a real rotation."""
    return (v @ _rotation(v.shape[-1], v.dtype.kind == "c")).astype(v.dtype)


def _spaces(w: Any) -> list[Any]:
    """The places of eigenvalues that are equal up to rounding, in any order."""
    close = np.abs(w[:, None] - w) <= rounding(w)
    for _ in w:  # equal to an equal one
        close = close @ close
    return [np.flatnonzero(row) for place, row in enumerate(close) if row.sum() > 1 and row.argmax() == place]


def eigh(y: Any, a: Any, **_: Any) -> Any:
    w, v = y[0], y[1].copy()
    for i in np.ndindex(*w.shape[:-1]):
        for space in _spaces(w[i]):
            v[i][:, space] = _rotated(v[i][:, space])
    return w, v


def eig(y: Any, a: Any) -> Any:
    """Vectors of length one. Those of a real matrix stay real, or pairs of conjugates."""
    w, v = y[0], y[1].copy()
    is_real = a.dtype.kind != "c"
    for i in np.ndindex(*w.shape[:-1]):
        for space in _spaces(w[i]):
            old, side = v[i][:, space], w[i][space[0]].imag
            if np.linalg.svd(old, compute_uv=False)[-1] <= np.finfo(v.dtype).eps ** 0.5:
                continue  # a defective matrix, with fewer vectors than eigenvalues
            if is_real:
                new = _rotated(old.real) + 0j if side == 0 else _rotated(old) if side > 0 else np.conj(_rotated(np.conj(old)))
            else:
                new = _rotated(old)
            v[i][:, space] = new / np.linalg.norm(new, axis=0)
    return w, v


def svd(y: Any, a: Any, *, full: bool) -> Any:
    """Vectors of both sides by the same rotation; those of zeros by any, also with those beyond the singular values."""
    u, s, v = y[0].copy(), y[1], np.conj(np.swapaxes(y[2], -1, -2)).copy()
    for i in np.ndindex(*s.shape[:-1]):
        rank = int(np.sum(2 * s[i] > rounding(s[i])))
        for space in _spaces(s[i][:rank]):
            u[i][:, space], v[i][:, space] = _rotated(u[i][:, space]), _rotated(v[i][:, space])
        if rank < s.shape[-1]:
            for x in (u[i], v[i]):
                rest = np.linalg.qr(x[:, :rank], "complete")[0][:, rank:]
                x[:, rank:] = _rotated(rest)[:, : x.shape[1] - rank]
    return u, s, np.conj(np.swapaxes(v, -1, -2))
