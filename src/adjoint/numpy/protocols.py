"""Operators, methods and NumPy's two protocols for traced values, so that plain `numpy` works on them.

Everything here is installed on `core.bind.Traced`, which is independent of NumPy's API.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from ..core.bind import FRESH, Traced, bind, class_of, is_tracking
from ..core.errors import (
    AttributeMissingError,
    ConversionError,
    UnsupportedError,
    calling_frame,
    is_written_by_user,
    user_frame,
)
from ..core.home import is_adopted
from ..core.op import OPS, Elementwise, Op
from ..core.types import Shape
from ..eager.batch import Batch
from ..eager.record import quicken, recorder
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import integer
from ..ops.linalg import matmul
from ..staging.guard import OPERATOR_MODULES, PYTHON_NUMBERS, Guarded, strengthened
from ..staging.python import OPERATORS
from .caller import advice, call_of, is_cached, is_printed, is_shown, reads_entry
from .concrete import primal, primals
from .create import same_or_copy
from .elementwise import absolute, divmod_, power
from .layout import copied, in_order
from .mutate import Flat, partition_in_place, sort_in_place
from .shape import with_imag, with_real
from .standard import VERSIONS
from .standin import Sought, of_arrays
from .table import FUNCTIONS, REFUSED, REMEDY, find_ufunc, is_array_like, is_scipy, lift, without_class
from .ufunc import METHODS, call_with_options
from .views import inplace, read, write

_NUMBERS = (Traced, np.generic, float, int, complex)

# -- attributes -------------------------------------------------------------------------------------------------


def _shape(self: Traced) -> Shape:
    return self.by.shape(self)


def _dtype(self: Traced) -> np.dtype[Any]:
    return self.by.dtype(self)


def _size(self: Traced) -> int:
    n = 1
    for d in self.shape:  # type: ignore[attr-defined]
        n *= d
    return n


def _array_namespace(self: Traced, /, *, api_version: str | None = None) -> Any:
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"the Array API of version {api_version!r} is not supported; {VERSIONS[-1]} is")
    return sys.modules[__package__]


def _to_device(self: Traced, device: Any, /, *, stream: Any = None) -> Traced:
    if device != "cpu":
        raise ValueError(f"the device of a traced value is 'cpu', not {device!r}")
    if stream is not None:
        raise ValueError("there are no streams on the device 'cpu'")
    return self


# -- operators --------------------------------------------------------------------------------------------------


def _operand(x: Any) -> Any:
    """The other operand of an operator, or NotImplemented if NumPy would not accept it."""
    if type(x) is np.ndarray or isinstance(x, _NUMBERS):
        return x
    if isinstance(x, np.ndarray):
        return without_class(x)
    return lift(x) if is_array_like(x) else NotImplemented


def _operator(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on operands of which at least one is traced."""
    run = functools.partial(bind, op) if isinstance(op, Op) else op
    converts = name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod")
    may_raise = name in ("truediv", "pow")

    def unary(a: Traced) -> Any:
        return a.by.operate(name, run, (a,)) if isinstance(a.by, Guarded) and a.by.light else run(a)

    def general(a: Any, b: Any) -> Any:
        if type(b) is Fraction and converts and class_of(a) in (float, complex):
            b = class_of(a)(b)  # Fraction.__radd__ would do so with both
        a, b = _operand(a), _operand(b)
        if a is NotImplemented or b is NotImplemented:
            return NotImplemented
        by = a.by if isinstance(a, Traced) else b.by
        if isinstance(by, Guarded):
            return by.operate(name, run, (a, b)) if by.light else run(a, b)
        y = run(a, b)
        if may_raise:
            _raise_as_python(name, y, a, b)
        return y

    return unary if name in _UNARY else general


def _raise_as_python(name: str, y: Any, a: Any, b: Any) -> None:
    """Raise what Python raises for an operator between its own numbers, where the op gives NumPy's result: inf or nan.

    A program that is staged beneath the trace gets the condition under which nothing is raised.
    """
    while isinstance(y, Traced) and y.by.has_numbers:
        y = y.value
    if isinstance(y, Traced):
        if isinstance(y.by, Guarded) and y.by.light:
            y.by.operate(name, lambda *_: y, (_beneath(a), _beneath(b)))
    elif type(y) in _OF_NUMPY and class_of(a) in PYTHON_NUMBERS and class_of(b) in PYTHON_NUMBERS and _is_users():
        OPERATORS[name](primal(a), primal(b))


