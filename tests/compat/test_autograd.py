"""Programs written for autograd, with the import changed."""

import importlib
import itertools
import math
import subprocess
import sys
import warnings

import adjoint.compat.autograd.numpy.random as npr
import adjoint.compat.autograd.scipy.stats.norm as norm
import numpy as onp
import pytest
import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.stats

import adjoint as ad
import adjoint.compat.autograd as autograd
import adjoint.compat.autograd.numpy as np
from adjoint.compat.autograd import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from adjoint.compat.autograd.builtins import dict as ag_dict
from adjoint.compat.autograd.builtins import isinstance as ag_isinstance
from adjoint.compat.autograd.builtins import list as ag_list
from adjoint.compat.autograd.builtins import tuple as ag_tuple
from adjoint.compat.autograd.builtins import type as ag_type
from adjoint.compat.autograd.extend import (
    JVPNode,
    VJPNode,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
    register_notrace,
    vspace,
)
from adjoint.compat.autograd.misc import const_graph
from adjoint.compat.autograd.misc.fixed_points import fixed_point
from adjoint.compat.autograd.misc.flatten import flatten
from adjoint.compat.autograd.misc.optimizers import adam, rmsprop, sgd
from adjoint.compat.autograd.numpy.numpy_boxes import ArrayBox
from adjoint.compat.autograd.numpy.numpy_vjps import unbroadcast_f
from adjoint.compat.autograd.scipy import integrate, linalg, signal, special, stats
from adjoint.compat.autograd.scipy.misc import logsumexp as old_logsumexp
from adjoint.compat.autograd.test_util import check_equivalent, check_grads, check_jvp, check_vjp, combo_check
from adjoint.compat.autograd.tracer import Box, getval, isbox
from adjoint.compat.autograd.util import quick_grad_check, subvals

X = onp.array([0.5, -1.5, 2.0])


def close(a, b, rtol=1e-10):
    onp.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


# -- differential operators -------------------------------------------------------------------------------------------


def test_grad_forms():
    f = lambda x, y: np.sum(x * y)
    close(grad(f)(X, 2.0), onp.full(3, 2.0))
    close(grad(f, 1)(X, 2.0), X.sum())
    close(grad(f, argnum=1)(X, 2.0), X.sum())
    gx, gy = grad(f, (0, 1))(X, 2.0)
    close(gx, onp.full(3, 2.0))
    close(gy, X.sum())
    close(grad(f, [1, 0])(X, 2.0)[0], X.sum())
    close(grad(lambda x, y=1.0: x**2 * y)(3.0, y=2.0), 12.0)
    assert grad(f).__name__ == "grad_of_<lambda>_wrt_argnum_0"


def test_grad_of_containers():
    g = grad(lambda p: p["a"] * p["b"][0] + p["b"][1][0])({"a": 3.0, "b": [2.0, (1.0,)]})
    assert g == {"a": 2.0, "b": [3.0, (1.0,)]}


def test_integers_count_as_floats():
    assert grad(lambda x: x**2)(3) == 6.0
    close(grad(lambda x: np.sum(x**2))(onp.arange(3)), [0.0, 2.0, 4.0])
    close(jacobian(lambda x: x * 2.0)(onp.arange(2)), 2 * onp.eye(2))
    assert grad(lambda p: p["a"] * p["b"])({"a": 3.0, "b": 2}) == {"a": 2.0, "b": 3.0}


def test_grad_takes_one_element_for_a_scalar():
    close(grad(lambda x: x * 2)(onp.ones(1)), [2.0])
    close(grad(lambda x: x * 2)(onp.ones((1, 1))), [[2.0]])
    value, g = value_and_grad(lambda x: x * 2)(onp.ones(1))
    assert value.shape == (1,)
    close(g, [2.0])


def test_grad_refuses_arrays():
    with pytest.raises(ad.AdjointError, match="scalar"):
        grad(lambda x: x * 2)(X)
    with pytest.raises(TypeError, match="expects a function"):
        grad(3.0)


def test_value_and_grad_and_aux():
    value, g = value_and_grad(lambda x: np.sum(x**2))(X)
    close(value, (X**2).sum())
    close(g, 2 * X)
    g, aux = grad_and_aux(lambda x: (x**2, {"three": 3 * x}))(3.0)
    assert (g, aux) == (6.0, {"three": 9.0})


