"""A card, through CuPy: modules, launches on the current stream, memory from CuPy's pool.

What a program asks of a card is what it asks of the `Simulator`: both have the same methods.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...core.errors import ArgumentError, DeviceError
from ...core.types import Type
from ...lower.kernel import View
from .linear import Libraries
from .ptx import Use, machine_code
from .text import Kernel, Module

ALIGNED = 16  # bytes: kernels read and write as much at once
_PACKED = 1 << 16  # bytes of host values that are copied together
_PINNED = 1 << 20  # bytes of a result from which on it is copied through pinned memory
_SHARED, _LOCAL, _REGISTERS = 1, 3, 4  # CU_FUNC_ATTRIBUTE_…


@functools.cache
def cupy() -> Any:
    """CuPy, with a card."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        raise DeviceError("programs on a card need CuPy, which is not installed; pip install 'adjoint[cuda]'") from None
    except Exception as error:  # CuPy's own kinds cannot be named without it
        raise DeviceError(f"CuPy finds no card that it can use ({error})") from error
    return cupy


@functools.cache
def numbered(number: int) -> Card:
    """The card of a number, as CuPy counts them."""
    return Card(number)


def current() -> Card:
    """The current card of CuPy."""
    return numbered(cupy().cuda.runtime.getDevice())


def holding(address: int) -> int:
    """The number of the card that holds an address; the current one's for none, that of an empty array."""
    runtime = cupy().cuda.runtime
    return int(runtime.pointerGetAttributes(address).device if address else runtime.getDevice())


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


class Card:
    """One card. Its methods are called while it is the current one: see `active`."""

    name = "cuda"

    def __init__(self, number: int | None = None) -> None:
        self.xp = self.namespace = xp = cupy()
        count = xp.cuda.runtime.getDeviceCount()
        self.number = xp.cuda.runtime.getDevice() if number is None else number
        if not 0 <= self.number < count:
            raise DeviceError(f"there is no card {self.number}; CuPy counts {count}, from 0")
        self.processor = f"sm_{xp.cuda.Device(self.number).compute_capability}"
        self._packed = _Packed()
        self._launch, self._stream = xp.cuda.driver.launchKernel, xp.cuda.get_current_stream
        self._ndarray, self._current = xp.ndarray, xp.cuda.runtime.getDevice
        self.failures = (xp.cuda.runtime.CUDARuntimeError, xp.cuda.driver.CUDADriverError)  # what a kernel or a lost card raises

    def is_active(self) -> bool:
        """Whether this is the current card."""
        return self._current() == self.number  # type: ignore[no-any-return]

    def active(self) -> Any:
        """A context in which this is the current card."""
        return nullcontext() if self.is_active() else self.xp.cuda.Device(self.number)

    def wait(self) -> None:
        """Until all that was launched on the current stream is done."""
        self._stream().synchronize()

    # -- code --

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

    # -- time --

    def mark(self) -> Any:
        """A point in time on the current stream."""
        event = self.xp.cuda.Event()
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        """Seconds."""
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(begin, end)) * 1e-3

    # -- memory --

    def empty(self, t: Type) -> Any:
        return self.xp.empty(t.shape, t.dtype)

    def again(self, array: Any, t: Type) -> Any:
        """A result in the memory of an array that was donated."""
        return self.xp.ndarray(t.shape, t.dtype, array.data)

    def bytes(self, size: int) -> Any:
        return self.xp.empty(size, np.uint8)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def taken(self, x: Any, t: Type) -> int:
        """The address of an array that a program takes as it is; 0 for others."""
        if type(x) is not self._ndarray or x.shape != t.shape or x.dtype != t.dtype or not x.flags.c_contiguous:
            return 0
        data = x.data
        address: int = data.ptr
        return address if address % ALIGNED == 0 and data.device_id == self.number else 0

    def imported(self, x: Any) -> Any:
        """An array of any library on this card, as one of CuPy's, without a copy."""
        xp = self.xp
        if isinstance(x, xp.ndarray):
            return x
        try:
            return xp.asarray(x) if hasattr(x, "__cuda_array_interface__") else xp.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:  # a tensor that requires a gradient, say
            raise ArgumentError(f"a {type(x).__name__} cannot be read by CuPy: {error}") from error

    def adopt(self, x: Any, t: Type) -> Any:
        """A value as an array on the card, in order and at an address that wide accesses can use."""
        xp = self.xp
        array = xp.ascontiguousarray(xp.asarray(x, t.dtype).reshape(t.shape))
        return array if array.data.ptr % ALIGNED == 0 else array.copy()

    def sent(self, values: Sequence[Any], types: Sequence[Type]) -> tuple[list[int], Any]:
        """The addresses of copies of host values, small ones in one transfer; and what keeps them alive."""
        places, size, large = [], 0, {}
        for i, (value, t) in enumerate(zip(values, types, strict=True)):
            nbytes = t.size * t.dtype.itemsize
            if size + nbytes > _PACKED:
                large[i] = self.adopt(value, t)
            places.append(size)
            size += 0 if i in large else -(-nbytes // ALIGNED) * ALIGNED
        packed, room = np.empty(size, np.uint8), self.bytes(max(size, 1))
        for i, (value, t) in enumerate(zip(values, types, strict=True)):
            if i not in large:
                nbytes = t.size * t.dtype.itemsize
                packed[places[i] : places[i] + nbytes] = np.ascontiguousarray(value, t.dtype).reshape(-1).view(np.uint8)
        if size:  # which waits until the host's memory is read, since that is not pinned
            room.data.copy_from_host_async(packed.ctypes.data, size, self._stream())
        start = self.address(room)
        return [self.address(large[i]) if i in large else start + place for i, place in enumerate(places)], (room, large, packed)

    def array(self, view: View, address: int) -> Any:
        """The array of a view over memory at an address."""
        xp = self.xp
        if 0 in view.shape:
            return xp.empty(view.shape, view.dtype)
        size = view.dtype.itemsize
        memory = xp.cuda.UnownedMemory(address, view.buffer.nbytes, None)
        start = xp.cuda.MemoryPointer(memory, view.offset * size)
        return xp.ndarray(view.shape, view.dtype, start, [s * size for s in view.strides])

    def host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def fetched(self, arrays: Sequence[Any]) -> list[Any]:
        """Results as arrays of the host: large ones through pinned memory, all of them with one wait."""
        import cupyx

        made = []
        for array in arrays:
            pinned = cupyx.empty_pinned(array.shape, array.dtype) if array.nbytes >= _PINNED else None
            made.append(array.get(out=pinned, blocking=pinned is None))
        self.wait()
        return made
