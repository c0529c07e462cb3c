"""Reductions, indices and products of arrays in terms of other ops.

roll(x)      = concatenate(x[-k:], x[:-k])
einsum       = transposes, reshapes and stacks of matrix products
cumprod(x)   = a scan
"""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from ...api.control import scan
from ...core.op import Op
from ...core.types import Shape, Value, dtype_of, ndim_of, shape_of
from ...ops import broadcast, convolve, index, linalg, norm, pairs, reduce, shape, shift, sort, windows
from ...ops import elementwise as ew
from ...ops.broadcast import broadcast_to, cast, expand_dims, moveaxis, reshape, sum_, transpose, where
from ...ops.elementwise import (
    equal,
    greater,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    sqrt,
    sub,
)
from ...ops.index import gather, getitem, place
from ...ops.linalg import matmul
from ...ops.reduce import all_, any_, argmax, argsort
from ...ops.shape import concatenate, flip, stack
from ...ops.sort import take_along
from .numerics import Expansion, integers, kind_of, of_truths

# -- reductions and scans over an axis --------------------------------------------------------------------------


def _norm(x: Value, *, axis: Shape, keepdims: bool) -> Value:
    if kind_of(x) == "c":
        re, im = broadcast.real(x), broadcast.imag(x)
        squares = re * re + im * im
    else:
        squares = x * x
    return sqrt(sum_(squares, axis=axis, keepdims=keepdims))


def _rows(x: Value, axis: int, start: int, stop: int) -> Value:
    return getitem(x, spec=(slice(None),) * axis + (slice(start, stop),))


def _accumulate(step: Expansion) -> Expansion:
    """Running results: y₀ = x₀, yᵢ = step(yᵢ₋₁, xᵢ)."""

    def expansion(*xs: Value, axis: int) -> Value:
        full = np.broadcast_shapes(*map(shape_of, xs))
        moved = [moveaxis(broadcast_to(x, shape=full), axis, 0) for x in xs]
        if full[axis] < 2:
            return xs[-1]
        first = _rows(moved[-1], 0, 0, 1)

        def body(y: Value, rows: Any) -> Any:
            y = step(y, *rows)
            return y, y

        start = reshape(first, shape=shape_of(first)[1:])
        rest = scan(body, start, tuple(_rows(m, 0, 1, full[axis]) for m in moved))[1]
        return moveaxis(concatenate(first, rest, axis=0), 0, axis)

    return expansion


def _of_numbers(op: Expansion) -> Expansion:
    """A reduction of truths, on numbers that are not 0."""
    return lambda x, **params: NotImplemented if kind_of(x) == "b" else op(not_equal(x, 0), **params)


def _count_nonzero(x: Value, *, axis: Shape, keepdims: bool) -> Value:
    return sum_(integers(x if kind_of(x) == "b" else not_equal(x, 0)), axis=axis, keepdims=keepdims)


def _argmin(x: Value, *, axis: int) -> Value:
    """The negative of an integer is not its mirror image: its complement is."""
    kind = kind_of(x)
    return argmax(logical_not(x) if kind == "b" else ew.invert(x) if kind in "iu" else -x, axis=axis)


def _order_statistics(x: Value, *, kth: tuple[int, ...], axis: int) -> Value:
    ordered = take_along(x, argsort(x, axis=axis, kind="stable"), axis=axis)
    return gather(ordered, np.array([k % shape_of(x)[axis] for k in kth]), axis=axis)


def _lexsort(keys: Value, *, axis: int) -> Value:
    """By the last key, then the one before: stable sorts from the first key on."""
    count = shape_of(keys)[0]
    order: Any = None
    for k in range(count):
        key = getitem(keys, spec=(k,))
        if order is not None:
            key = take_along(key, order, axis=axis)
        found = argsort(key, axis=axis, kind="stable")
        order = found if order is None else take_along(order, found, axis=axis)
    return order


