"""The derivative as it is built by hand, with its zeros and ones."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse


def lines(graph):
    return [line.split("  #")[0].strip() for line in str(graph).split("\n")[1:-1]]


def test_the_derivative_of_a_product_is_built_whole_and_pruned_to_one_node():
    g = ad.graph(lambda x, y: 5 + x * y)(2.0, 3.0)
    built = g.derivative("x")
    assert lines(built) == [  # 0 + (y·1 + 0·x)
        "v2: float64[] = strong_mul float64(1.0), y",
        "v3: float64[] = strong_mul float64(0.0), x",
        "v4: float64[] = add v2, v3",
        "v5: float64[] = add float64(0.0), v4",
        "return v5",
    ]
    assert lines(built.simplify()) == ["return y"]
    assert lines(g.derivative("y").simplify()) == ["return x"]
    assert built(2.0, 3.0) == built.simplify()(2.0, 3.0) == 3.0
    assert parse(str(built)) == built
    assert all(e.line for e in built.equations)


@pytest.mark.parametrize(
    "f, x",
    [
        (lambda x: x**3 * 2 - 1 / x, 2.0),
        (lambda x: np.where(x > 1, 2.0 * x, x / 3), 2.0),
        (lambda x: np.sum(np.ones(3) * x @ np.arange(3.0)), 2.0),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: c * x + 1.0, x), 2.0),
        (lambda x: np.float32(3) * x + 1, np.float32(2)),
        (lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), 0.3),
        (lambda x: x * (1 + 2j) + 1, 1 + 2j),
        (lambda x: 2.0**x, 1.5),
        (lambda x: np.maximum(x, 0.0), 1.5),
        (lambda x: np.floor(x), 1.5),
        (lambda x: 3.0, 1.0),
        (lambda x: x, 1.0),
        (lambda x: {"a": np.sin(x), "b": [x * np.arange(3.0)]}, 0.5),
    ],
)
def test_it_is_the_derivative(f, x):
    built = ad.graph(f)(x).derivative("x")
    built.check()
    expected = ad.jvp(f, (x,), (np.ones_like(x)[()],))[1]
    for form in (built, built.simplify(), built.simplify("finite"), parse(str(built))):
        form.check()
        found = form(x) if form.in_structure is not None else built.out_structure.unflatten(form.run_flat([x]))
        for a, b in zip(ad.core.tree.flatten(found)[0], ad.core.tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_it_can_be_differentiated_again():
    second = ad.graph(lambda x: x**3)(2.0).derivative("x").derivative("x")
    assert second(2.0) == 12.0


def test_inputs_that_are_not_scalars_are_refused_by_name():
    g = ad.graph(lambda x, n, w: np.sum(w) * x * n)(2.0, 3, np.ones(3))
    with pytest.raises(ad.AdjointError, match="has no input 'q'; it has x, n, w"):
        g.derivative("q")
    with pytest.raises(ad.AdjointError, match=r"scalar float, but 'w' is float64\[3\]"):
        g.derivative("w")
    with pytest.raises(ad.AdjointError, match=r"scalar float, but 'n' is int64\[\]"):
        g.derivative("n")
