"""Where operands break a pattern, and the roles that they have in a loop."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ir.text import parse
from adjoint.rewrite.loops.find import FlatGraph, Step
from adjoint.rewrite.loops.repeats import Stretch
from adjoint.rewrite.loops.roles import Carried, Constants, Invariant, Local, RefusedError, Row, Update
from adjoint.rewrite.simplify import common_subexpressions, dead_code


def flat(*equations, inputs=8):
    """The flat graph of equations that give one number each, from the inputs x0, x1, …"""
    arguments = ", ".join(f"x{i}: float64[]" for i in range(inputs))
    lines = [f"v{n}: float64[] = {equation}" for n, equation in enumerate(equations, inputs)]
    text = "\n".join([f"graph f({arguments}) {{", *lines, f"return v{inputs + len(equations) - 1}", "}"])
    found = FlatGraph(parse(text), ())
    found.reset()
    return found


BROKEN = ["add x0, x1", "add v8, x1", "add v9, x1", "add v10, x4", "add v11, x4", "add v12, x4"]


def test_a_stretch_is_cut_where_an_operand_breaks_the_pattern():
    graph, refusals = flat(*BROKEN), []
    whole = Stretch(0, 6, 1)
    steps, equations = graph._steps(whole)
    assert steps[::2].tolist() == [Step.ENTERS, *[Step.COMPUTED] * 4]
    assert steps[1::2].tolist() == [Step.INVARIANT, Step.INVARIANT, Step.STRIDE + 3, Step.INVARIANT, Step.INVARIANT]
    assert equations.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert graph.narrow(whole, refusals) == [Stretch(0, 3, 1), Stretch(2, 4, 1), Stretch(3, 6, 1)]
    assert refusals == [(whole, 3)]
    assert graph.difference(whole, 3) == "iteration 4 of 6 differs in what 'add' reads"


def test_unbroken_stretches_are_not_cut():
    graph, refusals = flat(*BROKEN[:3]), []
    assert graph.narrow(Stretch(0, 3, 1), refusals) == [Stretch(0, 3, 1)]
    assert not refusals


def test_roles():
    starts = ["x0", *(f"v{3 + 2 * t}" for t in range(7))]
    equations = [e for t, start in enumerate(starts) for e in (f"sin {start}", f"mul v{2 + 2 * t}, x1")]
    loop = flat(*equations, inputs=2).loop_in(Stretch(0, 16, 2), 6)
    assert (loop.iterations, loop.first_value, loop.stride) == (8, 2, 2)
    assert loop.roles == [[Carried(1, 1)], [Local(0), Invariant(1)]]
    assert loop.initial == {(1, 1): 0}
    assert loop.live_out == {1: 7}
    assert not loop.accumulators


def test_iterations_that_differ_are_refused():
    with pytest.raises(RefusedError, match="iteration 4 of 6 differs in what 'add' reads"):
        flat(*BROKEN).loop_in(Stretch(0, 6, 1), 6)


def first_loop(f, *args, period):
    """The loop of f whose iterations have so many equations."""
    graph = FlatGraph(dead_code(common_subexpressions(ad.graph(f)(*args))), ())
    graph.reset()
    for start in range(len(graph.keys)):
        keys = graph.keys[start:]
        count = next((i for i in range(len(keys) - period) if keys[i] != keys[i + period]), len(keys) - period) // period + 1
        if count >= 8:
            return graph.loop_in(Stretch(start, start + count * period, period), 6)
    raise AssertionError("nothing repeats")


def test_constants_and_indices_that_vary():
    def f(x, data):
        for i in range(12):
            x = np.sin(x * (i + 0.5)) + data[i]
        return x

    loop = first_loop(f, np.ones(3), np.ones((12, 3)), period=4)
    roles = [role for roles in loop.roles for role in roles]
    (constants,) = [role.values for role in roles if isinstance(role, Constants)]
    np.testing.assert_array_equal(constants, np.arange(12) + 0.5)
    (indices,) = loop.indices.values()  # of the one equation that reads data
    np.testing.assert_array_equal(indices, np.arange(12)[:, None])


def test_rows_that_are_read_before_the_loop():
    def f(x, data):
        rows = [data[i] for i in range(12)]
        for row in rows[::-1]:
            x = np.sin(x) + row
        return x

    loop = first_loop(f, np.ones(3), np.ones((12, 3)), period=2)
    assert loop.roles[1][1] == Row(0, tuple(range(11, -1, -1)))


def test_accumulators():
    def f(x):
        out = anp.zeros((12, 3))
        for i in range(12):
            x = np.sin(x) * 0.5
            out[i] = x
        return out

    loop = first_loop(f, np.ones(3), period=3)
    (found,) = loop.accumulators
    assert found.update is Update.PUT
    assert loop.accumulated() == found.equations
