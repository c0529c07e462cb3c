"""Branches outside of loops: those of adopted code become conds once calls have gone both ways, so that programs stay few."""

import math
import random
import warnings

import numpy as np
import pytest
from looped import defined

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.recompilation import varying_lines
from adjoint.core.errors import BatchError
from adjoint.staging.questions import Asked, Guard


def programs(compiled):
    return sum(map(len, compiled.specializations.values()))


def agree(f, points, most=2, plain=None, transforms=(lambda f: f, ad.grad, ad.derivative)):
    """Compiled, with few programs for all points; the functions that were compiled."""
    made = []
    for transform in transforms:
        mine, compiled = transform(f), ad.jit(transform(f))
        for x in points:
            np.testing.assert_allclose(compiled(x), mine(x), rtol=1e-12, err_msg=f"at {x}\n{compiled.report()}")
        assert not compiled.eager
        assert programs(compiled) <= most, compiled.report()
        made.append(compiled)
    return made


@ad.adopt
def gamma_corrected(c):
    """The transfer function of sRGB."""
    if c <= 0.0031308:
        return 12.92 * c
    return 1.055 * c ** (1 / 2.4) - 0.055


@ad.adopt
def luminance(c):
    total = 0.0
    for weight, channel in zip((0.2, 0.7, 0.1), c, strict=True):
        total += weight * gamma_corrected(channel)
    return total


def test_a_formula_with_two_cases():
    value, *_ = agree(gamma_corrected, [0.001, 0.5, 0.002, 0.3, 0.0031308])
    assert "if became a cond" in value.report()
    assert programs(value) == 2  # the first call has a guard


def test_a_formula_that_is_used_repeatedly():
    """Three channels: eight combinations."""
    points = [np.array([[0.001, 0.5][k >> i & 1] for i in range(3)]) for k in range(8)]
    agree(luminance, points, transforms=(lambda f: f, ad.grad, ad.jacfwd))


def test_every_call_on_the_same_side_is_one_program_with_a_guard():
    value, *_ = agree(gamma_corrected, [0.4, 0.5, 0.6], most=1)
    assert "cond" not in value.report()


@ad.adopt
def regions(x):
    """Nested branches, conditions over several lines, conditional expressions, and, or, not, max, min."""
    if x < -1.0:
        y = math.exp(x)
    elif (
        (x < 1.0
        and not x > 0.5)
        or x == 7.5
    ):  # fmt: skip
        y = x * x if x > 0.0 else -x
    else:
        y = math.sqrt(x)
        if y > 1.5:
            y = y + math.log(x)
    y += max(x, 0.25) + min(x * 2.0, 1.0)
    return y if -0.5 < x < 2.0 else y * 0.5


def test_all_kinds_of_branches():
    agree(regions, [-3.0, -0.75, -0.2, 0.3, 0.7, 1.3, 1.9, 2.5, 5.0, 7.5, -2.0, 0.1], most=8)


@ad.adopt
def guarded_domain(x):
    """The side that is not taken would raise."""
    if x > 0.0:
        return math.log(x) + 1.0 / x
    return math.sqrt(-x) if x < 0.0 else 0.0


def test_a_side_that_would_raise_is_not_run():
    agree(guarded_domain, [0.5, -0.5, 2.0, -3.0])
    compiled = ad.jit(guarded_domain)
    assert [compiled(x) for x in (1.0, -4.0, 0.0)] == [1.0, 2.0, 0.0]


@ad.adopt
def different_types(x):
    if x > 0.0:
        return np.array([x, 2.0 * x])
    return x


@ad.adopt
def collected(x):
    steps = []
    if x > 0.0:
        steps.append(x)
    else:
        steps.append(2.0 * x)
        steps.append(x)
    return sum(steps)


@ad.adopt
def warned(x):
    if x > 10.0:
        warnings.warn("x is out of range", stacklevel=1)
        x = 10.0 + 0.0 * x
    return x * 2.0


@pytest.mark.filterwarnings("ignore:x is out of range")
@pytest.mark.parametrize("f, why", [(different_types, "float64[2]"), (collected, "it changes"), (warned, "it warns")])
def test_what_cannot_be_staged_is_a_guard_with_a_reason(f, why):
    compiled = ad.jit(f)
    for x in (1.0, -1.0, 20.0, 2.0, -2.0, 30.0):
        np.testing.assert_array_equal(compiled(x), f(x))
    report = compiled.report()
    assert "if is a guard: " in report
    assert why in report
    assert programs(compiled) == 2


def test_source_false_leaves_guards():
    compiled = ad.jit(gamma_corrected, source=False)
    assert [compiled(x) for x in (0.001, 0.5)] == [gamma_corrected(x) for x in (0.001, 0.5)]
    assert "cond" not in compiled.report()


def test_branches_of_the_callers_own_code_stay_guards():
    def f(x):
        return gamma_corrected(x) if x < 1.0 else x

    compiled = ad.jit(f)
    assert [compiled(x) for x in (0.5, 2.0, 0.6)] == [f(x) for x in (0.5, 2.0, 0.6)]
    assert "cond" not in compiled.report()


