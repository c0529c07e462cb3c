"""Steps as one LLVM module, and the module as machine code.

    define i32 @program(ptr %table, ptr %env)

`table` holds the addresses of the inputs and outputs of one call; `env` is memory that belongs to the compiled program: the
addresses of constants, of the arena for intermediate arrays (taken by one call at a time), and of the objects that foreign
calls need. The result is 0, or says what went wrong.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from ..lower.kernel import Buffer, Foreign, Kernel, Lowered, Product, Reduce, View
from ..lower.memory import Arena, plan
from ..lower.schedule import arrange, work
from . import cache, entry, vecmath
from .instruction import REGISTER, Code, Function
from .nest import Nest
from .pool import Pool

OUT_OF_BOUNDS, OUT_OF_MEMORY = 1, 3  # what a program returns: see `entry.ERRORS`
FAILED = -1  # a Python exception is set
LONG_WORK = 150_000  # additions; from about 50 µs on, other Python threads may run meanwhile
ON_STACK = 1 << 12  # bytes of intermediate arrays that fit on the stack


_NAME = re.compile(r'@"?([\w.]+)"?\(')


class Module:
    """The text of a program."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.arena: Arena = plan(lowered)
        self.constants = [b for b in lowered.buffers if b.kind == "constant"]
        self.foreign: list[Foreign] = [s for s in lowered.steps if isinstance(s, Foreign)]
        self.declared: set[str] = set()
        self.functions: set[Function] = set()
        self.definitions: list[str] = []
        self.on_stack = self.arena.size <= ON_STACK
        # env: the arena's slot, the constants, then callables and the table they get
        self.slots = 1 + len(self.constants) + len(self.foreign)

    def text(self) -> str:
        body = self.program()
        math = _math_text(frozenset(self.functions))
        declared = {_NAME.search(line)[1]: line for line in (*math, *sorted(self.declared)) if line.startswith("declare")}  # type: ignore[index]
        rest = [line for line in math if not line.startswith("declare")]
        rest += [function.define() for function in sorted(self.functions) if function.apart]
        return "\n".join([*declared.values(), *rest, *self.definitions, body])

    def program(self) -> str:
        code = Code()
        low = self.lowered
        pointers: dict[Buffer, str] = {}
        for i, buffer in enumerate([*low.inputs, *(v.buffer for v in low.outputs)]):
            pointers[buffer] = code.let(f"load ptr, ptr {_slot(code, '%table', i)}")
        for i, buffer in enumerate(self.constants):
            pointers[buffer] = code.let(f"load ptr, ptr {_slot(code, '%env', 1 + i)}")
        arena = self.take_arena(code, pointers)
        for number, step in enumerate(low.steps):
            if isinstance(step, Kernel):
                self.kernel(code, step, number, pointers)
            elif isinstance(step, Product):
                self.product(code, step, pointers)
            else:
                self.foreign_call(code, step, number, pointers, arena)
        code_of = self.check_guard(code, pointers)
        self.give_arena(code, arena)
        code.do(f"ret i32 {code_of}")
        self.declared |= code.declared
        return "\n".join(["define i32 @program(ptr noalias %table, ptr %env) nounwind {", *code.lines, "}"])

    def check_guard(self, code: Code, pointers: dict[Buffer, str]) -> str:
        """What the program returns: 0 unless its guards do not hold, or an index was out of bounds."""
        status = "0"
        for view in self.lowered.outside:
            wrong = code.load(pointers[view.buffer], view.dtype)
            status = code.let(f"select i1 {wrong}, i32 {OUT_OF_BOUNDS}, i32 {status}")
        guard = self.lowered.guard  # comes last: on the wrong path anything may be out of bounds
        if guard is None:
            return status
        pointer = code.let(f"getelementptr i8, ptr {pointers[guard.buffer]}, i64 {guard.offset}")
        return code.let(f"select i1 {code.load(pointer, guard.dtype)}, i32 {status}, i32 {entry.GUARD_MISSED}")

    # -- memory --

    def take_arena(self, code: Code, pointers: dict[Buffer, str]) -> str | None:
        """Local buffers: on the stack if they are small, else in the arena, or a new one if another call has it."""
        locals_ = [b for b in self.lowered.buffers if b in self.arena.offsets]
        if self.on_stack:
            for buffer in locals_:
                pointers[buffer] = code.let(f"alloca [{max(1, buffer.nbytes)} x i8], align 64")
            return None
        self.declared |= {"declare ptr @aligned_alloc(i64, i64) nounwind", "declare void @free(ptr) nounwind"}
        held = code.let(f"atomicrmw xchg ptr {_slot(code, '%env', 0)}, ptr null acq_rel")
        code.do(f"%held = getelementptr i8, ptr {held}, i64 0")
        none = code.let("icmp eq ptr %held, null")
        code.do(f"br i1 {none}, label %make, label %have")
        code.label("make")
        code.do(f"%made = call ptr @aligned_alloc(i64 64, i64 {self.arena.size})")
        failed = code.let("icmp eq ptr %made, null")
        code.do(f"br i1 {failed}, label %full, label %have_made")
        code.label("full")
        code.do(f"ret i32 {OUT_OF_MEMORY}")
        code.label("have_made")
        code.do("br label %ready")
        code.label("have")
        code.do("br label %ready")
        code.label("ready")
        code.do("%arena = phi ptr [ %made, %have_made ], [ %held, %have ]")
        for buffer in locals_:
            pointers[buffer] = code.let(f"getelementptr inbounds i8, ptr %arena, i64 {self.arena.offsets[buffer]}")
        return "%arena"

    def give_arena(self, code: Code, arena: str | None) -> None:
        if arena is not None:
            code.do(f"call void @give_arena(ptr {arena}, ptr %env)")
            if not any("@give_arena(" in d and d.startswith("define") for d in self.definitions):
                self.definitions.append(_GIVE_ARENA)

    # -- steps --

    def kernel(self, code: Code, kernel: Kernel, number: int, pointers: dict[Buffer, str]) -> None:
        """A function of its own, inlined if it is small; called for each piece, if it is in pieces."""
        nest = Nest(kernel)
        name = f"@kernel{number}"
        self.definitions.append(nest.define(name))
        self.declared |= nest.code.declared
        self.functions |= nest.code.functions
        length = kernel.loops[0].length if kernel.loops else 1
        if kernel.chunks == 1:
            arguments = [*(f"ptr {pointers[b]}" for b in nest.buffers), "i64 0", f"i64 {length}"]
            code.do(f"call void {name}({', '.join(arguments)})")
            return
        self.declared.add("declare void @adjoint_parallel(ptr, ptr, i64) nounwind")
        used = list(dict.fromkeys([*nest.buffers, *kernel.partials.values()]))
        table = code.let(f"alloca [{len(used)} x ptr]")
        for i, buffer in enumerate(used):
            code.do(f"store ptr {pointers[buffer]}, ptr {_slot(code, table, i)}")
        self.definitions.append(_piece(kernel, nest, name, used, length))
        code.do(f"call void @adjoint_parallel(ptr {name}.piece, ptr {table}, i64 {kernel.chunks})")
        for i, partial in kernel.partials.items():
            self.gather(code, kernel, kernel.reductions[i], f"{name}.gather{i}", pointers[partial], pointers)

    def gather(self, code: Code, kernel: Kernel, r: Reduce, name: str, partial: str, pointers: dict[Buffer, str]) -> None:
        """Combine the results of the pieces, in order: itself a small kernel over pieces and elements."""
        out = r.view.buffer
        given = Buffer(-1, out.dtype, out.size * kernel.chunks, "local")
        domain = (kernel.chunks, out.size)
        small = Kernel(domain)
        line = small.add("load", (), View.whole(given, domain).over(domain), out.dtype)
        small.reductions.append(Reduce(r.how, line, (0,), View(out, domain, (0, 0 if out.size == 1 else 1))))
        arrange(small)
        nest = Nest(small)
        self.definitions.append(nest.define(name))
        self.declared |= nest.code.declared
        known = {given: partial, out: pointers[out]}
        arguments = [*(f"ptr {known[b]}" for b in nest.buffers), "i64 0", f"i64 {small.loops[0].length}"]
        code.do(f"call void {name}({', '.join(arguments)})")

    def product(self, code: Code, step: Product, pointers: dict[Buffer, str]) -> None:
        """A matrix product by BLAS: column-major, so it computes the transpose of the product of transposes."""
        kind = REGISTER[step.out.dtype.name]
        name = "adjoint_dgemm" if kind == "double" else "adjoint_sgemm"
        self.declared.add(f"declare void @{name}({', '.join(['ptr'] * 13)}) nounwind")
        rows, inner = step.left.shape[-2:]
        columns = step.right.shape[-1]
        one, zero = (_spill(code, kind, x) for x in ("1.0", "0.0"))
        m, n, k = (_spill(code, "i32", str(x)) for x in (columns, rows, inner))
        layouts = [_layout(step.right), _layout(step.left)]
        ta, tb = (_spill(code, "i8", str(ord(how))) for how, _ in layouts)
        lda, ldb, ldc = (_spill(code, "i32", str(x)) for x in (*(length for _, length in layouts), columns))
        for offsets in _stack_offsets(step):
            left, right, out = (
                code.let(f"getelementptr {kind}, ptr {pointers[v.buffer]}, i64 {o}")
                for v, o in zip((step.left, step.right, step.out), offsets, strict=True)
            )
            arguments = (ta, tb, m, n, k, one, right, lda, left, ldb, zero, out, ldc)
            code.do(f"call void @{name}({', '.join(f'ptr {a}' for a in arguments)})")

    def foreign_call(self, code: Code, step: Foreign, number: int, pointers: dict[Buffer, str], arena: str | None) -> None:
        """Call the Python object in its slot with the address of a table of its operands' and results' addresses."""
        self.declared |= {
            "declare ptr @PyLong_FromVoidPtr(ptr)",
            "declare ptr @PyObject_CallOneArg(ptr, ptr)",
            "declare void @Py_DecRef(ptr)",
        }
        views = [*step.reads(), *step.writes()]
        table = code.let(f"alloca [{len(views)} x ptr]")
        for i, view in enumerate(views):
            code.do(f"store ptr {pointers[view.buffer]}, ptr {_slot(code, table, i)}")
        slot = 1 + len(self.constants) + self.foreign.index(step)
        callee = code.let(f"load ptr, ptr {_slot(code, '%env', slot)}")
        address = code.let(f"call ptr @PyLong_FromVoidPtr(ptr {table})")
        result = code.let(f"call ptr @PyObject_CallOneArg(ptr {callee}, ptr {address})")
        code.do(f"call void @Py_DecRef(ptr {address})")
        failed = code.let(f"icmp eq ptr {result}, null")
        code.do(f"br i1 {failed}, label %failed{number}, label %after{number}")
        code.label(f"failed{number}")
        self.give_arena(code, arena)
        code.do(f"ret i32 {FAILED}")
        code.label(f"after{number}")
        code.do(f"call void @Py_DecRef(ptr {result})")


