"""The kernels of a GPU, run on this processor: the same text, with threads as loops and barriers between the phases.

It replaces a GPU in tests: indices, reductions and loops run the same code as on a GPU. Results are bitwise those of a GPU, since
both combine terms in the same order and neither contracts a product and a sum unless told to.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
from host_linear import HostLibraries

from adjoint.compiler.cuda.gpu import ResultMemory
from adjoint.compiler.cuda.ptx import Use, assembled, assembler, ptx
from adjoint.compiler.cuda.text import DeviceKernel, DeviceModule
from adjoint.compiler.lower.kernel import View
from adjoint.compiler.native import load, object_code
from adjoint.core.types import Type

NOISE = 0xFF  # each byte of new memory: nan, -1 or a bool that is neither, so that missing writes show


class Replayed:
    """Loops and branches of a graph that is replayed: see `graph.GraphRecording`. Every iteration has the same addresses."""

    def repeat(self, flag: int, work: Callable[[], None]) -> None:
        while _truth(flag):
            work()

    def choose(self, flag: int, true: Callable[[], None], false: Callable[[], None]) -> None:
        (true if _truth(flag) else false)()


def _truth(address: int) -> bool:
    return ctypes.c_bool.from_address(address).value


class Simulator:
    """A simulated GPU. `flip` reverses the order of the threads within a phase; with a `lag` every other warp is so many phases
    behind, where it may be. Neither must matter."""

    xp = np
    name = "simulator"
    number = 0
    processor = "sm_70"
    failures = ()  # exceptions of a device that has failed
    functions: Any = None  # all that has no kernel is called on the host
    handles = SimpleNamespace(blas=lambda name, dtype: None, solver=lambda name, dtype: None)

    def __init__(self, flip: int = 0, lag: int = 0) -> None:
        self.flip, self.lag = flip, lag
        self._recording: Replayed | None = None
        self.engines: list[Any] = []  # keep the code alive

    def is_active(self) -> bool:
        return True

    def active(self) -> Any:
        return nullcontext()

    def wait(self) -> None:
        pass

    def load(self, module: DeviceModule) -> dict[str, Any]:
        """The functions of a module, by name."""
        if not module.entries:
            return {}
        engine = load(object_code(module.for_simulator(self.lag), quickly=True)[1])
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self.engines.append(engine)
        return {name: kind(engine.get_function_address(name)) for name in (entry.name for entry in module.entries.values())}

    @contextmanager
    def beside(self, rehearsals: dict[Any, Callable[[], Any]]) -> Iterator[None]:
        """Rehearse at once, so that errors show."""
        for run in rehearsals.values():
            run()
        yield

    def launcher(self, function: Any, kernel: DeviceKernel) -> Callable[[Sequence[int]], None]:
        """A function of the addresses of a kernel's buffers that runs it."""

        def launch(pointers: Sequence[int]) -> None:
            table = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
            function(ctypes.addressof(table), 0, kernel.blocks, self.flip)

        return launch

    def use(self, functions: dict[str, Any], module: DeviceModule) -> dict[str, Use]:
        """The registers, spills and shared memory of each kernel, as reported by `ptxas`; empty without it."""
        return assembled(ptx(module.for_gpu(), self.processor), self.processor) if functions and assembler() else {}

    def libraries(self, precision: str) -> Any:
        return HostLibraries(self)

    has_conditions = True

    def recording(self) -> Any:
        return self._recording

    def captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """The work itself, to be repeated, with loops and branches as in a graph."""

        def replay() -> None:
            self._recording = Replayed()
            try:
                run()
            finally:
                self._recording = None

        return replay

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, begin: float, end: float) -> float:
        return end - begin

    def empty(self, t: Type) -> Any:
        """A new array, filled with noise so that missing writes show."""
        made = np.empty(t.shape, t.dtype)
        made.reshape(-1).view(np.uint8)[...] = NOISE
        return made

    def results(self, types: Sequence[Type], arena: int) -> ResultMemory:
        """How to allocate results and an arena, and how to make arrays of them."""

        def allocate() -> Any:
            arrays = tuple(self.empty(t) for t in types)
            memory = self.bytes(arena) if arena else None
            return (arrays, memory), [self.address(a) for a in arrays], self.address(memory) if arena else 0

        return ResultMemory(allocate, lambda held: held[0])

    def again(self, array: Any, t: Type) -> Any:
        """A result in the memory of a donated array."""
        return array.reshape(t.shape)

    def bytes(self, size: int) -> Any:
        """New memory, on a cache line as on a GPU."""
        whole = np.full(size + 256, NOISE, np.uint8)
        start = -whole.ctypes.data % 256
        return whole[start : start + size]

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def taken(self, x: Any, t: Type) -> int:
        """The address of an array that a program uses without a copy; 0 for others."""
        fits = type(x) is np.ndarray and (x.shape, x.dtype) == t and x.flags.c_contiguous and x.flags.aligned
        return self.address(x) if fits else 0

    def imported(self, x: Any) -> Any:
        return x

    def adopt(self, x: Any, t: Type) -> Any:
        """An argument as an array in order."""
        return np.ascontiguousarray(np.asarray(x, t.dtype)).reshape(t.shape)

    def sent(self, values: Sequence[Any], types: Sequence[Type]) -> tuple[list[int], Any]:
        """The addresses of copies of host values, and what keeps them alive."""
        held = [np.array(value, t.dtype).reshape(t.shape) for value, t in zip(values, types, strict=True)]
        return [int(a.ctypes.data) for a in held], held

    def array(self, view: View, address: int) -> Any:
        """The array of a view over memory at an address."""
        if 0 in view.shape:
            return np.empty(view.shape, view.dtype)
        size = view.dtype.itemsize
        memory: Any = (ctypes.c_char * view.buffer.nbytes).from_address(address)
        return np.ndarray(view.shape, view.dtype, memory, view.offset * size, [s * size for s in view.strides])

    def host(self, array: Any) -> Any:
        return np.array(array)

    def fetched(self, arrays: Sequence[Any]) -> list[Any]:
        return [self.host(array) for array in arrays]
