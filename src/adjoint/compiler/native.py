"""Programs as machine code for this processor, and as Python functions."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np

from ..core.errors import OperationError, UnsupportedError
from ..core.locks import at_fork
from ..core.places import Place
from .llvm import emit, symbols
from .lower import pocketfft, special
from .runtime import blas, cache, entry, memory, program_cache
from .runtime.threads import TEXT as POOL
from .runtime.threads import Pool
from .switches import Switch

if TYPE_CHECKING:  # heavy: lowering, which a program from disk does not need
    from .lower.kernel import View
    from .lower.step import Foreign, Lowered

MOST_KNOWN = 64  # sets of addresses that a foreign call remembers
LONG_WORK = 150_000  # additions; from about 50 µs on, the GIL is released


@functools.cache
def pool() -> Pool:
    """The thread pool of all programs. Made when the first program is compiled."""
    made = Pool(load(object_code(POOL, quickly=True)[1]))
    made.follow(blas.of_numpy())
    llvm.add_symbol("adjoint_parallel", made.address)
    llvm.add_symbol("adjoint_parallel_group", made.parallel_group)
    llvm.add_symbol("adjoint_signals", made.signals)
    llvm.add_symbol("adjoint_one_thread", made.one_thread)
    llvm.add_symbol("adjoint_usual_threads", made.usual_threads)
    at_fork(child=made.restart)
    return made


@functools.cache
def one_thread_of_blas() -> blas.OneThread:
    """A context in which products and decompositions round the same way for any number of threads."""
    libraries = [library for library in (blas.of_numpy(), blas.of_scipy()) if library is not None]
    if len(libraries) < 2:
        raise UnsupportedError(
            "deterministic=True needs an OpenBLAS or MKL whose threads can be set, and NumPy or SciPy use another one; set the "
            "number of its threads to one yourself, and omit the option"
        )
    return blas.OneThread(libraries, pool())


_BY_LIBRARIES = (
    r"(?m)^declare .*@(special\.[\w.]+|"
    rf"{re.escape(pocketfft.PREFIX)}[\w.]+|adjoint_[ds](?:{'|'.join(blas.BLAS + blas.LAPACK)}))\("
)


def _add_symbols(names: Sequence[str]) -> None:
    """Register the functions of BLAS, LAPACK, scipy.special and NumPy's pocketfft that a program calls, which its code names."""
    for name in names:
        llvm.add_symbol(name, _address(name))


def _address(name: str) -> int:
    if name.startswith(special.PREFIX):
        return special.of_line(name).address
    return pocketfft.address(name) if name.startswith(pocketfft.PREFIX) else _of_linear_algebra(name)


@functools.cache
def _of_linear_algebra(symbol: str) -> int:
    """The address of a function of BLAS or LAPACK, as SciPy publishes it."""
    _limit_blas()
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    name = symbol.removeprefix("adjoint_")
    capsule = _published("cython_blas" if name[1:] in blas.BLAS else "cython_lapack").__pyx_capi__[name]
    address: int = pointer_of(capsule, name_of(capsule))
    return address


@functools.cache
def _limit_blas() -> None:
    """Let programs limit the threads of SciPy's BLAS around short calls."""
    pool().limit(blas.library(_published("cython_blas")))


def _published(name: str) -> Any:
    """A module of scipy.linalg, loaded without the package, which takes a hundred times as long."""
    import scipy

    full = f"scipy.linalg.{name}"
    folders = [os.path.join(folder, "linalg") for folder in scipy.__path__]
    spec = importlib.machinery.PathFinder.find_spec(full, folders)
    if full in sys.modules or spec is None or spec.loader is None:
        return importlib.import_module(full)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def object_code(text: str, quickly: bool = False) -> tuple[str, list[bytes], bool]:
    """The machine code of a module: the key of its cache entry, the code, and whether it was cached.

    `quickly` skips the optimiser, for code that would not gain from it.
    """
    name = cache.key("parts", text, *emit.described(), str(quickly))  # an entry is a list; older versions differ
    known = _kept_code(name)
    if known is not None:
        return name, known, True
    code = emit.object_code(text, quickly, _SHARED)
    cache.write(name, pickle.dumps(code))
    return name, code, False


