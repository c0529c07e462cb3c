"""Single steps of a program in the simulator: scatter-adds, products, foreign calls, and the time of each step."""

import numpy as np
import pytest
from on_device import both_orders, on_cpu, program
from scipy import special
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda import layout


@pytest.mark.parametrize("n", [layout.SEVERAL - 1, layout.SEVERAL, 2 * layout.SEVERAL + 5])
def test_sums_at_many_places(n):
    rng = np.random.default_rng(0)
    places, weights = rng.integers(0, 100, n), rng.normal(size=n)
    found, _ = both_orders(ad.grad(lambda x, i, w: np.sum(x[i] * w)), (np.ones(100), places, weights))
    np.testing.assert_allclose(found[0], np.bincount(places, weights, 100), rtol=1e-10)


def test_sums_at_constant_places_are_sorted_once():
    places = ad.static(np.array([3, 1, 3, 0, 3]))
    f = ad.grad(lambda x, w: np.sum(x[places] * w))
    weights = np.arange(1.0, 6.0)
    for scale in (1.0, 2.0):
        found, _ = both_orders(f, (np.ones(4), scale * weights))
        np.testing.assert_array_equal(found[0], scale * np.bincount(places, weights, 4))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_and_empty_arrays(dtype):
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    for args in ((a, a.T), (a[:0], a.T), (a[:, :0], a.T[:0])):
        found, _ = both_orders(lambda a, b: a @ b, args)
        np.testing.assert_array_equal(found[0], args[0] @ args[1])


def test_an_op_without_a_kernel_runs_on_the_host():
    f = lambda x: special.gammaln(np.sin(x) + 2) + 1
    found, made = both_orders(f, (np.arange(5.0),))
    np.testing.assert_allclose(found[0], on_cpu(f, (np.arange(5.0),))[0], rtol=1e-14)
    assert [step.op.name for step in made.on_host] == ["gammaln"]


def test_steps_are_timed():
    made, inputs = program(lambda x: np.sum(np.sin(x) @ np.cos(x)), (np.ones((4, 4)),), Simulator())
    rows = made.timed([made.device.address(x) for x in inputs])
    assert len(rows) >= 2
    assert all(count == 1 and seconds >= 0 for _, count, seconds in rows)
    assert any(what.startswith("kernel") for what, _, _ in rows)
