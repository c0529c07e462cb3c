"""Every rule of the table by its own test, generated from the rule: it applies, and the values stay what they were."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import Program
from adjoint.core.types import Type
from adjoint.derive import type_rule
from adjoint.ir.graph import Equation, Literal
from adjoint.rewrite.simplify.pattern import ZERO, ConstantHole, Hole, OpPattern, Parameter
from adjoint.rewrite.simplify.pipeline import simplify
from adjoint.rewrite.simplify.rewriter import Zero
from adjoint.rewrite.simplify.rules import FINAL, RULES

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -3.25, 1e308, -5e-324])
N = len(SPECIAL)
FLOAT, SINGLE, INTEGER, COMPLEX = map(np.dtype, (np.float64, np.float32, np.int64, np.complex128))


def variables(pattern):
    """The names of the operands in a pattern, in order."""
    if isinstance(pattern, Hole):
        return [pattern.name]
    if isinstance(pattern, OpPattern):
        return list(dict.fromkeys(name for a in pattern.args for name in variables(a)))
    return []


def instance(rule, case, dtype=FLOAT, constant=lambda number, shape: number):
    """The left side of a rule as a graph."""
    names = variables(rule.left)
    types = {}
    for name in names:
        given = case.get(name, (N * N,))
        types[name] = given if isinstance(given, Type) else Type(given, dtype)
    equations = []
    known = [types[name] for name in names]

    def parameter(value):
        return case[value.name] if isinstance(value, Parameter) else value

    def operand(pattern):
        if isinstance(pattern, Hole):
            return names.index(pattern.name)
        if isinstance(pattern, OpPattern):
            inputs = tuple(map(operand, pattern.args))
            params = {key: parameter(value) for key, value in pattern.params.items()}
            number = [o.value if isinstance(o, Literal) and o.is_weak else None for o in inputs]
            type_ = type_rule(pattern.op, [o.type if isinstance(o, Literal) else known[o] for o in inputs], params, number)
            equations.append(Equation(pattern.op, inputs, params, (len(known),), (type_,)))
            known.append(type_)
            return len(known) - 1
        if pattern is ZERO:
            return Zero(np.zeros((), dtype))
        number = case[pattern.name] if isinstance(pattern, ConstantHole) else pattern
        return Literal(constant(number, known[0].shape) if names else number)

    output = operand(rule.left)
    program = Program("left", tuple(names), tuple(types[n] for n in names), tuple(equations), (output,))
    program.check()
    return program


def samples(program, values):
    """Inputs filled with the given values, of two default inputs every pair."""
    for i, t in enumerate(program.input_types):
        if t.dtype.kind == "b":
            yield np.resize([True, False, False], t.shape)
        elif t.dtype.kind == "i" and not t.shape:  # an index
            yield np.asarray(1)
        else:
            with np.errstate(over="ignore"):
                values = values if t.dtype.kind == "c" else values.real
                x = values.astype(t.dtype)
            yield np.resize(np.repeat(x, len(x)) if i == 0 and t.size == N * N else x, t.shape)


def finite(n=N):
    return np.random.default_rng(0).uniform(0.3, 0.9, n)


def same(a, b, needs, dtype=FLOAT):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if needs in ("nothing", "unsigned zeros"):
        np.testing.assert_array_equal(a, b)
    else:
        eps = 1 if a.dtype.kind not in "fc" else np.finfo(a.dtype).eps
        np.testing.assert_allclose(a, b, rtol=8 * eps, atol=8 * eps if needs == "finite" else 0)
    if needs in ("nothing", "rounding"):
        for x, y in ((a.real, b.real), (a.imag, b.imag)):
            if x.dtype.kind == "f":
                known = ~np.isnan(x)
                np.testing.assert_array_equal(np.signbit(x[known]), np.signbit(y[known]))


CASES = [pytest.param(r, c, id=f"{r.name}-{i}") for r in RULES for i, c in enumerate(r.cases)]


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_rule(rule, case):
    program = instance(rule, case)
    counts = {}
    assume = "finite" if rule.needs == "finite" else None
    simpler = program.simplify(assume, counts)
    simpler.check()
    assert counts[rule.name] == 1, str(rule)
    assert simpler.output_types == program.output_types
    if assume:
        cautious = {}
        program.simplify(counts=cautious)
        assert rule.name not in cautious
    inputs = list(samples(program, finite() if assume else SPECIAL))
    with np.errstate(all="ignore"):
        same(program.run(*inputs), simpler.run(*inputs), rule.needs)


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_rule_keeps_derivatives(rule, case):
    program = instance(rule, case)
    simpler = program.simplify("finite")
    if program.output_types[0].dtype.kind != "f":
        pytest.skip("no derivative")
    inputs = [x.astype(complex) * (1 + 0.2j) if x.dtype.kind == "c" else x for x in samples(program, finite())]
    where = [i for i, x in enumerate(inputs) if x.dtype.kind in "f"]

    def pulled(graph):
        def f(*xs):
            full = list(inputs)
            for i, x in zip(where, xs, strict=True):
                full[i] = x
            return graph.run(*full)

        y, pull = ad.vjp(f, *[inputs[i] for i in where])
        return pull(np.linspace(0.5, 1.5, np.size(y)).reshape(np.shape(y)).astype(y.dtype))

    tolerance = 1e-6 if SINGLE in (t.dtype for t in program.types.values()) else 1e-12
    for a, b in zip(pulled(program), pulled(simpler), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
@pytest.mark.parametrize("dtype", [SINGLE, INTEGER, COMPLEX], ids=str)
def test_rule_of_other_dtypes(rule, dtype):
    if dtype == INTEGER and rule.left.op.name == "power":
        pytest.skip("an integer to a negative power is an error")
    for case in rule.cases:
        try:
            program = instance(rule, case, dtype)
        except (TypeError, ad.AdjointError):
            continue  # the ops have no such form
        for assume in (None, "finite"):
            simpler = program.simplify(assume)
            assert simpler.output_types == program.output_types
            if dtype == INTEGER:
                inputs = list(samples(program, np.array([1, 2, 3, 7, -2, -5])))
                needs = "nothing" if program.output_types[0].dtype.kind in "iub" else "finite"
            else:
                values = SPECIAL if assume is None else finite()
                inputs = list(samples(program, values * (1 + 0.5j) if dtype == COMPLEX else values))
                needs = "finite" if assume or rule.needs == "rounding" else rule.needs
            with np.errstate(all="ignore"):
                same(program.run(*inputs), simpler.run(*inputs), needs)


@pytest.mark.parametrize(
    "rule", [r for r in RULES if any(type(a) in (int, float, bool) for a in r.left.args)], ids=lambda r: r.name
)
def test_numbers_may_be_arrays(rule):
    for constant in (lambda number, shape: np.float64(number), lambda number, shape: np.full(shape, float(number))):
        program = instance(rule, rule.cases[0], constant=constant)
        if program.output_types[0].dtype.kind == "b" or rule.left.op.name == "where":
            continue
        counts = {}
        assume = "finite" if rule.needs == "finite" else None
        simpler = program.simplify(assume, counts)
        assert rule.name in counts
        inputs = list(samples(program, finite() if assume else SPECIAL))
        with np.errstate(all="ignore"):
            same(program.run(*inputs), simpler.run(*inputs), rule.needs)


@pytest.mark.parametrize("dtype", [FLOAT, SINGLE, COMPLEX], ids=str)
@pytest.mark.parametrize("rule", FINAL, ids=lambda r: r.name)
def test_rules_of_final_graphs(rule, dtype):
    program = instance(rule, rule.cases[0], dtype)
    simpler, counts = simplify(program, final=True)
    assert counts[rule.name] == (dtype != COMPLEX)
    assert not simplify(program)[1][rule.name]
    inputs = list(samples(program, SPECIAL))
    with np.errstate(all="ignore"):
        same(program.run(*inputs), simpler.run(*inputs), rule.needs)


def test_names_are_unique_and_rules_print():
    names = [r.name for r in (*RULES, *FINAL)]
    assert len(set(names)) == len(names)
    by_name = {r.name: str(r) for r in RULES}
    assert by_name["log1p"] == "log1p: log(add(1, X)) → log1p(X); needs finite"
    assert by_name["cast-own"] == "cast-own: cast(X, dtype=A) → X, if is_dtype(X, A)"
