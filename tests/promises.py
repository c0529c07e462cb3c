"""Derivatives of a function of a number by every route there is, and how results are compared."""

import numpy as np

import adjoint as ad

SMALL, BIG = 3, 5000  # the backward pass takes another way for large arrays
EXAMPLES = {SMALL: SMALL, BIG: 300}  # of a batch, whose tapes are the same for any number of them


def equal(found, expected):
    np.testing.assert_array_equal(found, expected)


def close(found, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def quietly(f, *args):
    with np.errstate(all="ignore"):
        return f(*args)


def scalar_slopes(f, x):
    """f′(x) of a function that acts per element, by every route there is, each for a scalar, a small and a big array."""
    one = np.float64(1.0)
    yield "rev", ad.grad(f)(x)
    yield "fwd", ad.jvp(f, (x,), (one,))[1]
    yield "linearize", ad.linearize(f, x)[1](one)
    yield "vjp", ad.vjp(f, x)[1](one)[0]
    yield "derivative", ad.derivative(f)(x)
    yield "jacfwd", ad.jacfwd(f)(x)
    yield "jacrev", ad.jacrev(f)(x)
    yield "0-d array", ad.grad(f)(np.array(x))
    for n in (SMALL, BIG):
        xs = np.full(n, x)
        yield f"rev {n}", ad.grad(lambda x: np.sum(f(x)))(xs)
        yield f"fwd {n}", ad.jvp(f, (xs,), (np.ones(n),))[1]
        yield f"elementwise {n}", ad.elementwise_grad(f)(xs)
        batch = xs[: EXAMPLES[n]]
        yield f"vmap rev {n}", ad.vmap(ad.grad(f))(batch)
        yield f"vmap fwd {n}", ad.vmap(ad.derivative(f))(batch)
        yield f"rev vmap {n}", ad.grad(lambda x: np.sum(ad.vmap(f)(x)))(xs)


def scalar_curvatures(f, x):
    """f″(x) by every nesting."""
    total = lambda x: np.sum(f(x))
    one = np.float64(1.0)
    yield "rev rev", ad.grad(ad.grad(f))(x)
    yield "fwd rev", ad.jvp(ad.grad(f), (x,), (one,))[1]
    yield "rev fwd", ad.grad(ad.derivative(f))(x)
    yield "fwd fwd", ad.derivative(ad.derivative(f))(x)
    yield "hessian", ad.hessian(f)(x)
    yield "hvp", ad.hvp(f)(x, one)
    for n in (SMALL, BIG):
        xs = np.full(n, x)
        yield f"rev rev {n}", ad.grad(lambda x: np.sum(ad.grad(total)(x)))(xs)
        yield f"hvp {n}", ad.hvp(total)(xs, np.ones(n))
        batch = xs[: EXAMPLES[n]]
        yield f"vmap rev rev {n}", ad.vmap(ad.grad(ad.grad(f)))(batch)
        yield f"vmap fwd rev {n}", ad.vmap(ad.derivative(ad.grad(f)))(batch)


def check_slopes(f, x, slope, curvature=None):
    x = np.float64(x)  # Python's numbers raise where these give inf
    with np.errstate(all="ignore"):
        for route, found in scalar_slopes(f, x):
            np.testing.assert_allclose(found, np.full(np.shape(found), slope), rtol=1e-12, atol=0, err_msg=route)
        if curvature is not None:
            for route, found in scalar_curvatures(f, x):
                np.testing.assert_allclose(found, np.full(np.shape(found), curvature), rtol=1e-12, atol=0, err_msg=route)
