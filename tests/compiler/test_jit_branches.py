"""Programs with branches and loops, drawn at random: compiled or not, differentiated inside or outside, they agree.

`python_programs` are made of Python's own statements, which ask for numbers: guards must hold and miss as they should.
`loop_programs` are made of `scan`, `fori_loop`, `while_loop` and `cond`, and compared with the same loops written in Python.
"""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad

pytestmark = [
    pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # programs that are drawn may grow without bounds
]

# -- programs ---------------------------------------------------------------------------------------------------
# The state is a number s and an array x of three. A program is a list of statements; a statement is a tuple.

SCALARS = [
    lambda s, x: np.sin(s) + x[0],
    lambda s, x: 0.5 * s - x[1],
    lambda s, x: s * x[2] + 0.3,
    lambda s, x: np.sum(x * x) - s,
    lambda s, x: np.tanh(s) * np.exp(-x[0] * x[0]),
    lambda s, x: 1.0 / (1.5 + s * s),
]
ARRAYS = [
    lambda s, x: np.cos(x) + s,
    lambda s, x: x[::-1] * 0.7,
    lambda s, x: x * s / (1.0 + np.sum(x * x)),
    lambda s, x: np.where(x > 0.11, x, 0.2 * x) + 0.1,
]
TESTS = [
    lambda s, x: s > 0.317,
    lambda s, x: np.sum(x) < 0.523,
    lambda s, x: abs(s) > 0.713,
    lambda s, x: np.any(x > 0.911),
    lambda s, x: (x[0] < x[1]) & (s < 1.03),
]


class ReturnedError(Exception):
    """A `return` on the way."""


def run(program, s, x):
    for kind, *parts in program:
        s, x = PYTHON[kind](s, x, *parts)
    return s, x


def branch(s, x, test, body, other):
    if TESTS[test](s, x):
        return run(body, s, x)
    return run(other, s, x)


def repeat_while(s, x, bound, body):
    iterations = 0
    while abs(s) > bound and iterations < 4:
        s, x = run(body, s, x)
        s = 0.6 * s
        iterations += 1
    return s, x


def repeat(s, x, iterations, body):
    for i in range(iterations):
        s, x = run(body, s + 0.1 * i, x)
    return s, x


def repeat_until(s, x, stop, skip, body):
    for i in range(4):
        s = 0.7 * s + 0.1 * i
        if TESTS[stop](s, x):
            break
        if TESTS[skip](s, x):
            continue
        s, x = run(body, s, x)
    else:
        s = s - 0.2
    return s, x


def dispatch(s, x, body):
    return {0: run, 1: lambda body, s, x: (np.cos(s), x)}.get(int(abs(s)), lambda body, s, x: (0.5 * s, x[::-1]))(body, s, x)


def slope(s, x, body):
    def inner(s):
        try:
            return run(body, s, x)[0]
        except ReturnedError as found:  # with a value that may not leave the gradient
            return found.args[0]

    return s + 0.1 * ad.grad(inner)(s), x


def loop(s, x, body):
    """A loop that stays one, unless its body asks for numbers: then it is run iteration by iteration."""
    return ad.fori_loop(0, 2, lambda i, carry: run(body, carry[0] + 0.1 * i, carry[1]), (s, x))


def whole_iterations(s, x, body):
    for _ in range(min(int(abs(s) * 1.7), 3)):
        s, x = run(body, s, x)
    return s, x


def insist(s, x, test):
    assert TESTS[test](s, x) or s < 2.71, "asked for"
    return s, x


def write(s, x, where, what):
    x = x + 0.0 * s  # a copy, that whatever traces s can be written to
    x[where] = SCALARS[what](s, x)
    return s, x


def mask(s, x, bound):
    return s + np.sum(x[x > bound] ** 2), x


def write_mask(s, x, bound):
    x = x.copy()
    x[x > bound] *= 0.5
    return s, x


def leave(s, x, test):
    if TESTS[test](s, x):
        raise ReturnedError(s * 0.9 + np.sum(x))
    return s, x


