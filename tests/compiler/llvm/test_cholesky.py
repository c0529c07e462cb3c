"""The pull-back of Cholesky by blocks: the same as the formula, on both sides of the sizes where another way is taken."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
import adjoint.compiler.lower.matrix as lowering
from adjoint.compiler.llvm import cholesky as pullback
from adjoint.compiler.lower.step import Foreign
from adjoint.ops.decompose import cholesky_pullback

SIZES = [1, 2, 15, 16, 17, 31, 32, 33, 49, 70, 130]


def triangle(rng, *shape):
    """A lower triangle, with something above it that nobody reads."""
    n = shape[-1]
    return rng.normal(size=shape) / n + np.triu(np.full((n, n), np.nan), 1) + np.eye(n)


def formula(l, g):
    l = np.tril(l)
    n = l.shape[-1]
    s = (np.tri(n) - 0.5 * np.eye(n)) * (np.swapaxes(l, -1, -2) @ np.tril(g))
    inverse = np.linalg.inv(l)
    return np.swapaxes(inverse, -1, -2) @ (s + np.swapaxes(s, -1, -2)) @ inverse


def compiled(l, g):
    f = ad.jit(lambda l, g: cholesky_pullback(l, g))
    result = f(l, g)
    assert not any(isinstance(s, Foreign) for s in f.lower(l, g).lowered.steps)
    return result


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_compiled(n, dtype):
    rng = np.random.default_rng(n)
    l, g = (triangle(rng, n, n).astype(dtype) for _ in range(2))
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    result = compiled(l, g)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, formula(l, g), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(result, result.T)


@pytest.mark.parametrize("n", [63, 64, 65, 129])
def test_products_by_blas(n, monkeypatch):
    monkeypatch.setattr(lowering, "_BY_BLAS", 2)
    rng = np.random.default_rng(n)
    l, g = triangle(rng, n, n), triangle(rng, n, n)
    np.testing.assert_allclose(compiled(l, g), formula(l, g), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_registers_of_other_machines(size, monkeypatch):
    monkeypatch.setattr(pullback, "registers", lambda: (size, 12, 3))
    rng = np.random.default_rng(size)
    l, g = triangle(rng, 53, 53), triangle(rng, 53, 53)
    np.testing.assert_allclose(compiled(l, g), formula(l, g), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [127, 128, 129, 200])
def test_eager(n):
    rng = np.random.default_rng(n)
    l, g = (np.tril(triangle(rng, 2, n, n)) for _ in range(2))
    np.testing.assert_allclose(cholesky_pullback(l, g[0]), formula(l, g[0]), rtol=1e-12, atol=1e-12)
    l, g = l[0] + 0.3j * np.tril(l[1], -1), g[0] + 1j * g[1]
    inverse = np.linalg.inv(l)
    s = (np.tri(n) - 0.5 * np.eye(n)) * (l.T @ g)
    np.testing.assert_allclose(cholesky_pullback(l, g), inverse.T @ (s + s.conj().T) @ inverse.conj(), rtol=1e-12, atol=1e-12)


def test_stacks_and_views():
    rng = np.random.default_rng(0)
    l, g = triangle(rng, 3, 20, 20), triangle(rng, 2, 1, 20, 20)
    expected = formula(l, g)
    np.testing.assert_allclose(compiled(l, g), expected, rtol=1e-12, atol=1e-12)
    turned = ad.jit(lambda l, g: cholesky_pullback(np.swapaxes(l, -1, -2)[::-1], g[..., ::2]))
    wide = np.repeat(g, 2, axis=-1)
    np.testing.assert_allclose(turned(np.swapaxes(l, -1, -2)[::-1].copy(), wide), expected, rtol=1e-12, atol=1e-12)


def f(a):
    return np.sum(np.sin(np.arange(a.size).reshape(a.shape)) * np.linalg.cholesky(a))


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(1, 40), st.integers(0, 99))
def test_gradients_along_a_direction(n, seed):
    """Differences of the function itself, and of its gradient."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(n, n)) / np.sqrt(n), rng.normal(size=(n, n)) / np.sqrt(n)
    a, t = x @ x.T + 2 * np.eye(n), t + t.T
    step = 1e-5
    gradient = ad.grad(f)
    np.testing.assert_allclose(np.sum(gradient(a) * t), (f(a + step * t) - f(a - step * t)) / (2 * step), rtol=1e-6, atol=1e-7)
    second = (gradient(a + step * t) - gradient(a - step * t)) / (2 * step)
    np.testing.assert_allclose(ad.hvp(f)(a, t), second, rtol=1e-6, atol=1e-6)
    reverse = ad.grad(lambda a: np.sum(gradient(a) * t))
    np.testing.assert_allclose(reverse(a), second, rtol=1e-6, atol=1e-6)


def test_derivatives_compiled():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 18, 18)) / 4
    a = x @ np.swapaxes(x, 1, 2) + 2 * np.eye(18)
    for g in (ad.vmap(ad.grad(f)), ad.vmap(lambda a: ad.hvp(f)(a, np.ones_like(a)))):
        np.testing.assert_allclose(ad.jit(g)(a), g(a), rtol=1e-9, atol=1e-11)
    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(ad.grad(f))(-np.eye(20))
