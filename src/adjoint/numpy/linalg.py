"""numpy.linalg, differentiable. Functions are batched over leading axes where NumPy's are.

`cholesky` and `eigh` read one triangle of a Hermitian matrix. Cotangents of a Hermitian matrix are Hermitian, so they
agree with differences along symmetric directions; for a matrix with only that triangle filled in, they lie in it.

Eigenvectors and singular vectors are determined up to a phase (a rotation, where eigenvalues repeat): take derivatives
of functions that do not depend on that choice. Derivatives are finite at repeated eigenvalues too, and gradients of
functions of the eigenvalues or singular values alone are exact there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import BatchError, UnsupportedError
from ..core.types import Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import decompose, determinant, matrix, pseudo
from ..ops import elementwise as ops
from ..ops import reduce as reductions
from ..ops import shape as joins
from ..ops import solve as systems
from ..ops.index import getitem
from ..ops.linalg import column, row
from . import product
from .arrange import diagonal as _diagonal
from .arrange import trace as _trace
from .dropin import drop_in
from .norm import cond as cond
from .norm import matrix_norm as matrix_norm
from .norm import norm as norm
from .norm import vector_norm as vector_norm
from .product import deliver_product
from .reduce import sum as sum_
from .selection import take_along_axis
from .shape import astype, ravel, transpose
from .shape import matrix_transpose as _matrix_transpose
from .table import lift, piecewise_constant

LinAlgError = np.linalg.LinAlgError

# NumPy's named results.
_OF_ONE: Any = np.linalg.eig(np.eye(1))
_EigResult = type(_OF_ONE)
_EIG_GIVES_REALS = _OF_ONE.eigenvalues.dtype.kind == "f"  # up to NumPy 2.4, for real matrices with real eigenvalues
_EighResult: Any = type(np.linalg.eigh(np.eye(1)))
_QRResult: Any = type(np.linalg.qr(np.eye(1)))
_SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))
_SVDResult: Any = type(np.linalg.svd(np.eye(1)))


def _matrices(a: Any, whole: bool = False) -> Value:
    """Matrices on the last two axes; converted to floats unless integers are allowed."""
    a = lift(a)
    if ndim_of(a) < 2:
        raise LinAlgError(f"{ndim_of(a)}-dimensional array given. Array must be at least two-dimensional")
    return a if whole or dtype_of(a).kind in "fc" else astype(a, float)


def _square(a: Any, whole: bool = False) -> Value:
    a = _matrices(a, whole)
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a


# -- linear systems ---------------------------------------------------------------------------------------------


@drop_in(np.linalg.solve)
def solve(a: Any, b: Any) -> Value:
    """x with a x = b. Only a b of one dimension is a vector; otherwise it is a stack of matrices."""
    a, b = _square(a), lift(b)
    if ndim_of(b) == 1:
        y = systems.solve(a, column(b))
        return shapes.reshape(y, shape=shape_of(y)[:-1])
    return systems.solve(a, b)


@drop_in(np.linalg.inv)
def inv(a: Any) -> Value:
    return systems.inv(_square(a), strict=True)


@drop_in(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Value:
    a, b = lift(a), lift(b)
    n = ndim_of(a)
    if axes is not None:
        last = [canonical_axis(k, n) for k in axes]
        a = transpose(a, [k for k in range(n) if k not in last] + last)
    shape = shape_of(a)[ndim_of(b) - n :] if n > ndim_of(b) else ()
    size = math.prod(shape)
    if math.prod(shape_of(a)) != size**2:
        raise LinAlgError(
            "Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return shapes.reshape(solve(shapes.reshape(a, shape=(size, size)), ravel(b)), shape=shape)


@drop_in(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Value:
    a = lift(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    left, right = shape_of(a)[:ind], shape_of(a)[ind:]
    square = shapes.reshape(a, shape=(math.prod(right), math.prod(left)))
    return shapes.reshape(inv(square), shape=right + left)


def _cutoff(rcond: Any, name: str) -> float:
    if isinstance(rcond, Traced) or np.ndim(rcond):
        raise UnsupportedError(
            f"np.linalg.{name} of a traced matrix needs a plain number as its cutoff; use one for all matrices"
        )
    return float(rcond)


@drop_in(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Value:
    """The pseudoinverse. Its derivative is that at constant rank."""
    a = _matrices(a)
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else rtol
    if rcond is None:
        rcond = max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
    return pseudo.pinv(matrix.hermitian(_square(a), lower=True) if hermitian else a, rcond=_cutoff(rcond, "pinv"))


@drop_in(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Value, Value, Value, Value]:
    """The solution, the sums of squared residuals, the rank (constant) and the singular values.

    There are no residuals if the rank is not full. Inside vmap and in a graph, where the rank is not known, they are nan then.
    """
    a, b = _matrices(a), lift(b)
    b = b if dtype_of(b).kind in "fc" else astype(b, float)
    vector = ndim_of(b) == 1
    b = column(b) if vector else b
    if ndim_of(a) != 2 or ndim_of(b) != 2:
        worst = ndim_of(a) if ndim_of(a) != 2 else ndim_of(b)
        raise LinAlgError(f"{worst}-dimensional array given. Array must be two-dimensional")
    (m, n), rows = shape_of(a), shape_of(b)[0]
    if m != rows:
        raise LinAlgError("Incompatible dimensions")
    eps = float(np.finfo(np.result_type(dtype_of(a), dtype_of(b))).eps)
    cutoff = eps * max(m, n) if rcond is None else _cutoff(rcond, "lstsq")
    x, s, rank = pseudo.lstsq(a, b, rcond=eps if cutoff < 0 else cutoff)
    full = _is_full(rank, n) if m > n else False
    if full is False:
        residuals = np.array([], dtype_of(s))
    else:
        rest = b - a @ x
        residuals = sum_(ops.square(shapes.real(rest)) + ops.square(shapes.imag(rest)) if _complex(rest) else ops.square(rest), 0)
        residuals = residuals if full is True else shapes.where(full, residuals, np.array(np.nan, dtype_of(s)))
    return (shapes.reshape(x, shape=(n,)) if vector else x), residuals, rank, s


def _complex(x: Value) -> bool:
    return dtype_of(x).kind == "c"


def _is_full(rank: Value, n: int) -> Any:
    """Whether the rank is n: a bool, or a traced value where the numbers are not known, inside vmap and in a graph."""
    full = rank == n
    try:
        return bool(full)
    except (BatchError, UnsupportedError) as error:
        error.mark_handled()
        return full


# -- determinants -----------------------------------------------------------------------------------------------


@drop_in(np.linalg.det)
def det(a: Any) -> Value:
    return determinant.det(_square(a))


@drop_in(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    return _SlogdetResult(*determinant.slogdet(_square(a)))


# -- factorisations ---------------------------------------------------------------------------------------------


@drop_in(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Value:
    """The factor of a Hermitian matrix. See the top of this module for the triangle its cotangent lies in."""
    a = _square(a)
    return matrix.dagger(decompose.cholesky(matrix.dagger(a))) if upper else decompose.cholesky(a)


@drop_in(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        if mode == "raw":
            raise UnsupportedError("np.linalg.qr(mode='raw') has no derivative; use mode='reduced'")
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = _matrices(a)
    m, n = shape_of(a)[-2:]
    q, r = decompose.qr(matrix.columns(a, 0, m) if n > m else a, complete=mode == "complete")
    if n > m:  # the first columns determine q
        r = joins.concatenate(r, matrix.dagger(q) @ matrix.columns(a, m, n), axis=ndim_of(a) - 1)
    return r if mode == "r" else _QRResult(q, r)


@drop_in(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors. See the top of this module for the triangle its cotangent lies in."""
    UPLO = UPLO.upper()
    if UPLO not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return _EighResult(*decompose.eigh(_square(a), lower=UPLO == "L"))


