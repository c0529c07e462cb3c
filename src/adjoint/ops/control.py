"""Control flow: loops and branches whose bodies are graphs.

    scan         carry, y = body(consts, carry, x)          for each x; all ys are stacked
    while        carry = body(consts, carry)                as long as cond(consts, carry)
    while_vjp    the backward pass of a `while` that made `count` iterations
    cond         true(operands) or false(operands)
    checkpoint   body(operands), recomputed in the backward pass instead of saved

The graphs are parameters, the arrays that flow through them are arguments: every value that a body reads is an argument. This
module declares names, implementations and types. The rules are derived from the graphs by `transform/`, which imports the
interpreters that it needs, and registers the rules here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..core.memory import is_writeable
from ..core.op import Carry
from ..core.types import Type
from .declare import structured

Graph = Any  # ir.graph.Graph, which ops cannot see
Checkpoint = int | str | None  # how many segments a loop is cut into: a number, "sqrt" of the iterations, None for no cut


def segment_length(iterations: int, checkpoint: Checkpoint) -> int:
    """How many iterations a segment has: the state is kept at the start of each, and one segment at a time is computed again."""
    if checkpoint is None:
        return max(iterations, 1)
    segments = math.isqrt(iterations) if checkpoint == "sqrt" else int(checkpoint)
    return max(-(-iterations // max(segments, 1)), 1)


def _own(y: Any, given: Sequence[Any]) -> Any:
    """A result that shares its memory with no argument and no constant."""
    if not isinstance(y, np.ndarray):
        return y
    if y.base is not None or not is_writeable(y) or any(y is a for a in given):
        y = np.array(y)
    return y if y.ndim else y[()]


def _expect(op: str, what: str, found: Sequence[Type], wanted: Sequence[Type]) -> None:
    if len(found) != len(wanted):
        raise ShapeError(f"{op} takes {len(wanted)} {what}, got {len(found)}")
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        if f != w:
            raise ShapeError(f"{op} takes {w!r} as number {i} of its {what}, got {f!r}")


# -- scan -------------------------------------------------------------------------------------------------------


def _scan(*args: Any, body: Graph, length: int, reverse: bool, carries: int, consts: int) -> tuple[Any, ...]:
    run, fixed, state, xs = body.straight, args[:consts], args[consts : consts + carries], args[consts + carries :]
    stacks = [np.empty((length, *t.shape), t.dtype) for t in body.output_types[carries:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        results = run(*fixed, *state, *[x[i] for x in xs])
        state = results[:carries]
        for stack, y in zip(stacks, results[carries:], strict=True):
            stack[i] = y
    return (*[_own(c, args) for c in state], *stacks)


def _scan_types(types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
    body, length, carries, consts = (params[key] for key in ("body", "length", "carries", "consts"))
    inputs, outputs = body.input_types, body.output_types
    rows = [Type((length, *t.shape), t.dtype) for t in inputs[consts + carries :]]
    _expect("scan", "arguments", types, [*inputs[: consts + carries], *rows])
    _expect("the body of scan", "carries back", outputs[:carries], inputs[consts : consts + carries])
    return (*outputs[:carries], *[Type((length, *t.shape), t.dtype) for t in outputs[carries:]])


def _scan_carries(params: dict[str, Any]) -> list[Carry]:
    first = params["consts"]
    return [Carry(k, (first + k,), {"body": ((first + k,), k)}) for k in range(params["carries"])]


scan = structured(
    "scan",
    _scan,
    types=_scan_types,
    returning=["body"],
    lasting=lambda params: params["carries"],
    carries=_scan_carries,
    shortened=lambda params, dropped: dict(params, carries=params["carries"] - len(dropped)),
    doc="A loop of `length` iterations over the rows of xs, with a carry.",
)

# -- while ------------------------------------------------------------------------------------------------------


def _while(*args: Any, cond: Graph, body: Graph, cond_consts: int, body_consts: int, checkpoint: Checkpoint) -> tuple[Any, ...]:
    first = cond_consts + body_consts
    asked, fixed, state = args[:cond_consts], args[cond_consts:first], args[first:]
    test, run = cond.straight, body.straight
    while test(*asked, *state)[0]:
        state = run(*fixed, *state)
    return tuple([_own(c, args) for c in state])


def _while_types(types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
    cond, body, cond_consts, body_consts = (params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    state = body.input_types[body_consts:]
    _expect("while", "arguments", types, [*cond.input_types[:cond_consts], *body.input_types])
    _expect("the condition of while", "carries", cond.input_types[cond_consts:], state)
    _expect("the condition of while", "results", cond.output_types, [Type((), np.dtype(bool))])
    _expect("the body of while", "carries back", body.output_types, state)
    return tuple(state)


def _while_carries(params: dict[str, Any]) -> list[Carry]:
    asked, fixed = params["cond_consts"], params["body_consts"]
    count = len(params["body"].output_types)
    return [Carry(k, (asked + fixed + k,), {"cond": ((asked + k,), None), "body": ((fixed + k,), k)}) for k in range(count)]


while_ = structured(
    "while",
    _while,
    types=_while_types,
    carries=_while_carries,
    doc="A loop that goes on as long as its condition holds.",
)


def _while_vjp(
    count: Any, *args: Any, step: Graph, pull: Graph, consts: int, wanted: tuple[bool, ...], checkpoint: Checkpoint
) -> tuple[Any, ...]:
    fixed, state, gs = args[:consts], args[consts : len(wanted)], args[len(wanted) :]
    run, back = step.straight, pull.straight
    iterations = int(count)
    length = segment_length(iterations, checkpoint)
    shared = len(pull.output_types) - len(gs)
    totals = [np.zeros(t.shape, t.dtype)[()] for t in pull.output_types[:shared]]
    marks = [state] if iterations else []
    for i in range(1, (len(range(0, iterations, length)) - 1) * length + 1):
        state = run(*fixed, *state)
        if i % length == 0:
            marks.append(state)
    for k in range(len(marks) - 1, -1, -1):
        states = [marks.pop()]
        for _ in range(min(length, iterations - k * length) - 1):
            states.append(run(*fixed, *states[-1]))
        while states:
            results = back(*fixed, *states.pop(), *gs)
            gs = results[shared:]
            totals = [total + part for total, part in zip(totals, results[:shared], strict=True)]
    return (*totals, *[_own(g, args) for g in gs])


def _while_vjp_types(types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
    step, pull, consts, wanted = (params[key] for key in ("step", "pull", "consts", "wanted"))
    inputs = step.input_types
    if not types or types[0].shape or types[0].dtype.kind not in "iu":
        raise ShapeError("the first argument of while_vjp is the number of iterations")
    _expect("while_vjp", "arguments", types[1:], pull.input_types)
    _expect("the step of while_vjp", "carries back", step.output_types, inputs[consts:])
    cotangents = [t for t, flag in zip(inputs, wanted, strict=True) if flag]
    _expect("the pull of while_vjp", "inputs", pull.input_types, [*inputs, *cotangents[sum(wanted[:consts]) :]])
    _expect("the pull of while_vjp", "results", pull.output_types, cotangents)
    return tuple(cotangents)


while_vjp = structured(
    "while_vjp",
    _while_vjp,
    types=_while_vjp_types,
    doc="""The backward pass of a `while` of `count` iterations, which is known only when it runs.

    The states are computed again by `step`, and `pull` is applied to them from the last to the first: it takes cotangents of
    the carries to those of the iteration before, and to those of the consts, which are added up. `wanted` tells which of the
    consts and carries have one.""",
)

# -- cond and checkpoint ----------------------------------------------------------------------------------------


def _cond(pred: Any, *args: Any, true: Graph, false: Graph) -> tuple[Any, ...]:
    return tuple([_own(y, args) for y in (true if pred else false).straight(*args)])


def _cond_types(types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
    true, false = params["true"], params["false"]
    _expect("cond", "predicates", types[:1], [Type((), np.dtype(bool))])
    _expect("cond", "operands", types[1:], true.input_types)
    _expect("the false branch of cond", "operands", false.input_types, true.input_types)
    _expect("the false branch of cond", "results", false.output_types, true.output_types)
    return tuple(true.output_types)


cond = structured(
    "cond", _cond, types=_cond_types, returning=["true", "false"], given=1, doc="One of two branches, chosen when it runs."
)


def _checkpoint_types(types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
    _expect("checkpoint", "operands", types, params["body"].input_types)
    return tuple(params["body"].output_types)


checkpoint = structured(
    "checkpoint",
    lambda *args, body: tuple([_own(y, args) for y in body.straight(*args)]),
    types=_checkpoint_types,
    returning=["body"],
    given=0,
    doc="A part of a program that keeps only its operands for the backward pass, and runs again when it comes.",
)

__all__ = ["Checkpoint", "checkpoint", "cond", "scan", "segment_length", "while_", "while_vjp"]
