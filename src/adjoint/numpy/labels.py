"""Arrays with labels: pandas' Series and DataFrame, xarray's DataArray. Neither package is imported before such an object is met.

    ad.grad(lambda s: (s**2).sum())(pd.Series([1.0, 2.0], index=["a", "b"]))      # a Series with the same index

As an argument, such an object is a container (`core/tree.py`) of one array, and its labels are the static part. Inside a function
it is an object of its own package that holds a traced array.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

from ..core.errors import LABELLED
from ..core.tree import LATE

_MODULES = {"pandas": ".pandas_objects", "xarray": ".xarray_objects"}


def _objects(package: str) -> Any:
    return importlib.import_module(_MODULES[package], __package__)


def _registers(package: str) -> Callable[[], None]:
    return lambda: _objects(package).register()


def install() -> None:
    """Let the containers of these packages be found."""
    LATE.update({package: _registers(package) for package in _MODULES})


def labelled(x: Any) -> str:
    """The package whose labels an object has; '' for any other object."""
    root = type(x).__module__.partition(".")[0]
    return root if root in LABELLED and hasattr(x, "to_numpy") else ""


def operate(name: str, a: Any, b: Any) -> Any:
    """An operator between a traced value and an object with labels, which keeps them."""
    return _objects(labelled(a) or labelled(b)).operate(_FUNCTIONS[name], a, b)


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "divmod": divmod,
}
