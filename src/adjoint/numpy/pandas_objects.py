"""pandas' Series and DataFrame of traced arrays: an extension array holds the traced one, index and names are pandas' own.

Reductions skip nan as pandas does. Functions that pandas computes in compiled code (rolling windows, quantiles) raise our error,
through `__array__`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from ..core.bind import Traced, fresh
from ..core.errors import ConversionError, UnsupportedError
from ..core.tree import OpenContainer, Static, register_opener
from ..core.types import dtype_of, shape_of
from .table import FUNCTIONS, lift

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


_LABELS = (
    "{} of a traced Series: groups, keys and distinct values are plain numbers; "
    "group by a plain array, or by ad.stop_gradient(s.to_numpy())"
)


class TracedDtype(ExtensionDtype):
    """The dtype of a column that holds a traced array; `numpy` is that of its numbers."""

    name = "traced"
    na_value = np.nan
    _is_numeric = True
    _metadata = ("numpy",)

    def __init__(self, numpy: Any = np.float64) -> None:
        self.numpy = np.dtype(numpy)

    @property
    def type(self) -> Any:
        """The class of a number, by which `select_dtypes` selects columns."""
        return self.numpy.type

    @property
    def kind(self) -> str:
        return self.numpy.kind

    @property
    def index_class(self) -> Any:
        """The class of an index of such numbers, which would be looked up by equality: there is none."""
        raise ConversionError(_LABELS.format("an index or a key"))

    @classmethod
    def construct_array_type(cls) -> Any:
        return TracedArray

    def _get_common_dtype(self, dtypes: Any) -> Any:
        plain = [d.numpy if isinstance(d, TracedDtype) else d for d in dtypes]
        return TracedDtype(np.result_type(*plain)) if all(d.kind in "biufc" for d in plain) else None


class TracedArray(ExtensionArray):
    """A one-dimensional traced array, as a column of pandas."""

    __array_priority__ = 2000.0

    def __init__(self, value: Any) -> None:
        self.value = value

    # -- what pandas asks of a column --

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> TracedArray:
        value = _values(scalars)
        return cls(value.astype(dtype.numpy) if isinstance(dtype, TracedDtype) and dtype_of(value) != dtype.numpy else value)

    @classmethod
    def _concat_same_type(cls, to_concat: Any) -> TracedArray:
        return cls(FUNCTIONS[np.concatenate]([x.value for x in to_concat]))

    @classmethod
    def _empty(cls, shape: Any, dtype: Any) -> TracedArray:
        return cls(fresh(np.full(shape, np.nan, dtype.numpy)))

    @property
    def dtype(self) -> Any:
        return TracedDtype(dtype_of(self.value))

    @property
    def nbytes(self) -> int:
        return dtype_of(self.value).itemsize * len(self)

    def __len__(self) -> int:
        return shape_of(self.value)[0]

    def __getitem__(self, item: Any) -> Any:
        item = pd.api.indexers.check_array_indexer(self, item)
        part = self.value[item]
        return TracedArray(part) if len(shape_of(part)) else part

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value[pd.api.indexers.check_array_indexer(self, key)] = _values(value)

    def isna(self) -> Any:
        return _plain(np.isnan(self.value))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> TracedArray:
        places = np.asarray(indices)
        if not allow_fill:
            return TracedArray(self.value[places])
        missing = np.nan if fill_value is None or fill_value is pd.NA else fill_value
        if not len(self):
            return TracedArray(fresh(np.full(places.shape, missing)))
        return TracedArray(FUNCTIONS[np.where](places < 0, missing, self.value[places]))

    def copy(self) -> TracedArray:
        return TracedArray(self.value.copy())

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        wanted = dtype.numpy if isinstance(dtype, TracedDtype) else dtype
        if pd.api.types.is_float_dtype(wanted) or pd.api.types.is_complex_dtype(wanted):
            if np.dtype(wanted) != dtype_of(self.value):
                return TracedArray(self.value.astype(wanted))
            return self.copy() if copy else self
        return super().astype(dtype, copy=copy)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> Any:
        return self.value if dtype is None or np.dtype(dtype) == object else self.value.astype(dtype)

    def map(self, mapper: Any, na_action: Any = None) -> TracedArray:
        function = mapper if callable(mapper) else mapper.__getitem__
        return TracedArray(lift([function(x) for x in self.value]))

    def argsort(self, *, ascending: bool = True, kind: Any = "quicksort", na_position: str = "last", **options: Any) -> Any:
        if self.isna().any():
            raise UnsupportedError("a traced Series with missing values cannot be sorted; use dropna() first")
        return _plain(FUNCTIONS[np.argsort](self.value if ascending else -self.value, kind="stable"))

    def _pad_or_backfill(self, *, method: str, **options: Any) -> TracedArray:
        if self.isna().any():
            raise UnsupportedError(f"{method} of a traced Series with missing values is not supported; use fillna(value)")
        return self.copy()

    def fillna(self, value: Any = None, *args: Any, **options: Any) -> TracedArray:
        return TracedArray(FUNCTIONS[np.where](np.isnan(self.value), value, self.value))

    def interpolate(self, **options: Any) -> TracedArray:
        return self._pad_or_backfill(method="interpolate")

    def round(self, decimals: int = 0, *args: Any, **options: Any) -> TracedArray:
        return TracedArray(FUNCTIONS[np.round](self.value, decimals))

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return str

    # -- reductions --

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **options: Any) -> Any:
        y = _reduced(name, self.value, 0, skipna, options)
        return TracedArray(FUNCTIONS[np.reshape](lift(y), (1,))) if keepdims else y

    def _groupby_op(self, *, how: str, has_dropped_na: bool, min_count: int, ngroups: int, ids: Any, **options: Any) -> Any:
        parts = [_reduced(how, self.value[ids == i], 0, True, options) for i in range(ngroups)]
        return TracedArray(lift(parts))

    def _accumulate(self, name: str, *, skipna: bool = True, **options: Any) -> TracedArray:
        function = {"cumsum": np.nancumsum, "cumprod": np.nancumprod}.get(name)
        if function is None:
            raise UnsupportedError(f"{name} of a traced Series is not supported; use np.{name} of .to_numpy() where it exists")
        missing = np.isnan(self.value)
        return TracedArray(FUNCTIONS[np.where](missing, np.nan, function(self.value)))

    # -- NumPy's protocols, and Python's operators --

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if dtype is None or np.dtype(dtype) != object:
            return np.asarray(self.value, dtype)  # raises our error
        objects = np.empty(len(self), object)
        for i, x in enumerate(self.value):
            objects[i] = x
        return objects

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(x, (pd.Series, pd.DataFrame, pd.Index)) for x in inputs):
            return NotImplemented
        return _wrapped(getattr(ufunc, method)(*map(operand, inputs), **options), len(self))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _called(function, args, options)


def _column_operator(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)

    def run(self: TracedArray, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        return _wrapped(function(self.value, operand(other)), len(self))

    return run


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: _wrapped(function(operand(other), self.value), len(self))


def _pair(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator with two results."""
    return lambda self, other: tuple(_wrapped(y, len(self)) for y in function(self.value, operand(other)))


