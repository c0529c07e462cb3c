"""A rule for all partials, split into one function for each argument."""

import inspect

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise, case
from adjoint.derive.partials import argument_names, define, no_partial, split

NAMES = sorted(name for name, op in OPS.items() if isinstance(op, Elementwise) and not name.startswith("test_"))


@pytest.mark.parametrize("name", NAMES)
def test_a_partial_alone_is_that_of_the_rule(name):
    op = OPS[name]
    parts = split(op)
    assert len(parts) == op.arity
    if isinstance(op.partials, tuple):
        return
    rng = np.random.default_rng(0)
    one = op.cases[0] if op.cases else case(*[(4,)] * op.arity)
    assert not one.params
    xs = one.draw(op.domain, rng, float)
    with np.errstate(all="ignore"):
        y = op.impl(*xs)
        for part, whole in zip(parts, op.partials(y, *xs), strict=True):
            if part.missing:
                assert whole is None
            else:
                shape = np.shape(y)
                np.testing.assert_allclose(
                    np.broadcast_to(part.function(y, *xs), shape), np.broadcast_to(whole, shape), rtol=1e-14
                )


@pytest.mark.parametrize(
    "name, needs",
    [
        ("exp", (True, False)),
        ("sin", (False, True)),
        ("mul", (False, False, True)),
        ("add", (False, False, False)),
        ("neg", (False, False)),
    ],
)
def test_values_that_a_partial_reads(name, needs):
    assert split(OPS[name])[0].needs == needs


def test_constant_partials_are_numbers():
    assert [part.number for part in split(OPS["sub"])] == [1, -1]


def test_a_rule_that_returns_too_few():
    op = Elementwise("test_too_few", np.add, partials=lambda y, a, b: (1.0,), arity=2)
    with pytest.raises(UnsupportedError, match="must return a tuple of 2"):
        split(op)


def test_functions_from_lines():
    f = define("twice", argument_names(2), ["v0 = 2 * x0", "return v0"], {})
    assert f(None, 3.0) == 6.0
    assert list(inspect.signature(f).parameters) == ["y", "x0"]


def test_the_argument_without_a_derivative_is_named():
    import adjoint.scipy.special  # noqa: F401 - declares it

    assert "'v'" in str(no_partial(OPS["jv"], 0)) or "argument" in str(no_partial(OPS["jv"], 0))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, np.float64(2.0), np.float32(2.0), np.array(2.0), 10**20, 0, True])
def test_a_constant_partial_of_any_kind(number):
    op = ad.extend.elementwise("test_constant_partial", np.sin, partials=lambda y, x: (number,))
    for f in (ad.grad(op), ad.jit(ad.grad(op)), ad.derivative(op), ad.grad(lambda x: op(x) + 0 * x)):
        np.testing.assert_equal(float(f(1.0)), float(number))


@pytest.mark.parametrize("nonsense", ["a", {1.0}, np.array(["a"]), object(), np.timedelta64(1, "s")])
def test_a_partial_that_is_no_number_is_refused(nonsense):
    op = ad.extend.elementwise("test_nonsense_partial", np.sin, partials=lambda y, x: (nonsense,))
    for f in (ad.grad(op), ad.derivative(op), ad.jit(ad.grad(op))):
        with pytest.raises(UnsupportedError, match="partials of 'test_nonsense_partial' must return numbers or arrays, not"):
            f(1.0)
