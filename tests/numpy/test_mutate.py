import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import ConversionError, ReadOnlyError

X = draw(np.random.default_rng(3), (3, 4))
V = draw(np.random.default_rng(4), (5,))
MASK = np.array([[True, False, True, False], [False, False, True, True], [True, True, False, False]])

WRITES = [
    lambda a, v: np.copyto(a, v[0]),
    lambda a, v: np.copyto(a, v[:4], where=MASK),
    lambda a, v: np.put(a, [0, 5, -1], v[:3]),
    lambda a, v: np.put(a, [0, 5, 7], v[:2]),
    lambda a, v: np.put(a, 3, v[0]),
    lambda a, v: np.put(a, [1, 20], v[:2], mode="wrap"),
    lambda a, v: np.put(a, [1, 20], v[:2], mode="clip"),
    lambda a, v: np.putmask(a, MASK, v),
    lambda a, v: np.putmask(a, MASK, v[1]),
    lambda a, v: np.place(a, MASK, v[:3]),
    lambda a, v: np.place(a, MASK, v),
    lambda a, v: np.fill_diagonal(a, v[0]),
    lambda a, v: np.fill_diagonal(a, v[:2]),
    lambda a, v: np.fill_diagonal(a[:, :3], v),
    lambda a, v: np.fill_diagonal(a.T, v, wrap=True),
    lambda a, v: np.put_along_axis(a, np.array([[2, 0, 1, 0]]), v[:4], axis=0),
    lambda a, v: np.put_along_axis(a, np.array([[0, 3], [1, 2], [0, 1]]), v[:3, None], 1),
    lambda a, v: np.put_along_axis(a, np.array([0, 7]), v[:2], axis=None),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_writes(number):
    write = WRITES[number]

    def f(x, v):
        a = x * 2
        write(a, v)
        return a

    check(f, X, V, order=1)


def test_three_axes():
    def f(v):
        a = anp.zeros((3, 3, 3))
        np.fill_diagonal(a, v[:3])
        return a

    check(f, V)
    with pytest.raises(ValueError, match="equal length"):
        ad.vjp(lambda x: np.fill_diagonal(np.stack([x, x]), 1.0), X)


def test_plain_targets_are_refused():
    a = np.zeros((3, 4))
    for write in WRITES:
        with pytest.raises((ReadOnlyError, ConversionError), match=r"adjoint\.numpy"):
            ad.vjp(lambda v, write=write: write(a, v), V)
    assert not a.any()


def test_a_mask_inside_vmap():
    def f(x):
        a = x * 1.0
        np.putmask(a, x > 0, 2 * x)
        np.copyto(a, -x, where=x < -1)
        return a

    check(f, X)
