"""The steps of a lowered program as functions, in C or JavaScript.

Each kernel is a function of its buffers, each body of a loop or branch a function of its inputs and outputs. Intermediate arrays
are at fixed places of the work array: one array per dtype, of a size that is known here. Nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..compiler.llvm.lapack import FAILURES
from ..compiler.llvm.program import OUT_OF_BOUNDS
from ..compiler.lower.kernel import Buffer, Dtype, Kernel, View, size_of
from ..compiler.lower.memory import pack
from ..compiler.lower.scalar import EVERY
from ..compiler.lower.step import Branch, Lapack, Lowered, Product, RowTiles, Scan, Step, While
from . import routines
from .nest import Nest
from .spelling import IndentedText, Language, Pointer

DTYPES = sorted(EVERY, key=lambda d: (-d.itemsize, d.name))
ERRORS = {
    OUT_OF_BOUNDS: "an index is out of bounds",
    FAILURES["singular"]: "a matrix is singular",
    FAILURES["indefinite"]: "a matrix is not positive definite",
    FAILURES["eigenvalues"]: "the eigenvalues did not converge",
    FAILURES["singular values"]: "the singular values did not converge",
}
_LINE = 64  # bytes of a cache line


class Work:
    """How many elements of each dtype the intermediate arrays of all programs need."""

    def __init__(self) -> None:
        self.sizes: dict[Dtype, int] = dict.fromkeys(DTYPES, 0)

    def need(self, dtype: Dtype, size: int) -> None:
        self.sizes[dtype] = max(self.sizes[dtype], size)


class StepWriter:
    """Writes one program: the exported function, or the body of a loop or branch."""

    def __init__(self, spelling: Language, lowered: Lowered, work: Work, taken: dict[Dtype, int] | None = None) -> None:
        self.spelling, self.lowered, self.work = spelling, lowered, work
        self.text = IndentedText()
        self.places: dict[Buffer, Pointer] = {}
        self.taken = dict(taken or dict.fromkeys(DTYPES, 0))  # elements of the work array in use by enclosing programs
        self.names = 0
        self._place_locals()

    def _place_locals(self) -> None:
        spelling = self.spelling
        matrices = [step for step in self.lowered.steps if isinstance(step, Lapack) and not routines.needs_work(spelling, step)]
        unused = {v.buffer for step in matrices for v in step.work}
        for dtype in DTYPES:
            wanted = {b for b in self.lowered.buffers if b.dtype == dtype and b not in unused}
            offsets, size = pack(self.lowered, wanted.__contains__)
            for buffer, offset in offsets.items():
                self.places[buffer] = self.spelling.work(dtype, self.taken[dtype] + offset // dtype.itemsize)
            self.taken[dtype] += size // dtype.itemsize
        for step in self.lowered.steps:
            if isinstance(step, RowTiles):
                for buffer, row in step.own.items():
                    self.places[buffer] = self.reserve(buffer.dtype, step.tile * row)
        for buffer in self.lowered.buffers:
            if buffer.kind == "constant":
                self.places[buffer] = self.spelling.constant(np.asarray(buffer.data))
        for dtype, size in self.taken.items():
            self.work.need(dtype, size)

    def reserve(self, dtype: Dtype, size: int) -> Pointer:
        """Elements of the work array for the whole program."""
        place = self.spelling.work(dtype, self.taken[dtype])
        line = _LINE // dtype.itemsize
        self.taken[dtype] += -(-size // line) * line
        self.work.need(dtype, self.taken[dtype])
        return place

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def at(self, view: View) -> Pointer:
        return self.places[view.buffer].moved(view.offset)

    # -- programs --

    def define_body(self) -> str:
        """The name of a function of inputs and outputs."""
        low, parameters = self.lowered, []
        for i, buffer in enumerate([*low.inputs, *(v.buffer for v in low.outputs)]):
            text, self.places[buffer] = self.spelling.parameter(f"p{i}", buffer.dtype, i < len(low.inputs))
            parameters.append(text)
        self.run()
        return self.spelling.function("body", parameters, self.text.lines, self.lowered.can_fail, uses_work=True)

    def run(self) -> None:
        """All steps, and the return of the status if one of them can fail."""
        self.run_steps()
        self.check()
        if self.lowered.can_fail:
            self.text.add("return 0;")

    def run_steps(self) -> None:
        for step in self.lowered.steps:
            self.step(step)

    def check(self) -> None:
        """Leave with a status if something has failed; the first failure counts."""
        failures = [(view, FAILURES[how]) for view, how in self.lowered.failures]
        for view, status in [*failures, *((view, OUT_OF_BOUNDS) for view in self.lowered.out_of_bounds)]:
            self.text.open(f"if ({self.spelling.element(self.at(view), '0', view.dtype)})")
            self.text.add(self.leave(status))
            self.text.close()

    def leave(self, status: str | int) -> str:
        """The statement that ends the function with a status."""
        return f"return {status};"

    def step(self, step: Step) -> None:
        line = next(iter(step.lines), None)
        if line:
            self.text.add(f"/* {line.replace('*/', '* /')}{', ...' * (len(step.lines) > 1)} */")
        if isinstance(step, Kernel):
            nest = Nest(self.spelling, step, places=self.places)
            self.call_kernel(nest.define(), nest)
        elif isinstance(step, RowTiles):
            self.row_tiles(step)
        elif isinstance(step, Product):
            self.product(step)
        elif isinstance(step, Lapack):
            self.matrix(step)
        elif isinstance(step, Scan):
            self.scan(step)
        elif isinstance(step, While):
            self.while_loop(step)
        elif isinstance(step, Branch):
            self.branch(step)
        else:
            raise AssertionError(f"{type(step).__name__} is refused by `lowering`")

    def call(self, name: str, places: Sequence[Pointer]) -> None:
        self.text.add(f"{name}({', '.join(map(self.spelling.argument, places))});")

    def call_kernel(self, name: str, nest: Nest, more: Sequence[str] = ()) -> None:
        given = [self.spelling.buffer(self.places[b]) for b in nest.buffers]
        self.text.add(f"{name}({', '.join([*given, *more])});")

    def call_body(self, name: str, body: Lowered, places: Sequence[Pointer]) -> None:
        call = f"{name}({', '.join([*map(self.spelling.buffer, places), *self.spelling.work_argument])})"
        if not body.can_fail:
            self.text.add(f"{call};")
            return
        status = self.fresh("status")
        self.text.add(self.spelling.let(status, np.dtype(np.int32), call))
        self.text.open(f"if ({status} {self.spelling.unequal} 0)")
        self.text.add(self.leave(status))
        self.text.close()

    def body(self, lowered: Lowered) -> str:
        return StepWriter(self.spelling, lowered, self.work, self.taken).define_body()

    # -- kernels in row tiles --

    def row_tiles(self, step: RowTiles) -> None:
        text, spelling = self.text, self.spelling
        nests = [Nest(spelling, kernel, step, places=self.places) for kernel in step.kernels]
        names = [nest.define() for nest in nests]
        for out, how in step.totals.items():
            self.each(
                out.size,
                lambda i, out=out, how=how: text.add(  # type: ignore[misc]
                    f"{spelling.target(self.places[out], i)} = {spelling.start_of(how, out.dtype)};"
                ),
            )
        start, stop = self.fresh("i"), self.fresh("n")
        text.open(spelling.loop(start, "0", str(step.length), step.tile))
        text.add(spelling.index(stop, f"{start} + {step.tile} < {step.length} ? {start} + {step.tile} : {step.length}"))
        for name, nest in zip(names, nests, strict=True):
            self.call_kernel(name, nest, [start, stop])
        text.close()

    def each(self, count: int, body: Callable[[str], None]) -> None:
        """A loop, unless there is one iteration."""
        if count == 1:
            body("0")
            return
        index = self.fresh("i")
        self.text.open(self.spelling.loop(index, "0", str(count)))
        body(index)
        self.text.close()

    # -- matrices --

    def product(self, step: Product) -> None:
        views = (step.left, step.right, step.out)
        if 0 in step.out.shape:
            return
        name = routines.product(self.spelling, step)
        self.for_stack(step.out.shape[:-2], views, lambda places: self.call(name, places))

    def matrix(self, step: Lapack) -> None:
        failed = step.outs[-1]
        stack, views, work = routines.views_of(self.spelling, step)
        name, tells = routines.matrix(self.spelling, step)
        flag = self.spelling.target(self.at(failed), "0")
        self.text.add(f"{flag} = {self.spelling.literal(False, failed.dtype)};")

        def one(places: list[Pointer]) -> None:
            places = [*places, *map(self.at, work)]
            if not tells:
                self.call(name, places)
                return
            self.text.open(f"if ({name}({', '.join(map(self.spelling.argument, places))}) {self.spelling.unequal} 0)")
            self.text.add(f"{flag} = {self.spelling.literal(True, failed.dtype)};")
            self.text.close()

        self.for_stack(stack, views, one)

    def for_stack(self, stack: tuple[int, ...], views: Sequence[View], body: Callable[[list[Pointer]], None]) -> None:
        """The body for each matrix of a stack."""
        indices = [self.fresh("i") for _ in stack]
        for index, length in zip(indices, stack, strict=True):
            self.text.open(self.spelling.loop(index, "0", str(length)))
        places = []
        for view in views:
            place = self.at(view)
            for index, stride in zip(indices, view.strides, strict=False):
                if stride:
                    place = place.moved(f"{index} * {stride}")
            places.append(place)
        body(places)
        for _ in stack:
            self.text.close()

    # -- loops and branches --

    def scan(self, step: Scan) -> None:
        """Double-buffered carries: iterations alternate between two buffers, so that the last one writes to the final one."""
        finals, begin, spare = ([self.at(v) for v in views] for views in (step.finals, step.carries, step.spare))
        if not step.length:
            for source, target, view in zip(begin, finals, step.finals, strict=True):
                self.spelling.copy(self.text, source, target, view.buffer.size, view.dtype)
            return
        name = self.body(step.body)
        targets = (finals, spare) if step.length % 2 else (spare, finals)
        self.text.open("")
        carries = _Carries(self, step.finals, begin, *targets)
        index = self.fresh("i")
        self.text.open(self.spelling.loop(index, "0", str(step.length)))
        i = f"({step.length - 1} - {index})" if step.reverse else index
        rows, stacks = ([self.row(v, i) for v in views] for views in (step.rows, step.stacks))
        consts = [self.at(v) for v in step.consts]
        self.call_body(name, step.body, [*consts, *carries.sources, *rows, *carries.targets, *stacks])
        carries.swap()
        self.text.close()
        self.text.close()

    def row(self, view: View, i: str) -> Pointer:
        size = view.buffer.size if not view.shape[0] else max(1, size_of(view.shape[1:]))
        return self.at(view).moved(i if size == 1 else f"{i} * {size}")

    def while_loop(self, step: While) -> None:
        test, body = self.body(step.test), self.body(step.body)
        spare = [self.at(v) for v in step.spare]
        half = len(spare) // 2
        truth = self.reserve(np.dtype(bool), 1)
        self.text.open("")
        carries = _Carries(self, step.finals, [self.at(v) for v in step.carries], spare[:half], spare[half:])
        self.text.open("for (;;)")
        self.call_body(test, step.test, [*(self.at(v) for v in step.test_consts), *carries.sources, truth])
        self.text.open(f"if (!{self.spelling.element(truth, '0', np.dtype(bool))})")
        self.text.add("break;")
        self.text.close()
        consts = [self.at(v) for v in step.body_consts]
        self.call_body(body, step.body, [*consts, *carries.sources, *carries.targets])
        carries.swap()
        self.text.close()
        for view, carry in zip(step.finals, carries.sources, strict=True):
            self.spelling.copy(self.text, carry, self.at(view), view.buffer.size, view.dtype)
        self.text.close()

    def branch(self, step: Branch) -> None:
        names = [self.body(body) for body in (step.true, step.false)]
        places = [self.at(v) for v in (*step.operands, *step.outs)]
        for i, (name, body) in enumerate(zip(names, (step.true, step.false), strict=True)):
            test = f"if ({self.spelling.element(self.at(step.truth), '0', step.truth.dtype)})"
            self.text.open(test if i == 0 else "else")
            self.call_body(name, body, places)
            self.text.close()


class _Carries:
    """Variables for the places of a loop's carries: what an iteration reads, what it writes, and what the next one writes."""

    def __init__(
        self,
        writer: StepWriter,
        views: Sequence[View],
        begin: Sequence[Pointer],
        first: Sequence[Pointer],
        second: Sequence[Pointer],
    ) -> None:
        self.writer, self.dtypes = writer, [view.dtype for view in views]
        self.sources, self.targets, self.others = (
            [self.define(letter, place, view.dtype, letter == "from") for place, view in zip(places, views, strict=True)]
            for letter, places in (("from", begin), ("to", first), ("next", second))
        )

    def define(self, letter: str, place: Pointer, dtype: Dtype, constant: bool) -> Pointer:
        text, made = self.writer.spelling.pointer(self.writer.fresh(letter), place, dtype, constant)
        self.writer.text.add(text)
        return made

    def swap(self) -> None:
        assign, add = self.writer.spelling.assign, self.writer.text.add
        for source, target, other, dtype in zip(self.sources, self.targets, self.others, self.dtypes, strict=True):
            done = self.define("done", target, dtype, constant=False)
            for variable, place in ((source, done), (target, other), (other, done)):
                add(assign(variable, place))
