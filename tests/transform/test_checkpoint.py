"""The rules of `checkpoint`: forward mode with the masks of tangents."""

import numpy as np
import pytest

import adjoint as ad

X = np.array([0.0, 1.0, 4.0])


@pytest.mark.parametrize("compiled", [False, True])
def test_forward_mode_takes_and_gives_masks(compiled):
    """The zero of a square is one of arithmetic; those of a constant and of a seed are masks."""
    f = lambda x: np.sqrt(ad.checkpoint(lambda x: np.concatenate([x**2, np.zeros(1), np.sqrt(np.where(x > 0, x, 0.0))]))(x))
    push = lambda x, v: ad.jvp(f, (x,), (v,))[1]
    run = ad.jit(push) if compiled else push
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(X, np.ones(3)), [np.nan, 1, 1, 0, 0, 0.25, 0.25 * 4**-0.75])
        np.testing.assert_allclose(run(X, np.array([0.0, 1.0, 0.0])), [0, 1, 0, 0, 0, 0.25, 0])
