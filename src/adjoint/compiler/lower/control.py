"""Loops and branches: steps that contain programs, which read and write whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops import control as ops
from .in_place import carry_in_place
from .kernel import View, contiguous
from .lowered import Rules
from .scalar import FLOATS
from .step import Branch, Lowered, Scan, Step, While, WhileVjp

if TYPE_CHECKING:
    from .fuse import Lowering

_INDEX = np.dtype(np.int64)
_BYTE = np.dtype(np.uint8)


def scan(low: Lowering, equation: Equation) -> bool:
    params = equation.params
    operands = [_solid(low, o) for o in equation.inputs]
    first, rest = params["consts"], params["consts"] + params["carries"]
    outs = [low.local(t) for t in equation.types]
    known = [low.range_of(o) for o in equation.inputs]
    body = low.body(params["body"], [*known[:first], *[None] * params["carries"], *known[rest:]])
    pairs = zip(body.inputs[first:rest], body.outputs[: params["carries"]], strict=True)
    in_place = tuple(low.writes_in_place and carry_in_place(body, carry, out) for carry, out in pairs)
    step = Scan(
        body,
        params["length"],
        params["reverse"],
        tuple(operands[:first]),
        tuple(operands[first:rest]),
        tuple(operands[rest:]),
        tuple(outs[: params["carries"]]),
        tuple(outs[params["carries"] :]),
        tuple(low.local(v.type) for v, at_once in zip(operands[first:rest], in_place, strict=True) if not at_once),
        _scratch(low, body),
        {low.line: None} if low.line else {},
        in_place,
    )
    return _add(low, equation, step, outs)


def while_loop(low: Lowering, equation: Equation) -> bool:
    params = equation.params
    operands = [_solid(low, o) for o in equation.inputs]
    first, rest = params["cond_consts"], params["cond_consts"] + params["body_consts"]
    outs = [low.local(t) for t in equation.types]
    known = [low.range_of(o) for o in equation.inputs]
    test, body = low.body(params["cond"], known[:first]), low.body(params["body"], known[first:rest])
    step = While(
        test,
        body,
        tuple(operands[:first]),
        tuple(operands[first:rest]),
        tuple(operands[rest:]),
        tuple(outs),
        tuple(low.local(v.type) for v in (*operands[rest:], *operands[rest:])),
        _scratch(low, test, body),
        {low.line: None} if low.line else {},
    )
    return _add(low, equation, step, outs)


def while_vjp(low: Lowering, equation: Equation) -> bool:
    params = equation.params
    last = len(params["wanted"])
    shared = len(equation.types) - (len(equation.inputs) - 1 - last)
    if low.type_of(equation.inputs[0]).dtype != _INDEX or any(t.dtype not in FLOATS for t in equation.types[:shared]):
        return False
    count, *operands = [_solid(low, o) for o in equation.inputs]
    outs = [low.local(t) for t in equation.types]
    step, pull = low.body(params["step"]), low.body(params["pull"])
    while_vjp = WhileVjp(
        step,
        pull,
        params["checkpoint"],
        count,
        tuple(operands[: params["consts"]]),
        tuple(operands[params["consts"] : last]),
        tuple(operands[last:]),
        tuple(outs[:shared]),
        tuple(outs[shared:]),
        tuple(low.local(v.type) for v in outs[:shared]),
        tuple(low.local(v.type) for v in outs[shared:]),
        _scratch(low, step, pull),
        {low.line: None} if low.line else {},
    )
    return _add(low, equation, while_vjp, outs)


def branch(low: Lowering, equation: Equation) -> bool:
    truth, *operands = [_solid(low, o) for o in equation.inputs]
    outs = tuple(low.local(t) for t in equation.types)
    known = [low.range_of(o) for o in equation.inputs[1:]]
    true, false = (low.body(equation.params[which], known) for which in ("true", "false"))
    lines = {low.line: None} if low.line else {}
    return _add(low, equation, Branch(truth, true, false, tuple(operands), outs, _scratch(low, true, false), lines), outs)


def inlined(low: Lowering, equation: Equation) -> bool:
    """Inline a sub-graph that exists only for its derivative (a checkpoint)."""
    body: Graph = equation.params["body"]
    numbers: dict[int, Operand] = dict(enumerate(equation.inputs))
    for inner in body.equations:
        for old, t in zip(inner.outputs, inner.types, strict=True):
            numbers[old] = low.fresh_number(t)
        inputs = tuple(numbers[o] if isinstance(o, int) else o for o in inner.inputs)
        outputs = tuple(numbers[o] for o in inner.outputs)
        low.equation(Equation(inner.op, inputs, inner.params, outputs, inner.types, inner.line))  # type: ignore[arg-type]
    for number, o in zip(equation.outputs, body.outputs, strict=True):
        operand = numbers[o] if isinstance(o, int) else o
        low.values[number] = low.view(operand) if isinstance(operand, Literal) else low.values[operand]
    return True


def _add(low: Lowering, equation: Equation, step: Step, outs: Sequence[View]) -> bool:
    position = low.step(step)
    for view in step.writes():
        low.ready[view.buffer] = position
    low.values.update(zip(equation.outputs, outs, strict=True))
    return True


def _solid(low: Lowering, operand: Operand) -> View:
    """An operand in contiguous memory, as the body of a loop reads it."""
    return solid(low, low.view(operand))


def solid(low: Lowering, view: View) -> View:
    """A view in contiguous memory; a copy otherwise."""
    if view.strides == contiguous(view.shape) or 0 in view.shape:
        return view
    whole = low.local(view.type)
    low.copy_any(view, whole)
    return whole


def _scratch(low: Lowering, *bodies: Lowered) -> tuple[View, ...]:
    """Memory for the intermediate arrays of a body, of which one runs at a time."""
    size = max(body.arena for body in bodies)
    return (low.local(Type((size,), _BYTE)),) if size else ()


RULES: Rules = {
    ops.scan: scan,
    ops.while_: while_loop,
    ops.while_vjp: while_vjp,
    ops.cond: branch,
    ops.checkpoint: inlined,
}
