"""Derivatives at repeated eigenvalues: the tape computes with a + bε, and with two choices of eigenvectors side by side.

    w, v = eigh(I)      w is 1 ∓ ε/2: ε separates the equal eigenvalues. What depends on w has an ε part, too
                        v is I, and also another basis of the same space (ops/rotation.py). What depends on v is computed twice

The ε parts give the limit of the derivative from distinct eigenvalues (ops/gaps.py). If both bases give the same derivative, the
function does not depend on the choice of the basis; otherwise it has no derivative. The traces `Split` (ε) and `Twice` (bases)
are just below their tape: values on the tape have all parts, and its results have none.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, bind, numbers, unwrap_fresh
from ..core.errors import user_level, written_on
from ..core.floating import quiet
from ..core.op import Constant, Linear, Op, Opaque
from ..core.types import Shape, Value, dtype_of, ndim_of, shape_of
from ..ops.broadcast import sum_, where
from ..ops.elementwise import add
from ..ops.gaps import doubt, is_noise
from ..ops.linalg import column
from ..ops.matrix import real_part
from .dual import Dual


class Split(Dual):
    """The numbers a + bε of one tape."""

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if params.get("of") is not self:
            return super().process(op, args, params)
        (x,) = args
        a, b = self.split(x)
        zeros = np.zeros(shape_of(a), dtype_of(a))
        match op.name:
            case "finite":
                return a
            case "rate":
                return zeros if b is None else b
            case "among":
                return x if x is not a else self.wrap(x)
            case _:
                return Traced(self, zeros, a)

    def wrap(self, x: Value) -> Traced:
        return Traced(self, x, np.zeros(shape_of(x), dtype_of(x)))

    def join(self, x: Value, rate: Value | None) -> Value:
        """A result, and how it changes with ε.

        If it already depends on ε, through an earlier decomposition, the limit is not known, and nan.
        """
        if isinstance(x, Traced) and x.by is self:
            return Traced(self, x.underlying, x.aux * np.nan)
        return self.wrap(x) if rate is None else Traced(self, x, rate)


class Twice(Trace):
    """Runs each op twice. `value` is computed from the vectors that LAPACK has chosen, `aux` from rotated ones.

    Python sees the former. Where an op fails on the latter, which no function of the whole space does, that side is nan.
    `size` is that of the function whose derivative is computed: the sum of its results times their cotangents.
    """

    __slots__ = ("size", "split")

    def __init__(self, level: float) -> None:
        super().__init__("a repeated eigenvalue", level - 0.0625)
        self.split = Split(self.name, level - 0.125)
        self.size = 0.0

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if params.get("of") is self:
            return self.part(op.name, *args)
        firsts, seconds = zip(*map(self.sides, args), strict=True)
        y = bind(op, *firsts, **params)
        with quiet():
            try:
                z = bind(op, *seconds, **params)
            except (ArithmeticError, ValueError):
                z = tuple(map(_unknown, y)) if op.many else _unknown(y)
        if op.many:
            return tuple([Traced(self, a, b) for a, b in zip(y, z, strict=True)])
        return y if isinstance(op, Constant) and _is_same(y, z) else Traced(self, y, z)

    def part(self, name: str, x: Value) -> Value:
        a, b = self.sides(x)
        zeros = np.zeros(shape_of(a), dtype_of(a))
        match name:
            case "first":
                return a
            case "second":
                return b
            case "both":
                return self.wrap(a)
            case "total":
                return a + b
            case "as_first":
                return Traced(self, a, zeros)
            case _:
                return Traced(self, zeros, a)

    def sides(self, x: Value) -> tuple[Value, Value]:
        if isinstance(x, Traced) and x.by is self:
            return x.underlying, x.aux
        x = unwrap_fresh(x)
        return x, x

    def wrap(self, x: Value) -> Traced:
        return Traced(self, x, x)

    def lift(self, x: Value) -> Value:
        """A value on both sides, as an a + bε."""
        return x if is_in(self, x) else take("both", take("among", x, self.split), self)

    def side(self, i: int, x: Value) -> Value:
        """The value on one side; other traces may be above."""
        return take(("first", "second")[i], x, self) if is_in(self, x) else x

    def parts(self, i: int, x: Value | None) -> tuple[Value | None, Value | None]:
        """The a and the b of a value on one side; None if it has none."""
        side = x if x is None else self.side(i, x)
        return (take("finite", side, self.split), take("rate", side, self.split)) if is_in(self.split, side) else (side, None)

    def join(self, y: Value, z: Value, rate: Value | None) -> Value:
        """A result of a decomposition and of the rotated one, and how it changes with ε."""
        rates = (None, None) if rate is None else (self.side(0, rate), self.side(1, rate))
        return Traced(self, self.split.join(self.side(0, y), rates[0]), self.split.join(self.side(1, z), rates[1]))

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.underlying)

    def is_plain(self, x: Traced) -> bool:
        return True  # a tape is above what has a derivative


def _unknown(y: Value) -> Value:
    return y * np.nan if dtype_of(y).kind in "fc" else y


def _is_same(y: Value, z: Value) -> bool:
    known = numbers(y), numbers(z)
    return known[0] is not None and known[1] is not None and np.array_equal(*known, equal_nan=known[0].dtype.kind in "fc")


# The parts of a value as ops, so that another trace may be above: a pullback is itself differentiated, or batched. For such a
# trace it is one value. The cotangent of a + bε is a c + dε, paired by the ε part of their product; that of two sides is two.
def _part(name: str, transpose: str, doc: str) -> Linear:
    return Linear(
        name,
        lambda x, *, of: of.process(PARTS[name], (x,), {"of": of}),
        lambda h, x, *, of: take(transpose, h, of),
        batch=lambda flags, x, *, of: take(name, x, of),
        doc=doc,
    )


PARTS = {
    "finite": _part("finite", "times_epsilon", "The a of a + bε."),
    "rate": _part("rate", "among", "The b of a + bε."),
    "among": _part("among", "rate", "A number as the a of a + bε."),
    "times_epsilon": _part("times_epsilon", "finite", "A number as the b of a + bε."),
    "first": _part("first", "as_first", "The side of LAPACK's vectors."),
    "second": _part("second", "as_second", "The side of rotated vectors."),
    "both": _part("both", "total", "The same number on both sides."),
    "total": _part("total", "both", "The sum of both sides."),
    "as_first": _part("as_first", "first", "A number on the one side, and zero on the other."),
    "as_second": _part("as_second", "second", "The same, on the other side."),
}


def take(name: str, x: Value, of: Split | Twice) -> Value:
    """One of `PARTS` of a value; other traces may be above or below."""
    above = isinstance(x, Traced) and x.by.level > of.level
    return bind(PARTS[name], _wrapped(x, of), of=of) if above else of.process(PARTS[name], (x,), {"of": of})


def _wrapped(x: Value, of: Split | Twice) -> Traced:
    """A value that has parts beneath the traces above: an op on it comes to that trace before it comes to those below."""
    if isinstance(x, Traced) and x.by.level > of.level:
        return Traced(x.by, _wrapped(x.underlying, of), x.aux)
    return x if isinstance(x, Traced) and x.by is of else of.wrap(x)


def is_in(trace: Trace, x: Value | None) -> bool:
    """Whether a value has parts of the trace; other traces may be above."""
    while isinstance(x, Traced) and x.by is not trace:
        x = x.underlying
    return isinstance(x, Traced)


def foreign(values: Sequence[Value], own: Twice | None) -> Twice | None:
    """The trace of another tape, of which some of the values have parts."""
    return next((x.by for x in values if isinstance(x, Traced) and type(x.by) is Twice and x.by is not own), None)  # type: ignore[misc]


def without(x: Value) -> Value:
    """A value without its parts: that of LAPACK's vectors, without ε."""
    while isinstance(x, Traced) and type(x.by) in (Split, Twice):
        x = x.underlying
    return x


