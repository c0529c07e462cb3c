"""Type checks: a traced value answers as the value that it stands for, compiled and differentiated."""

import functools
import numbers
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Reversible, Sequence, Sized

import numpy as np
import pytest

import adjoint as ad
import adjoint.api.imperative  # which has methods of its own for traced values
import adjoint.numpy as anp
from adjoint.core.bind import Traced
from adjoint.core.errors import UnsupportedError
from adjoint.eager.tape import Tape


def _matched(x):
    match x:
        case float():
            return "float"
        case int():
            return "int"
        case np.ndarray():
            return "array"
    return "none of these"


@functools.singledispatch
def _dispatched(x):
    return "none of these"


_dispatched.register(np.ndarray)(lambda x: "array")
_dispatched.register(np.generic)(lambda x: "scalar")
_dispatched.register(float)(lambda x: "float")
_dispatched.register(int)(lambda x: "int")

CLASSES = (
    *(np.ndarray, anp.ndarray, np.generic, np.floating, np.float64, np.float32, np.integer, np.bool_, float, int, bool, complex),
    *(numbers.Number, numbers.Real, numbers.Integral, numbers.Complex, list, tuple, str, (list, float, np.ndarray)),
    *(Iterable, Sized, Container, Collection, Hashable, Reversible, Sequence, Mapping, Callable),
)
ATTRIBUTES = (
    *(
        "shape",
        "dtype",
        "ndim",
        "size",
        "T",
        "flat",
        "sum",
        "mean",
        "item",
        "tolist",
        "astype",
        "copy",
        "fill",
        "reshape",
        "sort",
        "flags",
        "nbytes",
    ),
    # What classes of other libraries have: units, parameters of a fit, tensors, columns, dual numbers.
    *("value", "values", "magnitude", "layout", "name", "data_ptr", "unit", "columns", "index", "val", "x"),
    *("requires_grad", "grad", "detach", "numpy", "cpu", "backward", "zero_grad", "is_leaf", "primal", "tangent"),
    *("__len__", "__iter__", "__getitem__", "__setitem__", "__contains__", "__array__", "__array_namespace__", "__dlpack__"),
    *("__float__", "__int__", "__index__", "__complex__", "__round__", "__floor__", "is_integer", "as_integer_ratio"),
)
QUESTIONS = {
    **{f"isinstance {cls}": lambda x, cls=cls: isinstance(x, cls) for cls in CLASSES},
    **{f"hasattr {name}": lambda x, name=name: hasattr(x, name) for name in ATTRIBUTES},
    "getattr": lambda x: getattr(x, "shape", None) is None,
    "isscalar": np.isscalar,
    "iterable": np.iterable,
    "class": lambda x: x.__class__,
    "match": _matched,
    "singledispatch": _dispatched,
}
VALUES = (
    *(1.5, 3, True, 2j, np.float64(1.5), np.float32(2), np.int64(3), np.True_, np.array(1.5), np.array(3)),
    *(np.ones(3), np.ones((2, 2), np.float32), np.arange(3), np.zeros((0, 2)), np.ones(2, complex)),
)


def _answers(question, x):
    """What a traced value answers, in each mode that takes such a value."""
    seen = ad.static([])

    def f(x):
        seen.append(question(x))
        return x * 1

    def result(x):
        return x * 2 if question(x) in (True, "array", np.ndarray) else x * 3

    for _ in range(2):  # the second call may take another path
        np.testing.assert_array_equal(ad.jit(result)(x), result(x))
    if np.asarray(x).dtype.kind in "fc":
        ad.jvp(f, (x,), (x * 1,))
        ad.vjp(f, x)
        ad.jvp(lambda x: ad.vjp(f, x)[0], (x,), (x * 1,))
        ad.jit(lambda x: ad.vjp(f, x)[0])(x)
    return seen


@pytest.mark.parametrize("name", QUESTIONS)
def test_as_the_value(name):
    question = QUESTIONS[name]
    for x in VALUES:
        assert all(answer == question(x) for answer in _answers(question, x)), x


def test_attributes_of_our_own_are_few():
    """Any other name that a class may have is that of the value: `x.value if hasattr(x, "value") else x`."""
    classes = (np.ndarray, np.float64, np.int64, np.bool_, np.complex128, float, int, complex, bool)
    named = {name for cls in classes for name in dir(cls)}
    own = {name for name in dir(Traced) if not name.startswith("__")} - named
    of_variables = {
        "backward",
        "detach",
        "grad",
        "grad_fn",
        "is_leaf",
        "numpy",
        "primal",
        "requires_grad",
        "tangent",
        "zero_grad",
    }
    assert own - of_variables <= {"aux", "by", "is_view", "memory_layout", "noted_strides", "underlying", "_value"}


WRAPPED = {
    "hasattr": lambda x, name: (getattr(x, name) if hasattr(x, name) else x) ** 2,
    "getattr": lambda x, name: getattr(x, name, x) ** 2,
    "try": lambda x, name: _or_itself(x, name) ** 2,
    "called": lambda x, name: (getattr(x, name)() if hasattr(x, name) else x) ** 2,
}


def _or_itself(x, name):
    try:
        return getattr(x, name)
    except AttributeError:
        return x


