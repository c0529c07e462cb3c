"""autograd.tracer: tests for traced values, and functions that are not traced."""

from __future__ import annotations

from .box import Box, getval, isbox
from .extend import notrace_primitive, primitive, register_notrace

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive", "register_notrace"]
