"""Functions of one number at a time, for loops in which each iteration waits for the one before.

    for _ in range(n): s = np.log(s + 2)          22 ns an iteration with the vectorized log, 9 with the one here

What counts there is latency. A table lookup shortens the polynomials and replaces the division of a logarithm (Tang, ACM TOMS 15,
1989, and 16, 1990); branches, which predict well, replace selections. No vectorizer widens this code. `sin` and `cos` are equal
to the vectorized functions to the last bit; `exp` and `log`, more accurate than those, may differ by one unit in the last place.
"""

from __future__ import annotations

import decimal
import functools
import math
import struct
from collections.abc import Callable
from decimal import Decimal

from adjoint.compiler.llvm.vecmath import exponential, logarithm, trigonometric
from adjoint.compiler.llvm.vecmath.rare import rarely
from adjoint.compiler.llvm.vecmath.remainder import Angle
from adjoint.compiler.llvm.vecmath.scalar import FLOAT64, Scalar, copysign, fma, magnitude, select

_INDEX = 7  # bits of the index into a table
_ROWS = 1 << _INDEX
_BELOW = FLOAT64.fraction - _INDEX  # bits of the fraction below the index
_exact = decimal.Context(prec=60)


def _word(number: float | Decimal) -> int:
    return logarithm.word_of(float(number), FLOAT64)


def _real(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word))[0])


def _row(symbol: str, words: Callable[[], list[int]], index: Scalar, width: int) -> list[Scalar]:
    """A row of a constant table of words."""
    code = index.code
    if symbol not in code.needed:
        listed = ", ".join(f"i64 {word}" for word in words())
        code.needs(symbol, f"{symbol} = internal constant [{_ROWS * width} x i64] [{listed}]")
    first = index * width
    places = [code.let(f"getelementptr i64, ptr {symbol}, i64 {(first + i).name}") for i in range(width)]
    return [index.let(f"load i64, ptr {place}, align 8") for place in places]


# -- exp: x = k·ln 2/128 + r, so that eˣ = 2^(k/128)·eʳ -----------------------------------------------------------

_UNDERFLOW = -746.0  # eˣ is 0 up to here
_NORMAL = 708.0  # the power of two is a normal number up to this magnitude of x


@functools.cache
def _powers() -> list[int]:
    """Rows of 2^(i/128) = p·(1 + tail): the word of p, less i/128 in the units of its exponent, and the word of the tail."""
    words = []
    root, power = _exact.power(Decimal(2), Decimal(1) / _ROWS), Decimal(1)
    for i in range(_ROWS):
        power = _exact.multiply(power, root) if i else power
        p = Decimal(float(power))
        words += [_word(p) - (i << _BELOW), _word(_exact.divide(_exact.subtract(power, p), p))]
    return words


@functools.cache
def _step() -> tuple[float, float, float]:
    """128/ln 2, and ln 2/128 in two parts."""
    step = _exact.divide(_exact.ln(Decimal(2)), Decimal(_ROWS))
    return float(_exact.divide(Decimal(1), step)), float(step), float(_exact.subtract(step, Decimal(float(step))))


def exp(x: Scalar) -> Scalar:
    """eˣ = 2^(k/128)·eʳ: the power from the table and the exponent of a word, eʳ from a short polynomial."""
    inverse, high, low = _step()
    shifted = fma(x, inverse, FLOAT64.shifter)
    k, word = shifted - FLOAT64.shifter, shifted.as_word()  # k is in the low bits of the word
    power, tail = _row("@adjoint.powers", _powers, word & (_ROWS - 1), 2)
    scale = (power + (word << _BELOW)).as_real(FLOAT64)
    r = fma(k, -low, fma(k, -high, x))  # |r| ≤ ln 2/256; the inner product cancels exactly
    square = r * r
    rest = fma(square, fma(r, 1 / 6, 0.5), r + tail.as_real(FLOAT64))
    rest = fma(square * square, fma(r, 1 / 120, 1 / 24), rest)  # eʳ − 1: the sixth power is below 2⁻⁶⁰
    value = select(x <= _UNDERFLOW, 0.0, fma(scale, rest, scale))
    at_edge = (x > _UNDERFLOW).let(f"and i1 {(x > _UNDERFLOW).name}, {(magnitude(x) > _NORMAL).name}", "i1")
    return rarely(at_edge, value, "exp", exponential.exp, x)


