"""The normal form of a graph for a target with few ops: only those that it writes, with every conversion of a dtype explicit.

    v1: float64[3] = add x, n        →   v1: float64[3] = cast n {dtype=float64};  v2: float64[3] = add x, v1
    v2: float64[] = norm v1 {…}      →   the equations of its expansion

A graph is run again on a stage that looks at each op: one that the target writes is recorded, with operands of the dtypes that it
computes in; another one is replaced by what it is in other ops (`expansions`), which are
looked at in turn. What is neither is refused by name, with the line of user code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError, written_on
from ..core.op import Constant, Elementwise, Multilinear, Op, Structured
from ..core.types import Type
from ..ir.edit import bodies, dead_code, renumber
from ..ir.graph import Equation, Graph
from ..ops import control, index
from ..ops import elementwise as ew
from ..ops.broadcast import cast, where
from ..ops.integer import left_shift, right_shift
from ..ops.reduce import all_ as all_op
from ..ops.reduce import any_ as any_op
from ..ops.reduce import count_nonzero
from ..ops.shape import concatenate, stack
from ..staging.stage import Stage
from .expansions import EXPANSIONS, UNPROMOTED, cast_to, expanded

Dtype = np.dtype[Any]
BOOL = np.dtype(bool)
_COMPARISONS = (ew.equal, ew.not_equal, ew.less, ew.less_equal, ew.greater, ew.greater_equal)
_LOGIC = (ew.logical_and, ew.logical_or, ew.logical_xor, ew.logical_not)
_TESTS = (ew.isnan, ew.isinf, ew.isfinite, ew.signbit)
#: Piecewise constant functions that compute in the dtype of their result; other constants are indices, counts and tests.
_ROUNDED = (
    *(ew.sign, ew.floor, ew.ceil, ew.trunc, ew.rint, ew.floor_divide, ew.bitwise_and, ew.bitwise_or, ew.bitwise_xor, ew.invert),
    *(left_shift, right_shift, ew.stop_gradient),
)


def dtypes(names: str) -> frozenset[Dtype]:
    return frozenset(map(np.dtype, names.split()))


REALS, COMPLEX, TRUTHS = dtypes("float32 float64"), dtypes("complex64 complex128"), dtypes("bool")
SIGNED, UNSIGNED = dtypes("int8 int16 int32 int64"), dtypes("uint8 uint16 uint32 uint64")
WHOLE, INEXACT = SIGNED | UNSIGNED, REALS | COMPLEX
NUMBERS = WHOLE | INEXACT
EVERY = NUMBERS | TRUTHS
#: Numbers of 16 bits are stored and cast. As in NumPy, an op computes in 32 bits and its result is rounded.
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
WITH_HALVES = EVERY | {HALF}


@dataclass(frozen=True)
class Call:
    """An equation about to be written: its operands as the exporter names them, and their types. Parameters are attributes."""

    equation: Equation
    args: Sequence[str]
    types: Sequence[Type]

    @property
    def result(self) -> Type:
        return self.equation.types[0]

    def __getattr__(self, name: str) -> Any:
        return self.equation.params[name]


@dataclass(frozen=True)
class Spelling:
    """How a language writes an op, for which dtypes of the operand `by`, and for which types and parameters."""

    write: Callable[[Any], Any]  # of a `Call`
    dtypes: frozenset[Dtype]
    by: int = -1
    fits: Callable[[Sequence[Type], dict[str, Any]], bool] = lambda types, params: True


# Conditions on types and parameters under which a target writes an op: the `fits` of a `Spelling`.


def has_elements(types: Sequence[Type], params: dict[str, Any]) -> bool:
    return all(t.size for t in types)


def is_one_index(types: Sequence[Type], params: dict[str, Any]) -> bool:
    """Whether a gather or a scatter has a single array of indices."""
    return len(types) == 2


def is_one_region(types: Sequence[Type], params: dict[str, Any]) -> bool:
    """Whether a scatter has a single array of indices, and an update for each of them."""
    full, axis = params["shape"], params["axis"]
    return is_one_index(types, params) and types[0].shape == (*full[:axis], *types[1].shape, *full[axis + 1 :])


@dataclass(frozen=True)
class LanguageOps:
    """The ops and dtypes that a language has."""

    name: str  # as in "cannot be written as StableHLO"
    dtypes: frozenset[Dtype]
    table: Mapping[Op, Spelling]
    refused: Mapping[Op, str] = field(default_factory=dict)  # why its own function of this name is not used

    def writes(self, op: Op, types: Sequence[Type], params: dict[str, Any]) -> bool:
        known = self.table.get(op)
        return known is not None and bool(types) and types[known.by].dtype in known.dtypes and known.fits(types, params)


class Normal(Stage):
    """Records a graph in the ops of a target."""

    __slots__ = ("expanding", "target")

    def __init__(self, target: LanguageOps) -> None:
        super().__init__("export")
        self.target = target
        self.expanding: list[tuple[Op, Any]] = []  # the ops that are being expanded, outermost first

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        args = tuple(a if isinstance(a, Traced) else _known(a) for a in args)
        inputs = [self.operand(a) for a in args]
        results = self.infer(op, inputs, [self._type(a) for a in args], params)
        for t in (*map(self._type, args), *results):
            if t.dtype not in self.target.dtypes and not (isinstance(op, Structured) or op is control.checkpoint):
                raise self.refusal(op, f"it has no {t.dtype} there")
        if isinstance(op, Structured):
            return self._structured(op, args, params, results)
        if (op is not cast or results[0].dtype == BOOL) and any(t.dtype == HALF for t in (*map(self._type, args), *results)):
            return self._in_single(op, args, params, results)
        args = self._promoted(op, args, results)
        if any(t.size for t in results) and self.target.writes(op, [self._type(a) for a in args], params):
            return super().process(op, args, params)
        made = self._expanded(op, args, params, results)
        if made is None:
            raise self.refusal(op, self.target.refused.get(op, "it is not one of its functions, nor made of them"))
        return made if op.many else made[0]

    def _expanded(self, op: Op, args: tuple[Any, ...], params: dict[str, Any], results: Sequence[Type]) -> Any:
        """An op written in other ops, for operands of these types."""
        same = (op, tuple(map(self._type, args)))
        if same in self.expanding:
            return None
        self.expanding.append(same)
        try:
            return expanded(op, args, params, results)
        finally:
            self.expanding.pop()

    def _in_single(self, op: Op, args: tuple[Any, ...], params: dict[str, Any], results: Sequence[Type]) -> Any:
        """An op on numbers of 16 bits, or with such a result (of bools and integers of 8 bits), computed in 32 bits."""
        if op in (ew.nextafter, ew.spacing):
            raise self.refusal(op, "there it is computed in 32 bits, whose numbers lie closer than those of 16")
        halves = [self._type(x).dtype == HALF for x in args]
        if not any(halves):
            halves = [self._type(x).dtype.kind in "biu" for x in args]
            if op is ew.ldexp:
                halves[1] = False  # its exponent
        wide = [cast_to(x, SINGLE) if is_half else x for x, is_half in zip(args, halves, strict=True)]
        params = {k: SINGLE if isinstance(v, np.dtype) and v == HALF else v for k, v in params.items()}
        made = op(*wide, **params)
        made = [cast_to(y, t.dtype) for y, t in zip(made if op.many else [made], results, strict=True)]
        return tuple(made) if op.many else made[0]

    def refusal(self, op: Op, why: str) -> UnsupportedError:
        named = self.expanding[0][0] if self.expanding else op
        inner = "" if named is op else f" (in it, {op.name!r})"
        line = written_on.get() or None
        return UnsupportedError(f"the op {named.name!r}{inner} cannot be written as {self.target.name}: {why}", line)

    def _type(self, x: Any) -> Type:
        return x.aux[1] if isinstance(x, Traced) and x.by is self else Type.of(x)

    def _structured(self, op: Structured, args: tuple[Any, ...], params: dict[str, Any], results: Sequence[Type]) -> Any:
        if op is control.checkpoint:
            return tuple(params["body"].run_flat(args))
        if op is control.scan and not params["length"]:  # no iteration
            first = params["consts"]
            stacks = [np.zeros(t.shape, t.dtype) for t in results[params["carries"] :]]
            return (*args[first : first + params["carries"]], *stacks)
        if op in EXPANSIONS:
            return self._expanded(op, args, params, results)
        inner = {name: normal(body, self.target, self.expanding) for name, body in bodies(params).items()}
        args = tuple(np.asarray(a) if not isinstance(a, Traced) else a for a in args)
        return super().process(op, args, {**params, **inner})

    def _promoted(self, op: Op, args: tuple[Any, ...], results: Sequence[Type]) -> tuple[Any, ...]:
        """The operands in the dtypes that the op computes in."""
        result = results[0].dtype
        if op in _COMPARISONS:
            return self._cast(args, [_common(args, self)] * len(args))
        if op in _LOGIC or op in (all_op, any_op, count_nonzero):
            return tuple(x if self._type(x).dtype == BOOL else ew.not_equal(x, 0) for x in args)
        if op in _TESTS:
            return self._cast(args, [d if (d := self._type(x).dtype).kind in "fc" else np.dtype(float) for x in args])
        if op is where:
            return self._cast(args, [BOOL, result, result])
        if op in UNPROMOTED or op in (cast, ew.truncate):
            return args
        if isinstance(op, (Elementwise, Multilinear)) or op in _ROUNDED or op in (concatenate, stack):
            return self._cast(args, [d if (d := self._type(x).dtype).kind == "c" != result.kind else result for x in args])
        if op in (index.put, index.put_at):
            return (*self._cast(args[:2], [result, result]), *args[2:])
        if not isinstance(op, Constant) and args and result.kind in "iufc" and self._type(args[0]).dtype.kind in "biu":
            return (*self._cast(args[:1], [result]), *args[1:])  # a sum of truths is an integer
        return args

    def _cast(self, args: Sequence[Any], dtypes: Sequence[Dtype]) -> tuple[Any, ...]:
        return tuple(cast_to(x, d) for x, d in zip(args, dtypes, strict=True))


def _known(x: Any) -> Any:
    return x if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic) else np.asarray(x)


def _common(args: Sequence[Any], stage: Normal) -> Dtype:
    """The dtype in which NumPy compares."""
    known = [a if type(a) in (bool, int, float, complex) else stage._type(a).dtype for a in args]
    try:
        common = np.result_type(*known)
    except OverflowError:
        raise UnsupportedError("a Python number is beyond the dtype that it is compared with") from None
    beyond = any(type(a) is int for a in args) and common.kind in "iu" and common != np.uint64
    return np.dtype(np.int64) if beyond else common  # a Python int may be beyond the dtype of few bits


def normal(graph: Graph, target: LanguageOps, expanding: Sequence[tuple[Op, Any]] = ()) -> Graph:
    """A graph in the ops of a target; constants have dtypes of their own. A body may be part of ops that are being expanded."""
    known = graph.derived.setdefault("normal", {})
    if target.name not in known:
        with Normal(target) as stage:
            stage.expanding += expanding
            inside = [stage.input(name, t) for name, t in zip(graph.input_names, graph.input_types, strict=True)]
            for name, t in zip(graph.input_names, graph.input_types, strict=True):
                if t.dtype not in target.dtypes:
                    raise UnsupportedError(f"the input {name!r} is {t!r}; {target.name} has no {t.dtype} here")
            results = [y if isinstance(y, Traced) else np.asarray(y) for y in graph.run_flat(inside)]
            made = stage.graph(graph.name, results)
        known[target.name] = renumber(dead_code(made))
    return known[target.name]  # type: ignore[no-any-return]


__all__ = [
    "COMPLEX",
    "EVERY",
    "HALF",
    "INEXACT",
    "NUMBERS",
    "REALS",
    "SIGNED",
    "TRUTHS",
    "WHOLE",
    "WITH_HALVES",
    "Call",
    "Dtype",
    "LanguageOps",
    "Normal",
    "Spelling",
    "dtypes",
    "has_elements",
    "is_one_index",
    "is_one_region",
    "normal",
]  # fmt: skip
