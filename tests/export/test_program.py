"""The functions that exporters write: which graphs, their names, and what they compute."""

import numpy as np
import pytest
from export.samples import sample

import adjoint as ad
from adjoint import export
from adjoint.core.errors import ArgumentError
from adjoint.export.program import DERIVATIVES, parts

X, P = np.array([0.3, 0.7, 1.1]), {"w": np.array([1.0, 2.0, 3.0]), "b": 0.5}


def energy(x, p, *, k=2.0):
    return np.sum(np.sin(x * p["w"])) * k + p["b"] ** 2


def called(part, *args, **kwargs):
    return part.graph(*args, **kwargs)


def equal(a, b):
    for x, y in zip(ad.core.tree.flatten(a)[0], ad.core.tree.flatten(b)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0)])
@pytest.mark.parametrize("named", [{}, {"k": 3.0}])
@pytest.mark.parametrize("passes", [True, False])
def test_every_derivative(argnums, named, passes):
    args = (X, P)
    found = {p.kind: p for p in parts(energy, args, named, derivatives=DERIVATIVES, argnums=argnums, passes=passes)}
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    direction = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)

    def f(*xs):
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return energy(*full, **named)

    xs = tuple(args[i] for i in chosen)
    equal(called(found["value"], *args, **named), energy(*args, **named))
    equal(called(found["gradient"], *args, **named), ad.grad(energy, argnums)(*args, **named))
    equal(called(found["value_and_gradient"], *args, **named), ad.value_and_grad(energy, argnums)(*args, **named))
    equal(called(found["jacobian"], *args, **named), ad.jacobian(energy, argnums)(*args, **named))
    equal(called(found["hessian"], *args, **named), ad.hessian(energy, argnums)(*args, **named))
    equal(called(found["hvp"], *args, direction, **named), ad.hvp(energy, argnums)(*args, direction, **named))
    equal(called(found["jvp"], *args, direction, **named), ad.jvp(f, xs, xs))
    equal(called(found["vjp"], *args, 2.0, **named), ad.vjp(f, *xs)[1](np.float64(2.0)))
    for part in found.values():
        part.graph.check()
        names = [part.name, *part.graph.input_names, *part.output_names]
        assert all(n.isidentifier() for n in names)
        assert len(set(names)) == len(names)
        assert len(part.output_names) == len(part.graph.outputs)


def test_names_follow_the_arguments():
    summaries = [p.summary for p in parts(energy, (X, P), derivatives=("gradient", "hvp", "jvp"))]
    types = "x: float64[3], p_b: float64[], p_w: float64[3]"
    assert summaries == [
        f"energy({types}) -> y: float64[]",
        f"energy_gradient({types}) -> x_bar: float64[3]",
        f"energy_hvp({types}, x_dot: float64[3]) -> x_bar_dot: float64[3]",
        f"energy_jvp({types}, x_dot: float64[3]) -> y: float64[], y_dot: float64[]",
    ]
    outputs = parts(lambda x, y: {"y": x, "z": [y, y]}, (1.0, 2.0))[0].output_names
    assert outputs == ("y_", "z_0", "z_1")


@pytest.mark.parametrize("make", [lambda f: f, ad.jit, lambda f: ad.graph(f)(X), lambda f: ad.parse(str(ad.graph(f)(X)))])
def test_functions_of_every_kind(make):
    def f(x):
        return np.sum(x**2)

    made = make(f)
    given = (X,) if callable(made) and not hasattr(made, "equations") else ()
    value, gradient = parts(made, given, derivatives="gradient")
    equal(value.graph(X), f(X))
    equal(gradient.graph(X), 2 * X)


def test_a_function_of_symbols():
    x = ad.symbols("x", shape=3)
    value, product = parts(ad.function([x], [np.sum(x**2), x]), (), derivatives="vjp")
    assert value.output_names == ("y0", "y1")
    equal(product.graph(X, [1.0, X]), 3 * X)


def test_what_is_asked_for_must_exist():
    with pytest.raises(ArgumentError, match=r"derivatives of export are gradient, .*not 'slope'"):
        parts(energy, (X, P), derivatives="slope")
    with pytest.raises(ArgumentError, match="export expects a function"):
        parts(3.0, ())
    with pytest.raises(AttributeError, match="no attribute 'cobol'"):
        export.cobol


def test_exporters_are_found_by_name():
    for name in export.EXPORTERS:
        assert getattr(export, name).__name__ == name
        assert name in dir(export)


@pytest.mark.parametrize("exporter", sorted(set(export.EXPORTERS) - {"onnx"}))
def test_every_exporter_takes_a_name(exporter):
    made = getattr(export, exporter)(lambda x: np.sum(x * x), np.ones(3), derivatives="gradient", name="θ_0 naïve")
    text = made if isinstance(made, str) else str(made[1])
    assert "theta_0_naive" in text.replace("\\", "")
    with pytest.raises(ad.AdjointError, match="name of export is a string, got int"):
        getattr(export, exporter)(np.sin, 1.0, name=7)
    with pytest.raises(ad.AdjointError, match=r"export expects a function or a graph.*got int"):
        getattr(export, exporter)(7, 1.0)


