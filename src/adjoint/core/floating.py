"""NumPy's floating-point errors while a transform runs: warnings at the user's line, and a note of each overflow.

NumPy names the Python line that called it, which inside a transform is a line of adjoint. While a transform runs, NumPy's mode
"warn" is replaced by "log": NumPy passes the message to an object, which issues the same warning at the user's line.

    with np.errstate(divide="ignore"): …       inside the function keeps its meaning: only "warn" is replaced
    with np.errstate(divide="warn"): …         is replaced at the next operation

An overflow is always reported to the open recordings (`LISTENERS`) and then treated as its mode says. NumPy checks the
processor's flags after each ufunc in any case, so this costs nothing.

The function sees its own modes: `np.geterr`, `np.geterrcall` and the result of `np.seterr` are what they would be without a
transform, and `np.errstate` changes those. NumPy reads its settings by one function, and makes them by another: both are
wrapped, so that settings that report are taken for those of the user.

NumPy keeps its modes in a context variable. They are replaced by setting that variable to precomputed settings: 200 ns, where
`np.errstate` needs several microseconds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from typing import Any

import numpy as np
from numpy._core import _ufunc_config

from .errors import user_frame

LISTENERS: list[Callable[[], None]] = []  # called at each overflow while a transform runs
_KINDS = {"divide": "divide", "overflow": "over", "underflow": "under", "invalid": "invalid"}  # by the first word of NumPy's text


class _Reporter:
    """The handler that NumPy logs to or calls, in place of the user's handler. `modes` are the user's."""

    def __init__(self, modes: dict[str, Any], handler: Any) -> None:
        self.modes, self.handler = modes, handler
        self.replaced: dict[str, Any] = {kind: "log" if mode == "warn" else mode for kind, mode in modes.items()}
        if modes["over"] in ("ignore", "print"):
            self.replaced["over"] = "log"

    def write(self, message: str) -> None:
        """`Warning: divide by zero encountered in log` becomes what the user's mode says: a warning at the user's line, say."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        kind = _KINDS[text.split(maxsplit=1)[0]]
        if kind == "over":
            tell()
        match self.modes[kind]:
            case "warn":
                _warn(text)
            case "print":
                sys.stderr.write(message)
            case "log":
                self.handler.write(message)

    def undone(self, modes: dict[str, Any], handler: Any) -> tuple[dict[str, Any], Any]:
        """The modes and the handler that the user means: those that were replaced, and what has been set since."""
        kept = {kind: self.modes[kind] if mode == self.replaced[kind] else mode for kind, mode in modes.items()}
        return kept, self.handler if handler is self else handler

    def __call__(self, kind: str, flag: int) -> None:
        if kind.startswith("overflow"):
            tell()
        self.handler(kind, flag)


_settings: Callable[[], dict[str, Any]] = _ufunc_config._get_extobj_dict  # type: ignore[attr-defined]


def _modes_set(found: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The modes and the handler among NumPy's settings."""
    return {kind: found[kind] for kind in _KINDS.values()}, found["call"]


def _settings_shown() -> dict[str, Any]:
    """NumPy's settings as the user knows them."""
    found = _settings()
    modes, handler = _modes_set(found)
    if isinstance(handler, _Reporter):
        modes, found["call"] = handler.undone(modes, handler)
        found.update(modes)
    return found


_make: Callable[..., Any] = _ufunc_config._make_extobj  # type: ignore[attr-defined]


def _settings_made(**given: Any) -> Any:
    """New settings: the current ones of the user, with some changes."""
    if isinstance(_settings()["call"], _Reporter):
        shown, every = _settings_shown(), given.pop("all", None)
        changes = {key: value for key, value in given.items() if value is not None or key == "call"}
        given = {kind: every or shown[kind] for kind in _KINDS.values()} | {"call": shown["call"]} | changes
    return _make(**given)


_ufunc_config._get_extobj_dict = _settings_shown  # type: ignore[attr-defined]
_ufunc_config._make_extobj = _settings_made  # type: ignore[attr-defined]


def tell() -> None:
    """Tell the open recordings that the running op has overflowed."""
    for listener in LISTENERS:
        listener()


def _warn(text: str) -> None:
    """A RuntimeWarning at the user's innermost line."""
    frame, _ = user_frame()
    if frame is None:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return
    scope = frame.f_globals
    registry = scope.setdefault("__warningregistry__", {})
    name = scope.get("__name__", "<unknown>")
    warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, name, registry)


