"""Reverse mode on graphs: a forward graph that also returns residuals, and a backward graph that reads them.

    graph f(x, w)            { v2 = mul x, w;  v3 = sin v2;  return v3 }
    graph forward_f(x, w)    { v2 = mul x, w;  v3 = sin v2;  return v3, v2 }
    graph backward_f(x, w, v2, g) { v4 = cos v2;  v5 = strong_mul g, v4;
                                    v6 = strong_mul v5, w;  v7 = strong_mul v5, x;  return v6, v7 }

Both are cut from one recording (`_Joint`). An input that the backward half reads is not a residual: the caller still has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.floating import quiet
from ..core.types import Type, Value
from ..eager.tape import Pass, Tape
from ..ir.edit import cut, dead_code, distinct, values_in, values_read
from ..ir.graph import Equation, Graph
from ..ops.broadcast import zeros_of
from ..rewrite.simplify import simplify
from ..staging.stage import Stage
from .build import Flags, build, chosen, named, once, places, spread


class Halves(NamedTuple):
    """The two halves of a reverse pass.

    forward    inputs ↦ outputs, residuals
    backward   the inputs in `needed`, residuals, cotangents of the given outputs ↦ cotangents of the wanted inputs
    residuals  numbers of values in the recording, the same for any choice of given outputs
    """

    forward: Graph
    backward: Graph
    needed: tuple[int, ...]
    residuals: tuple[int, ...]
    given: Flags
    live: bool = False  # if no zero of the cotangents that go in is one of a mask, none of those that come out is

    def residual_types(self) -> list[Type]:
        return list(self.forward.output_types[len(self.forward.output_types) - len(self.residuals) :])

    def covers(self, other: Halves) -> bool:
        """Whether the forward half of this returns all that the backward half of the other reads."""
        return set(self.needed) >= set(other.needed) and set(self.residuals) >= set(other.residuals)


def _on_tape(
    graph: Graph, values: Sequence[Value], wanted: Sequence[bool], live: bool
) -> tuple[list[Value], Callable[[Sequence[Value | None]], tuple[list[Value], bool]]]:
    """Run a graph on a tape: the outputs, and the pass back from their cotangents to those of the wanted inputs.

    With `live`, no zero of the cotangents is one of a mask; the pass also tells whether this holds of what it gives.
    """
    with Tape(graph.name) as tape:
        inside = [tape.leaf(x) if flag else x for x, flag in zip(values, wanted, strict=True)]
        ys = graph.run_flat(inside)
    nodes = [tape.node(y) for y in ys]
    leaves = chosen(inside, wanted)

    def back(gs: Sequence[Value | None]) -> tuple[list[Value], bool]:
        seeds = [(node, g) for node, g in zip(nodes, gs, strict=True) if node is not None and g is not None]
        with quiet():
            reverse = Pass([leaf.aux for leaf in leaves], traced=True, live=live)
            pulled = reverse.run(seeds)
        origins = [reverse.origins.get(leaf.aux.serial) for leaf in leaves]
        stays = live and all(origin is not None and origin.mask is True for origin in origins)
        return [zeros_of(Type.of(x)) if g is None else g for g, x in zip(pulled, leaves, strict=True)], stays

    return [y if node is None else y.value for y, node in zip(ys, nodes, strict=True)], back


def pullback(graph: Graph, wanted: Flags, given: Flags) -> Graph:
    """The graph of (inputs, cotangents of the given outputs) ↦ cotangents of the wanted inputs: both halves in one."""
    return pullback_of(graph, wanted, given, False)[0]


def pullback_of(graph: Graph, wanted: Flags, given: Flags, live: bool) -> tuple[Graph, bool]:
    """The pullback; with `live`, if no zero of the cotangents that go in is one of a mask, and whether none that comes out is."""
    count = len(graph.input_types)

    def make() -> tuple[Graph, bool]:
        stays = []

        def both(values: list[Value]) -> list[Value]:
            _, back = _on_tape(graph, values[:count], wanted, live)
            cotangents, are_live = back(spread(values[count:], given))
            stays.append(are_live)
            return cotangents

        return build(f"pullback_{graph.name}", [*named(graph, range(count)), *_cotangents(graph, given)], both), all(stays)

    return once(graph, ("pullback", wanted, given, live), make)


def vjp(graph: Graph, wanted: Flags, given: Flags, recompute: int = 0, live: bool = False) -> Halves:
    """The halves for cotangents of the given outputs. Equations of the first `recompute` inputs only are in both halves.

    With `live`, for cotangents no zero of which is one of a mask.
    """
    return once(graph, ("vjp", wanted, given, recompute, live), lambda: _halves(graph, wanted, given, recompute, live))


def narrowed(graph: Graph, halves: Halves, wanted: Flags, given: Flags, recompute: int = 0, live: bool = False) -> Halves:
    """The halves for fewer cotangents, live or not, if the same residuals are enough for them; else the same halves."""
    fewer = vjp(graph, wanted, given, recompute, live)
    return fewer if halves.covers(fewer) else halves


def _cotangents(graph: Graph, given: Sequence[bool]) -> list[tuple[str, Type]]:
    return [(f"g{i}", graph.output_types[i]) for i in places(given)]


class _Joint(NamedTuple):
    """The recording of a graph and of its pass back, from which both halves are cut.

        graph f(x, w, g) { v3 = mul x, w;  v4 = sin v3;                                             the first `split` equations
                           v5 = cos v3;  v6 = strong_mul g, v5;  v7 = strong_mul v6, w;  v8 = strong_mul v6, x;
                           return v4, v7, v8 }                                                      `outputs` is 1

    The backward half is what v7 and v8 depend on, behind the split. It reads x, w and g, which are inputs, and v3, which thus is
    a residual: a further output of the forward half.
    """

    graph: Graph
    inputs: int  # of f; those behind are the cotangents of its outputs
    outputs: int  # of f; those behind are the cotangents of its inputs
    split: int

    @property
    def cotangents(self) -> range:
        return range(self.inputs, len(self.graph.input_types))


def _record(graph: Graph, wanted: Flags, given: Flags, live: bool) -> tuple[_Joint, bool]:
    count = len(graph.input_types)
    with Stage(graph.name) as stage:
        xs = [stage.input(name, t) for name, t in named(graph, range(count))]
        gs = [stage.input(distinct(name, stage.names), t) for name, t in _cotangents(graph, given)]
        outputs, back = _on_tape(graph, xs, wanted, live)
        split = len(stage.equations)
        cotangents, stays = back(spread(gs, given))
        joint = stage.graph(graph.name, [*outputs, *cotangents])
    return _Joint(joint, count, len(outputs), split), stays


def _halves(graph: Graph, wanted: Flags, given: Flags, recompute: int, live: bool) -> Halves:
    joint, stays = _record(graph, wanted, given, live)
    back, reads = _backward_half(joint, recompute)
    residuals = [n for n in reads if n >= joint.inputs]
    forward = _forward_half(joint, residuals)
    first = joint.cotangents.stop  # depends on which outputs are given
    return Halves(forward, back, tuple(n for n in reads if n < joint.inputs), tuple(n - first for n in residuals), given, stays)


def _forward_half(joint: _Joint, residuals: Sequence[int]) -> Graph:
    graph = joint.graph
    half = replace(graph, equations=graph.equations[: joint.split], outputs=(*graph.outputs[: joint.outputs], *residuals))
    return simplify(cut(f"forward_{graph.name}", half, range(joint.inputs)))[0]


def _backward_half(joint: _Joint, recompute: int) -> tuple[Graph, list[int]]:
    """The graph of the pass back, and the values of the recording, inputs or residuals, that it takes before the cotangents."""
    graph = joint.graph
    repeated = _depending_on(range(recompute), graph.equations[: joint.split])
    equations = (*repeated, *graph.equations[joint.split :])
    half = dead_code(replace(graph, equations=equations, outputs=graph.outputs[joint.outputs :]))
    computed = {n for equation in half.equations for n in equation.outputs}
    reads = sorted(values_read(half) - computed - set(joint.cotangents))
    back = simplify(cut(f"backward_{graph.name}", half, [*reads, *joint.cotangents], graph.types))[0]
    used = values_read(back)  # simplification may have removed the last use of a value
    kept = [i for i in range(len(reads)) if i in used]
    return cut(back.name, back, [*kept, *range(len(reads), len(back.input_types))]), [reads[i] for i in kept]


def _depending_on(inputs: Iterable[int], equations: Iterable[Equation]) -> list[Equation]:
    """The equations that read nothing but these inputs, and each other."""
    known, found = set(inputs), []
    for equation in equations:
        if known.issuperset(values_in(equation.inputs)):
            found.append(equation)
            known.update(equation.outputs)
    return found
