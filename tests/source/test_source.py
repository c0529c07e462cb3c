"""Loops and branches of the source: what they become, and that nothing else changes."""

from __future__ import annotations

import functools
import math
import threading
import time
import traceback
import warnings

import numpy as np
import pytest
from looped import defined

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.jit import CompileWarning
from adjoint.source.running import FEW


def became(compiled, line_text: str = "") -> str:
    """The lines of a report that say what became of the source."""
    return "\n".join(line.strip() for line in compiled.report().splitlines() if any(w in line for w in _OUTCOMES))


_OUTCOMES = (": for ", ": while ", ": if ", ": def ")


def same(f, *args, by=0, programs=1, gradient=True):
    """Check values and gradients against Python's; the compiled function of the values."""
    calls = args if isinstance(args[0], tuple) else (args,)
    value = ad.jit(f, source=True)
    slope = ad.jit(ad.grad(f, by), source=True) if gradient else None
    for call in calls:
        expected = f(*call)
        found = value(*call)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=value.report())
        if slope is not None:
            np.testing.assert_allclose(slope(*call), ad.grad(f, by)(*call), rtol=1e-8, atol=1e-10, err_msg=slope.report())
    assert not value.eager, value.report()
    assert sum(map(len, value.specializations.values())) == programs, value.report()
    return value


# -- what a loop runs over ---------------------------------------------------------------------------------------------

HEADS = {
    "range(n)": "i",
    "range(2, n)": "i",
    "range(n, 2, -1)": "i",
    "range(0, 3 * n, 3)": "i",
    "range(n, -n, -4)": "i",
    "range(12)": "i",
    "range(20, 1, -2)": "i",
    "range(len(b))": "i",
    "reversed(range(n))": "i",
    "reversed(range(1, 24, 2))": "i",
    "enumerate(b)": "i, v",
    "enumerate(b, 3)": "i, v",
    "enumerate(b, start=n)": "i, v",
    "enumerate(range(n), 1)": "v, i",
    "b": "v",
    "reversed(b)": "v",
    "b[1:]": "v",
    "c": "(v, w)",
    "zip(b, c)": "v, (w, u)",
    "zip(b, range(n))": "v, i",
    "zip(range(n), range(1, 20))": "i, j",
    "zip(b, c[::-1], range(40, 0, -1))": "v, w, i",
    "enumerate(zip(b, b[2:]))": "i, (v, w)",
}


@pytest.mark.parametrize("head", HEADS)
def test_what_a_loop_runs_over(head):
    used = " + ".join(name.strip("() ") for name in HEADS[head].split(","))
    text = f"""
def f(x, b, c, n):
    total = 0
    for {HEADS[head]} in {head}:
        total = 0.9 * total + np.sum(np.sin(x * ({used})))
    return total
"""
    rng = np.random.default_rng(0)
    b, c = rng.normal(size=10), rng.normal(size=(11, 2))
    value = same(defined(text), (0.3, b, c, 9), (0.7, b, c, 12), (-0.2, b, c, 4))
    assert "for became" in became(value)


@pytest.mark.parametrize("count", [0, 1, FEW - 1, FEW, FEW + 1, 50])
def test_a_short_loop_is_unrolled(count):
    f = defined(f"def f(x):\n    for i in range({count}):\n        x = np.sin(x) + i\n    return x\n")
    value = same(f, 0.3)
    assert ("became a scan" in became(value)) == (count >= FEW)
    assert ("is unrolled" in became(value)) == (0 < count < FEW)


def test_any_count_is_one_program():
    def f(x, n):
        s = 0.0
        for i in range(n):
            s += np.sin(x * i) / (i + 1)
        return s

    value = same(f, (0.3, 10), (0.3, 0), (0.3, 1), (0.1, 1000), (0.2, -5))
    assert "became a while_loop that counts" in became(value)