def _searchsorted(a: Value, v: Value, *, side: str) -> Value:
    """How many elements sort before each one; nan sorts after all numbers."""
    v = expand_dims(v, (ndim_of(v),))
    before = less(a, v) if side == "left" else logical_not(less(v, a))
    if kind_of(a) == "f" or kind_of(v) == "f":
        a_nan, v_nan = isnan(a), isnan(v)
        before = logical_and(before, logical_not(a_nan))
        before = logical_or(before, logical_and(v_nan, logical_not(a_nan)))
        if side == "right":
            before = logical_or(before, logical_and(v_nan, a_nan))
    return sum_(integers(before), axis=(ndim_of(v) - 1,), keepdims=False)


# -- shapes and indices -----------------------------------------------------------------------------------------


def _as_real(z: Value) -> Value:
    if dtype_of(z).kind == "c":
        return stack(broadcast.real(z), broadcast.imag(z), axis=ndim_of(z))
    return stack(z, np.zeros(shape_of(z), dtype_of(z)), axis=ndim_of(z))


def _stack(*xs: Value, axis: int) -> Value:
    return concatenate(*[expand_dims(x, (axis,)) for x in xs], axis=axis)


def _roll(x: Value, *, shifts: Shape, axes: Shape) -> Value:
    for k, axis in zip(shifts, axes, strict=True):
        n = shape_of(x)[axis]
        k = k % n if n else 0
        if k:
            x = concatenate(_rows(x, axis, n - k, n), _rows(x, axis, 0, n - k), axis=axis)
    return x


def _difference(x: Value, *, axis: int) -> Value:
    n = shape_of(x)[axis]
    return sub(_rows(x, axis, 1, n), _rows(x, axis, 0, n - 1))


def _put(x: Value, v: Value, *, spec: Any) -> Value:
    """Where the index is, the value; elsewhere x. The mask is a constant."""
    mask = np.zeros(shape_of(x), bool)
    region = mask[(*spec, ...)]
    region[...] = True
    return where(mask, place(broadcast_to(v, shape=region.shape), spec=spec, shape=shape_of(x)), x)


def _place(g: Value, *, spec: Any, shape: Shape) -> Value:
    """Zeros with a value at a basic index: axis by axis, in forward order and without gaps, then within the whole."""
    region = np.broadcast_to(False, shape)[(*spec, ...)].shape
    g = broadcast_to(g, shape=region)
    if not math.prod(region):
        return np.zeros(shape, dtype_of(g))
    plain = []
    every = [slice(None)] * len(shape)
    g = reshape(g, shape=tuple(_extents(spec, shape)))
    for axis, part in enumerate(p for p in spec if p is not None):
        n = shape[axis]
        taken = range(n)[part] if isinstance(part, slice) else range(part % n, part % n + 1)
        if taken.step < 0:
            g, taken = flip(g, axis), taken[::-1]
        if taken.step > 1 and len(taken) > 1:  # each element with the zeros behind it
            full = shape_of(g)
            wide = (*full[: axis + 1], taken.step, *full[axis + 1 :])
            g = place(expand_dims(g, (axis + 1,)), spec=(*every[: axis + 1], slice(0, 1)), shape=wide)
            g = reshape(g, shape=(*full[:axis], len(taken) * taken.step, *full[axis + 1 :]))
            g = _rows(g, axis, 0, taken[-1] - taken[0] + 1)
        plain.append(slice(taken[0], taken[-1] + 1))
    return place(g, spec=tuple(plain), shape=shape)


def _extents(spec: Any, shape: Shape) -> list[int]:
    """The number of elements that a basic index takes of each axis."""
    sizes = list(shape)
    for axis, part in enumerate(p for p in spec if p is not None):
        sizes[axis] = len(range(sizes[axis])[part]) if isinstance(part, slice) else 1
    return sizes


def _flat_index(arrays: tuple[Value, ...], extent: Shape) -> Value:
    """Several index arrays as one into the flattened axes."""
    flat: Value = np.int64(0)
    for a, n in zip(arrays, extent, strict=True):
        a = integers(a)
        flat = flat * n + where(less(a, 0), a + n, a)
    return flat


def _merged(shape: Shape, axis: int, count: int) -> Shape:
    return (*shape[:axis], math.prod(shape[axis : axis + count]), *shape[axis + count :])


