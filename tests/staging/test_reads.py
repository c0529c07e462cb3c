"""A compiled function gives the function's results, whatever it reads outside and however that changes between calls."""

import collections
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import functools
import operator
import os
import random
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from night import examples

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.jit import CompileWarning
from adjoint.core.places import values_at
from adjoint.staging.uncopied import FEW_NAMES

X = np.array([0.3, -1.2, 2.0])
HERE = os.path.basename(__file__)
OUTSIDE = None  # what `a_global` reads
settings_module = types.ModuleType("settings_module")
of_thread = threading.local()
of_thread.v = 2.0


def use(v, x):
    """Something that depends on every element of v, in its dtype."""
    return np.sum(x * x * v) + np.sum(np.sin(x) * v)


# -- the ways by which a function reaches a value: each gives (f, put), where put(v) lets another value stand there --------


def a_cell(v):
    def put(new):
        nonlocal v
        v = new

    return lambda x: use(v, x), put


def a_global(v):
    def put(new):
        global OUTSIDE
        OUTSIDE = new

    put(v)
    return lambda x: use(OUTSIDE, x), put


def a_default(v):
    def f(x, v=v):
        return use(v, x)

    def put(new):
        f.__defaults__ = (new,)

    return f, put


def a_keyword_default(v):
    def f(x, *, v=v):
        return use(v, x)

    def put(new):
        f.__kwdefaults__["v"] = new

    return f, put


class Model:
    scale = 2.0

    def __init__(self, v):
        self.v = v
        self.parts = {"inner": [types.SimpleNamespace(v=v)]}

    def loss(self, x):
        return self.help(x) * self.scale

    def help(self, x):
        return use(self.v, x)

    def deep(self, x):
        return use(self.parts["inner"][0].v, x)

    def __call__(self, x):
        return use(self.v, x)

    @property
    def doubled(self):
        return 2 * self.v


class Child(Model):
    def help(self, x):
        return super().help(x) + 1.0


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v

    def loss(self, x):
        return use(self.v, x)


@dataclasses.dataclass
class Data:
    v: object
    name: str = "data"


def of_object(make, function):
    def way(v):
        model = make(v)
        return function(model), functools.partial(setattr, model, "v")

    return way


def a_nested_attribute(v):
    model = Model(v)
    return lambda x: model.deep(x), lambda new: setattr(model.parts["inner"][0], "v", new)


def an_entry(v):
    d = {"v": v, "other": [1, 2]}
    return lambda x: use(d["v"], x), functools.partial(d.__setitem__, "v")


def an_item(v):
    values = [1.0, v]
    return lambda x: use(values[1], x), functools.partial(values.__setitem__, 1)


def a_rebound_container(v):
    params = {"layer": (v, [v])}

    def put(new):
        nonlocal params
        params = {"layer": (new, [new])}

    return lambda x: use(params["layer"][0], x) - use(params["layer"][1][0], 2 * x), put


def a_named_tuple(v):
    Pair = collections.namedtuple("Pair", "v w")
    pair = Pair(v, 1.0)

    def put(new):
        nonlocal pair
        pair = Pair(new, 1.0)

    return lambda x: use(pair.v, x) * pair.w, put


def a_module(v):
    settings_module.v = v
    return lambda x: use(settings_module.v, x), functools.partial(setattr, settings_module, "v")


def an_imported_module(v):
    sys.modules["adjoint_test_settings"] = settings_module
    settings_module.v = v

    def f(x):
        from adjoint_test_settings import v as w

        return use(w, x)

    return f, functools.partial(setattr, settings_module, "v")


def a_function_attribute(v):
    def helper(x):
        return use(helper.v, x)

    helper.v = v
    return lambda x: helper(x), functools.partial(setattr, helper, "v")


def a_helper(v):
    def helper(x):
        return use(v, x)

    def put(new):
        nonlocal v
        v = new

    return lambda x: helper(x), put


def a_replaced_helper(v):
    def helper(x):
        return use(v, x)

    def put(new):
        nonlocal helper
        helper = lambda x: use(new, x)

    return lambda x: helper(x), put


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args) + 0.5

    return wrapper


def a_decorated_function(v):
    def put(new):
        nonlocal v
        v = new

    return decorated(lambda x: use(v, x)), put


def a_partial(v):
    held = [v]
    return functools.partial(lambda values, x: use(values[0], x), held), functools.partial(held.__setitem__, 0)


