"""Decisions by type(x) inside a transform: those of the function itself, or an error that names the line."""

import collections
import dataclasses
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import ConversionError
from adjoint.core.type_decisions import decisions
from adjoint.staging.type_decisions import line_of_decision

TABLE = {np.ndarray: 2.0, np.float64: 2.0, float: 2.0}
CLASSES = set(TABLE)


class Kind:
    def __init__(self, x):
        self.is_number = type(x) in CLASSES


class Dense:
    rate = 2.0

    def __init__(self, x=0.0):
        self.x = x

    def __call__(self, x):
        return x * type(self).rate * len(f"{type(self).__name__}")

    def copy(self):
        made = type(self)
        return made(x=1.0)


def is_number(x):
    return type(x) is np.ndarray or type(x) is np.float64 or type(x) is float


def by_variable(x):
    kind = type(x)
    return 2.0 if kind is np.ndarray or kind is np.float64 or kind is float else 3.0


def in_a_branch(x):
    if np.sum(x) > 100:
        return 7.0
    return 2.0 if is_number(x) else 3.0


#: A factor that is 2 for numbers and arrays, and another for a tracer.
DECISIONS = {
    "is": lambda x: 2.0 if type(x) is np.ndarray or type(x) is np.float64 or type(x) is float else 3.0,
    "is not": lambda x: 3.0 if type(x) is not np.ndarray and type(x) is not np.float64 and type(x) is not float else 2.0,
    "variable": by_variable,
    "set": lambda x: 2.0 if type(x) in CLASSES else 3.0,
    "table": lambda x: TABLE.get(type(x), 3.0),
    "subclass": lambda x: 2.0 if issubclass(type(x), (float, np.ndarray)) else 3.0,
    "name": lambda x: 3.0 if type(x).__name__ == "Traced" else 2.0,
    "part of a name": lambda x: 2.0 if "a" in type(x).__name__ and "T" not in type(x).__name__ else 3.0,
    "module": lambda x: {"numpy": 2.0, "builtins": 2.0}.get(type(x).__module__, 3.0),
    "helper": lambda x: 2.0 if is_number(x) else 3.0,
    "inner function": lambda x: (lambda y: 2.0 if is_number(y) else 3.0)(x),
    "comprehension": lambda x: 2.0 if any(type(y) in CLASSES for y in [x]) else 3.0,
    "map": lambda x: 2.0 if any(t in CLASSES for t in map(type, [x])) else 3.0,
    "class": lambda x: 2.0 if Kind(x).is_number else 3.0,
    "branch": in_a_branch,
    "reversed": lambda x: 2.0 if np.ndarray is type(x) or np.float64 is type(x) or float is type(x) else 3.0,
    "display of a set": lambda x: 2.0 if type(x) in {np.ndarray, np.float64, float} else 3.0,
}
ARGUMENTS = {
    "float": 1.5,
    "scalar": np.float64(0.5),
    "vector": np.array([0.3, 0.4]),
    "matrix": np.asfortranarray([[0.3, 0.4], [0.5, 1.0]]),
    "view": np.linspace(0, 1, 6)[::2],
}
TRANSFORMS = {
    "grad": ad.grad,
    "value_and_grad": ad.value_and_grad,
    "grad of grad": lambda f: ad.grad(lambda x: np.sum(ad.grad(f)(x) * x)),
    "hvp": lambda f: lambda x: ad.hvp(f)(x, np.ones_like(x)),
    "jacfwd": ad.jacfwd,
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (np.ones_like(x)[()],)),
    "vjp": lambda f: lambda x: ad.vjp(f, x)[1](1.0),
    "linearize": lambda f: lambda x: ad.linearize(f, x)[1](np.ones_like(x)[()]),
    "jit of grad": lambda f: ad.jit(ad.grad(f)),
    "grad of jit": lambda f: ad.grad(ad.jit(f)),
    "vmap of grad": lambda f: lambda x: ad.vmap(ad.grad(f))(np.stack([x, 2 * x])),
    "trace": lambda f: lambda x: ad.trace(f)(x).evaluation.result(),
}


NOT_COPIED = {"class"}  # code of a class that the function instantiates


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_that_of_the_function(name, argument):
    x, factor = ARGUMENTS[argument], DECISIONS[name]
    f, right = lambda x: factor(x) * np.sum(x * x), lambda x: 2.0 * np.sum(x * x)
    assert f(x) == right(x)
    for transform, of in TRANSFORMS.items():
        found = result(of(f), x)
        if name in NOT_COPIED and isinstance(found, ConversionError):
            assert all(part in str(found) for part in ("type()", "test_type_decisions.py:", "isinstance")), transform
            continue
        for a, b in zip(flat(found), flat(of(right)(x)), strict=True):
            np.testing.assert_allclose(a, b, err_msg=transform)


