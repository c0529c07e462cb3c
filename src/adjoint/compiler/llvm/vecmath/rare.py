"""A slow path for few arguments, in a loop that is still vectorized.

LLVM does not vectorize a loop that calls a function without a vector form; and it calls a pure function behind a branch for all
lanes. Only if the function has a *masked* vector form does it keep the branch. So a rare function claims one, for a number of
lanes that is not a power of two: the vectorizer tries powers of two only, on every machine, so it never calls this form. It
widens everything else, and leaves one branch and one call per lane: 0.2 to 0.9 ns per element where the path is not taken. For
the usual numbers of lanes, `rare_vectors` adds forms with one branch for them all.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.llvm.vecmath.scalar import Scalar

_LANES = 3  # any power of two may be tried: 64, where bytes are stored

#: Called, not inlined. Optimising this rarely run code would take longer than the rest of a typical kernel: optnone.
ATTRIBUTES = "noinline optnone nounwind willreturn memory(none) cold"


def rarely(condition: Scalar, usual: Scalar, name: str, slow: Callable[..., Scalar], *args: Scalar) -> Scalar:
    """`usual`, but slow(*args) where the condition holds; `name` names the function that is made of `slow`."""
    code, kind = usual.code, usual.kind
    symbol = f"@adjoint.rare.{name}.{usual.format.suffix}"
    form = f"adjoint.rare.vector.{usual.format.suffix}.{len(args)}"
    variant = f'"vector-function-abi-variant"="_ZGV_LLVM_M{_LANES}{"v" * len(args)}_{symbol[1:]}({form})"'
    code.needs("rare vectors", _claimed())
    code.function(symbol, kind, len(args), slow, f"{variant} {ATTRIBUTES}")
    before = code.block
    code.branch(condition.name, "rare", "usual")
    code.label("rare")
    value = usual.let(f"call {kind} {symbol}({', '.join(f'{kind} {x.name}' for x in args)})")
    code.enter("usual")
    return Scalar(code, code.phi(kind, ((usual.name, before), (value.name, "rare"))), kind)


def _claimed() -> str:
    """The vector forms: never called, so they are declared, and kept, but not defined. `symbols.check` verifies that."""
    lines, names = [], []
    for suffix, kind in (("f64", "double"), ("f32", "float")):
        for count in (1, 2):
            names.append(f"@adjoint.rare.vector.{suffix}.{count}")
            vector = f"<{_LANES} x {kind}>"
            lines.append(f"declare {vector} {names[-1]}({', '.join([*[vector] * count, f'<{_LANES} x i1>'])})")
    kept = ", ".join(f"ptr {name}" for name in names)
    lines.append(f'@llvm.compiler.used = appending global [{len(names)} x ptr] [{kept}], section "llvm.metadata"')
    return "\n".join(lines)
