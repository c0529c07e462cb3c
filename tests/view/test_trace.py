"""The evaluation trace as a table: the textbook's rows exactly, and every kind of program in every form."""

import html.parser
import inspect
import json
import re

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op import Opaque
from adjoint.view.columns import width_of
from adjoint.view.notation import ASCII, LATEX, UNICODE

TEXTBOOK = """\
Forward primal trace ↓ │ Reverse adjoint trace ↑
───────────────────────┼─────────────────────────────────────────────
v₋₁ = x₁ = 2           │ x̄₁ = v̄₋₁ = 5.5
v₀ = x₂ = 5            │ x̄₂ = v̄₀ = 1.716
───────────────────────┼─────────────────────────────────────────────
v₁ = ln v₋₁ = 0.693    │ v̄₋₁ = v̄₋₁ + v̄₁·∂v₁/∂v₋₁ = v̄₋₁ + v̄₁/v₋₁ = 5.5
v₂ = v₋₁·v₀ = 10       │ v̄₀ = v̄₀ + v̄₂·∂v₂/∂v₀ = v̄₀ + v̄₂·v₋₁ = 1.716
                       │ v̄₋₁ = v̄₂·∂v₂/∂v₋₁ = v̄₂·v₀ = 5
v₃ = v₁ + v₂ = 10.693  │ v̄₂ = v̄₃·∂v₃/∂v₂ = v̄₃·1 = 1
                       │ v̄₁ = v̄₃·∂v₃/∂v₁ = v̄₃·1 = 1
v₄ = sin v₀ = −0.959   │ v̄₀ = v̄₄·∂v₄/∂v₀ = v̄₄·cos v₀ = −0.284
v₅ = v₃ − v₄ = 11.652  │ v̄₄ = v̄₅·∂v₅/∂v₄ = v̄₅·(−1) = −1
                       │ v̄₃ = v̄₅·∂v₅/∂v₃ = v̄₅·1 = 1
───────────────────────┼─────────────────────────────────────────────
y = v₅ = 11.652        │ v̄₅ = ȳ = 1

Forward primal trace ↓ │ Forward tangent trace ↓
───────────────────────┼─────────────────────────
v₋₁ = x₁ = 2           │ v̇₋₁ = ẋ₁ = 1
v₀ = x₂ = 5            │ v̇₀ = ẋ₂ = 0
───────────────────────┼─────────────────────────
v₁ = ln v₋₁ = 0.693    │ v̇₁ = v̇₋₁/v₋₁ = 0.5
v₂ = v₋₁·v₀ = 10       │ v̇₂ = v̇₋₁·v₀ + v̇₀·v₋₁ = 5
v₃ = v₁ + v₂ = 10.693  │ v̇₃ = v̇₁ + v̇₂ = 5.5
v₄ = sin v₀ = −0.959   │ v̇₄ = v̇₀·cos v₀ = 0
v₅ = v₃ − v₄ = 11.652  │ v̇₅ = v̇₃ − v̇₄ = 5.5
───────────────────────┼─────────────────────────
y = v₅ = 11.652        │ ẏ = v̇₅ = 5.5"""


def textbook(x1, x2):
    return np.log(x1) + x1 * x2 - np.sin(x2)


def newton(a):
    x = a
    while abs(x * x - a) > 1e-6:
        x = (x + a / x) / 2
    return x


@ad.custom_vjp
def clipped(x):
    return x if x > 0 else 0 * x


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g,))

PROGRAMS = [
    (textbook, (2.0, 5.0)),
    (lambda x: x, (2.0,)),
    (lambda x: 3.0, (2.0,)),
    (lambda: 1.0, ()),
    (lambda x: (x, x), (2.0,)),
    (lambda x: {"<b>|": x * 2, "b": [x, 3]}, (2.0,)),
    (newton, (2.0,)),
    (lambda x: np.log(x) + np.inf * x, (-1.0,)),
    (lambda x: np.sum(x), (np.zeros(0),)),
    (lambda p: p["w"] @ p["x"] + p["b"], ({"w": np.ones((2, 3)), "x": np.arange(3.0), "b": 1.0},)),
    (lambda x: np.linalg.svd(x)[1], (np.array([[1.0, 2.0], [3.0, 4.0]]),)),
    (lambda z: abs(z**2), (1 + 2j,)),
    (lambda x: np.where(x > 0, x, -x).astype(np.float32), (np.array([1.0, -2.0]),)),
    (lambda x: np.abs(x[1:]) ** 0.5 + np.maximum(x[0], 1e-9), (np.array([1.0, -2.0, 3.0]),)),
    (lambda x: clipped(x) * ad.stop_gradient(x), (3.0,)),
    (lambda größe, x_max: größe * x_max, (2.0, 3.0)),
    (ad.grad(lambda x: np.sin(x) * x), (2.0,)),
]


