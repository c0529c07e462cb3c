"""Operations that may fail, of which nothing reads the result: a program computes them, since Python would raise.

    def f(x, a):
        np.linalg.cholesky(a)             # raises for a matrix that is not positive definite
        return np.sum(x)

    graph f(x, a)  { v2 = cholesky a;  v3 = sum x;  return v3, v2 }       v2 is unread: an output, but no result

What else depends on no output is dead code. An index needs no table to be out of bounds: the indices are checked without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.bind import Traced
from ..core.errors import on_line
from ..core.op import Op
from ..core.types import Value
from ..ir.edit import live
from ..ir.graph import Equation
from ..ops.broadcast import broadcast_to
from ..ops.index import gather, getitem
from ..ops.sort import take_along
from .guard import Guarded

_BY_INDICES: frozenset[Op] = frozenset({gather, take_along})


def unread(stage: Guarded, outputs: Iterable[Value], since: int = 0) -> list[Traced]:
    """A result of each operation from a number on that may fail, and on which no output depends."""
    risky = [n for n in stage.risky if n >= since]
    if not risky:
        return []
    found = stage.program.columns()
    is_live = live(found, [stage.operand(y) for y in outputs])
    results = []
    for n in risky:
        at = int(found.made_by[n - found.inputs])
        if not is_live[at]:
            checked = _of_indices(stage, found[at])
            results.append(_smallest(stage, n) if checked is None else checked)
    return results


def _smallest(stage: Guarded, first: int) -> Traced:
    """The smallest result of an op, by the number of the first."""
    results = [_value(stage, n) for n in range(first, first + stage.risky[first])]
    return min(results, key=lambda y: y.aux[1].size)


def _of_indices(stage: Guarded, equation: Equation) -> Traced | None:
    """What fails where an index is out of bounds, without the table: every element of the table is the first index."""
    if equation.op not in _BY_INDICES:
        return None
    table, *indices = equation.inputs
    first = next((i for i in indices if isinstance(i, int)), None)
    if first is None:
        return None
    index = _value(stage, first)
    type_ = index.aux[1]
    if not type_.size:
        return None
    with on_line(equation.line):
        element = getitem(index, spec=(0,) * type_.ndim) if type_.ndim else index
        given = [_value(stage, i) if isinstance(i, int) else i.value for i in indices]
        shape = _value(stage, table).aux[1].shape if isinstance(table, int) else table.type.shape
        return equation.op(broadcast_to(element, shape=shape), *given, **equation.params)  # type: ignore[no-any-return]


def _value(stage: Guarded, number: int) -> Traced:
    type_ = stage.program.types[stage.program.type_of[number]]
    return Traced(stage, None, (number, type_, type_.shape != ()))
