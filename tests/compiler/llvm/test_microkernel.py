"""A tile times a panel: strides, vectors of which some lanes are stored, and products that are added."""

import ctypes

import numpy as np
import pytest

from adjoint.compiler import native
from adjoint.compiler.llvm.microkernel import Microkernel, TileRows, registers

RNG = np.random.default_rng(0)


def test_registers_are_those_of_a_processor():
    size, vectors, wide = registers()
    assert size in (16, 32, 64)
    assert 1 <= wide <= vectors <= 32


def compiled(dtype, strides, height, panel):
    """The function of a tile."""
    kernel = Microkernel(dtype)
    tile = TileRows("%a", *strides, "%c", "%row", height)
    kernel.multiply(tile, "%b", sum(lanes for lanes, _ in panel), [kernel.vector(*v) for v in panel], "%length", "%first")
    kernel.code.do("ret void")
    text = kernel.code.define("define void @f(ptr %a, ptr %b, ptr %c, i64 %down, i64 %row, i64 %length, i1 %first)")
    loaded = native.load(native.object_code("\n".join([*kernel.code.declared, text]))[1])
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, ctypes.c_bool)(
        loaded.get_function_address("f")
    ), loaded


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)])
@pytest.mark.parametrize("panel", [[(4, 0)], [(8, 0), (4, 3)], [(16, 0), (16, 1)], [(2, 0), (1, 0)]])
@pytest.mark.parametrize("strides", [("%down", 1), (1, "%down"), ("%down", 2)])
def test_tiles(dtype, panel, strides):
    height, inner = 3, 5
    columns = sum(stored or lanes for lanes, stored in panel)
    a = RNG.normal(size=(20, 20)).astype(dtype)
    b = RNG.normal(size=(inner, sum(lanes for lanes, _ in panel))).astype(dtype)
    view = a.T[:height, :inner] if strides[0] == 1 else a[:height, : inner * strides[1] : strides[1]]
    f, _loaded = compiled(dtype, strides, height, panel)
    out = np.full((height + 1, columns + 3), 7, dtype)
    for is_first, want in ((True, view @ b[:, :columns]), (False, 2 * (view @ b[:, :columns]))):
        f(a.ctypes.data, b.ctypes.data, out.ctypes.data, 20, columns + 3, inner, is_first)
        np.testing.assert_allclose(out[:height, :columns], want, rtol=0, atol=1e-5 if dtype.itemsize == 4 else 1e-13)
        assert np.all(out[height:] == 7)
        assert np.all(out[:, columns:] == 7)
