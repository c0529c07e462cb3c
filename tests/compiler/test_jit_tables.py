"""Plain arrays read at traced indices under jit: one program for all indices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import arange, array, eye

import adjoint as ad

RNG = np.random.default_rng(5)
TABLE = RNG.normal(size=(10, 3))
FROZEN = TABLE.copy()
FROZEN.flags.writeable = False
STATIC = ad.static(TABLE + 1)
WHOLE = RNG.integers(0, 10, size=10)
WHOLE.flags.writeable = False
GRID = np.linspace(0, 1, 9)
GRID.flags.writeable = False
LIST = [1.0, 2.0, 3.0, 4.0]


class Model:
    def __init__(self):
        self.rows = FROZEN


MODEL = Model()


def _with_local(x, i):
    table = np.cumsum(np.ones((10, 3)), axis=0)
    table = table / 2
    return table[i] * x


def _nested(x, i):
    def inner(k):
        return np.linspace(0.0, 1.0, 10)[k]

    return inner(i) * x


def _caught(x, i):
    try:
        return np.arange(10.0)[i] * x
    except Exception:
        return x


def _replaced(x, i):
    try:
        return np.arange(10.0)[i] * x
    except TypeError as error:
        raise ValueError("other") from error


READS = {
    "read-only": lambda x, i: FROZEN[i] * x,
    "static": lambda x, i: STATIC[i] * x,
    "attribute": lambda x, i: MODEL.rows[i] * x,
    "integers": lambda x, i: TABLE[WHOLE[i]] * x,
    "eye": lambda x, i: np.eye(10)[i] * x,
    "imported": lambda x, i: eye(10).sum(0)[i] * arange(10)[i] * array([1, 2] * 5)[i] * x,
    "arange": lambda x, i: np.arange(10)[i] * x,
    "computed integers": lambda x, i: (2 * np.arange(10) + 1)[i] * x,
    "booleans": lambda x, i: np.where((np.arange(10) % 2 == 0)[i], x, 2 * x),
    "list": lambda x, i: np.array([1.0, 2, 4, 8, 16, 32, 64, 128, 256, 512])[i] * x,
    "tuple": lambda x, i: np.eye(10)[i, i] * x,
    "slice and index": lambda x, i: np.sum(np.arange(30.0).reshape(10, 3)[i, 1:]) * x,
    "transposed": lambda x, i: np.sum(FROZEN.T[:, i]) * x,
    "method take": lambda x, i: FROZEN.take(i, axis=0) * x,
    "take": lambda x, i: np.take(np.eye(10), i, axis=0) * x,
    "complex": lambda x, i: np.abs(np.exp(1j * np.arange(10))[i]) * x,
    "local": _with_local,
    "inner": _nested,
    "caught": _caught,
    "replaced": _replaced,
    "computed index": lambda x, i: np.eye(10)[(i + 1) % 10] * x,
    "list of indices": lambda x, i: FROZEN[[i, i]] * x,
    "list of rows": lambda x, i: np.sum(np.arange(30.0).reshape(10, 3)[[i, (i + 1) % 10], 1]) * x,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("kind", [int, np.int64, np.int32], ids=lambda k: k.__name__)
def test_one_program_for_all_numbers(read, kind):
    f, g = ad.jit(read), ad.jit(ad.grad(lambda x, i: np.sum(read(x, i) ** 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in (3, 0, 9, 4, -1, 5, 1):
            np.testing.assert_allclose(f(1.5, kind(i)), read(1.5, kind(i)), rtol=1e-14)
            np.testing.assert_allclose(g(1.5, kind(i)), 3 * np.sum(read(1.0, kind(i)) ** 2), rtol=1e-13)
    assert [sum(map(len, h.specializations.values())) for h in (f, g)] == [1, 1]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_one_program_for_all_arrays(read):
    f = ad.jit(lambda x, i: np.sum(read(x, i)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            i = RNG.integers(-10, 10, size=(3, 1))
            np.testing.assert_allclose(f(1.5, i), np.sum(read(1.5, i)), rtol=1e-14)
    assert sum(map(len, f.specializations.values())) == 1


def test_a_spline_by_searchsorted():
    def f(x):
        k = np.clip(np.searchsorted(GRID, x) - 1, 0, len(GRID) - 2)
        t = (x - GRID[k]) / (GRID[k + 1] - GRID[k])
        values = np.sin(np.linspace(0, 1, 9))
        return np.sum((1 - t) * values[k] + t * values[k + 1])

    compiled = ad.jit(ad.value_and_grad(f))
    for _ in range(4):
        x = RNG.random(7)
        y, g = compiled(x)
        np.testing.assert_allclose(y, f(x))
        slopes = np.diff(np.sin(np.linspace(0, 1, 9))) * 8
        np.testing.assert_allclose(g, slopes[np.searchsorted(GRID, x) - 1], rtol=1e-12)
    assert not compiled.eager
    assert len(next(iter(compiled.specializations.values()))) == 1


def test_inside_vmap_and_loops():
    f = ad.jit(ad.vmap(lambda x, i: np.arange(10.0)[i] * x))
    x, i = RNG.normal(size=4), np.array([1, 5, 2, 9])
    np.testing.assert_allclose(f(x, i), i * x)
    g = ad.jit(lambda x: ad.fori_loop(0, 10, lambda k, s: s + FROZEN[k, 0] * x + np.arange(10.0)[k], 0.0))
    np.testing.assert_allclose(g(2.0), 2 * FROZEN[:, 0].sum() + 45)
    assert not f.eager
    assert not g.eager


def test_an_index_out_of_bounds_raises_as_in_numpy():
    f = ad.jit(lambda x, i: np.arange(5.0)[i] * x)
    assert f(1.0, 3) == 3.0
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of bounds"):
            f(1.0, wrong)
    assert f(1.0, 4) == 4.0
    first = ad.jit(lambda x, i: np.arange(5.0)[i] * x)
    with pytest.raises(IndexError, match="out of bounds"):
        first(1.0, 7)
    assert first(1.0, 4) == 4.0


def _one_hot(labels, x):
    a = np.zeros((4, 10))
    a[np.arange(4), labels] = 1.0
    return a * x


def _counts(labels, x):
    a = np.zeros(10)
    for k in range(4):
        a[labels[k]] += x
    return a


def _window(labels, x):
    a = np.zeros(16)
    a[labels[0] : labels[0] + 3] = x
    return a


@pytest.mark.parametrize("f", [_one_hot, _counts, _window])
def test_writes_at_traced_indices(f):
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            labels = RNG.integers(0, 10, 4)
            np.testing.assert_array_equal(compiled(labels, 2.0), f(labels, 2.0))
    assert sum(map(len, compiled.specializations.values())) == 1


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
def test_lists_are_still_specialized():
    f = ad.jit(lambda x, i: LIST[i] * x)
    assert [f(2.0, i) for i in range(4)] == [2.0, 4.0, 6.0, 8.0]
    assert sum(map(len, f.specializations.values())) == 4


def test_writes_to_read_only_arrays_fail_as_they_did():
    def f(x, i):
        FROZEN[0] = 1.0
        return FROZEN[i] * x

    with pytest.raises(ValueError, match="read-only"):
        ad.jit(f)(1.0, 2)
    assert not np.any(FROZEN[0] == 1.0)


def test_a_rebound_constant_is_another_program():
    global GRID
    f = ad.jit(lambda x, i: GRID[i] * x)
    before = f(1.0, 3)
    kept = GRID
    try:
        GRID = kept + 1
        GRID.flags.writeable = False
        assert f(1.0, 3) == before + 1
    finally:
        GRID = kept


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_indices(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    kind = data.draw(st.sampled_from(["float64", "float32", "int64", "complex128", "bool"]))
    numbers = np.arange(np.prod(shape)).reshape(shape)
    entries = []
    for size in shape[: data.draw(st.integers(1, len(shape)))]:
        entries.append(data.draw(st.sampled_from(["traced", "traced array", "slice", "number"])))
        entries[-1] = {"slice": slice(None, None, data.draw(st.sampled_from([1, -1]))), "number": size - 1}.get(
            entries[-1], (entries[-1], size)
        )
    count = data.draw(st.integers(1, 3))

    def index(i):
        parts = []
        for entry in entries:
            if isinstance(entry, tuple):
                parts.append(i[0] % entry[1] if entry[0] == "traced" else i % entry[1])
            else:
                parts.append(entry)
        return tuple(parts)

    def f(i):
        return np.arange(np.prod(shape)).reshape(shape).astype(kind)[index(i)]

    compiled = ad.jit(f)
    for _ in range(3):
        i = np.array(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
        expected = numbers.astype(kind)[index(i)]
        found = compiled(i)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert not compiled.eager
    assert sum(map(len, compiled.specializations.values())) == 1
