"""Runs many programs through one exporter and its tool: for each (name, program, inputs) the flat results, or the refusal.

A runner whose tool is missing returns why, as a string.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from export import node
from export.c_compiler import COMPILERS, Library

from adjoint.core.errors import UnsupportedError
from adjoint.export import c_source, javascript_module, wasm_module
from adjoint.export.object_file import compiled, program
from adjoint.export.program import parts

NO_GCC = "no C compiler; on Debian: apt-get install -y gcc"
NO_NODE = "Node is not installed; on Debian: apt-get install -y nodejs"


def run_c(cases: Any, write: Any = c_source.write) -> Any:
    if not COMPILERS:
        return NO_GCC
    with tempfile.TemporaryDirectory() as folder:
        return [
            made
            if isinstance(made, UnsupportedError)
            else Library(made[1], Path(folder), made[0][0].name, COMPILERS[0], ("-O0",))(made[0][0], inputs)
            for made, inputs in ((_written(name, case, write), inputs) for name, case, inputs in cases)
        ]


def _written(name: str, case: Any, write: Any) -> Any:
    """The parts of a case, and what an exporter writes for it; or the refusal."""
    made = parts(case, (), name=f"op_{name}_")
    try:
        return made, write(made)
    except UnsupportedError as error:
        return error


def run_object(cases: Any) -> Any:
    if not COMPILERS:
        return NO_GCC
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, case, inputs) in enumerate(cases):
            made = _written(name, case, lambda made: program(made, "export.object"))
            if isinstance(made, UnsupportedError):
                found.append(made)
                continue
            Path(folder, f"{i}.o").write_bytes(compiled(made[1][0]))
            subprocess.run(["gcc", "-shared", "-o", f"{i}.so", f"{i}.o", "-lm"], cwd=folder, check=True)
            library = Library.__new__(Library)
            library.library = ctypes.CDLL(str(Path(folder, f"{i}.so")))
            library.work = np.zeros(made[1][1] + 64, np.uint8)
            found.append(library(made[0][0], inputs))
    return found


def run_javascript(cases: Any) -> Any:
    return _run_node(
        cases, lambda folder, i, made: Path(folder, f"m{i}.mjs").write_text(javascript_module.write(made).source), ""
    )


def run_wasm(cases: Any) -> Any:
    def write(folder: str, i: int, made: Any) -> None:
        result = wasm_module.write(made, f"m{i}.wasm")
        Path(folder, f"m{i}.mjs").write_text(result.loader)
        Path(folder, f"m{i}.wasm").write_bytes(result.code)

    with mock.patch.dict(node.ARRAYS, {"int64": "BigInt64Array"}):
        return _run_node(cases, write, "await {module}.load()")


def _run_node(cases: Any, write: Any, loader: str) -> Any:
    if not node.NODE:
        return NO_NODE
    with tempfile.TemporaryDirectory() as folder:
        made = [_written(name, case, lambda p, i=i: write(folder, i, p)) for i, (name, case, _) in enumerate(cases)]
        calls = [(f"m{i}.mjs", m[0][0], cases[i][2]) for i, m in enumerate(made) if not isinstance(m, UnsupportedError)]
        results = iter(node.run(Path(folder), calls, loader))
        return [m if isinstance(m, UnsupportedError) else next(results) for m in made]


RUNNERS = {"c": run_c, "object": run_object, "javascript": run_javascript, "wasm": run_wasm}
