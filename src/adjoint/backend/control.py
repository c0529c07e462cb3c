"""Loops and branches: each body is a function of its own, which is called with the addresses of what it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..lower.kernel import View
from ..lower.step import Branch, Lowered, Scan, Unwind, While
from . import signals, unwind

if TYPE_CHECKING:
    from .program import Routine


def emit(routine: Routine, step: Scan | While | Unwind | Branch) -> None:
    if isinstance(step, Scan):
        _scan(routine, step)
    elif isinstance(step, While):
        _while_loop(routine, step)
    elif isinstance(step, Unwind):
        _unwind(routine, step)
    else:
        _branch(routine, step)


def _run_body(routine: Routine, name: str, body: Lowered, pointers: Sequence[str], scratch: Sequence[View]) -> None:
    memory = routine.pointers[scratch[0].buffer] if scratch else "null"
    arguments = ", ".join(f"ptr {p}" for p in (*pointers, "%env", memory))
    status = routine.code.let(f"call i32 {name}({arguments})")
    if signals.can_stop(body):
        routine.check(status)


def _scan(routine: Routine, step: Scan) -> None:
    """Turns write their carries alternately to two places, so that the last one writes to the final one."""
    finals = [routine.at(v) for v in step.finals]
    begin = [routine.at(v) for v in step.carries]
    if not step.length:
        for final, start, view in zip(finals, begin, step.finals, strict=True):
            _copy(routine, start, final, view.buffer.nbytes)
        return
    code, turn = routine.code, _Turn(routine)
    consts, rows, stacks = ([routine.at(v) for v in views] for views in (step.consts, step.rows, step.stacks))
    spare = [routine.at(v) for v in step.spare]
    targets = (finals, spare) if step.length % 2 else (spare, finals)
    carries = turn.open(begin, *targets)
    i = turn.index
    if step.reverse:
        i = code.let(f"sub nsw i64 {step.length - 1}, {i}")
    moved = [_row(routine, p, v, i) for p, v in zip((*rows, *stacks), (*step.rows, *step.stacks), strict=True)]
    name = routine.body(step.body)
    inputs = [*consts, *carries, *moved[: len(rows)]]
    _run_body(routine, name, step.body, [*inputs, *turn.targets, *moved[len(rows) :]], step.scratch)
    turn.look_for_signals(signals.turns_between(step, step.body))
    turn.close(step.length)


def _row(routine: Routine, pointer: str, view: View, i: str) -> str:
    """The address of row i."""
    size = view.buffer.nbytes if not view.shape[0] else view.dtype.itemsize * max(1, int(np.prod(view.shape[1:])))
    code = routine.code
    return code.let(f"getelementptr i8, ptr {pointer}, i64 {code.let(f'mul nsw i64 {i}, {size}')}")


def _while_loop(routine: Routine, step: While) -> None:
    """As `scan`, but where the carries end is not known before."""
    code, turn = routine.code, _Turn(routine)
    test_consts, body_consts = ([routine.at(v) for v in views] for views in (step.test_consts, step.body_consts))
    spare = [routine.at(v) for v in step.spare]
    half = len(spare) // 2
    truth = code.let("alloca i8")
    carries = turn.open([routine.at(v) for v in step.carries], spare[:half], spare[half:])
    test = routine.body(step.test)
    _run_body(routine, test, step.test, [*test_consts, *carries, truth], step.scratch)
    goes_on = code.load(truth, np.dtype(bool))
    inside, outside = routine.module.name("turn")[1:], routine.module.name("done")[1:]
    code.do(f"br i1 {goes_on}, label %{inside}, label %{outside}")
    code.label(inside)
    body = routine.body(step.body)
    _run_body(routine, body, step.body, [*body_consts, *carries, *turn.targets], step.scratch)
    turn.look_for_signals(signals.turns_between(step, step.body))
    turn.close()
    code.label(outside)
    for view, carry in zip(step.finals, carries, strict=True):
        _copy(routine, carry, routine.at(view), view.buffer.nbytes)


def _unwind(routine: Routine, step: Unwind) -> None:
    run, pull = (routine.body(body) for body in (step.step, step.pull))
    name = routine.module.name("unwind")
    text, declared = unwind.define(name, step, run, pull)
    routine.module.definitions.append(text)
    routine.module.declared |= declared
    views = (*step.reads(), *step.totals, *step.finals, *step.parts, *step.spare)
    memory = routine.pointers[step.scratch[0].buffer] if step.scratch else "null"
    arguments = ", ".join(f"ptr {p}" for p in (*map(routine.at, views), "%env", memory))
    routine.check(routine.code.let(f"call i32 {name}({arguments})"))


def _branch(routine: Routine, step: Branch) -> None:
    code = routine.code
    yes, no, after = (routine.module.name(what)[1:] for what in ("yes", "no", "after"))
    code.do(f"br i1 {code.load(routine.at(step.truth), step.truth.dtype)}, label %{yes}, label %{no}")
    for label, body in ((yes, step.true), (no, step.false)):
        code.label(label)
        name = routine.body(body)
        pointers = [routine.at(v) for v in (*step.operands, *step.outs)]
        _run_body(routine, name, body, pointers, step.scratch)
        code.do(f"br label %{after}")
    code.label(after)


def _copy(routine: Routine, source: str, target: str, size: int) -> None:
    routine.module.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    routine.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


class _Turn:
    """A loop whose carries are read at one address and written to another, which change places."""

    def __init__(self, routine: Routine) -> None:
        self.routine, self.code = routine, routine.code
        self.labels = [routine.module.name(what)[1:] for what in ("before", "loop", "again", "end")]
        self.index, self.following = self.code.fresh(), self.code.fresh()

    def open(self, begin: Sequence[str], first: Sequence[str], second: Sequence[str]) -> list[str]:
        """Begin the loop; the addresses that a turn reads. It writes to `targets`."""
        before, head, _, _ = self.labels
        code = self.code
        code.do(f"br label %{before}")
        code.label(before)
        code.do(f"br label %{head}")
        code.label(head)
        self.place = len(code.lines)
        self.given = (begin, first, second)
        self.sources, self.targets, self.others = ([code.fresh() for _ in begin] for _ in range(3))
        return self.sources

    def look_for_signals(self, turns: int) -> None:
        """After every so many turns, if that is not 0."""
        if not turns:
            return
        due, after = (self.routine.module.name(what)[1:] for what in ("due", "undue"))
        self.code.do(f"br i1 {signals.is_due(self.code, self.index, turns)}, label %{due}, label %{after}")
        self.code.label(due)
        self.routine.look_for_signals()
        self.code.do(f"br label %{after}")
        self.code.label(after)

    def close(self, length: int | None = None) -> None:
        """Go on for a number of turns, or until the body itself leaves."""
        code = self.code
        before, head, again, end = self.labels
        code.do(f"br label %{again}")
        code.label(again)
        code.do(f"{self.following} = add nuw nsw i64 {self.index}, 1")
        if length is None:
            code.do(f"br label %{head}")
        else:
            code.do(f"br i1 {code.let(f'icmp slt i64 {self.following}, {length}')}, label %{head}, label %{end}")
            code.label(end)
        lines = [f"  {self.index} = phi i64 [ 0, %{before} ], [ {self.following}, %{again} ]"]
        names = (self.sources, self.targets, self.others)
        nexts = (self.targets, self.others, self.targets)
        for starts, here, later in zip(self.given, names, nexts, strict=True):
            for start, name, next_ in zip(starts, here, later, strict=True):
                lines.append(f"  {name} = phi ptr [ {start}, %{before} ], [ {next_}, %{again} ]")
        code.lines[self.place : self.place] = lines
