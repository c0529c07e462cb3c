"""A function and its derivatives as StableHLO text, which XLA compiles for any of its devices.

    module @energy {
      func.func public @main(%x: tensor<3xf64>) -> (tensor<f64>) {
        %v1 = stablehlo.sine %x : tensor<3xf64>  // model.py:3
        …

Each op is a few lines (`stablehlo_ops.py`), or is made of other ops (`normal.py`). Loops are `while`, a branch is `if`; both read
values from outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.boundary import boundary
from ..core.op import Op
from ..core.types import Type
from ..ir.graph import Graph, Literal, Operand
from ..ops import control
from .normal import normal
from .program import Part, parts, write
from .stablehlo_lines import Lines, tensor
from .stablehlo_ops import TABLE, TARGET, StableHLOCall

_I64 = np.dtype(np.int64)

# -- graphs -----------------------------------------------------------------------------------------------------


def _write(graph: Graph, inputs: Sequence[str], w: Lines) -> list[str]:
    """Adds the lines of a normal graph, and returns the names of its results."""
    names = dict(enumerate(inputs))
    constants: dict[Literal, str] = {}

    def read(o: Operand) -> str:
        if isinstance(o, int):
            return names[o]
        if o not in constants:
            constants[o] = w.constant(o.value)
        return constants[o]

    for equation in graph.equations:
        w.line = ""
        args = [read(o) for o in equation.inputs]
        w.line = equation.line
        call = StableHLOCall(equation, args, [w.types[a] for a in args], w)
        if equation.op in _STRUCTURED:
            made = _STRUCTURED[equation.op](call)
        else:
            made = [TABLE[equation.op].write(call)]
        names.update(zip(equation.outputs, made, strict=True))
    w.line = ""
    return [read(o) for o in graph.outputs]


def _inside(w: Lines, inner: Callable[[], Sequence[str]]) -> None:
    """The lines of a region, which ends with its results."""
    indent, w.indent = w.indent, w.indent + "  "
    results = inner()
    types = ", ".join(tensor(w.types[y]) for y in results)
    w.add(f"stablehlo.return {', '.join(results)} : {types}")
    w.indent = indent


def _loop(
    w: Lines, start: Sequence[str], test: Callable[[list[str]], str], body: Callable[[list[str]], Sequence[str]]
) -> list[str]:
    types = [w.types[x] for x in start]
    made, state = w.fresh(), [w.fresh() for _ in start]
    w.types.update(zip(state, types, strict=True))
    given = ", ".join(f"{name} = {x}" for name, x in zip(state, start, strict=True))
    count = f":{len(start)}" if len(start) > 1 else ""
    w.add(f"{made}{count} = stablehlo.while({given}) : {', '.join(map(tensor, types))}")
    w.add("cond {")
    _inside(w, lambda: [test(state)])
    w.add("} do {")
    _inside(w, lambda: body(state))
    w.add("}")
    results = [f"{made}#{i}" for i in range(len(start))] if count else [made]
    w.types.update(zip(results, types, strict=True))
    return results


def _scan(c: StableHLOCall) -> list[str]:
    """A counter, the carries, and the stacks that rows are written into."""
    w = c.lines
    body, length, carries, consts = (c.equation.params[key] for key in ("body", "length", "carries", "consts"))
    fixed, rows = list(c.args[:consts]), list(c.args[consts + carries :])
    stacks = [w.constant(np.zeros(t.shape, t.dtype)) for t in c.equation.types[carries:]]
    start = [w.constant(np.int64(0)), *c.args[consts : consts + carries], *stacks]
    scalar = Type((), _I64)

    def test(state: list[str]) -> str:
        return w.compare("LT", state[0], w.constant(np.int64(length)))

    def step(state: list[str]) -> list[str]:
        i, zero = state[0], w.constant(np.int64(0))
        at = w.op("stablehlo.subtract", w.constant(np.int64(length - 1)), i, type_=scalar) if c.reverse else i
        inputs = [_read_row(w, x, at, zero) for x in rows]
        results = _write(body, [*fixed, *state[1 : 1 + carries], *inputs], w)
        written = [_write_row(w, s, y, at, zero) for s, y in zip(state[1 + carries :], results[carries:], strict=True)]
        return [w.op("stablehlo.add", i, w.constant(np.int64(1)), type_=scalar), *results[:carries], *written]

    return _loop(w, start, test, step)[1:]


def _read_row(w: Lines, x: str, at: str, zero: str) -> str:
    t = w.types[x]
    row = Type((1, *t.shape[1:]), t.dtype)
    found = w.op(
        "stablehlo.dynamic_slice", x, at, *[zero] * (len(t.shape) - 1), type_=row, attributes=f", sizes = {list(row.shape)}"
    )
    return w.reshape(found, t.shape[1:])


def _write_row(w: Lines, stack: str, row: str, at: str, zero: str) -> str:
    t = w.types[stack]
    row = w.reshape(row, (1, *t.shape[1:]))
    return w.op("stablehlo.dynamic_update_slice", stack, row, at, *[zero] * (len(t.shape) - 1), type_=t)


def _while(c: StableHLOCall) -> list[str]:
    test, body, asked, fixed = (c.equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    args, w = c.args, c.lines
    return _loop(
        w,
        args[asked + fixed :],
        lambda state: _write(test, [*args[:asked], *state], w)[0],
        lambda state: _write(body, [*args[asked : asked + fixed], *state], w),
    )


def _cond(c: StableHLOCall) -> list[str]:
    w, types = c.lines, c.equation.types
    made = w.fresh()
    count = f":{len(types)}" if len(types) > 1 else ""
    w.add(f'{made}{count} = "stablehlo.if"({c.args[0]}) ({{')
    _inside(w, lambda: _write(c.true, c.args[1:], w))
    w.add("}, {")
    _inside(w, lambda: _write(c.false, c.args[1:], w))
    w.add(f"}}) : (tensor<i1>) -> ({', '.join(map(tensor, types))})")
    results = [f"{made}#{i}" for i in range(len(types))] if count else [made]
    w.types.update(zip(results, types, strict=True))
    return results


_STRUCTURED: dict[Op, Callable[[StableHLOCall], list[str]]] = {control.scan: _scan, control.while_: _while, control.cond: _cond}


def _signature(inputs: dict[str, Type]) -> str:
    return ", ".join(f"%{name}: {tensor(t)}" for name, t in inputs.items())


def _name(part: Part) -> str:
    return f"{part.name}_" if part.name == "main" else part.name


def _function(part: Part) -> list[str]:
    graph = normal(part.graph, TARGET)
    inputs = dict(zip(graph.input_names, graph.input_types, strict=True))
    w = Lines()
    w.types.update({f"%{name}": t for name, t in inputs.items()})
    results = _write(graph, [f"%{name}" for name in inputs], w)
    types = ", ".join(map(tensor, graph.output_types))
    head = f"  func.func private @{_name(part)}({_signature(inputs)}) -> ({types}) {{"
    return [f"  // {part.summary}", head, *w.list, f"    return {', '.join(results)} : {types}", "  }"]


def module(found: Sequence[Part]) -> str:
    """The text of several functions, and of `main`, which takes the inputs of all and returns the results of all in turn."""
    inputs, outputs, calls = dict[str, Type](), list[tuple[str, Type]](), list[str]()
    text = [line for part in found for line in _function(part)]
    for i, part in enumerate(found):
        g = part.graph
        inputs |= dict(zip(g.input_names, g.input_types, strict=True))
        given, made = (", ".join(map(tensor, types)) for types in (g.input_types, g.output_types))
        count = f":{len(g.outputs)}" if len(g.outputs) > 1 else ""
        arguments = ", ".join(f"%{name}" for name in g.input_names)
        calls.append(f"    %{i}{count} = call @{_name(part)}({arguments}) : ({given}) -> ({made})")
        outputs += [(f"%{i}#{k}" if count else f"%{i}", t) for k, t in enumerate(g.output_types)]
    types = ", ".join(tensor(t) for _, t in outputs)
    main = [f"  func.func public @main({_signature(inputs)}) -> ({types}) {{", *calls]
    main += [f"    return {', '.join(name for name, _ in outputs)} : {types}", "  }"]
    return "\n".join([f"module @{found[0].name} {{", *main, *text, "}"]) + "\n"


@boundary
def stablehlo(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> str:
    """StableHLO text of f, and of the derivatives asked for; written to `path` if it is given.

    `main` takes the flat arguments and returns the results of f, then those of each derivative. XLA compiles it.

    >>> from adjoint import export
    >>> "stablehlo.multiply %x, %x" in export.stablehlo(lambda x: x * x, 2.0)
    True
    """
    return write(path, module(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)))


__all__ = ["module", "stablehlo"]
