"""Loops and branches in machine code: carries in two buffers, for any number of iterations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.llvm.control import _LEAST_NEST, _Nest
from adjoint.compiler.lower.step import Scan

XS = np.linspace(-1.0, 1.0, 24).reshape(8, 3)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_carries_end_in_the_result_for_even_and_odd_numbers_of_iterations(length, reverse):
    def f(c, xs):
        return ad.scan(lambda c, x: ((c[0] * 0.5 + x, c[1] + np.sum(x)), c[0] * x), c, xs, reverse=reverse)

    args = (np.ones(3), 0.0), XS[:length]
    found, expected = ad.jit(f)(*args), f(*args)
    for a, b in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
        assert np.shape(a) == np.shape(b)


@pytest.mark.parametrize("limit", [0.0, 1.5, 10.0, 1e9])
def test_loops_of_unknown_length(limit):
    f = lambda x: ad.while_loop(lambda s: np.sum(s[0]) < limit, lambda s: (s[0] * 2 + 1, s[1] + 1), (x, 0))
    found, expected = ad.jit(f)(np.zeros(2)), f(np.zeros(2))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


def test_carries_that_swap():
    f = lambda a, b: ad.fori_loop(0, 5, lambda i, c: (c[1], c[0] + i), (a, b))
    for x, y in zip(ad.jit(f)(np.ones(2), np.zeros(2)), f(np.ones(2), np.zeros(2)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_branch_in_a_loop_in_a_branch():
    def f(x):
        inner = lambda i, c: ad.cond(c > 1.0, lambda c: c * 0.5, lambda c: c + x, c)
        return ad.cond(x > 0, lambda x: ad.fori_loop(0, 7, inner, x), lambda x: -x, x)

    compiled = ad.jit(f)
    for x in (0.3, -2.0, 5.0):
        assert compiled(x) == pytest.approx(f(x), rel=1e-15)


DTYPES = ["float64", "float32", "int64", "int32", "int8", "uint8", "uint64", "bool", "complex128", "float16"]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4),
    shapes=st.lists(st.sampled_from([(), (1,), (1, 1), (3,)]), min_size=4, max_size=4),
    length=st.integers(0, 5),
    turn=st.integers(0, 3),
    loop=st.sampled_from(["scan", "reverse", "while"]),
)
def test_numbers_and_arrays_are_carried_side_by_side(dtypes, shapes, length, turn, loop):
    """Numbers are in registers, arrays in two buffers; each iteration passes the carries of one dtype and shape round."""
    start = tuple(np.full(shape, k + 1, dtype) for k, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=False)))
    alike = [[j for j, b in enumerate(start) if (b.dtype, b.shape) == (a.dtype, a.shape)] for a in start]
    source = [group[(group.index(k) + turn) % len(group)] for k, group in enumerate(alike)]

    def step(carry, i):
        moved = tuple(carry[k] for k in source)
        return tuple(m if m.dtype == bool else (m + m * i).astype(m.dtype) for m in moved), carry[0]

    def f(start, xs):
        if loop == "while":
            body = lambda s: (s[0] + 1, step(s[1], s[0] % 2)[0])
            return ad.while_loop(lambda s: s[0] < length, body, (0, start))[1]
        return ad.scan(step, start, xs, reverse=loop == "reverse")

    xs = np.arange(length) % 2
    flat = lambda found: [*found] if loop == "while" else [*found[0], found[1]]
    for a, b in zip(flat(ad.jit(f)(start, xs)), flat(f(start, xs)), strict=True):
        assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_an_array_of_one_element_is_written_in_place(n, length):
    def f(x):
        def body(i, b):
            b[i % n] = np.sin(b[0]) + i
            return b

        return np.sum(ad.fori_loop(0, length, body, x))

    for transform in (lambda f: f, ad.grad):
        np.testing.assert_allclose(ad.jit(transform(f))(np.ones(n)), transform(f)(np.ones(n)), rtol=1e-14)


def test_numbers_inside_nested_loops():
    def f(x):
        def outer(i, c):
            inner = lambda j, d: (d[0] + d[1] * np.cos(d[0]), d[1] * 0.9 + i * j)
            a, b = ad.fori_loop(0, 3, inner, (c[0], c[1]))
            return a + c[2], b - c[0], np.where(a > b, a, b)

        return sum(ad.fori_loop(0, 4, outer, (x, x * x, 0.0 * x)))

    for transform in (lambda f: f, ad.grad, lambda f: ad.grad(ad.grad(f))):
        assert ad.jit(transform(f))(0.3) == pytest.approx(transform(f)(0.3), rel=1e-11)


def nests(f, *args):
    """The nests of the scans of a compiled program: iterations of the inner loop, and the steps of rows."""
    compiled = ad.jit(f)
    compiled(*args)
    ((program,),) = compiled.specializations.values()
    scans = [step for step in program.lowered.steps if isinstance(step, Scan)]
    return [(nest.inner, sorted(nest.steps.values())) for nest in (_Nest(step, False) for step in scans)]


def read_at(*rows, reverse=False):
    """A loop with a number and an array as carries, that reads and writes x at constant places."""

    numbers = [tuple(row.tolist()) for row in rows]

    def f(x):
        rows = [np.array(row) for row in numbers]  # constants: arrays from outside would be inputs

        def step(c, at):
            s, x = c
            y = np.sin(s + sum(x[i] for i in at))
            x = 1.0 * x
            x[at[0]] = y
            return (y, x), s * y

        (s, x), ys = ad.scan(step, (0.1 * x[0], 1.0 * x), tuple(rows), reverse=reverse)
        return np.sum(ys * np.arange(len(rows[0]))) + s + np.sum(x**2)

    return f


def tiled(outer, inner, by=3, step=1):
    """Rows that grow by `by` in the outer loop, and by `step` in the inner one."""
    return (30 + by * np.arange(outer)[:, None] + step * np.arange(inner)).ravel()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((tiled(5, 6), np.repeat(np.arange(5), 6)), (6, [0, 1])),
        ((tiled(5, 6, 1, -2), np.tile(np.arange(6), 5)), (6, [-2, 1])),
        ((np.arange(30),), (30, [1])),
        ((tiled(5, _LEAST_NEST), np.repeat(np.arange(5), _LEAST_NEST)), (_LEAST_NEST, [0, 1])),
        ((tiled(5, _LEAST_NEST - 1), np.repeat(np.arange(5), _LEAST_NEST - 1)), (1, [])),
        ((tiled(5, 6)[:-1], np.repeat(np.arange(5), 6)[:-1]), (1, [])),  # the last block is shorter
        ((np.append(tiled(4, 6), [3, 4, 5, 6, 7, 9]), np.repeat(np.arange(5), 6)), (1, [])),  # one is another step
        ((tiled(3, 8), np.repeat(np.arange(6), 4)), (4, [0, 1])),  # the shorter one of two
        ((np.zeros(30, int), np.arange(30)), (30, [0, 1])),
    ],
)
def test_rows_of_indices_in_a_nest(rows, expected, reverse):
    f = read_at(*rows, reverse=reverse)
    x = np.linspace(-1.0, 1.0, 60)
    assert nests(f, x) == [expected]
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), ad.grad(f)(x), rtol=1e-11, atol=1e-13)


def test_a_long_nest_looks_for_signals():
    """Long enough that the loop is cut into pieces between which it polls."""

    def f(x):
        def step(c, at):
            i, j = at
            s, x = 0.5 * np.sin(c[0]) + c[1][i], 1.0 * c[1]
            x[j] = s
            return (s, x), None

        rows = np.tile(np.arange(6), 30_000), np.repeat(np.arange(30_000) % 50, 6)
        s, x = ad.scan(step, (0.1 * x[0], 1.0 * x), rows)[0]
        return s + np.sum(x)

    x = np.linspace(-1.0, 1.0, 60)
    assert nests(f, x) == [(6, [0, 1])]
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-10)
