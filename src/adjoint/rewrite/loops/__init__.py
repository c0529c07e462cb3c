"""Loops: iterations that repeat in a flat graph become scans, which are then shared and shortened.

`find.py` finds them, `write.py` writes their scans, `roll.py` is the way in; `share.py` hands on what two loops both compute,
`sink.py` takes sums of products out of them.
"""

from .roll import Loop, Rolled, Unrolled, roll
from .share import shared_turns
from .sink import sums_after_loops

__all__ = ["Loop", "Rolled", "Unrolled", "roll", "shared_turns", "sums_after_loops"]