def _piece(kernel: Kernel, nest: Nest, name: str, used: list[Buffer], length: int) -> str:
    """The function that runs one piece of a kernel: finds its buffers in a table, and its part of the outermost loop."""
    code = Code()
    own = {kernel.reductions[i].view.buffer: buffer for i, buffer in kernel.partials.items()}
    per = -(-length // kernel.chunks)
    pointers = []
    for buffer in nest.buffers:
        pointer = code.let(f"load ptr, ptr {_slot(code, '%table', used.index(own.get(buffer, buffer)))}")
        if buffer in own:
            skip = code.let(f"mul i64 %piece, {buffer.nbytes}")
            pointer = code.let(f"getelementptr i8, ptr {pointer}, i64 {skip}")
        pointers.append(pointer)
    start = code.let(f"mul nuw nsw i64 %piece, {per}")
    left = code.let(f"sub nsw i64 {length}, {start}")
    short = code.let(f"icmp slt i64 {left}, {per}")
    part = code.let(f"select i1 {short}, i64 {left}, i64 {per}")
    arguments = [*(f"ptr {p}" for p in pointers), f"i64 {start}", f"i64 {part}"]
    code.do(f"call void {name}({', '.join(arguments)})")
    code.do("ret void")
    return "\n".join([f"define internal void {name}.piece(ptr %table, i64 %piece) nounwind {{", *code.lines, "}"])


_GIVE_ARENA = """define internal void @give_arena(ptr %arena, ptr %env) nounwind {
  %before = atomicrmw xchg ptr %env, ptr %arena acq_rel
  call void @free(ptr %before)
  ret void
}"""


def _slot(code: Code, table: str, i: int) -> str:
    return code.let(f"getelementptr ptr, ptr {table}, i64 {i}")


def _spill(code: Code, kind: str, value: str) -> str:
    """A number in memory, since Fortran takes addresses."""
    pointer = code.let(f"alloca {kind}")
    code.do(f"store {kind} {value}, ptr {pointer}")
    return pointer


def _layout(view: View) -> tuple[str, int]:
    """How BLAS reads a matrix of ours, of which it sees the transpose: as it is if rows are contiguous, else transposed."""
    (rows, columns), (down, across) = view.shape[-2:], view.strides[-2:]
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return "N", max(down, columns, 1)
    return "T", max(across, rows, 1)


def _stack_offsets(step: Product) -> list[tuple[int, int, int]]:
    """Where each matrix of a stack begins, in the three arrays."""
    offsets = []
    for index in np.ndindex(step.out.shape[:-2]):
        offsets.append(
            tuple(
                v.offset + sum(i * s for i, s in zip(index, v.strides, strict=False)) for v in (step.left, step.right, step.out)
            )
        )
    return offsets  # type: ignore[return-value]


@functools.cache
def _math_text(functions: frozenset[Function]) -> list[str]:
    """The definitions of the functions of `vecmath` that a program calls."""
    if not functions:
        return []
    module = ir.Module()
    void = ir.FunctionType(ir.VoidType(), [])
    builder = ir.IRBuilder(ir.Function(module, void, "uses").append_basic_block())
    for name, kind, arity in sorted({function[:3] for function in functions}):
        float_type = ir.DoubleType() if kind == "double" else ir.FloatType()
        vecmath.emit(builder, name, *[ir.Constant(float_type, 0.0)] * arity)
    builder.ret_void()
    lines = []
    skipping = False
    for line in str(module).splitlines():
        if line.startswith(("target ", "; ModuleID", "source_filename")):
            continue
        if 'void @"uses"' in line:
            skipping = True
        if not skipping:
            lines.append(line)
        elif line == "}":
            skipping = False
    return lines


# -- machine code -----------------------------------------------------------------------------------------------


@functools.cache
def pool() -> Pool:
    """The threads that all programs share. Made when the first program is compiled."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _add_symbols()
    made = Pool(_machine())
    llvm.add_symbol("adjoint_parallel", made.address)
    return made


def _machine(level: int = 3) -> Any:
    """This machine, for LLVM. An engine owns its own."""
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=level, codemodel="jitdefault", jit=True
    )


def _add_symbols() -> None:
    """What generated code calls: BLAS, as SciPy publishes it."""
    from scipy.linalg import cython_blas

    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    for name in ("dgemm", "sgemm"):
        capsule = cython_blas.__pyx_capi__[name]
        llvm.add_symbol(f"adjoint_{name}", pointer_of(capsule, name_of(capsule)))


def optimise(module: Any, machine: Any) -> None:
    """Vectorise and simplify a module for a machine."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def parse(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def object_code(text: str, quickly: bool = False) -> tuple[bytes, bool]:
    """The machine code of a module, and whether it was there already, from an earlier process.

    `quickly` leaves out the optimiser: for code that is compiled more often than it would gain.
    """
    pool()
    versions = f"{version('adjoint')} llvmlite {llvmlite.__version__} LLVM {llvm.llvm_version_info}"
    name = cache.key(text, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), versions, str(quickly))
    known = cache.read(name)
    if known is not None:
        return known, True
    machine, module = _machine(1 if quickly else 3), parse(text)
    if not quickly:
        optimise(module, machine)
    code = machine.emit_object(module)
    cache.write(name, code)
    return code, False


