"""A digest of a graph: the same in every process for equal graphs, and different for different graphs.

It covers everything that the values of a graph depend on: ops, parameters, types, operands, the bits of constants and whether
they are weak. The names of values and source lines are left out. A graph with objects that cannot be compared by value, such as
the Python function of a custom rule, has no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from enum import Enum
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np

from ..core.op import OPS, Op
from ..core.types import Type
from .columns import Columns
from .contents import is_repeated
from .graph import Graph, Literal

LARGE = 256  # bytes; a larger array is hashed
_PLAIN = frozenset({int, bool, str, float, NoneType, EllipsisType})  # identified by their repr
_OWN = "adjoint."  # modules whose ops are identified by name: other ops may change between processes


class Fingerprint(NamedTuple):
    """The digest of a graph, and the large arrays in it, by the digest of their bytes."""

    name: str
    arrays: dict[str, Any]


class _NamelessError(Exception):
    """An object cannot be identified by its value."""


def fingerprint(graph: Graph) -> Fingerprint | None:
    """The digest of a graph; None if it has none."""
    writing = _Writing()
    try:
        writing.graph(graph)
    except _NamelessError:
        return None
    return Fingerprint(hashlib.sha256("\n".join(writing.lines).encode()).hexdigest(), writing.arrays)


def digest(array: Any) -> str:
    """A digest of the bytes of a contiguous array."""
    return hashlib.sha256(array.reshape(-1).view(np.uint8)).hexdigest()


class _Writing:
    """The text that is hashed. Nested graphs, ops and arrays are visited once each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrays: dict[str, Any] = {}
        self.graphs: dict[int, int] = {}  # by identity: the index of each
        self.ops: dict[Op, str] = {}
        self.dtypes: dict[Any, str] = {}
        self.results: dict[tuple[Type, ...], str] = {}
        self.literals: dict[int, tuple[Literal, str]] = {}

    def graph(self, graph: Graph) -> int:
        """Write a graph, after its nested graphs; returns its index."""
        known = self.graphs.get(id(graph))
        if known is not None:
            return known
        lines = [f"graph{self.types(graph.input_types)}"]
        if isinstance(graph.equations, Columns):
            lines += self.columns(graph.equations)
        else:
            for e in graph.equations:
                operands = [o if type(o) is int else self.literal(o) for o in e.inputs]
                lines.append(f"{self.op(e.op)}{operands}{self.params(e.params)}{e.outputs}{self.types(e.types)}")
        lines.append(f"return{[o if type(o) is int else self.literal(o) for o in graph.outputs]}")
        self.lines += lines
        return self.graphs.setdefault(id(graph), len(self.graphs))

    def columns(self, equations: Columns) -> Iterator[str]:
        """Equations as columns, which are hashed directly."""
        for kind in equations.kinds:
            yield f"{self.op(kind.op)}{self.params(kind.params)}{self.types(kind.types)}{kind.places}{len(kind.operands)}"
        yield f"{[self.literal(literal) for literal in equations.literals]}"
        yield f"{[digest(column) for column in (equations.kind, equations.operands, equations.integers)]}"

    def params(self, params: Mapping[str, Any]) -> Any:
        return [(key, self.value(value)) for key, value in params.items()] if params else ""

    def op(self, op: Op) -> str:
        name = self.ops.get(op)
        if name is None:
            if OPS.get(op.name) is not op or not op.home.startswith(_OWN):
                raise _NamelessError
            name = self.ops[op] = op.name
        return name

    def types(self, types: tuple[Type, ...]) -> str:
        text = self.results.get(types)
        if text is None:
            text = self.results[types] = repr([(shape, self.dtype(dtype)) for shape, dtype in types])
        return text

    def dtype(self, dtype: Any) -> str:
        name = self.dtypes.get(dtype)
        if name is None:
            if dtype.kind not in "biufc":  # other dtypes do not have their value in their bytes
                raise _NamelessError
            name = self.dtypes[dtype] = dtype.str
        return name

    def literal(self, literal: Any) -> str:
        known = self.literals.get(id(literal))
        if known is None:
            known = literal, f"{type(literal).__name__} {self.value(literal.value)!r}"  # kept alive, so that its id stays unique
            self.literals[id(literal)] = known
        return known[1]

    def array(self, array: Any) -> tuple[Any, str, str]:
        dtype = self.dtype(array.dtype)
        if is_repeated(array):
            return array.shape, f"{dtype} repeated", array.flat[0].tobytes().hex()
        if array.nbytes <= LARGE:
            return array.shape, dtype, array.tobytes().hex()
        whole = np.ascontiguousarray(array)
        name = digest(whole)
        self.arrays[name] = whole
        return array.shape, dtype, name

    def value(self, value: Any) -> Any:
        """An object whose repr identifies the value. Non-plain values are dicts, and nothing else is."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple or kind is list:
            return kind(map(self.value, value))
        if kind is slice:
            return {"slice": [self.value(part) for part in (value.start, value.stop, value.step)]}
        if kind is complex:
            return {"complex": (value.real, value.imag)}
        if kind is Type:
            return {"type": (value.shape, self.dtype(value.dtype))}
        if kind is np.ndarray:
            return {"array": self.array(value)}
        if isinstance(value, np.generic):
            return {"number": self.array(np.asarray(value))}
        if isinstance(value, np.dtype):
            return {"dtype": self.dtype(value)}
        if isinstance(value, Graph):
            return {"graph": self.graph(value)}
        if isinstance(value, Op):
            return {"op": self.op(value)}
        if isinstance(value, Enum) and kind.__module__.startswith(_OWN):
            return {"member": (kind.__qualname__, value.name)}
        raise _NamelessError
