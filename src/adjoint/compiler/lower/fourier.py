"""Fourier transforms: a call of pocketfft for all rows of an array in which the axis of the transform is the last one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation
from ...ops import fft as ops
from . import pocketfft
from .control import solid
from .kernel import PARTS, Dtype, View
from .lowered import Rules
from .step import Fourier
from .views import as_numpy_does

if TYPE_CHECKING:
    from .fuse import Lowering


def fft(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), params = equation.inputs, equation.types, equation.params
    routine = "ifft" if params["inverse"] else "fft"
    if low.type_of(x).dtype != result.dtype or result.dtype not in PARTS or not _has(low, routine, result.dtype, result.shape):
        return False
    view = low.view(x)
    for axis in reversed(params["axes"]):
        n = result.shape[axis]
        view = _along(low, view, axis, routine, n, result.dtype, scale_of(n, params["norm"], params["inverse"]))
    return low.hold(equation, view)


def rfft(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    routine = "rfft_n_odd" if t.shape[axis] % 2 else "rfft_n_even"
    if PARTS.get(result.dtype) != t.dtype or not _has(low, routine, t.dtype, t.shape):
        return False
    factor = scale_of(t.shape[axis], equation.params["norm"], inverse=False)
    return low.hold(equation, _along(low, low.view(x), axis, routine, result.shape[axis], result.dtype, factor))


def irfft(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    if PARTS.get(t.dtype) != result.dtype or not _has(low, "irfft", t.dtype, (*t.shape, *result.shape)):
        return False
    n = result.shape[axis]
    if t.shape[axis] != n // 2 + 1:
        return False
    factor = scale_of(n, equation.params["norm"], inverse=True)
    return low.hold(equation, _along(low, low.view(x), axis, "irfft", n, result.dtype, factor))


def _has(low: Lowering, routine: str, dtype: Dtype, shape: tuple[int, ...]) -> bool:
    return low.has_transforms and 0 not in shape and pocketfft.loop(routine, dtype.char) is not None


def scale_of(n: int, norm: Any, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def _along(low: Lowering, view: View, axis: int, routine: str, length: int, dtype: Dtype, factor: float) -> View:
    moved = as_numpy_does(view, lambda a: np.moveaxis(a, axis, -1))
    assert moved is not None
    operand = solid(low, moved)
    out = low.local(Type((*operand.shape[:-1], length), dtype))
    step = Fourier(routine, operand, out, factor, {low.line: None} if low.line else {})
    low.ready[out.buffer] = low.step(step)
    back = as_numpy_does(out, lambda a: np.moveaxis(a, -1, axis))
    assert back is not None
    return back


RULES: Rules = {ops.fft: fft, ops.rfft: rfft, ops.irfft: irfft}
