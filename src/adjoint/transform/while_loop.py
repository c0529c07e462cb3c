"""The rules of `while`, and of `while_vjp`, its backward pass.

Forward mode carries tangents beside the carries. Reverse mode counts the iterations, and `while_vjp` runs as many backward: it
computes J(x)ᵀ g of the loop x ↦ f(x), where J is the Jacobian of all iterations together. Its own derivatives are a `while` and a
`while_vjp` on dual numbers. With

    F(x, t) = (f(x), J(x) t)     the loop on dual numbers, whose pullback of (a, b) by x is   J(x)ᵀ a + ∂ₓ⟨b, J(x) t⟩

    forward   d(J(x)ᵀ g) in the direction (t, h)       is the pullback of (h, g) through F at (x, t): a while_vjp
    reverse   ⟨u, J(x)ᵀ g⟩ by g is J(x) u: a loop on dual numbers; by x, the pullback of (0, g) through F at (x, u): a while_vjp
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.op import Case, LateCases, Pull, case
from ..core.types import Type, Value, shape_of
from ..eager.dual import both
from ..ir.graph import Graph
from ..ops.broadcast import reshape, where, zeros_of
from ..ops.control import Checkpoint, while_, while_vjp
from ..ops.elementwise import less, logical_or
from ..ops.reduce import any_, max_
from .build import Flags, build, chosen, closed, depends, halved, named, once, parsed, parts, places, reach, spread
from .jvp import dual_body, live_dual_body, with_masks
from .vjp import all_live, full, known_masks, mask_type, pullback, pullback_of
from .vmap import batch_size, repeated, run, vmap, with_axis

Params = dict[str, Any]
COUNT = Type((), np.dtype(np.int64))


# -- loops on dual numbers --------------------------------------------------------------------------------------


class _Dual:
    """A loop on dual numbers: its body takes consts, their tangents, carries, their tangents; masks behind these, if `masked`.

    It is not if every tangent is live and stays so. Without `masks` at all, the zeros of tangents count as those of a mask.
    """

    def __init__(self, body: Graph, consts: int, ts: Sequence[Value | None], masks: Sequence[Any] | None) -> None:
        self.consts, self.count = consts, len(body.input_types) - consts
        self.flags, self.active = closed([t is not None for t in ts], consts, self.count, lambda f: reach(body, f))
        self.ts, self.masks = ts, masks or ()
        parameters = body, self.flags, self.active, consts, self.count
        self.body, is_live = live_dual_body(*parameters)
        self.masked = masks is not None and not (is_live and all_live(chosen(ts, self.flags), chosen(masks, self.flags)))
        if self.masked or masks is None:
            self.body = dual_body(*parameters, self.masked)

    @property
    def all_consts(self) -> int:
        return self.consts + (2 if self.masked else 1) * sum(self.flags[: self.consts])

    def joined(self, xs: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Consts and carries of this loop from those of the plain one."""
        types = list(map(Type.of, xs))
        rows = [list(xs), [zeros_of(t) if d is None else d for t, d in zip(types, self.ts, strict=True)]]
        if self.masked:
            known = known_masks(self.ts, self.masks)
            rows.append([full(d is not None and mask, t) for t, d, mask in zip(types, self.ts, known, strict=True)])
        every = [True] * len(xs)
        joined = []
        for part in (slice(self.consts), slice(self.consts, None)):
            joined.append([x for n, row in enumerate(rows) for x in chosen(row[part], (self.flags if n else every)[part])])
        return joined[0], joined[1]

    def results(self, ends: Sequence[Value]) -> tuple[list[Value], list[Value | None], list[Any]]:
        """The carries of the plain loop, their tangents, and the masks of these."""
        ys, tangents, live = parts(ends, self.count, sum(self.active))
        return ys, spread(tangents, self.active), spread(live if self.masked else [True] * len(tangents), self.active)


# -- while ------------------------------------------------------------------------------------------------------


