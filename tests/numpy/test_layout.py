"""How NumPy would hold traced arrays in memory: strides of results, and what shares memory with what."""

import copy

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.layout import strides_of

RNG = np.random.default_rng(5)


def layouts(shape):
    """The same numbers, held in several orders."""
    x = RNG.uniform(0.2, 1.5, shape)
    yield x
    yield np.asfortranarray(x)
    if x.ndim > 2:
        yield np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
        yield np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)


ARRAYS = [x for shape in ((3, 4), (3, 3), (2, 3, 4)) for x in layouts(shape)]

# Functions that give new arrays: what their strides are decides about views of the result.
NEW = """
np.sin(a) | a ** 2 | -a | +a | abs(a) | a * 2.0 | a + np.ones(a.shape) | a * a[:1] | a / a.sum(axis=-1, keepdims=True)
a + np.asfortranarray(np.ones(a.shape)) | np.maximum(a, 0.5) | np.where(a > 0.5, a, a.copy()) | np.clip(a, 0, 1) | np.abs(a)
np.sum(a, axis=0) | np.sum(a, axis=-1) | np.sum(a, axis=()) | np.mean(a, axis=0, keepdims=True) | np.var(a, axis=-1)
np.max(a, axis=0) | np.cumsum(a, axis=0) | np.cumprod(a, axis=-1) | np.sort(a, axis=0) | np.sort(a) | np.partition(a, 0, axis=0)
np.percentile(a, [20, 50], axis=-1) | np.nanpercentile(a, 30, axis=0) | np.roll(a, 1, axis=0) | np.tile(a, 2) | np.tile(a, (2, 1))
np.repeat(a, 2, axis=0) | np.repeat(a, 2, axis=-1) | np.concatenate([a, a], axis=0) | np.concatenate([a, a], axis=-1)
np.stack([a, a]) | np.stack([a, a], axis=-1) | np.vstack([a, a]) | np.hstack([a, a]) | np.dstack([a, a]) | np.block([[a, a]])
np.pad(a, 1) | np.pad(a, 1, mode='edge') | np.pad(a, 1, mode='reflect') | np.diff(a, axis=0) | np.gradient(a, axis=0)
np.tril(a) | np.triu(a) | np.insert(a, 0, 1.0, axis=0) | np.insert(a, [0, 1], 1.0, axis=-1) | np.delete(a, 0, axis=0)
np.delete(a, [0, 1], axis=-1) | np.append(a, a, axis=0) | np.take(a, [0, 1], axis=0) | np.take(a, [0, 1], axis=-1)
np.compress([True, True], a, axis=-1) | a[[0, 1]] | a[:, [0, 1]] | a[..., [0, 1]] | a[::-1, [0, 1]] | a[[0, 1], 1:]
a[[0, 1], :, None] | a[None, :, [0, 1]] | a[np.array([[0, 1], [1, 0]])] | a[:, np.array([[0, 1], [1, 0]])]
a @ a.swapaxes(-1, -2) | np.tensordot(a, a, axes=([0], [0])) | np.outer(a, a) | np.kron(a, a) | np.multiply.outer(a, a)
np.add.reduce(a, axis=0) | np.maximum.accumulate(a, axis=0) | np.nan_to_num(a) | np.select([a > 0.5], [a], 0.0)
np.piecewise(a, [a > 0.5], [lambda v: v * 2, lambda v: v]) | np.unwrap(a, axis=0) | np.polyval([1.0, 2.0], a)
a.astype(np.float32) | a.astype(np.float32, order='F') | a.astype(np.float32, order='C') | a.astype(complex)
np.asarray(a, dtype=np.float32, order='F') | np.zeros_like(a) | np.full_like(a, 2.0) | np.full(a.shape, a[:1])
np.copy(a[::-1]) | a[::-1].copy('K') | a[::-1].copy() | a[::2].copy('A') | a.copy('F') | np.array(a, order='C') | np.array([a, a])
np.diagonal(a) * 2.0 | np.linalg.diagonal(a) * 2.0 | np.hstack([np.diagonal(a)] * 2)
np.rot90(a) * 2 | np.flip(a, 0) + 1 | np.moveaxis(a, 0, -1) + 1 | np.broadcast_arrays(a, a[:1])[1] * 1.0 | a.T.flatten('K')
"""


