"""The steps of a compiled program, which fill buffers in order.

The steps are kernels, kernels in row tiles, matrix products for BLAS, LAPACK routines, loops and branches that contain programs,
parallel groups of programs, and foreign calls for operations without native code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .kernel import Buffer, Kernel, View


@dataclass(slots=True, eq=False)
class RowTiles:
    """Kernels with the same outermost loop, run one after the other for a tile of its iterations at a time: see
    `lower.row_tiles`."""

    kernels: tuple[Kernel, ...]
    length: int  # iterations of the loop
    tile: int  # iterations per tile
    own: dict[Buffer, int]  # buffers that only these kernels use: elements per iteration; they hold one tile
    totals: dict[Buffer, str]  # results of reductions over all iterations, and the operation
    chunks: int = 1  # pieces of the loop that may run in parallel
    partials: dict[Buffer, tuple[str, Buffer]] = field(default_factory=dict)  # partial results of the pieces

    @property
    def lines(self) -> dict[str, None]:
        return {line: None for kernel in self.kernels for line in kernel.lines}

    def reads(self) -> Iterator[View]:
        yield from (view for kernel in self.kernels for view in kernel.reads() if view.buffer not in self.own)

    def writes(self) -> Iterator[View]:
        yield from (view for kernel in self.kernels for view in kernel.writes() if view.buffer not in self.own)
        yield from (View.whole(buffer, (buffer.size,)) for _, buffer in self.partials.values())

    def __str__(self) -> str:
        head = f"row tiles of {self.tile} of {self.length} iterations, local {_list_of(self.own)}:"
        return "\n  ".join([head, *(line for kernel in self.kernels for line in str(kernel).splitlines())])


@dataclass(slots=True, eq=False)
class Product:
    """out = left @ right for matrices, or stacks of them, of one shape.

    For BLAS, each has a unit stride along one of the last two axes. A narrow product is unrolled in tiles of rows; its `right` is
    row-major.
    """

    left: View
    right: View
    out: View
    lines: dict[str, None]
    is_narrow: bool = False
    triangle: str = ""  # "lower" or "upper" if `left` is known to be triangular
    chunks: int = 1  # pieces of a narrow product that may run in parallel

    def reads(self) -> Iterator[View]:
        yield from (self.left, self.right)

    def writes(self) -> Iterator[View]:
        yield self.out

    def __str__(self) -> str:
        return f"{'narrow ' * self.is_narrow}product {self.left!r} @ {self.right!r} to {self.out!r}"


@dataclass(slots=True, eq=False)
class Lapack:
    """A LAPACK (or BLAS) routine, called for each matrix of a stack: see `lower.matrix` and `llvm.lapack`.

    All views have the axes of the stack in front. Matrices are column-major. `inout` was written before and is updated in place;
    `work` is scratch memory, shared by all matrices.
    """

    routine: str
    operands: tuple[View, ...]
    inout: tuple[View, ...]
    outs: tuple[View, ...]
    work: tuple[View, ...]
    options: dict[str, Any]
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield from (*self.operands, *self.inout)

    def writes(self) -> Iterator[View]:
        yield from (*self.inout, *self.outs, *self.work)

    def __str__(self) -> str:
        return f"{self.routine} {_list(self.operands)} to {_list((*self.inout, *self.outs))}"


@dataclass(slots=True, eq=False)
class Fourier:
    """A Fourier transform of each row of a contiguous array: see `lower.pocketfft`."""

    routine: str
    operand: View
    out: View
    factor: float
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield self.operand

    def writes(self) -> Iterator[View]:
        yield self.out

    def __str__(self) -> str:
        return f"{self.routine} {self.operand!r} to {self.out!r}"


@dataclass(slots=True, eq=False)
class Foreign:
    """A call back into NumPy: an operation without native code."""

    op: Any
    operands: tuple[Any, ...]  # views, or plain values
    params: dict[str, Any]
    outs: tuple[View, ...]
    lines: dict[str, None]
    weak: frozenset[int] = frozenset()  # operands that are Python numbers to NumPy

    def reads(self) -> Iterator[View]:
        yield from (o for o in self.operands if isinstance(o, View))

    def writes(self) -> Iterator[View]:
        yield from self.outs

    def bare(self) -> Foreign:
        """The call without the contents of its arrays, which are passed by address, and without source lines: for the cache."""

        def bare(o: Any) -> Any:
            if not isinstance(o, View):
                return o
            return replace(o, buffer=Buffer(-1, o.buffer.dtype, o.buffer.size, o.buffer.kind))

        operands, outs = tuple(map(bare, self.operands)), tuple(map(bare, self.outs))
        return replace(self, operands=operands, outs=outs, params=dict(self.params), lines={})

    def __str__(self) -> str:
        return f"foreign {self.op.name} {', '.join(map(repr, self.operands))} to {', '.join(map(repr, self.outs))}"


@dataclass(slots=True, eq=False)
class Scan:
    """A loop of known length: finals, stacks[i] = body(consts, carries, rows[i]), with the carries of the previous iteration."""

    body: Lowered
    length: int
    reverse: bool
    consts: tuple[View, ...]
    carries: tuple[View, ...]
    rows: tuple[View, ...]
    finals: tuple[View, ...]
    stacks: tuple[View, ...]
    spare: tuple[View, ...]  # as large as the carries: an iteration reads one copy and writes the other
    scratch: tuple[View, ...]  # for the intermediate arrays of the body
    lines: dict[str, None]
    in_place: tuple[bool, ...] = ()  # carries that the body changes where they are, in `finals`, and that have no spare

    def reads(self) -> Iterator[View]:
        yield from (*self.consts, *self.carries, *self.rows)

    def writes(self) -> Iterator[View]:
        yield from (*self.finals, *self.stacks, *self.spare, *self.scratch)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"scan of {self.length} iterations, reads {_list(self.reads())}, writes {_list(self.finals + self.stacks)}:",
                _indented(self.body),
            ]
        )


@dataclass(slots=True, eq=False)
class Cumulative:
    """Along the last axis of the views: out[0] = terms[0], out[i] = out[i - 1] combined with terms[i]; see `lower.cumulative`."""

    how: str  # sum, prod, max, min, recurrence
    factors: View | None  # of a recurrence
    terms: View
    out: View
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        if self.factors is not None:
            yield self.factors
        yield self.terms

    def writes(self) -> Iterator[View]:
        yield self.out

    def __str__(self) -> str:
        return f"cumulative {self.how} of {_list(self.reads())} to {self.out!r}"


@dataclass(slots=True, eq=False)
class Ordered:
    """Along the last axis of the views: the numbers of the elements in order, or means over equal keys; see `lower.order`."""

    operands: tuple[View, ...]  # elements; or values and their keys, which are in order
    out: View
    scratch: tuple[View, ...]  # for keys and their numbers, twice; none for means
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield from self.operands

    def writes(self) -> Iterator[View]:
        yield from (self.out, *self.scratch)

    def __str__(self) -> str:
        return f"{'order' if self.scratch else 'means over equal keys'} of {_list(self.operands)} to {self.out!r}"


@dataclass(slots=True, eq=False)
class PointTiles:
    """Loops over the same points, and kernels between them, run to their ends for one tile of points at a time: see
    `lower.point_tiles`."""

    members: tuple[Kernel | Scan, ...]
    length: int  # points
    tile: int
    #: Of the bodies: elements per point of the buffers that have some for each point.
    rows: dict[Buffer, int]
    #: Buffers that hold one tile, in the memory of a piece: their offset. Carries have two copies.
    offsets: dict[Buffer, int]
    memory: Buffer  # bytes for all pieces
    chunks: int  # pieces that may run in parallel

    @property
    def lines(self) -> dict[str, None]:
        return {line: None for member in self.members for line in member.lines}

    def reads(self) -> Iterator[View]:
        yield from (view for member in self.members for view in member.reads() if view.buffer not in self.offsets)

    def writes(self) -> Iterator[View]:
        for member in self.members:
            written = (*member.finals, *member.stacks) if isinstance(member, Scan) else member.writes()
            yield from (view for view in written if view.buffer not in self.offsets)
        yield View.whole(self.memory, (self.memory.size,))

    def __str__(self) -> str:
        head = f"tiles of {self.tile} of {self.length} points, local {_list_of(self.offsets)}:"
        return "\n  ".join([head, *(line for member in self.members for line in str(member).splitlines())])


@dataclass(slots=True, eq=False)
class TimeTiles:
    """A loop over a stencil, of which each tile of rows runs several iterations at a time: see `lower.time_tiles`."""

    scan: Scan
    kernel: Kernel  # its body
    rows: Mapping[Buffer, int]  # elements of a row of each carry of the body, where it begins and where it ends
    length: int  # rows of the grid
    halo: int  # rows that a row depends on, on either side
    tile: int  # rows of a tile
    depth: int  # iterations of a tile
    memory: Buffer  # of the tiles, in bytes for all pieces
    chunks: int  # pieces that may run in parallel

    @property
    def lines(self) -> dict[str, None]:
        return self.scan.lines

    def reads(self) -> Iterator[View]:
        yield from self.scan.reads()

    def writes(self) -> Iterator[View]:
        yield from self.scan.writes()
        yield View.whole(self.memory, (self.memory.size,))

    def __str__(self) -> str:
        return f"tiles of {self.tile} of {self.length} rows, {self.depth} iterations at a time:\n{_indented(self.scan)}"


@dataclass(slots=True, eq=False)
class While:
    """A loop: carries = body(carries) while test(carries)."""

    test: Lowered
    body: Lowered
    test_consts: tuple[View, ...]
    body_consts: tuple[View, ...]
    carries: tuple[View, ...]
    finals: tuple[View, ...]
    spare: tuple[View, ...]  # twice as large as the carries
    scratch: tuple[View, ...]
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield from (*self.test_consts, *self.body_consts, *self.carries)

    def writes(self) -> Iterator[View]:
        yield from (*self.finals, *self.spare, *self.scratch)

    def __str__(self) -> str:
        return "\n".join(
            [f"while, from {_list(self.carries)} to {_list(self.finals)}:", _indented(self.test), _indented(self.body)]
        )


@dataclass(slots=True, eq=False)
class WhileVjp:
    """The backward pass of a while loop of `count` iterations: `step` recomputes the states, and `pull` runs backward over them.

    pull(consts, state, cotangents) gives parts, which are accumulated in `totals`, and the cotangents of the previous iteration.
    """

    step: Lowered
    pull: Lowered
    checkpoint: int | str | None
    count: View
    consts: tuple[View, ...]
    carries: tuple[View, ...]
    cotangents: tuple[View, ...]
    totals: tuple[View, ...]
    finals: tuple[View, ...]
    parts: tuple[View, ...]  # as large as the totals
    spare: tuple[View, ...]  # as large as the finals
    scratch: tuple[View, ...]
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield from (self.count, *self.consts, *self.carries, *self.cotangents)

    def writes(self) -> Iterator[View]:
        yield from (*self.totals, *self.finals, *self.parts, *self.spare, *self.scratch)

    def __str__(self) -> str:
        head = f"while_vjp of {self.count!r} iterations, reads {_list(self.reads())}, writes {_list(self.totals + self.finals)}:"
        return "\n".join([head, _indented(self.step), _indented(self.pull)])


@dataclass(slots=True, eq=False)
class Branch:
    """One of two programs, chosen by a bool."""

    truth: View
    true: Lowered
    false: Lowered
    operands: tuple[View, ...]
    outs: tuple[View, ...]
    scratch: tuple[View, ...]
    lines: dict[str, None]

    def reads(self) -> Iterator[View]:
        yield from (self.truth, *self.operands)

    def writes(self) -> Iterator[View]:
        yield from (*self.outs, *self.scratch)

    def __str__(self) -> str:
        head = f"branch on {self.truth!r}, reads {_list(self.operands)}, writes {_list(self.outs)}:"
        return "\n".join([head, _indented(self.true), _indented(self.false)])


@dataclass(slots=True, eq=False)
class ParallelGroup:
    """Independent programs that may run at the same time on the buffers of the enclosing program."""

    members: tuple[Lowered, ...]  # if two fail, the earlier one counts
    scratch: tuple[View, ...]  # for the intermediate arrays of each

    @property
    def lines(self) -> dict[str, None]:
        return {line: None for member in self.members for step in member.steps for line in step.lines}

    def reads(self) -> Iterator[View]:
        for member in self.members:
            yield from (View.whole(buffer, (buffer.size,)) for buffer in member.inputs)

    def writes(self) -> Iterator[View]:
        for member in self.members:
            yield from member.outputs
        yield from self.scratch

    def __str__(self) -> str:
        head = f"parallel group of {len(self.members)} members:"
        parts = [f"  member {i}:\n{_indented(member, 4)}" for i, member in enumerate(self.members)]
        return "\n".join([head, *parts])


def _list_of(buffers: Iterable[Buffer]) -> str:
    return ", ".join(map(repr, buffers)) or "nothing"


def _list(views: Iterable[View]) -> str:
    return ", ".join(map(repr, views))


def _indented(lowered: Lowered | Scan, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in str(lowered).splitlines())


Step = (
    Kernel
    | RowTiles
    | PointTiles
    | TimeTiles
    | Product
    | Lapack
    | Fourier
    | Cumulative
    | Ordered
    | Foreign
    | Scan
    | While
    | WhileVjp
    | Branch
    | ParallelGroup
)


def bodies(step: Step) -> tuple[Lowered, ...]:
    """The programs inside a step."""
    if isinstance(step, ParallelGroup):
        return step.members
    return tuple(getattr(step, body) for body in _BODIES.get(type(step), ()))


def calls_python(step: Step) -> bool:
    return isinstance(step, Foreign) or any(body.calls_python for body in bodies(step))


def can_fail(step: Step) -> bool:
    """Whether a step may end the program. LAPACK failures and index errors are checked at the end."""
    return isinstance(step, (Foreign, WhileVjp)) or any(body.can_fail for body in bodies(step))


@dataclass(slots=True, eq=False)
class Lowered:
    """A whole program: its buffers and its steps in order."""

    buffers: list[Buffer]
    steps: list[Step]
    inputs: list[Buffer]
    outputs: list[View]
    guard: View | None = None  # a bool: whether the guards hold
    out_of_bounds: list[View] = field(default_factory=list)  # bools: whether some index was out of bounds
    failures: list[tuple[View, str]] = field(default_factory=list)  # bools: whether a routine failed, and the error
    offsets: dict[Buffer, int] = field(default_factory=dict)  # of the local buffers, in bytes: see `memory`
    arena: int = 0  # bytes for all local buffers

    @property
    def inner(self) -> Iterator[Lowered]:
        """The bodies of loops and branches."""
        for step in self.steps:
            yield from bodies(step)

    @property
    def asked(self) -> list[View]:
        """What is read after the last step."""
        flags = [*self.out_of_bounds, *(view for view, _ in self.failures)]
        return [*self.outputs, *flags, *([] if self.guard is None else [self.guard])]

    @property
    def calls_python(self) -> bool:
        return any(map(calls_python, self.steps))

    @property
    def can_fail(self) -> bool:
        return bool(self.out_of_bounds or self.failures) or any(map(can_fail, self.steps))

    def __str__(self) -> str:
        heads = [f"buffer {b.number}: {b.dtype.name} x {b.size}   {b.kind}" for b in self.buffers]
        return "\n".join([*heads, *map(str, self.steps)])


_BODIES = {Scan: ("body",), While: ("test", "body"), WhileVjp: ("step", "pull"), Branch: ("true", "false")}
