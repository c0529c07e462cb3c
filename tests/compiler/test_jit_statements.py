"""Python's own statements under `jit`: conditions become guards, prints happen once, code that does not compile is named."""

import contextlib
import functools
import itertools
import json
import logging
import math
import operator
import random
import re
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.compiler.jit import CompileWarning
from adjoint.core.tree import flatten

NUMBERS = (0.5, -0.5, 1.5, 2.5, -3.0, 0.0, -0.0, np.nan, 1.25)
ARRAYS = tuple(np.array(x) for x in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0], [0.0, -0.0, np.nan], [5.0, 4.0, 3.0]))


def outcome(f, *args):
    """The leaves of what a call gives, or the class and the words of what it raises."""
    try:
        with np.errstate(all="ignore"):
            return flatten(f(*args))[0]
    except Exception as error:
        return type(error), str(error).partition("\n")[0]  # pytest adds what it knows of an assert


def agree(got, want):
    if isinstance(want, tuple):
        assert got == want
        return
    assert not isinstance(got, tuple), got
    for a, b in zip(got, want, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def same(f, *calls):
    """Every call gives or raises the same, compiled or not, with its derivative; in the second round nothing is compiled."""
    function = ad.value_and_grad(f)
    compiled = ad.jit(function)
    paths = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled again for the third time", CompileWarning)
        for _ in range(2):
            for x in calls:
                found = outcome(compiled, x)
                agree(found, outcome(function, x))
                agree(found if isinstance(found, tuple) else found[:1], outcome(f, x))  # what no transform has seen
            paths.append([len(several) for several in compiled.specializations.values()])
    assert paths[0] == paths[1]
    assert not compiled.eager


# -- statements -------------------------------------------------------------------------------------------------


def early_return(x):
    if x < 0:
        return -x
    if x > 2:
        return x**2
    return np.sin(x)


def insists(x):
    assert x < 2, f"too large: {x:.2f}"
    return x * x


def loop_with_everything(x):
    iterations = 0
    while x < 5 and iterations < 9:
        x, iterations = x * 1.5 + 0.1, iterations + 1
        if x > 4:
            break
        if iterations == 2:
            continue
        x = x + 0.01
    else:
        x = x * 2
    return x


def matches(x):
    match x:
        case 0.5:
            return x * 7
        case _ if x > 1:
            return x * x
        case _:
            return x


def matches_whole(x):
    match round(np.nan_to_num(x)):
        case 0:
            return np.sin(x)
        case 1 | 2:
            return x * x
        case n if n < 0:
            return -x


def tries(x):
    try:
        if x > 1:
            raise ValueError("no")
        return np.arange(3.0)[int(x)] * x
    except (ValueError, IndexError):
        return x * x


def suppresses(x):
    with contextlib.suppress(ZeroDivisionError):
        if x > 1:
            raise ZeroDivisionError
        return x * 2
    return x * 3


def generates(x):
    def powers(v):
        while v < 4 and v > 0:
            yield v
            v = v * 1.7

    return sum(powers(x), x)


def writes_a_nonlocal(x):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v if v > 0 else total

    for k in range(3):
        add(x * k - 0.3)
    return total + x


@pytest.mark.parametrize(
    "f",
    [
        early_return,
        insists,
        loop_with_everything,
        matches,
        matches_whole,
        tries,
        suppresses,
        generates,
        writes_a_nonlocal,
        lambda x: x * int(x) if x == x else x,
        lambda x: np.sin(x) if 0 < x < 2 else x * x,
        lambda x: x * 2 if (x > 0 and not x > 1) or x < -1 else x * 3,
        lambda x: x * 2 if x in (0.5, 2.5, -3.0) else x * 3,
        lambda x: x * 2 if x in {0.5, 2.5, -3.0} else x * 3,
        lambda x: x * {0.5: 2.0, 2.5: 3.0}.get(x, 4.0),
        lambda x: x * {True: 2.0, False: 3.0}[x > 0],
        lambda x: max(x, x * x, 0.3) + min(x, 1.0),
        lambda x: sum(a * i for i, a in enumerate(sorted([x, x * x, 1 - x]))),
        lambda x: x * 2 if any(v > 1 for v in (x, x * x)) and all([x < 9, x > -9]) else x,
        lambda x: sum((v * v for v in (x, x + 1, x + 2) if v > 1), 0.0 * x),
        lambda x: [np.sin, np.cos, np.exp][int(abs(x)) if x == x else 0](x),
        lambda x: y * y if (y := np.sin(x)) > 0.1 else y,
        lambda x: functools.reduce(lambda a, b: a * x + b, range(int(abs(np.nan_to_num(x))) + 1), 1.0),
        lambda x: x * 0 + 1 if np.isnan(x) else x * 2,
        lambda x: x * 0 - 1 if np.signbit(x) else x * 2,
        lambda x: x * 3 if x else x * 2,
    ],
)
def test_statements_on_numbers(f):
    same(f, *NUMBERS)


def writes_in_place(x):
    y = x.copy()
    y[y > 0] *= 2
    y[0] = y[1] + 1
    y[-1:] += x[0]
    return np.sum(y * y)


def partitions(xs):
    if len(xs) <= 1:
        return xs
    first, *rest = xs
    return [*partitions([v for v in rest if v < first]), first, *partitions([v for v in rest if not v < first])]


@pytest.mark.parametrize(
    "f",
    [
        writes_in_place,
        lambda x: np.sum(x[x > 0] ** 2) * len(x[x > 0]),
        lambda x: sum((x[i] * i for i in np.nonzero(x > 0)[0]), 0.0 * x[0]),
        lambda x: x[int(np.argmax(x))] ** 2,
        lambda x: sum((a * b for a, b in itertools.pairwise(x) if a < b), x[0]),
        lambda x: sum(i * v for i, v in enumerate(partitions(list(x)))),
        lambda x: np.sum(x) * 2 if 3.0 in x else np.sum(x),
        lambda x: np.sum(x) if np.allclose(x, ARRAYS[0]) else np.sum(x * x),
        lambda x: sum((v * v for v in filter(lambda v: v > 0.3, x)), 0.0 * x[0]),
        lambda x: x[np.where(x > 0)[0][0]] if np.any(x > 0) else x[0],
    ],
)
def test_statements_on_arrays(f):
    same(f, *ARRAYS)


# -- recursion and higher-order functions -----------------------------------------------------------------------


def tree_sum(x):
    return x[0] if len(x) == 1 else tree_sum(x[: len(x) // 2]) + np.sin(tree_sum(x[len(x) // 2 :]))


def halves(x, depth=0):
    if x < 1 or depth > 8:
        return x
    return halves(x / 2, depth + 1) if int(x) % 2 == 0 else halves(x * 0.7 + 0.2, depth + 1)


def even(x):
    return x if x < 1 else odd(x - 1)


def odd(x):
    return -x if x < 1 else even(x - 1)


def test_recursion():
    same(tree_sum, np.arange(1.0, 9.0), np.arange(8.0) * 0.3)
    same(halves, 0.5, 3.0, 7.7, 12.0, 3.1)
    same(even, 0.3, 2.5, 3.5, 5.5)

    def endless(x):
        return endless(x + 1)

    with pytest.raises(RecursionError):
        ad.jit(endless)(1.0)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x * x if x > 1 else x

    def sine(self, x):
        return self.factor * np.sin(x)


def test_functions_of_functions():
    composed = functools.reduce(lambda f, g: lambda x: f(g(x)), (np.sin, np.exp, lambda x: x * x))
    chosen = lambda x: (np.sin if x > 0.6 else np.cos)(x)
    for f in (composed, chosen, Scaled(3.0), Scaled(3.0).sine, functools.partial(np.multiply, 3.0), ad.grad(ad.jit(halves))):
        same(f, 0.5, 0.7, 2.0)
    applied = ad.jit(lambda f, x: f(x) * 2, static_argnums=0)
    for f in (np.sin, np.cos, Scaled(2.0), np.sin):
        assert applied(f, 0.5) == pytest.approx(f(0.5) * 2)
    assert len(applied.specializations) == 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.jit(ad.grad(lambda y: np.sin(y) * y**2 if y > 0.6 else y**3))(x) * x,
        lambda x: ad.jvp(ad.jit(lambda y: ad.grad(np.sin)(y) * y), (x,), (x,))[1],
        lambda x: ad.scan(lambda c, v: (ad.jit(lambda a, b: np.sin(a) * b)(c, v), c), x, np.arange(1.0, 4.0))[1].sum(),
        lambda x: ad.while_loop(ad.jit(lambda c: c < 5), ad.jit(lambda c: c * 1.7), x),
        lambda x: ad.cond(x > 0.6, ad.jit(np.sin), ad.jit(lambda v: v * v), x),
        lambda x: ad.cond(
            x > 0.6,
            lambda x: ad.while_loop(
                lambda c: c < 9, lambda c: ad.scan(lambda a, r: (a + r * c, None), c, np.arange(3.0))[0] + 0.1, x
            ),
            lambda x: x * x,
            x,
        ),
    ],
)
def test_transforms_in_one_another(f):
    same(f, 0.3, 0.9)


# -- print ------------------------------------------------------------------------------------------------------


def test_print_happens_on_the_first_call_of_a_path(capsys):
    @ad.jit
    def f(x):
        print("called with", x, f"{x:.3f}", "%.1f %s" % (x, x), str(x), "<{}>".format(x))  # noqa: UP031, UP032
        return x * x if x > 0 else x

    lines = []
    for x in (1.5, 2.5, -1.0, 1.5, -2.0):
        assert f(x) == (x * x if x > 0 else x)
        lines.append(capsys.readouterr().out)
    # The numbers are those of the call; a guard that is missed writes the function down again.
    text = "called with {0} {0:.3f} {0:.1f} {0} {0} <{0}>\n"
    assert lines == [text.format(1.5), "", text.format(-1.0), "", ""]
    assert not f.eager
    slope = ad.jit(ad.grad(f.f))
    assert slope(1.5) == 3.0
    assert capsys.readouterr().out == text.format(1.5)


def test_logs_and_warnings_are_printed_too(caplog, capsys):
    log = logging.getLogger("adjoint.test")

    @ad.jit
    def f(x):
        log.warning("x is %.2f", x)
        log.warning(f"x is {x:.2f}")
        sys.stdout.write(f"x is {x:.2f}\n")
        warnings.warn(f"x is {x:.2f}", UserWarning, stacklevel=1)
        return x

    with pytest.warns(UserWarning, match="x is 0.25"):
        f(0.25)
    f(0.5)
    assert caplog.messages == ["x is 0.25"] * 2
    assert capsys.readouterr().out == "x is 0.25\n"
    assert not f.eager


def test_a_number_is_a_key_and_an_array_is_not():
    """Dicts find a traced number by its value; an entry of a plain number would lose its derivative. In a batch it has none."""
    table = {0.5: 2.0, 3: 5.0}
    f = lambda x: x * table.get(x, 7.0)
    assert (ad.grad(f)(0.6), ad.grad(lambda x: f(ad.stop_gradient(x)) + x)(0.5)) == (7.0, 1.0)
    for transform in (ad.grad, ad.derivative):
        with pytest.raises(ad.AdjointError, match="are one key of a dict"):
            transform(f)(0.5)
    lookup = ad.jit(lambda n: table[n] * 1.0)
    assert (lookup(3), lookup(np.int32(3))) == (5.0, 5.0)
    with pytest.raises(KeyError):
        lookup(4)
    with pytest.raises(ad.AdjointError, match="the hash of a value inside vmap differs"):
        ad.vmap(f)(np.array([0.5, 0.6]))
    with pytest.raises(ad.AdjointError, match="the hash of a value inside graph is not known"):
        ad.graph(f)(0.5)
    x = ad.array([1.0, 2.0], requires_grad=True)
    assert {x: "state"}[x] == "state"


def test_prints_in_a_body_show_no_number(capsys):
    total = lambda x: ad.scan(lambda c, v: (print(f"{c:.2f}", c) or c + v, None), x, np.ones(3))[0]
    assert ad.jit(total)(np.float64(1.0)) == 4.0
    assert capsys.readouterr().out == "<staged c: float64[]> <staged c: float64[]>\n"


@pytest.mark.parametrize(
    "apply",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, divmod],
)
@pytest.mark.parametrize("turned", [False, True])
def test_fractions_next_to_python_floats_are_floats(apply, turned):
    third = Fraction(1, 3)
    f = lambda x: apply(third, x) if turned else apply(x, third)
    g = lambda x: apply(1 / 3, x) if turned else apply(x, 1 / 3)
    last = lambda f: lambda x: f(x)[1] if apply is divmod else f(x)
    compiled = ad.jit(f)
    for x in (0.75, 2.5, 0.1):
        assert compiled(x) == f(x)
        assert ad.grad(last(f))(x) == ad.grad(last(g))(x)
        assert ad.derivative(last(f))(x) == ad.derivative(last(g))(x)
    assert not compiled.eager
    if apply in (operator.truediv, operator.floordiv, operator.mod, divmod):
        by_zero = ad.jit(lambda x: apply(Fraction(1, 3), x) if turned else apply(x, Fraction(0)))
        with pytest.raises(ZeroDivisionError):
            by_zero(0.0)


