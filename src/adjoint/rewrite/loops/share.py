"""Common subexpressions of loops: what an earlier scan computes in each iteration, a later one reads as rows.

    scan: c = sin(c) + x   gives the rows c                scan: c = sin(c) + x          gives the rows c
    scan: g = g * cos(c)   reads the rows c     becomes    scan: s = cos(c), g = g * s   reads the rows c, gives the rows s
    scan: h = h * cos(c)   reads the rows c                scan: h = h * s               reads the rows s

Identical loops are merged, such as the forward loops of `grad(f, 0)(x, y)` and `grad(f, 1)(x, y)`. Equal values are found by
value numbering over the bodies of all scans; rows that two bodies read have the same number in both. Values that are as cheap to
compute as to read are recomputed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ...core.op import Elementwise
from ...core.types import Type
from ...ir.columns import hashable
from ...ir.edit import numbered, renumber, unused_number, values_in
from ...ir.graph import Equation, Graph, Operand
from ...ops import control

G = TypeVar("G", bound=Graph)

_LARGEST = 1 << 22  # elements of a stack that is kept to be read,
_CACHED = 1 << 18  # and of one that is elementwise: beyond the cache, computing is as fast as reading
_CHEAP = 8  # additions: cheaper values are recomputed, not passed on


def share_iterations(graph: G) -> G:
    """The same results, with what several loops compute in their iterations computed by the first of them."""
    equations = [e for e in graph.equations if e.op is control.scan]
    if len(equations) < 2:
        return graph
    numbering = _ValueNumbering()
    scans = {e.outputs: numbering.scan(e) for e in equations}
    if not any(scan.reused for scan in scans.values()):
        return graph
    for scan in scans.values():
        scan.request_stacks()
    writer = _ScanWriter(unused_number(graph))
    for e in graph.equations:
        writer.write(e, scans.get(e.outputs) if e.op is control.scan else None)
    outputs = tuple([writer.read(o) for o in graph.outputs])
    return renumber(replace(graph, equations=tuple(writer.equations), outputs=outputs))


class _ScanValue(NamedTuple):
    """A value of the body of a scan."""

    scan: _Scan
    number: int


@dataclass(eq=False)
class _Scan:
    """A scan, and the values of its body that it shares with others, by their numbers in the body."""

    equation: Equation
    value_numbers: dict[int, int] = field(default_factory=dict)
    next_carries: list[int] = field(default_factory=list)  # value numbers of the carries after an iteration
    reused: dict[int, _ScanValue] = field(default_factory=dict)  # what an earlier scan computes, and where
    requested: list[int] = field(default_factory=list)  # what later scans read, and the scan does not stack already
    stacks: dict[int, int] = field(default_factory=dict)  # what is stacked: numbers of the stacks in the graph

    def __post_init__(self) -> None:
        params = self.equation.params
        self.body: Graph = params["body"]
        self.types = self.body.types
        self.consts, self.carries, self.length = params["consts"], params["carries"], params["length"]
        self.state = range(self.consts, self.consts + self.carries)
        self.stacks = {value: number for value, number in self.stacked_outputs() if isinstance(value, int)}

    def stacked_outputs(self) -> zip[tuple[Operand, int]]:
        return zip(self.body.outputs[self.carries :], self.equation.outputs[self.carries :], strict=True)

    def start(self, i: int) -> Any:
        """What tells whether a carry may be the same as one of another scan: initial value, length, direction."""
        return self.equation.inputs[self.consts + i], self.length, self.equation.params["reverse"]

    def reused_output(self, i: int) -> _ScanValue | None:
        """The value of another scan that output i is: a carry, if its input is one, or a stacked value."""
        return self.reused.get(self.consts + i if i < self.carries else self.body.outputs[i])  # type: ignore[arg-type]

    def is_computed(self, e: Equation, needed: set[int]) -> bool:
        """Whether the body still has to compute one of the results of an equation."""
        return any(n in needed and n not in self.reused for n in e.outputs)

    def needed(self) -> set[int]:
        """The values of the body that are read in it, or that are results of it, if nothing is computed that is reused."""
        needed = {o for i, o in enumerate(self.body.outputs) if isinstance(o, int) and self.reused_output(i) is None}
        needed.update(self.requested)
        for e in reversed(self.body.equations):
            if self.is_computed(e, needed):
                needed.update(values_in(e.inputs))
        return needed

    def request_stacks(self) -> None:
        """Have other scans stack what this one reads of them."""
        replaced = [o for i, o in enumerate(self.body.outputs) if i >= self.carries and self.reused_output(i) is not None]
        for n in [*self.needed(), *replaced]:
            if n in self.reused:
                scan, value = self.reused[n]  # type: ignore[index]
                if value not in scan.stacks and value not in scan.requested:
                    scan.requested.append(value)


class _ValueNumbering:
    """Value numbers: equal for values of any body that are the same op of operands with equal numbers."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows: dict[int, int] = {}  # by stack in the graph: the number of the value in its rows
        self.computed: dict[int, _ScanValue] = {}  # by value number: the first scan that computes it
        self.varying: set[int] = set()  # numbers of values that are not loop invariants
        self.carries: dict[Any, tuple[_Scan, int]] = {}  # by `_Scan.start`

    def number(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def scan(self, equation: Equation) -> _Scan:
        """A scan with the numbers of its values, and which of them earlier scans compute.

        Carries that start alike are assumed to be equal; an assumption that the numbers after one iteration disprove is
        dropped, and the body numbered again.
        """
        scan = _Scan(equation)
        same = {i: self.carries[scan.start(i)] for i in range(scan.carries) if scan.start(i) in self.carries}
        self._number_body(scan, same)
        while wrong := [i for i, (other, j) in same.items() if scan.next_carries[i] != other.next_carries[j]]:
            for i in wrong:
                del same[i]
            self._number_body(scan, same)
        self._find_reused(scan, is_merged=bool(same) and len(same) == scan.carries)
        for i in range(scan.carries):
            self.carries.setdefault(scan.start(i), (scan, i))
        for n in [*scan.state, *(n for e in scan.body.equations for n in e.outputs)]:
            self.computed.setdefault(scan.value_numbers[n], _ScanValue(scan, n))
        self.rows.update({stack: scan.value_numbers[n] for n, stack in scan.stacked_outputs() if isinstance(n, int)})
        return scan

    def _number_body(self, scan: _Scan, same: dict[int, tuple[_Scan, int]]) -> None:
        """Number the values of a scan, given which of its carries are those of others."""
        numbers = scan.value_numbers
        numbers.clear()
        for n, o in enumerate(scan.equation.inputs):
            i = n - scan.consts
            if n < scan.consts:
                numbers[n] = self.number(("const", o))
                continue
            if n not in scan.state:
                numbers[n] = self.rows[o] if isinstance(o, int) and o in self.rows else self.number(("rows", o))
            elif i in same:
                other, j = same[i]
                numbers[n] = other.value_numbers[other.consts + j]
            else:
                numbers[n] = self.number(("carry", scan.equation.outputs, i))
            self.varying.add(numbers[n])

        def read(o: Operand) -> int:
            return numbers[o] if isinstance(o, int) else self.number(("constant", o))

        for e in scan.body.equations:
            operands = tuple(map(read, e.inputs))
            if e.op.commutative:
                operands = tuple(sorted(operands))
            params = tuple([(name, hashable(value)) for name, value in e.params.items()])
            for k, n in enumerate(e.outputs):
                numbers[n] = self.number((e.op, params, operands, e.types, k))
                if not self.varying.isdisjoint(operands):
                    self.varying.add(numbers[n])
        scan.next_carries = [read(o) for o in scan.body.outputs[: scan.carries]]

    def _find_reused(self, scan: _Scan, is_merged: bool) -> None:
        """Find what earlier scans compute. A scan that is merged with another one computes nothing itself."""
        for n in scan.state:
            self._reuse(scan, n, _LARGEST)
        for e in scan.body.equations:
            is_cheap = e.op.cost <= _CHEAP and not is_merged
            for n in e.outputs:
                if scan.value_numbers[n] in self.varying:
                    self._reuse(scan, n, 0 if is_cheap else _CACHED if isinstance(e.op, Elementwise) else _LARGEST)

    def _reuse(self, scan: _Scan, n: int, largest: int) -> None:
        """Reuse a value if an earlier scan has stacked it, or can stack it in so many elements."""
        found = self.computed.get(scan.value_numbers[n])
        if found is None or found.scan.length != scan.length:
            return
        if scan.types[n].size * scan.length <= largest or found.number in found.scan.stacks:
            scan.reused[n] = found


class _Input(NamedTuple):
    """An input of a scan that is rewritten."""

    value: int  # in the old body
    operand: Operand
    name: str


class _Output(NamedTuple):
    """A result of a scan that is rewritten."""

    value: Operand  # in the old body
    number: int
    type: Type


class _ScanWriter:
    """Rewrites the graph."""

    def __init__(self, free: int) -> None:
        self.equations: list[Equation] = []
        self.replaced: dict[int, int] = {}  # values that are now others
        self.free = free

    def read(self, o: Operand) -> Operand:
        return self.replaced.get(o, o) if isinstance(o, int) else o

    def write(self, e: Equation, scan: _Scan | None) -> None:
        e = replace(e, inputs=tuple(map(self.read, e.inputs)))
        if scan is None or not (scan.reused or scan.requested):
            self.equations.append(e)
        else:
            self.write_scan(e, scan)

    def write_scan(self, e: Equation, scan: _Scan) -> None:
        """A scan without what other scans compute, and with stacks of what they read of it.

        Of the three scans above, the second one is `requested` to stack cos(c): it gets one more output. In the third one cos(c)
        is `reused`, so c is no longer `needed`:

            inputs     carry h, rows c    become    carry h, rows shared2, the stack of cos(c)
            body       cos, mul           becomes   mul
        """
        self.forward_outputs(e, scan)
        outputs = self.outputs(e, scan)
        if not outputs:
            return
        needed = scan.needed()
        inputs = self.inputs(e, scan, needed)
        equations = [b for b in scan.body.equations if scan.is_computed(b, needed)]
        names, types = tuple([i.name for i in inputs]), tuple([scan.types[i.value] for i in inputs])
        body = Graph(scan.body.name, names, types, *numbered(equations, [o.value for o in outputs], [i.value for i in inputs]))
        consts = sum(i.value < scan.consts for i in inputs)
        carries = sum(i.value in scan.state and i.value not in scan.reused for i in inputs)
        self.equations.append(
            replace(
                e,
                inputs=tuple([i.operand for i in inputs]),
                params={**e.params, "body": body, "consts": consts, "carries": carries},
                outputs=tuple([o.number for o in outputs]),
                types=tuple([o.type for o in outputs]),
            )
        )

    def forward_outputs(self, e: Equation, scan: _Scan) -> None:
        """Redirect the readers of a result that another scan has as well to that one."""
        for i, number in enumerate(e.outputs):
            if (found := scan.reused_output(i)) is not None:
                other, n = found
                same = other.equation.outputs[n - other.consts] if i < scan.carries else other.stacks[n]
                self.replaced[number] = self.replaced.get(same, same)

    def outputs(self, e: Equation, scan: _Scan) -> list[_Output]:
        """Results that no other scan has, and the stacks that are requested."""
        found = [
            _Output(*output)
            for i, output in enumerate(zip(scan.body.outputs, e.outputs, e.types, strict=True))
            if scan.reused_output(i) is None
        ]
        for n in scan.requested:
            self.free += 1
            scan.stacks[n] = self.free
            found.append(_Output(n, self.free, Type((scan.length, *scan.types[n].shape), scan.types[n].dtype)))
        return found

    def inputs(self, e: Equation, scan: _Scan, needed: set[int]) -> list[_Input]:
        """Inputs that are still needed, own carries in any case, and rows of what other scans compute."""
        own = [
            _Input(n, o, scan.body.input_names[n])
            for n, o in enumerate(e.inputs)
            if n not in scan.reused and (n in needed or n in scan.state)
        ]
        shared = [(n, self.read(found.scan.stacks[found.number])) for n, found in scan.reused.items() if n in needed]
        return own + [_Input(n, stack, f"shared{n}") for n, stack in shared]
