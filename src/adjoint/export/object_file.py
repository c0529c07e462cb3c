"""`export.object`: a function and its derivatives as an object file and header, for any machine that LLVM compiles for.

    export.object(f, x, path="energy.o", triple="aarch64-linux-gnu")

The code is that of `jit`, on one thread; nothing is called but `memcpy`, `memset`, and on machines without the instructions the
functions of the C library for them (`fma`, `floor`, …).
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from ..compiler.llvm import emit, vecmath
from ..compiler.llvm.instruction import MEMORY, REGISTER, Code, literal
from ..compiler.llvm.program import Module, StepRoutine
from ..compiler.lower.kernel import Buffer, View
from ..compiler.lower.step import Lapack, Lowered, Product, Step
from ..compiler.runtime import signals
from ..core.boundary import boundary
from ..core.errors import ArgumentError
from . import routines, wasm_vectors
from .c_names import check_names
from .c_source import header
from .llvm_routines import LlvmRoutines
from .lowering import lower
from .program import Part, file_named, parts, titled, write_beside

#: What each kind of machine is assumed to have; the first word of a triple.
FEATURES = {
    "x86_64": "",
    "aarch64": "",
    "armv7": "+vfp3,+neon",
    "riscv64": "+m,+a,+f,+d,+c",
    "wasm32": "+bulk-memory,+nontrapping-fptoint",
}
_RARE = re.compile(r'^@llvm\.compiler\.used = .*\n|"vector-function-abi-variant"="[^"]*"', re.MULTILINE)
_LARGE = 1 << 16  # bytes of a constant whose elements are not folded into code
_FMA = """
declare double @llvm.fma.f64(double, double, double)
define double @f(double %x) {
  %y = call double @llvm.fma.f64(double %x, double %x, double %x)
  ret double %y
}"""


class ObjectFile(NamedTuple):
    """The object code, and the text of its header."""

    code: bytes
    header: str


@boundary
def object(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    triple: str | None = None,
    cpu: str = "",
    derivatives: str | Iterable[str] = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> ObjectFile:
    """A function, and the derivatives asked for, as machine code. With `path` ("energy.o"), it and "energy.h" are written.

    `triple` names the machine (this one if None): x86_64, aarch64, armv7, riscv64 or wasm32, with a system, as in
    "aarch64-linux-gnu". `cpu` is a processor that LLVM knows, such as "skylake"; without it, the code runs on any machine of
    this kind.

    >>> from adjoint import export
    >>> "int square(double x" in export.object(lambda x: x * x, 2.0, name="square").header
    True
    """
    made = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)
    check_names(made, "export.object")
    text, arena = program(made, "export.object")
    result = ObjectFile(compiled(text, triple, cpu), header(made, [f"double f64[{max(1, -(-arena // 8))}]"]))
    if path is not None:
        where = file_named(path, "export.object", ".o", ".obj")
        result = ObjectFile(result.code, titled(result.header, where))
        write_beside(where.with_suffix(".h"), result.header)
        where.write_bytes(result.code)
    return result


def compiled(text: str, triple: str | None = None, cpu: str = "", features: str = "") -> bytes:
    """The object code of an LLVM text."""
    machine = _machine(triple, cpu, features)
    if "@llvm.fma." in text and not _has_fma(machine):
        text = vecmath.soften(text)
    # Indices have 64 bits. Truncated to addresses of 32 bits they hide the strides of a loop from the vectorizer, so that
    # WebAssembly is optimised as if it had the addresses of wasm64.
    is_wasm = machine.triple.startswith("wasm32")
    wide = _created(machine.triple.replace("wasm32", "wasm64"), "", _features("wasm32", cpu, features)) if is_wasm else machine
    has_vectors = is_wasm and "simd" in features
    module = llvm.parse_assembly(wasm_vectors.prepared(text) if has_vectors else text, llvm.create_context())
    module.triple, module.data_layout = wide.triple, str(wide.target_data)
    emit.optimise(module, wide)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    # The vector forms of rare functions are never called and can be dropped: see `vecmath.rare`.
    kept = _RARE.sub("", str(module))
    kept = wasm_vectors.extrema(kept) if has_vectors else kept
    return bytes(machine.emit_object(llvm.parse_assembly(kept, llvm.create_context())))


def _has_fma(machine: Any) -> bool:
    """Whether a machine has an instruction for a fused multiply-add of doubles, or calls the C library for it."""
    return not re.search(r"\bfma\b", machine.emit_assembly(llvm.parse_assembly(_FMA, llvm.create_context())))


@functools.cache
def _machines() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _machine(triple: str | None, cpu: str, features: str) -> Any:
    _machines()
    for option, given in (("triple", triple), ("cpu", cpu)):
        if given is not None and not isinstance(given, str):
            raise ArgumentError(f"{option} of export.object is a string, got {type(given).__name__}")
    wanted = triple or llvm.get_default_triple()
    words = wanted.split("-")
    if len(words) == 3 and words[1] in ("linux", "none"):  # Debian's spelling, without the vendor
        wanted = "-".join([words[0], "unknown", *words[1:]])
    family = re.sub(r"^(armv7|thumbv7)\w*", "armv7", wanted.split("-")[0])
    if family not in FEATURES:
        raise ArgumentError(f"triple of export.object begins with {', '.join(FEATURES)}, got {wanted!r}")
    if cpu:
        _check_processor(wanted, cpu)
    try:
        return _created(wanted, cpu, _features(family, cpu, features))
    except RuntimeError as error:
        raise ArgumentError(f"LLVM has no machine {wanted!r} ({cpu or 'any processor'}): {error}") from None


def _features(family: str, cpu: str, more: str) -> str:
    return ",".join(filter(None, (FEATURES[family] if not cpu else "", more)))


def _created(triple: str, cpu: str, features: str) -> Any:
    options = {"abiname": "lp64d"} if triple.startswith("riscv64") else {}
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu,
        features=features,
        opt=3,
        reloc="static" if triple.startswith("wasm") else "pic",
        codemodel="default",
        **options,
    )


@functools.cache
def _check_processor(triple: str, cpu: str) -> None:
    """In another process, since LLVM terminates the process if it does not know a processor."""
    done = subprocess.run([sys.executable, "-c", _PROBE, triple, cpu], capture_output=True, text=True, check=False)
    if done.returncode or "not a recognized" in done.stderr:
        raise ArgumentError(f"LLVM has no processor {cpu!r} for {triple!r}; cpu of export.object is one such as 'cortex-a53'")


_PROBE = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2])
machine.emit_object(llvm.parse_assembly("define i32 @f(i32 %x) { ret i32 %x }"))
"""


