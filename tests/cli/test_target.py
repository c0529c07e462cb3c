"""The target of a command: a formula, or a function in a file, and its arguments."""

import numpy as np
import pytest

from adjoint.cli.target import UsageError, argument, assignment, load, number, target

FILE = """
import dataclasses

class Model:
    @staticmethod
    def loss(w, *, rate=2.0):
        return w * rate

def f(x, n: int = 2, *more):
    return x**n

LIST = [1]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some model.py"
    path.write_text(FILE)
    return str(path)


def test_a_formula_takes_its_names_in_order():
    found = target("y + x*2", ["x=3", "y=pi/2"], None)
    assert found.is_formula
    assert found.function(*found.args) == pytest.approx(6 + np.pi / 2)
    assert found.chosen("x") != found.chosen("y")
    assert found.chosen(None) == [0, 1]


def test_a_function_in_a_file(file):
    found = target(f"{file}:f", ["x=[1, 2]", "n=3"], None)
    np.testing.assert_array_equal(found.function(*found.args), [1.0, 8.0])
    assert not found.is_formula
    assert target(f"{file}:Model.loss", ["w=1"], None).function(1.0) == 2.0


@pytest.mark.parametrize(
    "text, is_int, expected",
    [
        ("3", False, 3.0),
        ("3", True, 3),
        ("pi/4", False, np.pi / 4),
        ("(1, (2, 3))", False, (1.0, (2.0, 3.0))),
        ("{'a': 1}", False, {"a": 1.0}),
    ],
)
def test_arguments(text, is_int, expected):
    found = argument("x", text, is_int)
    assert isinstance(found, type(expected))
    np.testing.assert_equal(found, expected)


def test_words():
    assert assignment("x=1=2") == ("x", "1=2")
    assert number("x", "[1, 2]").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda file: assignment("x"), "not a value of the form name=number"),
        (lambda file: number("x", "1+"), "cannot be read"),
        (lambda file: argument("x", "[[1, 2], [3]]", False), "differ in length"),
        (lambda file: load("nowhere.py", "f"), "there is no file"),
        (lambda file: load(file, "g"), "has no function 'g'"),
        (lambda file: load(file, "LIST"), "is list, not a function"),
        (lambda file: target(f"{file}:f", ["x=1"], ["1"]), "given twice"),
        (lambda file: target(f"{file}:f", ["z=1"], ["1"]), "not a parameter"),
        (lambda file: target("x", ["x=1"], None).chosen("z"), "--wrt names 'z'"),
    ],
)
def test_mistakes(file, call, message):
    with pytest.raises(UsageError, match=message):
        call(file)
