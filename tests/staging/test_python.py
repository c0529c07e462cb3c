"""Operators between Python numbers: a compiled function gives what Python gives, or raises what Python raises."""

import math
import operator
import subprocess
import sys
import warnings

import numpy as np
import pytest

import adjoint as ad

BINARY = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")},
    **{name: getattr(operator, name) for name in ("and_", "or_", "xor", "lt", "le", "eq", "ne", "gt", "ge")},
    "divmod": divmod,
}
UNARY = {
    **{name: getattr(operator, name) for name in ("neg", "pos", "invert")},
    "abs": abs,
    "round": round,
    "bool": bool,
    "round to tenths": lambda x: round(x, 1),
    "round to tens": lambda x: round(x, -1),
    **{f"power {b}": lambda x, b=b: x**b for b in (2, 3, -1, 0.5, 1 / 3)},
    "power of 2": lambda x: 2**x if abs(x) < 5000 else 0,
}
VALUES = {
    int: [0, 1, -1, 3, -7, 10**7, 2**31, 2**53 + 1, 2**62, -(2**63), 2**63 - 1],
    float: [0.0, -0.0, 1.5, -2.5, 2.675, 1e200, -1e200, 1e-320, 2.0**53, math.inf, -math.inf, math.nan],
    bool: [True, False],
    complex: [1j, 0j],
}


def outcome(f, args):
    """The class and value of a result, or the class of an error."""
    try:
        result = f(*args)
    except Exception as error:
        return type(error).__name__
    parts = result if isinstance(result, tuple) else (result,)
    return [x.item() if isinstance(x, np.generic) else x for x in parts]


def same(found, expected):
    if isinstance(found, str) or isinstance(expected, str):
        return found == expected
    return all(
        type(a) is type(b)
        and (repr(a) == repr(b) or (isinstance(a, (float, complex)) and math.isclose(abs(a - b), 0, abs_tol=1e-14 * abs(b))))
        for a, b in zip(found, expected, strict=True)
    )


def check(f, calls):
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args in (*calls, *reversed(calls)):  # the programs are those of the first ones, or of none
            expected, found = outcome(f, args), outcome(compiled, args)
            assert same(found, expected), (args, found, expected)


@pytest.mark.parametrize("name", BINARY)
def test_two_numbers(name):
    run = BINARY[name]
    for first, some in VALUES.items():
        for second, others in VALUES.items():
            if name in ("lshift", "pow") and second is int:
                others = [b for b in others if abs(b) < 1000]
            if complex in (first, second):
                some, others = some[:4], others[:4]
            check(lambda a, b: run(a, b), [(a, b) for a in some[::2] + some[1::4] for b in others])


@pytest.mark.parametrize("name", UNARY)
def test_one_number(name):
    for values in VALUES.values():
        check(UNARY[name], [(x,) for x in values])


def test_the_function_catches_what_python_raises():
    def inverse(x):
        try:
            return 1.0 / x
        except ZeroDivisionError:
            return -1.0

    def power(x):
        try:
            return x**2
        except OverflowError:
            return math.inf

    f, g = ad.jit(inverse), ad.jit(power)
    assert [f(2.0), f(0.0), f(4.0), f(0), f(np.float64(4.0))] == [0.5, -1.0, 0.25, -1.0, 0.25]
    assert [g(2.0), g(1e200), g(3.0)] == [4.0, math.inf, 9.0]
    assert not f.eager
    assert not g.eager


def test_whole_numbers_do_not_wrap_around():
    f = ad.jit(lambda n: n**3)
    assert (f(3), f(10**7), f(-(10**7)), f(4)) == (27, 10**21, -(10**21), 64)

    def factorial(n):
        result = 1
        for i in range(1, 31):
            result = result * (n + i - i)
        return result

    g = ad.jit(factorial)
    assert [g(n) for n in (1, 2, 7, 2)] == [factorial(n) for n in (1, 2, 7, 2)]


def test_conditions_of_a_loop_are_part_of_the_loop():
    def root(x):
        y = x
        for _ in range(50):
            y = y - (y * y - x) / (2 * y)
        return y

    f = ad.jit(root)
    assert f(2.0) == pytest.approx(math.sqrt(2))
    assert "iterations of" in f.report()
    with pytest.raises(ZeroDivisionError):
        f(0.0)


def test_rules_are_not_python_s_arithmetic():
    """A derivative at a pole is inf, as eager: only operators of the function raise."""
    for transform in (lambda f: f, ad.jit):
        f = transform(ad.grad(lambda x: x**0.5))
        assert f(4.0) == 0.25
        assert f(0.0) == math.inf
    assert not f.eager


