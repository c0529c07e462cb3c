"""Code that asks a traced value for its number gets it where no derivative is lost; otherwise the error names the call."""

import array
import cmath
import contextlib
import copy
import functools
import math
import operator
import pickle
import random
import statistics
import sys
import types

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats
from scipy.linalg import expm as matrix_exponential
from scipy.special import softmax

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.caller import call_of, reads_entry

X = np.array([0.25, 1.5, 2.75])
rng = np.random.default_rng(0)


def written(make):
    """A function that writes a traced number into an array by `make`."""

    def f(x):
        a = np.zeros(3, int)
        make(a, x[0])
        return x.sum() + a.sum()

    return f


def refusal(f, x=X):
    """What is said when f meets traced values, in both modes."""
    errors = []
    for run in (lambda: ad.grad(lambda x: f(x) * 0.0 + x.sum())(x), lambda: ad.jvp(f, (x,), (x,))):
        with pytest.raises(ad.AdjointError) as error:
            run()
        errors.append(str(error.value))
    assert "test_caller.py:" in errors[0]
    return errors[0]


# -- numbers that would be cut to whole ones --------------------------------------------------------------------------

WRITES = {
    "setitem": lambda a, v: operator.setitem(a, 0, v),
    "method": lambda a, v: a.__setitem__(0, v),
    "fill": lambda a, v: a.fill(v),
    "put": lambda a, v: a.put([0], v),
    "np.put": lambda a, v: np.put(a, [0], v),
    "copyto": lambda a, v: np.copyto(a, v, casting="unsafe"),
    "putmask": lambda a, v: np.putmask(a, a == 0, v),
    "place": lambda a, v: np.place(a, a == 0, v),
    "fill_diagonal": lambda a, v: np.fill_diagonal(a.reshape(3, 1), v),
    "add.at": lambda a, v: np.add.at(a, [0], v),
    "slice": lambda a, v: operator.setitem(a, slice(None), v),
    "mask": lambda a, v: operator.setitem(a, a == 0, v),
    "flat": lambda a, v: setattr(a, "flat", v),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_to_an_integer_array(name):
    assert "adjoint.numpy" in refusal(written(WRITES[name]))


def test_statements_that_write_to_an_integer_array():
    def item(a, v):
        a[0] = v

    def everything(a, v):
        a[...] = v

    def sum_in_place(a, v):
        a += v

    for make in (item, everything):
        assert "adjoint.numpy" in refusal(written(make))
    with pytest.raises(TypeError, match=r"Cannot cast ufunc 'add' output from dtype.'float64'"):  # as of plain numbers
        ad.grad(written(sum_in_place))(np.ones(3))


def test_other_ways_to_whole_numbers():
    assert "np.fromiter" in refusal(lambda x: np.fromiter((v for v in x), int).sum())
    assert "adjoint.numpy" in refusal(lambda x: np.full_like(np.arange(3), x[0]).sum())
    assert "float dtype" in refusal(lambda x: np.insert(np.arange(3), 1, x[0]).sum())
    records = np.zeros(3, [("a", int), ("b", int)])
    assert "integer array" in refusal(lambda x: records.fill((x[0], 1)) or x[0])
    for f in (
        lambda x: bytearray([x[0]])[0],
        lambda x: array.array("i", [x[0]])[0],
        lambda x: [1, 2, 3][x[0]],
        lambda x: sum(range(x[2])),
        lambda x: math.comb(x[2], 2),
    ):
        assert "write int(x)" in refusal(f)


def test_whole_numbers_that_are_asked_for():
    """`int(x)` and its relatives are constant almost everywhere; they give Python's whole numbers."""
    seen = []

    def f(x):
        seen[:] = [int(x[2]), math.floor(x[2]), math.ceil(x[2]), math.trunc(x[2]), round(x[2]), round(x[2], 1)]
        whole = int
        return x[0] * int(x[2] if x[0] > 0 else x[1]) + x[1] * whole(x[2]) + sum(int(v) for v in x) * x[2]

    np.testing.assert_array_equal(ad.grad(f)(X), [2, 2, 3])
    assert seen == [2, 2, 3, 2, 3, 2.8]
    assert [type(n) for n in seen[:5]] == [int] * 5


# -- calls that go through compiled code ------------------------------------------------------------------------------

CALLS = {
    "math.sin": (lambda x: math.sin(x[0]), "np.sin"),
    "math.lgamma": (lambda x: math.lgamma(x[0]), "adjoint.scipy.special.gammaln"),
    "cmath.exp": (lambda x: cmath.exp(x[0]), "np.exp"),
    "statistics.mean": (lambda x: statistics.mean(x), "np.mean"),
    "rng.normal": (lambda x: rng.normal(x[0]), "scale them"),
    "np.random.normal": (lambda x: np.random.normal(x), "scale them"),
    "np.ma.array": (lambda x: np.ma.array(x).sum(), "np.where"),
    "np.sin": (lambda x: np.sin([x[0], x[1]]).sum(), "import adjoint.numpy as np"),
    "np.full": (lambda x: np.full(3, x[0]).sum(), "import adjoint.numpy as np"),
    "np.float32": (lambda x: np.float32(x[0]), "x.astype(np.float32)"),
    "np.polynomial.polynomial.polyval": (lambda x: np.polynomial.polynomial.polyval(2.0, x), "np.polyval"),
    "scipy.special.softmax": (lambda x: softmax(x).sum(), "use adjoint.scipy.special.softmax"),
    "scipy.special.logsumexp": (lambda x: scipy.special.logsumexp(x), "use adjoint.scipy.special.logsumexp"),
    "scipy.special.polygamma": (lambda x: scipy.special.polygamma(1, x).sum(), "use adjoint.scipy.special.polygamma"),
    "scipy.special.zeta": (lambda x: scipy.special.zeta(x + 2).sum(), "ad.extend.numerical"),
    "scipy.special.ellip_harm": (lambda x: scipy.special.ellip_harm(1, 2, 3, 2, x).sum(), "ad.extend.numerical"),
    "scipy.special.ellip_normal": (lambda x: scipy.special.ellip_normal(1.0, x[0], 1, 1), "no closed form"),
    "scipy.linalg.expm": (lambda x: matrix_exponential(np.diag(x)).sum(), "use adjoint.scipy.linalg.expm"),
    "scipy.linalg.schur": (lambda x: scipy.linalg.schur(np.diag(x))[0].sum(), "ad.extend.numerical"),
    "scipy.linalg.circulant": (lambda x: scipy.linalg.circulant(x).sum(), "use adjoint.scipy.linalg.circulant"),
    "scipy.stats.norm.logpdf": (lambda x: scipy.stats.norm.logpdf(x).sum(), "use adjoint.scipy.stats.norm.logpdf"),
    "scipy.signal.lfilter": (lambda x: scipy.signal.lfilter([1.0], [1.0, 0.5], x).sum(), "SCIPY_ARRAY_API=1"),
    "scipy.fft.rfft": (lambda x: scipy.fft.rfft(x).real.sum(), "use np.fft.rfft"),
}


def refusal_outside(f):
    """What is said when f meets an array of the imperative style, for which SciPy's functions are not replaced by ours."""
    with pytest.raises(ad.AdjointError) as error:
        f(ad.array(X, requires_grad=True))
    assert "test_caller.py:" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", CALLS)
def test_the_call_and_the_remedy_are_named(name):
    f, remedy = CALLS[name]
    said = (refusal_outside if name.startswith("scipy.") else refusal)(f)
    assert name in said
    assert remedy in said
    assert "ad.stop_gradient" in said


def test_operators_of_other_libraries():
    matrix = scipy.sparse.eye_array(3, format="csr")
    assert "toarray" in refusal(lambda x: (matrix @ x).sum())


def test_frozen_distributions():
    assert "use adjoint.scipy.stats" in refusal_outside(lambda x: scipy.stats.norm(x[0], 1.0).pdf(1.0))


def test_memory():
    for name in ("tobytes", "strides", "data"):
        assert f".{name}" in refusal(functools.partial(lambda name, x: getattr(x, name), name))
    assert ".view" in refusal(lambda x: x.view(np.uint8).sum())
    seen = []
    ad.grad(lambda x: seen.append((hasattr(x, "strides"), hasattr(x, "toarray"))) or x.sum())(X)
    assert seen[0] == (False, False)  # and then those of plain arrays, to compare the results


def test_ufuncs_made_from_python_functions():
    said = refusal(lambda x: np.frompyfunc(lambda v: v * v, 1, 1)(x).sum())
    assert "adjoint.numpy.vectorize" in said


# -- what shows, copies and compares ----------------------------------------------------------------------------------


def test_showing_a_value_is_free():
    seen = []

    def f(x):
        v = x[0]
        seen[:] = ["%d %s" % (v, v), "%.2f" % v, f"{v:.3f}", "{:.1e}".format(v), str(v)]  # noqa: UP031, UP032
        return v

    ad.grad(f)(X)
    assert seen == ["0 0.25", "0.25", "0.250", "2.5e-01", "0.25"]
    ad.jvp(f, (X,), (X,))
    assert seen == ["0 0.25", "0.25", "0.250", "2.5e-01", "0.25"]


def test_copies_keep_the_derivative_and_pickles_refuse():
    assert ad.grad(lambda x: (copy.copy(x) * copy.deepcopy({"a": [x]})["a"][0]).sum())(X).tolist() == (2 * X).tolist()
    assert "pickled" in refusal(pickle.dumps)


def test_order_and_membership():
    assert ad.grad(lambda x: sorted(x, reverse=True)[0] ** 2)(X).tolist() == [0, 0, 5.5]
    assert ad.grad(lambda x: x[0] * (1.5 in x) + x[1] * (x[1] in [1.5]) + x[2] * list(x).index(x[2]))(X).tolist() == [1, 1, 2]
    assert ad.grad(lambda x: max(x) + sum(x) + math.prod(x))(np.array([1.0, 2.0])).tolist() == [3, 3]


def test_a_cache_tells_variables_of_one_value_apart():
    calls = []

    @functools.lru_cache
    def square(x):
        calls.append(x)
        return x * x

    assert ad.grad(lambda x, y: square(x) * y + square(y), (0, 1))(2.0, 2.0) == (8.0, 8.0)
    assert len(calls) == 2


def test_pythons_random_numbers_scale():
    value, slope = ad.value_and_grad(lambda x: random.Random(0).gauss(x, 2.0))(3.0)
    assert value == random.Random(0).gauss(3.0, 2.0)
    assert slope == 1


# -- plain arrays with traced arguments of their methods ------------------------------------------------------------------


def test_clip_of_a_plain_array():
    assert ad.grad(lambda x: np.arange(4.0).clip(x[0], x[1]).sum())(X).tolist() == [1, 2, 0]


def test_the_drop_in_takes_the_same_calls():
    def f(np, x):
        a = np.zeros(3)
        a.fill(x[0])
        a.put([1], x[1])
        np.put(a, [2], x[2])
        return np.sum(np.full(3, x[0]) * a) + np.sum(np.fromiter((v for v in x), float)) + np.array([x[0], x[1]]).sum()

    expected = [2 * X[0] + X[1] + X[2] + 2, X[0] + 2, X[0] + 1]
    np.testing.assert_allclose(ad.grad(lambda x: f(anp, x))(X), expected)
    assert np.array(X, int).tolist() == anp.array(X, int).tolist()
    assert ad.grad(lambda x: x[0] * anp.array([x[1], x[2]], int).sum())(X).tolist() == [3, 0, 0]


# -- which call a frame is at -----------------------------------------------------------------------------------------


class Asked:
    """Looks at the frame that uses it, as a traced value does when it is asked for its number."""

    def __call__(self, *args):
        return call_of(sys._getframe(1)).name

    def __mod__(self, other):
        return call_of(sys._getframe(1)).kind

    def __setitem__(self, key, value):
        value.append(call_of(sys._getframe(1)).kind)

    __add__ = __mod__
    method = __call__


def local_calls(f, x, y):
    return [f(x, y), f.method(x), (x, f(y))[1], (x, f.method(y))[1], *[f(v) for v in (x,)]]


def test_the_call_is_named_by_variables_of_every_kind():
    """Loads of local variables come two at a time in newer versions of Python; cells, globals and attributes do not."""
    f = asked = Asked()
    x, y = 1.0, 2.0
    assert local_calls(f, x, y) == ["f", "f.method", "f", "f.method", "f"]
    g = lambda v: (v, f(v), v + len(asked(v, y)), f.method(v))
    assert g(x) == (1.0, "f", 6.0, "f.method")
    f.inner = asked
    assert (x, f.inner.method(y), f.inner(x, y)) == (1.0, "f.inner.method", "f.inner")
    kinds = []
    f[0] = kinds
    assert [f % x, f + y, *kinds] == ["%", "+", "STORE_SUBSCR"]


def test_the_variables_of_keywords_are_not_what_is_called():
    def f(x):
        close, rtol, atol = np.isclose, [1e-3, 1e-3], [0.0, 0.0]
        return close([x[0], x[1]], [1.0, 2.0], rtol=rtol, atol=atol).sum() * x[0]

    said = refusal(f)
    assert "close" in said
    assert "np.stack for a list of values" in said


# -- instructions, which differ from one version of Python to the next -------------------------------------------


class Module:
    """Holds a function that looks at the instruction it is called by."""

    def __init__(self):
        self.seen = []
        self.inner = self

    def look(self, *args, **kwargs):
        self.seen.append(call_of(sys._getframe(1)))
        return 1.0


SPELLED = {
    "look(x)": "look",
    "m.look(x)": "m.look",
    "m.inner.look(x)": "m.inner.look",
    "x + m.look(y)": "m.look",  # newer versions load two variables at a time
    "x + y + m.look(x)": "m.look",
    "m.look(x) + y": "m.look",
    "m.look(x + y, y)": "m.look",
    "m.look(x, key=y)": "m.look",
    "m.look(*[x, y])": "m.look",
    "m.look(**{'a': x})": "m.look",
    "[m.look(v) for v in (x, y)]": "m.look",
    "(lambda: m.look(x))()": "m.look",
    "x * (y - m.look(x, y)) / y": "m.look",
    "m.look(x) if x else m.look(y)": "m.look",
    "{'a': m.look(x)}['a']": "m.look",
    "made().look(x)": "look",
    "[m][0].look(x)": "look",
}


@pytest.mark.parametrize("text", SPELLED)
@pytest.mark.parametrize("before", ["", "z = x; x = y", "n = m; y = x", "del m2"])
def test_the_name_of_the_callee(text, before):
    m = Module()
    source = f"def f(x, y, m, m2, look, made):\n    {before or 'pass'}\n    return {text}"
    scope = {}
    exec(source, scope)
    scope["f"](2.0, 3.0, m, m, m.look, lambda: m)
    assert {call.name for call in m.seen} == {SPELLED[text]}
    assert all(call.function == m.look for call in m.seen if call.words[0])


ENTRIES = {
    "d[x]": True,
    "d.get(x)": True,
    "d.setdefault(x, y)": True,
    "self.d[x]": True,
    "x in d": False,
    "x not in d": False,
    "x == y": False,
    "(y, x == y)": False,
    "[1.0].count(x)": False,
}


@pytest.mark.parametrize("text", ENTRIES)
def test_entries_of_dicts(text):
    seen = []

    class Key(float):
        __hash__ = float.__hash__

        def __eq__(self, other):
            seen.append(reads_entry(sys._getframe(1)))
            return False

    held = {1.0: 0.0}
    f = eval(f"lambda x, y, d, self: {text}")
    with contextlib.suppress(KeyError):
        f(Key(1.0), 1.0, held, types.SimpleNamespace(d=held))
    assert set(seen) == {ENTRIES[text]}


def test_calls_with_options_in_a_dict_are_named():
    options = {"dx": 0.1}
    for call in (
        lambda x: scipy.integrate.cumulative_trapezoid(x, initial=0, **options)[-1],
        lambda x: scipy.integrate.cumulative_trapezoid(*[x], initial=0)[-1],
        lambda x: scipy.integrate.cumulative_trapezoid(x, **options)[-1],
    ):
        assert "in scipy.integrate.cumulative_trapezoid" in refusal_outside(call)
