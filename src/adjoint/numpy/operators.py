"""Python's operators on traced values."""

from __future__ import annotations

import cmath
import functools
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.bind import Traced, bind, class_of, is_array
from ..core.errors import ConversionError, calling_frame, is_written_by_user
from ..core.home import original_name
from ..core.op import Elementwise, Op
from ..core.types import PYTHON_NUMBERS, shape_of
from ..eager.record import eventually, recorder
from ..ops import elementwise as ops
from ..ops import integer
from ..ops.linalg import matmul
from ..staging.python import OPERATOR_MODULES, OPERATORS
from ..staging.stage import Stage
from .concrete import primal
from .elementwise import absolute, divmod_, power
from .labels import labelled, operate
from .selected import REFLECTED, Selected
from .table import is_array_like, is_whole, lift, without_class
from .views import inplace

_NUMBERS = (Traced, np.generic, float, int, complex)
_SEQUENCES = frozenset({list, tuple})
_EXACT = (Fraction, Decimal)  # compared as they are, not rounded to floats
_LARGEST = 1 << 1023  # from here on, a Fraction may not be a float
_ROUNDS_FRACTIONS = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "divmod"})
_COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _operand(x: Any) -> Any:
    """The other operand of an operator, or NotImplemented if NumPy would not accept it, or would lose its labels."""
    if type(x) is np.ndarray or isinstance(x, _NUMBERS):
        return x
    if isinstance(x, np.ndarray):
        return without_class(x)
    return lift(x) if is_array_like(x) and not labelled(x) and not _goes_first(x) else NotImplemented


def _equals_nothing(x: Any) -> bool:
    """Whether an object, as None or a string, equals no number. NumPy compares it with each element of an array."""
    cls: Any = type(x)
    return cls.__eq__(x, 0.5) is NotImplemented


def _goes_first(x: Any) -> bool:
    """Whether NumPy's arrays leave an operator to the other operand, as to a matrix of SymPy."""
    cls = type(x)
    if hasattr(cls, "__array_ufunc__"):
        return cls.__array_ufunc__ is None
    priority = getattr(x, "__array_priority__", 0.0)
    return isinstance(priority, (int, float)) and priority > 0.0