@pytest.mark.parametrize("transform", [lambda f: f, ad.grad])
def test_examples_of_a_batch_that_differ(transform):
    f = transform(gamma_corrected)
    compiled = ad.jit(ad.vmap(f))
    x = np.array([0.001, 0.5, 0.002])
    np.testing.assert_allclose(compiled(x), [f(v) for v in x], rtol=1e-14)
    assert programs(compiled) == 1
    with pytest.raises(BatchError, match="differs between examples"):
        ad.vmap(lambda c: x if c > 0.1 else c)(x)


def decorated(f):
    return f


@decorated
@decorated
def with_decorators(x):
    """Its first line is that of a decorator."""
    if x > 0.0:
        return x
    raise ValueError(x)


@pytest.mark.parametrize("options", [{"source": True}, {"adopt": True}, {"adopt": True, "source": True}])
def test_lines_of_a_decorated_function(options):
    compiled = ad.jit(with_decorators, **options)
    assert compiled(2.0) == 2.0
    line = with_decorators.__code__.co_firstlineno + 4
    assert f"test_branches.py:{line}" in compiled.report()


UFUNCS = ["sin", "exp", "tanh", "sqrt", "abs", "negative", "square", "arctan", "log1p"]


@pytest.mark.parametrize("transform", [ad.grad, ad.derivative, ad.value_and_grad, lambda f: ad.grad(ad.grad(f))])
@pytest.mark.parametrize("ufunc", UFUNCS)
def test_ufuncs_of_python_numbers_in_a_branch_under_a_derivative(ufunc, transform):
    """A ufunc makes NumPy's number of Python's: that is an op of the branch too."""
    function = getattr(anp, ufunc)

    def f(x):
        if x > 1.0:
            y = function(x) * x
        else:
            y = 2.0 * function(x * x)
        return y + x

    compiled = ad.jit(transform(f), source=True)
    for x in (0.5, 2.0):
        np.testing.assert_allclose(compiled(x), transform(f)(x), rtol=1e-12)
    assert "if became a cond" in compiled.report()
    assert programs(compiled) == 1


def piecewise(seed):
    """The text of a function with many branches on its argument."""
    draw = random.Random(seed)
    lines = ["def f(x):", "    y = 0.5 * x", "    z = 1.0"]
    for _ in range(6):
        limit, name = round(draw.uniform(-2, 2), 2), draw.choice(["x", "y", "z"])
        sides = [draw.choice(["np.sin({0})", "{0} * x", "abs({0}) + 0.1", "math.exp(-abs({0}))", "0.3 * {0} + 1"]) for _ in "ab"]
        target = draw.choice(["y", "z"])
        kind = draw.choice(["if", "else", "choice", "return", "both"])
        test = f"{name} {draw.choice(['<', '>', '<=', '>='])} {limit}"
        if kind == "if":
            lines += [f"    if {test}:", f"        {target} = {sides[0].format(target)}"]
        elif kind == "else":
            lines += [f"    if {test}:", f"        {target} = {sides[0].format(target)}"]
            lines += ["    else:", f"        {target} += {sides[1].format('x')}"]
        elif kind == "choice":
            lines.append(f"    {target} = {sides[0].format('y')} if {test} else {sides[1].format('z')}")
        elif kind == "both":
            lines += [f"    if {test} and x > -1.5 or z > 3.0:", f"        y, z = z, {sides[0].format('y')}"]
        else:
            lines += [f"    if {test} and x > 1.8:", f"        return {sides[1].format('y')} + z"]
    return "\n".join([*lines, "    return y * 1.5 + z"]) + "\n"


@pytest.mark.parametrize("seed", range(8))
def test_random_formulas(seed):
    f = ad.adopt(defined(piecewise(seed), math=math, np=np))
    points = [float(x) for x in np.random.default_rng(seed).uniform(-3, 3, 12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(f, points, most=7, transforms=(lambda f: f, ad.grad))


def test_lines_that_vary():
    def guards(*asked):
        return [Guard(i, Asked.TRUTH, answer, "the truth of", line) for i, (line, answer) in enumerate(asked)]

    some = guards(("a:1", True), ("a:2", False), ("a:3", True), ("a:3", False), ("a:4", True))
    others = guards(("a:1", True), ("a:2", True), ("a:3", True), ("a:3", True), ("a:5", True))
    assert varying_lines(some, others) == {"a:2", "a:3"}
    assert varying_lines(some, some) == set()
    numbers = [[Guard(0, Asked.ALL, x, "the number of", "a:1")] for x in (1.0, 2.0)]
    assert varying_lines(*numbers) == set()


def test_a_branch_of_which_one_result_depends_on_no_variable():
    def f(x, b):
        y = 0.3
        if x < -0.7:
            x, y = 0.5, 0.7
        for k in range(9):
            y, x = np.tanh(y) + 0.1 * k, x + b[k] * y
        return x * y

    b = np.linspace(0.0, 1.0, 9)
    compiled = ad.jit(ad.grad(f, (0, 1)), source=True)
    for x in (0.3, -0.8):
        for mine, theirs in zip(compiled(x, b), ad.grad(f, (0, 1))(x, b), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)
