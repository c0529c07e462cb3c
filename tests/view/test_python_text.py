"""Numbers, parameters and indices as Python source: they read back as they were."""

import numpy as np
import pytest

from adjoint.view.python_text import array, number, parameter, subscript

SCOPE = {"np": np, "slice": slice}


@pytest.mark.parametrize("value", [0, -3, 2.5, -0.0, 1e100, float("inf"), float("-inf"), float("nan"), True, 1 + 2j, -1j])
def test_numbers(value):
    found = eval(number(value), SCOPE)
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)
    if isinstance(value, (int, float)) and value == value:
        assert eval(f"{number(value)} ** 2", SCOPE) == value**2  # a power binds tighter than a sign


@pytest.mark.parametrize(
    "value",
    [np.arange(3.0), np.ones((2, 3), np.float32), np.zeros((0, 2)), np.array([True, False]), np.arange(500.0),
     np.array([np.nan, np.inf, -0.0]), np.array([1 + 2j])],
)  # fmt: skip
def test_arrays(value):
    found = eval(array(value), SCOPE)
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    np.testing.assert_array_equal(found, value)


ONE = np.zeros(200)
ONE[3] = -2.5


@pytest.mark.parametrize(
    ("value", "beginning"),
    [(np.zeros(1000), "np.zeros("), (np.full((30, 40), -0.0), "np.full("), (np.ones(70, np.float32), "np.full("),
     (ONE, "np.where("), (ONE.reshape(20, 10), "np.where("), (ONE != 0, "np.where("), (ONE[3:], "np.where("),
     (ONE + 1j, "np.where("),
     (np.arange(100), "(0 + 1"), (np.arange(300, 100, -2, dtype=np.int32).reshape(10, 10), "(300 + (-2)"),
     (np.arange(100) * 0.5 - 7.0, "(-7.0) + 0.5"), (np.full(80, np.nan), "np.full("), (np.sin(np.arange(99.0)), "np.frombuffer("),
     (-np.arange(100.0), "(-0.0) + (-1.0)"), (np.arange(100) * -0.0, "np.full("),
     (np.zeros(9), "np.zeros("), (np.asfortranarray(ONE.reshape(20, 10)).T, "np.where(")],
)  # fmt: skip
def test_long_arrays_by_their_rule(value, beginning):
    text = array(value)
    assert text.lstrip("(").startswith(beginning.lstrip("("))
    found = eval(text, SCOPE)
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert found.tobytes() == value.tobytes()


@pytest.mark.parametrize("value", [(0,), (1, 2), None, "C", -1, (), True])
def test_parameters(value):
    assert eval(parameter(value), SCOPE) == value


@pytest.mark.parametrize(
    "spec", [(0,), (slice(None), 1), (Ellipsis, slice(1, None, 2)), (None, slice(None, None, -1)), (slice(0, 2), 0)]
)
def test_indices(spec):
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(eval(f"x[{subscript(spec)}]", {"x": x}), x[spec])


@pytest.mark.parametrize("value, text", [
    (np.eye(2), "np.eye(2)"),
    (0.5 * np.eye(3), "0.5 * np.eye(3)"),
    (np.eye(40), "np.eye(40)"),
    (np.tri(4), "np.tri(4)"),
    (np.tri(4, k=-1) - 2 * np.eye(4), "np.tri(4, k=-1) + (-2.0) * np.eye(4)"),
    (np.tri(4).T.copy(), "np.tri(4).T"),
    (np.eye(3, dtype=np.float32), 'np.eye(3, dtype="float32")'),
    (np.array([[0.25, 0.5], [0.5, 1.0]]), 'np.array([[0.25, 0.5], [0.5, 1.0]], "float64")'),
    (np.array([[-1, 2]]), 'np.array([[-1, 2]], "int64")'),
    (np.array([[1.0, -0.0], [0.0, 1.0]]), 'np.array([[1.0, -0.0], [0.0, 1.0]], "float64")'),
    (np.complex128(1j), "np.complex128(1.0j)"),
    (np.complex128(-2.5j), "np.complex128((-2.5j))"),
    (np.complex128(complex(0.0, -1.0)), "np.complex128(complex(0.0, (-1.0)))"),
])  # fmt: skip
def test_constants_that_a_person_would_write_so(value, text):
    found = eval(array(value), {"np": np})
    assert array(value) == text
    assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())
