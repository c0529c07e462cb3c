"""Eager transforms of arrays on a card, with the stand-in for CuPy: the tests of a card."""

import numpy as np
import pytest
import stand_in
from gpu.test_eager import *  # noqa: F403
from test_card_path import StandIn

import adjoint as ad
from adjoint.backend.cuda.counterpart import Missing, Namespace, counterpart
from adjoint.core.errors import DeviceError, UnsupportedError


@pytest.fixture
def gpu(monkeypatch):
    return StandIn(stand_in.install(monkeypatch))


def test_two_cards(gpu):
    x = np.ones(3)
    with pytest.raises(DeviceError, match="on different cards, 0 and 1"):
        ad.grad(lambda x, y: np.sum(x * y))(gpu.put(x), gpu.put(x, 1))


def test_a_function_that_cupy_does_not_have(gpu):
    with pytest.raises(UnsupportedError, match=r"eig has no form on CuPy's arrays \(CuPy has no numpy.linalg.eig\)"):
        ad.grad(lambda a: np.sum(np.linalg.eigvals(a).real))(gpu.put(np.eye(3)))


def test_counterparts():
    xp = stand_in.Namespace()
    x = stand_in.asarray(np.arange(4.0))
    np.testing.assert_array_equal(counterpart(np.negative, xp)(x).get(), -np.arange(4.0))
    np.testing.assert_array_equal(counterpart(np.linalg.norm, xp)(x).get(), np.linalg.norm(np.arange(4.0)))
    named = Namespace(xp)
    assert named.ndarray is stand_in.ndarray
    assert named.float64 is np.float64
    assert named.maximum.reduce(x).get() == 3
    with pytest.raises(Missing, match=r"CuPy has no numpy\.spacing"):
        named.spacing
    with pytest.raises(Missing, match=r"CuPy has no numpy\.hypot\.reduce"):
        named.hypot.reduce
