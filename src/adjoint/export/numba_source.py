"""A function and its derivatives as a Python module that Numba compiles: the text of `export.python` with `@njit`."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.boundary import boundary
from ..core.errors import ArgumentError, UnsupportedError
from ..core.op import Constant, Elementwise, Multilinear, Op, Structured
from ..core.types import Type
from ..ir.edit import bodies, renumber
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import (
    broadcast,
    control,
    decompose,
    determinant,
    elementwise,
    gaps,
    index,
    integer,
    linalg,
    pseudo,
    reduce,
    solve,
    sort,
)
from ..view.python import module
from ..view.python_text import PRELUDE
from .program import parts, write
from .python_source import readable, without_text

#: Ops whose text Numba compiles, of every shape, beside NumPy's ufuncs and Python's operators.
_COMPILED = frozenset({
    broadcast.broadcast_to, broadcast.cast, broadcast.real, broadcast.reshape, broadcast.transpose, broadcast.where,
    control.checkpoint, control.cond, control.scan, control.while_,
    elementwise.absolute, elementwise.expit, elementwise.invert, elementwise.rounded, elementwise.sinc, elementwise.square,
    elementwise.truncate, index.gather, index.getitem, index.place, sort.searchsorted, sort.take_along,
})  # fmt: skip
#: Ufuncs that Numba does not have.
_MISSING = frozenset({elementwise.heaviside, gaps.magnitude, integer.bitwise_count})
#: Functions that Numba has for matrices of floats, not for stacks of them or for integers.
_OF_MATRICES = frozenset({
    decompose.cholesky, decompose.svd, determinant.det, determinant.slogdet, linalg.matmul, pseudo.pinv, solve.solve,
})  # fmt: skip
#: Kinds of dtypes for which Numba has no code, or other results than NumPy: of remainders of integers, and quotients of bools.
_NOT_OF: dict[Op, str] = {
    elementwise.fmod: "i", broadcast.real: "b", elementwise.sinc: "b", elementwise.div: "b", sort.searchsorted: "c",
    **dict.fromkeys((elementwise.less, elementwise.less_equal, elementwise.greater, elementwise.greater_equal), "c"),
}  # fmt: skip
#: Reductions that Numba has over all axes, or over one.
_REDUCED = {broadcast.sum_: (True, True), reduce.max_: (True, False), reduce.min_: (True, False)}


#: Ops that move elements.
_KEPT = frozenset({
    broadcast.broadcast_to, broadcast.reshape, broadcast.transpose, broadcast.where, index.gather, index.getitem, index.place,
    sort.take_along,
})  # fmt: skip
#: Dtypes of the numbers of Python, which Numba returns.
_PYTHONS = frozenset({"bool", "int64", "float64", "complex128"})


@boundary
def numba(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> str:
    """The source of f, and of the derivatives asked for, as functions that Numba compiles on their first call.

    Arguments are arrays, or NumPy's numbers, of the dtypes they were exported for. Results have the dtypes of the program; a
    number that Numba would return as a wider one of Python is an array without axes. What Numba does not have is refused by name.

    >>> from adjoint import export
    >>> "@njit" in export.numba(lambda x: x * x + 1, 2.0)
    True
    """
    found = readable(f, args, kwargs, derivatives, argnums, name)
    for part in found:
        for word in {"njit", "reshaped"}.intersection((part.name, *part.graph.input_names)):
            raise ArgumentError(f"export.numba cannot write a function or an argument named {word!r}, which the module uses")
    for part in found:
        for word, t in zip(part.graph.input_names, part.graph.input_types, strict=True):
            if not _has_dtype(t):
                raise UnsupportedError(f"the argument {word!r} of export.numba is {t!r}; Numba has no arrays of {t.dtype.name}")
        refused = _refused(part.graph)
        if refused is not None:
            written = [p.graph for p in parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name, passes=False)]
            op = next((e.op for g in written for e in without_text(g) if e.line == refused.line), refused.op)
            what = "it" if op is refused.op else f"{refused.op.name!r}, in which it is written"
            raise UnsupportedError(f"export.numba has no code for {op.name!r}: Numba does not compile {what}", refused.line)
    text = module([(_cast_results(part.graph), part.output_names) for part in found], readable=True)
    above, *functions = text.split('@np.errstate(all="ignore")')
    text = _DECORATOR.join([above, *map(_boxed, functions, (part.graph.output_types for part in found))])
    text = text.replace("import numpy as np", "import numpy as np\nfrom numba import njit", 1)
    text = re.sub(r'\n    (\w+) = np\.asarray\(\1, "\w+"\)(\[\(\)\])?(?=\n)', "", text)  # types are known when it is compiled
    text = re.sub(r"np\.s_\[([^][]*)\]", lambda found: _index(found[1]), text)
    if "np.reshape(" in text:
        imports = "from numba import njit\n"
        text = text.replace(imports, f"{imports}{_RESHAPED}", 1).replace("np.reshape(", "reshaped(")
    text = re.sub(r"np\.result_type\((\w+), (\w+)\)", r"np.asarray(\1 * \2).dtype", text)  # which Numba does not have
    text = text.replace("np.zeros(shape, x.dtype)", "np.zeros(shape, np.asarray(x).dtype)")  # a number has none in Numba
    helpers = "|".join(PRELUDE)
    return write(path, re.sub(rf"^def ({helpers})\(", rf"{_DECORATOR}\ndef \1(", text, flags=re.MULTILINE))


def _cast_results(graph: Graph) -> Graph:
    """The graph with typed numbers, and a cast of each result for which Numba has a wider dtype than NumPy."""
    graph = _with_bounded_shifts(graph)
    types, made = graph.types, []
    fresh = 1 + max([*types, -1])
    for e in graph.equations:
        params = {k: _cast_results(v) if isinstance(v, Graph) else v for k, v in e.params.items()}
        e = replace(e, inputs=_typed_numbers(e, types), params=params)
        outputs, casts = list(e.outputs), []
        for i, t in enumerate(e.types):
            if not isinstance(e.op, Structured) and e.op is not broadcast.cast and _is_widened(e, t):
                casts.append(Equation(broadcast.cast, (fresh,), {"dtype": t.dtype}, (outputs[i],), (t,), e.line))
                outputs[i], fresh = fresh, fresh + 1
        made += [replace(e, outputs=tuple(outputs)), *casts]
    return renumber(replace(graph, equations=tuple(made)))


def _with_bounded_shifts(graph: Graph) -> Graph:
    """Numba leaves a shift by all bits or more to the machine; here it leaves the sign, or nothing, as in NumPy."""
    types, made = graph.types, list[Equation]()
    fresh = 1 + max([*types, -1])
    for e in graph.equations:
        if e.op not in (integer.left_shift, integer.right_shift):
            made.append(e)
            continue
        (x, n), (result,) = e.inputs, e.types
        bits = 8 * result.dtype.itemsize
        if isinstance(n, Literal) and np.all((np.asarray(n.value) >= 0) & (np.asarray(n.value) < bits)):
            made.append(e)
            continue
        given = n.type if isinstance(n, Literal) else types[n]
        fits, least, shifted = fresh, fresh + 1, fresh + 2
        fresh += 3
        made.append(Equation(elementwise.less, (n, Literal(bits)), {}, (fits,), (Type(given.shape, np.dtype(bool)),), e.line))
        made.append(Equation(broadcast.where, (fits, n, Literal(given.dtype.type(bits - 1))), {}, (least,), (given,), e.line))
        if e.op is integer.right_shift and result.dtype.kind == "i":
            made.append(replace(e, inputs=(x, least)))
            continue
        made.append(replace(e, inputs=(x, least), outputs=(shifted,)))
        zero = Literal(result.dtype.type(0))
        made.append(Equation(broadcast.where, (fits, shifted, zero), {}, e.outputs, e.types, e.line))
    return replace(graph, equations=tuple(made))


def _typed_numbers(e: Equation, types: Mapping[int, Type]) -> tuple[Operand, ...]:
    """The operands, with Python numbers of the dtype of the others, where Numba would choose a float64."""
    dtypes = {types[o].dtype for o in e.inputs if isinstance(o, int)}
    if len(dtypes) != 1 or e.op is elementwise.power or not isinstance(e.op, (Elementwise, Multilinear, Constant)):
        return e.inputs
    (dtype,) = dtypes

    def fits(x: Any) -> bool:
        return dtype.kind == "f" or (dtype == np.uint64 and type(x) is int and 0 <= x < 1 << 64)

    return tuple(
        Literal(np.asarray(o.value, dtype)[()]) if isinstance(o, Literal) and o.is_weak and fits(o.value) else o for o in e.inputs
    )


def _is_widened(e: Equation, result: Type) -> bool:
    """Whether Numba computes in more bits: with a Python number, small integers in a fused expression, or a determinant."""
    if result.dtype.name in _PYTHONS:
        return False
    of_number = any(isinstance(o, Literal) and o.is_weak for o in e.inputs)
    is_small = result.dtype.kind in "iu" and result.dtype.itemsize < 8 and e.op not in _KEPT
    return of_number or is_small or e.op in (determinant.det, determinant.slogdet)


def _boxed(function: str, results: tuple[Type, ...]) -> str:
    """A function that returns numbers which Python does not have as arrays of their dtypes."""
    above, below, values = function.rpartition("\n    return ")
    value = ast.parse(values.strip(), mode="eval").body
    texts = list(map(ast.unparse, value.elts if isinstance(value, ast.Tuple) else [value]))
    for i, t in enumerate(results):
        if t.shape == () and t.dtype.name not in _PYTHONS:
            constant = re.fullmatch(r"np\.array\(\[(.+)\], '\w+'\)\.reshape\(\(\)\)", texts[i])
            texts[i] = f"np.full((), {constant[1] if constant else texts[i]}, np.{t.dtype.name})"
    rest = values[len(values.rstrip()) :]
    return f"{above}{below}{', '.join(texts)}{rest}"


def _index(subscript: str) -> str:
    """A basic index as a tuple, which Numba can pass to a function."""
    made = []
    for part in subscript.split(", "):
        ends = ", ".join(end or "None" for end in part.split(":"))
        made.append(f"slice({ends})" if ":" in part else ends)
    return f"({', '.join(made)},)"


_DECORATOR = '@njit(error_model="numpy")'
_RESHAPED = f"""

