"""Stand-ins: what a staged function sees in place of objects that it may name but not use, such as the clock or a random
generator."""

from __future__ import annotations

import datetime
import os
import time
import types
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..core.errors import UnsupportedError
from ..core.home import OWN
from .purity import GENERATORS, refused

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


class Library(types.ModuleType):
    """A module, some parts of which are refused."""

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
        return Library(x) if x.__name__ in _STOOD_IN else x
    if x is datetime.datetime:
        return _Datetime
    if x is datetime.date:
        return _Date
    if id(x) in _IMPURE:
        return Refused(x, _IMPURE[id(x)], name)
    if isinstance(x, ContextVar):
        return Refused(x, "reads a context variable", name)
    drawn = getattr(x, "__self__", None) if isinstance(x, (types.BuiltinMethodType, types.MethodType)) else x
    if isinstance(drawn, GENERATORS):
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
