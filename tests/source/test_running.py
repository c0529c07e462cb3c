"""The runtime of rewritten code: loops and branches that are staged, run, or unrolled, and which functions are rewritten."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest

import adjoint as ad
from adjoint.source import notes
from adjoint.source.items import Range, items_of
from adjoint.source.rewrite import RUNTIME, Site
from adjoint.source.running import _MOST_PEELED, FEW, Runtime, _described, _extreme, _later, _tried, _why, transformed
from adjoint.source.staged import is_staged
from adjoint.source.variables import NotStagedError


def noted(f, *args):
    """The results of a graph of f for these arguments, and what was noted while it was staged."""
    with notes.noting() as found:
        program = ad.graph(f)(*args)
    return program(*args), [text for _, _, text in found]


def loop(iterable, total, step):
    """A loop of the runtime that calls step(total, item), as rewritten code does it."""
    site = Site("for", "f.py:1", *[frozenset({"total"})] * 3)

    def body(item):
        nonlocal total
        total = step(total, item)

    Runtime([site]).for_(0, iterable, body)
    return total


# -- loops -------------------------------------------------------------------------------------------------------------


def test_without_a_program_a_loop_runs():
    with notes.noting() as found:
        assert loop(Range(20), 0, operator.add) == 190
    assert [text for _, _, text in found] == ["runs in Python: it runs over a Range"]


@pytest.mark.parametrize("count", [0, 1, FEW - 1, FEW, FEW + 1])
def test_short_loops_are_unrolled(count):
    y, found = noted(lambda x: loop(Range(count), x, lambda t, i: t + x * i), 2.0)
    assert y == 2.0 + 2.0 * sum(range(count))
    unrolled = [f"is unrolled: it has {count} iterations, fewer than {FEW}"] if count else []
    assert found == ([f"became a scan of {count} iterations"] if count >= FEW else unrolled)


def test_a_traced_count_is_a_while_loop_however_short():
    y, found = noted(lambda n: loop(Range(n), 0.0, operator.add), 3)
    assert y == 3
    assert found == ["became a while_loop that counts"]


def test_what_cannot_be_counted_runs():
    y, found = noted(lambda x: loop({1.0: 0, 2.0: 0}, x, operator.mul), 3.0)
    assert y == 6.0
    assert found == ["runs in Python: it runs over a dict"]


@pytest.mark.parametrize("changes", range(_MOST_PEELED + 2))
def test_iterations_run_until_shapes_no_longer_change(changes):
    """The total has another shape after each of the first `changes` iterations."""
    step = lambda t, i: np.stack([t, t]) if np.ndim(t) < changes else t * 0.5
    y, found = noted(lambda x: loop(Range(FEW + 4), x, step), 1.0)
    assert np.shape(y) == (2,) * changes
    np.testing.assert_array_equal(y, 0.5 ** (FEW + 4 - changes))
    if changes > _MOST_PEELED:
        assert len(found) == 1
        assert found[0].startswith("runs in Python: total changes from")
    else:
        assert found == [f"became a scan of {FEW + 4 - changes} iterations" + (f", after {changes} that run" if changes else "")]


def test_a_refused_loop_runs_from_its_first_item():
    seen = []

    def step(t, i):
        seen.append(i)
        return t + i

    y, found = noted(lambda x: loop(Range(10), x, step), 1.0)
    assert y == 46.0
    assert found == ["runs in Python: it changes seen of step"]
    assert seen == list(range(10))  # the trial is undone


def test_errors_are_raised_by_the_loop_that_runs():
    def step(t, i):
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        noted(lambda x: loop(Range(10), x, step), 1.0)


def test_a_flag_ends_a_loop_that_runs():
    def run(xs):
        total, stop = 0, False

        def body(item):
            nonlocal total, stop
            total += item
            stop = total > 5

        Runtime([Site("for", "f.py:1", stop="stop")]).for_(0, xs, body)
        return total

    assert run([1, 2, 3, 4, 5]) == 6
    assert run([1, 1]) == 2


def test_while_runs_without_a_program():
    k = 0

    def body():
        nonlocal k
        k += 1

    with notes.noting() as found:
        Runtime([Site("while", "f.py:1")]).while_(0, lambda: k < 5, body)
    assert k == 5
    assert [text for _, _, text in found] == ["runs in Python: nothing is staged"]


def test_a_loop_that_was_left():
    with notes.noting() as found:
        Runtime([Site("while", "f.py:7", why_not="it contains try")]).left(0)
    assert notes.lines(found) == ["f.py:7: while runs in Python: it contains try"]


def test_the_items_from_the_second_on():
    for iterable in (Range(3, 30, 4), np.arange(5.0)):
        found = _later(items_of(iterable))
        rest = [found.item(k, [row[k] for row in found.rows]) for k in range(found.count)]
        assert rest == list(iterable)[1:]


# -- branches ----------------------------------------------------------------------------------------------------------


def choose(test, true, false, line="f.py:3"):
    return Runtime([Site("if", line)]).choose(0, test, true, false)


def test_a_known_condition_runs_one_branch():
    assert choose(1, lambda: "a", lambda: 1 / 0) == "a"
    assert choose([], lambda: 1 / 0, lambda: "b") == "b"


def test_a_staged_condition_is_a_cond():
    def f(x):
        return choose(x > 0, lambda: x * 2, lambda: -x)

    with notes.noting() as found:
        program = ad.graph(f)(1.0)
    assert [text for _, _, text in found] == ["became a cond"]
    assert [program(x) for x in (3.0, -3.0)] == [6.0, 3.0]


def test_a_branch_that_cannot_be_staged_in_a_body_says_where_it_is():
    def step(total, i):
        choose(total > 0, lambda: "text", lambda: total)
        return total

    def f(x):
        try:
            loop(Range(10), x, step)
        except ad.AdjointError:  # a graph has no number to run it with
            return x
        raise AssertionError

    _, found = noted(f, 1.0)
    assert "runs in Python: the if at f.py:3 cannot be a cond: " in "\n".join(found)


@pytest.mark.parametrize("x, y", [(0.0, 0.0), (0.0, 2.0), (3.0, 0.0), (3.0, 2.0)])
@pytest.mark.parametrize("staged", [(True, True), (True, False), (False, True), (False, False)])
def test_and_or_and_not(x, y, staged):
    runtime = Runtime([Site("and", "f.py:1")])

    def f(a, b):
        p, q = a if staged[0] else x, b if staged[1] else y
        return runtime.and_(0, lambda: p, lambda: q), runtime.or_(0, lambda: p, lambda: q), runtime.not_(0, p)

    found = ad.graph(f)(9.0, 9.0)(x, y) if any(staged) else f(x, y)
    assert [float(v) for v in found] == [x and y, x or y, not x]


def test_the_second_operand_is_not_evaluated_without_need():
    runtime = Runtime([Site("and", "f.py:1")])
    assert runtime.and_(0, lambda: 0, lambda: 1 / 0) == 0
    assert runtime.or_(0, lambda: "a", lambda: 1 / 0) == "a"
    assert runtime.and_(0, lambda: 1, list, lambda: 1 / 0) == []


def test_conditions_of_errors_hold_in_the_program():
    def f(x):
        runtime = Runtime([])
        assert runtime.holds(x < 5)
        if runtime.fails(x < 0):
            raise ValueError("negative")
        return x * 2

    value = ad.jit(f)
    assert value(1.0) == 2.0
    with pytest.raises(ValueError, match="negative"):
        value(-1.0)
    with pytest.raises(AssertionError):
        value(7.0)
    assert not value.eager


def test_known_conditions_of_errors_are_given_back():
    runtime = Runtime([])
    assert runtime.holds(0) == 0
    assert runtime.fails("text") == "text"


# -- attempts ----------------------------------------------------------------------------------------------------------


def test_an_attempt_that_fails_leaves_no_notes():
    site = Site("for", "f.py:1")
    with notes.noting() as found:
        notes.note(site, "kept")
        with pytest.raises(TypeError), _tried():
            notes.note(site, notes.note(site, "lost")["no"])
    assert [text for _, _, text in found] == ["kept"]


def test_an_attempt_that_fails_leaves_no_guards():
    def f(x):
        try:
            with _tried():
                bool(x > 0)
                raise KeyError
        except KeyError:
            return x

    value = ad.jit(f)
    assert value(1.0) == 1.0
    assert value(-1.0) == -1.0
    ((program,),) = value.specializations.values()
    assert not program.guards


def test_why():
    assert _why(NotStagedError("it prints\nsecond line")) == "it prints"
    assert _why(TypeError("bad")) == "TypeError: bad"
    assert _why(TypeError()) == "TypeError: "


def test_descriptions():
    assert [_described(x) for x in ([], iter([]), {})] == ["a list", "a list_iterator", "a dict"]
    assert _described(type("Odd", (), {})()) == "an Odd"
    ad.graph(lambda x: [_described(x) == "a number" or 1 / 0, x][1])(1.0)


# -- max and min -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [max, min])
def test_extremes_of_numbers_are_staged(f):
    program = ad.graph(
        lambda x, y: (_extreme(f, is_staged, x, y, 2.0), _extreme(f, is_staged, [x, y]), _extreme(f, is_staged, (y, x)))
    )(0.0, 0.0)
    for x, y in [(1.0, 3.0), (3.0, 1.0), (-1.0, -1.0), (math.nan, 1.0), (1.0, math.nan)]:
        np.testing.assert_array_equal(program(x, y), [f(x, y, 2.0), f([x, y]), f((y, x))])


def test_other_extremes_are_left_to_python():
    assert _extreme(max, is_staged, "abc") == "c"
    assert _extreme(min, is_staged, [3, 1, 2], key=lambda x: -x) == 3
    assert _extreme(max, is_staged, [], default=7) == 7
    with pytest.raises(TypeError):
        _extreme(max, is_staged, 1)
    with pytest.raises(TypeError):
        _extreme(max, is_staged)


# -- functions ---------------------------------------------------------------------------------------------------------


def halved(x, n=10, *, by=0.5):
    """Text."""
    for _ in range(n):
        x = x * by
    return x


halved.mark = "kept"


class Model:
    def run(self, x):
        return x if x > 0 else -x

    def __call__(self, x):
        return self.run(x)


def is_rewritten(f) -> bool:
    return RUNTIME in f.__code__.co_freevars


def test_a_function_keeps_what_is_known_of_it():
    made = transformed(halved)
    assert is_rewritten(made)
    assert made is not halved
    assert made(1.0) == halved(1.0)
    assert made(1.0, 2, by=0.25) == halved(1.0, 2, by=0.25)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__dict__"):
        assert getattr(made, name) == getattr(halved, name), name
    assert transformed(made) is made


def test_methods_partials_and_callable_objects():
    model = Model()
    bound = transformed(model.run)
    assert bound.__self__ is model
    assert is_rewritten(bound.__func__)
    assert bound(-2.0) == 2.0
    part = transformed(functools.partial(halved, n=2))
    assert is_rewritten(part.func)
    assert part(4.0) == 1.0
    assert is_rewritten(transformed(model).__func__)
    assert transformed(model)(-3.0) == 3.0


@pytest.mark.parametrize("f", [np.sin, np.linalg.norm, math.sqrt, functools.reduce, Model, int, len, "text", None])
def test_other_things_are_left_as_they_are(f):
    assert transformed(f) is f


def test_a_method_of_a_library_is_the_same_object():
    method = np.random.default_rng(0).normal
    assert transformed(method) is method


def test_derivatives_hold_the_rewritten_function():
    made = transformed(ad.grad(halved))
    assert made(1.0) == 0.5**10
    _, found = noted(made, 1.0)
    assert found == ["became a scan of 10 iterations"]
    assert noted(ad.grad(halved), 1.0)[1] == []


def test_a_function_without_source_is_left_and_noted():
    space = {"__name__": "elsewhere"}
    exec("def f(x):\n    return x\n", space)
    with notes.noting() as found:
        assert transformed(space["f"]) is space["f"]
    ((_, kind, text),) = found
    assert kind == "def"
    assert text.startswith("f is left as it is: its source is not available")


def test_calls():
    runtime = Runtime([])
    assert is_rewritten(runtime.call(halved))
    assert runtime.call(max)(1, 2) == 2
    assert runtime.call(print) is print
    assert runtime.looped(range) is Range
    assert is_rewritten(runtime.looped(halved))


def test_a_body_does_not_print():
    step = lambda t, i: (Runtime([]).call(print)("iteration"), t)[1]
    _, found = noted(lambda x: loop(Range(10), x, step), 1.0)
    assert found == ["runs in Python: it prints"]
