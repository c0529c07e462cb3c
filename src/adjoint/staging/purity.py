"""Purity: a staged function must not read files, the network, random numbers or the clock.

Anything read or drawn while a function is staged would be baked into the graph as a constant. Five checks detect it:

- Opening a file for reading, a connection, a process or input() is refused at once, by Python's audit events, with the line.
- Under `jit`, the clock, the environment and random generators that the function names are replaced by objects that raise
  when used (`stand_ins.py`): nothing is drawn, so the streams of the generators do not advance.
- Otherwise a draw changes the state of a generator: those of `random` and `np.random`, and those that the function can reach by
  name (`reach.py`), are compared.
- A generator that is created without a seed asks the system for one, and so does `secrets`: refused at once. So is a question
  about a file, which has no audit event.
- A constant with many digits makes `ad.graph` stage the function a second time; if it differs then, it came from elsewhere. This
  detects the clock.

Imports, source lines for messages, and files opened for writing only (a log) are allowed.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..core.errors import UnsupportedError
from ..core.locks import lock
from ..ir.graph import Equation, Graph, Literal
from .reach import is_ours, reached

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
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))

#: The refusals of the current staging; None outside staging.
_staging: ContextVar[list[UnsupportedError] | None] = ContextVar("adjoint_staging", default=None)
_hooks: list[Any] = []
_lock = lock()


def _hook(event: str, args: tuple[Any, ...], events: dict[str, str] = _EVENTS) -> None:  # globals are gone at the end
    if event in events and _staging is not None and _staging.get() is not None and not (event == "open" and _is_harmless(*args)):
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


def _line(frame: types.FrameType | None, libraries: bool = True) -> str | None:
    """The user's line of an event, or one of a library that adjoint calls; None if Python or adjoint caused it."""
    own = library = None
    while frame is not None and not is_ours(frame.f_globals.get("__name__", "")):
        if frame.f_globals.get("__name__") in _READERS:
            return None
        name = frame.f_code.co_filename
        line = f"{os.path.basename(name)}:{frame.f_lineno}"
        if name.startswith((*_LIBRARIES, "<frozen ")):
            library = library or line
        else:
            own = own or line
        frame = frame.f_back
    return own or (library if libraries else None)


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


@contextmanager
def unwatched() -> Iterator[None]:
    """While this is open, the running code may read what it likes: its result is asked for again at each call."""
    token = _staging.set(None)
    try:
        yield
    finally:
        _staging.reset(token)


# -- seeds from the system, questions about files ---------------------------------------------------------------


class _Sources:
    """The system's sources of random bits, and what tells about files; replaced by refusals while something is staged."""

    def __init__(self) -> None:
        self.of_system = [(os, "urandom")]
        self.of_system += [(os, "getrandom")] if hasattr(os, "getrandom") else []
        self.of_system += [(os, name) for name in ("stat", "lstat", "access", "readlink", "statvfs") if hasattr(os, name)]
        self.places: list[tuple[Any, str]] = []
        self.originals: list[Any] = []
        self.watches = 0

    def __enter__(self) -> None:
        with _lock:
            if not self.watches:
                random = sys.modules.get("random")  # np.random.default_rng() and secrets go through its `_urandom`
                self.places = self.of_system + ([] if random is None else [(random, "_urandom"), (random.Random, "seed")])
                self.originals = [getattr(owner, name) for owner, name in self.places]
                for (owner, name), original in zip(self.places, self.originals, strict=True):
                    setattr(owner, name, _refusing(original) if "rand" in name or name == "seed" else _hiding(original))
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
        seeded = original.__name__ == "seed" and (kwargs.get("a") is not None or args[1:2] not in ((), (None,)))
        line = None if seeded or _staging.get() is None else _line(sys._getframe(1))
        if line is not None:
            raise refused(
                "the function that is staged draws random numbers, from a generator without a seed or from the system; make them "
                "before, and pass them as an argument",
                line,
            )
        return original(*args, **kwargs)

    return asked


def _hiding(original: Any) -> Any:
    """A question about a file, refused if staged code asks it, and not adjoint or Python on their own account."""

    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        line = None if _staging.get() is None else _line(sys._getframe(1), libraries=False)
        if line is not None:
            what = _EVENTS["open"].format(*args[:1])
            raise refused(f"the function that is staged {what}; do it before, and pass the result as an argument", line)
        return original(*args, **kwargs)

    return asked


# -- random numbers ---------------------------------------------------------------------------------------------


class Draws:
    """Detects whether generators have advanced since this was made: the global ones, and those that f can reach.

    `random` and `numpy.random` are looked for among the loaded modules: they take longer to load than a short program to stage.
    """

    def __init__(self, f: Any) -> None:
        self.shared = _loaded(_SHARED)
        self.generators = [x for x in reached(f) if is_generator(x) and not isinstance(x, tuple(_loaded(_STATELESS)))]
        self.generators += self.shared
        self.before = self.states()

    @property
    def is_blind(self) -> bool:
        """Whether a module of generators was loaded meanwhile, so that draws from its global one are not known."""
        return len(_loaded(_SHARED)) != len(self.shared)

    def states(self) -> list[Any]:
        return [pickle.dumps(state_of(generator)) for generator in self.generators]

    @property
    def happened(self) -> bool:
        """Whether one has advanced. Another thread may have advanced it: see `is_alone`."""
        return self.states() != self.before

    def undo(self) -> None:
        """Restore the generators, so that an eager run of the function draws the same numbers."""
        if is_alone():  # else draws of other threads would be repeated
            self.put_back(self.before)

    def put_back(self, states: list[Any]) -> None:
        for generator, state in zip(self.generators, states, strict=True):
            set_state(generator, pickle.loads(state))

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """What runs inside draws the same numbers again; afterwards the generators continue where they were."""
        now = self.states()
        self.put_back(self.before)
        try:
            yield
        finally:
            self.put_back(now)


_GENERATORS = (("random", "Random"), ("numpy.random._generator", "Generator"), ("numpy.random.mtrand", "RandomState"))
_SHARED = (("random", "_inst"), ("numpy.random.mtrand", "_rand"))  # behind `random.random()` and `np.random.normal()`
_STATELESS = (("random", "SystemRandom"),)


def _loaded(names: Iterable[tuple[str, str]]) -> list[Any]:
    """Objects of modules, as far as these are loaded: a generator exists only then."""
    return [found for module, name in names if (found := getattr(sys.modules.get(module), name, None)) is not None]


def is_generator(x: Any) -> bool:
    """Whether x is a random generator of Python or NumPy."""
    return isinstance(x, tuple(_loaded(_GENERATORS)))


def state_of(generator: Any) -> Any:
    if hasattr(generator, "getstate"):  # of Python
        return generator.getstate()
    return generator.get_state(legacy=False) if hasattr(generator, "get_state") else generator.bit_generator.state


def set_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


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
    if draws.is_blind:
        return pure(f, stage)
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
