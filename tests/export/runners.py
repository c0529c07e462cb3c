"""Runs many programs through one exporter and its tool: for each (name, program, inputs) the flat results, or the refusal.

A runner whose tool is missing returns why, as a string.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import browser
import numpy as np
from export import node
from export.c_compiler import COMPILERS, Library

from adjoint.core.errors import UnsupportedError
from adjoint.export import c_source, javascript_module, lowering, object_file, wasm_module
from adjoint.export.lowering import lower
from adjoint.export.object_file import compiled, program
from adjoint.export.program import Part, parts

NO_GCC = "no C compiler; on Debian: apt-get install -y gcc"
NO_NODE = "Node is not installed; on Debian: apt-get install -y nodejs"


def run_c(cases: Any, write: Any = c_source.write, compiler: str = "") -> Any:
    if not COMPILERS:
        return NO_GCC
    if compiler and compiler not in COMPILERS:
        return f"no {compiler}; on Debian: apt-get install -y {compiler}"
    with _lowered_once(), tempfile.TemporaryDirectory() as folder:
        found = _parts(cases, "export.c")
        library = Library(write(_accepted(found)), Path(folder), _accepted(found)[0].name, compiler or COMPILERS[0], ("-O0",))
        return _called(found, cases, library)


def run_object(cases: Any) -> Any:
    if not COMPILERS:
        return NO_GCC
    with _lowered_once():
        found = _parts(cases, "export.object")
        text, arena = program(_accepted(found), "export.object")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "all.o").write_bytes(compiled(text))
        subprocess.run(["gcc", "-shared", "-o", "all.so", "all.o", "-lm"], cwd=folder, check=True)
        library = Library.__new__(Library)
        library.library = ctypes.CDLL(str(Path(folder, "all.so")))
        library.work = np.zeros(arena + 64, np.uint8)
        return _called(found, cases, library)


def run_javascript(cases: Any, in_page: bool = False) -> Any:
    def write(folder: str, parts: list[Part]) -> None:
        Path(folder, "all.mjs").write_text(javascript_module.write(parts).source)

    return _run_modules(cases, "export.javascript", write, "", in_page)


def run_wasm(cases: Any, in_page: bool = False) -> Any:
    def write(folder: str, parts: list[Part]) -> None:
        result = wasm_module.write(parts, "all.wasm", simd=in_page, embed=in_page)
        Path(folder, "all.mjs").write_text(result.loader)
        Path(folder, "all.wasm").write_bytes(result.code)

    with mock.patch.dict(node.ARRAYS, {"int64": "BigInt64Array"}):
        return _run_modules(cases, "export.wasm", write, "await {module}.load()", in_page)


def _run_modules(cases: Any, exporter: str, write: Any, loader: str, in_page: bool) -> Any:
    """By Node, or in a page of Chromium."""
    if in_page and not browser.executable():
        return browser.INSTALL
    if not in_page and not node.NODE:
        return NO_NODE
    with tempfile.TemporaryDirectory() as folder:
        with _lowered_once():
            found = _parts(cases, exporter)
            write(folder, _accepted(found))
        calls = [("all.mjs", part, inputs) for part, (*_, inputs) in zip(found, cases, strict=True) if isinstance(part, Part)]
        with browser.Browser() if in_page else contextlib.nullcontext() as opened:
            made = (
                node.run(Path(folder), calls, loader) if opened is None else node.run_in_page(opened, Path(folder), calls, loader)
            )
        results = iter(made)
        return [next(results) if isinstance(part, Part) else part for part in found]


@contextlib.contextmanager
def _lowered_once() -> Iterator[None]:
    """Meanwhile a function that was lowered to find out whether it is refused is written from these steps."""
    kept: dict[Any, Any] = {}

    def once(graph: Any, exporter: str, lapack: bool = False) -> Any:
        if (id(graph), lapack) not in kept:
            kept[id(graph), lapack] = graph, lowering.lower(graph, exporter, lapack)  # the graph is kept alive, for its id
        return kept[id(graph), lapack][1]

    with contextlib.ExitStack() as patches:
        for module in (c_source, javascript_module, object_file, sys.modules[__name__]):
            patches.enter_context(mock.patch.object(module, "lower", once))
        yield


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


#: The tools that run what others have run too: by exporter, and their name.
SECOND_TOOLS = {
    ("c", "clang"): lambda cases: run_c(cases, compiler="clang"),
    ("javascript", "Chromium"): lambda cases: run_javascript(cases, in_page=True),
    ("wasm", "Chromium"): lambda cases: run_wasm(cases, in_page=True),
}
RUNNERS = {"c": run_c, "object": run_object, "javascript": run_javascript, "wasm": run_wasm}
