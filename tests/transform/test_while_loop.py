"""Derivatives and batches of `while_loop`: those of the iterations that were run."""

import numpy as np
import pytest

import adjoint as ad


def collatz_like(x, limit):
    return ad.while_loop(lambda s: s[0] < limit, lambda s: (s[0] * (1.3 + 0.1 * np.sin(s[1])), s[1] + x), (x, 0.0))


def written_out(x, limit):
    a, b = x, 0.0
    while a < limit:
        a, b = a * (1.3 + 0.1 * np.sin(b)), b + x
    return a, b


def loss(run, limit):
    return lambda x: (lambda s: s[0] * np.cos(s[1]))(run(x, limit))


LIMITS = [0.0, 1.0, 5.0, 100.0]  # none, few and many iterations


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("checked", ["eager", "compiled"])
def test_both_modes(limit, checked):
    run = ad.jit if checked == "compiled" else lambda g: g
    f, plain = loss(collatz_like, limit), loss(written_out, limit)
    np.testing.assert_allclose(run(ad.grad(f))(0.7), ad.grad(plain)(0.7), rtol=1e-10)
    np.testing.assert_allclose(run(ad.derivative(f))(0.7), ad.grad(plain)(0.7), rtol=1e-10)


@pytest.mark.parametrize("limit", LIMITS)
def test_second_order_by_all_nestings(limit):
    f, expected = loss(collatz_like, limit), ad.grad(ad.grad(loss(written_out, limit)))(0.7)
    for twice in (ad.grad(ad.grad(f)), ad.derivative(ad.grad(f)), ad.grad(ad.derivative(f)), ad.derivative(ad.derivative(f))):
        np.testing.assert_allclose(twice(0.7), expected, rtol=1e-8)


def test_examples_that_end_after_different_numbers_of_iterations():
    xs = np.array([0.1, 0.7, 3.0, 50.0])
    f = loss(collatz_like, 5.0)
    np.testing.assert_allclose(ad.vmap(f)(xs), [f(x) for x in xs], rtol=1e-12)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(xs), [ad.grad(f)(x) for x in xs], rtol=1e-10)
    np.testing.assert_allclose(ad.grad(lambda xs: np.sum(ad.vmap(f)(xs)))(xs), [ad.grad(f)(x) for x in xs], rtol=1e-10)


def test_an_example_that_has_ended_does_not_spoil_the_others():
    """Iterations after the end of an example may divide by zero; their results are not used."""
    f = lambda x: ad.while_loop(lambda s: s > 1.0, lambda s: s / (s - 1.0) - 1.0, x)
    xs = np.array([0.5, 1.5, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ad.vmap(ad.grad(f))(xs), [ad.grad(f)(x) for x in xs], rtol=1e-10)


@pytest.mark.parametrize("run", [lambda g: g, ad.jit], ids=["eager", "compiled"])
def test_zeros_of_masks_and_of_arithmetic_at_second_order(run):
    """The inner cotangent is 0 at 0: by the mask, which wins, or as 2y is, which does not."""
    roots = lambda x: ad.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.sqrt(s[1])), (0, x))[1]
    twice = lambda f: run(ad.grad(lambda x: np.sum(ad.grad(f)(x))))
    x = np.array([0.0, 1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(twice(lambda x: np.sum(roots(x) ** 2))(x), [np.nan, -0.25])
        np.testing.assert_allclose(twice(lambda x: np.sum(np.where(x > 0.5, roots(x), x)))(x), [0.0, -0.1875])


def python_loop(count, f, v):
    for _ in range(count):
        v = f(v)
    return v


def while_loop(count, f, v):
    return ad.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, f(c[1])), (0, v))[1]


SECOND = {
    "forward over reverse": lambda f, v: lambda x: ad.jvp(ad.grad(f), (x,), (v,))[1],
    "reverse over reverse": lambda f, v: ad.grad(lambda x: np.sum(v * ad.grad(f)(x))),
    "reverse over forward": lambda f, v: ad.grad(lambda x: ad.jvp(f, (x,), (v,))[1]),
}
#: Functions of x and a loop, and whether the second derivative at 0 is that of a mask, or not known.
LOOPED = {
    "1/ behind": (lambda x, loop: 1 / loop(3, lambda v: np.cos(v) - 1, x), None),
    "exp(-1/v²) inside": (lambda x, loop: loop(9, lambda v: np.exp(-1 / v**2), x), None),
    "product of roots": (lambda x, loop: loop(3, lambda v: np.prod(v) * np.array([1.0, 0.0, 2.0]), np.sqrt(x) * x), None),
    "root of a square inside": (lambda x, loop: loop(2, lambda v: np.sqrt(v**2), x * x), None),
    "constant factor inside": (lambda x, loop: loop(2, lambda v: 0.0 * np.sqrt(v) + x * x, x), 2.0),
    "not chosen behind": (lambda x, loop: np.where(x > 0.5, loop(2, np.sqrt, x), x * x), 2.0),
    "not chosen before": (lambda x, loop: loop(2, lambda v: v * v, np.where(x > 0.5, np.sqrt(x), x)), 0.0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", [lambda g: g, ad.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("mode", SECOND)
@pytest.mark.parametrize("name", LOOPED)
def test_second_derivatives_know_the_masks_of_the_first(name, mode, run):
    """As those of the Python loop on a tape, or nan; and finite where all that is 0 is so by a mask."""
    f, at_zero = LOOPED[name]
    x, v = np.array([0.0, 1.0, 0.25]), np.array([1.0, 1.0, 1.0])
    second = lambda loop: SECOND[mode](lambda x: np.sum(f(x, loop)), v)
    with np.errstate(all="ignore"):
        expected = SECOND["reverse over reverse"](lambda x: np.sum(f(x, python_loop)), v)(x)
        found = run(second(while_loop))(x)
    if at_zero is None:
        assert np.isnan(expected[0])
        assert not np.isfinite(found[0])
    elif mode != "reverse over forward":  # which knows less of a loop
        assert found[0] == at_zero
    known = np.isfinite(found)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-9, atol=1e-12)
    with np.errstate(all="ignore"):
        x = np.array([0.5, 1.0, 0.7])
        np.testing.assert_allclose(second(while_loop)(x), second(python_loop)(x), rtol=1e-7, atol=1e-300)
