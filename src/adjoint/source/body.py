"""The recording of a loop body or branch of rewritten code, with Python's arithmetic.

A variable that holds Python integers has as many digits as they need, and its division by zero raises. In a compiled loop it is
64 bits wide. So the body collects the conditions under which 64 bits give what Python gives: a call that violates one runs
eagerly.

    n = n * i           |n * i| < 2**62
    i + 1               no condition: a counter does not get that far
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of
from ..core.code import NamedLine
from ..core.errors import UnsupportedError
from ..core.types import Type, Value, dtype_of
from ..ir.edit import dead_code, values_read
from ..ops.broadcast import cast, where
from ..ops.elementwise import absolute, greater_equal, less, logical_and, mul, power
from ..ops.reduce import all_
from ..staging.body import Body, NumberStage
from ..staging.python import EXAMPLES, conditions, result_class
from ..staging.stage import Stage
from .variables import NotStagedError, with_article

TYPES = {cls: Type((), np.asarray(x).dtype) for cls, x in EXAMPLES.items()}  # of Python numbers in a program
WIDE = 2.0**62  # integers beyond may not be Python's
CARRIED = 2.0**61  # bound of an integer at the start of an iteration
SMALL = 2.0**20  # that an iteration may add to it unchecked: no loop has the 2**40 iterations that would make it wide
COUNTED = 2.0**53  # bound of the number of iterations


class Arithmetic(NumberStage):
    """A recording that collects conditions on its Python numbers. Its classes have the slots."""

    __slots__ = ()
    conditions: list[Value]
    bounds: dict[int, float]  # integers that cannot be larger

    def begin(self) -> None:
        self.conditions, self.bounds = [], {}  # type: ignore[misc]

    def on_numbers(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        y = super().on_numbers(name, run, args)
        self.operating = True
        try:
            cls = result_class(name, [class_of(a) for a in args])
            bound = self.bound(name, args) if cls is int else np.inf
            needed = [] if bound < WIDE and name not in ("floordiv", "mod", "divmod") else self.needed(name, y, args)
        finally:
            self.operating = False
        self.conditions += [c for c in needed if isinstance(c, Traced)]
        if not all(c for c in needed if not isinstance(c, Traced)):
            raise NotStagedError(f"the result of {name} is not that of Python")
        for part in y if isinstance(y, tuple) else (y,):
            if cls is int and isinstance(part, Traced) and part.by is self:
                self.bounds[part.aux[0]] = min(bound, WIDE)
        return y

    def needed(self, name: str, y: Value, args: Sequence[Value]) -> list[Any]:
        """The conditions under which a result is Python's."""
        if name in ("floordiv", "mod", "divmod") and not isinstance(args[1], Traced) and args[1]:
            return []  # by a number that is not zero; the result is no larger
        if name == "pow" and all(class_of(a) is int for a in args):
            base, exponent = (cast(a, dtype=np.dtype(float)) if isinstance(a, Traced) else np.float64(a) for a in args)
            return [greater_equal(exponent, 0.0), less(power(absolute(base), exponent), WIDE)]
        if name in ("lt", "le", "gt", "ge", "eq", "ne") and all(self.size(a) < COUNTED for a in args if class_of(a) is int):
            return []
        return list(conditions(name, y, tuple(args)))

    def size(self, x: Value) -> float:
        """A bound of an integer."""
        return self.bounds.get(x.aux[0], np.inf) if isinstance(x, Traced) else float(abs(x))

    def bound(self, name: str, args: Sequence[Value]) -> float:
        """A bound of the integer that an operator gives."""
        sizes = [self.size(a) for a in args]
        if name in ("add", "sub"):
            return sum(sizes)
        if name == "mul":
            return sizes[0] * sizes[1] if all(sizes) else 0.0
        if name in ("neg", "pos", "abs"):
            return sizes[0]
        if name == "mod":
            return sizes[1]
        return sizes[0] + 1 if name in ("floordiv", "divmod", "invert") else np.inf

    def sound(self) -> Value:
        """Whether all conditions hold."""
        result: Value = np.bool_(True)
        for i, condition in enumerate(self.conditions):
            result = logical_and(result, condition) if i else condition
        return result


