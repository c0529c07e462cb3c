"""Eager transforms of arrays on a GPU: as on the host, op by op on CuPy; ops without a counterpart there are refused by name."""

import warnings

import numpy as np
import pytest
from gpu.test_jit import OnGPU

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import ArgumentError, UnsupportedError
from adjoint.core.tree import flatten
from adjoint.scipy.special import logsumexp

RNG = np.random.default_rng(0)
X, M, P = RNG.normal(size=4), RNG.normal(size=(3, 4)), RNG.uniform(1, 2, size=4)


@pytest.fixture
def gpu():
    return OnGPU()


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def written(x):
    y = x * 1
    y[0] = 2.0
    y[1:] *= x[1:]
    return np.sum(y * x)


ELEMENTWISE = (np.sin, np.exp, np.tanh, np.log, np.sqrt, np.abs, np.square, np.arctan, np.log1p, np.cosh, np.reciprocal)
FUNCTIONS = {
    **{f.__name__: lambda x, m, f=f: np.sum(f(x + 3) * x) for f in ELEMENTWISE},
    "powers and quotients": lambda x, m: np.sum((x * x + 1) ** 1.5 / (2 + np.cos(x))),
    "reductions": lambda x, m: np.sum(np.mean(m, axis=0) * x) + np.max(x) + np.prod(x + 3) + np.var(m) + np.min(m),
    "cumulative": lambda x, m: np.sum(np.cumsum(x) * x),
    "products": lambda x, m: np.sum(np.tanh(m @ x)) + np.sum(np.outer(x, x)) + np.dot(x, x),
    "einsum": lambda x, m: np.sum(np.einsum("ij,j->i", m, x) ** 2),
    "indices": lambda x, m: np.sum(x[1:] * x[:-1]) + m[1, 2] * x[0] + np.sum(m[:, ::2]),
    "shapes": lambda x, m: np.sum(np.concatenate([x, m.reshape(-1)]) ** 2) + np.sum(np.stack([x, x * 2]).T[1:]),
    "where": lambda x, m: np.sum(np.where(x > 0, x * x, np.sin(x))) + np.sum(np.clip(m, -0.5, 0.5) ** 2),
    "strong zeros": lambda x, m: np.sum(np.where(x < 9, x, np.sqrt(x - 9))),
    "softmax": lambda x, m: np.sum(softmax(m) ** 2) + np.sum(softmax(x) * x),
    "branches": lambda x, m: np.sum(x) if np.sum(x * x) > 0 else np.sum(m),
    "written in place": lambda x, m: written(x),
    "norm": lambda x, m: np.linalg.norm(x) + np.linalg.norm(m),
    "through jit": lambda x, m: ad.jit(lambda x: np.sum(np.sin(x) ** 2))(x),
    "adjoint.numpy": lambda x, m: anp.sum(anp.sin(x) * anp.cos(x)),
    "medians and quantiles": lambda x, m: np.median(x) + np.quantile(m, 0.3) + np.sum(np.median(m, axis=0) * x),
    "an array of numbers": lambda x, m: np.sum(anp.array([x[0], x[1] * 2, 3.0]) ** 2),
}

SQUARE = lambda x, m: m.T @ m + np.eye(4) * (2 + np.sum(x * x))
COMPILED = {  # for which CuPy has no functions
    "scan": lambda x, m: np.sum(ad.scan(lambda c, r: (np.tanh(c + r), c * r), x, m)[1]),
    "while": lambda x, m: np.sum(ad.while_loop(lambda c: np.sum(c) < 100, lambda c: c * 1.5, x * x)),
    "cond": lambda x, m: np.sum(ad.cond(np.sum(x) > 0, np.sin, np.cos, x)),
    "checkpoint": lambda x, m: np.sum(ad.checkpoint(lambda x, m: np.tanh(m @ x))(x, m)),
    "cholesky": lambda x, m: np.sum(np.log(np.diag(np.linalg.cholesky(SQUARE(x, m))))),
    "qr": lambda x, m: np.sum(np.abs(np.linalg.qr(SQUARE(x, m))[1])),
    "solve": lambda x, m: np.sum(np.linalg.solve(SQUARE(x, m), x)),
    "logsumexp": lambda x, m: np.sum(logsumexp(m, axis=0) * x),
}

TRANSFORMS = {
    "grad": lambda f: ad.grad(f, (0, 1)),
    "value_and_grad": lambda f: ad.value_and_grad(f),
    "jvp": lambda f: lambda x, m: ad.jvp(f, (x, m), (x, m)),
    "forward over reverse": lambda f: lambda x, m: ad.jvp(lambda x: ad.grad(f)(x, m), (x,), (x,)),
}


