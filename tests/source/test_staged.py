"""Loops and branches as ops: staged directly from functions that share variables, and refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from source.sites import inside, ops_of, site

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.bind import class_of
from adjoint.core.types import Type
from adjoint.source import staged
from adjoint.source.body import SourceBody
from adjoint.source.items import Range, Zip, items_of
from adjoint.source.rewrite import Site
from adjoint.source.staged import (
    LoopState,
    WritesError,
    in_body,
    innermost,
    is_staged,
    keep_python,
    require,
    restrict,
    stage_for,
    stage_while,
    truth,
)
from adjoint.source.state import ChangeError
from adjoint.source.variables import Cells, NotStagedError

# -- numbers that are not known ----------------------------------------------------------------------------------------


def test_known_numbers_are_not_staged():
    assert not any(map(is_staged, (1, 2.0, np.ones(3), "text", None)))
    assert innermost() is None
    assert not in_body(1.0)
    ad.grad(lambda x: [is_staged(x) and 1 / 0, x][1])(1.0)  # eager: x is 1.0


def test_one_number_is_staged():
    def check(x):
        assert is_staged(x)
        assert not is_staged(x * np.ones(1))  # an array has no truth
        assert is_staged(x > 0)
        assert innermost() is not None

    inside(check)
    inside(lambda x: ad.grad(lambda y: [is_staged(y) or 1 / 0, y][1])(x))  # of a derivative inside a program


def test_truth():
    program = ad.graph(lambda x, n: (truth(x), truth(n), truth(x > 0)))(1.0, 1)
    assert {t.dtype for t in program.output_types} == {np.dtype(bool)}
    for x, n in [(0.0, 0), (-0.5, 3), (np.nan, -1)]:
        assert list(program(x, n)) == [bool(x), bool(n), x > 0]


def test_conditions_restrict_compiled_programs_only():
    inside(lambda x: require(x > 0) and 1 / 0)  # a graph has no other program to turn to
    assert not require(True)
    value = ad.jit(lambda x: x * 2 if require(x > 0) else x * 3)
    assert value(1.0) == 2.0
    assert value(-1.0) == -3.0  # runs without the program, whose condition does not hold
    assert not value.eager


def test_conditions_in_a_body_are_its_own():
    def f(x):
        if not is_staged(x):  # the call that is compiled also runs as it is
            return x
        with SourceBody("scan") as body:
            n = body.input("n", Type((), np.dtype(float)))
            assert in_body(n)
            assert restrict(n > 0)
            assert require(n < 5)
            assert len(body.conditions) == 2
        assert not in_body(x)
        assert not restrict(x > 0)
        return x

    value = ad.jit(f)
    assert value(1.0) == 1.0
    assert not value.eager  # a failure above would have been reported there
    assert len(value.specializations) == 1


def test_python_numbers_are_kept():
    with SourceBody("scan") as body:
        y = body.input("y", Type((), np.dtype(float)))
        keep_python(y, None)
        assert body.python_class(y) is None
        keep_python(y, float)
        assert class_of(y) is float
    keep_python(1.0, float)  # nothing to note


# -- for ---------------------------------------------------------------------------------------------------------------


def run_for(iterable, total, step, **facts):
    """What a loop became, and its total."""

    def body(item):
        nonlocal total
        total = step(total, item)

    found = items_of(iterable)
    return stage_for(site("for", "total", **facts), Cells(body), found, body), total


def scan_of(graph):
    return next(e for e in graph.equations if e.op.name == "scan")


def test_a_known_count_is_a_scan():
    program = ad.graph(lambda x: run_for(Range(9), 0.0, lambda t, i: t + x * i)[1])(1.0)
    assert "scan" in ops_of(program)
    assert program(2.0) == 72.0


def test_a_counter_that_is_not_read_is_left_out():
    carries = []
    for step in (lambda t, i: t * 0.5, lambda t, i: t * 0.5 + i):
        program = ad.graph(lambda x, step=step: run_for(Range(9), x, step)[1])(1.0)
        carries.append(scan_of(program).params["carries"])
    assert carries == [1, 2]


def test_rows_of_different_lengths_are_cut():
    program = ad.graph(lambda x, y: run_for(Zip(x, y), 0.0, lambda t, p: t + p[0] * p[1])[1])(np.ones(4), np.ones(6))
    assert program(np.arange(4.0), np.arange(6.0)) == 14.0
    assert scan_of(program).params["length"] == 4


def test_a_traced_count_is_a_while_loop():
    def f(x, n):
        became, y = run_for(Range(n), x, lambda t, i: t + 0.5 * i)
        assert became == "became a while_loop that counts"
        return y

    program = ad.graph(f)(1.0, 3)
    assert [program(1.0, n) for n in (-2, 0, 1, 5)] == [1.0, 1.0, 1.0, 6.0]


@pytest.mark.parametrize(
    "first, step, dtype",
    [
        (0, lambda t, x: t + x, np.float64),
        (0, lambda t, x: x * 0 + np.float32(1), np.float64),
        (np.float32(0), lambda t, x: t + 0.5, np.float32),
        (0.5, lambda t, x: t + 1j * x, np.complex128),
        (True, lambda t, x: t + 1.0, np.float64),
    ],
)
def test_types_become_fixed(first, step, dtype):
    assert ad.graph(lambda x: run_for(Range(9), first, lambda t, i: step(t, x))[1])(1.0).output_types[0].dtype == dtype


def test_types_that_do_not_become_fixed(monkeypatch):
    step = lambda t, x: t + x
    inside(lambda x: run_for(Range(9), 0, lambda t, i: step(t, x)))
    monkeypatch.setattr(staged, "_MOST_ROUNDS", 1)  # the first staging finds the types, the second keeps them

    def check(x):
        with pytest.raises(NotStagedError, match="do not become fixed"):
            run_for(Range(9), 0, lambda t, i: step(t, x))

    inside(check)


@pytest.mark.parametrize(
    "first, step, error, message",
    [
        (0.0, lambda t, x: np.stack([t, t]), ChangeError, r"total changes from float64\[\] to float64\[2\]"),
        (0.0, lambda t, x: (t, x), ChangeError, "total changes from"),
        ((0.0,), lambda t, x: [x], ChangeError, "total changes from"),
        (0.0, lambda t, x: "text", ChangeError, "total becomes 'text', which is not a number"),
        ("up", lambda t, x: "down", NotStagedError, "total changes from 'up' to 'down', which are not numbers"),
        (None, lambda t, x: 1.0, (ChangeError, NotStagedError), "total"),
    ],
)
def test_states_that_are_refused(first, step, error, message):
    def check(x):
        with pytest.raises(error, match=message):
            run_for(Range(9), first, lambda t, i: step(t, x))

    inside(check)


def test_the_error_of_a_body_is_raised_and_its_variables_restored():
    def check(x):
        total = x

        def body(item):
            nonlocal total
            total = total * 2
            raise LookupError("no")

        with pytest.raises(LookupError, match="no"):
            stage_for(site("for", "total"), Cells(body), items_of(range(9)), body)
        assert total is x

    inside(check)


def test_an_array_that_only_a_call_writes_to_joins_the_state():
    def f(x):
        a = x * anp.ones(3)

        def body(item):
            a[0] = a[0] + 1.0

        stage_for(Site("for", "f.py:1"), Cells(body), items_of(range(9)), body)
        return a

    np.testing.assert_array_equal(ad.graph(f)(1.0)(2.0), [11, 2, 2])


def test_such_an_array_in_a_list_is_refused():
    def check(x):
        held = [x * anp.ones(3)]

        def body(item):
            held[0][0] = 5.0

        with pytest.raises(NotStagedError, match=r"it changes held\[0\]"):
            stage_for(Site("for", "f.py:1"), Cells(body), items_of(range(9)), body)

    inside(check)


def test_writes_are_named_in_order():
    error = WritesError({"b", "a"})
    assert str(error) == "it writes to a, b"
    assert error.names == {"a", "b"}


def test_a_variable_without_a_value_is_lost_without_iterations():
    def loop(iterable):
        def body(item):
            nonlocal last
            last = item * 2.0

        if False:
            last = 0.0
        stage_for(site("for", "last"), Cells(body), items_of(iterable), body)
        return last

    def check(n):
        with pytest.raises(NotStagedError, match="last has no value if there are no iterations; assign it before the loop"):
            loop(Range(n))
        return n

    assert ad.graph(lambda x: loop(Range(9)) + x)(1.0)(1.0) == 17.0
    ad.graph(check)(3)
    assert ad.jit(lambda n: loop(Range(n)))(4) == 6.0  # a program for calls with iterations


def test_a_variable_that_is_not_assigned_in_every_iteration():
    def check(x):
        def body(item):
            nonlocal last
            if False:
                last = 0.0

        if False:
            last = 0.0
        with pytest.raises(NotStagedError, match="last is not assigned in every iteration"):
            stage_for(site("for", "last"), Cells(body), items_of(range(9)), body)

    inside(check)


# -- while -------------------------------------------------------------------------------------------------------------


def run_while(x, test, step, **facts):
    def body():
        nonlocal x
        x = step(x)

    return stage_while(site("while", "x", **facts), Cells(body, lambda: x), lambda: test(x), body), x


def test_while():
    program = ad.graph(lambda x: run_while(x, lambda x: x < 10.0, lambda x: x * 2)[1])(1.0)
    assert "while" in ops_of(program)
    assert [program(x) for x in (1.0, 20.0, 5.0)] == [16.0, 20.0, 10.0]


@pytest.mark.parametrize("test", [lambda x: "text", lambda x: x * np.ones(3) > 0, lambda x: None])
def test_conditions_that_are_not_one_number(test):
    def check(x):
        with pytest.raises(NotStagedError, match="its condition is not one number"):
            run_while(x, test, lambda x: x * 2)

    inside(check)


def test_a_condition_that_may_raise():
    def check(x):
        assert run_while(1, lambda k: 1 / k > 0.1, lambda k: k + 1) == ("became a while_loop", 10)
        with pytest.raises(NotStagedError, match="its condition may raise"):
            run_while(1, lambda k: 1 / k > 0.1, lambda k: k - 1)

    inside(check)


def test_a_while_without_state():
    def check(x):
        with pytest.raises(NotStagedError, match="it has no state"):
            stage_while(Site("while", "f.py:1"), Cells(lambda: x), lambda: x > 0, lambda: None)

    inside(check)


def test_a_state_starts_from_its_values_in_their_widened_types():
    a, b = 1, np.ones(2, np.float32)
    state = LoopState(Cells(lambda: (a, b)), {"a", "b"})
    state.variables[0].leaves[0].type = Type((), np.dtype(float))
    state.variables[1].leaves[0].held = None  # a variable without a value: it is assigned before it is read
    first, second = state.initial()
    assert (first, first.dtype) == (1.0, float)
    np.testing.assert_array_equal(second, np.zeros(2, np.float32))
