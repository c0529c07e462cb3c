"""autograd.scipy.special: `adjoint.scipy.special` under that name."""

from __future__ import annotations

from typing import Any

from ....scipy import special as _face


def __getattr__(name: str) -> Any:
    return getattr(_face, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_face)})
