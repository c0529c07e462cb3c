"""vmap: axes, containers, nesting, chunks, and the errors for mistakes; map."""

from collections import namedtuple

import numpy as np
import pytest

import adjoint as ad

Pair = namedtuple("Pair", "a b")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
W = RNG.standard_normal((3, 2))


def loop(f, *stacks):
    return np.stack([f(*row) for row in zip(*stacks, strict=True)])


def test_axes():
    f = lambda x, w: np.tanh(x @ w)
    expected = np.tanh(X @ W)
    np.testing.assert_allclose(ad.vmap(f, in_axes=(0, None))(X, W), expected)
    np.testing.assert_allclose(ad.vmap(f, in_axes=(1, None))(X.T, W), expected)
    np.testing.assert_allclose(ad.vmap(f, in_axes=(-1, None), out_axes=1)(X.T, W), expected.T)
    np.testing.assert_allclose(ad.vmap(f, in_axes=(0, None), out_axes=-1)(X, W), expected.T)
    np.testing.assert_allclose(ad.vmap(f, in_axes=[0, None])(X, W), expected)
    ws = RNG.standard_normal((4, 3, 2))
    np.testing.assert_allclose(ad.vmap(f)(X, ws), loop(f, X, ws))


def test_containers_in_and_out():
    f = lambda p, x: {"sum": p["a"] + p["b"].a * x, "pair": (p["b"].b, x)}
    params = {"a": np.arange(4.0), "b": Pair(np.ones((3, 4)), 2.0)}
    out = ad.vmap(f, in_axes=({"a": 0, "b": Pair(1, None)}, 0), out_axes={"sum": 1, "pair": (None, 0)})(params, X)
    np.testing.assert_allclose(out["sum"], (np.arange(4.0)[:, None] + X).T)
    assert out["pair"][0] == 2.0
    np.testing.assert_array_equal(out["pair"][1], X)


def test_keyword_arguments_are_mapped_along_axis_0():
    np.testing.assert_allclose(ad.vmap(lambda x, *, y: x * y)(X, y=X), X * X)


def test_results_that_do_not_depend_on_the_example_are_repeated():
    out = ad.vmap(lambda x: np.array([1.0, 2.0]))(X)
    assert out.shape == (4, 2)
    out[0] = 5.0
    assert out[1, 0] == 1.0


def test_nested():
    f = lambda a, b: np.dot(a, b)
    outer = ad.vmap(ad.vmap(f, (None, 0)), (0, None))(X, X)
    np.testing.assert_allclose(outer, X @ X.T)
    three = ad.vmap(ad.vmap(ad.vmap(lambda a, b, c: a * b + c, (None, None, 0)), (None, 0, None)), (0, None, None))
    v = np.arange(3.0)
    np.testing.assert_allclose(three(v, v, v), v[:, None, None] * v[:, None] + v)


def test_per_example_gradients():
    loss = lambda w, x: np.sum(np.tanh(x @ w) ** 2)
    each = ad.vmap(ad.grad(loss), in_axes=(None, 0))(W, X)
    np.testing.assert_allclose(each, np.stack([ad.grad(loss)(W, x) for x in X]))


def test_over_and_under_the_other_transforms():
    f = lambda x: np.sum(np.sin(x) * x**2)
    batched = lambda x: np.sum(ad.vmap(f)(x) ** 2)
    plain = lambda x: np.sum(np.sum(np.sin(x) * x**2, axis=1) ** 2)
    np.testing.assert_allclose(ad.grad(batched)(X), ad.grad(plain)(X))
    np.testing.assert_allclose(ad.hessian(batched)(X), ad.hessian(plain)(X), atol=1e-12)
    np.testing.assert_allclose(ad.vmap(ad.hessian(f))(X), loop(ad.hessian(f), X))
    v = RNG.standard_normal(X.shape)
    np.testing.assert_allclose(ad.jvp(batched, (X,), (v,))[1], ad.jvp(plain, (X,), (v,))[1])
    slope = lambda x, v: ad.jvp(f, (x,), (v,))[1]
    np.testing.assert_allclose(ad.vmap(slope)(X, v), loop(slope, X, v))


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
def test_chunks(chunk):
    f = lambda x, w: {"y": x @ w, "z": x[0]}
    whole = ad.vmap(f, in_axes=(0, None), out_axes={"y": 1, "z": 0})(X, W)
    parts = ad.vmap(f, in_axes=(0, None), out_axes={"y": 1, "z": 0}, chunk_size=chunk)(X, W)
    for key in whole:
        np.testing.assert_allclose(parts[key], whole[key], rtol=1e-14)