def a_class_attribute(v):
    class Local(Model):
        v = None

        def __init__(self):
            pass

    Local.v = v
    return Local().loss, functools.partial(setattr, Local, "v")


def of_class(function):
    def way(v):
        class Settings:
            v = None

            @classmethod
            def loss(cls, x):
                return use(cls.v, x)

        class Local(Settings):
            @classmethod
            def loss(cls, x):
                return super().loss(x)

        Settings.v = v
        return function(Settings, Local), functools.partial(setattr, Settings, "v")

    return way


CONSTANT = None


class Layer:
    def __init__(self, x):
        self.x, self.v = x, CONSTANT

    def __call__(self, x):
        return use(self.v, x) + np.sum(self.x)


def a_class_used_inside(v):
    def put(new):
        global CONSTANT
        CONSTANT = new

    put(v)
    return lambda x: Layer(x)(x), put


def a_memo(v):
    @functools.lru_cache
    def helper(n):
        return n

    def put(new):
        nonlocal v
        v = new

    return lambda x: helper(3) * use(v, x), put


WAYS = {
    f.__name__: f
    for f in (
        *(a_cell, a_global, a_default, a_keyword_default, a_nested_attribute, an_entry, an_item, a_rebound_container),
        *(a_named_tuple, a_module, an_imported_module, a_function_attribute, a_helper, a_replaced_helper, a_decorated_function),
        *(a_partial, a_class_attribute, a_class_used_inside, a_memo),
    )
} | {
    "method": of_object(Model, lambda model: model.loss),
    "inherited method": of_object(Child, lambda model: model.loss),
    "callable object": of_object(Model, lambda model: model),
    "attribute": of_object(Model, lambda model: lambda x: use(model.v, x)),
    "property": of_object(Model, lambda model: lambda x: use(model.doubled, x)),
    "slot": of_object(Slots, lambda model: model.loss),
    "field": of_object(Data, lambda model: lambda x: use(model.v, x)),
    "copy": of_object(Model, lambda model: lambda x: use(copy.copy(model).v, x)),
    "class": of_class(lambda cls, _: lambda x: use(cls.v, x)),
    "base class": of_class(lambda _, cls: lambda x: use(cls.v, x)),
    "getattr of a class": of_class(lambda cls, _: lambda x: use(getattr(cls, "v"), x)),  # noqa: B009
    "class method": of_class(lambda cls, _: lambda x: cls.loss(x)),
    "inherited class method": of_class(lambda _, cls: cls.loss),
    "class method of an object": of_class(lambda cls, _: (lambda it: lambda x: it.loss(x))(cls())),
    "class of an object": of_class(lambda cls, _: (lambda it: lambda x: use(type(it).v, x))(cls())),
    "method held by another object": of_object(Model, lambda m: (lambda it: lambda x: it.f(x))(types.SimpleNamespace(f=m.loss))),
    "method held by an object": of_object(Model, lambda m: (lambda it: lambda x: it.v(x))(Data(m.loss))),
}
VALUES = {
    "array": (np.array([1.0, 2.0, -3.0]), np.array([4.0, 0.5, 2.0])),
    "single": (np.array([1.0, 2.0, -3.0], np.float32), np.array([4.0, 0.5, 2.0], np.float32)),
    "integers": (np.arange(3), np.array([5, 1, 7])),
    "truths": (np.array([True, False, True]), np.array([False, False, True])),
    "scalar": (np.float64(1.5), np.float64(-2.5)),
    "strided": (np.arange(6.0)[::2], np.arange(9.0)[::3]),
    "float": (1.5, -2.5),
    "int": (2, 5),
    "bool": (True, False),
    "other shape": (np.ones(3), np.array(2.0)),
    "other dtype": (np.ones(3), np.arange(3)),
    "other class": (1.5, np.array([1.0, 2.0, 3.0])),
}


@contextlib.contextmanager
def always_compiled():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled again", category=CompileWarning)
        yield


