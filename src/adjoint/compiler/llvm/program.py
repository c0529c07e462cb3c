"""The steps of a program as one LLVM module.

    define i32 @program(ptr %table, ptr %env)

`table` holds the addresses of the inputs and outputs of one call; `env` is memory of the compiled program: the arena for
intermediate arrays (used by one call at a time), the addresses of constants, and the objects that foreign calls need. The result
is 0, or an error code. The bodies of loops and branches are functions of the same kind, which take their addresses as separate
arguments.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ..lower import polling
from ..lower.kernel import Buffer, Kernel, Reduce, View, size_of
from ..lower.schedule import arrange, work
from ..lower.step import (
    Branch,
    Cumulative,
    Foreign,
    Fourier,
    Lapack,
    Lowered,
    Ordered,
    ParallelGroup,
    PointTiles,
    Product,
    RowTiles,
    Scan,
    Step,
    TimeTiles,
    While,
    WhileVjp,
)
from ..runtime import signals
from ..runtime.entry import GUARD_MISSED
from ..runtime.signals import FAILED
from ..switches import Switch
from . import (
    control,
    cumulative,
    fourier,
    lapack,
    large_product,
    order,
    packed_product,
    parallel,
    point_tiles,
    row_tiles,
    tile,
    time_tiles,
    vecmath,
)
from .builder import UNOPTIMISED
from .instruction import MEMORY, Code, VecmathFunction, is_number
from .nest import SMALL, Nest

OUT_OF_BOUNDS, OUT_OF_MEMORY = 1, 3  # see `entry.ERRORS`
MOST_INLINED = 12_000  # size of the kernels that a program inlines, in lines times points; the others are called, and shared
LONGEST_SECTION = 256  # steps in one function: LLVM's time grows faster than the length of a function
BRIEF = 2048  # the part of a program's work that is not optimised: such code takes up to 20 times as long
PRODUCT = 8  # multiplications of a matrix product in the time of an addition of a kernel
STEP = 30  # the work of calling a step, in additions: about 10 ns
MANY_KERNELS = 48  # in a program, from which on those that differ in constants only share their code

_NONE: Mapping[Buffer, Buffer] = MappingProxyType({})
_PLACE = re.compile(r"\b(CONSTANT|FOREIGN|TIME)(\d+)\b")
_WRITTEN_OUT = re.compile(r"!WRITTEN_OUT\b")
_FIRST_NAME = 1000  # of a loop


class Module:
    """The shared state of the functions of one program: declarations, definitions, constants, foreign calls."""

    def __init__(self, lowered: Lowered | None = None, timed: bool = False) -> None:
        self.timed = len(lowered.steps) if lowered and timed else 0  # steps of the program that are timed
        self.declared: set[str] = set()
        self.functions: set[VecmathFunction] = set()
        self.definitions: list[str] = []
        self.constants: dict[Buffer, int] = {}  # in the order of their words
        self.foreign: list[Foreign] = []
        self.defined: dict[str, str] = {}  # names of the functions of kernels, pieces and matrices, by their text
        self.names = 0
        self.inlinable = MOST_INLINED
        self.brief = _brief(lowered.steps) if lowered and Switch.QUICK_CODE.on else 0  # work that need not be optimised
        self.guarded = lowered is not None and lowered.guard is not None
        if lowered is not None:
            StepRoutine(self, lowered).define_program()

    @property
    def slots(self) -> int:
        """Words of `env`: the arena, the constants, the objects that are called, the times of the steps."""
        return 1 + len(self.constants) + len(self.foreign) + self.timed

    def function(self, what: str, text: str) -> str:
        """The name of a function, @NAME in its text; functions of equal text are shared."""
        known = self.defined.get(text)
        if known is None:
            known = self.defined[text] = self.name(what)
            self.definitions.append(text.replace("@NAME", known, 1))
        return known

    def is_brief(self, work: int) -> bool:
        """Whether code that does so much work need not be optimised. What it takes is gone from the program's share."""
        fits = 0 < work <= self.brief
        self.brief -= work if fits else 0
        return fits

    def name(self, what: str) -> str:
        self.names += 1
        return f"@{what}{self.names}"

    def constant(self, code: Code, buffer: Buffer) -> str:
        """The address of a constant."""
        number = self.constants.setdefault(buffer, len(self.constants))
        return code.let(f"load ptr, ptr {code.slot('%env', f'CONSTANT{number}')}")

    def text(self) -> str:
        math = vecmath.definitions(sorted({function[:3] for function in self.functions}))
        apart = [function.define() for function in sorted(self.functions) if function.apart]
        declared = sorted(self.declared - set(math))
        definitions = [_PLACE.sub(lambda found: str(self.place(found)), text) for text in self.definitions]
        return _with_loops_named("\n".join([*declared, *math, *apart, *definitions]))

    def place(self, found: re.Match[str]) -> int:
        """The word of `env` of a constant or of a called object: known when all of them are."""
        before = {"CONSTANT": 0, "FOREIGN": len(self.constants), "TIME": len(self.constants) + len(self.foreign)}
        return 1 + before[found[1]] + int(found[2])


