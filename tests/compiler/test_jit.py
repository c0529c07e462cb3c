"""`jit`: compiled calls give what eager calls give, on every path, for all kinds of arguments."""

import gc
import json
import math
import pickle
import re
import threading
import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.calls import MOST_ENTRIES
from adjoint.compiler.jit import MOST_SPECIALIZATIONS, CompileWarning, Jitted
from adjoint.core.errors import CompilerError
from adjoint.core.tree import flatten
from adjoint.staging import guard

RNG = np.random.default_rng(0)


def same(f, *args, rtol=1e-12):
    """The compiled function agrees with the function, twice; it is really compiled."""
    compiled = ad.jit(f)
    for _ in range(2):
        got, want = compiled(*args), f(*args)
        a, b = flatten(got), flatten(want)
        assert a[1] == b[1]
        for x, y in zip(a[0], b[0], strict=True):
            assert np.shape(x) == np.shape(y)
            assert np.asarray(x).dtype == np.asarray(y).dtype
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-13)
    assert not compiled.eager
    return compiled


X = RNG.normal(size=(4, 3))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: 3.0,
        lambda x: (x, [x + 1, {"a": x.sum()}]),
        lambda x: np.sin(x) * np.exp(-x) + 2,
        lambda x: x.T @ x,
        lambda x: x @ x[0],
        lambda x: x[0] @ x[1],
        lambda x: np.stack([x, x]) @ x.T,
        lambda x: x[1:] - x[:-1],
        lambda x: x[::-1, ::2] * 2,
        lambda x: x.reshape(2, 6).T.reshape(-1),
        lambda x: x.sum(0) + x.mean(1).sum(),
        lambda x: x.max(axis=1, keepdims=True) - x.min(),
        lambda x: np.concatenate([x, x[:1] * 2], axis=0),
        lambda x: np.stack([x[0], x[1] ** 2], axis=1),
        lambda x: np.where(x > 0, x, x**3),
        lambda x: (x > 0).sum(),
        lambda x: np.any(x > 5, axis=0),
        lambda x: np.sort(x, axis=0),
        lambda x: np.nextafter(x, 9.0),  # no native form: called back
        lambda x: np.linalg.inv(x.T @ x),
        lambda x: x**0.5,
        lambda x: x**-2,
        lambda x: abs(x) ** 1.7,
        lambda x: np.broadcast_to(x[0], (2, 3)) + 1,
        lambda x: x.astype(np.float32) * 2,
        lambda x: np.maximum(x, 0.1) + np.sign(x) + np.floor(x),
        lambda x: x[np.array([2, 0]), np.array([1, 1])],
        lambda x: np.fft.fft(x).real,
        lambda x: np.zeros((0, 3)) * x[0],
        lambda x: x.sum(axis=()),
        lambda x: np.sum(x[:0], axis=0),
    ],
)
def test_the_pieces_of_programs(f):
    with np.errstate(all="ignore"):
        same(f, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) ** 2 * x),
        lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        lambda x: np.sum(x[::2] * 3) + np.prod(x[0]),
        lambda x: np.sum(np.tanh(x @ x.T)),
        lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x),
        lambda x: np.linalg.norm(x) + np.linalg.slogdet(x.T @ x)[1],
        lambda x: np.sum(np.where(x > 0, np.sqrt(abs(x)), 0.0)),
    ],
)
def test_derivatives(f):
    same(ad.value_and_grad(f), X, rtol=1e-11)
    same(ad.hessian(f), X[:2, :2], rtol=1e-10)
    same(lambda x, v: ad.jvp(f, (x,), (v,)), X, X[::-1])
    same(ad.vmap(ad.grad(lambda x: f(x))), np.stack([X, 2 * X]), rtol=1e-11)


@pytest.mark.parametrize("shape", [(70_001,), (300, 401), (401, 300), (3, 50_000), (50_000, 3)])
def test_large_arrays_in_pieces(shape):
    """Kernels that are cut, over every kind of reduction, agree with NumPy."""
    x = RNG.normal(size=shape)
    axes = [None, 0, -1] if len(shape) > 1 else [None]
    for axis in axes:

        def f(x, axis=axis):
            return np.exp(np.sin(x)), np.sum(np.exp(x) / 3, axis=axis), np.max(np.exp(x), axis=axis)

        compiled = same(f, x, rtol=1e-11)
    kernels = [s for s in compiled.lower(x).lowered.steps if hasattr(s, "chunks")]
    assert any(k.chunks > 1 for k in kernels)


