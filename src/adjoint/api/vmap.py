"""vmap: a function of one example becomes a function of a batch, without a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, called_from_outside, fresh, snapshot, unwrap_fresh, with_gaps
from ..core.errors import ArgumentError, BatchError, runs_inside
from ..core.memory import is_writeable
from ..core.tree import Structure, broadcast_prefix, final, flatten, leaf_names
from ..core.types import Value, canonical_axis, shape_of
from ..eager.batch import Batch
from ..eager.mutation import Watch
from ..numpy.shape import concatenate
from .arguments import NUMBERS, callee, check_alive, check_callable, name_of, without_class
from .caught import Caught
from .protection import Protection, read_only, run_protected
from .transformed import Transformed

Function = Callable[..., Any]


def batch_apply(f: Function, stacks: Sequence[Value]) -> list[Value]:
    """Apply f, which returns a list of values, to the rows of several stacks at once."""
    size = shape_of(stacks[0])[0] if stacks else 0
    with Batch(size) as batch:
        results = f(*[Traced(batch, stack, None) for stack in stacks])
    return [batch.leave(y, 0) for y in results]


def _run_vmap(
    f: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_axes: Any,
    out_axes: Any,
    chunk_size: int | None,
    transform: str,
) -> Any:
    leaves, structure, axes, names = _open(args, kwargs, in_axes)
    size = _batch_size(leaves, axes, names, f)
    if chunk_size is None or size <= chunk_size:
        outputs, out_structure, out_places = _apply(f, leaves, structure, axes, size, out_axes, len(args))
        return out_structure.unflatten(outputs)
    chunks = []
    for start in range(0, size, chunk_size):
        part = [x if a is None else _take(x, a, start, min(start + chunk_size, size)) for x, a in zip(leaves, axes, strict=True)]
        chunks.append(_apply(f, part, structure, axes, min(chunk_size, size - start), out_axes, len(args)))
    _, out_structure, out_places = chunks[0]
    joined = [
        first if place is None else concatenate([chunk[0][i] for chunk in chunks], axis=place)
        for i, (first, place) in enumerate(zip(chunks[0][0], out_places, strict=True))
    ]
    return out_structure.unflatten(joined)


def _open(
    args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any
) -> tuple[list[Value], Structure, list[int | None], list[str]]:
    """All leaves of the call with their batch axes. Keyword arguments are batched along axis 0."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise BatchError(
            f"in_axes={in_axes!r} has {len(in_axes)} entries, but the function was called with {len(args)} positional arguments"
        )
    leaves, structure = flatten((args, kwargs))
    inner = dict(structure.children)
    axes = broadcast_prefix(in_axes, inner["[0]"], "in_axes") + [0] * inner["[1]"].count
    names = [path.replace("[0]", "argument ", 1) if path.startswith("[0]") else path[3:] for path in leaf_names("", structure)]
    names = [
        name.replace("argument [", "argument ", 1).replace("]", "", 1) if name.startswith("argument ") else f"argument {name}"
        for name in names
    ]
    checked: list[int | None] = []
    values = []
    for x, axis, name in zip(leaves, axes, names, strict=True):
        x = without_class(unwrap_fresh(x), f"{name} of vmap")
        if axis is not None:
            if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
                raise BatchError(f"in_axes holds {axis!r} for {name}; an axis is an integer or None")
            if not isinstance(x, NUMBERS):
                raise ArgumentError(f"{name} of vmap is {type(x).__name__}, which has no axis to map; give it in_axes=None")
            ndim = len(shape_of(x))
            if not -ndim <= axis < ndim:
                raise BatchError(
                    f"{name} of vmap has shape {shape_of(x)}, so it has no axis {axis}; use in_axes=None to share it"
                )
            axis = canonical_axis(int(axis), ndim)
        checked.append(axis)
        values.append(x)
    return values, structure, checked, names


def _batch_size(leaves: Sequence[Value], axes: Sequence[int | None], names: Sequence[str], f: Function) -> int:
    sizes = {name: shape_of(x)[axis] for x, axis, name in zip(leaves, axes, names, strict=True) if axis is not None}
    if not sizes:
        raise BatchError(f"vmap of {name_of(f)} has nothing to map: every in_axes is None")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise BatchError(f"the batch sizes of vmap differ: {listed}; check in_axes")
    return next(iter(sizes.values()))


def _take(x: Value, axis: int, start: int, stop: int) -> Value:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _examples(batch: Sequence[Value], axes: Sequence[int | None], size: int) -> list[list[Value]]:
    """The leaves of each example."""
    return [[x if a is None else np.moveaxis(x, a, 0)[i] for x, a in zip(batch, axes, strict=True)] for i in range(size)]


