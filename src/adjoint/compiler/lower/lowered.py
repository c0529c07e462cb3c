"""Lowered values: a line of a kernel, a view of memory, or a view in a frame of zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.op import Op
from ...core.types import Shape
from ...ir.graph import Equation
from .kernel import Dtype, KernelLine, View, Window


@dataclass(frozen=True, slots=True)
class Line:
    """A value that is a line in the code of the kernel at a position, and not in memory."""

    position: int
    scalar: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A value surrounded by zeros: `window` is its range along each axis of the shape.

    `lines` compute it, over the whole shape: a load from memory, or more if recomputing is cheap.
    """

    lines: tuple[KernelLine, ...]
    shape: Shape
    window: Window

    @property
    def dtype(self) -> Dtype:
        return self.lines[-1].dtype

    @property
    def views(self) -> list[View]:
        return [line.data for line in self.lines if line.kind == "load"]


LoweredValue = Line | View | Frame

#: By op: what lowers an equation; false if it cannot.
Rules = dict[Op, Callable[[Any, Equation], bool]]
