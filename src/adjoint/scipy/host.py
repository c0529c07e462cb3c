"""Algorithms of SciPy as one op: a compiled program calls them with the numbers of each call, and is valid for all numbers.

    optimize.brentq(lambda x: x**3 - c, 0.0, 4.0)       f(c, x) as a graph; root = brentq(f, c, 0.0, 4.0), an op

The function is staged on its own, and the values that it reads become operands of the op. Results are constants: the caller
adds the derivatives. A function that branches on its argument is staged with its source rewritten (`ways`). One that asks for
numbers otherwise cannot be staged: `called` gives None, and the program is valid for the numbers of one call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..compiler.jit import jit
from ..core.bind import Traced, around, unwrap_fresh
from ..core.errors import UnsupportedError
from ..core.op import Constant
from ..core.types import Type, shape_of
from ..eager.batch import Batch
from ..ir.graph import Graph
from ..source.body import SourceBody
from ..source.running import transformed
from ..source.variables import NotStagedError
from ..staging.guard import Guarded
from ..staging.stage import Stage
from ..staging.type_decisions import line_of_decision

Function = Callable[..., Any]
_NUMBERS = (bool, int, float, np.generic, np.ndarray)


def is_deferred() -> bool:
    """Whether the numbers of this call are only those of one of many: of a program, or of an example of a batch."""
    traces = [trace for trace in around.get() if isinstance(trace, (Stage, Batch))]
    stages = [trace for trace in traces if isinstance(trace, Stage)]
    return bool(traces) and (not stages or isinstance(stages[-1], Guarded))


def ways(functions: dict[str, Function]) -> Iterator[dict[str, Function]]:
    """The functions as they are, and with their branches and loops as ops, for `called` to stage."""
    yield functions
    rewritten = {key: transformed(f) for key, f in functions.items()}
    if any(rewritten[key] is not f for key, f in functions.items()):
        yield rewritten


class HostFunction:
    """A function of one number or array as a graph: of the values that it reads, the argument, and what must hold."""

    def __init__(self, f: Function, shape: tuple[int, ...]) -> None:
        if line_of_decision(f) is not None:
            raise UnsupportedError("a decision by type(x) cannot be staged")
        with SourceBody("function") as body:
            x = body.input("x", Type(shape, np.dtype(float))) if shape else body.number("x", float, np.inf)
            y = f(x)
            self.is_tuple = isinstance(y, tuple)
            outputs = [unwrap_fresh(part) for part in (y if isinstance(y, tuple) else (y,))]
            if any(isinstance(part, (list, tuple)) for part in outputs):
                outputs = [np.stack(part) if isinstance(part, (list, tuple)) else part for part in outputs]
            outputs.append(body.sound())
            for part in outputs:
                body.operand(part)  # records captured values
            graph: Graph = body.graph("function", outputs)
            self.captured = list(body.captured)
        self.run = lambda *values: graph.run_flat(values)
        self.compiled = jit(self.run)

    def of(self, values: Sequence[Any]) -> Function:
        """The function of plain numbers, with these in place of the captured values. While staging, it is not compiled."""
        run = self.run if around.get() else self.compiled

        def call(x: Any) -> Any:
            *y, is_sound = run(*values, np.asarray(x, float)[()])
            if not is_sound:
                raise ArithmeticError("the function raises an error here")
            return tuple(y) if self.is_tuple else y[0]

        return call


def called(solve: Function, functions: dict[str, Function], shape: tuple[int, ...], given: Any) -> Any:
    """solve(functions, given) as an op, or None. The functions take arrays of a `shape`; `given` are containers with numbers."""
    try:
        staged = {key: HostFunction(f, shape) for key, f in functions.items()}
    except (UnsupportedError, NotStagedError):
        return None
    places = [path for path, x in _leaves(given) if isinstance(x, Traced)]
    operands = [x for _, x in _leaves(given) if isinstance(x, Traced)]
    counts = [len(f.captured) for f in staged.values()]
    first: list[Any] = []

    def run(*values: Any) -> tuple[Any, ...]:
        rest = list(values)
        found = _replaced(given, dict(zip(places, rest, strict=False)))
        rest, plain = rest[len(places) :], {}
        for (key, f), count in zip(staged.items(), counts, strict=True):
            plain[key], rest = f.of(rest[:count]), rest[count:]
        result = solve(plain, found)
        labels = [leaf for leaf in _leaves(result) if not isinstance(leaf[1], _NUMBERS)]
        if not first:
            first.extend((result, labels))
        if labels != first[1]:
            raise ArithmeticError("the result is of another kind than in the call that was staged")
        return tuple(np.asarray(x)[()] for _, x in _leaves(result) if isinstance(x, _NUMBERS))

    operands += [x for f in staged.values() for x in f.captured]
    if not operands:
        return None
    values = _op(run)(*operands)
    result, _ = first
    paths = [path for path, x in _leaves(result) if isinstance(x, _NUMBERS)]
    return _replaced(result, dict(zip(paths, values, strict=True)))


def _op(run: Function) -> Constant:
    def batch(flags: Sequence[bool], *xs: Any) -> Any:
        size = next(shape_of(x)[0] for x, flag in zip(xs, flags, strict=True) if flag)

        def rows(*values: Any) -> tuple[Any, ...]:
            each = [run(*[v[i] if flag else v for v, flag in zip(values, flags, strict=True)]) for i in range(size)]
            return tuple(np.stack(column) for column in zip(*each, strict=True))

        return _op(rows)(*xs)

    return Constant("call.scipy", run, many=True, axes=None, batch=batch, typed_by_value=True, may_fail=True)


# -- containers of results, some of which are objects of SciPy -----------------------------------------------------------


def _items(x: Any) -> Any:
    return x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, (tuple, list)) else None


def _leaves(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = _items(x)
    if items is None:
        yield path, x
    else:
        for key, part in items:
            yield from _leaves(part, (*path, key))


def _replaced(x: Any, values: dict[tuple[Any, ...], Any], path: tuple[Any, ...] = ()) -> Any:
    """A container with other leaves."""
    items = _items(x)
    if items is None:
        return values.get(path, x)
    parts = {key: _replaced(part, values, (*path, key)) for key, part in items}
    if not isinstance(x, dict):
        return type(x)(parts.values())
    made = copy.copy(x)
    made.update(parts)
    return made
