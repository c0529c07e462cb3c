"""Loops and branches of rewritten code as ops: the body runs once on symbolic values, and becomes a graph.

    for x in xs: total += x * w         scan(captured w, carry total, rows xs)

The state of a loop are the variables that it assigns and that are read later, and the arrays that it writes to. Their types are
found by staging the body until they no longer change: a total that starts as 0 and has floats added is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core import bind
from ..core.bind import Traced, around, unwrap_fresh
from ..core.types import Type, Value, dtype_of, shape_of
from ..ir.edit import dead_code, distinct
from ..numpy.views import View
from ..ops import control as ops
from ..ops.broadcast import cast
from ..ops.elementwise import less, logical_and, logical_not, not_equal
from ..staging.guard import Guarded
from ..staging.stage import Stage
from .body import COUNTED, SourceBody, WholeFunction
from .items import Items
from .jumps import is_returned
from .rewrite import Site
from .state import ChangeError, Ending, State, as_type, is_number, widen
from .variables import UNBOUND, Cells, NotStagedError, Surroundings

_MOST_ROUNDS = 8  # stagings of a body until its types are fixed
_INDEX = Type((), np.dtype(np.int64))
_BOOL = Type((), np.dtype(bool))
#: Runs a body on counters and rows, and returns the next counters.
Run = Callable[[Sequence[Any], Sequence[Any]], Sequence[Value]]


def is_staged(x: Any) -> bool:
    """Whether a value is one number that is not known while the program is staged."""
    return isinstance(x, Traced) and shape_of(x) == () and bind.is_staged(x)


def innermost() -> Stage | None:
    """The recording that ops go to."""
    return next((trace for trace in reversed(around.get()) if isinstance(trace, Stage)), None)


def truth(x: Any) -> Any:
    """The truth of a staged number, as a staged bool."""
    return x if dtype_of(x) == _BOOL.dtype else not_equal(x, np.zeros((), dtype_of(x))[()])


def require(condition: Any, arithmetic: bool = False) -> bool:
    """Restrict the program to calls where a condition holds; False if it cannot be restricted.

    A graph can be restricted by a condition of Python's arithmetic only: it gives nan where that does not hold.
    """
    stage = innermost()
    roots = (Guarded, WholeFunction) if arithmetic else Guarded
    if not any(isinstance(trace, roots) for trace in around.get()) or not isinstance(stage, (SourceBody, Guarded, WholeFunction)):
        return False
    if isinstance(stage, SourceBody):
        stage.conditions.append(condition)
        return True
    while isinstance(condition, Traced) and condition.by is not stage:
        condition = condition.underlying
    if isinstance(condition, Traced):
        stage.assume(condition)
        return True
    return bool(condition)


def in_body(x: Any) -> bool:
    """Whether a value is one number in the body of a loop or branch, where rewritten code may branch on it."""
    return isinstance(innermost(), SourceBody) and is_staged(x)


def restrict(condition: Any) -> bool:
    """As `require`, in the body of a loop or branch, and in a graph; elsewhere a number decides."""
    return is_staged(condition) and isinstance(innermost(), (SourceBody, WholeFunction)) and require(condition, arithmetic=True)


def in_graph() -> bool:
    """Whether a graph is staged, which gives nan where Python raises."""
    return any(isinstance(trace, WholeFunction) for trace in around.get())


def keep_python(y: Value, cls: type | None) -> None:
    """Note that a result is a Python number in the user's program."""
    while isinstance(y, Traced) and y.by.has_numbers:
        y = y.underlying
    if cls is not None and isinstance(y, Traced):
        if isinstance(y.by, (SourceBody, WholeFunction)):
            y.by.light[y.aux[0]] = cls
        elif isinstance(y.by, Guarded):
            y.by.expect(y, cls)


# -- bodies of loops ---------------------------------------------------------------------------------------------------

T = TypeVar("T")


