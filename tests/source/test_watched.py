"""What a trial may change: every kind of object is put back as it was, and the change is found."""

from __future__ import annotations

import array
import collections
import functools
import io
import itertools
import random
import types
import warnings
from typing import ClassVar

import numpy as np
import pytest
from looped import defined

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.source.variables import Cells, NotStagedError, Surroundings


class Slotted:
    __slots__ = ("__private", "v", "w")

    def __init__(self):
        self.v, self.__private = 0.0, 1

    def step(self):
        self.v += 1.0

    def hide(self):
        self.__private += 1

    def more(self):
        self.w = 3.0

    def less(self):
        del self.v


class Both(Slotted):
    count = 0
    seen: ClassVar[list] = []

    def bump(self):
        type(self).count += 1

    def remember(self):
        self.seen.append(1)

    def attribute(self):
        self.extra = 1


class Counting:
    """An iterator written in Python."""

    def __init__(self):
        self.k = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.k += 1
        return self.k


def draws(rng):
    return rng.random()


CHANGES = {
    "list": ([1], lambda x: x.append(2)),
    "dict": ({"a": 1}, lambda x: x.update(b=2)),
    "order of a dict": ({"a": 1, "b": 2}, lambda x: x.update(a=x.pop("a"))),
    "OrderedDict": (collections.OrderedDict(a=1), lambda x: x.popitem()),
    "defaultdict": (collections.defaultdict(int), lambda x: x["a"]),
    "Counter": (collections.Counter("a"), lambda x: x.update("b")),
    "set": ({1}, lambda x: x.add(2)),
    "deque": (collections.deque([1], maxlen=1), lambda x: x.append(2)),
    "bytearray": (bytearray(b"a"), lambda x: x.append(3)),
    "array": (array.array("d", [1.0]), lambda x: x.append(3.0)),
    "array of objects": (np.array([None, 1], object), lambda x: x.__setitem__(0, 2)),
    "slot": (Slotted(), lambda x: x.step()),
    "private slot": (Slotted(), lambda x: x.hide()),
    "slot without a value": (Slotted(), lambda x: x.more()),
    "slot that is deleted": (Slotted(), lambda x: x.less()),
    "slot of a base": (Both(), lambda x: x.step()),
    "attribute beside slots": (Both(), lambda x: x.attribute()),
    "attribute of a class": (Both(), lambda x: x.bump()),
    "list of a class": (Both(), lambda x: x.remember()),
    "class": (Both, lambda x: setattr(x, "count", 5)),
    "namespace": (types.SimpleNamespace(a=1), lambda x: setattr(x, "a", 2)),
    "method": (Slotted().step, lambda x: x()),
    "builtin method": ([1].append, lambda x: x(2)),
    "partial": (functools.partial(list.append, [1]), lambda x: x(2)),
    "default of a function": (lambda x, seen=[1]: seen.append(x), lambda f: f(2)),
    "default by keyword": (lambda x, *, seen=[1]: seen.append(x), lambda f: f(2)),
    "generator of NumPy": (np.random.default_rng(0), draws),
    "older generator of NumPy": (np.random.RandomState(0), lambda x: x.rand()),
    "generator of Python": (random.Random(0), draws),
    "iterator written in Python": (Counting(), next),
    "inside a tuple": (([1],), lambda x: x[0].append(2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_undone(name):
    x, change = CHANGES[name]
    cells = Cells(lambda: x)
    assert Surroundings(cells, (), ()).undo() == (set(), {}, "")
    for _ in range(2):  # the second finds what the first has put back
        surroundings = Surroundings(cells, (), ())
        change(x)
        arrays, attributes, changed = surroundings.undo()
        assert not arrays
        assert bool(changed) != bool(attributes)
    assert Surroundings(cells, (), ()).undo() == (set(), {}, "")


@pytest.mark.parametrize("make", [lambda: iter([1]), itertools.count, lambda: (k for k in ()), io.StringIO, lambda: map(abs, [])])
def test_what_cannot_be_undone_is_refused(make):
    x = make()
    with pytest.raises(NotStagedError, match="could not be undone"):
        Surroundings(Cells(lambda: x), (), ())


BODIES = {
    "slots": ("o = Slotted(); o.v = 0.0", "o.v += x", "o.v"),
    "namespace": ("o = types.SimpleNamespace(v=0.0)", "o.v += x", "o.v"),
    "bytearray": ("o = bytearray(1)", "o[0] += 1", "x * o[0]"),
    "iterator": ("o = itertools.count(); s = 0.0", "s += x * next(o)", "s + next(o)"),
    "random": ("o = np.random.default_rng(0); s = 0.0", "s += x * o.random()", "s"),
    "method": ("o = Slotted(); o.v = 0.0; step = o.step", "step()", "x * o.v"),
    "append": ("o = []; add = o.append", "add(x)", "x * len(o)"),
    "class": ("o = type('C', (), {'k': 0.0})", "o.k += x", "o.k"),
    "default": ("def o(v, seen=[]):\n        seen.append(v)\n        return len(seen)\n    s = 0.0", "s += x * o(k)", "s"),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("loop", ["for k in range(n):", "k = -1\n    while k < n:\n        k += 1"])
def test_loops_and_branches_that_change_objects(name, loop):
    """They run in Python, and change the object as often as they do there."""
    before, body, result = BODIES[name]
    space = {"Slotted": Slotted, "types": types, "itertools": itertools}
    for text in (f"{loop}\n        {body}", f"for k in range(9):\n        if x > k / 10:\n            {body}"):
        f = defined(f"def f(x, n):\n    {before}\n    {text}\n    return {result}\n", **space)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            compiled = ad.jit(f, source=True)
            for call in ((0.25, 10), (0.75, 10), (0.25, 12)):
                assert np.isclose(compiled(*call), f(*call), rtol=1e-12), (text, call)