def test_elementwise_grad_and_deriv():
    close(elementwise_grad(np.tanh)(X), 1 - onp.tanh(X) ** 2)
    close(autograd.egrad(np.tanh)(X), 1 - onp.tanh(X) ** 2)
    close(elementwise_grad(lambda x, y: x * y, (0, 1))(X, 2 * X)[1], X)
    close(elementwise_grad(elementwise_grad(elementwise_grad(np.sin)))(X), -onp.cos(X))
    close(deriv(np.sin)(1.0), math.cos(1.0))
    close(deriv(lambda x: x * onp.ones(3))(1.0), onp.ones(3))


def test_jacobian_and_hessian():
    close(jacobian(lambda x: np.outer(x, x))(X), onp.einsum("ik,j->ijk", onp.eye(3), X) + onp.einsum("jk,i->ijk", onp.eye(3), X))
    close(jacobian(lambda x: np.array([np.sum(x)]))(X), onp.ones((1, 3)))
    close(hessian(lambda x: np.sum(x**3))(X), onp.diag(6 * X))
    close(hessian(lambda x: x**3)(X), onp.einsum("ij,jk->ijk", onp.eye(3), onp.diag(6 * X)))
    assert hessian(lambda x: np.sum(x) ** 2)(onp.ones((2, 3))).shape == (2, 3, 2, 3)
    close(hessian(lambda x, y: x**3 * y, 0)(2.0, 5.0), 60.0)


def test_holomorphic_grad():
    close(holomorphic_grad(lambda z: z**3)(2.0 + 1j), 3 * (2 + 1j) ** 2)
    with pytest.warns(UserWarning, match="not complex"):
        close(holomorphic_grad(lambda z: z**3)(2.0), 12.0)
    close(grad(lambda z: np.real(z**3))(2.0 + 1j), 9 + 12j)


def test_pullback_and_pushforward():
    pull, ans = make_vjp(lambda x: x**2)(X)
    close(ans, X**2)
    close(pull(onp.ones(3)), 2 * X)
    close(pull(onp.ones(3, int)), 2 * X)
    pull, ans = make_vjp(lambda x, y: x * y, (0, 1))(2.0, 3.0)
    assert pull(1.0) == (3.0, 2.0)
    value, tangent = make_jvp(lambda x: x**2)(X)(onp.ones(3))
    close(value, X**2)
    close(tangent, 2 * X)
    assert make_jvp(lambda x, y: x * y, (0, 1))(2.0, 3.0)((1.0, 1.0)) == (6.0, 5.0)
    close(make_jvp(lambda x: onp.ones(3))(X)(X)[1], onp.zeros(3))
    close(make_jvp_reversemode(lambda x: x**2)(X)(onp.ones(3)), 2 * X)


def test_products():
    f = lambda x: np.sum(x**3)
    hvp, g = make_hvp(f)(X)
    close(g, 3 * X**2)
    close(hvp(onp.ones(3)), 6 * X)
    close(hessian_vector_product(f)(X, onp.ones(3)), 6 * X)
    close(hessian_vector_product(lambda y, x: y * np.sum(x**3), 1)(2.0, X, onp.ones(3)), 12 * X)
    close(vector_jacobian_product(lambda x: x**2)(X, onp.ones(3)), 2 * X)
    close(tensor_jacobian_product(lambda x: np.outer(x, x))(X, onp.ones((3, 3))), onp.full(3, 2 * X.sum()))
    close(tensor_jacobian_product(lambda x: np.outer(x, x))(X, onp.ones(3)).shape, (3, 3))
    close(make_ggnvp(lambda x: x**2)(X)(onp.ones(3)), 4 * X**2)
    close(make_ggnvp(lambda x: x**2, lambda y: np.sum(y**3))(onp.arange(3.0))(onp.ones(3)), [0.0, 24.0, 384.0])


def test_gradients_by_name():
    f = lambda a, b: a**2 * b
    assert grad_named(f, "b")(3.0, 2.0) == 9.0
    assert grad_named(f, "a")(3.0, 2.0) == 12.0
    assert grad_named(f, "b")(3.0, b=2.0) == 9.0
    with pytest.raises(ValueError, match="no argument 'c'"):
        grad_named(f, "c")
    assert multigrad_dict(f)(3.0, b=2.0) == {"a": 12.0, "b": 9.0}
    assert multigrad_dict(lambda a, b=2.0, **k: a * b * k["z"])(3.0, z=4.0) == {"a": 8.0, "b": 12.0, "k": {"z": 6.0}}
    assert multigrad_dict(lambda *xs: xs[0] * xs[1])(3.0, 2.0) == {"xs": (2.0, 3.0)}


