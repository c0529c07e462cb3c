"""Zeros around a value, writes at an index, arrays side by side."""

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(0)


def steps(f, *xs):
    return ad.jit(f).lower(*xs).lowered.steps


def test_the_gradient_of_a_stencil_is_one_pass():
    """Each slice gives zeros with a part in them: they are added point by point, and none of them is stored."""
    f = ad.grad(lambda x: np.sum((x[1:] - x[:-1]) ** 2))
    x = RNG.normal(size=100)
    (kernel,) = steps(f, x)
    assert kernel.domain == (100,)
    assert sum(line.kind == "window" for line in kernel.code) == 2
    assert len(kernel.stores) == 1
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)


def _padded(u):
    return u + 0.1 * np.pad(u[2:] - 2 * u[1:-1] + u[:-2], [(1, 1)] + [(0, 0)] * (u.ndim - 1))


def _in_place(u):
    u = u * 1.0
    u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def _written_in_full(u):
    new = u * 1.0
    new[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return new


def _periodic(u):
    return u + 0.1 * (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
@pytest.mark.parametrize("shape", [(4,), (300,), (70, 9)], ids=str)
@pytest.mark.parametrize("step", [_padded, _in_place, _written_in_full, _periodic])
def test_one_step_of_a_stencil_is_one_pass_both_ways(step, shape, dtype):
    """The multiple of the cotangent that its neighbours read is computed where they read it."""

    def f(u):
        for _ in range(20):
            u = step(u)
        return np.sum(u * u)

    u = RNG.normal(size=shape).astype(dtype)
    gradient = ad.jit(ad.grad(f))
    np.testing.assert_allclose(gradient(u), ad.grad(f)(u), rtol=1e-4 if dtype is np.float32 else 1e-12)
    loops = [found for found in gradient.lower(u).lowered.steps if hasattr(found, "body")]
    assert len(loops) == 2
    for loop in loops:
        (kernel,) = loop.body.steps
        assert len(kernel.stores) == 1


@pytest.mark.parametrize("number", [0.0, -0.0, np.nan, np.inf, 2.5])
@pytest.mark.parametrize("index", [slice(1, -1), (slice(None), 0), (2, 1), (), (slice(1, 1),)], ids=str)
def test_a_number_is_written_in_the_pass_that_reads_it(index, number):
    def f(x):
        x = x * 3.0
        x[index] = number
        return x, x + 1.0

    x = RNG.normal(size=(6, 3))
    if np.size(x[index]):
        assert len(steps(f, x)) == 1
    for got, wanted in zip(ad.jit(f)(x), f(x), strict=True):
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("zeros, passes", [(1, 1), (10, 1), (11, 2), (80, 2)])
def test_a_cheap_value_is_computed_again_in_a_frame_that_is_not_much_larger(zeros, passes):
    f, x = lambda x: np.pad(x * x + 1.0, (0, zeros)), RNG.normal(size=10)
    assert len(steps(f, x)) == passes
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-14)


def test_a_write_without_steps_is_a_choice():
    def f(x, v):
        x = np.sin(x)
        x[2:5, 1] = v
        return x * 2

    x, v = RNG.normal(size=(6, 3)), RNG.normal(size=3)
    (kernel,) = steps(f, x, v)
    assert sum(line.kind == "window" for line in kernel.code) == 1
    np.testing.assert_allclose(ad.jit(f)(x, v), f(x, v), rtol=1e-14)


def test_a_write_with_steps_is_a_copy_and_a_write():
    def f(x, v):
        x = np.sin(x)
        x[::2] = v
        return x

    x, v = RNG.normal(size=6), RNG.normal(size=3)
    copy, write = steps(f, x, v)
    assert copy.domain == (6,)
    assert write.domain == (3,)
    np.testing.assert_allclose(ad.jit(f)(x, v), f(x, v), rtol=1e-14)


def test_pieces_are_computed_in_their_place():
    f = lambda x, y: np.concatenate([np.sin(x), np.cos(y), x])
    x, y = RNG.normal(size=5), RNG.normal(size=7)
    first, second = steps(f, x, y)  # x and its sine share a pass
    assert [s.view.offset for k in (first, second) for s in k.stores] == [0, 12, 5]
    assert ad.jit(f).lower(x, y).lowered.arena == 0
    np.testing.assert_allclose(ad.jit(f)(x, y), f(x, y), rtol=1e-14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(1,), (5,), (70,), (4, 6), (33, 40), (3, 1, 5)])
@pytest.mark.parametrize("by", [0, 1, -1, 3, -7, 100])
def test_cyclic_shifts_are_windows(shape, by):
    weights = RNG.normal(size=shape)
    everywhere = tuple(range(len(shape)))

    def f(x):
        shifts = [(by, axis) for axis in (None, *everywhere)] + [((by,) * len(shape), everywhere)]
        return [np.roll(np.sin(x), moves, axes) * x + np.roll(x, moves, axes) for moves, axes in shifts]

    x, compiled = RNG.normal(size=shape), ad.jit(f)
    for given in (x, np.asfortranarray(x), x[::-1]):
        for got, wanted in zip(compiled(given), f(given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
    total = lambda x: sum(np.sum(y * (weights + i)) for i, y in enumerate(f(x)))
    gradient = ad.jit(ad.grad(total))
    np.testing.assert_allclose(gradient(x), ad.grad(total)(x), rtol=1e-12, atol=1e-12)
    assert "calls NumPy" not in gradient.report()


def test_shifts_keep_signed_zeros_and_dtypes():
    for x in (np.array([-0.0, 1.0, 0.0]), np.arange(4), np.array([True, False, False]), np.zeros((0, 3)), np.array([1j, 2.0])):
        got, wanted = ad.jit(lambda x: np.roll(x, 1))(x), np.roll(x, 1)
        assert (got.dtype, got.tobytes()) == (wanted.dtype, wanted.tobytes())


def test_numbers_written_to_bools_are_compared_with_zero():
    def f(y):
        v = np.empty_like(y)
        v[...] = y * 2
        v[1:] = (y * 6)[1:]
        return v

    for y in (np.array([True, True, False]), np.array([True])):
        compiled = ad.jit(f)
        np.testing.assert_array_equal(compiled(y), f(y))
        assert "runs eagerly" not in compiled.report()
