"""Zeros of masks win over infinite partials; zeros of arithmetic give nan. No derivative is a wrong finite number."""

import os

import numpy as np
import pytest
from night import asked

import adjoint as ad
import adjoint.numpy as anp
from adjoint.eager.origin import Marked, Sum
from adjoint.scipy.special import sici

extreme = pytest.importorskip("extreme", exc_type=ModuleNotFoundError)  # which needs mpmath


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


PROGRAMS = int(os.environ.get("ADJOINT_PROGRAMS", 0))
SEED = int(os.environ.get("ADJOINT_SEED", 0))


@pytest.mark.parametrize("share", ["eager", "compiled"])
def test_random_programs_at_extreme_points_are_as_near_as_promised_or_nan(share):
    count = max(400, PROGRAMS) if share == "eager" else max(400, PROGRAMS) // extreme.SHARE
    seeds = range(SEED, SEED + count) if share == "eager" else range(SEED, SEED + count * extreme.SHARE, extreme.SHARE)
    extreme.COUNTS.clear()
    for seed in seeds:
        if share == "compiled" or seed % extreme.SHARE:
            extreme.check(seed)
    assert extreme.COUNTS["right"] > 0.4 * extreme.COUNTS.total()
    assert extreme.COUNTS["as near as promised"] < 0.15 * extreme.COUNTS.total()


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_promised_is_little(order):
    """Underflow may cost a term where an argument is extreme, and nothing else may."""
    x = ("x",)
    assert extreme.verdict(2.0, ("/", ("*", x, x), x), 1e-200, 1) == "as near as promised"
    assert extreme.verdict(2.0, ("/", ("*", x, x), x), 1e-100, 1) == "wrong"
    lost = ("*", ("cos", ("/", ("*", x, x), x)), x)  # −5x for −3x: the cotangent of 1/x, about x³, underflows
    for at, is_joined, said in ((-4e-130, True, "as near as promised"), (-4e-130, False, "wrong"), (-4e-100, True, "wrong")):
        assert extreme.verdict(-5 * at, lost, at, 2, is_joined=is_joined) == said
    assert extreme.verdict(0.0, ("log", ("1 + ", ("exp", x))), 1000.0, order) == ("wrong" if order == 1 else "right")
    assert extreme.verdict(0.0, ("sqrt", ("*", x, x)), 1e200, 1) == "wrong"
    assert extreme.verdict(0.0, ("exp", ("-", ("square", x))), 100.0, order) == "as near as promised"
    for tree, at in ((("sqrt", ("square", x)), 1e-100), (("exp", x), -650.0), (("1/", x), 1e50), (("log", x), 1e-150)):
        with extreme.mp.workdps(60):
            exact = float(extreme.Exact(tree, at).result[order])
        if exact:
            assert extreme.verdict(exact, tree, at, order) == "right"
            assert extreme.verdict(exact * (1 + 1e-10), tree, at, order) == "wrong"