def _divide(a: Any, b: Any) -> Any:
    """The operator `/` on plain numbers beneath a tape."""
    try:
        return a / b
    except ZeroDivisionError:
        if _is_users():
            raise
        return np.true_divide(a, b)


def _beneath(x: Any) -> Any:
    """The staged value beneath a traced one."""
    while isinstance(x, Traced) and x.by.has_numbers:
        x = x.value
    return x


def _is_users() -> bool:
    return is_written_by_user(OPERATOR_MODULES, "adjoint.compiler.jit")


_OF_NUMPY = (np.float64, np.complex128)


def _install_operators() -> None:
    for name, unary in _UNARY.items():
        setattr(Traced, f"__{name}__", _operator(name, unary))
    for name, comparison in _COMPARISON.items():
        setattr(Traced, f"__{name}__", _operator(name, comparison))
    for name, op in _BINARY.items():
        _install_binary(name, _operator(name, op))
    # The rules that a recorder is made from are written with operators, so those come first.
    for name, op in _BINARY.items():
        if isinstance(op, Elementwise):
            _install_binary(name, recorder(op, _operator(name, op), name, _divide if name == "truediv" else None))


def _install_binary(name: str, run: Callable[[Any, Any], Any]) -> None:
    setattr(Traced, f"__{name}__", run)
    setattr(Traced, f"__r{name}__", lambda self, other: run(other, self))
    if name != "divmod":
        setattr(Traced, f"__i{name}__", inplace(run))


_BINARY: dict[str, Callable[..., Any]] = {
    "add": ops.add,
    "sub": ops.sub,
    "mul": ops.mul,
    "truediv": ops.div,
    "floordiv": ops.floor_divide,
    "mod": ops.remainder,
    "pow": power,
    "matmul": matmul,
    "divmod": divmod_,
    "and": ops.bitwise_and,
    "or": ops.bitwise_or,
    "xor": ops.bitwise_xor,
    "lshift": integer.left_shift,
    "rshift": integer.right_shift,
}
_COMPARISON = {
    "ne": ops.not_equal,
    "lt": ops.less,
    "le": ops.less_equal,
    "gt": ops.greater,
    "ge": ops.greater_equal,
}
_UNARY: dict[str, Callable[..., Any]] = {"neg": ops.neg, "pos": ops.pos, "abs": absolute, "invert": ops.invert}

# -- becoming plain ---------------------------------------------------------------------------------------------


def _refuse(what: str, instead: str) -> Callable[..., NoReturn]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> NoReturn:
        if not self.by.has_numbers and not isinstance(self.by, Guarded):  # which would record a guard
            self.by.concrete(self, f"{what} of")
        name, better = advice()
        frame, _ = user_frame()
        in_library = frame is not None and is_adopted(frame)
        if in_library and (not better or _ADOPT in better):
            better = _IN_LIBRARY
        short = name if name.startswith("np.") else name.rpartition(".")[2]
        inside = f", in {name}," if name and f"{short}()" not in what else ""
        whose = f"{what} of a value traced by {self.by.name}{inside}"
        if call_of(calling_frame()).kind == "STORE_SUBSCR" and not in_library:
            raise _refuse_write(self, "a plain NumPy array")
        if isinstance(self.by, Guarded):
            raise ConversionError(f"{whose} would be baked into the program; {better or instead}")
        raise ConversionError(
            f"{whose} would lose its derivative; {better or instead}, or use ad.stop_gradient(x) if it is meant to be a constant"
        )

    return method


def _refuse_write(x: Traced, array: str) -> ConversionError:
    """The error of `a[i] = x` for an array that cannot hold x, with what to do in the place where it happens."""
    if is_tracking():
        kind = ", float" if array == "an integer array" else ""
        instead = f"write a = adjoint.numpy.array(a{kind}) first, inside the function: such an array can hold it"
    else:
        instead = (
            f"this thread is not that of {x.by.name}, and adjoint.numpy makes plain arrays in it: start it with "
            "contextvars.copy_context().run, or make the array with np.zeros_like of a traced one"
        )
    return ConversionError(
        f"writing a value traced by {x.by.name} into {array} would lose its derivative; {instead}, {_ADOPT}, or use "
        "ad.stop_gradient(x) if it is meant to be a constant"
    )


