"""The body of a loop or a branch, staged once on types, and its carry.

scan(lambda c, x: (c + x, c), 0.0, xs)        the carry starts as a Python number; an iteration makes it a float64
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, is_staged, numbers, snapshot, unwrap_fresh
from ..core.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError, runs_inside
from ..core.tree import Structure, final, flatten, leaf_names
from ..core.types import Type, Value, dtype_of, is_inexact, is_weak, shape_of
from ..ir.graph import Graph
from ..staging.body import Body, NumbersNeededError
from ..staging.purity import Draws
from .arguments import NUMBERS, callee, check_alive, input_names, name_of, without_class
from .caught import Caught

Function = Callable[..., Any]
_LOOPS = frozenset({"scan", "map", "fori_loop", "while_loop"})


def leaf(x: Any, label: str) -> Value:
    """A leaf of the arguments: an array, a traced value, or a Python number."""
    x = without_class(unwrap_fresh(x), label)
    if not isinstance(x, NUMBERS) or (isinstance(x, np.ndarray) and x.dtype.kind not in "biufc"):
        what = f"an array of dtype {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError(f"{label} is {what}; a loop carries numbers and arrays, in containers of any depth")
    return snapshot(x) if isinstance(x, Traced) else x


def _result(y: Any, f: Function, transform: str, label: str = "") -> Value:
    """A leaf of the result of a body."""
    y = check_alive(y)
    if isinstance(y, NUMBERS) and not (isinstance(y, np.ndarray) and y.dtype.kind not in "biufc"):
        return y
    what = f"an array of dtype {y.dtype}" if isinstance(y, np.ndarray) else type(y).__name__
    raise ArgumentError(f"{name_of(f)} returned {what}{label} in {transform}, which takes numbers and arrays")


def opened(tree: Any, label: str) -> tuple[list[Value], Structure, list[str]]:
    leaves, structure = flatten(tree)
    labels = list(leaf_names(label, structure))
    return [leaf(x, name) for x, name in zip(leaves, labels, strict=True)], structure, labels


def kind_of(x: Any) -> str:
    """The kind of x, for a message."""
    return repr(Type.of(x)) if isinstance(x, NUMBERS) else type(x).__name__


def strong(x: Value) -> Value:
    check_width(x)
    return np.asarray(x)[()] if type(x) is bool or is_weak(x) else x


def check_width(x: Value, which: str = "") -> None:
    """Refuse a Python integer that does not fit into int64."""
    if type(x) is int and not -(2**63) <= x < 2**63:
        raise ArgumentError(
            f"the Python integer{which} (about 2**{x.bit_length()}) does not fit into int64, its dtype in loops and branches; "
            "use np.uint64 or a float, or keep it outside the loop"
        )


def agrees(number: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a Python number takes this dtype in arithmetic, as 1.0 takes float32."""
    return np.result_type(number, dtype) == dtype


class StagedBody(NamedTuple):
    """A staged function of leaves: the results of its body, and their structure."""

    body: Body
    outputs: list[Value]
    structure: Structure
    name: str

    def graph(self) -> tuple[Graph, list[Value]]:
        """The graph, and the captured values that are its first inputs."""
        return self.body.graph(self.name, self.outputs), list(self.body.captured)


@runs_inside
def write(
    f: Function, args: tuple[Any, ...], transform: str, *, sibling: Body | None = None, weak: bool = False, alone: bool = False
) -> StagedBody | NumbersNeededError:
    """Run f on types; the error is set if it asks for numbers. With `weak`, Python numbers stay Python numbers."""
    leaves, structure = flatten(args)
    names = input_names(f, ["[0]" + path for path in structure.paths()])
    draws, caught = Draws(f), Caught(f, transform)
    with Body(transform, sibling, alone) as body:
        inside = [x if weak and is_weak(x) else body.input_like(name, strong(x)) for x, name in zip(leaves, names, strict=True)]
        try:
            result = final(callee(f)(*structure.unflatten(inside)))
        except NumbersNeededError as error:
            if error.body is not body:
                raise
            return error
        caught.refuse()
        if draws.is_blind:
            return write(f, args, transform, sibling=sibling, weak=weak, alone=alone)
        if transform in _LOOPS and draws.happened:
            raise UnsupportedError(
                f"{name_of(f)} draws random numbers, which would be the same in every iteration of {transform}; draw them "
                "before, and pass them as rows of xs"
            )
        outputs, found = flatten(result)
        if not weak:
            outputs = [_result(y, f, transform) for y in outputs]
            for y in outputs:
                check_width(y, f" that {name_of(f)} returned")
                body.operand(y)  # records captured values
    staged = StagedBody(body, outputs, found, re.sub(r"\W", "", name_of(f)) or "body")
    if caught.decision and not weak:
        _compare(caught, staged, f, [strong(x) for x in leaves], structure)
    return staged


