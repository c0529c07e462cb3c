"""Loops and branches in machine code: both modes, nested, of any length, agree with the eager functions."""

import subprocess
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Foreign


def same(f, *args, native=True, rtol=1e-11):
    """Compiled and eager agree; nothing calls back into NumPy unless said."""
    compiled = ad.jit(f)
    for _ in range(2):
        got, want = compiled(*args), f(*args)
        for a, b in zip(
            np.atleast_1d(got) if not isinstance(got, tuple) else got,
            want if isinstance(want, tuple) else np.atleast_1d(want),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)
    assert not compiled.eager
    if native:
        assert not compiled.lower(*args).lowered.calls_python
    return compiled


X = np.linspace(0.1, 1.2, 6).reshape(2, 3)


def decay(x, length=7, reverse=False):
    carry, ys = ad.scan(
        lambda c, row: (np.sin(c) * row[0] + c, c @ row), x[0], np.outer(np.arange(1.0, length + 1), x[1]), reverse=reverse
    )
    return np.sum(carry) + np.sum(ys**2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_in_both_modes(length, reverse):
    f = lambda x: decay(x, length, reverse)
    same(f, X)
    same(ad.grad(f), X)
    same(lambda x: ad.jvp(f, (x,), (np.cos(x),)), X)
    same(ad.hessian(f), X, rtol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.scan(lambda c, v: (c * v * x, c), x, np.zeros(0))[0],
        lambda x: x + np.sum(ad.scan(lambda c, v: (c * v, c * x), x, np.zeros(0))[1]),
        lambda x: ad.scan(lambda c, _: (c * x, None), x, length=0, checkpoint="sqrt")[0],
        lambda x: ad.while_loop(lambda c: c > 1e9, lambda c: c * 2 * x, x),
        lambda x: ad.while_loop(lambda c: c > 1e9, lambda c: c * 2 * x, x, checkpoint=2),
        lambda x: ad.fori_loop(3, 3, lambda i, c: c * 2 * x, x),
        lambda x: ad.fori_loop(3, 1, lambda i, c: c * 2 * x, x, checkpoint="sqrt"),
        lambda x: x + np.sum(ad.map(lambda v: v * x, np.zeros((0, 2)))),
        lambda x: ad.fori_loop(0, 2, lambda i, c: ad.fori_loop(i, 1, lambda j, d: d * x, c), x),
    ],
)
def test_loops_without_iterations(f):
    same(lambda x: (f(x), ad.grad(f)(x), ad.jvp(f, (x,), (3.0,))[1], ad.grad(ad.grad(f))(x)), 2.0)
    x = np.array([0.5, 2.0])
    same(lambda x: (ad.vmap(f)(x), ad.vmap(ad.grad(f))(x)), x, native=False)  # NumPy finds the largest number of iterations


def test_loops_of_which_some_make_no_iteration():
    """The examples of a batch have different numbers of iterations, zero among them."""
    counted = lambda v, n: ad.fori_loop(0, n, lambda i, c: c * np.sin(v) + i, v)
    grown = lambda v, n: ad.while_loop(lambda c: c < 2.0, lambda c: c * 1.5 + v, v, checkpoint="sqrt")
    v, n = np.array([0.1, 3.0, 1.9, 5.0]), np.array([0, 3, 1, 0])
    for f in (counted, grown):
        same(lambda v, n, f=f: (ad.vmap(f)(v, n), ad.vmap(ad.grad(f))(v, n)), v, n, native=False)
        one_by_one = [ad.grad(f)(*pair) for pair in zip(v, n, strict=True)]
        np.testing.assert_allclose(ad.jit(ad.vmap(ad.grad(f)))(v, n), one_by_one, rtol=1e-12)


