"""finite_difference, check_grads, compare."""

import dataclasses
import math

import numpy as np
import pytest

import adjoint as ad
from adjoint.check.differences import METHODS, good_step
from adjoint.core.errors import ArgumentError, CheckError, DtypeError, ShapeError

TOLERANCE = {"one-sided": 1e-6, "two-sided": 1e-8, "complex-step": 1e-14, "richardson": 1e-10}


def example(x, y):
    return x**2 * y + y + 2


# -- finite_difference ------------------------------------------------------------------------------------------


def test_textbook_formula_with_a_given_step():
    found = ad.finite_difference(example, 3.0, 4.0, argnums=(0, 1), method="one-sided", step=1e-5)
    assert found == (24.000039999805264, 10.000000000331966)
    h = 1e-3
    assert ad.finite_difference(math.exp, 1.0, step=h) == (math.exp(1 + h) - math.exp(1 - h)) / (2 * h)
    assert ad.finite_difference(np.exp, 1.0, method="complex-step", step=h) == np.imag(np.exp(1 + h * 1j)) / h


@pytest.mark.parametrize("method", METHODS)
def test_scalars_arrays_containers(method):
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=TOLERANCE[method], atol=TOLERANCE[method])
    close(ad.finite_difference(example, 3.0, 4.0, argnums=(0, 1), method=method), (24, 10))
    close(ad.finite_difference(example, 3.0, 4.0, argnums=-1, method=method), 10)
    x = np.array([[0.5, -1.0], [2.0, 3.0]])
    gradient = ad.finite_difference(lambda x: np.sum(np.sin(x) * x), x, method=method)
    close(gradient, np.sin(x) + x * np.cos(x))
    jacobian = ad.finite_difference(lambda x: np.sin(x)[:, None] * x[0, 0], x, method=method)
    assert jacobian.shape == (2, 1, 2, 2, 2)
    close(jacobian, ad.jacobian(lambda x: np.sin(x)[:, None] * x[0, 0])(x))
    parameters = {"w": np.array([1.0, 2.0]), "b": [0.5, None]}
    found = ad.finite_difference(lambda p, n: {"out": (p["w"] * p["b"][0], p["b"][0] ** n)}, parameters, 3, method=method)
    close(found["out"][0]["w"], [[0.5, 0], [0, 0.5]])
    close(found["out"][0]["b"][0], [1, 2])
    close(found["out"][1]["w"], [0, 0])
    close(found["out"][1]["b"][0], 0.75)
    assert found["out"][0]["b"][1] is None


@pytest.mark.parametrize("method", METHODS)
def test_dtypes(method):
    found = ad.finite_difference(lambda x: np.sin(x).sum(), np.array([0.5, 1.5], np.float32), method=method)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.cos([0.5, 1.5]), rtol=5e-3, atol=5e-3)
    assert type(ad.finite_difference(np.sin, 0.5, method=method)) is np.float64
    assert type(ad.finite_difference(np.sin, np.float32(0.5), method=method)) is np.float32
    assert ad.finite_difference(np.sum, np.zeros((0, 2)), method=method).shape == (0, 2)


def test_complex_arguments():
    np.testing.assert_allclose(ad.finite_difference(lambda z: np.abs(z) ** 2, 1 + 2j), 2 - 4j, rtol=1e-9)
    np.testing.assert_allclose(ad.finite_difference(lambda z: z**2, np.array([1 + 2j]), method="richardson"), [[2 + 4j]])
    with pytest.raises(DtypeError, match="not holomorphic"):
        ad.finite_difference(np.conj, 1 + 2j)
    with pytest.raises(ArgumentError, match="needs real arguments"):
        ad.finite_difference(np.exp, 1 + 2j, method="complex-step")


def test_the_step_is_representable(rng):
    for scale in 10.0 ** rng.integers(-12, 12, 300):
        for x in (rng.normal() * scale, np.float32(rng.normal() * scale)):
            for power in (1 / 2, 1 / 3, 1 / 10):
                h = type(x)(good_step(x, power, np.dtype(type(x))))
                assert (x + h) - x == h > 0


def test_steps_follow_the_size_of_the_point():
    for x in (1e-10, 1.0, 1e10):
        np.testing.assert_allclose(ad.finite_difference(lambda x: x**2 + x, x), 2 * x + 1, rtol=1e-9)


def test_richardson_passes_over_steps_outside_the_domain():
    for log in (np.log, math.log):
        for x in (1e-3, 0.02, 1.0, 1e5):
            np.testing.assert_allclose(ad.finite_difference(log, x, method="richardson"), 1 / x, rtol=1e-8)
    with pytest.raises(ValueError, match=r"math|positive"):
        ad.finite_difference(lambda x: math.log(-1.0 - x * x), 1.0, method="richardson")


