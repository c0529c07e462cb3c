"""The transforms of reverse mode: functions in, functions out.

Each is a thin composition of one interpreter (`eager/`), the argument handling of `api/arguments.py` and containers. The `_run_*`
functions do the work; the public ones check their options and return a `Transformed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import transform as structured  # noqa: F401 - the rules of loops and branches
from ..core.bind import Traced, is_array, snapshot
from ..core.boundary import boundary
from ..core.errors import ArgumentError, DtypeError, ShapeError
from ..core.op import OPS
from ..core.tree import LEAF, final, flatten, flatten_tangent, leaf_names, map_leaves
from ..core.types import Type, Value, dtype_of, is_inexact, shape_of
from ..eager.backward import backward
from ..eager.mutation import Watch
from ..eager.on_gpu import follows_gpu, landed
from ..eager.tape import Node, Tape
from ..numpy.layout import own_copy
from ..ops.broadcast import zeros_of
from ..staging.deferred import tape_for
from .arguments import (
    Results,
    adopted,
    check_alive,
    check_callable,
    match_type,
    name_of,
    open_arguments,
    output_leaf,
    positions,
    regroup,
    replace,
    warn_if_rounded,
)
from .caught import Caught
from .protection import run_protected
from .transformed import Transformed

Function = Callable[..., Any]


# -- reverse mode -----------------------------------------------------------------------------------------------


class Recording:
    """One run of a function on a tape: its result, and what the backward pass needs."""

    def __init__(
        self,
        f: Function,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        argnums: Any,
        has_aux: bool,
        transform: str,
        lasting: bool = False,
    ) -> None:
        self.f, self.transform = f, transform
        self.indices, self.single = positions(argnums, len(args), transform)
        self.inputs, self.structures = open_arguments(args, self.indices, transform)
        caught = Caught(f, transform)
        with tape_for(self.inputs, transform, lasting) as tape:
            leaves = [tape.leaf(x) for x in self.inputs]
            self.nodes: list[Node] = [leaf.aux for leaf in leaves]
            watch_arguments(tape.watch, args, self.indices, self.inputs)
            inside = replace(args, self.indices, self.structures, leaves)
            del leaves
            result = final(run_protected(f, inside, kwargs))
            tape.finish(result)
        tape.watch.check()
        self.aux: Any = None
        if has_aux:
            result, aux = split_aux(result, f, transform)
            results = Results(*self.inputs)
            self.aux = map_leaves(lambda x: results.own(_leave(tape, x)), aux)
        self.tape, self.simple = tape, tape.simple
        parts, self.structure = flatten(result)
        if result is None:
            output_leaf(None, f, transform)
        labels = [""] if self.structure is LEAF else leaf_names("", self.structure)
        parts = [output_leaf(y, f, transform, label, tape) for y, label in zip(parts, labels, strict=True)]
        self.outputs = [_leave(tape, y) for y in parts]
        self.ends = [tape.node(y) for y in parts]
        if all(end is None for end in self.ends):
            warn_if_rounded(tape, f)
        called = lambda leaves: run_protected(f, replace(args, self.indices, self.structures, leaves), kwargs)
        caught.compare(self.inputs, lambda: self.result(has_aux), lambda: run_protected(f, args, kwargs), called)

    def result(self, has_aux: bool) -> Any:
        """What the function returned."""
        result = self.structure.unflatten(self.outputs)
        return (result, self.aux) if has_aux else result

    def seeds(self, cotangents: Sequence[Value]) -> list[tuple[Node, Value]]:
        self.tape.measure(self.outputs, cotangents)
        return [(node, g) for node, g in zip(self.ends, cotangents, strict=True) if node is not None]

    def pull(self, cotangents: Sequence[Value]) -> list[Value | None]:
        """Cotangents of the inputs. The nodes stay, for another pull."""
        seeds = self.seeds(cotangents)
        return list(map(self.tape.drop, backward(seeds, self.nodes, simple=self.simple, traced=True)))

    def pull_once(self, cotangents: Sequence[Value]) -> list[Value | None]:
        """As `pull`, freeing the recording on the way."""
        seeds = self.seeds(cotangents)
        self.ends = []
        return list(map(self.tape.drop, backward(seeds, self.nodes, simple=self.simple, traced=True)))

    def hand_out(self, cotangents: Sequence[Value | None], *shared: Any) -> Any:
        """The derivatives in the structure of the chosen arguments."""
        groups = regroup(self.structures, self.owned(cotangents, *shared))
        return groups[0] if self.single else tuple(groups)

    def owned(self, cotangents: Sequence[Value | None], *shared: Any) -> Sequence[Value]:
        """The derivatives as arrays that share no memory."""
        results = Results(*shared)
        return [results.of(g, x) for g, x in zip(cotangents, self.inputs, strict=True)]

    def staged(self) -> PickledRecording:
        """The recording as a graph from cotangents to cotangents, which can be pickled; the residuals are its constants."""
        from .graph import graph  # heavy: every rewrite

        def pull(*seeds: Value) -> list[Value]:
            return [
                np.zeros(shape_of(x), dtype_of(x)) if g is None else g for g, x in zip(self.pull(seeds), self.inputs, strict=True)
            ]

        seeds = [np.zeros(shape_of(y), dtype_of(y))[()] for y in self.outputs]
        kept = ("single", "inputs", "structures", "structure", "outputs")
        return PickledRecording({key: getattr(self, key) for key in kept} | {"program": graph(pull)(*seeds)})


class PickledRecording(Recording):
    """A recording that was pickled."""

    program: Any

    def __init__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def pull(self, cotangents: Sequence[Value]) -> list[Value | None]:
        with np.errstate(all="ignore"):
            return list(self.program.run_flat(cotangents))

    def staged(self) -> PickledRecording:
        return self


class CompiledRecording(PickledRecording):
    """A recording whose backward pass is a compiled function of residuals and cotangents."""

    residuals: Sequence[Value]

    @staticmethod
    def of(recording: Recording, program: Function) -> Callable[[Sequence[Value]], CompiledRecording]:
        """From residuals to recordings like this one, which was staged."""
        examples = [[_example(x) for x in values] for values in (recording.inputs, recording.outputs)]
        state = {"single": recording.single, "structures": recording.structures, "structure": recording.structure}
        state |= {"inputs": examples[0], "outputs": examples[1], "program": program}
        return lambda residuals: CompiledRecording(state | {"residuals": residuals})

    def pull(self, cotangents: Sequence[Value]) -> list[Value | None]:
        given = [g for g in cotangents if is_inexact(dtype_of(g))]
        return self.program(*self.residuals, *given)  # type: ignore[no-any-return]

    def owned(self, cotangents: Sequence[Any], *shared: Any) -> Sequence[Value]:
        return cotangents

    def staged(self) -> PickledRecording:
        return Recording.staged(self)


def _example(x: Value) -> Value:
    """A value of the same type, which takes no memory."""
    zero = np.zeros((), dtype_of(x))
    return np.broadcast_to(zero, shape_of(x)) if is_array(x) else zero[()]


def _leave(tape: Tape, x: Any) -> Any:
    """A result without what the tape added to it."""
    return tape.leave(x) if isinstance(x, Traced) and x.by is tape else check_alive(tape.leave(x), tape)


def watch_arguments(watch: Watch, args: Sequence[Any], indices: Sequence[int], inputs: Sequence[Value]) -> None:
    """Detect writes to an argument through another name while the function runs."""
    whole = len(indices) == len(inputs)  # each argument is one array
    for place, x in enumerate(inputs):
        watch.argument(x, f"argument {indices[place]}" if whole else "an argument")


def split_aux(result: Any, f: Function, transform: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"with has_aux=True, {name_of(f)} must return a pair (value, aux) for {transform}; "
            f"it returned {type(result).__name__}"
        )
    return result


def _scalar_output(recording: Recording, holomorphic: bool) -> Value:
    f, transform = recording.f, recording.transform
    if recording.structure is not LEAF and not recording.structure.is_one_array():
        raise ShapeError(
            f"{transform} needs a function with one scalar result, but {name_of(f)} returned {recording.structure}; "
            "use has_aux=True for extra results, or jacobian"
        )
    (y,) = recording.outputs
    if shape_of(y) != ():
        raise ShapeError(
            f"{transform} needs a scalar result, but {name_of(f)} returned shape {shape_of(y)}; sum it, or use jacobian, "
            "elementwise_grad or vjp"
        )
    kind = dtype_of(y).kind
    if kind == "c" and not holomorphic:
        raise DtypeError(
            f"{transform} needs a real result, but {name_of(f)} returned a complex one; use holomorphic=True if it is "
            "holomorphic, or take np.real or np.abs"
        )
    if kind not in "fc":
        raise DtypeError(
            f"{transform} needs a float result, but {name_of(f)} returned {dtype_of(y)}; return a float, as 0.0 for 0"
        )
    return y


def _run_value_and_grad(
    f: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    transform: str,
    only_grad: bool,
) -> Any:
    recording = Recording(f, args, kwargs, argnums, has_aux, transform)
    if holomorphic and any(dtype_of(x).kind != "c" for x in recording.inputs):
        raise DtypeError(f"{transform} with holomorphic=True needs complex arguments; pass x.astype(complex)")
    y = _scalar_output(recording, holomorphic)
    seed = dtype_of(y).type(1)
    gradient = recording.hand_out(recording.pull_once([seed]), y)
    if only_grad:
        return (gradient, recording.aux) if has_aux else gradient
    value = Results(*recording.inputs).own(y)
    return ((value, recording.aux) if has_aux else value), gradient


def choice(argnums: Any, argnum: Any) -> Any:
    return argnums if argnum is None else argnum


def grad(
    f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None, adopt: bool = False
) -> Transformed:
    """The gradient of a function with a scalar result, by reverse mode.

    >>> grad(lambda x, y: x**2 * y + y + 2, argnums=(0, 1))(3.0, 4.0)
    (np.float64(24.0), np.float64(10.0))

    With `adopt=True`, of `ad.adopt(f)`: of a function that uses numpy, math or other libraries as they are.
    """
    return gradient_of(adopted(f) if adopt else f, choice(argnums, argnum), "grad", has_aux, holomorphic)


def value_and_grad(
    f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None, adopt: bool = False
) -> Transformed:
    """The value and the gradient together, at the cost of the gradient. `adopt` as in `grad`.

    >>> import adjoint as ad
    >>> ad.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    f = adopted(f) if adopt else f
    return gradient_of(f, choice(argnums, argnum), "value_and_grad", has_aux, holomorphic, only_grad=False)


