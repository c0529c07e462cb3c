"""Staging with numbers: the same graph as without, and an answer to every question that Python asks."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import LeakError, UnsupportedError
from adjoint.ir.graph import Graph
from adjoint.staging.concrete import Concrete


def record(f, *args):
    with Concrete("trace") as stage:
        inputs = [stage.input_like(f"x{i}", x) for i, x in enumerate(args)]
        result = f(*inputs)
        return stage.graph("f", [result]), stage


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, y: np.sin(x) * y + 2, (1.0, 2.0)),
        (lambda x: np.sum(np.linalg.svd(x)[1]), (np.eye(2),)),
        (lambda x: anp.array([x[0], x[1] * 2.0]) @ x, (np.array([1.0, 2.0]),)),
        (lambda x: np.where(x > 0, x, -x), (np.array([1.0, -2.0]),)),
    ],
)
def test_the_graph_is_that_of_staging(f, args):
    recorded, stage = record(f, *args)
    staged = ad.graph(f)(*args)
    assert [e.op for e in recorded.equations] == [e.op for e in staged.equations]
    assert recorded.output_types == staged.output_types
    np.testing.assert_allclose(recorded.run_flat(args)[0], f(*args))
    np.testing.assert_allclose(stage.values[recorded.outputs[0]], f(*args))


def test_python_gets_its_answers():
    seen = []

    def f(x):
        seen.extend([bool(x > 1), int(x), len(range(int(x))), str(x), f"{x:.1f}"])
        return x if x > 1 else -x

    graph, _ = record(f, 2.5)
    assert seen == [True, 2, 2, "2.5", "2.5"]
    assert isinstance(graph, Graph)


def test_values_of_another_trace_are_refused():
    with pytest.raises(UnsupportedError, match="traced by grad"):
        ad.grad(lambda y: record(lambda x: x * y, 2.0)[0] and y)(1.0)


def test_a_value_kept_after_the_end_is_a_leak():
    kept = []
    record(lambda x: kept.append(x) or x, 1.0)
    with pytest.raises(LeakError):
        kept[0] * 2
