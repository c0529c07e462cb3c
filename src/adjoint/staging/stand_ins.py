"""Stand-ins: what a staged function sees in place of objects that it may name but not use, such as the clock or a random
generator."""

from __future__ import annotations

import datetime
import os
import sys
import threading
import types
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..core.errors import UnsupportedError
from ..core.home import package_of
from .purity import is_generator, refused

_CLOCK = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time thread_time_ns "
    "localtime gmtime ctime asctime clock_gettime clock_gettime_ns"
)
#: What the functions and variables of Python's library read that are refused, by module. Those of a platform may be missing.
_READS = {
    "time": {_CLOCK: "reads the clock"},
    "uuid": {"uuid1": "reads the clock"},
    "os": {
        "environ environb getenv getenvb getcwd getcwdb getpid getppid umask get_terminal_size": "reads the environment",
        "times getloadavg": "reads the clock",
    },
    "resource": {"getrusage getrlimit": "reads the state of the process"},
    "threading": {"get_ident get_native_id current_thread active_count enumerate": "asks for the running thread"},
    "sys": {
        "argv path modules": "reads the state of the interpreter",
        "getrecursionlimit getrefcount getswitchinterval gettrace getprofile": "reads the state of the interpreter",
    },
    "gc": {"isenabled get_count get_objects get_referrers get_stats get_threshold": "reads the state of the interpreter"},
    "signal": {"getsignal": "reads the state of the process"},
    "locale": {"getlocale localeconv setlocale getpreferredencoding": "reads the locale"},
    "decimal": {"getcontext": "reads the context of decimal numbers"},
    "numpy": {
        "get_printoptions": "reads the print options",
        "getbufsize": "reads the size of buffers",
        "geterr geterrcall": "reads NumPy's modes for floating-point errors",
        "seterr seterrcall setbufsize": "changes NumPy's modes for floating-point errors; np.errstate does so for a while",
    },
    "warnings": {"filters": "reads the filters of warnings"},
}
#: What may be done with objects of a package, since it does not affect the result. Their other attributes are refused.
_EFFECTS = {
    "logging": "debug info warning warn error exception critical fatal log name",
    "threading": "acquire release notify notify_all",
    "_thread": "acquire release",
    "tqdm": "update set_description set_postfix set_postfix_str refresh write clear close display",
    "functools": "__name__ __doc__",  # of a memo
}
IMPURE = {(module, name): what for module, parts in _READS.items() for names, what in parts.items() for name in names.split()}


def _refused_function(x: Any) -> str | None:
    """What a function of Python's library reads that is refused, under whatever name the caller knows it."""
    called = getattr(x, "__name__", None) if isinstance(x, (types.FunctionType, types.BuiltinFunctionType)) else None
    for module in _READS if called is not None else ():
        if (module, called) in IMPURE and getattr(sys.modules.get(module), called, None) is x:  # type: ignore[arg-type]
            return IMPURE[module, called]  # type: ignore[index]
    return None


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

    def __eq__(self, other: object) -> bool:
        raise self._adjoint_refuse()

    __hash__ = object.__hash__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._adjoint_real)


class Partly(Refused):
    """A replacement for an object that may be used for its effects, but not asked for its state."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._adjoint_real(*args, **kwargs)

    def __enter__(self) -> Any:
        return self._adjoint_real.__enter__()

    def __exit__(self, *exc: object) -> Any:
        return self._adjoint_real.__exit__(*exc)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._adjoint_real, name)
        asked = Refused(value, self._adjoint_what, f"{self._adjoint_name}.{name}")
        if name == "acquire":  # whether it succeeds is known only if it waits
            return lambda *args, **options: asked() if args or options else value()
        if name in _EFFECTS[package_of(type(self._adjoint_real).__module__)].split():
            return value
        if callable(value) and not isinstance(value, type):
            return asked
        raise asked._adjoint_refuse()


def _logger(name: str | None = None) -> Any:
    return stand_in(sys.modules["logging"].getLogger(name), "logging.getLogger()")


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
    if x is datetime.datetime:
        return _Datetime
    if x is datetime.date:
        return _Date
    if isinstance(x, os._Environ):
        return Refused(x, "reads the environment", name)
    what = _refused_function(x)
    if what is not None:
        return Refused(x, what, name)
    if isinstance(x, ContextVar):
        return Refused(x, "reads a context variable", name)
    if isinstance(x, threading.Event):
        return Refused(x, "reads a signal between threads", name)
    if "logging" in sys.modules and x is sys.modules["logging"].getLogger:
        return _logger
    package = package_of(type(x).__module__)
    if package in _EFFECTS and package != "functools" and not isinstance(x, (type, threading.local)):
        return Partly(x, f"reads the state of a {type(x).__name__}", name)
    drawn = getattr(x, "__self__", None) if isinstance(x, (types.BuiltinMethodType, types.MethodType)) else x
    if is_generator(drawn):
        return Refused(x, "draws random numbers", name)
    return x


_static: dict[int, Any] = {}  # by id; kept alive, so that the id stays unique


def static(x: Any) -> Any:
    """Mark an object as constant: a compiled function that reads it bakes it in.

    >>> import numpy as np
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
