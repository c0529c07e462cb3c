"""Linear algebra as steps: decompositions and linear systems by LAPACK, and the rest as loops.

LAPACK works in place on column-major matrices. So an operand is first written to a new buffer in that order, by the kernel that
computes it if possible, and the result is a view of that buffer. The LU factors of a matrix are shared by all operations on it or
on its transpose.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Shape, Type
from ...ir.graph import Equation, Literal, Operand
from ...ops import broadcast, decompose, determinant, gaps, matrix, matrix_functions, solve
from ...ops import elementwise as ew
from ..switches import Switch
from .kernel import Dtype, Reduce, View, contiguous
from .lowered import Rules
from .product import for_blas, known_triangle
from .scalar import BOOL, FLOATS, KernelWriter
from .step import Lapack
from .views import region, transposed

if TYPE_CHECKING:
    from .fuse import Lowering

_INT = np.dtype(np.int32)
_NARROW, _WIDE, _BY_BLAS = 16, 64, 768  # columns of a block in the pullback of Cholesky; rows from which it is wide


@dataclass(frozen=True, slots=True)
class Factors:
    """The LU factors of a matrix, the rows that were exchanged, and where a pivot was zero."""

    lu: View
    pivots: View
    zero: View  # for each matrix
    failed: View  # for all
    transposed: bool = False  # they are those of the transpose


# -- memory -----------------------------------------------------------------------------------------------------


def by_columns(low: Lowering, shape: Shape, dtype: Dtype) -> View:
    """A new buffer for column-major matrices."""
    *stack, m, n = shape
    outer = contiguous((*stack, m * n))[: len(stack)]
    return View(low.buffer(Type(shape, dtype), "local"), shape, (*outer, 0 if m == 1 else 1, 0 if n == 1 else m))


def _by_rows(low: Lowering, view: View) -> View:
    """Matrices with contiguous rows that do not overlap; a copy otherwise."""
    (m, n), (down, across) = view.shape[-2:], view.strides[-2:]
    if (across == 1 or n == 1) and (down >= n or m == 1):
        return view
    whole = low.local(view.type)
    low.copy(view, whole)
    return whole


def _numbers(low: Lowering, shape: Shape, dtype: Dtype) -> View:
    return low.local(Type(shape, dtype))


def _constant(low: Lowering, data: Any) -> View:
    return View.whole(low.buffer(Type.of(data), "constant", data), data.shape)


def _written(low: Lowering, operand: Operand, out: View) -> View:
    """A copy of an operand, broadcast, in another buffer."""
    low.copy(low.operand(operand, out.shape), out)
    return out


def _run(
    low: Lowering,
    routine: str,
    operands: Sequence[View] = (),
    inout: Sequence[View] = (),
    outs: Sequence[View] = (),
    work: Sequence[View] = (),
    failure: str = "",
    **options: Any,
) -> View:
    """Add a step; returns whether it failed. With `failure`, the name of the error, a failure ends the program."""
    failed = _numbers(low, (), BOOL)
    lines = {low.line: None} if low.line else {}
    step = Lapack(routine, tuple(operands), tuple(inout), (*outs, failed), tuple(work), options, lines)
    position = low.step(step)
    for view in step.writes():
        low.ready[view.buffer] = position
    if failure:
        low.failures.append((failed, failure))
    return failed


def _fits(low: Lowering, equation: Equation) -> bool:
    """Whether the operands are of the one precision of the result, and not empty."""
    types = [low.type_of(o) for o in equation.inputs]
    dtype = types[0].dtype
    return dtype in FLOATS and all(t.dtype == dtype and 0 not in t.shape for t in types) and 0 not in equation.types[0].shape


def _diagonal(view: View) -> View:
    *stack, n, _ = view.shape
    *outer, down, across = view.strides
    return View(view.buffer, (*stack, n), (*outer, down + across), view.offset)


# -- systems ----------------------------------------------------------------------------------------------------


def _cholesky(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    out = _written(low, equation.inputs[0], low.local(equation.types[0]))
    _run(low, "cholesky", inout=[out], failure="indefinite")
    low.triangular[out.buffer] = out
    return low.hold(equation, out)


def _cholesky_pullback(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    factor, cotangent = equation.inputs
    (result,) = equation.types
    n, dtype = result.shape[-1], result.dtype
    l = _by_rows(low, low.view(factor))  # noqa: E741
    out = _written(low, cotangent, low.local(result))
    is_small = n < _BY_BLAS and Switch.CHOLESKY_TILES.on
    width = _NARROW if is_small else _WIDE
    work = [_numbers(low, ((n - width) * width,), dtype)] if is_small and n > width else []
    leading = max(l.strides[-2], n)
    _run(low, "cholesky_pullback", [l.over(result.shape)], [out], work=work, leading=leading, width=width)
    return low.hold(equation, out)


def _factors(low: Lowering, operand: Operand, or_transposed: bool = True) -> Factors:
    """The LU factors of a matrix: existing ones, possibly of its transpose, or new ones."""
    value = low.operand(operand, low.type_of(operand).shape)
    mine = low.in_memory(value)
    for known, factors in low.factored if Switch.SHARED_FACTORS.on else ():
        same = low.in_memory(known)
        if same is mine or same == mine:
            return factors
        if or_transposed and isinstance(same, View) and isinstance(mine, View) and same == transposed(mine):
            return replace(factors, transposed=True)
    t = low.type_of(operand)
    *stack, n, _ = t.shape
    lu = _written(low, operand, by_columns(low, t.shape, t.dtype))
    pivots = _numbers(low, (*stack, n), _INT)
    zero = _numbers(low, tuple(stack), BOOL)
    failed = _run(low, "factors", inout=[lu], outs=[pivots, zero])
    factors = Factors(lu, pivots, zero, failed)
    low.factored.append((value, factors))
    return factors


def _over(factors: Factors, stack: Shape) -> list[View]:
    n = factors.lu.shape[-1]
    return [factors.lu.over((*stack, n, n)), factors.pivots.over((*stack, n))]


def _solve(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    a, b = equation.inputs
    (result,) = equation.types
    known = known_triangle(low, a)
    if known is not None:
        base, transposed = known
        return low.hold(equation, _solve_triangle(low, base, b, result, lower=True, transposed=transposed))
    factors = _factors(low, a)
    low.failures.append((factors.failed, "singular"))
    x = _written(low, b, by_columns(low, result.shape, result.dtype))
    _run(low, "solve", _over(factors, result.shape[:-2]), [x], transposed="T" if factors.transposed else "N")
    return low.hold(equation, x)


def _inv(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    (result,) = equation.types
    factors = _factors(low, equation.inputs[0])
    if equation.params["strict"]:
        low.failures.append((factors.failed, "singular"))
    x = by_columns(low, result.shape, result.dtype)
    low.copy(factors.lu, x)
    work = _numbers(low, _work_size("getri", result.dtype, result.shape[-1]), result.dtype)
    _run(low, "inverse", [factors.pivots, factors.zero], [x], (), [work])
    return low.hold(equation, transposed(x) if factors.transposed else x)


def _triangular_solve(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    a, b = equation.inputs
    view = for_blas(low, low.view(a))
    if view.buffer not in low.triangular:  # whose diagonal is positive
        _refuse_zeros(low, _diagonal(view))
    return low.hold(equation, _solve_triangle(low, view, b, equation.types[0], **equation.params))


def _refuse_zeros(low: Lowering, diagonal: View) -> None:
    failed = _numbers(low, (), BOOL)
    position = low.place(diagonal.shape, [diagonal])
    kernel = low.kernel(position)
    w = KernelWriter(kernel)
    line = low.read(position, diagonal)
    zero = w.test("equal", line, w.like(0, line))
    kernel.reductions.append(Reduce("any", zero, tuple(range(len(diagonal.shape))), failed.over(diagonal.shape)))
    low.ready[failed.buffer] = position
    low.failures.append((failed, "singular"))


def _solve_triangle(low: Lowering, a: View, b: Operand, result: Type, lower: bool, transposed: bool) -> View:
    """x is row-major or column-major, as b is."""
    *stack, _, columns = result.shape
    value = low.operand(b, result.shape)
    by_rows = not (isinstance(value, View) and value.strides[-2] == 1 and columns > 1)
    x = low.local(result) if by_rows else by_columns(low, result.shape, result.dtype)
    low.copy(value, x)
    n, (down, across) = a.shape[-1], a.strides[-2:]
    # BLAS sees the matrix if its columns are contiguous, else its transpose; for a row-major x it solves the transposed system.
    sees_transpose = across == 1 and n > 1
    upper = lower == sees_transpose
    flipped = transposed != sees_transpose
    if by_rows and columns > 1:
        flipped = not flipped
    _run(
        low,
        "triangular",
        [a.over((*stack, n, n))],
        [x],
        triangle="U" if upper else "L",
        transposed="T" if flipped else "N",
        leading=max(down if sees_transpose else across, n),
        by_rows=by_rows,
    )
    return x


# -- determinants -----------------------------------------------------------------------------------------------


def _sign_and_logarithm(low: Lowering, equation: Equation) -> tuple[int, int, int] | None:
    """A kernel over the stack, and the lines in it that hold sign and logarithm of the determinant."""
    if not _fits_square(low, equation):
        return None
    factors = _factors(low, equation.inputs[0])
    diagonal = _diagonal(factors.lu)
    stack, n, dtype = diagonal.shape[:-1], diagonal.shape[-1], diagonal.dtype
    order = _constant(low, np.arange(1, n + 1, dtype=_INT))
    position = low.place(diagonal.shape, [diagonal, factors.pivots])
    kernel = low.kernel(position)
    w = KernelWriter(kernel)
    d, pivot, own = (low.read(position, v) for v in (diagonal, factors.pivots, order))
    one, minus = w.like(1, d), w.like(-1, d)
    flips = w.test("xor", w.test("less", d, w.like(0, d)), w.test("not_equal", pivot, own))
    parts = (("prod", w("select", flips, minus, one)), ("sum", w("log", w("abs", d))))
    results = []
    for how, line in parts:
        out = low.local(Type(stack, dtype))
        kernel.reductions.append(Reduce(how, line, (len(stack),), View(out.buffer, diagonal.shape, (*out.strides, 0))))
        low.ready[out.buffer] = position
        results.append(out)
    position = low.place(stack, [*results, factors.zero])
    w = KernelWriter(low.kernel(position))
    sign, logarithm, zero = (low.read(position, v) for v in (*results, factors.zero))
    sign = w("select", zero, w.like(0, sign), sign)
    return position, sign, w("select", zero, w.like(-np.inf, logarithm), logarithm)


def _fits_square(low: Lowering, equation: Equation) -> bool:
    t = low.type_of(equation.inputs[0])
    return t.dtype in FLOATS and 0 not in t.shape


def _slogdet(low: Lowering, equation: Equation) -> bool:
    found = _sign_and_logarithm(low, equation)
    if found is None:
        return False
    position, sign, logarithm = found
    low.hold_lines(equation, position, (sign, logarithm))
    return True


def _det(low: Lowering, equation: Equation) -> bool:
    found = _sign_and_logarithm(low, equation)
    if found is None:
        return False
    position, sign, logarithm = found
    w = KernelWriter(low.kernel(position))
    low.hold_lines(equation, position, (w("mul", sign, w("exp", logarithm)),))
    return True


# -- decompositions ---------------------------------------------------------------------------------------------


@functools.cache
def _work_size(routine: str, dtype: Dtype, *sizes: Any, **options: Any) -> tuple[int, ...]:
    """The work size of a routine, from LAPACK's workspace query."""
    from scipy.linalg import lapack

    letter = "d" if dtype == np.float64 else "s"
    *found, info = getattr(lapack, f"{letter}{routine}_lwork")(*sizes, **options)
    assert info == 0, f"the workspace query of {routine} failed"
    return tuple(int(x) for x in found)


