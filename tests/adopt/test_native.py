"""Native dispatch: which of two functions is called, with which arguments, against a model in Python; and what functions show."""

import gc
import inspect
import math
import pickle
import sys
import threading

import numpy as np
import pytest
from builds import with_gil
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.adopt import native
from adjoint.adopt.builtin import SCALARS, AdoptedType, Complex, Float
from adjoint.core.bind import FRESH, Traced
from adjoint.core.quick import Quick, unquick

NUMPY, MATH = ad.adopt("numpy"), ad.adopt("math")
CALL = native.dispatching(lambda *args, **named: ("theirs", args, named), lambda *args, **named: ("ours", args, named))


class Derived(Float):
    """A class of user code."""


class Lines(np.ndarray):
    pass


#: Arguments, by whether they are plain.
PLAIN = [1.5, 2, True, "a", None, 1j, np.ones(3), np.float64(1), np.int64(1), np.bool_(True), slice(2), int, np.dtype(float)]
REPLACED = {Float: float, Complex: complex, SCALARS["float64"]: np.float64, SCALARS["int32"]: np.int32}
OTHER = [Traced(FRESH, np.ones(2), None), np.ones(2).view(Lines), iter([1.0]), {1: 2}, Derived(1.0), Derived, object(), len]


def nested(x, depth):
    for _ in range(depth):
        x = [x]
    return x


ARGUMENTS = st.one_of(
    st.sampled_from(range(len(PLAIN))).map(lambda i: ("plain", PLAIN[i])),
    st.sampled_from(range(len(OTHER))).map(lambda i: ("other", OTHER[i])),
    st.sampled_from(list(REPLACED.values())).map(lambda real: ("plain", next(c for c in REPLACED if REPLACED[c] is real))),
    st.integers(1, 7).map(lambda depth: ("plain" if depth <= 4 else "other", nested(2.0, depth))),
    st.lists(st.sampled_from(range(len(PLAIN))), max_size=40).map(lambda xs: ("plain", [PLAIN[i] for i in xs])),
    st.lists(st.sampled_from(range(len(PLAIN))), max_size=40).map(lambda xs: ("plain", tuple(PLAIN[i] for i in xs))),
    st.sampled_from(range(len(OTHER))).map(lambda i: ("other", [1.0, (2.0, OTHER[i])])),
)


@with_gil
@given(st.lists(ARGUMENTS, max_size=10), st.integers(0, 10))
def test_which_function_is_called(found, named):
    """Against a model: plain arguments, eight at most, outside of transforms."""
    at = max(0, len(found) - named)
    args, names = tuple(x for _, x in found[:at]), {f"k{i}": x for i, (_, x) in enumerate(found[at:])}
    which, got, options = CALL(*args, **names)
    is_plain = all(kind == "plain" for kind, _ in found) and len(found) <= native._MOST
    assert which == ("theirs" if is_plain else "ours")
    real = lambda x: REPLACED.get(x, x) if is_plain and isinstance(x, type) and x in list(REPLACED) else x
    assert list(options) == list(names)
    for a, b in zip((*got, *options.values()), map(real, (*args, *names.values())), strict=True):
        assert a is b


@with_gil
def test_inside_transforms_and_beside_variables():
    which = lambda: CALL(1.0)[0]
    seen = []
    for transform in (ad.grad, ad.derivative, ad.jacrev):
        transform(lambda x: seen.append(which()) or x)(1.0)
    assert set(seen) == {"ours"}
    assert which() == "theirs"
    variable = ad.array(1.0, requires_grad=True)
    assert which() == "ours"
    del variable
    gc.collect()
    assert which() == "theirs"


@with_gil
def test_in_other_threads():
    found, started, done = [], threading.Event(), threading.Event()

    def other():
        started.wait(10)
        found.append(CALL(1.0)[0])
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    ad.grad(lambda x: (started.set(), done.wait(10), x)[2])(1.0)
    thread.join()
    assert found == ["theirs"]  # which is in no transform


def test_errors_pass():
    def fails(*args):
        raise KeyError(args)

    call = native.dispatching(fails, fails)
    for x in (1.0, {}):
        with pytest.raises(KeyError):
            call(x)
    with pytest.raises(TypeError):
        NUMPY.zeros(3, nothing=2)
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        MATH.sqrt(-1.0)


def test_no_reference_is_lost_or_kept():
    x, items, cls = np.ones(3), [1.0, 2.0], Float
    counted = [x, items, float, cls, True, None]
    before = [sys.getrefcount(y) for y in counted]
    for _ in range(2000):
        CALL(x, items, dtype=cls)
        CALL({}, x)
        assert isinstance(1.5, Float)
        assert not isinstance(1, Float)
        Float(x[0])
        AdoptedType(1.5)
        with pytest.raises(ValueError):
            Float("word")
    after = [sys.getrefcount(y) for y in counted]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)


@pytest.mark.parametrize("x", [1.5, 2, True, "3", np.float64(1), np.int64(1), 1j, None, np.ones(1), [1.0], Derived(1.0), {}])
def test_classes_of_numbers(x):
    """`float(x)`, `isinstance(x, float)` and `type(x)` are Python's, for plain numbers and others."""

    def tried(f):
        try:
            return f()
        except (TypeError, ValueError) as error:
            return type(error)

    for ours, real in REPLACED.items():
        a, b = tried(lambda: ours(x)), tried(lambda: real(x))  # noqa: B023
        assert type(a) is type(b)
        assert a is b or np.array_equal(a, b, equal_nan=isinstance(a, float))
        assert isinstance(x, ours) == isinstance(x, real)
    assert hash(AdoptedType(x)) == hash(type(x))
    assert AdoptedType(1.5) is Float
    assert Float() == 0.0
    assert type(Derived(2)) is Derived
    assert AdoptedType("Made", (), {"a": 1}).a == 1


@with_gil
def test_functions_look_like_those_of_numpy():
    assert inspect.signature(NUMPY.sum) == inspect.signature(np.sum)
    assert (NUMPY.sum.__name__, NUMPY.zeros.__name__, MATH.sin.__name__) == ("sum", "zeros", "sin")
    assert NUMPY.sum.__doc__ == np.sum.__doc__
    assert MATH.sin.__doc__ == math.sin.__doc__
    assert isinstance(NUMPY.add, np.ufunc)
    assert NUMPY.add.nin == 2
    assert NUMPY.add.reduce([1, 2, 3]) == 6
    assert NUMPY.add == np.add
    assert repr(NUMPY.add) == repr(np.add)
    assert len({NUMPY.add, anp.add, NUMPY.sum, NUMPY.sum}) == 2
    assert NUMPY.concat is NUMPY.concat
    for f in (NUMPY.sum, NUMPY.add, NUMPY.zeros, NUMPY.linalg.norm):
        again = pickle.loads(pickle.dumps(f))
        assert unquick(again) is unquick(f) or again == f
    assert type(NUMPY.sum) is Quick
    assert type(NUMPY) is type(MATH) is type(math)
    assert "sin" in dir(NUMPY)
    with pytest.raises(AttributeError):
        NUMPY.nothing


def test_what_adopted_code_writes_to_numpy_stays_there():
    NUMPY.of_ours = 1
    assert not hasattr(np, "of_ours")
    assert not hasattr(anp, "of_ours")
    del NUMPY.of_ours


def test_without_native_code(monkeypatch):
    monkeypatch.setattr(native, "_dispatcher", lambda: None)
    face = native.QuickFace(anp, {}, np)
    assert face.sum is anp.sum
    assert native.dispatching(np.sum, anp.sum) is anp.sum
