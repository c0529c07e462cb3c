"""One call of a function, staged: it runs on values of a `Guarded` trace, which records its graph and its guards.

A `Stager` stages a call again where the first attempt shows that it must be staged in another way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..api.arguments import input_names, name_of, output_leaf
from ..api.caught import Caught
from ..core.bind import Traced, called_from_outside, is_array
from ..core.errors import BatchError, ConversionError, TableError, UnsupportedError, runs_inside
from ..core.tree import final, flatten, leaf_names
from ..numpy.layout import with_strides
from ..numpy.selected import trimmed
from ..numpy.tables import traced_tables
from ..source.notes import lines as source_lines
from ..source.notes import noting
from ..source.scope import ADOPTED_LOOPS, ALL, Scope, reaches_adopted
from ..staging.distinct import note_distinct
from ..staging.guard import Guarded
from ..staging.purity import Draws, difference, is_alone, watched
from ..staging.reads import Reads
from ..staging.unread import unread
from .arguments import WEAK, Arguments, check_gpus, to_stage
from .recompilation import varying_lines
from .specialization import Signature, Specialization, Staged, in_rows


class Stager:
    """Stages the calls of one function, and remembers in which respects they differ."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments, self.source = arguments, arguments.options.source
        self.varying: set[Any] = set()  # outside places whose values have changed: numbers there become inputs
        self.branches: set[str] = set()  # lines where calls have gone both ways: branches of adopted code there are staged
        self.by_order = False  # there is a program for arrays in C order only
        self.writes = False  # to an argument that other inputs may share memory with

    def stage(self, args: Any, kwargs: Any, leaves: Sequence[Any], signature: Signature) -> Staged:
        """The graph of this call, and what it depends on. Arrays that the function reads outside are inputs.

        If the function passes them to code that takes plain arrays only, it is staged with the arrays of this call instead,
        which are then compared at each call. A number that varies is an input, too, unless code takes plain numbers only.
        """

        def once(reads: Reads) -> Staged:
            staged = stage_call(self.arguments, args, kwargs, leaves, signature, reads, self._scope())
            self.by_order |= staged.by_order
            self.writes |= bool(staged.apart)
            return staged

        draws = Draws(self.arguments.f)
        reads = Reads(self.varying)
        try:
            try:
                staged = once(reads)
            except BatchError as error:  # a branch on which the examples differ
                if error.line in self.branches or not self._stages_varying():
                    raise
                self.branches.add(error.line)
                return self.stage(args, kwargs, leaves, signature)
            except Exception:  # the function may have replaced our error
                if not reads.asks_for_tables:
                    raise
                reads = Reads(self.varying, traced=traced_tables)
                staged = once(reads)
        except ConversionError:
            if not reads.inputs:
                raise
            reads = Reads(by_value=True, traced=reads.traced)
            staged = once(reads)
        except TypeError as error:  # Python's: code in C, or `bool(x)` and the like, takes no traced number
            if type(error) is not TypeError or not reads.has_numbers:
                raise
            reads = Reads(traced=reads.traced)
            staged = once(reads)
        if draws.is_blind:
            return self.stage(args, kwargs, leaves, signature)
        if draws.happened:
            again = None if is_alone() else once(reads.again())
            if again is None or difference(staged.graph, again.graph) is not None:
                draws.undo()
                raise UnsupportedError("it draws random numbers; pass them as an argument")
        return staged

    def varies(self, staged: Staged, known: Sequence[Specialization]) -> bool:
        """Note where this call takes other branches than earlier ones; whether adopted code can be staged with both.

        So k branches need k + 1 programs at most, and not one for each combination.
        """
        if staged.failed or not self._stages_varying():
            return False
        before = len(self.branches)
        for specialization in known:
            self.branches |= varying_lines(staged.guards, specialization.guards)
        return len(self.branches) > before

    def _stages_varying(self) -> bool:
        return self.source is None and reaches_adopted(self.arguments.f)

    def _scope(self) -> Scope | None:
        """Whose loops and branches are staged from the source."""
        if self.source is None:
            return replace(ADOPTED_LOOPS, varying=frozenset(self.branches)) if self._stages_varying() else None
        return ALL if self.source else None


