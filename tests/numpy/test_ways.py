"""How views are read and written back: as NumPy's own, for plain and for traced values."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.numpy.ways import Elements, Flattened, Indexed, InMemoryOrder, Permuted, Shaped, shares

BASE = np.arange(24.0).reshape(2, 3, 4)
WAYS = {
    "index": (Indexed((1, slice(None, None, 2))), lambda a: a[1, ::2]),
    "reversed": (Indexed((Ellipsis, slice(None, None, -1))), lambda a: a[..., ::-1]),
    "reshape": (Shaped((2, 3, 4), (6, 4)), lambda a: a.reshape(6, 4)),
    "reshape by columns": (Shaped((2, 3, 4), (4, 6), "F"), lambda a: a.reshape((4, 6), order="F")),
    "flat": (Elements((2, 3, 4)), lambda a: a.reshape(-1)),
    "ravel": (Flattened((2, 3, 4), (24,), "C", "C"), lambda a: a.ravel()),
    "transpose": (Permuted((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "memory order": (InMemoryOrder((2, 3, 4), (0, 1, 2)), lambda a: a.ravel("K")),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_view_is_read_as_by_numpy(name):
    way, reference = WAYS[name]
    np.testing.assert_array_equal(way.look(BASE), reference(BASE))
    assert way.ask(BASE).shape == reference(BASE).shape


@pytest.mark.parametrize("name", WAYS)
def test_stores_change_only_their_elements(name):
    way, reference = WAYS[name]
    part = -1.0 - reference(BASE)
    stored = np.asarray(way.store(BASE, part))
    np.testing.assert_array_equal(way.look(stored), part)
    touched = np.asarray(way.store(np.zeros(BASE.shape), np.ones(part.shape)))
    np.testing.assert_array_equal(stored[touched == 0], BASE[touched == 0])


@pytest.mark.parametrize("name", WAYS)
def test_reading_and_storing_are_differentiable(name):
    way, reference = WAYS[name]
    weights = np.cos(reference(BASE))
    gradient = ad.grad(lambda a: np.sum(way.look(a) * weights))(BASE)
    np.testing.assert_array_equal(way.look(gradient), weights)
    stored = ad.grad(lambda part: np.sum(way.store(BASE, part) ** 2))(reference(BASE))
    np.testing.assert_allclose(stored, 2 * reference(BASE))


def test_views_and_copies_are_distinguished():
    assert shares(BASE[1], BASE)
    assert not shares(BASE.copy(), BASE)
    assert not shares(BASE.T.ravel(), BASE)


@pytest.mark.parametrize("number", [2, 2.0, 1.5j])
@pytest.mark.parametrize(
    "function",
    [
        lambda c, a: np.dot(c, a),
        lambda c, a: np.inner(a, c),
        lambda c, a: np.add.outer(a, c),
        lambda c, a: np.max(c) * a,
        lambda c, a: np.prod(c) * a,
        lambda c, a: np.ptp(c) * a,
    ],
    ids=["dot", "inner", "outer", "max", "prod", "ptp"],
)
def test_python_numbers_that_numpy_makes_arrays_of(function, number):
    for dtype in (np.int8, np.float32, np.complex64):
        a = np.array([100, 2], dtype)
        expected, found = function(number, a), ad.jit(function)(number, a)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("number", [2, 0.5])
@pytest.mark.parametrize(
    "function",
    [
        lambda c, a: np.select([a > 1], [a], c),
        lambda c, a: np.choose([0, 1], [a, c]),
        lambda c, a: np.quantile(a, c / 4),
        lambda c, a: np.nanquantile(a, c / 4),
        lambda c, a: np.zeros(2, np.result_type(a, c)),
    ],
    ids=["select", "choose", "quantile", "nanquantile", "result_type"],
)
def test_python_numbers_that_are_weak(function, number):
    for dtype in (np.int8, np.float32, np.complex64):
        a = np.array([1, 2], dtype)
        try:
            expected = function(number, a)
        except TypeError:  # complex numbers have no quantiles
            continue
        found = ad.jit(function)(number, a)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_products_of_truths():
    assert ad.jit(np.dot)(True, True).dtype == np.dot(True, True).dtype == bool
