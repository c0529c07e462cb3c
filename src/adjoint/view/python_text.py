"""How numbers, parameters, indices and single equations are written in Python source, for `python.py`."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.op import Expansion, Op
from ..core.types import Type
from ..ir.graph import Equation, Literal
from ..ops import convolve, decompose, fft, index, linalg, reduce, solve
from ..ops.broadcast import cast, sum_, transpose, where
from ..ops.elementwise import truncate
from .notation import PYTHON, Piece, python_name

_READABLE = 64  # elements; a longer constant is written as bytes
_NAMED = frozenset(["bool", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"])
_LISTED = 2  # rows of a triangle that are listed
_FEW = 4  # equal elements of an array that are still listed


class PythonCall(NamedTuple):
    """An equation about to be written: the texts of its operands, its parameters and the operands' types."""

    args: Sequence[str]
    params: dict[str, Any]
    types: Sequence[Type]

    def __getattr__(self, name: str) -> Any:
        return self.params[name]


# -- pieces of text ---------------------------------------------------------------------------------------------


def number(value: Any) -> str:
    """A Python number. A negative one is in parentheses, since a power binds tighter than a sign."""
    if isinstance(value, complex):
        negative = math.copysign(1.0, value.imag) < 0  # -2j has the real part -0.0
        if value.real == 0 and math.isfinite(value.imag) and (math.copysign(1.0, value.real) < 0) == negative:
            return f"(-{abs(value.imag)!r}j)" if negative else f"{value.imag!r}j"
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "(-np.inf)"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def array(value: Any) -> str:
    """An array constant."""
    name, shape = value.dtype.name, value.shape
    if not shape and name in ("float64", "float32", "int64", "complex128", "bool"):
        return f"np.{name}({number(value.item())})".replace("np.bool(", "np.bool_(")
    if brief := _matrix_by_rule(value, name) or _by_rule(value, name):
        return brief
    if value.size > _READABLE or name.startswith(("longdouble", "clongdouble", "float128", "complex256")):
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes().hex()
        return f'np.frombuffer(bytes.fromhex("{raw}"), "{value.dtype.newbyteorder("<").str}").reshape({shape})'
    numbers = ", ".join(
        number(x).removeprefix("(").removesuffix(")") if not isinstance(x, complex) else number(x) for x in value.ravel().tolist()
    )
    flat = f'np.array([{numbers}], "{name}")'
    if len(shape) == 1:
        return flat
    return f'np.array({_rows(value)}, "{name}")' if value.size else f"{flat}.reshape({shape})"


def _rows(value: Any) -> str:
    """The elements of an array as nested lists."""
    if value.ndim:
        return f"[{', '.join(map(_rows, value))}]"
    text = number(value.item())
    return text if value.dtype.kind == "c" else text.removeprefix("(").removesuffix(")")


def _matrix_by_rule(value: Any, name: str) -> str:
    """A matrix of zeros and ones that NumPy has a name for, with any diagonal; '' if it is none."""
    if value.ndim != 2 or name not in ("float64", "float32") or min(value.shape) < 2 or value.shape[0] != value.shape[1]:
        return ""
    n, first = value.shape[0], value[0, 0].item()
    eye = f'np.eye({n}, dtype="{name}")' if name != "float64" else f"np.eye({n})"
    tri = f'np.tri({n}, k=-1, dtype="{name}")' if name != "float64" else f"np.tri({n}, k=-1)"
    if not math.isfinite(first) or not first:
        return ""
    scaled = eye if first == 1 else f"{number(first)} * {eye}"
    with_ones = tri.replace(", k=-1", "")
    below, diagonal = np.tri(n, k=-1, dtype=name), value.dtype.type(first) * np.eye(n, dtype=name)
    texts = [(scaled, diagonal)]
    if n <= _LISTED:
        return scaled if diagonal.tobytes() == value.tobytes() else ""
    texts += [(with_ones, below + diagonal), (f"{with_ones}.T", below.T + diagonal)] if first == 1 else []
    texts += [(f"{tri} + {scaled}", below + diagonal), (f"{tri}.T + {scaled}", below.T + diagonal)]
    return next((text for text, matrix in texts if matrix.tobytes() == value.tobytes()), "")


