"""One compiled program: what it is made for, and how it is described."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Scan
from adjoint.compiler.made_of import every_step
from adjoint.compiler.specialization import as_leaf, counted, in_rows

X = np.linspace(0, 1, 6).reshape(2, 3)


@pytest.mark.parametrize(
    "x, rows", [(X, True), (X.T, False), (X[:, ::2], False), (X[:1].T, True), (np.float64(1.0), True), (3.0, True), (X[:0], True)]
)
def test_layouts(x, rows):
    assert in_rows(x) is rows


@pytest.mark.parametrize("x", [X, X.T, X[::-1], X.astype(">f8"), np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float)])
def test_leaves_are_as_programs_take_them(x):
    leaf = as_leaf(x)
    assert leaf.flags.c_contiguous
    assert leaf.flags.aligned
    assert leaf.dtype.isnative
    np.testing.assert_array_equal(leaf, x)


def test_a_program_describes_itself():
    def f(x):
        return np.nextafter(np.sin(x), 9.0) if x[0, 0] < 0.5 else x

    specialization = ad.jit(f).lower(X)
    first, *rest = specialization.report()
    assert "equation" in first
    assert any("guard" in line for line in rest)
    assert any("nextafter" in line for line in rest)
    assert "nextafter" in str(specialization.graph)


def test_a_guard_that_does_not_hold_is_a_miss():
    specialization = ad.jit(lambda x: np.sin(x) if x > 0 else x).lower(1.0)
    assert specialization.run([1.0]) == np.sin(1.0)
    assert specialization.run([-1.0]) is specialization.missed


def test_steps_of_bodies_are_found():
    lowered = ad.jit(lambda x: ad.scan(lambda c, r: (np.nextafter(c + r, 9.0), c), x[0], x)[0]).lower(X).lowered
    steps = list(every_step(lowered))
    (loop,) = [step for step in steps if isinstance(step, Scan)]
    assert len(steps) > len(lowered.steps)
    assert loop in lowered.steps


@pytest.mark.parametrize("n, text", [(0, "0 kernels"), (1, "1 kernel"), (2, "2 kernels")])
def test_counts(n, text):
    assert counted(n, "kernel") == text
