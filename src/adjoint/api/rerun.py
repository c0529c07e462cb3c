"""Repeatable calls for `checkpoint`: the second run of a function must do the same as the first.

    for i in range(3):
        y = ad.checkpoint(lambda v: v * w[i] + rng.normal())(y)     # the backward pass runs it when i is 2

Variables that the function reads by name (closures, globals, defaults) are captured at the first run, with copies of arrays; the
states of random generators are restored; and the second run must give the same results. A function that cannot be repeated (a
write to an outside array, a counter, a file) is an error. The first run is recorded too, on a tape that is then dropped: a value
that leaves the function in another way than as a result (a list, an attribute) would have no derivative, and using it raises.
"""

from __future__ import annotations

import functools
import gc
import random
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.bind import Traced, snapshot
from ..core.code import names_in
from ..core.errors import ArgumentError, ReadOnlyError
from ..core.tree import flatten
from ..core.types import Value, dtype_of, is_inexact
from ..eager.mutation import Watch
from ..eager.tape import Tape
from ..numpy.views import View, written
from .arguments import NUMBERS, name_of
from .control import own_arguments

Function = Callable[..., Any]
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


def recorded(tape: Tape, leaves: Sequence[Value]) -> list[Value]:
    """Arguments of a function as variables of a tape, where they are floats."""
    return [tape.leaf(x) if isinstance(x, NUMBERS) and is_inexact(dtype_of(x)) else snapshot(x) for x in leaves]


