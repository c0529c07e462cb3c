"""The tables of calls are complete: every differentiable function, its parameters, the forms of its axes."""

import inspect
import pathlib
import sys

import numpy as np
import pytest
import scipy.linalg
from surface.cases_stats import FAMILIES, methods
from surface.test_surface import EVERY, TABLES, original

from adjoint.numpy.table import UNBATCHED
from adjoint.scipy import linalg, stats
from adjoint.scipy.multivariate import _Multivariate

ROOT = pathlib.Path(__file__).parent.parent.parent
CHECKS = {"double", "single", "complex", "complex_second", "spelling", "keyword", "staged", "empty", "second", "vmap", "protocol"}

#: Parameters that no call has to use, and why.
UNUSED = {
    "like": "it chooses an array library",
    "device": "there is one device",
    "subok": "subclasses of arrays are not traced",
    "order": "the order in memory, or of fields; it does not change values",
    "casting": "which conversions are allowed; it does not change values",
    "overwrite_a": "a hint",
    "overwrite_b": "a hint",
    "overwrite_input": "a hint",
    "check_finite": "a hint",
    "lapack_driver": "a choice between routines",
    "driver": "a choice between routines",
    "lwork": "a hint",
    "workers": "a hint",
    "disp": "deprecated",
    "blocksize": "deprecated",
    "ndmax": "for lists of objects",
}
#: The same for parameters of one function: refused with a reason on traced values, or of no effect.
UNUSED_OF = {
    ("numpy", "polyfit", "full"): "refused: it returns the rank",
    ("scipy.linalg", "eig", "b"): "refused", ("scipy.linalg", "eig", "left"): "refused",
    ("scipy.linalg", "eig", "homogeneous_eigvals"): "refused", ("scipy.linalg", "eigvals", "homogeneous_eigvals"): "refused",
    ("scipy.linalg", "eigh", "subset_by_value"): "refused", ("scipy.linalg", "eigvalsh", "subset_by_value"): "refused",
    ("scipy.linalg", "pinv", "atol"): "refused", ("scipy.linalg", "pinv", "return_rank"): "refused",
    ("scipy.special", "zeta", "out"): "SciPy's own",
}  # fmt: skip


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT / "tools"))
    import coverage

    return coverage


def test_every_differentiable_function_of_the_coverage_page_has_calls(page):
    missing = []
    for module, rows in page.table().items():
        tested = {original(module, name) for name in TABLES[module]}
        names = [r.name for r in rows if r.standing == "differentiable"]
        missing += [f"{module}.{n}" for n in names if original(module, n) not in tested]
    assert not missing


def test_every_function_of_scipy_linalg_has_calls():
    tested = {original("scipy.linalg", name) for name in TABLES["scipy.linalg"]}
    names = [n for n in scipy.linalg.__all__ if linalg.status(n) == "differentiable"]
    assert names
    assert not [n for n in names if getattr(scipy.linalg, n) not in tested]


def test_every_method_of_every_distribution_has_calls():
    wanted = {f"{name}.{m}" for name, family in FAMILIES.items() for m in methods(family)} | set(FAMILIES)
    for name, found in vars(stats).items():
        if isinstance(found, _Multivariate):
            wanted |= {name, f"{name}.pdf", f"{name}.logpdf"}
    assert wanted == set(TABLES["scipy.stats"])


def test_the_methods_of_ufuncs_have_calls():
    for ufunc in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "logaddexp", "hypot"):
        assert {f"{ufunc}.{m}" for m in ("reduce", "accumulate", "reduceat", "outer", "at")} <= TABLES["numpy"].keys()


def shapes(call):
    return tuple(d.shape for d in call.drawn())


def every(test):
    """A test of one function, of all functions in turn."""

    def test_all():
        for module, name in EVERY:
            try:
                test(module, name)
            except BaseException as error:
                error.add_note(f"{module}.{name}")
                raise

    return test_all


def test_there_are_several_calls_of_each_function():
    for module, name in EVERY:
        calls = TABLES[module][name]
        assert len(calls) >= 3, name
        assert len({shapes(c) for c in calls}) >= (1 if name in ONE_NUMBER else 2), name
        assert any(not d.fixed for c in calls for d in c.drawn()), name


