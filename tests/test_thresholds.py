"""No result depends on a threshold of the compiler: all of those of a module are set far below, and far above, what they are.

The thresholds are found in the source: every number with a name in capitals. So each has a test on both of its sides.
"""

import importlib
import pathlib
import re
import sys

import numpy as np
import pytest
from night import AT_NIGHT

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.switches import Switch, without

SOURCE = pathlib.Path(ad.__file__).parent
FOLDERS = ("compiler/lower", "compiler/llvm", "rewrite")
FACTOR = 64

#: Numbers that are no thresholds.
FACTS = {
    "compiler/llvm/cholesky.py": {"_STRIPE", "_PANEL"},  # sizes of tiles, which memory is laid out for
    "compiler/llvm/cumulative.py": {"_SIDE_BY_SIDE"},  # rows, which are written out
    "compiler/llvm/emit.py": {"MOST_PARTS", "_LONGEST_WAIT", "LOOP"},  # threads, seconds, a cost
    "compiler/llvm/packed_product.py": {"_SQUARE"},  # elements of a vector
    "compiler/llvm/program.py": {"_FIRST_NAME"},
    "compiler/llvm/symmetry.py": {"_TILE"},
    "compiler/llvm/vecmath/alone.py": {"_INDEX", "_NORMAL"},  # the size of tables; where a formula holds
    "compiler/llvm/while_vjp.py": {"OUT_OF_MEMORY", "_LARGEST"},
    "compiler/lower/memory.py": {"ALIGNMENT"},
    "compiler/lower/order.py": {"BLOCK"},  # elements of a vector
    "compiler/lower/searches.py": {"_MOST"},  # the numbers that a float counts
    "compiler/lower/special.py": {"_POINTS"},  # of a table
}


NUMBER = re.compile(r"^(_?[A-Z][A-Z_]*) = \d", re.MULTILINE)


def place_of(path):
    return path.relative_to(SOURCE).as_posix()


def module_of(path):
    return importlib.import_module(".".join(("adjoint", *path.relative_to(SOURCE).with_suffix("").parts)))


def thresholds(path):
    """The names of the thresholds of a module."""
    return [name for name in NUMBER.findall(path.read_text(encoding="utf-8")) if name not in FACTS.get(place_of(path), ())]


