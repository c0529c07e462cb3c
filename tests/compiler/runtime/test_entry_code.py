"""The entry point of compiled functions: references are balanced, errors and results come back as from Python."""

import contextlib
import gc
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.runtime.entry_code import entry_text

X = np.arange(4.0)


def test_the_text_is_the_same_each_time():
    assert entry_text() == entry_text()
    assert "@entry" in entry_text()


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x * 2,
        lambda x: (x, [x + 1, None], {"a": x}),
        lambda x: (),
        lambda x: np.sum(x),
        lambda x: np.float64(3.0),
        lambda x: [[x], (x,)],
    ],
)
def test_results_have_their_structure(result):
    compiled = ad.jit(result)
    for _ in range(3):
        found, expected = compiled(X), result(X)
        np.testing.assert_equal(found, expected)
        assert type(found) is type(expected)


@pytest.mark.parametrize("kind", ["hit", "miss", "error"])
def test_references_are_balanced(kind):
    compiled = ad.jit(lambda x, i: x[i] * 2)
    arguments = {"hit": (X, np.int64(1)), "miss": (X, "text"), "error": (X, np.int64(9))}[kind]
    compiled(X, np.int64(0))

    def call():
        with contextlib.suppress(IndexError, TypeError, ad.AdjointError):
            compiled(*arguments)

    for _ in range(5):
        call()
    gc.collect()
    before = sys.getrefcount(X)
    for _ in range(200):
        call()
    gc.collect()
    assert sys.getrefcount(X) - before < 5


def test_a_result_is_a_new_array_each_time():
    compiled = ad.jit(lambda x: x + 1.0)
    a, b = compiled(X), compiled(X)
    a[:] = -1.0
    np.testing.assert_array_equal(b, X + 1.0)
    np.testing.assert_array_equal(compiled(X), X + 1.0)
