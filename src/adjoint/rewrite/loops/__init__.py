"""Loops: iterations that repeat in a flat graph become scans, which are then shared and shortened.

`roll.py` finds them (by `repeats.py`, `peel.py`, `operands.py` and `find.py`) and writes their scans (`write.py`); also nests
and branches that do not repeat with a period (`blocks.py`, `write_blocks.py`), and loops over arrays whose length changes
(`padded_groups.py`, `padded.py`). `share.py` lets a loop read what another one computes as well; `sink.py` moves sums of
products behind a loop, `point_sums.py` sums over points, `columns.py` splits short rows, `distribute.py` functions of numbers.
`carries.py` drops carries that do not change, or that nothing reads; `constant_masks.py` computes masks that follow from
constants; `places.py` reads tables in the loops that know the places; `offsets.py` drops rows of indices that differ by a
constant.
"""

from .carries import drop_idle_carries
from .columns import split_columns
from .constant_masks import compute_masks
from .distribute import distribute
from .offsets import share_offsets
from .places import read_at_places
from .point_sums import sum_points_last
from .roll import Rolled, RolledLoop, Unrolled, roll
from .share import share_iterations
from .sink import sink_sums

__all__ = [
    "Rolled",
    "RolledLoop",
    "Unrolled",
    "compute_masks",
    "distribute",
    "drop_idle_carries",
    "read_at_places",
    "roll",
    "share_iterations",
    "share_offsets",
    "sink_sums",
    "split_columns",
    "sum_points_last",
]
