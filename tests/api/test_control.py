"""Loops and branches against the same programs as plain Python: values, both modes, second order, batches, graphs."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse
from adjoint.core.errors import ArgumentError, BatchError, DtypeError, ShapeError, UnsupportedError

XS = np.array([0.3, -0.7, 1.1, 0.4])
W = np.array([[0.5, -0.2], [0.1, 0.8]])


def close(a, b, rtol=1e-10):
    a, b = (flat(x) for x in (a, b))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, (tuple, list)) else [x]


def agree(loop, plain, *xs, second=True):
    """Every way through a loop gives what the plain program gives on the eager tape. Both return an array."""
    vs = tuple(0.3 + 0.1 * np.cos(np.arange(np.size(x), dtype=float)).reshape(np.shape(x))[()] for x in xs)
    every = tuple(range(len(xs)))

    def total(f):
        return lambda *args: np.sum(f(*args) ** 2)

    def ways(f):
        yield lambda *args: f(*args)
        yield lambda *args: ad.jvp(f, args, vs)
        yield ad.grad(total(f), every)
        if second:
            yield lambda *args: ad.jvp(ad.grad(total(f), every), args, vs)[1]
            yield ad.grad(
                lambda *args: sum(np.sum(g * v) for g, v in zip(ad.grad(total(f), every)(*args), vs, strict=True)), every
            )
            yield ad.grad(lambda *args: ad.jvp(total(f), args, vs)[1], every)

    stacks = tuple(np.stack([x, x * 0.9, x * 1.1 + 0.01]) for x in xs)
    for way, expected in zip(ways(loop), ways(plain), strict=True):
        wanted = expected(*xs)
        close(way(*xs), wanted)
        batch = each(expected, stacks)
        close(ad.vmap(way)(*stacks), batch)
        staged = ad.graph(way)(*xs)
        staged.check()
        close(staged(*xs), wanted)
        assert parse(str(staged)) == staged
        simple = staged.simplify()
        simple.check()
        close(simple(*xs), wanted)
        close(ad.graph(ad.vmap(way))(*stacks)(*stacks), batch)
    # a graph of the loop, transformed
    staged = ad.graph(loop)(*xs)
    close(ad.grad(total(staged), every)(*xs), ad.grad(total(plain), every)(*xs))
    close(ad.vmap(staged)(*stacks), each(plain, stacks))
    close(ad.vmap(ad.grad(total(staged), every))(*stacks), each(ad.grad(total(plain), every), stacks))


def each(f, stacks):
    """The function on one example after the other, results stacked."""
    rows = [flat(f(*row)) for row in zip(*stacks, strict=True)]
    return [np.stack(column) for column in zip(*rows, strict=True)]


# -- scan -------------------------------------------------------------------------------------------------------


def test_scan_returns_the_last_carry_and_the_stacked_ys():
    carry, ys = ad.scan(lambda c, x: (c + x, c * x), 0.0, np.array([1.0, 2.0, 3.0]))
    assert carry == 6.0
    np.testing.assert_array_equal(ys, [0.0, 2.0, 9.0])
    carry, ys = ad.scan(lambda c, x: (c + x, c * x), 0.0, np.array([1.0, 2.0, 3.0]), reverse=True)
    np.testing.assert_array_equal(ys, [5.0, 6.0, 0.0])
    carry, ys = ad.scan(lambda c, _: (c + 1, None), 0, None, length=5)
    assert carry == 5
    assert ys is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [None, "sqrt", 1, 3])
def test_scan_agrees_with_a_python_loop(reverse, checkpoint):
    def iteration(w, c, x):
        return np.tanh(w @ c) + x, np.sum(c) * x

    def loop(w, c, xs):
        c, ys = ad.scan(lambda c, x: iteration(w, c, x), c, xs, reverse=reverse, checkpoint=checkpoint)
        return np.concatenate([c, ys])

    def plain(w, c, xs):
        ys = [None] * 4
        for i in reversed(range(4)) if reverse else range(4):
            c, ys[i] = iteration(w, c, xs[i])
        return np.concatenate([c, np.stack(ys)])

    agree(loop, plain, W, np.array([0.2, 0.4]), XS, second=(reverse, checkpoint) in ((False, None), (True, 3)))


def test_only_wanted_derivatives_are_computed():
    """A loop through which some carries, rows and results have no derivative, or no cotangent comes to them."""

    def iteration(w, c, x):
        k, a, b = c
        return (k + 1, a * w + x * k, np.cos(b)), (a, b * 2.0, k)

    def loop(w, xs):
        (_, a, _), (ys, _, ks) = ad.scan(lambda c, x: iteration(w, c, x), (0, 1.0, 0.5), xs)
        return a + ys * ks

    def plain(w, xs):
        c, out = (0, 1.0, 0.5), []
        for i in range(4):
            c, (y, _, k) = iteration(w, c, xs[i])
            out.append(y * k)
        return c[1] + np.stack(out)

    agree(loop, plain, 0.8, XS)


def test_containers_as_carry_rows_and_results():
    def iteration(state, row):
        after = {"p": state["p"] + row[0] * state["q"][0], "q": [np.sin(state["p"]) * row[1]]}
        return after, {"e": after["p"] ** 2, "k": (row[0],)}

    def loop(p, a, b):
        last, out = ad.scan(iteration, {"p": p, "q": [p * 2.0]}, (a, b))
        return last["p"] + last["q"][0] + out["e"] + out["k"][0]

    def plain(p, a, b):
        state, es = {"p": p, "q": [p * 2.0]}, []
        for i in range(3):
            state, out = iteration(state, (a[i], b[i]))
            es.append(out["e"] + out["k"][0])
        return state["p"] + state["q"][0] + np.stack(es)

    agree(loop, plain, 0.4, XS[:3], XS[1:])


def test_no_iterations():
    f = lambda w, c: ad.scan(lambda c, x: (c * w, x * c), c, np.zeros(0))
    carry, ys = f(2.0, 3.0)
    assert carry == 3.0
    assert ys.shape == (0,)
    assert ad.grad(lambda w: f(w, 3.0)[0])(2.0) == 0.0
    assert ad.grad(lambda c: f(2.0, c)[0])(3.0) == 1.0
    assert ad.derivative(lambda c: f(2.0, c)[0])(3.0) == 1.0
    assert ad.graph(ad.grad(lambda c: f(2.0, c)[0]))(3.0)(3.0) == 1.0
    assert ad.fori_loop(5, 2, lambda i, c: c * 2.0, 3.0) == 3.0
    assert ad.grad(lambda c: ad.while_loop(lambda x: x < 0.0, lambda x: x * 2.0, c))(3.0) == 1.0
    assert ad.scan(lambda c, _: (c, None), 1.0, length=0, checkpoint="sqrt")[0] == 1.0


def test_nested_loops_and_derivatives_inside():
    def inner_energy(c, x):
        return ad.scan(lambda e, k: (e + np.sin(c * x * k), None), 0.0, np.array([1.0, 2.0]))[0]

    def loop(x0, xs):
        def iteration(c, x):
            slope = ad.grad(inner_energy)(c, x)
            return c - 0.1 * slope, ad.fori_loop(0, 3, lambda i, v: v * c + i * x, slope)

        c, ys = ad.scan(iteration, x0, xs)
        return c + ys

    def plain(x0, xs):
        c, ys = x0, []
        for i in range(4):
            x = xs[i]
            slope = ad.grad(lambda c, x: np.sin(c * x) + np.sin(2.0 * c * x))(c, x)
            v = slope
            for j in range(3):
                v = v * c + j * x
            ys.append(v)
            c = c - 0.1 * slope
        return c + np.stack(ys)

    agree(loop, plain, 0.6, XS)


def test_a_written_carry():
    def iteration(c, x):
        c = c.copy()
        c[1:] += x * c[0]
        c[0] = np.sin(c[1])
        return c, c[1]

    def loop(c, xs):
        return ad.scan(iteration, c, xs)[0]

    def plain(c, xs):
        for i in range(4):
            c, _ = iteration(c, xs[i])
        return c

    agree(loop, plain, np.array([0.1, 0.2, 0.3]), XS)


def test_float32_and_complex_carries():
    c, ys = ad.scan(lambda c, x: (c * x, c), np.float32(1), np.array([2.0, 3.0], np.float32))
    assert c.dtype == ys.dtype == np.float32
    assert ad.grad(lambda w: ad.fori_loop(0, 3, lambda i, c: c * w, np.float32(1)))(np.float32(2)).dtype == np.float32
    z = lambda w: np.abs(ad.fori_loop(0, 3, lambda i, c: c * (w + 1j), 1.0 + 0j)) ** 2
    np.testing.assert_allclose(ad.grad(z)(0.5), ad.grad(lambda w: np.abs((w + 1j) ** 3) ** 2)(0.5))


def test_a_python_number_takes_the_dtype_that_an_iteration_makes_of_it():
    assert ad.scan(lambda c, x: (c + x, None), 0, np.ones(3))[0] == 3.0
    assert ad.scan(lambda c, x: (c + x, None), 0.0, np.ones(3, np.float32))[0].dtype == np.float32
    assert ad.fori_loop(0, 3, lambda i, c: c * 1j, 1) == -1j
    assert ad.scan(lambda c, x: (0.0, x), np.float32(1), np.ones(2))[0].dtype == np.float32
    assert ad.fori_loop(0, 3, lambda i, c: c + [0.5, 1.0, 2.0][i], 0) == 3.5  # iteration by iteration


def test_results_are_arrays_of_their_own():
    x = np.ones(3)
    for y in (
        ad.scan(lambda c, _: (c, None), x, length=2)[0],
        ad.scan(lambda c, row: (row, None), x, np.ones((2, 3)))[0],
        ad.graph(lambda p, x: ad.cond(p, lambda a: a, lambda a: -a, x))(True, x)(True, x),
        ad.while_loop(lambda c: c[0] < 0, lambda c: c, x),
        ad.scan(lambda c, _: (np.arange(3.0), None), x, length=2)[0],
    ):
        y += 1
    np.testing.assert_array_equal(x, 1)


# -- fori_loop and while_loop -----------------------------------------------------------------------------------


def test_fori_loop_agrees_with_a_python_loop():
    def loop(x, a):
        return ad.fori_loop(1, 5, lambda i, c: np.sin(c * x) + a * i, x * 0.5)

    def plain(x, a):
        c = x * 0.5
        for i in range(1, 5):
            c = np.sin(c * x) + a * i
        return c

    agree(loop, plain, XS, 0.7)


def test_the_counter_indexes():
    def loop(x):
        return ad.fori_loop(0, 3, lambda i, c: c + x[i] * c, 1.0)

    agree(loop, lambda x: (1 + x[0]) * (1 + x[1]) * (1 + x[2]), XS)


def test_bounds_that_a_graph_computes():
    def f(n, x):
        return ad.fori_loop(0, n, lambda i, c: c * x, 1.0)

    staged = ad.graph(f)(3, 2.0)
    assert [staged(n, 2.0) for n in (0, 3, 5)] == [1.0, 8.0, 32.0]
    powers = ad.graph(ad.grad(f, 1))(3, 2.0)
    assert [powers(n, 2.0) for n in (0, 3, 5)] == [0.0, 12.0, 80.0]
    np.testing.assert_array_equal(ad.vmap(f)(np.array([0, 1, 4]), np.array([2.0, 3.0, 0.5])), [1.0, 3.0, 0.0625])
    np.testing.assert_array_equal(ad.vmap(ad.grad(f, 1))(np.array([0, 1, 4]), np.array([2.0, 3.0, 0.5])), [0.0, 1.0, 0.5])


@pytest.mark.parametrize("checkpoint", [None, "sqrt", 2])
def test_while_agrees_with_a_python_loop(checkpoint):
    """The number of iterations depends on the values, and differs within a batch."""

    def loop(a, x):
        going = lambda s: np.abs(s[0] * s[0] - a) > 1e-3
        root, path = ad.while_loop(
            going, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + np.sin(s[0])), (x, x * 0.0), checkpoint=checkpoint
        )
        return root + path

    def plain(a, x):
        root, path = x, x * 0.0
        while np.abs(root * root - a) > 1e-3:
            root, path = 0.5 * (root + a / root), path + np.sin(root)
        return root + path

    agree(loop, plain, 2.0, 1.3, second=checkpoint is None)
    stack = np.array([0.5, 2.0, 9.0, 100.0])
    close(ad.vmap(ad.grad(loop))(stack, np.ones(4)), each(ad.grad(plain), (stack, np.ones(4))))


def test_while_in_scan_in_while():
    def loop(x):
        def iteration(c, k):
            c = ad.while_loop(lambda v: v < 2.0 * k, lambda v: v * 1.5 + 0.1 * x, c)
            return c * 0.3, c

        def outer(s):
            c, ys = ad.scan(iteration, s, np.array([1.0, 2.0]))
            return c + np.sum(ys)

        return ad.while_loop(lambda s: s < 12.0, outer, x)

    def plain(x):
        s = x
        while s < 12.0:
            c, total = s, 0.0
            for k in (1.0, 2.0):
                while c < 2.0 * k:
                    c = c * 1.5 + 0.1 * x
                total = total + c
                c = c * 0.3
            s = c + total
        return s

    agree(loop, plain, 0.7)


def test_integers_and_bools_round_trip():
    def loop(x):
        def step(s):
            k, odd, v = s
            return k + 1, ~odd, np.where(odd, v * x, v + x)

        return ad.while_loop(lambda s: s[0] < 5, step, (0, True, 1.0))[2]

    agree(loop, lambda x: (((x + x) * x) + x) * x, 0.7)


# -- cond -------------------------------------------------------------------------------------------------------


def test_cond_agrees_with_an_if():
    def loop(x, y):
        return ad.cond(np.sum(x) > y, lambda a, b: np.sin(a) * b, lambda a, b: np.exp(a * b) + a, x, y)

    def plain(x, y):
        return np.sin(x) * y if np.sum(x) > y else np.exp(x * y) + x

    agree(loop, plain, XS, 0.5)
    agree(loop, plain, XS, 1.1)
    agree(loop, plain, XS, 1.05)  # within the batch both branches are taken


def test_branches_close_over_values():
    def loop(x, y):
        return ad.cond(x > y, lambda: x * y * y, lambda: y)

    agree(loop, lambda x, y: x * y * y if x > y else y, 0.7, 0.2)
    agree(loop, lambda x, y: x * y * y if x > y else y, 0.7, 1.2)


def test_cond_in_a_loop():
    def loop(x, xs):
        def iteration(c, v):
            return ad.cond(v > 0, lambda c: np.sin(c) * v, lambda c: c + x, c), c

        c, ys = ad.scan(iteration, x, xs)
        return c + ys

    def plain(x, xs):
        c, ys = x, []
        for i in range(4):
            ys.append(c)
            c = np.sin(c) * xs[i] if xs[i] > 0 else c + x
        return c + np.stack(ys)

    agree(loop, plain, 0.6, XS)


def test_only_one_branch_runs():
    """A branch that would go on for ever is written down, and not run."""
    endless = lambda x: ad.while_loop(lambda c: c > 0, lambda c: c + 1.0, x)
    f = lambda x: ad.cond(x > 5, endless, lambda x: x * x, x)
    assert f(2.0) == 4.0
    assert ad.grad(f)(2.0) == 4.0
    assert ad.graph(f)(2.0)(3.0) == 9.0


def test_ops_on_outer_values_belong_to_the_branch():
    """Neither when it is written down nor when it runs is anything done for a branch that is not chosen."""

    def f(x):
        endless = lambda: ad.while_loop(lambda c: c > 0, lambda c: c + x, x)
        return ad.cond(x > 5, endless, lambda: ad.cond(x > 3, lambda: np.log(x - 3), lambda: x * x))

    for function, expected in ((f, 4.0), (ad.grad(f), 4.0), (ad.derivative(f), 4.0), (ad.grad(ad.grad(f)), 2.0)):
        assert function(2.0) == expected
        staged = ad.graph(function)(2.0)
        assert staged(2.0) == expected
        assert staged.simplify()(2.0) == expected
    staged = ad.graph(f)(2.0)
    assert [e.op.name for e in staged.equations] == ["greater", "cond"]
    assert ad.grad(staged)(2.0) == 4.0


def test_a_branch_that_is_not_taken_leaves_no_nan():
    f = lambda x: ad.cond(x > 0, lambda x: np.sqrt(x), lambda x: 0.0 * x, x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ad.vmap(ad.grad(f))(np.array([4.0, -1.0, 0.0])), [0.25, 0.0, 0.0])


def test_numbers_for_the_other_dtype():
    staged = ad.graph(lambda p, x: (ad.cond(p, lambda x: x, lambda x: 0, x), ad.cond(p, lambda: 1, lambda: 2.5)))(
        True, np.float32(2)
    )
    assert [t.dtype.name for t in staged.output_types] == ["float32", "float64"]
    assert staged(False, np.float32(2)) == (0.0, 2.5)
    assert ad.cond(0.5, lambda: 1, lambda: 2.5) == 1
    assert ad.cond(0, lambda: 1, lambda: 2) == 2


# -- map --------------------------------------------------------------------------------------------------------


def test_map_is_a_loop_in_a_graph():
    f = lambda x, w: ad.map(lambda row: np.sum(np.sin(row * w)), x)
    x = np.arange(6.0).reshape(3, 2)
    staged = ad.graph(f)(x, 0.5)
    assert [e.op.name for e in staged.equations] == ["scan"]
    np.testing.assert_allclose(staged(x, 0.5), f(x, 0.5))
    agree(f, lambda x, w: np.sum(np.sin(x * w), axis=1), x, 0.5)


# -- what a body may do -----------------------------------------------------------------------------------------


def test_a_body_that_asks_for_numbers_is_run_iteration_by_iteration():
    def iteration(c, x):
        return (c * x, c) if x > 0 else (c - x, x)

    def loop(c, xs):
        c, ys = ad.scan(iteration, c, xs)
        return c + ys

    def plain(c, xs):
        ys = []
        for i in range(4):
            c, y = iteration(c, xs[i])
            ys.append(y)
        return c + np.stack(ys)

    close(loop(0.4, XS), plain(0.4, XS))
    close(ad.grad(lambda *a: np.sum(loop(*a)), (0, 1))(0.4, XS), ad.grad(lambda *a: np.sum(plain(*a)), (0, 1))(0.4, XS))
    grow = lambda x: ad.while_loop(lambda v: v < 10, lambda v: v * 2 if v > 3 else v + 1, x)
    assert (grow(1.0), ad.grad(grow)(1.0)) == (16.0, 4.0)
    assert ad.cond(True, lambda x: x if x > 0 else -x, lambda x: x, -2.0) == 2.0
    nested = lambda x: ad.scan(lambda c, _: (ad.fori_loop(0, 2, lambda i, v: v * x if v > 0 else -v, c), None), x, length=2)[0]
    assert ad.grad(nested)(2.0) == 80.0
    close(ad.vmap(loop, in_axes=(0, None))(np.array([0.4, 0.5]), XS), [np.stack([plain(0.4, XS), plain(0.5, XS)])])
    with pytest.raises(UnsupportedError, match="the truth of a value inside graph"):
        ad.graph(loop)(0.4, XS)
    close(ad.vmap(loop)(np.ones(2), np.stack([XS, XS])), [np.stack([plain(1.0, XS)] * 2)])
    with pytest.raises(BatchError, match="the truth of a value inside vmap"):
        ad.vmap(loop)(np.ones(2), np.stack([XS, -XS]))
    with pytest.raises(ArgumentError, match="checkpoint='sqrt' of scan needs a body that can be staged, but the truth of"):
        ad.scan(iteration, 0.4, XS, checkpoint="sqrt")
    with pytest.raises(ShapeError, match="no iterations cannot know what iteration returns"):
        ad.scan(iteration, 0.4, XS[:0])


def test_captured_values_are_not_constants():
    """Values of every transform around a loop, used inside it."""

    def f(a, b, c):
        inner = lambda x: ad.scan(lambda s, v: (s * a + v * b + x * c, s), x, XS)[0]
        return ad.grad(inner)(b) + ad.jvp(inner, (a,), (c,))[1] + inner(a * b)

    def plain(a, b, c):
        def inner(x):
            s = x
            for v in XS:
                s = s * a + v * b + x * c
            return s

        return ad.grad(inner)(b) + ad.jvp(inner, (a,), (c,))[1] + inner(a * b)

    agree(f, plain, 0.3, 0.4, 0.5)


def test_constants_are_those_of_the_call():
    scale = np.array([1.0, 2.0])
    staged = ad.graph(lambda x: ad.scan(lambda c, _: (c * scale, None), x, length=2)[0])(np.ones(2))
    scale[:] = 0
    np.testing.assert_array_equal(staged(np.ones(2)), [1.0, 4.0])


def test_custom_rules_inside_a_loop():
    @ad.custom_vjp
    def clipped(x):
        return x * 3.0

    clipped.defvjp(lambda x: (x * 3.0, None), lambda res, g: (np.clip(g, -1.0, 1.0),))
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: clipped(c), x)
    assert (f(1.0), ad.grad(f)(1.0), ad.graph(ad.grad(f))(1.0)(1.0)) == (27.0, 1.0, 1.0)


def test_explicit_graphs_and_the_imperative_style():
    x, y = ad.symbols("x y")
    z = ad.scan(lambda c, v: (c * x + v * y, None), y, XS)[0]
    dz = ad.gradients(z, [x, y])
    plain = lambda x, y: ((((y * x + XS[0] * y) * x + XS[1] * y) * x) + XS[2] * y) * x + XS[3] * y
    close(ad.function([x, y], dz)(0.3, 0.7), ad.grad(plain, (0, 1))(0.3, 0.7))
    a = ad.array(0.3, requires_grad=True)
    ad.while_loop(lambda v: v < 5.0, lambda v: v * 2.0 + a * v, a).backward()
    np.testing.assert_allclose(a.grad, ad.grad(lambda a: a * (2 + a) ** 4)(0.3))


def test_second_derivatives_in_the_imperative_style():
    a = ad.array(0.3, requires_grad=True)
    ad.fori_loop(0, 3, lambda i, v: np.sin(v * a), a).backward(create_graph=True)
    first = a.grad
    a.zero_grad()
    first.backward()
    f = lambda a: np.sin(np.sin(np.sin(a * a) * a) * a)
    np.testing.assert_allclose(a.grad, ad.grad(ad.grad(f))(0.3))


def test_checkpoint_in_every_nesting():
    part = ad.checkpoint(lambda x, w: np.sin(x * w) * w)
    agree(lambda x, w: part(part(x, w), w), lambda x, w: np.sin(np.sin(x * w) * w * w) * w, XS, 0.4)
    staged = ad.graph(part)(1.0, 2.0)
    assert [e.op.name for e in staged.equations] == ["checkpoint"]
    backward = ad.graph(ad.grad(lambda x: part(part(x, 2.0), 2.0)))(1.0).simplify()
    assert [e.op.name for e in backward.equations] == ["checkpoint"] * 3  # the last result is not needed


def test_a_long_loop_in_bounded_memory():
    import tracemalloc

    def f(w, checkpoint):
        step = lambda c, _: (np.tanh(w * c) + 0.1, None)
        return np.sum(ad.scan(step, np.ones(512), length=2_000, checkpoint=checkpoint)[0])

    def g(w, checkpoint):
        step = lambda s: (s[0] + 1, np.tanh(w * s[1]) + 0.1)
        return np.sum(ad.while_loop(lambda s: s[0] < 2_000, step, (0, np.ones(512)), checkpoint=checkpoint)[1])

    found = []
    for loop in (f, g):
        tracemalloc.start()
        found.append(ad.grad(loop)(0.9, "sqrt"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2e6  # all carries together are 8 MB
        np.testing.assert_allclose(ad.derivative(loop)(0.9, None), found[-1], rtol=1e-8)
    np.testing.assert_allclose(*found, rtol=1e-12)


# -- what bad input gets ----------------------------------------------------------------------------------------


def staged_cond(true_fun, false_fun, x):
    return ad.graph(lambda pred, x: ad.cond(pred, true_fun, false_fun, x))(True, x)


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: ad.scan(3, 0.0, XS), ArgumentError, "scan expects a function"),
        (lambda: ad.scan(lambda c, x: c, 0.0, XS), ArgumentError, r"must return \(carry, y\) for scan; it returned float64"),
        (lambda: ad.scan(lambda c, x: (c, x, c), 0.0, XS), ArgumentError, "a tuple of 3"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0), ArgumentError, "needs xs, or length="),
        (lambda: ad.scan(lambda c, x: (c, x), np.ma.array([1.0]), XS), ArgumentError, "init is a masked array"),
        (
            lambda: ad.scan(lambda c, x: (c + np.random.normal(), x), 0.0, XS),
            UnsupportedError,
            "draws random numbers, which would be",
        ),
        (lambda: ad.fori_loop(0, 2, lambda i, c: c * np.random.rand(), 0.0), UnsupportedError, "every iteration of fori_loop"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, XS, length=3), ShapeError, "xs of scan has 4 rows, but length=3"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, {"a": XS, "b": XS[1:]}), ShapeError, r"xs\['a'\] has 4 rows, xs\['b'\] has 3"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, 1.0), ShapeError, "xs of scan is a scalar"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, length=2.5), ArgumentError, "length of scan is an integer"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, length=-1), ShapeError, "must not be negative"),
        (lambda: ad.scan(lambda c, x: (c, x), "text", XS), ArgumentError, "init is str"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, XS, checkpoint=0), ArgumentError, "checkpoint of scan is None"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, XS, checkpoint="log"), ArgumentError, "not 'log'"),
        (
            lambda: ad.scan(lambda c, x: ({"w": c["w"][:1]}, x), {"w": np.ones(2)}, XS),
            ShapeError,
            r"init\['w'\] is float64\[2\], and <lambda> returned float64\[1\] .*test_control.py",
        ),
        (
            lambda: ad.scan(lambda c, x: (c * x, x), np.float32(1), XS),
            DtypeError,
            r"init is float32\[\], and <lambda> returned float64\[\]",
        ),
        (lambda: ad.scan(lambda c, x: (c * 1.5, x), np.int64(1), XS), DtypeError, r"init is int64\[\]"),
        (lambda: ad.scan(lambda c, x: ((c, c), x), 0.0, XS), ShapeError, "must keep its structure: it starts as *"),
        (lambda: ad.scan(lambda c, x: (None, x), 0.0, XS), ShapeError, "must keep its structure"),
        (lambda: ad.scan(lambda c, x: ("text", x), 0.0, XS), ArgumentError, "returned str for init in scan"),
        (lambda: ad.scan(lambda c, x: (c, "text"), 0.0, XS), ArgumentError, "str"),
        (lambda: ad.fori_loop(0, 2.5, lambda i, c: c, 0.0), ArgumentError, "upper of fori_loop is an integer, not 2.5"),
        (lambda: ad.fori_loop(0, 3, lambda i, c: c[:1], np.ones(2)), ShapeError, r"init_val is float64\[2\]"),
        (lambda: ad.while_loop(lambda c: c, lambda c: c, 1.0), ArgumentError, r"must return one bool .* returned float64"),
        (lambda: ad.while_loop(lambda c: c > 1, lambda c: c, np.ones(2)), ArgumentError, r"bool\[\]; it returned bool\[2\]"),
        (lambda: ad.while_loop(lambda c: (c > 1, 2), lambda c: c, 1.0), ArgumentError, "it returned tuple"),
        (lambda: ad.while_loop(lambda c: True, lambda c: c, None), ArgumentError, "has no arrays"),
        (lambda: ad.while_loop(lambda c: c < 1, lambda c: c + np.ones(2), 0.0), ShapeError, r"init_val is float64\[\]"),
        (lambda: ad.cond(XS > 0, lambda: 1.0, lambda: 2.0), ArgumentError, r"one bool, not bool\[4\]; use np.where"),
        (lambda: ad.cond("yes", lambda: 1.0, lambda: 2.0), ArgumentError, "not str"),
        (lambda: staged_cond(lambda x: x, lambda x: (x, x), 1.0), ShapeError, "must return the same structure"),
        (lambda: staged_cond(lambda x: x, lambda x: x[:2], XS), ShapeError, r"returned float64\[4\] and .* float64\[2\]"),
        (lambda: staged_cond(lambda x: x, lambda x: x > 0, XS), DtypeError, r"float64\[4\] and .* bool\[4\]"),
        (lambda: ad.cond(True, 1.0, lambda: 2.0), ArgumentError, "cond expects a function"),
    ],
)
def test_bad_input_is_refused_by_name(call, kind, message):
    with pytest.raises(kind, match=message) as error:
        call()
    assert "test_control.py" in str(error.value)


def test_an_error_in_an_iteration_names_the_line():
    with pytest.raises(np.linalg.LinAlgError) as error:
        ad.scan(lambda c, x: (np.linalg.inv(c) * x, None), np.zeros((2, 2)), XS)
    assert any("inv" in note and "test_control.py" in note for note in error.value.__notes__)


def test_a_value_kept_from_inside_a_body_is_a_leak():
    kept = []
    ad.scan(lambda c, x: (kept.append(c) or c, x), np.float64(0), XS)
    with pytest.raises(ad.AdjointError, match="used after scan had returned"):
        kept[0] + 1.0


def test_a_while_loop_in_a_scan_whose_results_are_not_differentiated():
    """Its backward pass has an equation without results."""

    def f(x):
        def body(c, v):
            return ad.fori_loop(0, 3, lambda i, d: d * 0.5 + c, v) * x, (c, ad.while_loop(lambda u: u < c, lambda u: u + 1.0, v))

        c, (a, b) = ad.scan(body, x, np.linspace(0, 2, 4))
        return c + np.sum(a) * np.sum(b)

    slope = (f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6
    for gradient in (ad.grad(f), ad.jit(ad.grad(f)), ad.derivative(f)):
        np.testing.assert_allclose(gradient(0.7), slope, rtol=1e-8)


def _written(v, asks):
    if asks and v[1] > 100.0:  # the body runs as a Python loop
        return v
    v[0] = 7.0 * v[1]
    return v


#: Each gets an array, writes to what its body gets, and returns an array.
WRITES = {
    "scan": lambda a, asks: ad.scan(lambda c, x: (_written(c, asks), None), a, a)[0],
    "scan over rows": lambda a, asks: ad.scan(lambda c, x: (c, _written(x, asks)), a, a[None])[1][0],
    "fori_loop": lambda a, asks: ad.fori_loop(0, 2, lambda i, c: _written(c, asks), a),
    "while_loop": lambda a, asks: ad.while_loop(lambda c: c[0] < 3.0, lambda c: _written(c, asks), a),
    "map": lambda a, asks: ad.map(lambda row: _written(row, asks), a[None])[0],
    "cond": lambda a, asks: ad.cond(a[1] > 0, lambda c: _written(c, asks), lambda c: c * 1.0, a),
    "cond of a list": lambda a, asks: ad.cond(a[1] > 0, lambda c: _written(c[0], asks), lambda c: c[0] * 1.0, [a]),
}


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_of_a_body_to_its_arguments_stay_inside(name, asks):
    """Whether the body is staged, runs as a Python loop, or is called; and no result is the argument itself."""

    def f(x):
        a = x * 1.0
        return np.sum(WRITES[name](a, asks)) + np.sum(a * np.array([1.0, 10.0, 100.0]))

    x = np.array([0.3, 0.6, 0.9])
    expected = (4.2 + 0.6 + 0.9) + (0.3 + 6.0 + 90.0)
    for run in (f, ad.jit(f), lambda x: ad.vjp(f, x)[0], lambda x: ad.jvp(f, (x,), (x,))[0]):
        np.testing.assert_allclose(run(x), expected)
    np.testing.assert_allclose(ad.grad(f)(x), [1.0, 18.0, 101.0])
    result = WRITES[name](x, asks)
    np.testing.assert_array_equal(x, [0.3, 0.6, 0.9])
    assert not np.shares_memory(result, x)
