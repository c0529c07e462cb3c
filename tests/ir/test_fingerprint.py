"""The fingerprint of a graph: equal for equal graphs, different for others, none for objects that cannot be compared by value."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.types import Type
from adjoint.ir.columns import Columns
from adjoint.ir.fingerprint import LARGE, Fingerprint, digest, fingerprint
from adjoint.ir.graph import Equation, Graph, Literal
from adjoint.ops.elementwise import add, mul
from adjoint.ops.reduce import sum_

X = np.linspace(0.1, 1, 6)


def name(f, *args):
    found = fingerprint(ad.graph(f)(*(args or (X,))))
    assert isinstance(found, Fingerprint)
    return found.name


def of(op, inputs, types, outputs=(1,), out_types=None, number=1, **params):
    equation = Equation(op, inputs, params, tuple(range(number, number + 1)), out_types or (types[0],))
    return fingerprint(Graph("f", ("x", "y")[: len(types)], types, (equation,), outputs)).name


def test_names_and_lines_do_not_count():
    def first(x):
        return np.sum(np.sin(x) * 2.0)

    def second(other):
        doubled = np.sin(other) * 2.0
        return np.sum(doubled)

    assert name(first) == name(second)


FLOAT = Type((2,), np.dtype(float))
SINGLE = Type((2,), np.dtype(np.float32))
DIFFERENT = {
    "op": of(mul, (0, 0), (FLOAT,)),
    "operands": of(add, (0, 1), (FLOAT, FLOAT), (2,), number=2),
    "order": of(add, (1, 0), (FLOAT, FLOAT), (2,), number=2),
    "shape": of(add, (0, 0), (Type((3,), FLOAT.dtype),)),
    "dtype": of(add, (0, 0), (SINGLE,)),
    "type of the result": of(add, (0, 0), (FLOAT,), out_types=(SINGLE,)),
    "another input": of(add, (0, 0), (FLOAT, FLOAT), (2,), number=2),
    "output": of(add, (0, 0), (FLOAT,), (0,)),
    "outputs": of(add, (0, 0), (FLOAT,), (1, 0)),
    "constant output": of(add, (0, 0), (FLOAT,), (Literal(1.0),)),
    "Python number": of(add, (0, Literal(1.0)), (FLOAT,)),
    "whole number": of(add, (0, Literal(1)), (FLOAT,)),
    "truth": of(add, (0, Literal(True)), (FLOAT,)),
    "complex": of(add, (0, Literal(1 + 0j)), (FLOAT,)),
    "sign of zero": of(add, (0, Literal(complex(1, -0.0))), (FLOAT,)),
    "zero": of(add, (0, Literal(0.0)), (FLOAT,)),
    "negative zero": of(add, (0, Literal(-0.0)), (FLOAT,)),
    "strong": of(add, (0, Literal(np.float64(1.0))), (FLOAT,)),
    "strong single": of(add, (0, Literal(np.float32(1.0))), (FLOAT,)),
    "array": of(add, (0, Literal(np.ones(2))), (FLOAT,)),
    "array of another shape": of(add, (0, Literal(np.ones((1, 2)))), (FLOAT,)),
    "array of another dtype": of(add, (0, Literal(np.ones(2).view(np.int64))), (FLOAT,)),
    "array of another order": of(add, (0, Literal(np.ones(2, ">f8"))), (FLOAT,)),
    "other elements": of(add, (0, Literal(np.array([1.0, 1.0 + 2**-52]))), (FLOAT,)),
    "large array": of(add, (0, Literal(np.ones(1000))), (FLOAT,)),
    "large array with another element": of(add, (0, Literal(np.r_[np.ones(999), 2.0])), (FLOAT,)),
    "parameter": of(sum_, (0,), (FLOAT,), axis=(0,), keepdims=False),
    "its value": of(sum_, (0,), (FLOAT,), axis=(0,), keepdims=True),
    "its class": of(sum_, (0,), (FLOAT,), axis=(0,), keepdims=1),
    "its name": of(sum_, (0,), (FLOAT,), axis=(0,), keepdim=True),
    "text": of(sum_, (0,), (FLOAT,), axis="(0,)", keepdims=True),
    "slice": of(sum_, (0,), (FLOAT,), shape=slice(0, 2)),
    "step": of(sum_, (0,), (FLOAT,), shape=slice(0, 2, 1)),
    "tuple": of(sum_, (0,), (FLOAT,), shape=("slice", 0, 2, None)),
    "list": of(sum_, (0,), (FLOAT,), shape=[2]),
    "tuple of one": of(sum_, (0,), (FLOAT,), shape=(2,)),
    "dtype as a parameter": of(sum_, (0,), (FLOAT,), shape=np.dtype(float)),
    "type as a parameter": of(sum_, (0,), (FLOAT,), shape=FLOAT),
    "array as a parameter": of(sum_, (0,), (FLOAT,), shape=np.ones(2)),
    "number as a parameter": of(sum_, (0,), (FLOAT,), shape=np.float64(1)),
    "op as a parameter": of(sum_, (0,), (FLOAT,), shape=add),
    "ellipsis": of(sum_, (0,), (FLOAT,), shape=...),
    "base": of(add, (0, 0), (FLOAT,)),
}


def test_all_that_values_depend_on_changes_the_name():
    assert len(set(DIFFERENT.values())) == len(DIFFERENT)


def test_the_graph_inside_an_equation_counts():
    def loop(step, length=5):
        return lambda x: ad.scan(lambda c, _: (step(c), None), x, None, length)[0]

    names = [name(loop(np.sin)), name(loop(np.cos)), name(loop(np.sin, 6)), name(loop(lambda c: c * 2.0))]
    names += [name(loop(lambda c: c * 3.0)), name(lambda x: loop(np.sin)(loop(np.cos)(x)))]
    names += [name(lambda x: loop(np.cos)(loop(np.sin)(x))), name(lambda x: loop(np.cos)(loop(np.cos)(x)))]
    assert len(set(names)) == len(names)
    assert name(loop(np.sin)) == name(loop(lambda c: np.sin(c)))


def test_constants_that_are_equal_but_not_one_object():
    assert name(lambda x: x + np.arange(6.0)) == name(lambda x: x + np.arange(12.0)[::2] / 2)
    large = np.random.default_rng(0).normal(size=(30, 20))
    found = [fingerprint(ad.graph(lambda x, a=a: a + x)(np.ones((30, 1)))) for a in (large, np.asfortranarray(large))]
    assert found[0].name == found[1].name
    (array,) = found[1].arrays.values()
    assert large.nbytes > LARGE
    assert list(found[1].arrays) == [digest(large)]
    np.testing.assert_array_equal(array, large)
    assert name(lambda x: x + np.zeros((0, 1))) != name(lambda x: x + np.zeros((0, 6)))


def test_columns_count():
    def staged(step, iterations=4, start=2.0):
        def f(x):
            for i in range(iterations):
                x = step(x, i) * start
            return x

        path = ad.jit(f).lower(X)
        assert isinstance(path.staged.equations, Columns)
        return fingerprint(path.staged).name

    row = lambda x, i: x + x[i]
    names = [
        staged(row),
        staged(row, 5),
        staged(row, start=3.0),
        staged(row, start=np.float64(2.0)),
        staged(lambda x, i: x[i] + x),
    ]
    names += [staged(lambda x, i: x + x[i + 1]), staged(lambda x, i: x - x[i]), staged(lambda x, i: x + x[i : i + 1])]
    assert len(set(names)) >= len(names) - 1  # a sum may be written down in one order
    assert staged(row) == staged(lambda other, k: other + other[k])


@pytest.fixture
def own_op():
    yield ad.extend.elementwise("cube_of_mine", lambda x: x**3, lambda y, x: (3 * x**2,))
    ad.core.op.OPS.pop("cube_of_mine")


def test_ops_of_the_user_have_no_name(own_op):
    assert fingerprint(ad.graph(lambda x: own_op(x))(X)) is None

    @ad.custom_vjp
    def mine(x):
        return x * 2

    mine.defvjp(lambda x: (mine(x), None), lambda _, g: (g,))
    graph = ad.graph(lambda x: mine(x))(X)
    assert any(e.op.home == "" for e in graph.equations) == (fingerprint(graph) is None)


@pytest.mark.parametrize("value", [print, object(), {1: 2}, np.array([None]), np.array(["a"]), np.dtype("M8[s]")])
def test_objects_compared_by_identity_have_no_name(value):
    equation = Equation(sum_, (0,), {"axis": value}, (1,), (FLOAT,))
    assert fingerprint(Graph("f", ("x",), (FLOAT,), (equation,), (1,))) is None
