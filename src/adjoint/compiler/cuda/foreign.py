"""Foreign steps on a GPU: ops without a generated kernel for which CuPy gives NumPy's results (Fourier transforms by cuFFT,
sorting, complex arithmetic), and some for which it does not (`exact`).

An op runs there if it is listed, or is a ufunc of NumPy, and CuPy has every function that its implementation uses. Others are
host calls, with their cost in `report()`. Most of them are functions of SciPy, whose last digits differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.op import Op
from ...device.counterpart import counterpart
from ...ops.broadcast import cast, conj, imag, real, sum_
from ...ops.convolve import convolve
from ...ops.determinant import cofactor, cofactor_slope
from ...ops.elementwise import add, div, floor_divide, mul, neg, remainder, sub
from ...ops.fft import fft, irfft, rfft
from ...ops.gaps import cancelled, crowded, first_order, gap_splitting, negligible, splitting, told_apart
from ...ops.linalg import matmul
from ...ops.reduce import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumprod,
    cumsum,
    prod,
    recurrence,
    running_max,
    running_min,
)
from ...ops.shift import roll
from ...ops.sort import order_statistics, searchsorted, share_equal
from ..lower.fuse import COPY
from ..lower.kernel import View
from ..lower.scalar import FLOATS, NATIVE
from ..lower.step import Foreign
from . import exact, rehearse
from .rehearse import Rehearsals

_ELEMENTWISE: frozenset[Op] = frozenset({add, sub, mul, div, neg, cast, real, imag, conj})  # and the ufuncs of NumPy
_WHOLE: frozenset[Op] = frozenset(
    {
        *(fft, rfft, irfft, convolve, roll, matmul, sum_, prod),
        *(argsort, argmax, argmin, searchsorted, count_nonzero),
        *(cofactor, cofactor_slope),
        *(splitting, gap_splitting, told_apart, negligible, crowded, cancelled, first_order),
    }
)
_OF_INTEGERS: frozenset[Op] = frozenset({cumsum, cumprod})
_OF_EACH_INTEGER: frozenset[Op] = frozenset({floor_divide, remainder})
REFUSALS = (TypeError, AttributeError, NotImplementedError, ValueError)  # CuPy has no such function, or not with these options

Arrays = Sequence[Any]

_INTEGERS = frozenset({np.dtype(np.int64), np.dtype(np.int32)})
#: For floats of one dtype, that of the result. Those of `_QUOTIENTS` are elementwise.
_QUOTIENTS: dict[Op, Callable[..., Any]] = {floor_divide: exact.floor_divide, remainder: exact.remainder}
_OURS: dict[Op, Callable[..., Any]] = {
    **_QUOTIENTS,
    cumsum: exact.cumsum,
    cumprod: exact.cumprod,
    recurrence: exact.recurrence,
    running_max: exact.running_max,
    running_min: exact.running_min,
    order_statistics: exact.order_statistics,
    share_equal: exact.share_equal,
}
_OF_SMALL: dict[Op, dict[str, Any]] = {order_statistics: {"kth": (0,)}}  # parameters that small arrays have as well
_SEQUENTIAL: frozenset[Op] = frozenset({cumprod, recurrence})
_RUNNING: frozenset[Op] = frozenset({running_max, running_min})
_COMPARING: frozenset[Op] = _RUNNING | {order_statistics, share_equal}


def is_asynchronous(step: Foreign, device: Any) -> bool:
    """Whether a step is a CuPy kernel, so that it can be part of a CUDA graph."""
    return _is_elementwise(step) and on_gpu(step, device) is not None


def _is_elementwise(step: Foreign) -> bool:
    """Whether a step is elementwise, and CuPy agrees with NumPy; it differs from SciPy in the last digits and at the edges."""
    op = step.op
    if op in _QUOTIENTS and _is_ours(step):
        return True
    if op is COPY or op in _ELEMENTWISE or (_is_exact(step) and op in _OF_EACH_INTEGER):
        return True
    return isinstance(op.impl, np.ufunc) and getattr(np, op.impl.__name__, None) is op.impl


def _is_exact(step: Foreign) -> bool:
    return all(v.dtype.kind in "iub" for v in (*step.reads(), *step.writes()))


def _is_ours(step: Foreign) -> bool:
    """Whether a step is one of our own functions."""
    (out,) = step.outs[:1]
    if step.op not in _OURS or not (out.dtype in FLOATS or (step.op in _RUNNING and out.dtype in _INTEGERS)):
        return False
    if step.op in _SEQUENTIAL:
        length = out.shape[step.params["axis"]]
        if length > exact.LONGEST * max(1, out.type.size // max(1, length)):
            return False
    if step.op in _COMPARING and any(getattr(o, "dtype", None) != out.dtype for o in step.operands):
        return False  # numbers that differ may be equal in another dtype
    return all(view.dtype in NATIVE for view in step.reads())


def on_gpu(step: Foreign, device: Any) -> Callable[[Arrays, Arrays], None] | None:
    """A step as a function of the device's arrays: operands, and the arrays for the results. None if it runs on the host."""
    op = step.op
    is_ours = _is_ours(step)
    if device.functions is None or (step.weak and not is_ours) or (op is not COPY and op.may_fail):
        return None
    if not (is_ours or _is_elementwise(step) or op in _WHOLE or (_is_exact(step) and op in _OF_INTEGERS)):
        return None
    try:
        impl = functools.partial(_OURS[op], device.functions) if is_ours else counterpart(op.impl, device.functions)
    except REFUSALS:
        return None
    constants = {i: device.xp.asarray(o) for i, o in enumerate(step.operands) if isinstance(o, np.ndarray)}
    if is_ours:  # numbers too
        plain = {i: o for i, o in enumerate(step.operands) if not isinstance(o, View)}
        constants = {i: device.xp.asarray(o, step.outs[0].dtype) for i, o in plain.items()}

    def run(operands: Arrays, outs: Arrays) -> None:
        given = [constants.get(i, o) for i, o in enumerate(operands)]
        if is_ours:
            given = [o.astype(outs[0].dtype, copy=False) for o in given]
        with np.errstate(all="ignore"):
            if is_ours and outs[0].flags.c_contiguous:
                impl(*given, **step.params, out=outs[0])
                return
            result = impl(*given, **step.params)
        for out, part in zip(outs, result if op.many else (result,), strict=True):
            out[...] = part

    return run


def rehearsed(step: Foreign, device: Any) -> Rehearsals:
    """The call of one of our own functions, on small arrays."""
    operands = [o for o in step.operands if isinstance(o, View)]
    if device.functions is None or not _is_ours(step) or len(operands) < len(step.operands):
        return {}

    def run() -> None:
        given = (rehearse.array(device.functions, view).astype(step.outs[0].dtype, copy=False) for view in operands)
        with np.errstate(all="ignore"):
            _OURS[step.op](device.functions, *given, **{**step.params, **_OF_SMALL.get(step.op, {})})

    return {rehearse.key((step.op, *map(str, step.params.items())), operands): run}