@runs_inside
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
    f, caught = arguments.f, Caught(arguments.f, "jit")
    tables, bools = reads.traced is not None, arguments.line_of_bool is not None
    with np.errstate(all="ignore"), watched(), Guarded("jit", tables, bools) as stage:
        inside = _inputs(arguments, leaves, signature, stage)
        before = [x.aux for x in inside]
        if arguments.compares_identity:
            reads.given = {id(x): traced for x, traced in zip(arguments.given(args, kwargs)[0], inside, strict=True)}
        with reads.noting(stage), noting() as became:
            positional, named = _given(arguments, args, kwargs, signature, inside, reads)
            staged = reads.fixed(f)
            staged = staged if scope is None else _from_source(staged, scope)
            parts, out_structure = flatten(final(called_from_outside(staged)(*positional, **named), trimmed))
            if reads.asks_for_tables:  # and has caught our error
                raise TableError("a plain array is read at a traced index")
            caught.refuse()
            reads.check()
            check_gpus(f, reads.gpus, signature.target)
        note_distinct(reads, arguments.compares_identity)
        if arguments.asks_for_sharing and any(isinstance(x, np.ndarray) for x in reads.values):
            raise UnsupportedError("it asks whether arrays share memory, and reads one outside; pass it as an argument")
        outputs = [output_leaf(y, f, "jit") for y in parts]
        if any(type(y) is int and not -(2**63) <= y < 2**63 for y in outputs):
            raise UnsupportedError("it returns a Python integer beyond 64 bits")
        stage.conclude()
        guards = list(stage.guards.values())
        # Behind the results are values that are computed because they may fail; last the conjunction of the guards, if any.
        answers = [stage.holds()] if guards else []
        graph = stage.graph(re.sub(r"\W", "", name_of(f)) or "f", [*outputs, *unread(stage, [*outputs, *answers]), *answers])
    _refuse_bools(arguments, signature, stage)
    if stage.asks_for_order and not all(map(in_rows, reads.values)):
        raise UnsupportedError("it writes in place, and an array that it reads outside is not in C order; pass it as an argument")
    written = [i for i, x in enumerate(inside) if x.aux is not before[i] or i in signature.donated]
    return Staged(
        graph=replace(graph, out_structure=out_structure),
        guards=[guard._replace(number=stage.final(guard.number)) for guard in guards],
        failed=stage.failed,
        places=reads.places,
        keys=reads.keys,
        captured=reads.inputs,
        weak=[type(x) if type(x) in WEAK else None for x in reads.values],
        scalars=[isinstance(x, np.generic) for x in reads.values],
        by_order=stage.asks_for_order,
        apart=_apart([*inside, *reads.values], written),
        source=source_lines(became),
    )


def _refuse_bools(arguments: Arguments, signature: Signature, stage: Guarded) -> None:
    """Raise if the function compares by identity with True or False, and has met a bool."""
    if (bool in signature.weak or stage.has_bools) and arguments.line_of_bool is not None:
        raise UnsupportedError(
            "it compares by identity with True or False, which no traced bool is; write `if x:`, or name the argument in "
            "static_argnames",
            arguments.line_of_bool,
        )


def _apart(inputs: Sequence[Any], written: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of arrays of which one is written to: the program is right if they do not share memory."""
    arrays = [i for i, x in enumerate(inputs) if is_array(x)]
    return [(i, j) for i in written for j in arrays if inputs[i] is not inputs[j] and (i < j or j not in written)]


def _from_source(f: Any, scope: Scope) -> Any:
    """A function with the loops and branches of its source staged."""
    from ..source.running import transformed  # heavy: the rewriting of syntax trees, which few programs need

    return transformed(f, scope)


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
    traced.memory_layout = strides
    return traced


def _given(
    arguments: Arguments, args: Sequence[Any], kwargs: dict[str, Any], signature: Signature, inside: list[Traced], reads: Reads
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that the function is called with: traced ones, and the static ones as they are."""
    free, named = signature.structure.unflatten(inside)  # may compute, as the columns of a table
    rest = iter(free)
    positional = [reads.fixed(a) if i in arguments.static_argnums else next(rest) for i, a in enumerate(args)]
    return positional, named | {k: reads.fixed(kwargs[k]) for k in arguments.static_argnames if k in kwargs}
