"""A function made by a transform: how it prints, pickles, nests and is told from others."""

import pickle

import numpy as np
import pytest

import adjoint as ad

X = np.array([0.3, -0.5, 0.7])


def square(x, w=1.0):
    """The sum of squares."""
    return np.sum(x * x) * w


class Model:
    slope = ad.value_and_grad(lambda self, x: np.sum(x * x) * self.scale, 1)
    scale = 3.0


MADE = {
    "grad": lambda f: ad.grad(f),
    "grad of another argument": lambda f: ad.grad(f, 1),
    "grad of both": lambda f: ad.grad(f, (0, 1)),
    "grad with aux": lambda f: ad.grad(f, has_aux=True),
    "value_and_grad": lambda f: ad.value_and_grad(f),
    "hessian": lambda f: ad.hessian(f),
    "jacobian of grad": lambda f: ad.jacobian(ad.grad(f)),
    "grad of grad": lambda f: ad.grad(ad.grad(f)),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f)),
    "vmap of grad, not of w": lambda f: ad.vmap(ad.grad(f), in_axes=(0, None)),
}


def test_transforms_are_told_apart_by_what_they_do():
    keys = {name: make(square).key() for name, make in MADE.items()}
    assert len(set(keys.values())) == len(MADE)
    assert all(make(np.sum).key() == keys[name] for name, make in MADE.items())  # whatever the function is
    assert ad.grad(square, True).key() != ad.grad(square, 1).key()


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "hessian", "jacobian of grad"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_same_transform_around_another_function(name, compiled):
    other = lambda x: np.sum(x**3)
    other = ad.jit(other) if compiled else other
    made, wanted = MADE[name](square).around(other), MADE[name](other)
    np.testing.assert_allclose(made(X)[-1], wanted(X)[-1])
    assert made.key() == wanted.key()
    assert made.innermost is other


@pytest.mark.parametrize("compiled", [False, True])
def test_it_keeps_the_name_and_pickles(compiled):
    f = ad.jit(square) if compiled else square
    made = ad.grad(f)
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("square", "The sum of squares.", f)
    assert repr(ad.jacobian(square, (0, 1))) == "<jacobian of square, argnums=(0, 1)>"
    np.testing.assert_allclose(pickle.loads(pickle.dumps(ad.grad(square)))(X), 2 * X)
    np.testing.assert_allclose(made(X, w=2.0), 4 * X)


def test_a_method():
    value, slope = Model().slope(X)
    np.testing.assert_allclose(value, 3 * np.sum(X * X))
    np.testing.assert_allclose(slope, 6 * X)


@pytest.mark.parametrize("given", ["dict", "list", "tuple", "keyword", "none"])
@pytest.mark.parametrize("compiled", [False, True])
def test_containers_of_arguments(given, compiled):
    """They are opened only if something in them may be on a GPU."""
    args = {
        "dict": ({"a": X, "b": {"c": 2.0}},),
        "list": ([X, [2.0]],),
        "tuple": ((X, (2.0,)),),
        "keyword": (X,),
        "none": ((X, None),),
    }[given]
    leaves = lambda tree: ad.core.tree.flatten(tree)[0]
    f = lambda tree, w=1.0: sum(np.sum(x * x) for x in leaves(tree)) * w
    kwargs = {"w": 3.0} if given == "keyword" else {}
    found = leaves(ad.grad(ad.jit(f) if compiled else f)(*args, **kwargs))
    for g, x in zip(found, leaves(args), strict=True):
        np.testing.assert_allclose(g, 2 * np.asarray(x) * (3.0 if kwargs else 1.0))
