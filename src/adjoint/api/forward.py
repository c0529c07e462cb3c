"""Forward mode: `jvp`, and `linearize`, which is two reverse passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.bind import Traced, with_gaps
from ..core.boundary import boundary
from ..core.errors import ArgumentError, ShapeError, runs_inside
from ..core.tree import Structure, final, flatten, flatten_tangent, leaf_names, map_leaves
from ..core.types import Type, Value, dtype_of, shape_of
from ..eager.dual import Dual
from ..eager.mutation import Watch
from ..eager.on_gpu import follows_gpu, landed
from ..eager.repeated import RetreatError
from ..ops.broadcast import zeros_of
from .arguments import (
    Results,
    callee,
    check_alive,
    check_callable,
    match_type,
    name_of,
    open_arguments,
    output_leaf,
    replace,
    warn_if_rounded,
)
from .caught import Caught
from .grad import CompiledRecording, Recording, private, split_aux, watch_arguments
from .protection import run_protected
from .transformed import Transformed

Function = Callable[..., Any]

Pushed = tuple[Structure, list[Value], list[Value | None], Any]


@dataclass(slots=True)
class ForwardRun:
    """One run of a function in forward mode: its arguments, opened into `inputs`, with their tangents."""

    f: Function
    primals: Sequence[Any]
    inputs: Sequence[Value]
    structures: Sequence[Structure]
    tangents: Sequence[Value | None]
    has_aux: bool
    transform: str

    def arguments(self, leaves: Sequence[Value]) -> Sequence[Any]:
        """The arguments with other leaves in them."""
        return replace(self.primals, range(len(self.primals)), self.structures, leaves)

    @runs_inside
    def push(self, marks: bool = False) -> Pushed:
        """One forward pass: structure, primals and tangents of the result, and aux; by reverse mode where forward mode cannot.

        A function with a loop runs again in forward mode, with `marks` of live tangents: two passes back through it know less.
        """
        f, inputs, transform = self.f, self.inputs, self.transform
        watch, caught = Watch(), Caught(f, transform)
        watch_arguments(watch, self.primals, range(len(self.primals)), inputs)
        dual = Dual(transform, retreats=True, marks=marks)
        try:
            with dual:
                leaves = [x if t is None else with_gaps(Traced(dual, x, t)) for x, t in zip(inputs, self.tangents, strict=True)]
                result = final(callee(f)(*self.arguments(leaves)))
        except RetreatError as met:
            if met.trace is not dual:
                raise
            return self.push(marks=True) if dual.has_loop and not marks else self.push_by_pulls()
        watch.check()
        if dual.overflowed:  # a partial that reads an overflowed value is a wrong number, which a tape marks
            return self.push_by_pulls()
        aux = None
        if self.has_aux:
            result, aux = split_aux(result, f, transform)
            own = Results(*inputs).own
            aux = map_leaves(lambda x: own(check_alive(dual.split(x)[0], dual)), aux)
        if result is None:
            output_leaf(None, f, transform)
        parts, structure = flatten(result)
        labels = leaf_names("", structure)
        pairs = [dual.split(output_leaf(y, f, transform, label, dual)) for y, label in zip(parts, labels, strict=True)]
        if all(t is None for _, t in pairs):
            warn_if_rounded(dual, f)
        ys = [y for y, _ in pairs]

        def found() -> Any:
            return (structure.unflatten(ys), aux) if self.has_aux else structure.unflatten(ys)

        called = lambda leaves: run_protected(f, self.arguments(leaves), {})
        caught.compare(inputs, found, lambda: run_protected(f, self.primals, {}), called)
        return structure, ys, [t for _, t in pairs], aux

    def push_by_pulls(self) -> Pushed:
        """As `push`, by two reverse passes: the pullback is linear, and its transpose is the pushforward."""
        f, transform = self.f, self.transform
        wanted = [i for i, t in enumerate(self.tangents) if t is not None]

        def of_wanted(*parts: Any) -> Any:
            leaves = list(self.inputs)
            for i, part in zip(wanted, parts, strict=True):
                leaves[i] = part
            return callee(f)(*self.arguments(leaves))

        of_wanted.__name__ = name_of(f)
        given = [self.inputs[i] for i in wanted]
        recording = Recording(of_wanted, given, {}, tuple(range(len(wanted))), self.has_aux, transform)
        floats = [k for k, y in enumerate(recording.outputs) if dtype_of(y).kind in "fc"]  # other results have no tangents
        pushed: list[Value | None] = [None] * len(recording.outputs)
        back = _transposed(recording, floats, transform)
        for k, t in zip(floats, back.pull([self.tangents[i] for i in wanted]), strict=True):
            pushed[k] = t
        return recording.structure, recording.outputs, pushed, recording.aux


def _transposed(recording: Recording, floats: Sequence[int], transform: str) -> Recording:
    """The pullback of a recording's float results, recorded: pulling back through it pushes forward."""

    def pull(*cotangents: Any) -> Any:
        given: list[Any] = [None] * len(recording.outputs)
        for k, g in zip(floats, cotangents, strict=True):
            given[k] = g
        pulled = recording.pull(given)
        return [np.zeros(shape_of(x), dtype_of(x)) if g is None else g for g, x in zip(pulled, recording.inputs, strict=True)]

    # A linear map is the same at any point; at zeros a limit that does not exist would seem to exist.
    draw = np.random.default_rng(0)
    outputs = [recording.outputs[k] for k in floats]
    points = [np.asarray(draw.uniform(1.0, 2.0, shape_of(y)), dtype_of(y))[()] for y in outputs]
    return Recording(pull, points, {}, tuple(range(len(points))), False, transform)


