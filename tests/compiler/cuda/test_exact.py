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


VIEWS = {
    "reversed": lambda x: x[:, ::-1],
    "transposed": lambda x: np.swapaxes(x, 0, 1),
    "rows by twos": lambda x: x[::2],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("shape", [(33, 70), (6, 67, 3)])
def test_views_and_places_for_results(xp, shape, view):
    """Arrays with any steps between their elements; results in arrays that are given."""
    x, y = (VIEWS[view](a) for a in inputs(shape, "float64"))
    x, y = np.nan_to_num(x), np.nan_to_num(y, posinf=9.0)
    wanted = {
        exact.cumsum: lambda axis: exact.cumsum(np, np.ascontiguousarray(x), axis=axis),
        exact.cumprod: lambda axis: np.cumprod(x, axis=axis),
        exact.running_max: lambda axis: np.maximum.accumulate(x, axis=axis),
    }
    for axis in range(len(shape)):
        for function, values in wanted.items():
            out = np.full(x.shape, np.nan)
            assert function(xp, x, axis=axis, out=out) is out
            np.testing.assert_array_equal(out, values(axis))
        out = np.full(x.shape, np.nan)
        exact.recurrence(xp, y[:1] * 0.1, x, axis=axis, out=out)
        np.testing.assert_allclose(out, reduce.recurrence.impl(y[:1] * 0.1, x, axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("shape", [(1,), (300,), (7, 130, 3), (3, 256), (2, 257), (2, 1024), (2, 1025), (2, 3, 0)])
def test_order_statistics(xp, shape, dtype):
    _, y = inputs(shape, "float64")
    if shape != (300,) and "int" not in dtype:
        y = np.where(y > 2, np.nan, np.where(y == 0, -0.0, y))  # many equal ones
    y = np.nan_to_num(y, posinf=99).astype(dtype) if "int" in dtype else y.astype(dtype)
    for x in (y, y[..., ::-1], y.T):
        for axis, n in enumerate(x.shape):
            for kth in {(n // 2,), (0, n - 1), (n // 3, n // 2)} if n else [()]:
                out = np.zeros((*x.shape[:axis], len(kth), *x.shape[axis + 1 :]), dtype)
                assert exact.order_statistics(xp, x, kth=kth, axis=axis, out=out) is out
                np.testing.assert_array_equal(out, np.take(np.sort(x, axis=axis), kth, axis=axis))
