"""Ops as programs of other ops, for exporters: what `jit` leaves to NumPy or SciPy is written in ops that have code.

    np.sinc(x)  →  where(x == 0, 1, sin(pi x) / (pi x))

An expansion is a Python function of the op's operands and parameters, staged for their types. The implementation of an op that is
itself NumPy code (`np.where(…)`, not a function of a library) is its own expansion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..api.control import cond, scan, while_loop
from ..api.graph import graph
from ..core.errors import AdjointError
from ..core.op import Op
from ..core.types import Type
from ..ir.graph import Graph
from ..numpy import stack as stack_arrays
from ..ops import broadcast, control, decompose, determinant, gaps, index, matrix_functions, pseudo, reduce, shift, sort, windows
from ..ops import elementwise as e
from ..rewrite.pipeline import optimize
from . import special_functions

Expansion = Callable[..., Any]


def expansion(op: Op, operands: Sequence[Type], params: dict[str, Any], results: Sequence[Type]) -> Graph | None:
    """The graph of an op in terms of others; None if there is none."""
    function = EXPANSIONS.get(op)
    if function is None and type(op.impl) is FunctionType and op.impl.__module__.startswith("adjoint."):
        function = op.impl
    if function is None:
        return None
    zeros = [np.zeros(t.shape, t.dtype) for t in operands]
    try:
        with np.errstate(all="ignore"):
            made = graph(lambda *xs: function(*xs, **params))(*zeros)
    except (AdjointError, AttributeError, TypeError, ValueError, np.linalg.LinAlgError):
        return None  # it asks for numbers, or is no NumPy code
    types = made.types
    given = [[types[o] if isinstance(o, int) else o.type for o in q.inputs] for q in made.equations if q.op is op]
    again = list(operands) in given
    if again or tuple(made.output_types) != tuple(results):
        return None
    return optimize(made).graph


def _along(x: Any, axis: int, index_: Any) -> tuple[Any, ...]:
    """Integer arrays that pick elements along one axis, and stay in place along the others."""
    shape = index_.shape
    grids = [np.arange(n).reshape([-1 if k == i else 1 for k in range(len(shape))]) for i, n in enumerate(shape)]
    grids[axis] = index_
    return tuple(grids)


def _take_along(x: Any, at: Any, *, axis: int) -> Any:
    return index.gather(x, *_along(x, axis, at), axis=0)


def _add_along(g: Any, at: Any, *, axis: int, shape: tuple[int, ...]) -> Any:
    return index.scatter_add(g, *_along(g, axis, at), axis=0, shape=shape)


def _roll(x: Any, *, shifts: Sequence[int], axes: Sequence[int]) -> Any:
    for by, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        if n and by % n:
            before = (slice(None),) * axis
            x = np.concatenate([x[(*before, slice(n - by % n, None))], x[(*before, slice(None, n - by % n))]], axis)
    return x


def _difference(x: Any, *, axis: int) -> Any:
    before = (slice(None),) * axis
    return x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]


def _places(shape: tuple[int, ...], width: Any, axes: Any) -> Any:
    """The place of each element of all windows in the flattened array."""
    flat = np.arange(math.prod(shape)).reshape(shape)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(flat, width, axes))


def _windows(x: Any, *, width: Any, axes: Any) -> Any:
    return index.gather(x.reshape(-1), _places(x.shape, width, axes), axis=0)


def _overlap(g: Any, *, shape: tuple[int, ...], axes: Any) -> Any:
    places = _places(shape, g.shape[len(shape) :], axes)
    return index.scatter_add(g.reshape(-1), places.reshape(-1), axis=0, shape=(math.prod(shape),)).reshape(shape)


def _order_statistics(x: Any, *, kth: Sequence[int], axis: int) -> Any:
    ordered = _take_along(x, reduce.argsort(x, axis=axis, kind=None), axis=axis)
    return stack_arrays([ordered[(slice(None),) * axis + (k,)] for k in kth], axis)


def _lexsort(keys: Any, *, axis: int) -> Any:
    """By the first key, then by the next: each sort is stable, so that the last one decides."""
    order = reduce.argsort(keys[0], axis=axis, kind="stable")
    for key in keys[1:]:
        order = _take_along(order, reduce.argsort(_take_along(key, order, axis=axis), axis=axis, kind="stable"), axis=axis)
    return order


def _share_equal(t: Any, y: Any, *, axis: int, ordered: bool) -> Any:
    """Means over equal elements: by comparing all pairs."""
    n = y.shape[axis]
    down, across = (np.expand_dims(np.moveaxis(y, axis, -1), k) for k in (-1, -2))
    same = np.logical_or(down == across, np.eye(n, dtype=bool))
    total = np.sum(np.where(same, np.expand_dims(np.moveaxis(t, axis, -1), -2), 0.0), -1)
    return np.moveaxis(total / np.sum(same, -1), -1, axis)


def _floor_divide(a: Any, b: Any) -> Any:
    """As NumPy has it: the remainder is exact, and the quotient is rounded once."""
    rest = e.fmod(a, b)
    quotient = (a - rest) / b
    quotient = np.where(np.logical_and(rest != 0, (b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    return np.where(b == 0, a / b, np.where(quotient == 0, np.copysign(np.zeros_like(a), a / b), whole))


def _remainder(a: Any, b: Any) -> Any:
    rest = e.fmod(a, b)
    rest = np.where(rest != 0, np.where((b < 0) != (rest < 0), rest + b, rest), np.copysign(np.zeros_like(rest), b))
    return rest


def _round_to(x: Any, *, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals >= 0 else np.rint(x / scale) * scale


def _cumulative(combine: Callable[[Any, Any], Any], start: int) -> Expansion:
    """Of integers, which wrap around; those of floats are routines."""

    def expanded(x: Any, *, axis: int) -> Any:
        rows = np.moveaxis(x, axis, 0)

        def step(total: Any, row: Any) -> Any:
            total = combine(total, row)
            return total, total

        return np.moveaxis(scan(step, np.full(rows.shape[1:], start, x.dtype), rows)[1], 0, axis)

    return expanded


# -- matrices ---------------------------------------------------------------------------------------------------


def _decomposed(a: Any) -> tuple[Any, Any, Any]:
    u, s, vh = decompose.svd(a, full=False)
    return u, s, vh


def _pinv(a: Any, *, rcond: float) -> Any:
    u, s, vh = _decomposed(a)
    kept = s > rcond * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    return np.swapaxes(vh, -1, -2) @ (inverse[..., :, None] * np.swapaxes(u, -1, -2))


def _lstsq(a: Any, b: Any, *, rcond: float) -> Any:
    _, s, _ = _decomposed(a)
    rank = np.sum(s > rcond * np.max(s, axis=-1, keepdims=True), axis=-1)
    return _pinv(a, rcond=rcond) @ b, s, rank.astype(np.int32)


def _rank(a: Any, *, tol: Any, rtol: Any, hermitian: bool) -> Any:
    s = np.abs(decompose.eigh(a, lower=True)[0]) if hermitian else _decomposed(a)[1]
    if tol is None:
        relative = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
        tol = np.max(s, axis=-1, keepdims=True) * relative
    return np.sum(s > tol, axis=-1)


def _without(s: Any, *left_out: int) -> Any:
    """The product of all singular values but some."""
    rest = [i for i in range(s.shape[-1]) if i not in left_out]
    return np.prod(s[..., rest], axis=-1) if rest else np.ones_like(s[..., 0])


def _rotations(a: Any) -> tuple[Any, Any, Any, Any]:
    u, s, vh = _decomposed(a)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _cofactor(a: Any) -> Any:
    u, s, vh, turn = _rotations(a)
    others = stack_arrays([_without(s, i) for i in range(a.shape[-1])], -1)
    return turn * ((u * others[..., None, :]) @ vh)


def _cofactor_slope(a: Any, t: Any) -> Any:
    u, s, vh, turn = _rotations(a)
    n = a.shape[-1]
    zero = np.zeros_like(s[..., 0])
    pairs = stack_arrays([stack_arrays([_without(s, i, j) if i != j else zero for j in range(n)], -1) for i in range(n)], -2)
    e_ = np.swapaxes(u, -1, -2) @ t @ np.swapaxes(vh, -1, -2)
    d = np.sum(pairs * np.sum(e_ * np.eye(n), -1)[..., None, :], -1)
    return turn * (u @ (-pairs * np.swapaxes(e_, -1, -2) + np.eye(n) * d[..., None, :]) @ vh)


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    """One system for all elements of x: small matrices."""
    m, n = q.shape[-2:]
    left = np.reshape(a[..., :, None, :, None] * np.eye(n)[:, None, :], (*a.shape[:-2], m * n, m * n))
    turned = np.swapaxes(b, -1, -2)
    right = np.reshape(np.eye(m)[:, None, :, None] * turned[..., None, :, None, :], (*b.shape[:-2], m * n, m * n))
    system = left + right
    wanted = np.broadcast_to(q, (*np.broadcast_shapes(system.shape[:-2], q.shape[:-2]), m, n))
    return np.reshape(np.linalg.solve(system, np.reshape(wanted, (*wanted.shape[:-2], m * n, 1))), wanted.shape)


#: Of the Padé approximant of degree 13, with 1-norms up to 5.37 (Higham, 2005).
_PADE = tuple(
    float(math.factorial(26 - k) * math.factorial(13) // (math.factorial(k) * math.factorial(13 - k))) for k in range(14)
)


def _expm(a: Any) -> Any:
    """Scaling and squaring."""
    size = np.max(np.sum(np.abs(a), axis=-2))
    squarings = np.where(size > 5.37, np.ceil(np.log2(np.where(size > 5.37, size, 5.37) / 5.37)), 0.0)
    a = a * np.exp2(-squarings)
    one = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    b = [c / _PADE[0] for c in _PADE]
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    y = np.linalg.solve(even - odd, even + odd)
    return while_loop(lambda c: c[0] > 0.5, lambda c: (c[0] - 1.0, c[1] @ c[1]), (squarings, y))[1]


def _expm_slope(a: Any, t: Any) -> Any:
    """The upper right block of the exponential of [[a, t], [0, a]]."""
    n = a.shape[-1]
    shape = (*np.broadcast_shapes(a.shape[:-2], t.shape[:-2]), n, n)
    a, t = np.broadcast_to(a, shape), np.broadcast_to(t, shape)
    top = np.concatenate([a, t], axis=-1)
    return _expm(np.concatenate([top, np.concatenate([np.zeros(shape), a], axis=-1)], axis=-2))[..., :n, n:]


# -- loops ------------------------------------------------------------------------------------------------------

_BLOCK = 32  # states that are kept


def _while_vjp(
    count: Any, *args: Any, step: Graph, pull: Graph, consts: int, wanted: Sequence[bool], checkpoint: Any
) -> tuple[Any, ...]:
    """The backward pass of a loop of unknown length in memory of known size: the states are computed again from the first one.

    A block of states is kept at a time, so that n iterations cost n² / 64 more.
    """
    fixed, state, gs = args[:consts], args[consts : len(wanted)], args[len(wanted) :]
    shared = len(pull.output_types) - len(gs)

    def run(s: Any) -> Any:
        return tuple(step.straight(*fixed, *s))

    def block(carry: Any) -> Any:
        start, totals, gs = carry
        first = while_loop(lambda c: c[0] < start, lambda c: (c[0] + 1, run(c[1])), (np.int64(0), state))[1]
        places = np.arange(_BLOCK)
        _, states = scan(lambda s, i: (cond(start + i + 1 < count, run, lambda s: s, s), s), first, places)

        def back(carry: Any, x: Any) -> Any:
            i, s = x

            def pulled(totals: Any, gs: Any) -> Any:
                results = pull.straight(*fixed, *s, *gs)
                return tuple(t + r for t, r in zip(totals, results[:shared], strict=True)), tuple(results[shared:])

            return cond(start + i < count, pulled, lambda totals, gs: (totals, gs), *carry), None

        totals, gs = scan(back, (totals, gs), (places, states), reverse=True)[0]
        return start - _BLOCK, totals, gs

    last = while_loop(lambda s: s + _BLOCK < count, lambda s: s + _BLOCK, np.int64(0))
    last = np.where(count > 0, last, -1)
    zeros = tuple(np.zeros(t.shape, t.dtype)[()] for t in pull.output_types[:shared])
    _, totals, gs = while_loop(lambda c: c[0] >= 0, block, (last, zeros, tuple(gs)))
    return (*totals, *gs)


EXPANSIONS: dict[Op, Expansion] = {
    **special_functions.EXPANSIONS,
    reduce.cumsum: _cumulative(lambda a, b: a + b, 0),
    reduce.cumprod: _cumulative(lambda a, b: a * b, 1),
    pseudo.pinv: _pinv,
    pseudo.lstsq: _lstsq,
    pseudo.rank: _rank,
    determinant.cofactor: _cofactor,
    determinant.cofactor_slope: _cofactor_slope,
    matrix_functions.sylvester: _sylvester,
    matrix_functions.expm: _expm,
    matrix_functions.expm_slope: _expm_slope,
    control.while_vjp: _while_vjp,
    gaps.magnitude: lambda x: np.abs(x),
    sort.take_along: _take_along,
    sort.add_along: _add_along,
    sort.order_statistics: _order_statistics,
    sort.lexsort: _lexsort,
    sort.share_equal: _share_equal,
    shift.roll: _roll,
    shift.difference: _difference,
    windows.windows: _windows,
    windows.overlap: _overlap,
    reduce.any_: lambda x, *, axis, keepdims: reduce.any_(x != 0, axis=axis, keepdims=keepdims),
    reduce.all_: lambda x, *, axis, keepdims: reduce.all_(x != 0, axis=axis, keepdims=keepdims),
    reduce.count_nonzero: lambda x, *, axis, keepdims: np.sum((x != 0).astype(np.int64), axis=axis, keepdims=keepdims),
    e.floor_divide: _floor_divide,
    e.remainder: _remainder,
    e.rounded: _round_to,
    e.sinc: lambda x: np.where(x == 0, 1.0, np.sin(np.pi * x) / np.where(x == 0, 1.0, np.pi * x)),
    broadcast.imag: lambda x: np.zeros_like(x),
}
