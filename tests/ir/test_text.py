"""Graphs as text: readable, and back again."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.graphs import parse


def test_it_reads_like_a_program():
    def loss(x, w):
        return np.sum(np.sin(x) * w * 2.0)

    staged = ad.graph(loss)(np.ones(3), 0.5)
    lines = [line.split("  #")[0] for line in str(staged).split("\n")]
    assert lines == [
        "graph loss(x: float64[3], w: float64[]) {",
        "  v2: float64[3] = sin x",
        "  v3: float64[3] = mul v2, w",
        "  v4: float64[3] = mul v3, 2.0",
        "  v5: float64[] = sum v4 {axis=(0,), keepdims=False}",
        "  return v5",
        "}",
    ]
    assert "# test_text.py:" in str(staged)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[::-2, None] + x[..., 0] * np.float32(2),
        lambda x: np.where(x > 0, x, np.nan) + np.inf - np.array([[np.nan, -0.0], [-np.inf, 1e-300]]),
        lambda x: (x * (1 - 2j)).real + np.array([1 + 2j, -0.0j]).imag,
        lambda x: x + np.arange(200.0).reshape(100, 2)[:2],
        lambda x: (x, {"a": 3.0, "b": x[[0, 1, 1]]}),
        lambda x: np.linalg.eigh(x @ x.T),
        lambda x: np.float64(3.0),
        lambda x: x.astype(np.float32) @ np.ones((2, 0), np.float32),
    ],
)
def test_round_trip(f):
    staged = ad.graph(f)(np.array([[1.0, 2.0], [3.0, -4.0]]))
    again = parse(str(staged))
    assert again == staged
    assert str(again) == str(staged)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "line 1, column 1: expected 'graph"),
        ("graph f(x float64[]) {\n  return x\n}", "line 1, column 9: expected 'name: type'"),
        ("graph f(x: float99[]) {\n  return x\n}", "'float99' is not a dtype"),
        ("graph f(x: float64) {\n  return x\n}", "'float64' is not a type such as"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sine x\n  return v1\n}", "line 2, column 19: there is no op named 'sine'"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sin y\n  return v1\n}", "line 2, column 23: 'y' is not defined here"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sin x\n  v1: float64[] = sin x\n  return v1\n}", "line 3, .*defined twice"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sum x {axis}\n  return v1\n}", "expected 'name=value'"),
        ("graph f(x: float64[]) {\n  v1: float64[] = add x, __import__('os')\n  return v1\n}", "only literals"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sin x\n}", "line 3"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sin x\n  return v1\n", "expected '}'"),
        ("graph f(x: float64[]) {\n  const c = float64[2]([1.0])\n  return c\n}", "1 numbers for the type"),
        ("graph f(x: float64[]) {\n  w: float64[] = sin x\n  return w\n}", "named v and a number"),
        (
            "graph f(x: float64[2]) {\n  v1: float64[3] = sin x\n  return v1\n}",
            r"declares float64\[3\], the op gives float64\[2\]",
        ),
        ("graph f(x: float64[2], x: float64[]) {\n  return x\n}", "'x' is defined twice"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text, message):
    with pytest.raises(ad.AdjointError, match=message) as error:
        parse(text)
    assert isinstance(error.value, ValueError)
