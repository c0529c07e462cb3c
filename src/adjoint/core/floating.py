"""NumPy's floating-point warnings, at the user's line.

NumPy names the Python line that called it, which inside a transform is a line of ours. While a transform runs, NumPy's mode
"warn" is "log" instead: then NumPy hands its words to an object, which issues the same warning at the line of the user's.

    with np.errstate(divide="ignore"): …       inside the function holds as ever: only "warn" is replaced
    with np.errstate(divide="warn"): …         is replaced at the next operation

NumPy keeps its modes in a context variable. They are replaced by setting that variable to settings made beforehand: two
hundred nanoseconds where `np.errstate` needs several microseconds.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar, Token, copy_context
from typing import Any

import numpy as np

from .errors import user_frame


class _Reporter:
    """What NumPy writes its log to."""

    def write(self, message: str) -> None:
        """`Warning: divide by zero encountered in log` becomes a RuntimeWarning of the innermost line of the user's."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        frame, _ = user_frame()
        if frame is None:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return
        scope = frame.f_globals
        registry = scope.setdefault("__warningregistry__", {})
        name = scope.get("__name__", "<unknown>")
        warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, name, registry)


_REPORTER = _Reporter()


def _variable() -> ContextVar[Any] | None:
    """The context variable that `np.seterr` writes to."""
    context = copy_context()
    before = dict(context)
    context.run(np.seterr, under="ignore")
    written = [variable for variable, value in context.items() if before.get(variable) is not value]
    return written[0] if len(written) == 1 else None


_MODES = _variable()
_UNKNOWN = object()
_replaced: dict[Any, Any] = {}  # settings that say "warn": those that report instead; None where there is nothing to replace


Modes = tuple[Any, Token[Any] | None]  # the settings within a transform, and what undoes them if they were replaced

state = (lambda: None) if _MODES is None else _MODES.get
SEEN: list[Any] = [None]  # the last settings that were found not to warn, or replaced


def replace() -> Modes:
    """Let NumPy report what it would warn of, unless that is so already, or the user handles errors by a function."""
    if _MODES is None:
        return None, None
    current = _MODES.get()
    settings = _replaced.get(current, _UNKNOWN)
    if settings is _UNKNOWN:
        if len(_replaced) > 64:  # each use of np.errstate makes settings of its own
            _replaced.clear()
        settings = _replaced[current] = copy_context().run(_reporting)
    return (current, None) if settings is None else (settings, _MODES.set(settings))


def renew(is_inside: bool) -> None:
    """Look at settings that are not those seen last: within a transform, the function may have made NumPy warn."""
    if is_inside:
        replace()  # undone with what the function did: np.errstate by itself, np.seterr by `restore`
    SEEN[0] = state()


def _reporting() -> Any:
    """The current settings, with reports in the place of warnings."""
    modes = {kind: "log" for kind, mode in np.geterr().items() if mode == "warn"}
    if not modes or np.geterrcall() not in (None, _REPORTER):
        return None
    np.seterr(**modes)  # type: ignore[arg-type]
    np.seterrcall(_REPORTER)
    return state()


def restore(before: Modes) -> None:
    """Undo `replace`. What the function itself set by np.seterr stays."""
    if _MODES is None:
        return
    settings, token = before
    if _MODES.get() is settings:
        if token is not None:
            _MODES.reset(token)
        return
    modes, handler = np.geterr(), np.geterrcall()
    if token is not None:
        _MODES.reset(token)
        earlier = np.geterr()
    else:
        earlier, outer = copy_context().run(_look_at, settings)
        if outer is _REPORTER:
            return  # within another transform, which does it at its end
    ours = [kind for kind, mode in modes.items() if mode == "log" and (handler is _REPORTER or earlier.get(kind) == "warn")]
    np.seterr(**{**modes, **dict.fromkeys(ours, "warn")})  # type: ignore[arg-type]
    np.seterrcall(None if handler is _REPORTER else handler)


def _look_at(settings: Any) -> Any:
    """What settings say: the modes, and the handler."""
    _MODES.set(settings)  # type: ignore[union-attr]
    return np.geterr(), np.geterrcall()
