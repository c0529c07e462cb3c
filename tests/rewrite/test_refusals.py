"""Why equations that repeat, or seem to, are not a loop: `report()` says it, with the line."""

import numpy as np
import pytest

import adjoint as ad

ITERATIONS = 60


def reported(f, *args):
    """What the report says of the loops of a function, whose values are checked."""
    compiled = ad.jit(f)
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-5 if np.result_type(args[0]) == np.float32 else 1e-12)
    return compiled.report()


def at(f, offset):
    """A line of a function, as the report names it."""
    return f"(test_refusals.py:{f.__code__.co_firstlineno + offset})"


def test_a_value_of_many_iterations_ago():
    def f(x):
        seen = [x * k for k in range(1, 9)]
        for _ in range(ITERATIONS):
            seen.append(np.linalg.inv(np.eye(2) + np.sin(seen[-1])) + seen[-7] * 0.1)  # an op that may fail runs in no block
        return seen[-1]

    x = np.ones((2, 2))
    assert "27 iterations of 10 equations are a loop" in reported(f, x)  # two of the user's are one, and six are peeled
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)


def test_operands_that_follow_no_rule_are_rows():
    order = np.random.default_rng(0).integers(0, 8, ITERATIONS)

    def f(x):
        values = [x * k for k in range(1, 9)]
        for k in order:
            x = np.sin(x) * 0.5 + np.cos(values[k] * x)
        return x

    assert f"{ITERATIONS} iterations of 5 equations are a loop {at(f, 3)}" in reported(f, np.ones(3))


def test_exponents_that_change():
    powers = np.random.default_rng(0).integers(3, 6, ITERATIONS).tolist()

    def f(x):
        for k in powers:
            x = np.linalg.inv(np.eye(2) + np.sin(x**k * 0.1 + x))
        return x

    text = reported(f, np.ones((2, 2)))
    assert f"a number that 'power' takes changes from iteration to iteration {at(f, 2)}" in text


def test_numbers_out_of_range():
    def f(x):
        for i in range(ITERATIONS):
            x = np.where(np.less(x, 10 * i), x + 1, x)
        return x

    text = reported(f, np.ones(3, np.uint8))
    assert f"a number that changes from iteration to iteration is out of the range of uint8 {at(f, 2)}" in text


def test_arguments_that_must_stay_weak():
    def f(x, h):
        for _ in range(ITERATIONS):
            x = np.sin(np.where(x > 0, h, x)) + np.cos(x)
        return x

    text = reported(f, np.ones(3, np.float32), 0.5)
    assert f"'where' depends on a Python number being weak in promotion {at(f, 2)}" in text


def test_writes_along_a_diagonal_are_rolled():
    def f(a):
        for i in range(12):
            a[i, i] = np.sum(np.sin(a[0])) + 1
            a = np.tanh(a * 0.5 + np.cos(a) + np.sin(a) - a * a + np.arctan(a) * a - a * 3.0)
        return a

    compiled = ad.jit(f)
    x = np.linspace(0.1, 0.2, 144).reshape(12, 12)
    np.testing.assert_allclose(compiled(x), f(x.copy()), rtol=1e-10)
    assert "are a loop" in compiled.report()


def test_shapes_that_change():
    def f(x):
        for _ in range(ITERATIONS):
            x = np.concatenate([0.01 * np.cumsum(np.sin(x)), np.cos(x[:1])])
        return np.sum(x)

    text = reported(f, np.ones(3))
    assert f"420 equations are not a loop {at(f, 2)}: shapes or parameters change" in text


def test_slices_that_shrink():
    def f(x):
        total = 0.0
        for i in range(ITERATIONS):
            total = np.sin(total + np.max(x[i:])) * 0.5
        return total

    text = reported(f, np.linspace(0.0, 1.0, ITERATIONS + 3))
    assert f"not a loop {at(f, 3)}: shapes or parameters change, those of 'getitem' for one" in text


def test_equations_in_no_order():
    functions = [[np.sin, np.cos, np.tanh, np.arctan, np.exp][k] for k in np.random.default_rng(1).integers(0, 5, 200)]

    def f(x):
        for function in functions:
            x = function(x) * 0.5
        return x

    assert "are a loop" in reported(f, np.ones(3))
    text = reported(f, np.ones(10_000))  # all functions of all elements would take too long
    assert f"400 equations are not a loop {at(f, 2)}: the equations do not repeat in iterations" in text


# -- what looks like one of these, and is a loop ----------------------------------------------------------------


def test_a_first_iteration_that_gives_a_value_to_all_others():
    def f(x):
        first = None
        for _ in range(ITERATIONS):
            y = np.sin(x) * x
            first = y if first is None else first
            x = 0.5 * x + y * first + np.cos(y)
        return x

    assert f"{ITERATIONS - 1} iterations of" in reported(f, np.full(3, 0.1))


@pytest.mark.parametrize("starts", [2, 3])
def test_a_first_iteration_that_starts_from_several_values(starts):
    def f(x):
        values = [(k + 1) * x for k in range(starts)]
        for _ in range(ITERATIONS):
            y = sum(np.sin(v) / (k + 1) for k, v in enumerate(values))
            values = [y] * starts
        return y

    assert f"{ITERATIONS - 1} iterations of" in reported(f, np.ones(3))


def test_first_iterations_that_start_from_several_values():
    def f(x):
        a, b = [x, 2 * x], [3 * x, 4 * x]
        for _ in range(ITERATIONS):
            y = np.sin(a[-2]) + np.cos(b[-2]) * a[-1]
            a.append(y)
            b.append(y)
        return y

    assert f"{ITERATIONS - 2} iterations of" in reported(f, np.ones(3))
