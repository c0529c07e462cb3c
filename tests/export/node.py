"""Exported JavaScript and wasm, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.compiler.lower.kernel import PARTS
from adjoint.export import javascript_module
from adjoint.export.program import Part

NODE = shutil.which("node")
ARRAYS = dict(javascript_module.ARRAYS)


def number(x: Any) -> str:
    """A number as JavaScript reads it, -0 and nan included."""
    if isinstance(x, bool):
        return str(int(x))
    if isinstance(x, int):
        return str(x)
    return "NaN" if np.isnan(x) else repr(x).replace("inf", "Infinity")


def literal(x: Any, dtype: Any) -> str:
    array = np.asarray(x, dtype)
    if dtype in PARTS:  # pairs of real numbers
        array, dtype = np.ascontiguousarray(array).reshape(-1).view(PARTS[dtype]), PARTS[dtype]
    big = "n" * ARRAYS[dtype.name].startswith("Big")
    if array.shape == ():
        big = "n" * (array.dtype == np.uint64)
        return number(array.item()) + big if array.dtype.kind != "b" else str(bool(array)).lower()
    return f"new {ARRAYS[dtype.name]}([{', '.join(number(x) + big for x in array.ravel().tolist())}])"


def _read(dtype: Any) -> Any:
    """How the text of a number is read."""
    return float if dtype.kind in "fc" else int if ARRAYS[dtype.name].startswith("Big") else lambda text: int(float(text))


def run(folder: Path, calls: list[tuple[str, Part, list[Any]]], loader: str = "") -> list[Any]:
    """Call functions of modules in a folder, in one process: for each (module, part, inputs), its flat results, or an error.

    `loader` makes the functions of a module from what it exports.
    """
    lines = [
        'const one = (y) => Object.is(y, -0) ? "-0" : String(y);',
        'const show = (x) => typeof x === "object" ? Array.from(x, one) : [typeof x === "boolean" ? String(+x) : one(x)];',
        "const all = [];",
    ]
    modules = list(dict.fromkeys(module for module, _, _ in calls))
    for i, module in enumerate(modules):
        lines.append(f'const m{i} = await import("./{module}");')
        lines.append(f"const f{i} = {loader.format(module=f'm{i}') if loader else f'm{i}'};")
    for module, part, inputs in calls:
        call = f"f{modules.index(module)}.{part.name}"
        given = ", ".join(literal(x, t.dtype) for x, t in zip(inputs, part.graph.input_types, strict=True))
        several = f"{json.dumps(list(part.output_names))}.map((n) => y[n])" if len(part.output_names) > 1 else "[y]"
        lines.append(f"try {{ const y = {call}({given}); all.push({several}.map(show)); }}")
        lines.append("catch (e) { all.push(String(e)); }")
    lines.append("console.log(JSON.stringify(all));")
    script = folder / "calls.mjs"
    script.write_text("\n".join(lines))
    done = subprocess.run([str(NODE), str(script)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    results: list[Any] = []
    for (_, part, _), found in zip(calls, json.loads(done.stdout), strict=True):
        if isinstance(found, str):
            results.append(found)
            continue
        types = zip(found, part.graph.output_types, strict=True)
        arrays = [(np.array(list(map(_read(t.dtype), y)), PARTS.get(t.dtype, t.dtype)), t) for y, t in types]
        results.append([array.view(t.dtype).reshape(t.shape) for array, t in arrays])
    return results
