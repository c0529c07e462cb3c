"""Purity: a staged function must not read files, the network, random numbers or the clock.

Anything read or drawn while a function is staged would be baked into the graph as a constant. Five checks detect it:

- a file that is opened for reading, a connection, a process or input() is refused at once, by Python's audit events, with the
line;
- under `jit`, the clock, the environment and random generators that the function names are replaced by objects that refuse to
  be used (`stand_in`): nothing is drawn, so the streams of the generators do not move;
- otherwise a draw changes the state of a generator: those of `random` and `np.random`, and those that
  the function can reach by name (in closures, globals, objects and containers, those of functions it calls included);
- a generator that is made without a seed asks the system for one, and so does `secrets`: refused at once;
- a constant with many digits makes `ad.graph` stage the function a second time; if it differs then, it came from elsewhere. This
detects the clock.

Imports, source lines for messages, and files opened for writing only (a log) are allowed.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import itertools
import os
import pickle
import random
import sys
import sysconfig
import threading
import time
import types
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..core.errors import UnsupportedError
from ..core.home import OWN, package_of
from ..core.locks import lock
from ..ir.graph import Equation, Graph, Literal

G = TypeVar("G", bound=Graph)

# -- files, connections, processes ------------------------------------------------------------------------------

_EVENTS = {
    "open": "reads the file {!r}",
    "os.listdir": "lists the folder {!r}",
    "os.scandir": "lists the folder {!r}",
    "socket.connect": "opens a connection",
    "subprocess.Popen": "runs the program {!r}",
    "os.system": "runs the program {!r}",
    "builtins.input": "asks the user",
}
#: Reads by Python itself: of modules, and of source lines for a warning or a traceback.
#: And the names of temporary files.
_READERS = frozenset({"importlib._bootstrap", "importlib._bootstrap_external", "zipimport", "linecache", "warnings", "tempfile"})
LIBRARY_NAMES = frozenset({*sys.stdlib_module_names, "numpy", "scipy", OWN})
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))

#: The refusals of the current staging; None outside staging.
_staging: ContextVar[list[UnsupportedError] | None] = ContextVar("adjoint_staging", default=None)
_hooks: list[Any] = []
_lock = lock()


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in _EVENTS and _staging.get() is not None and not (event == "open" and _is_harmless(*args)):
        line = _line(sys._getframe(1))
        if line is not None:
            what = _EVENTS[event].format(*args[:1])
            raise refused(f"the function that is staged {what}; do it before, and pass the result as an argument", line)


def refused(message: str, line: str | None = None) -> UnsupportedError:
    """The error that refuses an effect. It is recorded, so that a function that catches it is refused anyway."""
    error = UnsupportedError(message, line)
    refusals = _staging.get()
    if refusals is not None:
        refusals.append(error)
    return error


def _is_harmless(path: Any, mode: str | None, flags: int) -> bool:
    if isinstance(path, int):  # an open descriptor
        return True
    if isinstance(mode, str):
        return "r" not in mode and "+" not in mode
    return isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY


def _line(frame: types.FrameType | None) -> str | None:
    """The user's line of an event, rather than one of a library it calls; None if Python or adjoint caused it."""
    own = library = None
    while frame is not None and package_of(frame.f_globals.get("__name__", "")) != OWN:
        if frame.f_globals.get("__name__") in _READERS:
            return None
        name = frame.f_code.co_filename
        line = f"{os.path.basename(name)}:{frame.f_lineno}"
        if name.startswith((*_LIBRARIES, "<frozen ")):
            library = library or line
        else:
            own = own or line
        frame = frame.f_back
    return own or library


@contextmanager
def watched() -> Iterator[None]:
    """While this is open, outside reads of the running code are refused, as far as audit events report them."""
    with _lock:
        if not _hooks:
            _hooks.append(_hook)
            sys.addaudithook(_hook)  # audit hooks cannot be removed; this one is idle unless something is staged
    refusals: list[UnsupportedError] = []
    token = _staging.set(refusals)
    try:
        with _sources:
            yield
    finally:
        _staging.reset(token)
    if refusals:
        raise refusals[0]


