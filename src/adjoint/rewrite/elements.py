"""Element demand: if only a few elements of an elementwise value are read, only those are computed.

    v2 = mul x, y;  v3 = sin v2;  v4 = gather v3, i
    v2 = gather x, i;  v3 = gather y, i;  v4 = mul v2, v3;  v5 = sin v4

The backward pass of a loop that writes into an array has such arrays: the masks of the cotangents of all elements, of which an
iteration reads one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core.op import Op
from ..core.types import Type
from ..derive import type_rule
from ..ir.edit import dead_code, map_bodies, renumber, unused_number, values_in
from ..ir.graph import Equation, Graph, Literal, Operand, weak_numbers
from ..ops.broadcast import where
from ..ops.elementwise import (
    add,
    equal,
    less,
    logical_and,
)
from ..ops.index import gather, scatter_add
from .pointwise import is_pointwise

G = TypeVar("G", bound=Graph)

_FEWER = 4  # times as many elements as are read, from which on this pays
_DEEPEST = 64  # equations in a row


def compute_elements(graph: G) -> G:
    """The same results, with elementwise operations on the elements that are read alone."""
    inside = map_bodies(graph, lambda body: compute_elements(body))
    if not any(e.op is gather for e in inside.equations):
        return inside
    return _Elements(inside).run() or inside  # type: ignore[return-value]


def _place(e: Equation) -> tuple[int, int]:
    """The axes of an index: the first, and their number."""
    return e.params["axis"], len(e.inputs) - 1


class _Reads(NamedTuple):
    """The gathers of a value that is read in no other way, directly or through values that are computed from it."""

    elements: int  # that are read
    places: frozenset[tuple[int, int] | None]  # the axes of the indices; None for one that is not at one place
    depth: int  # of the computation, from the last gather back


class _Elements:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = dict(graph.types)
        self.made = {n: e for e in graph.equations for n in e.outputs}
        self.free = unused_number(graph)
        self.sparse = self.sparse_values()
        self.known: dict[
            tuple[Operand, tuple[Operand, ...], int], int
        ] = {}  # the elements that have been read, by array and index
        self.added: list[Equation] = []

    def run(self) -> Graph | None:
        if not self.sparse:
            return None
        written: list[Equation] = []
        for e in self.graph.equations:
            if e.op is gather and e.inputs[0] in self.sparse:
                self.known.pop(self.key(e.inputs[0], e), None)
                self.element(e.inputs[0], e)
                last = self.added.pop()
                written += [*self.added, replace(last, outputs=e.outputs)]
                del self.known[self.key(e.inputs[0], e)]  # it has another number now
                self.added = []
            else:
                written.append(e)
        return renumber(dead_code(replace(self.graph, equations=tuple(written))))

    def sparse_values(self) -> set[int]:
        """The values that are computed point by point, and of which only few elements are read."""
        readers: dict[int, list[Equation | None]] = {}
        for e in self.graph.equations:
            for o in values_in(e.inputs):
                readers.setdefault(o, []).append(e)
        for o in values_in(self.graph.outputs):
            readers.setdefault(o, []).append(None)
        found: dict[int, _Reads] = {}
        for e in reversed(self.graph.equations):
            if len(e.outputs) != 1 or e.types[0].shape == ():
                continue
            (n,), shape = e.outputs, e.types[0].shape
            reads = self.reads_of(n, readers.get(n, []), found)
            if reads is None or reads.elements * _FEWER > math.prod(shape) or reads.depth > _DEEPEST:
                continue
            if self.is_single(e):
                is_possible = reads.places == {_place(e)}
            else:
                is_possible = is_pointwise(e) and all(self.type_of(o).shape in (shape, ()) for o in e.inputs)
            if is_possible:
                found[n] = reads
        return set(found)

    def reads_of(self, n: int, readers: list[Equation | None], found: dict[int, _Reads]) -> _Reads | None:
        """How a value is read, if by nothing but gathers."""
        count, depth = 0, 0
        places: set[tuple[int, int] | None] = set()
        for reader in readers:
            if reader is None or len(reader.outputs) != 1:
                return None
            if reader.op is gather and reader.inputs[0] == n and n not in reader.inputs[1:]:
                count += math.prod(reader.types[0].shape)
                places.add(_place(reader) if self.is_at_one_place(reader) else None)
            elif reader.outputs[0] in found and not self.is_single(reader):
                behind = found[reader.outputs[0]]
                count, depth, places = count + behind.elements, max(depth, behind.depth), places | behind.places
            else:
                return None
        return _Reads(count, frozenset(places), depth + 1)

    def is_at_one_place(self, e: Equation) -> bool:
        return all(self.type_of(o).shape == () for o in e.inputs[1:])

    def is_single(self, e: Equation) -> bool:
        """Whether an array is zero but for what is added at one place."""
        return e.op is scatter_add and self.is_at_one_place(e)

    def type_of(self, o: Operand) -> Type:
        return self.types[o] if isinstance(o, int) else o.type

    def element(self, o: Operand, read: Equation) -> Operand:
        """What an array has at the index of a gather."""
        if isinstance(o, Literal) and o.type.shape == ():
            return o
        if isinstance(o, int):
            if self.type_of(o).shape == ():
                return o
            if self.key(o, read) in self.known:
                return self.known[self.key(o, read)]
        if o in self.sparse:
            e = self.made[o]  # type: ignore[index]
            if self.is_single(e):
                number = self.if_here(e, read)
            else:
                number = self.write(replace(e, inputs=tuple([self.element(x, read) for x in e.inputs])), e.types[0].dtype)
        else:
            number = self.write(replace(read, inputs=(o, *read.inputs[1:])))
        if isinstance(o, int):
            self.known[self.key(o, read)] = number
        return number

    def key(self, array: Operand, read: Equation) -> tuple[Operand, tuple[Operand, ...], int]:
        return array, read.inputs[1:], read.params["axis"]

    def if_here(self, e: Equation, read: Equation) -> int:
        """What is at one place of an array that is zero but for what was added at another."""
        shape, axis = e.types[0].shape, e.params["axis"]
        same: Operand | None = None
        for i, j, size in zip(e.inputs[1:], read.inputs[1:], shape[axis:], strict=False):
            here = self.emit(equal, e, self.from_front(i, size, e), self.from_front(j, size, e))
            same = here if same is None else self.emit(logical_and, e, same, here)
        assert same is not None
        return self.emit(where, e, same, e.inputs[0], Literal(np.zeros((), e.types[0].dtype)))

    def from_front(self, i: Operand, size: int, e: Equation) -> Operand:
        """An index that may count from the end, counted from the front."""
        if isinstance(i, Literal):
            return Literal(np.int64(int(i.value) % size))
        return self.emit(where, e, self.emit(less, e, i, Literal(0)), self.emit(add, e, i, Literal(size)), i)

    def emit(self, op: Op, like: Equation, *inputs: Operand) -> int:
        return self.write(Equation(op, inputs, {}, (), (), like.line))

    def write(self, e: Equation, dtype: Any = None) -> int:
        """Add an equation, with the type that its operands give; or with a dtype that some have as Python numbers."""
        type_ = type_rule(e.op, [self.type_of(o) for o in e.inputs], e.params, weak_numbers(e.inputs))
        type_ = type_ if dtype is None else Type(type_.shape, dtype)
        number = self.free
        self.free += 1
        self.types[number] = type_
        self.added.append(replace(e, outputs=(number,), types=(type_,)))
        return number
