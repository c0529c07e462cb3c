"""Random programs: staged from their source, they give the values and gradients that Python gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from looped import Writer, defined
from night import asked

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

PROGRAMS = asked(5, at_night=27)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program(seed):
    text = Writer(seed).text()
    f = defined(text)
    b = np.random.default_rng(seed).normal(size=10)
    value, slope = ad.jit(f, source=True), ad.jit(ad.grad(f, (0, 1)), source=True)
    for x, n in [(0.3, 9), (0.3, 4), (-0.8, 12), (0.7, 0)]:
        try:
            expected = f(x, b, n)
        except NameError:
            with pytest.raises(NameError):
                value(x, b, n)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            found, slopes = value(x, b, n), slope(x, b, n)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=text + value.report())
        for mine, theirs in zip(slopes, ad.grad(f, (0, 1))(x, b, n), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9, err_msg=text + slope.report())


@pytest.mark.parametrize("seed", range(1000, 1000 + PROGRAMS // 3))
def test_the_text_of_a_random_program(seed):
    """The graph of a program and of its gradient, written as Python, give what the graphs give."""
    f = defined(Writer(seed).text())
    b = np.random.default_rng(seed).normal(size=10)
    for function in (f, ad.grad(f, (0, 1))):
        try:
            staged = ad.graph(function, source=True)(0.3, b, 9)
        except (ad.AdjointError, NameError):
            continue  # a part of it needs numbers
        text = staged.python()
        space = {}
        exec(text, space)
        for x, n in [(0.3, 9), (-0.8, 12), (0.7, 3)]:
            results = space[staged.name](x, b, n), staged.run(x, b, n), staged.run(x * (1 + 1e-15), b, n)
            for mine, theirs, near in zip(*(y if isinstance(y, tuple) else (y,) for y in results), strict=True):
                chaos = 10 * np.max(np.abs(near - theirs), initial=0.0)  # what rounding may change
                np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12 + chaos, err_msg=text)
