"""Whether the memory of an array may be written to, as NumPy says."""

from __future__ import annotations

from typing import Any

_WRITEABLE = 0x0400  # NPY_ARRAY_WRITEABLE


def is_writeable(x: Any) -> bool:
    """x.flags.writeable, which warns of the results of np.broadcast_arrays as if they were written to."""
    return bool(x.flags.num & _WRITEABLE)
