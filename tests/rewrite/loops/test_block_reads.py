"""Where the operands of blocks come from: the sources that are found in small nests, and what is refused."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ir.edit import renumber
from adjoint.rewrite.loops.block_reads import BlockReads, OperandSource
from adjoint.rewrite.loops.blocks import regions
from adjoint.rewrite.loops.find import FlatGraph
from adjoint.rewrite.loops.roles import RefusedError
from adjoint.rewrite.simplify import common_subexpressions

N = 12


def blocks(f):
    """The reads of the longest region of blocks in the trace of f."""
    graph = renumber(common_subexpressions(ad.graph(f)(np.linspace(0.5, 1.0, N))))
    flat = FlatGraph(graph, ())
    region = min(regions(flat, 4, 3), key=lambda region: region.start - region.stop)
    return BlockReads(flat, region, np.array([o for o in graph.outputs if isinstance(o, int)]))


def sources(found):
    return {read.source for reads in found.operands.values() for read in reads}


def accumulated(x):
    """A sum with an inner loop: the latest value is carried, x is read by rows."""
    s = 0.0 * x[0]
    for i in range(N):
        for j in range(i):
            s = s + np.sin(x[i] * x[j])
        s = s * 0.5
    return s


def looked_up(x):
    """Each inner iteration reads any earlier result."""
    found = []
    for i in range(N):
        s = x[i]
        for j in range(i):
            s = s - found[j] * x[j]
        found.append(np.sin(s))
    return found[-1]


def written(x):
    """Results are written to an array."""
    y = anp.zeros(N)
    for i in range(N):
        s = x[i]
        for j in range(i):
            s = s - y[j] * x[j]
        y[i] = np.sin(s)
    return np.sum(y)


@pytest.mark.parametrize(
    "f, expected",
    [
        (accumulated, {OperandSource.LOCAL, OperandSource.LATEST, OperandSource.ROW}),
        (looked_up, {OperandSource.LOCAL, OperandSource.LATEST, OperandSource.HISTORY, OperandSource.ROW}),
        (written, {OperandSource.LOCAL, OperandSource.LATEST, OperandSource.STORAGE, OperandSource.ROW}),
    ],
)
def test_sources(f, expected):
    assert sources(blocks(f)) == expected


def test_every_run_has_one_source():
    for f in (accumulated, looked_up, written):
        found = blocks(f)
        for (b, _, _), reads in found.operands.items():
            assert (np.sum([read.runs for read in reads], axis=0) == 1).all()
            assert all(len(read.runs) == len(found.times[b]) for read in reads)


def test_an_earlier_state_of_an_array_is_refused():
    def f(x):
        y = anp.zeros(N)
        for i in range(N):
            old = y.copy()
            for j in range(i):
                y[j] = old[i - 1 - j] * x[j]
            y[i] = x[i]
        return np.sum(y)

    with pytest.raises(RefusedError, match="an earlier state of an array is read after it has been written to"):
        blocks(f)
