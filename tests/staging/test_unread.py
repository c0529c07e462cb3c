"""Operations that may fail, of which nothing reads the result: compiled functions raise as Python does."""

import numpy as np
import pytest
import scipy.linalg

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.tree import flatten

X = np.array([0.5, 1.5, -1.0])
DEFINITE, INDEFINITE = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
SINGULAR, NAN = np.ones((2, 2)), np.full((2, 2), np.nan)
INSIDE, OUTSIDE, BELOW = np.array([0, 2]), np.array([0, 3]), np.array([-4, 1])


def times_zero(x, a):
    return np.sum(x**2) + 0 * np.sum(np.linalg.cholesky(a))


def written_over(x, a):
    y = np.linalg.inv(a)[0, 0]
    y = 1.0
    return np.sum(x**2) * y


def in_a_loop(x, a):
    for k in range(20):
        np.linalg.cholesky(a + k * np.eye(2) * 0.01)
        x = x + 0.1 * np.sin(x)
    return np.sum(x)


def beside_a_loop(x, i):
    total = 0.0
    for k in range(40):
        total = total + np.sum(np.sin(x) * k) + X[i][0]  # for the value, not for the gradient
    return total


def in_a_helper(x, i):
    def helper(y):
        return y[i] * 2.0

    helper(x)
    return np.sum(x**2)


# A function, a second argument for which it is defined, and others for which it raises.
CASES = {
    "cholesky": (lambda x, a: (np.linalg.cholesky(a), np.sum(x**2))[1], DEFINITE, [INDEFINITE, -DEFINITE]),
    "cholesky of a traced matrix": (lambda x, a: (np.linalg.cholesky(a * x[0]), np.sum(x**2))[1], DEFINITE, [INDEFINITE]),
    "inv": (lambda x, a: (np.linalg.inv(a), np.sum(x**2))[1], DEFINITE, [SINGULAR]),
    "solve": (lambda x, a: (np.linalg.solve(a, x[:2]), np.sum(x**2))[1], DEFINITE, [SINGULAR]),
    "svd": (lambda x, a: (np.linalg.svd(a), np.sum(x**2))[1], DEFINITE, [NAN]),
    "lstsq": (lambda x, a: (np.linalg.lstsq(a, x[:2]), np.sum(x**2))[1], DEFINITE, [NAN]),
    "triangular": (lambda x, a: (scipy.linalg.solve_triangular(a, x[:2]), np.sum(x**2))[1], DEFINITE, [np.zeros((2, 2))]),
    "the length of a factor": (lambda x, a: np.sum(x**2) * len(np.linalg.cholesky(a)), DEFINITE, [INDEFINITE]),
    "times zero": (times_zero, DEFINITE, [INDEFINITE]),
    "written over": (written_over, DEFINITE, [SINGULAR]),
    "in a loop": (in_a_loop, DEFINITE, [INDEFINITE - np.eye(2)]),
    "beside a loop": (beside_a_loop, INSIDE, [OUTSIDE, BELOW]),
    "an index array": (lambda x, i: (x[i], np.sum(x**2))[1], INSIDE, [OUTSIDE, BELOW]),
    "small integers as an index": (lambda x, i: (x[i], np.sum(x**2))[1], INSIDE.astype(np.int8), [OUTSIDE.astype(np.int8)]),
    "an index": (lambda x, i: (x[i], np.sum(x**2))[1], 1, [3, -4]),
    "two index arrays": (lambda x, i: (np.outer(x, x)[i, i], np.sum(x**2))[1], INSIDE, [OUTSIDE]),
    "an index behind": (lambda x, i: (np.outer(x, x)[:, i], np.sum(x**2))[1], INSIDE, [OUTSIDE]),
    "a table": (lambda x, i: (X[i], np.sum(x**2))[1], INSIDE, [OUTSIDE]),
    "in a helper": (in_a_helper, INSIDE, [OUTSIDE]),
    "take_along_axis": (lambda x, i: (np.take_along_axis(x, i, 0), np.sum(x**2))[1], INSIDE, [OUTSIDE]),
    "take": (lambda x, i: (np.take(x, i), np.sum(x**2))[1], INSIDE, [OUTSIDE]),
    "choose": (lambda x, i: (np.choose(i, [x[:2], x[1:]]), np.sum(x**2))[1], np.array([0, 1]), [OUTSIDE]),
}

