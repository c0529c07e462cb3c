"""Functions of `vecmath` in C: translated line by line, without what no line uses."""

import numpy as np
import pytest

from adjoint.export.c_source import CSpelling
from adjoint.export.c_vecmath import define, used


@pytest.mark.parametrize(
    "name, arity", [("exp", 1), ("log", 1), ("sin", 1), ("tanh", 1), ("power", 2), ("logaddexp", 2), ("erf", 1)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_value_is_defined_before_it_is_used(name, arity, dtype):
    spelling = CSpelling("f", True, False)
    made = define(spelling, name, np.dtype(dtype), arity)
    assert made in spelling.helpers
    text = spelling.helpers[made]
    assert text.count("{") == text.count("}")
    assert "%" not in text.replace("%%", "") or "fmod" in text or " % " in text
    assert define(spelling, name, np.dtype(dtype), arity) == made  # once


def test_definitions_that_are_not_used_are_left_out():
    lines = ["  const double a = 1.0;", "  const double b = a + 1.0;", "  const double c = 2.0;", "  return c;"]
    assert used(lines) == lines[2:]
