"""The numbers of a recording, computed on demand.

Most programs need none, so nothing is computed while they are staged. A requested number is computed by running the equations
that it depends on, each once: their results are cached. The cache of large arrays is bounded; the least recently used ones are
evicted, and recomputed if necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..core.types import Value
from ..ir.columns import ColumnWriter

LARGE = 1 << 12  # bytes; smaller arrays are not counted
ROOM = 1 << 28  # bytes in all,
COPIES = 16  # or this many times the bytes of the inputs, if larger


class Elsewhere:
    """An array in the memory of another device: its type, and what copies it here. That happens if its numbers are asked for."""

    __slots__ = ("dtype", "fetch", "nbytes", "shape")

    def __init__(self, array: Any, fetch: Callable[[], Any]) -> None:
        self.shape, self.dtype, self.nbytes, self.fetch = array.shape, array.dtype, array.nbytes, fetch


class KnownValues:
    """The known values of a program that is being staged."""

    def __init__(self, program: ColumnWriter) -> None:
        self.program = program
        self.known: dict[int, Any] = {}
        self.room, self.given = ROOM, 0
        self.held = 0
        self.bytes: dict[int, int] = {}  # of the large arrays, the last used at the end; inputs are never evicted
        self.places: list[tuple[int, int, int]] = []  # of each equation so far: first operand, integer and result
        self.made_by: list[int] = []  # the equation of each value that is not an input

    def give(self, number: int, value: Value) -> None:
        """The value of an input."""
        self.known[number] = value
        self.given += getattr(value, "nbytes", 0)
        self.room = max(ROOM, COPIES * self.given)

    def __getitem__(self, operand: int) -> Any:
        """The value of an operand."""
        if operand < 0:
            return self.program.literals[-1 - operand].value
        if operand not in self.known:
            self._compute(operand)
        value = self.known[operand]
        if type(value) is Elsewhere:
            value = self.known[operand] = value.fetch()
        return value

    def keep(self, first: int, values: Iterable[Any], uses: Mapping[int, int]) -> None:
        """Cache the results of an equation, and evict others if there is no room, except those with `uses`, which are still
        needed."""
        for number, value in enumerate(values, first):
            self.known[number] = value
            size = getattr(value, "nbytes", 0)
            if size > LARGE:
                self.held += size - self.bytes.pop(number, 0)
                self.bytes[number] = size
        if self.held > self.room:
            for number in [n for n in self.bytes if not uses.get(n)]:
                if self.held <= self.room:
                    break
                self.held -= self.bytes.pop(number)
                del self.known[number]

    def _compute(self, wanted: int) -> None:
        """Run the equations that a value depends on, in program order."""
        self._index_new()
        chosen: set[int] = set()
        uses = {wanted: 1}  # by the caller
        waiting = [wanted]
        while waiting:
            i = self.made_by[waiting.pop() - self.program.inputs]
            if i not in chosen:
                chosen.add(i)
                for operand in self._operands(i):
                    if operand >= 0:
                        uses[operand] = uses.get(operand, 0) + 1
                        if operand not in self.known:
                            waiting.append(operand)
        with np.errstate(all="ignore"):
            for i in sorted(chosen):
                self._run(i, uses)

    def _run(self, i: int, uses: dict[int, int]) -> None:
        program = self.program
        kind, operands = program.kinds[program.kind[i]], self._operands(i)
        _, integer, number = self.places[i]
        params = kind.params_with(program.integers[integer : integer + len(kind.places)])
        result = kind.op.impl(*[self[o] for o in operands], **params)
        for o in operands:
            if o >= 0:
                uses[o] -= 1
                if o in self.bytes:
                    self.bytes[o] = self.bytes.pop(o)
        self.keep(number, result if kind.op.many else (result,), uses)

    def _index_new(self) -> None:
        """Index the equations staged since the last request."""
        program = self.program
        operand = integer = 0
        number = program.inputs
        if self.places:
            operand, integer, number = self.places.pop()  # where the next one begins
        for i in range(len(self.places), len(program.kind)):
            kind = program.kinds[program.kind[i]]
            self.places.append((operand, integer, number))
            self.made_by += [i] * len(kind.types)
            operand, integer, number = operand + len(kind.operands), integer + len(kind.places), number + len(kind.types)
        self.places.append((operand, integer, number))

    def _operands(self, i: int) -> list[int]:
        return self.program.operands[self.places[i][0] : self.places[i + 1][0]]
