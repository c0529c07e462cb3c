"""Every differentiable function, from the tables beside this file: values, dtypes, both modes, second order, vmap.

For each call in the tables:
- through plain `numpy` on traced values, or the drop-in where NumPy has no protocol: value and dtype equal NumPy's, forward
  mode against differences, ⟨u, Jv⟩ = ⟨Jᵀu, v⟩, second order against differences, vmap of all of these against a loop;
- the same through the drop-in `adjoint.numpy`, with arguments by position and by keyword as far as the signature allows;
- in single precision: NumPy's dtypes, and the gradient in double precision rounded;
- in complex numbers where NumPy takes them;
- in extended precision: NumPy's value, or an error of ours;
- as a graph, which gives the same value;
- compiled, all calls of a function and their reverse passes in one program: what eager gives, of the same types;
- with each length of its axes set to zero, where NumPy takes that: value, and shape of the gradient.

test_complete.py sees to it that the tables are complete.
"""

import importlib
import inspect
import warnings

import numpy as np
import pytest
from harness import check, check_single, close, leaves
from night import AT_NIGHT, rotated, sampled
from surface import (
    cases_fft,
    cases_linalg,
    cases_methods,
    cases_numpy,
    cases_scipy,
    cases_shape,
    cases_special,
    cases_stats,
    cases_ufunc,
)

import adjoint as ad
from adjoint.core.tree import flatten

TABLES = {
    "numpy": cases_numpy.CASES | cases_shape.CASES | cases_ufunc.NUMPY | cases_methods.CASES,
    "numpy.linalg": cases_linalg.CASES,
    "numpy.fft": cases_fft.CASES,
    "scipy.special": cases_special.CASES | cases_ufunc.SPECIAL,
    "scipy.linalg": cases_scipy.CASES,
    "scipy.stats": cases_stats.CASES,
}
if not hasattr(np, "row_stack"):  # which NumPy 2.5 has removed
    del TABLES["numpy"]["row_stack"]
EVERY = [(module, name) for module, table in TABLES.items() for name in table]