@runs_inside
def _apply(
    f: Function, leaves: Sequence[Value], structure: Structure, axes: Sequence[int | None], size: int, out_axes: Any, count: int
) -> tuple[list[Value], Structure, list[int | None]]:
    caught, watch, guard = Caught(f, "vmap"), Watch(), Protection()
    for x in leaves:
        watch.argument(x, "an argument")
    with Batch(size) as batch:
        # Shared arguments are made trackable, so that examples can index them and write to a copy.
        inside = [_shared(x, guard) if axis is None else batch.enter(x, axis) for x, axis in zip(leaves, axes, strict=True)]
        args, kwargs = structure.unflatten(inside)
        try:
            result = final(called_from_outside(callee(f))(*args, **kwargs))
        except ValueError as error:
            if not guard.is_cause(error):
                raise
            raise read_only(error) from error
    watch.check()
    outputs, out_structure = flatten(result)
    outputs = [check_alive(y, batch) for y in outputs]
    for y in outputs:
        if not isinstance(y, NUMBERS):
            raise ArgumentError(f"{name_of(f)} returned {type(y).__name__} inside vmap; it must return numbers or arrays")
    given = broadcast_prefix(out_axes, out_structure, "out_axes")
    places_out = [_place(y, place, batch) for y, place in zip(outputs, given, strict=True)]
    held = {_memory(x) for x in leaves}
    finished = [_own(_left(y, place, batch), held) for y, place in zip(outputs, places_out, strict=True)]
    caught.compare(
        leaves,
        lambda: [out_structure.unflatten(y) for y in _examples(finished, places_out, size)],
        lambda: [run_protected(f, *structure.unflatten(x)) for x in _examples(leaves, axes, size)],
    )
    return finished, out_structure, places_out


def _place(y: Value, place: Any, batch: Batch) -> int | None:
    """The batch axis of a result, counted from the front; None if it has none."""
    is_batched = isinstance(y, Traced) and y.by is batch
    if place is None:
        if is_batched:
            raise BatchError("out_axes is None for a result that differs between examples; give it an axis")
        return None
    if not isinstance(place, (int, np.integer)) or isinstance(place, bool):
        raise BatchError(f"out_axes holds {place!r}; an axis is an integer or None")
    ndim = len(batch.shape(y) if is_batched else shape_of(y)) + 1
    if not -ndim <= place < ndim:
        raise BatchError(f"out_axes={place} is out of range for a result of {ndim - 1} dimensions and a batch axis")
    return int(place) % ndim


def _left(y: Value, place: int | None, batch: Batch) -> Value:
    """A result outside of the batch. One without a batch axis is copied, since it may be an array of the user's."""
    if place is not None:
        return batch.leave(y, place)
    return np.array(y) if isinstance(y, np.ndarray) else y


def _shared(x: Value, guard: Protection) -> Value:
    """An argument shared by all examples; writes do not reach the user's array."""
    if isinstance(x, Traced):
        inside = snapshot(x)
        inside.memory_layout = x.noted_strides
        return inside
    inside = fresh(x)
    return with_gaps(inside) if isinstance(inside, Traced) else guard.protect(x)


def _memory(x: Value) -> int:
    """The memory of an array: its own, or that of its base."""
    return id(x.base if isinstance(x, np.ndarray) and x.base is not None else x)


def _own(y: Value, held: set[int]) -> Value:
    """A writable result that shares no memory with an argument or another result."""
    if isinstance(y, np.ndarray) and (not is_writeable(y) or _memory(y) in held):
        y = np.array(y)
    held.add(_memory(y))
    return snapshot(y)


def vmap(f: Function, in_axes: Any = 0, out_axes: Any = 0, *, chunk_size: int | None = None) -> Transformed:
    """Map a function over an axis of its arguments, all examples at once.

    `in_axes` gives the batch axis of each argument (None: the same for all), `out_axes` that of the results; both may
    be containers. With `chunk_size` at most so many examples are processed at a time, to bound memory.

    >>> vmap(lambda x, w: x @ w, in_axes=(0, None))(np.ones((2, 3)), np.arange(3.0))
    array([3., 3.])
    """
    check_callable(f, "vmap")
    if chunk_size is not None and (not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1):
        raise ArgumentError(f"chunk_size is a positive integer or None, not {chunk_size!r}")
    if not isinstance(in_axes, (int, np.integer, tuple, list, type(None), dict)):
        raise ArgumentError(f"in_axes is an integer, None or a container of them, not {in_axes!r}")
    return Transformed("vmap", _run_vmap, f, in_axes=in_axes, out_axes=out_axes, chunk_size=chunk_size)
