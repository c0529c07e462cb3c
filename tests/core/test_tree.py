from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field

import pytest

import adjoint as ad
from adjoint.core.tree import LEAF, broadcast_prefix, flatten, flatten_like, map_leaves

Pair = namedtuple("Pair", "a b")


@dataclass(frozen=True)
class Params:
    w: object
    b: object = None
    derived: object = field(init=False, default=0.0)


TREES = [
    1.0,
    None,
    [],
    (),
    {},
    [1.0, [2.0, (3.0,)]],
    {"b": 1.0, "a": {"c": 2.0}},
    Pair(1.0, [2.0]),
    Params([1.0, 2.0], {"x": 3.0}),
    OrderedDict(z=1.0, a=2.0),
    {2: 1.0, "mixed keys": 2.0},
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_round_trip(tree):
    leaves, structure = flatten(tree)
    assert structure.unflatten(leaves) == tree
    assert type(structure.unflatten(leaves)) is type(tree)
    assert structure.count == len(leaves)
    assert len(list(structure.paths())) == len(leaves)
    assert flatten(tree)[1] == structure
    assert hash(flatten(tree)[1]) == hash(structure)


def test_a_default_factory_is_kept():
    tree = defaultdict(list, a=1.0)
    leaves, structure = flatten(tree)
    assert structure.unflatten(leaves).default_factory is list


def test_the_order_of_keys_does_not_matter():
    assert flatten({"a": 1, "b": 2}) == flatten({"b": 2, "a": 1})
    assert list(flatten({"b": 1, "a": 2})[1].unflatten([2, 1])) == ["b", "a"]


def test_paths_name_the_leaves():
    assert list(flatten({"w": [1.0, 2.0], "p": Pair(3.0, None)})[1].paths()) == ["['p'].a", "['w'][0]", "['w'][1]"]


def test_mismatch_is_an_error():
    structure = flatten([1.0, 2.0])[1]
    with pytest.raises(ad.AdjointError, match="the cotangent has the structure"):
        flatten_like(structure, (1.0, 2.0), "the cotangent")
    with pytest.raises(ad.AdjointError, match="holds 2 arrays, not 1"):
        structure.unflatten([1.0])


def test_map_leaves():
    assert map_leaves(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]}) == {"x": 11, "y": [22]}


def test_prefixes():
    structure = flatten(({"a": 1, "b": 2}, 3))[1]
    assert broadcast_prefix(0, structure, "in_axes") == [0, 0, 0]
    assert broadcast_prefix((None, 1), structure, "in_axes") == [None, None, 1]
    assert broadcast_prefix(({"a": 0, "b": None}, 1), structure, "in_axes") == [0, None, 1]
    with pytest.raises(ad.AdjointError, match="in_axes"):
        broadcast_prefix((0, 1, 2), structure, "in_axes")


def test_leaf_is_itself():
    assert flatten(2.5)[1] is LEAF