{_DECORATOR}
def reshaped(x, shape):
    return np.ascontiguousarray(x).reshape(shape)
"""  # Numba's own takes contiguous arrays only


def _refused(graph: Graph) -> Equation | None:
    """The first equation that Numba does not compile."""
    types = graph.types
    for equation in graph.equations:
        given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
        if not _is_compiled(equation, given):
            return equation
        inside = next(filter(None, map(_refused, bodies(equation.params).values())), None)
        if inside is not None:
            return inside
    return None


def _has_dtype(t: Type) -> bool:
    """Whether Numba computes with arrays of such a type: not with float16, nor with long doubles."""
    return t.dtype.kind in "biu" or t.dtype.name in ("float32", "float64", "complex64", "complex128")


def _is_compiled(equation: Equation, given: list[Type]) -> bool:
    op, params = equation.op, equation.params
    if not all(map(_has_dtype, (*given, *equation.types))):
        return False
    kinds = {t.dtype.kind for t in given}
    if op in _NOT_OF and kinds & set(_NOT_OF[op]):
        return False
    if op in _REDUCED:
        whole, single = _REDUCED[op]
        count, ndim = len(params["axis"]), len(given[0].shape)
        return not params["keepdims"] and ((whole and count == ndim) or (single and count == 1))
    if op in _OF_MATRICES:
        alike = len({t.dtype for t in given}) == 1  # Numba does not promote them
        return alike and all(0 < len(t.shape) <= 2 and t.dtype.kind in "fc" and t.size for t in given)
    is_numpys = isinstance(op.impl, np.ufunc) and hasattr(np, op.impl.__name__)
    return op in _COMPILED or ((is_numpys or bool(op.infix)) and op not in _MISSING)


__all__ = ["numba"]
