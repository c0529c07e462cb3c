"""Random programs: eager = graph = simplified graph = parsed graph, in value and in both derivatives.

A program is a short list of steps over a pool of values, each a function of one or two of them. Hypothesis draws
a hundred of them, at night thousands, in shards that can run side by side, and shrinks what fails to a few steps.
"""

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from night import AT_NIGHT, examples

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import parse
from adjoint.rewrite.simplify.rules import RULES

SHARDS, PER_SHARD = (13, 155) if AT_NIGHT else (2, 50)
SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (3, 3), (2, 1, 3), (0,), (2, 0)]
SPECIAL = np.array([0.0, -0.0, np.inf, 1.0, -np.inf, -2.0, np.nan, 0.5])
NEEDS = {r.name: r.needs for r in RULES}
# A rule about shapes keeps the numbers but not their places in memory, on which the order of a later sum depends.
MOVES = {"reshape", "transpose", "broadcast_to", "getitem", "place", "sum"}
MOVING = {r.name for r in RULES if r.left.op.name in MOVES or "broadcast" in r.name} | {"uniform-constant", "fold"}


def matrix(x):
    """x with two axes."""
    shape = np.shape(x)
    return np.reshape(x, (int(np.prod(shape[:-1])), shape[-1])) if shape else np.reshape(x, (1, 1))


def with_axes(function):
    """The step for values that have axes and elements; others stay what they are."""
    return lambda x: function(x) if np.ndim(x) and np.size(x) else x


def written(x):
    """Writes in place."""
    a = anp.array(x)
    a[..., 0] *= 0.5
    a[..., -1:] += 0.25
    return a


# Steps that the rules have something to do with, and steps that they must leave alone. None leaves a bounded range, and what
# jumps does so away from the zeros that rounding makes of x - x.
UNARY = {
    "times one": lambda x: x * 1,
    "plus zero": lambda x: x + 0.0,
    "minus zero": lambda x: x - 0.0,
    "twice negative": lambda x: np.negative(np.negative(x)),
    "zero minus": lambda x: 0.0 - x,
    "times zero": lambda x: x * 0,
    "minus itself": lambda x: x - x,
    "by itself": lambda x: (x * x + 1) / (x * x + 1),
    "square": lambda x: x**2 / 4,
    "cube": lambda x: x**3 / 8,
    "first power": lambda x: x**1,
    "zeroth power": lambda x: x**0,
    "reciprocal": lambda x: (1 + x * x) ** -1,
    "half power": lambda x: (1 + x * x) ** 0.5 / 2,
    "root of square": lambda x: np.sqrt(np.square(x) + 0.5),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "exp of log": lambda x: np.exp(np.log(np.abs(x) + 0.5)) / 2,
    "log of exp": lambda x: np.log(np.exp(x)),
    "expm1": lambda x: (np.exp(x) - 1) / 4,
    "expm1 of log1p": lambda x: np.expm1(np.log1p(x * x)) / 2,
    "chosen": lambda x: np.where(True, x, 2.0),
    "leaky": lambda x: np.where(x > 0.123, x, 0.1 * x),
    "floor": lambda x: np.maximum(x, 0.3),
    "clip": lambda x: np.clip(x, -0.7, 0.9),
    "constants": lambda x: 0.5 * x * 1.5 * 0.5,
    "sin": np.sin,
    "tanh": np.tanh,
    "arctan": np.arctan,
    "abs": lambda x: np.abs(x + 0.2),
    "stopped": lambda x: x + ad.stop_gradient(x) / 2,
    "double transpose": lambda x: np.transpose(np.transpose(x)),
    "transpose": np.transpose,
    "there and back": lambda x: np.reshape(np.reshape(x, (np.size(x),)), np.shape(x)),
    "flat": lambda x: np.reshape(x, (np.size(x),)),
    "new axis": lambda x: x[..., None] if np.ndim(x) < 3 else x,
    "squeeze": np.squeeze,
    "repeat and sum": lambda x: np.sum(np.broadcast_to(x, (2, *np.shape(x))), axis=0) / 2,
    "exp of repeated": lambda x: np.exp(np.broadcast_to(x, (2, *np.shape(x)))) / 9 if np.ndim(x) < 2 else x,
    "sum first": with_axes(lambda x: np.sum(x, axis=0) / 3),
    "sum last": with_axes(lambda x: np.sum(x, axis=-1, keepdims=True) / 3),
    "sum of sum": with_axes(lambda x: np.sum(np.sum(x, axis=0)) / 9),
    "sum": lambda x: np.sum(x) / 9,
    "mean": with_axes(np.mean),
    "max": with_axes(lambda x: np.max(x, axis=-1)),
    "product": with_axes(lambda x: np.prod(x / 2, axis=0)),
    "running sum": with_axes(lambda x: np.cumsum(x, axis=-1) / 3),
    "sort": with_axes(lambda x: np.sort(x, axis=-1)),
    "backwards": with_axes(lambda x: x[..., ::-1]),
    "there and back again": with_axes(lambda x: x[::-1][::-1]),
    "first row": with_axes(lambda x: x[:1]),
    "first": with_axes(lambda x: x[0]),
    "part of a part": with_axes(lambda x: x[:2][:1]),
    "gather": with_axes(lambda x: x[np.array([0, 0])]),
    "rolled": with_axes(lambda x: np.roll(x, 1, axis=-1)),
    "doubled": with_axes(lambda x: np.concatenate([x, x / 2], axis=0)[: np.shape(x)[0] + 1]),
    "written": with_axes(written),
    "gram": with_axes(lambda x: np.tanh(matrix(x) @ matrix(x).T)),
    "covariance": with_axes(lambda x: np.tanh(matrix(x).T @ matrix(x))),
    "times ones": lambda x: x * np.array([1.0, 1.0, 1.0]) if np.shape(x)[-1:] == (3,) else x,
}
BINARY = {
    "mean of two": lambda a, b: (a + b) / 2,
    "minus negative": lambda a, b: a - (-b),
    "product of two": lambda a, b: a * b / 2,
    "quotient": lambda a, b: a / (1.5 + b * b),
    "plus and minus": lambda a, b: a + b - b,
    "larger": lambda a, b: np.where(a > b + 0.0371, a, b),
    "maximum": np.maximum,
    "logaddexp": np.logaddexp,
    "arctan2": lambda a, b: np.arctan2(a, b + 3.0),
    "matmul": lambda a, b: (
        np.tanh(matrix(a).T @ matrix(b)) if np.ndim(a) and np.ndim(b) and len(matrix(a)) == len(matrix(b)) else a
    ),
    "stack": lambda a, b: np.stack([a, b]) if np.shape(a) == np.shape(b) and np.ndim(a) < 3 else a,
}
STEPS = [*UNARY, *BINARY]
PRODUCTS = {"gram", "covariance", "matmul"}


