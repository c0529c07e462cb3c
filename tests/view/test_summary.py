import json

import numpy as np
import pytest

from adjoint.view.summary import MAP, brief, summary

NASTY = [
    0.0, -0.0, 1, True, np.nan, np.inf, -np.inf, 1e300, 1 + 2j, complex(np.nan, np.inf), np.float32(0.1), np.int64(-5),
    np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.array(2.0), np.array([np.nan, 1.0]), np.array([np.inf, -np.inf]),
    np.full(5, np.nan), np.array([True, False]), np.arange(12).reshape(3, 4), np.ones((2, 3, 4)), np.ones((2, 2)) * 1j,
    np.array([1e308, -1e308]), np.full(9, 1e308), np.array([5e-324, 0.0]), np.ones(3, np.float16), np.array(["a", "b"]),
    np.array(["2020-01-01"], "datetime64[D]"), np.array([None, {}], object), np.uint64(2**64 - 1), np.array([2**64 - 1, 0]),
]  # fmt: skip


@pytest.mark.parametrize("value", NASTY, ids=repr)
def test_any_value_has_a_summary(value):
    told = summary(value)
    assert told["brief"] == brief(value)
    assert 0 < len(told["brief"]) < 40
    json.dumps(told, allow_nan=False)
    for row in told.get("map", []):
        assert set(row) <= set("0123456789x")


def test_large_arrays_are_summarised():
    told = summary(np.arange(1e6).reshape(1000, 1000))
    assert len(json.dumps(told)) < 1500
    assert len(told["map"]) == len(told["map"][0]) == MAP
    assert told["extremes"] == "min 0   mean 5e+05   max 1e+06"
    assert told["map"][0][0] == "0"
    assert told["map"][-1][-1] == "9"


def test_nonfinite_values_are_counted():
    told = summary(np.array([1.0, np.nan, np.inf, -np.inf, 3.0]))
    assert (told["nan"], told["inf"]) == (1, 2)
    assert told["map"] == ["0xxx9"]
    assert told["brief"] == "1 of 5 nan"
    assert brief(np.array([1.0, np.inf])) == "1 … inf"


def test_numbers_in_full():
    assert summary(2.0)["full"] == "2.0"
    assert summary(np.float64(1 / 3))["full"] == repr(1 / 3)
    assert summary(np.array([1.5, 2.0]))["full"] == "[1.5 2. ]"
