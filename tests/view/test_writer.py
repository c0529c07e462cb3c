"""Equations and their derivatives in a notation."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.types import Type
from adjoint.view.notation import Ascii, Latex, Unicode
from adjoint.view.writer import GraphWriter


def written(f, *args, notation=None):
    graph = ad.graph(f)(*args)
    writer = GraphWriter(notation or Unicode(), graph)
    return [writer.expression(e) for e in graph.equations]


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda x, y: np.log(x) + x * y, ["ln v₋₁", "v₋₁·v₀", "v₁ + v₂"]),
        (lambda x, y: (x + y) / (x - y), ["v₋₁ + v₀", "v₋₁ - v₀", "v₁/v₂"]),
        (lambda x, y: x**2 * 3.0 + 0 * y, None),
    ],
)
def test_right_sides(f, expected):
    found = written(f, 2.0, 5.0)
    assert expected is None or [text.replace("−", "-") for text in found] == expected


def test_ascii_stays_ascii():
    for text in written(lambda x, y: np.sqrt(x) * np.exp(y) ** 2 + abs(x), 2.0, 5.0, notation=Ascii()):
        assert text.isascii()


def test_latex_is_balanced():
    for text in written(lambda x, y: np.sqrt(x / y) * np.sum(np.ones(3) * x), 2.0, 5.0, notation=Latex()):
        assert text.count("{") == text.count("}")


def test_names_and_types():
    graph = ad.graph(lambda x, y: np.sin(x) * y)(np.ones(2), 1.0)
    writer = GraphWriter(Unicode(), graph)
    assert [writer.name(n) for n in range(4)] == ["v₋₁", "v₀", "v₁", "v₂"]
    assert writer.operand_type(graph.equations[0], dict(enumerate(graph.input_types))) == Type((2,), np.dtype(float))
