"""Classes as arguments of transforms: dataclasses, attrs classes, pydantic models and registered classes, with static fields."""

import dataclasses
import enum
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

W = np.array([1.0, 2.0])


@dataclass
class Plain:
    w: np.ndarray
    name: str
    n: int
    act: Callable
    b: Any = 0.5


@dataclass(frozen=True, slots=True)
class Frozen:
    w: np.ndarray
    name: str
    n: int
    act: Callable
    b: Any = 0.5


class Registered:
    def __init__(self, w, name, n, act, b=0.5):
        self.w, self.name, self.n, self.act, self.b = w, name, n, act, b


ad.register_container(
    Registered, lambda r: ((r.w, r.b), (r.name, r.n, r.act)), lambda static, parts: Registered(parts[0], *static, parts[1])
)


def attrs_class():
    attrs = pytest.importorskip("attrs")
    return attrs.make_class("Attrs", {"w": attrs.field(), "name": attrs.field(), "n": attrs.field(), "act": attrs.field()} | {
        "b": attrs.field(default=0.5)
    }, frozen=True)  # fmt: skip


def pydantic_class():
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    options = {"w": (np.ndarray, ...), "name": (str, ...), "n": (int, ...), "act": (Callable, ...), "b": (Any, 0.5)}
    return pydantic.create_model("Model", __config__=config, **options)


KINDS = {
    "dataclass": lambda: Plain,
    "frozen dataclass": lambda: Frozen,
    "registered": lambda: Registered,
    "attrs": attrs_class,
    "pydantic": pydantic_class,
}


@pytest.fixture(params=KINDS, scope="module")
def cls(request):
    return KINDS[request.param]()


def changed(m, w):
    """A copy with another w, made without the validation of pydantic, which takes no traced values."""
    if hasattr(m, "model_copy"):
        return m.model_copy(update={"w": w})
    return type(m)(w=w, name=m.name, n=m.n, act=m.act, b=m.b)


def loss(m):
    y = m.w
    for _ in range(m.n):
        y = m.act(y)
    if m.name == "squared":
        y = y**2
    return np.sum(y) + 3.0 * m.b


def step(m, x):
    return changed(m, 0.9 * m.w + x * m.n), loss(m)


def made(cls, w=W, **parts):
    return cls(**{"w": w, "name": "squared", "n": 2, "act": np.sin} | parts)


SLOPE = 2 * np.sin(np.sin(W)) * np.cos(np.sin(W)) * np.cos(W)


def test_gradients_keep_the_static_fields(cls):
    m = made(cls)
    for g in (ad.grad(loss)(m), ad.jit(ad.grad(loss))(m), ad.vjp(loss, m)[1](1.0)[0], ad.graph(ad.grad(loss))(m)(m)):
        assert type(g) is cls
        np.testing.assert_allclose(g.w, SLOPE)
        assert (g.b, g.name, g.n, g.act) == (3.0, "squared", 2, np.sin)
    np.testing.assert_allclose(ad.jvp(loss, (m,), (ad.grad(loss)(m),))[1], SLOPE @ SLOPE + 9.0)
    np.testing.assert_allclose(ad.linearize(loss, m)[1](m), SLOPE @ W + 1.5)
    np.testing.assert_allclose(ad.grad(lambda m: ad.checkpoint(loss)(m))(m).w, SLOPE)
    assert m.w is W


def test_arrays_in_fields_are_not_written_to(cls):
    if cls is Registered:
        pytest.skip("a registered class says nothing of its attributes")
    m = made(cls, W.copy())

    def f(x, m):
        m.w[...] = 0.0
        return x * m.n

    assert ad.grad(f)(3.0, m) == 2.0
    np.testing.assert_array_equal(m.w, W)


def test_the_static_fields_of_a_tangent_do_not_matter(cls):
    m = made(cls)
    tangent = changed(m, W) if hasattr(m, "model_copy") else cls(w=W, name=None, n=7, act=None, b=1.0)
    wanted = SLOPE @ W + 3.0 * tangent.b
    np.testing.assert_allclose(ad.jvp(loss, (m,), (tangent,))[1], wanted)