def _compare(caught: Caught, staged: StagedBody, f: Function, leaves: Sequence[Value], structure: Structure) -> None:
    """Compare a body that decides by `type(x)` with its function, where the numbers are known."""
    graph, captured = staged.graph()
    values = [*captured, *leaves]
    if not any(is_staged(x) or np.shape(numbers(x)) != shape_of(x) for x in values):
        given = [numbers(x) for x in values]
        plain = structure.unflatten(given[len(captured) :])
        caught.compare([], lambda: list(graph.run_flat(given)), lambda: [strong(y) for y in flatten(final(f(*plain)))[0]])


def typed(carry: list[Value], structure: Structure, iteration: Function, rest: tuple[Any, ...], transform: str) -> list[Value]:
    """The carry with a dtype for each Python number: the one after an iteration, as 0 becomes 0.0 when floats are added."""
    if not any(is_weak(x) for x in carry):
        return carry
    first = write(iteration, (structure.unflatten(carry), *rest), transform, weak=True)
    if isinstance(first, NumbersNeededError):
        return carry  # decided by the first iteration
    if len(first.outputs) < len(carry):
        return [strong(x) for x in carry]
    return [
        _as(x, dtype_of(y)) if is_weak(x) and isinstance(y, NUMBERS) and agrees(x, dtype_of(y)) else strong(x)
        for x, y in zip(carry, first.outputs, strict=False)
    ]


def _as(number: Any, dtype: np.dtype[Any]) -> Value:
    if not is_inexact(dtype):
        check_width(number)
    return dtype.type(number)


class LoopCarry:
    """The carry of a loop: its structure, the types it must keep, and the names of its leaves."""

    def __init__(self, structure: Structure, leaves: Sequence[Value], labels: Sequence[str], transform: str) -> None:
        self.structure, self.labels, self.transform = structure, labels, transform
        self.types = [Type.of(x) for x in leaves]
        self.open = {label: x for label, x in zip(labels, leaves, strict=True) if is_weak(x)}  # numbers that have no dtype yet

    def back(self, f: Function, result: Any) -> list[Value]:
        """The leaves of the carry that an iteration returned, checked to be of the same types."""
        leaves, found = flatten(result)
        self.check_structure(f, found)
        fitted = [self.fitted(f, y, t, label) for y, t, label in zip(leaves, self.types, self.labels, strict=True)]
        if self.open:
            self.types, self.open = [Type.of(y) for y in fitted], {}
        return fitted

    def check_structure(self, f: Function, found: Structure) -> None:
        if found != self.structure:
            static = self.structure.fits(found) and (
                "; a static field cannot change: hold it in an array, or declare it with field(metadata={'static': False})"
            )
            raise ShapeError(
                f"the carry of {self.transform} must keep its structure: it starts as {self.structure}, and {name_of(f)} "
                f"returned {found}{static or ''}"
            )

    def fitted(self, f: Function, y: Any, wanted: Type, label: str) -> Value:
        y = _result(y, f, self.transform, f" for {label}")
        if not is_inexact(wanted.dtype):
            check_width(y, f" that {name_of(f)} returned for {label}")
        if is_weak(y) and wanted.shape == () and agrees(y, wanted.dtype):
            return wanted.dtype.type(y)
        found = Type.of(y)
        if found == wanted or (label in self.open and found.shape == () and agrees(self.open[label], found.dtype)):
            return y
        kind = ShapeError if found.shape != wanted.shape else DtypeError
        raise kind(
            f"the carry of {self.transform} must keep its type: {label} is {wanted!r}, and {name_of(f)} returned {found!r} for "
            f"it; give it that type from the start, or convert what is returned"
        )
