"""Programs for Numba, compiled and run by it in an environment of its own (`environments.py`)."""

import numpy as np
import pytest
from export.environments import NUMBA
from export.samples import SAMPLES

import adjoint as ad
from adjoint import export
from adjoint.core.errors import UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.program import parts

RNG = np.random.default_rng(3)
X, A = RNG.normal(size=6), RNG.normal(size=(4, 4))
A32 = A.astype(np.float32)
S = A @ A.T + 4 * np.eye(4)
TABLE = RNG.normal(size=2_000)
G = ("gradient",)

#: name: (function, arguments, derivatives)
PROGRAMS = {
    "scalars": (lambda x, a: np.sin(x) * a + a**3, (0.7, 2.0), ("gradient", "hessian")),
    "slices": (lambda x: np.sum(np.sin(x[1:4:2]) * x[-1]) + x[::-1][0], (X,), ("gradient", "hvp")),
    "slices of a matrix": (lambda a: np.sum(a[1:, 0] * a[0, :-1]), (A,), G),
    "network": (lambda a, w: np.sum(np.tanh(a @ w)), (A, A.T.copy()), G),
    "solve": (lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), (S, X[:4]), G),
    "cholesky": (lambda a: np.linalg.cholesky(a), (S,), ()),
    "loop": (lambda x: ad.scan(lambda c, r: (np.sin(c) + r * c, c * r), x[0], x), (X,), ()),
    "gradient of a loop": (lambda x: ad.fori_loop(0, 10, lambda i, c: np.sin(c) * x, x).sum(), (X,), G),
    "while": (lambda x: ad.while_loop(lambda c: np.sum(c) < 100, lambda c: c * c + 1, x), (X,), ()),
    "cond": (lambda x: ad.cond(x[0] > 0, lambda x: np.sum(x**2), lambda x: np.sum(np.exp(x)), x), (X,), G),
    "float32": (lambda x: np.sum(np.expm1(x) * x), (X.astype(np.float32),), G),
    "integers": (lambda n: (n * n + 3, -n, n // 2, n % 3, n << 1, n > 2), (np.arange(-3, 4),), ()),
    "bools": (lambda x, m: (np.where(m, x, -x), np.logical_not(m), m & (x > 0)), (X, X > 0), ()),
    "containers": (lambda p: (p["a"] @ p["b"], p["b"] * 2), ({"a": A, "b": X[:4]},), ()),
    "a large constant": (lambda x: np.sum(x * TABLE), (2.0,), G),
    "no elements": (lambda x: x * 2, (np.zeros((0, 3)),), ()),
    "a network of singles": (lambda a, w: np.sum(np.tanh(a @ w) * 0.5) / 3, (A32, A32.T.copy()), G),
    "numbers of singles": (lambda x, n: (x[0] * 2.0, n + 1, x[0] / n, 1 / x, x**2, x[1]), (X.astype(np.float32), np.int8(3)), ()),
    "a loop of singles": (lambda x: ad.scan(lambda c, r: (np.sin(c) * 0.5 + r, c * 2), x[0], x), (X.astype(np.float32),), ()),
    "a determinant of singles": (lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), (A32,), ()),
    "many results": SAMPLES["many results"],
    "zeros that win": (
        lambda x: np.sum(np.where(x > 0.5, np.sqrt(x - 0.5), 0.0) * np.arctan2(x, x * x)),
        (X,),
        ("gradient", "hvp"),
    ),
    "zeros of singles that win": (
        lambda x: np.sum(np.exp(x) * np.log1p(x * x) / x),
        (X.astype(np.float32),),
        ("gradient", "hessian"),
    ),
    "zeros of numbers that win": (lambda x, y: np.where(y > 0, np.log(x), 0.0) / y, (0.0, -1.0), G),
}
# Integers that wrap around, then are divided and compared: in more bits the results would be others.
PROGRAMS |= {
    f"whole numbers of {dtype}": (
        lambda n: ((n * 100) // 3, (n + n[0]) % 7, (n * 99 > 0) & (n - 120 < 0), (n[1] * n[2]) // 5, (-n) >> 1, abs(n), ~n * 3),
        (np.array([3, 100, 90, 0, 7], dtype),),
        (),
    )
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


@NUMBA.needed
def test_programs():
    sent, expected = [], []
    for name, (f, args, derivatives) in PROGRAMS.items():
        text = export.numba(f, *args, derivatives=derivatives)
        leaves = list(map(np.asarray, flatten((args, {}))[0]))
        for part in parts(f, args, derivatives=derivatives):
            more = [RNG.normal(size=t.shape).astype(t.dtype) for t in part.graph.input_types[len(leaves) :]]
            sent.append(("numba", text, part.name, leaves + more))
            with np.errstate(all="ignore"):
                expected.append((f"{name}: {part.name}", part.graph.run_flat(leaves + more)))
    results = NUMBA.run(sent)
    errors = [f"{name}: {found}" for (name, _), found in zip(expected, results, strict=True) if isinstance(found, str)]
    assert not errors, "\n".join(errors)
    for (name, wanted), found in zip(expected, results, strict=True):
        for a, b in zip(found, map(np.asarray, wanted), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            np.testing.assert_allclose(a, b, 2e-5 if b.dtype == np.float32 else 1e-12, 1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("op", "f", "x"),
    [
        ("det", np.linalg.det, np.stack([S, S])),
        ("matmul", lambda x: x @ x, np.stack([A, A])),
        ("matmul", lambda n: n @ n, np.ones((2, 2), int)),
        ("airy", lambda x: ad.core.op.OPS["airy"](x), 1.0),
        ("fmod", lambda n: np.fmod(n, 3), np.array([-5, 5])),
        ("div", lambda b: b / b, np.array([True, False])),
        ("sinc", np.sinc, np.array([True, False])),
        ("less", lambda z: z < 1, np.array([1j, 2.0])),
        ("matmul", lambda x: x @ np.ones((2, 2)), np.ones((2, 2), np.float32)),
        ("svd", lambda x: np.linalg.svd(x)[1], np.ones((0, 3))),
    ],
)
def test_what_numba_does_not_compile_is_refused(op, f, x):
    with pytest.raises(UnsupportedError, match=rf"export.numba has no code for '{op}': .* \(test_numba_source.py:\d+\)"):
        export.numba(f, x)


def test_an_index_is_a_tuple():
    text = export.numba(lambda x: np.sum(x[1:4:2] ** 2) + x[0], np.ones(5), derivatives="gradient")
    assert "(slice(1, 4, 2),)" in text
    assert "np.s_" not in text


@pytest.mark.parametrize("dtype", ["float16", "longdouble"])
def test_dtypes_that_numba_does_not_have_are_refused(dtype):
    with pytest.raises(UnsupportedError, match=r"the argument 'x' of export.numba is .*; Numba has no arrays of"):
        export.numba(lambda x: x, np.ones(3, dtype))
    with pytest.raises(UnsupportedError, match=r"export.numba has no code for 'cast'"):
        export.numba(lambda x: np.sum(x.astype(dtype)), np.ones(3))