def test_the_result_does_not_depend_on_the_number_of_threads():
    x = RNG.normal(size=300_000)
    f = ad.jit(lambda x: (np.sum(np.sin(x)), np.cumsum(x)[-1]))
    before = ad.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            ad.set_num_threads(count)
            results.append([f(x) for _ in range(20)])
    finally:
        ad.set_num_threads(before)
    assert len({r[0] for several in results for r in several}) == 1
    with pytest.raises(ValueError, match="a positive integer"):
        ad.set_num_threads(0)


def test_python_control_flow_is_guarded():
    @ad.jit
    def f(x):
        if x[0] > 0:
            return np.sum(np.sin(x))
        n = 0
        while x[n] < 0:
            n += 1
        return np.sum(x) * n

    for x in ([1.0, 2.0, 3.0], [-1.0, 2.0, 3.0], [-1.0, -2.0, 3.0], [2.0, 2.0, 3.0], [-5.0, 0.0, 3.0]):
        np.testing.assert_allclose(f(np.array(x)), f.f(np.array(x)))
    assert len(f.specializations) == 1
    assert len(next(iter(f.specializations.values()))) == 3
    assert "guard: the truth of a value was" in f.report()
    assert "test_jit.py:" in f.report()


def test_a_number_that_decides_how_often_a_loop_runs():
    def f(x, n):
        for _ in range(n):
            x = np.sin(x)
        return x

    compiled = ad.jit(f)
    for n in (0, 3, 5, 3):
        assert compiled(0.5, n) == pytest.approx(f(0.5, n))
    assert len(next(iter(compiled.specializations.values()))) == 3


def test_too_many_paths_run_eagerly_with_one_warning():
    f = ad.jit(lambda n: np.sum(np.ones(int(n))))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, MOST_SPECIALIZATIONS + 4):
            assert f(n) == n
    assert [w.category for w in seen] == [CompileWarning, CompileWarning]
    assert re.search(
        r"compiled again for the third time because int\(\) of a value changes \(test_jit.py:\d+\)", str(seen[0].message)
    )
    assert "more than 16 paths through the code at test_jit.py" in str(seen[1].message)


@pytest.mark.parametrize(
    "calls, why",
    [
        ([np.ones(n) for n in range(1, 5)], "the argument x has another shape"),
        ([np.ones(2, d) for d in (float, np.float32, int, np.int32)], "the argument x has another dtype"),
    ],
)
def test_the_third_recompile_for_one_reason_is_said_once(calls, why):
    f = ad.jit(lambda x: np.sum(x * 2))
    for x in calls[:3]:
        f(x)
    with pytest.warns(CompileWarning, match=why):
        f(calls[3])
    f(np.ones((2, 2)))
    assert "bytes of code" in f.report()


def test_random_draws_and_files_are_not_frozen(tmp_path):
    rng = np.random.default_rng(0)
    f = ad.jit(lambda x: x + rng.normal())
    with pytest.warns(CompileWarning, match="draws random numbers"):
        first = f(1.0)
    assert f(1.0) != first
    path = tmp_path / "numbers.txt"
    path.write_text("1.0 2.0")
    g = ad.jit(lambda x: x + np.loadtxt(path))
    with pytest.warns(CompileWarning, match="reads the file"):
        np.testing.assert_array_equal(g(1.0), [2.0, 3.0])
    path.write_text("3.0 4.0")
    np.testing.assert_array_equal(g(1.0), [4.0, 5.0])


def test_uncompilable_functions_run_eagerly_with_one_warning():
    f = ad.jit(lambda x: float(x) + 1)
    with pytest.warns(CompileWarning, match=r"float\(\)"):
        assert f(2.0) == 3.0
    assert f(3.0) == 4.0  # no second warning: warnings are errors here
    assert "runs eagerly" in f.report()


