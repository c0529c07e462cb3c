"""Loops over arrays that shrink or grow: padded, rolled, with the same results and gradients."""

import random

import numpy as np
import pytest
from night import asked

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import roll
from adjoint.rewrite.loops.padded import padded

RNG = np.random.default_rng(0)


def tree(s):
    v = np.maximum(1.0 - s, 0.0)
    for _k in range(len(s) - 1):
        s = s[: len(v) - 1] * 1.01
        v = np.maximum(0.99 * (0.6 * v[1:] + 0.4 * v[:-1]), 1.0 - s)
    return v[0]


def pascal(x):
    row = np.ones(1) * x[0]
    for k in range(1, len(x)):
        row = 0.5 * (np.concatenate([row, np.zeros(1)]) + np.concatenate([np.zeros(1), row])) * x[k]
    return np.sum(row * row)


def divided_differences(y):
    c = anp.array(y)
    x = np.arange(len(y)) ** 1.5
    for k in range(1, len(x)):
        c[k:] = (c[k:] - c[k - 1 : -1]) / (x[k:] - x[: len(x) - k])
    return np.sum(c[:6])


def levinson(r):
    a, e = np.ones(1), 4.0
    r = np.concatenate([np.array([4.0]), 0.2 * r])
    for m in range(1, len(r)):
        k = -(a @ r[m:0:-1]) / e
        longer = np.concatenate([a, np.zeros(1)])
        a, e = longer + k * longer[::-1], e * (1.0 - k * k)
    return e + np.sum(a * a)


def substitution(a):
    x = anp.zeros(len(a))
    for i in range(len(a)):
        x[i] = (1.0 - a[i, :i] @ x[:i]) / a[i, i]
    return np.sum(x * x)


def rows_of_cholesky(a):
    n = len(a)
    c = anp.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - c[i, :j] @ c[j, :j]
            c[i, j] = np.sqrt(s) if i == j else s / c[j, j]
    return np.sum(c)


def outer_products(a):
    a = anp.array(a)
    for k in range(len(a) - 1):
        a[k + 1 :, k] = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k + 1 :] = a[k + 1 :, k + 1 :] - np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(np.diag(a)))


def rows_of_lu(a):
    a = anp.array(a)
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            a[i, k + 1 :] = a[i, k + 1 :] - a[i, k] * a[k, k + 1 :]
    return np.sum(np.log(np.diag(a)))


def prefixes(x):
    s = 0.0
    for i in range(1, len(x) + 1):
        s = s + np.log(np.sum(x[:i] ** 2)) * np.sum(x[i - 1 :])
    return s


def columns(a):
    s = 0.0
    for i in range(len(a)):
        s = np.tanh(s + np.sum(a[i:, i]) - np.sum(np.sin(a[i, i:])))
    return s


DEFINITE = (lambda a: a @ a.T + 24 * np.eye(24))(RNG.normal(size=(24, 24)))
PROGRAMS = {
    tree: np.linspace(0.5, 1.5, 40),
    pascal: RNG.uniform(0.5, 1.5, 40),
    divided_differences: RNG.normal(size=30),
    levinson: RNG.uniform(-1, 1, 30),
    substitution: DEFINITE,
    rows_of_cholesky: DEFINITE,
    outer_products: DEFINITE,
    rows_of_lu: DEFINITE,
    prefixes: RNG.normal(size=40),
    columns: RNG.normal(size=(30, 30)),
}


def rolled(f, x, saving=128):
    graph = ad.graph(f)(x)
    found = roll(graph, saving=saving)
    check(found.graph, infer_types)
    with np.errstate(all="ignore"):  # behind the ends of arrays
        np.testing.assert_allclose(found.graph.run_flat([x]), graph.run_flat([x]), rtol=1e-12)  # sums of zeros: another order
    return found


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_loop_over_arrays_of_changing_length_is_rolled(f):
    found = rolled(f, PROGRAMS[f])
    assert len(found.graph) < 60, [str(u) for u in found.unrolled]
    assert len(found.loops) <= 2


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_of_such_loops(f):
    value, gradient = ad.jit(ad.value_and_grad(f))(PROGRAMS[f])
    expected, slope = ad.value_and_grad(f)(PROGRAMS[f])
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-12)