def test_checkpoint():
    f = lambda x: np.sum(np.sin(x) ** 2)
    close(grad(checkpoint(f))(X), grad(f)(X))


# -- extend -----------------------------------------------------------------------------------------------------------


@primitive
def logsumexp(x):
    """Numerically stable log(sum(exp(x)))"""
    max_x = np.max(x)
    return max_x + np.log(np.sum(np.exp(x - max_x)))


def logsumexp_vjp(ans, x):
    x_shape = x.shape
    return lambda g: np.full(x_shape, g) * np.exp(x - np.full(x_shape, ans))


defvjp(logsumexp, logsumexp_vjp)


def test_logsumexp_of_the_tutorial():
    def example_func(y):
        z = y**2
        lse = logsumexp(z)
        return np.sum(lse)

    grad_of_example = grad(example_func)
    y = npr.randn(10)
    expected = onp.exp(y**2) / onp.sum(onp.exp(y**2)) * 2 * y
    close(grad_of_example(y), expected)
    check_grads(example_func, modes=["rev"])(y)
    check_grads(example_func, modes=["fwd", "rev"], order=2)(y)  # forward mode follows from the reverse rule
    assert logsumexp.__name__ == "logsumexp"
    assert logsumexp.__doc__ == "Numerically stable log(sum(exp(x)))"


def test_jacobian_and_hessian_of_a_primitive():
    p = onp.exp(X - onp.log(onp.exp(X).sum()))
    close(jacobian(logsumexp)(X), p)
    close(hessian(logsumexp)(X), onp.diag(p) - onp.outer(p, p))
    close(ad.vmap(ad.grad(logsumexp))(onp.stack([X, 2 * X]))[0], p)
    close(ad.vmap(logsumexp)(onp.stack([X, 2 * X])), [logsumexp(X), logsumexp(2 * X)])


def make_product():
    @primitive
    def product(x, y, k=1.0):
        assert not isbox(x)
        assert not isbox(y)
        return math.prod((float(x), float(y), k))  # code that could not be traced

    return product


def test_rules_per_argument():
    product = make_product()
    with pytest.raises(NotImplementedError, match="product"):
        grad(product)(2.0, 3.0)
    defvjp(product, None, lambda ans, x, y, k=1.0: lambda g: g * x * k)
    assert grad(product, 0)(2.0, 3.0) == 0.0
    assert grad(product, 1)(2.0, 3.0, k=2.0) == 4.0
    defvjp(product, lambda ans, x, y, k=1.0: lambda g: g * x * k, argnums=(1,))
    assert grad(product, 1)(2.0, 3.0) == 2.0
    with pytest.raises(NotImplementedError, match="argument 0"):
        grad(product, 0)(2.0, 3.0)
    defvjp(product, lambda ans, x, y, k=1.0: lambda g: g * y * k, lambda ans, x, y, k=1.0: lambda g: g * x * k)
    check_grads(product, (0, 1))(2.0, 3.0)
    assert grad(grad(lambda x: product(x, x) ** 2))(2.0) == 48.0


def test_forward_rules():
    product = make_product()
    defjvp(product, lambda g, ans, x, y, k=1.0: g * y * k, None)
    assert make_jvp(product)(2.0, 3.0, k=2.0)(1.0) == (12.0, 6.0)
    assert make_jvp(product, 1)(2.0, 3.0)(1.0) == (6.0, 0.0)
    product = make_product()
    def_linear(product)
    check_grads(product, (0, 1), modes=["fwd"], order=2)(2.0, 3.0)
    with pytest.raises(NotImplementedError, match="VJP of product with respect to argument 1"):
        grad(product, 1)(2.0, 3.0)
    defvjp(product, lambda ans, x, y: lambda g: product(g, y), lambda ans, x, y: lambda g: product(x, g))
    check_grads(product, (0, 1), modes=["fwd", "rev"], order=2)(2.0, 3.0)
    product = make_product()
    defjvp(product, "same", "same")
    check_grads(product, (0, 1), modes=["fwd"])(2.0, 3.0)
    with pytest.raises(NotImplementedError, match="VJP of product"):
        grad(product)(2.0, 3.0)
    product = make_product()
    defjvp(product, lambda g, ans, x, y: g * y, lambda g, ans, x, y: g * x)
    check_grads(product, (0, 1), modes=["fwd", "rev"])(2.0, 3.0)  # reverse mode follows from the forward rules
    product = make_product()
    defjvp(product, "same")
    with pytest.raises(NotImplementedError, match="argument 1"):
        make_jvp(product, 1)(2.0, 3.0)(1.0)


