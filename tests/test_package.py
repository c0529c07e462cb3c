"""The package as a whole: its names, what importing it costs, its version."""

import doctest
import gc
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pathlib
import pkgutil
import subprocess
import sys
import types

import numpy as np
import pytest

import adjoint as ad

SURFACE = [
    *("grad", "value_and_grad", "jvp", "vjp", "linearize", "jacobian", "jacfwd", "jacrev", "hessian", "hvp", "derivative"),
    *("elementwise_grad", "stop_gradient", "checkpoint", "vmap", "map", "custom_jvp", "custom_vjp", "extend", "array"),
    *("finite_difference", "check_grads", "compare", "no_grad", "dual", "numpy", "AdjointError"),
    *("graph", "Graph", "symbols", "gradients", "function", "trace"),
]


def test_public_names_are_those_of_all():
    assert set(SURFACE) <= set(ad.__all__)
    for name in ad.__all__:
        assert getattr(ad, name) is not None
    assert sorted(ad.__all__) == sorted(set(ad.__all__))


@pytest.mark.parametrize("name", ad.__all__)
def test_public_names_have_docstrings_with_an_example(name):
    """The doctests of src run the examples; that of `numpy` is run here, since NumPy's own are in that module too."""
    assert ">>> " in inspect.getdoc(getattr(ad, name))
    if name == "numpy":
        example = doctest.DocTestParser().get_doctest(ad.numpy.__doc__, {}, "numpy", None, None)
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("name", ad.export.EXPORTERS)
def test_exporters_have_docstrings_with_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(ad.export, name))


def test_names_that_are_listed_are_public():
    assert {name for name in dir(ad) if not name.startswith("__")} == set(ad.__all__)
    for ours, theirs in ((ad.numpy, "numpy"), (ad.scipy.special, "scipy.special"), (ad.scipy.linalg, "scipy.linalg")):
        original = importlib.import_module(theirs)
        assert set(dir(ours)) <= set(dir(original))
        assert all(getattr(ours, name).__doc__ for name in original.__all__ if callable(getattr(original, name)))


def test_signatures():
    assert list(inspect.signature(ad.grad).parameters) == ["f", "argnums", "has_aux", "holomorphic", "argnum", "adopt"]
    assert list(inspect.signature(ad.jvp).parameters) == ["f", "primals", "tangents", "has_aux"]
    assert list(inspect.signature(ad.vjp).parameters) == ["f", "primals", "has_aux"]
    assert list(inspect.signature(ad.vmap).parameters)[:3] == ["f", "in_axes", "out_axes"]


def test_version():
    assert importlib.metadata.version("adjoint") == ad.__version__
    citation = pathlib.Path(__file__).parents[1] / "CITATION.cff"
    assert f"\nversion: {ad.__version__}\n" in citation.read_text(encoding="utf-8")


def test_heavy_modules_load_on_first_use():
    heavy = ("scipy", "llvmlite", "mpmath", "pandas", "xarray")
    script = f"import sys, adjoint, adjoint.numpy; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_a_program_from_disk_needs_neither_passes_nor_the_code_generator(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, numpy as np, adjoint as ad\n"
        "def f(x):\n"
        "    for i in range(3):\n"
        "        x = np.sin(x) * x if i else x\n"
        "    return np.sum(x)\n"
        "ad.jit(ad.grad(f))(np.ones(10))\n"
        "names = ('rewrite.loops', 'rewrite.simplify.rules', 'compiler.lower.fuse', 'compiler.llvm.program')\n"
        "print(*[m for m in names if 'adjoint.' + m in sys.modules])\n"
    )
    environment = {**os.environ, "ADJOINT_CACHE_DIR": str(tmp_path / "cache")}
    for times in range(2):
        run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment)
        assert bool(run.stdout.split()) == (times == 0)


def test_plain_calls_of_the_drop_in_are_numpys_own():
    import adjoint.numpy as anp

    gc.collect()  # variables of other tests, during whose lives new arrays are traced
    assert anp.sin == np.sin
    assert isinstance(anp.add, np.ufunc)
    assert type(anp.sin(np.zeros(3))) is np.ndarray
    assert type(anp.zeros(3)) is np.ndarray
    assert type(anp.array([1.0, 2.0])) is np.ndarray
    assert anp.pi == np.pi
    assert anp.float32 is np.float32
    with pytest.raises(AttributeError):
        anp.no_such_function


def test_errors_derive_from_the_fitting_built_in():
    from adjoint.core import errors

    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, ad.AdjointError) and error is not ad.AdjointError:
            assert len(error.__mro__) > 3
            assert issubclass(error, (TypeError, ValueError, RuntimeError, AssertionError, AttributeError))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # names that NumPy will drop
def test_every_name_that_is_listed_exists():
    found = [m.name for m in pkgutil.walk_packages(ad.__path__, "adjoint.") if not m.name.endswith("__main__")]
    for package in ("pandas", "xarray"):
        if importlib.util.find_spec(package) is None:
            found.remove(f"adjoint.numpy.{package}_objects")
    modules = [importlib.import_module(name) for name in ["adjoint", *found]]
    assert len(modules) > 200
    missing = [(m.__name__, x) for m in modules for x in (*dir(m), *getattr(m, "__all__", ())) if not hasattr(m, x)]
    assert missing == []


def test_modules_of_scipy_that_are_listed_can_be_imported():
    import adjoint.scipy

    listed = [x for x in dir(adjoint.scipy) if not x.startswith("_") and isinstance(getattr(adjoint.scipy, x), types.ModuleType)]
    assert {"linalg", "special", "stats"} <= set(listed)
    assert not {"cluster", "sparse"} & set(listed)
    for name in {*listed} - {"importlib"}:
        assert importlib.import_module(f"adjoint.scipy.{name}") is getattr(adjoint.scipy, name)
    assert adjoint.scipy.cluster is importlib.import_module("scipy.cluster")


def test_a_graph_that_is_not_drawn_loads_nothing_that_draws():
    code = (
        "import sys, numpy as np, adjoint as ad; ad.graph(ad.grad(np.sin))(1.0); "
        "print(sorted(m for m in sys.modules if m.startswith(('adjoint.view', 'adjoint.export'))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
