"""The type of traced arrays, for isinstance."""

from ..tracer import Box

ArrayBox = Box