def agree(compiled, f, *args):
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transform", [lambda f: f, ad.grad, lambda f: ad.vmap(f)], ids=["value", "grad", "vmap"])
@pytest.mark.parametrize("kind", ["array", "float", "integers"])
@pytest.mark.parametrize("way", WAYS)
def test_outside_values_are_seen(way, kind, transform):
    first, second = map(copy.copy, VALUES[kind])
    f, put = WAYS[way](first)
    x = np.stack([X, X + 1]) if transform not in (ad.grad,) and transform(f) is not f else X
    f = transform(f)
    compiled = ad.jit(f)
    with always_compiled():
        agree(compiled, f, x)
        for new in (second, first, copy.copy(second)):
            put(new)
            agree(compiled, f, x)
        if isinstance(first, np.ndarray):
            new[1] = 9
            agree(compiled, f, x)
            new *= 2
            agree(compiled, f, x)
    assert not compiled.eager


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("way", ["a_cell", "a_global", "attribute", "an_item", "a_class_used_inside"])
def test_values_of_every_kind(way, kind):
    values = VALUES[kind]
    f, put = WAYS[way](values[0])
    compiled = ad.jit(f)
    with always_compiled():
        for i in (0, 1, 0, 0, 1):
            put(copy.copy(values[i]))
            agree(compiled, f, X)
    assert not compiled.eager


@given(
    way=st.sampled_from(sorted(WAYS)),
    steps=st.lists(st.tuples(st.sampled_from(sorted(VALUES)), st.integers(0, 1), st.booleans()), min_size=1, max_size=6),
)
@settings(max_examples=examples(40), deadline=None)
def test_any_sequence_of_changes(way, steps):
    f, put = WAYS[way](1.0)
    compiled = ad.jit(f)
    with always_compiled():
        for kind, i, write in steps:
            value = copy.copy(VALUES[kind][i])
            put(value)
            agree(compiled, f, X)
            if write and isinstance(value, np.ndarray) and value.ndim:
                value[-1] = 3
                agree(compiled, f, X)


def test_a_number_that_changes_becomes_an_input():
    compiled = None
    lam = 0.5
    compiled = ad.jit(lambda x: lam * np.sum(x))
    for lam in (0.5, 1.5, 2.5, -0.0, float("nan"), 7.0):
        np.testing.assert_equal(compiled(X), lam * np.sum(X))
    (paths,) = compiled.specializations.values()
    assert len(paths) == 2
    assert "reads lam at each call" in compiled.report()


def test_arrays_are_read_without_another_program():
    batch = np.ones((4, 3))
    compiled = ad.jit(ad.grad(lambda w: np.sum((batch @ w) ** 2)))
    eager = ad.grad(lambda w: np.sum((batch @ w) ** 2))
    for seed in range(5):
        batch = np.random.default_rng(seed).normal(size=(4, 3))
        agree(compiled, eager, X)
        batch[0] = 0.0
        agree(compiled, eager, X)
    (paths,) = compiled.specializations.values()
    assert len(paths) == 1


def test_signed_zeros_and_nan_are_distinguished():
    zero = 0.0
    compiled = ad.jit(lambda x: np.copysign(x, zero))
    assert np.signbit(compiled(1.0)) == 0
    zero = -0.0
    assert np.signbit(compiled(1.0)) == 1
    one = 1
    compiled = ad.jit(lambda x: x * (one is True) + x * (type(one) is int))
    assert compiled(1.0) == 1.0
    one = True
    assert compiled(1.0) == 1.0
    one = 1.0
    assert compiled(1.0) == 0.0


def test_immutable_arrays_are_folded():
    table = np.frombuffer(np.arange(3.0).tobytes())
    compiled = ad.jit(lambda x: np.sum(x * np.exp(table)))
    agree(compiled, lambda x: np.sum(x * np.exp(table)), X)
    assert "table" not in compiled.report()
    table = np.frombuffer((np.arange(3.0) + 1).tobytes())
    agree(compiled, lambda x: np.sum(x * np.exp(table)), X)


def test_read_only_arrays_are_inputs():
    table = np.arange(3.0)
    table.flags.writeable = False
    compiled = ad.jit(lambda x: np.sum(x * np.exp(table)))
    agree(compiled, lambda x: np.sum(x * np.exp(table)), X)
    assert "reads table at each call" in compiled.report()
    table.flags.writeable = True
    table[0] = 5.0
    agree(compiled, lambda x: np.sum(x * np.exp(table)), X)
    assert len(next(iter(compiled.specializations.values()))) == 1