def _with_extra(cond: Graph, extra: Sequence[tuple[str, Type]]) -> Graph:
    """A condition that takes further carries, which it does not read."""
    count = len(cond.input_types)
    inputs = [*named(cond, range(count)), *extra]
    return build(cond.name, inputs, lambda values: cond.run_flat(values[:count]))


def _while_jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params, masks: Sequence[Any] | None = None) -> Any:
    cond, body, asked = params["cond"], params["body"], params["cond_consts"]
    dual = _Dual(body, params["body_consts"], ts[asked:], None if masks is None else masks[asked:])
    extra = with_masks(named(body, places(dual.active, dual.consts), "d_"), dual.masked)
    test = once(cond, ("extra", tuple(extra)), lambda: _with_extra(cond, extra))
    consts, carries = dual.joined(xs[asked:])
    more = dict(params, cond=test, body=dual.body, body_consts=dual.all_consts)
    results = while_(*xs[:asked], *consts, *carries, **more)
    ys, tangents, live = dual.results(results)
    return (ys, tangents) if masks is None else (ys, tangents, live)


def _counted(body: Graph) -> Graph:
    """A body that also counts its iterations."""

    def iteration(values: list[Value]) -> list[Value]:
        return [*body.run_flat(values[:-1]), values[-1] + np.int64(1)]

    return build(body.name, [*named(body, range(len(body.input_types))), ("iterations", COUNT)], iteration)


