"""Cheap values are computed again by the kernels that read them, if that moves fewer bytes."""

import numpy as np
import pytest
import test_compiled_programs as programs
from on_device import both_orders, on_cpu

import adjoint as ad
from adjoint.compiler.cuda.launch import Launch
from adjoint.compiler.cuda.tiles import Tile

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(70, 40)), RNG.normal(size=(40, 30))


def kernels(f, *args):
    """The kernels of a program, whose results are checked."""
    found, made = both_orders(f, args)
    for a, b in zip(found, on_cpu(f, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    steps = [step for step in made.lowered.steps if isinstance(step, (Launch, Tile))]
    return [kernel for step in steps for kernel in (step.kernels if isinstance(step, Tile) else [step])]


def stores(found):
    return [store.view for kernel in found for store in kernel.stores]


def test_a_slope_is_computed_from_the_value():
    """1 - y² from y = tanh(x), which the backward pass of the next product keeps."""
    f = ad.grad(lambda w, x: np.sum(np.tanh(x @ w) @ W.T), (0, 1))
    assert sum(view.buffer.size == X.shape[0] * W.shape[1] for view in stores(kernels(f, W, X))) == 1


def test_softmax_keeps_its_weights_alone():
    def f(x):
        y = np.exp(x - np.logaddexp.reduce(x, axis=1, keepdims=True))
        return np.sum((y @ W) ** 2)

    large = [view for view in stores(kernels(ad.grad(f), X)) if view.buffer.size == X.size]
    assert all(view.dtype == np.float64 for view in large)
    assert len(large) <= 3


def test_values_of_small_arrays_are_computed_for_each_row():
    """A kernel over 70 elements would be a launch of its own."""
    rows = np.abs(X[:, 0])
    found = kernels(lambda r, x: np.sum(np.sin(x) * (r > 0.5)[:, None]), rows, X)
    assert not any(kernel.domain == (70,) and kernel.stores for kernel in found)


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_values_at_neighbouring_points(shift):
    def f(x, k):
        b = x * k
        return np.pad(b, shift)[: len(x), : x.shape[1]] + b, np.exp(x)

    kernels(f, X, X + 2)


def test_costly_values_and_results_are_stored():
    def f(x):
        a = np.exp(x) * 2
        return a, a + 1, (a + 1)[::2] @ W

    assert len(stores(kernels(f, X))) == 2


def test_values_that_are_computed_from_each_other():
    """Each of them may be moved to its readers, but not both if one is computed from the other's memory."""

    def f(x):
        a = np.exp(x)
        b, c = a * 2, a * 2 + 1
        return np.concatenate([a, b]) @ W, b @ W, c @ W, np.sum(np.sin(b + c) * c[:, ::-1], axis=0), (b[1:] * c[:-1]) @ W

    kernels(f, X)
    kernels(ad.grad(lambda x: sum(np.sum(y**2) for y in f(x))), X)
    for made, args, what in programs.derived(990005, 5):
        found, _ = both_orders(made, args)
        programs.agree([*found], on_cpu(made, args), what, loose=100.0)


def test_gathered_values_are_stored():
    places = np.array([3, 1, 1, 69])
    kernels(lambda x: ((x + 1)[places] * 2, np.sum((x + 1) * x)), X)


def test_operands_that_change_later():
    """A carry of a loop is written while the values that were computed from it are read."""

    def f(x):
        def step(c, _):
            d = c + 1.0
            c = np.sin(np.roll(d, 1, axis=1)) + np.mean(c)
            return c, np.sum(d)

        return ad.scan(step, x, None, 5)

    kernels(f, X)
    kernels(ad.grad(lambda x: np.sum(f(x)[0]) + np.sum(f(x)[1])), X)
