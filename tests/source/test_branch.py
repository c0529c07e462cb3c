"""Branches as ops: staged directly from functions that share variables, and refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from source.sites import inside, ops_of, site

import adjoint as ad
import adjoint.numpy as anp
from adjoint.source.branch import stage_branch
from adjoint.source.rewrite import Site
from adjoint.source.staged import truth
from adjoint.source.variables import Cells, NotStagedError


def branch(test, y, true, false):
    """A branch that assigns y, and what it returns."""

    def yes():
        nonlocal y
        y = true(y)

    def no():
        nonlocal y
        y = false(y)

    stage_branch(site("if", "y"), Cells(yes, no), truth(test), yes, no)
    return y


@pytest.mark.parametrize(
    "true, false",
    [
        (lambda y: y + 1, lambda y: y * 2),
        (lambda y: y, lambda y: 0),
        (lambda y: (y, 1), lambda y: (2.5, y)),
        (lambda y: {"k": y}, lambda y: {"k": -y}),
    ],
)
def test_both_branches_are_staged(true, false):
    program = ad.graph(lambda x, y: branch(x > 0, y, true, false))(1.0, 1.0)
    assert "cond" in ops_of(program)
    for x in (1.0, -1.0):
        assert program(x, 3.0) == (true if x > 0 else false)(3.0)


@pytest.mark.parametrize(
    "values, dtype",
    [
        ((1, 2), np.int64),
        ((1, 2.5), np.float64),
        ((1, np.float32(2)), np.float32),
        ((np.float32(1), np.float64(2)), np.float64),
        ((1.0, 2j), np.complex128),
    ],
)
def test_the_dtype_of_a_branch(values, dtype):
    program = ad.graph(lambda x: branch(x > 0, None, lambda _: values[0], lambda _: values[1]))(1.0)
    assert program.output_types[0].dtype == dtype


@pytest.mark.parametrize(
    "true, false, message",
    [
        (lambda y: (y,), lambda y: y, "after one branch and"),
        (lambda y: "a", lambda y: "b", "y is 'a' after one branch and 'b' after the other"),
        (lambda y: y, lambda y: None, "after one branch and"),
        (lambda y: np.ones(2), lambda y: np.ones(3), r"y is float64\[2\] after one branch and float64\[3\] after the other"),
    ],
)
def test_branches_that_differ(true, false, message):
    def check(x):
        with pytest.raises(NotStagedError, match=message):
            branch(x > 0, x, true, false)

    inside(check)


def test_what_is_the_same_in_both_branches_needs_no_cond():
    program = ad.graph(lambda x: (branch(x > 0, x, lambda y: "text", lambda y: "te" + "xt") == "text" or 1 / 0) and x)(1.0)
    assert "cond" not in ops_of(program)


def test_a_value_after_one_branch_only():
    def check(x):
        def yes():
            nonlocal y
            y = 1.0

        if False:
            y = 0.0
        with pytest.raises(NotStagedError, match="y has a value after one of the branches only"):
            stage_branch(site("if", "y"), Cells(yes), x > 0, yes, lambda: None)

    inside(check)


def test_what_branches_return():
    none = Site("if", "f.py:1")
    program = ad.graph(lambda x: stage_branch(none, Cells(), x > 0, lambda: [x, 1.0], lambda: [-x, 2.0]))(1.0)
    assert program(-3.0) == [3.0, 2.0]

    def check(x):
        with pytest.raises(NotStagedError, match=r"it gives .* in one branch and .* in the other"):
            stage_branch(none, Cells(), x > 0, lambda: [x], lambda: x)

    inside(check)


def test_an_array_written_to_in_one_branch():
    def f(x):
        a = x * anp.ones(3)

        def yes():
            a[0] = 5.0

        stage_branch(Site("if", "f.py:1"), Cells(yes), x > 0, yes, lambda: None)
        return a

    program = ad.graph(f)(1.0)
    np.testing.assert_array_equal(program(2.0), [5, 2, 2])
    np.testing.assert_array_equal(program(-2.0), [-2, -2, -2])