def _by_equality(name: str) -> Callable[..., Any]:
    """A method that tells numbers apart. Groups and keys are labels, and labels have no derivative."""

    def refuse(self: Any, *args: Any, **options: Any) -> Any:
        raise ConversionError(_LABELS.format(name))  # a TypeError: pandas would replace the text of a NotImplementedError

    return refuse


for _name in ("factorize", "unique", "value_counts", "duplicated"):
    setattr(TracedArray, _name, _by_equality(_name))
for _name, _shown in {"_values_for_factorize": "grouping or joining by the numbers", "_mode": "mode"}.items():
    setattr(TracedArray, _name, _by_equality(_shown))
for _name in (*_OPERATORS, *_COMPARISONS):
    setattr(TracedArray, f"__{_name}__", _column_operator(_name))
for _name in _OPERATORS:
    setattr(TracedArray, f"__r{_name}__", _reflected(getattr(operator, _name)))
TracedArray.__divmod__ = _pair(divmod)
TracedArray.__rdivmod__ = _pair(lambda a, b: divmod(b, a))
for _name, _function in {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs}.items():
    setattr(TracedArray, f"__{_name}__", lambda self, function=_function: TracedArray(function(self.value)))


class TracedSeries(pd.Series):
    """A Series with a traced column: NumPy's functions take it, as they take an array."""

    def __init__(self, data: Any = None, *args: Any, **options: Any) -> None:
        super().__init__(TracedArray(data) if isinstance(data, Traced) else data, *args, **options)

    @property
    def _constructor(self) -> Any:
        return TracedSeries

    @property
    def _constructor_expanddim(self) -> Any:
        return TracedFrame

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _called(function, args, options)


