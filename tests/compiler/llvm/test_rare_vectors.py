"""A vectorized loop takes the slow path of a function for those lanes alone that need it."""

import re

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm import emit, rare_vectors
from adjoint.compiler.llvm.slow_paths import FUNCTION

FUNCTIONS = {
    "sin": (np.sin, 1e8),
    "cos": (np.cos, 1e300),
    "tan": (np.tan, 1e12),
    "logaddexp": (lambda x: np.logaddexp(x - 1.0, -x), 0.3),
    "logaddexp2": (lambda x: np.logaddexp2(x - 2.0, -x), 0.9),
    "several": (lambda x: np.sin(x) * np.cos(x) + np.logaddexp(np.sin(x), -1.0), 1e9),
}
LENGTHS = (1003, 37)


def kernels(text):
    """The functions of a program's own."""
    return [body for body in FUNCTION.findall(text) if not re.match(r"define [^\n]*@adjoint\.", body)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_lane_has_the_value_of_a_number_alone(name, dtype):
    """Wherever the slow path is taken: in no lane, in one, in some, in all; beside infinities and nan."""
    f, rare = FUNCTIONS[name]
    rare = dtype(min(rare, 1e30)) if dtype is np.float32 else rare
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        together, alone = ad.jit(f), ad.jit(f)
        usual = rng.uniform(0.5, 3.0, n).astype(dtype)
        given = [usual, np.full(n, rare, dtype)]
        given += [np.where(np.arange(n) % 17 == k, rare * (1 + k / 64), usual).astype(dtype) for k in range(17)]
        given += [np.where(rng.integers(0, 2, n) == 0, rare, usual).astype(dtype)]
        given += [np.where(rng.integers(0, 4, n) == 0, special, given[-1]).astype(dtype) for special in (np.inf, -np.inf, np.nan)]
        for x in given:
            with np.errstate(invalid="ignore"):
                some = rng.integers(0, n, 12)
                np.testing.assert_array_equal(together(x)[some], [alone(x[i : i + 1])[0] for i in some])


@pytest.mark.parametrize("mask", ["a window", "a condition", "a sum"])
def test_loops_with_conditions_of_their_own(mask):
    rng = np.random.default_rng(0)
    x = np.where(rng.integers(0, 5, 500) == 0, 1e9, rng.uniform(-3, 3, 500))

    def f(x):
        if mask == "a window":
            v = x * 2.0
            v[10:300] = np.sin(v[10:300])
            return v
        return np.where(x > 0, np.sin(x), np.cos(x) * x) if mask == "a condition" else np.sum(np.sin(x))

    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_vector_has_one_branch(name):
    """In each kernel that is vectorized, every use of a slow path is a test and a call for the whole vector."""
    f, _ = FUNCTIONS[name]
    text = ad.jit(f).lower(np.ones(1003)).native.text
    uses = sum(len(re.findall(r"call \w+ @adjoint\.(?:sin|cos|tan|logaddexp2?)\.", body)) for body in kernels(text))
    vectors = scalars = 0
    for body in kernels(emit.optimised(text)):
        vectors += body.count("call void @adjoint.lanes.")
        scalars += body.count("@adjoint.rare.") - body.count("call void @adjoint.lanes.")
    assert uses
    assert vectors == scalars == uses  # the other half: the loop over the last points, one at a time


def recurrence(x):
    return ad.scan(lambda c, r: (np.sin(c) + r, c), 0.5, x)[0]


@pytest.mark.parametrize(("f", "n"), [(np.exp, 1003), (np.sin, 3), (recurrence, 50)])
def test_only_loops_over_points_with_slow_paths_have_forms(f, n):
    text = ad.jit(f).lower(np.ones(n)).native.text
    assert rare_vectors.with_forms(text) == (text, None)