def test_rules_for_all_arguments():
    @primitive
    def total(*xs):
        return sum(xs)

    defvjp_argnum(total, lambda argnum, ans, args, kwargs: lambda g: g * (argnum + 1))
    assert grad(total, 1)(2.0, 3.0) == 2.0
    defvjp_argnums(total, lambda argnums, ans, args, kwargs: lambda g: [g * (a + 1) * 10 for a in argnums])
    assert grad(total, (0, 1))(2.0, 3.0) == (10.0, 20.0)
    defjvp_argnum(total, lambda argnum, g, ans, args, kwargs: g * (argnum + 1))
    assert make_jvp(total, 1)(2.0, 3.0)(1.0) == (5.0, 2.0)
    defjvp_argnums(total, lambda argnums, gs, ans, args, kwargs: sum(g * (a + 1) * 10 for a, g in zip(argnums, gs, strict=True)))
    assert make_jvp(total, (0, 1))(2.0, 3.0)((1.0, 1.0)) == (5.0, 30.0)


def test_primitives_of_containers_and_objects():
    @primitive
    def pair(xs):
        return xs[0] * xs[1], 3.0 * xs[0]

    defvjp(pair, lambda ans, xs: lambda g: [g[0] * xs[1] + 3.0 * g[1], g[0] * xs[0]])
    assert grad(lambda xs: pair(xs)[0])([2.0, 3.0]) == [3.0, 2.0]
    assert grad(lambda x: sum(pair(ag_list([x, x]))))(2.0) == 7.0
    assert make_jvp(lambda x: pair([x, x])[0])(2.0)(1.0) == (4.0, 4.0)

    class Scale:
        k = 3.0

        @primitive
        def apply(self, x):
            return x * self.k

    defvjp(Scale.apply, None, lambda ans, self, x: lambda g: g * self.k)
    assert grad(Scale().apply)(2.0) == 3.0


def test_a_rule_may_leave_out_unbroadcasting_or_do_it():
    @primitive
    def add(x, y):
        return onp.add(x, y)

    defvjp(add, lambda ans, x, y: unbroadcast_f(x, lambda g: g), lambda ans, x, y: lambda g: g)
    gx, gy = grad(lambda x, y: np.sum(add(x, y)), (0, 1))(1.0, X)
    assert (gx, gy.tolist()) == (3.0, [1.0, 1.0, 1.0])
    close(grad(lambda y: np.sum(add(X, y)))(1.0), 3.0)


def test_notrace():
    @notrace_primitive
    def whole(x):
        assert not isbox(x)
        return onp.floor(x)

    assert grad(lambda x: x * whole(x))(2.5) == 2.0
    close(ad.vmap(ad.grad(lambda x: x * whole(x)))(onp.array([2.5, 3.5])), [2.0, 3.0])
    product = make_product()
    register_notrace(VJPNode, product)
    register_notrace(JVPNode, product)
    assert grad(lambda x: x * product(x, x))(2.0) == 4.0


def test_rules_are_for_primitives():
    for function in (np.sin, onp.sin, np.linalg.norm, onp.linalg.norm, scipy.special.logsumexp, max):
        with pytest.raises(NotImplementedError, match="primitive"):
            defvjp(function, lambda ans, x: lambda g: g)
    product = make_product()
    def_linear(product)
    with pytest.raises(TypeError, match="keyword argument"):
        grad(lambda x: product(x, 2.0, k=x))(2.0)


