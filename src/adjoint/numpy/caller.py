"""Find the call in user code that tried to convert a traced value to a number.

`scipy.linalg.expm(x)`, `rng.normal(x)` and `math.sin(x)` all convert x to a plain value, somewhere inside C code. The current
instruction of the user's frame tells which function was called, so that the error can name it. What to write instead is in
`advice.py`.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import io
import itertools
import sys
import types
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import user_frame
from ..core.home import RUNTIME

_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
#: What computes a part of the function that is called, as in `default_rng(0).normal`. A subscript is a BINARY_OP in Python 3.14.
_COMPUTES = ("BINARY_SUBSCR", "BINARY_SLICE", "BINARY_OP", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
_UNKNOWN: Any = object()


class UserCall(NamedTuple):
    """An instruction: its kind (for an operator, its symbol), the dotted name of the function it calls, and that function if
    known."""

    kind: str
    words: tuple[str, ...] = ()
    function: Any = None

    @property
    def name(self) -> str:
        return ".".join(self.words).lstrip(".")


def call_of(frame: types.FrameType) -> UserCall:
    """The instruction that a frame is executing."""
    kind, words = _instruction(frame.f_code, frame.f_lasti)
    return UserCall(kind, words, _resolved(words, frame))


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
        or home_of(function) == "logging"
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
        elif earlier.opname in _COMPUTES:
            words = [""]
    return tuple(words)


def home_of(function: Any) -> str:
    """The module that a function, or the object whose method it is, comes from."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return type(owner).__module__
    return getattr(function, "__module__", None) or ""