def test_the_textbook_table():
    assert str(ad.trace(textbook)(2.0, 5.0)) == TEXTBOOK


def test_the_textbook_table_in_the_order_of_the_textbook():
    """Python adds before it takes the sine; written so that it does not, the rows have the textbook's numbers."""

    def f(x1, x2):
        logarithm, product, sine = np.log(x1), x1 * x2, np.sin(x2)
        return logarithm + product - sine

    table = ad.trace(f)(2.0, 5.0).text(modes="reverse")
    for row in (
        "v₃ = sin v₀ = −0.959   │ v̄₀ = v̄₃·∂v₃/∂v₀ = v̄₃·cos v₀ = −0.284",
        "v₄ = v₁ + v₂ = 10.693  │ v̄₂ = v̄₄·∂v₄/∂v₂ = v̄₄·1 = 1",
        "                       │ v̄₁ = v̄₄·∂v₄/∂v₁ = v̄₄·1 = 1",
        "v₅ = v₄ − v₃ = 11.652  │ v̄₃ = v̄₅·∂v₅/∂v₃ = v̄₅·(−1) = −1",
    ):
        assert row in table.split("\n")


def test_the_result_is_not_called_like_an_input():
    assert "z = v₁ = 2 " in ad.trace(lambda x, y: x * y)(1.0, 2.0).text()
    assert "f = v₁ = 2 " in ad.trace(lambda z, y: z * y)(1.0, 2.0).text()
    assert "z₁ = v₁ = 2 " in ad.trace(lambda y1, x: (y1 * x, x))(1.0, 2.0).text()


def test_a_comparison_differs_from_the_values_around_it():
    assert "v₁ = v₀ == 1 = True" in ad.trace(lambda x: x if x == 1 else -x)(1.0).text()


def test_lines_are_escaped_in_latex():
    found = ad.trace(lambda x: x * 2)(1.0).latex(lines=True)
    assert r"\texttt{test\_trace.py:" in found


def test_explore_writes_the_page_of_this_run(tmp_path):
    trace = ad.trace(lambda x, n: np.exp(np.log(x)) * 1.0**n, seed=3.0, tangents=(2.0, None))(2.0, 7)
    file = trace.explore(tmp_path / "run.html")
    page = file.read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert set(data["graphs"]) == {"raw", "simplified"}
    for graph in data["graphs"].values():
        (x,) = graph["nodes"][0]["values"]
        assert [x[key]["brief"] for key in ("value", "adjoint", "tangent")] == ["2", "3", "2"]
    with pytest.raises(FileNotFoundError):
        trace.explore(tmp_path / "nowhere" / "run.html")


def test_repr_is_the_table_and_notebooks_get_html():
    table = ad.trace(textbook)(2.0, 5.0)
    assert repr(table) == str(table)
    assert table._repr_html_() == table.html()


def test_one_sweep_only():
    first, second = TEXTBOOK.split("\n\n")
    table = ad.trace(textbook)(2.0, 5.0)
    assert table.text(modes="reverse") == first
    assert table.text(modes=["forward"]) == second


def test_a_seed_and_tangents_are_chosen():
    table = ad.trace(textbook, seed=2.0, tangents=(0.0, 1.0))(2.0, 5.0)
    assert "v̄₅ = ȳ = 2" in str(table)
    assert "x̄₁ = v̄₋₁ = 11" in str(table)
    assert "ẏ = v̇₅ = 1.716" in str(table)


