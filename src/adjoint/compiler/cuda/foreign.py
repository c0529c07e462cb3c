"""Foreign steps on a card: ops without a kernel of ours that CuPy computes as NumPy does (Fourier transforms by cuFFT, sorting,
complex arithmetic).

An op runs there if it is listed, or is a ufunc of NumPy, and CuPy has every function that its implementation uses. Others are
calls on the host, with their cost in `report()`. Among them are ops for which CuPy adds up floats in an order that changes from
run to run (`cumsum`), rounds otherwise (`//` of floats), or wraps an index around that is out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...device.counterpart import counterpart
from ..lower.fuse import COPY
from ..lower.step import Foreign

_ELEMENTWISE = frozenset({"add", "sub", "mul", "div", "neg", "cast", "real", "imag", "conj"})  # and the ufuncs of NumPy
_WHOLE = frozenset(
    {
        *("fft", "rfft", "irfft", "convolve", "roll", "matmul", "sum", "prod"),
        *("argsort", "argmax", "argmin", "searchsorted", "count_nonzero"),
    }
)
_OF_INTEGERS = frozenset({"cumsum", "cumprod"})
_OF_EACH_INTEGER = frozenset({"floor_divide", "remainder"})
REFUSALS = (TypeError, AttributeError, NotImplementedError, ValueError)  # CuPy has no such function, or not with these options

Arrays = Sequence[Any]


def is_asynchronous(step: Foreign, device: Any) -> bool:
    """Whether a step is a kernel of CuPy's, so that it can be part of a CUDA graph."""
    return _is_elementwise(step) and on_card(step, device) is not None


def _is_elementwise(step: Foreign) -> bool:
    """Whether a step is elementwise, and CuPy agrees with NumPy; it differs from SciPy in the last digits and at the edges."""
    op = step.op
    if op is COPY or op.name in _ELEMENTWISE or (_is_exact(step) and op.name in _OF_EACH_INTEGER):
        return True
    return isinstance(op.impl, np.ufunc) and getattr(np, op.impl.__name__, None) is op.impl


def _is_exact(step: Foreign) -> bool:
    return all(v.dtype.kind in "iub" for v in (*step.reads(), *step.writes()))


def on_card(step: Foreign, device: Any) -> Callable[[Arrays], Arrays] | None:
    """A step as a function of the device's arrays, from operands to results; None if it runs on the host."""
    op = step.op
    if device.functions is None or step.weak or (op is not COPY and op.may_fail):
        return None
    if not (_is_elementwise(step) or op.name in _WHOLE or (_is_exact(step) and op.name in _OF_INTEGERS)):
        return None
    try:
        impl = counterpart(op.impl, device.functions)
    except REFUSALS:
        return None
    constants = {i: device.xp.asarray(o) for i, o in enumerate(step.operands) if isinstance(o, np.ndarray)}

    def run(operands: Arrays) -> Arrays:
        given = [constants.get(i, o) for i, o in enumerate(operands)]
        with np.errstate(all="ignore"):
            result = impl(*given, **step.params)
        return tuple(result) if op.many else (result,)

    return run
