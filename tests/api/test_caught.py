"""A function that catches an error of ours: the result is that on plain numbers, or an error."""

import contextlib
import itertools
import math
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

X = np.array([0.3, 0.4])


# What is refused on a traced value, and not on plain numbers: each returns a number.
def converts(x):
    return float(x[0])


def calls_math(x):
    return math.sin(x[0])


def writes_to_a_plain_array(x):
    a = np.zeros(2)
    a[0] = x[1]
    return a[0]


def makes_a_plain_array(x):
    return np.array([x[0], x[1]]).sum()


def copies_to_a_plain_array(x):
    a = np.zeros(2)
    np.copyto(a, x)
    return a[0]


def puts_into_a_plain_array(x):
    a = np.zeros(2)
    np.put(a, [0], x[1])
    return a[0]


def adds_to_a_plain_array(x):
    a = np.zeros(2)
    a += x
    return a[1]


def reads_memory(x):
    return np.frombuffer(np.sin(x).tobytes())[0]


def reads_digits(x):
    return float.fromhex(x[0].hex())


def branches(x):  # refused by vmap and graph
    return x[0] if x[0] < x[1] else x[1]


#: And the same number, by what is not refused.
REFUSED = {
    converts: lambda x: x[0],
    calls_math: lambda x: np.sin(x[0]),
    writes_to_a_plain_array: lambda x: x[1],
    makes_a_plain_array: lambda x: x[0] + x[1],
    copies_to_a_plain_array: lambda x: x[0],
    puts_into_a_plain_array: lambda x: x[1],
    adds_to_a_plain_array: lambda x: x[1],
    reads_memory: lambda x: np.sin(x[0]),
    reads_digits: lambda x: x[0],
    branches: lambda x: np.minimum(x[0], x[1]),
}


def catches(asked, other, handler):
    """A function that asks for a number, and has another result where that is refused."""

    def by_class(x):
        try:
            return np.sum(x) * asked(x)
        except (TypeError, ValueError, AttributeError):
            return other(x)

    def of_everything(x):
        try:
            number = asked(x)
        except:  # noqa: E722 - as people write
            return other(x)
        return np.sum(x) * number

    def suppressed(x):
        with contextlib.suppress(Exception):
            return np.sum(x) * asked(x)
        return other(x)

    def in_a_helper(x):
        return by_class(np.copy(x)) + 0.0

    def in_a_comprehension(x):
        return sum([by_class(y) for y in (x, 2 * x)])

    return locals()[handler]


HANDLERS = ["by_class", "of_everything", "suppressed", "in_a_helper", "in_a_comprehension"]
V = np.array([1.0, -0.5])
TRANSFORMS = {
    "grad": ad.grad,
    "value_and_grad": ad.value_and_grad,
    "jacfwd": ad.jacfwd,
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (V,)),
    "vjp": lambda f: lambda x: ad.vjp(f, x)[0],
    "hvp": lambda f: lambda x: ad.hvp(f)(x, V),
    "vmap": lambda f: lambda x: ad.vmap(f)(np.stack([x, 2 * x, x[::-1]])),
    "vmap of grad": lambda f: lambda x: ad.vmap(ad.grad(f))(np.stack([x, 2 * x])),
    "jit": ad.jit,
    "jit of grad": lambda f: ad.jit(ad.grad(f)),
    "grad of jit": lambda f: ad.grad(ad.jit(f)),
    "jit of vmap": lambda f: lambda x: ad.jit(ad.vmap(f))(np.stack([x, 2 * x, x[::-1]])),
    "graph": lambda f: lambda x: ad.graph(f)(x)(x),
    "scan": lambda f: lambda x: ad.scan(lambda c, _: (c + f(x * c), None), 1.0, None, length=3)[0],
}


