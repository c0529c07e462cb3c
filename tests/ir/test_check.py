"""Each rule of a graph, broken once: the error names the equation."""

from dataclasses import replace

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.core.op import OPS
from adjoint.core.types import Type
from adjoint.ir.check import GraphError, check
from adjoint.ir.graph import Equation, Graph, Literal

FLOAT = Type((), np.dtype(float))
SIN = Equation(OPS["sin"], (0,), {}, (1,), (FLOAT,), "model.py:3")


def graph(*equations, outputs=(1,), names=("x",), types=(FLOAT,)):
    return Graph("f", names, types, equations, outputs)


def test_a_valid_graph_passes():
    check(graph(SIN), infer_types)
    check(ad.graph(ad.grad(lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)))(1.0), infer_types)


@pytest.mark.parametrize(
    "broken, message",
    [
        (graph(replace(SIN, inputs=(5,))), "uses v5, which is not defined"),
        (graph(SIN, SIN), "defines v1 a second time"),
        (graph(replace(SIN, outputs=(0,)), outputs=(0,)), "defines v0 a second time"),
        (graph(replace(SIN, outputs=(1, 2))), "2 results and 1 types"),
        (graph(SIN, outputs=(3,)), "the return line uses v3"),
        (graph(SIN, names=("x", "x"), types=(FLOAT, FLOAT)), "distinct names"),
        (graph(SIN, names=("x", "y")), "distinct names"),
    ],
)
def test_broken_graphs(broken, message):
    with pytest.raises(GraphError, match=message):
        check(broken)


def test_types_are_compared_with_those_of_the_op():
    wrong = graph(replace(SIN, types=(Type((2,), np.dtype(float)),)))
    check(wrong)  # as far as its numbers go, it is one
    with pytest.raises(GraphError, match=r"sin") as caught:
        check(wrong, infer_types)
    assert caught.value.equation is wrong.equations[0]


def test_a_nested_graph_is_checked():
    staged = ad.graph(lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c), x))(1.0)
    (loop,) = [e for e in staged.equations if e.op.name == "scan"]
    body = loop.params["body"]
    broken = replace(loop, params={**loop.params, "body": replace(body, outputs=(99,) * len(body.outputs))})
    with pytest.raises(GraphError, match="v99"):
        check(replace(staged, equations=tuple(broken if e is loop else e for e in staged.equations)))


def test_literals_are_defined_everywhere():
    check(graph(replace(SIN, inputs=(Literal(1.0),)), outputs=(Literal(2.0), 1)))