def _while_reverse(xs: Sequence[Value], wanted: Flags, params: Params) -> tuple[Sequence[Value], Any, Any]:
    cond, body, asked, fixed = (params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    test = once(cond, "counted", lambda: _with_extra(cond, [("iterations", COUNT)]))
    counted = once(body, "counted", lambda: _counted(body))
    *results, count = while_(*xs, np.int64(0), **dict(params, cond=test, body=counted))

    def pull(gs: Sequence[Value | None], residuals: tuple[Value, Sequence[Value]], masks: Any) -> tuple[list[Value], Any]:
        iterations, values = residuals
        pulled, found = _pulled_back(body, fixed, iterations, values, wanted[asked:], gs, params["checkpoint"], masks)
        none = chosen(cond.input_types[:asked], wanted[:asked])  # a condition has no derivative
        return [*map(zeros_of, none), *pulled], None if found is None else [*([False] * len(none)), *found]

    return results, (count, list(xs[asked:])), Pull(pull)


def _pulled_back(
    body: Graph,
    consts: int,
    count: Value,
    xs: Sequence[Value],
    wanted: Sequence[bool],
    gs: Sequence[Value | None],
    checkpoint: Checkpoint,
    masks: Sequence[Any] | None,
) -> tuple[list[Value], list[Any] | None]:
    """The cotangents of the wanted consts and carries of a loop of `count` iterations, and their masks, as `Pull` has them."""
    carries = len(body.input_types) - consts
    flags, active = closed(tuple(wanted), consts, carries, lambda f: reach(body, f))
    arriving = places(active)
    back, stays_live = pullback_of(body, flags, active)
    start = [zeros_of(body.output_types[i]) if gs[i] is None else gs[i] for i in arriving]
    params = {"consts": consts, "checkpoint": checkpoint}
    if masks is None or (stays_live and all_live([gs[i] for i in arriving], [masks[i] for i in arriving])):
        results = while_vjp(count, *xs, *start, step=body, pull=back, wanted=flags, **params)
        found = chosen(spread(results, flags), wanted)
        return found, None if masks is None else [True] * len(found)
    known = known_masks(gs, masks)
    live = [full(False if gs[i] is None else known[i], body.output_types[i]) for i in arriving]
    totals = [zeros_of(mask_type(body.input_types[i])) for i in places(flags[:consts])]
    step, pull = once(body, ("masked vjp", consts, flags, active), lambda: _with_masks(body, consts, flags, active))
    nothing = [zeros_of(Type.of(mask)) for mask in (*live, *totals)]
    more = (*flags, *(True,) * len(nothing))
    results = while_vjp(count, *xs, *nothing, *start, *live, *totals, step=step, pull=pull, wanted=more, **params)
    cotangents, state_masks, const_masks = parts(results, sum(flags), len(live))
    return chosen(spread(cotangents, flags), wanted), chosen(spread([*const_masks, *state_masks], flags), wanted)


def _with_masks(body: Graph, consts: int, flags: Flags, active: Flags) -> tuple[Graph, Graph]:
    """The step and the pull of a `while_vjp` that has masks: of the carries, and of the totals of consts.

    A mask is carried as a cotangent is. It has no carry in the forward step, which passes it on unchanged.
    """
    count, shared = len(body.input_types), places(flags[:consts])
    back, _ = pullback_of(body, flags, active, masked=True)
    states = [(f"live{i}", mask_type(body.output_types[i])) for i in places(active)]
    totals = [(f"live_total{i}", mask_type(body.input_types[i])) for i in shared]
    inputs = [*named(body, range(count)), *((f"no_{name}", t) for name, t in (*states, *totals))]

    def forward(values: list[Value]) -> list[Value]:
        return [*body.run_flat(values[:count]), *values[count:]]

    def backward(values: list[Value]) -> list[Value]:
        xs, _, gs, live, before = parts(values, count, len(states) + len(totals), len(states), len(states))
        cotangents, masks = halved(back.run_flat([*xs, *gs, *live]), True)
        by_const, by_state = parts(masks, len(shared))
        return [*cotangents, *by_state, *(logical_or(a, b) for a, b in zip(before, by_const, strict=True))]

    seeds = [(f"g{i}", body.output_types[i]) for i in places(active)]
    step = build(body.name, inputs, forward)
    return step, build(f"back_{body.name}", [*inputs, *seeds, *states, *totals], backward)


def _while_batch(flags: Flags, *args: Value, **params: Any) -> tuple[Value, ...]:
    cond, body, asked, fixed = (params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    size = batch_size(flags, args)
    inside, carries = closed(flags[asked:], fixed, len(args) - asked - fixed, lambda f: depends(body, f))
    by_cond = (*flags[:asked], *carries)
    if any(depends(cond, by_cond)):  # runs until all examples are done; examples that are done keep their carries
        return _masked(flags, args, size, params)
    test, batched = vmap(cond, size, by_cond), vmap(body, size, inside, carries)
    operands = [*args[:asked], *_repeated(args[asked:], flags[asked:], inside, size)]
    results = while_(*operands, **dict(params, cond=test, body=batched))
    return tuple(y if flag else repeated(y, size) for y, flag in zip(results, carries, strict=True))


def _repeated(args: Sequence[Value], had: Sequence[bool], has: Sequence[bool], size: int) -> list[Value]:
    return [repeated(x, size) if b and not a else x for x, a, b in zip(args, had, has, strict=True)]


def _masked(flags: Flags, args: Sequence[Value], size: int, params: Params) -> tuple[Value, ...]:
    """A loop whose examples end after different numbers of iterations. Its first carry is the mask of those that still run."""
    cond, body, asked, fixed = (params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    consts, count = asked + fixed, len(args) - asked - fixed
    full = (*flags[:consts], *(True,) * count)
    state = _repeated(args[consts:], flags[consts:], full[consts:], size)
    mask = with_axis(Type((), np.dtype(bool)), size)

    def holds(values: Sequence[Value]) -> Value:
        ys, (batched,) = run(cond, size, values, (*flags[:asked], *(True,) * count))
        return ys[0] if batched else repeated(ys[0], size)

    def make() -> tuple[Graph, Graph]:
        kinds = [
            (name, with_axis(t, size) if flag else t)
            for (name, t), flag in zip([*named(cond, range(asked)), *named(body, range(fixed + count))], full, strict=True)
        ]

        def iteration(values: list[Value]) -> list[Value]:
            by_cond, by_body, (running,), now = parts(values, asked, fixed, 1)
            ys, batched = run(body, size, [*by_body, *now], full[asked:])
            after = [y if flag else repeated(y, size) for y, flag in zip(ys, batched, strict=True)]
            kept = [select(running, a, b) for a, b in zip(after, now, strict=True)]
            return [holds([*by_cond, *kept]), *kept]

        inputs = [*kinds[:consts], ("running", mask), *kinds[consts:]]
        some = build("any", [("running", mask), *kinds[consts:]], lambda values: [any_(values[0], axis=(0,), keepdims=False)])
        return some, build(f"masked_{body.name}", inputs, iteration)

    some, masked = once(body, ("masked", cond, size, flags), make)
    start = holds([*args[:asked], *state])
    more = dict(params, cond=some, body=masked, cond_consts=0, body_consts=consts)
    return tuple(while_(*args[:consts], start, *state, **more)[1:])


def select(mask: Value, a: Value, b: Value) -> Value:
    """a for the examples in the mask, b for the others."""
    ndim = len(shape_of(a))
    return where(reshape(mask, shape=(*shape_of(mask), *(1,) * (ndim - 1))) if ndim > 1 else mask, a, b)


# -- while_vjp --------------------------------------------------------------------------------------------------


def _split(xs: Sequence[Any], params: Params) -> tuple[Any, list[Any], list[Any]]:
    """Count, consts and carries, cotangents of those carries that have one."""
    (count,), values, gs = parts(xs, 1, len(params["wanted"]))
    return count, values, gs


def _without_masks(params: Params) -> tuple[Params, int]:
    """The parameters of a `while_vjp` without the masks that it carries, and how many of these there are."""
    step, wanted = params["step"], params["wanted"]
    masks = [t for t, flag in zip(step.input_types, wanted, strict=True) if flag and t.dtype.kind == "b"]
    if not masks:
        return params, 0
    count = len(wanted) - len(masks)
    inputs, nothing = named(step, range(count)), list(map(zeros_of, masks))
    make = lambda: build(step.name, inputs, lambda values: step.run_flat([*values, *nothing])[: -len(masks)])
    return dict(params, step=once(step, ("without masks", count), make), wanted=wanted[:count]), len(masks)


def _split_masks(xs: Sequence[Any], params: Params, masks: int) -> tuple[Any, list[Any], list[Any]]:
    count, values, gs = _split(xs, params)
    return count, values[: len(values) - masks], gs[: len(gs) - masks]


def _while_vjp_jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params, masks: Sequence[Any] | None = None) -> Any:
    plain, count_masks = _without_masks(params)
    results = while_vjp(*xs, **params)
    (count, values, gs), (_, tangents, hs) = (_split_masks(each, params, count_masks) for each in (xs, ts))
    live = _state_masks(xs, plain, count_masks)
    of_values, live_hs = None, list(live)
    if masks is not None:
        _, of_values, of_hs = _split_masks(masks, params, count_masks)
        live_hs = [h is not None and both(a, b) for h, a, b in zip(hs, live, known_masks(hs, of_hs), strict=True)]
    wanted = plain["wanted"]
    if all(t is None for t in tangents):  # linear in the cotangents
        state = wanted[plain["consts"] :]
        operands = count, values, wanted, spread(hs, state), params["checkpoint"], spread(live_hs, state)
        found, known = _pulled_back(plain["step"], plain["consts"], *operands)
    else:
        dual = _Dual(plain["step"], plain["consts"], tangents, of_values)
        found, known = _dual_pulled_back(dual, count, values, wanted, (hs, live_hs), (gs, live), plain)
    pushed = [*found, *[None] * count_masks]
    return (results, pushed) if masks is None else (results, pushed, [*(known or ()), *[False] * count_masks])


def _state_masks(xs: Sequence[Value], plain: Params, masks: int) -> Sequence[Any]:
    """The masks of the cotangents of a `while_vjp`; if it has none, all are live."""
    active = sum(plain["wanted"][plain["consts"] :])
    return xs[len(xs) - masks :][:active] if masks else [True] * active


Marked = tuple[Sequence[Value | None], Sequence[Any]]  # cotangents, and their masks


def _dual_pulled_back(
    dual: _Dual,
    count: Value,
    values: Sequence[Value],
    wanted: Sequence[bool],
    by_values: Marked,
    by_tangents: Marked,
    params: Params,
) -> tuple[list[Value], list[Any] | None]:
    """The pullback through the loop on dual numbers by its values, from cotangents of its values and of its tangents."""
    consts, carries = dual.joined(values)
    state = params["wanted"][dual.consts :]
    flags: list[bool] = []
    for part in (slice(dual.consts), slice(dual.consts, None)):
        flags += [*wanted[part], *[False] * ((2 if dual.masked else 1) * sum(dual.flags[part]))]
    cotangents, known = (
        [*spread(a, state), *chosen(spread(b, state), dual.active), *[None] * (sum(dual.active) if dual.masked else 0)]
        for a, b in zip(by_values, by_tangents, strict=True)
    )
    operands = [*consts, *carries]
    return _pulled_back(dual.body, dual.all_consts, count, operands, flags, cotangents, params["checkpoint"], known)


def _while_vjp_reverse(xs: Sequence[Value], wanted: Flags, params: Params) -> tuple[Sequence[Value], Any, Any]:
    plain, masks = _without_masks(params)
    step, consts, active = plain["step"], plain["consts"], plain["wanted"][plain["consts"] :]
    _, by_value, by_cotangent = _split_masks(wanted, params, masks)
    results = while_vjp(*xs, **params)

    def pull(us: Sequence[Value | None], residuals: Sequence[Value], of_us: Any) -> tuple[list[Value], Any]:
        count, values, gs = _split_masks(residuals, params, masks)
        given = len(us) - masks
        known = [u is not None for u in us] if of_us is None else known_masks(us, of_us)
        dual = _Dual(step, consts, spread(us[:given], plain["wanted"]), spread(known[:given], plain["wanted"]))
        found: list[Value] = []
        marks: list[Any] = []
        if any(by_value):
            nothing: Marked = [None] * len(gs), [False] * len(gs)
            of_gs = gs, _state_masks(residuals, plain, masks)
            pulled, live = _dual_pulled_back(dual, count, values, by_value, nothing, of_gs, plain)
            found, marks = [*found, *pulled], [*marks, *(live or ())]
        if any(by_cotangent):
            _, pushed, live = dual.results(_repeat(dual.body, dual.all_consts, count, *dual.joined(values)))
            filled = [zeros_of(t) if p is None else p for p, t in zip(pushed, step.output_types, strict=True)]
            of_filled = [p is not None and mask for p, mask in zip(pushed, live, strict=True)]
            found, marks = (
                [*each, *chosen(chosen(more, active), by_cotangent)] for each, more in ((found, filled), (marks, of_filled))
            )
        return found, None if of_us is None else marks

    return results, list(xs), Pull(pull)


def _repeat(body: Graph, consts: int, count: Value, fixed: Sequence[Value], carries: Sequence[Value]) -> Sequence[Value]:
    """The carries after `count` iterations."""
    counted = once(body, "counted", lambda: _counted(body))
    state = named(body, range(consts, len(body.input_types)))

    def make() -> Graph:
        inputs = [("limit", COUNT), *state, ("iterations", COUNT)]
        return build("below_limit", inputs, lambda values: [less(values[-1], values[0])])

    below = once(body, ("below limit", consts), make)
    options = {"cond_consts": 1, "body_consts": consts, "checkpoint": None}
    return while_(count, *fixed, *carries, np.int64(0), cond=below, body=counted, **options)[:-1]


def _while_vjp_batch(flags: Flags, *args: Value, **params: Any) -> tuple[Value, ...]:
    """Each example has cotangents of its own, also where the examples share a const."""
    plain, masks = _without_masks(params)
    step, wanted, consts = plain["step"], plain["wanted"], plain["consts"]
    size = batch_size(flags, args)
    count, values, gs = _split_masks(args, params, masks)
    differs, had, had_gs = _split_masks(flags, params, masks)
    live = _repeated(args[len(args) - masks :], flags[len(args) - masks :], [True] * masks, size)
    state_masks, total_masks = parts(live, sum(wanted[consts:]) if masks else 0)
    known = spread(state_masks, wanted[consts:]) if masks else None
    has = [*(a or b for a, b in zip(had[:consts], wanted[:consts], strict=True)), *(True,) * (len(wanted) - consts)]
    values, outputs = _repeated(values, had, has, size), [True] * (len(wanted) - consts)
    gs = spread(_repeated(gs, had_gs, [True] * len(gs), size), wanted[consts:])
    if differs:  # as many iterations as the longest example takes; the others keep their carries from their last one on
        step = once(step, ("limited", consts), lambda: _limited(step, consts))
        values = [count, *values[:consts], np.int64(0), *values[consts:]]
        wanted = (False, *wanted[:consts], False, *wanted[consts:])
        has = [True, *has[:consts], False, *has[consts:]]
        count = max_(count, axis=(0,), keepdims=False) if size else np.int64(0)
        consts, gs, outputs, known = consts + 1, [None, *gs], [False, *outputs], known and [None, *known]
    batched = vmap(step, size, tuple(has), tuple(outputs))
    pulled, found = _pulled_back(batched, consts, count, values, wanted, gs, params["checkpoint"], known)
    if known is None or found is None:
        return tuple(pulled)
    masks_found = [full(m, Type.of(g)) for m, g in zip(known_masks(pulled, found), pulled, strict=True)]
    by_const, by_state = parts(masks_found, len(total_masks))
    return (*pulled, *by_state, *(logical_or(a, b) for a, b in zip(total_masks, by_const, strict=True)))


def _limited(step: Graph, consts: int) -> Graph:
    """A step that keeps its carries after `limit` iterations."""
    inputs = named(step, range(len(step.input_types)))

    def iteration(values: list[Value]) -> list[Value]:
        (limit,), fixed, (count,), state = parts(values, 1, consts, 1)
        after = step.run_flat([*fixed, *state])
        running = less(count, limit)
        return [count + np.int64(1), *(where(running, a, b) for a, b in zip(after, state, strict=True))]

    counted = [("limit", COUNT), *inputs[:consts], ("iterations", COUNT), *inputs[consts:]]
    return build(f"limited_{step.name}", counted, iteration)


while_.jvp, while_.vjp, while_.batch = _while_jvp, _while_reverse, _while_batch
while_.masks_tangents = while_vjp.masks_tangents = True
while_vjp.jvp, while_vjp.vjp, while_vjp.batch = _while_vjp_jvp, _while_vjp_reverse, _while_vjp_batch


def _step() -> Graph:
    return parsed("""graph step(w: float64[], a: float64[], k: float64[2]) {
      v3: float64[2] = sin k
      v4: float64[2] = mul v3, w
      v5: float64[] = add a, 1.0
      return v5, v4
    }""")


def _while_cases() -> Iterator[Case]:
    below = parsed("""graph below(limit: float64[], a: float64[], k: float64[2]) {
      v3: bool[] = less a, limit
      return v3
    }""")
    body = _step()
    for limit, checkpoint in ((4.5, None), (4.5, "sqrt"), (-9.0, None)):
        yield case(np.array(limit), (), (), (2,), cond=below, body=body, cond_consts=1, body_consts=1, checkpoint=checkpoint)


while_.cases = LateCases(_while_cases)


def _while_vjp_cases() -> Iterator[Case]:
    step, wanted = _step(), (True, True, True)
    pull = pullback(step, wanted, (True, True))
    for count, checkpoint in ((5, None), (5, 2), (0, None)):
        params = {"step": step, "pull": pull, "consts": 1, "wanted": wanted, "checkpoint": checkpoint}
        yield case(np.int64(count), (), (), (2,), (), (2,), **params)


while_vjp.cases = LateCases(_while_vjp_cases)
