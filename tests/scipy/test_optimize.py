"""Roots: derivatives of any order up to the seventh against analytic ones, in every form that SciPy takes."""

import numpy as np
import pytest
import scipy.optimize

import adjoint as ad
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


def test_compiled():
    for name in ("brentq", "newton", "fsolve"):
        compiled = ad.jit(ad.grad(ROOTS[name]))
        for c in (5.0, 5.0, 7.0):
            np.testing.assert_allclose(compiled(c), c ** (-2 / 3) / 3, rtol=1e-7)


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


def test_many_numbers_at_once():
    f = lambda c: optimize.newton(lambda x: x**3 - c, np.ones(3) * 1.5)
    c = np.array([2.0, 3.0, 4.0])
    np.testing.assert_allclose(ad.jacobian(f)(c), np.diag(c ** (-2 / 3) / 3), rtol=1e-7, atol=1e-12)


def test_plain_numbers_are_those_of_scipy():
    f = lambda x: x**3 - 2
    assert optimize.brentq(f, 0, 4) == scipy.optimize.brentq(f, 0, 4)
    assert optimize.newton(f, 1.5) == scipy.optimize.newton(f, 1.5)
    assert optimize.fsolve(f, 1.5) == scipy.optimize.fsolve(f, 1.5)
    assert optimize.minimize is scipy.optimize.minimize
    for call in (lambda m: m.brentq(f, 3, 4), lambda m: m.newton(f, 1.5, maxiter=1), lambda m: m.root_scalar(f)):
        with pytest.raises(Exception) as theirs:
            call(scipy.optimize)
        with pytest.raises(type(theirs.value)) as ours:
            call(optimize)
        assert str(ours.value) == str(theirs.value)


def test_batches_are_refused():
    with pytest.raises(UnsupportedError, match=r"use ad\.map"):
        ad.vmap(ROOTS["brentq"])(np.array([2.0, 3.0]))
    np.testing.assert_allclose(ad.map(ROOTS["brentq"], np.array([2.0, 3.0])), np.cbrt([2.0, 3.0]))