def test_a_long_loop_is_staged_at_once():
    def f(x, n):
        for _ in range(n):
            x = x + 1e-6 * np.sin(x)
        return x

    def g(x):
        k = 0
        while k < 10**6:
            x = x + 1e-6 * np.sin(x)
            k += 1
        return x

    ad.jit(lambda x: x + 1.0)(0.0)  # loads the compiler
    for call in (lambda: ad.jit(ad.grad(f), source=True)(0.5, 10**6), lambda: ad.jit(g, source=True)(0.5)):
        began = time.process_time()  # whatever else the machine does
        call()
        assert time.process_time() - began < 1


def test_one_program_for_any_count():
    def f(x, n):
        k = 0
        while k < n:
            x = x + 0.1 * np.sin(x)
            k += 1
        for i in range(n):
            if x > 2:
                break
            x = x * 1.01 + i * 1e-3
        return x

    for g in (f, ad.grad(f)):
        compiled = ad.jit(g, source=True)
        for n in (0, 1, 7, 8, 100, 1000):
            assert np.isclose(compiled(0.5, n), g(0.5, n), rtol=1e-12)
        assert sum(map(len, compiled.specializations.values())) == 1


# -- the state of a loop -----------------------------------------------------------------------------------------------


def test_types_of_the_state_are_widened():
    def f(x, n):
        total, count, flag = 0, 0, False
        for i in range(n):
            if x * i > 1:
                total += x * i
                count += 1
                flag = True
        return total + count + flag + 0.5 * x

    same(f, (0.3, 10), (0.3, 2), (2.0, 20))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32"])
@pytest.mark.parametrize("start", ["0", "0.0", "1j", "np.zeros(3)", "np.float32(0)", "x[0]"])
def test_dtypes_are_those_of_python(dtype, start):
    f = defined(f"""
def f(x, n):
    total, factor = {start}, 0.5
    for i in range(n):
        total = total + x * factor + i
        factor = factor * 0.9
    return total * factor, factor
""")
    x = np.arange(1, 4).astype(dtype)
    expected, found = f(x, 9), ad.jit(f, source=True)(x, 9)
    assert found[0].dtype == expected[0].dtype
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_a_shape_that_changes_in_the_first_iteration():
    def f(x, n):
        total = 0.0
        for i in range(10):
            total = total + x * i
        return np.sum(total)

    value = same(f, np.ones(3), 9)
    assert "after 1 that run" in became(value)


def test_variables_that_the_loop_assigns_first():
    def f(x, n):
        for i in range(n):
            t = x * i
            last = np.sin(t)
        return last + i

    value = same(f, (0.3, 10), (0.4, 3))
    with pytest.raises(NameError):
        value(0.3, 0)


def test_the_variable_of_the_loop_afterwards():
    def f(x):
        i = 100
        for i in range(3, 40, 5):
            x = x + 0.1 * i
        for j in range(0):
            x = x * 100
        return x * i

    same(f, 0.5)


def test_containers():
    def f(x, n):
        pos, vel = {"x": x, "y": 0.5}, [1.0, np.ones(2)]
        pair = (x, 0)
        for i in range(n):
            pos["x"] = pos["x"] + 0.1 * vel[0]
            vel[0] = vel[0] - 0.1 * np.sin(pos["x"])
            vel[1] = vel[1] * 0.5 + pos["y"]
            pair = (pair[1] + 0.1, pair[0])
        return pos["x"] + vel[0] + np.sum(vel[1]) + pair[0]

    value = same(f, (0.3, 10), (0.3, 20))
    assert "became a while_loop" in became(value)


def test_another_name_of_a_container_sees_the_loop():
    def f(x, n):
        a = [x, 1.0]
        b = a
        for i in range(n):
            a[0] = a[0] * 0.9 + i
        return b[0]

    same(f, (0.3, 10), (0.3, 20))


def test_arrays_written_in_place():
    def f(x, n):
        a, b = anp.zeros((6, 4)), anp.zeros(6)
        view = a
        for i in range(n):
            a[i % 6, i % 4] += x * i
            a[i % 6] *= 0.9
            a[-1, 2] = np.sin(a[i % 6, 1])
            b += a[:, 0]
        return np.sum(a * view) + np.sum(b**2)

    value = same(f, (0.3, 10), (0.3, 20))
    assert "is the same array" in became(value) or "became" in became(value)


