"""Editing graphs: liveness, numbering, cutting, substitution, bodies."""

import dataclasses

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op import OPS
from adjoint.ir import edit
from adjoint.ir.check import check
from adjoint.ir.columns import columns_of
from adjoint.ir.graph import Graph, Literal

X = np.array([0.3, 0.7])


def staged():
    """v1 = sin x; v2 = cos x (dead); v3 = mul v1, v1"""

    def f(x):
        s = np.sin(x)
        np.cos(x)
        return s * s

    return ad.graph(f)(X)


def in_columns(graph):
    return Graph(graph.name, graph.input_names, graph.input_types, columns_of(graph), graph.outputs)


def ops(graph):
    return [e.op.name for e in graph.equations]


def test_values_in_and_read():
    graph = staged()
    assert edit.values_in([1, Literal(2.0), 3]) == [1, 3]
    assert edit.values_read(graph) == {0, 1, 3}
    assert edit.unused_number(graph) > 3


@pytest.mark.parametrize("form", [lambda g: g, in_columns], ids=["tuple", "columns"])
def test_dead_code(form):
    short = edit.dead_code(form(staged()))
    assert ops(short) == ["sin", "mul"]
    check(short)
    np.testing.assert_array_equal(short.run_flat([X])[0], np.sin(X) ** 2)


def test_live_falls_back_to_one_equation_at_a_time():
    """Dead code that is removed link by link would need a round for each link."""

    def f(x):
        y = x
        for _ in range(3 * edit._MOST_ROUNDS):
            y = np.sin(y)
        return np.cos(x)

    columns = columns_of(ad.graph(f)(X))
    flags = edit.live(columns, [columns.values - 1])
    assert flags.tolist() == [False] * (len(columns) - 1) + [True]


def test_numbers_without_gaps():
    short = edit.dead_code(staged())
    assert not edit.is_in_order(short)
    tidy = edit.renumber(short)
    assert edit.is_in_order(tidy)
    assert [e.outputs for e in tidy.equations] == [(1,), (2,)]
    assert edit.renumber(tidy) == tidy


def test_a_cut_is_a_function_of_values_inside():
    graph = edit.cut("half", edit.dead_code(staged()), [1, 0])
    assert graph.input_names == ("r1", "x")
    with pytest.raises(KeyError):
        edit.cut("half", edit.dead_code(staged()), [1])  # sin x is still among the equations
    np.testing.assert_array_equal(graph.run_flat([X, np.zeros(2)])[0], X * X)


def test_substitute_constants_and_values():
    graph = staged()
    changed = edit.substitute(graph, {1: Literal(2.0), 0: 0})
    np.testing.assert_array_equal(edit.dead_code(changed).run_flat([X])[0], 4.0)
    assert edit.substitute(graph, {}) == graph


def test_dependents_pass_where_they_are_let():
    graph = staged()
    assert edit.dependents(graph.equations, [1], lambda e, t: True) == {1, 3}
    assert edit.dependents(graph.equations, [0], lambda e, t: e.op.name != "sin") == {0, 2}


def test_distinct_names():
    assert edit.distinct("x", ["x", "x_"]) == "x__"
    assert edit.distinct("v3", []) == "v3_"


def test_a_map_over_bodies():
    def f(x):
        return ad.scan(lambda c, _: (np.sin(c) * 2.0, None), x, None, length=9)[0]

    graph = ad.graph(f)(X)
    assert edit.has_bodies(graph)
    assert edit.map_bodies(graph, lambda body: body) is graph
    emptied = edit.map_bodies(graph, lambda body: edit.dead_code(body))
    assert emptied == graph
    seen = []

    def constant(body):
        seen.append(body.name)
        return edit.dead_code(edit.substitute(body, {n: Literal(np.ones(2)) for n in edit.values_in(body.outputs)}))

    np.testing.assert_array_equal(edit.map_bodies(graph, constant).run_flat([X])[0], np.ones(2))
    assert len(seen) == 1
    assert not edit.has_bodies(staged())


