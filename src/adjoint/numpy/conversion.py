"""Conversions of a traced value to a plain number, an array or text: refused where a derivative would be lost."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..core.bind import FRESH, Traced, around, class_of, depth, is_tracking
from ..core.errors import LABELLED, ConversionError, TableError, UnsupportedError, calling_frame, user_frame
from ..core.home import is_adopted
from ..eager.batch import Batch
from ..ops import elementwise as ops
from ..staging.guard import Guarded
from ..staging.stage import Stage
from .advice import ADOPT, Imported, advice, imported, making_arrays, package_at
from .caller import call_of, is_printed, is_shown, may_index_array
from .concrete import note_rounding, primal
from .table import FUNCTIONS
from .text import Description, Text


def _refuse(what: str, instead: Callable[[Imported], str]) -> Callable[..., NoReturn]:
    """A method that raises. `instead` says what to write, given what the code has imported."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> NoReturn:
        # Of jit, which would record a guard, or of a graph.
        is_program = isinstance(self.by, Guarded) or getattr(type(self.by), "concrete", None) is Stage.concrete
        if not self.by.has_numbers and not is_program:
            self.by.concrete(self, f"{what} of")
        name, better = advice()
        frame, _ = user_frame()
        in_library = frame is not None and is_adopted(frame)
        if in_library and (not better or ADOPT in better):
            better = _IN_LIBRARY
        short = name if name.startswith("np.") else name.rpartition(".")[2]
        inside = f", in {name}," if name and f"{short}()" not in what else ""
        whose = f"{what} of a value traced by {self.by.name}{inside}"
        if call_of(calling_frame()).kind == "STORE_SUBSCR" and not in_library:
            raise _refuse_write(self, "a plain NumPy array")
        package = package_at(frame)
        if package and package not in LABELLED and not better.startswith("use adjoint"):
            better = f"it is code of the package {package}: adopt that with ad.adopt({package!r})"
        better = better or instead(imported(frame))
        if is_program:
            if better.endswith(last := f", {ADOPT}"):  # of the ways out
                better = f"{better.removesuffix(last)}, or {ADOPT}"
            raise ConversionError(f"{whose} would be baked into the program; {better}")
        raise ConversionError(f"{whose} would lose its derivative; {better}, or {_CONSTANT}")

    return method


def _refuse_write(x: Traced, array: str) -> ConversionError:
    """The error of `a[i] = x` for an array that cannot hold x, with what to do in the place where it happens."""
    frame, _ = user_frame()
    has, floats = imported(frame), ", float" if array == "an integer array" else ""
    package = package_at(frame)
    if not is_tracking():
        instead = (
            f"this thread is not that of {x.by.name}, and adjoint.numpy makes plain arrays in it: start it with "
            "contextvars.copy_context().run, or make the array with np.zeros_like of a traced one"
        )
    elif package:
        instead = f"it is code of the package {package}: adopt that with ad.adopt({package!r})"
    elif has.only:
        began = f"{x.by.name} began" if depth.get() else "the first array with requires_grad was made"
        made = "with an integer dtype" if floats else f"before {began} (in an __init__, a module, a default argument)"
        instead = f"it was made {made}; write a = {has.only}.array(a{floats}) first, inside the function"
    else:
        instead = f"make the array inside the function, with {has.way} or a = adjoint.numpy.array(a{floats}), {ADOPT}"
    return ConversionError(
        f"writing a value traced by {x.by.name} into {array} would lose its derivative; {instead}, or {_CONSTANT}"
    )


_CONSTANT = "use ad.stop_gradient(x) if it is meant to be a constant"
_IN_LIBRARY = (
    "the adopted code passes it to compiled code, or writes it to an array that was made before or copied from an argument; make "
    "the library's objects inside the function, differentiate by that argument too (argnums), or declare a rule with "
    "ad.custom_vjp"
)


def _without_conversion(has: Imported) -> str:
    given = "" if has.only else f" of {has.way}"
    return f"leave the conversion out and use NumPy functions{given}, {ADOPT}"


def _with_floats(has: Imported) -> str:
    made = f"make an array that it is written to with {has.only or has.way} and a float dtype"
    return f"{made}, {ADOPT}, write int(x) if an integer is meant"


def _kept(_: Imported) -> str:
    return f"keep the value itself, {ADOPT}"


