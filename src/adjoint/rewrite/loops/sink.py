"""Sums of products over the turns of a loop, as one product after it.

    scan: total += outer(a, b)  each turn        becomes        scan: gives the rows a and b;  total + aᵀ b

A weight that a loop uses in every turn gets its cotangent in this form: a sum of as many small products as there are turns. One
product of the stacked factors is faster, and what is carried from turn to turn becomes smaller. The terms are the same, added in
another order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...core.op import OPS
from ...core.types import Type
from ...ir.graph import Equation, Graph, Literal, Operand
from ..simplify.passes import dead_code, renumber

G = TypeVar("G", bound=Graph)

_FEWEST_TURNS = 4
_LARGEST = 1 << 22  # elements of a stack of factors that are kept for the product


def sums_after_loops(graph: G) -> G:
    """The same values, with sums of products over the turns of its loops taken after them."""
    if not any(e.op.name == "scan" for e in graph.equations):
        return graph
    emitter = _Emitter(1 + max([len(graph.input_types), *(n for e in graph.equations for n in e.outputs)]))
    for e in graph.equations:
        found = _sums(e) if e.op.name == "scan" else []
        if found:
            emitter.scan(e, found)
        else:
            emitter.equations.append(e)
    return renumber(replace(graph, equations=tuple(emitter.equations)))


@dataclass(frozen=True, slots=True)
class _Sum:
    """The carry at a place is a sum of products of two values of the body, of shapes (…, m) and (…, n): one turn adds aᵀ b."""

    place: int
    left: int
    right: int


def _sums(scan: Equation) -> list[_Sum]:
    body, consts, carries = scan.params["body"], scan.params["consts"], scan.params["carries"]
    if scan.params["length"] < _FEWEST_TURNS:
        return []
    made = {n: e for e in body.equations for n in e.outputs}
    uses = Counter(o for e in body.equations for o in e.inputs if isinstance(o, int))
    uses.update(o for o in body.outputs if isinstance(o, int))
    types = body.types
    found = []
    for place in range(carries):
        carry, out = consts + place, body.outputs[place]
        added = made.get(out) if isinstance(out, int) else None
        if added is None or added.op.name != "add" or carry not in added.inputs or uses[carry] != 1 or uses[out] != 1:
            continue
        (term,) = [o for o in added.inputs if o != carry]
        product = made.get(term) if isinstance(term, int) and uses[term] == 1 else None
        factors = None if product is None else _factors(product, made, types)
        if factors is None or types[term] != types[carry]:  # type: ignore[index]
            continue
        sizes = [types[f].size for f in factors]
        if sum(sizes) < types[carry].size and max(sizes) * scan.params["length"] <= _LARGEST:
            found.append(_Sum(place, *factors))
    return found


def _factors(product: Equation, made: dict[int, Equation], types: dict[int, Type]) -> tuple[int, int] | None:
    """Values a and b of which a product is aᵀ b: an outer product of vectors, or a product of matrices."""
    if product.op.name not in ("matmul", "mul"):
        return None
    a, b = product.inputs
    (result,) = product.types
    if isinstance(a, Literal) or isinstance(b, Literal) or result.ndim != 2 or types[a].dtype != types[b].dtype:
        return None
    if product.op.name == "matmul" and types[a].ndim == types[b].ndim == 2:
        first = made.get(a)
        if first is None or first.op.name != "transpose" or isinstance(first.inputs[0], Literal):
            return None
        return first.inputs[0], b
    m, n = result.shape
    for column, row in ((a, b), (b, a)):
        if types[column].shape == (m, 1) and types[row].shape in ((n,), (1, n)):
            return _flat(column, made), _flat(row, made)
    return None


def _flat(value: int, made: dict[int, Equation]) -> int:
    """A vector before it was made a row or a column."""
    source = made.get(value)
    if source is not None and source.op.name == "reshape" and isinstance(source.inputs[0], int):
        return source.inputs[0]
    return value


class _Emitter:
    """Writes equations with fresh numbers."""

    def __init__(self, free: int) -> None:
        self.equations: list[Equation] = []
        self.free = free

    def emit(self, name: str, inputs: tuple[Operand, ...], type_: Type, line: str, **params: Any) -> int:
        self.free += 1
        self.equations.append(Equation(OPS[name], inputs, params, (self.free,), (type_,), line))
        return self.free

    def scan(self, scan: Equation, sums: list[_Sum]) -> None:
        """The loop without some of its carries, and the sums that these were."""
        params, length = scan.params, scan.params["length"]
        body, consts, carries = params["body"], params["consts"], params["carries"]
        gone = {s.place for s in sums}
        kept = [i for i in range(carries) if i not in gone]
        inputs = [o for i, o in enumerate(scan.inputs) if i - consts not in gone]
        stacks: dict[int, Operand] = {  # by value of the body: what it was in all turns
            i: o for i, o in enumerate(scan.inputs) if i >= consts + carries
        }
        fresh = [f for f in dict.fromkeys(f for s in sums for f in (s.left, s.right)) if f not in stacks]
        types = body.types
        outputs = [*(body.outputs[i] for i in kept), *body.outputs[carries:], *fresh]
        numbers, numbers_types = [scan.outputs[i] for i in kept], [scan.types[i] for i in kept]
        numbers += scan.outputs[carries:]
        numbers_types += scan.types[carries:]
        for f in fresh:
            self.free += 1
            stacks[f] = self.free
            numbers.append(self.free)
            numbers_types.append(Type((length, *types[f].shape), types[f].dtype))
        smaller = _without_inputs(dead_code(replace(body, outputs=tuple(outputs))), {consts + place for place in gone})
        params = {**params, "body": smaller, "carries": len(kept)}
        self.equations.append(
            replace(scan, inputs=tuple(inputs), params=params, outputs=tuple(numbers), types=tuple(numbers_types))
        )
        for s in sums:
            self.sum(scan, s, stacks, types, length)

    def sum(self, scan: Equation, s: _Sum, stacks: dict[int, Operand], types: dict[int, Type], length: int) -> None:
        result, line = scan.types[s.place], scan.line
        matrices = []
        for f, width in ((s.left, result.shape[0]), (s.right, result.shape[1])):
            t = Type((length * types[f].size // width, width), result.dtype)
            matrices.append(self.emit("reshape", (stacks[f],), t, line, shape=t.shape))
            height = t.shape[0]
        turned = self.emit("transpose", (matrices[0],), Type((result.shape[0], height), result.dtype), line, axes=(1, 0))
        total = self.emit("matmul", (turned, matrices[1]), result, line)
        begin = scan.inputs[scan.params["consts"] + s.place]
        self.equations.append(Equation(OPS["add"], (begin, total), {}, (scan.outputs[s.place],), (result,), line))


def _without_inputs(graph: Graph, gone: set[int]) -> Graph:
    """Without inputs that nothing reads."""
    left = [i for i in range(len(graph.input_types)) if i not in gone]
    numbers: dict[int, int] = {old: new for new, old in enumerate(left)}

    def read(o: Operand) -> Operand:
        return numbers[o] if isinstance(o, int) else o

    equations = []
    for e in graph.equations:
        inputs = tuple(map(read, e.inputs))
        for n in e.outputs:
            numbers[n] = len(numbers)
        equations.append(replace(e, inputs=inputs, outputs=tuple(numbers[n] for n in e.outputs)))
    return replace(
        graph,
        input_names=tuple(graph.input_names[i] for i in left),
        input_types=tuple(graph.input_types[i] for i in left),
        equations=tuple(equations),
        outputs=tuple(map(read, graph.outputs)),
        in_structure=None,
    )