def test_ufuncs_of_python_numbers_give_numpys_scalars():
    x = np.ones(2, np.float32)
    for f in (
        lambda c: np.multiply(c, 2.0) * x,
        lambda c: (c * 2.0) * x,
        lambda c: np.add(c, c) * x,
        lambda c: np.negative(c) * x,
    ):
        assert ad.jit(f)(1.5).dtype == f(1.5).dtype
    assert ad.jit(lambda n: np.add(n, n))(2**62) == np.add(2**62, 2**62)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_roots_by_powers(dtype):
    """To NumPy's arrays and ufunc the power ½ is a root; to its scalars it is C's power."""
    x = np.array([-np.inf, np.inf, -0.0, 0.0, np.nan, 4.0, -4.0], dtype)
    with np.errstate(all="ignore"):
        for f in (lambda x: x**0.5, lambda x: np.power(x, 0.5), lambda x: np.float_power(x, 0.5), lambda x: x ** np.float32(0.5)):
            for values in ([x], list(x)):
                compiled = ad.jit(f)
                for v in values:
                    found, expected = compiled(v), f(v)
                    np.testing.assert_array_equal(found, expected)
                    np.testing.assert_array_equal(np.signbit(found) | np.isnan(found), np.signbit(expected) | np.isnan(expected))


def test_operands_of_every_kind_are_guarded_before_anything_else_was_traced():
    """In a process of its own: the functions behind operators change with what they have met."""
    program = """
import warnings
import adjoint as ad

warnings.simplefilter("ignore")
for f in [lambda x: x / False, lambda x: x / 0j, lambda x: True / x, lambda x: 1j / x, lambda x: x % False]:
    compiled = ad.jit(f)
    for x in (1.0, 0.0):
        found = []
        for g in (f, compiled):
            try:
                found.append(g(x))
            except ZeroDivisionError:
                found.append("ZeroDivisionError")
        assert found[0] == found[1], found
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# -- under every transform ------------------------------------------------------------------------------------------------


def _caught(x):
    try:
        return 1.0 / x
    except ZeroDivisionError:
        return 7.0 * x


def _too_large(x):
    try:
        return 10.0 ** (x + 400.0)
    except OverflowError:
        return 7.0 * x + 1.0


RAISING = {
    "caught": _caught,
    "too large": _too_large,
    "division": lambda x: 1 / x,
    "by itself": lambda x: x / x,
    "power": lambda x: x**-1,
    "product": lambda x: 1 / (x * x),
    "square": lambda x: 1 / x**2,
    "negative": lambda x: 1 / -x,
    "magnitude": lambda x: 1 / abs(x),
    "largest": lambda x: 1 / max(x, 0.0),
    "loop": lambda x: sum(1 / (x - i) for i in range(3)),
    "ufunc": lambda x: np.divide(1.0, x),
    "by a ufunc": lambda x: 1 / np.sin(x),
    "by a sum": lambda x: 1 / np.add(x, x),
    "by a product": lambda x: 1 / np.multiply(x, 2.0),
    "by a magnitude": lambda x: 1 / np.abs(x),
    "by a square": lambda x: 1 / np.square(x),
    "by a power": lambda x: 1 / np.power(x, 2),
    "by a choice": lambda x: 1 / np.where(x > 0, x, x),
    "large square": lambda x: (x + 8.6e212) ** 2,
    "large power": lambda x: (x - 8.6e212) ** 3 + (x + 1e200) ** 2.5,
    "square of a magnitude": lambda x: np.abs(x + 1e200) ** 2,
    "promotion": lambda x: (np.add(x, x) * np.ones(2, np.float32)).sum(),
}
TRANSFORMED = {
    "vjp": lambda f, x: ad.vjp(f, x)[0],
    "jvp": lambda f, x: ad.jvp(f, (x,), (1.0,))[0],
    "vjp of vjp": lambda f, x: ad.vjp(lambda x: ad.vjp(f, x)[0], x)[0],
    "compiled": lambda f, x: ad.jit(f)(x),
    "compiled vjp": lambda f, x: ad.jit(ad.value_and_grad(f))(x)[0],
    "compiled jvp": lambda f, x: ad.jit(lambda x: ad.jvp(f, (x,), (1.0,))[0])(x),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transform", TRANSFORMED)
@pytest.mark.parametrize("name", RAISING)
@pytest.mark.filterwarnings("ignore")
def test_numbers_raise_as_in_python_under_every_transform(name, transform):
    """At a Python number as Python, at a NumPy scalar as NumPy; a ufunc gives a NumPy scalar."""

    def at(run, x):
        try:
            y = run(x)
        except (ZeroDivisionError, OverflowError) as error:
            return type(error)
        return np.asarray(y).dtype, repr(float(y))

    f = RAISING[name]
    for x in (0.0, np.float64(0.0), 0.5):
        assert at(lambda x: TRANSFORMED[transform](f, x), x) == at(f, x)
