"""What to write instead of a call that would lose a derivative: by the kind of function that was called (`_KINDS`)."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import types
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import LABELLED, user_frame
from ..core.home import is_adopted, package_of
from .caller import UserCall, call_of, home_of
from .table import REFUSED, load_all

_MATH = {
    "acos": "np.arccos", "acosh": "np.arccosh", "asin": "np.arcsin", "asinh": "np.arcsinh", "atan": "np.arctan",
    "atan2": "np.arctan2", "atanh": "np.arctanh", "dist": "np.linalg.norm(p - q)", "fsum": "np.sum", "pow": "np.power",
    "phase": "np.angle", "lgamma": "adjoint.scipy.special.gammaln", "gamma": "adjoint.scipy.special.gamma",
    "erf": "adjoint.scipy.special.erf", "erfc": "adjoint.scipy.special.erfc", "sumprod": "np.dot",
}  # fmt: skip


def advice() -> tuple[str, str]:
    """The name of the function that the user called, if known, and what to write instead ('' if not known)."""
    frame, module = user_frame()
    call = UserCall("") if frame is None else call_of(frame)
    refused = _Refused(call.function, call.words or ("",), module, imported(frame))
    known = (advise(refused) for advise in _KINDS)
    return _public_name(call), next((text for text in known if text is not None), "")


ADOPT = "adopt the function with ad.adopt"
IMPORT = "`import adjoint.numpy as np`"


class Imported(NamedTuple):
    """How the code of a frame calls `adjoint.numpy` ('' if it does not), and whether it calls plain NumPy as well."""

    ours: str = ""
    plain: bool = True

    @property
    def way(self) -> str:
        """The import that is missing, or where it is."""
        return f"{IMPORT} (here: {self.ours})" if self.ours else IMPORT

    @property
    def only(self) -> str:
        """The name of `adjoint.numpy` in code that uses no other."""
        return "" if self.plain else self.ours


def imported(frame: types.FrameType | None) -> Imported:
    """What a frame can call by a name."""
    if frame is None:
        return Imported()
    named = {id(x): name for scope in (frame.f_globals, frame.f_locals) for name, x in scope.items()}
    return Imported(named.get(id(sys.modules[__package__]), ""), id(np) in named)


def package_at(frame: types.FrameType | None) -> str:
    """The installed package that a frame runs code of; '' for code of the user's own, and for adopted code."""
    if frame is None or is_adopted(frame) or not frame.f_code.co_filename.startswith(_INSTALLED):
        return ""
    return package_of(frame.f_globals.get("__name__", ""))


_INSTALLED = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib")})


def _public_name(call: UserCall) -> str:
    """The full name of a SciPy function, since users import it in many ways; any other name as written."""
    home, own = home_of(call.function), getattr(call.function, "__name__", "")
    if not own or not home.startswith("scipy.") or not hasattr(sys.modules.get(_public_module(home)), own):
        return call.name
    return f"{_public_module(home)}.{own}"


def _public_module(home: str) -> str:
    """The public module of a private SciPy module."""
    return ".".join(home.split(".")[:2])


class _Refused(NamedTuple):
    """A call that would lose a derivative. `words` is the name of the function as written; `module` is that of the code which it
    runs, known for an operator too; `has` is how the user's code calls `adjoint.numpy`."""

    function: Any
    words: tuple[str, ...]
    module: str
    has: Imported

    @property
    def home(self) -> str:
        return home_of(self.function) or self.module

    @property
    def name(self) -> str:
        return self.words[-1]

    @property
    def root(self) -> str:
        return self.home.partition(".")[0]


def _of_array(call: _Refused) -> str | None:
    """Instead of a method of a plain array, such as `a.dot(x)`."""
    if not isinstance(getattr(call.function, "__self__", None), np.ndarray):
        return None
    of_function = f", or write np.{call.name} of that module" if hasattr(np, call.name) else ""
    if call.has.only:
        return f"make the array inside the function, with {call.has.only}.array(a){of_function}"
    return f"make the array with {call.has.way} inside the function{of_function}, or {ADOPT}"


def _of_math(call: _Refused) -> str | None:
    if call.root not in ("math", "cmath", "statistics"):
        return None
    better = _MATH.get(call.name, f"np.{call.name}" if hasattr(np, call.name) else "")
    with_ours = "" if call.has.only or not better.startswith("np.") else f" with {call.has.way}"
    return f"use NumPy functions instead of {call.root}'s" + (f": {better}{with_ours}" if better else "") + f", {ADOPT}"


def _of_scipy(call: _Refused) -> str | None:
    if call.root != "scipy":
        return None
    module, words = _public_module(call.home), call.words
    if module == "scipy.sparse":
        return "make the matrix dense with A.toarray(), or declare the product with ad.extend.linear"
    ours = _ours(module)
    for names in (words, (getattr(call.function, "__name__", ""),)):  # as written, and as defined in its module
        for i, word in enumerate(names):
            found = _attribute(ours, names[i:]) if ours is not None and word in vars(ours) else None
            if found is not None and not home_of(found).startswith("scipy."):
                return f"use adjoint.{module}.{'.'.join(names[i:])}"
    if ours is not None and words[0] == "":
        return f"use adjoint.{module} where it has the function"
    plain = {"scipy.fft": "fft.", "scipy.signal": "", "scipy.integrate": ""}.get(module)
    if plain is not None and hasattr(np.fft if plain else np, call.name):
        return f"use np.{plain}{call.name}"
    reason = _reason(call.function) or "SciPy computes it on plain numbers"
    standard = ", set SCIPY_ARRAY_API=1 if the function follows the Array API standard" if module in _STANDARD else ""
    return f"{reason}. Wrap the call in ad.extend.numerical(f) for a numerical rule, declare one with ad.custom_vjp{standard}"


