"""Programs as formulas: what is nested, what is left out for finite numbers, loops and branches."""

import re

import numpy as np
import pytest
from export.samples import SAMPLES

import adjoint as ad
from adjoint import export

X = np.ones(3)


def lines(f, *args, **options):
    """The lines of mathematics."""
    text = export.latex(f, *args, **options)
    return [line.removesuffix(r" \\") for line in text.splitlines() if "&" in line]


def gauss(x, mu, S):
    d = x - mu
    return -0.5 * d @ np.linalg.solve(S, d) - 0.5 * np.linalg.slogdet(2 * np.pi * S)[1]


def test_formulas_are_nested():
    f = lambda x: np.sum(np.sin(x) * x)
    assert lines(f, X, derivatives="gradient") == [
        r"y &= \sum \left(\sin x\right) \odot x",
        r"\bar{x} &= \sin x + x \odot \cos x",
    ]


def test_names_and_matrices():
    assert lines(gauss, X, X, np.eye(3)) == [
        r"v_{1} &= x - \mu",
        r"y &= \left(-0.5 \cdot v_{1}\right)^{\top} \, \left(S^{-1} \, v_{1}\right)"
        r" - 0.5 \cdot \ln \left|\det \left(2\pi \cdot S\right)\right|",
    ]
    assert lines(lambda c0, w1, y_: w1 * c0 + y_, 1.0, 2.0, 3.0) == [r"y' &= w_{1} \cdot c_{0} + y"]
    assert lines(lambda x: x**3, 1.0, derivatives="jacobian")[1].startswith(r"\frac{\partial y}{\partial x} &= 3")
    assert lines(lambda x: np.eye(3) @ x, X) == [r"y &= I_{3} \, x"]


def test_what_protects_zeros_is_left_out():
    text = export.latex(lambda x: np.exp(x) / np.sum(np.exp(x)), X, derivatives="vjp")
    assert not re.search("isinf|nan|begin{cases}", text)
    assert "strong" not in export.latex(lambda x: np.sum(np.sqrt(x) / x), X, derivatives=("gradient", "hvp"))


def test_conditions_of_the_function_stay():
    (found,) = lines(lambda x: np.where(x > 1, x * 2, 0), X)
    assert r"\text{if } x > 1" in found


def test_branches_are_cases():
    f = lambda x: ad.cond(x > 0, lambda x: x**2, lambda x: np.exp(x), x)
    assert lines(f, 1.0) == [r"y &= \begin{cases} x^{2} & \text{if } x > 0 \\ e^{x} & \text{otherwise} \end{cases}"]


def test_loops_say_how_they_start():
    root = lambda a: ad.while_loop(lambda x: np.abs(x * x - a) > 1e-3, lambda x: 0.5 * (x + a / x), a)
    assert lines(root, 2.0) == [
        r"v_{1} &= \operatorname{while}(x \gets a)",
        r"y &= v_{1}",
        r"\text{go on if } & \left|x \cdot x - a\right| > 0.001",
        r"x &\gets 0.5 \cdot \left(x + \frac{a}{x}\right)",
    ]
    fold = lambda c, xs: ad.scan(lambda c, x: (c * x, c), c, xs)
    assert lines(fold, 1.0, X)[0] == (
        r"v_{1}, v_{2} &= \operatorname{scan}(c \gets c, \; x = \mathrm{xs}_{k}, \; k = 0, \dots, 2)"
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    f, args, derivatives = SAMPLES[name]
    with np.errstate(all="ignore"):
        text = export.latex(f, *args, derivatives=derivatives)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert len(re.findall(r"\\left\b", text)) == len(re.findall(r"\\right\b", text))
    for kind in ("aligned", "cases"):
        assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}")


@pytest.mark.parametrize(
    "x", [0.0, np.pi, -np.pi / 6, 12 * np.pi, 13 * np.pi, 1e308, np.finfo(float).max, np.inf, -np.inf, np.nan]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_of_every_size(x, dtype):
    with np.errstate(over="ignore"):
        number = np.asarray(x, dtype)[()]
    (line,) = lines(lambda y: y * number, np.ones(3, dtype))
    assert ("pi" in line) == (dtype == "float64" and 0 < abs(x) <= 12 * np.pi)
