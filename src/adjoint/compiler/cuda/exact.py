"""Functions of arrays on a GPU that CuPy lacks, or for which its results differ from NumPy's: floor division and remainders of
floats, which CuPy rounds differently; cumulative sums and products and means over equal elements, whose terms CuPy combines in an
order that changes from run to run; recurrences and running extrema.

Each kernel has two forms: CUDA C for a GPU, and NumPy's function, which replaces it in tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops import reduce, sort
from .raw import THREADS, TYPES, blocks, is_host, kernel

_PART = 32  # terms that a thread adds up one after the other
_ROWS = 4096  # with this many rows, one thread per row keeps the GPU busy
#: Terms of a cumulative product or a recurrence, for each row: they are sequential, since products in parts could overflow.
LONGEST = 4096

# -- division, as in NumPy ----------------------------------------------------------------------------------------

#: fmod is exact. Nothing here can be contracted: products do not occur.
_DIVIDE = """
T rest = fmod(a, b), quotient = (a - rest) / b;
if (rest != 0) { if ((b < 0) != (rest < 0)) { rest += b; quotient -= 1; } }
else rest = copysign(T(0), b);
"""
_QUOTIENT = """
if (b == 0) y = a / b;
else if (quotient != 0) { y = floor(quotient); if (quotient - y > T(0.5)) y += 1; }
else y = copysign(T(0), a / b);
"""
_REMAINDER = "y = b == 0 ? fmod(a, b) : rest;"


@functools.cache
def _divider(xp: Any, code: str, name: str) -> Any:
    return xp.ElementwiseKernel("T a, T b", "T y", _DIVIDE + code, name)


def floor_divide(xp: Any, a: Any, b: Any) -> Any:
    """a // b of floats of one dtype."""
    return np.floor_divide(a, b) if is_host(xp) else _divider(xp, _QUOTIENT, "adjoint_floor_divide")(a, b)


def remainder(xp: Any, a: Any, b: Any) -> Any:
    """a % b of floats of one dtype."""
    return np.remainder(a, b) if is_host(xp) else _divider(xp, _REMAINDER, "adjoint_remainder")(a, b)


# -- cumulative sums and products ---------------------------------------------------------------------------------------

_RUNNING = """extern "C" __global__
void running(const T* x, T* y, long long count, long long n, long long inner, long long part, long long parts) {
  long long k = blockIdx.x * 256LL + threadIdx.x;  // outer, part, inner
  if (k >= count) return;
  long long column = k % inner, rest = k / inner, first = rest % parts * part;
  long long last = first + part < n ? first + part : n;
  long long at = (rest / parts * n + first) * inner + column;
  T total = x[at];
  y[at] = total;
  for (long long i = first + 1; i < last; ++i) { at += inner; T next = x[at]; total = COMBINED; y[at] = total; }
}"""
#: As NumPy's ufuncs: of equal numbers the first, and nan wins.
_COMBINED: dict[np.ufunc, str] = {
    np.add: "total + next",
    np.multiply: "total * next",
    np.maximum: "total >= next || total != total ? total : next",
    np.minimum: "total <= next || total != total ? total : next",
}
#: The same along the rows of matrices, GIVEN and perhaps others: a block moves 32 columns of 32 rows to shared memory, so that
#: accesses are coalesced, and one warp combines them, a thread a row.
_ROWS_CODE = """extern "C" __global__
void running_rows(GIVEN, T* y, long long rows, long long n, long long part, long long parts) {
  __shared__ T TILES;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  long long start[4], length[4];
  for (int k = 0; k < 4; ++k) {
    long long row = blockIdx.x * 32LL + warp + 8 * k, first = row % parts * part;
    start[k] = row / parts * n + first;
    length[k] = row >= rows ? 0 : first + part < n ? part : n - first;
  }
  T total = 0;
  for (long long left = 0; left < part; left += 32) {
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (left + lane < length[k]) {
      const int i = warp + 8 * k;
      const long long at = start[k] + left + lane;
      LOADS;
    }
    __syncthreads();
    if (warp == 0) {
      T own[32];
      #pragma unroll
      for (int j = 0; j < 32; ++j) {
        T next = tile_x[lane][j];
        own[j] = total = left + j == 0 ? next : (COMBINED);
      }
      #pragma unroll
      for (int j = 0; j < 32; ++j) tile_x[lane][j] = own[j];
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (left + lane < length[k]) y[start[k] + left + lane] = tile_x[warp + 8 * k][lane];
  }
}"""


