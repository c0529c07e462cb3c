"""Applying rules: constants folded, common subexpressions shared, rules counted, and what they may assume."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.rewrite.simplify import dead_code
from adjoint.rewrite.simplify.rewriter import Rewriter, RuleIndex
from adjoint.rewrite.simplify.rules import RULES

INDEX = RuleIndex(RULES)


def rewritten(f, *args, **options):
    rewriter = Rewriter(ad.graph(f)(*args), INDEX, **options)
    return dead_code(rewriter.run()), rewriter.counts


def ops(graph):
    return [e.op.name for e in graph.equations]


def test_constants_are_folded():
    graph, _ = rewritten(lambda x: x * np.sin(np.full(3, 2.0)), np.ones(3))
    assert ops(graph) == ["mul"]
    np.testing.assert_array_equal(graph.run_flat([np.ones(3)])[0], np.sin(np.full(3, 2.0)))


def test_an_error_of_a_constant_is_left_to_the_run():
    singular = lambda x: x + np.linalg.inv(ad.stop_gradient(x) * np.zeros((2, 2)))
    graph, _ = rewritten(singular, np.ones((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        graph.run_flat([np.ones((2, 2))])


def test_common_subexpressions_are_shared():
    graph, _ = rewritten(lambda x: np.sin(x) * np.cos(x) + np.sin(x) / np.cos(x), 0.5)
    assert sorted(ops(graph)).count("sin") == 1


@pytest.mark.parametrize(
    "f, kept",
    [
        (lambda x: x * 1.0, []),
        (lambda x: x + 0.0, ["add"]),  # -0.0 + 0.0 is 0.0
        (lambda x: np.negative(-x), []),
        (lambda x: x - x, ["sub"]),  # nan for infinities
        (lambda x: x**1, []),
    ],
)
def test_rules_keep_the_bits(f, kept):
    graph, counts = rewritten(f, 0.5)
    assert ops(graph) == kept
    assert bool(counts) == (not kept)
    with np.errstate(all="ignore"):
        for x in (0.0, -0.0, np.inf, np.nan, 1.5):
            found, expected = (np.asarray(y, float).tobytes() for y in (graph.run_flat([x])[0], f(x)))
            assert found == expected or np.isnan(x)


def test_assuming_finite_numbers_allows_more():
    graph, _ = rewritten(lambda x: (x - x) + x, 0.5, assume="finite")
    assert "sub" not in ops(graph)


@pytest.mark.parametrize("function", [lambda b: b * -1, lambda b: b * -1.0, lambda b: b / -1, lambda b: 0 - b])
def test_booleans_have_no_negative(function):
    b = np.array([True, False])
    found = ad.jit(function)(b)
    assert found.dtype == function(b).dtype
    np.testing.assert_array_equal(found, function(b))


@pytest.mark.parametrize("wide", ["int64", "uint64", "float64", "int32"])
@pytest.mark.parametrize("narrow", ["uint8", "int8", "uint32", "int32"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + (-y), lambda x, y: x - (-y), lambda x, y: (-y) * (-x), lambda x, y: (y + y) - y + x,
        lambda x, y: x + (y - 100), lambda x, y: np.abs(-y) + x, lambda x, y: x + np.square(-y), lambda x, y: (-y) / (-y),
    ],
)  # fmt: skip
def test_integers_that_wrap_around_before_they_are_widened(f, narrow, wide):
    x, y = np.array([3, 100, -2]).astype(wide), np.array([7, 100, 0]).astype(narrow)
    with np.errstate(all="ignore"):
        expected = f(x, y)
        for found in (rewritten(f, x, y)[0].run_flat([x, y])[0], ad.jit(f)(x, y)):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
