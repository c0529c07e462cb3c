"""Hooks on the outside reads of a staged function: they see every read, and are removed afterwards."""

from types import SimpleNamespace

import numpy as np
import pytest

import adjoint as ad
from adjoint.staging.modules import Modules
from adjoint.staging.watch import Hooks, same_items


def test_items_are_compared_by_identity():
    a = [1]
    assert same_items({"x": a}, {"x": a})
    assert not same_items({"x": a}, {"x": [1]})
    assert not same_items({"x": a}, {"x": a, "y": a})


class Model:
    def __init__(self):
        self.w, self.b = np.ones(2), 1.0

    def __call__(self, x):
        return x @ self.w + self.b


def test_attributes_are_seen_and_the_class_is_left_as_it_was():
    before = dict(vars(Model))
    model = Model()
    compiled = ad.jit(lambda x: model(x))
    assert compiled(np.ones(2)) == 3.0
    model.b = 5.0
    assert compiled(np.ones(2)) == 7.0
    model.w = 2 * np.ones(2)
    assert compiled(np.ones(2)) == 9.0
    assert dict(vars(Model)) == before


def test_a_write_to_what_is_watched_is_refused_or_runs_eagerly():
    box = SimpleNamespace(count=0)

    def f(x):
        box.count = box.count + 1
        return x * 2

    with pytest.warns(UserWarning, match="runs eagerly"):
        assert ad.jit(f)(3.0) == 6.0
    assert box.count >= 1


def test_classes_that_cannot_be_hooked():
    hooks = Hooks()
    with hooks:
        assert hooks.add(Model)
        assert not hooks.add(int)
    assert "__getattribute__" not in vars(Model)


@pytest.mark.parametrize("uses", [1, 30])
def test_names_are_looked_up_once(monkeypatch, uses):
    """Globals, builtins, and names that are neither; each use of a builtin asks the globals first."""
    asked = []
    entry = Modules.entry

    def counted(self, names, name):
        asked.append(name)
        return entry(self, names, name)

    monkeypatch.setattr(Modules, "entry", counted)
    space = {"__name__": "names_of_this_test", "rate": 2.0}
    text = f"""
def f(x):
    for _ in range({uses}):
        x = abs(x) * float(rate)
        try:
            nothing
        except NameError:
            x = x + len("ab")
    return x
"""
    exec(text, space)
    compiled = ad.jit(space["f"])
    assert compiled(1.0) == space["f"](1.0)
    assert sorted(asked) == ["NameError", "abs", "float", "len", "nothing", "range", "rate"]
    space["abs"] = lambda x: -x  # a global of the name of a builtin
    assert compiled(1.0) == space["f"](1.0)
    space["nothing"] = None
    assert compiled(1.0) == space["f"](1.0)
