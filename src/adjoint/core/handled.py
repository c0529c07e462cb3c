"""Errors that other code raises for a traced value, and that the user's function catches inside a transform.

    try:
        y = decimal.Decimal(x)       # TypeError: conversion from Traced to Decimal is not supported
    except TypeError:
        y = 0.0                      # never reached on plain numbers

Our own errors count as refusals when they are raised (`AdjointError`); C code that tests for `float` raises without asking us.
`sys.monitoring`, from Python 3.12 on, reports each error as it is caught.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import types
from typing import Any

from .bind import Traced, class_of
from .errors import AdjointError, caught_in, refused
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


def _handled(code: types.CodeType, offset: int, error: BaseException) -> None:
    if not isinstance(error, _KINDS) or isinstance(error, AdjointError):
        return
    frame = sys._getframe(1)
    if package_of(frame.f_globals.get("__name__", "")) in sys.stdlib_module_names:
        return  # as `inspect` does, which looks for attributes
    line = caught_in(frame)
    if line is not None and _is_about_traced(error):
        refused.set(f"{type(error).__name__}: {error} ({line})")


def _watch() -> None:
    """Have errors reported as they are caught; where no tool number is free, they are not."""
    monitoring: Any = getattr(sys, "monitoring", None)
    free = [tool for tool in _TOOLS if monitoring is not None and monitoring.get_tool(tool) is None]
    if free:
        monitoring.use_tool_id(free[0], "adjoint")
        monitoring.register_callback(free[0], monitoring.events.EXCEPTION_HANDLED, _handled)
        monitoring.set_events(free[0], monitoring.events.EXCEPTION_HANDLED)


_watch()
