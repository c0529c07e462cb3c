"""Reverse mode on graphs: a forward graph that also returns residuals, and a backward graph that reads them.

    graph f(x, w)            { v2 = mul x, w;  v3 = sin v2;  return v3 }
    graph forward_f(x, w)    { v2 = mul x, w;  v3 = sin v2;  return v3, v2 }
    graph backward_f(x, w, v2, g) { v4 = cos v2; v5 = chain g, v4; v6 = chain v5, w; v7 = chain v5, x; return v6, v7 }

Both come from one recording: the tape runs the graph, then the pass back; what was written before the pass is the forward
half. Residuals are the values that cross over. An input that the backward half needs is not a residual: whoever calls has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.types import Type, Value
from ..eager.tape import Tape, backward
from ..ir.graph import Equation, Graph
from ..ops.broadcast import zeros_of
from ..rewrite.simplify import dead_code, simplify
from ..staging.stage import Stage
from .build import Flags, build, chosen, distinct, named, once, places


class Halves(NamedTuple):
    """The two halves of a reverse pass.

    forward   inputs ↦ outputs, residuals
    backward  the inputs in `needed`, residuals, cotangents of the given outputs ↦ cotangents of the wanted inputs
    crossing  what the residuals are: numbers of values in the recording, the same for any choice of given outputs
    """

    forward: Graph
    backward: Graph
    needed: tuple[int, ...]
    crossing: tuple[int, ...]
    given: Flags

    def residuals(self) -> list[Type]:
        return list(self.forward.output_types[len(self.forward.output_types) - len(self.crossing) :])

    def serves(self, other: Halves) -> bool:
        """Whether the forward half of this returns all that the backward half of the other reads."""
        return set(self.needed) >= set(other.needed) and set(self.crossing) >= set(other.crossing)


def pull(graph: Graph, values: Sequence[Value], wanted: Sequence[bool], gs: Sequence[Value | None]) -> list[Value]:
    """Run a graph on a tape and back: the cotangents of the wanted inputs."""
    with Tape(graph.name) as tape:
        inside = [tape.leaf(x) if flag else x for x, flag in zip(values, wanted, strict=True)]
        ys = graph.run_flat(inside)
    seeds = [(node, g) for y, g in zip(ys, gs, strict=True) if (node := tape.node(y)) is not None and g is not None]
    leaves = chosen(inside, wanted)
    pulled = backward(seeds, [leaf.aux for leaf in leaves])
    return [zeros_of(Type.of(x)) if g is None else g for g, x in zip(pulled, leaves, strict=True)]


def pullback(graph: Graph, wanted: Flags, given: Flags) -> Graph:
    """The graph of (inputs, cotangents of the given outputs) ↦ cotangents of the wanted inputs: both halves in one."""
    count = len(graph.input_types)

    def make() -> Graph:
        def both(values: list[Value]) -> list[Value]:
            rest = iter(values[count:])
            return pull(graph, values[:count], wanted, [next(rest) if flag else None for flag in given])

        return build(f"pullback_{graph.name}", [*named(graph, range(count)), *_cotangents(graph, given)], both)

    return once(graph, ("pullback", wanted, given), make)


def vjp(graph: Graph, wanted: Flags, given: Flags, again: int = 0) -> Halves:
    """The halves for cotangents of the given outputs. What depends only on the first `again` inputs is computed in both."""
    return once(graph, ("vjp", wanted, given, again), lambda: _halves(graph, wanted, given, again))


def narrowed(graph: Graph, halves: Halves, wanted: Flags, given: Flags, again: int = 0) -> Halves:
    """The halves for fewer cotangents, if what has been kept is enough for them; else the same, to be given zeros."""
    fewer = vjp(graph, wanted, given, again)
    return fewer if halves.serves(fewer) else halves


def _cotangents(graph: Graph, given: Sequence[bool]) -> list[tuple[str, Type]]:
    return [(f"g{i}", graph.output_types[i]) for i in places(given)]


def _halves(graph: Graph, wanted: Flags, given: Flags, again: int) -> Halves:
    count = len(graph.input_types)
    with Stage(graph.name) as stage:
        xs = [stage.input(name, t) for name, t in named(graph, range(count))]
        gs = [stage.input(distinct(name, stage.names), t) for name, t in _cotangents(graph, given)]
        with Tape(graph.name) as tape:
            inside = [tape.leaf(x) if flag else x for x, flag in zip(xs, wanted, strict=True)]
            ys = graph.run_flat(inside)
        nodes = [tape.node(y) for y in ys]
        outputs = [y if node is None else y.value for y, node in zip(ys, nodes, strict=True)]
        middle = len(stage.equations)
        seeds = [(node, g) for node, g in zip(chosen(nodes, given), gs, strict=True) if node is not None]
        leaves = chosen(inside, wanted)
        pulled = backward(seeds, [leaf.aux for leaf in leaves])
        cotangents = [zeros_of(Type.of(x)) if g is None else g for g, x in zip(pulled, leaves, strict=True)]
        joint = stage.graph(graph.name, [*outputs, *cotangents])
    repeated = _depending_on(range(again), joint.equations[:middle])
    half = dead_code(replace(joint, equations=(*repeated, *joint.equations[middle:]), outputs=joint.outputs[len(outputs) :]))
    made = {n for equation in half.equations for n in equation.outputs}
    reads = sorted(_read(half) - made - set(range(count, count + len(gs))))
    last = [*range(count, count + len(gs))]
    back = simplify(cut(f"backward_{graph.name}", half, [*reads, *last], joint.types))[0]
    used = _read(back)  # simplification may have found that some are not needed
    reads = [n for i, n in enumerate(reads) if i in used]
    back = cut(back.name, back, [i for i in range(len(back.input_types)) if i in used or i >= len(back.input_types) - len(gs)])
    crossing = [n for n in reads if n >= count]
    head = replace(joint, equations=joint.equations[:middle], outputs=(*joint.outputs[: len(outputs)], *crossing))
    forward = simplify(cut(f"forward_{graph.name}", head, range(count)))[0]
    first = count + len(gs)
    return Halves(forward, back, tuple(n for n in reads if n < count), tuple(n - first for n in crossing), given)


def _depending_on(inputs: Iterable[int], equations: Iterable[Equation]) -> list[Equation]:
    """The equations that read nothing but these inputs, and each other."""
    known, found = set(inputs), []
    for equation in equations:
        if known.issuperset([o for o in equation.inputs if isinstance(o, int)]):
            found.append(equation)
            known.update(equation.outputs)
    return found


def _read(graph: Graph) -> set[int]:
    """The values that an equation or the return line reads."""
    operands = [*(o for equation in graph.equations for o in equation.inputs), *graph.outputs]
    return {o for o in operands if isinstance(o, int)}


def cut(name: str, graph: Graph, inputs: Iterable[int], types: dict[int, Type] | None = None) -> Graph:
    """The same equations with these values as the inputs, numbered anew."""
    types = graph.types if types is None else types
    numbers: dict[int, int] = {}
    names: list[str] = []
    for n in inputs:
        numbers[n] = len(names)
        names.append(distinct(graph.input_names[n] if n < len(graph.input_names) else f"r{n}", names))
    kinds = tuple([types[n] for n in numbers])
    equations = []
    for e in graph.equations:
        operands = tuple([numbers[o] if isinstance(o, int) else o for o in e.inputs])
        for n in e.outputs:
            numbers[n] = len(numbers)
        equations.append(Equation(e.op, operands, e.params, tuple([numbers[n] for n in e.outputs]), e.types, e.line))
    outputs = tuple([numbers[o] if isinstance(o, int) else o for o in graph.outputs])
    return Graph(name, tuple(names), kinds, tuple(equations), outputs)
