"""Integrals and initial value problems against analytic derivatives, and SciPy's own numbers on plain values."""

import numpy as np
import pytest
import scipy.integrate

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import AdjointError, UnsupportedError
from adjoint.scipy import integrate

INTEGRALS = {  # a function of k; its derivative
    "finite": (lambda k: integrate.quad(lambda t: np.sin(k * t), 0, 1)[0], lambda k: _sine(k)),
    "half line": (lambda k: integrate.quad(lambda t: np.exp(-k * t), 0, np.inf)[0], lambda k: -(k**-2)),
    "other half line": (lambda k: integrate.quad(lambda t: np.exp(k * t), -np.inf, 0)[0], lambda k: -(k**-2)),
    "whole line": (
        lambda k: integrate.quad(lambda t: np.exp(-k * t * t), -np.inf, np.inf)[0],
        lambda k: -np.sqrt(np.pi) / 2 * k**-1.5,
    ),
    "upper limit": (lambda k: integrate.quad(np.cos, 0, k)[0], np.cos),
    "lower limit": (lambda k: integrate.quad(np.cos, k, 2.0)[0], lambda k: -np.cos(k)),
    "limit of a half line": (lambda k: integrate.quad(lambda t: np.exp(-t), k, np.inf)[0], lambda k: -np.exp(-k)),
    "limits reversed": (lambda k: integrate.quad(np.cos, k, 0)[0], lambda k: -np.cos(k)),
    "no range": (lambda k: integrate.quad(np.cos, k, k)[0], lambda k: 0.0),
    "singular end": (lambda k: integrate.quad(lambda t: t ** (k - 1), 0, 1)[0], lambda k: -(k**-2)),
    "kink, with points": (
        lambda k: integrate.quad(lambda t: k * abs(t - 0.3) ** 1.5, 0, 1, points=[0.3])[0],
        lambda k: (0.3**2.5 + 0.7**2.5) / 2.5,
    ),
    "arguments": (lambda k: integrate.quad(lambda t, a, b: a * t + b, 0, 1, args=(k, 2.0))[0], lambda k: 0.5),
    "one argument": (lambda k: integrate.quad(lambda t, a: a * t, 0, 1, args=k)[0], lambda k: 0.5),
    "twice": (lambda k: integrate.dblquad(lambda y, x: k * x * y, 0, 1, 0, lambda x: k * x)[0], lambda k: 3 * k**2 / 8),
    "fixed rule": (lambda k: integrate.fixed_quad(lambda t: k * t**2, 0, 3)[0], lambda k: 9.0),
    "vectors": (lambda k: np.sum(integrate.quad_vec(lambda t: t * k * np.array([1.0, 2.0]), 0, 1)[0]), lambda k: 1.5),
}


def _sine(k):
    """The derivative of ∫ sin(k t) over [0, 1]."""
    return (k * np.sin(k) + np.cos(k) - 1) / k**2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTEGRALS)
@pytest.mark.parametrize("k", [0.7, 2.0])
def test_integrals_of_functions(name, k):
    f, slope = INTEGRALS[name]
    compiled = [ad.jit(ad.grad(f))] if k == 2.0 and name in ("finite", "upper limit", "arguments") else []
    for compute in (ad.grad(f), lambda x: ad.jvp(f, (x,), (1.0,))[1], *compiled):
        np.testing.assert_allclose(compute(k), slope(k), rtol=1e-9, atol=1e-12)
    if name == "twice":
        return
    np.testing.assert_allclose(
        ad.grad(ad.grad(f))(k), ad.grad(slope)(k) if name != "upper limit" else -np.sin(k), rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("name", ["finite", "half line", "whole line", "upper limit", "limit of a half line", "limits reversed"])
def test_one_program_for_any_numbers(name):
    f, slope = INTEGRALS[name]
    value, gradient = ad.jit(f), ad.jit(ad.grad(f))
    for k in (0.7, 2.0, 1.1, 3.0):
        np.testing.assert_allclose(value(k), f(k), rtol=1e-12)
        np.testing.assert_allclose(gradient(k), slope(k), rtol=1e-8, atol=1e-12)
    assert [str(g.report()).count("specialization") for g in (value, gradient)] == [1, 1]
    k = np.array([0.7, 2.0, 1.1])
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(k), slope(k), rtol=1e-8, atol=1e-12)


def test_a_program_checks_its_nodes():
    """Nodes that are chosen for a wide peak miss a narrow one: another program is made."""
    f = ad.jit(ad.grad(lambda k: integrate.quad(lambda t: 1 / (1 + (k * (t - 0.4)) ** 2), 0, 1, limit=200)[0]))
    wanted = lambda k: sum(e / (1 + (k * e) ** 2) / k - np.arctan(k * e) / k**2 for e in (0.4, 0.6))
    for k in (1.0, 300.0, 2.0, 250.0):
        np.testing.assert_allclose(f(k), wanted(k), rtol=1e-7)
    assert str(f.report()).count("specialization") == 2


