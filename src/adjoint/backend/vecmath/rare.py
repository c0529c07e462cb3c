"""A slow path for few arguments, in a loop that is vectorised all the same.

LLVM does not vectorise a loop that calls a function of which it knows no vector form; and a pure function behind a branch it
calls for all, branch or not. Only if the function has a *masked* vector form does it keep to the branch. So a rare function
claims one, for a width that no machine has. The vectoriser then widens everything else, and leaves one branch and one call for
each lane. It costs about 0.2 ns an element where the path is not taken.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.backend.vecmath.scalar import Body, Scalar

_LANES = 64  # no vector register holds as many; the widest have 32 lanes of 16 bits

#: Called, not inlined. To optimise what hardly ever runs would take longer than all the rest of a usual kernel: optnone.
ATTRIBUTES = "noinline optnone nounwind willreturn memory(none) cold"

# Nothing calls the vector forms, so they are declared, and kept, but never defined.
_CLAIMED = f"""\
declare <{_LANES} x double> @adjoint.rare.vector.f64(<{_LANES} x double>, <{_LANES} x i1>)
declare <{_LANES} x float> @adjoint.rare.vector.f32(<{_LANES} x float>, <{_LANES} x i1>)
@llvm.compiler.used = appending global [2 x ptr] [{", ".join(f"ptr @adjoint.rare.vector.{suffix}" for suffix in ("f64", "f32"))}],
    section "llvm.metadata"
"""


def rarely(condition: Scalar, usual: Scalar, name: str, slow: Callable[[Scalar], Scalar], x: Scalar) -> Scalar:
    """`usual`, but slow(x) where the condition holds; `name` names the function that is made of `slow`."""
    code = usual.code
    symbol = _defined(code, name, slow, x.format.suffix, x.kind)
    before = code.block
    code.do(f"br i1 {condition.name}, label %rare, label %usual")
    code.label("rare")
    value = x.let(f"call {x.kind} {symbol}({x.kind} {x.name})")
    code.do("br label %usual")
    code.label("usual")
    return usual.let(f"phi {usual.kind} [ {usual.name}, %{before} ], [ {value.name}, %rare ]")


def _defined(code: Body, name: str, slow: Callable[[Scalar], Scalar], suffix: str, kind: str) -> str:
    symbol = f"@adjoint.rare.{name}.{suffix}"
    form = f'"vector-function-abi-variant"="_ZGV_LLVM_M{_LANES}v_{symbol[1:]}(adjoint.rare.vector.{suffix})"'
    code.needs("rare vectors", _CLAIMED)
    code.define(symbol, kind, 1, slow, f"{form} {ATTRIBUTES}")
    return symbol
