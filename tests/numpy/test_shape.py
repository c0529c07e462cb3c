"""Shape functions, joining, and the products."""

import math
import warnings

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp

RNG = np.random.default_rng(2)
X = draw(RNG, (3, 4))
T = draw(RNG, (2, 3, 4))
V = draw(RNG, (4,))
A = draw(RNG, (4, 3))
S = np.float64(1.5)

SHAPE = [
    (lambda x: np.reshape(x, (4, 3)), X),
    (lambda x: np.reshape(x, -1), X),
    (lambda x: np.reshape(x, (2, -1), order="F"), X),
    (lambda x: x.reshape(6, 2), X),
    (lambda x: x.reshape((2, 6)), X),
    (lambda x: x.reshape(-1), X),
    (lambda x: np.ravel(x), X),
    (lambda x: np.ravel(x, order="F"), X),
    (lambda x: x.ravel(), X),
    (lambda x: x.flatten(), X),
    (lambda x: x.flatten("F"), X),
    (lambda x: np.transpose(x), T),
    (lambda x: np.transpose(x, (1, 2, 0)), T),
    (lambda x: np.transpose(x, [-1, 0, 1]), T),
    (lambda x: x.transpose(2, 0, 1), T),
    (lambda x: x[0, 0].transpose(np.int64(0)), T),
    (lambda x: x[0, 0].transpose(0), T),
    (lambda x: x.T, X),
    (lambda x: x.mT, T),
    (lambda x: np.permute_dims(x, (2, 1, 0)), T),
    (lambda x: np.matrix_transpose(x), T),
    (lambda x: np.swapaxes(x, 0, -1), T),
    (lambda x: x.swapaxes(1, 2), T),
    (lambda x: np.moveaxis(x, 0, -1), T),
    (lambda x: np.moveaxis(x, [0, 1], [2, 0]), T),
    (lambda x: np.rollaxis(x, 2), T),
    (lambda x: np.rollaxis(x, 0, 3), T),
    (lambda x: np.expand_dims(x, 0), X),
    (lambda x: np.expand_dims(x, (0, -1)), X),
    (lambda x: np.squeeze(x[None, :, None]), X),
    (lambda x: np.squeeze(x[None], axis=0), X),
    (lambda x: np.broadcast_to(x, (2, 3, 4)), X),
    (lambda x: np.broadcast_arrays(x, np.ones((2, 1, 1)))[0], X),
    (lambda x: np.atleast_1d(x), S),
    (lambda x: np.atleast_2d(x), V),
    (lambda x: np.atleast_2d(x, 2 * x), V),
    (lambda x: np.atleast_3d(x), X),
    (lambda x: np.atleast_3d(x), V),
    (lambda x: np.concatenate([x, 2 * x]), X),
    (lambda x: np.concatenate((x, np.ones((3, 2)), x), axis=1), X),
    (lambda x: np.concatenate([x, x], axis=None), X),
    (lambda x: np.concat([x, x], axis=-1), X),
    (lambda x: np.stack([x, x * x]), X),
    (lambda x: np.stack([x, np.ones((3, 4))], axis=-1), X),
    (lambda x: np.vstack([x, x]), V),
    (lambda x: np.hstack([x, x]), V),
    (lambda x: np.hstack([x, x]), X),
    (lambda x: np.dstack([x, x]), X),
    (lambda x: np.column_stack([x, x**2]), V),
    (lambda x: np.append(x, [1.0, 2.0]), X),
    (lambda x: np.append(x, x, axis=0), X),
    (lambda x: anp.array([x[0], x[1] * x[2], 3.0]), V),
    (lambda x: anp.array([[x[0], 1.0], [2.0, x[1]]]), V),
    (lambda x: anp.array([x, x])[0], S),
    (lambda x: anp.array(x, ndmin=2), V),
    (lambda x: anp.asarray([x[0], x[1]]), V),
    (lambda x: np.astype(x, np.complex128) * 1j, X),
    (lambda x: x.astype(np.float32).astype(np.float64) * 0 + x, X),
    (lambda x: np.full_like(x, 3.0) * x, X),
    (lambda x: np.full_like(x, x[0, 0]) * x, X),
    (lambda x: np.zeros_like(x) + np.ones_like(x) * x, X),
    (lambda x: np.copy(x) + x.copy(), X),
    (lambda x: anp.require(x) * 2, X),
    (lambda x: np.shape(x)[0] * x + np.ndim(x) + np.size(x) + x.size + x.ndim + len(x), X),
    (lambda x: sum(row[0] for row in x), X),
    (lambda x: [a * b for a, b in zip(x, x[::-1], strict=True)], V),
]


