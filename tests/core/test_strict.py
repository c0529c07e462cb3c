"""np.errstate and filters of warnings: where they make an operation raise, a compiled function raises too."""

import sys
import threading
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.strict import raises


@pytest.mark.parametrize("how", ["raise", "call"])
def test_states_that_act(how):
    assert not raises()
    with np.errstate(divide=how):
        assert raises()
        with np.errstate(all="ignore"):
            assert not raises()
        assert raises()
    assert not raises()


@pytest.mark.parametrize("kind", ["ignore", "warn", "print"])
def test_states_that_do_not(kind):
    with np.errstate(all=kind):
        assert not raises()


def test_set_inside_the_function():
    def f(x):
        with np.errstate(divide="raise", invalid="raise"):
            try:
                return np.sum(1.0 / x)
            except FloatingPointError:
                return np.sum(x) - 5.0

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match=r"np.errstate .*test_strict.py:\d+"):
        assert compiled(np.ones(3)) == 3.0
    assert compiled(np.zeros(3)) == -5.0


def test_warnings_are_errors_inside_the_function():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return np.log(x)
            except RuntimeWarning:
                return x - 5.0

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning, match="filter of warnings"):
        compiled(np.float64(1.0))
    assert compiled(np.float64(0.0)) == -5.0


def test_set_around_the_call():
    f, g = ad.jit(lambda x: 1 / x), ad.jit(np.exp)
    for _ in range(2):
        assert np.all(np.isinf(f(np.zeros(2))))
        with np.errstate(all="raise"):
            with pytest.raises(FloatingPointError):
                f(np.zeros(2))
            with pytest.raises(FloatingPointError):
                g(1000.0)
            assert f(np.ones(2))[0] == 1.0
        with np.errstate(all="ignore"):
            assert np.all(np.isinf(f(np.zeros(2))))
    seen = []
    with np.errstate(all="call", call=lambda *error: seen.append(error)):
        f(np.zeros(2))
    assert seen == [("divide by zero", 1)]


def test_other_threads_have_their_own_state():
    f = ad.jit(lambda x: 1 / x)
    f(np.ones(2))
    found = []

    def raises(function):
        try:
            return not np.all(np.isinf(function(np.zeros(2))))
        except FloatingPointError:
            return True
        except RuntimeWarning:
            return False

    with np.errstate(all="raise"):  # which a new thread inherits in the free-threaded build
        thread = threading.Thread(target=lambda: found.extend([raises(f), raises(f.__wrapped__)]))
        thread.start()
        thread.join()
        assert raises(f)
    assert found[0] is found[1]


def test_functions_that_only_ignore_are_compiled():
    @ad.jit
    def f(x):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x > 0, np.log(x), 0.0)

    np.testing.assert_array_equal(f(np.array([0.0, 1.0])), [0.0, 0.0])
    assert not f.eager


def test_threads_with_states_of_their_own():
    """Each asks while the others make new states known."""
    failed, interval = [], sys.getswitchinterval()

    def ask():
        try:
            for n in range(3000):
                with np.errstate(divide="raise" if n % 3 == 0 else "ignore", over="print" if n % 2 else "warn"):
                    assert raises() == (n % 3 == 0)
        except BaseException as error:
            failed.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
