"""Store-to-load forwarding: an element that is read where it was written is replaced by the value written.

    v3 = put a, x {spec=(0, 1)};  v4 = put v3, y {spec=(1, 1)};  v5 = getitem v4 {spec=(0, 1)}        v5 is x
    v6 = getitem v4 {spec=(2, 2)}                                                                 v6 = getitem a {spec=(2, 2)}

A table that is filled element by element, in loops that are not rolled (a hand-written Cholesky decomposition), is then never
read, and the computation and its derivative are scalar code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from ..core.types import Shape
from ..ir.columns import Columns
from ..ir.edit import dead_code, mapped, renumber
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops.index import getitem, put

G = TypeVar("G", bound=Graph)


def forward_writes(graph: G, weak: Collection[int] = ()) -> G:
    """The same results, with elements taken from where they come from; the same graph if that changes nothing.

    The inputs `weak` are Python numbers, which are none any more once they have been written to an array.
    """
    held: Any = graph.equations.kinds if isinstance(graph.equations, Columns) else graph.equations
    ops = {one.op for one in held}
    if put not in ops or getitem not in ops:
        return graph
    return _Forwarding(graph, weak).run() or graph  # type: ignore[return-value]


@dataclass
class _History:
    """The states of an array that is written to again and again."""

    states: list[int]  # values: before the first write, after it, after the second …
    elements: dict[tuple[int, ...], list[int]] = field(default_factory=dict)  # by index: the states in which it was new
    regions: list[int] = field(default_factory=list)  # states after writes of more than an element
    written: dict[int, Operand] = field(default_factory=dict)  # by state


class _Forwarding:
    def __init__(self, graph: Graph, weak: Collection[int]) -> None:
        self.graph = graph
        self.types = graph.types
        self.weak = set(weak)  # values that are Python numbers
        self.known: dict[int, tuple[_History, int]] = {}  # by value: its history, and which state it is
        self.replaced: dict[int, Operand] = {}

    def run(self) -> Graph | None:
        kept: list[Equation] = []
        changed = False
        for e in self.graph.equations:
            inputs = mapped(e.inputs, lambda n: self.replaced.get(n, n))
            e = replace(e, inputs=inputs) if inputs != e.inputs else e
            if self.weak and all(o in self.weak if isinstance(o, int) else o.is_weak for o in e.inputs):
                self.weak.update(e.outputs)
            if e.op is put:
                self.write(e)
            elif e.op is getitem and e.inputs[0] in self.known:
                found = self.read(e)
                if found is not e:
                    changed = True
                if not isinstance(found, Equation):
                    self.replaced[e.outputs[0]] = found
                    continue
                e = found
            kept.append(e)
        outputs = mapped(self.graph.outputs, lambda n: self.replaced.get(n, n))
        return renumber(dead_code(replace(self.graph, equations=tuple(kept), outputs=outputs))) if changed else None

    def write(self, e: Equation) -> None:
        x, v = e.inputs
        (type_,) = e.types
        if not isinstance(x, int) or self.types[x] != type_:
            return
        history, state = self.known.get(x, (None, 0))
        if history is None or state != len(history.states) - 1:  # an earlier state is written to as well
            history, state = _History([x]), 0
            self.known.setdefault(x, (history, 0))
        index = _element(e.params["spec"], type_.shape)
        own = v.type if isinstance(v, Literal) else self.types[v]
        is_same = isinstance(v, Literal) or (own.dtype == type_.dtype and v not in self.weak)
        if index is None or own.shape != () or not is_same:
            history.regions.append(state + 1)
        else:
            history.elements.setdefault(index, []).append(state + 1)
            history.written[state + 1] = Literal(np.asarray(v.value, type_.dtype)[()]) if isinstance(v, Literal) else v
        history.states.append(e.outputs[0])
        self.known[e.outputs[0]] = history, state + 1

    def read(self, e: Equation) -> Equation | Operand:
        """What is read: a value that was written, or an element of an earlier state."""
        x = e.inputs[0]
        assert isinstance(x, int)
        history, state = self.known[x]
        index = _element(e.params["spec"], self.types[x].shape)
        if index is None:
            return e
        element, region = _last(history.elements.get(index, []), state), _last(history.regions, state)
        if element > region:
            return history.written[element]
        return e if region == state else replace(e, inputs=(history.states[region],))


def _last(states: list[int], state: int) -> int:
    """The last of some states up to one; the first state of all if there is none."""
    at = bisect_right(states, state)
    return states[at - 1] if at else 0


def _element(spec: tuple[Any, ...], shape: Shape) -> tuple[int, ...] | None:
    """The index of a single element, counted from the front; None if it is more than that."""
    if len(spec) != len(shape) or not all(isinstance(part, int) for part in spec):
        return None
    return tuple([part % size for part, size in zip(spec, shape, strict=True)])