def _of_containers(call: _Refused) -> str | None:
    """Instead of a method of a labelled array, or a field of a pydantic model."""
    if call.module.partition(".")[0] == "pydantic":
        return "pydantic makes a plain number of a field: declare it as Any, or make the object with model_construct"
    if call.root not in LABELLED:
        return None
    array = ".data" if call.root == "xarray" else ".to_numpy()"
    return f"{call.root} computes this on plain numbers: take the array with {array}, and use NumPy functions"


def _of_draws(call: _Refused) -> str | None:
    is_computed = call.function is None and call.words[0] == ""  # default_rng(0).normal
    if not call.home.startswith("numpy.random") and not (is_computed and hasattr(np.random.Generator, call.name)):
        return None
    return _DRAWN.get(call.name, "write the draw as a function of standard numbers and of its parameters")


def _of_numpy(call: _Refused) -> str | None:
    function = call.function
    if isinstance(function, Hashable) and function in _ITERATORS:
        return _ITERATORS[function]
    for start, reason in _PARTS_OF_NUMPY.items():
        if f"{call.home}.".startswith(f"{start}."):
            return reason
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"write x.astype(np.{function.__name__})"
    if call.root == "numpy":
        return _reason(function) or making_arrays(call.has, call.name)
    return making_arrays(call.has, call.name) if isinstance(function, np.ufunc) else None


def _of_compiled_code(call: _Refused) -> str | None:
    is_compiled = isinstance(call.function, types.BuiltinFunctionType) or "cython_function" in type(call.function).__name__
    if not is_compiled or call.root in sys.stdlib_module_names:
        return None
    return "it is compiled code: declare its rule with ad.custom_vjp, wrap it in ad.extend.numerical(f) for a numerical rule"


#: Each gives what to write instead of a call, or None if it is of another kind; the first one that knows is asked.
_KINDS = (_of_array, _of_containers, _of_math, _of_scipy, _of_draws, _of_numpy, _of_compiled_code)


def making_arrays(has: Imported, name: str = "array") -> str:
    """How to make an array from traced values."""
    if has.only:
        return f"write {has.only}.{name} in the function itself, or use np.stack for a list of values"
    return f"write {has.way}, {ADOPT}, or use np.stack for a list of values"


_DRAWN = {
    name: reason
    for names, reason in {
        "normal": "draw standard numbers and scale them: mean + scale * rng.normal(size=n)",
        "uniform": "draw standard numbers and scale them: low + (high - low) * rng.random(n)",
        "exponential": "draw standard numbers and scale them: scale * rng.standard_exponential(n)",
        "laplace logistic gumbel": "draw standard numbers and scale them, as in mean + scale * rng.{name}(size=n)",
        "lognormal": "draw standard numbers: np.exp(mean + sigma * rng.normal(size=n))",
        "multivariate_normal": "draw standard numbers: mean + np.linalg.cholesky(cov) @ rng.normal(size=n)",
        "gamma standard_gamma chisquare beta standard_t f noncentral_chisquare noncentral_f vonmises wald weibull pareto power "
        "rayleigh standard_cauchy triangular dirichlet": "draw u = rng.random(n), and apply the inverse of the distribution "
        "function (adjoint.scipy.special has gammaincinv, betaincinv and others)",
        "choice permutation permuted shuffle": "draw indices and read with them: x[rng.permutation(len(x))]",
        "integers randint binomial poisson geometric hypergeometric logseries multinomial multivariate_hypergeometric "
        "negative_binomial zipf": "a random integer is constant in its parameters",
    }.items()
    for name in names.split()
}
_DRAWN |= {name: _DRAWN[name].format(name=name) for name in ("laplace", "logistic", "gumbel")}
#: Iterators that yield plain elements.
_ITERATORS: dict[Any, str] = {
    np.nditer: "loop over x.flat, or over np.ndindex(x.shape) and read x[i]",
    np.ndenumerate: "loop over np.ndindex(x.shape) and read x[i]",
    np.broadcast: "write np.broadcast_shapes(x.shape, …) for the shape, or np.broadcast_arrays",
}
_PARTS_OF_NUMPY = {
    "numpy.matrixlib": "np.matrix redefines the product: pass np.asarray(m), and write @",
    "numpy.ma": "masked arrays are not supported: use np.where with a mask",
    "numpy.polynomial": "evaluate polynomials with np.polyval (highest power first)",
    "numpy.testing": "compare the results outside of the function",
}


def _reason(function: Any) -> str:
    """Why a function is refused, if it is."""
    load_all()
    known: dict[Any, str] = REFUSED
    return known.get(function, "") if callable(function) and isinstance(function, Hashable) else ""


#: SciPy modules with functions for any array library, if SCIPY_ARRAY_API is set.
_STANDARD = frozenset(
    f"scipy.{name}"
    for name in ("cluster", "differentiate", "fft", "integrate", "ndimage", "optimize", "signal", "spatial", "stats")
)


def _attribute(x: Any, names: Iterable[str]) -> Any:
    for name in names:
        x = getattr(x, name, None)
    return x


def _ours(module: str) -> types.ModuleType | None:
    """Our counterpart of a SciPy module."""
    try:
        return importlib.import_module(f"adjoint.{module}")
    except ModuleNotFoundError:
        return None