class RecordedBody(NamedTuple):
    """A staged body: its recording, and its results in order: counter, state, soundness."""

    body: SourceBody
    outputs: list[Value]
    endings: dict[str, Ending]
    is_conditional: bool  # it has conditions

    def graph(self) -> tuple[Any, list[Value]]:
        return self.body.graph("body", self.outputs), list(self.body.captured)


class LoopState(State):
    """The state of a loop, whose types are widened until an iteration keeps them."""

    is_conditional = False
    is_counted = True  # an iteration reads its number
    counter = "k"
    assigned: frozenset[str] = frozenset()  # variables that the body assigns
    rows: Rows | None = None  # what a `for` runs over

    def widen_types(self, endings: dict[str, Ending]) -> bool:
        """Widen the types by those after an iteration; whether that keeps all of them."""
        are_kept = True
        for v in self.variables:
            ending = endings.get(v.name)
            if ending is None:
                raise NotStagedError(f"{v.name} is not assigned in every iteration")
            if v.structure is None:
                v.join(ending)
                are_kept = False
                continue
            if ending.structure != v.structure:
                raise ChangeError(f"{v.name} changes from {v.structure} to {ending.structure}")
            for leaf, y in zip(v.leaves, ending.leaves, strict=True):
                if leaf.fixed:
                    if y is not leaf.held:
                        raise NotStagedError(f"{leaf.label} changes from {leaf.held!r:.40} to {y!r:.40}, which are not numbers")
                    continue
                if not is_number(y):
                    raise ChangeError(f"{leaf.label} becomes {y!r:.40}, which is not a number")
                are_kept = not widen(leaf, y) and are_kept
        return are_kept

    def initial(self) -> list[Value]:
        return [
            np.zeros(leaf.type.shape, leaf.type.dtype)[()] if leaf.held is None else as_type(leaf.held, leaf.type)
            for leaf in self.leaves
            if leaf.type is not None
        ]

    def write(self, transform: str, run: Run, count: int, rows: Sequence[Type]) -> RecordedBody:
        """Stage a body until the types are fixed. `run` gets counters and rows, and returns the next counters."""
        for _ in range(_MOST_ROUNDS):
            found = self.attempt(transform, run, count if self.is_counted else 0, rows)
            if found is not None:
                return found
        raise NotStagedError("the types of its variables do not become fixed")

    def attempt(self, transform: str, run: Run, count: int, rows: Sequence[Type]) -> RecordedBody | None:
        """Stage a body once, on variables of the types known so far; None if these had to be changed."""
        surroundings = Surroundings(self.cells, self.names, self.assigned, self.rows.apart if self.rows else ())
        return self.apart(surroundings, lambda: self.recorded(transform, run, count, rows))

    def apart(self, surroundings: Surroundings, run: Callable[[], T]) -> T:
        """run(), whose assignments are taken back; what it did to its surroundings counts before an error that it raises."""
        found: T | Exception | None
        with self.cells.restored():
            try:
                found = run()
            except Exception as error:
                found = error
            assigned = surroundings.assigned()
        self.check_surroundings(surroundings, assigned)
        try:
            if isinstance(found, Exception):
                raise found
            return found
        finally:
            found = None  # its traceback would keep the variables alive

    def recorded(self, transform: str, run: Run, count: int, rows: Sequence[Type]) -> RecordedBody | None:
        with SourceBody(transform) as body:
            names = {leaf.label for leaf in self.leaves}
            counters = [body.number(distinct(self.counter, names), int, COUNTED) for _ in range(count)]
            self.enter(body)
            sound = [body.input("sound", _BOOL)] if self.is_conditional else []
            row = self.counter if len(rows) == 1 and not counters else "row"
            inside = [body.input(distinct(row, {*body.names}), t) for t in rows]
            further = run(counters, inside)
            endings = self.leave()
            if self.rows:
                self.rows.check(endings)
            are_kept = self.widen_types(endings)
            for y in [y for ending in endings.values() for y in ending.leaves]:
                body.carry(y)
            if are_kept and body.conditions and not self.is_conditional:
                self.is_conditional, are_kept = True, False
            if are_kept and count and transform == "scan" and not _reads_counter(body, endings):
                self.is_counted, are_kept = False, False
            if not are_kept:
                return None
            outputs = [*further, *self.outputs(endings), *[logical_and(x, body.sound()) for x in sound]]
            for y in outputs:
                body.operand(y)  # records captured values
            return RecordedBody(body, outputs, endings, self.is_conditional)

    def outputs(self, endings: dict[str, Ending]) -> list[Value]:
        return [
            as_type(y, leaf.type)
            for v in self.variables
            for leaf, y in zip(v.leaves, endings[v.name].leaves, strict=True)
            if leaf.type is not None and not leaf.fixed
        ]

    def check_surroundings(self, surroundings: Surroundings, assigned: set[str]) -> None:
        """Undo what a trial has changed. What is assigned elsewhere than in the body, a variable by a call or an attribute of an
        object, and an array that is written to must be in the state."""
        arrays, attributes, changed = surroundings.undo()
        if changed:
            raise NotStagedError(f"it changes {changed}")
        self.cells.add(attributes)
        arrays |= assigned | attributes.keys()
        if arrays:
            raise WritesError(arrays) if arrays <= set(self.cells.by_name) else NotStagedError(f"it changes {min(arrays)}")

    def finish(self, written: RecordedBody, results: Sequence[Value]) -> None:
        """Give the variables the results of a loop."""
        results = list(results)
        if written.is_conditional and not require(results.pop(), arithmetic=True):
            raise NotStagedError("it depends on a condition, which only jit can check")
        for leaf, y in zip(self.leaves, results, strict=True):
            keep_python(y, leaf.python)
        at = 0
        for v in self.variables:
            assert v.structure is not None
            leaves = []
            for leaf in v.leaves:
                leaves.append(leaf.held if leaf.fixed else results[at])
                at += not leaf.fixed
            self.place(v.name, v.structure, leaves, written.endings[v.name])


