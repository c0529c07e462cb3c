"""Whether an error raised now would be caught by user code, determined from the current instruction of each frame."""

import contextlib
import sys

from adjoint.core.errors import in_a_try


def test_each_way_to_catch():
    # Pytest itself catches what a test raises: only what lies between this frame and the question counts.
    seen = {}

    def ask(name):
        seen[name] = in_a_try(depth)

    depth = frames_below()
    ask("plain")
    try:
        ask("try")
    except ValueError:
        pass
    finally:
        ask("finally")
    try:
        raise KeyError
    except KeyError:
        ask("inside except")
    with contextlib.suppress(ValueError):
        ask("with")
    for _ in range(1):
        try:
            ask("loop")
        except* ValueError:
            pass
    ask("after")
    assert {name for name, is_caught in seen.items() if is_caught} >= {"try", "with", "loop"}
    assert not seen["plain"]
    assert not seen["after"]


def frames_below():
    """The number of frames below the test that calls this."""
    frame, count = sys._getframe(2), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_a_call_inside_a_try_counts():
    depth = frames_below()

    def deep(n):
        return deep(n - 1) if n else in_a_try(depth)

    assert not deep(3)
    try:
        found = deep(3)
    except ValueError:
        found = None
    assert found