_ADOPT = "adopt the function with ad.adopt"
_IN_LIBRARY = (
    "the adopted code passes it to compiled code, or writes it to an array that was made before; make the library's objects "
    "inside the function, or declare a rule with ad.custom_vjp"
)
_WRITTEN = f"make an array that it is written to with `import adjoint.numpy as np`, or {_ADOPT}"
_refuse_float = _refuse("float()", f"use NumPy functions instead of math's, {_WRITTEN}")
_refuse_complex = _refuse("complex()", "use NumPy functions instead of cmath's")
_refuse_int = _refuse("the whole number", f"{_WRITTEN} and a float dtype, write int(x) if an integer is meant")
_refuse_array = _refuse(
    "np.array() or np.asarray()", f"write `import adjoint.numpy as np`, {_ADOPT}, or use np.stack for a list of values"
)
_refuse_item = _refuse("item() or tolist()", "keep the value itself")
_refuse_dlpack = _refuse("the memory", "keep the value itself")


def _float(self: Traced) -> float:
    if self.by.is_plain(self):
        return float(self.value)
    if (self.by.has_numbers or isinstance(self.by, Guarded)) and is_shown(calling_frame()):
        return float(_looked_at(self))
    return _refuse_float(self)


def _complex(self: Traced) -> complex:
    return complex(self.value) if self.by.is_plain(self) else _refuse_complex(self)


def _array(self: Traced, dtype: Any = None, copy: bool | None = None) -> Any:
    if self.by.is_plain(self):
        return np.array(self.value, dtype=dtype, copy=True)
    if isinstance(self.by, Batch) and self.dtype.kind in "iub":  # type: ignore[attr-defined]
        raise ConversionError(
            "integers that differ across a batch cannot become a plain NumPy array, nor index one; write "
            "adjoint.numpy.array(a)[i] inside the function for a[i], or pass a as an argument with in_axes=None"
        )
    return _refuse_array(self)


def _dlpack(self: Traced, **options: Any) -> Any:
    return self.value.__dlpack__(**options) if self.by.is_plain(self) else _refuse_dlpack(self)


def _item(self: Traced, *args: Any) -> Any:
    """In adopted code, the traced number itself."""
    if self.by.is_plain(self):
        return self.value.item(*args)
    if not is_adopted(calling_frame()):
        return _refuse_item(self)
    if not args:
        return self.reshape(())[()]  # type: ignore[attr-defined]
    if len(args) == 1 and not isinstance(args[0], tuple):
        return self.reshape(-1)[args[0]]  # type: ignore[attr-defined]
    return self[args[0] if len(args) == 1 else args]  # type: ignore[index]


def _tolist(self: Traced) -> Any:
    if self.by.is_plain(self):
        return self.value.tolist()
    return _nested(self) if is_adopted(calling_frame()) else _refuse_item(self)


def _nested(x: Any) -> Any:
    return [_nested(part) for part in x] if x.shape else x


def _bool(self: Traced) -> bool:
    return bool(self.by.concrete(self, "the truth of"))


def _int(self: Traced) -> int:
    """`int(x)` is constant almost everywhere. But `integer_array.fill(x)` calls it too, to store the value."""
    number = int(self.by.concrete(self, "int() of"))
    if self.by.is_plain(self) or self.dtype.kind in "iub":  # type: ignore[attr-defined]
        return number
    frame = calling_frame()
    call = call_of(frame)
    if call.function is int or is_shown(frame):
        return number
    if call.kind == "STORE_SUBSCR" or isinstance(getattr(call.function, "__self__", None), np.ndarray):
        raise _refuse_write(self, "an integer array")
    return _refuse_int(self)


def _trunc(self: Traced) -> int:
    return int(self.by.concrete(self, "int() of"))


def _index(self: Traced) -> int:
    number = self.by.concrete(self, "an index from")
    if self.dtype.kind not in "iub":  # type: ignore[attr-defined]
        raise ConversionError(
            f"a value of dtype {self.dtype} traced by {self.by.name} is not an integer; write int(x) for a count or an index"  # type: ignore[attr-defined]
        )
    return operator.index(number)


