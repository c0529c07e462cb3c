"""Fused multiply-add for targets that have none (WebAssembly, x86-64 before v3), where LLVM would call the C library."""

from __future__ import annotations

import re

from adjoint.compiler.llvm.vecmath.pair import sum_of
from adjoint.compiler.llvm.vecmath.scalar import DOUBLE, FLOAT, WHOLE, FunctionCode, Scalar

_OF_WHOLE = re.compile(rf"@llvm\.fma\.f64(\(.*\)){re.escape(WHOLE)}$", re.MULTILINE)


def soften(text: str) -> str:
    """A program with its fused multiply-adds expanded.

    The product is exact, and the sum rounded once except in rare ties: errors stay below 2 units in the last place. If one factor
    is a whole number of few bits, its products with the halves of the other are exact, which is all that is needed.
    """
    if _OF_WHOLE.search(text):
        body = FunctionCode()
        body.function("@adjoint.fma.whole", DOUBLE, 3, _of_whole, "alwaysinline nounwind")
        text = "\n".join([*body.needed.values(), _OF_WHOLE.sub(r"@adjoint.fma.whole\1", text)])
    for kind, suffix, function in ((DOUBLE, "f64", _double), (FLOAT, "f32", _single)):
        intrinsic = f"@llvm.fma.{suffix}("
        if intrinsic not in text:
            continue
        body = FunctionCode()
        body.function(f"@adjoint.fma.{suffix}", kind, 3, function, "alwaysinline nounwind")
        kept = [line for line in text.splitlines() if not (line.startswith("declare") and intrinsic in line)]
        text = "\n".join([*body.needed.values(), *kept]).replace(intrinsic, f"@adjoint.fma.{suffix}(")
    return text


def _single(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """The product of two floats is exact in a double."""
    return (a.widened() * b.widened() + c.widened()).narrowed()


def _double(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """The error of the product from halves of the factors (Veltkamp 1968, Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    high = a * b
    low = a_low * b_low - (((high - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total, error = sum_of(high, c)
    return total + (error + low)


def _of_whole(n: Scalar, number: Scalar, c: Scalar) -> Scalar:
    high, low = _halves(number)
    return (n * high + c) + n * low


def _halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """x as a sum of two numbers of 26 bits; by its bits, so that nothing overflows."""
    high = (x.as_word() & ~((1 << 27) - 1) % 2**64).as_real(x.format)
    return high, x - high
