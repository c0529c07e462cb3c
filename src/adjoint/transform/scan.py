"""The rules of `scan`, from those of its body.

forward   a scan of the jvp of the body: carries and tangents side by side
reverse   a scan that also stacks the residuals of each iteration, then a scan of the backward half in the other direction,
          which carries the cotangents of the carries, and the sums of those of the consts
batched   a scan of the batched body; a carry that differs between examples in one iteration does so in all
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..core.op import Case, LateCases, Pull, case
from ..core.types import Type, Value
from ..ir.graph import Graph
from ..ops.broadcast import moveaxis, zeros_of
from ..ops.control import scan
from ..ops.elementwise import logical_or
from .build import Flags, Named, build, chosen, closed, depends, halved, named, once, parsed, parts, places, reach, spread
from .jvp import dual_body
from .vjp import Halves, all_live, full, known_masks, mask_type, narrowed, vjp_for_both
from .vmap import batch_size, repeated, vmap

Params = dict[str, Any]


def _jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params, masks: Sequence[Any] | None = None) -> Any:
    body, carries, consts = params["body"], params["carries"], params["consts"]
    masked = masks is not None
    flags, outputs = _reached(body, tuple(t is not None for t in ts), consts, carries)
    dual = dual_body(body, flags, outputs, consts, carries, masked)
    types = list(map(Type.of, xs))
    tangents = [None if not flag else zeros_of(t) if d is None else d for d, t, flag in zip(ts, types, flags, strict=True)]
    live = [full(mask, t) for mask, t, flag in zip(masks, types, flags, strict=True)] if masks is not None else []
    operands = []
    marked = spread(chosen(live, flags), flags) if masked else [None] * len(xs)
    for values, *behind in zip(*(parts(row, consts, carries) for row in (xs, tangents, marked)), strict=True):
        operands += [*values, *(x for row in behind for x in row if x is not None)]
    each = 2 if masked else 1
    count = sum(outputs[:carries])
    more = dict(params, body=dual, carries=carries + each * count, consts=consts + each * sum(flags[:consts]))
    results = scan(*operands, **more)
    rows = len(outputs) - carries
    c, dc, mc, y, dy, my = parts(results, carries, count, count if masked else 0, rows, sum(outputs[carries:]))
    found = [*c, *y], [*spread(dc, outputs[:carries]), *spread(dy, outputs[carries:])]
    return (*found, [*spread(mc, outputs[:carries]), *spread(my, outputs[carries:])]) if masked else found


def _reached(body: Graph, flags: Flags, consts: int, carries: int) -> tuple[Flags, Flags]:
    return once(body, ("reached", flags, consts, carries), lambda: closed(flags, consts, carries, lambda f: reach(body, f)))


# -- reverse ----------------------------------------------------------------------------------------------------


class _Reverse(NamedTuple):
    """The parts from which the backward scan of a scan is made."""

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
    halves = vjp_for_both(body, flags, outputs, recompute=consts)
    work = _Reverse(body, consts, carries, flags, outputs, halves)
    fixed, states, rows = work.needed()
    stacking = once(halves.forward, ("stacking", *states), lambda: _stacking(halves.forward, states))
    results = scan(*xs, **dict(params, body=stacking))
    count = len(body.outputs)
    residuals = ([xs[i] for i in fixed], [*(xs[i] for i in rows), *results[count:]])

    def pull(gs: Sequence[Value | None], kept: tuple[list[Value], list[Value]], masks: Any) -> tuple[list[Value], Any]:
        masked = _needs_masks(work, gs, masks)
        cotangents, live = _pulled(work, gs, kept, masks, masked, params)
        found = chosen(spread(cotangents, flags), wanted)
        if masks is None:
            return found, None
        return found, chosen(spread(live, flags) if masked else [True] * len(flags), wanted)

    return results[:count], residuals, Pull(pull)


def _needs_masks(work: _Reverse, gs: Sequence[Value | None], masks: Any) -> bool:
    """Whether a strong zero may arrive and the body must keep it apart from ordinary ones."""
    if masks is None:
        return False
    arriving = [i for i, flag in enumerate(work.outputs) if flag and (i < work.carries or gs[i] is not None)]
    asked = _asked(work, tuple(g is not None for g in gs[work.carries :]))
    are_live = all_live([gs[i] for i in arriving], [masks[i] for i in arriving])
    return not (are_live and narrowed(work.body, work.halves, work.flags, asked, work.consts).live)


def _pulled(
    work: _Reverse,
    gs: Sequence[Value | None],
    kept: tuple[list[Value], list[Value]],
    masks: Any,
    masked: bool,
    params: Params,
) -> tuple[list[Value], list[Value]]:
    """The backward scan: the cotangents of the inputs of the body that have one, and their masks if `masked`."""
    body, carries = work.body, work.carries
    have = tuple(g is not None for g in gs[carries:])
    back = once(work.halves.backward, ("scan vjp", have, masked), lambda: _backward_body(work, have, masked))
    active, shared = places(work.outputs[:carries]), places(work.flags[: work.consts])
    stacked = [i for i in places(work.outputs[carries:], carries) if gs[i] is not None]
    start = [zeros_of(body.output_types[i]) if gs[i] is None else gs[i] for i in active]
    totals = [zeros_of(body.input_types[i]) for i in shared]
    given = [gs[i] for i in stacked]
    if masked:
        known = known_masks(gs, masks)
        start += [full(False if gs[i] is None else known[i], body.output_types[i]) for i in active]
        totals += [zeros_of(mask_type(body.input_types[i])) for i in shared]
        given += [full(known[i], Type.of(gs[i])) for i in stacked]
    constants, stacks = kept
    options = {"consts": len(constants), "carries": len(start) + len(totals), "reverse": not params["reverse"]}
    found = scan(*constants, *start, *totals, *stacks, *given, **dict(params, body=back, **options))
    of_states, of_consts, of_rows = (halved(each, masked) for each in parts(found, len(start), len(totals)))
    in_order = of_consts, of_states, of_rows  # as the inputs of the body
    return [x for values, _ in in_order for x in values], [x for _, live in in_order for x in live]


def _asked(work: _Reverse, have: Flags) -> Flags:
    """The outputs of the body that have a cotangent, given which of the stacked results have one."""
    return (*work.outputs[: work.carries], *(a and b for a, b in zip(work.outputs[work.carries :], have, strict=True)))


def _stacking(forward: Graph, states: Sequence[int]) -> Graph:
    """The forward half, which also stacks the carries that the backward half reads."""
    return replace(forward, outputs=(*forward.outputs, *states))


def _backward_body(work: _Reverse, have: Flags, masked: bool) -> Graph:
    """The body of the backward scan: it carries cotangents of carries and totals of those of consts, and stacks those of rows.

    `have` says which stacked results have a cotangent; the others have a zero one. If `masked`, each of these has its mask
    behind it: carries, their masks, totals, their masks, and so on.
    """
    body, halves = work.body, work.halves
    fixed, states, rows = work.needed()
    residuals = [(f"r{i}", t) for i, t in enumerate(halves.residual_types())]
    back_half = narrowed(body, halves, work.flags, _asked(work, have), work.consts, masked)
    carried, stacked = places(work.outputs[: work.carries]), places(work.outputs[work.carries :], work.carries)
    given = [i for i in stacked if have[i - work.carries]]
    shared = places(work.flags[: work.consts])

    def with_masks(inputs: Named) -> Named:
        return [*inputs, *((f"live_{name}", mask_type(t)) for name, t in inputs if masked)]

    def seeds(numbers: Sequence[int]) -> Named:
        return with_masks([(f"g{i}", body.output_types[i]) for i in numbers])

    inputs = [
        *named(body, fixed),
        *with_masks([(f"{body.input_names[work.consts + i]}_bar", body.output_types[i]) for i in carried]),
        *with_masks([(f"{body.input_names[i]}_bar", body.input_types[i]) for i in shared]),
        *named(body, rows),
        *residuals,
        *named(body, states),
        *seeds(given),
    ]

    def back(values: list[Value]) -> list[Value]:
        twice = 2 if masked else 1
        sizes = [len(fixed), twice * len(carried), twice * len(shared), *(len(part) for part in (rows, residuals, states))]
        constants, state, sums, slices, own, kept, late = parts(values, *sizes)
        (gs, live), (totals, total_masks), (late, late_live) = (halved(part, masked) for part in (state, sums, late))
        reads = dict(zip([*fixed, *states, *rows], [*constants, *kept, *slices], strict=True))
        saved = dict(zip(halves.residuals, own, strict=True))
        found = dict(zip([*carried, *given], [*gs, *late], strict=True))
        masks = dict(zip([*carried, *given], [*live, *late_live], strict=True)) if masked else {}
        pulled, marks = back_half.pull(reads, saved, found, masks, body.output_types)
        if masked and marks is None:  # no residuals for them: all counts as live
            marks = [full(True, Type.of(g)) for g in pulled]
        count = sum(work.flags[work.consts : work.consts + work.carries])
        by_const, by_state, by_row = parts(pulled, len(shared), count)
        sums = [a + b for a, b in zip(totals, by_const, strict=True)]
        if not masked:
            return [*by_state, *sums, *by_row]
        const_marks, state_marks, row_marks = parts(marks or [], len(shared), count)
        any_marks = [logical_or(a, b) for a, b in zip(total_masks, const_marks, strict=True)]
        return [*by_state, *state_marks, *sums, *any_marks, *by_row, *row_marks]

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


scan.jvp, scan.vjp, scan.batch = _jvp, _vjp, _batch
scan.masks_tangents = True


def _cases() -> Iterator[Case]:
    decay = parsed("""graph decay(w: float64[], c: float64[2], x: float64[]) {
      v3: float64[2] = mul c, w
      v4: float64[2] = sin v3
      v5: float64[2] = add v4, x
      v6: float64[] = sum v5 {axis=(0,), keepdims=False}
      return v5, v6
    }""")
    for length, reverse in ((3, False), (3, True), (0, False)):
        yield case((), (2,), (length,), body=decay, length=length, reverse=reverse, carries=1, consts=1)


scan.cases = LateCases(_cases)
