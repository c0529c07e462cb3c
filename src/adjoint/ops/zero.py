"""The product of the chain rule, for sums of products, with strong zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import numbers
from ..core.types import Shape, Value, shape_of
from .broadcast import where
from .elementwise import absolute, is_finite, isfinite, logical_not, not_equal


def generic(shape: Shape, dtype: np.dtype[Any], seed: int = 0) -> Any:
    """Numbers whose sums and differences are not 0; complex ones, with both parts, for a complex dtype."""
    draw = np.random.default_rng(seed)
    real = draw.uniform(1.0, 2.0, shape)
    return real + 1j * draw.uniform(1.0, 2.0, shape) if dtype.kind == "c" else real


def zero_wins(
    apply: Callable[..., Any], g: Value, others: Sequence[Value], live_in: Callable[[Value], Value | None] | None = None
) -> Value:
    """apply(g, *others), linear in each, in which an exact zero in g contributes exactly zero, even times infinity or nan.

    Where an entry of the others is infinite or nan, its terms count only if their part of g is not zero; or, if it is known which
    entries are `live_in` g and not zeros of a mask, only if these are. Which results have such a term is found by the same sum of
    products over marks, with weights so that marks do not cancel.
    """
    y = apply(g, *others)
    if is_finite(y) or all(is_finite(numbers(o)) for o in others):
        return y
    draw = np.random.default_rng(0)
    finite = [where(isfinite(o), o, 0.0) for o in others]
    weights = [draw.uniform(1.0, 2.0, shape_of(o)) for o in others]
    live = not_equal(g, 0) if live_in is None else live_in(g)
    seen = draw.uniform(1.0, 2.0, shape_of(g)) * (1.0 if live is None else live)
    marks = 0.0
    for i, (o, w) in enumerate(zip(others, weights, strict=True)):
        marks = marks + absolute(apply(seen, *weights[:i], w * logical_not(isfinite(o)), *weights[i + 1 :]))
    return where(not_equal(marks, 0), y, apply(g, *finite))
