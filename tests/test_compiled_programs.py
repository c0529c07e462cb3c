"""Random programs: compiled = eager, for all dtypes, layouts and values, in value, both derivatives and batches.

Two families: the programs of `rewrite/test_random_programs.py`, which the rewrite rules have much to do with; and programs over
mixed dtypes made here, of what kernels are made of: broadcasting, reductions over any axes, views with steps, joins, indexing by
arrays, writes in place, products of all ranks. The same ones on every run; ADJOINT_PROGRAMS=10000 draws more of both.
"""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from night import asked
from rewrite import test_random_programs as rewritten

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.lower import row_tiles, schedule
from adjoint.compiler.lower.step import RowTiles
from adjoint.core.tree import flatten

ASKED = asked(75, at_night=300)
CHUNK = 25
LARGEST = 200  # elements of a value that a step makes of small ones

# -- steps ------------------------------------------------------------------------------------------------------------
# A step is a function of a value, another one, a Python number and a drawn whole number k. What jumps does so at places that
# rounding does not reach, and all floats stay bounded.


def kind(x):
    return np.result_type(x).kind


def real(x):
    """x as a float, of its own precision if it has one."""
    return x if kind(x) == "f" else x * 0.37


def small(x):
    """x within (-0.9, 0.9)."""
    return np.tanh(real(x)) * 0.9


def whole(x, k=0):
    """x as integers, of 32 or 64 bits."""
    if kind(x) in "ib":
        return x + 0
    return np.floor(small(x) * 7.3 + 0.01234).astype(np.int32 if k % 2 else np.int64)


def truth(x):
    return x if kind(x) == "b" else x > 0.1234


def some_axes(x, k):
    return tuple(i for i in range(np.ndim(x)) if k >> i & 1)


def an_axis(x, k):
    return k % np.ndim(x)


def matrix(x):
    """x with two axes, and a few columns."""
    return rewritten.matrix(real(x))


def needs(axes=0, elements=False):
    """Values that have too few axes, or no elements, are left as they are."""

    def wrap(step):
        return lambda a, b, c, k: step(a, b, c, k) if np.ndim(a) >= axes and (np.size(a) or not elements) else a

    return wrap


def fits(step):
    """Pairs that do not broadcast, or become too large, are left alone."""

    def fitting(a, b, c, k):
        fit = rewritten._fit(a, b) and math.prod(np.broadcast_shapes(np.shape(a), np.shape(b))) <= 10_000_000
        return step(a, b, c, k) if fit else a

    return fitting


def function(f, inside=small):
    return lambda a, b, c, k: f(inside(a))


def positive(x):
    return small(x) ** 2 + 0.3