def program(steps):
    """A function of two arrays that takes the steps; its results are the last value and a sum that all values enter."""

    def f(x, y):
        pool = [x, y]
        for which, i, j in steps:
            name = STEPS[which % len(STEPS)]
            a, b = pool[-1 - i % min(len(pool), 3)], pool[j % len(pool)]
            if name in UNARY:
                pool.append(UNARY[name](a))
            elif _fit(a, b):
                pool.append(BINARY[name](a, b))
            if np.size(pool[-1]) > 60:  # keeps products of products small
                pool[-1] = np.sum(np.tanh(pool[-1]), axis=0) / 3
        return pool[-1], sum(np.sum(np.sin(p)) for p in pool)

    return f


def _fit(a, b):
    try:
        np.broadcast_shapes(np.shape(a), np.shape(b))
    except ValueError:
        return False
    return True


def described(steps, shapes):
    names = [f"{STEPS[which % len(STEPS)]} ({i}, {j})" for which, i, j in steps]
    return f"shapes {shapes}, steps {names}"


def arguments(shapes, rng):
    return tuple(rng.uniform(-1.5, 1.5, s)[()] for s in shapes)


def everything(f):
    """(xs, ts, gs) ↦ the values of f at xs, its tangents along ts, its cotangents for gs; all in one list."""

    def run(xs, ts, gs):
        (y, s), pull = ad.vjp(f, *xs)
        _, (dy, ds) = ad.jvp(f, xs, ts)
        return [y, s, dy, ds, *pull(gs)]

    return run


def directions(f, xs, rng):
    """Tangents and cotangents that fit."""
    ts = tuple(rng.uniform(-1, 1, np.shape(x))[()] for x in xs)
    y, _ = f(*xs)
    return ts, (rng.uniform(-1, 1, np.shape(y))[()], np.float64(0.7))


def same_bits(a, b):
    return (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes()


def close(found, expected, what):
    for i, (a, b) in enumerate(zip(map(np.asarray, found), map(np.asarray, expected), strict=True)):
        if not same_bits(a, b):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"result {i} of {what}")


