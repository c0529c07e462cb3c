"""The rules of opaque ops where a zero meets an infinity: the zero of a mask wins, that of arithmetic gives nan."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import adjoint as ad
import adjoint.scipy.special as special

EVERY = [1e-200, 1e200, 1e160]
#: Functions of float64[2, n], one result a row, and a point at which a product inside the rule is infinite or nan.
ROWS = {
    "prod": (lambda x: np.prod(x, axis=1), EVERY),
    "prod of many": (lambda x: np.prod(x, axis=1), [*EVERY, *[1.0] * 30]),
    "cumprod": (lambda x: np.cumprod(x, axis=1)[:, -1], [1e200, 1e200, 1e-300]),
    "norm": (lambda x: np.linalg.norm(x, axis=1), [1e-200, 1e-180, 1e-170]),
    "max": (lambda x: np.max(x, axis=1), [np.nan, 1.0, 2.0]),
    "min": (lambda x: np.min(x, axis=1), [1.0, np.nan, 2.0]),
    "median": (lambda x: np.median(x, axis=1), [1.0, np.nan, 2.0]),
    "logsumexp": (lambda x: special.logsumexp(x, axis=1), [1.0, np.nan, 2.0]),
    "det": (lambda x: np.linalg.det(x[:, :, None] * np.eye(3)), [1e-300, 1e200, 1e200]),
}
POINT = [0.5, 2.0, 1.5]
RUNS = {"eager": lambda f: f, "compiled": ad.jit}


def gradients(f, x):
    """Of both modes: the gradient, and the slopes along each element."""
    pushed = lambda x: [ad.jvp(f, (x,), (unit.reshape(x.shape),))[1] for unit in np.eye(x.size)]
    for name, run in RUNS.items():
        with np.errstate(all="ignore"):
            yield name, run(ad.grad(f))(x)
            yield f"{name} forward", np.reshape([np.asarray(t) for t in run(pushed)(x)], x.shape)


def points(row):
    ordinary = (POINT * len(row))[: len(row)]
    return np.array([row, ordinary]), np.array([ordinary, ordinary])


@pytest.mark.parametrize("name", ROWS)
def test_a_zero_of_arithmetic_gives_nan(name):
    """The cotangent is 0 as that of 0 · y is with a computed 0, and meets an infinity or nan inside the rule."""
    f, row = ROWS[name]
    x, ordinary = points(row)
    zero = lambda x: np.sum((x - x) ** 2, axis=1)  # whose slope is 0 where x is finite
    for how, g in gradients(lambda x: np.sum(zero(np.nan_to_num(x) * 1e-100) * f(x)), x):
        assert not np.isfinite(g[0]).all(), (how, g)
        assert_array_equal(g[1], 0.0, how)
    for how, g in gradients(lambda x: np.sum(zero(x) * f(x)), ordinary):
        assert_array_equal(g, 0.0, how)


@pytest.mark.parametrize("name", ROWS)
def test_the_zero_of_a_mask_wins(name):
    """A row that is not chosen has the slope 0, whatever its numbers; the other has its own."""
    f, row = ROWS[name]
    x, ordinary = points(row)
    chosen = {
        "where": lambda x: np.sum(np.where(np.array([False, True]), f(x), 0.0)),
        "index": lambda x: f(x)[1],
        "factor": lambda x: np.sum(f(x) * np.array([0.0, 1.0])) if name not in ("max", "min", "median") else f(x)[1],
    }
    for way, pick in chosen.items():
        expected = ad.grad(pick)(ordinary)
        assert np.any(expected[1])
        for how, g in gradients(pick, x):
            np.testing.assert_allclose(g, expected, rtol=1e-12, err_msg=f"{way} {how}")


def test_a_value_that_is_lost_inside_an_op():
    """1e150 |x|^1.5 at 1e-200: the squares underflow, the norm is 0, and the slope 1.5e50 is not known."""
    for _, g in gradients(lambda x: 1e150 * np.linalg.norm(x) ** 1.5, np.array([1e-200, 0.0])):
        assert_array_equal(g, [np.nan, 0.0])
    for _, g in gradients(lambda x: np.linalg.norm(x) ** 2, np.zeros(3)):
        assert_array_equal(g, 0.0)


@pytest.mark.parametrize("choose", [np.maximum, np.minimum, lambda a, b: np.maximum(b, a), lambda a, b: np.clip(b, a, 9.0)])
def test_a_choice_that_is_handed_a_zero(choose):
    """One operand is nan: it is not known which is larger."""
    x = np.array([-1.0, 4.0])
    for _, g in gradients(lambda x: np.sum((x - x) ** 2 * choose(np.log(x), 1.0)), x):
        assert_array_equal(g, [np.nan, 0.0])
    for _, g in gradients(lambda x: np.sum(np.where(x > 0, choose(np.log(x), 1.0), x)), x):
        assert_array_equal(g[0], 1.0)


@settings(max_examples=40)
@given(
    hnp.arrays(float, (2, 3), elements=st.sampled_from([0.0, 1.0, -2.0, 1e-200, 1e200, 1e-170, 0.5])),
    st.sampled_from(["prod", "cumprod", "norm", "max", "det"]),
    st.sampled_from([lambda y: y**2, lambda y: 1e120 * y**1.5, lambda y: 1 / y, np.exp, np.tanh, lambda y: np.maximum(y, 0.3)]),
)
def test_both_modes_and_compiled_code_agree(x, name, outer):
    """Each finite number of one is that of the others, where they have one."""
    f = lambda x: np.sum(outer(ROWS[name][0](x)))
    found = [g for _, g in gradients(f, x)]
    for g in found[1:]:
        both = np.isfinite(g) & np.isfinite(found[0])
        np.testing.assert_allclose(g[both], found[0][both], rtol=1e-9, atol=1e-300)
