"""Small kernels in CUDA C, compiled by this machine's compiler, against their forms for NumPy's arrays."""

import cuda_c
import numpy as np
import pytest

from adjoint.compiler.cuda import raw

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.skipif(cuda_c.COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def xp(tmp_path_factory):
    raw.kernel.cache_clear()
    yield cuda_c.namespace(tmp_path_factory.mktemp("kernels"))
    raw.kernel.cache_clear()


@pytest.mark.parametrize("row", [1, 3])
@pytest.mark.parametrize(("count", "places"), [(0, 5), (1, 1), (500, 40), (300, 1), (40, 3000)])
def test_scatter_adds(xp, count, places, row):
    where = RNG.integers(0, places, count)
    values, target = RNG.normal(size=(count, row)), RNG.normal(size=(places, row))
    wanted = target.copy()
    np.add.at(wanted, where, values)
    order = np.argsort(where, kind="stable")
    starts = raw.starts(xp, where * row, order, places, row)
    np.testing.assert_array_equal(starts, raw.starts(np, where * row, order, places, row))
    raw.add_in_order(xp, values, order, starts, target)
    assert target.tobytes() == wanted.tobytes()


def test_addresses(xp):
    for count in (1, 255, 256, 257):
        np.testing.assert_array_equal(raw.addresses(xp, 1 << 40, 24, count), (1 << 40) + 24 * np.arange(count))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 256, 257, 1000])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_status(xp, count, dtype):
    for bad in (None, 0, count // 2, count - 1):
        info, values = np.zeros(count, np.int32), np.ones(count + 3, dtype)
        flags, failed = np.ones((count, 1), bool), np.ones((), bool)
        raw.has_failed(xp, info, failed, values)
        assert not failed
        if bad is not None:
            values[bad] = np.nan
            raw.has_failed(xp, info, failed)
            assert not failed
            raw.has_failed(xp, info, failed, values)
            assert failed
            info[bad] = -3
            raw.has_failed(xp, info, failed)
            assert failed
        raw.are_set(xp, info, flags)
        np.testing.assert_array_equal(flags[:, 0], info != 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 3, 3), (20, 20), (2, 2, 5, 5), (90, 7, 7), (64, 64), (65, 65)])
def test_symmetry(xp, shape, dtype):
    a = RNG.normal(size=shape)
    whole = (a + np.swapaxes(a, -1, -2)).astype(dtype)
    for change in (0.0, 1e-12, 1e-3, 1.0, np.inf, np.nan):
        for place in ((0, 0), (-1, 0), (0, -1), (shape[-1] // 2, shape[-1] // 3))[:: 1 + shape[-1] // 30]:
            x = whole.copy()
            x[(*(n - 1 for n in shape[:-2]), *place)] += change
            found, wanted = np.zeros(shape[:-2], bool), np.empty(shape[:-2], bool)
            raw.is_symmetric(xp, x, found)
            raw.is_symmetric(np, x, wanted)
            np.testing.assert_array_equal(found, wanted)
