"""Kernels over the same points are merged, short axes are unrolled, cheap values at neighbouring points are recomputed."""

import numpy as np
from on_device import both_orders, on_cpu

import adjoint as ad
from adjoint.compiler.cuda.launch import Launch
from adjoint.compiler.lower.step import Scan

X = np.random.default_rng(0).normal(size=(50, 3))
SQUARE = np.random.default_rng(1).normal(size=(30, 40))


def pairs(x):
    gaps = x[:, None, :] - x[None, :, :]
    return np.sum(1.0 / (1.0 + np.sum(gaps * gaps, axis=2)))


def checked(f, *args):
    found, made = both_orders(f, args)
    for a, b in zip(found, on_cpu(f, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    return [step for step in made.lowered.steps if isinstance(step, Launch)], made


def test_a_short_axis_is_unrolled_and_its_sum_joins_its_reader():
    """Pairs are visited once for the value and, with what is stored for it, once for each side of the gradient."""
    launches, _ = checked(pairs, X)
    assert sum(launch.domain == (50, 50) for launch in launches) == 1
    launches, _ = checked(ad.grad(pairs), X)
    assert sum(launch.domain == (50, 50) for launch in launches) == 2
    assert not any(launch.domain == (50, 50, 3) for launch in launches)


def test_the_adjoint_of_a_stencil_is_one_kernel():
    def heat(u, k):
        def step(u, _):
            inside = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
            return u + k * np.pad(inside, 1), None

        return np.sum(ad.scan(step, u, None, 9)[0] ** 2)

    _, made = checked(ad.grad(heat), SQUARE, 0.1 + 0.01 * SQUARE)
    loops = [step for step in made.lowered.steps if isinstance(step, Scan)]
    assert [len(loop.body.steps) for loop in loops] == [1, 1]


def test_values_that_others_read_stay():
    def f(x):
        a = np.exp(x) * 2
        return a, a[1:] - a[:-1], np.sum(a, axis=0)

    checked(f, SQUARE)


def test_rows_and_columns_are_apart():
    launches, _ = checked(lambda x: (np.sum(np.sin(x), axis=0), np.sum(np.sin(x), axis=1), np.sum(np.sin(x)), np.sin(x)), SQUARE)
    assert sum(launch.domain == (30, 40) for launch in launches) == 2