def result(run, *args):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            return run(*args)
    except ad.AdjointError as error:
        return error


def flat(x):
    return [z for y in x for z in flat(y)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("name", [name for name in DECISIONS if name != "branch"])  # on numbers, which graphs do not have
def test_examples_of_a_batch_and_bodies(name):
    factor, x = DECISIONS[name], np.array([0.3, 0.4])
    f = lambda x: factor(x) * np.sum(x * x)
    for run, expected in (
        (lambda: ad.vmap(f)(np.stack([x, 2 * x])), [0.5, 2.0]),
        (lambda: ad.graph(f)(x)(x), 0.5),
        (lambda: ad.scan(lambda c, v: (c + f(v), None), 0.0, np.stack([x, 2 * x]))[0], 2.5),
        (lambda: ad.grad(lambda x: ad.scan(lambda c, _: (c + f(x), None), 0.0, None, length=2)[0])(x), 8 * x),
        (lambda: ad.grad(ad.checkpoint(f))(x), 4 * x),
    ):
        found = result(run)
        if name in NOT_COPIED and isinstance(found, ad.AdjointError):
            assert "type() of a traced value" in str(found) or "checkpoint" in str(found)
        else:
            np.testing.assert_allclose(found, expected)


def test_two_formulas_that_agree_at_the_point():
    assert ad.grad(lambda x: x * x if type(x) is float else x)(1.0) == 2.0


def test_a_decision_taken_at_later_calls_only():
    f = lambda x: x if x < 0 else x * 2 if type(x) is float else x * 3
    g = ad.grad(f)
    assert g(-1.0) == 1.0
    assert g(1.0) == 2.0


@pytest.mark.parametrize("name", sorted(DECISIONS.keys() - NOT_COPIED))
def test_a_function_that_decides_runs_once(name):
    factor, calls = DECISIONS[name], []
    assert ad.grad(lambda x: (calls.append(1) or factor(x)) * x * x)(1.5) == 6.0
    assert len(calls) == 1


class Layer:
    """Methods, properties and comparisons of classes, as users write them."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.apply(x) if type(x) is not str else x

    def apply(self, x):
        return (self.scale if type(x) in (float, np.float64, np.ndarray) else 100.0) * x

    @property
    def own(self):
        return 1.0 if type(self) is Layer else 50.0

    @staticmethod
    def fixed(x):
        return x * 2.0 if type(x) is float else x

    @classmethod
    def made(cls, x):
        return cls(2.0).scale * x if type(x) == float else x  # noqa: E721

    def __eq__(self, other):
        return type(other) is type(self) and other.__class__ is self.__class__ and other.scale == self.scale

    __hash__ = None


class Wide(Layer):
    def apply(self, x):
        return super().apply(x) * (2.0 if type(self) is Wide else 30.0)


layer, wide, twin = Layer(3.0), Wide(3.0), Layer(3.0)


def test_methods_decide_as_they_do_elsewhere():
    functions = {
        "call": lambda x: layer(x),
        "method": lambda x: layer.apply(x),
        "inherited": lambda x: wide(x) * wide.own,
        "property": lambda x: layer.own * x if type(x) is float else 0.0,
        "static": lambda x: layer.fixed(x),
        "class method": lambda x: layer.made(x),
        "equal": lambda x: x * (2.0 if layer == twin and twin == layer and layer != wide else 3.0),
        "classes": lambda x: x * (2.0 if type(layer) is type(twin) and type(wide) is Wide and isinstance(layer, Layer) else 3.0),
        "bound": layer.apply,
        "map": lambda x: sum(map(layer.apply, [x, x])),
    }
    for name, f in functions.items():
        assert ad.grad(f)(1.5) == f(1.5) / 1.5, name
        assert ad.jvp(f, (1.5,), (1.0,))[1] == f(1.5) / 1.5, name
    assert vars(layer) == {"scale": 3.0}
    assert type(layer) is Layer


def test_attributes_that_a_method_sets_are_those_of_the_object():
    class Counter:
        def __init__(self):
            self.count, self.last = 0, None

        def __call__(self, x):
            self.count += 1
            self.last = type(x).__name__ if type(x) is float else "?"
            return x * self.count

    counter = Counter()
    assert [ad.grad(lambda x: counter(x))(1.0) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert vars(counter) == {"count": 3, "last": "float"}


total = 0.0


def test_a_global_statement_writes_to_the_module():
    def f(x):
        global total
        total += 1.0
        return x * x if type(x) is float else x

    before = total
    assert ad.grad(f)(3.0) == 6.0
    assert total == before + 1.0


CODE_THAT_IS_NOT_COPIED = {
    "list": [lambda x: x * x if type(x) is float else x],
    "dict": {0: lambda x: x * x if type(x) is float else x},
    "compared": [lambda x: x * x if type(x) == float else x],  # noqa: E721
}


@pytest.mark.parametrize("name", CODE_THAT_IS_NOT_COPIED)
def test_code_in_containers_raises_where_it_decides_otherwise(name):
    table = CODE_THAT_IS_NOT_COPIED[name]
    for x in (3.0, 1.0):  # at 1.0 both formulas agree
        with pytest.raises(ConversionError, match="isinstance"):
            ad.grad(lambda x: table[0](x))(x)


@pytest.mark.parametrize("nested", [ad.grad, ad.jacfwd, lambda f: lambda x: ad.vmap(f)(np.stack([x, x]))[0]])
def test_transforms_inside_a_function_that_decides(nested):
    def f(x):
        return x**3 if type(x) is float else x**2

    def outer(x):
        return nested(f)(x) * (1.0 if type(x) is float else 2.0)

    np.testing.assert_allclose(ad.grad(outer)(2.0), ad.finite_difference(outer, 2.0), rtol=1e-6)


@pytest.mark.parametrize("first", [lambda x: 2.0, None], ids=["another", "none"])
def test_a_helper_that_is_replaced_later(first):
    """Or one that did not exist: the first call takes another branch."""
    scope = {"__name__": "a_module", "exists": first is not None}
    if first is not None:
        scope["helper"] = first
    f = types.FunctionType((lambda x: x * helper(x) if exists else x * 2.0).__code__, scope)  # noqa: F821
    g = ad.grad(f)
    assert g(3.0) == 2.0
    scope["helper"], scope["exists"] = lambda x: 5.0 if type(x) is float else 3.0, True
    assert g(3.0) == 5.0
    scope["helper"] = lambda x: 7.0
    assert g(3.0) == 7.0


@dataclasses.dataclass
class Config:
    weights: np.ndarray


class Undecided:
    def __eq__(self, other):
        raise TypeError("not to be compared")


@pytest.mark.parametrize(
    "held", [lambda: Config(np.ones(3)), lambda: Undecided(), lambda: np.ma.ones(3), lambda: types.SimpleNamespace(a=1)]
)
@pytest.mark.parametrize("way", ["closure", "default", "keyword", "global"])
def test_objects_that_a_function_holds_are_told_by_identity(held, way):
    """They are not compared by `==`, which may raise, give an array, or take two objects for one."""
    scope = {}
    kinds = {"closure": "def made(c):\n    def f(x): return x * helper(c, x)\n    return f"}
    kinds["default"] = "def made(c):\n    def f(x, c=c): return x * helper(c, x)\n    return f"
    kinds["keyword"] = "def made(c):\n    def f(x, *, c=c): return x * helper(c, x)\n    return f"
    kinds["global"] = "def made(new):\n    global c\n    c = new\n    def f(x): return x * helper(c, x)\n    return f"
    exec(kinds[way], scope)
    scope["helper"] = lambda c, x: 2.0
    for c in (held(), held(), held()):
        assert ad.grad(scope["made"](c))(3.0) == 2.0


def test_draws_are_repeated_and_the_stream_continues():
    generator = np.random.default_rng(1)

    def f(x):
        return x * generator.normal() * (1.0 if type(x) is Dense or type(x) is int or by_variable(1.0) == 2.0 else 2.0)

    slopes = [ad.grad(f)(1.0) for _ in range(3)]
    np.testing.assert_array_equal(slopes, np.random.default_rng(1).normal(size=3))


HARMLESS = {
    "other class": lambda x: x * (3.0 if type(x) is Dense else 1.0),
    "list": lambda x: x * (3.0 if type(x) is list or type(x) is dict or type(x) is type(None) else 1.0),
    "equal": lambda x: x * (3.0 if type(x) == str else 1.0),  # noqa: E721
    "in": lambda x: x * (3.0 if type(x) in (list, tuple, collections.OrderedDict) else 1.0),
    "not in": lambda x: x * (1.0 if type(x) not in [dict, Dense] else 3.0),
    "self": Dense(),
    "text": lambda x: x if isinstance(x, object) else f"{type(x).__name__!r}, {type(x).__name__}",
    "call": lambda x: x * type(Dense())(3.0).rate,
    "attribute": lambda x: x * type(Dense()).rate,
    "without": lambda x: np.sin(x) if isinstance(x, float) else x,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_depends_on_no_traced_class_runs_once(name):
    f = HARMLESS[name]
    assert not decisions(f if isinstance(f, types.FunctionType) else type(f).__call__) or name == "list"  # type(None) is a call
    calls = []
    ad.grad(lambda x: calls.append(1) or f(x))(2.0)
    assert len(calls) == 1


def test_code_of_installed_packages_counts_where_it_names_a_traced_class():
    import pluggy  # installed beside pytest

    def made(source):
        scope = {"__name__": pluggy.__name__, "np": np}
        exec(compile(source, "package.py", "exec"), scope)
        return scope["f"]

    assert line_of_decision(made("def f(x):\n    kind = type(x)\n    return kind is float")) is None
    assert line_of_decision(made("def f(x):\n    return type(x) is np.ndarray")) == "package.py:2"


MEMBERSHIPS = {
    "in": lambda x: x * (2.0 if type(x) in (float, int) else 3.0),
    "not in": lambda x: x * (3.0 if type(x) not in (list, np.float64, float) else 2.0),
}


@pytest.mark.parametrize("f", MEMBERSHIPS.values(), ids=MEMBERSHIPS)
@pytest.mark.parametrize("transform", [ad.grad, ad.value_and_grad, lambda f: lambda x: ad.jvp(f, (x,), (1.0,))])
def test_membership_in_a_tuple_of_classes_of_numbers(f, transform):
    assert transform(f)(1.5) == transform(lambda x: x * 2.0)(1.5)


class Untouched:
    """An object with a factor, which only the function itself may look at more closely."""

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        raise AssertionError("compared")

    __ne__ = __lt__ = __eq__

    def __bool__(self):
        raise AssertionError("tested")

    def __len__(self):
        raise AssertionError("measured")

    def __hash__(self):
        raise AssertionError("hashed")


class Elementwise(Untouched):
    """Its comparison is another such object, as that of a Series is a Series."""

    def __eq__(self, other):
        return Elementwise(0.0)

    __hash__ = None


def in_a_closure(held):
    return lambda x: np.sum(np.sin(x) * held.factor)


def in_a_default(held):
    return lambda x, held=held: np.sum(np.sin(x) * held.factor)


def in_a_keyword(held):
    def f(x, *, held=held):
        return np.sum(np.sin(x) * held.factor)

    return f


def in_a_helper(held):
    helper = lambda x: np.sin(x) * held.factor
    return lambda x: np.sum(helper(x))


def in_a_list(held):
    held = [held]
    return lambda x: np.sum(np.sin(x) * held[0].factor)


def in_a_method(held):
    class Model:
        def __init__(self):
            self.held = held

        def value(self, x):
            return np.sum(np.sin(x) * self.held.factor)

    return Model().value


@pytest.mark.parametrize(
    "kind", [Untouched, Elementwise, lambda factor: pd.Series({"factor": factor})], ids=["none", "array", "series"]
)
@pytest.mark.parametrize("place", [in_a_closure, in_a_default, in_a_keyword, in_a_helper, in_a_list, in_a_method])
@pytest.mark.parametrize(
    "derivative",
    [
        ad.grad,
        lambda f: lambda x: ad.vjp(f, x)[1](1.0)[0],
        lambda f: lambda x: np.diag(ad.jacobian(lambda y: f(y) + 0 * y)(x)),
        lambda f: lambda x: ad.vmap(lambda y: ad.grad(f)(x) + y)(0 * x)[0],
        lambda f: ad.jit(ad.grad(f)),
        lambda f: ad.grad(ad.checkpoint(f)),
    ],
    ids=["grad", "vjp", "jacobian", "vmap", "jit", "checkpoint"],
)
def test_objects_that_a_function_holds_are_not_compared(kind, place, derivative):
    """One after another, in functions of the same code: each sees its own."""
    x = np.array([0.5, 1.0])
    factors = (2.0, 3.0, 2.0)
    objects = [kind(factor) for factor in factors]  # all of them alive
    for factor, held in zip(factors, objects, strict=True):
        f = derivative(place(held))
        for _ in range(2):
            np.testing.assert_allclose(f(x), factor * np.cos(x))
