"""One call of a function, staged: it runs on values of a `Guarded` trace, which records its graph and its guards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..api.arguments import input_names, name_of, output_leaf
from ..core.bind import Traced, called_from_outside
from ..core.errors import TableError, UnsupportedError
from ..core.tree import final, flatten, leaf_names
from ..numpy.layout import with_strides
from ..source import Scope, noting, transformed
from ..source import lines as source_lines
from ..staging.guard import Guarded
from ..staging.purity import watched
from ..staging.reads import Reads
from .arguments import WEAK, Arguments, check_gpus, to_stage
from .specialization import Signature, Staged, in_rows


def stage_call(
    arguments: Arguments,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    signature: Signature,
    reads: Reads,
    scope: Scope | None,
) -> Staged:
    """The graph of a call, and what it depends on. `scope` says whose loops and branches are staged from the source."""
    f = arguments.f
    with np.errstate(all="ignore"), watched(), Guarded("jit", reads.traced is not None) as stage:
        inside = _inputs(arguments, leaves, signature, stage)
        with reads.noting(stage), noting() as became:
            positional, named = _given(arguments, args, kwargs, signature, inside, reads)
            staged = reads.fixed(f)
            staged = staged if scope is None else transformed(staged, scope)
            parts, out_structure = flatten(final(called_from_outside(staged)(*positional, **named)))
            if reads.asks_for_tables:  # and has caught our error
                raise TableError("a plain array is read at a traced index")
            reads.check()
            check_gpus(f, reads.gpus, signature.target)
        outputs = [output_leaf(y, f, "jit") for y in parts]
        if any(type(y) is int and not -(2**63) <= y < 2**63 for y in outputs):
            raise UnsupportedError("it returns a Python integer beyond 64 bits")
        stage.conclude()
        guards = list(stage.guards.values())
        # The last output is the conjunction of the guards, if there are any.
        graph = stage.graph(re.sub(r"\W", "", name_of(f)) or "f", [*outputs, stage.holds()] if guards else outputs)
    if stage.asks_for_order and not all(map(in_rows, reads.values)):
        raise UnsupportedError("it writes in place, and an array that it reads outside is not in C order; pass it as an argument")
    return Staged(
        replace(graph, out_structure=out_structure),
        [guard._replace(number=stage.final(guard.number)) for guard in guards],
        stage.failed,
        reads.places,
        reads.keys,
        reads.inputs,
        [type(x) if type(x) in WEAK else None for x in reads.values],
        [isinstance(x, np.generic) for x in reads.values],
        stage.asks_for_order,
        source_lines(became),
    )


def _inputs(arguments: Arguments, leaves: Sequence[Any], signature: Signature, stage: Guarded) -> list[Traced]:
    """The leaves of the arguments as inputs of the graph; one object that was given twice is one input."""
    names = input_names(arguments.f, leaf_names("", signature.structure))
    strides = signature.strides or (None,) * len(leaves)
    inside = [_input(stage, *described) for described in zip(names, leaves, strides, strict=True)]
    return [inside[i] for i in signature.static[-1][1]] if arguments.compares_identity else inside


def _input(stage: Guarded, name: str, x: Any, strides: Any) -> Traced:
    """An argument; the numbers that staging uses keep the memory layout of the user's array."""
    if strides is None:
        return stage.input_like(name, to_stage(x))
    traced = stage.input_like(name, with_strides(x, strides))
    traced.layout = strides
    return traced


def _given(
    arguments: Arguments, args: Sequence[Any], kwargs: dict[str, Any], signature: Signature, inside: list[Traced], reads: Reads
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that the function is called with: traced ones, and the static ones as they are."""
    free, named = signature.structure.unflatten(inside)  # may compute, as the columns of a table
    rest = iter(free)
    positional = [reads.fixed(a) if i in arguments.static_argnums else next(rest) for i, a in enumerate(args)]
    return positional, named | {k: reads.fixed(kwargs[k]) for k in arguments.static_argnames if k in kwargs}
