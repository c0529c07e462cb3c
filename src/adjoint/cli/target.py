"""The target of a command: a formula with values for its names, or a function in a file with its arguments."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..algebra.formula import CONSTANTS, Formula, FormulaError, near
from ..core.code import signature_of
from ..core.errors import AdjointError
from ..core.tree import flatten
from ..core.types import dtype_of, is_inexact

_FILE = re.compile(r"(?P<path>.*\.py):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")

_NAMED = re.compile(r"\s*[^\W\d]\w*\s*=(?!=)")


class UsageError(AdjointError, ValueError):
    """An invalid command line: says what to write instead."""


class FunctionAtPoint(NamedTuple):
    """A function, the point of evaluation, and the names of its arguments. `is_formula`: it has no source lines."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    args: tuple[Any, ...]
    title: str
    is_formula: bool
    drawn: tuple[str, ...] = ()

    def chosen(self, wrt: str | None) -> list[int]:
        """The arguments to differentiate: those named in `wrt`, or all that are floats."""
        floats = [i for i, a in enumerate(self.args) if _is_float(a)]
        if wrt is None:
            if not floats:
                raise UsageError(f"{self.title} has no float argument to differentiate with respect to")
            return floats
        found = []
        for name in names_in(wrt):
            if name not in self.names:
                raise UsageError(f"--wrt names {name!r}, which is not an argument{near(name, self.names) or among(self.names)}")
            found.append(self.names.index(name))
        return found


def names_in(text: str) -> list[str]:
    names = [n for n in re.split(r"[\s,]+", text.strip()) if n]
    if not names:
        raise UsageError("--wrt needs a name, or several with commas between them: --wrt x,y")
    return names


def among(names: Sequence[str]) -> str:
    return f" ({', '.join(names) or 'there are none'})"


def _is_float(x: Any) -> bool:
    leaves = flatten(x)[0]
    numbers = (np.ndarray, np.generic, float, complex)
    return bool(leaves) and all(isinstance(leaf, numbers) and is_inexact(dtype_of(leaf)) for leaf in leaves)


def target(what: str, values: Sequence[str], args: Sequence[str] | None, draw: bool = False) -> FunctionAtPoint:
    """From the words of the command line. With `draw`, arguments that are not given are drawn at random."""
    named = [*values, *(word for word in args or () if _NAMED.match(word))]
    args = [word for word in args or () if not _NAMED.match(word)]
    given = dict(map(assignment, named))
    if len(given) < len(named):
        raise UsageError(f"a value is given twice in {' '.join(named)}")
    match = _FILE.fullmatch(what)
    if match:
        return _from_file(match["path"], match["name"], given, args, draw)
    if args:
        raise UsageError("--args gives the arguments of a function in a file; for a formula write x=3 y=4")
    return _from_formula(what, given, draw)


def assignment(word: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"{word!r} is not a value of the form name=number, such as x=3 or x=[1,2,3]")
    return name.strip(), text


def number(name: str, text: str) -> Any:
    """A value: a number, an array [1, 2, 3], or arithmetic of them such as pi/4."""
    try:
        formula = Formula(text)
        if formula.names:
            raise FormulaError(
                f"{formula.names[0]!r} has no value here{near(formula.names[0], CONSTANTS)}", text, text.find(formula.names[0]), 0
            )
        value = formula()
    except FormulaError as error:
        raise UsageError(f"the value of {name} cannot be read: {error.reason}\n{error.caret()}") from None
    if np.iscomplexobj(value):
        raise UsageError(f"the value of {name} is complex; values are real numbers")
    return np.asarray(value, float)[()]  # NumPy's numbers, whose 1/0 is inf


def _from_formula(text: str, given: dict[str, str], draw: bool) -> FunctionAtPoint:
    formula = Formula(text, known=given)
    for name in given:
        if name not in formula.names:
            raise UsageError(f"{name!r} does not occur in {formula.text}{near(name, formula.names) or among(formula.names)}")
    missing = [name for name in formula.names if name not in given]
    rng = np.random.default_rng(0)
    values = {name: number(name, word) for name, word in given.items()}
    if missing and not draw:
        listed = " ".join(f"{name}=…" for name in missing)
        place = formula.places[missing[0]]
        raise FormulaError(f"no value is given for {', '.join(missing)}; add {listed}", formula.text, *place)
    values.update((name, np.float64(round(rng.uniform(0.5, 1.5), 3))) for name in missing)
    args = tuple(values[name] for name in formula.names)
    return FunctionAtPoint(formula, formula.names, args, formula.text, True, tuple(missing))


