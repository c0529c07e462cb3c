"""Programs for the vectors of WebAssembly."""

import numpy as np
import pytest
from export import node
from export.samples import LOOSE, agree, sample
from night import AT_NIGHT

from adjoint.export import wasm_vectors
from adjoint.export.program import parts
from adjoint.export.wasm_module import write

RELAXED = ["softmax", "product", "float32", "functions", "functions of singles", "scan", "a large constant"]
RELAXED += ["special functions"] if AT_NIGHT else []  # which take long to compile


def test_strides_are_steps_of_the_index():
    text = "\n".join(
        [
            "define internal void @kernel1(ptr %b0, i64 %i, i64 %j) {",
            "  %t1 = mul nsw i64 %i, 3",
            "  %t2 = add nsw i64 2, %t1",
            "  %t3 = getelementptr inbounds double, ptr %b0, i64 %t2",
            "  %t4 = add nsw i64 -2, %j",
            "  %t5 = add nsw i64 %t4, %t1",
            "  %t6 = getelementptr inbounds double, ptr %b0, i64 %t5",
        ]
    )
    made = wasm_vectors._strided(text).splitlines()
    assert "  %t3.row = getelementptr inbounds double, ptr %b0, i64 2" in made
    assert "  %t3 = getelementptr inbounds [3 x double], ptr %t3.row, i64 %i" in made
    assert made[-1] == text.splitlines()[-1]  # a row before the array is not in bounds
    routine = text.replace("@kernel1", "@product1")
    assert wasm_vectors._strided(routine) == routine


def extremes(x, y):
    chosen = np.where(x < 0.5, x, 0.5), np.where(x > 0.5, x, 0.5), np.where(x < 0.5, 0.5, x), np.where(x > y, y, x)
    return np.maximum(x, y), np.minimum(x, 1.0), np.maximum(0.5, x), np.max(x), np.min(y), np.exp(x), np.clip(x, -1, 1), *chosen


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{"simd": True}, {"relaxed": True}], ids=["simd", "relaxed"])
def test_extremes_of_nans(browser, tmp_path, dtype, options):
    """In Chromium, which has relaxed vectors; some versions of Node do not."""
    x = np.array([np.nan, 1.0, -0.25, 3.0, np.inf, -np.inf, 800.0, -800.0, 0.5, 0.25] * 3, dtype)
    y = np.roll(x, 1)
    made = parts(extremes, (x, y), name="extremes")
    with np.errstate(all="ignore"):
        check_in_chromium(browser, tmp_path, made, [x, y], list(map(np.asarray, made[0].graph.run_flat([x, y]))), options)
    for given in ([y[1:11].repeat(3), x], [x[1:2].repeat(30), y[1:2].repeat(30)]):  # without a nan at all, too
        with np.errstate(all="ignore"):
            wanted = list(map(np.asarray, made[0].graph.run_flat(given)))
        check_in_chromium(browser, tmp_path, made, given, wanted, options)


@pytest.mark.parametrize("name", RELAXED)
def test_relaxed_samples(browser, tmp_path, name):
    for part, inputs, wanted in sample(name):
        check_in_chromium(browser, tmp_path, [part], inputs, wanted, {"relaxed": True}, LOOSE.get(name, 1e-10))


def check_in_chromium(browser, folder, made, inputs, wanted, options, tolerance=1e-10):
    (part,) = made
    loader = write(made, "f.wasm", embed=True, **options).loader.replace("export async", "async")
    page = folder / "page.html"
    page.write_text(f"<!doctype html><script>const loading = (() => {{ {loader} return load(); }})();</script>")
    given = ", ".join(node.literal(x, t.dtype) for x, t in zip(inputs, part.graph.input_types, strict=True))
    names = f"[{', '.join(f'y.{n}' for n in part.output_names)}]" if len(part.output_names) > 1 else "[y]"
    text = f"{names}.map((v) => typeof v === 'number' ? [v] : Array.from(v)).map((v) => v.map((x) => String(+x)))"
    tab = browser.open(page.as_uri())
    tab.evaluate("loading.then((w) => { globalThis.wasm = w; })")
    found = node.json.loads(tab.evaluate(f"(() => {{ const y = wasm.{part.name}({given}); return JSON.stringify({text}); }})()"))
    tab.close()
    types = part.graph.output_types
    agree(
        [np.array(list(map(float, y))).astype(t.dtype).reshape(t.shape) for y, t in zip(found, types, strict=True)],
        wanted,
        part.name,
        tolerance,
    )


def test_relaxed_programs_fuse():
    """Multiplications and additions of vectors are one instruction; nothing else is relaxed."""
    made = parts(lambda x: (np.exp(x), np.where(x < 0.5, x, 0.5)), (np.ones(1000),), name="f")
    found = {}
    for options in ({"simd": True}, {"relaxed": True}):
        code = write(made, "f.wasm", **options).code
        numbers = list(wasm_vectors._vector_instructions(section(code)))
        found[next(iter(options))] = {n for n in numbers if n in wasm_vectors._RELAXED}
    assert found == {"simd": set(), "relaxed": {0x107}}


def section(code, wanted=10):
    at = 8
    while True:
        size, start = wasm_vectors._number(code, at + 1)
        if code[at] == wanted:
            return code[start : start + size]
        at = start + size
