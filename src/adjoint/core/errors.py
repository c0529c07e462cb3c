"""Errors that say what, where and what to do next.

Every error derives from `AdjointError` and from the built-in that fits, so that both
`except ad.AdjointError` and `except TypeError` work. The message ends with the user's own line.
"""

from __future__ import annotations

import dis
import functools
import itertools
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, TypeVar

from .home import OWN, package_of

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
CALLER = "called_from_outside"  # the name of the frame from which a transform calls a builtin (`bind`)
_WRITTEN = ("<adjoint ", "<attrs generated ")  # begin the file names of functions that derive/ and attrs write
F = TypeVar("F", bound=Callable[..., Any])


LABELLED = frozenset({"pandas", "xarray"})  # arrays with labels
_PLUMBING = frozenset({OWN, "numpy", "scipy", "cupy", "cupyx", *LABELLED, "mpmath", "pydantic", "attr"}) | {
    *("functools", "contextlib", "json", "random", "statistics", "fractions", "datetime", "copy", "heapq", "bisect"),
}
_files: dict[str, tuple[bool, str]] = {}  # per file name; looked up at every staged op
COMPILED = (".pyx", ".pxd", ".pxi", "<stringsource>")  # the ends of file names of frames that Cython adds to a traceback
_modules: dict[str, bool] = {}  # whether a module is plumbing
_lines: dict[int, tuple[types.CodeType, list[str]]] = {}  # by the id of a code, which is kept alive: the line of each instruction


def _file(name: str) -> tuple[bool, str]:
    """Whether a file is ours (or a function that was generated), and its name without the folders."""
    known = _files.get(name)
    if known is None:
        if len(_files) > 1 << 12:  # a notebook makes a file name for each cell
            _files.clear()
        known = _files[name] = name.startswith((_PACKAGE, *_WRITTEN)), os.path.basename(name)
    return known


def is_our_frame(frame: types.FrameType) -> bool:
    return _file(frame.f_code.co_filename)[0]


def is_plumbing(frame: types.FrameType) -> bool:
    """Ours, or a frame of a library such as NumPy, pandas or pydantic, between the user's call and us."""
    name = frame.f_globals.get("__name__", "")  # checked first: reading f_code is an audit event, which may have a hook
    known = _modules.get(name)
    if known is None:
        known = _modules[name] = package_of(name) in _PLUMBING
    return known or is_our_frame(frame)


#: The line of an equation that is being transformed: the equations made from it get the same line.
written_on: ContextVar[str] = ContextVar("adjoint_line", default="")


@contextmanager
def on_line(line: str) -> Iterator[None]:
    """Attribute ops staged meanwhile to this line; with '' to the user's current line."""
    token = written_on.set(line)
    try:
        yield
    finally:
        written_on.reset(token)


def user_line(ours: int = 1) -> str:
    """`model.py:12` of the innermost frame that is the user's, or '' when there is none. So many frames are known to be ours."""
    frame: types.FrameType | None = sys._getframe(ours)
    known, get = _modules.get, dict.get  # that of a staged function's globals is written in Python
    while frame is not None:
        if not known(get(frame.f_globals, "__name__", "")):
            code = frame.f_code
            held = _lines.get(id(code))
            if held is not None:
                return held[1][frame.f_lasti >> 1]
            if not is_plumbing(frame):
                return _lines_of(code)[frame.f_lasti >> 1]
        frame = frame.f_back
    return ""


def _lines_of(code: types.CodeType) -> list[str]:
    """The line of each instruction, all at once: `frame.f_lineno` takes as long as the function has lines."""
    if len(_lines) > 1 << 10:
        _lines.clear()
    file, found = _file(code.co_filename)[1], []
    for start, end, line in code.co_lines():
        found += [f"{file}:{line or code.co_firstlineno}"] * ((end - start) >> 1)
    _lines[id(code)] = code, found
    return found


def user_level() -> int:
    """The stacklevel for `warnings.warn` in the calling function: the distance to the user's innermost frame."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_plumbing(frame):
        frame, level = frame.f_back, level + 1
    return level


def user_frame() -> tuple[types.FrameType | None, str]:
    """The user's innermost frame, and the NumPy or SciPy module that it has called ('' if none)."""
    frame: types.FrameType | None = sys._getframe(1)
    module = ""
    while frame is not None and is_plumbing(frame):
        module = "" if is_our_frame(frame) else frame.f_globals.get("__name__", "")
        frame = frame.f_back
    return frame, module


