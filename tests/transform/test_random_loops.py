"""Random programs of loops and branches: run as such and as plain Python, every transform gives the same."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
from adjoint.api.graph import parse

COUNT = 3  # variables
ROWS = np.array([[0.4, -0.3], [0.7, 0.2], [-0.5, 0.9]])

STEPS = [
    lambda a, b: np.sin(a + b),
    lambda a, b: np.tanh(a * b) + 0.2,
    lambda a, b: 0.5 * a - 0.7 * b,
    lambda a, b: a * b * 0.6,
    lambda a, b: np.where(a > b, a, 0.3 * b),
    lambda a, b: a / (1.5 + b * b),
    lambda a, b: a * 0.0 + 0.9,
]

index = st.integers(0, COUNT - 1)
assignment = st.tuples(st.just("let"), index, st.sampled_from(range(len(STEPS))), index, index)


def statements(inner):
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        assignment,
        st.tuples(st.just("scan"), block, st.booleans(), st.sampled_from([None, "sqrt", 2]), index, index),
        st.tuples(st.just("fori"), block, st.integers(0, 3), index),
        st.tuples(st.just("while"), block, index, st.sampled_from([None, "sqrt"])),
        st.tuples(st.just("cond"), block, block, index, index),
        st.tuples(st.just("checkpoint"), block),
    )


programs = st.lists(st.recursive(assignment, statements, max_leaves=6), min_size=1, max_size=3)


def execute(program, state, structured):
    for statement in program:
        state = (STRUCTURED if structured else PLAIN)[statement[0]](state, *statement[1:])
    return state


def put(state, i, value):
    return (*state[:i], value, *state[i + 1 :])


def let(state, target, step, i, j):
    return put(state, target, STEPS[step](state[i], state[j]))


def scan(state, block, reverse, checkpoint, i, j):
    outside = state[j]  # closed over

    def step(c, row):
        c = execute(block, put(c, i, c[i] + row[0] * outside), True)
        return c, c[i] * row[1]

    state, ys = ad.scan(step, state, ROWS, reverse=reverse, checkpoint=checkpoint)
    return put(state, j, 0.5 * state[j] + np.sum(ys * ROWS[:, 0]))


def scan_plain(state, block, reverse, checkpoint, i, j):
    outside, total = state[j], 0.0
    for row in ROWS[::-1] if reverse else ROWS:
        state = execute(block, put(state, i, state[i] + row[0] * outside), False)
        total = total + state[i] * row[1] * row[0]
    return put(state, j, 0.5 * state[j] + total)


def fori(state, block, n, i):
    return ad.fori_loop(0, n, lambda k, c: execute(block, put(c, i, c[i] + 0.1 * k), True), state)


def fori_plain(state, block, n, i):
    for k in range(n):
        state = execute(block, put(state, i, state[i] + 0.1 * k), False)
    return state


def while_(state, block, i, checkpoint):
    going = lambda s: (s[0] < 4) & (s[1][i] < 0.8)
    step = lambda s: (s[0] + 1, execute(block, put(s[1], i, s[1][i] + 0.15), True))
    return ad.while_loop(going, step, (0, state), checkpoint=checkpoint)[1]


def while_plain(state, block, i, checkpoint):
    k = 0
    while k < 4 and state[i] < 0.8:
        k, state = k + 1, execute(block, put(state, i, state[i] + 0.15), False)
    return state


def cond(state, block, other, i, j):
    return ad.cond(state[i] > state[j], lambda s: execute(block, s, True), lambda s: execute(other, s, True), state)


def cond_plain(state, block, other, i, j):
    return execute(block if state[i] > state[j] else other, state, False)


STRUCTURED = {
    "let": let, "scan": scan, "fori": fori, "while": while_, "cond": cond,
    "checkpoint": lambda state, block: ad.checkpoint(lambda s: execute(block, s, True))(state),
}  # fmt: skip
PLAIN = {
    "let": let, "scan": scan_plain, "fori": fori_plain, "while": while_plain, "cond": cond_plain,
    "checkpoint": lambda state, block: execute(block, state, False),
}  # fmt: skip

X = np.array([0.31, -0.42, 0.57])
V = np.array([0.5, -1.0, 0.8])
STACK = np.stack([X, X[::-1] * 0.9, X * 1.3 - 0.1])


def function(program, structured):
    def f(x):
        a, b, c = execute(program, (x[0], x[1] * 1.0, x[2]), structured)
        return np.sin(a) + 0.7 * b * c

    return f


def near(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@given(programs)
@settings(max_examples=examples(60, 8), deadline=None)
def test_loops_are_what_python_loops_are(program):
    assume(any(statement[0] != "let" for statement in program))
    f, plain = function(program, True), function(program, False)
    value, gradient = plain(X), ad.grad(plain)(X)
    near(f(X), value)
    near(ad.grad(f)(X), gradient)
    near(ad.jvp(f, (X,), (V,)), ad.jvp(plain, (X,), (V,)))
    curvature = ad.jvp(ad.grad(plain), (X,), (V,))[1]
    near(ad.jvp(ad.grad(f), (X,), (V,))[1], curvature)
    near(ad.grad(lambda x: ad.jvp(f, (x,), (V,))[1])(X), curvature)
    near(ad.grad(lambda x: np.sum(ad.grad(f)(x) * V))(X), curvature)
    near(ad.vmap(f)(STACK), [plain(x) for x in STACK])
    near(ad.vmap(ad.grad(f))(STACK), [ad.grad(plain)(x) for x in STACK])
    staged, slope = ad.graph(f)(X), ad.graph(ad.grad(f))(X)
    for graph, expected in ((staged, value), (slope, gradient)):
        graph.check()
        assert parse(str(graph)) == graph
        near(graph(X), expected)
        near(graph.simplify()(X), expected)
        near(graph.run(X, workers=2), expected)
    near(ad.grad(staged)(X), gradient)
    near(ad.jvp(slope, (X,), (V,))[1], curvature)
    near(ad.grad(lambda x: np.sum(slope(x) * V))(X), curvature)
    near(ad.vmap(slope)(STACK), [ad.grad(plain)(x) for x in STACK])
