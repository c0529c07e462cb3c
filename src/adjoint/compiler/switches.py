"""One switch per optimisation of the compiler, for measuring what each gains.

    ADJOINT_WITHOUT=row_tiles,pieces python model.py          programs compiled in this process lack both
    with without(Switch.ROW_TILES): ad.jit(f)(x)              programs compiled inside lack one

Results are correct with any of them off, alone or together (tests/compiler/test_switches.py). A switch is read while a program is
compiled and is part of the key of all caches. `benchmarks/ablation.py` prints what each gains on which workload; an optimisation
that gains less than 10 % everywhere should be deleted. docs/compiler-ablation.md has the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from ..core.errors import ArgumentError


class Switch(Enum):
    """An optimisation: its name in ADJOINT_WITHOUT, and what it does."""

    def __new__(cls, name: str, what: str) -> Switch:
        made = object.__new__(cls)
        made._value_ = name
        made.what = what
        return made

    what: str

    ROW_TILES = "row_tiles", "kernels with the same outer loop run together, over one block of rows at a time"
    FUSED_MATVEC = "fused_matvec", "products of one matrix with vectors from both sides read it once"
    PARALLEL_GROUPS = "parallel_groups", "independent steps run at the same time"
    PIECES = "pieces", "large loops are cut into pieces for the threads"
    TIME_TILES = "time_tiles", "loops over large stencils run several iterations on each tile of the grid"
    SHORT_SUMS = "short_sums", "a short sum inside another loop is unrolled, so that the loop around it is vectorized"
    SHORT_LOOPS = "short_loops", "LLVM unrolls loops of a few iterations"
    VECTOR_ROWS = "vector_rows", "a contiguous loop of 4 or 8 iterations is one vector"
    WIDE_VECTORS = "wide_vectors", "long loops use the widest vectors of the machine"
    RECOMPUTE = "recompute", "a value for a later kernel is computed there if it is cheap, or if only that kernel needs it"
    DIAGONALS = "diagonals", "a large constant matrix such as eye is computed at each point, not loaded"
    IN_PLACE = "in_place", "arrays whose old value is dead are changed where they are"
    FRAMES = "frames", "a cheap value in a frame of zeros is computed again, not stored"
    WINDOW_WRITES = "window_writes", "a write at an index is a select at each point, not a copy and a second write"
    WINDOW_SEGMENTS = "window_segments", "the interior of a window is a loop without tests"
    INLINE_KERNELS = "inline_kernels", "kernels over a few points are inlined into the program"
    FUNCTIONS_APART = "functions_apart", "kernels over a few points, outside of loops, call elementary functions out of line"
    FUNCTIONS_ALONE = "functions_alone", "loops over single numbers have elementary functions of low latency"
    INLINE_PRODUCTS = "inline_products", "small matrix products are loops, not calls of BLAS"
    NARROW_PRODUCTS = "narrow_products", "products with few columns are unrolled in registers"
    PACKED_PRODUCTS = "packed_products", "products are written with longer vectors than those of BLAS"
    EINSUM_PRODUCTS = "einsum_products", "contractions of two factors are matrix products"
    TRIANGULAR_PRODUCTS = "triangular_products", "products with a Cholesky factor skip its zeros"
    TRIANGULAR_BLOCKS = "triangular_blocks", "large triangular systems are solved by blocks"
    SMALL_SYSTEMS = "small_systems", "small triangular systems are solved inline, not by BLAS"
    SHARED_FACTORS = "shared_factors", "the LU factors of a matrix, or its transpose, are computed once"
    ONE_BLAS_THREAD = "one_blas_thread", "short calls of BLAS have one thread"
    CHOLESKY_TILES = "cholesky_tiles", "the products of a Cholesky pullback are unrolled in registers"
    SYMMETRY_TILES = "symmetry_tiles", "the symmetry check compares tiles, one of them transposed"
    KEPT_ARENA = "kept_arena", "the memory of intermediate arrays is kept from call to call"
    KEPT_BLOCKS = "kept_blocks", "the memory of large results is reused"
    DONATION = "donation", "results are written over donated arguments"
    FOREIGN_ARRAYS = "foreign_arrays", "a foreign call remembers its arrays by their addresses"
    NATIVE_ENTRY = "native_entry", "arguments are opened and checked by machine code"
    COMPILED_APART = "compiled_apart", "LLVM compiles large functions in several threads"
    QUICK_CODE = "quick_code", "code that does little of a program's work is compiled without the optimiser"
    PROGRAM_CACHE = "program_cache", "programs are kept on disk by their staged graph, beside the machine code"

    @property
    def on(self) -> bool:
        return self not in _off.get()


@contextmanager
def without(*switches: Switch) -> Iterator[None]:
    """Programs compiled in this context lack these optimisations."""
    token = _off.set(_off.get() | set(switches))
    try:
        yield
    finally:
        _off.reset(token)


def key() -> str:
    """What is off, for the keys of caches."""
    off = _off.get()
    return f"without {sorted(switch.value for switch in off)}" if off else ""


def _from_environment() -> frozenset[Switch]:
    names = [name for name in map(str.strip, os.environ.get("ADJOINT_WITHOUT", "").split(",")) if name]
    known = {switch.value: switch for switch in Switch}
    for name in names:
        if name not in known:
            raise ArgumentError(f"ADJOINT_WITHOUT names {name!r}, which is not an optimisation; there are {', '.join(known)}")
    return frozenset(known[name] for name in names)


_OFF_AT_FIRST = _from_environment()
_off: ContextVar[frozenset[Switch]] = ContextVar("off", default=_OFF_AT_FIRST)