def reach(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def original(module, name):
    return reach(importlib.import_module(module), name)


def dropin(module, name):
    return reach(importlib.import_module(f"adjoint.{module}"), name)


def checked(module, name, call):
    """The function that a call is checked through: NumPy's own, unless only the drop-in can be reached."""
    scipy = module.startswith("scipy") and not isinstance(original(module, name), np.ufunc)
    return (dropin if scipy or "protocol" in call.without else original)(module, name)


def run_double(module, name, call, number):
    xs, fill = call.arguments(np.random.default_rng(number), float)
    f, reference = call.bind(checked(module, name, call), fill), call.bind(original(module, name), fill)
    agree(f(*xs), reference(*xs))
    options = {"rtol": call.rtol, "rtol2": 20 * call.rtol} if call.rtol else {}
    batched = "vmap" not in call.without and (AT_NIGHT or number % 3 == 0)
    twice = "second" not in call.without and (AT_NIGHT or number % 2 == 0)
    check(f, *xs, order=2 if twice else 1, vmap=batched, **options)


def run_single(module, name, call, number):
    xs, fill = call.arguments(np.random.default_rng(number), np.float32)
    f, reference = call.bind(checked(module, name, call), fill), call.bind(original(module, name), fill)
    _, wide = call.arguments(np.random.default_rng(number), float)
    check_single(f, reference, *xs, in_double=call.bind(checked(module, name, call), wide))


def run_complex(module, name, call, number):
    xs, fill = call.arguments(np.random.default_rng(number), complex)
    if not any(np.asarray(x).dtype.kind == "c" for x in xs):
        return
    reference = call.bind(original(module, name), fill)
    if not takes_complex(reference, xs):
        return
    f = call.bind(checked(module, name, call), fill)
    options = {"rtol": call.rtol, "rtol2": 20 * call.rtol} if call.rtol else {}
    # One call of each function is enough to see that batches do not care for the type of their elements.
    batched = number == 0 and "vmap" not in call.without
    check(f, *xs, order=1 if {"second", "complex_second"} & call.without.keys() else 2, vmap=batched, **options)


def takes_complex(reference, xs):
    """Whether NumPy takes complex numbers here, and gives something that depends on all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            ys = leaves(reference(*xs))
        except (TypeError, ValueError, NotImplementedError, np.exceptions.ComplexWarning):
            return False
    return any(y.dtype.kind in "fc" for y in ys)


def run_spelling(module, name, call, number):
    """The drop-in, by position and by keyword, gives NumPy's value and the same gradient."""
    xs, fill = call.arguments(np.random.default_rng(number), float)
    ours = dropin(module, name)
    reference = call.bind(original(module, name), fill)(*xs)
    pulled = None
    for spelled in (ours, *([] if "keyword" in call.without else spellings(original(module, name), ours))):
        value = ad.vjp(call.bind(spelled, fill), *xs)[0]
        agree(value, reference)
        ones = [np.ones(np.shape(y), np.asarray(y).dtype) for y in leaves(value)]
        floats = [k for k, y in enumerate(leaves(value)) if y.dtype.kind in "fc"]
        flat = lambda *xs, s=spelled, floats=floats: [flatten(call.bind(s, fill)(*xs))[0][k] for k in floats]
        gradient = ad.vjp(flat, *xs)[1]([ones[k] for k in floats])
        pulled = pulled or gradient
        for a, b in zip(gradient, pulled, strict=True):
            close(a, b, 1e-12)


def spellings(function, ours):
    """The same function, called with all arguments by position, and all by keyword, that may be."""
    if isinstance(function, np.ufunc) or isinstance(getattr(function, "__self__", None), np.ufunc):
        return []
    signature = inspect.signature(function)
    if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
        return []

    def positional(*args, **kwargs):
        filled = signature.bind(*args, **kwargs).arguments
        args, kwargs = [], dict(kwargs)
        for parameter in signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                break
            if parameter.name not in filled:
                # Defaults in between are spelled out, unless they are marks for "not given".
                rest = [p for p in signature.parameters if p in kwargs]
                if not rest or parameter.default is np._NoValue:
                    break
                args.append(parameter.default)
                continue
            args.append(filled[parameter.name])
            kwargs.pop(parameter.name, None)
        return ours(*args, **kwargs)

    def keyword(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        args, kwargs = [], {}
        for parameter in signature.parameters.values():
            if parameter.name in bound.arguments:
                value = bound.arguments[parameter.name]
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    args.append(value)
                elif parameter.kind is parameter.VAR_KEYWORD:
                    kwargs.update(value)
                else:
                    kwargs[parameter.name] = value
        return ours(*args, **kwargs)

    return [positional, keyword]


def run_staged(module, name, call, number):
    xs, fill = call.arguments(np.random.default_rng(number), float)
    f = call.bind(checked(module, name, call), fill)
    flat = lambda *xs: flatten(f(*xs))[0]
    staged = ad.graph(flat)(*xs)
    agree(staged(*xs), flat(*xs))
    assert str(staged)


def run_empty(module, name, call, number):
    """With an axis of no elements, where NumPy takes it: its value, and a gradient of the right shape."""
    for size in call.sizes():
        small = call.emptied(size)
        xs, fill = small.arguments(np.random.default_rng(number), float)
        reference = small.bind(original(module, name), fill)
        try:
            expected = reference(*xs)
        except (ValueError, TypeError, IndexError, ZeroDivisionError, RuntimeError):
            continue
        floats = [k for k, y in enumerate(leaves(expected)) if y.dtype.kind in "fc"]
        f = small.bind(checked(module, name, call), fill)
        agree(ad.vjp(f, *xs)[0], expected)
        ys, pull = ad.vjp(lambda *xs, f=f, floats=floats: [flatten(f(*xs))[0][k] for k in floats], *xs)
        for x, g in zip(xs, pull([np.ones(np.shape(y), np.asarray(y).dtype) for y in ys]), strict=True):
            assert np.shape(g) == np.shape(x)


def run_extended(module, name, call, number):
    """In extended precision, where NumPy takes it: its value and a gradient of that dtype, or an error of ours."""
    for dtype in (np.longdouble, *([] if "complex" in call.without else [np.clongdouble])):
        xs, fill = call.arguments(np.random.default_rng(number), dtype)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                expected = leaves(call.bind(original(module, name), fill)(*xs))
        except Exception:  # whatever NumPy and SciPy say of a dtype that they do not take
            continue
        floats = [k for k, y in enumerate(expected) if y.dtype.kind in "fc"]
        f = call.bind(checked(module, name, call), fill)
        try:
            ys, pull = ad.vjp(lambda *xs, f=f, floats=floats: [flatten(f(*xs))[0][k] for k in floats], *xs)
            gradient = pull([np.ones(np.shape(y), y.dtype) for y in ys])
        except ad.AdjointError:
            continue
        for y, k in zip(ys, floats, strict=True):
            close(y, expected[k], 1e-5 if module == "scipy.linalg" else 1e-11)  # SciPy works in single precision there
        for x, g in zip(xs, gradient, strict=True):
            assert g.dtype == np.asarray(x).dtype


def agree(found, reference):
    """Equal values, shapes and dtypes, part by part."""
    for a, b in zip(leaves(found), leaves(reference), strict=True):
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        assert a.shape == b.shape, (a.shape, b.shape)
        close(a, b, 1e-11)


CHECKS = {
    "double": run_double,
    "single": run_single,
    "complex": run_complex,
    "spelling": run_spelling,
    "staged": run_staged,
    "empty": run_empty,
    "extended": run_extended,
}


def run(check_name, module, name):
    """One check on all calls of an entry; a failure says which call it was."""
    for number, call in enumerate(TABLES[module][name]):
        if check_name in call.without:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                warnings.simplefilter("ignore", DeprecationWarning)  # SciPy's, for counts that are no integers
                CHECKS[check_name](module, name, call, number)
        except BaseException as error:
            error.add_note(f"{check_name}: {module}.{name}: {call}")
            raise


def every(test):
    return pytest.mark.parametrize("module, name", EVERY, ids=lambda v: v)(test)


@every
def test_in_double_precision(module, name):
    run("double", module, name)


# Of ops, test_table.py tries all in complex numbers; of functions made of them, a part each time.
@pytest.mark.parametrize("module, name", sampled(EVERY, 3), ids=lambda v: v)
def test_in_complex_numbers(module, name):
    run("complex", module, name)


@every
def test_in_other_ways(module, name):
    """In single precision, and in some of these ways: by position and keyword through the drop-in, as a graph, with empty axes,
    in extended precision."""
    for way in ("single", *rotated(("spelling", "empty", "staged", "extended"), EVERY.index((module, name)), 2)):
        run(way, module, name)


def all_calls(module, name):
    """A function that makes all calls of a table, and pulls ones back through each; and its arguments."""
    calls = [(number, call) for number, call in enumerate(TABLES[module][name]) if "compiled" not in call.without]
    arguments = [call.arguments(np.random.default_rng(number), float) for number, call in calls]

    def run(inputs):
        results = []
        for (_, call), (_, fill), xs in zip(calls, arguments, inputs, strict=True):
            f = call.bind(checked(module, name, call), fill)
            values = flatten(f(*xs))[0]
            floats = [k for k, y in enumerate(values) if np.dtype(getattr(y, "dtype", y.__class__)).kind in "fc"]
            _, pull = ad.vjp(lambda *xs, f=f, floats=floats: [flatten(f(*xs))[0][k] for k in floats], *xs)
            results += [*values, *pull([np.ones(np.shape(values[k]), getattr(values[k], "dtype", float)) for k in floats])]
        return results

    return run, [xs for xs, _ in arguments]


# Compiling takes a while: a part of the functions each time. test_table.py compiles every op.
@pytest.mark.parametrize("module, name", sampled(EVERY, 16), ids=lambda v: v)
def test_compiled(module, name):
    f, inputs = all_calls(module, name)
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        found, expected = compiled(inputs), f(inputs)
    assert not compiled.eager
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