_refuse_float = _refuse("float()", _without_conversion)
_refuse_complex = _refuse("complex()", _without_conversion)
_refuse_int = _refuse("the whole number", _with_floats)
_refuse_array = _refuse("np.array() or np.asarray()", making_arrays)
_refuse_item = _refuse("item() or tolist()", _kept)
_refuse_dlpack = _refuse("the memory", lambda _: "keep the value itself")


def _float(self: Traced) -> float:
    if self.by.is_plain(self):
        return float(self.underlying)
    if is_shown(calling_frame()):
        if _has_number(self):
            return float(_looked_at(self))
        raise ConversionError(f"{self!r} has no single number that could be written; write str(x) for its description")
    return _refuse_float(self)


def _complex(self: Traced) -> complex:
    return complex(self.underlying) if self.by.is_plain(self) else _refuse_complex(self)


def _array(self: Traced, dtype: Any = None, copy: bool | None = None) -> Any:
    if self.by.is_plain(self):
        return np.array(self.underlying, dtype=dtype, copy=True)
    _ask_for_tables(self)
    if isinstance(self.by, Batch) and self.dtype.kind in "iub":  # type: ignore[attr-defined]
        raise ConversionError(
            "integers that differ across a batch cannot become a plain NumPy array, nor index one; write "
            "adjoint.numpy.array(a)[i] inside the function for a[i], or pass a as an argument with in_axes=None"
        )
    return _refuse_array(self)


def _dlpack(self: Traced, **options: Any) -> Any:
    return self.underlying.__dlpack__(**options) if self.by.is_plain(self) else _refuse_dlpack(self)


def _item(self: Traced, *args: Any) -> Any:
    """In adopted code, the traced number itself."""
    if self.by.is_plain(self):
        return self.underlying.item(*args)
    if not is_adopted(calling_frame()):
        return _refuse_item(self)
    if not args:
        return self.reshape(())[()]  # type: ignore[attr-defined]
    if len(args) == 1 and not isinstance(args[0], tuple):
        return self.reshape(-1)[args[0]]  # type: ignore[attr-defined]
    return self[args[0] if len(args) == 1 else args]  # type: ignore[index]


def _tolist(self: Traced) -> Any:
    if self.by.is_plain(self):
        return self.underlying.tolist()
    return _nested(self) if is_adopted(calling_frame()) else _refuse_item(self)


def _nested(x: Any) -> Any:
    return [_nested(part) for part in x] if x.shape else x


def _bool(self: Traced) -> bool:
    return bool(self.by.concrete(self, "the truth of"))


def _int(self: Traced) -> int:
    """`int(x)` is constant almost everywhere. But `integer_array.fill(x)` calls it too, to store the value."""
    if isinstance(self.by, Batch) and self.dtype.kind in "fc" and call_of(calling_frame()).kind == "STORE_SUBSCR":  # type: ignore[attr-defined]
        raise _refuse_write(self, "an integer array")
    number = int(self.by.concrete(self, "int() of"))
    if self.by.is_plain(self) or self.dtype.kind in "iub":  # type: ignore[attr-defined]
        return number
    frame = calling_frame()
    call = call_of(frame)
    if is_shown(frame) or (isinstance(call.function, type) and issubclass(call.function, int)):  # int itself, or a class of it
        return number
    if call.kind == "STORE_SUBSCR" or isinstance(getattr(call.function, "__self__", None), np.ndarray):
        raise _refuse_write(self, "an integer array")
    return _refuse_int(self)


def _ask_for_tables(x: Traced) -> None:
    """Have a function staged again with traced tables, if it indexes a plain array by a traced value.

    C code converts the index and then reads or writes the array, so it cannot be intercepted later.
    """
    stage = next((trace for trace in around.get() if isinstance(trace, Stage) and not trace.has_tables), None)
    if stage is None or x.dtype.kind not in "iub":  # type: ignore[attr-defined]
        return
    frame = calling_frame()
    if may_index_array(frame) or isinstance(getattr(call_of(frame).function, "__self__", None), np.ndarray):
        stage.asks_for_tables = True
        raise TableError(f"a plain array is indexed by a value traced by {x.by.name}; write `import adjoint.numpy as np`")


