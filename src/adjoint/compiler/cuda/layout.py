"""How a kernel is spread over the threads of a launch.

The loops of a kernel are either kept (each of their points has a result of its own) or reduced. A block has 256 threads: `points`
kept points times `lanes` threads that share the terms of one point. Long reductions with few results are cut into `pieces`, one
block each, which leave partial results; a second launch combines them.

    each row of (n, m)       kept: rows      lanes: neighbours in memory, along the row     16 points x 16 lanes, say
    each column of (n, m)    kept: columns   points: neighbours in memory; lanes: rows      32 points x  8 lanes
    all                      kept: nothing   lanes and pieces                                1 point x 256 lanes x 512 pieces
    no reduction             kept: all       one thread a point, or a few                  256 points x  1 lane

All numbers depend on the shapes alone, and terms are combined in a fixed order (a thread's own, then the lanes as a tree, then
the pieces): a result is bitwise the same on every run and on every GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lower.kernel import Kernel, Reduce, size_of
from ..lower.schedule import cost

THREADS = 256  # of a block
SHARED = 40_000  # bytes of shared memory that a block may take
ENOUGH = 1 << 18  # threads that fill a large GPU
SEVERAL = ENOUGH  # points of a kernel of which a thread has several
MOST_PIECES = 1024
LEAST_TERMS = 8  # for a thread, before a reduction is cut further
NEIGHBOURS = 32  # threads of a warp, whose accesses are served together
VECTOR = 32  # bytes of adjacent elements per thread: two of the widest accesses, so that more loads are in flight
VECTOR_OF_WINDOWS = 16  # the same, of windows, which read neighbours as well
RESIDENT = 4  # target of resident blocks of 256 threads per multiprocessor: 64 registers per thread
RESIDENT_OF_SHORT = 5  # the same, of a kernel that waits for memory
FEW_LIVE = 40  # registers of simultaneously live values that fit beside those that functions need
SHORT = 100  # additions per point up to which a thread computes several points: such kernels are memory-bound


@dataclass(frozen=True, slots=True)
class Layout:
    """Which loops are kept and which reduced, and how their points are spread over threads."""

    kept: tuple[int, ...]  # loops, outermost first
    reduced: tuple[int, ...]
    results: int  # points of the kept loops
    terms: int  # points of the reduced loops
    lanes: int = 1  # a power of two
    pieces: int = 1
    lanes_are_neighbours: bool = False
    per_thread: int = 1  # points, one after the other in memory, of a thread
    threads: int = THREADS
    resident: int = 0  # target of resident blocks per multiprocessor; 0: the assembler chooses the registers

    @property
    def is_in_warps(self) -> bool:
        """Whether the lanes of a point are in one warp."""
        return self.lanes_are_neighbours and self.lanes <= NEIGHBOURS

    @property
    def points(self) -> int:
        """Kept points of a block, if a thread has one."""
        return self.threads // self.lanes

    @property
    def blocks_of_points(self) -> int:
        return -(-self.results // (self.points * self.per_thread))

    @property
    def blocks(self) -> int:
        return self.blocks_of_points * self.pieces


def is_flag(kernel: Kernel, r: Reduce) -> bool:
    """Whether a reduction is a flag over the whole domain: any thread may set it, all to the same value."""
    return r.how in ("any", "all") and not any(_strides(kernel, r))


def reduced_loops(kernel: Kernel, r: Reduce) -> frozenset[int]:
    return frozenset(i for i, stride in enumerate(_strides(kernel, r)) if not stride)


def _strides(kernel: Kernel, r: Reduce) -> list[int]:
    place = next(i for i, view in enumerate(kernel.views) if view is r.view)
    return [loop.strides[place] for loop in kernel.loops]


def in_shared_memory(reductions: Sequence[Reduce]) -> int:
    """Bytes per thread: the totals that its neighbours take from it."""
    return sum(r.view.dtype.itemsize for r in reductions)


def choose(kernel: Kernel, *, in_pieces: bool = True) -> Layout:
    """The layout of a kernel whose reductions, apart from flags, combine along the same loops. Blocks that leave many totals in
    shared memory are smaller."""
    sums = [r for r in kernel.reductions if not is_flag(kernel, r)]
    threads = THREADS
    while threads * in_shared_memory(sums) > SHARED:
        threads //= 2
    masks = {reduced_loops(kernel, r) for r in sums}
    assert len(masks) <= 1, "reductions along different loops are in kernels of their own"
    has_one_term = frozenset() in masks
    reduced = tuple(sorted(masks.pop())) if masks else ()
    kept = tuple(i for i in range(len(kernel.loops)) if i not in reduced)
    results = size_of(kernel.loops[i].length for i in kept)
    terms = size_of(kernel.loops[i].length for i in reduced)
    if not reduced:
        count = 1 if has_one_term else _per_thread(kernel, results)  # a reduction along axes of length one has one term
        return Layout(kept, (), results, 1, per_thread=count, resident=resident(kernel, THREADS, count))
    along = reduced[-1] == len(kernel.loops) - 1  # the loop with the smallest strides is reduced
    if along:
        lanes = min(power_of_two(-(-terms // 4)), threads)
    elif terms >= 2 * NEIGHBOURS and results < ENOUGH // 8:
        lanes = threads // NEIGHBOURS
    else:
        lanes = 1
    wanted = ENOUGH // (results * lanes)
    pieces = max(1, min(wanted, terms // (lanes * LEAST_TERMS), MOST_PIECES)) if in_pieces else 1
    return Layout(kept, reduced, results, terms, lanes, pieces, along, threads=threads, resident=resident(kernel, threads))


def resident(kernel: Kernel, threads: int, per_thread: int = 1) -> int:
    """The target of resident blocks per multiprocessor; 0 if the remaining registers might not suffice.

    Otherwise the assembler also allocates registers for rare paths of functions, and too few warps are left to hide the
    latency of loads and divisions.
    """
    if per_thread * registers_alive(kernel) > FEW_LIVE:
        return 0
    return (RESIDENT_OF_SHORT if per_thread > 1 else RESIDENT) * THREADS // threads


def registers_alive(kernel: Kernel) -> int:
    """The most registers of 32 bits that values of the code hold at once, if each is stored as soon as it is computed."""
    last = {a: i for i, line in enumerate(kernel.code) for a in line.args}
    ends: dict[int, int] = {}
    alive = most = 0
    for i, line in enumerate(kernel.code):
        alive += (words := max(1, line.dtype.itemsize // 4) if line.kind != "const" else 0)
        most = max(most, alive)
        ends[last.get(i, i)] = ends.get(last.get(i, i), 0) + words
        alive -= ends.pop(i, 0)
    return most


def _per_thread(kernel: Kernel, results: int) -> int:
    """Points per thread: as many as its accesses hold, if rows are read and written in order and are divisible by that number."""
    if not kernel.loops or results < SEVERAL or sum(map(cost, kernel.code)) > SHORT:
        return 1
    last = kernel.loops[-1]
    if any(line.kind == "gather" for line in kernel.code) or not {*last.strides} <= {0, 1}:
        return 1
    has_windows = any(line.kind == "window" for line in kernel.code)
    count = max(
        1, (VECTOR_OF_WINDOWS if has_windows else VECTOR) // max((v.dtype.itemsize for v in kernel.views), default=VECTOR)
    )
    if len(kernel.loops) > 1:
        while last.length % count:
            count //= 2
    return count


def power_of_two(n: int) -> int:
    """The least power of two that is not smaller, up to the threads of a block."""
    return min(1 << max(0, n - 1).bit_length(), THREADS)
