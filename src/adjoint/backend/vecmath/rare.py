"""A slow path for few arguments, in a loop that is vectorised all the same.

LLVM does not vectorise a loop that calls a function of which it knows no vector form; and a pure function behind a branch it
calls for all, branch or not. Only if the function has a *masked* vector form does it keep to the branch. So a rare function
claims one, for a width that no machine has. The vectoriser then widens everything else, and leaves one branch and one call for
each lane. It costs about 0.2 ns an element where the path is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from adjoint.backend.vecmath.scalar import BOOL, DOUBLE, FLOAT, Scalar

_LANES = 64  # no vector register holds as many; the widest have 32 lanes of 16 bits


def rarely(condition: Scalar, usual: Scalar, name: str, slow: Callable[[Scalar], Scalar], x: Scalar) -> Scalar:
    """`usual`, but slow(x) where the condition holds; `name` names the function that is made of `slow`."""
    builder = usual.builder
    function = _function(builder.module, name, slow, x.value.type)
    start = builder.block
    with builder.if_then(condition.value, likely=False):
        value = builder.call(function, [x.value])
        rare = builder.block
    merged = builder.phi(value.type)
    merged.add_incoming(usual.value, start)
    merged.add_incoming(value, rare)
    return usual.like(merged)


class Attributes(ir.values.FunctionAttributes):  # type: ignore[misc, name-defined]
    """Attributes of LLVM that llvmlite does not list."""

    def add(self, name: str) -> None:
        set.add(self, name)


def outlined(module: Any, name: str, body: Callable[[Scalar], Scalar], kind: Any, *attributes: str) -> Any:
    """A function of the module that is called, not inlined. To optimise what hardly ever runs would take longer than all the rest
    of a usual kernel: optnone."""
    function = ir.Function(module, ir.FunctionType(kind, [kind]), name)
    function.linkage = "internal"
    function.attributes = Attributes(["noinline", "optnone", "nounwind", "willreturn", "memory(none)", "cold", *attributes])
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(body(Scalar(builder, function.args[0])).value)
    return function


def _function(module: Any, name: str, slow: Callable[[Scalar], Scalar], kind: Any) -> Any:
    full = f"adjoint.rare.{name}.{'f64' if kind == DOUBLE else 'f32'}"
    if full in module.globals:
        return module.globals[full]
    form = _claimed(module, kind)
    return outlined(module, full, slow, kind, f'"vector-function-abi-variant"="_ZGV_LLVM_M{_LANES}v_{full}({form})"')


def _claimed(module: Any, kind: Any) -> str:
    """The name of the vector form; nothing calls it, so it is declared, and kept, but never defined."""
    names = {DOUBLE: "adjoint.rare.vector.f64", FLOAT: "adjoint.rare.vector.f32"}
    if names[kind] not in module.globals:
        pointer = ir.PointerType(ir.IntType(8))
        forms = []
        for each, name in names.items():
            vector = ir.VectorType(each, _LANES)
            forms.append(ir.Function(module, ir.FunctionType(vector, [vector, ir.VectorType(BOOL, _LANES)]), name))
        kept = ir.GlobalVariable(module, ir.ArrayType(pointer, len(forms)), "llvm.compiler.used")
        kept.linkage, kept.section = "appending", "llvm.metadata"
        kept.initializer = ir.Constant(kept.value_type, [form.bitcast(pointer) for form in forms])
    return names[kind]
