"""A compiled function inside other transforms is differentiated and batched as a compiled function."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.tree import flatten, map_leaves

W = np.random.default_rng(3).normal(size=(3, 3))
X = np.array([0.3, -0.5, 0.7])
ROWS = np.random.default_rng(4).normal(size=(4, 3))


def branches(x):
    return np.sum(x**2) if x[0] > 0 else np.sum(x**3) * 2


def written(x):
    y = anp.zeros(4)
    y[1:] = x * x
    y[0] = y[1] * y[2]
    return np.sum(np.cos(y))


FUNCTIONS = {
    "elementwise": lambda x: np.sum(np.sin(x) * np.exp(-(x**2))),
    "a product": lambda x: np.sum(np.tanh(W @ x)),
    "branches": branches,
    "in place": written,
    "a loop": lambda x: ad.fori_loop(0, 5, lambda i, c: np.sin(c) + x, x)[1],
    "a decomposition": lambda x: np.linalg.slogdet(W + np.outer(x, x) + 9 * np.eye(3))[1],
    "linear": lambda x: np.sum(3 * x),
    "a constant": lambda x: 2.5 + 0 * np.sum(np.floor(x)),
}
TRANSFORMS = {
    "grad": ad.grad,
    "hessian": ad.hessian,
    "jacfwd": ad.jacfwd,
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (np.cos(x),)),
    "value_and_grad": ad.value_and_grad,
    "vjp, pulled twice": lambda f: lambda x: (lambda y, pull: (y, pull(1.0), pull(-2.0)))(*ad.vjp(f, x)),
    "grad of grad": lambda f: ad.grad(lambda x: np.sum(ad.grad(f)(x) ** 2)),
    "vmap": lambda f: lambda x: ad.vmap(f)(ROWS * x),
    "vmap of grad": lambda f: lambda x: ad.vmap(ad.grad(f))(ROWS * x),
    "grad of vmap": lambda f: ad.grad(lambda x: np.sum(ad.vmap(f)(ROWS * x))),
    "third order": lambda f: ad.derivative(ad.derivative(ad.derivative(lambda t: f(X * t)))),
}


def agree(found, wanted):
    (a, first), (b, second) = flatten(found), flatten(wanted)
    assert first == second
    for x, y in zip(map(np.asarray, a), map(np.asarray, b), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        single = x.dtype == np.float32
        np.testing.assert_allclose(x, y, rtol=1e-6 if single else 1e-9, atol=1e-6 if single else 1e-12)


def programs(jitted):
    """The compiled derivatives of a function, and of those."""
    own = vars(jitted).get("_derivatives")
    return [] if own is None else [q for p in (*own.programs.values(), *own.pullbacks.values()) for q in (p, *programs(p))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_result_is_that_of_the_function(name, transform):
    f, apply = FUNCTIONS[name], TRANSFORMS[transform]
    if name == "branches" and "vmap" in transform:
        pytest.skip("a branch on an element of a batch")
    x = 1.5 if transform == "third order" else X
    jitted = ad.jit(f)
    wanted = apply(f)(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ad.compiler.jit.CompileWarning)
        for _ in range(2):
            agree(apply(jitted)(x), wanted)
    made = programs(jitted)
    assert made
    assert not any(p.eager for p in made)
    assert any(p.specializations for p in made)


def test_programs_are_compiled_once():
    jitted = ad.jit(FUNCTIONS["a product"])
    gradient = ad.grad(jitted)
    for i in range(5):
        gradient(X + i)
    assert [sum(map(len, p.specializations.values())) for p in programs(jitted)] == [1]
    ad.vjp(jitted, X)[1](1.0)
    assert [sum(map(len, p.specializations.values())) for p in programs(jitted)] == [1, 1, 1]


def test_each_branch_has_its_pullback():
    gradient = ad.grad(ad.jit(branches))
    for sign in (1, -1, 1, -1):
        agree(gradient(sign * X), ad.grad(branches)(sign * X))


@pytest.mark.parametrize("chosen", [0, 1, (0, 1), (1, 2)])
def test_keywords_containers_and_static_arguments(chosen):
    def f(x, y, z, *, scale, power=2):
        return {"total": np.sum(x["a"] * y * z) ** power * scale, "count": np.argmax(y), "signs": y > 0}

    args = ({"a": X}, np.cos(X), 0.7)
    call = lambda g: lambda *args: g(*args, scale=2.0, power=3)["total"]
    agree(ad.grad(call(ad.jit(f, static_argnames="power")), chosen)(*args), ad.grad(call(f), chosen)(*args))
    jitted = ad.jit(f, static_argnames="power")
    for power in (1, 2, 1.0, True):
        other = lambda g, power=power: lambda *args: g(*args, scale=2.0, power=power)["total"]
        agree(ad.grad(other(jitted), chosen)(*args), ad.grad(other(f), chosen)(*args))


def test_results_that_are_not_inexact():
    f = lambda x: (x * 2, np.argmax(x), x > 0, x.astype(np.int64))
    agree(ad.jvp(ad.jit(f), (X,), (X,)), ad.jvp(f, (X,), (X,)))
    agree(ad.vmap(ad.jit(f))(ROWS), ad.vmap(f)(ROWS))
    agree(ad.vmap(ad.jit(lambda x: np.argmax(x)))(ROWS), ad.vmap(lambda x: np.argmax(x))(ROWS))
    _, pull = ad.vjp(ad.jit(f), X)
    wanted = ad.vjp(f, X)[1]
    seeds = (X, np.zeros((), int), np.zeros(3, bool), np.zeros(3, int))
    agree(pull(seeds), wanted(seeds))
    assert ad.grad(lambda x: np.sum(ad.jit(lambda x: x > 0)(x) * x))(X).tolist() == [1, 0, 1]


def test_arrays_read_outside_are_those_of_the_forward_pass():
    weights = W.copy()
    f = lambda x: np.sum(np.sin(weights @ x))
    _, pull = ad.vjp(ad.jit(f), X)
    wanted = ad.grad(f)(X)
    weights *= 2
    agree(pull(1.0)[0], wanted)
    agree(ad.grad(ad.jit(f))(X), ad.grad(f)(X))


def test_a_value_that_is_read_outside_keeps_its_derivative():
    scaled = lambda g: lambda w: np.sum(g(lambda x: x * w)(X * w))
    with pytest.warns(ad.compiler.jit.CompileWarning, match="traced by grad"):
        agree(ad.grad(scaled(ad.jit))(2.0), ad.grad(scaled(lambda f: f))(2.0))


def test_a_function_that_cannot_be_compiled_runs_as_it_is():
    def f(x):
        return np.sum(x) * float(np.random.default_rng(0).normal(size=3).sum() + len(open(__file__).readline()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(ad.grad(ad.jit(f))(X), ad.grad(f)(X))


def test_errors_are_those_of_the_function():
    def f(x):
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        ad.grad(ad.jit(f))(X)
    with pytest.raises(np.linalg.LinAlgError):
        ad.grad(ad.jit(lambda x: np.sum(np.linalg.inv(np.outer(x, x)))))(0 * X)
    with pytest.raises(TypeError, match="argument 0 is int64"):
        ad.grad(ad.jit(np.sum))(np.arange(3))
    with pytest.raises(ValueError, match="scalar result"):
        ad.grad(ad.jit(lambda x: 2 * x))(X)


# -- a transform as one program -----------------------------------------------------------------------------------

WHOLE = {
    "grad": ad.grad,
    "grad of two": lambda f: ad.grad(f, (0, 1)),
    "value and grad": ad.value_and_grad,
    "hessian": ad.hessian,
    "jacobian": ad.jacobian,
    "vmap": lambda f: ad.vmap(f, in_axes=(0, None)),
    "jacobian of grad": lambda f: ad.jacobian(ad.grad(f)),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f), in_axes=(0, None)),
    "vmap, with a list": lambda f: ad.vmap(f, in_axes=[0, None]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_transform_of_a_compiled_function(name):
    f = lambda x, w: np.sum(np.sin(w @ x) * x) if np.sum(w) > 0 else np.sum(x * w[0])
    transform, jitted = WHOLE[name], ad.jit(f)
    for w in (W, -W, W):
        x = np.stack([X, 2 * X]) if "vmap" in name else X
        agree(transform(jitted)(x, w), transform(f)(x, w))  # a new transform at each call
    made = [p for p in programs(jitted) if p.specializations]
    assert [sum(map(len, p.specializations.values())) for p in made] == [2]  # one for each branch


def test_transforms_with_other_options_are_other_programs():
    f = lambda x, y: (np.sum(x * x) * y, {"kept": x})
    jitted = ad.jit(f)
    for options in ({"argnums": 0}, {"argnums": 1}, {"argnums": (0,)}):
        agree(ad.grad(jitted, has_aux=True, **options)(X, 2.0), ad.grad(f, has_aux=True, **options)(X, 2.0))
    agree(ad.value_and_grad(jitted, has_aux=True)(X, 2.0), ad.value_and_grad(f, has_aux=True)(X, 2.0))
    assert len(jitted._derivatives.programs) == 4


def test_static_arguments_of_a_transform():
    f = lambda x, power, *, scale: np.sum(x**power) * scale
    jitted = ad.jit(f, static_argnums=1, static_argnames="scale")
    for power, scale in ((2, 1.0), (2.0, 1.0), (2, 2.0)):
        agree(ad.grad(jitted)(X, power, scale=scale), ad.grad(f)(X, power, scale=scale))


def test_a_transform_that_is_not_compiled_is_staged_once():
    staged = []

    def f(x):
        staged.append(1)  # so that it is not compiled
        return np.sum(x * x)

    gradient = ad.grad(ad.jit(f))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = []
        for _ in range(4):
            before = len(staged)
            agree(gradient(X), 2 * X)
            counts.append(len(staged) - before)
    assert counts[1:] == [1, 1, 1]


def test_a_transform_where_errors_are_to_be_raised():
    gradient = ad.grad(ad.jit(lambda x: np.sum(np.log(x))))
    agree(gradient(X), 1 / X)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        gradient(0 * X)


def test_a_function_that_asks_for_the_type():
    def f(x):
        return np.sum(x * x) if type(x) is np.ndarray else np.sum(x)

    agree(ad.grad(ad.jit(f))(X), 2 * X)
    asked = lambda x: np.sum(x * x) if type(len(x)) is int else np.sum(x)
    agree(ad.grad(ad.jit(asked))(X), 2 * X)


def test_a_transform_can_be_pickled():
    gradient = pickle.loads(pickle.dumps(ad.grad(ad.jit(np.linalg.norm))))
    agree(gradient(X), X / np.linalg.norm(X))


def test_deterministic_functions():
    agree(ad.grad(ad.jit(lambda x: np.sum(np.sin(W @ x)), deterministic=True))(X), ad.grad(lambda x: np.sum(np.sin(W @ x)))(X))


def test_the_imperative_style():
    x = ad.array(X, requires_grad=True)
    y = ad.jit(FUNCTIONS["a product"])(x) * 2
    y.backward()
    agree(x.grad, 2 * ad.grad(FUNCTIONS["a product"])(X))


def test_inside_a_loop_and_inside_another_compiled_function():
    step = ad.jit(lambda c, x: (np.tanh(c + x), c))
    f = lambda g: lambda x: ad.scan(g, 0.1, x)[0]
    agree(ad.grad(f(step))(X), ad.grad(f(step.f))(X))
    agree(ad.jit(ad.grad(f(step)))(X), ad.grad(f(step.f))(X))
    agree(ad.jit(lambda x: ad.jit(branches)(x) * 2)(X), 2 * branches(X))


UNARY = [np.sin, np.cos, np.tanh, np.exp, lambda x: x**2, lambda x: W @ x, lambda x: x[::-1] * x, lambda x: np.cumsum(x)]


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(range(len(UNARY))), min_size=1, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_chains_of_compiled_and_plain_functions(steps, compiled):
    """Any part of a chain may be compiled: values and derivatives up to second order are those of the chain."""
    plain = [UNARY[i] for i in steps]
    mixed = [ad.jit(g) if flag else g for g, flag in zip(plain, itertools.cycle(compiled), strict=False)]

    def chain(functions):
        def f(x):
            for g in functions:
                x = np.sin(g(x))
            return np.sum(x * x)

        return f

    for apply in (ad.grad, ad.hessian, lambda f: lambda x: ad.vmap(ad.grad(f))(ROWS)):
        agree(apply(chain(mixed))(X), apply(chain(plain))(X))


@pytest.mark.parametrize("inner", ["value", "tangent"])
def test_a_backward_pass_where_errors_are_to_be_raised(inner):
    """Programs raise nothing: the forward pass was compiled, and the backward pass runs its graph."""
    f = ad.jit(lambda x: np.sum(np.log(x) * x))
    run = f if inner == "value" else lambda x: ad.jvp(f, (x,), (x,))[1]
    x = np.array([1.0, 2.0])
    expected = ad.vjp(run, x)[1](1.0)[0]
    _, pull = ad.vjp(run, x)
    with np.errstate(all="raise"):
        np.testing.assert_allclose(pull(1.0)[0], expected)
        with pytest.raises(FloatingPointError):
            ad.vjp(run, np.zeros(2))


def test_forward_mode_of_a_compiled_function_is_one_program():
    g = ad.jit(lambda x, scale: {"y": np.sin(x) * scale})
    x, v = np.arange(3.0), np.ones(3)
    for k in range(4):
        y, t = ad.jvp(g, (x + k, 2.0), (v, 0.0))
        np.testing.assert_allclose(y["y"], 2.0 * np.sin(x + k))
        np.testing.assert_allclose(t["y"], 2.0 * np.cos(x + k))
    (program,) = g._derivatives.programs.values()
    assert sum(map(len, program.specializations.values())) == 1
    assert not g.specializations
    y, t = ad.jvp(ad.grad(lambda x: g(x, 2.0)["y"].sum()), (x,), (v,))
    np.testing.assert_allclose(t, -2.0 * np.sin(x))


def test_forward_mode_with_static_arguments():
    g = ad.jit(lambda n, x: x**n, static_argnums=0)
    y, t = ad.jvp(lambda x: g(3, x), (2.0,), (1.0,))
    assert (y, t) == (8.0, 12.0)
    with pytest.raises(TypeError):
        ad.jvp(g, (3, 2.0), (0, 1.0))


FAILING = {
    "index": (lambda x: (x[10], np.sum(x))[1], IndexError),
    "computed index": (lambda x: (x[int(x[0, 0]) + 7], np.sum(x))[1], IndexError),
    "values": (lambda x: np.sum(np.linalg.svd(x * np.nan)[1]), np.linalg.LinAlgError),
    "shape": (lambda x: np.sum(x @ np.ones(7)), ValueError),
    "own": (lambda x: 1 / 0 * np.sum(x), ZeroDivisionError),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("transform", [ad.grad, ad.value_and_grad, ad.hessian, ad.jacfwd, lambda f: ad.grad(lambda x: 2 * f(x))])
def test_a_function_that_fails_raises_its_own_error(name, transform):
    f, error = FAILING[name]
    for _ in range(2):
        with pytest.raises(error):
            transform(ad.jit(f))(np.zeros((3, 3)))


# -- a linear map as two programs -----------------------------------------------------------------------------------

POINTS = {
    "an array": (lambda x: np.exp(np.sin(x) * x), (X,)),
    "float32": (lambda x: np.tanh(x) * x, (X.astype(np.float32),)),
    "complex": (lambda z: z * np.exp(z), (X + 1j * np.cos(X),)),
    "a number": (lambda x: x * np.sin(x), (0.7,)),
    "a result that is kept": (lambda x: (np.exp(x), x), (X,)),
    "containers": (lambda p, y: {"a": p["w"] @ y[0], "b": (y[0] * p["s"], y[1])}, ({"w": W, "s": 2.0}, [X, np.cos(X)])),
    "a view": (lambda x: x[::-1] * x, (np.stack([X, 2 * X], axis=1)[:, 0],)),
    "branches": (branches, (X,)),
    "no float": (lambda x: (x * 2, np.argmax(x)), (X,)),
    "a loop": (lambda x: ad.scan(lambda c, y: (np.sin(c + y), c), 0.5, x), (X,)),
    "linear": (lambda x: 2 * x[1:], (X,)),
    "constant": (lambda x: (x, np.ones(2)), (X,)),
}


def seeds_like(tree):
    """A cotangent, or a tangent, for each leaf: not the same for any two elements."""
    return map_leaves(lambda y: (np.cos(np.arange(np.size(y)).reshape(np.shape(y)) + 1.0) * 3).astype(np.asarray(y).dtype), tree)


@pytest.mark.parametrize("name", POINTS)
def test_a_vjp_is_two_programs(name):
    f, args = POINTS[name]
    jitted = ad.jit(f)
    for k in (1, 2, -1):
        scaled = map_leaves(lambda x, k=k: x * np.asarray(x).dtype.type(k), args)
        y, pull = ad.vjp(jitted, *scaled)
        wanted_y, wanted = ad.vjp(f, *scaled)
        agree(y, wanted_y)
        g = seeds_like(y)
        for _ in range(2):  # the residuals stay
            agree(pull(g), wanted(g))
    assert not jitted.specializations  # it has run as part of other programs only
    assert not any(p.eager for p in programs(jitted))
    assert len(jitted._derivatives.pullbacks) == sum(map(len, jitted._derivatives.programs.popitem()[1].specializations.values()))


@pytest.mark.parametrize("name", [name for name in POINTS if name not in ("no float", "constant")])
def test_a_linearization_is_two_programs(name):
    f, args = POINTS[name]
    jitted = ad.jit(f)
    tangents = seeds_like(args)
    for k in (1, 2, -1):
        scaled = map_leaves(lambda x, k=k: x * np.asarray(x).dtype.type(k), args)
        y, push = ad.linearize(jitted, *scaled)
        wanted_y, wanted = ad.linearize(f, *scaled)
        agree(y, wanted_y)
        for _ in range(2):
            agree(push(*tangents), wanted(*tangents))
    assert not jitted.specializations
    assert not any(p.eager for p in programs(jitted))


@pytest.mark.parametrize("changed", ["argument", "result", "cotangents"])
def test_what_a_linear_map_keeps_is_its_own(changed):
    x = X.copy()
    y, pull = ad.vjp(ad.jit(lambda x: np.exp(x) * x), x)
    z, push = ad.linearize(ad.jit(lambda x: np.exp(x) * x), x)
    expected = ad.vjp(lambda x: np.exp(x) * x, X)[1](np.ones(3))
    if changed == "argument":
        x[:] = np.nan
    elif changed == "result":
        y[:] = z[:] = np.nan
    else:
        pull(np.ones(3))[0][:] = np.nan
        push(np.ones(3))[:] = np.nan
    agree(pull(np.ones(3)), expected)
    agree(push(np.ones(3)), expected[0])


def test_a_linear_map_with_aux_and_of_a_transform():
    f = lambda x: (np.sum(x**3), {"kept": x * 2})
    jitted = ad.jit(f)
    for _ in range(2):
        y, pull, aux = ad.vjp(jitted, X, has_aux=True)
        wanted_y, wanted, wanted_aux = ad.vjp(f, X, has_aux=True)
        agree((y, aux), (wanted_y, wanted_aux))
        agree(pull(2.0), wanted(2.0))
    cubes = ad.jit(lambda x: np.sum(x**3))
    y, pull = ad.vjp(ad.grad(cubes), X)
    agree((y, pull(X)[0]), (3 * X**2, 6 * X * X))
    y, push = ad.linearize(ad.grad(cubes), X)
    agree((y, push(X)), (3 * X**2, 6 * X * X))


@pytest.mark.parametrize("made", [lambda f: ad.jacobian(f, [0, 1]), lambda f: ad.vmap(f, in_axes=[0, None])])
def test_a_linear_map_of_a_transform_with_a_list_as_option(made):
    """Lists cannot be keys: the transform runs eagerly."""
    f = lambda x, y: np.sin(x) * y
    ours, theirs = made(ad.jit(f)), made(f)
    agree(ad.vjp(ours, X, X)[0], ad.vjp(theirs, X, X)[0])
    agree(ad.linearize(ours, X, X)[1](X, X), ad.linearize(theirs, X, X)[1](X, X))


def test_transforms_of_a_compiled_linear_map():
    f = lambda x: np.sin(x) * x
    pulls, pushes = [ad.vjp(g, X)[1] for g in (ad.jit(f), f)], [ad.linearize(g, X)[1] for g in (ad.jit(f), f)]
    for ours, theirs in (pulls, pushes):
        agree(ad.vmap(ours)(ROWS), ad.vmap(theirs)(ROWS))
        agree(ad.jit(ours)(X), theirs(X))
        agree(ad.jvp(ours, (X,), (np.cos(X),)), ad.jvp(theirs, (X,), (np.cos(X),)))
        agree(pickle.loads(pickle.dumps(ours))(X), theirs(X))
        assert repr(ours) == repr(theirs)
    agree(ad.grad(lambda g: np.sum(pulls[0](g)[0] ** 2))(X), ad.grad(lambda g: np.sum(pulls[1](g)[0] ** 2))(X))
    second = lambda g: lambda x: np.sum(ad.vjp(g, x)[1](X)[0] ** 2)
    agree(ad.grad(second(ad.jit(f)))(X), ad.grad(second(f))(X))


def test_mistakes_with_a_compiled_linear_map():
    jitted = ad.jit(lambda x: {"y": np.sin(x)})
    _, pull = ad.vjp(jitted, X)
    with pytest.raises(ValueError, match="has the structure"):
        pull(X)
    with pytest.raises(ValueError, match=r"the cotangent\['y'\] has shape"):
        pull({"y": X[:2]})
    with pytest.raises(TypeError, match="has dtype"):
        pull({"y": np.arange(3)})
    with pytest.raises(ValueError, match="takes 1 tangents"):
        ad.linearize(jitted, X)[1](X, X)
    with pytest.raises(TypeError, match="argument 0 is"):
        ad.vjp(jitted, np.arange(3))
    with pytest.raises(TypeError, match="argument 0 is"):
        ad.linearize(jitted, np.arange(3))


def test_linear_maps_without_programs():
    """Static arguments, and functions that ask for a type or cannot be compiled: the derivative is that of the function."""
    powered = ad.jit(lambda x, n=3: np.sum(x**n), static_argnames="n")
    agree(ad.vjp(powered, X)[1](1.0), (3 * X**2,))
    asked = lambda x: np.sum(x * x) if type(len(x)) is int else np.sum(x)
    for _ in range(2):
        agree(ad.vjp(ad.jit(asked), X)[1](1.0), (2 * X,))
    staged = []

    def f(x):
        staged.append(1)
        return np.sum(x * x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jitted = ad.jit(f)
        for _ in range(3):
            agree(ad.vjp(jitted, X)[1](1.0), (2 * X,))
            agree(ad.linearize(jitted, X)[1](X), np.sum(2 * X * X))
    pull = ad.vjp(ad.jit(lambda x: np.sum(np.log(x))), X + 2)[1]
    with np.errstate(all="raise"):
        agree(pull(1.0), (1 / (X + 2),))
        with pytest.raises(FloatingPointError):
            ad.vjp(ad.jit(lambda x: np.sum(np.log(x))), 0 * X)
