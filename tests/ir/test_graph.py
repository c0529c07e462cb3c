"""Staging functions into graphs, running them, and their derivatives."""

import dataclasses
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse
from adjoint.core.types import Type
from adjoint.ir.check import GraphError
from adjoint.ir.graph import Equation, Literal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 2))


def model(params, x):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.sum(hidden**2), {"hidden": hidden}


PARAMS = {"w": RNG.standard_normal((2, 4)), "b": np.zeros(4)}


def test_containers_in_and_out():
    staged = ad.graph(model)(PARAMS, X)
    assert staged.input_names == ("params_b", "params_w", "x")
    value, aux = staged(PARAMS, X)
    expected, other = model(PARAMS, X)
    assert value == expected
    np.testing.assert_array_equal(aux["hidden"], other["hidden"])
    assert repr(staged) == "<graph model: 3 inputs, 5 equations, 2 outputs>"


def test_keyword_arguments():
    staged = ad.graph(lambda x, *, scale: x * scale)(X, scale=2.0)
    np.testing.assert_array_equal(staged(X, scale=3.0), 3 * X)


def test_derivatives_of_graphs_are_graphs():
    loss = lambda p, x: model(p, x)[0]
    gradient = ad.graph(ad.grad(loss))(PARAMS, X)
    for key, g in gradient(PARAMS, X).items():
        np.testing.assert_allclose(g, ad.grad(loss)(PARAMS, X)[key], rtol=1e-12)
    staged = ad.graph(loss)(PARAMS, X)
    # a graph is a function: it can be differentiated, batched and staged again
    for key, g in ad.grad(staged)(PARAMS, X).items():
        np.testing.assert_allclose(g, ad.grad(loss)(PARAMS, X)[key], rtol=1e-12)
    twice = ad.graph(ad.jacrev(gradient))(PARAMS, X)
    twice.check()
    np.testing.assert_allclose(twice(PARAMS, X)["b"]["w"], ad.hessian(loss)(PARAMS, X)["b"]["w"], rtol=1e-9, atol=1e-12)


def test_forward_mode_and_vmap():
    f = lambda x: np.sum(np.exp(-x * x))
    push = ad.graph(lambda x, t: ad.jvp(f, (x,), (t,))[1])(X, X)
    np.testing.assert_allclose(push(X, np.ones_like(X)), ad.jvp(f, (X,), (np.ones_like(X),))[1])
    np.testing.assert_allclose(ad.graph(ad.vmap(f))(X)(X), ad.vmap(f)(X))


def test_in_place_writes_are_staged():
    import adjoint.numpy as anp

    def f(x):
        a = anp.zeros(3)
        a[1:] = x[0]
        row = a[:2]
        row *= 2.0
        return a

    staged = ad.graph(f)(X)
    np.testing.assert_array_equal(staged(X), f(X))


def test_float32_and_weak_numbers():
    staged = ad.graph(lambda x: 2 * x + np.float32(1))(np.ones(2, np.float32))
    assert staged.output_types == (Type((2,), np.dtype(np.float32)),)
    assert staged(np.ones(2, np.float32)).dtype == np.float32


def test_unstageable_code_says_so():
    def branch(x):
        return x if x[0, 0] > 0 else -x

    def number(x):
        return x * float(x[0, 0])

    for f in (branch, number):
        with pytest.raises(ad.AdjointError, match=r"test_graph.py:\d+"):
            ad.graph(f)(X)
    with pytest.raises(ad.AdjointError, match="close over the rest"):
        ad.graph(lambda x, s: x)(X, "text")
    with pytest.raises(ad.AdjointError, match="freeze it as a constant"):
        ad.grad(lambda y: ad.graph(lambda x: np.sum(x * y))(X)(X))(2.0)
    kept = []
    ad.graph(lambda x: kept.append(x) or x)(X)
    with pytest.raises(ad.AdjointError, match="after graph had returned"):
        kept[0] + 1


def test_wrong_inputs_are_refused_by_name():
    staged = ad.graph(lambda x, w: x @ w)(X, np.ones(2))
    with pytest.raises(ad.AdjointError, match=r"input 'w' .* has shape \(3,\), expected \(2,\)"):
        staged(X, np.ones(3))
    with pytest.raises(ad.AdjointError, match=r"input 'x' .* has dtype float32, expected float64"):
        staged(X.astype(np.float32), np.ones(2))
    with pytest.raises(ad.AdjointError, match="takes 2 inputs"):
        staged.run(X)
    with pytest.raises(ad.AdjointError, match=r"\(x, w\) takes 2 arguments by position, got 1"):
        staged(X)