FUNCTIONS = {
    **{name: function(getattr(np, name)) for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh")},
    **{name: function(getattr(np, name)) for name in ("tanh", "arcsinh", "arctanh", "exp", "exp2", "expm1", "log1p", "cbrt")},
    **{name: function(getattr(np, name), positive) for name in ("log", "log2", "log10", "sqrt", "reciprocal")},
    "arccosh": lambda a, b, c, k: np.arccosh(1.1 + positive(a)),
    "power of number": lambda a, b, c, k: positive(a) ** (-1.5, 2.7, 0.5, -3, 4)[k % 5],
    "number to power": lambda a, b, c, k: 1.7 ** small(a),
    "sign": lambda a, b, c, k: np.sign(whole(a, k)),
    "floor": lambda a, b, c, k: np.floor(small(a) * 4 + 0.0123),
    "ceil": lambda a, b, c, k: np.ceil(small(a) * 4 + 0.0123),
    "rint": lambda a, b, c, k: np.rint(small(a) * 4 + 0.0123),
    "trunc": lambda a, b, c, k: np.trunc(small(a) * 4 + 0.0123),
    "remainder": lambda a, b, c, k: (small(a) + 0.0123) % 0.7,
    "abs": lambda a, b, c, k: np.abs(real(a)),
    "negative": lambda a, b, c, k: -real(a),
    "clip": lambda a, b, c, k: np.clip(a, *((0, 1) if kind(a) in "ib" else (-0.3, 0.6))),
    "finite": lambda a, b, c, k: np.isfinite(a) & ~np.isnan(real(a)),
}
NUMBERS = {
    "times number": lambda a, b, c, k: small(a) * c,
    "number minus": lambda a, b, c, k: c - small(a),
    "less than number": lambda a, b, c, k: whole(a) < c,
    "over number": lambda a, b, c, k: a / (abs(c) + 1.5),
    "whole plus": lambda a, b, c, k: whole(a, k) + 3,
    "single": lambda a, b, c, k: small(a).astype(np.float32),
    "double": lambda a, b, c, k: real(a).astype(np.float64),
    "whole": lambda a, b, c, k: whole(a, k),
    "truth": lambda a, b, c, k: truth(a),
    "truth as number": lambda a, b, c, k: truth(a).astype((np.float32, np.float64, np.int32, int)[k % 4]),
    "nonzero": lambda a, b, c, k: whole(a).astype(bool),
}
WHOLE = {
    "floor divide": lambda a, b, c, k: whole(a, k) // (3, -2, 5)[k % 3],
    "modulo": lambda a, b, c, k: whole(a, k) % (3, -2, 5)[k % 3],
    "overflow": lambda a, b, c, k: whole(a, k) * 2**30 * 2,
    "bits": lambda a, b, c, k: whole(a, k) & 5 | 2,
    "square": lambda a, b, c, k: whole(a, k) ** 2,
    "negative whole": lambda a, b, c, k: abs(-whole(a, k) - 1),
    "not": lambda a, b, c, k: ~truth(a),
}
REDUCTIONS = {
    "sum": lambda a, b, c, k: np.sum(a, axis=some_axes(a, k), keepdims=k % 2 == 1) * (1 if kind(a) == "i" else 0.3),
    "sum all": lambda a, b, c, k: np.sum(small(a)) / 7,
    "mean": needs(1, True)(lambda a, b, c, k: np.mean(a, axis=an_axis(a, k), keepdims=k % 3 == 1)),
    "max": needs(1, True)(lambda a, b, c, k: np.max(a, axis=an_axis(a, k), keepdims=k % 3 == 1)),
    "min": needs(0, True)(lambda a, b, c, k: np.min(real(a), axis=some_axes(a, k))),
    "any": lambda a, b, c, k: np.any(truth(a), axis=some_axes(a, k)),
    "all": lambda a, b, c, k: np.all(truth(a), axis=some_axes(a, k), keepdims=k % 2 == 1),
    "count": lambda a, b, c, k: np.sum(truth(a), axis=some_axes(a, k)),
    "product": needs(1)(lambda a, b, c, k: np.prod(small(a) + 0.5, axis=an_axis(a, k))),
    "centred": needs(1, True)(lambda a, b, c, k: real(a) - np.mean(real(a), axis=an_axis(a, k), keepdims=True)),
    "softmax": needs(1, True)(lambda a, b, c, k: np.exp(small(a)) / np.sum(np.exp(small(a)), axis=an_axis(a, k), keepdims=True)),
    "spread": needs(1, True)(lambda a, b, c, k: np.sqrt(0.1 + np.var(small(a), axis=an_axis(a, k)))),
    "running": needs(1)(lambda a, b, c, k: np.cumsum(small(a), axis=an_axis(a, k)) / 3),
    "sorted": needs(1)(lambda a, b, c, k: np.sort(a, axis=an_axis(a, k))),
}


def asked(x, k):
    """A dtype that a reduction is asked for: of whole numbers, any; of floats one that they fit."""
    return (
        (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64)[k % 6]
        if kind(x) in "ib"
        else (np.float32, np.float64)[k % 2]
    )


def large(x):
    """Whole numbers whose sums are beyond 64 bits."""
    return whole(x).astype(np.int64) * 2**58


def half(x):
    return np.floor(small(x) * 16).astype(np.float16) / 16  # sums of which are exact


def by_class(a, b, c, k):
    """Branches on what a value is."""
    if isinstance(a, np.ndarray) and not np.isscalar(a):
        return small(a) * 0.5 if hasattr(a, "shape") and type(c) is float else small(a) * 0.25
    return small(a) * 0.125 if isinstance(a, np.generic) and isinstance(c, (int, float)) else small(a) + 0.5


def by_errors(a, b, c, k):
    """Divisions that may raise, of Python numbers, and settings that do not."""
    try:
        ratio = 1.0 / c
    except ZeroDivisionError:
        ratio = 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(small(a) > 0.1234, np.log(positive(a)), small(a)) * (ratio if abs(ratio) < 4 else 0.5)


CLASSES = {
    "sum as": lambda a, b, c, k: np.sum(whole(a, k) if k % 2 else small(a), axis=some_axes(a, k), dtype=asked(a, k)) * 1,
    "product as": needs(1)(lambda a, b, c, k: np.prod(whole(a, k), axis=an_axis(a, k), dtype=asked(whole(a), k))),
    "running as": needs(1)(lambda a, b, c, k: np.cumsum(whole(a, k), axis=an_axis(a, k), dtype=asked(whole(a), k))),
    "mean of large": needs(0, True)(lambda a, b, c, k: np.mean(whole(a).astype(np.int64) * 2**58) / 2**60),
    "spread of large": needs(0, True)(lambda a, b, c, k: np.std(whole(a).astype(np.int64) * 2**40) / 2**42),
    "median of large": needs(1, True)(
        lambda a, b, c, k: np.median(whole(a).astype(np.int64) * 2**58, axis=an_axis(a, k)) / 2**60
    ),
    "mean of halves": needs(0, True)(lambda a, b, c, k: np.mean(half(a), axis=some_axes(a, k))),
    "rounded whole": lambda a, b, c, k: np.round(whole(a, k) * 37, (0, 1, -1, -2)[k % 4]),
    "by class": by_class,
    "by errors": by_errors,
}


def stepped(a, b, c, k):
    steps = (slice(None, None, 2), slice(None, None, -1), slice(1, None), slice(None, -1), slice(None, None, -2), slice(0, 1))
    return a[tuple(steps[(k >> 2 * i) % 6] for i in range(np.ndim(a)))]


def cut(a, b, c, k):
    n = np.shape(a)[-1]
    return a[..., k % n : k % n + 2] if n else a


def permuted(a, b, c, k):
    return np.transpose(a, np.random.default_rng(k).permutation(np.ndim(a)))


def reshaped(a, b, c, k):
    size = np.size(a)
    factors = [n for n in (1, 2, 3, 4, 6) if size % n == 0]
    n = factors[k % len(factors)]
    return np.reshape(a, (n, size // n))


VIEWS = {
    "stepped": needs(1)(stepped),
    "cut": needs(1)(cut),
    "permuted": permuted,
    "reshaped": reshaped,
    "flat": lambda a, b, c, k: np.reshape(a, -1) if k % 2 else np.ravel(np.transpose(a)),
    "new axis": lambda a, b, c, k: np.expand_dims(a, k % (np.ndim(a) + 1)) if np.ndim(a) < 5 else a,
    "squeeze": lambda a, b, c, k: np.squeeze(a),
    "spread out": lambda a, b, c, k: np.broadcast_to(a, (2, *np.shape(a))) if np.ndim(a) < 5 else a,
    "column": needs(1)(lambda a, b, c, k: a[..., k % np.shape(a)[-1]] if np.shape(a)[-1] else a),
    "diagonal": needs(2)(lambda a, b, c, k: np.diagonal(a, k % 3 - 1)),
    "difference": needs(1)(lambda a, b, c, k: real(a)[1:] - real(a)[:-1]),
    "rolled": needs(1)(lambda a, b, c, k: np.roll(a, k % 3, axis=an_axis(a, k))),
    "padded": needs(1)(lambda a, b, c, k: np.pad(small(a), [(k >> i & 1, k >> i + 1 & 1) for i in range(np.ndim(a))])),
    "repeated": needs(1)(lambda a, b, c, k: np.repeat(a, 2, axis=an_axis(a, k))),
    "stencil": needs(1)(
        lambda a, b, c, k: real(a)[2:] - 2 * real(a)[1:-1] + real(a)[:-2] if len(np.shape(a)) and np.shape(a)[0] > 2 else a
    ),
}


def places(x, n, k):
    """Indices into an axis of length n that depend on the values."""
    return (whole(x, k) * (k % 3 + 1)) % n - (n if k % 2 else 0)


def written(a, b, c, k):
    x = anp.array(small(a))
    x[..., ::2] *= 0.5
    x[k % 2 :] += 0.25
    x[..., -1] = c
    return x


def written_at(a, b, c, k):
    x = anp.array(small(a))
    x[np.array([0, 0, -1])] = 0.5
    x[x > 0.3456] *= 0.5
    return x


def added_at(a, b, c, k):
    x = anp.zeros((4, *np.shape(a)[1:]))
    np.add.at(x, np.arange(np.shape(a)[0]) * (k + 1) % 4, small(a))
    return x


INDEXING = {
    "gather": needs(1, True)(lambda a, b, c, k: a[np.array([[0, -1], [k % np.shape(a)[0], 0]])]),
    "gather last": needs(1, True)(lambda a, b, c, k: a[..., np.array([0, -1, 0])]),
    "gather by values": needs(1, True)(lambda a, b, c, k: a[places(b, np.shape(a)[0], k)] if np.ndim(b) < 3 else a),
    "gather pairs": needs(2, True)(lambda a, b, c, k: a[np.array([0, -1]), np.array([[0], [-1]])]),
    "take": needs(1, True)(
        lambda a, b, c, k: np.take(a, places(b, np.shape(a)[an_axis(a, k)], k), axis=an_axis(a, k)) if np.ndim(b) < 2 else a
    ),
    "masked": needs(1, True)(lambda a, b, c, k: a[truth(a)] if k % 4 == 0 else a),
    "written": needs(1, True)(written),
    "written at": needs(1, True)(written_at),
    "added at": needs(1, True)(added_at),
}
PAIRS = {
    "add": fits(lambda a, b, c, k: a + b),
    "subtract": fits(lambda a, b, c, k: real(a) - b),
    "multiply": fits(lambda a, b, c, k: small(a) * small(b)),
    "divide": fits(lambda a, b, c, k: small(a) / positive(b)),
    "power": fits(lambda a, b, c, k: positive(a) ** small(b)),
    "maximum": fits(lambda a, b, c, k: np.maximum(a, b) if k % 2 else np.fmin(a, b)),
    "minimum": fits(lambda a, b, c, k: np.minimum(a, b)),
    "arctan2": fits(lambda a, b, c, k: np.arctan2(small(a), positive(b))),
    "hypot": fits(lambda a, b, c, k: np.hypot(small(a), positive(b))),
    "logaddexp": fits(lambda a, b, c, k: np.logaddexp(small(a), small(b))),
    "less": fits(lambda a, b, c, k: whole(a, k) < whole(b, k // 2)),
    "equal": fits(lambda a, b, c, k: whole(a, k) == whole(b, k // 2)),
    "and": fits(lambda a, b, c, k: np.logical_and(truth(a), truth(b))),
    "xor": fits(lambda a, b, c, k: truth(a) ^ truth(b)),
    "where": fits(lambda a, b, c, k: np.where(truth(a), a, b)),
    "where number": fits(lambda a, b, c, k: np.where(truth(b), a, 1)),
    "whole arithmetic": fits(lambda a, b, c, k: whole(a, k) * 3 - whole(b, k // 2)),
    "stack": lambda a, b, c, k: np.stack([a, b, a], axis=k % (np.ndim(a) + 1)) if np.shape(a) == np.shape(b) else a,
    "join": needs(1)(
        lambda a, b, c, k: np.concatenate(
            [a, b if np.shape(a) == np.shape(b) else a[:1], stepped(a, b, c, k)[:, ...] * 1][: 2 + (np.ndim(a) == 1)], axis=0
        )
    ),
    "outer": lambda a, b, c, k: np.multiply.outer(small(a), small(b)) if np.ndim(a) + np.ndim(b) < 4 else a,
}
PRODUCTS = {
    "gram": needs(1)(lambda a, b, c, k: np.tanh(matrix(a) @ matrix(a).T)),
    "covariance": needs(1)(lambda a, b, c, k: np.tanh(matrix(a).T @ matrix(a))),
    "inner": needs(1)(lambda a, b, c, k: np.tanh(np.reshape(real(a), -1) @ np.reshape(small(a), -1))),
    "matrix and vector": needs(1)(lambda a, b, c, k: np.tanh(real(a) @ real(a)[(0,) * (np.ndim(a) - 1)]) if np.size(a) else a),
    "vector and matrix": needs(2, True)(
        lambda a, b, c, k: np.tanh(real(a)[(0,) * (np.ndim(a) - 1)] @ np.swapaxes(small(a), -1, -2)[..., :1])
    ),
    "stacked": needs(2)(lambda a, b, c, k: np.tanh(real(a) @ np.swapaxes(small(a), -1, -2))),
    "broadcast product": needs(2)(lambda a, b, c, k: np.tanh(np.stack([real(a), small(a)]) @ np.swapaxes(small(a), -1, -2))),
    "einsum": needs(1)(lambda a, b, c, k: np.tanh(np.einsum("ij,kj->ik", matrix(a), matrix(a)[:2]))),
    "tensordot": needs(1)(lambda a, b, c, k: np.tanh(np.tensordot(real(a), small(a), (0, 0))) if np.ndim(a) < 3 else a),
}
GUARDED = {"branch": lambda a, b, c, k: real(a) * 2 if np.sum(small(a)) > 0.0123 else real(a) - 1}
STEPS = {**FUNCTIONS, **NUMBERS, **WHOLE, **REDUCTIONS, **VIEWS, **INDEXING, **PAIRS, **PRODUCTS, **GUARDED, **CLASSES}
NAMES = list(STEPS)
ASK = {
    "masked",
    "written at",
    "branch",
    "by errors",
}  # for an answer that depends on the values: other values may take another path
GROWING = {*PRODUCTS, "outer", "gather by values"}  # the result may be as large as a product of the two
#: Where they jump, or are no function of the numbers alone, special values need not give what eager gives.
ORDER_MATTERS = {"sorted"}

# -- programs ---------------------------------------------------------------------------------------------------------

SHAPES = [(), (1,), (3,), (4, 3), (4, 1), (1, 3), (2, 1, 3), (2, 4, 3), (0,), (2, 0), (0, 3), (5, 1, 2, 3), (2, 1, 1, 2, 1, 2)]
LARGE = [(60_001,), (300, 201), (201, 1, 300), (3, 20_000), (20_000, 3)]
DTYPES = [np.float64, np.float64, np.float64, np.float32, np.int64, np.int32, bool]


def program(steps, largest):
    """A function of two arrays and a Python number that takes the steps and gives all values."""

    def f(x, y, c):
        pool = [x, y]
        for which, i, j, k in steps:
            a, b = pool[-1 - i % min(len(pool), 3)], pool[j % len(pool)]
            name = NAMES[which % len(NAMES)]
            if np.size(a) * np.size(b) > largest**2:
                a = np.sum(small(a), axis=0) / 3
            if name in GROWING and np.size(a) * max(np.size(a), np.size(b)) > 10_000_000:
                a, b = (np.ravel(x)[:1000] for x in (a, b))
            value = STEPS[name](a, b, c, k)
            is_large = np.size(value) > largest and np.ndim(value) > 0
            # NumPy adds up rows one by one: of singles, the sum of more would have lost digits.
            pool.append(np.sum(small(value[:1000]), axis=0) / 3 if is_large else value)
        return pool[2:]

    return f


def drawn(chunk, count, shapes, longest=8):
    """(number, steps, inputs) of a chunk's programs."""
    for number in range(chunk * count, (chunk + 1) * count):
        rng = np.random.default_rng([7, number])
        steps = tuple(map(tuple, rng.integers(0, 1 << 16, (int(rng.integers(2, longest)), 4)).tolist()))
        first, second = (shapes[int(rng.integers(len(shapes)))] for _ in range(2))
        dtypes = [DTYPES[int(rng.integers(len(DTYPES)))] for _ in range(2)]
        c = (0.25, 2, -1.5, 3)[number % 4]
        yield number, steps, [(first, dtypes[0]), (second, dtypes[1])], c


def values(types, rng, layout=0):
    """Arrays of these types: plain, in Fortran's order, with gaps, or backwards."""
    arrays = []
    for i, (shape, dtype) in enumerate(types):
        x = np.asarray(rng.uniform(-1.5, 1.5, shape))
        x = np.asarray(np.rint(x * 3) if np.dtype(dtype).kind == "i" else x > 0 if dtype is bool else x).astype(dtype)
        how = (layout + i) % 4 if layout else 0
        if how == 1 and x.ndim:
            x = np.asfortranarray(x)
        elif how == 2 and x.ndim:
            x = np.repeat(x, 2, axis=-1)[..., ::2]
        elif how == 3 and x.ndim:
            x = np.ascontiguousarray(x[::-1])[::-1]
        arrays.append(x)
    return arrays


def nasty(types):
    special = np.array([0.0, -0.0, np.inf, 1.0, -np.inf, -2.0, np.nan, 0.5, 5e-324, -1e-310])
    return [
        np.resize(np.roll(special, 3 * i), shape).astype(dtype) if np.dtype(dtype).kind == "f" else np.ones(shape, dtype)
        for i, (shape, dtype) in enumerate(types)
    ]


def agree(found, wanted, what, loose=1.0):
    """Equal structures, shapes, dtypes and integers; floats to a few bits of the largest, nan and inf in the same places."""
    (a, first), (b, second) = flatten(found), flatten(wanted)
    assert first == second, what
    widths = {np.asarray(y).dtype.itemsize for y in b if kind(y) == "f"}  # doubles may come from singles, those from halves
    unit = loose * (4e-3 if 2 in widths else 2e-5 if 4 in widths else 1e-12)
    for i, (x, y) in enumerate(zip(map(np.asarray, a), map(np.asarray, b), strict=True)):
        where = f"result {i} of {what}"
        assert (x.shape, x.dtype) == (y.shape, y.dtype), where
        if x.dtype.kind != "f":
            np.testing.assert_array_equal(x, y, err_msg=where)
            continue
        if x.dtype == np.float16:
            x, y = x.astype(float), y.astype(float)  # in which tolerances do not overflow
        finite = y[np.isfinite(y)]
        scale = max(1.0, float(np.max(np.abs(finite)))) if finite.size else 1.0
        np.testing.assert_allclose(x, y, rtol=unit, atol=unit * scale, err_msg=where)


def described(number, steps, types):
    return f"program {number}, {types}: {[NAMES[s[0] % len(NAMES)] for s in steps]} {steps}"


def check_values(number, steps, types, c, largest=LARGEST):
    """The program, for two sets of values in other layouts, and for special ones."""
    f, what = program(steps, largest), described(number, steps, types)
    names = {NAMES[s[0] % len(NAMES)] for s in steps}
    compiled = ad.jit(f)
    rng = np.random.default_rng(number)
    inputs = [values(types, rng, layout) for layout in (0, 1 + number % 3)]
    if not names & ORDER_MATTERS and number % 3 == 0:
        inputs.append(nasty(types))
    with np.errstate(all="ignore"):
        for arrays in inputs:
            agree([*arrays, *compiled(*arrays, c)], [*arrays, *f(*arrays, c)], what)
    assert not compiled.eager, compiled.report()
    if names.isdisjoint(ASK):
        assert [len(paths) for paths in compiled.specializations.values()] == [1], compiled.report()
    return compiled


def check_outside(number, steps, types, c):
    """The program reads its arrays, and its number, outside of the function: rebound, written to, in other layouts."""
    f, what = program(steps, LARGEST), described(number, steps, types)
    world = SimpleNamespace(first=None, rest=[None], c=c)
    g = lambda t: f(world.first, world.rest[0] * t, world.c)
    compiled, rng = ad.jit(g), np.random.default_rng(number)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled again")
        for change in range(4):
            if change == 2:  # written in place
                for x, new in zip((world.first, world.rest[0]), values(types, rng), strict=True):
                    x[...] = new
            else:
                world.first, world.rest[0] = values(types, rng, layout=change)
            world.c = c + change // 2
            agree(compiled(1.0), g(1.0), f"{what}, change {change}")
    assert not compiled.eager, compiled.report()


def derivatives(f, c):
    """(xs, ts, gs) ↦ the tangents of f at xs along ts, and the cotangents for gs."""

    def run(xs, ts, gs):
        g = lambda *xs: floats(f(*xs, c))
        return ad.jvp(g, xs, ts)[1], ad.vjp(g, *xs)[1](gs)

    return run


def floats(results):
    return [y for y in results if kind(y) == "f"]


def derived(chunk, count):
    """Random derivatives: a function, its arguments and a description of each."""
    for number, steps, types, c in drawn(chunk, count, SHAPES, longest=6):
        f = program(steps, LARGEST)
        rng = np.random.default_rng(number)
        types = [(shape, dtype if np.dtype(dtype).kind == "f" else np.float64) for shape, dtype in types]
        xs, ts = tuple(values(types, rng)), tuple(values(types, rng))
        with np.errstate(all="ignore"):
            gs = [rng.uniform(-1, 1, np.shape(y)).astype(y.dtype)[()] for y in floats(f(*xs, c))]
        if gs:
            yield derivatives(f, c), (xs, ts, gs), described(number, steps, types)


def check_derivatives(number, steps, types, c, largest=LARGEST):
    f, what = program(steps, largest), described(number, steps, types)
    rng = np.random.default_rng(number)
    types = [(shape, dtype if np.dtype(dtype).kind == "f" else np.float64) for shape, dtype in types]
    xs, ts = tuple(values(types, rng)), tuple(values(types, rng))
    with np.errstate(all="ignore"):
        results = floats(f(*xs, c))
    gs = [rng.uniform(-1, 1, np.shape(y)).astype(y.dtype)[()] for y in results]
    run = derivatives(f, c)
    with np.errstate(all="ignore"):
        agree((gs, ad.jit(run)(xs, ts, gs)), (gs, run(xs, ts, gs)), f"derivatives of {what}", loose=10.0)


def check_batches(number, steps, types, c):
    f, what = program(steps, LARGEST), described(number, steps, types)
    rng = np.random.default_rng(number)
    stacks = [np.stack([x, x * 0.5 if kind(x) == "f" else x]) for x in values(types, rng)]
    # Indices that differ across a batch do not choose from a plain array: then both are batched.
    both = number % 2 == 1 or not {"gather by values", "take"}.isdisjoint(NAMES[s[0] % len(NAMES)] for s in steps)
    batched = ad.vmap(lambda x, y: f(x, y, c), in_axes=(0, 0 if both else None))
    stacks[1] = stacks[1] if both else stacks[1][0]
    with np.errstate(all="ignore"):
        agree([*stacks, *ad.jit(batched)(*stacks)], [*stacks, *batched(*stacks)], f"batches of {what}")


@pytest.mark.parametrize("chunk", range(ASKED // CHUNK))
def test_programs(chunk):
    for number, steps, types, c in drawn(chunk, CHUNK, SHAPES):
        check_values(number, steps, types, c)


@pytest.mark.parametrize("chunk", range(ASKED // CHUNK // 3))
def test_derivatives_and_batches_of_programs(chunk):
    for number, steps, types, c in drawn(1000 + chunk, CHUNK, SHAPES, longest=6):
        check_derivatives(number, steps, types, c)
        if ASK.isdisjoint(NAMES[s[0] % len(NAMES)] for s in steps):
            check_batches(number, steps, types, c)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 6)))
def test_programs_that_read_outside_values(chunk):
    for number, steps, types, c in drawn(4000 + chunk, CHUNK, SHAPES, longest=6):
        check_outside(number, steps, types, c)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 6)))
def test_programs_in_row_tiles(chunk, monkeypatch):
    """Kernels that alternate, as those of large arrays do: a few rows at a time, and in pieces."""
    for name, least in (("WORTH", 0), ("_LARGE", 0), ("TILE", 100)):
        monkeypatch.setattr(row_tiles, name, least)
    monkeypatch.setattr(schedule, "_PIECE", 20)
    grouped = 0
    for number, steps, types, c in drawn(3000 + chunk, CHUNK, SHAPES, longest=8):
        compiled = check_values(number, steps, types, c)
        if number % 2:
            check_derivatives(number, steps, types, c)
        lowered = compiled.lower(*values(types, np.random.default_rng(number)), c).lowered
        grouped += any(isinstance(step, RowTiles) for step in lowered.steps)
    assert grouped > CHUNK // 4


@pytest.mark.parametrize("chunk", range(max(1, ASKED // 150)))
def test_large_programs_on_any_number_of_threads(chunk):
    """Kernels that are cut: they agree with eager calls, and with themselves on other numbers of threads to the last bit."""
    before, in_pieces = ad.get_num_threads(), 0
    try:
        for number, steps, types, c in drawn(2000 + chunk, 10, LARGE, longest=6):
            ad.set_num_threads(3)
            compiled = check_values(number, steps, types, c, largest=200_000)
            arrays = values(types, np.random.default_rng(number))
            found = [np.asarray(y).tobytes() for y in compiled(*arrays, c)]
            for count in (1, 2):
                ad.set_num_threads(count)
                assert [np.asarray(y).tobytes() for y in compiled(*arrays, c)] == found, described(number, steps, types)
            in_pieces += any(getattr(step, "chunks", 1) > 1 for step in compiled.lower(*arrays, c).lowered.steps)
    finally:
        ad.set_num_threads(before)
    assert in_pieces > 3


@pytest.mark.parametrize("chunk", range(ASKED // CHUNK // 3))
def test_programs_with_much_to_rewrite(chunk):
    """Values, tangents and cotangents in one compiled program."""
    rng = np.random.default_rng(chunk)
    for _ in range(CHUNK):
        steps = tuple(map(tuple, rng.integers(0, 10_000, (int(rng.integers(2, 6)), 3)).tolist()))
        shapes = tuple(rewritten.SHAPES[i] for i in rng.integers(0, len(rewritten.SHAPES), 2))
        f, what = rewritten.program(steps), rewritten.described(steps, shapes)
        xs = rewritten.arguments(shapes, rng)
        run = rewritten.everything(f)
        arguments = (xs, *rewritten.directions(f, xs, rng))
        rewritten.close(ad.jit(run)(*arguments), run(*arguments), what)


def test_every_step_is_drawn():
    programs = [p for chunk in range(12) for p in drawn(chunk, CHUNK, SHAPES)]
    assert {NAMES[s[0] % len(NAMES)] for _, steps, _, _ in programs for s in steps} == set(STEPS)
