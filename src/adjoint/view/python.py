"""A graph as the source of a Python function that needs only NumPy.

    import numpy as np

    @np.errstate(all="ignore")
    def energy(x):
        x = np.asarray(x, "float64")
        v1 = np.sin(x)
        v2 = v1 * x
        v3 = np.sum(v2, axis=(0,), keepdims=False)
        return v3

An op is written as its declaration says (`python=`), by its name if it is a function of NumPy or of `scipy.special` (which is
then imported), by Python's operator, by the expression in other ops that it stands for (`scalar=`), or not at all: it is refused
by name.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import math
import re
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.op import Expansion, Op
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import decompose, fft, index, linalg
from ..ops.broadcast import cast
from ..ops.elementwise import truncate
from .notation import PYTHON, Text, python_name

_READABLE = 64  # elements; a longer constant is written as bytes


class Call(NamedTuple):
    """An equation about to be written: the texts of its operands, its parameters and the operands' dtypes."""

    args: Sequence[str]
    params: dict[str, Any]
    kinds: Sequence[str]

    def __getattr__(self, name: str) -> Any:
        return self.params[name]


# -- pieces of text ---------------------------------------------------------------------------------------------


def number(value: Any) -> str:
    """A Python number. A negative one is in parentheses, since a power binds tighter than a sign."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "(-np.inf)"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def array(value: Any) -> str:
    """An array constant."""
    name, shape = value.dtype.name, value.shape
    if not shape and name in ("float64", "float32", "int64", "complex128"):
        return f"np.{name}({number(value.item())})"
    if value.size > _READABLE or name.startswith(("longdouble", "clongdouble", "float128", "complex256")):
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes().hex()
        return f'np.frombuffer(bytes.fromhex("{raw}"), "{value.dtype.newbyteorder("<").str}").reshape({shape})'
    numbers = ", ".join(
        number(x).removeprefix("(").removesuffix(")") if not isinstance(x, complex) else number(x) for x in value.ravel().tolist()
    )
    flat = f'np.array([{numbers}], "{name}")'
    return flat if len(shape) == 1 else f"{flat}.reshape({shape})"


def parameter(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f'"{value.name}"'
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

Writer = Callable[[Call], str]


def _cast(c: Call) -> str:
    x = f"np.real({c.args[0]})" if c.kinds[0] == "c" and c.dtype.kind != "c" else c.args[0]
    return f"np.asarray({x}).astype({parameter(c.dtype)})[()]"


def _einsum(c: Call) -> str:
    contracts = len(c.args) > 1 and any(letter not in c.output for letters in c.inputs for letter in letters)
    return f'np.einsum("{",".join(c.inputs)}->{c.output}", {", ".join(c.args)}, optimize={contracts})[()]'


def _fft(c: Call) -> str:
    name = "ifft" if c.inverse else "fft"
    where = f"axis={c.axes[0]}" if len(c.axes) == 1 else f"axes={c.axes}"
    return f"np.fft.{name}{'n' if len(c.axes) != 1 else ''}({c.args[0]}, {where}, norm={c.params['norm']!r})"


def _index(c: Call, first: int) -> str:
    """Integer arrays as an index."""
    arrays = c.args[first:]
    return ", ".join([*[":"] * c.axis, *arrays]) + ("," if not c.axis and len(arrays) == 1 else "")


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
    fft.fft: _fft,
}

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
    "logsumexp": """def logsumexp(x, axis):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    return np.squeeze(np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift, axis)[()]
""",
}


# -- graphs -----------------------------------------------------------------------------------------------------


def source(graph: Graph) -> str:
    """The source of a function of the graph's flat inputs; several results are a tuple."""
    helpers = dict[str, str]()
    for equation in graph.equations:
        if equation.op.python == "def":
            helpers |= _definitions(equation.op.impl)
    reserved = {"np", "special", *PRELUDE, *helpers}
    words = _words([graph.name, *graph.input_names], reserved)
    names, constants = dict(enumerate(words[1:])), dict[Literal, str]()
    types = graph.types

    def operand(o: Operand) -> str:
        if isinstance(o, int):
            return names.get(o, f"v{o}")
        if o.is_weak:
            return number(o.value)
        return constants.setdefault(o, f"c{len(constants)}") if o.value.ndim else array(o.value)

    body = []
    for name, type_ in zip(words[1:], graph.input_types, strict=True):
        text = f'np.asarray({name}, "{type_.dtype.name}")'
        body.append(f"{name} = {text}" + ("" if type_.shape else "[()]"))
    for equation in graph.equations:
        kinds = [(o.type if isinstance(o, Literal) else types[o]).dtype.kind for o in equation.inputs]
        call = Call([operand(o) for o in equation.inputs], equation.params, kinds)
        targets = ", ".join(f"v{n}" for n in equation.outputs) + ("," if equation.op.many and len(equation.outputs) == 1 else "")
        body.append(f"{targets} = {_written(equation, call)}" + (f"  # {equation.line}" if equation.line else ""))
    body.append(f"return {', '.join(operand(o) for o in graph.outputs)}")

    written = "\n".join(body)
    prelude = [text for name, text in PRELUDE.items() if re.search(rf"\b{name}\(", written)] + list(helpers.values())
    head = ["import numpy as np"] + ["from scipy import special"] * ("special." in written)
    head += [""] * bool(constants) + [f"{name} = {array(literal.value)}" for literal, name in constants.items()]
    function = f'@np.errstate(all="ignore")\ndef {words[0]}({", ".join(words[1:])}):\n' + "".join(f"    {x}\n" for x in body)
    return "\n\n\n".join(["\n".join(head), *[text.rstrip("\n") for text in prelude], function])


def _definitions(function: Any) -> dict[str, str]:
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
        if isinstance(other, FunctionType):
            found |= _definitions(other)
    return found | {function.__name__: ast.unparse(tree)}


def _written(equation: Equation, call: Call) -> str:
    """The right-hand side of an equation."""
    op, args = equation.op, call.args
    try:
        if op in TABLE:
            return TABLE[op](call)
        texts = {key: parameter(value) for key, value in call.params.items()}
        if "{" in op.python:
            return op.python.format(*args, all=", ".join(args), **texts)
        name = op.impl.__name__ if op.python == "def" else python_name(op)
        if name:
            return f"{name}({', '.join([*args, *(f'{key}={text}' for key, text in texts.items())])})"
    except TypeError as error:
        raise _unwritten(equation, str(error)) from None
    if op.infix:
        return f" {op.infix} ".join(args) if len(args) > 1 else f"{op.infix}{args[0]}"
    if callable(op.scalar):
        return str(Expansion(_expanded).run(op.scalar, [Text(a) for a in args]).text)
    raise _unwritten(equation, "it is not one function of NumPy or scipy.special")


def _expanded(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Text:
    """One op of an expression that another stands for."""
    return PYTHON.call(op, [a.aux if isinstance(a, Traced) else Text(number(a)) for a in args])


def _unwritten(equation: Equation, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the op {equation.op.name!r} cannot be written as Python with NumPy: {why}; run the graph itself, or save its text",
        equation.line or None,
    )


def _words(names: Iterable[str], reserved: set[str]) -> list[str]:
    """Names that Python accepts, all different."""
    words: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name)
        while keyword.iskeyword(word) or word in reserved or word in words or re.fullmatch(r"[vc]\d+", word):
            word += "_"
        words.append(word)
    return words


__all__ = ["source"]