PYTHON = {
    "s": lambda s, x, what: (SCALARS[what](s, x), x),
    "x": lambda s, x, what: (s, ARRAYS[what](s, x)),
    "if": branch,
    "while": repeat_while,
    "for": repeat,
    "until": repeat_until,
    "dispatch": dispatch,
    "slope": slope,
    "loop": loop,
    "jit": lambda s, x, body: ad.jit(lambda s, x: run(body, s, x))(s, x),
    "int": whole_iterations,
    "assert": insist,
    "write": write,
    "mask": mask,
    "write mask": write_mask,
    "return": leave,
}
scalars, arrays, tests = (st.integers(0, len(c) - 1) for c in (SCALARS, ARRAYS, TESTS))
bounds = st.sampled_from([-0.213, 0.171, 0.487])
plain = st.one_of(st.tuples(st.just("s"), scalars), st.tuples(st.just("x"), arrays))
asking = st.one_of(
    plain,
    st.tuples(st.just("assert"), tests),
    st.tuples(st.just("write"), st.integers(-3, 2), scalars),
    st.tuples(st.just("mask"), bounds),
    st.tuples(st.just("write mask"), bounds),
    st.tuples(st.just("return"), tests),
)


def nested(statements):
    body = st.lists(statements, max_size=2)
    return st.one_of(
        st.tuples(st.just("if"), tests, body, body),
        st.tuples(st.just("while"), bounds.map(abs), body),
        st.tuples(st.just("for"), st.integers(0, 3), body),
        st.tuples(st.just("until"), tests, tests, body),
        st.tuples(st.sampled_from(["int", "dispatch", "slope", "loop", "jit"]), body),
    )


python_programs = st.lists(st.recursive(asking, nested, max_leaves=5), min_size=1, max_size=3)
straight_programs = st.lists(
    st.recursive(plain, lambda inner: st.tuples(st.just("for"), st.integers(0, 3), st.lists(inner, max_size=2)), max_leaves=4),
    min_size=1,
    max_size=3,
)
points = st.lists(st.integers(0, 2**16), min_size=3, max_size=3)


def function_of(program):
    def f(x):
        try:
            s, x = run(program, 0.4 + 0.3 * x[1], x)
        except ReturnedError as found:
            return found.args[0]
        return s + np.sum(x * x)

    return f


def vector(seed):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, 3)


def outcome(f, *args):
    """What a call gives, or the class of what it raises."""
    try:
        return f(*args)
    except (AssertionError, ad.AdjointError) as error:
        return type(error)


def agree(got, want, rtol=1e-9):
    if isinstance(want, type):
        assert got is want
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            agree(a, b, rtol)
    else:
        assert not isinstance(got, type), got
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.max(np.abs(want), initial=0.0)))


def forward(f):
    return lambda x: ad.jvp(f, (x,), (np.cos(x),))


def curvature(f):
    return ad.grad(lambda x: np.sum(np.sin(ad.grad(f)(x))))


# -- Python's own statements ------------------------------------------------------------------------------------


@given(python_programs, points)
@settings(max_examples=examples(24), deadline=None)
def test_python_statements_compiled(program, seeds):
    f = function_of(program)
    compiled, slope, tangent = ad.jit(f), ad.jit(ad.value_and_grad(f)), ad.jit(forward(f))
    for x in map(vector, [*seeds, seeds[0]]):  # other numbers, other paths, and the first one again
        before = x.copy()
        agree(outcome(compiled, x), outcome(f, x))
        agree(outcome(slope, x), outcome(ad.value_and_grad(f), x))
        agree(outcome(tangent, x), outcome(forward(f), x))
        assert np.array_equal(x, before)


@given(python_programs, points)
@settings(max_examples=examples(12), deadline=None)
def test_nestings_of_python_statements(program, seeds):
    f = function_of(program)
    outer, inner, twice = ad.grad(ad.jit(f)), ad.jit(ad.grad(ad.jit(f))), ad.jit(curvature(f))
    for x in map(vector, seeds[:2]):
        want = outcome(ad.grad(f), x)
        agree(outcome(outer, x), want)
        agree(outcome(inner, x), want)
        agree(outcome(twice, x), outcome(curvature(f), x), 1e-7)


