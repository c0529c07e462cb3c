"""Exported JavaScript under Node: equal to the graph."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import scipy.special
from export import node, typescript
from export.samples import LOOSE, SAMPLES, X, agree, exportable, random_samples, sample, share

import adjoint as ad
from adjoint import export
from adjoint.export.javascript_module import write

pytestmark = pytest.mark.skipif(not node.NODE, reason="Node is not installed; on Debian: apt-get install -y nodejs")


def test_samples(tmp_path):
    """In one process of Node."""
    calls, wanted = [], []
    for i, name in enumerate(share("javascript")):
        samples = sample(name)
        (tmp_path / f"sample{i}.mjs").write_text(write([part for part, _, _ in samples]).source)
        for part, inputs, results in samples:
            calls.append((f"sample{i}.mjs", part, inputs))
            wanted.append((f"{name}: {part.name}", results, LOOSE.get(name, 1e-11)))
    for found, (name, results, tolerance) in zip(node.run(tmp_path, calls), wanted, strict=True):
        assert not isinstance(found, str), f"{name}: {found}"
        agree(found, results, name, tolerance)


def test_random_programs(tmp_path):
    taken = exportable(write, random_samples())
    for i, (_, _, _, source) in enumerate(taken):
        (tmp_path / f"program{i}.mjs").write_text(source.source)
    results = node.run(tmp_path, [(f"program{i}.mjs", made[0], arrays) for i, (_, made, arrays, _) in enumerate(taken)])
    for (name, made, arrays, _), found in zip(taken, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = list(map(np.asarray, made[0].graph.run_flat(arrays)))
        assert not isinstance(found, str), f"{name}: {found}"
        agree(found, wanted, name, 1e-10)


def run(tmp_path, text):
    (tmp_path / "main.mjs").write_text(text)
    done = subprocess.run([str(node.NODE), "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_calls(tmp_path):
    export.javascript(lambda x: np.sum(x**2), np.ones(3), path=tmp_path / "energy.mjs", name="energy", derivatives="gradient")
    lines = run(
        tmp_path,
        """
import { energy, energy_gradient } from "./energy.mjs";
const x = Float64Array.of(1, 2, 3), out = new Float64Array(3);
console.log(energy(x));
console.log(energy_gradient(x, out) === out, out.join());
for (const wrong of [[1, 2, 3], Float64Array.of(1), new Float32Array(3)]) {
  try { energy(wrong); } catch (e) { console.log(e.message); }
}
try { energy_gradient(x, x.subarray(1)); } catch (e) { console.log(e.message); }
""",
    )
    message = "energy: x must be a Float64Array of length 3"
    assert lines[:6] == ["14", "true 2,4,6", *[message] * 3, "energy_gradient: out must be a Float64Array of length 3"]


def test_failures_are_thrown(tmp_path):
    export.javascript(lambda x, i: x[i], X, np.array([0, 1]), path=tmp_path / "take.mjs", name="take")

    def looped(a, xs):
        return ad.scan(lambda c, x: (np.linalg.solve(c, np.eye(2)) + x, x), a, xs)[0]

    export.javascript(looped, np.eye(2), np.zeros(3), path=tmp_path / "looped.mjs")
    lines = run(
        tmp_path,
        """