def test_there_are_small_shapes_and_matrices():
    """One array of at most one axis, or one element; and one of at least two, unless the function takes vectors only."""
    without = []
    for module, name in EVERY:
        found = {s for c in TABLES[module][name] for s in shapes(c)}
        assert any(len(s) < 2 or np.prod(s) == 1 for s in found), name
        if not any(len(s) > 1 for s in found):
            without.append(f"{module}.{name}")
    assert set(without) == ONLY_VECTORS


def test_checks_are_left_out_for_a_reason():
    for module, name in EVERY:
        calls = TABLES[module][name]
        for call in calls:
            assert call.without.keys() <= CHECKS | {"compiled"}, (name, call)
            assert all(isinstance(why, str) and len(why) > 10 for why in call.without.values()), (name, call)
            assert "double" not in call.without, name
            assert "second" not in call.without, name
        assert any("single" not in c.without for c in calls), name
        # The coverage page says of which functions vmap is refused. (These two refuse to batch their first argument only.)
        if name not in ("bincount", "extract"):
            assert all("vmap" in c.without for c in calls) == (original(module, name) in UNBATCHED), name


def has_signature(function):
    """Whether its signature says what it takes: not that of a ufunc, of a method, or of a distribution."""
    if isinstance(function, np.ufunc) or isinstance(getattr(function, "__self__", None), np.ufunc):
        return False
    return inspect.isroutine(function) and not inspect.ismethod(function)


@every
def test_every_parameter_is_used(module, name):
    function = original(module, name)
    if not has_signature(function):
        return
    signature = inspect.signature(function)
    used = set()
    for call in TABLES[module][name]:
        if call.run is None or call.run.__name__ == "writes":
            used |= signature.bind(*call.args, **call.kwargs).arguments.keys()
        else:
            used |= set(list(signature.parameters)[: len(call.args)]) | set(call.kwargs)
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    wanted = {p.name for p in signature.parameters.values() if p.kind not in kinds}
    assert not wanted - used - UNUSED.keys() - {p for m, f, p in UNUSED_OF if (m, f) == (module, name)}


@every
def test_axes_come_in_all_their_forms(module, name):
    """Counted from the front and from the back; a tuple where NumPy takes one."""
    function = original(module, name)
    if not has_signature(function) or "axis" not in inspect.signature(function).parameters:
        return
    signature = inspect.signature(function)
    given = []
    for call in TABLES[module][name]:
        bound = signature.bind(*call.args, **call.kwargs).arguments if call.run is None else call.kwargs
        given.append(bound.get("axis"))
    assert any(isinstance(a, int) and a >= 0 for a in given) or signature.parameters["axis"].default == 0
    assert any(isinstance(a, int) and a < 0 for a in given) or signature.parameters["axis"].default == -1
    if not any(isinstance(a, tuple) for a in given):
        assert not takes_a_tuple(module, name, signature)


def takes_a_tuple(module, name, signature):
    """Whether NumPy takes axis=(0, 1) in one of the calls that give one axis of a matrix."""
    for call in TABLES[module][name]:
        bound = signature.bind(*call.args, **call.kwargs)
        if isinstance(bound.arguments.get("axis"), int) and call.run is None and len(call.drawn()[0].shape) > 1:
            xs, fill = call.arguments(np.random.default_rng(0), float)
            args, kwargs = fill(*xs)
            filled = signature.bind(*args, **kwargs)
            filled.arguments["axis"] = (0, 1)
            try:
                original(module, name)(*filled.args, **filled.kwargs)
            except (TypeError, ValueError, IndexError):
                continue
            return True
    return False


def test_reductions_are_called_with_all_their_options():
    for name in ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin"):
        options = {k for c in TABLES["numpy"][name] for k in c.kwargs}
        assert {"axis", "keepdims", "initial", "where", "out"} <= options, name
    for name in ("var", "std", "nanvar", "nanstd"):
        options = {k for c in TABLES["numpy"][name] for k in c.kwargs}
        assert {"axis", "keepdims", "ddof", "correction", "mean", "where"} <= options, name


#: Functions of one number.
ONE_NUMBER = {"kaiser"}
#: Functions that take vectors, or numbers, only.
ONLY_VECTORS = {
    *(f"numpy.{name}" for name in ("convolve", "correlate", "kaiser", "roots", "vander", "fromiter", "linalg.outer")),
    *(f"numpy.poly{name}" for name in ("add", "sub", "mul", "div", "der", "int")),
    "scipy.linalg.hankel",
}
