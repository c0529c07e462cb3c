"""Errors that say what, where and what to do next.

Every error derives from `AdjointError` and from the built-in that fits, so that both
`except ad.AdjointError` and `except TypeError` work. The message ends with the user's own line.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
F = TypeVar("F", bound=Callable[..., Any])


def _is_ours(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_PACKAGE, "<adjoint "))  # files, and functions that derive.py wrote


def _is_plumbing(frame: types.FrameType) -> bool:
    """Ours, or a frame of NumPy and SciPy between the user's call and us."""
    module = frame.f_globals.get("__name__", "").partition(".")[0]
    return module in {"numpy", "scipy", "functools", "contextlib"} or _is_ours(frame)


def user_line() -> str:
    """`model.py:12` of the innermost frame that is the user's, or '' when there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_plumbing(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def last_line(error: BaseException) -> str:
    """`model.py:12` of the user's line that raised an error."""
    tb, line = error.__traceback__, ""
    while tb is not None:
        if not _is_plumbing(tb.tb_frame):
            line = f"{os.path.basename(tb.tb_frame.f_code.co_filename)}:{tb.tb_lineno}"
        tb = tb.tb_next
    return line


class AdjointError(Exception):
    """Base of every error raised by adjoint."""

    def __init__(self, message: str) -> None:
        self.line = user_line()
        super().__init__(f"{message} ({self.line})" if self.line else message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args[0], self.line)


def _rebuild(cls: type[AdjointError], message: str, line: str) -> AdjointError:
    error = cls.__new__(cls, message)
    error.args, error.line = (message,), line
    return error


class ArgumentError(AdjointError, TypeError):
    """An argument of the wrong kind: an integer to `grad`, a string, an unknown option."""


class ShapeError(AdjointError, ValueError):
    """Shapes, sizes or structures that do not fit together."""


class DtypeError(AdjointError, TypeError):
    """A dtype that does not fit: an integer where a float must be, a complex output of `grad`."""


class ConversionError(AdjointError, TypeError):
    """A traced value asked to become a plain number or array, which would lose its derivative."""


class UnsupportedError(AdjointError, TypeError, NotImplementedError):
    """A function, or a form of one, that has no derivative here."""


class LeakError(AdjointError, RuntimeError):
    """A traced value used after the transform that made it has ended."""


class BatchError(AdjointError, ValueError):
    """A mistake in `vmap`: sizes that differ, axes that do not exist, a branch on a batch."""


class FreedError(AdjointError, RuntimeError):
    """A second backward pass over a graph that the first one has freed."""


class ReadOnlyError(AdjointError, ValueError, RuntimeError):
    """A write to an array whose old contents the backward pass still needs."""


class CheckError(AdjointError, AssertionError):
    """Derivatives that disagree, found by `check_grads`."""


def _own_words(error: BaseException) -> BaseException:
    """Our error, where NumPy has put "setting an array element with a sequence" in its place."""
    cause = error.__cause__
    if type(error) is ValueError and isinstance(cause, AdjointError):
        cause.__suppress_context__ = True
        return cause.with_traceback(error.__traceback__)
    return error


def without_our_frames(error: BaseException) -> BaseException:
    """Drop our frames from the traceback below the caller: what is left is the user's code.

    The outermost frame is kept, since Python adds it back while the error travels on.
    """
    error = _own_words(error)
    frames = []
    tb = error.__traceback__
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(frames):
        if not _is_ours(entry.tb_frame):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return error.with_traceback(kept)


def boundary(f: F) -> F:
    """Mark a public entry point: errors leave it without our frames in their traceback."""

    @functools.wraps(f)
    def entry(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if os.environ.get("ADJOINT_FULL_TRACEBACK"):
                raise
            raise without_our_frames(error)  # noqa: B904 - the same error, on its way out

    return entry  # type: ignore[return-value]
