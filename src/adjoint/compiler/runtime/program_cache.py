"""The program cache: programs on disk, keyed by the staged graph. A second process stages the function and compiles nothing.

An entry has everything that machine code needs to run. The code itself is a separate entry, keyed by its text, so that programs
which differ only in constants share it. Large constants of the graph are not stored: the process that reads the entry has the
graph. The lowered form, for reports, is recomputed on demand.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pickle
import platform
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.types import Type
from ...core.version import VERSION
from ...ir.fingerprint import LARGE, digest, fingerprint
from ...ir.graph import Graph
from . import cache

if TYPE_CHECKING:  # heavy; an entry with foreign calls loads it
    from ..lower.step import Foreign

LARGEST = 1 << 22  # bytes of constants in an entry
_PACKAGE: str = sys.modules[__name__.partition(".")[0]].__path__[0]
_LOADED = time.time_ns()  # when this process loaded the compiler


@dataclass(frozen=True)
class CachedProgram:
    """Everything that machine code needs to run: see `native.Native`."""

    code: str  # the key of its entry
    symbols: tuple[str, ...]  # called functions of BLAS, LAPACK and scipy.special
    constants: tuple[Any, ...]  # arrays
    calls: tuple[Foreign, ...]  # foreign calls
    guarded: bool
    outputs: tuple[Type, ...]
    is_long: bool  # releases the GIL


class Name(NamedTuple):
    """The key of an entry, and the large arrays of its graph."""

    key: str
    arrays: dict[str, Any]


def name_of(graph: Graph, weak: Collection[int], guarded: bool, machine: Sequence[str]) -> Name | None:
    """The key of the program for this graph; None if it is not cached.

    The inputs `weak` are Python numbers; `machine` is what else the code depends on.
    """
    compiler = _compiler()
    found = None if compiler is None or cache.folder() is None else fingerprint(graph)
    if compiler is None or found is None:
        return None
    return Name(cache.key("program", found.name, str(sorted(weak)), str(guarded), *compiler, *machine), found.arrays)


def name_of_entry(machine: Sequence[str]) -> str | None:
    """The key of the entry point: its text depends on the compiler alone, and need not be generated to be found."""
    compiler = _compiler()
    return None if compiler is None else cache.key("entry", *compiler, *machine)


def read(name: Name) -> CachedProgram | None:
    """The program cached under a key, if there is a valid one."""
    data = cache.read(name.key)
    if data is None:
        return None
    program: CachedProgram = pickle.loads(data)  # written by this user, and intact: checked by `cache.read`
    return replace(program, constants=tuple([name.arrays[c] if isinstance(c, str) else c for c in program.constants]))


def write(name: Name, program: CachedProgram) -> None:
    """Cache a program, unless its constants are too large."""
    constants = [_by_digest(c, name.arrays) for c in program.constants]
    if sum(c.nbytes for c in constants if not isinstance(c, str)) <= LARGEST:
        calls = tuple(step.bare() for step in program.calls)
        cache.write(name.key, pickle.dumps(replace(program, constants=tuple(constants), calls=calls)))


def _by_digest(constant: Any, arrays: dict[str, Any]) -> Any:
    """A constant, or the digest of an array of the graph."""
    name = digest(constant) if constant.nbytes > LARGE else ""
    return name if name in arrays else constant


# -- what programs depend on besides their graph ------------------------------------------------------------------


@functools.cache
def _compiler() -> tuple[str, ...] | None:
    """A key of the compiler: its source files, and the libraries it uses; None if not known."""
    scipy = importlib.util.find_spec("scipy")  # without importing it
    own = _stamps(_PACKAGE)
    if scipy is None or scipy.origin is None or own is None:
        return None
    versions = VERSION, np.__version__, _contents(os.path.join(os.path.dirname(scipy.origin), "version.py")), sys.version
    return *versions, platform.machine(), own


def _contents(path: str) -> str:
    """The text of a file; '' if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _stamps(folder: str) -> str | None:
    """A digest of the sizes and times of the source files; None if one has changed since it was loaded."""
    found = sorted(_sources(folder))
    if not found or max(time for _, _, time in found) > _LOADED:
        return None
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)
