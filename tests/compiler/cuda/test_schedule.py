"""Launches: scatter-adds, and which of their offsets never change; many reductions in one kernel, and of parts of a result."""

import numpy as np
import pytest
from on_device import both_orders, on_cpu, program
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda import layout, schedule
from adjoint.compiler.cuda.schedule import AddAt

RNG = np.random.default_rng(0)
ROWS, COLUMNS = np.tril_indices(5)


def own_places(x):
    return np.sum(np.sin(x[np.array([0, 3, 3, 1])]) ** 2)


def own_pairs(x):
    rows, columns = np.tril_indices(5)
    return np.sum(np.exp(x[rows, columns]))


def outer_places(x):
    return np.sum(np.exp(x[ROWS, COLUMNS]))


@pytest.mark.parametrize(("f", "fixed"), [(own_places, True), (own_pairs, True), (outer_places, False)])
def test_places_of_constants_are_sorted_once(f, fixed):
    x = np.random.default_rng(0).normal(size=(5, 5))
    made, leaves = program(ad.grad(f), (x,), Simulator())
    (step,) = (s for s in made.lowered.steps if isinstance(s, AddAt))
    assert step.is_fixed == fixed
    for values in (x, x + 1.0):
        (found,) = made(np.array(values), *leaves[1:])
        np.testing.assert_allclose(found, ad.grad(f)(values), rtol=1e-13)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shared", [40_000, 3000, 300])
@pytest.mark.parametrize("count", [1, 2, 18, 20, 30, 45])
def test_many_reductions(count, shared, monkeypatch):
    """Totals that do not fit in the shared memory of a block: blocks are smaller, then there are several launches."""
    for module in (schedule, layout):
        monkeypatch.setattr(module, "SHARED", shared)

    def horner(c, x):
        y = 0 * x
        for i in range(count):
            y = y * x + c[i]
        return np.sum(np.sin(y))

    args = RNG.normal(size=count), RNG.uniform(-1, 1, 5000)
    found, made = both_orders(ad.grad(horner, (0, 1)), args)
    for a, b in zip(found, on_cpu(ad.grad(horner, (0, 1)), args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.max(np.abs(b)))
    assert all(entry.shared <= max(shared, 256) for entry in made.module.entries.values())


def test_parts_of_a_stack_are_cut_into_pieces():
    """Each sum writes one element of the result, and is long."""
    f = lambda x, y: np.stack([np.sum(np.sin(x)), np.sum(y * y), np.sum(x) * np.sum(y[:50])])
    args = RNG.normal(size=70_000), RNG.normal(size=90_000)
    found, made = both_orders(f, args)
    np.testing.assert_allclose(found[0], f(*args), rtol=1e-12)
    assert max(step.layout.pieces for step in made.lowered.steps) > 10


I, J = RNG.integers(-6, 6, 40), RNG.integers(0, 5, 40)
SCATTERS = {  # the function of an array of shape (6, 5, 4), and the elements that are added at one place
    "rows of two axes": (lambda x: x[I], 20),
    "rows of one axis": (lambda x: x[I, J], 4),
    "elements": (lambda x: x[I, J, J % 4], 1),
    "columns": (lambda x: x[:, J], 4),
    "last axis": (lambda x: x[..., J % 4], 1),
    "parts of rows": (lambda x: x[I, :, 1:3], 10),
    "parts from a row on": (lambda x: x[1:, J], 4),
    "backward": (lambda x: x[I, ::-1], 20),
    "two indices": (lambda x: x[I[:20, None], J[None, :3]], 4),
    "index and slice": (lambda x: x[I, 2:], 12),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_rows_are_added_at_once(name):
    f, row = SCATTERS[name]
    g = ad.grad(lambda x: np.sum(np.sin(f(x)) ** 2))
    x = RNG.normal(size=(6, 5, 4))
    found, made = both_orders(g, (x,))
    np.testing.assert_allclose(found[0], g(x), rtol=1e-13)
    assert [step.row for step in made.lowered.steps if isinstance(step, AddAt)] == [row]
