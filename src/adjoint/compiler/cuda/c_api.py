"""Functions of cuBLAS, cuSOLVER and the driver, called through ctypes.

CuPy binds most of them, but refuses library calls while a stream is captured, and has no conditional nodes. CuPy has loaded the
libraries: their functions are found through its extension modules, and nothing else has to be installed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from ...core.errors import DeviceError

_KINDS = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "c": ctypes.c_byte,
    "l": ctypes.c_longlong,
    "z": ctypes.c_size_t,
}
_OUT_OF_MEMORY = 3, 2  # CUBLAS_STATUS_ALLOC_FAILED, CUSOLVER_STATUS_ALLOC_FAILED

#: The arguments of each function (`?` stands for the precision), as letters of `_KINDS`; the first is the handle.
_BLAS = {
    "cublasSetStream_v2": "pp",
    "cublasSetWorkspace_v2": "ppz",
    "cublasSetMathMode": "pi",
    "cublas?gemm_v2": "p iiiii p pi pi p pi",
    "cublas?gemmStridedBatched": "p iiiii p pil pil p pil i",
    "cublas?trsm_v2": "p iiii ii p pi pi",
    "cublas?trsmBatched": "p iiii ii p pi pi i",
    "cublas?getrfBatched": "p i pi p p i",
    "cublas?getrsBatched": "p iii pi p pi p i",
    "cublas?getriBatched": "p i pi p pi p i",
}
_SOLVER = {
    "cusolverDnSetStream": "pp",
    "cusolverDnCreateSyevjInfo": "p",
    "cusolverDnCreateGesvdjInfo": "p",
    "cusolverDn?potrf_bufferSize": "p ii pi p",
    "cusolverDn?potrf": "p ii pi pi p",
    "cusolverDn?potrfBatched": "p ii pi p i",
    "cusolverDn?getrf_bufferSize": "p ii pi p",
    "cusolverDn?getrf": "p ii pi p p p",
    "cusolverDn?getrs": "p iii pi p pi p",
    "cusolverDn?geqrf_bufferSize": "p ii pi p",
    "cusolverDn?geqrf": "p ii pi p pi p",
    "cusolverDn?orgqr_bufferSize": "p iii pi p p",
    "cusolverDn?orgqr": "p iii pi p pi p",
    "cusolverDn?syevd_bufferSize": "p iii pi p p",
    "cusolverDn?syevd": "p iii pi p pi p",
    "cusolverDn?syevjBatched_bufferSize": "p iii pi p p p i",
    "cusolverDn?syevjBatched": "p iii pi p pi p p i",
    "cusolverDn?gesvd_bufferSize": "p ii p",
    "cusolverDn?gesvd": "p cc ii pi p pi pi pi p p",
    "cusolverDn?gesvdjBatched_bufferSize": "p iii pi p pi pi p p i",
    "cusolverDn?gesvdjBatched": "p iii pi p pi pi pi p p i",
}
_DRIVER = {
    "cuCtxGetCurrent": "p",
    "cuGetErrorName": "ip",
    "cuStreamBeginCapture_v2": "pi",
    "cuStreamBeginCaptureToGraph": "ppppzi",
    "cuStreamEndCapture": "pp",
    "cuStreamGetCaptureInfo_v3": "ppppppp",
    "cuStreamUpdateCaptureDependencies_v2": "pppzu",
    "cuGraphConditionalHandleCreate": "pppuu",
    "cuGraphAddNode_v2": "ppppzp",
    "cuGraphInstantiateWithFlags": "ppl",
    "cuGraphLaunch": "pp",
    "cuGraphExecDestroy": "p",
    "cuGraphDestroy": "p",
}


def _function(library: Any, name: str, kinds: str) -> Any:
    function = getattr(library, name)
    function.argtypes = [_KINDS[kind] for kind in kinds.replace(" ", "")]
    function.restype = ctypes.c_int
    return function


@functools.cache
def _library(which: str) -> Any:
    """cuBLAS or cuSOLVER: a handle of an extension module also finds the functions of the libraries that it is linked to."""
    from cupy_backends.cuda import libs

    return ctypes.CDLL(getattr(libs, which).__file__)


@functools.cache
def _routine(name: str, letter: str) -> Any:
    table, which = (_BLAS, "cublas") if name in _BLAS else (_SOLVER, "cusolver")
    return _function(_library(which), name.replace("?", letter), table[name])


def routine(name: str, dtype: Any = np.float64) -> Any:
    """A function of cuBLAS or cuSOLVER for a precision; it raises what it fails with."""
    letter = "D" if dtype == np.float64 else "S"
    function = _routine(name, letter)

    def call(*arguments: Any) -> None:
        status = function(*arguments)
        if status:
            failed(name.replace("?", letter), status)

    return call


def failed(name: str, status: int) -> None:
    if status == _OUT_OF_MEMORY[0 if name.startswith("cublas") else 1]:
        raise MemoryError(f"{name} found no memory")
    raise DeviceError(f"{name} failed with status {status}")


class Driver:
    """The driver's functions for graphs, by their names without `cu`."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self.functions: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        return hasattr(self.library, name)

    def __call__(self, name: str, *arguments: Any) -> None:
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = _function(self.library, name, _DRIVER[name])
        status = function(*arguments)
        if status:
            text = ctypes.c_char_p()
            _function(self.library, "cuGetErrorName", _DRIVER["cuGetErrorName"])(status, ctypes.addressof(text))
            raise DeviceError(f"{name} failed with {(text.value or b'an unknown error').decode()}")


@functools.cache
def driver() -> Driver:
    return Driver()
