"""Masks that loops carry and that follow from constants are rows of the loop."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ir.graph import Literal
from adjoint.ops.control import scan
from adjoint.rewrite.loops import constant_masks

X = np.random.default_rng(0).normal(size=40)


def scans(f, *args):
    return [e for e in ad.jit(f).lower(*args).graph.equations if e.op is scan]


def masks(f, *args):
    """How many masks the loops of a compiled function carry, and how many constant rows they read."""
    found = scans(f, *args)
    carried = sum(
        t.dtype == bool for e in found for t in e.params["body"].input_types[e.params["consts"] :][: e.params["carries"]]
    )
    rows = [o for e in found for o in e.inputs[e.params["consts"] + e.params["carries"] :] if isinstance(o, Literal)]
    return carried, len(rows)


def checked(f, *args):
    """That the compiled function gives what the eager one does."""
    for got, expected in zip(ad.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        assert np.asarray(got).dtype == np.asarray(expected).dtype


def periodic(reverse=False):
    """A mask that depends on a constant row; it is a result, and so are its values in each iteration."""

    def f(x):
        every_third = np.arange(40) % 3 == 0

        def step(state, row):
            s, live = state
            v, flip = row
            now = np.logical_xor(live, flip)
            return (s * 0.9 + np.where(now, np.sin(s) + v, 0.0), now), (now, s)

        (s, live), (lives, each) = ad.scan(step, (x[0], np.array(False)), (x, every_third), reverse=reverse)
        return s, live, lives, each

    return f


@pytest.mark.parametrize("reverse", [False, True])
def test_a_mask_that_follows_from_constant_rows(reverse):
    f = periodic(reverse)
    assert masks(f, X) == (0, 1)
    checked(f, X)


def begins_later(x):
    """A mask that is the same from the second iteration on."""

    def step(state, v):
        s, live = state
        return (np.where(live, np.sin(s), 0.5) + v, np.logical_or(live, np.array(True))), s

    (s, live), each = ad.scan(step, (x[0], np.array(False)), x)
    return s, live, each


def test_a_mask_that_becomes_steady():
    assert masks(begins_later, X) == (0, 1)
    checked(begins_later, X)


def of_the_data(x):
    def step(state, v):
        s, live = state
        return (np.where(live, np.sin(s), 0.5) + v, np.logical_or(live, v > 1.0)), s

    (s, live), each = ad.scan(step, (x[0], np.array(False)), x)
    return s, live, each


def test_a_mask_that_depends_on_data_is_carried():
    assert masks(of_the_data, X) == (1, 0)
    checked(of_the_data, X)


def mixed(x):
    """Two masks, of which one depends on the other and on data."""

    def step(state, row):
        s, a, b = state
        v, flip = row
        return (np.where(a, np.sin(s), 0.5) + np.where(b, v, 0.0), np.logical_xor(a, flip), np.logical_and(a, v > 0)), None

    rows = x, np.arange(40) % 4 == 1
    return ad.scan(step, (x[0], np.array(True), np.array(False)), rows)[0]


def test_only_the_masks_that_follow_from_constants():
    assert masks(mixed, X)[0] == 1
    checked(mixed, X)


@pytest.mark.parametrize(("name", "below", "above"), [("MOST_EVALUATED", 39, 40), ("MOST_BYTES", 39, 40)])
def test_limits(monkeypatch, name, below, above):
    """One equation, and one byte, in each of 40 iterations."""
    f = periodic()
    for limit, carried in ((below, 1), (above, 0)):
        monkeypatch.setattr(constant_masks, name, limit)
        assert masks(f, X)[0] == carried
        checked(f, X)


def test_signed_zeros_in_rows_are_kept():

    def f(x):
        signs = np.arange(40) % 2 == 0

        def step(state, row):
            s, live = state
            v, flip = row
            now = np.logical_xor(live, flip)
            return (s + v, now), np.where(now, 0.0, -0.0) * np.where(v > 10, 2.0, 1.0)

        return ad.scan(step, (x[0], np.array(False)), (x, signs))[1]

    got = ad.jit(f)(X)
    assert np.array_equal(np.signbit(got), np.signbit(f(X)))
    assert 0 < np.signbit(got).sum() < 40


def factor(a):
    """A Cholesky factor in place: the mask of the table's cotangent depends on places alone."""
    l = anp.zeros((8, 8))
    for j in range(8):
        l[j, j] = np.sqrt(a[j, j] - np.sum(l[j, :j] ** 2))
        for i in range(j + 1, 8):
            l[i, j] = (a[i, j] - np.sum(l[i, :j] * l[j, :j])) / l[j, j]
    return np.sum(l**3)


def test_the_backward_pass_of_a_table_carries_no_mask():
    a = np.random.default_rng(1).normal(size=(8, 8))
    a = a @ a.T + 8 * np.eye(8)
    assert masks(ad.grad(factor), a)[0] == 0
    np.testing.assert_allclose(ad.jit(ad.grad(factor))(a), ad.grad(factor)(a), rtol=1e-12, atol=1e-14)


def product_of_prefixes(x):
    """Strong zeros stay: no cotangent reaches the elements after the third."""
    table = anp.array(x)
    for i in range(1, len(x)):
        table[i] = np.sqrt(table[i - 1]) + table[i]
    return table[3]


def test_strong_zeros_in_the_backward_pass():
    x = np.concatenate([[4.0, 1.0, 1.0, 1.0], np.zeros(10)])
    x[5:] = -np.arange(9.0)  # roots of negative numbers: nan, but for the strong zero
    got = ad.jit(ad.grad(product_of_prefixes))(x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got, ad.grad(product_of_prefixes)(x), rtol=1e-12)
    assert np.array_equal(got[4:], np.zeros(10))
