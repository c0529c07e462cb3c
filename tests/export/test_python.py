"""The Python source of a graph, run by itself, gives what the graph gives; what cannot be written is refused by name."""

import subprocess
import sys

import numpy as np
import pytest

import adjoint as ad
import adjoint.scipy.special as special
from adjoint.api.graph import parse
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise
from adjoint.numpy.table import load_all

load_all()
X = np.linspace(0.1, 1.2, 6).reshape(2, 3)

#: Ops that are more than a function of NumPy: iterations, LAPACK with care, sub-graphs.
UNWRITTEN = {
    "add_along", "argpartition", "banded_solve", "beta_by_shapes", "checkpoint", "cholesky_pullback", "cofactor",
    "cofactor_slope", "cond", "convolve", "eig", "equal_shared", "expm", "expm_slope", "gammainc_by_a", "hermitian", "inv",
    "is_hermitian", "last_write", "lexsort", "logm", "lstsq", "lu", "matrix_rank", "order_statistics",
    "overlap", "pbdv", "pbdv_slope", "pbvv", "pbvv_slope", "pbwa", "pbwa_slope", "permutation", "real_argument", "root",
    "roots", "scan", "share_equal", "sqrtm", "student_by_df", "sylvester", "triangular_solve", "while", "while_vjp", "windows",
    "zeta",
}  # fmt: skip


def run(program, inputs):
    scope = {}
    exec(program.python(), scope)
    return scope[[name for name in scope if callable(scope[name])][-1]](*inputs)


def same(program, inputs, exact=True):
    found, expected = run(program, inputs), program.run(*inputs)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-13)


def samples(op, rng):
    """Arguments and parameters, from the op's declared cases or from its arity."""
    cases = [(c.args, c.params) for c in op.cases]
    if not cases:
        arity = (
            op.arity if isinstance(op, Elementwise) else getattr(op.impl, "nin", None) or (1 if op.name == "stop_gradient" else 2)
        )
        cases = [([(2, 3)] * arity, {}), ([(), *[(3,)] * (arity - 1)], {})]
    for args, params in cases:
        domains = op.domain if isinstance(op.domain[0], tuple) else [op.domain] * len(args)
        yield [rng.uniform(*d, a) if isinstance(a, tuple) else a for a, d in zip(args, domains, strict=False)], params


INTEGERS = {"gcd", "lcm", "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert"}


@pytest.mark.parametrize("name", sorted(name for name in OPS if OPS[name].home.startswith("adjoint.") and name not in UNWRITTEN))
def test_every_op(name, rng):
    op = OPS[name]
    for args, params in samples(op, rng):
        if name in INTEGERS:
            args = [np.asarray(a).astype(np.int64) % 5 for a in args]
        with np.errstate(all="ignore"):
            program = ad.graph(lambda *xs, op=op, params=params: op(*xs, **params))(*args)
        same(program, args, exact=name != "norm")


@pytest.mark.parametrize("name", sorted(name for name in UNWRITTEN if name in OPS and OPS[name].cases))
def test_what_cannot_be_written_is_refused_by_name(name, rng):
    args, params = next(iter(samples(OPS[name], rng)))
    program = ad.graph(lambda *xs: OPS[name](*xs, **params))(*args)
    with pytest.raises(UnsupportedError, match=rf"'{name}' cannot be written .*test_python.py"):
        program.python()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) * x),
        lambda x: np.log1p(np.exp(x)) ** -2.0 - 0.5 / x,
        lambda x: np.where(x > 0.5, -x, x @ x.T @ x),
        lambda x: x[:, ::-1] + x[np.array([1, 0])] + np.arange(3.0),
        lambda x: np.concatenate([x, x * -0.0, np.full((1, 3), np.nan)]),
        lambda x: (x.astype(np.float32), x.astype(complex) * (1 - 2j), x > 0.5, np.ones(100)[:3] * x),
        lambda x: special.gammaln(x) + special.erf(x),
        lambda x: np.sum(np.linalg.svd(x)[0] * np.array([[1.0, 2.0], [3.0, 4.0]])),
        lambda x: np.linalg.svd(np.diag(np.array([2.0, 2.0, 0.0])) + 0.0 * x[:1])[1] @ np.ones(3),
        lambda x: np.cumprod(x, axis=1) + np.round(x, 1),
        lambda x: np.float32(2.0) * x.astype(np.float32) + np.linalg.norm(x) + np.max(x, axis=0),
    ],
)
def test_programs_and_their_derivatives(f):
    same(ad.graph(f)(X), (X,))
    forward = ad.graph(lambda x, t: ad.jvp(lambda x: f(x)[0] if isinstance(f(x), tuple) else f(x), (x,), (t,)))(X, np.cos(X))
    same(forward, (X, np.cos(X)))
    same(forward.simplify("finite"), (X, np.cos(X)))


def test_special_values_and_exact_zeros():
    f = lambda x: np.sum(np.where(x < 1, x, np.sqrt(x)))
    gradient = ad.graph(ad.grad(f))(X)
    point = np.array([[0.0, -0.0, np.inf], [np.nan, 1.0, 2.0]])
    same(gradient, (point,))
    assert run(gradient, (point,))[0, 0] == 1.0


def test_it_runs_by_itself(tmp_path):
    program = ad.graph(ad.grad(lambda x: np.sum(np.tanh(x) * 3.0)))(X)
    path = tmp_path / "gradient.py"
    path.write_text(program.python() + "\n\nif __name__ == '__main__':\n    print(lambda_([[0.0] * 3] * 2).tolist())\n")
    result = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str([[3.0] * 3] * 2)
    assert "adjoint" not in program.python()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_bits_and_python_numbers(dtype):
    n = np.array([0, 1, 3]).astype(dtype)
    same(ad.graph(lambda n: (n & 1, 1 | n, n ^ n, ~n, n << 2, 5 >> n))(n), (n,))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 9), (0, 3)])
def test_recurrences_of_every_dtype(shape, dtype, rng):
    a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    same(ad.graph(lambda a, b: OPS["recurrence"](a, b, axis=0))(a, b), (a, b))


def test_names_of_functions_written_out():
    program = parse("""graph _combined(_negligible: float64[3]) {
  v1: bool[3,3] = negligible _negligible {sign=-1}
  return v1
}""")
    same(program, (np.array([1.0, 1.0, 2.0]),))


def test_names_that_python_would_not_take():
    program = parse("""graph np(lambda: float64[], special: float64[], a.b: float64[]) {
  v3: float64[] = add lambda, special
  v4: float64[] = mul v3, a.b
  return v4, v3, 2.0
}""")
    assert "def np_(lambda_, special_, a_b):" in program.python()
    assert run(program, (1.0, 2.0, 3.0)) == (9.0, 3.0, 2.0)
