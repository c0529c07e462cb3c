"""Bodies of loops and branches: what they close over becomes an input of their graph."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.ir.text import show
from adjoint.staging.body import Body, NumbersNeededError


def bodies(graph):
    return [part for e in graph.equations for part in e.params.values() if hasattr(part, "equations")]


def test_values_that_are_closed_over_are_inputs_in_front():
    w = np.array([1.0, 2.0])
    graph = ad.graph(lambda a, c: ad.fori_loop(0, 3, lambda i, c: c * a + w, c))(np.ones(2), np.zeros(2))
    (body,) = bodies(graph)
    assert len(body.input_names) == 3  # a, the index, the carry
    assert "const c0" in show(body)  # an array of the outside is a constant of the body


def test_each_is_captured_once():
    graph = ad.graph(lambda a, c: ad.fori_loop(0, 3, lambda i, c: c * a + a, c))(1.5, 1.0)
    (body,) = bodies(graph)
    assert len(body.input_names) == 3


def test_bodies_in_bodies():
    def f(a, x):
        inner = lambda y: ad.fori_loop(0, 2, lambda i, c: c * a + y, x)
        return ad.fori_loop(0, 3, lambda i, c: inner(c) * 0.1, x)

    args = 0.5, 1.0
    assert ad.graph(f)(*args)(*args) == pytest.approx(f(*args))
    assert ad.jit(ad.grad(f))(*args) == pytest.approx(ad.grad(f)(*args))


def test_a_body_that_asks_for_a_number():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: c * 2 if c > 0 else -c, x)
    assert f(1.0) == 8.0  # a Python loop
    with pytest.raises(UnsupportedError, match=r"test_body\.py"):
        ad.graph(f)(1.0)
    assert issubclass(NumbersNeededError, UnsupportedError)


def test_a_body_ends_with_its_block():
    with Body("step") as body:
        pass
    assert body.ended


#: Functions of an array and a number, in which the number meets the array inside of a body.
WITH_NUMBERS = {
    "checkpoint": lambda v, t: ad.checkpoint(lambda u: u + t)(v),
    "checkpoint of both": lambda v, t: ad.checkpoint(lambda u, t: u * t)(v, t),
    "checkpoint of a sum": lambda v, t: ad.checkpoint(lambda u: u + (1 + t))(v),
    "checkpoint of a quotient": lambda v, t: ad.checkpoint(lambda u: u * (t / 2))(v),
    "map": lambda v, t: ad.map(lambda u: u + t, v),
    "cond": lambda v, t: ad.cond(v[0] > 0, lambda u: u + t, lambda u: u + t - 1, v),
    "fori_loop": lambda v, t: ad.fori_loop(0, 3, lambda i, u: u + t, v),
    "scan": lambda v, t: ad.scan(lambda c, u: (c * t, u + t), v[0], v)[1],
    "while_loop": lambda v, t: ad.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * t), (0, v))[1],
    "maximum": lambda v, t: ad.map(lambda u: np.maximum(u, t), v),
    "nested": lambda v, t: ad.map(lambda u: ad.fori_loop(0, 2, lambda i, w: w * t, u), v),
}


def described(f, *args):
    try:
        with np.errstate(all="ignore"):
            y = np.asarray(f(*args))
    except (OverflowError, ad.AdjointError, TypeError) as error:
        return isinstance(error, OverflowError) and OverflowError
    return y.dtype, y.tolist()


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:.*compiled")
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "uint64", "float16", "float32", "float64", "complex64", "bool"])
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_python_number_has_no_dtype_of_its_own(name, dtype):
    """Traced or not, as an argument or outside of the function, and when it changes."""
    f, v = WITH_NUMBERS[name], np.ones(2, dtype)
    compiled, outside = ad.jit(f), 1
    reads = ad.jit(lambda v: f(v, outside))
    for outside in (2, 3, 300, -1, 0.5, 0.25):
        wanted = described(f, v, outside)
        if wanted:  # the loops refuse a carry that changes its dtype
            assert described(compiled, v, outside) == wanted, outside
            assert described(reads, v) == wanted, outside


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_dtypes_beside_a_differentiated_python_number(name):
    f, v, seen = WITH_NUMBERS[name], np.ones(2, np.float32), []
    total = lambda t: np.sum(f(v, t))

    def watched(t):
        y = f(v, t)
        seen.append(y.dtype)
        return np.sum(y)

    slope = ad.grad(watched)(0.5)
    np.testing.assert_allclose(ad.derivative(watched)(0.5), slope, rtol=1e-6)
    assert set(seen) == {np.dtype(np.float32)}
    np.testing.assert_allclose(ad.jit(ad.grad(total))(0.5), slope, rtol=1e-6)
    np.testing.assert_allclose(ad.vmap(ad.grad(total))(np.array([0.5, 0.5], np.float32))[0], slope, rtol=1e-6)
