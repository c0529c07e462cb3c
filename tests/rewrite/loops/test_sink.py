"""Sums of products over the iterations of a loop are one product after it."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import sink_sums
from adjoint.rewrite.simplify import simplify

RNG = np.random.default_rng(0)


def recurrent(w, h, xs):
    """A vector for the state: the weights' cotangent is a sum of outer products."""

    def step(h, x):
        h = np.tanh(w @ np.concatenate([x, h]))
        return h, np.sum(h * h)

    h, ys = ad.scan(step, h, xs)
    return np.sum(h) + np.sum(ys)


def recurrent_of_many(w, h, xs):
    """A row for each example: the cotangent is a sum of products of matrices."""

    def step(h, x):
        h = np.tanh(np.concatenate([x, h], axis=1) @ w)
        return h, np.sum(h)

    h, ys = ad.scan(step, h, xs)
    return np.sum(h) + np.sum(ys)


VECTORS = (recurrent, (RNG.normal(size=(8, 13)), RNG.normal(size=8), RNG.normal(size=(20, 5))))
MATRICES = (recurrent_of_many, (RNG.normal(size=(13, 8)), RNG.normal(size=(3, 8)), RNG.normal(size=(20, 3, 5))))


def backward(graph):
    (scan,) = [e for e in graph.equations if e.op.name == "scan" and e.params["reverse"]]
    return scan


@pytest.mark.parametrize(("f", "args"), [VECTORS, MATRICES])
def test_one_product_in_the_place_of_many(f, args):
    before = simplify(ad.graph(ad.grad(f))(*args))[0]
    after = sink_sums(before)
    check(after, infer_types)
    weights = args[0].shape
    carried = [t.shape for t in backward(before).types[: backward(before).params["carries"]]]
    assert weights in carried
    left = backward(after)
    assert weights not in [t.shape for t in left.types[: left.params["carries"]]]
    assert len(carried) - left.params["carries"] == 1
    values = [np.asarray(a) for a in args]
    for got, want in zip(after.run_flat(values), before.run_flat(values), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("f", "args"), [VECTORS, MATRICES])
@pytest.mark.parametrize("of", [ad.grad, ad.value_and_grad, lambda f: ad.grad(lambda *a: np.sum(ad.grad(f)(*a) ** 2))])
def test_compiled_gradients(f, args, of):
    got, want = ad.jit(of(f))(*args), of(f)(*args)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_a_sum_that_the_loop_reads_stays():
    def f(w, xs):
        def step(total, x):
            total = total + np.outer(x, x)
            return total, np.sum(np.tanh(total @ w))

        return ad.scan(step, 0 * np.outer(w, w), xs)[1]

    graph = simplify(ad.graph(f)(np.ones(4), np.ones((6, 4))))[0]
    assert sink_sums(graph) == graph


def test_sums_with_larger_factors_stay():
    """Products of two by two matrices along long axes: the factors would take more memory than the sum."""

    def f(a, b):
        return ad.scan(lambda total, rows: (total + rows[0].T @ rows[1], None), np.zeros((2, 2)) * a[0, 0, 0], (a, b))[0]

    a, b = RNG.normal(size=(2, 6, 9, 2))
    graph = simplify(ad.graph(f)(a, b))[0]
    assert sink_sums(graph) == graph


def test_the_beginning_counts_and_rows_are_used_as_they_are():
    def f(start, a, b):
        return ad.scan(lambda total, rows: (total + np.outer(rows[0], rows[1]), None), start, (a, b))[0]

    start, a, b = RNG.normal(size=(5, 6)), RNG.normal(size=(7, 5)), RNG.normal(size=(7, 6))
    after = sink_sums(simplify(ad.graph(f)(start, a, b))[0])
    check(after, infer_types)
    (scan,) = [e for e in after.equations if e.op.name == "scan"]
    assert scan.outputs == ()
    (got,) = after.run_flat([start, a, b])
    np.testing.assert_allclose(got, start + a.T @ b, rtol=1e-13)
    np.testing.assert_allclose(ad.jit(f)(start, a, b), start + a.T @ b, rtol=1e-13)