ARITHMETIC = {
    "overflow": (lambda x: np.log(1 + np.exp(x)), 1000.0),
    "overflow in a chosen branch": (lambda x: np.where(x > 0, np.log(1 + np.exp(x)), 0.0), 1000.0),
    "underflow": (lambda x: np.exp(-1 / x**2), 0.0),
    "square of a root": (lambda x: np.sqrt(x) ** 2, 0.0),
    "root of a square": (lambda x: np.sqrt(x**2), 0.0),
    "product of roots": (lambda x: np.sqrt(x) * np.sqrt(x), 0.0),
    "cosine of a root": (lambda x: np.cos(np.sqrt(x)), 0.0),
    "saturation": (lambda x: np.tanh(np.exp(x)), 1000.0),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_zero_of_arithmetic_does_not_win(name):
    f, x = ARITHMETIC[name]
    x = np.float64(x)
    assert np.isnan(ad.grad(f)(x))
    assert np.isnan(ad.jvp(f, (x,), (1.0,))[1])
    assert np.isnan(ad.grad(ad.grad(f))(x))
    assert np.isnan(ad.jit(ad.grad(f))(x))
    many = np.full((3, 2), x)
    assert np.isnan(ad.grad(lambda x: np.sum(f(x)))(many)).all()
    assert np.isnan(np.diagonal(ad.jacobian(f)(many[:, 0]))).all()
    assert np.isnan(ad.vmap(ad.grad(f))(many[:, 0])).all()
    large = np.full(1_200_000, 3.0)  # of which the tape keeps no more than it must
    large[7] = x
    found = ad.grad(lambda x: np.sum(f(x)))(large)
    assert np.isnan(found[7])
    assert np.isfinite(np.delete(found, 7)).all()


@pytest.mark.parametrize("name", ["overflow", "square of a root", "product of roots", "cosine of a root", "saturation"])
def test_a_partial_that_is_zero_does_not_end_an_infinite_tangent_in_a_graph(name):
    f, x = ARITHMETIC[name]
    forward = lambda x: ad.jvp(f, (x,), (1.0,))[1]
    assert np.isnan(ad.jit(forward)(x))
    assert np.isnan(ad.graph(forward)(0.5).run(x))


# In the last three, the tape gives nan, and the derivative is found elsewhere: it exists.
@pytest.mark.parametrize("seed", [*range(asked(1, at_night=24)), 610413, 810134, 1010199])
def test_compiled_programs_with_masks_give_what_a_tape_gives_or_nan(seed):
    extreme.check_masks(seed)


@pytest.mark.parametrize(
    "steps, x, slope",
    [
        (["softplus"], 1000.0, 1.0),
        (["softplus", "cube root"], -800.0, 0.0),
        (["fourth power"] * 5, -1.0, -1024.0),
        (["abs", "square"], 0.0, 0.0),
        (["1/", "1/"], 1e200, 1.0),
    ],
)
def test_slopes_with_numbers_that_do_not_overflow(steps, x, slope):
    def program(v, x, w, loop):
        for name in steps:
            v = extreme.SINGULAR[name](v)
        return v

    x = np.array([x, 1.0, 0.0])[: extreme.SIZE - 1 if "1/" in steps else extreme.SIZE]
    assert extreme.is_exact(program, x, np.eye(3), 0, slope)
    assert extreme.is_exact(program, x, np.eye(3), 0, slope + 0.01) is False


CHOSEN = np.array([True, False])
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])
TRIANGLE = np.array([[1.0, 1.0], [0.0, 2.0]])
ROOT = lambda x: np.sqrt(x) ** 2
LOOP = lambda f, x: ad.fori_loop(0, 2, lambda i, x: f(x), x)
WHILE = lambda f, x: ad.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]
SQUARE_BELOW = lambda v: np.where(v > 0.5, v, v**2)
#: Programs with the gradient at [0, 1]: the zeros of masks in them win, and those of arithmetic do not.
PROGRAMS_OF_ARRAYS = {
    "matrix product": (lambda x: np.sum(np.where(CHOSEN, MATRIX @ ROOT(x), 0.0)), [np.nan, 2.0]),
    "matrix product, computed mask": (lambda x: np.sum(np.where(x > 0.5, MATRIX @ ROOT(x), x)), [np.nan, 4.0]),
    "rows of a matrix product": (
        lambda x: np.sum(np.where(x[:, None] > 0, np.sqrt(x)[:, None] @ np.ones((1, 2)), 0.0)),
        [0.0, 1.0],
    ),
    "columns": (lambda x: np.sum(np.where(x > 0, np.ones((3, 1)) @ np.sqrt(x)[None], 0.0)), [0.0, 1.5]),
    "zeros of a matrix": (lambda x: np.sum(np.diag([0.0, 2.0]) @ np.sqrt(x)), [0.0, 1.0]),
    "zeros of a matrix and a mask": (lambda x: np.sum(np.where(x > 0, TRIANGLE @ np.sqrt(x), 0.0)), [0.0, 1.0]),
    "product of what is differentiated": (lambda x: np.sum(np.where(CHOSEN, (MATRIX * x) @ ROOT(x), 0.0)), [np.nan, 4.0]),
    "einsum": (lambda x: np.sum(np.where(CHOSEN, np.einsum("ij,j->i", MATRIX, ROOT(x)), 0.0)), [np.nan, 2.0]),
    "convolution": (lambda x: np.sum(np.convolve(ROOT(x), [1.0, 2.0])[1:]), [np.nan, 3.0]),
    "computed index": (lambda x: ROOT(x)[np.argmin(x)], [np.nan, 0.0]),
    "index not taken": (lambda x: np.sqrt(x)[np.argmax(x)], [0.0, 0.5]),
    "sums": (lambda x: np.sum(np.where(CHOSEN, np.cumsum(ROOT(x)), 0.0)), [np.nan, 0.0]),
    "sorted": (lambda x: np.sum(np.sort(ROOT(x)) * [1.0, 2.0]), [np.nan, 2.0]),
    "largest": (lambda x: np.max(np.sqrt(x)), [0.0, 0.5]),
    "inverse": (lambda x: np.sum(np.linalg.inv(np.diag(ROOT(x)) + MATRIX)), [np.nan, -2.0]),
    "loop": (lambda x: np.sum(LOOP(ROOT, x)), [np.nan, 1.0]),
    "loop with a mask": (lambda x: np.sum(LOOP(lambda v: np.where(v > 0.5, np.sqrt(v) * np.log(v) + v, v), x)), [1.0, 4.0]),
    "loop that is masked": (lambda x: np.sum(np.where(x > 0.5, LOOP(np.sqrt, x), x)), [1.0, 0.25]),
    "square of a loop": (lambda x: np.sum(LOOP(np.sqrt, x) ** 2), [np.nan, 0.5]),
    "loop of squares": (lambda x: np.sum(LOOP(np.square, np.sqrt(x))), [np.nan, 2.0]),
    "while": (lambda x: np.sum(WHILE(ROOT, x)), [np.nan, 1.0]),
    "square of a while loop": (lambda x: np.sum(WHILE(np.sqrt, x) ** 2), [np.nan, 0.5]),
    "while loop that is masked": (lambda x: np.sum(np.where(x > 0.5, WHILE(np.sqrt, x), x)), [1.0, 0.25]),
    "loop of squares with a mask": (lambda x: np.sum(LOOP(SQUARE_BELOW, np.sqrt(x))), [np.nan, 0.5]),
    "while loop of squares with a mask": (lambda x: np.sum(WHILE(SQUARE_BELOW, np.sqrt(x))), [np.nan, 0.5]),
    "loop behind a mask": (lambda x: np.sum(np.where(CHOSEN, LOOP(np.square, np.sqrt(x)), 0.0)), [np.nan, 0.0]),
    "one carry of a loop": (
        lambda x: np.sum(ad.fori_loop(0, 2, lambda i, c: (c[0] ** 2, c[1] + x), (np.sqrt(x), x))[0]),
        [np.nan, 2.0],
    ),
    "const of a loop": (
        lambda x: np.sum((lambda r: LOOP(lambda v: np.where(v > 0.5, v * r**2, r**2), x))(np.sqrt(x))),
        [np.nan, 3.0],
    ),
    "rows of a loop": (
        lambda x: np.sum(ad.scan(lambda c, r: (c, np.where(r > 0.5, r, r**2)), 0.0, np.sqrt(x))[1]),
        [np.nan, 0.5],
    ),
    "factor along an axis": (lambda x: np.sum(ROOT(x)[:, None] * TRIANGLE), [np.nan, 2.0]),
    "zeros of a factor along an axis": (lambda x: np.sum(np.sqrt(x)[:, None] * np.array([[0.0, 0.0], [0.0, 2.0]])), [0.0, 1.0]),
    "branch": (lambda x: np.sum(ad.cond(x[1] > 0.5, np.sqrt, np.exp, x) ** 2), [np.nan, 1.0]),
}


