"""Several kernels over the same rows in one launch: which are grouped, and that results equal those of separate launches."""

import numpy as np
import pytest
import row_programs
import test_compiled_programs as programs
from night import asked
from on_device import both_orders, on_cpu

import adjoint as ad
from adjoint.compiler.cuda import tiles
from adjoint.compiler.cuda.tiles import Tile
from adjoint.compiler.lower import row_tiles

RNG = np.random.default_rng(0)
ROW_PROGRAMS = asked(8) // 2


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def normalised(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def logistic(w, x):
    return np.sum(np.logaddexp(0.0, -(x @ w)))


X = RNG.normal(size=(5000, 40))
GROUPED = {
    "softmax": (softmax, X),
    "gradient of softmax": (ad.grad(lambda x: np.sum(softmax(x) ** 2)), X),
    "wide rows": (softmax, RNG.normal(size=(200, 3000))),
    "rows of singles": (softmax, X.astype(np.float32)),
    "three axes": (softmax, X.reshape(50, 100, 40)),
    "normalisation": (ad.grad(lambda x: np.sum(np.sin(normalised(x)))), X),
    "a weight for each column": (ad.grad(lambda w, x: np.sum(np.sin(normalised(x) * w)), (0, 1)), RNG.normal(size=40), X),
    "small products": (ad.grad(lambda a, b: np.sum(np.tanh(a @ b) @ a), (0, 1)), *RNG.normal(size=(2, 2000, 8, 8))),
    "einsum": (ad.grad(lambda a, b: np.sum(np.einsum("bij,bjk,bik->b", a, b, a) ** 2)), *RNG.normal(size=(2, 2000, 8, 8))),
    "columns of matrices": (
        lambda x: np.sin(np.max(np.exp(x), axis=1)) * x[:, 0],
        RNG.normal(size=(2000, 30, 32)),
    ),
    "reductions of several dtypes": (
        ad.grad(lambda x: np.sum(np.sin(np.max(x, axis=1, keepdims=True) + x) + softmax(x))),  # counts of maxima are integers
        X.astype(np.float32),
    ),
    "a matrix from both sides": (ad.value_and_grad(logistic), RNG.normal(size=100), RNG.normal(size=(3001, 100))),
}


@pytest.mark.parametrize("name", GROUPED)
def test_rows_in_tiles(name):
    f, *args = GROUPED[name]
    found, made = both_orders(f, args)
    assert any(isinstance(step, Tile) for step in made.lowered.steps), made.lowered
    for a, b in zip(found, on_cpu(f, args), strict=True):
        unit = 1e-5 if a.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(a, b, rtol=unit, atol=unit * max(1.0, np.max(np.abs(b))))


def test_few_long_rows_stay_apart():
    """A block a row would leave most of a GPU idle."""
    _, made = both_orders(softmax, (RNG.normal(size=(3, 20_000)),))
    assert not any(isinstance(step, Tile) for step in made.lowered.steps)


@pytest.fixture
def eagerly(monkeypatch):
    """Kernels are grouped however small they are."""
    for name, least in (("WORTH", 0), ("_LARGE", 0)):
        monkeypatch.setattr(row_tiles, name, least)
    monkeypatch.setattr(tiles, "FEWEST_THREADS", 0)
    monkeypatch.setattr(tiles, "MOST_BLOCKS", 2)


@pytest.mark.parametrize("chunk", range(2))
def test_random_programs_in_tiles(chunk, eagerly):
    grouped = 0
    for number, steps, types, c in programs.drawn(8000 + chunk, 20, programs.SHAPES):
        f = programs.program(steps, programs.LARGEST)
        args = (*programs.values(types, np.random.default_rng(number)), c)
        found, made = both_orders(f, args)
        programs.agree(list(found), on_cpu(f, args), programs.described(number, steps, types), loose=10.0)
        grouped += any(isinstance(step, Tile) for step in made.lowered.steps)
    assert grouped > 4


@pytest.mark.parametrize("chunk", range(2))
def test_stacks_of_small_arrays(chunk, eagerly):
    """Rows with one result, several results, and totals over all rows."""
    grouped = 0
    for seed in range(ROW_PROGRAMS * chunk, ROW_PROGRAMS * (chunk + 1)):
        f, args, text = row_programs.drawn(seed)
        for function in (f, ad.grad(lambda x, y, f=f: np.sum(np.sin(f(x, y))), (0, 1))):
            found, made = both_orders(function, args)
            grouped += any(isinstance(step, Tile) for step in made.lowered.steps)
            for a, b in zip(found, on_cpu(function, args), strict=True):
                unit = 1e-4 if a.dtype == np.float32 else 1e-11
                np.testing.assert_allclose(a, b, rtol=unit, atol=unit * max(1.0, np.max(np.abs(b))), err_msg=text)
    assert grouped > ROW_PROGRAMS / 2
