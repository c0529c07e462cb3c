"""Numbers as unevaluated sums high + low, for about twice the digits (Dekker 1971; Muller et al., Handbook of Floating-Point
Arithmetic, chapters 4 and 5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.compiler.llvm.vecmath.scalar import Scalar, fma, select, square_root


class Pair(NamedTuple):
    high: Scalar
    low: Scalar


def sum_of(a: Scalar, b: Any) -> Pair:
    """a + b exactly, in any order of magnitude (Knuth)."""
    total = a + b
    other = total - a
    return Pair(total, (a - (total - other)) + (b - other))


def ordered_sum(a: Any, b: Scalar) -> Pair:
    """a + b exactly, where |a| ≥ |b| or a is 0 (Dekker)."""
    total = b + a
    return Pair(total, b - (total - a))


def product(a: Scalar, b: Any) -> Pair:
    high = a * b
    return Pair(high, fma(a, b, -high))


def pair_product(a: Pair, b: Pair) -> Pair:
    high, low = product(a.high, b.high)
    return Pair(high, low + fma(a.high, b.low, a.low * b.high))


def quotient(a: Pair, b: Pair) -> Pair:
    """a / b to nearly twice the precision, by one division and its remainder."""
    inverse = 1.0 / b.high
    high = a.high * inverse
    rest = fma(-high, b.high, a.high) + (a.low - high * b.low)
    return Pair(high, rest * inverse)


def pair_root(a: Pair) -> Pair:
    """√a, for a that is 0 or normal and positive."""
    high = square_root(a.high)
    twice = select(high.equals(0.0), 1.0, high + high)
    return Pair(high, (fma(-high, high, a.high) + a.low) / twice)
