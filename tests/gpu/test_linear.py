"""Linear algebra on a GPU, by cuBLAS and cuSOLVER: single matrices, stacks of small and of large ones, and their gradients."""

import numpy as np
import pytest
from on_device import on_cpu, program, results

import adjoint as ad

STACKS = {"one": (), "few": (3,), "two axes": (2, 3), "a stack of one": (1,)}
SIZES = {"one": (1, 5, 150), "few": (5, 40, 150)}  # at some of them, routines change


def drawn(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def regular(*shape, dtype=np.float64):
    return drawn(*shape, dtype=dtype) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1], dtype=dtype)


def definite(*shape, dtype=np.float64):
    a = drawn(*shape, dtype=dtype)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=dtype)


def transposed(a):
    return np.swapaxes(a, -1, -2)


def decomposed(a):
    """What does not depend on the signs of eigenvectors."""
    w, v = np.linalg.eigh(a)
    return w, (v * w[..., None, :]) @ transposed(v), transposed(v) @ v


def singular(a, full=False):
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], transposed(u) @ u, vh @ transposed(vh)


def orthogonal(a, mode="reduced"):
    q, r = np.linalg.qr(a, mode)
    return q @ r, transposed(q) @ q, np.abs(r)


SQUARE = {
    "cholesky": (np.linalg.cholesky, definite),
    "inverse": (np.linalg.inv, regular),
    "determinant": (lambda a: (*np.linalg.slogdet(a), np.linalg.det(a * 0.1)), regular),
    "eigh": (decomposed, definite),
    "eigh of the upper triangle": (lambda a: np.linalg.eigh(a, "U")[0], regular),
    "gradient of cholesky": (ad.grad(lambda a: np.sum(np.sin(np.linalg.cholesky(a)))), definite),
    "gradient of inverse": (ad.grad(lambda a: np.sum(np.linalg.inv(a) ** 2)), regular),
    "gradient of eigenvalues": (ad.grad(lambda a: np.sum(np.linalg.eigvalsh(a + transposed(a)) ** 2)), regular),
    "gradient of slogdet": (ad.grad(lambda a: np.sum(np.linalg.slogdet(a)[1])), regular),
}
SYSTEMS = {
    "solve": np.linalg.solve,
    "solve of a transpose": lambda a, b: (np.linalg.solve(a, b), np.linalg.solve(transposed(a), b)),
    "gradient of solve": ad.grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), (0, 1)),
    "by a factor": lambda a, b: np.linalg.solve(np.linalg.cholesky(a @ transposed(a)), b),
    "gradient by a factor": ad.grad(lambda a, b: np.sum(np.linalg.solve(np.linalg.cholesky(a @ transposed(a)), b) ** 2), (0, 1)),
}
RECTANGULAR = {
    "qr": orthogonal,
    "complete qr": lambda a: orthogonal(a, "complete"),
    "svd": singular,
    "full svd": lambda a: singular(a, True),
    "singular values": ad.grad(lambda a: np.sum(np.linalg.svd(a, compute_uv=False) ** 3)),
    "pseudo-inverse": np.linalg.pinv,
    "gradient of qr": ad.grad(lambda a: np.sum(np.sin(np.abs(np.linalg.qr(a)[1])))),
}


def agree(gpu, f, args, loose=1.0):
    unit = (1e-4 if args[0].dtype == np.float32 else 1e-9) * loose
    for a, b in zip(results(f, args, gpu), on_cpu(f, args), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=unit, atol=unit * (1 + np.max(np.abs(b), initial=0, where=np.isfinite(b))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(gpu, name, stack):
    f, made = SQUARE[name]
    for n in SIZES.get(stack, (6,)):
        agree(gpu, f, (made(*STACKS[stack], n, n),), loose=n)
    if stack in SIZES:
        agree(gpu, f, (made(*STACKS[stack], 6, 6, dtype=np.float32),), loose=10)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(gpu, name, stack):
    for n, columns in ((1, 1), (150, 4)) if stack in SIZES else ((5, 3),):
        agree(gpu, SYSTEMS[name], (regular(*STACKS[stack], n, n), drawn(*STACKS[stack], n, columns)), loose=n)
    # One matrix for all right-hand sides.
    agree(gpu, SYSTEMS[name], (regular(4, 4, dtype=np.float32), drawn(*STACKS[stack], 4, 3, dtype=np.float32)), loose=10)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", RECTANGULAR)
def test_rectangular_matrices(gpu, name, stack):
    for m, n in ((1, 1), (3, 4), (50, 7)) if stack in SIZES else ((4, 3),):
        if name == "gradient of qr" and m < n:
            continue
        agree(gpu, RECTANGULAR[name], (drawn(*STACKS[stack], m, n),), loose=m)
    if stack in SIZES:
        agree(gpu, RECTANGULAR[name], (drawn(*STACKS[stack], 5, 3, dtype=np.float32),), loose=10)


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
FAILURES = {
    "a singular matrix": (np.linalg.solve, (SINGULAR, np.ones((2, 1))), "Singular"),
    "one of a stack": (np.linalg.inv, (np.stack([np.eye(2), SINGULAR]),), "Singular"),
    "an indefinite matrix": (np.linalg.cholesky, (-np.eye(3),), "positive definite"),
    "an indefinite one of a stack": (np.linalg.cholesky, (np.stack([np.eye(3), -np.eye(3)]),), "positive definite"),
    "no number": (lambda a: np.linalg.eigh(a)[0], (np.full((3, 3), np.nan),), "Eigenvalues"),
    "no number, for singular values": (lambda a: np.linalg.svd(a)[1], (np.full((3, 2), np.nan),), "SVD"),
    "in a loop": (lambda a: ad.scan(lambda c, _: (np.linalg.cholesky(c) - 2, None), a, None, 3)[0], (np.eye(3) * 9,), "definite"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(gpu, name):
    f, args, message = FAILURES[name]
    made, inputs = program(f, [np.eye(x.shape[-1]) + np.zeros(x.shape) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x * 0 + 1
                               for x in args], gpu)  # fmt: skip
    inputs = [gpu.adopt(x, t) for x, t in zip(args, (v.type for v in map(_whole, made.lowered.inputs, args)), strict=True)]
    with pytest.raises(np.linalg.LinAlgError, match=message):
        made(*inputs)


def _whole(buffer, x):
    from adjoint.compiler.lower.kernel import View

    return View.whole(buffer, x.shape)


def test_determinants_of_singular_matrices(gpu):
    stack = np.stack([np.eye(2), SINGULAR])
    agree(gpu, lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), (stack,))
