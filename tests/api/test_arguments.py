"""Arguments and results: containers, what is the user's own, what is refused."""

import collections
import dataclasses
import functools
import math
from contextlib import nullcontext

import numpy as np
import pytest
from complaints import X, complaint
from promises import BIG, SMALL, close, equal

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.tree import flatten

# -- results are the user's own ----------------------------------------------------------------------------------


def every_result(x):
    """Results of every transform, of functions that return or ignore their arguments."""
    v = np.ones_like(x)
    identity = lambda x: x
    twice = lambda x: (x, x)
    yield ad.grad(np.sum)(x)
    yield ad.grad(lambda x, y: np.sum(x + y), (0, 1))(x, x)
    yield ad.value_and_grad(lambda x: (np.sum(x), (x, x, x[:2], 2 * x)), has_aux=True)(x)
    yield ad.grad(lambda x: 0.0)(x)
    yield ad.jvp(identity, (x,), (v,)), v
    yield ad.jvp(twice, (x,), (v,)), v
    yield ad.jvp(lambda x, y: (x, y, x + y), (x, x), (v, v)), v
    yield ad.jvp(lambda x: (x[:2], x.T, x.reshape(-1)), (x,), (v,)), v
    yield ad.jvp(lambda x: (np.sum(x), x), (x,), (v,), has_aux=True), v
    out, pull = ad.vjp(identity, x)
    yield out, pull(v), pull(v), v
    out, pull = ad.vjp(twice, x)
    yield out, pull((v, v)), v
    out, pull, aux = ad.vjp(lambda x: (x, x), x, has_aux=True)
    yield out, aux, pull(v), v
    out, pull = ad.vjp(lambda a, b: a, x, x)
    yield out, pull(v), v
    out, push = ad.linearize(identity, x)
    yield out, push(v), push(v), v
    yield ad.vmap(identity)(x)
    yield ad.vmap(twice)(x)
    yield ad.vmap(lambda x: (x, x, 1.0), out_axes=(0, -1, 0))(x)
    yield ad.vmap(lambda x, y: (x, y), in_axes=(0, None))(x, x)
    yield ad.vmap(lambda x, y: y, in_axes=(0, None), out_axes=None)(x, x)
    yield ad.vmap(twice, chunk_size=2)(x)
    yield ad.jacfwd(twice)(x), ad.jacrev(twice)(x), ad.jacobian(identity)(x)
    yield ad.hessian(lambda x: np.sum(x) ** 2)(x)
    yield ad.elementwise_grad(identity)(x)
    yield ad.stop_gradient(2 * x)


def test_results_share_no_memory_and_can_be_written_to():
    x = np.arange(1.0, 4.0)
    kept = x.copy()
    for number, results in enumerate(every_result(x)):
        arrays = [r for r in flatten(results)[0] if isinstance(r, np.ndarray)]
        for i, a in enumerate(arrays):
            assert type(a) is np.ndarray
            assert a.flags.writeable or a.ndim == 0, number
            assert not np.shares_memory(a, x), number
            for b in arrays[:i]:
                assert not np.shares_memory(a, b), number
        for a in arrays:
            a[...] = -7.0
    equal(x, kept)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_inputs_are_never_modified(n):
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(3, n))

    def f(x, y):
        a = x * 1
        x[0] = 5.0
        x += y
        x[1:] *= 2
        y[::2] = x[::2]
        z = (a - a) + y
        z += x - x
        return np.sum(z * a) + np.sum(x * y) + np.sum(z[:2] * x[1:3])

    before = [a.copy() for a in (x, y, v)]
    g = ad.grad(f, (0, 1))(x, y)
    ad.jvp(f, (x, y), (v, v))
    ad.vjp(f, x, y)[1](np.float64(2.0))
    ad.linearize(f, x, y)[1](v, v)
    ad.vmap(lambda x, y: f(np.stack([x] * 4), np.stack([y] * 4)))(x, y)
    ad.hvp(lambda x: f(x, np.copy(x)))(x, v)
    for a, b in zip((x, y, v), before, strict=True):
        equal(a, b)
    _, t = ad.jvp(f, (x, y), (v, v))
    close(t, np.sum((g[0] + g[1]) * v), 1e-9)


@pytest.mark.parametrize("n", [SMALL, BIG])
def test_a_cotangent_is_not_changed_by_what_another_operand_adds_to_it(n):
    c = np.arange(n) * 1.0
    for f in (
        lambda x, y: np.sum(((x - x) + y) * c),
        lambda x, y: np.sum((x % x + y) * c),
        lambda x, y: np.sum(((x - x * 2 - x) + y) * c),
    ):
        equal(ad.grad(f, (0, 1))(np.ones(n), np.ones(n))[1], c)
    _, pull = ad.vjp(lambda x, y: (x - x) + y, np.ones(n), np.ones(n))
    pull(c)
    equal(c, np.arange(n) * 1.0)


