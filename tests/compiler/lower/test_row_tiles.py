"""Kernels over the same rows: which run tile by tile, and that they compute what they would compute one after the other."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower import row_tiles, schedule
from adjoint.compiler.lower.kernel import Kernel
from adjoint.compiler.lower.step import RowTiles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 50))


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def standardised(x):
    return (x - np.mean(x, axis=1, keepdims=True)) / np.sqrt(np.var(x, axis=1, keepdims=True) + 1e-5)


def nearest(centres, points):
    gaps = points[:, None, :] - centres[None, :, :]
    return np.sum(np.min(np.sum(gaps * gaps, axis=2), axis=1))


def steps_of(f, *args):
    compiled = ad.jit(f)
    got, expected = compiled(*args), f(*args)
    for a, b in zip(
        got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    return compiled.lower(*args).lowered.steps


@pytest.fixture
def always(monkeypatch):
    """Groups of all that may be one, in tiles of a row or a few."""
    monkeypatch.setattr(row_tiles, "WORTH", 0)
    monkeypatch.setattr(row_tiles, "_LARGE", 0)
    monkeypatch.setattr(row_tiles, "TILE", 200)


@pytest.mark.parametrize("f", [softmax, standardised])
def test_rows_that_are_reduced_and_used_again_are_one_pass(f):
    (step,) = steps_of(f, X)
    assert isinstance(step, RowTiles)
    assert len(step.kernels) >= 3
    assert step.length == 2000
    assert 1 < step.tile < 200
    assert not {v.buffer.kind for v in step.writes()} - {"output"}  # what is in between has room for one tile only


def test_small_arrays_stay_apart():
    assert all(isinstance(step, Kernel) for step in steps_of(softmax, X[:50]))


def test_rows_that_are_too_long_stay_apart():
    assert all(isinstance(step, Kernel) for step in steps_of(softmax, RNG.normal(size=(3, 30_000))))


def test_results_over_all_rows_are_added_up_band_by_band():
    first, *rest = steps_of(ad.value_and_grad(nearest), RNG.normal(size=(16, 8)), RNG.normal(size=(3000, 8)))
    assert isinstance(first, RowTiles)
    assert len(first.totals) == 2
    assert {*first.totals.values()} == {"sum"}
    assert not any(isinstance(step, RowTiles) for step in rest)


@pytest.mark.parametrize("how", [np.sum, np.max, np.min, lambda y, axis: np.any(y > 1, axis=axis), np.mean])
def test_every_reduction_over_all_rows(how):
    def f(x):
        y = x / (1 + np.sum(x * x, axis=1, keepdims=True))
        return how(1 + y, axis=0), how(1 + y, axis=None)

    assert any(isinstance(step, RowTiles) and step.totals for step in steps_of(f, X))


def test_a_step_that_reads_other_rows_comes_after():
    def f(x):
        y = np.exp(x - np.max(x, axis=1, keepdims=True))
        return y[::-1] + y, y / np.sum(y, axis=1, keepdims=True)

    group, *rest = steps_of(f, X)
    assert isinstance(group, RowTiles)
    assert rest


def test_a_step_between_that_does_not_matter_comes_later():
    def f(x):
        most = np.max(x, axis=1, keepdims=True)
        above = np.nextafter(most[:, 0], 9.0)  # a call of NumPy
        return np.exp(x - most), above

    group, *rest = steps_of(f, X)
    assert isinstance(group, RowTiles)
    assert rest


def test_buffers_read_by_later_steps_are_stored_whole():
    def f(x):
        y = np.exp(x - np.max(x, axis=1, keepdims=True))
        return np.sum(y / np.sum(y, axis=1, keepdims=True), axis=1), np.sort(y, axis=0)

    group = next(step for step in steps_of(f, X) if isinstance(step, RowTiles))
    assert any(v.buffer.kind == "local" for v in group.writes())


def test_threads_and_their_number():
    """The pieces depend on the shapes alone: the same to the last bit."""
    x = RNG.normal(size=(20_000, 40))
    f = ad.jit(ad.grad(lambda x: np.sum(softmax(x) ** 3)))
    before = ad.get_num_threads()
    found = []
    try:
        for count in (1, 2, 5):
            ad.set_num_threads(count)
            found.append(f(x).tobytes())
    finally:
        ad.set_num_threads(before)
    assert max(step.chunks for step in f.lower(x).lowered.steps if isinstance(step, RowTiles)) > 4
    assert len({*found}) == 1


SHAPES = [(7, 5), (13, 1), (1, 9), (4, 3, 6), (30, 2, 2), (0, 4), (9, 0), (25,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pieces", [False, True])
def test_tiles_of_single_rows(always, monkeypatch, shape, pieces):
    if pieces:
        monkeypatch.setattr(schedule, "_PIECE", 10)
    x = RNG.normal(size=shape)

    def rows(x):
        scaled = x / (2 + np.sum(x * x, axis=-1, keepdims=True))
        shifted = scaled - np.sum(np.sin(scaled), axis=-1, keepdims=True)
        return np.sum(shifted * scaled), shifted[..., ::-1] * 2, np.sum(np.cos(shifted), axis=0)

    steps = steps_of(rows, x)
    steps_of(ad.grad(lambda x: rows(x)[0]), x)
    if x.size > 30:
        assert any(isinstance(step, RowTiles) for step in steps)


def test_a_kernel_over_no_points_is_in_no_group(always):
    """Its results may have no room for anything."""

    def f(x):
        return np.sin(x) * 2, np.sum(np.broadcast_to(np.cos(x)[:, None], (x.size, 0)), axis=0)

    steps = steps_of(f, RNG.normal(size=30))
    assert all(0 not in kernel.domain for step in steps if isinstance(step, RowTiles) for kernel in step.kernels)


def test_windows_along_the_rows(always):
    """Slices and their transposes: a kernel with edges, cut at any of them."""

    def f(x):
        inner = (x / (1 + np.sum(x, axis=1, keepdims=True) ** 2))[2:-3]
        padded = np.pad(inner, ((2, 3), (0, 0)))
        return padded * np.sum(padded * padded, axis=1, keepdims=True)

    x = RNG.normal(size=(40, 6))
    steps_of(f, x)
    steps_of(ad.grad(lambda x: np.sum(f(x) ** 2)), x)


def test_inside_a_scan(always):
    def f(x):
        return ad.scan(lambda c, _: (softmax(c * 1.5), np.sum(c)), x, None, 4)

    x = RNG.normal(size=(9, 5))
    compiled = ad.jit(f)(x)
    expected = f(x)
    np.testing.assert_allclose(compiled[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(compiled[1], expected[1], rtol=1e-12)


def test_it_can_be_read():
    (step,) = ad.jit(softmax).lower(X).lowered.steps
    head, *inside = str(step).splitlines()
    assert head.startswith("row tiles of ")
    assert " of 2000 iterations" in head
    assert sum("kernel over (2000, 50)" in line for line in inside) == len(step.kernels)
