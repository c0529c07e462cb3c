"""Basic blocks of a trace: symbols that always follow each other, in the order with the fewest iterations."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ir.edit import renumber
from adjoint.rewrite.loops.blocks import _apart, _chains, _iterations, _joined, _order, _pairs, regions
from adjoint.rewrite.loops.find import FlatGraph
from adjoint.rewrite.simplify import common_subexpressions


def blocks_of(word, work=1.0):
    """The blocks of a word, and the number of iterations."""
    names = sorted(set(word))
    numbers = np.array([names.index(letter) for letter in word])
    blocks, runs = _joined(*_chains(numbers, len(names)), np.full(len(names), work))
    order = _order(_pairs(runs, len(blocks)), range(len(blocks)))
    used = sorted({"".join(names[i] for i in blocks[b]) for b in runs.tolist()})
    return used, int(_iterations(runs, order)[-1]) + 1


@pytest.mark.parametrize(
    ("word", "blocks", "iterations"),
    [
        ("abc" * 10, ["abc"], 10),
        ("".join("ms" * i + "dp" for i in range(8)), ["dp", "ms"], 29),  # a triangle: 28 inner iterations, one empty
        ("amas" * 10, ["amas"], 10),  # a symbol that occurs twice
        ("tu" * 9 + ("tuk" + "tu" * 9) * 5, ["k", "tu"], 59),  # every tenth iteration does more
    ],
)
def test_symbols_that_always_follow_each_other_are_a_block(word, blocks, iterations):
    assert blocks_of(word) == (blocks, iterations)


def test_loops_one_after_another_are_apart():
    word = np.array([0, 1, 0, 1, 2, 3, 2, 2, 4])
    assert [part.tolist() for part in _apart(word, np.arange(9))] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert _apart(word, np.arange(0)) == []


def found(f, *args):
    return regions(FlatGraph(renumber(common_subexpressions(ad.graph(f)(*args))), ()), 8, 64)


def test_a_nest_is_one_region_and_what_it_computes_once_comes_first():
    def f(x, w):
        s = 0.0
        for i in range(len(x)):
            for j in range(i):
                s = s + x[i] * x[j] * np.exp(w)  # staged once: a common subexpression
            s = np.sin(s)
        return s * 2.0

    (region,) = found(f, np.ones(12), 0.5)
    assert region.iterations <= 66  # those of the inner loop
    assert len(region.hoisted) == 1
    assert sum(table.size for table in region.equations) == 3 * 66 + 11  # sin(0.0) is a constant


@pytest.mark.parametrize(("elements", "count"), [(3, 1), (100_000, 0)])
def test_blocks_that_take_much_longer_than_the_trace_are_refused(elements, count):
    functions = [[np.sin, np.cos, np.tanh, np.arctan, np.exp][k] for k in np.random.default_rng(1).integers(0, 5, 200)]

    def f(x):
        for function in functions:
            x = function(x) * 0.5
        return x

    assert len(found(f, np.ones(elements))) == count


def test_an_operation_that_may_fail_is_in_no_block():
    def f(x):
        for i in range(20):
            for _ in range(i % 5):
                x = np.linalg.inv(np.eye(2) + x * x)
        return x

    assert found(f, np.ones((2, 2))) == []
