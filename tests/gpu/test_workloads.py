"""Reductions of all shapes, linear algebra, loops and branches on a GPU: as on the CPU."""

import numpy as np
import pytest
from on_device import on_cpu, results

import adjoint as ad

SHAPES = [(1,), (255,), (256,), (257,), (100_003,), (1, 100_003), (100_003, 1), (1000, 3), (3, 1000), (777, 100), (100, 777)]
SHAPES += [(70_000, 20), (20, 70_000), (30, 40, 50), (2, 300_000)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reductions(gpu, dtype):
    for shape in SHAPES:
        x = np.random.default_rng(0).normal(size=shape).astype(dtype)
        axes = [None, *range(len(shape)), *([(0, 2)] if len(shape) == 3 else [])]

        def f(x, axes=axes):
            return [g(x, axis=axis) for axis in axes for g in (np.sum, np.max, np.min)], np.prod(1 + 1e-3 * x, axis=0)

        for a, b in zip(results(f, (x,), gpu), on_cpu(f, (x,)), strict=True):
            scale = np.sqrt(x.size) * np.max(np.abs(x))
            np.testing.assert_allclose(a, b, rtol=2e-5 if dtype == np.float32 else 1e-12, atol=scale * np.finfo(dtype).eps)


def of_linear_algebra():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(50, 50))
    spd, b, stack = a @ a.T + 50 * np.eye(50), rng.normal(size=(50, 4)), rng.normal(size=(3, 20, 20))
    yield "cholesky", ad.value_and_grad(lambda a, b: np.sum(np.linalg.solve(np.linalg.cholesky(a), b) ** 2)), (spd, b)
    yield "large cholesky", ad.grad(lambda a: np.sum(np.sin(np.linalg.cholesky(a)))), (np.eye(300) * 9 + 0.01,)
    yield "solve", ad.value_and_grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2)), (spd, b)
    yield "inverse", ad.grad(lambda a: np.sum(np.linalg.inv(a) ** 2)), (stack,)
    yield "determinant", ad.grad(lambda a: np.sum(np.linalg.slogdet(a)[1])), (stack,)
    yield "stacked products", ad.grad(lambda a: np.sum(np.sin(a @ np.swapaxes(a, 1, 2) @ a[0]))), (stack,)
    yield "eigenvalues", ad.grad(lambda a: np.sum(np.linalg.eigh(a + a.T)[0] ** 3)), (a,)


@pytest.mark.parametrize(("name", "f", "args"), list(of_linear_algebra()))
def test_linear_algebra(gpu, name, f, args):
    for a, b in zip(results(f, args, gpu), on_cpu(f, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def of_control_flow():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    step = lambda c, r: (np.sin(c) + 0.1 * r, c * r)
    yield "scan", ad.grad(lambda x: np.sum(ad.scan(step, x, np.stack([x] * 7))[0])), (x,)
    yield "stacks", ad.jit(lambda x: ad.scan(step, x, np.stack([x] * 7))), (x,)
    yield "while", lambda x: ad.while_loop(lambda c: np.sum(c) < 1e4, lambda c: c * 1.5, x), (np.abs(x),)
    yield "cond", ad.grad(lambda x: ad.cond(np.sum(x) > 0, np.sin, np.cos, x).sum()), (x,)


@pytest.mark.parametrize(("name", "f", "args"), list(of_control_flow()))
def test_control_flow(gpu, name, f, args):
    for a, b in zip(results(f, args, gpu), on_cpu(f, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_errors_are_those_of_the_cpu(gpu):
    f = lambda x, i: x[i]
    from on_device import program

    made, (x, i) = program(f, (np.ones(5), np.array([0, 4])), gpu)
    np.testing.assert_array_equal(gpu.host(made(x, i)[0]), [1, 1])
    with pytest.raises(IndexError, match="out of bounds"):
        made(x, i + 3)
    made, (a,) = program(np.linalg.cholesky, (np.eye(3),), gpu)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        made(-a)
