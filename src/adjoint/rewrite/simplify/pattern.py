"""The language of the rules: expressions with holes.

    rule("log1p", log(add(1, X)), log1p(X), needs="finite")
    rule("transpose-twice", transpose(transpose(X, axes=A), axes=B), transpose(X, axes=composed(A, B)))

X, Y, Z match any operand, the same one at every occurrence of the name; C, D match a constant; other capitals match a parameter
of an op. A number matches a constant all of whose elements equal it: `0` for a zero of either sign, `0.0` and `-0.0` for one of
that sign. ZERO is a zero without a sign: the result of a product of the chain rule with an exact zero.

The right side is built from the operands matched on the left. A parameter there may be computed from types and other parameters
by a function marked `computed`; so may the condition `when`. The result has the type of the expression that it replaces: if only
the shape differs, it is broadcast; a rule that would change the dtype does not apply.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...core.op import OPS, Op

#: Conditions under which a rule preserves values; `rules.py` explains them.
Needs = Literal["nothing", "rounding", "unsigned zeros", "finite"]


class Hole(NamedTuple):
    """Stands for any operand."""

    name: str


class ConstantHole(NamedTuple):
    """Stands for any constant."""

    name: str


class Parameter(NamedTuple):
    """Stands for a parameter of an op."""

    name: str


class MatchedResult(NamedTuple):
    """The value that is replaced: only its type is known."""

    name: str = "RESULT"


class UnsignedZero(NamedTuple):
    """Stands for a zero that has no sign."""

    name: str = "ZERO"


RESULT, ZERO = MatchedResult(), UnsignedZero()


@dataclass(frozen=True)
class OpPattern:
    """An op applied to patterns."""

    op: Op
    args: tuple[Any, ...]
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [*map(show, self.args), *(f"{key}={show(value)}" for key, value in self.params.items())]
        return f"{self.op.name}({', '.join(parts)})"


@dataclass(frozen=True)
class Computed:
    """A parameter or a condition worked out when the rule applies; operands reach the function as their types."""

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.function.__name__}({', '.join(map(show, self.args))})"


def show(pattern: Any) -> str:
    """A pattern as written in the table of rules."""
    return pattern.name if isinstance(pattern, tuple) and hasattr(pattern, "name") else str(pattern)


def calls(*names: str) -> Iterator[Callable[..., OpPattern]]:
    """For each name of an op, the function that writes a call of it in a pattern."""
    return (_caller(OPS[name]) for name in names)


def _caller(op: Op) -> Callable[..., OpPattern]:
    return lambda *args, **params: OpPattern(op, args, params)


def computed(function: Callable[..., Any]) -> Callable[..., Computed]:
    """Mark a function of types and parameters for use in rules."""
    return lambda *args: Computed(function, args)


@dataclass(frozen=True)
class Rule:
    """`left` may be replaced by `right` where `when` holds; `cases` give types and parameters for the generated test."""

    name: str
    left: OpPattern
    right: Any
    when: Computed | None = None
    needs: Needs = "nothing"
    real: bool = False
    cases: tuple[dict[str, Any], ...] = ({},)

    def __str__(self) -> str:
        text = f"{self.name}: {show(self.left)} → {show(self.right)}"
        return text + (f", if {self.when}" if self.when else "") + (f"; needs {self.needs}" if self.needs != "nothing" else "")


# -- the two orders of a sum, a product -------------------------------------------------------------------------


def orders(pattern: Any) -> Iterator[Any]:
    """A pattern with the arguments of its commutative ops in every order."""
    if not isinstance(pattern, OpPattern):
        yield pattern
        return
    for args in itertools.product(*[list(orders(a)) for a in pattern.args]):
        yield OpPattern(pattern.op, args, pattern.params)
        if pattern.op.commutative and args[0] != args[1]:
            yield OpPattern(pattern.op, args[::-1], pattern.params)