def test_static_objects_are_taken_as_they_are():
    table = ad.static(np.arange(3.0))
    compiled = ad.jit(lambda x: np.sum(x * table))
    before = compiled(X)
    table[:] = 9.0
    assert compiled(X) == before
    numbers = ad.static(iter([2.0, 3.0]))
    compiled = ad.jit(lambda x: x * next(numbers))
    assert compiled(1.0) == compiled(1.0) == 2.0
    compiled = ad.jit(lambda x: x + 0.0 * ad.static(time.time)())
    assert compiled(1.0) == 1.0


def test_the_same_array_in_two_places():
    one = two = np.arange(3.0)
    f = lambda x: np.sum(x * one) if one is two else np.sum(x * two)
    compiled = ad.jit(f)
    agree(compiled, f, X)
    two = np.ones(3)
    agree(compiled, f, X)
    one = two
    agree(compiled, f, X)


def test_arrays_that_other_libraries_take():
    """Code that takes plain arrays only gets them, and they are compared at each call."""
    column = np.array([1.0, 0.5, 0.2])
    f = lambda x: np.asarray(memoryview(np.asarray(column))) @ x
    compiled = ad.jit(f)
    for value in (column[1], 3.0, 0.5):
        column[1] = value
        agree(compiled, f, X)
    assert not compiled.eager


# -- what cannot be checked ----------------------------------------------------------------------------------------

numbers = iter(range(1, 100))
count = 0


def counts(x):
    global count
    count += 1
    return x * count


def counts_in_a_list(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


class Counter:
    def __init__(self):
        self.n, self.log = 0, {}

    def __call__(self, x):
        self.n += 1
        return x * self.n

    def logged(self, x):
        self.log[len(self.log)] = 1
        return x * len(self.log)


def nonlocal_counter():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f


def function_attribute(x):
    function_attribute.n = getattr(function_attribute, "n", 0) + 1
    return x * function_attribute.n


class Shared:
    calls, log, seen, table, marks = 0, [], {}, np.zeros(2), set()

    @classmethod
    def counted(cls, x):
        cls.calls += 1
        return x * cls.calls

    @staticmethod
    def logged(x):
        Shared.log.append(1)
        return x * len(Shared.log)


def class_entry(x):
    Shared.seen["n"] = Shared.seen.get("n", 0) + 1
    return x * Shared.seen["n"]


def class_array(x):
    Shared.table[0] += 1
    return x * Shared.table[0]


def class_set(x):
    Shared.marks.add(len(Shared.marks))
    return x * len(Shared.marks)


@pytest.mark.parametrize(
    "f",
    [
        *(counts, counts_in_a_list, Counter(), Counter().logged, nonlocal_counter(), function_attribute),
        *(lambda x: Shared.counted(x), lambda x: Shared.logged(x), class_entry, class_array, class_set),
        lambda x: x * next(numbers),
    ],
    ids=[
        *("global", "default", "attribute", "entry", "nonlocal", "function"),
        *("class", "class list", "class dict", "class array", "class set", "iterator"),
    ],
)
def test_effects_happen_at_each_call(f):
    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match=rf"outside.*\({HERE}:\d+\)"):
        first = compiled(1.0)
    assert first == 1.0
    assert [first + i for i in (1, 2)] == [compiled(1.0), compiled(1.0)]


def test_a_buffer_outside_is_written_at_each_call():
    buffer = np.zeros(3)

    def f(x):
        buffer[:] += x
        return np.sum(buffer) + 0 * x[0]

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match=rf"writes to buffer.*\({HERE}:\d+\)"):
        first = compiled(X)
    np.testing.assert_allclose([first, compiled(X)], [np.sum(X), 2 * np.sum(X)])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * time.time(),
        lambda x: x + (datetime.datetime.now() - datetime.datetime(2000, 1, 1)).total_seconds(),
        lambda x: x * float(os.environ.get("ADJOINT_TEST_NUMBER", "2")),
        lambda x: x * random.random(),
        lambda x: x * np.random.normal(),
        lambda x: x * anp.random.uniform(),
        lambda x: x * of_thread.v,
    ],
    ids=["clock", "date", "environment", "random", "np.random", "anp.random", "thread"],
)
def test_unverifiable_reads_run_eagerly(f):
    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match=rf"\({HERE}:\d+\)"):
        compiled(1.0)
    assert compiled.eager


def test_refusals_that_the_function_catches():
    def f(x):
        try:
            return x * time.time()
        except Exception:
            return x

    with pytest.warns(CompileWarning, match="reads the clock"):
        assert ad.jit(f)(1.0) > 1e9