def test_a_program_for_each_static_part(cls):
    f = ad.jit(loss)
    for parts in ({}, {"n": 3}, {"name": "plain"}, {}, {"n": 3}):
        for w in (W, 3 * W):
            m = made(cls, w, **parts)
            np.testing.assert_allclose(f(m), loss(m))
    assert len(f.specializations) == 3
    several = [made(cls, act=act) for act in (np.cos, np.tanh, np.exp, np.arctan)]
    with pytest.warns(CompileWarning, match="has another value, which is a static part of an argument"):
        values = [f(m) for m in several]
    np.testing.assert_allclose(values, [loss(m) for m in several])


def test_the_warning_names_the_field():
    f = ad.jit(lambda m, x: m.n * x)
    with pytest.warns(CompileWarning, match="because m_n has another value"):
        [f(made(Plain, n=n), 2.0) for n in range(4)]


def test_batches(cls):
    several = made(cls, np.stack([W, 2 * W, 3 * W]), b=np.array([0.1, 0.2, 0.3]))
    ones = [made(cls, w, b=b) for w, b in zip(several.w, several.b, strict=True)]
    np.testing.assert_allclose(ad.vmap(loss)(several), [loss(m) for m in ones])
    g = ad.vmap(ad.grad(loss))(several)
    np.testing.assert_allclose(g.w, [ad.grad(loss)(m).w for m in ones])
    assert g.name == "squared"
    np.testing.assert_allclose(ad.jit(ad.vmap(ad.grad(loss)))(several).w, g.w)


def test_axes_in_a_container():
    several = made(Plain, np.stack([W, 2 * W]))
    axes = Plain(0, None, None, None, None)
    np.testing.assert_allclose(ad.vmap(loss, in_axes=(axes,))(several), [loss(made(Plain, k * W)) for k in (1, 2)])


def test_loops(cls):
    m, xs = made(cls), np.arange(3.0)

    def by_hand(m):
        ys = []
        for x in xs:
            m, y = step(m, x)
            ys.append(y)
        return m, np.stack(ys)

    last, ys = ad.scan(step, m, xs)
    wanted, wanted_ys = by_hand(m)
    np.testing.assert_allclose(last.w, wanted.w)
    np.testing.assert_allclose(ys, wanted_ys)
    assert (last.name, last.n) == ("squared", 2)
    for f in (lambda m: np.sum(ad.scan(step, m, xs)[1]), lambda m: np.sum(by_hand(m)[1])):
        for transform in (ad.grad, lambda f: ad.jit(ad.grad(f))):
            np.testing.assert_allclose(transform(f)(m).w, ad.grad(lambda m: np.sum(by_hand(m)[1]))(m).w)
    counted = ad.fori_loop(0, 3, lambda i, c: step(c, 1.0)[0], m)
    asked = ad.while_loop(lambda c: np.sum(c.w) < 10.0, lambda c: step(c, 1.0)[0], m)
    assert type(counted) is type(asked) is cls
    np.testing.assert_allclose(ad.cond(W[0] > 5, lambda c: c, lambda c: step(c, 1.0)[0], m).w, 0.9 * W + 2)


def test_a_static_field_cannot_change_in_a_loop():
    with pytest.raises(ad.AdjointError, match=r"static field cannot change.*metadata"):
        ad.scan(lambda c, x: (dataclasses.replace(c, n=c.n + 1), x), made(Plain), np.arange(3.0))


@dataclass
class Counter:
    x: float
    count: int = field(default=0, metadata={"static": False})
    rate: float = field(default=0.1, metadata={"static": True})


def test_declared_fields():
    last, _ = ad.scan(lambda c, x: (Counter(c.x + c.rate * x, c.count + 1, c.rate), None), Counter(0.0), np.ones(5))
    assert (last.x, last.count, last.rate) == (0.5, 5, 0.1)
    with pytest.raises(ad.AdjointError, match=r"argument 0\.count is int"):
        ad.grad(lambda c: c.x * c.count)(Counter(1.0))
    f = ad.jit(lambda c: c.x * c.count)
    assert [f(Counter(2.0, n)) for n in (1, 2, 3)] == [2.0, 4.0, 6.0]
    assert len(f.specializations) == 1


