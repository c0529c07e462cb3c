"""The arguments of a compiled function: their signature, static ones, and what no program takes."""

from collections import OrderedDict

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.arguments import DEFAULT, Arguments, both_ways, own_together
from adjoint.core.errors import ArgumentError
from adjoint.numpy.layout import own


def f(x, n=2, *, mode="sum"):
    return x


def opened(*args, static=(), names=(), by_order=False, **kwargs):
    return Arguments(f, *both_ways(f, static, names), DEFAULT).open(args, kwargs, by_order)


def test_static_arguments_by_place_and_by_name():
    assert both_ways(f, (1,), ()) == ((1,), ("n",))
    assert both_ways(f, (), ("n", "mode")) == ((1,), ("n", "mode"))


def test_signatures_tell_programs_apart():
    x = np.ones(3)
    same = opened(x)[1]
    assert opened(x + 1)[1] == same
    for other in (np.ones(4), np.ones(3, np.float32), 1.0, [x]):
        assert opened(other)[1] != same


@pytest.mark.parametrize("a, b", [(1, 1.0), (1, True), (0.0, False)])
def test_static_values_are_distinguished_by_class(a, b):
    assert opened(1.0, a, static=(1,))[1] != opened(1.0, b, static=(1,))[1]


def test_a_static_value_has_to_hash():
    with pytest.raises(ArgumentError):
        opened(1.0, [1], static=(1,))


def test_leaves_are_contiguous():
    leaves, _ = opened(np.ones((4, 4))[::2, ::2])
    assert leaves[0].flags.c_contiguous
    leaves, signature = opened(np.asfortranarray(np.ones((2, 3))), by_order=True)
    assert signature.strides


@pytest.mark.parametrize("x", ["text", object(), {1, 2}])
def test_invalid_arguments(x):
    with pytest.raises(ArgumentError):
        opened(x)


def test_copies_keep_their_layout():
    x = np.asfortranarray(np.ones((2, 3)))
    assert own(x) is not x
    assert own(x).strides == x.strides
    assert own("text") == "text"


@pytest.mark.parametrize("option", ["static_argnums", "donate_argnums"])
@pytest.mark.parametrize("nonsense", ["a", 1.0, (0, "b"), True, object(), [None]])
def test_positions_that_are_none(option, nonsense):
    with pytest.raises(ArgumentError, match=f"{option} of jit takes positions"):
        ad.jit(lambda a, b: a, **{option: nonsense})


@pytest.mark.parametrize("nonsense", [0, 1.0, (0,), True, object()])
def test_names_that_are_none(nonsense):
    with pytest.raises(ArgumentError, match="static_argnames of jit takes names"):
        ad.jit(lambda a, b: a, static_argnames=nonsense)


def test_no_static_arguments_and_too_many():
    assert ad.jit(lambda a: a + 1, static_argnums=None, static_argnames=None, donate_argnums=None)(1.0) == 2.0
    assert ad.jit(lambda a, n: a * n, static_argnums=np.int64(1))(2.0, 3) == 6.0
    with pytest.raises(ArgumentError, match="there are 2 arguments"):
        ad.jit(lambda a, b: a, static_argnums=-3)


def test_copies_share_memory_as_the_arrays_do():
    a, other = np.arange(10.0), np.ones(3)
    locked = a[4:6]
    locked.flags.writeable = False
    given = [a[::3], other, a[1:4], other, a.view(np.int64)[5:], locked, 2.0, np.empty(0), np.array([None, "a"])]
    copies = own_together(given)
    for x, y in zip(given[:6], copies, strict=False):
        np.testing.assert_array_equal(x, y)
        assert (x.dtype, x.strides, x.flags.writeable, x.flags.aligned) == (
            y.dtype,
            y.strides,
            y.flags.writeable,
            y.flags.aligned,
        )
        assert not np.shares_memory(x, y)
    for i in range(6):
        for j in range(6):
            assert np.shares_memory(copies[i], copies[j]) == np.shares_memory(given[i], given[j])
    assert copies[1] is copies[3]


#: Two arrays of four elements that share memory.
SHARED = {
    "one object": lambda a: (a, a),
    "the same elements": lambda a: (a[:4], a[:4].view()),
    "some elements": lambda a: (a[1:5], a[:4]),
    "reversed": lambda a: (a[:4], a[3::-1]),
    "every second": lambda a: (a[:7:2], a[1:5]),
    "read-only": lambda a: (a[:4], np.broadcast_to(a[1:2], 4)),
}


def write(x, y):
    x[0] = 5.0
    return np.sum(y) + x[0]


def update(x, y):
    x += 1.0
    return x * y


def write_second(x, y):
    y[1:] *= x[0]
    return x - y


def write_view(x, y):
    last = x[2:]
    last[...] = y[0]
    return {"x": x, "y": y * 2.0}


def write_both(x, y):
    x[1], y[2] = y[0], x[3]
    return x + y


