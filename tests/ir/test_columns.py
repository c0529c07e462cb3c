"""Programs as columns of numbers: the same equations, in little room."""

import pickle

import numpy as np

import adjoint as ad
from adjoint.ir.check import check
from adjoint.ir.columns import Columns, columns_of
from adjoint.ir.graph import Equation, Literal
from adjoint.ops.broadcast import reshape
from adjoint.rewrite.simplify import dead_code, renumber


def program(x, w):
    total = 0.0 * x[0]
    for i in range(5):
        x = np.sin(x * w) + np.where(x > 0.5, 1.5, x)
        total = total + x[i] * w[i, None][0] - x[-1]
    q, r = np.linalg.qr(np.outer(x, x) + np.eye(5))
    return total, np.concatenate([x, w]) + q[0, 0], np.cumsum(r, axis=1)


def graph():
    return ad.graph(program)(np.linspace(0.0, 1.0, 5), np.ones(5))


def in_columns(g):
    return type(g)(g.name, g.input_names, g.input_types, columns_of(g), g.outputs, g.in_structure, g.out_structure)


def test_the_same_equations():
    g = graph()
    columns = columns_of(g)
    assert columns == g.equations
    assert g.equations == columns
    assert list(columns) == list(g.equations)
    assert [columns[i] for i in range(len(columns))] == list(g.equations)
    assert columns[3:9:2] == g.equations[3:9:2]
    assert columns[-1] == g.equations[-1]
    assert [e.line for e in columns] == [e.line for e in g.equations]
    assert pickle.loads(pickle.dumps(columns)) == g.equations
    assert all(columns.type_of(n) == t for n, t in g.types.items())


def test_kinds_leave_out_the_integers_of_an_index():
    columns = columns_of(graph())
    reads = [kind for kind in columns.kinds if kind.op.name == "getitem"]
    assert len({(kind.operands, kind.types, kind.places) for kind in reads}) == len(reads)
    assert columns.integers.tolist()[:3] == [e.params["spec"][0] for e in graph().equations if e.op.name == "getitem"][:3]


def test_constants_are_stored_once():
    g = ad.graph(lambda x: (x * 2.0 + 2.0, x * -0.0, x * 0.0, x + np.array([1.0, 2.0]), x - np.array([1.0, 2.0])))(np.ones(2))
    assert [str(o.value) for o in columns_of(g).literals] == ["2.0", "-0.0", "0.0", "[1. 2.]"]


def test_some_of_them_in_another_order():
    g = ad.graph(lambda x: (np.sin(x), np.cos(x), np.tan(np.cos(x)), np.exp(x)))(np.ones(2))
    columns, outputs = columns_of(g).chosen(np.array([1, 0]), [g.outputs[1], g.outputs[0]])
    assert [e.op.name for e in columns] == ["cos", "sin"]
    assert outputs == (1, 2)
    assert [e.outputs for e in columns] == [(1,), (2,)]


def test_changed_equations():
    g = ad.graph(lambda x: np.sin(x + np.ones(2)) * 2.0)(np.ones(2))
    columns = columns_of(g)
    one = Literal(np.ones(2))
    new = Equation(reshape, (one,), {"shape": (2,)}, (columns.values,), (one.type,))
    old = columns[0]
    changed = columns.changed({0: Equation(old.op, (0, columns.values), {}, old.outputs, old.types, old.line)}, [new])
    found, outputs = changed.chosen(np.array([len(columns), *range(len(columns))]), g.outputs)
    whole = type(g)(g.name, g.input_names, g.input_types, found, outputs)
    check(whole)
    np.testing.assert_array_equal(whole.run_flat([np.ones(2)])[0], g.run_flat([np.ones(2)])[0])


def test_dead_code():
    def f(x):
        unread = x
        for _ in range(200):  # more than are taken away one round after the other
            unread = np.sin(unread)
        np.linalg.qr(np.outer(x, x))
        return np.cos(x) * 2.0

    for g in (graph(), ad.graph(f)(np.ones(3))):
        g = type(g)(g.name, g.input_names, g.input_types, g.equations, g.outputs[:1])
        short = dead_code(in_columns(g))
        assert isinstance(short.equations, Columns)
        assert short == renumber(dead_code(g))


def test_repeated_numbers_are_stored_once():
    g = ad.jit(ad.grad(lambda x: np.sum(3.0 * x))).lower(np.ones(10**6)).staged
    held = [o.value for o in g.equations.literals if not o.is_weak and o.value.size > 1]
    assert all(not any(value.strides) for value in held)
    assert Literal(np.broadcast_to(1.0, (3,))) == Literal(np.ones(3))
    assert Literal(np.broadcast_to(1.0, (3,))) != Literal(np.broadcast_to(-1.0, (3,)))
    assert Literal(np.broadcast_to(0.0, (3,))) != Literal(np.broadcast_to(-0.0, (3,)))