# -- what does not compile --------------------------------------------------------------------------------------


def unpicklable(x):
    return json.loads(json.dumps({"x": x}))["x"] * 2


generator = np.random.default_rng(0)


@pytest.mark.parametrize(
    "f, why",
    [
        (lambda x: x * float(x), r"float\(\) of a value traced by jit would be baked into the program"),
        (lambda x: math.sin(x), r"math.sin.*use NumPy functions instead of math's: np.sin"),
        (lambda x: abs(complex(x)), r"complex\(\) of a value"),
        (lambda x: np.sum(np.array([x, 2.0])) * x, "adjoint.numpy"),
        (lambda x: x * float(f"{x:.1f}"), "the text of a value traced by jit would be baked into the program"),
        (lambda x: x * len(str(x)), "the text of a value"),
        (lambda x: float(np.vectorize(lambda v: v * 2 if v > 0 else v)(x)), "adjoint.numpy"),
        (unpicklable, "TypeError: Object of type float is not JSON serializable"),
        (lambda x: x + len(Path(__file__).read_text()), "reads the file"),
    ],
)
def test_uncompilable_functions_are_right_and_say_why_and_where(f, why):
    compiled = ad.jit(f)
    with pytest.warns(CompileWarning) as seen:
        assert compiled(0.75) == f(0.75)
    for x in (0.25, 123.0, 0.75):
        assert compiled(x) == f(x)  # without a second warning: they are errors here
    (warning,) = seen
    assert re.search(rf"^{re.escape(f.__name__)} is not compiled for \(float\), and runs eagerly: .*{why}", str(warning.message))
    assert re.search(r"\((test_jit_statements|encoder).py:\d+\)$", str(warning.message))
    assert warning.filename == __file__  # the line of the call
    assert str(warning.message).partition("eagerly: ")[2] in compiled.report()


