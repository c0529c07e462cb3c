"""A function and its derivatives as one ONNX model.

    export.onnx(energy, x, derivatives="gradient", path="energy.onnx")      inputs x, outputs y and x_bar

Each op is a few nodes (`onnx_nodes.py`), or is made of other ops (`normal.py`); loops are `Scan` and `Loop`, a branch is `If`.
With `batch`, axes are free: the model is written for three sizes, and what differs between them is computed from the sizes of the
inputs (`onnx_batch.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from ..core.op import Op
from ..core.types import Type
from ..core.version import VERSION
from ..ir.graph import Graph, Literal, Operand
from ..ops import control
from .normal import normal
from .onnx_nodes import TABLE, TARGET, Nodes, OnnxCall, code
from .program import Part

OPSET = 26  # the latest that a released ONNX Runtime runs

_I64 = np.dtype(np.int64)

# -- graphs -----------------------------------------------------------------------------------------------------


def _write(graph: Graph, inputs: Sequence[str], nodes: Nodes) -> list[str]:
    """Adds the nodes of a normal graph, and returns the names of its results."""
    names = dict(enumerate(inputs))
    types = graph.types

    def read(o: Operand) -> str:
        return nodes.constant(o.value) if isinstance(o, Literal) else names[o]

    for equation in graph.equations:
        nodes.line = equation.line
        args = [read(o) for o in equation.inputs]
        given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
        call = OnnxCall(equation, args, given, nodes)
        written = _STRUCTURED[equation.op](call) if equation.op in _STRUCTURED else TABLE[equation.op].write(call)
        made = [written] if isinstance(written, str) else written
        names.update(zip(equation.outputs, made, strict=True))
    return [read(o) for o in graph.outputs]


def _info(name: str, type_: Type) -> Any:
    return helper.make_tensor_value_info(name, code(type_.dtype), type_.shape)


def _body(name: str, nodes: Nodes, inputs: Sequence[tuple[str, Type]], results: Sequence[tuple[str, Type]]) -> Any:
    """The graph of a body. A result is the output of a node of its own."""
    named = [(nodes("Identity", result), t) for result, t in results]
    return helper.make_graph(nodes.list, name, [_info(n, t) for n, t in inputs], [_info(n, t) for n, t in named])


def _scan(c: OnnxCall) -> list[str]:
    body, length, carries, consts = (c.equation.params[key] for key in ("body", "length", "carries", "consts"))
    fixed, first, rows = list(c.args[:consts]), list(c.args[consts : consts + carries]), list(c.args[consts + carries :])
    inner = Nodes(c.nodes)
    types = body.input_types[consts:]
    names = [inner.fresh("x") for _ in types]
    inputs = list(zip(names, types, strict=True))
    results = list(zip(_write(body, [*fixed, *names], inner), body.output_types, strict=True))
    if not rows:  # a Scan needs rows to know how many
        rows = [c.nodes.constant(np.arange(length))]
        inputs.append((inner.fresh("i"), Type((), _I64)))
    directions = {"scan_input_directions": [1] * len(rows), "scan_output_directions": [1] * (len(results) - carries)}
    return c.nodes.many(
        "Scan",
        [*first, *rows],
        [c.nodes.fresh() for _ in results],
        body=_body(c.nodes.fresh("body"), inner, inputs, results),
        num_scan_inputs=len(rows),
        **{name: ones for name, ones in directions.items() if ones and c.reverse},
    )


def _while(c: OnnxCall) -> list[str]:
    test, body, asked, fixed = (c.equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    state = list(c.args[asked + fixed :])
    (begin,) = _write(test, [*c.args[:asked], *state], c.nodes)
    inner = Nodes(c.nodes)
    types = body.input_types[fixed:]
    names = [inner.fresh("x") for _ in types]
    results = _write(body, [*c.args[asked : asked + fixed], *names], inner)
    (again,) = _write(test, [*c.args[:asked], *results], inner)
    truth = Type((), np.dtype(bool))
    inputs = [(inner.fresh("i"), Type((), _I64)), (inner.fresh("go"), truth), *zip(names, types, strict=True)]
    made = [(again, truth), *zip(results, types, strict=True)]
    graph = _body(c.nodes.fresh("body"), inner, inputs, made)
    return c.nodes.many("Loop", ["", begin, *state], [c.nodes.fresh() for _ in types], body=graph)


def _cond(c: OnnxCall) -> list[str]:
    branches = {}
    for key, word in (("true", "then_branch"), ("false", "else_branch")):
        part, inner = c.equation.params[key], Nodes(c.nodes)
        results = _write(part, c.args[1:], inner)
        branches[word] = _body(c.nodes.fresh(key), inner, [], list(zip(results, part.output_types, strict=True)))
    return c.nodes.many("If", c.args[:1], [c.nodes.fresh() for _ in c.equation.types], **branches)


_STRUCTURED: dict[Op, Callable[[OnnxCall], list[str]]] = {control.scan: _scan, control.while_: _while, control.cond: _cond}


def model(found: Sequence[Part]) -> Any:
    """One model of several functions: their inputs and results by name, each once."""
    nodes = Nodes()
    inputs, outputs = dict[str, Type](), dict[str, Type]()
    for part in found:
        graph = normal(part.graph, TARGET)
        inputs |= dict(zip(graph.input_names, graph.input_types, strict=True))
        results = _write(graph, graph.input_names, nodes)
        for name, result, t in zip(part.output_names, results, graph.output_types, strict=True):
            if name not in outputs:
                nodes.many("Identity", [result], [name])
                outputs[name] = t
    graph = helper.make_graph(
        nodes.list,
        found[0].name,
        [_info(n, t) for n, t in inputs.items()],
        [_info(n, t) for n, t in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in nodes.constants.values() if name in nodes.used],
        doc_string="\n".join(part.summary for part in found),
    )
    opset = helper.make_opsetid("", OPSET)
    version = helper.find_min_ir_version_for([opset])
    return helper.make_model(graph, opset_imports=[opset], ir_version=version, producer_name="adjoint", producer_version=VERSION)


__all__ = ["OPSET", "model"]
