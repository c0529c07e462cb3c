"""Every elementwise op on a GPU: equal to the CPU to the last bit."""

import device_ops
import numpy as np
import pytest
from on_device import on_cpu, results, same_bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_op_has_the_bits_of_the_cpu(gpu, dtype):
    wrong = []
    for some, f, args in device_ops.programs(dtype, 20_000):
        for op, a, b in zip(some, results(f, args, gpu), on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                wrong.append(f"{op.name}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_have_the_bits_of_the_cpu(gpu, dtype):
    wrong = []
    for some, f, args in device_ops.derivatives(dtype, 5_000):
        for a, b in zip(results(f, args, gpu), on_cpu(f, args), strict=True):
            try:
                same_bits(a, b)
            except AssertionError as error:
                wrong.append(f"{[op.name for op in some]}: {error}")
    assert not wrong, "\n".join(wrong)
