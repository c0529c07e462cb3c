"""Explicit graphs: declared and built before they run.

>>> x, y = symbols("x y")
>>> z = x**2 * y + y
>>> dz_dx, dz_dy = gradients(z, [x, y])
>>> f = function([x, y], [z, dz_dx, dz_dy])
>>> f(3.0, y=4.0)
[np.float64(40.0), np.float64(24.0), np.float64(10.0)]

`gradients` adds nodes to the graph of `building.py`, by the rules of `derive`; `function` extracts the needed nodes as a
`Program`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.boundary import boundary
from ..core.errors import ArgumentError, DtypeError, ShapeError
from ..core.op import Constant
from ..core.tree import flatten, leaf_names
from ..core.types import Type, Value, is_inexact
from ..derive import plan
from ..eager import backward, tape
from ..ir.graph import Literal
from .arguments import match_type
from .building import (
    Graph,
    GraphNode,
    Port,
    checked_feed,
    current_graph,
    cut,
    graph_of,
    inputs_of,
    listed,
    naming,
    outputs_of,
    reached,
)
from .graph import Program


@boundary
def symbols(names: str | Iterable[str], *, shape: Any = (), dtype: Any = float) -> Any:
    """Declare the inputs of a graph: one symbol for one name, else a tuple of them, all of one shape and dtype.

    They belong to the surrounding `with ad.Graph():`, or to the default graph.

    >>> symbols("w b", shape=3)
    (<symbol w: float64[3]>, <symbol b: float64[3]>)
    """
    return current_graph.get().symbols(names, shape=shape, dtype=dtype)


@boundary
def gradients(outputs: Any, inputs: Any, grad_outputs: Any = None, *, allow_unused: bool = False) -> Any:
    """Add the derivatives of `outputs` with respect to `inputs` to their graph: symbols, in the form of `inputs`.

    Of an array, or of several outputs, it is the gradient of the sum of all elements, weighted by `grad_outputs` if given. An
    input may be any node; the gradient is the total derivative. An input that the outputs do not depend on is refused, or
    has a gradient of zeros with `allow_unused=True`.

    >>> x = symbols("x")
    >>> gradients(gradients(x**3, x), x)
    <node ...: float64[]>
    """
    ys, xs = listed(outputs), listed(inputs)
    if not ys or not xs:
        raise ArgumentError("gradients needs at least one output and one input")
    graph = graph_of(ys[0], "the output of gradients")
    targets = [graph._port(y, f"output {i} of gradients") for i, y in enumerate(ys)]
    sources = [graph._port(x, f"input {i} of gradients") for i, x in enumerate(xs)]
    for port in sources:
        if not is_inexact(port.type.dtype):
            raise DtypeError(f"gradients needs floats, but {port!r} is {port.type.dtype}; declare it with dtype=float")
    seeds = _seeds(targets, grad_outputs)
    pulled = _pull(graph, targets, seeds, sources, allow_unused)
    results = [_symbolic(graph, g, port.type) for g, port in zip(pulled, sources, strict=True)]
    return type(inputs)(results) if isinstance(inputs, (list, tuple)) else results[0]


def _seeds(targets: Sequence[Port], grad_outputs: Any) -> list[Value]:
    for port in targets:
        if not is_inexact(port.type.dtype):
            raise DtypeError(f"gradients needs a float result, but {port!r} is {port.type.dtype}")
        if grad_outputs is None and port.type.dtype.kind == "c":
            raise DtypeError(f"{port!r} is complex; take np.real or np.abs of it, or give grad_outputs=")
    if grad_outputs is None:
        return [np.ones(port.type.shape, port.type.dtype)[()] for port in targets]
    given = listed(grad_outputs)
    if len(given) != len(targets):
        raise ShapeError(f"grad_outputs has {len(given)} values for {len(targets)} outputs")
    return [match_type(g, port.type, f"the grad_outputs of {port.label!r}") for g, port in zip(given, targets, strict=True)]


def _symbolic(graph: Graph, g: Value | None, type_: Type) -> Traced:
    if isinstance(g, Traced):
        return Traced(g.by, g.underlying, g.aux)
    return graph._constant(np.zeros(type_.shape, type_.dtype) if g is None else np.asarray(g, type_.dtype))


class _TotalPass(backward.Pass):
    """A backward pass that also records the cotangents of inner nodes, not only of the leaves."""

    def __init__(self, wanted: Sequence[tape.Node]) -> None:
        super().__init__(wanted)
        self.watched = set(self.wanted)

    def note(self, node: tape.Node, g: Value) -> None:
        if node.serial in self.watched:
            self.leaves[node.serial] = (node, g)

    def pull(self, node: tape.Node, g: Value, saved: Any) -> Any:
        self.note(node, g)
        return super().pull(node, g, saved)

    def accumulate(self, node: tape.Node, g: Any) -> bool:
        self.note(node, g)
        return super().accumulate(node, g)

    def reach(self, node: tape.Node, g: Value) -> None:
        self.note(node, g)
        super().reach(node, g)


def _pull(
    graph: Graph, targets: Sequence[Port], seeds: Sequence[Value], sources: Sequence[Port], allow_unused: bool
) -> list[Value | None]:
    """Cotangents of the sources. The tape uses the existing nodes: nothing is recomputed."""
    earliest = min(port.number for port in sources)  # older nodes cannot depend on a source
    nodes, met = reached(targets, lambda port: port.node.first + len(port.node.types) <= earliest)
    recorded: dict[int, tape.Node] = {}
    wanted = {port.number for port in sources}
    for port in sources:
        if port.number not in met and not allow_unused:
            names = ", ".join(repr(t.label) for t in targets)
            raise ArgumentError(
                f"{names} does not depend on {port!r} (declared in {port.node.line}); leave it out, or pass allow_unused=True "
                "for a gradient of zeros"
            )
    for node in nodes:
        _record(graph, node, recorded)
        for i, t in enumerate(node.types):
            if node.first + i in wanted and node.first + i not in recorded:
                recorded[node.first + i] = tape.Node(None, (), None, None, {}, t.shape, t.dtype)
    ends = [(recorded[t.number], g) for t, g in zip(targets, seeds, strict=True) if t.number in recorded]
    found = [recorded.get(port.number) for port in sources]
    work = _TotalPass([node for node in found if node is not None])
    with np.errstate(all="ignore"):
        work.run(ends)
    return [None if node is None else work.leaves.get(node.serial, (node, None))[1] for node in found]


def _record(graph: Graph, node: GraphNode, recorded: dict[int, tape.Node]) -> None:
    """The tape's node for a node of the graph, if it depends on a source."""
    parents = []
    mask = 0
    for i, o in enumerate(node.inputs):
        if isinstance(o, Port) and o.number in recorded:
            parents.append(recorded[o.number])
            mask |= 1 << i
    op = node.op
    if op is None or not mask or isinstance(op, Constant):
        return
    step = plan(op, len(node.inputs), mask)
    values = [o.value if isinstance(o, Literal) else Traced(graph._trace, None, o) for o in node.inputs]
    results = tuple(Traced(graph._trace, None, Port(node, t, i)) for i, t in enumerate(node.types))
    saved = tape.save(step.keep, results if op.many else results[0], values)
    params = node.params or {}
    if not op.many:
        (t,) = node.types
        if is_inexact(t.dtype):
            recorded[node.first] = tape.Node(op, parents, step, saved, params, t.shape, t.dtype, plain=False)
        return
    all_results = tape.Outputs(op, parents, step, saved, params, (), None)  # type: ignore[arg-type]
    all_results.types = node.types
    for i, t in enumerate(node.types):
        if is_inexact(t.dtype):
            pick = recorded[node.first + i] = tape.Pick(op, (all_results,), None, None, {}, t.shape, t.dtype)
            pick.index = i


