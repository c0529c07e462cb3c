"""Numbers as the command line prints them, and as JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.tree import LEAF, flatten


def shown(value: Any) -> str:
    """A value in full: every digit that matters, arrays in brackets."""
    leaves, structure = flatten(value)
    if structure is not LEAF:
        pairs = zip(structure.paths(), leaves, strict=True)
        return ", ".join(f"{path} {_shown(leaf)}" for path, leaf in pairs)
    return _shown(value)


def _shown(x: Any) -> str:
    a = np.asarray(x)
    if a.ndim:
        return np.array2string(a + 0, separator=", ", threshold=60, formatter={"float_kind": _number})  # type: ignore[call-overload]
    return _number(a[()]) if a.dtype.kind == "f" else str(a[()])


def _number(x: Any) -> str:
    text = repr(float(x) + 0.0)
    return text.removesuffix(".0")


def plain(value: Any) -> Any:
    """A value for JSON. Numbers that JSON does not have are the strings "nan", "inf" and "-inf"."""
    if isinstance(value, dict):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return {"re": plain(value.real), "im": plain(value.imag)}
    return value if value is None or isinstance(value, (bool, int, str)) else repr(value)
