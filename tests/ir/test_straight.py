"""A graph as straight-line code: the results of an evaluation, whatever the graph."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ir.straight import straight

X = np.linspace(0.1, 1.0, 6).reshape(2, 3)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) * x),
        lambda x: (x.T @ x, np.sort(x, axis=1), 3.0),
        lambda x: np.linalg.qr(x.T),  # an op with several results
        lambda x: x,
        lambda x: np.ones(3),
        lambda x: ad.fori_loop(0, 4, lambda i, c: np.tanh(c @ x.T @ x), x),
        ad.grad(lambda x: np.sum(x**3)),
    ],
)
def test_the_results_are_those_of_the_graph(f):
    graph = ad.graph(f)(X)
    for a, b in zip(straight(graph)(X), graph.run_flat([X]), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_an_array_constant_is_not_handed_out_for_writing():
    table = np.arange(3.0)
    (found,) = straight(ad.graph(lambda x: x * 0.0 + table)(1.0))(1.0)
    found += 1.0
    np.testing.assert_array_equal(table, np.arange(3.0))


def test_an_error_names_the_users_line():
    graph = ad.graph(lambda a: np.linalg.cholesky(a))(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        straight(graph)(-np.eye(2))
    assert "test_straight.py" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
