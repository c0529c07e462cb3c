"""The rules of `scan`, from those of its body.

forward   a scan of the jvp of the body: carries and tangents side by side
reverse   a scan that also stacks the residuals of each iteration, then a scan of the backward half in the other direction,
          which carries the cotangents of the carries, and the sums of those of the consts
batched   a scan of the batched body; a carry that differs between examples in one iteration does so in all
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..core.op import Pull, case
from ..core.types import Type, Value
from ..ir.graph import Graph
from ..ir.text import parse
from ..ops.broadcast import moveaxis, zeros_of
from ..ops.control import scan
from .build import Flags, build, chosen, closed, depends, named, once, parts, places, reach, spread
from .jvp import dual_body
from .vjp import Halves, narrowed, vjp
from .vmap import batch_size, repeated, vmap

Params = dict[str, Any]


def _jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params) -> tuple[Sequence[Value], Sequence[Value | None]]:
    body, carries, consts = params["body"], params["carries"], params["consts"]
    flags, outputs = _reached(body, tuple(t is not None for t in ts), consts, carries)
    dual = dual_body(body, flags, outputs, consts, carries)
    types = list(map(Type.of, xs))
    tangents = [None if not flag else zeros_of(t) if d is None else d for d, t, flag in zip(ts, types, flags, strict=True)]
    operands = []
    for values, directions in zip(parts(xs, consts, carries), parts(tangents, consts, carries), strict=True):
        operands += [*values, *(d for d in directions if d is not None)]
    more = dict(params, body=dual, carries=carries + sum(outputs[:carries]), consts=consts + sum(flags[:consts]))
    results = scan(*operands, **more)
    c, dc, y, dy = parts(results, carries, sum(outputs[:carries]), len(outputs) - carries)
    return [*c, *y], [*spread(dc, outputs[:carries]), *spread(dy, outputs[carries:])]


def _reached(body: Graph, flags: Flags, consts: int, carries: int) -> tuple[Flags, Flags]:
    return once(body, ("reached", flags, consts, carries), lambda: closed(flags, consts, carries, lambda f: reach(body, f)))


# -- reverse ----------------------------------------------------------------------------------------------------


class _Reverse(NamedTuple):
    """What the backward scan of one scan is made of."""

    body: Graph
    consts: int
    carries: int
    flags: Flags  # the inputs of the body with a cotangent
    outputs: Flags
    halves: Halves

    def needed(self) -> list[list[int]]:
        """The inputs that the backward half reads: consts, carries, rows."""
        kinds = parts(range(len(self.body.input_types)), self.consts, self.carries)
        return [[i for i in kind if i in self.halves.needed] for kind in kinds]


def _vjp(xs: Sequence[Value], wanted: Flags, params: Params) -> tuple[Sequence[Value], Any, Any]:
    body, carries, consts = params["body"], params["carries"], params["consts"]
    flags, outputs = _reached(body, wanted, consts, carries)
    halves = vjp(body, flags, outputs, recompute=consts, live=True)
    work = _Reverse(body, consts, carries, flags, outputs, halves)
    fixed, states, rows = work.needed()
    stacking = once(halves.forward, ("stacking", *states), lambda: _stacking(halves.forward, states))
    results = scan(*xs, **dict(params, body=stacking))
    count = len(body.outputs)
    residuals = ([xs[i] for i in fixed], [*(xs[i] for i in rows), *results[count:]])

    def pull(gs: Sequence[Value | None], kept: tuple[list[Value], list[Value]], live: bool) -> tuple[list[Value], bool]:
        have = tuple(g is not None for g in gs[carries:])
        active = places(outputs[:carries])
        live = live and _stays_live(work, gs, have)
        back = once(halves.backward, ("scan vjp", have, live), lambda: _backward_body(work, have, live))
        types = body.output_types
        start = [zeros_of(types[i]) if gs[i] is None else gs[i] for i in active]
        totals = [zeros_of(body.input_types[i]) for i in places(flags[:consts])]
        given = [g for g, flag in zip(gs[carries:], outputs[carries:], strict=True) if flag and g is not None]
        constants, stacks = kept
        options = {"consts": len(constants), "carries": len(start) + len(totals), "reverse": not params["reverse"]}
        found = scan(*constants, *start, *totals, *stacks, *given, **dict(params, body=back, **options))
        states_back, totals_back, rows_back = parts(found, len(start), len(totals))
        everything = spread([*totals_back, *states_back, *rows_back], flags)
        return chosen(everything, wanted), live

    return results[:count], residuals, Pull(pull)


def _stays_live(work: _Reverse, gs: Sequence[Value | None], have: Flags) -> bool:
    """Whether the cotangents of all iterations are live if those given are: each result has one, and the body has no mask."""
    if any(flag and gs[i] is None for i, flag in enumerate(work.outputs[: work.carries])):
        return False
    return narrowed(work.body, work.halves, work.flags, _asked(work, have), work.consts, live=True).live


def _asked(work: _Reverse, have: Flags) -> Flags:
    """The outputs of the body with a cotangent, if these of the stacked results have one."""
    return (*work.outputs[: work.carries], *(a and b for a, b in zip(work.outputs[work.carries :], have, strict=True)))


def _stacking(forward: Graph, states: Sequence[int]) -> Graph:
    """The forward half, which also stacks the carries that the backward half reads."""
    return replace(forward, outputs=(*forward.outputs, *states))


def _backward_body(work: _Reverse, have: Flags, live: bool) -> Graph:
    """The body of the backward scan: it carries cotangents of carries and totals of those of consts, and stacks those of rows.

    `have` tells which stacked results have a cotangent; that of the others is zero.
    """
    body, halves = work.body, work.halves
    fixed, states, rows = work.needed()
    residuals = [(f"r{i}", t) for i, t in enumerate(halves.residual_types())]
    back_half = narrowed(body, halves, work.flags, _asked(work, have), work.consts, live)
    carried, stacked = places(work.outputs[: work.carries]), places(work.outputs[work.carries :], work.carries)
    given = [i for i in stacked if have[i - work.carries]]
    shared = places(work.flags[: work.consts])

    def seeds(numbers: Sequence[int]) -> list[tuple[str, Type]]:
        return [(f"g{i}", body.output_types[i]) for i in numbers]

    inputs = [
        *named(body, fixed),
        *[(f"{body.input_names[work.consts + i]}_bar", body.output_types[i]) for i in carried],
        *[(f"{body.input_names[i]}_bar", body.input_types[i]) for i in shared],
        *named(body, rows),
        *residuals,
        *named(body, states),
        *seeds(given),
    ]

    def back(values: list[Value]) -> list[Value]:
        sizes = [len(part) for part in (fixed, carried, shared, rows, residuals, states)]
        constants, gs, totals, slices, own, kept, late = parts(values, *sizes)
        reads = dict(zip([*fixed, *states, *rows], [*constants, *kept, *slices], strict=True))
        saved = dict(zip(halves.residuals, own, strict=True))
        found = dict(zip([*carried, *given], [*gs, *late], strict=True))
        cotangents = [found[i] if i in found else zeros_of(body.output_types[i]) for i in places(back_half.given)]
        pulled = back_half.backward.run_flat(
            [*(reads[i] for i in back_half.needed), *(saved[i] for i in back_half.residuals), *cotangents]
        )
        by_const, by_state, by_row = parts(pulled, len(shared), sum(work.flags[work.consts : work.consts + work.carries]))
        return [*by_state, *(a + b for a, b in zip(totals, by_const, strict=True)), *by_row]

    return build(f"back_{body.name}", inputs, back)


# -- batched ----------------------------------------------------------------------------------------------------


def _batch(flags: Flags, *args: Value, **params: Any) -> tuple[Value, ...]:
    body, carries, consts = params["body"], params["carries"], params["consts"]
    size = batch_size(flags, args)
    inside, outputs = closed(flags, consts, carries, lambda f: depends(body, f))
    batched = vmap(body, size, inside, outputs)
    operands = []
    for i, (x, had, has) in enumerate(zip(args, flags, inside, strict=True)):
        if i >= consts + carries:
            operands.append(moveaxis(x, 0, 1) if had else x)
        else:
            operands.append(repeated(x, size) if has and not had else x)
    results = scan(*operands, **dict(params, body=batched))
    return tuple(
        repeated(y, size) if not flag else moveaxis(y, 1, 0) if i >= carries else y
        for i, (y, flag) in enumerate(zip(results, outputs, strict=True))
    )


_DECAY = parse("""graph decay(w: float64[], c: float64[2], x: float64[]) {
  v3: float64[2] = mul c, w
  v4: float64[2] = sin v3
  v5: float64[2] = add v4, x
  v6: float64[] = sum v5 {axis=(0,), keepdims=False}
  return v5, v6
}""")

scan.jvp, scan.vjp, scan.batch = _jvp, _vjp, _batch
scan.cases = (
    case((), (2,), (3,), body=_DECAY, length=3, reverse=False, carries=1, consts=1),
    case((), (2,), (3,), body=_DECAY, length=3, reverse=True, carries=1, consts=1),
    case((), (2,), (0,), body=_DECAY, length=0, reverse=False, carries=1, consts=1),
)