def test_complex_step_tells_when_it_cannot_see_the_derivative():
    for f in (np.abs, lambda x: x.real * 2, lambda x: np.abs(x) + 0.0):
        with pytest.raises(ArgumentError, match="lost the imaginary part"):
            ad.finite_difference(f, 3.0, method="complex-step")
    with pytest.raises(ArgumentError, match="does not take complex numbers"):
        ad.finite_difference(math.sin, 3.0, method="complex-step")

    def writes(x):
        a = np.zeros(2)
        a[:] = x
        return a

    with pytest.raises(ArgumentError, match="does not take complex numbers"):
        ad.finite_difference(writes, np.ones(2), method="complex-step")
    # a result that does not depend on the argument is no loss
    assert ad.finite_difference(lambda x, y: [x, y], 1.0, 2.0, method="complex-step") == [1.0, 0.0]


def test_a_function_may_write_to_its_arguments():
    def f(x, scale):
        x *= scale
        scale += 1.0
        return x.sum()

    x, scale = np.ones(3), np.full(3, 2.0)
    np.testing.assert_allclose(ad.finite_difference(f, x, scale), [2, 2, 2])
    assert (x == 1).all()
    assert (scale == 2).all()


def test_mistakes():
    with pytest.raises(DtypeError, match=r"argument 0 is int; write 3\.0"):
        ad.finite_difference(example, 3, 4.0)
    with pytest.raises(ArgumentError, match="'one-sided', 'two-sided', 'complex-step', 'richardson'"):
        ad.finite_difference(example, 3.0, 4.0, method="forward")
    for step in (0, -1e-5, math.nan, math.inf, "small", True, 1j):
        with pytest.raises(ArgumentError, match="step is a positive number"):
            ad.finite_difference(np.sin, 1.0, step=step)
    with pytest.raises(ArgumentError, match="out of range"):
        ad.finite_difference(np.sin, 1.0, argnums=1)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.finite_difference(np.sin)
    with pytest.raises(ArgumentError, match="expects a function"):
        ad.finite_difference(3.0, 1.0)
    with pytest.raises(DtypeError, match="returned bool"):
        ad.finite_difference(lambda x: x > 1, 2.0)
    with pytest.raises(ArgumentError, match="is a return statement missing"):
        ad.finite_difference(lambda x: None, 2.0)
    with pytest.raises(ShapeError, match="different shapes"):
        ad.finite_difference(lambda x: np.ones(2) * x if x > 1 else np.ones(3) * x, 1.0)
    with pytest.raises(ArgumentError, match="differences cannot be differentiated"):
        ad.grad(lambda x: ad.finite_difference(np.sin, x))(1.0)


# -- check_grads ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


GOOD = {
    "scalar": (example, 3.0, 4.0),
    "array": (lambda x: np.sin(x) * x[::-1], np.array([0.5, -1.5, 2.0])),
    "float32": (lambda x: np.tanh(x) * x, np.array([0.5, 1.5], np.float32)),
    "flat": (lambda x: x**5, 0.0),
    "constant": (lambda x: x * 0.0 + 3.0, 1.0),
    "near a pole": (lambda x: np.log(x) + 1 / x, np.array([1e-3, 1e4])),
    "tiny": (lambda x: 1e-20 * np.sin(x), 0.5),
    "huge": (lambda x: 1e20 * np.sin(x), 0.5),
    "piecewise": (lambda x: np.maximum(x, 0) * x[::-1], np.array([1e-4, -0.3, 2.0, -1e-4])),
    "fast": (lambda x: np.sin(300 * x), np.array([0.1, 20.0])),
    "containers": (lambda p, x: {"y": np.tanh(p.w @ x[0] + p.b), "n": 3}, Layer(np.ones((2, 3)), np.zeros(2)), [np.arange(3.0)]),
    "complex": (lambda z: np.exp(z) * np.sum(np.abs(z) ** 2), np.array([1 + 2j, 0.3 - 1j])),
    "complex to real": (lambda z, x: np.abs(z * x), 1 + 2j, 3.0),
    "real to complex": (lambda x: np.exp(1j * x), np.array([1.0, 2.0])),
    "empty": (lambda x: x**2, np.zeros((0, 3))),
}


@pytest.mark.parametrize("name", GOOD)
def test_right_derivatives_pass(name):
    f, *args = GOOD[name]
    assert ad.check_grads(f, *args) is None
    ad.check_grads(f, *args, order=1, modes="fwd")
    ad.check_grads(f, *args, order=1, modes=["rev"])


