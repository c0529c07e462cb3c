"""Containers as JSON and back; what is no container is refused."""

import collections
import dataclasses
import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.core.errors import UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.containers import ContainerError, describe, rebuild

keys = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.tuples(st.integers(0, 3), st.text(max_size=2)), st.none())
trees = st.recursive(
    st.one_of(st.just(0), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
    ),
    max_leaves=8,
)


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Layer:
    w: object
    b: object = None


@given(trees)
def test_there_and_back(tree):
    structure = flatten(tree)[1]
    text = json.loads(json.dumps(describe(structure)))
    assert flatten(rebuild(text, (), "x"))[1] == structure


def test_classes_come_back_if_they_are_passed():
    tree = {"p": Point(0, [0]), "o": collections.OrderedDict(a=0)}
    structure = flatten(tree)[1]
    made = rebuild(describe(structure), (Point,), "x")
    assert flatten(made)[1] == structure
    with pytest.raises(ContainerError, match="Point"):
        rebuild(describe(structure), (), "x")


@pytest.mark.parametrize(
    "text",
    [
        {"list": 3},
        {"list": [], "more": 1},
        {"dict": [["'a'"]]},
        {"dict": [["'a'", "*"], ["'a'", "*"]]},
        {"dict": [["f()", "*"]]},
        "x",
        5,
        {},
    ],
)
def test_what_is_no_container(text):
    with pytest.raises(ContainerError):
        rebuild(text, (), "x")


def test_depth_is_limited():
    deep = "*"
    for _ in range(100):
        deep = {"list": [deep]}
    with pytest.raises(ContainerError, match="inside one another"):
        rebuild(deep, (), "x")


def test_keys_that_cannot_be_written():
    class Key:
        __lt__ = lambda self, other: False

    with pytest.raises(UnsupportedError, match="use strings, numbers or tuples"):
        describe(flatten({Key(): 0})[1])
