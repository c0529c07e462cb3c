"""The steps of a program in C: loops, branches and products share one work array of a fixed size."""

import numpy as np
import pytest
from export.c_compiler import COMPILERS, Library

import adjoint as ad
from adjoint.export.c_source import write
from adjoint.export.program import parts
from adjoint.export.steps import Work

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc clang")
A = np.linspace(0.1, 1.0, 9).reshape(3, 3)
PROGRAMS = {
    "scan": lambda a: ad.scan(lambda c, r: (np.tanh(c @ a) + r, np.sum(c)), a[0], a),
    "backwards": lambda a: ad.scan(lambda c, r: (c * 0.5 + r, c), a[0], a, reverse=True),
    "odd and even": lambda a: [ad.fori_loop(0, n, lambda i, c: c @ a, a) for n in (0, 1, 2, 3)],
    "while": lambda a: ad.while_loop(lambda s: np.sum(s) < 50.0, lambda s: s * 1.5 + a, a),
    "branch": lambda a: ad.cond(np.sum(a) > 1.0, lambda a: a @ a, lambda a: a.T, a),
    "stack": lambda a: np.stack([a, 2 * a]) @ np.stack([a.T, a]),
    "systems": lambda a: np.linalg.solve(a @ a.T + np.eye(3), a),
    "in a loop": lambda a: ad.fori_loop(0, 2, lambda i, c: np.linalg.inv(c + np.eye(3)), a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    (part,) = parts(PROGRAMS[name], (A,), {}, derivatives=(), argnums=0, name="f")
    library = Library(write([part]), tmp_path, "f", COMPILERS[-1])
    expected = [np.asarray(y) for y in ad.core.tree.flatten(PROGRAMS[name](A))[0]]
    for _ in range(2):  # nothing is left in the work array that a second call would read
        for a, b in zip(library(part, [A]), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11)


def test_work_is_the_most_that_any_program_needs():
    work = Work()
    double = np.dtype(float)
    work.need(double, 5)
    work.need(double, 3)
    work.need(np.dtype(bool), 2)
    assert work.sizes[double] == 5
    assert work.sizes[np.dtype(bool)] == 2


@pytest.mark.parametrize("f", [lambda x: np.sort(x, axis=-1), lambda x: np.linalg.inv(x[:, :, None] * np.eye(3) + 1)])
def test_nothing_is_written_behind_the_work_array(f, tmp_path):
    x = np.random.default_rng(0).uniform(1.0, 2.0, (1000, 3))  # work memory is of one row: all share it
    (part,) = parts(f, (x,), {}, derivatives=(), argnums=0, name="f")
    library = Library(write([part]), tmp_path, "f")
    size = library.work.size
    library.work = np.full(size + 100_000, 171, np.uint8)
    np.testing.assert_allclose(library(part, [x])[0], f(x), rtol=1e-12)
    assert np.all(library.work[size:] == 171)
