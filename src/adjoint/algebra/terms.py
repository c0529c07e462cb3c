"""Terms in canonical form: equal expressions are equal terms, as far as the rules here go.

A sum is a number and a map from terms to coefficients, a product a number and a map from bases to exponents, so that
like terms are collected as they are built: x + x is 2·x, x·x is x², x − x is 0. The rules hold at generic points, those
where nothing is infinite, no denominator is zero and no two values are equal by chance.

Terms are compared by a digest of their structure; building one inspects only its direct parts.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.op import OPS, Constant
from ..ops.elementwise import stop_gradient
from ..view import notation

Number = Fraction | float
LONG = 16  # a longer sum or product is not merged into another one, to avoid quadratic growth
_LABEL = 60
_HUGE = 10**9


class Term:
    """One node. `head` and `parts` depend on the kind:

    number: head is its value · symbol: head is its name · call: head is the function's name, parts its arguments
    sum: head + Σ coefficient·term, parts are pairs · product: head · Π base**exponent, parts are pairs
    """

    __slots__ = ("depth", "digest", "head", "kind", "order", "parts", "size", "steps")

    def __init__(self, kind: str, head: Any, parts: tuple[Any, ...] = ()) -> None:
        self.kind, self.head, self.parts = kind, head, parts
        children = list(self.children())
        body = ",".join(f"{c}:{t.digest}" for c, t in parts) if kind == "sum" else ",".join(t.digest for t in children)
        self.digest: str = hashlib.blake2b(f"{kind} {head!r} {body}".encode(), digest_size=16).hexdigest()
        self.size: int = min(_HUGE, 1 + self._length())
        self.depth: int = 1 + max((t.depth for t in children), default=0)
        # whether it jumps: at such a term "equal to a given value" is not a matter of chance
        self.steps: bool = (kind == "call" and _jumps(head)) or any(t.steps for t in children)
        rank = -1 if kind == "call" and not parts else _RANKS[kind]
        name = _natural(head) if isinstance(head, str) else ""
        self.order: tuple[int, str, int, str] = (rank, name, self.size, self._label())

    def children(self) -> Iterator[Term]:
        if self.kind == "sum":
            yield from (t for _, t in self.parts)
        elif self.kind == "product":
            for base, exponent in self.parts:
                yield base
                yield exponent
        else:
            yield from self.parts

    def _length(self) -> int:
        """The approximate number of names, numbers and functions in the text of the parts."""
        if self.kind == "sum":
            return sum(t.size + (abs(c) != 1) for c, t in self.parts) + (self.head != 0)
        if self.kind == "product":
            return sum(b.size + (e.size if e.head != 1 else 0) for b, e in self.parts) + (abs(self.head) != 1)
        return sum(t.size for t in self.parts)

    def _label(self) -> str:
        """Short structural text to sort by; a digest where it would be long."""
        label = f"{self.head}({' '.join(t.order[3] for t in self.children())})" if self.parts else str(self.head)
        if self.kind == "sum":  # x + y and x − y differ
            label += "".join(f" {c}" for c, _ in self.parts)
        return label if len(label) <= _LABEL else "~" + self.digest

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    def is_call(self, *names: str) -> bool:
        return self.kind == "call" and self.head in names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Term({self.kind} {self.head!r} {self.parts!r})"


_RANKS = {"number": -2, "symbol": 0, "sum": 1, "product": 2, "call": 3}


@functools.cache
def is_truth(name: str) -> bool:
    """Whether a function gives true or false."""
    op = OPS.get(name)
    try:
        return isinstance(op, Constant) and np.asarray(op.impl(*[1.0] * (op.arity or 1))).dtype == bool
    except TypeError:  # of whole numbers
        return False


@functools.cache
def _jumps(name: str) -> bool:
    return isinstance(OPS.get(name), Constant) and OPS[name] is not stop_gradient


def is_comparison(name: str) -> bool:
    return name in OPS and OPS[name].infix in notation.COMPARISONS


def _natural(name: str) -> str:
    """A name to sort by: w2 comes before w10."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(8), name)


def post_order(*roots: Term) -> list[Term]:
    """Every term below the roots once, parts before wholes."""
    seen: set[Term] = set()
    found: list[Term] = []
    stack = [(t, False) for t in reversed(roots)]
    while stack:
        term, is_ready = stack.pop()
        if is_ready:
            found.append(term)
        elif term not in seen:
            seen.add(term)
            stack.append((term, True))
            stack.extend((t, False) for t in reversed(list(term.children())) if t not in seen)
    return found


# -- numbers ----------------------------------------------------------------------------------------------------


def fold(value: Any) -> Number:
    """A number in lowest terms: a fraction while it is exact and small, else a float."""
    if isinstance(value, Fraction | int):
        value = Fraction(value)
        if max(abs(value.numerator), value.denominator) < 2**53 and (value.denominator % 5 or not is_decimal(value)):
            return value
        try:
            value = float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    value = float(value)
    if not math.isfinite(value) or abs(value) >= 2**40:
        return value
    if (value * 1024).is_integer():
        return Fraction(value)
    digits = repr(value)
    return (
        Fraction(digits) if abs(value) >= 1e-6 and len(digits.strip("-0").replace(".", "")) <= 7 and "e" not in digits else value
    )


def is_decimal(value: Fraction) -> bool:
    """Whether a fraction has a finite decimal expansion."""
    rest = value.denominator
    for p in (2, 5):
        while rest % p == 0:
            rest //= p
    return rest == 1


#: Constants by the float that represents them, such as pi; `canonical.py` fills it.
KNOWN: dict[float, Term] = {}


def number(value: Any) -> Term:
    """A number, or the constant that a float represents: 3.141592653589793 is pi."""
    folded = fold(value)
    if type(folded) is float and folded in KNOWN:
        return KNOWN[folded]
    return Term("number", folded)


def symbol(name: str) -> Term:
    return Term("symbol", name)


ZERO, ONE, HALF = Term("number", Fraction(0)), Term("number", Fraction(1)), Term("number", Fraction(1, 2))
PI = Term("call", "pi")


def is_integer(term: Term) -> bool:
    return term.is_number and isinstance(term.head, Fraction) and term.head.denominator == 1


def number_power(base: Number, exponent: Number) -> Number | None:
    """base**exponent if it is a short real number, else None."""
    if base == 0:
        return Fraction(0) if exponent > 0 else math.inf
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(exponent.numerator)
            return fold(base**exponent.numerator) if bits < 2000 else None
        if exponent.denominator == 2 and base > 0:
            roots = math.isqrt(base.numerator), math.isqrt(base.denominator)
            if roots[0] ** 2 == base.numerator and roots[1] ** 2 == base.denominator:
                return number_power(Fraction(*roots), Fraction(exponent.numerator))
        return None
    try:
        result = float(base) ** float(exponent)
    except OverflowError:
        return math.inf
    return None if isinstance(result, complex) else fold(result)
