"""Calls of scipy.linalg."""

import numpy as np
from surface.calls import F, X, call, entry
from surface.cases_linalg import H, P, R, factors, sizes, transposed, values_and_lines


def near_one(a):
    """A matrix whose eigenvalues are near one: its logarithm and its roots are real."""
    return 0.2 * a + np.eye(a.shape[-1], dtype=a.dtype)


def small(a):
    return 0.3 * a


def M(*shape, through=near_one):  # noqa: N802
    return F(*shape, low=-1, high=1, through=through)


SQUARE = [call(R(3, 3)), call(R(2, 2)), call(R(1, 1))]
FUNCTION = entry(call(M(3, 3)), call(M(2, 2)), call(M(1, 1)), call(A=M(2, 2)))
ESTIMATE = "SciPy draws random numbers to estimate a norm, which staging takes for the function's own"
BY_VALUE = "SciPy's result is complex for some real matrices, which a graph without numbers does not know"
PLAIN = {"overwrite_a": False, "check_finite": False}
BAND = lambda a: a + 4 * (np.arange(a.shape[-2]) == a.shape[-2] // 2)[:, None]  # a strong main diagonal
FACTOR = lambda a: np.tril(a) + 3 * np.eye(a.shape[-1], dtype=a.dtype)

CASES = {
    "solve": entry(
        call(R(3, 3), F(3)), call(R(3, 3), F(3, 2)), call(R(1, 1), F(1)), call(R(2, 2), F(2), transposed=True),
        call(P(2, 2), F(2), assume_a="pos"), call(H(2, 2), F(2, 1), assume_a="her"),
        call(P(2, 2), F(2), assume_a="pos", lower=True),
        call(F(2, 2, through=lambda a: a + a.T + 9 * np.eye(2, dtype=a.dtype)), F(2), assume_a="sym"),
        call(M(2, 2, through=FACTOR), F(2), assume_a="lower triangular"), call(R(2, 2), F(2), assume_a="gen", check_finite=False),
        call(F(3, through=np.diag), F(3), assume_a="diagonal"), call(R(2, 2, 2), F(2, 2, 1)),
    ),
    "solve_triangular": entry(
        call(M(3, 3, through=FACTOR), F(3), lower=True), call(M(2, 2, through=lambda a: FACTOR(a).T), F(2, 2)),
        call(R(1, 1), F(1)),
        *(call(M(2, 2, through=FACTOR), F(2), trans, True) for trans in (0, 1, 2, "N", "T", "C")),
        call(M(2, 2, through=FACTOR), F(2), lower=True, unit_diagonal=True),
        call(M(2, 2, through=FACTOR), F(2), 0, True, False, False, False),
    ),
    "solve_banded": entry(
        call((1, 1), M(3, 4, through=BAND), F(4)), call((1, 1), M(3, 4, through=BAND), F(4, 2)),
        call((2, 2), M(5, 6, through=BAND), F(6)), call((0, 0), M(1, 3, through=BAND), F(3)),
        call((1, 1), ab=M(3, 3, through=BAND), b=F(3, 1), overwrite_ab=False), call((1, 1), M(2, 3, 4, through=BAND), F(2, 4, 1)),
    ),
    "inv": entry(*SQUARE, call(R(2, 2, 2)), call(R(2, 2), **PLAIN), call(P(2, 2), assume_a="pos"),
        call(P(2, 2), assume_a="pos", lower=True)),
    "det": entry(*SQUARE, call(R(2, 2, 2)), call(R(2, 2), **PLAIN), call(X([[1.0, 2.0], [2.0, 4.0]]))),
    "pinv": entry(call(R(3, 2)), call(R(2, 3)), call(R(1, 1)), call(R(2, 2), rtol=1e-9), call(R(3, 2), check_finite=False)),
    "lstsq": entry(
        call(R(3, 2), F(3)), call(R(3, 2), F(3, 2)), call(R(2, 2), F(2)), call(R(2, 3), F(2)), call(R(1, 1), F(1)),
        call(R(3, 2), F(3), 1e-10), call(R(3, 2), F(3), cond=None, check_finite=False, lapack_driver="gelsd"),
        staged="whether there are residuals depends on the rank: refused",
        empty="SciPy gives an empty system one residual, or none, as its size goes",
    ),
    "solve_sylvester": entry(call(R(2, 2, 2), R(1, 1), F(2, 2, 1)), call(R(3, 3), R(2, 2), F(3, 2)),
        call(R(2, 2), R(2, 2), F(2, 2)), call(R(1, 1), R(1, 1), F(1, 1))),
    "solve_continuous_lyapunov": entry(call(R(2, 2, 2), F(2, 2, 2)), call(R(3, 3), F(3, 3)), call(R(2, 2), F(2, 2)),
        call(R(1, 1), q=F(1, 1))),
    "solve_lyapunov": entry(call(R(3, 3), F(3, 3)), call(R(2, 2), F(2, 2)), call(R(1, 1), q=F(1, 1))),
    "solve_discrete_lyapunov": entry(
        call(M(3, 3, through=small), F(3, 3)), call(M(2, 2, 2, through=small), F(2, 2, 2)),
        call(M(2, 2, through=small), F(2, 2), "direct"), call(M(1, 1, through=small), F(1, 1)),
        call(M(2, 2, through=small), F(2, 2), method="bilinear"),
    ),
    "cholesky": entry(call(P(2, 2, 2)), call(P(3, 3)), call(P(2, 2), True), call(P(1, 1)), call(P(2, 2), lower=False, **PLAIN)),
    "cho_factor": entry(call(P(3, 3)), call(P(2, 2), True), call(P(1, 1)), call(P(2, 2), lower=False, **PLAIN),
                        run=lambda f, a, lower=False, **o: np.tril(f(a, lower, **o)[0]) if lower else np.triu(f(a, lower=lower,
                        **o)[0])),
    "cho_solve": entry(
        call((M(3, 3, through=FACTOR), True), F(3)), call((M(2, 2, through=FACTOR), True), F(2, 2)),
        call((M(2, 2, through=lambda a: FACTOR(a).T), False), F(2)),
        call((M(1, 1, through=FACTOR), True), F(1), check_finite=False),
        call((M(2, 2, through=FACTOR), True), F(2), overwrite_b=False),
    ),
    "lu_factor": entry(*SQUARE, call(R(2, 2, 2)), call(R(2, 2), **PLAIN), call(X([[1.0, 2.0], [3.0, 1.0]]))),
    "lu_solve": entry(
        *(call((M(2, 2, through=FACTOR), np.array([1, 1], np.int32)), F(2), trans) for trans in (0, 1, 2)),
        call((M(3, 3, through=FACTOR), np.array([0, 2, 2], np.int32)), F(3, 2), check_finite=False),
        call((M(2, 2, through=FACTOR), np.array([0, 1], np.int32)), F(2), trans=0, overwrite_b=False),
        empty="the pivots are those of another size",
    ),
    "lu": entry(call(R(3, 3)), call(R(2, 2)), call(R(1, 1)).but(complex="SciPy's permutation is complex for this one shape"),
                call(R(2, 2), True), call(R(2, 2, 2)), call(X([[1.0, 2.0], [3.0, 1.0]]), p_indices=True),
                call(R(2, 2), permute_l=False, **PLAIN)),
    "qr": entry(
        call(R(3, 3)).but(take=sizes), call(R(3, 2), mode="economic").but(take=sizes),
        call(R(2, 2), mode="r").but(take=lambda r: np.abs(r[0])),
        call(R(3, 2)).but(take=sizes), call(R(1, 1), pivoting=False, **PLAIN).but(take=sizes), call(R(2, 3)).but(take=sizes),
        call(R(3, 2), mode="r").but(take=lambda r: np.abs(r[0])),
    ),
    "svd": entry(call(R(3, 3)), call(R(3, 2)), call(R(2, 3), False), call(R(1, 1)), call(R(3, 2), full_matrices=False, **PLAIN),
                 call(R(2, 2), lapack_driver="gesvd"), take=factors) + entry(call(R(3, 2), compute_uv=False)),
    "svdvals": entry(*SQUARE, call(R(2, 2, 2)), call(R(3, 2)), call(R(2, 2), **PLAIN)),
    "eigh": entry(
        call(H(3, 3)), call(H(2, 2), lower=False), call(H(1, 1)), call(H(2, 2), P(2, 2)), call(H(2, 2), P(2, 2), lower=False),
        call(H(3, 3), subset_by_index=[1, 2]), call(H(2, 2), check_finite=False, overwrite_a=False),
        call(H(2, 2), type=1, driver="evr"),
        take=values_and_lines,
    ) + entry(call(H(3, 3), eigvals_only=True), call(H(2, 2), b=P(2, 2), eigvals_only=True)),
    "eigvalsh": entry(call(H(3, 3)), call(H(2, 2), lower=False), call(H(1, 1)), call(H(2, 2), P(2, 2)),
        call(H(3, 3), subset_by_index=[0, 1]),
                      call(H(2, 2), type=1, check_finite=False)),
    "eig": entry(*SQUARE, call(R(2, 2), **PLAIN), take=values_and_lines,
        staged="vectors in a graph are always complex") + entry(call(R(3, 3), right=False)),
    "eigvals": entry(*SQUARE, call(R(2, 2), P(2, 2)), call(R(2, 2), **PLAIN)),
    "polar": entry(call(R(2, 2, 2)), call(R(3, 3)), call(R(2, 2), "left"), call(R(3, 2)), call(R(2, 2), side="right"),
        call(R(1, 1))),
    "norm": entry(
        call(F(3)), call(F(2, 3)), call(F(1)), *(call(F(3), p) for p in (1, 2, 3, np.inf, -np.inf)),
        *(call(R(3, 2), p) for p in ("fro", "nuc", 1, 2, np.inf)), call(F(2, 3), axis=0), call(F(2, 3), axis=-1, keepdims=True),
        call(F(2, 2, 3), "fro", axis=(0, 2)), call(F(3), ord=2, check_finite=False),
    ),
    "expm": [*FUNCTION, call(M(2, 2, 2)), call(X(np.zeros((2, 2)))), call(X([[0.0, 1.0], [0.0, 0.0]]))],
    "sqrtm": [*FUNCTION],
    "logm": entry(FUNCTION[0].but(staged=ESTIMATE), *FUNCTION[1:]),
    **dict.fromkeys(("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"), FUNCTION[1:]),
    "expm_frechet": entry(call(M(3, 3), F(3, 3)), call(M(2, 2), F(2, 2), compute_expm=False), call(M(1, 1), F(1, 1)),
                          call(A=M(2, 2), E=F(2, 2), method="SPS", check_finite=False)),
    # SciPy's result has an imaginary part of zeros, or none, as its way of computing goes; ours has none.
    "fractional_matrix_power": entry(call(M(3, 3), 0.5).but(staged=ESTIMATE), call(M(2, 2), 2), call(M(1, 1), 0.3),
        call(A=M(2, 2), t=-0.5).but(staged=BY_VALUE), take=np.real),
    "block_diag": entry(call(F(2, 2), F(1, 3)), call(F(2, 1, 2), F(2, 2)), call(F(2), F(2, 1)), call(F()), call(F(2, 2)),
        call(F(1, 2), 3.0, F(2))),
    "toeplitz": entry(call(F(3)), call(F(3), F(2)), call(F(2, 2)), call(F(2, 2), F(3)), call(F()), call(F(1)),
        call(c=F(2), r=F(3))),
    "circulant": entry(call(F(3)), call(F(1)), call(F(2, 3)), call(c=F(2))),
    "hankel": entry(call(F(3)), call(F(3), F(2)), call(F(1)), call(c=F(2), r=F(3))),
    "companion": entry(call(F(4, low=1)), call(F(2, 3, low=1)), call(F(2, low=1)), call(F(3, low=1))),
    "leslie": entry(call(F(3), F(2)), call(F(2, 3), F(2)), call(F(2), F(1)), call(f=F(4), s=F(3))),
    "convolution_matrix": entry(call(F(3), 4), call(F(2, 2), 3), call(F(2, 3), 2, "same"), call(F(3), 2, "same"),
        call(F(1), 2), call(F(3), n=4, mode="valid"), call(F(2), 5, "full")),
    "khatri_rao": entry(call(F(2, 3), F(2, 3)), call(F(2, 1, 2), F(2, 2, 2)), call(F(1, 2), F(3, 2)),
        call(F(1, 1), F(2, 1)), call(a=F(2, 2), b=F(2, 2))),
    "solve_toeplitz": entry(call(F(2, 2, through=lambda c: c + np.array([9, 0], c.dtype)), F(2, 2, 1)),
        call(F(3, through=lambda c: c + np.array([9, 0, 0], c.dtype)), F(3)), call(F(1, low=1), F(1)),
                            call((F(2, through=lambda c: c + np.array([9, 0], c.dtype)), F(2)), F(2, 2)),
                            call(F(2, through=lambda c: c + np.array([9, 0], c.dtype)), b=F(2), check_finite=False)),
    "matmul_toeplitz": entry(call(F(3), F(3)), call(F(2, 2), F(2, 2, 1)), call((F(2), F(3)), F(3, 2)), call(F(1), F(1)),
        call(F(2), x=F(2), check_finite=False),
                             empty="SciPy's result has no columns then, though x has"),
    "solve_circulant": entry(call(F(2, 2, through=lambda c: c + np.array([9, 0], c.dtype)), F(2), tol=1e-12),
                             call(F(2, 3, through=lambda c: c + np.array([[9], [0]], c.dtype)), F(3, 2), caxis=0, baxis=-1,
                             outaxis=-1),
                             call(F(3, through=lambda c: c + np.array([9, 0, 0], c.dtype)), F(3)), call(F(1, low=1), F(1)),
                             call(F(2, through=lambda c: c + np.array([9, 0], c.dtype)), F(2, 2)),
                             call(c=F(2, through=lambda c: c + np.array([9, 0], c.dtype)), b=F(2), singular="raise")),
}  # fmt: skip
_ = transposed
