"""Places that a program reads outside: each way to read one, each condition, and the first place that does not hold."""

import copy
import math
import pickle
from collections import UserDict, deque
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from adjoint.core.places import Attributes, Bound, Check, Equal, Labelled, Load, Place, described, same_number, values_at


def place(load, owner, key=None, check=Check.INPUT, expected=None, **more):
    return Place(load, owner, key, check, expected, "name", **more)


def cell_of(value):
    return (lambda: value).__closure__[0]


@pytest.mark.parametrize(
    "load, owner, key",
    [
        (Load.FIXED, 7, None),
        (Load.CELL, cell_of(7), None),
        (Load.ENTRY, {"a": 7}, "a"),
        (Load.ATTRIBUTE, SimpleNamespace(a=7), "a"),
        (Load.ITEM, [0, 7], 1),
        (Load.PART, (0, 7), 1),
    ],
)
def test_each_way_to_read(load, owner, key):
    assert values_at([place(load, owner, key)]) == ([7], None)


@pytest.mark.parametrize("load, owner, key", [(Load.ENTRY, {}, "a"), (Load.ATTRIBUTE, object(), "a"), (Load.ITEM, [], 0)])
def test_a_name_that_is_gone_does_not_hold(load, owner, key):
    gone = place(load, owner, key)
    assert values_at([place(Load.FIXED, 1), gone, place(Load.FIXED, 2)]) == ([1], gone)


def test_the_code_of_a_function():
    f = lambda: 7
    assert values_at([place(Load.CODE, f)]) == ([f.__code__], None)


def test_a_method_is_that_of_its_owner():
    method = place(Load.ATTRIBUTE, OWNER, "keys", Check.METHOD, UserDict.keys)
    assert method.holds(OWNER.keys, [])
    assert not method.holds(UserDict().keys, [])
    assert not method.holds(OWNER.values, [])
    assert not method.holds(UserDict.keys, [])


OBJECT, OWNER = object(), UserDict()


@pytest.mark.parametrize(
    "check, expected, holds, fails",
    [
        (Check.IS, OBJECT, OBJECT, object()),
        (Check.TYPE, int, 3, True),
        (Check.EQUAL, 2.0, 2.0, 2),
        (Check.EQUAL, math.nan, math.nan, 0.0),
        (Check.EQUAL, 0.0, 0.0, -0.0),
        (Check.EQUAL, "sin", "sin", "cos"),
        (Check.LENGTH, (list, 2), [1, 2], (1, 2)),
        (Check.LENGTH, (list, 2), [1, 2], [1]),
        (Check.TEST, np.isfinite, 1.0, np.inf),
        (Check.LACKS, "real", OBJECT, 1.0),
        (Check.TEST, Bound(OWNER.keys), OWNER.keys, UserDict().keys),
        (Check.TEST, Attributes(SimpleNamespace(a=1)), SimpleNamespace(a=2), SimpleNamespace(a=1, b=2)),
        (Check.NO_ENTRY, "a", {"b": 1}, {"a": 1}),
        (Check.NO_ATTRIBUTE, "real", OBJECT, 1.0),
    ],
)
def test_conditions(check, expected, holds, fails):
    assert place(Load.FIXED, None, check=check, expected=expected).holds(holds, [])
    assert not place(Load.FIXED, None, check=check, expected=expected).holds(fails, [])


def test_a_chain_reads_from_the_value_before():
    layers = [SimpleNamespace(w=1.0)]
    chain = [
        place(Load.ENTRY, {"layers": layers}, "layers", Check.LENGTH, (list, 1)),
        place(Load.ITEM, 0, 0, chained=True),
        place(Load.ATTRIBUTE, 1, "w", Check.EQUAL, 1.0, chained=True),
        place(Load.ENTRY, {"same": layers}, "same", Check.SAME, 0),
    ]
    assert values_at(chain) == ([layers, layers[0], 1.0, layers], None)
    layers[0].w = 2.0
    assert values_at(chain)[1] is chain[2]
    layers.append(None)
    assert values_at(chain)[1] is chain[0]


def test_numbers_are_the_same_by_their_bits():
    assert same_number(complex(0.0, math.nan), complex(0.0, math.nan))
    assert not same_number(complex(0.0, 1.0), complex(-0.0, 1.0))
    assert all(
        isinstance(line, str) for line in described([place(Load.FIXED, 1, None, check, int) for check in (Check.IS, Check.TYPE)])
    )


@pytest.mark.parametrize(
    ("value", "others"),
    [
        ([1.0, 2.5, "a"], ([1, 2.5, "a"], [1.0, 2.5], [1.0, 2.5, "b"], (1.0, 2.5, "a"), [1.0, 2.5, "a", None])),
        ([0.0, float("nan")], ([-0.0, float("nan")], [0.0, 1.0])),
        ((True, 2), ((1, 2), [True, 2])),
        ({"a": 1.0, "b": 2.0}, ({"b": 2.0, "a": 1.0}, {"a": 1.0, "c": 2.0}, {"a": 1.0})),
        (deque([1, 2]), (deque([2, 1]), [1, 2])),
        ({1, 2.5}, ({1.0, 2.5}, {1})),
        (SimpleNamespace(a=1, b=2), (SimpleNamespace(b=2, a=1), SimpleNamespace(a=1), SimpleNamespace(c=1, b=2))),
    ],
    ids=lambda x: type(x).__name__,
)
def test_containers_of_plain_numbers_are_compared_item_by_item(value, others):
    same = Equal(value)
    assert same(value)
    assert same(copy.copy(value))
    assert same(pickle.loads(pickle.dumps(value)))  # other objects of the same values
    assert not any(same(other) for other in others)


def test_a_container_that_is_changed_is_another_one():
    value = [float(i) for i in range(50)]
    same = Equal(value)
    value[7] = 7.0
    assert same(value)
    value[7] = 7
    assert not same(value)


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (pd.Series([0.0, np.nan]), [pd.Series([-0.0, np.nan]), pd.Series([0, 1]), pd.Series([0.0, np.nan], name="s")]),
        (pd.Series([1.0], index=[0.0]), [pd.Series([1.0], index=[-0.0]), pd.Series([1.0], index=[0])]),
        (pd.Series([1, "a"]), [pd.Series([True, "a"]), pd.Series([1.0, "a"]), pd.Series([1, "b"])]),
        (pd.DataFrame({"a": [0.0], "b": [1]}), [pd.DataFrame({"a": [-0.0], "b": [1]}), pd.DataFrame({"a": [0.0], "c": [1]})]),
        (pd.Index([0.0, 1.0]), [pd.Index([-0.0, 1.0]), pd.Index([0, 1])]),
        (pd.array([0.0, None]), [pd.array([-0.0, None]), pd.array([0, None]), pd.array([0.0, 1.0])]),
        (pd.Categorical(["a", "b"]), [pd.Categorical(["b", "a"]), pd.Categorical(["a"]), pd.Series(["a", "b"])]),
        (xr.DataArray([0.0], {"x": [1]}), [xr.DataArray([-0.0], {"x": [1]}), xr.DataArray([0.0], {"x": [2]})]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_objects_with_labels_are_compared_bit_by_bit(value, others):
    same = Labelled(value)
    assert same(value)
    assert same(value.copy())
    assert same(pickle.loads(pickle.dumps(value)))
    assert not any(same(other) for other in others)
