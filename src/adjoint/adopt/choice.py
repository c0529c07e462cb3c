"""Which packages are copied along with an adopted one.

A package is adopted if it is written in Python and imports numpy, scipy or math, itself or through another that is adopted.
This is determined from its source, without running it. Any other package stays the original: it meets traced values as any
library does.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

from ..core.home import COPIES, OWN

#: Modules that adopted code sees with differentiable functions in place of the originals.
REPLACED = frozenset({"numpy", "scipy", "math", "cmath", "random", "statistics", "fractions", "numba", "autograd"})
#: Parts of NumPy and SciPy that are written in Python with NumPy's functions: adopted code uses copies of them.
PARTS = (
    "numpy.polynomial",
    *("scipy.integrate._ivp", "scipy.integrate._quadrature", "scipy.integrate._quad_vec", "scipy.integrate._quadpack_py"),
    *("scipy._lib._array_api", "scipy._lib._array_api_override", "scipy._lib._array_api_compat_vendor", "scipy._lib._util"),
    *("scipy._lib.array_api_compat", "scipy._external._array_api_compat_vendor", "scipy._external.array_api_compat"),
    *("scipy._lib.array_api_extra", "scipy._external.array_api_extra"),
    *("scipy.stats._stats_py", "scipy.stats._axis_nan_policy", "scipy.stats._morestats", "scipy.stats._stats_mstats_common"),
    *("scipy.spatial.transform._rotation", "scipy.spatial.transform._rotation_xp", "scipy.spatial.transform._rotation_spline"),
    *("scipy.spatial.transform._rigid_transform", "scipy.spatial.transform._rigid_transform_xp"),
    *("scipy.ndimage._filters", "scipy.ndimage._interpolation", "scipy.ndimage._ni_support"),
    *("scipy.signal._signaltools", "scipy.signal._arraytools", "scipy.signal._savitzky_golay", "scipy.signal._spectral_py"),
    *("scipy.signal._filter_design", "scipy.signal._lti_conversion", "scipy.signal._waveforms", "scipy.signal._polyutils"),
    *("scipy.signal._short_time_fft", "scipy.signal._czt"),
    *("scipy.stats._variation", "scipy.stats._entropy", "scipy.stats._correlation", "scipy.stats._quantile"),
)
_NUMERICAL = frozenset({"numpy", "scipy", "math", "cmath", "autograd"})  # a package that imports one of these computes
#: Packages that plot, store, test or compute by other means: a copy of them would be slow to load, and of no use.
_STAY = {
    **dict.fromkeys(["matplotlib", "mpl_toolkits", "plotly", "seaborn", "bokeh", "vispy", "PIL", "imageio", "IPython"], "plots"),
    **dict.fromkeys(
        ["pandas", "xarray", "h5py", "netCDF4", "zarr", "polars", "pyarrow", "tables", "sqlalchemy", "dask"], "stores"
    ),
    **dict.fromkeys(["pytest", "hypothesis", "_pytest", "nose"], "tests"),
    **dict.fromkeys(["jax", "jaxlib", "torch", "tensorflow", "cupy", "casadi"], "differentiates by itself"),
    **dict.fromkeys(["sympy", "mpmath", "networkx", "sklearn", "cvxpy", "shapely"], "has numbers of its own"),
    **dict.fromkeys(
        ["pip", "setuptools", "pkg_resources", "requests", "urllib3", "certifi", "typing_extensions"], "does not compute"
    ),
    **dict.fromkeys(
        ["dateutil", "pytz", "docutils", "pygments", "narwhals", "wrapt", "filelock", "virtualenv"], "does not compute"
    ),
    **dict.fromkeys(
        ["tqdm", "rich", "click", "yaml", "attr", "attrs", "pydantic", "pydantic_core", "joblib"], "does not compute"
    ),
}
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([A-Za-z_]\w*)|import[ \t]+([^\n#;]+))", re.M)
_TEXT = re.compile(rb'("""|\'\'\').*?\1', re.S)  # a docstring may show imports
_MOST_FILES = 5000
_SKIPPED = frozenset({"tests", "test", "testing", "examples", "docs", "benchmarks", "__pycache__"})


class Verdict(NamedTuple):
    """Whether a package is adopted, and why."""

    adopted: bool
    reason: str


def is_part(name: str) -> bool:
    """Whether a module of NumPy or SciPy is one of the parts that are copied."""
    return any(f"{name}.".startswith(f"{part}.") for part in PARTS)


def holds_part(name: str) -> bool:
    """Whether a package of NumPy or SciPy is not copied, but a part of it is."""
    return any(part.startswith(f"{name}.") for part in PARTS)


def find_spec(name: str, path: Any = None) -> ModuleSpec | None:
    """The spec of a module by its original name, without importing its parents."""
    for finder in sys.meta_path:
        if type(finder).__module__.partition(".")[0] != OWN and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


