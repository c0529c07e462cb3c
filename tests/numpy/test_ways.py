"""How views are read and written back: as NumPy's own, for plain and for traced values."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.numpy.ways import Elements, Flattened, InMemoryOrder, Part, Permuted, Shaped, shares

BASE = np.arange(24.0).reshape(2, 3, 4)
WAYS = {
    "index": (Part((1, slice(None, None, 2))), lambda a: a[1, ::2]),
    "reversed": (Part((Ellipsis, slice(None, None, -1))), lambda a: a[..., ::-1]),
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
