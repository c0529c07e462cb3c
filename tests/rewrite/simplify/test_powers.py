"""Powers in gradients: the exponent is a number, not selected at each point."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.rewrite.simplify.rewriter import FOLDED


@pytest.mark.parametrize("count", [12, FOLDED, 2 * FOLDED + 2])
def test_the_exponent_of_a_gradient_is_a_number(count):
    x = np.linspace(0.5, 1.5, count)
    for f in (
        lambda x: np.sum(x**3) + np.sum(x[1:] ** 4),
        lambda x: np.sum(x[::2] ** 2) + np.sum(x[1::2] ** 3),
        lambda x: np.sum(x**1.5),
    ):
        gradient = ad.jit(ad.grad(f))
        np.testing.assert_allclose(gradient(x), ad.grad(f)(x), rtol=1e-13)
        assert not {"where", "broadcast_to"} & {e.op.name for e in gradient.lower(x).graph.equations}
