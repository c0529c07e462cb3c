"""NumPy's floating-point warnings name the user's line, whatever transform runs."""

import threading
import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.jit import CompileWarning

#: One line each: what is computed at 0, and what NumPy warns of.
LINES = {
    "log": (lambda x: np.log(x), "divide by zero encountered in log"),
    "exp": (lambda x: np.exp(x + 1000.0), "overflow encountered in exp"),
    "divide": (lambda x: np.divide(x + 1.0, 0.0), "divide by zero encountered in"),
    "divide by it": (lambda x: np.divide(1.0, x), "divide by zero encountered in"),
    "multiply": (lambda x: np.multiply(x + 1e200, 1e200), "overflow encountered in"),
    "power": (lambda x: np.power(x - 1.0, 0.5), "invalid value encountered in"),
    "sqrt": (lambda x: np.sqrt(x - 1.0), "invalid value encountered in sqrt"),
    "drop-in": (lambda x: anp.log(anp.array([x, x]))[0], "divide by zero encountered in log"),
    "remainder": (lambda x: np.remainder(x + 1.0, 0.0), "invalid value encountered in"),
    "floor_divide": (lambda x: x + np.floor_divide(x + 1.0, 0.0), "divide by zero encountered in"),
}

ZERO = np.float64(0.0)  # Python's own arithmetic, on Python's numbers, does not warn

RUNS = {
    "grad": lambda f: ad.grad(f)(ZERO),
    "elementwise_grad": lambda f: ad.elementwise_grad(f)(np.zeros(3)),
    "jvp": lambda f: ad.jvp(f, (ZERO,), (1.0,)),
    "vmap": lambda f: ad.vmap(f)(np.zeros(3)),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f))(np.zeros(3)),
    "hessian": lambda f: ad.hessian(f)(ZERO),
    "forward over reverse": lambda f: ad.jvp(ad.grad(f), (ZERO,), (1.0,)),
    "imperative": lambda f: f(ad.array(0.0, requires_grad=True)),
}


def caught(run, action="always"):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        run()
    return found


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("line", LINES)
def test_the_line_of_the_user_is_named(run, line):
    f, text = LINES[line]
    found = caught(lambda: RUNS[run](f))
    assert found
    assert any(str(w.message).startswith(text) for w in found)
    for w in found:
        assert w.category is RuntimeWarning
        assert (w.filename, w.lineno) == (__file__, f.__code__.co_firstlineno)


def test_the_words_are_numpys():
    for f, _ in LINES.values():
        plain = caught(lambda f=f: f(np.float64(0.0)))
        traced = caught(lambda f=f: ad.grad(f)(np.float64(0.0)))
        words = [str(w.message).replace("scalar ", "") for w in traced]
        assert [str(w.message).replace("scalar ", "") for w in plain] == words


def test_one_line_does_not_hide_another():
    def f(x):
        y = np.log(x)
        return y + np.log(x)

    found = caught(lambda: [ad.grad(f)(0.0) for _ in range(3)], "default")
    assert sorted(w.lineno - f.__code__.co_firstlineno for w in found) == [1, 2]
    assert "__warningregistry__" in globals()  # where Python keeps what it has shown of a module


def test_filters_see_the_module_of_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", category=RuntimeWarning, module=__name__.replace(".", r"\."))
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            ad.grad(LINES["log"][0])(0.0)


@pytest.mark.parametrize("f", [lambda x: np.log(x), lambda x: np.divide(1.0, x), lambda x: np.exp(1000.0 + x)])
def test_modes_of_the_user_hold(f):
    with np.errstate(all="ignore"):
        assert not caught(lambda: ad.grad(f)(0.0))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        ad.grad(f)(0.0)
    calls = []
    with np.errstate(all="call", call=lambda kind, flag: calls.append(kind)):
        assert not caught(lambda: ad.grad(f)(0.0))
    assert len(calls) == 1

    def quiet(x):
        with np.errstate(all="ignore"):
            return f(x)

    assert not caught(lambda: ad.grad(quiet)(0.0))

    def strict(x):
        with np.errstate(all="raise"):
            return f(x)

    with pytest.raises(FloatingPointError):
        ad.grad(strict)(0.0)
    assert len(caught(lambda: ad.grad(f)(0.0))) == 1


def test_modes_are_as_before_afterwards():
    before = np.geterr(), np.geterrcall()
    ad.grad(lambda x: np.exp(x))(0.0)
    ad.vmap(ad.grad(lambda x: np.exp(x)))(np.zeros(2))
    with pytest.raises(ValueError, match="no"):
        ad.grad(_fails)(0.0)
    assert (np.geterr(), np.geterrcall()) == before


def _fails(x):
    raise ValueError("no")


