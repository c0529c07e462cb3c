"""The state of loops: what a leaf is, how its type widens, and which writes to arrays can be followed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.tree import LEAF, flatten
from adjoint.core.types import Type, dtype_of, is_weak, shape_of
from adjoint.source.body import SourceBody
from adjoint.source.state import (
    ChangeError,
    Ending,
    State,
    StateLeaf,
    Variable,
    as_type,
    common_class,
    is_number,
    python_class,
    type_of,
    widen,
    with_article,
)
from adjoint.source.variables import UNBOUND, Cells, NotStagedError


def cells_of(**names: Any) -> Cells:
    """Cells that alone refer to these values, where they are not unbound."""
    space: dict[str, Any] = {}
    head = ", ".join(names)
    exec(f"def make({head}):\n    return lambda: ({head},)\n", space)
    cells = Cells(space["make"](**names))
    for name, x in names.items():
        cells[name] = x
    return cells


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [1, 1.0, 1j, True, np.float32(1), np.bool_(True), np.zeros(2), np.zeros((), int)])
def test_numbers(x):
    assert is_number(x)


@pytest.mark.parametrize(
    "x", ["a", None, [1.0], np.array(["a"]), np.array([None]), np.str_("a"), np.datetime64("2020"), np.ma.ones(2)]
)
def test_what_is_no_number(x):
    assert not is_number(x)


def test_weak_numbers():
    assert [is_weak(x) for x in (1, 1.0, 1j, True, np.float64(1), np.ones(1))] == [True, True, True, False, False, False]
    assert [python_class(x) for x in (1, 1.0, 1j, True, np.float64(1))] == [int, float, complex, None, None]


@pytest.mark.parametrize(
    "values, expected",
    [([1, 2], int), ([1, 2.0], float), ([2.0, 1j, 1], complex), ([1, np.float64(1)], None), ([True, 1], None), ([1], int)],
)
def test_the_class_of_one_of_several(values, expected):
    assert common_class(values) is expected


def test_types():
    assert type_of(1) == type_of(np.int64(1)) == Type((), np.dtype(np.int64))
    assert type_of(True) == Type((), np.dtype(bool))
    assert type_of(np.ones(3, np.float32)) == Type((3,), np.dtype(np.float32))


@pytest.mark.parametrize("x", [1, np.float32(2), np.ones(3, int)])
def test_values_in_the_dtype_of_the_state(x):
    y = as_type(x, Type(np.shape(x), np.dtype(float)))
    assert y.dtype == float
    assert isinstance(y, np.ndarray) == isinstance(x, np.ndarray)
    np.testing.assert_array_equal(y, x)


def test_a_traced_value_is_cast_only_if_it_has_another_dtype():
    def f(x):
        assert as_type(x, Type((), np.dtype(float))) is x
        return as_type(x, Type((), np.dtype(np.float32)))

    assert ad.graph(f)(np.float64(1)).output_types[0].dtype == np.float32


def test_articles():
    assert [with_article(word) for word in ("ndarray", "Item", "object", "str")] == ["a ndarray", "an Item", "an object", "a str"]


# -- widening ----------------------------------------------------------------------------------------------------------


def leaf_of(x: Any) -> StateLeaf:
    return StateLeaf("v", x, type_of(x), python_class(x))


@pytest.mark.parametrize(
    "first, y, dtype, python",
    [
        (0, 1, np.int64, int),
        (0, 0.5, np.float64, float),
        (0.5, 0, np.float64, float),  # it stays what it was
        (0.5, 1j, np.complex128, complex),
        (0, np.float32(1), np.float32, None),  # Python's 0 beside a float32
        (0.0, np.float32(1), np.float32, None),
        (0.5, np.int64(1), np.float64, None),
        (np.float32(0), 0.5, np.float32, None),
        (np.float32(0), np.float64(1), np.float64, None),
        (np.int32(0), np.float32(1), np.float64, None),
        (True, 1, np.int64, None),
        (np.zeros(2, np.float32), np.zeros(2), np.float64, None),
    ],
)
def test_types_are_widened_as_numpy_promotes(first, y, dtype, python):
    leaf = leaf_of(first)
    before = leaf.type, leaf.python
    assert widen(leaf, y) == ((leaf.type, leaf.python) != before)
    assert (leaf.type.dtype, leaf.python) == (dtype, python)
    assert not widen(leaf, y)  # the second time nothing changes


@pytest.mark.parametrize("first, y", [(0.0, np.ones(3)), (np.ones(3), np.ones(4)), (np.ones(1), 1.0)])
def test_a_shape_that_changes(first, y):
    with pytest.raises(ChangeError, match="v changes from"):
        widen(leaf_of(first), y)


# -- variables ---------------------------------------------------------------------------------------------------------


def test_the_leaves_of_a_variable():
    v = Variable("p", cells_of(p={"x": np.ones(2), "y": [1, "text"]}))
    assert [(leaf.label, leaf.fixed, leaf.python) for leaf in v.leaves] == [
        ("p['x']", False, None),
        ("p['y'][0]", False, int),
        ("p['y'][1]", True, None),
    ]


def ending_of(x: Any) -> Ending:
    leaves, structure = flatten(x)
    return Ending(structure, leaves, False, [False] * len(leaves))


def test_a_variable_without_a_value_takes_that_of_the_first_iteration():
    v = Variable("p", cells_of(p=UNBOUND))
    assert not v.leaves
    assert v.structure is None
    v.join(ending_of((1.0, np.ones(2, np.float32))))
    assert [(leaf.label, leaf.held, leaf.type.dtype) for leaf in v.leaves] == [("p[0]", None, float), ("p[1]", None, np.float32)]


def test_what_such_a_variable_cannot_be():
    with pytest.raises(NotStagedError, match=r"p\[1\] is a str, which a loop cannot carry"):
        Variable("p", cells_of(p=UNBOUND)).join(ending_of((1.0, "a")))


# -- a body, entered and left ------------------------------------------------------------------------------------------


def left(change: Any, names: tuple[str, ...] = ("a",), aliased: tuple[str, ...] = (), **values: Any) -> tuple[State, dict]:
    """A state and its endings, after a body that calls `change` with the cells; `aliased` variables have a second name."""
    cells = cells_of(**values)
    cells.shared = set(aliased)
    state = State(cells, set(names))
    with cells.restored(), SourceBody("scan") as body:
        state.enter(body)
        change(cells)
        return state, state.leave()


def test_variables_are_inputs_while_the_body_runs():
    def change(cells):
        assert shape_of(cells["a"]) == (2,)
        assert dtype_of(cells["a"]) == np.float32
        assert python_class(cells["b"][0]) is int
        assert cells["b"][1] == "text"
        assert cells["c"] is UNBOUND

    values = {"a": np.ones(2, np.float32), "b": [3, "text"], "c": UNBOUND}
    state, endings = left(change, ("a", "b", "c"), **values)
    assert set(endings) == {"a", "b"}
    assert state.names == {"a", "b", "c"}
    assert [leaf.label for leaf in state.leaves] == ["a", "b[0]"]
    assert state.cells["b"] is values["b"]
    assert endings["a"].is_same
    assert endings["b"].is_same


def test_an_assigned_variable():
    _, endings = left(lambda cells: cells.__setitem__("a", (cells["a"], 2.0)), a=1.0)
    assert not endings["a"].is_same
    assert len(endings["a"].leaves) == 2


def test_an_array_that_is_written_to():
    _, endings = left(lambda cells: cells["a"].__setitem__(0, 5.0), a=np.zeros(3))
    assert endings["a"].written == [True]
    assert endings["a"].is_same


def test_an_array_that_is_written_to_and_then_assigned():
    def change(cells):
        cells["a"][0] = 5.0
        cells["a"] = cells["a"] * 2

    _, endings = left(change, a=np.zeros(3))
    assert endings["a"].written == [False]  # no other name sees what was written
    with pytest.raises(NotStagedError, match="a is written to and then assigned"):
        left(change, aliased=("a",), a=np.zeros(3))


def test_a_plain_array_with_another_name():
    write = lambda cells: cells["a"].__setitem__(0, 5.0)
    with pytest.raises(NotStagedError, match="the array has another name"):
        left(write, aliased=("a",), a=np.zeros(3))


def test_views_and_second_names_of_traced_arrays():
    write = lambda cells: cells["a"].__setitem__(0, 5.0)

    def f(t):
        x = t + anp.zeros(4)
        part = x[1:]
        with pytest.raises(NotStagedError, match="is a view of another array"):
            left(write, a=part)
        for other in (x, part):
            with pytest.raises(NotStagedError, match="a is written to, and b is the same array or a part of it"):
                left(write, a=x, b=other)
        _, endings = left(write, a=x, b=1.0)
        assert endings["a"].written == [True]
        return t

    ad.graph(f)(1.0)


# -- results -----------------------------------------------------------------------------------------------------------


def placed(first: Any, leaves: list[Any], is_same: bool = True) -> Any:
    state = State(cells_of(a=first), {"a"})
    structure = state.variables[0].structure
    state.place("a", structure, leaves, Ending(structure, leaves, is_same, [False] * len(leaves)))
    return state.cells["a"]


def test_a_container_that_was_changed_stays_the_same_object():
    first, mapping = [1.0, 2.0], {"x": 1.0}
    assert placed(first, [3.0, 4.0]) is first
    assert first == [3.0, 4.0]
    assert placed(mapping, [5.0]) is mapping
    assert mapping == {"x": 5.0}


def test_a_container_that_was_assigned_is_another():
    first = [1.0]
    assert placed(first, [3.0], is_same=False) == [3.0]
    assert first == [1.0]
    assert placed((1.0,), [3.0]) == (3.0,)


def test_a_container_in_a_container_is_refused():
    with pytest.raises(NotStagedError, match="a is a container in a container"):
        placed([[1.0]], [3.0])


def test_a_traced_array_that_was_written_to_stays_the_same_object():
    def f(t):
        x = t + anp.zeros(2)
        state = State(cells_of(a=x), {"a"})
        state.place("a", LEAF, [t * anp.ones(2)], Ending(LEAF, [None], True, [True]))
        assert state.cells["a"] is x
        return x

    np.testing.assert_array_equal(ad.graph(f)(0.0)(3.0), [3, 3])
