"""Staging for a compiler computes nothing until Python asks for a number."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.extend import elementwise
from adjoint.staging import lazy
from adjoint.staging.guard import Guarded


def known(stage):
    """How many values are known that were not given."""
    return len(stage.numbers.known) - len(stage.inputs)


def test_nothing_is_computed_before_it_is_asked_for():
    with Guarded("test") as stage:
        x = stage.input_like("x", np.arange(4.0))
        y = np.sin(x) * x
        z = np.cos(x) + 1.0
        assert known(stage) == 0
        assert np.sum(y) > 0
        assert known(stage) == 4  # not z
        assert np.sum(y) > 0
        assert len(stage.guards) == 1
        assert z.shape == (4,)


def test_each_equation_runs_once():
    runs = []

    def counted(x):
        runs.append(x.size)
        return np.sin(x)

    op = elementwise("lazily_counted", counted, lambda y, x: (np.cos(x),))

    def f(x):
        y = op(x)
        for _ in range(5):
            if np.sum(y) > 0:
                y = y + 0.5
        return y

    with Guarded("test") as stage:
        f(stage.input_like("x", np.ones(3)))
    assert runs.count(3) == 1


def test_long_chains():
    with Guarded("test") as stage:
        x = stage.input_like("x", np.float64(1.0))
        for _ in range(20_000):
            x = x * 0.5 + 1.0
        assert x > 1.9
        assert known(stage) == 40_001


def test_large_arrays_that_are_not_used_any_more_are_forgotten(monkeypatch):
    monkeypatch.setattr(lazy, "ROOM", 1 << 20)
    monkeypatch.setattr(lazy, "COPIES", 1)
    x = np.linspace(0.0, 1.0, 10_000)
    with Guarded("test") as stage:
        y, want = stage.input_like("x", x), x
        early = np.cos(y)
        for _ in range(100):
            y, want = np.sin(y) + 0.1, np.sin(want) + 0.1
        for _ in range(3):
            assert np.sum(y) == np.sum(want)
            assert stage.numbers.held <= stage.numbers.room + 2 * x.nbytes
            assert np.sum(early) == np.sum(np.cos(x))
            y, want = y * 2.0, want * 2.0


def test_equal_operations_are_one():
    def f(x, y):
        a = x * y
        b = y * x
        a[0] = 7.0  # b is another array
        return a + b + np.sum(x * y)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    compiled = ad.jit(f)
    np.testing.assert_array_equal(compiled(x, y), f(x, y))
    staged = compiled.lower(x, y).staged
    assert [e.op.name for e in staged.equations].count("mul") == 1


def test_negative_zeros_and_nan_are_constants_of_their_own():
    def f(x):
        return np.copysign(x, 0.0), np.copysign(x, -0.0), x * np.nan + x * float("nan"), x * complex(1, -0.0), x * complex(1, 0.0)

    for got, want in zip(ad.jit(f)(np.ones(2)), f(np.ones(2)), strict=True):
        assert got.tobytes() == want.tobytes()


# -- errors are NumPy's own ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: x + np.ones(4), ValueError, "operands could not be broadcast together"),
        (lambda x: x[0] + x[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        (lambda x: x @ np.ones((2, 2)), ValueError, "matmul"),
        (lambda x: np.linalg.inv(x[:, None] * x), np.linalg.LinAlgError, "Singular matrix"),
        (lambda x: np.linalg.cholesky(-x[:, None] * x), np.linalg.LinAlgError, "not positive definite"),
    ],
)
def test_mistakes_are_reported_as_by_numpy(f, error, words):
    with pytest.raises(error, match=words):
        ad.jit(f)(np.arange(3.0))


def test_errors_of_a_question():
    def f(x):
        return x if np.linalg.inv(x)[0, 0] > 0 else -x

    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(f)(np.zeros((2, 2)))
    np.testing.assert_array_equal(ad.jit(f)(np.eye(2)), np.eye(2))


def test_an_op_whose_types_are_only_known_by_running_it():
    op = elementwise("lazily_vectorized", np.vectorize(lambda x: x * 2.0), lambda y, x: (2.0 + 0 * x,))
    np.testing.assert_array_equal(ad.jit(lambda x: op(x) + 1.0)(np.ones(3)), np.full(3, 3.0))
    np.testing.assert_array_equal(ad.jit(ad.grad(lambda x: np.sum(op(x) ** 2)))(np.ones(3)), np.full(3, 8.0))


# -- Python numbers stay weak --------------------------------------------------------------------------------------


def test_python_numbers_as_arguments():
    def f(x, h, n):
        return x * h, x * (h * h), x + n, x * h**2, (x > 0) * n

    x = np.ones(2, np.float32)
    for got, want in zip(ad.jit(f)(x, 0.5, 3), f(x, 0.5, 3), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_integers_that_do_not_fit():
    def f(x, n):
        return x + n

    assert ad.jit(f)(np.zeros(2, np.uint8), 200).dtype == np.uint8
    with pytest.raises(OverflowError):
        ad.jit(f)(np.zeros(2, np.uint8), 300)
    with pytest.raises(OverflowError):
        ad.jit(lambda x: (x + 5) + 300)(np.zeros(2, np.uint8))