def load(code: bytes) -> Any:
    """An engine that holds machine code, ready to run."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@functools.cache
def _entry() -> tuple[int, Any]:
    """The address of the entry point that all compiled functions share, and what keeps it alive."""
    engine = load(object_code(entry.entry_text(), quickly=True)[0])
    return engine.get_function_address("entry"), engine


class Native:
    """Machine code of a program, and the memory it belongs with."""

    def __init__(self, lowered: Lowered) -> None:
        written = Module(lowered)
        self.lowered = lowered
        self.text = written.text()
        self.code, self.was_cached = object_code(self.text)
        self.engine = load(self.code)
        self.calls = [_callable(step) for step in written.foreign]
        self.env = (ctypes.c_void_p * written.slots)()
        for i, buffer in enumerate(written.constants):
            self.env[1 + i] = buffer.data.ctypes.data
        for i, call in enumerate(self.calls):
            self.env[1 + len(written.constants) + i] = id(call)
        self.needs_python = bool(written.foreign)

    def function(self, inputs: Sequence[entry.Input], **options: Any) -> Callable[..., Any]:
        """The program as a Python function; see `entry.bind_entry`. The interpreter is set free during long work."""
        long = sum(work(step) for step in self.lowered.steps) > LONG_WORK
        outputs = [v.type for v in self.lowered.outputs]
        address = self.engine.get_function_address("program")
        options |= {"env": ctypes.addressof(self.env), "keep": self, "release_gil": long and not self.needs_python}
        return entry.bind_entry(_entry()[0], address, inputs, outputs, **options)

    def assembly(self) -> str:
        """The machine code as text."""
        machine, module = _machine(), parse(self.text)
        optimise(module, machine)
        return str(machine.emit_assembly(module))

    def optimised(self) -> str:
        """What LLVM made of the text."""
        machine, module = _machine(), parse(self.text)
        optimise(module, machine)
        return str(module)

    def __del__(self) -> None:
        if getattr(self, "env", None) is not None and self.env[0]:
            ctypes.CDLL(None).free(ctypes.c_void_p(self.env[0]))


def _callable(step: Foreign) -> Any:
    """What a foreign step calls: it finds its arrays by the addresses in a table."""
    reads, writes = list(step.reads()), list(step.writes())

    def call(address: int) -> None:
        table = (ctypes.c_void_p * (len(reads) + len(writes))).from_address(address)
        arrays = iter([_array(v, table[i]) for i, v in enumerate(reads)])
        outs = [_array(v, table[len(reads) + i]) for i, v in enumerate(writes)]
        operands = [next(arrays)[()] if isinstance(o, View) else _fresh(o) for o in step.operands]
        with np.errstate(all="ignore"):
            result = step.op.impl(*operands, **step.params)
        for out, part in zip(outs, result if step.op.many else (result,), strict=True):
            out[...] = part

    return call


def _fresh(operand: Any) -> Any:
    return operand[()] if isinstance(operand, np.ndarray) else operand


def _array(view: View, address: int | None) -> Any:
    """An array over memory that is there while the call lasts."""
    size = view.dtype.itemsize
    memory: Any = (ctypes.c_char * max(1, view.buffer.nbytes)).from_address(address) if address else bytearray(1)
    strides = [s * size for s in view.strides]
    return np.ndarray(view.shape, view.dtype, memory, view.offset * size, strides)
