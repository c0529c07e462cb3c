"""Eager ops on arrays of a GPU: the innermost interpreter, which runs them on CuPy.

    grad(f)(x)      x is a value of ON_GPU, around CuPy's array; the tape records ops on it as on any other value

An op whose NumPy function has no counterpart in CuPy (`device.counterpart`), or one with other results, is compiled.
An op that has no kernel either is refused by name: the function can be called with a copy on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from ..core.bind import Trace, Traced, unwrap_fresh
from ..core.errors import DeviceError, UnsupportedError
from ..core.op import Elementwise, Op, Structured
from ..core.tree import flatten, map_leaves
from ..core.types import Type
from ..derive.batching import type_rule
from ..device import gpu
from ..device.arrays import gpu_of
from ..device.counterpart import counterpart

F = TypeVar("F", bound=Callable[..., Any])

_HOST = (np.ndarray, np.generic, bool, int, float, complex)
_ON_HOST = frozenset({np.ndarray, np.float64, np.float32, float, int, bool, type(None)})
_PLAIN = _ON_HOST | {Traced}  # whose values are on no GPU, or known to be


class OnGPU(Trace):
    """Runs ops on arrays of a GPU. `value` is CuPy's array."""

    __slots__ = ("compiled",)
    #: The results of an op, from its operands and parameters, by a program of its own; set by the package, which has a compiler.
    compiled: Callable[[Op, list[Any], dict[str, Any]], Any]
    has_numbers = False  # numbers cannot be inspected without a wait: rules take the path that is right for all numbers

    def show(self, x: Traced) -> str:
        return repr(x.underlying)

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        gpu = _gpu([a.underlying if isinstance(a, Traced) else a for a in args])
        values = [_on(gpu, a) for a in args]
        try:
            y = _by_cupy(op, values, params, gpu)
        except (TypeError, AttributeError, NotImplementedError) as lacking:
            try:
                y = self.compiled(op, values, params)
            except UnsupportedError as error:
                raise UnsupportedError(
                    f"{op.name} is not available for CuPy arrays ({lacking}); use ad.jit, or pass copies on the host"
                ) from error
        return tuple(map(lift, y)) if op.many else lift(y)

    def shape(self, x: Traced) -> tuple[int, ...]:
        return x.underlying.shape  # type: ignore[no-any-return]

    def is_array(self, x: Traced) -> bool:
        return True

    def class_of(self, x: Traced) -> type:
        return np.ndarray

    def concrete(self, x: Traced, what: str) -> Any:
        """A copy on the host: Python asks for a number."""
        return _device(gpu_of(x.underlying)).host(x.underlying)

    def is_plain(self, x: Traced) -> bool:
        return True


def _by_cupy(op: Op, values: list[Any], params: dict[str, Any], gpu: Any) -> Any:
    """The results of an op, by CuPy's functions."""
    if isinstance(op, Structured):
        raise NotImplementedError(f"CuPy has no {op.name}")
    impl = op.derived.get(("on GPU", gpu.namespace))
    if impl is None:
        impl = op.derived["on GPU", gpu.namespace] = counterpart(op.impl, gpu.namespace)
    y = impl(*values, **params)
    if not isinstance(op, Elementwise):  # CuPy's results may have other shapes and dtypes than NumPy's
        numbers = [None if hasattr(x, "dtype") else x for x in values]
        types = [Type.of(x) if isinstance(x, _HOST) else Type(x.shape, x.dtype) for x in values]
        wanted = type_rule(op, types, params, numbers)
        found = [(part.shape, part.dtype) for part in (y if op.many else (y,))]
        if found != [tuple(t) for t in (wanted if op.many else (wanted,))]:
            raise NotImplementedError(f"CuPy computes {found} in place of {wanted}")
    return y


ON_GPU = OnGPU("CuPy", 0.125)  # inside of all that differentiate, around what `adjoint.numpy` makes


def lift(x: Any) -> Any:
    """An array on a GPU as a value of ON_GPU; anything else unchanged."""
    return x if isinstance(x, (*_HOST, Traced)) or gpu_of(x) is None else Traced(ON_GPU, x, None)


def follows_gpu(run: F) -> F:
    """Let a transform, whose first argument is a function or itself, also take arrays on a GPU and return such arrays."""

    @functools.wraps(run)
    def entry(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            leaves = [] if are_plain(args) and are_plain(kwargs.values()) else flatten((args, kwargs))[0]
        except RecursionError:  # a container that holds itself, which may be an argument that is not differentiated
            leaves = []
        gpus = {gpu_of(x) for x in leaves if not isinstance(x, (*_HOST, Traced))} - {None}
        if not gpus:
            return run(first, *args, **kwargs)
        if len(gpus) > 1:
            raise DeviceError(f"arguments are on different GPUs, {' and '.join(sorted(map(str, gpus)))}; copy them to one")
        device = _device(gpus.pop())
        lifted, named = map_leaves(lambda x: lift(_imported(device, x)), (args, kwargs))
        with device.active():
            result = run(first, *lifted, **named)
            return result if any(isinstance(x, Traced) for x in leaves) else landed(result, device)  # inside another transform

    return entry  # type: ignore[return-value]


def are_plain(values: Iterable[Any]) -> bool:
    """Whether values are on the host or traced, as far as can be told without opening other containers than the usual ones."""
    for x in values:
        cls = type(x)
        if cls in _PLAIN or ((cls is tuple or cls is list) and are_plain(x)) or (cls is dict and are_plain(x.values())):
            continue
        return False
    return True


def landed(result: Any, device: Any = None) -> Any:
    """A result with its arrays on the GPU as CuPy arrays. With a device, the zeros of a transform are copied there."""
    if device is None and type(result) is tuple and _ON_HOST.issuperset(map(type, result)):
        return result
    return map_leaves(functools.partial(_landed, device), result)


def _landed(device: Any, y: Any) -> Any:
    y = unwrap_fresh(y)
    if isinstance(y, Traced) and y.by is ON_GPU:
        return y.underlying
    return device.adopt(y, Type.of(y)) if device is not None and isinstance(y, _HOST) else y


def on_host(x: Any) -> Any:
    """A value on a GPU as a copy in host memory, for tools that show or write down programs; anything else unchanged."""
    return ON_GPU.concrete(x, "") if isinstance(x, Traced) and x.by is ON_GPU else x


def _imported(device: Any, x: Any) -> Any:
    return x if isinstance(x, (*_HOST, Traced)) or gpu_of(x) is None else device.imported(x)


def _on(gpu: Any, a: Any) -> Any:
    """An operand for CuPy: host numbers are passed unchanged, host arrays are copied."""
    a = unwrap_fresh(a)
    if isinstance(a, Traced):
        return a.underlying
    return gpu.adopt(a, Type.of(a)) if isinstance(a, np.ndarray) else a


def _gpu(values: list[Any]) -> Any:
    return _device(next(gpu for gpu in map(gpu_of, values) if gpu is not None))


def _device(number: int | None) -> Any:
    assert number is not None
    return gpu.numbered(number)
