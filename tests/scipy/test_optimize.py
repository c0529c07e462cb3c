"""Roots: derivatives of any order up to the seventh against analytic ones, in every form that SciPy takes."""

import math

import numpy as np
import pytest
import scipy.optimize

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import optimize

CUBE = lambda x, c: x**3 - c
ROOTS = {  # the cube root of c
    **{name: (lambda c, name=name: getattr(optimize, name)(CUBE, 0.5, 4.0, args=(c,))) for name in optimize._BRACKETED},
    "closure": lambda c: optimize.brentq(lambda x: x**3 - c, 0.5, 4.0),
    "full output": lambda c: optimize.brentq(CUBE, 0.5, 4.0, (c,), full_output=True)[0],
    "traced bracket": lambda c: optimize.brentq(CUBE, 0.01 * c, c + 1, (c,)),
    "one argument": lambda c: optimize.brentq(CUBE, 0.5, 4.0, c),
    "newton": lambda c: optimize.newton(lambda x: x**3 - c, 1.5),
    "newton with a slope": lambda c: optimize.newton(CUBE, 1.5, fprime=lambda x, c: 3 * x**2, args=(c,)),
    "newton, full output": lambda c: optimize.newton(CUBE, 1.5, args=(c,), full_output=True)[0],
    "newton with a list of arguments": lambda c: optimize.newton(CUBE, 1.5, args=[c]),
    "root_scalar": lambda c: optimize.root_scalar(CUBE, args=(c,), bracket=[0.5, 4.0]).root,
    "root_scalar with a slope": lambda c: (
        optimize.root_scalar(lambda x: (x**3 - c, 3 * x**2), x0=1.5, fprime=True, method="newton").root
    ),
    "fixed_point": lambda c: optimize.fixed_point(lambda x: x - (x**3 - c) / (3 * x**2), 1.5),
    "fsolve": lambda c: optimize.fsolve(CUBE, 1.5, args=(c,))[0],
    "fsolve, full output": lambda c: optimize.fsolve(CUBE, [1.5], args=(c,), full_output=True)[0][0],
    "root": lambda c: optimize.root(lambda x: x**3 - c, [1.5]).x[0],
    "root with a slope": lambda c: optimize.root(lambda x: (x**3 - c, np.diag(3 * x**2)), [1.5], jac=True).x[0],
}


@pytest.mark.parametrize("name", ROOTS)
def test_cube_roots(name):
    f, c = ROOTS[name], 5.0
    np.testing.assert_allclose(f(c), np.cbrt(c), rtol=1e-8)
    np.testing.assert_allclose(ad.grad(f)(c), c ** (-2 / 3) / 3, rtol=1e-7)
    np.testing.assert_allclose(ad.jvp(f, (c,), (2.0,))[1], 2 * c ** (-2 / 3) / 3, rtol=1e-7)
    np.testing.assert_allclose(ad.grad(ad.grad(f))(c), -2 / 9 * c ** (-5 / 3), rtol=1e-6)


@pytest.mark.parametrize("name", ROOTS)
def test_one_program_for_any_numbers(name):
    """Values, derivatives of two orders and the number of programs, for numbers other than those of the first call."""
    programs = [ad.jit(f) for f in (ROOTS[name], ad.grad(ROOTS[name]), ad.grad(ad.grad(ROOTS[name])))]
    for c in (5.0, 7.0, 2.5, 4.0, 5.0):
        for program, wanted in zip(programs, (c ** (1 / 3), c ** (-2 / 3) / 3, -2 / 9 * c ** (-5 / 3)), strict=True):
            np.testing.assert_allclose(program(c), wanted, rtol=1e-6)
    assert [str(program.report()).count("specialization") for program in programs] == [1, 1, 1]


