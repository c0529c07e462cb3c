"""From a graph to steps: operations over the same index space are fused into one loop, reductions included.

A lowered value is one of three things: a line in the code of a kernel, not stored; a view of a buffer; or such a view inside a
frame of zeros (the transpose of a slice). Reshapes, transposes, slices and broadcasts of a view are views. An elementwise
operation joins the latest kernel over its shape that can read its operands, and its result is stored only if another step needs
it in memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...core.op import Op
from ...core.types import Type
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import cast
from ...ops.elementwise import truncate
from . import (
    control,
    convolve,
    cumulative,
    einsum,
    fourier,
    frames,
    gather,
    matrix,
    order,
    product,
    ranges,
    reductions,
    scalar,
    searches,
    views,
)
from .in_place import write_in_place
from .kernel import Buffer, Dtype, View, size_of
from .lowered import Line, LoweredValue, Rules
from .memory import plan
from .parallel import group_parallel
from .point_tiles import in_point_tiles
from .scalar import EVERY, MOVABLE, KernelWriter
from .schedule import schedule, written_arithmetic
from .step import Foreign, Lowered
from .strided_rows import read_strided_rows
from .time_tiles import in_time_tiles
from .workspace import FEW, FUNCTION, Workspace

_CASTS = (cast, truncate)


def lower(graph: Graph, weak: Collection[int] = (), guarded: bool = False, unread: int = 0) -> Lowered:
    """The steps of a graph. The inputs `weak` are Python numbers; if `guarded`, the last output is the truth of the guards.

    The `unread` outputs before it are not results: they are computed because that may fail.
    """
    return Lowering(graph, weak).run(guarded, unread)


class Lowering(Workspace):
    """Goes through the equations of a graph, in order."""

    has_cumulative = True  # whether the back end has a step for cumulative sums
    has_transforms = True  # whether it can call NumPy's Fourier transforms
    dtypes = EVERY
    movable = MOVABLE  # dtypes that are loaded, stored and converted
    has_array_kernels = True  # for the order of short rows, windows and convolutions, and places of extrema of integers
    writes_in_place = True
    most_fused_functions = 48  # equations with functions such as exp, of a program that inlines them; see `place_alone`

    def __init__(self, graph: Graph, weak: Collection[int]) -> None:
        super().__init__(graph.types)
        self.graph = graph
        self.weak = set(weak)
        self.written = written_arithmetic(graph.equations)
        self.functions_apart = sum(map(_is_function, graph.equations)) > self.most_fused_functions
        self.ranges: dict[int, ranges.Range | None] = {}  # of whole numbers
        self.out_of_bounds: list[View] = []  # bools: see `gather`
        self.scattered = gather.scattered_once(graph) if self.writes_in_place else {}
        self.failures: list[tuple[View, str]] = []  # bools: see `matrix`
        self.factored: list[tuple[Any, matrix.Factors]] = []  # by matrix; see `matrix`
        self.triangular: dict[Buffer, View] = {}  # buffers with a Cholesky factor, row-major

    def run(self, guarded: bool, unread: int = 0) -> Lowered:
        inputs = []
        for i, t in enumerate(self.graph.input_types):
            view = self.values[i] = self.array(t, "input")
            inputs.append(view.buffer)
        for equation in gather.reads_first(self.graph, self.scattered.keys()) if self.writes_in_place else self.graph.equations:
            self.equation(equation)
        taken: set[Buffer] = set()
        results = self.graph.outputs[: len(self.graph.outputs) - guarded - unread]
        outputs = [self.output(o, taken) for o in results]
        guard = self.view(self.graph.outputs[-1]) if guarded else None
        lowered = Lowered(self.buffers, self.steps, inputs, outputs, guard, self.out_of_bounds, self.failures)
        self.finish(lowered)
        return lowered

    def finish(self, lowered: Lowered) -> None:
        """Schedule loops and assign memory."""
        schedule(lowered)
        in_point_tiles(lowered)
        read_strided_rows(lowered)
        in_time_tiles(lowered)
        group_parallel(lowered)
        write_in_place(lowered)
        plan(lowered)

    def equation(self, equation: Equation) -> None:
        self.line = equation.line
        rule = _RULES.get(equation.op)
        done = rule is not None and rule(self, equation)
        if not done and not (scalar.is_native(equation.op) and self.elementwise(equation)):
            self.foreign(equation)
        if equation.types and equation.types[0].dtype.kind in "iu":
            known = ranges.of_result(equation, [*map(self.type_of, equation.inputs)], [*map(self.range_of, equation.inputs)])
            self.ranges.setdefault(equation.outputs[0], known)

    def range_of(self, operand: Operand) -> ranges.Range | None:
        """The least and the greatest number of an operand, if it is known to have whole numbers in a range."""
        if isinstance(operand, Literal):
            return ranges.of_literal(operand)
        return self.ranges.get(operand) or ranges.of_type(self.types[operand])

    def emit(self, op: Op, inputs: tuple[Operand, ...], type_: Type, **params: Any) -> int:
        """Lower one more equation, as if it were in the graph."""
        number = self.fresh_number(type_)
        self.equation(Equation(op, inputs, params, (number,), (type_,), self.line))
        return number

    @functools.cached_property
    def numbers_read(self) -> set[int]:
        """The values that an equation of the graph reads, and its results."""
        operands = itertools.chain(self.graph.outputs, *(equation.inputs for equation in self.graph.equations))
        return {o for o in operands if isinstance(o, int)}

    def is_read(self, number: int) -> bool:
        return number < 0 or number in self.numbers_read  # an equation that a rule emits is read by it

    def fresh_number(self, t: Type) -> int:
        number = -1 - len(self.types)  # distinct from the graph's numbers
        self.types[number] = t
        return number

    def body(self, graph: Graph, known: Sequence[ranges.Range | None] = ()) -> Lowered:
        """The program of a loop or a branch, whose first operands are in ranges that are known."""
        inner = self.inner(graph)
        inner.ranges.update(enumerate(known))
        return inner.run(guarded=False)

    def inner(self, graph: Graph) -> Lowering:
        return Lowering(graph, ())

    # -- what an equation gives --

    def hold(self, equation: Equation, value: LoweredValue) -> bool:
        self.values[equation.outputs[0]] = value
        return True

    def alias(self, equation: Equation, number: int) -> bool:
        """The result of an equation is that of another one."""
        return self.hold(equation, self.values[number])

    def hold_lines(self, equation: Equation, position: int, lines: Sequence[int]) -> None:
        self.values.update((number, Line(position, line)) for number, line in zip(equation.outputs, lines, strict=True))

    # -- operations at each point --

    def elementwise(self, equation: Equation) -> bool:
        (result,) = equation.types
        wanted = self.working_dtypes(equation, result.dtype)
        if wanted is None:
            return False
        domain = result.shape
        operands = [self.diagonals(o) or self.operand(o, domain) for o in equation.inputs]
        apart = self.functions_apart and _is_function(equation) and size_of(domain) > FEW
        position = self.place_alone(domain, operands) if apart else self.place(domain, operands)
        lines = [self.read(position, o) for o in operands]
        writer = KernelWriter(self.kernel(position))
        if equation.op not in _CASTS:
            line = scalar.write(equation.op, writer, lines, wanted)
        elif result.dtype == scalar.BOOL:
            line = scalar.as_bool(writer, lines[0])
        else:
            line = lines[0]
        value = Line(position, writer.cast(line, result.dtype))
        return self.hold(equation, self.store(value) if apart else value)

    def working_dtypes(self, equation: Equation, result: Dtype) -> Sequence[Dtype] | None:
        """The dtypes in which an elementwise op computes; None if it has no native form that gives what NumPy does."""
        dtypes = [self.promoting(o) for o in equation.inputs]
        self.stay_weak(equation, dtypes)
        if self.may_overflow_python_int(equation, dtypes, result):
            return None  # NumPy refuses such an int, or compares it exactly
        if equation.op in _CASTS:
            return [result] if {result, self.type_of(equation.inputs[0]).dtype} <= self.movable else None
        if equation.op in scalar.DIVISIONS and not any(isinstance(o, np.dtype) for o in dtypes) and not dtypes[1]:
            return None  # Python numbers, of which the second may be zero: Python raises
        return scalar.working_dtypes(equation.op, dtypes, result, self.dtypes)

    def may_overflow_python_int(self, equation: Equation, dtypes: Sequence[Any], result: Dtype) -> bool:
        """Whether a Python int, known at run time only, meets an integer dtype that it may not fit."""
        widest = np.dtype(np.uint64) if any(d == np.uint64 for d in dtypes if isinstance(d, np.dtype)) else result
        numbers = [o for o in equation.inputs if isinstance(o, int) and o in self.weak]
        return widest.kind in "iu" and widest != np.int64 and any(self.types[o].dtype.kind == "i" for o in numbers)

    def promoting(self, operand: Operand) -> Any:
        """An operand for promotion: a dtype, or a Python number, which is weak."""
        if isinstance(operand, Literal):
            return operand.value if operand.is_weak else operand.type.dtype
        dtype = self.types[operand].dtype
        return dtype.type(0).item() if operand in self.weak else dtype

    def stay_weak(self, equation: Equation, operands: Sequence[Any]) -> None:
        """A result of Python numbers only is a Python number too."""
        if any(isinstance(o, np.dtype) for o in operands):
            return
        with np.errstate(all="ignore"):
            y = equation.op.impl(*(type(o)(1) for o in operands), **equation.params)
        if type(y) in (bool, int, float):
            self.weak.add(equation.outputs[0])

    # -- what has no native form, and results --

    def foreign(self, equation: Equation) -> None:
        operands = tuple(o.value if isinstance(o, Literal) else self.view(o) for o in equation.inputs)
        outs = tuple(self.local(t) for t in equation.types)
        lines = {self.line: None} if self.line else {}
        weak = frozenset(i for i, o in enumerate(equation.inputs) if not isinstance(o, Literal) and o in self.weak)
        position = self.step(Foreign(equation.op, operands, equation.params, outs, lines, weak))
        for number, out in zip(equation.outputs, outs, strict=True):
            self.ready[out.buffer] = position
            self.values[number] = out

    def copy_any(self, source: Any, out: View) -> None:
        """Copy a view, or a plain value, of any dtype."""
        if out.is_complex:
            self.copy((source if isinstance(source, View) else self.view(Literal(source))).parts, out.parts)
        elif out.dtype in self.movable:
            self.copy(Literal(source) if not isinstance(source, View) else source, out)
        else:
            self.ready[out.buffer] = self.step(Foreign(COPY, (source,), {}, (out,), {}))

    def output(self, operand: Operand, taken: set[Buffer]) -> View:
        """A result in a separate buffer."""
        t = self.type_of(operand)
        self.line = ""
        if not isinstance(operand, Literal):
            view = self.view(operand)
            if view.buffer.kind == "local" and view.is_whole and view.buffer not in taken:
                view.buffer.kind = "output"
                taken.add(view.buffer)
                return view
        out = self.array(t, "output")
        taken.add(out.buffer)
        if t.dtype in self.movable:
            self.copy(self.operand(operand, t.shape), out)
        else:
            self.copy_any(operand.value if isinstance(operand, Literal) else self.view(operand), out)
        return out


def _is_function(equation: Equation) -> bool:
    """Whether an equation becomes a function such as exp, which is long when inlined."""
    return equation.op.cost >= FUNCTION and scalar.is_native(equation.op)


class _Copy:
    """A foreign call that copies an array of a dtype that kernels do not support."""

    name = "copy"
    many = False

    @staticmethod
    def impl(x: Any) -> Any:
        return x


COPY = _Copy()


_RULES: Rules = {
    **cumulative.RULES,
    **views.RULES,
    **frames.RULES,
    **gather.RULES,
    **reductions.RULES,
    **searches.RULES,
    **order.RULES,
    **convolve.RULES,
    **product.RULES,
    **einsum.RULES,
    **control.RULES,
    **fourier.RULES,
    **matrix.RULES,
}
