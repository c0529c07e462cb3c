"""Python's arithmetic in compiled code.

Python's numbers are not NumPy's: integers never wrap around, division by zero raises, and so does a power that overflows; the
power of a negative number may be complex. Compiled code computes with 64 bits. So an operator between Python numbers is staged
with the condition under which both agree, and a call that violates it runs eagerly.

    1 / x      x ≠ 0
    n * n      n² < 2**62
    x**0.5     the result is finite, or x is not
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of
from ..core.errors import UnsupportedError
from ..core.op import Constant, Elementwise, Op
from ..core.types import Value, dtype_of
from ..ops.broadcast import cast
from ..ops.elementwise import (
    absolute,
    add,
    exp2,
    greater_equal,
    isfinite,
    less,
    logical_and,
    logical_not,
    logical_or,
    mul,
    not_equal,
    power,
    sub,
)

#: Python's operators, by the name of the special method.
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")},
    **{name: getattr(operator, f"__{name}__") for name in ("and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("neg", "pos", "abs", "invert")},
    "divmod": divmod,
}
_WHOLE = frozenset({bool, int})
_WIDE = 2.0**62  # within 64 bits, with the rounding of a float
_EXACT = 2.0**53  # up to here floats represent integers exactly
_FLOAT = np.dtype(np.float64)


def conditions(name: str, y: Value, args: tuple[Value, ...]) -> Iterator[Value]:
    """The conditions under which NumPy's result y of an operator is Python's."""
    are_whole = [class_of(a) in _WHOLE for a in args]
    if name in ("truediv", "floordiv", "mod", "divmod"):
        yield not_equal(args[1], 0)
        if all(are_whole):
            yield from [less(_size(a), _EXACT if name == "truediv" else _WIDE) for a in args]
    elif name == "pow":
        yield from _power_conditions(all(are_whole), y, *args)
    elif name in ("lt", "le", "gt", "ge", "eq", "ne"):
        if any(are_whole) and not all(are_whole):
            yield from [less(_size(a), _EXACT) for a, is_whole in zip(args, are_whole, strict=True) if is_whole]
    elif all(are_whole):
        yield from _whole_conditions(name, *args)


def _power_conditions(is_whole: bool, y: Value, a: Value, b: Value) -> Iterator[Value]:
    if class_of(y) is complex:
        yield isfinite(y)
    elif not is_whole:
        yield logical_or(isfinite(y), logical_not(logical_and(isfinite(a), isfinite(b))))
    elif greater_equal(b, 0):  # a guard: Python's result is a float otherwise
        yield less(power(_size(a), _float(b)), _WIDE)
    else:
        yield not_equal(a, 0)


def _whole_conditions(name: str, a: Value, b: Value = 0) -> Iterator[Value]:
    if name in ("neg", "abs", "invert"):
        yield less(_size(a), _WIDE)
    elif name in ("add", "sub", "mul"):
        run = {"add": add, "sub": sub, "mul": mul}[name]
        yield less(absolute(run(_float(a), _float(b))), _WIDE)
    elif name in ("lshift", "rshift"):
        yield logical_and(greater_equal(b, 0), less(b, 63))
        if name == "lshift":
            yield less(_size(a) * exp2(_float(b)), _WIDE)


def result_class(name: str, classes: Sequence[type]) -> type | None:
    """The class that an operator gives between Python numbers of these classes; None for a comparison."""
    if name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return None
    widest = max(classes, key=(bool, int, float, complex).index)
    if name == "truediv" and widest in _WHOLE:
        return float
    return int if widest is bool and name not in ("and", "or", "xor") else widest


def promoted(op: Op, args: Sequence[Value], class_of_number: Callable[[Value], type | None]) -> Sequence[Value]:
    """Operands with Python numbers cast to the dtype that they take beside arrays and NumPy's scalars.

    For values that are Python numbers in the user's program, and of which only the type is known while staging.
    """
    if not isinstance(op, (Elementwise, Constant)):
        return args
    classes = [type(a) if type(a) in EXAMPLES else class_of_number(a) for a in args]
    known = [dtype_of(a) for a, cls in zip(args, classes, strict=True) if cls is None]
    if not known or all(cls is None or not isinstance(a, Traced) for a, cls in zip(args, classes, strict=True)):
        return args
    dtype = np.result_type(*known, *[EXAMPLES[cls] for cls in classes if cls is not None])
    return [
        cast(a, dtype=dtype) if cls is not None and isinstance(a, Traced) else a for a, cls in zip(args, classes, strict=True)
    ]


#: A Python number of each class, for NumPy's rules of promotion.
EXAMPLES: dict[type, Any] = {int: 1, float: 1.0, complex: 1j}


def _float(x: Value) -> Value:
    return cast(x, dtype=_FLOAT) if isinstance(x, Traced) else np.float64(x)


def _size(x: Value) -> Value:
    return absolute(_float(x))


class PythonNumberError(UnsupportedError):
    """A Python number of this call that a program cannot represent, such as an integer beyond 64 bits."""

    def __init__(self, name: str, line: str | None = None) -> None:
        super().__init__(f"the result of {name} between Python numbers differs from that of compiled code", line)


def strengthened(x: Any) -> Any:
    """A Python number as a NumPy scalar."""
    if not isinstance(x, Traced):
        return np.asarray(x)[()]
    if x.by.has_numbers and x.by.taken is None:
        return x.by.with_value(x, strengthened(x.value))
    return cast(x, dtype=dtype_of(x))  # in a branch, an op of the branch


def weight(number: Any) -> tuple[Any, ...]:
    """The promotion key of a Python number: its class, and for an integer whether it fits."""
    return (int, number < 0, max(number, ~number).bit_length()) if type(number) is int else (type(number),)
