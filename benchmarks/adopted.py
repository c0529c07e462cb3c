"""Adopted code on plain numbers against the original: the time of small calls, where the difference is largest.

    python benchmarks/adopted.py [size]         of the arrays: 10 unless told

Prints nanoseconds of the original and of the copy, their ratio, and the geometric mean of the ratios. Times are the best of 60.
"""

import gc
import importlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import adjoint as ad

LIBRARY = """
import math
import numpy as np

def sin(x): return np.sin(x)
def add(x): return np.add(x, x)
def total(x): return np.sum(x)
def dot(x): return np.dot(x, x)
def asarray(x): return np.asarray(x)
def asarray_dtype(x): return np.asarray(x, float)
def asarray_keyword(x): return np.asarray(x, dtype=float)
def asarray_scalar(x): return np.asarray(x, dtype=np.float64)
def array_list(x): return np.array([1.0, 2.0, 3.0])
def array_copy(x): return np.array(x)
def zeros(x): return np.zeros(3)
def zeros_like(x): return np.zeros_like(x)
def concatenate(x): return np.concatenate([x, x])
def where(x): return np.where(x > 0, x, 0.0)
def norm(x): return np.linalg.norm(x)
def atleast(x): return np.atleast_1d(x)
def maximum(x): return np.maximum(x, 0.0)
def arange(x): return np.arange(3)
def linspace(x): return np.linspace(0.0, 1.0, 10)
def stack(x): return np.stack([x, x])
def clip(x): return np.clip(x, 0.0, 1.0)
def isscalar(x): return np.isscalar(x)
def any_(x): return np.any(x > 0)
def cross(x): return np.cross(x[:3], x[:3])
def float_(x): return float(x[0])
def is_float(x): return isinstance(1.5, float)
def math_sin(x): return math.sin(1.5)

def rotation(x):
    c, s = np.cos(x[0]), np.sin(x[0])
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ x[:3]

def kalman(x):
    F, P, Q = np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2), np.eye(2) * 0.1
    P = F @ P @ F.T + Q
    K = P @ np.linalg.inv(P + Q)
    return np.dot(K, x[:2]) + np.sum(P)

def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)

def polynomial(x): return np.polyval([1.0, 2.0, 3.0], x)
"""


def seconds(f, x, count):
    start = time.perf_counter()
    for _ in range(count):
        f(x)
    return (time.perf_counter() - start) / count


def main(size):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plain_library.py").write_text(LIBRARY)
        sys.path.insert(0, folder)
        original, copy = importlib.import_module("plain_library"), ad.adopt("plain_library")
    x, ratios = np.linspace(0.1, 1.0, size), []
    gc.disable()
    for name in [name for name, f in vars(original).items() if getattr(f, "__module__", "") == "plain_library"]:
        f, g = getattr(original, name), getattr(copy, name)
        assert np.array_equal(f(x), g(x)), name
        count = max(10, int(4e-4 / max(seconds(f, x, 20), 1e-7)))
        times = [(seconds(f, x, count), seconds(g, x, count)) for _ in range(60)]
        a, b = (min(column) * 1e9 for column in zip(*times, strict=True))
        ratios.append(b / a)
        print(f"{name:16s} {a:9.0f} {b:9.0f} ns  {b / a:5.2f}")
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
