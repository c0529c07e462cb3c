"""Ops written in others for exporters: each expansion, run by adjoint, gives what the op gives."""

import numpy as np
import op_samples
import pytest
from export.in_process import exported

import adjoint as ad
from adjoint.core.op import OPS
from adjoint.core.types import Type
from adjoint.export.lowered_expansions import _BLOCK, EXPANSIONS, expansion
from adjoint.export.special_functions import EXPANSIONS as SPECIAL

OWN = sorted(op.name for op in EXPANSIONS if op not in SPECIAL)  # the others: test_special_functions.py
UNDRAWN = {"imag", "while_vjp"}  # of complex numbers only; below


def expanded(op, inputs, params):
    """The expansion of an op for these operands, or None, and what the op gives."""
    arrays = [np.asarray(x) for x in inputs]
    with np.errstate(all="ignore"):
        expected = op(*arrays, **params)
    expected = [np.asarray(y) for y in (expected if isinstance(expected, (tuple, list)) else [expected])]
    return expansion(op, list(map(Type.of, arrays)), params, list(map(Type.of, expected))), arrays, expected


def check(op, inputs, params, rtol=1e-11):
    found, arrays, expected = expanded(op, inputs, params)
    assert found is not None, op
    with np.errstate(all="ignore"):
        for a, b in zip(found.run_flat(arrays), expected, strict=True):
            assert np.asarray(a).dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", [name for name in OWN if name not in UNDRAWN])
def test_an_expansion(name):
    drawn = list(op_samples.samples(OPS[name], np.random.default_rng(0)))
    taken = [(inputs, params) for inputs, params in drawn if all(np.size(x) and not np.iscomplexobj(x) for x in inputs)]
    assert taken
    for inputs, params in taken:
        check(OPS[name], inputs, params)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_signs_of_quotients(name):
    a, b = np.array([7.5, -7.5, 6.0, -6.0, 0.0, -0.0, 5.0]), np.array([2.0, 2.0, -4.0, -4.0, 3.0, 3.0, -1.0])
    check(OPS[name], [a, b], {})


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 2)])
def test_integers_wrap_around(name, axis, shape):
    check(OPS[name], [np.random.default_rng(0).integers(-(2**62), 2**62, shape)], {"axis": axis})


@pytest.mark.parametrize("by", [0, 1, -1, 3, 4, -9])
def test_rolls(by):
    check(OPS["roll"], [np.arange(8.0).reshape(2, 4)], {"shifts": (by, 1), "axes": (1, 0)})


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 20.0])
def test_exponentials_of_matrices_are_squared_as_often_as_needed(scale):
    a = scale * np.array([[0.1, 1.0, 0.0], [-1.0, 0.2, 0.3], [0.0, 0.5, -0.1]])
    check(OPS["expm"], [a], {}, rtol=1e-9)


def test_the_backward_pass_of_a_loop_in_blocks():
    step = lambda s: s + 1.0 + 0.5 * np.sin(s)
    f = ad.grad(lambda x, end: ad.while_loop(lambda s: s < end, step, x))
    made, s = exported(f, 0.3, 1.0), 0.3
    for count in range(2 * _BLOCK + 5):
        if count in (0, 1, _BLOCK - 1, _BLOCK, _BLOCK + 1, 2 * _BLOCK + 4):
            end = s - 1e-9  # reached after `count` iterations
            np.testing.assert_allclose(made(0.3, end), [f(0.3, end)], rtol=1e-12)
        s = step(s)


def test_what_has_no_expansion():
    f64 = Type((), np.dtype(float))
    assert expansion(OPS["airy"], [f64], {}, [f64] * 4) is None
    assert expansion(OPS["sinc"], [f64], {}, [Type((), np.dtype(np.float32))]) is None  # of another type