def test_third_order():
    ad.check_grads(lambda x, y: np.sin(x * y) * x, np.array([0.5, 1.0]), 2.0, order=3)


def half_constant(x, y):
    return {"a": np.sin(x["p"]) * ad.stop_gradient(x["p"]), "b": y.sum()}


@pytest.mark.parametrize("mode, name", [("fwd", "forward"), ("rev", "reverse")])
def test_report(mode, name):
    x = {"p": np.array([[0.5, 1.5], [0.0, 2.0]])}
    with pytest.raises(CheckError) as caught:
        ad.check_grads(half_constant, x, np.ones(2), modes=mode)
    text = str(caught.value)
    assert f"{name} mode of half_constant disagrees with finite differences at order 1" in text
    assert "argument 0['p'], element [1, 1]; result['a'], element [1, 1]" in text
    assert str(2 * np.cos(2.0))[:12] in text  # ours
    assert str(np.sin(2.0) + 2 * np.cos(2.0))[:10] in text  # the numerical one
    assert "slope 0.0" in text
    assert "the derivative is wrong" in text
    assert isinstance(caught.value, AssertionError)


def test_report_of_a_second_order():
    @ad.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(primals[0]), 3 * ad.stop_gradient(primals[0]) ** 2 * tangents[0]))
    ad.check_grads(cube, 2.0, order=1)
    with pytest.raises(CheckError, match=r"forward over forward mode of .* at order 2"):
        ad.check_grads(cube, 2.0, modes="fwd")
    with pytest.raises(CheckError, match=r"reverse over reverse mode of .* at order 2"):
        ad.check_grads(cube, 2.0, modes="rev")


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_report_of_a_complex_argument(mode):
    with pytest.raises(CheckError, match=r"element \[1\] \((real|imaginary) part\); result, element \[1\]"):
        ad.check_grads(lambda z: np.conj(ad.stop_gradient(z)) * z, np.array([0.1j, 3 - 1j]), modes=mode)


def test_report_says_what_the_slope_means():
    with pytest.raises(CheckError, match="tolerance is too tight, or eps too large"):
        ad.check_grads(lambda x: x**4, 2.0, eps=0.1)
    with pytest.raises(CheckError, match="jumps or is noisy"):
        ad.check_grads(lambda x: np.sign(x) + x, 0.0)
    with pytest.raises(CheckError, match="edge of a domain"), np.errstate(divide="ignore"):
        ad.check_grads(np.sqrt, 0.0)
    with pytest.raises(CheckError, match="is nan at the point given"), np.errstate(invalid="ignore"):
        ad.check_grads(np.log, -1.0)


def test_tolerances_and_step():
    ad.check_grads(lambda x: x**4, 2.0, eps=0.1, rtol=1e-1)
    ad.check_grads(lambda x: x**4, 2.0, eps=0.1, atol=10.0)
    ad.check_grads(lambda x: x**4, 2.0, eps=1e-5)


def test_a_small_error_in_one_element_of_many_is_found(rng):
    weights = np.ones(300)
    weights[217] = 1.0 + 1e-4

    @ad.custom_vjp
    def f(x):
        return np.sum(np.sin(x))

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * np.cos(x) * weights,))
    with pytest.raises(CheckError, match=r"argument 0, element \[217\]"):
        ad.check_grads(f, rng.uniform(-1, 1, 300), order=1, modes="rev")


def rule_inside_a_rule(slope_of_slope):
    """A square whose pullback is a function with a rule of its own."""

    @ad.custom_vjp
    def pull(x, g):
        return 2 * x * g

    pull.defvjp(lambda x, g: (pull(x, g), (x, g)), lambda saved, h: (2 * saved[1] * h, slope_of_slope(saved[0]) * h))

    @ad.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (pull(x, g),))
    return f


def test_the_derivative_of_a_pullback_by_its_cotangent_is_checked():
    ad.check_grads(rule_inside_a_rule(lambda x: 2 * x), np.array([0.5, 1.5]), modes="rev")
    with pytest.raises(CheckError, match=r"(?s)reverse over reverse.*the cotangent of the result"):
        ad.check_grads(rule_inside_a_rule(lambda x: 3 * x), np.array([0.5, 1.5]), modes="rev")


def test_rules_that_are_not_linear_are_found():
    @ad.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (np.where(np.abs(g) < 1.6, g, 0.5 * g) * np.cos(x),))
    with pytest.raises(CheckError, match="not linear in the cotangent"):
        ad.check_grads(f, np.linspace(0.5, 1.0, 9), order=1, modes="rev")


