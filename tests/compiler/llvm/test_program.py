"""The size of programs: small kernels are inlined up to a budget, and beyond it called and shared."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm.program import Module


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
