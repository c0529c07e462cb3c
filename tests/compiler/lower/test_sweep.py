"""Loop interchange of pointwise scans: which loops qualify, which do not, and equal results either way."""

import numpy as np
import pytest
from on_device import both_orders, on_cpu

import adjoint as ad
from adjoint.compiler.lower.step import Scan
from adjoint.compiler.lower.sweep import Sweep

X = np.random.default_rng(0).normal(size=(41, 3))


def steps(made):
    return [type(step) for step in made.lowered.steps if isinstance(step, (Scan, Sweep))]


def doubled(carry, _):
    return np.sin(carry) * 1.5, carry * 2


def pair(carry, row):
    a, b = carry
    return (a + 0.1 * b, b - 0.1 * a * row), (a, a * b)


def sliced(carry, _):
    """A state of three numbers for each point, as `vmap` makes it."""
    x, y, z = carry[:, 0], carry[:, 1], carry[:, 2]
    return carry + 0.01 * np.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.5 * z], axis=1), None


def counted(carry, _):
    i, x = carry
    return (i + 1.0, x * np.cos(i)), i * x


def over_rows(carry, _):
    """Rows of three, which a point takes by itself."""
    return carry - np.max(carry, axis=1, keepdims=True) * 0.5, None


def over_columns(carry, _):
    return carry - np.mean(carry, axis=0), None


def stencil(carry, _):
    return 0.5 * (carry + np.roll(carry, 1, axis=0)), None


ROWS = np.random.default_rng(1).normal(size=(7, 41, 3))
INSIDE = {
    "carry and stack": lambda x: ad.scan(doubled, x, None, 7),
    "pair and rows": lambda x: ad.scan(pair, (x, x * 2), ROWS),
    "backwards": lambda x: ad.scan(pair, (x, x * 2), ROWS, reverse=True),
    "state of three": lambda x: ad.scan(sliced, x, None, 7),
    "counter": lambda x: ad.scan(counted, (0.0, x), None, 7),
    "short rows": lambda x: ad.scan(over_rows, x, None, 7),
    "one iteration": lambda x: ad.scan(doubled, x, None, 1),
    "scalar": lambda x: ad.scan(doubled, x[0, 0], None, 7),
    "singles": lambda x: ad.scan(doubled, x.astype(np.float32), None, 7),
    "batch": lambda x: ad.vmap(lambda s: ad.scan(doubled, s, None, 7))(x),
    "gradient": ad.grad(lambda x: np.sum(ad.scan(doubled, x, None, 7)[0])),
    "gradient of a pair": ad.grad(lambda x: np.sum(ad.scan(pair, (x, x * 2), ROWS)[1][1] ** 2)),
    "tangent": lambda x: ad.jvp(lambda x: ad.scan(pair, (x, x * 2), ROWS), (x,), (x,)),
}
OUTSIDE = {
    "columns of the state are combined": lambda x: ad.scan(over_columns, x, None, 7),
    "long rows of the state are combined": lambda x: ad.scan(over_rows, np.concatenate([x] * 9, axis=1), None, 7),
    "neighbours are read": lambda x: ad.scan(stencil, x, None, 7),
    "no iterations": lambda x: ad.scan(doubled, x, None, 0),
    "the state is sorted": lambda x: ad.scan(lambda c, _: (np.sort(c, axis=0), None), x, None, 3),
    "the state changes places": lambda x: ad.scan(lambda c, _: (c[::-1] * 1.1, None), x, None, 7),
}


@pytest.mark.parametrize("name", INSIDE)
def test_points_that_do_not_depend_on_each_other(name):
    found, made = both_orders(INSIDE[name], (X,))
    kinds = steps(made)
    assert kinds
    assert set(kinds) == {Sweep}
    for a, b in zip(found, on_cpu(INSIDE[name], (X,)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", OUTSIDE)
def test_points_that_do(name):
    found, made = both_orders(OUTSIDE[name], (X,))
    assert Sweep not in steps(made)
    for a, b in zip(found, on_cpu(OUTSIDE[name], (X,)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
