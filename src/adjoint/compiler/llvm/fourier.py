"""Fourier transforms: a call of NumPy's loop over pocketfft; see `lower.pocketfft`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.kernel import PARTS, View, size_of
from ..lower.pocketfft import symbols
from ..lower.step import Fourier
from .instruction import REGISTER, Code, literal

if TYPE_CHECKING:
    from .program import StepRoutine


def emit(routine: StepRoutine, step: Fourier) -> None:
    code, (function, data) = Code(), symbols(step.routine, step.operand.dtype.char)
    rows, lengths = size_of(step.out.shape[:-1]), [v.shape[-1] for v in (step.operand, step.out)]
    across, down = [v.dtype.itemsize for v in (step.operand, step.out)], [_row(v) for v in (step.operand, step.out)]
    kind = PARTS.get(step.operand.dtype, step.operand.dtype)
    factor = code.let(f"alloca {REGISTER[kind]}")
    code.store(literal(step.factor, kind), factor, kind)
    arguments = [
        _array(code, "ptr", ["%p0", factor, "%p1"]),
        _array(code, "i64", [rows, *lengths]),
        _array(code, "i64", [down[0], 0, down[1], *across]),
    ]
    # What the function gets as its last argument is declared as a function, too: only its address is used.
    routine.module.declared.add(f"declare void @{function}(ptr, ptr, ptr, ptr)")
    if data:
        routine.module.declared.add(f"declare void @{data}()")
    code.do(f"call void @{function}({', '.join(f'ptr {a}' for a in arguments)}, ptr {f'@{data}' if data else 'null'})")
    code.do("ret void")
    name = routine.module.function("fourier", code.define("define internal void @NAME(ptr %p0, ptr %p1) nounwind noinline"))
    routine.module.declared |= code.declared
    routine.code.do(f"call void {name}(ptr {routine.at(step.operand)}, ptr {routine.at(step.out)})")


def _row(view: View) -> int:
    return view.shape[-1] * view.dtype.itemsize


def _array(code: Code, kind: str, values: list[str] | list[int]) -> str:
    """Some words in memory."""
    array = code.let(f"alloca [{len(values)} x {kind}]")
    for i, value in enumerate(values):
        place = code.let(f"getelementptr {kind}, ptr {array}, i64 {i}")
        code.do(f"store {kind} {value}, ptr {place}")
    return array
