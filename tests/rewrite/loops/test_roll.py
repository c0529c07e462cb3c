"""Loops in flat graphs: the rolled graph gives the same bits, in every mode; sequences that are not loops stay, with a reason."""

import cProfile
import functools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples, sampled

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import roll
from adjoint.rewrite.simplify import common_subexpressions, dead_code, simplify

LORENZ = np.array([10.0, 28.0, 8 / 3])


def staged(f, *args):
    return dead_code(common_subexpressions(ad.graph(f)(*args)))


def rolled(f, *args, loops=None, iterations=None, saving=24, bits=True):
    """Roll the graph of f, and compare with it; the number of loops and of their iterations may be given.

    NumPy adds up a transposed array in another order: then the bits may differ.
    """
    graph = staged(f, *args)
    found = roll(graph, saving=saving)
    check(found.graph, infer_types)
    values = [np.asarray(x) for x in ad.core.tree.flatten(args)[0]]
    want = graph.run_flat(values)
    smaller = simplify(found.graph)[0]
    check(smaller, infer_types)
    for got, wanted in (
        (found.graph.run_flat(values), want),
        (smaller.run_flat(values), simplify(graph)[0].run_flat(values)),
    ):
        for a, b in zip(got, wanted, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert np.asarray(a).shape == np.asarray(b).shape
            if bits:
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), np.max(np.abs(np.asarray(a) - np.asarray(b)))
            else:
                np.testing.assert_allclose(a, b, rtol=1e-13)
    shown = [str(loop) for loop in (*found.loops, *found.unrolled)]
    if loops is not None:
        assert len([p for p in found.loops if not p.depth]) == loops, shown
    if iterations is not None:
        assert [p.iterations for p in found.loops if not p.depth] == iterations, shown
    return found


def modes(f, *args, vector=None):
    """A scalar function, its derivatives and its batched form."""
    yield f, args
    yield ad.value_and_grad(f), args
    x = args[0]
    v = np.linspace(-1.0, 1.0, np.size(x)).reshape(np.shape(x))
    yield lambda x, *rest: ad.jvp(lambda y: f(y, *rest), (x,), (v,)), args
    yield lambda x, *rest: ad.hvp(lambda y: f(y, *rest))(x, v), args
    batch = np.stack([x, x * 0.5, x + 0.25])
    yield ad.vmap(f, in_axes=(0,) + (None,) * (len(args) - 1)), (batch, *args[1:])
    yield ad.vmap(ad.grad(f), in_axes=(0,) + (None,) * (len(args) - 1)), (batch, *args[1:])


def in_all_modes(f, *args, least=1, saving=24):
    for i, (g, given_) in enumerate(modes(f, *args)):
        found = rolled(g, *given_, saving=saving, bits=f is not trajectory or i < 4)
        if len(staged(g, *given_)) > 40:  # the second derivative of a linear program is a constant
            assert len(found.loops) >= least, [str(u) for u in found.unrolled]


# -- the loops of scientific programs ---------------------------------------------------------------------------


def euler(x, w, iterations=30):
    for _ in range(iterations):
        x = x + 0.1 * np.sin(x * w)
    return np.sum(x**2)


def lorenz(s, p):
    x, y, z = s[0], s[1], s[2]
    return np.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])


def runge_kutta(s, p, iterations=12, h=0.01):
    for _ in range(iterations):
        k1 = lorenz(s, p)
        k2 = lorenz(s + h / 2 * k1, p)
        k3 = lorenz(s + h / 2 * k2, p)
        k4 = lorenz(s + h * k3, p)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(s * s)


def lstm(w, xs):
    size = w.shape[0] // 4
    h, c = np.zeros(size), np.zeros(size)
    total = 0.0
    for x in xs:
        z = w @ np.concatenate([h, x])
        i, f, o = (1 / (1 + np.exp(-z[k * size : (k + 1) * size])) for k in range(3))
        c = f * c + i * np.tanh(z[3 * size :])
        h = o * np.tanh(c)
        total = total + np.sum(h**2)
    return total


def heat(u, iterations=20):
    for _ in range(iterations):
        inner = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate([u[:1], inner, u[-1:]])
    return np.sum(u**2)


def newton(a, iterations=20):
    x = a
    for _ in range(iterations):
        x = x - (x * x - a) / (2 * x)
    return np.sum(x)


def verlet(x, iterations=20):
    before = x - 0.01
    for _ in range(iterations):
        x, before = 2 * x - before - 0.01 * np.sin(x), x
    return np.sum(x * before)


