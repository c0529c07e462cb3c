"""Arithmetic on LLVM values, written as Python arithmetic: `a * b + 1.0` emits two instructions.

Everything here is straight-line code on single numbers, which LLVM's loop vectorizer widens. Nothing calls a library: `fma` is
one instruction on x86-64-v3, aarch64 and NVPTX, and is expanded by `soften.py` for targets that lack it. No fast-math flags: the
error terms of `pair.py` would be simplified away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..instruction import Code, literal

DOUBLE, FLOAT = "double", "float"
WHOLE = "  ; whole"  # a comment: the first factor is a whole number of few bits
_COMPARISONS = {"<": ("olt", "ult"), "<=": ("ole", "ule"), ">": ("ogt", "ugt"), ">=": ("oge", "uge"), "==": ("oeq", "eq")}


@dataclasses.dataclass(frozen=True)
class Format:
    """A binary floating-point format: value = fraction · 2^exponent."""

    real: str  # LLVM's types
    word: str
    bits: int
    fraction: int  # explicit bits of the fraction
    bias: int

    @property
    def suffix(self) -> str:
        """In the names of functions."""
        return f"f{self.bits}"

    @property
    def shifter(self) -> float:
        """x + shifter − shifter is x rounded to an integer, which is then in the low bits of x + shifter."""
        return 1.5 * 2.0**self.fraction

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def greatest(self) -> float:
        return (2 - 2.0**-self.fraction) * 2.0**self.bias


FLOAT64 = Format(DOUBLE, "i64", 64, 52, 1023)
FLOAT32 = Format(FLOAT, "i32", 32, 23, 127)
FORMATS = {DOUBLE: FLOAT64, FLOAT: FLOAT32}
_DTYPES: dict[str, np.dtype[Any]] = {DOUBLE: np.dtype("float64"), FLOAT: np.dtype("float32")}


class FunctionCode(Code):
    """The code of a function, and its dependencies, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.needed: dict[str, str] = {}
        self.label("entry")

    def needs(self, name: str, text: str) -> None:
        self.needed.setdefault(name, text)

    def function(self, symbol: str, kind: str, count: int, function: Callable[..., Scalar], attributes: str) -> None:
        """Define a function of `count` arguments of one kind, with the code that `function` emits for them."""
        if symbol in self.needed:
            return
        body = FunctionCode()
        result = function(*(Scalar(body, f"%x{i}", kind) for i in range(count)))
        body.do(f"ret {result.kind} {result.name}")
        self.needed |= body.needed | {line: line for line in sorted(body.declared)}
        given = ", ".join(f"{kind} %x{i}" for i in range(count))
        self.needed[symbol] = body.define(f"define internal {result.kind} {symbol}({given}) {attributes}")