@pytest.mark.parametrize("dtype", [float, complex])
def test_functions_of_hermitian_matrices_are_checked_within_them(dtype):
    x = np.random.default_rng(0).normal(size=(3, 3)) + (
        1j * np.random.default_rng(1).normal(size=(3, 3)) if dtype is complex else 0
    )
    a = x @ np.conj(x.T) + np.diag([1.0, 2.0, 3.0])
    a = (a + np.conj(a.T)) / 2
    ad.check_grads(np.linalg.eigvalsh, a)
    ad.check_grads(np.linalg.cholesky, a)
    ad.check_grads(lambda a: np.abs(np.linalg.eigh(a)[1]) ** 2, a)
    ad.check_grads(
        lambda p: np.sum(np.linalg.cholesky(p["a"])[..., 0] ** 2) * p["b"], {"a": np.stack([a, 2 * a]), "b": 2.0}, order=1
    )

    @ad.custom_vjp
    def wrong(a):
        return np.sum(np.linalg.eigvalsh(a) ** 2)

    wrong.defvjp(lambda a: (wrong(a), a), lambda a, g: (3 * g * a,))
    with pytest.raises(CheckError):
        ad.check_grads(lambda a: wrong(a) + np.linalg.eigvalsh(a)[0], a, order=1)


def test_a_function_that_keeps_state_is_found():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(CheckError):
        ad.check_grads(f, 1.0)


def test_mistakes_of_check_grads():
    with pytest.raises(DtypeError, match="argument 1 is int"):
        ad.check_grads(example, 3.0, 4)
    with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
        ad.check_grads(np.sin, 1.0, modes=("forward",))
    with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
        ad.check_grads(np.sin, 1.0, modes=())
    for order in (0, 1.5, True):
        with pytest.raises(ArgumentError, match="order"):
            ad.check_grads(np.sin, 1.0, order=order)
    with pytest.raises(ArgumentError, match="rtol"):
        ad.check_grads(np.sin, 1.0, rtol=-1)
    with pytest.raises(ArgumentError, match="eps"):
        ad.check_grads(np.sin, 1.0, eps=0)
    with pytest.raises(ArgumentError, match="no float"):
        ad.check_grads(lambda x: 3, 1.0)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.check_grads(np.sin)


# -- compare ----------------------------------------------------------------------------------------------------


def test_worked_example():
    found = ad.compare(example, 3.0, 4.0, manual=lambda x, y: (2 * x * y, x**2 + 1))
    names = ["manual", "one-sided", "two-sided", "complex-step", "richardson", "forward", "reverse"]
    assert [row.method for row in found.rows] == names
    for row in found.rows:
        np.testing.assert_allclose(row.value, (24, 10), rtol=1e-7)
    assert [found[m].evaluations for m in names[:4] + names[5:]] == [0, 3, 4, 2, 2, 1]
    assert found["reverse"].error == found["forward"].error == found["manual"].error == 0
    assert 0 < found["one-sided"].error < 1e-6
    assert all(row.seconds > 0 for row in found.rows)
    text = str(found)
    assert text == repr(found)
    assert text.startswith("derivative of example\nmethod ")
    assert sum("24, 10 " in line for line in text.splitlines()) >= 5
    assert "the largest difference from reverse" in text
    with pytest.raises(KeyError):
        found["symbolic"]


def test_wrong_manual_derivative_shows():
    assert ad.compare(lambda x: x**2, 3.0, manual=lambda x: x)["manual"].error == 3.0
    assert "other shape" in str(ad.compare(lambda x: x**2, 3.0, manual=lambda x: np.ones(2)))


def test_a_method_that_does_not_apply_says_why():
    found = ad.compare(lambda x: np.abs(x).sum(), np.arange(1.0, 7.0))
    assert found["complex-step"].value is None
    assert "skipped: <lambda> lost the imaginary part" in str(found)
    only_numbers = ad.compare(math.sin, 1.0)
    assert "float()" in only_numbers["reverse"].note
    assert only_numbers.reference == "richardson"
    np.testing.assert_allclose(only_numbers["two-sided"].value, np.cos(1.0))


def test_arrays_containers_complex():
    found = ad.compare(lambda p, k: np.sin(p["a"]) * p["b"], {"a": np.array([1.0, 2.0]), "b": 3.0}, 2, argnums=0)
    assert found["two-sided"].error < 1e-8
    assert found["forward"].evaluations == 3
    assert "['a'] [1.62091 0 0 -1.24844] (2, 2)" in str(found)
    assert "[0 1 2 3 …] (9,)" in str(ad.compare(lambda x: 0.5 * np.sum(x * x), np.arange(9.0)))
    assert ad.compare(lambda z: np.abs(z) ** 2, 1 + 2j)["reverse"].value == 2 - 4j
    assert ad.compare(lambda z: z**2, 1 + 2j)["reverse"].value == 2 + 4j


