"""A kernel as it is launched."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..lower.kernel import Buffer, Kernel, Scatter, Store, size_of
from .layout import Layout


@dataclass(slots=True, eq=False)
class Launch(Kernel):
    """A kernel with its layout. Its scatters have been replaced by `places`."""

    layout: Layout = field(default_factory=lambda: Layout((), (), 1, 1))
    places: dict[Store, Scatter] = field(default_factory=dict)  # stores of where a scatter adds, not of its value


def covers(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether the reductions of a kernel write all of a buffer: parts of results are combined buffer by buffer."""
    covered = 0
    for r in kernel.reductions:
        if r.view.buffer is buffer:
            covered += size_of(n for n, stride in zip(r.view.shape, r.view.strides, strict=True) if stride)
    return covered >= buffer.size
