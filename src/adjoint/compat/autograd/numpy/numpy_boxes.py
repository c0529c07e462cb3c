"""The type of traced arrays, for isinstance."""

from ..box import Box

ArrayBox = Box
