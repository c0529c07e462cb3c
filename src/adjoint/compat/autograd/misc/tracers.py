"""const_graph: a function with its first arguments fixed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """fun with these arguments fixed. Its graph is not kept: control flow may differ from call to call."""
    return functools.partial(fun, *args, **kwargs)


full_graph = const_graph