def test_mistakes_of_compare():
    with pytest.raises(DtypeError, match="argument 1 is int"):
        ad.compare(example, 3.0, 4)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.compare(example)
    with pytest.raises(ArgumentError, match="expects a function"):
        ad.compare(example, 3.0, 4.0, manual=24.0)


@pytest.mark.parametrize("f", [lambda a: np.linalg.cholesky(a) ** 2, lambda a: np.linalg.eigh(a)[0]])
def test_what_is_left_of_terms_that_cancel_need_not_be_linear(f):
    """The sum of each is the trace: its second derivative is rounding."""
    ad.check_grads(lambda a: np.sum(f((a + a.T) / 2)), np.array([[2.0, 0.5], [0.5, 3.0]]))


@pytest.mark.parametrize("modes", [("fwd", "rev"), "rev"])
def test_fourth_order(modes):
    ad.check_grads(lambda x, y: {"a": np.sin(x) * y, "b": x * x}, 0.5, 2.0, order=4, modes=modes)


def test_arguments_of_the_third_order_are_named():
    wrong = ad.custom_jvp(lambda x: x**3)
    wrong.defjvp(lambda primals, tangents: (wrong(*primals), square(primals[0]) * tangents[0]))
    square = ad.custom_jvp(lambda x: 3 * x**2)
    square.defjvp(lambda primals, tangents: (square(*primals), line(primals[0]) * tangents[0]))
    line = ad.custom_jvp(lambda x: 6 * x)
    line.defjvp(lambda primals, tangents: (line(*primals), 7.0 * tangents[0]))
    with pytest.raises(CheckError, match="the tangent of the tangent of the result"):
        ad.check_grads(wrong, 1.5, order=3, modes="fwd")


@pytest.mark.parametrize("modes", [None, 1, True, object(), (), ("forward",), [["fwd"]]])
def test_modes_that_are_none(modes):
    with pytest.raises(ArgumentError, match="modes of check_grads are"):
        ad.check_grads(np.sin, 1.0, modes=modes)


# -- results that are what is left of terms that cancel -----------------------------------------------------------

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


@pytest.mark.parametrize("order", [1, 2, 3])
def test_reports_of_any_order_name_the_argument(order):
    """Wrong in the derivative of that order only."""

    def make(n):
        if n == 0:
            return lambda x: 1.001 * np.exp(x)

        @ad.custom_jvp
        def g(x):
            return np.exp(x)

        g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * make(n - 1)(*primals)))
        return g

    with pytest.raises(CheckError, match=rf"order {order}\n  where +(the tangent of )*argument 1"):
        ad.check_grads(lambda a, x: a + make(order)(x), 0.3, 0.7, order=order, modes="fwd")


def test_the_calls_of_other_libraries_are_answered_with_ours():
    x = np.array([0.3, 0.7])
    one, two = (lambda x: np.sum(np.sin(x))), (lambda x, y: np.sum(np.sin(x) * y))
    for f, args in ((one, (x,)), (two, (x, x)), (two, [x, x]), (np.sin, (1.0,)), (lambda x: x**2, (2.0,))):
        with pytest.raises(ArgumentError, match=r"one by one: write check_grads\(.*, \*args\)"):
            ad.check_grads(f, args)
        with pytest.raises(ArgumentError, match=r"check_grads\(f, \*args, order=1\)"):
            ad.check_grads(f, args, 1)
        ad.check_grads(f, *args)
    with pytest.raises(ArgumentError, match=r"not check_grads\(f\)\(x\)"):
        ad.check_grads(one, modes=["rev"])(x)
    ad.check_grads(lambda p: p[0] * p[1], (1.0, 2.0))  # a function of a tuple
    with pytest.raises(IndexError):
        ad.check_grads(lambda p: p[2] * p[1], (1.0, 2.0))  # with a mistake of its own
    for modes in (None, 3, "all", ["fwd", None]):
        with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
            ad.check_grads(one, x, modes=modes)
    for tolerance in ("a", np.nan, True, np.array([1e-3, 1e-2]), -1.0):
        for name in ("rtol", "atol"):
            with pytest.raises(ArgumentError, match=f"{name} of check_grads"):
                ad.check_grads(one, x, **{name: tolerance})
