"""The rules of `checkpoint`: in reverse mode only its operands are saved, and the backward pass runs the body again.

The pullback is a `checkpoint` as well, so that common-subexpression elimination does not undo the recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.op import LateCases, Pull, case
from ..core.types import Type, Value, shape_of
from ..ir.graph import Graph
from ..ops.broadcast import reshape
from ..ops.control import Checkpoint, checkpoint, scan, segment_length
from ..ops.shape import concatenate
from .build import Flags, build, chosen, halved, named, once, parsed, parts, reach, spread
from .jvp import jvp
from .vjp import all_live, full, known_masks, pullback_of
from .vmap import batch_size, vmap

Params = dict[str, Any]


def _jvp(xs: Sequence[Value], ts: Sequence[Value | None], params: Params, masks: Sequence[Any] | None = None) -> Any:
    body = params["body"]
    flags = tuple(t is not None for t in ts)
    outputs = reach(body, flags)
    live = [full(mask, Type.of(x)) for mask, x in zip(masks, xs, strict=True)] if masks is not None else []
    dual = jvp(body, flags, outputs, masks is not None)
    results = checkpoint(*xs, *chosen(ts, flags), *(chosen(live, flags) if live else ()), body=dual)
    ys, tangents, marks = parts(results, len(outputs), sum(outputs))
    found = ys, spread(tangents, outputs)
    return found if masks is None else (*found, spread(marks, outputs))


def _vjp(xs: Sequence[Value], wanted: Flags, params: Params) -> tuple[Sequence[Value], Any, Any]:
    body = params["body"]

    def pull(gs: Sequence[Value | None], residuals: Sequence[Value], masks: Any) -> tuple[list[Value], Any]:
        given = tuple(g is not None for g in gs)
        cotangents = chosen(gs, given)
        back, stays_live = pullback_of(body, wanted, given)
        if masks is None or (stays_live and all_live(cotangents, chosen(masks, given))):
            found = list(checkpoint(*residuals, *cotangents, body=back))
            return found, None if masks is None else [True] * len(found)
        back, _ = pullback_of(body, wanted, given, masked=True)
        live = [full(mask, Type.of(g)) for g, mask in zip(cotangents, chosen(known_masks(gs, masks), given), strict=True)]
        return halved(checkpoint(*residuals, *cotangents, *live, body=back), True)

    return checkpoint(*xs, body=body), list(xs), Pull(pull)


def _batch(flags: Flags, *args: Value, **params: Any) -> tuple[Value, ...]:
    body = params["body"]
    everything = (True,) * len(body.outputs)
    return tuple(checkpoint(*args, body=vmap(body, batch_size(flags, args), flags, everything)))


def scan_in_segments(
    consts: Sequence[Value], carries: Sequence[Value], rows: Sequence[Value], policy: Checkpoint, params: Params
) -> Sequence[Value]:
    """A scan cut into segments, a scan of checkpointed scans: only the first carry of each segment is kept.

    The segments have one length; the remaining iterations form one more segment, which runs last.
    """
    body, length, backwards = params["body"], params["length"], params["reverse"]
    size = segment_length(length, policy)
    count, rest = divmod(length, size)
    first = slice(rest, None) if backwards else slice(0, length - rest)
    cut = [reshape(x[first], shape=(count, size, *shape_of(x)[1:])) for x in rows]
    segment = once(body, ("segment", size, backwards), lambda: _segment(params, size))
    results = scan(*consts, *carries, *cut, **dict(params, body=segment, length=count))
    carries, stacks = parts(results, len(carries))
    ys = [reshape(y, shape=(count * size, *shape_of(y)[2:])) for y in stacks]
    if not rest:
        return [*carries, *ys]
    last = slice(0, rest) if backwards else slice(length - rest, None)
    segment = once(body, ("segment", rest, backwards), lambda: _segment(params, rest))
    results = checkpoint(*consts, *carries, *(x[last] for x in rows), body=segment.equations[0].params["body"])
    carries, late = parts(results, len(carries))
    return [*carries, *(concatenate(*((b, a) if backwards else (a, b)), axis=0) for a, b in zip(ys, late, strict=True))]


def _segment(params: Params, size: int) -> Graph:
    """The graph of one checkpointed segment, as the body of a scan over segments."""
    body, fixed = params["body"], params["consts"] + params["carries"]
    inputs = [
        (name, t if i < fixed else Type((size, *t.shape), t.dtype))
        for i, (name, t) in enumerate(named(body, range(len(body.input_types))))
    ]
    inner = build(f"{body.name}_segment", inputs, lambda values: scan(*values, **dict(params, length=size)))
    return build(f"{body.name}_segments", inputs, lambda values: checkpoint(*values, body=inner))


checkpoint.jvp, checkpoint.vjp, checkpoint.batch = _jvp, _vjp, _batch
checkpoint.masks_tangents = True

_PART = """graph part(x: float64[2], w: float64[]) {
  v2: float64[2] = mul x, w
  v3: float64[2] = sin v2
  v4: float64[] = sum v3 {axis=(0,), keepdims=False}
  return v3, v4
}"""
checkpoint.cases = LateCases(lambda: [case((2,), (), body=parsed(_PART))])
