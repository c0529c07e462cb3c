"""Errors that other code raises for a traced value, and that a function catches: noticed from Python 3.12 on."""

import ctypes
import datetime
import decimal
import json
import sys
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import AdjointError

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 does not report errors that are caught")

#: Each is x on plain numbers.
FOREIGN = {
    "decimal": lambda x: float(decimal.Decimal(x)),
    "json": lambda x: json.loads(json.dumps({"a": [x]}))["a"][0],
    "timedelta": lambda x: datetime.timedelta(seconds=x).total_seconds(),
    "an unbound method": lambda x: float.fromhex(float.hex(x)),
    "an attribute": lambda x: x.fromhex(x.hex()),
    "ctypes": lambda x: ctypes.c_double(x).value,
}
V = np.array([2.5, 3.5])
TRANSFORMS = {
    "grad": lambda f: lambda x: ad.grad(f)(x),
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (1.0,))[1],
    "hvp": lambda f: lambda x: ad.hvp(f)(x, 1.0),
    "vmap": lambda f: lambda x: ad.vmap(f)(x * V),
    "graph": lambda f: lambda x: ad.graph(f)(x)(x),
    "jit": ad.jit,
    "jit of grad": lambda f: ad.jit(ad.grad(f)),
    "scan": lambda f: lambda x: ad.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
}


def result(transform, f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        return TRANSFORMS[transform](f)(x)


def catches(asked, other):
    def f(x):
        try:
            y = x * asked(x)
        except Exception:
            return other(x)
        return y

    return f


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_another_result_is_never_taken(transform, name):
    f, right = catches(FOREIGN[name], lambda x: -7.0 * x), lambda x: x * x
    assert f(2.5) == right(2.5)
    try:
        found = result(transform, f, 2.5)
    except AdjointError as error:
        assert "catches an error" in str(error)  # noqa: PT017
        assert transform != "jit"
    else:
        np.testing.assert_allclose(found, result(transform, right, 2.5))


@pytest.mark.parametrize("name", sorted(FOREIGN.keys() - {"timedelta"}))  # which rounds to microseconds
@pytest.mark.parametrize("transform", ["grad", "jvp", "hvp", "vmap", "jit", "jit of grad"])
def test_the_same_result_by_another_way_counts(transform, name):
    f = catches(FOREIGN[name], lambda x: x * x)
    np.testing.assert_allclose(result(transform, f, 2.5), result(transform, lambda x: x * x, 2.5))


@pytest.mark.parametrize(
    "asked",
    [lambda x: len(x), lambda x: sum(iter(x)), lambda x: x.shape[0], lambda x: x[0], lambda x: int("a"), lambda x: None + 1],
)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_error_of_plain_numbers_too_is_theirs(transform, asked):
    """What a function learns about a number from the errors of Python is not noticed."""
    f = catches(asked, lambda x: x * x)
    np.testing.assert_allclose(result(transform, f, 2.5), result(transform, lambda x: x * x, 2.5))


@pytest.mark.parametrize("transform", [None, *TRANSFORMS])
def test_endless_recursion_ends(transform):
    """Errors in the innermost frames, where no further call is possible, are caught by generators and by the function."""

    def by_generators(x):
        return next(by_generators(x) for _ in range(1))

    def at_the_end(x):
        try:
            return at_the_end(x)
        except RecursionError:
            return x

    with pytest.raises(RecursionError):
        by_generators(2.5) if transform is None else result(transform, by_generators, 2.5)
    assert at_the_end(2.5) == 2.5
