"""autograd.numpy: `adjoint.numpy` under that name, with its submodules linalg, fft and random."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any

import numpy as _numpy

from .... import numpy as _face
from ....core.bind import Traced
from . import numpy_boxes as numpy_boxes
from . import numpy_vjps as numpy_vjps

linalg = _face.linalg
fft = _face.fft
random = _numpy.random

# So that `import adjoint.compat.autograd.numpy.random as npr` finds them.
for _name in ("linalg", "fft", "random"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Arrays that have D on their diagonals and zeros elsewhere."""
    if (offset, axis1, axis2) not in ((0, -1, -2), (0, -2, -1)):
        raise NotImplementedError("make_diagonal is for offset=0, axis1=-1, axis2=-2")
    return _numpy.expand_dims(D, -1) * _numpy.eye(_numpy.shape(D)[-1])


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.where`, whose arguments may be given by name."""
    return _face.where(condition) if x is None and y is None else _face.where(condition, x, y)


def _of_any_iterable(name: str) -> Any:
    """A function of a sequence of arrays, which autograd also takes as `dict.values()` or a generator."""
    function = getattr(_face, name)

    @functools.wraps(function)
    def call(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        sequence = isinstance(arrays, (_numpy.ndarray, Traced)) or not isinstance(arrays, Iterable)
        return function(arrays if sequence else list(arrays), *args, **kwargs)

    return call


_OF_SEQUENCES = ("column_stack", "concatenate", "dstack", "hstack", "stack", "vstack")
column_stack, concatenate, dstack, hstack, stack, vstack = map(_of_any_iterable, _OF_SEQUENCES)


def _whole(kind: type) -> type:
    """An integer type that also converts arrays, traced ones among them."""

    def convert(cls: type, x: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return _face.astype(x, kind) if isinstance(x, Traced) else kind(x, *args, **kwargs)

    return type(kind.__name__, (kind,), {"__new__": convert, "__module__": __name__})


_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
int8, int16, int32, int64, uint8, uint16, uint32, uint64 = (_whole(getattr(_numpy, _name)) for _name in _WHOLE)


def __getattr__(name: str) -> Any:
    return getattr(_face, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_face)})


__all__ = [*_numpy.__all__]
