"""Gradients: nested transforms, and the errors for results and cotangents that do not fit."""

import numpy as np
import pytest
from complaints import TRANSFORMS, X, complaint, every_transform
from promises import close, equal

import adjoint as ad

# -- nesting -----------------------------------------------------------------------------------------------------


def test_no_perturbation_confusion():
    # Siskind and Pearlmutter: d/dx (x · d/dy (x + y)) is 1, not 2.
    assert ad.derivative(lambda x: x * ad.derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.derivative(lambda x: x * ad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x * y)(2.0))(3.0) == 6.0
    assert ad.derivative(lambda x: ad.derivative(lambda y: x * y * y)(x))(3.0) == 12.0
    # Manzyuk and others: a derivative that escapes through a closure.
    s = lambda u: lambda f: lambda x: f(x + u)
    d = lambda f: lambda x: ad.derivative(f)(x)
    hat = lambda x: ad.derivative(lambda u: s(u)(np.exp)(x))(0.0)
    close(hat(1.0), np.e)
    close(d(hat)(1.0), np.e)
    shifted_twice = lambda x: ad.derivative(lambda u: s(u)(lambda z: ad.derivative(lambda w: s(w)(np.exp)(z))(0.0))(x))(0.0)
    close(shifted_twice(1.0), np.e)
    # an inner transform of a constant of its own
    assert ad.grad(lambda x: ad.grad(lambda y: x * 1.0)(2.0) + x)(1.0) == 1.0


ONE_BY_ONE = {
    "rev": ad.grad,
    "fwd": ad.derivative,
    "jacfwd": ad.jacfwd,
    "jacrev": ad.jacrev,
    "vjp": lambda f: lambda x: ad.vjp(f, x)[1](np.ones(())[()])[0],
    "linearize": lambda f: lambda x: ad.linearize(f, x)[1](np.ones(())[()]),
    "vmap rev": lambda f: lambda x: ad.vmap(ad.grad(f))(np.stack([x, x]))[1],
    "rev vmap": lambda f: lambda x: ad.grad(lambda x: np.sum(ad.vmap(f)(np.stack([x, 2.0]))[0]))(x),
    "fwd vmap": lambda f: lambda x: ad.derivative(lambda x: ad.vmap(f)(np.stack([x, 2.0]))[0])(x),
}
POLY = (
    lambda x: x**5 * np.exp(x),
    [lambda x: x**5 + 5 * x**4, lambda x: x**5 + 10 * x**4 + 20 * x**3, lambda x: x**5 + 15 * x**4 + 60 * x**3 + 60 * x**2],
)


@pytest.mark.parametrize("outer", ONE_BY_ONE)
@pytest.mark.parametrize("inner", ONE_BY_ONE)
def test_every_nesting_of_two(outer, inner):
    f, exact = POLY
    close(ONE_BY_ONE[outer](ONE_BY_ONE[inner](f))(0.7), exact[1](0.7) * np.exp(0.7), 1e-12)


THIRD = [
    (a, b, c)
    for a in ("rev", "fwd", "jacrev", "vmap rev", "rev vmap")
    for b in ("rev", "fwd", "linearize", "vmap rev")
    for c in ("rev", "fwd", "fwd vmap", "jacfwd")
]


@pytest.mark.parametrize("a, b, c", THIRD)
def test_nestings_of_three(a, b, c):
    f, exact = POLY
    close(ONE_BY_ONE[a](ONE_BY_ONE[b](ONE_BY_ONE[c](f)))(0.7), exact[2](0.7) * np.exp(0.7), 1e-11)


def test_closures_over_outer_traced_values():
    f = lambda x: ad.grad(lambda y: np.sum(x * y**2))(x).sum()  # 2x² per element
    close(ad.grad(f)(np.array([1.0, 2.0])), [4.0, 8.0])
    g = lambda w: np.sum(ad.vmap(lambda x: np.tanh(x * w))(np.arange(3.0)))
    close(ad.grad(g)(0.5), np.sum(np.arange(3) * (1 - np.tanh(0.5 * np.arange(3)) ** 2)))
    h = lambda x: ad.jvp(lambda y: y * x, (x,), (x,))[1]  # x²
    assert ad.grad(h)(3.0) == 6.0