MODES = {
    "value": lambda f: f,
    "grad": ad.grad,
    "value_and_grad": ad.value_and_grad,
    "jvp": lambda f: lambda x, p: ad.jvp(lambda y: f(y, p), (x,), (np.ones(3),)),
    "hvp": lambda f: lambda x, p: ad.hvp(lambda y: f(y, p))(x, np.ones(3)),
    "vmap": lambda f: lambda x, p: ad.vmap(f, (0, None))(np.stack([x, 2 * x]), p),
}


def outcome(f, p):
    try:
        return f(X, p)
    except (np.linalg.LinAlgError, IndexError, ValueError) as error:
        return error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_raises_as_python_does(case, mode):
    f, good, bad = CASES[case]
    plain = MODES[mode](f)
    compiled = ad.jit(plain)
    for calls in ([good, *bad, good], [*bad, good]):  # an error in the first call, and in later ones
        for p in calls:
            wanted, found = outcome(plain, p), outcome(compiled, p)
            assert type(found) is type(wanted)
            if not isinstance(wanted, Exception):
                for y, expected in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
                    np.testing.assert_allclose(y, expected, rtol=1e-12)
    for p in bad:  # which Python notices without a transform, too
        with pytest.raises((np.linalg.LinAlgError, IndexError, ValueError)):
            f(X, p)


@pytest.mark.parametrize("case", CASES)
def test_transforms_of_compiled_functions(case):
    f, good, bad = CASES[case]
    compiled = ad.grad(ad.jit(f))
    for p in (good, *bad, good):
        wanted, found = outcome(ad.grad(f), p), outcome(compiled, p)
        assert type(found) is type(wanted)
        if not isinstance(wanted, Exception):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_dead_code_that_cannot_fail_is_eliminated():
    program = ad.jit(lambda x, i: (np.exp(x) @ x, np.sum(x))[1]).lower(X, 1)
    assert program.unread == 0
    assert [e.op.name for e in program.graph.equations] == ["sum"]


def test_an_index_is_checked_without_its_table():
    program = ad.jit(ad.grad(lambda x, i: np.sum(np.sin(x)[i]))).lower(np.ones(100), INSIDE)
    assert program.unread == 1
    assert "sin" not in [e.op.name for e in program.graph.equations]


def test_results_that_are_read_are_computed_once():
    program = ad.jit(lambda x, a: np.sum(np.linalg.cholesky(a)) + np.sum(x[INSIDE])).lower(X, DEFINITE)
    assert program.unread == 0


def test_empty_index_arrays():
    compiled = ad.jit(lambda x, i: (x[i], np.sum(x))[1])
    assert compiled(X, np.zeros(0, int)) == np.sum(X)


def test_programs_from_disk_raise_too(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        compiled = ad.jit(lambda x, a: (np.linalg.cholesky(a), np.sum(x**2))[1])
        assert compiled(X, DEFINITE) == np.sum(X**2)
        with pytest.raises(np.linalg.LinAlgError):
            compiled(X, INDEFINITE)
    without = ad.jit(lambda x, a: (a * 1.0, np.sum(x**2))[1])
    assert without(X, INDEFINITE) == np.sum(X**2)


def test_an_error_that_is_caught_runs_eagerly():
    def f(x, a):
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return np.sum(x)
        return np.sum(x**2)

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match="tried for its error only"):
        assert compiled(X, DEFINITE) == np.sum(X**2)
    assert compiled(X, INDEFINITE) == np.sum(X)