@pytest.mark.parametrize("text", [part.strip() for line in NEW.strip().splitlines() for part in line.split(" | ")])
def test_strides_of_new_arrays(text):
    for x in ARRAYS:
        wanted = eval(text, {"np": np, "a": x})
        found = []

        def f(a, found=found):
            y = eval(text, {"np": anp, "a": a})
            found.append(strides_of(y))
            return np.sum(a)

        ad.grad(f)(x)
        ad.jvp(f, (x,), (x,))
        axes = [i for i, n in enumerate(wanted.shape) if n > 1]  # the stride of an axis of length one means nothing
        for strides in found:
            assert [strides[i] for i in axes] == [wanted.strides[i] for i in axes], x.strides


# New arrays whose order follows from the operands in a way of the function's own.
OWN_ORDER = """
np.einsum('ij,jk->ik', a, a) | np.einsum('ij,jk->ki', a, a) | np.einsum('...j,...j->...j', a, a) | np.einsum('ij,j->ij', a, a[0])
np.einsum('ij,jk->ik', a, a, optimize=True) | np.cross(a, a[::-1]) | np.cross(a, 2 * a, axis=0) | np.linalg.cross(a, a)
np.median(a, axis=0, keepdims=True) | np.average(a, axis=0, weights=[1.0, 2.0, 3.0], keepdims=True) | np.round(a, 1) | a.round(2)
np.choose((a > 0.5).astype(int), [a, 2 * a]) | np.zeros_like(a) | np.ones_like(a) | np.empty_like(a) | np.full_like(a, 2.0)
np.median(b, axis=1) | np.median(b, axis=-1, keepdims=True) | np.median(b, axis=(0, 1))
np.average(b, axis=0, weights=[1.0, 2.0, 3.0]) | np.cross(b, b[::-1], axis=1)
np.zeros_like(b) | np.full_like(b, 2.0, order='A') | np.round(b, 1) | np.einsum('ijk,jl->kil', b, a) | np.choose(0, [b, b])
"""


def _own_orders():
    x, z = RNG.uniform(0.2, 1.5, (3, 3)), RNG.uniform(0.2, 1.5, (3, 3, 3))
    yield x, z
    yield np.asfortranarray(x), np.asfortranarray(z)
    yield x[::-1], z[:, ::-1]
    yield np.asfortranarray(x)[:, ::-1], np.ascontiguousarray(z.transpose(1, 2, 0)).transpose(2, 0, 1)
    yield np.repeat(x, 2, axis=1)[:, ::2], np.repeat(z, 2, axis=0)[::2]


@pytest.mark.parametrize("mode", ["vjp", "jvp", "compiled"])
def test_new_arrays_with_an_order_of_their_own(mode):
    texts = [part.strip() for line in OWN_ORDER.strip().splitlines() for part in line.split(" | ")]
    for x, z in _own_orders():
        found = ad.static({})  # which a compiled function may write to while it is staged

        def f(a, b, found=found):
            for text in texts:
                found[text] = strides_of(eval(text, {"np": np, "a": a, "b": b}))
            return np.sum(a) + np.sum(b)

        if mode == "vjp":
            ad.vjp(f, x, z)
        elif mode == "jvp":
            ad.jvp(f, (x, z), (x, z))
        else:
            compiled = ad.jit(f)
            compiled(x, z)
            assert not compiled.eager
        for text in texts:
            wanted = eval(text, {"np": np, "a": x, "b": z})
            axes = [i for i, n in enumerate(wanted.shape) if n > 1]
            assert [found[text][i] for i in axes] == [wanted.strides[i] for i in axes], (text, x.strides)


# Functions of one array: each is a view, a copy, or the array itself, as NumPy decides.
SHARING = """
np.ascontiguousarray(a) | np.ascontiguousarray(a.T) | np.asfortranarray(a) | a[:, 0].ravel() | a.T.reshape(-1) | a.reshape(-1)
a.reshape(-1, order='F') | a.reshape(-1, order='A') | a.ravel('K') | a.ravel('F') | a[::-1].ravel() | a[::2].reshape(-1)
a[:, ::-1].reshape(-1) | a[:1].ravel() | a[:, :1].ravel() | a[:, :1].T.ravel() | a[None].ravel() | a[:0].ravel()
np.nan_to_num(a, copy=False) | a.astype(float, copy=False) | a.astype(float) | a.astype(float, order='F', copy=False)
np.array(a, copy=None) | np.array(a) | np.array(a, copy=None, ndmin=4) | np.array(a, copy=None, order='F') | np.asarray(a)
np.asarray(a, order='C') | np.asanyarray(a) | np.require(a, None, 'C') | np.require(a, None, 'F') | np.require(a, None, 'O')
np.require(a.T, None, 'O') | np.asarray_chkfinite(a) | np.broadcast_arrays(a, 1.0)[0] | np.real(a) | a.real | a.conj()
np.conj(a) | np.real_if_close(a) | a.squeeze() | np.expand_dims(a, 1) | np.atleast_3d(a) | a.view() | a[...] | a[()] | a.mT
np.rot90(a, 0) | np.rot90(a) | np.unstack(a, axis=1)[0] | np.trim_zeros(a[:, 0]) | list(a)[1] | np.array_split(a, 2)[1]
np.hsplit(a, [1])[0] | np.einsum('i...->...i', a) | np.meshgrid(a[0], a[0], sparse=True, copy=False)[0] | np.ix_(a.ravel('K'))[0]
a[True] | a[[0]] | a[a > 0] | a.take([0], 0) | a.flatten() | a.copy('K') | np.positive(a) | a.round(9) | np.sort(a, 0) | a.flat[:]
copy.copy(a) | copy.deepcopy(a) | np.lib.stride_tricks.sliding_window_view(a, 1, 0, writeable=True) | np.rollaxis(a, 1)
"""


