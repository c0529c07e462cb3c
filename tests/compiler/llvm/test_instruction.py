"""Scalar operations as instructions: each dtype, the edges of each, as NumPy gives them."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm.instruction import Code, literal, start_of

FLOATS = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e308, 5e-324]
WHOLE = {np.int64: [0, 1, -1, 2**62, -(2**63)], np.int32: [0, 1, -7, 2**31 - 1, -(2**31)]}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "f", [np.negative, np.abs, np.isnan, np.signbit, np.floor, np.trunc, lambda x: x > 0, lambda x: np.maximum(x, 1)]
)
def test_floats(dtype, f):
    with np.errstate(all="ignore"):
        x = np.array(FLOATS, dtype)
        found, expected = ad.jit(f)(x), f(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize(
    "f", [np.negative, np.abs, lambda x: x + x, lambda x: x * x, lambda x: x == 0, lambda x: np.minimum(x, 3)]
)
def test_integers_wrap_around(dtype, f):
    x = np.array(WHOLE[dtype], dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ad.jit(f)(x), f(x))


@pytest.mark.parametrize("source", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("target", [np.float64, np.float32, np.int64, np.int32, np.bool_])
def test_casts(source, target):
    x = np.array([0, 1, 2.75, 100, 1e6]).astype(source)
    found = ad.jit(lambda x: x.astype(target))(x)
    np.testing.assert_array_equal(found, x.astype(target))
    assert found.dtype == target


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (1.0, float, "0x3FF0000000000000"),
        (-0.0, float, "0x8000000000000000"),
        (True, bool, "true"),
        (7, np.int64, "7"),
        (-7, np.int32, "-7"),
    ],
)
def test_literals(value, dtype, text):
    assert literal(value, np.dtype(dtype)) == text


@pytest.mark.parametrize("how, f", [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)])
def test_reductions_start_from_their_neutral_element(how, f):
    assert start_of(how, np.dtype(float))
    for x in (np.array([-3.0]), np.array([-np.inf, -5.0]), np.array([np.nan, 1.0])):
        np.testing.assert_array_equal(ad.jit(f)(x), f(x))


def test_intrinsics_are_declared_once():
    code = Code()
    for _ in range(2):
        code.intrinsic("sqrt", "double", "%x")
    assert sum("sqrt" in text for text in code.declared) == 1