def _with_loops_named(text: str) -> str:
    """Each loop to be unrolled gets a distinct metadata node."""
    names = itertools.count(_FIRST_NAME + 1)
    text, count = _WRITTEN_OUT.subn(lambda _: f"!{next(names)}", text)
    if not count:
        return text
    how = f"!{_FIRST_NAME}"
    named = [f"!{i} = distinct !{{!{i}, {how}}}" for i in range(_FIRST_NAME + 1, _FIRST_NAME + 1 + count)]
    return "\n".join([text, f'{how} = !{{!"llvm.loop.unroll.full"}}', *named])


class StepRoutine:
    """One function: the steps of a program, or of a body."""

    def __init__(self, module: Module, lowered: Lowered) -> None:
        self.module = module
        self.lowered = lowered
        self.code = Code()
        self.pointers: dict[Buffer, str] = {}
        self.borrowed = False  # the arena must be released
        self.is_body = False
        self.is_timed = False
        self.is_brief = False
        self.has_many_kernels = sum(len(s.kernels) if isinstance(s, RowTiles) else 1 for s in lowered.steps) > MANY_KERNELS

    def define_program(self) -> None:
        code, low = self.code, self.lowered
        self.is_timed = bool(self.module.timed)
        self.is_brief = self.has_no_loops() and self.module.is_brief(sum(map(_own_work, low.steps)))
        for i, buffer in enumerate([*low.inputs, *(v.buffer for v in low.outputs)]):
            self.pointers[buffer] = code.let(f"load ptr, ptr {code.slot('%table', i)}")
        if low.arena:
            self.take_arena()
        if len(low.steps) > LONGEST_SECTION:
            self.sections()
        else:
            self.all_steps()
        self.leave(self.status())
        self.module.definitions.append(code.define(f"define i32 @program(ptr noalias %table, ptr %env) nounwind{self.how}"))

    def has_no_loops(self) -> bool:
        """Whether all loops are in the functions that the steps call."""
        return not any(isinstance(step, (Scan, While, WhileVjp, Branch)) for step in self.lowered.steps)

    @property
    def how(self) -> str:
        """How the function is compiled."""
        return f" {UNOPTIMISED}" if self.is_brief else ""

    def sections(self) -> None:
        """The steps of a long program, in functions that are called one after another."""
        self.constants(self.lowered.buffers)  # the status may be one
        arena = self.arena if self.lowered.arena else "null"
        numbered = self.numbered()
        for first in range(0, len(numbered), LONGEST_SECTION):
            section = StepRoutine(self.module, self.lowered)
            section.is_brief = self.is_brief
            name = section.define_section(numbered[first : first + LONGEST_SECTION])
            self.check(self.code.let(f"call i32 {name}(ptr %table, ptr %env, ptr {arena})"))

    def define_section(self, numbered: Sequence[tuple[int, Step, bool]]) -> str:
        """A function of the table, of `env` and of the arena, for some of the steps."""
        code, low = self.code, self.lowered
        self.is_timed = bool(self.module.timed)
        used = {view.buffer for _, step, _ in numbered for view in (*step.reads(), *step.writes())}
        for i, buffer in enumerate([*low.inputs, *(v.buffer for v in low.outputs)]):
            if buffer in used:
                self.pointers[buffer] = code.let(f"load ptr, ptr {code.slot('%table', i)}")
        self.place("%arena", used)
        self.constants(sorted(used, key=lambda buffer: buffer.number))
        self.steps(numbered)
        code.do("ret i32 0")
        name = self.module.name("section")
        head = f"define internal i32 {name}(ptr noalias %table, ptr %env, ptr %arena) nounwind noinline{self.how}"
        self.module.definitions.append(code.define(head))
        return name

    def define_body(self) -> str:
        """A function of the addresses of inputs and outputs, of `env` and of memory for intermediate arrays."""
        self.is_body, low = True, self.lowered
        names = []
        for i, buffer in enumerate([*low.inputs, *(v.buffer for v in low.outputs)]):
            self.pointers[buffer] = f"%p{i}"
            names.append(f"ptr noalias %p{i}")
        self.place("%scratch")
        self.all_steps()
        self.leave(self.status())
        name = self.module.name("body")
        head = f"define internal i32 {name}({', '.join([*names, 'ptr %env', 'ptr %scratch'])}) nounwind"
        self.module.definitions.append(self.code.define(head))
        return name

    def constants(self, buffers: Sequence[Buffer]) -> None:
        """The addresses of the constants among some buffers."""
        for buffer in buffers:
            if buffer.kind == "constant":
                self.pointers[buffer] = self.module.constant(self.code, buffer)

    def numbered(self) -> list[tuple[int, Step, bool]]:
        """The steps with their numbers, and whether to look for signals before each."""
        steps = self.lowered.steps
        return list(zip(range(len(steps)), steps, polling.breaks(steps), strict=True))

    def all_steps(self) -> None:
        self.constants(self.lowered.buffers)
        self.steps(self.numbered())

    def steps(self, numbered: Sequence[tuple[int, Step, bool]]) -> None:
        self.module.declared |= self.code.declared
        for number, step, is_late in numbered:
            if is_late:
                self.look_for_signals()
            if self.is_timed:
                self.timed(number, step)
            else:
                self.step(step)
        self.module.declared |= self.code.declared

    def step(self, step: Step) -> None:
        if isinstance(step, Kernel):
            self.kernel(step)
        elif isinstance(step, RowTiles):
            row_tiles.emit(self, step)
        elif isinstance(step, PointTiles):
            point_tiles.emit(self, step)
        elif isinstance(step, TimeTiles):
            time_tiles.emit(self, step)
        elif isinstance(step, Product):
            self.product(step)
        elif isinstance(step, Lapack):
            lapack.emit(self, step)
        elif isinstance(step, Fourier):
            fourier.emit(self, step)
        elif isinstance(step, Cumulative):
            cumulative.emit(self, step)
        elif isinstance(step, Ordered):
            order.emit(self, step)
        elif isinstance(step, (Scan, While, WhileVjp, Branch)):
            control.emit(self, step)
        elif isinstance(step, ParallelGroup):
            parallel.emit(self, step)
        else:
            self.foreign_call(step)

    def timed(self, number: int, step: Step) -> None:
        """A step, with its cycles added to its word of `env`."""
        code = self.code
        self.module.declared.add("declare i64 @llvm.readcyclecounter()")
        before = code.let("call i64 @llvm.readcyclecounter()")
        self.step(step)
        took = code.let(f"sub i64 {code.let('call i64 @llvm.readcyclecounter()')}, {before}")
        place = code.slot("%env", f"TIME{number}")
        so_far = code.let(f"load i64, ptr {place}")
        code.do(f"store i64 {code.let(f'add i64 {so_far}, {took}')}, ptr {place}")

    def status(self) -> str:
        """The status of the program: 0 unless the guards do not hold, a routine failed, or an index was out of bounds."""
        code, status = self.code, "0"
        for view in self.lowered.out_of_bounds:
            status = code.let(f"select i1 {code.load(self.at(view), view.dtype)}, i32 {OUT_OF_BOUNDS}, i32 {status}")
        for view, how in reversed(self.lowered.failures):  # the first one counts
            failed = code.load(self.at(view), view.dtype)
            status = code.let(f"select i1 {failed}, i32 {lapack.FAILURES[how]}, i32 {status}")
        guard = self.lowered.guard  # last: after a guard miss anything may be out of bounds
        if guard is None:
            return status
        return code.let(f"select i1 {code.load(self.at(guard), guard.dtype)}, i32 {status}, i32 {GUARD_MISSED}")

    def at(self, view: View) -> str:
        """The address of a view's first element."""
        base = self.pointers[view.buffer]
        return self.code.let(f"getelementptr i8, ptr {base}, i64 {view.offset * view.dtype.itemsize}") if view.offset else base

    def check(self, status: str) -> None:
        """Return if a call did not return 0."""
        code, go_on = self.code, self.code.mark("fine")
        code.need(code.let(f"icmp ne i32 {status}, 0"), go_on)
        if self.lowered.guard is not None:  # after a guard miss anything may fail; otherwise the eager run raises
            raised = code.let(f"icmp eq i32 {status}, {FAILED}")
            status = code.let(f"select i1 {raised}, i32 {FAILED}, i32 {GUARD_MISSED}")
        self.leave(status)
        code.label(go_on)

    def look_for_signals(self) -> None:
        self.module.declared.add(signals.DECLARATION)
        self.check(self.code.let("call i32 @adjoint_signals()"))

    def leave(self, status: str) -> None:
        if self.borrowed:
            self.code.do(f"call void @give_arena(ptr {self.arena}, ptr %env)")
        self.code.do(f"ret i32 {status}")

    # -- memory --

    def place(self, base: str, used: Collection[Buffer] | None = None) -> None:
        """The addresses of all intermediate arrays, or of some, in memory that begins at `base`; numbers of a body: variables."""
        for buffer, offset in self.lowered.offsets.items():
            if used is not None and buffer not in used:
                continue
            if self.is_body and is_number(buffer):
                self.pointers[buffer] = self.code.variable(MEMORY[buffer.dtype])
            else:
                self.pointers[buffer] = self.code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def take_arena(self) -> None:
        """Intermediate arrays are in the arena, or in a new one if another call uses it."""
        code = self.code
        self.module.declared |= {"declare ptr @aligned_alloc(i64, i64) nounwind", "declare void @free(ptr) nounwind"}
        self.module.definitions.append(_GIVE_ARENA if Switch.KEPT_ARENA.on else _FREE_ARENA)
        held = code.let("atomicrmw xchg ptr %env, ptr null acq_rel")
        start, make, ready = code.enter("enter"), "make", "ready"
        code.branch(code.let(f"icmp eq ptr {held}, null"), make, ready)
        code.label(make)
        made = code.let(f"call ptr @aligned_alloc(i64 64, i64 {self.lowered.arena})")
        code.need(code.let(f"icmp ne ptr {made}, null"), "full")
        last = code.block
        code.jump(ready)
        code.label("full")
        code.do(f"ret i32 {OUT_OF_MEMORY}")
        code.label(ready)
        self.arena = code.phi("ptr", ((made, last), (held, start)))
        self.borrowed = True
        self.place(self.arena)

    # -- steps --

    def product(self, step: Product) -> None:
        if step.is_narrow:
            tile.product(self, step)
        elif packed_product.fits(step):
            packed_product.emit(self, step)
        elif large_product.pieces(step) > 1:
            large_product.emit(self, step)
        else:
            lapack.product(self, step)

    def kernel(self, kernel: Kernel) -> None:
        """A separate function, inlined if it is small; called for each piece."""
        nest = Nest(kernel, repeated=self.is_body, numbers_apart=self.has_many_kernels, is_brief=self.runs_briefly(kernel))
        name = self.define_nest(nest, "kernel")
        length = kernel.loops[0].length if kernel.loops else 1
        own = {out: buffer for out, (_, buffer) in kernel.partials.items()}
        self.in_pieces(name, nest.buffers, length, kernel.chunks, own, list(nest.numbers))
        for out, (how, partial) in kernel.partials.items():
            self.gather_pieces(kernel.chunks, how, out, self.pointers[partial])

    def runs_briefly(self, kernel: Kernel) -> bool:
        """Whether a kernel does little of the program's work. Those in a loop are all optimised."""
        return not self.is_body and size_of(kernel.domain) > SMALL and self.module.is_brief(work(kernel))

    def in_pieces(
        self,
        name: str,
        buffers: Sequence[Buffer],
        length: int,
        count: int,
        own: Mapping[Buffer, Buffer] = _NONE,
        numbers: Sequence[str] = (),
    ) -> None:
        """Call a function of buffers, numbers and a range of iterations, for all iterations or piece by piece.

        Instead of a buffer in `own`, each piece gets its part of another one.
        """
        if count == 1:
            self.call(name, [self.pointers[b] for b in buffers], length, numbers)
            return
        used = list(dict.fromkeys([*buffers, *own.values()]))
        piece = self.module.function("piece", _piece(name, buffers, own, used, length, count, numbers))
        self.in_parallel(piece, self.table([self.pointers[b] for b in used]), count)

    def in_parallel(self, function: str, table: str, count: int) -> None:
        """Call a function of a table and a number for all numbers below `count`, in parallel if possible."""
        if count == 1:
            self.code.do(f"call void {function}(ptr {table}, i64 0)")
        else:
            self.module.declared.add("declare void @adjoint_parallel(ptr, ptr, i64) nounwind")
            self.code.do(f"call void @adjoint_parallel(ptr {function}, ptr {table}, i64 {count})")

    def table(self, pointers: Sequence[str], more: int = 0) -> str:
        """A table of addresses, with room for more words."""
        table = self.code.let(f"alloca [{len(pointers) + more} x ptr]")
        for i, pointer in enumerate(pointers):
            self.code.do(f"store ptr {pointer}, ptr {self.code.slot(table, i)}")
        return table

    def define_nest(self, nest: Nest, what: str) -> str:
        """The function of a nest; kernels with equal code share it."""
        name = self.module.function(what, nest.define("@NAME", self.module.inlinable))
        self.module.inlinable -= nest.inlined
        self.module.declared |= nest.code.declared
        self.module.functions |= nest.code.functions
        return name

    def call(self, name: str, pointers: Sequence[str], length: int, numbers: Sequence[str] = ()) -> None:
        arguments = [*(f"ptr {p}" for p in pointers), *numbers, "i64 0", f"i64 {length}"]
        self.code.do(f"call void {name}({', '.join(arguments)})")

    def gather_pieces(self, count: int, how: str, out: Buffer, partial: str) -> None:
        """Combine the partial results of the pieces, in order, by a small kernel over pieces and elements."""
        given = Buffer(-1, out.dtype, out.size * count, "local")
        domain = (count, out.size)
        small = Kernel(domain)
        line = small.add("load", (), View.whole(given, domain).over(domain), out.dtype)
        small.reductions.append(Reduce(how, line, (0,), View(out, domain, (0, 0 if out.size == 1 else 1))))
        arrange(small)
        nest = Nest(small, is_brief=self.runs_briefly(small))
        name = self.define_nest(nest, "gather")
        known = {given: partial, out: self.pointers[out]}
        self.call(name, [known[b] for b in nest.buffers], small.loops[0].length)

    def foreign_call(self, step: Foreign) -> None:
        """Call the Python object in its slot with the address of a table of its operands' and results' addresses."""
        code = self.code
        self.module.declared |= {
            "declare ptr @PyLong_FromVoidPtr(ptr)",
            "declare ptr @PyObject_CallOneArg(ptr, ptr)",
            "declare void @Py_DecRef(ptr)",
        }
        table = self.table([self.pointers[view.buffer] for view in (*step.reads(), *step.writes())])
        self.module.foreign.append(step)
        callee = code.let(f"load ptr, ptr {code.slot('%env', f'FOREIGN{len(self.module.foreign) - 1}')}")
        address = code.let(f"call ptr @PyLong_FromVoidPtr(ptr {table})")
        result = code.let(f"call ptr @PyObject_CallOneArg(ptr {callee}, ptr {address})")
        code.do(f"call void @Py_DecRef(ptr {address})")
        failed = code.let(f"icmp eq ptr {result}, null")
        self.check(code.let(f"select i1 {failed}, i32 {FAILED}, i32 0"))
        code.do(f"call void @Py_DecRef(ptr {result})")
        if self.module.guarded:  # it returns its argument to refuse: see `native._callable`
            refused = code.let(f"icmp eq ptr {result}, {address}")
            self.check(code.let(f"select i1 {refused}, i32 {GUARD_MISSED}, i32 0"))

    def body(self, lowered: Lowered) -> str:
        """The name of the function of a program inside this one."""
        return StepRoutine(self.module, lowered).define_body()


