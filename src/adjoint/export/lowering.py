"""The steps of a function that leaves this process: the lowering of `jit`, without threads, Python or SciPy.

    lower(graph, "export.c") → loop nests, products, small matrix routines, loops and branches over buffers

What has no code of its own is refused, by name and source line.
"""

from __future__ import annotations

from ..compiler.lower import scalar
from ..compiler.lower.dead_code import prune
from ..compiler.lower.fuse import Lowering
from ..compiler.lower.kernel import Kernel
from ..compiler.lower.memory import plan
from ..compiler.lower.scalar import NATIVE
from ..compiler.lower.schedule import arranged, group
from ..compiler.lower.step import Foreign, Lapack, Lowered, Step, WhileVjp
from ..core.errors import UnsupportedError
from ..core.types import Type
from ..ir.graph import Equation, Graph

#: Matrix routines that are written out; the others are iterative, and left to LAPACK.
WRITTEN_OUT = frozenset({"cholesky", "cholesky_pullback", "factors", "solve", "inverse", "triangular", "is_symmetric"})


def lower(graph: Graph, exporter: str) -> Lowered:
    """The steps of a graph; `exporter` is named in errors."""
    lowered = _Lowering(graph, exporter).run(guarded=False)
    for name, t in zip(graph.input_names, graph.input_types, strict=True):
        _check_type(t, f"the argument {name!r}", exporter)
    for view in lowered.outputs:
        _check_type(view.type, "a result", exporter)
    return lowered


class _Lowering(Lowering):
    has_cumulative = False
    writes_in_place = False

    def __init__(self, graph: Graph, exporter: str) -> None:
        super().__init__(graph, ())
        self.exporter = exporter
        self.op = ""  # the name of the op that is lowered

    def body(self, graph: Graph) -> Lowered:
        return _Lowering(graph, self.exporter).run(guarded=False)

    def equation(self, equation: Equation) -> None:
        outer, self.op = self.op, self.op or equation.op.name
        before = len(self.steps)
        super().equation(equation)
        for step in self.steps[before:]:
            self.check(step)
        self.op = outer

    def elementwise(self, equation: Equation) -> bool:
        return scalar.has_code(equation.op) and super().elementwise(equation)

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
        if isinstance(step, Lapack) and step.routine not in WRITTEN_OUT:
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
