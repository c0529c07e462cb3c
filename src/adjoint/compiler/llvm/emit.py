"""Machine code from LLVM text, for this processor: large functions are compiled in parallel, on all cores.

    define internal void @kernel1(…) noinline {…}              the text of a program
    define internal void @kernel2(…) noinline {…}
    define i32 @program(…) { call @kernel1  call @kernel2 }

    define void @kernel1(…) noinline {…}                       one part of it
    declare void @kernel1(…)   define internal void @kernel2(…) noinline {…}   define i32 @program(…) {…}      another

Each part has a copy of the small functions it calls; long slow paths of functions are parts by themselves (`slow_paths.py`).
Functions marked `UNOPTIMISED` are a part of their own, compiled without the optimiser and in a fifth of the time. Functions that
are `WRITTEN_AS_VECTORS` are parts of their own, too: a few passes make of them what the optimiser would. LLVM can process modules
of different contexts at the same time; llvmlite serializes its calls, so the two slow calls bypass its lock.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from ...core.locks import Gate, at_fork
from ...core.version import VERSION
from ..runtime.threads import default_threads
from ..switches import Switch, key
from . import rare_vectors
from .builder import STRIDED, UNOPTIMISED, WRITTEN_AS_VECTORS
from .slow_paths import FUNCTION, names_in, reached, taken_apart

PIPELINE = "6, vectors, forms"  # names what `optimise` and `parts` do, for the cache key
MOST_PARTS = 8
LOOP = 40  # lines of straight-line code that compile as long as vectorizing the loops of a function: about 10 ms
WRITTEN = 5  # lines that are written as vectors compile as long as another one
_LARGE = re.compile(r"^define internal (\w+ @\w+\([^\n]*?\)) nounwind noinline")


# No thread may be in LLVM while the process forks: llvmlite's lock, and LLVM's, would stay locked, and its tables half written.
_in_llvm = Gate()  # for the calls that bypass llvmlite's lock
at_fork(before=ffi.lib._lock.__enter__, parent=ffi.lib._lock.__exit__, child=ffi.lib._lock.__exit__)


@functools.cache
def target() -> tuple[Any, str, str]:
    """LLVM's target for this machine, the name of the processor and its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def converts_halves() -> bool:
    """Whether this processor converts between float16 and float32. Without that, LLVM calls functions that are not there."""
    made, _, features = target()
    return not made.triple.startswith(("x86", "i686", "i386")) or "+f16c" in features.split(",")


def machine(level: int = 3) -> Any:
    """LLVM's target machine. An engine owns its own."""
    made, processor, features = target()
    return made.create_target_machine(cpu=processor, features=features, opt=level, codemodel="jitdefault", jit=True)


def described() -> tuple[str, ...]:
    """The versions, the target and the switches that all machine code depends on."""
    return *_machine_described(), key()


@functools.cache
def _machine_described() -> tuple[str, ...]:
    made, processor, features = target()
    versions = f"{VERSION} llvmlite {llvmlite.__version__} LLVM {llvm.llvm_version_info}"
    return made.triple, processor, features, versions, PIPELINE


def _tuned(text: str) -> str:
    """A text with the attributes of this machine for functions that are `STRIDED`.

    Zen processors have a slow instruction for loads from several places, which LLVM thinks is fast: loading them one by one takes
    two thirds of the time of a loop over the columns of a matrix.
    """
    _, processor, features = target()
    if not processor.startswith("znver"):
        return text
    return text.replace(STRIDED, f'"target-features"="{features},+prefer-no-gather"')


def optimise(module: Any, machine: Any) -> None:
    """Vectorise and simplify a module for a machine.

    The shortest of LLVM's pipelines, with vectorization: the longer ones take twice the time, and some of their passes make loops
    slower, such as carrying loads from one iteration to the next. Only loops that `nest` marks are unrolled.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.loop_interleaving = True
    options.loop_unrolling = False
    options.slp_vectorization = False  # a slow search, and nothing got faster
    builder = llvm.create_pass_builder(machine, options)
    _run(builder.getModulePassManager(), module, builder)


def _inline_forms(module: Any, machine: Any) -> None:
    """Inline the vector forms of slow paths in an optimised module."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_simplify_cfg_pass()
    _run_alone(passes, module, machine)


def _inline(module: Any, machine: Any) -> None:
    """Inline the functions that must be, and do nothing else."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    _run_alone(passes, module, machine)


def _tidy(module: Any, machine: Any) -> None:
    """Simplify functions that are written as vectors. Those of `optimise` find no more, in ten times the time."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_simplify_pass()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    _run_alone(passes, module, machine)


def _run_alone(passes: Any, module: Any, machine: Any) -> None:
    """Run these passes and no others."""
    _run(passes, module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))


