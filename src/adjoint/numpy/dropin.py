"""Differentiable functions that extend NumPy's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .table import hold_traced, implements


def without_examples(text: str) -> str:
    """A docstring of NumPy or SciPy up to its examples, which the doctests of our modules would run."""
    before = text.partition(">>>")[0]
    heading = before.rfind("Examples\n")
    return before[:heading].rstrip() if heading > 0 else before


def in_place_of(original: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `functools.wraps`, for a function that has NumPy's name in this package: pickle looks for it here."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        call = functools.wraps(original)(function)
        call.__module__ = original.__module__.replace("numpy", __package__, 1)
        return call

    return enter


def drop_in(*originals: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the differentiable form of NumPy functions. Returns the first of them, extended.

    The result calls NumPy's function, or ours if an argument, or an item of a list argument, is traced.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        implements(*originals)(function)
        original = originals[0]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            traced = hold_traced(args) or (kwargs and hold_traced(kwargs.values()))
            return function(*args, **kwargs) if traced else original(*args, **kwargs)

        call.__doc__ = function.__doc__ or without_examples(original.__doc__ or "")
        return call

    return enter
