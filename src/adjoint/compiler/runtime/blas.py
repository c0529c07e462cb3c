"""The threads of BLAS: how many it uses, as set by the process or `threadpoolctl`, and how to limit it to one.

NumPy and SciPy each ship a BLAS. Their numbers of threads are read and set by functions that OpenBLAS and MKL export.

A program limits BLAS to one thread around a short call (`TEXT`). More threads gain little; and on a busy machine, where they are
not scheduled, the call would wait for them a thousand times as long as it takes on one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.locks import at_fork, lock

# Pairs (read, set): OpenBLAS in the wheels of NumPy and of SciPy, elsewhere, and MKL.
_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)

#: The names of the processor that OpenBLAS was written for and has chosen; bytes of the vectors of its products there.
_CORES = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename64_", "openblas_get_corename")
_VECTORS = {
    **dict.fromkeys(("SkylakeX", "Cooperlake", "SapphireRapids"), 64),
    **dict.fromkeys(("Haswell", "Zen", "Excavator", "Steamroller", "Piledriver", "Bulldozer", "Sandybridge"), 32),
    **dict.fromkeys(("Nehalem", "Penryn", "Dunnington", "Core2", "Prescott", "Barcelona", "Bobcat", "Atom", "Nano"), 16),
}

#: The functions of BLAS and LAPACK that programs call, for both dtypes.
BLAS = ("gemm", "gemv", "trsm", "trsv")
LAPACK = ("potrf", "getrf", "getri", "syevd", "geqrf", "orgqr", "gesdd")

#: A function that counts the calls that are under way, and does something if there are now so many.
_COUNTING = """
define void @{name}() {{
  %write = load ptr, ptr @blas.write
  %unknown = icmp eq ptr %write, null
  br i1 %unknown, label %end, label %try
try:
  %got = cmpxchg ptr @blas.lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %got, 1
  br i1 %mine, label %count, label %try
count:
  %before = load i32, ptr @blas.calls
  %calls = add i32 %before, {by}
  store i32 %calls, ptr @blas.calls
  %now = icmp eq i32 %calls, {at}
  br i1 %now, label %change, label %leave
change:
{change}
  br label %leave
leave:
  store atomic i32 0, ptr @blas.lock release, align 4
  br label %end
end:
  ret void
}}"""
_LIMIT = """  %read = load ptr, ptr @blas.read
  %usual = call i32 %read()
  store i32 %usual, ptr @blas.before
  call void %write(i32 1)"""
_RESTORE = """  %usual = load i32, ptr @blas.before
  call void %write(i32 %usual)"""
#: Functions that programs call around a product or a routine. Calls from several threads overlap; the last one restores.
TEXT = (
    """
@blas.read = global ptr null
@blas.write = global ptr null
@blas.lock = global i32 0
@blas.calls = global i32 0
@blas.before = global i32 0
"""
    + _COUNTING.format(name="one_thread", by=1, at=1, change=_LIMIT)
    + _COUNTING.format(name="usual_threads", by=-1, at=0, change=_RESTORE)
)


class Library(NamedTuple):
    """A BLAS in this process: the functions that get and set its number of threads."""

    threads: Any  # C functions
    set_threads: Any


def library(module: ModuleType) -> Library | None:
    """The BLAS that an extension module is linked with, if its threads can be set."""
    loaded = ctypes.CDLL(module.__file__)  # also searches the dependencies of the module
    for read, write in _NAMES:
        if hasattr(loaded, read) and hasattr(loaded, write):
            return Library(getattr(loaded, read), getattr(loaded, write))
    return None


def of_numpy() -> Library | None:
    return library(np._core._multiarray_umath)  # type: ignore[attr-defined]


def of_scipy() -> Library | None:
    from scipy.linalg import cython_blas  # loaded by the first program that calls BLAS

    return library(cython_blas)


def vector_bytes() -> int | None:
    """The length of the vectors of BLAS, if it is known. NumPy's is asked, which is loaded; SciPy's makes the same choice."""
    loaded = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    for name in _CORES:
        if hasattr(loaded, name):
            core = ctypes.CFUNCTYPE(ctypes.c_char_p)((name, loaded))
            return _VECTORS.get((core() or b"").decode())
    return None


class Threaded(Protocol):
    """The threads of our own loops: see `threads`."""

    usual: int


class OneThread:
    """Limits BLAS to one thread while at least one call, from any thread, asks for it; then restores the number."""

    def __init__(self, libraries: Sequence[Library], own: Threaded) -> None:
        self.libraries, self.own = libraries, own
        self._lock = lock()
        self._calls: list[int] = []  # the threads that make them
        self._before: list[int] = []
        at_fork(child=self._forget_other_threads)

    def __enter__(self) -> None:
        with self._lock:
            if not self._calls:
                self._before = [self.own.usual, *(library.threads() for library in self.libraries)]
                self.own.usual = 1  # our own loops keep all their threads
                for library in self.libraries:
                    library.set_threads(1)
            self._calls.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls.remove(threading.get_ident())
            if not self._calls:
                self._restore()

    def _restore(self) -> None:
        self.own.usual, *counts = self._before
        for library, count in zip(self.libraries, counts, strict=True):
            library.set_threads(count)

    def _forget_other_threads(self) -> None:
        """In the child of a fork the calls of other threads never end: forget them."""
        before, self._calls = self._calls, [thread for thread in self._calls if thread == threading.get_ident()]
        if before and not self._calls:
            self._restore()
