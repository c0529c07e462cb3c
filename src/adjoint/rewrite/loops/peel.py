"""Peeling: first iterations are rewritten to match the others, so that they can be part of the loop.

    a = getitem p, 0;  v1 = mul a, 1.0;  v2 = sin v1;       v3 = mul a, v2;  v4 = sin v3;  …

    a = getitem p, 0;  c = reshape 1.0;                     what only the first iteration has, in front of it
    v1 = mul a, c;  v2 = sin v1;                            v3 = mul a, v2;  v4 = sin v3;  …

Common subexpressions are shared while staging, so a loop invariant is computed in the first iteration only; and a carry may
start from a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.columns import parameters
from ...ir.graph import Equation, Graph, Literal
from ...ops.broadcast import reshape
from .find import FlatGraph
from .repeats import Stretch

Uses = dict[Literal, list[tuple[int, int]]]  # by constant: equations, and which of their operands it is

_MOST_EXTRA = 32  # equations in a row that only the first iteration has


def peel(flat: FlatGraph, found: Sequence[Stretch]) -> Graph | None:
    """The graph with the first iterations of loops made like the others; None if there is nothing to do."""
    columns = flat.columns
    order: list[Any] = []  # in pieces
    replaced: dict[int, Equation] = {}
    added: list[Equation] = []
    end = written = 0  # of the loop before, of what is in `order`
    changed = False
    for stretch in found:
        low, extra, constants = _first_iteration(flat, stretch, end)
        first = []
        for literal, uses in constants.items():
            number = columns.values + len(added)
            first.append(len(columns) + len(added))
            added.append(Equation(reshape, (literal,), {"shape": literal.type.shape}, (number,), (literal.type,)))
            for i, j in uses:
                e = replaced.get(i) or columns[i]
                replaced[i] = replace(e, inputs=(*e.inputs[:j], number, *e.inputs[j + 1 :]))
        chosen = set(extra)
        rest = [i for i in range(low, stretch.start) if i not in chosen]
        order += [np.arange(written, low), np.array([*first, *extra, *rest], np.int64)]
        written, end = stretch.start, stretch.stop
        changed = changed or bool(extra or constants)
    if not changed:
        return None
    order.append(np.arange(written, len(columns)))
    equations, outputs = columns.changed(replaced, added).chosen(np.concatenate(order), flat.graph.outputs)
    return replace(flat.graph, equations=equations, outputs=outputs)


def _first_iteration(flat: FlatGraph, stretch: Stretch, end: int) -> tuple[int, list[int], Uses]:
    """The iteration before a stretch: where it begins, the equations that only it has, and the constants it has for values.

    Walks back from the stretch, matching equations with those of the iteration behind; the ones that match nothing are extra.
    """
    start, _, period = stretch
    window = int(flat.first_number[start])
    wanted: dict[int, int] = {}  # by equation of the iteration behind: the one that must match it, since what it gives is read
    extra: list[int] = []
    matched: set[int] = set()
    constants: Uses = {}
    low, expected, i = start, start + period - 1, start - 1
    while i >= end and expected >= start and len(extra) <= period and i >= low - _MOST_EXTRA:
        starting = [] if flat.keys[i] == flat.keys[expected] else _starting(flat, i, expected)
        if starting is not None and wanted.get(expected, i) == i:
            pairs = _producers(flat, i, expected, window)
            if all(wanted.get(e, m) == m for e, m in pairs):
                wanted.update(pairs)
                matched.add(i)
                for j, literal in starting:
                    constants.setdefault(literal, []).append((i, j))
                low, expected, i = i, expected - 1, i - 1
                continue
        extra.append(i)
        i -= 1
    extra = [k for k in reversed(extra) if k > low]
    for k in extra:  # they cannot move in front of what they read
        operands = flat.operands[flat.first_operand[k] : flat.first_operand[k + 1]]
        if any(n >= flat.inputs and int(flat.position[n - flat.inputs]) in matched for n in operands.tolist()):
            return start, [], {}
    return low, extra, constants


def _starting(flat: FlatGraph, i: int, like: int) -> list[tuple[int, Literal]] | None:
    """The constants of an equation where one like it has values, cast to their types; None if it is not like it."""
    a, b = flat.graph.equations[i], flat.graph.equations[like]
    if a.op is not b.op or a.types != b.types or len(a.inputs) != len(b.inputs):
        return None
    if parameters(a.op, a.params) != parameters(b.op, b.params):
        return None
    found = []
    for j, (x, y) in enumerate(zip(a.inputs, b.inputs, strict=True)):
        wanted = flat.type_of(y)
        if isinstance(x, Literal) and isinstance(y, int):
            value = np.asarray(x.value)
            if value.shape != wanted.shape or (not x.is_weak and value.dtype != wanted.dtype):
                return None
            strong = value.astype(wanted.dtype)
            if not np.array_equal(strong, value, equal_nan=True):
                return None
            found.append((j, Literal(strong)))
        elif isinstance(x, Literal) != isinstance(y, Literal) or flat.type_of(x) != wanted:
            return None
    return found


def _producers(flat: FlatGraph, i: int, like: int, window: int) -> list[tuple[int, int]]:
    """(equation of the iteration behind, equation of this one) for what two equations read of their own iterations."""
    here = flat.operands[flat.first_operand[i] : flat.first_operand[i + 1]].tolist()
    there = flat.operands[flat.first_operand[like] : flat.first_operand[like + 1]].tolist()
    # An input is no result of an iteration: a carry may start from it.
    own = [(n, m) for n, m in zip(here, there, strict=True) if m >= window and n >= flat.inputs]
    return [(int(flat.position[m - flat.inputs]), int(flat.position[n - flat.inputs])) for n, m in own]
