"""The evaluation trace of a function, as a textbook table.

    Forward primal trace ↓ │ Reverse adjoint trace ↑
    ───────────────────────┼──────────────────────────────────────
    v₋₁ = x₁ = 2           │ x̄₁ = v̄₋₁ = 5.5
    v₀ = x₂ = 5            │ x̄₂ = v̄₀ = 1.716
    ───────────────────────┼──────────────────────────────────────
    v₁ = ln v₋₁ = 0.693    │ v̄₋₁ = v̄₋₁ + v̄₁·∂v₁/∂v₋₁ = … = 5.5
    …

The left column is read downwards, the adjoints upwards. A second table shows the tangents, which are read downwards too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..core.types import Value, is_inexact
from ..ir.evaluation import Evaluation, SweepStep
from ..ir.graph import Equation
from . import explorer
from .columns import Table, TableRow, to_html, to_latex, to_markdown, to_text
from .notation import ASCII, LATEX, SUM, UNICODE, Piece, Unicode, escape_latex
from .writer import GraphWriter

LIMIT = 60  # equations shown by default
WIDE = 64  # characters; a longer rule is not shown in the table

_PRIMAL = "Forward primal trace"
_SWEEPS = {"reverse": "Reverse adjoint trace", "forward": "Forward tangent trace"}
_RESULTS = ("y", "z", "f", "result")
_KEYS = {"reverse": "adjoint", "forward": "tangent"}


class EvaluationTrace:
    """The trace of one run of a function. Print it; `evaluation` holds the numbers.

    Every way of writing it takes `modes`, which sweeps to show ("reverse", "forward" or both); `limit`, the number of
    equations at which the middle is left out (None shows all); `lines=True` adds the source line of each equation.
    """

    def __init__(self, evaluation: Evaluation, simplified: Callable[[], Evaluation] | None = None) -> None:
        self.evaluation = evaluation
        self._simplified = simplified  # the same run of the simplified graph, on demand

    def text(
        self,
        *,
        modes: str | Sequence[str] = ("reverse", "forward"),
        limit: int | None = LIMIT,
        lines: bool = False,
        ascii: bool = False,
    ) -> str:
        """The tables for a terminal; with `ascii=True` in ASCII only."""
        tables = self._tables(ASCII if ascii else UNICODE, modes, limit, lines)
        text = "\n\n".join(to_text(table, ascii) for table in tables)
        return text.encode("ascii", "backslashreplace").decode() if ascii else text

    def markdown(
        self, *, modes: str | Sequence[str] = ("reverse", "forward"), limit: int | None = LIMIT, lines: bool = False
    ) -> str:
        """The tables in Markdown."""
        return "\n\n".join(map(to_markdown, self._tables(UNICODE, modes, limit, lines)))

    def latex(
        self, *, modes: str | Sequence[str] = ("reverse", "forward"), limit: int | None = LIMIT, lines: bool = False
    ) -> str:
        """The tables as LaTeX arrays, to be set in mathematics mode (amsmath)."""
        return "\n\n".join(map(to_latex, self._tables(LATEX, modes, limit, lines)))

    def html(self, *, modes: str | Sequence[str] = ("reverse", "forward"), limit: int | None = LIMIT, lines: bool = False) -> str:
        """The tables in HTML, a piece to be put in a page."""
        return "\n".join(map(to_html, self._tables(UNICODE, modes, limit, lines)))

    def explore(self, path: str | os.PathLike[str]) -> Path:
        """Write a page in which to step through this run with the keyboard or buttons; one self-contained file."""
        file = Path(path)
        page = explorer.page(self.evaluation, None if self._simplified is None else self._simplified())
        file.write_text(page, encoding="utf-8")
        return file

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html()

    def _tables(self, notation: Unicode, modes: str | Sequence[str], limit: int | None, lines: bool) -> list[Table]:
        chosen = (modes,) if isinstance(modes, str) else tuple(modes)
        if not chosen or any(mode not in _SWEEPS for mode in chosen):
            raise ValueError(f"modes of a trace are 'reverse' and 'forward', one or both, not {modes!r}")
        if limit is not None and limit < 2:
            raise ValueError(f"limit of a trace is at least 2, or None for all equations, not {limit!r}")
        return [_Tabulation(self.evaluation, notation, mode, limit, lines).table() for mode in chosen]


class _Tabulation:
    """One table: the primal trace beside one sweep of derivatives."""

    def __init__(self, evaluation: Evaluation, notation: Unicode, mode: str, limit: int | None, lines: bool) -> None:
        self.evaluation, self.graph = evaluation, evaluation.graph
        self.notation, self.mode, self.limit, self.lines = notation, mode, limit, lines
        self.writer = GraphWriter(notation, self.graph)
        self.types = self.graph.types
        self.inputs = set(map(notation.variable, self.graph.input_names))
        self.refusal = evaluation.refusals.get(_KEYS[mode])
        self.steps: dict[int, list[SweepStep]] = {}
        for step in evaluation.steps:
            self.steps.setdefault(step.equation, []).append(step)

    def table(self) -> Table:
        count = len(self.graph.equations)
        down, up = {"unicode": (" ↓", " ↑"), "latex": (r" $\downarrow$", r" $\uparrow$")}.get(self.flavour, (" (down)", " (up)"))
        heads = [_PRIMAL + down, _SWEEPS[self.mode] + (up if self.mode == "reverse" else down)]
        shown = list(range(count))
        note = ""
        if self.limit is not None and count > self.limit:
            head = (self.limit + 1) // 2
            shown = [*range(head), *range(count - self.limit // 2, count)]
            note = f"{count - self.limit} of {count} equations are left out; limit=None shows all of them"
        middle = []
        for before, index in zip([-1, *shown], shown, strict=False):
            if index != before + 1:
                left_out = f"{self.notation.dots} {index - before - 1} more {self.notation.dots}"
                middle.append(TableRow(self.cells([self.plain(left_out)], [self.notation.dots], "")))
            middle.append(self.equation(index))
        if self.refusal:
            note = "\n".join(filter(None, [f"no {_SWEEPS[self.mode].lower()}: {self.refusal}", note]))
        names = (*heads, "Line") if self.lines else tuple(heads)
        inputs = tuple(self.input(i) for i in range(len(self.graph.input_names)))
        return Table(names, (inputs, tuple(middle), self.outputs()), note)

    @property
    def flavour(self) -> str:
        return ("unicode", "ascii", "latex")[self.notation.flavour]

    def plain(self, text: str) -> str:
        """Words among mathematics."""
        return rf"\text{{{text}}}" if self.flavour == "latex" and self.notation.dots not in text else text

    def cells(self, left: Sequence[str], right: Sequence[str], line: str) -> tuple[Sequence[str], ...]:
        if self.refusal:
            right = []
        if not self.lines:
            return left, right
        return left, right, [rf"\texttt{{{escape_latex(line)}}}" if self.flavour == "latex" and line else line]

    def show(self, value: Value) -> str:
        return self.notation.array(value)

    def zero(self, number: int) -> Value:
        t = self.types[number]
        return np.zeros(t.shape, t.dtype)

    def marked(self, name: str) -> str:
        """The adjoint or tangent of a name."""
        return self.notation.bar(name) if self.mode == "reverse" else self.notation.dot(name)

    def derivative(self, number: int) -> str | None:
        """The number of an adjoint or tangent; None for a value that has none."""
        if not is_inexact(self.types[number].dtype):
            return None
        found = (self.evaluation.adjoints if self.mode == "reverse" else self.evaluation.tangents).get(number)
        return self.show(self.zero(number) if found is None else found)

    # -- rows ---------------------------------------------------------------------------------------------------

    def input(self, number: int) -> TableRow:
        name, variable = self.writer.name(number), self.notation.variable(self.graph.input_names[number])
        left = f"{name} = {variable} = {self.show(self.evaluation.values[number])}"
        own, given = self.marked(name), self.marked(variable)
        names = f"{given} = {own}" if self.mode == "reverse" else f"{own} = {given}"
        return TableRow(self.cells([left], [f"{names} = {self.derivative(number)}"], ""))

    def equation(self, index: int) -> TableRow:
        equation = self.graph.equations[index]
        names = [self.writer.name(n) for n in equation.outputs]
        values = [self.show(self.evaluation.values[n]) for n in equation.outputs]
        expression = self.writer.expression(equation)
        if len(names) == 1:
            left = [f"{names[0]} = {expression} = {values[0]}"]
        else:
            left = [f"{', '.join(names)} = {expression}", *(f"{n} = {v}" for n, v in zip(names, values, strict=True))]
        if self.refusal:
            right = []
        elif self.mode == "reverse":
            right = [self.step(equation, step) for step in reversed(self.steps.get(index, []))]  # read upwards
        else:
            right = self.tangent(index, equation)
        return TableRow(self.cells(left, right, equation.line))

    def step(self, equation: Equation, step: SweepStep) -> str:
        """v̄₀ = v̄₀ + v̄₂·∂v₂/∂v₀ = v̄₀ + v̄₂·v₋₁ = 1.716"""
        add, target = self.notation.add, self.writer.name(step.target)
        adjoint = self.notation.bar(target)
        before = [] if step.is_first else [Piece(adjoint)]
        reached = [self.writer.name(n) for n in equation.outputs if n in self.evaluation.adjoints]
        formal = [self.notation.product(Piece(self.notation.bar(n)), Piece(self.notation.partial(n, target))) for n in reached]
        rules = [self.evaluation.rules[step.equation].get(place) for place in step.places]
        written = [self.writer.handed_on(rule, equation, step.target) for rule in rules if rule is not None]
        parts = [adjoint, _total(add, before + formal)]
        if len(written) == len(rules) and sum(self.notation.width(t.text) for t in written) <= WIDE:
            parts.append(_total(add, before + written))
        return " = ".join([*parts, self.show(step.total)])

    def tangent(self, index: int, equation: Equation) -> list[str]:
        """v̇₂ = v̇₋₁·v₀ + v̇₀·v₋₁ = 5"""
        tangents = self.evaluation.tangents
        places = [i for i, o in enumerate(equation.inputs) if isinstance(o, int) and o in tangents]
        lines = []
        for n in equation.outputs:
            number = self.derivative(n)
            if number is None:
                continue
            name = self.writer.name(n)
            if n not in tangents:
                lines.append(f"{self.marked(name)} = {number}")
                continue
            rules = self.evaluation.rules[index]
            written = None if equation.op.many else self.writer.pushed(equation, rules, places)
            if written is None or self.notation.width(written.text) > WIDE:
                operands = dict.fromkeys(self.writer.name(o) for i in places if isinstance(o := equation.inputs[i], int))
                formal = [self.notation.product(Piece(self.marked(o)), Piece(self.notation.partial(name, o))) for o in operands]
                written = Piece(_total(self.notation.add, formal), SUM)
            lines.append(f"{self.marked(name)} = {written.text} = {number}")
        return lines

    def outputs(self) -> tuple[TableRow, ...]:
        """The results, and the seeds from which the adjoints start."""
        totals = self.seed_totals()
        rows = []
        for place, (output, path) in enumerate(zip(self.graph.outputs, self.output_names(), strict=True)):
            if not isinstance(output, int):
                rows.append(TableRow(self.cells([f"{path} = {self.show(output.value)}"], [], "")))
                continue
            name = self.writer.name(output)
            left = f"{path} = {name} = {self.show(self.evaluation.values[output])}"
            right: list[str] = []
            if self.mode == "forward":
                number = self.derivative(output)
                right = [] if number is None else [f"{self.marked(path)} = {self.marked(name)} = {number}"]
            elif self.evaluation.seeds[place] is not None:
                seeded, total = totals[place]
                sum_ = f"{self.marked(name)} + {self.marked(path)}" if seeded else self.marked(path)
                right = [f"{self.marked(name)} = {sum_} = {self.show(total)}"]
            rows.append(TableRow(self.cells([left], right, "")))
        return tuple(rows)

    def seed_totals(self) -> dict[int, tuple[bool, Value]]:
        """For each output, whether its value already has a seed (one value may be returned twice), and the sum so far."""
        sums: dict[int, Value] = {}
        found = {}
        for place in range(len(self.graph.outputs) - 1, -1, -1):
            output, seed = self.graph.outputs[place], self.evaluation.seeds[place]
            if isinstance(output, int) and seed is not None:
                found[place] = output in sums, sums[output] + seed if output in sums else seed
                sums[output] = found[place][1]
        return found

    def output_names(self) -> list[str]:
        """Names of the results: y, or y₁, y₂, …, or another letter where an input is called that."""
        paths = list(self.graph.out_structure.paths())
        if all(path == f"[{i}]" for i, path in enumerate(paths)):
            paths = [str(i + 1) for i in range(len(paths))]
        for letter in _RESULTS:
            names = [self.notation.variable(letter + path) for path in paths]
            if not self.inputs.intersection(names):
                break
        return names


def _total(add: Callable[..., Piece], terms: Sequence[Piece]) -> str:
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total.text


__all__ = ["EvaluationTrace"]
