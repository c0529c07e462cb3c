"""Functions of arrays on a GPU that CuPy lacks, or for which its results differ from NumPy's: floor division and remainders of
floats, which CuPy rounds differently; cumulative sums and products and means over equal elements, whose terms CuPy combines in an
order that changes from run to run; recurrences and running extrema.

Each kernel has two forms: CUDA C for a GPU, and NumPy's function, which replaces it in tests. A result is written to `out`, a
contiguous array, if there is one.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
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


def _divided(xp: Any, code: str, name: str, a: Any, b: Any, out: Any) -> Any:
    return _divider(xp, code, name)(a, b, *([] if out is None else [out]))


def floor_divide(xp: Any, a: Any, b: Any, out: Any = None) -> Any:
    """a // b of floats of one dtype."""
    return np.floor_divide(a, b, out=out) if is_host(xp) else _divided(xp, _QUOTIENT, "adjoint_floor_divide", a, b, out)


def remainder(xp: Any, a: Any, b: Any, out: Any = None) -> Any:
    """a % b of floats of one dtype."""
    return np.remainder(a, b, out=out) if is_host(xp) else _divided(xp, _REMAINDER, "adjoint_remainder", a, b, out)


# -- cumulative sums and products ---------------------------------------------------------------------------------------

#: The place of x[outer][i][column] is outer * step[0] + i * step[1] + column * step[2]: x may be reversed, or broadcast.
_RUNNING = """extern "C" __global__
void running(GIVEN, T* y, long long count, long long n, long long inner, long long part, long long parts) {
  long long k = blockIdx.x * 256LL + threadIdx.x;  // outer, part, inner
  if (k >= count) return;
  long long column = k % inner, rest = k / inner, outer = rest / parts, first = rest % parts * part;
  long long last = first + part < n ? first + part : n;
  long long at = (outer * n + first) * inner + column;
  STARTS;
  T total = x[at_x];
  y[at] = total;
  for (long long i = first + 1; i < last; ++i) { at += inner; MOVES; T next = x[at_x]; total = COMBINED; y[at] = total; }
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
  long long start[4], length[4], STARTS;
  for (int k = 0; k < 4; ++k) {
    const long long row = blockIdx.x * 32LL + warp + 8 * k, outer = row / parts, first = row % parts * part;
    start[k] = outer * n + first + lane;
    length[k] = row >= rows ? 0 : first + part < n ? part : n - first;
    PLACES;
  }
  T total = 0;
  for (long long left = 0; left < part; left += 32) {
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (left + lane < length[k]) {
      const int i = warp + 8 * k;
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
    for (int k = 0; k < 4; ++k) if (left + lane < length[k]) y[start[k] + left] = tile_x[warp + 8 * k][lane];
  }
}"""


