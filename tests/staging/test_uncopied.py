"""Code that a staged function runs without a copy: the values of its names are checked at each call."""

import dataclasses
import functools
import importlib
import sys
import warnings

import numpy as np
import pytest

import adjoint as ad

SCALE = 2.0
TABLE = {"rate": 3.0}


class Layer:
    factor = 1.5

    def __init__(self, w):
        self.w = w

    @property
    def doubled(self):
        return self.w * SCALE

    def __call__(self, x):
        return np.tanh(x * self.doubled) * self.factor * TABLE["rate"]

    @staticmethod
    def shift(x):
        return x + SCALE

    @classmethod
    def scaled(cls, x):
        return x * cls.factor


def test_globals_of_methods_are_seen(monkeypatch):
    layer = Layer(0.5)
    f = lambda x: layer(x) + Layer.shift(x) + Layer.scaled(x)
    compiled = ad.jit(f)
    assert compiled(0.3) == f(0.3)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert compiled(0.3) == f(0.3)
    monkeypatch.setitem(TABLE, "rate", 7.0)
    assert compiled(0.3) == f(0.3)
    monkeypatch.setattr(Layer, "factor", -1.0)
    assert compiled(0.3) == f(0.3)
    layer.w = 0.9
    assert compiled(0.3) == f(0.3)


def test_a_method_that_is_replaced(monkeypatch):
    layer = Layer(0.5)
    compiled = ad.jit(lambda x: layer(x) + layer.shift(x))
    compiled(0.3)
    monkeypatch.setattr(Layer, "shift", staticmethod(lambda x: x - 1.0))
    assert compiled(0.3) == layer(0.3) + 0.3 - 1.0


def test_partials_and_closures_of_a_library():
    state = {"power": 2}
    f = functools.partial(lambda p, x: x ** p["power"], state)
    compiled = ad.jit(f)
    assert compiled(3.0) == 9.0
    state["power"] = 3
    assert compiled(3.0) == 27.0


class Record:
    """Its methods name attributes that Python itself gives to a class."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name in self.__dict__["rest"]:
            return self.__dict__["rest"][name]
        raise AttributeError(name)

    def label(self):
        return self.__class__.__name__, self.__doc__, self.__module__, type(self).__mro__, self.__weakref__


def test_attributes_that_python_gives_to_a_class_do_not_change():
    base = Record(rest={"scale": 2.0}, rate=3.0)

    def f(x):
        inner = Record(rest={"scale": base.scale}, rate=base.rate)
        assert inner.label()[0] == "Record"
        return np.sin(x * inner.scale) * inner.rate

    run = ad.jit(f)
    for x in (0.5, 0.6, 0.7):
        assert run(x) == f(x)
    assert str(run.report()).count("specialization ") == 1
    base.rate = 4.0
    assert run(0.5) == f(0.5)


def test_modules_and_containers_that_hold_themselves(tmp_path, monkeypatch):
    """A package whose modules import one another, and a table that contains itself: each is checked once."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "circles").mkdir()
    (tmp_path / "circles" / "__init__.py").write_text("import circles\nfrom . import shapes\nRATE = 2.0\n")
    (tmp_path / "circles" / "shapes.py").write_text(
        "import circles\n\nTABLE = {'rate': 3.0}\nTABLE['self'] = TABLE\nITEMS = [TABLE]\nITEMS.append(ITEMS)\n\n\n"
        "class Shape:\n    def __init__(self, x):\n"
        "        self.x = x * circles.circles.shapes.TABLE['rate'] * ITEMS[0]['self']['rate'] * circles.RATE\n"
    )
    circles = importlib.import_module("circles")
    f = lambda x: circles.shapes.Shape(x).x
    try:
        compiled = ad.jit(f)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compiled(0.3) == f(0.3)
            circles.RATE = 5.0
            assert compiled(0.3) == f(0.3)
            circles.shapes.TABLE["rate"] = 7.0
            assert compiled(0.3) == f(0.3)
    finally:
        del sys.modules["circles"], sys.modules["circles.shapes"]


TEXT = """
RATE = 2.0

class Layer:
    def __init__(self, w): self.w = w
    def __call__(self, x): return np.sin(x) * self.w * RATE
    def __getitem__(self, k): return k * RATE

def made(x): return Layer(0.5)(x)
def held(x, layer=Layer(0.5)): return layer(x) + layer[1] * x
"""


@pytest.mark.parametrize("name", ["made", "held"])
@pytest.mark.parametrize(
    "change",
    [
        "RATE = 5.0",
        "Layer.__call__ = lambda self, x: x * 9.0",
        "Layer.__getitem__ = lambda self, k: k * 7.0",
        "Layer.__init__ = lambda self, w: setattr(self, 'w', 3.0)",
    ],
)
def test_code_of_an_exec_is_the_users(name, change):
    """Its file has the name that `dataclass` uses for what it makes."""
    space = {"np": np}
    exec(TEXT, space)
    f = space[name]
    compiled, slope = ad.jit(f), ad.jit(ad.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(compiled(0.3), f(0.3))
        np.testing.assert_allclose(slope(0.3), ad.grad(f)(0.3))
        exec(change, space)
    np.testing.assert_allclose(compiled(0.3), f(0.3))
    np.testing.assert_allclose(slope(0.3), ad.grad(f)(0.3))


def test_an_operator_that_a_dataclass_made_and_that_is_replaced():
    @dataclasses.dataclass
    class Config:
        rate: float = 0.5

    config, other = Config(), Config()
    f = lambda x: x * 2.0 if config == other else x * 3.0
    compiled = ad.jit(f)
    assert compiled(1.5) == f(1.5) == 3.0
    Config.__eq__ = lambda self, other: False
    assert compiled(1.5) == f(1.5) == 4.5
