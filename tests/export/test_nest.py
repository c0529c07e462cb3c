"""Kernels as nested loops in C and JavaScript: reductions over any axes, windows, long sums in blocks."""

import numpy as np
import pytest
from export.c_compiler import COMPILERS, Library

import adjoint as ad
from adjoint import export
from adjoint.export.c_source import write
from adjoint.export.program import parts

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
X = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)
KERNELS = {
    "all": lambda x: np.sum(np.sin(x)),
    "rows": lambda x: np.sum(x * x, axis=-1),
    "columns": lambda x: np.max(x, axis=0),
    "middle": lambda x: np.mean(x + 2, axis=1),
    "two axes": lambda x: np.sum(x, axis=(0, 2)),
    "both ways": lambda x: (np.sum(x, axis=0), np.sum(x, axis=2), np.min(x)),
    "window": lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=3.0) * 2,
    "shifted": lambda x: x[:, 1:] - x[:, :-1],
    "broadcast": lambda x: x[:, :, :1] * x[:1] + x[0, 0, 0],
    "reversed": lambda x: x[..., ::-1] * x,
    "any": lambda x: np.any(x > 0.9, axis=1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_c_loops_give_the_values(name, tmp_path):
    (part,) = parts(KERNELS[name], (X,), {}, derivatives=(), argnums=0, name="f")
    found = Library(write([part]), tmp_path, "f", COMPILERS[0])(part, [X])
    expected = KERNELS[name](X)
    for a, b in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


def test_a_long_sum_is_added_in_blocks(tmp_path):
    x = np.full(100_000, 0.1)
    (part,) = parts(np.sum, (x,), {}, derivatives=(), argnums=0, name="f")
    (total,) = Library(write([part]), tmp_path, "f", COMPILERS[0])(part, [x])
    assert abs(total - 10_000.0) < 1e-8  # one running total would be off by more


def test_nothing_outside_a_window_is_read():
    text = str(export.javascript(KERNELS["window"], X, name="f"))
    assert "for (" in text
    assert ad.graph(KERNELS["window"])(X)(X).shape == (2, 6, 5)
