"""`x.flags` of a traced array: what NumPy would say of its layout in memory, and whether it may be written to.

    if not x.flags.c_contiguous: x = np.ascontiguousarray(x)

The answers come from the layout that `layout.py` keeps for views and copies. An array can be declared read-only, as libraries do
with what they keep.
"""

from __future__ import annotations

from typing import Any

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from .layout import stand_in
from .views import is_read_only, owns_memory, protect

_SHORT = {"W": "writeable", "O": "owndata", "C": "c_contiguous", "F": "f_contiguous", "A": "aligned"}


class Flags:
    """The flags of a traced array."""

    def __init__(self, x: Traced) -> None:
        found = {"writeable": not is_read_only(x), "owndata": owns_memory(x)}
        vars(self).update(_array=x, _layout=stand_in(x).flags, **found)

    def __getattr__(self, name: str) -> bool:
        return bool(getattr(vars(self)["_layout"], name))

    def __getitem__(self, key: str) -> bool:
        return bool(getattr(self, _SHORT.get(key, key.lower())))

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "writeable":
            raise UnsupportedError(f"flags.{name} of a traced array cannot be changed; it has no memory")
        protect(vars(self)["_array"], not value)
        vars(self)["writeable"] = bool(value)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _SHORT.get(key, key.lower()), value)


def setflags(x: Traced, write: Any = None, align: Any = None, uic: Any = None) -> None:
    """`x.setflags` of a traced array: it may be declared read-only."""
    for name, value in {"aligned": align, "writebackifcopy": uic}.items():
        if value is not None and bool(value) != getattr(Flags(x), name):
            setattr(Flags(x), name, value)
    if write is not None:
        protect(x, not write)
