"""A kernel: a loop nest over buffers of memory, whose body is straight-line scalar code.

buffer 0: float64 x 3   input
buffer 1: float64 x 1   output
kernel over (3,):
  s0 = load b0[+0, (1,)]
  s1 = sin s0
  sum s1 into b1[+0, (0,)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.types import Shape, Type

Dtype = np.dtype[Any]

#: By the dtype of its parts, a complex dtype.
_COMPLEX: dict[Dtype, Dtype] = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
PARTS: dict[Dtype, Dtype] = {whole: part for part, whole in _COMPLEX.items()}


@dataclass(slots=True, eq=False)
class Buffer:
    """A contiguous piece of memory. `kind` is its owner: input, constant, local or output."""

    number: int
    dtype: Dtype
    size: int
    kind: str
    data: Any = None  # of a constant
    shared: bool = False  # another buffer may stand in the same memory: see `donate`

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"b{self.number}"


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a buffer, by a stride for each axis. Strides and offset count elements.

    The buffer of a complex array has real elements, two for each of the view's. No kernel reads such a view: see `as_real`.
    """

    buffer: Buffer
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    is_complex: bool = False

    @staticmethod
    def whole(buffer: Buffer, shape: Shape, is_complex: bool = False) -> View:
        """All of a buffer, in C order."""
        return View(buffer, shape, contiguous(shape), is_complex=is_complex)

    @property
    def dtype(self) -> Dtype:
        return _COMPLEX[self.buffer.dtype] if self.is_complex else self.buffer.dtype

    @property
    def type(self) -> Type:
        return Type(self.shape, self.dtype)

    @property
    def is_whole(self) -> bool:
        size = size_of(self.shape) * (1 + self.is_complex)
        return self.offset == 0 and self.buffer.size == size and self.strides == contiguous(self.shape)

    @property
    def parts(self) -> View:
        """The elements of a complex view as pairs of real ones."""
        assert self.is_complex
        return View(self.buffer, (*self.shape, 2), (*(2 * s for s in self.strides), 1), 2 * self.offset)

    def over(self, domain: Shape) -> View:
        """This view broadcast to a domain: axes of size one, and missing ones in front, have stride 0."""
        missing = len(domain) - len(self.shape)
        strides = (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True))
        return View(self.buffer, domain, strides, self.offset, self.is_complex)

    def __repr__(self) -> str:
        return f"{self.buffer!r}[+{self.offset}, {self.strides}]"


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Strides of an array in C order. Axes of size one have stride 0, so that equal layouts compare equal."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(0 if n == 1 else step)
        step *= n
    return tuple(reversed(strides))


def size_of(shape: Iterable[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


Window = tuple[tuple[int, int], ...]  # for each axis, the range inside the window


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line of a kernel's code.

    kind    data                          value
    load    View                          the element of a view at the point of the domain
    window  (lines, Window)               the result of the lines where the point is inside, elsewhere 0, or the line `args`
    gather  (View, strides)               the element of a view at offset `args` (integers) times the strides
    const   a number                      that number
    op      the name of an operation      its result on the earlier lines `args`, all of the dtype the operation works in
    """

    kind: str
    args: tuple[int, ...]
    data: Any
    dtype: Dtype

    def __repr__(self) -> str:
        return " ".join([self.data if self.kind == "op" else f"{self.kind} {self.data!r}", *(f"s{a}" for a in self.args)])


@dataclass(frozen=True, slots=True)
class Store:
    """Writes a line's value to a view over the domain."""

    scalar: int
    view: View

    def __repr__(self) -> str:
        return f"store s{self.scalar} to {self.view!r}"


#: How a reduction starts, and the word that combines two of its parts.
STARTS: dict[str, Any] = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "any": False, "all": True}
COMBINED = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduces a line's values over the axes along which the view has stride 0."""

    how: str  # a key of STARTS
    scalar: int
    axes: tuple[int, ...]
    view: View

    def __repr__(self) -> str:
        return f"{self.how} s{self.scalar} into {self.view!r}"


@dataclass(frozen=True, slots=True)
class Scatter:
    """Adds a line's value to the element of a view at offset `at` (lines of integers) times the strides, or writes it there."""

    scalar: int
    at: tuple[int, ...]
    strides: tuple[int, ...]
    view: View
    adds: bool = True

    def __repr__(self) -> str:
        return f"{'add' if self.adds else 'write'} s{self.scalar} to {self.view!r} at {', '.join(f's{a}' for a in self.at)}"


@dataclass(slots=True)
class LoopLevel:
    """One loop of a nest: its length, and the stride of each view per iteration."""

    length: int
    strides: list[int]  # of the kernel's views, in order
    axes: tuple[int, ...]  # of the domain, merged in this loop


@dataclass(slots=True, eq=False)
class Kernel:
    """A loop nest over a domain."""

    domain: Shape
    code: list[KernelLine] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    reductions: list[Reduce] = field(default_factory=list)
    scatters: list[Scatter] = field(default_factory=list)
    lines: dict[str, None] = field(default_factory=dict)  # the user's source lines, for reports
    known: dict[Any, int] = field(default_factory=dict)  # existing lines, for common subexpressions
    loops: list[LoopLevel] = field(default_factory=list)  # outermost first; see `schedule`
    chunks: int = 1  # pieces of the outermost loop that may run at the same time
    #: By result of a reduction: how the partial results of the pieces are combined, and their buffer.
    partials: dict[Buffer, tuple[str, Buffer]] = field(default_factory=dict)

    def add(self, kind: str, args: tuple[int, ...], data: Any, dtype: Dtype) -> int:
        """Add a line of code; an existing line is reused."""
        # A number is keyed by its bits: 0.0 and -0.0 compare equal, and so do 1 and True.
        key = (kind, args, (type(data), np.asarray(data).tobytes()) if kind == "const" else data, dtype)
        if key not in self.known:
            self.known[key] = len(self.code)
            self.code.append(KernelLine(kind, args, data, dtype))
        return self.known[key]

    def reads(self) -> Iterator[View]:
        for line in self.code:
            if line.kind == "load":
                yield line.data
            elif line.kind == "gather":
                yield line.data[0]
            elif line.kind == "window":
                yield from (inner.data for inner in line.data[0] if inner.kind == "load")

    def writes(self) -> Iterator[View]:
        for store in self.stores:
            yield store.view
        for reduction in self.reductions:
            yield reduction.view
        for scatter in self.scatters:
            yield scatter.view
        for _, buffer in self.partials.values():
            yield View.whole(buffer, (buffer.size,))

    @property
    def results(self) -> set[int]:
        """The lines that are stored, or give the index of a store."""
        written: list[Store | Reduce | Scatter] = [*self.stores, *self.reductions, *self.scatters]
        return {w.scalar for w in written}.union(*(scatter.at for scatter in self.scatters))

    @property
    def views(self) -> list[View]:
        """The views that the code reads and writes, in the order of the strides of its loops."""
        written: list[Store | Reduce | Scatter] = [*self.stores, *self.reductions, *self.scatters]
        return [*self.reads(), *(w.view for w in written)]

    def __str__(self) -> str:
        body = [f"s{i} = {line!r}" for i, line in enumerate(self.code)]
        return "\n  ".join([f"kernel over {self.domain}:", *body, *map(repr, (*self.stores, *self.reductions, *self.scatters))])
