"""autograd.scipy.signal.convolve: convolution over some axes, a product summed over others, all pairs of the rest."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.types import shape_of


def _parse(axes: Any, dot_axes: Any, ndims: tuple[int, int]) -> tuple[list[list[int]], list[list[int]]]:
    given = [range(ndims[0]), range(ndims[1])] if axes is None else axes
    convolved = [[a % n for a in part] for part, n in zip(given, ndims, strict=True)]
    summed = [[a % n for a in part] for part, n in zip(dot_axes, ndims, strict=True)]
    if len(convolved[0]) != len(convolved[1]) or len(summed[0]) != len(summed[1]):
        raise ValueError("axes and dot_axes name as many axes of A as of B")
    return convolved, summed


def convolve(A: Any, B: Any, axes: Any = None, dot_axes: Sequence[Any] = ((), ()), mode: str = "full") -> Any:
    """Convolve A with B over `axes` (by default all), sum over `dot_axes`.

    The result has the remaining axes of A, those of B, then the convolved ones.
    """
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode is 'full', 'valid' or 'same', not {mode!r}")
    (over_a, over_b), (dot_a, dot_b) = _parse(axes, dot_axes, (len(shape_of(A)), len(shape_of(B))))
    letters = iter(string.ascii_letters)
    shared = {a: next(letters) for a in dot_a}
    names_a = [shared[i] if i in shared else next(letters) for i in range(len(shape_of(A)))]
    names_b = [names_a[dot_a[dot_b.index(i)]] if i in dot_b else next(letters) for i in range(len(shape_of(B)))]
    free = [names_a[i] for i in range(len(names_a)) if i not in (*over_a, *dot_a)]
    free += [names_b[i] for i in range(len(names_b)) if i not in (*over_b, *dot_b)]
    sizes_a, sizes_b = [shape_of(A)[i] for i in over_a], [shape_of(B)[i] for i in over_b]
    large, small = (A, over_a, names_a, sizes_a), (B, over_b, names_b, sizes_b)
    if any(m > n for m, n in zip(sizes_b, sizes_a, strict=True)):
        if mode == "valid" and any(m < n for m, n in zip(sizes_b, sizes_a, strict=True)):
            raise ValueError("for mode 'valid' one of A and B must be at least as large as the other along every axis")
        large, small = small, large
    y = _slide(large, small, free, pad=mode != "valid")
    if mode == "same":
        starts = [(m - 1) // 2 for m in sizes_b]
        y = y[(..., *[slice(s, s + n) for s, n in zip(starts, sizes_a, strict=True)])]
    return y


def _slide(large: Any, small: Any, free: list[str], pad: bool) -> Any:
    """The small array, flipped, against every window of the large one."""
    x, over, names, _ = large
    k, over_k, names_k, sizes_k = small
    if pad:
        widths = [(0, 0)] * len(names)
        for axis, m in zip(over, sizes_k, strict=True):
            widths[axis] = (m - 1, m - 1)
        x = np.pad(x, widths)
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(sizes_k), tuple(over)) if over else x
    inside = [names_k[i] for i in over_k]
    formula = f"{''.join([*names, *inside])},{''.join(names_k)}->{''.join(free)}{''.join(names[i] for i in over)}"
    return np.einsum(formula, windows, np.flip(k, tuple(over_k)), optimize=True)


__all__ = ["convolve"]