def _brief(steps: Sequence[Step]) -> int:
    """The work of a program that need not be optimised, in additions."""
    return sum(work(step) // (PRODUCT if isinstance(step, Product) else 1) for step in steps) // BRIEF


def _own_work(step: Step) -> int:
    """The work of a step in the function of the program itself: of a kernel that is inlined, and of calling the others."""
    if isinstance(step, Kernel) and size_of(step.domain) <= SMALL:
        return work(step)
    stack = next(step.writes()).shape[:-2] if isinstance(step, (Product, Lapack)) else ()
    return STEP * size_of(stack)


def _piece(
    name: str,
    buffers: Sequence[Buffer],
    own: Mapping[Buffer, Buffer],
    used: list[Buffer],
    length: int,
    count: int,
    numbers: Sequence[str],
) -> str:
    """The function that runs one piece of a kernel: it loads its buffers from a table, and computes its range of the outermost
    loop."""
    code = Code()
    per = -(-length // count)
    pointers = []
    for buffer in buffers:
        pointer = code.let(f"load ptr, ptr {code.slot('%table', used.index(own.get(buffer, buffer)))}")
        if buffer in own:
            pointer = code.let(f"getelementptr i8, ptr {pointer}, i64 {code.let(f'mul i64 %piece, {buffer.nbytes}')}")
        pointers.append(pointer)
    start = code.let(f"mul nuw nsw i64 %piece, {per}")
    part = code.smaller(code.let(f"sub nsw i64 {length}, {start}"), str(per))
    arguments = [*(f"ptr {p}" for p in pointers), *numbers, f"i64 {start}", f"i64 {part}"]
    code.do(f"call void {name}({', '.join(arguments)})")
    code.do("ret void")
    return code.define("define internal void @NAME(ptr %table, i64 %piece) nounwind")


_GIVE_ARENA = """define internal void @give_arena(ptr %arena, ptr %env) nounwind {
  %before = atomicrmw xchg ptr %env, ptr %arena acq_rel
  call void @free(ptr %before)
  ret void
}"""

_FREE_ARENA = """define internal void @give_arena(ptr %arena, ptr %env) nounwind {
  call void @free(ptr %arena)
  ret void
}"""