def _by_rule(value: Any, name: str) -> str:
    """An array whose elements are equal, or equal but for one, or count up; '' if it is none of these."""
    size, shape = value.size, value.shape
    if size <= _FEW or name not in _NAMED:
        return ""
    flat = np.ascontiguousarray(value).reshape(-1)
    rows = flat.view(np.uint8).reshape(size, -1)
    usual = rows[0] if np.array_equal(rows[0], rows[1]) else rows[2]
    others = np.flatnonzero((rows != usual).any(1))
    if not len(others):
        fill = number(flat[0].item())
        return f'np.zeros({shape}, "{name}")' if not rows.any() else f'np.full({shape}, {fill}, "{name}")'
    text = ""
    if len(others) == 1 and size > _READABLE:
        place = int(others[0])
        one, usual_text = (number(flat[k].item()) for k in (place, 0 if place else 1))
        text = f'np.where(np.arange({size}) == {place}, {one}, {usual_text}).astype("{name}")'
    elif size > _READABLE and flat.dtype.kind in "if":
        with np.errstate(all="ignore"):  # it may begin with infinities
            first, step = flat[0].item(), (flat[1] - flat[0]).item()
            counts_up = (first + step * np.arange(size)).astype(flat.dtype).tobytes() == flat.tobytes()
        if counts_up:
            text = f'({number(first)} + {number(step)} * np.arange({size})).astype("{name}")'
    return text if not text or len(shape) == 1 else f"{text}.reshape({shape})"


