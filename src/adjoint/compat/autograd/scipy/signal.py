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
    """A sum over the elements of the small array's convolved axes, each times a shifted part of the large one."""
    x, over, names, sizes = large
    k, over_k, names_k, sizes_k = small
    if pad:
        widths = [(0, 0)] * len(names)
        for axis, m in zip(over, sizes_k, strict=True):
            widths[axis] = (m - 1, m - 1)
        x, sizes = np.pad(x, widths), [n + 2 * (m - 1) for n, m in zip(sizes, sizes_k, strict=True)]
    lengths = [n - m + 1 for n, m in zip(sizes, sizes_k, strict=True)]
    kept = "".join(name for i, name in enumerate(names_k) if i not in over_k)
    formula = f"{''.join(names)},{kept}->{''.join(free)}{''.join(names[i] for i in over)}"
    total = None
    for place in np.ndindex(*sizes_k):
        part: list[Any] = [slice(None)] * len(names)
        at: list[Any] = [slice(None)] * len(names_k)
        for axis, axis_k, i, m, length in zip(over, over_k, place, sizes_k, lengths, strict=True):
            part[axis] = slice(m - 1 - i, m - 1 - i + length)
            at[axis_k] = i
        term = np.einsum(formula, x[tuple(part)], k[tuple(at)])
        total = term if total is None else total + term
    return total


__all__ = ["convolve"]
