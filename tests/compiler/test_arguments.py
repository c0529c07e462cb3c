"""The arguments of a compiled function: their signature, static ones, and what no program takes."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.arguments import DEFAULT, Arguments, both_ways, own
from adjoint.core.errors import ArgumentError


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