class Scalar:
    """One value (a real, a word of bits, or a bool): its name, its type, and the code it belongs to."""

    __slots__ = ("code", "kind", "name")

    def __init__(self, code: FunctionCode, name: str, kind: str) -> None:
        self.code = code
        self.name = name
        self.kind = kind

    @property
    def format(self) -> Format:
        return FORMATS[self.kind]

    def lift(self, other: Any) -> str:
        """The name of a Scalar, or a number in the type of self."""
        if isinstance(other, Scalar):
            return other.name
        return literal(other, _DTYPES[self.kind]) if self.kind in FORMATS else str(int(other))

    def let(self, text: str, kind: str | None = None) -> Scalar:
        """The value of a line; of the type of self by default."""
        return Scalar(self.code, self.code.let(text), kind or self.kind)

    def constant(self, number: Any) -> Scalar:
        return Scalar(self.code, self.lift(number), self.kind)

    def _apply(self, real: str, word: str, left: Any, right: Any) -> Scalar:
        name = real if self.kind in FORMATS else word
        return self.let(f"{name} {self.kind} {self.lift(left)}, {self.lift(right)}")

    def __add__(self, other: Any) -> Scalar:
        return self._apply("fadd", "add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return self._apply("fadd", "add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return self._apply("fsub", "sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._apply("fsub", "sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return self._apply("fmul", "mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._apply("fmul", "mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return self._apply("fdiv", "", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self._apply("fdiv", "", other, self)

    def __neg__(self) -> Scalar:
        return self.let(f"fneg {self.kind} {self.name}")

    def __and__(self, other: Any) -> Scalar:
        return self._apply("", "and", self, other)

    def __or__(self, other: Any) -> Scalar:
        return self._apply("", "or", self, other)

    def __xor__(self, other: Any) -> Scalar:
        return self._apply("", "xor", self, other)

    def __lshift__(self, other: Any) -> Scalar:
        return self._apply("", "shl", self, other)

    def __rshift__(self, other: Any) -> Scalar:
        return self._apply("", "lshr", self, other)  # there is no arithmetic shift of 64-bit words in AVX2

    def _compare(self, sign: str, other: Any) -> Scalar:
        real, word = _COMPARISONS[sign]
        how = f"fcmp {real}" if self.kind in FORMATS else f"icmp {word}"
        return self.let(f"{how} {self.kind} {self.name}, {self.lift(other)}", "i1")

    def __lt__(self, other: Any) -> Scalar:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Scalar:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Scalar:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Scalar:
        return self._compare(">=", other)

    def equals(self, other: Any) -> Scalar:
        return self._compare("==", other)

    def is_nan(self) -> Scalar:
        return self.let(f"fcmp uno {self.kind} {self.name}, {self.name}", "i1")

    def inverted(self) -> Scalar:
        """The negation."""
        return self.let(f"xor i1 {self.name}, true")

    # -- between the formats ------------------------------------------------------------------------------------

    def to(self, how: str, kind: str) -> Scalar:
        """Converted by an instruction of LLVM to another type."""
        return self.let(f"{how} {self.kind} {self.name} to {kind}", kind)

    def as_word(self) -> Scalar:
        """The bits of a real."""
        return self.to("bitcast", self.format.word)

    def as_real(self, form: Format) -> Scalar:
        """The real that has these bits."""
        return self.to("bitcast", form.real)

    def widened(self) -> Scalar:
        return self.to("fpext", DOUBLE)

    def narrowed(self) -> Scalar:
        return self.to("fptrunc", FLOAT)


def _intrinsic(name: str, first: Scalar, *others: Any) -> Scalar:
    given = [first.name, *map(first.lift, others)]
    return Scalar(first.code, first.code.intrinsic(name, first.kind, *given), first.kind)


def fma(a: Scalar, b: Any, c: Any) -> Scalar:
    """a·b + c, rounded once: use it where the rounding matters."""
    return _intrinsic("fma", a, b, c)


def fma_of_whole(n: Scalar, number: float, c: Any) -> Scalar:
    """n·number + c, rounded once if c nearly cancels the product, for a whole n of at most 26 bits: see `soften`."""
    made = fma(n, number, c)
    n.code.lines[-1] += WHOLE
    return made


def muladd(a: Scalar, b: Any, c: Any) -> Scalar:
    """a·b + c, rounded once or twice: use it where the product is exact or much smaller than c."""
    return _intrinsic("fmuladd", a, b, c)


def magnitude(x: Scalar) -> Scalar:
    return _intrinsic("fabs", x)


def copysign(x: Scalar, sign: Any) -> Scalar:
    return _intrinsic("copysign", x, sign)


def floor(x: Scalar) -> Scalar:
    return _intrinsic("floor", x)


def square_root(x: Scalar) -> Scalar:
    return _intrinsic("sqrt", x)


def select(condition: Scalar, yes: Any, no: Any) -> Scalar:
    """`yes` where the condition holds; at least one of the two is a Scalar."""
    one = yes if isinstance(yes, Scalar) else no
    return one.let(f"select i1 {condition.name}, {one.kind} {one.lift(yes)}, {one.kind} {one.lift(no)}")


def at_most(x: Scalar, bound: Any) -> Scalar:
    """The smaller of the two; nan stays nan."""
    return select(x > bound, bound, x)


def at_least(x: Scalar, bound: Any) -> Scalar:
    return select(x < bound, bound, x)


def horner(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Σ coefficients[k]·xᵏ, as two interleaved chains where it is long: half the latency for one multiplication more."""
    if len(coefficients) < 6:
        return _chain(x, coefficients)
    return muladd(_chain(square := x * x, coefficients[1::2]), x, _chain(square, coefficients[::2]))


def _chain(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    total = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = muladd(total, x, coefficient)
    return total


def nearest(x: Scalar) -> Scalar:
    """x rounded to an integer, for |x| < 2^(fraction − 1)."""
    shifter = x.format.shifter
    return (x + shifter) - shifter


def power_of_two(n: Scalar) -> Scalar:
    """2ⁿ for an integral real n with a normal result."""
    form = n.format
    return ((n + (form.shifter + form.bias)).as_word() << form.fraction).as_real(form)


def scaled(x: Scalar, n: Scalar) -> Scalar:
    """x·2ⁿ, rounded once, where 2ⁿ itself may be beyond the format: half the power at a time."""
    form = n.format
    base = form.shifter + form.bias
    first = muladd(n, 0.5, base)  # the half, ready to be an exponent, as in `power_of_two`
    second = (n - (first - base)) + base
    return x * (first.as_word() << form.fraction).as_real(form) * (second.as_word() << form.fraction).as_real(form)