# -- functions in files -----------------------------------------------------------------------------------------


def _from_file(path: str, name: str, given: dict[str, str], args: Sequence[str], draw: bool) -> FunctionAtPoint:
    """A function of a file, with values from the command line, its defaults, or drawn at random."""
    f = load(path, name)
    title = f"{os.path.basename(path)}:{name}"
    try:
        parameters = list(signature_of(f).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"the parameters of {title} are not known; wrap it in a def with named parameters") from None
    words = _words(parameters, given, args, title)
    names, values, drawn = [], [], []
    rng = np.random.default_rng(0)
    for p in parameters:
        if p.name in words:
            value = argument(p.name, words[p.name], p.annotation in (int, "int"))
        elif p.default is not p.empty:
            value = p.default
        elif p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        elif draw:
            value = np.float64(round(rng.uniform(0.5, 1.5), 3))
            drawn.append(p.name)
        else:
            missing = [q.name for q in parameters if q.name not in words and q.default is q.empty]
            raise UsageError(f"no value is given for {', '.join(missing)} of {title}; add --args or {missing[0]}=…")
        if p.kind is p.KEYWORD_ONLY:
            f = _with_keyword(f, p.name, value)
        else:
            names.append(p.name)
            values.append(value)
    for i, word in enumerate(args[len(parameters) :], len(parameters)):
        names.append(f"x{len(names)}")
        values.append(argument(f"argument {i}", word, False))
    return FunctionAtPoint(f, tuple(names), tuple(values), title, False, tuple(drawn))


def _words(parameters: Sequence[inspect.Parameter], given: dict[str, str], args: Sequence[str], title: str) -> dict[str, str]:
    """What the command line says of each parameter, by position in --args or by name."""
    if len(args) > len(parameters) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise UsageError(f"{title} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, --args has {len(args)}")
    words = {p.name: word for p, word in zip(parameters, args, strict=False)}
    known = [p.name for p in parameters]
    for word in given:
        if word in words or word not in known:
            why = "is given twice" if word in words else f"is not a parameter of {title}"
            raise UsageError(f"{word!r} {why}{near(word, known) or among(known)}")
    return words | given


def _with_keyword(f: Callable[..., Any], name: str, value: Any) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        return f(*args, **{name: value})

    called.__name__ = getattr(f, "__name__", "f")
    called.__signature__ = signature_of(f)  # type: ignore[attr-defined]
    return called


def load(path: str, name: str) -> Callable[..., Any]:
    """A function of a file, which is executed as by an import."""
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path!r}")
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
    spec = importlib.util.spec_from_file_location(f"_adjoint_{stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look it up there
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)  # the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = traceback.format_exception_only(error)
        raise UsageError(f"{path} does not load:\n    " + "    ".join(lines).rstrip()) from error
    finally:
        sys.path.remove(folder)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")]
            raise UsageError(f"{path} has no function {name!r}{near(part, functions) or among(functions)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{name} of {path} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def argument(name: str, text: str, is_int: bool) -> Any:
    """An argument of a function in a file: a Python literal. Integers become floats unless the parameter is annotated int."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return number(name, text)  # arithmetic, such as pi/4, or an error message
    return value if is_int else _floats(value, name)


def _floats(value: Any, name: str) -> Any:
    if isinstance(value, list):
        try:
            array = np.array(value)
        except ValueError:
            raise UsageError(f"the rows of {name} differ in length; write a tuple for a container of arrays") from None
        return array.astype(float) if array.dtype.kind in "iuf" else array if array.dtype.kind in "bc" else value
    if isinstance(value, tuple):
        return tuple(_floats(v, name) for v in value)
    if isinstance(value, dict):
        return {key: _floats(v, name) for key, v in value.items()}
    return float(value) if type(value) is int and abs(value) < 2**1000 else value


def as_floats(args: tuple[Any, ...], dtype: str | None) -> tuple[Any, ...]:
    """Arguments whose floats, in containers too, have a dtype."""
    if dtype is None:
        return args
    leaves, structure = flatten(args)
    made = structure.unflatten([np.asarray(x, dtype)[()] if _is_float(x) and not np.iscomplexobj(x) else x for x in leaves])
    return tuple(made)


__all__ = ["FunctionAtPoint", "UsageError", "argument", "as_floats", "load", "number", "target"]
