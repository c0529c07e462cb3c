"""Which values are fused, stored or recomputed."""

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.scipy.special
from adjoint.compiler.lower.kernel import Kernel

RNG = np.random.default_rng(0)


def steps(f, *xs):
    return ad.jit(f).lower(*xs).lowered.steps


def functions(kernel):
    return [line.data for line in kernel.code if line.kind == "op" and line.data in ("exp", "sin", "log")]


def test_one_pass_for_operations_over_the_same_points():
    (kernel,) = steps(lambda x, y: np.sum(np.sin(x) * y + np.exp(y)), *RNG.normal(size=(2, 100)))
    assert functions(kernel) == ["sin", "exp"]
    assert not kernel.stores
    assert len(kernel.reductions) == 1


def test_unused_lines_move_to_the_kernel_that_reads_them():
    """exp stands in the graph before the sum that it is divided by; it is computed after it, and not stored."""

    def f(x):
        y = np.exp(x)
        return y * np.sum(x)

    first, second = steps(f, RNG.normal(size=1000))
    assert functions(first) == []
    assert not first.stores
    assert functions(second) == ["exp"]
    x = RNG.normal(size=1000)
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-13)


def test_shared_values_are_stored_once():
    def f(x):
        y = np.exp(x)
        return y / np.sum(y)

    first, second = steps(f, RNG.normal(size=1000))
    assert functions(first) == ["exp"]
    assert functions(second) == []
    assert len(first.stores) == 1


def test_moved_lines_are_found():
    """The second reader gets it from the first, and so does the caller."""

    def f(x):
        y = np.exp(x)
        z = y * np.sum(x)
        return y, z, y * np.sum(z)

    x = RNG.normal(size=1000)
    assert sum(functions(s).count("exp") for s in steps(f, x) if isinstance(s, Kernel)) == 1
    for got, want in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_gradient_of_log_sum_exp_writes_its_result_alone():
    """Maximum, sum, ties and weights: four readings of x, and nothing as large as x is kept in between."""
    gradient = ad.jit(ad.grad(adjoint.scipy.special.logsumexp))
    x = RNG.normal(size=100_000)
    lowered = gradient.lower(x).lowered
    large = [s for s in lowered.steps if isinstance(s, Kernel) and s.domain == x.shape]
    assert len(large) == 4
    assert sum(len(k.stores) for k in large) == 1
    assert lowered.arena < 10_000


def test_kernels_that_write_nothing_are_left_out():
    """The slices of a stencil are computed within the frame that they are put in."""

    def step(u):
        inside = u[:-2] - 2 * u[1:-1] + u[2:]
        return u + np.pad(inside, 1)

    (kernel,) = steps(step, RNG.normal(size=50))
    assert kernel.domain == (50,)
    assert all(line.kind != "const" or line.data == 2 for line in kernel.code)


def test_a_long_chain_of_functions_is_computed_once():
    """A full kernel keeps its lines: moved to the next one, they would fill it too, and so on."""

    chosen = [np.sin, np.cos]
    order = np.random.default_rng(0).integers(0, 2, 60).tolist()  # which is no loop

    def chain(x):
        for i in order:
            x = chosen[i](x)
        return np.sum(x)

    kernels = [k for s in ad.jit(ad.grad(chain)).lower(np.ones(1000)).lowered.steps for k in getattr(s, "kernels", (s,))]
    functions = sum(line.data in ("sin", "cos") for kernel in kernels for line in kernel.code)
    assert functions <= 120


def _written(x, number):
    x[0] = number
    return x


@pytest.mark.parametrize(
    "f",
    [
        lambda x: _written(np.array([1.0, 2.0]) * x, 2**70),
        lambda x: ad.map(lambda c: c * 1.0 + 2**70, np.ones(2) * x),
        lambda x: np.where(x > 0, 2**70, x),
        lambda x: x + 2**70,
    ],
)
def test_integers_beyond_64_bits_are_not_cut(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(ad.jit(f)(1.0), f(1.0))
