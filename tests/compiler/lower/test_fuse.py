"""The work of fused programs: a value is computed once, and the machine code of a function is shared.

Programs are random straight-line code over one array, written as Python text.
"""

import random

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm.program import Module
from adjoint.compiler.lower.fuse import lower
from adjoint.compiler.lower.kernel import Kernel
from adjoint.compiler.lower.schedule import arithmetic, cost, written_arithmetic
from adjoint.compiler.lower.step import RowTiles
from adjoint.rewrite.pipeline import optimize

_UNARY = ("sin({a} * 0.5)", "cos({a} * 0.5)", "tanh({a} * 0.5)", "-{a} * 0.5", "abs({a}) * 0.5", "exp(-{a} * {a})")
_BINARY = ("({a} + {b}) * 0.5", "{a} * {b} * 0.5", "({a} - {b}) * 0.5", "maximum({a}, {b}) * 0.5", "{a} / (2 + {b} * {b})")


def program(count, seed, reach=10.0):
    """A function of so many statements, each of which reads results of about the last `reach` ones."""
    rng = random.Random(seed)
    text = ["def f(v0):"]
    for i in range(count):
        a, b = (f"v{max(0, i - int(abs(rng.gauss(0, reach))))}" for _ in range(2))
        template = rng.choice(_UNARY if rng.random() < 0.4 else _BINARY)
        text.append(f"    v{i + 1} = {template.format(a=a, b=b)}")
    text.append(f"    return {' + '.join(f'v{i}' for i in range(max(0, count - 4), count + 1))}")
    names = {name: getattr(np, name) for name in ("sin", "cos", "tanh", "abs", "exp", "maximum")}
    exec("\n".join(text), names)
    return names["f"]


def fused(f, x):
    """The optimised graph of a function, and its steps."""
    graph = optimize(ad.graph(f)(x)).graph
    return graph, lower(graph)


def kernels(lowered):
    for step in lowered.steps:
        yield from step.kernels if isinstance(step, RowTiles) else [step] if isinstance(step, Kernel) else []


def functions(lowered):
    return sum(cost(line) >= 20 for kernel in kernels(lowered) for line in kernel.code)


def chain(count):
    picked = [(np.sin, np.cos, np.tanh)[random.Random(i).randrange(3)] for i in range(count)]

    def f(s):
        for function in picked:
            s = function(0.9 * s) + s
        return s

    return f


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 23, 24, 25, 30, 48, 49, 60, 100, 400])
@pytest.mark.parametrize("points", [1, 1000, 40_000])
def test_each_written_function_is_computed_once(count, points):
    graph = ad.graph(chain(count))(np.ones(points))
    assert functions(lower(graph)) == count


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reach", [1.5, 10.0, 200.0])
@pytest.mark.parametrize("count", [30, 100, 400])
@pytest.mark.parametrize("derive", [lambda f: f, lambda f: ad.grad(lambda x: f(x).sum())], ids=["function", "gradient"])
def test_fusion_adds_a_tenth_of_the_work_at_most(count, reach, derive):
    """And values that are cheaper to compute than to store and load: a twentieth here."""
    graph, lowered = fused(derive(program(count, count, reach)), np.linspace(0.1, 1.0, 1000))
    assert arithmetic(lowered.steps) <= 1.15 * written_arithmetic(graph.equations)


def test_ten_thousand_operations():
    """Lines of code and of machine code grow with the program, and no faster."""
    graph, lowered = fused(program(7000, 0), np.linspace(0.1, 1.0, 1000))
    assert len(graph.equations) > 9000
    assert arithmetic(lowered.steps) <= 1.1 * written_arithmetic(graph.equations)
    assert sum(len(kernel.code) for kernel in kernels(lowered)) < 3 * len(graph.equations)
    text = Module(lowered).text()
    assert text.count("call double @adjoint.sin") < 10  # of several hundred
    assert text.count("\n") < 8 * len(graph.equations)


@pytest.mark.parametrize("points", [16, 17, 40_000])
@pytest.mark.parametrize("count", [40, 250])
def test_values_and_gradients_on_both_sides_of_the_limit(count, points):
    f, x = program(count, 7), np.linspace(0.1, 1.0, points)
    np.testing.assert_allclose(ad.jit(f)(x), f(x), rtol=1e-12)
    g = ad.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(ad.jit(g)(x), g(x), rtol=1e-9, atol=1e-12)


def test_functions_of_broadcast_and_mixed_operands():
    def f(x, y):
        for i in range(60):
            x = np.hypot(np.sin(x[:, None] + 0.1 * i) + y, np.float32(1)).mean(axis=1)
        return x

    x, y = np.linspace(0, 1, 20), np.linspace(0, 1, 30, dtype=np.float32)
    np.testing.assert_allclose(ad.jit(f)(x, y), f(x, y), rtol=1e-12)
