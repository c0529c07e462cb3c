"""The backward pass: which products it uses, what it adds up in place, and when nodes are freed."""

import gc
import weakref

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import FreedError


def test_nodes_are_freed_as_the_backward_pass_goes():
    big = np.ones(10_000)
    watched = []

    def f(x):
        y = x
        for _ in range(20):
            y = np.sin(y)
            watched.append(weakref.ref(y.aux))
        return np.sum(note(y))

    seen = []

    @ad.custom_vjp
    def note(y):
        return y

    @ad.custom_vjp
    def probe(x):
        return x

    def look(_, g):
        seen.append(sum(ref() is not None for ref in watched))
        return (g,)

    note.defvjp(lambda y: (y, None), look)
    probe.defvjp(lambda y: (y, None), look)
    ad.grad(lambda x: f(probe(x)))(big)
    assert seen[0] == 20
    assert seen[1] <= 1


def test_everything_is_freed_after_the_gradient():
    refs = []

    def f(x):
        y = np.sin(x)
        refs.append(weakref.ref(y.aux))
        return np.sum(y)

    for x in (np.ones(3), np.ones(10_000)):
        ad.grad(f)(x)
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_deep_second_order():
    def chain(x):
        y = x
        for _ in range(20_000):
            y = y * 1.00001
        return y * y

    factor = 1.00001**20_000
    assert ad.grad(ad.grad(chain))(1.0) == pytest.approx(2 * factor**2)
    assert ad.jvp(ad.grad(chain), (1.0,), (1.0,))[1] == pytest.approx(2 * factor**2)


def test_quick_and_careful_passes_agree():
    """A large array takes the careful way, a small one the quick way."""

    def f(x):
        y = np.tanh(x) * np.sqrt(x + 2) / (1 + x * x)
        return np.sum(np.where(x > 0, y, np.exp(-y)) + np.maximum(y, 0.1))

    x = np.linspace(-1, 1, 5000)
    whole = ad.grad(f)(x)
    pieces = np.concatenate([ad.grad(f)(part) for part in np.split(x, 5)])
    np.testing.assert_allclose(whole, pieces, rtol=1e-14)


@pytest.mark.parametrize("n", [3, 5000])
def test_shared_cotangents_are_not_added_to_in_place(n):
    """A sum hands one array to both of its arguments; what arrives later at one must not reach the other."""

    def f(x, w):
        s = x * 2.0
        t = s + w  # both get the same array
        u = t + s
        v = u - u * 0.5
        return np.sum(v * v) + np.sum(s * w) + np.sum(w + x)

    x, w = np.linspace(-1, 1, n), np.linspace(0, 1, n)
    gx, gw = ad.grad(f, (0, 1))(x, w)
    # v = (4x + w)/2, so v² = (4x + w)²/4
    np.testing.assert_allclose(gx, 2 * (4 * x + w) + 2 * w + 1)
    np.testing.assert_allclose(gw, (4 * x + w) / 2 + 2 * x + 1)


# -- the quick pass of the imperative style ----------------------------------------------------------------------

QUICK = {
    "elementwise": lambda x: np.sum(np.sin(x) * x - 0.5 / (x + 3)),
    "a constant": lambda x: np.sum(x * np.arange(4.0) + np.arange(4.0) ** x),
    "indices": lambda x: np.sum(x[1:] * x[:-1]) + x[0],
    "several results": lambda x: np.sum(np.linalg.eigh(np.outer(x, x) + np.diag(np.arange(4.0)))[0] ** 2),
    "a mask at an infinite slope": lambda x: np.sum(np.where(x > 1, np.sqrt(np.abs(x - x)), x)),
    "an overflow": lambda x: np.sum(np.log(1 + np.exp(1000 * np.abs(x)))),
    "a loop": lambda x: ad.scan(lambda c, _: (np.tanh(c), None), x, None, 3)[0].sum(),
}


@pytest.mark.parametrize("room", [1 << 20, 5])
@pytest.mark.parametrize("name", QUICK)
def test_backward_as_grad(name, room, monkeypatch):
    monkeypatch.setattr("adjoint.eager.backward.ROOM", room)
    f, value = QUICK[name], np.array([0.3, -0.7, 1.5, 0.2])
    with np.errstate(all="ignore"):
        x = ad.array(value, requires_grad=True)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        np.testing.assert_allclose(x.grad, 2 * ad.grad(f)(value), rtol=1e-13)
        with pytest.raises(FreedError):
            y.backward()


def test_ops_of_the_ambient_tape():
    """Modes of NumPy, no_grad and overflows are noticed at each op, in the recording functions too."""
    x = ad.array(np.array([0.5, 1000.0]), requires_grad=True)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        np.exp(x)
    with pytest.warns(RuntimeWarning, match="overflow") as seen:
        y = np.exp(x)
    assert seen[0].filename == __file__
    np.sum(1 / y).backward()
    assert x.grad[0] == pytest.approx(-np.exp(-0.5))
    assert np.isnan(x.grad[1])  # what was lost in an overflow gives no zero
    with ad.no_grad():
        assert (x * 2 + x).grad_fn is None
    assert (x * 2).grad_fn is not None
