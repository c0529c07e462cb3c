"""The backward pass over a tape: cotangents, from the latest node to the earliest.

    y = sin(x) * x      ȳ = 1;   x̄ += ȳ·sin(x);   s̄ = ȳ·x;   x̄ += s̄·cos(x)

A heap keyed by creation order visits each node after all nodes that read its value. A node is freed after use.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ..core.bind import Traced, bind, have_numbers, numbers
from ..core.errors import FreedError, written_on
from ..core.floating import quiet
from ..core.op import Opaque, Pull
from ..core.types import Value
from ..derive import ReversePlan
from ..ops.elementwise import add, is_finite
from . import rules
from .origin import Given, Marked, Origin, Several, Sum, through
from .split import without
from .tape import FREED, ROOM, Nested, Node, Outputs, Pick


def backward(
    seeds: list[tuple[Node, Value]], wanted: Sequence[Node], *, simple: bool = False, traced: bool = False
) -> list[Value | None]:
    """Cotangents of the `wanted` leaves, given those of the `seeds`; None where nothing arrives. Empties `seeds`.

    With `simple` (see `Tape`) the pass is first made with ordinary products. If the result is finite it is right;
    if not, an exact zero may have met an infinite partial, and the pass is made again with the product that
    knows. Otherwise the pass is made once, looks at each step, and gives up its nodes as it goes.
    With `traced`, the origins of seeds without numbers are followed as well.
    """
    with quiet():
        if simple and not any(isinstance(g, Traced) for _, g in seeds):
            results = Pass(wanted).hurry(list(seeds))
            if all(map(is_finite, results)):
                return results
        return Pass(wanted, traced=traced).run(seeds)


class Pass:
    """One backward pass. A heap keyed by creation order visits every node after all of its consumers.

    `live` holds pending nodes: node, cotangent, and whether the pass owns that array and may add to it in place. Nodes without
    other references are freed during the pass.
    """

    def __init__(self, wanted: Sequence[Node], free: bool = False, traced: bool = False) -> None:
        self.live: dict[int, list[Any]] = {}
        self.heap: list[int] = []
        self.wanted = [node.serial for node in wanted]
        self.leaves: dict[int, tuple[Node, Any]] = {}  # every leaf that was reached
        self.free = free
        self.traced = traced
        self.origins: dict[int, Origin] = {}  # of what is live, if they are followed
        self.origin: Origin | None = None  # of what is handed on now
        self.follows = False
        self.masks: Callable[[], Sequence[Any]] | None = None  # of what a loop or a branch hands on now

    def run(self, seeds: list[tuple[Node, Value]], origins: list[Origin] | None = None) -> list[Value | None]:
        """Run the pass, emptying `seeds`, whose origins may be known."""
        line = written_on.get()
        try:
            while seeds:
                self.begin(*seeds.pop(), None if origins is None else origins.pop())
            while self.heap:
                self.visit(*self.live.pop(-heapq.heappop(self.heap)))
        finally:
            written_on.set(line)
        return self.results()

    def begin(self, node: Node, g: Value, origin: Origin | None = None) -> None:
        """A seed arrives."""
        has_numbers = numbers(g) is not None
        self.follows = has_numbers or self.traced
        if self.follows:
            known = self.origins.get(node.serial)
            given = Given(g) if origin is None else origin
            self.origins[node.serial] = given if known is None else Sum(known, given)
        self.arrive(node, g)

    def visit(self, node: Node, g: Value, owned: bool) -> None:
        """Pass a cotangent on to the parents of a node."""
        step = node.plan
        if step is None:
            self.reach(node, g)
            return
        saved, above = self.saved_of(node), self.origins.pop(node.serial, None)
        self.origin, self.masks = above, None
        if saved is FREED:
            raise FreedError(
                "this graph was freed by an earlier backward(); call backward(retain_graph=True) the first time to keep it"
            )
        if node.line:
            written_on.set(str(node.line))  # a cotangent is not the variable of the line
        parts: Sequence[Any] = (g,)
        if step.into is None or not self.accumulate(node, g):
            parts, fresh = self.pull(node, g, saved)
            # g itself goes to one parent: the parent owns it if this node did.
            owned = owned and sum([part is g for part in parts]) == 1
            for parent, part in zip(node.parents, parts, strict=True):
                if part is not None:
                    mine = (owned if part is g else fresh) and type(part) is ndarray and part.base is None
                    self.arrive(parent, part, mine)
        if self.follows:
            self.trace_back(node, above, saved, parts)
        if self.free:
            node.saved = FREED

    def hurry(self, seeds: list[tuple[Node, Value]]) -> list[Value | None]:
        """As `run`, with ordinary products, for small plain arrays: the caller checks at the end that the result is finite."""
        live, heap, pop, push = self.live, self.heap, heapq.heappop, heapq.heappush
        while seeds:
            self.arrive(*seeds.pop())
        while heap:
            node, g, _ = live.pop(-pop(heap))
            step = node.plan
            if step is None:
                self.reach(node, g)
            elif step.into is None or not self.accumulate(node, g):
                parents = node.parents
                for parent, part in zip(parents, step.quick(g, node.saved, parents, node.params)):  # noqa: B905
                    if part is not None:
                        key = parent.serial
                        entry = live.get(key)
                        if entry is None:
                            live[key] = [parent, part, False]
                            push(heap, -key)
                        else:
                            entry[1] = entry[1] + part
        return self.results()

    def attempt(self, seeds: list[tuple[Node, Value]]) -> bool:
        """As `hurry`, over nodes that may hold anything: true if all were suited and the cotangents of the leaves are finite.

        Otherwise nothing has changed but this pass, which is of no further use.
        """
        live, heap, room, visited = self.live, self.heap, ROOM, []
        for node, g in seeds:
            self.arrive(node, g)
        while heap:
            node, g, _ = live.pop(-heapq.heappop(heap))
            step = node.plan
            room -= math.prod(node.shape)
            if room < 0 or type(node) is Pick or type(node) is Outputs or not node.plain or node.saved is FREED:
                return False
            if step is None:
                if not is_finite(g):
                    return False
                self.leaves[node.serial] = node, g
                continue
            visited.append(node)
            if step.into is None or not self.accumulate(node, g):
                for parent, part in zip(node.parents, step.quick(g, node.saved, node.parents, node.params), strict=True):
                    if part is not None:
                        self.arrive(parent, part)
        if self.free:
            for node in visited:
                node.saved = FREED
        return True

    def results(self) -> list[Value | None]:
        return [self.leaves[serial][1] if serial in self.leaves else None for serial in self.wanted]

    def pull(self, node: Node, g: Value, saved: Any) -> tuple[Sequence[Any], bool]:
        """The cotangents of a node's parents, and whether they are new arrays without other references.

        Ordinary products if everything is plain and finite, else products with strong zeros.
        """
        step: ReversePlan = node.plan  # type: ignore[assignment]
        if saved and isinstance(saved[0], Pull):
            return self.pull_structured(saved[0], g, saved[1]), False
        if saved and isinstance(saved[0], Nested):
            each = self.origin.each if isinstance(self.origin, Several) else {}
            parts, origins = saved[0].run(g, each, node.parents)
            self.masks = functools.cache(lambda: [o is None or o.live is None or o.live for o in origins])
            return parts, False
        if isinstance(node.op, Opaque):
            return rules.pull(node.op, step, g, self.origin, saved, node.parents, node.params), False
        if node.plain and step.quick is not step.pull and not isinstance(g, Traced):
            parts = step.quick(g, saved, node.parents, node.params)
            if all(part is g or is_finite(part) for part in parts):
                return parts, True
        if self.origin is not None and step.careful is not None:
            return step.careful(g, self.origin, saved, node.parents, node.params), False
        return step.pull(g, saved, node.parents, node.params), False

    def pull_structured(self, back: Pull, gs: Sequence[Value | None], residuals: Any) -> Sequence[Any]:
        """The cotangents of the operands of a loop or a branch. Their masks are found if they are needed: where a result is not
        finite, or asked for later. A staged program has them in it, and loses them if nothing reads them.
        """
        origin = self.origin
        known = functools.cache(lambda: origin.masks(gs) if isinstance(origin, Several) else [None] * len(gs))
        if have_numbers([gs, residuals]):
            parts, _ = back.run(gs, residuals, None)
            if all(part is None or is_finite(numbers(part)) for part in parts):
                self.masks = functools.cache(lambda: back.run(gs, residuals, known())[1])
                return parts  # type: ignore[no-any-return]
        parts, masks = back.run(gs, residuals, known())
        self.masks = lambda: masks
        return parts  # type: ignore[no-any-return]

    def trace_back(self, node: Node, above: Origin | None, saved: Any, parts: Sequence[Any]) -> None:
        """Record the origins of the cotangents that a node has passed on."""
        for i, (parent, part) in enumerate(zip(node.parents, parts, strict=True)):
            if part is not None:
                origin = through(above, node, i, saved, part) if self.masks is None else Marked(_item(self.masks, i))
                known = self.origins.get(parent.serial)
                self.origins[parent.serial] = origin if known is None else Sum(known, origin)

    def saved_of(self, node: Node) -> Any:
        """The residuals of a node, as its pull expects them."""
        return node.saved

    def arrive(self, node: Node, g: Value, owned: bool = False) -> None:
        """Add to the cotangent of a node: in place if the pass owns the array."""
        entry = self.live.get(node.serial)
        if entry is None:
            self.live[node.serial] = [node, g, owned]
            heapq.heappush(self.heap, -node.serial)
        elif entry[2] and type(g) is ndarray:
            total = entry[1]
            total += g
        elif isinstance(g, Traced):
            entry[1:] = bind(add, entry[1], g), False
        else:
            total = entry[1] + g
            entry[1:] = total, type(total) is ndarray

    def reach(self, node: Node, g: Value) -> None:
        """A cotangent that ends at a leaf, or goes from one of several results to their node."""
        if type(node) is not Pick:
            self.leaves[node.serial] = (node, without(g))
            return
        (parent,) = node.parents
        assert isinstance(parent, Outputs)
        if (origin := self.origins.pop(node.serial, None)) is not None:
            self.origins.setdefault(parent.serial, Several()).each[node.index] = origin  # type: ignore[attr-defined]
        if parent.serial not in self.live:
            self.arrive(parent, [None] * len(parent.types))
        self.live[parent.serial][1][node.index] = g

    def accumulate(self, node: Node, g: Any) -> bool:
        """Add to the parent's cotangent in place, touching only the elements that the op read. False if it cannot."""
        (parent,) = node.parents
        entry = self.live.get(parent.serial)
        if isinstance(g, Traced) or any(isinstance(index, Traced) for index in node.saved[2:]):
            return False
        if entry is None:
            self.arrive(parent, np.zeros(parent.shape, parent.dtype))
            entry = self.live[parent.serial]
        elif isinstance(entry[1], Traced):
            return False
        elif not entry[2] or type(entry[1]) is not ndarray:  # a sum of 0-d arrays is a scalar, which cannot be added to in place
            entry[1] = np.array(entry[1])
        entry[2] = True
        node.plan.into(entry[1], g, *node.saved[2:], **node.params)  # type: ignore[union-attr,misc]
        return True


def _item(find: Callable[[], Sequence[Any]], i: int) -> Callable[[], Any]:
    return lambda: find()[i]
