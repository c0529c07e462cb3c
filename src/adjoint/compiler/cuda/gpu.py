"""A GPU that runs programs: modules, and launches on the current stream.

The tests' `Simulator` has the interface of `GPU`, so a program runs on either.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import struct
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...core.locks import cached
from ...core.types import Type
from ...device.gpu import Memory, cupy
from ..lower.kernel import View
from . import graph
from .handles import Handles
from .libraries import Libraries
from .ptx import Use, machine_code
from .rehearse import Rehearsals
from .text import DeviceKernel, DeviceModule

Held = tuple[Any, list[int], int]  # memory, the addresses of the results in it, and the address of the arena (0 without one)
_APART = 256  # bytes: arrays begin at multiples of it
_ONE_ALLOCATION = 4096  # bytes: up to this size, results and arena are one allocation, which lives as long as the last result
_OF_THREAD = 2  # the default stream of a thread, CU_STREAM_PER_THREAD: a different one for each
_ENTRY = re.compile(r"^define ptx_kernel void @(\w+)\(", re.MULTILINE)
_SHARED, _LOCAL, _REGISTERS = 1, 3, 4  # CU_FUNC_ATTRIBUTE_…


@functools.cache
def numbered(number: int) -> GPU:
    """The GPU of a number, as CuPy counts them."""
    return GPU(number)


def current() -> GPU:
    """The current GPU of CuPy."""
    return numbered(cupy().cuda.runtime.getDevice())


class ResultMemory(NamedTuple):
    """How the results of a program are made: their memory first, arrays of it when the work is launched."""

    allocate: Callable[[], Held]
    arrays: Callable[[Any], tuple[Any, ...]]


class _Rooms(dict[int, Any]):
    """By the number of arguments of a kernel: memory for them, the address of a table of where each is, and that table."""

    def __missing__(self, count: int) -> Any:
        values = (ctypes.c_uint64 * count)()
        first = ctypes.addressof(values)
        table = (ctypes.c_void_p * count)(*(first + 8 * i for i in range(count)))
        self[count] = values, ctypes.addressof(table), table
        return self[count]


class _Packed(threading.local):
    def __init__(self) -> None:
        self.rooms = _Rooms()


class GPU(Memory):
    """A GPU, and the programs on it. Its methods are called while it is the current one: see `active`."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__(number)
        xp = self.xp
        self.processor = f"sm_{xp.cuda.Device(self.number).compute_capability}"
        self._packed = _Packed()
        self.functions = xp  # a module with functions for its arrays: see `foreign`
        self.handles = Handles(self)
        self._libraries: dict[str, Libraries] = {}  # by precision
        self._rehearsed: set[Hashable] = set()
        self._launch = xp.cuda.driver.launchKernel
        self.failures = (
            xp.cuda.runtime.CUDARuntimeError,
            xp.cuda.driver.CUDADriverError,
        )  # of a kernel or a lost GPU

    def load(self, module: DeviceModule) -> dict[str, Any]:
        """The functions of a module, by name."""
        if not module.entries:
            return {}
        versions = str(self.xp.cuda.runtime.driverGetVersion()), self.xp.__version__

        def code(text: str) -> bytes:
            self.xp.cuda.runtime.setDevice(self.number)  # of this thread
            return machine_code(text, self.processor, self._linked, versions)

        texts = module.parts_for_gpu()
        with ThreadPoolExecutor(len(texts)) as pool:
            codes = list(pool.map(code, texts)) if len(texts) > 1 else [code(texts[0])]
        functions: dict[str, Any] = {}
        for names, made in zip(map(_ENTRY.findall, texts), codes, strict=True):
            loaded = self.xp.cuda.function.Module()
            loaded.load(made)
            functions |= {name: loaded.get_function(name) for name in names}
        return functions

    @contextmanager
    def beside(self, rehearsals: Rehearsals) -> Iterator[None]:
        """Rehearse in other threads what was not rehearsed before; wait for them at the end.

        An error is left to the routine itself, which is going to run.
        """
        new = [run for key, run in rehearsals.items() if key not in self._rehearsed]
        self._rehearsed |= rehearsals.keys()
        if not new:
            yield
            return

        def alone(run: Callable[[], Any]) -> None:
            with self.xp.cuda.Device(self.number), self.xp.cuda.Stream(non_blocking=True):
                run()

        with ThreadPoolExecutor(min(len(new), os.cpu_count() or 1)) as pool:
            for run in new:
                pool.submit(alone, run)
            yield

    def _linked(self, text: str) -> bytes:
        """The machine code of PTX, by the driver."""
        linker = self.xp.cuda.function.LinkState()
        linker.add_ptr_data(text.encode(), "program")
        return bytes(linker.complete())

    def launcher(self, function: Any, kernel: DeviceKernel) -> Callable[[Sequence[int]], None]:
        """A function of the addresses of a kernel's buffers, and of whether to go backwards if it can, that launches it."""
        return self.starter(function.ptr, kernel.blocks, kernel.threads, len(kernel.buffers) + kernel.both_ways)

    def starter(self, function: int, blocks: int, threads: int, count: int) -> Callable[[Sequence[int]], None]:
        """Launches a kernel on the current stream; its arguments are `count` words of 8 bytes."""
        start, packed, stream, pack = self._launch, self._packed, self._stream, struct.Struct(f"{count}Q").pack_into

        def launch(arguments: Sequence[int]) -> None:
            # The driver copies the arguments before it returns; each thread has its own, since CuPy releases the lock meanwhile.
            values, table, _ = packed.rooms[count]
            pack(values, 0, *arguments)
            start(function, blocks, 1, 1, threads, 1, 1, 0, stream().ptr, table, 0)

        return launch

    def use(self, functions: dict[str, Any], module: DeviceModule) -> dict[str, Use]:
        """The registers, spills and shared memory of each kernel, as reported by the driver."""
        ask = self.xp.cuda.driver.funcGetAttribute
        return {name: Use(*(ask(what, f.ptr) for what in (_REGISTERS, _LOCAL, _SHARED))) for name, f in functions.items()}

    def libraries(self, precision: str) -> Libraries:
        if precision not in self._libraries:
            self._libraries[precision] = Libraries(self, self.handles.blas, self.handles.solver, precision)
        return self._libraries[precision]

    def results(self, types: Sequence[Type], arena: int) -> ResultMemory:
        """How to allocate results and an arena of the given size, and how to make arrays of them. Small ones are one allocation.

        Arrays are made after the launches, so that the GPU need not wait for that; then also the memory for the next call.
        """
        ndarray, alloc, shapes = self._ndarray, self.xp.cuda.alloc, [(t.shape, t.dtype) for t in types]
        sizes = [t.size * t.dtype.itemsize for t in types]
        offsets = list(itertools.accumulate((-(-size // _APART) * _APART for size in sizes), initial=0))
        total = offsets.pop() + arena
        spare: list[tuple[int, Any]] = []  # memory for the next call, and the stream on which it was allocated
        stream = self._stream

        def one_allocation() -> Held:
            if spare:
                allocated_on, memory = spare.pop()
                if allocated_on != stream().ptr:
                    memory = alloc(total)
            else:
                memory = alloc(total)
            start = memory.ptr
            return memory, [start + offset for offset in offsets], start + total - arena

        def arrays_of_one(memory: Any) -> tuple[Any, ...]:
            arrays = [ndarray(shape, dtype, memory + offset) for (shape, dtype), offset in zip(shapes, offsets, strict=True)]
            if not (arena or spare) and (current := stream().ptr) != _OF_THREAD:
                try:
                    spare.append((current, alloc(total)))
                except MemoryError:  # the next call will say so, unless there is room again
                    return tuple(arrays)
            return tuple(arrays)

        def apart() -> Held:
            held = [alloc(size) for size in sizes]
            memory = alloc(arena) if arena else None
            return (held, memory), [part.ptr for part in held], memory.ptr if memory else 0

        def arrays_apart(held: Any) -> tuple[Any, ...]:
            return tuple([ndarray(shape, dtype, part) for (shape, dtype), part in zip(shapes, held[0], strict=True)])

        return ResultMemory(one_allocation, arrays_of_one) if 0 < total <= _ONE_ALLOCATION else ResultMemory(apart, arrays_apart)

    # -- graphs --

    @cached
    def has_conditions(self) -> bool:
        """Whether loops and branches that depend on numbers can be part of a graph."""
        return graph.has_conditions(self.xp.cuda.runtime.driverGetVersion())

    @cached
    def set_condition(self) -> Any:
        """The kernel that sets a condition of a graph. The driver links it when it is loaded."""
        module = self.xp.cuda.function.Module()
        module.load(graph.SET_CONDITION.encode())
        return module.get_function("set_condition")

    def recording(self) -> graph.GraphRecording | None:
        """The graph that this thread records."""
        return self.handles.own.recording  # type: ignore[no-any-return]

    def captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """The launches and library calls that `run` makes, as a graph: they are recorded, not executed.

        The function returned executes them all on the current stream.
        """
        set_condition = self.starter(self.set_condition.ptr, 1, 1, 3) if self.has_conditions else None
        recording, own, stream = graph.GraphRecording(self.xp, set_condition), self.handles.own, self._stream
        own.recording = recording
        try:
            made = recording.record(run)
        finally:
            own.recording = None
        return lambda: made(stream().ptr)

    def array(self, view: View, address: int) -> Any:
        """The array of a view over memory at an address."""
        xp = self.xp
        if 0 in view.shape:
            return xp.empty(view.shape, view.dtype)
        size = view.dtype.itemsize
        memory = xp.cuda.UnownedMemory(address, view.buffer.nbytes, None)
        start = xp.cuda.MemoryPointer(memory, view.offset * size)
        return xp.ndarray(view.shape, view.dtype, start, [s * size for s in view.strides])
