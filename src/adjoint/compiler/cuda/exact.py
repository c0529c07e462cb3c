"""Functions of arrays on a GPU for which CuPy's results differ from NumPy's: floor division and remainders of floats, which CuPy
rounds differently, and cumulative sums and products and scatter-adds, whose terms CuPy combines in an order that changes from
run to run.

Each kernel has two forms: CUDA C for a GPU, and NumPy's function, which replaces it in tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

_TYPES = {"float64": "double", "float32": "float"}
_PART = 32  # terms that a thread adds up one after the other
_ROWS = 4096  # with this many rows, one thread per row keeps the GPU busy
LONGEST = 4096  # terms of a cumulative product: computed in parts, it could overflow where the sequential product does not

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
    return np.floor_divide(a, b) if _is_host(xp) else _divider(xp, _QUOTIENT, "adjoint_floor_divide")(a, b)


def remainder(xp: Any, a: Any, b: Any) -> Any:
    """a % b of floats of one dtype."""
    return np.remainder(a, b) if _is_host(xp) else _divider(xp, _REMAINDER, "adjoint_remainder")(a, b)


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
  for (long long i = first + 1; i < last; ++i) { at += inner; total = total SIGN x[at]; y[at] = total; }
}"""


@functools.cache
def _running_kernel(xp: Any, kind: str, sign: str) -> Any:
    return xp.RawKernel(_RUNNING.replace("T ", f"{kind} ").replace("T*", f"{kind}*").replace("SIGN", sign), "running")


def _running(xp: Any, x: Any, part: int, ufunc: np.ufunc) -> Any:
    """Cumulative within parts of an axis, the second of three, one term after the other."""
    outer, n, inner = x.shape
    if _is_host(xp):
        return np.concatenate([ufunc.accumulate(x[:, i : i + part], axis=1) for i in range(0, n, part)], axis=1)
    y, parts = xp.empty(x.shape, x.dtype), -(-n // part)
    count = outer * parts * inner
    kernel = _running_kernel(xp, _TYPES[x.dtype.name], "+" if ufunc is np.add else "*")
    kernel((-(-count // 256),), (256,), (x, y, *map(np.int64, (count, n, inner, part, parts))))
    return y


def _sums(xp: Any, x: Any) -> Any:
    """Cumulative along the second of three axes. The sums of the parts are added in the same way, so the order is fixed."""
    outer, n, inner = x.shape
    if n <= 2 * _PART or outer * inner >= _ROWS:
        return _running(xp, x, n, np.add)
    y = _running(xp, x, _PART, np.add)
    before = _sums(xp, xp.ascontiguousarray(y[:, _PART - 1 :: _PART]))
    y[:, _PART:] += xp.repeat(before, _PART, axis=1)[:, : n - _PART]
    return y


def _along(f: Callable[[Any, Any], Any], xp: Any, x: Any, axis: int) -> Any:
    """Apply a function of three axes, whose second one is the given axis."""
    if 0 in x.shape:
        return xp.empty(x.shape, x.dtype)
    shape = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    return f(xp, xp.ascontiguousarray(x).reshape(shape)).reshape(x.shape)


def cumsum(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(_sums, xp, x, axis)


def cumprod(xp: Any, x: Any, *, axis: int) -> Any:
    return _along(lambda xp, x: _running(xp, x, x.shape[1], np.multiply), xp, x, axis)


def _is_host(xp: Any) -> bool:
    return not hasattr(xp, "RawKernel")


# -- scatter-add ----------------------------------------------------------------------------------------------------------


def add_in_order(xp: Any, values: Any, order: Any, starts: Any, target: Any) -> None:
    """target[k] += values[order[i]] for i from starts[k] to starts[k + 1], one after the other."""
    if xp is np:
        np.add.at(target, np.repeat(np.arange(target.size), np.diff(starts)), values[order])
    else:
        kind = {"float64": "double", "float32": "float", "int64": "long long", "int32": "int"}[target.dtype.name]
        _add_kernel(xp, kind)(((target.size + 255) // 256,), (256,), (values, order, starts, target, np.int64(target.size)))


_ADDING = """extern "C" __global__ void add(const T* v, const long long* order, const long long* starts, T* out, long long n) {
  long long k = blockIdx.x * 256LL + threadIdx.x;
  if (k >= n) return;
  T total = out[k];
  for (long long i = starts[k]; i < starts[k + 1]; ++i) total = total + v[order[i]];
  out[k] = total;
}"""


@functools.cache
def _add_kernel(xp: Any, kind: str) -> Any:
    return xp.RawKernel(_ADDING.replace("T ", f"{kind} ").replace("T*", f"{kind}*"), "add")
