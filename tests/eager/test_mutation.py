"""Arrays of the user's that are written to while a function runs, or after it: the right derivative or an error."""

import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.eager import mutation as watch
from adjoint.eager.mutation import SMALL, is_immutable

HUGE = 100_005
SIZES = [3, 256, 257, 5000, HUGE]


@pytest.fixture
def large(monkeypatch):
    """Arrays that are too large to be copied, of a size that tests can afford."""
    monkeypatch.setattr(watch, "LARGE", HUGE - 5)


WRITES = {
    "an element": lambda v: v.__setitem__(-1, 9.0),
    "all": lambda v: v.__setitem__(..., 7.0),
    "two swapped": lambda v: v.__setitem__([0, 2], v[[2, 0]]),
    "backwards": lambda v: v.__setitem__(slice(None), v[::-1].copy()),
    "one bit": lambda v: v.__setitem__(1, np.nextafter(v[1], 9.0)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("n", SIZES)
def test_a_constant_is_written_through_an_earlier_view(n, write):
    start = np.linspace(0.1, 1.0, n)
    w = start.copy()
    earlier = w[:]

    def f(x):
        w[...] = start
        y = x * w
        write(earlier)
        return np.sum(y * y) / 2

    x = np.ones(n)
    np.testing.assert_array_equal(ad.grad(f)(x), start * start)
    np.testing.assert_array_equal(ad.vjp(f, x)[1](1.0)[0], start * start)
    assert w.flags.writeable


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_huge_constant_is_noticed(large, write):
    w = np.linspace(0.1, 1.0, HUGE)
    earlier = w[:]

    def f(x):
        y = x * w
        write(earlier)
        return np.sum(y)

    with pytest.raises(ad.AdjointError, match=r"large NumPy array .* adjoint.numpy.*test_mutation.py:\d+"):
        ad.grad(f)(np.ones(HUGE))
    assert w.flags.writeable


def test_a_huge_constant_that_changes_between_two_uses(large):
    w = np.ones(HUGE)

    def f(x):
        y = x * w
        w[0] += 1.0
        y = y * w
        w[0] -= 1.0
        return np.sum(y)

    with pytest.raises(ad.AdjointError, match="large NumPy array"):
        ad.grad(f)(np.ones(HUGE))


def test_a_buffer_is_used_again_and_again():
    def f(x):
        buffer, total = np.empty(1000), 0.0
        for k in range(1, 5):
            buffer[:] = k
            total = total + np.sum(x * buffer)
        return total

    np.testing.assert_array_equal(ad.grad(f)(np.ones(1000)), np.full(1000, 10.0))


def test_an_unchanged_constant_is_kept_once():
    w = np.ones(5000)
    seen = []

    def f(x):
        for _ in range(10):
            x = x * w
            seen.append(id(x.aux.saved[2]))
        return np.sum(x)

    ad.grad(f)(np.ones(5000))
    assert len(set(seen)) == 1


def test_an_immutable_constant_is_not_copied():
    w = np.frombuffer(np.ones(5000).tobytes())
    seen = []

    def f(x):
        y = x * w
        seen.append(y.aux.saved[2] is w)
        return np.sum(y)

    ad.grad(f)(np.ones(5000))
    assert seen == [True]
    assert is_immutable(w[::2])
    assert not is_immutable(np.ones(3))
    assert not is_immutable(np.broadcast_to(np.ones(3), (2, 3)))


@pytest.mark.parametrize("size", [3, SMALL, SMALL + 1, 5000])
@pytest.mark.parametrize("by_view", [False, True])
def test_a_read_only_constant_that_is_made_writeable_again(size, by_view):
    def f(x):
        w = np.ones(size)
        view = w[:]
        w.flags.writeable = False
        y = np.sum(x * w)
        if by_view:
            view[:] = 7.0
        else:
            w.flags.writeable = True
            w[:] = 7.0
        return y

    np.testing.assert_array_equal(ad.grad(f)(np.ones(size)), np.ones(size))


def test_other_threads_may_write_to_a_constant():
    """What another thread does to an array is its own affair: no flag is touched."""
    w = np.ones(5000)
    errors, go, done = [], threading.Event(), threading.Event()

    def other():
        go.wait()
        try:
            w[0] = 2.0
        except ValueError as error:
            errors.append(error)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def f(x):
        y = x * w
        go.set()
        done.wait()
        return np.sum(y)

    np.testing.assert_array_equal(ad.grad(f)(np.ones(5000)), np.ones(5000))
    thread.join()
    assert not errors


@pytest.mark.parametrize("n", [3, 1000, HUGE])
@pytest.mark.parametrize(
    "transform", [ad.grad, ad.value_and_grad, ad.elementwise_grad, lambda f: lambda x: ad.jvp(f, (x,), (x.copy(),))]
)
def test_an_argument_is_written_to_by_another_name(large, transform, n):
    w = np.ones(n)

    def f(x):
        y = x * x
        w[0] = 5.0
        return np.sum(y * x)

    with pytest.raises(ad.AdjointError, match="argument 0 was written to"):
        transform(f)(w)


@pytest.mark.parametrize("n", [3, 4096])
def test_an_argument_that_is_not_differentiated_is_the_function_s_own(n):
    data, more = np.ones(n), np.ones(n)

    def f(w, x, *, y):
        x -= 0.5
        y *= 4.0
        return np.sum(w * x * y)

    np.testing.assert_array_equal(ad.grad(f)(np.ones(n), data, y=more), np.full(n, 2.0))
    np.testing.assert_array_equal(ad.value_and_grad(f)(np.ones(n), data, y=more)[1], np.full(n, 2.0))
    assert (data == 1.0).all()
    assert (more == 1.0).all()


@pytest.mark.parametrize("given", [lambda x: x, lambda x: x[:10], lambda x: (x, 1.0)])
def test_a_large_argument_that_is_not_differentiated_is_read_only(given):
    data = np.ones(5000)

    def f(w, x):
        x = x[0] if isinstance(x, tuple) else x
        x -= 1.0
        return np.sum(w) * np.sum(x)

    with pytest.raises(ad.AdjointError, match=r"test_mutation.py:\d+ writes to a read-only array.*X - 1"):
        ad.grad(f)(np.ones(3), given(data))
    assert (data == 1.0).all()
    assert data.flags.writeable


def test_a_list_that_the_function_adds_to_is_the_user_s():
    log = [np.ones(2)]
    ad.grad(lambda w, log: log.append(1.0) or np.sum(w * w))(np.ones(2), log)
    assert len(log) == 2


def test_read_only_errors_of_user_code_are_unchanged():
    fixed = np.broadcast_to(1.0, 3)

    def f(w):
        fixed[0] = 2.0

    with pytest.raises(ValueError, match="read-only") as error:
        ad.grad(f)(np.ones(3))
    assert not isinstance(error.value, ad.AdjointError)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("large", [1 << 22, 100])
@pytest.mark.parametrize("shape", [(30, 40), (5,), (70001, 3)])
def test_marks_tell_any_write(shape, large, order, dtype, monkeypatch):
    monkeypatch.setattr(watch, "LARGE", large)
    rng = np.random.default_rng(3)
    x = np.asarray(rng.normal(size=shape), dtype, order=order)
    before = watch.mark(x)
    assert watch.is_same(x, before)
    for _ in range(20):
        at = tuple(rng.integers(0, n) for n in shape)
        was = x[at]
        x[at] = was + 1
        assert not watch.is_same(x, before)
        x[at] = was
        assert watch.is_same(x, before)
    x[...] = x[::-1].copy()
    assert not watch.is_same(x, before)
