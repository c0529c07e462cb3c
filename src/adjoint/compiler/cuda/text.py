"""The launches of a program as one LLVM module: for a GPU, or for the simulator.

Both are made of the same phases (see `threads`); what is around them differs.

    on a GPU                                       in the simulator
    define ptx_kernel void @k1(buffers) {           define void @k1(ptr %table, i64 %from, i64 %to, i64 %flip) {
      phase0(buffers, shared, block, thread)          for block in from … to:
      barrier                                           for thread in 0 … 256: phase0(…)
      phase1(buffers, shared, block, thread)            for thread in 0 … 256: phase1(…)

With `flip` -1, the simulator runs the threads of a phase the other way round: a result that depends on it is a race. Where only
the threads of a warp wait for each other, every other warp can be `lag` phases behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from ..llvm import vecmath
from ..llvm.instruction import Code, VecmathFunction
from ..lower.kernel import Buffer
from .launch import Launch
from .layout import NEIGHBOURS
from .threads import PhaseBodies, Threads
from .tiles import TileThreads

TRIPLE = "nvptx64-nvidia-cuda"
_BARRIER = "@llvm.nvvm.barrier0()"  # the name that every LLVM since 20 knows
_WARP_BARRIER = "@llvm.nvvm.bar.warp.sync(i32 -1)"
_UNROLLED = re.compile(r", !llvm\.loop !UNROLL(\d+)")
_OURS = re.compile(r"@adjoint[\w.]+")
_REGISTERS = ("tid.x", "ctaid.x")
MOST_PARTS = 3  # of a module: the driver compiles one while LLVM, which has one lock, writes the next


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A function of a module, and how it is launched."""

    name: str
    blocks: int
    threads: int
    shared: int  # bytes
    buffers: tuple[Buffer, ...]
    source: Launch
    both_ways: bool = False  # a last argument says whether it takes the blocks from the last to the first


@dataclass(frozen=True, slots=True)
class Entry:
    """The text of a kernel: its phases, and the code around them."""

    name: str
    arguments: str
    parts: PhaseBodies
    aliased: tuple[bool, ...]  # for each buffer: whether other threads change it between phases
    shared: int
    blocks: int
    threads: int
    resident: int
    both_ways: bool
    declared: frozenset[str]
    functions: frozenset[VecmathFunction]

    def size(self) -> int:
        """Of its text."""
        return sum(map(len, (*self.parts.before, *self.parts.inside, *self.parts.after)))

    def phases(self, how: str) -> Iterator[str]:
        for i, body in enumerate((*self.parts.before, *self.parts.inside, *self.parts.after)):
            yield f"define internal void @{self.name}_{i}({self.arguments}) nounwind {how} {{\n{body}\n}}"