def _eigh(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    values, vectors = equation.types
    v = _written(low, equation.inputs[0], by_columns(low, vectors.shape, vectors.dtype))
    w = low.local(values)
    with_vectors = low.is_read(equation.outputs[1])
    size, whole = _work_size("syevd", values.dtype, vectors.shape[-1], compute_v=with_vectors, lower=equation.params["lower"])
    work = [_numbers(low, (size,), values.dtype), _numbers(low, (whole,), _INT)]
    triangle = "L" if equation.params["lower"] else "U"
    _run(low, "eigen", (), [v], [w], work, "eigenvalues", triangle=triangle, vectors=with_vectors)
    low.values.update(zip(equation.outputs, (w, v), strict=True))
    return True


def _qr(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    (a,), (tq, tr) = equation.inputs, equation.types
    t = low.type_of(a)
    *stack, m, n = t.shape
    k, columns = min(m, n), tq.shape[-1]
    f = _written(low, a, by_columns(low, t.shape, t.dtype))
    tau = low.local(Type((*stack, k), t.dtype))
    (size,) = _work_size("geqrf", t.dtype, m, max(n, columns))  # a block of columns; the same size for q
    work = _numbers(low, (size,), t.dtype)
    _run(low, "reflectors", (), [f], [tau], [work])
    q = by_columns(low, tq.shape, t.dtype)
    every = (slice(None),) * len(stack)
    first = (*every, slice(None), slice(0, min(n, columns)))
    low.copy(region(f, first), region(q, first))
    mask = _constant(low, np.tri(tr.shape[-2], n, -1) == 0)
    r, source = low.local(tr), region(f, (*every, slice(0, tr.shape[-2])))
    position = low.place(tr.shape, [source, mask])
    w = KernelWriter(low.kernel(position))
    line = low.read(position, source)
    low.write(position, w("select", low.read(position, mask), line, w.like(0, line)), r)
    _run(low, "orthogonal", [tau], [q], (), [work])
    low.values.update(zip(equation.outputs, (q, r), strict=True))
    return True


def _svd(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    (a,), (tu, ts, tv), full = equation.inputs, equation.types, equation.params["full"]
    t = low.type_of(a)
    m, n = t.shape[-2:]
    copy = _written(low, a, by_columns(low, t.shape, t.dtype))
    outs = [low.local(ts)]
    with_vectors = low.is_read(equation.outputs[0]) or low.is_read(equation.outputs[2])
    if with_vectors:
        outs += [by_columns(low, of.shape, t.dtype) for of in (tu, tv)]
    size = _work_size("gesdd", t.dtype, m, n, compute_uv=with_vectors, full_matrices=full)
    work = [_numbers(low, size, t.dtype), _numbers(low, (8 * min(m, n),), _INT)]
    _run(low, "singular", (), [copy], outs, work, "singular values", job="N" if not with_vectors else "A" if full else "S")
    u, s, vh = equation.outputs
    low.values.update(zip((s, u, vh), outs, strict=False))
    return True


def _lu(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    factors = _factors(low, equation.inputs[0], or_transposed=False)
    position = low.place(factors.pivots.shape, [factors.pivots])
    w = KernelWriter(low.kernel(position))
    line = low.read(position, factors.pivots)
    pivots = low.local(equation.types[1])
    low.write(position, w.cast(w("sub", line, w.like(1, line)), pivots.dtype), pivots)  # LAPACK counts from 1
    low.values.update(zip(equation.outputs, (factors.lu, pivots), strict=True))
    return True


# -- what the rules for matrices ask ----------------------------------------------------------------------------


def _is_hermitian(low: Lowering, equation: Equation) -> bool:
    if not _fits_square(low, equation):
        return False
    out = low.local(equation.types[0])
    _run(low, "is_symmetric", [low.view(equation.inputs[0])], outs=[out])
    return low.hold(equation, out)


def _hermitian(low: Lowering, equation: Equation) -> bool:
    if not _fits_square(low, equation):
        return False
    (a,), (t,) = equation.inputs, equation.types
    n, lower = t.shape[-1], equation.params["lower"]
    weights = np.tri(n, n, -1, dtype=t.dtype) + 0.5 * np.eye(n, dtype=t.dtype)
    weights = weights if lower else weights.T
    weighted = low.emit(ew.mul, (Literal(weights), a), t)
    half = low.emit(broadcast.where, (Literal(weights != 0), weighted, Literal(t.dtype.type(0))), t)
    other = low.emit(broadcast.transpose, (half,), t, axes=(*range(t.ndim - 2), t.ndim - 1, t.ndim - 2))
    return low.alias(equation, low.emit(ew.add, (half, other), t))


def _negligible(low: Lowering, equation: Equation) -> bool:
    """Whether the sum or the difference of two eigenvalues is rounding error only."""
    (w,), (result,) = equation.inputs, equation.types
    t = low.type_of(w)
    if t.dtype not in FLOATS or 0 in t.shape:
        return False
    *stack, n = t.shape
    pairs, each = Type(result.shape, t.dtype), Type((*stack, 1, 1), t.dtype)
    across = low.emit(broadcast.reshape, (w,), Type((*stack, 1, n), t.dtype), shape=(*stack, 1, n))
    down = low.emit(broadcast.reshape, (w,), Type((*stack, n, 1), t.dtype), shape=(*stack, n, 1))
    gaps = low.emit(ew.add if equation.params["sign"] > 0 else ew.sub, (across, down), pairs)
    sizes = low.emit(ew.absolute, (across,), low.types[across])
    total = low.emit(broadcast.sum_, (sizes,), each, axis=(len(stack) + 1,), keepdims=True)
    least = low.emit(ew.mul, (Literal(8 * np.finfo(t.dtype).eps), total), each)
    found = low.emit(ew.less_equal, (low.emit(ew.absolute, (gaps,), pairs), least), result)
    return low.alias(equation, found)


RULES: Rules = {
    decompose.cholesky: _cholesky,
    decompose.cholesky_pullback: _cholesky_pullback,
    solve.triangular_solve: _triangular_solve,
    solve.solve: _solve,
    solve.inv: _inv,
    determinant.slogdet: _slogdet,
    determinant.det: _det,
    decompose.eigh: _eigh,
    decompose.qr: _qr,
    decompose.svd: _svd,
    matrix_functions.lu: _lu,
    matrix.is_hermitian: _is_hermitian,
    matrix.hermitian: _hermitian,
    gaps.negligible: _negligible,
}