def _rounded(function: Callable[[Any], Any]) -> Callable[[Traced], Any]:
    """The result of `math.floor` and similar: a Python int, or a value for each example of a batch."""

    def method(self: Traced) -> Any:
        y = function(self)  # first, so that a compiled program depends on the integer only
        return y if isinstance(self.by, Batch) else int(y.by.concrete(y, "int() of") if isinstance(y, Traced) else y)

    return method


def _round_builtin(self: Traced, decimals: int | None = None) -> Any:
    """`round(x)`. Python rounds its numbers exactly, by their decimal digits, which compiled code cannot."""
    cls = class_of(self)
    if cls in (bool, int) and (decimals is None or decimals >= 0):
        return +self  # type: ignore[operator]
    if cls is complex:
        raise TypeError("type complex doesn't define __round__ method")
    if decimals is None:
        return _rounded(ops.rint)(self)
    if cls not in (int, float):
        return FUNCTIONS[np.round](self, decimals)
    if isinstance(self.by, Guarded):
        raise UnsupportedError(f"round(x, {decimals}) of a Python {cls.__name__} cannot be compiled; use np.round")
    return round(primal(self), decimals)


def _is_integer(self: Traced) -> bool:
    if not hasattr(class_of(self), "is_integer"):
        raise AttributeError(f"{class_of(self).__name__!r} object has no attribute 'is_integer'")
    return bool(ops.logical_and(ops.equal(ops.trunc(self), self), ops.isfinite(self)))


# -- the rest of an array ---------------------------------------------------------------------------------------


def _len(self: Traced) -> int:
    shape: Shape = self.shape  # type: ignore[attr-defined]
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


def _iter(self: Traced) -> Iterator[Any]:
    if not self.shape:  # type: ignore[attr-defined]
        if not self.by.has_numbers:
            raise ConversionError(f"iteration over {self!r}, which has no axes")
        raise TypeError("iteration over a 0-d array")
    return (read(self, i) for i in range(len(self)))  # type: ignore[arg-type]


def _contains(self: Traced, item: Any) -> bool:
    return bool(np.any(np.equal(self, item)))  # type: ignore[call-overload]


class _Lookup(threading.local):
    """The last hashed value, and the instruction and frame that hashed it: the comparison that follows is a key lookup."""

    at: tuple[int, int, int] | None = None


_lookup = _Lookup()


def _hash(self: Traced) -> int:
    """A number is hashed by value, as NumPy's scalars are; arrays and symbols by identity.

    In a cache of results, two variables of equal value must be distinct, since each has its own derivative. So a traced number
    never equals another one as a key (`_equal`); as a key of `functools.cache`, which outlives the transform, it does not even
    equal a plain number.
    """
    if self.by.has_identity or self.by.is_array(self) or is_cached():
        return object.__hash__(self)
    key = hash(self.by.concrete(self, "the hash of"))  # of the underlying value, which may be traced as well
    frame = sys._getframe(1)
    _lookup.at = id(self), id(frame), frame.f_lasti
    return key


def _equal(self: Traced, other: Any) -> Any:
    """`==`. As keys, two traced numbers are equal if they are one value of one trace, not if their numbers are.

    A traced and a plain number are equal if their numbers are. But what a dict holds for one is not what it holds for the other:
    a memo's entry for 2.0 has no derivative.
    """
    if _lookup.at is None:  # no traced number was ever a key
        return _compare_equal(self, other)
    frame = sys._getframe(1)
    if isinstance(other, Traced):
        if _lookup.at in ((id(other), id(frame), frame.f_lasti), (id(self), id(frame), frame.f_lasti)):
            return self is other or (self.by is other.by and self.aux is other.aux and self.aux is not None)
        return _compare_equal(self, other)
    return _checked_key(self, other, _compare_equal(self, other), frame)


def _checked_key(x: Traced, key: Any, is_equal: Any, frame: Any) -> Any:
    """The answer to `x == key`, unless a dict asks for it to find the entry of x under a plain key, or that of a plain number
    under x."""
    if type(key) in _KEYS and not isinstance(x.by, (Batch, Guarded)) and reads_entry(frame) and is_equal:
        raise ConversionError(
            f"a value traced by {x.by.name} and the plain number {key!r} are one key of a dict, but the entry of the number has "
            "no derivative; start with an empty dict if it holds results, use ad.stop_gradient(x) as the key of a table"
        )
    return is_equal