def test_the_value_is_that_of_scipy():
    found = ad.value_and_grad(lambda k: integrate.quad(lambda t: np.sin(k * t), 0, 3, full_output=1)[0])(1.3)[0]
    assert found == scipy.integrate.quad(lambda t: np.sin(1.3 * t), 0, 3)[0]
    f = lambda t: np.sin(1.3 * t)
    assert integrate.quad(f, 0, 3) == scipy.integrate.quad(f, 0, 3)
    assert integrate.quad(f, 0, 3, weight="cos", wvar=2.0) == scipy.integrate.quad(f, 0, 3, weight="cos", wvar=2.0)
    assert integrate.dblquad(lambda y, x: x * y, 0, 1, 0, 2) == scipy.integrate.dblquad(lambda y, x: x * y, 0, 1, 0, 2)


def test_integrals_that_are_refused():
    with pytest.raises(UnsupportedError, match="multiply the function by the weight"):
        ad.grad(lambda k: integrate.quad(lambda t: k * t, 0, 1, weight="cos", wvar=2.0)[0])(1.0)
    with pytest.raises(UnsupportedError, match=r"differ between examples; use ad\.map"):
        ad.vmap(lambda k: integrate.quad(lambda t: np.sin(k * np.abs(t - 0.3)), 0, 1)[0])(np.arange(3.0))
    with pytest.raises(UnsupportedError, match="the collocation equations"):
        ad.grad(lambda k: integrate.solve_bvp(lambda x, y: y, lambda a, b: a, np.arange(3.0), k * np.ones((2, 3))).y[0, 0])(1.0)
    np.testing.assert_allclose(ad.map(ad.grad(lambda k: integrate.quad(lambda t: k * t, 0, 1)[0]), np.ones(3)), 0.5)