def calling_frame() -> types.FrameType:
    """The innermost frame that is not ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_our_frame(frame):
        frame = frame.f_back
    return frame


def is_written_by_user(operators: frozenset[str]) -> bool:
    """Whether the running operator is in user code, and not in a derivative rule: `operators` are the modules that run it.

    The user's function may be the operator itself, as in `ad.jit(operator.neg)`. Code of the standard library, such as that of
    `fractions`, computes with numbers as the user's does.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") in operators or frame.f_code.co_filename.startswith(_WRITTEN)):
        frame = frame.f_back
    if frame is None:
        return False
    module = frame.f_globals.get("__name__", "")
    return not is_plumbing(frame) or module == CALLER or package_of(module) in sys.stdlib_module_names


def calls_under_way() -> list[types.FrameType]:
    """The frames of all calls, the innermost first, without those of this function and of its caller."""
    found, frame = [], sys._getframe(1).f_back
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def in_a_try(outermost: int) -> bool:
    """Whether an error raised now may be caught by user code, ignoring so many of the outermost calls."""
    frames = calls_under_way()
    return any(
        not is_plumbing(frame) and any(e.start <= frame.f_lasti < e.end for e in _handlers(frame.f_code))
        for frame in frames[: len(frames) - outermost]
    )


def runs_inside(f: F) -> F:
    """Mark a function that runs the user's function inside a transform."""
    _RUNS.add(f.__code__)  # type: ignore[attr-defined]
    return f


_RUNS: set[types.CodeType] = set()
#: The last error that refused what plain NumPy would do, where the user's function may catch it. If it does, and returns, the
#: transform must not take its result for that of the function on plain numbers.
refused: ContextVar[str | None] = ContextVar("adjoint_refused", default=None)
#: The last time that two traced numbers were distinct keys of a dict or a set although they are equal: a new list of its line.
told_apart: ContextVar[list[str] | None] = ContextVar("adjoint_told_apart", default=None)


def note_refusal(message: str) -> None:
    """Note a refusal of which the user's function sees no error: `hasattr` and `getattr` catch it."""
    if may_be_caught(by_builtin=True):
        refused.set(message)


def may_be_caught(except_in: frozenset[str] = frozenset(), by_builtin: bool = False) -> bool:
    """Whether user code inside a transform may catch an error raised now, ignoring handlers in some packages.

    A builtin that it has called may catch it, too.
    """
    caught, found = by_builtin, False
    for frame in calls_under_way():
        if frame.f_code in _RUNS:
            found = caught
        elif not caught and not is_plumbing(frame) and package_of(frame.f_globals.get("__name__", "")) not in except_in:
            caught = any(e.start <= frame.f_lasti < e.end and not e.by_name for e in _handlers(frame.f_code))
    return found


class _Handled(NamedTuple):
    """Instructions, by their offsets, whose errors code of the same function catches."""

    start: int
    end: int
    by_name: bool = False  # `except AdjointError`: the function expects our errors


@functools.cache
def _handlers(code: types.CodeType) -> list[_Handled]:
    """The instructions whose errors a function catches; all of them, on an interpreter without this information.

    A handler in user code begins by pushing the error. The cleanup code of an inlined comprehension does not, and catches
    nothing.
    """
    parse: Any = getattr(dis, "_parse_exception_table", None)
    if parse is None:
        return [_Handled(0, len(code.co_code))]
    handled = parse(code)
    if not handled:  # in most functions; reading the instructions of a long one takes long
        return []
    instructions = list(dis.get_instructions(code))
    noting = {i.offset: place for place, i in enumerate(instructions) if i.opname == "PUSH_EXC_INFO"}
    known = "PUSH_EXC_INFO" in dis.opmap
    entries = [e for e in handled if e.target in noting or not known]
    return [_Handled(e.start, e.end, _names_our_errors(instructions[noting.get(e.target, 0) :])) for e in entries]


def _names_our_errors(handler: list[dis.Instruction]) -> bool:
    """Whether the first clause of a handler names a class of this module."""
    clause = itertools.takewhile(lambda i: i.opname not in ("CHECK_EXC_MATCH", "RERAISE"), handler)
    classes = (globals().get(i.argval) for i in clause if isinstance(i.argval, str))
    return any(isinstance(cls, type) and issubclass(cls, AdjointError) for cls in classes)


