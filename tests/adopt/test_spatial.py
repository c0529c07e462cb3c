"""Distances of `scipy.spatial.distance` in adopted code, against SciPy's and against differences."""

import importlib

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


# -- rotations ------------------------------------------------------------------------------------------------------------

V, Q = np.array([0.3, 0.2, -0.4]), np.array([0.1, 0.2, 0.3, 0.9])
ROTATIONS = {
    "rotvec": ("return T.Rotation.from_rotvec(x).as_matrix()[0, 1]", V),
    "euler": ("return T.Rotation.from_euler('xyz', x).as_quat()[2]", V),
    "one angle": ("return T.Rotation.from_euler('z', x[0]).as_matrix()[0, 1]", V),
    "as_euler": ("return T.Rotation.from_rotvec(x).as_euler('zyx')[1]", V),
    "degrees": ("return T.Rotation.from_euler('ZXZ', x * 50, degrees=True).as_mrp()[1]", V),
    "apply": ("return T.Rotation.from_rotvec([0.1, 0.2, 0.3]).apply(x)[1]", V),
    "quaternion": ("return T.Rotation.from_quat(x).apply([1.0, 2.0, 3.0])[1]", Q),
    "product": ("return (T.Rotation.from_rotvec(x) * T.Rotation.from_euler('z', 0.3)).as_rotvec()[0]", V),
    "inverse": ("return T.Rotation.from_rotvec(x).inv().as_matrix()[0, 2]", V),
    "power": ("return (T.Rotation.from_rotvec(x) ** 0.5).as_matrix()[0, 1]", V),
    "matrix": ("return T.Rotation.from_matrix(T.Rotation.from_rotvec(x).as_matrix()).as_rotvec()[1]", V),
    "magnitude": ("return T.Rotation.from_rotvec(x).magnitude()", V),
    "several": ("return T.Rotation.from_rotvec(np.stack([x, 2 * x])).as_matrix()[1, 0, 1]", V),
    "mean": ("return T.Rotation.concatenate([T.Rotation.from_rotvec(v) for v in (x, [0.1, 0, 0.2])]).mean().as_rotvec()[1]", V),
    "slerp": ("return T.Slerp([0, 1], T.Rotation.from_rotvec(np.stack([x, 2 * x + 0.3])))(0.3).as_rotvec()[1]", V),
    "rigid": ("return T.RigidTransform.from_components(x, T.Rotation.from_rotvec(2 * x)).inv().as_matrix()[0, 3]", V),
}  # fmt: skip


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations(write, name):
    body, at = ROTATIONS[name]
    module = f"rotations_{name.replace(' ', '_')}"
    write(f"{module}.py", f"import numpy as np\nimport scipy.spatial.transform as T\ndef f(x):\n    {body}\n")
    plain, f = importlib.import_module(module).f, ad.adopt(module).f
    assert f(at) == plain(at)  # plain numbers go to compiled code
    wanted = ad.finite_difference(plain, at)
    np.testing.assert_allclose(ad.grad(f)(at), wanted, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(at), wanted, rtol=1e-6, atol=1e-8)


def test_rotations_by_their_names(write):
    write(
        "turned.py",
        """
        from scipy.spatial.transform import Rotation as R
        def f(x): return R.from_euler("z", x).apply([1.0, 0.0, 0.0])[1]
        def is_one(r): return isinstance(r, R)
        def made(): return R.identity()
        """,
    )
    m = ad.adopt("turned")
    np.testing.assert_allclose(ad.grad(m.f)(0.3), np.cos(0.3))
    np.testing.assert_allclose(ad.grad(ad.grad(m.f))(0.3), -np.sin(0.3))
    assert m.is_one(m.made())