@pytest.mark.parametrize("f, x", SHAPE)
def test_shape(f, x):
    check(f, x)


PRODUCTS = [
    (np.dot, V, V),
    (np.dot, X, V),
    (np.dot, X, A),
    (np.dot, T, A),
    (np.dot, X, draw(RNG, (2, 4, 3))),
    (np.dot, S, X),
    (lambda a, b: a.dot(b), X, V),
    (np.matmul, X, A),
    (np.matmul, T, A),
    (np.matmul, T, draw(RNG, (2, 4, 2))),
    (np.matmul, draw(RNG, (5, 1, 3, 4)), draw(RNG, (2, 4, 3))),
    (lambda a, b: a @ b, V, A),
    (lambda a, b: a @ b, X, V),
    (np.inner, X, X),
    (np.inner, V, V),
    (np.inner, S, X),
    (np.outer, V, X),
    (np.vdot, X, X),
    (np.vecdot, X, X),
    (lambda a, b: np.vecdot(a, b, axis=0), X, X),
    (lambda a, b: np.tensordot(a, b, 1), X, A),
    (lambda a, b: np.tensordot(a, b), X, X),
    (lambda a, b: np.tensordot(a, b, axes=0), V, V),
    (lambda a, b: np.tensordot(a, b, axes=([1, 0], [0, 1])), X, A),
    (lambda a, b: np.tensordot(a, b, axes=(-1, 0)), T, A),
    (lambda a, b: np.einsum("ij,jk->ik", a, b), X, A),
    (lambda a, b: np.einsum("ij,jk", a, b), X, A),
    (lambda a, b: np.einsum("ij,kj->k", a, b), X, X),
    (lambda a, b: np.einsum("...ij,jk->...ik", a, b), T, A),
    (lambda a, b: np.einsum("i...,i...->...", a, b), X, X),
    (lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), X, A),
    (lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), X, A),
    (lambda a, b: np.einsum("ij,ij->", a, b), X, X),
    (lambda a, b: np.einsum("ij , j -> i", a, b, optimize=True), X, V),
    (lambda a, b: np.einsum("ij,kl->ijkl", a, b), X, V[:, None]),
]


@pytest.mark.parametrize("f, a, b", PRODUCTS)
def test_products(f, a, b):
    check(f, a, b)


@pytest.mark.parametrize("subscripts", ["ii->i", "ii->", "ii", "ij->ji", "ij->", "ij->j", "i...->...", "ji"])
def test_einsum_of_one_operand(subscripts):
    check(lambda a: np.einsum(subscripts, a), draw(RNG, (3, 3)))


def test_complex_products():
    z = draw(RNG, (2, 3), dtype=complex)
    w = draw(RNG, (3, 2), dtype=complex)
    for f in (
        np.dot,
        np.matmul,
        lambda a, b: np.vdot(a, b.T),
        lambda a, b: np.einsum("ij,jk->", a, b),
        lambda a, b: np.vecdot(a, b.T),
    ):
        check(f, z, w)


def test_mistakes_are_numpys():
    for f in (
        lambda x: np.reshape(x, (5, 5)),
        lambda x: np.transpose(x, (0, 0)),
        lambda x: np.concatenate([x, np.ones(3)]),
        lambda x: np.stack([x, x[0]]),
        lambda x: np.squeeze(x, axis=0),
        lambda x: np.einsum("ij,jk->ik", x, x),
        lambda x: np.tensordot(x, x, 1),
        lambda x: x @ x,
        lambda x: np.concatenate([]) + x,
    ):
        with pytest.raises(ValueError):
            f(X)
        with pytest.raises(ValueError):
            ad.grad(lambda x, f=f: np.sum(f(x)))(X)


