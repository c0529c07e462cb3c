"""Loop nests: which loops are unrolled, so that the enclosing loop is vectorized."""

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(0)
WRITTEN_OUT = "llvm.loop.unroll.full"


def weighted(w, x, m):
    """A sum of rows, each with a weight of its own for every centre."""
    return np.sum(w[:, :, None] * (x[:, None, :] - m), axis=0)


@pytest.mark.parametrize(("width", "written_out"), [(3, 2), (8, 1), (20, 0)])
def test_rows_that_are_a_vector_stay_loops(width, written_out):
    """There are two loops over a row: one sets the sums to zero, the other adds."""
    args = RNG.normal(size=(100, 9)), RNG.normal(size=(100, width)), RNG.normal(size=(9, width))
    compiled = ad.jit(weighted)
    assert compiled.lower(*args).native.text.count(" = distinct ") == written_out
    np.testing.assert_allclose(compiled(*args), weighted(*args), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("width", "written_out"), [(3, True), (8, True), (20, False)])
def test_short_sums_are_written_out(width, written_out):
    x, m = RNG.normal(size=(100, width)), RNG.normal(size=(9, width))
    f = lambda x, m: np.sum((x[:, None, :] - m) ** 2, axis=2)
    compiled = ad.jit(f)
    assert (WRITTEN_OUT in compiled.lower(x, m).native.text) == written_out
    np.testing.assert_allclose(compiled(x, m), f(x, m), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_loops_over_one_number_have_functions_of_low_latency(shape, dtype):
    """A number that each iteration waits for; two are a vector, and floats have short polynomials."""

    def f(s):
        for _ in range(50):
            s = np.log(np.exp(s) + np.float32(0.5)) * np.cos(s) - np.sin(s)
        return s

    x = np.full(shape, 0.3, dtype)
    compiled = ad.jit(f)
    alone = shape != (2,) and dtype is np.float64
    assert compiled.lower(x).native.text.count(".alone.f64(double %x0)") == 4 * alone
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12 if dtype is np.float64 else 1e-4)
