"""Kernels of library routines are compiled ahead of their first call, in parallel with those of the program.

CuPy compiles a kernel of its own, or one in CUDA C, when it is first called: 30 to 100 ms each, and `cholesky` with its pullback
needs nine. So each routine of a new program runs once on arrays of a few elements, in a thread, with calls of the libraries
that do nothing. Only the first call of a process gains: later ones find the kernels in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..lower.kernel import View
from ..lower.step import Lapack
from .libraries import Libraries, LibraryCall

#: Sizes on both sides of every length at which a routine takes another way.
_SIZES = (0, 1, 3, 33, 65, 129)

Rehearsals = dict[Hashable, Callable[[], Any]]


def small(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of a small array in place of a view, and its axes in the order of memory. Equal lengths stay equal."""
    shape = tuple(max(size for size in _SIZES if size <= n) for n in view.shape)
    return shape, tuple(sorted(range(len(shape)), key=lambda axis: -view.strides[axis]))


def array(xp: Any, view: View) -> Any:
    """A small array of zeros with the layout of a view."""
    shape, axes = small(view)
    made = xp.zeros(tuple(shape[axis] for axis in axes), view.dtype)
    return made.transpose([axes.index(axis) for axis in range(len(axes))])


def key(what: Hashable, views: Iterable[View]) -> Hashable:
    return what, tuple((small(view), view.dtype.char) for view in views)


def of_routine(device: Any, step: Lapack) -> Rehearsals:
    views = (*step.operands, *step.inout, *step.outs)

    def run() -> None:
        getattr(_Silent(device), step.routine)(step, *(array(device.xp, view) for view in views))

    return {key(step.routine, views): run}


class _Silent(Libraries):
    """Routines whose calls of cuBLAS and cuSOLVER do nothing. The libraries are loaded, which takes a tenth of a second."""

    def __init__(self, device: Any) -> None:
        super().__init__(device, _silent(device.handles.blas), _silent(device.handles.solver), "highest")

    def parameters(self, kind: str) -> int:
        return 0


def _silent(find: Callable[[str, Any], Any]) -> Callable[[str, Any], LibraryCall]:
    def found(name: str, dtype: Any) -> LibraryCall:
        find(name, dtype)
        return lambda *arguments: None

    return found
