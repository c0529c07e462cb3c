"""Eager transforms of arrays on a GPU, with the stand-in for CuPy: the tests of a GPU."""

import warnings

import numpy as np
import pytest
import stand_in
from gpu.test_eager import *  # noqa: F403
from stand_in import StandIn

import adjoint as ad
import adjoint.scipy.special  # its ops are declared when it is loaded
from adjoint.core.bind import Traced, bind
from adjoint.core.errors import DeviceError, UnsupportedError
from adjoint.core.op import OPS, Case, Elementwise
from adjoint.device.counterpart import Missing, Namespace, counterpart
from adjoint.eager.on_gpu import lift
from adjoint.numpy.table import load_all


@pytest.fixture
def gpu(monkeypatch):
    return StandIn(stand_in.install(monkeypatch))


def test_two_gpus(gpu):
    x = np.ones(3)
    with pytest.raises(DeviceError, match="on different GPUs, 0 and 1"):
        ad.grad(lambda x, y: np.sum(x * y))(gpu.put(x), gpu.put(x, 1))


def test_a_function_that_cupy_does_not_have(gpu):
    with pytest.raises(UnsupportedError, match=r"eig is not available for CuPy arrays \(CuPy has no numpy.linalg.eig\)"):
        ad.grad(lambda a: np.sum(np.linalg.eigvals(a).real))(gpu.put(np.eye(3)))


def test_every_op_runs_or_is_refused_by_name(gpu):
    load_all()
    rng, ran, refused = np.random.default_rng(0), set(), set()
    for op in [op for op in OPS.values() if op.home.startswith("adjoint.")]:  # not those of other tests
        for case in op.cases or ([Case(((3,),) * op.arity, {})] if isinstance(op, Elementwise) else []):
            args = case.draw(op.domain, rng)
            if not any(isinstance(a, np.ndarray) for a in args):
                continue
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = bind(op, *args, **case.params)
                try:
                    found = bind(op, *map(lift, gpu.put(args)), **case.params)
                except UnsupportedError as error:
                    assert str(error).startswith(f"{op.name} is not available for CuPy arrays")  # noqa: PT017
                    refused.add(op.name)
                    continue
            for a, b in zip(found, wanted, strict=True) if op.many else [(found, wanted)]:
                np.testing.assert_allclose(gpu.get(a.underlying) if isinstance(a, Traced) else a, b, rtol=1e-12, err_msg=op.name)
            ran.add(op.name)
    assert len(ran) > 200
    assert len(refused) < 40, refused


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