# -- log: x = 2ᵏ·z and z = c·(1 + r), so that log x = k·ln 2 + log c + log(1 + r) ---------------------------------

_LEAST = _word(0.6875)  # of z, which is less than twice that; 1 is where an interval of the table begins
_TAYLOR = tuple((-1.0) ** (k + 1) / k for k in range(2, 9))  # of log(1 + r) from r² on


def _in_two(number: Decimal) -> tuple[float, float]:
    """A number as a multiple of 2⁻⁴², so that sums of such multiples below 2¹⁰ are exact, and the rest."""
    short = round(float(number) * 2.0**42) / 2.0**42
    return short, float(_exact.subtract(number, Decimal(short)))


@functools.cache
def _centres() -> list[int]:
    """Rows of 1/c, log c in two parts, and 0.

    The intervals on both sides of 1 have c = 1: near 1 the logarithm is r and a small correction. Elsewhere 1/c has few bits, so
    that r is exact but for its last one.
    """
    words = []
    one = (_word(1.0) - _LEAST) >> _BELOW
    for i in range(_ROWS):
        middle = _real(_LEAST + (i << _BELOW) + (1 << (_BELOW - 1)))
        inverse = 1.0 if i in (one - 1, one) else round(512 / middle) / 512
        words += [_word(inverse), *map(_word, _in_two(-_exact.ln(Decimal(inverse)))), 0]
    return words


@functools.cache
def _ln2() -> tuple[float, float]:
    return _in_two(_exact.ln(Decimal(2)))


def log(x: Scalar) -> Scalar:
    word = x.as_word()
    moved = word + -_LEAST
    index = (moved >> _BELOW) & (_ROWS - 1)
    inverse, c_high, c_low = (entry.as_real(FLOAT64) for entry in _row("@adjoint.centres", _centres, index, 4)[:3])
    power = moved.let(f"ashr i64 {moved.name}, {FLOAT64.fraction}")
    k = power.to("sitofp", FLOAT64.real)
    z = word.let(f"sub i64 {word.name}, {(power << FLOAT64.fraction).name}").as_real(FLOAT64)
    r = fma(z, inverse, -1.0)  # |r| < 1/128
    high, low = _ln2()
    whole = fma(k, high, c_high)  # exact
    total = whole + r
    error = (whole - total) + r  # exact, since |whole| > |r| or whole is 0
    square = r * r
    a, b, c, d, e, f, g = _TAYLOR
    fourth = fma(square, g, fma(r, f, e))
    tail = fma(square * square, fourth, fma(square, fma(r, d, c), fma(r, b, a)))
    value = total + fma(square, tail, error + fma(k, low, c_low))
    least, greatest = _word(FLOAT64.least_normal), _word(math.inf)
    unusual = word.let(f"icmp uge i64 {(word + -least).name}, {greatest - least}", "i1")
    return rarely(unusual, value, "log", logarithm.log, x)


# -- sin and cos: up to π/4 the angle is its own remainder --------------------------------------------------------


def _near_zero(near: Callable[[Scalar, Angle], Scalar], function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """A function of angles which does not reduce small ones, by a branch."""

    def branching(x: Scalar) -> Scalar:
        a, code = magnitude(x), x.code
        code.branch((a <= math.pi / 4).name, "small", "large")
        code.label("small")
        small = near(x, Angle(a.constant(0.0), a, a.constant(0.0)))
        code.jump("any")
        code.label("large")
        large = function(x)
        before = code.block
        code.enter("any")
        return Scalar(code, code.phi(x.kind, ((small.name, "small"), (large.name, before))), x.kind)

    return branching


def _sine(x: Scalar, angle: Angle) -> Scalar:
    high, low = trigonometric.sine(angle)
    return copysign(high + low, x)


def _cosine(x: Scalar, angle: Angle) -> Scalar:
    high, low = trigonometric.cosine(angle)
    return high + low


sin = _near_zero(_sine, trigonometric.sin)
cos = _near_zero(_cosine, trigonometric.cos)
