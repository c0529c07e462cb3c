"""Each complex value of a graph becomes two real ones, its parts.

    graph f(z: complex128[3]) {               graph f(z: complex128[3]) {
      v1: complex128[3] = mul z, z              v1: float64[3,2] = as_real z
      return v1                                 v2, v3 = v1[:, 0], v1[:, 1]
    }                                           v4, v5 = v2·v2 − v3·v3, v2·v3 + v3·v2
                                                v6: float64[3,2] = stack v4, v5 {axis=1}
                                                v7: complex128[3] = as_complex v6
                                                return v7
                                              }

Inputs and results keep their types; `as_real` and `as_complex` read the same memory in another way. A body of a loop or a branch
has two inputs for one that is complex. Equations on real values stay as they are. An op without a formula stays an op of whole
complex arrays: its operands are joined, its results split.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.bind import Trace, Traced
from ...core.op import Op, Structured
from ...core.types import Type, Value, dtype_of, shape_of
from ...derive import type_rule
from ...ir.columns import Columns, Kind
from ...ir.edit import bodies, distinct
from ...ir.graph import Equation, Graph, Literal, Operand, weak_numbers
from ...ops import broadcast, control, index, reduce, shape, shift, sort, windows
from ...ops.broadcast import broadcast_to, cast, reshape
from ...ops.elementwise import absolute, mul, nan_where, truncate
from ...ops.fft import fft, irfft
from ...ops.index import getitem
from ...ops.linalg import einsum, matmul
from ...ops.norm import norm
from ...ops.pairs import as_complex, as_real
from ...ops.shape import stack
from .formulas import FORMULAS, ComplexParts, truth

_PART: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_WIDE = np.dtype(np.longdouble), np.dtype(np.clongdouble)  # which NumPy computes: complex ones have no parts


def split_complex(graph: Graph, weak: Collection[int] = ()) -> Graph:
    """The graph on real values, but for its inputs and results. The inputs `weak` are Python numbers."""
    return _Splitter(graph, weak).run() if has_complex(graph) else graph


def has_complex(graph: Graph) -> bool:
    """Whether any value is complex, or has to become it, in the bodies of loops too."""
    if any(t.dtype.kind == "c" for t in graph.input_types) or any(map(_is_complex, graph.outputs)):
        return True
    if isinstance(graph.equations, Columns):
        return any(map(_is_complex, graph.equations.literals)) or any(map(_gives_complex, graph.equations.kinds))
    return any(_gives_complex(e) or any(map(_is_complex, e.inputs)) for e in graph.equations)


def _gives_complex(e: Equation | Kind) -> bool:
    if e.op is irfft:  # whose operand becomes complex
        return True
    if any(t.dtype.kind == "c" for t in e.types):
        return True
    return isinstance(e.op, Structured) and any(map(has_complex, bodies(e.params).values()))


def _is_complex(o: Operand) -> bool:
    return isinstance(o, Literal) and (type(o.value) is complex or (not o.is_weak and o.value.dtype.kind == "c"))


def _body(graph: Graph) -> Graph:
    """The body of a loop or a branch, of which a complex input or result is two real ones."""
    known = graph.derived.get("complex parts")
    if known is None:
        known = graph.derived["complex parts"] = _Splitter(graph, (), in_pairs=True).run() if has_complex(graph) else graph
    return known  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Complex:
    """A complex value: its parts, or the whole, or both once each has been asked for."""

    type: Type
    parts: ComplexParts | None = None
    whole: Traced | None = None


_Held = Traced | _Complex


class _Splitter(Trace):
    """Goes through the equations of a graph, and writes those of another one. The `aux` of a value is its number and its type."""

    has_numbers = False

    def __init__(self, graph: Graph, weak: Collection[int], in_pairs: bool = False) -> None:
        super().__init__("split_complex")
        self.old, self.weak, self.in_pairs = graph, weak, in_pairs
        self.old_types = graph.types
        self.equations: list[Equation] = []
        self.names: list[str] = []
        self.types: list[Type] = []
        self.free = 0
        self.at = ""
        self.values: dict[int, _Held] = {}

    # -- as an interpreter of the ops in formulas --

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        operands = tuple(map(self.operand, args))
        types = [a.aux[1] if isinstance(a, Traced) else o.type for a, o in zip(args, operands, strict=True)]  # type: ignore[union-attr]
        found = type_rule(op, types, params, weak_numbers(operands))
        results = self.emit(op, operands, params, found if op.many else (found,))
        return tuple(results) if op.many else results[0]

    def shape(self, x: Traced) -> tuple[int, ...]:
        return x.aux[1].shape  # type: ignore[no-any-return]

    def dtype(self, x: Traced) -> np.dtype[Any]:
        return x.aux[1].dtype  # type: ignore[no-any-return]

    def is_array(self, x: Traced) -> bool:
        return True

    def class_of(self, x: Traced) -> type:
        return np.ndarray

    def operand(self, x: Value) -> Operand:
        return x.aux[0] if isinstance(x, Traced) else Literal(x)

    def emit(self, op: Op, inputs: tuple[Operand, ...], params: Any, types: Sequence[Type]) -> list[Traced]:
        results = [self.fresh(t) for t in types]
        self.equations.append(Equation(op, inputs, params, tuple([y.aux[0] for y in results]), tuple(types), self.at))
        return results

    def fresh(self, t: Type) -> Traced:
        self.free += 1
        return Traced(self, None, (self.free - 1, t))

    # -- a graph --

    def run(self) -> Graph:
        for i, (name, t) in enumerate(zip(self.old.input_names, self.old.input_types, strict=True)):
            self.values[i] = self.input(name, t)
        types = self.old_types
        for e in self.old.equations:
            self.at = e.line
            given = [types[o] if isinstance(o, int) else o.type for o in e.inputs]
            results = self.results(e, given)
            self.values.update(zip(e.outputs, results, strict=True))
        self.at = ""
        outputs: list[Operand] = []
        for o in self.old.outputs:
            t = types[o] if isinstance(o, int) else o.type
            if t.dtype not in _PART:
                outputs.append(self.real(o))
            elif self.in_pairs:
                outputs += map(self.operand, self.parts(o))
            else:
                outputs.append(o if isinstance(o, Literal) else self.whole(o))
        return replace(
            self.old,
            input_names=tuple(self.names),
            input_types=tuple(self.types),
            equations=tuple(self.equations),
            outputs=tuple(outputs),
        )

    def input(self, name: str, t: Type) -> _Held:
        if t.dtype not in _PART or not self.in_pairs:
            self.names.append(distinct(name, self.names))
            self.types.append(t)
            made = self.fresh(t)
            return made if t.dtype not in _PART else _Complex(t, whole=made)
        parts = []
        for ending in ("_re", "_im"):
            self.names.append(distinct(name + ending, self.names))
            self.types.append(part_of(t))
            parts.append(self.fresh(part_of(t)))
        return _Complex(t, ComplexParts(*parts))

    def results(self, e: Equation, given: Sequence[Type]) -> Sequence[_Held]:
        """What an equation gives."""
        inner = any(map(has_complex, bodies(e.params).values()))
        if not inner and e.op is not irfft and not any(t.dtype in _PART for t in (*given, *e.types)):
            return self.emit(e.op, tuple(map(self.real, e.inputs)), e.params, e.types)
        if e.op in _LOOPS:
            return self.loop(e)
        rule = None if any(t.dtype in _WIDE for t in (*given, *e.types)) else _RULES.get(e.op)
        found = None if rule is None else rule(self, e)
        if found is not None:
            return [self.held(found, e.types[0])]
        operands = tuple([self.given(e, o, t) for o, t in zip(e.inputs, given, strict=True)])
        made = self.emit(e.op, operands, e.params, e.types)
        return [_Complex(t, whole=y) if t.dtype in _PART else y for y, t in zip(made, e.types, strict=True)]

    def given(self, e: Equation, o: Operand, t: Type) -> Operand:
        """An operand of an op that has no formula. Native transforms take complex numbers only."""
        if t.dtype in _PART:
            return self.whole(o) if isinstance(o, int) else o
        if e.op not in (fft, irfft) or isinstance(o, Literal):
            return self.real(o)
        dtype = part_of(e.types[0]).dtype
        if dtype not in _PART.values():  # half precision has no complex numbers
            return self.real(o)
        x = self.fitted(self.values[o], Type(t.shape, dtype))
        return self.operand(as_complex(stack(x, np.zeros(t.shape, dtype), axis=t.ndim)))

    def held(self, result: Any, t: Type) -> _Held:
        """A result, in the type that the equation says: parts may be numbers, or have to be broadcast."""
        if t.dtype in _PART:
            return _Complex(t, ComplexParts(*[self.fitted(part, part_of(t)) for part in result]))
        return self.fitted(result, t)

    def fitted(self, x: Value, t: Type) -> Traced:
        if not isinstance(x, Traced):
            return self.constant(np.broadcast_to(np.asarray(x, t.dtype), t.shape), t)
        if shape_of(x) != t.shape:
            x = broadcast_to(x, shape=t.shape)
        return x if dtype_of(x) == t.dtype else cast(x, dtype=t.dtype)

    def constant(self, x: Any, t: Type) -> Traced:
        """A constant as a value of the graph; it is folded again where it is read."""
        return self.emit(broadcast_to, (Literal(x),), {"shape": t.shape}, (t,))[0]

    # -- operands --

    def real(self, o: Operand) -> Operand:
        return o if isinstance(o, Literal) else self.operand(self.values[o])

    def whole(self, o: int) -> Operand:
        held = self.values[o]
        assert isinstance(held, _Complex)
        if held.whole is None:
            held.whole = as_complex(stack(*self.parts(o), axis=held.type.ndim))
        return self.operand(held.whole)

    def parts(self, o: Operand, dtype: Any = None) -> ComplexParts:
        """The parts of an operand, of which a real one has the imaginary part 0; in a dtype, but for Python numbers."""
        if isinstance(o, Literal):
            x = o.value
            if o.is_weak:
                return ComplexParts(float(x.real), float(x.imag))
            return ComplexParts(*[np.ascontiguousarray(part, dtype).reshape(x.shape) for part in (np.real(x), np.imag(x))])
        held = self.values[o]
        if isinstance(held, _Complex):
            if held.parts is None:
                pairs, front = as_real(held.whole), (slice(None),) * held.type.ndim
                held.parts = ComplexParts(getitem(pairs, spec=(*front, 0)), getitem(pairs, spec=(*front, 1)))
            found = held.parts
        else:
            found = ComplexParts(held, 0.0)
        if dtype is None:
            return found
        return ComplexParts(*[cast(x, dtype=dtype) if isinstance(x, Traced) and dtype_of(x) != dtype else x for x in found])

    def promoted(self, e: Equation) -> Any:
        """The dtype of the parts in which an equation computes."""
        if e.types[0].dtype in _PART:
            return _PART[e.types[0].dtype]
        types = self.old_types
        operands = [
            o.value if isinstance(o, Literal) and o.is_weak else types[o].dtype if isinstance(o, int) else o.type.dtype
            for o in e.inputs
        ]
        plain = [
            d.type(0).item() if isinstance(o, int) and o in self.weak else d for o, d in zip(e.inputs, operands, strict=True)
        ]
        return _PART[np.result_type(*plain)]

    # -- loops and branches --

    def loop(self, e: Equation) -> Sequence[_Held]:
        flat: list[Operand] = []
        for o in e.inputs:
            t = self.old_types[o] if isinstance(o, int) else o.type
            flat += map(self.operand, self.in_full(o)) if t.dtype in _PART else [self.real(o)]
        params = {name: _body(p) if isinstance(p, Graph) else p for name, p in e.params.items()}
        params |= _LOOPS[e.op](e)
        types = [u for t in e.types for u in ((part_of(t),) * 2 if t.dtype in _PART else (t,))]
        made = iter(self.emit(e.op, tuple(flat), params, types))
        return [_Complex(t, ComplexParts(next(made), next(made))) if t.dtype in _PART else next(made) for t in e.types]

    def in_full(self, o: Operand) -> ComplexParts:
        """The parts of an operand, as arrays of its shape."""
        t = self.old_types[o] if isinstance(o, int) else o.type
        parts = self.parts(o, part_of(t).dtype)
        return ComplexParts(
            *[x if isinstance(x, Traced) and shape_of(x) == t.shape else self.spread(x, part_of(t)) for x in parts]
        )

    def spread(self, x: Value, t: Type) -> Value:
        return self.fitted(x, t) if isinstance(x, Traced) else np.broadcast_to(np.asarray(x, t.dtype), t.shape)


def part_of(t: Type) -> Type:
    """The type of a part of a complex value; a real type unchanged."""
    return Type(t.shape, _PART.get(t.dtype, t.dtype))


# -- rules: what an equation is for the parts; None if it is left as it is --------------------------------------------


def _elementwise(s: _Splitter, e: Equation) -> Any:
    dtype = s.promoted(e)
    return FORMULAS[e.op](*[s.parts(o, dtype) for o in e.inputs], **e.params)


def _each(first: int | None = None, skip: int = 0) -> Callable[[_Splitter, Equation], Any]:
    """An op that is linear, with real coefficients, in operands from `skip` on up to `first`: it is applied to each part."""

    def rule(s: _Splitter, e: Equation) -> Any:
        dtype = _PART[e.types[0].dtype]
        last = len(e.inputs) if first is None else first
        given = []
        for i, o in enumerate(e.inputs):
            if skip <= i < last:
                t = s.old_types[o] if isinstance(o, int) else o.type
                parts = s.parts(o, dtype)
                given.append([x if shape_of(x) == t.shape else np.broadcast_to(np.asarray(x, dtype), t.shape) for x in parts])
            else:
                x = s.values[o] if isinstance(o, int) else o.value
                given.append([x, x])
        return ComplexParts(*[e.op(*[pair[k] for pair in given], **e.params) for k in range(2)])

    return rule


def _products(s: _Splitter, e: Equation) -> Any:
    """An op that is linear in each of two operands: four products, or two with an operand that is real."""
    if len(e.inputs) != 2:
        return None
    dtype, types = _PART[e.types[0].dtype], s.old_types
    (a, b), params = [s.parts(o, dtype) for o in e.inputs], e.params
    is_real = [(types[o] if isinstance(o, int) else o.type).dtype not in _PART for o in e.inputs]

    def product(x: Value, y: Value) -> Value:
        return e.op(x, y, **params)

    if is_real[0]:
        return ComplexParts(product(a.re, b.re), product(a.re, b.im))
    if is_real[1]:
        return ComplexParts(product(a.re, b.re), product(a.im, b.re))
    return ComplexParts(product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re))


def _cast(s: _Splitter, e: Equation) -> Any:
    (o,), (t,) = e.inputs, e.types
    if t.dtype in _PART:
        return s.parts(o, _PART[t.dtype])
    z = s.parts(o)
    if t.dtype == np.bool_ and e.op is truncate:
        return truth(z)
    return z.re if dtype_of(z.re) == t.dtype else e.op(z.re, dtype=t.dtype)


def _prod(s: _Splitter, e: Equation) -> Any:
    """A product along an axis, by halves."""
    (o,), axis = e.inputs, e.params["axis"]
    z = ComplexParts(*s.in_full(o))
    n, front = shape_of(z.re)[axis], (slice(None),) * axis
    if not n or any(not isinstance(x, Traced) for x in z):
        return None
    multiply = FORMULAS[mul]
    while n > 1:
        half = n // 2
        left, right = (ComplexParts(*[getitem(x, spec=(*front, slice(k, k + half))) for x in z]) for k in (0, half))
        joined = multiply(left, right)
        if n % 2:
            rest = [getitem(x, spec=(*front, slice(2 * half, n))) for x in z]
            joined = ComplexParts(*[shape.concatenate(x, y, axis=axis) for x, y in zip(joined, rest, strict=True)])
        z, n = joined, n - half
    return ComplexParts(*[reshape(x, shape=e.types[0].shape) for x in z])


def _norm(s: _Splitter, e: Equation) -> Any:
    z = s.parts(e.inputs[0])
    return FORMULAS[absolute](ComplexParts(norm(z.re, **e.params), norm(z.im, **e.params)))


def _of_truths(s: _Splitter, e: Equation) -> Any:
    return e.op(truth(s.parts(e.inputs[0])), **e.params)


_RULES: dict[Op, Callable[[_Splitter, Equation], Any]] = {
    **dict.fromkeys(FORMULAS, _elementwise),
    **dict.fromkeys(
        (
            *(broadcast.reshape, broadcast.transpose, broadcast.broadcast_to, broadcast.sum_),
            *(getitem, index.place, index.put, shape.concatenate, shape.stack, reduce.cumsum, shift.roll, shift.difference),
            *(sort.equal_shared, windows.windows, windows.overlap),
        ),
        _each(),
    ),
    **dict.fromkeys((index.gather, index.scatter_add, sort.take_along, sort.add_along), _each(first=1)),
    index.put_at: _each(first=2),
    **dict.fromkeys((broadcast.where, nan_where), _each(skip=1)),
    **dict.fromkeys((matmul, einsum), _products),
    **dict.fromkeys((cast, truncate), _cast),
    **dict.fromkeys((reduce.any_, reduce.all_, reduce.count_nonzero), _of_truths),
    reduce.prod: _prod,
    norm: _norm,
}


def _count(types: Sequence[Type]) -> int:
    return sum(1 + (t.dtype in _PART) for t in types)


def _scan(e: Equation) -> dict[str, Any]:
    types, consts, carries = e.params["body"].input_types, e.params["consts"], e.params["carries"]
    return {"consts": _count(types[:consts]), "carries": _count(types[consts : consts + carries])}


def _while(e: Equation) -> dict[str, Any]:
    asked, fixed = e.params["cond_consts"], e.params["body_consts"]
    return {
        "cond_consts": _count(e.params["cond"].input_types[:asked]),
        "body_consts": _count(e.params["body"].input_types[:fixed]),
    }


def _while_vjp(e: Equation) -> dict[str, Any]:
    types, wanted = e.params["step"].input_types, e.params["wanted"]
    flags = [flag for t, flag in zip(types, wanted, strict=True) for _ in range(_count([t]))]
    return {"consts": _count(types[: e.params["consts"]]), "wanted": tuple(flags)}


#: Loops and branches: their parameters that count inputs.
_LOOPS: dict[Op, Callable[[Equation], dict[str, Any]]] = {
    control.scan: _scan,
    control.while_: _while,
    control.while_vjp: _while_vjp,
    control.cond: lambda e: {},
    control.checkpoint: lambda e: {},
}
