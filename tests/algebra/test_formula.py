"""Formulas: what may be written, that nothing else is run, and carets under mistakes."""

import math
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint.algebra.formula import Formula, FormulaError


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("x**2*y + y + 2", (3.0, 4.0), 42.0),
        ("log(x1) + x1*x2 - sin(x2)", (2.0, 5.0), math.log(2) + 10 - math.sin(5)),
        ("-x**2", (3.0,), -9.0),
        ("+x - -x", (3.0,), 6.0),
        ("7 // 2 + 7 % 4", (), 6.0),
        ("2**3**2", (), 512.0),
        ("pi + π + e", (), 2 * math.pi + math.e),
        ("inf - x", (1.0,), math.inf),
        ("np.sin(x) + math.cos(x) + numpy.pi", (0.0,), 1 + math.pi),
        ("max(x, y, 3)", (1.0, 2.0), 3.0),
        ("max([x, y, 3])", (1.0, 2.0), 3.0),
        ("sum([x, y]*2)", (1.0, 2.0), 6.0),
        ("x[0] + x[-1] + sum(x[1:3])", (np.arange(4.0),), 6.0),
        ("A[0, 1] + A[1][0]", (np.array([[1.0, 2.0], [3.0, 4.0]]),), 5.0),
        ("dot(x, x) + norm(x)", (np.array([3.0, 4.0]),), 30.0),
        ("x @ x", (np.array([3.0, 4.0]),), 25.0),
        ("x if x > 0 else -x", (-2.0,), 2.0),
        ("x if 0 < x < 1 or x == 5 else 0", (5.0,), 5.0),
        ("where(x > 0, x, 0)", (-2.0,), 0.0),
        ("sigmoid(0) + expit(0) + ln(e)", (), 2.0),
        ("9**9**9", (), math.inf),
        ("1/0", (), math.inf),
        ("1e999", (), math.inf),
        ("  x  ", (1.0,), 1.0),
        ("(1 > 2) / (2 > 3)", (), math.nan),
        ("not 0", (), True),
    ],
)
def test_values(text, values, wanted):
    np.testing.assert_allclose(Formula(text)(*values), wanted)


def test_names_come_in_the_order_of_the_text_or_as_given():
    assert Formula("b + a*b + pi").names == ("b", "a")
    assert Formula("b + a", names=("a", "b"))(1.0, 2.0) == 3.0
    assert Formula("e + gamma", known={"e", "gamma"}).names == ("e", "gamma")


def test_it_can_be_differentiated_and_runs_as_written():
    f = Formula("x**2*y + y + 2")
    assert ad.grad(f, argnums=(0, 1))(3.0, 4.0) == (24.0, 10.0)
    graph = ad.graph(Formula("log(x1) + x1*x2 - sin(x2)").as_function())(2.0, 5.0)
    assert [e.op.name for e in graph.equations] == ["log", "mul", "sin", "add", "sub"]  # as in the textbooks
    assert graph.input_names == ("x1", "x2")


def test_a_choice_runs_one_branch_only_and_both_when_there_are_no_numbers():
    f = Formula("sqrt(x) if x > 0 else x")
    assert ad.grad(f)(-1.0) == 1.0
    assert "where" in str(ad.graph(f)(1.0))


@pytest.mark.parametrize(
    ("text", "reason", "start", "end"),
    [
        ("sni(x)", "did you mean 'sin'", 0, 3),
        ("2 + x^2", "write ** for a power", 5, 6),
        ("x +", "ends too early", 3, 4),
        ("", "is empty", 0, 1),
        ("(x + 1", "never closed", 0, 1),
        ("x y", "does not fit", 2, 3),
        ("2x", "a product is written with", 0, 1),
        ("2(x)", "write * for a product", 0, 4),
        ("y = 3", "no '='", 2, 3),
        ("sin", "is a function", 0, 3),
        ("sin(x, y)", "takes 1 argument, got 2", 0, 9),
        ("x + 'a'", "only real numbers", 4, 7),
        ("1j", "only real numbers", 0, 2),
        ("é + ñ*sni(é)", "did you mean 'sin'", 6, 9),
        ("x.real", "is not allowed", 0, 6),
        ("x.sin()", "not a known function", 0, 5),
        ("x if y", "expected 'else'", 0, 6),
        ("[[1, 2], 3 4]", "does not fit", 9, 12),
        ("~x", "'~' is not known", 0, 2),
        ("x << 3", "operator is not known", 0, 6),
        ("x is y", "compare numbers", 0, 6),
        ("x[y]", "an index is", 2, 3),
        ("9" * 5000, "too long", 0, 1),
        ("1" + "0" * 400, "too large", 0, 401),
        ("sin(x, axis=0)", "plain arguments", 0, 14),
        ("sin(*x)", "plain arguments", 0, 7),
        ("x\ny", "one line", 1, 2),
    ],
)
def test_mistakes_have_a_reason_and_a_place(text, reason, start, end):
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    error = caught.value
    assert reason in error.reason
    assert (error.start, error.end) == (start, end)
    carets = error.caret().splitlines()[-1]
    assert carets.index("^") >= 4
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "lambda: 1",
        "[i for i in x]",
        "{1: 2}",
        "{x}",
        "f'{x}'",
        "(x := 3)",
        "eval('1')",
        "open('/etc/passwd')",
        "exec('import os')",
        "x.__globals__",
        "np.load('x')",
        "np.fromfile('x')",
        "numpy.lib.npyio",
        "os.sin(x)",
        "await x",
        "yield x",
        "print(x)",
        "getattr(x, 'a')",
        "...",
        "None",
        "b'1'",
        "*x",
        "x, *y",
        "import os",
        "x; y",
        "@x",
        "x\x00y",
        "#",
        "\\",
        "if x: y",
    ],
)
def test_nothing_but_mathematics_is_read(text):
    with pytest.raises(FormulaError):
        Formula(text)


@pytest.mark.parametrize(
    "text",
    ["(" * 150 + "x" + ")" * 150, "(" * 5000 + ")", "-" * 5000 + "x", "x" * 20000, "x**" * 3000 + "x", "[" * 90 + "x" + "]" * 90],
)
def test_monsters_are_read_or_refused_and_never_crash(text):
    found = None
    try:
        Formula(text)
    except FormulaError as error:
        found = error.caret()
    assert found is None or max(map(len, found.splitlines())) < 120


def test_long_sums_work():
    assert Formula("x" + " + x" * 2000)(1.0) == 2001.0


def test_ragged_arrays_are_refused_when_they_are_made():
    with pytest.raises(FormulaError, match="same length"):
        Formula("[[1, 2], [3]]")()


@pytest.mark.parametrize("text", ["outer(outer(x, x), x)", "sum(x) + [[[x]]] * outer(x, x)"])
def test_memory_is_not_filled(text):
    x = np.ones(3000)
    with pytest.raises(ValueError, match="too large"):
        Formula(text)(x)


def test_errors_pickle():
    with pytest.raises(FormulaError) as caught:
        Formula("sni(x)")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.reason, copy.start) == (caught.value.reason, 0)
