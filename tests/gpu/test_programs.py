"""Random programs on a GPU: as on the CPU; where no library takes part, bitwise as in the simulator and on the next run."""

import os

import numpy as np
import pytest
import row_programs
import test_compiled_programs as programs
from on_device import on_cpu, program, same_bits
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda.schedule import AddAt, Launch
from adjoint.compiler.cuda.tiles import Tile
from adjoint.core.errors import ConversionError

ASKED = int(os.environ.get("ADJOINT_PROGRAMS", 100))
CHUNK = 25


def check(gpu, f, args, what, loose=10.0):
    try:
        made, inputs = program(f, args, gpu)
    except ConversionError as error:  # a derivative of a function that asks for the type of a traced number
        assert str(error).startswith("type() of a traced value")  # noqa: PT017
        return
    found = [gpu.host(y) for y in made(*inputs)]
    programs.agree(found, on_cpu(f, args), what, loose=loose)
    for _ in range(1 if made.replays is None else 3):  # met again, captured, replayed
        for a, b in zip(found, made(*inputs), strict=True):
            same_bits(a, gpu.host(b))
    assert made.replays is None or not made.replays.refused
    if all(isinstance(step, (Launch, AddAt, Tile)) for step in made.lowered.steps):
        simulated, inputs = program(f, args, Simulator())
        for a, b in zip(found, simulated(*inputs), strict=True):
            same_bits(a, b)


@pytest.fixture(autouse=True)
def captures(monkeypatch):
    """Short programs are captured as CUDA graphs, too."""
    monkeypatch.setattr("adjoint.compiler.cuda.program.FEWEST", 2)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK)))
def test_programs(gpu, chunk):
    for number, steps, types, c in programs.drawn(5000 + chunk, CHUNK, programs.SHAPES):
        f = programs.program(steps, programs.LARGEST)
        check(gpu, f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 4)))
def test_derivatives(gpu, chunk):
    for f, args, what in programs.derived(6000 + chunk, CHUNK):
        check(gpu, f, args, what, loose=100.0)


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 4)))
def test_large_programs(gpu, chunk):
    for number, steps, types, c in programs.drawn(7000 + chunk, 10, programs.LARGE, longest=5):
        f = programs.program(steps, 200_000)
        check(gpu, f, (*programs.values(types, np.random.default_rng(number)), c), programs.described(number, steps, types))


@pytest.mark.parametrize("chunk", range(max(1, ASKED // CHUNK // 2)))
def test_stacks_of_small_arrays(gpu, chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        f, args, what = row_programs.drawn(seed, rows=(37, 2000, 20_000))
        check(gpu, f, args, what, loose=100.0)
        check(gpu, ad.grad(lambda x, y, f=f: np.sum(np.sin(f(x, y))), (0, 1)), args, what, loose=100.0)
