"""Programs that every exporter of lowered code runs: elementwise, reductions, products, systems, loops, indexing, dtypes."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import numpy as np
import scipy.special
import test_compiled_programs as random_programs
from night import rotated

import adjoint as ad
import adjoint.numpy as anp
import adjoint.scipy.linalg
import adjoint.scipy.special as special
from adjoint.core.errors import UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.program import Part, parts

RNG = np.random.default_rng(0)
X = RNG.normal(size=6)
A = RNG.normal(size=(6, 6))
S = A @ A.T + 6 * np.eye(6)
COUNTS = RNG.integers(-1000, 1000, size=(40, 30))
LONG = RNG.normal(size=9000)
ALL = np.array([0.3, -1.7, 2.4, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 745.0, -745.0, 1e22])


def unary(x):
    functions = (np.exp, np.expm1, np.exp2, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.sin, np.cos, np.tan)
    more = (np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.floor, np.ceil)
    rest = (
        np.trunc,
        np.rint,
        np.abs,
        np.sign,
        np.square,
        np.isnan,
        np.signbit,
        np.isfinite,
        special.expit,
        special.erf,
        special.erfc,
    )
    return (*(f(x) for f in (*functions, *more, *rest)), x**7, x**-9.0, x**0.5, -x)


def binary(a, b):
    functions = (np.arctan2, np.hypot, np.logaddexp, np.logaddexp2, np.maximum, np.minimum, np.copysign, np.less, np.equal)
    return (*(f(a, b) for f in functions), np.abs(a) ** b, a / b, np.where(a > b, a, b))


def impedances(x):
    """Complex numbers inside, real ones outside."""
    z = 1j * x[0] + 1.0
    for k in range(len(x)):
        z = 1j * 0.3 * (1 + x[k] ** 2) + 1 / (1 / z + 1j * 0.2 * (2 + x[k]))
    w = np.exp(1j * x) * (1 + 2j)
    last = ad.fori_loop(0, 5, lambda i, z: z * z * 0.3 + x[1] * 1j, x[0] + 0j)
    return np.abs((z - 50) / (z + 50)) ** 2 + np.sum(np.real(w @ np.outer(w, np.conj(w))) + np.angle(w) ** 2) + np.real(last)


def waves(z, w):
    """Complex arguments and results, also single numbers, and a real result."""
    power, _ = ad.scan(lambda c, r: (c * r + 1j, c), w, z)
    return z * w, np.exp(z) @ np.conj(z), power, np.abs(z), np.sqrt(w), z[::-1].reshape(2, 3).T, 3j * z.real


def transforms(z, x):
    return np.fft.fft(z), np.fft.ifft2(z, norm="ortho"), np.fft.rfft(x, axis=0), np.fft.irfft(z[:, :3], n=5), np.fft.hfft(z[0])


def complex_matrices(a, b, d):
    """Systems, inverses, determinants and factors, of stacks too; a real matrix and complex right-hand sides."""
    h = a @ np.conj(np.swapaxes(a, -1, -2)) + 4 * np.eye(a.shape[-1])
    stacked = np.stack([a, h])
    systems = np.linalg.solve(a, b), np.linalg.solve(stacked, a), np.linalg.solve(d, b), np.linalg.solve(a, d)
    triangle = adjoint.scipy.linalg.solve_triangular(a, b, lower=True)
    return *systems, np.linalg.inv(stacked), np.linalg.det(a), *np.linalg.slogdet(stacked), np.linalg.cholesky(h), triangle


def complex_loss(a, b):
    h = a @ np.conj(a.T) + 4 * np.eye(a.shape[-1])
    first = np.sum(np.abs(np.linalg.solve(a, b)) ** 2) + np.abs(np.linalg.det(np.linalg.inv(a)))
    return first + np.linalg.slogdet(h)[1] + np.sum(np.abs(np.linalg.cholesky(h)) ** 3)


def long_program(x, count=600):
    """Thousands of equations of many kinds, so that they are not rolled into loops."""
    rng = np.random.default_rng(7)
    values = [x, x[::-1] * 0.5, np.cos(x), x * x]
    for kind, i, j, k, shift in zip(*rng.integers(0, 4, size=(4, count)), rng.integers(1, len(x), size=count), strict=True):
        a, b, factor = values[i], values[j], float(rng.uniform(0.1, 0.9))
        first, rest = a[:shift], np.concatenate([b[shift:], b[:shift]])
        if kind < 2:
            values[k] = a * factor + np.sin(rest)
        elif kind == 2:
            values[k] = rest / (2 + np.sum(first * first))
        else:
            values[k] = np.concatenate([first, b[shift:]]) - factor
    return np.stack(values)


def awkward(double, x, x_at, status, adjoint_x, M_PI, sum, range, errno, complex, let, NaN, y, out, tuple, jnp, c0, s1):
    """Arguments with names that mean something in C, JavaScript, Python or JAX, or that the code itself might use."""
    first = np.sum(np.exp(-double * double) * x + x_at * status - adjoint_x * M_PI) + ad.fori_loop(
        0, 3, lambda i, c: c * sum[i], range[0]
    )
    return first + np.sum(errno * let + complex * NaN) * y[0] - np.sum(np.maximum(out, tuple) * 1.5) + jnp[1] * c0[2] * s1[0]


def many_results(x, n):
    """Hundreds of results of several dtypes and shapes: numbers, rows, tables, none."""
    found = [(x[i] * k, x * k, np.outer(x, x[: k % 3]), n + k, x > k, np.sum(n) * k) for k in range(40) for i in (k % len(x),)]
    return [y for row in found for y in row]


def without_elements(x, n, z):
    """Arrays without elements in every kind of step: elementwise, sums, products, joins, order, indices, loops, complex."""
    empty, none = x[:0], x.reshape(3, 2)[:, :0]
    carry, rows = ad.scan(lambda c, r: (c + np.sum(r), c * 2), x[0], none.T)
    joined = np.concatenate([empty, x]), np.stack([empty, empty]), np.sort(none, axis=0), np.cumsum(empty), np.repeat(empty, 3)
    summed = np.sum(empty), np.prod(none, 0), np.sum(none, 1), np.any(n > 9), np.all(n > 9), np.sum(n), n * 2
    products = none @ none.T, none.T @ none, np.outer(empty, x), np.einsum("ij,kj->ik", none, none), np.linalg.det(none.T @ none)
    systems = np.linalg.solve(np.zeros((0, 0)) + np.sum(empty), empty), np.linalg.inv(none.T @ none)
    return *joined, *summed, *products, *systems, carry, rows, x[n], z * 2, np.abs(z), np.sum(z), np.where(z == 0, z, 1j)


def recurrence(x):
    return ad.scan(lambda c, r: (np.sin(c) + r * c, c * r), x[0], x)


def collatz(x):
    return ad.while_loop(lambda c: c.sum() < 100, lambda c: c * c + 1, x)


def restored(a):
    """A matrix from each of its decompositions: the signs of vectors cancel."""
    w, v = np.linalg.eigh(a + np.swapaxes(a, -1, -2))
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    q, r = np.linalg.qr(a)
    return (v * w[..., None, :]) @ np.swapaxes(v, -1, -2), w, (u * s[..., None, :]) @ vh, s, q, r


def bases(a):
    """All vectors of the decompositions of a matrix that is not square are orthogonal, and restore it."""
    u, s, vh = np.linalg.svd(a)
    q, r = np.linalg.qr(a, "complete")
    k = min(a.shape)
    return u.T @ u, vh @ vh.T, (u[:, :k] * s) @ vh[:k], s, q, r


def ordered(x):
    y = np.sort(x, axis=0)
    return (
        y,
        np.argsort(x, axis=-1),
        np.argmax(x, axis=1),
        np.argmin(x),
        np.median(x, axis=1),
        np.searchsorted(y[:, 0], x, "right"),
    )


def accumulated(x):
    i = (x * 10).astype(np.int64)
    running = np.maximum.accumulate(i, 0)
    return (
        np.cumsum(x, 0),
        np.cumprod(x, 1),
        np.maximum.accumulate(x, 1),
        np.minimum.accumulate(x),
        np.cumsum(i),
        running,
        np.prod(x, 1),
    )


def quotients(i, j, x, y):
    whole = (i // j, i % j, i & j, i | j, i ^ j, ~i, i << 3, i >> 2, i << (j & 63))
    return (*whole, x // y, x % y, np.fmod(x, y), np.round(x, 2), np.remainder(x, 0.0), np.floor_divide(x, 0.0))


def special_values(x):
    named = ("gamma", "gammaln", "rgamma", "psi", "erfcx", "log_ndtr", "i0", "i1", "i0e", "i1e", "j0", "j1", "exprel", "sindg")
    positive = ("k0", "k1", "k0e", "k1e", "y0", "y1", "ellipkm1")
    unit = ("erfinv", "ndtri", "logit", "ellipe")
    a = np.abs(x) + 0.01
    p = 0.5 + 0.5 * x / (1 + np.abs(x))
    return (
        *(getattr(scipy.special, name)(x) for name in named),
        *(getattr(scipy.special, name)(a) for name in positive),
        *(getattr(scipy.special, name)(p) for name in unit),
        scipy.special.zeta(1 + a, a),
        scipy.special.beta(a, a + 1),
    )


def written(x, i):
    y = anp.array(x)
    y[i] = -1.0
    y[i, i] = np.array([10.0, 20.0, 30.0])
    return (
        y * 2,
        np.roll(x, 2, 0),
        np.diff(x, axis=1),
        np.take_along_axis(x, np.array([[1], [0], [2]]), 1),
        np.convolve(x[0], x[1]),
    )


def whole_numbers(n, i, one, small):
    """Integers of one dtype: arithmetic that wraps around, comparisons with its limits, order, writes, reductions and casts."""
    dtype, limits = n.dtype, np.iinfo(n.dtype)
    low, high = dtype.type(limits.min), dtype.type(limits.max)
    wrapped = (n + n, n - one, n * n, -n, abs(n), ~n, n // one, n % one, n << 3, n >> 1, one >> n, n & one, n | one, n ^ one)
    compared = (n < 0, n >= 0, n <= low, n > low, n < high, n >= high, n == high, n != 0, n > one, n < 300, np.maximum(n, one))
    y = anp.array(n)
    y[i] = one
    ordered = (np.sort(n), np.argsort(n), np.argmax(n), np.argmin(n), np.maximum.accumulate(n), y, n[i], np.cumsum(n))
    reduced = (n.sum(), n.prod(), n.max(), n.min(), np.any(n), n.sum(dtype=dtype), np.where(n > one, n, low))
    cast = [n.astype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    return (
        *wrapped,
        *compared,
        *ordered,
        *reduced,
        *cast,
        n.astype(float),
        n.astype(np.float32),
        n.astype(bool),
        small.astype(dtype),
    )


def whole_arguments(dtype):
    """The limits of a dtype (those of 53 bits for an int64, which JavaScript has), and numbers between them."""
    low, high = (-(2**53), 2**53) if dtype == "int64" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    few = np.array([0, 1, 2, 3, 100, high - 1, high, low, low + 1, 7], dtype)
    return few, np.array([2, 0, 2]), np.dtype(dtype).type(3), np.array([0.0, 2.7, 100.9])


G = ("gradient",)
Z = np.random.default_rng(5).normal(size=(5, 5, 2)) @ np.array([1.0, 1j])
A32 = A.astype(np.float32)
T = RNG.normal(size=(3, 5))
W = np.concatenate([RNG.normal(size=40), RNG.normal(size=40) * 12, [0.0, -0.0, 1.0, 2.0, -1.0, 8.0, 12.0, 171.0, np.nan]])
RANK_ONE = np.outer([1.0, 2.0, -1.0, 0.5], [1.0, 0.5, 2.0])
#: name: (function, arguments, derivatives)
SAMPLES: dict[str, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {
    "scalars": (lambda x, a: np.sin(x) * a + a**3, (0.7, 2.0), ("gradient", "hessian")),
    "shifted": (lambda x, a: np.sum(np.sin(x[1:]) * np.exp(x[:-1])) * a, (RNG.normal(size=100), 2.0), ("gradient", "hvp", "jvp")),
    "softmax": (lambda x: np.sum(np.exp(x - x.max(1, keepdims=True)) * x), (RNG.normal(size=(300, 20)),), G),
    "long sum": (lambda x: np.sum(np.log1p(x**2)) / x.size, (RNG.normal(size=10_000),), G),
    "row tiles": (lambda x: np.sum(x / np.sqrt(np.sum(x * x, 1, keepdims=True)), 0), (RNG.normal(size=(5000, 60)),), ("vjp",)),
    "product": (lambda a, b: np.sum(np.tanh(a @ b)), (RNG.normal(size=(33, 21)), RNG.normal(size=(21, 37))), ("gradient",)),
    "network": (lambda a, w: np.sum(np.tanh(a @ w) @ w.T), (RNG.normal(size=(64, 32)), RNG.normal(size=(32, 32))), G),
    "matrix and vector": (lambda a, x: np.sum(np.sin(a @ x)), (RNG.normal(size=(70, 60)), RNG.normal(size=60)), G),
    "stack of products": (lambda a, b: a @ b, (RNG.normal(size=(3, 12, 11)), RNG.normal(size=(11, 13))), ()),
    "solve": (lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), (A, X), G),
    "solve for many": (lambda a, b: np.linalg.solve(a, b), (np.stack([A, S]), RNG.normal(size=(6, 3))), ("vjp",)),
    "inverse": (lambda a: np.sum(np.linalg.inv(a) ** 2), (A,), G),
    "log-determinant": (lambda a: np.linalg.slogdet(a)[1], (S,), G),
    "cholesky": (lambda a: np.sum(np.linalg.cholesky(a) ** 3), (S,), ("gradient", "hvp")),
    "large cholesky": (lambda a: np.sum(np.linalg.cholesky(a @ a.T + 40 * np.eye(40))), (RNG.normal(size=(40, 40)),), G),
    "gather": (lambda x, i: np.sum(x[i] ** 2), (X, np.array([0, -1, 3, 3])), G),
    "awkward names": (awkward, tuple(X + k for k in range(18)), G),
    "scan": (lambda x: recurrence(x)[0], (X,), G),
    "stacks": (recurrence, (X,), ()),
    "fori": (lambda x: ad.fori_loop(0, 10, lambda i, c: np.sin(c) * x, x).sum(), (X,), G),
    "while": (collatz, (X,), ("jvp",)),
    "cond": (lambda x: ad.cond(x[0] > 0, lambda x: np.sum(x**2), lambda x: np.sum(np.exp(x)), x), (X,), G),
    "rolled": (lambda x: sum(np.sin(x * k) for k in range(30)).sum(), (X,), G),
    "float32": (lambda x: np.sum(np.expm1(x) * x), (X.astype(np.float32),), G),
    "no elements": (lambda x: np.sum(x**2) + np.ones(3) * 2, (np.zeros((0, 3)),), ()),
    "nothing to compute": (lambda x: x, (np.zeros((0, 3)),), ()),
    "sums of no products": (lambda x: (x.T @ x, x[:, 0] @ x, np.einsum("ij,ik->jk", x, x)), (np.zeros((0, 3)),), ("vjp",)),
    "sums of no products of integers": (lambda n: n.T @ n, (np.zeros((0, 3), int),), ()),
    "adds at no index": (lambda x, i: x[i] * 2, (np.arange(3.0), np.zeros(0, int)), ("vjp",)),
    "extrema of integers": (
        lambda n, m: (n.max(), n.min(0), m.max(1), np.ptp(m), n.max(1)),
        (COUNTS, COUNTS.astype("int32")),
        (),
    ),
    "a large constant": (lambda x: (np.sum(x * LONG), x * LONG[::999], np.sum(np.where(LONG > 0, x, 0))), (2.0,), ("jacobian",)),
    "bools": (
        lambda x, m: (np.where(m, x, -x) * np.any(m), np.logical_not(m), np.logical_and(m, x > 0), np.logical_xor(m, x < 1)),
        (X, X > 0),
        (),
    ),
    "a bool": (lambda m, x: np.where(m, x, -x), (np.True_, X), ()),
    "integers": (lambda i, n: (i * i + 3, -i, abs(i), i * 0.5, np.sum(i), n + i), (np.arange(-3, 4), np.int64(5)), ()),
    "bits": (
        lambda i, j, m: (i & j, i | 3, i ^ j, ~i, i << 4, i >> 2, i >> j, 1 << j, m & (i > 0), m | m[0], m ^ (j > 2), ~m),
        (np.arange(-3, 4) * 1000001, np.arange(-2, 61, 10)[:7], np.arange(7) % 3 > 0),
        (),
    ),
    "bits of int32": (
        lambda i, j: (i & j, i | 3, i ^ j, ~i, i << 14, i >> 2, i >> j, i << j, np.int32(-7) >> j),
        (np.arange(-3, 4, dtype=np.int32) * 1000001, np.arange(-2, 40, 6, dtype=np.int32)),
        (),
    ),
    "int32": (
        lambda i: (i * 123456, i * i * 7 - 2**30 - 2**30, abs(i), -i),
        (np.arange(-30000, 30000, 7000, dtype=np.int32),),
        (),
    ),
    "casts": (lambda x: (x.astype(np.int64), x.astype(np.int32), x.astype(np.float32), x.astype(bool)), (ALL[:5] * 10,), ()),
    "functions": (unary, (ALL,), ()),
    "functions of two": (binary, (ALL, ALL[::-1].copy()), ()),
    "functions of singles": (unary, (ALL.astype(np.float32),), ()),
    "a name that C uses": (lambda double, i1, work: double * i1 + work, (X, X, 2.0), ("vjp",)),
    "names that become equal": (lambda double, double_: double - double_, (X, X[::-1].copy()), ()),
    "containers": (lambda p: {"y": p["a"] @ p["b"], "z": (p["b"], 3.0)}, ({"a": A, "b": X},), ()),
}
SAMPLES |= {
    "decompositions": (restored, (A,), ()),
    "stack of decompositions": (restored, (np.stack([A, S, np.eye(6)]),), ()),
    "impedances": (impedances, (X[:6],), G),
    "decompositions of singles": (restored, (A.astype(np.float32),), ()),
    "decompositions of zeros": (restored, (np.zeros((3, 3)),), ()),
    "tall decompositions": (bases, (RNG.normal(size=(7, 3)),), ()),
    "wide decompositions": (bases, (RNG.normal(size=(3, 7)),), ()),
    "decompositions of low rank": (lambda a: np.linalg.svd(a, compute_uv=False)[:1], (RANK_ONE,), ()),
    "eigenvalues": (lambda a: np.sum(np.linalg.eigvalsh(a) ** 3), (S,), ("gradient", "hvp")),
    "eigenvectors": (lambda a: np.sum(np.linalg.eigh(a)[1][0] ** 4), (S,), G),
    "singular values": (lambda a: np.sum(np.log(np.linalg.svd(a, compute_uv=False))), (A,), G),
    "orthogonal factor": (lambda a: np.sum(np.linalg.qr(a)[0] ** 3), (RNG.normal(size=(5, 3)),), G),
    "least squares": (lambda a, b: np.linalg.pinv(a) @ b, (RNG.normal(size=(6, 3)), X), ("vjp",)),
    "exponential of a matrix": (lambda a: np.sum(adjoint.scipy.linalg.expm(a)), (3 * A,), G),
    "order": (ordered, (T,), ()),
    "order of integers": (lambda i: (np.argsort(i), np.sort(i), np.argmax(i)), (np.array([3, -1, 3, 2, -7]),), ()),
    "order with nans": (ordered, (np.array([[1.0, np.nan, -np.inf], [np.inf, 0.0, np.nan]]),), ()),
    "gradient of order": (lambda x: np.sum(np.sort(x, 1) * np.arange(5)) + np.median(x), (T,), G),
    "cumulative": (accumulated, (T,), ()),
    "gradient of cumulative": (lambda x: np.sum(np.cumprod(np.cumsum(x, 0), 1) ** 2), (T,), G),
    "quotients": (
        quotients,
        (np.arange(-8, 8), np.array([3, -3, 5, 1, -1, 0, 7, 2] * 2), np.linspace(-9, 9, 16), np.linspace(-2, 3, 16)),
        (),
    ),
    "special functions": (special_values, (W,), ()),
    "gradient of special functions": (lambda x: np.sum(scipy.special.gammaln(x) * scipy.special.i0(x)), (np.abs(X) + 0.5,), G),
    "writes": (written, (RNG.normal(size=(3, 3)), np.array([2, 0, 2])), ()),
    "gradient of a while loop": (
        lambda x: np.sum(ad.while_loop(lambda c: np.sum(c) < 1e6, lambda c: c * 1.1 + x * x, np.abs(x) + 1)),
        (X,),
        G,
    ),
    "complex": (waves, (RNG.normal(size=6) + 1j * X, 0.5 - 1.5j), ()),
    "complex singles": (lambda z: (z * z, np.fft.fft(z), np.abs(z)), ((X + 1j * X[::-1]).astype(np.complex64),), ()),
    "gradient of complex": (lambda z: np.sum(np.abs(np.exp(z) * z[::-1]) ** 2), (X + 1j * X[::-1],), ("gradient", "hvp")),
    "transforms": (transforms, (RNG.normal(size=(3, 7)) + 1j * RNG.normal(size=(3, 7)), RNG.normal(size=(12, 2))), ()),
    "gradient of transforms": (lambda x: np.sum(np.abs(np.fft.rfft(x, 11)) ** 3), (RNG.normal(size=(2, 9)),), G),
    "complex constants": (lambda x: (x * 1j, Z[0], np.complex64(2 - 1j), Z[:0], Z.astype(np.complex64)), (2.0,), ()),
    "complex matrices": (complex_matrices, (Z, Z[0] * 2, A[:5, :5]), ()),
    "complex matrices of singles": (complex_matrices, (Z.astype(np.complex64), Z[0].astype(np.complex64), A32[:5, :5]), ()),
    "one complex matrix": (complex_matrices, (Z[:1, :1], Z[0, :1], A[:1, :1]), ()),
    "gradient of complex matrices": (complex_loss, (Z, Z[1]), G),
    "thousands of equations": (lambda x: np.sum(long_program(x) ** 2), (np.linspace(-1, 1, 60),), G),
    "many results": (many_results, (X, np.arange(-2, 3)), ()),
    "nothing in every step": (without_elements, (X, np.zeros(0, int), np.zeros((2, 0), complex)), ()),
    "no complex elements": (lambda z: (z * 2, np.fft.fft(z), z.sum(0)), (np.zeros((0, 3), complex),), ()),
    "gradient of a loop that does not run": (lambda x: ad.while_loop(lambda c: c < 0.0, lambda c: c * x, x * x), (2.0,), G),
}
MANY = RNG.normal(size=100_000) * 10.0 ** RNG.integers(-300, 300, size=100_000)
MANY_WHOLE = RNG.integers(-(2**53), 2**53, size=5_000)


with np.errstate(all="ignore"):
    LARGE = [MANY, MANY.astype(np.float32), np.append(MANY, [np.inf, -np.inf, np.nan, -0.0])[-1_001:], MANY[:1_000], MANY > 0]
    LARGE += [MANY_WHOLE, *(MANY_WHOLE.astype(dtype) for dtype in (np.int8, np.uint32, np.uint64)), MANY_WHOLE[:999]]
# Elements of constants that are above the size of readable ones, and at it, must be exact: nothing is computed.
SAMPLES["large constants"] = (lambda i: [anp.take(c, i) for c in LARGE], (RNG.integers(-999, 999, size=700),), ())
SAMPLES |= {
    f"whole numbers of {dtype}": (whole_numbers, whole_arguments(dtype), ())
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")
}
H = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float16)


def of_halves(x, y):
    kinds = x.astype(np.float32), x.astype(np.int32), x.astype(bool), x.astype(np.float64).astype(np.float16)
    special_ones = scipy.special.erf(x), np.arcsinh(x), np.exp(x), np.sign(x), np.isnan(x)
    return np.sin(x) * y + 2, x / 3, x > y, x**2, np.where(x > 0, x, 0), *kinds, *special_ones


#: Programs of numbers of 16 bits, for targets that have them.
HALVES: dict[str, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {
    "elementwise": (of_halves, (H[0], H[1]), ()),
    "network": (lambda a, w: np.sum(np.tanh(a @ w) * 0.5), (H, H.T.copy()), G),
    "reductions": (lambda a: (a.sum(), a.max(0), a.mean(1), np.argmax(a), np.sort(a, 0), np.cumsum(a, 1)), (H,), ()),
    "other dtypes": (lambda a, b, n: (a * b, a + n, a[n], a * np.float32(2)), (H[:, 0], X[:4], np.array([1, 0, 3, 3])), ()),
    "loop": (lambda x: ad.scan(lambda c, v: (np.sin(c) + v, c * v), x[0], x), (H[0],), ()),
    "while": (lambda x: ad.while_loop(lambda c: c < 100, lambda c: c * 2 + 1, x), (np.float16(3),), ()),
    "branch": (lambda x: ad.cond(x[0] > 0, lambda x: x * 2, lambda x: -x, x), (H[0],), ()),
    "constants": (lambda x: (x * np.float16(1.5) + np.arange(3, dtype=np.float16), np.float16(2)), (H[0],), ()),
    "no elements": (lambda x: (x * 2, x.sum(), x.T @ x), (H[:0],), ()),
    "overflow": (lambda x: (x * 300, x + 1e-4, np.float16(1) / (x - x)), (np.array([300, -300, 1e-7], np.float16),), ()),
}
LOOSE = {
    "large constants": 0.0,
    "float32": 1e-5,
    "special functions": 1e-10,
    "decompositions of singles": 1e-4,
    "functions of singles": 1e-5,
}


@functools.cache  # several exporters write each of them
def sample(name: str) -> list[tuple[Part, list[Any], list[Any]]]:
    """The parts of a sample, with flat inputs and the results of its graph."""
    f, args, derivatives = SAMPLES[name]
    found = []
    with np.errstate(all="ignore"):
        for part in parts(f, args, {}, derivatives=derivatives, name="sample"):
            inputs = list(map(np.asarray, flatten((args, {}))[0]))
            more = part.graph.input_types[len(inputs) :]
            inputs += [np.random.default_rng(1).normal(size=t.shape).astype(t.dtype) for t in more]
            found.append((part, inputs, list(map(np.asarray, part.graph.run_flat(inputs)))))
    return found


def share(exporter: str) -> list[str]:
    """The samples that an exporter is tested with: all at night.

    Otherwise C and JavaScript, which are written from the same steps, take turns, and so do object files and WebAssembly.
    """
    return rotated(SAMPLES, exporter in ("javascript", "object"), 2)


def agree(found: list[Any], wanted: list[Any], name: str, tolerance: float = 1e-11) -> None:
    """Equal types; floats to rounding, relative to the largest of a result; signs of zeros."""
    assert len(found) == len(wanted)
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        where = f"result {i} of {name}"
        assert (x.shape, x.dtype) == (y.shape, y.dtype), where
        if x.dtype.kind not in "fc":
            np.testing.assert_array_equal(x, y, where)
            continue
        tolerance = max(tolerance, 2e-5 if tolerance and x.dtype in (np.float32, np.complex64) else 0)
        finite = y[np.isfinite(y)]
        scale = min(1.0, float(np.max(np.abs(finite), initial=0)))
        np.testing.assert_allclose(x, y, tolerance, tolerance * scale, err_msg=where)


COUNT = int(os.environ.get("ADJOINT_PROGRAMS", 0)) or 12


def random_samples(count: int = COUNT) -> list[tuple[str, list[Part], list[Any]]]:
    """Random programs over mixed dtypes that can be exported, each with its parts and inputs."""
    found = []
    number = 0
    while len(found) < count:
        ((_, steps, types, c),) = random_programs.drawn(number, 1, random_programs.SHAPES)
        number += 1
        f = random_programs.program(steps, random_programs.LARGEST)
        arrays = random_programs.values(types, np.random.default_rng(number))
        try:
            with np.errstate(all="ignore"):
                made = parts(lambda x, y, f=f, c=c: f(x, y, c), arrays, {}, name=f"program{number}_")
        except (ad.AdjointError, TypeError, ValueError):
            continue  # it asks for numbers, which only jit answers
        found.append((random_programs.described(number - 1, steps, types), made, arrays))
    return found


def exportable(writer: Any, samples: list[Any]) -> list[tuple[str, list[Part], list[Any], Any]]:
    """The samples that an exporter takes, with what it writes. What it refuses, it names."""
    taken = []
    for name, made, arrays in samples:
        try:
            taken.append((name, made, arrays, writer(made)))
        except UnsupportedError as error:
            if not re.search("has no (code for|numbers of)", str(error)):
                raise
    assert len(taken) > len(samples) // 4
    return taken
