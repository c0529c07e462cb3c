"""Cells of variables, and what a trial run of a body may have changed: it is found, and undone."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import deque

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.source import variables
from adjoint.source.variables import UNBOUND, Cells, NotStagedError, Surroundings, contents, put


def cells_of(**names) -> Cells:
    """The cells of variables with these values."""
    space: dict = {}
    head = ", ".join(names)
    exec(f"def make({head}):\n    return lambda: ({head},)\n", space)
    return Cells(space["make"](**names))


def changed(cells: Cells, change, *, state=(), assigned=()) -> tuple[set[str], set[str], str]:
    """What is found after a change: variables that were assigned, arrays written to, and another object or attribute."""
    surroundings = Surroundings(cells, state, assigned)
    with cells.restored():
        change()
        found = surroundings.assigned()
    arrays, attributes, other = surroundings.undo()
    return found, arrays, other or next(iter(attributes), "")


UNCHANGED = (set(), set(), "")


# -- cells -------------------------------------------------------------------------------------------------------------


def test_a_cell_without_a_value():
    def f():
        return x

    if False:
        x = 1
    (cell,) = f.__closure__
    assert contents(cell) is UNBOUND
    assert repr(UNBOUND) == "unbound"
    put(cell, UNBOUND)  # twice the same
    put(cell, 3)
    assert f() == 3
    put(cell, UNBOUND)
    with pytest.raises(NameError):
        f()


def test_cells_are_those_of_all_functions():
    a, b = 1, 2
    cells = Cells(lambda: a, lambda: (a, b))
    assert set(cells.by_name) == {"a", "b"}
    cells["b"] = 5
    assert b == 5
    assert cells["c"] is UNBOUND
    with pytest.raises(KeyError):
        cells["c"] = 1


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_variables_are_restored(error):
    a, b = 1, [2]
    cells = Cells(lambda: (a, b))
    try:
        with cells.restored():
            cells["a"] = UNBOUND
            cells["b"] = 7
            if error:
                raise error
    except ZeroDivisionError:
        pass
    assert (a, b) == (1, [2])


def test_arrays_with_one_name_are_not_shared():
    a, n, values = np.zeros(3), 1, [np.zeros(2)]
    assert Cells(lambda: (a, n, values)).shared == set()
    other = a
    assert Cells(lambda: (a, n, values)).shared == {"a"}
    del other
    assert Cells(lambda: (a, n, values)).shared == set()


def test_views_are_shared_with_their_base():
    base = np.zeros(4)
    part = base[1:]
    assert Cells(lambda: part).shared == {"part"}
    assert Cells(lambda: base).shared == {"base"}  # part.base refers to it


# -- surroundings ------------------------------------------------------------------------------------------------------


class Box:
    def __init__(self, x) -> None:
        self.x = x


CHANGES = {
    "list": (lambda: [1, 2], lambda x: x.append(3), "a"),
    "item of a list": (lambda: [1, 2], lambda x: x.__setitem__(0, 5), "a"),
    "order of a list": (lambda: [1.5, 2.5], lambda x: x.reverse(), "a"),
    "dict": (lambda: {"k": 1}, lambda x: x.update(k=2), "a"),
    "key of a dict": (lambda: {"k": 1}, lambda x: x.update(j=x.pop("k")), "a"),
    "set": (lambda: {1, 2}, lambda x: x.add(3), "a"),
    "deque": (lambda: deque([1, 2]), lambda x: x.appendleft(0), "a"),
    "attribute": (lambda: Box(1), lambda x: setattr(x, "x", 2), "a.x"),
    "new attribute": (lambda: Box(1), lambda x: setattr(x, "y", 2), "a"),
    "list in a tuple": (lambda: ([1],), lambda x: x[0].append(2), "a[0]"),
    "list of an attribute": (lambda: Box([1]), lambda x: x.x.clear(), "a.x"),
    "list in a dict in a list": (lambda: [{"k": [1]}], lambda x: x[0]["k"].append(2), "a[0]['k']"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named_and_undone(name):
    make, change, expected = CHANGES[name]
    x = make()
    cells = cells_of(a=x, b=3)
    assert changed(cells, lambda: change(x)) == (set(), set(), expected)
    plain = lambda y: vars(y) if isinstance(y, Box) else y
    assert plain(x) == plain(make())
    assert changed(cells, lambda: None) == UNCHANGED


def test_an_equal_object_is_another():
    """1 == 1.0 == True, but they are not the same in a program."""
    x = [1, 2]
    assert changed(cells_of(a=x), lambda: x.__setitem__(0, True)) == (set(), set(), "a")
    assert x[0] is not True


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize(
    "make", [np.zeros, lambda n: np.zeros((2, n)).T, lambda n: np.zeros(2 * n)[::2], lambda n: np.zeros(n, int)]
)
def test_a_plain_array_that_is_written_to(make, size):
    x = make(size)
    assert changed(cells_of(a=x), lambda: x.__setitem__(-1, 1)) == (set(), set(), "a")
    assert not x.any()


def test_a_read_only_view_of_an_array_that_is_written_to():
    x = np.zeros(3)
    part = x[1:]
    part.flags.writeable = False
    assert changed(cells_of(a=part, b=x), lambda: x.__setitem__(1, 1.0)) == (set(), set(), "a")
    assert not x.any()


def test_a_traced_array_that_is_written_to_is_restored():
    def f(t):
        x = t + anp.zeros(3)
        assert changed(cells_of(a=x), lambda: x.__setitem__(0, 5.0)) == (set(), {"a"}, "")
        assert changed(cells_of(a=[x]), lambda: x.__setitem__(0, 5.0)) == (set(), {"a[0]"}, "")
        return x

    np.testing.assert_array_equal(ad.graph(f)(0.0)(2.0), [2, 2, 2])


def test_a_view_of_a_traced_array_that_is_written_to():
    """The base is named, not the view, which sees the base restored."""

    def f(t):
        x = t + anp.zeros(3)
        part = x[1:]
        assert changed(cells_of(a=x, b=part), lambda: part.__setitem__(0, 5.0)) == (set(), {"a"}, "")
        return part, x

    for found in ad.graph(f)(0.0)(2.0):
        np.testing.assert_array_equal(found, np.full(found.shape, 2))


def test_variables_that_a_call_assigns():
    a, b = 1, 2

    def bump():
        nonlocal a
        a += 1

    cells = Cells(lambda: (a, b, bump))
    assert changed(cells, bump) == ({"a"}, set(), "")
    assert a == 1
    assert changed(cells, bump, assigned={"a"}) == UNCHANGED  # the body assigns it itself
    assert changed(cells, bump, state={"a"}) == UNCHANGED


def test_variables_of_functions_that_can_be_called():
    hidden = 0

    def bump():
        nonlocal hidden
        hidden += 1

    cells = cells_of(a=bump)
    assert changed(cells, bump) == ({"hidden of bump"}, set(), "")
    assert hidden == 0


def test_the_state_is_not_watched():
    x = [1]
    assert changed(cells_of(a=x), lambda: x.append(2), state={"a"}) == UNCHANGED
    assert x == [1, 2]


def test_a_structure_that_contains_itself():
    x: list = [1]
    x.append(x)
    assert changed(cells_of(a=x), lambda: x.append(3)) == (set(), set(), "a")
    assert len(x) == 2


def test_too_many_objects(monkeypatch):
    monkeypatch.setattr(variables, "_MOST_OBJECTS", 10)
    boxes = lambda n: [[] for _ in range(n)]
    Surroundings(cells_of(a=boxes(10)), (), ())
    with pytest.raises(NotStagedError, match="more than 10 objects"):
        Surroundings(cells_of(a=boxes(11)), (), ())


def test_numbers_and_names_are_not_counted(monkeypatch):
    monkeypatch.setattr(variables, "_MOST_OBJECTS", 1)
    Surroundings(cells_of(a=list(range(1000, 1100)), b="text", c=np, d=float, e=np.float64(1), f=itertools), (), ())


def test_functions_of_libraries_are_not_entered():
    surroundings = Surroundings(cells_of(a=re.compile("a"), f=statistics.mean), (), ())
    assert not surroundings.objects
    assert [name for name, _, _ in surroundings.cells] == ["a", "f"]
