"""How a call of a NumPy or SciPy function is written down for the generated tests.

    "sum": entry(call(F(3)), call(F(2, 3), axis=-1, keepdims=True), call(F(0, 2), 0))

`F(2, 3)` stands for an array of that shape, drawn anew for every test and differentiated; `Data` for one that is drawn
and held fixed; `Out` for an array made inside the function, to write the result to. They may stand anywhere, in lists
and keywords too. Everything else is handed over as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import draw

import adjoint.numpy as anp


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """An array to be drawn. `through` is applied to it inside the function: what the function sees has its structure."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    real: bool = False  # stays real when the other arguments are complex
    fixed: bool = False  # is not differentiated
    through: Callable[[Any], Any] | None = None

    def draw(self, rng, dtype):
        kind = np.dtype(dtype)
        x = draw(rng, self.shape, self.low, self.high, np.finfo(kind).dtype if self.real else kind)
        return x[()] if self.fixed and not self.shape else x

    def __repr__(self):
        return f"F{self.shape}"


def F(*shape, low=-2.0, high=2.0, real=False, through=None):  # noqa: N802 - a short name for what is written most
    """An array that is differentiated, with elements between `low` and `high`."""
    return Drawn(shape, low, high, real, through=through)


def Data(*shape, low=-2.0, high=2.0, real=False):  # noqa: N802
    """A drawn array that is held fixed."""
    return Drawn(shape, low, high, real, fixed=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """A given array that is differentiated, for points that chance does not find. It has one dtype."""

    value: Any

    @property
    def shape(self):
        return np.shape(self.value)

    fixed = False
    through = None

    def draw(self, rng, dtype):
        value = np.asarray(self.value)
        return value.astype(np.result_type(np.dtype(dtype), np.complex64) if value.dtype.kind == "c" else dtype)

    def __repr__(self):
        return f"X({np.asarray(self.value).tolist()})"


X = Given


@dataclasses.dataclass(frozen=True, eq=False)
class Out:
    """An array made inside the function for `out=`."""

    shape: tuple[int, ...]
    dtype: Any = None  # that of the drawn arrays

    def make(self, dtype):
        return anp.zeros(self.shape, self.dtype or dtype)


def O(*shape, dtype=None):  # noqa: E743, N802 - a short name for what is written most
    return Out(shape, dtype)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call. `without` names checks that are left out, each with the reason; `take` picks from the result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    without: dict[str, str] = dataclasses.field(default_factory=dict)
    take: Callable[[Any], Any] | None = None
    run: Callable[..., Any] | None = None
    rtol: float | None = None

    def but(self, *, take=None, run=None, rtol=None, **without):
        """The same call, with checks left out for the given reasons."""
        return dataclasses.replace(
            self, without={**without, **self.without}, take=self.take or take, run=self.run or run, rtol=self.rtol or rtol
        )

    def __repr__(self):
        words = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"call({', '.join(words)})"

    def drawn(self):
        """The drawn arrays, in order."""
        return [leaf for leaf in _leaves([self.args, self.kwargs]) if isinstance(leaf, Drawn | Given)]

    def sizes(self):
        """The lengths of the axes that are drawn."""
        return sorted({n for d in self.drawn() if isinstance(d, Drawn) for n in d.shape if n})

    def emptied(self, size):
        """The same call with every axis of that length empty."""

        def empty(leaf):
            if isinstance(leaf, Drawn | Out) and size in leaf.shape:
                return dataclasses.replace(leaf, shape=tuple(0 if n == size else n for n in leaf.shape))
            return leaf

        return dataclasses.replace(self, args=_map(empty, self.args), kwargs=_map(empty, self.kwargs))

    def arguments(self, rng, dtype):
        """What is differentiated, and the function that puts it in place: fill(*xs) → args, kwargs."""
        drawn = self.drawn()
        values = {id(d): d.draw(rng, dtype) for d in drawn}
        moving = [d for d in drawn if not d.fixed]

        def fill(*xs):
            place = {**values, **{id(d): d.through(x) if d.through else x for d, x in zip(moving, xs, strict=True)}}

            def put(leaf):
                return leaf.make(dtype) if isinstance(leaf, Out) else place.get(id(leaf), leaf)

            return _map(put, self.args), _map(put, self.kwargs)

        return [values[id(d)] for d in moving], fill

    def bind(self, function, fill):
        """The call as a function of what is differentiated."""
        run, take = self.run or _plainly, self.take or (lambda y: y)

        def f(*xs):
            args, kwargs = fill(*xs)
            return take(run(function, *args, **kwargs))

        return f


def _plainly(function, *args, **kwargs):
    return function(*args, **kwargs)


def call(*args, **kwargs):
    return Call(args, kwargs)


def entry(*calls, **options):
    """The calls of one function; options are as for `Call.but`, for all of them."""
    return [c.but(**options) for c in calls]


def _leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _map(f, tree):
    if tree.__class__ is dict:
        return {k: _map(f, v) for k, v in tree.items()}
    if tree.__class__ in (list, tuple):
        return tree.__class__(_map(f, v) for v in tree)
    return f(tree)


def writes(function, a, *args, **kwargs):
    """Run a function that writes into its first argument, on a copy; give back the copy."""
    a = anp.array(a)
    function(a, *args, **kwargs)
    return a
