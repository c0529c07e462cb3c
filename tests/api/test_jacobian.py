"""Jacobians and Hessians: by columns, by rows and by differences the same, in the structure of results and arguments."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError, ArgumentError, DtypeError, ShapeError

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 4))
X = RNG.normal(size=4)


def f(x):
    return np.tanh(A @ x) * np.sum(x**2)


@pytest.mark.parametrize("jacobian", [ad.jacfwd, ad.jacrev, ad.jacobian])
@pytest.mark.parametrize("compiled", [False, True])
def test_rows_columns_and_differences_agree(jacobian, compiled):
    found = (ad.jit if compiled else lambda g: g)(jacobian(f))(X)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found, ad.finite_difference(f, X, method="richardson"), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shape_in, shape_out", [((), ()), ((2,), ()), ((), (2,)), ((2, 3), (4,)), ((0,), (2,)), ((2,), (0, 3))])
def test_the_shape_is_that_of_the_result_then_of_the_argument(shape_in, shape_out):
    g = lambda x: np.sum(np.sin(x)) * np.ones(shape_out)
    for jacobian in (ad.jacfwd, ad.jacrev):
        assert jacobian(g)(np.ones(shape_in)).shape == shape_out + shape_in


def test_containers_on_both_sides():
    g = lambda p: {"a": p["w"] * p["b"], "s": np.sum(p["w"])}
    point = {"w": np.arange(3.0), "b": 2.0}
    by_rows, by_columns = ad.jacrev(g)(point), ad.jacfwd(g)(point)
    for result in ("a", "s"):
        for name in ("w", "b"):
            np.testing.assert_allclose(by_rows[result][name], by_columns[result][name])
    np.testing.assert_allclose(by_rows["a"]["w"], 2 * np.eye(3))


def test_hessians_are_symmetric_and_multiply_vectors():
    energy = lambda x: np.sum(np.cosh(f(x)))
    hessian = ad.hessian(energy)(X)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10)
    v = RNG.normal(size=4)
    np.testing.assert_allclose(ad.hvp(energy)(X, v), hessian @ v, rtol=1e-10)
    np.testing.assert_allclose(hessian, ad.jacfwd(ad.jacrev(energy))(X), rtol=1e-10)


def test_several_arguments():
    g = lambda x, y: x * y**2
    first, second = ad.jacobian(g, argnums=(0, 1))(np.array([1.0, 2.0]), 3.0)
    np.testing.assert_allclose(first, 9 * np.eye(2))
    np.testing.assert_allclose(second, [6.0, 12.0])


@pytest.mark.parametrize("jacobian", [ad.jacfwd, ad.jacrev])
def test_mistakes(jacobian):
    with pytest.raises(ArgumentError):
        jacobian(3)
    with pytest.raises(DtypeError):
        jacobian(f)(np.arange(4))
    with pytest.raises(ShapeError):
        ad.hessian(f)(X)


def test_holomorphic_functions():
    z = np.array([1 + 2j, 0.5 - 1j])
    np.testing.assert_allclose(ad.jacrev(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))


@pytest.mark.parametrize("transform", [ad.jacobian, ad.jacfwd, ad.jacrev])
def test_arguments_and_results_without_leaves(transform):
    assert transform(lambda x: np.ones(2))({}) == {}
    assert transform(lambda x: (np.ones(2), 1.0))([]) == ([], [])
    assert transform(lambda x: ())(np.ones(2)) == ()
    assert transform(lambda x: {})(1.0) == {}
    assert ad.hessian(lambda x: 1.0)({}) == {}


@pytest.mark.parametrize("transform", [ad.grad, ad.jacobian, ad.hessian, ad.derivative, ad.elementwise_grad])
@pytest.mark.parametrize("time", [np.timedelta64(3, "D"), np.datetime64("2020-01-01"), np.array([3], "m8[D]")])
def test_times_are_refused(transform, time):
    with pytest.raises(ArgumentError, match="needs floats, but argument 0 is"):
        transform(lambda x: x)(time)


@pytest.mark.parametrize("result", [np.array(["a"]), np.array(["2020-01-01"], "M8[D]"), np.datetime64("2020-01-01")])
@pytest.mark.parametrize("transform", [ad.graph, ad.trace, ad.jacfwd, ad.jacrev, ad.grad])
def test_results_that_are_no_numbers_are_refused(transform, result):
    with pytest.raises(AdjointError, match="returned"):
        transform(lambda x: result)(1.0)
