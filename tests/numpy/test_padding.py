"""`numpy.pad` in every mode: NumPy's values, and a derivative that is its transpose."""

import numpy as np
import pytest

import adjoint as ad

MODES = {
    "constant": {"constant_values": (1.0, 2.0)},
    "edge": {},
    "linear_ramp": {"end_values": 3.0},
    "maximum": {"stat_length": 2},
    "mean": {},
    "median": {},
    "minimum": {},
    "reflect": {"reflect_type": "odd"},
    "symmetric": {},
    "wrap": {},
}
WIDTHS = [1, (2, 0), ((1, 2), (3, 0)), 0, ((0, 0), (5, 4))]
X = np.array([[0.3, 1.7, -0.4], [2.2, 0.9, 1.1]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS, ids=repr)
def test_value_and_both_modes(mode, width):
    f = lambda x: np.pad(x, width, mode=mode, **MODES[mode])
    value, pull = ad.vjp(f, X)
    np.testing.assert_allclose(value, f(X), rtol=1e-14)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=value.shape), rng.normal(size=X.shape)
    np.testing.assert_allclose(np.sum(u * ad.jvp(f, (X,), (v,))[1]), np.sum(pull(u)[0] * v), rtol=1e-10)


def test_a_function_of_the_users():
    def twice(line, widths, axis, options):
        line[: widths[0]] = 2 * line[widths[0]]
        line[len(line) - widths[1] :] = options["value"]

    f = lambda x: np.pad(x, 1, twice, value=5.0)
    np.testing.assert_array_equal(ad.vjp(f, X)[0], f(X))


@pytest.mark.parametrize(
    "arguments, options", [((X, -1), {}), ((X, ((1, 1),) * 3), {}), ((X, 1, "nowhere"), {}), ((X, 1, "edge"), {"end_values": 1})]
)
def test_errors_are_numpys(arguments, options):
    with pytest.raises((ValueError, TypeError)):
        np.pad(*arguments, **options)
    with pytest.raises((ValueError, TypeError)):
        ad.grad(lambda x: np.sum(np.pad(x, *arguments[1:], **options)))(X)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "mean"])
def test_an_empty_axis_cannot_be_extended(mode):
    empty = np.ones((0, 2))
    with pytest.raises(ValueError):
        np.pad(empty, ((1, 0), (0, 0)), mode=mode)
    with pytest.raises(ValueError):
        ad.vjp(lambda x: np.pad(x, ((1, 0), (0, 0)), mode=mode), empty)
