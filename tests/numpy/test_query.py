import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import UnsupportedError
from adjoint.numpy.table import CONSTANT, FUNCTIONS, REFUSED, UFUNCS, load_all

X = draw(np.random.default_rng(3), (3, 4))
Y = X.copy()
Y[0, 0] = np.nan
Y[1, 1] = np.inf


def test_every_public_function_is_known():
    load_all()
    unknown = []
    for name in dir(np):
        f = getattr(np, name)
        if name.startswith("_") or not callable(f) or isinstance(f, type):
            continue
        if f not in (UFUNCS if isinstance(f, np.ufunc) else FUNCTIONS) and f not in CONSTANT and f not in REFUSED:
            unknown.append(name)
    assert not unknown


def test_our_modules_hide_no_name_of_numpy():
    for name in np.__all__:
        ours, theirs = getattr(anp, name), getattr(np, name)
        assert callable(ours) == callable(theirs), name
        if isinstance(theirs, type(np)):
            assert isinstance(ours, type(np)), name
            assert not callable(ours)


QUESTIONS = [
    lambda x: np.isclose(x, X + 1e-9),
    lambda x: np.isclose(x, Y, equal_nan=True),
    lambda x: np.allclose(x, X),
    lambda x: np.allclose(x, X + 1, rtol=0, atol=2),
    lambda x: np.array_equal(x, X),
    lambda x: np.array_equal(x, X[0]),
    lambda x: np.array_equal(x, x, equal_nan=True),
    lambda x: np.array_equiv(x, x[0]),
    lambda x: np.array_equiv(x, np.ones(7)),
    np.isneginf,
    np.isposinf,
    np.iscomplex,
    np.isreal,
    np.iscomplexobj,
    np.isrealobj,
    lambda x: np.result_type(x, np.float32),
    lambda x: np.common_type(x, np.float32(1)),
    lambda x: np.can_cast(x.dtype, np.float32),
    np.min_scalar_type,
    lambda x: np.shares_memory(x, x[0]),
    lambda x: np.may_share_memory(x, x * 1),
    lambda x: np.diag_indices_from(x[:, :3]),
    np.tril_indices_from,
    lambda x: np.triu_indices_from(x, 1),
    lambda x: np.einsum_path("ij,kj->ik", x, X)[0],
    np.array_str,
    np.array2string,
    np.shape,
    np.signbit,
    lambda x: np.round(x, 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_questions(number):
    f = QUESTIONS[number]
    for x in (X, Y):
        _, _, found = ad.vjp(lambda x: (x.sum(), f(x)), x, has_aux=True)
        if isinstance(f(x), (bool, str, np.dtype, type)):
            assert found == f(x)
        else:
            np.testing.assert_equal(found, f(x))


def test_questions_inside_vmap():
    found = ad.vmap(lambda x: [np.isclose(x, X[0]), np.allclose(x, X[0]), np.array_equal(x, X[1]), np.isreal(x)])(X)
    np.testing.assert_array_equal(found[0], np.isclose(X, X[0]))
    np.testing.assert_array_equal(found[1], [True, False, False])
    np.testing.assert_array_equal(found[2], [False, True, False])
    whole = ad.vmap(lambda i, j: [np.gcd(i, j), np.lcm(i, 3), np.left_shift(i, j)])(np.array([4, 6]), np.array([6, 3]))
    np.testing.assert_array_equal(whole, [[2, 3], [12, 6], [256, 48]])


def test_real_if_close():
    check(np.real_if_close, X)
    check(lambda x: np.real_if_close(x + 0j), X, vmap=False)
    check(np.real_if_close, draw(np.random.default_rng(0), (3,), dtype=complex), vmap=False)


def test_refusals_say_why():
    for f, message in [
        (lambda x: np.save("file", x), "return the value"),
        (lambda x: np.histogram2d(x[0], x[1]), "weights"),
        (lambda x: np.packbits(x), "bits"),
    ]:
        with pytest.raises(UnsupportedError, match=message):
            ad.vjp(f, X)


def test_new_arrays_are_numbers_to_functions_without_a_rule():
    def f(x):
        hist = np.histogram2d(anp.zeros(3), anp.ones(3))[0]
        return x * hist.sum() + np.histogramdd([anp.zeros(2), anp.ones(2)])[0].sum()

    assert ad.grad(f)(2.0) == 3.0
