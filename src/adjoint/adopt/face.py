"""A library module as adopted code sees it: some names replaced, the rest from the original."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any


class Face(types.ModuleType):
    """A module with some names replaced. What adopted code writes to it stays here: the original is never changed.

    >>> import math
    >>> face = Face(math, {"sin": abs})
    >>> face.sin(-1.0), face.cos(0.0), "tan" in face.__all__
    (1.0, 1.0, True)
    """

    def __init__(self, original: types.ModuleType, names: Mapping[str, Any], public: types.ModuleType | None = None) -> None:
        public = public or original
        super().__init__(public.__name__, original.__doc__)
        vars(self).update({k: v for k, v in vars(original).items() if k in _KEPT})
        vars(self).update(names)
        vars(self)["_original"] = original
        vars(self)["_public"] = public
        vars(self)["__all__"] = list(getattr(public, "__all__", [k for k in dir(public) if not k.startswith("_")]))

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_original"], name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(vars(self)["_public"]), *self.__all__})

    def __repr__(self) -> str:
        return f"<{vars(self)['_public']!r:.1000} in adopted code>"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'module' object")


_KEPT = frozenset({"__file__", "__path__", "__package__", "__loader__", "__spec__"})


class FixedFace(Face):
    """A face of a module whose names do not change: they are stored on first use."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(vars(self)["_original"], name)
        if not name.startswith("__"):
            vars(self)[name] = value
        return value
