"""A GPU, through CuPy: its memory, from CuPy's pool, and its clock."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..core.errors import ArgumentError, DeviceError
from ..core.types import Type

ALIGNED = 16  # bytes: kernels read and write as much at once
_PACKED = 1 << 16  # bytes of host values that are copied together
_PINNED = 1 << 20  # bytes; larger results are copied through pinned memory


@functools.cache
def cupy() -> Any:
    """CuPy, with a GPU."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        raise DeviceError("programs on a GPU need CuPy, which is not installed; pip install 'adjoint[cuda]'") from None
    except Exception as error:  # CuPy's own kinds cannot be named without it
        raise DeviceError(f"CuPy finds no GPU that it can use ({error})") from error
    return cupy


@functools.cache
def numbered(number: int) -> Memory:
    """The GPU of a number, as CuPy counts them."""
    return Memory(number)


def holding(address: int) -> int:
    """The number of the GPU that holds an address; the current GPU for the null address of an empty array."""
    runtime = cupy().cuda.runtime
    return int(runtime.pointerGetAttributes(address).device if address else runtime.getDevice())


class Memory:
    """One GPU. Its methods are called while it is the current one: see `active`."""

    name = "cuda"

    def __init__(self, number: int | None = None) -> None:
        self.xp = self.namespace = xp = cupy()
        count = xp.cuda.runtime.getDeviceCount()
        self.number = xp.cuda.runtime.getDevice() if number is None else number
        if not 0 <= self.number < count:
            raise DeviceError(f"there is no GPU {self.number}; CuPy finds {count}, numbered from 0")
        self._stream, self._ndarray, self._current = xp.cuda.get_current_stream, xp.ndarray, xp.cuda.runtime.getDevice

    def is_active(self) -> bool:
        """Whether this is the current GPU."""
        return self._current() == self.number  # type: ignore[no-any-return]

    def active(self) -> Any:
        """A context in which this is the current GPU."""
        return nullcontext() if self.is_active() else self.xp.cuda.Device(self.number)

    def wait(self) -> None:
        """Until all that was launched on the current stream is done."""
        self._stream().synchronize()

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
        """A result in the memory of a donated array."""
        return self.xp.ndarray(t.shape, t.dtype, array.data)

    def bytes(self, size: int) -> Any:
        return self.xp.empty(size, np.uint8)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def taken(self, x: Any, t: Type) -> int:
        """The address of an array that a program uses without a copy; 0 for others."""
        if type(x) is not self._ndarray or x.shape != t.shape or x.dtype != t.dtype or not x.flags.c_contiguous:
            return 0
        data = x.data
        address: int = data.ptr
        return address if address % ALIGNED == 0 and data.device_id == self.number else 0

    def imported(self, x: Any) -> Any:
        """An array of any library on this GPU as a CuPy array, without a copy."""
        xp = self.xp
        if isinstance(x, xp.ndarray):
            return x
        try:
            return xp.asarray(x) if hasattr(x, "__cuda_array_interface__") else xp.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:  # a tensor that requires a gradient, say
            raise ArgumentError(f"a {type(x).__name__} cannot be read by CuPy: {error}") from error

    def adopt(self, x: Any, t: Type) -> Any:
        """A value as a contiguous array on the GPU, aligned for wide accesses."""
        xp = self.xp
        array = xp.ascontiguousarray(xp.asarray(x, t.dtype)).reshape(t.shape)  # which gives a number an axis
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
        if size:  # synchronises until the host memory is read, since it is not pinned
            room.data.copy_from_host_async(packed.ctypes.data, size, self._stream())
        start = self.address(room)
        return [self.address(large[i]) if i in large else start + place for i, place in enumerate(places)], (room, large, packed)

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
