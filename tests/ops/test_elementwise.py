"""Kinks of elementwise functions: the derivative is the mean of both sides."""

import math

import numpy as np
import pytest
from promises import BIG, SMALL, check_slopes, close, equal

import adjoint as ad


@pytest.mark.parametrize(
    "f, x, slope, curvature",
    [
        (abs, 0.0, 0.0, 0.0),
        (np.abs, 0.0, 0.0, 0.0),
        (np.fabs, -0.0, 0.0, 0.0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.maximum(0.0, x), 0.0, 0.5, 0.0),
        (lambda x: np.minimum(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.maximum(x, x), 1.0, 1.0, 0.0),
        (lambda x: np.maximum(x, 2 * x), 0.0, 1.5, 0.0),
        (lambda x: np.fmax(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: np.fmin(x, 0.0), 0.0, 0.5, 0.0),
        (lambda x: x**0, 0.0, 0.0, 0.0),
        (lambda x: x**0.0, 0.0, 0.0, 0.0),
        (lambda x: x**0, 2.0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0, 0.0),
        (lambda x: x**2, 0.0, 0.0, 2.0),
        (lambda x: x**3, 0.0, 0.0, 0.0),
        (lambda x: x**3.0, -2.0, 12.0, -12.0),
        (lambda x: np.power(x, 2), -3.0, -6.0, 2.0),
        (lambda x: 0.0**x, 2.0, 0.0, 0.0),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0, None),
        (np.sign, 0.0, 0.0, 0.0),
        (np.floor, 1.0, 0.0, 0.0),
        (lambda x: x % 1.0, 0.25, 1.0, 0.0),
        (np.sinc, 0.0, 0.0, -(math.pi**2) / 3),
        (lambda x: np.clip(x, -1.0, 1.0), 2.0, 0.0, 0.0),
        (lambda x: np.where(x > 0, x, 0.0), 0.0, 0.0, 0.0),
    ],
)
def test_slope_at_a_kink(f, x, slope, curvature):
    check_slopes(f, x, slope, curvature)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_norm_of_zero_has_zero_gradient(n):
    for norm in (np.linalg.norm, lambda x: np.linalg.norm(x, axis=0), lambda x: np.linalg.norm(x, 2)):
        equal(ad.grad(norm)(np.zeros(n)), np.zeros(n))
        equal(ad.jvp(norm, (np.zeros(n),), (np.ones(n),))[1], 0.0)
    equal(ad.vmap(ad.grad(np.linalg.norm))(np.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("f", [np.max, np.min, np.amax, lambda x: np.max(x, axis=0), lambda x: x.min(), np.maximum.reduce])
@pytest.mark.parametrize("n", [4, BIG])
def test_ties_of_extrema_share_equally(f, n):
    close(ad.grad(f)(np.ones(n)), np.full(n, 1 / n))
    close(ad.jvp(f, (np.ones(n),), (np.arange(n) * 1.0,))[1], (n - 1) / 2)
    x = np.ones(n)
    x[0] = 1.0 + (1 if f(np.array([1.0, 2.0])) == 2.0 else -1)
    equal(ad.grad(f)(x), np.eye(n, 1)[:, 0])


def test_ties_of_sort_share_equally():
    w = np.array([1.0, 2.0, 4.0])
    close(ad.grad(lambda x: np.sum(w * np.sort(x)))(np.array([1.0, 1.0, 0.0])), [3.0, 3.0, 1.0])
    close(ad.jvp(lambda x: np.sort(x), (np.array([1.0, 1.0]),), (np.array([0.0, 1.0]),))[1], [0.5, 0.5])


def test_repeated_eigenvalues_have_finite_gradients():
    a = np.diag([2.0, 2.0, 1.0])
    for f in (
        lambda a: np.linalg.eigh(a)[0].sum(),
        lambda a: np.sum(np.linalg.eigh(a)[1] ** 2),
        lambda a: np.linalg.svd(a)[1].sum(),
    ):
        assert np.isfinite(ad.grad(f)(a)).all()