def _called(function: Any, args: Any, options: Any) -> Any:
    """A function of NumPy, of the arrays."""
    return function(*_operands(args), **{key: _operands(x) for key, x in options.items()})


def _operands(x: Any) -> Any:
    return type(x)(map(_operands, x)) if type(x) in (list, tuple) else operand(x)


def _series(y: Any, index: Any, name: Any = None) -> Any:
    """A Series of a traced array, or of a plain one."""
    if isinstance(y, Traced) and dtype_of(y).kind in "fc":
        return TracedSeries(TracedArray(y), index=index, name=name)
    return pd.Series(_plain(y), index=index, name=name)


def _wrapped(y: Any, length: int) -> Any:
    """A result as a column: comparisons are plain, numbers are traced."""
    if not isinstance(y, Traced) or shape_of(y) != (length,):
        return y
    return TracedArray(y) if dtype_of(y).kind in "fc" else _plain(y)


def _plain(condition: Any) -> Any:
    """A condition on traced values, or an order of them, by its numbers: pandas selects rows with it."""
    while isinstance(condition, Traced):
        condition = condition.by.concrete(condition, "the choice of elements by")
    return np.asarray(condition)


def _values(x: Any) -> Any:
    return operand(list(x) if isinstance(x, (pd.Series, pd.Index, np.ndarray)) and x.dtype == object else x)


def operand(x: Any) -> Any:
    """What NumPy's functions take in place of an object of pandas."""
    if isinstance(x, TracedArray):
        return x.value
    if isinstance(x, (pd.Series, pd.DataFrame, pd.Index, ExtensionArray)):
        return x.to_numpy()
    return lift(x) if isinstance(x, (list, tuple)) else x


_SKIPPING: dict[str, Callable[..., Any]] = {
    "sum": np.nansum, "prod": np.nanprod, "mean": np.nanmean, "min": np.nanmin, "max": np.nanmax, "median": np.nanmedian,
    "var": np.nanvar, "std": np.nanstd,
}  # fmt: skip
_ALL: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in _SKIPPING}


def _reduced(name: str, value: Any, axis: int, skipna: bool, options: dict[str, Any]) -> Any:
    """A reduction as pandas defines it: nan is skipped, and deviations divide by n - 1."""
    given = {key: x for key, x in options.items() if key in ("ddof",)}
    if name in ("var", "std"):
        given.setdefault("ddof", 1)
    if name == "sem":
        counted = np.sum(~_plain(np.isnan(value)), axis=axis)
        return _reduced("std", value, axis, skipna, options) / np.sqrt(counted)
    if name in ("any", "all"):
        return getattr(np, name)(_plain(np.nan_to_num(value) if skipna else value), axis=axis)
    if name not in _ALL:
        raise UnsupportedError(f"{name} of a traced Series or DataFrame is not supported; compute it from .to_numpy()")
    return FUNCTIONS[(_SKIPPING if skipna else _ALL)[name]](value, axis=axis, **given)


# -- frames ---------------------------------------------------------------------------------------------------------


