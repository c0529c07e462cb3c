"""The normal form of graphs, without any tool: a graph in the ops of a target, run by adjoint, has the same results."""

import math

import exported
import numpy as np
import op_samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import rotated

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise, Structured
from adjoint.export.expansions import EXPANSIONS, bessel, distributions, elliptic, integrals, polynomials
from adjoint.export.normal import normal

NAMES = list(exported.TARGETS)


def ops_in(graph):
    for e in graph.equations:
        yield e.op
        for part in e.params.values():
            if hasattr(part, "equations"):
                yield from ops_in(part)


def same(found, expected, rtol=1e-12, atol=1e-300):
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def results(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("target", NAMES)
def test_every_case_of_every_op(target):
    refusals = []
    for name in rotated(op_samples.names(), NAMES.index(target), len(NAMES)):
        for program, inputs in op_samples.programs(name):
            try:
                graph = normal(program, exported.TARGETS[target])
            except UnsupportedError as error:
                refusals.append((name, str(error)))
                continue
            assert all(op in exported.TARGETS[target].table or isinstance(op, Structured) for op in ops_in(graph)), name
            with np.errstate(all="ignore"):
                atol = {"det": 1e-14, "kl_div": 1e-14}.get(name, 1e-300)
                found, expected = graph.run_flat(inputs), results(program.run(*inputs))
                for i in (i for op, i in exported.SIGNLESS if op == name):
                    found[i], expected = np.abs(found[i]), (*expected[:i], np.abs(expected[i]), *expected[i + 1 :])
                same(found, expected, atol=atol)
    assert all(f"'{name}'" in refusal for name, refusal in refusals)


EDGES = [0.0, 1.0, 0.5, 2.0, 3.0, 1e-8, 1e-20, 0.4999999, 7.3, 1.5, 2.5, 25.0, 100.0, 1e30, math.inf]
EDGES = np.array([*EDGES, *(-x for x in EDGES), math.nan])

#: SciPy's own results differ there: in the loss of digits, in what lies beyond the format, or in what an infinite angle is.
OTHERS = {
    "powm1",
    "inv_boxcox",
    "inv_boxcox1p",
    "boxcox",
    "boxcox1p",
    "cotdg",
    "sindg",
    "cosdg",
    "tandg",
    "cosm1",
    "kl_div",
    "rel_entr",
}
OTHERS |= {"exprel", "pseudo_huber", "beta", "betaln", "zeta"}
#: Functions of parameters, which are compared with SciPy's on their domain only (expansions/test_expansions.py).
PARAMETRIC = {
    op for module in (distributions, elliptic, integrals, polynomials, bessel) for op in module.EXPANSIONS if op.name[1:] not in
    ("0", "1", "0e", "1e")
} | {OPS[name] for name in ("binom", "poch", "diric")}  # fmt: skip
#: Results that are a difference of larger numbers near their zeros.
ZEROS = {"gammaln", "psi", "j0", "j1", "y0", "y1"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("target", ["onnx", "stablehlo"])
def test_infinities_nans_zeros_and_extremes(target, dtype):
    edges = EDGES.astype(dtype)
    pairs = [x.ravel() for x in np.meshgrid(edges, edges)]
    expanded = [
        op
        for op in EXPANSIONS
        if isinstance(op, Elementwise) and op.arity < 3 and op not in PARAMETRIC and op.name not in OTHERS | {"ldexp"}
    ]
    for op in expanded:
        inputs = [edges] if op.arity == 1 else pairs
        with np.errstate(all="ignore"):
            program = ad.graph(lambda *xs, op=op: op(*xs))(*inputs)
            try:
                graph = normal(program, exported.TARGETS[target])
            except UnsupportedError:
                continue
            (found,), expected = graph.run_flat(inputs), program.run(*inputs)
            try:
                eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny
                rtol = max(60 * eps, 1e-12 if op in bessel.EXPANSIONS or op.name == "log_ndtr" else 0)
                same([found], [expected], rtol=rtol, atol=60 * eps if op.name in ZEROS else tiny)
            except AssertionError as error:
                raise AssertionError(op.name) from error


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_indices(data):
    """Reads and writes at random basic indices, with negative steps, gaps, new axes and empty parts."""
    shape = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple))
    entries = []
    for n in shape:
        whole = st.integers(-n, n - 1) if n else st.nothing()
        bounds = st.none() | st.integers(-n - 1, n + 1)
        slices = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, -2]))
        entries.append(data.draw(st.one_of(whole, slices)))
        if data.draw(st.booleans()):
            entries.append(None)
    spec = tuple(entries)
    x = np.arange(1.0, 1.0 + math.prod(shape)).reshape(shape)
    v = np.asarray(x[spec]) * 2.0

    def f(x, v):
        y = anp.array(x)
        y[spec] = v
        return y, x[spec], ad.grad(lambda x: anp.sum(x[spec] * v))(x)

    program = ad.graph(f)(x, v)
    for target in exported.TARGETS.values():
        same(normal(program, target).run_flat([x, v]), program.run(x, v))


@pytest.mark.parametrize("target", NAMES)
def test_integers(target):
    a = np.array([7, -7, 6, -6, 0, 5, 2**62, -(2**63), 9, 1])
    b = np.array([2, 2, -4, -4, 3, 0, 3, -1, 63, 70])
    shifts = np.array([0, 1, 2, 3, 62, 5, 1, 1, 63, 7])

    def f(a, b, n):
        return (
            a // b,
            a % b,
            np.fmod(a, b),
            np.gcd(a % 97, b),
            a << n,
            a >> n,
            np.bitwise_count(a % 1000),
            a & b,
            a | b,
            a ^ b,
            ~a,
        )

    with np.errstate(all="ignore"):
        program = ad.graph(f)(a, b, shifts)
        expected = program.run(a, b, shifts)
        same(normal(program, exported.TARGETS[target]).run_flat([a, b, shifts]), expected)


def test_conversions_are_explicit():
    program = ad.graph(lambda x, n: (x + n, x > 1, np.sum(x > n), n / 2, n * 2))(np.float32([1, 2]), np.array([1, 3]))
    for target in exported.TARGETS.values():
        graph = normal(program, target)
        types = graph.types
        for e in graph.equations:
            if isinstance(e.op, Elementwise):
                dtypes = {o.type.dtype if not isinstance(o, int) else types[o].dtype for o in e.inputs}
                assert dtypes == {e.types[0].dtype}
                assert not any(o.is_weak for o in e.inputs if not isinstance(o, int))
        same(graph.run_flat([np.float32([1, 2]), np.array([1, 3])]), program.run(np.float32([1, 2]), np.array([1, 3])))


@pytest.mark.parametrize("target", NAMES)
def test_a_refusal_names_the_op_and_the_line(target):
    with pytest.raises(UnsupportedError, match=r"the op 'airy' cannot be written as .* \(test_normal.py:\d+\)"):
        normal(ad.graph(lambda x: ad.scan(lambda c, v: (OPS["airy"](c)[0], v), x, np.ones(3)))(0.5), exported.TARGETS[target])


def test_a_refusal_inside_an_expansion_names_both():
    program = ad.graph(lambda x: np.linalg.norm(np.fft.fft(x)))(np.ones(4))
    with pytest.raises(UnsupportedError, match="the op 'fft' cannot be written as ONNX: it has no complex128"):
        normal(program, exported.TARGETS["onnx"])
