"""Arithmetic on LLVM values, written as arithmetic: `a * b + 1.0` builds two instructions.

Everything here is straight-line code on single numbers, of the kind that LLVM's loop vectoriser widens. Nothing calls a library:
`fma` is one instruction on x86-64-v3, aarch64 and NVPTX, and is written out by `soften.py` for targets that lack it.
No fast-math flags: the error terms of `pair.py` would be simplified away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

BOOL = ir.IntType(1)
INT32, INT64 = ir.IntType(32), ir.IntType(64)
DOUBLE, FLOAT = ir.DoubleType(), ir.FloatType()


@dataclasses.dataclass(frozen=True)
class Format:
    """A binary floating-point format: value = fraction · 2^exponent."""

    real: Any  # the LLVM types
    word: Any
    bits: int
    fraction: int  # explicit bits of the fraction
    bias: int

    @property
    def shifter(self) -> float:
        """x + shifter − shifter is x rounded to an integer, which then stands in the low bits of x + shifter."""
        return 1.5 * 2.0**self.fraction

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def greatest(self) -> float:
        return (2 - 2.0**-self.fraction) * 2.0**self.bias


FLOAT64 = Format(DOUBLE, INT64, 64, 52, 1023)
FLOAT32 = Format(FLOAT, INT32, 32, 23, 127)
FORMATS = {DOUBLE: FLOAT64, FLOAT: FLOAT32}


class Scalar:
    """One LLVM value (a real, a word of bits, or a truth) with the builder that continues the code."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    @property
    def format(self) -> Format:
        return FORMATS[self.value.type]

    def lift(self, other: Any) -> Any:
        """The LLVM value of a number or a Scalar, in the type of self."""
        return other.value if isinstance(other, Scalar) else ir.Constant(self.value.type, other)

    def like(self, value: Any) -> Scalar:
        return Scalar(self.builder, value)

    def constant(self, number: Any) -> Scalar:
        return self.like(self.lift(number))

    def _apply(self, real: str, word: str, left: Any, right: Any) -> Scalar:
        name = real if self.value.type in FORMATS else word
        return self.like(getattr(self.builder, name)(self.lift(left), self.lift(right)))

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
        return self.like(self.builder.fneg(self.value))

    def __and__(self, other: Any) -> Scalar:
        return self._apply("", "and_", self, other)

    def __or__(self, other: Any) -> Scalar:
        return self._apply("", "or_", self, other)

    def __xor__(self, other: Any) -> Scalar:
        return self._apply("", "xor", self, other)

    def __lshift__(self, other: Any) -> Scalar:
        return self._apply("", "shl", self, other)

    def __rshift__(self, other: Any) -> Scalar:
        return self._apply("", "lshr", self, other)  # there is no arithmetic shift of 64-bit words in AVX2

    def _compare(self, sign: str, other: Any) -> Scalar:
        compare = self.builder.fcmp_ordered if self.value.type in FORMATS else self.builder.icmp_unsigned
        return self.like(compare(sign, self.value, self.lift(other)))

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
        return self.like(self.builder.fcmp_unordered("uno", self.value, self.value))

    def inverted(self) -> Scalar:
        """The other truth."""
        return self.like(self.builder.not_(self.value))

    # -- between the formats ------------------------------------------------------------------------------------

    def as_word(self) -> Scalar:
        """The bits of a real."""
        return self.like(self.builder.bitcast(self.value, self.format.word))

    def as_real(self, form: Format) -> Scalar:
        """The real that has these bits."""
        return self.like(self.builder.bitcast(self.value, form.real))

    def widened(self) -> Scalar:
        return self.like(self.builder.fpext(self.value, DOUBLE))

    def narrowed(self) -> Scalar:
        return self.like(self.builder.fptrunc(self.value, FLOAT))


def _intrinsic(name: str, first: Scalar, *others: Any) -> Scalar:
    kind = first.value.type
    full = f"llvm.{name}.f{FORMATS[kind].bits}"
    module = first.builder.module
    function = module.globals.get(full)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [kind] * (1 + len(others))), full)
    return first.like(first.builder.call(function, [first.value, *map(first.lift, others)]))


def fma(a: Scalar, b: Any, c: Any) -> Scalar:
    """a·b + c, rounded once: use it where the rounding matters."""
    return _intrinsic("fma", a, b, c)


def muladd(a: Scalar, b: Any, c: Any) -> Scalar:
    """a·b + c, rounded once or twice."""
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
    kind = yes if isinstance(yes, Scalar) else no
    return kind.like(kind.builder.select(condition.value, kind.lift(yes), kind.lift(no)))


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
    """2ⁿ for a real n that is whole and gives a normal number."""
    form = n.format
    return ((n + (form.shifter + form.bias)).as_word() << form.fraction).as_real(form)


def scaled(x: Scalar, n: Scalar) -> Scalar:
    """x·2ⁿ, rounded once, where 2ⁿ itself may be beyond the format: half the power at a time."""
    form = n.format
    base = form.shifter + form.bias
    first = muladd(n, 0.5, base)  # the half, ready to be an exponent, as in `power_of_two`
    second = (n - (first - base)) + base
    return x * (first.as_word() << form.fraction).as_real(form) * (second.as_word() << form.fraction).as_real(form)
