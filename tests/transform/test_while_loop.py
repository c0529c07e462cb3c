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
