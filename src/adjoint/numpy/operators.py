"""Python's operators on traced values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.bind import Traced, bind, class_of
from ..core.op import Elementwise, Op
from ..eager.record import recorder
from ..ops import elementwise as ops
from ..ops import integer
from ..ops.linalg import matmul
from ..staging.guard import Guarded
from .elementwise import absolute, divmod_, power
from .table import is_array_like, lift, without_class
from .views import inplace

_NUMBERS = (Traced, np.generic, float, int, complex)


def _operand(x: Any) -> Any:
    """The other operand of an operator, or NotImplemented if NumPy would not accept it."""
    if type(x) is np.ndarray or isinstance(x, _NUMBERS):
        return x
    if isinstance(x, np.ndarray):
        return without_class(x)
    return lift(x) if is_array_like(x) else NotImplemented


def operator_for(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on operands of which at least one is traced."""
    run = functools.partial(bind, op) if isinstance(op, Op) else op
    converts = name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod")

    def unary(a: Traced) -> Any:
        return a.by.operate(name, run, (a,)) if isinstance(a.by, Guarded) and a.by.light else run(a)

    def general(a: Any, b: Any) -> Any:
        if type(b) is Fraction and converts and class_of(a) in (float, complex):
            b = class_of(a)(b)  # Fraction.__radd__ would do so with both
        a, b = _operand(a), _operand(b)
        if a is NotImplemented or b is NotImplemented:
            return NotImplemented
        by = a.by if isinstance(a, Traced) else b.by
        return by.operate(name, run, (a, b)) if isinstance(by, Guarded) and by.light else run(a, b)

    return unary if name in _UNARY else general


def install_operators() -> None:
    for name, unary in _UNARY.items():
        setattr(Traced, f"__{name}__", operator_for(name, unary))
    for name, comparison in _COMPARISON.items():
        setattr(Traced, f"__{name}__", operator_for(name, comparison))
    for name, op in _BINARY.items():
        _install_binary(name, operator_for(name, op))
    # The rules that a recorder is made from are written with operators, so those come first.
    for name, op in _BINARY.items():
        if isinstance(op, Elementwise):
            _install_binary(name, recorder(op, operator_for(name, op), name))


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
