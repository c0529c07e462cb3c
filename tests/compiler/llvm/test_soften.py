"""Multiply-adds on machines without the instruction: accurate where it matters, and few where it does not."""

import math

import numpy as np
import pytest
import scipy.special
from export.in_process import results

from adjoint.compiler.llvm import vecmath

RNG = np.random.default_rng(0)
WIDE = RNG.uniform(-700, 700, 2000)
FUNCTIONS = {
    "exp": (np.exp, WIDE),
    "exp2": (np.exp2, WIDE),
    "log": (np.log, np.exp(WIDE)),
    "log, near one": (np.log, 1 + RNG.uniform(-0.3, 0.4, 2000)),
    "expm1": (np.expm1, RNG.uniform(-3, 3, 2000)),
    "tanh": (np.tanh, RNG.uniform(-4, 4, 2000)),
    "sinh": (np.sinh, RNG.uniform(-3, 3, 2000)),
    "sin": (np.sin, RNG.uniform(-1e6, 1e6, 2000)),
    "erf": (scipy.special.erf, RNG.uniform(-4, 4, 2000)),
}


def exact(name, x):
    """The function in more digits than a double has; erf in those of SciPy, which is accurate to a unit."""
    if name == "erf":
        return scipy.special.erf(x)
    return getattr(np, name.partition(",")[0])(x.astype(np.longdouble))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_of_two_units_at_most(name):
    f, x = FUNCTIONS[name]
    (found,) = results(f, x)  # compiled for a processor of which nothing is known
    wanted = exact(name, x)
    error = np.abs((found - wanted) / np.spacing(np.abs(wanted.astype(float))))
    assert float(error.max()) <= 2.0


@pytest.mark.parametrize("name", ["exp", "log", "erf", "exp2", "sinh", "expm1"])
def test_no_exact_product_where_none_is_needed(name):
    text = vecmath.soften("\n".join(vecmath.definitions([(name, "double", 1)])))
    assert "call double @adjoint.fma.f64(" not in text
    assert "@llvm.fma.f64(" not in text


def test_whole_numbers_times_a_constant_are_rounded_once():
    ln2 = math.log(2)
    n = RNG.integers(-1000, 1000, 2000).astype(float)
    c = -n * ln2 * (1 + RNG.uniform(-1e-3, 1e-3, 2000))
    high = (np.float64(ln2).view(np.int64) & ~((1 << 27) - 1)).view(np.float64)
    found = (n * high + c) + n * (ln2 - high)
    assert np.array_equal(found, (n.astype(np.longdouble) * ln2 + c).astype(float))