def _run(passes: Any, module: Any, builder: Any) -> None:
    with _in_llvm:
        _run_passes()(passes, module, builder)
    NewPassManager._dispose(passes)  # llvmlite leaks it, 70 kB each: the class inherits a `_dispose` that does nothing
    passes.detach()


class Effort(Enum):
    """How a text is compiled: its passes, and the level of LLVM's code generator."""

    def __new__(cls, passes: Callable[[Any, Any], None] | None, level: int) -> Effort:
        made = object.__new__(cls)
        made._value_ = len(cls.__members__)
        made.passes, made.level = passes, level
        return made

    passes: Callable[[Any, Any], None] | None
    level: int

    ALL = optimise, 3  # optimised and vectorized
    VECTORS = _tidy, 3  # simplified: it is written as vectors
    LITTLE = None, 1  # as it is written
    NONE = _inline, 0  # as it is written, except that functions are inlined where they must be


class ModulePart(NamedTuple):
    """A text that is compiled by itself."""

    text: str
    effort: Effort = Effort.ALL
    is_shared: bool = False  # with other programs


class SharedCode:
    """The code of parts that programs share."""

    def read(self, part: ModulePart) -> bytes | None:
        return None

    def write(self, part: ModulePart, code: bytes) -> None:
        pass


NOTHING = SharedCode()


def object_code(text: str, quickly: bool = False, kept: SharedCode = NOTHING) -> list[bytes]:
    """The machine code of a program, in as many parts as were compiled in parallel.

    `quickly` skips the optimiser, for code that would not gain from it. Parts that are `kept` are not compiled.

    LLVM cannot be interrupted. So the main thread, which gets the signals, only waits: Ctrl-C leaves at once, and the other
    threads end with their current call into LLVM.
    """
    main = threading.main_thread()
    dropped = threading.Event()
    if not main.is_alive():  # atexit functions cannot start threads
        return [_compiled(ModulePart(text, Effort.LITTLE if quickly else Effort.ALL), dropped)]
    count = min(default_threads(), MOST_PARTS) if Switch.COMPILED_APART.on else 1
    given = [ModulePart(text, Effort.LITTLE)] if quickly else parts(text, count)
    codes: list[Any] = [kept.read(part) if part.is_shared else None for part in given]
    missing = [i for i, code in enumerate(codes) if code is None]
    waiting = deque(missing)
    here = threading.current_thread() is not main  # this thread compiles, too
    threads = [_Compilation(given, codes, waiting, dropped) for _ in missing[:count]]
    try:
        for thread in threads[here:]:
            thread.start()
        if here and threads:
            threads[0].compile()
        for thread in threads[here:]:
            thread.finish()
    except BaseException:
        dropped.set()
        raise
    for i in missing:
        if given[i].is_shared:
            kept.write(given[i], codes[i])
    return codes


def optimised(text: str) -> str:
    """The optimised LLVM text."""
    return str(passed(ModulePart(text), machine()))


def assembly(text: str) -> str:
    """The assembly of a text."""
    own = machine()
    return str(own.emit_assembly(passed(ModulePart(text), own)))


_LONGEST_WAIT = 30  # seconds, at the end of the process


class _Compilation(threading.Thread):
    """A thread that compiles parts until none is waiting."""

    def __init__(self, parts: Sequence[ModulePart], codes: list[Any], waiting: deque[int], dropped: threading.Event) -> None:
        super().__init__(name="adjoint compiles", daemon=True)
        self.parts, self.codes, self.waiting, self.dropped = parts, codes, waiting, dropped
        self.error: Exception | None = None

    def run(self) -> None:
        _running.add(self)
        try:
            self.compile()
        except Exception as error:
            self.error = error
        finally:
            _running.discard(self)

    def compile(self) -> None:
        while True:
            try:
                i = self.waiting.popleft()
            except IndexError:
                return
            self.codes[i] = _compiled(self.parts[i], self.dropped)

    def finish(self) -> None:
        self.join()
        if self.error is not None:
            raise self.error


_running: set[_Compilation] = set()


@atexit.register
def _wait_for_parts() -> None:
    """LLVM must not be at work while the process ends: after Ctrl-C, wait for the current call of each thread."""
    for part in list(_running):
        part.dropped.set()
        part.join(_LONGEST_WAIT)