@pytest.mark.parametrize("generator", [np.random, np.random.default_rng(3), np.random.RandomState(3), random.Random(3)])
def test_staging_draws_nothing(generator):
    draw = generator.random
    if generator is np.random:
        np.random.seed(3)
    state = copy.deepcopy(generator) if generator is not np.random else np.random.RandomState(3)
    compiled = ad.jit(lambda x: x * draw())
    with pytest.warns(CompileWarning, match="random numbers"):
        found = [compiled(1.0) for _ in range(3)]
    assert found == [state.random() for _ in range(3)]


def test_draws_of_other_threads_do_not_matter():
    stop = threading.Event()

    def load():
        while not stop.is_set():
            np.random.normal(size=10)
            random.random()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for k in range(5):
            compiled = ad.jit(lambda x, k=k: np.sum(np.sin(x)) * k)
            agree(compiled, lambda x, k=k: np.sum(np.sin(x)) * k, X)
            assert not compiled.eager
    finally:
        stop.set()
        thread.join()


def test_a_name_that_is_gone():
    namespace = {"np": np, "w": np.ones(3)}
    exec("def f(x): return np.sum(x * w)", namespace)
    compiled = ad.jit(namespace["f"])
    compiled(X)
    del namespace["w"]
    with pytest.raises(NameError):
        compiled(X)


class Optional:
    def __init__(self):
        self.v = 2.0

    def method(self, x):
        return self.v * x

    @classmethod
    def of_class(cls, x):
        return 3.0 * x

    @staticmethod
    def of_none(x):
        return 4.0 * x


class Computed(Optional):
    def __getattr__(self, name):
        if name == "k":
            return 7.0
        raise AttributeError(name)


def named(x):
    try:
        return x * MISSING_NAME
    except NameError:
        return x


def attribute_of(make):
    def f(it):
        def inner(x):
            try:
                return x * it.k
            except AttributeError:
                return x

        return inner

    def case():
        it = make()
        return f(it), [lambda: setattr(it, "k", 2.0), lambda: setattr(it, "k", 5.0), lambda: delattr(it, "k")]

    return case


def asked(make, function):
    def case():
        it = make()
        return (lambda x: function(it, x)), [
            lambda: setattr(it, "k", 2.0),
            lambda: delattr(it, "k"),
            lambda: setattr(it, "k", 5.0),
        ]

    return case


def a_namespace():
    return types.SimpleNamespace(v=1.0)


def a_function():
    return lambda x: x


def a_class():
    return type("Made", (), {"__module__": __name__})


def a_slot():
    class Slotted:
        __slots__ = ("k",)

    return Slotted()


def a_builtin_that_is_shadowed():
    def put():
        globals()["abs"] = lambda x: 50 * x

    return (lambda x: abs(x) * 2), [put, functools.partial(globals().pop, "abs")]


def a_name_that_is_missing():
    def put(value):
        globals()["MISSING_NAME"] = value

    return named, [lambda: put(3.0), lambda: put(4.0), functools.partial(globals().pop, "MISSING_NAME")]


def a_global_asked_for():
    def put(value):
        globals()["MISSING_NAME"] = value

    f = lambda x: x * globals().get("MISSING_NAME", 1.0) + ("MISSING_NAME" in globals())
    return f, [lambda: put(3.0), lambda: put(4.0), functools.partial(globals().pop, "MISSING_NAME")]


def a_method_that_is_shadowed(name):
    def case():
        cls = type("Shadowed", (Optional,), {"__module__": __name__})
        it = cls()
        f = lambda x: getattr(it, name)(x)
        own = {"of_class": classmethod, "of_none": staticmethod}.get(name, lambda g: g)
        steps = [
            lambda: setattr(cls, name, own((lambda x: 10 * x) if name == "of_none" else (lambda _, x: 20 * x))),
            lambda: setattr(it, name, lambda x: 30 * x),
            lambda: delattr(it, name),
            lambda: delattr(cls, name),
        ]
        return f, steps

    return case


def another_object_with_a_method_of_its_own():
    it = Optional()

    def put():
        nonlocal it
        it = Optional()
        it.v = 9.0

    return (lambda x: it.method(x)), [put, lambda: setattr(it, "method", lambda x: 30 * x), put]


def code_that_is_replaced():
    def helper(x):
        return x

    return (lambda x: helper(x)), [lambda: setattr(helper, "__code__", (lambda x: 7 * x).__code__)]


