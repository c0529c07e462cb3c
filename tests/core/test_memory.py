"""Results of np.broadcast_arrays, of which NumPy warns when their flag is read, are arguments, constants and results like any."""

import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.memory import is_writeable


def pair(n=3):
    return np.broadcast_arrays(np.linspace(0.5, 1.0, n)[:, None], np.linspace(0.5, 1.0, n))


def f(a, b):
    return np.sum(np.sin(a) * b)


def test_the_flag():
    x = np.ones(3)
    assert is_writeable(x)
    x.flags.writeable = False
    assert not is_writeable(x)
    assert not is_writeable(np.broadcast_to(x, (2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_writeable(pair()[0])


def of_a_constant(n):
    c = pair(n)[0]
    return ad.grad(lambda x: f(x, c))(np.ones(n))


USES = {
    "grad": lambda: ad.grad(f)(*pair()),
    "hessian": lambda: ad.hessian(f)(*pair()),
    "jit": lambda: ad.jit(ad.grad(f))(*pair()),
    "donated": lambda: ad.jit(f, donate_argnums=0)(*pair()),
    "vmap": lambda: ad.vmap(f)(*pair()),
    "checkpoint": lambda: ad.grad(ad.checkpoint(f))(*pair()),
    "scan": lambda: ad.scan(lambda c, x: (c * x, c), np.ones(3), pair()[0]),
    "constant": lambda: of_a_constant(3),
    "large constant": lambda: of_a_constant(300),
    "result of vmap": lambda: ad.vmap(lambda x: pair())(np.ones(2)),
    "result of jit": lambda: ad.jit(lambda x: np.broadcast_arrays(x, np.ones((2, 1))))(np.ones(3)),
    "result by type": lambda: ad.jit(lambda x: pair() if isinstance(x, np.ndarray) else x)(np.ones(3)),
}


@pytest.mark.parametrize("name", USES)
def test_no_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        USES[name]()
