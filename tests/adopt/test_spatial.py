"""Distances of `scipy.spatial.distance` in adopted code, against SciPy's and against differences."""

import numpy as np
import pytest
import scipy.spatial.distance

import adjoint as ad

DISTANCE = ad.adopt("scipy.spatial.distance")
METRICS = ["euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "cosine", "correlation"]
X, Y = np.random.default_rng(0).normal(size=(2, 4, 3))


@pytest.mark.parametrize("metric", METRICS)
def test_distances(metric):
    options = {"p": 3} if metric == "minkowski" else {}
    single = getattr(scipy.spatial.distance, metric)
    for f, theirs in (
        (lambda x: DISTANCE.cdist(x, Y, metric, **options), scipy.spatial.distance.cdist(X, Y, metric, **options)),
        (lambda x: DISTANCE.cdist(Y, x, metric=metric, **options), scipy.spatial.distance.cdist(Y, X, metric, **options)),
        (lambda x: DISTANCE.pdist(x, metric, **options), scipy.spatial.distance.pdist(X, metric, **options)),
        (lambda x: DISTANCE.squareform(DISTANCE.pdist(x, metric, **options))[1], None),
        (lambda x: getattr(DISTANCE, metric)(x[0], Y[1], **options), single(X[0], Y[1], **options)),
    ):
        assert theirs is None or np.array_equal(f(X), theirs)
        total = lambda x: np.sum(np.sin(f(x)))  # noqa: B023
        ad.check_grads(total, X, order=1 if metric == "chebyshev" else 2)
        np.testing.assert_allclose(ad.value_and_grad(total)(X)[0], np.sum(np.sin(f(X))), rtol=1e-12)


def test_square_forms():
    vector = scipy.spatial.distance.pdist(X)
    matrix = scipy.spatial.distance.squareform(vector)
    np.testing.assert_array_equal(ad.jacobian(DISTANCE.squareform)(vector).sum(axis=-1), matrix > 0)
    np.testing.assert_array_equal(ad.vjp(DISTANCE.squareform, matrix)[1](np.ones(6))[0], np.triu(np.ones((4, 4)), 1))
    with pytest.raises(ValueError, match="binomial"):
        ad.grad(lambda v: DISTANCE.squareform(v).sum())(np.ones(5))


def test_equal_points_have_no_slope():
    assert not ad.grad(lambda x: DISTANCE.cdist(x, x).sum())(np.ones((2, 3))).any()


def test_metrics_without_a_rule():
    for metric in ("canberra", lambda u, v: 0.0):
        with pytest.raises(ad.AdjointError, match="rules for euclidean"):
            ad.grad(lambda x: DISTANCE.cdist(x, Y, metric).sum())(X)  # noqa: B023