def rows_of_data(w, data):
    h = np.zeros(3)
    total = 0.0
    for i in range(len(data)):
        h = np.tanh(w @ h + data[i])
        total = total + np.sum(h)
    return total


def columns_of_data(data):
    h = np.zeros(data.shape[0])
    for i in range(data.shape[1]):
        h = np.tanh(h * 0.5 + data[:, i])
    return np.sum(h)


def nested(x, outer=14, inner=9):
    for _ in range(outer):
        y = x
        for _ in range(inner):
            y = y + 0.1 * np.sin(y)
        x = x * 0.5 + np.cos(y)
    return np.sum(x)


def two_loops(x):
    for _ in range(20):
        x = x + 0.1 * np.sin(x)
    for _ in range(20):
        x = x * 0.9 + np.cos(x) * x
    return np.sum(x)


def step_sizes(x, iterations=30):
    for i in range(iterations):
        x = x + 0.1 / (i + 1) * np.sin(i * x)
    return np.sum(x**2)


def trajectory(x, iterations=20):
    path = [x]
    for _ in range(iterations):
        x = x + 0.1 * np.sin(x)
        path.append(x)
    return np.sum(np.stack(path) ** 2)


def listed(x, iterations=30):
    losses = []
    for _ in range(iterations):
        x = x + 0.1 * np.sin(x)
        losses.append(np.sum(x * x))
    return sum(losses)


def written(x, iterations=20):
    path = anp.zeros((iterations, x.shape[0]))
    for i in range(iterations):
        x = x + 0.1 * np.sin(x)
        path[i] = x
    return np.sum(path**2)


def differences(data):
    total = 0.0
    for i in range(1, len(data)):
        total = total + np.sum(np.sin(data[i] - data[i - 1]))
    return total


def scalars(x, y, iterations=30):
    for _ in range(iterations):
        x, y = x + 0.1 * y, y - 0.1 * np.sin(x)
    return x * y


W, DATA = np.linspace(-0.5, 0.5, 9).reshape(3, 3), np.linspace(-1, 1, 60).reshape(20, 3)
PROGRAMS = {
    "euler": (euler, (np.linspace(0.1, 1, 3), np.linspace(1, 2, 3))),
    "runge_kutta": (runge_kutta, (np.ones(3), LORENZ)),
    "lstm": (lstm, (np.linspace(-0.4, 0.5, 12 * 5).reshape(12, 5), np.linspace(-1, 1, 30).reshape(15, 2))),
    "heat": (heat, (np.sin(np.linspace(0, 3, 12)),)),
    "newton": (newton, (np.array([2.0, 3.0]),)),
    "verlet": (verlet, (np.array([0.3, 0.4]),)),
    "rows_of_data": (rows_of_data, (W, DATA)),
    "columns_of_data": (columns_of_data, (DATA.T.copy(),)),
    "nested": (nested, (np.array([0.3, 0.4]),)),
    "two_loops": (two_loops, (np.array([0.3, 0.4]),)),
    "step_sizes": (step_sizes, (np.array([0.3, 0.4]),)),
    "trajectory": (trajectory, (np.array([0.3, 0.4]),)),
    "listed": (listed, (np.array([0.3, 0.4]),)),
    "written": (written, (np.array([0.3, 0.4]),)),
    "differences": (differences, (DATA,)),
    "scalars": (scalars, (np.float64(0.5), np.float64(0.25))),
}


@pytest.mark.parametrize("name", sampled(PROGRAMS, 3))
def test_every_mode_gives_the_same_bits(name):
    f, args = PROGRAMS[name]
    if f is runge_kutta:  # the graph of its second derivative is long
        f = functools.partial(f, iterations=9)
    in_all_modes(f, *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_as_eager(name):
    f, args = PROGRAMS[name]
    g = ad.value_and_grad(f)
    compiled = ad.jit(g)
    value, slope = compiled(*args)
    want, wanted = g(*args)
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, rtol=1e-11, atol=1e-12)
    assert not compiled.eager


# -- iterations ------------------------------------------------------------------------------------------------------


def test_all_iterations_of_a_plain_loop_are_in_it():
    rolled(euler, *PROGRAMS["euler"][1], iterations=[30])
    found = rolled(runge_kutta, *PROGRAMS["runge_kutta"][1], iterations=[12])
    assert found.loops[0].line.startswith("test_roll.py:")
    assert len(simplify(found.graph)[0]) < 8  # what only the first iteration reads is in front of the loop


def test_the_backward_half_is_a_loop_in_reverse():
    found = rolled(ad.grad(runge_kutta), *PROGRAMS["runge_kutta"][1], loops=2)
    forward, backward = [e for e in found.graph.equations if e.op.name == "scan"]
    assert not forward.params["reverse"]
    assert backward.params["reverse"]


