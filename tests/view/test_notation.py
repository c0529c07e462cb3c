"""Notations: the same formula in Unicode, ASCII, LaTeX and Python, with the parentheses that each needs."""

import numpy as np
import pytest

from adjoint.core.op import OPS
from adjoint.view.notation import ATOM, Ascii, Latex, Piece, Plain, Python, Unicode, escape_latex, python_name

X, Y = Piece("x", ATOM), Piece("y", ATOM)


@pytest.mark.parametrize(
    "notation, value, bar, partial",
    [
        (Unicode(), "v₋₁", "v̄₁", "∂v₄/∂v₁"),
        (Ascii(), "v[-1]", "v[1]_bar", "dv[4]/dv[1]"),
        (Latex(), "v_{-1}", r"\bar{v}_{1}", r"\frac{\partial v_{4}}{\partial v_{1}}"),
    ],
)
def test_values(notation, value, bar, partial):
    assert notation.value(-1) == value
    assert notation.bar(notation.value(1)) == bar
    assert notation.partial(notation.value(4), notation.value(1)) == partial


@pytest.mark.parametrize("notation", [Unicode(), Ascii(), Plain(), Latex(), Python()], ids=lambda n: type(n).__name__)
def test_a_sum_in_a_product_is_in_parentheses(notation):
    total = notation.add(X, Y)
    product = notation.product(total, X).text
    assert "(" in product
    assert "(" not in notation.add(notation.product(X, Y), X).text
    assert notation.subtract(X, notation.subtract(X, Y)).text.count("(") == 1
    assert notation.subtract(notation.subtract(X, Y), X).text.count("(") == 0


@pytest.mark.parametrize("a, b", [(2.0, 3.0), (-2.0, 0.5)])
def test_python_text_evaluates_to_its_value(a, b):
    n = Python()
    scope = {"x": a, "y": b, "np": np}
    for text, expected in (
        (n.subtract(X, n.negative(Y)), a + b),
        (n.power(n.negative(X), Piece("2", ATOM)), (-a) ** 2),
        (n.negative(n.power(X, Piece("2", ATOM))), -(a**2)),
        (n.fraction(X, n.product(X, Y)), a / (a * b)),
        (n.magnitude(n.subtract(X, Y)), abs(a - b)),
    ):
        assert eval(text.text, scope) == expected


@pytest.mark.parametrize(
    "x, text", [(2.0, "2"), (0.5, "0.5"), (1 / 3, "0.333"), (1e-9, None), (np.inf, "∞"), (np.nan, "nan"), (-1.5, None)]
)
def test_numbers(x, text):
    found = Unicode().number(x)
    assert found
    assert text is None or found == text


def test_latex_of_user_text():
    assert escape_latex("a_b%$") == r"a\_b\%\$"
    assert Latex().variable("x1") == "x_{1}"


def test_names_in_python():
    assert python_name(OPS["sin"]) == "np.sin"
    assert python_name(OPS["erf"]).startswith("special.")
