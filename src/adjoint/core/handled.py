"""Errors that other code raises for a traced value, and that the user's function catches inside a transform.

    try:
        y = decimal.Decimal(x)       # TypeError: conversion from Traced to Decimal is not supported
    except TypeError:
        y = 0.0                      # never reached on plain numbers

Our own errors count as refusals when they are raised (`AdjointError`); C code that tests for `float` raises without asking us.
`sys.monitoring`, from Python 3.12 on, reports each error as it is raised. It could report them as they are caught, but not
safely: where a call would exceed the recursion limit, the report itself raises, and the interpreter catches and reports that for
ever.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import types
from typing import Any

from .bind import Traced, class_of
from .errors import AdjointError, may_be_caught, refused, user_line
from .home import OWN, package_of

_KINDS = (TypeError, AttributeError, struct.error, ctypes.ArgumentError)
_TOOLS = (4, 3)  # numbers of tools that are not set aside for debuggers, coverage, profilers or optimizers


def _is_about_traced(error: BaseException) -> bool:
    """Whether code that takes plain numbers refuses a traced value.

    C code names its class. Code of the standard library, such as json, may name the class that `x.__class__` gives.
    """
    if isinstance(error, AttributeError):
        return isinstance(error.obj, Traced) and error.name in dir(class_of(error.obj))  # of an instance: no `__dict__`
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    home = "" if tb is None else package_of(tb.tb_frame.f_globals.get("__name__", ""))
    if home == OWN:
        return False  # as NumPy would
    if Traced.__name__ in str(error):
        return True
    return tb is not None and home in sys.stdlib_module_names and any(type(x) is Traced for x in tb.tb_frame.f_locals.values())


def _raised(code: types.CodeType, offset: int, error: BaseException) -> None:
    if not isinstance(error, _KINDS) or isinstance(error, AdjointError) or not _is_about_traced(error):
        return
    if may_be_caught(except_in=sys.stdlib_module_names):  # `inspect` catches what it provokes, looking for attributes
        refused.set(f"{type(error).__name__}: {error} ({user_line()})")


def _watch() -> None:
    """Have errors reported as they are raised; where no tool number is free, they are not."""
    monitoring: Any = getattr(sys, "monitoring", None)
    free = [tool for tool in _TOOLS if monitoring is not None and monitoring.get_tool(tool) is None]
    if free:
        monitoring.use_tool_id(free[0], "adjoint")
        monitoring.register_callback(free[0], monitoring.events.RAISE, _raised)
        monitoring.set_events(free[0], monitoring.events.RAISE)


_watch()
