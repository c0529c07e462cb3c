"""Calls with keywords, of arrays that are not in C order, and of signatures that have left the chain stay out of Python."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.calls import MOST_ENTRIES

RNG = np.random.default_rng(2)
pytestmark = pytest.mark.filterwarnings("ignore:.*compiled again for the third time")


def without_python(f):
    """The compiled function, whose way through Python is an error from now on."""

    def search(*args, **kwargs):
        raise AssertionError("the call went through Python")

    f._find = search
    chains = [f._calls, *f._named.values()]
    if f._static is not None:
        f._static.search = search
        chains += f._static.chains.values()
    for chain in chains:
        chain.search = search
    return f


def model(x, w, b=0.5, *, scale=1.0):
    return scale * np.sum(x * w) + b


def test_keywords():
    f = ad.jit(model)
    x, w = RNG.normal(size=4), RNG.normal(size=4)
    calls = [
        lambda g: g(x, w=w),
        lambda g: g(w=w, x=x),
        lambda g: g(x=x, w=w),
        lambda g: g(x, w, b=2.0),
        lambda g: g(x, w, scale=3.0, b=1.0),
        lambda g: g(x, w, b=1.0, scale=3.0),
        lambda g: g(x, w),
    ]
    expected = [call(model) for call in calls]
    for _ in range(2):
        np.testing.assert_allclose([call(f) for call in calls], expected)
    without_python(f)
    np.testing.assert_allclose([call(f) for call in calls], expected)


def test_keywords_of_other_types_and_wrong_keywords():
    f = ad.jit(model)
    x, w = RNG.normal(size=4), RNG.normal(size=4)
    assert f(x, w=w) == model(x, w=w)
    for other in (w.astype(np.float32), 2.0, 3, np.float64(1.5), w[:1], RNG.normal(size=(3, 4))):
        np.testing.assert_allclose(f(x, w=other), model(x, w=other), rtol=1e-6)
    with pytest.raises(TypeError, match="argument"):
        f(x, w, wrong=1.0)
    with pytest.raises(TypeError, match="argument"):
        f(x, x=x)
    with pytest.raises(TypeError, match="argument"):
        f(w=w)


def test_containers_as_keywords():
    f = ad.jit(lambda *, params: params["a"] * params["b"][0])
    for _ in range(2):
        assert f(params={"a": 2.0, "b": [3.0]}) == 6.0
    without_python(f)
    assert f(params={"a": 2.0, "b": [4.0]}) == 8.0


def test_static_keywords():
    f = ad.jit(lambda x, n=2, *, mode="up": x**n if mode == "up" else -x, static_argnames=("n", "mode"))
    for _ in range(2):
        assert f(3.0, n=3) == 27.0
        assert f(3.0, n=2) == 9.0
        assert f(x=3.0, mode="down") == -3.0
        assert f(3.0, mode="up", n=1) == 3.0


@pytest.mark.parametrize(
    "change",
    [lambda x: x.T, lambda x: x[::2], lambda x: x[:, ::-1], lambda x: np.broadcast_to(x[0], x.shape), np.asfortranarray],
    ids=["transposed", "every second", "reversed", "broadcast", "columns"],
)
@pytest.mark.parametrize("first", ["strided", "rows"])
def test_arrays_that_are_not_in_c_order(change, first):
    f = ad.jit(lambda x, y: np.sum(np.sin(x) * x, axis=0) + y)
    x = change(RNG.normal(size=(6, 6)))
    wanted = np.sum(np.sin(x) * x, axis=0) + 1.0
    for one in (x, x.copy("C"), x) if first == "strided" else (x.copy("C"), x):
        np.testing.assert_allclose(f(one, 1.0), wanted, rtol=1e-13)
    without_python(f)
    np.testing.assert_allclose(f(x, 1.0), wanted, rtol=1e-13)


def test_functions_that_ask_for_the_order_in_memory():
    """What is a view follows from the strides: no copy may be made."""

    def f(x):
        y = x.reshape(-1)  # a view of rows, a copy of columns
        y += 1.0
        return x * 1.0, y

    compiled = ad.jit(f)
    x = RNG.normal(size=(3, 4))
    for order in ("C", "F", "C", "F"):
        for a, b in zip(compiled(x.copy(order)), f(x.copy(order)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [MOST_ENTRIES, MOST_ENTRIES + 1, 3 * MOST_ENTRIES])
def test_signatures_that_have_left_the_chain(count):
    f = ad.jit(lambda x: 2 * np.sum(x))
    for _ in range(2):
        for n in range(1, count + 1):
            assert f(np.ones(n)) == 2 * n
    without_python(f)
    for n in range(1, count + 1):
        assert f(np.ones(n)) == 2 * n


def test_paths_that_have_left_the_chain():
    f = ad.jit(lambda x, n: x * n if n > 0 else x - int(n))
    for _ in range(3):
        for n in range(-12, 3):
            assert f(1.0, n) == (n if n > 0 else 1.0 - n)
    assert not f.eager


def test_errors_are_those_of_the_function():
    f = ad.jit(lambda x, i: x[i])
    x = np.arange(10.0)[::2]
    for _ in range(3):
        assert f(x, i=1) == 2.0
        with pytest.raises(IndexError, match="out of bounds"):
            f(x, i=7)


def test_places_outside_are_checked():
    weights = {"w": 2.0}
    f = ad.jit(lambda x: x[::1].sum() * weights["w"])
    x = np.arange(6.0)[::2]
    for w in (2.0, 2.0, 3.0, 2.0, 5.0):
        weights["w"] = w
        assert f(x) == 6.0 * w
        assert f(x=x) == 6.0 * w


def test_written_arguments_are_left_alone():
    def f(x):
        x = anp.array(x)
        x[0] = 5.0
        return x

    compiled = ad.jit(f)
    x = np.arange(6.0)[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), [5.0, 2.0, 4.0])
    np.testing.assert_array_equal(x, [0.0, 2.0, 4.0])


# -- static arguments -------------------------------------------------------------------------------------------------


def power(x, n, *, scale=1.0, mode="sum"):
    y = x**n * scale
    return np.sum(y) if mode == "sum" else np.max(y)


def test_static_arguments_by_place_and_by_name():
    f = ad.jit(power, static_argnums=1, static_argnames="mode")
    x = RNG.uniform(1.0, 2.0, 4)
    calls = [
        lambda g: g(x, 2),
        lambda g: g(x, 3),
        lambda g: g(x, 3.0),
        lambda g: g(x, True),
        lambda g: g(x, n=2),
        lambda g: g(n=2, x=x),
        lambda g: g(x, 2, mode="max"),
        lambda g: g(x, 2, mode="max", scale=2.0),
        lambda g: g(x, 2, scale=2.0, mode="max"),
        lambda g: g(x, 2, scale=2.0),
        lambda g: g(x[:2], 2),
        lambda g: g(2.0, 2),
    ]
    expected = [call(power) for call in calls]
    for _ in range(2):
        np.testing.assert_allclose([call(f) for call in calls], expected)
    without_python(f)
    np.testing.assert_allclose([call(f) for call in calls], expected)


def test_static_arguments_with_arrays_in_other_orders_and_containers():
    f = ad.jit(lambda k, parts: k * parts["a"] @ parts["b"][0], static_argnums=0)
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    for _ in range(2):
        for k in (1, 2):
            np.testing.assert_allclose(f(k, {"a": a, "b": [b]}), k * a @ b)
    g = ad.jit(lambda x, k: np.sum(x * np.arange(4.0)[:, None]) * k, static_argnums=1)
    x = RNG.normal(size=(3, 4)).T
    for _ in range(3):
        np.testing.assert_allclose(g(x, 2), 2 * np.sum(x * np.arange(4.0)[:, None]))
    without_python(g)
    np.testing.assert_allclose(g(x, 2), 2 * np.sum(x * np.arange(4.0)[:, None]))


def test_static_values_that_compare_equal_have_different_programs():
    f = ad.jit(lambda x, k: np.copysign(x, k[0] if isinstance(k, tuple) else k), static_argnums=1)
    for _ in range(2):
        assert (f(1.0, 0.0), f(1.0, -0.0), f(1.0, (0.0,)), f(1.0, (-0.0,))) == (1.0, -1.0, 1.0, -1.0)
    g = ad.jit(lambda x, k: x * 1.0 if isinstance(k, bool) else x * 2.0, static_argnums=1)
    for _ in range(2):
        assert (g(1.0, True), g(1.0, 1), g(1.0, 1.0)) == (1.0, 2.0, 2.0)


def test_a_static_value_that_cannot_be_hashed_is_named():
    f = ad.jit(lambda x, k: x * k[0], static_argnums=1)
    for _ in range(2):
        with pytest.raises(TypeError, match="hashable"):
            f(1.0, [2.0])


def test_static_arguments_under_transforms():
    f = ad.jit(power, static_argnums=1, static_argnames="mode")
    x = RNG.uniform(1.0, 2.0, 4)
    for _ in range(2):
        np.testing.assert_allclose(f(x, 3), power(x, 3))
        np.testing.assert_allclose(ad.grad(lambda x: f(x, 3))(x), 3 * x**2)
        np.testing.assert_allclose(ad.vmap(lambda x: f(x, 2, mode="max"))(np.stack([x, 2 * x])), [max(x**2), 4 * max(x**2)])


def test_a_static_argument_that_is_left_out_and_given():
    f = ad.jit(lambda x, k=2, *rest: x * k + sum(rest), static_argnums=1)
    for _ in range(2):
        assert (f(1.5), f(1.5, 2), f(1.5, 3), f(1.5, 3, 1.0), f(1.5, k=4)) == (3.0, 3.0, 4.5, 5.5, 6.0)
    without_python(f)
    assert (f(1.5), f(1.5, 2), f(1.5, 3), f(1.5, 3, 1.0), f(1.5, k=4)) == (3.0, 3.0, 4.5, 5.5, 6.0)
