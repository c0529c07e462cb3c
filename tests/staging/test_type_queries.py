"""type(x) and x is y, which a traced value cannot answer by itself; and arguments, which never change."""

import copy
import functools
import numbers
import operator
import sys
import typing
import warnings
from collections.abc import Container, Hashable, Iterable, Sequence, Sized

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.compiler.specialization import Specialization
from adjoint.staging import type_queries
from adjoint.staging.type_queries import compares_identity


def is_array(x):
    return type(x) is np.ndarray


class Kind:
    """What is made inside a function is not copied when that is staged."""

    def __init__(self, x):
        self.is_array = type(x) is np.ndarray


class Model:
    scale = 2.0

    def __call__(self, x):
        return x * len(type(self).__name__) * self.scale


FUNCTIONS = {
    "equal": lambda x: x * 2 if type(x) == float else x * 3,  # noqa: E721
    "is": lambda x: x * 2 if type(x) is np.ndarray else x * 3,
    "in": lambda x: x * 2 if type(x) in (float, np.float64, np.ndarray) else x * 3,
    "helper": lambda x: x * 2 if is_array(x) else x * 3,
    "table": lambda x: {float: x * 2, np.ndarray: x * 4}.get(type(x), x * 3),
    "object": lambda x: x * 2 if Kind(x).is_array else x * 3,
    "name": lambda x: x * len(type(x).__name__),
    "inside": lambda x: (lambda y: x * 2 if type(y) is float else x * 3)(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", [1.5, np.float64(1.5), np.ones(2)], ids=str)
def test_type(name, x):
    f = FUNCTIONS[name]
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), f(x))


def test_the_warning_names_the_line():
    with pytest.warns(CompileWarning, match=r"type\(\) .*test_type_queries.py:\d+"):
        ad.jit(FUNCTIONS["object"])(np.ones(2))


def test_types_of_other_things_do_not_matter():
    f = ad.jit(Model())
    np.testing.assert_array_equal(f(np.ones(2)), [10.0, 10.0])
    assert not f.eager


@pytest.mark.parametrize("lines", [1, 3000])
def test_the_instructions_of_a_function_without_is_are_not_read(monkeypatch, lines):
    """Reading those of a long function takes as long as the rest of a first call of a short one."""
    read = []
    monkeypatch.setattr(type_queries.dis, "get_instructions", lambda code: read.append(code) or iter(()))
    space = {"np": np, "__name__": "lines_of_this_test"}
    exec("def f(x):\n" + "    x = np.sin(x) + 1.0\n" * lines + "    return x\n", space)
    assert not compares_identity(space["f"])
    assert not read


def test_identity():
    def f(x, y):
        return x * 2 if x is y else x * 3

    a, b = np.ones(2), np.ones(2)
    compiled = ad.jit(f)
    for _ in range(2):
        for pair in ((a, b), (a, a), (b, b), (b, a)):
            np.testing.assert_array_equal(compiled(*pair), f(*pair))
    assert ad.jit(lambda x, y=None: x if y is None else y)(a)[0] == 1.0


class Holder:
    pass


def _attribute(x, y):
    held = Holder()
    held.x = x
    return x * 2 if held.x is y else x * 3


def _counted(x, y):
    n = 0
    for a in (x, y):
        for b in (x, y):
            n += a is b
    return x * n


IDENTITY = {
    "is": lambda x, y: x * 2 if x is y else x * 3,
    "is not": lambda x, y: x * 2 if x is not y else x * 3,
    "closure": lambda x, y: (lambda: x * 2 if x is y else x * 3)(),
    "comprehension": lambda x, y: sum([x * 2 if x is v else x * 3 for v in (y,)]),
    "generator": lambda x, y: x * 2 if any(x is v for v in (y, 1)) else x * 3,
    "items": lambda x, y: (lambda p: x * 2 if p[0] is p[1] else x * 3)((x, y)),
    "entries": lambda x, y: (lambda p: x * 2 if p["a"] is p["b"] else x * 3)({"a": x, "b": y}),
    "star": lambda *a: a[0] * 2 if a[0] is a[1] else a[0] * 3,
    "walrus": lambda x, y: x * 2 if (z := x) is y else x * 3,  # noqa: F841
    "choice": lambda x, y: x * 2 if (x if x is not None else y) is y else x * 3,
    "attribute": _attribute,
    "loop": _counted,
    "id": lambda x, y: x * 2 if id(x) == id(y) else x * 3,
    "operator": lambda x, y: x * 2 if operator.is_(x, y) else x * 3,
}


