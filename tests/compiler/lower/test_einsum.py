"""Sums of products in compiled programs."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Foreign, Product

SIZES = dict(zip("abcdijkl", (2, 3, 4, 5, 6, 13, 14, 15), strict=True))
SUBSCRIPTS = [
    *("ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "bij,bjk->bik", "bik,bjk->bij", "ijk,kl->ijl", "abij,abjk->abik", "aij,bjk->abik"),
    *("ij,ij->i", "ij,ij->", "i,j->ij", "ij,j->i", "bij,bj->bi", "ij,jk->", "ij,kl->il", "ijk,jkl->il", "ijk,ljk->il"),
    *("ii->i", "ii->", "iij->j", "ij->ji", "ijk->j", "iij,i->j", "aab,bcd->acd"),
    *("ij,jk,kl->il", "i,ij,j->", "ij,jk,k->i", "abc,cd,ad->b", "a,b,c->abc"),
]


def operands(subscripts, dtype=float):
    rng = np.random.default_rng(0)
    return [rng.normal(size=[SIZES[c] for c in s]).astype(dtype) for s in subscripts.split("->")[0].split(",")]


def steps(compiled, *xs):
    return compiled.lower(*xs).lowered.steps


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_values_and_gradients(subscripts):
    def f(*xs):
        return np.einsum(subscripts, *xs)

    def total(*xs):
        return np.sum(np.cos(f(*xs)))

    for dtype, slack in ((np.float64, 1e-10), (np.float32, 2e-3)):
        xs = operands(subscripts, dtype)
        compiled = ad.jit(f)
        got, want = compiled(*xs), f(*xs)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=slack, atol=slack)
        assert not any(isinstance(s, Foreign) for s in steps(compiled, *xs))
    xs = operands(subscripts)
    gradient = ad.grad(total, argnums=tuple(range(len(xs))))
    compiled = ad.jit(gradient)
    for got, want in zip(compiled(*xs), gradient(*xs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    assert not any(isinstance(s, Foreign) for s in steps(compiled, *xs))


@pytest.mark.parametrize(("subscripts", "products"), [("ij,jk->ik", 1), ("bij,bjk->bik", 1), ("ij,ij->i", 0), ("i,j->ij", 0)])
def test_large_ones_are_matrix_products(subscripts, products):
    xs = operands(subscripts)
    found = steps(ad.jit(lambda *xs: np.einsum(subscripts, *xs)), *xs)
    assert sum(isinstance(s, Product) for s in found) == products


def test_foreign_calls_are_right():
    for xs in ([np.ones((2, 0)), np.ones((0, 3))], [np.ones((2, 3)) * 1j, np.ones((3, 2))]):
        got = ad.jit(lambda a, b: np.einsum("ij,jk->ik", a, b))(*xs)
        np.testing.assert_array_equal(got, np.einsum("ij,jk->ik", *xs))


def test_whole_numbers():
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    got = ad.jit(lambda a, b: np.einsum("ij,jk->k", a, b))(a, b)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, np.einsum("ij,jk->k", a, b))
