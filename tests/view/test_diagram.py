"""Graphs as boxes and edges: every value has a box, every use an edge."""

import numpy as np
import pytest
from drawings import mixed, small_graphs

import adjoint as ad
from adjoint.ir.graph import Literal
from adjoint.view.diagram import diagram, port, shorten, show_literal, width_of

GRAPHS = small_graphs() | {"60 equations": mixed(60)}


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_go_forward_between_boxes(name):
    drawn = diagram(GRAPHS[name])
    assert len(drawn.nodes) == len(drawn.sizes)
    assert all(width > 0 and height > 0 for width, height in drawn.sizes)
    assert all(0 <= edge.source < edge.target < len(drawn.nodes) for edge in drawn.edges)


def test_a_box_for_each_input_equation_and_output():
    graph = ad.graph(lambda x, y: (np.sin(x) * y, x))(1.0, 2.0)
    assert len(diagram(graph).nodes) == 2 + 2 + 2


@pytest.mark.parametrize("count", [1, 2, 5])
def test_ports_are_in_order_and_symmetric(count):
    places = [port(i, count) for i in range(count)]
    assert places == sorted(places)
    assert all(0 < p < 1 for p in places)
    np.testing.assert_allclose(places, 1 - np.array(places[::-1]))


def test_texts():
    assert shorten("short") == "short"
    assert len(shorten("x" * 500)) < 100
    assert "\n" not in shorten("a\nb")
    assert width_of("abc", 10.0) > width_of("ab", 10.0) > 0
    assert show_literal(Literal(2.0))