def test_a_view_taken_before_the_loop_sees_it():
    def f(x):
        a = anp.zeros(6)
        part = a[2:]
        for i in range(12):
            a[i % 6] += x * i
        return np.sum(part**2)

    same(f, 0.5)


def test_a_view_that_the_loop_writes_to():
    def f(x):
        a = anp.zeros(6)
        part = a[2:]
        for i in range(12):
            part[i % 4] = x * i + a[2]
        return np.sum(a**2)

    value = same(f, 0.5)
    assert "view of another array" in became(value)


def test_an_array_that_a_called_function_writes_to():
    def put(a, i, v):
        a[i] = v

    def f(x):
        a = anp.zeros(6)
        for i in range(12):
            put(a, i % 6, x * i)
        return np.sum(a**2)

    value = same(f, 0.5)
    assert "became a scan" in became(value)


def test_plain_arrays_of_integers():
    def f(x):
        counts = np.zeros(4, int)
        for i in range(20):
            counts[i % 4] += 1
        return x * np.sum(counts * np.arange(4))

    assert "became a scan" in became(same(f, 0.5))


# -- branches ----------------------------------------------------------------------------------------------------------


def test_branches_are_conds():
    def f(x, y):
        if x > 0:
            z = np.log1p(x)
        elif y > 1:
            z = x * y
        else:
            z = 0
        w = z if z > y else y * 2
        return w * z

    value = same(f, (1.0, 2.0), (-1.0, 2.0), (-1.0, 0.5), (3.0, 0.1))
    assert "if became a cond" in became(value)


def test_returns():
    def f(x, y):
        if x > 2:
            return x * y
        t = x + y
        if t > 1:
            if y > 0:
                return t**2
            t = t + 1
        return np.sin(t)

    same(f, (3.0, 1.0), (1.0, 1.0), (2.0, -0.5), (0.1, 0.2))


