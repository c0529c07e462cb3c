"""Terms as text: Python's operators read back as the same term, source that runs, LaTeX."""

import numpy as np
import pytest

from adjoint.algebra.convert import evaluate
from adjoint.algebra.parse import parse
from adjoint.algebra.terms import symbol
from adjoint.algebra.write import Infix, LatexTerms, PythonTerms, latex_name

NAMES = {name: symbol(name) for name in ("x", "y", "w1")}
TEXTS = [
    "x + y", "x - (y - w1)", "-x**2", "(-x)**2", "x/(y*w1)", "2*x/3", "x**-0.5", "x**(y + 1)", "sin(x)*cos(y)",
    "where(x < y, x, -y)", "0.1*x + 1e-12", "maximum(x, y)", "exp(x)/(1 + exp(x))", "(x + y)*(x - y)", "sqrt(x) + x**(1/3)",
]  # fmt: skip


def joined(written):
    return "; ".join([*(f"{name} = {text}" for name, text in written.names), written.result])


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_back(text):
    term = parse(text, NAMES)
    assert parse(joined(Infix().write(term, NAMES)), NAMES) == term


CHOICES = ["where(x < y, 1, x)", "where(x < y, y, x)", "where(x < y, 2, 3)"]
FACTORS = ["x**(-2)", "sin(y)", "1/(x + y)", "x*y", "1/where(y < x, x, 1)", "where(y < x, x, 5)"]
FORMS = ["{0}", "{0} + x", "{0} - sin(x)*3", "exp({0})", "{0} - 2*(({1})*(x*({2})))", "1/({0})"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", ["-1", "2", "-2", "1/2", "-2/3", "0.7"])
def test_a_number_in_front_of_a_choice_and_other_factors_is_read_back(number, form):
    """`-(where(c, a, b)/x)`: without parentheses, the sign would be that of the choice."""
    for choice in CHOICES:
        for factor in FACTORS:
            product = f"({number})*(({choice})*({factor}))"
            term = parse(form.format(product, choice, factor), NAMES)
            for writer in (Infix(), PythonTerms()):
                text = joined(writer.write(term, NAMES)).replace("np.", "").replace("special.", "")
                assert parse(text, NAMES) == term, text


@pytest.mark.parametrize("text", TEXTS)
def test_source_runs(text):
    from scipy import special

    term = parse(text, NAMES)
    written = PythonTerms().write(term, NAMES)
    scope = {"np": np, "special": special, "x": 0.7, "y": 1.3, "w1": 0.2}
    exec("\n".join([*(f"{name} = {part}" for name, part in written.names), f"result = {written.result}"]), scope)
    np.testing.assert_allclose(scope["result"], evaluate(term, {"x": 0.7, "y": 1.3, "w1": 0.2}), rtol=1e-13)


@pytest.mark.parametrize("text", TEXTS)
def test_latex_is_balanced(text):
    written = LatexTerms().write(parse(text, NAMES), NAMES)
    assert written.result.count("{") == written.result.count("}")
    assert "**" not in written.result


@pytest.mark.parametrize(
    "name, expected",
    [("w1", "w_{1}"), ("alpha", r"\alpha"), ("x_max", r"x_{\mathrm{max}}"), ("x", "x"), ("weight", r"\mathrm{weight}")],
)
def test_names(name, expected):
    assert latex_name(name) == expected


def test_shared_terms_get_a_name():
    shared = parse("t = exp(sin(x*y + x/y)*cos(x - y) + w1*x*y); sin(t) + t*cos(t) + log(1 + t)", NAMES)
    assert Infix().write(shared, NAMES).names