@drop_in(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Value:
    return eigh(a, UPLO)[0]


@drop_in(np.linalg.eig)
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors, real where NumPy's are; inside vmap always complex."""
    a = _square(a)
    w, v = decompose.eig(a)
    if _EIG_GIVES_REALS and not _complex(a) and _all_real(w):
        w, v = shapes.real(w), shapes.real(v)
    return _EigResult(w, v)


def _all_real(w: Value) -> bool:
    try:
        return bool(np.all(np.imag(ops.stop_gradient(w)) == 0))
    except BatchError as error:
        error.mark_handled()
        return False


@drop_in(np.linalg.eigvals)
def eigvals(a: Any) -> Value:
    return eig(a)[0]


@drop_in(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """u, s, vᴴ. With full_matrices the additional vectors span the complement; they rotate as little as possible."""
    a = _matrices(a)
    if hermitian:
        return _hermitian_svd(_square(a), compute_uv)
    u, s, vh = decompose.svd(a, full=bool(full_matrices) and compute_uv and shape_of(a)[-1] != shape_of(a)[-2])
    return _SVDResult(u, s, vh) if compute_uv else s


def _hermitian_svd(a: Value, compute_uv: bool) -> Any:
    w, v = decompose.eigh(a, lower=True)
    size = ops.absolute(w)
    n = ndim_of(w)
    order = reductions.argsort(-size, axis=n - 1, kind="stable")
    s = take_along_axis(size, order, -1)
    if not compute_uv:
        return s
    u = take_along_axis(v, row(order), -1)
    sign = take_along_axis(ops.sign(w), order, -1)
    return _SVDResult(u, s, matrix.dagger(u * row(sign)))


@drop_in(np.linalg.svdvals)
def svdvals(x: Any, /) -> Value:
    return svd(x, compute_uv=False)


# -- rank -------------------------------------------------------------------------------------------------------


@drop_in(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Value:
    """Piecewise constant, so a plain value."""
    A = lift(A)
    if ndim_of(A) < 2:
        return 1 - 1 * reductions.all_(ops.equal(A, 0), axis=tuple(range(ndim_of(A))), keepdims=False)
    limits = {"tol": tol, "rtol": rtol}
    for name, limit in limits.items():
        if isinstance(limit, Traced) or (limit is not None and np.ndim(limit)):
            raise UnsupportedError(f"np.linalg.matrix_rank of a traced matrix needs a plain number as {name}=")
    return pseudo.rank(A, **limits, hermitian=hermitian)


piecewise_constant(np.linalg.matrix_rank)

# -- products ---------------------------------------------------------------------------------------------------


@drop_in(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Value:
    a = _square(a, whole=True)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return np.broadcast_to(np.eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a)).copy()
    base, result = (inv(a) if n < 0 else a), None
    n = abs(n)
    while n:
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        if n:
            base = base @ base
    return ops.pos(result) if result is a else result


@drop_in(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Value:
    """The product of several matrices, in the order that costs least."""
    values = [lift(a) for a in arrays]
    if len(values) < 2:
        raise ValueError("Expecting at least two arrays.")
    from_vector, to_vector = ndim_of(values[0]) == 1, ndim_of(values[-1]) == 1
    if from_vector:
        values[0] = row(values[0])
    if to_vector:
        values[-1] = column(values[-1])
    for v in values:
        if ndim_of(v) != 2:
            raise LinAlgError(f"{ndim_of(v)}-dimensional array given. Array must be two-dimensional")
    y = _chain(values)
    shape = shape_of(y)[from_vector : 2 - to_vector]
    y = y if shape == shape_of(y) else shapes.reshape(y, shape=shape) if shape else getitem(y, spec=(0, 0))
    return deliver_product(y, out)


def _chain(values: list[Value]) -> Value:
    """Dynamic programming over where the last product splits the chain."""
    sizes = [shape_of(v)[0] for v in values] + [shape_of(values[-1])[1]]
    best: dict[tuple[int, int], tuple[float, int]] = {(i, i): (0.0, i) for i in range(len(values))}
    for width in range(1, len(values)):
        for i in range(len(values) - width):
            j = i + width
            costs = ((best[i, k][0] + best[k + 1, j][0] + float(sizes[i]) * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
            best[i, j] = min(costs)

    def multiply(i: int, j: int) -> Value:
        return values[i] if i == j else multiply(i, best[i, j][1]) @ multiply(best[i, j][1] + 1, j)

    return multiply(0, len(values) - 1)


@drop_in(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Value:
    return product.matmul(x1, x2)


@drop_in(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Value:
    return product.tensordot(x1, x2, axes)


@drop_in(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
    return product.vecdot(x1, x2, axis)


@drop_in(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Value:
    x1, x2 = lift(x1), lift(x2)
    if ndim_of(x1) != 1 or ndim_of(x2) != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={ndim_of(x1)} and x2.ndim={ndim_of(x2)}.")
    return product.outer(x1, x2)


@drop_in(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
    sizes = [shape_of(x)[axis] for x in (lift(x1), lift(x2))]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{sizes[0]} and {sizes[1]} dimensional instead."
        )
    return np.cross(x1, x2, axis=axis)


# -- parts of matrices ------------------------------------------------------------------------------------------


@drop_in(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Value:
    return _diagonal(x, offset, -2, -1)


@drop_in(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Value:
    return _trace(x, offset, -2, -1, dtype)


@drop_in(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Value:
    return _matrix_transpose(x)


def __getattr__(name: str) -> Any:
    return getattr(np.linalg, name)


def __dir__() -> list[str]:
    return dir(np.linalg)
