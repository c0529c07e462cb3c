"""The arguments of a compiled function: the arrays among them, their signature, and the device that holds them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..api.arguments import input_names, name_of
from ..core.bind import Traced, unwrap_fresh
from ..core.code import signature_of
from ..core.errors import ArgumentError, DeviceError
from ..core.locks import cached
from ..core.memory import is_writeable
from ..core.tree import Structure, flatten, leaf_names
from ..core.types import Type
from ..device import gpu
from ..device.arrays import gpu_of
from ..numpy.layout import own
from ..staging.lazy import Elsewhere
from ..staging.type_queries import asks_for_sharing, compares_identity, line_of_bool, same_objects
from .specialization import SAME_OBJECTS, GpuTarget, Signature, as_leaf, in_rows

Function = Callable[..., Any]
LARGEST_SENT = 1 << 20  # bytes: host arrays up to this size are copied to the GPU at each call
_ALIGNMENT = 64  # bytes: copies are aligned as the originals are
WEAK = (bool, int, float, complex)
HOST = (np.ndarray, np.generic, *WEAK)


class Options(NamedTuple):
    """How a function is compiled."""

    device: str | None = None  # "cuda", "cuda:1": a GPU; None: where the arguments are
    precision: str = "highest"  # of products on a GPU
    donated: tuple[int, ...] = ()  # positional arguments whose memory results may take
    source: bool | None = None  # loops and branches are staged from the source; None: those of adopted code


DEFAULT = Options()


class Arguments:
    """How the arguments of a function are flattened: which are static, and which device they go to."""

    def __init__(self, f: Function, static_argnums: tuple[int, ...], static_argnames: tuple[str, ...], options: Options) -> None:
        self.f = f
        self.static_argnums, self.static_argnames, self.options = static_argnums, static_argnames, options

    @cached
    def compares_identity(self) -> bool:
        return compares_identity(self.f)

    @cached
    def sees_order(self) -> bool:
        """Whether the function can tell in which order its keywords are given: it has `**kwargs`."""
        try:
            return any(p.kind is p.VAR_KEYWORD for p in signature_of(self.f).parameters.values())
        except (TypeError, ValueError):  # a function without a signature
            return True

    @cached
    def asks_for_sharing(self) -> bool:
        return asks_for_sharing(self.f)

    @cached
    def line_of_bool(self) -> str | None:
        return line_of_bool(self.f)

    def given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Structure]:
        """The leaves of the arguments that are not static, and their structure."""
        free = tuple(a for i, a in enumerate(args) if i not in self.static_argnums)
        names = kwargs if self.sees_order else sorted(kwargs)
        return flatten((free, {k: kwargs[k] for k in names if k not in self.static_argnames}))

    def replaced(
        self, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other leaves; static ones stay."""
        free, named = self.given(args, kwargs)[1].unflatten(leaves)
        rest = iter(free)
        positional = tuple(a if i in self.static_argnums else next(rest) for i, a in enumerate(args))
        return positional, {k: a if k in self.static_argnames else named[k] for k, a in kwargs.items()}

    def open(self, args: tuple[Any, ...], kwargs: dict[str, Any], by_order: bool) -> tuple[list[Any], Signature | None]:
        """The arrays among the arguments, contiguous, and their signature.

        There is none inside another transform, which sees the function itself, none for subclasses of arrays, and none for arrays
        that share memory if the function asks whether they do.
        """
        static: list[tuple[Any, Any]] = [(i, told_apart(args[i])) for i in self.static_argnums if i < len(args)]
        static += [(name, told_apart(kwargs[name])) for name in self.static_argnames if name in kwargs]
        given, structure = self.given(args, kwargs)
        if self.compares_identity:
            static.append((SAME_OBJECTS, same_objects(given)))
            if self.asks_for_sharing and len(_blocks(given)) < len({id(x) for x in given if _is_plain(x)}):
                return given, None
        leaves: list[Any] = []
        weak: list[Any] = []
        gpus: dict[int, int] = {}  # of the arrays that are on one
        for i, x in enumerate(map(unwrap_fresh, given)):
            gpu = gpu_of_argument(x)
            if gpu is not None:
                gpus[i] = gpu
            else:
                if not self._fits(x, i, structure):
                    return given, None
                x = _plain(x)
            leaves.append(x)
            weak.append(type(x) if type(x) in WEAK else None)
        target = self._target(leaves, gpus, structure) if gpus or self.options.device else None
        donated = self._donated(structure, len(args)) if self.options.donated else ()
        try:
            scalars = tuple([isinstance(x, np.generic) for x in leaves])
            types = tuple(map(Type.of, leaves))
            strides = _strides(given) if by_order else ()
            orders = tuple(structure.orders())
            signature = Signature(structure, types, tuple(weak), tuple(static), scalars, strides, target, donated, orders)
            hash(signature)
        except TypeError as error:
            raise ArgumentError(f"a static argument of {name_of(self.f)} must be hashable: {error}") from None
        return leaves, signature

    def _fits(self, x: Any, i: int, structure: Structure) -> bool:
        """Whether a host argument can be passed to a program; an object that no function could take is an error."""
        if isinstance(x, Traced) or (isinstance(x, np.ndarray) and type(x) not in (np.ndarray, np.memmap)):
            return False
        if not isinstance(x, HOST) or getattr(x, "dtype", np.dtype(float)).kind not in "biufc":
            name = input_names(self.f, leaf_names("", structure))[i]
            kind = f"an array of dtype {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
            raise ArgumentError(
                f"{name} of {name_of(self.f)} is {kind}; jit takes arrays and numbers. Name it in static_argnames to "
                "compile a program for each of its values"
            )
        return type(x) is not int or -(2**63) <= x < 2**63  # others have no dtype

    def _target(self, leaves: list[Any], gpus: dict[int, int], structure: Structure) -> GpuTarget:
        """The GPU that a call runs on. Arrays there become CuPy arrays; arrays that would have to be moved are refused."""
        from .cuda import gpu  # heavy: loads LLVM, and CuPy

        names = input_names(self.f, leaf_names("", structure))
        kind, _, number = (self.options.device or "").partition(":")
        wanted = {*gpus.values(), *([int(number)] if number else [])}
        if len(wanted) > 1:
            where = ", ".join(f"{names[i]} on GPU {n}" for i, n in gpus.items())
            asked = f" and device={self.options.device!r} was asked for" if number else ""
            raise DeviceError(f"{name_of(self.f)} has arguments on different GPUs: {where}{asked}; copy them to one")
        device = gpu.numbered(wanted.pop()) if wanted else gpu.current()
        large = [i for i, x in enumerate(leaves) if i not in gpus and getattr(x, "nbytes", 0) > LARGEST_SENT]
        if large and not kind:
            here, there = (", ".join(names[i] for i in some) for some in (large, gpus))
            raise DeviceError(
                f"{name_of(self.f)} has arguments on different devices: {there} on GPU {device.number}, and {here} in host "
                f"memory, which is too large to be copied at each call; copy it once with cupy.asarray, or write device='cuda'"
            )
        for i in gpus:
            leaves[i] = x = device.imported(leaves[i])
            if x.dtype.kind not in "biufc":
                raise ArgumentError(f"{names[i]} of {name_of(self.f)} is an array of dtype {x.dtype}; jit takes numbers")
        return GpuTarget(device.number, not gpus)

    def _donated(self, structure: Structure, count: int) -> tuple[int, ...]:
        """The flat inputs of the arguments that were donated."""
        positions = [i for i in range(count) if i not in self.static_argnums]
        found: list[int] = []
        start = 0
        for position, (_, child) in zip(positions, structure.children[0][1].children, strict=True):
            if position in self.options.donated:
                found += range(start, start + child.count)
            start += child.count
        return tuple(found)


