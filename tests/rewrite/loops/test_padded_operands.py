"""Padded operands: elements are moved along an axis, by slices or by a gather, and masked."""

from dataclasses import replace

import numpy as np
import pytest

import adjoint as ad
from adjoint.ir.graph import Literal
from adjoint.rewrite.loops import padded_operands
from adjoint.rewrite.loops.padded_operands import PaddedOperands
from adjoint.rewrite.loops.roles import RefusedError

X = np.random.default_rng(0).normal(size=(5, 7))
GRAPH = ad.graph(np.sin)(X)


def values(pad, o):
    if isinstance(o, Literal):
        return o.value
    (y,) = replace(GRAPH, equations=tuple(pad.out.equations), outputs=(o,)).run_flat([X])
    return y


@pytest.mark.parametrize("usual", [True, False], ids=["by slices", "by a gather"])
@pytest.mark.parametrize("length", [1, 4, 7, 12])
@pytest.mark.parametrize("by", [-9, -3, -1, 0, 2, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
def test_elements_are_moved(constant, axis, by, length, usual):
    pad = PaddedOperands(GRAPH, keep=True)
    moved = pad.moved(Literal(X) if constant else 0, axis, by, length, by if usual else None)
    found = np.moveaxis(values(pad, moved), axis, 0)
    source = np.moveaxis(X, axis, 0)
    assert found.shape == (length, *source.shape[1:])
    for i in range(length):  # elsewhere it is not defined
        if 0 <= i - by < len(source):
            np.testing.assert_array_equal(found[i], source[i - by])
    gathers = [e for e in pad.out.equations if e.op.name == "gather"]
    assert bool(gathers) is (not constant and not usual)


def test_a_value_that_is_where_it_is_needed_stays():
    pad = PaddedOperands(GRAPH, keep=True)
    assert pad.moved(0, 1, 0, 7, 0) == 0
    assert not pad.out.equations


@pytest.mark.parametrize("axis", [0, 1])
def test_positions_of_elements_are_marked(axis):
    pad = PaddedOperands(GRAPH, keep=True)
    marks = np.broadcast_to(pad.inside(2, 3, X.shape, axis).value, X.shape)
    np.testing.assert_array_equal(np.flatnonzero(np.moveaxis(marks, axis, 0)[:, 0]), [2, 3, 4])


def test_the_padding_is_cut_off():
    pad = PaddedOperands(GRAPH, keep=True)
    pad.own[0], pad.at[0] = (2, 7), (1, 0)
    np.testing.assert_array_equal(values(pad, pad.whole(0)), X[1:3])


@pytest.mark.parametrize(
    "spec, left", [((), (3, 4)), ((0,), (4,)), ((None,), (0, 3, 4)), ((slice(1, 2), 0), (3,)), ((slice(None), None), (3, 0, 4))]
)
def test_an_index_leaves_positions(spec, left):
    pad = PaddedOperands(GRAPH, keep=True)
    pad.at[0] = (3, 4)
    assert tuple(pad.remaining(0, spec)) == left


def test_masks_that_take_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr(padded_operands, "MOST_ELEMENTS", 10)
    pad = PaddedOperands(GRAPH, keep=True)
    pad.inside(0, 3, X.shape, 0)
    with pytest.raises(RefusedError, match="memory"):
        pad.inside(0, 3, X.shape, 1)
