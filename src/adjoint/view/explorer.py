"""The explorer: one self-contained page to step through a graph.

`page` takes graphs or evaluations and returns the text of the page. The data is JSON in an inert script block; a content security
policy allows the scripts and styles by their hashes and forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..core.errors import source_text
from ..ir.evaluation import Evaluation
from ..ir.graph import Graph, Literal
from .diagram import HEAD, KINDS, SMALL, Diagram, DiagramNode, diagram, shorten, width_of
from .repeats import Run, runs
from .summary import brief, summary
from .svg import PALETTE

NUMBER_LINE = 15.0  # height of a line of numbers in a box


def page(shown: Evaluation | Graph, simplified: Evaluation | Graph | None = None) -> str:
    """The page of a graph, or of an evaluation with its numbers; the page can switch to `simplified`."""
    graph = _of(shown)
    graphs = {"raw": _graph(shown)}
    same = simplified is not None and _of(simplified) == graph
    if simplified is not None and not same:
        graphs["simplified"] = _graph(simplified)
    data = {"name": graph.name, "kinds": KINDS, "graphs": graphs, "same": same}
    script = _file("layout.js") + _file("explorer.js")
    style = _palette() + _file("explorer.css")
    parts = {
        "policy": f"default-src 'none'; base-uri 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        "title": html.escape(graph.name).encode("utf-8", "replace").decode(),
        "style": style,
        "data": embed(data),
        "script": script,
    }
    text = _file("explorer.html")
    for name, part in parts.items():  # each mark occurs once, and the data is inserted after all marks but the script's
        before, after = text.split(f"<!--{name}-->")
        text = before + part + after
    return text


def _of(shown: Evaluation | Graph) -> Graph:
    return shown.graph if isinstance(shown, Evaluation) else shown


def embed(data: Any) -> str:
    """JSON that is safe inside a script element: nothing in it can end or comment out the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _palette() -> str:
    """The colours of the kinds as CSS variables, for light and dark."""
    names = [f"--{kind}-{part}" for kind in PALETTE for part in ("fill", "line", "text")]
    light = ";".join(f"{n}:{c}" for n, c in zip(names, [c for p in PALETTE.values() for c in p[:3]], strict=True))
    dark = ";".join(f"{n}:{c}" for n, c in zip(names, [c for p in PALETTE.values() for c in p[3:]], strict=True))
    boxes = "".join(f".{k}{{--fill:var(--{k}-fill);--line:var(--{k}-line);--text:var(--{k}-text)}}" for k in PALETTE)
    return (
        f":root{{{light}}}:root[data-theme=dark]{{{dark}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}{boxes}"
    )


# -- data of the page -------------------------------------------------------------------------------------------


def _graph(shown: Evaluation | Graph) -> dict[str, Any]:
    evaluation = shown if isinstance(shown, Evaluation) else None
    graph = _of(shown)
    drawn = diagram(graph)
    constants = _constants(graph, drawn)
    names = {value: _value_name(node, value) for node in drawn.nodes for value in node.values}
    known = {**constants, **evaluation.values} if evaluation else constants
    nodes = [_node(node, names, known, evaluation) for node in drawn.nodes]
    if evaluation:
        _add_outputs(nodes, drawn, evaluation)
        _add_rules(nodes, drawn, evaluation, names)
    for node in nodes:
        node.update(_size(node, evaluation is not None))
    groups, members = _groups(drawn, graph, nodes, evaluation is not None)
    for i, group in members.items():
        nodes[i]["group"] = group
    return {
        "nodes": nodes,
        "edges": [[edge.source, edge.target, round(edge.port, 4)] for edge in drawn.edges],
        "groups": groups,
        "evaluated": evaluation is not None,
        "refusals": dict(evaluation.refusals) if evaluation else {},
    }


def _value_name(node: DiagramNode, value: int) -> str:
    return f"v{value}" if node.equation is not None else node.name


def _constants(graph: Graph, drawn: Diagram) -> dict[int, Any]:
    """The arrays of the constant boxes, in the order of the diagram."""
    arrays: dict[int, Any] = {}
    for operand in [o for equation in graph.equations for o in equation.inputs] + list(graph.outputs):
        if isinstance(operand, Literal) and operand.type.ndim:
            arrays.setdefault(id(operand), operand.value)
    numbers = [node.values[0] for node in drawn.nodes if node.kind == "constant" and node.equation is None]
    return dict(zip(numbers, arrays.values(), strict=True))


def _node(node: DiagramNode, names: Mapping[int, str], known: Mapping[int, Any], evaluation: Evaluation | None) -> dict[str, Any]:
    values = []
    for value, type_ in zip(node.values, node.types, strict=True):
        entry: dict[str, Any] = {"name": names[value], "type": type_}
        if value in known:
            entry["value"] = summary(known[value])
        if evaluation and value in evaluation.adjoints:
            entry["adjoint"] = summary(evaluation.adjoints[value])
        if evaluation and value in evaluation.tangents:
            entry["tangent"] = summary(evaluation.tangents[value])
        values.append(entry)
    return {
        "kind": node.kind,
        "name": node.name,
        "op": node.op,
        "detail": node.detail,
        "text": node.text,
        "row": f"{node.name} = {node.op} {node.detail}" if node.op and node.detail else node.text,
        "equation": node.equation is not None,
        "line": node.line,
        "code": source_text(node.line),
        "values": values,
        "labels": list(node.types),
        "width": node.width,
        "height": node.height,
    }


