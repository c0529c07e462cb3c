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
from adjoint.export.lowering import lower
from adjoint.export.object_file import compiled, program
from adjoint.export.program import Part, parts

NO_GCC = "no C compiler; on Debian: apt-get install -y gcc"
NO_NODE = "Node is not installed; on Debian: apt-get install -y nodejs"


def run_c(cases: Any, write: Any = c_source.write) -> Any:
    if not COMPILERS:
        return NO_GCC
    found = _parts(cases, "export.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Library(write(_accepted(found)), Path(folder), _accepted(found)[0].name, COMPILERS[0], ("-O0",))
        return _called(found, cases, library)


def run_object(cases: Any) -> Any:
    if not COMPILERS:
        return NO_GCC
    found = _parts(cases, "export.object")
    text, arena = program(_accepted(found), "export.object")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "all.o").write_bytes(compiled(text))
        subprocess.run(["gcc", "-shared", "-o", "all.so", "all.o", "-lm"], cwd=folder, check=True)
        library = Library.__new__(Library)
        library.library = ctypes.CDLL(str(Path(folder, "all.so")))
        library.work = np.zeros(arena + 64, np.uint8)
        return _called(found, cases, library)


def run_javascript(cases: Any) -> Any:
    def write(folder: str, parts: list[Part]) -> None:
        Path(folder, "all.mjs").write_text(javascript_module.write(parts).source)

    return _run_node(cases, "export.javascript", write, "")


def run_wasm(cases: Any) -> Any:
    def write(folder: str, parts: list[Part]) -> None:
        result = wasm_module.write(parts, "all.wasm")
        Path(folder, "all.mjs").write_text(result.loader)
        Path(folder, "all.wasm").write_bytes(result.code)

    with mock.patch.dict(node.ARRAYS, {"int64": "BigInt64Array"}):
        return _run_node(cases, "export.wasm", write, "await {module}.load()")


def _run_node(cases: Any, exporter: str, write: Any, loader: str) -> Any:
    if not node.NODE:
        return NO_NODE
    found = _parts(cases, exporter)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, _accepted(found))
        calls = [("all.mjs", part, inputs) for part, (*_, inputs) in zip(found, cases, strict=True) if isinstance(part, Part)]
        results = iter(node.run(Path(folder), calls, loader))
        return [next(results) if isinstance(part, Part) else part for part in found]


def _parts(cases: Any, exporter: str) -> list[Any]:
    """For each case a function with a name of its own, or the refusal. One module, compiled once, has all functions."""
    found: list[Any] = []
    for i, (name, case, _) in enumerate(cases):
        (part,) = parts(case, (), name=f"op{i}_{name}"[:80] + "_")
        try:
            (javascript_module.write if exporter == "export.javascript" else _lowered)([part])
            found.append(part)
        except UnsupportedError as error:
            found.append(error)
    return found


def _lowered(made: list[Part]) -> None:
    lower(made[0].graph, "export")


def _accepted(found: list[Any]) -> list[Part]:
    return [part for part in found if isinstance(part, Part)]


def _called(found: list[Any], cases: Any, library: Library) -> list[Any]:
    return [library(part, inputs) if isinstance(part, Part) else part for part, (*_, inputs) in zip(found, cases, strict=True)]


RUNNERS = {"c": run_c, "object": run_object, "javascript": run_javascript, "wasm": run_wasm}