def test_both_operands_are_not_needed():
    def f(x, i):
        if (i < 3 and x[i] > 0) or x[0] > 5:
            return x[0] * 2
        return x[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        value = ad.jit(f, source=True)
        x = np.array([1.0, -2.0, 3.0])
        assert [value(x, i) for i in (0, 1, 2, 7)] == [f(x, i) for i in (0, 1, 2, 7)]


@pytest.mark.parametrize("way", ["raise", "assert"])
def test_errors_are_raised(way):
    check = {"raise": "        if x > 5:\n            raise ValueError('large')\n", "assert": "        assert x <= 5, 'large'\n"}[
        way
    ]
    f = defined(f"def f(x, n):\n    for i in range(n):\n        x = x + 0.5\n{check}    return x\n")
    value = same(f, (0.5, 9), (1.0, 4))
    with pytest.raises((ValueError, AssertionError), match="large"):
        value(0.5, 10)
    assert value(0.5, 8) == f(0.5, 8)


def test_recursion():
    def f(x, n):
        if n == 0:
            return x
        return np.sin(f(x, n - 1))

    same(f, (0.5, 3), (0.5, 5), programs=2)


def test_a_recursion_that_depends_on_the_value():
    def f(x):
        if x > 10.0:
            return x
        return f(x * 2.0)

    value = ad.jit(f, source=True)
    assert [value(x) for x in (1.0, 3.0, 11.0)] == [f(x) for x in (1.0, 3.0, 11.0)]


# -- break and continue ------------------------------------------------------------------------------------------------


def test_break_and_continue():
    def f(x, n):
        s = 0.0
        for i in range(n):
            if i % 3 == 1:
                continue
            s += x * i
            if s > 5:
                if i > 4:
                    break
                s -= 1
            s *= 1.01
        else:
            s = -s
        return s + i

    value = same(f, (0.3, 10), (2.0, 10), (0.1, 12), (0.1, 3))
    assert "with break" in became(value)


def test_while_true():
    def f(x, n):
        k = 0
        while True:
            k += 1
            x = x * 0.5 + 1
            if k >= n or x > 1.99:
                break
        return x

    same(f, (0.3, 10), (2.0, 1), (0.1, 3))


def test_newton():
    def root(a):
        x = 1.0
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    slope = ad.jit(ad.grad(root), source=True)
    for a in (2.0, 9.0, 100.0):
        np.testing.assert_allclose(slope(a), 0.5 / np.sqrt(a), rtol=1e-6)
    assert sum(map(len, slope.specializations.values())) == 1
    assert "while became a while_loop" in became(slope)


# -- what is left to run -----------------------------------------------------------------------------------------------


def test_a_return_in_the_middle():
    def f(x, n):
        for i in range(n):
            x = x + 0.5
            if x > 3:
                return x * 2
        return x

    value = same(f, (0.1, 10), (0.2, 10), (0.2, 3), (0.2, 0))
    assert "for became a while_loop that counts, with break" in became(value)
    assert value.report().count("specialization") == 1


def test_lists_that_grow():
    def f(x):
        found = []
        for i in range(10):
            found.append(x * i)
        return sum(found)

    value = same(f, 0.3)
    assert "for runs in Python: it changes found" in became(value)


def test_objects_that_change():
    class Counter:
        def __init__(self):
            self.n = 0

    def f(x):
        c = Counter()
        for i in range(10):
            c.n += 1
            x = x * 0.9
        return x * c.n

    value = same(f, 0.3)
    assert "for became a scan of 10 iterations" in became(value)


def test_a_test_that_raises():
    """A test may raise in any iteration, the first or the last: the program raises where Python does, and only there."""

    def f(x, k, step):
        while 1.0 / k > 0.1:
            x, k = x * 0.5, k + step
        return x

    compiled, slope = ad.jit(f, source=True), ad.jit(ad.grad(f), source=True)
    for call in ((3.0, 2, 1), (3.0, 20, 1), (5.0, 9, 3)):
        assert compiled(*call) == f(*call)
        assert slope(*call) == ad.grad(f)(*call)
    assert "while became a while_loop" in became(compiled)
    for call in ((3.0, 2, -1), (3.0, 0, 1)):
        with pytest.raises(ZeroDivisionError):
            f(*call)
        with pytest.raises(ZeroDivisionError):
            compiled(*call)


def test_a_program_with_objects_reads_like_the_source():
    class Spring:
        def __init__(self, k):
            self.k, self.x, self.v = k, 1.0, 0.0

    def f(k):
        s = Spring(k)
        for i in range(10):
            s.v = s.v - 0.1 * s.k * s.x
            s.x = s.x + 0.1 * s.v
        return s.x

    text = ad.graph(f, source=True)(2.0).python()
    space = {}
    exec(text, space)
    assert space["f"](2.0) == f(2.0)
    assert "for" in text


def test_slices_with_moving_bounds():
    def f(x):
        s = 0.0
        for i in range(1, 10):
            s += np.sum(x[:i])
        return s

    value = same(f, np.arange(10.0))
    assert "for runs in Python" in became(value)


def test_a_generator():
    def numbers(x):
        for i in range(10):
            yield x * i

    def f(x):
        return sum(numbers(x))

    value = same(f, 0.3)
    assert "def numbers is left as it is: it is a generator" in became(value)


def test_a_loop_over_a_dict():
    def f(x):
        s = 0.0
        for key, w in {"a": 1.0, "b": 2.0}.items():
            s += x * w
        return s

    assert "for runs in Python: it runs over a dict_items" in became(same(f, 0.3))


def test_a_loop_that_prints(capsys):
    def f(x):
        for i in range(9):
            x = x * 0.5
            print("iteration", i)
        return x

    value = same(f, 0.3, gradient=False)
    assert "it prints" in became(value)
    assert capsys.readouterr().out.count("iteration 8") == 2


def test_a_loop_with_try():
    def f(x):
        for i in range(9):
            try:
                x = x + 1.0 / i
            except ZeroDivisionError:
                x = x * 2
        return x

    assert "for runs in Python: it contains try" in became(same(f, 0.3))


def test_a_global_that_a_loop_assigns():
    f = defined("""
count = 0
def f(x):
    global count
    for i in range(9):
        count = count + 1
        x = x * 0.5
    return x
""")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        value = ad.jit(f, source=True)
        assert value(1.0) == f(1.0)
        assert value(1.0) == f(1.0)
    assert f.__globals__["count"] == 4 * 9


# -- functions ---------------------------------------------------------------------------------------------------------


def helper(x, j):
    if j > 4:
        return x * 0.5
    return np.sin(x)


scale = 0.5
table = np.arange(12.0)


def test_functions_that_are_called():
    inner = functools.partial(helper, j=3)

    def f(x, n):
        local = lambda u: helper(u, n) if u > 0 else inner(u)

        def nested(v):
            for i in range(10):
                v = v + 0.1 * local(v) * scale
            return v

        for i in range(n):
            x = nested(x) + table[i]
        return x

    value = same(f, (0.3, 9), (0.3, 3))
    assert became(value).count("for became") == 2


def test_places_outside_are_still_seen():
    text = "def f(x):\n    for i in range(10):\n        x = x * rate + data[i]\n    return x\n"
    f = defined(text, rate=0.5, data=np.arange(10.0))
    value = ad.jit(f, source=True)
    for rate, data in [(0.5, np.arange(10.0)), (0.25, np.arange(10.0)), (0.75, np.ones(10))]:
        f.__globals__.update(rate=rate, data=data)
        np.testing.assert_allclose(value(1.0), f(1.0))


def test_variables_of_an_enclosing_function():
    rate = 0.5

    def f(x):
        for i in range(10):
            x = x * rate + i
        return x

    value = ad.jit(f, source=True)
    assert value(1.0) == f(1.0)
    rate = 0.25
    assert value(1.0) == f(1.0)


class Model:
    __factor = 2.0

    def __init__(self, w):
        self.w = w
        self.__decay = 0.9

    def step(self, x):
        return x * self.__decay + self.w * self.__factor

    def run(self, x, n=10):
        for _ in range(n):
            x = self.step(x)
        return x

    @staticmethod
    def twice(x):
        return 2 * x

    def __call__(self, x):
        for _ in range(9):
            x = self.twice(x) * 0.25
        return x


class Special(Model):
    def run(self, x, n=10):
        x = super().run(x, n)
        for _ in range(n):
            x = np.sin(x)
        return x


@pytest.mark.parametrize("cls", [Model, Special])
def test_methods(cls):
    model = cls(0.3)
    value = ad.jit(model.run, source=True)
    np.testing.assert_allclose(value(0.5), model.run(0.5))
    model.w = 0.7
    np.testing.assert_allclose(value(0.5), model.run(0.5))
    assert "for became a scan of 10 iterations" in became(value)
    value = ad.jit(model, source=True)
    np.testing.assert_allclose(value(0.5), model(0.5))
    assert "for became a scan of 9 iterations" in became(value)


def test_two_lambdas_on_one_line():
    fs = [lambda x: helper(x, 1), lambda x: helper(x, 9) + 1]
    for f in fs:
        assert ad.jit(f, source=True)(0.5) == f(0.5)


def test_defaults_and_keywords():
    def f(x, n=12, *, rate=0.5, **rest):
        for i in range(n):
            x = x * rate + rest.get("shift", 0)
        return x

    value = ad.jit(f, source=True)
    assert value(1.0) == f(1.0)
    assert value(1.0, rate=0.25) == f(1.0, rate=0.25)
    assert value(1.0, shift=1.0) == f(1.0, shift=1.0)


def test_the_function_is_not_touched():
    def f(x):
        for i in range(10):
            x = x * 0.5
        return x

    code = f.__code__
    ad.jit(f, source=True)(1.0)
    assert f.__code__ is code


# -- inside other transforms -------------------------------------------------------------------------------------------


def cubed(x, n):
    y = x
    for i in range(n):
        y = y * 0.5 + x**3 * i if y < 4 else y - 1
    return y


@pytest.mark.parametrize("n", [3, 20])
def test_higher_derivatives(n):
    for transform in (
        ad.grad,
        ad.hessian,
        lambda f: ad.grad(ad.grad(f)),
        lambda f: lambda *a: ad.jvp(lambda x: f(x, a[1]), a[:1], (1.0,))[1],
    ):
        expected = transform(cubed)(0.7, n)
        np.testing.assert_allclose(ad.jit(transform(cubed), source=True)(0.7, n), expected, rtol=1e-9)


def test_batches():
    xs = np.linspace(-1, 2, 7)
    batched = ad.jit(ad.vmap(cubed, (0, None)), source=True)
    np.testing.assert_allclose(batched(xs, 12), [cubed(x, 12) for x in xs], rtol=1e-12)


def test_an_eager_gradient_of_a_compiled_function():
    compiled = ad.jit(cubed, source=True)
    np.testing.assert_allclose(ad.grad(compiled)(0.7, 20), ad.grad(cubed)(0.7, 20), rtol=1e-12)


def test_a_gradient_inside_a_loop():
    def f(x, n):
        for i in range(n):
            x = x - 0.1 * ad.grad(lambda u: cubed(u, 9))(x)
        return x

    value = ad.jit(f, source=True)
    np.testing.assert_allclose(value(0.3, 10), f(0.3, 10), rtol=1e-10)


def test_threads():
    found = {}

    def work(n):
        found[n] = ad.jit(cubed, source=True)(0.7, n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8, 14)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {n: pytest.approx(cubed(0.7, n)) for n in range(8, 14)}


def test_tracebacks_show_the_source():
    text = "def f(x, n):\n    for i in range(n):\n        x = x + undefined_name\n    return x\n"
    with pytest.raises(NameError) as caught:
        ad.jit(defined(text), source=True)(1.0, 10)
    assert "x = x + undefined_name" in "".join(traceback.format_exception(caught.value))


def test_lines_of_operations():
    def f(x):
        for i in range(10):
            x = np.linalg.norm(x * i)
        return x

    program = ad.jit(f, source=True).lower(0.5)
    assert f"test_source.py:{f.__code__.co_firstlineno + 2}" in str(program)


# -- adopted code ------------------------------------------------------------------------------------------------------


def test_adopted_functions():
    def f(x, n):
        total = 0.0
        for i in range(n):
            total += math.sin(x * i) + float(x)
        return total

    value = ad.jit(f, adopt=True, source=True)
    for n in (9, 20):
        np.testing.assert_allclose(value(0.3, n), f(0.3, n))
    assert "for became a while_loop" in became(value)


def test_the_functions_of_an_adopted_library():
    def f(x, n):
        largest = x
        for i in range(n):
            largest = max(largest, math.sqrt(i) * x, min(x, 0.1))
            if math.isnan(largest):
                largest = 0.0
        return largest

    value = ad.jit(f, adopt=True, source=True)
    assert [value(x, n) for x, n in [(0.3, 9), (-0.3, 9), (0.0, 12)]] == [f(x, n) for x, n in [(0.3, 9), (-0.3, 9), (0.0, 12)]]
    assert sum(map(len, value.specializations.values())) == 1
    slope = ad.jit(ad.grad(ad.adopt(f)), source=True)
    assert slope(0.3, 10) == 3.0


def test_loops_of_adopted_code_are_staged_by_jit():
    @ad.adopt
    def root(x, n):
        y = 1.0
        for _ in range(n):
            if y * y > x:
                y = 0.5 * (y + x / y)
        while abs(y * y - x) > 1e-9:
            y = 0.5 * (y + x / y)
        return y if y > 0 else -y

    f = lambda x, n: root(x, n) * 2.0
    for g in (f, ad.grad(f)):
        compiled = ad.jit(g)
        for n in (0, 9, 20):
            assert np.isclose(compiled(3.0, n), g(3.0, n), rtol=1e-12)
        assert sum(map(len, compiled.specializations.values())) == 1
        report = compiled.report()
        assert "for became a while_loop that counts" in report
        assert "while became a while_loop" in report
        assert "guard: the truth of a value was True" in report  # an `if` outside of loops
    plain = ad.jit(f, source=False)
    assert plain(3.0, 9) == f(3.0, 9)
    assert "became" not in plain.report()


def test_loops_beside_adopted_code_are_not_staged():
    square = ad.adopt(lambda x: x * x)

    def f(x, n):
        for _ in range(n):
            x = 0.5 * square(x)
        return x

    compiled = ad.jit(f)
    assert compiled(0.5, 9) == f(0.5, 9)
    assert "became" not in compiled.report()


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_graphs():
    def f(x, n):
        s = 0.0
        for i in range(n):
            s = s + np.sin(x * i) if x > 0 else s
        return s

    staged = ad.graph(f, source=True)(0.5, 3)
    for x, n in [(0.5, 3), (0.5, 10), (-0.5, 10), (0.5, 0)]:
        np.testing.assert_allclose(staged(x, n), f(x, n), rtol=1e-12)
        np.testing.assert_allclose(ad.grad(staged)(x, n), ad.grad(f)(x, n), rtol=1e-12)
    assert " while " in str(staged)
    assert " cond " in str(staged)


# -- the source --------------------------------------------------------------------------------------------------------


def test_a_file_that_was_edited(tmp_path, monkeypatch):
    path = tmp_path / "edited_module.py"
    path.write_text("def f(x):\n    for i in range(10):\n        x = x * 0.5\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import edited_module

    path.write_text("def f(x):\n    for i in range(10):\n        x = x * 0.25\n    return x\n")
    value = ad.jit(edited_module.f, source=True)
    assert value(1.0) == 0.5**10
    assert "def f is left as it is: its source has been changed" in became(value)


def test_a_function_without_source():
    space = {"np": np}
    exec("def f(x):\n    for i in range(10):\n        x = x * 0.5\n    return x\n", space)
    value = ad.jit(space["f"], source=True)
    assert value(1.0) == 0.5**10
    assert "def f is left as it is: its source is not" in became(value)


def test_the_text_of_a_gradient():
    def simulate(x, drag, forces):
        v, energy = 0.0, 0.0
        for force in forces:
            v = v * drag + force
            x = x + 0.1 * v
            energy += np.sin(x) if x > 1 else 0.5 * v**2
        return energy

    forces = np.linspace(0, 1, 12)
    staged = ad.graph(ad.grad(simulate, (0, 1)), source=True)(0.1, 0.9, forces)
    text = staged.python()
    first = simulate.__code__.co_firstlineno
    for line in (
        "force = forces[i]",
        f"v = v * drag + force  # test_source.py:{first + 3}",
        f"x = x + 0.1 * v  # test_source.py:{first + 4}",
        "x_saved[i] = x",
        "in range(11, -1, -1):",
        "drag_bar",
        "x_bar",
    ):
        assert line in text, text
    space = {}
    exec(text, space)
    np.testing.assert_allclose(space["simulate"](0.1, 0.9, forces), ad.grad(simulate, (0, 1))(0.1, 0.9, forces), rtol=1e-12)


def test_the_text_of_the_gradient_of_a_while_loop():
    def root(a):
        x = 1.0
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    text = ad.graph(ad.grad(root), source=True)(2.0).python()
    assert "reversed(saved_x)" in text
    space = {}
    exec(text, space)
    for a in (2.0, 9.0):
        np.testing.assert_allclose(space["root"](a), ad.grad(root)(a), rtol=1e-12)


def test_examples_whose_inner_loops_differ_in_length():
    def insertion_sort(x):
        a = anp.array(x)
        for i in range(1, len(a)):
            key = a[i]
            j = i - 1
            while j >= 0 and a[j] > key:
                a[j + 1] = a[j]
                j -= 1
            a[j + 1] = key
        return a[0] + 2 * a[1] + 3 * a[5]

    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.5, 2.7, 9.0, 8.0])
    xs = np.stack([x, x * 1.1, x[::-1]])
    weights = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    found = ad.vmap(ad.jit(ad.grad(insertion_sort), source=True))(xs)
    assert np.array_equal(found, [weights[np.argsort(np.argsort(row))] for row in xs])
