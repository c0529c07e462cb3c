"""The names in code, and copies of functions."""

import sys
import types

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.code import describe, names_in, strings_in


def outer(x: float) -> float:
    """Text."""
    return np.sin(x) + (lambda y: y.shape[0])(x) + len("word") + getattr(x, "size")  # noqa: B009


def test_names_and_strings_of_inner_functions_count():
    assert {"np", "sin", "shape", "getattr"} <= set(names_in(outer.__code__))
    assert "size" in strings_in(outer.__code__)


def test_a_copy_is_described_as_the_original():
    copy = types.FunctionType(outer.__code__, globals(), "other")
    describe(copy, outer)
    assert (copy.__name__, copy.__doc__, copy.__module__) == ("outer", "Text.", __name__)
    assert copy.__annotations__ == outer.__annotations__ == {"x": float, "return": float}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are computed at once")
@pytest.mark.parametrize("transform", [ad.jit, ad.grad, ad.graph, ad.adopt, lambda f: ad.jit(f, source=True)])
def test_annotations_that_cannot_be_computed_are_left_alone(transform):
    space = {"np": np}
    exec("def f(x: Missing) -> Missing:\n    return np.sin(x)", space)
    exec("class C:\n    w: Missing = 2.0\n    def at(self, x: Missing): return self.w * np.sin(x)", space)
    model = space["C"]()
    for f in (space["f"], model.at, lambda x: model.at(x)):
        transform(f)(0.5)
