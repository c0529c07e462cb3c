"""SciPy's functions that take plain arrays only, called on traced values in plain functions: ours are called instead."""

import dataclasses
import functools
import gc
import weakref

import numpy as np
import pytest
import scipy
import scipy.interpolate
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats
from scipy import stats as st
from scipy.interpolate import CubicSpline
from scipy.linalg import expm, solve_triangular
from scipy.special import logsumexp, softmax
from scipy.stats import norm

import adjoint as ad
from adjoint.adopt import plain
from adjoint.compiler.jit import CompileWarning
from adjoint.core.counterparts import reaches
from adjoint.core.errors import ConversionError

X = np.array([1.0, 2.0, 3.0])
SCALE = 2.0
WIDE = st.norm(1.0, 2.0)
LOG_DENSITY = norm.logpdf


def helper(x):
    return norm.logpdf(x, scale=SCALE).sum()


def imported_inside(x):
    import scipy.linalg as la
    from scipy.special import logsumexp as lse

    return lse(x) + la.expm(np.outer(x, x) / 20).sum()


def by_default(x, f=logsumexp):
    return f(x)


def recursive(x, n=3):
    return logsumexp(x) if n == 0 else recursive(x * 1.1, n - 1)


def with_inner(x):
    def inner(y):
        return softmax(y)[0]

    return inner(x) + functools.partial(logsumexp, axis=0)(x)


class Model:
    scale = 1.5

    def __init__(self):
        self.prior = st.norm(0, 2.0)

    def likelihood(self, x):
        return st.norm.logpdf(x, 0, self.scale).sum()

    def posterior(self, x):
        return self.likelihood(x) + self.prior.logpdf(x).sum()

    def through_others(self, x):
        return self.posterior(x) + np.sum(x**2)


class Shaped(Model):
    def likelihood(self, x):
        return self.total(x) - logsumexp(x)

    def total(self, x):
        return np.sum(x)


class Above(Model):
    def likelihood(self, x):
        return super().likelihood(x) - logsumexp(x)

    def _posterior(self, x):
        return super().posterior(x) + np.sum(x**2)

    renamed = _posterior


@dataclasses.dataclass(frozen=True)
class Weighted:
    k: float

    def run(self, x):
        return self.k * logsumexp(x)


class Holder:
    """Names nothing of SciPy in its methods."""

    def __init__(self):
        self.prior = st.norm(0, 2.0)

    def run(self, x):
        return self.prior.logpdf(x).sum()


MODEL, SHAPED, WEIGHTED, HOLDER = Model(), Shaped(), Weighted(2.0), Holder()

FORMS = {
    "an attribute of a module": lambda x: scipy.special.logsumexp(x),
    "a name": lambda x: logsumexp(x),
    "a decorated function": lambda x: solve_triangular(np.outer(x, x) + np.eye(3), x, lower=True).sum(),
    "of a matrix": lambda x: expm(np.outer(x, x) / 10).sum(),
    "of signals": lambda x: np.sum(scipy.signal.lfilter([1.0], [1.0, -0.5], x) ** 2),
    "a distribution": lambda x: norm.logpdf(x).sum(),
    "a distribution with parameters": lambda x: WIDE.logpdf(x).sum(),
    "a multivariate distribution": lambda x: st.multivariate_normal.logpdf(x, np.zeros(3), np.eye(3)),
    "a distribution made inside": lambda x: st.norm(x[0], x[1]).logpdf(x[2]),
    "a bound method of a distribution": lambda x: LOG_DENSITY(x).sum(),
    "a helper": helper,
    "a helper of a helper": lambda x: helper(x) * 2,
    "an import inside": imported_inside,
    "a default argument": by_default,
    "recursion": recursive,
    "a function inside": with_inner,
    "a partial": functools.partial(lambda k, x: k * logsumexp(x), 2.0),
    "a cached function": functools.cache(lambda x: logsumexp(x)),
    "a method": MODEL.posterior,
    "a method of an object": lambda x: MODEL.posterior(x),
    "a method that calls others": MODEL.through_others,
    "an inherited method": lambda x: SHAPED.through_others(x),
    "a class": lambda x: CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)(x * 0.9).sum(),
    "a class of an imported module": lambda x: scipy.interpolate.interp1d(np.arange(4.0), np.append(x, 1.0))(1.7) ** 2,
    "a method of a frozen dataclass": lambda x: WEIGHTED.run(x),
    "an attribute that is a distribution": lambda x: HOLDER.run(x),
}

TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(X),
    "jit of grad": lambda f: ad.jit(ad.grad(f))(X),
    "grad of jit": lambda f: ad.grad(ad.jit(f))(X),
    "vmap": lambda f: ad.vmap(ad.grad(f))(np.stack([2 * X, X]))[1],
    "forward": lambda f: ad.jacfwd(f)(X),
    "graph": lambda f: ad.graph(ad.grad(f))(X)(X),
    "checkpoint": lambda f: ad.grad(ad.checkpoint(f))(X),
    "scan": lambda f: ad.grad(lambda x: ad.scan(lambda c, _: (c + f(x), None), np.float64(0.0), None, 2)[0] / 2)(X),
}


def differences(f, h=1e-6):
    f = getattr(f, "__wrapped__", f)
    return np.array([(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(3)])


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    f = FORMS[form]
    wanted = differences(f)
    for name, transform in TRANSFORMS.items():
        if name not in ("graph", "checkpoint", "scan", "grad of jit") or not isinstance(f, functools._lru_cache_wrapper):
            np.testing.assert_allclose(transform(f), wanted, rtol=1e-5, atol=1e-7, err_msg=name)


CALLABLE = [form for form, f in FORMS.items() if not isinstance(f, functools._lru_cache_wrapper)]  # a cache takes no arrays


@pytest.mark.parametrize("form", CALLABLE)
def test_checks_and_traces(form):
    f = FORMS[form]
    ad.check_grads(f, X, order=1)
    found = ad.compare(f, X)
    for method in ("forward", "reverse"):
        assert not found[method].note
        np.testing.assert_allclose(found[method].value, differences(f), rtol=1e-5, atol=1e-7, err_msg=method)
    np.testing.assert_allclose(ad.trace(f)(X).evaluation.adjoints[0], differences(f), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", CALLABLE)
def test_forward_mode_by_two_reverse_passes(form):
    f = FORMS[form]

    def at_repeated_eigenvalues(x):  # whose derivative forward mode leaves to reverse mode
        w, v = np.linalg.eigh(np.eye(3) * x[0])
        return f(x) + np.sum((v * w) @ v.T)

    _, slope = ad.jvp(at_repeated_eigenvalues, (X,), (np.array([1.0, 0.5, -2.0]),))
    np.testing.assert_allclose(slope, differences(f) @ [1.0, 0.5, -2.0] + 3.0, rtol=1e-5, atol=1e-6)


def test_methods_of_base_classes():
    for method in (Above().likelihood, Above().renamed):  # which call super() themselves
        np.testing.assert_allclose(ad.grad(method)(X), differences(method), rtol=1e-5)
    f = Above().through_others
    wanted = differences(f)
    np.testing.assert_allclose(ad.grad(f)(X), wanted, rtol=1e-5)
    with pytest.warns(CompileWarning, match=r"use adjoint\.scipy\.stats\.norm\.logpdf"):  # staging does not see super()
        np.testing.assert_allclose(ad.jit(ad.grad(f))(X), wanted, rtol=1e-5)


def test_adopted_functions_see_names_and_distributions():
    for form in ("a name", "a distribution", "a distribution with parameters", "a bound method of a distribution"):
        np.testing.assert_allclose(ad.grad(ad.adopt(FORMS[form]))(X), differences(FORMS[form]), rtol=1e-5)


def test_scipy_itself_is_not_changed():
    before = logsumexp.__code__, vars(st.rv_continuous)["logpdf"], norm.logpdf(1.0)
    ad.grad(FORMS["a name"])(X)
    ad.grad(helper)(X)
    assert (logsumexp.__code__, vars(st.rv_continuous)["logpdf"], norm.logpdf(1.0)) == before
    assert helper(X) == norm.logpdf(X, scale=SCALE).sum()


def test_the_copy_reads_what_the_function_reads(monkeypatch):
    g = ad.grad(helper)
    first = g(X)
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    np.testing.assert_allclose(first, -X / 4)
    np.testing.assert_allclose(g(X), -X)
    monkeypatch.setitem(globals(), "norm", st.laplace)
    np.testing.assert_allclose(g(X), -np.ones(3))


def test_closures_are_read_at_each_call():
    k = 1.0
    g = ad.grad(lambda x: k * logsumexp(x))
    first = g(X)
    k = 3.0
    np.testing.assert_allclose(g(X), 3 * first)


def test_writes_reach_the_function_and_its_objects():
    calls = 0
    model = Model()

    def counted(x):
        nonlocal calls
        calls += 1
        model.last = calls
        return model.posterior(x) + logsumexp(x)

    ad.grad(counted)(X)
    ad.grad(counted)(X)
    assert (calls, model.last, type(model)) == (2, 2, Model)


def test_functions_are_not_kept_alive():
    def made():
        data = np.ones(3)
        f = lambda x: logsumexp(x * data)
        ad.grad(f)(X)
        return weakref.ref(f)

    dead = [made() for _ in range(3)]
    gc.collect()
    assert [ref() for ref in dead] == [None] * 3


def test_classes_are_not_kept_alive_without_end():
    def made():
        class Local:
            def run(self, x):
                return logsumexp(x)

            def same(self):
                return super().__repr__()

        ad.grad(Local().run)(X)
        return weakref.ref(Local)

    refs = [made() for _ in range(2 * plain._MOST)]
    gc.collect()
    assert sum(ref() is not None for ref in refs) <= plain._MOST


def test_a_function_that_names_nothing_of_the_kind_runs_itself():
    seen = []

    def plain(x):
        seen.append(plain.__globals__)
        return np.sum(scipy.special.erf(x))  # a ufunc, which asks its arguments

    assert not reaches(plain)
    ad.grad(plain)(X)
    assert [type(scope) for scope in seen] == [dict]


def test_other_functions_are_refused_with_advice():
    with pytest.raises(ConversionError, match="SciPy computes it on plain numbers"):
        ad.grad(lambda x: logsumexp(x) + st.gaussian_kde(x)(1.0))(X)
    x = ad.array(X, requires_grad=True)
    with pytest.raises(ConversionError, match=r"use adjoint\.scipy\.special\.logsumexp"):
        scipy.special.logsumexp(x)  # outside of any function


def test_compiled_functions_that_run_eagerly_inside_a_transform():
    def draws(x):
        return logsumexp(x) * (1.0 + 0.0 * np.random.default_rng().normal()) + np.random.uniform(0.0, 0.0)

    f = ad.jit(draws)
    with pytest.warns(CompileWarning, match="random"):
        f(X)
    np.testing.assert_allclose(ad.grad(f)(X), softmax(X), rtol=1e-12)
    np.testing.assert_allclose(ad.jvp(f, (X,), (X,))[1], softmax(X) @ X, rtol=1e-12)
    np.testing.assert_allclose(ad.vmap(f)(np.stack([X, 2 * X])), [logsumexp(X), logsumexp(2 * X)], rtol=1e-12)


# -- the copy sees what the function sees: at each call, whatever has changed in between -------------------------------


def slope(f, x=0.7):
    return ad.grad(f)(x)


def pair(x):
    return np.stack([x, 2 * x])


HELPERS = {
    "of SciPy": (logsumexp, lambda x: logsumexp(pair(x))),
    "of NumPy": (np.sum, lambda x: 3 * x),
    "a function of SciPy's": (lambda y: logsumexp(y) ** 2, lambda x: logsumexp(pair(x)) ** 2),
    "that decides": (lambda y: y[0] if type(y) is np.ndarray else 0.0 * y[0], lambda x: x),
    "plain": (lambda y: y[0] * y[1], lambda x: 2 * x * x),
    "partial": (functools.partial(softmax, axis=0), lambda x: 1.0),
}


def by_a_cell():
    helper = None

    def put(f):
        nonlocal helper
        helper = f

    return lambda x: np.sum(helper(pair(x))), put


def by_a_cell_of_a_helper():
    f, put = by_a_cell()
    return lambda x: f(x) * 1.0, put


def by_a_default():
    def f(x, helper=None):
        return np.sum(helper(pair(x)))

    return f, lambda helper: setattr(f, "__defaults__", (helper,))


def by_a_keyword():
    def f(x, *, helper=None):
        return np.sum(helper(pair(x)))

    return f, lambda helper: setattr(f, "__kwdefaults__", {"helper": helper})


def by_an_attribute_of_the_function():
    def f(x):
        return np.sum(f.helper(pair(x)))

    return f, lambda helper: setattr(f, "helper", helper)


def by_a_method():
    class Owner:
        def run(self, x):
            return np.sum(self.helper(pair(x)))

    owner = Owner()
    return lambda x: owner.run(x), lambda helper: setattr(Owner, "helper", lambda self, y: helper(y))


def by_a_cell_of_a_method():
    helper = None

    class Owner:
        def run(self, x):
            return self.total(x) + 0.0 * logsumexp(pair(x))

        @property
        def scale(self):
            return 1.0 if owner is self else 0.0

        @staticmethod
        def total(x):
            return np.sum(helper(pair(x))) * owner.scale

    def put(f):
        nonlocal helper
        helper = f

    owner = Owner()
    return lambda x: owner.run(x), put


def by_an_attribute():
    class Owner:
        def run(self, x):
            return np.sum(self.helper(pair(x))) + 0.0 * logsumexp(pair(x))

    owner = Owner()
    return owner.run, lambda helper: setattr(owner, "helper", helper)


def by_a_global():
    scope = {"np": np, "pair": pair, "__name__": __name__}
    exec("def f(x): return np.sum(helper(pair(x)))", scope)
    return scope["f"], lambda helper: scope.update(helper=helper)


WAYS = [
    by_a_cell,
    by_a_cell_of_a_helper,
    by_a_cell_of_a_method,
    by_a_default,
    by_a_keyword,
    by_a_global,
    by_a_method,
    by_an_attribute,
]


@pytest.mark.parametrize("way", [*WAYS, by_an_attribute_of_the_function])
def test_a_helper_may_be_another_one_at_each_call(way):
    f, put = way()
    for first in HELPERS:
        for then in HELPERS:
            for kind in (first, then):
                helper, wanted = HELPERS[kind]
                put(helper)
                for _ in range(2):
                    try:
                        found = slope(f)
                    except ConversionError:
                        assert way is by_an_attribute_of_the_function  # which is not looked at: a refusal, no stale number
                        continue
                    np.testing.assert_allclose(found, (wanted(0.7 + 1e-6) - wanted(0.7 - 1e-6)) / 2e-6, rtol=1e-6, atol=1e-9)


def test_attributes_of_functions_and_classes_are_read_and_written():
    def f(x):
        f.count += 1
        return logsumexp(pair(x)) * f.rate

    class Rated:
        rate = 2.0

        def run(self, x):
            type(self).count = self.count + 1
            return logsumexp(pair(x)) * self.rate

        count = 0

    one, owner = slope(lambda x: logsumexp(pair(x))), Rated()
    f.count = 0
    for i, rate in enumerate((2.0, 3.0, 4.0), 1):
        f.rate = Rated.rate = rate
        np.testing.assert_allclose(slope(f), rate * one)
        np.testing.assert_allclose(slope(owner.run), rate * one)
        assert [f.count, Rated.count] == [i, i]


def test_code_and_counters():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return logsumexp(pair(x))

    slope(f)
    slope(f)
    assert count == 2

    def g(x):
        return logsumexp(x)

    assert ad.grad(g)(X).shape == (3,)
    g.__code__ = (lambda x: np.sum(x * x)).__code__
    np.testing.assert_allclose(ad.grad(g)(X), 2 * X)


def test_local_functions_that_call_themselves_and_each_other():
    def power(x, n):
        return x * power(x, n - 1) if n else logsumexp(np.stack([x, x]))

    def odd(x, n):
        return x * even(x, n - 1)

    def even(x, n):
        return x * odd(x, n - 1) if n else logsumexp(np.stack([x, x]))

    class Tree:
        def __init__(self, below=None):
            self.below = below

        def total(self, x):
            own = logsumexp(np.stack([x, x])) * root.scale
            return own if self.below is None else own + self.below.total(x)

    root = Tree(Tree(Tree()))
    root.scale = 2.0
    wanted = 2 * 1.5 * (1.5 + np.log(2.0)) + 1.5**2
    for f in (lambda x: power(x, 2), lambda x: even(x, 2), functools.partial(power, n=2), functools.partial(even, n=2)):
        for transform in (ad.grad, ad.jacfwd, lambda f: ad.grad(ad.checkpoint(f))):
            np.testing.assert_allclose(transform(f)(1.5), wanted)
    np.testing.assert_allclose(slope(root.total), 6.0)
    adopted = ad.adopt(power)
    np.testing.assert_allclose(ad.grad(lambda x: adopted(x, 2))(1.5), wanted)


REGISTRY, LISTED, ALIAS = {MODEL: 2.0, SHAPED: 3.0}, [SHAPED, MODEL], MODEL


def test_an_object_is_equal_to_itself():
    """Inside the function it is of a subclass: equal to the one outside wherever that is met, and one object for all names."""
    second = Weighted(2.0)

    def f(x):
        seen.append(MODEL)
        identity = [ALIAS is MODEL, MODEL is not SHAPED, type(MODEL) is Model, isinstance(MODEL, Model)]
        equality = [ALIAS == MODEL, LISTED[1] == MODEL, LISTED.index(MODEL) == 1, MODEL in set(LISTED), second == WEIGHTED]
        difference = [MODEL == SHAPED, MODEL == 3, LISTED[1] != MODEL, isinstance(MODEL, Shaped)]
        return MODEL.posterior(x) * REGISTRY[MODEL] * (all(identity) and all(equality) and not any(difference))

    seen = []
    np.testing.assert_allclose(ad.grad(f)(X), 2 * ad.grad(MODEL.posterior)(X))
    assert seen == [MODEL]
    assert hash(seen[0]) == hash(MODEL)
