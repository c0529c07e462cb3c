"""Random programs and their derivatives in the simulator: as on the CPU, whatever the order of the threads within a phase."""

import os

import numpy as np
import pytest
import test_compiled_programs as programs
from on_device import both_orders, on_cpu

ASKED = int(os.environ.get("ADJOINT_PROGRAMS", 75))
CHUNK = 25


def check(f, args, what, loose=10.0):
    found, _ = both_orders(f, args)
    programs.agree(list(found), on_cpu(f, args), what, loose=loose)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK)))
def test_programs(chunk):
    for number, steps, types, c in programs.drawn(5000 + chunk, CHUNK, programs.SHAPES):
        f = programs.program(steps, programs.LARGEST)
        check(f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 3)))
def test_derivatives(chunk):
    for number, steps, types, c in programs.drawn(6000 + chunk, CHUNK, programs.SHAPES, longest=6):
        f = programs.program(steps, programs.LARGEST)
        rng = np.random.default_rng(number)
        types = [(shape, dtype if np.dtype(dtype).kind == "f" else np.float64) for shape, dtype in types]
        xs, ts = tuple(programs.values(types, rng)), tuple(programs.values(types, rng))
        with np.errstate(all="ignore"):
            gs = [rng.uniform(-1, 1, np.shape(y)).astype(y.dtype)[()] for y in programs.floats(f(*xs, c))]
        if gs:
            check(programs.derivatives(f, c), (xs, ts, gs), programs.described(number, steps, types), loose=100.0)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // 75)))
def test_large_programs(chunk):
    """Reductions in lanes and pieces."""
    for number, steps, types, c in programs.drawn(7000 + chunk, 5, programs.LARGE, longest=5):
        f = programs.program(steps, 200_000)
        check(f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))
