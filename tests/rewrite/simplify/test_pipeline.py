"""Simplified graphs as a whole: what is left, what is counted, how long it takes."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse
from adjoint.core.types import Type
from adjoint.rewrite.simplify import common_subexpressions, constant_folding, dead_code, renumber

X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def ops(program):
    return [e.op.name for e in program.equations]


@pytest.mark.parametrize("assume", [None, "finite"])
def test_derivative_of_a_product_prunes_to_one_node(assume):
    f = lambda x, y: 5 + x * y
    reverse = ad.graph(ad.grad(f))(2.0, 3.0)
    forward = ad.graph(lambda x, y: ad.jvp(f, (x, y), (1.0, 0.0))[1])(2.0, 3.0)
    assert ops(reverse) == ["mul", "add", "mul"]
    for program in (reverse, forward):
        pruned = program.simplify(assume=assume)
        assert str(pruned).splitlines()[1:] == ["  return y", "}"]
        assert pruned(2.0, 3.0) == 3.0


def test_structure_and_signature_are_kept():
    f = lambda p, x: {"out": p["w"] * x * 1, "unused": p["b"]}
    args = ({"w": X, "b": 1.0}, X)
    counts = {}
    simpler = ad.graph(f)(*args).simplify(counts=counts)
    assert counts == {"mul-one": 1}
    assert simpler.input_names == ("p_b", "p_w", "x")
    np.testing.assert_array_equal(simpler(*args)["out"], X * X)


def test_lines_are_kept():
    simpler = ad.graph(lambda x: np.log(1 + x))(X).simplify("finite")
    assert ops(simpler) == ["log1p"]
    assert simpler.equations[0].line.startswith("test_pipeline.py:")


def test_unknown_assumption_is_refused():
    with pytest.raises(ad.AdjointError, match="'all'"):
        ad.graph(np.sin)(X).simplify(assume="all")


def test_passes():
    def f(x):
        np.cos(x)
        a = x[:, 1:] + np.sin(x)[:, 1:]
        return a * (np.sin(x)[:, 1:] + x[:, 1:])

    program = ad.graph(f)(X)
    assert ops(dead_code(program)) == ops(program)[1:]
    shared = dead_code(common_subexpressions(program))
    assert ops(shared) == ["getitem", "sin", "getitem", "add", "mul"]
    np.testing.assert_array_equal(shared(X), f(X))
    tidy = renumber(dead_code(program))
    tidy.check()
    assert [e.outputs for e in tidy.equations] == [(i + 1,) for i in range(len(tidy))]


def test_nothing_is_shared_that_differs():
    program = ad.graph(lambda x: (x * 0.0, x * -0.0, x[1:], x[:1], x.astype(np.float32), np.sum(x, 0), np.sum(x, 1)))(X)
    assert len(common_subexpressions(program)) == len(program)


def test_python_numbers_stay_weak_and_computed_ones_do_not():
    x = np.ones(3, np.float32)
    f = lambda x: (x * np.where(np.zeros(3, bool), x.astype(np.float64), 2.0), x * 2.0)
    program = ad.graph(f)(x)
    simpler = program.simplify()
    simpler.check()
    assert simpler.output_types == program.output_types == (Type((3,), np.dtype(float)), Type((3,), np.dtype(np.float32)))


def test_large_constants_are_not_computed_beforehand():
    f = lambda x, n: x[0] + np.exp(np.broadcast_to(x[:1] * 0, (n,)))
    small, large = (ad.graph(lambda x, n=n: f(x, n))(np.ones(2)).simplify("finite") for n in (10, 10**6))
    assert ops(small) == ["getitem", "add"]
    assert ops(large) == ["getitem", "add", "broadcast_to"]
    np.testing.assert_array_equal(large.run(np.ones(2)), np.full(10**6, 2.0))


def test_constant_folding():
    source = """graph f(x: float64[]) {
  v1: float64[] = add float64(2.0), 3
  v2: float64[] = exp v1
  v3: float64[] = mul x, v2
  return v3
}"""
    program = parse(source)
    folded = constant_folding(program)
    assert ops(folded) == ["mul"]
    assert folded.run(2.0) == program.run(2.0) == 2 * np.exp(5.0)


def test_constant_folding_leaves_errors_to_the_run():
    program = parse("""graph f(x: int64[]) {
  v1: int64[] = power int64(2), int64(-1)
  v2: int64[] = add x, v1
  return v2
}""")
    assert ops(program.simplify()) == ["power", "add"]


def test_stop_gradient_stays():
    f = lambda x: ad.stop_gradient(x * 1) * x
    simpler = ad.graph(f)(3.0).simplify("finite")
    assert ad.grad(simpler)(3.0) == 3.0


def test_long_graphs():
    def f(x, n):
        for _ in range(n):
            x = np.sin(x) * 1.0 + 0.5
        return x

    for n in (1_000, 10_000):
        program = ad.graph(lambda x, n=n: f(x, n))(0.5)
        simpler = program.simplify()
        assert len(simpler) == 2 * n
