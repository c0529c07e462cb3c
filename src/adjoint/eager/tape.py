"""Reverse mode: the tape is a graph of nodes, kept alive only by the values that need it.

Running the function records, for each op, a `Node` with its parents and what the op's VJP needs. The backward pass visits nodes
from the latest to the earliest and passes each cotangent on to the parents. There is no list of all nodes: unreachable nodes are
freed at once, and in a backward pass each node is freed after use. Only the nodes of a small recording (`ROOM`) stay until the
pass has ended, since it may have to be repeated.

    y = sin(x) * x      x ──► sin ──► mul ──► y        ȳ = 1;  x̄ += ȳ·sin(x);  s̄ = ȳ·x;  x̄ += s̄·cos(x)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy import ndarray

from ..core.bind import FRESH, Trace, Traced, bind, numbers, snapshot, with_gaps
from ..core.errors import user_line
from ..core.floating import tell
from ..core.op import Constant, Op, Opaque, Structured
from ..core.types import Shape, Type, Value, dtype_of, shape_of
from ..derive import TYPE, VALUE, ReversePlan, plan
from .mutation import SMALL, Watch
from .origin import Origin
from .overflow import is_silent, is_silent_loop, mark
from .repeated import rates
from .split import Twice, foreign, limit, rotated, without

_serials = itertools.count()
FREED: Any = ("freed",)
ROOM = 1 << 20  # elements in all; a recording up to this size may stay until the pass has ended


class Node:
    """One recorded op: its parents, and the residuals of its backward step. A leaf has no op."""

    __slots__ = ("__weakref__", "dtype", "line", "op", "params", "parents", "plain", "plan", "saved", "serial", "shape")
    is_inner = False

    def __init__(
        self,
        op: Op | None,
        parents: Sequence[Node],
        plan: ReversePlan | None,
        saved: Any,
        params: dict[str, Any],
        shape: Shape,
        dtype: np.dtype[Any],
        plain: bool = True,
    ) -> None:
        self.serial = next(_serials)
        self.op = op
        self.parents = parents
        self.plan = plan
        self.saved = saved
        self.params = params
        self.shape = shape  # of its value, so that a node can serve as the type of its cotangent
        self.dtype = dtype
        self.plain = plain  # what was saved is plain, not itself traced
        self.line = ""  # the user's line, if staged: the backward step gets the same line

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<node {self.op.name if self.op else 'leaf'} {Type(self.shape, self.dtype)!r}>"


class Inner(Node):
    """A leaf that stands for an operand of a loop or a branch, which may have been computed."""

    __slots__ = ()
    is_inner = True


class Outputs(Node):
    """The node of an op with several results; its cotangent is a list with one entry per result."""

    __slots__ = ("types",)
    types: tuple[Type, ...]


class Pick(Node):
    """One result of an op that has several."""

    __slots__ = ("index",)
    index: int


@dataclass(frozen=True)
class Nested:
    """The backward step of a function that runs again, on a tape of its own.

    run(cotangents, their origins by number, parents) gives the cotangents of the parents and their origins.
    """

    run: Callable[[Sequence[Value | None], dict[int, Origin], Sequence[Any]], tuple[Sequence[Any], Sequence[Origin | None]]]


class Tape(Trace):
    """One recording. `value` is the primal and `aux` the node.

    A tape is simple while all that it holds is plain, and little. Then the backward pass may take the quick way.
    Arrays of the user's that it saves are copied or watched (mutation.py): a write to one would be a wrong derivative later.
    Of a `lasting` tape, which is pulled when the user likes, they are always copies.
    After an overflow, `lost` holds for each node which elements of its value are wrong (overflow.py).
    """

    __slots__ = ("lasting", "lost", "room", "since", "twice", "watch")
    joint = True  # a loop's results are computed together with what its backward pass needs

    def __init__(self, name: str, level: float | None = None, lasting: bool = False) -> None:
        super().__init__(name, level)
        self.room = ROOM  # elements that may still be recorded before the tape is large; 0 if it is not plain
        self.lasting = lasting
        self.twice: Twice | None = None  # after a repeated eigenvalue
        self.watch = Watch()
        self.lost: WeakKeyDictionary[Node, Value | None] | None = None
        self.since = 0

    def overflow(self) -> None:
        if self.lost is None:
            self.lost, self.since = WeakKeyDictionary(), next(_serials)
            if self.__class__ is Tape:
                self.__class__ = Marking

    @property
    def simple(self) -> bool:
        return self.room > 0

    def complicate(self) -> None:
        self.room = 0

    def leaf(self, value: Value, kind: type[Node] = Node) -> Traced:
        return with_gaps(Traced(self, value, kind(None, (), None, None, {}, shape_of(value), dtype_of(value))))

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run an op on the values of its arguments, and record a node with what its VJP needs."""
        values, parents, mask, plain = self.opened(args)
        if not plain and (other := foreign(values, self.twice)) is not None and "of" not in params:
            values, parents = self.lifted(other, args, values)
        if isinstance(op, Constant):
            return op.impl(*values, **params) if plain else bind(op, *values, **params)
        if isinstance(op, Structured) and self.joint:
            return self.structured(op, values, parents, mask, params, args)
        y = op.impl(*values, **params) if plain else bind(op, *values, **params)
        key = (len(values), mask)
        step = op.derived.get(key) or plan(op, *key)
        if mask + 1 < 1 << len(values):  # some argument is a constant
            self.secure_constants(step, values, mask)
        saved = save(step.keep, y, values)
        if not plain or op.many:
            self.complicate()
        if op.many:
            several = Outputs(op, parents, step, saved, params, (), None, plain)  # type: ignore[arg-type]
            rate = rates(op, y, params)
            return self.outputs(y if rate is None else self.spread(several, y, values, rate), several, args)
        node = Node(op, parents, step, saved, params, shape_of(y), dtype_of(y), plain)
        if not plain:
            node.line = line_of(y)
        self.room -= math.prod(node.shape)
        result = Traced(self, y, node)
        if is_silent(op, y, values):
            tell()
        if self.lost is not None:
            mark(self, node, args, (result,), params)
        return result

    def opened(self, args: Sequence[Any]) -> tuple[list[Any], list[Node], int, bool]:
        """The values of arguments; the nodes of those on this tape, and which they are, as bits; whether all values are plain."""
        values = []
        parents = []
        mask = 0
        plain = True
        for i, a in enumerate(args):
            if isinstance(a, Traced):
                if a.by is self:
                    parents.append(a.aux)
                    mask |= 1 << i
                    a = a.underlying
                    if isinstance(a, Traced):
                        plain = False
                elif a.by is FRESH:
                    a = a.underlying
                else:
                    plain = False
                    a = snapshot(a)
            values.append(a)
        return values, parents, mask, plain

    def secure_constants(self, step: ReversePlan, values: list[Any], mask: int) -> None:
        """Protect the constant arrays that a step saves against later writes."""
        for i, what in enumerate(step.keep[1:]):
            if what == VALUE and not mask >> i & 1 and type(values[i]) is ndarray:
                values[i] = self.secure(values[i])

    def lifted(self, other: Twice, args: Sequence[Any], values: list[Any]) -> tuple[list[Any], list[Node]]:
        """Values and parents; values of this tape get parts, as those of another tape have."""
        parents = []
        for i, a in enumerate(args):
            if isinstance(a, Traced) and a.by is self:
                a = other.lift(a)
                values[i] = a.underlying
                parents.append(a.aux)
        return values, parents

    def drop(self, x: Value | None) -> Value | None:
        """A cotangent that leaves the tape, without its parts."""
        return x if self.twice is None else self.twice.parts(0, x)[0]

    def measure(self, results: Sequence[Value], cotangents: Sequence[Value | None]) -> None:
        """Note the size of the function whose derivative is computed next."""
        if self.twice is not None:
            pairs = [(numbers(y), numbers(g)) for y, g in zip(results, cotangents, strict=True)]
            known = [np.max(np.abs(y)) * np.max(np.abs(g)) for y, g in pairs if y is not None and g is not None and np.size(y)]
            self.twice.size = float(sum(size for size in known if np.isfinite(size)))

    def spread(self, node: Outputs, y: Sequence[Value], values: list[Any], rate: Sequence[Value | None]) -> tuple[Any, ...]:
        """The results y of a decomposition with repeated eigenvalues, in the form of `eager/split.py`.

        Each is computed twice, with LAPACK's vectors and with rotated ones, and has an ε part, its rate of change where the equal
        eigenvalues separate. From here on, this tape computes with such values.
        """
        twice = self.twice = self.twice or Twice(self.level)
        op = node.op
        assert isinstance(op, Opaque)
        assert node.plan is not None
        z = bind(rotated(op), *values, **node.params)
        pull = limit(op, twice, tuple([without(twice.side(1, p)) for p in z]), user_line())
        node.plan, node.plain = node.plan._replace(pull=pull, quick=pull), False
        node.saved = (tuple(map(without, y)), *map(without, values))
        return tuple([twice.join(*parts) for parts in zip(y, z, rate, strict=True)])

    def structured(
        self,
        op: Structured,
        values: list[Any],
        parents: list[Node],
        mask: int,
        params: dict[str, Any],
        args: Sequence[Any] = (),
    ) -> tuple[Any, ...]:
        """A loop or a branch: the same op runs with its residuals among the results."""
        flags = tuple([bool(mask >> i & 1) for i in range(len(values))])
        values = [self.secure(v) if type(v) is ndarray and not flag else v for v, flag in zip(values, flags, strict=True)]
        ys, residuals, back = op.vjp(values, flags, params)
        step = ReversePlan(tuple(i for i, flag in enumerate(flags) if flag), (), _pull_structured, _pull_structured)
        self.complicate()
        return self.outputs(ys, Outputs(op, parents, step, (back, residuals), params, (), None, False), args)  # type: ignore[arg-type]

    def secure(self, x: Any) -> Any:
        """A user array to be saved, protected against later writes."""
        return x.copy(order="K") if x.size <= SMALL else self.watch.constant(x, self.lasting)

    def outputs(self, ys: Sequence[Value], node: Outputs, args: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Wrap the several results of one node of these arguments."""
        node.types = tuple(map(Type.of, ys))
        node.line = line_of(ys[0]) if ys and not node.plain else ""
        results = []
        for index, (y, t) in enumerate(zip(ys, node.types, strict=True)):
            pick = Pick(node.op, (node,), None, None, {}, t.shape, t.dtype)
            pick.index = index
            results.append(Traced(self, y, pick) if t.dtype.kind in "fc" else y)
        if is_silent_loop(node.op, ys):  # type: ignore[arg-type]
            tell()
        if self.lost is not None:
            mark(self, node, args, results, node.params)
        return tuple(results)

    def shape(self, x: Traced) -> Shape:
        return shape_of(x.underlying)

    def node(self, x: Value) -> Node | None:
        return x.aux if isinstance(x, Traced) and x.by is self else None

    def finish(self, result: Any) -> None:
        """The function has returned: a tape that makes its nodes late does so now."""

    def leave(self, x: Any) -> Any:
        """A result without what the tape added to it."""
        if isinstance(x, Traced) and x.by in (self, self.twice):
            x = without(x.underlying)
        return x


class Marking(Tape):
    """A tape that has heard of an overflow: `record.py`, which takes the quick way for others, leaves its ops to `process`."""

    __slots__ = ()


def _pull_structured(gs: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
    back, residuals = saved
    return back(gs, residuals)


def line_of(y: Any) -> str:
    return y.by.line(y) if isinstance(y, Traced) else ""


def save(keep: Sequence[int], y: Any, values: list[Any]) -> tuple[Any, ...]:
    """The members of (y, *values) that the plan saves."""
    return tuple(
        [v if what == VALUE else Type.of(v) if what == TYPE else None for what, v in zip(keep, (y, *values), strict=True)]
    )