@pytest.mark.parametrize("declare", [defvjp, defjvp, defvjp_argnum, defjvp_argnums])
def test_a_rule_for_a_plain_function_is_ignored_as_in_autograd(declare):
    def cube(x):
        return x**3

    with pytest.warns(UserWarning, match=r"cube is ignored: .*primitive") as warned:
        declare(cube, lambda *args: lambda g: 0.0)
    assert all(w.filename == __file__ for w in warned)
    assert grad(cube)(2.0) == 12.0
    for declare_nothing in (def_linear, lambda f: defjvp(f, "same"), lambda f: register_notrace(VJPNode, f)):
        with pytest.warns(UserWarning, match="ignored"):
            declare_nothing(cube)
    assert grad(cube)(2.0) == 12.0


def test_submodules_are_attributes():
    run = "import adjoint.compat.autograd.scipy as s; s.integrate, s.linalg, s.signal, s.special, s.stats.norm"
    subprocess.run([sys.executable, "-c", run], check=True)


def test_vspace():
    v = vspace([1.0, {"a": onp.ones(2)}])
    assert v.size == 3
    assert v.zeros()[0] == 0.0
    assert v.ones()[1]["a"].tolist() == [1.0, 1.0]
    assert len(list(v.standard_basis())) == 3
    assert v.inner_prod(v.ones(), v.ones()) == 3.0
    assert v == vspace([2.0, {"a": onp.zeros(2)}])
    assert vspace(onp.ones((2, 3))).shape == (2, 3)
    assert vspace(1j).iscomplex
    assert len(list(vspace(1j).standard_basis())) == 2
    with pytest.raises(TypeError, match="vector space"):
        vspace("x")


# -- values and types -------------------------------------------------------------------------------------------------


def test_looking_at_traced_values():
    seen = []

    def f(x):
        seen.extend([isbox(x), getval(x), x._value, isinstance(x, Box), isinstance(x, ArrayBox)])
        seen.extend([ag_isinstance(x, float), ag_isinstance(x, onp.ndarray), ag_type(x)])
        return x**2

    grad(f)(2.0)
    assert seen == [True, 2.0, 2.0, True, True, True, False, onp.float64]
    assert not isbox(2.0)
    assert ag_isinstance({}, ag_dict)
    assert ag_isinstance((), (ag_list, ag_tuple))
    assert ag_isinstance(float, ag_type)
    assert ag_type("T", (), {}).__name__ == "T"
    assert subvals((1, 2, 3), [(0, 5)]) == (5, 2, 3)


def test_a_number_has_a_shape():
    def f(x):
        y = 2.0 * x
        assert (x.shape, x.ndim, x.size, x.dtype, y.shape) == ((), 0, 1, onp.float64, ())
        return y**2

    assert grad(f)(3.0) == grad(f)(3) == 24.0
    assert make_jvp(f)(3.0)(1.0) == (36.0, 24.0)
    close(holomorphic_grad(lambda z: z**2 if z.shape == () else None)(1.0 + 2.0j), 2.0 + 4.0j)


def test_const_graph():
    close(const_graph(lambda x, y: np.sin(x) * y, 1.0)(2.0), 2 * math.sin(1.0))


# -- misc -------------------------------------------------------------------------------------------------------------


