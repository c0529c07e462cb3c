"""The state of lowering: buffers, lowered values, and open kernels.

A lowered value is a line, a view or a frame (see `lowered`). It is stored only when a step needs it in memory (`view`), and by
the kernel that computes it. A kernel stays open: later operations over the same domain join it (`place`), if their operands are
available before it runs (`readable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import UnsupportedError
from ...core.types import Shape, Type
from ...ir.graph import Literal, Operand
from ..switches import Switch
from .dead_code import needed
from .diagonals import Diagonals, diagonals
from .kernel import PARTS, Buffer, Kernel, KernelLine, Store, View, size_of
from .lowered import Frame, Line, LoweredValue
from .scalar import KernelWriter
from .schedule import cost
from .step import Step

_TRIFLE = 6  # additions; up to this cost, recompute in another kernel rather than store and load
_TRIFLE_OF_LARGE = 16  # the same, if the array is too large for the L1 and L2 caches
_LARGE = 1 << 15  # elements
_ROUND_TRIP = 3  # additions that take as long as a store and a load in the L1 cache
MOST_RECOMPUTED = 0.1  # of the arithmetic written: the limit for values that cost more than a round trip and fit in the cache
_LOOK_BACK = 16  # kernels over one domain that are tried
_LONGEST = 4000  # lines in one kernel
_LOOKED_THROUGH = 300  # lines of a kernel, searched for unused ones
_MOST_FUNCTIONS = 24  # such as exp, in a kernel over more than a few points
FEW = 16
FUNCTION = 20  # the cost of a function


class Workspace:
    """The steps so far, and where each value is."""

    def __init__(self, types: dict[int, Type]) -> None:
        self.types = types
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.values: dict[int, LoweredValue] = {}
        self.ready: dict[Buffer, int] = {}  # the step after which a buffer may be read; absent: an input
        self.kernels: dict[Shape, list[int]] = {}  # positions of the kernels over a domain
        self.stored: dict[tuple[int, int], View] = {}  # lines stored in memory
        self.moved: dict[Line, Line] = {}  # lines moved to the only kernel that needs them
        self.constants: dict[int, tuple[Literal, View]] = {}
        self.patterns: dict[int, tuple[Literal, Diagonals | None]] = {}  # of constants
        self.counted: dict[tuple[int, int], Buffer] = {}  # constants that count
        self.weighed: dict[int, tuple[int, int]] = {}  # of kernels: lines counted, and functions among them
        self.written = 0  # arithmetic of the program as written, in additions; see `schedule.arithmetic`
        self.recomputed = 0  # arithmetic added by recomputing values
        self.line = ""  # of the user's source, for reports

    # -- buffers and what is in them --

    def buffer(self, t: Type, kind: str, data: Any = None) -> Buffer:
        pairs = t.dtype in PARTS
        buffer = Buffer(len(self.buffers), PARTS.get(t.dtype, t.dtype), size_of(t.shape) * (1 + pairs), kind, data)
        self.buffers.append(buffer)
        return buffer

    def array(self, t: Type, kind: str, data: Any = None) -> View:
        """A new buffer, as an array."""
        return View.whole(self.buffer(t, kind, data), t.shape, t.dtype in PARTS)

    def local(self, t: Type) -> View:
        return self.array(t, "local")

    def type_of(self, operand: Operand) -> Type:
        return operand.type if isinstance(operand, Literal) else self.types[operand]

    def in_memory(self, value: Any) -> Any:
        """The view of a line that has been stored; anything else unchanged."""
        value = self.now(value)
        return self.stored.get((value.position, value.scalar), value) if isinstance(value, Line) else value

    def view(self, operand: Operand) -> View:
        """An operand in memory."""
        if isinstance(operand, Literal):
            key = id(operand)
            if key not in self.constants:
                data = np.ascontiguousarray(_number(operand))
                view = self.array(operand.type, "constant", data.view(PARTS.get(data.dtype, data.dtype)))
                self.constants[key] = (operand, view)  # kept alive, so that its id stays unique
            return self.constants[key][1]
        value = self.now(self.values[operand])
        if isinstance(value, Line):
            return self.store(value)
        if isinstance(value, Frame):
            view = self.values[operand] = self.fill_frame(value)
            return view
        return value

    def now(self, value: Any) -> Any:
        """The current position of a line that may have been moved; anything else unchanged."""
        while isinstance(value, Line) and value in self.moved:
            value = self.moved[value]
        return value

    def store(self, line: Line) -> View:
        """A line of a kernel, stored by it."""
        key = (line.position, line.scalar)
        if key not in self.stored:
            kernel = self.kernel(line.position)
            view = self.local(Type(kernel.domain, kernel.code[line.scalar].dtype))
            self.write(line.position, line.scalar, view)
            self.stored[key] = view
        return self.stored[key]

    def write(self, position: int, line: int, view: View) -> None:
        self.kernel(position).stores.append(Store(line, view))
        self.ready[view.buffer] = max(self.ready.get(view.buffer, -1), position)

    def fill_frame(self, frame: Frame) -> View:
        view = self.local(Type(frame.shape, frame.dtype))
        position = self.place(frame.shape, [frame])
        self.write(position, self.read(position, frame), view)
        return view

    def copy(self, value: Any, into: View, after: int = -1) -> None:
        """Write a value to a view of the same shape, after a step."""
        position = self.place(into.shape, [value], after)
        line = self.read(position, value)
        self.write(position, KernelWriter(self.kernel(position)).cast(line, into.dtype), into)

    # -- kernels --

    def kernel(self, position: int) -> Kernel:
        kernel = self.steps[position]
        assert isinstance(kernel, Kernel)
        return kernel

    def place(self, domain: Shape, operands: Sequence[Any], after: int = -1) -> int:
        """The position of a kernel over the domain, after a step, that can read the operands; a new one if there is none.

        A kernel that computes an operand itself is preferred: the operand need not be stored.
        """
        best = None
        for position in self.kernels.get(domain, [])[: -_LOOK_BACK - 1 : -1]:
            if position <= after:
                break
            if not self.is_full(position) and all(self.readable(o, position, domain) for o in operands):
                if best is None:
                    best = position
                if any(isinstance(o, Line) and o.position == position for o in operands):
                    best = position
                    break
        if best is None:
            best = self.step(Kernel(domain))
            self.kernels.setdefault(domain, []).append(best)
        if self.line:
            self.kernel(best).lines[self.line] = None
        return best

    def place_alone(self, domain: Shape, operands: Sequence[Any]) -> int:
        """The position of a new kernel that no other operation joins, for one function.

        Kernels of equal text share their machine code, so that a function is compiled once and not once for each use.
        """
        for o in operands:
            if isinstance(o, Line):
                self.store(self.now(o))
        position = self.step(Kernel(domain))
        if self.line:
            self.kernel(position).lines[self.line] = None
        return position

    def is_full(self, position: int) -> bool:
        """Whether a kernel has as much code as LLVM compiles in reasonable time; functions are inlined in large loops."""
        kernel = self.kernel(position)
        seen, functions = self.weighed.get(position, (0, 0))
        functions += sum(cost(line) >= FUNCTION for line in kernel.code[seen:])
        self.weighed[position] = (len(kernel.code), functions)
        return len(kernel.code) >= _LONGEST or (functions >= _MOST_FUNCTIONS and size_of(kernel.domain) > FEW)

    def step(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def readable(self, value: Any, position: int, domain: Shape) -> bool:
        """Whether a kernel at a position can read a value: it computes it, or the value is available before."""
        if isinstance(value, Line):
            return value.position <= position
        if isinstance(value, Frame):
            return all(self.ready.get(view.buffer, -1) < position for view in value.views)
        if isinstance(value, View):
            return self.ready.get(value.buffer, -1) < position
        return True

    def read(self, position: int, operand: Any) -> int:
        """The line of an operand in a kernel: a number, an existing line, or a load."""
        kernel = self.kernel(position)
        if isinstance(operand, Literal):
            value = _number(operand)
            return KernelWriter(kernel).const(value if operand.is_weak else value[()], operand.type.dtype)
        if isinstance(operand, Diagonals):
            return self.read_diagonals(kernel, operand)
        operand = self.now(operand)
        if isinstance(operand, Line):
            line = operand.scalar if operand.position == position else self.computed_again(position, operand)
            if line is not None:
                return line
            operand = self.store(operand)
        if isinstance(operand, Frame):
            return kernel.add("window", (), (operand.lines, operand.window), operand.dtype)
        return kernel.add("load", (), operand.over(kernel.domain), operand.dtype)

    def computed_again(self, position: int, operand: Line) -> int | None:
        """The line of another kernel's value, if this kernel computes it too, or instead; None if it is to be loaded."""
        if not Switch.RECOMPUTE.on or (operand.position, operand.scalar) in self.stored:
            return None
        kernel = self.kernel(position)
        most = self.most_recomputed(kernel.domain)
        cheap = self.cheap(operand, most)
        lines = self.idle(operand, most) if cheap is None else cheap
        if lines is None:
            return None
        numbers: dict[int, int] = {}
        for i, old in lines:
            numbers[i] = kernel.add(old.kind, tuple(numbers[a] for a in old.args), old.data, old.dtype)
        if cheap is None:
            self.moved[operand] = Line(position, numbers[operand.scalar])
        else:
            self.recomputed += size_of(kernel.domain) * sum(cost(line) for _, line in cheap if line.kind == "op")
        return numbers[operand.scalar]

    def diagonals(self, operand: Operand) -> Diagonals | None:
        """A large constant that is computed at each point rather than loaded; None for any other operand."""
        if not isinstance(operand, Literal) or not operand.type.shape or not Switch.DIAGONALS.on:
            return None
        if id(operand) not in self.patterns:
            self.patterns[id(operand)] = operand, diagonals(operand.value)
        return self.patterns[id(operand)][1]

    def read_diagonals(self, kernel: Kernel, matrix: Diagonals) -> int:
        """The line of an element of such a constant."""
        write = KernelWriter(kernel)
        numbers = [write.const(number, matrix.dtype) for number in (matrix.below, matrix.on, matrix.above)]
        if len(set(numbers)) == 1:
            return numbers[0]
        (rows, columns), first = matrix.shape, min(0, matrix.shift)
        count = self.counting(first, max(rows + matrix.shift, columns))
        ones, zeros = (1,) * matrix.after, (0,) * matrix.after
        row, column = (
            kernel.add("load", (), View(count, shape, strides, start - first).over(kernel.domain), count.dtype)
            for shape, strides, start in (
                ((rows, 1, *ones), (1, 0, *zeros), matrix.shift),
                ((1, columns, *ones), (0, 1, *zeros), 0),
            )
        )
        below, on, above = numbers
        if below == above:
            return write("select", write.test("equal", column, row), on, below)
        if below == on:
            return write("select", write.test("greater", column, row), above, below)
        rest = above if on == above else write("select", write.test("equal", column, row), on, above)
        return write("select", write.test("less", column, row), below, rest)

    def counting(self, first: int, stop: int) -> Buffer:
        """A constant array of the integers from the first on."""
        if (first, stop) not in self.counted:
            data = np.arange(first, stop, dtype=np.int32)
            self.counted[first, stop] = self.buffer(Type.of(data), "constant", data)
        return self.counted[first, stop]

    def most_recomputed(self, domain: Shape) -> int:
        """The cost up to which a value is recomputed rather than stored and loaded.

        In a large array the saved memory traffic pays for more; in the cache, only so much of the program is computed twice.
        """
        if size_of(domain) >= _LARGE:
            return _TRIFLE_OF_LARGE
        return _TRIFLE if self.recomputed <= MOST_RECOMPUTED * self.written else _ROUND_TRIP

    def cheap(self, line: Line, most: int) -> list[tuple[int, KernelLine]] | None:
        """The lines that a line depends on, with their numbers, if they cost no more than so many additions."""
        code = self.kernel(line.position).code
        found, total, waiting = {line.scalar}, 0, [line.scalar]
        while waiting:
            i = waiting.pop()
            total += cost(code[i])
            if total > most or code[i].kind in ("window", "gather"):
                return None
            fresh = set(code[i].args) - found
            found |= fresh
            waiting += fresh
        return [(i, code[i]) for i in sorted(found)]

    def idle(self, line: Line, most: int) -> list[tuple[int, KernelLine]] | None:
        """The lines behind a line that its kernel does not use itself, if few of them are needed there anyway.

        Moved to the kernel that reads it, the line need not be stored.
        """
        kernel = self.kernel(line.position)
        if len(kernel.code) > _LOOKED_THROUGH or self.is_full(line.position):
            return None  # moving all of a full kernel would only fill the next one
        own = needed(kernel.code, {line.scalar})
        if any(kernel.code[i].kind == "gather" for i in own):
            return None
        inside = set(own)
        used = kernel.results
        used.update(a for i, other in enumerate(kernel.code) if i not in inside for a in other.args)
        shared = needed(kernel.code, used & inside)
        return [(i, kernel.code[i]) for i in own] if sum(cost(kernel.code[i]) for i in shared) <= most else None

    def operand(self, operand: Operand, domain: Shape) -> Any:
        """An operand as a kernel over the domain reads it: a scalar literal, a line, a frame or a view."""
        if isinstance(operand, Literal):
            return operand if operand.type.shape == () else self.view(operand)
        value = self.now(self.values[operand])
        shape = self.types[operand].shape
        if shape == domain or isinstance(value, View):
            return value
        return self.view(operand)


def _number(literal: Literal) -> Any:
    """The value of a literal, which must fit into its dtype: a Python integer has any number of bits."""
    if type(literal.value) is int and not -(2**63) <= literal.value < 2**63:
        raise UnsupportedError(f"a Python integer of {literal.value.bit_length()} bits does not fit into int64; use a float")
    return literal.value
