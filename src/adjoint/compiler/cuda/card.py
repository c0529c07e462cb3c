"""A card that runs programs: modules, and launches on the current stream.

What a program asks of a card is what it asks of the `Simulator`: both have the same methods.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...device.card import Memory, cupy
from ..lower.kernel import View
from .linear import Libraries
from .ptx import Use, machine_code
from .text import Kernel, Module

_SHARED, _LOCAL, _REGISTERS = 1, 3, 4  # CU_FUNC_ATTRIBUTE_…


@functools.cache
def numbered(number: int) -> Card:
    """The card of a number, as CuPy counts them."""
    return Card(number)


def current() -> Card:
    """The current card of CuPy."""
    return numbered(cupy().cuda.runtime.getDevice())


class _Rooms(dict[int, Any]):
    """By the number of arguments of a kernel: memory for them, a table of where each is, and the address of the table."""

    def __missing__(self, count: int) -> Any:
        values = (ctypes.c_void_p * count)()
        first = ctypes.addressof(values)
        table = (ctypes.c_void_p * count)(*(first + 8 * i for i in range(count)))
        self[count] = values, table, ctypes.addressof(table)
        return self[count]


class _Packed(threading.local):
    def __init__(self) -> None:
        self.rooms = _Rooms()


class Card(Memory):
    """A card, and the programs on it. Its methods are called while it is the current one: see `active`."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__(number)
        xp = self.xp
        self.processor = f"sm_{xp.cuda.Device(self.number).compute_capability}"
        self._packed = _Packed()
        self._launch = xp.cuda.driver.launchKernel
        self.failures = (xp.cuda.runtime.CUDARuntimeError, xp.cuda.driver.CUDADriverError)  # what a kernel or a lost card raises

    def load(self, module: Module) -> dict[str, Any]:
        """The functions of a module, by name."""
        if not module.entries:
            return {}
        loaded = self.xp.cuda.function.Module()
        versions = str(self.xp.cuda.runtime.driverGetVersion()), self.xp.__version__
        loaded.load(machine_code(module.for_card(), self.processor, self._linked, versions))
        return {name: loaded.get_function(name) for name in (entry.name for entry in module.entries.values())}

    def _linked(self, text: str) -> bytes:
        """The machine code of PTX, by the driver."""
        linker = self.xp.cuda.function.LinkState()
        linker.add_ptr_data(text.encode(), "program")
        return bytes(linker.complete())

    def launch(self, function: Any, kernel: Kernel, pointers: Sequence[int]) -> None:
        # The driver copies the arguments before it returns; each thread has its own, since CuPy releases the lock meanwhile.
        values, _, table = self._packed.rooms[len(pointers)]
        values[:] = pointers
        self._launch(function.ptr, kernel.blocks, 1, 1, kernel.threads, 1, 1, 0, self._stream().ptr, table, 0)

    def use(self, functions: dict[str, Any], module: Module) -> dict[str, Use]:
        """What each kernel takes of the card, as the driver says."""
        ask = self.xp.cuda.driver.funcGetAttribute
        return {name: Use(*(ask(what, f.ptr) for what in (_REGISTERS, _LOCAL, _SHARED))) for name, f in functions.items()}

    def libraries(self, precision: str) -> Libraries | None:
        return Libraries(self.xp, precision)

    def captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """The launches that `run` makes, as a graph: they are noted, not done. The function that is returned does them all."""
        stream = self.xp.cuda.Stream(non_blocking=True)  # the default one cannot be captured
        with stream:
            stream.begin_capture()
            try:
                run()
            finally:
                graph = stream.end_capture()
        return graph.launch  # type: ignore[no-any-return]

    def array(self, view: View, address: int) -> Any:
        """The array of a view over memory at an address."""
        xp = self.xp
        if 0 in view.shape:
            return xp.empty(view.shape, view.dtype)
        size = view.dtype.itemsize
        memory = xp.cuda.UnownedMemory(address, view.buffer.nbytes, None)
        start = xp.cuda.MemoryPointer(memory, view.offset * size)
        return xp.ndarray(view.shape, view.dtype, start, [s * size for s in view.strides])
