"""A card, through CuPy: modules, launches on the current stream, memory from CuPy's pool."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import UnsupportedError
from ...core.types import Type
from ...lower.kernel import View
from .ptx import ptx
from .text import Kernel, Module

_ALIGNED = 16  # bytes: kernels read and write as much at once


@functools.cache
def cupy() -> Any:
    """CuPy, with a card."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        raise UnsupportedError("programs on a card need CuPy, which is not installed; pip install 'adjoint[cuda]'") from None
    except Exception as error:  # CuPy's own kinds cannot be named without it
        raise UnsupportedError(f"CuPy finds no card it can use ({error})") from error
    return cupy


class Card:
    """The current device of CuPy."""

    name = "cuda"

    def __init__(self) -> None:
        self.xp = cupy()
        self.processor = f"sm_{self.xp.cuda.Device().compute_capability}"
        self._packed = threading.local()
        driver = self.xp.cuda.driver
        self._launch, self._stream = driver.launchKernel, self.xp.cuda.get_current_stream

    def load(self, module: Module) -> dict[str, Any]:
        """The functions of a module, by name."""
        if not module.entries:
            return {}
        loaded = self.xp.cuda.function.Module()
        loaded.load(ptx(module.for_card(), self.processor).encode())
        return {name: loaded.get_function(name) for name in (entry.name for entry in module.entries.values())}

    def launch(self, function: Any, kernel: Kernel, pointers: Sequence[int]) -> None:
        # The driver copies the arguments before it returns; each thread has its own, since CuPy releases the lock meanwhile.
        rooms: dict[int, Any] = self._packed.__dict__.setdefault("rooms", {})
        room = rooms.get(len(pointers))
        if room is None:
            values = (ctypes.c_void_p * max(len(pointers), 1))()
            first = ctypes.addressof(values)
            table = (ctypes.c_void_p * max(len(pointers), 1))(*(first + 8 * i for i in range(len(pointers))))
            room = rooms[len(pointers)] = values, table, ctypes.addressof(table)
        room[0][:] = pointers
        self._launch(function.ptr, kernel.blocks, 1, 1, kernel.threads, 1, 1, 0, self._stream().ptr, room[2], 0)

    def empty(self, t: Type) -> Any:
        return self.xp.empty(t.shape, t.dtype)

    def bytes(self, size: int) -> Any:
        return self.xp.empty(size, np.uint8)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def adopt(self, x: Any, t: Type) -> Any:
        """An argument as an array on the card, in order and at an address that wide accesses can use."""
        xp = self.xp
        array = xp.ascontiguousarray(xp.asarray(x, t.dtype).reshape(t.shape))
        return array if array.data.ptr % _ALIGNED == 0 else array.copy()

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