@boundary
def jvp(f: Function, primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """The result of f and its derivative in the direction of the tangents: J·v, by forward mode.

    >>> jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.0))
    (np.float64(12.0), np.float64(4.0))
    """
    check_callable(f, "jvp")
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise ArgumentError(
                f"{what} of jvp is a tuple with one entry per argument, not {type(given).__name__}; write jvp(f, (x,), (v,))"
            )
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp got {len(primals)} primals and {len(tangents)} tangents")
    return Transformed("jvp", _run, f, has_aux=has_aux).of_other_arguments(primals, tangents)


def _run(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, transform: str, has_aux: bool) -> Any:
    primals, tangents = args
    return run_jvp(f, primals, tangents, has_aux, transform)


def run_jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool, transform: str) -> Any:
    indices = range(len(primals))
    inputs, structures = open_arguments(primals, indices, transform)
    names = [name for i, s in zip(indices, structures, strict=True) for name in leaf_names(f"argument {i}", s)]
    given = [
        t for s, part, i in zip(structures, tangents, indices, strict=True) for t in flatten_tangent(s, part, f"tangent {i}")
    ]
    pushed = [match_type(t, Type.of(x), f"the tangent of {name}") for t, x, name in zip(given, inputs, names, strict=True)]
    structure, ys, ts, aux = ForwardRun(f, primals, inputs, structures, pushed, has_aux, transform).push()
    results = Results(*inputs, *pushed)
    out = structure.unflatten([results.own(y) for y in ys])
    tangent = structure.unflatten([results.of(t, y) for t, y in zip(ts, ys, strict=True)])
    return (out, tangent, aux) if has_aux else (out, tangent)


class Pushforward:
    """The function that `linearize` returns: from tangents of the arguments to those of the result."""

    def __init__(self, structures: Sequence[Structure], types: Sequence[Type], structure: Structure, pull: Recording) -> None:
        self._structures, self._types, self._structure, self._pull = structures, types, structure, pull

    @property
    def seeds(self) -> list[Value]:
        """Values like those that `flat` takes."""
        return self._pull.outputs

    def flat(self, *seeds: Value) -> list[Value]:
        """The tangents of all results, zeros included, from those of the arguments."""
        pulled = self._pull.pull(seeds)
        return [zeros_of(Type.of(y)) if t is None else t for t, y in zip(pulled, self._pull.inputs, strict=True)]

    def compiled(self, program: Function) -> Callable[[Sequence[Value]], Pushforward]:
        """From residuals to maps like this one, by a program in place of `flat`."""
        kept, recording_of = (self._structures, self._types, self._structure), CompiledRecording.of(self._pull, program)
        return lambda residuals: Pushforward(*kept, recording_of(residuals))

    def __repr__(self) -> str:
        return f"<linear map of {', '.join(map(repr, self._types))}>"

    def __reduce__(self) -> Any:
        return Pushforward, (self._structures, self._types, self._structure, self._pull.staged())

    @boundary
    @follows_gpu
    def __call__(self, *tangents: Any) -> Any:
        if len(tangents) != len(self._structures):
            raise ShapeError(f"the linear map takes {len(self._structures)} tangents, got {len(tangents)}")
        given = [
            t
            for s, part, i in zip(self._structures, tangents, range(len(tangents)), strict=True)
            for t in flatten_tangent(s, part, f"tangent {i}")
        ]
        seeds = [match_type(t, wanted, "a tangent") for t, wanted in zip(given, self._types, strict=True)]
        out = self._structure.unflatten(self._pull.owned(self._pull.pull(seeds), *seeds))
        return out if any(isinstance(seed, Traced) for seed in seeds) else landed(out)


@boundary
def linearize(f: Function, *primals: Any) -> Any:
    """The result of f at a point, and its derivative there as a function of tangents. f runs once.

    The pullback is linear; pulling back through it gives the pushforward: forward mode from two reverse passes.

    >>> import adjoint as ad
    >>> y, push = ad.linearize(np.sin, 0.0)
    >>> y, push(2.0)
    (np.float64(0.0), np.float64(2.0))
    """
    check_callable(f, "linearize")
    found = Transformed("linearize", _run_linearize, f).linear_map(primals)
    return _run_linearize(f, primals, {}, transform="linearize") if found is None else found


@follows_gpu
def _run_linearize(f: Function, primals: tuple[Any, ...], kwargs: dict[str, Any], *, transform: str) -> Any:
    recording = Recording(f, map_leaves(private, primals), kwargs, tuple(range(len(primals))), False, transform, lasting=True)
    transposed = _transposed(recording, range(len(recording.outputs)), transform)
    out = recording.structure.unflatten([private(y) for y in recording.outputs])
    return out, Pushforward(recording.structures, [Type.of(x) for x in recording.inputs], recording.structure, transposed)
