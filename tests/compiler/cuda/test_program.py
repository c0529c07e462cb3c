"""Random programs and their derivatives in the simulator: as on the CPU, whatever the order of the threads within a phase."""

import numpy as np
import pytest
import test_compiled_programs as programs
from night import asked
from on_device import both_orders, on_cpu

from adjoint.compiler.cuda import layout

ASKED = asked(12, at_night=75)
CHUNK = 12


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
    for f, args, what in programs.derived(6000 + chunk, CHUNK):
        check(f, args, what, loose=100.0)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // 75)))
def test_large_programs(chunk):
    """Reductions in lanes and pieces."""
    for number, steps, types, c in programs.drawn(7000 + chunk, 5, programs.LARGE, longest=5):
        f = programs.program(steps, 200_000)
        check(f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK)))
def test_programs_with_several_points_a_thread(chunk, monkeypatch):
    """As large arrays have them: vectors, the rest of a row, flags and places of sums at each point."""
    monkeypatch.setattr(layout, "SEVERAL", 1)
    monkeypatch.setattr(layout, "SHORT", 10_000)
    for number, steps, types, c in programs.drawn(8000 + chunk, CHUNK, programs.SHAPES):
        f = programs.program(steps, programs.LARGEST)
        check(f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [layout.SEVERAL - 1, layout.SEVERAL, 2 * layout.SEVERAL + 5])
@pytest.mark.parametrize("at", [0, 3, -1])
def test_flags_over_many_points(n, at):
    f = lambda x: (np.all(x > 0), np.any(x > 3), np.sin(x))
    for value in (1.0, -1.0, 4.0):
        x = np.ones(n)
        x[at] = value
        found, _ = both_orders(f, (x,))
        assert [bool(y) for y in found[:2]] == [value > 0, value > 3]
