"""The kernels in CUDA C, compiled by this machine's compiler with the threads as loops: the bits of NumPy's functions."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from adjoint.compiler.cuda import exact
from adjoint.ops import reduce, sort

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HEAD = """
struct Index { long long x; };
static Index blockIdx, threadIdx;
#define __dadd_rn(a, b) ((a) + (b))
#define __dmul_rn(a, b) ((a) * (b))
#define __fadd_rn(a, b) ((a) + (b))
#define __fmul_rn(a, b) ((a) * (b))
"""
LAUNCH = """
extern "C" void launch(long long blocks, ARGUMENTS) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 255; threadIdx.x >= 0; --threadIdx.x) NAME(NAMES);
}"""
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def xp(tmp_path_factory):
    """NumPy, with kernels as CuPy has them."""
    folder = tmp_path_factory.mktemp("kernels")
    exact._kernel.cache_clear()

    class Kernel:
        count = 0

        def __init__(self, code, name):
            arguments = code[code.index("(") + 1 : code.index(")")]
            names = ", ".join(a.split()[-1].strip("*") for a in arguments.split(","))
            launch = LAUNCH.replace("ARGUMENTS", arguments).replace("NAMES", names).replace("NAME", name)
            Kernel.count += 1
            source, library = folder / f"{Kernel.count}.cpp", folder / f"{Kernel.count}.so"
            source.write_text(HEAD + code.replace('extern "C" __global__', "static") + launch)
            subprocess.run([COMPILER, "-O1", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", library], check=True)
            self.launch = ctypes.CDLL(str(library)).launch

        def __call__(self, grid, block, arguments):
            assert block == (256,)
            given = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_longlong(a) for a in arguments]
            self.launch(ctypes.c_longlong(grid[0]), *given)

    class Namespace:
        RawKernel = Kernel

        def __getattr__(self, name):
            return getattr(np, name)

    yield Namespace()
    exact._kernel.cache_clear()


SHAPES = [(1,), (300,), (7, 130, 3), (5, 33), (2, 0, 3)]


def inputs(shape, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape).astype(dtype), np.round(rng.normal(size=shape) * 3).astype(dtype)
    if y.size > 5:
        y.flat[3], y.flat[5] = np.inf, np.nan
    return x, y


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_means_over_equal_elements(xp, shape, dtype):
    t, y = inputs(shape, dtype)
    for axis in range(len(shape)):
        for ordered, of in ((True, np.sort(y, axis=axis)), (False, y)):
            found = exact.share_equal(xp, t, of, axis=axis, ordered=ordered)
            assert found.tobytes() == sort.share_equal.impl(t, of, axis=axis, ordered=ordered).tobytes()


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


def test_scatter_adds(xp):
    rng = np.random.default_rng(0)
    places, values, target = rng.integers(0, 40, 500), rng.normal(size=500), rng.normal(size=50)
    order = np.argsort(places, kind="stable")
    wanted = target.copy()
    np.add.at(wanted, places, values)
    exact.add_in_order(xp, values, order, np.searchsorted(places[order], np.arange(51)), target)
    assert target.tobytes() == wanted.tobytes()
