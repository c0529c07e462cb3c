"""Random programs: eager = graph = simplified graph = parsed graph, in value and in both derivatives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.graphs import parse

SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (3, 3)]
SPECIAL = np.array([0.0, -0.0, np.inf, 1.0, -np.inf, -2.0, np.nan, 0.5])


def matrix(x):
    """x with two axes, the second of length at most three."""
    return np.reshape(x, (-1, np.shape(x)[-1])) if np.ndim(x) else np.reshape(x, (1, 1))


# Steps that the rules have something to do with, and steps that they must leave alone. None leaves a bounded range.
UNARY = [
    lambda x: x * 1,
    lambda x: x + 0.0,
    lambda x: np.negative(np.negative(x)),
    lambda x: 0.0 - x,
    lambda x: x * 0,
    lambda x: x - x,
    lambda x: x**2 / 4,
    lambda x: x**1,
    lambda x: (1 + x * x) ** -1,
    lambda x: (1 + x * x) ** 0.5 / 2,
    lambda x: np.log(1 + np.exp(x)),
    lambda x: np.exp(np.log(np.abs(x) + 0.5)) / 2,
    lambda x: np.transpose(np.transpose(x)),
    lambda x: np.reshape(np.reshape(x, (-1,)), np.shape(x)),
    lambda x: np.where(True, x, 2.0),
    lambda x: np.where(x > 0, x, 0.1 * x),
    lambda x: np.sum(np.broadcast_to(x, (2, *np.shape(x))), axis=0) / 2,
    lambda x: np.exp(np.broadcast_to(x, (2, *np.shape(x)))) / 9 if np.ndim(x) < 2 else x,
    lambda x: 0.5 * x * 1.5 * 0.5,
    lambda x: np.maximum(x, 0.3),
    np.sin,
    np.tanh,
    np.transpose,
    lambda x: np.sum(x, axis=0) / 3 if np.ndim(x) else x,
    lambda x: np.sum(x, axis=-1, keepdims=True) / 3 if np.ndim(x) else x,
    lambda x: np.sum(np.sum(x, axis=0)) / 9 if np.ndim(x) else x,
    np.mean,
    lambda x: x[..., ::-1] if np.ndim(x) else x,
    lambda x: x[:1] if np.ndim(x) else x,
    lambda x: x[0] if np.ndim(x) else x,
    lambda x: x[np.array([0, 0])] if np.ndim(x) else x,
    lambda x: np.tanh(matrix(x) @ matrix(x).T),
    lambda x: np.tanh(matrix(x).T @ matrix(x)),
    lambda x: x * np.array([1.0, 1.0, 1.0]) if np.shape(x)[-1:] == (3,) else x,
    lambda x: x + ad.stop_gradient(x) / 2,
]
BINARY = [
    lambda a, b: (a + b) / 2,
    lambda a, b: a - (-b),
    lambda a, b: a * b / 2,
    lambda a, b: a / (1.5 + b * b),
    lambda a, b: a + b - b,
    lambda a, b: np.where(a > b, a, b),
    lambda a, b: np.maximum(a, b),
    lambda a, b: np.tanh(matrix(a).T @ matrix(b)) if matrix(a).shape[0] == matrix(b).shape[0] else a,
]


@st.composite
def programs(draw):
    """(function of two arrays with a scalar result, its two arguments)."""
    number = st.integers(0, 99)
    steps = draw(st.lists(st.tuples(st.booleans(), number, number, number), min_size=1, max_size=9))
    shapes = draw(st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    xs = tuple(rng.uniform(-1.5, 1.5, s)[()] for s in shapes)

    def f(x, y):
        pool = [x, y]
        for unary, which, i, j in steps:
            a, b = pool[-1 - i % min(len(pool), 3)], pool[j % len(pool)]
            if unary:
                pool.append(UNARY[which % len(UNARY)](a))
            else:
                try:
                    np.broadcast_shapes(np.shape(a), np.shape(b))
                except ValueError:
                    continue
                pool.append(BINARY[which % len(BINARY)](a, b))
        return sum(np.sum(np.sin(p)) for p in pool[2:]) + np.sum(x * y if np.shape(x) == np.shape(y) else x)

    return f, xs


def close(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def versions(program):
    """A graph in all its forms, each checked."""
    safe, bold = program.simplify(), program.simplify("finite")
    for simpler in (safe, bold):
        simpler.check()
        assert parse(str(simpler)) == simpler
    parsed = parse(str(program))
    assert parsed == program
    return [program, safe, bold, parsed]


@settings(max_examples=150)
@given(programs())
def test_eager_graph_simplified_and_parsed_agree(made):
    f, xs = made
    value, slope = f(*xs), ad.grad(f, (0, 1))(*xs)
    ts = tuple(np.cos(x) for x in xs)
    push = ad.jvp(f, xs, ts)[1]
    for program in versions(ad.graph(f)(*xs)):
        close([value], [program.run(*xs)])
        close(slope, ad.grad(program.run, (0, 1))(*xs))
        close([push], [ad.jvp(program.run, xs, ts)[1]])
    for program in versions(ad.graph(ad.grad(f, (0, 1)))(*xs)):
        close(slope, program.run(*xs))
    for program in versions(ad.graph(lambda *xs: ad.jvp(f, xs, ts)[1])(*xs)):
        close([push], [program.run(*xs)])


@settings(max_examples=150)
@given(programs(), st.integers(0, 7))
def test_safe_rules_keep_infinities_and_nan(made, start):
    f, xs = made
    special = [np.resize(np.roll(SPECIAL, start + i), np.shape(x))[()] for i, x in enumerate(xs)]
    for program in (ad.graph(f)(*xs), ad.graph(ad.grad(f, (0, 1)))(*xs)):
        simpler = program.simplify()
        if len(program.outputs) == 1:
            close([program.run(*special)], [simpler.run(*special)])
        else:
            close(program.run(*special), simpler.run(*special))


@settings(max_examples=60)
@given(programs())
def test_simplifying_twice_changes_nothing(made):
    f, xs = made
    for assume in (None, "finite"):
        once = ad.graph(ad.grad(f, (0, 1)))(*xs).simplify(assume)
        assert str(once.simplify(assume)) == str(once)