def source_text(line: str) -> str:
    """The source text of a `model.py:12` of this process, or '' if the file is not known."""
    name, _, number = line.rpartition(":")
    paths = [path for path, (ours, short) in list(_files.items()) if short == name and not ours]
    return linecache.getline(paths[0], int(number)).strip() if len(paths) == 1 and number.isdecimal() else ""


def last_line(error: BaseException) -> str:
    """`model.py:12` of the user's line that raised an error."""
    tb, line = error.__traceback__, ""
    while tb is not None:
        if not is_plumbing(tb.tb_frame) and not tb.tb_frame.f_code.co_filename.endswith(COMPILED):
            line = f"{_file(tb.tb_frame.f_code.co_filename)[1]}:{tb.tb_lineno}"
        tb = tb.tb_next
    return line


class AdjointError(Exception):
    """Base of every error raised by adjoint.

    >>> import adjoint as ad
    >>> try:
    ...     ad.grad(lambda x: x)(1)
    ... except ad.AdjointError as error:
    ...     print(type(error).__name__)
    DtypeError
    """

    refuses: ClassVar[bool] = False  # what plain NumPy would do
    earlier: str | None = None  # what was refused before

    def __init__(self, message: str, line: str | None = None) -> None:
        self.line = user_line() if line is None else line
        super().__init__(f"{message} ({self.line})" if self.line else message)
        if self.refuses and may_be_caught():
            self.earlier = refused.get()
            refused.set(str(self))

    def mark_handled(self) -> None:
        """Say that our own code has caught this error, and not the user's function."""
        if refused.get() == str(self):
            refused.set(self.earlier)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.args[0], self.line)


def rebuilt(cls: type[AdjointError], message: str, line: str) -> AdjointError:
    error = cls.__new__(cls, message)
    error.args, error.line = (message,), line
    return error


class OperationError(Exception):
    """An operation called by a compiled program has raised (its `__cause__`). The function is run eagerly, and raises or catches
    that."""


class ArgumentError(AdjointError, TypeError):
    """An argument of the wrong kind: an integer to `grad`, a string, an unknown option."""


class ShapeError(AdjointError, ValueError):
    """Shapes, sizes or structures that do not fit together."""


class DeviceError(AdjointError, RuntimeError):
    """Arrays on different devices, a device that is not there, or one that has failed."""


class DtypeError(AdjointError, TypeError):
    """A dtype that does not fit: an integer where a float must be, a complex output of `grad`."""


class ConversionError(AdjointError, TypeError):
    """A traced value asked to become a plain number or array, which would lose its derivative."""

    refuses = True

    def __init__(self, message: str, line: str | None = None) -> None:
        super().__init__(message, line)
        frame, _ = user_frame()
        if frame is not None:
            last_conversion.set((id(frame), frame.f_lasti, str(self), self.line))


class TableError(ConversionError):
    """A plain array was read at a traced index: `table[i]`. A function that is staged with traced tables can do that."""


#: Where a traced value last refused a conversion, and the error. C code may replace our error by its own.
last_conversion: ContextVar[tuple[int, int, str, str] | None] = ContextVar("adjoint_asked", default=None)


class AttributeMissingError(AdjointError, AttributeError):
    """An attribute of NumPy's arrays that a traced value cannot have."""

    refuses = True


class CompilerError(AdjointError, RuntimeError):
    """The compiler itself has failed: a bug in adjoint, which must not be hidden by a slow eager run."""


class UnsupportedError(AdjointError, TypeError, NotImplementedError):
    """A function, or a form of one, that has no derivative here."""

    refuses = True


class LeakError(AdjointError, RuntimeError):
    """A traced value used after the transform that made it has ended."""

    refuses = True


class BatchError(AdjointError, ValueError):
    """A mistake in `vmap`: sizes that differ, axes that do not exist, a branch on a batch."""

    refuses = True


class FreedError(AdjointError, RuntimeError):
    """A second backward pass over a graph that the first one has freed."""


class ReadOnlyError(AdjointError, ValueError, RuntimeError):
    """A write to an array whose old contents the backward pass still needs."""

    refuses = True


class ReadOnlyViewError(ReadOnlyError):
    """A write to a view that is read-only in NumPy, too: a function that catches the error does so on plain numbers as well."""

    refuses = False


class CheckError(AdjointError, AssertionError):
    """Derivatives that disagree, found by `check_grads`."""
