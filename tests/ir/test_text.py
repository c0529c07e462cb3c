"""Graphs as text: readable, and back again."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse


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
            r"line 2, column 3: .* declares float64\[3\], the op gives float64\[2\]",
        ),
        ("graph f(x: float64[2], x: float64[]) {\n  return x\n}", "line 1, column 24: 'x' is defined twice"),
        ("graph f(x: float64[]) {\n  v1: float64[] = sin v1\n  return v1\n}", "line 2, column 23: 'v1' is not defined here"),
        ("graph f(x: float64[]) {\n\n  # a\n  v1: float64[] = sin x, x\n  return v1\n}", "line 4, column 3: .* has 2 operands"),
        ("graph f(x: object[]) {\n  return x\n}", "line 1, column 12: 'object' is not a dtype of numbers"),
        ("graph f(x: datetime64[2]) {\n  return x\n}", "'datetime64' is not a dtype of numbers"),
        ("graph f(x: float64[]) {\n  return x\n}\n\nmore", "line 5, column 1: expected nothing"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text, message):
    with pytest.raises(ad.AdjointError, match=message) as error:
        parse(text)
    assert isinstance(error.value, ValueError)


LOOP = """graph f(w: float64[], xs: float64[3]) {
  v2: float64[], v3: float64[3] = scan w, float64(1.0), xs {length=3, reverse=False, carries=1, consts=1}
    body = graph step(w: float64[], c: float64[], x: float64[]) {
      const c0 = float64[2]([1.0, 2.0])
      v3: float64[] = mul c, w
      v4: float64[2] = mul c0, x
      v5: float64[] = sum v4 {axis=(0,), keepdims=False}
      return v3, v5
    }
  v4: float64[] = add v2, w
  return v4, v3
}"""


def test_graphs_that_an_equation_holds_stand_below_it():
    loop = parse(LOOP)
    assert str(loop) == LOOP
    np.testing.assert_array_equal(loop.run(2.0, np.arange(3.0))[1], [0.0, 3.0, 6.0])


def test_empty_lines_and_comments_are_passed_over():
    spread = "\n".join(["# a loop", "", *(part for line in LOOP.split("\n") for part in ("", "  # next", line)), "", ""])
    assert parse(spread) == parse(LOOP)


def test_nested_bodies_and_branches_round_trip():
    def f(x, xs):
        def iteration(c, v):
            c = ad.cond(v > 0, lambda c: ad.fori_loop(0, 2, lambda i, u: u * x + i, c), lambda c: c, c)
            return c, ad.while_loop(lambda u: u < 3.0, lambda u: u * 2.0 + 1.0, v)

        return ad.scan(iteration, x, xs, checkpoint=2)

    for g in (f, ad.grad(lambda x, xs: np.sum(f(x, xs)[1]) + f(x, xs)[0], (0, 1))):
        staged = ad.graph(g)(0.5, np.ones(4))
        again = parse(str(staged))
        assert again == staged
        assert str(again) == str(staged)
        again.check()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("mul c, w", "mul c, y", "line 5, column 30: 'y' is not defined here"),
        ("      return v3, v5\n    }", "      return v3, v5", "line 9, column 1: expected '}' after the return line"),
        ("    body = graph step", "    body = graf step", "line 3, column 1: expected 'name: type = op"),
        ("    body = graph step(", "    body = graph step[", "line 3, column 1: expected 'graph name"),
        (
            "v3: float64[] = mul c, w",
            "v3: float64[4] = mul c, w",
            r"line 5, column 7: in the graph 'body' of .* declares float64\[4\]",
        ),
        ("return v3, v5", "return v3", r"declares 2 results, the op gives 1"),
        ("return v3, v5", "return v4, v5", r"carries back, got float64\[2\]"),
        ("{length=3", "{length=4", r"scan takes float64\[4\] as number 2 of its arguments, got float64\[3\]"),
        ("scan w, float64(1.0), xs", "scan w, xs", "scan takes 3 arguments, got 2"),
        (", consts=1", "", "consts"),
        ("\n  v4: float64[] = add v2, w\n  return v4, v3\n}", "", "line 9, column 1: the graph has no return line"),
    ],
)
def test_malformed_bodies_are_refused_with_their_place(old, new, message):
    assert old in LOOP
    with pytest.raises(ad.AdjointError, match=message):
        parse(LOOP.replace(old, new, 1))


def test_a_rule_written_in_python_cannot_be_read_back():
    f = ad.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    with pytest.raises(ad.AdjointError, match=r"line 2, column 19: 'custom.sin' is a function with a custom rule"):
        parse(str(ad.graph(lambda x: f(x))(1.0)))


def test_names_in_any_script(tmp_path):
    def σ(λ, größe, 变量):
        return np.sin(λ) * größe + 变量 * np.arange(3.0)

    staged = ad.graph(σ)(0.5, 2.0, 3.0)
    assert staged.input_names == ("λ", "größe", "变量")
    for again in (ad.parse(str(staged)), ad.parse(str(ad.graph(ad.grad(lambda λ: σ(λ, 2.0, 1.0).sum()))(0.5)))):
        assert ad.parse(str(again)) == again
    np.testing.assert_array_equal(ad.parse(str(staged))(0.5, 2.0, 3.0), σ(0.5, 2.0, 3.0))
    ad.save(tmp_path / "program", staged)
    np.testing.assert_array_equal(ad.load(tmp_path / "program")(0.5, 2.0, 3.0), σ(0.5, 2.0, 3.0))
