"""How many equations a loop saves, by their weight; apart from the search for loops (`loops`), which is slow to load."""

from __future__ import annotations

FUNCTION = 2  # the weight of a function such as sin, whose code is long
#: The weight of equations that a loop makes unnecessary. Below, straight-line code compiles quickly and runs best.
LEAST_SAVING = 128


def is_long_enough(equations: int, saving: int = LEAST_SAVING) -> bool:
    """Whether so many equations can have a loop in them: all may be functions."""
    return FUNCTION * equations >= saving