class SourceBody(Arithmetic, Body):
    """The recording of a body."""

    __slots__ = ("bounds", "conditions", "counted", "entered", "variables")

    def __init__(self, name: str, sibling: Body | None = None, alone: bool = False) -> None:
        Body.__init__(self, name, sibling, alone)
        self.begin()
        self.entered: set[int] = set()  # ids of the inputs that stand for variables
        self.counted = 0  # how many equations the body has without those that count iterations
        self.variables: dict[Any, str] = {}  # names of captured values, by their contents

    def number(self, name: str, cls: type, bound: float) -> Traced:
        """An input that is a Python number."""
        x = self.input(name, TYPES[cls])
        self.light[x.aux[0]] = cls
        if cls is int:
            self.bounds[x.aux[0]] = bound
        return x

    def captured_name(self, i: int) -> str:
        x = self.captured[i]
        return self.variables.get((id(x.underlying), id(x.aux))) or _variable(x) or super().captured_name(i)

    def whole(self, x: Any) -> Any:
        """A Python integer that was computed from a counter."""
        if isinstance(x, Traced) and x.by is self:
            self.light[x.aux[0]], self.bounds[x.aux[0]] = int, COUNTED
        return x

    def carry(self, y: Value) -> None:
        """Check an integer that the next iteration starts from."""
        if class_of(y) is int and isinstance(y, Traced) and y.by is self and self.size(y) > CARRIED + SMALL:
            self.conditions.append(less(absolute(cast(y, dtype=np.dtype(float))), CARRIED))


class WholeFunction(Arithmetic):
    """The recording of a whole function as a graph, which has no other way to compute: it gives nan where a condition fails."""

    __slots__ = ("bounds", "conditions")

    def __init__(self, name: str, tables: bool = True) -> None:
        super().__init__(name, tables)
        self.begin()

    def assume(self, condition: Traced) -> None:
        """Restrict the graph. A condition that depends on none of its inputs is decided now."""
        from ..rewrite.loops import drop_idle_carries  # heavy: the passes, which a program from disk does not need

        axes = tuple(range(len(condition.aux[1].shape)))  # a batch has a condition for each example
        condition = all_(condition, axis=axes, keepdims=False) if axes else condition
        alone = drop_idle_carries(dead_code(self.graph("sound", [condition])))
        if not values_read(alone).isdisjoint(range(len(self.inputs))):
            self.conditions.append(condition)
            return
        with np.errstate(all="ignore"):
            (holds,) = alone.run_flat([None] * len(self.inputs))
        if not holds:
            raise NotStagedError("its integers need more than 64 bits, or an operator raises")

    def undoing(self) -> Callable[[], None]:
        """What removes the equations from now on."""
        count, light, bounds, conditions = len(self.equations), dict(self.light), dict(self.bounds), list(self.conditions)

        def undo() -> None:
            del self.equations[count:]
            self.light, self.bounds, self.conditions = light, bounds, conditions

        return undo

    def restricted(self, outputs: Sequence[Value]) -> Sequence[Value]:
        """The results, nan where the conditions do not hold, and so are their derivatives."""
        if not self.conditions:
            return outputs
        other = next((dtype_of(y).name for y in outputs if dtype_of(y).kind != "f"), None)
        if other is not None:
            raise UnsupportedError(
                f"the function returns {with_article(other)}, and has integers that may need more than 64 bits, for which a "
                "graph gives nan; return a float, or compute with floats in place of integers"
            )
        sound = self.sound()
        return [mul(y, where(sound, dtype_of(y).type(1), dtype_of(y).type(np.nan))) for y in outputs]


def _variable(x: Traced) -> str:
    """The variable to which the source assigns a captured value; '' if it is not known."""
    while isinstance(x, Traced) and not isinstance(x.by, Stage):
        x = x.underlying
    if not isinstance(x, Traced):
        return ""
    lines = [e.line for e in x.by.equations if e.outputs == (x.aux[0],)]
    return lines[0].variable if lines and isinstance(lines[0], NamedLine) else ""
