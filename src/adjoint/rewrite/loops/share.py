"""What loops have in common: a value that an earlier loop computes in each turn is handed on as rows.

    scan: c = sin(c) + x   gives the rows c                scan: c = sin(c) + x   gives the rows c, s = cos(c)
    scan: g = g * cos(c)   reads the rows c     becomes    scan: g = g * s        reads the rows s
    scan: h = h * cos(c)   reads the rows c                scan: h = h * s        reads the rows s

Loops that start from the same values and go on alike are one: those of `grad(f, 0)(x, y)` and `grad(f, 1)(x, y)`, say. Values get
names, the same for equal ones; a turn of one loop and the turn of another that read the same rows meet in these. What takes no
longer to compute than to read is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...core.op import Elementwise
from ...core.types import Type
from ...ir.columns import COMMUTATIVE, hashable
from ...ir.graph import Equation, Graph, Operand
from ..simplify.passes import renumber

G = TypeVar("G", bound=Graph)

_LARGEST = 1 << 22  # elements of a stack that is kept to be read,
_CACHED = 1 << 18  # and of one whose elements are functions of others: beyond, they are computed as quickly as read
_CHEAP = frozenset(
    {"absorb", "add", "astype", "broadcast_to", "chain", "conj", "div", "equal", "getitem", "greater", "greater_equal", "less"}
    | {"less_equal", "logical_and", "logical_not", "logical_or", "mul", "neg", "not_equal", "place", "reciprocal", "reshape"}
    | {"sign", "sqrt", "square", "sub", "transpose", "where", "zero_like"}
)


def shared_turns(graph: G) -> G:
    """The same values, with what several loops compute computed by the first of them."""
    scans = [e for e in graph.equations if e.op.name == "scan"]
    if len(scans) < 2:
        return graph
    naming = _Naming()
    loops = {e.outputs: naming.loop(e) for e in scans}
    if not any(loop.taken for loop in loops.values()):
        return graph
    for loop in loops.values():
        loop.ask()
    emitter = _Emitter(1 + max([len(graph.input_types), *(n for e in graph.equations for n in e.outputs)]))
    for e in graph.equations:
        emitter.emit(e, loops.get(e.outputs) if e.op.name == "scan" else None)
    outputs = tuple([emitter.read(o) for o in graph.outputs])
    return renumber(replace(graph, equations=tuple(emitter.equations), outputs=outputs))


@dataclass(eq=False)
class _Loop:
    """A scan, and what of it others compute, or take from it: values of its body, by number."""

    scan: Equation
    names: dict[int, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)  # names of the carries after a turn
    taken: dict[int, tuple[_Loop, int]] = field(default_factory=dict)  # the loop that computes a value, and its number there
    asked: list[int] = field(default_factory=list)  # values that others read, besides those that it stacks
    stacks: dict[int, int] = field(default_factory=dict)  # the numbers of their stacks outside

    def __post_init__(self) -> None:
        params = self.scan.params
        self.body: Graph = params["body"]
        self.types = self.body.types
        self.consts, self.carries, self.length = params["consts"], params["carries"], params["length"]
        self.state = range(self.consts, self.consts + self.carries)
        outputs = zip(self.body.outputs[self.carries :], self.scan.outputs[self.carries :], strict=True)
        self.stacks = {value: number for value, number in outputs if isinstance(value, int)}

    def needed(self) -> set[int]:
        """The values of the body that are still read in it, or stacked."""
        needed = {o for i, o in enumerate(self.body.outputs) if isinstance(o, int) and not self.is_given(i)}
        needed.update(self.asked)
        for e in reversed(self.body.equations):
            if any(n in needed and n not in self.taken for n in e.outputs):
                needed.update([o for o in e.inputs if isinstance(o, int)])
        return needed

    def is_given(self, i: int) -> bool:
        """Whether an output is one of another loop's."""
        return (self.consts + i if i < self.carries else self.body.outputs[i]) in self.taken

    def ask(self) -> None:
        """Have other loops stack what this one reads of them."""
        given = [o for i, o in enumerate(self.body.outputs) if i >= self.carries and self.is_given(i)]
        for n in [*self.needed(), *given]:
            if n in self.taken:
                maker, value = self.taken[n]  # type: ignore[index]
                if value not in maker.stacks and value not in maker.asked:
                    maker.asked.append(value)


