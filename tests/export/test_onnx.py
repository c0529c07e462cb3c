"""ONNX models: checked by onnx, run by ONNX Runtime."""

import math
import sys

import numpy as np
import pytest
from export.samples import HALVES, SAMPLES
from night import AT_NIGHT

import adjoint as ad
from adjoint import export
from adjoint.core.errors import ArgumentError, UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.program import parts

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx onnxruntime")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install onnxruntime")

RNG = np.random.default_rng(3)


def run(model, *inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {n: np.asarray(x) for n, x in zip(names, inputs, strict=True)})


def check(f, args, derivatives=(), model=None, rtol=1e-11):
    """The results of a model of all parts, against those of their graphs: inputs and results go by name."""
    given, expected = {}, {}
    leaves = flatten((args, {}))[0]
    for part in parts(f, args, derivatives=derivatives):
        for i, (name, t) in enumerate(zip(part.graph.input_names, part.graph.input_types, strict=True)):
            if name not in given:
                given[name] = np.asarray(leaves[i] if i < len(leaves) else RNG.normal(size=t.shape), t.dtype)
        with np.errstate(all="ignore"):
            made = part.graph.run(*[given[name] for name in part.graph.input_names])
        expected |= dict(zip(part.output_names, made if isinstance(made, tuple) else (made,), strict=True))
    session = onnxruntime.InferenceSession((model or export.onnx(f, *args, derivatives=derivatives)).SerializeToString())
    assert [o.name for o in session.get_outputs()] == list(expected)
    same(session.run(None, given), expected.values(), rtol)


def same(found, expected, rtol=1e-12):
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        slack = {"float32": 1e-6, "float16": 2e-3}.get(a.dtype.name, 1e-12)
        np.testing.assert_allclose(a, b, rtol=max(rtol, 2e-3 * (a.dtype == np.float16)), atol=slack)  # as in test_jax.py


def energy(x):
    return np.sum(np.sin(x) * x)


def kinds(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from kinds(attribute.g)


def test_function_and_gradient_are_one_model(tmp_path):
    x = np.linspace(0, 1, 5)
    model = export.onnx(energy, x, derivatives="gradient", path=tmp_path / "energy.onnx")
    assert [i.name for i in model.graph.input] == ["x"]
    assert [o.name for o in model.graph.output] == ["y", "x_bar"]
    assert model.producer_name == "adjoint"
    assert "energy_gradient(x: float64[5]) -> x_bar: float64[5]" in model.graph.doc_string
    assert any("test_onnx.py:" in node.doc_string for node in model.graph.node)
    same(run(onnx.load(tmp_path / "energy.onnx"), x), [energy(x), ad.grad(energy)(x)])


@pytest.mark.parametrize("name", [name for name in SAMPLES if AT_NIGHT or name != "thousands of equations"])
def test_samples(name):
    f, args, derivatives = SAMPLES[name]
    try:
        model = export.onnx(f, *args, derivatives=derivatives)
    except UnsupportedError as error:
        pytest.skip(str(error))
    single = any(np.asarray(x).dtype == np.float32 for x in flatten(args)[0])
    check(f, args, derivatives, model, rtol=2e-5 if single else 1e-9)


@pytest.mark.parametrize("name", HALVES)
def test_numbers_of_16_bits(name):
    f, args, derivatives = HALVES[name]
    check(f, args, derivatives, rtol=1e-6)


def test_loops_and_branches_stay():
    def f(x, n):
        last, ys = ad.scan(lambda c, v: (c * v, c + v), x, np.arange(1.0, 4.0), reverse=True)
        grown = ad.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 2 + n, s[1] + 1), (last, 0))
        return ad.cond(grown[0] > 150.0, lambda y: (y, y + 1), lambda y: (-y, y), grown[0]), ys, grown[1]

    model = export.onnx(f, 1.5, 2.0)
    assert {"Scan", "Loop", "If"} <= set(kinds(model.graph))
    for x in (1.5, 0.1, 3.0):
        (a, b), ys, count = f(x, 2.0)
        same(run(model, x, 2.0), [a, b, ys, np.asarray(count)])


def test_gradients_through_loops():
    def f(x):
        return ad.while_loop(lambda u: np.sum(u) < 50.0, lambda u: u * 1.5 + x, x).sum()

    def g(x):
        return np.sum(ad.scan(lambda c, v: (np.sin(c) * v, c), x, np.linspace(0, 1, 5))[1])

    x = np.array([0.7, 0.3])
    for h in (f, g):
        same(run(export.onnx(h, x, derivatives="gradient"), x), [h(x), ad.grad(h)(x)])


def test_no_iterations_and_no_elements():
    empty = np.zeros((0, 3))
    f = lambda x: (x.sum(0), x @ np.ones((3, 2)), x * 2, np.prod(x, axis=0), np.any(x > 0, axis=0), np.all(x > 0, axis=0))
    same(run(export.onnx(f, empty), empty), f(empty))
    g = lambda x: ad.scan(lambda c, v: (c + v, c), 1.0, x)
    same(run(export.onnx(g, np.zeros(0)), np.zeros(0)), [1.0, np.zeros(0)])
    h = lambda x: np.concatenate([x[:0], x, x[::-2], x[5:]])
    x = np.arange(4.0)
    same(run(export.onnx(h, x), x), [h(x)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "int8", "uint8"])
