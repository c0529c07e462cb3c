"""Random programs that write in place, in every mode, against NumPy's own run: see `inplace.py`.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more.
"""

import os
import warnings

import numpy as np
import pytest
from inplace import Program
from night import asked

import adjoint as ad
import adjoint.numpy as anp

ASKED = asked(100)
FIRST = int(os.environ.get("ADJOINT_FIRST_PROGRAM", 0))
CHUNK = 25


def total(ys):
    """One smooth number that depends on every element of every array."""
    result = 0.0
    for i, y in enumerate(ys):
        result = result + (i + 1.3) * np.sum(np.sin(y))
    return result


def close(found, wanted, what, tolerance=1e-9):
    assert np.shape(found) == np.shape(wanted), what
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=what)


class Check:
    """One program in all modes."""

    def __init__(self, program):
        self.program = program
        self.x = program.argument()
        self.v = np.random.default_rng(program.seed).normal(size=self.x.shape)
        self.seen = []

    def f(self, x):
        ys = self.program.run(anp, x)
        self.seen = [ad.stop_gradient(np.copy(y)) for y in ys]
        return total(ys) + 0.0 * np.sum(x)

    def values(self, what):
        """What the last run has seen is what NumPy sees, up to the rounding of sums; and the argument is as it was."""
        for i, (found, wanted) in enumerate(zip(self.seen, self.program.run(np, self.program.argument()), strict=True)):
            close(found, wanted, f"{what}: array {i}")
        np.testing.assert_array_equal(self.x, self.program.x)

    def derivatives(self):
        g = ad.grad(self.f)(self.x)
        self.values("grad")
        _, tangent = ad.jvp(self.f, (self.x,), (self.v,))
        self.values("jvp")
        close(np.sum(g * self.v), tangent, "reverse and forward mode", 1e-8)
        self.differences(tangent)
        return g

    def differences(self, tangent):
        """Central differences of NumPy's own run, where the numbers are small enough to tell."""

        def at(x):
            fresh = self.program.argument()
            fresh[...] = x
            return self.program.run(np, fresh)

        if max((np.max(np.abs(y), initial=0.0) for y in at(self.x)), default=0.0) > 50.0:
            return
        for h in (1e-6, 1e-7):  # a kink may lie within the first
            slope = (total(at(self.x + h * self.v)) - total(at(self.x - h * self.v))) / (2 * h)
            if np.isclose(slope, tangent, rtol=1e-3, atol=1e-3):
                return
        raise AssertionError(f"central difference {slope}, tangent {tangent}")

    def second_order(self):
        one = ad.hvp(self.f)(self.x, self.v)
        other = ad.grad(lambda x: np.sum(ad.grad(self.f)(x) * self.v))(self.x)
        close(other, one, "second derivative", 1e-7)

    def batched(self):
        rows = np.ascontiguousarray(np.stack([self.x, self.x]))
        try:
            wanted = self.program.run(np, rows.copy()[0])
        except (ValueError, AssertionError):  # it depends on the layout what is read-only
            return
        try:
            found = ad.vmap(lambda x: [np.copy(y) for y in self.program.run(anp, x)])(rows)
        except ad.AdjointError as error:
            if "vmap" in str(error) or "batch" in str(error):  # a mask, say, which is refused there
                return
            raise
        for y, whole in zip(wanted, found, strict=True):
            close(whole, np.stack([y, y]), "vmap")

    def imperative(self):
        if not self.x.flags.c_contiguous:  # a variable is copied, to rows
            return
        leaf = ad.array(self.x, requires_grad=True)
        ys = self.program.run(anp, leaf * 1.0)
        for y, wanted in zip(ys, self.program.run(np, self.x.copy()), strict=True):
            close(ad.stop_gradient(y), wanted, "imperative")
        (total(ys) + 0.0 * np.sum(leaf)).backward()
        close(leaf.grad, ad.grad(self.f)(self.x * 1.0), "imperative gradient")


def check(seed):
    program = Program(seed, statements=6 + seed % 9)
    check = Check(program)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            check.derivatives()
            check.batched()
            check.imperative()
            if seed % 4 == 0:
                check.second_order()
    except Exception as error:
        error.add_note(repr(program))
        raise


@pytest.mark.parametrize("start", range(FIRST, FIRST + ASKED, CHUNK))
def test_programs(start):
    for seed in range(start, min(start + CHUNK, FIRST + ASKED)):
        check(seed)