def _variable() -> ContextVar[Any] | None:
    """The context variable that `np.seterr` writes to."""
    context = copy_context()
    before = dict(context)
    context.run(np.seterr, under="ignore")
    written = [variable for variable, value in context.items() if before.get(variable) is not value]
    return written[0] if len(written) == 1 else None


_MODES = _variable()
_UNKNOWN: Any = object()
#: Settings of the user's: those that report instead, and what they report to; None where they report already.
_replaced: dict[Any, tuple[Any, _Reporter] | None] = {}


Modes = tuple[Any, _Reporter, Token[Any]]  # the settings that report, what they report to, and what undoes them


def replace() -> Modes | None:
    """Let NumPy report warnings and every overflow; None if it does so already."""
    if _MODES is None:
        return None
    current = _MODES.get()
    found = _replaced.get(current, _UNKNOWN)
    if found is _UNKNOWN:
        if len(_replaced) > 64:  # each use of np.errstate makes settings of its own
            _replaced.clear()
        found = _replaced[current] = copy_context().run(_reporting)
    return None if found is None else (*found, _MODES.set(found[0]))


state = (lambda: None) if _MODES is None else _MODES.get
SEEN: list[Any] = [None]  # the last settings that were found to report, or made to


def renew(is_inside: bool) -> None:
    """Look at settings that are not those seen last: within a transform, the function may have set modes of its own."""
    if is_inside:
        replace()  # undone with what the function did: np.errstate by itself, np.seterr by `restore`
    SEEN[0] = state()


def _reporting() -> tuple[Any, _Reporter] | None:
    """The current settings, with reports in place of warnings."""
    modes, handler = _modes_set(_settings())
    reporter = _Reporter(*(handler.undone(modes, handler) if isinstance(handler, _Reporter) else (modes, handler)))
    if isinstance(handler, _Reporter) and reporter.replaced == modes:
        return None
    np.seterr(**reporter.replaced)
    np.seterrcall(reporter)
    return _MODES.get(), reporter  # type: ignore[union-attr]


def restore(replaced: Modes | None) -> None:
    """Undo `replace`. What the function itself set by np.seterr stays."""
    if replaced is None or _MODES is None:
        return
    settings, reporter, token = replaced
    if _MODES.get() is settings:
        _MODES.reset(token)
        return
    modes, handler = _modes_set(_settings())
    latest = handler if isinstance(handler, _Reporter) else reporter  # of settings that `renew` has replaced
    modes, handler = latest.undone(modes, handler)
    _MODES.reset(token)
    np.seterr(**modes)
    np.seterrcall(handler)


class quiet:  # noqa: N801 - used as np.errstate is
    """No warnings, as in np.errstate(all="ignore"), but overflows are reported, for our own arithmetic."""

    __slots__ = ("token",)
    token: Any

    def __enter__(self) -> None:
        self.token = np.errstate(all="ignore") if _MODES is None else _MODES.set(_QUIET)
        if _MODES is None:
            self.token.__enter__()

    def __exit__(self, *exc: object) -> None:
        if _MODES is None:
            self.token.__exit__(*exc)
        else:
            _MODES.reset(self.token)


def _make_quiet() -> Any:
    np.seterr(all="ignore")
    modes, _ = _modes_set(_settings())
    np.seterr(over="log")
    np.seterrcall(_Reporter(modes, None))
    return None if _MODES is None else _MODES.get()


_QUIET = copy_context().run(_make_quiet)
