"""The size of programs: small kernels are inlined up to a budget, and beyond it called and shared."""

import itertools
import random

import numpy as np
import pytest
from night import AT_NIGHT

import adjoint as ad
from adjoint.compiler.llvm import program
from adjoint.compiler.llvm.program import Module
from adjoint.compiler.switches import Switch, without


def forward(steps, states):
    """The log-likelihood of a hidden Markov model, with observations that are Python numbers."""
    seen = np.random.default_rng(steps).integers(0, 4, steps).tolist()

    def f(transition, emission, start):
        alpha, total = start * emission[:, seen[0]], 0.0
        for t in range(1, steps):
            scale = alpha.sum()
            total = total + np.log(scale)
            alpha = ((alpha / scale) @ transition) * emission[:, seen[t]]
        return total + np.log(alpha.sum())

    rng = np.random.default_rng(0)
    return f, (rng.random((states, states)), rng.random((states, 4)), np.full(states, 1 / states))


def inlined(text):
    """The lines of the kernels that are inlined, once for each call."""
    functions = [part.partition("\n}")[0] for part in text.split("define ")[1:]]
    sizes = {f.split("@")[1].partition("(")[0]: f.count("\n") for f in functions if f.startswith("internal void @kernel")}
    small = {name for name in sizes if f"@{name}(" in text and "alwaysinline" in text.split(f"@{name}(", 1)[1].split("\n")[0]}
    return sum(sizes[name] * text.count(f"call void @{name}(") for name in small)


@pytest.mark.parametrize("states", [2, 8])
@pytest.mark.parametrize("derive", [lambda f: f, ad.grad], ids=["function", "gradient"])
def test_inlined_code_has_a_bound(states, derive):
    f, args = forward(60, states)
    assert inlined(Module(ad.jit(derive(f)).lower(*args).lowered).text()) < 7_000


@pytest.mark.parametrize("states", [8, 9])
@pytest.mark.parametrize("steps", [5, 40])
def test_both_sides_of_the_budget(states, steps):
    f, args = forward(steps, states)
    np.testing.assert_allclose(ad.jit(f)(*args), f(*args), rtol=1e-12)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(*args), ad.grad(f)(*args), rtol=1e-10)


# -- long programs ----------------------------------------------------------------------------------------------


def scaled(factors):
    """A chain of functions with a different number in each step, in no order that repeats: it is not rolled."""
    rng = random.Random(0)
    steps = [(rng.choice((np.sin, np.cos, np.tanh)), factor) for factor in factors]

    def f(x):
        for function, factor in steps:
            x = function(factor * x) + x * (factor - 0.25)
        return x

    return f


@pytest.fixture
def sections_of(monkeypatch):
    """Sets the number of steps in a section; programs of other tests are not read from disk."""
    with without(Switch.PROGRAM_CACHE):
        yield lambda count: monkeypatch.setattr(program, "LONGEST_SECTION", count)


CASES = list(itertools.product([5, 1000, 200_000], [np.float64, np.float32, np.float16]))  # inlined, called, in pieces


@pytest.mark.parametrize("points, dtype", CASES if AT_NIGHT else [CASES[0], CASES[4], CASES[6], CASES[8]])
def test_kernels_that_differ_in_numbers_share_their_code(points, dtype):
    factors = [0.1 + 0.001 * i for i in range(120)]
    f, x = scaled(factors), np.linspace(0.1, 0.9, points, dtype=dtype)
    compiled = ad.jit(f)
    rtol = {"d": 1e-12, "f": 1e-4, "e": 0.3}[np.dtype(dtype).char]
    np.testing.assert_allclose(compiled(x), f(x), rtol=rtol)
    if points > 16 and dtype != np.float16:
        text = compiled.lower(x).native.text
        assert text.count("define internal void @kernel") < 40  # of 240 kernels


def test_numbers_of_short_programs_are_part_of_the_code():
    text = ad.jit(lambda x: np.sin(x) * 0.37).lower(np.ones(100)).native.text
    assert "%n0" not in text


def test_long_programs_are_made_of_sections(sections_of):
    x = np.linspace(0.1, 0.9, 5000)
    f = scaled([0.1 + 0.001 * i for i in range(160)])
    g = lambda x: (f(x), ad.grad(lambda x: np.sum(f(x) * np.arange(5000.0)))(x))
    expected = ad.jit(g)(x)
    sections_of(4)
    compiled = ad.jit(lambda x: g(x))
    for got, wanted in zip(compiled(x), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    text = compiled.lower(x).native.text
    assert text.count("define internal i32 @section") > 20
    assert "µs a call" in compiled.profile(x)


def test_a_section_reports_what_fails(sections_of):
    sections_of(1)
    a, i = np.array([[4.0, 1.0], [1.0, 3.0]]), np.arange(2)

    @ad.jit
    def f(a, i):
        total = np.linalg.cholesky(a)
        for k in range(3):
            total = np.sin(total @ a)[i] + k
        return np.sort(np.where(total > 0, total, np.exp(total)).ravel())

    plain = lambda a, i: f.__wrapped__(a, i)
    np.testing.assert_allclose(f(a, i), plain(a, i), rtol=1e-12)
    assert f.lower(a, i).native.text.count("define internal i32 @section") > 2
    with pytest.raises(np.linalg.LinAlgError):
        f(-a, i)
    with pytest.raises(IndexError):
        f(a, i + 7)


def test_guards_of_long_programs(sections_of):
    sections_of(2)
    h = scaled([0.3 + 0.01 * i for i in range(60)])

    def f(x):
        y = h(x)
        return np.cos(y) if np.sum(y) > 0 else np.sin(y) * 3

    compiled = ad.jit(f)
    for x in (np.linspace(0.1, 1, 40), -np.linspace(0.1, 1, 40), np.linspace(0.1, 1, 40)):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-10)