class Again:
    """One call of a function of leaves, which can be repeated."""

    def __init__(self, f: Function, watch: Watch, lasting: bool) -> None:
        self.f = f
        self.watch, self.lasting = watch, lasting
        self.generators: list[Any] = []
        self.known: dict[int, Any] = {}
        self.repeated = self.bound(f)
        self.states: list[Any] = []
        self.signs: list[Any] = []

    def first(self, run: Function, leaves: Sequence[Value]) -> list[Value]:
        """`run(f, leaves)`: the results, and the state for the second run."""
        for x in leaves:
            self.notice(x)
        self.states = _states(self.generators)
        log: list[weakref.ref[Traced]] = []
        token = written.set(log)
        try:
            with Tape("checkpoint") as dropped:
                inside = recorded(dropped, leaves)
                with own_arguments(self.f, inside):
                    results = run(self.f, inside)
        finally:
            written.reset(token)
        del inside
        own = {id(y.root if isinstance(y, View) else y) for y in results if isinstance(y, Traced)}
        if _has_survivors(log, own):
            raise ReadOnlyError(
                f"{name_of(self.f)} writes to an outside array, which cannot be repeated; in a function given to "
                "checkpoint, return what is to be kept"
            )
        self.signs = [_sign(y) for y in results]
        return [dropped.leave(y) for y in results]

    def second(self, run: Function, leaves: Sequence[Value]) -> list[Value]:
        """Run again."""
        try:
            with _put_back(self.generators, self.states):
                results = run(self.repeated, leaves)
        except ValueError as error:
            if isinstance(error, ArgumentError) or "read-only" not in str(error):
                raise
            raise ReadOnlyError(
                f"{name_of(self.f)} writes to an outside NumPy array, which cannot be repeated; in a function given to "
                "checkpoint, return what is to be kept"
            ) from error
        if len(results) != len(self.signs) or not all(map(_agree, self.signs, map(_sign, results))):
            raise ArgumentError(
                f"{name_of(self.f)}, given to checkpoint, gave other results when the backward pass ran it again: it depends on "
                "something that has changed meanwhile, other than the variables that it names and NumPy's generators; pass that "
                "as an argument"
            )
        return results

    # -- what the function reads by name ------------------------------------------------------------------------

    def bound(self, f: Any) -> Any:
        """A function with the current values of its closure, the globals that it names, and its defaults."""
        if isinstance(f, functools.partial):
            return functools.partial(
                self.bound(f.func), *map(self.kept, f.args), **{k: self.kept(v) for k, v in f.keywords.items()}
            )
        if isinstance(f, types.MethodType):
            self.notice(f.__self__)
            return types.MethodType(self.bound(f.__func__), f.__self__)
        if not isinstance(f, types.FunctionType):
            self.notice(f)
            return f
        if id(f) in self.known:
            return self.known[id(f)]
        scope = {k: v for k, v in f.__globals__.items() if k.startswith("__")}
        cells = tuple([types.CellType() for _ in f.__closure__ or ()])
        g = types.FunctionType(f.__code__, scope, f.__name__, None, cells)
        g.__qualname__, g.__module__ = f.__qualname__, f.__module__
        self.known[id(f)] = g  # first: a function may name itself
        g.__defaults__ = f.__defaults__ and tuple(map(self.kept, f.__defaults__))
        g.__kwdefaults__ = f.__kwdefaults__ and {k: self.kept(v) for k, v in f.__kwdefaults__.items()}
        for cell, old in zip(cells, f.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.kept(old.cell_contents, f)
            except ValueError:  # empty: not yet assigned
                continue
        for name in names_in(f.__code__):
            if name in f.__globals__:
                scope[name] = self.kept(f.__globals__[name], f)
        return g

    def kept(self, x: Any, by: types.FunctionType | None = None) -> Any:
        """The current state of an object that a function reads. Functions of the same module are bound as well."""
        self.notice(x)
        if type(x) is np.ndarray:
            return self.watch.constant(x, self.lasting)
        if isinstance(x, Traced):
            return snapshot(x)
        if isinstance(x, types.FunctionType) and by is not None and x.__globals__ is by.__globals__:
            return self.bound(x)
        return x

    def notice(self, x: Any) -> None:
        """Register random generators: x itself, or its contents."""
        if isinstance(x, (np.ndarray, Traced, types.ModuleType, type, types.FunctionType, int, float, str)):
            return
        parts = (x, *getattr(x, "__dict__", {}).values(), *(flatten(x)[0] if isinstance(x, (list, tuple, dict)) else ()))
        self.generators += [part for part in parts if isinstance(part, _GENERATORS) and part not in self.generators]


def _has_survivors(log: Sequence[weakref.ref[Traced]], own: set[int]) -> bool:
    """Whether an array that was written to outlives the run, other than as a result. Objects of the run that refer to each other
    (the solver of an ODE) live until the garbage collector finds them."""
    for generation in (None, 0, 1, 2):
        if generation is not None:
            gc.collect(generation)
        if not any(reference() is not None and id(reference()) not in own for reference in log):
            return False
    return True


# -- random numbers ---------------------------------------------------------------------------------------------


def _states(generators: Sequence[Any]) -> list[Any]:
    return [np.random.get_state(), random.getstate(), *map(_state, generators)]


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _set_states(generators: Sequence[Any], states: Sequence[Any]) -> None:
    np.random.set_state(states[0])
    random.setstate(states[1])
    for generator, state in zip(generators, states[2:], strict=True):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(state)
        else:
            generator.setstate(state)


@contextmanager
def _put_back(generators: Sequence[Any], states: Sequence[Any]) -> Iterator[None]:
    """Reset generators to an earlier state, and restore them afterwards."""
    now = _states(generators)
    _set_states(generators, states)
    try:
        yield
    finally:
        _set_states(generators, now)


# -- results ----------------------------------------------------------------------------------------------------


def _sign(y: Any) -> tuple[Any, ...]:
    """A signature to compare results without storing them: shape, dtype, a weighted sum, and the sum of magnitudes."""
    while isinstance(y, Traced):
        y = y.underlying
    y = np.asarray(y)
    flat = y.ravel()
    numbers = flat if flat.dtype.kind in "fc" else flat.astype(float)
    finite = np.isfinite(numbers)
    numbers = np.where(finite, numbers, 0.0)
    weighted = numbers @ np.cos(np.arange(1.0, numbers.size + 1))
    return y.shape, y.dtype, int(finite.sum()), weighted, float(np.abs(numbers).sum())


def _agree(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    tolerance = 1e-10 if one[1].itemsize >= 8 else 1e-4
    return one[:3] == other[:3] and bool(abs(one[3] - other[3]) <= tolerance * max(one[4], 1e-300))