class Kind(enum.Enum):
    A = 1


@dataclass
class Nested:
    layers: list
    sizes: tuple
    options: dict
    kind: Kind = Kind.A
    nothing: None = None
    names: Any = None


def test_containers_within_fields():
    m = Nested([made(Plain), made(Frozen, 2 * W)], (3, 4), {"rate": 0.5, "mode": "fast"}, names=np.array(["a", "b"]))

    def f(m):
        assert m.options["mode"] == "fast"
        assert m.kind is Kind.A
        assert m.names[0] == "a"
        return sum(loss(layer) for layer in m.layers) * m.options["rate"] * m.sizes[1]

    for g in (ad.grad(f)(m), ad.jit(ad.grad(f))(m)):
        np.testing.assert_allclose(g.layers[0].w, 2 * SLOPE)
        np.testing.assert_allclose(g.options["rate"], f(m) / 0.5)
        assert g.options["mode"] == "fast"
        assert (g.sizes, g.kind) == ((3, 4), Kind.A)
        assert type(g.layers[1]) is Frozen


@dataclass
class Declared:
    w: float
    b: "np.ndarray | None" = None
    f: Callable[[float], float] = abs
    n: "int | float" = 1


def test_a_whole_number_where_a_float_is_declared_is_refused():
    with pytest.raises(ad.AdjointError, match=r"argument 0\.w is int; write 2\.0"):
        ad.grad(lambda d: d.w**2)(Declared(2))
    with pytest.raises(ad.AdjointError, match=r"argument 0\.b is int64"):
        ad.grad(lambda d: d.w**2)(Declared(2.0, np.array([1, 2])))
    assert ad.grad(lambda d: d.f(d.w) ** 2 * d.n)(Declared(2.0)).w == 4.0


def test_nothing_to_differentiate():
    with pytest.raises(ad.AdjointError, match="argument 0 has none in its fields"):
        ad.grad(lambda m: 1.0 * m.sizes[0])(Nested([], (3, 4), {}))


def test_results():
    @dataclass
    class Result:
        value: Any
        converged: bool
        message: str

    f = lambda x: Result(x**2, True, "fine")
    assert ad.jit(f)(3.0) == Result(9.0, True, "fine")
    assert ad.jvp(f, (3.0,), (1.0,))[1] == Result(6.0, True, "fine")
    assert ad.vjp(f, 3.0)[1](Result(1.0, None, None))[0] == 6.0
    np.testing.assert_array_equal(ad.vmap(f)(W).value, W**2)


def test_unhashable_static_parts_are_compared_by_identity():
    class Odd:
        __hash__ = None

    odd = Odd()
    f = ad.jit(lambda m: np.sum(m.w))
    for part in (odd, odd, Odd(), odd):
        f(made(Plain, name=part))
    assert len(f.specializations) == 2


def test_pickling():
    m = made(Plain)
    _, pull = pickle.loads(pickle.dumps(ad.vjp(loss, m)))
    np.testing.assert_allclose(pull(1.0)[0].w, SLOPE)
    assert pull(1.0)[0].name == "squared"


def test_registered_classes():
    class Mine:
        pass

    with pytest.raises(ad.AdjointError, match="float"):
        ad.grad(lambda m: 1.0)(Mine())
    ad.register_container(Mine, lambda m: [m.x], lambda static, parts: Mine())
    m = Mine()
    m.x = 1.0
    with pytest.raises(ad.AdjointError, match=r"must return \(children, static part\)"):
        ad.grad(lambda m: m.x)(m)
    for wrong in (list, float, np.ndarray, "text"):
        with pytest.raises(ad.AdjointError, match="register"):
            ad.register_container(wrong, None, None)


def test_a_registered_class_may_be_a_kind_of_dict():
    class Table(dict):
        pass

    ad.register_container(Table, lambda t: ((t["x"],), t["unit"]), lambda unit, parts: Table(x=parts[0], unit=unit))
    g = ad.grad(lambda t: t["x"] ** 2 if t["unit"] == "m" else 0.0)(Table(x=3.0, unit="m"))
    assert g == Table(x=6.0, unit="m")
    assert type(g) is Table