class _Shared(emit.SharedCode):
    """Slow paths, which programs share: in memory, and in the cache on disk."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}  # by the key of the cache entry

    def read(self, part: emit.ModulePart) -> bytes | None:
        name = self.name_of(part)
        if name not in self.known:
            code = cache.read(name)
            if code is None:
                return None
            self.known[name] = code
        return self.known[name]

    def write(self, part: emit.ModulePart, code: bytes) -> None:
        name = self.name_of(part)
        self.known[name] = code
        cache.write(name, code)

    def name_of(self, part: emit.ModulePart) -> str:
        return cache.key("slow path", part.text, part.effort.name, *emit.described())


_SHARED = _Shared()


def _kept_code(name: str) -> list[bytes] | None:
    data = cache.read(name)
    return None if data is None else pickle.loads(data)  # written by this user, and intact


def load(code: Sequence[bytes]) -> Any:
    """An engine that holds machine code, ready to run."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), emit.machine())
    symbols.check(code)  # after the first engine, which makes the symbols of the process visible to LLVM
    for part in code:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    return engine


@functools.cache
def _entry() -> tuple[int, Any]:
    """The address of the shared entry point, and the memory handler for large results."""
    name = program_cache.name_of_entry(emit.described())
    code = None if name is None else _kept_code(name)
    if code is None:
        code = emit.object_code(entry.entry_text() + memory.TEXT, quickly=Switch.QUICK_CODE.on)
        if name is not None:
            cache.write(name, pickle.dumps(code))
    engine = load(code)
    return engine.get_function_address("entry"), memory.handler(engine)


@functools.cache
def _nothing() -> Any:
    """A program that does nothing."""
    return load(object_code("define i32 @program(ptr %table, ptr %env) { ret i32 0 }", quickly=True)[1])


def places_check(places: Sequence[Place]) -> Callable[[], Any]:
    """A native function that checks the places that a program reads: it returns MISS if one has changed, else ()."""
    engine, (point, memory) = _nothing(), _entry()
    address = engine.get_function_address("program")
    return entry.bind_entry(point, address, [], [], places=places, keep=engine, memory=memory, name="places")


def native(name: program_cache.Name | None, lowered: Callable[[], Lowered]) -> Native:
    """A program: loaded from the cache under that name, or compiled from the result of `lowered` and cached."""
    if not Switch.PROGRAM_CACHE.on:
        name = None
    program = None if name is None else program_cache.read(name)
    code = None if program is None else _kept_code(program.code)
    if program is not None and code is not None:
        return Native(program, code, True, lambda: _module(lowered()).text())
    made = assembled(lowered())
    if name is not None:
        program_cache.write(name, made.program)
    return made


def _module(lowered: Lowered, timed: bool = False) -> Any:
    from .llvm.program import Module  # heavy: the code generator, which a program from disk does not need

    return Module(lowered, timed)


def assembled(lowered: Lowered, timed: bool = False) -> Native:
    """A program compiled from its steps. If `timed`, it accumulates the cycles of each step."""
    from .lower.schedule import work  # heavy, as above

    written = _module(lowered, timed)
    text = written.text()
    name, code, was_cached = object_code(text)
    program = program_cache.CachedProgram(
        name,
        tuple(re.findall(_BY_LIBRARIES, text)),
        tuple(buffer.data for buffer in written.constants),
        tuple(written.foreign),
        written.guarded,
        tuple(v.type for v in lowered.outputs),
        sum(map(work, lowered.steps)) > LONG_WORK and not lowered.calls_python,
    )
    return Native(program, code, was_cached, lambda: text, written.timed)