def _gather(x: Value, *arrays: Value, axis: int) -> Value:
    full = shape_of(x)
    flat = reshape(x, shape=_merged(full, axis, len(arrays)))
    return gather(flat, _flat_index(arrays, full[axis : axis + len(arrays)]), axis=axis)


def _scatter_add(g: Value, *arrays: Value, axis: int, shape: Shape) -> Value:
    """Into one flat axis; the values are broadcast to the region that is indexed. Bools are counted."""
    if 0 in shape_of(g):  # nothing is added
        return np.zeros(shape, dtype_of(g))
    if dtype_of(g).kind == "b":
        return greater(index.scatter_add(integers(g), *arrays, axis=axis, shape=shape), 0)
    at = _flat_index(arrays, shape[axis : axis + len(arrays)])
    region = (*shape[:axis], *shape_of(at), *shape[axis + len(arrays) :])
    full = index.scatter_add(broadcast_to(g, shape=region), at, axis=axis, shape=_merged(shape, axis, len(arrays)))
    return reshape(full, shape=shape)


def _put_at(x: Value, v: Value, *arrays: Value, axis: int) -> Value:
    """Of writes to one element the last survives: the others add nothing."""
    full = shape_of(x)
    count = len(arrays)
    wins = index.last_write(*arrays, extent=full[axis : axis + count])
    region = (*full[:axis], *shape_of(wins), *full[axis + count :])
    mask = broadcast_to(reshape(wins, shape=shape_of(wins) + (1,) * (len(full) - axis - count)), shape=region)
    zero = np.zeros((), dtype_of(x))
    written = index.scatter_add(where(mask, v, zero), *arrays, axis=axis, shape=full)
    hit = greater(index.scatter_add(integers(mask), *arrays, axis=axis, shape=full), 0)
    return where(hit, written, x)


def _last_write(*arrays: Value, extent: Shape) -> Value:
    """An entry survives unless a later one has the same index."""
    at = _flat_index(arrays, extent)
    flat = reshape(at, shape=(math.prod(shape_of(at)),))
    n = shape_of(flat)[0]
    later = np.triu(np.ones((n, n), bool), 1)
    same = logical_and(equal(expand_dims(flat, (1,)), expand_dims(flat, (0,))), later)
    return reshape(logical_not(any_(same, axis=(1,), keepdims=False)), shape=shape_of(at))


def _take_along(x: Value, at: Value, *, axis: int) -> Value:
    """Without its own spelling: each element by its flat number."""
    full = shape_of(x)
    lead = np.broadcast_shapes((*full[:axis], 1, *full[axis + 1 :]), (*shape_of(at)[:axis], 1, *shape_of(at)[axis + 1 :]))
    x = broadcast_to(x, shape=(*lead[:axis], full[axis], *lead[axis + 1 :]))
    at = broadcast_to(at, shape=(*lead[:axis], shape_of(at)[axis], *lead[axis + 1 :]))
    return gather(reshape(x, shape=(math.prod(shape_of(x)),)), _flat_along(at, shape_of(x), axis), axis=0)


def _flat_along(at: Value, full: Shape, axis: int) -> Value:
    """The flat numbers of elements that are named by their place along an axis."""
    strides = [math.prod(full[i + 1 :]) for i in range(len(full))]
    lead = [np.arange(n).reshape((-1,) + (1,) * (len(full) - i - 1)) * strides[i] for i, n in enumerate(full) if i != axis]
    at = integers(at)
    return where(less(at, 0), at + full[axis], at) * strides[axis] + np.asarray(sum(lead) if lead else 0, np.int64)


def _add_along(g: Value, at: Value, *, axis: int, shape: Shape) -> Value:
    flat = _flat_along(broadcast_to(at, shape=shape_of(g)), shape, axis)
    size = math.prod(shape_of(g))
    total = index.scatter_add(reshape(g, shape=(size,)), reshape(flat, shape=(size,)), axis=0, shape=(math.prod(shape),))
    return reshape(total, shape=shape)


