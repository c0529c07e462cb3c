"""Arrays on a card, whichever library made them: which card holds an array, without loading any of these libraries.

CuPy, PyTorch and JAX say it by DLPack, Numba and RMM by the address in `__cuda_array_interface__`.
"""

from __future__ import annotations

from typing import Any

from . import card

_CUDA = frozenset({2, 13})  # DLPack's kDLCUDA and kDLCUDAManaged


def card_of(x: Any) -> int | None:
    """The number of the card that holds an array; None for anything else."""
    cls = type(x)
    if hasattr(cls, "__dlpack_device__"):
        kind, number = x.__dlpack_device__()
        return int(number) if kind in _CUDA else None
    if hasattr(cls, "__cuda_array_interface__"):
        return card.holding(x.__cuda_array_interface__["data"][0])
    return None
