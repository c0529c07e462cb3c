"""After a repeated eigenvalue, a tape computes with numbers a + bε, where ε separates the equal eigenvalues.

    w, v = eigh(I)      w is 1 ∓ ε/2; values computed from w, and their cotangents, have ε parts too

The ε parts give the limit of the derivative from distinct eigenvalues (ops/gaps.py). A `Split` is the trace just below its tape:
the tape sees values with ε; its results leave the tape without.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, bind, numbers
from ..core.errors import user_level, written_on
from ..core.op import Linear, Op, Opaque
from ..core.types import Value, dtype_of, shape_of
from .dual import Dual


class Split(Dual):
    """The numbers a + bε of one tape."""

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if params.get("split") is not self:
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
                return x if x is not a else Traced(self, a, None)
            case _:
                return Traced(self, zeros, a)

    def apply(self, name: str, x: Value) -> Value:
        """One of `PARTS` of a value; other traces may be above or below."""
        above = isinstance(x, Traced) and x.by.level > self.level
        return bind(PARTS[name], x, split=self) if above else self.process(PARTS[name], (x,), {"split": self})

    def is_in(self, x: Value | None) -> bool:
        """Whether a value has an ε part; other traces may be above."""
        while isinstance(x, Traced) and x.by is not self:
            x = x.value
        return isinstance(x, Traced)

    def part(self, x: Value | None) -> Value | None:
        """A value without ε."""
        return self.apply("finite", x) if self.is_in(x) else x

    def join(self, x: Value, rate: Value | None) -> Value:
        """A result, and how it changes with ε.

        If it already depends on ε, through an earlier decomposition, the limit is not known, and nan.
        """
        if isinstance(x, Traced) and x.by is self:
            return Traced(self, x.value, x.aux * np.nan)
        return x if rate is None else Traced(self, x, rate)


# The parts of a + bε as ops, so that another trace may be above: a pullback is itself differentiated, or batched. For such a
# trace a + bε is one value, and its cotangent is a c + dε, paired by the ε part of their product.
def _part(name: str, transpose: str, doc: str) -> Linear:
    return Linear(
        name,
        lambda x, *, split: split.process(PARTS[name], (x,), {"split": split}),
        lambda h, x, *, split: split.apply(transpose, h),
        batch=lambda flags, x, *, split: split.apply(name, x),
        doc=doc,
    )


PARTS = {
    "finite": _part("finite", "times_epsilon", "The a of a + bε."),
    "rate": _part("rate", "among", "The b of a + bε."),
    "among": _part("among", "rate", "A number as an a + bε."),
    "times_epsilon": _part("times_epsilon", "finite", "A number as the b of a + bε."),
}


def foreign(values: Sequence[Value], own: Split | None) -> Split | None:
    """The ε of another tape, on which some of the values depend."""
    found = [x.by for x in values if isinstance(x, Traced) and type(x.by) is Split and x.by is not own]
    return found[0] if found else None


def without(x: Value) -> Value:
    """A value without its ε part."""
    while isinstance(x, Traced) and type(x.by) is Split:
        x = x.value
    return x


def limit(op: Opaque, split: Split, line: str) -> Any:
    """The pull of a decomposition with repeated eigenvalues. `line` is the user's line, for the warning that there is no
    derivative."""
    assert op.limit is not None
    rule = op.limit.vjp

    def pull(gs: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        given = tuple([split.part(g) for g in gs])
        by_epsilon = tuple([split.apply("rate", g) if split.is_in(g) else None for g in gs])
        results = rule(given, by_epsilon, *saved, **params)
        known = [numbers(x) for x in (*given, *results)]
        was_finite = all(x is None or np.all(np.isfinite(x)) for x in known[: len(given)])
        if was_finite and any(x is not None and np.any(np.isnan(x)) for x in known[len(given) :]):
            _warn(op, written_on.get() or line)
        return results

    return pull


def _warn(op: Opaque, line: str) -> None:
    where = f" ({line})" if line else ""
    warnings.warn(
        f"{op.name} has found repeated eigenvalues or singular values, and the function depends on the choice of their vectors "
        f"or on their order: it has no derivative there; the result is nan{where}. Add a small perturbation to the matrix, or "
        "use a function of the whole space, such as v @ v.T",
        RuntimeWarning,
        stacklevel=user_level(),
    )