@pytest.mark.parametrize("text", [part.strip() for line in SHARING.strip().splitlines() for part in line.split(" | ")])
def test_results_that_share_memory(text):
    """Written to both ways: what the result is changes with the array, and the array with the result."""

    def program(np, a):
        a = a * 1.0
        b = eval(text, {"np": np, "a": a, "copy": copy})
        a[0] = 5.0
        before = np.copy(b)
        b[...] = 7.0
        a.T[-1] += 1.0
        return a * 1.0, before, b * 1.0

    for x in ARRAYS:
        wanted = program(np, x)
        rows = np.stack([x, x])
        for found in (
            ad.vjp(lambda a: program(anp, a), x)[0],
            ad.jvp(lambda a: program(anp, a), (x,), (x,))[0],
            [y[0] for y in ad.vmap(lambda a: program(anp, a))(rows)] if "> 0" not in text and "trim" not in text else wanted,
        ):
            for y, z in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(y, z, err_msg=str(x.strides))


READ_ONLY = {
    "diagonal": lambda np, a: np.diagonal(a),
    "diagonal method": lambda np, a: a.diagonal(1),
    "diag": lambda np, a: np.diag(a),
    "linalg": lambda np, a: np.linalg.diagonal(a),
    "broadcast_to": lambda np, a: np.broadcast_to(a, (2, 3, 3)),
    "broadcast_to the same": lambda np, a: np.broadcast_to(a, (3, 3)),
    "windows": lambda np, a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=0),
    "imag": lambda np, a: np.imag(a),
    "part of a diagonal": lambda np, a: np.diagonal(a)[1:],
    "transpose of a broadcast": lambda np, a: np.broadcast_to(a, (2, 3, 3)).T,
}
WRITES = {
    "element": lambda np, v: v.__setitem__(0, 1.0),
    "nothing": lambda np, v: v.__setitem__(slice(0, 0), 1.0),
    "no element": lambda np, v: v.__setitem__(False, 1.0),
    "no mask": lambda np, v: v.__setitem__(v > 99.0, 1.0),
    "out of bounds": lambda np, v: v.__setitem__(99, 1.0),
    "out of bounds in a list": lambda np, v: v.__setitem__((..., [99]), 1.0),
    "another shape": lambda np, v: v.__setitem__(..., np.zeros(7)),
    "in place": lambda np, v: v.__iadd__(1.0),
    "fill": lambda np, v: v.fill(1.0),
    "out": lambda np, v: np.sin(v, out=v),
    "copyto": lambda np, v: np.copyto(v, 1.0),
    "put": lambda np, v: np.put(v, [0], 1.0),
    "place": lambda np, v: np.place(v, v > 99.0, [1.0]),
    "flat": lambda np, v: v.flat.__setitem__(0, 1.0),
    "sort": lambda np, v: v.sort(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("see", READ_ONLY.values(), ids=READ_ONLY)
def test_read_only_views(see, write):
    a = np.arange(9.0).reshape(3, 3)

    def f(np, a):
        a = a * 1.0
        v = see(np, a)
        with pytest.raises(ValueError, match="read-only"):
            write(np, v)
        a[1] = 5.0
        return a + 0.0, v + 0.0  # a view sees what is written to its array

    wanted = f(np, a)
    for found in (ad.vjp(lambda a: f(anp, a), a)[0], ad.jvp(lambda a: f(anp, a), (a,), (a,))[0]):
        for y, z in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(y, z)