def test_values_of_two_iterations_before():
    def multistep(x):
        a, b, c = x, x * 1.1, x * 1.2
        for _ in range(20):
            a, b, c = b, c, np.sin(c) + 0.1 * b - 0.2 * a
        return np.sum(c) + np.sum(a)

    in_all_modes(multistep, np.array([0.3, 0.4]))


def test_a_stretch_of_other_iterations_in_the_middle_gives_two_loops():
    def branching(x):
        for i in range(40):
            x = np.tanh(x) * 2 if i == 20 else x + 0.1 * np.sin(x)
        return np.sum(x)

    rolled(branching, np.array([0.3, 0.4]), iterations=[20, 19])
    in_all_modes(branching, np.array([0.3, 0.4]), least=2)


def test_every_second_iteration_differs():
    def alternating(x):
        for i in range(40):
            x = x + 0.1 * np.sin(x) if i % 2 else x * 0.9
        return np.sum(x)

    rolled(alternating, np.array([0.3, 0.4]), loops=1)


def test_too_few_iterations_and_too_few_equations_are_left():
    x = np.array([0.3, 0.4])
    rolled(lambda x: euler(x, x, iterations=7), x, loops=0, saving=1)
    rolled(lambda x: euler(x, x, iterations=8), x, loops=1, saving=1)
    rolled(lambda x: euler(x, x, iterations=30), x, loops=1, saving=145)
    rolled(lambda x: euler(x, x, iterations=30), x, loops=0, saving=146)


# -- constants and indices that change --------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "least"), [(np.sin, 65), (np.negative, 129)])
def test_functions_weigh_more_than_operators(step, least):
    def chain(count):
        def f(x):
            for _ in range(count):
                x = step(x)
            return x

        return f

    x = np.array([0.3, -1.2])
    for count in (least - 1, least, 4 * least):
        found = roll(staged(chain(count), x))
        assert len(found.loops) == (count >= least)
        gradient = ad.jit(ad.grad(lambda x, count=count: anp.sum(chain(count)(x))))
        np.testing.assert_allclose(gradient(x), ad.grad(lambda x, count=count: anp.sum(chain(count)(x)))(x), rtol=1e-13)
        if step is np.sin:  # the gradient by the other is a constant
            assert ("are a loop" in gradient.report()) == (count >= least)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_weak_numbers_keep_the_dtype(dtype):
    def f(x):
        for i in range(20):
            x = x * (0.1 * i) + i - x / (i + 1)
        return x

    found = rolled(f, np.array([0.3, 0.4], dtype), loops=1)
    assert found.graph.output_types[0].dtype == dtype


def test_comparisons_with_changing_weak_numbers():
    def f(x):
        for i in range(20):
            x = np.where(x < 0.1 * i, x + 0.3, x * 0.9)
        return x

    rolled(f, np.linspace(0, 1, 7).astype(np.float32), loops=1)


def test_exponents_that_change_are_not_rolled():
    def f(x):
        total = 0.0
        for i in range(20):
            total = total + x ** (i + 3)
        return total

    found = rolled(f, np.array([0.3, 0.4]))
    assert not found.loops
    assert any("'power'" in u.reason for u in found.unrolled), found.unrolled


def test_arrays_that_change():
    def f(x):
        rng = np.random.default_rng(0)
        for _ in range(20):
            x = np.tanh(rng.normal(size=(3, 3)) @ x)
        return np.sum(x)

    in_all_modes(f, np.array([0.3, 0.4, 0.5]))


@pytest.mark.parametrize(
    "index",
    [
        lambda a, i: a[i],
        lambda a, i: a[19 - i],
        lambda a, i: a[-1 - i],
        lambda a, i: a[2 * i % 20],
        lambda a, i: a[7 * i % 20],
        lambda a, i: a[i, 1:],
        lambda a, i: a[i, 1],
        lambda a, i: a[i % 20, i % 3],
        lambda a, i: a.T[1, i],
        lambda a, i: a.T[:, i],
        lambda a, i: a[None, i],
    ],
)
def test_reads_at_places_that_change(index):
    def f(a):
        x = a[0, 0]
        for i in range(20):
            x = x + np.sum(np.sin(index(a, i)) * x)
        return x

    a = np.linspace(-1, 1, 60).reshape(20, 3)
    assert rolled(f, a).loops
    assert rolled(ad.grad(f), a).loops


