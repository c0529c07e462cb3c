"""Recording on a tape, made short for the common case: an elementwise op on plain arrays and one tape.

`Tape.process` handles every case; what is written here does the same for plain values with the checks folded into
one function per op, about a third of the time. It is built from the op's plan on first use:

    def record(x0):                                     # sin
        if x0.__class__ is Traced:
            tape = x0.by
            if tape.__class__ is Tape and not tape.closed:
                v0 = x0.value
                if v0.__class__ in PLAIN:
                    y = impl(v0)
                    ...
                    return Traced(tape, y, Node(op, (x0.aux,), plan, (None, v0), NONE, y.shape, y.dtype))
        return otherwise(x0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, bind
from ..core.op import Elementwise
from ..derive import define, plan, split
from .tape import Node, Tape

PLAIN = frozenset({np.ndarray, np.float64, np.float32, float})
CONSTANT = PLAIN | {int}


def recorder(op: Elementwise, otherwise: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The recording function of an op of one or two arguments; `otherwise` takes the calls it does not handle."""
    scope = {
        "Tape": Tape, "Node": Node, "ndarray": np.ndarray, "Traced": Traced, "PLAIN": PLAIN, "CONSTANT": CONSTANT,
        "NONE": {}, "DOUBLE": np.dtype(float), "op": op, "impl": op.impl, "otherwise": otherwise or functools.partial(bind, op),
    }  # fmt: skip
    return _unary(op, scope) if op.arity == 1 else _binary(op, scope)


def quicken(op: Elementwise) -> None:
    """Let an op record by a function of its own, made when a tape first meets it."""

    def first(*args: Any) -> Any:
        if any(isinstance(a, Traced) and a.by.__class__ is Tape for a in args):
            op.run = recorder(op)
        return bind(op, *args)

    if op.arity <= 2:
        op.run = first


def _finish(op: Elementwise, mask: int, scope: dict[str, Any]) -> list[str]:
    """The lines that run the op and record its node, given v0, v1 and the tape."""
    if any(partial.missing and mask >> i & 1 for i, partial in enumerate(split(op))):
        return [f"return otherwise({', '.join(f'x{i}' for i in range(op.arity))})"]  # which says what is missing
    step = scope[f"plan{mask}"] = plan(op, op.arity, mask)
    values = ["y", *(f"v{i}" for i in range(op.arity))]
    saved = ", ".join(name if kept else "None" for name, kept in zip(values, step.keep, strict=True))
    parents = ", ".join(f"x{i}.aux" for i in range(op.arity) if mask >> i & 1)
    constants = [f"v{i}" for i in range(op.arity) if not mask >> i & 1 and step.keep[i + 1]]
    return [
        f"y = impl({', '.join(values[1:])})",
        *(f"if {v}.__class__ is ndarray: {v} = tape.secure({v})" for v in constants),
        "if y.__class__ is float:",
        "    tape.room -= 1",
        f"    return Traced(tape, y, Node(op, ({parents},), plan{mask}, ({saved},), NONE, (), DOUBLE))",
        "tape.room -= y.size",
        f"return Traced(tape, y, Node(op, ({parents},), plan{mask}, ({saved},), NONE, y.shape, y.dtype))",
    ]


def _indent(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def _unary(op: Elementwise, scope: dict[str, Any]) -> Callable[..., Any]:
    lines = [
        "if x0.__class__ is Traced:",
        "    tape = x0.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v0 = x0.value",
        "        if v0.__class__ in PLAIN:",
        *_indent(_finish(op, 1, scope), 3),
        "return otherwise(x0)",
    ]
    return define("record", ["x0"], lines, scope)


def _binary(op: Elementwise, scope: dict[str, Any]) -> Callable[..., Any]:
    lines = [
        "if x0.__class__ is Traced:",
        "    tape = x0.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v0 = x0.value",
        "        if v0.__class__ in PLAIN:",
        "            if x1.__class__ is Traced:",
        "                if x1.by is tape:",
        "                    v1 = x1.value",
        "                    if v1.__class__ in PLAIN:",
        *_indent(_finish(op, 3, scope), 6),
        "            elif x1.__class__ in CONSTANT:",
        "                v1 = x1",
        *_indent(_finish(op, 1, scope), 4),
        "elif x0.__class__ in CONSTANT and x1.__class__ is Traced:",
        "    tape = x1.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v1 = x1.value",
        "        if v1.__class__ in PLAIN:",
        "            v0 = x0",
        *_indent(_finish(op, 2, scope), 3),
        "return otherwise(x0, x1)",
    ]
    return define("record", ["x0", "x1"], lines, scope)