def test_errors_are_those_of_the_function():
    f = ad.jit(lambda x, y: x @ y)
    with pytest.raises(ValueError, match="mismatch"):
        f(np.ones(2), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError):
        ad.jit(np.linalg.inv)(np.zeros((2, 2)))
    inverse = ad.jit(np.linalg.inv)
    inverse(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        inverse(np.zeros((2, 2)))
    np.testing.assert_array_equal(inverse(2 * np.eye(2)), np.eye(2) / 2)


@pytest.mark.parametrize("bad", ["text", np.array(["a"]), np.array([None]), object()])
def test_arguments_that_are_not_numbers_are_named(bad):
    @ad.jit
    def f(x, y):
        return x

    with pytest.raises(TypeError, match=r"\by of f is"):
        f(1.0, bad)


def test_static_arguments():
    @ad.jit(static_argnames="how", static_argnums=1)
    def f(x, power, how="sum"):
        return getattr(np, how)(x**power)

    x = np.array([1.0, 2.0])
    assert f(x, 2) == 5.0
    assert f(x, 3, how="max") == 8.0
    assert len(f.specializations) == 2
    with pytest.raises(TypeError, match="hashable"):
        f(x, [1])


def test_dtypes_and_python_numbers_promote_as_in_numpy():
    x = np.array([1.5, 2.5], np.float32)
    same(lambda x, c: x * c, x, 2.0)
    same(lambda x, c: x < c, np.array([0.1], np.float32), 0.1)
    same(lambda x, c: x * c, x, np.float64(2.0))
    same(lambda x, n: x + n, np.array([1, 2]), 2)
    same(lambda x: x / 2, np.array([1, 2]))
    same(lambda x: x + x, np.array([True, False]))
    same(lambda x: x * 1j, np.array([1.0, 2.0]))
    same(lambda x: x + x, np.array([1, 2], np.uint8))
    same(ad.grad(lambda x: np.sum(x**2 * np.float32(3))), x, rtol=1e-6)


def test_views_fortran_order_and_reversed_arrays():
    f = ad.jit(lambda x: np.sum(x * np.arange(12.0).reshape(4, 3), axis=0))
    big = RNG.normal(size=(8, 6))
    for x in (X, np.asfortranarray(X), X[::-1], big[::2, ::2], big[:4, :3].copy().T.copy().T):
        np.testing.assert_allclose(f(x), f.f(x))
    assert len(f.specializations) == 1


def test_results_are_the_callers_own():
    constant = np.ones(3)
    f = ad.jit(lambda x: (x, constant, x))
    x = np.zeros(3)
    a, b, c = f(x)
    a += 1
    b += 1
    assert c.sum() == 0
    assert x.sum() == 0
    assert f(x)[1].sum() == 3


def test_inside_other_transforms_and_with_them_inside():
    f = ad.jit(lambda x: np.sum(np.sin(x) * x))
    np.testing.assert_allclose(ad.grad(f)(X), ad.grad(f.f)(X))
    np.testing.assert_allclose(ad.vmap(f)(X), [f.f(row) for row in X])
    np.testing.assert_allclose(ad.jit(ad.grad(f))(X), ad.grad(f.f)(X))
    np.testing.assert_allclose(ad.hessian(f)(X[0]), ad.hessian(f.f)(X[0]))


def test_in_place_writes():
    def f(x):
        a = anp.zeros((4, 3))
        a[:2] = x[:2] * 2
        b = a[0]
        b += 1
        a[a > 1] *= 3
        return a.sum() + b[1]

    compiled = ad.jit(f)
    np.testing.assert_allclose(compiled(X), f(X))
    np.testing.assert_allclose(ad.jit(ad.grad(f))(X), ad.grad(f)(X))


def test_many_threads_at_once():
    f = ad.jit(ad.value_and_grad(lambda x: np.sum(np.sin(x) * np.exp(-x))))
    xs = [RNG.normal(size=n) for n in (3, 2000, 100_000)]
    want = [f.f(x) for x in xs]
    wrong = []

    def run():
        for _ in range(10):
            for x, (value, slope) in zip(xs, want, strict=True):
                got = f(x)
                if not (np.allclose(got[0], value) and np.allclose(got[1], slope)):
                    wrong.append(x.shape)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_compiled_function_pickles_and_is_freed():
    f = pickle.loads(pickle.dumps(ad.jit(np.sin)))
    assert f(0.5) == pytest.approx(np.sin(0.5))
    for _ in range(3):
        ad.jit(lambda x: np.sum(np.exp(x)))(np.ones(10_000))
    gc.collect()


def test_methods():
    class Model:
        scale = 2.0

        @ad.jit(static_argnums=0)
        def energy(self, x):
            return self.scale * np.sum(x**2)

    assert Model().energy(np.ones(3)) == 6.0


def test_lower_shows_the_program():
    path = ad.jit(ad.grad(lambda x: np.sum(np.sin(x)))).lower(np.ones(1000))
    assert "cos" in str(path.graph)
    assert "kernel over (1000,)" in str(path.lowered)
    assert "define i32 @program" in path.native.text


def test_profile_gives_the_time_of_each_step():
    f = ad.jit(lambda x: np.sum(np.exp(x) @ np.exp(x).T, axis=0))
    x = RNG.normal(size=(60, 50))
    text = f.profile(x)
    assert "µs a call" in text.splitlines()[0]
    assert len(text.splitlines()) == 1 + len(f.lower(x).lowered.steps)
    assert "kernel over (60, 50)" in text
    assert "product" in text
    assert "test_jit.py" in text


def test_a_bug_of_the_compiler_is_not_hidden(monkeypatch):
    def broken(*args):
        raise IndexError("list index out of range")

    monkeypatch.setattr("adjoint.compiler.specialization.lower", broken)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "")
    with pytest.raises(
        ad.AdjointError, match=r"the compiler failed on <lambda>: IndexError: list index out of range.*report it"
    ) as caught:
        ad.jit(lambda x: x * 2.0)(3.0)
    assert isinstance(caught.value, RuntimeError)
    monkeypatch.setenv("ADJOINT_COMPILER_ERRORS", "eager")
    with pytest.warns(CompileWarning, match="runs eagerly: IndexError"):
        assert ad.jit(lambda x: x * 2.0)(3.0) == 6.0


