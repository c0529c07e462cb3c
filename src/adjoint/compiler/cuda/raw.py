"""Small kernels in CUDA C that serve routines of the libraries and scatter-adds. CuPy has functions for most of them, but takes
about a second to compile each of its own.

Each has a second form for NumPy's arrays, which replaces it in the simulator.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

TYPES = {"float64": "double", "float32": "float", "int64": "long long", "int32": "int", "bool": "bool"}
THREADS = 256  # of a block


def is_host(xp: Any) -> bool:
    return not hasattr(xp, "RawKernel")


@functools.cache
def kernel(xp: Any, code: str, name: str, kind: str = "") -> Any:
    """A kernel in CUDA C, with T for the type of its elements."""
    for end in " *)":
        code = code.replace(f"T{end}", f"{kind}{end}")
    return xp.RawKernel(code, name)


def blocks(count: int) -> tuple[int]:
    return (-(-count // THREADS),)


# -- scatter-add ----------------------------------------------------------------------------------------------------------

#: Thread i fills the places between those of the values i - 1 and i, in their sorted order.
_STARTS = """extern "C" __global__
void starts(const long long* where, const long long* order, long long* out, long long n, long long places, long long row) {
  long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i > n) return;
  long long k = i ? where[order[i - 1]] / row + 1 : 0, last = i < n ? where[order[i]] / row : places;
  for (; k <= last; ++k) out[k] = i;
}"""
_ADD = """extern "C" __global__
void add(const T* v, const long long* order, const long long* starts, T* out, long long n, long long row) {
  long long k = blockIdx.x * 256LL + threadIdx.x;
  if (k >= n) return;
  long long place = k / row, column = k % row;
  T total = out[k];
  for (long long i = starts[place]; i < starts[place + 1]; ++i) total = total + v[order[i] * row + column];
  out[k] = total;
}"""


def starts(xp: Any, where: Any, order: Any, places: int, row: int) -> Any:
    """For each place, and one more, how many of where // row are smaller; `order` sorts where."""
    if is_host(xp):
        return np.searchsorted(where[order] // row, np.arange(places + 1))
    found = xp.empty(places + 1, np.int64)
    numbers = map(np.int64, (where.size, places, row))
    kernel(xp, _STARTS, "starts")(blocks(where.size + 1), (THREADS,), (where, order, found, *numbers))
    return found


def add_in_order(xp: Any, values: Any, order: Any, starts: Any, target: Any) -> None:
    """target[k] += values[order[i]] for i from starts[k] to starts[k + 1], one row after the other."""
    if is_host(xp):
        np.add.at(target, np.repeat(np.arange(len(target)), np.diff(starts)), values[order])
        return
    add = kernel(xp, _ADD, "add", TYPES[target.dtype.name])
    add(blocks(target.size), (THREADS,), (values, order, starts, target, *map(np.int64, (target.size, target.shape[1]))))


# -- routines of the libraries -----------------------------------------------------------------------------------------------

_ADDRESSES = """extern "C" __global__ void addresses(long long* out, long long start, long long step, long long n) {
  long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) out[i] = start + i * step;
}"""
_ARE_SET = """extern "C" __global__ void are_set(const int* x, bool* out, long long n) {
  long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) out[i] = x[i] != 0;
}"""
#: One block. A number that is not equal to itself is nan.
_HAS_FAILED = """extern "C" __global__ void has_failed(const int* info, long long n, const T* x, long long m, bool* out) {
  int found = 0;
  #pragma unroll 8
  for (long long i = threadIdx.x; i < n; i += 256) found |= info[i] != 0;
  #pragma unroll 8
  for (long long i = threadIdx.x; i < m; i += 256) found |= x[i] != x[i];
  found = __syncthreads_or(found);
  if (threadIdx.x == 0) *out = found;
}"""


def addresses(xp: Any, start: int, step: int, count: int) -> Any:
    """start, start + step, …"""
    if is_host(xp):
        return start + step * np.arange(count)
    found = xp.empty(count, np.int64)
    kernel(xp, _ADDRESSES, "addresses")(blocks(count), (THREADS,), (found, *map(np.int64, (start, step, count))))
    return found


def are_set(xp: Any, info: Any, out: Any) -> None:
    """Which numbers are not zero; `out` is contiguous."""
    if is_host(xp):
        out[...] = (info != 0).reshape(out.shape)
    else:
        kernel(xp, _ARE_SET, "are_set")(blocks(info.size), (THREADS,), (info, out, np.int64(info.size)))


def has_failed(xp: Any, info: Any, out: Any, values: Any = None) -> None:
    """Whether a status is not zero, or one of the values, which are contiguous, is nan."""
    if is_host(xp):
        out[...] = np.any(info) or (values is not None and np.any(values != values))
        return
    count, kind = (0, "float") if values is None else (values.size, TYPES[values.dtype.name])
    given = info if values is None else values
    numbers = (info, np.int64(info.size), given, np.int64(count), out)
    kernel(xp, _HAS_FAILED, "has_failed", kind)((1,), (THREADS,), numbers)


_LARGER = "__device__ T larger(T a, T b) { return a != a || b <= a ? a : b; }  // nan wins\n"
#: Small matrices: as many as fit in a block, a thread for each row.
_SYMMETRIC = """extern "C" __global__ void symmetric(const T* a, T slack, bool* out, long long matrices, long long n) {
  __shared__ T all[256];
  const int own = threadIdx.x / n, row = threadIdx.x % n;
  const long long matrix = blockIdx.x * (256 / n) + own;
  const bool is_in = own < 256 / n && matrix < matrices;
  a += matrix * n * n;
  T largest = 0;
  if (is_in) for (int j = 0; j < n; ++j) largest = larger(largest, fabs(a[j * n + row]));
  all[threadIdx.x] = largest;
  if (is_in && row == 0) out[matrix] = true;
  __syncthreads();
  if (!is_in) return;
  for (int i = 0; i < n; ++i) largest = larger(largest, all[own * n + i]);
  const T bound = slack * largest;
  for (int j = 0; j <= row; ++j) {
    T x = a[row * n + j], y = a[j * n + row];
    if (!(x == y || fabs(x - y) <= bound)) out[matrix] = false;
  }
}"""
#: Large ones: a block for each row. The largest of the numbers of a block's threads.
_MOST = """
__device__ T most(T own) {
  __shared__ T all[256];
  all[threadIdx.x] = own;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) all[threadIdx.x] = larger(all[threadIdx.x], all[threadIdx.x + half]);
  }
  __syncthreads();
  return all[0];
}
"""
_LARGEST = """extern "C" __global__ void largest(const T* a, T* out, bool* symmetric, long long n) {
  T own = 0;
  for (long long j = threadIdx.x; j < n; j += 256) own = larger(own, fabs(a[blockIdx.x * n + j]));
  own = most(own);
  if (threadIdx.x == 0) { out[blockIdx.x] = own; symmetric[blockIdx.x / n] = true; }
}"""
_NEAR = """extern "C" __global__ void near(const T* a, const T* largest, T slack, bool* symmetric, long long n) {
  long long matrix = blockIdx.x / n, row = blockIdx.x % n;
  T own = 0;
  for (long long i = threadIdx.x; i < n; i += 256) own = larger(own, largest[matrix * n + i]);
  const T bound = slack * most(own);
  a += matrix * n * n;
  for (long long j = threadIdx.x; j <= row; j += 256) {
    T x = a[row * n + j], y = a[j * n + row];
    if (!(x == y || fabs(x - y) <= bound)) symmetric[matrix] = false;
  }
}"""
_SMALL = 64  # rows of a matrix: with more of them, a thread for each row takes too long


def is_symmetric(xp: Any, a: Any, out: Any) -> None:
    """Up to the root of the rounding unit times the largest element, for each matrix of a stack; nan is not equal to nan."""
    n, slack = a.shape[-1], a.dtype.type(math.sqrt(np.finfo(a.dtype).eps))
    if is_host(xp):
        other = np.swapaxes(a, -1, -2)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - other) <= slack * np.max(np.abs(a), axis=(-2, -1), keepdims=True)
        out[...] = np.all((a == other) | near, axis=(-2, -1)).reshape(out.shape)
        return
    a, kind, rows = xp.ascontiguousarray(a), TYPES[a.dtype.name], a.size // n
    found = out if out.flags.c_contiguous else xp.empty(out.shape, bool)
    if n <= _SMALL:
        matrices, at_once = rows // n, THREADS // n
        grid, numbers = (-(-matrices // at_once),), (np.int64(matrices), np.int64(n))
        kernel(xp, _LARGER + _SYMMETRIC, "symmetric", kind)(grid, (THREADS,), (a, slack, found, *numbers))
    else:
        largest = xp.empty((rows,), a.dtype)
        kernel(xp, _LARGER + _MOST + _LARGEST, "largest", kind)((rows,), (THREADS,), (a, largest, found, np.int64(n)))
        kernel(xp, _LARGER + _MOST + _NEAR, "near", kind)((rows,), (THREADS,), (a, largest, slack, found, np.int64(n)))
    if found is not out:
        out[...] = found