def _steps(x: Any) -> tuple[Any, ...]:
    """How many elements lie between neighbours along each axis, as arguments of a kernel."""
    return tuple(np.int64(stride // x.itemsize) for stride in x.strides)


def _given(names: Sequence[str], axes: int) -> str:
    """The declarations of arrays with their steps along the axes."""
    return ", ".join(f"const T* {a}" + "".join(f", long long {a}{k}" for k in range(axes)) for a in names)


def _running_rows(xp: Any, combined: str, part: int, y: Any, **arrays: Any) -> None:
    """Cumulative within parts of the rows of x; what is combined may name others as `tile_NAME[lane][j]`."""
    n = y.shape[1]
    parts = -(-n // part)
    code = _ROWS_CODE.replace("COMBINED", combined).replace("GIVEN", _given([*arrays], 2))
    code = code.replace("TILES", ", ".join(f"tile_{a}[32][33]" for a in arrays))
    code = code.replace("STARTS", ", ".join(f"at_{a}[4]" for a in arrays))
    code = code.replace("PLACES", "; ".join(f"at_{a}[k] = outer * {a}0 + (first + lane) * {a}1" for a in arrays))
    code = code.replace("LOADS", "; ".join(f"tile_{a}[i][lane] = {a}[at_{a}[k] + left * {a}1]" for a in arrays))
    run, rows = kernel(xp, code, "running_rows", TYPES[y.dtype.name]), len(y) * parts
    given = [part for x in arrays.values() for part in (x, *_steps(x))]
    run((-(-rows // 32),), (THREADS,), (*given, y, *map(np.int64, (rows, n, part, parts))))


def _combine(xp: Any, combined: str, part: int, y: Any, **arrays: Any) -> None:
    """Cumulative within parts of an axis, the second of three, one term of x after the other; what is combined may name others
    as `NEXT(name)`."""
    outer, n, inner = y.shape
    if inner == 1:
        tiles = _named(combined, lambda a: f"tile_{a}[lane][j]")
        return _running_rows(xp, tiles, part, y[:, :, 0], **{a: x[:, :, 0] for a, x in arrays.items()})
    parts = -(-n // part)
    code = _RUNNING.replace("COMBINED", _named(combined, lambda a: f"{a}[at_{a}]")).replace("GIVEN", _given([*arrays], 3))
    places = "; ".join(f"long long at_{a} = outer * {a}0 + first * {a}1 + column * {a}2" for a in arrays)
    code = code.replace("STARTS", places).replace("MOVES", "; ".join(f"at_{a} += {a}1" for a in arrays))
    count = outer * parts * inner
    given = [part for x in arrays.values() for part in (x, *_steps(x))]
    run = kernel(xp, code, "running", TYPES[y.dtype.name])
    run(blocks(count), (THREADS,), (*given, y, *map(np.int64, (count, n, inner, part, parts))))
    return None


def _named(combined: str, element: Callable[[str], str]) -> str:
    return re.sub(r"NEXT\((\w+)\)", lambda found: element(found[1]), combined)


def _running(xp: Any, x: Any, y: Any, part: int, ufunc: np.ufunc) -> None:
    """Cumulative within parts of an axis, the second of three, one term after the other."""
    if is_host(xp):
        for i in range(0, x.shape[1], part):
            ufunc.accumulate(x[:, i : i + part], axis=1, out=y[:, i : i + part])
    else:
        _combine(xp, _COMBINED[ufunc], part, y, x=x)


def _scan(xp: Any, x: Any, y: Any, ufunc: np.ufunc) -> None:
    """Cumulative along the second of three axes. The last terms of the parts are combined in the same way: the order is fixed."""
    outer, n, inner = x.shape
    if n <= 2 * _PART or outer * inner >= _ROWS:
        return _running(xp, x, y, n, ufunc)
    _running(xp, x, y, _PART, ufunc)
    ends = y[:, _PART - 1 :: _PART]
    before = xp.empty(ends.shape, y.dtype)
    _scan(xp, ends, before, ufunc)
    y[:, _PART:] = getattr(xp, ufunc.__name__)(xp.repeat(before, _PART, axis=1)[:, : n - _PART], y[:, _PART:])
    return None


def _along(f: Callable[..., None], xp: Any, axis: int, out: Any, *arrays: Any) -> Any:
    """Apply a function of arrays of one shape with three axes, whose second one is the given axis, to them and the result, a
    contiguous array."""
    shape = arrays[0].shape
    made = xp.empty(shape, arrays[0].dtype) if out is None else out
    if 0 not in shape:
        three = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        f(xp, *(x.reshape(three) for x in arrays), made.reshape(three))
    return made


def cumsum(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    return _along(lambda xp, x, y: _scan(xp, x, y, np.add), xp, axis, out, x)


def running_max(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    return _along(lambda xp, x, y: _scan(xp, x, y, np.maximum), xp, axis, out, x)


def running_min(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    return _along(lambda xp, x, y: _scan(xp, x, y, np.minimum), xp, axis, out, x)


def cumprod(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    return _along(lambda xp, x, y: _running(xp, x, y, x.shape[1], np.multiply), xp, axis, out, x)


def recurrence(xp: Any, a: Any, b: Any, *, axis: int, out: Any = None) -> Any:
    """y[0] = b[0] and y[i] = a[i] y[i - 1] + b[i] along an axis. Two roundings a step, as on the host: nothing is contracted."""
    shape = np.broadcast_shapes(a.shape, b.shape)

    def run(xp: Any, a: Any, b: Any, y: Any) -> None:
        if is_host(xp):
            y[...] = reduce.recurrence.impl(a, b, axis=1)
            return
        letter = "d" if y.dtype == np.float64 else "f"
        _combine(xp, f"__{letter}add_rn(__{letter}mul_rn(NEXT(a), total), next)", y.shape[1], y, x=b, a=a)

    return _along(run, xp, axis, out, xp.broadcast_to(a, shape), xp.broadcast_to(b, shape))


# -- order ----------------------------------------------------------------------------------------------------------------


#: A block has 256 / WIDTH rows of x, WIDTH threads a row. A thread counts the elements before its own, in a stable order with nan
#: last, and writes its own where the count is one of those asked for. ROUNDS elements a thread are in registers, WIDTH of the row
#: in shared memory.
_RANKS = """extern "C" __global__
void ranks(const T* x, long long x0, long long x1, long long x2, T* y, const long long* kth, long long rows, long long n,
           long long inner, long long asked) {
  __shared__ T tile[256];
  const int first = threadIdx.x / WIDTH * WIDTH, lane = threadIdx.x % WIDTH;
  const long long row = blockIdx.x * (256 / WIDTH) + threadIdx.x / WIDTH;
  const bool is_in = row < rows;
  x += row / inner * x0 + row % inner * x2;
  y += row / inner * asked * inner + row % inner;
  T own[ROUNDS];
  int rank[ROUNDS];
  for (int r = 0; r < ROUNDS; ++r) {
    const int i = r * WIDTH + lane;
    rank[r] = 0;
    own[r] = is_in && i < n ? x[i * x1] : (T)0;
  }
  for (int left = 0; left < n; left += WIDTH) {
    const int some = n - left < WIDTH ? n - left : WIDTH;
    __syncthreads();
    if (is_in && lane < some) tile[threadIdx.x] = x[(left + lane) * x1];
    __syncthreads();
    for (int r = 0; r < ROUNDS; ++r) {
      const T mine = own[r];
      const int before = r * WIDTH + lane - left;
      if (mine == mine) {
        #pragma unroll 4
        for (int j = 0; j < some; ++j) {
          const T other = tile[first + j];
          rank[r] += other < mine || (other == mine && j < before);
        }
      } else {
        for (int j = 0; j < some; ++j) rank[r] += tile[first + j] == tile[first + j] || j < before;
      }
    }
  }
  for (int r = 0; r < ROUNDS; ++r) {
    if (!is_in || r * WIDTH + lane >= n) continue;
    for (long long k = 0; k < asked; ++k) if (kth[k] == rank[r]) y[k * inner] = own[r];
  }
}"""
_LONGEST_RANKED = 1024  # elements of a row, each compared with each: longer ones are sorted


def order_statistics(xp: Any, x: Any, *, kth: tuple[int, ...], axis: int, out: Any = None) -> Any:
    n, asked = x.shape[axis], xp.asarray(np.array(kth, np.int64))
    shape = (*x.shape[:axis], len(kth), *x.shape[axis + 1 :])
    made = xp.empty(shape, x.dtype) if out is None else out
    if is_host(xp) or n > _LONGEST_RANKED or 0 in x.shape or x.dtype.name not in TYPES:
        made[...] = xp.take(xp.sort(x, axis=axis), asked, axis=axis)
        return made
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows, width = x.reshape(outer, n, inner), next((w for w in (32, 64, 128) if n <= w), THREADS)
    code = _RANKS.replace("ROUNDS", str(-(-n // width))).replace("WIDTH", str(width))
    grid, numbers = (-(-outer * inner // (THREADS // width)),), map(np.int64, (outer * inner, n, inner, len(kth)))
    kernel(xp, code, "ranks", TYPES[x.dtype.name])(grid, (THREADS,), (rows, *_steps(rows), made, asked, *numbers))
    return made


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


def share_equal(xp: Any, t: Any, y: Any, *, axis: int, ordered: bool, out: Any = None) -> Any:
    """The mean of t over elements whose y is equal, in every row."""
    if is_host(xp):
        return _placed(sort.share_equal.impl(t, y, axis=axis, ordered=ordered), out)
    if not ordered:
        order = xp.argsort(y, axis=axis, kind="stable")
        sorted_t, sorted_y = (xp.take_along_axis(x, order, axis) for x in (t, y))
        means = share_equal(xp, sorted_t, sorted_y, axis=axis, ordered=True)
        return _placed(xp.take_along_axis(means, xp.argsort(order, axis=axis, kind="stable"), axis), out)

    def run(xp: Any, t: Any, y: Any, made: Any) -> None:
        _, n, inner = t.shape
        share = kernel(xp, _SHARE, "share", TYPES[t.dtype.name])
        share(blocks(t.size), (THREADS,), (t, y, made, *map(np.int64, (t.size, n, inner))))

    return _along(run, xp, axis, out, xp.ascontiguousarray(t), xp.ascontiguousarray(y))


def _placed(y: Any, out: Any) -> Any:
    """A result; in `out`, if there is one."""
    if out is None:
        return y
    out[...] = y
    return out
