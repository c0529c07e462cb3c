"""Errors that leave a public entry point (`boundary`): without our frames, and in our words if C code has replaced them.

Library code may replace an error that we raise by its own, or refuse a traced value before we are asked. `is_bug` tells a
mistake in our code from an error about the user's program.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import traceback
import types
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import COMPILED, AdjointError, ConversionError, is_our_frame, is_plumbing, last_conversion, last_line, rebuilt
from .home import OWN

F = TypeVar("F", bound=Callable[..., Any])

_FOREIGN = (  # compiled when an error is raised
    r"\b(Traced|View)\b.*(supported|to bytes)|bytes-like.*\b(Traced|View)\b|cupy.*got Traced|"
    r"has incorrect type .*got (Traced|View)\b|object expected; got \S*\b(Traced|View)$|component: Traced|"
    r"descriptor .* doesn't apply to a '(Traced|View)'|(?s:incompatible function arguments.*\b(Traced|View)\b)"
)
_UNNAMED = re.compile(r"JSON serializable|No matching signature found|incompatible function arguments")  # any class may be meant


def _own_words(error: BaseException) -> BaseException:
    """Our error, where C code has replaced it by another one.

    NumPy says "setting an array element with a sequence"; SciPy's root finders continue until Python finds an error set;
    `struct.pack` and `np.nditer` drop the error; `json` and `decimal` check the class and do not convert.
    """
    cause = error.__cause__
    if type(error) in (ValueError, SystemError) and isinstance(cause, AdjointError):
        cause.__suppress_context__ = True
        return cause.with_traceback(error.__traceback__)
    if isinstance(error, AdjointError) or error.__traceback__ is None:
        return error
    own: AdjointError | None = None
    asked = last_conversion.get()
    if asked is not None and asked[:2] in _passed(error.__traceback__):
        own = rebuilt(ConversionError, *asked[2:])
    elif type(error) is TypeError and _is_about_us(error):
        advice = "return it and do this outside the function, or pass ad.stop_gradient(x)"
        if "cupy" in str(error):  # whose functions of arrays do not ask the other operand
            advice = "call the function of adjoint.numpy, as adjoint.numpy.matmul(a, x) for a @ x"
        if "descriptor" in str(error):
            advice = "call the method of the value itself, as x.flatten() for np.ndarray.flatten(x)"
        reason = str(error).partition("\n")[0]
        message = f"a traced value was passed to {_callee(error)} that takes plain values only ({reason}); {advice}"
        own = ConversionError(message, last_line(error))
    if own is None:
        return error
    own.__suppress_context__ = True
    return own.with_traceback(error.__traceback__)


def _is_about_us(error: TypeError) -> bool:
    """Whether the error is of code that checks the class of its argument, on a traced value. (`json` names the underlying
    class.)"""
    if re.search(_FOREIGN, str(error)) and "operand" not in str(error):
        return True
    if not _UNNAMED.search(str(error)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    innermost = next((frame for frame in reversed(frames) if not frame.f_code.co_filename.endswith(COMPILED)), frames[-1])
    return any(type(x).__name__ == "Traced" for x in innermost.f_locals.values())


def _callee(error: BaseException) -> str:
    """The compiled function that has raised, if Cython names it."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    name = next((frame.f_code.co_name for frame in frames if frame.f_code.co_filename.endswith(COMPILED)), "")
    return f"{name}, compiled code" if name else "code"


def _passed(tb: types.TracebackType | None) -> list[tuple[int, int]]:
    """The user's frames that an error has passed through, by identity, and the instruction in each.

    All of them: C code that continues with our error set calls Python again, where any operation may then fail.
    """
    frames = []
    while tb is not None:
        if not is_plumbing(tb.tb_frame):
            frames.append((id(tb.tb_frame), tb.tb_lasti))
        tb = tb.tb_next
    return frames


def is_bug(error: BaseException) -> bool:
    """Whether an error shows a mistake in our code: raised below the last line of user code, and by none of our own classes.

    An error about the user's program is an `AdjointError`, or has one behind it. User code that fails on a traced value raises
    in a frame of its own. The depth of the stack and warnings that are made errors are the user's as well. The module that has
    caught the error does not count: it calls the user's function, which may be written in C and have no frame.
    """
    if isinstance(error, (RecursionError, MemoryError, Warning)) or adjoint_error_behind(error) is not None:
        return False
    if _IN_OUR_CODE in error.__dict__:  # a boundary has dropped the frames
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = False
    for frame in itertools.dropwhile(lambda frame: frame.f_code.co_filename == frames[0].f_code.co_filename, frames):
        ours = is_our_frame(frame) or (ours and is_plumbing(frame))
    return ours and not _is_unfit_call(error, frames[-1]) and not _is_refusal(error, frames) and not _is_unfit_result(error)


def _is_refusal(error: BaseException, frames: list[types.FrameType]) -> bool:
    """Whether one of our forms of NumPy's and SciPy's functions refuses its arguments, in their words."""
    last = next((frame.f_globals.get("__name__", "") for frame in reversed(frames) if is_our_frame(frame)), "")
    return isinstance(error, (TypeError, ValueError)) and last.startswith((f"{OWN}.numpy.", f"{OWN}.scipy."))


def _is_unfit_call(error: BaseException, caller: types.FrameType) -> bool:
    """Whether we called a user's function, such as a branch, with arguments that it does not take."""
    called = _UNFIT.match(str(error)) if type(error) is TypeError else None
    return called is not None and called[1].partition(".")[0] not in caller.f_globals


_UNFIT = re.compile(r"(\S+)\(\) (takes|missing|got an unexpected|got multiple)")


def _is_unfit_result(error: BaseException) -> bool:
    """Whether a special method of a user's class, such as `__bool__`, returned a traced value, which Python refuses."""
    return type(error) is TypeError and _UNFIT_RESULT.match(str(error)) is not None


_UNFIT_RESULT = re.compile(r"__\w+__ (should return|returned|must return) .*\bTraced\b")


_IN_OUR_CODE = "_adjoint_bug"  # marks an error, in its __dict__


def adjoint_error_behind(error: BaseException | None) -> AdjointError | None:
    """Our own error behind another, which a library made of it."""
    while error is not None and not isinstance(error, AdjointError):
        error = error.__cause__ or error.__context__
    return error


def without_our_frames(error: BaseException) -> BaseException:
    """Drop our frames from the traceback below the caller: what is left is the user's code.

    The outermost frame is kept, since Python adds it back while the error travels on.
    """
    error = _own_words(error)
    if is_bug(error):
        error.__dict__[_IN_OUR_CODE] = True
    frames = []
    tb = error.__traceback__
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(frames):
        if not is_our_frame(entry.tb_frame):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return error.with_traceback(kept)


def passed_boundary(error: BaseException) -> bool:
    """Whether an error has come out of a public entry point, and not out of compiled code."""
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_name == "entry" and tb.tb_frame.f_code.co_filename == __file__:
            return True
        tb = tb.tb_next
    return False


def boundary(f: F) -> F:
    """Mark a public entry point: errors leave it without our frames in their traceback."""

    @functools.wraps(f)
    def entry(*args: Any, **kwargs: Any) -> Any:
        if last_conversion.get() is not None:
            last_conversion.set(None)  # a frame of an earlier call, whose identity a new frame may have
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if os.environ.get("ADJOINT_FULL_TRACEBACK"):
                raise
            raise without_our_frames(error)  # noqa: B904 - the same error, on its way out

    return entry  # type: ignore[return-value]
