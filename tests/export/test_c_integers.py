"""Integers in C: each operation, for each dtype, at its limits and beyond, against NumPy."""

import itertools

import numpy as np
import pytest
from export.c_compiler import COMPILERS, compiled

from adjoint.export.c_integers import TYPES, literal

FLAGS = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def limits(dtype):
    info = np.iinfo(dtype)
    return [n for n in (info.min, info.min + 1, -3, -1, 0, 1, 2, 9, 63, 64, info.max - 1, info.max) if n >= info.min]


def operations(a, b):
    whole = (a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, -a, abs(a), a << b, a >> b, a // b, a % b, np.fmod(a, b))
    return (*whole, a < b, a <= b, a == b, np.minimum(a, b))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("dtype", TYPES)
def test_operations_at_the_limits(tmp_path, dtype, compiler):
    pairs = np.array(list(itertools.product(limits(dtype), repeat=2)), dtype)
    a, b = pairs.T.copy()
    library, (part,) = compiled(tmp_path, operations, a, b, compiler=compiler, flags=FLAGS if compiler == "gcc" else FLAGS[:1])
    with np.errstate(all="ignore"):
        wanted = operations(a, b)
    for i, (x, y) in enumerate(zip(library(part, [a, b]), wanted, strict=True)):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y, f"operation {i}")


@pytest.mark.parametrize("dtype", TYPES)
def test_operations_on_literals(tmp_path, dtype):
    """A literal may be of another type than the array: C computes in the wider one, or in that of the left operand of a shift."""
    b, literals = np.array(limits(dtype), dtype), [*limits(dtype), 77]
    numbers = [np.dtype(dtype).type(n) for n in literals]

    def f(b):
        return [y for n in numbers for y in (*operations(n, b), *operations(b, n))]

    with np.errstate(all="ignore"):
        library, (part,) = compiled(tmp_path, f, b, flags=FLAGS if COMPILERS[0] == "gcc" else FLAGS[:1])
        wanted = f(b)
    for i, (x, y) in enumerate(zip(library(part, [b]), wanted, strict=True)):
        np.testing.assert_array_equal(x, y, f"operation {i}")


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_as_integers(tmp_path, source):
    """Inside the range of each dtype, where C defines the conversion and all processors agree."""
    for dtype in map(np.dtype, TYPES):
        bits = 8 * dtype.itemsize - (dtype.kind == "i")
        high = np.nextafter(np.dtype(source).type(2.0**bits), 0) if bits > 16 else 2.0**bits - 1
        x = np.array([np.iinfo(dtype).min, 0.0, -0.0, 0.9, 1.5, 100.99, high], source)
        library, (part,) = compiled(tmp_path, lambda x, dtype=dtype: x.astype(dtype), x)
        np.testing.assert_array_equal(library(part, [x])[0], x.astype(dtype), dtype.name)


@pytest.mark.parametrize("dtype", TYPES)
def test_literals(tmp_path, dtype):
    numbers = np.array(limits(dtype), dtype)
    library, (part,) = compiled(tmp_path, lambda x: [x + n for n in numbers], np.dtype(dtype).type(0))
    assert [int(y) for y in library(part, [np.dtype(dtype).type(0)])] == numbers.tolist()
    assert literal(np.iinfo(dtype).max, np.dtype(dtype)).strip("uU").replace("INT64_C", "").strip("()").isdigit()