class Rows:
    """The arrays that a loop runs over. One that the loop writes to is read in each iteration, since a row of it is a view.

    for row in a: row[0] = 1            for k in range(len(a)): row = a[k]; row[0] = 1
    """

    def __init__(self, state: LoopState, rows: Sequence[Any]) -> None:
        self.state = state
        kept = [v for v in state.variables if v.name not in state.assigned and isinstance(v.first, Traced)]
        #: For each array the variable of the state that holds it, or None.
        self.names = [next((v.name for v in kept if v.first is row), None) for row in rows]
        self.apart = [row for row, name in zip(rows, self.names, strict=True) if name is None]

    def of(self, counters: Sequence[Any], inside: Sequence[Any]) -> list[Any]:
        """The rows of an iteration, some of which are inputs of the body."""
        given = iter(inside)
        return [next(given) if name is None else self.state.cells[name][counters[0]] for name in self.names]

    def check_items(self, written: Sequence[bool]) -> None:
        """A row that a body writes to must be one of an array in the state."""
        for row in [row for row, is_written in zip(self.apart, written, strict=True) if is_written]:
            names = {name for name, x in self.state.before.items() if x is row and isinstance(x, Traced)} - self.state.assigned
            raise WritesError(names) if names else NotStagedError("it writes to the array that it runs over")

    def check(self, endings: dict[str, Ending]) -> None:
        """Refuse a loop that writes to an array that it runs over, by another name."""
        for v in self.state.variables:
            written = endings[v.name].written if v.name in endings else []
            for leaf, is_written in zip(v.leaves, written, strict=False):
                if is_written and any(_overlap(leaf.held, row) for row in self.apart):
                    raise NotStagedError(f"it writes to {leaf.label}, and runs over the same array or a part of it")


