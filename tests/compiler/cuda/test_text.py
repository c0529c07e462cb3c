"""The module of a program's launches: equal kernels share one function, for a GPU and for the simulator."""

import numpy as np
from on_device import both_orders, on_cpu, program
from simulator import Simulator

from adjoint.compiler.cuda.text import DeviceModule, _with_loops_named

X = np.linspace(0.1, 1.0, 40)


def test_an_empty_module_has_a_text():
    assert DeviceModule().for_gpu() is not None
    assert "ptx_kernel" not in DeviceModule().for_simulator()


def test_equal_kernels_are_one_function():
    f = lambda x: (np.sum(np.sin(x)), np.sum(np.sin(x + 1.0)), np.sum(np.sin(x + 1.0) * 1.0))
    found, _ = both_orders(f, (X,))
    for a, b in zip(found, on_cpu(f, (X,)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_names_of_loops():
    text = "br label %a\nbr label %b"
    assert _with_loops_named(text) == text


def test_results_do_not_depend_on_the_block():
    for size in (1, 31, 32, 33, 257):
        x = np.linspace(0.1, 1.0, size)
        made, inputs = program(lambda x: (np.sum(x), x * 2), (x,), Simulator())
        total, twice = made(*inputs)
        np.testing.assert_allclose(total, x.sum(), rtol=1e-13)
        np.testing.assert_array_equal(twice, 2 * x)
