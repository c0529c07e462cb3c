"""What a loop runs over: as many items as Python gives, and the same ones, whether bounds are known or traced."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.bind import Traced
from adjoint.source.items import Enumerate, Range, Reversed, Zip, items_of, looped

A, B = np.arange(10.0, 15.0), np.arange(6.0).reshape(3, 2)


def listed(items) -> list:
    """All items of a loop, made one by one as a body gets them."""
    return [items.item(k, [row[k] for row in items.rows]) for k in range(items.count)]


def same(found: list, expected: list) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        if isinstance(y, tuple):
            same(list(x), list(y))
        else:
            np.testing.assert_array_equal(x, y)


BOUNDS = [(5,), (0,), (-3,), (2, 7), (7, 2), (0, 10, 3), (1, 10, 3), (2, 10, 4), (10, 0, -3), (9, 0, -3), (0, 5, -1), (5, -5, -4)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_ranges(bounds):
    expected = list(range(*bounds))
    assert listed(Range(*bounds).items()) == expected
    assert listed(items_of(range(*bounds))) == expected
    assert list(Range(*bounds)) == expected
    assert list(reversed(Range(*bounds))) == expected[::-1]
    assert listed(Reversed(Range(*bounds)).items()) == expected[::-1]


@pytest.mark.parametrize("which", ["start", "stop", "both"])
@pytest.mark.parametrize("bounds", [b for b in BOUNDS if len(b) > 1])
def test_traced_bounds_give_the_same_count_and_items(bounds, which):
    start, stop, step = (*bounds, 1)[:3]

    def f(a, b):
        found = Range(a if which != "stop" else start, b if which != "start" else stop, step).items()
        assert isinstance(found.count, Traced)
        return found.count, [found.item(k, ()) for k in range(3)]

    count, first = ad.graph(f)(1, 2).run(start, stop)[0], ad.graph(f)(1, 2)(start, stop)[1]
    expected = range(start, stop, step)
    assert count == len(expected)
    assert [int(x) for x in first[: len(expected)]] == list(expected[:3])


@pytest.mark.parametrize("bounds", [(0, 5, 0), (2.0,), ("a",), (0, 2.5), (np.arange(2),)])
def test_ranges_that_are_none(bounds):
    """They are left to Python, whose error they are."""
    assert Range(*bounds).items() is None
    with pytest.raises((TypeError, ValueError)):
        list(Range(*bounds))


def test_numpy_integers_are_bounds():
    assert listed(Range(np.int32(4)).items()) == [0, 1, 2, 3]
    assert listed(Range(np.int64(1), 4).items()) == [1, 2, 3]


HEADS = {
    "array": (lambda: A, lambda: A),
    "rows": (lambda: B, lambda: B),
    "enumerate": (lambda: Enumerate(A), lambda: enumerate(A)),
    "from 3": (lambda: Enumerate(A, 3), lambda: enumerate(A, 3)),
    "enumerate a range": (lambda: Enumerate(Range(2, 5), 1), lambda: enumerate(range(2, 5), 1)),
    "zip": (lambda: Zip(A, B), lambda: zip(A, B, strict=False)),
    "zip with ranges": (lambda: Zip(Range(9), A, Range(8, 0, -2)), lambda: zip(range(9), A, range(8, 0, -2), strict=False)),
    "zip of one": (lambda: Zip(A), lambda: zip(A, strict=False)),
    "strict": (lambda: Zip(A, Range(5), strict=True), lambda: zip(A, range(5), strict=True)),
    "enumerate a zip": (lambda: Enumerate(Zip(A, B)), lambda: enumerate(zip(A, B, strict=False))),
    "zip of enumerates": (lambda: Zip(Enumerate(A), B), lambda: zip(enumerate(A), B, strict=False)),
    "reversed": (lambda: Reversed(B), lambda: reversed(B)),
    "zip of reversed": (lambda: Zip(Reversed(A), Reversed(B)), lambda: zip(reversed(A), reversed(B), strict=False)),
    "empty": (lambda: A[:0], lambda: A[:0]),
}


@pytest.mark.parametrize("name", HEADS)
def test_items_are_those_of_python(name):
    made, expected = HEADS[name]
    same(listed(items_of(made())), list(expected()))
    same(list(made()), list(expected()))  # as it runs in Python


NONE = {
    "list": lambda: [1.0, 2.0],
    "text": lambda: "abc",
    "number": lambda: 3,
    "zero-dimensional": lambda: np.array(1.0),
    "objects": lambda: np.array([None, 1]),
    "strings": lambda: np.array(["a"]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "zip of a list": lambda: Zip(A, [1]),
    "zip of nothing": lambda: Zip(),
    "strict, of two lengths": lambda: Zip(A, B, strict=True),
    "enumerate a list": lambda: Enumerate([1]),
    "enumerate from 0.5": lambda: Enumerate(A, 0.5),
    "reversed zip": lambda: Reversed(Zip(A)),
    "reversed enumerate": lambda: Reversed(Enumerate(A)),
    "reversed reversed": lambda: Reversed(Reversed(A)),
}


@pytest.mark.parametrize("name", NONE)
def test_what_cannot_be_counted(name):
    assert items_of(NONE[name]()) is None


@pytest.mark.parametrize("name", ["reversed zip", "reversed enumerate", "reversed reversed"])
def test_errors_are_those_of_python(name):
    with pytest.raises(TypeError):
        list(NONE[name]())


def test_a_zip_with_a_traced_count():
    def f(n):
        assert Zip(Range(n), Range(n), strict=True).items() is None  # whether they agree is not known
        return Zip(Range(n), A, Range(3, n)).items().count

    program = ad.graph(f)(1)
    assert [int(program(n)) for n in (0, 2, 6, 20)] == [0, 0, 3, 5]


def test_traced_arrays_are_rows():
    def f(x):
        found = items_of(Enumerate(Reversed(x), 2))
        assert found.count == 3
        return [y for k, y in (found.item(k, [row[k] for row in found.rows]) for k in range(3))]

    np.testing.assert_array_equal(ad.graph(f)(np.zeros(3))(np.array([1.0, 2.0, 3.0])), [3, 2, 1])


def test_builtins_are_looked_up():
    assert [looped(f) for f in (range, enumerate, zip, reversed)] == [Range, Enumerate, Zip, Reversed]
    assert looped(list) is None
    assert looped(map) is None

    class Unhashable:
        __hash__ = None

    assert looped(Unhashable()) is None
