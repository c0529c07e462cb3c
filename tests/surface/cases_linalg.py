"""Calls of numpy.linalg. Matrices that have to be symmetric or regular are made so from drawn ones, inside the function."""

import numpy as np
from surface.calls import F, O, X, call, entry


def transposed(a):
    return np.conj(np.swapaxes(a, -1, -2))


def positive(a):
    """A Hermitian positive definite matrix out of any."""
    return a @ transposed(a) + np.eye(a.shape[-1], dtype=a.dtype)


def hermitian(a):
    """A Hermitian matrix with eigenvalues that keep apart."""
    return a + transposed(a) + np.diag(np.arange(a.shape[-1]) * 9.0).astype(a.dtype)


def regular(a):
    """A matrix with singular values that keep apart, and different from zero."""
    m, n = a.shape[-2:]
    return a + (np.eye(m, n) * (6.0 + 6.0 * np.arange(n))).astype(a.dtype)


def R(*shape):  # noqa: N802
    return F(*shape, low=-1, high=1, through=regular)


def P(*shape):  # noqa: N802
    return F(*shape, low=-1, high=1, through=positive)


def H(*shape):  # noqa: N802
    return F(*shape, low=-1, high=1, through=hermitian)


def lines(v):
    """The projectors on single vectors (columns): they do not depend on the phase of the vectors."""
    return v[..., :, None, :] * np.conj(v[..., None, :, :])


def values_and_lines(result):
    w, v = result
    return w, lines(v)


def factors(result):
    """u s vᴴ and both families of projectors."""
    u, s, vh = result
    k = s.shape[-1]
    u, vh = u[..., :, :k], vh[..., :k, :]
    return s, (u * s[..., None, :]) @ vh, lines(u), lines(transposed(vh))


def sizes(result):
    """q r, and the sizes of the elements of r, which do not depend on signs."""
    q, r = result
    return q @ r, np.abs(r[..., :1, :])


SQUARE = [call(R(3, 3)), call(R(2, 2)), call(R(1, 1)), call(R(2, 2, 2))]
EMPTY = call(F(0, 0))
ZERO_STACK = call(F(0, 2, 2))

