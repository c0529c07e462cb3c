"""Every elementwise op through the code of a GPU's thread, in the simulator: equal to the CPU's code to the last bit."""

import device_ops
import numpy as np
import pytest
from on_device import both_orders, on_cpu, same_bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_op_has_the_bits_of_the_cpu(dtype):
    count = 0
    for some, f, args in device_ops.programs(dtype, 200):
        found, _ = both_orders(f, args)
        for op, a, b in zip(some, found, on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                raise AssertionError(f"{op.name} of {np.dtype(dtype)}: {error}") from None
            count += 1
    assert count > 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_have_the_bits_of_the_cpu(dtype):
    for some, f, args in device_ops.derivatives(dtype, 100):
        found, _ = both_orders(f, args)
        for a, b in zip(found, on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                raise AssertionError(f"{[op.name for op in some]} of {np.dtype(dtype)}: {error}") from None
