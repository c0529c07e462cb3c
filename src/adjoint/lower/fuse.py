"""From a graph to steps: operations over the same points share one loop, reductions included.

Each value of the graph is, at any time, one of three things: a line in the code of a kernel, not stored anywhere;
a view of a buffer; or such a view inside a frame of zeros (the transpose of a slice). Reshapes, transposes, slices
and broadcasts of a view are views. An elementwise operation joins the latest kernel over its shape that has
what it needs, and stores nothing unless somebody else asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.op import OPS
from ..core.types import Shape, Type
from ..ir.graph import Equation, Graph, Literal, Operand
from . import matrix, scalar
from .einsum import einsum
from .kernel import (
    Branch,
    Buffer,
    Dtype,
    Foreign,
    Kernel,
    Lowered,
    Product,
    Reduce,
    Scalar,
    Scan,
    Scatter,
    Step,
    Store,
    Unwind,
    View,
    While,
    Window,
    contiguous,
    size_of,
)
from .memory import plan
from .scalar import NATIVE, Writer
from .schedule import cost, schedule


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
_INDEX = np.dtype(np.int64)
_BYTE = np.dtype(np.uint8)
_REDUCTIONS = {"sum": "sum", "max": "max", "min": "min", "any": "any", "all": "all"}
#: Up to this many multiplications a matrix product is written as loops, which LLVM unrolls, instead of calling BLAS.
_INLINE_PRODUCT = 1000
_CHEAP = 32  # additions; so much is computed again, in a frame, rather than stored and read
_TRIFLE = 6  # the same, in another kernel
_LOOK_BACK = 16  # kernels over one domain that are tried
_LONGEST = 4000  # lines in one kernel
_MOST_FUNCTIONS = 24  # such as exp, in a kernel over more than a few points
_FEW = 16
_FUNCTION = 20  # the cost from which on a line is one


def lower(graph: Graph, weak: Collection[int] = (), guarded: bool = False) -> Lowered:
    """The steps of a graph. The inputs `weak` are Python numbers; if `guarded`, the last output says if the rest is right."""
    return _Lowering(graph, weak).run(guarded)


class _Lowering:
    def __init__(self, graph: Graph, weak: Collection[int]) -> None:
        self.graph = graph
        self.weak = set(weak)
        self.types = graph.types
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.held: dict[int, Held] = {}
        self.ready: dict[Buffer, int] = {}  # the step after which a buffer may be read; absent: from the start
        self.kernels: dict[Shape, list[int]] = {}  # positions of the kernels over a domain
        self.stored: dict[tuple[int, int], View] = {}  # lines that were put into memory
        self.constants: dict[int, tuple[Literal, View]] = {}
        self.outside: list[View] = []
        self.weighed: dict[int, tuple[int, int]] = {}  # of kernels: lines that were looked at, functions among them
        self.failures: list[tuple[View, str]] = []
        self.factored: list[tuple[Any, matrix.Factors]] = []  # by matrix; see `matrix`
        self.triangular: dict[Buffer, View] = {}  # that hold a Cholesky factor, by rows
        self.line = ""

    def run(self, guarded: bool) -> Lowered:
        inputs = []
        for i, t in enumerate(self.graph.input_types):
            buffer = self.buffer(t, "input")
            inputs.append(buffer)
            self.held[i] = View.whole(buffer, t.shape)
        for equation in self.graph.equations:
            self.equation(equation)
        taken: set[Buffer] = set()
        results = self.graph.outputs[:-1] if guarded else self.graph.outputs
        outputs = [self.output(o, taken) for o in results]
        guard = self.view(self.graph.outputs[-1]) if guarded else None
        lowered = Lowered(self.buffers, self.steps, inputs, outputs, guard, self.outside, self.failures)
        schedule(lowered)
        plan(lowered)
        return lowered

    def equation(self, equation: Equation) -> None:
        self.line = equation.line
        rule = _RULES.get(equation.op.name)
        done = rule is not None and rule(self, equation)
        if not done and not (scalar.is_native(equation.op) and self.elementwise(equation)):
            self.foreign(equation)

    # -- buffers and what is in them --

    def buffer(self, t: Type, kind: str, data: Any = None) -> Buffer:
        buffer = Buffer(len(self.buffers), t.dtype, size_of(t.shape), kind, data)
        self.buffers.append(buffer)
        return buffer

    def local(self, t: Type) -> View:
        return View.whole(self.buffer(t, "local"), t.shape)

    def type_of(self, operand: Operand) -> Type:
        return operand.type if isinstance(operand, Literal) else self.types[operand]

    def promoting(self, operand: Operand) -> Any:
        """What an operand is in promotion: a dtype, or a Python number, which is weak."""
        if isinstance(operand, Literal):
            return operand.value if operand.is_weak else operand.type.dtype
        dtype = self.types[operand].dtype
        return dtype.type(0).item() if operand in self.weak else dtype

    def hold(self, equation: Equation, held: Held) -> bool:
        self.held[equation.outputs[0]] = held
        return True

    def hold_lines(self, equation: Equation, position: int, lines: Sequence[int]) -> None:
        self.held.update((number, Line(position, line)) for number, line in zip(equation.outputs, lines, strict=True))

    def in_memory(self, held: Any) -> Any:
        """The view of a line that has been stored; anything else as it is."""
        return self.stored.get((held.position, held.scalar), held) if isinstance(held, Line) else held

    def view(self, operand: Operand) -> View:
        """An operand in memory."""
        if isinstance(operand, Literal):
            key = id(operand)
            if key not in self.constants:
                data = np.ascontiguousarray(operand.value)
                view = View.whole(self.buffer(operand.type, "constant", data), operand.type.shape)
                self.constants[key] = (operand, view)  # kept alive: another object might get its id
            return self.constants[key][1]
        held = self.held[operand]
        if isinstance(held, Line):
            return self.store(held)
        if isinstance(held, Frame):
            view = self.held[operand] = self.fill_frame(held)
            return view
        return held

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

    def copy(self, held: Any, into: View, after: int = -1) -> None:
        """Write a value to a view of the same shape, after a step."""
        position = self.place(into.shape, [held], after)
        line = self.read(position, held)
        self.write(position, Writer(self.kernel(position)).cast(line, into.dtype), into)

    # -- kernels --

    def kernel(self, position: int) -> Kernel:
        kernel = self.steps[position]
        assert isinstance(kernel, Kernel)
        return kernel

    def place(self, domain: Shape, operands: Sequence[Any], after: int = -1) -> int:
        """The position of a kernel over the domain that can read the operands, after a step; a new one if there is none.

        A kernel that computes an operand itself is preferred: it need not be stored.
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

    def is_full(self, position: int) -> bool:
        """Whether a kernel has as much code as LLVM compiles in good time; functions are written out in large loops."""
        kernel = self.kernel(position)
        seen, functions = self.weighed.get(position, (0, 0))
        functions += sum(cost(line) >= _FUNCTION for line in kernel.code[seen:])
        self.weighed[position] = (len(kernel.code), functions)
        return len(kernel.code) >= _LONGEST or (functions >= _MOST_FUNCTIONS and size_of(kernel.domain) > _FEW)

    def step(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def readable(self, held: Any, position: int, domain: Shape) -> bool:
        """Whether a kernel at a position can read a value: it computes it itself, or it is there before."""
        if isinstance(held, Line):
            return held.position <= position
        if isinstance(held, Frame):
            return all(self.ready.get(view.buffer, -1) < position for view in held.views)
        if isinstance(held, View):
            return self.ready.get(held.buffer, -1) < position
        return True

    def read(self, position: int, operand: Any) -> int:
        """The line that holds an operand in a kernel: a number, a line of its own, or a load."""
        kernel = self.kernel(position)
        if isinstance(operand, Literal):
            value = operand.value
            return Writer(kernel).const(value if operand.is_weak else value[()], operand.type.dtype)
        if isinstance(operand, Line):
            if operand.position == position:
                return operand.scalar
            again = None if (operand.position, operand.scalar) in self.stored else self.cheap(operand, _TRIFLE)
            if again is not None:
                moved: dict[int, int] = {}
                for i, old in again:
                    moved[i] = kernel.add(old.kind, tuple(moved[a] for a in old.args), old.data, old.dtype)
                return moved[operand.scalar]
            operand = self.store(operand)
        if isinstance(operand, Frame):
            return kernel.add("window", (), (operand.lines, operand.window), operand.dtype)
        return kernel.add("load", (), operand.over(kernel.domain), operand.dtype)

    def operand(self, operand: Operand, domain: Shape) -> Any:
        """What a kernel over the domain reads for an operand: a scalar literal, a line, a frame or a view."""
        if isinstance(operand, Literal):
            return operand if operand.type.shape == () else self.view(operand)
        held = self.held[operand]
        shape = self.types[operand].shape
        if shape == domain or isinstance(held, View):
            return held
        return self.view(operand)

    # -- the rules --

    def elementwise(self, equation: Equation) -> bool:
        (result,) = equation.types
        dtypes = [self.promoting(o) for o in equation.inputs]
        self.stay_weak(equation, dtypes)
        numbers = [o for o in equation.inputs if isinstance(o, int) and o in self.weak]
        if result.dtype == np.int32 and any(self.types[o].dtype.kind == "i" for o in numbers):
            return False  # a Python int that may not fit: NumPy refuses it
        if equation.op.name in ("cast", "truncate"):
            wanted = [result.dtype]
            if result.dtype not in NATIVE or self.type_of(equation.inputs[0]).dtype not in NATIVE:
                return False
        else:
            found = scalar.working_dtypes(equation.op, dtypes, result.dtype)
            if found is None:
                return False
            wanted = found
        domain = result.shape
        operands = [self.operand(o, domain) for o in equation.inputs]
        position = self.place(domain, operands)
        lines = [self.read(position, o) for o in operands]
        writer = Writer(self.kernel(position))
        if equation.op.name in ("cast", "truncate"):
            line = scalar.as_bool(writer, lines[0]) if result.dtype == scalar.BOOL else writer.cast(lines[0], result.dtype)
        else:
            line = scalar.write(equation.op, writer, lines, wanted)
        return self.hold(equation, Line(position, writer.cast(line, result.dtype)))

    def stay_weak(self, equation: Equation, operands: Sequence[Any]) -> None:
        """The sum of two Python numbers is one too."""
        if any(isinstance(o, np.dtype) for o in operands):
            return
        if type(equation.op.impl(*(type(o)(1) for o in operands), **equation.params)) in (bool, int, float):
            self.weak.add(equation.outputs[0])

    def reduction(self, equation: Equation) -> bool:
        (x,), (result,) = equation.inputs, equation.types
        how, axes = _REDUCTIONS[equation.op.name], equation.params["axis"]
        t = self.type_of(x)
        if t.dtype not in NATIVE or result.dtype not in NATIVE or (how in ("any", "all") and t.dtype != scalar.BOOL):
            return False
        if how in ("max", "min") and (t.dtype not in scalar.FLOATS or size_of(t.shape) == 0):
            return False
        out = self.local(result)
        kept = out.strides if equation.params["keepdims"] else _reinsert(out.strides, axes)
        strides = tuple(0 if k in axes else s for k, s in enumerate(kept))
        operand = self.operand(x, t.shape)
        position = self.place(t.shape, [operand])
        line = Writer(self.kernel(position)).cast(self.read(position, operand), result.dtype)
        self.kernel(position).reductions.append(Reduce(how, line, axes, View(out.buffer, t.shape, strides)))
        self.ready[out.buffer] = position
        return self.hold(equation, out)

    def reshaped(self, equation: Equation) -> bool:
        """Whatever NumPy makes a view of is a view here: asked of NumPy, on an array without memory of its own."""
        (x,) = equation.inputs
        how = _VIEWS[equation.op.name]
        if isinstance(x, Literal) and x.is_weak:
            return False
        held = self.view(x)
        view = _as_numpy_does(held, lambda a: how(a, equation.params))
        if view is None:  # a reshape of a view with gaps
            whole = self.local(held.type)
            self.copy(held, whole)
            view = _as_numpy_does(whole, lambda a: how(a, equation.params))
            assert view is not None
        return self.hold(equation, view)

    def placed(self, equation: Equation) -> bool:
        """Zeros with a value at a basic index: a frame if the index has no steps."""
        (x,) = equation.inputs
        (result,) = equation.types
        if result.dtype not in NATIVE or size_of(result.shape) == 0:
            return False
        spec = equation.params["spec"]
        framed = self.framed(x, spec, result.shape) if size_of(self.type_of(x).shape) else None
        if framed is not None:
            return self.hold(equation, framed)
        view, out = self.view(x), self.local(result)
        self.copy(Literal(0.0), out)
        self.copy(view, self.region(out, spec), after=self.ready[out.buffer])
        return self.hold(equation, out)

    def computed_again(self, line: Line, spec: tuple[Any, ...], shape: Shape) -> Frame | None:
        """A line of a kernel in a frame, by its own code, if that is cheap: it saves a trip through memory."""
        code = self.cheap(line, _CHEAP)
        if code is None:
            return None
        moved: dict[int, int] = {}
        lines: list[Scalar] = []
        window = None
        for i, old in code:
            data = old.data
            if old.kind == "load":
                framed = _window(spec, shape, data)
                if framed is None:
                    return None
                data, window = framed
            moved[i] = len(lines)
            lines.append(Scalar(old.kind, tuple(moved[a] for a in old.args), data, old.dtype))
        return None if window is None else Frame(tuple(lines), shape, window)

    def cheap(self, line: Line, most: int) -> list[tuple[int, Scalar]] | None:
        """The lines that compute a line, with their numbers, if they cost no more than so many additions."""
        code = self.kernel(line.position).code
        needed, total, waiting = {line.scalar}, 0, [line.scalar]
        while waiting:
            i = waiting.pop()
            total += cost(code[i])
            if total > most or code[i].kind in ("window", "gather"):
                return None
            fresh = set(code[i].args) - needed
            needed |= fresh
            waiting += fresh
        return [(i, code[i]) for i in sorted(needed)]

    def region(self, view: View, spec: tuple[Any, ...]) -> View:
        region = _as_numpy_does(view, lambda a: a[(*spec, ...)])
        assert region is not None
        return region

    def put(self, equation: Equation) -> bool:
        """A copy with a value written at a basic index."""
        x, v = equation.inputs
        (result,) = equation.types
        if any(t.dtype not in NATIVE for t in (result, self.type_of(x), self.type_of(v))):
            return False
        if self.put_window(equation):
            return True
        out = self.local(result)
        self.copy(self.operand(x, result.shape), out)
        target = self.region(out, equation.params["spec"])
        value = self.operand(v, target.shape)
        self.copy(value, target, after=self.ready[out.buffer])
        return self.hold(equation, out)

    def put_window(self, equation: Equation) -> bool:
        """A write without steps is a choice, point by point: nothing is copied first."""
        x, v = equation.inputs
        (result,) = equation.types
        spec = equation.params["spec"]
        if 0 in result.shape or self.type_of(v).dtype != result.dtype or self.type_of(x).dtype != result.dtype:
            return False
        region = np.broadcast_to(np.False_, result.shape)[(*spec, ...)].shape
        if self.type_of(v).shape != region or 0 in region:
            return False
        frame = self.framed(v, spec, result.shape)
        if frame is None:
            return False
        base = self.operand(x, result.shape)
        position = self.place(result.shape, [base, frame])
        kernel = self.kernel(position)
        line = kernel.add("window", (self.read(position, base),), (frame.lines, frame.window), result.dtype)
        return self.hold(equation, Line(position, line))

    def framed(self, x: Operand, spec: tuple[Any, ...], shape: Shape) -> Frame | None:
        """A value in a frame; None if the index has steps."""
        held = None if isinstance(x, Literal) else self.held[x]
        if isinstance(held, Line):
            again = self.computed_again(held, spec, shape)
            if again is not None:
                return again
        view = self.view(x)
        found = _window(spec, shape, view)
        return None if found is None else Frame((Scalar("load", (), found[0], view.dtype),), shape, found[1])

    def joined(self, equation: Equation) -> bool:
        """Each piece is written to its place in the whole."""
        (result,) = equation.types
        if result.dtype not in NATIVE or any(self.type_of(o).dtype not in NATIVE for o in equation.inputs):
            return False
        out, axis = self.local(result), equation.params["axis"]
        start = 0
        for o in equation.inputs:
            shape = self.type_of(o).shape
            count = 1 if equation.op.name == "stack" else shape[axis]
            index = start if equation.op.name == "stack" else slice(start, start + count)
            self.copy(self.operand(o, shape), self.region(out, (slice(None),) * axis + (index,)))
            start += count
        return self.hold(equation, out)

    def indices(self, position: int, arrays: Sequence[Operand], domain: Shape, start: int, sizes: Shape) -> tuple[int, ...]:
        """Index arrays that vary along the axes of the domain from `start` on, counted from the front, inside the bounds.

        Whether one was outside is gathered in a truth of its own; 0 is taken in its place.
        """
        kernel = self.kernel(position)
        w = Writer(kernel)
        found = []
        ndim = len(np.broadcast_shapes(*(self.type_of(a).shape for a in arrays)))
        behind = (1,) * (len(domain) - start - ndim)
        for array, size in zip(arrays, sizes, strict=True):
            if isinstance(array, Literal) and array.type.shape == ():
                line = self.read(position, array)
            else:
                view = _as_numpy_does(self.view(array), lambda a: a.reshape(a.shape + behind, copy=False))
                assert view is not None
                line = self.read(position, view)
            line = w.cast(line, _INDEX)
            zero, length = w.const(0, _INDEX), w.const(size, _INDEX)
            line = w("select", w.test("less", line, zero), w("add", line, length), line)
            wrong = w.test("or", w.test("less", line, zero), w.test("greater_equal", line, length))
            found.append(w("select", wrong, zero, line))
            outside = self.local(Type((), scalar.BOOL))
            kernel.reductions.append(Reduce("any", wrong, tuple(range(len(domain))), outside.over(domain)))
            self.ready[outside.buffer] = position
            self.outside.append(outside)
        return tuple(found)

    def index_types(self, arrays: Sequence[Operand]) -> bool:
        return all(self.type_of(a).dtype in NATIVE and self.type_of(a).dtype.kind == "i" for a in arrays)

    def gather(self, equation: Equation) -> bool:
        """x[:, i, j]: reads at computed places."""
        x, *arrays = equation.inputs
        (result,), axis = equation.types, equation.params["axis"]
        t = self.type_of(x)
        if t.dtype not in NATIVE or not self.index_types(arrays) or 0 in (*t.shape, *result.shape):
            return False
        table, domain = self.view(x), result.shape
        views = [self.view(a) for a in arrays if not isinstance(a, Literal) or self.type_of(a).shape]
        position = self.place(domain, [table, *views])
        at = self.indices(position, arrays, domain, axis, t.shape[axis : axis + len(arrays)])
        strides = table.strides[axis : axis + len(arrays)]
        line = self.kernel(position).add("gather", at, (_without(table, axis, len(arrays), domain), strides), t.dtype)
        return self.hold(equation, Line(position, line))

    def scatter(self, equation: Equation) -> bool:
        """Zeros, to which values are added at computed places."""
        g, *arrays = equation.inputs
        (result,), axis = equation.types, equation.params["axis"]
        t = self.type_of(g)
        if (
            result.dtype not in NATIVE
            or t.dtype != result.dtype
            or not self.index_types(arrays)
            or 0 in (*t.shape, *result.shape)
        ):
            return False
        out, domain = self.local(result), t.shape
        self.copy(Literal(0.0), out)
        operand = self.operand(g, domain)
        views = [self.view(a) for a in arrays if not isinstance(a, Literal) or self.type_of(a).shape]
        position = self.place(domain, [operand, *views], after=self.ready[out.buffer])
        line = self.read(position, operand)
        at = self.indices(position, arrays, domain, axis, result.shape[axis : axis + len(arrays)])
        strides = out.strides[axis : axis + len(arrays)]
        self.kernel(position).scatters.append(Scatter(line, at, strides, _without(out, axis, len(arrays), domain)))
        self.ready[out.buffer] = position
        return self.hold(equation, out)

    def product(self, equation: Equation) -> bool:
        a, b = equation.inputs
        (result,) = equation.types
        ta, tb = self.type_of(a), self.type_of(b)
        if (
            result.dtype not in scalar.FLOATS
            or ta.dtype != result.dtype
            or tb.dtype != result.dtype
            or 0 in (*ta.shape, *tb.shape)
        ):
            return False
        left, right = self.view(a), self.view(b)
        if ta.ndim == 1:
            left = _as_numpy_does(left, lambda x: x[None, :])  # type: ignore[assignment]
        if tb.ndim == 1:
            right = _as_numpy_does(right, lambda x: x[:, None])  # type: ignore[assignment]
        *stack, rows, inner = left.shape
        columns = right.shape[-1]
        stack = list(np.broadcast_shapes(tuple(stack), right.shape[:-2]))
        if inner == 1 and result.ndim == len(stack) + 2:  # every element is one product
            position = self.place(result.shape, [left, right])
            line = Writer(self.kernel(position))("mul", self.read(position, left), self.read(position, right))
            return self.hold(equation, Line(position, line))
        out = self.local(result)
        if rows * inner * columns <= _INLINE_PRODUCT or rows == columns == 1:
            self.product_loops(left, right, View(out.buffer, (*stack, rows, columns), contiguous((*stack, rows, columns))), inner)
        else:
            left = self.for_blas(left.over((*stack, *left.shape[-2:])))
            right = self.for_blas(right.over((*stack, *right.shape[-2:])))
            full = View(out.buffer, (*stack, rows, columns), contiguous((*stack, rows, columns)))
            self.ready[out.buffer] = self.step(Product(left, right, full, {self.line: None} if self.line else {}))
        return self.hold(equation, out)

    def product_loops(self, left: View, right: View, out: View, inner: int) -> None:
        """Small: a loop nest over rows, columns and the inner axis."""
        *stack, rows, columns = out.shape
        domain = (*stack, rows, columns, inner)
        # left[…, i, ·, k] and right[…, ·, j, k]
        left = left.over((*stack, *left.shape[-2:]))
        right = right.over((*stack, *right.shape[-2:]))
        a = View(left.buffer, domain, (*left.strides[:-1], 0, left.strides[-1]), left.offset)
        b = View(right.buffer, domain, (*right.strides[:-2], 0, right.strides[-1], right.strides[-2]), right.offset)
        position = self.place(domain, [a, b])
        kernel = self.kernel(position)
        line = Writer(kernel)("mul", self.read(position, a), self.read(position, b))
        kernel.reductions.append(Reduce("sum", line, (len(domain) - 1,), View(out.buffer, domain, (*out.strides, 0))))
        self.ready[out.buffer] = position

    def for_blas(self, view: View) -> View:
        """A view of matrices with a unit stride along one axis, and the other at least as long; a copy if it is not one."""
        (rows, columns), (down, across) = view.shape[-2:], view.strides[-2:]
        by_rows = (across == 1 or columns == 1) and (down >= columns or rows == 1)
        by_columns = (down == 1 or rows == 1) and (across >= rows or columns == 1)
        if by_rows or by_columns:
            return view
        whole = self.local(view.type)
        self.copy(view, whole)
        return whole

    # -- operations written in others --

    def emit(self, name: str, inputs: tuple[Operand, ...], type_: Type, **params: Any) -> int:
        """One more equation, as if it stood in the graph."""
        number = self.fresh_number(type_)
        self.equation(Equation(OPS[name], inputs, params, (number,), (type_,), self.line))
        return number

    def log_sum_exp(self, equation: Equation) -> bool:
        (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
        t = self.type_of(x)
        if t.dtype not in scalar.FLOATS or 0 in t.shape:
            return False
        kept = Type(tuple(1 if k in axis else n for k, n in enumerate(t.shape)), t.dtype)
        top = self.emit("max", (x,), kept, axis=axis, keepdims=True)
        finite = self.emit("isfinite", (top,), Type(kept.shape, scalar.BOOL))
        shift = self.emit("where", (finite, top, Literal(0.0)), kept)
        terms = self.emit("exp", (self.emit("sub", (x, shift), t),), t)
        total = self.emit("log", (self.emit("sum", (terms,), kept, axis=axis, keepdims=True),), kept)
        y = self.emit("add", (total, shift), kept)
        self.held[equation.outputs[0]] = self.held[self.emit("reshape", (y,), result, shape=result.shape)]
        return True

    def norm(self, equation: Equation) -> bool:
        (x,), (result,) = equation.inputs, equation.types
        t = self.type_of(x)
        if t.dtype not in scalar.FLOATS:
            return False
        total = self.emit("sum", (self.emit("square", (x,), t),), result, **equation.params)
        self.held[equation.outputs[0]] = self.held[self.emit("sqrt", (total,), result)]
        return True

    # -- loops and branches --

    def solid(self, operand: Operand) -> View:
        """An operand in memory without gaps, as the body of a loop reads it."""
        view = self.view(operand)
        if view.strides == contiguous(view.shape) or 0 in view.shape:
            return view
        whole = self.local(view.type)
        self.copy_any(view, whole)
        return whole

    def copy_any(self, source: Any, out: View) -> None:
        """Copy a view, or a plain value, of any dtype."""
        if out.dtype in NATIVE:
            self.copy(Literal(source) if not isinstance(source, View) else source, out)
        else:
            self.ready[out.buffer] = self.step(Foreign(COPY, (source,), {}, (out,), {}))

    def structured(self, equation: Equation, step: Step, outs: Sequence[View]) -> bool:
        position = self.step(step)
        for view in step.writes():
            self.ready[view.buffer] = position
        self.held.update(zip(equation.outputs, outs, strict=True))
        return True

    def scratch(self, *bodies: Lowered) -> tuple[View, ...]:
        """Memory for the intermediate arrays of a body, of which one runs at a time."""
        size = max(body.arena for body in bodies)
        return (self.local(Type((size,), _BYTE)),) if size else ()

    def scan(self, equation: Equation) -> bool:
        params = equation.params
        operands = [self.solid(o) for o in equation.inputs]
        first, rest = params["consts"], params["consts"] + params["carries"]
        outs = [self.local(t) for t in equation.types]
        body = lower(params["body"])
        step = Scan(
            body,
            params["length"],
            params["reverse"],
            tuple(operands[:first]),
            tuple(operands[first:rest]),
            tuple(operands[rest:]),
            tuple(outs[: params["carries"]]),
            tuple(outs[params["carries"] :]),
            tuple(self.local(v.type) for v in operands[first:rest]),
            self.scratch(body),
            {self.line: None} if self.line else {},
        )
        return self.structured(equation, step, outs)

    def while_loop(self, equation: Equation) -> bool:
        params = equation.params
        operands = [self.solid(o) for o in equation.inputs]
        first, rest = params["cond_consts"], params["cond_consts"] + params["body_consts"]
        outs = [self.local(t) for t in equation.types]
        test, body = lower(params["cond"]), lower(params["body"])
        step = While(
            test,
            body,
            tuple(operands[:first]),
            tuple(operands[first:rest]),
            tuple(operands[rest:]),
            tuple(outs),
            tuple(self.local(v.type) for v in (*operands[rest:], *operands[rest:])),
            self.scratch(test, body),
            {self.line: None} if self.line else {},
        )
        return self.structured(equation, step, outs)

    def unwind(self, equation: Equation) -> bool:
        params = equation.params
        last = len(params["wanted"])
        shared = len(equation.types) - (len(equation.inputs) - 1 - last)
        if self.type_of(equation.inputs[0]).dtype != _INDEX or any(t.dtype not in scalar.FLOATS for t in equation.types[:shared]):
            return False
        count, *operands = [self.solid(o) for o in equation.inputs]
        outs = [self.local(t) for t in equation.types]
        step, pull = lower(params["step"]), lower(params["pull"])
        unwind = Unwind(
            step,
            pull,
            params["checkpoint"],
            count,
            tuple(operands[: params["consts"]]),
            tuple(operands[params["consts"] : last]),
            tuple(operands[last:]),
            tuple(outs[:shared]),
            tuple(outs[shared:]),
            tuple(self.local(v.type) for v in outs[:shared]),
            tuple(self.local(v.type) for v in outs[shared:]),
            self.scratch(step, pull),
            {self.line: None} if self.line else {},
        )
        return self.structured(equation, unwind, outs)

    def branch(self, equation: Equation) -> bool:
        truth, *operands = [self.solid(o) for o in equation.inputs]
        outs = tuple(self.local(t) for t in equation.types)
        true, false = lower(equation.params["true"]), lower(equation.params["false"])
        lines = {self.line: None} if self.line else {}
        return self.structured(
            equation, Branch(truth, true, false, tuple(operands), outs, self.scratch(true, false), lines), outs
        )

    def inlined(self, equation: Equation) -> bool:
        """A part of the program that is kept together for its derivative only: its equations, here."""
        body: Graph = equation.params["body"]
        numbers: dict[int, Operand] = dict(enumerate(equation.inputs))
        for inner in body.equations:
            for old, t in zip(inner.outputs, inner.types, strict=True):
                numbers[old] = self.fresh_number(t)
            inputs = tuple(numbers[o] if isinstance(o, int) else o for o in inner.inputs)
            outputs = tuple(numbers[o] for o in inner.outputs)
            self.equation(Equation(inner.op, inputs, inner.params, outputs, inner.types, inner.line))  # type: ignore[arg-type]
        for number, o in zip(equation.outputs, body.outputs, strict=True):
            operand = numbers[o] if isinstance(o, int) else o
            self.held[number] = self.view(operand) if isinstance(operand, Literal) else self.held[operand]
        return True

    def fresh_number(self, t: Type) -> int:
        number = -1 - len(self.types)  # apart from the graph's own
        self.types[number] = t
        return number

    def foreign(self, equation: Equation) -> None:
        operands = tuple(o.value if isinstance(o, Literal) else self.view(o) for o in equation.inputs)
        outs = tuple(self.local(t) for t in equation.types)
        lines = {self.line: None} if self.line else {}
        weak = frozenset(i for i, o in enumerate(equation.inputs) if not isinstance(o, Literal) and o in self.weak)
        position = self.step(Foreign(equation.op, operands, equation.params, outs, lines, weak))
        for number, out in zip(equation.outputs, outs, strict=True):
            self.ready[out.buffer] = position
            self.held[number] = out

    def output(self, operand: Operand, taken: set[Buffer]) -> View:
        """A result in a buffer of its own."""
        t = self.type_of(operand)
        self.line = ""
        if not isinstance(operand, Literal):
            view = self.view(operand)
            if view.buffer.kind == "local" and view.is_whole and view.buffer not in taken:
                view.buffer.kind = "output"
                taken.add(view.buffer)
                return view
        out = View.whole(self.buffer(t, "output"), t.shape)
        taken.add(out.buffer)
        if t.dtype in NATIVE:
            self.copy(self.operand(operand, t.shape), out)
        else:
            self.copy_any(operand.value if isinstance(operand, Literal) else self.view(operand), out)
        return out


class _Copy:
    """The foreign step that copies an array of a dtype that loops cannot handle."""

    name = "copy"
    many = False

    @staticmethod
    def impl(x: Any) -> Any:
        return x


COPY = _Copy()


def _reinsert(strides: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides with a place for each reduced axis."""
    kept = iter(strides)
    return tuple(0 if k in axes else next(kept) for k in range(len(strides) + len(axes)))


def _as_numpy_does(view: View, change: Callable[[Any], Any]) -> View | None:
    """The view that NumPy's own view function gives; None if it would have to copy."""
    base = np.empty(0, np.int8)
    stand_in = np.lib.stride_tricks.as_strided(base, view.shape, view.strides, writeable=False)
    try:
        changed = change(stand_in)
    except ValueError:
        return None
    moved = changed.__array_interface__["data"][0] - stand_in.__array_interface__["data"][0]
    strides = tuple(0 if n == 1 else s for n, s in zip(changed.shape, changed.strides, strict=True))
    return View(view.buffer, changed.shape, strides, view.offset + moved)


def _without(view: View, axis: int, count: int, domain: Shape) -> View:
    """A view over the domain of a gather: it stands still along the axes of the indices, which replace `count` of its own."""
    ndim = len(domain) - len(view.shape) + count
    strides = (*view.strides[:axis], *(0,) * ndim, *view.strides[axis + count :])
    return View(view.buffer, domain, strides, view.offset)


def _window(spec: tuple[Any, ...], shape: Shape, view: View) -> tuple[View, Window] | None:
    """Where a value lies in a frame of zeros, by the index it was placed at; None if the index has steps."""
    entries = list(spec)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if Ellipsis in entries:
        at = entries.index(Ellipsis)
        entries[at : at + 1] = [slice(None)] * (len(shape) - used)
    else:
        entries += [slice(None)] * (len(shape) - used)
    axes, strides, window, offset = iter(zip(view.shape, view.strides, strict=True)), [], [], view.offset
    lengths = iter(shape)
    # A value that was broadcast into its place has fewer axes, or axes of size one: not seen here.
    for e in entries:
        if e is None:
            if next(axes, (0, 0))[0] != 1:
                return None
            continue
        length = next(lengths)
        if isinstance(e, slice):
            start, stop, step = e.indices(length)
            size, stride = next(axes, (-1, 0))
            if step != 1 or size != max(0, stop - start):
                return None
            window.append((start, stop))
            strides.append(stride)
            offset -= start * stride
        else:
            i = int(e) % length
            window.append((i, i + 1))
            strides.append(0)
    if next(axes, None) is not None:
        return None
    return View(view.buffer, shape, tuple(strides), offset), tuple(window)


_VIEWS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "reshape": lambda a, p: a.reshape(p["shape"], copy=False),
    "transpose": lambda a, p: np.transpose(a, p["axes"]),
    "broadcast_to": lambda a, p: np.broadcast_to(a, p["shape"]),
    "getitem": lambda a, p: a[(*p["spec"], ...)],
}
_RULES: dict[str, Callable[[_Lowering, Equation], bool]] = {
    **dict.fromkeys(_REDUCTIONS, _Lowering.reduction),
    **dict.fromkeys(_VIEWS, _Lowering.reshaped),
    "place": _Lowering.placed,
    "put": _Lowering.put,
    "concatenate": _Lowering.joined,
    "stack": _Lowering.joined,
    "matmul": _Lowering.product,
    "gather": _Lowering.gather,
    "scatter_add": _Lowering.scatter,
    "logsumexp": _Lowering.log_sum_exp,
    "norm": _Lowering.norm,
    "scan": _Lowering.scan,
    "while": _Lowering.while_loop,
    "unwind": _Lowering.unwind,
    "cond": _Lowering.branch,
    "checkpoint": _Lowering.inlined,
    "einsum": einsum,
    **matrix.RULES,
}