def identical(found, expected, what, signs=True):
    """The same bits, but for those of nan; without `signs`, also but for the signs of zeros."""
    for i, (a, b) in enumerate(zip(map(np.asarray, found), map(np.asarray, expected), strict=True)):
        if same_bits(a, b):
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"result {i} of {what}"
        np.testing.assert_array_equal(a, b, err_msg=f"result {i} of {what}")
        if signs:
            known = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a[known]), np.signbit(b[known]), err_msg=f"signs, result {i} of {what}")


def compare_simplified(found, expected, counts, what):
    """As exactly as the rules that were applied promise."""
    needs = {NEEDS.get(name, "nothing") for name in counts}
    if "rounding" in needs or not MOVING.isdisjoint(counts):
        close(found, expected, what)
    else:
        identical(found, expected, what, signs="unsigned zeros" not in needs)


def check_program(steps, shapes, rng):
    """Everything that this file promises, for one program."""
    f, what = program(steps), described(steps, shapes)
    xs = arguments(shapes, rng)
    ts, gs = directions(f, xs, rng)
    eager = everything(f)(xs, ts, gs)
    staged = ad.graph(f)(*xs)
    parsed = parse(str(staged))
    assert parsed == staged, what
    for form in (parsed, staged.simplify(), staged.simplify("finite")):
        close(everything(form.run)(xs, ts, gs), eager, what)
    close(staged(*xs), eager[:2], what)

    derivatives = ad.graph(everything(f))(xs, ts, gs)
    inputs = (*xs, *ts, *gs)
    plain = derivatives.run(*inputs)
    close(plain, eager, what)
    parsed = parse(str(derivatives))
    assert parsed == derivatives, what
    identical(parsed.run(*inputs), plain, what)
    counts = {}
    safe, bold = derivatives.simplify(counts=counts), derivatives.simplify("finite")
    compare_simplified(safe.run(*inputs), plain, counts, what)
    close(bold.run(*inputs), eager, what)
    bold.check()

    nasty = [np.resize(np.roll(SPECIAL, k), np.shape(x))[()] for k, x in enumerate(inputs)]
    plain = derivatives.run(*nasty)
    compare_simplified(safe.run(*nasty), plain, counts, what)
    identical(parsed.run(*nasty), plain, what)
    with np.errstate(all="ignore"):
        eager = everything(f)(tuple(nasty[:2]), tuple(nasty[2:4]), tuple(nasty[4:]))
    # Eager matrix products look at their numbers for a zero that meets an infinity, which a graph does not have.
    count = 2 if PRODUCTS & {STEPS[which % len(STEPS)] for which, _, _ in steps} else None
    # A graph cannot look at its numbers: where eager mode finds that a zero is that of a mask, or that an infinity was given, the
    # graph may have nan; it never has another number. Of tangents, which may be infinite or nan here, either may be nan.
    plain, eager = list(plain), list(eager)
    for i in range(2, len(plain)):
        unknown = np.isnan(plain[i]) & ~np.isnan(eager[i])
        if i < 4:
            unknown |= np.isnan(eager[i]) & ~np.isnan(plain[i])
        plain[i], eager[i] = (np.where(unknown, np.nan, results[i])[()] for results in (plain, eager))
    close(plain[:count], eager[:count], what)


_number = st.sampled_from(range(1000))  # integers() would prefer the constants of whatever modules are loaded
descriptions = st.tuples(
    st.lists(st.tuples(_number, _number, _number), min_size=1, max_size=8),
    st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)),
)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_forms_of_programs_that_hypothesis_builds_agree(shard):
    """A hundred programs, at night thousands; shards, so that they run side by side."""
    seen = set()

    @seed(shard)
    @settings(max_examples=PER_SHARD, database=None)
    @given(descriptions, st.integers(0, 2**16))
    def agree(made, number):
        seen.add((tuple(which % len(STEPS) for which, _, _ in made[0]), made[1]))
        check_program(*made, np.random.default_rng(number))

    agree()
    assert len(seen) > PER_SHARD / 2
    assert len({which for steps, _ in seen for which in steps}) > len(STEPS) / 3  # Hypothesis repeats itself; about half


@settings(max_examples=examples(60, 4))
@given(descriptions)
def test_simplifying_twice_changes_nothing(made):
    steps, shapes = made
    xs = arguments(shapes, np.random.default_rng(0))
    f = program(steps)
    for assume in (None, "finite"):
        once = ad.graph(ad.grad(lambda *xs: f(*xs)[1], (0, 1)))(*xs).simplify(assume)
        assert str(once.simplify(assume)) == str(once)