@pytest.mark.parametrize("name", ["value", "layout", "detach", "numpy", "primal", "grad", "tangent", "requires_grad"])
@pytest.mark.parametrize("form", WRAPPED)
def test_a_value_is_not_taken_for_a_wrapper(form, name):
    f = functools.partial(WRAPPED[form], name=name)
    for x in (1.5, np.float64(1.5), np.array(1.5), np.array([1.5, -2.0])):
        for g in (ad.grad(lambda x: np.sum(f(x))), ad.jit(ad.grad(lambda x: np.sum(f(x))))):
            np.testing.assert_array_equal(g(x), 2 * x)
        np.testing.assert_array_equal(ad.jit(f)(x), x**2)
        np.testing.assert_array_equal(ad.jvp(f, (x,), (x * 0 + 1,))[1], 2 * x)
        np.testing.assert_array_equal(ad.vmap(f)(np.stack([x, x])), np.stack([x, x]) ** 2)


OF_MEMORY = ("strides", "base", "data", "ctypes", "tobytes", "getfield", "__array_interface__", "__array_struct__")


@pytest.mark.parametrize("name", OF_MEMORY)
@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
def test_attributes_that_no_traced_value_has(name):
    """A function that continues without one gives the result of plain numbers, or raises."""
    differ = {
        "hasattr": lambda x: np.sum(x * 2 if hasattr(x, name) else x * 3),
        "getattr": lambda x: np.sum(x * 2 if getattr(x, name, 0) != 0 else x * 3),
    }
    x = np.array([1.5, -2.0])
    for f in differ.values():
        for _ in range(2):
            assert ad.jit(f)(x) == f(x)
        for transform in (ad.grad, ad.jacfwd, ad.vmap, lambda f: ad.jit(ad.grad(f))):
            with pytest.raises(UnsupportedError, match=name):
                transform(f)(np.array([x]) if transform is ad.vmap else x)

    def same(x):
        return np.sum(x * 2) if hasattr(x, name) else 2 * np.sum(x)

    for g in (ad.grad(same), ad.jit(ad.grad(same)), ad.jacfwd(same)):
        np.testing.assert_array_equal(g(x), [2.0, 2.0])
    assert ad.jit(same)(x) == same(x)
    float_ = ad.jit(lambda x: x * 2 if hasattr(x, name) else x * 3)
    assert (float_(2.0), ad.grad(lambda x: x * 2 if hasattr(x, name) else x * 3)(2.0)) == (6.0, 3.0)


@pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")
@pytest.mark.parametrize("name", ["numerator", "denominator", "bit_length", "to_bytes"])
def test_attributes_of_whole_numbers(name):
    f = lambda x: x * 2 if hasattr(x, name) else x * 3
    for x in (3, True, 2.0, np.int64(3), np.float64(2.0), np.arange(3)):
        np.testing.assert_array_equal(ad.jit(f)(x), f(x))


def test_results_of_operations_have_their_class():
    def f(x, n):
        y = np.sin(x)
        kinds = [isinstance(v, float) for v in (x, x * 2, y, y * x)] + [isinstance(v, np.generic) for v in (x * 2, y)]
        kinds += [
            isinstance(n * n, int),
            isinstance(n / 2, float),
            isinstance(n > 1, bool),
            isinstance(np.ones(2) * x, np.ndarray),
        ]
        return kinds

    assert [bool(k) for k in ad.jit(f)(1.5, 3)] == f(1.5, 3)


def test_our_own_modules_see_traced_values():
    x = Tape("test").leaf(np.ones(2))
    assert type(x) is Traced
    assert isinstance(x, Traced)
    assert isinstance(x, np.ndarray)
    assert x.__class__ is np.ndarray


def test_a_scalar_and_an_array_without_axes_are_two():
    f = ad.jit(lambda x: x * 2 if isinstance(x, np.ndarray) else x * 3)
    for _ in range(2):
        assert (f(np.array(1.0)), f(np.float64(1.0)), f(1.0)) == (2.0, 3.0, 3.0)


@pytest.mark.parametrize("name", QUESTIONS)
def test_under_vmap(name):
    question = QUESTIONS[name]
    for x in VALUES:
        seen = []
        batch = np.stack([x, x])
        ad.vmap(lambda x, question=question, seen=seen: seen.append(question(x)) or x * 1)(batch)
        assert seen == [question(batch[0])], x


def test_is_integer():
    def f(x):
        return x * 2.0 if x.is_integer() else x * 3.0

    compiled = ad.jit(f)
    for x in (2.0, 2.5, float("inf"), np.float64(-3.0), np.float32(0.5)):
        assert ad.grad(f)(x) == (2.0 if x.is_integer() else 3.0)
        assert compiled(x) == f(x)
    with pytest.raises(AttributeError, match="is_integer"):
        ad.grad(f)(np.array(2.0))


@pytest.mark.parametrize(
    "x, cls", [(3.0, float), (3.0, int), (3, numbers.Real), (np.ones(2), np.ndarray), (np.ones(2), Iterable), (True, bool)]
)
def test_isinstance_itself_is_compiled(x, cls):
    assert ad.jit(isinstance, static_argnums=1)(x, cls) == isinstance(x, cls)
    assert ad.jit(functools.partial(isinstance), static_argnums=1)(x, cls) == isinstance(x, cls)
