"""custom_jvp, custom_vjp, checkpoint: in every mode, nested, batched, and the errors for bad rules."""

import pickle
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint import extend
from adjoint.api.protection import COPIED
from adjoint.compat.autograd.extend import defvjp, primitive
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.core.tree import flatten


@ad.custom_vjp
def product(x, w):
    return np.sin(x) * w, x


product.defvjp(
    lambda x, w: ((np.sin(x) * w, x), (x, w)),
    lambda res, g: (g[0] * np.cos(res[0]) * res[1] + g[1], g[0] * np.sin(res[0])),
)


@ad.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def cube_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3 * x**2 * t


def with_rule(x, w):
    a, b = product(x, w)
    return np.sum(a**2) + np.sum(cube(b))


def without(x, w):
    return np.sum((np.sin(x) * w) ** 2) + np.sum(x**3)


X, W = np.array([0.3, 0.7]), np.array([2.0, 3.0])
BATCH = np.random.default_rng(0).uniform(size=(4, 2))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f(X, W),
        lambda f: ad.grad(f, (0, 1))(X, W),
        lambda f: ad.jvp(f, (X, W), (W, X)),
        lambda f: ad.hessian(f)(X, W),
        lambda f: ad.jacrev(ad.jacrev(f))(X, W),
        lambda f: ad.jacrev(ad.jacfwd(f))(X, W),
        lambda f: ad.jacfwd(ad.jacfwd(f))(X, W),
        lambda f: ad.linearize(f, X, W)[1](W, X),
        lambda f: ad.vmap(f, (0, None))(BATCH, W),
        lambda f: ad.vmap(ad.grad(f, (0, 1)), (0, None))(BATCH, W),
        lambda f: ad.grad(lambda w: np.sum(ad.vmap(f, (0, None))(BATCH, w)))(W),
        lambda f: ad.jvp(lambda w: np.sum(ad.vmap(f, (0, None))(BATCH, w)), (W,), (X,)),
        lambda f: ad.grad(lambda x: ad.jvp(f, (x, W), (W, X))[1])(X),
        lambda f: ad.vmap(ad.hessian(f), (0, None))(BATCH, W),
    ],
)
def test_agrees_with_the_built_in_derivative_everywhere(transform):
    for a, b in zip(np.atleast_1d(transform(with_rule)), np.atleast_1d(transform(without)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_the_rule_is_what_counts():
    @ad.custom_vjp
    def clipped(x):
        return x * 10

    clipped.defvjp(lambda x: (x * 10, None), lambda res, g: (np.clip(g, -1, 1),))
    assert ad.grad(lambda x: 5 * clipped(x))(1.0) == 1
    assert ad.jvp(clipped, (1.0,), (0.5,))[1] == 0.5

    @ad.custom_jvp
    def strange(x):
        return x

    strange.defjvps(lambda t, ans, x: 7 * t)
    assert ad.grad(strange)(1.0) == 7
    assert ad.vmap(ad.grad(strange))(np.ones(2)).tolist() == [7, 7]


def test_containers_and_arguments_that_are_not_differentiated():
    def scale(kind, params, n):
        return {"y": params["w"] * n if kind == "times" else params["w"] + n}

    f = ad.custom_vjp(scale, nondiff_argnums=(0, 2))
    f.defvjp(
        lambda kind, params, n: (scale(kind, params, n), params["w"]),
        lambda kind, n, res, g: ({"w": g["y"] * n, "b": None},),
    )
    with pytest.raises(ad.AdjointError, match="structure"):
        ad.grad(lambda w: f("times", {"w": w}, 3)["y"])(2.0)
    f.defvjp(lambda kind, params, n: (scale(kind, params, n), None), lambda kind, n, res, g: ({"w": g["y"] * n},))
    assert ad.grad(lambda w: f("times", {"w": w}, 3)["y"])(2.0) == 3


def test_integer_arguments_pass_through():
    @ad.custom_vjp
    def take(x, i):
        return x[i]

    take.defvjp(lambda x, i: (x[i], (x.shape, i)), lambda res, g: (np.where(np.arange(res[0][0]) == res[1], g, 0.0), None))
    np.testing.assert_array_equal(ad.grad(take)(np.arange(3.0), 1), [0, 1, 0])


def test_bad_rules_are_named():
    f = ad.custom_vjp(lambda x: x)
    with pytest.raises(ad.AdjointError, match="defvjp"):
        f(1.0)
    with pytest.raises(ad.AdjointError, match="defjvp"):
        ad.custom_jvp(lambda x: x)(1.0)
    f.defvjp(lambda x: x, lambda res, g: (g,))
    with pytest.raises(ad.AdjointError, match=r"\(result, residuals\)"):
        ad.grad(f)(1.0)
    f.defvjp(lambda x: (x, None), lambda res, g: g)
    with pytest.raises(ad.AdjointError, match="tuple of 1 cotangents"):
        ad.grad(f)(1.0)
    f.defvjp(lambda x: (x, None), lambda res, g: (np.ones(3),))
    with pytest.raises(ad.AdjointError, match=r"shape \(3,\) for argument"):
        ad.grad(f)(1.0)


def test_pickles_by_name():
    assert pickle.loads(pickle.dumps(cube)) is cube


class TestCheckpoint:
    def test_every_mode(self):
        f = lambda x: np.sum(np.sin(x * x) ** 3)
        c = ad.checkpoint(f)
        for derive in (ad.grad, ad.hessian, lambda f: ad.jacrev(ad.jacrev(f)), lambda f: lambda x: ad.jvp(f, (x,), (W,))[1]):
            np.testing.assert_allclose(derive(c)(X), derive(f)(X), rtol=1e-12)
        np.testing.assert_allclose(ad.vmap(ad.grad(c))(BATCH), ad.vmap(ad.grad(f))(BATCH), rtol=1e-12)

    def test_saves_only_the_arguments_and_runs_again(self):
        runs = []

        def f(x):
            runs.append(1)
            y = x
            for _ in range(10):
                y = np.sin(y)
            return y

        _, pull = ad.vjp(ad.checkpoint(f), X)
        assert len(runs) == 1
        pull(np.ones(2))
        assert len(runs) == 2

    def test_containers_and_keywords(self):
        c = ad.checkpoint(lambda p, *, scale: {"y": p["w"] ** 2 * scale})
        assert ad.grad(lambda w: c({"w": w}, scale=3)["y"])(2.0) == 12


class TestReversibleResidualNetwork:
    """y1 = x1 + F(x2); y2 = x2 + G(y1): the inputs can be computed from the outputs, so nothing is stored."""

    def test_trains_without_storing_activations(self):
        rng = np.random.default_rng(0)
        layers, width = 6, 4
        weight = lambda: 0.3 * rng.standard_normal((width, width))
        params = [{"f": weight(), "g": weight()} for _ in range(layers)]
        kept = []

        def forward(params, state):
            for p in params:
                x1, x2 = state
                y1 = x1 + np.tanh(x2 @ p["f"])
                state = (y1, x2 + np.tanh(y1 @ p["g"]))
            return state

        network = ad.custom_vjp(forward)

        def fwd(params, state):
            out = forward(params, state)
            kept.append(sum(np.size(a) for a in out))
            return out, (params, out)  # the parameters and the output: no activations

        def bwd(res, g):
            params, (y1, y2) = res
            g1, g2 = g
            grads = []
            for p in reversed(params):
                block_g = lambda y1, w: np.tanh(y1 @ w)
                out_g, pull_g = ad.vjp(block_g, y1, p["g"])
                x2 = y2 - out_g
                dy1, dg = pull_g(g2)
                g1 = g1 + dy1
                block_f = lambda x2, w: np.tanh(x2 @ w)
                out_f, pull_f = ad.vjp(block_f, x2, p["f"])
                x1 = y1 - out_f
                dx2, df = pull_f(g1)
                g2 = g2 + dx2
                grads.append({"f": df, "g": dg})
                y1, y2 = x1, x2
            return grads[::-1], (g1, g2)

        network.defvjp(fwd, bwd)
        x = rng.standard_normal((32, 2 * width))
        target = np.sin(x.sum(axis=1))

        def loss(params, apply):
            a, b = apply(params, (x[:, :width], x[:, width:]))
            return np.mean((a.sum(axis=1) * 0.3 + b.sum(axis=1) * 0.1 - target) ** 2)

        custom = ad.grad(loss)(params, network)
        plain = ad.grad(loss)(params, forward)
        for a, b in zip(custom, plain, strict=True):
            np.testing.assert_allclose(a["f"], b["f"], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(a["g"], b["g"], rtol=1e-9, atol=1e-12)
        assert kept == [x.size]  # as much as one layer's output, whatever the depth
        before = loss(params, network)
        step = ad.value_and_grad(loss)
        for _ in range(60):
            value, grads = step(params, network)
            params = [{k: p[k] - 0.1 * g[k] for k in p} for p, g in zip(params, grads, strict=True)]
        assert value < 0.3 * before


# -- in graphs --------------------------------------------------------------------------------------------------


@ad.custom_vjp
def hundredfold(x):
    return np.sin(x) * 2.0


hundredfold.defvjp(lambda x: (hundredfold(x), x), lambda x, g: (g * 100.0 * np.cos(x),))


@ad.custom_jvp
def two_results(x, y):
    return np.sin(x) * y, np.sum(x)


two_results.defjvp(lambda p, t: (two_results(*p), (50.0 * t[0] * p[1], np.sum(t[0]) * 7.0 + t[1])))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: hundredfold(x) * 1.5,
        lambda x: np.sum(two_results(np.stack([x, x]), 2.0 * x)[0]) + two_results(x, x)[1],
        lambda x: two_results(x, 3.0)[0],
    ],
)
def test_rules_survive_staging(f):
    batch = np.array([0.1, 0.2])
    staged = ad.graph(f)(0.5)
    staged.check()
    assert any(e.op.name.startswith("custom.") for e in staged.equations)
    x = ad.symbols("x")
    z = f(x)
    first = ad.gradients(z, x)
    compiled = ad.function(x, [z, first, ad.gradients(first, x, allow_unused=True)])
    slope, curvature = ad.grad(f)(0.5), ad.grad(ad.grad(f))(0.5)
    for got, expected in (
        (staged(0.5), f(0.5)),
        (ad.grad(staged)(0.5), slope),
        (ad.grad(staged.simplify())(0.5), slope),
        (ad.jvp(staged, (0.5,), (1.0,))[1], slope),
        (ad.vmap(staged)(batch), ad.vmap(f)(batch)),
        (ad.vmap(ad.grad(staged))(batch), ad.vmap(ad.grad(f))(batch)),
        (ad.graph(ad.vmap(ad.grad(f)))(batch)(batch), ad.vmap(ad.grad(f))(batch)),
        (ad.grad(ad.grad(staged))(0.5), curvature),
        (ad.grad(ad.graph(ad.grad(f))(0.5))(0.5), curvature),
        (np.array(compiled(0.5)), [f(0.5), slope, curvature]),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_a_closed_over_value_is_refused_in_a_graph():
    def outer(x):
        inner = ad.custom_vjp(lambda y: y * x)
        inner.defvjp(lambda y: (y * x, None), lambda res, g: (g,))
        return inner(2.0 * x)

    with pytest.raises(ad.AdjointError, match="freeze it as a constant"):
        ad.graph(outer)(1.0)


@pytest.mark.parametrize("nonsense", [None, "f", 3, np.ones(2)])
def test_a_rule_that_is_no_function_is_refused(nonsense):
    with pytest.raises(ArgumentError, match=r"f\.defjvp expects a function"):
        ad.custom_jvp(f).defjvp(nonsense)
    for rules in ((nonsense, f), (f, nonsense)):
        with pytest.raises(ArgumentError, match=r"f\.defvjp expects a function"):
            ad.custom_vjp(f).defvjp(*rules)


def f(x):
    return 2.0 * x


@pytest.mark.parametrize("nonsense", ["a", {1.0}, np.sin, b"a", int])
def test_a_cotangent_that_is_no_number_is_refused(nonsense):
    twice = ad.custom_vjp(f)
    twice.defvjp(lambda x: (f(x), None), lambda residuals, g: (nonsense,))
    for derivative in (ad.grad(twice), ad.jit(ad.grad(twice)), ad.jacrev(twice)):
        with pytest.raises(AdjointError, match="argument"):
            derivative(1.0)


def doubled_by_vjp(writes):
    """2x, with a rule that may write to what it is given."""
    f = ad.custom_vjp(lambda x: x * 2.0)

    def fwd(x):
        kept = x * 0.0 + 2.0
        if writes:
            x *= 2.0
            return x, kept
        return x * 2.0, kept

    def bwd(kept, g):
        if writes:
            g *= kept
            kept *= 3.0
            return (g,)
        return (g * kept,)

    f.defvjp(fwd, bwd)
    return f


def doubled_by_jvp(writes):
    f = ad.custom_jvp(lambda x: x * 2.0)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        y = x * 2.0
        if writes:
            t *= 2.0
            x *= 5.0
            return y, t
        return y, t * 2.0

    return f


def doubled_by_primitive(writes):
    f = primitive(lambda x: x * 2.0)

    def maker(ans, x):
        def pull(g):
            if writes:
                x[:] = 0.0
                g *= 2.0
                return g
            return g * 2.0

        return pull

    defvjp(f, maker)
    return f


def doubled_by_differences(writes):
    def total(x):
        if writes:
            x *= 2.0
            return np.sum(x)
        return np.sum(x * 2.0)

    f = extend.numerical(total)
    return lambda x: f(x) + 0.0 * x


USES = {
    "grad": lambda f, x: ad.grad(lambda x: np.sum(f(x * 1.0) * 1.0 + f(x) + x))(x),
    "twice": lambda f, x: ad.grad(lambda x: (lambda y: np.sum(f(y)) + np.sum(f(y) * y) + np.sum(y**2))(x + 1.0))(x),
    "jvp": lambda f, x: ad.jvp(lambda x: f(x) * x + f(x * 2.0), (x,), (np.ones_like(x),)),
    "pullback twice": lambda f, x: (lambda pull: (pull(np.ones_like(x)), pull(np.ones_like(x))))(ad.vjp(f, x)[1]),
    "grad of grad": lambda f, x: ad.grad(lambda x: np.sum(ad.grad(lambda x: np.sum(f(x) ** 3))(x)))(x),
    "vmap of grad": lambda f, x: ad.vmap(ad.grad(lambda x: np.sum(f(x) * x)))(np.stack([x, x])),
    "compiled": lambda f, x: ad.jit(ad.grad(lambda x: np.sum(f(x) * x)))(x),
}


@pytest.mark.parametrize("make", [doubled_by_vjp, doubled_by_jvp, doubled_by_primitive, doubled_by_differences])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_rules_write_to_arrays_of_their_own(make, use, dtype):
    """Values of a computation, residuals, cotangents and the user's arrays are also read by others."""
    if make is doubled_by_differences and use in ("jvp", "pullback twice", "grad of grad", "vmap of grad", "compiled"):
        pytest.skip("a sum, by differences of numbers")
    x = np.linspace(0.5, 1.5, 3, dtype=dtype)
    tangent_or_cotangent = np.ones(3, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is written to is not compiled
        found = USES[use](make(True), x)
        expected = USES[use](make(False), x)
    np.testing.assert_array_equal(x, np.linspace(0.5, 1.5, 3, dtype=dtype))
    for a, b in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5 if dtype is np.float32 else 1e-9)
    if make is not doubled_by_differences:
        ad.vjp(make(True), x)[1](tangent_or_cotangent)
        ad.jvp(make(True), (x,), (tangent_or_cotangent,))
        np.testing.assert_array_equal(tangent_or_cotangent, 1.0)


def writing(x):
    x *= 2.0
    return x


def written_by_jvp():
    f = ad.custom_jvp(writing)
    f.defjvp(lambda primals, tangents: (primals[0] * 2.0, tangents[0] * 2.0))
    return f


def written_by_primitive():
    f = primitive(writing)
    defvjp(f, lambda ans, x: lambda g: g * 2.0)
    return f


@pytest.mark.parametrize("make", [written_by_jvp, written_by_primitive])
@pytest.mark.parametrize("size", [3, COPIED + 1])
@pytest.mark.parametrize("use", ["grad", "twice", "pullback twice"])
def test_a_function_with_a_rule_cannot_write_to_its_argument(use, size, make):
    """Where NumPy would change the argument, the function is refused: its rule does not say how."""
    x = np.ones(size)
    with pytest.raises(AdjointError, match=r"test_custom.py:\d+ writes to a read-only array"):
        USES[use](make(), x)
    np.testing.assert_array_equal(x, 1.0)
    np.testing.assert_array_equal(make()(x), 2.0)  # a plain call is NumPy's
    np.testing.assert_array_equal(x, 2.0)


@pytest.mark.parametrize("make", [doubled_by_vjp, doubled_by_jvp, doubled_by_primitive])
def test_rules_cannot_write_to_large_arrays(make):
    x = np.ones(COPIED + 1)
    with pytest.raises((AdjointError, ValueError), match="read-only"):  # of a closure, NumPy's own error
        ad.grad(lambda x: np.sum(make(True)(x * 1.0)))(x)
    np.testing.assert_allclose(ad.grad(lambda x: np.sum(make(False)(x * 1.0)))(x), 2.0)
