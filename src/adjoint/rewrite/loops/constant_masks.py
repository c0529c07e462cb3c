"""Masks that a loop carries, where they follow from constants: computed here, as rows of the loop.

    scan: g = g + where(live, x, 0),  live = live or i > 2   from live = False, i = [0 1 2 3 …]
    scan: g = g + where(m, x, 0)                             with rows m = [False False False True …]

The backward pass of a loop that writes to a table carries a mask of the table: which elements have a cotangent, and which are
strong zeros. Where that depends on the places alone, not on the data, it is not computed in each call. A row that is the same in
all iterations is a constant. Long loops and large masks are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...core.op import Structured
from ...ir.contents import same_bits
from ...ir.edit import cut, dead_code, has_bodies, map_bodies, mapped, renumber, substitute, unused_number, values_in, values_read
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops.broadcast import broadcast_to, reshape
from ...ops.control import scan
from ..simplify import simplify
from .carries import drop_idle_carries

G = TypeVar("G", bound=Graph)

MOST_EVALUATED = 1 << 15  # equations, in all iterations: 0.1 s
MOST_BYTES = 1 << 20  # of the rows of a loop
_SPREADS = {broadcast_to, reshape}  # ops whose operand takes less memory as a row than their result


def compute_masks(graph: G) -> G:
    """The same results from loops without masks that follow from constants."""
    made = _computed(graph)
    return graph if made is graph else drop_idle_carries(simplify(made, final=True)[0])


def _computed(graph: G) -> G:
    """The same object if there is nothing to compute."""
    if not has_bodies(graph):
        return graph
    inner: G = map_bodies(graph, lambda body: _computed(body))
    replaced: dict[int, Operand] = {}

    def read(n: int) -> Operand:
        return replaced.get(n, n)

    equations = []
    for e in inner.equations:
        if replaced:
            e = replace(e, inputs=mapped(e.inputs, read))
        found = _Masks(e).written() if e.op is scan else None
        if found is not None:
            e, ends = found
            replaced |= ends
        equations.append(e)
    if not replaced:
        return inner
    return renumber(dead_code(replace(inner, equations=tuple(equations), outputs=mapped(inner.outputs, read))))


class _Masks:
    """A scan, and the values of its body that follow from constants: the masks among the carries, and functions of them."""

    def __init__(self, e: Equation) -> None:
        self.e = e
        self.body, self.consts, self.carries = (e.params[key] for key in ("body", "consts", "carries"))
        self.first_row = self.consts + self.carries
        self.types = self.body.types
        self.masks = [k for k in range(self.carries) if self.is_mask(k)]
        while self.masks:
            self.known = self.find_known()
            kept = [k for k in self.masks if self.is_known(self.body.outputs[k])]
            if kept == self.masks:
                break
            self.masks = kept

    def is_mask(self, k: int) -> bool:
        start = self.e.inputs[self.consts + k]
        return isinstance(start, Literal) and not start.is_weak and start.value.dtype == bool

    def is_known(self, o: Operand) -> bool:
        return isinstance(o, Literal) or o in self.known

    def find_known(self) -> set[int]:
        """What follows from masks and constant rows."""
        found = {self.consts + k for k in self.masks}
        found |= {n for n in range(self.first_row, len(self.e.inputs)) if self.is_constant_row(n)}
        for q in self.body.equations:
            if not isinstance(q.op, Structured) and found.issuperset(values_in(q.inputs)):
                found.update(q.outputs)
        return found

    def is_constant_row(self, n: int) -> bool:
        rows = self.e.inputs[n]
        return isinstance(rows, Literal) and not rows.is_weak

    def read_outside(self) -> list[int]:
        """The functions of masks that other equations, and the results of the loop, read."""
        depends = {self.consts + k for k in self.masks}
        made = {}
        for q in self.body.equations:
            if self.known.issuperset(q.outputs) and not depends.isdisjoint(values_in(q.inputs)):
                depends.update(q.outputs)
                made.update(dict.fromkeys(q.outputs, q))
        others = [q for q in self.body.equations if not self.known.issuperset(q.outputs)]
        results = [o for i, o in enumerate(self.body.outputs) if i not in self.masks]
        found: dict[int, None] = {}
        wanted = values_in([*(o for q in others for o in q.inputs), *results])
        while wanted:
            n = wanted.pop()
            if n in made and made[n].op in _SPREADS:
                wanted += values_in(made[n].inputs)
            elif n in depends:
                found[n] = None
        return list(found)

    def written(self) -> tuple[Equation, dict[int, Operand]] | None:
        """The scan without these masks, and its results that are constants; None if nothing is computed."""
        if not self.masks or not self.e.params["length"]:
            return None
        read = self.read_outside()
        if self.e.params["length"] * sum(self.types[n].size * self.types[n].dtype.itemsize for n in read) > MOST_BYTES:
            return None
        evaluated = self.evaluated(read)
        if evaluated is None:
            return None
        ends, rows = evaluated
        e, body = self.e, self.body
        number = unused_number(body)
        fresh = {n: number + i for i, n in enumerate(n for n in read if not _is_uniform(rows[n]))}
        constant = {n: Literal(rows[n][0]) for n in read if n not in fresh}
        kept = [i for i in range(len(e.outputs)) if i not in self.masks]
        inner = dead_code(substitute(replace(body, outputs=tuple([body.outputs[i] for i in kept])), {**constant, **fresh}))
        gone = {self.consts + k for k in self.masks} | ({*range(self.first_row, len(e.inputs))} - values_read(inner))
        inputs = [n for n in range(len(e.inputs)) if n not in gone]
        types = {**self.types, **{m: self.types[n] for n, m in fresh.items()}}
        params = {"body": cut(body.name, inner, [*inputs, *fresh.values()], types), "carries": self.carries - len(self.masks)}
        made = replace(
            e,
            params={**e.params, **params},
            inputs=(*(e.inputs[n] for n in inputs), *(Literal(rows[n]) for n in fresh)),
            outputs=tuple([e.outputs[i] for i in kept]),
            types=tuple([e.types[i] for i in kept]),
        )
        return made, {e.outputs[k]: Literal(end) for k, end in zip(self.masks, ends, strict=True)}

    def evaluated(self, read: Sequence[int]) -> tuple[list[Any], dict[int, Any]] | None:
        """The masks after the loop, and the values of some functions of them in each iteration; None if that takes long."""
        e, length = self.e, self.e.params["length"]
        masks = [self.consts + k for k in self.masks]
        constant = [n for n in range(self.first_row, len(e.inputs)) if self.is_constant_row(n)]
        results = [*(self.body.outputs[k] for k in self.masks), *read]
        equations = [q for q in self.body.equations if self.known.issuperset(q.outputs)]
        step = dead_code(replace(self.body, equations=tuple(equations), outputs=tuple(results)))
        asked = {n for q in step.equations for n in values_in(q.inputs)}.union(values_in(results))
        moving = [n for n in constant if n in asked]
        step = cut("masks", step, [*masks, *moving])
        if length * max(1, len(step)) > MOST_EVALUATED:
            return None
        state = [e.inputs[n].value for n in masks]  # type: ignore[union-attr]
        arrays = [e.inputs[n].value for n in moving]  # type: ignore[union-attr]
        rows = {n: np.empty((length, *self.types[n].shape), self.types[n].dtype) for n in read}
        order = range(length)[:: -1 if e.params["reverse"] else 1]
        try:
            with np.errstate(all="ignore"):
                for done, t in enumerate(order):
                    found = step.straight(*state, *(a[t] for a in arrays))
                    for n, value in zip(read, found[len(masks) :], strict=True):
                        rows[n][t] = value
                    before, state = state, list(found[: len(masks)])
                    if not moving and all(map(np.array_equal, before, state)):  # so it stays, and so do its functions
                        for n in read:
                            rows[n][list(order[done:])] = rows[n][t]
                        break
        except Exception:  # it will be raised where the program runs, with the user's line
            return None
        return state, rows


def _is_uniform(rows: Any) -> bool:
    return same_bits(rows, np.broadcast_to(rows[:1], rows.shape))
