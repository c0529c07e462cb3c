"""Reverse mode on graphs: a forward graph that also returns residuals, and a backward graph that reads them.

    graph f(x, w)            { v2 = mul x, w;  v3 = sin v2;  return v3 }
    graph forward_f(x, w)    { v2 = mul x, w;  v3 = sin v2;  return v3, v2 }
    graph backward_f(x, w, v2, g) { v4 = cos v2;  v5 = strong_mul g, v4;
                                    v6 = strong_mul v5, w;  v7 = strong_mul v5, x;  return v6, v7 }

Both are cut from one recording (`_Joint`). An input that the backward half reads is not a residual: the caller still has it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.floating import quiet
from ..core.types import Type, Value, shape_of
from ..eager.backward import Pass
from ..eager.origin import Marked, Origin
from ..eager.tape import Inner, Node, Tape
from ..ir.edit import cut, dead_code, distinct, values_in, values_read
from ..ir.graph import Equation, Graph
from ..ops.broadcast import broadcast_to, zeros_of
from ..ops.elementwise import not_equal
from ..staging.stage import Stage
from .build import Flags, build, chosen, named, once, parts, places, simplified, spread


class Halves(NamedTuple):
    """The two halves of a reverse pass.

    forward    inputs ↦ outputs, residuals
    backward   the inputs in `needed`, residuals, cotangents of the given outputs ↦ cotangents of the wanted inputs
    residuals  numbers of values in the recording, the same for any choice of given outputs
    masked     whether the backward half also takes the masks of the cotangents (see `Pull`), and gives those of its results;
               if not, its products are ordinary ones
    live       without masks: if all of the cotangents that go in are live, so are those that come out
    """

    forward: Graph
    backward: Graph
    needed: tuple[int, ...]
    residuals: tuple[int, ...]
    given: Flags
    masked: bool = False
    live: bool = False

    def residual_types(self) -> list[Type]:
        return list(self.forward.output_types[len(self.forward.output_types) - len(self.residuals) :])

    def covers(self, other: Halves) -> bool:
        """Whether the forward half of this returns all that the backward half of the other reads."""
        return set(self.needed) >= set(other.needed) and set(self.residuals) >= set(other.residuals)

    def pull(
        self,
        reads: Mapping[int, Value],
        residuals: Mapping[int, Value],
        cotangents: Mapping[int, Value],
        masks: Mapping[int, Value],
        types: Sequence[Type],
    ) -> tuple[list[Value], list[Value] | None]:
        """Run the backward half on inputs, residuals, cotangents and masks of outputs of these types, each by its number."""
        given = places(self.given)
        gs = [cotangents[i] if i in cotangents else zeros_of(types[i]) for i in given]
        if self.masked:
            gs += [full(i in cotangents and masks.get(i, True), types[i]) for i in given]
        found = self.backward.run_flat([*(reads[i] for i in self.needed), *(residuals[i] for i in self.residuals), *gs])
        if not self.masked:
            return found, None
        count = len(found) // 2
        return found[:count], found[count:]


def mask_type(t: Type) -> Type:
    return Type(t.shape, np.dtype(bool))


def full(mask: Any, t: Type) -> Value:
    """A mask of a cotangent of that type, as an array of its shape."""
    if isinstance(mask, bool):
        return np.full(t.shape, mask)[()]
    return mask if shape_of(mask) == t.shape else broadcast_to(mask, shape=t.shape)


def known_masks(gs: Sequence[Value | None], masks: Sequence[Any]) -> list[Any]:
    """The masks of these cotangents: where nothing is known of one, its zeros count."""
    return [not_equal(g, 0) if mask is None and g is not None else mask for g, mask in zip(gs, masks, strict=True)]


def all_live(gs: Sequence[Value | None], masks: Sequence[Any] | None) -> bool:
    """Whether all cotangents are given and live, or to be treated as if they were."""
    return masks is None or all(g is not None and mask is True for g, mask in zip(gs, masks, strict=True))


def _on_tape(
    graph: Graph, values: Sequence[Value], wanted: Sequence[bool]
) -> tuple[list[Value], Callable[[Sequence[Value | None], Sequence[Any]], tuple[list[Value], list[Any]]]]:
    """Run a graph on a tape: the outputs, and the backward pass from their cotangents and masks to those of the wanted inputs."""
    with Tape(graph.name) as tape:
        inside = [tape.leaf(x, Inner) if flag else x for x, flag in zip(values, wanted, strict=True)]
        ys = graph.run_flat(inside)
    nodes = [tape.node(y) for y in ys]
    leaves = chosen(inside, wanted)

    def back(gs: Sequence[Value | None], masks: Sequence[Any]) -> tuple[list[Value], list[Any]]:
        seeds: list[tuple[Node, Value]] = []
        origins: list[Origin] = []
        for node, g, mask in zip(nodes, gs, masks, strict=True):
            if node is not None and g is not None:
                seeds.append((node, g))
                origins.append(Marked(functools.partial(_known, mask)))
        with quiet():
            reverse = Pass([leaf.aux for leaf in leaves], traced=True)
            pulled = reverse.run(seeds, origins)
            given, found = [], []
            for g, leaf in zip(pulled, leaves, strict=True):
                origin = reverse.origins.get(leaf.aux.serial)
                given.append(zeros_of(Type.of(leaf)) if g is None else g)
                found.append(False if g is None else None if origin is None else origin.mask)
        return given, known_masks(given, found)

    return [y if node is None else y.underlying for y, node in zip(ys, nodes, strict=True)], back


def _known(mask: Any) -> Any:
    return mask


def pullback(graph: Graph, wanted: Flags, given: Flags) -> Graph:
    """The graph of (inputs, cotangents of the given outputs) ↦ cotangents of the wanted inputs: both halves in one."""
    return pullback_of(graph, wanted, given)[0]


def pullback_of(graph: Graph, wanted: Flags, given: Flags, masked: bool = False) -> tuple[Graph, bool]:
    """The pullback, with masks behind the cotangents or without, and, if without, whether live cotangents stay live."""
    count = len(graph.input_types)

    def make() -> tuple[Graph, bool]:
        stays = []

        def both(values: list[Value]) -> list[Value]:
            _, back = _on_tape(graph, values[:count], wanted)
            cotangents, masks = back(*_seeds(values[count:], given, masked))
            stays.append(all(mask is True for mask in masks))
            return _results(cotangents, masks, masked)

        inputs = [*named(graph, range(count)), *_cotangents(graph, given, masked)]
        return build(f"pullback_{graph.name}", inputs, both), all(stays)

    return once(graph, ("pullback", wanted, given, masked), make)


def vjp(graph: Graph, wanted: Flags, given: Flags, recompute: int = 0, masked: bool = False) -> Halves:
    """The halves for cotangents of the given outputs. Equations of the first `recompute` inputs only are in both halves."""
    return once(graph, ("vjp", wanted, given, recompute, masked), lambda: _halves(graph, wanted, given, recompute, masked))


def vjp_for_both(graph: Graph, wanted: Flags, given: Flags, recompute: int = 0) -> Halves:
    """Halves whose residuals are enough for the pass with masks and for that without."""
    plain = vjp(graph, wanted, given, recompute)
    if plain.live:  # no mask can be found there
        return plain
    masked = vjp(graph, wanted, given, recompute, masked=True)
    return masked if masked.covers(plain) else plain


def narrowed(graph: Graph, halves: Halves, wanted: Flags, given: Flags, recompute: int = 0, masked: bool = False) -> Halves:
    """The halves for fewer cotangents, with masks or not, if the same residuals are enough for them; else the same halves."""
    fewer = vjp(graph, wanted, given, recompute, masked)
    return fewer if halves.covers(fewer) else halves


def _seeds(values: Sequence[Value], given: Flags, masked: bool) -> tuple[list[Value | None], list[Any]]:
    """Cotangents, and masks, of all outputs from those of the given ones."""
    gs, masks = parts(values, sum(given))
    return spread(gs, given), spread(masks if masked else [True] * len(gs), given)


def _results(cotangents: Sequence[Value], masks: Sequence[Any], masked: bool) -> list[Value]:
    return [*cotangents, *(full(mask, Type.of(g)) for g, mask in zip(cotangents, masks, strict=True) if masked)]


def _cotangents(graph: Graph, given: Sequence[bool], masked: bool) -> list[tuple[str, Type]]:
    types = [(i, graph.output_types[i]) for i in places(given)]
    return [*((f"g{i}", t) for i, t in types), *((f"live{i}", mask_type(t)) for i, t in types if masked)]


class _Joint(NamedTuple):
    """The recording of a graph and of its backward pass, from which both halves are cut.

        graph f(x, w, g) { v3 = mul x, w;  v4 = sin v3;                                             the first `split` equations
                           v5 = cos v3;  v6 = strong_mul g, v5;  v7 = strong_mul v6, w;  v8 = strong_mul v6, x;
                           return v4, v7, v8 }                                                      `outputs` is 1

    The backward half is what v7 and v8 depend on, behind the split. It reads x, w and g, which are inputs, and v3, which thus is
    a residual: a further output of the forward half.
    """

    graph: Graph
    inputs: int  # of f; the rest are the cotangents of its outputs
    outputs: int  # of f; the rest are the cotangents of its inputs
    split: int

    @property
    def cotangents(self) -> range:
        return range(self.inputs, len(self.graph.input_types))


def _record(graph: Graph, wanted: Flags, given: Flags, masked: bool) -> tuple[_Joint, bool]:
    count = len(graph.input_types)
    with Stage(graph.name) as stage:
        xs = [stage.input(name, t) for name, t in named(graph, range(count))]
        gs = [stage.input(distinct(name, stage.names), t) for name, t in _cotangents(graph, given, masked)]
        outputs, back = _on_tape(graph, xs, wanted)
        split = len(stage.equations)
        cotangents, masks = back(*_seeds(gs, given, masked))
        joint = stage.graph(graph.name, [*outputs, *_results(cotangents, masks, masked)])
    return _Joint(joint, count, len(outputs), split), all(mask is True for mask in masks)


def _halves(graph: Graph, wanted: Flags, given: Flags, recompute: int, masked: bool) -> Halves:
    joint, stays = _record(graph, wanted, given, masked)
    back, reads = _backward_half(joint, recompute)
    residuals = [n for n in reads if n >= joint.inputs]
    forward = _forward_half(joint, residuals)
    first = joint.cotangents.stop  # depends on which outputs are given
    needed = tuple(n for n in reads if n < joint.inputs)
    return Halves(forward, back, needed, tuple(n - first for n in residuals), given, masked, stays)


def _forward_half(joint: _Joint, residuals: Sequence[int]) -> Graph:
    graph = joint.graph
    half = replace(graph, equations=graph.equations[: joint.split], outputs=(*graph.outputs[: joint.outputs], *residuals))
    return simplified(cut(f"forward_{graph.name}", half, range(joint.inputs)))


def _backward_half(joint: _Joint, recompute: int) -> tuple[Graph, list[int]]:
    """The graph of the backward pass, and the values of the recording (inputs or residuals) that it takes before the
    cotangents.
    """
    graph = joint.graph
    repeated = _depending_on(range(recompute), graph.equations[: joint.split])
    equations = (*repeated, *graph.equations[joint.split :])
    half = dead_code(replace(graph, equations=equations, outputs=graph.outputs[joint.outputs :]))
    computed = {n for equation in half.equations for n in equation.outputs}
    reads = sorted(values_read(half) - computed - set(joint.cotangents))
    back = simplified(cut(f"backward_{graph.name}", half, [*reads, *joint.cotangents], graph.types))
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
