"""Graphs, functions of symbols, pullbacks and checkpointed functions can be pickled and copied, and compute the same."""

import collections
import copy
import dataclasses
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.tree import EMPTY, LEAF, flatten

X = np.array([0.3, -0.0, 1.5])
WAYS = [lambda t, p=p: pickle.loads(pickle.dumps(t, p)) for p in range(2, 6)] + [copy.copy, copy.deepcopy]
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Params:
    w: object
    b: object


def f(x):
    return np.sum(np.sin(x) * np.arange(3.0) + np.linspace(0, 1, 100)[:3])


def tree(p):
    return {"z": Pair(p.w * 2, None), "a": [p.b], "n": (np.sum(p.w),)}


def loop(x):
    return ad.fori_loop(0, 5, lambda i, c: np.sin(c * x), x)


def rule(primals, tangents):
    return f(*primals), 7.0 * np.sum(tangents[0])


def ruled():
    made = ad.custom_jvp(f)
    made.defjvp(rule)
    return made


@ad.checkpoint
def decorated(x):
    return f(x)


def symbols():
    x = ad.symbols("x", shape=3)
    y = np.sum(x**3)
    return ad.function([x], {"y": y, "x": ad.gradients(y, x)})


#: What is pickled, and how it is called.
THINGS = {
    "graph": (lambda: ad.graph(f)(X), lambda g: g(X)),
    "graph of a gradient": (lambda: ad.graph(ad.grad(f))(X), lambda g: g(X)),
    "graph of containers": (lambda: ad.graph(tree)(Params(X, 1.0)), lambda g: g(Params(X, 2.0))),
    "graph of a loop": (lambda: ad.graph(ad.grad(loop))(2.0), lambda g: g(1.5)),
    "parsed graph": (lambda: ad.parse(str(ad.graph(f)(X))), lambda g: g(X)),
    "simplified graph": (lambda: ad.graph(f)(X).simplify(), lambda g: g(X)),
    "jit of a graph": (lambda: ad.jit(ad.graph(f)(X)), lambda g: g(X)),
    "function": (symbols, lambda g: g(x=X)),
    "pullback": (lambda: ad.vjp(f, X)[1], lambda p: p(2.0)),
    "pullback of containers": (
        lambda: ad.vjp(tree, Params(X, 1.0))[1],
        lambda p: p({"z": Pair(X, None), "a": [1.0], "n": (2.0,)}),
    ),
    "pullback of a loop": (lambda: ad.vjp(loop, 2.0)[1], lambda p: p(1.0)),
    "pullback of float32": (lambda: ad.vjp(lambda x: np.sum(x * x), X.astype(np.float32))[1], lambda p: p(1.0)),
    "pullback of two": (lambda: ad.vjp(np.multiply, X, 2 * X)[1], lambda p: p(X)),
    "linear map": (lambda: ad.linearize(f, X)[1], lambda p: p(X)),
    "linear map of containers": (lambda: ad.linearize(tree, Params(X, 1.0))[1], lambda p: p(Params(X, 2.0))),
    "checkpoint": (lambda: ad.checkpoint(f), lambda g: ad.grad(g)(X)),
    "gradient of a checkpoint": (lambda: ad.grad(ad.checkpoint(f)), lambda g: g(X)),
    "graph of a checkpoint": (lambda: ad.graph(ad.checkpoint(f))(X), lambda g: g(X)),
    "custom rule": (ruled, lambda g: ad.grad(g)(X)),
}


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("name", THINGS)
def test_what_is_copied_computes_the_same(name, way):
    make, call = THINGS[name]
    made = make()
    copied = WAYS[way](made)
    found, expected = call(copied), call(made)
    a, one = flatten(found)
    b, other = flatten(expected)
    assert one == other
    assert type(copied) is type(made)
    assert repr(copied) == repr(made)
    for x, y in zip(a, b, strict=True):
        assert (type(x), np.asarray(x).dtype) == (type(y), np.asarray(y).dtype)
        np.testing.assert_array_equal(x, y)


def test_a_copy_of_a_copy():
    pull = ad.vjp(f, X)[1]
    for _ in range(3):
        pull = pickle.loads(pickle.dumps(pull))
    np.testing.assert_array_equal(pull(2.0)[0], ad.vjp(f, X)[1](2.0)[0])


def test_a_pullback_that_was_pickled_can_be_differentiated():
    pull = pickle.loads(pickle.dumps(ad.vjp(lambda x: np.sum(x**2), X)[1]))
    np.testing.assert_array_equal(ad.grad(lambda g: np.sum(pull(g)[0]))(1.0), np.sum(2 * X))


def test_strong_zeros_are_kept():
    pull = ad.vjp(lambda x: np.where(x < 1, x, np.sqrt(x)), np.array([0.0, 4.0]))[1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pull))(np.ones(2))[0], [1.0, 0.25])


def test_constants_stay_read_only():
    copied = pickle.loads(pickle.dumps(ad.graph(f)(X)))
    constants = [o.value for e in copied.equations for o in e.inputs if not isinstance(o, int) and not o.is_weak]
    assert constants
    assert not any(c.flags.writeable for c in constants)


def test_a_decorated_function_is_found_by_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated


@pytest.mark.parametrize("tree", [1.0, None, {"b": 1, "a": [2, None, ()]}, Pair(1, (2,)), Params([1], {}), {2: 1, 1: 2}])
def test_structures(tree):
    structure = flatten(tree)[1]
    copied = pickle.loads(pickle.dumps(structure))
    assert copied == structure
    leaves = list(range(structure.count))
    assert copied.unflatten(leaves) == structure.unflatten(leaves)
    assert repr(copied.unflatten(leaves)) == repr(structure.unflatten(leaves))  # the order of keys
    assert pickle.loads(pickle.dumps(LEAF)) is LEAF
    assert pickle.loads(pickle.dumps(EMPTY)) is EMPTY
