"""Primitives of autograd's kind inside graphs and compiled functions, and packages that import autograd."""

import subprocess
import sys
import textwrap

import numpy as onp
import pytest
import scipy.special

import adjoint as ad
import adjoint.compat.autograd.numpy as np
from adjoint.compat.autograd import grad
from adjoint.compat.autograd.builtins import DictBox, SequenceBox
from adjoint.compat.autograd.extend import JVPNode as Forward
from adjoint.compat.autograd.extend import def_linear, defjvp, defvjp, notrace_primitive, primitive, register_notrace
from adjoint.compat.autograd.misc import flatten_func
from adjoint.compat.autograd.numpy.numpy_vjps import unbroadcast_f
from adjoint.compat.autograd.util import func
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import ConversionError

X = onp.array([0.5, -1.5, 2.0])


def make_cube(rules):
    """x³ with the factor 3 of its derivative as 7, so that a test sees whether the rule was used."""

    @primitive
    def cube(x):
        return onp.power(x, 3)

    if "vjp" in rules:
        defvjp(cube, lambda ans, x: lambda g: g * 7 * x**2)
    if "jvp" in rules:
        defjvp(cube, lambda g, ans, x: g * 7 * x**2)
    return cube


def make_pair(rules):
    """A primitive of a container, with two results."""

    @primitive
    def pair(xs):
        return xs[0] * xs[1], 3.0 * onp.sin(xs[0])

    if "vjp" in rules:
        defvjp(pair, lambda ans, xs: lambda g: [g[0] * xs[1] + 3.0 * g[1] * np.cos(xs[0]), g[0] * xs[0]])
    if "jvp" in rules:
        defjvp(pair, lambda g, ans, xs: (g[0] * xs[1] + xs[0] * g[1], 3.0 * g[0] * np.cos(xs[0])))
    return pair


def make_gammainc(rules):
    """As autograd-gamma has it: SciPy's function, with a rule by differences of itself."""
    gammainc = primitive(scipy.special.gammainc)

    def by_shape(ans, a, x):
        d = 1e-6
        return unbroadcast_f(a, lambda g: g * (gammainc(a + d, x) - gammainc(a - d, x)) / (2 * d))

    density = lambda a, x: np.exp(-x + np.log(x) * (a - 1) - scipy.special.gammaln(a))
    if "vjp" in rules:
        defvjp(gammainc, by_shape, lambda ans, a, x: unbroadcast_f(x, lambda g: g * density(a, x)))
    if "jvp" in rules:
        defjvp(gammainc, lambda g, ans, a, x: by_shape(ans, a, x)(g), lambda g, ans, a, x: g * density(a, x))
    return gammainc


MADE = {"cube": make_cube, "inside": make_cube, "twice": make_cube, "container": make_pair, "gammainc": make_gammainc}
USED = {
    "cube": lambda cube: cube,
    "inside": lambda cube: lambda x: np.sum(np.sin(cube(x * x) + x)),
    "twice": lambda cube: lambda x: cube(cube(x)) * 2.0,
    "container": lambda pair: lambda x: sum(pair([x, 2.0 * x])),
    "gammainc": lambda f: lambda x: f(1.5 + x, 2.0 * x) * x,
}
TRANSFORMS = {
    "value": lambda f: f,
    "grad": ad.grad,
    "derivative": ad.derivative,
    "second": lambda f: ad.grad(ad.grad(f)),
    "hessian": ad.hessian,
    "value_and_grad": ad.value_and_grad,
}


def close(a, b):
    onp.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rules", ["vjp", "jvp", "vjp jvp"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", USED)
def test_staged_as_eager(name, transform, rules):
    f = USED[name](MADE[name](rules))
    run = TRANSFORMS[transform](f)
    graph, compiled = ad.graph(run)(0.8), ad.jit(run)
    inside = TRANSFORMS[transform](ad.jit(f))
    for x in (0.8, 1.3):
        expected = run(x)
        close(graph(x), expected)
        close(compiled(x), expected)
        close(inside(x), expected)


@pytest.mark.parametrize("rules", ["vjp", "jvp"])
def test_a_graph_is_transformed(rules):
    cube = make_cube(rules)
    graph = ad.graph(cube)(2.0)
    assert "custom.cube" in str(graph)
    assert graph(2.0) == 8.0
    assert ad.grad(graph)(2.0) == 28.0
    assert ad.derivative(graph)(2.0) == 28.0
    batched = ad.graph(cube)(X)
    close(ad.vmap(ad.graph(cube)(2.0))(X), X**3)
    close(ad.vmap(ad.grad(ad.graph(cube)(2.0)))(X), 7 * X**2)
    close(ad.jvp(batched, (X,), (X,))[1], 7 * X**3)
    close(ad.jit(ad.vmap(ad.grad(cube)))(X), 7 * X**2)


def test_in_loops_and_branches():
    cube = make_cube("vjp")
    loop = lambda x: ad.fori_loop(0, 3, lambda i, c: 0.5 * cube(c), x)
    close(ad.grad(loop)(1.1), ad.jit(ad.grad(loop))(1.1))
    branch = lambda x: ad.cond(x > 0, cube, lambda x: x, x)
    assert ad.grad(branch)(2.0) == ad.jit(ad.grad(branch))(2.0) == 28.0
    assert ad.jit(ad.grad(branch))(-2.0) == 1.0


def test_without_rules_it_runs_and_has_no_derivative():
    cube = make_cube("")
    assert ad.jit(cube)(2.0) == ad.graph(cube)(2.0)(2.0) == 8.0
    for run in (ad.graph(ad.grad(cube)), ad.jit(ad.derivative(cube)), ad.grad(ad.graph(cube)(2.0))):
        with pytest.raises(NotImplementedError, match="derivative of cube with respect to argument 0 is not defined"):
            run(2.0)


