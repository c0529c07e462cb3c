"""Programs as StableHLO text and as JAX functions, run by JAX in an environment of its own (`environments.py`)."""

import re

import numpy as np
import pytest
from export.environments import JAX
from export.samples import HALVES, SAMPLES
from night import AT_NIGHT

import adjoint as ad
import adjoint.numpy as anp
from adjoint import export
from adjoint.core.errors import UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.program import parts

RNG = np.random.default_rng(4)
LANGUAGES = ["stablehlo", "jax"]


def energy(x):
    return np.sum(np.sin(x) * x)


def case(language, f, args, derivatives=()):
    """One case of each part for a JAX function, and the expected results; StableHLO has one function, `main`, for all."""
    sent, expected, given = [], [], {}
    leaves = flatten((args, {}))[0]
    text = getattr(export, language)(f, *args, derivatives=derivatives)
    for part in parts(f, args, derivatives=derivatives):
        for i, (name, t) in enumerate(zip(part.graph.input_names, part.graph.input_types, strict=True)):
            if name not in given:
                given[name] = np.asarray(leaves[i] if i < len(leaves) else RNG.normal(size=t.shape), t.dtype)
        inputs = [given[name] for name in part.graph.input_names]
        with np.errstate(all="ignore"):
            made = part.graph.run(*inputs)
        expected.append(list(made) if isinstance(made, tuple) else [made])
        sent.append((language, text, part.name, inputs))
    if language == "stablehlo":
        sent, expected = [(language, text, "main", list(given.values()))], [[y for ys in expected for y in ys]]
    return list(zip(sent, expected, strict=True))


def run_all(cases, rtol=1e-9):
    for (what, (sent, expected)), found in zip(cases, JAX.run([s for _, (s, _) in cases]), strict=True):
        assert not isinstance(found, str), f"{what}: {found}\n{sent[1]}"
        single = any(np.asarray(x).dtype in (np.float32, np.complex64) for x in [*expected, *sent[3]])
        for a, b in zip(found, expected, strict=True):
            assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype), what
            if a.dtype == np.float16:  # sums are rounded in another order
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3, err_msg=what)
                continue
            np.testing.assert_allclose(a, b, rtol=2e-5 if single else rtol, atol=1e-6 if single else 1e-12, err_msg=what)


@JAX.needed
@pytest.mark.parametrize("language", LANGUAGES)
def test_samples(language):
    cases, refusals = [], []
    for name, (f, args, derivatives) in SAMPLES.items():
        if name == "thousands of equations" and not AT_NIGHT:
            continue  # XLA compiles it for half a minute
        try:
            cases += [(name, c) for c in case(language, f, args, derivatives)]
        except UnsupportedError as error:
            refusals.append(str(error))
    assert all("the op '" in refusal for refusal in refusals)
    assert len(cases) >= 20
    run_all(cases)


def loops(x, n):
    last, ys = ad.scan(lambda c, v: (c * v, c + v), x, np.arange(1.0, 4.0), reverse=True)
    grown = ad.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 2 + n, s[1] + 1), (last, 0))
    return ad.cond(grown[0] > 150.0, lambda y: (y, y + 1), lambda y: (-y, y), grown[0]), ys, grown[1]


def complex_numbers(z):
    return np.fft.ifft(np.exp(z) * np.conj(z)), np.abs(z), z.real * z.imag, np.sqrt(z) / (1 + z), np.sum(z**2), z @ z


def main(x):
    return x, x, x * 2


