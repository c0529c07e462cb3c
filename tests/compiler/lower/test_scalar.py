"""Elementwise ops as scalar code."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.kernel import Kernel
from adjoint.compiler.lower.scalar import WORDS, KernelWriter, has_code, lines_of, word_of, working_dtypes
from adjoint.core.op import OPS, Elementwise

FLOAT, SINGLE, WHOLE, BOOL = (np.dtype(kind) for kind in (np.float64, np.float32, np.int64, bool))
CODED = sorted(name for name, op in OPS.items() if has_code(op) and isinstance(op, Elementwise))


@pytest.mark.parametrize("name", CODED)
def test_every_line_is_a_word(name):
    op = OPS[name]
    for line in lines_of(op, op.arity, FLOAT):
        assert (
            line.kind != "op"
            or line.data in WORDS
            or line.data in ("select", "and", "or", "not", "xor", "cast")
            or line.data.startswith("power.")
        )


def test_words_are_those_of_ops():
    assert word_of(OPS["sin"]) == "sin"
    assert word_of(OPS["square"]) is None  # a product


@pytest.mark.parametrize(
    "name, operands, result, expected",
    [
        ("add", [FLOAT, FLOAT], FLOAT, [FLOAT, FLOAT]),
        ("add", [FLOAT, 2], FLOAT, [FLOAT, FLOAT]),  # a Python number takes the dtype of the other
        ("add", [SINGLE, 2.5], SINGLE, [SINGLE, SINGLE]),
        ("less", [WHOLE, WHOLE], BOOL, [WHOLE, WHOLE]),
        ("add", [np.dtype(np.float16), np.dtype(np.float16)], np.dtype(np.float16), None),
    ],
)
def test_dtypes_in_which_operands_enter(name, operands, result, expected):
    assert working_dtypes(OPS[name], operands, result) == expected


def test_a_writer_adds_lines():
    kernel = Kernel((3,))
    w = KernelWriter(kernel)
    x = w.const(2.0, FLOAT)
    assert w.is_plain(x)
    assert not w.is_plain(w.const(np.inf, FLOAT))
    assert w.dtype(w.test("less", x, w.like(3.0, x))) == BOOL
    assert w.cast(x, FLOAT) == x
    assert w.dtype(w.cast(x, SINGLE)) == SINGLE


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 7, 2.5, 100])
def test_powers(exponent):
    x = np.array([0.5, 1.0, 3.0, 0.0, np.inf])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ad.jit(lambda x: x**exponent)(x), x**exponent, rtol=1e-14)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("other", [np.inf, np.nan, 2.0])
def test_a_strong_zero_wins(zero, other):
    f = ad.jit(lambda a, b: OPS["strong_mul"](a, b))
    assert f(np.array(zero), np.array(other)) == 0.0
    assert f(np.array(3.0), np.array(2.0)) == 6.0