_rotated: dict[Opaque, Opaque] = {}


def rotated(op: Opaque) -> Opaque:
    """The same decomposition with other vectors, which has the same derivatives; of a rotated one, the first."""
    if op not in _rotated:
        rules, impl = op.limit, op.impl
        assert rules is not None
        made = Opaque(
            op.name,
            lambda *xs, **params: rules.rotate(impl(*xs, **params), *xs, **params),
            op.jvp,
            op.vjp,
            rules,
            axes=op.axes,
            cases=op.cases,
            many=True,
        )
        _rotated[made], _rotated[op] = op, made
    return _rotated[op]


def limit(op: Opaque, twice: Twice, others: Any, line: str) -> Any:
    """The pull of a decomposition with repeated eigenvalues. `others` are the results with rotated vectors; `line` is the user's
    line, for the warning that there is no derivative."""
    assert op.limit is not None
    rule = op.limit.vjp

    def pull(gs: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        given: list[Value | None] = []
        results = []
        for i, y in enumerate((saved[0], others)):
            own, rates = zip(*[twice.parts(i, g) for g in gs], strict=True)
            given += [*own, *rates]
            results.append(rule(_without_noise(own, rates, y, twice.size), rates, y, *saved[1:], **params))
        (x,), (y,) = results
        here = [g for g in given if g is not None]
        result = x + doubt(x, y, *here) * _total([*here, saved[1]], ndim_of(x))
        known = [numbers(x) for x in (*given[: 2 * len(gs)], result)]
        was_finite = all(x is None or np.all(np.isfinite(x)) for x in known[:-1])
        if was_finite and known[-1] is not None and np.any(np.isnan(known[-1])):
            _warn(op, written_on.get() or line)
        return (result,)

    return pull


def _total(given: Sequence[Value], ndim: int) -> Value:
    """A number for each matrix that depends on all that was given: if it is nan, so are the derivatives by all of that."""
    columns = [column(x) if ndim_of(x) < ndim else x for x in given]
    axes = (ndim - 2, ndim - 1)
    return functools.reduce(add, [real_part(sum_(x, axis=axes, keepdims=True)) for x in columns])


def _without_noise(
    gs: Sequence[Value | None], rates: Sequence[Value | None], y: Sequence[Value], size: float
) -> list[Value | None]:
    """Cotangents of a decomposition, without rounding errors in those of vectors: what is read of them is whether they cancel."""
    w = min(y, key=ndim_of)
    others = [g for g, part in zip(gs, y, strict=True) if part is w and g is not None]
    others += [rate for rate in rates if rate is not None]
    return [
        g if g is None or part is w else where(is_noise(g, w, *others, size=size), 0.0, g) for g, part in zip(gs, y, strict=True)
    ]


def _warn(op: Opaque, line: str) -> None:
    where = f" ({line})" if line else ""
    warnings.warn(
        f"{op.name} has found repeated eigenvalues or singular values, and the function depends on the choice of their vectors "
        f"or on their order: it has no derivative there; the result is nan{where}. Add a small perturbation to the matrix, or "
        "use a function of the whole space, such as v @ v.T",
        RuntimeWarning,
        stacklevel=user_level(),
    )