def _plain(x: Any) -> Any:
    """An argument of the host as a program takes it."""
    if isinstance(x, np.ndarray):
        return as_leaf(x)
    if not isinstance(x, np.generic) and type(x) not in WEAK:
        return np.asarray(x)[()]  # such as a member of an IntEnum: NumPy does not treat it as a Python number
    return x


def _strides(given: Sequence[Any]) -> tuple[Any, ...]:
    """The strides of the arrays that are not in C order, if they decide what is a view and what is a copy."""
    return () if all(map(in_rows, given)) else tuple([None if in_rows(x) else x.strides for x in given])


def listed(given: Any, kind: type, option: str) -> tuple[Any, ...]:
    """An option of jit that is one or several of a kind; None is none."""
    found = () if given is None else tuple(given) if isinstance(given, (tuple, list, set, frozenset, range)) else (given,)
    if kind is int:
        found = tuple(int(x) if isinstance(x, np.integer) else x for x in found)
    if not all(isinstance(x, kind) and not isinstance(x, bool) for x in found):
        what = "positions of arguments" if kind is int else "names of arguments"
        raise ArgumentError(f"{option} of jit takes {what}, not {given!r}")
    return found


def both_ways(f: Function, numbers: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by place and by name: each may be given either way."""
    try:
        parameters = list(signature_of(f).parameters.values())
    except (TypeError, ValueError):  # a function without a signature
        parameters = []
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(i < -len(placed) for i in numbers):
        raise ArgumentError(f"static_argnums of jit has a position of {min(numbers)}, but there are {len(placed)} arguments")
    numbers = tuple(i + len(placed) if i < 0 else i for i in numbers)
    more = [placed.index(name) for name in names if name in placed]
    named = [placed[i] for i in numbers if 0 <= i < len(placed)]
    return tuple(dict.fromkeys([*numbers, *more])), tuple(dict.fromkeys([*names, *named]))


def told_apart(value: Any) -> Any:
    """A static value with its class: 1, 1.0 and True compare equal, but give different programs, and so do 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), tuple(map(told_apart, value))
    return (type(value), repr(value)) if isinstance(value, (float, complex)) and value == 0 else (type(value), value)


