"""Exported JavaScript and wasm, run by Node."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from browser import Browser

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


Calls = list[tuple[str, Part, list[Any]]]


def run(folder: Path, calls: Calls, loader: str = "") -> list[Any]:
    """Call functions of modules in a folder, in one process: for each (module, part, inputs), its flat results, or an error.

    `loader` makes the functions of a module from what it exports.
    """
    path = folder / "calls.mjs"
    path.write_text(script(calls, loader, "./{}".format) + "console.log(JSON.stringify(all));\n")
    done = subprocess.run([str(NODE), str(path)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return results(calls, done.stdout)


def run_in_page(browser: Browser, folder: Path, calls: Calls, loader: str = "") -> list[Any]:
    """The same in a page of a browser, without a server: the modules are part of the page."""

    def address(module: str) -> str:
        code = base64.b64encode((folder / module).read_bytes()).decode()
        return f"data:text/javascript;base64,{code}"

    text = script(calls, loader, address).replace("</", "<\\/")
    page = folder / "page.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><script type="module">{text}globalThis.answer = all;</script>')
    tab = browser.open(page.as_uri())
    waiting = "new Promise((done) => { const look = () => globalThis.answer ? done() : setTimeout(look, 20); look(); })"
    found = tab.evaluate(f"{waiting}.then(() => JSON.stringify(globalThis.answer))")
    assert not tab.complaints, tab.complaints
    tab.close()
    return results(calls, found)


def script(calls: Calls, loader: str, address: Callable[[str], str]) -> str:
    """A module that makes the calls, and leaves their results in `all`."""
    lines = [
        'const one = (y) => Object.is(y, -0) ? "-0" : String(y);',
        'const show = (x) => typeof x === "object" ? Array.from(x, one) : [typeof x === "boolean" ? String(+x) : one(x)];',
        "const all = [];",
    ]
    modules = list(dict.fromkeys(module for module, _, _ in calls))
    for i, module in enumerate(modules):
        lines.append(f'const m{i} = await import("{address(module)}");')
        lines.append(f"const f{i} = {loader.format(module=f'm{i}') if loader else f'm{i}'};")
    for module, part, inputs in calls:
        call = f"f{modules.index(module)}.{part.name}"
        given = ", ".join(literal(x, t.dtype) for x, t in zip(inputs, part.graph.input_types, strict=True))
        several = f"{json.dumps(list(part.output_names))}.map((n) => y[n])" if len(part.output_names) > 1 else "[y]"
        lines.append(f"try {{ const y = {call}({given}); all.push({several}.map(show)); }}")
        lines.append("catch (e) { all.push(String(e)); }")
    return "\n".join([*lines, ""])


def results(calls: Calls, text: str) -> list[Any]:
    """The results of calls, from the text that they have left."""
    made: list[Any] = []
    for (_, part, _), found in zip(calls, json.loads(text), strict=True):
        if isinstance(found, str):
            made.append(found)
            continue
        types = zip(found, part.graph.output_types, strict=True)
        arrays = [(np.array(list(map(_read(t.dtype), y)), PARTS.get(t.dtype, t.dtype)), t) for y, t in types]
        made.append([array.view(t.dtype).reshape(t.shape) for array, t in arrays])
    return made
