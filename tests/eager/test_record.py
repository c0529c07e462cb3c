"""The generated recorders: what `Tape.process` records, for every kind of operand."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.eager import record

OPERANDS = {
    "float": 0.7,
    "int": 2,
    "float64": np.float64(0.7),
    "float32": np.float32(0.7),
    "array": np.linspace(0.1, 0.9, 4),
    "matrix": np.linspace(0.1, 0.9, 8).reshape(2, 4),
    "strided": np.linspace(0.1, 0.9, 8)[::2],
    "integers": np.arange(1, 5),
}
BINARY = {"add": np.add, "mul": np.multiply, "div": np.divide, "power": np.power, "arctan2": np.arctan2}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", OPERANDS)
@pytest.mark.parametrize("right", OPERANDS)
def test_both_modes_agree_for_all_operands(name, left, right):
    """Reverse mode takes the recorder; forward mode does not."""
    f, a, b = BINARY[name], OPERANDS[left], OPERANDS[right]
    for place, x in ((0, a), (1, b)):
        if np.asarray(x).dtype.kind != "f":
            continue
        g = (lambda x: f(x, b)) if place == 0 else (lambda x: f(a, x))
        value, pull = ad.vjp(g, x)
        expected = f(a, b)
        np.testing.assert_array_equal(value, expected)
        assert np.asarray(value).dtype == np.asarray(expected).dtype
        seed = np.ones(np.shape(value), np.asarray(value).dtype)
        direction = np.ones(np.shape(x), np.asarray(x).dtype)
        pushed = ad.jvp(g, (x,), (direction,))[1]
        np.testing.assert_allclose(np.sum(pull(seed)[0]), np.sum(pushed), rtol=1e-5)


@pytest.mark.parametrize("f", [np.sin, np.exp, np.negative, np.sqrt, abs, lambda x: x**2, lambda x: -x])
@pytest.mark.parametrize("x", OPERANDS)
def test_functions_of_one_argument(f, x):
    x = OPERANDS[x]
    if np.asarray(x).dtype.kind != "f":
        return
    value, pull = ad.vjp(f, x)
    np.testing.assert_array_equal(value, f(x))
    (gradient,) = pull(np.ones(np.shape(value), np.asarray(value).dtype))
    pushed = ad.jvp(f, (x,), (np.ones(np.shape(x), np.asarray(x).dtype),))[1]
    np.testing.assert_allclose(gradient, pushed, rtol=1e-6)


def test_the_same_value_on_both_sides():
    assert ad.grad(lambda x: x * x)(3.0) == 6.0
    assert ad.grad(lambda x: x / x)(3.0) == 0.0
    assert ad.grad(lambda x: x**x)(2.0) == pytest.approx(4 * (1 + np.log(2.0)))


@pytest.mark.parametrize("calls", [record.FEW, record.FEW + 1])
def test_calls_without_a_tape_generate_a_recorder_only_if_they_are_many(calls):
    made = []
    run = record.eventually(lambda: made.append(1), lambda x: x)
    ad.jvp(lambda x: sum(run(x) for _ in range(calls)), (np.ones(2),), (np.ones(2),))
    assert len(made) == calls - record.FEW


@pytest.mark.parametrize("transform", [ad.grad, ad.jacfwd])
def test_a_tape_that_computes_generates_a_recorder_at_once(transform):
    made = []
    run = record.eventually(lambda: made.append(1), lambda x: x)
    assert transform(lambda x: run(x) * 2.0)(np.float64(1.5)) == 2.0
    assert len(made) == (transform is ad.grad)
