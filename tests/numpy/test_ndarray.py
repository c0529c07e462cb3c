"""`adjoint.numpy.ndarray`: the class of traced arrays too, and NumPy's own everywhere else."""

import functools

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

X = np.array([1.0, 2.0, 3.0])


@functools.singledispatch
def by_class(x):
    return 0.0


@by_class.register(anp.ndarray)
def _(x):
    return anp.sum(x**2)


def matched(x):
    match x:
        case anp.ndarray():
            return anp.sum(x**2)
    return 0.0


def checked(x):
    assert isinstance(x, anp.ndarray)
    assert isinstance(x * 2.0, (list, anp.ndarray))
    assert isinstance(anp.zeros(3), anp.ndarray)
    assert isinstance(x[1:], anp.ndarray)
    assert not isinstance(x[0], anp.ndarray)
    assert not isinstance(anp.sum(x), anp.ndarray)
    assert issubclass(x.__class__, anp.ndarray)
    assert isinstance(x[0], anp.floating)
    return anp.sum(x**2)


TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(X),
    "jvp": lambda f: ad.jvp(f, (X,), (X,))[1],
    "hessian": lambda f: ad.hessian(f)(X),
    "vmap": lambda f: ad.vmap(f)(np.stack([X, X])),
    "jit": lambda f: ad.jit(f)(X),
    "jit of grad": lambda f: ad.jit(ad.grad(f))(X),
    "graph": lambda f: ad.graph(f)(X)(X),
    "checkpoint": lambda f: ad.grad(ad.checkpoint(f))(X),
    "scan": lambda f: ad.scan(lambda c, x: (c + f(x), None), 0.0, np.stack([X, X]))[0],
    "imperative": lambda f: f(ad.array(X, requires_grad=True)).detach().numpy(),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [checked, matched, by_class], ids=["isinstance", "match", "singledispatch"])
def test_traced_arrays(f, transform):
    run = TRANSFORMS[transform]
    np.testing.assert_allclose(run(f), run(lambda x: np.sum(x**2)))


def test_it_is_numpys():
    assert isinstance(X, anp.ndarray)
    assert not isinstance(1.0, anp.ndarray)
    assert issubclass(np.ndarray, anp.ndarray)
    assert issubclass(np.ma.MaskedArray, anp.ndarray)
    assert anp.ndarray((2, 3)).shape == (2, 3)
    assert type(X.view(anp.ndarray)) is np.ndarray
    assert anp.ndarray.sum(X) == 6.0

    class Mine(anp.ndarray):
        pass

    assert isinstance(X.view(Mine), np.ndarray)