class Native:
    """The machine code of a program, and its memory."""

    def __init__(
        self,
        program: program_cache.CachedProgram,
        code: Sequence[bytes],
        was_cached: bool,
        text: Callable[[], str],
        timed: int = 0,
    ) -> None:
        pool()
        self.program, self.code, self.was_cached, self.timed = program, code, was_cached, timed
        self._text = text
        _add_symbols(program.symbols)
        self.engine = load(code)
        self.calls = [_callable(step, program.guarded) for step in program.calls]
        addresses = [*(c.ctypes.data for c in program.constants), *map(id, self.calls)]
        self.env = (ctypes.c_void_p * (1 + len(addresses) + timed))(None, *addresses)

    @property
    def size(self) -> int:
        """Bytes of machine code."""
        return sum(map(len, self.code))

    @property
    def text(self) -> str:
        """The program as LLVM's text."""
        return self._text()

    @staticmethod
    def with_times(lowered: Lowered) -> Native:
        """A program that counts the cycles of each of its steps."""
        return assembled(lowered, timed=True)

    def times(self) -> list[int]:
        """The cycles of each step so far, of a timed program."""
        return [int(word or 0) for word in self.env[len(self.env) - self.timed :]]

    def function(self, inputs: Sequence[entry.Input], **options: Any) -> Callable[..., Any]:
        """The program as a Python function; see `entry.bind_entry`. The GIL is released during long work."""
        address = self.engine.get_function_address("program")
        point, memory = _entry()
        options |= {"env": ctypes.addressof(self.env), "keep": self, "release_gil": self.program.is_long}
        options["memory"] = memory if Switch.KEPT_BLOCKS.on else None
        return entry.bind_entry(point, address, inputs, self.program.outputs, **options)

    def assembly(self) -> str:
        """The machine code as text."""
        return emit.assembly(self.text)

    def optimised(self) -> str:
        """The optimised LLVM text."""
        return emit.optimised(self.text)

    def __del__(self) -> None:
        if getattr(self, "env", None) is not None and self.env[0]:
            ctypes.CDLL(None).free(ctypes.c_void_p(self.env[0]))


def _callable(step: Foreign, guarded: bool) -> Any:
    """The callable of a foreign step: it finds its arrays by the addresses in a table.

    With guards, it may fail because of a guard miss: it then returns its argument, and the program reports a miss.
    """
    reads, writes = list(step.reads()), list(step.writes())
    operands_read = [(operand, any(operand is view for view in reads)) for operand in step.operands]
    remembers = Switch.FOREIGN_ARRAYS.on
    known: dict[bytes, tuple[list[Any], list[Any]]] = {}  # arrays by their addresses, which mostly repeat

    def found(table: bytes) -> tuple[list[Any], list[Any]]:
        addresses = np.frombuffer(table, np.uintp).tolist()
        arrays = [_array(v, a) for v, a in zip([*reads, *writes], addresses, strict=True)]
        if len(known) >= MOST_KNOWN:
            known.clear()
        pair = arrays[: len(reads)], arrays[len(reads) :]
        if remembers:
            known[table] = pair
        return pair

    def call(address: int) -> int | None:
        table = ctypes.string_at(address, 8 * (len(reads) + len(writes)))
        given, outs = known.get(table) or found(table)
        arrays = iter(given)
        operands = [next(arrays)[()] if is_read else _fresh(o) for o, is_read in operands_read]
        for i in step.weak:
            operands[i] = operands[i].item()
        try:
            with np.errstate(all="ignore"):
                result = step.op.impl(*operands, **step.params)
            for out, part in zip(outs, result if step.op.many else (result,), strict=True):
                if type(part) not in _PYTHON and part.dtype != out.dtype:
                    raise TypeError(f"the result is of dtype {part.dtype}, not {out.dtype}")
                out[...] = part
        except Exception as error:
            if guarded:
                return address
            raise OperationError(f"{step.op.name} failed") from error
        return None

    return call


_PYTHON = frozenset({bool, int, float})  # whose results are stored directly


def _fresh(operand: Any) -> Any:
    return operand[()] if isinstance(operand, np.ndarray) else operand


def _array(view: View, address: int) -> Any:
    """An array over memory that is valid during the call."""
    if 0 in view.shape:
        return np.empty(view.shape, view.dtype)
    size = view.dtype.itemsize
    memory: Any = (ctypes.c_char * max(1, view.buffer.nbytes)).from_address(address)
    strides = [s * size for s in view.strides]
    return np.ndarray(view.shape, view.dtype, memory, view.offset * size, strides)
