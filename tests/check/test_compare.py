"""`compare`: each method's derivative, error and cost, and why one does not apply."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.check.compare import abbreviated, compare
from adjoint.core.errors import ArgumentError

METHODS = ("one-sided", "two-sided", "complex-step", "richardson", "forward", "reverse")


def test_every_method_agrees_and_counts_its_calls():
    result = compare(lambda x, y: np.sin(x) * y**2, 0.7, 1.5, manual=lambda x, y: (np.cos(x) * y**2, 2 * np.sin(x) * y))
    assert [row.method for row in result.rows] == ["manual", *METHODS]
    assert result.reference == "reverse"
    for row in result.rows:
        assert row.error < 1e-6, row
    assert result["reverse"].evaluations == 1
    assert result["two-sided"].evaluations >= 4
    assert result["manual"].error == pytest.approx(0, abs=1e-15)


def test_a_method_that_does_not_apply_is_skipped_with_its_reason():
    result = compare(lambda x: float(x) ** 2 if isinstance(x, float) else x**2, 3.0)
    assert "skipped" not in result["richardson"].note
    result = compare(lambda x: np.floor(x) * np.abs(np.float64(1.0)) + np.arctan2(x, 1.0), 0.3)
    assert result["complex-step"].note
    assert f"complex-step  skipped: {result['complex-step'].note}" in str(result)


def test_a_wrong_derivative_shows():
    result = compare(lambda x: x**3, 2.0, manual=lambda x: 2 * x**2)
    assert result["manual"].error == 4.0
    assert compare(lambda x: x**3, 2.0, manual=lambda x: np.array([12.0, 0.0]))["manual"].error is None


def test_arrays_and_containers():
    result = compare(lambda p: np.sum(p["w"] ** 2) + p["b"], {"w": np.arange(3.0), "b": 1.0})
    np.testing.assert_allclose(result["forward"].value["w"], 2 * np.arange(3.0))
    with pytest.raises(KeyError):
        result["backward"]


@pytest.mark.parametrize(
    "value, text",
    [(0.1, "0.1"), (-0.0, "0"), (np.arange(3.0), "[0 1 2]"), (np.ones((2, 3)), "[1 1 1 1 …] (2, 3)"), ((1.0, 2.0), "1, 2")],
)
def test_numbers_on_one_line(value, text):
    assert abbreviated(value) == text


def test_invalid_points():
    with pytest.raises(ArgumentError, match="needs the point"):
        compare(lambda x: x)
    with pytest.raises(ArgumentError):
        ad.grad(lambda x: compare(lambda y: y * y, x)["reverse"].value)(1.0)