@pytest.mark.parametrize("name", PROGRAMS_OF_ARRAYS)
def test_zeros_of_masks_and_of_arithmetic_in_programs_of_arrays(name):
    f, expected = PROGRAMS_OF_ARRAYS[name]
    x = np.array([0.0, 1.0])
    np.testing.assert_allclose(ad.grad(f)(x), expected)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), expected)
    if name != "branch":  # which is decided when a graph is made
        np.testing.assert_allclose(ad.graph(ad.grad(f))(np.array([0.3, 1.2])).run(x), expected)
    for push in (lambda x, t: ad.jvp(f, (x,), (t,))[1], ad.jit(lambda x, t: ad.jvp(f, (x,), (t,))[1])):
        pushed = np.array([push(x, t) for t in np.eye(2)])
        known = ~np.isnan(pushed)
        np.testing.assert_allclose(pushed[known], np.array(expected)[known])


@ad.custom_vjp
def twice(v):
    return 2 * v


@ad.custom_vjp
def squared(v):
    return v**2


twice.defvjp(lambda v: (2 * v, None), lambda _, g: (2 * g,))
squared.defvjp(lambda v: (v**2, v), lambda v, g: (2 * g * v,))
OVERFLOW = lambda x: (x + 1) * 1e308 * 1e10
#: What opaque ops and custom rules hand on, at [0, 1]. A live zero may be one that the rule gives, or one that it was given.
OPAQUE_OPS = {
    "norm and a mask": (lambda x: (lambda v: np.sum((v * np.linalg.norm(v))[1:] ** 2))(np.sqrt(x)), [np.nan, 2.0]),
    "product and a mask": (lambda x: (lambda v: np.sum(np.where(x > 0.5, v + np.prod(v), 0.0)))(np.sqrt(x) ** 2), [np.nan, 1.0]),
    "product of a row": (lambda x: np.sum(np.where(x > 0.5, np.prod(ROWS * np.sqrt(x)[:, None], axis=1), 0.0)), [0.0, 1.5]),
    "norm of a row": (
        lambda x: np.sum(np.where(x > 0.5, np.linalg.norm(ROWS * np.sqrt(x)[:, None], axis=1), 0.0)),
        [0.0, np.sqrt(3) / 2],
    ),
    "cumulative product": (lambda x: np.cumprod(np.sqrt(x)[::-1])[0], [np.nan, 0.5]),
    "inverse of one of several": (
        lambda x: np.sum(np.where((x > 0.5)[:, None, None], np.linalg.inv(EYES * np.sqrt(x)[:, None, None] + MATRIX), 0.0)),
        [0.0, -0.1875],
    ),
    "determinant of one of several": (
        lambda x: np.sum(np.where(x > 0.5, np.linalg.det(EYES * np.sqrt(x)[:, None, None] + MATRIX), 0.0)),
        [0.0, 3.5],
    ),
    "system": (lambda x: np.sum(np.linalg.solve(np.eye(2), np.sqrt(x)) ** 2), [np.nan, 1.0]),
    "function with several results": (lambda x: np.sum(np.where(x > 0.5, sici(np.sqrt(x))[0], 0.0)), [0.0, np.sin(1) / 2]),
    "largest, of a live zero": (lambda x: np.max(np.sqrt(x) * np.array([1.0, -1.0])) ** 2, [np.nan, 0.0]),
    "sorted, of a live zero": (lambda x: np.sum(np.sort(np.sqrt(x)) ** 2), [np.nan, 1.0]),
    "median, of a live zero": (lambda x: np.median(np.concatenate([np.sqrt(x), [-1.0]])) ** 2, [np.nan, 0.0]),
    "custom rule behind a mask": (lambda x: np.sum(np.where(x > 0.5, twice(np.sqrt(x)), 0.0)), [0.0, 1.0]),
    "custom rule with a zero": (lambda x: np.sum(squared(np.sqrt(x))), [np.nan, 1.0]),
    "custom rule, of a live zero": (lambda x: np.sum(twice(np.sqrt(x)) ** 2), [np.nan, 4.0]),
    "checkpoint with a zero": (lambda x: np.sum(ad.checkpoint(np.square)(np.sqrt(x))), [np.nan, 1.0]),
    "checkpoint, of a live zero": (lambda x: np.sum(ad.checkpoint(np.sqrt)(x) ** 2), [np.nan, 1.0]),
    "checkpoint behind a mask": (lambda x: np.sum(np.where(x > 0.5, ad.checkpoint(np.sqrt)(x), 0.0)), [0.0, 0.5]),
    "mask before a checkpoint": (
        lambda x: np.sum(np.where(x > 0.5, ad.checkpoint(np.square)(np.sqrt(x)), 0.0)),
        [0.0, 1.0],
    ),
    "checkpoint with a mask": (lambda x: np.sum(ad.checkpoint(lambda v: np.where(v > 0.5, v, 0.0))(np.sqrt(x))), [0.0, 0.5]),
    "index behind a loop": (lambda x: np.sum(LOOP(np.square, np.sqrt(x)[np.array([1, 0])])), [np.nan, 2.0]),
    "largest of nan": (lambda x: np.max(np.stack([x[0] / x[0], x[1]])), [np.nan, np.nan]),
    "largest of overflows": (lambda x: np.max(OVERFLOW(x)), [np.nan, np.nan]),
    "median of overflows": (lambda x: np.median(OVERFLOW(x)), [np.nan, np.nan]),
    "larger of two overflows": (lambda x: np.maximum(*OVERFLOW(x)), [np.nan, np.nan]),
    "sorted overflows": (lambda x: np.sum(np.sort(OVERFLOW(x)) * [1.0, 2.0]), [np.nan, np.nan]),
    "least of an overflow and a number": (lambda x: np.min(np.stack([OVERFLOW(x[0]), x[1]])), [0.0, 1.0]),
}
ROWS, EYES = np.ones((2, 3)), np.broadcast_to(np.eye(2), (2, 2, 2))


