"""One compiled program of a function: what it was made for, what it is made of, how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.locks import cached
from ..core.places import Place, described, values_at
from ..core.tree import Structure
from ..core.types import Type
from ..ir.graph import Graph
from ..staging.questions import Guard
from .runtime import program_cache
from .switches import Switch

if TYPE_CHECKING:  # heavy: the passes and the code generator, which a program from disk does not need
    from ..rewrite.pipeline import Optimized
    from .lower.step import Lowered

Function = Callable[..., Any]
PROFILED_CALLS, PROFILED_SECONDS = 1000, 1.0


SAME_OBJECTS = "same objects"  # which arguments are the same object, beside the values of static ones


class GpuTarget(NamedTuple):
    """The GPU that a program runs on."""

    gpu: int
    gives_back: bool  # results are copied to the host: all arguments were there

    def __str__(self) -> str:
        return f"on GPU {self.gpu}"


class Signature(NamedTuple):
    """What a compiled program depends on, besides the numbers."""

    structure: Structure
    types: tuple[Type, ...]
    weak: tuple[Any, ...]  # the class of a Python number, None for an array
    static: tuple[Any, ...]
    scalars: tuple[bool, ...]  # whether a 0-d value is a NumPy scalar, not an array
    strides: tuple[Any, ...] = ()  # where they matter: the strides of each array that is not in C order; None for the others
    target: GpuTarget | None = None  # None: this processor
    donated: tuple[int, ...] = ()  # arguments whose memory results may take
    orders: tuple[Any, ...] = ()  # the keys of dicts that are not sorted: loops over them follow their order

    def __str__(self) -> str:
        shown = [f"{t!r}" if w is None else w.__name__ for t, w in zip(self.types, self.weak, strict=True)]
        where = [] if self.target is None else [str(self.target)]
        return ", ".join([*shown, *(f"{value!r}" for _, value in self.static), *where])


class Staged(NamedTuple):
    """What staging a function gives: its graph, and what that depends on."""

    graph: Graph
    guards: Sequence[Guard]
    failed: bool  # an operation has failed, and the function went on
    places: Sequence[Place]  # read outside of the function
    keys: Sequence[Any]  # of the places, the same in every staging
    captured: Sequence[int]  # the places of the last inputs of the graph
    weak: Sequence[Any]  # the class of each of those that is a Python number, else None
    scalars: Sequence[bool]  # whether each of those is one of NumPy's scalars
    by_order: bool  # the memory order of its inputs decides what is a view and what is a copy
    apart: Sequence[tuple[int, int]]  # inputs that must not share memory: one of them is written to
    source: Sequence[str] = ()  # what became of each loop and branch of the source


def lower(graph: Graph, weak: Collection[int], guarded: bool, unread: int) -> Lowered:
    """The steps of a graph: see `lower.fuse`."""
    from .lower import fuse  # heavy: the code generator, which a program from disk does not need

    return fuse.lower(graph, weak, guarded, unread)


class Specialization:
    """One compiled program: the graph of one run of the function, and its machine code.

    The code may come from an earlier process. The lowered form is then recomputed on demand.
    """

    def __init__(self, staged: Staged, signature: Signature, began: float) -> None:
        from . import native  # heavy: loads LLVM
        from .llvm import emit
        from .runtime import donated, entry

        weak = self.keep(staged, signature)
        reused = self.reused(signature.donated) if signature.donated else {}  # by result: an argument
        machine = [*emit.described(), *([f"over {reused}"] if reused else [])]
        machine += [f"{self.unread} unread"] if self.unread else []
        name = program_cache.name_of(self.staged, self.weak, bool(self.guards), machine)
        self.native = native.native(name, lambda: self.lowered)
        self.inputs = [
            entry.Input(t, w, scalar if w is None and not t.shape else None)
            for t, w, scalar in zip(self.staged.input_types, weak, [*signature.scalars, *staged.scalars], strict=True)
        ]
        self.is_donated = bool(reused)
        self.flat: Function = donated.function(self.native, self.inputs, reused) if reused else self.native.function(self.inputs)
        self.seconds = time.perf_counter() - began
        self.missed = entry.MISS

    def keep(self, staged: Staged, signature: Signature) -> list[Any]:
        """Keep the graph of the program, and the class of each input that is a Python number, else None."""
        self.staged = staged.graph
        self.guards = staged.guards
        self.unread = len(staged.graph.outputs) - staged.graph.out_structure.count - bool(staged.guards)  # outputs, not results
        self.places = staged.places
        self.keys = staged.keys
        self.captured = staged.captured
        self.by_order = staged.by_order
        self.apart = staged.apart
        self.same_arrays: list[tuple[int, int]] = []  # the places and arguments that were, if the function compares by identity
        self.source = staged.source
        weak = [*signature.weak, *staged.weak]
        self.weak = frozenset(i for i, w in enumerate(weak) if w is not None)
        return weak

    def reused(self, donated: Any) -> Any:
        """The arguments whose memory the results take, by result."""
        from .lower.donate import read_results, reusable  # for donated arguments only

        reused = reusable(self.lowered, donated)
        if reused:
            read_results(self.lowered, reused)
        return reused

    def converts_halves(self) -> bool:
        """Whether the processor converts between float16 and float32."""
        from .llvm.emit import converts_halves  # heavy: loads LLVM

        return converts_halves()

    @cached
    def optimized(self) -> Optimized:
        """The staged graph after all passes."""
        from ..rewrite.pipeline import optimize  # heavy: the passes, which a program from disk does not need
        from .expand import expand

        return optimize(expand(self.staged), self.weak, complex_parts=True, halves=self.converts_halves())

    @property
    def graph(self) -> Graph:
        """What is computed."""
        return self.optimized.graph  # type: ignore[no-any-return]

    @cached
    def lowered(self) -> Lowered:
        """How: loops, products, calls."""
        return lower(self.graph, self.weak, bool(self.guards), self.unread)

    def __str__(self) -> str:
        from ..ir.text import show

        return f"{show(self.graph)}\n\n{self.lowered}"

    def __repr__(self) -> str:
        return f"<program of {self.staged.name}: print it, or look at .graph, .lowered, .native.text and .native.assembly()>"

    def identical(self, given: Sequence[Any]) -> list[tuple[int, int]]:
        """The places and arguments that are the same array now."""
        first = {id(x): i for i, x in reversed(list(enumerate(given))) if isinstance(x, np.ndarray)}
        return [(place, first[id(x)]) for place, x in enumerate(values_at(self.places)[0]) if id(x) in first]

    def sharing(self, given: Sequence[Any]) -> tuple[int, int] | None:
        """Two inputs that share memory, of which one is written to."""
        if not self.apart:
            return None
        values = values_at(self.places)[0]
        inputs = [*given, *(values[i] for i in self.captured)]
        plain = [x if isinstance(x, np.ndarray) else np.empty(0) for x in inputs]
        return next(((i, j) for i, j in self.apart if np.may_share_memory(plain[i], plain[j])), None)

    def outside(self) -> tuple[list[Any], Any]:
        """The values that the program reads outside the function, and the key of the first place that has changed, or None."""
        values, changed = values_at(self.places)
        if changed is not None:
            return [], self.keys[len(values)]
        if self.by_order:
            for i in self.captured:
                if not in_rows(values[i]):
                    return [], self.keys[i]
        return [as_leaf(values[i]) for i in self.captured], None

    def run(self, leaves: Sequence[Any]) -> Any:
        """The result for flat inputs, or MISS if the guards do not hold for them."""
        results = self.flat(*leaves)
        return results if results is self.missed else self.staged.out_structure.unflatten(results)

    def function(self, signature: Signature, name: str, otherwise: Function | None) -> Function | None:
        """The program as a function of the positional arguments, and then of those with keywords, in the order of the signature.

        It passes other calls on, or returns `missed`. None if the arguments have to be flattened in Python.
        """
        from .runtime import entry  # heavy: loads LLVM

        arguments = [child for _, child in signature.structure.children[0][1].children]
        arguments += [child for _, child in signature.structure.children[1][1].children]
        result = self.staged.out_structure
        if not Switch.NATIVE_ENTRY.on or self.is_donated or signature.strides:
            return None
        if any(name == SAME_OBJECTS for name, _ in signature.static):
            return None
        if not entry.opens_natively(arguments):
            return None
        native, options = self.native, {"arguments": arguments, "places": self.places, "captured": self.captured, "name": name}
        options["apart"] = self.apart
        if entry.packs_natively(result):
            return native.function(self.inputs, result=result, otherwise=otherwise, **options)
        return _packing(native.function(self.inputs, **options), self.missed, result, otherwise)

    def report(self) -> list[str]:
        """What the program is made of, its guards, its loops, and what calls back into NumPy: a line each."""
        from . import made_of  # heavy: loads lowering

        steps = list(made_of.every_step(self.lowered))
        lines = [
            f"{counted(len(self.graph), 'equation')}, {made_of.kinds(steps)}, {self.native.size} bytes of code, "
            f"{self.lowered.arena} bytes of memory, {self.seconds * 1e3:.0f} ms"
        ]
        lines += self.source
        lines += described(self.places)
        lines += map(str, self.guards)
        if loops := [*self.optimized.loops, *self.optimized.unrolled]:
            lines += map(str, (self.optimized, *loops))
        return lines + made_of.calls_of_numpy(steps)

    def profile(self, leaves: Sequence[Any]) -> str:
        """How long a call takes, and each of its steps, the longest first."""
        timed = self.native.with_times(self.lowered)
        function = timed.function(self.inputs)
        function(*leaves)
        before, began, calls = timed.times(), time.perf_counter(), 0
        while calls < PROFILED_CALLS and time.perf_counter() - began < PROFILED_SECONDS:
            function(*leaves)
            calls += 1
        seconds = (time.perf_counter() - began) / calls
        cycles = [b - a for a, b in zip(before, timed.times(), strict=True)]
        rate = seconds / max(sum(cycles), 1)  # what is not in a step is spread over all
        lines = [f"{seconds * 1e6:.1f} µs a call, by step:"]
        for step, count in sorted(zip(self.lowered.steps, cycles, strict=True), key=lambda pair: -pair[1]):
            where = f" ({', '.join(step.lines)})" if step.lines else ""
            share = count / max(sum(cycles), 1)
            lines.append(f"  {share:6.1%} {count * rate * 1e6:10.1f} µs  {str(step).splitlines()[0].rstrip(':')}{where}")
        return "\n".join(lines)


def _packing(flat: Function, missed: Any, result: Structure, otherwise: Function | None) -> Function:
    """A native function that gives its results in a flat tuple, with containers that are built in Python."""

    def call(*arguments: Any) -> Any:
        results = flat(*arguments)
        if results is not missed:
            return result.unflatten(results)
        return missed if otherwise is None else otherwise(*arguments)

    return call


def same_program(staged: Staged, specialization: Specialization) -> bool:
    """Whether a function was staged as it was for an earlier program."""
    expected = [[(place.check, repr(place.expected)) for place in places] for places in (staged.places, specialization.places)]
    same = (
        staged.keys == specialization.keys
        and staged.graph.input_types == specialization.staged.input_types
        and expected[0] == expected[1]
    )
    return same and same_guards(staged.guards, specialization.guards)


def same_guards(some: Sequence[Guard], others: Sequence[Guard]) -> bool:
    """Whether the same guards, at the same lines, have the same values; masks and nan compare by value."""
    if len(some) != len(others):
        return False
    asked = [(a.number, a.of, a.line) == (b.number, b.of, b.line) for a, b in zip(some, others, strict=True)]
    pairs = [(np.asarray(a.answer), np.asarray(b.answer)) for a, b in zip(some, others, strict=True)]
    return all(asked) and all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def inputs_behind(graph: Graph, number: int) -> list[str]:
    """The names of the inputs that a value depends on."""
    needed = {number}
    for equation in reversed(graph.equations):
        if not needed.isdisjoint(equation.outputs):
            needed.update(o for o in equation.inputs if isinstance(o, int))
    return [name for i, name in enumerate(graph.input_names) if i in needed]


def in_rows(x: Any) -> bool:
    """Whether x is not an array, or one in C order."""
    return not isinstance(x, np.ndarray) or x.flags.c_contiguous


def as_leaf(x: Any) -> Any:
    """An array as programs take it: contiguous, aligned, in the byte order of this machine."""
    return np.require(np.asarray(x), x.dtype.newbyteorder("="), ["C", "A"]) if isinstance(x, np.ndarray) else x


def counted(n: int, what: str) -> str:
    first, _, rest = what.partition(" ")
    plural = first + ("es" if first.endswith("ch") else "s")
    return f"{n} {what}" if n == 1 else f"{n} {plural} {rest}".rstrip()
