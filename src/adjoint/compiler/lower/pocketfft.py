"""NumPy's Fourier transforms as functions that compiled code calls.

NumPy's transforms are generalised ufuncs over pocketfft, a library that it does not export. But a ufunc is a structure with the
address of a C function for each combination of dtypes, and NumPy's headers publish both:

    void loop(char **args, npy_intp *dimensions, npy_intp *steps, void *data)

`args` are the addresses of the operand, of the factor that scales the result, and of the result; `dimensions` the number of
transforms, the length of the operand and of the result; `steps` the bytes between transforms in each of the three, and between
the elements of operand and result. The function needs no interpreter.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, NamedTuple

import numpy as np

PREFIX = "adjoint_fft."


class CFunction(NamedTuple):
    """The addresses of a C function, and of what it gets as its last argument, or 0."""

    function: int
    data: int


class _Ufunc(ctypes.Structure):
    """The head of NumPy's PyUFuncObject, behind that of all Python objects."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@functools.cache
def loop(routine: str, char: str) -> CFunction | None:
    """The function for operands of a dtype, by its letter; None if this NumPy has none, or is built in another way."""
    try:
        module = importlib.import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        return None
    ufunc: Any = getattr(module, routine, None)
    if not isinstance(ufunc, np.ufunc):
        return None
    head = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    if (head.nin, head.nout, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes) or head.name != ufunc.__name__.encode():
        return None
    for i in range(head.ntypes):
        if head.types[i * head.nargs][0] == np.dtype(char).num:
            function = head.functions[i]
            return None if function is None else CFunction(function, (head.data[i] if head.data else None) or 0)
    return None


def symbols(routine: str, char: str) -> tuple[str, str]:
    """The names in compiled code of the function, and of its last argument; empty if that is a null pointer."""
    found = loop(routine, char)
    has_data = found is not None and found.data
    return f"{PREFIX}{routine}.{char}.function", f"{PREFIX}{routine}.{char}.data" if has_data else ""


def address(symbol: str) -> int:
    routine, char, what = symbol.removeprefix(PREFIX).split(".")
    found = loop(routine, char)
    assert found is not None  # or the program would not call it
    return getattr(found, what)  # type: ignore[no-any-return]
