"""Find the call in user code that tried to convert a traced value to a number, and say what to write instead.

`scipy.linalg.expm(x)`, `rng.normal(x)` and `math.sin(x)` all convert x to a plain value, somewhere inside C code. The current
instruction of the user's frame tells which function was called, so that the error can name it.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import inspect
import io
import itertools
import os
import sys
import sysconfig
import types
import warnings
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import LABELLED, user_frame
from ..core.home import RUNTIME, is_adopted, package_of
from .table import REFUSED, load_all

_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_UNKNOWN: Any = object()


class Call(NamedTuple):
    """An instruction: its kind (for an operator, its symbol), the dotted name of the function it calls, and that function if
    known."""

    kind: str
    words: tuple[str, ...] = ()
    function: Any = None

    @property
    def name(self) -> str:
        return ".".join(self.words).lstrip(".")


def call_of(frame: types.FrameType) -> Call:
    """The instruction that a frame is executing."""
    kind, words = _instruction(frame.f_code, frame.f_lasti)
    return Call(kind, words, _resolved(words, frame))


def _resolved(words: tuple[str, ...], frame: types.FrameType) -> Any:
    """The object that a dotted name refers to in a frame, or None."""
    found = _value_of(words[0], frame) if words else _UNKNOWN
    for word in words[1:]:
        found = getattr(found, word, _UNKNOWN)
    return None if found is _UNKNOWN else found


def _value_of(name: str, frame: types.FrameType) -> Any:
    """The value of a name in a frame. Reading f_locals is slow, so only if the name is a local variable."""
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED
    scopes = [frame.f_globals, vars(builtins)]
    if not is_function or name in code.co_varnames or name in code.co_freevars or name in code.co_cellvars:
        scopes.insert(0, frame.f_locals)
    return next((scope[name] for scope in scopes if name in scope), _UNKNOWN)


def is_shown(frame: types.FrameType) -> bool:
    """Whether a frame is at `text % x`, which only shows the number."""
    return call_of(frame).kind in ("%", "%=")


def is_cached() -> bool:
    """Whether the user's code is calling a memoised function, which hashes its arguments as a key."""
    frame, _ = user_frame()
    function = None if frame is None else call_of(frame).function
    return isinstance(getattr(function, "__func__", function), functools._lru_cache_wrapper)


def reads_entry(frame: types.FrameType) -> bool:
    """Whether a frame is at `d[key]`, `d[key] = v` or `d.get(key)`, and asks for more than whether the dict has the key."""
    call = call_of(frame)
    return call.kind in ("BINARY_SUBSCR", "STORE_SUBSCR", "[]") or call.words[-1:] in _OF_ENTRIES


_OF_ENTRIES = (("get",), ("setdefault",), ("pop",))


def may_index_array(frame: types.FrameType) -> bool:
    """Whether a frame is at `a[i]` or `a[i] = v`, and a may be a plain array: it is one, or has no name."""
    code, at = frame.f_code, frame.f_lasti
    if _instruction(code, at)[0] not in _INDEXED:
        return False
    words = _words_at(code, at)
    found = _resolved(words, frame) if len(words) == 1 else None
    return found is None or isinstance(found, np.ndarray)


_INDEXED = ("BINARY_SUBSCR", "BINARY_SLICE", "[]", "STORE_SUBSCR", "STORE_SLICE")


def is_printed() -> bool:
    """Whether the string that the user's code is formatting goes straight to print, a log or an error, and so cannot affect the
    result."""
    frame, _ = user_frame()
    if frame is None:
        return False
    if frame.f_globals.get("__name__", "").startswith("logging"):  # which formats the string itself
        return True
    calls = _calls_around(frame.f_code, frame.f_lasti)
    functions = (_resolved(words, frame) for words in calls)
    return _prints(next((f for f in functions if f not in _MAKE_TEXT), None))


_MAKE_TEXT = (str, repr, format, str.format, str.join)


def _loggers() -> tuple[type, ...]:
    """The classes of loggers, if a program has loaded them."""
    logging = sys.modules.get("logging")
    return () if logging is None else (logging.Logger, logging.LoggerAdapter)