# -- seeds from the system --------------------------------------------------------------------------------------

_SEED = random.Random.seed


class _Sources:
    """The system's sources of random bits; replaced by refusals while something is staged."""

    def __init__(self) -> None:
        # np.random.default_rng() and secrets go through the second.
        self.places = [(os, "urandom"), (random, "_urandom"), (random.Random, "seed")]
        self.places += [(os, "getrandom")] if hasattr(os, "getrandom") else []
        self.originals: list[Any] = []
        self.watches = 0

    def __enter__(self) -> None:
        with _lock:
            if not self.watches:
                self.originals = [getattr(owner, name) for owner, name in self.places]
                for (owner, name), original in zip(self.places, self.originals, strict=True):
                    setattr(owner, name, _refusing(original))
            self.watches += 1

    def __exit__(self, *_: object) -> None:
        with _lock:
            self.watches -= 1
            if not self.watches:
                for (owner, name), original in zip(self.places, self.originals, strict=True):
                    setattr(owner, name, original)


_sources = _Sources()


def _refusing(original: Any) -> Any:
    """A source of random bits that refuses staged code; other threads use it as usual."""

    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        seeded = original is _SEED and (kwargs.get("a") is not None or args[1:2] not in ((), (None,)))
        line = None if seeded or _staging.get() is None else _line(sys._getframe(1))
        if line is not None:
            raise refused(
                "the function that is staged draws random numbers, from a generator without a seed or from the system; make them "
                "before, and pass them as an argument",
                line,
            )
        return original(*args, **kwargs)

    return asked


# -- random numbers ---------------------------------------------------------------------------------------------

_MOST_HELD = 1000  # objects searched for generators


class Draws:
    """Detects whether generators have advanced since this was made: the global ones, and those that f can reach."""

    def __init__(self, f: Any) -> None:
        self.generators = [x for x in reached(f) if isinstance(x, _GENERATORS) and not isinstance(x, random.SystemRandom)]
        self.generators += [random._inst, np.random.mtrand._rand]  # type: ignore[attr-defined]
        self.before = self.states()

    def states(self) -> list[Any]:
        return [pickle.dumps(_state(generator)) for generator in self.generators]

    @property
    def happened(self) -> bool:
        """Whether one has advanced. Another thread may have advanced it: see `is_alone`."""
        return self.states() != self.before

    def undo(self) -> None:
        """Restore the generators, so that an eager run of the function draws the same numbers."""
        if is_alone():  # else draws of other threads would be repeated
            for generator, state in zip(self.generators, self.before, strict=True):
                _set_state(generator, pickle.loads(state))


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state(legacy=False)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


# -- stand-ins --------------------------------------------------------------------------------------------------

_CLOCK = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time thread_time_ns"
)
_IMPURE = {
    **{id(getattr(time, name)): "reads the clock" for name in (*_CLOCK.split(), "localtime", "gmtime", "ctime", "asctime")},
    **{id(x): "reads the environment" for x in (os.environ, os.environb, os.getenv, os.getcwd, os.getpid) if x is not None},
    id(uuid.uuid1): "reads the clock",
}
_STOOD_IN = frozenset({"numpy", "numpy.random", "random", "time", "os", "datetime", "uuid", f"{OWN}.numpy"})


class Refused:
    """A replacement for an object that a staged function may name but not use."""

    def __init__(self, real: Any, what: str, name: str) -> None:
        self._adjoint_real, self._adjoint_what, self._adjoint_name = real, what, name

    def _adjoint_refuse(self) -> UnsupportedError:
        return refused(
            f"the function that is staged {self._adjoint_what} ({self._adjoint_name}); do it before, and pass the result as an "
            f"argument, or write ad.static({self._adjoint_name}) to bake in its value at compile time"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._adjoint_refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(self._adjoint_real, name)
        return Refused(getattr(self._adjoint_real, name), self._adjoint_what, f"{self._adjoint_name}.{name}")

    def __getitem__(self, key: Any) -> Any:
        raise self._adjoint_refuse()

    def __contains__(self, key: Any) -> bool:
        raise self._adjoint_refuse()

    def __iter__(self) -> Iterator[Any]:
        raise self._adjoint_refuse()

    def __len__(self) -> int:
        raise self._adjoint_refuse()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._adjoint_real)


