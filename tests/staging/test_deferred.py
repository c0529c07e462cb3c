"""Gradients under jit: the function is staged and its loops are found before it is differentiated."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import AdjointError
from adjoint.ops.control import scan
from adjoint.scipy import special

ITERATIONS = 40
W = np.linspace(0.5, 1.5, 3)
X = np.array([0.3, -0.2, 0.9])


def looped(x, w=W):
    """A loop that is long enough to be rolled."""
    y = x
    for _ in range(ITERATIONS):
        y = np.sin(y) * w + 0.1 * x * y - y / (1.0 + y * y)
    return np.sum(y * y)


def agrees(f, *args, rtol=1e-11):
    """The compiled function gives what the function gives; the graph that was staged."""
    compiled = ad.jit(f)
    want, got = f(*args), compiled(*args)
    parts, structure = ad.core.tree.flatten(want)
    found, other = ad.core.tree.flatten(got)
    assert structure == other
    for a, b in zip(found, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    assert not compiled.eager
    return compiled.lower(*args)


def scans(graph):
    return [e for e in graph.equations if e.op is scan]


def test_the_loop_is_found_before_it_is_differentiated():
    path = agrees(ad.value_and_grad(looped), X)
    assert len(scans(path.staged)) == 2  # forward and back; the iterations themselves are read by nobody
    assert len(path.graph) < 40
    assert len(path.optimized.loops) == 2
    assert all("test_deferred.py" in loop.line for loop in path.optimized.loops)


def test_the_function_runs_once():
    calls = ad.static([])

    def f(x):
        calls.append(x)
        return looped(x)

    ad.jit(ad.grad(f))(X)
    assert len(calls) == 1


def test_a_variable_differs_from_its_initial_value():
    agrees(lambda x: ad.grad(lambda t: looped(t, x) + np.sum(x * t))(x), X)
    agrees(lambda x: ad.grad(lambda t: np.sum(t * x))(x), X)  # too short for a loop


def test_a_function_that_was_written_before_is_computed_once():
    both, one = agrees(lambda x: (looped(x), ad.grad(looped)(x)), X), agrees(ad.value_and_grad(looped), X)
    assert len(scans(both.graph)) == len(scans(one.graph)) == 2


def test_gradients_of_gradients():
    def f(t):
        y = t
        for _ in range(ITERATIONS):
            y = np.sin(y) * 0.9 + t * y * 0.1 - 0.01 * y * y
        return y

    agrees(ad.grad(ad.grad(f)), np.float64(0.4), rtol=1e-9)


def test_variables_of_two_levels_in_one_loop():
    def f(x, y):
        inner = ad.grad(lambda t: looped(t, y) + looped(x, t))(y)
        return np.sum(inner * x)

    agrees(ad.grad(f, (0, 1)), X, W, rtol=1e-9)


def test_other_transforms_around_and_inside():
    v = np.array([1.0, 0.5, -2.0])
    agrees(lambda x: ad.jvp(ad.grad(looped), (x,), (v,)), X)
    agrees(ad.jacrev(lambda x: ad.jvp(lambda t: t * looped(t), (x,), (v,))[1]), X)
    agrees(ad.grad(lambda x: np.sum(ad.vmap(looped)(np.stack([x, x * x])))), X)


def test_a_direction_of_another_transform_in_the_closure():
    """The gradient is of staged values, but what it computes depends on a dual number as well."""

    def f(w, x):
        return ad.jvp(lambda d: ad.grad(lambda t: looped(t, d) + np.sum(d * t))(w), (x,), (np.ones(3),))

    agrees(f, W, X)


def test_auxiliary_results_and_values_that_are_kept():
    kept = ad.static([])

    def f(x):
        y = x
        for _ in range(ITERATIONS):
            y = np.sin(y) * W + 0.1 * x
            kept.append(ad.stop_gradient(y))
        return np.sum(y), {"last": y, "fixed": ad.stop_gradient(y), "sign": y > 0}

    def g(x):
        kept.clear()
        gradient, aux = ad.grad(f, has_aux=True)(x)
        return gradient, aux, kept[3] * 2.0

    agrees(g, X)


def test_a_value_that_leaks_is_refused_as_ever():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return looped(x)

    def g(x):
        return ad.grad(f)(x) + kept[-1]

    with pytest.raises(AdjointError, match="after grad had returned"):
        ad.jit(g)(X)


def test_guards_of_the_iterations():
    def f(x):
        for i in range(60):
            x = x - 0.01 * x if x > 0.5 else 0.9 * x + 0.001 * i
            x = np.sin(x) + 0.1 * x * x
        return x

    compiled = ad.jit(ad.value_and_grad(f))
    for start in (0.2, 0.9, 3.0, 0.2):
        np.testing.assert_allclose(compiled(np.float64(start)), ad.value_and_grad(f)(np.float64(start)), rtol=1e-11)
    assert not compiled.eager
    assert all(guard.line for path in next(iter(compiled.specializations.values())) for guard in path.guards)


def test_a_question_inside_a_gradient_inside_a_gradient():
    def inner(t):
        y = t
        for _ in range(ITERATIONS):
            y = np.sin(y) + 0.5 * t
            y = y * 0.9 if y < 10 else y * 0.5
        return y * y

    compiled = ad.jit(ad.grad(lambda x: ad.grad(inner)(x) * x))
    for start in (0.3, 40.0, 0.3):
        want = ad.grad(lambda x: ad.grad(inner)(x) * x)(np.float64(start))
        np.testing.assert_allclose(compiled(np.float64(start)), want, rtol=1e-9)


def test_rules_of_the_users_own():
    @ad.custom_vjp
    def halved(x):
        return np.sin(x)

    halved.defvjp(lambda x: (np.sin(x), x), lambda x, g: (0.5 * g * np.cos(x),))

    @ad.custom_jvp
    def doubled(x):
        return np.cos(x)

    doubled.defjvp(lambda primals, tangents: (np.cos(primals[0]), -2.0 * tangents[0] * np.sin(primals[0])))

    def f(x):
        y = x
        for i in range(ITERATIONS):
            y = halved(y) * W + doubled(x) * 0.1 if i % 10 == 5 else np.tanh(y) * W + 0.1 * x
        return np.sum(y)

    agrees(ad.value_and_grad(f), X)
    agrees(ad.grad(lambda x: np.sum(ad.grad(f)(x) * x)), X)
    for own in (halved, doubled):  # of the variable itself, before anything else
        agrees(ad.value_and_grad(lambda x, own=own: np.sum(np.sin(own(x)) + own(x) * np.sin(x))), X)
        agrees(ad.value_and_grad(lambda x, own=own: looped(own(x))), X)


def test_loops_and_branches_of_the_users_own():
    def f(x):
        y = x
        for _ in range(ITERATIONS):
            y, _ = ad.scan(lambda c, _: (np.sin(c) * 0.9 + 0.1 * x, None), y, length=3)
            y = ad.cond(True, lambda v: v * 0.9, lambda v: v, y)
        return np.sum(ad.checkpoint(lambda v: np.exp(-v * v))(y))

    agrees(ad.value_and_grad(f), X)
    agrees(ad.value_and_grad(lambda x: np.sum(ad.scan(lambda c, _: (np.sin(c) + x, c), x, length=5)[1])), X)


def test_a_gradient_in_a_branch_of_a_gradient():
    def f(x):
        y, _ = ad.scan(lambda c, _: (np.sin(c) + x, None), x, length=3)
        y = ad.cond(np.sum(y) > 0, lambda v: ad.grad(looped)(v) + x, lambda v: v * 2.0, y)
        return np.sum(y * looped(x))

    agrees(ad.value_and_grad(f), X, rtol=1e-9)


def test_writes_in_place():
    def f(x):
        out = anp.zeros((ITERATIONS, 3))
        y = x
        for i in range(ITERATIONS):
            y = np.sin(y) * W + 0.2 * x
            out[i] = y * y
            out[i, 0] += x[0]
        return np.sum(out * out)

    agrees(ad.value_and_grad(f), X)


def test_writes_to_the_variable_itself():
    def f(x):
        head = x[:2]
        for _ in range(ITERATIONS):
            x *= np.cos(x) * 0.3 + 0.8
            head[:] = np.sin(head) + 0.1 * x[2]
        return np.sum(x * x) + looped(x)

    path = agrees(ad.value_and_grad(f), X)
    assert scans(path.staged)


def test_python_numbers_stay_weak():
    a = np.linspace(0.1, 0.9, 3, dtype=np.float32)

    def f(s, a):
        y = a
        for _ in range(ITERATIONS):
            y = np.sin(y) * s + 0.1 * y - y * y * 0.01 + s
        return np.sum(y)

    agrees(ad.value_and_grad(f, (0, 1)), 0.7, a, rtol=1e-5)
    agrees(ad.grad(lambda s: f(s**2, 1.0)), 0.7)


def test_pullbacks_are_pulled_more_than_once():
    def f(x):
        y, pull = ad.vjp(lambda t: t * looped(t), x)
        return pull(y), pull(2.0 * y), ad.jacrev(lambda t: t * looped(t))(x)

    agrees(f, X)


def test_an_error_that_is_caught():
    def failing(x):
        looped(x)
        raise KeyError("no")

    def f(x):
        try:
            return ad.grad(failing)(x)
        except KeyError:
            return ad.grad(looped)(x)

    agrees(f, X)


def test_a_body_without_a_derivative():
    """The error is raised where the function may catch it, and what was asked before it stays asked."""

    def orders(x):
        return np.sum(ad.scan(lambda c, _: (special.jv(c, 0.3), None), x, length=3)[0])

    def inside(x):
        try:
            return orders(np.sin(x)) if x[0] > 0 else looped(x) * 2.0
        except AdjointError:
            return looped(x)

    def outside(x):
        asked = []

        def f(t):
            asked.append(np.sum(np.sin(t)) > 0)
            return orders(t) if asked[0] else orders(-t)

        factor = 2.0 if x[2] < 5.0 else 1.0
        try:
            return ad.grad(f)(x)
        except AdjointError:
            return x * factor if asked[0] else -x

    for f in (ad.value_and_grad(inside), outside):
        compiled = ad.jit(f)
        for x in (X, -X, X):
            for got, want in zip(compiled(x), f(x), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-11)
        assert not compiled.eager


def test_results_that_do_not_depend_on_the_variable():
    agrees(lambda x: ad.value_and_grad(lambda t: looped(x))(x), X)
    agrees(lambda x: ad.value_and_grad(lambda t: t)(x[0]), X)


def test_a_loop_that_cannot_be_rolled():
    def f(x):
        y = x
        for i in range(1, 60):
            y = np.sin(np.sort(y))[: max(1, 3 - i // 20)] * 0.1 * float(i) ** 0.3 + (np.cos(y) if i % 7 else np.exp(-y))[0]
        return np.sum(y)

    path = agrees(ad.value_and_grad(f), X)
    assert not any(e.op is scan for e in path.staged.equations)


@pytest.mark.parametrize("transform", [ad.grad, lambda f: lambda x: ad.vjp(f, x)[1](1.0)[0]], ids=["grad", "vjp"])
@pytest.mark.parametrize("n", [3, 1000, 5000])
def test_an_array_that_is_written_to_after_its_use_counts_as_it_was(n, transform):
    """A write to something outside is not compiled; it happens at each call."""
    big = np.ones(n)

    def f(x):
        y = x * big
        big[0] += 1.0
        return np.sum(y)

    gradient = ad.jit(transform(f))
    with pytest.warns(CompileWarning, match=r"writes to big, an outside array.*\(test_deferred.py:\d+\)"):
        found = [gradient(np.ones(n))]
    found += [gradient(np.ones(n)) for _ in range(2)]
    expected = np.ones((3, n))
    expected[:, 0] = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(found, expected)
    assert big[0] == 4.0