def gradient_of(
    f: Function, argnums: Any, transform: str, has_aux: bool = False, holomorphic: bool = False, only_grad: bool = True
) -> Transformed:
    """The gradient, with its value or without, and with the name of the calling transform for errors."""
    check_callable(f, transform)
    options = {"argnums": argnums, "has_aux": has_aux, "holomorphic": holomorphic, "only_grad": only_grad}
    return Transformed(transform, _run_value_and_grad, f, **options)


class Pullback:
    """The function that `vjp` returns: from cotangents of the result to those of the arguments."""

    def __init__(self, recording: Recording, name: str | None = None) -> None:
        self._recording = recording
        self._name = name_of(recording.f) if name is None else name
        self._types = [Type.of(y) for y in recording.outputs]

    @boundary
    @follows_gpu
    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        recording = self._recording
        given = flatten_tangent(recording.structure, cotangent, "the cotangent")
        labels = leaf_names("the cotangent", recording.structure)
        seeds = [match_type(g, t, label) for g, t, label in zip(given, self._types, labels, strict=True)]
        result = recording.hand_out(recording.pull(seeds), *seeds)
        if not any(isinstance(seed, Traced) for seed in seeds):
            result = landed(result)
        return (result,) if recording.single else result  # type: ignore[no-any-return]

    @property
    def seeds(self) -> list[Value]:
        """Values like those that `flat` takes."""
        return [y for y in self._recording.outputs if is_inexact(dtype_of(y))]

    def flat(self, *seeds: Value) -> list[Value]:
        """The cotangents of all arguments, zeros included, from those of the inexact results."""
        recording, given = self._recording, iter(seeds)
        pulled = recording.pull([next(given) if is_inexact(t.dtype) else zeros_of(t) for t in self._types])
        return [zeros_of(Type.of(x)) if g is None else g for g, x in zip(pulled, recording.inputs, strict=True)]

    def compiled(self, program: Function) -> Callable[[Sequence[Value]], Pullback]:
        """From residuals to pullbacks like this one, by a program in place of `flat`."""
        recording_of, name = CompiledRecording.of(self._recording, program), self._name
        return lambda residuals: Pullback(recording_of(residuals), name)

    def __repr__(self) -> str:
        return f"<pullback of {self._name}>"

    def __reduce__(self) -> Any:
        return Pullback, (self._recording.staged(), self._name)


