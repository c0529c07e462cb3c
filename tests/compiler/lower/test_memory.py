"""Memory planning: arrays in use at the same time do not overlap, and each has the lowest offset with room."""

import math
import random
import time

import pytest

from adjoint.compiler.lower.memory import FreeRanges


def lowest(taken, length):
    """The lowest offset with room, by trying the end of every range."""
    return min(end for end in (0, *(b for _, b in taken)) if all(end + length <= begin or until <= end for begin, until in taken))


@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_gap_is_taken(seed):
    rng, free, taken = random.Random(seed), FreeRanges(), []
    highest = 0
    for _ in range(300):
        if taken and rng.random() < 0.45:
            begin, until = taken.pop(rng.randrange(len(taken)))
            free.give(begin, until - begin)
        else:
            length = 64 * rng.choice((1, 1, 2, 3, 8))
            expected = lowest(taken, length)
            assert free.take(length) == expected
            taken.append((expected, expected + length))
            highest = max(highest, expected + length)
    assert free.size == highest
    rng.shuffle(taken)
    for begin, until in taken:
        free.give(begin, until - begin)
    assert (free.begins, free.ends) == ([0], [math.inf])


def test_many_arrays_in_use():
    """A gradient of a long program keeps an array for each operation."""
    free, began = FreeRanges(), time.process_time()
    offsets = [free.take(64) for _ in range(20_000)]
    for offset in reversed(offsets):
        free.give(offset, 64)
    assert time.process_time() - began < 1