PATHS = [path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py")) if thresholds(path)]


def importers(path, name):
    """The modules that have a number of another one."""
    own = module_of(path)
    for other in list(sys.modules.values()):
        is_inside = getattr(other, "__name__", "").startswith(("adjoint.compiler", "adjoint.rewrite"))
        is_same = is_inside and vars(other).get(name) is getattr(own, name)
        if is_same and (other is own or name not in thresholds(pathlib.Path(other.__file__))):
            yield other


# -- programs -------------------------------------------------------------------------------------------------------


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


def definite(n):
    a = normal(n, n)
    return a @ a.T / n + np.eye(n)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


def loops(x):
    up, rows = ad.scan(lambda s, row: (s * 0.9 + np.tanh(s * row), s), x[0], x)
    down, _ = ad.scan(lambda s, row: (s * 0.8 - np.sin(s * row), s), x[0] + 1.0, x[::-1])
    return np.sum(up * down) + np.sum(rows**2)


def by_points(x):
    def step(state, _):
        a, b = state
        return (a + 0.1 * np.sin(b), b - 0.1 * a), None

    (a, b), _ = ad.scan(step, (x[0], x[1]), np.arange(12))
    return np.sum(a * b)


def stencil(u):
    for _ in range(10):
        u = u + 0.1 * np.pad(u[2:] - 2.0 * u[1:-1] + u[:-2], 1)
    return np.sum(u * u * (1.0 - np.eye(1, len(u))[0]))


def written(x):
    y = np.sin(x)
    y[3:-2] = np.cos(x[3:-2]) * y[:-5]
    return np.sum(y * y) + np.sum(np.tri(len(x))[:, 1:] * x[:, None])


def sweeps(f):
    u = anp.zeros(f.shape)
    for _ in range(3):
        for i in range(1, f.shape[0] - 1):
            for j in range(1, f.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + np.sin(u[i, j + 1]) + f[i, j])
    return np.sum(u * u)


def shrinking(x):
    values = np.maximum(x, 0.0)
    for n in range(len(x) - 1, 0, -1):
        values = np.maximum(0.5 * (values[1:] + values[:-1]), x[:n] * np.sin(x[0]))
    return values[0] ** 2


def triangle(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = s + np.sin(x[i] * x[j])
    return s


def factor(a):
    n = len(a)
    l = anp.zeros((n, n))
    for j in range(n):
        l[j, j] = np.sqrt(a[j, j] - np.sum(l[j, :j] ** 2))
        for i in range(j + 1, n):
            l[i, j] = (a[i, j] - np.sum(l[i, :j] * l[j, :j])) / l[j, j]
    return np.sum(l**3)


def algebra(a, b):
    l = np.linalg.cholesky(a)
    return np.sum(np.linalg.solve(a, b) ** 2) + np.linalg.slogdet(a)[1] + np.sum(np.tanh(l @ b) ** 2) + np.sum((a @ a) @ b)


def products(a, b):
    return np.sum(np.einsum("ijk,kl->ijl", a, b) ** 2) + np.sum(np.tanh(a[0] @ b) * (a[1] @ b))


def rows_in_order(x):
    return np.sum(np.sort(x) * np.cumsum(x)) + np.median(x) ** 2 + np.prod(1.0 + 0.1 * x) + np.sum(np.partition(x, 4)[:5])


def tables(x):
    at = np.arange(40) * 7 % len(x)
    y = anp.zeros(len(x))
    np.add.at(y, at, np.exp(x[at]))
    return np.sum(y * y) + np.sum(np.convolve(x, x[:9]) ** 2) + np.sum(x[::-1] ** 5 + x**7)


def chain(x):
    for k in range(60):
        x = 0.9 * (np.sin, np.cos, np.tanh)[k % 3](x + 0.01 * k)
    return np.sum(x) + sum(np.exp(-((x[k] - k) ** 2)) for k in range(4))


def sums(x):
    return np.sum(np.sqrt(np.sum(x * x, axis=0)) * np.sum(np.sin(x), axis=(0, 1))[None]) + np.sum(np.max(x, axis=2) * x[:, :, 0])


PROGRAMS = {
    softmax: lambda: (normal(70, 20),),
    loops: lambda: (normal(40, 3),),
    by_points: lambda: (normal(2, 600),),
    stencil: lambda: (normal(90),),
    written: lambda: (normal(140),),
    sweeps: lambda: (normal(6, 6),),
    shrinking: lambda: (normal(24),),
    triangle: lambda: (normal(9),),
    factor: lambda: (definite(7),),
    algebra: lambda: (definite(18), normal(18, 3)),
    products: lambda: (normal(3, 20, 9), normal(9, 17)),
    rows_in_order: lambda: (normal(60),),
    tables: lambda: (normal(64),),
    chain: lambda: (normal(200),),
    sums: lambda: (normal(5, 40, 6),),
}
EACH = 5 if AT_NIGHT else 3  # programs for a module on a side


@pytest.fixture(scope="module")
def expected():
    return {f: ad.value_and_grad(f, tuple(range(len(xs()))))(*xs()) for f, xs in PROGRAMS.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("side", ["below", "above"])
@pytest.mark.parametrize("path", PATHS, ids=place_of)
def test_results_do_not_depend_on_it(path, side, expected, monkeypatch):
    for name in thresholds(path):
        value = getattr(module_of(path), name)
        changed = max(1, value // FACTOR) if side == "below" else value * FACTOR
        for module in list(importers(path, name)):
            monkeypatch.setattr(module, name, changed)
    names = list(PROGRAMS)
    first = PATHS.index(path) * EACH
    with without(Switch.PROGRAM_CACHE):
        for f in (names[(first + k) % len(names)] for k in range(EACH)):
            xs = PROGRAMS[f]()
            value, gradient = ad.jit(ad.value_and_grad(f, tuple(range(len(xs)))))(*xs)
            np.testing.assert_allclose(value, expected[f][0], rtol=1e-9, err_msg=f.__name__)
            for a, b in zip(gradient, expected[f][1], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * np.max(np.abs(b)), err_msg=f.__name__)


def test_every_fact_is_there():
    for place, names in FACTS.items():
        assert names <= set(NUMBER.findall((SOURCE / place).read_text(encoding="utf-8"))), place