def test_chunks_bound_memory():
    sizes = []

    def f(x):
        sizes.append(x.underlying.shape[0])
        return x * 2

    ad.vmap(f, chunk_size=3)(np.ones(8))
    assert sizes == [3, 3, 2]


def test_chunks_differentiate():
    f = lambda x: np.sum(ad.vmap(np.sin, chunk_size=2)(x))
    np.testing.assert_allclose(ad.grad(f)(X), np.cos(X))


def test_an_empty_batch():
    assert ad.vmap(lambda x: np.sum(x))(np.ones((0, 3))).shape == (0,)


def test_indices_that_differ_by_example():
    x = RNG.standard_normal((4, 5))
    best = ad.vmap(lambda row: row[np.argmax(row)])
    np.testing.assert_array_equal(best(x), x.max(axis=1))
    np.testing.assert_array_equal(ad.grad(lambda x: np.sum(best(x)))(x), x == x.max(axis=1, keepdims=True))
    pick = ad.vmap(lambda row, i: row[i])
    np.testing.assert_array_equal(pick(x, np.array([0, 4, 2, 2])), x[np.arange(4), [0, 4, 2, 2]])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ad.vmap(np.add)(np.ones(3), np.ones(4)), "argument 0 has 3, argument 1 has 4"),
        (lambda: ad.vmap(np.sin, in_axes=None)(np.ones(3)), "nothing to map"),
        (lambda: ad.vmap(np.sin, in_axes=1)(np.ones(3)), r"shape \(3,\), so it has no axis 1"),
        (lambda: ad.vmap(np.sin)(1.0), "no axis 0"),
        (lambda: ad.vmap(np.add, in_axes=(0,))(np.ones(3), np.ones(3)), "1 entries, but the function was called with 2"),
        (lambda: ad.vmap(np.sin, out_axes=2)(np.ones(3)), "out_axes=2 is out of range"),
        (lambda: ad.vmap(np.sin, out_axes=None)(np.ones(3)), "out_axes is None"),
        (lambda: ad.vmap(np.sin, chunk_size=0), "positive integer"),
        (lambda: ad.vmap(np.sin, in_axes="x"), "in_axes"),
        (lambda: ad.vmap(3), "expects a function"),
        (lambda: ad.vmap(lambda x: "text")(np.ones(3)), "returned str inside vmap"),
        (lambda: ad.vmap(lambda x: x if x > 0 else -x)(np.array([1.0, -1.0])), "the truth of a value inside vmap"),
        (lambda: ad.vmap(lambda x: x[x > 0])(np.array([[1.0, -1.0], [1.0, 1.0]])), "np.where"),
        (lambda: ad.vmap(lambda s, x: x)("a", np.ones(3)), "give it in_axes=None"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ad.AdjointError, match=message) as error:
        call()
    assert "test_vmap.py:" in str(error.value)


class TestMap:
    def test_branches(self):
        f = lambda x: x * x if x > 0 else -x
        np.testing.assert_array_equal(ad.map(f, np.array([2.0, -3.0])), [4, 3])
        np.testing.assert_array_equal(ad.grad(lambda x: np.sum(ad.map(f, x)))(np.array([2.0, -3.0])), [4, -1])

    def test_containers(self):
        out = ad.map(lambda p: {"s": p[0] + p[1]}, (X, X))
        np.testing.assert_array_equal(out["s"], 2 * X)

    def test_mistakes(self):
        with pytest.raises(ad.AdjointError, match="common leading length"):
            ad.map(np.sin, 1.0)

    def test_no_examples(self):
        total, doubled = ad.map(lambda x: (np.sum(x), 2 * x), np.ones((0, 3), np.float32))
        assert (total.shape, doubled.shape, doubled.dtype) == ((0,), (0, 3), np.float32)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("order", ["C", "F", "view", "backwards"])
