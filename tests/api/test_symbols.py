"""Explicit graphs: symbols, gradients, functions, feeds and fetches."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))


# -- symbols ----------------------------------------------------------------------------------------------------


def test_one_name_gives_one_symbol_and_several_a_tuple():
    assert repr(ad.symbols("x")) == "<symbol x: float64[]>"
    for names in ("x y", "x, y", "x,y", ["x", "y"], ("x", "y"), " x  y "):
        x, y = ad.symbols(names, shape=(2, 3), dtype=np.float32)
        assert (repr(x), str(y)) == ("<symbol x: float32[2,3]>", "<symbol y: float32[2,3]>")
    (only,) = ad.symbols(["w_1"], shape=4)
    assert (only.shape, only.dtype, f"{only:>26}") == ((4,), np.float64, "  <symbol w_1: float64[4]>")
    (only,) = ad.symbols("x,")
    assert only.shape == ()


@pytest.mark.parametrize("name", ["2x", "a-b", "", "lambda", "v3", "c0", "nan", "inf", "α", None, 3, ["x", 4], "x x"])
def test_bad_names(name):
    with pytest.raises(ad.AdjointError, match=r"name for a symbol|twice"):
        ad.symbols(name)


def test_bad_shapes_and_dtypes():
    for shape in (-1, (2, -3), 1.5, "ab", (None,)):
        with pytest.raises(ad.AdjointError, match="shape of a symbol"):
            ad.symbols("x", shape=shape)
    for dtype in (str, object, "no such", None):
        with pytest.raises(ad.AdjointError, match=r"dtype|holds numbers"):
            ad.symbols("x", dtype=dtype)


def test_nodes_print_their_op_and_type():
    with ad.Graph():
        x, y = ad.symbols("x y", shape=(3,))
        assert repr(x * y) == "<node v2 = mul: float64[3]>"
        assert repr(np.sum(x)) == "<node v3 = sum: float64[]>"
        assert repr(x > 0) == "<node v4 = greater: bool[3]>"
        _, r = np.linalg.qr(ad.symbols("a", shape=(2, 2)))
        assert repr(r).startswith("<node v7 = qr")
        assert repr(ad.gradients(2.0 * y, y, grad_outputs=np.ones(3))) == "<constant …: float64[3]>"
        assert repr(ad.gradients(2.0 * x[0], x)[0].shape) == "()"


def test_numbers_are_not_known_while_building():
    x, v = ad.symbols("x", shape=()), ad.symbols("v", shape=3)
    for use in (
        lambda: bool(x > 0),
        lambda: float(x),
        lambda: int(x),
        lambda: complex(x),
        lambda: math.sin(x),
        lambda: [1, 2][x],
        lambda: x.item(),
        lambda: v.tolist(),
        lambda: np.asarray(v),
        lambda: range(x),
        lambda: 1 if x == 2 else 3,
        lambda: list(x),
        lambda: 2.0 in v,
    ):
        with pytest.raises(ad.AdjointError, match=r"<(symbol|node) .*\(test_symbols.py:\d+\)"):
            use()
    assert len(list(v)) == 3  # the shape is known, so this is three nodes
    with pytest.raises(ad.AdjointError, match="pickled"):
        pickle.dumps(x)
    assert repr(copy.deepcopy(x)) == repr(x)


def test_symbols_are_not_written_to_in_place():
    v = ad.symbols("v", shape=3)
    with pytest.raises(ad.AdjointError, match=r"<symbol v: float64\[3\]> was written to in place"):
        v += 1.0
    with pytest.raises(ad.AdjointError, match="written to in place"):
        v[0] = 1.0
    w = v * 2.0
    w[0] = 5.0
    w += 1.0
    np.testing.assert_array_equal(ad.function(v, w)(np.ones(3)), [6.0, 3.0, 3.0])


def test_writes_to_new_arrays():
    with ad.Graph() as g:
        x = ad.symbols("x")
        a = anp.zeros(3)
        a[1] = x * 2.0
    np.testing.assert_array_equal(g.run(a, {"x": 4.0}), [0.0, 8.0, 0.0])


# -- functions --------------------------------------------------------------------------------------------------


def test_the_example():
    x, y = ad.symbols("x y")
    z = x**2 * y + np.sin(y)
    dz_dx, dz_dy = ad.gradients(z, [x, y])
    f = ad.function([x, y], [z, dz_dx])
    assert f(3.0, 4.0) == [36.0 + np.sin(4.0), 24.0]
    assert f(x=3.0, y=4.0) == f(3.0, y=4.0) == f(3, np.float64(4.0)) == f(np.array(3.0), 4)
    assert repr(f).startswith("<function function(x, y):")
    assert ad.function((x, y), dz_dy)(3.0, 4.0) == 9.0 + np.cos(4.0)
    assert ad.function(None, [y, x * y]).input_names == ("x", "y")


def test_outputs_keep_their_form():
    x = ad.symbols("x")
    assert ad.function([x], x + 1.0)(1.0) == 2.0
    assert ad.function([x], (x + 1.0, [x, {"a": x * 3.0}]))(1.0) == (2.0, [1.0, {"a": 3.0}])


def test_only_needed_values_are_kept():
    x, y = ad.symbols("x y")
    wanted = np.sin(x)
    np.linalg.inv(np.exp(y) * np.ones((2, 2)))
    f = ad.function([x], wanted, name="wave")
    assert [e.op.name for e in f.equations] == ["sin"]
    f.check()
    assert parse(str(f)).run(0.5) == f(0.5)
    assert "graph wave(x: float64[]) {\n  v1: float64[] = sin x  # test_symbols.py:" in str(f)


def test_symbols_may_be_declared_after_the_first_op():
    x = ad.symbols("x")
    y = np.sin(x)
    w = ad.symbols("w")
    z = y * w
    f = ad.function([w, x], z)
    f.check()
    assert f(2.0, 0.5) == 2.0 * np.sin(0.5)
    assert parse(str(f)).run(2.0, 0.5) == f(2.0, 0.5)


def test_an_input_that_is_not_needed_must_be_fed_all_the_same():
    x, y = ad.symbols("x y")
    f = ad.function([x, y], x * 2.0)
    assert f(1.0, 5.0) == 2.0
    with pytest.raises(ad.AdjointError, match="input 'y' of 'function' is missing"):
        f(1.0)


def test_bad_feeds_of_a_function_are_refused_by_name():
    x = ad.symbols("x", shape=(3,))
    n = ad.symbols("n", dtype=np.int8)
    f = ad.function([x, n], x * n, name="scale")
    v = np.ones(3)
    assert f(v, 2).dtype == np.float64
    for call, message in (
        (lambda: f(v), "input 'n' of 'scale' is missing"),
        (lambda: f(), "input 'x' and 'n' of 'scale' is missing"),
        (lambda: f(v, m=2), "'scale' has no input 'm'; it has x, n"),
        (lambda: f(v, 2, 3), r"'scale' takes 2 inputs \(x, n\), got 3"),
        (lambda: f(v, 2, x=v), "input 'x' of 'scale' is given twice"),
        (lambda: f(np.ones(4), 2), r"input 'x' of 'scale' has shape \(4,\), expected \(3,\)"),
        (lambda: f(1.0, 2), r"input 'x' of 'scale' has shape \(\), expected \(3,\)"),
        (lambda: f(v.astype(np.float32), 2), "input 'x' of 'scale' has dtype float32, expected float64"),
        (lambda: f(np.arange(3), 2), "input 'x' of 'scale' has dtype int64, expected float64"),
        (lambda: f(v, 2.5), "input 'n' of 'scale' has dtype float64, expected int8"),
        (lambda: f(v, 300), "input 'n' of 'scale' is 300, which int8 cannot hold"),
        (lambda: f([1.0, 2.0, 3.0], 2), "input 'x' of 'scale' is list"),
        (lambda: f(v, None), "input 'n' of 'scale' is NoneType"),
        (lambda: f("text", 2), "input 'x' of 'scale' is str"),
        (lambda: f.run(v), r"takes 2 inputs \(x, n\), got 1"),
        (lambda: f.run(v, 2.5, workers=2), "input 'n' of 'scale' has dtype float64"),
    ):
        with pytest.raises(ad.AdjointError, match=message):
            call()


def test_bad_inputs_and_outputs_of_a_function():
    x, y = ad.symbols("x y")
    other = ad.symbols("x")
    with ad.Graph():
        foreign = ad.symbols("foreign")
    z = x * y
    for call, message in (
        (
            lambda: ad.function([x], z),
            r"depends on 'y' \(declared in test_symbols.py:\d+\), which is not among the inputs: .* x",
        ),
        (lambda: ad.function([], z), "depends on 'x' and 'y'"),
        (lambda: ad.function([x, y, x], z), "'x' is twice"),
        (lambda: ad.function([x, y, other], z), "two different symbols named 'x'"),
        (lambda: ad.function([y, other], z), "depends on 'x'"),
        (lambda: ad.function([x, 3.0], z), "input 1 of function is float 3.0, not a symbol"),
        (lambda: ad.function([x, y, foreign], z), "<symbol foreign: .* belongs to another graph"),
        (lambda: ad.function([x, y], [z, foreign]), r"outputs\[1\] of function .* belongs to another graph"),
        (lambda: ad.function([x, y], {"a": 2.0}), r"outputs\['a'\] of function is float 2.0, not a symbol"),
        (lambda: ad.function([x, y], []), "at least one output"),
        (lambda: ad.function([x, y, ad.gradients(2.0 * x, x)], z), "<constant 2.0: .* cannot be fed"),
    ):
        with pytest.raises(ad.AdjointError, match=message):
            call()
    with pytest.raises(ad.AdjointError, match="belongs to another graph"):
        x * foreign


def test_a_node_may_be_an_input():
    x, y = ad.symbols("x y")
    h = np.sin(x)
    z = h * y + h
    f = ad.function([h, y], z)
    assert f(2.0, 3.0) == 8.0
    assert f.input_names[1] == "y"
    parse(str(f)).check()


def test_functions_are_functions():
    x = ad.symbols("x", shape=(3,))
    f = ad.function([x], np.sum(np.sin(x) ** 2))
    v = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(ad.grad(f)(v), np.sin(2 * v))
    np.testing.assert_allclose(ad.vmap(f)(np.stack([v, v])), [f(v)] * 2)
    assert f.run(v, workers=2) == f(v) == f.simplify().run(v)
    assert f.levels() == ((0,), (1,), (2,))
    assert len(f.profile(x=v).times) == 3
    # and on symbols: a graph used inside another
    y = ad.symbols("y", shape=(3,))
    np.testing.assert_allclose(ad.function(y, ad.gradients(f(2.0 * y), y))(v), 2 * np.sin(4 * v))
    staged = ad.graph(lambda v: f(v) * 2.0)(v)
    assert staged(v) == 2 * f(v)


def test_transforms_work_on_symbols():
    x = ad.symbols("x", shape=(3,))
    f = lambda v: np.sum(np.exp(v) * v)
    v = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(ad.function(x, ad.grad(f)(x))(v), ad.grad(f)(v))
    np.testing.assert_allclose(ad.function(x, ad.hessian(f)(x))(v), ad.hessian(f)(v))
    np.testing.assert_allclose(ad.function(x, ad.jvp(f, (x,), (np.ones(3),))[1])(v), ad.jvp(f, (v,), (np.ones(3),))[1])
    with pytest.raises(ad.AdjointError, match="freeze"):
        x * ad.array(np.ones(3), requires_grad=True)
    with pytest.raises(ad.AdjointError, match="freeze"):
        ad.graph(lambda v: v * x)(v)


def test_constants_are_kept_as_they_are():
    x = ad.symbols("x", shape=3)
    c = np.ones(3)
    f = ad.function(x, [x * c, ad.gradients(x * c, x)])
    staged = ad.graph(lambda x: (x * c, c))(c)
    for run in (f, staged):
        c[:] = 1.0
        _, constant = run(np.ones(3))
        constant[:] = 7.0  # a result is the caller's own
        c[:] = 5.0
        for result in run(np.ones(3)):
            np.testing.assert_array_equal(result, 1.0)


# -- gradients --------------------------------------------------------------------------------------------------


def build(x, w, b):
    _, r = np.linalg.qr(w.T @ w + np.eye(2))
    return np.sum(np.tanh(x @ w + b) ** 2) + np.sum(r * r) + np.max(w) + np.where(x > 0, x, 0.1 * x)[0, 1] * np.prod(b)


VALUES = (X, RNG.standard_normal((4, 2)), RNG.standard_normal(2))


def test_gradients_agree_with_grad():
    x, w = ad.symbols("x", shape=(3, 4)), ad.symbols("w", shape=(4, 2))
    b = ad.symbols("b", shape=2)
    z = build(x, w, b)
    found = ad.function([x, w, b], ad.gradients(z, (x, w, b)))
    found.check()
    for g, expected in zip(found(*VALUES), ad.grad(build, (0, 1, 2))(*VALUES), strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-12, atol=1e-12)


def test_nothing_is_computed_twice():
    with ad.Graph() as g:
        x = ad.symbols("x", shape=5)
        z = np.sum(np.exp(np.sin(x)))
        before = len(g._nodes)
        dx = ad.gradients(z, x)
    names = [node.op.name for node in g._nodes if node.op]
    assert names.count("exp") == names.count("sin") == 1
    assert len(g._nodes) - before <= 5
    assert [e.op.name for e in ad.function(x, [z, dx]).equations].count("exp") == 1


STEPS = [np.sin, np.tanh, lambda a: a * a, lambda a: np.exp(-a), lambda a: a[::-1], lambda a: a - np.sum(a), np.cumsum]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.booleans()), min_size=1, max_size=8))
def test_random_programs_agree_with_eager_ones(steps):
    def f(x, w):
        values = [x, w]
        for step, back, joined in steps:
            a = values[-1 - back % len(values)]
            values.append(step(a) * values[-1] if joined else step(a))
        return np.sum(values[-1]) + np.sum(x * w)

    x, w = ad.symbols("x w", shape=3)
    z = f(x, w)
    dx, dw = ad.gradients(z, [x, w])
    (dxw,) = ad.gradients(dx, [w], allow_unused=True)
    compiled = ad.function([x, w], (z, dx, dw, dxw))
    compiled.check()
    point = np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.7, -0.4])
    got = compiled(*point)
    assert all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(got, compiled.run(*point, workers=2), strict=True)
    )
    assert got[0] == f(*point)
    for found, expected in zip(got[1:3], ad.grad(f, (0, 1))(*point), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    second = ad.grad(lambda w: np.sum(ad.grad(f)(point[0], w)))(point[1])
    np.testing.assert_allclose(got[3], second, rtol=1e-8, atol=1e-11)


def test_higher_orders():
    x, y = ad.symbols("x y")
    z = np.sin(x) * y**3
    derivative = z
    expected = (np.cos(0.5) * 8, -np.sin(0.5) * 8, -np.cos(0.5) * 8, np.sin(0.5) * 8)
    for value in expected:
        derivative = ad.gradients(derivative, x)
        np.testing.assert_allclose(ad.function([x, y], derivative)(0.5, 2.0), value)
    mixed = ad.gradients(ad.gradients(z, y), x)
    np.testing.assert_allclose(ad.function([x, y], mixed)(0.5, 2.0), 12 * np.cos(0.5))


def test_hessian_of_a_network():
    w = ad.symbols("w", shape=(4,))
    f = lambda w: np.sum(np.tanh(X @ w) ** 2)
    (dw,) = ad.gradients(f(w), [w])
    rows = [ad.gradients(dw[i], w) for i in range(4)]
    v = RNG.standard_normal(4)
    np.testing.assert_allclose(ad.function(w, np.stack(rows))(v), ad.hessian(f)(v), rtol=1e-10)


def test_the_form_follows_the_inputs():
    x, y = ad.symbols("x y")
    z = x * y
    assert isinstance(ad.gradients(z, [x]), list)
    assert isinstance(ad.gradients(z, (x, y)), tuple)
    assert repr(ad.gradients(z, x)).endswith("float64[]>")


def test_arrays_and_several_outputs_are_summed_or_weighted():
    x = ad.symbols("x", shape=3)
    v, u = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 5.0])
    np.testing.assert_allclose(ad.function(x, ad.gradients(x**2, x))(v), 2 * v)
    np.testing.assert_allclose(ad.function(x, ad.gradients([x**2, np.sum(x)], x))(v), 2 * v + 1)
    np.testing.assert_allclose(ad.function(x, ad.gradients(x**2, x, grad_outputs=u))(v), 2 * v * u)
    np.testing.assert_allclose(ad.function(x, ad.gradients([x**2, x[0]], x, [u, 3.0]))(v), 2 * v * u + [3, 0, 0])
    np.testing.assert_allclose(ad.function(x, ad.gradients(x**2, x, grad_outputs=np.sin(x)))(v), 2 * v * np.sin(v))
    with pytest.raises(ad.AdjointError, match=r"the grad_outputs of 'v\d+' has shape \(2,\)"):
        ad.gradients(x**2, x, grad_outputs=u[:2])
    with pytest.raises(ad.AdjointError, match="has 2 values for 1 outputs"):
        ad.gradients(x**2, x, grad_outputs=[u, u])


def test_gradients_of_nodes_are_total():
    x = ad.symbols("x", shape=3)
    h = np.sin(x)
    part = h[:2]
    z = np.sum(h * x) + np.sum(part**2)
    v = np.array([0.1, 0.2, 0.3])
    dx, dh, dpart, dz = ad.function(x, ad.gradients(z, [x, h, part, z]))(v)
    s, c = np.sin(v), np.cos(v)
    np.testing.assert_allclose(dh, v + 2 * s * [1, 1, 0])
    np.testing.assert_allclose(dx, c * dh + s)
    np.testing.assert_allclose(dpart, 2 * s[:2])
    assert dz == 1.0
    _, r = np.linalg.qr(ad.symbols("a", shape=(2, 2)))
    assert ad.gradients(np.sum(r**2), r).shape == (2, 2)


def test_constant_gradients_are_symbols_too():
    x = ad.symbols("x")
    slope = ad.gradients(3.0 * x, x)
    assert repr(slope) == "<constant 3.0: float64[]>"
    assert ad.function(x, [slope, slope * x])(2.0) == [3.0, 6.0]
    assert type(ad.function(x, slope)(2.0)) is np.float64
    first = ad.function(x, slope)
    assert first(1.0) == 3.0
    assert parse(str(first)).run(1.0) == 3.0
    with pytest.raises(ad.AdjointError, match="does not depend on <symbol x"):
        ad.gradients(slope, x)
    assert ad.function(x, ad.gradients(slope, x, allow_unused=True))(1.0) == 0.0


def test_derivatives_that_are_zero_almost_everywhere():
    x = ad.symbols("x", shape=2)
    np.testing.assert_array_equal(ad.function(x, ad.gradients(np.sign(x), x))(np.ones(2)), [0.0, 0.0])
    z = ad.stop_gradient(x) * x
    np.testing.assert_array_equal(ad.function(x, ad.gradients(z, x))(np.array([2.0, 3.0])), [2.0, 3.0])


def test_bad_arguments_of_gradients_are_refused_by_name():
    x, y = ad.symbols("x y")
    n = ad.symbols("n", dtype=int)
    c = ad.symbols("c", dtype=complex)
    with ad.Graph():
        foreign = ad.symbols("foreign")
    kept = []
    ad.graph(lambda v: kept.append(v) or v)(1.0)
    z = np.sin(x)
    for call, message in (
        (lambda: ad.gradients(z, [x, y]), r"'v\d+' does not depend on <symbol y: float64\[\]> \(declared in test_symbols"),
        (lambda: ad.gradients(z, z * 2.0), "does not depend on <node"),
        (lambda: ad.gradients(z, [x, foreign]), "input 1 of gradients is <symbol foreign: .*foreign symbol"),
        (lambda: ad.gradients([z, foreign], x), "output 1 of gradients is <symbol foreign"),
        (lambda: ad.gradients(z, [2.0]), "input 0 of gradients is float 2.0, not a symbol"),
        (lambda: ad.gradients(z, "x"), "input 0 of gradients is str 'x', not a symbol"),
        (lambda: ad.gradients(3.0, x), "the output of gradients is float 3.0, not a symbol"),
        (lambda: ad.gradients(z, kept), "input 0 of gradients is a value traced by graph"),
        (lambda: ad.gradients(kept[0], x), "the output of gradients is a value traced by graph"),
        (lambda: ad.gradients(z, []), "at least one output and one input"),
        (lambda: ad.gradients(z * n, n), "needs floats, but <symbol n"),
        (lambda: ad.gradients(n * 2, n), "needs floats"),
        (lambda: ad.gradients(x > 0, x), "needs a float result"),
        (lambda: ad.gradients(c * c, c), "is complex; take np.real"),
    ):
        with pytest.raises(ad.AdjointError, match=message):
            call()
    zero = ad.gradients(z, [x, y], allow_unused=True)[1]
    assert ad.function([x], zero)(1.0) == 0.0


def test_complex_symbols():
    c = ad.symbols("c", dtype=complex)
    point = 1.0 + 2.0j
    f = lambda c: np.real(c * c * np.conj(c))
    np.testing.assert_allclose(ad.function(c, ad.gradients(f(c), c))(point), ad.grad(f)(point))
    np.testing.assert_allclose(ad.function(c, ad.gradients(c * c, c, grad_outputs=1.0 + 0j))(point), 2 * point)


def test_single_precision_stays():
    x = ad.symbols("x", shape=3, dtype=np.float32)
    f = ad.function(x, ad.gradients(np.sum(2.0 * np.sin(x)), x))
    assert f(np.ones(3, np.float32)).dtype == np.float32
