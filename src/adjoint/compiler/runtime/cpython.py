"""The CPython and NumPy API for native code: functions by name, objects by their index in a table.

Functions become symbols `adjoint_Py…` of the process, which the linker finds when code is loaded, new or from a file. Objects
(types, dtypes, None) are read from a table, so that the code contains no address of this process and works under every code
model.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ...core.errors import UnsupportedError


def refusal(implementation: str, byte_order: str, pointer_size: int, counts_references: bool, numpy_abi: int) -> str | None:
    """Why compiled functions cannot be called from this interpreter, or None. Object layouts are read by native code."""
    if implementation != "cpython":
        return f"it runs in CPython, not in {implementation}"
    if byte_order != "little" or pointer_size != 8:
        return f"it needs a 64-bit little-endian machine; this one has {8 * pointer_size} bits and is {byte_order}-endian"
    if counts_references:
        return "it needs a release build of CPython: in debug builds, objects may have another layout"
    if numpy_abi >> 24 != 2:
        return f"it is written for the binary interface of NumPy 2, not for version {numpy_abi >> 24}"
    return None


# Indices in NumPy's table of C functions, as in numpy/__multiarray_api.h. They are part of NumPy's binary interface.
NUMPY_PLACES = {
    "PyArray_GetNDArrayCVersion": 0,
    "PyArray_Scalar": 60,
    "PyArray_NewFromDescr": 94,
    "PyDataMem_SetHandler": 304,
}

# The result and the parameters of each function that native code may call. Py_ssize_t is i64, int is i32.
FUNCTIONS = {
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "PyDict_Contains": ("i32", "ptr, ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr, ptr"),
    "PyDict_New": ("ptr", ""),
    "PyDict_Next": ("i32", "ptr, ptr, ptr, ptr"),
    "PyDict_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyDict_Size": ("i64", "ptr"),
    "PyErr_Clear": ("void", ""),
    "PyErr_ExceptionMatches": ("i32", "ptr"),
    "PyErr_NoMemory": ("ptr", ""),
    "PyErr_Occurred": ("ptr", ""),
    "PyErr_SetObject": ("void", "ptr, ptr"),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr", ""),
    "PyList_GetItem": ("ptr", "ptr, i64"),
    "PyList_New": ("ptr", "i64"),
    "PyList_SetItem": ("i32", "ptr, i64, ptr"),
    "PyList_Size": ("i64", "ptr"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr, ptr"),
    "PyMem_Free": ("void", "ptr"),
    "PyMem_Malloc": ("ptr", "i64"),
    "PyObject_CallObject": ("ptr", "ptr, ptr"),
    "PyObject_CallOneArg": ("ptr", "ptr, ptr"),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_GenericGetAttr": ("ptr", "ptr, ptr"),
    "PyObject_HasAttr": ("i32", "ptr, ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr, ptr, i32"),
    "PyObject_Size": ("i64", "ptr"),
    "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr"),
    "PySequence_List": ("ptr", "ptr"),
    "PyTuple_GetItem": ("ptr", "ptr, i64"),
    "PyTuple_New": ("ptr", "i64"),
    "PyTuple_SetItem": ("i32", "ptr, i64, ptr"),
    "PyTuple_Size": ("i64", "ptr"),
    "PyArray_Scalar": ("ptr", "ptr, ptr, ptr"),
    "PyArray_NewFromDescr": ("ptr", "ptr, ptr, i32, ptr, ptr, ptr, i32, ptr"),
    "PyDataMem_SetHandler": ("ptr", "ptr"),
}

# As PyObject_GenericGetAttr, but it need not raise for a missing attribute, which takes most of the time. A version may lack it.
QUIET_ATTRIBUTE = "_PyObject_GenericGetAttrWithDict"
if hasattr(ctypes.pythonapi, QUIET_ATTRIBUTE):
    FUNCTIONS[QUIET_ATTRIBUTE] = ("ptr", "ptr, ptr, ptr, i32")


FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
if FREE_THREADED:  # another thread may change a container between the read of an item and its new reference
    FUNCTIONS |= {
        "PyCell_Get": ("ptr", "ptr"),
        "PyDict_GetItemRef": ("i32", "ptr, ptr, ptr"),
        "PyDict_Items": ("ptr", "ptr"),
        "PyList_GetItemRef": ("ptr", "ptr, i64"),
    }


def declaration(name: str) -> str:
    """The line of LLVM IR that declares one of FUNCTIONS."""
    result, parameters = FUNCTIONS[name]
    return f"declare {result} @adjoint_{name}({parameters})"


def _numpy_functions() -> Any:
    """NumPy's table of C functions, as an array of addresses."""
    # A separate prototype: the attributes of ctypes.pythonapi are shared with every other module.
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    address = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return (ctypes.c_void_p * (max(NUMPY_PLACES.values()) + 1)).from_address(address)


def _register() -> None:
    """Check the interpreter, and register FUNCTIONS with the linker."""
    table = _numpy_functions()
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(table[NUMPY_PLACES["PyArray_GetNDArrayCVersion"]])()
    reason = refusal(
        sys.implementation.name,
        sys.byteorder,
        struct.calcsize("P"),
        hasattr(sys, "gettotalrefcount"),
        version,
    )
    if reason is not None:
        raise ImportError(f"adjoint's compiler cannot be used here: {reason}. Everything but `jit` works without it.")
    for name in FUNCTIONS:
        if name in NUMPY_PLACES:
            address = table[NUMPY_PLACES[name]]
        else:
            address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        llvm.add_symbol(f"adjoint_{name}", address)


_register()


# Offsets in bytes. HEAD is the size of PyObject_HEAD, which ends with the type of the object; the free-threaded build has a lock
# and two counts of references in it. The value of a float, a complex number or a NumPy scalar, and the contents of a closure
# cell, are the field after it. PyMethodObject and PyFunctionObject are those of CPython 3.11 to 3.14. PyArrayObject_fields
# and the head of PyArray_Descr are NumPy's binary interface.
HEAD = 32 if FREE_THREADED else 16
TYPE = HEAD - 8
VALUE = HEAD
METHOD_FUNCTION, METHOD_SELF = HEAD, HEAD + 8
FUNCTION_CODE = HEAD + 32
ARRAY_DATA, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_DTYPE, ARRAY_FLAGS = HEAD, HEAD + 8, HEAD + 16, HEAD + 40, HEAD + 48
DTYPE_BYTE_ORDER, DTYPE_NUMBER = HEAD + 10, HEAD + 12
C_CONTIGUOUS, ALIGNED = 0x1, 0x100
EQUAL = 2  # Py_EQ

_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 longdouble complex64 complex128 clongdouble"
)
DTYPES: tuple[np.dtype[Any], ...] = tuple(np.dtype(name) for name in _NAMES.split())


@functools.cache
def canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The equal one of DTYPES: `long` and `longlong` are two dtypes with one meaning."""
    if dtype not in DTYPES:
        raise UnsupportedError(f"native code does not work on arrays of {dtype!r}")
    return DTYPES[DTYPES.index(dtype)]


@functools.cache
def type_numbers(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """NumPy's type numbers of all the dtypes that are equal to this one.

    >>> type_numbers(np.dtype(bool))
    (0,)
    """
    codes = "?" + np.typecodes["AllInteger"] + np.typecodes["AllFloat"]
    return tuple(sorted({np.dtype(code).num for code in codes if np.dtype(code) == dtype}))
