"""Sums, products, powers and calls of terms in canonical form: equal expressions become equal terms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.op import OPS, Op
from ..ops.elementwise import absolute, ceil, floor, maximum, minimum, sign, trunc
from .terms import HALF, KNOWN, LONG, ONE, PI, ZERO, Number, Term, fold, is_comparison, is_integer, is_truth, number, number_power

# -- sums -------------------------------------------------------------------------------------------------------


def add(*terms: Term) -> Term:
    return combine((Fraction(1), t) for t in terms)


def subtract(a: Term, b: Term) -> Term:
    return combine([(Fraction(1), a), (Fraction(-1), b)])


def combine(pairs: Iterable[tuple[Number, Term]]) -> Term:
    """Σ coefficient·term with like terms collected."""
    total: Number = Fraction(0)
    found: dict[Term, Number] = {}

    def collect(coefficient: Number, term: Term) -> None:
        found[term] = found.get(term, 0) + coefficient

    for coefficient, term in pairs:
        term = arithmetic(term)
        if term.is_number:
            total = fold(total + coefficient * term.head)
        elif term.kind == "sum" and len(term.parts) <= LONG:
            total = fold(total + coefficient * term.head)
            for c, t in term.parts:
                collect(fold(coefficient * c), t)
        elif term.kind == "product" and term.head != 1:
            collect(fold(coefficient * term.head), _product(Fraction(1), term.parts))
        else:
            collect(coefficient, term)
    parts = [(fold(c), t) for t, c in found.items() if c != 0]
    conditions = [t.parts[0] for _, t in parts if t.is_call("where")]
    if len(set(conditions)) < len(conditions):
        return _merge_choices(total, parts)
    if not parts:
        return number(total)
    if len(parts) == 1 and total == 0:
        return scale(parts[0][0], parts[0][1])
    parts.sort(key=lambda part: sum_order(part[1]))
    return Term("sum", total, tuple(parts))


def _merge_choices(total: Number, parts: list[tuple[Number, Term]]) -> Term:
    """where(c, a, b) + where(c, p, q) is where(c, a + p, b + q)."""
    groups: dict[Term, list[tuple[Number, Term]]] = {}
    rest: list[tuple[Number, Term]] = [(Fraction(1), number(total))]
    for c, t in parts:
        if t.is_call("where"):
            groups.setdefault(t.parts[0], []).append((c, t))
        else:
            rest.append((c, t))
    for condition, group in groups.items():
        yes = combine((c, t.parts[1]) for c, t in group)
        no = combine((c, t.parts[2]) for c, t in group)
        rest.append((Fraction(1), where(condition, yes, no)))
    return combine(rest)


def scale(coefficient: Number, term: Term) -> Term:
    return multiply(Term("number", coefficient), term) if coefficient != 1 else term


def sum_order(term: Term) -> tuple[Any, ...]:
    """Terms of a sum are sorted by decreasing degree, then by name."""
    factors = term.parts if term.kind == "product" else ((term, ONE),)
    known = [(b, float(e.head) if e.is_number else 1.0, e) for b, e in factors]
    degree = sum(e if b.kind == "symbol" else 0.5 * (e > 0 and b.size > 1) for b, e, _ in known)
    return -degree, [(b.order, -e, exponent.order[3]) for b, e, exponent in known]


# -- products and powers ----------------------------------------------------------------------------------------


def multiply(*terms: Term) -> Term:
    """The product with like bases collected."""
    coefficient: Number = Fraction(1)
    found: dict[Term, list[Term]] = {}
    for term in terms:
        term = arithmetic(term)
        if term.is_number:
            coefficient = fold(coefficient * term.head)
        elif term.kind == "product" and len(term.parts) <= LONG:
            coefficient = fold(coefficient * term.head)
            for base, exponent in term.parts:
                found.setdefault(base, []).append(exponent)
        else:
            if _is_negative(term):  # (-x - 1)·y is -(x + 1)·y
                coefficient, term = -coefficient, combine([(Fraction(-1), term)])
            found.setdefault(term, []).append(ONE)
    if coefficient == 0:
        return ZERO
    factors: list[tuple[Term, Term]] = []
    again: list[Term] = []
    for base, exponents in found.items():
        if len(exponents) == 1:
            factors.append((base, exponents[0]))
            continue
        merged = power(base, add(*exponents))
        if merged.kind == "product" and merged.head == 1 and len(merged.parts) == 1:
            factors.append(merged.parts[0])
        elif merged == base:
            factors.append((base, ONE))
        else:
            again.append(merged)
    if again:
        return multiply(Term("number", coefficient), _product(Fraction(1), factors), *again)
    return _join_exponentials(coefficient, factors)


def _join_exponentials(coefficient: Number, factors: list[tuple[Term, Term]]) -> Term:
    """exp(u)·exp(−2u) is exp(−u); exponentials of unrelated terms stay separate."""
    groups: dict[Term, list[tuple[Term, Term]]] = {}
    for base, exponent in factors:
        if base.is_call("exp") and exponent.is_number:
            groups.setdefault(_direction(base.parts[0]), []).append((base, exponent))
    related = [group for group in groups.values() if len(group) > 1]
    if related:
        joined = {base for group in related for base, _ in group}
        rest = [factor for factor in factors if factor[0] not in joined]
        sums = [call("exp", combine((e.head, b.parts[0]) for b, e in group)) for group in related]
        return multiply(Term("number", coefficient), _product(Fraction(1), rest), *sums)
    return _choose_product(coefficient, factors)


def _direction(term: Term) -> Term:
    """The term up to a numeric factor."""
    if term.is_number:
        return ONE
    if term.kind == "product" and term.head != 1:
        return _product(Fraction(1), term.parts)
    if term.kind == "sum" and term.parts[0][0] not in (0, 1) and len(term.parts) <= LONG:
        lead = term.parts[0][0]
        return Term("sum", fold(term.head / lead), tuple((fold(c / lead), t) for c, t in term.parts))
    return term


def _choose_product(coefficient: Number, factors: list[tuple[Term, Term]]) -> Term:
    """x·where(c, 1, 0) is where(c, x, 0); a number goes into any choice."""
    for i, (base, exponent) in enumerate(factors):
        if base.is_call("where") and exponent == ONE:
            condition, yes, no = base.parts
            rest = _product(coefficient, factors[:i] + factors[i + 1 :])
            if rest != ONE and (rest.is_number or ZERO in (yes, no)):
                return where(condition, multiply(yes, rest), multiply(no, rest))
    if coefficient == -1 and len(factors) == 1 and factors[0][1] == ONE and factors[0][0].kind == "sum":
        ((inner, _),) = factors
        if len(inner.parts) <= LONG:  # -(x - y) is y - x
            return combine([(Fraction(-1), inner)])
    return _product(coefficient, factors)


def _product(coefficient: Number, factors: Iterable[tuple[Term, Term]]) -> Term:
    """A product of distinct bases, sorted."""
    parts = sorted(factors, key=lambda factor: (factor[0].order, factor[1].order))
    if not parts:
        return number(coefficient)
    if coefficient == 1 and len(parts) == 1 and parts[0][1] == ONE:
        return parts[0][0]
    return Term("product", coefficient, tuple(parts))


def _is_negative(term: Term) -> bool:
    """Whether it is a (not long) sum of negative terms only."""
    return term.kind == "sum" and len(term.parts) <= LONG and term.head <= 0 and all(c < 0 for c, _ in term.parts)


def divide(a: Term, b: Term) -> Term:
    return multiply(a, power(b, Term("number", Fraction(-1))))


def power(base: Term, exponent: Term) -> Term:
    base, exponent = arithmetic(base), arithmetic(exponent)
    if exponent == ZERO or base == ONE:
        return ONE
    if exponent == ONE:
        return base
    if base == ZERO and exponent.kind != "number":
        return ZERO
    for rule in (_number_power, _call_power, _negative_power, _product_power):
        if (found := rule(base, exponent)) is not None:
            return found
    return Term("product", Fraction(1), ((base, exponent),))


def _number_power(base: Term, exponent: Term) -> Term | None:
    """4^(1/2) = 2, if the result is a short number."""
    value = number_power(base.head, exponent.head) if base.is_number and exponent.is_number else None
    return None if value is None else number(value)


def _call_power(base: Term, exponent: Term) -> Term | None:
    """exp(x)^-n = exp(-x)^n, and hypot(x, y)^2n = (x² + y²)^n."""
    if base.is_call("exp") and exponent.is_number and exponent.head < 0:
        return power(call("exp", scale(Fraction(-1), base.parts[0])), Term("number", -exponent.head))
    if base.is_call("hypot") and is_integer(exponent) and exponent.head % 2 == 0:
        squares = add(*(power(part, number(2)) for part in base.parts))
        return power(squares, Term("number", exponent.head / 2))
    return None


def _negative_power(base: Term, exponent: Term) -> Term | None:
    """(-a - b)^n = ±(a + b)^n."""
    if not (_is_negative(base) and is_integer(exponent)):
        return None
    sign = Term("number", Fraction(-1 if exponent.head % 2 else 1))
    return multiply(sign, power(combine([(Fraction(-1), base)]), exponent))


def _product_power(base: Term, exponent: Term) -> Term | None:
    """(a·b)^n = a^n·b^n and (a^b)^n = a^(b·n) for any a and b; (4·x)^(1/2) = 2·x^(1/2) for any x."""
    if base.kind != "product":
        return None
    if is_integer(exponent):
        inner = [power(b, multiply(e, exponent)) for b, e in base.parts]
        return multiply(power(Term("number", base.head), exponent), *inner)
    value = number_power(base.head, exponent.head) if base.head != 1 and base.head > 0 and exponent.is_number else None
    return None if value is None else multiply(number(value), power(_product(Fraction(1), base.parts), exponent))


# -- functions and choices --------------------------------------------------------------------------------------

#: Of exact numbers.
_DISCRETE: dict[Op, Callable[..., Any]] = {
    floor: math.floor,
    ceil: math.ceil,
    trunc: math.trunc,
    absolute: abs,
    sign: lambda x: (x > 0) - (x < 0),
    maximum: max,
    minimum: min,
}


_OPPOSITE = {maximum.name: minimum.name, minimum.name: maximum.name}


@functools.cache
def _known_value(name: str, x: int) -> Term | None:
    """The value of an elementary function at 0 or 1, if that is 0 or 1: log(1), cos(0)."""
    impl = OPS[name].impl
    if x == 0 and OPS[name].parity == "odd":
        return ZERO
    if not isinstance(impl, np.ufunc):
        return None
    with np.errstate(all="ignore"):
        y = impl(float(x))
    return ZERO if y == 0 else ONE if y == 1 else None


def call(name: str, *args: Term) -> Term:
    """A function of terms, simplified by what is known of it."""
    if is_truth(name):
        return _condition(name, args)
    if name == "where":
        return where(*args)
    if name == "nan_where":  # nothing is lost at a generic point
        return args[1]
    args = tuple(arithmetic(a) for a in args)
    if name in ("sqrt", "root"):
        return power(args[0], HALF)
    found = _of_one(name, args[0]) if len(args) == 1 else _extremum(name, args) if name in _OPPOSITE else None
    if found is not None:
        return found
    if args and all(a.is_number for a in args) and OPS[name] in _DISCRETE:
        return number(_DISCRETE[OPS[name]](*[a.head for a in args]))
    return Term("call", name, args)


def _of_one(name: str, x: Term) -> Term | None:
    """What a function of one argument is by its value at 0 or 1, its parity, or its inverse."""
    if x in (ZERO, ONE) and (known := _known_value(name, int(x.head))) is not None:
        return known
    if x.kind in ("product", "number") and x.head < 0 and (parity := OPS[name].parity):
        mirrored = call(name, scale(Fraction(-1), x))
        return scale(Fraction(-1), mirrored) if parity == "odd" else mirrored
    if x.is_call({"log": "exp", "exp": "log"}.get(name, "")):
        return x.parts[0]
    if name == "exp" and x.kind == "product" and len(x.parts) == 1 and x.parts[0][0].is_call("log") and x.parts[0][1] == ONE:
        return power(x.parts[0][0].parts[0], Term("number", x.head))  # exp(2 log(a)) = a²
    return None


def _extremum(name: str, args: tuple[Term, ...]) -> Term | None:
    """max(a, a) = a, max(a, max(a, b)) = max(a, b), max(a, min(a, b)) = a: equal not by chance."""
    for a, b in (args, args[::-1]):
        if a == b or (b.is_call(_OPPOSITE[name]) and a in b.parts):
            return a
        if b.is_call(name) and a in b.parts:
            return b
    return None


def arithmetic(term: Term) -> Term:
    """A condition that is counted with, as 1 or 0."""
    if term.kind == "call" and is_truth(term.head):
        if term.head in ("greater_equal", "less_equal") and not any(t.steps for t in term.parts):
            term = Term("call", term.head.removesuffix("_equal"), term.parts)
        return Term("call", "where", (term, ONE, ZERO))
    return term


def where(condition: Term, yes: Term, no: Term) -> Term:
    yes, no = arithmetic(yes), arithmetic(no)
    if condition.is_number:
        return yes if condition.head else no
    if condition.is_call("where") and condition.parts[1:] == (ONE, ZERO):
        condition = condition.parts[0]
    if condition.is_call("logical_not"):
        return where(condition.parts[0], no, yes)
    if yes.is_call("where") and yes.parts[0] == condition:
        yes = yes.parts[1]
    if no.is_call("where") and no.parts[0] == condition:
        no = no.parts[2]
    return yes if yes == no else Term("call", "where", (condition, yes, no))


def _condition(name: str, args: tuple[Term, ...]) -> Term:
    """A condition; constant if it holds, or fails, at all generic points."""
    if name in ("logical_and", "logical_or"):
        end = ZERO if name == "logical_and" else ONE
        if end in args:
            return end
        open_ = [a for a in dict.fromkeys(args) if not a.is_number]
        if len(open_) < 2:
            return open_[0] if open_ else (ONE if end == ZERO else ZERO)
        return Term("call", name, tuple(open_))
    if name == "logical_not" and args[0].is_number:
        return ZERO if args[0].head else ONE
    if name in ("isnan", "isinf", "isfinite"):
        value = args[0].head if args[0].is_number and type(args[0].head) is float else 0.0
        return number(getattr(math, name)(value))
    if is_comparison(name):
        difference = subtract(*args)
        if difference.is_number:
            return number(OPS[name].impl(difference.head, 0))
        if name in ("equal", "not_equal") and not difference.steps:
            return ZERO if name == "equal" else ONE
    return Term("call", name, args)


# Floats that represent constants in rules and user code; a derivative shows the constant.
KNOWN[math.pi] = PI
KNOWN[2 * math.pi] = multiply(number(2), PI)
KNOWN[math.pi / 180] = divide(PI, number(180))
KNOWN[180 / math.pi] = divide(number(180), PI)
KNOWN[math.sqrt(math.pi)] = power(PI, HALF)
KNOWN[2 / math.sqrt(math.pi)] = divide(number(2), power(PI, HALF))
KNOWN[math.sqrt(math.pi) / 2] = multiply(HALF, power(PI, HALF))
KNOWN[math.sqrt(2 * math.pi)] = power(multiply(number(2), PI), HALF)
KNOWN[math.sqrt(2)] = power(number(2), HALF)
KNOWN.update({math.log(n): Term("call", "log", (Term("number", Fraction(n)),)) for n in range(2, 11)})
KNOWN.update({-k: scale(Fraction(-1), t) for k, t in list(KNOWN.items())})
