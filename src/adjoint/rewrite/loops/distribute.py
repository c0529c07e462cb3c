"""Functions of numbers that a loop does not need for its next iteration: computed after it, for all iterations at once.

    scan: v = a + b * r²,  gives log(v) + r² / v      becomes      scan: gives v;  log(v) + r² / v of the whole arrays

One number at a time, a logarithm takes as long as eight in a vector. A sum over the iterations, total += log(v), is the sum of
the array. The loop stores what the functions read (`_Split.read_from`), unless that follows from its rows. The terms of a sum
are the same, added in another order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from ...core.types import Type
from ...ir.edit import cut, dead_code, has_bodies, map_bodies, mapped, renumber, rewrite_equations, values_in
from ...ir.graph import Equation, Graph, Operand
from ...ops.broadcast import sum_, where
from ...ops.control import scan
from ...ops.elementwise import add

G = TypeVar("G", bound=Graph)

LEAST_ITERATIONS = 16
MOST_ITERATIONS = 1 << 20  # of which values are stored
WORTH = 8  # how much the functions cost, at least, for each value that the loop stores for them


def distribute(graph: G) -> G:
    """The graph with functions of numbers after its scans."""
    if not has_bodies(graph):
        return graph
    inner: G = map_bodies(graph, lambda body: distribute(body))
    made = rewrite_equations(inner, _split)
    return inner if made is inner else renumber(dead_code(made))


def _split(e: Equation, number: int) -> _Split | None:
    """A scan in two, if that pays."""
    if e.op is not scan or not LEAST_ITERATIONS <= e.params["length"] <= MOST_ITERATIONS:
        return None
    split = _Split(e, number)
    return split if split.pays() else None


class _Split:
    """A scan in two: the loop, and the equations that are moved behind it, which give arrays."""

    def __init__(self, e: Equation, number: int) -> None:
        self.e, self.number = e, number
        self.body, self.consts, self.carries = (e.params[key] for key in ("body", "consts", "carries"))
        self.types = self.body.types
        self.made = {n: q for q in self.body.equations for n in q.outputs}
        inputs, first_row = range(len(self.body.input_types)), self.consts + self.carries
        self.known = {n for n in inputs if not self.consts <= n < first_row}  # what follows from rows and constants
        self.varying = {n for n in inputs if n >= self.consts}  # what does not follow from constants alone
        for q in self.body.equations:
            read = values_in(q.inputs)
            if self.is_pointwise(q) and self.known.issuperset(read):
                self.known.update(q.outputs)
            if not self.varying.isdisjoint(read):
                self.varying.update(q.outputs)
        self.sums = self.find_sums()
        self.moved = self.find_moved()
        self.sums = {k: t for k, t in self.sums.items() if t in self.moved}
        self.moved = self.find_moved()

    def is_pointwise(self, q: Equation) -> bool:
        """Whether an equation of the body is a function of numbers, which takes arrays as well."""
        is_function = q.op.kind == "elementwise" or q.op is where
        numbers = all(not self.types[o].shape if isinstance(o, int) else not o.type.shape for o in q.inputs)
        return is_function and numbers and len(q.outputs) == 1 and not q.types[0].shape and bool(values_in(q.inputs))

    def find_sums(self) -> dict[int, int]:
        """The carries to which each iteration adds a number, and which it reads for nothing else: the number, by carry."""
        uses = Counter(values_in([*(o for q in self.body.equations for o in q.inputs), *self.body.outputs]))
        found = {}
        for k in range(self.carries):
            carry, q = self.consts + k, self.made.get(self.body.outputs[k])  # type: ignore[arg-type]
            if q is None or q.op is not add or self.types[carry].shape or self.types[carry].dtype.kind != "f":
                continue
            terms = [o for o in q.inputs if o != carry]
            is_sum = len(terms) == 1 and uses[carry] == 1 and uses[q.outputs[0]] == 1
            if is_sum and isinstance(terms[0], int) and self.types[terms[0]] == self.types[carry]:
                found[k] = terms[0]
        return found

    def find_moved(self) -> set[int]:
        """The values of the body that are computed behind the loop."""
        kept = set(values_in([o for k, o in enumerate(self.body.outputs[: self.carries]) if k not in self.sums]))
        added = {self.body.outputs[k] for k in self.sums}
        moved: set[int] = set()
        for q in reversed(self.body.equations):
            if added.intersection(q.outputs):
                continue
            if self.is_pointwise(q) and not kept.intersection(q.outputs):
                moved.update(q.outputs)
            else:
                kept.update(values_in(q.inputs))
        return moved

    def read_from(self) -> list[int]:
        """The values of the loop that the moved equations read, and that it has to store."""
        found: dict[int, None] = {}
        for q in self.body.equations:
            if self.moved.issuperset(q.outputs):
                found.update(dict.fromkeys(n for n in values_in(q.inputs) if n not in self.moved and n not in self.known))
        return list(found)

    def pays(self) -> bool:
        wanted = {o for o in self.body.outputs[self.carries :] if o in self.moved} | {*self.sums.values()}
        if not wanted or not wanted <= self.varying:
            return False
        cost = sum(q.op.cost for q in self.body.equations if self.moved.issuperset(q.outputs))
        return cost >= WORTH * max(1, len(self.read_from()))

    def write(self) -> tuple[list[Equation], dict[int, Operand]]:
        """The equations in place of the scan, and its results that are others now."""
        e, body, length = self.e, self.body, self.e.params["length"]
        stored = self.read_from()
        stays = [k for k in range(self.carries) if k not in self.sums]
        stacks = [i for i in range(self.carries, len(body.outputs)) if body.outputs[i] not in self.moved]
        inputs = [n for n in range(len(body.input_types)) if n - self.consts not in self.sums]
        shorter = replace(body, outputs=(*(body.outputs[k] for k in (*stays, *stacks)), *stored))
        shorter = cut(body.name, dead_code(shorter), inputs)
        values: dict[int, Operand] = {}
        outputs = [e.outputs[i] for i in (*stays, *stacks)]
        for n in stored:
            outputs.append(self.new())
            values[n] = outputs[-1]
        types = [e.types[i] for i in (*stays, *stacks)] + [Type((length,), self.types[n].dtype) for n in stored]
        params = {**e.params, "body": shorter, "carries": len(stays)}
        written = [Equation(scan, tuple([e.inputs[n] for n in inputs]), params, tuple(outputs), tuple(types), e.line)]
        values |= {n: e.inputs[n] for n in inputs if n not in range(self.consts, self.consts + self.carries)}
        copied = self.moved | self.known
        for q in body.equations:
            if copied.issuperset(q.outputs):
                self.copy(q, values, written, length)
        replaced: dict[int, Operand] = {
            e.outputs[i]: values[o] for i, o in enumerate(body.outputs) if i >= self.carries and o in self.moved
        }
        for k, term in self.sums.items():
            total = self.new()
            written.append(Equation(sum_, (values[term],), {"axis": (0,), "keepdims": False}, (total,), (e.types[k],), e.line))
            replaced[e.outputs[k]] = self.new()
            written.append(Equation(add, (e.inputs[self.consts + k], total), {}, (self.number - 1,), (e.types[k],), e.line))
        return written, replaced

    def copy(self, q: Equation, values: dict[int, Operand], written: list[Equation], length: int) -> None:
        """An equation of the body, of arrays."""
        shape = (length,) if q.outputs[0] in self.varying else ()
        values[q.outputs[0]] = self.new()
        operands = mapped(q.inputs, lambda n: values[n])
        written.append(Equation(q.op, operands, q.params, (self.number - 1,), (Type(shape, q.types[0].dtype),), q.line))

    def new(self) -> int:
        self.number += 1
        return self.number - 1