def _share_equal(t: Value, y: Value, *, axis: int, ordered: bool) -> Value:
    """The mean over the elements that are equal in y, each compared with each."""
    n = shape_of(y)[axis]
    itself = np.eye(n, dtype=bool).reshape((n, n) + (1,) * (ndim_of(y) - axis - 1))  # a nan, too
    same = logical_or(equal(expand_dims(y, (axis + 1,)), expand_dims(y, (axis,))), itself)
    total = sum_(where(same, expand_dims(t, (axis,)), np.zeros((), dtype_of(t))), axis=(axis + 1,), keepdims=False)
    return total / sum_(cast(same, dtype=dtype_of(t)), axis=(axis + 1,), keepdims=False)


def _windows(x: Value, *, width: Shape, axes: Shape) -> Value:
    for w, axis in zip(width, axes, strict=True):
        at = np.arange(shape_of(x)[axis] - w + 1)[:, None] + np.arange(w)
        x = moveaxis(gather(x, at, axis=axis), axis + 1, ndim_of(x))
    return x


def _overlap(g: Value, *, shape: Shape, axes: Shape) -> Value:
    for axis in reversed(axes):
        g = moveaxis(g, ndim_of(g) - 1, axis + 1)
        full = shape_of(g)
        at = np.arange(full[axis])[:, None] + np.arange(full[axis + 1])
        g = index.scatter_add(g, at, axis=axis, shape=(*full[:axis], shape[axis], *full[axis + 2 :]))
    return g


def _convolve(a: Value, v: Value, *, mode: str) -> Value:
    """Windows of a, padded for every overlap, times v from its end."""
    n, m = shape_of(a)[-1], shape_of(v)[-1]
    if m > n and ndim_of(a) == ndim_of(v) == 1:
        a, v, n, m = v, a, m, n
    last = ndim_of(a) - 1
    if mode == "full":
        spec = (slice(None),) * last + (slice(m - 1, m - 1 + n),)
        a = place(a, spec=spec, shape=(*shape_of(a)[:-1], n + 2 * (m - 1)))
    parts = _windows(a, width=(m,), axes=(last,))
    flipped = flip(v, ndim_of(v) - 1)
    return reshape(matmul(parts, expand_dims(flipped, (ndim_of(v),))), shape=(*_lead(a, v), shape_of(parts)[-2]))


def _lead(a: Value, v: Value) -> Shape:
    return tuple(np.broadcast_shapes(shape_of(a)[:-1], shape_of(v)[:-1]))


# -- products of arrays -----------------------------------------------------------------------------------------


def _einsum(*xs: Value, inputs: tuple[str, ...], output: str) -> Value:
    """One factor after the other; a letter is summed over as soon as no other factor has it."""
    value, letters = _distinct(xs[0], inputs[0])
    for i in range(1, len(xs)):
        later = set(output).union(*inputs[i + 1 :])
        other, names = _distinct(xs[i], inputs[i])
        value, letters = _contract(value, letters, other, names, later)
    value, letters = _summed(value, letters, set(output))
    return transpose(value, axes=tuple(letters.index(c) for c in output)) if letters != output else value


def _distinct(x: Value, letters: str) -> tuple[Value, str]:
    """A repeated letter reads a diagonal."""
    for c in string.ascii_letters:
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            full = shape_of(x)
            rest = [k for k in range(len(full)) if k not in (i, j)]
            moved = transpose(x, axes=(i, j, *rest))
            step = np.arange(full[i])
            x = gather(moved, step, step, axis=0)
            letters = c + "".join(letters[k] for k in rest)
    return x, letters


def _summed(x: Value, letters: str, kept: set[str]) -> tuple[Value, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in kept)
    return (sum_(x, axis=axes, keepdims=False) if axes else x), "".join(c for c in letters if c in kept)


