"""Programs as machine code for this processor, and as Python functions."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from ..core.version import VERSION
from ..lower import special
from ..lower.kernel import Foreign, Lowered, View
from ..lower.schedule import work
from . import cache, entry, lapack
from .pool import Pool
from .program import Module

LONGEST_SEARCHED = 4000  # instructions of a function
LONG_WORK = 150_000  # additions; from about 50 µs on, other Python threads may run meanwhile


@functools.cache
def pool() -> Pool:
    """The threads that all programs share. Made when the first program is compiled."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    made = Pool(_machine())
    llvm.add_symbol("adjoint_parallel", made.address)
    return made


def _machine(level: int = 3) -> Any:
    """This machine, for LLVM. An engine owns its own."""
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=level, codemodel="jitdefault", jit=True
    )


_BY_SCIPY = re.compile(rf"^declare .*@(special\.[\w.]+|adjoint_[ds](?:{'|'.join(lapack.BLAS + lapack.LAPACK)}))\(", re.MULTILINE)


def _add_functions(text: str) -> None:
    """Make known what a program calls of BLAS, LAPACK and scipy.special: its machine code, new or kept, names it."""
    for name in _BY_SCIPY.findall(text):
        llvm.add_symbol(name, special.of_line(name).address if name.startswith(special.PREFIX) else _of_linear_algebra(name))


@functools.cache
def _of_linear_algebra(symbol: str) -> int:
    """The address of a function of BLAS or LAPACK, as SciPy publishes it."""
    from scipy.linalg import cython_blas, cython_lapack  # loaded by the first program that calls one

    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    name = symbol.removeprefix("adjoint_")
    capsule = (cython_blas if name[1:] in lapack.BLAS else cython_lapack).__pyx_capi__[name]
    address: int = pointer_of(capsule, name_of(capsule))
    return address


def optimise(module: Any, machine: Any) -> None:
    """Vectorise and simplify a module for a machine."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    # Vectors out of straight code help short inner loops; in long programs the search takes longer than all the rest.
    longest = max((sum(1 for block in f.blocks for _ in block.instructions) for f in module.functions), default=0)
    options.slp_vectorization = longest < LONGEST_SEARCHED
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
    versions = f"{VERSION} llvmlite {llvmlite.__version__} LLVM {llvm.llvm_version_info}"
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

    def __init__(self, lowered: Lowered, timed: bool = False) -> None:
        written = Module(lowered, timed)
        self.lowered = lowered
        self.text = written.text()
        _add_functions(self.text)
        self.code, self.was_cached = object_code(self.text)
        self.engine = load(self.code)
        self.calls = [_callable(step, written.guarded) for step in written.foreign]
        self.env = (ctypes.c_void_p * written.slots)()
        for i, buffer in enumerate(written.constants):
            self.env[1 + i] = buffer.data.ctypes.data
        for i, call in enumerate(self.calls):
            self.env[1 + len(written.constants) + i] = id(call)

    def times(self) -> list[int]:
        """The cycles that each step took so far, of a program that is timed."""
        return [int(word or 0) for word in self.env[len(self.env) - len(self.lowered.steps) :]]

    def function(self, inputs: Sequence[entry.Input], **options: Any) -> Callable[..., Any]:
        """The program as a Python function; see `entry.bind_entry`. The interpreter is set free during long work."""
        long = sum(work(step) for step in self.lowered.steps) > LONG_WORK
        outputs = [v.type for v in self.lowered.outputs]
        address = self.engine.get_function_address("program")
        options |= {"env": ctypes.addressof(self.env), "keep": self, "release_gil": long and not self.lowered.calls_python}
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


def _callable(step: Foreign, guarded: bool) -> Any:
    """What a foreign step calls: it finds its arrays by the addresses in a table.

    With guards, a failure may be that of a path which is not this call's: what was given is given back, and the guards miss.
    """
    reads, writes = list(step.reads()), list(step.writes())

    def call(address: int) -> int | None:
        table = (ctypes.c_void_p * (len(reads) + len(writes))).from_address(address)
        arrays = iter([_array(v, table[i]) for i, v in enumerate(reads)])
        outs = [_array(v, table[len(reads) + i]) for i, v in enumerate(writes)]
        operands = [next(arrays)[()] if isinstance(o, View) else _fresh(o) for o in step.operands]
        for i in step.weak:
            operands[i] = operands[i].item()
        try:
            with np.errstate(all="ignore"):
                result = step.op.impl(*operands, **step.params)
        except Exception:
            if guarded:
                return address
            raise
        for out, part in zip(outs, result if step.op.many else (result,), strict=True):
            out[...] = part
        return None

    return call


def _fresh(operand: Any) -> Any:
    return operand[()] if isinstance(operand, np.ndarray) else operand


def _array(view: View, address: int | None) -> Any:
    """An array over memory that is there while the call lasts."""
    size = view.dtype.itemsize
    memory: Any = (ctypes.c_char * max(1, view.buffer.nbytes)).from_address(address) if address else bytearray(1)
    strides = [s * size for s in view.strides]
    return np.ndarray(view.shape, view.dtype, memory, view.offset * size, strides)