def _index(self: Traced) -> int:
    _ask_for_tables(self)
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
    """`round(x)`. Python rounds its numbers exactly, by their decimal digits."""
    cls = class_of(self)
    if cls in (bool, int) and (decimals is None or decimals >= 0):
        return +self  # type: ignore[operator]
    if cls is complex:
        raise TypeError("type complex doesn't define __round__ method")
    if decimals is None:
        return _rounded(ops.rint)(self)
    note_rounding(self, decimals)
    if cls not in (bool, int, float):
        return FUNCTIONS[np.round](self, decimals)
    if isinstance(self.by, Guarded):
        return _round_decimally(self, self.by, decimals)
    # A program beneath a derivative gets the value that it stages, not the number of this call.
    beneath = self.underlying if self.by.has_numbers and not isinstance(self.by, Batch) else primal(self)
    return round(beneath, decimals)


def _round_decimally(x: Traced, stage: Guarded, decimals: int) -> Any:
    """`round(x, 2)` of a Python float in a program: rint(100 x) / 100, whose quotient of exact integers is Python's result.

    The product 100 x is rounded. A call where that may take it to the other side of a tie runs eagerly.
    """
    if class_of(x) is not float or not 0 <= decimals <= _EXACT_POWERS:
        raise UnsupportedError(f"round(x, {decimals}) of a Python {class_of(x).__name__} cannot be compiled; use np.round")
    scale = 10.0**decimals
    multiple = ops.mul(x, scale)
    size = ops.absolute(multiple)
    from_tie = ops.absolute(ops.sub(ops.sub(multiple, ops.floor(multiple)), 0.5))
    stage.check(ops.logical_and(ops.less(ops.mul(size, 2.0**-52), from_tie), ops.less(size, 2.0**52)), "round")
    return ops.div(ops.rint(multiple), scale)


_EXACT_POWERS = 22  # 10.0**22 is the largest power of ten that is exact


def _is_integer(self: Traced) -> bool:
    if not hasattr(class_of(self), "is_integer"):
        raise AttributeError(f"{class_of(self).__name__!r} object has no attribute 'is_integer'")
    return bool(ops.logical_and(ops.equal(ops.trunc(self), self), ops.isfinite(self)))


def _has_number(x: Any) -> bool:
    """Whether the numbers of a value are known, and are those of one example."""
    while isinstance(x, Traced) and not isinstance(x.by, Guarded):
        if isinstance(x.by, Batch) or not x.by.has_numbers:
            return False
        x = x.underlying
    return True


def _repr(self: Traced) -> str:
    if self.by is FRESH:
        return repr(self.underlying)
    name = self.by.name
    if isinstance(self.by, Batch):
        shown = f"Traced({self.dtype.name}{list(self.shape)}, batch of {self.by.size}, by={name})"  # type: ignore[attr-defined]
    elif isinstance(self.by, Guarded):
        shown = f"Traced({self.by.concrete(self, _PRINTED)!r}, by={name})"
    elif self.by.has_numbers:
        shown = f"Traced({self.underlying!r}, by={name})"
    else:
        shown = self.by.show(self)
    return (Text if _has_number(self) else Description).of(shown, self.by)


def _format(self: Traced, spec: str = "") -> str:
    """A number as Python writes it; without a spec all of its digits are there."""
    if not _has_number(self):
        shown = _repr(self)
        try:
            return Description.of(str.__format__(shown, spec), self.by)
        except ValueError:  # a spec for numbers
            return shown
    text = format(_looked_at(self), spec)
    return text if spec or self.by.is_plain(self) else Text.of(text, self.by)


def _looked_at(x: Any) -> Any:
    """The number of a value, for text. A program would bake in that of its first call, so no result may depend on it."""
    while isinstance(x, Traced):
        if not isinstance(x.by, Guarded):
            x = x.underlying if x.by.has_numbers else primal(x)
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


#: What Python asks of a number, and how a value is written.
CONVERSIONS: dict[str, Any] = {
    "__float__": _float,
    "__complex__": _complex,
    "__int__": _int,
    "__index__": _index,
    "__bool__": _bool,
    "__array__": _array,
    "__dlpack__": _dlpack,
    "__trunc__": _rounded(ops.trunc),
    "__round__": _round_builtin,
    "__floor__": _rounded(ops.floor),
    "__ceil__": _rounded(ops.ceil),
    "__reduce__": _reduce,
    "__repr__": _repr,
    "__str__": _format,
    "__format__": _format,
    "is_integer": _is_integer,
    "item": _item,
    "tolist": _tolist,
    "as_integer_ratio": _refuse("the exact ratio", lambda _: "use NumPy functions"),
    "hex": _refuse("the digits", lambda _: "keep the value itself"),
}
