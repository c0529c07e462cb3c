"""The list of passes: in order, named, and what each leaves is reported."""

import numpy as np

import adjoint as ad
from adjoint.rewrite.pipeline import COMPLEX_PARTS, HALVES, PASSES, optimize

REAL = [name for name in PASSES if name not in (COMPLEX_PARTS, HALVES)]  # the passes over a graph of real doubles


def loss(x):
    for _ in range(60):
        x = np.sin(x) * 0.5 + x
    return np.sum(x)


def test_loops_are_rolled_before_anything_is_simplified():
    assert list(PASSES) == [
        "dead code",
        "roll",
        "forward writes",
        "simplify",
        "idle carries",
        "constant masks",
        "complex parts",
        "halves",
        "join places",
        "elements",
        "share iterations",
        "sink sums",
        "sum points last",
        "split columns",
        "distribute",
        "read at places",
        "share offsets",
    ]


def test_the_number_of_equations_after_each_pass():
    graph = ad.graph(ad.value_and_grad(loss))(np.ones(3))
    found = optimize(graph)
    assert list(found.sizes) == ["staged", *REAL]
    assert found.sizes["staged"] == len(graph)
    assert found.sizes["share offsets"] == len(found.graph) < found.sizes["roll"] < found.sizes["dead code"]
    assert {loop.iterations for loop in found.loops} == {58, 60}
    for got, want in zip(found.graph.run_flat([np.ones(3)]), graph.run_flat([np.ones(3)]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_the_report_names_the_passes():
    compiled = ad.jit(ad.grad(loss))
    compiled(np.ones(3))
    (line,) = [line for line in compiled.report().splitlines() if "passes:" in line]
    assert [part.rsplit(" ", 1)[0].strip() for part in line.split(":")[1].removesuffix(" equations").split(",")] == [
        "staged",
        *REAL,
    ]
