"""Arrays along one axis, as routines: cumulative results, order, searches, writes at indices.

A rule lowers an equation to a `Lapack` step with a template of its own (see `routines`), called for each line of an array. The
axis is moved to the end of all views, so that a template sees one line; strides are numbers in its text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.lower.kernel import Dtype, View
from ..compiler.lower.lowered import Rules
from ..compiler.lower.reductions import product
from ..compiler.lower.scalar import BOOL, EVERY, FLOATS
from ..compiler.lower.step import Lapack
from ..core.types import Type
from ..ir.graph import Equation, Operand
from ..ops import convolve, index, matrix_functions, reduce, sort

if TYPE_CHECKING:
    from ..compiler.lower.fuse import Lowering

_INDEX = np.dtype(np.int64)


def run(
    low: Lowering,
    name: str,
    template: str,
    dtype: Dtype,
    reads: dict[str, View],
    writes: dict[str, View],
    work: dict[str, View] | None = None,
    axes: int = 1,
    failure: str = "",
) -> None:
    """Add a step that calls a routine for each part of the last `axes` axes; with `failure`, it returns whether it failed."""
    failed = low.local(Type((), BOOL))
    work = work or {}
    options = {
        "template": template,
        "names": (*reads, *writes, *work),
        "dtype": dtype,
        "axes": axes,
        "tells": bool(failure),
    }
    lines = {low.line: None} if low.line else {}
    step = Lapack(name, tuple(reads.values()), (), (*writes.values(), failed), tuple(work.values()), options, lines)
    position = low.step(step)
    for view in step.writes():
        low.ready[view.buffer] = position
    if failure == "index":
        low.out_of_bounds.append(failed)
    elif failure:
        low.failures.append((failed, failure))


def last(view: View, axis: int) -> View:
    """A view with one axis moved to the end."""
    order = [k for k in range(len(view.shape)) if k != axis] + [axis]
    return View(view.buffer, tuple(view.shape[k] for k in order), tuple(view.strides[k] for k in order), view.offset)


def _in_memory(low: Lowering, operand: Operand, t: Type) -> View:
    """An operand as an array of a given type: its own view if it has that type, else a copy."""
    if low.type_of(operand) == t:
        return low.view(operand)
    made = low.local(t)
    low.copy(low.operand(operand, t.shape), made)
    return made


# -- cumulative results -----------------------------------------------------------------------------------------

_CUMULATIVE = """
    REAL t = x[0];
    out[0] = t;
    for (INT i = 1; i < COUNT_; ++i) {
      REAL v = x[i * FROM];
      STEP
      out[i * TO] = t;
    }"""
_STEPS = {
    reduce.cumsum: "t = t + v;",
    reduce.cumprod: "t = t * v;",
    reduce.running_max: "if (v > t || v != v) t = v;",
    reduce.running_min: "if (v < t || v != v) t = v;",
}
_RECURRENCE = """
    REAL t = b[0];
    out[0] = t;
    for (INT i = 1; i < COUNT_; ++i) {
      t = a[i * FIRST] * t + b[i * SECOND];
      out[i * TO] = t;
    }"""


def _filled(text: str, **words: Any) -> str:
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def _cumulative(low: Lowering, equation: Equation) -> bool:
    (x,), (t,), axis = equation.inputs, equation.types, equation.params["axis"]
    compares = equation.op in (reduce.running_max, reduce.running_min)
    if (t.dtype not in FLOATS and not compares) or t.dtype not in EVERY - {BOOL} or 0 in t.shape:
        return False  # sums of integers wrap around, which C does not: see `lowered_expansions`
    source, out = last(_in_memory(low, x, t), axis), low.local(t)
    target = last(out, axis)
    step = _STEPS[equation.op] if t.dtype.kind == "f" else _STEPS[equation.op].replace(" || v != v", "")
    text = _filled(_CUMULATIVE, COUNT_=t.shape[axis], FROM=source.strides[-1], TO=target.strides[-1], STEP=step)
    run(low, equation.op.name, text, t.dtype, {"x": source}, {"out": target})
    return low.hold(equation, out)


def _recurrence(low: Lowering, equation: Equation) -> bool:
    (a, b), (t,), axis = equation.inputs, equation.types, equation.params["axis"]
    if t.dtype not in FLOATS or 0 in t.shape:
        return False
    first, second = (last(_in_memory(low, o, Type(t.shape, t.dtype)), axis) for o in (a, b))
    out = low.local(t)
    target = last(out, axis)
    strides = {"FIRST": first.strides[-1], "SECOND": second.strides[-1], "TO": target.strides[-1]}
    run(
        low,
        "recurrence",
        _filled(_RECURRENCE, COUNT_=t.shape[axis], **strides),
        t.dtype,
        {"a": first, "b": second},
        {"out": target},
    )
    return low.hold(equation, out)


_CONVOLVE = """
    for (INT i = 0; i < COUNT_; ++i) {
      REAL t = ZERO;
      INT k = i + LAG;
      INT first = k - A_LENGTH + 1 > 0 ? k - A_LENGTH + 1 : 0;
      INT end = k + 1 < B_LENGTH ? k + 1 : B_LENGTH;
      for (INT j = first; j < end; ++j) t += a[(k - j) * FIRST] * b[j * SECOND];
      out[i * TO] = t;
    }"""


def _convolve(low: Lowering, equation: Equation) -> bool:
    (a, b), (t,) = equation.inputs, equation.types
    given = [low.type_of(o) for o in (a, b)]
    if t.dtype not in FLOATS or any(0 in g.shape for g in (*given, t)) or equation.params["mode"] not in ("full", "valid"):
        return False
    lead = t.shape[:-1]
    first, second = (
        _in_memory(low, o, Type(g.shape, t.dtype)).over((*lead, g.shape[-1])) for o, g in zip((a, b), given, strict=True)
    )
    out = low.local(t)
    n, m = first.shape[-1], second.shape[-1]
    words = {"A_LENGTH": n, "B_LENGTH": m, "FIRST": first.strides[-1], "SECOND": second.strides[-1], "TO": out.strides[-1]}
    lag = min(n, m) - 1 if equation.params["mode"] == "valid" else 0
    run(
        low,
        "convolve",
        _filled(_CONVOLVE, COUNT_=t.shape[-1], LAG=lag, **words),
        t.dtype,
        {"a": first, "b": second},
        {"out": out},
    )
    return low.hold(equation, out)


# -- order ------------------------------------------------------------------------------------------------------

# Merges of runs of twice the length: stable, nans last.
_ARGSORT = """
    for (INT i = 0; i < COUNT_; ++i) order[i * TO] = i;
    INT width = 1;
    while (width < COUNT_) {
      INT start = 0;
      while (start < COUNT_) {
        INT middle = start + width < COUNT_ ? start + width : COUNT_;
        INT stop = middle + width < COUNT_ ? middle + width : COUNT_;
        INT i = start;
        INT j = middle;
        for (INT k = start; k < stop; ++k) {
          INT right = 0;
          if (i >= middle) right = 1;
          else if (j < stop) {
            REAL v = x[AT(order[i * TO]) * FROM];
            REAL w = x[AT(order[j * TO]) * FROM];
            if (LESS(w, v)) right = 1;
          }
          if (right == 1) {
            other[k] = order[j * TO];
            j = j + 1;
          } else {
            other[k] = order[i * TO];
            i = i + 1;
          }
        }
        start = stop;
      }
      for (INT k = 0; k < COUNT_; ++k) order[k * TO] = other[k];
      width = width + width;
    }"""
# Binary search; nans are at the end.
_SEARCH = """
    INT low = 0;
    INT high = COUNT_;
    REAL w = v[0];
    while (low < high) {
      INT middle = HALF(low + high);
      REAL u = x[middle * FROM];
      if (TEST) low = middle + 1;
      else high = middle;
    }
    order[0] = low;"""
_ARGEXTREMUM = """
    INT best = 0;
    REAL t = x[0];
    for (INT i = 1; i < COUNT_; ++i) {
      REAL v = x[i * FROM];
      if (TEST) {
        best = i;
        t = v;
      }
    }
    order[0] = best;"""


def _less(a: str, b: str, dtype: Dtype) -> str:
    """Whether a sorts before b; nan sorts last."""
    return f"{a} < {b} || ({a} == {a} && {b} != {b})" if dtype.kind == "f" else f"{a} < {b}"


def argsorted(low: Lowering, source: View, dtype: Dtype) -> View:
    """The order of each line of a view; its last axis is sorted."""
    order = View.whole(low.buffer(Type(source.shape, _INDEX), "local"), source.shape)
    other = low.local(Type(source.shape[-1:], _INDEX))
    text = _ARGSORT.replace("LESS(w, v)", _less("w", "v", dtype))
    text = _filled(text, COUNT_=source.shape[-1], FROM=source.strides[-1], TO=order.strides[-1])
    run(low, "argsort", text, dtype, {"x": source}, {"order": order}, {"other": other})
    return order


def _back(view: View, axis: int) -> View:
    """A view whose last axis is moved to a place in front."""
    order = list(range(len(view.shape) - 1))
    order.insert(axis, len(view.shape) - 1)
    return View(view.buffer, tuple(view.shape[k] for k in order), tuple(view.strides[k] for k in order), view.offset)


def _argsort(low: Lowering, equation: Equation) -> bool:
    (x,), (t,), axis = equation.inputs, equation.types, equation.params["axis"]
    dtype = low.type_of(x).dtype
    if dtype not in EVERY - {BOOL} or 0 in t.shape:
        return False
    return low.hold(equation, _back(argsorted(low, last(low.view(x), axis), dtype), axis))


def _argextremum(low: Lowering, equation: Equation) -> bool:
    (x,), (t,), axis = equation.inputs, equation.types, equation.params["axis"]
    given = low.type_of(x)
    if given.dtype not in EVERY - {BOOL} or 0 in given.shape:
        return False
    source, out = last(low.view(x), axis), low.local(t)
    order = View(out.buffer, (*out.shape, 1), (*out.strides, 0), out.offset)
    sign = ">" if equation.op is reduce.argmax else "<"
    test = f"v {sign} t || (v != v && t == t)" if given.dtype.kind == "f" else f"v {sign} t"
    text = _filled(_ARGEXTREMUM, COUNT_=source.shape[-1], FROM=source.strides[-1], TEST=test)
    run(low, equation.op.name, text, given.dtype, {"x": source}, {"order": order})
    return low.hold(equation, out)


def _searchsorted(low: Lowering, equation: Equation) -> bool:
    (a, v), (t,) = equation.inputs, equation.types
    given, wanted = low.type_of(a), low.type_of(v)
    dtype = np.result_type(given.dtype, wanted.dtype)
    if dtype not in FLOATS or 0 in (*given.shape, *wanted.shape):
        return False
    table, value = _in_memory(low, a, Type(given.shape, dtype)), _in_memory(low, v, Type(wanted.shape, dtype))
    out = low.local(t)
    shape = (*t.shape, given.shape[0])
    line = View(table.buffer, shape, (*(0,) * len(t.shape), table.strides[0]), table.offset)
    # Left: elements below the value are before it; right: those that are not above it.
    test = f"({_less('u', 'w', dtype)})" if equation.params["side"] == "left" else f"!({_less('w', 'u', dtype)})"
    text = _filled(_SEARCH, COUNT_=given.shape[0], FROM=table.strides[0], TEST=test)
    places = [View(view.buffer, (*view.shape, 1), (*view.strides, 0), view.offset) for view in (value, out)]
    run(low, "search", text, dtype, {"x": line, "v": places[0]}, {"order": places[1]})
    return low.hold(equation, out)


# -- writes at indices ------------------------------------------------------------------------------------------


def _written_at(arrays: Sequence[View], extent: Sequence[int], body: str) -> str:
    """A loop over the positions given by index arrays, in order, so that the last write wins; it returns 1 if one is out of
    bounds.
    """
    lines, place = [], ""
    for i, n in enumerate(extent):
        lines.append(f"INT p{i} = AT(at{i}[k]); if (p{i} < 0) p{i} = p{i} + {n}; if (p{i} < 0 || p{i} >= {n}) return 1;")
        place = f"({place}) * {n} + p{i}" if place else f"p{i}"
    return f"""
    for (INT k = 0; k < {math.prod(arrays[0].shape)}; ++k) {{
      {" ".join(lines)}
      INT place = {place};
      {body}
    }}"""


def _indices(low: Lowering, arrays: Sequence[Operand]) -> list[View] | None:
    """Index arrays of one shape, in C order; None if they are not int64, or empty."""
    types = [low.type_of(a) for a in arrays]
    shape = np.broadcast_shapes(*(t.shape for t in types))
    if any(t.dtype not in (_INDEX, np.dtype(np.int32)) for t in types) or 0 in shape:
        return None
    return [_in_memory(low, a, Type(shape, _INDEX)) for a in arrays]


def _whole(low: Lowering, operand: Operand, t: Type) -> View:
    """An operand in C order."""
    view = _in_memory(low, operand, t)
    if view.is_whole:
        return view
    made = low.local(t)
    low.copy(view, made)
    return made


def _flat(view: View) -> View:
    return View(view.buffer, (view.buffer.size,), (1,), 0)


def _put_at(low: Lowering, equation: Equation) -> bool:
    x, v, *arrays = equation.inputs
    (t,), axis = equation.types, equation.params["axis"]
    if axis or t.dtype not in EVERY or 0 in t.shape:
        return False
    at = _indices(low, arrays)
    if at is None:
        return False
    extent, rest = t.shape[: len(arrays)], t.shape[len(arrays) :]
    value = _whole(low, v, Type((*at[0].shape, *rest), t.dtype))
    out = low.local(t)
    low.copy(low.operand(x, t.shape), out)
    inner = math.prod(rest)
    body = f"for (INT i = 0; i < {inner}; ++i) out[place * {inner} + i] = v[k * {inner} + i];"
    text = _written_at(at, extent, body) + " return 0;"
    failed = low.local(Type((), BOOL))
    names = ("v", *(f"at{i}" for i in range(len(at))), "out")
    options = {"template": text, "names": names, "dtype": t.dtype, "axes": 1, "tells": True}
    step = Lapack(
        "put", tuple(map(_flat, (value, *at))), (_flat(out),), (failed,), (), options, {low.line: None} if low.line else {}
    )
    low.ready[out.buffer] = low.ready[failed.buffer] = low.step(step)
    low.out_of_bounds.append(failed)
    return low.hold(equation, out)


def _last_write(low: Lowering, equation: Equation) -> bool:
    (t,), extent = equation.types, equation.params["extent"]
    at = _indices(low, equation.inputs)
    if at is None or 0 in extent:
        return False
    out, winner = low.local(t), low.local(Type((math.prod(extent),), _INDEX))
    second = _written_at(at, extent, "truth[k] = winner[place] == k;")
    text = _written_at(at, extent, "winner[place] = k;") + second + " return 0;"
    reads = {f"at{i}": _flat(view) for i, view in enumerate(at)}
    run(low, "last_write", text, np.dtype(np.float64), reads, {"truth": _flat(out)}, {"winner": winner}, failure="index")
    return low.hold(equation, out)


_PERMUTATION = """
    for (INT i = 0; i < COUNT_; ++i) order[i * TO] = i;
    for (INT i = 0; i < COUNT_; ++i) {
      INT j = AT(exchanged[i * FROM]);
      INT kept = AT(order[i * TO]);
      order[i * TO] = order[j * TO];
      order[j * TO] = kept;
    }"""


def _permutation(low: Lowering, equation: Equation) -> bool:
    (pivots,), (t,) = equation.inputs, equation.types
    if 0 in t.shape:
        return False
    source, out = _in_memory(low, pivots, Type(t.shape, _INDEX)), low.local(t)
    text = _filled(_PERMUTATION, COUNT_=t.shape[-1], FROM=source.strides[-1], TO=out.strides[-1])
    run(low, "permutation", text, np.dtype(np.float64), {"exchanged": source}, {"order": out})
    return low.hold(equation, out)


RULES: Rules = {
    reduce.prod: product,
    convolve.convolve: _convolve,
    matrix_functions.permutation: _permutation,
    **dict.fromkeys(_STEPS, _cumulative),
    reduce.recurrence: _recurrence,
    reduce.argsort: _argsort,
    **dict.fromkeys((reduce.argmax, reduce.argmin), _argextremum),
    sort.searchsorted: _searchsorted,
    index.put_at: _put_at,
    index.last_write: _last_write,
}
