"""CPU programs that write results over donated arguments: see `lower.donate`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import Type
from .entry import ERRORS, MISS, Input

if TYPE_CHECKING:
    from ..native import Native


def function(native: Native, inputs: Sequence[Input], reused: Mapping[int, int]) -> Callable[..., Any]:
    """The program as a Python function of flat arguments; result k takes the memory of argument `reused[k]`, if it can."""
    address = native.engine.get_function_address("program")
    run = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    outputs = native.program.outputs

    def call(*leaves: Any) -> Any:
        if any(Type.of(x) != i.type or (type(x) if i.weak else None) is not i.weak for x, i in zip(leaves, inputs, strict=True)):
            return MISS
        arrays = [np.asarray(x, i.type.dtype) for x, i in zip(leaves, inputs, strict=True)]
        results = [_over(arrays, reused[k], t) if k in reused else np.empty(t.shape, t.dtype) for k, t in enumerate(outputs)]
        table = (ctypes.c_void_p * (len(arrays) + len(results)))(*(a.ctypes.data for a in (*arrays, *results)))
        status = run(ctypes.addressof(table), ctypes.addressof(native.env))
        if status:
            kind, message = ERRORS[status]
            raise kind(message)
        return tuple([y if y.shape else y[()] for y in results])

    return call


def _over(arrays: Sequence[Any], i: int, t: Type) -> Any:
    """The memory of an argument as an array of this type; a copy if another argument, or a reader of it, would see that."""
    given = np.ascontiguousarray(arrays[i]).reshape(-1).view(t.dtype)  # a complex array may become a real one of twice the size
    others = [a for k, a in enumerate(arrays) if k != i]
    if not t.shape or not given.flags.writeable or any(np.may_share_memory(given, other) for other in others):
        return given.reshape(t.shape).copy()
    return given.reshape(t.shape)
