"""Every op of the table, through every exporter and its tool: equal results, or refused by name."""

import pathlib

import exported
import numpy as np
import op_samples
import pytest
from export.runners import SECOND_TOOLS
from night import rotated

import adjoint as ad
from adjoint import export
from adjoint.core.errors import UnsupportedError

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(("cases", "every"), [(exported.cases, 3), (exported.end_cases, 4)], ids=["samples", "ends"])
@pytest.mark.parametrize("exporter", exported.RUNNERS)
def test_every_op(exporter, cases, every):
    """At samples; and at infinite operands, nan, and the ends of domains."""
    wrong = exported.differences(exporter, rotated(cases(), list(exported.RUNNERS).index(exporter), every))
    if isinstance(wrong, str):
        pytest.skip(wrong)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("exporter, tool", SECOND_TOOLS)
def test_every_op_by_a_second_tool(exporter, tool):
    tried = rotated(exported.cases(), list(SECOND_TOOLS).index((exporter, tool)), 3)
    wrong = exported.differences(SECOND_TOOLS[exporter, tool], tried)
    if isinstance(wrong, str):
        pytest.skip(wrong)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", op_samples.KINDS)
def test_every_op_of_other_operands(kind):
    """The exporters take turns: other numbers than float64 and integers, and arrays without elements."""
    exporters = list(exported.RUNNERS)
    for i, exporter in enumerate(rotated(exporters, op_samples.KINDS.index(kind), len(op_samples.KINDS))):
        wrong = exported.differences(exporter, rotated(exported.kind_cases(kind), i, 2))
        if not isinstance(wrong, str):  # whose tool is missing: test_every_op says so
            assert not wrong, f"{exporter}: " + "\n".join(wrong)


@pytest.mark.parametrize("dtype", exported.INTEGERS)
def test_every_op_of_integers(dtype):
    """The exporters of native code and Numba take turns; NumPy's results, wrapped around where they overflow.

    An int64 is exact up to 2^53 in JavaScript: the samples have such ones.
    """
    for exporter in rotated([*exported.NATIVE, "numba"], exported.INTEGERS.index(dtype), 4):
        if (exporter, dtype) == ("javascript", "int64"):
            continue
        wrong = exported.differences(exporter, exported.integer_cases(dtype, exported.INTEGERS.index(dtype) // 4))
        if isinstance(wrong, str):  # whose tool is missing: test_every_op says so
            continue
        assert not wrong, "\n".join(wrong)


SHAPES = [((3, 4), (4, 2)), ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 2)), ((3, 4), (5, 4, 2))]
SHAPES += [((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((3, 0), (0, 2)), ((1, 1), (1, 1))]


def products_and_shifts(dtype):
    """Products of vectors, matrices and stacks; shifts by up to all bits, and by more."""
    rng = np.random.default_rng(0)
    low, high = (0, 2) if dtype == "bool" else (max(np.iinfo(dtype).min, -100), 100)
    for k, shapes in enumerate(SHAPES):
        pair = [rng.integers(low, high, shape).astype(dtype) for shape in shapes]
        yield f"product{k}", ad.graph(lambda a, b: a @ b)(*pair), pair
    if dtype != "bool":
        counts = np.array([0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100]).astype(dtype)
        x = rng.integers(low, high, (5, 1)).astype(dtype)
        yield "right", ad.graph(lambda x, n: (x >> n, x >> 3, 77 >> n))(x, counts), [x, counts]
        yield "left", ad.graph(lambda x, n: (x << n, x << 3))(x, counts[counts < 46]), [x, counts[counts < 46]]


@pytest.mark.parametrize("exporter", exported.RUNNERS)
def test_products_and_shifts_of_integers(exporter):
    refused = set()
    for dtype in (*exported.INTEGERS, "bool"):
        cases = list(products_and_shifts(dtype))
        found = exported.RUNNERS[exporter](cases)
        if isinstance(found, str):
            pytest.skip(found)
        for (name, program, inputs), results in zip(cases, found, strict=True):
            if isinstance(results, UnsupportedError):
                refused.add(f"{name[:5]} {dtype}")
                continue
            expected = program.run(*inputs)
            for a, b in zip(results, expected if isinstance(expected, tuple) else [expected], strict=True):
                np.testing.assert_array_equal(np.asarray(a), b, f"{name} of {dtype}")
    if exporter == "numba":
        assert refused == {f"produ {dtype}" for dtype in (*exported.INTEGERS, "bool")}
    elif exporter == "onnx":  # whose sums are of int32 and int64
        assert refused <= {"produ uint32", "produ uint64", "right uint64", "left uint64"}
    else:
        assert not refused


def test_every_exporter_that_computes_has_a_runner():
    assert set(exported.RUNNERS) == set(export.EXPORTERS) - {"latex"}


def test_the_page_is_up_to_date():
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    scope = {"__name__": "exports", "__file__": str(ROOT / "tools" / "exports.py")}
    exec(compile((ROOT / "tools" / "exports.py").read_text(encoding="utf-8"), "exports.py", "exec"), scope)
    assert scope["with_table"](page) == page, "run tools/exports.py"


def test_latex_is_of_whole_programs(tmp_path):
    def f(x):
        return exported.op_samples.STRUCTURED["scan"][0](x)[0] ** 2

    text = export.latex(f, 0.5, derivatives="gradient", path=tmp_path / "f.tex", document=True)
    assert (tmp_path / "f.tex").read_text(encoding="utf-8") == text
    assert text.startswith(r"\documentclass")
    assert r"\texttt{f\_gradient(x: float64[]) $\to$ x\_bar: float64[]}" in text
    assert text.count("where body of") >= 2
    assert text.count(r"\begin{aligned}") == text.count(r"\end{aligned}") >= 4
    assert export.latex(f, 0.5) in export.latex(f, 0.5, document=True)