@pytest.mark.parametrize("places", [(-1, 3), (1, -3), (0, -4, 0)])
def test_one_place_that_is_counted_from_both_ends(places):
    def f(x):
        a = x * 1.0
        for i in range(30):
            a[places[i % len(places)]] = np.sin(a[places[(i + 1) % len(places)]]) * a[1] + 0.5
        return np.sum(a)

    x = np.linspace(0.1, 0.9, 4)
    assert rolled(f, x).loops
    assert rolled(ad.grad(f), x).loops


def test_reads_of_an_array_that_changes():
    def f(a):
        for i in range(10):
            a = a + 0.1 * np.sin(a[i]) * a[9 - i]
        return np.sum(a)

    in_all_modes(f, np.linspace(0.1, 1, 10))


def test_writes_to_an_array_that_is_read():
    def f(x):
        u = anp.zeros((20,))
        u[0] = x
        for i in range(19):
            u[i + 1] = u[i] + 0.1 * np.sin(u[i])
        return np.sum(u**2)

    rolled(f, np.float64(0.5), loops=1)
    rolled(ad.grad(f), np.float64(0.5), loops=2)


def test_two_rows_for_each_iteration():
    def f(x):
        u = anp.zeros((20, 2))
        for i in range(20):
            x = np.sin(x) + 0.1
            u[i, 0] = x
            u[i, 1] = x * x
        return u

    rolled(f, np.float64(0.5), loops=1)
    rolled(lambda x: ad.jvp(f, (x,), (1.0,)), np.float64(0.5), loops=1)


def test_a_negative_zero_becomes_positive_in_a_sum_of_rows():
    def f(a):
        total = 0.0
        for i in range(20):
            total = total + np.sum(a[i]) * -0.0
        return total

    rolled(ad.grad(f), -np.ones((20, 3)))


def test_a_list_of_results_is_one_array():
    def f(x):
        path = []
        for _ in range(50):
            x = np.sin(x)
            path.append(x)
        return np.stack(path), np.stack(path[::-1], axis=1), np.concatenate(path)

    found = rolled(f, np.array([0.3, 0.4]), loops=1)
    assert len(simplify(found.graph)[0]) < 10


# -- results and reports ----------------------------------------------------------------------------------------


def test_results_of_early_iterations():
    def f(x):
        seen = []
        for _ in range(20):
            x = np.sin(x)
            seen.append(x)
        return seen[3], seen[-1], seen[-2]

    rolled(f, np.array([0.3, 0.4]), loops=1, saving=8)


def test_shapes_that_change_are_explained():
    def f(x):
        for _ in range(60):
            x = np.sin(np.cumsum(x[1:])) + x[0]
        return np.sum(x)

    found = rolled(f, np.linspace(0, 1, 70))
    assert not found.loops
    (left,) = found.unrolled
    assert "shapes" in left.reason
    assert "test_roll.py" in left.line


def test_layers_of_different_weights_are_rows_of_a_stack():
    def f(weights):
        x = np.ones(3)
        for w in weights:
            x = np.tanh(w @ x) + x
        return np.sum(x)

    rolled(f, [W + i for i in range(20)], loops=1, iterations=[20])


def test_large_layers_are_not_stacked():
    """To copy a matrix would take as long as to multiply it by a vector."""

    def f(weights):
        x = np.ones(40)
        for w in weights:
            x = np.tanh(w @ x) + x
        return np.sum(x)

    found = rolled(f, [np.eye(40) + i for i in range(40)])
    assert not found.loops
    assert any("'matmul' reads" in u.reason for u in found.unrolled), found.unrolled


def test_loops_in_the_body_of_a_loop():
    def f(x):
        def body(c, _):
            for _ in range(20):
                c = c + 0.1 * np.sin(c)
            return c, None

        return ad.scan(body, x, None, length=3)[0]

    found = rolled(f, np.array([0.3, 0.4]))
    assert [p.iterations for p in found.loops] == [20]


def test_guards_are_rolled_too():
    def newton_while(a):
        x = a
        for _ in range(60):
            if x < 0:
                break
            x = x - (x * x - a) / (2 * x)
        return x

    f = ad.jit(ad.value_and_grad(newton_while))
    want = ad.value_and_grad(newton_while)(np.float64(2.0))
    np.testing.assert_allclose(f(np.float64(2.0)), want, rtol=1e-12)
    np.testing.assert_allclose(f(np.float64(-2.0)), ad.value_and_grad(newton_while)(np.float64(-2.0)))  # another path
    path = f.lower(np.float64(2.0))
    assert len(path.graph) < 100
    assert "iterations of" in f.report()
    assert "are a loop" in f.report()