def test_results_besides_the_root_are_those_of_the_call():
    f = ad.jit(lambda c: [(r := optimize.root_scalar(CUBE, args=(c,), bracket=[0.5, 4.0])).root, r.iterations, r.converged])
    g = ad.jit(lambda c: optimize.fsolve(CUBE, [1.5], args=(c,), full_output=True)[1]["nfev"])
    for c in (5.0, 60.0, 1.5):
        theirs = scipy.optimize.root_scalar(CUBE, args=(c,), bracket=[0.5, 4.0])
        root, *rest = f(c)
        np.testing.assert_allclose(root, theirs.root, rtol=1e-14)
        assert rest == [theirs.iterations, True]
        assert g(c) == scipy.optimize.fsolve(CUBE, [1.5], args=(c,), full_output=True)[1]["nfev"]


def test_a_program_raises_what_scipy_raises():
    f = ad.jit(lambda c: optimize.brentq(CUBE, 0.5, 4.0, (c,)))
    assert f(5.0) == scipy.optimize.brentq(CUBE, 0.5, 4.0, (5.0,))
    for c in (1000.0, 0.01):
        with pytest.raises(ValueError, match="must have different signs"):
            f(c)
    caught = ad.jit(lambda c: optimize.root_scalar(CUBE, args=(c,), x0=1.5, method="newton", maxiter=4).converged)
    assert [bool(caught(c)) for c in (3.0, 1e6, 3.1)] == [True, False, True]


def test_functions_that_ask_for_numbers():
    """A program is valid for the numbers of its first call then, and others are compiled for."""
    f = ad.jit(ad.grad(lambda c: optimize.brentq(lambda x: x**3 - c if x > 0 else -1.0, -1.0, 4.0)))
    for c in (5.0, 7.0):
        np.testing.assert_allclose(f(c), c ** (-2 / 3) / 3, rtol=1e-7)


def test_functions_of_math_in_adopted_code():
    f = ad.jit(ad.grad(lambda c: optimize.brentq(lambda x: math.log(x) - c, 0.1, 40.0)), adopt=True)
    for c in (0.5, 2.0, 3.0):
        np.testing.assert_allclose(f(c), np.exp(c), rtol=1e-7)
    assert str(f.report()).count("specialization") == 1
    g = ad.jit(lambda c: optimize.brentq(lambda x: math.log(x - c) - 1, 1.1, 40.0), adopt=True)
    np.testing.assert_allclose(g(1.0), 1.0 + np.e)
    with pytest.raises(ValueError, match=r"math domain error|expected a positive input"):
        g(1.2)


def test_single_precision():
    f = lambda c: optimize.newton(lambda x: x**3 - c, np.float32(1.5) * np.ones(2, np.float32))
    found = ad.jit(f)(np.array([2.0, 3.0], np.float32))
    assert found.dtype == f(np.array([2.0, 3.0], np.float32)).dtype
    np.testing.assert_allclose(found, np.cbrt([2.0, 3.0]), rtol=1e-5)


def test_higher_orders():
    f, wanted = ROOTS["brentq"], lambda c: c ** (1 / 3)
    for _ in range(4):
        f, wanted = ad.grad(f), ad.grad(wanted)
        np.testing.assert_allclose(f(2.0), wanted(2.0), rtol=1e-8)


def test_systems():
    def solved(p, find):
        return find(lambda x: np.stack([x[0] ** 2 + x[1] - p[0], x[0] - p[1] * x[1]]), [1.0, 1.0])

    p = np.array([3.0, 0.5])
    for find in (
        optimize.fsolve,
        lambda f, start: optimize.root(f, start).x,
        lambda f, start: optimize.root(f, start, method="lm").x,
    ):
        x = solved(p, find)
        by_x = np.array([[2 * x[0], 1], [1, -p[1]]])
        by_p = np.array([[-1, 0], [0, -x[1]]])
        np.testing.assert_allclose(ad.jacobian(lambda p: solved(p, find))(p), -np.linalg.solve(by_x, by_p), rtol=1e-7, atol=1e-9)  # noqa: B023


