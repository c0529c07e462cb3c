"""Names in Python source: words that Python accepts, those of the user's variables, and when one is used again."""

import numpy as np
import pytest

import adjoint as ad
from adjoint import export
from adjoint.view.python_names import Order, words

X = np.array([0.5, 1.5])


@pytest.mark.parametrize(
    "names, reserved, found",
    [
        (["x", "y"], set(), ["x", "y"]),
        (["x", "x", "x"], set(), ["x", "x_", "x__"]),
        (["lambda", "x.w[0]", "", "v3", "c0"], set(), ["lambda_", "x_w_0", "_", "v3_", "c0_"]),
        (["np", "np_"], {"np"}, ["np_", "np__"]),
    ],
)
def test_words(names, reserved, found):
    assert words(names, reserved) == found


def loop(f, *args):
    """The body of the only loop of a function, and the places of its carries."""
    scan = next(e for e in ad.graph(f)(*args).equations if e.op.name == "scan")
    body, consts, carries = (scan.params[key] for key in ("body", "consts", "carries"))
    return body, range(consts, consts + carries)


def test_a_carry_takes_the_name_of_its_old_value():
    body, state = loop(lambda x: ad.fori_loop(0, 3, lambda i, s: np.sin(s) * s, x), X)
    assert set(state) >= set(Order(body, set(), len(state)).renewed(state).values()) != set()


def test_a_carry_that_is_read_later_keeps_its_name():
    """The second carry is the old value of the first."""
    body, state = loop(lambda x: ad.scan(lambda s, _: ((np.sin(s[0]), s[0] + s[1]), None), (x, x), None, length=3)[0], X)
    renewed = Order(body, set(), len(state)).renewed(state)
    first = body.outputs[0]
    made = [e.outputs[0] for e in body.equations]
    reads_old = next(e.outputs[0] for e in body.equations if e.op.name == "add")
    assert (first in renewed) == (made.index(first) > made.index(reads_old))


def test_variables_of_the_source_and_of_stacked_results():
    def f(x):
        speed = np.tanh(x)
        for _ in range(3):
            speed = speed * np.cos(speed)
        return np.sum(speed)

    text = export.python(f, X)
    assert "speed = np.tanh(x)" in text
    assert "speed = speed * np.cos(speed)" in text
    gradient = export.python(f, X, derivatives=["gradient"])
    assert "speed_before[i]" in gradient
    assert "speed_bar = " in gradient
    scope = {}
    exec(gradient, scope)
    np.testing.assert_allclose(scope["f_gradient"](X), ad.grad(f)(X), rtol=1e-12)
