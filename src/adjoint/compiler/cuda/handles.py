"""Handles of cuBLAS and cuSOLVER: which one a call uses, with which stream and work memory.

A handle serves one thread. cuBLAS chooses a method by the size of its work memory, which two streams cannot share. So there is a
handle, with memory of a fixed size, for each thread and stream. A product then has the same bits on every stream, and in a CUDA
graph, which has work memory of its own.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from . import c_api

MOST = 8  # streams of a thread that have a handle


class BlasHandle:
    """A handle of cuBLAS."""

    def __init__(self) -> None:
        from cupy_backends.cuda.libs import cublas

        self.number = int(cublas.create())
        self.stream, self.memory = -1, None

    def use(self, stream: int, memory: Any) -> int:
        """The handle, for calls on a stream with some work memory."""
        if self.stream != stream or self.memory is not memory:
            c_api.routine("cublasSetStream_v2")(self.number, stream)  # which takes its work memory away
            c_api.routine("cublasSetWorkspace_v2")(self.number, memory.data.ptr, memory.nbytes)
            self.stream, self.memory = stream, memory
        return self.number

    def __del__(self) -> None:
        if not sys.is_finalizing() and hasattr(self, "number"):
            from cupy_backends.cuda.libs import cublas

            cublas.destroy(self.number)


class _Own(threading.local):
    """What a thread has."""

    def __init__(self) -> None:
        self.by_stream: OrderedDict[int, tuple[BlasHandle, Any]] = OrderedDict()
        self.recording: Any = None
        self.recorder: BlasHandle | None = None  # the handle for calls that are recorded


class Handles:
    """Gives functions of the libraries with the handle filled in. `recording` is the CUDA graph that a thread records, if any."""

    def __init__(self, gpu: Any) -> None:
        self.xp, self._stream, self.own = gpu.xp, gpu._stream, _Own()
        self.size = (32 if int(gpu.processor[3:]) >= 90 else 4) << 20  # as NVIDIA advises

    def blas_handle(self) -> int:
        own, stream = self.own, self._stream().ptr
        if own.recorder is None:
            own.recorder = BlasHandle()  # if possible not while recording: a program is launched once before
        if own.recording is not None:
            return own.recorder.use(stream, own.recording.work_memory(self.size))
        found = own.by_stream.get(stream)
        if found is None:
            handle = own.by_stream.popitem(last=False)[1][0] if len(own.by_stream) >= MOST else BlasHandle()
            found = own.by_stream[stream] = handle, self.xp.empty(self.size, "u1")
        else:
            own.by_stream.move_to_end(stream)
        return found[0].use(stream, found[1])

    def solver_handle(self) -> int:
        from cupy.cuda import device

        handle = int(device.get_cusolver_handle())
        c_api.routine("cusolverDnSetStream")(handle, self._stream().ptr)
        return handle

    def blas(self, name: str, dtype: Any) -> Callable[..., None]:
        call, handle = c_api.routine(name, dtype), self.blas_handle
        return lambda *arguments: call(handle(), *arguments)

    def solver(self, name: str, dtype: Any) -> Callable[..., None]:
        call, handle = c_api.routine(name, dtype), self.solver_handle
        return call if name.startswith("cusolverDnCreate") else lambda *arguments: call(handle(), *arguments)