def operator_for(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on operands of which at least one is traced."""
    run = functools.partial(bind, op) if isinstance(op, Op) else op
    reflected = f"__r{name}__"
    may_raise = name in ("truediv", "pow")
    repeats = name == "mul"
    tests_nan = name == "ne"

    def unary(a: Traced) -> Any:
        return a.by.operate(name, run, (a,)) if isinstance(a.by, Stage) and a.by.light else run(a)

    def binary(a: Any, b: Any) -> Any:
        if type(b) is Selected and not b.is_materialized and type(a) is not Selected and name in REFLECTED:
            return getattr(b, reflected)(a)  # after a view, which Python asks first
        if tests_nan and a is b:
            _refuse_exact(a)
        if repeats and _repeats_sequence(a, b):
            return NotImplemented  # Python repeats the sequence, and asks for the number
        if type(b) not in PYTHON_NUMBERS and not isinstance(b, Traced) and isinstance(b, _EXACT):
            b = _rounded(name, a, b)
        left, right = _operand(a), _operand(b)
        if left is NotImplemented or right is NotImplemented:
            return _of_other_object(name, a, b)
        by = left.by if isinstance(left, Traced) else right.by
        if isinstance(right, Traced) and isinstance(right.by, Stage) and right.by.level > by.level:
            by = right.by  # a body inside the program of the left operand
        if isinstance(by, Stage):
            return by.operate(name, run, (left, right)) if by.light else run(left, right)
        y = run(left, right)
        if may_raise:
            _raise_as_python(name, y, left, right)
        return y

    return unary if name in _UNARY else binary


def _repeats_sequence(a: Any, b: Any) -> bool:
    """Whether a product is a list or a tuple times a whole number."""
    if type(a) in _SEQUENCES:
        return is_whole(b)
    return type(b) in _SEQUENCES and is_whole(a)


def _rounded(name: str, a: Any, b: Any) -> Any:
    """A Fraction or a Decimal as the number that Python computes with, where it is one."""
    if type(b) is Fraction and name in _ROUNDS_FRACTIONS and class_of(a) in (float, complex):
        return class_of(a)(b)  # Fraction.__radd__ would do so with both
    if name in _COMPARES and -_LARGEST < b < _LARGEST and float(b) == b:
        return float(b)
    return b


def _of_other_object(name: str, a: Any, b: Any) -> Any:
    """An operator with an object that is no array: compared, or left to a labelled array, or to Python."""
    if name in ("eq", "ne") and (isinstance(b, _EXACT) or (is_array(a) and _equals_nothing(b))):
        return np.full(shape_of(a), name == "ne")[()]
    return operate(name, a, b) if labelled(a) or labelled(b) else NotImplemented


def _refuse_exact(x: Traced) -> None:
    """Refuse a conversion by mpmath: it begins with `x != x`, catches what `float(x)` raises, and gives nan."""
    if not x.by.is_plain(x) and original_name(calling_frame().f_globals.get("__name__", "")).startswith("mpmath.libmp"):
        raise ConversionError(
            f"mpmath computes with integers, so a value traced by {x.by.name} would lose its derivative; use mpmath.fp, "
            "scipy.special or NumPy, or declare a rule with ad.custom_vjp"
        )


def _raise_as_python(name: str, y: Any, a: Any, b: Any) -> None:
    """Raise what Python raises for an operator between its own numbers, where the op gives NumPy's result: inf or nan.

    A program that is staged beneath the trace gets the condition under which nothing is raised.
    """
    while isinstance(y, Traced) and y.by.has_numbers:
        y = y.underlying
    if isinstance(y, Traced):
        if isinstance(y.by, Stage) and y.by.light:
            y.by.operate(name, lambda *_: y, (_beneath(a), _beneath(b)))
    elif (
        (type(y) in _OF_NUMPY or _is_overflow(name, y))
        and class_of(a) in PYTHON_NUMBERS
        and class_of(b) in PYTHON_NUMBERS
        and _is_users()
    ):
        OPERATORS[name](primal(a), primal(b))


def _is_overflow(name: str, y: Any) -> bool:
    """Whether a power of Python numbers, computed as a product, is out of range: a product gives inf, a power raises."""
    return name == "pow" and type(y) in (float, complex) and not cmath.isfinite(y)


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
        x = x.underlying
    return x


def _is_users() -> bool:
    return is_written_by_user(OPERATOR_MODULES)


_OF_NUMPY = (np.float64, np.complex128)


def install_operators() -> None:
    for name, unary in _UNARY.items():
        setattr(Traced, f"__{name}__", operator_for(name, unary))
    for name, comparison in _COMPARISON.items():
        setattr(Traced, f"__{name}__", operator_for(name, comparison))
    for name, op in _BINARY.items():
        general = operator_for(name, op)
        _install_binary(name, _recording(name, op, general) if isinstance(op, Elementwise) else general)


def _recording(name: str, op: Elementwise, general: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator that is replaced by its recorder when that is worth its time: few programs use all of them."""

    def generate() -> None:
        _install_binary(name, general)  # the rules that the recorder is made from are written with operators
        _install_binary(name, recorder(op, general, name, _divide if name == "truediv" else None))

    return eventually(generate, general)


def _install_binary(name: str, run: Callable[[Any, Any], Any]) -> None:
    setattr(Traced, f"__{name}__", run)
    setattr(Traced, f"__r{name}__", lambda self, other: run(other, self))
    if name != "divmod":
        setattr(Traced, f"__i{name}__", inplace(run, getattr(operator, f"i{name}")))


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
