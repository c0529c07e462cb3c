"""How kernels are spread over threads, and how many registers they may take."""

import numpy as np
import pytest
from on_device import both_orders, on_cpu, program
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda.launch import Launch
from adjoint.compiler.cuda.layout import FEW_LIVE, RESIDENT, RESIDENT_OF_SHORT, registers_alive, resident
from adjoint.compiler.lower.kernel import Kernel


def kernel(count, dtype=np.float64):
    """Values that are all alive at once, then added up."""
    made, d = Kernel((8,)), np.dtype(dtype)
    lines = [made.add("op", (made.add("const", (), float(i), d),), "sin", d) for i in range(count)]
    total = lines[0]
    for line in lines[1:]:
        total = made.add("op", (total, line), "add", d)
    return made


@pytest.mark.parametrize(("count", "dtype", "wanted"), [(1, np.float64, 2), (5, np.float64, 12), (5, np.float32, 6)])
def test_registers_of_values_that_are_alive(count, dtype, wanted):
    assert registers_alive(kernel(count, dtype)) == wanted


def test_room_for_blocks_if_the_registers_suffice():
    few, many = kernel(FEW_LIVE // 2 - 1), kernel(FEW_LIVE // 2)
    assert resident(few, 256) == RESIDENT
    assert resident(few, 128) == 2 * RESIDENT
    assert resident(many, 256) == 0
    assert resident(kernel(4), 256, 4) == RESIDENT_OF_SHORT
    assert resident(kernel(5), 256, 4) == 0


@pytest.mark.parametrize("n", [1 << 18, (1 << 18) + 3])
@pytest.mark.parametrize(("dtype", "each"), [(np.float64, 4), (np.float32, 8), (bool, 4)])
def test_neighbouring_points_of_a_thread(n, dtype, each):
    x = np.arange(n).astype(dtype)
    f = lambda x: (np.sqrt(x * 1.0) if dtype is bool else np.sqrt(x)) + 1
    made, inputs = program(f, (x,), Simulator())
    (step,) = made.lowered.steps
    assert isinstance(step, Launch)
    assert step.layout.per_thread == each
    (found,) = made(*inputs)
    np.testing.assert_array_equal(found, ad.jit(f)(x))
    assert '"nvvm.minctasm"="5"' in made.module.for_gpu()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1 << 18, (1 << 18) + 3])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("how", [np.sum, np.max, np.prod, np.any])
def test_reductions_along_axes_of_length_one(n, axis, how):
    """One term each, beside a result for each point: every thread leaves its own."""
    x = np.random.default_rng(0).normal(size=(n, 1) if axis else (1, n))
    f = lambda x: (np.cos(x), how(x * 2, axis=axis))
    found, _ = both_orders(f, (x,))
    for a, b in zip(found, on_cpu(f, (x,)), strict=True):
        np.testing.assert_array_equal(a, b)
