"""`compare`: each method's derivative, error and cost, and why one does not apply."""

import math

import numpy as np
import pytest

import adjoint as ad
from adjoint.check.compare import abbreviated, compare
from adjoint.core.errors import ArgumentError, DtypeError

METHODS = ("one-sided", "two-sided", "complex-step", "richardson", "forward", "reverse")


def example(x, y):
    return x**2 * y + y + 2


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


def test_worked_example():
    found = ad.compare(example, 3.0, 4.0, manual=lambda x, y: (2 * x * y, x**2 + 1))
    names = ["manual", "one-sided", "two-sided", "complex-step", "richardson", "forward", "reverse"]
    assert [row.method for row in found.rows] == names
    for row in found.rows:
        np.testing.assert_allclose(row.value, (24, 10), rtol=1e-7)
    assert [found[m].evaluations for m in names[:4] + names[5:]] == [0, 3, 4, 2, 2, 1]
    assert found["reverse"].error == found["forward"].error == found["manual"].error == 0
    assert 0 < found["one-sided"].error < 1e-6
    assert all(row.seconds > 0 for row in found.rows)
    text = str(found)
    assert text == repr(found)
    assert text.startswith("derivative of example\nmethod ")
    assert sum("24, 10 " in line for line in text.splitlines()) >= 5
    assert "the largest difference from reverse" in text
    with pytest.raises(KeyError):
        found["symbolic"]


def test_wrong_manual_derivative_shows():
    assert ad.compare(lambda x: x**2, 3.0, manual=lambda x: x)["manual"].error == 3.0
    assert "other shape" in str(ad.compare(lambda x: x**2, 3.0, manual=lambda x: np.ones(2)))


def test_a_method_that_does_not_apply_says_why():
    found = ad.compare(lambda x: np.abs(x).sum(), np.arange(1.0, 7.0))
    assert found["complex-step"].value is None
    assert "skipped: <lambda> lost the imaginary part" in str(found)
    only_numbers = ad.compare(math.sin, 1.0)
    assert "float()" in only_numbers["reverse"].note
    assert only_numbers.reference == "richardson"
    np.testing.assert_allclose(only_numbers["two-sided"].value, np.cos(1.0))


def test_arrays_containers_complex():
    found = ad.compare(lambda p, k: np.sin(p["a"]) * p["b"], {"a": np.array([1.0, 2.0]), "b": 3.0}, 2, argnums=0)
    assert found["two-sided"].error < 1e-8
    assert found["forward"].evaluations == 3
    assert "['a'] [1.62091 0 0 -1.24844] (2, 2)" in str(found)
    assert "[0 1 2 3 …] (9,)" in str(ad.compare(lambda x: 0.5 * np.sum(x * x), np.arange(9.0)))
    assert ad.compare(lambda z: np.abs(z) ** 2, 1 + 2j)["reverse"].value == 2 - 4j
    assert ad.compare(lambda z: z**2, 1 + 2j)["reverse"].value == 2 + 4j


def test_mistakes_of_compare():
    with pytest.raises(DtypeError, match="argument 1 is int"):
        ad.compare(example, 3.0, 4)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.compare(example)
    with pytest.raises(ArgumentError, match="expects a function"):
        ad.compare(example, 3.0, 4.0, manual=24.0)
