"""Ways in which a function reaches a number outside, and ways in which that number changes between calls.

    ## a memo that is cleared
    k = 2.0                             the state
    @functools.cache
    def h(): return k
    => x * h()                          the function of x
    > k = 3.0                           changes, made one after the other
    > h.cache_clear()

`Way.space()` runs the state in new globals, so that the plain function and the compiled one each have their own.
"""

import pathlib
from typing import NamedTuple

HEAD = """
import abc, builtins, collections, dataclasses, decimal, enum, functools, importlib, itertools, math, operator, os, sys, types
import numpy as np
from math import cos
from numpy import sin
"""


class Way(NamedTuple):
    """A function, the state that it reads, and the changes of that state."""

    name: str
    state: str
    result: str
    changes: tuple[str, ...]

    def space(self):
        """Globals that hold the state, and the function as `f`."""
        space = {"__name__": "outside_state"}
        exec(HEAD + self.state, space)
        if self.result.startswith("itself "):
            space["f"] = eval(self.result.removeprefix("itself "), space)
        else:
            exec(f"def f(x): return {self.result}", space)
        return space


def _way(text):
    name, *lines = text.strip().splitlines()
    result = next(line for line in lines if line.startswith("=> "))
    changes = tuple(line.removeprefix("> ") for line in lines if line.startswith("> "))
    return Way(name, "\n".join(lines[: lines.index(result)]), result.removeprefix("=> "), changes)


WAYS = {way.name: way for way in map(_way, pathlib.Path(__file__).with_suffix(".txt").read_text().split("## ")[1:])}
