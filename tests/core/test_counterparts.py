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