def test_what_is_behind_the_end_does_not_count_even_if_it_is_not_finite():
    def f(x):
        v = x
        for _k in range(len(x) - 1):
            v = np.log(v[1:]) * v[:-1] + 2.0 / (v[1:] - 0.25 * x[0] * v[:-1])  # behind the end: log(0), 2 / 0
        return v[0] + np.sum(v)

    x = np.linspace(2.0, 3.0, 12)
    value, gradient = ad.jit(ad.value_and_grad(f))(x)
    expected, slope = ad.value_and_grad(f)(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-11)


def test_an_op_that_has_no_padded_form_stays_as_it_is():
    def f(x):
        s = 0.0
        for i in range(2, len(x)):
            s = s + np.sum(np.sort(x[:i])[: i // 2] * s)
        return s

    graph = ad.graph(f)(RNG.normal(size=40))
    assert padded(graph, 8) is None
    rolled(f, RNG.normal(size=40))


@pytest.mark.parametrize(
    "spec", ["a[i, i : i + 3]", "a[i : i + 3, i]", "a[i, ::2][i : i + 2]", "a[:, i, i : i + 2]", "a[i, :, 2 * i : 2 * i + 3]"]
)
def test_a_slice_that_moves_beside_an_integer(spec):
    names = {"np": np}
    exec(f"def f(a):\n    s = 0.5\n    for i in range(20):\n        s = np.tanh(s + np.sum(np.cos({spec})))\n    return s", names)
    a = RNG.normal(size=(24, 24, 48) if spec.count(",") == 2 else (48, 48))
    found = rolled(names["f"], a)
    assert len(found.graph) < 12
    assert len(found.loops) == 1
    np.testing.assert_allclose(ad.jit(ad.grad(names["f"]))(a), ad.grad(names["f"])(a), rtol=1e-11, atol=1e-12)


# -- random programs --------------------------------------------------------------------------------------------------


def program(seed):
    """A random loop over slices of two vectors, an array that is written to, and a matrix."""
    draw = random.Random(seed)
    part = draw.choice(["[: n - k]", "[k:]", "[: k + 1]", "[n - k - 1 :]", "[k::-1]"])
    row = {"[k::-1]": "[: k + 1]"}.get(part, part)
    values = [f"v{part}", f"w{part}", f"m[k, {row[1:-1]}]", f"m[{row[1:-1]}, k]", f"c{part}", f"CONSTANT{part}", "s", "2.0"]
    ops = ["{} + {}", "{} * {}", "np.maximum({}, {})", "np.sin({}) - 0.5 * {}", "{} / (1.5 + np.cos({}))"]

    def vector():
        return draw.choice(ops).format(draw.choice(values[:6]), draw.choice(values))

    lines = ["def f(v, w, m):", "    n, s, c = len(v), 0.1, anp.zeros(len(v))", "    for k in range(n):"]
    for _ in range(draw.randint(1, 3)):
        line = draw.choice(
            [
                f"s = np.tanh(s + 0.1 * np.sum({vector()}))",
                f"s = 0.5 * s + 0.01 * ({draw.choice(values[:4])} @ ({vector()}))",
                f"c{row} = 0.3 * ({vector()})",
                f"u = {vector()}; s = np.cos(s) + 0.1 * np.sum(u * u)",
                f"c[k] = s + 0.2 * np.sum({vector()})",
            ]
        )
        lines.append(f"        {line}")
    lines.append("    return s + np.sum(c)")
    names = {"np": np, "anp": anp, "CONSTANT": np.linspace(0.5, 2.0, 23)}
    exec("\n".join(lines), names)
    return names["f"]


V, W, M = RNG.uniform(0.5, 1.5, 23), RNG.uniform(0.5, 1.5, 23), RNG.uniform(-1, 1, (23, 23))


@pytest.mark.parametrize("seed", range(asked(20, at_night=120)))
def test_random_loops_over_slices_keep_their_results(seed):
    f = program(seed)
    with np.errstate(all="ignore"):  # some programs grow without bound
        graph = ad.graph(f)(V, W, M)
        found = roll(graph, saving=16)
        check(found.graph, infer_types)
        np.testing.assert_allclose(found.graph.run_flat([V, W, M]), graph.run_flat([V, W, M]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(asked(6)))
def test_random_loops_over_slices_keep_their_gradients(seed):
    f = program(seed)
    with np.errstate(all="ignore"):  # some programs grow without bound
        slopes = ad.grad(f, (0, 1, 2))(V, W, M)
        if not all(np.isfinite(expected).all() for expected in slopes):
            pytest.skip("the program overflows")
        for found, expected in zip(ad.jit(ad.grad(f, (0, 1, 2)))(V, W, M), slopes, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def in_place(seed):
    """A random loop that writes slices with moving bounds, whose operands are at the same and at other distances."""
    draw = random.Random(seed)
    # By length of the slice: indices of vectors of n elements.
    vectors = {
        "n - k": ["k:", ": n - k", "n - k - 1 :: -1", "k - n :"],
        "n - k - 1": ["k + 1 :", "k : -1", ": n - k - 1", "n - 1 : k : -1", "1 : n - k"],
        "k + 1": [": k + 1", "n - k - 1 :", "k :: -1"],
    }
    length = draw.choice(list(vectors))
    at = lambda: draw.choice(vectors[length])
    row = lambda: draw.choice(["k", "0", "-1", "n - 1 - k"])

    def read():
        i, j = row(), at()
        return draw.choice([f"c[{at()}]", f"v[{at()}]", f"m[{i}, {j}]", f"m[{j}, {i}]", f"CONSTANT[{at()}]"])

    def term():
        made = f"({read()} {draw.choice(['+', '-', '*'])} {draw.choice([read(), 's', '0.5'])})"
        return draw.choice([made, f"np.sin({made})", f"{made} / (2.5 + np.cos({read()}))", f"np.maximum({made}, {read()})"])

    def line():
        i, j = at(), at()
        return draw.choice(
            [
                f"c[{i}] = 0.3 * {term()}",
                f"c[{i}] = c[{i}] - 0.2 * {term()}",
                f"m[{i}, {row()}] = 0.4 * {term()}",
                f"m[{row()}, {i}] = {term()}",
                f"m[{i}, {j}] = 0.5 * m[{i}, {j}] - 0.1 * np.outer({read()}, {read()})",
                f"m[{i}, {j}] = m[{at()}, {at()}].T * 0.3",
                f"c[{i}] = s",
                f"s = np.tanh(s + 0.1 * np.sum({term()}))",
                f"s = 0.5 * s + 0.02 * ({read()} @ ({term()}))",
                f"c[{i}] = 0.1 * (m[{i}, {j}] @ {read()})",
                f"c[{i}] = 0.2 * np.sum(m[{i}, {j}], axis={draw.choice('01')})",
                f"u = np.concatenate([{term()}, {read()}]); s = s + 0.01 * np.sum(u[1:] * u[:-1])",
            ]
        )

    lines = ["def f(v, w, m):", "    n, s, c, m = len(v), 0.1, anp.array(w), anp.array(m)", "    for k in range(n - 2):"]
    lines += [f"        {line()}" for _ in range(draw.randint(1, 3))]
    lines.append("    return s + np.sum(c) + np.sum(m * m)")
    names = {"np": np, "anp": anp, "CONSTANT": np.linspace(0.5, 2.0, 23)}
    exec("\n".join(lines), names)
    return names["f"], "\n".join(lines)


@pytest.mark.parametrize("seed", range(asked(20, at_night=120)))
def test_random_writes_to_slices_keep_their_results(seed):
    f, text = in_place(seed)
    graph = ad.graph(f)(V, W, M)
    found = roll(graph, saving=16)
    check(found.graph, infer_types)
    with np.errstate(all="ignore"):
        result, expected = found.graph.run_flat([V, W, M]), graph.run_flat([V, W, M])
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10, err_msg=text)


@pytest.mark.parametrize("seed", range(asked(4)))
def test_random_writes_to_slices_keep_their_gradients(seed):
    f, text = in_place(seed)
    with np.errstate(all="ignore"):  # some programs grow without bound
        slopes = ad.grad(f, (0, 1, 2))(V, W, M)
        if not all(np.isfinite(expected).all() for expected in slopes):
            pytest.skip("the program overflows")
        for found, expected in zip(ad.jit(ad.grad(f, (0, 1, 2)))(V, W, M), slopes, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9, err_msg=text)
