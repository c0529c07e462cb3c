"""Staging the body of a loop or a branch: the values it closes over become inputs of its graph.

    w = traced                      graph step(w: float64[], c: float64[]) {
    def step(c):                      v2: float64[] = mul c, w
        return c * w                  return v2
                                    }

An outer traced value is not a constant: it is passed to the loop as one more argument, so that every transform sees it. Plain
arrays are constants of the body. An outer value that is a Python number has no dtype of its own: beside a float32 array it is a
float32. So the body notes which values are Python numbers, and casts them where they meet arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ..core.bind import Traced, around, class_of, is_array, snapshot, unwrap_fresh
from ..core.errors import UnsupportedError, is_written_by_user
from ..core.op import Op
from ..core.types import Type, Value, dtype_of
from ..ir.edit import distinct, mapped
from ..ir.graph import Equation, Graph, Operand
from .python import EXAMPLES, OPERATOR_MODULES, promoted, result_class
from .stage import Stage

_MODULES = OPERATOR_MODULES | {__name__}  # between an operator in user code and `Body.operate`


class NumbersNeededError(UnsupportedError):
    """A body that asks for a number while it is staged: it can only be run as a Python loop."""

    body: Body


class NumberStage(Stage):
    """A recording that knows which of its values are Python numbers."""

    __slots__ = ("light", "operating")

    def __init__(self, name: str, tables: bool = True) -> None:
        super().__init__(name, tables)
        self.light: dict[int, type] = {}  # Python numbers, by number of the value: their class
        self.operating = False  # an operator between Python numbers is being staged

    def lift(self, x: Value) -> Value:
        return x

    def class_of(self, x: Traced) -> type:
        return self.light.get(x.aux[0]) or super().class_of(x)

    def python_class(self, x: Value) -> type | None:
        """The class of a value that is a Python number, else None."""
        cls = class_of(x)
        return cls if cls in EXAMPLES else None

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        lifted: Sequence[Any] = [self.lift(a) for a in args]
        if self.light and not self.operating:
            given, lifted = lifted, promoted(op, lifted, self.python_class)
            for x, y in zip(given, lifted, strict=True):
                if y is not x and dtype_of(y).kind in "iu" and dtype_of(y) != dtype_of(x):
                    self.concrete(x, "the size of")  # NumPy refuses an integer that the dtype does not hold
        return super().process(op, tuple(lifted), params)

    def operate(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator in user code: between Python numbers it gives a Python number."""
        if isinstance(self.taken, Stage):
            return self.taken.operate(name, run, args)  # the op belongs to a branch
        if self.operating or not all(map(self.python_class, args)) or not is_written_by_user(_MODULES):
            return run(*args)
        return self.on_numbers(name, run, tuple([self.lift(a) for a in args]))

    def on_numbers(self, name: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operator between Python numbers."""
        self.operating = True
        try:
            y = run(*args)
        finally:
            self.operating = False
        cls = result_class(name, [class_of(a) for a in args])
        for part in y if isinstance(y, tuple) else (y,):
            if cls is not None and isinstance(part, Traced) and part.by is self:
                self.light[part.aux[0]] = cls
        return y


class Body(NumberStage):
    """The recording of a body. Outer values are numbered -1, -2, … until the graph is complete.

    Two bodies may share what they capture: the branches of a cond take the same operands. An `alone` body also records ops on
    outer values: a branch must not run them when it is not chosen. In a loop they are better run once, before it.
    """

    __slots__ = ("alone", "captured", "places", "restored")

    def __init__(self, name: str, sibling: Body | None = None, alone: bool = False) -> None:
        super().__init__(name)
        self.alone = alone
        self.captured: list[Traced] = sibling.captured if sibling else []
        self.places: dict[Any, int] = sibling.places if sibling else {}

    def __enter__(self) -> Self:
        outer = around.get() if self.alone else ()
        self.restored = [(trace, trace.closed, trace.taken) for trace in outer]
        super().__enter__()
        for trace in outer:
            if not trace.ended:
                trace.closed, trace.taken = True, self
        return self

    def __exit__(self, *exc: object) -> None:
        for trace, closed, taken in self.restored:
            trace.closed, trace.taken = closed, taken
        super().__exit__(*exc)

    def lift(self, x: Value) -> Value:
        """A value of another trace as an input of this body; any other unchanged."""
        x = unwrap_fresh(x)
        if not isinstance(x, Traced) or x.by is self:
            return x
        if x.by.ended:
            raise x.by.leaked()
        x = snapshot(x)
        key = (id(x.by), id(x.underlying), id(x.aux))  # the current value of x, which may be written to later
        if key not in self.places:
            self.captured.append(x)
            self.places[key] = -len(self.captured)
        if (cls := self.python_class(x)) is not None:
            self.light.setdefault(self.places[key], cls)
        return Traced(self, None, (self.places[key], Type.of(x), is_array(x)))

    def operand(self, x: Value) -> Operand:
        return super().operand(self.lift(x))

    def inner(self, name: str) -> Stage:
        return Body(name)

    def concrete(self, x: Traced, what: str) -> Any:
        error = NumbersNeededError(
            f"{what} a value inside {self.name} is not known while its body is staged; use np.where or ad.cond to choose "
            "between values"
        )
        error.body = self
        raise error

    def show(self, x: Traced) -> str:
        return f"<staged from outside: {x.aux[1]!r}>" if x.aux[0] < 0 else super().show(x)

    def captured_name(self, i: int) -> str:
        return f"w{i}"

    def graph(self, name: str, outputs: Sequence[Value]) -> Graph:
        """The graph, with the captured values as its first inputs."""
        results = [self.operand(y) for y in outputs]
        shift = len(self.captured)
        names: list[str] = []
        for i in range(shift):
            names.append(distinct(self.captured_name(i), {*self.names, *names}))

        def number(n: int) -> int:
            return n + shift if n >= 0 else -1 - n

        equations = [
            Equation(e.op, mapped(e.inputs, number), e.params, tuple([n + shift for n in e.outputs]), e.types, e.line)
            for e in self.equations
        ]
        types = [Type.of(x) for x in self.captured]
        return Graph(name, (*names, *self.names), (*types, *self.inputs), tuple(equations), mapped(results, number))
