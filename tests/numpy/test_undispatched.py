import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core import bind

V = draw(np.random.default_rng(0), (4,))


def test_new_arrays_of_traced_values(monkeypatch):
    check(lambda x: [anp.full(3, x), anp.full((2, 2), x), anp.full((2, 4), V * x)], 0.5)
    check(lambda x: [anp.fromiter((x * k for k in range(3)), float), anp.fromiter(iter([x, x]), float, 1)], 0.5)
    check(lambda x: [anp.asanyarray([x, 2 * x]), anp.ascontiguousarray(x), anp.asfortranarray(x)], 0.5)
    check(lambda x: anp.asarray_chkfinite(x), 0.5, vmap=False)
    with pytest.raises(ValueError, match="infs"):
        ad.vjp(anp.asarray_chkfinite, np.inf)
    check(lambda x: anp.fromfunction(lambda i, j: x * i + j, (2, 3)), 0.5)
    monkeypatch.setattr(bind, "variables", set())  # an array with requires_grad may be alive elsewhere
    assert type(anp.full(3, 1.0)) is np.ndarray

    def f(x):
        a = anp.full(3, 1.0)
        a[1] = x
        return a

    check(f, 0.5)


def test_arguments_that_numpy_does_not_dispatch_on():
    check(lambda c: anp.pad(V, 1, constant_values=c), 0.5)
    check(lambda c: anp.nan_to_num(np.array([np.nan, 1.0]), nan=c), 0.5)
    check(lambda b: anp.kaiser(5, b), 2.5, rtol=1e-4)
    check(lambda t: anp.unwrap(np.array([0.0, 5.0, 1.0]), period=t), 6.0)
    np.testing.assert_array_equal(anp.take(V, [1]), np.take(V, [1]))


def test_i0():
    check(np.i0, np.array([-2.0, 0.0, 0.3, 9.0]), rtol=1e-4)


def test_vectorize():
    f = anp.vectorize(lambda a, b: a * b if a > 0 else np.sin(b))
    check(lambda x: f(x, np.array([[1.0], [2.0]])), V, vmap=False)
    check(lambda x: f(b=x, a=2.0), V, vmap=False)
    two = anp.vectorize(lambda a, k: (a**2, k * a), excluded={1})
    check(lambda x: two(x, 3.0), V, vmap=False)
    check(lambda x: anp.vectorize(lambda a: a * 2, otypes=[float])(x), 0.5)
    np.testing.assert_array_equal(f(V, V), np.vectorize(lambda a, b: a * b if a > 0 else np.sin(b))(V, V))
    check(lambda x: anp.vectorize(lambda a, unit, kind: a * a if unit is None else a)(x, None, "m"), V, vmap=False)


@pytest.mark.parametrize(
    "signature, f, args",
    [
        ("(n)->(n)", lambda a: a[::-1] * a, (V,)),
        ("(n)->()", lambda a: np.sum(a**2), (np.arange(6.0).reshape(2, 3),)),
        ("(),(n)->(n)", lambda s, a: s * np.sin(a), (V, np.arange(4.0))),
        ("(m,n),(n)->(m),()", lambda a, v: (a @ v, np.sum(v) * a[0, 0]), (np.ones((2, 3, 4)), np.arange(4.0))),
    ],
)
def test_vectorize_with_a_signature(signature, f, args):
    ours = anp.vectorize(f, signature=signature)
    wanted = np.vectorize(f, signature=signature)(*args)
    found, _ = ad.jvp(lambda *xs: ours(*xs), args, args)
    for a, b in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else ((found, wanted),):
        np.testing.assert_array_equal(a, b)
    check(lambda x: ours(x, *args[1:]), args[0], vmap=False)


def test_vectorize_with_a_signature_checks_its_dimensions():
    f = anp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    for args, error in (((np.ones(3), np.ones(4)), ValueError), ((np.ones(3), 1.0), ValueError), ((np.ones(3),), TypeError)):
        with pytest.raises(error):
            np.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(*args)
        with pytest.raises(error):
            ad.vjp(lambda x, args=args, f=f: f(x, *args[1:]), args[0])


def test_lists_of_traced_values():
    """`np.sum([x, y])` asks the list, not its elements, whether it is traced."""
    x = np.array([0.3, -0.7])
    for f in (
        lambda x: anp.sum([x, 2 * x], axis=0),
        lambda x: anp.mean([x[0], x[1] ** 2]),
        lambda x: anp.max([x[0], 0.1, x[1]]),
        lambda x: anp.concatenate([[x[0]], x, [x[1]]]),
        lambda x: anp.cumsum([x[0], x[1]]),
        lambda x: anp.dot([x[0], 1.0], [x[1], 2.0]),
        lambda x: anp.where([True, False], [x[0], x[1]], 0.0),
        lambda x: anp.median([x[0], x[1], 2.0]),
        lambda x: anp.outer([x[0], x[1]], [1.0, 2.0]),
    ):
        check(f, x)
