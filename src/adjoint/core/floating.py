"""NumPy's floating-point warnings, at the user's line.

NumPy names the Python line that called it, which inside a transform is a line of ours. While a transform runs, NumPy's mode
"warn" is "log" instead: then NumPy hands its words to an object, which issues the same warning at the line of the user's.

    with np.errstate(divide="ignore"): …       inside the function holds as ever: only "warn" is replaced

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


Modes = tuple[Any, Token[Any]]  # the settings that report, and what undoes them


def replace() -> Modes | None:
    """Let NumPy report what it would warn of; None if that is so already, or the user handles errors by a function."""
    if _MODES is None:
        return None
    current = _MODES.get()
    settings = _replaced.get(current, _UNKNOWN)
    if settings is _UNKNOWN:
        if len(_replaced) > 64:  # each use of np.errstate makes settings of its own
            _replaced.clear()
        settings = _replaced[current] = copy_context().run(_reporting)
    return None if settings is None else (settings, _MODES.set(settings))


def _reporting() -> Any:
    """The current settings, with reports in the place of warnings."""
    modes = {kind: "log" for kind, mode in np.geterr().items() if mode == "warn"}
    if not modes or np.geterrcall() is not None:
        return None
    np.seterr(**modes)  # type: ignore[arg-type]
    np.seterrcall(_REPORTER)
    return _MODES.get()  # type: ignore[union-attr]


def restore(replaced: Modes) -> None:
    """Undo `replace`. What the function itself set by np.seterr stays."""
    assert _MODES is not None
    settings, token = replaced
    if _MODES.get() is settings:
        _MODES.reset(token)
        return
    modes, handler = np.geterr(), np.geterrcall()
    _MODES.reset(token)
    before: dict[str, Any] = {**np.geterr()}
    np.seterr(**{kind: "warn" if mode == "log" and before[kind] == "warn" else mode for kind, mode in modes.items()})  # type: ignore[arg-type]
    if handler is not _REPORTER:
        np.seterrcall(handler)
