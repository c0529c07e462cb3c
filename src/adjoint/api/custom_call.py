"""One call of a function with a custom derivative, under each trace.

A call looks for the innermost trace among its arguments and handles it by itself: on a tape it becomes one node, in forward mode
one rule, under vmap the function and its rule are batched and the call continues below, in a graph it is one equation. A rule
given for one mode serves the other: both are linear maps, and a tape transposes them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..core.bind import FRESH, Trace, Traced, unwrap_fresh
from ..core.errors import ArgumentError
from ..core.op import Opaque
from ..core.tree import flatten
from ..core.types import Type, Value, dtype_of, is_inexact, shape_of
from ..derive import ReversePlan
from ..eager.backward import backward
from ..eager.batch import Batch
from ..eager.dual import Dual
from ..eager.tape import Nested, Outputs, Tape
from ..ops.broadcast import fit, sum_, zeros_of
from ..staging.stage import Stage
from .arguments import NUMBERS
from .protection import on_own

Function = Callable[..., Any]


def transpose(linear: Function, types: Sequence[Type], cotangents: Sequence[Value | None]) -> list[Value]:
    """Pull cotangents back through a linear function from a list of values to a list of values (or Nones)."""
    with Tape("transpose") as tape:
        leaves = [tape.leaf(zeros_of(t)) for t in types]
        results = linear(leaves)
    seeds = []
    for y, g in zip(results, cotangents, strict=True):
        node = tape.node(y)
        if node is not None and g is not None:
            seeds.append((node, g))
    pulled = backward(seeds, [leaf.aux for leaf in leaves], simple=False)
    return [zeros_of(t) if g is None else g for g, t in zip(pulled, types, strict=True)]


class CustomCall:
    """One call of a custom function: the function and its rule on flat lists of leaves.

    f       leaves ↦ results
    push    (primals, tangents) ↦ (results, tangents of the results), or None
    forward leaves ↦ (results, residuals), and
    pull    (residuals, cotangents) ↦ cotangents of the leaves, or None
    follows whether `pull` also takes the origins of the cotangents (a dict by number), and gives those of its results (a list)
    may_write  whether these are the user's functions, which get arrays of their own
    """

    def __init__(
        self,
        name: str,
        f: Function,
        push: Function | None,
        forward: Function | None,
        pull: Function | None,
        follows: bool = False,
        may_write: bool = True,
    ) -> None:
        self.name, self.follows = name, follows
        self.plain = f  # a call without a transform is one of the function itself
        self.f = on_own(f, frozen=True) if may_write else f
        self.push, self.forward, self.pull = (
            on_own(rule) if may_write and rule is not None else rule for rule in (push, forward, pull)
        )

    def __call__(self, leaves: Sequence[Value]) -> list[Value]:
        leaves = [unwrap_fresh(x) for x in leaves]
        top = max((x.by for x in leaves if isinstance(x, Traced)), key=lambda trace: trace.level, default=FRESH)
        if top.ended:
            raise top.leaked()
        top = top.taken or top  # inside a branch that is being staged
        if isinstance(top, Tape):
            return self.on_tape(top, leaves)
        if isinstance(top, Dual):
            return self.on_dual(top, leaves)
        if isinstance(top, Batch):
            return self.on_batch(top, leaves)
        if isinstance(top, Stage):
            return self.on_stage(top, leaves)
        return self.plain(leaves)

    # reverse: one node

    def on_tape(self, tape: Tape, leaves: Sequence[Value]) -> list[Value]:
        nodes = {i: node for i, x in enumerate(leaves) if (node := tape.node(x)) is not None}
        values = [x.underlying if i in nodes else x for i, x in enumerate(leaves)]
        wanted = tuple(nodes)
        types = [Type.of(x) if isinstance(x, NUMBERS) else None for x in values]
        results, pull = self.vjp(values, types)
        self.check_closed(results, tape)
        out_types = [Type.of(y) for y in results]

        def fitted(cotangents: Sequence[Any], parents: Any) -> list[Any]:
            return [None if cotangents[i] is None else fit(cotangents[i], p) for i, p in zip(wanted, parents, strict=True)]

        def pull_wanted(gs: Any, saved: Any, parents: Any, params: dict[str, Any]) -> Any:
            return fitted(pull([zeros_of(t) if g is None else g for g, t in zip(gs, out_types, strict=True)]), parents)

        def follow(gs: Any, origins: Any, parents: Any) -> Any:
            cotangents, found = pull(gs, origins)
            return fitted(cotangents, parents), [found[i] for i in wanted]

        op = Opaque(self.name, self.plain, None, None, many=True)
        plan = ReversePlan(wanted, (), pull_wanted, pull_wanted)
        saved = (Nested(follow),) if self.follows else ()
        node = Outputs(op, list(nodes.values()), plan, saved, {}, (), None)  # type: ignore[arg-type]
        tape.complicate()
        return list(tape.outputs(results, node))

    def vjp(self, values: Sequence[Value], types: Sequence[Any]) -> tuple[list[Value], Function]:
        """The results, and the pullback of a list of cotangents."""
        if self.forward is not None and self.pull is not None:
            results, residuals = self.forward(values)
            rule = self.pull
            return results, functools.partial(rule, residuals)
        assert self.push is not None
        push = self.push
        floats = [i for i, t in enumerate(types) if t is not None and is_inexact(t.dtype)]

        def pulled(gs: Sequence[Value]) -> list[Value | None]:
            def tangents_to_results(ts: Sequence[Value]) -> Any:
                full = _zeros(types)
                for i, t in zip(floats, ts, strict=True):
                    full[i] = t
                return push(values, full)[1]

            result: list[Value | None] = [None] * len(values)
            for i, g in zip(floats, transpose(tangents_to_results, [types[i] for i in floats], gs), strict=True):
                result[i] = g
            return result

        return self.f(values), pulled

    # forward: one rule

    def on_dual(self, dual: Dual, leaves: Sequence[Value]) -> list[Value]:
        pairs = [dual.split(x) for x in leaves]
        primals = [p for p, _ in pairs]
        types = [Type.of(p) if isinstance(p, NUMBERS) else None for p in primals]
        if self.push is not None:
            zeros = _zeros(types)
            results, tangents = self.push(primals, [zeros[i] if t is None else t for i, (_, t) in enumerate(pairs)])
        else:
            assert self.forward is not None
            assert self.pull is not None
            rule = self.pull
            results, residuals = self.forward(primals)
            tangents = transpose(lambda gs: rule(residuals, gs), [Type.of(y) for y in results], [t for _, t in pairs])
        self.check_closed([*results, *tangents], dual)
        return [
            Traced(dual, y, t) if t is not None and is_inexact(dtype_of(y)) else y for y, t in zip(results, tangents, strict=True)
        ]

    # batched: the same call one level down, with everything batched

    def on_batch(self, batch: Batch, leaves: Sequence[Value]) -> list[Value]:
        flags = [isinstance(x, Traced) and x.by is batch for x in leaves]
        lowered = _Batched(self, batch.size, flags)
        results = lowered([x.underlying if flag else x for x, flag in zip(leaves, flags, strict=True)])
        self.check_closed(results, batch)
        return [Traced(batch, y, None) for y in results]

    # staged: one equation, which keeps the rule for later differentiation

    def on_stage(self, stage: Stage, leaves: Sequence[Value]) -> list[Value]:
        places = [i for i, x in enumerate(leaves) if isinstance(x, Traced)]
        staged = _Staged(self, stage, leaves, places)
        name = f"custom.{re.sub(r'[^A-Za-z0-9_]', '', self.name)}"  # a name that no op of the table has
        op = Opaque(name, lambda *xs: tuple(staged.body.run_flat(xs)), staged.jvp, staged.vjp, many=True, batch=staged.batched)
        return list(stage.process(op, tuple(leaves[i] for i in places), {}))

    def check_closed(self, results: Sequence[Any], trace: Trace) -> None:
        """An already traced result shows that the function closes over a traced value."""
        if any(isinstance(y, Traced) and y.by is trace for y in results):
            raise ArgumentError(
                f"{self.name} uses a value traced by {trace.name} that is not among its arguments, so its rule cannot see it; "
                "pass it as an argument"
            )


class _Batched(CustomCall):
    """A call on arrays with a batch axis in front where the flag is true: each function of it runs inside a batch of its own."""

    def __init__(self, call: CustomCall, size: int, flags: Sequence[bool]) -> None:
        self.call, self.size, self.flags = call, size, flags
        super().__init__(
            call.name,
            self._f,
            None if call.push is None else self._push,
            None if call.forward is None else self._forward,
            None if call.pull is None else self._pull,
            may_write=False,
        )

    def _f(self, xs: Sequence[Value]) -> list[Value]:
        with Batch(self.size) as inner:
            return _leave(inner, self.call.f(_enter(inner, xs, self.flags)))

    def _push(self, xs: Sequence[Value], ts: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        assert self.call.push is not None
        with Batch(self.size) as inner:
            ys, tangents = self.call.push(_enter(inner, xs, self.flags), _enter(inner, ts, self.flags))
            results = _leave(inner, ys)
            found = zip(results, _leave(inner, tangents), strict=True)
            return results, [zeros_of(Type.of(y)) if t is None else t for y, t in found]

    def _forward(self, xs: Sequence[Value]) -> tuple[list[Value], Any]:
        assert self.call.forward is not None
        with Batch(self.size) as inner:
            ys, residuals = self.call.forward(_enter(inner, xs, self.flags))
            parts, structure = flatten(residuals)
            flags = [isinstance(r, Traced) and r.by is inner for r in parts]
            kept = [r.underlying if flag else r for r, flag in zip(parts, flags, strict=True)]
            return _leave(inner, ys), (kept, flags, structure)

    def _pull(self, residuals: Any, gs: Sequence[Value]) -> list[Value | None]:
        assert self.call.pull is not None
        kept, flags, structure = residuals
        with Batch(self.size) as inner:
            restored = structure.unflatten(_enter(inner, kept, flags))
            cotangents = self.call.pull(restored, _enter(inner, gs, [True] * len(gs)))
            found = zip(cotangents, self.flags, strict=True)
            return [None if c is None else _collect(inner, c, flag) for c, flag in found]


def _enter(batch: Batch, xs: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    return [Traced(batch, x, None) if flag else x for x, flag in zip(xs, flags, strict=True)]


def _leave(batch: Batch, ys: Sequence[Value]) -> list[Value]:
    return [batch.leave(y, 0) for y in ys]


def _collect(batch: Batch, cotangent: Value, batched: bool) -> Value:
    """The cotangent of an argument: one per example, or summed if all examples share the argument."""
    whole = batch.leave(cotangent, 0)
    return whole if batched else sum_(whole, axis=(0,), keepdims=False)


class _Staged:
    """A call as an op: the body is a graph, and the rules of the op run the call's own on that graph.

    The operands are the leaves at `places`; the others are constants of the graph.
    """

    def __init__(self, call: CustomCall, stage: Stage, leaves: Sequence[Value], places: Sequence[int]) -> None:
        self.leaves, self.places = leaves, places
        with stage.inner(call.name) as inner:
            results = call.f(self._filled([inner.input_like(f"x{i}", leaves[i]) for i in places]))
            self.body = inner.graph(call.name, results)
        self.call = CustomCall(call.name, self._run, call.push, call.forward, call.pull, may_write=False)

    def _run(self, leaves: Sequence[Value]) -> list[Value]:
        return self.body.run_flat([leaves[i] for i in self.places])

    def _filled(self, xs: Sequence[Value]) -> list[Value]:
        """All leaves, with these operands."""
        full = list(self.leaves)
        for i, x in zip(self.places, xs, strict=True):
            full[i] = x
        return full

    def jvp(self, ts: Sequence[Any], ys: Any, *xs: Any) -> list[Value | None]:
        with Dual(self.call.name) as dual:
            inside = [x if t is None else Traced(dual, x, t) for x, t in zip(xs, ts, strict=True)]
            return [dual.split(y)[1] for y in self.call.on_dual(dual, self._filled(inside))]

    def vjp(self, gs: Sequence[Any], ys: Any, *xs: Any) -> list[Value | None]:
        with Tape(self.call.name) as tape:
            inside = [tape.leaf(x) if is_inexact(dtype_of(x)) else x for x in xs]
            ends = [tape.node(y) for y in self.call.on_tape(tape, self._filled(inside))]
        nodes = [node for x in inside if (node := tape.node(x)) is not None]
        seeds = [(end, g) for end, g in zip(ends, gs, strict=True) if end is not None and g is not None]
        pulled = iter(backward(seeds, nodes))
        return [None if tape.node(x) is None else next(pulled) for x in inside]

    def batched(self, flags: Sequence[bool], *xs: Any) -> tuple[Value, ...]:
        size = next(shape_of(x)[0] for x, flag in zip(xs, flags, strict=True) if flag)
        with Batch(size) as batch:
            return tuple(_leave(batch, self.call.on_batch(batch, self._filled(_enter(batch, xs, flags)))))


def _zeros(types: Sequence[Any]) -> list[Any]:
    return [None if t is None else zeros_of(t) for t in types]