def test_writes_to_an_outer_value_do_not_reach_an_inner_recording():
    def by_closure(a):
        def inner(x):
            y = x * a
            a[0] = 100.0
            return y.sum()

        return ad.grad(inner)(np.ones(3)).sum()

    def by_argument(a):
        _, pull = ad.vjp(lambda x: x * x, a)
        a[0] = 100.0
        return pull(np.ones(3))[0].sum() / 2

    def by_view(a):
        part = a[:]
        _, push = ad.linearize(lambda x: x * x, part)
        a[0] = 100.0
        return push(np.ones(3)).sum() / 2

    for f in (by_closure, by_argument, by_view):
        value, gradient = ad.value_and_grad(f)(np.array([1.0, 2.0, 3.0]))
        assert value == 6.0
        equal(gradient, np.ones(3))


# -- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [ad.grad, ad.value_and_grad, ad.hessian])
def test_non_scalar_result(transform):
    with complaint(ValueError, "scalar", "shape (3,)", "sum it", "jacobian"):
        transform(lambda x: x * 2)(X)
    with complaint(ValueError, "one scalar result", "has_aux=True"):
        transform(lambda x: (x.sum(), x.sum()))(X)


def test_complex_integer_or_boolean_result():
    with complaint(TypeError, "real result", "holomorphic=True", "np.real"):
        ad.grad(lambda z: z * z)(1 + 2j)
    with complaint(TypeError, "complex arguments", "astype(complex)"):
        ad.grad(lambda z: z * z, holomorphic=True)(1.0)
    with complaint(TypeError, "holomorphic=True"):
        ad.jacfwd(lambda z: z * z)(np.array([1j]))
    with complaint(TypeError, "float result", "int"):
        ad.grad(lambda x: 3)(1.0)
    with complaint(TypeError, "float result", "bool"):
        ad.grad(lambda x: x > 1)(2.0)
    with complaint(TypeError, "float result", "int"):
        ad.elementwise_grad(np.argmax)(X)


@every_transform
def test_a_function_that_returns_none(transform):
    def forgets(x):
        x * 2

    if transform == "vmap":
        assert ad.vmap(forgets)(X) is None  # nothing is a container of nothing
        return
    with complaint(TypeError, "forgets returned None", "return statement"):
        TRANSFORMS[transform](forgets)


@every_transform
def test_a_function_that_returns_text(transform):
    with complaint(TypeError, "returned", "str"):
        TRANSFORMS[transform](lambda x: "text")


def test_a_function_that_returns_objects():
    with complaint(TypeError, "objects", "np.stack"):
        ad.grad(lambda x: np.array([None, x.sum], dtype=object))(X)


def test_has_aux_needs_a_pair():
    for run in (
        lambda f: ad.grad(f, has_aux=True)(X),
        lambda f: ad.vjp(f, X, has_aux=True),
        lambda f: ad.jvp(f, (X,), (X,), has_aux=True),
        lambda f: ad.jacfwd(f, has_aux=True)(X),
    ):
        with complaint(TypeError, "pair (value, aux)"):
            run(np.sum)


# -- cotangents --------------------------------------------------------------------------------------------------


def test_cotangents_that_do_not_fit():
    _, pull = ad.vjp(lambda x: x * 2, X)
    with complaint(ValueError, "cotangent", "(2,)", "(3,)"):
        pull(np.ones(2))
    with complaint(ValueError, "cotangent", "()", "(3,)"):
        pull(1.0)
    with complaint(TypeError, "cotangent", "float32", "astype(float64)"):
        pull(X.astype(np.float32))
    with complaint(ValueError, "cotangent", "structure"):
        pull((X, X))
    with complaint(ValueError, "cotangent", "structure"):
        pull(None)
    _, pull = ad.vjp(lambda x: {"a": x, "b": (x, x)}, X)
    with complaint(ValueError, "cotangent['b'][1]", "(2,)"):
        pull({"a": X, "b": (X, np.ones(2))})
