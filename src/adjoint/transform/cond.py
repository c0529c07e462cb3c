"""The rules of `cond`: a cond of the derivatives of its branches.

In reverse mode both branches return residuals of the same types: each fills its own and returns zeros for those of the other;
residuals of one type share a slot. Under vmap, a predicate that differs between examples selects from the results of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.op import Case, LateCases, Pull, case
from ..core.types import Type, Value
from ..ir.graph import Graph
from ..ops.broadcast import zeros_of
from ..ops.control import cond
from .build import Flags, build, chosen, halved, named, once, parsed, parts, places, reach, spread
from .jvp import jvp
from .vjp import Halves, all_live, full, known_masks, mask_type, narrowed, vjp_for_both
from .vmap import batch_size, repeated, run, vmap
from .while_loop import select

Params = dict[str, Any]


def _branches(params: Params) -> tuple[Graph, Graph]:
    return params["true"], params["false"]


def _either(params: Params, flags: Flags) -> Flags:
    """The outputs that the flagged operands reach in one of the branches."""
    return tuple(a or b for a, b in zip(*(reach(branch, flags) for branch in _branches(params)), strict=True))


def _jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params, masks: Sequence[Any] | None = None) -> Any:
    flags = tuple(t is not None for t in ts[1:])
    outputs = _either(params, flags)
    true, false = (jvp(branch, flags, outputs, masks is not None) for branch in _branches(params))
    live = [full(mask, Type.of(x)) for mask, x in zip(masks[1:], xs[1:], strict=True)] if masks is not None else []
    results = cond(*xs, *chosen(ts[1:], flags), *(chosen(live, flags) if live else ()), true=true, false=false)
    ys, tangents, marks = parts(results, len(outputs), sum(outputs))
    found = ys, spread(tangents, outputs)
    return found if masks is None else (*found, spread(marks, outputs))


class _Branch(NamedTuple):
    """One branch in reverse mode: its halves, and the slot of each of its residuals."""

    graph: Graph
    halves: Halves
    slots: tuple[int, ...]


def _vjp(xs: Sequence[Value], wanted: Flags, params: Params) -> tuple[Sequence[Value], Any, Any]:
    flags = wanted[1:]
    outputs = _either(params, flags)
    halves = [vjp_for_both(branch, flags, outputs) for branch in _branches(params)]
    slots, owners = _slots([half.residual_types() for half in halves])
    branches = [_Branch(*both) for both in zip(_branches(params), halves, owners, strict=True)]
    needed = sorted({i for half in halves for i in half.needed})
    true, false = (_forward(branch, slots) for branch in branches)
    results = cond(*xs, true=true, false=false)

    def pull(gs: Sequence[Value | None], residuals: Sequence[Value], masks: Any) -> tuple[list[Value], Any]:
        have = tuple(g is not None and flag for g, flag in zip(gs, outputs, strict=True))
        given = chosen(gs, have)
        masked = masks is not None and not (
            all_live(given, chosen(masks, have))
            and all(narrowed(branch.graph, branch.halves, flags, have).live for branch in branches)
        )
        live = chosen(known_masks(gs, masks), have) if masked else []
        true, false = (_backward(branch, flags, have, needed, slots, masked) for branch in branches)
        operands = [*residuals, *given, *(full(mask, Type.of(g)) for g, mask in zip(given, live, strict=False))]
        cotangents, found = halved(cond(*operands, true=true, false=false), masked)
        return cotangents, None if masks is None else found if masked else [True] * len(cotangents)

    return results[: len(outputs)], [xs[0], *(xs[1 + i] for i in needed), *results[len(outputs) :]], Pull(pull)


def _slots(residuals: Sequence[Sequence[Type]]) -> tuple[tuple[Type, ...], list[tuple[int, ...]]]:
    """Types of the slots for the residuals of both branches, and the slot of each residual of each."""
    slots: list[Type] = []
    owners = []
    for types in residuals:
        free = list(range(len(slots)))
        mine = []
        for t in types:
            place = next((i for i in free if slots[i] == t), len(slots))
            if place == len(slots):
                slots.append(t)
            else:
                free.remove(place)
            mine.append(place)
        owners.append(tuple(mine))
    return tuple(slots), owners


def _forward(branch: _Branch, slots: tuple[Type, ...]) -> Graph:
    """The forward half, which fills its own slots, and the others with zeros."""
    graph, half, mine = branch
    count = len(graph.outputs)

    def run(values: list[Value]) -> list[Value]:
        results = half.forward.run_flat(values)
        own = dict(zip(mine, results[count:], strict=True))
        return [*results[:count], *(own[i] if i in own else zeros_of(t) for i, t in enumerate(slots))]

    inputs = named(graph, range(len(graph.input_types)))
    return once(half.forward, ("slots", slots, mine), lambda: build(half.forward.name, inputs, run))


def _backward(branch: _Branch, wanted: Flags, have: Flags, needed: Sequence[int], slots: tuple[Type, ...], masked: bool) -> Graph:
    """The backward half as a function of the operands and residuals of both branches, and of the cotangents at hand."""
    graph, half, mine = branch
    types = graph.output_types
    fewer = narrowed(graph, half, wanted, have, masked=masked)

    def run(values: list[Value]) -> list[Value]:
        operands, kept, late = parts(values, len(needed), len(slots))
        reads = dict(zip(needed, operands, strict=True))
        own = {n: kept[i] for n, i in zip(half.residuals, mine, strict=True)}
        gs, live = halved(late, masked)
        given = places(have)
        masks = dict(zip(given, live, strict=True)) if masked else {}
        cotangents, found = fewer.pull(reads, own, dict(zip(given, gs, strict=True)), masks, types)
        if not masked:
            return cotangents
        return [*cotangents, *([full(True, Type.of(g)) for g in cotangents] if found is None else found)]

    residuals = [(f"r{i}", t) for i, t in enumerate(slots)]
    seeds = [(f"g{i}", types[i]) for i in places(have)]
    masks = [(f"live_{name}", mask_type(t)) for name, t in seeds if masked]
    inputs = [*named(graph, needed), *residuals, *seeds, *masks]
    key = ("cond", tuple(needed), slots, mine, have, masked)
    return once(half.backward, key, lambda: build(half.backward.name, inputs, run))


def _batch(flags: Flags, *args: Value, **params: Any) -> tuple[Value, ...]:
    size = batch_size(flags, args)
    true, false = _branches(params)
    if not flags[0]:
        everything = (True,) * len(true.outputs)
        batched = [vmap(branch, size, flags[1:], everything) for branch in (true, false)]
        return tuple(cond(*args, true=batched[0], false=batched[1]))
    whole = []
    for branch in (true, false):
        ys, batched_ys = run(branch, size, args[1:], flags[1:])
        whole.append([y if flag else repeated(y, size) for y, flag in zip(ys, batched_ys, strict=True)])
    return tuple(select(args[0], a, b) for a, b in zip(*whole, strict=True))


cond.jvp, cond.vjp, cond.batch = _jvp, _vjp, _batch
cond.masks_tangents = True


def _cases() -> Iterator[Case]:
    true = parsed("""graph true(a: float64[], x: float64[2]) {
      v2: float64[2] = sin x
      v3: float64[2] = mul v2, a
      v4: float64[2] = mul v3, v2
      return v4, a
    }""")
    false = parsed("""graph false(a: float64[], x: float64[2]) {
      v2: float64[2] = exp x
      return v2, 1.5
    }""")
    for pred in (True, False):
        yield case(np.bool_(pred), (), (2,), true=true, false=false)


cond.cases = LateCases(_cases)
