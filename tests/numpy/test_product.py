"""Products: NumPy's results for all ranks, and derivatives that are their transposes."""

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(7)
RANKS = [
    ((), ()),
    ((3,), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 2)),
]


def agree(f, *xs):
    value, pull = ad.vjp(f, *xs)
    expected = f(*xs)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert np.shape(value) == np.shape(expected)
    u, vs = RNG.normal(size=np.shape(value)), [RNG.normal(size=np.shape(x)) for x in xs]
    pushed = ad.jvp(f, tuple(xs), tuple(vs))[1]
    np.testing.assert_allclose(
        np.sum(u * pushed), sum(np.sum(g * v) for g, v in zip(pull(u), vs, strict=True)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("function", [np.dot, np.matmul, np.inner, np.outer, np.vdot, np.multiply])
@pytest.mark.parametrize("shapes", RANKS, ids=repr)
def test_every_rank(function, shapes):
    xs = [RNG.normal(size=shape) for shape in shapes]
    try:
        function(*xs)
    except ValueError:
        with pytest.raises(ValueError):
            ad.vjp(function, *xs)
        return
    agree(function, *xs)


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([0, 1], [1, 0]), (-1, 0)])
def test_tensordot(axes):
    a, b = RNG.normal(size=(3, 3, 3)), RNG.normal(size=(3, 3, 3))
    agree(lambda a, b: np.tensordot(a, b, axes), a, b)


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("bij,bjk,kl->bil", [(2, 2, 3), (2, 3, 2), (2, 4)]),
        ("i,i->i", [(0,), (0,)]),
    ],
)
def test_einsum(subscripts, shapes):
    xs = [RNG.normal(size=shape) for shape in shapes]
    agree(lambda *xs: np.einsum(subscripts, *xs), *xs)


@pytest.mark.parametrize("dtype", ["g", "G", "D", "f"])
@pytest.mark.parametrize(
    "subscripts, shapes", [("ab,a->ab", [(2, 0), (2,)]), ("b,a->ab", [(0,), (2,)]), ("ab,ab->a", [(2, 0), (2, 0)])]
)
def test_einsum_of_empty_arrays(subscripts, shapes, dtype):
    """NumPy's own function may write beyond an empty result of long doubles, so it is not called."""
    xs = [np.ones(shape, dtype) for shape in shapes]
    output = subscripts.split("->")[1]
    y, pull = ad.vjp(lambda *xs: np.einsum(subscripts, *xs), *xs)
    assert (y.shape, y.dtype) == (tuple({"a": 2, "b": 0}[c] for c in output), np.dtype(dtype))
    assert not np.any(y)
    for g, x in zip(pull(np.ones_like(y)), xs, strict=True):
        assert (g.shape, g.dtype) == (x.shape, x.dtype)
        assert not np.any(g)
    batch = ad.vmap(lambda *xs: np.einsum(subscripts, *xs))(*[np.stack([x, x]) for x in xs])
    assert batch.shape == (2, *y.shape)


def test_einsum_with_lists_of_axes():
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4))
    agree(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), a, b)


@pytest.mark.parametrize("subscripts", ["ij,kl->im", "i", "ijk,jk", "i->ii", "ij,jk->i?"])
def test_subscripts_that_do_not_fit(subscripts):
    xs = [np.ones((2, 3)), np.ones((3, 4))][: subscripts.partition("->")[0].count(",") + 1]
    with pytest.raises(ValueError):
        np.einsum(subscripts, *xs)
    with pytest.raises(ValueError):
        ad.vjp(lambda *xs: np.einsum(subscripts, *xs), *xs)


@pytest.mark.parametrize("subscripts", ["...->", "...i->i", "...i->", "...,...->"])
@pytest.mark.parametrize("optimize", [False, True, "greedy"])
def test_an_ellipsis_that_the_output_leaves_out(subscripts, optimize):
    """NumPy sums over its axes with optimize= alone; it may have none."""
    f = lambda x: np.einsum(subscripts, *[x] * (1 + subscripts.count(",")), optimize=optimize)
    for x in (np.ones((2, 3)), np.ones(3), np.float64(2.0)):
        try:
            expected = f(x)
        except ValueError:
            for run in (lambda: ad.vjp(f, x), lambda: ad.jit(f)(x), lambda: ad.vmap(f)(np.stack([x, x]))):  # noqa: B023
                with pytest.raises(ValueError):
                    run()
        else:
            np.testing.assert_allclose(ad.vjp(f, x)[0], expected)
            np.testing.assert_allclose(ad.vmap(f)(np.stack([x, x]))[1], expected)


@pytest.mark.parametrize("function", [np.matmul, np.matvec, np.vecmat, np.vecdot])
@pytest.mark.parametrize("ranks", [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 0), (0, 2)])
def test_operands_without_the_axes_of_a_product(function, ranks):
    """An example of a batch has no axis that it may lend."""
    a, b = (np.ones((3,) * rank)[()] for rank in ranks)
    batches = [lambda a, b: ad.vmap(function)(np.stack([a, a]), np.stack([b, b]))[0]]
    batches.append(lambda a, b: ad.vmap(function, in_axes=(0, None))(np.stack([a, a]), b)[0])
    batches.append(lambda a, b: ad.vmap(function, in_axes=(None, 0))(a, np.stack([b, b]))[0])
    for run in (*batches, ad.jit(function), lambda a, b: ad.vjp(function, a, b)[0]):
        try:
            expected = function(a, b)
        except ValueError:
            with pytest.raises(ValueError):
                run(a, b)
        else:
            np.testing.assert_allclose(run(a, b), expected)


def test_complex_products_conjugate_the_first_factor():
    a, b = np.array([1 + 2j, 3j]), np.array([2 - 1j, 1.0])
    for function in (np.vdot, np.vecdot):
        np.testing.assert_allclose(ad.vjp(function, a, b)[0], function(a, b))