class Choice:
    """The packages of one adoption."""

    def __init__(self, include: frozenset[str] = frozenset(), exclude: frozenset[str] = frozenset()) -> None:
        self.include, self.exclude = include, exclude
        self.asked: set[str] = set()  # adopted by name
        self._verdicts: dict[str, Verdict] = {}

    def is_adopted(self, name: str) -> bool:
        """Whether a module, by its original name, is copied."""
        if any(f"{name}.".startswith(f"{x}.") for x in self.exclude):
            return False
        return is_part(name) or self.of(name.partition(".")[0]).adopted

    def of(self, root: str) -> Verdict:
        if root not in self._verdicts:
            self._verdicts[root] = Verdict(False, "imported in a circle")  # while its imports are followed
            self._verdicts[root] = self._decide(root)
        if root in self.asked and not self._verdicts[root].adopted:
            self._verdicts[root] = self._decide(root)
        return self._verdicts[root]

    def _decide(self, root: str) -> Verdict:
        if root in self.exclude:
            return Verdict(False, "excluded")
        if root == OWN or root.startswith(COPIES):
            return Verdict(False, "is this package")
        spec = find_spec(root)
        if spec is None:
            return Verdict(False, "not installed")
        if root in self.include or root in self.asked:
            return Verdict(True, "included" if root in self.include else "asked for")
        if root in REPLACED:
            return Verdict(False, "is replaced")
        if root in _STAY:
            return Verdict(False, _STAY[root])
        if root in sys.stdlib_module_names:
            return Verdict(False, "Python's library")
        if spec.submodule_search_locations is None and not has_source(spec):
            return Verdict(False, "an extension module")
        imports = imports_of(root)
        direct = sorted(imports & _NUMERICAL)
        if direct:
            return Verdict(True, f"imports {', '.join(direct)}")
        through = next((name for name in sorted(imports - {root}) if self.of(name).adopted), None)
        return Verdict(True, f"imports {through}") if through else Verdict(False, "imports nothing that is replaced")


def has_source(spec: ModuleSpec) -> bool:
    """Whether a module is written in Python: its code can be run again."""
    return not isinstance(spec.loader, importlib.machinery.ExtensionFileLoader) and hasattr(spec.loader, "get_code")


def extensions_of(root: str) -> list[str]:
    """The extension modules in a package."""
    spec = find_spec(root)
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    places = (spec.submodule_search_locations if spec else None) or ()
    names = [file for place in places for _, _, files in os.walk(place) for file in files if file.endswith(suffixes)]
    return sorted({name.partition(".")[0] for name in names})


@functools.cache
def imports_of(root: str) -> frozenset[str]:
    """The top-level names that a package or a module imports anywhere in its source, its tests left out."""
    spec = find_spec(root)
    found = {name for text in _sources(spec) for name in _imported(text)} if spec is not None else set()
    return frozenset(found)


def _sources(spec: ModuleSpec) -> Iterator[bytes]:
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not any(place.is_dir() for place in places):  # a module, or in an archive
        get = getattr(spec.loader, "get_source", None)
        text = get(spec.name) if get is not None else None
        yield (text or "").encode()
        return
    count = 0
    for place in places:
        for folder, folders, files in os.walk(place):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            for file in files:
                if file.endswith(".py") and (count := count + 1) <= _MOST_FILES:
                    yield Path(folder, file).read_bytes()


def _imported(text: bytes) -> Iterator[str]:
    for source, names in _IMPORT.findall(_TEXT.sub(b"", text)):
        if source:
            yield source.decode()
        for name in names.split(b","):
            root = name.strip().partition(b" ")[0].partition(b".")[0].decode(errors="replace")
            if root.isidentifier():
                yield root


class Plan:
    """What `adopt` would copy, and why not the rest. Print it."""

    def __init__(self, name: str, choice: Choice) -> None:
        self.name = name
        self.choice = choice
        self.adopted: dict[str, str] = {}  # packages that are copied, and why
        self.original: dict[str, str] = {}  # packages that are shared, and why
        self.replaced: list[str] = []
        self.extensions: dict[str, list[str]] = {}  # the compiled modules of a copied package, which stay as they are
        waiting, seen = [name.partition(".")[0]], set()  # packages that the imports lead to
        while waiting:
            root = waiting.pop()
            if root in seen:
                continue
            seen.add(root)
            if root in REPLACED:
                self.replaced.append(root)
                continue
            verdict = choice.of(root)
            if verdict.adopted:
                self.adopted[root] = verdict.reason
                waiting += imports_of(root)
                found = extensions_of(root)
                if found:
                    self.extensions[root] = found
            elif root not in sys.stdlib_module_names and verdict.reason not in ("not installed", "is this package"):
                self.original[root] = verdict.reason

    def __repr__(self) -> str:
        lines = [f"ad.adopt({self.name!r})", "  adopted (private copies):"]
        lines += _table(self.adopted) or ["    nothing"]
        lines += ["  replaced:", "    " + (", ".join(sorted(self.replaced)) or "nothing")]
        lines += ["  as they are:", *(_table(self.original) or ["    nothing but Python's library"])]
        for root, names in self.extensions.items():
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            lines.append(f"  compiled parts of {root}, which take plain numbers only: {shown}")
        return "\n".join(lines)


def _table(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows), default=0)
    return [f"    {name:<{width}}  {rows[name]}" for name in sorted(rows)]
