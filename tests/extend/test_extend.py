"""Ops of the user's own: declared once, checked by check_grads, working in every mode."""

import math

import numpy as np
import pytest
from harness import check

import adjoint as ad
from adjoint.core.op import OPS


@pytest.fixture(autouse=True)
def forget_ops():
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        del OPS[name]


def test_elementwise():
    slope = lambda y, x: (1 / (1 + np.exp(-x)),)
    softplus = ad.extend.elementwise("test_softplus", lambda x: np.log1p(np.exp(x)), partials=slope)
    ad.check_grads(softplus, np.array([-1.0, 0.5]))
    check(softplus, np.array([[0.1, -0.3]]))
    assert repr(softplus) == "<elementwise op 'test_softplus'>"


def test_elementwise_of_two_arguments_with_broadcasting():
    f = ad.extend.elementwise("test_xy", lambda a, b: a * b**2, partials=lambda y, a, b: (b**2, 2 * a * b))
    check(f, np.ones((2, 1)) * 1.5, np.array([0.5, 2.0, 3.0]))


def test_a_partial_that_looks_at_the_dtype():
    f = ad.extend.elementwise(
        "test_dtype", np.sin, partials=lambda y, x: (np.cos(x) if x.dtype == np.float64 else np.cos(x) * 2,)
    )
    assert ad.grad(f)(np.float64(2.0)) == np.cos(2.0)
    assert ad.grad(f)(np.float32(2.0)) == 2 * np.cos(np.float32(2.0))


def test_a_partial_that_branches_on_its_value():
    f = ad.extend.elementwise("test_branch", lambda x: np.abs(x), partials=lambda y, x: (1.0 if np.all(x > 0) else -1.0,))
    assert ad.grad(f)(2.0) == 1
    assert ad.grad(f)(-2.0) == -1


def test_wrong_partials_are_found_by_check_grads():
    wrong = ad.extend.elementwise("test_wrong", np.sin, partials=lambda y, x: (np.cos(x) * 1.01,))
    with pytest.raises(ad.AdjointError):
        ad.check_grads(wrong, 0.5)


def test_linear():
    n = 4
    matrix = np.random.default_rng(0).standard_normal((3, n))
    apply = ad.extend.linear(
        "test_matrix",
        lambda x: x @ matrix.T,
        transpose=lambda g, x: g @ matrix,
        batch=lambda flags, x: x @ matrix.T,
    )
    check(apply, np.arange(4.0))


def test_opaque_with_either_rule_or_both():
    jvp = lambda ts, y, x: 3 * x**2 * ts[0]
    vjp = lambda g, y, x: (3 * x**2 * g,)
    for rules in ({"jvp": jvp}, {"vjp": vjp}, {"jvp": jvp, "vjp": vjp}):
        declared = {}
        batch = lambda flags, x, declared=declared: declared["cube"](x)
        declared["cube"] = ad.extend.opaque("test_cube", lambda x: x**3, batch=batch, **rules)
        check(declared["cube"], np.array([0.5, -1.0]))


def test_without_a_batching_rule_vmap_says_what_to_do():
    f = ad.extend.opaque("test_nobatch", lambda x: x.sum(), jvp=lambda ts, y, x: ts[0].sum())
    with pytest.raises(ad.AdjointError, match=r"no batching rule for 'test_nobatch'; wrap it in ad\.map or declare batch="):
        ad.vmap(f)(np.ones((2, 3)))


def test_numerical():
    f = ad.extend.numerical(lambda x: np.array([math.sin(x[0]) * x[1], x[1] ** 2]))
    x = np.array([0.5, 2.0])
    expected = [[2 * math.cos(0.5), math.sin(0.5)], [0, 4]]
    np.testing.assert_allclose(ad.jacrev(f)(x), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ad.jacfwd(f)(x), expected, rtol=1e-8, atol=1e-8)


def test_names():
    with pytest.raises(ad.AdjointError, match="name of an op of adjoint"):
        ad.extend.elementwise("sin", np.sin, partials=lambda y, x: (np.cos(x),))
    with pytest.raises(ad.AdjointError, match="needs jvp= or vjp="):
        ad.extend.opaque("test_nothing", np.sin)
    for _ in range(2):  # a notebook cell run twice
        ad.extend.elementwise("test_again", np.sin, partials=lambda y, x: (np.cos(x),))
    with pytest.raises(ad.AdjointError, match="tuple of 2"):
        ad.grad(ad.extend.elementwise("test_short", np.add, partials=lambda y, a, b: (1.0,)))(1.0, 2.0)
