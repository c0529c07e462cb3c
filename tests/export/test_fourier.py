"""Fourier transforms of exported code: every small length, every norm, several axes, layouts and precisions."""

import numpy as np
import pytest
from export.runners import RUNNERS
from night import AT_NIGHT, rotated

import adjoint as ad
from adjoint.export.fourier import passes, radices, roots

RNG = np.random.default_rng(3)
LENGTHS = (*range(1, 18), 22, 30, 31, 32, 35, 49, 64, 97, 100, 128, 210) if AT_NIGHT else (*range(1, 9), 11, 15, 16, 30, 49, 97)


def numbers(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def all_kinds(z, x, n):
    half = z[:, : n // 2 + 1]
    return (
        np.fft.fft(z),
        np.fft.ifft(z, norm="ortho"),
        np.fft.fft2(z, norm="forward"),
        np.fft.rfft(x, axis=0),
        np.fft.irfft(half, n=n),
        np.fft.ifft(z.T[::-1], axis=0),
    )


CASES = []
for n in LENGTHS:
    given = [numbers(2, n), RNG.normal(size=(n, 2))]
    CASES.append((f"length{n}", ad.graph(lambda z, x, n=n: all_kinds(z, x, n))(*given), given))
for name, f, z in (
    ("single", lambda z: (np.fft.fft(z), np.fft.rfft(z.real)), numbers(12).astype(np.complex64)),
    ("empty", lambda z: (np.fft.fft(z, axis=1), np.fft.irfft(z, axis=1)), np.zeros((0, 3), complex)),
    ("gradient", ad.grad(lambda z: np.sum(np.abs(np.fft.fft(z * np.conj(z) + z, 11)) ** 2)), numbers(3, 5)),
    ("three_axes", lambda z: (np.fft.ifftn(z), np.fft.rfftn(z.real)), numbers(2, 3, 4)),
    ("loop", lambda z: ad.fori_loop(0, 3, lambda i, z: np.fft.fft(z, norm="ortho") + i, z), numbers(6)),
):
    CASES.append((name, ad.graph(f)(z), [z]))


@pytest.mark.parametrize("exporter", RUNNERS)
def test_transforms(exporter):
    cases = rotated(CASES, list(RUNNERS).index(exporter), 2)
    results = RUNNERS[exporter](cases)
    if isinstance(results, str):
        pytest.skip(results)
    for (name, program, inputs), found in zip(cases, results, strict=True):
        assert isinstance(found, list), f"{name}: {found}"
        expected = program.run(*inputs)
        for a, b in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            precision = 1e-5 if b.dtype in (np.float32, np.complex64) else 3e-15
            np.testing.assert_allclose(a, b, 0, precision * max(1.0, np.max(np.abs(b), initial=0)), err_msg=name)


def test_passes_multiply_to_the_length():
    for n in range(1, 300):
        found = radices(n)
        assert found is None or np.prod(found, dtype=int) == n
    assert radices(11) is None
    assert passes(1) == ("", "u")
    assert passes(16)[1] == "u"
    assert passes(8)[1] == "u"
    assert passes(4)[1] == "v"


def test_roots():
    pairs = roots(1000, 1000).reshape(-1, 2)
    np.testing.assert_allclose(pairs[:, 0] + 1j * pairs[:, 1], np.fft.fft(np.eye(1000)[1]), 0, 1e-15)
