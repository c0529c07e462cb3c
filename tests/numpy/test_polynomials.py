import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
from adjoint.core.errors import UnsupportedError

RNG = np.random.default_rng(3)
P = draw(RNG, (4,))
Q = draw(RNG, (3,))
X = draw(RNG, (2, 3))
Z = draw(RNG, (4,), dtype=complex)


def test_arithmetic():
    check(lambda p, q: [np.polyadd(p, q), np.polysub(p, q), np.polymul(p, q), np.polyadd(q, p), np.polymul(q, [1.0, 2.0])], P, Q)
    check(lambda p, q: list(np.polydiv(p, q)), P, Q, vmap=False)
    check(lambda p, q: list(np.polydiv(q, p)), P, Q, vmap=False)
    check(lambda p: [np.polyder(p), np.polyder(p, 2), np.polyder(p, m=0), np.polyint(p), np.polyint(p, 2, k=[1.0, p[0]])], P)
    check(lambda p: [np.polyder(p), np.polyint(p), np.polymul(p, p)], Z)
    zero_first = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(ad.vjp(lambda p: np.polymul(p, Q), zero_first)[0], np.polymul(zero_first, Q))


def test_values():
    check(np.polyval, P, X)
    check(lambda p, x: np.polyval(p, x), Z, Z[:2])
    check(lambda x: [np.polyval([1.0, 2.0, 3.0], x), np.polyval(np.poly1d([1.0, 0.0, 2.0]), x)], X)
    check(lambda p: np.polyval(p, 2.0), P)
    check(lambda x: [np.vander(x), np.vander(x, 2), np.vander(x, 4, increasing=True), np.vander(x, N=1)], Q)
    check(np.vander, Z)


def test_roots_and_back():
    check(np.poly, Q)
    check(np.poly, Z)
    real, complex_ = np.array([1.0, -6.0, 11.0, -6.0]), np.array([1.0, 2.0, 5.0, 1.0])
    check(np.roots, real, vmap=False)
    check(np.roots, complex_, vmap=False)
    check(np.roots, Z, vmap=False)
    for p in (np.array([0.0, 1.0, -3.0, 2.0, 0.0]), np.array([2.0])):
        np.testing.assert_allclose(ad.vjp(np.roots, p)[0], np.roots(p))
    y = ad.vjp(np.poly, np.array([1 + 2j, 1 - 2j]))[0]
    np.testing.assert_array_equal(y, np.poly([1 + 2j, 1 - 2j]))
    assert y.dtype == float


def test_polyfit():
    x, y, w = np.linspace(-1, 2, 7), draw(RNG, (7,)), np.abs(draw(RNG, (7,))) + 0.5
    check(lambda x, y: np.polyfit(x, y, 2), x, y)
    check(lambda x, y, w: np.polyfit(x, y, 1, w=w), x, y, w)
    check(lambda x, y: np.polyfit(x, y, 2), x, np.stack([y, y**2], 1))
    check(lambda x, y: np.polyfit(x, y, 1, cov=True), x, y, rtol2=1e-3)
    check(lambda x, y: np.polyfit(x, y, 1, cov="unscaled"), x, y)
    check(lambda x, y: np.polyfit(x, y, 1, cov=True), x, np.stack([y, y**2], 1), rtol2=1e-3)
    with pytest.raises(UnsupportedError, match="full"):
        ad.vjp(lambda y: np.polyfit(x, y, 1, full=True), y)