def test_dtypes(dtype):
    x = (np.arange(6).reshape(2, 3) % 4).astype(dtype)

    def f(x):
        return x.sum(0), x.max(1), np.where(x > 1, x, 0), x.T, x == 2, np.sort(x, axis=1), np.cumsum(x, axis=1), x[:, ::-1]

    if dtype in ("int8", "uint8", "bool"):
        with pytest.raises(UnsupportedError, match="the op '"):
            export.onnx(f, x)
        f = lambda x: (x.T, x == 2, x[:, ::-1], np.concatenate([x, x]), x[:, [2, 0]], np.where(x == 1, x, x[::-1]))
    model = export.onnx(f, x)
    for a, b in zip(run(model, x), f(x), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.asarray(b).dtype


def test_nan_and_order():
    x = np.array([[2.0, np.nan, -np.inf, np.inf, 0.0], [3.0, 1.0, 1.0, -0.0, np.nan]])

    def f(x):
        return (
            np.argsort(x, axis=1, kind="stable"),
            np.argmax(x, axis=1),
            np.max(x, axis=1),
            np.min(x, axis=0),
            np.sort(x, axis=1),
        )

    for a, b in zip(run(export.onnx(f, x), x), f(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_scalar_factor_next_to_a_product_stays_float64():
    """ONNX Runtime would move it into the product as a float32."""
    a, x = RNG.normal(size=(4, 4)), RNG.normal(size=4)

    def f(a, x):
        return (0.9 * a) @ a, 0.9 * (a @ a), (a * 0.7).T @ x, 0.1 * (x @ x), (a @ x) / 0.3, (0.9 * a[None]) @ np.stack([a, a])

    same(run(export.onnx(f, a, x), a, x), f(a, x), rtol=1e-14)


BATCHES = {
    "loss": (
        lambda w, x, y: np.mean((1 / (1 + np.exp(-(x @ w))) - y) ** 2),
        lambda n: (np.arange(3.0), RNG.normal(size=(n, 3)), RNG.normal(size=n)),
        (None, 0, 0),
        "gradient",
    ),
    "loss of several": (
        lambda w, x, y: np.mean((np.tanh(x @ w) - y) ** 2) / 3,
        lambda n: (np.arange(6.0).reshape(3, 2), RNG.normal(size=(n, 3)), RNG.normal(size=(n, 2))),
        (None, 0, 0),
        "value_and_gradient",
    ),
    "loss of singles": (
        lambda w, x: np.mean((x @ w) ** 2) * np.float32(0.5),
        lambda n: (np.ones((3, 2), np.float32), RNG.normal(size=(n, 3)).astype(np.float32)),
        (None, 0),
        "gradient",
    ),
    "factors": (
        lambda x: (
            np.sum(x) / (len(x) + 1),
            -np.sum(x) / np.sqrt(len(x)),
            x * (len(x) / 7),
            np.std(x, ddof=1),
            x * np.sqrt(len(x) - 2),
        ),
        lambda n: (RNG.normal(size=n),),
        0,
        "vjp",
    ),
    "mean": (lambda batch: np.mean(batch), lambda n: (RNG.normal(size=n),), 0, "gradient"),
    "softmax": (lambda x: np.exp(x - x.max(1, keepdims=True)), lambda n: (RNG.normal(size=(n, 3)),), 0, ()),
    "columns": (lambda x: np.var(x, axis=1) + x[:, -1], lambda n: (RNG.normal(size=(2, n)),), 1, ()),
    "pieces": (lambda x: np.concatenate([x[1:], x[::-1], np.zeros(2)]), lambda n: (RNG.normal(size=n),), 0, ()),
    "scan": (lambda x: ad.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x), lambda n: (RNG.normal(size=n),), 0, ()),
    "places": (lambda x: x * np.arange(len(x)) / len(x), lambda n: (RNG.normal(size=n),), 0, ()),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_free_size(name):
    f, make, batch, derivatives = BATCHES[name]
    model = export.onnx(f, *make(4), batch=batch, derivatives=derivatives)
    assert any(d.dim_param == "batch" for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    for n in (3, 4, 61, 100):
        args = make(n)
        check(f, args, derivatives, model)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: sum(v for v in x),
        lambda x: np.sort(x)[len(x) // 2],
        lambda x: x * np.sin(np.arange(len(x))),
        lambda x: x[::3],
        lambda x: x * len(x) ** 3,
        lambda x: x / np.log(len(x)),
    ],
)
def test_a_size_that_cannot_be_free_is_refused(f):
    with pytest.raises(UnsupportedError, match="the size of a batch cannot be free"):
        export.onnx(f, np.arange(4.0), batch=0)


def test_batches_are_checked():
    x = np.ones((2, 3))
    for batch, what in (
        ((0, 1), "is an axis"),
        (2, "names axis 2 of argument 0"),
        ((None,), "names no axis"),
        (-1, "is an axis"),
    ):
        with pytest.raises(ArgumentError, match=what):
            export.onnx(lambda x: x, x, batch=batch)
    with pytest.raises(ArgumentError, match="frees one size"):
        export.onnx(lambda x, y: x, x, np.ones(5), batch=0)
    with pytest.raises(ArgumentError, match="a graph has fixed shapes"):
        export.onnx(ad.graph(lambda x: x * 2)(x), batch=0)


def test_refusals():
    with pytest.raises(
        UnsupportedError, match=r"the op 'fft' cannot be written as ONNX: it has no complex128 there \(test_onnx.py"
    ):
        export.onnx(lambda x: np.abs(np.fft.fft(x)), np.ones(4))
    with pytest.raises(UnsupportedError, match="the input 'z' is complex128"):
        export.onnx(lambda z: z * 2, np.ones(2, complex))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=r"needs the package onnx: pip install 'adjoint\[onnx\]'"):
        export.onnx(math.sin, 1.0)
