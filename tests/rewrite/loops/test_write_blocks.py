"""Loops whose iterations run some of several blocks: the same bits as the trace, and the same gradients."""

import random

import numpy as np
import pytest
from night import asked

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import roll


def triangle(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = s + np.sin(x[i] * x[j])
    return s


def substitution(a, b):
    n = len(b)
    x = anp.zeros(n)
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s = s - a[i, j] * x[j]
        x[i] = s / a[i, i]
    return np.sum(x * x)


def cholesky(a):
    n = len(a)
    c = anp.zeros((n, n))
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s = s - c[j, k] ** 2
        c[j, j] = np.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s = s - c[i, k] * c[j, k]
            c[i, j] = s / c[j, j]
    return np.sum(c * np.arange(1.0, n + 1))


def elimination(a):
    a = anp.array(a)
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]
    return np.sum(np.log(np.diag(a)))


def orthogonal(a):
    q = anp.array(a)
    n = q.shape[1]
    for k in range(n):
        q[:, k] = q[:, k] / np.sqrt(np.sum(q[:, k] ** 2))
        for j in range(k + 1, n):
            q[:, j] = q[:, j] - (q[:, k] @ q[:, j]) * q[:, k]
    return np.sum(np.abs(q))


def intervals(p):
    n = len(p) - 1
    cost = anp.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            best = np.inf
            for k in range(i, i + length):
                best = np.minimum(best, cost[i, k] + cost[k + 1, i + length] + p[i] * p[k + 1] * p[i + length + 1])
            cost[i, i + length] = best
    return cost[0, n - 1]


def neville(y):
    p = [y[i] for i in range(len(y))]
    for k in range(1, len(y)):
        for i in range(len(y) - k):
            p[i] = ((0.7 - (i + k)) * p[i] + (i - 0.7) * p[i + 1]) / -k
    return p[0]


def branches(x):
    s, kept = 0.0, []
    for i in range(len(x)):
        for j in range(i % 5):
            s = s * np.cos(x[j]) + (np.sin(x[i]) if (i + j) % 3 else x[i] ** 2)
        if i % 4 == 1:
            kept.append(s)
    return s + np.sum(anp.stack(kept) ** 2)


RNG = np.random.default_rng(0)
DEFINITE = (lambda a: a @ a.T + 14 * np.eye(14))(RNG.normal(size=(14, 14)))
PROGRAMS = {
    triangle: (RNG.normal(size=24),),
    substitution: (RNG.uniform(0, 1, (20, 20)) + 20 * np.eye(20), RNG.normal(size=20)),
    cholesky: (DEFINITE,),
    elimination: (DEFINITE,),
    orthogonal: (RNG.normal(size=(20, 16)),),
    intervals: (RNG.uniform(0.2, 1.0, 14),),
    neville: (RNG.normal(size=24),),
    branches: (RNG.normal(size=90),),
}


def rolled(f, *args, saving=128):
    """The rolled graph, after a comparison of its results with those of the trace, bit for bit."""
    graph = ad.graph(f)(*args)
    found = roll(graph, saving=saving)
    check(found.graph, infer_types)
    with np.errstate(all="ignore"):  # blocks that do not run compute something
        np.testing.assert_array_equal(found.graph.run_flat(args), graph.run_flat(args))
    return found


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_nest_of_loops_of_different_lengths_is_one_loop(f):
    found = rolled(f, *PROGRAMS[f])
    assert len(found.graph) < 60, str(found.graph)
    assert len(found.loops) <= 2


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_of_such_nests(f):
    args = PROGRAMS[f]
    compiled = ad.jit(ad.value_and_grad(f))
    value, gradient = compiled(*args)
    expected, slope = ad.value_and_grad(f)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-12)
    assert "runs eagerly" not in compiled.report()


def test_a_block_that_does_not_run_adds_nothing_even_if_it_is_not_finite():
    def f(x):
        s = x[0]
        d = anp.zeros(len(x))
        for i in range(len(x)):
            for j in range(i):
                s = s + x[i] * d[j]
            d[i] = 1.0 / (s - s + x[i])  # 1 / 0 in every iteration before the first run
        return np.sum(d) + s

    x = np.linspace(0.5, 1.0, 24)
    gradient = ad.jit(ad.grad(f))(x)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, ad.grad(f)(x), rtol=1e-12)