def same(gpu, g, *args):
    found, structure = flatten(g(*gpu.put(args)))
    with np.errstate(all="ignore"):
        wanted, expected = flatten(g(*args))
    assert structure == expected
    for a, b in zip(found, wanted, strict=True):
        assert gpu.is_on_gpu(a)
        np.testing.assert_allclose(gpu.get(a), b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_on_the_host(gpu, name, transform):
    same(gpu, TRANSFORMS[transform](FUNCTIONS[name]), P if name in ("log", "sqrt") else X, M)


@pytest.mark.parametrize("name", ["sin", "products", "softmax", "where", "reductions"])
def test_batches_and_matrices(gpu, name):
    f = FUNCTIONS[name]
    same(gpu, ad.vmap(lambda x: f(x, np.ones((3, 4)))), M)
    same(gpu, ad.vmap(ad.grad(lambda x: f(x, np.ones((3, 4))))), M)
    same(gpu, ad.hessian(lambda x: f(x, np.ones((3, 4)))), X)
    same(gpu, ad.jacobian(lambda x: np.sin(x) * x[0]), X)


def test_pullbacks(gpu):
    f = lambda x: np.sin(x) * x
    y, pull = ad.vjp(f, gpu.put(X))
    wanted, expected = ad.vjp(f, X)
    np.testing.assert_allclose(gpu.get(y), wanted, rtol=1e-14)
    for cotangent in (gpu.put(np.ones(4)), np.ones(4)):  # on the GPU, or on the host
        (g,) = pull(cotangent)
        np.testing.assert_allclose(gpu.get(g), expected(np.ones(4))[0], rtol=1e-13)
    _, push = ad.linearize(f, gpu.put(X))
    np.testing.assert_allclose(gpu.get(push(gpu.put(X))), ad.linearize(f, X)[1](X), rtol=1e-13)


def test_arrays_on_the_gpu_outside(gpu):
    m = gpu.put(M)
    g = ad.grad(lambda x: np.sum(anp.matmul(m, x) ** 2) + np.sum(x * m[0]))(gpu.put(X))
    np.testing.assert_allclose(gpu.get(g), 2 * M.T @ (M @ X) + M[0], rtol=1e-12)


@pytest.mark.parametrize("transform", ["grad", "jvp", "forward over reverse"])
@pytest.mark.parametrize("name", COMPILED)
def test_ops_without_a_counterpart_are_compiled(gpu, name, transform):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that a function is compiled again
        for size in range(4):
            same(gpu, TRANSFORMS[transform](COMPILED[name]), X, np.concatenate([M] + [M[:1]] * size))


def test_ops_without_a_counterpart_or_a_kernel_are_named(gpu):
    if hasattr(gpu, "xp") and hasattr(gpu.xp.linalg, "eig"):
        pytest.skip("this CuPy has eig")
    with pytest.raises(UnsupportedError, match=r"eig is not available for CuPy arrays.*copies on the host"):
        ad.grad(lambda m: np.sum(np.abs(np.linalg.eig(m)[0])))(gpu.put(M[:, :3]))


def test_programs_are_shown_and_saved_on_the_host(gpu, tmp_path):
    """A graph and a trace do not depend on where the arrays are."""
    x, f = gpu.put(X), lambda x: np.sum(np.sin(x) * x)
    assert str(ad.graph(f)(x)) == str(ad.graph(f)(X))
    assert str(ad.trace(f)(x)) == str(ad.trace(f)(X))
    ad.save(tmp_path / "f.adjoint", f, x)
    assert ad.load(tmp_path / "f.adjoint")(X) == f(X)


@pytest.mark.parametrize("tool", [ad.check_grads, ad.finite_difference, ad.compare])
def test_tools_of_the_host_say_so(gpu, tool):
    with pytest.raises(ArgumentError, match=rf"argument 0 of {tool.__name__} is on a GPU.*pass x\.get\(\)"):
        tool(lambda x: np.sum(np.sin(x)), gpu.put(X))


def test_integers_are_refused_as_on_the_host(gpu):
    with pytest.raises(TypeError, match="grad needs floats"):
        ad.grad(lambda x: np.sum(x))(gpu.put(np.arange(3)))


def test_backward(gpu):
    w, x = ad.array(gpu.put(X), requires_grad=True), gpu.put(M)
    for _ in range(2):  # which adds up
        loss = np.sum(np.tanh(anp.matmul(x, w)) ** 2)
        loss.backward()
    host = ad.array(X, requires_grad=True)
    np.sum(np.tanh(M @ host) ** 2).backward()
    assert gpu.is_on_gpu(w.grad)
    np.testing.assert_allclose(gpu.get(w.grad), 2 * host.grad, rtol=1e-12)
    assert float(loss) == pytest.approx(np.sum(np.tanh(M @ X) ** 2), rel=1e-14)
    y = w * 2
    y.backward(gpu.put(np.ones(4)))
    np.testing.assert_allclose(gpu.get(w.grad), 2 * host.grad + 2, rtol=1e-12)
