"""Which equations are padded together: those with one op, on one line, whose lengths or bounds of slices differ."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.rewrite.loops.padded_groups import SliceKind, groups_of, region


def found(f, n, least=3):
    """The groups of the graph of f at n numbers, in the order of their first equations."""
    graph = ad.graph(f)(np.ones(n))
    groups = dict.fromkeys(groups_of(graph, least).values())
    return graph, list(groups)


def names(graph, groups):
    return [graph.equations[group.positions[0]].op.name for group in groups]


def shrinking(v):
    while v.shape[0] > 1:
        v = np.sin(v[1:])
    return v[0]


@pytest.mark.parametrize("n", [5, 6, 9, 40])
def test_lengths_that_differ_are_a_group(n):
    graph, groups = found(shrinking, n)
    assert names(graph, groups) == ["getitem", "sin"]
    for group in groups:
        assert len(group.positions) == n - 1
        lengths = [graph.equations[i].types[0].shape for i in group.positions]
        assert lengths == [(k,) for k in range(n - 1, 0, -1)]


@pytest.mark.parametrize("n, grouped", [(3, False), (4, True)])
def test_fewer_than_the_least_are_none(n, grouped):
    assert bool(found(shrinking, n)[1]) is grouped


def constant(v):
    for _ in range(8):
        v = np.sin(v)
    return v


def other_ops(v):
    return np.sum(np.sin(v[1:])) + np.sum(np.cos(v[2:])) + np.sum(np.tan(v[3:]))


@pytest.mark.parametrize("f", [constant, other_ops])
def test_equal_shapes_and_other_ops_are_none(f):
    assert "sin" not in names(*found(f, 9))


def moving(c):
    c = anp.array(c)
    for k in range(1, c.shape[0]):
        c[k:] = c[k:] * 0.5
    return c


def stepped(c):
    return sum(np.sum(c[::k]) for k in range(1, 6))


def last(c):
    return sum(np.sum(c[1 : k + 1]) for k in range(1, 6))


@pytest.mark.parametrize(
    "f, keep, how",
    [
        (moving, True, SliceKind.KEPT),
        (moving, False, SliceKind.GATHERED),
        (stepped, True, SliceKind.GATHERED),
        (last, True, SliceKind.CUT),
    ],
)
def test_how_a_slice_is_read(f, keep, how):
    graph, groups = found(f, 10)
    reads = [group for group, name in zip(groups, names(graph, groups), strict=True) if name == "getitem"]
    assert reads
    assert {group.read(0, keep) for group in reads} == {how}


SPECS = [(), (2,), (slice(1, -1),), (None, 0), (slice(None, None, -2), 1), (slice(5, 2), None, slice(0, 1)), (slice(0, 7), None)]


@pytest.mark.parametrize("spec", SPECS)
def test_the_region_of_an_index_is_what_numpy_reads(spec):
    x = np.arange(28).reshape(7, 4)
    parts = list(region(spec, x.shape))
    assert tuple(count for _, count, *_ in parts) == x[spec].shape
    lengths = [1 if part is None else x.shape[axis] for part, axis in left(spec, x.ndim)]
    assert [is_full for *_, is_full in parts] == [(0, n, 1) == tuple(p[:3]) for p, n in zip(parts, lengths, strict=True)]


def left(spec, ndim):
    """The parts of an index that are axes of its result, with the axes that they read."""
    axis = 0
    for part in (*spec, *(slice(None),) * (ndim - sum(part is not None for part in spec))):
        if not isinstance(part, int):
            yield part, axis
        axis += part is not None
