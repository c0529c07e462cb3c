"""Counterparts of SciPy's functions, and whether a function can reach one."""

import functools
import types

import numpy as np
import scipy
import scipy.linalg
import scipy.special
from scipy.special import erf, logsumexp
from scipy.stats import norm

import adjoint as ad
from adjoint.core.counterparts import counterpart, leads_there, reaches

WIDE = norm(1.0, 2.0)


class TruncatedNorm(type(norm)):
    """A distribution of the user's."""


def test_counterparts():
    assert counterpart(norm) is counterpart(WIDE).family is ad.adopt("scipy.stats").norm
    assert counterpart(WIDE).args == (1.0, 2.0)
    own = TruncatedNorm(a=0.0, name="norm")
    for x in (own, own(1.0), scipy.special.erf, np.sum, len, 3, scipy.linalg.LinAlgError, scipy, None, "norm"):
        assert counterpart(x) is None


class OfLogs:
    def run(self, x):
        return logsumexp(x)


class Slotted(OfLogs):
    __slots__ = ("a",)


class Noticed(OfLogs):
    seen = ()

    def __init_subclass__(cls):
        Noticed.seen += (cls,)


def test_what_leads_to_a_counterpart():
    def calls(x):
        return logsumexp(x)

    def calls_itself(x):
        return calls_itself(x) if x > 0 else calls(x)

    for x in (
        calls,
        calls_itself,
        lambda x: calls(x),
        functools.partial(calls),
        OfLogs(),
        OfLogs().run,
        norm,
        norm.cdf,
        logsumexp,
    ):
        assert leads_there(x), x
    for x in (erf, np.sum, lambda x: erf(x), Slotted(), Noticed(), ad.grad(calls), scipy, "norm", 3.0, [norm], len, type):
        assert not leads_there(x), x


def test_code_that_is_run_as_the_main_module():
    names = {"__name__": "__main__", "logsumexp": logsumexp}
    exec("f = lambda x: logsumexp(x)", names)
    assert reaches(names["f"])
    names = {"__name__": "scipy.special", "logsumexp": logsumexp}
    exec("f = lambda x: logsumexp(x)", names)
    assert not reaches(names["f"])


def test_functions_of_one_code_are_told_apart_by_what_they_name_and_hold():
    def made(**names):
        scope = {"__name__": "a_module", "np": np, **names}
        exec("def f(x):\n    return helper(x)\ndef holding(helper):\n    return lambda x: helper.logsumexp(x)", scope)
        return scope

    helpers = [np.sin, scipy.special.logsumexp, lambda x: x, lambda x: type(x) is float]
    for helper, expected in zip(helpers, [False, True, False, True], strict=True):
        scope = made(helper=helper)
        assert reaches(scope["f"]) is expected
        again = types.FunctionType(scope["f"].__code__, scope)  # of the same module
        assert reaches(again) is expected
        scope["helper"] = np.cos
        assert reaches(types.FunctionType(scope["f"].__code__, scope)) is False
    holding = made()["holding"]
    for module, expected in ((np, False), (scipy.special, True), (np, False), (scipy.special, True)):
        assert reaches(holding(module)) is expected


def test_functions_that_call_each_other():
    """Whichever of them is asked first, and however they refer to each other: by a closure or by a global."""

    def made(first):
        def even(x, n):
            return logsumexp(x) if n == 0 else odd(x, n - 1)

        def odd(x, n):
            return even(x, n - 1)

        functions = {"even": even, "odd": odd}
        assert reaches(functions[first])
        assert all(map(reaches, functions.values()))

    for first in ("even", "odd"):
        made(first)
        scope = {"__name__": "a_module", "logsumexp": logsumexp}
        exec("def even(x, n): return odd(x, n) if n else logsumexp(x)\ndef odd(x, n): return even(x, n - 1)", scope)
        assert reaches(scope[first])
        assert all(reaches(scope[name]) for name in ("even", "odd"))


class Changing:
    def run(self, x):
        return x


def test_what_a_function_names_may_change():
    """The answer that it reaches nothing holds as long as names, cells, defaults, methods and attributes are what they were."""
    scope = {"__name__": "a_module", "np": np, "thing": Changing()}
    exec("def f(x):\n    return helper(x) + thing.run(x)", scope)
    changes = [
        lambda: scope.update(helper=np.sin),
        lambda: scope.update(helper=logsumexp),
        lambda: scope.update(helper=lambda x: x),
        lambda: scope.update(helper=lambda x: logsumexp(x)),
        lambda: scope.update(helper=lambda x: type(x) is float),
    ]
    for change, expected in zip(changes, [False, True, False, True, True], strict=True):
        fresh = types.FunctionType(scope["f"].__code__, scope)
        change()
        assert reaches(fresh) or not expected  # that a function reaches one is kept
        assert reaches(types.FunctionType(scope["f"].__code__, scope)) is expected

    scope["helper"] = np.sin
    f = types.FunctionType(scope["f"].__code__, scope)
    assert not reaches(f)
    scope["thing"].prior = scipy.stats.norm(0.0, 1.0)
    assert reaches(types.FunctionType(scope["f"].__code__, scope))
    del scope["thing"].prior
    assert not reaches(types.FunctionType(scope["f"].__code__, scope))
    Changing.run = lambda self, x: logsumexp(x)
    assert reaches(f)


def test_cells_and_defaults_may_change():
    helper = np.sin

    def f(x, k=1.0, *, other=np.cos):
        return helper(x) * k + other(x)

    assert not reaches(f)
    helper = logsumexp
    assert reaches(f)
    for name, value in (("__defaults__", (logsumexp,)), ("__kwdefaults__", {"other": logsumexp}), ("__code__", None)):

        def g(x, k=1.0, *, other=np.cos):
            return np.sin(x) * k + other(x)

        assert not reaches(g)
        setattr(g, name, value if value is not None else (lambda x: logsumexp(x)).__code__)
        assert reaches(g), name