class Function(Program):
    """A program called by position or by the names of its inputs."""

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.out_structure.unflatten(self._evaluate(self._leaves(args, kwargs)))

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        names = self.input_names
        if len(args) > len(names):
            raise ArgumentError(f"{self.name!r} takes {len(names)} inputs ({', '.join(names)}), got {len(args)}")
        fed = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise ArgumentError(f"{self.name!r} has no input {name!r}{naming(names)}")
            if name in fed:
                raise ArgumentError(f"input {name!r} of {self.name!r} is given twice, by position and by name")
            fed[name] = value
        missing = [name for name in names if name not in fed]
        if missing:
            raise ArgumentError(f"input {' and '.join(map(repr, missing))} of {self.name!r} is missing")
        return [fed[name] for name in names]

    def bind_inputs(self, values: Sequence[Any]) -> list[Value]:
        if len(values) != len(self.input_names):
            return super().bind_inputs(values)
        declared = zip(self.input_names, self.input_types, values, strict=True)
        return [checked_feed(value, t, f"input {name!r} of {self.name!r}") for name, t, value in declared]

    def __repr__(self) -> str:
        return f"<function {self.name}({', '.join(self.input_names)}): {len(self)} equations>"


@boundary
def function(inputs: Any, outputs: Any, *, name: str = "function") -> Function:
    """A callable of the inputs, in their order or by name, that computes the outputs: one, or a list, tuple or dict.

    With `inputs=None` they are all symbols that the outputs need, in the order of their declaration. Only the needed nodes are
    run. Every input must be given, even if the outputs do not need it, since a derivative often needs fewer inputs than its
    function. An input may be any node: the nodes before it are then cut off.

    >>> import adjoint as ad
    >>> x, y = ad.symbols("x y")
    >>> f = ad.function([x, y], [x * y, ad.gradients(x * y, x)])
    >>> f(3.0, 4.0)
    [np.float64(12.0), np.float64(4.0)]
    """
    leaves, structure = flatten(outputs)
    if not leaves:
        raise ArgumentError("function needs at least one output")
    graph = graph_of(leaves[0], f"{leaf_names('outputs', structure)[0]} of function")
    ports = None if inputs is None else inputs_of(graph, inputs, "function")
    wanted, structure = outputs_of(graph, outputs, "function")
    p = cut(ports, wanted, name, "inputs", structure)
    return Function(p.name, p.input_names, p.input_types, p.equations, p.outputs, p.in_structure, p.out_structure)


__all__ = ["Function", "Graph", "function", "gradients", "symbols"]