@pytest.mark.skipif(not hasattr(np, "row_stack"), reason="NumPy 2.5 has removed it")
def test_row_stack_is_vstack():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        check(lambda x: np.row_stack([x, 2 * x]), V)


def test_orders_of_memory():
    x = np.arange(12.0).reshape(3, 4)
    check(
        lambda x: (np.ravel(x.T, "K"), np.ravel(x.T, "A"), np.reshape(x.T, (2, 6), "A"), np.ravel(x[::2].T, "A")), x, vmap=False
    )
    check(lambda x: np.ravel(np.moveaxis(x, 0, 1), "K"), np.sin(np.arange(24.0)).reshape(2, 3, 4))


@pytest.mark.parametrize("x", [np.float64(1.0), np.ones(3), np.ones((2, 3)), np.ones((2, 3, 4)), np.ones((0, 2))], ids=np.shape)
@pytest.mark.parametrize("transpose", [np.matrix_transpose, np.linalg.matrix_transpose, lambda x: x.mT])
def test_the_matrices_to_be_transposed_have_two_axes(transpose, x):
    for transform in (lambda f: f, lambda f: lambda x: ad.vjp(f, x)[0], lambda f: lambda x: ad.vmap(f)(x[None])[0], ad.jit):
        if x.ndim < 2:
            with pytest.raises((ValueError, AttributeError), match=r"dim|attribute"):
                transform(transpose)(x)
        else:
            assert transform(transpose)(x).shape == transpose(x).shape


@pytest.mark.parametrize("axes", [(1, 0, 2), [2, 0, 1], np.array([1, 2, 0]), (np.int64(0), np.int8(2), 1), range(3), (-1, 0, 1)])
def test_axes_of_transpose_in_every_form(axes):
    x = np.arange(24.0).reshape(2, 3, 4)
    for f in (lambda x: np.transpose(x, axes), lambda x: x.transpose(axes), lambda x: np.permute_dims(x, axes)):
        _, tangent = ad.jvp(f, (x,), (x,))
        np.testing.assert_array_equal(tangent, np.transpose(x, axes))
    for one in (0, np.int64(0), np.array(0)):
        np.testing.assert_array_equal(ad.jvp(lambda v, one=one: np.transpose(v, one), (x[0, 0],), (x[0, 0],))[1], x[0, 0])


SHAPES = [
    (2, 15),
    [2, 15],
    np.array([2, 15]),
    (np.array(2), np.int8(15)),
    range(2, 3),
    np.array([30]),
    np.array(30),
    np.int64(30),
    30,
]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize(
    "f",
    [
        lambda x, shape: np.reshape(np.resize(x, math.prod(np.ravel(shape))), shape),
        lambda x, shape: np.resize(x, math.prod(np.ravel(shape))).reshape(shape),
        lambda x, shape: np.broadcast_to(x[0], shape),
        lambda x, shape: np.resize(x, shape if np.ndim(shape) else int(shape)),  # NumPy refuses an array without axes
        lambda x, shape: np.tile(x, shape),
        lambda x, shape: anp.full(shape, x[1]),
    ],
    ids=["reshape", "method", "broadcast_to", "resize", "tile", "full"],
)
def test_shapes_in_every_form(f, shape):
    x = np.arange(1.0, 4.0)
    wanted = f(x, shape)
    np.testing.assert_array_equal(ad.jit(lambda x: f(x, shape))(x), wanted)
    value, tangent = ad.jvp(lambda x: f(x, shape), (x,), (x,))
    np.testing.assert_array_equal(value, wanted)
    np.testing.assert_array_equal(tangent, wanted)


@pytest.mark.parametrize("shape", [2.0, (1.5, 2), "3", np.array([1.0, 3.0])], ids=repr)
def test_shapes_have_integers(shape):
    for f in (np.reshape, np.broadcast_to, np.resize):
        with pytest.raises(TypeError):
            f(np.ones(3), shape)
        with pytest.raises(TypeError):
            ad.jvp(lambda x, f=f: f(x, shape), (np.ones(3),), (np.ones(3),))
