"""Views of buffers by strides, and the lines of a kernel."""

import numpy as np
import pytest

from adjoint.compiler.lower.kernel import Buffer, Kernel, Reduce, Store, View, contiguous, size_of

FLOAT = np.dtype(float)
BUFFER = Buffer(0, FLOAT, 24, "local")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3), (1, 1), (0, 3)])
def test_strides_in_rows(shape):
    array = np.zeros(shape)
    expected = tuple(0 if n == 1 else s // 8 for n, s in zip(shape, array.strides, strict=True))
    if array.size:
        assert contiguous(shape) == expected
    assert size_of(shape) == array.size


def test_a_view_of_all_elements():
    whole = View.whole(BUFFER, (4, 6))
    assert whole.is_whole
    assert not View(BUFFER, (4, 6), (6, 1), 1).is_whole
    assert not View(BUFFER, (6, 4), (1, 6)).is_whole
    assert (whole.dtype, whole.type.shape, BUFFER.nbytes) == (FLOAT, (4, 6), 192)


@pytest.mark.parametrize("shape, domain", [((3,), (2, 3)), ((2, 1), (2, 3)), ((), (2, 3)), ((1, 3), (4, 2, 3))])
def test_broadcasting_is_a_stride_of_zero(shape, domain):
    size = size_of(shape)
    data = np.arange(float(size)).reshape(shape)
    view = View.whole(Buffer(0, FLOAT, size, "local"), shape).over(domain)
    expected = np.broadcast_to(data, domain)
    for point in np.ndindex(domain):
        place = view.offset + sum(i * s for i, s in zip(point, view.strides, strict=True))
        assert data.ravel()[place] == expected[point]


def test_equal_lines_are_one():
    kernel = Kernel((3,))
    x = kernel.add("load", (), View.whole(BUFFER, (3,)), FLOAT)
    assert kernel.add("load", (), View.whole(BUFFER, (3,)), FLOAT) == x
    y = kernel.add("op", (x,), "sin", FLOAT)
    assert kernel.add("op", (x,), "cos", FLOAT) != y
    assert len(kernel.code) == 3  # with the cosine
    zero = kernel.add("const", (), 0.0, FLOAT)
    assert kernel.add("const", (), -0.0, FLOAT) != zero  # numbers are the same by their bits


def test_reads_and_writes():
    out = Buffer(1, FLOAT, 1, "output")
    kernel = Kernel((3,))
    x = kernel.add("load", (), View.whole(BUFFER, (3,)), FLOAT)
    kernel.reductions.append(Reduce("sum", x, (0,), View(out, (3,), (0,))))
    assert [view.buffer for view in kernel.reads()] == [BUFFER]
    assert [view.buffer for view in kernel.writes()] == [out]
    assert "sum s0 into b1" in repr(kernel.reductions[0])
    assert repr(Store(0, View.whole(out, ()))).startswith("store s0")