def _add_outputs(nodes: Sequence[dict[str, Any]], drawn: Diagram, evaluation: Evaluation) -> None:
    """The result of each output box, and its seed."""
    boxes = [i for i, node in enumerate(drawn.nodes) if node.kind == "output"]
    rows = zip(boxes, evaluation.output_values(), evaluation.graph.output_types, evaluation.seeds, strict=True)
    for i, value, type_, seed in rows:
        entry: dict[str, Any] = {"name": nodes[i]["name"], "type": repr(type_), "value": summary(value)}
        if seed is not None:
            entry["adjoint"] = summary(seed)
        nodes[i]["values"].append(entry)


def _add_rules(nodes: Sequence[dict[str, Any]], drawn: Diagram, evaluation: Evaluation, names: Mapping[int, str]) -> None:
    """The derivative rules of each equation, and its contributions in the reverse sweep."""
    boxes = {node.equation: nodes[i] for i, node in enumerate(drawn.nodes) if node.equation is not None}
    for equation, rules in enumerate(evaluation.partials):
        boxes[equation].update(rules=list(rules), hands=[])
    for step in evaluation.steps:
        told = {"to": names[step.target], "part": brief(step.contribution), "total": brief(step.total), "first": step.is_first}
        boxes[step.equation]["hands"].append(told)


def _size(box: Mapping[str, Any], evaluated: bool) -> dict[str, float]:
    """The size of a box, with room for its numbers."""
    width, height = box["width"], box["height"]
    if not evaluated:
        return {"width": width, "height": height}
    texts = [entry[what]["brief"] for entry in box["values"][:1] for what in ("value", "adjoint") if what in entry]
    widest = max((width_of(f"adj {text}", SMALL) for text in texts), default=0.0)
    return {"width": round(max(width, widest + 20), 1), "height": height + 2 * NUMBER_LINE + 6}


def _groups(
    drawn: Diagram, graph: Graph, nodes: Sequence[dict[str, Any]], evaluated: bool
) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The boxes that can be folded, outer ones before inner ones, and the innermost group of each node in one."""
    first = next((i for i, node in enumerate(drawn.nodes) if node.equation is not None), 0)  # the box of equation 0
    found = runs([(equation.op.name, equation.types, len(equation.inputs)) for equation in graph.equations])
    groups: list[dict[str, Any]] = []
    members: dict[int, int] = {}

    def add(label: str, start: int, stop: int, parent: int) -> int:
        last = nodes[stop - 1]
        detail = f"{stop - start} equations, {nodes[start]['name']} … {last['name']}"
        width = round(max(width_of(label, HEAD), width_of(detail, SMALL)) + 28, 1)
        size = _size({"width": width, "height": 42.0, "values": last["values"]}, evaluated)
        groups.append({"label": label, "detail": detail, "first": start, "last": stop - 1, "parent": parent, **size})
        return len(groups) - 1

    for run in found:
        start = first + run.start
        ops = ", ".join(graph.equations[run.start + i].op.name for i in range(run.period))
        outer = add(f"{run.times} × ({shorten(ops)})" if run.period > 1 else f"{run.times} × {ops}", start, first + run.stop, -1)
        for nth in range(run.times):
            begin = start + nth * run.period
            inner = add(f"#{nth + 1}  {shorten(ops)}", begin, begin + run.period, outer) if run.period > 1 else outer
            members.update(dict.fromkeys(range(begin, begin + run.period), inner))
        members.update(_attached(drawn, start, run, members))
    return groups, members


def _attached(drawn: Diagram, start: int, run: Run, members: Mapping[int, int]) -> dict[int, int]:
    """Inputs, constants and outputs that most repetitions have in the same position, such as the weights of a layer.

    Those of a single repetition, such as the input of the first one, stay outside.
    """
    stop = start + run.period * run.times
    repetitions: dict[int, set[int]] = {}  # that read a source
    places: dict[tuple[str, int, int], dict[int, int]] = {}  # (box, operand) in the body: attached nodes by repetition
    operand: dict[int, int] = {}  # the number of edges into a box so far
    for edge in drawn.edges:
        operand[edge.target] = operand.get(edge.target, -1) + 1
        if start <= edge.target < stop and edge.source < start and not drawn.nodes[edge.source].operands:
            nth, i = divmod(edge.target - start, run.period)
            repetitions.setdefault(edge.source, set()).add(nth)
            places.setdefault(("source", i, operand[edge.target]), {})[nth] = edge.source
        elif start <= edge.source < stop and drawn.nodes[edge.target].kind == "output":
            nth, i = divmod(edge.source - start, run.period)
            places.setdefault(("output", i, 0), {})[nth] = edge.target
    return {
        box: members[start + nth * run.period]
        for found in places.values()
        if len(found) > run.times // 2
        for nth, box in found.items()
        if box not in members and len(repetitions.get(box, ())) <= 1
    }