def test_an_array_that_is_copied_in_the_loop_is_refused_by_name():
    def f(x):
        a = anp.zeros(len(x))
        for i in range(len(x)):
            b = a.copy()
            for j in range(i):
                b[j] = a[j] + x[i] * a[i - 1 - j]
            b[i] = x[i]
            a = b
        return np.sum(a)

    found = rolled(f, RNG.normal(size=24))
    assert any("an earlier state of an array is read" in str(u) for u in found.unrolled)


# -- random programs --------------------------------------------------------------------------------------------------


class Program:
    """A random nest of loops over counters, lists, an array and scalars, as source."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def f(x, m):", "    n = len(x)", "    s, t, c, path, r = x[0], 0.25, anp.zeros(n), [x[1]], x[:3]"]
        for _ in range(self.random.randint(1, 2)):
            self.loop(1, [])
        self.lines.append(
            "    return np.sum(c) + s * t + path[-1] + np.sum(r) + np.sum(anp.stack(path[:9]) if len(path) > 8 else c)"
        )

    def loop(self, depth, counters):
        name = "ijk"[depth - 1]
        ranges = ["range(n)", "range(n - 1, -1, -1)", "range(1, n, 2)", "range(3)"]
        if counters:
            outer = self.random.choice(counters)
            ranges += [f"range({outer})", f"range({outer}, n)", f"range({outer} % 4)", f"reversed(range({outer} + 1))"] * 2
        self.line(depth, f"for {name} in {self.random.choice(ranges)}:")
        counters = [*counters, name]
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth + 1, counters)
        if depth < 3 and self.random.random() < (0.9 if depth == 1 else 0.3):
            self.loop(depth + 1, counters)
            if self.random.random() < 0.7:
                self.statement(depth + 1, counters)

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def index(self, counters):
        return self.random.choice([*counters, f"n - 1 - {counters[-1]}", f"({counters[-1]} + {counters[0]}) % n"])

    def value(self, counters):
        i, j = self.index(counters), self.index(counters)
        choices = ["s", "t", f"x[{i}]", f"c[{i}]", f"m[{i}, {j}]", f"np.sin(x[{i}])", "path[-1]", "path[len(path) // 2]", "0.5"]
        choices += [f"r[{self.random.randint(0, 2)}]", "path[-2 % len(path)]"]
        return self.random.choice(choices)

    def statement(self, depth, counters):
        a, b = self.value(counters), self.value(counters)
        right = self.random.choice([f"0.5 * np.tanh({a}) + {b} / 3", f"{a} * 0.25 - np.cos({b})", f"np.maximum({a}, {b} * 0.5)"])
        left = self.random.choice(["s", "t", "s", f"c[{self.index(counters)}]", "path"])
        text = f"path.append({right})" if left == "path" else f"{left} = {right}"
        text = self.random.choice([text] * 4 + [f"s, t = {right}, s", f"r = anp.stack([r[1], {a}, r[0]])", f"r = r * 0.5 + {a}"])
        if self.random.random() < 0.3:
            text = f"if {counters[-1]} % {self.random.randint(2, 4)} == {self.random.randint(0, 1)}: {text}"
        self.line(depth, text)

    def function(self):
        names = {"np": np, "anp": anp}
        exec("\n".join(self.lines), names)
        return names["f"]


X, M = RNG.normal(size=13), RNG.normal(size=(13, 13))


@pytest.mark.parametrize("seed", range(asked(20, at_night=120)))
def test_random_nests_keep_their_results(seed):
    program = Program(seed)
    rolled(program.function(), X, M, saving=16)


@pytest.mark.parametrize("seed", range(asked(3)))
def test_random_nests_keep_their_gradients(seed):
    f = Program(seed).function()
    gradient = ad.jit(ad.grad(f))(X, M)
    np.testing.assert_allclose(gradient, ad.grad(f)(X, M), rtol=1e-10, atol=1e-11)