def test_linear_primitives():
    @primitive
    def double(x):
        return onp.multiply(x, 2.0)

    def_linear(double)
    assert ad.jit(ad.derivative(double))(3.0) == 2.0
    with pytest.raises(NotImplementedError, match="VJP of double"):
        ad.graph(ad.grad(double))(3.0)


def test_notrace():
    @notrace_primitive
    def whole(x):
        return onp.floor(x)

    f = lambda x: x * whole(x)
    assert ad.jit(ad.grad(f))(2.5) == ad.graph(ad.grad(f))(2.5)(2.5) == 2.0
    cube = make_cube("")
    register_notrace(Forward, cube)
    assert ad.jit(ad.grad(lambda x: x * cube(x)))(2.0) == 8.0


def test_code_that_asks_for_numbers_runs_eagerly():
    @primitive
    def cube(x):
        return float(x) ** 3

    defvjp(cube, lambda ans, x: lambda g: g * 7 * x**2)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert ad.jit(ad.grad(cube))(2.0) == 28.0
    with pytest.raises(ConversionError, match=r"float\(\) of a value traced by cube .* ad.adopt \(test_autograd_staged.py:\d+\)"):
        ad.graph(cube)(2.0)


def test_reads_of_rules_are_seen():
    scale = 7.0

    @primitive
    def cube(x):
        return onp.power(x, 3)

    defvjp(cube, lambda ans, x: lambda g: g * scale * x**2)
    compiled = ad.jit(ad.grad(cube))
    assert compiled(2.0) == 28.0
    scale = 8.0
    assert compiled(2.0) == 32.0


# -- containers ---------------------------------------------------------------------------------------------------------


def test_classes_of_containers():
    seen = []

    def f(p):
        seen.extend([isinstance(p, DictBox), isinstance(p["a"], SequenceBox), isinstance(p, SequenceBox)])
        seen.extend([isinstance(p["a"], DictBox), isinstance({"x": 1.0}, DictBox), isinstance((1.0,), SequenceBox)])
        return p["a"][0] ** 2

    assert grad(f)({"a": [3.0]}) == {"a": [6.0]}
    assert seen == [True, True, False, False, False, False]


@pytest.mark.parametrize("name", ["stack", "concatenate", "vstack", "hstack", "dstack", "column_stack"])
def test_arrays_from_any_iterable(name):
    function, plain = getattr(np, name), getattr(onp, name)
    parts = {"a": onp.ones(2), "b": onp.arange(2.0)}
    onp.testing.assert_array_equal(function(parts.values()), plain(list(parts.values())))
    onp.testing.assert_array_equal(function(x for x in parts.values()), plain(list(parts.values())))
    onp.testing.assert_array_equal(function(onp.eye(2)), plain(onp.eye(2)))
    weights = onp.arange(4.0)
    g = grad(lambda p: np.sum(weights * np.ravel(function(p.values()))))(parts)
    h = grad(lambda p: np.sum(weights * np.ravel(function(list(p.values())))))(parts)
    for key in parts:
        onp.testing.assert_array_equal(g[key], h[key])
    assert grad(lambda x: np.sum(np.concatenate(x * onp.eye(2))))(3.0) == 2.0


def test_flatten_func():
    f, unflatten, start = flatten_func(lambda p, k: {"b": p["w"] * k, "a": p["b"] ** 2}, {"w": onp.ones(2), "b": 3.0})
    assert start.tolist() == [3.0, 1.0, 1.0]
    assert f(start, 2.0).tolist() == [9.0, 2.0, 2.0]
    assert unflatten(start)["w"].tolist() == [1.0, 1.0]
    assert func(f) is f


# -- packages that import autograd ----------------------------------------------------------------------------------------

PACKAGE = """
    import autograd
    import autograd.numpy as np
    import autograd.numpy.random as npr
    import autograd.scipy.stats.norm as norm
    from autograd import grad, numpy as anp, elementwise_grad as egrad
    from autograd.builtins import DictBox
    from autograd.extend import defvjp, primitive
    from autograd.misc.optimizers import adam
    from autograd.numpy.numpy_boxes import ArrayBox
    from autograd.scipy.special import gammaln

    @primitive
    def cube(x):
        return x**3

    defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
    assert anp is np
"""


def test_install(tmp_path):
    (tmp_path / "theirs.py").write_text(textwrap.dedent(PACKAGE))
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import adjoint.compat.autograd
        adjoint.compat.autograd.install()
        adjoint.compat.autograd.install()
        import theirs
        assert theirs.autograd is adjoint.compat.autograd
        assert sys.modules["autograd.numpy"] is adjoint.compat.autograd.numpy
        assert adjoint.compat.autograd.numpy.__spec__.name == "adjoint.compat.autograd.numpy"
        assert theirs.grad(theirs.cube)(2.0) == 12.0
        assert theirs.grad(theirs.norm.logpdf)(2.0, 0.0, 1.0) == -2.0
        from autograd.misc import flatten
        from autograd.misc.optimizers import adam
        import autograd.misc.flatten
        assert flatten is autograd.misc.flatten is adjoint.compat.autograd.misc.flatten and callable(flatten)
        try:
            import autograd.nothing
        except ModuleNotFoundError as error:
            assert "nothing" in str(error)
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(tmp_path)], check=True)


def test_install_comes_first():
    code = """
        import sys, types
        sys.modules["autograd"] = types.ModuleType("autograd")
        import adjoint.compat.autograd
        try:
            adjoint.compat.autograd.install()
        except RuntimeError as error:
            assert "before anything that imports it" in str(error)
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
