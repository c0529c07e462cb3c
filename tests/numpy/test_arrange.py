import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp

X = draw(np.random.default_rng(3), (3, 4))
V = draw(np.random.default_rng(4), (5,))
T = draw(np.random.default_rng(5), (2, 3, 4))

FUNCTIONS = {
    "flip": [lambda x: np.flip(x), lambda x: np.flip(x, 1), lambda x: np.flip(x, axis=(0, -1))],
    "flip_sides": [np.fliplr, np.flipud],
    "rot90": [lambda x, k=k: np.rot90(x, k) for k in range(-1, 5)] + [lambda x: np.rot90(x, axes=(1, 0))],
    "roll": [
        lambda x: np.roll(x, 2),
        lambda x: np.roll(x, -1, axis=1),
        lambda x: np.roll(x, (1, 5), axis=(0, 1)),
        lambda x: np.roll(x, (1, 1), axis=(0, 0)),
        lambda x: np.roll(x, 1, axis=(0, 1)),
        lambda x: np.roll(x, 0, 0),
    ],
    "tile": [lambda x, r=r: np.tile(x, r) for r in (2, (2, 1), (2, 2, 3), 0)],
    "repeat": [
        lambda x: np.repeat(x, 2),
        lambda x: np.repeat(x, 3, axis=1),
        lambda x: np.repeat(x, [1, 0, 2], axis=0),
        lambda x: np.repeat(x, [2], axis=0),
        lambda x: x.repeat(2, 0),
    ],
    "resize": [lambda x, n=n: np.resize(x, n) for n in (5, (2, 2), (5, 7), (0,))],
    "triangles": [np.tril, np.triu, lambda x: np.tril(x, -1), lambda x: np.triu(x, k=2)],
    "diagonal": [
        np.diag,
        lambda x: np.diag(x, 1),
        lambda x: np.diag(x, k=-2),
        lambda x: np.diagonal(x, 4),
        lambda x: np.diagonal(x, -1, 1, 0),
        lambda x: x.diagonal(),
        np.trace,
        lambda x: np.trace(x, offset=1),
        lambda x: x.trace(),
        np.diagflat,
    ],
    "split": [
        lambda x: np.split(x, 2, axis=1),
        lambda x: np.split(x, [1, 3], axis=1),
        lambda x: np.split(x, [1, -1], axis=-1),
        lambda x: np.array_split(x, 2),
        lambda x: np.array_split(x, 3, 1),
        lambda x: np.array_split(x, np.array([2, 9])),
        lambda x: np.hsplit(x, 2),
        lambda x: np.vsplit(x, 3),
        np.unstack,
        lambda x: np.unstack(x, axis=1),
    ],
    "delete": [
        lambda x: np.delete(x, 1),
        lambda x: np.delete(x, -1, axis=1),
        lambda x: np.delete(x, [0, 2], 1),
        lambda x: np.delete(x, slice(None, None, 2), axis=1),
        lambda x: np.delete(x, np.array([True, False, True]), 0),
    ],
    "insert": [
        lambda x: np.insert(x, 1, x[:, 0], axis=1),
        lambda x: np.insert(x, 1, 5.0),
        lambda x: np.insert(x, [1, 3], x[0, 0], axis=1),
        lambda x: np.insert(x, [1], x[:, :2], axis=1),
        lambda x: np.insert(x, [1, 1, 2], x[:, :3], axis=1),
        lambda x: np.insert(x, -1, x[0], axis=0),
        lambda x: np.insert(x, slice(0, 2), x[:2], axis=0),
    ],
    "block": [
        lambda x: np.block([[x, np.ones((3, 1))], [x[0], 2.0]]),
        lambda x: np.block([x[0], x[1]]),
        lambda x: np.block(x),
    ],
    "kron": [lambda x: np.kron(x, x[:2, :2]), lambda x: np.kron(x, x[0]), lambda x: np.kron(2.0, x), lambda x: np.kron(x[0], x)],
    "meshgrid": [
        lambda x: np.meshgrid(x[0], x[:, 0]),
        lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij"),
        lambda x: np.meshgrid(x[0], x[1], x[:, 0], sparse=True),
        lambda x: np.meshgrid(x[0], copy=False),
        lambda x: np.ix_(x[0], x[:, 1]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linear_rearrangements(name):
    for f in FUNCTIONS[name]:
        check(f, X)


def test_other_ranks():
    check(lambda v: [np.diag(v), np.diag(v, 2), np.diag(v, -1), np.diagflat(v, 1), np.tril(v), np.triu(v)], V)
    check(lambda v: [np.flip(v), np.roll(v, 7), np.tile(v, 2), np.tile(v, (2, 2)), np.hsplit(v, [2])], V)
    check(lambda t: [np.diagonal(t), np.diagonal(t, 1, -1, 0), np.trace(t, axis1=1, axis2=2), np.dsplit(t, 2), np.rot90(t)], T)
    check(lambda t: [np.roll(t, 1, (0, -1)), np.tril(t), np.triu(t, 1), np.block([[t], [t]]), np.kron(t, t[0])], T)
    check(lambda s: [np.tile(s, 3), np.repeat(s, 2), np.kron(s, s), np.meshgrid(s, s)], 0.5)


def test_empty():
    e = np.zeros((0, 3))
    check(lambda x: [np.flip(x), np.roll(x, 1, 0), np.tile(x, 2), np.diag(x), np.split(x, 3, 1), np.diag(x[:, 0])], e, vmap=False)


def test_complex():
    z = draw(np.random.default_rng(0), (3, 3), dtype=complex)
    check(lambda z: [np.tril(z), np.kron(z, z), np.trace(z), np.roll(z, 1), np.pad(z, 1, mode="edge")], z)


def test_trim_zeros():
    x = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0])
    for trim in ("fb", "f", "b"):
        plain, found = np.trim_zeros(x, trim), ad.vjp(lambda x, trim=trim: np.trim_zeros(x, trim), x)
        np.testing.assert_array_equal(found[0], plain)
    np.testing.assert_array_equal(ad.grad(lambda x: np.trim_zeros(x).sum())(x), [0, 0, 1, 1, 1, 0])
    np.testing.assert_array_equal(ad.vjp(np.trim_zeros, np.zeros(3))[0], np.trim_zeros(np.zeros(3)))


PADS = [
    {"mode": "constant"},
    {"mode": "constant", "constant_values": 3.0},
    {"mode": "constant", "constant_values": ((1.0, 2.0), (3.0, 4.0))},
    {"mode": "edge"},
    {"mode": "reflect"},
    {"mode": "symmetric"},
    {"mode": "reflect", "reflect_type": "odd"},
    {"mode": "symmetric", "reflect_type": "odd"},
    {"mode": "wrap"},
    {"mode": "linear_ramp"},
    {"mode": "linear_ramp", "end_values": ((1.0, -2.0), (5.0, 4.0))},
    {"mode": "mean"},
    {"mode": "mean", "stat_length": 2},
    {"mode": "maximum"},
    {"mode": "minimum", "stat_length": ((1, 2), (3, 2))},
    {"mode": "median"},
]  # fmt: skip


@pytest.mark.parametrize("options", PADS, ids=str)
def test_pad(options):
    for width in (1, (2, 3), ((1, 2), (0, 3)), ((5, 7), (9, 4)), {-1: (2, 1)}, {0: 2}):
        check(lambda x, width=width: np.pad(x, width, **options), X, order=1)
    if options["mode"] not in ("median", "maximum", "minimum", "mean"):
        check(lambda x: np.pad(x, 2, **options if "((" not in str(options) else {"mode": "wrap"}), V[:1], order=1)


def test_pad_traced_options_and_refusals():
    check(lambda x, c: np.pad(x, 1, constant_values=c), X, 0.3)
    check(lambda x, c: np.pad(x, 2, mode="linear_ramp", end_values=(c, 1.0)), V, 0.3)
    np.testing.assert_array_equal(ad.grad(lambda x: np.pad(x, 1, mode=lambda *a: None).sum())(V), np.ones_like(V))
    with pytest.raises(ValueError, match="not supported"):
        ad.grad(lambda x: np.pad(x, 1, mode="no").sum())(V)
    with pytest.raises(ValueError, match="unsupported keyword"):
        ad.grad(lambda x: np.pad(x, 1, mode="edge", end_values=1).sum())(V)


def test_views_write_through():
    def f(x):
        a = anp.zeros((2, 4))
        first, second = np.split(a, 2, axis=1)
        first[...] = x
        np.flip(second, 1)[0] = 2 * x[0]
        np.unstack(a)[1][3] = x[1, 1]
        return a

    check(f, X[:2, :2])
    np.testing.assert_array_equal(ad.grad(lambda x: f(x)[0, 2])(X[:2, :2]), [[0, 2], [0, 0]])


def test_errors():
    for f, message in [
        (lambda x: np.rot90(x, axes=(0, 0)), "different"),
        (lambda x: np.split(x, 3), "equal division"),
        (lambda x: np.vsplit(x, 1), "2 or more"),
        (lambda x: np.diagonal(x), "two dimensions"),
        (lambda x: np.fliplr(x), "2-d"),
        (lambda x: np.block([x, [x]]), "mismatched"),
    ]:
        with pytest.raises(ValueError, match=message):
            ad.vjp(f, V)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64])
def test_an_inserted_number_gets_the_dtype_of_the_array(dtype):
    found = ad.jit(lambda a, c: np.insert(a, 1, c))(np.array([1, 3], dtype), 2)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [1, 2, 3])


@pytest.mark.parametrize("k", [np.array(1), np.array(-1), np.int8(0), True], ids=repr)
def test_places_of_diagonals_of_any_kind(k):
    x = np.arange(12.0).reshape(3, 4)
    for f in (lambda x: np.diag(x, k), lambda x: np.diag(x[0], k), lambda x: np.diagonal(x, k), lambda x: np.trace(x, k)):
        wanted = f(x)
        np.testing.assert_array_equal(ad.jit(f)(x), wanted)
        np.testing.assert_array_equal(ad.jvp(f, (x,), (x,))[1], wanted)


def test_places_of_cuts_in_every_form():
    x = np.arange(6.0)
    for places in (range(1, 4, 2), [1, 3], (1, np.int8(3)), np.array([1, 3])):
        found = ad.jvp(lambda x, places=places: np.split(x, places), (x,), (x,))[1]
        for a, b in zip(found, np.split(x, places), strict=True):
            np.testing.assert_array_equal(a, b)
