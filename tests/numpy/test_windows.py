"""sliding_window_view: windows of an array as additional axes."""

import numpy as np
import pytest
from harness import check

import adjoint as ad

windows = np.lib.stride_tricks.sliding_window_view
rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    "shape, width, axis",
    [
        ((5,), 3, None),
        ((5,), (5,), 0),
        ((4, 5), (2, 3), None),
        ((4, 5), (2, 3), (1, 0)),
        ((4, 5), 2, -1),
        ((2, 5, 3), (4,), (1,)),
        ((6,), (2, 3), (0, 0)),
        ((1,), 1, None),
    ],
)
def test_windows(shape, width, axis):
    check(lambda x: windows(x, width, axis) ** 2, rng.normal(size=shape))


def test_moving_mean():
    f = lambda x: np.sum(windows(x, 3).mean(axis=-1) * np.arange(3.0))
    np.testing.assert_allclose(ad.grad(f)(np.ones(5)), np.array([0, 1, 3, 3, 2]) / 3)
    np.testing.assert_allclose(ad.grad(lambda x: f(x.astype(np.float32)))(np.ones(5)), np.array([0, 1, 3, 3, 2]) / 3, rtol=1e-6)


def test_empty_windows():
    assert ad.grad(lambda x: windows(x, 0).sum() + x.sum())(np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    "width, axis, message", [(6, None, "larger"), (-1, None, "negative"), ((2, 2), 0, "2 entries for 1 axes")]
)
def test_errors(width, axis, message):
    with pytest.raises(ValueError, match=message):
        ad.grad(lambda x: windows(x, width, axis).sum())(np.ones(5))


def test_as_strided_is_refused():
    with pytest.raises(ad.AdjointError, match="lose its derivative"):
        ad.grad(lambda x: np.lib.stride_tricks.as_strided(x, (2,)).sum())(np.ones(5))
