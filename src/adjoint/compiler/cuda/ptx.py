"""PTX out of LLVM's text, and `ptxas`, which checks it without a GPU."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from ..runtime import cache
from .text import TRIPLE


@functools.cache
def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


def ptx(text: str, processor: str = "sm_70") -> str:
    """The PTX of a module. Code for a processor also runs on all later ones."""
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    machine = _target().create_target_machine(cpu=processor, opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


class Use(NamedTuple):
    """The resources of a kernel."""

    registers: int
    spilled: int  # bytes
    shared: int  # bytes


@functools.cache
def assembler() -> str | None:
    """The program `ptxas`: of the package nvidia-cuda-nvcc-cu12, or on the path."""
    spec = _package("nvidia.cuda_nvcc")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "bin", "ptxas")
        if os.path.exists(path):
            return path
    return shutil.which("ptxas")


@functools.cache
def knows(processor: str) -> bool:
    """Whether `ptxas` is installed and supports a processor: CUDA 13 dropped the oldest."""
    program = assembler()
    if program is None:
        return False
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return f"'{processor}'" in done.stdout


def _package(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def assembled(text: str, processor: str) -> dict[str, Use]:
    """Run PTX through `ptxas`: the resources of each kernel. A refusal is an error with its message."""
    return linked(text, processor)[1]


def linked(text: str, processor: str) -> tuple[bytes, dict[str, Use]]:
    """The machine code that `ptxas` makes of PTX, and what each kernel uses."""
    program = assembler()
    if program is None:
        raise FileNotFoundError("ptxas is neither on the path nor in the package nvidia-cuda-nvcc-cu12; install one of them")
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "program.ptx")
        with open(source, "w") as file:
            file.write(text)
        target = os.path.join(folder, "program.cubin")
        command = [program, "-v", f"-arch={processor}", source, "-o", target]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ptxas refuses the program for {processor}:\n{done.stderr}")
        with open(target, "rb") as made:
            code = made.read()
    return code, {name: _use(what) for name, what in _KERNEL.findall(done.stderr)}


_KERNEL = re.compile(r"Compiling entry function '(\w+)'[^\n]*\n(.*?)(?=ptxas info\s*: Compiling|\Z)", re.DOTALL)


def _use(text: str) -> Use:
    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else 0

    return Use(number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes smem"))


def machine_code(text: str, processor: str, link: Callable[[str], bytes], versions: Sequence[str] = ()) -> bytes:
    """The machine code (cubin) of a module for a GPU. It is cached on disk, next to that for this processor.

    `link` makes it of PTX; `versions` are those of what `link` uses.
    """
    name = cache.key("cubin", text, processor, ".".join(map(str, llvm.llvm_version_info)), *versions)
    code = cache.read(name)
    if code is None:
        code = link(ptx(text, processor))
        cache.write(name, code)
    return code