@pytest.mark.parametrize("name", IDENTITY)
def test_identity_however_it_is_written(name):
    """The instructions differ from one version of Python to the next: newer ones load two variables at a time."""
    f = IDENTITY[name]
    a, b = np.ones(2), np.ones(2)
    for calls in (((a, b), (a, a), (b, a)), ((a, a), (a, b), (b, b))):
        compiled = ad.jit(f)
        for pair in calls:
            np.testing.assert_array_equal(compiled(*pair), f(*pair))


class Doubled:
    def __init__(self, x):
        self.x = x * 2 if type(x) is np.ndarray else x * 3


@pytest.mark.parametrize("first", [np.zeros(2), np.array([0.0, -0.0])])
def test_a_wrong_branch_shows_at_zeros_too(first):
    """The methods of a class that the function instantiates see the tracer; at 0 both branches give 0."""
    compiled = ad.jit(lambda x: Doubled(x).x)
    with pytest.warns(CompileWarning, match=r"type\(\)"):
        compiled(first)
    np.testing.assert_array_equal(compiled(np.ones(2)), [2.0, 2.0])


OUTSIDE = np.ones(2)
LOCKED = np.ones(2)
LOCKED.flags.writeable = False


def _outside():
    """Functions that compare their argument with an array outside, which is returned with each."""
    held, cell = Holder(), np.ones(2)
    held.x, held.items = np.ones(2), [np.zeros(2), np.ones(2)]
    yield OUTSIDE, lambda x: x * 2 if x is OUTSIDE else x * 3
    yield OUTSIDE, lambda x: x * 2 if OUTSIDE is not x else x * 3
    yield OUTSIDE, lambda x: x * 2 + OUTSIDE if x is OUTSIDE else x * 3 - OUTSIDE
    yield LOCKED, lambda x: x * 2 if x is LOCKED else x * 3
    yield cell, lambda x: x * 2 if x is cell else x * 3
    yield held.x, lambda x: x * 2 if x is held.x else x * 3
    yield held.items[1], lambda x: x * 2 if any(x is v for v in held.items) else x * 3
    yield held.items[1], lambda x: sum(v * (3.0 if v is x else 2.0) for v in held.items)


@pytest.mark.parametrize("number", range(len(list(_outside()))))
def test_identity_with_an_outside_array(number):
    array, f = list(_outside())[number]
    for first, second in ((array, array.copy()), (array.copy(), array)):
        compiled = ad.jit(f)
        for x in (first, second, first, second):
            np.testing.assert_array_equal(compiled(x), f(x))
        assert not compiled.eager


@pytest.mark.parametrize("f", [lambda x, y=None: x if y is None else y, lambda x, y=1.0: x * (y is not None)])
def test_identity_with_a_constant_does_not_count(f):
    assert not compares_identity(f)


def _in_place(x):
    x += 1.0
    return x * 2


def _then_fails(x):
    x[0] = 7.0
    return np.linalg.inv(x * 0 + np.eye(2) * x[1, 1])


def _then_not_compiled(x):
    x[0] = 7.0
    with np.errstate(all="raise"):
        return x * 2


def _many_paths(x):
    x -= 1.0
    return x * int(np.sum(x))


@pytest.mark.parametrize("f", [_in_place, _then_fails, _then_not_compiled, _many_paths])
def test_arguments_stay_as_they_are(f):
    """Compiled, and where the function runs eagerly."""
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for k in range(20):
            x = np.full((2, 2), float(k % 19 + 2))
            before = x.copy()
            for values in (x, list(x)) if f is _in_place else (x,):
                if isinstance(values, list):
                    ad.jit(lambda xs: _in_place(xs[0]))(values)
                else:
                    np.testing.assert_allclose(compiled(values), f(values.copy()))
                np.testing.assert_array_equal(x, before)
    singular = np.zeros((2, 2))
    if f is _then_fails:
        with pytest.raises(np.linalg.LinAlgError):
            compiled(singular)
        np.testing.assert_array_equal(singular, 0)


# -- under eager transforms -------------------------------------------------------------------------------------------


@functools.singledispatch
def _dispatched(x):
    return np.sum(x)


@_dispatched.register(float)
def _of_a_number(x):
    return 2.0 * x