def count_and_write(x, y):
    next(COUNTER)
    x[0] = 5.0
    return y * 2.0


def write_or_compare(x, y):
    if x is y:
        return x * 3.0
    x[0] = 5.0
    return y * 2.0


COUNTER = iter(range(10**9))
WRITES = (write, update, write_second, write_view, write_both, count_and_write, write_or_compare)


@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("f", WRITES)
def test_writes_to_arguments_that_share_memory(f, nested):
    """A write to one is seen in the other, as in NumPy, whichever call comes first. After a call nothing has changed."""
    apart = lambda a: (a[:4].copy(), a[4:8].copy())
    for order in ([apart, *SHARED.values(), apart], [*SHARED.values(), apart, *SHARED.values()]):
        compiled = ad.jit((lambda pair: f(*pair)) if nested else f)
        for _ in range(2):
            for make in order:
                a = np.arange(1.0, 9.0)
                if make is SHARED["one object"]:
                    a = a[:4].copy()
                try:
                    expected = f(*make(a.copy()))
                except ValueError:  # a read-only array
                    continue
                before, given = a.copy(), make(a)
                found = compiled(given) if nested else compiled(*given)
                np.testing.assert_equal(found, expected)
                np.testing.assert_array_equal(a, before)


def test_calls_without_shared_memory_stay_native():
    compiled = ad.jit(write)
    x, y = np.ones(4), np.ones(4)
    compiled(x, y)
    compiled._find = None  # the way through Python
    compiled._calls.search = None
    assert compiled(x, y) == 9.0


TABLE = np.ones(4)


def test_a_write_to_an_argument_that_is_read_outside():
    compiled = ad.jit(lambda x: update(x, TABLE))
    np.testing.assert_array_equal(compiled(np.ones(4)), np.full(4, 2.0))
    for x in (TABLE, TABLE[:], TABLE[::-1]):
        with pytest.raises(ArgumentError, match=r"shares memory with TABLE.*pass a copy"):
            compiled(x)
    np.testing.assert_array_equal(compiled(TABLE.copy()), np.full(4, 2.0))


def test_arguments_given_away_that_share_memory():
    compiled = ad.jit(lambda x, y: (x + 1.0) * np.sum(y), donate_argnums=0)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(np.ones(4), np.ones(4)), np.full(4, 8.0))
        a = np.ones(4)
        np.testing.assert_array_equal(compiled(a, a), np.full(4, 8.0))


def test_whether_arrays_share_memory():
    compiled = ad.jit(lambda x, y: x * 2.0 if np.shares_memory(x, y) else x * 3.0)
    a = np.ones(4)
    for x, y in ((a[:2], a[2:]), (a[:2], a[1:3]), (a, a), (a, a.copy()), (a[:2], a[1:3])):
        np.testing.assert_array_equal(compiled(x, y), compiled.f(x, y))


def weighted(d):
    """A result that depends on the order of the keys."""
    return sum((i + 1) * v for i, v in enumerate(d.values()))


def reordered(d):
    return dict(reversed(d.items()))


#: A function of a dict, and how a call passes it.
PASSED = {
    "dict": (weighted, lambda f, d: f(d)),
    "nested": (lambda t: weighted(t[0]["p"]), lambda f, d: f([{"p": d, "a": 1.0}])),
    "keywords": (lambda **d: weighted(d), lambda f, d: f(**d)),
    "keywords beside others": (lambda x, *, b, **d: weighted(d) + b * x, lambda f, d: f(2.0, **d)),
    "ordered": (weighted, lambda f, d: f(OrderedDict(d))),
    "numbers as keys": (weighted, lambda f, d: f({ord(k): v for k, v in d.items()})),
}


@pytest.mark.parametrize("name", PASSED)
def test_loops_over_a_dict_follow_its_order(name):
    f, call = PASSED[name]
    for first in ({"a": 1.0, "b": 2.0, "c": 5.0}, {"c": 1.0, "b": 2.0, "a": 5.0}):
        compiled = ad.jit(f)
        for _ in range(2):
            for d in (first, reordered(first), {"".join([*k, "x"])[:1]: v for k, v in first.items()}, first):
                assert call(compiled, d) == call(f, d)


def test_the_order_of_keywords_is_seen_by_functions_with_kwargs_only():
    compiled = ad.jit(lambda x, y: x - y)
    assert compiled(x=1.0, y=2.0) == compiled(y=2.0, x=1.0) == -1.0
    assert len(compiled.specializations) == 1


def test_derivatives_keep_the_order_of_a_dict():
    compiled = ad.jit(ad.grad(weighted))
    for d in ({"b": 2.0, "a": 1.0}, {"a": 1.0, "b": 2.0}):
        assert list(compiled(d).items()) == [(k, i + 1.0) for i, k in enumerate(d)]
        _, pull = ad.vjp(lambda d: d, d)
        assert pull(reordered(d))[0] == d  # cotangents may come in any order