EMPTY = np.zeros((0, 3))
TABLE = np.array([[0.0, 1.0, 2.0, 3.0], [1.0, 4.0, 9.0, 16.0]])
PROGRAMS = {
    "loops": (loops, (1.5, 2.0), ()),
    "gradient of while": (lambda x: ad.while_loop(lambda u: u < 50.0, lambda u: u * 1.5 + x, x), (0.7,), "gradient"),
    "complex": (complex_numbers, (RNG.normal(size=4) + 1j * RNG.normal(size=4),), ()),
    "single complex": (lambda z: (np.exp(z), z * 2), (np.complex64([1 + 2j, 3j]),), ()),
    "empty": (lambda x: (x.sum(0), x @ np.ones((3, 2)), np.prod(x, axis=0), np.any(x > 0, axis=0)), (EMPTY,), ()),
    "no elements": (lambda x: (np.sort(x), x[np.zeros(0, int)], np.argsort(x)), (np.zeros(0),), ()),
    "no iterations": (lambda x: ad.scan(lambda c, v: (c + v, c), 1.0, x), (np.zeros(0),), ()),
    "whole numbers": (lambda n: (n // 3, n % 3, n**2, n << 1, n >> 1, np.cumsum(n), np.sort(n)), (np.array([5, -5, 0]),), ()),
    "int32": (lambda n: (n + 1, n.sum(), n / 2, n.max()), (np.array([5, -5, 0], np.int32),), ()),
    "truths": (lambda b: (b & ~b, b.any(), b.sum(), np.where(b, 1, 0), b | True), (np.array([True, False]),), ()),
    "nan": (lambda x: (np.argsort(x), np.argmax(x), np.max(x), np.sort(x)), (np.array([1.0, np.nan, -np.inf, np.inf]),), ()),
    "mixed": (lambda x, n: (x * n, x + 1, n + 0.5, x > n), (np.float32([1, 2]), np.array([2, 1])), ()),
    "constant results": (lambda x: (np.zeros(2), x * 0 + 1, 3.0), (np.ones(2),), "jacobian"),
    "large constant": (lambda x: x @ np.arange(200.0).reshape(2, 100) / 7, (np.ones(2),), ()),
    "a table": (
        lambda x, n: np.interp(x, TABLE[0], TABLE[1]) + anp.take(TABLE[1], n),
        (np.array([0.5, 2.5]), np.array([2, 0])),
        "jacobian",
    ),
    "indices of few bits": (lambda x, i: x[i], (np.arange(300.0), np.array([3, -2, 7], np.int8)), "jacobian"),
    "named main": (main, (np.ones(2),), ()),
    "named like a word": (lambda lax, step1: lax * step1, (2.0, 3.0), ()),
}


@JAX.needed
@pytest.mark.parametrize("language", LANGUAGES)
def test_programs(language):
    run_all([(name, c) for name, program in PROGRAMS.items() for c in case(language, *program)], rtol=1e-12)


@JAX.needed
@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_16_bits(language):
    run_all([(name, c) for name, program in HALVES.items() for c in case(language, *program)])


@JAX.needed
def test_eigenvalues_in_jax():
    a = RNG.normal(size=(3, 3))
    run_all([("eigh", c) for c in case("jax", lambda a: np.sum(np.linalg.eigh(a + a.T)[0] ** 3), (a,), "gradient")])


@JAX.needed
def test_jax_differentiates_what_was_written():
    x = np.linspace(0.1, 1, 4)
    text = export.jax(energy, x) + "\n\nenergy_slope = jax.grad(energy)\n"
    (found,) = JAX.run([("jax", text, "energy_slope", [x])])
    np.testing.assert_allclose(found[0], ad.grad(energy)(x), rtol=1e-14)


def test_text_of_stablehlo(tmp_path):
    text = export.stablehlo(energy, np.ones(3), derivatives="gradient", path=tmp_path / "energy.mlir")
    assert (tmp_path / "energy.mlir").read_text(encoding="utf-8") == text
    assert text.startswith("module @energy {\n  func.func public @main(%x: tensor<3xf64>) -> (tensor<f64>, tensor<3xf64>) {")
    assert "func.func private @energy_gradient(%x: tensor<3xf64>)" in text
    assert re.search(r"stablehlo\.sine %x : \(tensor<3xf64>\) -> tensor<3xf64>  // test_jax\.py:\d+", text)


def test_source_of_jax(tmp_path):
    text = export.jax(energy, np.ones(3), derivatives="gradient", path=tmp_path / "energy.py")
    assert (tmp_path / "energy.py").read_text(encoding="utf-8") == text
    compile(text, "energy.py", "exec")
    assert "def energy(x):" in text
    assert "def energy_gradient(x):" in text
    assert "jax_enable_x64" in text
    assert "jax_enable_x64" not in export.jax(lambda x: x * 2, np.float32(1.0))


@pytest.mark.parametrize("language", LANGUAGES)
def test_refusals(language):
    with pytest.raises(UnsupportedError, match=r"the op 'airy' cannot be written as .* \(test_jax.py:\d+\)"):
        getattr(export, language)(lambda x: ad.core.op.OPS["airy"](x), 1.0)
    with pytest.raises(UnsupportedError, match="'hyp2f1'" + (".* it does not return" if language == "jax" else "")):
        getattr(export, language)(lambda x: ad.core.op.OPS["hyp2f1"](0.5, 1.0, 1.5, x), 0.3)
    with pytest.raises(UnsupportedError, match=r"longdouble|float128"):
        getattr(export, language)(lambda x: x * 2, np.longdouble(1.0))