@_dispatched.register(np.ndarray)
def _of_an_array(x):
    return 3.0 * np.sum(x)


@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: tuple


def _matched(x):
    match x:
        case float(v):
            return 2.0 * v
        case np.floating():
            return 3.0 * x
        case np.ndarray(shape=(2,)):
            return 7.0 * np.sum(x)
    return np.sum(x)


def _matched_as_sequence(x):
    match x:
        case [a, _]:
            return 5.0 * np.sum(a)
    return np.sum(x)


#: Of a class; NumPy's arrays have it from NumPy 2.5 on.
SEQUENCES_IN_PATTERNS = 1 << 5


def _abstract(x):
    classes = (Sequence, Iterable, Sized, Container, Hashable, typing.SupportsFloat, numbers.Real)
    if sys.version_info < (3, 12):  # later ones look for the members of a runtime protocol past `__class__`
        classes += (Shaped, typing.SupportsIndex)
    return np.sum(x) * sum(2.0**i for i, c in enumerate(classes) if isinstance(x, c))


SEEN = {
    "dispatch": _dispatched,
    "match": _matched,
    "abstract": _abstract,
    **({} if np.ndarray.__flags__ & SEQUENCES_IN_PATTERNS else {"match of a sequence": _matched_as_sequence}),
    "class": lambda x: np.sum(x) * {float: 2.0, np.float64: 3.0, np.ndarray: 5.0}.get(x.__class__, 7.0),
}
EAGER = {
    "vjp": lambda f, x: ad.vjp(f, x)[0],
    "jvp": lambda f, x: ad.jvp(f, (x,), (x,))[0],
    "compiled vjp": lambda f, x: ad.jit(lambda x: ad.vjp(f, x)[0])(x),
}


@pytest.mark.parametrize("transform", EAGER)
@pytest.mark.parametrize("name", SEEN)
def test_the_class_of_the_value_is_seen(name, transform):
    for x in (1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), np.array([1.0, 2.0])):
        assert EAGER[transform](SEEN[name], x) == SEEN[name](x)


@pytest.mark.parametrize("transform", EAGER)
@pytest.mark.parametrize("name", ["equal", "in"])
def test_the_class_is_that_of_the_value(name, transform):
    for x in (1.5, np.ones(2)):
        np.testing.assert_array_equal(EAGER[transform](FUNCTIONS[name], x), FUNCTIONS[name](x))


@pytest.mark.parametrize("name", ["is", "table", "helper"])
def test_a_compiled_transform_decides_as_the_function(name):
    f, x = FUNCTIONS[name], np.ones(2)
    np.testing.assert_array_equal(ad.jit(lambda x: ad.vjp(f, x)[0])(x), f(x))


def test_classes_of_tracers_are_compared_with_each_other_and_with_unrelated_ones():
    f = lambda x, y: x * y * (2.0 if type(x) == type(y) and type(x) != str and type(x) != list else 3.0)  # noqa: E721
    assert ad.vjp(f, 2.0, 3.0)[0] == 12.0
    assert copy.copy(ad.vjp(lambda x: copy.copy(x) * 2, 2.0)[0]) == 4.0


@pytest.mark.parametrize("form", ["vjp", "jvp", "compiled vjp"])
def test_an_array_passed_twice_is_two_variables(form):
    def f(a, b):
        a[0] = 5.0
        return np.sum(b) * (2.0 if a is b else 3.0)

    x = np.array([1.0, 2.0])
    runs = {
        "vjp": lambda: ad.vjp(f, x, x)[1](1.0),
        "jvp": lambda: (0.0 * x, ad.jvp(f, (x, x), (x, np.ones(2)))[1] * np.ones(2) / 2),
        "compiled vjp": lambda: ad.jit(lambda a, b: ad.vjp(f, a, b)[1](1.0))(x, x),
    }
    first, second = runs[form]()
    np.testing.assert_array_equal(first, 0.0)
    np.testing.assert_array_equal(second, 3.0)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: copy.deepcopy({"a": [x]})["a"][0]])
@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.array(2.0)], ids=repr)
def test_numbers_are_copied(copied, x):
    """A float has no `__deepcopy__`, but its stand-in needs one; also after the imperative style has been used."""
    ad.array(1.0)
    assert ad.grad(lambda x: copied(x) * x)(x) == 4.0
    assert ad.jit(lambda x: copied(x) * x)(x) == 4.0


