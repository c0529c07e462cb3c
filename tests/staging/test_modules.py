"""Names in modules: a compiled function sees each change of a global, a builtin, an attribute of a module, an imported module."""

import builtins
import importlib
import math
import sys
import types
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

NAME = "module_of_this_test"


def made(**names):
    module = types.ModuleType(NAME)
    vars(module).update(names)
    return module


def function(source, **names):
    """A function of a module of its own."""
    namespace = {"__name__": NAME, "np": np, **names}
    exec(source, namespace)
    return namespace["f"]


def a_global(value):
    f = function("def f(x): return x * (k(x) if callable(k) else k)", k=value)
    return f, lambda new: f.__globals__.__setitem__("k", new)


def an_attribute(value):
    module = made(k=value)
    f = function("def f(x): return x * (m.k(x) if callable(m.k) else m.k)", m=module)
    return f, lambda new: setattr(module, "k", new)


def another_module(value):
    """The name of a module is bound to another one."""
    f = function("def f(x): return x * (m.k(x) if callable(m.k) else m.k)", m=made(k=value))
    return f, lambda new: f.__globals__.__setitem__("m", made(k=new))


def an_import(value):
    sys.modules[NAME] = made(k=value)
    f = function(f"def f(x):\n    import {NAME} as m\n    return x * (m.k(x) if callable(m.k) else m.k)")
    return f, lambda new: sys.modules.__setitem__(NAME, made(k=new))


def an_import_of_a_name(value):
    sys.modules[NAME] = made(k=value)
    f = function(f"def f(x):\n    from {NAME} import k\n    return x * (k(x) if callable(k) else k)")
    return f, lambda new: setattr(sys.modules[NAME], "k", new)


def an_import_by_name(value):
    sys.modules[NAME] = made(k=value)
    source = f"def f(x):\n    k = importlib.import_module('{NAME}').k\n    return x * (k(x) if callable(k) else k)"
    return function(source, importlib=importlib), lambda new: setattr(sys.modules[NAME], "k", new)


def a_global_in_front_of_a_builtin(value):
    f = function("def f(x): return x * (abs(x) if callable(abs) else abs)")
    return f, lambda new: f.__globals__.__setitem__("abs", new)


def an_attribute_of_a_library(value):
    f = function("def f(x): return x * math.tau", math=math)
    return f, lambda new: setattr(math, "tau", new)


WAYS = [
    *(a_global, an_attribute, another_module, an_import, an_import_of_a_name, an_import_by_name),
    *(a_global_in_front_of_a_builtin, an_attribute_of_a_library),
]
VALUES = {
    "numbers": (2.0, 3.0, 4.0, 2.0),
    "functions": (lambda x: x, lambda x: 2 * x, abs, np.sin),
    "arrays": (np.ones(2), np.array([3.0, 4.0]), np.zeros(3)[:2]),
    "kinds": (1.5, np.ones(2), lambda x: x, 2),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(math, "tau", math.tau)
    yield
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize(
    "transform", [lambda f: f, lambda f: ad.vmap(f), lambda f: ad.grad(lambda x: np.sum(f(x)))], ids=["plain", "vmap", "grad"]
)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_changes_are_seen(way, kind, transform):
    if way is an_attribute_of_a_library and kind in ("functions", "kinds"):
        pytest.skip("no function of this name")
    first, *others = VALUES[kind]
    f, put = way(first)
    f, x = transform(f), np.array([0.5, -1.5])
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled again", category=CompileWarning)
        for value in (None, *others, None, first):
            if value is not None:
                put(value)
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
    assert not compiled.eager


def test_names_that_are_gone():
    f, _ = a_global(2.0)
    compiled = ad.jit(f)
    assert compiled(1.0) == 2.0
    del f.__globals__["k"]
    with pytest.raises(NameError, match="'k' is not defined"):
        compiled(1.0)

    module = made(k=2.0)
    compiled = ad.jit(function("def f(x): return x * m.k", m=module))
    assert compiled(1.0) == 2.0
    del module.k
    with pytest.raises(AttributeError, match="'k'"):
        compiled(1.0)


def test_a_name_among_the_builtins(monkeypatch):
    monkeypatch.setattr(builtins, "rate_of_this_test", 2.0, raising=False)
    f = function("def f(x): return x * rate_of_this_test")
    compiled = ad.jit(f)
    assert compiled(1.0) == 2.0
    monkeypatch.setattr(builtins, "rate_of_this_test", 3.0)
    assert compiled(1.0) == 3.0

    monkeypatch.setattr(builtins, "rate_of_this_test", [3.0])  # can change in place
    compiled = ad.jit(function("def f(x): return x * rate_of_this_test[0]"))
    with pytest.warns(CompileWarning, match="reads rate_of_this_test, which was added to Python's builtins"):
        assert compiled(1.0) == 3.0


@pytest.mark.parametrize("write", ["m.k = x", "m.new = 1.0", "del m.k"])
def test_a_module_that_is_written_to(write):
    module = made(k=2.0)
    compiled = ad.jit(function(f"def f(x):\n    y = x * m.k\n    {write}\n    return y", m=module))
    with pytest.warns(CompileWarning, match=f"writes to the module {NAME}"):
        assert compiled(1.0) == 2.0


def test_which_names_there_are_is_not_told():
    compiled = ad.jit(function("def f(x): return x * len(globals())"))
    with pytest.warns(CompileWarning, match="asks which globals there are"):
        assert compiled(2.0) > 2.0
