"""How the calls of a function are staged: what becomes an input, what a constant, and when a call is staged again."""

from collections import deque

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.arguments import DEFAULT, Arguments
from adjoint.compiler.jit import CompileWarning
from adjoint.compiler.stage_call import Stager
from adjoint.core.errors import UnsupportedError
from adjoint.staging.purity import difference

TABLE = np.array([2.0, 3.0, 5.0])


def staged(f, *args, stager=None, source=None):
    """The call f(*args), staged as jit does it, and what staged it."""
    stager = stager or Stager(Arguments(f, (), (), DEFAULT._replace(source=source)))
    leaves, signature = stager.arguments.open(args, {}, stager.by_order)
    return stager.stage(args, {}, leaves, signature), stager


def ops(found):
    return [e.op.name for e in found.graph.equations]


def test_arguments_are_inputs_and_the_graph_computes_the_result():
    found, _ = staged(lambda x, y: np.sin(x) * y, np.array([0.5, 1.0]), 3.0)
    assert found.graph.input_names == ("x", "y")
    (y,) = found.graph.run_flat([np.array([0.5, 1.0]), 3.0])
    np.testing.assert_allclose(y, np.sin([0.5, 1.0]) * 3.0)
    assert found.guards == []


def test_an_array_that_is_read_outside_is_an_input():
    found, _ = staged(lambda x: x * TABLE, np.ones(3))
    assert len(found.graph.input_types) == 2
    assert len(found.places) >= 1


def test_an_array_for_code_that_takes_plain_arrays_only_is_a_constant():
    found, _ = staged(lambda x: x * np.polynomial.Polynomial(TABLE)(1.0), np.ones(3))
    assert len(found.graph.input_types) == 1
    np.testing.assert_allclose(found.graph.run_flat([np.ones(3)])[0], np.sum(TABLE))


def test_an_array_that_is_read_at_a_traced_index_is_an_input():
    found, _ = staged(lambda i: TABLE[i], np.int64(1))
    assert "gather" in ops(found)
    for i in range(3):
        assert found.graph.run_flat([np.int64(i), TABLE])[0] == TABLE[i]


def test_a_number_outside_becomes_an_input_once_it_has_varied():
    factor = [2.0]

    def f(x):
        return x * factor[0]

    first, stager = staged(f, np.ones(2))
    assert len(first.graph.input_types) == 1
    stager.varying |= set(first.keys)
    second, _ = staged(f, np.ones(2), stager=stager)
    assert len(second.graph.input_types) == 2


def test_random_numbers_are_refused_and_can_be_drawn_again():
    rng = np.random.default_rng(3)
    expected = np.random.default_rng(3).normal()
    with pytest.raises(UnsupportedError, match="draws random numbers"):
        staged(lambda x: x * rng.normal(), np.ones(2))
    assert rng.normal() == expected


def test_a_program_that_depends_on_memory_order_is_remembered():
    def f(x):
        flat = x.reshape(-1)
        flat[0] = 7.0
        return x.sum() + flat.sum()

    _, stager = staged(lambda x: np.sum(x), np.ones((2, 3)))
    assert not stager.by_order
    _, stager = staged(f, np.ones((2, 3)))
    assert stager.by_order


@pytest.mark.parametrize("source, one", [(True, True), (False, False), (None, False)])
def test_whose_branches_are_staged(source, one):
    """With source=True a branch is part of the graph; otherwise each side is a program of its own, with a guard."""

    def f(x):
        if x > 0.0:
            y = x * 2.0
        else:
            y = x - 1.0
        return y

    up, stager = staged(f, 1.5, source=source)
    down, _ = staged(f, -1.5, stager=stager)
    assert (difference(up.graph, down.graph) is None) is one
    assert bool(up.guards) is not one
    assert not stager.varies(down, [])  # code that was not adopted keeps its guards


def test_branches_of_adopted_code_are_staged_once_calls_have_gone_both_ways():
    @ad.adopt
    def f(x):
        if x > 0.0:
            y = x * 2.0
        else:
            y = x - 1.0
        return y

    up, stager = staged(f, 1.5)
    down, _ = staged(f, -1.5, stager=stager)
    assert up.guards
    assert stager.varies(down, [up])
    assert not stager.varies(down, [up])  # nothing new
    both, _ = staged(f, -1.5, stager=stager)
    assert not both.guards
    assert [both.graph.run_flat([x])[0] for x in (1.5, -1.5)] == [3.0, -2.5]


class Positive:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value > 0


class Place:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


# What Python's own code takes plain numbers for.
PLAIN_NUMBERS = {
    "if": (lambda k: 2.0 if Positive(k) else 3.0, (1, -1, 2)),
    "a loop": (lambda k: sum(1.0 for n in range(3) if Positive(k - n)), (1, 2, -1)),
    "and": (lambda k: (Positive(k) and 2.0) or 3.0, (1.0, -1.0, 2.5)),
    "an index": (lambda k: (2.0, 3.0, 5.0)[Place(k)], (0, 1, 2)),
    "a range": (lambda k: float(sum(range(Place(k)))), (3, 4, 5)),
    "a deque": (lambda k: float(sum(deque(range(9), maxlen=k))), (1, 3, 2)),
}


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
@pytest.mark.parametrize("source", [None, True])
@pytest.mark.parametrize("name", PLAIN_NUMBERS)
def test_numbers_outside_that_python_takes_plain_are_constants(name, source):
    function, values = PLAIN_NUMBERS[name]
    state = {"k": values[0]}
    f = lambda x: x * function(state["k"]) + np.sum(TABLE)
    for derived in (f, ad.grad(f)):
        compiled = ad.jit(derived, source=source)
        for k in (*values, *values):
            state["k"] = k
            assert compiled(1.5) == derived(1.5)
        assert compiled.specializations  # it did not fall back to the function itself


@pytest.mark.parametrize("source", [None, True])
@pytest.mark.parametrize("name", PLAIN_NUMBERS)
def test_arguments_that_python_takes_plain_run_eagerly(name, source):
    function, values = PLAIN_NUMBERS[name]
    compiled = ad.jit(lambda k: function(k) * 2.0, source=source)
    with pytest.warns(CompileWarning, match="runs eagerly: TypeError"):
        compiled(values[0])
    for k in values:
        assert compiled(k) == function(k) * 2.0
