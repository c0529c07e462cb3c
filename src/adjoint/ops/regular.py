"""Matrices at which a function has no derivative: rules compute with the identity instead, and give nan and a warning."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from ..core.bind import numbers
from ..core.errors import user_level
from ..core.types import Value, dtype_of, shape_of
from .broadcast import cast, where


class Regular(NamedTuple):
    """Which matrices of a stack are lost, as matrices of one element."""

    lost: Value

    def of(self, a: Value) -> Value:
        """The matrices to compute with."""
        return where(self.lost, np.eye(shape_of(a)[-1], dtype=dtype_of(a)), a)

    def checked(self, y: Value) -> Value:
        """Results; a factor, so that a zero of a cotangent meets no nan of the others."""
        factor = where(self.lost, np.nan, 1.0)
        return y * cast(factor, dtype=np.finfo(dtype_of(y)).dtype)


def regular(lost: Value, why: str) -> Regular:
    known = numbers(lost)
    if known is not None and np.any(known):
        warnings.warn(f"{why}; the result is nan", RuntimeWarning, stacklevel=user_level())
    return Regular(lost)