def _contract(a: Value, left: str, b: Value, right: str, later: set[str]) -> tuple[Value, str]:
    """Two factors as one stack of matrix products."""
    a, left = _summed(a, left, later | set(right))
    b, right = _summed(b, right, later | set(left))
    sizes = {**dict(zip(left, shape_of(a), strict=True)), **dict(zip(right, shape_of(b), strict=True))}
    common = [c for c in left if c in right]
    batch, inner = [c for c in common if c in later], [c for c in common if c not in later]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]

    def arranged(x: Value, letters: str, *groups: list[str]) -> Value:
        x = transpose(x, axes=tuple(letters.index(c) for group in groups for c in group))
        return reshape(x, shape=tuple(math.prod(sizes[c] for c in group) for group in groups))

    y = matmul(arranged(a, left, batch, rows, inner), arranged(b, right, batch, inner, columns))
    made = "".join((*batch, *rows, *columns))
    return reshape(y, shape=tuple(sizes[c] for c in made)), made


def _extremum(op: Op, of_truth: Op) -> Expansion:
    """Of truths, a question; of small integers, the extremum of larger ones."""

    def expansion(x: Value, *, axis: Any, keepdims: bool) -> Any:
        dtype = dtype_of(x)
        if dtype.kind == "b":
            return of_truth(x, axis=axis, keepdims=keepdims)
        if dtype.kind in "iu" and dtype.itemsize < 8:
            return cast(op(cast(x, dtype=np.dtype(np.int64)), axis=axis, keepdims=keepdims), dtype=dtype)
        return NotImplemented

    return expansion


def _product_of_integers(a: Value, b: Value) -> Value:
    """Sums of products, for targets whose products of matrices are those of floats; of small integers in 32 bits."""
    if max(dtype_of(x).itemsize for x in (a, b)) < 4:
        a, b = (cast(x, dtype=np.dtype(np.int32)) for x in (a, b))
    if ndim_of(b) == 1:
        return sum_(a * b, axis=(ndim_of(a) - 1,), keepdims=False)
    rows = expand_dims(a, (ndim_of(a),))
    products = rows * (expand_dims(b, (ndim_of(b) - 2,)) if ndim_of(a) > 1 else b)
    return sum_(products, axis=(ndim_of(products) - 2,), keepdims=False)


def _matmul(a: Value, b: Value) -> Any:
    if 0 in (*shape_of(a), *shape_of(b)):  # sums of no products
        return np.matmul(np.zeros(shape_of(a), bool), np.zeros(shape_of(b), bool))
    if dtype_of(a).kind == dtype_of(b).kind == "b":
        return not_equal(matmul(integers(a), integers(b)), 0)
    if kind_of(a) in "iu" and kind_of(b) in "iu":
        return _product_of_integers(a, b)
    return NotImplemented


EXPANSIONS: dict[Op, Expansion] = {
    norm.norm: _norm,
    reduce.max_: _extremum(reduce.max_, any_),
    reduce.min_: _extremum(reduce.min_, all_),
    reduce.any_: _of_numbers(any_),
    reduce.all_: _of_numbers(all_),
    reduce.cumsum: _accumulate(ew.add),
    reduce.cumprod: _accumulate(mul),
    reduce.running_max: _accumulate(maximum),
    reduce.running_min: _accumulate(minimum),
    reduce.recurrence: _accumulate(lambda y, a, b: a * y + b),
    reduce.count_nonzero: _count_nonzero,
    reduce.argmin: _argmin,
    reduce.argmax: of_truths(lambda x, *, axis: argmax(integers(x), axis=axis)),
    sort.order_statistics: _order_statistics,
    sort.lexsort: _lexsort,
    sort.searchsorted: _searchsorted,
    sort.take_along: _take_along,
    sort.add_along: _add_along,
    sort.share_equal: _share_equal,
    sort.equal_shared: lambda x, *, axis, ordered: x,
    pairs.as_real: _as_real,
    shape.stack: _stack,
    shift.roll: _roll,
    shift.difference: _difference,
    index.put: _put,
    index.place: _place,
    index.gather: _gather,
    index.scatter_add: _scatter_add,
    index.put_at: _put_at,
    index.last_write: _last_write,
    windows.windows: _windows,
    windows.overlap: _overlap,
    convolve.convolve: _convolve,
    linalg.matmul: _matmul,
    linalg.einsum: _einsum,
}
