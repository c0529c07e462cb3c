"""Exported C, compiled and called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.export.c_source import Source, write
from adjoint.export.program import Part, parts

STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
_TYPES = {
    np.dtype(np.float64): ctypes.c_double,
    np.dtype(np.float32): ctypes.c_float,
    np.dtype(bool): ctypes.c_bool,
    **{np.dtype(f"{u}int{n}"): getattr(ctypes, f"c_{u}int{n}") for u in ("", "u") for n in (8, 16, 32, 64)},
}
_MEMBER = re.compile(r"^  (double|float|u?int(?:8|16|32|64)_t|char) \w+(?:\[(\d+)\])?;$", re.MULTILINE)
_SIZES = {"double": 8, "float": 4, "char": 1} | {f"{u}int{n}_t": n // 8 for u in ("", "u") for n in (8, 16, 32, 64)}


class Library:
    """The functions of one file, called with arrays: `library(part, inputs)` gives the flat results."""

    def __init__(self, source: Source, folder: Path, name: str, compiler: str = "gcc", flags: tuple[str, ...] = ("-O1",)) -> None:
        key = hashlib.sha256((source.source + compiler + " ".join(flags)).encode()).hexdigest()[:16]
        base = folder / key
        base.mkdir(exist_ok=True)
        (base / f"{name}.c").write_text(source.source)
        (base / f"{name}.h").write_text(source.header)
        made = base / "library.so"
        libraries = [flag for flag in flags if flag.startswith("-l")]
        command = [compiler, *STRICT, *flags, "-shared", "-fPIC", str(base / f"{name}.c"), "-o", str(made), *libraries, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        self.library = ctypes.CDLL(str(made))
        self.work = np.zeros(sum(_SIZES[kind] * int(n or 1) for kind, n in _MEMBER.findall(source.header)) + 64, np.uint8)

    def __call__(self, part: Part, inputs: list[Any]) -> list[Any]:
        g = part.graph
        given: list[Any] = []
        kept = []
        for x, t in zip(inputs, g.input_types, strict=True):
            array = np.array(x, t.dtype, order="C")  # kept alive; a copy, which must not change
            kept.append((array, array.copy()))
            given.append(
                _TYPES[t.dtype](array[()]) if t.shape == () and t.dtype in _TYPES else ctypes.c_void_p(array.ctypes.data)
            )
        outs = [np.full(t.shape, 7, t.dtype) for t in g.output_types]
        given += [ctypes.c_void_p(out.ctypes.data) for out in outs]
        status = getattr(self.library, part.name)(*given, ctypes.c_void_p(self.work.ctypes.data))
        assert all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in kept), "an input was written to"
        if status:
            raise ArithmeticError(status)
        return outs


def compiled(folder: Path, f: Any, *args: Any, compiler: str = "gcc", flags: tuple[str, ...] = ("-O1",), **options: Any) -> Any:
    """A library, and the parts in it."""
    ways = options.pop("math", "libm"), options.pop("blas", None), options.pop("lapack", None)
    made = parts(f, args, options.pop("kwargs", {}), **options)
    return Library(write(made, *ways), folder, made[0].name, compiler, flags), made