def parameter(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f'"{value.name}"'
    if isinstance(value, tuple) and any(isinstance(part, slice) for part in value):
        return f"np.s_[{subscript(value)}]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(parameter, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, (bool, int, str, type(None))):
        return repr(value)
    if isinstance(value, (float, complex)):
        return number(value)
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if value is Ellipsis:
        return "..."
    raise TypeError(f"the parameter {value!r} has no text")


def as_declared(op: Op, args: Sequence[str], params: dict[str, Any]) -> str:
    """An op on operands as its declaration has it: an expression, a function of NumPy or SciPy, an operator; "" if it is none."""
    name = op.impl.__name__ if op.python == "def" else python_name(op)
    if "{" in op.python or name:
        texts = {key: parameter(value) for key, value in params.items()}
        if "{" in op.python:
            return op.python.format(*args, all=", ".join(args), **texts)
        return f"{name}({', '.join([*args, *(f'{key}={text}' for key, text in texts.items())])})"
    if op.infix:
        return f" {op.infix} ".join(args) if len(args) > 1 else f"{op.infix}{args[0]}"
    return ""


def subscript(spec: Any) -> str:
    """An index as written in brackets."""
    parts = spec if isinstance(spec, tuple) else (spec,)
    return ", ".join(map(_place, parts)) + ("," if len(parts) == 1 and isinstance(parts[0], tuple) else "") if parts else "()"


def _place(part: Any) -> str:
    if not isinstance(part, slice):
        return parameter(part)
    ends = [("" if end is None else str(end)) for end in (part.start, part.stop)]
    return ":".join(ends) + ("" if part.step in (None, 1) else f":{part.step}")


# -- the table --------------------------------------------------------------------------------------------------

Writer = Callable[[PythonCall], str]


def _cast(c: PythonCall) -> str:
    x = f"np.real({c.args[0]})" if c.types[0].dtype.kind == "c" and c.dtype.kind != "c" else c.args[0]
    return f"np.asarray({x}).astype({parameter(c.dtype)})[()]"


def _einsum(c: PythonCall) -> str:
    contracts = len(c.args) > 1 and any(letter not in c.output for letters in c.inputs for letter in letters)
    return f'np.einsum("{",".join(c.inputs)}->{c.output}", {", ".join(c.args)}, optimize={contracts})[()]'


def _convolve(c: PythonCall) -> str:
    if any(len(t.shape) != 1 for t in c.types):
        raise TypeError("np.convolve has no stacks of rows")
    return f'np.convolve({c.args[0]}, {c.args[1]}, "{c.mode}")'


def _fft(c: PythonCall) -> str:
    name = "ifft" if c.inverse else "fft"
    where = f"axis={c.axes[0]}" if len(c.axes) == 1 else f"axes={c.axes}"
    return f"np.fft.{name}{'n' if len(c.axes) != 1 else ''}({c.args[0]}, {where}, norm={c.params['norm']!r})"


def _index(c: PythonCall, first: int) -> str:
    """Integer arrays as an index."""
    arrays = c.args[first:]
    return ", ".join([*[":"] * c.axis, *arrays])


def _triangular_solve(c: PythonCall) -> str:
    a = f"np.{'tril' if c.lower else 'triu'}({c.args[0]})"
    return f"np.linalg.solve({f'np.swapaxes({a}, -1, -2)' if c.transposed else a}, {c.args[1]})"


#: Ops that are neither a function nor an operator of Python; the others say in their declaration how they are written.
TABLE: dict[Op, Writer] = {
    cast: _cast,
    truncate: _cast,
    linalg.einsum: _einsum,
    index.getitem: lambda c: f"{c.args[0]}[{subscript(c.spec)}]",
    index.gather: lambda c: f"{c.args[0]}[{_index(c, 1)}]",
    index.scatter_add: lambda c: f"scattered({c.args[0]}, np.s_[{_index(c, 1)}], {parameter(c.shape)})",
    index.put_at: lambda c: f"put({c.args[0]}, {c.args[1]}, np.s_[{_index(c, 2)}])",
    decompose.qr: lambda c: f'np.linalg.qr({c.args[0]}, "{"complete" if c.complete else "reduced"}")',
    decompose.eigh: lambda c: f'np.linalg.eigh({c.args[0]}, "{"L" if c.lower else "U"}")',
    decompose.cholesky_pullback: lambda c: f"cholesky_pullback({c.args[0]}, {c.args[1]})",
    solve.triangular_solve: _triangular_solve,
    solve.inv: lambda c: f"np.linalg.inv({c.args[0]})" if c.strict else f"_inv({c.args[0]}, strict=False)",
    fft.fft: _fft,
    convolve.convolve: _convolve,
}

# -- equations -------------------------------------------------------------------------------------------------


def written(equation: Equation, call: PythonCall) -> str:
    """The right-hand side of an equation."""
    op, args = equation.op, call.args
    try:
        if op in TABLE:
            return TABLE[op](call)
        declared = as_declared(op, args, call.params)
        if declared:
            return declared
    except TypeError as error:
        raise _unwritten(equation, str(error)) from None
    if callable(op.scalar):
        return str(Expansion(_expanded).run(op.scalar, [Piece(a) for a in args]).text)
    raise _unwritten(equation, "it is not one function of NumPy or scipy.special")


def _expanded(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Piece:
    """One op of an expression that another stands for."""
    return PYTHON.call(op, [a.aux if isinstance(a, Traced) else Piece(number(a)) for a in args])


def _unwritten(equation: Equation, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the op {equation.op.name!r} cannot be written as Python with NumPy: {why}; run the graph itself, or save its text",
        equation.line or None,
    )


_CLASSES = {"bool": "np.bool_"}  # of NumPy's scalars, where the name is another than that of the dtype
#: Reductions over all axes that need not name them.
_REDUCTIONS = frozenset({sum_, reduce.max_, reduce.min_, reduce.prod, reduce.any_, reduce.all_})


def readably(equation: Equation, args: Sequence[str], types: Sequence[Type]) -> str:
    """The right-hand side as a person writes it: `x @ w`, `np.sum(x, axis=0)`, `0.5 * x`."""
    op, params, args = equation.op, dict(equation.params), list(args)
    if op is linalg.matmul and all(t.shape for t in types):
        return f"{args[0]} @ {args[1]}"
    if op is cast and not types[0].shape and types[0].dtype.kind != "c":
        return f"{_CLASSES.get(params['dtype'].name, 'np.' + params['dtype'].name)}({args[0]})"
    constant = [isinstance(o, Literal) for o in equation.inputs]
    promoted = types[1:] if op is where else types
    if (op.infix or op is where) and not all(constant) and all(t.dtype == np.float64 for t in promoted):
        # a Python number promotes to the same
        for i, o in enumerate(equation.inputs):
            if isinstance(o, Literal) and not o.is_weak and not o.type.shape:
                args[i] = number(o.value.item())
    if op is transpose and params["axes"] == (1, 0):
        return f"{args[0]}.T"
    if op in _REDUCTIONS and "keepdims" in params:
        axis, keepdims = params.pop("axis"), params.pop("keepdims")
        if len(axis) < len(types[0].shape) or not axis:
            params["axis"] = axis[0] if len(axis) == 1 else axis
        if keepdims:
            params["keepdims"] = True
    text = written(replace(equation, params=params), PythonCall(args, params, types))
    return text.removesuffix("[()]") if equation.types[0].shape else text  # it makes a number of an array without axes


def definitions(function: Any) -> dict[str, str]:
    """The sources of a function and of those that it calls, by name, in definition order."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    found = dict[str, str]()
    for other in (function.__globals__.get(name) for name in names):
        if isinstance(other, FunctionType) and other is not function:
            found |= definitions(other)
    return found | {function.__name__: ast.unparse(tree)}


#: Functions that some lines call, written out in front where they are needed.
PRELUDE = {
    "strong_mul": '''def strong_mul(g, p):
    """g * p, and exactly 0 wherever g is exactly 0, even if p is infinite or nan."""
    return np.where(np.equal(g, 0), np.zeros((), np.result_type(g, p)), g * p)[()]
''',
    "strong_mul_either": '''def strong_mul_either(a, b):
    """a * b, and exactly 0 wherever either is exactly 0."""
    return np.where(np.equal(a, 0) | np.equal(b, 0), np.zeros((), np.result_type(a, b)), a * b)[()]
''',
    "placed": '''def placed(x, where, shape):
    """Zeros with x at an index."""
    out = np.zeros(shape, x.dtype)
    out[where] = x
    return out
''',
    "put": '''def put(x, v, where):
    """x with v written into it."""
    out = np.array(x, np.result_type(x, v))
    out[where] = v
    return out
''',
    "scattered": '''def scattered(x, where, shape):
    """x added to zeros at an index."""
    out = np.zeros(shape, x.dtype)
    np.add.at(out, where, x)
    return out
''',
    "recurrence": '''def recurrence(a, b, axis):
    """y with y_0 = b_0 and y_i = a_i y_{i-1} + b_i along an axis."""
    a, b = (np.moveaxis(x, axis, 0) for x in np.broadcast_arrays(a, b))
    y = np.array(b, np.result_type(a, b))
    for i in range(1, len(y)):
        y[i] += a[i] * y[i - 1]
    return np.moveaxis(y, 0, axis)
''',
    "cholesky_pullback": '''def cholesky_pullback(l, g):
    """The cotangent of a = l @ l.T from that of l, twice its symmetric part."""
    l, n = np.tril(l), l.shape[-1]
    turned = np.conjugate(np.swapaxes(l, -1, -2))
    s = np.tril(turned @ np.tril(g))
    s[..., range(n), range(n)] *= 0.5
    x = np.linalg.solve(turned, np.swapaxes(np.linalg.solve(np.swapaxes(l, -1, -2), np.swapaxes(s, -1, -2)), -1, -2))
    return x + np.conjugate(np.swapaxes(x, -1, -2))
''',
    "logsumexp": """def logsumexp(x, axis):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    return np.squeeze(np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift, axis)[()]
""",
}