def test_flatten():
    value = {"b": onp.ones((2, 2)), "a": [1.0, (2.0, 3)]}
    vector, unflatten = flatten(value)
    assert vector.tolist() == [1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    back = unflatten(2 * vector)
    assert list(back) == ["b", "a"]
    assert back["a"] == [2.0, (4.0, 6.0)]
    assert back["b"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert flatten(2.0)[0].tolist() == [2.0]
    assert flatten([])[0].size == 0
    assert flatten([])[1](onp.zeros(0)) == []
    assert flatten([1j, 2.0])[1](onp.array([2j, 3.0]))[1].dtype == float
    assert flatten([onp.ones(2, "f"), 2.0])[1](onp.ones(3))[0].dtype == onp.float32
    close(grad(lambda v: np.sum(unflatten(v)["b"] ** 2) * unflatten(v)["a"][0])(vector), [4, 0, 0, 2, 2, 2, 2])
    close(grad(lambda x: np.sum(flatten([x, {"k": x**2}])[0]))(3.0), 7.0)


@pytest.mark.parametrize(
    "optimize, options, expected",
    [
        (adam, {"num_iters": 3, "step_size": 0.1}, 0.70158627),
        (sgd, {"num_iters": 3, "step_size": 0.1, "mass": 0.5}, 0.614),
        (rmsprop, {"num_iters": 3, "step_size": 0.1, "gamma": 0.5, "eps": 1e-3}, 0.67294577),
        (adam, {}, 0.9017436),
        (sgd, {}, -2.06653492e-06),
        (rmsprop, {}, 0.00743117),
    ],
)
def test_optimizers_take_the_same_steps(optimize, options, expected):
    seen = []
    x, (y,) = optimize(
        lambda x, i: [2 * x[0], (2 * x[1][0],)], [1.0, (onp.ones(2),)], lambda x, i, g: seen.append((i, g)), **options
    )
    close(x, expected, 1e-6)
    close(y, [expected, expected], 1e-6)
    assert seen[0][0] == 0
    assert seen[0][1][0] == 2.0


def test_fixed_point():
    newton = lambda a: lambda x: 0.5 * (x + a / x)
    root = lambda a: fixed_point(newton, a, 1.0, lambda x, y: abs(x - y), 1e-10)
    close(root(2.0), math.sqrt(2.0))
    close(grad(root)(2.0), 0.5 / math.sqrt(2.0))
    close(grad(grad(root))(2.0), -0.25 * 2.0**-1.5, 1e-8)
    slow = lambda a: fixed_point(lambda a: lambda x: np.cos(a[0] * x) * a[1], (a, a), 0.5, lambda x, y: abs(x - y), 1e-12)
    check_grads(slow, modes=["rev"])(0.7)
    check_grads(slow, modes=["fwd"], order=1)(0.7)


# -- test_util --------------------------------------------------------------------------------------------------------


def test_check_grads():
    f = lambda x, y: np.sin(x) * y
    check_grads(f, argnum=(0, 1), modes=["fwd", "rev"], order=2)(1.0, 2.0)
    check_grads(f)(1, 2.0)
    check_vjp(np.sin, X)
    check_jvp(np.sin, X)
    check_equivalent(X, X + 1e-9)
    combo_check(np.sum, [0], modes=["fwd", "rev"])(
        [onp.ones((2, 3)), onp.ones((1, 2))], axis=[None, 0, 1], keepdims=[True, False]
    )
    product = make_product()
    defvjp(product, lambda ans, x, y: lambda g: 2 * g * y)
    with pytest.raises(AssertionError):
        check_grads(product)(2.0, 3.0)
    quick_grad_check(lambda x: np.sum(x**2), X, verbose=False)
    with pytest.raises(ValueError, match="differs"):
        quick_grad_check(lambda x: product(x, 3.0), 2.0, verbose=False)


# -- numpy and scipy --------------------------------------------------------------------------------------------------


def test_numpy_is_a_drop_in():
    assert np.pi == math.pi
    assert np.linalg is ad.numpy.linalg
    assert npr is onp.random
    for name in ("linalg", "fft", "random"):
        assert importlib.import_module(f"adjoint.compat.autograd.numpy.{name}") is getattr(np, name)
    close(grad(lambda x: np.array([x, x**2])[1])(3.0), 6.0)
    close(grad(lambda x: np.linalg.det(np.eye(2) * x))(3.0), 6.0)
    close(np.make_diagonal(onp.ones((2, 3)), axis1=-1, axis2=-2).sum(), 6.0)
    assert {"sin", "linalg", "make_diagonal"} <= set(dir(np))
    scope = {}
    exec("from adjoint.compat.autograd.numpy import *", scope)
    assert scope["array"] is np.array
    assert scope["sin"] == onp.sin
    assert isinstance(scope["sin"], onp.ufunc)


def test_scipy_modules():
    close(grad(norm.logpdf)(2.0, 1.0, 2.0), -0.25)
    close(grad(norm.logpdf, 2)(2.0, 1.0, 2.0), -0.5 + 1.0 / 8)
    from adjoint.compat.autograd.scipy.stats import gamma, multivariate_normal, t

    check_grads(t.logpdf, (0, 1), modes=["rev"])(0.5, 3.0)
    check_grads(lambda x, a: gamma.logpdf(x, a), (0, 1), modes=["rev"], order=1)(1.5, 2.0)
    close(multivariate_normal.logpdf(X, X, onp.eye(3)), -1.5 * math.log(2 * math.pi))
    assert stats.laplace is ad_stats().laplace
    close(grad(special.gammaln)(3.0), special.digamma(3.0))
    close(grad(lambda x: special.logsumexp(x * X))(1.0), onp.sum(X * onp.exp(X)) / onp.sum(onp.exp(X)))
    close(old_logsumexp(X), special.logsumexp(X))
    A = onp.array([[3.0, 1.0], [1.0, 2.0]])
    close(linalg.sqrtm(A) @ linalg.sqrtm(A), A)
    check_grads(lambda A: np.sum(linalg.solve_triangular(A, onp.ones(2), lower=True)), modes=["rev"])(onp.tril(A))
    assert "norm" in dir(stats)
    assert "gammaln" in dir(special)
    assert "solve" in dir(linalg)


def ad_stats():
    return importlib.import_module("adjoint.scipy.stats")


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("shapes", [((4,), (3,)), ((5, 6), (2, 3)), ((4,), (1,))])
def test_convolve(mode, shapes):
    A, B = (onp.random.default_rng(0).normal(size=s) for s in shapes)
    close(signal.convolve(A, B, mode=mode), scipy.signal.convolve(A, B, mode=mode))
    check_grads(lambda A, B: signal.convolve(A, B, mode=mode), (0, 1), order=1)(A, B)


def test_convolve_with_other_axes():
    rng = onp.random.default_rng(0)
    A, B = rng.normal(size=(5, 6, 7)), rng.normal(size=(2, 6, 3))
    y = signal.convolve(A, B, axes=[(0, 2), (0, 2)], dot_axes=[(1,), (1,)], mode="valid")
    close(y, sum(scipy.signal.convolve(A[:, i], B[:, i], mode="valid") for i in range(6)))
    y = signal.convolve(A, B[:, :4], axes=[(0, 2), (0, 2)])
    assert y.shape == (6, 4, 6, 9)
    close(y[2, 1], scipy.signal.convolve(A[:, 2], B[:, 1]))
    close(signal.convolve(B, A, axes=[(0, 2), (0, 2)], dot_axes=[(1,), (1,)], mode="valid").shape, (4, 5))
    check_grads(lambda A, B: signal.convolve(A, B, [(2,), (2,)], [(1,), (1,)]), (0, 1), modes=["rev"], order=1)(A, B)
    with pytest.raises(ValueError, match="mode"):
        signal.convolve(A, B, mode="half")


def test_odeint():
    def decay(y, t, rate, n):
        return -rate * y + np.sin(t) * onp.arange(n)

    t = onp.array([0.0, 0.5, 1.2])
    y0 = onp.array([1.0, 2.0])
    run = lambda y0, t, rate: integrate.odeint(decay, y0, t, (rate, 2), rtol=1e-10, atol=1e-10)
    close(run(y0, t, 1.5), scipy.integrate.odeint(decay, y0, t, (1.5, 2)), 1e-6)
    weights = onp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    loss = lambda *args: np.sum(weights * run(*args))
    for argnum in range(3):
        args = [y0, t, 1.5]
        exact = grad(loss, argnum)(*args)
        for place in onp.ndindex(onp.shape(exact)):
            h = onp.zeros(onp.shape(exact))
            h[place] = 1e-4
            hi, lo = (loss(*subvals(args, [(argnum, args[argnum] + s * h)])) for s in (1, -1))
            close(onp.asarray(exact)[place], (hi - lo) / 2e-4, 1e-5)


# -- programs ---------------------------------------------------------------------------------------------------------


def test_neural_net():
    """autograd's examples/neural_net.py in small: nested parameters, flatten, adam with a callback."""
    rs = npr.RandomState(0)

    def init_random_params(scale, layer_sizes):
        return [(scale * rs.randn(m, n), scale * rs.randn(n)) for m, n in itertools.pairwise(layer_sizes)]

    def neural_net_predict(params, inputs):
        for W, b in params:
            outputs = np.dot(inputs, W) + b
            inputs = np.tanh(outputs)
        return outputs - special.logsumexp(outputs, axis=1, keepdims=True)

    def l2_norm(params):
        flattened, _ = flatten(params)
        return np.dot(flattened, flattened)

    def log_posterior(params, inputs, targets, L2_reg):
        return -L2_reg * l2_norm(params) + np.sum(neural_net_predict(params, inputs) * targets)

    def accuracy(params, inputs, targets):
        return np.mean(np.argmax(neural_net_predict(params, inputs), axis=1) == np.argmax(targets, axis=1))

    inputs = rs.randn(60, 2)
    targets = np.eye(2)[(inputs[:, 0] * inputs[:, 1] > 0).astype(int)]
    objective = lambda params, i: -log_posterior(params, inputs[i % 2 :: 2], targets[i % 2 :: 2], 0.01)
    seen = []
    start = init_random_params(0.3, [2, 12, 2])
    result = adam(
        grad(objective), start, step_size=0.05, num_iters=150, callback=lambda p, i, g: seen.append(accuracy(p, inputs, targets))
    )
    assert len(seen) == 150
    assert accuracy(result, inputs, targets) > 0.9
    vector, unflatten = flatten(start)
    check_grads(lambda v: objective(unflatten(v), 0), modes=["rev"], order=1)(vector)


def test_rosenbrock_with_scipy_optimize():
    from scipy.optimize import minimize

    def rosenbrock(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    result = minimize(value_and_grad(rosenbrock), x0=onp.zeros(2), jac=True, method="CG")
    close(result.x, [1.0, 1.0], 1e-4)


def test_gaussian_process_likelihood():
    def rbf_covariance(kernel_params, x, xp):
        output_scale = np.exp(kernel_params[0])
        lengthscales = np.exp(kernel_params[1:])
        diffs = np.expand_dims(x / lengthscales, 1) - np.expand_dims(xp / lengthscales, 0)
        return output_scale * np.exp(-0.5 * np.sum(diffs**2, axis=2))

    x = onp.linspace(-2, 2, 6)[:, None]
    y = onp.sin(x[:, 0])

    def log_marginal_likelihood(params):
        cov_y_y = rbf_covariance(params[1:], x, x) + np.exp(params[0]) * np.eye(len(y))
        return stats.multivariate_normal.logpdf(y, onp.zeros(6), cov_y_y)

    check_grads(log_marginal_likelihood, modes=["rev"])(onp.array([-1.0, 0.1, 0.2]))


def test_no_warnings_and_no_scipy_at_import():
    import subprocess
    import sys

    code = (
        "import sys, adjoint.compat.autograd as a, adjoint.compat.autograd.numpy, adjoint.compat.autograd.misc.optimizers\n"
        "assert not any(m == 'scipy' or m.startswith('scipy.') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_all_names_exist():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in ("", ".core", ".extend", ".differential_operators", ".misc", ".scipy.signal", ".scipy.integrate"):
            found = importlib.import_module("adjoint.compat.autograd" + module)
            for name in found.__all__:
                assert hasattr(found, name), (module, name)


# -- spellings of autograd that are seldom seen ------------------------------------------------------------------------


def test_rules_as_methods_of_a_primitive():
    from adjoint.compat.autograd import core, tracer

    @core.primitive
    def product(x, y, z):
        return onp.multiply(x, y)

    product.defgrad(lambda ans, x, y, z: lambda g: y * g)
    product.defvjp(lambda g, ans, vs, gvs, x, y, z: x * g, argnum=1)
    product.defvjp_is_zero(argnums=(2,))
    assert grad(product, (0, 1, 2))(2.0, 3.0, 4.0) == (3.0, 2.0, 0.0)
    rule = core.primitive_vjps.pop(product)
    with pytest.raises(NotImplementedError):
        grad(product)(2.0, 3.0, 4.0)
    core.primitive_vjps[product] = rule
    assert grad(product)(2.0, 3.0, 4.0) == 3.0
    assert tracer.primitive(onp.sin)(0.0) == 0.0


def test_ones_are_the_sum_of_the_basis():
    space = vspace(onp.zeros((2, 1), complex))
    close(sum(space.standard_basis()), space.ones())


def test_where_by_name_and_whole_number_types():
    x = onp.array([1.0, 2.0])
    close(np.where(condition=onp.array([True, False]), x=x, y=-x), [1.0, -2.0])
    assert np.where(onp.array([False, True]))[0].tolist() == [1]
    close(grad(lambda x: np.sum(x[np.int64(x)[:1]] * np.int64(3)))(x), [0.0, 3.0])
    assert np.zeros(2, np.int32).dtype == onp.int32
    assert np.int64(2.5) == 2
    assert np.int64([1.5, 2.5]).tolist() == [1, 2]
