"""Each partial derivative of an elementwise op as a separate function.

`partials` is traced once per op and split into one function per partial, so that only the partials that are needed are computed
and the values that each one reads are known.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Trace, Traced
from ..core.errors import AdjointError, UnsupportedError
from ..core.op import Elementwise, Op
from ..ops.elementwise import add, div, mul, neg, sub


class Partial(NamedTuple):
    """One partial derivative, as a number if it is constant, else as a function of (y, *xs).

    `needs` tells which of y, x0, x1, … it reads. `result` is the expression that computes it, after the assignments in
    `lines`, with the names in `scope`; empty for a rule that could not be traced. A `missing` partial is one that the rule
    gives as None: there is no derivative with respect to that argument (the order of a Bessel function).
    """

    number: float | None
    function: Callable[..., Any]
    needs: tuple[bool, ...]
    lines: tuple[str, ...] = ()
    result: str = ""
    scope: dict[str, Any] = {}  # noqa: RUF012 - never written to
    missing: bool = False


class _Probe(Trace):
    """Records the ops that `partials` applies, to split it into one function per argument."""

    __slots__ = ("equations",)

    def __init__(self) -> None:
        super().__init__("derive")
        self.equations: list[tuple[Op, tuple[Any, ...], dict[str, Any]]] = []

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Traced:
        self.equations.append((op, args, params))
        return Traced(self, None, len(self.equations) - 1)

    def shape(self, x: Traced) -> tuple[int, ...]:
        raise UnsupportedError("partials must not depend on the shape of an argument; declare the op as opaque")

    def dtype(self, x: Traced) -> np.dtype[Any]:
        raise UnsupportedError("a rule asks for the dtype of a value")

    def class_of(self, x: Traced) -> type:
        raise UnsupportedError("a rule asks for the class of a value")

    def concrete(self, x: Traced, what: str) -> Any:
        raise UnsupportedError(f"a rule asks for {what} a value")


#: Ops that a rule writes as Python's own operators, which dispatch on traced values by themselves, as ufuncs do.
#: Division is not among them: of two Python numbers it would raise where a rule wants inf.
_INFIX: dict[Op, str] = {add: "{} + {}", sub: "{} - {}", mul: "{} * {}", neg: "-{}"}


def split(op: Elementwise) -> tuple[Partial, ...]:
    """The partials of an op, one by one."""
    if "partials" not in op.derived:
        op.derived["partials"] = _split(op)
    return op.derived["partials"]  # type: ignore[no-any-return]


def _split(op: Elementwise) -> tuple[Partial, ...]:
    rule, count = op.partials, op.arity + 1
    if isinstance(rule, tuple):
        return tuple(Partial(None, part, (True,) * count) for part in rule)
    probe = _Probe()
    inputs = [Traced(probe, None, -1 - i) for i in range(count)]
    try:
        outputs = rule(*inputs)
    except AdjointError as error:
        error.mark_handled()
        # A rule that looks at its values (a branch, a foreign function) is run whole, and may need everything.
        return tuple(Partial(None, _pick(rule, i), (True,) * count) for i in range(op.arity))
    if not isinstance(outputs, tuple) or len(outputs) != op.arity:
        raise UnsupportedError(f"partials of {op.name!r} must return a tuple of {op.arity}, one for each argument")
    for output in outputs:
        if not (output is None or isinstance(output, (Traced, int)) or np.asarray(output).dtype.kind in "biufc"):
            raise UnsupportedError(f"partials of {op.name!r} must return numbers or arrays, not {type(output).__name__}")
    return tuple(_emit(probe, output, count) for output in outputs)


def _pick(rule: Callable[..., Any], i: int) -> Callable[..., Any]:
    return lambda *values: rule(*values)[i]


def _emit(probe: _Probe, output: Any, count: int) -> Partial:
    """Write the equations that lead to one output as a Python function."""
    names = argument_names(count)
    if output is None:
        return Partial(None, lambda *values: None, (False,) * count, missing=True)
    if not isinstance(output, Traced):
        number = output if type(output) in (int, float) and abs(output) < np.inf else None  # one that can be written in source
        return Partial(number, lambda *values: output, (False,) * count)
    uses = _count_uses(probe, output.aux)
    scope: dict[str, Any] = {}
    lines: list[str] = []
    needs = [False] * count
    texts: dict[int, str] = {}

    def text_of(value: Any) -> str:
        if isinstance(value, Traced):
            if value.aux >= 0:
                return texts[value.aux]
            needs[-1 - value.aux] = True
            return names[-1 - value.aux]
        if type(value) in (int, float) and np.isfinite(value):
            return repr(value) if value >= 0 else f"({value!r})"
        key = f"k{id(value)}"
        scope[key] = value
        return key

    for index in sorted(uses):
        op, args, params = probe.equations[index]
        operands = [text_of(a) for a in args]
        if op in _INFIX:
            text = f"({_INFIX[op].format(*operands)})"
        else:
            scope[f"f{index}"] = op.impl if isinstance(op.impl, np.ufunc) or op is div else op
            options = [f"{key}={text_of(value)}" for key, value in params.items()]
            text = f"f{index}({', '.join([*operands, *options])})"
        # A value used once stays inside its expression, where NumPy may reuse its memory.
        if uses[index] > 1:
            lines.append(f"v{index} = {text}")
            text = f"v{index}"
        texts[index] = text
    result = text_of(output)
    function = define("partial", names, [*lines, f"return {result}"], dict(scope))
    return Partial(None, function, tuple(needs), tuple(lines), result, scope)


def _count_uses(probe: _Probe, output: int) -> dict[int, int]:
    """The equations that an output depends on, with the number of times each is used."""
    uses = {output: 1} if output >= 0 else {}
    for index in range(len(probe.equations) - 1, -1, -1):
        if index in uses:
            for a in probe.equations[index][1]:
                if isinstance(a, Traced) and a.aux >= 0:
                    uses[a.aux] = uses.get(a.aux, 0) + 1
    return uses


def argument_names(count: int) -> list[str]:
    return ["y", *(f"x{i}" for i in range(count - 1))]


def define(name: str, arguments: Sequence[str], lines: Sequence[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A Python function from its lines."""
    source = f"def {name}({', '.join(arguments)}):\n" + "".join(f"    {line}\n" for line in lines)
    scope.setdefault("__name__", __name__)  # by which `user_line` knows it for ours
    exec(compile(source, f"<adjoint {name}>", "exec"), scope)
    return scope[name]  # type: ignore[no-any-return]


def no_partial(op: Elementwise, i: int) -> UnsupportedError:
    name = list(inspect.signature(op.partials).parameters)[i + 1]
    return UnsupportedError(
        f"{op.name!r} has no derivative with respect to its argument {name!r}; pass ad.stop_gradient({name}) if a constant "
        "is meant"
    )