def test_map_in_both_modes():
    """A map is a loop: nested, over containers, over no examples at all."""

    def tree(x):
        found = ad.map(lambda t: {"a": t[0] * t[1]["k"], "b": (np.cos(t[0]),)}, (x, {"k": x * 2}))
        return np.sum(found["a"] * found["b"][0])

    for f in (
        tree,
        lambda x: np.sum(ad.map(lambda r: ad.map(lambda v: v * np.sum(r), r), x)),
        lambda x: ad.scan(lambda c, r: (c + np.sum(ad.map(lambda v: v * c, r)), None), 0.3, x)[0],
        lambda x: np.sum(ad.vmap(lambda r: ad.map(lambda v: v * np.sum(r), r))(x)),
        lambda x: np.sum(ad.map(lambda r: r * 2 if r[0] > 0.5 else r, x)),  # asks: iteration by iteration, with guards
    ):
        same(lambda x, f=f: (f(x), ad.grad(f)(x), ad.jvp(f, (x,), (np.cos(x),))[1]), X)
    none = np.zeros((0, 3))
    assert ad.map(lambda r: r[:2], none).shape == ad.jit(lambda x: ad.map(lambda r: r[:2], x))(none).shape == (0, 2)


def test_loops_in_loops():
    def f(x):
        def outer(c, row):
            inner = ad.fori_loop(0, 3, lambda i, v: v * row + i * c[0], c)
            return inner * 0.5, np.sum(inner)

        carry, ys = ad.scan(outer, x[0], x)
        return np.sum(carry) + np.sum(ys)

    same(f, X)
    same(ad.grad(f), X)
    same(ad.grad(lambda x: np.sum(ad.grad(f)(x) ** 2)), X)


def test_while_and_its_trip_count():
    def newton(a):
        return ad.while_loop(lambda c: abs(c[0] ** 2 - a) > 1e-12, lambda c: (0.5 * (c[0] + a / c[0]), c[1] + 1), (a, 0))

    root = ad.jit(newton)
    for a in (2.0, 3.0, 100.0):
        value, iterations = root(a)
        assert value == pytest.approx(a**0.5)
        assert iterations == newton(a)[1]
    assert len(root.specializations) == 1  # one program, whatever the number of iterations
    assert len(next(iter(root.specializations.values()))) == 1
    same(ad.grad(lambda a: newton(a)[0]), 2.0)