@pytest.mark.parametrize("name", OPAQUE_OPS)
def test_zeros_that_opaque_ops_hand_on(name):
    f, expected = OPAQUE_OPS[name]
    x = np.array([0.0, 1.0])
    np.testing.assert_allclose(ad.grad(f)(x), expected)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), expected)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(np.stack([x, x + 0.7]))[0], expected)


@pytest.mark.parametrize("n", [10, 300])
def test_large_factors_count_as_without_zeros(n):
    """Behind a computed mask, zeros of a matrix of more than 65,536 elements that is an input are not looked at: then nan."""
    f = lambda x, w: np.sum(np.where(x > 0.5, w @ np.sqrt(x), 0.0))
    w, x = np.eye(n), np.ones(n)
    x[3] = 0.0
    g = ad.jit(ad.grad(f))(x, w)
    expected = np.where(x > 0.5, 0.5, 0.0 if n * n <= 1 << 16 else np.nan)
    np.testing.assert_allclose(g, expected)
    np.testing.assert_allclose(ad.jit(ad.grad(lambda x: f(x, w)))(x), expected)


@pytest.mark.parametrize("n", [1000, 100_000])
def test_masks_of_any_size_go_through_sums_and_indices(n):
    x = np.ones(n)
    x[5] = 0.0
    at = np.arange(0, n, 2)
    for f, inside in (
        (lambda x, at: np.sum(np.where(x[:-1] > 0.5, np.sqrt(x)[:-1], 0.0)), 0.0),
        (lambda x, at: np.sum(np.where(x > 0.5, np.roll(np.roll(np.sqrt(x), 1), -1), 0.0)), 0.0),
        (lambda x, at: np.sum(np.sqrt(x)[at]), 0.0),
        (lambda x, at: np.sum((np.sqrt(x) ** 2)[1:]), np.nan),
        (lambda x, at: np.sum((np.sqrt(x) ** 2)[at + 1]), np.nan),
        (lambda x, at: np.sum(np.cumsum(np.sqrt(x) ** 2)[-1:]), np.nan),
    ):
        g = ad.jit(ad.grad(f))(x, at)
        np.testing.assert_equal(g[5], inside)
        np.testing.assert_allclose(np.delete(g, 5), np.delete(ad.grad(f)(np.ones(n), at), 5))


