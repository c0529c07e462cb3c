"""Impure functions are refused with the user's line; pure functions that look similar are not."""

import array
import collections
import decimal
import functools
import io
import logging
import os
import queue
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import types
import uuid
import warnings
import weakref
from logging import getLogger
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import LeakError, UnsupportedError

HERE = os.path.basename(__file__)
RNG = np.random.default_rng(0)
X = np.ones(3)


def refused(f, *words, offset=1):
    """Staging f raises, naming the line `offset` behind the one it is defined in."""
    with pytest.raises(UnsupportedError) as caught:
        ad.graph(f)(X)
    line = f.__code__.co_firstlineno + offset
    message = str(caught.value)
    assert message.endswith(f"({HERE}:{line})"), message
    assert message.count(HERE) == 1
    for word in words:
        assert word in message


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1.5 2.5 3.5\n")
    return path


# -- files ------------------------------------------------------------------------------------------------------


def test_file_read(data):
    def by_open(x):
        with open(data) as file:
            return x * float(file.read())

    def by_numpy(x):
        return x * np.loadtxt(data)

    def by_bytes(x):
        return x * np.fromfile(data, np.uint8)[0]

    def by_path(x):
        return x * len(Path(data).read_text())

    def by_descriptor(x):
        return x * os.open(data, os.O_RDONLY)

    def listed(x):
        return x * len(os.listdir(data.parent))

    for f in (by_open, by_numpy, by_bytes, by_path, by_descriptor):
        refused(f, "reads the file", "data.txt", "pass the result as an argument")
    refused(listed, "lists the folder")


def test_file_read_inside_a_derivative(data):
    def f(x):
        return np.sum(x * np.loadtxt(data))

    with pytest.raises(UnsupportedError, match="reads the file"):
        ad.graph(ad.grad(f))(X)
    ad.grad(f)(X)  # eager derivatives may read what they like


def test_other_doors():
    def by_question(x):
        return x * float(input())

    def by_process(x):
        return x * len(subprocess.run([sys.executable, "-V"], check=True).args)

    refused(by_question, "asks the user")
    refused(by_process, "runs the program")