import { take } from "./take.mjs";
import { looped } from "./looped.mjs";
try { take(new Float64Array(6), Float64Array.of(0, 6)); } catch (e) { console.log(e.message); }
try { looped(new Float64Array(4), new Float64Array(3)); } catch (e) { console.log(e.message); }
""",
    )
    assert lines[:2] == ["take: an index is out of bounds", "looped: a matrix is singular"]


LARGE = 2**52 + 1
INTEGERS = {
    "a product": (lambda n, m: n * m, (94906265, 94906265), (94906267, 94906267)),
    "a negative product": (lambda n, m: n * m, (-94906265, 94906265), (-94906267, 94906267)),
    "a sum": (lambda n, m: n + m, (LARGE, LARGE - 3), (LARGE, LARGE)),
    "a difference": (lambda n, m: n - m, (LARGE, 3 - LARGE), (LARGE, -LARGE)),
    "a sum of an array": (lambda n, m: np.sum(n * np.arange(4)) + m, (2**49, 0), (2**52, 0)),
    "a shift": (lambda n, m: n << m, (1, 52), (1, 53)),
    "bits of a product": (lambda n, m: (n * m + 12345) & 0x7FFFFFFF, (42, 1103515245), (2**31 - 1, 1103515245)),
    "a carry": (lambda n, m: ad.fori_loop(0, 8, lambda i, c: c * m, n), (3, 5), (3, 125)),
    "a complement": (lambda n, m: ~n + m, (LARGE, 0), (-(2**53) + 1, 2)),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_that_a_number_does_not_hold_are_refused(name, tmp_path):
    f, exact, beyond = INTEGERS[name]
    export.javascript(f, np.int64(1), np.int64(1), path=tmp_path / "f.mjs", name="f")
    calls = "".join(
        f"try {{ console.log(f({n}, {m})) }} catch (e) {{ console.log(e.name, e.message) }}\n" for n, m in (exact, beyond)
    )
    value, error = run(tmp_path, 'import { f } from "./f.mjs";\n' + calls)[:2]
    assert int(value) == int(f(*map(np.int64, exact)))
    assert error.startswith("RangeError an int64 has reached 2^53")


def test_declarations(tmp_path):
    result = export.javascript(lambda x, n: (np.sum(x), x > n), X, 2.0, path=tmp_path / "pair.mjs", name="pair")
    assert (
        "export function pair(x: Float64Array, n: number, out?: { y1?: Uint8Array }): { y0: number; y1: Uint8Array };"
        in result.declarations
    )
    assert (tmp_path / "pair.d.mts").read_text() == result.declarations


@typescript.needed
def test_declarations_are_typescript(tmp_path):
    """Those of all samples, used with every argument and result, by the compiler."""
    lines = []
    for i, name in enumerate(SAMPLES):
        made = [part for part, _, _ in sample(name)]
        (tmp_path / f"sample{i}.d.mts").write_text(write(made).declarations)
        lines.append(f'import * as m{i} from "./sample{i}.mjs";')
        lines += [typescript.use(f"m{i}", part, i) for part in made]
    typescript.check(tmp_path, lines)


@typescript.needed
def test_wrong_calls_are_refused_by_typescript(tmp_path):
    export.javascript(lambda x, n: (np.sum(x), x > n), X, 2.0, path=tmp_path / "pair.mjs", name="pair")
    right = [
        'import { pair } from "./pair.mjs";',
        "const x = new Float64Array(6);",
        "const y: number = pair(x, 1).y0;",
        "pair(x, 1, {});",
        "const z: Uint8Array = pair(x, 1, { y1: new Uint8Array(6) }).y1;",
    ]
    wrong = ["pair(x);", "pair([1], 1);", "pair(x, x);", "const s: string = pair(x, 1).y0;", "pair(x, 1, { y2: x });"]
    found = typescript.errors(tmp_path, [*right, *wrong])
    assert sorted(found) == list(range(len(right) + 1, len(right) + len(wrong) + 1)), found


def test_refusals(tmp_path):
    with pytest.raises(ad.AdjointError, match=r"export\.javascript has no code for 'hyperu'"):
        export.javascript(lambda x: scipy.special.hyperu(0.5, 1.5, x), X, name="f")
    for name in ("delete", "then", "Math", "kernel3", "all_f64"):
        with pytest.raises(ad.AdjointError, match=f"cannot name a function '{name}'"):
            export.javascript(lambda x: x, X, name=name)
    with pytest.raises(ad.AdjointError, match=r"ends in \.js"):
        export.javascript(lambda x: x, X, name="f", path=tmp_path / "f.c")