_KEYS = frozenset({float, int, complex, np.float64, np.float32})


def _equal_as_key(equal: Callable[..., Any]) -> Callable[..., Any]:
    """`==` of a NumPy scalar, on the left, and a traced value."""

    def quick(a: Any, b: Any) -> Any:
        y = equal(a, b)
        if _lookup.at is None or isinstance(a, Traced):
            return y
        key = a[()] if type(a) is np.ndarray and not a.ndim else a  # NumPy makes an array of a scalar that it compares
        return _checked_key(b, key, y, sys._getframe(2))

    return quick


_compare_equal = _operator("eq", ops.equal)


def _repr(self: Traced) -> str:
    if self.by is FRESH:
        return repr(self.value)
    if isinstance(self.by, Batch):
        return f"Traced({self.dtype.name}{list(self.shape)}, batch of {self.by.size}, by={self.by.name})"  # type: ignore[attr-defined]
    if isinstance(self.by, Guarded):
        return f"Traced({self.by.concrete(self, _PRINTED)!r}, by={self.by.name})"
    if not self.by.has_numbers:
        return self.by.show(self)
    return f"Traced({self.value!r}, by={self.by.name})"


def _format(self: Traced, spec: str = "") -> str:
    if isinstance(self.by, Batch):
        return format(repr(self), spec)
    if self.by.has_numbers or isinstance(self.by, Guarded):
        return format(_looked_at(self), spec)
    text = self.by.show(self)
    try:
        return format(text, spec)
    except ValueError:  # no numbers to format
        return text


def _looked_at(x: Any) -> Any:
    """The number of a value, for text. A program would bake in that of its first call, so no result may depend on it."""
    while isinstance(x, Traced):
        if not isinstance(x.by, Guarded):
            x = x.value if x.by.has_numbers else primal(x)
        elif is_printed():
            x = x.by.concrete(x, _PRINTED)
        else:
            raise UnsupportedError(
                f"the text of a value traced by {x.by.name} would be baked into the program; it is allowed only as an argument "
                "of print, a log or an error"
            )
    return x


_PRINTED = "the printed number of"


def _reduce(self: Traced) -> NoReturn:
    raise ConversionError(f"a value traced by {self.by.name} cannot be pickled or copied out; return it from the function")


#: Attributes of NumPy arrays that a traced value, which has no memory, cannot have.
_OF_MEMORY = (
    *("base", "byteswap", "ctypes", "data", "dump", "dumps", "flags", "getfield", "resize", "setfield", "setflags", "strides"),
    *("tobytes", "tofile"),
)


def _missing(name: str) -> Callable[[Traced], NoReturn]:
    """A property that raises for a missing attribute. (A `__getattr__` would slow down every attribute access.)"""

    def getter(self: Traced) -> NoReturn:
        called, better = advice()
        inside = f", which {called} asks for," if better else ""
        raise AttributeMissingError(
            f"a value traced by {self.by.name} has no .{name}{inside} since it has no memory; "
            f"{better or 'use NumPy functions that make a new array'}, or ad.stop_gradient(x) if a constant is meant"
        )

    return getter


def _deepcopy(self: Traced, memo: Any = None) -> Any:
    return copied(self)


# -- NumPy's protocols ------------------------------------------------------------------------------------------


