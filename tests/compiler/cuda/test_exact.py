"""The kernels in CUDA C, compiled by this machine's compiler with the threads as loops: the bits of NumPy's functions."""

import cuda_c
import numpy as np
import pytest

from adjoint.compiler.cuda import exact, raw
from adjoint.ops import reduce, sort

pytestmark = pytest.mark.skipif(cuda_c.COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def xp(tmp_path_factory):
    raw.kernel.cache_clear()
    yield cuda_c.namespace(tmp_path_factory.mktemp("kernels"))
    raw.kernel.cache_clear()


SHAPES = [(1,), (300,), (7, 130, 3), (5, 33), (40, 64), (2, 0, 3)]


def inputs(shape, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape).astype(dtype), np.round(rng.normal(size=shape) * 3).astype(dtype)
    if y.size > 5:
        y.flat[3], y.flat[5] = np.inf, np.nan
    return x, y


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_means_over_equal_elements(xp, shape, dtype):
    t, y = inputs(shape, dtype)
    for axis in range(len(shape)):
        for ordered, of in ((True, np.sort(y, axis=axis)), (False, y)):
            found = exact.share_equal(xp, t, of, axis=axis, ordered=ordered)
            assert found.tobytes() == sort.share_equal.impl(t, of, axis=axis, ordered=ordered).tobytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_extrema(xp, shape, dtype):
    _, y = inputs(shape, "float64")
    y = np.nan_to_num(y, posinf=99).astype(dtype) if "int" in dtype else y.astype(dtype)
    for axis in range(len(shape)):
        for name, ufunc in (("running_max", np.maximum), ("running_min", np.minimum)):
            found = getattr(exact, name)(xp, y, axis=axis)
            assert found.dtype == y.dtype
            np.testing.assert_array_equal(found, ufunc.accumulate(y, axis=axis))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_recurrences_and_cumulative_products(xp, shape, dtype):
    a, b = inputs(shape, dtype)
    for axis in range(len(shape)):
        with np.errstate(all="ignore"):
            wanted = reduce.recurrence.impl(a, b, axis=axis)
        near = {"rtol": 1e-13, "atol": 1e-13} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
        np.testing.assert_allclose(exact.recurrence(xp, a, b, axis=axis), wanted, **near)
        assert exact.cumprod(xp, a, axis=axis).tobytes() == np.cumprod(a, axis=axis).tobytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 1000), (1, 2081)])
def test_cumulative_sums(xp, shape, dtype):
    """In parts of a fixed length: the same bits as the form for the host."""
    x, _ = inputs(shape, dtype)
    for axis in range(len(shape)):
        assert exact.cumsum(xp, x, axis=axis).tobytes() == exact.cumsum(np, x, axis=axis).tobytes()
