"""Elements that a mask chooses, in one compiled program for many masks: `x[x > 0]`, `np.nonzero(x > 0)`.

How many elements there are changes from call to call, but the arrays of a program have fixed sizes. So the chosen elements move
to the front of an array of a fixed size, and the last of them fills the rest:

    x       3 -1 4 -1 5 -9 2 6          x[x > 0]   size 8:   3 4 5 2 6 | 6 6 6          count 5

`Selected` is such an array. Elementwise functions run on the padded array; reductions leave the padding out. The program is
right for all counts between two powers of two, which is a guard. Whatever else is done with a `Selected`, and every question
about its shape, makes it an ordinary traced array of `count` elements first, with a guard on the count (`Selected.materialize`).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, is_ours, snapshot
from ..core.tree import OpenContainer, register_opener
from ..core.types import Shape, Value, canonical_axes, dtype_of, ndim_of, shape_of
from ..eager.batch import Batch
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import index as indexing
from ..ops import reduce as reductions
from ..staging.guard import Guarded
from .table import FUNCTIONS

SMALLEST = 64  # counts up to this one share a program
RANGE, COUNT = "the range of the number of elements chosen by", "the number of elements chosen by"


class MaskedPlaces:
    """The places where a mask holds: `places` of `size`, of which the first `count` are distinct and the rest repeat the last."""

    def __init__(self, mask: Traced, ranks: Value, count: Traced, size: int, places: Value) -> None:
        self.mask, self.ranks = mask, ranks  # ranks: how many elements are chosen up to each
        self.count, self.size, self.places = count, size, places
        self.valid = ops.less(np.arange(size), count)

    def known(self) -> int:
        """The count of this call, which becomes a guard."""
        return int(self.count.by.concrete(self.count, COUNT))


def choose(mask: Value) -> MaskedPlaces | None:
    """The choice of a mask of booleans, if it is staged by `jit` and holds somewhere."""
    while isinstance(mask, Traced) and not isinstance(mask.by, Batch) and mask.by.has_numbers:
        mask = mask.underlying
    stage = getattr(mask, "by", None)
    if not isinstance(stage, Guarded) or stage.closed or 0 in shape_of(mask) or not shape_of(mask):
        return None
    number = mask.aux[0]
    if number not in stage.selections:
        stage.selections[number] = _chosen(stage, mask)
    return stage.selections[number]  # type: ignore[no-any-return]


def _chosen(stage: Guarded, mask: Traced) -> MaskedPlaces | None:
    n = int(np.prod(shape_of(mask)))
    flat = mask if ndim_of(mask) == 1 else shapes.reshape(mask, shape=(n,))
    ranks = reductions.cumsum(shapes.cast(flat, dtype=np.dtype(np.intp)), axis=0)
    count = indexing.getitem(ranks, spec=(n - 1,))
    sizes = sizes_for(n)
    exceeded = reductions.count_nonzero(ops.less(np.array(sizes[:-1]), count), axis=(0,), keepdims=False)
    size = sizes[int(stage.concrete(exceeded, RANGE))]
    if not size:
        return None
    slots = shapes.where(flat, ops.minimum(ops.sub(ranks, 1), size), size)  # `size`: not chosen
    places = indexing.put_at(np.zeros(size + 1, np.intp), np.arange(n), slots, axis=0)
    return MaskedPlaces(
        mask, ranks, count, size, indexing.gather(places, ops.minimum(np.arange(size), ops.sub(count, 1)), axis=0)
    )


def sizes_for(n: int) -> list[int]:
    """The sizes of padded arrays of n elements or fewer.

    >>> sizes_for(1000), sizes_for(7)
    ([0, 64, 128, 256, 512, 1000], [0, 7])
    """
    sizes = [0, SMALLEST]
    while sizes[-1] < n:
        sizes.append(2 * sizes[-1])
    return [*sizes[:-1], n]


class Selected(Traced):
    """The chosen elements along an axis of an array. `by`, `value` and `aux` are those of the array that `materialize` makes."""

    __slots__ = ("axis", "choice", "is_materialized", "padded")

    def __init__(self, choice: MaskedPlaces, padded: Value, axis: int) -> None:
        self.choice: MaskedPlaces | None = choice  # None after something was written in place
        self.padded, self.axis, self.is_materialized = padded, axis, False

    @property
    def from_end(self) -> int:
        """The axes behind that of the chosen elements."""
        return ndim_of(self.padded) - 1 - self.axis

    def materialize(self) -> None:
        """Become an array of known shape."""
        assert self.choice is not None
        now = indexing.getitem(self.padded, spec=(slice(None),) * self.axis + (slice(0, self.choice.known()),))
        self.is_materialized = True
        for slot, content in zip(_SLOTS, (now.by, now.underlying, now.aux), strict=True):
            slot.__set__(self, content)

    def with_fill(self, fill: Any) -> Value:
        """The padded array with a number in place of the padding."""
        return shapes.where(self.valid(), self.padded, np.asarray(fill, dtype_of(self.padded))[()])

    def valid(self) -> Value:
        """Where the padded array has chosen elements; broadcasts against it."""
        assert self.choice is not None
        return shapes.reshape(self.choice.valid, shape=(self.choice.size,) + (1,) * self.from_end)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if is_ours(sys._getframe(1)) else np.ndarray

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtype_of(self.padded) if self.choice else Traced.dtype.fget(self)  # type: ignore[attr-defined,no-any-return]

    @property
    def ndim(self) -> int:
        return ndim_of(self.padded)  # a write keeps the rank

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        return transpose(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        y: Any = NotImplemented
        if method == "__call__" and not kwargs and ufunc.nout == 1 and (ufunc is np.matmul or not ufunc.signature):
            y = matmul(*inputs) if ufunc is np.matmul else pointwise(ufunc, *inputs)
        elif method == "reduce" and ufunc in _REDUCTIONS:
            y = RULES[_REDUCTIONS[ufunc]](*inputs, **{"axis": 0, **kwargs})
        return Traced.__array_ufunc__(self, ufunc, method, *inputs, **kwargs) if y is NotImplemented else y  # type: ignore[attr-defined]

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        rule = RULES.get(function)
        y = NotImplemented if rule is None else rule(*args, **kwargs)
        return Traced.__array_function__(self, function, types, args, kwargs) if y is NotImplemented else y  # type: ignore[attr-defined]


_SLOTS = [vars(Traced)[name] for name in ("by", "underlying", "aux")]


def _lazy(slot: Any) -> property:
    def get(self: Selected) -> Any:
        if not self.is_materialized:
            self.materialize()
        return slot.__get__(self)

    def set_(self: Selected, content: Any) -> None:
        self.choice, self.is_materialized = None, True
        slot.__set__(self, content)

    return property(get, set_)


for _name, _slot in zip(("by", "underlying", "aux"), _SLOTS, strict=True):
    setattr(Selected, _name, _lazy(_slot))


# -- reading ----------------------------------------------------------------------------------------------------


def select(x: Value, index: Any) -> Any:
    """x[index] for a mask, or the indices of one, if it is a `Selected`; else NotImplemented."""
    if isinstance(index, tuple):
        if not _holds_traced(index):
            return NotImplemented
        axis = next((i for i, entry in enumerate(index) if not (isinstance(entry, slice) and entry == slice(None))), 0)
        chosen = index[axis:]
        while len(chosen) > 1 and isinstance(chosen[-1], slice) and chosen[-1] == slice(None):
            chosen = chosen[:-1]
    else:
        axis, chosen = 0, (index,)
    if isinstance(x, Selected) or not all(isinstance(entry, Traced) for entry in chosen):
        return NotImplemented
    if len(chosen) == 1 and not isinstance(chosen[0], Selected) and dtype_of(chosen[0]).kind == "b":
        return _by_mask(x, chosen[0], axis)
    choice = getattr(chosen[0], "choice", None)
    if choice is None or any(not is_alike(entry, choice, 0) or dtype_of(entry).kind not in "iu" for entry in chosen):
        return NotImplemented
    return Selected(choice, indexing.gather(x, *[entry.padded for entry in chosen], axis=axis), axis)


def _holds_traced(index: tuple[Any, ...]) -> bool:
    for entry in index:  # noqa: SIM110 - any() of a generator takes three times as long
        if isinstance(entry, Traced):
            return True
    return False


def _by_mask(x: Value, mask: Traced, axis: int) -> Any:
    own, extent = shape_of(x), shape_of(mask)
    if own[axis : axis + len(extent)] != extent:
        return NotImplemented
    choice = choose(mask)
    if choice is None:
        return NotImplemented
    if len(extent) > 1:
        x = shapes.reshape(x, shape=(*own[:axis], int(np.prod(extent)), *own[axis + len(extent) :]))
    return Selected(choice, indexing.gather(x, choice.places, axis=axis), axis)


def after_write(x: Value, index: Any, v: Any) -> Value | None:
    """x after x[index] = v, for elements of the mask that v was selected by, as in `x[m] *= 2`; None for other writes."""
    if not isinstance(v, Selected) or v.choice is None or v.is_materialized or v.axis:
        return None
    mask, own = v.choice.mask, shape_of(x)
    extent, rest = shape_of(mask), shape_of(v.padded)[1:]
    if isinstance(index, tuple) and len(index) == 1:
        (index,) = index
    is_places = isinstance(index, Selected) and index.choice is v.choice and index.padded is v.choice.places and len(extent) == 1
    if not is_places and (isinstance(index, Selected) or not isinstance(index, Traced) or dtype_of(index).kind != "b"):
        return None
    if (not is_places and choose(index) is not v.choice) or own != extent + rest or dtype_of(x) != dtype_of(v.padded):
        return None
    spread = indexing.gather(v.padded, ops.maximum(ops.sub(v.choice.ranks, 1), 0), axis=0)
    spread = spread if len(extent) == 1 else shapes.reshape(spread, shape=own)
    return shapes.where(shapes.reshape(mask, shape=extent + (1,) * len(rest)) if rest else mask, spread, x)


def nonzero(a: Value) -> tuple[Selected, ...] | None:
    """The indices of the elements that are not zero, along each axis; None if NumPy has to be asked."""
    choice = choose(a if dtype_of(a).kind == "b" else ops.not_equal(a, 0))
    if choice is None:
        return None
    found, places = [], choice.places
    for length in reversed(shape_of(a)[1:]):
        found.append(ops.remainder(places, length))
        places = ops.floor_divide(places, length)
    return tuple(Selected(choice, i, 0) for i in (places, *reversed(found)))


def is_alike(x: Any, choice: MaskedPlaces | None, from_end: int) -> bool:
    """Whether x holds the elements of a choice, along the axis with so many behind it."""
    return isinstance(x, Selected) and choice is not None and x.choice is choice and x.from_end == from_end


# -- functions that run on the padded array ---------------------------------------------------------------------


def pointwise(function: Callable[..., Any], *args: Any) -> Any:
    """An elementwise function of selected elements of one choice, and of values that have no axis beside theirs."""
    first = next(a for a in args if isinstance(a, Selected))
    choice, behind = first.choice, first.from_end
    inside = []
    for a in args:
        if isinstance(a, Selected):
            if not is_alike(a, choice, behind):
                return NotImplemented
            inside.append(a.padded)
            continue
        own = shape_of(a) if type(a) is np.ndarray or isinstance(a, (Traced, np.generic, int, float, complex)) else None
        if own is None or (len(own) > behind and own[-1 - behind] != 1):
            return NotImplemented
        inside.append(a)
    if choice is None:
        return NotImplemented
    y = function(*inside)
    return Selected(choice, y, ndim_of(y) - 1 - behind)


def matmul(a: Any, b: Any, **options: Any) -> Any:
    """A product of matrices and vectors; a sum over chosen elements leaves the padding out."""
    if options:
        return NotImplemented
    sides = [x for x in (a, b) if isinstance(x, Selected)]
    choice = sides[0].choice
    if choice is None or any(type(x) is not np.ndarray and not isinstance(x, Traced) for x in (a, b)):
        return NotImplemented
    if not all(x.choice is choice for x in sides) or not {x.ndim for x in (a, b)} <= {1, 2}:
        return NotImplemented
    summed = [x.axis == (ndim_of(x.padded) - 1 if x is a else max(ndim_of(x.padded) - 2, 0)) for x in sides]
    if len(sides) == 2:
        return np.matmul(a.with_fill(0), b.with_fill(0)) if all(summed) else NotImplemented
    if summed[0]:
        return NotImplemented
    y = np.matmul(*[x.padded if x is sides[0] else x for x in (a, b)])
    return Selected(choice, y, 0 if sides[0] is a else ndim_of(y) - 1)


def transpose(a: Any, axes: Any = None) -> Any:
    if not isinstance(a, Selected) or a.choice is None or axes is not None:
        return NotImplemented if axes is not None else Traced.T.fget(a)  # type: ignore[attr-defined]
    return Selected(a.choice, np.transpose(a.padded), a.from_end)


RULES: dict[Any, Callable[..., Any]] = {np.dot: matmul, np.matmul: matmul, np.transpose: transpose}


def rule(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare how NumPy's functions treat selected elements; NotImplemented asks for an ordinary array."""

    def enter(run: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(functions, run))
        return run

    return enter


