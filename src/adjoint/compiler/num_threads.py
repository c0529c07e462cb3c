"""How many threads compiled programs use."""

from __future__ import annotations

import numpy as np

from ..core.errors import ShapeError


def get_num_threads() -> int:
    """How many threads a compiled program may use.

    >>> import adjoint as ad
    >>> ad.get_num_threads() >= 1
    True
    """
    from . import native  # heavy: loads LLVM

    return native.pool().threads


def set_num_threads(count: int) -> None:
    """Let compiled programs use this many threads. At first it is the number of cores, or OMP_NUM_THREADS.

    >>> import adjoint as ad
    >>> before = ad.get_num_threads()
    >>> ad.set_num_threads(1)
    >>> ad.get_num_threads()
    1
    >>> ad.set_num_threads(before)
    """
    from . import native  # heavy: loads LLVM

    if not isinstance(count, (int, np.integer)) or count < 1:
        raise ShapeError(f"the number of threads must be a positive integer, not {count!r}")
    native.pool().threads = int(count)
