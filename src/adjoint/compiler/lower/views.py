"""Reshapes, transposes, slices and broadcasts of a view are views, copied only where NumPy would copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.op import Op
from ...ir.graph import Equation, Literal
from ...ops import broadcast, index, sort, windows
from ...ops.pairs import as_complex, as_real
from .kernel import PARTS, View
from .lowered import Rules

if TYPE_CHECKING:
    from .fuse import Lowering


def as_numpy_does(view: View, change: Callable[[Any], Any]) -> View | None:
    """The view that NumPy's function gives; None if it would copy."""
    base = np.empty(0, np.int8)
    stand_in = np.lib.stride_tricks.as_strided(base, view.shape, view.strides, writeable=False)
    try:
        changed = change(stand_in)
    except ValueError:
        return None
    moved = changed.__array_interface__["data"][0] - stand_in.__array_interface__["data"][0]
    strides = tuple(0 if n == 1 else s for n, s in zip(changed.shape, changed.strides, strict=True))
    return View(view.buffer, changed.shape, strides, view.offset + moved, view.is_complex)


def transposed(view: View) -> View:
    """The matrices of a view, each transposed."""
    *stack, m, n = view.shape
    *outer, down, across = view.strides
    return View(view.buffer, (*stack, n, m), (*outer, across, down), view.offset, view.is_complex)


def region(view: View, spec: tuple[Any, ...]) -> View:
    region = as_numpy_does(view, lambda a: a[(*spec, ...)])
    assert region is not None
    return region


_VIEWS: dict[Op, Callable[[Any, dict[str, Any]], Any]] = {
    broadcast.reshape: lambda a, p: a.reshape(p["shape"], copy=False),
    broadcast.transpose: lambda a, p: np.transpose(a, p["axes"]),
    broadcast.broadcast_to: lambda a, p: np.broadcast_to(a, p["shape"]),
    index.getitem: lambda a, p: a[(*p["spec"], ...)],
    sort.equal_shared: lambda a, p: a,
    windows.windows: lambda a, p: np.lib.stride_tricks.sliding_window_view(a, p["width"], p["axes"]),
}


def reshaped(low: Lowering, equation: Equation) -> bool:
    """A view where NumPy gives one, found by running NumPy's function on a dummy array."""
    (x,) = equation.inputs
    how = _VIEWS[equation.op]
    if isinstance(x, Literal) and x.is_weak:
        return False
    operand = low.view(x)
    view = as_numpy_does(operand, lambda a: how(a, equation.params))
    if view is None:  # a reshape of a view with gaps
        whole = low.local(operand.type)
        low.copy_any(operand, whole)
        view = as_numpy_does(whole, lambda a: how(a, equation.params))
        assert view is not None
    return low.hold(equation, view)


def parts(low: Lowering, equation: Equation) -> bool:
    """The elements of a complex array, two by two."""
    view = low.view(equation.inputs[0])
    return view.is_complex and low.hold(equation, view.parts)


def joined_parts(low: Lowering, equation: Equation) -> bool:
    """Pairs of real elements that are neighbours, as complex ones; they are copied if they are no neighbours."""
    (x,), (result,) = equation.inputs, equation.types
    if result.dtype not in PARTS:
        return False
    pairs = low.view(x)
    if pairs.strides[-1] != 1 or pairs.offset % 2 or any(s % 2 for s in pairs.strides[:-1]):
        whole = low.local(pairs.type)
        low.copy(pairs, whole)
        pairs = whole
    strides = tuple(s // 2 for s in pairs.strides[:-1])
    return low.hold(equation, View(pairs.buffer, pairs.shape[:-1], strides, pairs.offset // 2, is_complex=True))


RULES: Rules = {**dict.fromkeys(_VIEWS.keys() - {windows.windows}, reshaped), as_real: parts, as_complex: joined_parts}