@pytest.mark.parametrize("checkpoint", [None, 1, 2, 3, 100, "sqrt"])
def test_the_backward_pass_of_while(checkpoint):
    """Any number of iterations, none included, cut into segments of any length."""

    def f(x, iterations):
        def iteration(carry):
            v, i, seen = carry
            return np.sin(v) * x + 0.1 * i, i + 1, np.logical_or(seen, v[0] > 1)

        v, _, _ = ad.while_loop(lambda c: c[1] < iterations, iteration, (x, 0, False), checkpoint=checkpoint)
        return np.sum(v * v)

    compiled = ad.jit(ad.value_and_grad(f))
    for iterations in (0, 1, 2, 3, 4, 5, 10, 17):
        for got, want in zip(compiled(X[1], iterations), ad.value_and_grad(f)(X[1], iterations), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    path = compiled.lower(X[1], 3)
    assert not path.lowered.calls_python
    assert "while_vjp" in str(path.lowered)
    assert [len(paths) for paths in compiled.specializations.values()] == [1]


def test_while_in_while_backward():
    def f(a):
        def inner(x):
            return ad.while_loop(lambda c: c > 1.0, lambda c: c * 0.7 * np.cos(a), x)

        def iteration(c):
            return inner(c[0]) + a * 1.3, c[1] + 1

        return ad.while_loop(lambda c: c[1] < 4, iteration, (a, 0))[0]

    same(ad.value_and_grad(f), 0.8)
    same(ad.value_and_grad(f), np.float32(0.8), rtol=1e-5)
    same(ad.grad(ad.grad(f)), 0.8, native=False, rtol=1e-9)


def test_a_failure_on_the_way_back():
    """An index that is out of bounds only when the states come again, or a callback inside, in a loop of its own."""

    def f(x, k):
        def iteration(c):
            return c[0] * x[c[1] + k] + np.sum(np.nextafter(c[0] * x, 9.0)), c[1] + 1

        return ad.while_loop(lambda c: c[1] < 2, iteration, (x[0], 0))[0]

    same(ad.grad(f), X[1], 0, native=False)
    with pytest.raises(IndexError):
        ad.jit(ad.grad(f))(X[1], 7)


def test_a_long_while_is_cut_into_segments():
    """A million iterations, both modes, in the memory of two thousand states."""

    def f(x, iterations):
        iteration = lambda c: (np.sin(c[0]) + 1e-3 * x, c[1] + 1)
        return ad.while_loop(lambda c: c[1] < iterations, iteration, (x, 0), checkpoint="sqrt")[0]

    back, forward = ad.jit(ad.grad(f)), ad.jit(lambda x, iterations: ad.jvp(lambda x: f(x, iterations), (x,), (1.0,))[1])
    for iterations in (5, 1_000_000):
        assert back(0.3, iterations) == pytest.approx(forward(0.3, iterations), rel=1e-9)
    assert not back.lower(0.3, 5).lowered.calls_python


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_million_iterations_in_bounded_memory():
    """All states together take 140 MB, which are not there: in segments they are not needed, at once they raise MemoryError."""
    code = """
import resource, numpy as np, adjoint as ad
def f(x, iterations, checkpoint):
    iteration = lambda i, c: np.sin(c) + 1e-3 * x
    return np.sum(ad.fori_loop(0, iterations, iteration, x, checkpoint=checkpoint))
x = np.linspace(0.1, 0.5, 16)
pieces, whole = (ad.jit(ad.grad(lambda x, iterations, c=c: f(x, iterations, c))) for c in ("sqrt", None))
forward = ad.jit(lambda x, iterations: ad.jvp(lambda x: f(x, iterations, "sqrt"), (x,), (np.ones(16),))[1])
rows = lambda x: np.sum(ad.scan(lambda c, _: (np.sin(c) + 1e-3 * x, None), x, length=1_000_000, checkpoint="sqrt")[0])
scanned = ad.jit(ad.grad(rows))
scanned.lower(x)  # compiled, and not run: neither now nor while it is written down
first = [g(x, 3) for g in (pieces, whole, forward)]
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
slope = pieces(x, 1_000_000)
assert np.isclose(np.sum(slope), forward(x, 1_000_000), rtol=1e-8)
assert np.allclose(slope, scanned(x), rtol=1e-8)
try:
    whole(x, 1_000_000)
except MemoryError as error:
    assert "no memory" in str(error)
else:
    raise AssertionError("there was memory for all states")
assert all(np.array_equal(g(x, 3), y) for g, y in zip((pieces, whole, forward), first))  # alive and well
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_index_that_is_computed():
    f = lambda x, k: x[k + 1] * 2
    same(f, X[0], 1)
    same(ad.grad(f), X[0], 1)
    same(lambda x, k: x[k - 1, k], X, 1)


def test_branches():
    def f(x):
        return ad.cond(np.sum(x) > 1, lambda x: np.sin(x) * 2, lambda x: np.exp(x[::-1]), x)

    compiled = same(f, X[0])
    np.testing.assert_allclose(compiled(X[0] * 100), f(X[0] * 100))
    same(ad.grad(lambda x: np.sum(f(x) ** 2)), X[0])
    assert len(next(iter(compiled.specializations.values()))) == 1


def test_only_the_branch_that_is_chosen_runs():
    """The other one would go on for ever."""
    endless = lambda x: ad.while_loop(lambda c: c > 0, lambda c: c + x, x)
    f = lambda x: ad.cond(x > 5, endless, lambda x: x * x, x)
    in_a_loop = lambda x: ad.fori_loop(0, 3, lambda i, c: ad.cond(c * i > 1e9, endless, np.sin, c), x)
    for g in (f, in_a_loop):
        same(lambda x, g=g: (g(x), ad.grad(g)(x), ad.jvp(g, (x,), (1.0,))[1], ad.grad(ad.grad(g))(x)), 2.0)


def test_branches_of_different_cost():
    """A thousand iterations or one product: each mode agrees with the eager tape on either side, and in a batch of both."""

    def f(x):
        return ad.cond(x > 0, lambda x: ad.fori_loop(0, 1000, lambda i, c: np.sin(c) + 0.1 * x, x), lambda x: x * x, x)

    def plain(x):
        if x <= 0:
            return x * x
        c = x
        for _ in range(1000):
            c = np.sin(c) + 0.1 * x
        return c

    both = np.array([0.5, -0.5, 0.25])
    every = lambda f: lambda x: (f(x), ad.grad(f)(x), ad.jvp(f, (x,), (1.0,))[1])
    compiled, batched = ad.jit(every(f)), ad.jit(ad.vmap(every(f)))
    wanted = np.array([every(plain)(x) for x in both])
    np.testing.assert_allclose([compiled(x) for x in both], wanted, rtol=1e-10)
    np.testing.assert_allclose(batched(both), wanted.T, rtol=1e-10)


def test_vmap_over_loops():
    f = lambda x: ad.fori_loop(0, 4, lambda i, c: np.sin(c) + i, x)
    same(ad.vmap(f), X)
    same(ad.vmap(lambda x: ad.while_loop(lambda c: c < 2.0, lambda c: c * 1.5, x)), X[0])
    same(ad.vmap(lambda x: ad.cond(x > 0.5, np.sin, np.cos, x)), X[0])


def test_a_callback_and_an_index_inside_a_loop():
    def f(x, i):
        return ad.scan(lambda c, k: (np.nextafter(c, 9.0) + x[k], np.sum(c)), x, i)

    x, i = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 1])
    same(f, x, i, native=False)
    with pytest.raises(IndexError):
        ad.jit(f)(x, np.array([0, 5, 1]))

    def fails(x):
        return ad.scan(lambda c, v: (np.linalg.inv(c) * v, None), x, np.array([1.0, 0.0]))[0]

    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(lambda x: ad.scan(lambda c, v: (np.linalg.inv(c * v), None), x, np.array([1.0, 0.0]))[0])(np.eye(2))
    assert np.all(ad.jit(fails)(np.eye(2)) == 0)


def test_large_carries_and_pieces_inside_a_loop():
    x = np.linspace(0, 1, 60_000).reshape(200, 300)
    f = lambda x: ad.fori_loop(0, 5, lambda i, c: np.exp(-c) * np.sum(c, axis=0) / 200, x)
    compiled = same(f, x)
    assert compiled.lower(x).lowered.steps[-1].body.steps


def test_checkpoint_and_long_loops():
    f = lambda x: ad.scan(lambda c, _: (np.sin(c) + 1e-3 * c, None), x, None, length=10_000, checkpoint="sqrt")[0]
    same(ad.value_and_grad(f), 0.3, native=False, rtol=1e-9)
    g = lambda x: np.sum(ad.checkpoint(lambda x: np.sin(np.exp(x)))(x))
    same(ad.grad(g), X)


def test_lowered_loops_print():
    path = ad.jit(decay).lower(X)
    assert "scan of 7 iterations" in str(path.lowered)
    assert not any(isinstance(s, Foreign) for s in path.lowered.steps)
    branch = ad.jit(lambda x: ad.cond(x > 0, np.sin, np.cos, x)).lower(1.0)
    assert "branch on" in str(branch.lowered)
    loop = ad.jit(lambda x: ad.while_loop(lambda c: c < 9, lambda c: c * 2, x)).lower(1.0)
    assert "while, from" in str(loop.lowered)


XS = np.array([0.3, -0.7, 1.1, 0.4])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: ad.scan(3, x, XS), "scan expects a function for f, got int"),
        (lambda x: ad.scan(lambda c, v: c, x, XS), r"must return \(carry, y\) for scan; it returned float64"),
        (
            lambda x: ad.scan(lambda c, v: (np.stack([c, c]), v), x, XS),
            r"init is float64\[\], and <lambda> returned float64\[2\]",
        ),
        (lambda x: ad.scan(lambda c, v: (c > 0, v), x, XS), r"init is float64\[\], and <lambda> returned bool"),
        (lambda x: ad.scan(lambda c, v: ({"b": c["a"]}, v), {"a": x}, XS), r"starts as dict\(\['a'\]"),
        (lambda x: ad.scan(lambda c, v: (c, v), x, (XS, XS[1:])), r"xs\[0\] has 4 rows, xs\[1\] has 3 rows"),
        (lambda x: ad.scan(lambda c, v: (c, v), x, length=-2), "length of scan is -2"),
        (lambda x: ad.scan(lambda c, v: (c, v), x, ()), "scan needs xs, or length="),
        (
            lambda x: ad.scan(lambda c, v: (c, np.ones(2 if v > 0 else 3)), x, XS),
            r"the iterations of scan: \(2,\), \(3,\)",
        ),
        (lambda x: ad.while_loop(lambda c: c > XS, lambda c: c, x), r"one bool for while_loop, bool\[\]; .* bool\[4\]"),
        (lambda x: ad.while_loop(lambda c: c, lambda c: c, x), "one bool for while_loop.*float64"),
        (lambda x: ad.while_loop(lambda c: c < 3, lambda c: (c,), x), r"starts as \*, and <lambda> returned tuple"),
        (lambda x: ad.while_loop(True, lambda c: c, x), "while_loop expects a function for cond_fun, got bool"),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: np.stack([c, c]), x), r"init_val is float64\[\]"),
        (lambda x: ad.fori_loop(0, 3, lambda i, c: None, x), r"carry of fori_loop .* starts as \*, and <lambda> returned None"),
        (lambda x: ad.fori_loop(0, 2.5, lambda i, c: c, x), "upper of fori_loop is an integer, not 2.5"),
        (lambda x: ad.fori_loop(0, x, lambda i, c: c, x), "upper of fori_loop is an integer"),
        (lambda x: ad.cond(x > 0, x, lambda: x), "cond expects a function for true_fun, got float64"),
        (lambda x: ad.cond(np.stack([x, x]) > 0, lambda: x, lambda: x), r"one bool, not bool\[2\]; use np.where"),
        (lambda x: ad.map(3, XS * x), "map expects a function for f, got int"),
        (lambda x: ad.map(np.sin, x), r"one common leading length; got shapes \[\(\)\]"),
        (lambda x: ad.map(lambda v: v[0], (XS * x, XS[1:])), r"got shapes \[\(4,\), \(3,\)\]"),
    ],
)
def test_bad_input_is_named_in_every_transform(call, message):
    """The same words, with the user's line, whoever is around; nothing is taken for a function that does not compile."""
    transforms = [lambda f: f, ad.jit, lambda f: ad.jit(ad.grad(f)), lambda f: ad.jit(ad.vmap(f)), lambda f: ad.vmap(ad.jit(f))]
    for transform, x in zip(transforms, (0.5, 0.5, 0.5, np.ones(2), np.ones(2)), strict=True):
        with pytest.raises(ad.AdjointError, match=rf"{message}.*\(test_jit_control.py:\d+\)"):
            transform(call)(x)


@pytest.mark.parametrize(
    "other, message",
    [
        (lambda x: (x, x), "the branches of cond must return the same structure"),
        (lambda x: np.stack([x, x]), r"returned float64\[\] and .* float64\[2\]"),
        (lambda x: x > 0, r"returned float64\[\] and .* bool\[\]"),
        (lambda x: None, "the branches of cond must return the same structure"),
        (lambda: 1.0, "TypeError: .*takes 0 positional arguments but 1 was given"),
    ],
)
def test_branches_that_do_not_fit_run_as_an_if(other, message):
    """Where the predicate is known, `cond` is an `if`: such a function is right, and not compiled."""
    f = lambda x: ad.cond(x > 0, lambda x: x * x, other, x)
    compiled = ad.jit(f)
    with pytest.warns(ad.compiler.jit.CompileWarning, match=rf"{message}.*test_jit_control.py:\d+\)"):
        assert compiled(3.0) == 9.0
    assert ad.jit(ad.grad(lambda x: ad.cond(True, lambda x: x * x, other, x)))(3.0) == 6.0
