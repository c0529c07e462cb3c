"""Numbers and arrays in short form: large arrays are summarised."""

from __future__ import annotations

from typing import Any

import numpy as np

WRITTEN = 64  # elements; a larger array is summarised by its extremes and corners
MAP = 16  # rows and columns of the small picture of an array


def number(x: Any) -> str:
    """One number, with four digits.

    >>> number(2.0), number(np.float32(0.1)), number(-3), number(1e-20), number(1 + 2j)
    ('2', '0.1', '-3', '1e-20', '1+2j')
    """
    x = x.item() if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0) else x
    if isinstance(x, complex):
        return f"{number(x.real)}{'' if str(number(x.imag)).startswith('-') else '+'}{number(x.imag)}j"
    if isinstance(x, float):
        return f"{x:.4g}"
    return str(x)


def brief(value: Any) -> str:
    """A value in a few characters: a number, or the extremes of an array.

    >>> brief(np.array([3.0, 1.0, 2.0])), brief(np.ones((2, 2))), brief(np.zeros(0))
    ('1 … 3', 'all 1', 'empty')
    """
    array = np.asarray(value)
    if array.size == 1:
        return number(array.reshape(-1)[0])
    if not array.size:
        return "empty"
    if array.dtype.kind == "c":
        return f"|·| {brief(np.abs(array))}"
    if array.dtype.kind not in "biuf":
        return f"{array.size} of {array.dtype.name}"
    if array.dtype.kind == "f" and np.isnan(array).any():
        return f"{int(np.isnan(array).sum())} of {array.size} nan"
    low, high = array.min(), array.max()
    return f"all {number(low)}" if low == high else f"{number(low)} … {number(high)}"


def summary(value: Any) -> dict[str, Any]:
    """The data that the page shows for a value: short form, full form or extremes, and a small picture of an array."""
    array = np.asarray(value)
    told: dict[str, Any] = {"brief": brief(array)}
    told["full"] = repr(array.item()) if array.ndim == 0 else _write(array)
    if array.dtype.kind in "fc":
        told["nan"], told["inf"] = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    if array.size > 1 and array.dtype.kind in "biufc":
        plain = np.abs(array) if array.dtype.kind == "c" else array.astype(float)
        finite = plain[np.isfinite(plain)]
        if finite.size:
            with np.errstate(all="ignore"):
                mean = finite.mean()
            told["extremes"] = f"min {number(finite.min())}   mean {number(mean)}   max {number(finite.max())}"
            told["map"] = _map(plain, float(finite.min()), float(finite.max()))
    return told


def _write(array: Any) -> str:
    with np.printoptions(threshold=WRITTEN, edgeitems=3, precision=6, suppress=False, linewidth=44):
        return str(array)


def _map(array: Any, low: float, high: float) -> list[str]:
    """Rows of digits 0 to 9 from the minimum to the maximum, x for non-finite elements; a large array is sampled."""
    plane = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    rows, columns = (np.unique(np.linspace(0, n - 1, min(n, MAP)).round().astype(int)) for n in plane.shape)
    sample = plane[np.ix_(rows, columns)]
    with np.errstate(all="ignore"):
        levels = np.clip((sample - low) / (high - low) * 9.99, 0, 9) if high > low else np.full(sample.shape, 5.0)
    return ["".join(str(int(x)) if np.isfinite(x) else "x" for x in row) for row in np.where(np.isfinite(sample), levels, np.nan)]