def test_settings_of_the_function_stay():
    handler = lambda kind, flag: None

    def f(x):
        np.seterr(divide="raise")
        np.seterrcall(handler)
        return x

    with np.errstate():
        before = np.geterr()
        ad.grad(f)(0.0)
        assert np.geterr() == {**before, "divide": "raise"}
        assert np.geterrcall() is handler


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("around", ["warn", "ignore", "raise"])
def test_modes_that_the_function_sets(run, around):
    """np.errstate(all="warn") and np.seterr inside of a function name its lines as well, and are as the user left them."""

    def within(x):
        with np.errstate(all="warn", under="ignore"):
            y = np.log(np.exp(x) - 1.0)
            with np.errstate(divide="ignore"):
                y = y + np.divide(1.0, x)
            return y + np.divide(1.0, x)

    def lasting(x):
        np.seterr(all="warn", under="ignore")
        return np.log(np.exp(x) - 1.0)

    first, last = within.__code__.co_firstlineno, lasting.__code__.co_firstlineno
    with np.errstate(all=around):
        before = np.geterr(), np.geterrcall()
        found = caught(lambda: RUNS[run](within))
        assert {w.lineno - first for w in found if "divide by zero" in str(w.message)} == {2, 5}
        assert {w.filename for w in found} == {__file__}
        assert (np.geterr(), np.geterrcall()) == before
        found = caught(lambda: RUNS[run](lasting))
        assert {(w.filename, w.lineno - last) for w in found} == {(__file__, 2)}
        assert np.geterrcall() is before[1]
        assert np.geterr() == {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


HANDLER = lambda kind, flag: None
#: What a function does to NumPy's modes.
SETTINGS = {
    "nothing": lambda: seen(),
    "errstate": lambda: [seen(), *within(lambda: np.errstate(divide="raise", over="warn")), seen()],
    "nested": lambda: within(lambda: np.errstate(all="ignore"), lambda: within(lambda: np.errstate(invalid="print"))),
    "a handler": lambda: within(lambda: np.errstate(all="call", call=HANDLER)),
    "a decorator": lambda: np.errstate(divide="call", over="ignore", call=HANDLER)(seen)(),
    "seterr": lambda: [np.seterr(under="warn", over="print"), seen(), np.seterr(all="warn"), seen()],
    "seterr and back": lambda: [old := np.seterr(all="ignore"), seen(), np.seterr(**old), seen()],
    "seterrcall": lambda: [np.seterrcall(HANDLER), seen(), np.seterrcall(None), seen()],
}


def seen():
    return np.geterr(), np.geterrcall()


def within(modes, inner=list):
    with modes():
        np.exp(np.float64(0.0))
        return [seen(), *inner(), seen()]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "around", [{}, {"all": "ignore"}, {"all": "raise"}, {"over": "print", "divide": "call", "call": HANDLER}]
)
def test_the_function_sees_its_own_modes(setting, around):
    """As without a transform: inside it, after operations, and afterwards."""
    expected = None
    for run in (lambda f: f(ZERO), *RUNS.values(), lambda f: ad.jit(f)(ZERO), lambda f: ad.jit(ad.grad(f))(ZERO)):
        with np.errstate(**around), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = []

            def f(x, found=found):
                found.append([seen(), SETTINGS[setting](), (np.sin(x), seen())[1]])
                return np.cos(x) * 2.0

            run(f)
            found = [found[-1], seen()]
            expected = expected or found
            assert found == expected


def test_a_compiled_function_asks_for_the_modes_and_sets_them():
    f = lambda x: x * (2.0 if np.geterr()["divide"] == "warn" else 3.0)
    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match="reads NumPy's modes"):
        assert compiled(1.0) == 2.0
    with np.errstate(divide="ignore"):
        assert compiled(1.0) == 3.0

    def lasting(x):
        np.seterr(invalid="ignore")
        return x * 2.0

    compiled = ad.jit(lasting)
    with np.errstate(invalid="warn"):
        with pytest.warns(CompileWarning, match="changes NumPy's modes"):
            assert compiled(1.0) == 2.0
        for _ in range(2):
            np.seterr(invalid="warn")
            assert compiled(1.0) == 2.0
            assert np.geterr()["invalid"] == "ignore"


def test_in_threads():
    found = []

    def work():
        ad.grad(LINES["log"][0])(0.0)
        found.append(np.geterr()["divide"])

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == ["warn"] * 4
    assert {w.filename for w in seen} == {__file__}


def test_the_backward_pass_is_silent():
    assert not caught(lambda: ad.grad(lambda x: np.sqrt(x))(0.0))
    assert not caught(lambda: ad.derivative(lambda x: np.sqrt(x))(0.0))
