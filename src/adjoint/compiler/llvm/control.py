"""Loops and branches: each body is a separate function of the addresses that it reads and writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lower import polling
from ..lower.kernel import View
from ..lower.step import Branch, Lowered, Scan, While, WhileVjp
from . import while_vjp
from .builder import phis
from .instruction import MEMORY, is_number

if TYPE_CHECKING:
    from .program import StepRoutine


def emit(routine: StepRoutine, step: Scan | While | WhileVjp | Branch) -> None:
    if isinstance(step, Scan):
        _scan(routine, step)
    elif isinstance(step, While):
        _while_loop(routine, step)
    elif isinstance(step, WhileVjp):
        _while_vjp(routine, step)
    else:
        _branch(routine, step)


def _run_body(routine: StepRoutine, name: str, body: Lowered, pointers: Sequence[str], scratch: Sequence[View]) -> None:
    memory = routine.pointers[scratch[0].buffer] if scratch else "null"
    arguments = ", ".join(f"ptr {p}" for p in (*pointers, "%env", memory))
    status = routine.code.let(f"call i32 {name}({arguments})")
    if polling.can_stop(body):
        routine.check(status)


def _scan(routine: StepRoutine, step: Scan) -> None:
    """Double-buffered carries: iterations alternate between two buffers, so that the last one writes to the final one.

    Those that are written in place start in the final buffer. Numbers are variables, which LLVM keeps in registers.
    """
    finals = [routine.at(v) for v in step.finals]
    begin = [routine.at(v) for v in step.carries]
    if not step.length:
        for final, start, view in zip(finals, begin, step.finals, strict=True):
            _copy(routine, start, final, view.buffer.nbytes)
        return
    numbers = _NumberCarries(routine, step.finals, step.in_place)
    nest = _Nest(step, any(k not in numbers.now for k, at_once in enumerate(step.in_place) if not at_once))
    loop = _CarryLoop(routine, -(-polling.iterations_between(step, step.body) // nest.inner))
    consts, rows, stacks = ([routine.at(v) for v in views] for views in (step.consts, step.rows, step.stacks))
    numbers.start(begin)
    double = [k for k, at_once in enumerate(step.in_place) if not at_once]
    for k, at_once in enumerate(step.in_place):
        if at_once and k not in numbers.now:
            _copy(routine, begin[k], finals[k], step.finals[k].buffer.nbytes)
    spare = dict(zip(double, map(routine.at, step.spare), strict=True))
    moving = [k for k in double if k not in numbers.now]
    ends = [finals[k] for k in moving], [spare[k] for k in moving]
    sources = loop.open([begin[k] for k in moving], *(ends if step.length % 2 else ends[::-1]), step.length // nest.inner)
    carries = _spread(sources, moving, finals)
    with nest.iterations(routine, loop.index, rows) as (i, computed):
        moved = [_row(routine, p, v, i) for p, v in zip((*rows, *stacks), (*step.rows, *step.stacks), strict=True)]
        name = routine.body(step.body)
        inputs = [*consts, *numbers.among(carries, numbers.now), *(computed.get(k, moved[k]) for k in range(len(rows)))]
        targets = numbers.among(_spread(loop.targets, moving, finals), numbers.then)
        _run_body(routine, name, step.body, [*inputs, *targets, *moved[len(rows) :]], step.scratch)
        numbers.go_on()
    loop.close()
    numbers.finish(finals)


class _Nest:
    """A scan as a nest of two loops, in the inner one of which rows of indices grow by constant steps.

        i  1 1 1 2 2 2 3 3 3        outer 3, inner 3; i: step 0, j: step 1
        j  4 5 6 4 5 6 4 5 6

    LLVM then knows how addresses move: an element that the previous iteration has written stays in a register.
    """

    def __init__(self, step: Scan, has_moving_carries: bool) -> None:
        self.step, self.inner = step, 1
        self.steps: dict[int, int] = {}  # by row: by how much it grows
        known = {k: _known_row(view) for k, view in enumerate(step.rows)}
        values = {k: row for k, row in known.items() if row is not None}
        least = max(_LEAST_NEST, 2)
        if has_moving_carries or not values or step.length < least:
            return
        inner = min(map(_even_steps, values.values()))
        if inner < least or step.length % inner:
            return
        blocks = {k: row.reshape(-1, inner) for k, row in values.items()}
        steps = {k: int(block[0, 1] - block[0, 0]) for k, block in blocks.items()}
        if all((np.diff(block, axis=1) == steps[k]).all() for k, block in blocks.items()):
            self.inner, self.steps = inner, steps

    @contextlib.contextmanager
    def iterations(self, routine: StepRoutine, index: str, rows: Sequence[str]) -> Iterator[tuple[str, dict[int, str]]]:
        """The iterations of the inner loop: the number of each, and the addresses of the rows that are computed."""
        code, step = routine.code, self.step
        if step.reverse:
            index = code.let(f"sub nsw i64 {step.length // self.inner - 1}, {index}")
        if not self.steps:
            yield index, {}
            return
        first = code.let(f"mul nsw i64 {index}, {self.inner}")
        starts = {k: code.load(_row(routine, rows[k], step.rows[k], first), step.rows[k].dtype) for k in self.steps}
        computed = {k: code.variable(MEMORY[step.rows[k].dtype]) for k in self.steps}
        with code.loop(str(self.inner)) as k:
            within = code.let(f"sub nsw i64 {self.inner - 1}, {k}") if step.reverse else k
            for row, start in starts.items():
                moved = code.let(f"mul nsw i64 {within}, {self.steps[row]}")
                code.store(code.let(f"add nsw i64 {start}, {moved}"), computed[row], step.rows[row].dtype)
            yield code.let(f"add nsw i64 {first}, {within}"), computed


_LEAST_NEST = 4  # iterations of an inner loop


def _known_row(view: View) -> Any:
    """The numbers of constant rows of indices, else None."""
    if view.buffer.kind != "constant" or len(view.shape) != 1 or view.dtype != np.int64 or view.strides != (1,):
        return None
    return np.asarray(view.buffer.data).reshape(-1)[view.offset : view.offset + view.shape[0]]


def _even_steps(row: Any) -> int:
    """How many numbers at the beginning of a row have equal differences."""
    uneven = np.flatnonzero(np.diff(row) != row[1] - row[0])
    return int(uneven[0]) + 1 if len(uneven) else len(row)


class _NumberCarries:
    """The carries of a loop that are numbers, by their places: `now` has those of an iteration, `then` those of the next.

    One that is written in place is one variable.
    """

    def __init__(self, routine: StepRoutine, views: Sequence[View], in_place: Sequence[bool] = ()) -> None:
        self.code = routine.code
        self.dtypes = {k: view.dtype for k, view in enumerate(views) if is_number(view.buffer)}
        self.now, self.then = ({k: self.code.variable(MEMORY[d]) for k, d in self.dtypes.items()} for _ in range(2))
        self.then |= {k: self.now[k] for k, at_once in enumerate(in_place) if at_once and k in self.now}

    def among(self, addresses: Sequence[str], own: Mapping[int, str]) -> list[str]:
        """Addresses of all carries, with those of the numbers."""
        return [own.get(k, address) for k, address in enumerate(addresses)]

    def start(self, begin: Sequence[str]) -> None:
        self._move(begin, self.now)

    def go_on(self) -> None:
        self._move(self.then, self.now)

    def finish(self, finals: Sequence[str]) -> None:
        self._move(self.now, finals)

    def _move(self, sources: Sequence[str] | Mapping[int, str], targets: Sequence[str] | Mapping[int, str]) -> None:
        for k, dtype in self.dtypes.items():
            self.code.store(self.code.load(sources[k], dtype), targets[k], dtype)


def _spread(addresses: Sequence[str], places: Sequence[int], others: Sequence[str]) -> list[str]:
    """The others, with addresses in some places."""
    found = list(others)
    for k, address in zip(places, addresses, strict=True):
        found[k] = address
    return found


def _row(routine: StepRoutine, pointer: str, view: View, i: str) -> str:
    """The address of row i."""
    size = view.buffer.nbytes if not view.shape[0] else view.dtype.itemsize * max(1, int(np.prod(view.shape[1:])))
    code = routine.code
    return code.let(f"getelementptr i8, ptr {pointer}, i64 {code.let(f'mul nsw i64 {i}, {size}')}")


def _while_loop(routine: StepRoutine, step: While) -> None:
    """As `scan`, but the final buffer is not known in advance."""
    code, loop = routine.code, _CarryLoop(routine, polling.iterations_between(step, step.body))
    test_consts, body_consts = ([routine.at(v) for v in views] for views in (step.test_consts, step.body_consts))
    begin, finals, spare = ([routine.at(v) for v in views] for views in (step.carries, step.finals, step.spare))
    numbers = _NumberCarries(routine, step.finals)
    numbers.start(begin)
    moving = [k for k in range(len(finals)) if k not in numbers.now]
    buffers = begin, spare[: len(finals)], spare[len(finals) :]
    truth = code.variable("i8")
    start, first, second = ([given[k] for k in moving] for given in buffers)
    sources = loop.open(start, first, second)
    carries = numbers.among(_spread(sources, moving, finals), numbers.now)
    test = routine.body(step.test)
    _run_body(routine, test, step.test, [*test_consts, *carries, truth], step.scratch)
    goes_on = code.load(truth, np.dtype(bool))
    code.need(loop.unless_paused(goes_on), loop.end)
    body = routine.body(step.body)
    targets = numbers.among(_spread(loop.targets, moving, finals), numbers.then)
    _run_body(routine, body, step.body, [*body_consts, *carries, *targets], step.scratch)
    numbers.go_on()
    loop.close(goes_on)
    for k, source in zip(moving, sources, strict=True):
        _copy(routine, source, finals[k], step.finals[k].buffer.nbytes)
    numbers.finish(finals)


def _while_vjp(routine: StepRoutine, step: WhileVjp) -> None:
    run, pull = (routine.body(body) for body in (step.step, step.pull))
    name = routine.module.name("while_vjp")
    text, declared = while_vjp.define(name, step, run, pull)
    routine.module.definitions.append(text)
    routine.module.declared |= declared
    views = (*step.reads(), *step.totals, *step.finals, *step.parts, *step.spare)
    memory = routine.pointers[step.scratch[0].buffer] if step.scratch else "null"
    arguments = ", ".join(f"ptr {p}" for p in (*map(routine.at, views), "%env", memory))
    routine.check(routine.code.let(f"call i32 {name}({arguments})"))


def _branch(routine: StepRoutine, step: Branch) -> None:
    code = routine.code
    yes, no, after = map(code.mark, ("yes", "no", "after"))
    code.branch(code.load(routine.at(step.truth), step.truth.dtype), yes, no)
    for label, body in ((yes, step.true), (no, step.false)):
        code.label(label)
        name = routine.body(body)
        pointers = [routine.at(v) for v in (*step.operands, *step.outs)]
        _run_body(routine, name, body, pointers, step.scratch)
        code.jump(after)
    code.label(after)


def _copy(routine: StepRoutine, source: str, target: str, size: int) -> None:
    routine.module.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    routine.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


class _CarryLoop:
    """A loop with double-buffered carries, whose addresses are swapped in each iteration.

    One that polls for signals is two loops: the inner one runs `pause` iterations, the outer one polls. So an iteration costs
    only one more comparison, and LLVM sees the same simple loop.
    """

    def __init__(self, routine: StepRoutine, pause: int) -> None:
        self.routine, self.code, self.pause = routine, routine.code, pause
        labels = ("before", "outer", "loop", "again", "resume", "end")
        self.before, self.outer, self.head, self.again, self.resume, self.end = map(self.code.mark, labels)
        self.index, self.following = self.code.fresh(), self.code.fresh()

    def open(self, begin: Sequence[str], first: Sequence[str], second: Sequence[str], length: int | None = None) -> list[str]:
        """Begin the loop; returns the addresses that an iteration reads. It writes to `targets`."""
        code, self.length = self.code, length
        code.enter(self.before)
        code.enter(self.outer if self.pause else self.head)
        self.given = ["0", *begin, *first, *second]
        if self.pause:
            self.outer_place, self.starts = len(code.lines), [code.fresh() for _ in self.given]
            self.limit = code.let(f"add nuw nsw i64 {self.starts[0]}, {self.pause}")
            if length is not None:
                self.limit = code.smaller(self.limit, str(length))
            code.enter(self.head)
        self.place = len(code.lines)
        self.sources, self.targets, self.others = ([code.fresh() for _ in begin] for _ in range(3))
        return self.sources

    def unless_paused(self, goes_on: str) -> str:
        """Whether the inner loop continues: the condition holds, and it is not time to poll for signals."""
        if not self.pause:
            return goes_on
        return self.code.let(f"and i1 {goes_on}, {self.code.let(f'icmp ne i64 {self.index}, {self.limit}')}")

    def close(self, goes_on: str = "") -> None:
        """Run `length` iterations. If that is not known, the body leaves the inner loop for `end`, and the outer one unless
        `goes_on`."""
        code = self.code
        here = [self.index, *self.sources, *self.targets, *self.others]
        later = [self.following, *self.targets, *self.others, *self.targets]
        code.enter(self.again)
        code.do(f"{self.following} = add nuw nsw i64 {self.index}, 1")
        if self.length is None:
            code.jump(self.head)
            code.label(self.end)
        else:
            stop = self.limit if self.pause else str(self.length)
            code.branch(code.let(f"icmp slt i64 {self.following}, {stop}"), self.head, self.end)
            code.label(self.end)
            goes_on = code.let(f"icmp slt i64 {self.following}, {self.length}")
        if self.pause:
            self.look_for_signals(goes_on)
            self.merge(self.place, here, self.outer, self.starts, self.again, later)
            left = here if self.length is None else later
            self.merge(self.outer_place, self.starts, self.before, self.given, self.resume, left)
        else:
            self.merge(self.place, here, self.before, self.given, self.again, later)

    def look_for_signals(self, goes_on: str) -> None:
        """Between two inner loops."""
        code, done = self.code, self.code.mark("done")
        code.need(goes_on, done)
        self.routine.look_for_signals()
        code.enter(self.resume)
        code.jump(self.outer)
        code.label(done)

    def merge(
        self, place: int, names: Sequence[str], before: str, starts: Sequence[str], again: str, nexts: Sequence[str]
    ) -> None:
        """Write the head of a loop: phi nodes for the index and the addresses of an iteration."""
        kinds = ["i64", *["ptr"] * (len(names) - 1)]
        self.code.lines[place:place] = phis(list(zip(names, kinds, starts, nexts, strict=True)), before, again)
