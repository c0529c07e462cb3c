"""Which values are finite if the inputs are, and products that need no strong zero."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.view.finite import finite, is_tame, ordinary_products


def results_are_finite(f, *args):
    graph = ad.graph(f)(*args)
    return [is_tame(o, finite(graph)) for o in graph.outputs]


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda x: np.sin(x) * x + 2.0, True),
        (lambda x: np.log(x), False),
        (lambda x: 1.0 / x, False),
        (lambda x: x * np.inf, False),
        (lambda x: np.tanh(np.log(x)), False),
        (lambda x: np.sum(np.stack([x, x])), True),
        (lambda x: ad.cond(x > 0, np.sin, np.cos, x), True),
        (lambda x: ad.cond(x > 0, np.sin, np.log, x), False),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x), True),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: np.log(c) + x, x), False),
        (lambda x: ad.while_loop(lambda c: c < 9, lambda c: c * 2 + 1, x), True),
        (lambda x: 1 / (1 + np.exp(-x)), True),
        (lambda x: x / (x * x + np.abs(x) + 2.0), True),
        (lambda x: x / np.sqrt(x * x + 1e-3), False),  # a root is only known not to be negative
        (lambda x: x / (x * x), False),
        (lambda x: x / (x + 2.0), False),
        (lambda x: x / (np.exp(x) - 1.0), False),
        (lambda x: x / np.maximum(x, 1e-3), True),
        (lambda x: x / np.minimum(np.exp(x), 3.0), True),
        (lambda x: x / np.sum(np.exp(x * np.ones(3))), True),
        (lambda x: x / np.sum(np.exp(x * np.ones(0))), False),
        (lambda x: 1 / (1 + np.exp(1j * x)), False),
        (lambda x: np.sum(x / ad.scan(lambda c, v: (c * v, np.exp(v)), x, x * np.ones(3))[1]), True),
        (lambda x: x / ad.scan(lambda c, v: (c * v, np.exp(v)), np.exp(x), x * np.ones(3))[0], False),  # a carry has no bound
    ],
)
def test_results(f, expected):
    assert results_are_finite(f, 0.5) == [expected]


def test_a_carry_that_another_one_spoils():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: (c[0] + c[1], 1.0 / c[1]), (x, x))
    assert results_are_finite(f, 0.5) == [False, False]
    g = lambda x: ad.fori_loop(0, 3, lambda i, c: (np.sin(c[0]), 1.0 / c[1]), (x, x))
    assert results_are_finite(g, 0.5) == [True, False]


def test_unknown_inputs_are_not_assumed():
    graph = ad.graph(lambda x, y: x * y)(1.0, 2.0)
    assert graph.outputs[0] in finite(graph)
    assert graph.outputs[0] not in finite(graph, {0})


def test_products_without_a_strong_zero():
    for f, strong in ((lambda x: np.sum(np.sin(x) * x), False), (lambda x: np.sum(np.where(x > 0, np.sqrt(x), x)), True)):
        graph = ad.graph(ad.grad(f))(np.ones(3))
        plain = ordinary_products(graph, finite(graph))
        needed = [e for e in plain.equations if "strong" in e.op.name or e.op.name == "where"]
        assert bool(needed) == strong
        np.testing.assert_array_equal(plain.run_flat([np.ones(3)])[0], graph.run_flat([np.ones(3)])[0])


# -- masks -------------------------------------------------------------------------------------------------------------


def written(f, *args):
    return ad.graph(f, source=True)(*args).python()


def test_a_mask_that_follows_from_its_cotangent_is_not_written():
    def horner(c, x):
        r = 0.0
        for k in c:
            r = r * x + k
        return r

    text = written(ad.grad(horner), np.arange(10.0), 0.7)
    assert "where(" not in text.partition("def horner")[2]
    assert "live" not in text


def test_a_mask_beside_a_factor_that_may_be_infinite_stays():
    def f(x, ys):
        t = 0.0
        for y in ys:
            if y > 0:
                t = t + x / y
        return t

    text = written(ad.grad(f, 1), 2.0, np.arange(10.0))
    space = {}
    exec(text, space)
    ys = np.arange(10.0)
    wanted = np.where(ys > 0, -2.0 / np.where(ys > 0, ys, 1.0) ** 2, 0.0)
    assert np.allclose(space["f"](2.0, ys), wanted)  # not nan at y = 0


@pytest.mark.parametrize("n", [0, 1, 9])
def test_texts_of_gradients_of_while_loops(n):
    def f(x, n):
        zr, zi = 0.1, 0.0
        for _ in range(n):
            zr, zi = zr * zr - zi * zi + x, 2 * zr * zi + 0.3
        return zr

    text = written(ad.grad(f), 0.2, 5)
    space = {}
    exec(text, space)
    assert np.isclose(space["f"](0.2, n), ad.grad(f)(0.2, n))
    assert "live" not in text


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_masks_move_with_the_elements_of_an_array(mode):
    def f(x):
        y = anp.zeros(100)
        y[0] = x
        for i in range(1, 100):
            y[i] = y[i - 1] + 0.1 * np.cos(y[i - 1])
        return y[-1]

    text = written(ad.grad(f), 0.3) if mode == "reverse" else ad.graph(f, source=True)(0.3).derivative("x").python()
    space = {}
    exec(text, space)
    assert np.isclose(space["f" if mode == "reverse" else "derivative_f"](0.3), ad.grad(f)(0.3), rtol=1e-12)
    assert "live" not in text
    assert "np.where(" not in text.partition("\ndef f")[2].partition("\ndef derivative_f")[2]


def test_a_mask_of_elements_stays_beside_a_factor_that_may_be_infinite():
    def f(x):
        y = anp.zeros(20)
        y[0] = x
        for i in range(1, 20):
            y[i] = y[i - 1] + np.sqrt(y[i - 1])
        return y[5] + y[-1]

    space = {}
    exec(written(ad.grad(f), 0.3), space)
    assert np.isclose(space["f"](0.3), ad.grad(f)(0.3), rtol=1e-12)
