"""Scans that are written for loops: what is carried, what is read by rows, what is stacked."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.rewrite.loops import roll
from adjoint.rewrite.loops.write import _consecutive, _slice, trimmed

A = np.linspace(0.1, 1.2, 36).reshape(12, 3)


@pytest.mark.parametrize(
    "indices, expected",
    [([0, 1, 2], slice(0, 3, 1)), ([1, 3, 5], slice(1, 6, 2)), ([3, 2, 1], (3, 2, 1)), ([0, 2, 3], None), ([2, 1, 0], (2, 1, 0))],
)
def test_indices_as_a_slice(indices, expected):
    found = _slice(indices, 12)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(np.arange(12)[found], indices)


def test_indices_without_full_slices_at_the_end():
    assert trimmed((0, slice(None), slice(None))) == (0,)
    assert trimmed((slice(None),)) == ()


def test_runs_of_rows():
    assert _consecutive([(7, 0), (7, 1), (7, 2), (8, 5), (8, 4)]) == [(0, 3), (3, 5)]


PROGRAMS = {
    "rows": lambda a: _loop(lambda i, c: np.sin(c * a[i])),
    "columns": lambda a: _loop(lambda i, c: np.sin(c * a.T[:, i])),
    "from the end": lambda a: _loop(lambda i, c: np.sin(c * a[11 - i])),
    "every other": lambda a: _loop(lambda i, c: np.sin(c * a[2 * i % 12])),
    "windows": lambda a: _loop(lambda i, c: np.sin(c * a[i : i + 1][0])),
    "stacked": lambda a: np.stack([np.tanh(a[i] * 2 + 1) * a[i] for i in range(12)]),
    "elements": lambda a: _loop(lambda i, c: np.sin(c * a[i, 1])),
    "constants": lambda a: _loop(lambda i, c: np.sin(c * (0.1 * i + 1)) + a[0]),
}


def _loop(step):
    c = np.ones(3)
    for i in range(12):
        c = step(i, c)
    return c


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_scan_gives_the_same_bits(name):
    graph = ad.graph(PROGRAMS[name])(A)
    found = roll(graph, saving=6)
    check(found.graph, infer_types)
    np.testing.assert_array_equal(found.graph.run_flat([A])[0], graph.run_flat([A])[0])
    if name not in ("every other", "windows"):
        assert any(e.op.name == "scan" for e in found.graph.equations), name