def an_operator_that_is_replaced():
    class Scale:
        def __mul__(self, x):
            return 2 * x

    scale = Scale()
    return (lambda x: scale * x + Scale() * x), [lambda: setattr(Scale, "__mul__", lambda self, x: 9 * x)]


CHANGES = {
    f.__name__: f
    for f in (
        *(a_builtin_that_is_shadowed, a_name_that_is_missing, a_global_asked_for, code_that_is_replaced),
        *(another_object_with_a_method_of_its_own, an_operator_that_is_replaced),
    )
}
CHANGES |= {f"{name} is shadowed": a_method_that_is_shadowed(name) for name in ("method", "of_class", "of_none")}
for make in (Optional, Computed, a_namespace, a_function, a_class, a_slot, lambda: types.ModuleType("other_module")):
    called = make.__name__
    CHANGES[f"attribute of {called}"] = attribute_of(make)
    CHANGES[f"hasattr of {called}"] = asked(make, lambda it, x: x * it.k if hasattr(it, "k") else -x)
    CHANGES[f"getattr of {called}"] = asked(make, lambda it, x: x * getattr(it, "k", -1.0))
    if make in (Optional, a_namespace):
        CHANGES[f"vars of {called}"] = asked(make, lambda it, x: x * vars(it).get("k", -1.0) + len(it.__dict__))


@pytest.mark.parametrize("transform", [lambda f: f, ad.grad], ids=["value", "grad"])
@pytest.mark.parametrize("case", CHANGES)
def test_a_name_that_appears_is_seen(case, transform):
    f, steps = CHANGES[case]()
    f = transform(f)
    compiled = ad.jit(f)
    with always_compiled():
        agree(compiled, f, 1.5)
        (specialization,) = (x for known in compiled.specializations.values() for x in known)
        assert values_at(specialization.places)[1] is None
        for step in steps:
            step()
            agree(compiled, f, 1.5)
            agree(compiled, f, 2.5)
    assert not compiled.eager


def test_an_attribute_of_a_class_that_is_written():
    class Count:
        calls = 0

    class More(Count):
        pass

    def f(x):
        Count.calls += 1
        More.calls += 10
        More.last = x
        return x * Count.calls

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match="writes to an attribute of Count"):
        assert [compiled(2.0) for _ in range(3)] == [2.0, 4.0, 6.0]
    assert (Count.calls, More.calls, More.last) == (3, 31, 2.0)


def test_recursion_and_functions_of_functions():
    depth = 3

    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    f = lambda x: np.sum(functools.reduce(lambda a, g: g(a), [np.sin, lambda a: power(a, depth)], x))
    compiled = ad.jit(f)
    agree(compiled, f, X)
    depth = 5
    with always_compiled():
        agree(compiled, f, X)


def test_containers_of_many_numbers_are_compared_as_a_whole():
    weights = [float(i) for i in range(50)]
    f = lambda x: sum(w * x for w in weights)
    compiled = ad.jit(f)
    agree(compiled, f, 2.0)
    weights[7] = -1.0
    agree(compiled, f, 2.0)
    assert not compiled.eager
    allowed = {1.0, 2.0}
    f = lambda x: x * len(allowed)
    compiled = ad.jit(f)
    agree(compiled, f, 2.0)
    allowed.add(3.0)
    agree(compiled, f, 2.0)


def test_objects_that_hold_themselves():
    tree = {"v": np.ones(3)}
    tree["self"] = tree
    f = lambda x: np.sum(x * tree["self"]["self"]["v"])
    compiled = ad.jit(f)
    agree(compiled, f, X)
    tree["v"] = np.full(3, 4.0)
    agree(compiled, f, X)


def test_the_next_process_reads_its_own_arrays(tmp_path):
    """A program from disk holds no array of the process that compiled it."""
    program = (
        "import sys, numpy as np, adjoint as ad\n"
        "data = np.full(3, float(sys.argv[1]))\n"
        "f = ad.jit(lambda x: np.sum(x * data))\n"
        "print(f(np.ones(3)))\n"
    )
    for number in (2.0, 5.0):
        found = subprocess.run(
            [sys.executable, "-c", program, str(number)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "ADJOINT_CACHE_DIR": str(tmp_path)},
        )
        assert float(found.stdout) == 3 * number


