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
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.op import OPS, Constant, Op
from ..ops.elementwise import absolute, ceil, floor, maximum, minimum, sign, stop_gradient, trunc
from ..view import notation

Number = Fraction | float
_LONG = 16  # a longer sum or product is not merged into another one, to avoid quadratic growth
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


def number(value: Any) -> Term:
    """A number, or the constant that a float represents: 3.141592653589793 is pi."""
    folded = fold(value)
    if type(folded) is float and folded in _KNOWN:
        return _KNOWN[folded]
    return Term("number", folded)


def symbol(name: str) -> Term:
    return Term("symbol", name)


ZERO, ONE, HALF = Term("number", Fraction(0)), Term("number", Fraction(1)), Term("number", Fraction(1, 2))
PI = Term("call", "pi")


def is_integer(term: Term) -> bool:
    return term.is_number and isinstance(term.head, Fraction) and term.head.denominator == 1


def _number_power(base: Number, exponent: Number) -> Number | None:
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
                return _number_power(Fraction(*roots), Fraction(exponent.numerator))
        return None
    try:
        result = float(base) ** float(exponent)
    except OverflowError:
        return math.inf
    return None if isinstance(result, complex) else fold(result)


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
        elif term.kind == "sum" and len(term.parts) <= _LONG:
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
        elif term.kind == "product" and len(term.parts) <= _LONG:
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
    if term.kind == "sum" and term.parts[0][0] not in (0, 1) and len(term.parts) <= _LONG:
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
        if len(inner.parts) <= _LONG:  # -(x - y) is y - x
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
    return term.kind == "sum" and len(term.parts) <= _LONG and term.head <= 0 and all(c < 0 for c, _ in term.parts)


def divide(a: Term, b: Term) -> Term:
    return multiply(a, power(b, Term("number", Fraction(-1))))


def power(base: Term, exponent: Term) -> Term:
    base, exponent = arithmetic(base), arithmetic(exponent)
    if exponent == ZERO or base == ONE:
        return ONE
    if exponent == ONE:
        return base
    if base.is_number and exponent.is_number:
        value = _number_power(base.head, exponent.head)
        return Term("product", Fraction(1), ((base, exponent),)) if value is None else number(value)
    if base == ZERO and exponent.kind != "number":
        return ZERO
    if base.is_call("exp") and exponent.is_number and exponent.head < 0:
        return power(call("exp", scale(Fraction(-1), base.parts[0])), Term("number", -exponent.head))
    if base.is_call("hypot") and is_integer(exponent) and exponent.head % 2 == 0:
        squares = add(*(power(part, number(2)) for part in base.parts))
        return power(squares, Term("number", exponent.head / 2))
    if _is_negative(base) and is_integer(exponent):
        sign = Term("number", Fraction(-1 if exponent.head % 2 else 1))
        return multiply(sign, power(combine([(Fraction(-1), base)]), exponent))
    if base.kind == "product":
        if is_integer(exponent):  # (a·b)² and (aᵇ)²: valid for any a and b
            inner = [power(b, multiply(e, exponent)) for b, e in base.parts]
            return multiply(power(Term("number", base.head), exponent), *inner)
        if base.head != 1 and base.head > 0 and exponent.is_number:
            value = _number_power(base.head, exponent.head)
            if value is not None:
                return multiply(number(value), power(_product(Fraction(1), base.parts), exponent))
    return Term("product", Fraction(1), ((base, exponent),))


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
    args = tuple(arithmetic(a) for a in args)
    if name in ("sqrt", "root"):
        return power(args[0], HALF)
    if len(args) == 1:
        (x,) = args
        if x in (ZERO, ONE) and (known := _known_value(name, int(x.head))) is not None:
            return known
        if x.kind in ("product", "number") and x.head < 0 and (parity := OPS[name].parity):
            mirrored = call(name, scale(Fraction(-1), x))
            return scale(Fraction(-1), mirrored) if parity == "odd" else mirrored
        if name == "log" and x.is_call("exp"):
            return x.parts[0]
        if name == "exp":
            if x.is_call("log"):
                return x.parts[0]
            if x.kind == "product" and len(x.parts) == 1 and x.parts[0][0].is_call("log") and x.parts[0][1] == ONE:
                return power(x.parts[0][0].parts[0], Term("number", x.head))
    if name in _OPPOSITE:  # max(a, a) = a, max(a, max(a, b)) = max(a, b), max(a, min(a, b)) = a: equal not by chance
        for a, b in (args, args[::-1]):
            if a == b or (b.is_call(_OPPOSITE[name]) and a in b.parts):
                return a
            if b.is_call(name) and a in b.parts:
                return b
    if args and all(a.is_number for a in args) and OPS[name] in _DISCRETE:
        return number(_DISCRETE[OPS[name]](*[a.head for a in args]))
    return Term("call", name, args)


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
_KNOWN: dict[float, Term] = {}
_KNOWN.update({math.log(n): Term("call", "log", (Term("number", Fraction(n)),)) for n in range(2, 11)})
_KNOWN[math.pi] = PI
_KNOWN[2 * math.pi] = multiply(number(2), PI)
_KNOWN[math.pi / 180] = divide(PI, number(180))
_KNOWN[180 / math.pi] = divide(number(180), PI)
_KNOWN[math.sqrt(math.pi)] = power(PI, HALF)
_KNOWN[2 / math.sqrt(math.pi)] = divide(number(2), power(PI, HALF))
_KNOWN[math.sqrt(math.pi) / 2] = multiply(HALF, power(PI, HALF))
_KNOWN[math.sqrt(2 * math.pi)] = power(multiply(number(2), PI), HALF)
_KNOWN[math.sqrt(2)] = power(number(2), HALF)
_KNOWN.update({-k: scale(Fraction(-1), t) for k, t in list(_KNOWN.items())})