def test_a_pullback_is_not_changed_by_later_writes():
    x = np.array([1.0, 2.0])
    out, pull, aux = ad.vjp(lambda x: (np.exp(x) * x, np.exp(x)), x, has_aux=True)
    expected = pull(np.ones(2))[0]
    for a in (x, out, aux, pull(np.ones(2))[0]):
        a[:] = 0.0
    equal(pull(np.ones(2))[0], expected)
    x = np.array([1.0, 2.0])
    out, push = ad.linearize(lambda x: x * np.exp(x), x)
    expected = push(np.ones(2))
    x[:] = out[:] = 0.0
    equal(push(np.ones(2)), expected)
    tree = {"a": np.ones(2)}
    out, pull = ad.vjp(lambda t: t["a"] ** 2, tree)
    tree["a"][:] = 5.0
    equal(pull(np.ones(2))[0]["a"], [2.0, 2.0])


def test_results_are_plain():
    f = lambda x: (np.sum(x) * 1.0, {"fresh": anp.zeros(2), "traced": x * 2, "text": "s", "none": None, "number": 3})
    for aux in (
        ad.grad(f, has_aux=True)(np.ones(2))[1],
        ad.jvp(f, (np.ones(2),), (np.ones(2),), has_aux=True)[2],
        ad.vjp(f, np.ones(2), has_aux=True)[2],
        ad.jacfwd(f, has_aux=True)(np.ones(2))[1],
        ad.jacrev(f, has_aux=True)(np.ones(2))[1],
    ):
        assert type(aux["fresh"]) is np.ndarray
        assert type(aux["traced"]) is np.ndarray
        assert (aux["text"], aux["none"], aux["number"]) == ("s", None, 3)
    for y in (
        ad.vjp(lambda x: anp.zeros(2), 1.0)[0],
        ad.jvp(lambda x: anp.zeros(2), (1.0,), (1.0,))[0],
        ad.vmap(lambda x: anp.zeros(2))(np.ones(2)),
    ):
        assert type(y) is np.ndarray


# -- functions and arguments -------------------------------------------------------------------------------------


