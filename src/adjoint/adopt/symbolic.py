"""SymPy as adopted code sees it: the functions that `lambdify` generates are adopted.

SymPy itself stays as it is. Its symbols are exact, and traced values only meet them in generated code, which calls numpy or math.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

from .face import Face, FixedFace


class SymPy(FixedFace):
    """SymPy and its modules, with another `lambdify` in them."""

    def __init__(self, adopted: Callable[[Any], Any]) -> None:
        original = importlib.import_module("sympy")
        plain = original.lambdify

        @functools.wraps(plain)
        def lambdify(*args: Any, **options: Any) -> Any:
            return adopted(plain(*args, **options))

        super().__init__(original, {"lambdify": lambdify})

    def module(self, name: str) -> types.ModuleType:
        """A module of SymPy by its name, which may be that of a function as well, such as `sympy.utilities.lambdify`."""
        found = importlib.import_module(name)
        is_faced = vars(found).get("lambdify") is vars(self)["_original"].lambdify
        return Face(found, {"lambdify": self.lambdify}) if is_faced else found
