"""Arrays made inside a differentiated function, ready to have traced values written into them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, depth, fresh, is_staged, is_tracking, snapshot, variables
from ..core.errors import ConversionError, UnsupportedError
from ..core.types import REPLACED, dtype_of, ndim_of, shape_of
from .dropin import in_place_of
from .layout import copied, held, laid_out, stand_in
from .shape import astype
from .table import given_array, holds_traced, implements, is_whole, lift
from .views import view
from .ways import Same, as_array, shares

_asarray = np.asarray
_array = np.array  # bound here: outside any transform `array` costs little more than NumPy's


def trackable(
    function: Callable[..., Any], tracked: Callable[..., Any] | None = None, takes_sizes: bool = True
) -> Callable[..., Any]:
    """A NumPy function that makes a new array; inside a transform its result can hold traced values.

    There it is made by `tracked`: a graph must not hold whatever happens to be in memory. A traced size becomes a known number.
    """
    tracked = tracked or function

    @in_place_of(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        if kwargs and "dtype" in kwargs:
            kwargs["dtype"] = REPLACED.get(id(kwargs["dtype"]), kwargs["dtype"])
        if not variables and not depth.get():
            return function(*args, **kwargs)
        return fresh(tracked(*[_known(x) if takes_sizes and is_whole(x) else x for x in args], **kwargs))

    return make


def _known(x: Any) -> Any:
    """The number of a traced whole number, with its dtype."""
    number = operator.index(x)
    return number if class_of(x) is int else dtype_of(x).type(number)


@functools.cache  # so that np.concat is np.concatenate
def copying(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes an array from others; inside a transform its result can hold traced values, unless it is a view."""

    original = getattr(function, "__wrapped__", function)

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        if not variables and not depth.get():
            try:
                return original(*args, **kwargs)
            except (ConversionError, UnsupportedError) as error:  # a list of values that were traced in another thread
                error.mark_handled()
                return function(*args, **kwargs)
        y = function(*args, **kwargs)
        if type(y) is not np.ndarray:
            return y
        given = [a for x in (*args, *kwargs.values()) for a in (x if isinstance(x, (list, tuple)) else (x,))]
        return y if any(isinstance(a, np.ndarray) and np.may_share_memory(a, y) for a in given) else fresh(y)

    return make


def _like(make: Callable[..., Any], a: Any, dtype: Any, order: Any, shape: Any) -> Any:
    """A new array made by NumPy's function from one with the memory layout of a."""
    a = lift(a)
    y = fresh(make(stand_in(a), dtype=dtype, order=order, shape=shape))
    if is_staged(a) and isinstance(y, Traced) and ndim_of(y) > 1:
        y.memory_layout = y.underlying.strides  # it keeps them when it is overwritten by a value that is being written down
    return y


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return _like(np.zeros_like, a, dtype, order, shape)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return _like(np.ones_like, a, dtype, order, shape)


@implements(np.empty_like)
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """Zeros: a graph must not hold whatever happens to be in memory."""
    return _like(np.zeros_like, prototype, dtype, order, shape)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    result = _like(np.zeros_like, a, dtype, order, shape)
    value = lift(fill_value)
    # NumPy converts whatever is given, as astype does; but a whole number of Python's must fit.
    result[...] = fill_value if isinstance(value, Traced) or type(fill_value) is int else np.asarray(value).astype(result.dtype)
    return result


def array(*args: Any, **options: Any) -> Any:
    """`numpy.array`, also of (nested lists of) traced values."""
    tracking = variables or depth.get()
    if "dtype" in options:
        options["dtype"] = REPLACED.get(id(options["dtype"]), options["dtype"])
    if tracking and args and (isinstance(args[0], Traced) or (type(args[0]) is list and _shows_traced(args[0]))):
        return _array_of_traced(*args, **options)
    try:
        y = _array(*args, **options)
    except (ConversionError, UnsupportedError) as error:  # a traced value somewhere inside
        error.mark_handled()
        return _array_of_traced(*args, **options)
    except ValueError:
        if not args or given_array(args[0]) is None:
            raise
        return _array_of_traced(*args, **options)
    if not tracking:
        return y
    is_view = bool(args) and isinstance(args[0], np.ndarray) and np.may_share_memory(y, args[0])  # copy=None
    return y if is_view else fresh(y)


def _shows_traced(items: list[Any]) -> bool:
    """Whether a short list, or a list in it, has a traced item. Others are found when NumPy refuses them, which is slower."""
    if len(items) > 32:
        return False
    for x in items:  # noqa: SIM110 - any() of a generator takes three times as long
        if isinstance(x, Traced) or (type(x) is list and _shows_traced(x)):
            return True
    return False


#: The values of NumPy's enumeration, which cannot be asked whether they are true.
_COPIES = {mode: {0: False, 1: True, 2: None}[mode.value] for mode in type(np._CopyMode.ALWAYS)}


def _array_of_traced(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, like: Any = None
) -> Any:
    value = as_array(lift(object))
    order, copy = order or "K", _COPIES.get(copy, copy)
    is_new = value is not object
    if dtype is not None and np.dtype(dtype) != dtype_of(value):
        value, is_new = astype(value, dtype), True
    if copy or is_new:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        value = held(value) if not isinstance(object, Traced) and order == "K" else value  # lists are row-major
        value = copied(value, order) if isinstance(value, Traced) else value
    elif order in ("C", "F"):
        given = value
        value = same_or_copy(given, lambda memory: np.array(memory, copy=None, order=order))
        if copy is False and value is not given:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
    if ndmin > ndim_of(value):
        return np.reshape(value, (1,) * (ndmin - ndim_of(value)) + shape_of(value))
    return value


def same_or_copy(x: Any, ask: Callable[[Any], Any]) -> Any:
    """x, or a copy of it where NumPy makes one. For a staged value, this is decided when something is written in place."""
    if is_staged(x):
        return view(x, Same(ask))
    whole = stand_in(x)
    part = ask(whole)
    return x if shares(part, whole) else laid_out(snapshot(x), part.strides)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None
) -> Any:
    """`numpy.asarray`, also of traced values."""
    if dtype is not None:
        dtype = REPLACED.get(id(dtype), dtype)
    if type(a) is np.ndarray:
        y = _asarray(a, dtype, order, copy=copy) if copy is not None else _asarray(a, dtype, order)
        if y is a:
            return y
        # An array that owns its memory may become traced; one that shares the user's memory must stay plain.
        return fresh(y) if y.base is None and is_tracking() else y
    if isinstance(a, Traced) or holds_traced(a):
        return _array_of_traced(a, dtype, copy=copy, order=order)
    y = _asarray(a, dtype, order, copy=copy)
    return fresh(y) if is_tracking() and (copy or not isinstance(a, (np.ndarray, np.generic))) else y