def _overlap(a: Any, b: Any) -> bool:
    """Whether a write to one array may be seen in the other."""
    a, b = (x.root if isinstance(x, View) else x for x in (a, b))
    return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b))


def _reads_counter(body: SourceBody, endings: dict[str, Ending]) -> bool:
    """Whether a body reads its first input other than to count."""
    results = [y for ending in endings.values() for y in ending.leaves]
    is_result = any(isinstance(y, Traced) and y.by is body and y.aux[0] == 0 for y in results)
    return is_result or any(0 in [o for o in e.inputs if isinstance(o, int)] for e in body.equations[: body.counted])


class WritesError(NotStagedError):
    """A body writes to arrays of variables that are not part of the state."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(f"it writes to {', '.join(sorted(names))}")
        self.names = names


def with_written(stage: Callable[[set[str]], Any], names: set[str]) -> Any:
    """Stage with a state to which the arrays are added that turn out to be written to."""
    while True:
        try:
            return stage(names)
        except WritesError as error:
            if error.names <= names:
                raise
            names = names | error.names


def stage_for(site: Site, cells: Cells, items: Items, body: Callable[[Any], None]) -> str:
    """Stage a `for` loop; what it became."""
    return with_written(lambda names: _stage_for(site, cells, names, items, body), state_names(site, cells))


def state_names(site: Site, cells: Cells) -> set[str]:
    """The variables of the state: those assigned and read later, and those whose arrays or containers are written to."""
    written = {name for name in site.written if isinstance(cells[name], (np.ndarray, Traced, list, dict))}
    return {name for name in {*site.state, *written} if name in cells.by_name}


def _without_value(state: LoopState, site: Site) -> list[str]:
    """The variables that have no value after a loop of no iterations, and are read there."""
    names = [v.name for v in state.variables if v.first is UNBOUND and v.name in site.after]
    return [name for name in names if not is_returned(name)]


def _next(counters: Sequence[Any]) -> Sequence[Value]:
    for k in counters:
        k.by.counted = len(k.by.equations)
    return [cast(k, dtype=_INDEX.dtype) + np.int64(1) for k in counters]


def _stage_for(site: Site, cells: Cells, names: set[str], items: Items, body: Callable[[Any], None]) -> str:
    state = LoopState(cells, names)
    state.counter, state.assigned = site.target, site.assigned
    state.rows = rows = Rows(state, items.rows)
    if isinstance(items.count, Traced) or site.stop:
        return _stage_counted(site, state, items, rows, body)
    kinds = [Type(shape_of(row)[1:], dtype_of(row)) for row in rows.apart]

    def run(counters: Sequence[Any], inside: Sequence[Any]) -> Sequence[Value]:
        before = [x.aux for x in inside]
        body(items.item(counters[0] if counters else np.int64(0), rows.of(counters, inside)))
        rows.check_items([x.aux is not aux for x, aux in zip(inside, before, strict=True)])
        return _next(counters)

    written = state.write("scan", run, 1, kinds)
    graph, captured = written.graph()
    carry = [*[np.int64(0)] * state.is_counted, *state.initial(), *[np.bool_(True)] * written.is_conditional]
    params = {"length": items.count, "reverse": False, "carries": len(carry), "consts": len(captured)}
    sliced = [row if shape_of(row)[0] == items.count else row[: items.count] for row in rows.apart]
    results = ops.scan(*captured, *carry, *map(unwrap_fresh, sliced), body=graph, **params)
    state.finish(written, results[state.is_counted :])
    return f"became a scan of {items.count} iterations"


def _stage_counted(site: Site, state: LoopState, items: Items, rows: Rows, body: Callable[[Any], None]) -> str:
    """A `for` loop whose number of iterations is not known: a counter, and a condition on it."""
    if rows.names:  # the variable of the loop is a row
        state.counter = "k"
    count = unwrap_fresh(items.count)
    count = cast(count, dtype=_INDEX.dtype) if isinstance(count, Traced) else np.int64(count)
    lost = _without_value(state, site)
    if lost and not (require(less(np.int64(0), count)) if isinstance(count, Traced) else count > 0):
        raise NotStagedError(f"{lost[0]} has no value if there are no iterations; assign it before the loop")

    def run(counters: Sequence[Any], _: Sequence[Any]) -> Sequence[Value]:
        (k,) = counters
        body(items.item(k, rows.of(counters, [row[k] for row in rows.apart])))
        return _next(counters)

    def test(counters: Sequence[Any]) -> Any:
        (k,) = counters
        on = less(k, count)
        return logical_and(on, logical_not(truth(state.cells[site.stop]))) if site.stop else on

    _while(state, run, test, 1)
    return "became a while_loop that counts" if not site.stop else "became a while_loop that counts, with break"


def _while(state: LoopState, run: Run, test: Callable[[Sequence[Any]], Any], count: int) -> None:
    written = state.write("while_loop", run, count, ())
    surroundings = Surroundings(state.cells, state.names, ())
    with state.cells.restored(), SourceBody("while_loop") as asked:
        names = {leaf.label for leaf in state.leaves}
        counters = [asked.number(distinct(state.counter, names), int, COUNTED) for _ in range(count)]
        state.enter(asked)
        if written.is_conditional:
            asked.input("sound", _BOOL)
        on = unwrap_fresh(test(counters))
        if isinstance(on, Traced) and shape_of(on) == ():
            on = truth(on)
        elif isinstance(on, (bool, np.bool_, int, float)):
            on = np.bool_(on)
        else:
            raise NotStagedError("its condition is not one number")
        # A test that raises in Python ends the loop; what is left then tells it from one that is false.
        sound = asked.sound() if asked.conditions else None
        on = on if sound is None else logical_and(on, sound)
        asked.operand(on)
        assigned = surroundings.assigned()
    state.check_surroundings(surroundings, assigned)
    graph, captured = written.graph()
    cond = asked.graph("cond", [on])
    carry = [np.int64(0)] * count + [*state.initial(), *[np.bool_(True)] * written.is_conditional]
    if not carry:
        raise NotStagedError("it has no state")
    options = {"cond_consts": len(asked.captured), "body_consts": len(captured), "checkpoint": None}
    with np.errstate(all=None if sound is None else "ignore"):  # Python raises where NumPy warns
        results = ops.while_(*asked.captured, *captured, *carry, cond=cond, body=graph, **options)
    if sound is not None:
        (holds,) = dead_code(asked.graph("sound", [sound])).run_flat([*asked.captured, *results])
        if not require(holds, arithmetic=True):
            raise NotStagedError("its condition may raise, which only jit can check")
    state.finish(written, results[count:])


def stage_while(site: Site, cells: Cells, test: Callable[[], Any], body: Callable[[], None]) -> str:
    """Stage a `while` loop; what it became."""

    def stage(names: set[str]) -> str:
        state = LoopState(cells, names)
        state.assigned = site.assigned
        lost = _without_value(state, site)
        if lost:
            first = test()
            if is_staged(first):
                if not require(truth(first)):
                    raise NotStagedError(f"{lost[0]} has no value if there are no iterations; assign it before the loop")
            elif not first:
                return "has no iterations"

        def run(counters: Sequence[Any], rows: Sequence[Any]) -> Sequence[Value]:
            body()
            return ()

        def asked(_: Sequence[Any]) -> Any:
            on = test()
            if not site.stop:
                return on
            going = logical_not(truth(cells[site.stop]))
            return logical_and(truth(on), going) if is_staged(on) else going if on else np.bool_(False)

        _while(state, run, asked, 0)
        return "became a while_loop"

    return with_written(stage, state_names(site, cells))
