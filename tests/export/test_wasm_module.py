"""Exported WebAssembly under Node, and in Chromium: equal to the graph."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from export import node, typescript
from export.samples import LOOSE, SAMPLES, X, agree, exportable, random_samples, sample, share
from night import sampled

import adjoint as ad
from adjoint import export
from adjoint.export import javascript_module
from adjoint.export.javascript_module import ARRAYS
from adjoint.export.program import parts
from adjoint.export.wasm_module import declarations, write

needs_node = pytest.mark.skipif(not node.NODE, reason="Node is not installed; on Debian: apt-get install -y nodejs")
LOADED = "await {module}.load()"


def put(folder, name, made, **options):
    result = write(made, f"{name}.wasm", **options)
    (folder / f"{name}.wasm").write_bytes(result.code)
    (folder / f"{name}.mjs").write_text(result.loader)


@needs_node
@pytest.mark.parametrize("simd", [False, True])
def test_samples(simd, tmp_path, monkeypatch):
    """In one process of Node; without vectors, one in three."""
    monkeypatch.setitem(node.ARRAYS, "int64", "BigInt64Array")
    calls, wanted = [], []
    for i, name in enumerate(share("wasm") if simd else sampled(share("wasm"), 3)):
        samples = sample(name)
        put(tmp_path, f"sample{i}", [part for part, _, _ in samples], simd=simd)
        for part, inputs, results in samples:
            calls.append((f"sample{i}.mjs", part, inputs))
            wanted.append((f"{name}: {part.name}", results, LOOSE.get(name, 1e-11)))
    for found, (name, results, tolerance) in zip(node.run(tmp_path, calls, LOADED), wanted, strict=True):
        assert not isinstance(found, str), f"{name}: {found}"
        agree(found, results, name, tolerance)


@needs_node
def test_random_programs(tmp_path, monkeypatch):
    monkeypatch.setitem(node.ARRAYS, "int64", "BigInt64Array")
    taken = exportable(lambda made: put(tmp_path, made[0].name, made), random_samples())
    results = node.run(tmp_path, [(f"{made[0].name}.mjs", made[0], arrays) for _, made, arrays, _ in taken], LOADED)
    for (name, made, arrays, _), found in zip(taken, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = list(map(np.asarray, made[0].graph.run_flat(arrays)))
        assert not isinstance(found, str), f"{name}: {found}"
        agree(found, wanted, name, 1e-10)


def test_files(tmp_path):
    result = export.wasm(lambda x: np.sum(x**2), X, path=tmp_path / "energy.wasm", name="energy", derivatives="gradient")
    assert (tmp_path / "energy.wasm").read_bytes() == result.code
    assert 'new URL("./energy.wasm", import.meta.url)' in (tmp_path / "energy.js").read_text()
    assert "energy_gradient(x: Float64Array, out?: Float64Array): Float64Array;" in (tmp_path / "energy.d.ts").read_text()
    with pytest.raises(ad.AdjointError, match=r"ends in \.wasm"):
        export.wasm(lambda x: x, X, name="f", path=tmp_path / "f.js")
    for name in ("memory", "arrays", "then"):
        with pytest.raises(ad.AdjointError, match=f"cannot name a function '{name}'"):
            export.wasm(lambda x: x, X, name=name)


@needs_node
def test_functions_of_any_name(tmp_path):
    first = ["load", "source", "env", "instance", "fetch", "URL", "delete", "return", "double"]
    names = [*first, "c0", "constructor", "toString", "name", "length", "Promise", "x", "exported"]
    made = [part for name in names for part in parts(lambda x: x * 2, (3.0,), name=name)]
    put(tmp_path, "names", made)
    assert node.run(tmp_path, [("names.mjs", part, [3.0]) for part in made], LOADED) == [[6.0]] * len(made)


@typescript.needed
def test_declarations_are_typescript(tmp_path):
    lines = []
    for i, name in enumerate(SAMPLES):
        made = [part for part, _, _ in sample(name)]
        (tmp_path / f"sample{i}.d.mts").write_text(declarations(made))
        lines.append(f'import {{ load as load{i} }} from "./sample{i}.mjs"; const m{i} = await load{i}();')
        lines += [typescript.use(f"m{i}", part, i, {**ARRAYS, "int64": "BigInt64Array"}) for part in made]
    typescript.check(tmp_path, lines)


@needs_node
def test_arrays_in_its_memory_are_not_copied(tmp_path):
    f = lambda x, c: np.sum(x**2) * c
    made = parts(f, (X, 2.0), {}, derivatives="gradient", argnums=0, name="f")
    put(tmp_path, "f", made)
    assert "arrays: {" in write(made, "f.wasm").declarations
    (tmp_path / "main.mjs").write_text("""
import { load } from "./f.mjs";
const m = await load();
const { x, x_bar } = m.arrays.f_gradient;
x.set([3, 4, 5].concat(Array(x.length - 3).fill(1)));
const out = m.f_gradient(x, 0.5, x_bar);
console.log(JSON.stringify([out === x_bar, out.buffer === m.memory.buffer, Array.from(out)]));
console.log(JSON.stringify([Array.from(m.f_gradient(Float64Array.from(x), 2)), Object.keys(m.arrays.f)]));
""")
    done = subprocess.run([node.NODE, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    (same, inside, values), (copied, names) = map(json.loads, done.stdout.splitlines())
    assert same
    assert inside
    assert values[:4] == [3.0, 4.0, 5.0, 1.0]
    assert copied[:4] == [12.0, 16.0, 20.0, 4.0]
    assert names == ["x"]


def test_no_import_but_memory(tmp_path):
    """Checked as the module is linked: every function that needs wide integers, copies or rounding."""
    for name in ("functions", "functions of two", "functions of singles", "while", "casts"):
        write([part for part, _, _ in sample(name)], "f.wasm")


def test_in_chromium(browser, tmp_path):
    """Both modules in a page: no server, so the scripts are in it."""
    samples = sample("shifted")
    made = [part for part, _, _ in samples]
    loader = write(made, "f.wasm", simd=True, embed=True).loader.replace("export async", "async")
    module = javascript_module.write(made).source.replace("export function", "function")
    page = tmp_path / "page.html"
    page.write_text(
        f"<!doctype html><script>const js = (() => {{ {module} return {{ {', '.join(p.name for p in made)} }}; }})();</script>"
        f"<script>const loading = (() => {{ {loader} return load(); }})();</script>"
    )
    tab = browser.open(page.as_uri())
    for part, inputs, wanted in samples:
        given = ", ".join(node.literal(x, t.dtype) for x, t in zip(inputs, part.graph.input_types, strict=True))
        several = len(part.output_names) > 1
        for functions in ("js", "wasm"):
            call = f"{functions}.{part.name}({given})"
            answer = (
                f"(() => {{ const y = {call}; return JSON.stringify("
                + (f"[{', '.join(f'y.{n}' for n in part.output_names)}]" if several else "[y]")
                + ".map((v) => typeof v === 'number' ? [v] : Array.from(v))); })()"
            )
            if functions == "wasm":
                tab.evaluate("loading.then((w) => { globalThis.wasm = w; })")
            found = node.json.loads(tab.evaluate(answer))
            arrays = [np.array(y, t.dtype).reshape(t.shape) for y, t in zip(found, part.graph.output_types, strict=True)]
            agree(arrays, wanted, f"{part.name} in {functions}")