def test_warnings_and_errors_of_the_function_keep_their_lines():
    limit = 0.5

    def f(x):
        if limit > 1:
            raise ValueError("too large")
        return x * limit

    compiled = ad.jit(f)
    assert compiled(2.0) == 1.0
    limit = 2.0
    with pytest.raises(ValueError, match="too large") as caught:
        compiled(2.0)
    assert caught.traceback[-1].path.name == HERE


# -- programs as people write them ---------------------------------------------------------------------------------------

K = 2.0


class Base:
    @classmethod
    def make(cls, *args):
        return cls(*args)

    @staticmethod
    def scaled(x):
        return x * K

    def __call__(self, x):
        return self.forward(x)


class Linear(Base):
    def __init__(self, w):
        self.w = w

    def forward(self, x):
        return self.scaled(x) @ self.w


class Chain(Base):
    def __init__(self, *layers):
        self.layers = list(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @functools.cached_property
    def gram(self):
        return self.layers[0].w.T @ self.layers[0].w


class Twice:
    """A descriptor."""

    def __get__(self, instance, owner=None):
        return self if instance is None else 2 * instance.held

    def __set__(self, instance, value):
        instance.held = value


class Described:
    v = Twice()


class Dynamic:
    def __init__(self, **values):
        self.values = values

    def __getattr__(self, name):
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@functools.singledispatch
def dispatched(x):
    return np.sum(x) * K


@pytest.fixture
def world():
    global K
    K = 2.0
    described = Described()
    described.v = 3.0
    return types.SimpleNamespace(
        net=Chain(Linear(np.eye(3) * 2), Linear(np.arange(9.0).reshape(3, 3))),
        described=described,
        dynamic=Dynamic(w=np.ones(3)),
        table=[1.0, 2.0, 3.0],
        index=np.array([2, 0, 1]),
        functions=[lambda x, i=i: x * i for i in range(3)],
    )


def set_k(value):
    global K
    K = value


PROGRAMS = {
    "network": (
        lambda w: lambda x: np.sum(w.net(x)),
        lambda w: setattr(w.net.layers[0], "w", np.ones((3, 3))),
        lambda w: w.net.layers[1].w.__setitem__(0, 5.0),
        lambda w: set_k(5.0),
        lambda w: w.net.layers.append(Linear(np.eye(3))),
    ),
    "gradient": (
        lambda w: ad.grad(lambda x: np.sum(w.net(x) ** 2)),
        lambda w: w.net.layers[1].w.__setitem__(0, 5.0),
        lambda w: set_k(0.5),
    ),
    "made inside": (lambda w: lambda x: np.sum(Linear.make(np.eye(3))(x)), lambda w: set_k(8.0)),
    "cached property": (lambda w: lambda x: np.sum(w.net.gram @ x), lambda w: setattr(w.net.layers[0], "w", np.ones((3, 3)))),
    "descriptor": (lambda w: lambda x: x * w.described.v, lambda w: setattr(w.described, "v", 5.0)),
    "dynamic attribute": (lambda w: lambda x: x @ w.dynamic.w, lambda w: w.dynamic.values.__setitem__("w", np.full(3, 5.0))),
    "singledispatch": (lambda w: lambda x: dispatched(x), lambda w: set_k(4.5)),
    "comprehension": (lambda w: lambda x: sum([t * x[i] for i, t in enumerate(w.table)]), lambda w: w.table.__setitem__(0, 9.0)),
    "index": (lambda w: lambda x: x[w.index] * np.arange(3), lambda w: w.index.__setitem__(0, 1)),
    "length": (lambda w: lambda x: sum(x[i] for i in range(int(w.index[1] + 1))), lambda w: w.index.__setitem__(1, 2)),
    "functions": (lambda w: lambda x: sum(f(x) for f in w.functions), lambda w: w.functions.__setitem__(0, lambda x: x * 100)),
    "deepcopy": (lambda w: lambda x: copy.deepcopy(w.net).layers[0].w @ x, lambda w: w.net.layers[0].w.__setitem__(0, 4.0)),
    "vars": (lambda w: lambda x: vars(w.net.layers[0])["w"] @ x, lambda w: w.net.layers[0].w.__setitem__(0, 4.0)),
    "globals": (lambda w: lambda x: globals()["K"] * x, lambda w: set_k(7.5)),
    "buffer": (lambda w: lambda x: _filled(w.net.layers[0].w.copy(), x), lambda w: w.net.layers[0].w.__setitem__(2, 3.0)),
}


def _filled(a, x):
    a[0] = x
    return np.sum(a**2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_people_write_them(name, world):
    make, *changes = PROGRAMS[name]
    f = make(world)
    compiled = ad.jit(f)
    with always_compiled():
        agree(compiled, f, X)
        for change in changes:
            change(world)
            agree(compiled, f, X)
    assert not compiled.eager


ORDERED = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": lambda **items: collections.defaultdict(float, **items),
    "namespace": types.SimpleNamespace,
}


@pytest.mark.filterwarnings("ignore:f was compiled again")
@pytest.mark.parametrize("cls", ORDERED)
def test_the_order_of_keys_is_guarded(cls):
    outside = ORDERED[cls](a=1.0, b=np.ones(2), c=3.0)
    entries = vars(outside) if cls == "namespace" else outside

    def f(x):
        items = vars(outside) if cls == "namespace" else outside
        return sum((i + 1) * np.sum(v) * x for i, v in enumerate(items.values()))

    compiled = ad.jit(f)
    for _ in range(4):
        assert compiled(1.5) == f(1.5)
        entries["a"] = entries.pop("a")
        assert compiled(1.5) == f(1.5)
        if cls == "OrderedDict":
            entries.move_to_end("b")
            assert compiled(1.5) == f(1.5)
    assert len(compiled.specializations[next(iter(compiled.specializations))]) <= 6


@pytest.mark.parametrize(("count", "is_compiled"), [(17, True), (18, True), (19, False), (60, False)])
def test_a_limit_of_places(count, is_compiled, monkeypatch):
    monkeypatch.setattr("adjoint.staging.reads.MOST_PLACES", 22)  # code, list, builtin and no global of its name, and the arrays
    arrays = [np.full(2, float(i)) for i in range(count)]
    f = ad.jit(lambda x: sum(a * x for a in arrays))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(f(2.0), np.full(2, count * (count - 1.0)))
    assert ("reads from more than 22 outside places" in "".join(str(w.message) for w in found)) == (not is_compiled)


@pytest.mark.parametrize("count", [1, FEW_NAMES, FEW_NAMES + 1, 30])
@pytest.mark.parametrize("owner", ["class", "base"])
def test_an_attribute_that_a_class_gains(count, owner):
    base = type("Base", (), {})
    settings = type("Settings", (base,), {})
    names = [f"rate{i}" for i in range(count)]
    lines = "".join(f"    if hasattr(settings, {name!r}): x = x * getattr(settings, {name!r})\n" for name in names)
    space = {"settings": settings}
    exec(f"def f(x):\n{lines}    return x + 1.0\n", space)
    compiled = ad.jit(space["f"])
    assert compiled(2.0) == 3.0
    setattr(settings if owner == "class" else base, names[-1], 5.0)
    assert compiled(2.0) == 11.0


class _Rated(type):
    rate = 1.0


class _Model(metaclass=_Rated):
    pass


def test_attributes_of_a_metaclass_are_compared():
    f = ad.jit(lambda x: _Model.rate * x)
    assert f(2.0) == 2.0
    _Rated.rate = 3.0
    try:
        assert f(2.0) == 6.0
    finally:
        _Rated.rate = 1.0


def test_a_class_registered_later_is_dispatched_to():
    @functools.singledispatch
    def scaled(x):
        return x * 1.0

    f = ad.jit(lambda x: scaled(x))
    assert f(2.0) == 2.0
    scaled.register(float)(lambda x: x * 3.0)
    assert f(2.0) == 6.0
    scaled.register(float)(lambda x: x * 4.0)
    assert f(2.0) == 8.0


def test_weak_tables_and_memory_of_ctypes_are_refused():
    class Owner:
        v = 1.0

    owner = Owner()
    table, memory = weakref.WeakValueDictionary(a=owner), (ctypes.c_double * 2)(1.0, 2.0)
    for f, change in (
        (lambda x: x * table["a"].v, lambda: setattr(owner, "v", 5.0)),
        (lambda x: x * memory[0], lambda: operator.setitem(memory, 0, 5.0)),
    ):
        compiled = ad.jit(f)
        with pytest.warns(CompileWarning, match="whose changes cannot be detected"):
            assert compiled(2.0) == 2.0
        change()
        assert compiled(2.0) == 10.0
