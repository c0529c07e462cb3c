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
