"""A new op in one declaration: every mode, compiled code, formulas and source follow from it (the op of CONTRIBUTING.md)."""

import numpy as np
import pytest
from harness import check

import adjoint as ad
from adjoint.compiler.lower.fuse import lower
from adjoint.compiler.lower.step import Foreign
from adjoint.core.op import OPS, case
from adjoint.ops.declare import elementwise, linear
from adjoint.ops.elementwise import absolute, square
from adjoint.ops.shape import flip

X = np.array([-2.0, -0.5, 0.25, 3.0])


def softsign_of(x):
    return x / (1 + absolute(x))


@pytest.fixture(scope="module")
def softsign():
    yield elementwise(
        "softsign",
        softsign_of,
        partials=lambda y, x: (1 / square(1 + absolute(x)),),
        scalar=softsign_of,
        parity="odd",
        latex=r"\operatorname{ssgn}",
    )
    del OPS["softsign"]


@pytest.fixture(scope="module")
def suffix_sums():
    op = linear(
        "suffix_sums",
        lambda x, *, axis: np.flip(np.cumsum(np.flip(x, axis), axis), axis),
        transpose=lambda g, x, *, axis: flip(op(flip(g, axis), axis=axis), axis),
        axes="axis",
        cases=[case((3,), axis=0)],
        python="np.flip(np.cumsum(np.flip({0}, {axis}), {axis}), {axis})",
    )
    yield op
    del OPS["suffix_sums"]


def test_eager(softsign):
    np.testing.assert_array_equal(softsign(X), X / (1 + np.abs(X)))
    np.testing.assert_allclose(ad.grad(lambda x: np.sum(softsign(x)))(X), 1 / (1 + np.abs(X)) ** 2)
    _, t = ad.jvp(softsign, (X,), (np.ones(4),))
    np.testing.assert_allclose(t, 1 / (1 + np.abs(X)) ** 2)
    ad.check_grads(softsign, X)
    check(softsign, X)


def test_graph(softsign):
    program = ad.graph(softsign)(X)
    assert "softsign" in str(program)
    np.testing.assert_array_equal(program(X), softsign(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_without_a_call_of_numpy(softsign, dtype):
    x = X.astype(dtype)
    f = ad.jit(ad.grad(lambda x: np.sum(softsign(x) * x)))
    np.testing.assert_allclose(f(x), ad.grad(lambda x: np.sum(softsign(x) * x))(x), rtol=1e-6)
    assert not any(isinstance(step, Foreign) for step in lower(ad.graph(softsign)(x)).steps)


def test_formulas(softsign):
    assert r"\operatorname{ssgn}(x)" in ad.graph(lambda x: softsign(x))(1.0).latex()
    expression = ad.symbolic("softsign(-x)", "x")
    assert str(expression) == "-softsign(x)"  # it is odd
    assert expression.latex() == r"-\operatorname{ssgn}\left(x\right)"
    assert expression.diff("x")(1.0) == -0.25


def run(source, name, *args):
    scope = {}
    exec(source, scope)
    return scope[name](*args)


def test_python_source(softsign, suffix_sums):
    def model(x):
        return softsign(suffix_sums(x, axis=0))

    source = ad.graph(model)(X).python()
    assert "softsign" not in source
    assert "/ (1 + np.abs(" in source.replace("/(1", "/ (1")
    np.testing.assert_array_equal(run(source, "model", X), model(X))


def test_vmap(softsign, suffix_sums):
    rows = np.stack([X, 2 * X, X - 1])
    np.testing.assert_array_equal(ad.vmap(softsign)(rows), softsign(rows))
    by_rows = np.stack([suffix_sums(row, axis=0) for row in rows])
    np.testing.assert_array_equal(ad.vmap(lambda row: suffix_sums(row, axis=0))(rows), by_rows)
    np.testing.assert_array_equal(ad.vmap(lambda row: suffix_sums(row, axis=-1))(rows), by_rows)  # counted from the end
    check(lambda x: suffix_sums(x, axis=0), X)


def declared(name, scalar):
    return elementwise(
        name, lambda x: np.where(x > 0, x, x * x), partials=lambda y, x: (np.where(x > 0, 1, 2 * x),), scalar=scalar
    )


def test_an_expression_in_numpy_functions():
    f = declared("test_expression", lambda x: np.where(x > 0, x, x * x))
    try:
        assert not any(isinstance(step, Foreign) for step in lower(ad.graph(f)(X)).steps)
        np.testing.assert_array_equal(ad.jit(f)(X), f(X))
    finally:
        del OPS["test_expression"]


def test_an_expression_of_what_scalar_code_does_not_have():
    f = declared("test_without_code", lambda x: np.heaviside(x, np.nextafter(x, 2.0)))
    try:
        assert any(isinstance(step, Foreign) for step in lower(ad.graph(f)(X)).steps)
        np.testing.assert_array_equal(ad.jit(f)(X), f(X))
    finally:
        del OPS["test_without_code"]


def test_an_expression_may_not_branch():
    f = declared("test_branching", lambda x: x if x > 0 else x * x)
    try:
        with pytest.raises(ad.AdjointError, match="asks for the truth of a value; it is an expression: choose with"):
            lower(ad.graph(f)(X))
    finally:
        del OPS["test_branching"]


def test_unknown_facts_are_refused():
    with pytest.raises(TypeError, match="'test_colour' is declared with colour=, which is not a fact about an op"):
        elementwise("test_colour", np.sin, partials=lambda y, x: (1,), colour="red")