SAMPLES = {
    "trapezoid": lambda y: integrate.trapezoid(y, dx=0.1),
    "trapezoid, at places": lambda y: integrate.trapezoid(y, x=np.arange(9.0) ** 1.5),
    "simpson": integrate.simpson,
    "simpson, at places": lambda y: integrate.simpson(y, x=np.arange(9.0) ** 1.5),
    "simpson, of an even number": lambda y: integrate.simpson(y[:8], dx=0.3),
    "romb": integrate.romb,
    "cumulative_trapezoid": lambda y: integrate.cumulative_trapezoid(y, initial=0) @ np.arange(9.0),
    "cumulative_simpson": lambda y: integrate.cumulative_simpson(y, dx=0.5, initial=0) @ np.arange(9.0),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_integrals_of_samples(name):
    f, y = SAMPLES[name], np.sin(np.arange(9.0))
    by_units = np.array([f(e) for e in np.eye(9)])  # they are linear
    for compute in (ad.grad(f), ad.jit(ad.grad(f)), ad.jacfwd(f)):
        np.testing.assert_allclose(compute(y), by_units, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ad.vmap(f)(np.stack([y, 2 * y])), [f(y), f(2 * y)])


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "BDF"])
def test_initial_value_problems(method):
    def end(k, start):
        solution = integrate.solve_ivp(lambda t, y: -k * y, (0, 1), start, method=method, rtol=1e-7, atol=1e-9)
        return solution.y[0, -1]

    start = np.array([1.0, 2.0])
    slope = ad.grad(end, argnums=(0, 1))
    for compute in (slope, ad.jit(slope)) if method == "RK23" else (slope,):
        by_rate, by_start = compute(0.8, start)
        np.testing.assert_allclose(by_rate, -np.exp(-0.8), rtol=1e-5)
        np.testing.assert_allclose(by_start, [np.exp(-0.8), 0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ad.jvp(lambda k: end(k, start), (0.8,), (1.0,))[1], -np.exp(-0.8), rtol=1e-5)
    np.testing.assert_allclose(ad.hessian(lambda k: end(k, start))(0.8), np.exp(-0.8), rtol=1e-4)


def test_initial_value_problems_with_options():
    def f(k, **options):
        return integrate.solve_ivp(lambda t, y, a: -a * y, (0, 3), [1.0], args=(k,), rtol=1e-6, **options)

    np.testing.assert_allclose(ad.grad(lambda k: f(k, t_eval=[0.1, 0.2]).y[0, 1])(0.8), -0.2 * np.exp(-0.16), rtol=1e-4)
    np.testing.assert_allclose(ad.grad(lambda k: f(k, dense_output=True).sol(0.3)[0])(0.8), -0.3 * np.exp(-0.24), rtol=1e-4)
    hit = lambda t, y, a: y[0] - 0.5
    np.testing.assert_allclose(ad.grad(lambda k: f(k, events=hit).t_events[0][0])(0.8), -np.log(2) / 0.64, rtol=1e-3)
    plain = lambda solve: solve(lambda t, y: [-y[0] * t], (0, 3), [1.0], t_eval=[0.5, 2.0])
    ours, theirs = plain(integrate.solve_ivp), plain(scipy.integrate.solve_ivp)
    assert (ours.y.tolist(), ours.message) == (theirs.y.tolist(), theirs.message)


def test_bad_arguments_are_those_of_scipy():
    for call in (
        lambda m: m.solve_ivp(lambda t, y: -y, (0, 1), [1.0], method="Euler"),
        lambda m: m.quad(lambda t: t, 0, 1, weight="none"),
        lambda m: m.simpson(np.ones(3), x=np.ones(4)),
    ):
        with pytest.raises(Exception) as theirs:
            call(scipy.integrate)
        with pytest.raises(type(theirs.value)) as ours:
            call(integrate)
        assert str(ours.value).replace("adjoint.adopted.", "") == str(theirs.value)
    with pytest.raises(AdjointError):
        ad.grad(lambda k: integrate.solve_ivp(lambda t, y: -k * y, (0, 1), anp.ones(1), method="LSODA").y[0, -1])(1.0)


def test_the_module_is_scipys():
    assert set(dir(scipy.integrate)) <= set(dir(integrate))
    assert integrate.cubature is scipy.integrate.cubature


# -- odeint ---------------------------------------------------------------------------------------------------------------


def oscillator(y, t, k, c):
    return anp.array([y[1], k * (1 - y[0] ** 2) * y[1] - c * y[0]])


def plain_oscillator(y, t, k, c):
    return [y[1], k * (1 - y[0] ** 2) * y[1] - c * y[0]]


T, Y0 = np.linspace(0.1, 1.5, 5), np.array([1.2, 0.1])
TIGHT = {"rtol": 1e-12, "atol": 1e-12}
ODEINT = {
    "a constant": (lambda o, f, v: o.odeint(f, Y0, T, (v, 1.0), **TIGHT)[-1, 0], 1.3),
    "a closure": (lambda o, f, v: o.odeint(lambda y, t: f(y, t, 1.3, v), Y0, T, **TIGHT)[2, 1], 1.1),
    "initial values": (lambda o, f, v: o.odeint(f, v, T, (1.3, 1.0), **TIGHT)[-1, 0], Y0),
    "times": (lambda o, f, v: (o.odeint(f, Y0, v, (1.3, 1.0), **TIGHT) * np.arange(10.0).reshape(5, 2)).sum(), T),
    "time first": (lambda o, f, v: o.odeint(lambda t, y: f(y, t, v, 1.0), Y0, T, tfirst=True, **TIGHT)[-1, 0], 1.3),
    "full output": (lambda o, f, v: o.odeint(f, Y0, T, (v, 1.0), full_output=True, **TIGHT)[0][-1, 0], 1.3),
    "one number": (lambda o, f, v: o.odeint(lambda y, t: -v * y, 2.0, T, **TIGHT)[-1, 0], 1.3),
}


@pytest.mark.parametrize("name", ODEINT)
def test_odeint(name):
    f, at = ODEINT[name]
    wanted = ad.finite_difference(lambda v: f(scipy.integrate, plain_oscillator, v), at)
    value, slope = ad.value_and_grad(lambda v: f(integrate, oscillator, v))(at)
    assert abs(value - f(scipy.integrate, plain_oscillator, at)) <= 1e-14 * abs(value)
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-7)  # LSODA's steps differ from point to point


def test_odeint_compiled_and_of_second_order():
    decay = lambda k: integrate.odeint(lambda y, t: -k * y, 2.0, T, **TIGHT)[-1, 0]
    span = T[-1] - T[0]
    np.testing.assert_allclose(ad.jit(ad.grad(decay))(1.3), -span * 2 * np.exp(-1.3 * span), rtol=1e-8)
    np.testing.assert_allclose(ad.grad(ad.grad(decay))(1.3), span**2 * 2 * np.exp(-1.3 * span), rtol=1e-7)


def test_odeint_of_plain_numbers_is_that_of_scipy():
    for options in (
        {},
        {"full_output": True},
        {"Dfun": lambda y, t, k, c: [[0, 1], [-2 * k * y[0] * y[1] - c, k * (1 - y[0] ** 2)]]},
    ):
        found = integrate.odeint(plain_oscillator, Y0, T, (1.3, 1.0), **options)
        wanted = scipy.integrate.odeint(plain_oscillator, Y0, T, (1.3, 1.0), **options)
        np.testing.assert_array_equal(found[0], wanted[0])


def test_an_integrand_that_branches_is_staged_with_its_branches():
    def bend(t, a):
        return a * t if t < 1.0 else a * a

    def area(a):
        return integrate.quad(bend, 0.0, 2.0, args=(a,), points=[1.0])[0]

    compiled = ad.jit(ad.grad(area))
    for a in (0.7, 1.5, 0.2):
        np.testing.assert_allclose(compiled(a), 0.5 + 2 * a, rtol=1e-10)
    assert str(compiled.report()).count("specialization") == 1, compiled.report()
