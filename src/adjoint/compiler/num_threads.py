"""How many threads compiled programs use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ShapeError


def get_num_threads() -> int:
    """How many threads a compiled program may use.

    >>> import adjoint as ad
    >>> ad.get_num_threads() >= 1
    True
    """
    return int(_pool().threads)


def set_num_threads(count: int) -> None:
    """Let compiled programs use this many threads. At first it is the number of cores, or OMP_NUM_THREADS.

    >>> import adjoint as ad
    >>> before = ad.get_num_threads()
    >>> ad.set_num_threads(1)
    >>> ad.get_num_threads()
    1
    >>> ad.set_num_threads(before)
    """
    if not isinstance(count, (int, np.integer)) or count < 1:
        raise ShapeError(f"the number of threads must be a positive integer, not {count!r}")
    _pool().threads = int(count)


def _pool() -> Any:
    from . import native  # heavy: loads LLVM

    return native.pool()
