"""The steps of a function that leaves this process: the lowering of `jit`, without threads, Python or SciPy.

    lower(graph, "export.c") → loop nests, products, small matrix routines, loops and branches over buffers

What has no code of its own is refused, by name and source line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..api.graph import graph
from ..compiler.lower import scalar
from ..compiler.lower.dead_code import prune
from ..compiler.lower.fuse import Lowering
from ..compiler.lower.kernel import PARTS, Kernel
from ..compiler.lower.lowered import Rules
from ..compiler.lower.memory import plan
from ..compiler.lower.scalar import EVERY
from ..compiler.lower.schedule import arranged, group
from ..compiler.lower.step import Foreign, Lapack, Lowered, Step, WhileVjp
from ..core.errors import UnsupportedError
from ..core.op import Elementwise, Op
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from ..ops.broadcast import broadcast_to
from ..rewrite.complex import has_complex
from ..rewrite.pipeline import optimize
from . import array_routines, complex_matrices, decompositions, fourier, lapacke
from .expansions import UNPROMOTED, cast_to, expanded
from .routines import WRITTEN_OUT

RULES: Rules = {**array_routines.RULES, **decompositions.RULES, **fourier.RULES}


def lower(graph: Graph, exporter: str, lapack: bool = False) -> Lowered:
    """The steps of a graph; `exporter` is named in errors. With `lapack`, decompositions are those of LAPACK."""
    if has_complex(graph):  # real and imaginary parts, one by one
        graph = optimize(graph, complex_parts=True).graph
    lowered = _Lowering(graph, exporter, lapack).run(guarded=False)
    for name, t in zip(graph.input_names, graph.input_types, strict=True):
        _check_type(t, f"the argument {name!r}", exporter)
    results: dict[Operand, str] = {n: f"a result of {e.op.name!r}" for e in graph.equations for n in e.outputs}
    for o, view in zip(graph.outputs, lowered.outputs, strict=True):
        _check_type(view.type, results.get(o, "a result"), exporter)
    return lowered


class _Lowering(Lowering):
    has_cumulative = False
    has_transforms = False
    dtypes = EVERY
    has_array_kernels = False
    writes_in_place = False

    def __init__(self, graph: Graph, exporter: str, lapack: bool, outer: _Lowering | None = None) -> None:
        super().__init__(graph, ())
        self.exporter, self.lapack = exporter, lapack
        # The ops that are being expanded, outermost first; a refusal names the outermost one and its line.
        self.expanding: tuple[tuple[Op, tuple[Type, ...]], ...] = outer.expanding if outer else ()
        self.op: str = outer.op if outer and outer.expanding else ""
        self.line = outer.line if outer and outer.expanding else ""

    def inner(self, graph: Graph) -> Lowering:
        return _Lowering(graph, self.exporter, self.lapack, self)

    def equation(self, equation: Equation) -> None:
        outer, self.op = self.op, self.op or equation.op.name
        before = len(self.steps)
        if self.expanding:
            equation = replace(equation, line=self.line)
        self.line = equation.line
        if not self.rule(equation):
            super().equation(equation)
        for step in self.steps[before:]:
            self.check(step)
        self.op = outer

    def rule(self, equation: Equation) -> bool:
        """Apply a rule of the exporters, for an op that `jit` computes by calling NumPy, SciPy or LAPACK."""
        if equation.op is control.while_vjp:
            self.foreign(equation)
            return True
        rule = RULES.get(equation.op)
        if rule is None or (self.lapack and equation.op in decompositions.RULES):
            return False
        return rule(self, equation)

    def elementwise(self, equation: Equation) -> bool:
        return scalar.has_code(equation.op) and super().elementwise(equation)

    def foreign(self, equation: Equation) -> None:
        """An op without code of its own is written as other ops, if it can be."""
        same = equation.op, tuple(map(self.type_of, equation.inputs))
        made = None if same in self.expanding else _expansion(equation, same[1])
        if made is None:
            super().foreign(equation)
            return
        outer, self.expanding = self.expanding, (*self.expanding, same)
        self.inline(made, equation)
        self.expanding = outer

    def inline(self, graph: Graph, caller: Equation) -> None:
        """Lower the equations of a graph, applied to the operands of an equation, in place of that equation."""
        operands: dict[int, Operand] = dict(enumerate(caller.inputs))
        for equation in graph.equations:
            inputs = tuple(operands[o] if isinstance(o, int) else o for o in equation.inputs)
            outputs = tuple(map(self.fresh_number, equation.types))
            operands.update(zip(equation.outputs, outputs, strict=True))
            self.equation(replace(equation, inputs=inputs, outputs=outputs))
        for number, o, t in zip(caller.outputs, graph.outputs, caller.types, strict=True):
            result = operands[o] if isinstance(o, int) else o
            if isinstance(result, Literal):
                result = self.emit(broadcast_to, (result,), t, shape=t.shape)
            self.values[number] = self.values[result]

    def finish(self, lowered: Lowered) -> None:
        group(lowered, [arranged(step) if isinstance(step, Kernel) else step for step in prune(lowered.steps)])
        plan(lowered)

    def check(self, step: Step) -> None:
        """Refuse a step that needs Python, LAPACK or memory of unknown size."""
        line = next(iter(step.lines), None)
        if isinstance(step, Foreign):
            dtypes = sorted({v.dtype.name for v in (*step.reads(), *step.writes()) if v.dtype not in EVERY})
            of, reason = f" of {', '.join(dtypes)}" if dtypes else "", "jit calls NumPy or SciPy for it"
            if any(np.dtype(name).kind in "iuf" for name in dtypes):
                reason = f"its arrays are {', '.join(sorted(t.name for t in EVERY))}; pass and use one of these"
            raise UnsupportedError(f"{self.exporter} has no code for {self.op!r}{of}: {reason}", line)
        written_out = isinstance(step, Lapack) and (step.routine in WRITTEN_OUT or "template" in step.options)
        if isinstance(step, Lapack) and not (written_out or (self.lapack and lapacke.has(step))):
            raise UnsupportedError(f"{self.exporter} has no code for {self.op!r}: jit calls LAPACK for it", line)
        if isinstance(step, WhileVjp):
            raise UnsupportedError(
                f"{self.exporter} has no code for {self.op!r}, the backward pass of while_loop: it stores the state of each "
                "iteration, whose number is not known before; use scan or fori_loop with a fixed number of iterations",
                line,
            )


class _NoExpansionError(Exception):
    pass


_staged: dict[Any, Graph | None] = {}  # expansions of functions without parameters, by their types


def _expansion(equation: Equation, operands: tuple[Type, ...]) -> Graph | None:
    """The graph of an op in terms of others; None if it has no expansion for these types."""
    if any(t.dtype not in EVERY and t.dtype not in PARTS for t in (*operands, *equation.types)):
        return None
    known = {i: o.value for i, o in enumerate(equation.inputs) if isinstance(o, Literal)}
    if known or equation.params:
        return _stage(equation.op, operands, known, equation.params, equation.types)
    key = equation.op, operands, equation.types
    if key not in _staged:
        _staged[key] = _stage(equation.op, operands, {}, {}, equation.types)
    return _staged[key]


def _stage(
    op: Op, operands: Sequence[Type], known: dict[int, Any], params: dict[str, Any], results: Sequence[Type]
) -> Graph | None:
    of_complex = complex_matrices.EXPANSIONS if any(t.dtype in PARTS for t in operands) else {}

    def program(*xs: Any) -> Any:
        xs = tuple(known.get(i, x) for i, x in enumerate(xs))
        if isinstance(op, Elementwise) and op not in UNPROMOTED and results[0].dtype.kind == "f":
            xs = tuple(cast_to(x, results[0].dtype) for x in xs)
        made = expanded(op, xs, params, results, of_complex)
        if made is None:
            raise _NoExpansionError
        return made

    try:
        with np.errstate(all="ignore"):
            made = graph(program)(*(np.zeros(t.shape, t.dtype) for t in operands))
    except _NoExpansionError:
        return None
    return optimize(made, complex_parts=True).graph


def _check_type(t: Type, what: str, exporter: str) -> None:
    if t.dtype not in EVERY and t.dtype not in PARTS:
        known = ", ".join(sorted(d.name for d in (*EVERY, *PARTS)))
        raise UnsupportedError(f"{exporter} has no numbers of dtype {t.dtype.name}, of {what}; it has {known}")