def _compiled(part: ModulePart, dropped: threading.Event) -> bytes:
    """The machine code of a part; nothing if it is no longer needed."""
    own = machine(part.effort.level)
    module = passed(part, own, dropped)
    if dropped.is_set():
        return b""
    message = ctypes.c_char_p()
    with _in_llvm:
        memory = _emit()(own, module, 1, ctypes.byref(message))
    if not memory:
        raise RuntimeError(f"LLVM: {(message.value or b'no machine code').decode()}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def passed(part: ModulePart, machine: Any, dropped: threading.Event | None = None) -> Any:
    """The module of a part, after its passes."""
    text, forms = rare_vectors.with_forms(part.text) if part.effort is Effort.ALL else (part.text, None)
    context = llvm.create_context()
    module = llvm.parse_assembly(_tuned(text), context)
    if part.effort.passes is not None and not (dropped and dropped.is_set()):
        part.effort.passes(module, machine)
        if forms:
            rare_vectors.link(module, forms, context)
            _inline_forms(module, machine)
    return module


@functools.cache
def _library() -> Any:
    return ctypes.CDLL(ffi.lib._name)


@functools.cache
def _run_passes() -> Any:
    function = _library().LLVMPY_RunNewModulePassManager
    function.argtypes = [ffi.LLVMModulePassManagerRef, ffi.LLVMModuleRef, ffi.LLVMPassBuilderRef]
    function.restype = None
    return function


@functools.cache
def _emit() -> Any:
    function = _library().LLVMPY_TargetMachineEmitToMemory
    function.argtypes = [ffi.LLVMTargetMachineRef, ffi.LLVMModuleRef, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    function.restype = ffi.LLVMMemoryBufferRef
    return function


# -- parts ------------------------------------------------------------------------------------------------------


def parts(text: str, count: int) -> list[ModulePart]:
    """A module in parts: at most so many of about the same weight, each beside one of functions that are written as vectors;
    one of functions that are not optimised; and shared ones.
    """
    if count == 1:
        return _cut(text, count)
    text, paths = taken_apart(text)
    return [*_cut(text, count), *(ModulePart(path.text, Effort.NONE, is_shared=True) for path in paths)]


def _cut(text: str, count: int) -> list[ModulePart]:
    """The parts of a program's own."""
    functions = {names_in(body)[0]: body for body in FUNCTION.findall(text)}
    firsts = {name: body.partition("\n")[0] for name, body in functions.items()}
    efforts = {name: _effort(first) for name, first in firsts.items()}
    unoptimised = [name for name, effort in efforts.items() if effort is Effort.NONE]
    is_alike = set(efforts.values()) <= {Effort.ALL}
    if count == 1 and is_alike:
        return [ModulePart(text)]
    calls = {name: [c for c in names_in(body)[1:] if c in functions] for name, body in functions.items()}
    heads = {name: head[1] for name, first in firsts.items() if (head := _LARGE.match(first))}
    lines = {name: body.count("\n") for name, body in functions.items()}
    weights = {name: LOOP + lines[name] + sum(lines[c] for c in calls[name]) for name in heads}
    weights |= {name: lines[name] // WRITTEN for name in heads if efforts[name] is Effort.VECTORS}
    roots = [name for name, first in firsts.items() if " internal " not in first and name not in unoptimised]
    beside = {name for name in reached(roots, calls, heads) if "alwaysinline" not in firsts[name]}
    first = sum(lines[name] for name in (*roots, *beside))
    groups = _balanced([name for name in heads if name not in unoptimised], weights, count, first)
    if len(groups) == 1 and is_alike:
        return [ModulePart(text)]
    groups[0] = [*roots, *groups[0]]
    shared = FUNCTION.sub("", text)

    def part(own: Collection[str], effort: Effort) -> ModulePart:
        needed = {*own, *reached(own, calls, heads)}
        elsewhere = {c for name in needed for c in calls[name] if c in heads and c not in own}
        bodies = [
            body.replace(" internal", "", 1) if name in heads else body for name, body in functions.items() if name in needed
        ]
        return ModulePart("\n".join([shared, *(f"declare {heads[name]}" for name in sorted(elsewhere)), *bodies]), effort)

    chosen = [(effort, [name for name in own if efforts[name] is effort]) for effort in _OPTIMISED for own in groups]
    return [part(own, effort) for effort, own in [*chosen, (Effort.NONE, unoptimised)] if own]


_OPTIMISED = (Effort.ALL, Effort.VECTORS)


def _effort(first: str) -> Effort:
    """How a function is compiled, by its first line."""
    if UNOPTIMISED in first:
        return Effort.NONE
    return Effort.VECTORS if WRITTEN_AS_VECTORS in first and _LARGE.match(first) else Effort.ALL


def _balanced(names: Iterable[str], weights: Mapping[str, int], count: int, first: int) -> list[list[str]]:
    """Names in groups of about the same weight, the largest first; the first group has an initial weight."""
    groups: list[list[str]] = [[] for _ in range(count)]
    totals = [first] + [0] * (count - 1)
    for name in sorted(names, key=lambda name: -weights[name]):
        least = totals.index(min(totals))
        groups[least].append(name)
        totals[least] += weights[name]
    return [groups[0], *(group for group in groups[1:] if group)]