def _of_ours(source):
    """A function whose code appears to be that of a module of the package."""
    return eval(compile(f"lambda *args, **kwargs: {source}", guard.__file__, "eval"), {"np": np})


_failing = _of_ours("[][0]")
_through_numpy = _of_ours("np.moveaxis(np.ones(2), 3, 0)")  # raised by Python code of NumPy, which ours has called


@pytest.mark.parametrize("fault", [_failing, _through_numpy])
@pytest.mark.parametrize(
    "transform",
    [
        ad.jit,
        lambda f: ad.jit(ad.grad(f)),
        lambda f: ad.grad(ad.jit(f)),
        lambda f: ad.jit(lambda x: ad.jvp(f, (x,), (x,))),
        lambda f: lambda x: ad.vmap(ad.jit(f))(np.array([x])),
    ],
    ids=["jit", "jit(grad)", "grad(jit)", "jit(jvp)", "vmap(jit)"],
)
def test_a_bug_of_staging_is_not_hidden(monkeypatch, fault, transform):
    def f(x):
        return np.sin(x) * 2.0

    expected = transform(f)(3.0)
    monkeypatch.setattr("adjoint.staging.guard.Guarded.process", fault)
    with pytest.raises(CompilerError, match=r"the compiler failed on .*: (IndexError: list index|AxisError: ).*report it"):
        transform(f)(3.0)
    monkeypatch.setenv("ADJOINT_COMPILER_ERRORS", "eager")
    with pytest.warns(CompileWarning, match="runs eagerly: (IndexError|AxisError)"):
        np.testing.assert_array_equal(transform(f)(3.0), expected)


def _strict_callee(x):
    if type(x).__name__ == "Traced":
        raise KeyError("a plain number is needed")
    return x * 2.0


@pytest.mark.parametrize(
    "f",
    [
        _strict_callee,
        lambda x: len(json.dumps(x)),
        math.gamma,
    ],
)
def test_functions_that_refuse_traced_values_run_eagerly(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        assert ad.jit(f)(3.0) == f(3.0)


def test_errors_of_the_function_are_its_own(monkeypatch):
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ad.jit(f)(3.0)
    monkeypatch.setattr("adjoint.staging.guard.Guarded.process", _failing)
    with pytest.raises(KeyError, match="mine"):  # also where staging fails before
        ad.jit(lambda x: f(np.sin(x)))(3.0)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.clongdouble])
def test_dtypes_without_native_code_run_eagerly(dtype):
    x = np.ones(3, dtype)
    f = ad.jit(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        y = f(x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["programs are quick", "programs are slow"])
@pytest.mark.parametrize("keywords", [False, True])
def test_programs_that_take_longer_to_try_than_the_function_are_not_tried(monkeypatch, seconds, keywords):
    def f(x):
        total = 0.0
        while total < x[0]:
            total = total + x[1]
        return total * x[1]

    monkeypatch.setattr("adjoint.compiler.comparison.time_of_tries", lambda known, leaves: seconds)
    compiled, calls = ad.jit(f), []
    monkeypatch.setattr(Jitted, "_eagerly", lambda self, args, kwargs: calls.append(1) or self.f(*args, **kwargs))
    call = (lambda x: compiled(x=x)) if keywords else compiled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for n in range(1, MOST_SPECIALIZATIONS + 20):
            x = np.array([n - 0.5, 1.0])
            assert call(x) == f(x) == n
    calls.clear()
    for n in range(1, MOST_SPECIALIZATIONS + 1):  # paths that were compiled
        assert call(np.array([n - 0.5, 1.0])) == n
    tried = MOST_SPECIALIZATIONS - len(calls)
    assert tried == 0 if seconds else tried >= MOST_ENTRIES
    calls.clear()
    assert call(np.array([0.5, 1.0, 7.0])) == 1  # another signature is compiled as before
    assert not calls