@rule(np.where)
def _where(*args: Any) -> Any:
    return pointwise(np.where, *args) if len(args) == 3 else NotImplemented


@rule(np.clip)
def _clip(*args: Any, **kwargs: Any) -> Any:
    return pointwise(np.clip, *args) if len(args) == 3 and None not in args[1:] and not kwargs else NotImplemented


# -- reductions -------------------------------------------------------------------------------------------------


def _axes(a: Any, axis: Any) -> Shape | None:
    """The axes that are reduced, if a is selected and they are plain integers."""
    if not isinstance(a, Selected) or a.choice is None:
        return None
    return canonical_axes(axis, ndim_of(a.padded))


def _beside(a: Selected, y: Value, axes: Shape, keepdims: Any) -> Selected:
    """A reduction over other axes than that of the chosen elements."""
    assert a.choice is not None
    return Selected(a.choice, y, a.axis if keepdims is True else a.axis - sum(i < a.axis for i in axes))


def _reduction(function: Callable[..., Any]) -> None:
    """A reduction that takes `where`."""

    @rule(function)
    def reduced(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        axes = _axes(a, axis)
        if axes is None or args or not options.keys() <= {"dtype", "keepdims", "ddof", "out"} or options.get("out") is not None:
            return NotImplemented
        if a.axis not in axes:
            return _beside(a, function(a.padded, axis=axes, **options), axes, options.get("keepdims"))
        return function(a.padded, axis=axes, where=a.valid(), **options)


for _function in (np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all):
    _reduction(_function)


def _extremum(function: Callable[..., Any], sign: int, is_index: bool = False) -> None:
    """A maximum or minimum, or its place. One that equals what fills the padding may be tied with it: NumPy is asked."""

    @rule(function)
    def reduced(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *args: Any, **options: Any) -> Any:
        axes = _axes(a, axis)
        if axes is None or out is not None or args or options or dtype_of(a.padded).kind not in "fiub":
            return NotImplemented
        if is_index and (ndim_of(a.padded) > 1 or keepdims):
            return NotImplemented
        how = {"axis": 0} if is_index else {"axis": axes, "keepdims": keepdims}
        if a.axis not in axes:
            return _beside(a, function(a.padded, **how), axes, keepdims)
        fill = _last(dtype_of(a.padded), sign)
        y = function(a.with_fill(fill), **how)
        if is_index:
            return y
        return y if bool(np.all(np.not_equal(y, fill))) else NotImplemented


def _last(dtype: np.dtype[Any], sign: int) -> Any:
    if dtype.kind == "f":
        return dtype.type(sign * np.inf)
    if dtype.kind == "b":
        return np.bool_(sign > 0)
    return dtype.type(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)


_extremum(np.max, -1)
_extremum(np.min, 1)
_extremum(np.argmax, -1, is_index=True)
_extremum(np.argmin, 1, is_index=True)


@rule(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if _axes(x, None) != (0,) or ord not in (None, 2) or axis not in (None, 0, -1) or keepdims:
        return NotImplemented
    return np.linalg.norm(x.with_fill(0))


def _running(function: Callable[..., Any]) -> None:
    @rule(function)
    def run(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        if args or options or _axes(a, axis) != (0,) or ndim_of(a.padded) > 1:
            return NotImplemented
        return Selected(a.choice, function(a.padded), 0)


_running(np.cumsum)
_running(np.cumprod)

_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_or: np.any, np.logical_and: np.all,
}  # fmt: skip


# -- operators and methods --------------------------------------------------------------------------------------


def _binary(name: str, function: Callable[..., Any]) -> None:
    def run(self: Selected, other: Any, *, back: bool = False) -> Any:
        args = (other, self) if back else (self, other)
        return matmul(*args) if name == "matmul" else pointwise(function, *args)

    def method(self: Selected, other: Any) -> Any:
        y = run(self, other)
        return getattr(Traced, f"__{name}__")(self, other) if y is NotImplemented else y

    def reflected(self: Selected, other: Any) -> Any:
        y = NotImplemented if self.is_materialized else run(self, other, back=True)
        if y is NotImplemented and not self.is_materialized:
            self.materialize()
        return getattr(Traced, f"__r{name}__")(self, other) if y is NotImplemented else y

    def inplace(self: Selected, other: Any) -> Any:
        y = NotImplemented if self.is_materialized else run(self, other)
        if y is NotImplemented or dtype_of(y) != dtype_of(self) or shape_of(y.padded) != shape_of(self.padded):
            return getattr(Traced, f"__i{name}__")(self, other)
        self.padded = y.padded
        return self

    setattr(Selected, f"__{name}__", method)
    if name in REFLECTED:
        setattr(Selected, f"__r{name}__", reflected)
        setattr(Selected, f"__i{name}__", inplace)


def _unary(name: str, function: Callable[..., Any]) -> None:
    def method(self: Selected) -> Any:
        y = pointwise(function, self)
        return getattr(Traced, f"__{name}__")(self) if y is NotImplemented else y

    setattr(Selected, f"__{name}__", method)


def _method(name: str) -> None:
    function = getattr(np, name)

    def method(self: Selected, *args: Any, **kwargs: Any) -> Any:
        y = RULES[function](self, *args, **kwargs)
        return FUNCTIONS[function](self, *args, **kwargs) if y is NotImplemented else y

    setattr(Selected, name, method)


REFLECTED = frozenset(["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"])
_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
for _name in REFLECTED | _COMPARISONS:
    _binary(_name, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
Selected.__hash__ = Traced.__hash__  # type: ignore[method-assign]
for _name in ("neg", "pos", "abs", "invert"):
    _unary(_name, getattr(operator, _name))
for _name in ("sum", "prod", "mean", "var", "std", "any", "all", "max", "min", "argmax", "argmin", "cumsum", "cumprod", "dot"):
    _method(_name)


# -- results of programs ----------------------------------------------------------------------------------------


class Trimmed:
    """Selected elements as a result of a program: the padded array and the count, from which each call cuts its result."""

    def __init__(self, selected: Selected) -> None:
        assert selected.choice is not None
        self.padded, self.count, self.axis = selected.padded, selected.choice.count, selected.axis


def _open(x: Trimmed) -> OpenContainer:
    before = (slice(None),) * x.axis

    def cut(parts: list[Any]) -> Any:
        y = parts[0][(*before, slice(0, int(parts[1])))]
        return y.copy() if isinstance(y, np.ndarray) else y

    return OpenContainer(Trimmed, ["", " (count)"], [x.padded, x.count], cut, None, x.axis)


register_opener(Trimmed, _open)


def trimmed(y: Any) -> Any:
    """A leaf of the result of a program: selected elements as a container of the padded array and the count."""
    return Trimmed(y) if isinstance(y, Selected) and y.choice is not None and not y.is_materialized else snapshot(y)
