"""Sums of products over the iterations of a loop, as one product after it.

    scan: total += outer(a, b)        becomes        scan: gives the rows a and b;  total + aᵀ b

The cotangent of a weight that a loop uses has this form: a sum of one small product per iteration. One product of the stacked
factors is faster, and the loop carries less. The terms are the same, added in another order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...core.op import Op
from ...core.types import Type
from ...ir.edit import cut, dead_code, renumber, unused_number, values_in
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops import control
from ...ops.broadcast import reshape, transpose
from ...ops.elementwise import add, mul
from ...ops.linalg import matmul

G = TypeVar("G", bound=Graph)

_LEAST_ITERATIONS = 4
_LARGEST = 1 << 22  # elements of a stack of factors


def sink_sums(graph: G) -> G:
    """The same results, with sums of products over the iterations of a loop taken after it."""
    if not any(e.op is control.scan for e in graph.equations):
        return graph
    writer = _SinkWriter(unused_number(graph))
    for e in graph.equations:
        found = _sums(e) if e.op is control.scan else []
        if found:
            writer.write_scan(e, found)
        else:
            writer.equations.append(e)
    return renumber(replace(graph, equations=tuple(writer.equations)))


@dataclass(frozen=True, slots=True)
class _ProductSum:
    """A carry to which each iteration adds leftᵀ right: values of the body, of shapes (…, m) and (…, n)."""

    carry: int  # its place among the carries
    left: int
    right: int


def _sums(scan: Equation) -> list[_ProductSum]:
    """The carries that only add up products whose stacked factors are small enough, and smaller than the sum."""
    body, consts, carries = scan.params["body"], scan.params["consts"], scan.params["carries"]
    if scan.params["length"] < _LEAST_ITERATIONS:
        return []
    made = {n: e for e in body.equations for n in e.outputs}
    uses = Counter(values_in([*(o for e in body.equations for o in e.inputs), *body.outputs]))
    types = body.types
    found = []
    for i in range(carries):
        carry, out = consts + i, body.outputs[i]
        added = made.get(out) if isinstance(out, int) else None
        if added is None or added.op is not add or carry not in added.inputs or uses[carry] != 1 or uses[out] != 1:
            continue
        (term,) = [o for o in added.inputs if o != carry]
        product = made.get(term) if isinstance(term, int) and uses[term] == 1 else None
        factors = None if product is None else _factors(product, made, types)
        if factors is None or types[term] != types[carry]:  # type: ignore[index]
            continue
        sizes = [types[f].size for f in factors]
        if sum(sizes) < types[carry].size and max(sizes) * scan.params["length"] <= _LARGEST:
            found.append(_ProductSum(i, *factors))
    return found


def _factors(product: Equation, made: dict[int, Equation], types: dict[int, Type]) -> tuple[int, int] | None:
    """The values a and b of a product aᵀ b: an outer product of vectors, or a product of matrices."""
    if product.op not in (matmul, mul):
        return None
    a, b = product.inputs
    (result,) = product.types
    if isinstance(a, Literal) or isinstance(b, Literal) or result.ndim != 2 or types[a].dtype != types[b].dtype:
        return None
    if product.op is matmul and types[a].ndim == types[b].ndim == 2:
        first = made.get(a)
        if first is None or first.op is not transpose or isinstance(first.inputs[0], Literal):
            return None
        return first.inputs[0], b
    m, n = result.shape
    for column, row in ((a, b), (b, a)):
        if types[column].shape == (m, 1) and types[row].shape in ((n,), (1, n)):
            return _flat(column, made), _flat(row, made)
    return None


def _flat(value: int, made: dict[int, Equation]) -> int:
    """The vector that a row or a column was reshaped from."""
    source = made.get(value)
    if source is not None and source.op is reshape and isinstance(source.inputs[0], int):
        return source.inputs[0]
    return value


class _SinkWriter:
    """Writes equations with fresh numbers."""

    def __init__(self, free: int) -> None:
        self.equations: list[Equation] = []
        self.free = free

    def emit(self, op: Op, inputs: tuple[Operand, ...], type_: Type, line: str, **params: Any) -> int:
        self.free += 1
        self.equations.append(Equation(op, inputs, params, (self.free,), (type_,), line))
        return self.free

    def write_scan(self, scan: Equation, sums: list[_ProductSum]) -> None:
        """The scan without the carries that are sums, and the sums after it."""
        params, length = scan.params, scan.params["length"]
        body, consts, carries = params["body"], params["consts"], params["carries"]
        gone = {s.carry for s in sums}
        kept = [i for i in range(carries) if i not in gone]
        inputs = [o for i, o in enumerate(scan.inputs) if i - consts not in gone]
        stacks = dict(enumerate(scan.inputs[consts + carries :], consts + carries))  # by value of the body
        fresh = [f for f in dict.fromkeys(f for s in sums for f in (s.left, s.right)) if f not in stacks]
        types = body.types
        kept += range(carries, len(scan.outputs))
        outputs = [*(body.outputs[i] for i in kept), *fresh]
        numbers, numbers_types = [scan.outputs[i] for i in kept], [scan.types[i] for i in kept]
        for f in fresh:
            self.free += 1
            stacks[f] = self.free
            numbers.append(self.free)
            numbers_types.append(Type((length, *types[f].shape), types[f].dtype))
        left = [i for i in range(len(body.input_types)) if i - consts not in gone]
        smaller = cut(body.name, dead_code(replace(body, outputs=tuple(outputs))), left)
        params = {**params, "body": smaller, "carries": carries - len(gone)}
        self.equations.append(
            replace(scan, inputs=tuple(inputs), params=params, outputs=tuple(numbers), types=tuple(numbers_types))
        )
        for s in sums:
            self.write_sum(scan, s, stacks, types, length)

    def write_sum(self, scan: Equation, s: _ProductSum, stacks: dict[int, Operand], types: dict[int, Type], length: int) -> None:
        result, line = scan.types[s.carry], scan.line
        matrices = []
        for f, width in ((s.left, result.shape[0]), (s.right, result.shape[1])):
            t = Type((length * types[f].size // width, width), result.dtype)
            matrices.append(self.emit(reshape, (stacks[f],), t, line, shape=t.shape))
            height = t.shape[0]
        transposed = self.emit(transpose, (matrices[0],), Type((result.shape[0], height), result.dtype), line, axes=(1, 0))
        total = self.emit(matmul, (transposed, matrices[1]), result, line)
        begin = scan.inputs[scan.params["consts"] + s.carry]
        self.equations.append(Equation(add, (begin, total), {}, (scan.outputs[s.carry],), (result,), line))
