"""Fused multiply-add for targets that have none (WebAssembly, x86-64 before v3), where LLVM would call the C library."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from adjoint.backend.vecmath.pair import sum_of
from adjoint.backend.vecmath.scalar import DOUBLE, FLOAT, Scalar


def soften(module: Any) -> None:
    """Define the fused multiply-adds that the module uses. Call it when all functions are in.

    The product is exact, and the sum rounded once but for rare ties: the functions stay below their 2 units in the last place.
    """
    for kind, name, body in ((DOUBLE, "llvm.fma.f64", _double), (FLOAT, "llvm.fma.f32", _single)):
        function = module.globals.get(name)
        if function is None or function.type.pointee.return_type != kind:
            continue
        function.name = f"adjoint.fma.{name[-3:]}"  # no longer the intrinsic; all calls refer to the object
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(body(*(Scalar(builder, argument) for argument in function.args)).value)


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


def _halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """x as a sum of two numbers of 26 bits; by its bits, so that nothing overflows."""
    high = (x.as_word() & ~((1 << 27) - 1) % 2**64).as_real(x.format)
    return high, x - high