@pytest.mark.parametrize("name", ["jax", "jnp", "lax", "np", "for"])
@pytest.mark.parametrize("exporter", ["python", "jax"])
def test_names_of_modules_are_not_those_of_functions(exporter, name):
    text = getattr(export, exporter)(lambda x: np.sum(np.sin(x)), np.ones(3), derivatives="gradient", name=name)
    compile(text, "module.py", "exec")
    taken = {"python": ["np", "for"], "jax": ["jax", "jnp", "lax", "for"]}[exporter]
    assert (f"def {name}_(" in text) == (name in taken)


def test_numba_has_a_name_of_its_own():
    with pytest.raises(ad.AdjointError, match="named 'njit'"):
        export.numba(lambda x: x * 2, 1.0, name="njit")


def test_unicode_names_are_spelled():
    made = parts(eval("lambda θ, é, x: θ * é * x"), (1.0, 2.0, 3.0), derivatives="gradient", name="f")
    assert made[1].graph.input_names == ("theta", "e", "x")
    assert made[1].output_names == ("theta_bar",)


def test_the_long_sample_is_long():
    """The programs that all exporters share have one of more than 5,000 equations, which no pass makes short."""
    assert max(len(part.graph) for part, _, _ in sample("thousands of equations")) > 5_000


def test_arguments_that_cannot_be_exported(tmp_path):
    for text in (np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", float)])):
        for exporter in ("c", "python", "stablehlo"):
            with pytest.raises(ArgumentError, match="x of export has the dtype"):
                getattr(export, exporter)(lambda x: x, text)
    for wrong in (3, None, ["slope"]):
        with pytest.raises(ArgumentError, match="derivatives of export are gradient"):
            export.python(lambda x: x, 1.0, derivatives=wrong)
    exporters = ("c", "object", "javascript", "wasm", "python", "latex", "stablehlo", "jax")
    for path in (5, b"f.c", ["f.c"]):
        for exporter in exporters:
            with pytest.raises(ArgumentError, match="is the name of a file"):
                getattr(export, exporter)(lambda x: x * 2, 1.0, name="f", path=path)


def halved_or_squared(x):
    if np.sum(x) > 0:
        y = x / 2
    else:
        y = x * x
    while np.sum(y) < 10.0:
        y = y * 2 + 1
    return np.sum(y)


def test_branches_on_values_are_those_of_the_source():
    made = parts(halved_or_squared, (X,), derivatives="gradient")
    for x in (X, -X, 100 * X):
        assert np.isclose(made[0].graph(x), halved_or_squared(x))
        np.testing.assert_allclose(made[1].graph(x), ad.grad(halved_or_squared)(x))
    for exporter in ("c", "javascript", "wasm", "stablehlo", "jax", "latex", "onnx"):
        getattr(export, exporter)(halved_or_squared, X, derivatives="gradient")


def test_numbers_that_a_graph_does_not_have():
    for f, what in ((lambda x: np.array([x[0], x[1]]), r"np\.array\(\).*adjoint\.numpy"), (lambda x: float(x[0]), r"float\(\)")):
        with pytest.raises(ad.AdjointError, match=f"{what}.*test_program.py"):
            export.c(f, X, name="f")


def test_files_of_another_exporter_are_not_overwritten(tmp_path):
    for first, second, suffixes in (("c", "object", (".c", ".o")), ("javascript", "wasm", (".js", ".wasm"))):
        for one, other in (((first, suffixes[0]), (second, suffixes[1])), ((second, suffixes[1]), (first, suffixes[0]))):
            folder = tmp_path / "_".join((*one, *other))
            folder.mkdir()
            for _ in range(2):  # its own are
                getattr(export, one[0])(lambda x: x * 2, 1.0, name="f", path=folder / f"f{one[1]}")
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            with pytest.raises(ArgumentError, match="belongs to another exported file; give this one another name"):
                getattr(export, other[0])(lambda x: x * 2, 1.0, name="f", path=folder / f"f{other[1]}")
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


PATHS = {
    ".c": export.c,
    ".o": export.object,
    ".js": export.javascript,
    ".wasm": export.wasm,
    ".py": export.python,
    ".tex": export.latex,
}


@pytest.mark.parametrize("suffix", PATHS)
def test_a_path_that_cannot_be_written_leaves_no_file(suffix, tmp_path):
    """A folder, or a file in a folder that does not exist: nothing is written beside it either."""
    (tmp_path / f"taken{suffix}").mkdir()
    with pytest.raises(ArgumentError, match="is a folder"):
        PATHS[suffix](lambda x: x * x, 2.0, name="f", path=tmp_path / f"taken{suffix}")
    with pytest.raises(ArgumentError, match=r"folder that does not exist: '.*absent'"):
        PATHS[suffix](lambda x: x * x, 2.0, name="f", path=tmp_path / "absent" / f"f{suffix}")
    assert [p.name for p in tmp_path.iterdir()] == [f"taken{suffix}"]


def test_a_triple_is_a_string():
    for options in ({"triple": 3}, {"cpu": 3}):
        with pytest.raises(ArgumentError, match=r"of export\.object is a string, got int"):
            export.object(lambda x: x * x, 2.0, name="f", **options)