class Structure(html.parser.HTMLParser):
    """Checks that tags nest, and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.rows = [], [], 0

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(("f", "args"), PROGRAMS)
def test_every_form_of_every_program(f, args):
    table = ad.trace(f)(*args)
    text = table.text(lines=True)
    for part in text.split("\n\n"):
        rules = [line for line in part.splitlines() if line.startswith("─")]
        assert len({width_of(line) for line in rules}) <= 1
    assert table.text(ascii=True).isascii()
    for part in table.markdown().split("\n\n"):
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in part.splitlines() if line.startswith("|")}
        assert columns == {3}
    latex = table.latex(lines=True)
    assert latex.count("{") == latex.count("}")
    assert latex.count(r"\begin{array}") == latex.count(r"\end{array}") == 2
    assert all(line.count("&") == 2 for line in latex.splitlines() if line.endswith(r"\\"))
    page = Structure()
    page.feed(table.html())
    assert page.open == []
    assert "<b>" not in table.html()


def test_python_numbers_are_not_taken_for_variables():
    text = ad.trace(lambda x, n: x**n)(2.0, 3).text(modes="reverse")
    assert "v₁ = v₀³ = 8" in text
    assert "v̄₀ = v̄₁·∂v₁/∂v₀ = v̄₁·3·v₀² = 12" in text


def test_the_path_taken_is_shown():
    table = ad.trace(newton)(2.0)
    text = table.text(lines=True)
    assert "> 1e-6 = True" in text
    assert "> 1e-6 = False" in text
    assert "test_trace.py:" in text


def test_a_value_that_is_returned_twice():
    text = ad.trace(lambda x: (x, x))(2.0).text(modes="reverse")
    assert "y₁ = v₀ = 2            │ v̄₀ = v̄₀ + ȳ₁ = 2" in text
    assert "y₂ = v₀ = 2            │ v̄₀ = ȳ₂ = 1" in text


def test_broadcast_operands_are_summed():
    text = ad.trace(lambda x, b: x + b)(np.ones(3), 2.0).text(modes="reverse")
    assert "v̄₀ = v̄₁·∂v₁/∂v₀ = sum(v̄₁·1) = 3" in text


def test_long_programs_are_cut_in_the_middle_and_say_so():
    def f(x):
        for _ in range(50):
            x = np.sin(x) + 1
        return x

    table = ad.trace(f)(0.5)
    short = table.text(modes="reverse", limit=10)
    assert "… 90 more …" in short
    assert "90 of 100 equations are left out; limit=None shows all of them" in short
    assert "\nv₅ = " in short
    assert "\nv₆ = " not in short
    assert "\nv₉₅ = " not in short
    assert "\nv₉₆ = " in short
    assert "left out" in table.markdown(limit=10)
    assert "left out" in table.html(limit=10)
    assert "left out" in table.latex(limit=10)
    whole = table.text(limit=None)
    assert "left out" not in whole
    assert "v₅₀ = v₄₉ + 1" in whole
    assert len(str(table).splitlines()) < len(whole.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [({"limit": 1}, "at least 2"), ({"modes": "sideways"}, "'reverse' and 'forward'"), ({"modes": ()}, "one")],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        ad.trace(textbook)(2.0, 5.0).text(**options)


def test_a_sweep_that_cannot_be_made_is_explained():
    double = Opaque("double", lambda x: x * 2, None, lambda g, y, x: (g * 2,))
    text = str(ad.trace(lambda x: double(x))(3.0))
    assert "x̄ = v̄₀ = 2" in text
    assert "no forward tangent trace: no forward rule for 'double'" in text


def test_names_are_escaped():
    table = ad.trace(lambda x: {"<script>": x * 2})(1.0)
    assert "<script>" not in table.html()
    assert "&lt;script&gt;" in table.html()
    assert "<script>" not in table.markdown()


def test_latex_of_the_textbook():
    latex = ad.trace(textbook)(2.0, 5.0).latex(modes="reverse")
    assert r"v_{1} = \ln v_{-1} = 0.693 & " in latex
    assert (
        r"\bar{v}_{-1} = \bar{v}_{-1} + \bar{v}_{1} \cdot \frac{\partial v_{1}}{\partial v_{-1}} = \bar{v}_{-1} + "
        r"\frac{\bar{v}_{1}}{v_{-1}} = 5.5" in latex
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (0.5, "0.5"),
        (1 / 3, "0.333"),
        (1 - 1e-9, "1.000"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
        (-1.2345678e-5, "−1.235e-5"),
        (123456.789, "123456.789"),
        (1e300, "1e300"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (np.nan, "nan"),
        (True, "True"),
        (np.int64(-3), "−3"),
        (np.float32(0.1), "0.100"),
        (1 - 2j, "1 − 2i"),
        (np.zeros(0), "[] (0)"),
        (np.zeros((0, 3)), "[] (0×3)"),
        (np.arange(3.0), "[0, 1, 2]"),
        (np.arange(6.0).reshape(2, 3), "[0, 1, 2, 3, …] (2×3)"),
    ],
)
def test_numbers(value, text):
    assert UNICODE.array(value) == text
    assert ASCII.array(value).isascii()


def test_notations():
    assert (UNICODE.value(-12), ASCII.value(-12), LATEX.value(-12)) == ("v₋₁₂", "v[-12]", "v_{-12}")
    assert UNICODE.bar("x₁") == "x̄₁"
    assert UNICODE.bar("weights") == "∂/∂weights"
    assert LATEX.variable("x_1") == "x_{1}"
    assert LATEX.variable("a_b") == r"\mathrm{a\_b}"


def test_the_name_is_both_the_function_and_the_package():
    import adjoint.eager.tape
    import adjoint.staging.concrete as concrete
    from adjoint import trace

    assert trace is adjoint.trace is ad.trace
    assert adjoint.eager.tape.__name__ == "adjoint.eager.tape"
    assert concrete is adjoint.staging.concrete
    assert "x = 1" in str(trace(lambda x: x * 2)(1.0))
    assert list(inspect.signature(trace).parameters) == ["f", "seed", "tangents"]
    with pytest.raises(ad.AdjointError, match=r"trace expects a function, got int.*test_trace.py"):
        ad.trace(5)
