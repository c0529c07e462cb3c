"""Launches: scatter-adds, and which of their offsets never change."""

import numpy as np
import pytest
from on_device import program

import adjoint as ad
from adjoint.compiler.cuda.schedule import AddAt
from adjoint.compiler.cuda.simulator import Simulator

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