class _Naming:
    """Names of values: whole numbers, the same for the same op of the same values."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.stacks: dict[int, int] = {}  # the name of what is in the rows of a value of the graph
        self.made: dict[int, tuple[_Loop, int]] = {}
        self.changing: set[int] = set()  # those that are not the same in all turns
        self.starts: dict[Any, tuple[_Loop, int]] = {}  # carries, by what they start from

    def name(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def loop(self, scan: Equation) -> _Loop:
        """A loop with the names of its values, and which of them earlier loops compute."""
        loop = _Loop(scan)
        same = {}  # carries that may be those of an earlier loop
        for i, n in enumerate(loop.state):
            start = (scan.inputs[n], loop.length, scan.params["reverse"])
            if start in self.starts:
                same[i] = self.starts[start]
        self._name(loop, same)
        while wrong := [i for i, (other, j) in same.items() if loop.ends[i] != other.ends[j]]:
            for i in wrong:
                del same[i]
            self._name(loop, same)
        self._take(loop, bool(same) and len(same) == loop.carries)
        for i, n in enumerate(loop.state):
            self.starts.setdefault((scan.inputs[n], loop.length, scan.params["reverse"]), (loop, i))
            self.made.setdefault(loop.names[n], (loop, n))
        for e in loop.body.equations:
            for n in e.outputs:
                self.made.setdefault(loop.names[n], (loop, n))
        for value, number in zip(loop.body.outputs[loop.carries :], scan.outputs[loop.carries :], strict=True):
            if isinstance(value, int):
                self.stacks[number] = loop.names[value]
        return loop

    def _name(self, loop: _Loop, same: dict[int, tuple[_Loop, int]]) -> None:
        """Name the values of a loop, given which of its carries are those of others."""
        scan, names = loop.scan, loop.names
        names.clear()
        for n, o in enumerate(scan.inputs):
            if n < loop.consts:
                names[n] = self.name(("const", o))
            elif n in loop.state:
                i = n - loop.consts
                names[n] = (
                    same[i][0].names[same[i][0].consts + same[i][1]] if i in same else self.name(("carry", scan.outputs, i))
                )
            else:
                names[n] = self.stacks[o] if isinstance(o, int) and o in self.stacks else self.name(("rows", o))
            if n >= loop.consts:
                self.changing.add(names[n])

        def read(o: Operand) -> int:
            return names[o] if isinstance(o, int) else self.name(("constant", o))

        for e in loop.body.equations:
            operands = tuple(map(read, e.inputs))
            if e.op.name in COMMUTATIVE:
                operands = tuple(sorted(operands))
            params = tuple([(name, hashable(value)) for name, value in e.params.items()])
            for k, n in enumerate(e.outputs):
                names[n] = self.name((e.op, params, operands, e.types, k))
                if not self.changing.isdisjoint(operands):
                    self.changing.add(names[n])
        loop.ends = [read(o) for o in loop.body.outputs[: loop.carries]]

    def _take(self, loop: _Loop, everything: bool) -> None:
        """Note what is computed by earlier loops. With `everything`, the loop goes on like one of them."""
        for n in loop.state:
            self._take_one(loop, n, _LARGEST)
        for e in loop.body.equations:
            is_cheap = e.op.name in _CHEAP and not everything
            for n in e.outputs:
                if loop.names[n] in self.changing:
                    self._take_one(loop, n, 0 if is_cheap else _CACHED if isinstance(e.op, Elementwise) else _LARGEST)

    def _take_one(self, loop: _Loop, n: int, largest: int) -> None:
        maker, value = self.made.get(loop.names[n], (loop, n))
        is_small = loop.types[n].size * loop.length <= largest
        if maker is not loop and maker.length == loop.length and (is_small or value in maker.stacks):
            loop.taken[n] = maker, value


class _Emitter:
    """Writes the graph anew."""

    def __init__(self, free: int) -> None:
        self.equations: list[Equation] = []
        self.numbers: dict[int, int] = {}  # of values that have become others
        self.free = free

    def read(self, o: Operand) -> Operand:
        return self.numbers.get(o, o) if isinstance(o, int) else o

    def emit(self, e: Equation, loop: _Loop | None) -> None:
        e = replace(e, inputs=tuple(map(self.read, e.inputs)))
        if loop is None or not (loop.taken or loop.asked):
            self.equations.append(e)
        else:
            self.scan(e, loop)

    def scan(self, e: Equation, loop: _Loop) -> None:
        body, needed = loop.body, loop.needed()
        inputs, operands, names = [], [], []
        for n, o in enumerate(e.inputs):
            if (n in needed and n not in loop.taken) or (n in loop.state and n not in loop.taken):
                inputs.append(n)
                operands.append(o)
                names.append(body.input_names[n])
        for n, (maker, value) in loop.taken.items():
            if n in needed:
                inputs.append(n)
                operands.append(self.read(maker.stacks[value]))
                names.append(f"shared{n}")
        for i, number in enumerate(e.outputs):
            if loop.is_given(i):
                maker, value = loop.taken[loop.consts + i if i < loop.carries else body.outputs[i]]  # type: ignore[index]
                given = maker.scan.outputs[value - maker.consts] if i < loop.carries else maker.stacks[value]
                self.numbers[number] = self.numbers.get(given, given)
        kept = [i for i in range(len(e.outputs)) if not loop.is_given(i)]
        if not kept and not loop.asked:
            return
        numbers, types = [e.outputs[i] for i in kept], [e.types[i] for i in kept]
        for value in loop.asked:
            self.free += 1
            loop.stacks[value] = self.free
            numbers.append(self.free)
            types.append(Type((loop.length, *loop.types[value].shape), loop.types[value].dtype))
        equations = tuple([b for b in body.equations if any(n in needed and n not in loop.taken for n in b.outputs)])
        outputs = [*(body.outputs[i] for i in kept), *loop.asked]
        smaller = _of_inputs(replace(body, equations=equations, outputs=tuple(outputs)), inputs, names, loop.types)
        params = {
            **e.params,
            "body": smaller,
            "consts": sum(n < loop.consts for n in inputs),
            "carries": sum(n in loop.state and n not in loop.taken for n in inputs),
        }
        self.equations.append(replace(e, inputs=tuple(operands), params=params, outputs=tuple(numbers), types=tuple(types)))


def _of_inputs(body: Graph, inputs: list[int], names: list[str], types: dict[int, Type]) -> Graph:
    """The same equations as a function of these values of it, numbered anew."""
    numbers = {n: i for i, n in enumerate(inputs)}

    def read(o: Operand) -> Operand:
        return numbers[o] if isinstance(o, int) else o

    equations, free = [], len(inputs)
    for e in body.equations:
        operands = tuple(map(read, e.inputs))
        outputs = tuple(range(free, free + len(e.outputs)))
        equations.append(replace(e, inputs=operands, outputs=outputs))
        free += len(outputs)
        for n, number in zip(e.outputs, outputs, strict=True):
            numbers.setdefault(n, number)  # one that comes from elsewhere has a number already
    return Graph(body.name, tuple(names), tuple([types[n] for n in inputs]), tuple(equations), tuple(map(read, body.outputs)))
