"""A long program as columns of numbers.

    v3 = sin v2;  v4 = mul v3, v0;  v5 = sin v4;  v6 = mul v5, v0        kinds     sin mul sin mul
                                                                        operands  2  3 0  4  5 0

Ten thousand iterations of a Python loop are a million equations, which differ only in the numbers of their operands. What they
share is a `Kind`, stored once; the rest are arrays of integers, which NumPy processes quickly. `Equation` objects are made on
demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, overload

import numpy as np

from ..core.locks import cached
from ..core.op import Op
from ..core.types import Shape, Type
from .contents import contents, is_repeated
from .graph import Equation, Graph, Literal, Operand

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_SMALL = 16  # elements; up to this size an array is identified by its contents as quickly as by identity


class Kind(NamedTuple):
    """The common part of equations that differ only in their operands and in the integers of an index."""

    op: Op
    operands: tuple[Any, ...]  # the type of each; for constants see `constant_type`
    params: Mapping[str, Any]  # those of one of the equations
    types: tuple[Type, ...]
    places: tuple[int, ...]  # positions of the integers in an index
    sizes: tuple[int, ...]  # of the axes that they read

    def params_with(self, integers: Sequence[int]) -> Mapping[str, Any]:
        """The parameters of one equation."""
        if not self.places:
            return self.params
        spec = list(self.params["spec"])
        for place, integer in zip(self.places, integers, strict=True):
            spec[place] = integer
        return {**self.params, "spec": tuple(spec)}


def parameters(op: Op, params: Mapping[str, Any]) -> Any:
    """A key for the parameters of an equation, but for the integers of an index."""
    if op.indexed:
        spec = tuple(["i" if isinstance(part, int) else hashable(part) for part in params["spec"]])
        return spec, params.get("shape")
    return tuple([(name, hashable(value)) for name, value in params.items()])


def hashable(value: Any) -> Any:
    """A key for a parameter. Objects that cannot be compared by value are compared by identity."""
    if isinstance(value, tuple):
        return tuple(map(hashable, value))
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    if isinstance(value, np.ndarray):
        if is_repeated(value):
            return "repeated", value.dtype, value.shape, value.flat[0].tobytes()
        return "array", value.dtype, value.shape, contents(value)
    if isinstance(value, float):
        return "float", value.hex()  # distinguishes -0.0 from 0.0
    if isinstance(value, complex):
        return "complex", value.real.hex(), value.imag.hex()
    try:
        hash(value)
    except TypeError:
        return "id", id(value)
    return type(value), value


class Columns(Sequence[Equation]):
    """Equations, whose values are numbered in order after the inputs.

    kind       of each equation, as an index into `kinds`
    operands   of all equations, concatenated: the number of a value, or -1 - n for the n-th of `literals`
    integers   of all indices, concatenated
    lines      the user's line of each equation

    The operands of equation i begin at `first_operand[i]`, its integers at `first_integer[i]`, its results with the number
    `first_number[i]`; each has one more entry, for the end.
    """

    def __init__(
        self,
        input_types: Sequence[Type],
        kinds: Sequence[Kind],
        literals: Sequence[Literal],
        kind: Any,
        operands: Any,
        integers: Any,
        lines: Any,
    ) -> None:
        self.input_types = tuple(input_types)
        self.inputs = len(self.input_types)
        self.kinds = tuple(kinds)
        self.literals = tuple(literals)
        self.kind: Numbers = np.asarray(kind, np.int64)
        self.operands: Numbers = np.asarray(operands, np.int64)
        self.integers: Numbers = np.asarray(integers, np.int64)
        self.lines = np.asarray(lines, object)
        self.first_operand = _starts([len(k.operands) for k in kinds], self.kind)
        self.first_number = self.inputs + _starts([len(k.types) for k in kinds], self.kind)
        self.first_integer = _starts([len(k.places) for k in kinds], self.kind)

    @cached
    def made_by(self) -> Numbers:
        """The equation that defines each value after the inputs."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_number))

    @property
    def values(self) -> int:
        """The number of values, inputs included."""
        return int(self.first_number[-1])

    def type_of(self, operand: Operand) -> Type:
        if not isinstance(operand, int):
            return operand.type
        if operand < self.inputs:
            return self.input_types[operand]
        i = self.made_by[operand - self.inputs]
        return self.kinds[self.kind[i]].types[operand - self.first_number[i]]

    def __len__(self) -> int:
        return len(self.kind)

    @overload
    def __getitem__(self, i: int) -> Equation: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Equation, ...]: ...

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return tuple([self[k] for k in range(len(self))[i]])
        i = range(len(self))[i]
        kind = self.kinds[self.kind[i]]
        return self._made(
            kind,
            self.operands[self.first_operand[i] : self.first_operand[i + 1]].tolist(),
            self.integers[self.first_integer[i] : self.first_integer[i + 1]].tolist() if kind.places else (),
            int(self.first_number[i]),
            self.lines[i],
        )

    def __iter__(self) -> Iterator[Equation]:
        operands, integers = self.operands.tolist(), self.integers.tolist()
        at, at_integer, number = 0, 0, self.inputs
        for k, line in zip(self.kind.tolist(), self.lines.tolist(), strict=True):
            kind = self.kinds[k]
            stop, stop_integer = at + len(kind.operands), at_integer + len(kind.places)
            yield self._made(kind, operands[at:stop], integers[at_integer:stop_integer], number, line)
            at, at_integer, number = stop, stop_integer, number + len(kind.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Columns, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((len(self), self.inputs))

    def __reduce__(self) -> Any:
        return tuple, (list(self),)

    def _made(self, kind: Kind, operands: list[int], integers: Sequence[int], number: int, line: str) -> Equation:
        inputs = tuple([o if o >= 0 else self.literals[-1 - o] for o in operands])
        outputs = (number,) if len(kind.types) == 1 else tuple(range(number, number + len(kind.types)))
        return Equation(kind.op, inputs, kind.params_with(integers), outputs, kind.types, line)  # type: ignore[arg-type]

    def chosen(self, order: Any, outputs: Sequence[Operand]) -> tuple[Columns, tuple[Operand, ...]]:
        """Some equations, possibly in another order, renumbered; and the outputs, in the new numbers."""
        counts = np.diff(self.first_number)[order]
        numbers = np.full(self.values, -1, np.int64)
        numbers[: self.inputs] = np.arange(self.inputs)
        made = ranges(self.first_number[:-1][order], counts)
        numbers[made] = np.arange(self.inputs, self.inputs + len(made))
        operands = self.operands[ranges(self.first_operand[:-1][order], np.diff(self.first_operand)[order])]
        held = operands >= 0
        operands[held] = numbers[operands[held]]
        integers = self.integers[ranges(self.first_integer[:-1][order], np.diff(self.first_integer)[order])]
        found = Columns(self.input_types, self.kinds, self.literals, self.kind[order], operands, integers, self.lines[order])
        return found, tuple([int(numbers[o]) if isinstance(o, int) else o for o in outputs])

    def changed(self, replaced: Mapping[int, Equation], added: Sequence[Equation]) -> Columns:
        """With some equations replaced by others with the same numbers of operands and results, and more at the end."""
        tables = _Tables(self.kinds, self.literals)
        kind, operands = self.kind.copy(), self.operands.copy()

        def put_down(e: Equation) -> tuple[int, list[int]]:
            read = [o if isinstance(o, int) else tables.literal(o) for o in e.inputs]
            types = [constant_type(o) if isinstance(o, Literal) else types_of(o) for o in e.inputs]
            return tables.kind_number(e.op, types, e.params, e.types), read

        new = {n: t for e in added for n, t in zip(e.outputs, e.types, strict=True)}

        def types_of(o: int) -> Type:
            return new[o] if o in new else self.type_of(o)

        for i, e in replaced.items():
            kind[i], operands[self.first_operand[i] : self.first_operand[i + 1]] = put_down(e)
        more = [put_down(e) for e in added]
        return Columns(
            self.input_types,
            tables.kinds,
            tables.literals,
            np.concatenate([kind, [number for number, _ in more]]),
            np.concatenate([operands, [o for _, read in more for o in read]]),
            self.integers,
            np.concatenate([self.lines, np.array([e.line for e in added], object)]),
        )


def _starts(widths: Sequence[int], kind: Numbers) -> Numbers:
    """The offset of each equation in a concatenated column, and its length."""
    found = np.zeros(len(kind) + 1, np.int64)
    if len(kind):
        np.cumsum(np.array(widths, np.int64)[kind], out=found[1:])
    return found


def ranges(starts: Numbers, counts: Numbers) -> Numbers:
    """The concatenated ranges from each start, of the given lengths: [5, 1], [2, 3] gives 5 6 1 2 3."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


class _Tables:
    """The shared parts of equations: kinds and constants, each stored once."""

    def __init__(self, kinds: Iterable[Kind] = (), literals: Iterable[Literal] = ()) -> None:
        self.kinds = list(kinds)
        self.literals = list(literals)
        self._kinds = {_key(k.op, k.operands, k.params, k.types): number for number, k in enumerate(self.kinds)}
        self._marks = {_mark(literal): -1 - number for number, literal in enumerate(self.literals)}
        self._held: dict[int, tuple[Literal, int]] = {}

    def literal(self, literal: Literal) -> int:
        """The operand of a constant: the same for equal ones."""
        held = self._held.get(id(literal.value))
        if held is not None:
            return held[1]
        mark = self._marks.setdefault(_mark(literal), -1 - len(self.literals))
        if mark == -1 - len(self.literals):
            self.literals.append(literal)
        if not literal.is_weak and literal.value.size > _SMALL:
            self._held[id(literal.value)] = literal, mark  # keeps the value alive, so that its id stays unique
        return mark

    def kind_number(self, op: Op, operands: Sequence[Any], params: Mapping[str, Any], types: tuple[Type, ...]) -> int:
        """The index of a kind in `kinds`, given the types of its operands."""
        key = _key(op, operands, params, types)
        number = self._kinds.get(key)
        if number is None:
            number = self._kinds[key] = len(self.kinds)
            held = MappingProxyType(dict(params))
            self.kinds.append(Kind(op, tuple(operands), held, types, *_integers(op, operands, params)))
        return number


def constant_type(literal: Literal) -> tuple[type, Type | None]:
    """The constant as part of a kind: the class of a Python number, the type of an array."""
    return type(literal.value), None if literal.is_weak else literal.type


def _key(op: Op, operands: Sequence[Any], params: Mapping[str, Any], types: tuple[Type, ...]) -> Any:
    return op, tuple(operands), parameters(op, params) if params else (), types


def _mark(literal: Literal) -> Any:
    return type(literal), hashable(literal.value)


class ColumnWriter(_Tables):
    """Columns that are being written, equation by equation."""

    def __init__(self, inputs: Iterable[Type] = ()) -> None:
        super().__init__()
        self.kind: list[int] = []
        self.operands: list[int] = []
        self.integers: list[int] = []
        self.lines: list[str] = []
        self.types: list[Type] = []  # all that occur
        self.type_of: list[int] = []  # of each value, as an index into `types`
        self.line_of: list[str] = []  # each value
        self.results: list[tuple[int, ...]] = []  # result types of each kind, likewise
        self.inputs = 0
        self._types: dict[Type, int] = {}
        for type_ in inputs:
            self.input(type_)

    def input(self, type_: Type) -> int:
        """Add an input, before all equations; returns its number."""
        self.type_of.append(self.type_number(type_))
        self.line_of.append("")
        self.inputs += 1
        return self.inputs - 1

    def reserve(self, count: int, type_: Type) -> None:
        """Add several inputs."""
        self.type_of += [self.type_number(type_)] * count
        self.line_of += [""] * count
        self.inputs += count

    def type_number(self, type_: Type) -> int:
        number = self._types.get(type_)
        if number is None:
            number = self._types[type_] = len(self.types)
            self.types.append(type_)
        return number

    def type_of_operand(self, operand: int) -> Type:
        return self.types[self.type_of[operand]] if operand >= 0 else self.literals[-1 - operand].type

    def operand_type(self, operand: int) -> Any:
        """The type of an operand; for constants see `constant_type`."""
        return self.types[self.type_of[operand]] if operand >= 0 else constant_type(self.literals[-1 - operand])

    def kind_number(self, op: Op, operands: Sequence[Any], params: Mapping[str, Any], types: tuple[Type, ...]) -> int:
        number = super().kind_number(op, operands, params, types)
        if number == len(self.results):
            self.results.append(tuple(map(self.type_number, types)))
        return number

    def write(self, kind_number: int, operands: Sequence[int], integers: Sequence[int], line: str) -> int:
        """Add an equation; returns the number of its first result."""
        first = len(self.type_of)
        results = self.results[kind_number]
        self.kind.append(kind_number)
        self.operands += operands
        self.lines.append(line)
        if integers:
            self.integers += integers
        self.type_of += results
        self.line_of += (line,) * len(results)
        return first

    def copy(self, e: Equation) -> None:
        """Add an equation, whose results are numbered in order."""
        operands = [o if isinstance(o, int) else self.literal(o) for o in e.inputs]
        number = self.kind_number(e.op, [self.operand_type(o) for o in operands], e.params, e.types)
        spec = e.params["spec"] if self.kinds[number].places else ()
        self.write(number, operands, [spec[k] for k in self.kinds[number].places], e.line)

    def columns(self) -> Columns:
        types = [self.types[t] for t in self.type_of[: self.inputs]]
        return Columns(types, self.kinds, self.literals, self.kind, self.operands, self.integers, self.lines)


def _integers(op: Op, operands: Sequence[Any], params: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places of the integers in an index, and the sizes of the axes that they read."""
    spec = params["spec"] if op.indexed else ()
    places = tuple([k for k, part in enumerate(spec) if isinstance(part, int)])
    shape = params["shape"] if "shape" in params else _shape(operands[0]) if places else ()
    return places, tuple([shape[sum(part is not None for part in spec[:k])] for k in places])


def _shape(operand: Any) -> Shape:
    return operand.shape if isinstance(operand, Type) else operand[1].shape  # type: ignore[no-any-return]


def columns_of(graph: Graph) -> Columns:
    """The equations of a graph, numbered in order, as columns."""
    if isinstance(graph.equations, Columns):
        return graph.equations
    writer = ColumnWriter(graph.input_types)
    for e in graph.equations:
        writer.copy(e)
    return writer.columns()