def test_a_compiled_checkpoint_passes_masks_on():
    f = lambda x: np.sum(ad.checkpoint(SQUARE_BELOW)(np.sqrt(x)))
    np.testing.assert_allclose(ad.jit(ad.grad(f))(np.array([0.0, 1.0])), [np.nan, 0.5])
    g = lambda x: np.sum(ad.checkpoint(lambda v: np.where(v > 0.5, v, 0.0))(np.sqrt(x)))
    np.testing.assert_allclose(ad.jit(ad.grad(g))(np.array([0.0, 1.0])), [0.0, 0.5])


@pytest.mark.parametrize("loop", [LOOP, WHILE])
def test_an_overflow_outside_a_loop_or_in_an_earlier_iteration_is_one_inside(loop):
    x = np.array([1e200, 2.0])
    for f in (
        lambda x: (lambda c: np.sum(loop(lambda v: v / c, x)))(x * x),
        lambda x: np.sum(loop(lambda v: 1 / (v * v), x)),
    ):
        expected = ad.grad(lambda x, f=f: f(x[1:]))(x)[1]
        for g in (ad.grad(f)(x), ad.jit(ad.grad(f))(x)):
            assert np.isnan(g[0])
            assert np.isnan(g[1]) or np.isclose(g[1], expected)


