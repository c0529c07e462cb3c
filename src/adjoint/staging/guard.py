"""Staging for the compiler: one call is recorded, with the guards under which the recording is valid.

Python code that asks for a number (an `if`, an index, a number of iterations) gets the number of this call, and a guard is
recorded: the program is valid for all calls with the same answers.

    if x > 0: …        a guard on the value of x > 0, which was True

Numbers are computed on demand (see `lazy.py`). Common subexpressions are shared while staging.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import strict
from ..core.bind import Traced
from ..core.errors import UnsupportedError, calls_under_way, in_a_try, on_line, user_line, written_on
from ..core.op import Op
from ..core.types import PYTHON_NUMBERS, Type, Value, is_inexact
from ..derive import type_rule
from ..eager.on_gpu import ON_GPU
from ..eager.record import at_once
from ..ir.columns import Columns, ColumnWriter, parameters
from ..ir.edit import live, mapped
from ..ir.graph import Graph, Literal
from ..ops.broadcast import reshape, where
from ..ops.elementwise import equal, greater, greater_equal, isnan, less, less_equal, logical_and, logical_or, not_equal
from ..ops.reduce import all_
from ..ops.shape import concatenate
from .lazy import Elsewhere, KnownValues
from .python import PythonNumbers, promoted, weight
from .questions import ARITHMETIC, IN_MEMORY, PARTS, Asked, Guard, same_answer
from .stage import Stage, with_numbers

_KEEP_ORDER: frozenset[Op] = frozenset({where, concatenate})  # ops that look at the order of all operands, as elementwise ones do
_COMPARISONS = frozenset({equal, not_equal, less, less_equal, greater, greater_equal})
MOST_CAPTURED = 256  # captured inputs
_OUR_FRAMES = 4  # where an equation is written: user_line, shared_equation, process, and what calls it
_UNUSED = Type((), np.dtype(float))  # of an input that is reserved


class _Known(NamedTuple):
    """The facts shared by equations with operands of the same kinds."""

    kind_number: int
    types: tuple[Type, ...]
    array: bool | None  # whether NumPy would give an array; None if that depends on the operands
    commutes: bool
    may_fail: bool
    sizes: tuple[int, ...]  # of the axes that the integers of an index read
    is_plain: bool  # an elementwise op with one result, whose type and memory order follow from these facts
    floats: list[int] | None  # the operands that are no bools or integers; None if the result is no single float


def _is_ordered(x: Any) -> bool:
    """Whether the order of an array in memory is not that of the numbers that a program computes."""
    if isinstance(x, Traced):
        return x.is_view or getattr(x, "memory_layout", None) is not None
    return isinstance(x, np.ndarray) and not x.flags.c_contiguous


@at_once
class Guarded(PythonNumbers):
    """One recording. `value` is not used, `aux` as in `Stage`."""

    __slots__ = (
        "asks_for_order",
        "attempts",
        "captured",
        "checked",
        "conditions",
        "decided",
        "decides_bools",
        "depth",
        "filters",
        "first_captured",
        "guards",
        "light",
        "numbers",
        "pending",
        "program",
        "reserved",
        "risky",
        "seen",
        "selections",
        "shared",
        "weak",
    )

    def __init__(self, name: str, tables: bool = True, decides_bools: bool = False) -> None:
        super().__init__(name, tables)
        self.decides_bools = decides_bools  # comparisons of Python numbers are guards at once: the function may ask `x is True`
        self.decided: set[int] = set()  # such comparisons
        self.guards: dict[tuple[int, Asked], Guard] = {}
        self.checked: set[tuple[int, Asked]] = set()  # guards covered by a condition
        self.conditions: list[int] = []  # booleans that the program depends on
        self.filters = strict.filters()
        self.arithmetic = ""  # the last line on which an operator between Python numbers has a condition
        self.asks_for_order = False  # what is a view and what is a copy has been asked of NumPy
        self.failed = False  # an op could not be computed: what the function did about it is right for this call only
        self.depth = len(calls_under_way())  # those that the function is called from
        self.attempts: list[range] = []  # results of ops that may fail, and whose failure the function may catch
        self.risky: dict[int, int] = {}  # results of ops that may fail: the first, and how many there are
        self.program = ColumnWriter()
        self.numbers = KnownValues(self.program)
        self.seen: dict[Any, _Known] = {}  # by the facts that determine the types of an equation
        self.shared: dict[Any, int] = {}  # common subexpressions: the first result of an equation, by kind and operands
        self.weak: dict[Any, tuple[int, Any]] = {}  # Python numbers as operands
        self.light: dict[int, Any] = {}  # values that are Python numbers: their promotion key
        self.pending: dict[int, type] = {}  # results of loops that are Python numbers: their class, without the number
        self.first_captured = 0  # the number of the first captured input
        self.reserved = 0  # how many numbers are reserved for such inputs
        self.captured: list[Traced] = []
        self.selections: dict[int, Any] = {}  # what numpy/selected.py has made of a mask, by its number

    def input(self, name: str, type_: Type) -> Traced:
        self.program.input(type_)
        return super().input(name, type_)

    def input_like(self, name: str, value: Value) -> Traced:
        number, type_, _ = self.input(name, Type.of(value)).aux
        x = Traced(self, None, (number, type_, isinstance(value, (np.ndarray, Elsewhere))))
        self.numbers.give(x.aux[0], value)
        if type(value) in PYTHON_NUMBERS:
            self.light[x.aux[0]] = weight(value)
        return x

    def reserve(self) -> None:
        """Reserve numbers for values that the function will capture: all inputs come before the first equation."""
        self.first_captured, self.reserved = len(self.inputs), MOST_CAPTURED
        self.program.reserve(MOST_CAPTURED, _UNUSED)
        self.inputs += [_UNUSED] * MOST_CAPTURED
        self.names += [""] * MOST_CAPTURED

    def capture(self, name: str, value: Value) -> Traced:
        """A captured value, as one more input."""
        number = self.first_captured + len(self.captured)
        if len(self.captured) == self.reserved:
            raise UnsupportedError(f"the function reads more than {self.reserved} outside arrays; pass them as an argument")
        type_ = Type.of(value)
        self.inputs[number], self.names[number] = type_, name
        self.program.type_of[number] = self.program.type_number(type_)
        is_in_rows = not isinstance(value, np.ndarray) or value.flags.c_contiguous
        self.numbers.give(number, value if is_in_rows else value.copy("C"))  # as programs take it
        if type(value) in PYTHON_NUMBERS:
            self.light[number] = weight(value)
        x = Traced(self, None, (number, type_, isinstance(value, (np.ndarray, Elsewhere))))
        self.captured.append(x)
        return x

    def final(self, number: int) -> int:
        """The number of a value after unused reserved numbers are removed."""
        return number - self.spare if number >= self.first_captured + self.reserved else number

    @property
    def spare(self) -> int:
        return self.reserved - len(self.captured)

    def adopt(self, x: Traced, new: Any) -> None:
        if any(x is found for found in self.captured):
            name = self.names[x.aux[0]]
            raise UnsupportedError(
                f"the function writes to {name}, an outside array: the program would not; write to a copy, or return the "
                "new value"
            )
        super().adopt(x, new)

    def alias(self, x: Traced) -> Traced:
        """The same value under a new number."""
        number, type_, array = x.aux
        program = self.program
        known = self.seen.get(type_)
        if known is None:
            known = self.seen[type_] = self.look_at(reshape, [number], {"shape": type_.shape})
        own = program.write(known.kind_number, [number], (), written_on.get() or user_line())
        if number in self.light:
            self.keep_weak(own, (self.numbers[number],))
        same = Traced(self, None, (own, type_, array))
        same.memory_layout = x.noted_strides
        return same

    def inner(self, name: str) -> Stage:
        return Stage(name)  # a loop body must be valid for every iteration: no guards

    def need(self, y: Traced) -> None:
        """Make the program compute a value even if it is unused: it misses where the type differs."""
        condition = logical_or(equal(y, y), isnan(y))  # True for any number
        self.check(all_(condition, axis=tuple(range(len(y.aux[1].shape))), keepdims=False), "a value")

    def conclude(self) -> None:
        """Add the conditions on Python arithmetic to the guards."""
        if self.arithmetic:
            key = self.conditions[-1], Asked.TRUTH
            self.guards[key] = Guard(*key, True, ARITHMETIC, self.arithmetic)
            self.checked.add(key)

    def refuse_errors(self) -> None:
        """Refuse functions that ask for floating-point errors: a program gives inf and nan."""
        if strict.raises():
            what = "np.errstate or np.seterr"
        elif strict.filters() is not self.filters and strict.warnings_are_errors():
            what = "a filter of warnings"
        else:
            return
        raise UnsupportedError(
            f"{what} makes division by zero, overflow or invalid operations raise, which compiled code does not; set it where "
            "the function is called, or test the numbers"
        )

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write an equation; one of the same op and operands is shared (common subexpressions)."""
        if strict.state() is not strict.QUIET[0] or strict.filters() is not self.filters:
            self.refuse_errors()
        if self.pending and any(map(self.is_pending, args)):
            args = promoted(op, args, self.class_of_pending)
        operands, kinds = self.operands_of(args)
        if params:
            params = with_numbers(params)
        known = self.facts_of(op, operands, kinds, params)
        first = self.shared_equation(op, operands, params, known)
        if known.is_plain and not self.light:  # most equations
            return Traced(self, None, (first, known.types[0], known.array))
        if known.may_fail:
            if in_a_try(self.depth):
                self.attempts.append(range(first, first + len(known.types)))
            else:
                self.risky[first] = len(known.types)
        if op.many:
            array = op.gives_array(args)
            return tuple([Traced(self, None, (n, t, t.shape != () or array)) for n, t in enumerate(known.types, first)])
        return self.one_result(op, args, params, first, known)

    def operands_of(self, args: Sequence[Any]) -> tuple[list[int], list[Any]]:
        """The numbers of the operands, and what the types of the results follow from: their types or promotion keys."""
        light, type_of = self.light, self.program.type_of
        operands: list[int] = []
        kinds: list[Any] = []
        for a in args:
            if type(a) in PYTHON_NUMBERS:
                number, kind = self.weak_number(a)
            elif isinstance(a, Traced) and a.by is self:
                number = a.aux[0]
                kind = light[number] if number in light else type_of[number]
            else:
                number, kind = self.plain_operand(a)
            operands.append(number)
            kinds.append(kind)
        return operands, kinds

    def facts_of(self, op: Op, operands: list[int], kinds: list[Any], params: dict[str, Any]) -> _Known:
        """The facts about an equation, which are found once for operands and parameters of these kinds."""
        if params:
            kinds.append(parameters(op, params))
        if op.typed_by_value:
            kinds.append(tuple(map(Type.of, self.run(op, operands, params))))
        key = (op, *kinds)
        known = self.seen.get(key)
        if known is None:
            known = self.seen[key] = self.look_at(op, operands, params)
        return known

    def shared_equation(self, op: Op, operands: list[int], params: dict[str, Any], known: _Known) -> int:
        """The number of an equation's first result: of an equal earlier equation, or of one that is written now."""
        integers = self.integers_of(op, operands, params, known.sizes) if known.sizes else ()
        in_order = reversed(operands) if known.commutes and operands[0] > operands[1] else operands
        key = (known.kind_number, *in_order, integers)
        first = self.shared.get(key)
        if first is None:
            line = written_on.get() or user_line(_OUR_FRAMES)
            first = self.shared[key] = self.program.write(known.kind_number, operands, integers, line)
            floats = known.floats
            if floats is not None and (self.masks or not floats) and self.masks.issuperset([operands[i] for i in floats]):
                self.masks.add(first)
            if known.types and (self.light or op.typed_by_value):  # a loop may have no results
                self.check_type(op, operands, params, first, known.types[0])
        return first

    def one_result(self, op: Op, args: Sequence[Any], params: dict[str, Any], first: int, known: _Known) -> Any:
        """The result of an op that has one; a bool for a comparison that must be known at once."""
        y = Traced(self, None, (first, known.types[0], op.gives_array(args) if known.array is None else known.array))
        if self.decides_bools and first in self.light and self.light[first][0] is bool and op in _COMPARISONS:
            self.decided.add(first)
            return bool(y)
        keeps_order = op.kind == "elementwise" or op in _KEEP_ORDER
        if keeps_order and len(known.types[0].shape) > 1 and any(map(_is_ordered, args)):
            y.memory_layout = functools.partial(self.order_of, y, op, args, params)
        return y

    order_of: Callable[..., Any]  # of a result whose operands have an order of their own, set by numpy/layout.py

    def integers_of(self, op: Op, operands: Sequence[int], params: dict[str, Any], sizes: Sequence[int]) -> tuple[int, ...]:
        """The integers of an index, which must be inside the axes that they read."""
        integers = tuple([part for part in params["spec"] if isinstance(part, int)])
        if any(not -size <= i < size for i, size in zip(integers, sizes, strict=True)):
            self.run(op, operands, params)  # raises
        return integers

    def check_type(self, op: Op, operands: Sequence[int], params: dict[str, Any], first: int, type_: Type) -> None:
        """Note a result that is a Python number, and have a type checked at each call that depends on values."""
        if self.light and not op.many and all(map(self.is_weak, operands)):  # ops with several results, as loops, give arrays
            self.keep_weak(first, self.run(op, operands, params))
        if op.typed_by_value:
            self.need(Traced(self, None, (first, type_, True)))

    def look_at(self, op: Op, operands: Sequence[int], params: dict[str, Any]) -> _Known:
        """The facts about all equations with operands and parameters of these kinds."""
        program = self.program
        types = self.types_of(op, operands, params)
        number = program.kind_number(op, [program.operand_type(o) for o in operands], params, types)
        array = True if any(t.shape for t in types) else False if op.no_axes == "scalar" else None
        commutes = op.commutative and len(operands) == 2
        is_plain = op.kind == "elementwise" and len(types) == 1 and len(types[0].shape) < 2 and array is not None
        is_plain = is_plain and not (op.many or op.may_fail or op.typed_by_value)
        is_float = len(types) == 1 and is_inexact(types[0].dtype)
        floats = [i for i, o in enumerate(operands) if o >= 0 and is_inexact(program.type_of_operand(o).dtype)]
        return _Known(
            number, types, array, commutes, op.may_fail, program.kinds[number].sizes, is_plain, floats if is_float else None
        )

    def weak_number(self, x: Any) -> tuple[int, Any]:
        """A Python number as an operand, and its promotion key."""
        key = (type(x), x if x and type(x) is not complex else repr(x))  # distinguishes -0.0 from 0.0
        found = self.weak.get(key)
        if found is None:
            found = self.weak[key] = self.program.literal(Literal(x)), (Literal, *weight(x))
        return found

    def is_weak(self, operand: int) -> bool:
        """Whether an operand is a Python number."""
        return operand in self.light if operand >= 0 else self.program.literals[-1 - operand].is_weak

    def keep_weak(self, first: int, values: tuple[Any, ...]) -> None:
        """The results of an op on Python numbers, which may be Python numbers again."""
        self.numbers.keep(first, values, {})
        self.light.update((n, weight(value)) for n, value in enumerate(values, first) if type(value) in PYTHON_NUMBERS)

    def plain_operand(self, x: Value) -> tuple[int, Any]:
        """An array or scalar that is not traced, as an operand, and its type. One on a GPU is a constant, copied here."""
        if isinstance(x, Traced) and x.by is ON_GPU:
            x = x.by.concrete(x, "the value of")
        literal = self.operand(x)
        assert isinstance(literal, Literal)
        return self.program.literal(literal), -1 - self.program.type_number(literal.type)

    def types_of(self, op: Op, operands: Sequence[int], params: dict[str, Any]) -> tuple[Type, ...]:
        """The types of an op's results."""
        program = self.program
        types = [program.types[program.type_of[o]] if o >= 0 else program.literals[-1 - o].type for o in operands]
        weak = [self.numbers[o] if self.is_weak(o) else None for o in operands]
        is_told = (op.many or None in weak) and not op.typed_by_value
        found = _told(op, types, params, weak) if is_told else None
        return found or tuple(map(Type.of, self.run(op, operands, params)))

    def run(self, op: Op, operands: Sequence[int], params: dict[str, Any]) -> tuple[Any, ...]:
        """The results of an op on the numbers of this call."""
        with np.errstate(all="ignore"):
            result = op.impl(*[self.numbers[o] for o in operands], **params)
        return tuple(result) if op.many else (result,)

    def class_of(self, x: Traced) -> type:
        weight = self.light.get(x.aux[0])
        if weight is not None:
            return weight[0]  # type: ignore[no-any-return]
        return self.pending.get(x.aux[0]) or super().class_of(x)

    def line(self, x: Traced) -> str:
        return self.program.line_of[x.aux[0]]

    def known(self, x: Traced) -> Any:
        """The numbers of this call, without a guard: for choices that are right for other numbers too."""
        try:
            return self.numbers[x.aux[0]]
        except Exception:
            self.failed = True
            raise

    def concrete(self, x: Traced, what: str) -> Any:
        number, of, value = x.aux[0], PARTS.get(what, Asked.ALL), self.known(x)
        self.asks_for_order = self.asks_for_order or what == IN_MEMORY
        if of is not Asked.TYPE and (number, of) not in self.guards:
            answer = value.copy() if isinstance(value, np.ndarray) else value
            if of is Asked.TRUTH:
                answer = bool(answer)
            elif of is Asked.WHOLE and x.aux[1].dtype.kind == "f":
                answer = np.trunc(answer)
            self.guards[number, of] = Guard(number, of, answer, what, user_line())
        return value

    def abandon(self) -> None:
        self.failed = True

    def holds(self, since: int = 0) -> Traced | None:
        """Whether all guards on values from a number on have the answers of this call; None if there are none."""
        result = None
        for same in self._answers(since):
            result = same if result is None else logical_and(result, same)
        return result

    def require(self, condition: Traced, since: int) -> None:
        """Restrict the program to calls where a condition holds, which replaces the guards of `holds(since)`."""
        self.checked.update([key for key, guard in self.guards.items() if guard.number >= since])
        self.conditions = [*(n for n in self.conditions if n < since), condition.aux[0]]

    def _answers(self, since: int) -> Iterator[Any]:
        program = self.program
        for number in [n for n in self.conditions if n >= since]:
            yield Traced(self, None, (number, program.types[program.type_of[number]], False))
        for key, guard in self.guards.items():
            if guard.number >= since and key not in self.checked:
                type_ = program.types[program.type_of[guard.number]]
                with on_line(guard.line):  # attribute the ops on the answer to the same line
                    yield same_answer(Traced(self, None, (guard.number, type_, type_.shape != ())), type_, guard)

    def graph(self, name: str, outputs: Sequence[Value]) -> Graph:
        results = tuple([self.operand(y) for y in outputs])
        attempts = [] if self.failed else self.attempts  # if one did fail, the graph is not used
        found, count = self.program.columns(), len(self.inputs) - self.spare
        is_live = live(found, results) if attempts else ()
        for attempt in attempts:
            if not is_live[found.made_by[attempt[0] - found.inputs]]:  # dead code: the program would never fail
                raise UnsupportedError(
                    "an operation is tried for its error only, and its result is not used", self.program.line_of[attempt[0]]
                )
        operands = np.where(found.operands >= self.first_captured + self.reserved, found.operands - self.spare, found.operands)
        columns = Columns(self.inputs[:count], found.kinds, found.literals, found.kind, operands, found.integers, found.lines)
        results = mapped(results, self.final)
        return Graph(name, tuple(self.names[:count]), tuple(self.inputs[:count]), columns, results)


def _told(op: Op, types: Sequence[Type], params: dict[str, Any], weak: Sequence[Any]) -> tuple[Type, ...] | None:
    """The types of an op's results, if known without running it."""
    try:
        found = type_rule(op, types, params, weak)
    except Exception:  # no type rule, or a user error: running the op gives the types, or NumPy's error
        return None
    return found if op.many else (found,)
