"""What a program is made of, for reports: its steps by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .lower.kernel import Kernel
from .lower.step import (
    Branch,
    Cumulative,
    Foreign,
    Fourier,
    Lapack,
    Lowered,
    Ordered,
    ParallelGroup,
    PointTiles,
    Product,
    RowTiles,
    Step,
    TimeTiles,
)
from .specialization import counted


def every_step(lowered: Lowered) -> Iterator[Step]:
    """The steps of a program and of the bodies of its loops and branches."""
    yield from lowered.steps
    for body in lowered.inner:
        yield from every_step(body)


def kinds(steps: Sequence[Step]) -> str:
    """How many steps there are of each kind."""
    names = {
        Kernel: "kernel",
        RowTiles: "group of kernels",
        PointTiles: "loop over points",
        TimeTiles: "loop over a stencil",
        Product: "product",
        Lapack: "call of LAPACK",
        Fourier: "Fourier transform",
        Cumulative: "cumulative step",
        Ordered: "order of rows",
        Foreign: "call of NumPy",
        Branch: "branch",
        ParallelGroup: "group of independent steps",
    }
    found = Counter(names.get(type(step), "loop") for step in steps)
    return ", ".join(counted(n, kind) for kind, n in found.items()) or "nothing to compute"


def calls_of_numpy(steps: Sequence[Step]) -> list[str]:
    """A line for each operation that calls back into NumPy."""
    calls = [f"calls NumPy for {s.op.name} ({', '.join(s.lines)})" for s in steps if isinstance(s, Foreign)]
    return list(dict.fromkeys(calls))
