"""Every function of the tables in tests/surface on a GPU, with its reverse pass: as on the CPU."""

import warnings

import numpy as np
import pytest
from gpu.test_jit import OnGPU
from surface.test_surface import EVERY, all_calls

import adjoint as ad


@pytest.fixture
def gpu():
    return OnGPU()


def check(gpu, module, name):
    f, inputs = all_calls(module, name)
    run = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        found, wanted = run(gpu.put(inputs)), ad.jit(f)(inputs)
    assert not run.eager
    for a, b in zip(found, map(np.asarray, wanted), strict=True):
        assert gpu.is_on_gpu(a)
        a = gpu.get(a)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("module, name", EVERY, ids=lambda v: v)
def test_as_on_the_cpu(gpu, module, name):
    check(gpu, module, name)