def test_a_body_that_many_equations_hold_is_changed_once():
    """And equations in columns are not looked at one by one where nothing changes."""
    graph = ad.graph(lambda x: ad.scan(lambda c, _: (np.sin(c) * 2.0, None), x, None, length=9)[0])(X)
    (e,) = [e for e in graph.equations if edit.bodies(e.params)]
    n = len(graph.input_types)
    shared = tuple(dataclasses.replace(e, inputs=(n + i - 1 if i else 0,), outputs=(n + i,)) for i in range(3))
    chain = dataclasses.replace(graph, equations=shared, outputs=(n + 2,))
    in_columns = dataclasses.replace(chain, equations=columns_of(chain))
    for form in (chain, in_columns):
        seen = []

        def constant(body):
            seen.append(body)  # noqa: B023
            return edit.substitute(body, {n: Literal(np.ones(2)) for n in edit.values_in(body.outputs)})

        assert edit.map_bodies(form, lambda body: body) is form
        np.testing.assert_array_equal(edit.map_bodies(form, constant).run_flat([X])[0], np.ones(2))
        assert len(seen) == 1


def looped(body):
    return lambda x: ad.fori_loop(0, 3, body, (x, x, x))


@pytest.mark.parametrize(
    "body, kept",
    [
        (lambda i, c: (np.sin(c[0]), c[1] + 1.0, c[2] * 2.0), 1),  # each reads itself only
        (lambda i, c: (np.sin(c[0] + c[1]), c[1] + c[2], c[2] * 2.0), 3),  # one reads the next
        (lambda i, c: (np.sin(c[0]), c[1] + c[2], c[2] + c[1]), 1),  # the dead ones read each other
        (lambda i, c: (np.sin(c[0] + c[2]), c[1] + c[2], c[2] * 2.0), 2),
    ],
)
def test_dead_carries(body, kept):
    graph = ad.graph(lambda x: looped(body)(x)[0])(X)
    shorter = edit.renumber(edit.dead_code(graph))
    check(shorter)
    (loop,) = [e for e in shorter.equations if e.op.name == "scan"]
    count = loop.params["carries"] - sum(t.dtype.kind == "i" for t in loop.types[: loop.params["carries"]])
    assert count == kept
    np.testing.assert_array_equal(shorter.run_flat([X])[0], looped(body)(X)[0])


@pytest.mark.parametrize("depth", [1, 2, 12])
def test_operands_that_no_branch_reads_are_dropped(depth):
    def choose(p, x, y, z, depth):
        """z goes down to the innermost branch, which does not read it."""
        if depth == 0:
            return x * 2.0, z + 1.0
        return ad.cond(p, lambda x, y, z: choose(p, x, y, z, depth - 1), lambda x, y, z: (y, z), x, y, z)

    g = edit.dead_code(ad.graph(lambda p, x, y, z: choose(p, x, y, z, depth)[0])(True, 1.0, 2.0, 3.0))
    assert edit.dead_code(g) == g
    while g.equations and g.equations[0].op.name == "cond":
        (e,) = g.equations
        assert len(e.outputs) == 1
        assert len(e.inputs) - 1 == len(e.params["true"].input_types) == len(e.params["false"].input_types)
        assert 3 not in g.equations[0].inputs  # z
        g = e.params["true"]


def test_operands_of_a_checkpoint_that_it_does_not_read_are_dropped():
    g = edit.dead_code(ad.graph(lambda x, y: ad.checkpoint(lambda x, y: (np.sin(x), np.sin(y)))(x, y)[1])(1.0, 2.0))
    (e,) = g.equations
    assert e.inputs == (1,)


def test_equations_are_rewritten_and_their_results_read_instead():
    class Negated:
        """-cos x in place of sin x."""

        def __init__(self, e, number):
            self.e, self.number = e, number + 2

        def write(self):
            cosine = dataclasses.replace(self.e, op=OPS["cos"], outputs=(self.number - 2,))
            negative = dataclasses.replace(self.e, op=OPS["neg"], inputs=cosine.outputs, outputs=(self.number - 1,))
            return [cosine, negative], {self.e.outputs[0]: self.number - 1}

    f = ad.graph(lambda x: (np.sin(x) * 2.0, np.sin(2.0 * x), np.sin(x)))(X)
    made = edit.rewrite_equations(f, lambda e, number: Negated(e, number) if e.op.name == "sin" else None)
    check(edit.renumber(made))
    for found, wanted in zip(edit.renumber(made).run_flat([X]), (-2 * np.cos(X), -np.cos(2 * X), -np.cos(X)), strict=True):
        np.testing.assert_allclose(found, wanted)
    assert edit.rewrite_equations(f, lambda e, number: None) is f
