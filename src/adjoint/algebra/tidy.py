"""Sums in their shortest form: a common factor taken out, a common denominator, sin² + cos² = 1.

A change is kept if it makes the term smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from . import canonical, terms
from .canonical import combine, multiply, power
from .convert import apply
from .terms import ONE, Number, Term, is_integer, post_order

_FEW = 8  # longer sums are not changed
_MANY = 3000


def tidy(root: Term) -> Term:
    """The term with every sum in it shortened. Terms too large to be read are not changed."""
    order = post_order(root)
    if len(order) > _MANY:
        return root
    done: dict[Term, Term] = {}
    for term in order:
        done[term] = shorten(_rebuild(term, done))
    return done[root]


def _rebuild(term: Term, done: dict[Term, Term]) -> Term:
    if all(done[t] is t for t in term.children()):
        return term
    if term.kind == "sum":
        return combine([(Fraction(1), Term("number", term.head)), *((c, done[t]) for c, t in term.parts)])
    if term.kind == "product":
        return multiply(Term("number", term.head), *(power(done[b], done[e]) for b, e in term.parts))
    return apply(term.head, *(done[t] for t in term.parts))


def shorten(term: Term) -> Term:
    """The shortest of the forms of a sum, or of a product with a sum."""
    if term.kind == "product" and len(term.parts) <= _FEW:
        spread = _distributed(term)
        return spread if spread.size + 2 < term.size else term
    while term.kind == "sum" and len(term.parts) <= _FEW:
        best = min((rule(term) for rule in RULES.values()), key=lambda t: t.size)
        if best.size >= term.size:
            break
        term = best
    return term


def _factors(term: Term) -> dict[Term, Term]:
    return dict(term.parts) if term.kind == "product" else {term: ONE}


def _from_factors(factors: dict[Term, Term]) -> Term:
    return multiply(*(power(b, e) for b, e in factors.items()))


def _without(term: Term, taken: dict[Term, Term]) -> Term:
    """The term divided by some of its factors, by removing their exponents, independent of what `multiply` can merge."""
    rest = {b: canonical.subtract(e, taken[b]) if b in taken else e for b, e in _factors(term).items()}
    coefficient = term.head if term.kind == "product" else Fraction(1)
    return multiply(Term("number", coefficient), _from_factors(rest))


def pythagoras(term: Term) -> Term:
    """c·r·sin(u)² + c·r·cos(u)² = c·r."""
    found = {t: c for c, t in term.parts}
    for t, c in list(found.items()):
        factors = _factors(t)
        for base, exponent in factors.items():
            if not (base.is_call("sin") and is_integer(exponent) and exponent.head >= 2):
                continue
            rest = _without(t, {base: terms.number(2)})
            partner = multiply(rest, power(canonical.call("cos", *base.parts), terms.number(2)))
            if found.get(partner) == c:
                others = [(k, s) for s, k in found.items() if s not in (t, partner)]
                return combine([(Fraction(1), Term("number", term.head)), (c, rest), *others])
    return term


def common_factor(term: Term) -> Term:
    """a·f + b·f = (a + b)·f for factors other than plain names; names too, if a sum is among the factors."""
    if term.head != 0:
        return term
    rows = [_factors(t) for _, t in term.parts]
    has_sums = any(b.kind == "sum" for row in rows for b in row)
    shared: dict[Term, Term] = {}
    for base, exponent in rows[0].items():
        if not exponent.is_number and all(row.get(base) == exponent for row in rows):
            shared[base] = exponent
            continue
        exponents = [row[base].head for row in rows if base in row and row[base].is_number]
        if len(exponents) < len(rows) or (base.kind == "symbol" and not has_sums):
            continue
        if all(e > 0 for e in exponents) or all(e < 0 for e in exponents):
            shared[base] = Term("number", min(exponents, key=abs))
    if not shared:
        return term
    taken = _from_factors(shared)
    rest = combine((c, _without(t, shared)) for c, t in term.parts)
    content = _content(rest)
    return multiply(Term("number", content), taken, shorten(_over(rest, content)))


def _content(term: Term) -> Number:
    """The numeric factor that leaves a sum with small integer coefficients, not all negative."""
    if term.kind != "sum":
        return Fraction(1)
    numbers = [c for c, _ in term.parts] + ([term.head] if term.head else [])
    if not all(isinstance(c, Fraction) for c in numbers):
        return Fraction(1)
    size = Fraction(math.gcd(*(c.numerator for c in numbers)), math.lcm(*(c.denominator for c in numbers)))
    return -size if all(c < 0 for c in numbers) else size


def _over(term: Term, content: Number) -> Term:
    return combine([(Fraction(1) / content, term)]) if content != 1 else term


def common_denominator(term: Term) -> Term:
    """a/d + b/d² = (a·d + b)/d² for a sum d, multiplied out."""
    rows = [(c, t, _factors(t)) for c, t in term.parts]
    best = term
    divisors = [b for _, _, row in rows for b, e in row.items() if b.kind == "sum" and is_integer(e) and e.head < 0]
    for divisor in dict.fromkeys(divisors):
        exponents = [row.get(divisor, terms.ZERO) for _, _, row in rows]
        if len(divisor.parts) > 4 or not all(is_integer(e) for e in exponents):
            continue
        highest = max(-e.head for e in exponents)
        if highest > 3:
            continue
        pieces = [(Fraction(1), Term("number", term.head), Fraction(0))] if term.head else []
        pieces += [(c, t, e.head) for (c, t, _), e in zip(rows, exponents, strict=True)]
        above = []
        for c, t, e in pieces:
            above.append((c, expand(multiply(t, power(divisor, Term("number", -e))), divisor, int(highest + e))))
        candidate = multiply(combine(above), power(divisor, Term("number", -highest)))
        if candidate.size < best.size:
            best = candidate
    return best


def expand(term: Term, divisor: Term, times: int) -> Term:
    """term·divisor**times, multiplied out."""
    for _ in range(times):
        pieces: list[tuple[Number, Term]] = list(term.parts) if term.kind == "sum" else [(Fraction(1), term)]
        if term.kind == "sum" and term.head:
            pieces.append((term.head, ONE))
        constant = [(_times(c, divisor.head), t) for c, t in pieces] if divisor.head else []
        term = combine([*((_times(c, k), multiply(t, d)) for c, t in pieces for k, d in divisor.parts), *constant])
    return term


def _times(a: Number, b: Number) -> Number:
    return terms.fold(a * b)


def multiply_out(term: Term) -> Term:
    """r·(a + b) + s = r·a + r·b + s, where that lets terms combine."""
    return combine([(Fraction(1), Term("number", term.head)), *((c, _distributed(t)) for c, t in term.parts)])


def _distributed(term: Term) -> Term:
    """r·(a + b) = r·a + r·b."""
    for base, exponent in _factors(term).items():
        if base.kind == "sum" and exponent == ONE and len(base.parts) <= 4:
            return expand(_without(term, {base: ONE}), base, 1)
    return term


RULES: dict[str, Callable[[Term], Term]] = {
    "pythagoras": pythagoras,
    "multiply out": multiply_out,
    "common factor": common_factor,
    "common denominator": common_denominator,
}