@pytest.mark.parametrize("dtype", ["d", "f"])
def test_results_that_are_all_rounding_are_no_other_branch(dtype):
    """The mean of a binomial distribution is linear: what is left of its second derivative is rounding."""

    def mean(x):
        k = np.arange(5)
        weights = np.array([1, 4, 6, 4, 1], dtype)
        total = np.sum(weights * x[:, None] ** k * (1 - x[:, None]) ** (4 - k) * k.astype(dtype))
        return total if isinstance(total, type) or type(x) is not None else 0.0 * total

    x = np.random.default_rng(1).random(4).astype(dtype)
    curvature = ad.jit(lambda x: ad.jvp(ad.grad(mean), (x,), (np.ones_like(x),))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.max(np.abs(curvature(x))) < 1e4 * np.finfo(dtype).eps
    assert "not compiled" not in curvature.report()


def test_a_value_on_the_edge_of_a_guard_is_not_taken_for_a_wrong_type(monkeypatch):
    """A program that misses its own guards by rounding says nothing about `type`: the call runs eagerly, and says why."""
    f = ad.jit(ad.grad(lambda x: x * 2 if type(x) is not str and x > 0 else x))
    monkeypatch.setattr(Specialization, "run", lambda self, leaves: self.missed)
    with pytest.warns(CompileWarning, match=r"by rounding, .* type\(\)"):
        assert f(1.0) == 2.0
    assert f(1.0) == 2.0


def of_flag(x, flag):
    return x * (2.0 if flag is True else 3.0)


def of_other_flag(x, flag):
    return x * (2.0 if True is not flag else 3.0)


def of_both_flags(x, flag):
    return x * (2.0 if flag is False else 5.0 if flag is True else 3.0)


def of_cases(x, flag):
    match flag:
        case True:
            return x * 2.0
        case False:
            return x * 3.0
    return x


def of_comparison(x, flag):
    """Python's comparisons of Python's numbers give Python's bools."""
    return x * (2.0 if (flag > 0) is True else 3.0)


@pytest.mark.parametrize("f", [of_flag, of_other_flag, of_both_flags, of_cases, of_comparison])
@pytest.mark.parametrize("transform", [ad.jit, lambda f: ad.jit(ad.grad(f)), ad.grad, lambda f: ad.jit(f, static_argnums=1)])
@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
def test_bools_by_identity(f, transform):
    """NumPy's bools are neither True nor False."""
    transformed = transform(f)
    for flag in (True, False, np.True_, True, 1, 0, 1.0, 0.0, False, np.float64(1.0)):
        assert transformed(1.5, flag) in (f(1.5, flag), f(1.0, flag)), flag
        np.testing.assert_array_equal(ad.jit(f)(np.ones(2), flag), f(np.ones(2), flag))


def test_what_is_not_compiled_for_bools_says_so():
    with pytest.warns(CompileWarning, match=r"static_argnames \(test_type_queries.py:\d+\)"):
        assert ad.jit(of_flag)(1.0, True) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.jit(of_flag, static_argnames="flag")(np.ones(1), flag=True) == 2.0
        assert ad.jit(lambda x: of_flag(x, True))(np.ones(1)) == 2.0


@pytest.mark.parametrize("transform", [lambda f: f, ad.grad], ids=["function", "gradient"])
def test_a_comparison_of_python_numbers_is_a_guard_where_its_result_may_be_compared(transform):
    compiled = ad.jit(transform(of_comparison))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for flag in (1.0, 2.0, -1.0, 3.0, -2.0, 0.0):
            assert compiled(1.5, flag) == transform(of_comparison)(1.5, flag)
    assert len(compiled.specializations) == 1


def test_numbers_outside_whose_bools_are_compared():
    rate = 1.0
    compiled = ad.jit(lambda x: of_comparison(x, rate))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rate in (1.0, -1.0, 2.0, -3.0, 4.0):
            assert compiled(np.ones(1)) == of_comparison(1.0, rate)


@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.array(2.0), -2.0])
def test_bools_of_the_variable_by_identity(x):
    def f(x):
        return x * (2.0 if (x > 0) is True else 3.0 if (x > 0) is False else 5.0)

    for transform in (ad.grad, lambda f: ad.jit(ad.grad(f)), lambda f: lambda x: ad.jvp(f, (x,), (np.ones_like(x),))[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert transform(f)(x) == f(x) / x
            assert ad.jit(f)(x) == f(x)
