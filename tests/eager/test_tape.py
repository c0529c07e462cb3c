"""Reverse mode: what is saved, what is freed, how deep it goes, what it costs."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from night import AT_NIGHT

import adjoint as ad
import adjoint.numpy as anp
from adjoint.eager.tape import ROOM, Node, Tape


def saved(f, *xs):
    """The arrays that the last node of f keeps."""
    with Tape("test") as tape:
        y = f(*[tape.leaf(x) for x in xs])
    return [v for v in y.aux.saved if isinstance(v, (np.ndarray, np.generic))]


X = np.array([0.5, 1.5])


@pytest.mark.parametrize(
    "f, count",
    [
        (lambda x: np.exp(x), 1),  # the result
        (lambda x: np.sin(x), 1),  # the argument
        (lambda x: x + 1.0, 0),
        (lambda x: -x, 0),
        (lambda x: x * 2.0, 0),
        (lambda x: x * X, 1),  # the constant
        (lambda x: x * x, 2),
        (lambda x: np.tanh(x), 1),
        (lambda x: x.reshape(2, 1), 0),
        (lambda x: x.sum(), 0),
        (lambda x: x[0], 0),
        (lambda x: np.concatenate([x, x]), 0),
        (lambda x: np.ones((3, 2)) @ x, 1),
    ],
)
def test_nodes_hold_only_what_the_backward_pass_needs(f, count):
    assert len(saved(f, X)) == count


def test_dead_intermediate_values_are_freed_at_once():
    alive = []

    def f(x):
        y = x + 1.0
        alive.append(weakref.ref(y.underlying))
        y = y + 1.0
        gc.collect()
        alive.append(alive[0]() is None)
        return np.sum(y)

    ad.grad(f)(X)
    assert alive[1]


def test_unreachable_branches_are_freed():
    nodes = []

    def f(x):
        dead = np.sin(np.cos(x))
        nodes.append(weakref.ref(dead.aux))
        del dead
        gc.collect()
        nodes.append(nodes[0]() is None)
        return np.sum(x)

    ad.grad(f)(X)
    assert nodes[1]


def test_long_chains():
    length = 1_000_000 if AT_NIGHT else 200_000

    def chain(x):
        y = x
        for _ in range(length):
            y = y + 1 / length
        return y * y

    assert ad.grad(chain)(1.0) == pytest.approx(4.0)


def test_a_long_chain_that_is_never_pulled_is_freed_without_recursion():
    def chain(x):
        y = x
        for _ in range(200_000):
            y = y * 1.0
        return y

    ad.vjp(chain, 1.0)
    ad.jvp(chain, (1.0,), (1.0,))


def test_peak_memory_of_a_chain():
    n, depth = 100_000, 50

    def chain(x):
        y = x
        for _ in range(depth):
            y = np.sin(y)
        return np.sum(y)

    x = np.linspace(0.1, 0.9, n)
    ad.grad(chain)(x[:10])
    tracemalloc.start()
    ad.grad(chain)(x)
    peak = tracemalloc.get_traced_memory()[1] / x.nbytes
    tracemalloc.stop()
    assert peak <= depth - 1 + 3.2  # what is saved besides the input, and three arrays


def test_reading_every_element_is_linear():
    """The cotangents of x[i] are added in place: no zeros are made for each."""

    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] * x[i]
        return total

    n = 2000
    x = np.arange(float(n))
    np.testing.assert_array_equal(ad.grad(f)(x), 2 * x)
    tracemalloc.start()
    ad.grad(f)(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * n  # far below n arrays of n doubles (16 MB for each thousand)


def test_building_an_array_from_scalars():
    def f(x):
        return np.sum(anp.array([x[i] * 2 for i in range(len(x))]) ** 2)

    x = np.arange(500.0)
    np.testing.assert_array_equal(ad.grad(f)(x), 8 * x)


def test_node_repr():
    with Tape("test") as tape:
        y = np.sin(tape.leaf(X))
    assert repr(y.aux) == "<node sin float64[2]>"
    assert isinstance(y.aux, Node)


def overwrites_a_buffer(n):
    def f(x):
        buffer = np.zeros(n)
        y = 0.0
        for i in range(3):
            buffer[:] = i + 1.0
            y = y + x * buffer
        return np.sum(y)

    return f


def test_a_small_constant_may_be_overwritten_later():
    np.testing.assert_array_equal(ad.grad(overwrites_a_buffer(3))(np.ones(3)), [6, 6, 6])


def test_the_arrays_a_pullback_keeps_are_its_own():
    c = np.linspace(1.0, 2.0, 5000)
    whole, rows = c.reshape(50, 100), np.ones((2, 5000))
    expected = c.copy()
    _, pull = ad.vjp(lambda x: np.sum(x * c + x * whole.T.T.ravel() + x * rows[0]), np.ones(5000))
    c[:], rows[:] = 7.0, 7.0
    np.testing.assert_allclose(pull(1.0)[0], 2 * expected + 1, rtol=1e-14)
    assert c.flags.writeable
    assert whole.flags.writeable


def test_writing_to_a_part_of_a_captured_array_after_it_was_read():
    rows = np.ones((2, 1000))

    def f(x):
        y = x * rows[0]
        rows[0] = 5.0
        return np.sum(y)

    np.testing.assert_array_equal(ad.grad(f)(np.ones(1000)), np.ones(1000))


def test_a_recording_is_simple_while_it_is_little():
    with Tape("test") as tape:
        x = tape.leaf(np.ones(10_000))
        y = np.sin(x)
        assert tape.simple
        for _ in range(ROOM // 10_000):
            y = np.sin(y)
        assert not tape.simple


def test_parts_of_a_number_are_all_counted():
    """A number that is read as an array, and as itself in between: what arrives is added in place, or not, in any order."""

    def f(x):
        first, again = x[None], x[None]
        return np.sum(np.sin(first)) + np.sin(x) + np.sin(x * 1.0) + np.sin(x) + np.sum(np.sin(again)) + np.sin(x)

    for order in (f, lambda x: np.sum(x[None] * 2.0) + x * 3.0 + np.sum(x[None, None] * 5.0) + x * 7.0 + np.sum(x[None] * 11.0)):
        x = np.float64(0.3)
        eps = 1e-6
        np.testing.assert_allclose(ad.grad(order)(x), (order(x + eps) - order(x - eps)) / (2 * eps), rtol=1e-8)
