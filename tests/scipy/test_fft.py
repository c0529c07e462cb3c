"""Fourier transforms under SciPy's names."""

import numpy as np
import pytest
import scipy.fft

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import fft

X = np.random.default_rng(0).normal(size=(4, 6))


@pytest.mark.parametrize("name", fft._NAMES)
@pytest.mark.parametrize("options", [{}, {"norm": "ortho"}, {"workers": 1, "overwrite_x": False}])
def test_as_scipy(name, options):
    ours, theirs = getattr(fft, name), getattr(scipy.fft, name)
    np.testing.assert_array_equal(ours(X, **options), theirs(X, **options))
    value, slope = ad.jvp(lambda x: ours(x, **options), (X,), (2 * X,))
    np.testing.assert_allclose(value, theirs(X, **options), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, 2 * theirs(X, **options), rtol=1e-12, atol=1e-12)


def test_other_transforms():
    assert np.array_equal(fft.dct(X), scipy.fft.dct(X))
    with pytest.raises(UnsupportedError, match=r"scipy\.fft\.dct"):
        ad.grad(lambda x: np.sum(fft.dct(x)))(X)
    assert fft.next_fast_len is scipy.fft.next_fast_len
