"""The launches of a program as one LLVM module: for a card, or for the simulator.

Both are made of the same phases (see `threads`); what is around them differs.

    on a card                                       in the simulator
    define ptx_kernel void @k1(buffers) {           define void @k1(ptr %table, i64 %from, i64 %to, i64 %flip) {
      phase0(buffers, shared, block, thread)          for block in from … to:
      barrier                                           for thread in 0 … 256: phase0(…)
      phase1(buffers, shared, block, thread)            for thread in 0 … 256: phase1(…)

With `flip` -1, the simulator runs the threads of a phase the other way round, with 1 in pairs: a result that depends on it is a race.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...lower.kernel import Buffer
from .. import vecmath
from ..instruction import Code, Function
from .schedule import Launch
from .threads import Threads

TRIPLE = "nvptx64-nvidia-cuda"
_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
_OURS = re.compile(r"@adjoint[\w.]+")
_REGISTERS = ("tid.x", "ctaid.x")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of a module, and how it is launched."""

    name: str
    blocks: int
    threads: int
    shared: int  # bytes
    buffers: tuple[Buffer, ...]
    source: Launch


class Module:
    """Collects the kernels of a program; equal ones share one function."""

    def __init__(self) -> None:
        self.declared: set[str] = set()
        self.functions: set[Function] = set()
        self.phases: dict[str, tuple[str, list[str], int, int, int]] = {}  # by their text: name, phases, buffers, shared, threads

    def add(self, threads: Threads) -> Kernel:
        launch, bodies = threads.launch, threads.phases()
        key = "\n".join([str(len(threads.buffers)), *bodies])
        if key not in self.phases:
            name = f"k{len(self.phases) + 1}"
            texts = [
                f"define internal void @{name}_{i}({threads.arguments}) nounwind alwaysinline {{\n{body}\n}}"
                for i, body in enumerate(bodies)
            ]
            self.phases[key] = (name, texts, len(threads.buffers), threads.shared, launch.layout.threads)
            self.declared |= threads.declared
            self.functions |= threads.functions
        return Kernel(
            self.phases[key][0], launch.layout.blocks, launch.layout.threads, threads.shared, tuple(threads.buffers), launch
        )

    def for_card(self) -> str:
        declared = {f"declare i32 @llvm.nvvm.read.ptx.sreg.{r}()" for r in _REGISTERS}
        declared.add("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
        text = self._text([f'target triple = "{TRIPLE}"'], declared, (_on_card(*entry) for entry in self.phases.values()))
        return _OURS.sub(lambda name: name[0].replace(".", "_"), text)  # PTX has no dots in names

    def for_simulator(self) -> str:
        return self._text([], set(), (_simulated(*entry) for entry in self.phases.values()))

    def _text(self, head: list[str], declared: set[str], entries: Iterable[str]) -> str:
        math = vecmath.definitions(sorted({function[:3] for function in self.functions}))
        lines = [line for text in math for line in text.split("\n")]
        declared = declared | self.declared | {line for line in lines if line.startswith("declare")}
        math_text = "\n".join(line for line in lines if not line.startswith("declare"))
        return "\n".join([*head, *sorted(declared), math_text, *entries])


def _on_card(name: str, phases: list[str], buffers: int, shared: int, threads: int) -> str:
    code = Code()
    pointers = [code.let(f"addrspacecast ptr addrspace(1) %g{i} to ptr") for i in range(buffers)]
    memory = code.let(f"addrspacecast ptr addrspace(3) @{name}_shared to ptr") if shared else "null"
    thread, block = (code.let(f"zext nneg i32 {code.let(f'call i32 @llvm.nvvm.read.ptx.sreg.{r}()')} to i64") for r in _REGISTERS)
    for i in range(len(phases)):
        if i:
            code.do(f"call void {_BARRIER}")
        code.do(
            f"call void @{name}_{i}({', '.join([*(f'ptr {p}' for p in pointers), f'ptr {memory}', f'i64 {block}', f'i64 {thread}'])})"
        )
    code.do("ret void")
    arguments = ", ".join(f"ptr addrspace(1) noalias align 16 %g{i}" for i in range(buffers))
    head = f'define ptx_kernel void @{name}({arguments}) nounwind "nvvm.maxntid"="{threads}" {{'
    own = [f"@{name}_shared = internal addrspace(3) global [{shared} x i8] undef, align 16"] if shared else []
    return "\n".join([*phases, *own, head, *code.lines, "}"])


def _simulated(name: str, phases: list[str], buffers: int, shared: int, threads: int) -> str:
    code = Code()
    memory = code.let(f"alloca [{max(shared, 1)} x i8], align 16")
    pointers = [code.let(f"load ptr, ptr {code.slot('%table', i)}") for i in range(buffers)]
    flip = code.let(f"and i64 %flip, {threads - 1}")
    with code.turns("%from", "%to") as block:
        for i in range(len(phases)):
            with code.turns("0", str(threads)) as number:
                thread = code.let(f"xor i64 {number}, {flip}")
                given = [*(f"ptr {p}" for p in pointers), f"ptr {memory}", f"i64 {block}", f"i64 {thread}"]
                code.do(f"call void @{name}_{i}({', '.join(given)})")
    code.do("ret void")
    own = [phase.replace(" alwaysinline", " noinline", 1) for phase in phases]  # an alloca of a phase is freed when it ends
    head = f"define void @{name}(ptr %table, i64 %from, i64 %to, i64 %flip) nounwind {{"
    return "\n".join([*own, head, *code.lines, "}"])