def test_writing_importing_and_warning_are_let_through(data, tmp_path, monkeypatch, recwarn):
    (tmp_path / "module_that_reads.py").write_text(f"VALUE = float(open({str(data)!r}).read().split()[0])\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import module_that_reads

        with open(tmp_path / "log", "a") as file:
            file.write("staged\n")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("careful", stacklevel=1)  # prints this line, from the file
        return x * module_that_reads.VALUE

    np.testing.assert_array_equal(ad.graph(f)(X)(X), 1.5 * X)


@pytest.mark.parametrize("what", [lambda data: data.read_text(), lambda data: np.random.default_rng().integers(3)])
def test_only_the_staging_code_is_watched(data, what):
    """Reading and drawing are allowed in another thread meanwhile."""
    found, inside, go = [], threading.Event(), threading.Event()

    def elsewhere():
        inside.wait(10)
        found.append(what(data))
        go.set()

    def f(x):
        inside.set()
        assert go.wait(10)
        return x * 2.0

    thread = threading.Thread(target=elsewhere)
    thread.start()
    ad.graph(f)(X)
    thread.join()
    assert len(found) == 1


# -- random numbers ---------------------------------------------------------------------------------------------


class Model:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def loss(self, x):
        return x * self.rng.normal()


def drawn_late(x):
    import random  # a module that is loaded while the function is staged

    return x * random.random()


def test_draws_from_a_module_that_is_loaded_meanwhile(monkeypatch):
    monkeypatch.delitem(sys.modules, "random")
    with pytest.raises(UnsupportedError, match="draws random numbers"):
        ad.graph(drawn_late)(X)
    monkeypatch.delitem(sys.modules, "random")
    with pytest.raises(UnsupportedError, match="draws random numbers"):
        ad.scan(lambda c, x: (drawn_late(c), None), 1.0, X)
    monkeypatch.delitem(sys.modules, "random")
    with pytest.warns(CompileWarning, match="draws random numbers"):
        ad.jit(drawn_late)(X)


def test_a_module_of_generators_that_is_loaded_meanwhile_and_not_used(monkeypatch):
    def f(x):
        import random  # noqa: F401

        return 2 * x

    for run in (lambda x: ad.graph(f)(x)(x), ad.jit(f), lambda x: ad.scan(lambda c, _: (f(c), None), x, X[:1])[0]):
        monkeypatch.delitem(sys.modules, "random")
        np.testing.assert_array_equal(run(X), 2 * X)
        assert "random" in sys.modules


def test_random_draws():
    state = np.random.RandomState(0)
    dice = random.Random(0)

    def by_numpy(x):
        return x + np.random.rand()

    def by_python(x):
        return x + random.random()

    def by_global_generator(x):
        return x * RNG.normal(size=3)

    def by_closure(x):
        return x * state.normal()

    def by_own_dice(x):
        return x * dice.random()

    def by_default(x, rng=RNG):
        return x * rng.normal()

    def whole_numbers(x):
        return x * RNG.integers(2**40)

    for f in (by_numpy, by_python, by_global_generator, by_closure, by_own_dice, whole_numbers):
        refused(f, "draws random numbers", "pass them as an argument", repr(f.__name__))
    refused(by_default, "draws random numbers")
    with pytest.raises(UnsupportedError, match=r"'loss'.* draws random numbers"):
        ad.graph(Model().loss)(X)
    with pytest.raises(UnsupportedError, match=r"'by_numpy'.* draws random numbers"):
        ad.graph(ad.jacobian(by_numpy))(X)


def test_a_draw_that_decides_is_named_by_the_function():
    def f(x):
        return x if RNG.random() < 2 else -x

    refused(f, "draws random numbers", offset=0)


def drawn_elsewhere(x):
    return x * RNG.integers(3)


class Layers:
    def __init__(self):
        self.parts = [{"noise": np.random.default_rng(0)}]

    def drop(self, x):
        return x * self.parts[0]["noise"].integers(3)

    def of_another(self, x):
        return drawn_elsewhere(x)


def test_draws_of_functions_and_objects_that_are_reached():
    layers = Layers()

    def by_function(x):
        return drawn_elsewhere(x)

    def by_object(x):
        return layers.drop(x)

    def by_method(x):
        return layers.of_another(x)

    def by_inner_function(x):
        return (lambda y: y * RNG.integers(3))(x)

    for f in (by_function, by_object, by_method, by_inner_function):
        with pytest.raises(UnsupportedError, match="draws random numbers"):
            ad.graph(f)(X)


def test_seeds_from_the_system():
    """A small number, or a branch, says nothing about where it comes from; the generator does."""

    def by_numpy(x):
        return x * np.random.default_rng().integers(3)

    def by_branch(x):
        return x if np.random.Generator(np.random.PCG64()).random() < 0.5 else -x

    def by_legacy(x):
        return x * np.random.RandomState().randint(3)

    def by_python(x):
        return x * random.Random().randrange(3)

    def by_system(x):
        return x * random.SystemRandom().randrange(3)

    def by_secrets(x):
        return x * secrets.randbelow(3)

    def by_bytes(x):
        return x * (os.urandom(1)[0] % 3)

    def by_name(x):
        return x * (uuid.uuid4().int % 3)

    for f in (by_numpy, by_branch, by_legacy, by_python, by_system, by_secrets, by_bytes, by_name):
        refused(f, "draws random numbers", "pass them as an argument")
        with pytest.warns(CompileWarning, match="draws random numbers"):
            ad.jit(f)(X)


def test_seeds_are_there_again():
    sources = os.urandom, random._urandom, random.Random.seed

    def unseeded(x):
        return x * np.random.default_rng().integers(3)

    with pytest.raises(UnsupportedError):
        ad.graph(lambda x: ad.graph(unseeded)(X)(x))(X)  # one staging in another
    assert (os.urandom, random._urandom, random.Random.seed) == sources
    assert len(secrets.token_bytes(8)) == 8
    np.random.default_rng().integers(3)


def test_seeds_that_are_given_and_names_of_temporary_files(tmp_path):
    def f(x):
        with tempfile.NamedTemporaryFile("w", dir=tmp_path) as log:
            log.write("staged")
        return x * random.Random(3).randrange(5) * np.random.default_rng(4).integers(5) * random.Random(x=3).randrange(5)

    np.testing.assert_array_equal(ad.graph(f)(X)(X), f(X))


def test_the_clock_and_counters():
    def clock(x):
        return x * time.time()

    numbers = iter(np.linspace(0.1, 1, 1001) ** 0.5)

    def counted(x):
        return x * next(numbers)

    def ticks(x):
        return x * time.monotonic_ns()

    seeds = iter(range(100))

    def shuffled(x):
        return x[np.random.default_rng(next(seeds)).permutation(30) % 3]

    def dropped(x):
        return np.sum(np.where(np.random.default_rng(next(seeds)).random((40, 1)) < 0.5, x, 0.0))

    for f in (clock, counted, ticks, shuffled, dropped):
        refused(f, "other constants each time")


def test_repeatable_numbers_are_not_draws():
    calls = []

    def f(x):
        calls.append(1)
        return x * np.random.default_rng(0).normal() + np.pi * np.linspace(0, 1, 3)

    np.testing.assert_array_equal(ad.graph(f)(X)(X), f(X))
    assert len(calls) == 3  # staged twice, since nobody knows where such numbers come from
    calls.clear()
    ad.graph(lambda x: calls.append(1) or 0.5 * x + np.arange(3.0) / 4 + x[np.array([2, 1, 0])] * 1000)(X)
    assert calls == [1]


# -- leaked values ----------------------------------------------------------------------------------------------


def test_leaked_values():
    kept = []
    ad.graph(lambda x: kept.append(x) or x * 2)(X)

    def alone(x):
        return np.sin(kept[0])

    def together(x):
        return x * kept[0]

    for f in (alone, together):
        with pytest.raises(LeakError) as caught:
            ad.graph(f)(X)
        assert str(caught.value).endswith(f"({HERE}:{f.__code__.co_firstlineno + 1})")
    with pytest.raises(LeakError):
        ad.graph(lambda x: kept[0])(X)
    with pytest.raises(LeakError):
        np.sin(kept[0])


def test_a_value_of_a_running_transform():
    def f(x):
        return np.sum(ad.graph(lambda y: y * x)(X)(X))

    with pytest.raises(UnsupportedError, match=r"traced by grad is used inside graph.*test_purity.py"):
        ad.grad(f)(X)


#: What a function asks Python's library for, and what changes the answer.
FILTER = ("ignore", None, BytesWarning, None, 0)
STATE = {
    "a file": (lambda p: float(os.path.exists(p)), lambda p: open(p, "w").close()),
    "a path": (lambda p: float(Path(p).exists()), lambda p: open(p, "w").close()),
    "arguments": (lambda p: float(len(sys.argv)), lambda p: sys.argv.append(p)),
    "modules": (lambda p: float(p in sys.modules), lambda p: sys.modules.update({p: sys})),
    "the recursion limit": (
        lambda p: float(sys.getrecursionlimit()),
        lambda p: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
    ),
    "decimal": (lambda p: float(decimal.getcontext().prec), lambda p: setattr(decimal.getcontext(), "prec", 30)),
    "an event": (lambda p: float(EVENT.is_set()), lambda p: EVENT.set()),
    "print options": (lambda p: float(np.get_printoptions()["precision"]), lambda p: np.set_printoptions(precision=5)),
    "decimal numbers": (lambda p: float(decimal.Decimal(1) / 3), lambda p: setattr(decimal.getcontext(), "prec", 3)),
    "a decimal number": (lambda p: float(ONE / 3), lambda p: setattr(decimal.getcontext(), "prec", 4)),
    "a lock": (lambda p: float(LOCK.locked()), lambda p: LOCK.acquire()),
    "a lock that is tried": (lambda p: float(LOCK.acquire(blocking=False)), lambda p: None),
    "a lock of a thread": (lambda p: float(RECURSIVE._is_owned()), lambda p: RECURSIVE.acquire()),
    "a semaphore": (lambda p: float(SEMAPHORE._value), lambda p: SEMAPHORE.acquire()),
    "the level of a logger": (lambda p: float(LOGGER.level), lambda p: LOGGER.setLevel(17)),
    "whether it logs": (lambda p: float(LOGGER.isEnabledFor(11)), lambda p: LOGGER.setLevel(11)),
    "a logger by name": (lambda p: float(logging.getLogger("test_purity").level), lambda p: LOGGER.setLevel(18)),
    "a logger by a function": (lambda p: float(getLogger("test_purity").getEffectiveLevel()), lambda p: LOGGER.setLevel(19)),
    "the length of globals": (lambda p: float(len(globals())), lambda p: globals().update({p: p})),
    "all globals": (lambda p: float(sum(1 for _ in globals())), lambda p: globals().update({p: p})),
    "a global by name": (lambda p: float(globals().get(p, 2.0)), lambda p: globals().update({p: 5.0})),
    "filters of warnings": (
        lambda p: float(len(warnings.filters)),
        lambda p: warnings.filters.append(FILTER),
    ),
    "a memo": (lambda p: float(remembered.cache_info().misses), lambda p: remembered(p)),
    "the id of a list": (lambda p: float(id(SOME)), lambda p: globals().update(SOME=[1.0])),
    "the size of buffers": (lambda p: float(np.getbufsize()), lambda p: np.setbufsize(np.getbufsize() + 1024)),
    "a queue": (lambda p: float(QUEUE.qsize()), lambda p: QUEUE.put(1)),
    "a deque": (lambda p: float(len(DEQUE)), lambda p: DEQUE.append(1)),
    "an array": (lambda p: float(ARRAY[0]), lambda p: ARRAY.insert(0, 7.0)),
    "a view of keys": (lambda p: float(len(VIEW)), lambda p: ENTRIES.update({p: 1})),
    "a weak reference": (lambda p: float(WEAK() is None), lambda p: HELD.clear()),
    "attributes": (lambda p: float(len(vars(SPACE))), lambda p: setattr(SPACE, p, 1)),
    "text in memory": (lambda p: float(TEXT.tell()), lambda p: TEXT.write("more")),
}
EVENT = threading.Event()
LOCK, RECURSIVE, SEMAPHORE = threading.Lock(), threading.RLock(), threading.Semaphore(5)
LOGGER, ONE, SOME = logging.getLogger("test_purity"), decimal.Decimal(1), [1.0]
QUEUE, DEQUE, ARRAY, TEXT = queue.Queue(), collections.deque([1]), array.array("d", [1.0]), io.StringIO()
ENTRIES, SPACE, HELD = {"a": 1}, types.SimpleNamespace(v=1), [{1, 2}]
VIEW, WEAK = ENTRIES.keys(), weakref.ref(HELD[0])


@functools.lru_cache
def remembered(p):
    return p


@pytest.mark.parametrize("name", STATE)
def test_state_of_the_process_is_not_baked_in(name, tmp_path, monkeypatch):
    ask, change = STATE[name]
    place = str(tmp_path / "new")
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    limit, buffers = sys.getrecursionlimit(), np.getbufsize()
    f = ad.jit(lambda x: x + ask(place))
    try:
        with decimal.localcontext(), np.printoptions(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = f(0.0)
            assert before == ask(place) or name == "a lock that is tried"
            change(place)
            found = f(0.0)
            assert found == ask(place) != before
    finally:
        if FILTER in warnings.filters:  # the contexts of the free-threaded build do not restore the list
            warnings.filters.remove(FILTER)
        np.setbufsize(buffers)
        globals().pop(place, None)
        if LOCK.locked():
            LOCK.release()
        sys.setrecursionlimit(limit)
        sys.modules.pop(place, None)
        EVENT.clear()


def test_the_running_thread_is_not_baked_in():
    from threading import get_ident  # the function itself, without its module

    found = []
    for ask in (lambda: threading.get_ident(), lambda: get_ident(), lambda: threading.current_thread().ident):
        f = ad.jit(lambda x, ask=ask: x + float(ask()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(0.0)
            other = threading.Thread(target=lambda f=f: found.append((f(0.0), float(get_ident()))))
            other.start()
            other.join()
    assert all(a == b for a, b in found)
    assert len(found) == 3


#: What is done for its effect alone, or gives the same at each call: such functions are compiled.
EFFECTS = {
    "with a lock": lambda x: [LOCK.__enter__(), LOCK.__exit__(None, None, None), 2 * x][-1],
    "a lock": lambda x: [LOCK.acquire(), LOCK.release(), 2 * x][-1],
    "a condition": lambda x: [CONDITION.acquire(), CONDITION.notify_all(), CONDITION.release(), 2 * x][-1],
    "a logger": lambda x: [LOGGER.debug("called"), logging.getLogger("test_purity").info("called"), 2 * x][-1],
    "a memo": lambda x: remembered(2.0) * x,
    "a decimal number": lambda x: x * float(2 * ONE),
    "a global by name": lambda x: x * globals().get("TWO", 1.0),
    "the id of its own": lambda x: x * len({id(None), id(True)}),
}
CONDITION, TWO = threading.Condition(), 2.0


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_without_a_result_are_compiled(name):
    f = ad.jit(EFFECTS[name])
    assert [f(1.0), f(3.0)] == [2.0, 6.0]
    assert not f.eager
