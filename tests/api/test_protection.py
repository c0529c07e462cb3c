"""The arrays that a function is called with never change, wherever they are in its arguments."""

import collections
import dataclasses

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.protection import COPIED
from adjoint.core.errors import ReadOnlyError


@dataclasses.dataclass
class Model:
    w: object
    note: object = 0.0


Pair = collections.namedtuple("Pair", "first second")

#: How an array is passed, and how the function finds it.
CONTAINERS = {
    "alone": (lambda a: a, lambda c: c),
    "list": (lambda a: [a, 2.0], lambda c: c[0]),
    "tuple": (lambda a: (1, a), lambda c: c[1]),
    "dict": (lambda a: {"a": a}, lambda c: c["a"]),
    "defaultdict": (lambda a: collections.defaultdict(list, a=a), lambda c: c["a"]),
    "named tuple": (lambda a: Pair(a, None), lambda c: c.first),
    "dataclass": (lambda a: Model(a), lambda c: c.w),
    "nested": (lambda a: {"k": [0.0, (Model([a]),)]}, lambda c: c["k"][1][0].w[0]),
}
TRANSFORMS = {
    "grad": ad.grad,
    "value_and_grad": ad.value_and_grad,
    "jacobian": ad.jacobian,
    "jacfwd": ad.jacfwd,
    "jacrev": ad.jacrev,
    "hessian": ad.hessian,
    "derivative": ad.derivative,
    "elementwise_grad": ad.elementwise_grad,
    "jit": ad.jit,
    "jit of grad": lambda f: ad.jit(ad.grad(f)),
    "grad by keyword": lambda f: lambda x, c: ad.grad(f)(x, c=c),
    "vmap": lambda f: ad.vmap(f, in_axes=(0, None)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_small_arrays(container, transform):
    build, get = CONTAINERS[container]

    def f(x, c):
        a = get(c)
        a *= 2.0
        a[0] = 7.0
        return x**2 * np.sum(a)

    x = np.ones(2) if transform == "vmap" else 3.0
    a = np.arange(1.0, 5.0)
    given = build(a)
    found = TRANSFORMS[transform](f)(x, given)
    np.testing.assert_array_equal(a, np.arange(1.0, 5.0))
    assert get(given) is a
    again = TRANSFORMS[transform](f)(x, given)
    for some, other in zip(np.ravel(found), np.ravel(again), strict=True):
        assert some == other


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("container", ["alone", "dict"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f2", "f4", "c16", "M8[D]", "U2", "O"])
def test_small_arrays_of_every_dtype(dtype, container, transform):
    build, get = CONTAINERS[container]

    def f(x, c):
        a = get(c)
        a[0] = a[1]
        return x**2 * np.sum(a[0] == a[1])

    if dtype in ("M8[D]", "U2", "O") and "jit" in transform:
        pytest.skip("jit refuses such arguments or runs eagerly, with a warning")
    x = np.ones(2) if transform == "vmap" else 3.0
    before = np.array([0, 1, 2]).astype(dtype)
    a = before.copy()
    given = build(a)
    TRANSFORMS[transform](f)(x, given)
    np.testing.assert_array_equal(a, before)
    assert get(given) is a


@pytest.mark.parametrize("dtype", ["i8", "?", "f8"])
@pytest.mark.parametrize("size", [3, COPIED + 1])
def test_vmap_shares_arrays_that_cannot_be_written_to(size, dtype):
    """A private copy, or a read-only view; floats are copied as they are written."""

    def f(x, a):
        a[0] = 0
        return x * np.sum(a)

    a = np.ones(2 * size, dtype)[::2] if size == 3 else np.ones(size, dtype)
    if dtype == "f8":
        np.testing.assert_array_equal(ad.vmap(f, in_axes=(0, None))(np.ones(2), a), size - 1)
    else:
        with pytest.raises(ReadOnlyError, match=r"test_protection.py:\d+ writes to a read-only array"):
            ad.vmap(f, in_axes=(0, None))(np.ones(2), a)
    np.testing.assert_array_equal(a, np.ones(size, dtype))


@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize("in_axes", [0, (None, 0)])
@pytest.mark.parametrize("dtype", ["i8", "f4", "f8", "c16"])
def test_vmap_notices_a_write_by_another_name(dtype, in_axes, chunk_size):
    a = np.ones(4, dtype)

    def f(x, y=1.0):
        a[1] = 7
        return x**3 * y

    args = (a,) if in_axes == 0 else (a, np.ones(4))
    with pytest.raises(ReadOnlyError, match="by another name"):
        ad.vmap(f, in_axes, chunk_size=chunk_size)(*args)


@pytest.mark.parametrize("outside", ["grad", "jvp", "vmap", "compiled"])
@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if "jit" not in name and name != "value_and_grad"])
@pytest.mark.parametrize("container", ["alone", "dict", "nested"])
def test_arrays_that_a_transform_outside_traces(container, transform, outside):
    """They are no plain arrays, and stay as they are as well."""
    build, get = CONTAINERS[container]

    def program(writes):
        def f(x, c):
            a = get(c)
            if writes:
                a -= 1.0
                a[0] *= x
            else:
                a = np.where(np.arange(4) == 0, (a - 1.0) * x, a - 1.0)
            return x**2 * np.sum(a**2)

        x = np.ones(2) if transform == "vmap" else 3.0

        def whole(a):
            return np.sum(TRANSFORMS[transform](f)(x, build(a))) * np.sum(a)

        return whole

    a = np.arange(1.0, 5.0)
    run = {
        "grad": lambda h: ad.grad(h)(a),
        "jvp": lambda h: ad.jvp(h, (a,), (a,))[1],
        "vmap": lambda h: ad.vmap(h)(np.stack([a, 2 * a])),
        "compiled": lambda h: ad.jit(ad.grad(h))(a),
    }[outside]
    np.testing.assert_allclose(run(program(True)), run(program(False)), rtol=1e-12)


@pytest.mark.parametrize("transform", ["grad", "jacfwd", "derivative"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_large_arrays_and_views_are_read_only(container, transform):
    build, get = CONTAINERS[container]

    def f(x, c):
        get(c)[0] = 7.0
        return x**2

    for a in (np.ones(COPIED + 1), np.ones(8)[::2]):
        with pytest.raises(ReadOnlyError, match=r"test_protection.py:\d+ writes to a read-only array"):
            TRANSFORMS[transform](f)(3.0, build(a))
        np.testing.assert_array_equal(a, 1.0)


@pytest.mark.parametrize("transform", ["grad", "jacfwd", "derivative"])
def test_changes_of_the_container_itself(transform):
    def f(x, state, log, model):
        state["a"] *= 3.0
        state["b"] = state["a"] + 1.0
        del state["gone"]
        log.append(np.zeros(1))
        log[0] = "first"
        model.note = "seen"
        model.w += 1.0
        return x * np.sum(state["b"])

    a, b, w = np.ones(2), np.ones(3), np.zeros(2)
    state, log, model = {"a": a, "gone": 1}, [b, b], Model(w)
    assert TRANSFORMS[transform](f)(2.0, state, log, model) == 8.0
    assert list(state) == ["a", "b"]
    assert state["a"] is a
    np.testing.assert_array_equal(state["b"], [4.0, 4.0])
    assert log[0] == "first"
    assert log[1] is b
    assert len(log) == 3
    assert model.note == "seen"
    assert model.w is w
    for x in (a, b, w):
        assert len(set(x)) == 1
    np.testing.assert_array_equal(w, 0.0)
    np.testing.assert_array_equal(a, 1.0)


def test_containers_without_arrays_are_the_users():
    def f(x, log, cache):
        log.append(1)
        seen.append((log, cache))
        return x

    seen = []
    log, cache = [0.5], {"k": (1, "text")}
    ad.grad(f)(1.0, log, cache)
    assert seen[0][0] is log
    assert seen[0][1] is cache


def test_changes_are_kept_when_the_function_raises():
    def f(x, state):
        state["step"] = 1
        raise KeyError("stop")

    state = {"a": np.ones(2)}
    with pytest.raises(KeyError):
        ad.grad(f)(1.0, state)
    assert state["step"] == 1


def test_one_array_in_several_places_is_one():
    def f(x, a, both):
        a += 1.0
        return x * np.sum(both["a"] + both["list"][0])

    a = np.zeros(2)
    assert ad.grad(f)(1.0, a, {"a": a, "list": [a]}) == 4.0
    np.testing.assert_array_equal(a, 0.0)


def test_a_container_that_holds_itself():
    def f(x, state):
        state["a"] += 1.0
        return x * np.sum(state["a"])

    state = {"a": np.ones(2)}
    state["self"] = state
    assert ad.grad(f)(1.0, state) == 4.0
    np.testing.assert_array_equal(state["a"], 1.0)