def test_shared_arguments_that_are_traced(rows, order):
    """Each call has its own: a write stays inside, and strides are those of an example, under transforms of any depth."""
    held = {"C": np.copy, "F": np.asfortranarray, "view": lambda w: np.repeat(w, 2, -1)[..., ::2], "backwards": lambda w: w[::-1]}
    w = held[order](np.arange(1.0, 7.0).reshape(2, 3))
    x = np.linspace(0.5, 1.5, rows)

    def example(u, w):
        before = np.copy(w)
        w[0, 0] = u
        return np.sum(w * w) + np.sum(before.ravel() * np.arange(6.0))

    def f(w, run):
        v = np.where(w > -1.0, w, np.int8(1))
        return np.sum(run(x, v)) + 3.0 * np.sum(v) + np.sum(np.copy(w.T).ravel("K") * np.arange(6.0))

    batched = lambda x, w: ad.vmap(example, in_axes=(0, None))(x, w)
    one_by_one = lambda x, w: sum(example(u, w.copy()) for u in x) + 0.0
    wanted = ad.grad(f)(w, one_by_one)
    np.testing.assert_allclose(ad.grad(f)(w, batched), wanted)
    both = ad.vmap(lambda w: ad.grad(f)(w, batched))(np.stack([w, w]))
    within = ad.grad(lambda ws: np.sum(ad.vmap(lambda w: f(w, batched))(ws)))(np.stack([w, w]))
    rows_wanted = np.stack([ad.grad(f)(np.stack([w, w])[0], one_by_one)] * 2)
    np.testing.assert_allclose(both, rows_wanted)
    np.testing.assert_allclose(within, rows_wanted)


AGREED = {
    "if": lambda x: np.sin(x) if x > 0 else x * x,
    "two": lambda x: x * x if x > 0 and not x > 100 else -x,
    "max": lambda x: max(x, 0.5) * x,
    "count": lambda x: sum((x * i for i in range(int(x * 0 + 3))), 0.0),
    "item": lambda x: [1.0, 2.0, 3.0][int(x * 0 + 1)] * x,
    "while": lambda x: _halved(x),
    "mask": lambda x: np.sum(np.stack([x, 2 * x])[np.stack([x, -x]) > 0] ** 2),
    "number as a mask": lambda x: np.sum(np.stack([x, 2 * x])[x > 0] ** 2),
}


def _halved(x):
    while x > 0.9:
        x = x * 0.5
    return x


@pytest.mark.parametrize("name", AGREED)
@pytest.mark.parametrize("xs", [[1.0, 1.5, 1.25], [-1.0, -2.0], [1.0, -1.0], [1.0, 4.0]])
def test_a_branch_on_which_all_examples_agree(name, xs):
    """The common branch is taken; where the examples differ, the error names the line. Compiled and differentiated, too."""
    f, xs = AGREED[name], np.array(xs)
    for one, many in (
        (f, ad.vmap(f)),
        (ad.grad(f), ad.vmap(ad.grad(f))),
        (ad.grad(f), ad.grad(lambda xs: np.sum(ad.vmap(f)(xs)))),
        (f, ad.jit(ad.vmap(f))),
        (ad.grad(f), ad.jit(ad.vmap(ad.grad(f)))),
    ):
        expected = [one(x) for x in xs]
        try:
            found = many(xs)
        except ad.AdjointError as error:
            assert len({x > 0 for x in xs}) > 1 or name == "while" or xs[1] == 4.0
            assert "differs between examples" in str(error)  # noqa: PT017
            assert "test_vmap.py:" in str(error)  # noqa: PT017
            assert "np.where, ad.cond" in str(error)  # noqa: PT017
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("out_axes", [None, 0])
def test_a_result_shares_no_memory_with_an_outside_array(out_axes):
    outside = np.arange(3.0)
    for result in (outside, outside[::2], outside.reshape(3, 1)):
        found = ad.vmap(lambda x, result=result: (x, result), out_axes=(0, out_axes))(np.ones(2))[1]
        assert not np.shares_memory(found, outside)
        assert found.flags.writeable
