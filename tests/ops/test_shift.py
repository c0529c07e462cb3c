"""Cyclic shifts of values."""

import numpy as np
import pytest

from adjoint.ops import shift


@pytest.mark.parametrize("shape", [(1,), (5,), (0,), (2, 3), (3, 0), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("by", [0, 1, -1, 2, -4, 11])
@pytest.mark.parametrize("dtype", [float, np.int8, complex, bool])
def test_roll_is_that_of_numpy(shape, order, by, dtype):
    """Along each axis, and two at once; the result has the memory order of NumPy's, and is not a view."""
    x = np.asarray((np.arange(np.prod(shape)).reshape(shape) * 3) % 7, dtype, order=order)
    for axes in [*((k,) for k in range(len(shape))), tuple(range(len(shape)))[:2]]:
        shifts = (by, -by)[: len(axes)]
        found, expected = shift.roll(x, shifts=shifts, axes=axes), np.roll(x, shifts, axes)
        np.testing.assert_array_equal(found, expected)
        assert (found.dtype, found.strides) == (expected.dtype, expected.strides)
        assert not np.shares_memory(found, x)