FACTORS = {
    "constant factor": lambda x: np.sum(np.sqrt(x * np.array([0.0, 1.0]))),
    "zeroth power": lambda x: np.sum(np.log(np.abs(x ** np.array([0.0, 1.0]) - np.array([1.0, 0.0])))),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_constant_zero_ends_an_infinite_cotangent_in_a_graph_too(name):
    x = np.array([2.0, 4.0])
    derivative = ad.grad(FACTORS[name])
    expected = [0.0, 0.25]
    np.testing.assert_array_equal(derivative(x), expected)
    np.testing.assert_array_equal(ad.graph(derivative)(x).run(x), expected)
    np.testing.assert_array_equal(ad.jit(derivative)(x), expected)


MASKS = {
    "not chosen": lambda x: np.sum(np.where(x > 0, np.log(1 + np.exp(1 / x)), x)),
    "multiplied by zero": lambda x: np.sum((x > 0) * np.sqrt(x) ** 3 + x),
    "not picked": lambda x: np.sum((np.sqrt(x) ** 2)[x > 0]) + np.sum(x[x <= 0]),
    "not the largest": lambda x: np.sum(np.maximum(np.cos(np.sqrt(x)) - 9, x)),
    "a row of a product": lambda x: np.sum(np.where(x[:, None] > 0, np.sqrt(x)[:, None] @ np.ones((1, 2)), x[:, None] / 2)),
    "nested": lambda x: np.sum(np.where(x > 0, np.where(x > 1, np.sqrt(x) * np.log(x), x), x)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("n", [5, 400_000])
def test_a_zero_of_a_mask_wins(name, n):
    f = MASKS[name]
    x = np.where(np.arange(n) % 5 == 2, 0.0, 0.5 + np.arange(n) % 7)
    g = ad.grad(f)(x)
    assert (g[x == 0] == 1).all()
    assert np.isfinite(g).all()
    if n < 100:
        np.testing.assert_allclose(ad.jacfwd(f)(x), g)
        hessian = ad.hessian(f)(x)
        assert np.isfinite(hessian).all()
        assert (np.diagonal(hessian)[x == 0] == 0).all()
        if name != "not picked":  # whose shape depends on the numbers
            np.testing.assert_allclose(ad.vmap(ad.grad(f))(np.stack([x, x]))[1], g)


COMPLEX_STEPS = {
    "imag": np.imag,
    "real": np.real,
    "conj": np.conj,
    "abs": np.abs,
    "fft": np.fft.fft,
    "irfft": np.fft.irfft,
    "a part of a product": lambda z: np.outer(z, z).imag,
    "reversed": lambda z: z.imag[::-1],
}


@pytest.mark.parametrize("factor", [1 + 2j, 2j, 1.5])
@pytest.mark.parametrize("name", COMPLEX_STEPS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_cotangent_passes_between_real_and_complex_numbers(name, factor, dtype):
    """Compiled as eager, and as the central difference."""

    def f(x):
        y = np.sin(COMPLEX_STEPS[name](x * factor))
        return np.sum(np.real(y) * 1.3) + np.sum(np.imag(y * (2 - 1j)))

    x, v = np.array([0.3, -0.7, 1.1, 0.2]).astype(dtype), np.array([0.5, -1.0, 0.25, 0.75])
    gradient = ad.grad(f)(x)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), gradient, rtol=1e-12)
    np.testing.assert_allclose(np.real(gradient @ v), (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6, rtol=1e-6, atol=1e-8)


def test_masks_of_long_chains_are_found_without_recursion():
    chain = Marked(lambda: np.array([True, False]))
    for _ in range(5000):
        chain = Sum(chain, Marked(lambda: np.array([False, False])))
    assert chain.mask.tolist() == [True, False]
    again = Marked(lambda: np.array([True, False]))
    for _ in range(5000):
        again = Sum(again, Marked(lambda: np.array([False, False])))
    assert again.live.tolist() == [True, False]


def _with_part(name):
    """Write to one part of a complex array: in place, through a view."""

    def f(z):
        v = z * (1 + 2j)
        part = np.real(v) if name == "real" else np.imag(v)
        np.sin(part, out=part)
        return np.sum(np.real(v) * 2 + np.imag(v) * 3)

    return f


def _made_of_parts(name):
    def f(x):
        z = anp.zeros(3, dtype=complex) + np.real(x)
        setattr(z, name, np.sin(np.real(x)))
        return np.sum(np.abs(z) ** 2) + np.sum(np.imag(z * z))

    return f


@pytest.mark.parametrize(
    "f",
    [
        _with_part("real"),
        _with_part("imag"),
        _made_of_parts("real"),
        _made_of_parts("imag"),
        lambda z: np.sum(np.abs(np.nan_to_num(z * 1j)) ** 2),
        lambda z: np.sum(np.abs(np.interp(np.real(z), np.array([-1.0, 1.0]), np.array([1j, 2 + 3j]))) ** 2),
        lambda z: np.sum(np.imag(np.sign(z) * z)),
        lambda z: np.sum(np.imag(np.fft.fft(np.real(z))) ** 2),
        lambda z: np.sum(np.fft.irfft(z) ** 3),
    ],
    ids=["write real", "write imag", "set real", "set imag", "nan_to_num", "interp", "sign", "fft", "irfft"],
)
def test_parts_of_complex_numbers_are_live(f):
    """Marks of a complex cotangent have both parts: with a real one, the imaginary part of a gradient was masked."""
    z, t = np.array([0.3 + 0.2j, -0.5 + 1j, 0.7 - 0.4j]), np.array([1 + 0.5j, -2 + 1j, 0.5 - 3j])
    step = 1e-6
    expected = (f(z + step * t) - f(z - step * t)) / (2 * step)
    pushed = lambda z, t: ad.jvp(f, (z,), (t,))[1]
    for gradient in (ad.grad(f), ad.jit(ad.grad(f)), ad.graph(ad.grad(f))(z)):
        np.testing.assert_allclose(np.sum(np.real(gradient(z) * t)), expected, rtol=1e-7)
    for run in (pushed, ad.jit(pushed)):
        np.testing.assert_allclose(run(z, t), expected, rtol=1e-7)