@pytest.mark.parametrize("kind", [list, tuple, np.stack])
def test_systems_that_return_lists_and_tuples(kind):
    f = lambda c: optimize.fsolve(lambda x: kind([x[0] * x[1] - c, x[0] - x[1]]), [1.0, 1.5])[1]
    for g in (ad.grad(f), ad.jit(ad.grad(f))):
        np.testing.assert_allclose([g(c) for c in (2.0, 3.0)], [0.5 / np.sqrt(c) for c in (2.0, 3.0)], rtol=1e-7)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(np.array([2.0, 3.0])), 0.5 / np.sqrt([2.0, 3.0]), rtol=1e-7)


def test_many_numbers_at_once():
    f = lambda c: optimize.newton(lambda x: x**3 - c, np.ones(3) * 1.5)
    c = np.array([2.0, 3.0, 4.0])
    np.testing.assert_allclose(ad.jacobian(f)(c), np.diag(c ** (-2 / 3) / 3), rtol=1e-7, atol=1e-12)


def test_plain_numbers_are_those_of_scipy():
    f = lambda x: x**3 - 2
    assert optimize.brentq(f, 0, 4) == scipy.optimize.brentq(f, 0, 4)
    assert optimize.newton(f, 1.5) == scipy.optimize.newton(f, 1.5)
    assert optimize.fsolve(f, 1.5) == scipy.optimize.fsolve(f, 1.5)
    assert optimize.linprog is scipy.optimize.linprog
    for call in (lambda m: m.brentq(f, 3, 4), lambda m: m.newton(f, 1.5, maxiter=1), lambda m: m.root_scalar(f)):
        with pytest.raises(Exception) as theirs:
            call(scipy.optimize)
        with pytest.raises(type(theirs.value)) as ours:
            call(optimize)
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("name", ROOTS)
def test_batches(name):
    c = np.array([2.0, 3.0, 5.0])
    for f in (ad.vmap(ad.grad(ROOTS[name])), ad.jit(ad.vmap(ad.grad(ROOTS[name])))):
        np.testing.assert_allclose(f(c), c ** (-2 / 3) / 3, rtol=1e-6)
    twice = ad.vmap(ad.vmap(ROOTS[name]))(np.outer(c, [1.0, 1.5]))
    np.testing.assert_allclose(twice, np.cbrt(np.outer(c, [1.0, 1.5])), rtol=1e-6)


def test_batches_of_functions_that_ask_for_numbers():
    f = lambda c: optimize.brentq(lambda x: x**3 - c if x > 0 else -1.0, -1.0, 4.0)
    with pytest.raises(UnsupportedError, match=r"use ad\.map"):
        ad.vmap(f)(np.array([2.0, 3.0]))
    np.testing.assert_allclose(ad.map(f, np.array([2.0, 3.0])), np.cbrt([2.0, 3.0]))


def branching(t, a):
    if t > 0.5:
        return t**3 - a
    return (t - 0.5) * 0.75 + 0.125 - a


def looping(t, a):
    total = 0.0
    for k in range(12):
        total = total + t ** (k + 1) / (k + 1)
        if total > 9.0:
            break
    return total - a


@pytest.mark.parametrize("f", [branching, looping])
@pytest.mark.parametrize("solver", ["brentq", "newton", "fsolve", "method"])
def test_one_program_for_roots_of_functions_that_branch(f, solver):
    def root(a):
        g = lambda t: f(t, a)
        if solver == "brentq":
            return optimize.brentq(f, 0.0, 3.0, args=(a,), xtol=1e-14)
        if solver == "newton":
            return optimize.newton(g, 0.8, tol=1e-14, maxiter=200)
        if solver == "fsolve":
            return optimize.fsolve(lambda t: g(t[0]) * anp.ones(1), 0.45)[0]
        return optimize.root_scalar(g, bracket=(0.0, 3.0), xtol=1e-14).root

    compiled = ad.jit(ad.value_and_grad(root))
    for a in (1.0, 0.06, 2.0, 0.1, 0.7):
        np.testing.assert_allclose(compiled(a), ad.value_and_grad(root)(a), rtol=1e-8)
    assert str(compiled.report()).count("specialization") == 1, compiled.report()