@pytest.mark.parametrize("draw", [generator.normal, random.random, np.random.rand])
def test_random_draws_differ_from_call_to_call(draw):
    compiled = ad.jit(lambda x: x + draw())
    with pytest.warns(CompileWarning, match=r"random numbers.*\(test_jit_statements.py:\d+\)"):
        first = compiled(1.0)
    assert len({first, compiled(1.0), compiled(1.0)}) == 3


@pytest.mark.parametrize("result", ["text", object(), ad.static(n for n in [1])])
def test_results_that_are_not_arrays(result):
    compiled = ad.jit(lambda x: result)
    with pytest.warns(CompileWarning, match=f"returned {type(result).__name__}, but jit needs numbers or arrays"):
        assert compiled(1.0) is result
    assert compiled(2.0) is result


def test_an_error_of_the_function_does_not_stop_compiling():
    """An error that comes with and without `jit` is raised without a warning, and other calls are compiled."""

    def f(x):
        return x * x if x > 0 else np.stack([x, x])

    compiled = ad.jit(ad.grad(f))
    with pytest.raises(ad.AdjointError, match="scalar"):
        compiled(-1.0)
    assert compiled(2.0) == 4.0
    assert not compiled.eager


def test_it_runs_once_when_it_does_not_compile():
    """Once to be staged, and once on numbers: what it does outside happens once."""
    seen = []

    def f(x):
        seen.append(type(x))
        return x * float(x)

    compiled = ad.jit(f)
    with pytest.warns(CompileWarning):
        compiled(2.0)
    compiled(3.0)
    assert seen == [float, float]


