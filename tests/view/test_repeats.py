import random
from itertools import pairwise

import pytest

from adjoint.view.repeats import LEAST_LENGTH, LEAST_TIMES, Run, runs


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        ("abcdefgh", []),
        ("abab", []),
        ("aaaaa", []),
        ("aaaaaa", [Run(0, 1, 6)]),
        ("xabcabcabcy", [Run(1, 3, 3)]),
        ("abababab", [Run(0, 2, 4)]),
        ("abababab" + "z" + "cdecdecde", [Run(0, 2, 4), Run(9, 3, 3)]),
    ],
)
def test_runs(text, expected):
    assert runs(text) == expected


def test_a_hundred_iterations_of_a_loop():
    body = [f"op{i}" for i in range(37)]
    assert runs(["start", *body * 100, "end"]) == [Run(1, 37, 100)]


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_apart_and_true(seed):
    generator = random.Random(seed)
    items = []
    for _ in range(12):
        items += [generator.choice("abcd") for _ in range(generator.randrange(1, 4))] * generator.randrange(1, 7)
    found = runs(items)
    assert all(a.stop <= b.start for a, b in pairwise(found))
    for run in found:
        assert run.times >= LEAST_TIMES
        assert run.times * run.period >= LEAST_LENGTH
        body = items[run.start : run.start + run.period]
        assert items[run.start : run.stop] == body * run.times