def result(transform, f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        return TRANSFORMS[transform](f)(x)


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("asked", REFUSED)
def test_another_result_is_never_taken(asked, handler):
    """The derivative of the function on plain numbers, or an error that says what was caught."""

    right = catches(REFUSED[asked], None, handler)
    f = catches(asked, lambda x: -7.0 * np.sum(x), handler)
    np.testing.assert_allclose(f(X), right(X))
    refusals = []
    for transform in TRANSFORMS:
        try:
            found = result(transform, f, X)
        except ad.AdjointError as error:
            refusals.append(str(error))
        else:
            for a, b in zip(*(ad_leaves(y) for y in (found, result(transform, right, X))), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=transform)
    assert len(refusals) >= 3
    assert all("catches an error" in message for message in refusals)


def ad_leaves(y):
    return list(itertools.chain.from_iterable(map(ad_leaves, y))) if isinstance(y, tuple) else [y]


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t not in ("graph", "scan")])
def test_the_same_result_by_another_way_counts(transform):
    """`math.sin` where it takes the number, and `np.sin` for others, is a common way to write a function."""

    def f(x):
        try:
            return math.sin(x[0]) * np.sum(x)
        except TypeError:
            return np.sin(x[0]) * np.sum(x)

    for x in (X, 2 * X, X):
        for a, b in zip(*(ad_leaves(result(transform, g, x)) for g in (f, lambda x: np.sin(x[0]) * np.sum(x))), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if "grad" in t or t in ("jacfwd", "jvp", "hvp")])
@pytest.mark.parametrize("x", [0.0, 1.0, np.float64(1.0), np.float32(1.0), np.ones(2), np.zeros((2, 2))])
@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
def test_two_ways_that_agree_at_one_point_only(transform, x):
    """At 0 and 1, x and x * x are the same, and their derivatives are not."""
    if "vmap" in transform or (np.ndim(x) == 0 and transform == "hvp"):
        x = np.full(2, x) if np.ndim(x) == 0 else np.stack([x, x])

    def f(x):
        try:
            return np.sum(x * float(np.ravel(x)[0]))
        except TypeError:
            return np.sum(x)

    along = {"jvp": lambda f: lambda x: ad.jvp(f, (x,), (np.ones_like(x),)), "hvp": lambda f: lambda x: ad.hvp(f)(x, x + 1)}
    transformed = along.get(transform, TRANSFORMS[transform])(f)
    with pytest.raises(ad.AdjointError, match="catches an error"):
        transformed(x)


def test_two_ways_that_are_close_are_not_the_same():
    def f(x):
        try:
            return np.tanh(float(x) + 8.0)
        except TypeError:
            return np.tanh(x + 7.0)

    assert abs(f(0.5) - np.tanh(7.5)) < 1e-6
    for transform in ("grad", "vjp", "jacfwd"):
        with pytest.raises(ad.AdjointError, match="catches an error"):
            result(transform, f, 0.5)


def test_what_a_compiled_function_catches_is_decided_at_each_call():
    """At its first arguments, zeros, both ways give the same."""

    def f(x):
        try:
            return float(x) * 2.0
        except TypeError:
            return 0.0 * x

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match="catches an error that it meets only inside jit"):
        assert compiled(0.0) == 0.0
    assert compiled(3.0) == 6.0


def test_errors_of_the_function_itself_may_be_caught():
    def f(x):
        try:
            if x < 0:
                raise ValueError("negative")
            return np.sqrt(x)
        except ValueError:
            return x * x

    for x in (4.0, -3.0):
        for transform in (ad.grad, lambda f: ad.jit(ad.grad(f))):
            assert transform(f)(x) == (0.25 if x > 0 else -6.0)
    np.testing.assert_array_equal(ad.vmap(f)(np.array([-3.0, -2.0])), [9.0, 4.0])
    np.testing.assert_array_equal(ad.vmap(f)(np.array([4.0, 9.0])), [2.0, 3.0])
    with pytest.raises(ad.AdjointError, match="catches an error"):
        ad.vmap(f)(np.array([4.0, -3.0]))


def test_a_refusal_that_our_own_code_handles_is_none():
    """`adjoint.numpy.array` of a tuple tries NumPy's first; a polynomial asks for its leading zeros."""

    def f(x):
        try:
            return np.sum(ad.numpy.array((x[0], x[1])) ** 2) + np.sum(np.polymul(x, x))
        except TypeError:
            return 0.0

    compiled = ad.jit(f)
    assert np.isclose(compiled(X), f(X))
    assert not compiled.eager
    np.testing.assert_allclose(ad.vmap(f)(np.stack([X, V])), [f(X), f(V)])


def test_a_handler_that_names_our_errors_is_meant():
    """The function knows that it is inside a transform."""

    def f(x):
        try:
            return float(x) * x
        except (ad.AdjointError, KeyError):
            return 5.0 * x

    def g(x):
        try:
            return float(x) * x
        except KeyError:
            return x
        except TypeError:
            return 5.0 * x

    assert ad.grad(f)(2.0) == 5.0
    with pytest.raises(ad.AdjointError, match="catches an error"):
        ad.grad(g)(2.0)
