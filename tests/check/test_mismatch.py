"""The report of a failed check: which element is wrong, in which mode and order, and what the slope means."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import CheckError


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


def test_a_small_error_in_one_element_of_many_is_found(rng):
    weights = np.ones(300)
    weights[217] = 1.0 + 1e-4

    @ad.custom_vjp
    def f(x):
        return np.sum(np.sin(x))

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * np.cos(x) * weights,))
    with pytest.raises(CheckError, match=r"argument 0, element \[217\]"):
        ad.check_grads(f, rng.uniform(-1, 1, 300), order=1, modes="rev")


def test_arguments_of_the_third_order_are_named():
    wrong = ad.custom_jvp(lambda x: x**3)
    wrong.defjvp(lambda primals, tangents: (wrong(*primals), square(primals[0]) * tangents[0]))
    square = ad.custom_jvp(lambda x: 3 * x**2)
    square.defjvp(lambda primals, tangents: (square(*primals), line(primals[0]) * tangents[0]))
    line = ad.custom_jvp(lambda x: 6 * x)
    line.defjvp(lambda primals, tangents: (line(*primals), 7.0 * tangents[0]))
    with pytest.raises(CheckError, match="the tangent of the tangent of the result"):
        ad.check_grads(wrong, 1.5, order=3, modes="fwd")


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