def test_python_numbers_as_arguments():
    def f(x, h):
        for _ in range(60):
            x = x + h * np.sin(x)
        return x

    x = np.array([0.3, 0.4], np.float32)
    got, want = ad.jit(f)(x, 0.1), f(x, 0.1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_work_grows_linearly_with_the_iterations():
    """Counted in calls, of functions in C too, and in the equations that are left."""

    def cost(iterations):
        graph = staged(ad.value_and_grad(lambda x: euler(x, x, iterations=iterations)), np.array([0.3, 0.4]))
        profile = cProfile.Profile()
        found = profile.runcall(roll, graph)
        calls = sum(entry.callcount for entry in profile.getstats())
        return calls / iterations, len(simplify(found.graph)[0])

    cost(300)  # loads modules, and fills caches
    (few, small), (many, large) = cost(300), cost(3000)
    assert small == large
    assert many < 1.5 * few


# -- loops that nobody has written ------------------------------------------------------------------------------

STEPS = [
    lambda x, y, a, i: (x + 0.1 * np.sin(y), y),
    lambda x, y, a, i: (y, x),
    lambda x, y, a, i: (x * 0.9, y + 0.1 * a[i]),
    lambda x, y, a, i: (x, np.tanh(x * y + 0.01 * i)),
    lambda x, y, a, i: (np.where(x > y, x, 0.5 * y), y),
    lambda x, y, a, i: (x + np.sum(y) * 0.1, x - y),
    lambda x, y, a, i: (np.concatenate([x[1:], x[:1]]), y),
    lambda x, y, a, i: (x, y * np.cos(a[-1 - i])),
    lambda x, y, a, i: (np.stack([x[1], y[0], x[2]]), y),
    lambda x, y, a, i: (x + 0.1 * y if i % 7 else x, y),
    lambda x, y, a, i: (x - 0.1 * a[0], np.maximum(x, y)),
]


@settings(max_examples=examples(40))
@given(
    st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=5),
    st.integers(8, 20),
    st.sampled_from(["value", "grad", "grad of rows", "hvp", "vmap"]),
    st.booleans(),
)
def test_drawn_loops(steps, iterations, mode, keep):
    def f(x, a):
        y, path = x * 0.5, []
        for i in range(iterations):
            for step in steps:
                x, y = STEPS[step](x, y, a, i)
            path.append(x)
        return np.sum(x * y) + (np.sum(np.stack(path)) if keep else 0.0)

    x, a = np.array([0.3, -0.4, 0.5]), np.linspace(-1, 1, 60).reshape(20, 3)
    program = {
        "value": f,
        "grad": ad.grad(f),
        "grad of rows": ad.value_and_grad(f, argnums=(0, 1)),
        "hvp": lambda x, a: ad.hvp(lambda x: f(x, a))(x, x),
        "vmap": lambda x, a: ad.vmap(lambda s: f(x * s, a))(np.array([1.0, 0.5])),
    }[mode]
    rolled(program, x, a, saving=16, bits=not keep or mode != "vmap")


@pytest.mark.parametrize("arrays", [1, 2, 4])
def test_iterations_that_alternate_between_arrays(arrays):
    """Of one kind, with another operand in every second or fourth: alike two by two, or four by four."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(5, 5)) for _ in range(arrays)]

    def f(x, *tables):
        for i in range(64):
            x = np.tanh(tables[i % arrays] @ x)
        return np.sum(x)

    x = rng.normal(size=5)
    run = ad.jit(ad.grad(f))
    np.testing.assert_allclose(run(x, *tables), ad.grad(f)(x, *tables), rtol=1e-12)
    assert f"{64 // arrays} iterations" in run.report()


def _cell(x):
    for _ in range(60):
        for op in (np.sin, np.cos, np.tanh, np.arctan):
            x = np.concatenate([op(x[:3]) * 0.5, op(x[1:]) * op(x[:1])])[:4]  # one line, with arrays of several lengths
    return np.sum(x)


def _shrinking(x):
    while len(x) > 1:
        x = np.sin(x[1:]) * x[:-1]
    return x[0]


@pytest.mark.parametrize(("f", "n", "tried"), [(_cell, 4, False), (_shrinking, 60, True)])
def test_padding_is_tried_only_if_the_graph_may_shrink(monkeypatch, f, n, tried):
    module = sys.modules["adjoint.rewrite.loops.roll"]
    calls = []
    monkeypatch.setattr(module, "padded", lambda graph, least: calls.append(1))
    found = roll(staged(f, np.linspace(0.1, 1.0, n)))
    assert bool(calls) is tried
    assert bool(found.loops) is not tried