class TracedFrame(pd.DataFrame):
    """A DataFrame with traced columns. Reductions, products and `.to_numpy()` work on the whole array."""

    @property
    def _constructor(self) -> Any:
        return TracedFrame

    @property
    def _constructor_sliced(self) -> Any:
        return TracedSeries

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _called(function, args, options)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> Any:
        columns = [self.iloc[:, i].to_numpy() for i in range(self.shape[1])]
        if not any(isinstance(column, Traced) for column in columns):
            return super().to_numpy(dtype=dtype, copy=copy)
        y = FUNCTIONS[np.stack](columns, axis=1)
        return y if dtype is None else y.astype(dtype)

    @property
    def values(self) -> Any:
        return self.to_numpy()

    def apply(self, func: Any, axis: Any = 0, raw: bool = False, result_type: Any = None, args: Any = (), **options: Any) -> Any:
        """A function of each column or row that gives a number: pandas would look for the dtype of the results."""
        if not callable(func) or raw or result_type is not None:
            return super().apply(func, axis, raw, result_type, args, **options)
        by_column = self._get_axis_number(axis) == 0
        parts = [self.iloc[:, i] if by_column else self.iloc[i] for i in range(self.shape[1 if by_column else 0])]
        found = [func(part, *args, **options) for part in parts]
        found = [_series(y.value, p.index) if isinstance(y, TracedArray) else y for y, p in zip(found, parts, strict=True)]
        labels = self.columns if by_column else self.index
        if any(isinstance(y, pd.Series) for y in found):
            joined = pd.concat(found, axis=1, keys=labels)
            return joined if by_column else joined.T
        return _series(lift(found), labels) if any(isinstance(y, Traced) for y in found) else pd.Series(found, index=labels)

    def dot(self, other: Any) -> Any:
        return self @ other

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _product(other, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return getattr(ufunc, method)(*map(operand, inputs), **options)
        labelled = [x for x in inputs if isinstance(x, (pd.Series, pd.DataFrame))]
        for x in labelled:
            if not (isinstance(x, pd.DataFrame) and x.index.equals(self.index) and x.columns.equals(self.columns)):
                raise UnsupportedError(f"np.{ufunc.__name__} of objects with other labels than the traced DataFrame; align them")
        return _framed(ufunc(*map(operand, inputs)), self.index, self.columns)


_BY_COLUMN = int(pd.__version__.partition(".")[0]) < 3  # axis=None means 0 in some reductions of older versions
_SUMS = ("sum", "prod", "var", "std", "sem")


def _over_frame(name: str) -> Any:
    plain = getattr(pd.DataFrame, name)

    @functools.wraps(plain)
    def reduce(self: Any, axis: Any = 0, skipna: bool = True, **options: Any) -> Any:
        value = self.to_numpy()
        if not isinstance(value, Traced):
            return plain(self, axis=axis, skipna=skipna, **options)
        if axis is None and not (_BY_COLUMN and name in _SUMS):
            return _reduced(name, value.reshape(-1), 0, skipna, options)
        number = self._get_axis_number(axis or 0)
        y = _reduced(name, value, number, skipna, options)
        return _series(y, self.columns if number == 0 else self.index)

    return reduce


for _cls in (TracedSeries, TracedFrame):
    _cls.__module__ = "pandas"  # whose objects they are to the rest of this package
for _name in (*_ALL, "sem"):
    setattr(TracedFrame, _name, _over_frame(_name))


def _first(cls: type, name: str) -> Any:
    """An operator of pandas as one of the subclass, which Python calls before that of a plain object on the left."""
    plain = getattr(cls, name)
    return functools.wraps(plain)(lambda self, other: plain(self, other))


for _name in _OPERATORS:
    setattr(TracedSeries, f"__r{_name}__", _first(pd.Series, f"__r{_name}__"))
    setattr(TracedFrame, f"__r{_name}__", _first(pd.DataFrame, f"__r{_name}__"))


def _product(a: Any, b: Any) -> Any:
    """A matrix product: the inner labels must agree, the outer ones are kept."""
    inner = a.columns if isinstance(a, pd.DataFrame) else getattr(a, "index", None)
    theirs = getattr(b, "index", None)
    if inner is not None and theirs is not None and not inner.equals(theirs):
        raise ValueError("matrices are not aligned")
    y = operand(a) @ operand(b)
    rows = a.index if isinstance(a, pd.DataFrame) else None
    columns = b.columns if isinstance(b, pd.DataFrame) else None
    if len(shape_of(y)) == 2:
        return _framed(y, rows, columns)
    return y if rows is None and columns is None else _series(y, rows if rows is not None else columns)


def _framed(y: Any, index: Any, columns: Any) -> Any:
    if not isinstance(y, Traced) or dtype_of(y).kind not in "fc":
        return pd.DataFrame(_plain(y), index=index, columns=columns)
    made = TracedFrame({i: TracedArray(y[:, i]) for i in range(shape_of(y)[1])}, index=index)
    if columns is not None:
        made.columns = columns
    return made


# -- containers -----------------------------------------------------------------------------------------------------


class _Labels:
    """The index and names of an object, and the columns that hold no floats."""

    def __init__(self, axes: Sequence[Any], name: Any, rest: Any = None) -> None:
        self.axes, self.name, self.rest = axes, name, rest

    def __hash__(self) -> int:
        return hash((tuple(map(len, self.axes)), str(self.name)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Labels) or len(self.axes) != len(other.axes) or self.name != other.name:
            return False
        same = all(a.identical(b) for a, b in zip(self.axes, other.axes, strict=True))
        return same and (self.rest is other.rest or (self.rest is not None and self.rest.equals(other.rest)))


def _open_series(s: Any) -> OpenContainer:
    value = s.array.value if isinstance(s.array, TracedArray) else s.to_numpy()
    labels = _Labels([s.index], s.name)

    def build(parts: list[Any]) -> Any:
        (part,) = parts
        if shape_of_part(part) != (len(labels.axes[0]),):
            return part
        return _series(part, labels.axes[0], labels.name)

    return OpenContainer(pd.Series, [""], [value], build, None, Static(labels))


def _open_frame(df: Any) -> OpenContainer:
    is_float = [isinstance(d, TracedDtype) or (isinstance(d, np.dtype) and d.kind in "fc") for d in df.dtypes]
    places = [i for i, flag in enumerate(is_float) if flag] or list(range(df.shape[1]))
    others = [i for i in range(df.shape[1]) if i not in places]
    chosen = df.iloc[:, places]
    value = chosen.to_numpy()
    labels = _Labels([df.index, df.columns], None, df.iloc[:, others].copy() if others else None)

    def build(parts: list[Any]) -> Any:
        (part,) = parts
        index, columns = labels.axes
        if shape_of_part(part) != (len(index), len(places)):
            return part
        made: dict[int, Any] = {i: part[:, k] for k, i in enumerate(places)}
        if isinstance(part, Traced):
            made = {i: TracedArray(column) for i, column in made.items()}
        elif labels.rest is None:
            return pd.DataFrame(part, index=index, columns=columns)
        made |= {i: labels.rest.iloc[:, k].array for k, i in enumerate(others)} if labels.rest is not None else {}
        cls = TracedFrame if isinstance(part, Traced) else pd.DataFrame
        frame = cls({i: made[i] for i in sorted(made)}, index=index)
        frame.columns = columns
        return frame

    return OpenContainer(pd.DataFrame, [""], [value], build, None, Static(labels))


def shape_of_part(part: Any) -> Any:
    return shape_of(part) if isinstance(part, (np.ndarray, np.generic, Traced, float, int)) else getattr(part, "shape", None)


def operate(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """An operator between an object of pandas and a traced value, element by element as NumPy broadcasts."""
    x = a if isinstance(a, (pd.Series, pd.DataFrame, pd.Index)) else b
    if function is operator.matmul:
        return _product(a, b)
    y = function(operand(a), operand(b))
    if shape_of(y) != x.shape:
        raise ValueError(f"operands of shapes {x.shape} and {shape_of(b if x is a else a)} do not match")
    if isinstance(x, pd.DataFrame):
        return _framed(y, x.index, x.columns)
    return _series(y, x.index, x.name) if isinstance(x, pd.Series) else y


def register() -> None:
    for cls in (pd.Series, TracedSeries):
        register_opener(cls, _open_series)
    for cls in (pd.DataFrame, TracedFrame):
        register_opener(cls, _open_frame)
