"""The fast path of recording: an elementwise op on plain arrays, or staged values, and one tape.

`Tape.process` handles every case; the functions generated here do the same for such values, with the checks folded into one
function per op, in about a third of the time. A staging trace takes such an op directly. The function is built from the op's plan
on first use:

    def record(x0):                                     # sin
        if type(x0) is Traced:
            tape = x0.by
            if tape.__class__ is Tape and not tape.closed:
                v0 = x0.underlying
                if type(v0) in PLAIN:
                    y = impl(v0)
                    ...
                    return Traced(tape, y, Node(op, (x0.aux,), plan, (None, v0), NONE, y.shape, y.dtype))
        return otherwise(x0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core import floating
from ..core.bind import Trace, Traced, bind, renew_modes
from ..core.op import Elementwise
from ..core.types import dtype_of, shape_of
from ..derive import define, plan, split
from .overflow import mark
from .tape import Node, Tape, line_of

T = TypeVar("T", bound=Trace)
PLAIN = frozenset({np.ndarray, np.float64, np.float32, float})
CONSTANT = PLAIN | {int}
NONE: dict[str, Any] = {}
FEW = 16  # staged calls of an op for which generating its recorder, 0.5 ms, does not pay
STAGED: set[type[Trace]] = set()
#: Tapes that are never entered, by their class: whether they record now, what to do before each op, and after it.
AMBIENT: dict[type[Trace], tuple[Callable[[], bool], Callable[[], Any], Callable[[Any], None]]] = {}


def at_once(trace: type[T]) -> type[T]:
    """Mark a trace of staging: ops on its values go directly to its `process`, without a search for the innermost trace."""
    STAGED.add(trace)
    return trace


def recorder(
    op: Elementwise,
    otherwise: Callable[..., Any] | None = None,
    name: str = "",
    impl: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The recording function of an op of one or two arguments; `otherwise` takes the calls it does not handle.

    `name` is that of the operator, or "ufunc": between Python numbers they differ. An operator that may raise there has its own
    `impl`, and leaves staged values to `otherwise`.
    """
    scope: dict[str, Any] = {
        "Tape": Tape, "Node": Node, "ndarray": np.ndarray, "Traced": Traced, "PLAIN": PLAIN, "CONSTANT": CONSTANT,
        "STAGED": STAGED, "NONE": NONE, "DOUBLE": np.dtype(float), "op": op, "impl": impl or op.impl, "bind": bind,
        "shape_of": shape_of, "dtype_of": dtype_of, "line_of": line_of, "run": functools.partial(bind, op), "name": name,
        "tell": floating.tell, "modes": floating.state, "seen": floating.SEEN, "renew": renew_modes,
        "AMBIENT": AMBIENT, "mark": mark,
    }  # fmt: skip
    rest = otherwise or functools.partial(bind, op)

    def first(*args: Any) -> Any:
        """The first call on staged values generates the function for them."""
        if impl is None and any(type(a) is Traced and type(a.by) is Tape and type(a.underlying) is Traced for a in args):
            scope["otherwise"] = _made(op, {**scope, "otherwise": rest}, plain=False)
            return scope["otherwise"](*args)
        return rest(*args)

    scope["otherwise"] = first
    return _made(op, scope, plain=True)


def _made(op: Elementwise, scope: dict[str, Any], plain: bool) -> Callable[..., Any]:
    return (_unary if op.arity == 1 else _binary)(op, scope, plain)