def _prints(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return (
        function in (print, warnings.warn)
        or isinstance(owner, (*_loggers(), io.TextIOBase))
        or (isinstance(function, type) and issubclass(function, BaseException))
        or _home(function) == "logging"
    )


@functools.lru_cache(1 << 10)
def _calls_around(code: types.CodeType, at: int) -> list[tuple[str, ...]]:
    """The names of the functions whose call expressions contain the instruction at an offset; the innermost first."""
    positions = {i.offset: i.positions for i in dis.get_instructions(code)}
    inner = _span(positions.get(at))
    spans = {o: _span(p) for o, p in positions.items() if _instruction(code, o)[0].startswith("CALL")}
    if inner is None:
        return []
    around = {o: s for o, s in spans.items() if s is not None and s[0] <= inner[0] and inner[1] <= s[1]}
    return [_instruction(code, o)[1] for o in sorted(around, key=lambda o: (around[o][1], o))]


def _span(positions: dis.Positions | None) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the source of an instruction begins and ends: line and column."""
    if positions is None or None in positions:
        return None
    first, last, begin, end = positions
    return (first, begin), (last, end)  # type: ignore[return-value]


@functools.lru_cache(1 << 10)
def _instruction(code: types.CodeType, at: int) -> tuple[str, tuple[str, ...]]:
    """The kind of the instruction at an offset and, for a call, the dotted name of the function."""
    before = list(itertools.takewhile(lambda one: one.offset <= at, dis.get_instructions(code)))
    if not before:
        return "", ()
    instruction = before.pop()
    kind = instruction.argrepr if instruction.opname == "BINARY_OP" else instruction.opname
    if not kind.startswith(("CALL", "PRECALL")) or instruction.positions is None:
        return kind, ()
    return kind, _callee(before, (instruction.positions[0], instruction.positions[2]))


@functools.lru_cache(1 << 10)
def _words_at(code: types.CodeType, at: int) -> tuple[str, ...]:
    """The name at which the source of the instruction at an offset begins: `a` of `a[i]`."""
    before = list(itertools.takewhile(lambda one: one.offset <= at, dis.get_instructions(code)))
    positions = before.pop().positions
    return () if positions is None else _callee(before, (positions[0], positions[2]))


def _callee(before: Iterable[dis.Instruction], start: tuple[Any, Any]) -> tuple[str, ...]:
    """The name of a function that is called, from the instructions before the call, which begins at `start` in the source.

    In `np.random.normal(x)` the call and the loads of `np`, `.random`, `.normal` start at the same place of the source.
    """
    words: list[str] = []
    second: str | None = None  # the second variable of a combined load, which has no position
    rewritten = 0  # calls of `__adjoint__.call`, around the function that is called
    for earlier in before:
        beside, second = second, earlier.argval[1] if "_LOAD_FAST" in earlier.opname else None
        if earlier.positions is None or (earlier.positions[0], earlier.positions[2]) != start:
            continue
        if earlier.opname == "LOAD_CONST" and isinstance(earlier.argval, tuple):
            continue  # the names of keywords, which stand at the start of the call too
        if beside is not None:  # `x + np.sin(y)`: what stands at the start of the call belongs to the second
            words = [beside]
        if earlier.argval == RUNTIME:
            rewritten += 1
        elif earlier.opname.startswith(_LOADS):
            words = [earlier.argval if second is None else earlier.argval[0]]
        elif earlier.opname == "LOAD_CONST" and isinstance(earlier.argval, str):
            words = words or ["str"]  # "…".format; otherwise the name of a keyword beside **options
        elif earlier.opname in _ATTRIBUTES and words:
            words.append(earlier.argval)
        elif earlier.opname == "CALL" and rewritten:
            rewritten -= 1
        elif earlier.opname in ("BINARY_SUBSCR", "CALL", "CALL_KW", "CALL_FUNCTION_EX"):
            words = [""]  # part of the callee is computed, as in default_rng(0).normal
    return tuple(words)


# -- what to write instead --------------------------------------------------------------------------------------

_MATH = {
    "acos": "np.arccos", "acosh": "np.arccosh", "asin": "np.arcsin", "asinh": "np.arcsinh", "atan": "np.arctan",
    "atan2": "np.arctan2", "atanh": "np.arctanh", "dist": "np.linalg.norm(p - q)", "fsum": "np.sum", "pow": "np.power",
    "phase": "np.angle", "lgamma": "adjoint.scipy.special.gammaln", "gamma": "adjoint.scipy.special.gamma",
    "erf": "adjoint.scipy.special.erf", "erfc": "adjoint.scipy.special.erfc", "sumprod": "np.dot",
}  # fmt: skip


def advice() -> tuple[str, str]:
    """The name of the function that the user called, if known, and what to write instead ('' if not known)."""
    frame, module = user_frame()
    call = Call("") if frame is None else call_of(frame)
    return _public_name(call), _instead(call.function, call.words or ("",), module, frame)


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


def _public_name(call: Call) -> str:
    """The full name of a SciPy function, since users import it in many ways; any other name as written."""
    home, own = _home(call.function), getattr(call.function, "__name__", "")
    if not own or not home.startswith("scipy.") or not hasattr(sys.modules.get(_module(home)), own):
        return call.name
    return f"{_module(home)}.{own}"


def _module(home: str) -> str:
    """The public module of a private SciPy module."""
    return ".".join(home.split(".")[:2])


def _instead(function: Any, words: tuple[str, ...], module: str, frame: types.FrameType | None) -> str:
    """What to write instead of a call; `module` is the module of the callee, known for an operator too."""
    name, has = words[-1], imported(frame)
    if isinstance(getattr(function, "__self__", None), np.ndarray):
        return _of_array(name, has)
    if module.partition(".")[0] == "pydantic":
        return "pydantic makes a plain number of a field: declare it as Any, or make the object with model_construct"
    home = _home(function) or module
    root = home.partition(".")[0]
    if root in ("math", "cmath", "statistics"):
        better = _MATH.get(name, f"np.{name}" if hasattr(np, name) else "")
        with_ours = "" if has.only or not better.startswith("np.") else f" with {has.way}"
        return f"use NumPy functions instead of {root}'s" + (f": {better}{with_ours}" if better else "") + f", {ADOPT}"
    if root == "scipy":
        return _of_scipy(function, home, words)
    if root in LABELLED:
        array = ".data" if root == "xarray" else ".to_numpy()"
        return f"{root} computes this on plain numbers: take the array with {array}, and use NumPy functions"
    if home.startswith("numpy.random") or (function is None and words[0] == "" and hasattr(np.random.Generator, name)):
        return _DRAWN.get(name, "write the draw as a function of standard numbers and of its parameters")
    if isinstance(function, Hashable) and function in _ITERATORS:
        return _ITERATORS[function]
    for start, reason in _OF_NUMPY.items():
        if f"{home}.".startswith(f"{start}."):
            return reason
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"write x.astype(np.{function.__name__})"
    if root == "numpy" and _reason(function):
        return _reason(function)
    if root == "numpy" or isinstance(function, np.ufunc):
        return making_arrays(has, name)
    if _is_compiled(function) and root not in sys.stdlib_module_names:
        return "it is compiled code: declare its rule with ad.custom_vjp, wrap it in ad.extend.numerical(f) for a numerical rule"
    return ""


def _is_compiled(function: Any) -> bool:
    return isinstance(function, types.BuiltinFunctionType) or "cython_function" in type(function).__name__


def making_arrays(has: Imported, name: str = "array") -> str:
    """How to make an array from traced values."""
    if has.only:
        return f"write {has.only}.{name} in the function itself, or use np.stack for a list of values"
    return f"write {has.way}, {ADOPT}, or use np.stack for a list of values"


def _of_array(name: str, has: Imported) -> str:
    """Instead of a method of a plain array, such as `a.dot(x)`."""
    of_function = f", or write np.{name} of that module" if hasattr(np, name) else ""
    if has.only:
        return f"make the array inside the function, with {has.only}.array(a){of_function}"
    return f"make the array with {has.way} inside the function{of_function}, or {ADOPT}"


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
_OF_NUMPY = {
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


def _home(function: Any) -> str:
    """The module that a function, or the object whose method it is, comes from."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return type(owner).__module__
    return getattr(function, "__module__", None) or ""


def _of_scipy(function: Any, home: str, words: tuple[str, ...]) -> str:
    module = _module(home)
    if module == "scipy.sparse":
        return "make the matrix dense with A.toarray(), or declare the product with ad.extend.linear"
    ours = _ours(module)
    for names in (words, (getattr(function, "__name__", ""),)):  # as written, and as defined in its module
        for i, word in enumerate(names):
            found = _attribute(ours, names[i:]) if ours is not None and word in vars(ours) else None
            if found is not None and not _home(found).startswith("scipy."):
                return f"use adjoint.{module}.{'.'.join(names[i:])}"
    if ours is not None and words[0] == "":
        return f"use adjoint.{module} where it has the function"
    plain = {"scipy.fft": "fft.", "scipy.signal": "", "scipy.integrate": ""}.get(module)
    if plain is not None and hasattr(np.fft if plain else np, words[-1]):
        return f"use np.{plain}{words[-1]}"
    reason = _reason(function) or "SciPy computes it on plain numbers"
    standard = ", set SCIPY_ARRAY_API=1 if the function follows the Array API standard" if module in _STANDARD else ""
    return f"{reason}. Wrap the call in ad.extend.numerical(f) for a numerical rule, declare one with ad.custom_vjp{standard}"


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
