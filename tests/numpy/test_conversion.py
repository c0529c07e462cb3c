"""Conversions to plain numbers and arrays, which would lose a derivative."""

import math
import pickle

import numpy as np
import pytest
from complaints import TRANSFORMS, X, complaint

import adjoint as ad

SCALAR_CONVERSIONS = {
    "float": float,
    "complex": complex,
    "math.sin": math.sin,
    "math.exp": math.exp,
    "np.array": np.array,
    "np.array list": lambda x: np.array([x]),
    "np.array nested": lambda x: np.array([[x, 1.0], [2.0, x]]),
    "np.asarray": np.asarray,
    "np.asarray list": lambda x: np.asarray([x, x]),
    "np.array dtype": lambda x: np.array([x], dtype=float),
    "np.array object": lambda x: np.array([x], dtype=object),
    "np.float64": np.float64,
    "np.float32": np.float32,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "plain[0]": lambda x: np.zeros(3).__setitem__(0, x),
    "plain[:]": lambda x: np.zeros(3).__setitem__(slice(None), x),
    "plain[mask]": lambda x: np.zeros(3).__setitem__(np.array([True, False, True]), x),
    "plain.fill": lambda x: np.zeros(3).fill(x),
    "pickle": pickle.dumps,
    "format of a list": lambda x: f"{math.sqrt(x):.2f}",
}


@pytest.mark.parametrize("what", SCALAR_CONVERSIONS)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "derivative", "jacrev"])
def test_conversion_of_a_scalar(what, transform):
    convert = SCALAR_CONVERSIONS[what]
    with complaint(TypeError):
        TRANSFORMS[transform](lambda x: (convert(x), x)[1])


ARRAY_CONVERSIONS = {
    "np.array": np.array,
    "np.asarray": np.asarray,
    "np.ascontiguousarray": np.ascontiguousarray,
    "np.array list": lambda x: np.array([x, x]),
    "plain[:]": lambda x: np.zeros(3).__setitem__(slice(None), x),
    "plain[2d]": lambda x: np.zeros((2, 3)).__setitem__(0, x),
    "ints[:]": lambda x: np.zeros(3, int).__setitem__(slice(None), x),
    "float of element": lambda x: float(x[0]),
    "tolist": lambda x: x.tolist(),
    "out=": lambda x: np.add(x, 1.0, out=np.zeros(3)),
    "sum out=": lambda x: np.sum(x, out=np.zeros(())),
    "iadd": lambda x: np.zeros(3).__iadd__(x),
    "ufunc.at": lambda x: np.add.at(np.zeros(3), [0, 1, 2], x),
    "copyto": lambda x: np.copyto(np.zeros(3), x),
    "put": lambda x: np.put(np.zeros(3), [0, 1, 2], x),
}


@pytest.mark.parametrize("what", ARRAY_CONVERSIONS)
def test_conversion_of_an_array(what):
    convert = ARRAY_CONVERSIONS[what]
    for run in (
        lambda f: ad.grad(f)(X),
        lambda f: ad.jvp(f, (X,), (X,)),
        lambda f: ad.vmap(f)(np.ones((2, 3))),
        lambda f: ad.hessian(f)(X),
    ):
        with complaint((TypeError, ValueError)):
            run(lambda x: (convert(x), np.sum(x))[1])


def test_conversions_name_the_fix():
    with complaint(TypeError, "float()", "NumPy functions instead of math's", "ad.stop_gradient"):
        ad.grad(lambda x: math.sin(x))(1.0)
    with complaint(TypeError, "adjoint.numpy", "np.stack"):
        ad.grad(lambda x: np.array([x, x]).sum())(1.0)

    def writes(x):
        a = np.zeros(3)
        a[0] = x
        return a.sum()

    with complaint(TypeError, "a = adjoint.numpy.array(a)"):
        ad.grad(writes)(1.0)
    with complaint(TypeError, "a = adjoint.numpy.array(a)"):
        ad.grad(lambda x: writes(x[0]))(X)

    with complaint(ValueError, "out=", "adjoint.numpy"):
        ad.grad(lambda x: np.sum(np.sin(x, out=np.zeros(3))))(X)

    def adds_to_plain(x):
        a = np.zeros(3)
        a += x
        return a.sum()

    with complaint(ValueError, "adjoint.numpy"):
        ad.grad(adds_to_plain)(X)


def test_constants_convert_freely():
    f = lambda x: x * math.sin(ad.stop_gradient(x)) + np.array([ad.stop_gradient(x)])[0] + float(ad.stop_gradient(x))
    np.testing.assert_allclose(ad.grad(f)(1.0), math.sin(1.0))
    np.testing.assert_allclose(ad.derivative(f)(1.0), math.sin(1.0))


@pytest.mark.parametrize("decimals", [0, 1, 2, 8, 12])
def test_compiled_rounding_of_python_floats_is_pythons(decimals):
    """By their decimal digits: 2.675 is a little less than it shows. A call next to a tie runs eagerly."""
    compiled = ad.jit(lambda x: round(x, decimals))
    random = np.random.default_rng(decimals)
    points = [float(x) for x in random.normal(size=100) * 10.0 ** random.integers(-3, 6, 100)]
    for x in [*points, 0.25, 2.5, 2.675, -1.005, 0.15, 1e22, 1e-12, float("inf")]:
        assert repr(float(compiled(x))) == repr(round(x, decimals))
    assert sum(map(len, compiled.specializations.values())) == 1


def test_compiled_rounding_beneath_a_derivative_is_no_constant_of_the_program():
    f = lambda x, y: x * round(x, 1) + x * round(y, 1)
    for transform in (ad.grad, ad.derivative):
        slope = ad.jit(transform(f))
        for x, y in ((1.23, 0.5), (4.56, 0.77), (7.89, -3.21)):
            assert slope(x, y) == transform(f)(x, y) == round(x, 1) + round(y, 1)
        assert sum(map(len, slope.specializations.values())) == 1


@pytest.mark.parametrize("spec", ["", ".3f", "g", "d", "e", "%", " ^12", ">30"])
@pytest.mark.parametrize("x", [2.5, np.float64(2.5), 3, np.int64(3), np.ones(2)], ids=repr)
def test_text_in_any_format(x, spec):
    """What can be written outside can be written inside, by any transform; numbers that are known are written alike."""

    def written(x):
        try:
            return format(x, spec)
        except (ValueError, TypeError) as error:
            return error.__class__

    found = []

    def f(x):
        found.append(written(x))
        return x * 2.0

    expected = written(x)
    batch = np.stack([x, x])
    ad.vmap(f)(batch)
    ad.graph(f)(x)
    if np.asarray(x).dtype.kind == "f":
        ad.vmap(ad.grad(lambda x: np.sum(f(x))))(batch)
        ad.grad(lambda x: np.sum(f(x)))(x)
        assert found[-1] == expected
    for text in found:
        assert expected == text or isinstance(text, str)
