"""Functions of scipy.special as scalar calls, by the addresses that SciPy publishes in `cython_special`.

A name such as `special.kn.ld` is one C function: `kn` of an integer and a float64. NumPy's type resolution selects the function
for the types of the operands. It is used only if it agrees bitwise with SciPy's ufunc at sample points; otherwise the operation
is a foreign call. Compiled code does not see `scipy.special.errstate`: nothing warns or raises.
"""

from __future__ import annotations

import ctypes
import functools
import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...ops.lazy import Lazy

Dtype = np.dtype[Any]

PREFIX = "special."
_LETTERS: dict[str, Any] = {"f": ctypes.c_float, "d": ctypes.c_double, "l": ctypes.c_int64}
_DTYPES = {np.dtype(np.float32): "f", np.dtype(np.float64): "d", np.dtype(np.int64): "l"}
_C_TYPES = {
    "double": "d",
    "float": "f",
    **{name: "l" for name, kind in (("long", ctypes.c_long), ("Py_ssize_t", ctypes.c_ssize_t)) if ctypes.sizeof(kind) == 8},
}
_SIGNATURE = re.compile(r"(double|float) \((.*), int __pyx_skip_dispatch\)")
_OWN_IMPLEMENTATION = {"zeta": "zeta"}  # ops that check their operands before they call SciPy
_POINTS = 40


class Special(NamedTuple):
    """A C function: the letters of its parameters and of its result, and its address."""

    name: str
    parameters: str
    result: str
    address: int

    def __call__(self, *args: Any) -> Any:
        kinds = [_LETTERS[c] for c in self.parameters]
        return ctypes.CFUNCTYPE(_LETTERS[self.result], *kinds, ctypes.c_int)(self.address)(*args, 0)


def function_name(op: Op) -> str | None:
    """The name in scipy.special of an elementwise op, if it is one."""
    impl = op.impl
    if isinstance(impl, Lazy):
        return impl.name if impl.module == "scipy.special" and not op.many else None
    return _OWN_IMPLEMENTATION.get(op.name)


def working_dtypes(op: Op, operands: Sequence[Any], result: Dtype) -> list[Dtype] | None:
    """The parameter dtypes of the C function for these operands; None if there is no trusted one.

    An operand is a dtype, or a Python number.
    """
    name = function_name(op)
    kinds = tuple(o if isinstance(o, np.dtype) else type(o) for o in operands)
    if name is None or any(k is bool or k == np.dtype(bool) for k in kinds):
        return None
    loop = _loop(name, kinds)
    if loop is None or result not in _DTYPES or loop[-1] != _DTYPES[result]:
        return None
    parameters = _trusted(name, loop[:-1], loop[-1], _domain(op, len(operands)))
    return None if parameters is None else [np.dtype({"f": np.float32, "d": np.float64, "l": np.int64}[c]) for c in parameters]


def line_name(op: Op, dtypes: Sequence[Dtype]) -> str:
    """The name of the line of code."""
    return f"{PREFIX}{function_name(op)}.{''.join(_DTYPES[d] for d in dtypes)}"


def of_line(line: str) -> Special:
    """The C function of a line of code."""
    _, name, parameters = line.split(".")
    return entries(name)[parameters]


@functools.cache
def _loop(name: str, kinds: tuple[Any, ...]) -> str | None:
    """The letters of the ufunc loop for operands of these kinds; the last is that of the result."""
    from scipy import special

    ufunc = getattr(special, name)
    if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1 or ufunc.nin != len(kinds):
        return None
    try:
        dtypes = ufunc.resolve_dtypes((*kinds, None))
    except TypeError:
        return None
    return "".join(_DTYPES[d] for d in dtypes) if all(d in _DTYPES for d in dtypes) else None


@functools.cache
def entries(name: str) -> dict[str, Special]:
    """The C functions of a name, by their parameters."""
    from scipy.special import cython_special

    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    wanted = re.compile(rf"(__pyx_fuse_\d+(_\d+)*)?{re.escape(name)}")
    found: dict[str, Special] = {}
    for key, capsule in cython_special.__pyx_capi__.items():
        if wanted.fullmatch(key):
            signature = name_of(capsule)
            match = _SIGNATURE.fullmatch(signature.decode())
            kinds = match[2].split(", ") if match else []
            if match and all(kind in _C_TYPES for kind in kinds):
                parameters = "".join(_C_TYPES[kind] for kind in kinds)
                found[parameters] = Special(name, parameters, _C_TYPES[match[1]], pointer_of(capsule, signature))
    return found


@functools.cache
def _trusted(name: str, parameters: str, result: str, domain: tuple[tuple[float, float], ...]) -> str | None:
    """The parameters of a C function that agrees with a loop of the ufunc: its own, or those of the wider one."""
    for letters in dict.fromkeys((parameters, parameters.replace("f", "d"))):
        known = entries(name).get(letters)
        if known is not None and _agrees(known, parameters, result, domain):
            return letters
    return None


def _agrees(known: Special, parameters: str, result: str, domain: tuple[tuple[float, float], ...]) -> bool:
    """Whether a C function and the ufunc agree, at points inside the domain and at special ones."""
    from scipy import special

    columns = []
    for i, (letter, (low, high)) in enumerate(zip(parameters, domain, strict=True)):
        if letter == "l":
            columns.append(np.arange(_POINTS) * (i + 1) % 6)
        else:
            inside = low + (high - low) * (np.arange(_POINTS) * 0.618034 * (i + 1) % 1)
            inside[::9] = np.resize([0.0, np.nan, 1.0, -0.5, 0.5], len(inside[::9]))
            columns.append(inside.astype(np.float32 if letter == "f" else np.float64))
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"), special.errstate(all="ignore"):
        warnings.simplefilter("always")
        expected = getattr(special, known.name)(*columns)
    if warned:  # such a loop calls Python, which native code must not
        return False
    dtype = np.float32 if result == "f" else np.float64
    with np.errstate(all="ignore"):
        got = np.array([known(*(c[k].item() for c in columns)) for k in range(_POINTS)]).astype(dtype)
    return bool(expected.dtype == dtype and np.array_equal(got, expected, equal_nan=True))


def _domain(op: Op, count: int) -> tuple[tuple[float, float], ...]:
    """Where each operand is sampled."""
    domain = op.domain
    if len(domain) == 2 and not isinstance(domain[0], tuple):
        return ((float(domain[0]), float(domain[1])),) * count
    return tuple((float(low), float(high)) for low, high in domain)