def own_together(leaves: Sequence[Any]) -> list[Any]:
    """Copies of the arrays that may be written to. Those that share memory share it in the copies too."""
    copies = [own(x) for x in leaves]
    if sum(map(_is_plain, leaves)) > 1:
        for block in _blocks(leaves):
            arrays = [leaves[i] for i in block]
            if len(block) > 1 and any(map(is_writeable, arrays)):
                for i, copy in zip(block, _copied_block(arrays), strict=True):
                    copies[i] = copy
    return copies


def _is_plain(x: Any) -> bool:
    """Whether x is an array whose memory can be copied bit by bit, and is not empty."""
    return type(x) is np.ndarray and x.size > 0 and not x.dtype.hasobject


def _blocks(leaves: Sequence[Any]) -> list[list[int]]:
    """The numbers of the plain arrays, grouped by the blocks of memory that they lie in."""
    bounds = {i: byte_bounds(x) for i, x in enumerate(leaves) if _is_plain(x)}
    blocks: list[list[int]] = []
    end = 0
    for i in sorted(bounds, key=bounds.__getitem__):
        if bounds[i][0] >= end:
            blocks.append([])
        blocks[-1].append(i)
        end = max(end, bounds[i][1])
    return blocks


def _copied_block(arrays: Sequence[Any]) -> list[Any]:
    """Copies of arrays that lie in one block of memory, in one new block; an array that is given twice is one array again."""
    start, end = min(byte_bounds(x)[0] for x in arrays), max(byte_bounds(x)[1] for x in arrays)
    block = np.empty(end - start + 2 * _ALIGNMENT, np.uint8)
    shift = -block.ctypes.data % _ALIGNMENT + start % _ALIGNMENT
    ctypes.memmove(block.ctypes.data + shift, start, end - start)
    made: dict[int, Any] = {}
    for x in arrays:
        if id(x) not in made:
            made[id(x)] = np.ndarray(x.shape, x.dtype, block, shift + x.ctypes.data - start, x.strides)
            made[id(x)].flags.writeable = is_writeable(x)
    return [made[id(x)] for x in arrays]


def gpu_of_argument(x: Any) -> int | None:
    """The GPU that holds an argument; None for a host array, or inside another transform."""
    return None if isinstance(x, (*HOST, Traced)) else gpu_of(x)


def own_on_host(x: Any) -> Any:
    """A copy of an array in host memory, if it is on a GPU or may be written to."""
    number = gpu_of_argument(x)
    if number is None:
        return own(x)
    memory = gpu.numbered(number)
    return memory.host(memory.imported(x))


def sent(number: int, x: Any) -> Any:
    """A copy of a result on a GPU; anything that is not an array or a number is returned unchanged."""
    return gpu.numbered(number).adopt(x, Type.of(x)) if isinstance(x, HOST) else x


def to_stage(x: Any) -> Any:
    """An argument as it is staged; the numbers of an array on a GPU are copied if Python asks for them."""
    return x if isinstance(x, HOST) else Elsewhere(x, lambda: own_on_host(x))


def check_gpus(f: Function, gpus: dict[str, int], target: GpuTarget | None) -> None:
    """Refuse outside arrays on another device than the arguments."""
    for name, number in gpus.items():
        if target is None or target.gpu != number:
            where = "in host memory" if target is None else f"on GPU {target.gpu}"
            raise DeviceError(
                f"{name_of(f)} reads {name} on GPU {number}, but its arguments are {where}; pass them there, or write "
                f"device='cuda:{number}'"
            )
