"""One op as a compiled program on a GPU: what eager transforms of CuPy arrays run where CuPy has no function for an op.

    run(cholesky_pullback, (g, y, x), {})       # CuPy arrays in, CuPy arrays out

Loops and branches, the pullbacks of factorizations and functions such as `logsumexp` are such ops. An op that would run on the
host is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.bind import bind
from ..core.errors import UnsupportedError
from ..core.op import Op
from ..ir.columns import hashable
from .gpu import GPUSpecialization
from .jit import Jitted, jit

_MOST = 256  # programs that are kept


class _Params:
    """The parameters of an op, compared by value."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params, self.key = params, hashable(tuple(params.items()))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Params) and self.key == other.key


@functools.lru_cache(_MOST)
def _program(op: Op, given: _Params, types: tuple[Any, ...]) -> Jitted:
    """A program for each list of types, so that none is compiled again."""
    return jit(lambda *values: bind(op, *values, **given.params))


def run(op: Op, values: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """The results of an op on CuPy arrays and numbers."""
    types = tuple((x.shape, x.dtype) if hasattr(x, "dtype") else type(x) for x in values)
    program = _program(op, _Params(params), types)
    result = program(*values)
    made = [s for several in program.specializations.values() for s in several if isinstance(s, GPUSpecialization)]
    if not made or any(s.program.on_host for s in made):
        raise UnsupportedError(f"CuPy has no function for it, and no kernel computes {op.name}")
    return result
