"""What counts as equal: tolerances, terms that cancel, derivatives that are no linear maps, functions with state."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import CheckError


def test_tolerances_and_step():
    ad.check_grads(lambda x: x**4, 2.0, eps=0.1, rtol=1e-1)
    ad.check_grads(lambda x: x**4, 2.0, eps=0.1, atol=10.0)
    ad.check_grads(lambda x: x**4, 2.0, eps=1e-5)


def test_rules_that_are_not_linear_are_found():
    @ad.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (np.where(np.abs(g) < 1.6, g, 0.5 * g) * np.cos(x),))
    with pytest.raises(CheckError, match="not linear in the cotangent"):
        ad.check_grads(f, np.linspace(0.5, 1.0, 9), order=1, modes="rev")


def test_a_function_that_keeps_state_is_found():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(CheckError):
        ad.check_grads(f, 1.0)


@pytest.mark.parametrize("f", [lambda a: np.linalg.cholesky(a) ** 2, lambda a: np.linalg.eigh(a)[0]])
def test_what_is_left_of_terms_that_cancel_need_not_be_linear(f):
    """The sum of each is the trace: its second derivative is rounding."""
    ad.check_grads(lambda a: np.sum(f((a + a.T) / 2)), np.array([[2.0, 0.5], [0.5, 3.0]]))


DESIGN = np.random.default_rng(0).standard_normal((6, 3))
DATA = np.random.default_rng(1).standard_normal(6)
BEST = np.linalg.lstsq(DESIGN, DATA, rcond=None)[0]
SAMPLE = np.random.default_rng(2).standard_normal(5)
CANCEL = {
    "least squares": (lambda x: np.sum((DESIGN @ x - DATA) ** 2), BEST),
    "normal equations": (lambda x: DESIGN.T @ (DESIGN @ x - DATA), BEST),
    "deviations": (lambda x: np.sum(x - np.mean(x)), SAMPLE),
    "twice": (lambda x: (x - x.mean()).sum() * np.ones(2), SAMPLE),
    "circle": (lambda x: np.sin(x) ** 2 + np.cos(x) ** 2 - 1, SAMPLE),
    "logarithms": (lambda x: np.log(x * 3) - np.log(x) - np.log(3), np.array([1.0, 2.0, 5.3])),
    "softmax": (lambda x: np.sum(np.exp(x) / np.sum(np.exp(x))) - 1, SAMPLE),
    "inverse": (lambda x: np.linalg.solve(x, x) - np.eye(3), DESIGN[:3] + 0.0),
    "unit vector": (lambda x: np.linalg.norm(x / np.linalg.norm(x)) - 1.0, SAMPLE),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("factor", [1.0, 1e-12, 1e10])
@pytest.mark.parametrize("name", CANCEL)
def test_rounding_is_measured_by_the_terms_that_cancel(name, factor):
    f, x = CANCEL[name]
    for options in ({}, {"eps": 1e-6}) if factor == 1 else ({},):
        ad.check_grads(lambda x: factor * f(x), x, **options)


def test_a_wrong_derivative_at_a_minimum_is_found():
    @ad.custom_jvp
    def residual(x):
        return DESIGN @ x - DATA

    residual.defjvp(lambda primals, tangents: (residual(*primals), DESIGN @ tangents[0] * 1.0001))
    ad.check_grads(lambda x: np.sum((DESIGN @ x - DATA) ** 2), BEST)
    with pytest.raises(CheckError):
        ad.check_grads(residual, BEST)
    for factor in (1.0, 1e-12):
        with pytest.raises(CheckError, match="order 2"):
            ad.check_grads(lambda x, c=factor: c * np.sum(residual(x) ** 2), BEST)
