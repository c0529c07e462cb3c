"""What a value of the graph is while it is lowered: a line of some kernel, a view of memory, or a view in a frame of zeros."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.types import Shape
from .kernel import Dtype, Scalar, View, Window


@dataclass(frozen=True, slots=True)
class Line:
    """A value that is a line in the code of the kernel at a position, and not in memory."""

    position: int
    scalar: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A value surrounded by zeros: `window` says, for each axis of the shape, where it lies.

    `lines` compute it, over the whole shape: a load from memory, or more, if it is cheap to compute again.
    """

    lines: tuple[Scalar, ...]
    shape: Shape
    window: Window

    @property
    def dtype(self) -> Dtype:
        return self.lines[-1].dtype

    @property
    def views(self) -> list[View]:
        return [line.data for line in self.lines if line.kind == "load"]


Held = Line | View | Frame