def test_a_value_on_the_edge_is_compiled_once():
    """Where machine code rounds to the other side of a guard, no program is right; there is still just one."""
    sine = ad.jit(np.sin)
    x = next(x for x in np.random.default_rng(0).uniform(0, 3, 20_000).tolist() if sine(x) != np.sin(x))
    exact = float(np.sin(x))
    f = ad.jit(lambda x: x * 2 if np.sin(x) == exact else x)
    for _ in range(20):
        assert f(x) == 2 * x
    assert [len(paths) for paths in f.specializations.values()] == [1]
    assert f(1.0) == 1.0


def inverse(x):
    try:
        y = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return np.sum(x) * 4
    return np.sum(y)


def inverse_that_is_looked_at(x):
    try:
        y = np.linalg.inv(x)
        return np.sum(y) if y[0, 0] > 0 else -np.sum(y)
    except np.linalg.LinAlgError:
        return np.sum(x) * 4


@pytest.mark.parametrize("f", [inverse, inverse_that_is_looked_at])
def test_an_operation_that_fails_may_be_caught(f):
    """Whatever comes first: what is done about a failure is right for that call, and for no other."""
    fine, bad = np.eye(2) * 2.0, np.ones((2, 2))
    for calls in ((fine, bad, -fine, bad, fine), (bad, fine, bad, -fine)):
        compiled, slope = ad.jit(f), ad.jit(ad.grad(f))
        for x in calls:
            np.testing.assert_allclose(compiled(x), f(x))
            np.testing.assert_allclose(slope(x), ad.grad(f)(x))
        assert not compiled.eager
    at = ad.jit(lambda x, i: x[i] * 2)
    assert at(fine, 1)[1] == 4.0
    with pytest.raises(IndexError):
        at(fine, 5)