def private(x: Value) -> Value:
    """A copy, so that what a pullback keeps is not changed by a later write to the user's array."""
    if isinstance(x, np.ndarray):
        return own_copy(x)
    y = snapshot(x)
    if isinstance(x, Traced):
        y.memory_layout = x.noted_strides
    return y


@boundary
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of f, and the function that pulls cotangents back: v ↦ vᵀJ.

    >>> y, pull = vjp(np.sin, 0.0)
    >>> pull(2.0)
    (np.float64(2.0),)
    """
    check_callable(f, "vjp")
    if not primals:
        raise ArgumentError("vjp needs at least one argument to differentiate: vjp(f, x)")
    found = Transformed("vjp", _run_vjp, f, has_aux=has_aux).linear_map(primals)
    return _run_vjp(f, primals, {}, transform="vjp", has_aux=has_aux) if found is None else found


@follows_gpu
def _run_vjp(f: Function, primals: tuple[Any, ...], kwargs: dict[str, Any], *, transform: str, has_aux: bool) -> Any:
    recording = Recording(f, map_leaves(private, primals), kwargs, tuple(range(len(primals))), has_aux, transform, lasting=True)
    out = recording.structure.unflatten([private(y) for y in recording.outputs])
    return (out, Pullback(recording), map_leaves(private, recording.aux)) if has_aux else (out, Pullback(recording))


# -- constants --------------------------------------------------------------------------------------------------


def stop_gradient(x: Any) -> Any:
    """The value of x as a constant: its derivative is zero in every mode. Works on containers.

    >>> import adjoint as ad
    >>> ad.grad(lambda x: x * ad.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    op = OPS["stop_gradient"]
    return map_leaves(lambda leaf: op(leaf) if isinstance(leaf, Traced) else leaf, x)
