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
from ..core.errors import UnsupportedError, is_written_by_user, user_line
from ..core.op import Constant, Elementwise, Op
from ..core.types import PYTHON_NUMBERS, Value, dtype_of
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
from .lazy import KnownValues
from .stage import Stage

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
        return x.by.with_value(x, strengthened(x.underlying))
    return cast(x, dtype=dtype_of(x))  # in a branch, an op of the branch


def weight(number: Any) -> tuple[Any, ...]:
    """The promotion key of a Python number: its class, and for an integer whether it fits."""
    return (int, number < 0, max(number, ~number).bit_length()) if type(number) is int else (type(number),)


#: The modules between an operator in the user's code and `PythonNumbers.operate`.
OPERATOR_MODULES = frozenset(
    {__name__, "adjoint.numpy.keys", "adjoint.numpy.operators", "adjoint.numpy.views", "adjoint.eager.record"}
)


class PythonNumbers(Stage):
    """A recording that knows which of its values are Python numbers, and under which conditions their arithmetic is Python's."""

    __slots__ = ("arithmetic", "failed")

    numbers: KnownValues  # the numbers of this call
    light: dict[int, Any]  # values that are Python numbers: their promotion key
    pending: dict[int, type]  # results of loops that are Python numbers: their class, without the number
    decided: set[int]  # comparisons that became guards at once
    conditions: list[int]  # booleans that the program depends on: one, a running conjunction
    arithmetic: str  # the last line on which an operator between Python numbers has a condition
    failed: bool

    def operate(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator or ufunc in user code. Between Python numbers an operator follows Python; a ufunc gives NumPy scalars."""
        if isinstance(self.taken, Stage):
            return self.taken.operate(name, run, args)  # the op belongs to a branch
        if name == "ufunc":
            return run(*map(strengthened, args)) if all(map(self.is_number, args)) else run(*args)
        if not all(map(self.is_number, args)) or not is_written_by_user(OPERATOR_MODULES):
            return run(*args)
        if any(isinstance(a, Traced) and a.aux[0] in self.pending for a in args):
            return self.operate_on_pending(name, run, args)
        try:
            expected = OPERATORS[name](*[self.numbers[a.aux[0]] if isinstance(a, Traced) else a for a in args])
        except Exception:  # Python's error, for this call
            self.failed = True
            raise
        if type(expected) is int and not -(2**63) <= expected < 2**63:
            raise PythonNumberError(name)
        y = run(*args)
        if class_of(y) is not type(expected) or (type(expected) is complex and complex not in map(class_of, args)):
            raise PythonNumberError(name)
        for condition in conditions(name, y, args):
            self.check(condition, name)
        return y

    def operate_on_pending(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator between Python numbers, some of them results of loops, which are not evaluated for this."""
        y = run(*args)
        for condition in conditions(name, y, args):
            if isinstance(condition, Traced):
                self.assume(condition)
        cls = result_class(name, [class_of(a) for a in args])
        for part in y if isinstance(y, tuple) else (y,):
            if cls is not None and isinstance(part, Traced):
                self.expect(part, cls)
        return y

    def expect(self, x: Traced, cls: type) -> None:
        """Note that a result is a Python number in the user's program."""
        self.pending[x.aux[0]] = cls
        self.light.setdefault(-1, (cls,))  # no value: `light` says that there are Python numbers

    def is_number(self, x: Any) -> bool:
        """Whether a value is a Python number, in this program or outside it."""
        if isinstance(x, Traced):
            return x.by is self and (x.aux[0] in self.light or x.aux[0] in self.pending)
        return type(x) in PYTHON_NUMBERS

    def is_pending(self, x: Any) -> bool:
        """Whether a value is a Python number that a loop computes."""
        return isinstance(x, Traced) and x.by is self and x.aux[0] in self.pending

    @property
    def has_bools(self) -> bool:
        """Whether a traced value is a Python bool in the user's program."""
        known = any(weight[0] is bool and number not in self.decided for number, weight in self.light.items())
        return known or bool in self.pending.values()

    def class_of_pending(self, x: Value) -> type | None:
        if not isinstance(x, Traced) or x.by is not self:
            return None
        weight = self.light.get(x.aux[0])
        return self.pending.get(x.aux[0]) if weight is None else weight[0]

    def check(self, condition: Any, name: str) -> None:
        """Restrict the program to calls where a condition on Python arithmetic holds; if not in this call, it runs eagerly."""
        if not isinstance(condition, Traced):
            if not condition:
                raise PythonNumberError(name)
            return
        if not self.numbers[condition.aux[0]]:
            raise PythonNumberError(name)
        self.assume(condition)

    def assume(self, condition: Traced) -> None:
        """Restrict the program to calls where a condition holds, without looking whether it holds in this call."""
        if self.conditions:  # a running conjunction, so that loops are still found
            earlier = Traced(self, None, (self.conditions.pop(), condition.aux[1], False))
            condition = logical_and(earlier, condition)
        self.conditions.append(condition.aux[0])
        self.arithmetic = user_line()
