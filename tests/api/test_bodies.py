"""Bodies of loops: the carry keeps its types, and the error for an iteration that changes them names the leaf."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.bodies import agrees, kind_of, opened, strong
from adjoint.core.errors import AdjointError
from adjoint.core.types import is_weak

XS = np.arange(3.0)


@pytest.mark.parametrize(
    "number, dtype, expected",
    [
        (1, np.float64, True),
        (1.0, np.float32, True),
        (1.0, np.int64, False),
        (True, np.int64, True),
        (1, np.int32, True),
        (1j, np.float64, False),
    ],
)
def test_which_dtypes_a_python_number_takes(number, dtype, expected):
    assert agrees(number, np.dtype(dtype)) is expected


def test_weak_values():
    assert is_weak(1.0)
    assert not is_weak(np.float64(1.0))
    assert np.asarray(strong(2)).dtype == np.int64
    assert isinstance(kind_of(np.ones(2)), str)


@pytest.mark.parametrize(
    "start, step, expected",
    [
        (0, lambda c, x: (c + x, c), np.float64),
        (0, lambda c, x: (c + 1, x), np.int64),
        (0.0, lambda c, x: (c + np.float32(1), x), np.float32),
        (np.float32(0), lambda c, x: (c * 2.0, x), np.float32),
    ],
)
def test_a_python_number_gets_the_dtype_of_an_iteration(start, step, expected):
    for run in (lambda f: f, ad.jit):
        carry, _ = run(lambda xs: ad.scan(step, start, xs))(XS)
        assert np.asarray(carry).dtype == expected


@pytest.mark.parametrize(
    "start, step",
    [
        (np.ones(2), lambda c, x: (np.sum(c), x)),
        ((1.0, 2.0), lambda c, x: (c[0], x)),
        ({"a": 1.0}, lambda c, x: ({"b": c["a"]}, x)),
        (np.int64(1), lambda c, x: (c + x, x)),
        (1.0, lambda c, x: (None, x)),
        (1.0, lambda c, x: c),
    ],
)
def test_an_iteration_that_changes_the_carry(start, step):
    with pytest.raises(AdjointError, match=r"test_bodies\.py"):
        ad.graph(lambda xs: ad.scan(step, start, xs))(XS)


def test_leaves_have_names():
    leaves, _, names = opened({"a": 1.0, "b": [2.0]}, "carry")
    assert len(leaves) == len(names) == 2
    assert all("carry" in name for name in names)
    with pytest.raises(AdjointError):
        opened({"a": "text"}, "carry")


WIDE = [2**63, 2**64, -(2**63) - 1, 2**70, 10**400]


@pytest.mark.parametrize("number", WIDE)
@pytest.mark.parametrize(
    "run",
    [
        lambda n: ad.fori_loop(0, 2, lambda i, c: c, n),
        lambda n: ad.fori_loop(0, 2, lambda i, c: n, 1),
        lambda n: ad.fori_loop(n, n + 1, lambda i, c: c, 0),
        lambda n: ad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] // 2), (0, n)),
        lambda n: ad.scan(lambda c, x: (c, c), n, XS),
        lambda n: ad.scan(lambda c, x: (c, n), 0.0, XS),
        lambda n: ad.cond(True, lambda c: c, lambda c: c, n),
    ],
)
def test_integers_beyond_int64_are_refused(run, number):
    with pytest.raises(AdjointError, match="does not fit into int64"):
        run(number)
    with pytest.raises(AdjointError, match="does not fit into int64"):
        ad.jit(lambda x: (x, run(number)))(1.0)


@pytest.mark.parametrize("number", WIDE[:-1])
def test_integers_beyond_int64_may_become_floats(number):
    f = lambda x: ad.fori_loop(0, 2, lambda i, c: 0.5 * c + number * x, number)
    expected = 0.25 * number + 1.5 * number * 3.0
    np.testing.assert_allclose([f(3.0), ad.jit(f)(3.0), ad.grad(f)(3.0)], [expected, expected, 1.5 * number])