def test_check_names_the_equation():
    staged = ad.graph(lambda x: np.sin(np.cos(x)))(X)
    first, second = staged.equations
    for equations, message in (
        ((second, first), r"equation 1 \(v2 = sin, test_graph.py:[0-9]+\) uses v1, which is not defined"),
        ((first, dataclasses.replace(second, outputs=(1,))), "defines v1 a second time"),
        ((dataclasses.replace(first, types=(Type((3, 3), X.dtype),)), second), r"declares float64\[3,3\]"),
    ):
        with pytest.raises(GraphError, match=message):
            dataclasses.replace(staged, equations=equations).check()
    with pytest.raises(GraphError, match="return line uses v9"):
        dataclasses.replace(staged, outputs=(9,)).check()


def test_literals_compare_by_their_bits():
    assert Literal(0.0) != Literal(-0.0)
    assert Literal(np.nan) == Literal(float("nan"))
    assert Literal(1.0) != Literal(np.float64(1.0))  # one is weak, the other not
    assert Literal(np.ones(2)) != Literal(np.ones((2, 1)))


def test_memory_is_freed_along_the_way():
    staged = ad.graph(lambda x: np.sum(np.sin(np.cos(np.exp(x)))))(X)
    assert staged.last_uses() == {0: 0, 1: 1, 2: 2, 3: 3}
    assert isinstance(staged.equations[0], Equation)
    assert next(staged.sources()).startswith("test_graph.py:")


def test_arguments_of_a_call_are_refused_by_name():
    program = ad.graph(lambda a, b, *, c: a * b["w"] + c)(X, {"w": 2.0}, c=1.0)
    good = (X, {"w": 2.0})
    for args, kwargs, message in (
        ((), {}, r"\(a, b_w, c\) takes 2 arguments by position and c by name, got 0"),
        ((X,), {"c": 1.0}, "takes 2 arguments by position and c by name, got 1 and c by name"),
        (good, {"d": 1.0}, "got 2 and d by name"),
        ((X, {"v": 2.0}), {"c": 1.0}, r"argument 1 of the graph 'lambda' has the structure dict\(\['v'\]: \*\), expected"),
        (([1.0, 2.0], {"w": 2.0}), {"c": 1.0}, "argument 0 of the graph 'lambda' has the structure list"),
        ((X, {"w": 2}), {"c": 1.0}, "input 'b_w' of the graph 'lambda' has dtype int64, expected float64"),
        ((X[:1], {"w": 2.0}), {"c": 1.0}, "input 'a' of the graph 'lambda' has shape"),
        (good, {"c": "one"}, "input 'c' of the graph 'lambda' is str"),
    ):
        with pytest.raises(ad.AdjointError, match=message):
            program(*args, **kwargs)


def test_unstageable_code_is_refused_with_the_line():
    for f, message in (
        (lambda x: None, "returned None, but graph needs a value; is a return statement missing"),
        (lambda x: (), r"returned \(\), but graph needs a value"),
        (lambda x: x + np.ones(7), r"add does not take arguments of the shapes \(.*\), \(7,\): they do not broadcast"),
        (lambda x: x @ np.ones(7), "matmul does not take arguments of the shapes"),
    ):
        with pytest.raises(ad.AdjointError, match=message) as caught:
            ad.graph(f)(X)
        assert "test_graph.py:" in str(caught.value)


def test_check_names_what_an_op_refuses():
    head = "graph f(x: float64[2], y: float64[3]) {\n  "
    for equation, message in (
        ("v2: float64[2] = mul x, y", r"equation 1 \(v2 = mul\) cannot take float64\[2\], float64\[3\]: .* do not broadcast"),
        ("v2: float64[2] = sin x, x", r"equation 1 \(v2 = sin\) has 2 operands, the op takes 1"),
        ("v2: float64[2] = sin", "has 0 operands, the op takes 1"),
        ("v2: bool[2] = isnan x, x", "has 2 operands, the op takes 1"),
        ("v2: float64[] = sum x", "cannot take .* 'axis'"),
        ("v2: float64[] = getitem x {spec=(5,)}", "cannot take .* out of bounds"),
    ):
        with pytest.raises(GraphError, match=message):
            parse(head + equation + "\n  return v2\n}")


def test_a_graph_cannot_be_changed():
    constant = np.ones(3)
    g = ad.graph(lambda x: np.sum(x * constant, axis=0))(np.ones(3))
    with pytest.raises(TypeError):
        g.equations[-1].params["axis"] = (1,)
    literal = next(o for o in g.equations[0].inputs if not isinstance(o, int))
    with pytest.raises(ValueError, match="read-only"):
        literal.value[0] = 7.0
    constant[0] = 7.0  # the user's own array stays the user's
    assert g(np.ones(3)) == 3.0
    assert pickle.loads(pickle.dumps(g.equations)) == g.equations
