"""Which names values have in Python source for people: those of the user's source, used again where the old value is dead.

for i in range(10):
    x = step(x, i)              # the next value of a carry takes the name of the last, if nothing reads that any more
    x_saved[i] = x              # what a loop stacks is named after the carry or variable
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from ..core.code import NamedLine
from ..ir.graph import Equation, Graph
from ..ops import control


def words(names: Iterable[str], reserved: set[str]) -> list[str]:
    """Names that Python accepts, all different."""
    found: list[str] = []
    for name in names:
        word = re.sub(r"\W+", "_", name).rstrip("_") or "_"
        while keyword.iskeyword(word) or word in reserved or word in found or re.fullmatch(r"[vc]\d+", word):
            word += "_"
        found.append(word)
    return found


def own_variable(equation: Equation) -> str:
    """The variable to which the source assigns the result of an equation; '' if there is none."""
    line = equation.line
    return line.variable if isinstance(line, NamedLine) and line.op == equation.op.name else ""


def _saved_names(body: Graph, consts: int, carries: int) -> list[str]:
    """Names for the stacked results of a scan: `x_saved` for a variable, or the carry x after each iteration, `x_before` for that
    before it."""
    names = body.input_names[consts : consts + carries]
    found = {e.outputs[0]: f"{name}_saved" for e in body.equations if (name := own_variable(e))}
    found |= {o: f"{name}_saved" for o, name in zip(body.outputs, names, strict=False) if isinstance(o, int)}
    found |= {consts + i: f"{name}_before" for i, name in enumerate(names)}
    return [found.get(o, "") if isinstance(o, int) else "" for o in body.outputs[carries:]]


def result_names(equation: Equation, wanted: dict[int, str]) -> list[str]:
    """Names for the results of a loop or a branch: a carry has that of the body's input."""
    names: Sequence[str] = ()
    if equation.op is control.scan:
        body, consts, carries = (equation.params[key] for key in ("body", "consts", "carries"))
        names = [*body.input_names[consts : consts + carries], *_saved_names(body, consts, carries)]
        names = [name or f"v{n}" for n, name in zip(equation.outputs, names, strict=True)]
    elif equation.op is control.while_vjp:
        pull = equation.params["pull"]
        names = [f"{name}_bar" for name, flag in zip(pull.input_names, equation.params["wanted"], strict=False) if flag]
    elif equation.op is control.cond:
        parts = [equation.params[key] for key in ("true", "false")]
        made = [{n: own_variable(e) for e in part.equations for n in e.outputs} for part in parts]
        pairs = [
            {d.get(o, "") for d, o in zip(made, pair, strict=True)} - {""}
            for pair in zip(*(p.outputs for p in parts), strict=True)
        ]
        names = [next(iter(pair)) if len(pair) == 1 else f"v{n}" for n, pair in zip(equation.outputs, pairs, strict=True)]
    elif equation.op is control.while_:
        names = equation.params["body"].input_names[equation.params["body_consts"] :]
    names = [*names, *(f"v{n}" for n in equation.outputs[len(names) :])]
    return [wanted.get(n, name) for n, name in zip(equation.outputs, names, strict=True)]


class Order:
    """When the values of a graph are read, in the order of its lines: one that is nested, with the line that it is nested in."""

    def __init__(self, graph: Graph, nested: set[int], carries: int) -> None:
        self.graph = graph
        self.made = {n: i for i, e in enumerate(graph.equations) for n in e.outputs}
        stored_first = [o for o in graph.outputs[carries:] if carries and isinstance(o, int) and o not in self.made]
        late = [*graph.outputs[:carries], *(o for o in graph.outputs[carries:] if o not in stored_first)]
        self.last: dict[int, int] = {o: len(graph.equations) for o in late if isinstance(o, int)}
        for i in range(len(graph.equations) - 1, -1, -1):
            e = graph.equations[i]
            at = self.last.get(e.outputs[0], i) if e.outputs and e.outputs[0] in nested else i
            for o in e.inputs:
                if isinstance(o, int):
                    self.last[o] = max(self.last.get(o, -1), at)

    def renewed(self, state: Sequence[int]) -> dict[int, int]:
        """The results that can take the name of the input that they are the next value of."""
        found: dict[int, int] = {}
        for old, o in zip(state, self.graph.outputs, strict=False):
            if isinstance(o, int) and o in self.made and o not in found and self._is_last(old, self.made[o], o):
                found[o] = old
        return found

    def replaced(self, equation: Equation, n: int, names: dict[int, str], name: str) -> int | None:
        """The operand of a loop that has the name of a result, and is not read again."""
        fitting = [o for o, text in names.items() if text == name and _is_start(equation, n, o)]
        return fitting[0] if fitting and self._is_last(fitting[0], self.made[n], n) else None

    def _is_last(self, old: int, at: int, n: int) -> bool:
        last = self.last.get(old, -1)
        equation = self.graph.equations[at]
        return last < at or (last == at and (equation.op not in _LOOPS or _is_start(equation, n, old)))


_LOOPS = (control.scan, control.while_, control.while_vjp)


def _is_start(equation: Equation, n: int, old: int) -> bool:
    """Whether a loop reads a value only to start the state from it that becomes the result n."""
    params, at = equation.params, [i for i, o in enumerate(equation.inputs) if o == old]
    if equation.op is control.scan:
        return at == [params["consts"] + equation.outputs.index(n)]
    return equation.op is control.while_ and at == [params["cond_consts"] + params["body_consts"] + equation.outputs.index(n)]
