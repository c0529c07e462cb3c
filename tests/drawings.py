"""Graphs that the tests of the views draw."""

import numpy as np

import adjoint as ad
from adjoint.api.graph import Program
from adjoint.core.op import OPS
from adjoint.core.types import Type
from adjoint.ir.graph import Equation, Literal

HOSTILE = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<!--<script>",
    "\"'><img src=x onerror=window.hacked=1>",
    "]]>&amp;&#60;<b>",
    "\u2028\u2029\u0000\u0007\ud800\uffff",
    "${window.hacked=1}`",
    "javascript:window.hacked=1",
    "<!--data-->",
    "\u202eevil\u0301",
    "x" * 5000,
    "",
]


def textbook(x1, x2):
    return np.log(x1) + x1 * x2 - np.sin(x2)


def network(x, layers):
    for w, b in layers:
        x = np.tanh(x @ w + b)
    return np.sum(x**2)


def weights(depth, width=3):
    generator = np.random.default_rng(0)
    return [(generator.standard_normal((width, width)), generator.standard_normal(width)) for _ in range(depth)]


def several(a):
    w, v = np.linalg.eigh(a)
    return np.sum(w) + np.sum(v * np.array([1.0, 2.0])), w


def mixed(count):
    """A program of `count` equations in which nothing repeats for long."""
    generator = np.random.default_rng(7)
    plan = [(*generator.integers(max(0, n - 12), n, 2).tolist(), int(generator.integers(5))) for n in range(2, count + 2)]
    kinds = [np.add, np.multiply, lambda a, b: np.sin(a), lambda a, b: np.tanh(b), np.subtract]

    def f(x, y):
        values = [x, y]
        for i, j, kind in plan:
            values.append(kinds[kind](values[i], values[j]))
        return values[-1]

    return ad.graph(f)(0.5, 0.25)


def hostile():
    """A graph in which every name, and every source line, tries to break out of the text around it."""
    scalar = Type((), np.dtype(float))
    count = len(HOSTILE)
    equations = []
    for i, text in enumerate(HOSTILE):
        operand = equations[-1].outputs[0] if equations else 0
        inputs = (operand, i)
        equations.append(Equation(OPS["add"], inputs, {"note": text}, (count + i,), (scalar,), line=text))
    return Program(
        HOSTILE[1], tuple(HOSTILE), (scalar,) * count, tuple(equations), (equations[-1].outputs[0], Literal(np.array(HOSTILE[0])))
    )


def small_graphs():
    layers = weights(3)
    return {
        "textbook": ad.graph(textbook)(2.0, 5.0),
        "network": ad.graph(network)(np.ones(3), layers),
        "gradient": ad.graph(ad.grad(network, argnums=1))(np.ones(3), layers),
        "simplified": ad.graph(ad.grad(network, argnums=1))(np.ones(3), layers).simplify(),
        "several": ad.graph(several)(np.eye(2)),
        "identity": ad.graph(lambda x: x)(1.0),
        "constant": ad.graph(lambda x: 5.0)(1.0),
        "no inputs": ad.graph(lambda: np.float64(3.0))(),
        "array constant": ad.graph(lambda x: (x, np.ones((2, 2))))(1.0),
        "unused": ad.graph(lambda x, y: np.sin(x))(1.0, np.ones((3, 4), np.float32)),
        "comparison": ad.graph(lambda x: np.where(x > 0, x, np.floor(x)))(np.ones(4)),
    }
