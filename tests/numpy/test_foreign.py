"""Code that knows nothing of traced values: the right result, or our own error with the user's line and what to write."""

import array
import cmath
import contextlib
import datetime
import decimal
import fractions
import io
import json
import math
import operator
import random
import re
import statistics
import struct

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.optimize
from numpy.random import RandomState, default_rng

import adjoint as ad

RNG = default_rng(0)
ANY = ""

#: What is differentiated at 2.0, and the slope there.
RIGHT = {
    "round": (lambda x: round(x, 1) + x, 1.0),
    "abs": (lambda x: abs(-x), 1.0),
    "divmod": (lambda x: divmod(x, 1.5)[1], 1.0),
    "pow": (lambda x: pow(x, 3), 12.0),
    "sum": (lambda x: sum([x, x * x]), 5.0),
    "min": (lambda x: min(x, 3.0), 1.0),
    "max": (lambda x: max([x, 2 * x]), 2.0),
    "sorted": (lambda x: sorted([x, -x])[0], -1.0),
    "format": (lambda x: (f"{x:.3f}", "%.3f" % x, f"{x:8.2e}", x)[-1], 1.0),  # noqa: UP031
    "print": (lambda x: (print(x, file=io.StringIO()), x)[1], 1.0),
    "math.prod": (lambda x: math.prod([x, x]), 4.0),
    "median": (lambda x: statistics.median([x, 1.0, 3.0]), 1.0),
    "random.gauss": (lambda x: random.Random(0).gauss(x, 1.0), 1.0),
    "map": (lambda x: sum(t * t for t in [x, x]), 8.0),
    "flat": (lambda x: sum((x * np.ones((2, 2))).flat), 4.0),
    "fromfunction": (lambda x: np.sum(np.fromfunction(lambda i: i * x, (3,))), 3.0),
    "newton": (lambda x: scipy.optimize.newton(lambda t: t * t - x, 1.0), 0.5 / math.sqrt(2.0)),
    "draw": (lambda x: np.sum(x + 2.0 * default_rng(0).normal(size=3)), 3.0),
    "piecewise": (lambda x: np.piecewise(x, [x > 0], [lambda t: 3.0 * t, lambda t: 2.0 * t]), 3.0),
    "piecewise below": (lambda x: np.piecewise(x, [x > 5], [lambda t: 3.0 * t, lambda t: 2.0 * t]), 2.0),
    "quad": (lambda x: scipy.integrate.quad(lambda t: t, 0, x)[0], 2.0),
    "brentq": (lambda x: scipy.optimize.brentq(lambda t: t - x, 0, 5), 1.0),
    "CubicSpline": (lambda x: scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(x), 4.0),
    "gaussian_filter": (lambda x: scipy.ndimage.gaussian_filter([x, 4.0], [0.0])[0], 1.0),
    "piecewise of one condition": (lambda x: np.piecewise(x, x > 0, [lambda t: 3.0 * t, 7.0]), 3.0),
}