def test_functions_that_ignore_or_return_their_argument():
    assert ad.grad(lambda x: 3.0)(1.0) == 0.0
    assert ad.grad(lambda x: x)(1.0) == 1.0
    equal(ad.jacfwd(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    equal(ad.jacrev(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    equal(ad.jacrev(lambda x: x)(np.ones(3)), np.eye(3))
    assert ad.jvp(lambda x: 3.0, (1.0,), (1.0,)) == (3.0, 0.0)
    assert ad.linearize(lambda x: 3.0, 1.0)[1](1.0) == 0.0
    assert ad.vjp(lambda x: 3.0, 1.0)[1](1.0) == (0.0,)
    equal(ad.hessian(lambda x: 3.0)(np.ones(2)), np.zeros((2, 2)))
    equal(ad.vmap(lambda x: 3.0)(np.ones(2)), [3.0, 3.0])


def test_repeated_arguments():
    x = np.array([1.0, 2.0])
    a, b = ad.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x)
    equal(a, 2 * x * x)
    equal(b, x * x)
    g = ad.grad(lambda t: np.sum(t[0] * t[1] ** 2))([x, x])
    equal(g[0], x**2)
    equal(g[1], 2 * x**2)
    equal(ad.vmap(lambda a, b: a * b)(x, x), x * x)


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    inner: object


def trees():
    a, b = np.array([1.0, 2.0]), 3.0
    yield {"a": a, "b": b}, lambda t: (t["a"], t["b"])
    yield {"b": b, "a": a}, lambda t: (t["a"], t["b"])
    yield [a, b], lambda t: (t[0], t[1])
    yield (a, b), lambda t: (t[0], t[1])
    yield Pair(a, b), lambda t: (t.left, t.right)
    yield Layer(a, b), lambda t: (t.w, t.b)
    yield Frozen(a, Layer({"x": [b, None]}, ())), lambda t: (t.w, t.inner.w["x"][0])
    yield {"l": [Pair(a, None), (), {}], 3: b, (1, 2): None}, lambda t: (t["l"][0].left, t[3])
    yield collections.OrderedDict(z=a, y=b), lambda t: (t["z"], t["y"])
    yield collections.defaultdict(list, z=a, y=b), lambda t: (t["z"], t["y"])


@pytest.mark.parametrize("case", range(10))
def test_containers(case):
    tree, parts = list(trees())[case]
    f = lambda t: np.sum(parts(t)[0] ** 2) * parts(t)[1]
    expected = (6 * np.array([1.0, 2.0]), 5.0)

    def same(found):
        assert type(found) is type(tree)
        for x, y in zip(parts(found), expected, strict=True):
            close(x, y)

    same(ad.grad(f)(tree))
    value, g = ad.value_and_grad(f)(tree)
    assert value == 15.0
    same(g)
    same(ad.vjp(f, tree)[1](1.0)[0])
    same(ad.jacrev(f)(tree))
    same(ad.jacfwd(f)(tree))
    same(ad.jacobian(f)(tree))
    _, t = ad.jvp(f, (tree,), (tree,))
    assert t == 45.0
    assert ad.linearize(f, tree)[1](tree) == 45.0
    out, t = ad.jvp(lambda t: t, (tree,), (tree,))
    assert type(out) is type(t) is type(tree)
    h = ad.hessian(f)(tree)
    close(parts(parts(h)[0])[0], 6 * np.eye(2))
    close(parts(parts(h)[1])[0], [2.0, 4.0])


def test_empty_containers_and_none():
    f = lambda x, extra: np.sum(x)
    g = ad.grad(f, (0, 1))(np.ones(2), {"nothing": (), "none": None})
    assert g[1] == {"nothing": (), "none": None}
    assert ad.grad(f, 1)(np.ones(2), []) == []
    assert ad.vmap(lambda x, t: (x, t))(np.ones(2), None)[1] is None


def test_has_aux_everywhere():
    f = lambda x: (np.sum(x**2), {"twice": 2 * x, "note": "hello"})
    x = np.array([1.0, 2.0])
    for gradient, aux in (
        ad.grad(f, has_aux=True)(x),
        (lambda r: (r[1], r[0][1]))(ad.value_and_grad(f, has_aux=True)(x)),
        ad.jacrev(f, has_aux=True)(x),
        ad.jacobian(f, has_aux=True)(x),
        (lambda r: (r[1](1.0)[0], r[2]))(ad.vjp(f, x, has_aux=True)),
    ):
        equal(gradient, 2 * x)
        equal(aux["twice"], 2 * x)
        assert aux["note"] == "hello"
    value, t, aux = ad.jvp(f, (x,), (x,), has_aux=True)
    assert (value, t, aux["note"]) == (5.0, 10.0, "hello")
    g, aux = ad.jacfwd(f, has_aux=True)(x)
    equal(g, 2 * x)
    equal(aux["twice"], 2 * x)
    h, aux = ad.hessian(f, has_aux=True)(x)
    equal(h, 2 * np.eye(2))
    equal(aux["twice"], 2 * x)
    # aux of an inner transform may carry the outer one's derivative
    inner = lambda x: ad.grad(lambda y: (np.sum(y), y * x), has_aux=True)(x)[1].sum()
    equal(ad.grad(inner)(x), 2 * x)


def test_argnums_forms():
    f = lambda x, y, *, k=1.0: k * x * y**2
    assert ad.grad(f)(2.0, 3.0) == 9.0
    assert ad.grad(f, 1)(2.0, 3.0) == 12.0
    assert ad.grad(f, -1)(2.0, 3.0) == 12.0
    assert ad.grad(f, argnum=1)(2.0, 3.0) == 12.0
    assert ad.grad(f, np.int64(1))(2.0, 3.0) == 12.0
    assert ad.grad(f, (0, -1))(2.0, 3.0) == (9.0, 12.0)
    assert ad.grad(f, [1, 0])(2.0, 3.0, k=2.0) == (24.0, 18.0)
    assert ad.grad(f, (1,))(2.0, 3.0) == (12.0,)
    for transform in (ad.value_and_grad, ad.jacfwd, ad.jacrev, ad.jacobian, ad.hessian, ad.elementwise_grad, ad.derivative):
        transform(f, 1)(2.0, 3.0)
        transform(f, argnum=1)(2.0, 3.0)
        transform(f, -1)(2.0, 3.0, k=3.0)
    assert ad.hessian(f, (0, 1))(2.0, 3.0) == ((0.0, 6.0), (6.0, 4.0))
    assert ad.jacfwd(f, (0, 1))(2.0, 3.0) == ad.jacrev(f, [0, 1])(2.0, 3.0) == (9.0, 12.0)
    assert ad.hvp(f, 1)(2.0, 3.0, 1.0) == 4.0
    assert ad.hvp(f, (0, 1))(2.0, 3.0, (1.0, 1.0)) == (6.0, 10.0)


class Model:
    scale = 2.0

    def __init__(self, k):
        self.k = k

    def loss(self, x):
        return self.k * x**2 * self.scale

    @ad.grad
    def ignored(self):
        return 0.0

    @staticmethod
    def fixed(x):
        return x**3

    @classmethod
    def made(cls, x):
        return cls.scale * x

    def __call__(self, x, y=1.0):
        return self.k * x * y

    slope = ad.grad(lambda self, x: self.k * x**2, 1)


def test_kinds_of_callables():
    m = Model(3.0)
    assert ad.grad(m.loss)(2.0) == 24.0
    assert ad.grad(m)(2.0, y=2.0) == 6.0
    assert ad.grad(Model.fixed)(2.0) == 12.0
    assert ad.grad(Model.made)(2.0) == 2.0
    assert m.slope(2.0) == 12.0
    assert ad.grad(functools.partial(lambda a, x: a * x**2, 5.0))(1.0) == 10.0
    assert ad.grad(functools.partial(lambda x, a: a * x**2, a=5.0))(1.0) == 10.0
    assert ad.grad(abs)(-2.0) == -1.0
    assert ad.grad(np.sin)(0.0) == 1.0
    assert ad.grad(math.prod)([2.0, 3.0]) == [3.0, 2.0]
    assert ad.grad(sum)([2.0, 3.0]) == [1.0, 1.0]
    assert ad.grad(max)(2.0, 3.0) == 0.0
    assert ad.grad(functools.lru_cache(lambda x: x * x))(2.0) == 4.0
    g = ad.grad(m.loss)
    assert g.__name__ == "loss"
    assert "grad of loss" in repr(g)


# -- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, kind, words",
    [
        (3, TypeError, ("argument 0", "int", "write 3.0")),
        (np.int64(3), TypeError, ("argument 0", "int64", "write 3.0")),
        (True, TypeError, ("argument 0", "bool")),
        (np.arange(3), TypeError, ("argument 0", "int64", "astype(float)")),
        (np.array([True]), TypeError, ("argument 0", "bool", "astype(float)")),
        ("text", TypeError, ("argument 0", "str")),
        (b"text", TypeError, ("argument 0", "bytes")),
        (np.array(["a"]), TypeError, ("argument 0", "<U1")),
        (np.array([1.0, None]), TypeError, ("argument 0", "object")),
        (object(), TypeError, ("argument 0", "object")),
        (np.ma.array([1.0]), TypeError, ("argument 0", "masked")),
        ({"w": [1.0, 2]}, TypeError, ("argument 0['w'][1]", "int")),
        ([1.0, "b"], TypeError, ("argument 0[1]", "str")),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, ("argument 0", "datetime")),
    ],
)
def test_an_input_that_cannot_be_differentiated(value, kind, words):
    f = lambda x: 1.0
    for run in (
        lambda: ad.grad(f)(value),
        lambda: ad.vjp(f, value),
        lambda: ad.jvp(f, (value,), (value,)),
        lambda: ad.jacfwd(f)(value),
        lambda: ad.jacrev(f)(value),
        lambda: ad.linearize(f, value),
        lambda: ad.hessian(f)(value),
    ):
        with complaint(kind, *words):
            run()


REDEFINED = {"masked": np.ma.masked_array(np.eye(2), [[0, 1], [0, 0]]), "np.matrix": np.eye(2).view(np.matrix)}
EYE = np.eye(2)
TAKERS = {
    "vmap": lambda f, x: ad.vmap(f)(x),
    "vmap, shared": lambda f, x: ad.vmap(lambda a, b: a * f(b), in_axes=(0, None))(np.ones(3), x),
    "vmap, by name": lambda f, x: ad.vmap(lambda a, b: a * f(b))(np.ones(2), b=x),
    "graph": lambda f, x: ad.graph(f)(x),
    "a call of a graph": lambda f, x: ad.graph(f)(EYE)(x),
    "a tangent": lambda f, x: ad.jvp(f, (EYE,), (x,)),
    "a direction": lambda f, x: ad.hvp(f)(EYE, x),
    "a cotangent": lambda f, x: ad.vjp(lambda a: 2 * a, EYE)[1](x),
    "the data of ad.array": lambda f, x: ad.array(x),
    "a leaf": lambda f, x: ad.array(x, requires_grad=True),
    "scan": lambda f, x: ad.scan(lambda c, row: (c + f(row), None), 0.0, x),
    "an item": lambda f, x: ad.grad(lambda d: f(d["a"]))({"a": x}),
}


@pytest.mark.parametrize("kind", REDEFINED)
@pytest.mark.parametrize("taker", TAKERS)
def test_arrays_that_redefine_arithmetic(taker, kind):
    with complaint(TypeError, kind):
        TAKERS[taker](lambda a: np.sum(a * a), REDEFINED[kind])


def test_other_subclasses_are_plain_arrays(tmp_path):
    x = np.memmap(tmp_path / "x", float, "w+", shape=(2, 2))
    x[:] = 2.0
    f = lambda a: np.sum(a * a)
    for found in (ad.grad(f)(x), ad.jvp(f, (EYE,), (x,)), ad.vmap(f)(x), ad.graph(f)(x)(x)):
        assert all(type(y) in (np.ndarray, np.float64) for y in flatten(found)[0])


def test_integers_are_welcome_where_they_are_not_differentiated():
    assert ad.grad(lambda x, n: x**n)(2.0, 3) == 12.0


def test_argnums():
    f = lambda x, y: x * y
    for transform in (
        ad.grad,
        ad.value_and_grad,
        ad.jacfwd,
        ad.jacrev,
        ad.jacobian,
        ad.hessian,
        ad.elementwise_grad,
        ad.derivative,
    ):
        with complaint(TypeError, "argnums=2", "out of range", "2 positional"):
            transform(f, 2)(1.0, 2.0)
        with complaint(TypeError, "argnums=-3", "out of range"):
            transform(f, -3)(1.0, 2.0)
        with complaint(TypeError, "argnums", "'x'"):
            transform(f, "x")(1.0, 2.0)
    with complaint(TypeError, "argnums", "1.0"):
        ad.grad(f, 1.0)(1.0, 2.0)
    with complaint(TypeError, "twice"):
        ad.grad(f, (1, -1))(1.0, 2.0)
    with complaint(TypeError, "empty"):
        ad.grad(f, ())(1.0, 2.0)
    with complaint(TypeError, "out of range", "keyword"):
        ad.grad(f)(x=1.0, y=2.0)
    with complaint(TypeError, "hvp(f)(x, v)"):
        ad.hvp(f)(1.0)
    with complaint(TypeError, "one scalar argument"):
        ad.derivative(f, (0, 1))(1.0, 2.0)
    with complaint(ValueError, "scalar argument", "elementwise_grad"):
        ad.derivative(np.sin)(X)


@pytest.mark.parametrize(
    "name",
    [
        "grad",
        "value_and_grad",
        "jacfwd",
        "jacrev",
        "jacobian",
        "hessian",
        "hvp",
        "elementwise_grad",
        "derivative",
        "vmap",
        "checkpoint",
        "custom_jvp",
        "custom_vjp",
    ],
)
def test_transforms_need_a_function(name):
    with complaint(TypeError, f"{name} expects a function", "float", clean=False):
        getattr(ad, name)(3.0)


def test_transforms_that_run_at_once_need_a_function_too():
    with complaint(TypeError, "jvp expects a function"):
        ad.jvp(3.0, (1.0,), (1.0,))
    with complaint(TypeError, "vjp expects a function"):
        ad.vjp(3.0, 1.0)
    with complaint(TypeError, "linearize expects a function"):
        ad.linearize(3.0, 1.0)
    with complaint(TypeError, "at least one argument"):
        ad.vjp(np.sin)


@pytest.mark.parametrize("rounding", [lambda y: round(y, 3), lambda y: np.round(y, 3), lambda y: y.round(2), anp.around])
@pytest.mark.parametrize("transform", [ad.grad, ad.derivative, lambda f: ad.jit(ad.grad(f)), lambda f: ad.grad(ad.jit(f))])
def test_a_result_that_is_rounded_for_print_is_constant_with_a_warning(rounding, transform):
    f = lambda x: rounding(np.sin(x))
    digits = rounding is not anp.around  # which rounds to integers here: a step function, as written
    with (
        pytest.warns(RuntimeWarning, match=r"constant to \w+, with derivative 0: it was rounded to \d decimals \(test_arg")
        if digits
        else nullcontext()
    ):
        assert transform(f)(1.0) == 0.0


def test_values_that_are_rounded_aside_do_not_warn():
    assert ad.grad(lambda x: x * (2.0 if round(x, 3) > 0 else 1.0))(1.0) == 2.0
    assert ad.grad(lambda x: x * round(x, 1))(1.52) == 1.5
    with pytest.warns(RuntimeWarning, match="rounded"):
        ad.grad(lambda x: round(x, 2))(1.0)
    assert ad.grad(lambda x: 1.0)(1.0) == 0.0  # an earlier call has rounded
