"""Parallel groups: one function that runs the member with a given number.

    define internal void @parallel_group(ptr %table, i64 %number)

The table holds the addresses of the buffers of the members, then `env`, then a word for the status of each member. Whether the
members run on several threads is decided at run time, by how long they took the last time: see `runtime.threads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.kernel import Buffer
from ..lower.polling import can_stop
from ..lower.schedule import work
from ..lower.step import Lowered, ParallelGroup
from .instruction import Code

if TYPE_CHECKING:
    from .program import StepRoutine

_ADDITIONS = 3  # in a nanosecond


def emit(routine: StepRoutine, step: ParallelGroup) -> None:
    module, code = routine.module, routine.code
    scratch = [view.buffer for view in step.scratch]
    used = list(dict.fromkeys([*(b for member in step.members for b in _buffers(member)), *scratch]))
    statuses = len(used) + 1
    table = routine.table([*(routine.pointers[b] for b in used), "%env"], more=len(step.members))
    name = module.name("parallel_group")
    longest = sorted(range(len(step.members)), key=lambda i: -_work(step.members[i]))  # starts first
    cases, lines = [], Code()
    for number, i in enumerate(longest):
        member = step.members[i]
        lines.label(f"member{number}")
        places = [used.index(b) for b in _buffers(member)] + [len(used), used.index(scratch[i])]
        pointers = [lines.let(f"load ptr, ptr {lines.slot('%table', place)}") for place in places]
        body = routine.body(member)
        status = lines.let(f"call i32 {body}({', '.join(f'ptr {p}' for p in pointers)})")
        lines.do(f"store i32 {status}, ptr {lines.slot('%table', statuses + i)}")
        lines.do("ret void")
        cases.append(f"i64 {number}, label %member{number}")
    head = f"define internal void {name}(ptr %table, i64 %number) nounwind noinline {{"
    switch = f"  switch i64 %number, label %member0 [ {' '.join(cases[1:])} ]"
    works = sorted(map(_work, step.members))
    module.definitions.append(f"{name}.gain = internal global i64 {sum(works[:-1]) // _ADDITIONS}")
    module.definitions.append("\n".join([head, switch, *lines.lines, "}"]))
    module.declared.add("declare i32 @adjoint_parallel_group(ptr, ptr, i64, ptr) nounwind")
    arguments = f"ptr {name}, ptr {table}, i64 {len(step.members)}, ptr {name}.gain"
    routine.check(code.let(f"call i32 @adjoint_parallel_group({arguments})"))
    for i, member in enumerate(step.members):
        if can_stop(member):
            routine.check(code.let(f"load i32, ptr {code.slot(table, statuses + i)}"))


def _buffers(member: Lowered) -> list[Buffer]:
    """The buffers whose addresses a member gets, in order."""
    return [*member.inputs, *(view.buffer for view in member.outputs)]


def _work(member: Lowered) -> int:
    return sum(map(work, member.steps))