#: Calls that take plain values only, and what our error tells to write.
REFUSED = {
    "float": (lambda x: float(x), "NumPy functions"),
    "complex": (lambda x: complex(x), "NumPy functions"),
    "index": (lambda x: operator.index(x), r"int\(x\)"),
    "chr": (lambda x: chr(x), r"int\(x\)"),
    "range": (lambda x: range(x), r"int\(x\)"),
    "math.isnan": (lambda x: math.isnan(x), "np.isnan"),
    "math.sin": (lambda x: math.sin(x), "np.sin"),
    "math.hypot": (lambda x: math.hypot(x, x), "np.hypot"),
    "math.fsum": (lambda x: math.fsum([x, x]), "np.sum"),
    "math.gamma": (lambda x: math.gamma(x), "adjoint.scipy.special.gamma"),
    "cmath.exp": (lambda x: cmath.exp(x), "np.exp"),
    "statistics.mean": (lambda x: statistics.mean([x, x]), "np.mean"),
    "statistics.stdev": (lambda x: statistics.stdev([x, x, 1.0]), "NumPy functions"),
    "struct.pack": (lambda x: struct.pack("d", x), "stop_gradient"),
    "struct.pack of two": (lambda x: struct.pack("dd", 1.0, x), "stop_gradient"),
    "array.array": (lambda x: array.array("d", [x]), "stop_gradient"),
    "json": (lambda x: json.dumps({"a": [x]}), "outside the function"),
    "decimal": (lambda x: decimal.Decimal(x), "outside the function"),
    "fractions": (lambda x: fractions.Fraction(1, 3) < x, "NumPy functions"),
    "datetime.timedelta": (lambda x: datetime.timedelta(seconds=x), "outside the function"),
    "np.ndarray.flatten": (lambda x: np.ndarray.flatten(np.ones(2) * x), r"x.flatten\(\)"),
    "memoryview": (lambda x: memoryview(x), "outside the function"),
    "np.nditer": (lambda x: list(np.nditer(x)), "x.flat"),
    "np.nditer of two": (lambda x: list(np.nditer([x, np.ones(2)])), "x.flat"),
    "np.nditer with flags": (lambda x: list(np.nditer(x, flags=["multi_index"])), "ndindex"),
    "np.ndenumerate": (lambda x: list(np.ndenumerate(x)), "ndindex"),
    "np.broadcast": (lambda x: np.broadcast(x, np.ones(2)), "broadcast_shapes"),
    "np.fromiter": (lambda x: np.fromiter([x], float), "adjoint.numpy"),
    "np.frompyfunc": (lambda x: np.frompyfunc(math.sin, 1, 1)(x), "adjoint.numpy.vectorize"),
    "np.vectorize": (lambda x: np.vectorize(lambda t: t * t)(x), "adjoint.numpy"),
    "np.savetxt": (lambda x: np.savetxt(io.StringIO(), x), "save the result"),
    "np.array": (lambda x: np.array([x, x]), "np.stack"),
    "np.full": (lambda x: np.full(3, x), "adjoint.numpy"),
    "np.float64": (lambda x: np.float64(x), "astype"),
    "a[i] = x": (lambda x: np.zeros(3).__setitem__(0, x), "adjoint.numpy"),
    "rng.normal": (lambda x: RNG.normal(x), r"mean \+ scale \* rng.normal\(size=n\)"),
    "rng.normal of an array": (lambda x: RNG.normal(np.ones(3) * x), r"mean \+ scale \* rng.normal\(size=n\)"),
    "default_rng(0).normal": (lambda x: default_rng(0).normal(x), r"mean \+ scale \* rng.normal\(size=n\)"),
    "np.random.default_rng(0).normal": (lambda x: np.random.default_rng(0).normal(0.0, x, 3), r"rng.normal\(size=n\)"),
    "RandomState(0).normal": (lambda x: RandomState(0).normal(x), r"rng.normal\(size=n\)"),
    "[rng][0].normal": (lambda x: [RNG][0].normal(x), r"rng.normal\(size=n\)"),
    "np.random.normal": (lambda x: np.random.normal(x), r"rng.normal\(size=n\)"),
    "rng.uniform": (lambda x: RNG.uniform(0.0, x), r"rng.random\(n\)"),
    "rng.exponential": (lambda x: default_rng(0).exponential(x), "standard_exponential"),
    "rng.laplace": (lambda x: RNG.laplace(x), r"rng.laplace\(size=n\)"),
    "rng.gamma": (lambda x: default_rng(0).gamma(x), "gammaincinv"),
    "rng.poisson": (lambda x: RNG.poisson(x), "random integer"),
    "rng.choice": (lambda x: RNG.choice([x, x]), r"x\[rng.permutation"),
    "rng.multivariate_normal": (lambda x: RNG.multivariate_normal([x, x], np.eye(2)), "cholesky"),
}

TRANSFORMS = {"grad": lambda f: ad.grad(f)(2.0), "jvp": lambda f: ad.jvp(f, (2.0,), (1.0,))}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    f, slope = RIGHT[name]
    value, tangent = ad.jvp(f, (2.0,), (1.0,))
    assert value == f(2.0)
    assert tangent == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert ad.value_and_grad(f)(2.0) == (value, pytest.approx(slope, rel=1e-6, abs=1e-6))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, transform):
    f, advice = REFUSED[name]
    with pytest.raises(ad.AdjointError, match=advice) as caught:
        TRANSFORMS[transform](f)
    assert caught.value.line == f"test_foreign.py:{f.__code__.co_firstlineno}"
    assert f"({caught.value.line})" in str(caught.value)


@pytest.mark.parametrize("name", ["struct.pack", "np.nditer", "json", "decimal"])
def test_user_code_may_catch_the_errors(name):
    f, _ = REFUSED[name]

    def careful(x):
        with contextlib.suppress(TypeError, struct.error):
            f(x)
        return x * x

    assert ad.grad(careful)(3.0) == 6.0


def test_an_error_of_another_kind_stays():
    def f(x):
        with contextlib.suppress(TypeError):
            math.sin(x)
        return {}["a"]

    with pytest.raises(KeyError):
        ad.grad(f)(1.0)
    with pytest.raises(TypeError, match=re.escape("unsupported operand")):
        ad.grad(lambda x: x + None)(1.0)