def _running_rows(xp: Any, combined: str, part: int, **arrays: Any) -> Any:
    """Cumulative within parts of the rows of x; what is combined may name others as `tile_NAME[lane][j]`."""
    x = arrays["x"]
    n = x.shape[1]
    y, parts = xp.empty(x.shape, x.dtype), -(-n // part)
    code = _ROWS_CODE.replace("COMBINED", combined)
    code = code.replace("GIVEN", ", ".join(f"const T* {name}" for name in arrays))
    code = code.replace("TILES", ", ".join(f"tile_{name}[32][33]" for name in arrays))
    code = code.replace("LOADS", "; ".join(f"tile_{name}[i][lane] = {name}[at]" for name in arrays))
    run, rows = kernel(xp, code, "running_rows", TYPES[x.dtype.name]), len(x) * parts
    run((-(-rows // 32),), (THREADS,), (*arrays.values(), y, *map(np.int64, (rows, n, part, parts))))
    return y


def _running(xp: Any, x: Any, part: int, ufunc: np.ufunc) -> Any:
    """Cumulative within parts of an axis, the second of three, one term after the other."""
    outer, n, inner = x.shape
    if is_host(xp):
        return np.concatenate([ufunc.accumulate(x[:, i : i + part], axis=1) for i in range(0, n, part)], axis=1)
    if inner == 1:
        return _running_rows(xp, _COMBINED[ufunc], part, x=x[:, :, 0])[:, :, None]
    y, parts = xp.empty(x.shape, x.dtype), -(-n // part)
    count = outer * parts * inner
    run = kernel(xp, _RUNNING.replace("COMBINED", _COMBINED[ufunc]), "running", TYPES[x.dtype.name])
    run(blocks(count), (THREADS,), (x, y, *map(np.int64, (count, n, inner, part, parts))))
    return y


def _scan(xp: Any, x: Any, ufunc: np.ufunc) -> Any:
    """Cumulative along the second of three axes. The last terms of the parts are combined in the same way: the order is fixed."""
    outer, n, inner = x.shape
    if n <= 2 * _PART or outer * inner >= _ROWS:
        return _running(xp, x, n, ufunc)
    y = _running(xp, x, _PART, ufunc)
    before = _scan(xp, xp.ascontiguousarray(y[:, _PART - 1 :: _PART]), ufunc)
    y[:, _PART:] = getattr(xp, ufunc.__name__)(xp.repeat(before, _PART, axis=1)[:, : n - _PART], y[:, _PART:])
    return y


def _along(f: Callable[..., Any], xp: Any, axis: int, *arrays: Any) -> Any:
    """Apply a function of arrays of one shape with three axes, whose second one is the given axis."""
    shape = arrays[0].shape
    if 0 in shape:
        return xp.empty(shape, arrays[0].dtype)
    three = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    return f(xp, *(xp.ascontiguousarray(x).reshape(three) for x in arrays)).reshape(shape)


def cumsum(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(lambda xp, x: _scan(xp, x, np.add), xp, axis, x)


def running_max(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(lambda xp, x: _scan(xp, x, np.maximum), xp, axis, x)


def running_min(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(lambda xp, x: _scan(xp, x, np.minimum), xp, axis, x)


def cumprod(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(lambda xp, x: _running(xp, x, x.shape[1], np.multiply), xp, axis, x)


#: Two roundings a step, as on the host: nothing is contracted.
_RECURRENCE = """extern "C" __global__
void recurrence(const T* a, const T* b, T* y, long long count, long long n, long long inner) {
  long long k = blockIdx.x * 256LL + threadIdx.x;
  if (k >= count) return;
  long long at = k / inner * n * inner + k % inner;
  T last = b[at];
  y[at] = last;
  for (long long i = 1; i < n; ++i) { at += inner; last = STEP; y[at] = last; }
}"""


def recurrence(xp: Any, a: Any, b: Any, *, axis: int) -> Any:
    """y[0] = b[0] and y[i] = a[i] y[i - 1] + b[i] along an axis."""
    if is_host(xp):
        return reduce.recurrence.impl(a, b, axis=axis)
    shape = np.broadcast_shapes(a.shape, b.shape)

    def run(xp: Any, a: Any, b: Any) -> Any:
        outer, n, inner = a.shape
        letter = "d" if a.dtype == np.float64 else "f"
        step = f"__{letter}add_rn(__{letter}mul_rn(FACTOR, LAST), TERM)"
        if inner == 1:
            combined = step.replace("FACTOR", "tile_a[lane][j]").replace("LAST", "total").replace("TERM", "next")
            return _running_rows(xp, combined, n, x=b[:, :, 0], a=a[:, :, 0])[:, :, None]
        y = xp.empty(a.shape, a.dtype)
        code = _RECURRENCE.replace("STEP", step.replace("FACTOR", "a[at]").replace("LAST", "last").replace("TERM", "b[at]"))
        kernel(xp, code, "recurrence", TYPES[a.dtype.name])(
            blocks(outer * inner), (THREADS,), (a, b, y, *map(np.int64, (outer * inner, n, inner)))
        )
        return y

    return _along(run, xp, axis, xp.broadcast_to(a, shape), xp.broadcast_to(b, shape))


# -- order ----------------------------------------------------------------------------------------------------------------


def order_statistics(xp: Any, x: Any, *, kth: tuple[int, ...], axis: int) -> Any:
    return xp.take(xp.sort(x, axis=axis), xp.asarray(kth), axis=axis)


#: The first thread of a group of equal elements adds them up, one after the other, and writes their mean.
_SHARE = """extern "C" __global__
void share(const T* t, const T* y, T* out, long long count, long long n, long long inner) {
  long long k = blockIdx.x * 256LL + threadIdx.x;
  if (k >= count) return;
  long long i = k / inner % n;
  if (i && y[k] == y[k - inner]) return;
  double total = t[k];
  long long terms = 1;
  for (; i + terms < n && y[k + terms * inner] == y[k]; ++terms) total += t[k + terms * inner];
  T mean = terms > 1 ? (T)((double)(T)total / terms) : t[k];
  for (long long j = 0; j < terms; ++j) out[k + j * inner] = mean;
}"""


def share_equal(xp: Any, t: Any, y: Any, *, axis: int, ordered: bool) -> Any:
    """The mean of t over elements whose y is equal, in every row."""
    if is_host(xp):
        return sort.share_equal.impl(t, y, axis=axis, ordered=ordered)
    if not ordered:
        order = xp.argsort(y, axis=axis, kind="stable")
        sorted_t, sorted_y = (xp.take_along_axis(x, order, axis) for x in (t, y))
        means = share_equal(xp, sorted_t, sorted_y, axis=axis, ordered=True)
        return xp.take_along_axis(means, xp.argsort(order, axis=axis, kind="stable"), axis)

    def run(xp: Any, t: Any, y: Any) -> Any:
        out = xp.empty(t.shape, t.dtype)
        _, n, inner = t.shape
        share = kernel(xp, _SHARE, "share", TYPES[t.dtype.name])
        share(blocks(t.size), (THREADS,), (t, y, out, *map(np.int64, (t.size, n, inner))))
        return out

    return _along(run, xp, axis, t, y)