def test_a_mistake_of_the_compiler_is_not_hidden(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(native, "_array", broken)
    with pytest.raises(RuntimeError, match="broken"):
        ad.jit(np.spacing)(np.ones(3))


def test_an_operation_that_is_tried_for_its_failure_alone():
    """Nothing reads what it gives: a program would not compute it. The function runs as it is, and says so."""

    def is_definite(x):
        try:
            np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            return np.sum(x) * 0.0
        return np.sum(x)

    def is_definite_for_the_value(x):
        try:
            size = np.sum(np.linalg.cholesky(ad.stop_gradient(x)))
        except np.linalg.LinAlgError:
            size = np.max(x)
        return size + np.sum(x)

    for f in (is_definite, ad.grad(is_definite), ad.grad(is_definite_for_the_value)):
        for calls in ((np.eye(2), -np.eye(2)), (-np.eye(2), np.eye(2))):
            compiled = ad.jit(f)
            with pytest.warns(CompileWarning, match=r"tried for its error only.*test_jit_statements.py:\d+"):
                np.testing.assert_array_equal(compiled(calls[0]), f(calls[0]))
            np.testing.assert_array_equal(compiled(calls[1]), f(calls[1]))


def test_a_loop_that_is_tried():
    """What may fail in it is not moved."""

    def f(x, n):
        try:
            for _ in range(n):
                x = np.linalg.solve(np.eye(3) * 2.0 + np.outer(x, x), x) + 0.1
        except np.linalg.LinAlgError:
            return np.sum(x) * 0.0
        return np.sum(np.linalg.cholesky(np.eye(3) + np.outer(x, x)))

    compiled = ad.jit(ad.grad(f), static_argnames="n")
    for x in (np.ones(3), np.array([0.3, -0.2, 0.5])):
        np.testing.assert_allclose(compiled(x, n=20), ad.grad(f)(x, 20), rtol=1e-10)


# -- recompilation ----------------------------------------------------------------------------------------------


def test_the_third_recompile_names_the_argument_and_the_line():
    def f(x, n, y):
        return y if n < 0 else x * range(n + 1)[-1]

    compiled = ad.jit(f)
    for n in range(3):
        compiled(0.5, n, 1.0)
    with pytest.warns(CompileWarning) as seen:
        compiled(0.5, 3, 1.0)
    compiled(0.5, 4, 1.0)  # without a second warning
    (warning,) = seen
    line = f.__code__.co_firstlineno + 1
    assert re.match(
        rf"f was compiled again for the third time because an index from a value changes \(test_jit_statements.py:{line}\), "
        r"which depends on n; report\(\) lists the specializations \(called at test_jit_statements.py:\d+\)",
        str(warning.message),
    )
    assert warning.filename == __file__


def test_the_report():
    def f(x, flag):
        if flag:
            return np.sum(x @ x)
        last = ad.scan(lambda c, row: (np.nextafter(c, 9.0) * row, None), x[0], x)[0]
        return np.sum(ad.cond(last[0] > 0, lambda v: np.nextafter(v, 9.0), lambda v: v, last))

    compiled = ad.jit(f)
    x = np.eye(3) + 0.5
    compiled(x, True)
    compiled(x, False)
    compiled(x[:2, :2], True)
    text = compiled.report()
    head, *lines = text.splitlines()
    assert head == "jit of f"
    numbers = r"\d+ equations?, .*\d+ bytes of code, \d+ bytes of memory, \d+ ms"
    assert sum(bool(re.match(rf"  \(float64\[3,3\], bool\) specialization [12]: {numbers}", line)) for line in lines) == 2
    assert sum(bool(re.match(rf"  \(float64\[2,2\], bool\) specialization 1: {numbers}", line)) for line in lines) == 1
    assert re.search(r"\d+ kernels?", text)
    assert re.search(r"1 loop, .*1 branch", text)
    assert len(re.findall(r"guard: the truth of a value was (True|False) \(test_jit_statements.py:\d+\)", text)) == 3
    # The body of the loop and a branch call NumPy: each line once.
    assert len(re.findall(r"calls NumPy for nextafter \(test_jit_statements.py:\d+\)", text)) == 2
