"""Carries of loops that do not change, or that nothing reads; constants that go into loops and branches.

    scan: s = s + g * x,  g = g,  live = live   from g = v3, live = True        becomes        scan: s = s + v3 * x

A carry that every iteration passes on unchanged is a const; if it starts from a constant, it is that constant in the body. The
masks of cotangents are such carries in most loops, or become so by induction: live = live or other, from live = True
(`_steady`). A result that both branches of a `cond` pass on is that operand. A carry that only its own next iteration reads is
dropped; the forward pass of a `while_vjp` does not compute a state that the backward pass does not read. What remains of a
`while_vjp` cannot be differentiated, since its rules expect all masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...core.op import Op
from ...ir.edit import cut, dead_code, has_bodies, map_bodies, mapped, renumber, substitute, values_in, values_read
from ...ir.graph import Equation, Graph, Literal, Operand
from ...ops import control
from ...ops.broadcast import broadcast_to, reshape, transpose
from ...ops.elementwise import bitwise_and, bitwise_or, logical_and, logical_not, logical_or
from ...ops.index import getitem
from ...ops.reduce import any_
from ..simplify import simplify

G = TypeVar("G", bound=Graph)

_MOST_ROUNDS = 4


def drop_idle_carries(graph: G, final: bool = True) -> G:
    """The same results from loops without carries that are invariant or dead; simplified again if there were any."""
    for _ in range(_MOST_ROUNDS if has_bodies(graph) else 0):
        smaller = _trimmed(graph)
        if smaller is graph:
            break
        graph = simplify(smaller, final=final)[0]
    return graph


def _trimmed(graph: G) -> G:
    """One round over a graph and its bodies; the same object if nothing is found."""
    inner = map_bodies(graph, _trimmed_body)
    same: dict[int, Operand] = {}  # results of loops that are operands of them

    def read(n: int) -> Operand:
        return same.get(n, n)

    equations = []
    for e in inner.equations:
        if same:
            e = replace(e, inputs=mapped(e.inputs, read))
        if e.op in _INVARIANT:
            e, found = _INVARIANT[e.op](e)
            same |= found
        equations.append(e)
    made = replace(inner, equations=tuple(equations), outputs=mapped(inner.outputs, read))
    smaller = renumber(_without_dead_pulls(dead_code(made)))
    return graph if smaller == graph else smaller


def _trimmed_body(body: Graph) -> Graph:
    """The body of a loop, trimmed once, however often it occurs."""
    if not has_bodies(body):
        return body
    if "trimmed" not in body.derived:
        body.derived["trimmed"] = _trimmed(body)
    return body.derived["trimmed"]  # type: ignore[no-any-return]


# -- invariant carries --------------------------------------------------------------------------------------------------

Found = tuple[Equation, dict[int, Operand]]  # the loop, and the results that are operands of it


def _scan(e: Equation) -> Found:
    e, same = _with_shared_rows(e)
    smaller, found = _with_fixed_carries(e)
    return smaller, same | found


def _with_shared_rows(e: Equation) -> Found:
    """A scan that reads each array of rows once, and stacks each value once."""
    body, consts, carries = (e.params[key] for key in ("body", "consts", "carries"))
    first: dict[Any, int] = {}
    rows = {n: first.setdefault(e.inputs[n], n) for n in range(consts + carries, len(e.inputs)) if isinstance(e.inputs[n], int)}
    again = {n: m for n, m in rows.items() if n != m}
    stacks = {i: first.setdefault(("stack", o), i) for i, o in enumerate(body.outputs) if i >= carries and isinstance(o, int)}
    same: dict[int, Operand] = {e.outputs[i]: e.outputs[j] for i, j in stacks.items() if i != j}
    if not again:
        return e, same
    inputs = [n for n in range(len(e.inputs)) if n not in again]
    inner = cut(body.name, substitute(body, again), inputs)
    return _picked(e, {"body": inner}, inputs, range(len(e.outputs))), same


def _with_fixed_carries(e: Equation) -> Found:
    body, consts, carries = (e.params[key] for key in ("body", "consts", "carries"))
    steady = _steady(body, {k: (consts + k, e.inputs[consts + k]) for k in range(carries)})
    fixed = [k for k in range(carries) if body.outputs[k] == consts + k or k in steady]
    constant = _constants(e.inputs, [*range(consts), *(consts + k for k in fixed)]) | _unread(body, range(consts))
    if not fixed and not constant:
        return e, {}
    fixed_inputs = [n for n in (*range(consts), *(consts + k for k in fixed)) if n not in constant]
    inputs = [*fixed_inputs, *(consts + k for k in range(carries) if k not in fixed), *range(consts + carries, len(e.inputs))]
    kept = [i for i in range(len(e.outputs)) if i not in fixed]
    inner = _with_outputs(substitute(body, constant), kept)
    params = {"body": cut(body.name, inner, inputs), "consts": len(fixed_inputs), "carries": carries - len(fixed)}
    return _picked(e, params, inputs, kept), {e.outputs[k]: e.inputs[consts + k] for k in fixed}


def _steady(body: Graph, carries: Mapping[int, tuple[int, Operand]]) -> set[int]:
    """The outputs that are the truth value that their carries start from, in every iteration; by output, a carry and its start.

        live' = live or x, other' = other and live, from live = other = True: both stay True

    All are assumed to stay as they are, and dropped as long as one does not follow from the others.
    """
    found = {i: truth for i, (_, start) in carries.items() if (truth := _truth(start)) is not None}
    while found:
        known = {carries[i][0]: truth for i, truth in found.items()}
        for e in body.equations:
            if e.op in _TRUTH and e.types[0].dtype == bool and e.types[0].size:
                truth = _TRUTH[e.op]([known.get(o) if isinstance(o, int) else _truth(o) for o in e.inputs])
                if truth is not None:
                    known[e.outputs[0]] = truth
        ends = {i: known.get(o) if isinstance(o := body.outputs[i], int) else _truth(o) for i in found}
        if ends == found:
            break
        found = {i: truth for i, truth in found.items() if ends[i] == truth}
    return set(found)


def _truth(o: Operand) -> bool | None:
    """What all elements of a constant are."""
    if not isinstance(o, Literal) or o.is_weak or o.value.dtype != bool or not o.value.size:
        return None
    return bool(o.value.flat[0]) if o.value.all() == o.value.any() else None


def _any_true(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def _all_true(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


# What the result of an op is, given what is known of its operands.
_TRUTH: dict[Op, Callable[[list[bool | None]], bool | None]] = {
    logical_or: _any_true,
    logical_and: _all_true,
    bitwise_or: _any_true,
    bitwise_and: _all_true,
    logical_not: lambda truths: None if truths[0] is None else not truths[0],
    any_: lambda truths: truths[0],
    reshape: lambda truths: truths[0],
    broadcast_to: lambda truths: truths[0],
    transpose: lambda truths: truths[0],
    getitem: lambda truths: truths[0],
}


def _unread(graph: Graph, consts: range) -> dict[int, Literal]:
    """The consts of a graph that it does not read, by operand of the loop: any number can stand for them."""
    read = values_read(graph)
    return {n: _ANY for i, n in enumerate(consts) if i not in read}


_ANY = Literal(0)


def _while(e: Equation) -> Found:
    test, body, asked, consts = (e.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    first, carries = asked + consts, len(e.outputs)
    steady = _steady(body, {k: (consts + k, e.inputs[first + k]) for k in range(carries)})
    fixed = [k for k in range(carries) if body.outputs[k] == consts + k or k in steady]
    fixed = [] if len(fixed) == carries else fixed  # without a carry it would not end
    constant = _constants(e.inputs, [*range(first), *(first + k for k in fixed)])
    constant |= _unread(test, range(asked)) | _unread(body, range(asked, first))
    if not fixed and not constant:
        return e, {}
    kept = [k for k in range(carries) if k not in fixed]
    moved = [first + k for k in fixed if first + k not in constant]

    def inner(graph: Graph, own: range) -> tuple[Graph, list[int]]:
        """A graph and its consts, by operand of the loop; `own` are those that it has."""
        place = {n: i for i, n in enumerate((*own, *range(first, first + carries)))}
        operands = [*(n for n in own if n not in constant), *moved]
        found = substitute(graph, {place[n]: o for n, o in constant.items() if n in place})
        return cut(graph.name, found, [place[n] for n in (*operands, *(first + k for k in kept))]), operands

    asks, test_consts = inner(test, range(asked))
    runs, body_consts = inner(_with_outputs(body, kept), range(asked, first))
    params = {"cond": asks, "body": runs, "cond_consts": len(test_consts), "body_consts": len(body_consts)}
    inputs = [*test_consts, *body_consts, *(first + k for k in kept)]
    return _picked(e, params, inputs, kept), {e.outputs[k]: e.inputs[first + k] for k in fixed}


def _cond(e: Equation) -> Found:
    """A result that both branches give alike is an operand, or a constant."""
    true, false = e.params["true"], e.params["false"]
    constant = {n - 1: o for n, o in _constants(e.inputs, range(1, len(e.inputs))).items()}
    if constant:
        kept = [n for n in range(len(e.inputs) - 1) if n not in constant]
        true, false = (cut(way.name, substitute(way, constant), kept) for way in (true, false))
        e = _picked(e, {"true": true, "false": false}, [0, *(1 + n for n in kept)], range(len(e.outputs)))
    alike = [(n, a) for n, a, b in zip(e.outputs, true.outputs, false.outputs, strict=True) if a == b]
    return e, {n: o if isinstance(o, Literal) else e.inputs[1 + o] for n, o in alike if not _is_computed(o, true)}


def _is_computed(o: Operand, graph: Graph) -> bool:
    return isinstance(o, int) and o >= len(graph.input_types)


def _while_vjp(e: Equation) -> Found:
    """Constants only: any other const of a `while_vjp` may have a cotangent of its own."""
    step, pull, consts, wanted = (e.params[key] for key in ("step", "pull", "consts", "wanted"))
    shared = sum(wanted[:consts])
    states = {k - consts: k for k in range(consts, len(wanted)) if step.outputs[k - consts] == k}
    begins = {shared + i: n for i, n in enumerate(range(len(wanted), len(pull.input_types)))}
    steady = _steady(pull, {i: (n, e.inputs[1 + n]) for i, n in begins.items()})
    pulled = {i: n for i, n in begins.items() if pull.outputs[i] == n or i in steady}
    constant = {n - 1: o for n, o in _constants(e.inputs, [1 + n for n in (*states.values(), *pulled.values())]).items()}
    params = {"step": _with_constants(step, constant, states), "pull": _with_constants(pull, constant, pulled)}
    found = replace(e, params={**e.params, **params})
    return found, {e.outputs[i]: e.inputs[1 + n] for i, n in pulled.items()}


def _constants(operands: Sequence[Operand], places: Iterable[int]) -> dict[int, Literal]:
    """Those of some operands that are constants with a dtype, by place."""
    return {n: o for n in places if isinstance(o := operands[n], Literal) and not o.is_weak}


def _with_constants(graph: Graph, constant: Mapping[int, Operand], own: dict[int, int]) -> Graph:
    """With constants in place of inputs, except in the outputs that pass an input on."""
    here = {n: o for n, o in constant.items() if n < len(graph.input_types)}
    made = substitute(graph, here)
    return replace(made, outputs=tuple([own.get(i, o) for i, o in enumerate(made.outputs)]))


def _with_outputs(graph: Graph, kept: Sequence[int]) -> Graph:
    return replace(graph, outputs=tuple([graph.outputs[i] for i in kept]))


def _picked(e: Equation, params: dict[str, Any], inputs: Sequence[int], outputs: Sequence[int]) -> Equation:
    """An equation with some of its operands and results, by place."""
    return replace(
        e,
        params={**e.params, **params},
        inputs=tuple([e.inputs[i] for i in inputs]),
        outputs=tuple([e.outputs[i] for i in outputs]),
        types=tuple([e.types[i] for i in outputs]),
    )


_INVARIANT: dict[Op, Callable[[Equation], Found]] = {
    control.scan: _scan,
    control.while_: _while,
    control.while_vjp: _while_vjp,
    control.cond: _cond,
}

# -- dead states and cotangents -----------------------------------------------------------------------------------------


def _without_dead_pulls(graph: G) -> G:
    if not any(e.op is control.while_vjp for e in graph.equations):
        return graph
    needed = set(values_in(graph.outputs))
    kept: list[Equation] = []
    for e in reversed(graph.equations):
        if not needed.isdisjoint(e.outputs):
            kept.append(_shortened(e, needed) if e.op is control.while_vjp else e)
            needed.update(values_in(kept[-1].inputs))
    return replace(graph, equations=tuple(reversed(kept)))


def _shortened(e: Equation, needed: set[int]) -> Equation:
    """A `while_vjp` without the cotangents that no result needs, and without the states that neither pass reads.

    A state that has a cotangent stays, since it has the type of the cotangent; it is not computed.
    """
    step, pull, consts, wanted = (e.params[key] for key in ("step", "pull", "consts", "wanted"))
    count, states = len(wanted), range(consts, len(wanted))
    owners = [k for k in range(count) if wanted[k]]  # whose cotangents the results are
    cotangents = {k: count + i for i, k in enumerate([k for k in owners if k >= consts])}  # inputs of the pull
    unneeded = {k for k, n in zip(owners, e.outputs, strict=True) if n not in needed}
    back, dead = _live_pull(pull, owners, cotangents, unneeded)
    live = _live_states(step, states, values_read(back))
    held = [k for k in states if k in live or (wanted[k] and k not in dead)]
    if not held:
        return e
    kept = [i for i, k in enumerate(owners) if k not in dead]
    results = [step.outputs[k - consts] if k in live else k for k in held]
    inputs = [*range(consts), *held]
    pulled = [cotangents[k] for k in owners if k in cotangents and k not in dead]
    params = {
        "step": cut(step.name, dead_code(replace(step, outputs=tuple(results))), inputs),
        "pull": cut(pull.name, back, [*inputs, *pulled]),
        "wanted": tuple([wanted[k] and k not in dead for k in inputs]),
    }
    return _picked(e, params, [0, *(1 + n for n in (*inputs, *pulled))], kept)


def _live_pull(pull: Graph, owners: list[int], cotangents: dict[int, int], unneeded: set[int]) -> tuple[Graph, set[int]]:
    """The backward pass without dead cotangents, and these: no result needs them, and no iteration reads them for a live one."""
    dead = set(unneeded)
    while True:
        back = dead_code(_with_outputs(pull, [i for i, k in enumerate(owners) if k not in dead]))
        read = values_read(back)
        alive = {k for k in dead if cotangents.get(k) in read}
        if not alive:
            return back, dead
        dead -= alive


def _live_states(step: Graph, states: range, read: set[int]) -> set[int]:
    """The states that the backward pass reads, and those from which a step computes these."""
    live = read & {*states}
    while True:
        forward = dead_code(_with_outputs(step, sorted(k - states.start for k in live)))
        more = live | (values_read(forward) & {*states})
        if more == live:
            return live
        live = more
