"""Where a program polls for signals (`runtime.signals`): between iterations of long loops, and between steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .schedule import work
from .step import Lowered, PointTiles, Scan, Step, TimeTiles, While, WhileVjp, bodies

_PULSE = 60_000  # additions between two reads of the clock: about 20 µs
_LONG = 1_000_000  # additions of a loop, or between two steps, from which to poll: about 0.3 ms
_LONGEST = 1 << 12  # iterations


def iterations_between(loop: Scan | While | WhileVjp, body: Lowered) -> int:
    """The number of iterations of a loop between two reads of the clock, a power of two; 0 for never."""
    if isinstance(loop, Scan) and work(loop) < _LONG:
        return 0
    iterations = _PULSE // max(1, sum(map(work, body.steps)))
    return min(_LONGEST, 1 << max(0, iterations.bit_length() - 1))


def breaks(steps: Sequence[Step]) -> Iterator[bool]:
    """For each step, whether to poll before it: enough work was done since the last poll."""
    done = 0
    for step in steps:
        yield done >= _LONG
        done = work(step) if done >= _LONG else done + work(step)


def can_stop(lowered: Lowered) -> bool:
    """Whether a body may end its program: it can fail, or polls for signals."""
    loops = (step for step in lowered.steps if isinstance(step, (Scan, While, WhileVjp)))
    return (
        lowered.can_fail
        or any(breaks(lowered.steps))
        or any(isinstance(step, (PointTiles, TimeTiles)) for step in lowered.steps)
        or any(iterations_between(loop, bodies(loop)[-1]) for loop in loops)
        or any(map(can_stop, lowered.inner))
    )
