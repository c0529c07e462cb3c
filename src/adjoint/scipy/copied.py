"""Functions that SciPy writes in Python: traced values go to an adopted copy of their module, plain numbers to SciPy's own.

    skew = copied(scipy.stats.skew)         skew(x) of a traced x runs scipy/stats/_stats_py.py with adjoint.numpy for numpy

`adopt.choice.PARTS` lists the modules that are copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..adopt.choice import is_part
from ..adopt.copies import world_with
from ..core.bind import fresh, is_tracking, unwrap_fresh
from ..numpy.table import holds_traced
from .numbers import is_traced


def is_copied(function: Any) -> bool:
    """Whether a function is written in Python, in a module that is copied."""
    return isinstance(function, FunctionType) and is_part(function.__module__)


def copied(original: Callable[..., Any], ours: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function of SciPy's that takes traced values too: `ours` computes with them, or the copy of its module."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        if not any(map(holds_traced, args)) and not any(map(holds_traced, options.values())):
            return original(*args, **options)
        args, options = tuple(map(unwrap_fresh, args)), {key: unwrap_fresh(x) for key, x in options.items()}
        if not any(map(_has_derivative, (*args, *options.values()))):
            return original(*args, **options)
        args, options = tuple(map(_tracked, args)), {key: _tracked(x) for key, x in options.items()}
        return (ours or getattr(world_with().load(original.__module__), original.__name__))(*args, **options)

    return call


def _tracked(x: Any) -> Any:
    """An array of numbers whose methods take traced values: `x.searchsorted(y)`."""
    return fresh(x.copy()) if type(x) is np.ndarray and x.dtype.kind == "f" and is_tracking() else x


def _has_derivative(x: Any) -> bool:
    return is_traced(x) or (isinstance(x, (list, tuple, dict)) and holds_traced(x))


def of_module(module: ModuleType, name: str) -> Any:
    """What a module of ours has for a name of SciPy's: a copied module, a function that takes traced values, or SciPy's own."""
    full = f"{module.__name__}.{name}"
    if is_part(full):
        return world_with().load(full)
    found = getattr(module, name)
    return copied(found) if is_copied(found) else found