# -- the LLVM text ----------------------------------------------------------------------------------------------


def program(made: Sequence[Part], exporter: str) -> tuple[str, int]:
    """The LLVM text of some functions, and the bytes of the work array."""
    module = ExportedModule()
    arena = 0
    for part in made:
        lowered = lower(part.graph, exporter)
        arena = max(arena, lowered.arena)
        ExportedRoutine(module, lowered).define(part)
    return module.text(), arena


class ExportedModule(Module):
    """A module whose constants are in it, and which no signal interrupts."""

    def __init__(self) -> None:
        super().__init__()
        self.globals: list[str] = []
        self.routines = LlvmRoutines(self.function, self.declared)

    def constant(self, code: Code, buffer: Buffer) -> str:
        data = np.asarray(buffer.data).ravel()
        kind = MEMORY[buffer.dtype]
        name = f"@constant{len(self.globals)}"
        if data.nbytes > _LARGE:  # as bytes, which LLVM reads ten times faster; the machines are all little-endian
            raw = data.astype(data.dtype.newbyteorder("<")).tobytes().hex("\\")
            kind, size, value = "i8", data.nbytes, f'c"\\{raw}"'
        else:
            numbers = [f"{kind} {int(x) if buffer.dtype.kind == 'b' else literal(x, buffer.dtype)}" for x in data.tolist()]
            size, value = max(1, len(numbers)), f"[{', '.join(numbers)}]" if numbers else "zeroinitializer"
        self.globals.append(f"{name} = internal unnamed_addr constant [{size} x {kind}] {value}, align 16")
        return name

    def text(self) -> str:
        self.declared.discard(signals.DECLARATION)
        quiet = "define internal i32 @adjoint_signals() alwaysinline nounwind {\n  ret i32 0\n}"
        return "\n".join([*self.globals, quiet, super().text()])