class _Library(types.ModuleType):
    """A module of which some parts are refused."""

    def __init__(self, real: types.ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        seen = self.__dict__[name] = stand_in(getattr(self._real, name), f"{self._real.__name__}.{name}")
        return seen


def _now(cls: Any, *_: Any) -> Any:
    raise refused("the function that is staged reads the clock; do it before, and pass the result as an argument")


class _Datetime(datetime.datetime):
    now = today = utcnow = classmethod(_now)  # type: ignore[assignment]


class _Date(datetime.date):
    today = classmethod(_now)  # type: ignore[assignment]


def stand_in(x: Any, name: str) -> Any:
    """The replacement that a staged function sees for an object that varies between calls; x itself if there is nothing to
    refuse."""
    if is_static(x):
        return x
    if isinstance(x, types.ModuleType):
        return _Library(x) if x.__name__ in _STOOD_IN else x
    if x is datetime.datetime:
        return _Datetime
    if x is datetime.date:
        return _Date
    if id(x) in _IMPURE:
        return Refused(x, _IMPURE[id(x)], name)
    if isinstance(x, ContextVar):
        return Refused(x, "reads a context variable", name)
    drawn = getattr(x, "__self__", None) if isinstance(x, (types.BuiltinMethodType, types.MethodType)) else x
    if isinstance(drawn, _GENERATORS):
        return Refused(x, "draws random numbers", name)
    return x


_static: dict[int, Any] = {}  # by id; kept alive, so that the id stays unique


def static(x: Any) -> Any:
    """Mark an object as constant: a compiled function that reads it bakes it in.

    >>> table = static(np.arange(3.0))

    Returns the object itself. Without the mark, arrays are read again at each call, numbers are checked, and objects whose
    changes cannot be detected (iterators, tables of other libraries, the clock) make the function run eagerly.
    """
    if isinstance(x, Refused):
        return x._adjoint_real
    if not isinstance(x, (int, float, complex, str, bytes, type(None))):
        _static[id(x)] = x
    return x


def is_static(x: Any) -> bool:
    return id(x) in _static


def reached(f: Any) -> Iterator[Any]:
    """The objects that a function can reach, nearest first: see `_contents`."""
    seen: set[int] = set()
    names: set[str] = set()
    waiting = deque([f])
    while waiting and len(seen) < _MOST_HELD:
        x = waiting.popleft()
        if id(x) not in seen and not isinstance(x, _PLAIN):
            seen.add(id(x))
            yield x
            waiting.extend(_contents(x, names))


_PLAIN = (int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype, np.ufunc, type(None))


def _contents(x: Any, names: set[str]) -> Iterator[Any]:
    """The contents of a function (closure, defaults, globals), of an object (attributes) or of a container.

    `names` collects the names that occur in functions: in a module, only these are searched.
    """
    if isinstance(x, types.FunctionType):
        named = set(names_in(x.__code__))
        names |= named
        yield from [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        if package_of(x.__globals__.get("__name__")) not in LIBRARY_NAMES:
            yield from [x.__globals__[name] for name in named if name in x.__globals__]
        yield from [cell.cell_contents for cell in x.__closure__ or () if cell != types.CellType()]  # empty cells are skipped
        yield getattr(x, "__wrapped__", None)
    elif isinstance(x, types.MethodType):
        yield from (x.__self__, x.__func__)
    elif isinstance(x, types.ModuleType):
        if package_of(x.__name__) not in LIBRARY_NAMES:
            yield from [vars(x)[name] for name in names if name in vars(x)]
    elif isinstance(x, dict):
        yield from itertools.islice(x.values(), _MOST_HELD)
    elif isinstance(x, (list, tuple, set, frozenset, deque)):
        yield from itertools.islice(x, _MOST_HELD)
    elif isinstance(x, functools.partial):
        yield from (x.func, x.args, x.keywords)
    elif not isinstance(x, type):
        attributes = getattr(x, "__dict__", None)  # which some objects generate
        held = attributes.values() if isinstance(attributes, dict) else ()
        ours = package_of(type(x).__module__) == OWN
        yield from [y for y in held if callable(y) or not ours]  # of a compiled function, not its programs
        for owner in type(x).__mro__:
            if package_of(owner.__module__) not in LIBRARY_NAMES:
                yield from [vars(owner)[name] for name in ("__call__", *names) if name in vars(owner)]


def names_in(code: types.CodeType) -> Iterator[str]:
    """The globals and attributes that code names, with that of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


# -- constants --------------------------------------------------------------------------------------------------

_DIGITS = 8  # a random number has more


def literals(graph: Graph) -> Iterator[tuple[Literal, Equation | None]]:
    """Every constant, with the equation that reads it."""
    for equation in graph.equations:
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                yield operand, equation
    for operand in graph.outputs:
        if isinstance(operand, Literal):
            yield operand, None


def is_suspect(graph: Graph) -> bool:
    """Whether a constant has so many digits that it may come from a generator or the clock."""
    seen: set[int] = set()
    for literal, _ in literals(graph):
        if id(literal.value) not in seen:
            seen.add(id(literal.value))
            if not _is_short(literal.value):
                return True
    return False


def _is_short(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fc":
            return _is_regular(value)
        return all(_is_short(x) for x in value.flat[:: 1 + value.size // 64].tolist())
    if isinstance(value, complex):
        return _is_short(value.real) and _is_short(value.imag)
    return len(repr(value).lstrip("-0.").partition("e")[0]) <= _DIGITS


def _is_regular(whole: Any) -> bool:
    """Whether integers or booleans have equal steps, or are few: not a permutation, nor a mask."""
    steps = np.diff(whole.ravel().astype(np.int64))
    return whole.size < 4 or bool(np.all(steps == steps[0]))


def difference(first: Graph, second: Graph) -> str | None:
    """The user's line at which two stagings of one function differ; '' if it has none, None if they are the same."""
    for a, b in zip(first.equations, second.equations, strict=False):
        if a.op is not b.op or a.inputs != b.inputs or a.types != b.types or _plain(a.params) != _plain(b.params):
            return a.line
    if len(first) != len(second) or first.outputs != second.outputs:
        return ""
    return None


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are compared: a function may be a new object each time and do the same."""
    return {name: value for name, value in params.items() if isinstance(value, (int, float, str, tuple, slice))}


# -- all of it --------------------------------------------------------------------------------------------------


def pure(f: Any, stage: Callable[[], G]) -> G:
    """The graph that `stage` makes of f, refused if f is impure."""
    draws = Draws(f)
    with watched():
        graph = stage()
    moved = draws.happened
    if not moved and not is_suspect(graph):
        return graph
    with watched():
        again = stage()
    line = difference(graph, again)
    drew = moved and (line is not None or is_alone())
    if drew or line is not None:
        draws.undo()
        what = "draws random numbers" if drew else "gives other constants each time it is run"
        raise UnsupportedError(
            f"the function {getattr(f, '__name__', '')!r} that is staged {what}, which the graph would hold as constants; make "
            "them before, and pass them as an argument",
            line or _definition(inspect.unwrap(f)),
        )
    return graph


def is_alone() -> bool:
    """Whether no other thread can have advanced a generator: then the function did."""
    return threading.active_count() == 1


def _definition(f: Any) -> str | None:
    """Where a function begins."""
    code = getattr(f, "__code__", None)
    return None if code is None else f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
