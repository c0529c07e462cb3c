"""Arrays on a GPU, whichever library made them: which GPU holds an array, without loading any of these libraries.

CuPy, PyTorch and JAX say it by DLPack, Numba and RMM by the address in `__cuda_array_interface__`.
"""

from __future__ import annotations

from typing import Any

from . import gpu

_CUDA = frozenset({2, 13})  # DLPack's kDLCUDA and kDLCUDAManaged


def gpu_of(x: Any) -> int | None:
    """The number of the GPU that holds an array; None for anything else."""
    cls = type(x)
    if hasattr(cls, "__dlpack_device__"):
        kind, number = x.__dlpack_device__()
        return int(number) if kind in _CUDA else None
    if hasattr(cls, "__cuda_array_interface__"):
        return gpu.holding(x.__cuda_array_interface__["data"][0])
    return None