@given(st.one_of(straight_programs, python_programs), st.integers(0, 2**16))
@settings(max_examples=examples(16), deadline=None)
def test_vmap_of_python_statements(program, seed):
    """Where the examples would take paths of their own, `vmap` says so, compiled or not."""
    f = function_of(program)
    xs = np.random.default_rng(seed).uniform(-1.5, 1.5, (2, 3))
    agree(outcome(ad.jit(ad.vmap(f)), xs), outcome(ad.vmap(f), xs))
    agree(outcome(ad.jit(ad.vmap(ad.grad(f))), xs), outcome(ad.vmap(ad.grad(f)), xs))
    one_by_one = [outcome(ad.jit(f), x) for x in xs]
    if not any(isinstance(y, type) for y in (*one_by_one, outcome(ad.vmap(f), xs))):
        agree(outcome(ad.vmap(ad.jit(f)), xs), np.array(one_by_one))


def test_guards_from_many_threads():
    """Paths are found, missed and compiled by eight threads at once."""

    @ad.jit
    def f(x):
        total = np.sum(x)
        for _ in range(int(total)):
            x = np.sin(x) + 0.1
        if x[0] > x[1]:
            return np.sum(x * x)
        return np.sum(x[x > 0.3])

    rng = np.random.default_rng(5)
    inputs = rng.uniform(0, 2, (40, 3))
    inputs = [x for x in inputs if abs(np.sum(x) - np.round(np.sum(x))) > 1e-6]
    wanted = [f.f(x) for x in inputs]
    failures = []

    def work(seed):
        try:
            for i in np.random.default_rng(seed).permutation(len(inputs)):
                np.testing.assert_allclose(f(inputs[i]), wanted[i], rtol=1e-12)
        except BaseException as error:  # shown by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()  # none waits for another for ever
    assert not failures
    (paths,) = f.specializations.values()
    kept = [tuple((g.line, str(g.answer)) for g in path.guards) for path in paths]
    assert len(set(kept)) == len(kept)  # none was compiled twice


# -- loops and branches that stay such --------------------------------------------------------------------------


def run_loops(program, s, x, loops):
    for kind, *parts in program:
        if kind in ("s", "x", "write"):
            s, x = PYTHON[kind](s, x, *parts)
        else:
            s, x = getattr(loops, kind)(s, x, *parts)
    return s, x


class Structured:
    """Statements as operations, which hold their bodies as graphs."""

    @classmethod
    def inside(cls, body):
        return lambda s, x: run_loops(body, s, x, cls)

    @classmethod
    def cond(cls, s, x, test, body, other):
        return ad.cond(TESTS[test](s, x), cls.inside(body), cls.inside(other), s, x)

    @classmethod
    def loop_while(cls, s, x, bound, body, checkpoint):
        def iteration(carry):
            s, x, iterations = carry
            s, x = run_loops(body, s, x, cls)
            return 0.6 * s, x, iterations + 1

        goes_on = lambda carry: (abs(carry[0]) > bound) & (carry[2] < 5)
        return ad.while_loop(goes_on, iteration, (s, x, 0), checkpoint=checkpoint)[:2]

    @classmethod
    def loop_for(cls, s, x, iterations, body, checkpoint):
        iteration = lambda i, carry: run_loops(body, carry[0] + 0.1 * i, carry[1], cls)
        return ad.fori_loop(0, iterations, iteration, (s, x), checkpoint=checkpoint)

    @classmethod
    def loop_rows(cls, s, x, reverse, body, checkpoint):
        def iteration(carry, row):
            s, x = run_loops(body, carry[0] + row, carry[1], cls)
            return (s, x), s * row

        (s, x), ys = ad.scan(iteration, (s, x), x, reverse=reverse, checkpoint=checkpoint)
        return s + np.sum(ys), x

    @classmethod
    def each(cls, s, x, body):
        return s, ad.map(lambda v: run_loops(body, v * s, x, cls)[0], x)

    @classmethod
    def again(cls, s, x, body):
        return ad.checkpoint(cls.inside(body))(s, x)

    @classmethod
    def jitted(cls, s, x, body):
        return ad.jit(cls.inside(body))(s, x)

    @classmethod
    def slope(cls, s, x, body):
        return s + 0.1 * ad.grad(lambda s: run_loops(body, s, x, cls)[0])(s), x

    @classmethod
    def bend(cls, s, x, body):
        return s + 0.1 * ad.jvp(ad.grad(lambda s: run_loops(body, s, x, cls)[0]), (s,), (np.cos(s),))[1], x


