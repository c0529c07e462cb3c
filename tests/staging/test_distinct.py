"""Which outside objects are the same: a program sees it change, in both directions and back again."""

import types
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning


class Mode:
    """Instances are equal only if they are the same object."""


class Model:
    def __init__(self, rate):
        self.rate = rate


def _of(kind):
    makers = {
        "instance": Mode,
        "attributes": lambda: Model(2.0),
        "namespace": lambda: types.SimpleNamespace(rate=2.0),
        "list": lambda: [1.0, 2.0],
        "dict": lambda: {"a": 1.0},
        "array": lambda: np.ones(2),
    }
    return makers[kind]


FIXED = Mode()
#: Each asks whether two objects are one. Containers and arrays of equal contents are equal, so those are compared by `is` only.
BY_IS = {
    "is": lambda c: c.first is c.second,
    "is not": lambda c: not (c.first is not c.second),
    "any": lambda c: any(c.first is other for other in [c.second]),
    "item": lambda c: c.items[0] is c.second,
    "method": lambda c: c.test(c.first),
}
BY_DEFAULT = {
    "==": lambda c: c.first == c.second,
    "!=": lambda c: [c.first != c.second] == [False],
    "in": lambda c: c.first in (c.second,),
    "dict": lambda c: {c.second: True}.get(c.first, False),
    "index": lambda c: [None, c.second].count(c.first) == 1,
    "hash": lambda c: len({c.first, c.second}) == 1,
}
CASES = [(kind, how) for kind in ("instance", "attributes") for how in (*BY_IS, *BY_DEFAULT)]
CASES += [(kind, how) for kind in ("namespace", "list", "dict", "array") for how in BY_IS]


class Config:
    def test(self, value):
        return value is self.second

    def hold(self, first, second):
        self.first, self.second, self.items = first, second, [first]


@pytest.mark.parametrize("transform", [lambda f: f, ad.grad], ids=["jit", "grad"])
@pytest.mark.parametrize("starts_same", [True, False])
@pytest.mark.parametrize("kind, how", CASES)
def test_objects_that_become_one_or_two(kind, how, starts_same, transform):
    made, config, ask = _of(kind), Config(), {**BY_IS, **BY_DEFAULT}[how]
    a, b, c = made(), made(), made()

    def f(x):
        return x * 2.0 if ask(config) else x * x

    compiled = ad.jit(transform(f))
    states = [(a, a), (a, b), (b, b), (b, a), (a, a), (c, b), (c, c)]
    for first, second in states if starts_same else states[1:] + states[:2]:
        config.hold(first, second)
        for _ in range(2):
            assert compiled(1.5) == transform(f)(1.5)
    assert "eagerly" not in compiled.report()


@pytest.mark.parametrize("kind", ["instance", "attributes", "namespace", "list", "dict", "array"])
def test_a_global_to_compare_with(kind):
    made, scope = _of(kind), {"config": types.SimpleNamespace()}
    exec("def f(x): return x * 2.0 if config.mode is FIXED else x * x", scope)
    scope["FIXED"] = first = made()
    compiled, others = ad.jit(scope["f"]), [made(), made()]
    for mode in (first, others[0], first, others[1], others[0], first):
        scope["config"].mode = mode
        for _ in range(2):
            assert compiled(1.5) == scope["f"](1.5)
    scope["FIXED"] = others[0]
    assert compiled(1.5) == scope["f"](1.5) == 1.5**2
    scope["config"].mode = others[0]
    assert compiled(1.5) == scope["f"](1.5) == 3.0


@pytest.mark.parametrize("count", [3, 60])
def test_other_objects_of_the_class_have_the_same_program(count):
    """Unless there are so many that each pair would take too long to check."""
    layers = [Model(float(i)) for i in range(count)]

    def f(x):
        for layer in layers:
            x = x + layer.rate
        return x + (1.0 if layers[0] == layers[1] else 0.0)

    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for _ in range(4):
            assert compiled(1.0) == f(1.0)
            layers[:] = [Model(layer.rate) for layer in layers]
        layers[1] = layers[0]
        assert compiled(1.0) == f(1.0)
    assert compiled.report().count("specialization ") == (2 if count == 3 else 5)


@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
@pytest.mark.parametrize("asks", [lambda c: np.shares_memory(c.a, c.b), lambda c: np.may_share_memory(c.a, c.b)])
def test_outside_arrays_that_share_memory(asks):
    a = np.ones(4)
    held = types.SimpleNamespace(a=a, b=a[2:])
    compiled = ad.jit(f := lambda x: x * 2.0 if asks(held) else x * x)
    for b in (a[2:], np.ones(2), a[1:3], a, np.ones(4)):
        held.b = b
        assert compiled(1.5) == f(1.5)