class ExportedRoutine(StepRoutine):
    """A function of its arguments, its results and the work array; or the body of a loop in it."""

    module: ExportedModule

    def define(self, part: Part) -> None:
        low, code, parameters = self.lowered, self.code, []
        scalars = [t.shape == () for t in part.given] + [False] * len(low.outputs)
        for i, (buffer, is_scalar) in enumerate(zip([*low.inputs, *(v.buffer for v in low.outputs)], scalars, strict=True)):
            kind = REGISTER[buffer.dtype]
            if is_scalar:
                parameters.append(f"{kind}{' zeroext' * (kind == 'i1')} %a{i}")
                self.pointers[buffer] = code.let(f"alloca {MEMORY[buffer.dtype]}")
                code.store(f"%a{i}", self.pointers[buffer], buffer.dtype)
            else:
                parameters.append(f"ptr noalias %a{i}")
                self.pointers[buffer] = f"%a{i}"
        code.do("%env = getelementptr i8, ptr %work, i64 0")  # nothing is in it
        self.place("%work")
        self.all_steps()
        self.leave(self.status())
        head = f"define i32 @{part.name}({', '.join([*parameters, 'ptr noalias %work'])}) nounwind"
        self.module.definitions.append(code.define(head))

    def body(self, lowered: Lowered) -> str:
        return ExportedRoutine(self.module, lowered).define_body()

    def step(self, step: Step) -> None:
        if isinstance(step, Product):
            if 0 not in step.out.shape:
                name = routines.product(self.module.routines, step)
                self.for_stack(step.out.shape[:-2], (step.left, step.right, step.out), name)
        elif isinstance(step, Lapack):
            failed = step.outs[-1]
            stack, views, work = routines.views_of(self.module.routines, step)
            name, tells = routines.matrix(self.module.routines, step)
            self.code.store("false", self.at(failed), failed.dtype)
            self.for_stack(stack, views, name, work, failed if tells else None)
        else:
            super().step(step)

    def for_stack(
        self, stack: tuple[int, ...], views: Sequence[View], name: str, work: Sequence[View] = (), failed: View | None = None
    ) -> None:
        """Call a routine for each matrix of a stack, with work memory that all share."""
        self.each(list(stack), [(self.at(v), v, "0") for v in views], 0, name, [self.at(v) for v in work], failed)

    def each(
        self,
        stack: list[int],
        places: list[tuple[str, View, str]],
        axis: int,
        name: str,
        work: Sequence[str],
        failed: View | None,
    ) -> None:
        code = self.code
        if axis < len(stack):
            with code.iterations("0", str(stack[axis])) as i:
                moved = []
                for base, view, at in places:
                    stride = view.strides[axis] if len(view.strides) > axis else 0
                    step = code.let(f"mul i64 {i}, {stride * view.dtype.itemsize}")
                    moved.append((base, view, code.let(f"add i64 {at}, {step}")))
                self.each(stack, moved, axis + 1, name, work, failed)
            return
        pointers = [base if at == "0" else code.let(f"getelementptr i8, ptr {base}, i64 {at}") for base, _, at in places]
        given = ", ".join(f"ptr {p}" for p in (*pointers, *work))
        if failed is None:
            code.do(f"call void {name}({given})")
            return
        status = code.let(f"icmp ne i32 {code.let(f'call i32 {name}({given})')}, 0")
        before = code.load(self.at(failed), failed.dtype)
        code.store(code.let(f"or i1 {before}, {status}"), self.at(failed), failed.dtype)
