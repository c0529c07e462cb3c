"""Results do not depend on the optimisations of the compiler: each switch off alone, and all of them."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import test_compiled_programs as programs
from night import AT_NIGHT, asked

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.switches import Switch, key, without
from adjoint.scipy.linalg import solve_triangular

ASKED = asked(100) // 25
ALL = tuple(Switch)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


def logistic(w, x):
    return np.sum(np.log1p(np.exp(x @ w)))


def two_loops(x):
    up, _ = ad.scan(lambda s, row: (s * 0.9 + np.tanh(s * row), s), x[0], x)
    down, _ = ad.scan(lambda s, row: (s * 0.8 - np.sin(s * row), s), x[0] + 1.0, x[::-1])
    return np.sum(up * down)


def distances(x):
    difference = x[:, None, :] - x[None, :, :]
    return np.sum(np.exp(-np.sum(difference * difference, axis=2)))


def masked(x):
    return np.sum(np.exp(x[:, None] - x) * (1.0 - np.eye(len(x))) + np.tri(len(x)))


def stencil(u):
    for _ in range(3):
        u = u + 0.1 * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)
    return np.sum(u * u)


def heat(u):
    """Many steps on a large grid."""
    for _ in range(12):
        u = u + 0.1 * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)
    return np.sum(u * u)


def written(x):
    y = np.sin(x)
    y[3:-2] = np.cos(x[3:-2]) * y[:-5]
    return np.sum(y * y)


def recurrence(x):
    b = anp.array(x)
    for i in range(1, len(x)):
        b[i] = np.sin(b[i - 1]) * b[i]
    return np.sum(b)


def solved(a, b):
    return np.sum(np.linalg.solve(a, b) ** 2) + np.linalg.slogdet(a)[1]


def factored(a, b):
    l = np.linalg.cholesky(a)
    return np.sum(solve_triangular(l, b, lower=True) ** 2) + np.sum((l @ b) ** 2)


def few(x):
    return np.sum(np.sin(x) * np.exp(x)) + np.sum(np.linalg.norm(x.reshape(2, 3) @ x.reshape(3, 2)))


def rows(x):
    return np.sum(np.sin(x) * x / np.sqrt(np.sum(x * x, axis=1, keepdims=True)))


def products(a, b):
    return np.sum(np.tanh(a @ b))


def contraction(a, b):
    return np.sum(np.einsum("ijk,kl->ijl", a, b) ** 2)


def chosen(x):
    return np.sum(np.sort(x) * np.sin(x))


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


def definite(n):
    a = normal(n, n)
    return a @ a.T / n + np.eye(n)


#: Programs that together use every optimisation.
PROGRAMS = {
    "softmax": (softmax, lambda: (normal(2000, 20),)),
    "logistic": (logistic, lambda: (normal(40), normal(4000, 40))),
    "two loops": (two_loops, lambda: (normal(1000, 8),)),
    "distances": (distances, lambda: (normal(70, 3),)),
    "masked": (masked, lambda: (normal(150),)),
    "stencil": (stencil, lambda: (normal(3000),)),
    "heat": (heat, lambda: (normal(150_000),)),
    "written": (written, lambda: (normal(2000),)),
    "recurrence": (recurrence, lambda: (normal(200),)),
    "solved": (solved, lambda: (definite(20), normal(20))),
    "small system": (solved, lambda: (definite(5), normal(5))),
    "factored": (factored, lambda: (definite(150), normal(150, 80))),
    "few": (few, lambda: (normal(6),)),
    "rows": (rows, lambda: (normal(500, 4),)),
    "products": (products, lambda: (normal(80, 64), normal(64, 16))),
    "contraction": (contraction, lambda: (normal(9, 8, 7), normal(7, 20))),
    "eigenvalues": (lambda a: np.sum(np.linalg.eigh(a)[0] ** 3), lambda: (definite(40),)),
    "sorted": (chosen, lambda: (normal(10),)),
    "large result": (lambda x: np.sum(np.sin(x) ** 2), lambda: (normal(200_000),)),
}
#: Programs whose text changes without an optimisation.
CHANGED = {
    Switch.ROW_TILES: ("softmax", "logistic"),
    Switch.FUSED_MATVEC: ("logistic",),
    Switch.PARALLEL_GROUPS: ("two loops",),
    Switch.PIECES: ("softmax", "large result"),
    Switch.TIME_TILES: ("heat",),
    Switch.SHORT_SUMS: ("distances", "few"),
    Switch.SHORT_LOOPS: ("distances", "small system", "rows"),
    Switch.VECTOR_ROWS: ("rows",),
    Switch.WIDE_VECTORS: ("stencil", "products"),
    Switch.RECOMPUTE: ("rows", "sorted"),
    Switch.DIAGONALS: ("masked",),
    Switch.IN_PLACE: ("recurrence",),
    Switch.FRAMES: ("stencil", "written"),
    Switch.WINDOW_WRITES: ("written",),
    Switch.WINDOW_SEGMENTS: ("stencil", "written"),
    Switch.INLINE_KERNELS: ("few", "solved"),
    Switch.FUNCTIONS_APART: ("few",),
    Switch.FUNCTIONS_ALONE: ("recurrence",),
    Switch.INLINE_PRODUCTS: ("few",),
    Switch.NARROW_PRODUCTS: ("products", "contraction"),
    Switch.EINSUM_PRODUCTS: ("contraction",),
    Switch.TRIANGULAR_PRODUCTS: ("factored",),
    Switch.TRIANGULAR_BLOCKS: ("factored",),
    Switch.SMALL_SYSTEMS: ("small system",),
    Switch.SHARED_FACTORS: ("solved",),
    Switch.ONE_BLAS_THREAD: ("factored",),
    Switch.CHOLESKY_TILES: ("factored",),
    Switch.SYMMETRY_TILES: ("eigenvalues",),
    Switch.KEPT_ARENA: ("stencil", "solved"),
}
#: Programs for switches that change no text: how code is compiled, loaded and called.
BESIDES = ("sorted", "large result")


def compiled(name, *off):
    """The value and the gradient, and the text of the program, in which these optimisations are off."""
    f, arguments = PROGRAMS[name]
    xs = arguments()
    with without(*off):
        made = ad.jit(ad.value_and_grad(f, tuple(range(len(xs)))))
        found = made(*xs), made(*xs)  # the second by the entry point
        ((program,),) = made.specializations.values()
        return found, program.native.text


@pytest.fixture(scope="module")
def texts():
    return functools.cache(lambda name: compiled(name)[1])


def same(found, name):
    f, arguments = PROGRAMS[name]
    value, gradient = ad.value_and_grad(f, tuple(range(len(arguments()))))(*arguments())
    for y, g in found:
        np.testing.assert_allclose(y, value, rtol=1e-9)
        for a, b in zip(g, gradient, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * np.max(np.abs(b)))


@pytest.mark.parametrize("switch", ALL, ids=lambda switch: switch.value)
def test_programs_that_use_it_are_right_without(switch, texts):
    names = CHANGED.get(switch, BESIDES)
    for name in names if AT_NIGHT else names[:1]:
        found, text = compiled(name, switch)
        same(found, name)
        assert (text != texts(name)) is (switch in CHANGED)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_off_together(name):
    same(compiled(name, *ALL)[0], name)


@pytest.mark.parametrize("number", range(ASKED))
def test_random_programs_with_all_off(number):
    with without(*ALL):
        for drawn in programs.drawn(7000 + number, 3, programs.SHAPES, longest=6):
            programs.check_values(*drawn)
            programs.check_derivatives(*drawn)


@pytest.mark.parametrize("number", range(ASKED))
def test_random_programs_with_some_off(number):
    rng = np.random.default_rng(number)
    with without(*(switch for switch in ALL if rng.random() < 0.5)):
        for drawn in programs.drawn(8000 + number, 2, programs.SHAPES, longest=6):
            programs.check_values(*drawn)
            programs.check_derivatives(*drawn)


def test_donation_can_be_off():
    for off in ((), (Switch.DONATION,)):
        with without(*off):
            x = np.ones(1000)
            y = ad.jit(lambda x: x + 1.0, donate_argnums=0)(x)
            np.testing.assert_array_equal(y, 2.0)
            assert np.shares_memory(x, y) is not bool(off)


def test_switches_are_part_of_the_cache_keys():
    assert key() == ""
    with without(Switch.PIECES):
        assert key() == "without ['pieces']"
        with without(Switch.ROW_TILES):
            assert key() == "without ['pieces', 'row_tiles']"
    assert key() == ""


def run(value):
    text = "from adjoint.compiler.switches import key; print(key())"
    settings = {**os.environ, "ADJOINT_WITHOUT": value}
    return subprocess.run([sys.executable, "-c", text], env=settings, capture_output=True, text=True, check=False)


def test_the_environment_switches_optimisations_off():
    assert run(" row_tiles, pieces,").stdout == "without ['pieces', 'row_tiles']\n"
    refused = run("row_tile").stderr
    assert "ArgumentError: ADJOINT_WITHOUT names 'row_tile', which is not an optimisation; there are row_tiles, " in refused


def test_the_text_of_a_program_is_the_same_each_time():
    assert len({compiled("softmax", Switch.PROGRAM_CACHE)[1] for _ in range(4) if [object() for _ in range(1000)]}) == 1