def _array_ufunc(self: Traced, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if method == "__call__" and not kwargs:
        function = _QUICK.get(ufunc) or _quick(ufunc)
        if function is not None:
            return function(*inputs)
    return general_ufunc(ufunc, method, inputs, kwargs)


_QUICK: dict[np.ufunc, Callable[..., Any]] = {}


def _quick(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The function that runs a ufunc: the op's recorder if it has one."""
    function = find_ufunc(ufunc)
    if function is None:
        return None

    def general(*inputs: Any) -> Any:
        values = tuple(map(lift, inputs))
        if all(class_of(x) in PYTHON_NUMBERS for x in values):
            values = tuple(map(strengthened, values))
        return function(*values)

    quick = general
    if isinstance(function, Elementwise) and function.arity <= 2:
        impl = None if isinstance(function.impl, np.ufunc) else _giving_scalars(function.impl)
        quick = recorder(function, general, "ufunc", impl)
    _QUICK[ufunc] = _equal_as_key(quick) if ufunc is np.equal else quick
    return _QUICK[ufunc]


def _giving_scalars(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A Python operator that gives a NumPy scalar for Python numbers, as the ufunc does."""

    def impl(*args: Any) -> Any:
        y = operation(*args)
        return np.float64(y) if y.__class__ is float else y

    return impl


def general_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = f"scipy.special.{_PUBLIC.get(ufunc.__name__, ufunc.__name__)}" if is_scipy(ufunc) else f"np.{ufunc.__name__}"
    name += "" if method == "__call__" else f".{method}"
    if method != "__call__":
        if method not in METHODS:
            raise UnsupportedError(f"{name} is not supported on traced values")
        return METHODS[method](ufunc, name, *inputs, **kwargs)
    function = find_ufunc(ufunc)
    if function is None:
        raise unsupported(ufunc, name)
    return call_with_options(function, name, inputs, kwargs)


#: The public functions behind SciPy's privately named ufuncs.
_PUBLIC = {"_riemann_zeta": "zeta", "_zeta": "zeta", "_ellip_harm": "ellip_harm", "_lambertw": "lambertw"}


def _array_function(self: Traced, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    function = FUNCTIONS.get(func)
    if function is None:
        if all(_is_fresh(kind) for kind in _traced_in((args, kwargs))):  # still plain numbers: no derivative is lost
            return func(*primals(args), **primals(kwargs))
        module = (getattr(func, "__module__", None) or "numpy").replace("numpy", "np", 1)
        raise unsupported(func, f"{module}.{func.__name__}")
    return function(*args, **kwargs)


def _traced_in(x: Any) -> list[Traced]:
    if isinstance(x, Traced):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [found for part in parts for found in _traced_in(part)]


def _is_fresh(x: Traced) -> bool:
    return x.by is FRESH


def unsupported(function: Callable[..., Any], name: str) -> UnsupportedError:
    made = np.frompyfunc if getattr(function, "__name__", "").endswith("(vectorized)") else function
    reason = REFUSED.get(made, "it has no derivative rule")
    return UnsupportedError(f"{name} cannot be differentiated: {reason}. {REMEDY}")


# -- methods ----------------------------------------------------------------------------------------------------


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that forwards to the NumPy function of the same name."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[function](self, *args, **kwargs)

    method.__name__ = function.__name__
    return method


_METHODS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "cumsum", "cumprod", "dot", "ravel", "swapaxes", "squeeze", "clip"),
    *("trace", "diagonal", "repeat", "take", "argmax", "argmin", "argsort", "all", "any", "nonzero", "choose"),
    *("searchsorted", "put", "argpartition"),
)


def _reshape(self: Traced, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    return FUNCTIONS[np.reshape](self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)


def _transpose(self: Traced, *axes: Any) -> Any:
    return FUNCTIONS[np.transpose](self, (axes[0] if len(axes) == 1 else axes) or None)


def _astype(self: Traced, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    if np.dtype(dtype) != self.dtype:  # type: ignore[attr-defined]
        return in_order(FUNCTIONS[np.astype](self, dtype), order)
    if copy:
        return copied(self, order)
    return self if order == "K" else same_or_copy(self, lambda m: m.astype(m.dtype, order=order, copy=False))


def _copy(self: Traced, order: str = "C") -> Any:
    return copied(self, order)


def _flatten(self: Traced, order: str = "C") -> Any:
    return copied(FUNCTIONS[np.ravel](self, order), "C")


def _view(self: Traced, dtype: Any = None, type: Any = None) -> Any:
    if (dtype is None or np.dtype(dtype) == self.dtype) and type in (None, np.ndarray):  # type: ignore[attr-defined]
        return read(self, ...)
    return _missing("view")(self)


def _fill(self: Traced, value: Any) -> None:
    write(self, ..., value)


def _round(self: Traced, decimals: int = 0, out: Any = None) -> Any:
    return FUNCTIONS[np.round](self, decimals, out)


def _conj(self: Traced) -> Any:
    """The method returns a real array itself, the function a copy."""
    return shapes.conj(self) if self.dtype.kind == "c" or not self.by.is_array(self) else self  # type: ignore[attr-defined]


def _compress(self: Traced, condition: Any, axis: int | None = None, out: Any = None) -> Any:
    return FUNCTIONS[np.compress](condition, self, axis, out)


def _set_real(self: Traced, value: Any) -> None:
    write(self, ..., with_real(self, lift(value)) if self.dtype.kind == "c" else value)  # type: ignore[attr-defined]


def _set_imag(self: Traced, value: Any) -> None:
    if self.dtype.kind != "c":  # type: ignore[attr-defined]
        raise TypeError("array does not have imaginary part to set")
    write(self, ..., with_imag(self, lift(value)))


def _set_flat(self: Traced, value: Any) -> None:
    Flat(self)[:] = value


def _set_shape(self: Traced, shape: Any) -> None:
    if self.by is not FRESH:
        raise UnsupportedError("the shape of a traced array cannot be set in place; write x = x.reshape(shape)")
    self.value = np.reshape(self.value, shape, copy=False)


_OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "shape": _shape,
    "dtype": _dtype,
    "ndim": lambda self: len(self.shape),
    "size": _size,
    "T": lambda self: FUNCTIONS[np.transpose](self),
    "mT": lambda self: FUNCTIONS[np.matrix_transpose](self),
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
    "device": lambda self: "cpu",
    "flat": Flat,
}


#: Members that every value has, or that Python and NumPy look for on the type.
_ALWAYS = frozenset(
    {"__array_ufunc__", "__array_function__", "__bool__", "__copy__", "__deepcopy__", "__eq__", "__format__", "__hash__"}
    | {"__reduce__", "__repr__", "__str__"}
)


def install() -> None:
    """Give `Traced` its operators, methods and protocols."""
    for op in OPS.values():
        if isinstance(op, Elementwise):
            quicken(op)
    _install_operators()
    properties: dict[str, Callable[[Any], Any]] = {
        "real": lambda self: FUNCTIONS[np.real](self),
        "imag": lambda self: FUNCTIONS[np.imag](self),
        **{name: _missing(name) for name in _OF_MEMORY},
    }
    setters: dict[str, Callable[[Any, Any], None]] = {"real": _set_real, "imag": _set_imag}
    for name, getter in _OF_ARRAYS.items():
        setattr(Traced, name, of_arrays(name, getter))
    Traced.flat = Traced.flat.setter(_set_flat)  # type: ignore[attr-defined]
    Traced.shape = Traced.shape.setter(_set_shape)  # type: ignore[attr-defined]
    for name, getter in properties.items():
        setattr(Traced, name, property(getter, setters.get(name)))
    everything: dict[str, Any] = {
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_priority__": 1000.0,
        "__pandas_priority__": 5000,  # above a DataFrame's: `series * x` calls our operator
        "__array_namespace__": _array_namespace,
        "__array__": _array,
        "__dlpack__": _dlpack,
        "__dlpack_device__": lambda self: (1, 0),  # DLPack's number for the CPU
        "to_device": _to_device,
        "__float__": _float,
        "__complex__": _complex,
        "__int__": _int,
        "__index__": _index,
        "__bool__": _bool,
        "__len__": _len,
        "__iter__": _iter,
        "__contains__": _contains,
        "__hash__": _hash,
        "__eq__": _equal,
        "__repr__": _repr,
        "__str__": _format,
        "__format__": _format,
        "__reduce__": _reduce,
        "__deepcopy__": _deepcopy,
        "__copy__": _deepcopy,
        "__getitem__": read,
        "__setitem__": write,
        "__round__": _round_builtin,
        "__floor__": _rounded(ops.floor),
        "__ceil__": _rounded(ops.ceil),
        "__trunc__": _trunc,
        "as_integer_ratio": _refuse("the exact ratio", "use NumPy functions"),
        "is_integer": _is_integer,
        "item": _item,
        "tolist": _tolist,
        "reshape": _reshape,
        "transpose": _transpose,
        "astype": _astype,
        "copy": _copy,
        "flatten": _flatten,
        "view": _view,
        "fill": _fill,
        "round": _round,
        "conj": _conj,
        "conjugate": _conj,
        "compress": _compress,
        "sort": sort_in_place,
        "partition": partition_in_place,
        **{name: _method(getattr(np, name)) for name in _METHODS},
    }
    for name, member in everything.items():
        setattr(Traced, name, Sought(name, member) if callable(member) and name not in _ALWAYS else member)