CASES = {
    "inv": entry(*SQUARE, EMPTY, ZERO_STACK),
    "det": entry(*SQUARE, EMPTY, call(X([[1.0, 2.0], [2.0, 4.0]])), call(X(np.zeros((3, 3))))),
    "slogdet": entry(*SQUARE, EMPTY, call(X([[1.0, 2.0], [3.0, 4.0]]))),
    "solve": entry(call(R(3, 3), F(3)), call(R(3, 3), F(3, 2)), call(R(1, 1), F(1)), call(R(2, 2, 2), F(2, 2, 1)),
                   call(R(2, 2), F(2, 2, 2)), call(a=R(2, 2), b=F(2)), call(F(0, 0), F(0))),
    "tensorsolve": entry(call(R(3, 3), F(3)),
        call(F(6, 2, 3, through=lambda a: np.reshape(regular(np.reshape(a, (6, 6))), (6, 2, 3))), F(6)),
                         call(R(1, 1), F(1)),
                         call(F(2, 2, 2, 2, through=lambda a: np.reshape(regular(np.reshape(a, (4, 4))), (2, 2, 2, 2))),
                                                   F(2, 2), axes=(0, 2))),
    "tensorinv": entry(call(R(3, 3), 1), call(F(4, 2, 2, through=lambda a: np.reshape(regular(np.reshape(a, (4, 4))), (4, 2,
        2))), ind=1),
                       call(F(2, 2, 4, through=lambda a: np.reshape(regular(np.reshape(a, (4, 4))), (2, 2, 4)))),
                       call(R(1, 1), 1)),
    "pinv": entry(call(R(3, 2)), call(R(2, 3)), call(R(3, 3)), call(R(2, 3, 2)), call(R(1, 1)), call(R(3, 2), 1e-10),
                  call(R(3, 2), rtol=1e-10), call(H(2, 2), hermitian=True)),
    "lstsq": entry(
        call(R(3, 2), F(3)), call(R(3, 2), F(3, 2)), call(R(2, 2), F(2)), call(R(2, 3), F(2)), call(R(3, 2), F(3), None),
        call(R(3, 2), F(3), rcond=1e-10), call(R(1, 1), F(1)), call(R(3, 2), F(3), rcond=-1),
        staged="whether there are residuals depends on the rank: refused",
    ),
    "cholesky": entry(call(P(3, 3)), call(P(2, 2)), call(P(1, 1)), call(P(2, 2, 2)), call(P(2, 2), upper=True), EMPTY),
    "qr": entry(
        call(R(3, 3)).but(take=sizes), call(R(3, 2)).but(take=sizes), call(R(2, 3)).but(take=sizes),
        call(R(2, 2, 2)).but(take=sizes),
        call(R(3, 2), "complete").but(take=sizes), call(R(3, 2), mode="r").but(take=np.abs), call(R(1, 1)).but(take=sizes),
    ),
    "eigh": entry(call(H(3, 3)), call(H(2, 2)), call(H(1, 1)), call(H(2, 2, 2)), call(H(3, 3), "U"), call(H(2, 2), UPLO="L"),
                  take=values_and_lines),
    "eigvalsh": entry(call(H(3, 3)), call(H(2, 2)), call(H(1, 1)), call(H(2, 2, 2)), call(H(3, 3), "U"), call(H(2, 2), UPLO="L")),
    "eig": entry(call(R(3, 3)), call(R(2, 2)), call(R(1, 1)), call(R(2, 2, 2)),
        call(X([[0.0, 1.0], [-2.0, 0.5]])).but(take=lambda r: (r[0] ** 3).sum()), take=values_and_lines,
                 staged="whether the eigenvalues are real depends on the numbers: refused"),
    "eigvals": entry(call(R(3, 3)), call(R(2, 2)), call(R(1, 1)), call(R(2, 2, 2)),
                     call(X([[0.0, 1.0], [-2.0, 0.5]])).but(take=lambda w: (w**3).sum()),
                     staged="whether the eigenvalues are real depends on the numbers: refused"),
    "svd": entry(
        call(R(3, 3)), call(R(3, 2)), call(R(2, 3)), call(R(1, 1)), call(R(2, 3, 2), False), call(R(3, 2), full_matrices=False),
        call(R(3, 2), full_matrices=True), take=factors,
    ) + entry(call(R(3, 2), compute_uv=False), call(R(3, 3), True, False), call(H(3, 3), compute_uv=False, hermitian=True),
              call(H(3, 3), hermitian=True).but(take=factors)),
    "svdvals": entry(call(R(3, 3)), call(R(3, 2)), call(R(2, 3)), call(R(1, 1)), call(R(2, 2, 2))),
    "cond": entry(*SQUARE, *(call(R(3, 3), p) for p in (2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")), call(R(3, 2)),
        call(R(2, 2), p=2)),
    "norm": entry(
        call(F(3)), call(F(2, 3)), call(F()), call(F(1)), call(F(2, 2, 2)), call(F(0)),
        *(call(F(3), p) for p in (0.5, 1, 2, 3, 2.5, -1, -2, np.inf, -np.inf)), *(call(R(3, 2), p) for p in
          ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)), call(F(2, 3), None, 0), call(F(2, 3), axis=-1),
          call(F(2, 3), 1, axis=1),
        call(F(2, 3), axis=(0, 1)), call(F(2, 2, 3), "fro", axis=(0, 2), keepdims=True), call(F(2, 3), keepdims=True),
        call(F(2, 2, 3), 1, (-1, 0)), call(F(2, 2, 3), np.inf, (0, 1)), call(F(2, 3), ord=3, axis=0, keepdims=True),
    ),
    "vector_norm": entry(
        call(F(3)), call(F(2, 3)), call(F()), call(F(1)), *(call(F(3), ord=p) for p in (1, 2, 3, 0.5, -1, np.inf, -np.inf)),
        call(F(2, 3), axis=0), call(F(2, 3), axis=-1, keepdims=True), call(F(2, 2, 3), axis=(0, -1)),
        call(F(2, 3), keepdims=True),
    ),
    "matrix_norm": entry(
        call(R(3, 3)), call(R(3, 2)), call(R(2, 2, 2)), call(R(1, 1)),
        *(call(R(3, 2), ord=p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)), call(R(3, 2), keepdims=True),
    ),
    "matrix_power": entry(*(call(R(2, 2), n) for n in (0, 1, 2, 3, 5, -1, -2)), call(R(3, 3), 2), call(R(2, 2, 2), n=3),
                          call(R(1, 1), 4)),
    "multi_dot": entry(call([F(2, 3), F(3, 2)]), call([F(2, 3), F(3, 2), F(2, 2)]), call([F(3), F(3, 2), F(2)]),
                       call([F(2, 3), F(3, 1), F(1, 2), F(2, 2)]), call((F(3), F(3))), call([F(2, 3), F(3)], out=O(2))),
    "matmul": entry(call(F(2, 3), F(3, 2)), call(F(3), F(3)), call(F(2, 2, 3), F(3)), call(F(0, 2), F(2, 1))),
    "tensordot": entry(call(F(2, 3), F(2, 3)), call(F(3), F(2), axes=0), call(F(2, 3), F(3, 2), axes=1),
                       call(F(2, 3), F(3, 2), axes=((0, 1), (1, 0))), call(F(2, 3), F(4, 3), axes=(-1, -1))),
    "vecdot": entry(call(F(3), F(3)), call(F(2, 3), F(3)), call(F(2, 3), F(2, 3), axis=0), call(F(2, 3), F(2, 3), axis=-1),
                    call(F(0), F(0))),
    "outer": entry(call(F(3), F(2)), call(F(1), F(3)), call(F(0), F(2))),
    "cross": entry(call(F(3), F(3)), call(F(2, 3), F(2, 3)), call(F(3, 2), F(3, 2), axis=0), call(F(1, 3), F(2, 3), axis=-1)),
    "diagonal": entry(call(F(3, 3)), call(F(2, 3), offset=1), call(F(2, 2, 3), offset=-1), call(F(1, 1))),
    "trace": entry(call(F(3, 3)), call(F(2, 3), offset=1), call(F(2, 2, 3), offset=-1), call(F(2, 2), dtype=np.float64),
        call(F(1, 1))),
    "matrix_transpose": entry(call(F(2, 3)), call(F(2, 2, 3)), call(F(1, 1)), call(F(0, 2))),
}  # fmt: skip
