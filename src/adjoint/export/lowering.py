"""The steps of a function that leaves this process: the lowering of `jit`, without threads, Python or SciPy.

    lower(graph, "export.c") → loop nests, products, small matrix routines, loops and branches over buffers

What has no code of its own is refused, by name and source line.
"""

from __future__ import annotations

from dataclasses import replace

from ..compiler.lower import scalar
from ..compiler.lower.dead_code import prune
from ..compiler.lower.fuse import Lowering
from ..compiler.lower.kernel import Kernel
from ..compiler.lower.lowered import Rules
from ..compiler.lower.memory import plan
from ..compiler.lower.scalar import NATIVE
from ..compiler.lower.schedule import arranged, group
from ..compiler.lower.step import Foreign, Lapack, Lowered, Step, WhileVjp
from ..core.errors import UnsupportedError
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from . import array_routines, decompositions, integers, lapacke
from .lowered_expansions import expansion

RULES: Rules = {**array_routines.RULES, **decompositions.RULES, **integers.RULES}
#: Matrix routines that are written out; the others are iterative, and left to LAPACK.
WRITTEN_OUT = frozenset(
    {"cholesky", "cholesky_pullback", "factors", "solve", "inverse", "triangular", "is_symmetric", "reflectors", "orthogonal"}
)


def lower(graph: Graph, exporter: str, lapack: bool = False) -> Lowered:
    """The steps of a graph; `exporter` is named in errors. With `lapack`, decompositions are those of LAPACK."""
    lowered = _Lowering(graph, exporter, lapack).run(guarded=False)
    for name, t in zip(graph.input_names, graph.input_types, strict=True):
        _check_type(t, f"the argument {name!r}", exporter)
    for view in lowered.outputs:
        _check_type(view.type, "a result", exporter)
    return lowered


class _Lowering(Lowering):
    has_cumulative = False
    has_transforms = False
    dtypes = NATIVE
    has_array_kernels = False
    writes_in_place = False

    def __init__(self, graph: Graph, exporter: str, lapack: bool) -> None:
        super().__init__(graph, ())
        self.exporter, self.lapack = exporter, lapack
        self.op = ""  # the name of the op that is lowered

    def body(self, graph: Graph) -> Lowered:
        return _Lowering(graph, self.exporter, self.lapack).run(guarded=False)

    def equation(self, equation: Equation) -> None:
        outer, self.op = self.op, self.op or equation.op.name
        before = len(self.steps)
        self.line = equation.line
        if not self.rule(equation):
            super().equation(equation)
        for step in self.steps[before:]:
            self.check(step)
        self.op = outer

    def rule(self, equation: Equation) -> bool:
        """What exporters write themselves, where `jit` calls NumPy, SciPy or LAPACK."""
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
        types = [self.type_of(o) for o in equation.inputs]
        expanded = expansion(equation.op, types, equation.params, equation.types)
        if expanded is None:
            super().foreign(equation)
        else:
            self.inline(expanded, equation)

    def inline(self, graph: Graph, caller: Equation) -> None:
        """Lower the equations of a graph on the operands of an equation, as what that equation gives."""
        operands: dict[int, Operand] = dict(enumerate(caller.inputs))
        for equation in graph.equations:
            inputs = tuple(operands[o] if isinstance(o, int) else o for o in equation.inputs)
            outputs = tuple(map(self.fresh_number, equation.types))
            operands.update(zip(equation.outputs, outputs, strict=True))
            self.equation(replace(equation, inputs=inputs, outputs=outputs, line=caller.line))
        for number, o, t in zip(caller.outputs, graph.outputs, caller.types, strict=True):
            result = operands[o] if isinstance(o, int) else o
            if isinstance(result, Literal):
                result = self.emit("broadcast_to", (result,), t, shape=t.shape)
            self.values[number] = self.values[result]

    def finish(self, lowered: Lowered) -> None:
        group(lowered, [arranged(step) if isinstance(step, Kernel) else step for step in prune(lowered.steps)])
        plan(lowered)

    def check(self, step: Step) -> None:
        """Refuse a step that needs Python, LAPACK or memory of unknown size."""
        line = next(iter(step.lines), None)
        if isinstance(step, Foreign):
            dtypes = sorted({v.dtype.name for v in (*step.reads(), *step.writes()) if v.dtype not in NATIVE})
            of = f" of {', '.join(dtypes)}" if dtypes else ""
            raise UnsupportedError(f"{self.exporter} has no code for {self.op!r}{of}: jit calls NumPy or SciPy for it", line)
        written_out = isinstance(step, Lapack) and (step.routine in WRITTEN_OUT or "template" in step.options)
        if isinstance(step, Lapack) and not (written_out or (self.lapack and lapacke.has(step))):
            raise UnsupportedError(f"{self.exporter} has no code for {self.op!r}: jit calls LAPACK for it", line)
        if isinstance(step, WhileVjp):
            raise UnsupportedError(
                f"{self.exporter} has no code for {self.op!r}, the backward pass of while_loop: it stores the state of each "
                "iteration, whose number is not known before; use scan or fori_loop with a fixed number of iterations",
                line,
            )


def _check_type(t: Type, what: str, exporter: str) -> None:
    if t.dtype not in NATIVE:
        known = ", ".join(sorted(d.name for d in NATIVE))
        raise UnsupportedError(f"{exporter} has no numbers of dtype {t.dtype.name}, of {what}; it has {known}")
