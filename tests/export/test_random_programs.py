"""Random programs over mixed dtypes, through every exporter and its tool, and through a file.

ADJOINT_PROGRAMS says how many are tried, ADJOINT_SEED which ones.
"""

import os

import exported
import numpy as np
import pytest
import test_compiled_programs as random

import adjoint as ad
from adjoint.core.errors import UnsupportedError

CHUNK = 20
FIRST = 5000 + 1000 * int(os.environ.get("ADJOINT_SEED", "0"))


def programs(chunk):
    """(what, program, inputs) of those that can be staged: without an `if` on a value."""
    for number, steps, types, c in random.drawn(FIRST + chunk, CHUNK, random.SHAPES):
        if not random.ASK.isdisjoint(random.NAMES[s[0] % len(random.NAMES)] for s in steps):
            continue
        inputs = [x if x.ndim else x[()] for x in random.values(types, np.random.default_rng(number))]
        f = random.program(steps, random.LARGEST)
        with np.errstate(all="ignore"):
            program = ad.graph(lambda x, y, f=f, c=c: f(x, y, c))(*inputs)
        yield random.described(number, steps, types), program, inputs


@pytest.mark.parametrize("chunk", range(max(random.ASKED // CHUNK // 5, 1)))
@pytest.mark.parametrize("exporter", exported.RUNNERS)
def test_exported(exporter, chunk):
    cases = list(programs(chunk))
    results = exported.RUNNERS[exporter](cases)
    if isinstance(results, str):
        pytest.skip(results)
    for (what, program, inputs), found in zip(cases, results, strict=True):
        if not isinstance(found, UnsupportedError):
            expected = program.run(*inputs)
            expected = list(expected) if isinstance(expected, tuple) else [expected]
            if exporter == "numba":  # which computes singles and small integers in wider types
                found = [_narrowed(a, np.asarray(y)) for a, y in zip(found, expected, strict=True)]
            singles = [any(np.asarray(x).dtype == np.float32 for x in xs) for xs in (inputs, expected)]
            random.agree(found, expected, what, 2e7 if singles == [True, False] else 1.0)  # doubles may come from singles


def _narrowed(found, expected):
    found = np.asarray(found)
    return found.astype(expected.dtype) if found.dtype.kind == expected.dtype.kind else found


@pytest.mark.parametrize("chunk", range(max(random.ASKED // CHUNK // 5, 1)))
def test_saved(chunk, tmp_path):
    for what, program, inputs in programs(100_000 + chunk):
        loaded = ad.load(ad.save(tmp_path / "f", program))
        assert loaded == program, what
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (loaded.run(*inputs), program.run(*inputs))], strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), what