def eventually(generate: Callable[[], None], general: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `general`, and `generate` once that is worth its time: for a tape that computes, or for many calls.

    `generate` installs a recorder in the place of this function. A first call of a compiled function uses most ops a few times.
    """
    left = FEW

    def first(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or any(type(a) is Traced and _needs_recorder(a) for a in args):
            generate()
        return general(*args)

    return first


def _needs_recorder(x: Traced) -> bool:
    """Whether a value is a number on a tape, or staged beside Python numbers."""
    trace = x.by
    if trace.__class__ is Tape or trace.__class__ in AMBIENT:
        return type(x.underlying) in PLAIN
    return trace.__class__ in STAGED and bool(trace.light)  # type: ignore[attr-defined]


def quicken(op: Elementwise) -> None:
    """Let an op record by a generated function, made when tapes use it."""

    def generate() -> None:
        op.run = recorder(op)

    def run(*args: Any) -> Any:
        on_tape = any(isinstance(a, Traced) and isinstance(a.by, Tape) for a in args)
        return (first if on_tape else general)(*args)

    general = functools.partial(bind, op)
    first = eventually(generate, general)
    if op.arity <= 2:
        op.run = run


class _Lines(NamedTuple):
    """What an op records, as text: its arguments and their values, constants that are secured, and its node but for its type."""

    args: str
    values: str
    secured: list[str]
    node: str
    finite: str  # whether all values are


def _lines(op: Elementwise, mask: int, scope: dict[str, Any]) -> _Lines | None:
    """The parts of a recording function, if the arguments of `mask` are traced; None if a rule is missing, which raises."""
    if any(partial.missing and mask >> i & 1 for i, partial in enumerate(split(op))):
        return None
    step = scope[f"plan{mask}"] = plan(op, op.arity, mask)
    values = ["y", *(f"v{i}" for i in range(op.arity))]
    saved = ", ".join(name if kept else "None" for name, kept in zip(values, step.keep, strict=True))
    parents = ", ".join(f"x{i}.aux" for i in range(op.arity) if mask >> i & 1)
    constants = [f"v{i}" for i in range(op.arity) if not mask >> i & 1 and step.keep[i + 1]]
    return _Lines(
        ", ".join(f"x{i}" for i in range(op.arity)),
        ", ".join(values[1:]),
        [f"if {v}.__class__ is ndarray: {v} = tape.secure({v})" for v in constants],
        f"Node(op, ({parents},), plan{mask}, ({saved},), NONE",
        " or ".join(f"v{i} - v{i}" for i in range(op.arity)),
    )


def _finish(op: Elementwise, mask: int, scope: dict[str, Any], plain: bool) -> list[str]:
    """The lines that run the op and record its node, given v0, v1 and the tape."""
    made = _lines(op, mask, scope)
    if made is None:
        return [_otherwise(op)]
    if not plain:
        return [
            f"y = bind(op, {made.values})",
            *made.secured,
            "tape.room = 0",
            f"node = {made.node}, shape_of(y), dtype_of(y), False)",
            "node.line = line_of(y)",
            "return Traced(tape, y, node)",
        ]
    return [
        "if modes() is not seen[0]: renew()",
        f"y = impl({made.values})",
        *made.secured,
        "if y.__class__ is float:",
        f"    if y - y and not ({made.finite}): tell()",
        "    tape.room -= 1",
        f"    return Traced(tape, y, {made.node}, (), DOUBLE))",
        "tape.room -= y.size",
        f"return Traced(tape, y, {made.node}, y.shape, y.dtype))",
    ]


def _otherwise(op: Elementwise) -> str:
    return f"return otherwise({', '.join(f'x{i}' for i in range(op.arity))})"


def _ambient(op: Elementwise, mask: int, scope: dict[str, Any]) -> list[str]:
    """The same for arrays on a tape that is never entered, unless it has heard of an overflow."""
    made = None if op.silent else _lines(op, mask, scope)
    if made is None:
        return [_otherwise(op)]
    return [
        "records, before, after = AMBIENT[tape.__class__]",
        "if tape.lost is None and records():",
        "    held = before()",
        f"    try: y = impl({made.values})",
        "    finally: after(held)",
        *_indent(made.secured, 1),
        f"    result = Traced(tape, y, {made.node}, y.shape, y.dtype))",
        f"    if tape.lost is not None: mark(tape, result.aux, ({made.args},), (result,), NONE)",
        "    return result",
    ]


def _staged(scope: dict[str, Any], args: str) -> str:
    if scope["impl"] is not scope["op"].impl:
        return f"otherwise({args})"
    process = f"tape.process(op, ({args}), NONE)"
    return f"tape.operate(name, run, ({args})) if tape.light else {process}" if scope["name"] else process


def _indent(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def _unary(op: Elementwise, scope: dict[str, Any], plain: bool) -> Callable[..., Any]:
    held = "in PLAIN" if plain else "is Traced"
    ambient = ["v0 = x0.underlying", "if type(v0) is ndarray:", *_indent(_ambient(op, 1, scope), 1)]
    lines = [
        "if type(x0) is Traced:",
        "    tape = x0.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v0 = x0.underlying",
        f"        if type(v0) {held}:",
        *_indent(_finish(op, 1, scope, plain), 3),
        "    elif tape.__class__ in STAGED and not tape.closed:",
        f"        return {_staged(scope, 'x0,')}",
        "    elif tape.__class__ in AMBIENT:",
        *_indent(ambient if plain else ["pass"], 2),
        "return otherwise(x0)",
    ]
    return define("record", ["x0"], lines, scope)


def _binary(op: Elementwise, scope: dict[str, Any], plain: bool) -> Callable[..., Any]:
    held = "in PLAIN" if plain else "is Traced"
    first = [
        "v0 = x0.underlying",
        "if type(v0) is ndarray:",
        "    if type(x1) is Traced:",
        "        if x1.by is tape:",
        "            v1 = x1.underlying",
        "            if type(v1) is ndarray:",
        *_indent(_ambient(op, 3, scope), 4),
        "    elif type(x1) in CONSTANT:",
        "        v1 = x1",
        *_indent(_ambient(op, 1, scope), 2),
    ]
    second = ["v1 = x1.underlying", "if type(v1) is ndarray:", "    v0 = x0", *_indent(_ambient(op, 2, scope), 1)]
    lines = [
        "if type(x0) is Traced:",
        "    tape = x0.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v0 = x0.underlying",
        f"        if type(v0) {held}:",
        "            if type(x1) is Traced:",
        "                if x1.by is tape:",
        "                    v1 = x1.underlying",
        f"                    if type(v1) {held}{'' if plain else ' and v1.by is v0.by'}:",
        *_indent(_finish(op, 3, scope, plain), 6),
        "            elif type(x1) in CONSTANT:",
        "                v1 = x1",
        *_indent(_finish(op, 1, scope, plain), 4),
        "    elif tape.__class__ in STAGED and not tape.closed:",
        "        if x1.by is tape if type(x1) is Traced else type(x1) in CONSTANT:",
        f"            return {_staged(scope, 'x0, x1')}",
        "    elif tape.__class__ in AMBIENT:",
        *_indent(first if plain else ["pass"], 2),
        "elif type(x0) in CONSTANT and type(x1) is Traced:",
        "    tape = x1.by",
        "    if tape.__class__ is Tape and not tape.closed:",
        "        v1 = x1.underlying",
        f"        if type(v1) {held}:",
        "            v0 = x0",
        *_indent(_finish(op, 2, scope, plain), 3),
        "    elif tape.__class__ in STAGED and not tape.closed:",
        f"        return {_staged(scope, 'x0, x1')}",
        "    elif tape.__class__ in AMBIENT:",
        *_indent(second if plain else ["pass"], 2),
        "return otherwise(x0, x1)",
    ]
    return define("record", ["x0", "x1"], lines, scope)