class Unrolled(Structured):
    """The same in Python."""

    @classmethod
    def cond(cls, s, x, test, body, other):
        return run_loops(body if TESTS[test](s, x) else other, s, x, cls)

    @classmethod
    def loop_while(cls, s, x, bound, body, checkpoint):
        iterations = 0
        while abs(s) > bound and iterations < 5:
            s, x = run_loops(body, s, x, cls)
            s, iterations = 0.6 * s, iterations + 1
        return s, x

    @classmethod
    def loop_for(cls, s, x, iterations, body, checkpoint):
        for i in range(iterations):
            s, x = run_loops(body, s + 0.1 * i, x, cls)
        return s, x

    @classmethod
    def each(cls, s, x, body):
        return s, np.stack([run_loops(body, v * s, x, cls)[0] for v in x])

    @classmethod
    def again(cls, s, x, body):
        return run_loops(body, s, x, cls)

    jitted = again

    @classmethod
    def loop_rows(cls, s, x, reverse, body, checkpoint):
        rows, total = x, 0.0
        for i in reversed(range(3)) if reverse else range(3):
            s, x = run_loops(body, s + rows[i], x, cls)
            total = total + s * rows[i]
        return s + total, x


def looping(statements):
    body = st.lists(statements, max_size=2)
    return st.one_of(
        st.tuples(st.just("cond"), tests, body, body),
        st.tuples(st.just("loop_while"), bounds.map(abs), body, policies),
        st.tuples(st.just("loop_for"), st.integers(0, 3), body, policies),
        st.tuples(st.just("loop_rows"), st.booleans(), body, policies),
        st.tuples(st.sampled_from(["slope", "bend", "each", "again", "jitted"]), body),
    )


policies = st.sampled_from([None, None, 1, 2, "sqrt"])
simple = st.one_of(plain, st.tuples(st.just("write"), st.integers(-3, 2), scalars))
loop_programs = st.lists(looping(st.recursive(simple, looping, max_leaves=3)), min_size=1, max_size=2)


def loops_of(program, loops):
    def f(x):
        s, x = run_loops(program, 0.4 + 0.3 * x[1], x, loops)
        return s + np.sum(x * x)

    return f


def tolerance(f, x):
    """What rounding may change in the value and the gradient at x: a program may amplify it beyond any fixed bound."""
    results = [ad.value_and_grad(f)(x * (1 + k * 2**-52)) for k in range(-2, 3)]
    changes = [np.ptp(part, axis=0).max() / max(1.0, np.abs(part).max()) for part in map(np.array, zip(*results, strict=True))]
    return 1e-9 + 16 * max(changes)


@given(loop_programs, points)
@settings(max_examples=examples(14), deadline=None)
def test_loops_compiled(program, seeds):
    f, plain_python = loops_of(program, Structured), loops_of(program, Unrolled)
    compiled, slope, tangent = ad.jit(f), ad.jit(ad.value_and_grad(f)), ad.jit(forward(f))
    for x in map(vector, seeds):
        rtol = tolerance(plain_python, x)
        agree(compiled(x), plain_python(x), rtol)
        agree(slope(x), ad.value_and_grad(plain_python)(x), rtol)
        agree(tangent(x), forward(plain_python)(x), rtol)
    for program in (compiled, slope, tangent):
        assert not program.eager
        assert [len(found) for found in program.specializations.values()] == [1]  # for any number of iterations


@given(loop_programs, points)
@settings(max_examples=examples(5), deadline=None)
def test_nestings_of_loops(program, seeds):
    f, plain_python = loops_of(program, Structured), loops_of(program, Unrolled)
    xs = np.stack([vector(seed) for seed in seeds])
    for x in xs[:2]:
        agree(ad.grad(ad.jit(f))(x), ad.grad(plain_python)(x))
    many, slopes = ad.jit(ad.vmap(f)), ad.jit(ad.vmap(ad.grad(f)))
    agree(many(xs), np.array([plain_python(x) for x in xs]))
    agree(slopes(xs), np.stack([ad.grad(plain_python)(x) for x in xs]))
    agree(ad.jit(curvature(f))(xs[0]), curvature(plain_python)(xs[0]), 1e-7)
    agree(ad.jit(ad.hessian(f))(xs[1]), ad.hessian(plain_python)(xs[1]), 1e-7)
