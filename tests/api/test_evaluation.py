"""The record of one run: values, adjoints and tangents against the transforms, on programs of every kind."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.evaluation import evaluate
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from adjoint.core.op import Opaque


def newton(a):
    x = a
    while abs(x * x - a) > 1e-6:
        x = (x + a / x) / 2
    return x


def written(x):
    u = anp.zeros(3)
    u[0] = x[1]
    u[1] = x[0] * 2
    u *= x
    return u.sum()


def branch(x):
    return np.sin(x) if x > 0 else x * x


PROGRAMS = {
    "textbook": (lambda x1, x2: np.log(x1) + x1 * x2 - np.sin(x2), (2.0, 5.0)),
    "square": (lambda x: x * x, (3.0,)),
    "powers": (lambda x: x**3 + 1 / x + np.sqrt(x) * x**2.5, (2.0,)),
    "broadcast": (lambda x, b: np.sum(x * b + b), (np.arange(6.0).reshape(2, 3), 2.0)),
    "matrix": (lambda x, w: np.sum(np.tanh(x @ w) ** 2), (np.ones((2, 3)), np.arange(6.0).reshape(3, 2) / 9)),
    "index": (lambda x: x[0] * x[1:].sum() + x[::-1] @ x, (np.array([1.0, 2.0, 3.0]),)),
    "sorted": (lambda x: np.sort(x)[0] + np.max(x) * np.linalg.norm(x), (np.array([3.0, 1.0, 2.0]),)),
    "svd": (lambda x: np.sum(np.linalg.svd(x)[1] ** 2), (np.array([[1.0, 2.0], [3.0, 4.0]]),)),
    "loop": (newton, (2.0,)),
    "writes": (written, (np.array([1.0, 2.0, 3.0]),)),
    "branch taken": (branch, (1.5,)),
    "branch not taken": (branch, (-1.5,)),
    "where": (lambda x: np.sum(np.where(x > 0, x, np.exp(x))), (np.array([1.0, -2.0]),)),
    "nested transform": (lambda x: ad.grad(lambda y: np.sin(y) * y)(x) * x, (0.7,)),
    "vmap": (lambda x: np.sum(ad.vmap(np.sin)(x)), (np.array([0.1, 0.2]),)),
    "stopped": (lambda x: ad.stop_gradient(x) * x, (3.0,)),
    "input returned": (lambda x: x, (2.0,)),
    "float32": (lambda x: np.sum(x.astype(np.float32) * 2) * 1.0, (np.array([1.0, 2.0]),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_adjoints_of_the_inputs_are_the_gradient(name):
    f, args = PROGRAMS[name]
    run = evaluate(f, args)
    wanted = ad.grad(f, argnums=tuple(range(len(args))))(*args)
    for i, g in enumerate(wanted):
        np.testing.assert_allclose(run.adjoints[i], g, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(run.output_values()[0], f(*args), rtol=1e-14)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangent_of_the_result_is_the_jvp(name):
    f, args = PROGRAMS[name]
    rng = np.random.default_rng(1)
    tangents = tuple(rng.standard_normal(np.shape(a))[()] for a in args)
    run = evaluate(f, args, tangents=tuple(float(t) if np.ndim(t) == 0 else t for t in tangents))
    (output,) = run.graph.outputs
    np.testing.assert_allclose(run.tangents[output], ad.jvp(f, args, tangents)[1], rtol=1e-6 if name == "float32" else 1e-10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_adjoint_is_the_derivative_by_that_value(name):
    """⟨v̄, v̇⟩ over any cut of the program is the same number; here: over the inputs, and for the result."""
    f, args = PROGRAMS[name]
    run = evaluate(f, args)
    (output,) = run.graph.outputs
    inner = sum(np.sum(run.adjoints[i] * run.tangents[i]) for i in range(len(args)))
    np.testing.assert_allclose(inner, np.sum(run.tangents[output]), rtol=1e-6, atol=1e-12)


def test_values_and_adjoints_of_the_textbook():
    f, args = PROGRAMS["textbook"]
    run = evaluate(f, args)
    assert [e.op.name for e in run.graph.equations] == ["log", "mul", "add", "sin", "sub"]
    np.testing.assert_allclose([run.values[n] for n in range(7)], [2, 5, np.log(2), 10, 10 + np.log(2), np.sin(5), run.result()])
    np.testing.assert_allclose([run.adjoints[n] for n in range(7)], [5.5, 2 - np.cos(5), 1, 1, 1, -1, 1])
    np.testing.assert_allclose([run.tangents[n] for n in range(7)], [1, 0, 0.5, 5, 5.5, 0, 5.5])


def test_steps_run_from_the_last_equation_to_the_first_and_add_up():
    f, args = PROGRAMS["textbook"]
    run = evaluate(f, args)
    assert [step.equation for step in run.steps] == [4, 4, 3, 2, 2, 1, 1, 0]
    onto_x1 = [step for step in run.steps if step.target == 0]
    assert [step.is_first for step in onto_x1] == [True, False]
    np.testing.assert_allclose([step.total for step in onto_x1], [5.0, 5.5])
    np.testing.assert_allclose([step.contribution for step in onto_x1], [5.0, 0.5])


def test_a_value_read_twice_gets_both_parts_in_one_step():
    (step,) = evaluate(lambda x: x * x, (3.0,)).steps
    assert step.places == (0, 1)
    assert step.contribution == 6.0


def test_partials_use_the_names_of_the_graph():
    run = evaluate(lambda x, y: np.sin(x) * y + x**3 + np.sum(np.array([1.0, 2.0]) * y), (2.0, 3.0))
    told = [text for texts in run.partials for text in texts]
    assert "∂v2/∂x = cos(x)" in told
    assert "∂v4/∂x = 3*x**2" in told
    assert any(text.startswith("adj(v") and "broadcast_to" in text for text in told)


def test_the_graph_holds_the_path_of_the_call():
    assert [e.op.name for e in evaluate(branch, (1.0,)).graph.equations] == ["greater", "sin"]
    assert [e.op.name for e in evaluate(branch, (-1.0,)).graph.equations] == ["greater", "mul"]
    assert len(evaluate(newton, (2.0,)).graph.equations) > len(evaluate(newton, (1.0,)).graph.equations)


def test_equations_name_the_users_line():
    run = evaluate(branch, (1.0,))
    assert all(e.line.startswith("test_evaluation.py:") for e in run.graph.equations)


def test_containers_in_and_out():
    def f(p, scale):
        return {"loss": np.sum(p["w"] * scale), "pair": (p["b"] * 2, 7)}

    run = evaluate(f, ({"w": np.ones(3), "b": 2.0},), {"scale": 3.0})
    assert run.graph.input_names == ("p_b", "p_w", "scale")
    result = run.result()
    assert (result["loss"], result["pair"]) == (9.0, (4.0, 7))
    np.testing.assert_allclose(run.adjoints[1], [3, 3, 3])
    assert run.adjoints[0] == 2.0


def test_names_of_arguments():
    def f(a, *rest, key):
        return a * rest[0] * rest[1] * key

    assert evaluate(f, (1.0, 2.0, 3.0), {"key": 4.0}).graph.input_names == ("a", "rest0", "rest1", "key")


def test_a_loop_of_our_own_is_one_equation():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)
    run = evaluate(f, (0.5,))
    assert len(run.graph) == 1
    np.testing.assert_allclose(run.adjoints[0], ad.grad(f)(0.5))
    assert "scan" in str(ad.trace(f)(0.5))


def test_arguments_that_are_not_floats_are_passed_on():
    run = evaluate(lambda x, n, how, labels: x[labels].sum() ** n if how == "power" else x, (np.arange(3.0), 2, "power", [0, 2]))
    assert run.graph.input_names == ("x",)
    np.testing.assert_allclose(run.adjoints[0], [4, 0, 4])


def test_a_constant_has_no_adjoints():
    run = evaluate(lambda x: 3.0, (2.0,))
    assert run.adjoints == {}
    assert run.result() == 3.0
    assert evaluate(lambda: 1.0, ()).result() == 1.0


def test_values_that_are_not_finite_are_recorded_without_warnings():
    run = evaluate(lambda x: np.log(x) + 1 / (x + 1), (np.float64(-1.0),))
    assert np.isnan(run.values[1])
    assert np.isinf(run.values[3])


def test_a_zero_adjoint_stays_zero_behind_an_infinite_partial():
    run = evaluate(lambda x: np.where(x < 1, x, np.sqrt(x)), (0.0,))
    assert run.adjoints[0] == 1.0


def test_the_seed_chooses_the_output():
    f = lambda x, y: (x * y, x + y)
    run = evaluate(f, (3.0, 4.0), seed=(0.0, 1.0))
    assert (run.adjoints[0], run.adjoints[1]) == (1.0, 1.0)
    run = evaluate(f, (3.0, 4.0), seed=(1, 0))
    assert (run.adjoints[0], run.adjoints[1]) == (4.0, 3.0)
    assert evaluate(f, (3.0, 4.0)).adjoints[0] == 5.0


def test_a_result_returned_twice_is_seeded_twice():
    assert evaluate(lambda x: (x * 2, x), (3.0,)).adjoints[0] == 3.0
    run = evaluate(lambda x: [y := x * 2, y], (3.0,))
    assert run.adjoints[run.graph.outputs[0]] == 2.0


def test_later_writes_to_the_arguments_do_not_reach_the_record():
    x = np.array([1.0, 2.0])
    run = evaluate(lambda x: np.sum(x * x), (x,))
    x[:] = 9
    np.testing.assert_array_equal(run.values[0], [1, 2])


def test_a_custom_rule_is_one_equation_and_may_branch():
    @ad.custom_vjp
    def magnitude(x):
        return x if x > 0 else -x

    magnitude.defvjp(lambda x: (magnitude(x), x), lambda x, g: (g * 5,))
    run = evaluate(lambda x: magnitude(x) * 2, (-3.0,))
    assert [e.op.name for e in run.graph.equations] == ["custom.magnitude", "mul"]
    assert run.adjoints[0] == 10.0


def test_an_op_without_a_rule_is_a_refusal_not_an_error():
    double = Opaque("double", lambda x: x * 2, None, lambda g, y, x: (g * 2,))
    run = evaluate(lambda x: double(x) + 1, (3.0,))
    assert run.adjoints[0] == 2.0
    assert "no forward rule" in run.refusals["tangent"]
    assert "adjoint" not in run.refusals


def test_complex_numbers():
    f = lambda z: abs(z**2)
    run = evaluate(f, (1 + 2j,))
    np.testing.assert_allclose(run.adjoints[0], ad.grad(f)(1 + 2j))


def test_long_programs():
    def f(x):
        for _ in range(1000):
            x = np.sin(x) * 1.01 + 0.1
        return x

    run = evaluate(f, (0.5,))
    assert len(run.graph) == 3000
    np.testing.assert_allclose(run.adjoints[0], ad.grad(f)(0.5))


@pytest.mark.parametrize(
    ("f", "args", "options", "error", "message"),
    [
        (lambda x: x, (2,), {}, DtypeError, "x is int; write 2.0"),
        (lambda x: None, (2.0,), {}, ArgumentError, "None"),
        (lambda x: "a", (2.0,), {}, ArgumentError, "returned str"),
        (lambda x: x, (2.0,), {"seed": (1.0, 2.0)}, ShapeError, "seed"),
        (lambda x: x, (np.ones(3),), {"seed": 1.0}, ShapeError, "seed"),
        (lambda x: x, (2.0,), {"tangents": (1.0, 2.0)}, ArgumentError, "2 entries for 1"),
        (lambda x: x, (np.ones(3),), {"tangents": (np.ones(2),)}, ShapeError, "tangent of x"),
        (lambda x: float(x), (2.0,), {}, TypeError, "derivative"),
    ],
)
def test_mistakes_are_named(f, args, options, error, message):
    with pytest.raises(error, match=message):
        evaluate(f, args, **options)


def test_inside_another_transform_it_is_refused():
    with pytest.raises(UnsupportedError, match="inside grad"):
        ad.grad(lambda x: ad.trace(np.sin)(x))(1.0)
