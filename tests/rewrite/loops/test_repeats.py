"""Stretches of a sequence that repeat: found whatever their period, without overlaps, inner ones first."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.rewrite.loops import repeats
from adjoint.rewrite.loops.repeats import Stretch, disjoint, periods, stretches


def find(entries, least=6, worth=0):
    entries = np.array(entries, np.int64)
    return disjoint(entries, np.ones_like(entries), least, worth, lambda stretch: [stretch])


@pytest.mark.parametrize("period", [1, 2, 3, 7, 8, 9, 31, 100])
def test_a_stretch_between_others(period):
    iteration = np.arange(period) + 10
    entries = [0, 1, 2, *np.tile(iteration, 9), 3, 4]
    assert find(entries) == [Stretch(3, 3 + 9 * period, period)]
    assert period in periods(np.array(entries, np.int64), 6)


def test_inner_stretches_come_first():
    found = find([*[5, 6] * 8, 1, 2] * 9)
    assert [s.period for s in found] == [2] * 9
    assert find([*[5, 6] * 3, 1, 2] * 9) == [Stretch(0, 72, 8)]


def test_weights_and_iterations_are_asked_for():
    entries = np.array([1, 2] * 10, np.int64)
    weights = np.ones_like(entries)
    assert disjoint(entries, weights, 6, 18, lambda s: [s])
    assert not disjoint(entries, weights, 6, 19, lambda s: [s])
    assert disjoint(entries, 5 * weights, 6, 90, lambda s: [s])
    assert not disjoint(entries, weights, 11, 0, lambda s: [s])


def test_parts_of_a_stretch():
    entries = np.array([1, 2] * 20, np.int64)
    found = disjoint(entries, np.ones_like(entries), 6, 0, lambda s: [Stretch(0, 18, 2), Stretch(10, 40, 2)])
    assert found == [Stretch(10, 40, 2)]  # what is left of the other is too short


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(5, 8))
def test_stretches_repeat(entries, least):
    found = find(entries, least)
    for a, b in itertools.pairwise(found):
        assert a.stop <= b.start
    for start, stop, period in found:
        assert stop - start >= least * period
        assert entries[start : stop - period] == entries[start + period : stop]
    for period in range(1, len(entries) // least + 1):
        for stretch in stretches(np.array(entries, np.int64), period, least):
            assert any(s.start < stretch.stop and stretch.start < s.stop for s in found)


def test_long_sequences_take_little_time():
    rng = np.random.default_rng(0)
    entries = np.concatenate([rng.integers(0, 9, 1000), np.tile(rng.integers(0, 9, 61), 1600)])
    began = time.process_time()
    assert [s.period for s in find(entries, 8, 200)] == [61]
    assert time.process_time() - began < 2


@pytest.mark.parametrize("seed", range(12))
def test_long_sequences_are_sampled(seed, monkeypatch):
    draw = np.random.default_rng(seed)

    def noise(count):
        return draw.integers(100, 200, count)

    def loop(period, iterations):
        return np.tile(draw.integers(0, 20, period), iterations)

    inner = np.tile(np.concatenate([loop(3, 10), noise(4)]), 12)  # a loop in a loop
    parts = [loop(7, 300), loop(11, 200), loop(40, 8), inner, loop(5, 20), noise(50)]
    entries = np.concatenate([part for k in draw.permutation(len(parts)) for part in (parts[k], noise(int(draw.integers(0, 9))))])

    def found():
        return disjoint(entries, np.ones(len(entries), np.int64), 8, 24, lambda stretch: [stretch])

    want = found()
    monkeypatch.setattr(repeats, "_LONG", 100)
    assert found() == want
    assert {7, 11} <= {stretch.period for stretch in want}
