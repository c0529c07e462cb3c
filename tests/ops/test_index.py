"""Indices with a single True or False among other entries: a mask of no axes, which adds an axis of length 1 or 0."""

import itertools

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

X = np.arange(24.0).reshape(2, 3, 4) + 1.0
TRUTHS = [True, False, np.True_, np.array(True), np.array(False)]
OTHERS = [slice(None), slice(1, None), Ellipsis, None, 0, -1, np.array([0, 1, 1]), np.array([[1], [0]]), np.array([True, False])]
INDICES = [
    *[(t,) for t in TRUTHS],
    *[entries for t in TRUTHS[:2] for o in OTHERS for entries in ((t, o), (o, t))],
    *[(a, t, b) for t in TRUTHS[2:] for a, b in itertools.product(OTHERS, OTHERS)],
    *[(True, 0, True), (True, False), (np.array(True), np.array(True), slice(1, None)), (0, True, slice(None), np.array([1, 2]))],
]


def is_valid(index):
    try:
        X[index]
    except IndexError:
        return False
    return True


VALID = [index for index in INDICES if is_valid(index)]


@pytest.mark.parametrize("index", VALID, ids=repr)
def test_reads_and_writes_are_numpys(index):
    expected = X[index]
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)
    np.testing.assert_array_equal(ad.vjp(lambda x: x[index], X)[0], expected)
    transposed = np.zeros_like(X)
    np.add.at(transposed, index, weights)
    np.testing.assert_allclose(ad.grad(lambda x: anp.sum(x[index] * weights))(X), transposed)
    np.testing.assert_array_equal(ad.jvp(lambda x: x[index], (X,), (X,))[1], expected)

    def written(x, v):
        y = x * 1.0
        y[index] = v
        return y

    found = ad.vjp(written, X, 2.0)[0]
    np.testing.assert_array_equal(found, written(X, 2.0))


@pytest.mark.parametrize(
    "index", [(0, 0, 0, 0), (True, 0, 0, 0, 0), (Ellipsis, True, Ellipsis), (True, np.array([True] * 3))], ids=repr
)
def test_errors_are_numpys(index):
    for x in (X, None):
        with pytest.raises(IndexError):
            X[index] if x is not None else ad.vjp(lambda x: x[index], X)


def test_compiled_with_a_computed_truth():
    """The norm of one vector is a number, and a test of it a mask of no axes: code for many vectors is used for one."""

    def unit(x):
        norm = anp.linalg.norm(x, axis=-1)
        y = anp.zeros(x.shape)
        moved = norm > 0.0
        y[moved, 1:] = x[moved, 1:] / norm[moved, None]
        return y

    for x in (X[0, 0], X[0]):
        np.testing.assert_allclose(ad.jit(unit)(x), unit(x))
        slope = ad.grad(lambda x: anp.sum(unit(x) ** 3))
        np.testing.assert_allclose(ad.jit(slope)(x), slope(x), rtol=1e-12)


MASKED = [
    ((7,), 1, ()),
    ((7,), 1, (1,)),
    ((4, 3), 2, ()),
    ((4, 3), 1, ()),
    ((4, 3), 1, (3,)),
    ((4, 3), 1, (1, 3)),
    ((2, 4, 3), 2, (1,)),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize(("shape", "axes", "value"), MASKED)
def test_a_traced_mask_writes_without_being_asked(shape, axes, value, dtype):
    """One program for all masks, and one batch of them: no length depends on the elements chosen."""

    def f(x, v):
        y = x * 1
        y[np.real(x if axes == x.ndim else x.reshape(*x.shape[:axes], -1).sum(-1)) > 0.1] = v
        return y * y

    loss = lambda x, v: np.sum(np.abs(f(x, v)))
    function, gradient = ad.jit(f), ad.jit(ad.grad(loss, (0, 1)))
    cases = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, v = (rng.normal(size=s) + (1j * rng.normal(size=s) if dtype == "c16" else 0) for s in (shape, value))
        x, v = np.asarray(x, dtype), np.asarray(v, dtype)
        cases.append((x, v))
        assert function(x, v).dtype == dtype
        np.testing.assert_allclose(function(x, v), f(x, v), rtol=1e-6)
        for found, expected in zip(gradient(x, v), ad.grad(loss, (0, 1))(x, v), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert "specialization 2" not in function.report() + gradient.report()
    xs, vs = (np.stack(side) for side in zip(*cases, strict=True))
    np.testing.assert_allclose(ad.vmap(f)(xs, vs), np.stack([f(x, v) for x, v in cases]), rtol=1e-6)


def test_what_a_traced_mask_cannot_write_is_refused_as_by_numpy():
    def f(x, mask, v):
        y = x * 1
        y[mask(x)] = v
        return y

    x = np.array([1.0, -1.0, 2.0])
    for mask, v in ((lambda x: x[:2] > 0, 0.0), (lambda x: x > 0, np.zeros(3)), (lambda x: x > 0, np.zeros((2, 2)))):
        for run in (lambda g: g(x), lambda g: ad.jit(g)(x), lambda g: ad.vjp(g, x)):
            with pytest.raises((IndexError, ValueError, TypeError)):
                run(lambda x: f(x, mask, v))  # noqa: B023
    several = np.array([5.0, 6.0])  # as many as there are elements chosen
    np.testing.assert_array_equal(ad.jit(lambda x: f(x, lambda x: x > 0, several))(x), [5, -1, 6])
    whole = ad.jit(lambda n: f(n, lambda n: n > 1, 7.9))
    np.testing.assert_array_equal(whole(np.arange(4)), [0, 1, 7, 7])
