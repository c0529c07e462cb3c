import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builds import with_gil
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


# -- what the error of a write says is right where it says it ------------------------------------------------------------


class Model:
    def __init__(self):
        self.buffer = anp.zeros(2)


PLAIN = {
    "plain NumPy": lambda x: np.zeros(2),
    "sign": np.sign,
    "sign of adjoint.numpy": lambda x: anp.sign(x),
    "round": lambda x: anp.round(x),
    "random": lambda x: anp.random.default_rng(0).normal(size=2),
    "made in __init__": lambda x, model=Model(): model.buffer,  # noqa: B008
    "integers": lambda x: anp.zeros(2, int),
    "indices": lambda x: anp.argsort(x),
}


@pytest.mark.parametrize("name", PLAIN)
def test_the_advice_for_a_write_to_a_plain_array_works_there(name):
    x = np.array([0.5, 2.0])

    def refused(x):
        b = PLAIN[name](x)
        b[0] = x[0] * x[1]
        return np.sum(b)

    with pytest.raises(ConversionError, match=r"a = adjoint.numpy.array\(a(, float)?\)") as found:
        ad.grad(refused)(x)

    def advised(x):
        b = anp.array(PLAIN[name](x), float) if "float" in str(found.value) else anp.array(PLAIN[name](x))
        b[0] = x[0] * x[1]
        return np.sum(b)

    np.testing.assert_array_equal(ad.grad(advised)(x), [2.0, 0.5])


def _in_a_thread(run):
    """The result of run in another thread, or its error."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@with_gil
def test_the_advice_for_a_write_in_another_thread_works_there():
    def written(b, x):
        b[0] = x[0] ** 2
        return np.sum(b)

    def refused(x):
        return _in_a_thread(lambda: written(anp.zeros(2), x))

    def with_context(x):
        return _in_a_thread(functools.partial(contextvars.copy_context().run, lambda: written(anp.zeros(2), x)))

    def like(x):
        return _in_a_thread(lambda: written(np.zeros_like(x), x))

    x = np.array([0.5, 2.0])
    with pytest.raises(ConversionError, match=r"copy_context.*zeros_like"):
        ad.grad(refused)(x)
    for f in (with_context, like):
        np.testing.assert_array_equal(ad.grad(f)(x), [1.0, 0.0])


def test_the_advice_for_a_write_in_the_imperative_style_works_there():
    x = ad.array([0.5, 2.0], requires_grad=True)
    b = np.sign(x)
    with pytest.raises(ValueError, match="array element") as found:  # NumPy's own error, caused by ours
        b[0] = x[0] * x[1]
    assert "a = adjoint.numpy.array(a)" in str(found.value.__cause__)
    b = anp.array(np.sign(x))
    b[0] = x[0] * x[1]
    np.sum(b).backward()
    np.testing.assert_array_equal(x.grad, [2.0, 0.5])