class DeviceModule:
    """Collects the kernels of a program; equal ones share one function."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}  # by their text

    def add(self, threads: Threads | TileThreads) -> DeviceKernel:
        parts, launch = threads.parts(), threads.launch
        blocks = threads.tile.blocks if isinstance(threads, TileThreads) else launch.layout.blocks
        aliased = tuple(b in threads.changing for b in threads.buffers)
        layout = launch.layout
        resident = 0 if isinstance(threads, TileThreads) else layout.resident
        both_ways = threads.is_repeated and blocks > 1
        key = repr((parts, aliased, blocks if parts.tiles or both_ways else 0, resident, both_ways))
        if key not in self.entries:
            name = f"k{len(self.entries) + 1}"
            sizes = threads.shared, blocks, layout.threads, resident
            used = frozenset(threads.declared), frozenset(threads.functions)
            self.entries[key] = Entry(name, threads.arguments, parts, aliased, *sizes, both_ways, *used)
        name = self.entries[key].name
        return DeviceKernel(name, blocks, layout.threads, threads.shared, tuple(threads.buffers), launch, both_ways)

    def for_gpu(self) -> str:
        return _for_gpu(list(self.entries.values()))

    def parts_for_gpu(self) -> list[str]:
        """The same in parts, which are compiled at the same time."""
        parts: list[list[Entry]] = []
        sizes: list[int] = []
        for entry in sorted(self.entries.values(), key=Entry.size, reverse=True):
            if len(parts) < MOST_PARTS:
                parts.append([])
                sizes.append(0)
            smallest = sizes.index(min(sizes))
            parts[smallest].append(entry)
            sizes[smallest] += entry.size()
        return [_for_gpu(part) for part in parts]

    def for_simulator(self, lag: int = 0) -> str:
        entries = list(self.entries.values())
        return _UNROLLED.sub("", _text(entries, [], set(), (_simulated(entry, lag) for entry in entries)))


def _for_gpu(entries: Sequence[Entry]) -> str:
    declared = {f"declare i32 @llvm.nvvm.read.ptx.sreg.{r}()" for r in _REGISTERS}
    declared |= {"declare void @llvm.nvvm.barrier0()", "declare void @llvm.nvvm.bar.warp.sync(i32)"}
    text = _text(entries, [f'target triple = "{TRIPLE}"'], declared, map(_on_gpu, entries))
    return _with_loops_named(_OURS.sub(lambda name: name[0].replace(".", "_"), text))  # PTX has no dots in names


def _text(entries: Sequence[Entry], head: list[str], declared: set[str], written: Iterable[str]) -> str:
    math = vecmath.definitions(sorted({function[:3] for entry in entries for function in entry.functions}))
    lines = [line for text in math for line in text.split("\n")]
    declared = declared.union(*(entry.declared for entry in entries)) | {line for line in lines if line.startswith("declare")}
    math_text = "\n".join(line for line in lines if not line.startswith("declare"))
    return "\n".join([*head, *sorted(declared), math_text, *written])


def _with_loops_named(text: str) -> str:
    """Each loop to be unrolled gets a distinct metadata node with its unroll factor."""
    named: list[str] = []

    def name(found: re.Match[str]) -> str:
        number = 1000 + 2 * len(named)
        named.append(
            f'!{number} = distinct !{{!{number}, !{number + 1}}}\n!{number + 1} = !{{!"llvm.loop.unroll.count", i32 {found[1]}}}'
        )
        return f", !llvm.loop !{number}"

    text = _UNROLLED.sub(name, text)
    return "\n".join([text, *named])


def _on_gpu(entry: Entry) -> str:
    code, name, buffers = Code(), entry.name, len(entry.aliased)
    pointers = [code.let(f"addrspacecast ptr addrspace(1) %g{i} to ptr") for i in range(buffers)]
    memory = code.let(f"addrspacecast ptr addrspace(3) @{name}_shared to ptr") if entry.shared else "null"
    thread, block = (code.let(f"zext nneg i32 {code.let(f'call i32 @llvm.nvvm.read.ptx.sreg.{r}()')} to i64") for r in _REGISTERS)
    if entry.both_ways:
        other = code.let(f"sub nuw nsw i64 {entry.blocks - 1}, {block}")
        block = code.let(f"select i1 {code.let('icmp ne i64 %backwards, 0')}, i64 {other}, i64 {block}")

    def call(i: int, number: str) -> None:
        given = [*(f"ptr {p}" for p in pointers), f"ptr {memory}", f"i64 {number}", f"i64 {thread}"]
        code.do(f"call void @{name}_{i}({', '.join(given)})")

    _sequence(code, entry, block, call, lambda which: code.do(f"call void {which}"))
    code.do("ret void")
    arguments = ", ".join(
        f"ptr addrspace(1) {'' if aliased else 'noalias '}align 16 %g{i}" for i, aliased in enumerate(entry.aliased)
    )
    arguments += ", i64 %backwards" if entry.both_ways else ""
    room = f' "nvvm.minctasm"="{entry.resident}"' if entry.resident else ""
    head = f'define ptx_kernel void @{name}({arguments}) nounwind "nvvm.maxntid"="{entry.threads}"{room} {{'
    own = [f"@{name}_shared = internal addrspace(3) global [{entry.shared} x i8] undef, align 16"] if entry.shared else []
    return "\n".join([*entry.phases("alwaysinline"), *own, head, *code.lines, "}"])


def _simulated(entry: Entry, lag: int) -> str:
    code, name = Code(), entry.name
    memory = code.let(f"alloca [{max(entry.shared, 1)} x i8], align 16")
    pointers = [code.let(f"load ptr, ptr {code.slot('%table', i)}") for i in range(len(entry.aliased))]
    flip = code.let(f"and i64 %flip, {entry.threads - 1}")
    behind: list[tuple[int, str]] = []  # phases that every other warp has still to run

    def run(i: int, number: str, warps: int | None = None) -> None:
        """A phase for all threads, or for those of every other warp."""
        with code.iterations("0", str(entry.threads)) as counter:
            thread = code.let(f"xor i64 {counter}, {flip}")
            given = [*(f"ptr {p}" for p in pointers), f"ptr {memory}", f"i64 {number}", f"i64 {thread}"]
            parity = code.let(f"and i64 {thread}, {NEIGHBOURS}")
            is_one = "true" if warps is None else code.let(f"icmp eq i64 {parity}, {warps * NEIGHBOURS}")
            with code.when(is_one):
                code.do(f"call void @{name}_{i}({', '.join(given)})")

    def call(i: int, number: str) -> None:
        inside = len(entry.parts.before), len(entry.parts.before) + len(entry.parts.inside)
        if not (lag and entry.parts.in_warps and inside[0] <= i < inside[1]):
            run(i, number)
            return
        run(i, number, 0)
        behind.append((i, number))
        while len(behind) > (lag if i + 1 < inside[1] else 0):
            run(*behind.pop(0), 1)

    with code.iterations("%from", "%to") as block:
        _sequence(code, entry, block, call, lambda which: None)
    code.do("ret void")
    head = f"define void @{name}(ptr %table, i64 %from, i64 %to, i64 %flip) nounwind {{"
    return "\n".join([*entry.phases("noinline"), head, *code.lines, "}"])  # an alloca of a phase is freed when it ends


def _sequence(code: Code, entry: Entry, block: str, call: Callable[[int, str], None], wait: Callable[[str], None]) -> None:
    """The phases of a block in order, with barriers between them."""
    before, inside, after, tiles, in_warps = entry.parts
    start = 0
    for part in (before, inside, after):
        barrier = _WARP_BARRIER if in_warps and part is inside else _BARRIER
        is_loop = part is inside and tiles > entry.blocks
        with code.iterations(block, str(tiles), entry.blocks) if is_loop else nullcontext(block) as number:
            for i in range(start, start + len(part)):
                call(i, number)
                if is_loop or i + 1 < start + len(part):
                    wait(barrier)
        start += len(part)
        if part and part is not after and start < len(before) + len(inside) + len(after):
            wait(_BARRIER)
