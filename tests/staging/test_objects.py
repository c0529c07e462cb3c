"""Outside objects of a compiled function: attributes are read again, methods are followed, writes are refused."""

import copy
import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.staging.objects import Objects

X = np.array([0.3, -1.2, 2.0])


class Model:
    scale = 2.0

    def __init__(self, w):
        self.w, self.count = w, 0

    def loss(self, x):
        return self.scale * self.help(x)

    def help(self, x):
        return np.sum(self.w * x * x)

    @property
    def doubled(self):
        return 2 * self.w


class Other(Model):
    scale = 5.0


def agree(compiled, f, *args):
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.* was compiled again")
@pytest.mark.parametrize(
    "function",
    [
        lambda model, x: model.loss(x),
        lambda model, x: np.sum(model.doubled * x),
        lambda model, x: np.sum(vars(model)["w"] * x),
        lambda model, x: np.sum(copy.copy(model).w * x),
        lambda model, x: np.sum(x) * (3.0 if hasattr(model, "bias") else 1.0),
        lambda model, x: np.sum(x) * getattr(model, "scale", 1.0),
    ],
    ids=["method", "property", "__dict__", "copy", "hasattr", "class attribute"],
)
def test_changes_of_an_object_are_seen(function):
    model = Model(np.ones(3))
    f = lambda x: function(model, x)
    compiled = ad.jit(f)
    changes = [
        lambda: setattr(model, "w", np.full(3, 4.0)),
        lambda: model.w.__setitem__(0, 7.0),
        lambda: setattr(model, "bias", 1.0),
        lambda: setattr(model, "scale", 0.5),
        lambda: delattr(model, "bias"),
        lambda: setattr(model, "__class__", Other),
        lambda: setattr(model, "help", lambda x: np.sum(x) * 3),
    ]
    agree(compiled, f, X)
    for change in changes:
        change()
        agree(compiled, f, X)
    assert not compiled.eager


def test_methods_that_are_replaced():
    class Local(Model):
        pass

    model = Local(np.ones(3))
    compiled = ad.jit(model.loss)
    agree(compiled, model.loss, X)
    Local.help = lambda self, x: np.sum(x) * 3
    agree(compiled, model.loss, X)
    model.__class__ = Other
    agree(compiled, model.loss, X)


@pytest.mark.filterwarnings("ignore:.* was compiled again")
@pytest.mark.parametrize("transform", [lambda f: f, ad.grad])
@pytest.mark.parametrize("owner", ["base", "class"])
@pytest.mark.parametrize(
    "made", [lambda old: property(lambda self: 9.0 * self.w), lambda old: np.full(3, 6.0), lambda old: property(old.fget)]
)
def test_properties_that_are_replaced(made, owner, transform):
    """By another property, or by a plain attribute of the class, in the class or in its base."""

    class Base(Model):
        doubled = property(Model.doubled.fget)

    class Local(Base):
        pass

    model = Local(np.ones(3))
    f = transform(lambda x: np.sum(model.doubled * x * x))
    compiled = ad.jit(f)
    agree(compiled, f, X)
    (Local if owner == "class" else Base).doubled = made(Model.doubled)
    agree(compiled, f, X)
    agree(compiled, f, 2 * X)


@pytest.mark.parametrize("write", [lambda m: setattr(m, "count", m.count + 1), lambda m: delattr(m, "count")])
def test_a_write_to_an_object_is_refused(write):
    model = Model(np.ones(3))

    @ad.jit
    def f(x):
        write(model)
        return np.sum(x)

    with pytest.warns(CompileWarning, match=r"writes to model\.count, which is outside the function"):
        f(X)
    assert f.eager


def test_other_threads_see_their_objects_as_they_are():
    """Objects are watched for the thread that stages alone."""
    model, stop, wrong = Model(np.ones(3)), threading.Event(), []

    def look():
        while not stop.is_set():
            if type(model.w) is not np.ndarray:
                wrong.append(model.w)
            model.count = 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for k in range(5):
            agree(ad.jit(lambda x, k=k: model.loss(x) + k), lambda x, k=k: model.loss(x) + k, X)
    finally:
        stop.set()
        thread.join()
    assert not wrong
    assert Model.__getattribute__ is object.__getattribute__
    assert Model.__setattr__ is object.__setattr__


class Namespace:
    """As a module that is loaded on demand: what it lacks comes from `__getattr__`."""

    def __getattr__(self, name):
        if name == "missing":
            raise AttributeError(name)
        return getattr(np, name)


def test_attributes_that_are_left_to_getattr():
    """They are checked at each call: on the object, and on its class."""
    space = Namespace()
    f = ad.jit(lambda x: space.sum(x) * 2.0)
    x = np.arange(3.0)
    assert f(x) == f(x) == 6.0
    space.sum = np.prod
    assert f(x) == 0.0
    del space.sum
    assert f(x) == 6.0
    Namespace.sum = staticmethod(np.max)
    try:
        assert f(x) == 4.0
    finally:
        del Namespace.sum
    assert f(x) == 6.0
    (programs,) = f.specializations.values()
    assert any("left to __getattr__" in line for program in programs for line in program.report())


def test_attributes_that_are_left_to_getattr_are_sought_once(monkeypatch):
    sought = []
    read = Objects._read_attribute
    monkeypatch.setattr(Objects, "_read_attribute", lambda self, x, name, at: (sought.append(name), read(self, x, name, at))[1])
    space = Namespace()

    def f(x):
        for _ in range(20):
            x = space.sin(x) + (1.0 if hasattr(space, "missing") else 2.0)
        return x

    assert ad.jit(f)(0.5) == pytest.approx(f(0.5), rel=1e-14)
    assert sorted(sought) == ["missing", "sin"]


def test_an_attribute_that_fails_is_the_users_error():
    class Failing(Namespace):
        pass

    space = Failing()
    f = ad.jit(lambda x: space.sum(x))
    assert f(np.ones(3)) == 3.0

    def fail(self):
        raise ValueError("no sum today")

    Failing.sum = property(fail)
    with pytest.raises(ValueError, match="no sum today"):
        f(np.ones(3))
