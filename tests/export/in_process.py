"""Exported functions, compiled by LLVM and called in this process, without any tool."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from export.c_compiler import Library

from adjoint.compiler.native import load
from adjoint.export.object_file import compiled, program
from adjoint.export.program import parts


class _Functions:
    """The functions of an engine, as attributes."""

    def __init__(self, code: bytes) -> None:
        self.engine = load([code])

    def __getattr__(self, name: str) -> Any:
        return ctypes.CFUNCTYPE(ctypes.c_int32)(self.engine.get_function_address(name))


def exported(f: Any, *args: Any) -> Callable[..., list[Any]]:
    """A function exported for arguments like these. It gives its flat results; ArithmeticError with its status if it fails."""
    made = parts(f, args, {}, derivatives=(), argnums=0, name="exported")
    text, arena = program(made, "export.object")
    library = Library.__new__(Library)
    library.library = _Functions(compiled(text))  # type: ignore[assignment]
    library.work = np.zeros(arena + 64, np.uint8)
    return lambda *given: library(made[0], list(given))


def results(f: Any, *args: Any) -> list[Any]:
    """The flat results of a function that is exported for these arguments."""
    return exported(f, *args)(*args)
