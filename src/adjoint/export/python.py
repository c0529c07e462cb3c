"""A graph as the source of a Python function that needs only NumPy.

    import numpy as np

    @np.errstate(all="ignore")
    def energy(x):
        x = np.asarray(x, "float64")
        v1 = np.sin(x)
        v2 = v1 * x
        v3 = np.sum(v2, axis=(0,), keepdims=False)
        return v3

An op is written by its line in the table below, by its name if it is a function of NumPy or of `scipy.special` (which is then
imported), or as a call of its implementation if that is listed as plain NumPy (its source is then included). Other ops are
refused by name.
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

from ..core.errors import UnsupportedError
from ..ir.graph import Equation, Graph, Literal, Operand

_READABLE = 64  # elements; a longer constant is written as bytes
_SPECIAL = "scipy.special"


class Call(NamedTuple):
    """An equation to be written: its op's name, the texts of its operands, its parameters and the operands' dtypes."""

    name: str
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


def _infix(sign: str) -> Writer:
    return lambda c: f"{c.args[0]} {sign} {c.args[1]}"


def _function(name: str) -> Writer:
    """A function that takes the operands, and the parameters by name."""
    return lambda c: f"{name}({', '.join([*c.args, *(f'{k}={parameter(v)}' for k, v in c.params.items())])})"


def _positional(name: str) -> Writer:
    return lambda c: f"{name}({', '.join([*c.args, *map(parameter, c.params.values())])})"


def _listing(name: str) -> Writer:
    return lambda c: f"{name}([{', '.join(c.args)}], axis={c.axis})"


def _cast(c: Call) -> str:
    x = f"np.real({c.args[0]})" if c.kinds[0] == "c" and c.dtype.kind != "c" else c.args[0]
    return f"np.asarray({x}).astype({parameter(c.dtype)})[()]"


def _einsum(c: Call) -> str:
    contracts = len(c.args) > 1 and any(letter not in c.output for letters in c.inputs for letter in letters)
    return f'np.einsum("{",".join(c.inputs)}->{c.output}", {", ".join(c.args)}, optimize={contracts})[()]'


def _gathered(axis: int, arrays: Sequence[str]) -> str:
    return ", ".join([*[":"] * axis, *arrays]) + ("," if not axis and len(arrays) == 1 else "")


def _fft(c: Call) -> str:
    name = "ifft" if c.inverse else "fft"
    where = f"axis={c.axes[0]}" if len(c.axes) == 1 else f"axes={c.axes}"
    return f"np.fft.{name}{'n' if len(c.axes) != 1 else ''}({c.args[0]}, {where}, norm={c.params['norm']!r})"


TABLE: dict[str, Writer] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _infix("/"),
    "power": _infix("**"),
    "remainder": _infix("%"),
    "floor_divide": _infix("//"),
    "bitwise_and": _infix("&"),
    "bitwise_or": _infix("|"),
    "bitwise_xor": _infix("^"),
    "left_shift": _infix("<<"),
    "right_shift": _infix(">>"),
    "invert": _function("np.invert"),
    "equal": _infix("=="),
    "not_equal": _infix("!="),
    "less": _infix("<"),
    "less_equal": _infix("<="),
    "greater": _infix(">"),
    "greater_equal": _infix(">="),
    "neg": lambda c: f"-{c.args[0]}",
    "square": _function("np.square"),
    "pos": lambda c: f"+{c.args[0]}",
    "abs": _function("np.abs"),
    "fraction": lambda c: f"np.modf({c.args[0]})[0]",
    "whole": lambda c: f"np.modf({c.args[0]})[1]",
    "mantissa": lambda c: f"np.frexp({c.args[0]})[0]",
    "exponent": lambda c: f"np.frexp({c.args[0]})[1]",
    "conj": _function("np.conjugate"),
    "expit": lambda c: f"1 / (1 + np.exp(-{c.args[0]}))",
    "round_to": _function("np.round"),
    "times": _infix("*"),
    "chain": _function("product_zero_wins"),
    "absorb": _function("product_either_zero_wins"),
    "stop_gradient": lambda c: f"np.array({c.args[0]})[()]",
    "where": lambda c: f"np.where({', '.join(c.args)})[()]",
    "cast": _cast,
    "truncate": _cast,
    "reshape": _positional("np.reshape"),
    "transpose": _positional("np.transpose"),
    "broadcast_to": _positional("np.broadcast_to"),
    "roll": _positional("np.roll"),
    "difference": _function("np.diff"),
    "concatenate": _listing("np.concatenate"),
    "stack": _listing("np.stack"),
    "getitem": lambda c: f"{c.args[0]}[{subscript(c.spec)}]",
    "place": lambda c: f"placed({c.args[0]}, {parameter(c.spec)}, {parameter(c.shape)})",
    "put": lambda c: f"put({c.args[0]}, {c.args[1]}, {parameter(c.spec)})",
    "gather": lambda c: f"{c.args[0]}[{_gathered(c.axis, c.args[1:])}]",
    "scatter_add": lambda c: f"scattered({c.args[0]}, np.s_[{_gathered(c.axis, c.args[1:])}], {parameter(c.shape)})",
    "put_at": lambda c: f"put({c.args[0]}, {c.args[1]}, np.s_[{_gathered(c.axis, c.args[2:])}])",
    "take_along": _positional("np.take_along_axis"),
    "sum": _function("np.sum"),
    "max": _function("np.max"),
    "min": _function("np.min"),
    "prod": _function("np.prod"),
    "cumsum": _function("np.cumsum"),
    "cumprod": _function("np.cumprod"),
    "recurrence": _function("recurrence"),
    "all": _function("np.all"),
    "any": _function("np.any"),
    "count_nonzero": _function("np.count_nonzero"),
    "running_max": _function("np.maximum.accumulate"),
    "running_min": _function("np.minimum.accumulate"),
    "argmax": _function("np.argmax"),
    "argmin": _function("np.argmin"),
    "argsort": _function("np.argsort"),
    "searchsorted": _function("np.searchsorted"),
    "einsum": _einsum,
    "norm": lambda c: f"np.sqrt(np.sum(np.abs({c.args[0]}) ** 2, axis={c.axis}, keepdims={c.keepdims}))",
    "logsumexp": lambda c: f"logsumexp({c.args[0]}, {c.axis})",
    "solve": _function("np.linalg.solve"),
    "cholesky": _function("np.linalg.cholesky"),
    "det": _function("np.linalg.det"),
    "slogdet": _function("np.linalg.slogdet"),
    "pinv": _function("np.linalg.pinv"),
    "qr": lambda c: f'np.linalg.qr({c.args[0]}, "{"complete" if c.complete else "reduced"}")',
    "eigh": lambda c: f'np.linalg.eigh({c.args[0]}, "{"L" if c.lower else "U"}")',
    "first_order": lambda c: f"np.ones_like({c.args[0]})",
    "svd": lambda c: f"np.linalg.svd({c.args[0]}, full_matrices={c.full})",
    "fft": _fft,
    "rfft": _function("np.fft.rfft"),
    "irfft": _function("np.fft.irfft"),
}

#: Ops whose implementation is included: it and the functions that it calls need only NumPy.
WRITTEN_OUT = {"cancelled", "crowded", "gap_splitting", "negligible", "splitting", "told_apart"}

#: Helper functions, included where they are needed.
PRELUDE = {
    "product_zero_wins": '''def product_zero_wins(g, p):
    """g * p, and exactly 0 wherever g is exactly 0, even if p is infinite or nan."""
    return np.where(np.equal(g, 0), np.zeros((), np.result_type(g, p)), g * p)[()]
''',
    "product_either_zero_wins": '''def product_either_zero_wins(a, b):
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
        if equation.op.name in WRITTEN_OUT:
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
        call = Call(equation.op.name, [operand(o) for o in equation.inputs], equation.params, kinds)
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
    writer = TABLE.get(call.name) or _by_name(equation)
    try:
        return writer(call)
    except TypeError as error:
        raise _unwritten(equation, str(error)) from None


def _by_name(equation: Equation) -> Writer:
    impl = equation.op.impl
    name = getattr(impl, "__name__", "")
    if equation.op.name in WRITTEN_OUT:
        return _function(name)
    if isinstance(impl, np.ufunc) and getattr(np, name, None) is impl:
        return _function(f"np.{name}")
    if getattr(impl, "__module__", "") == "numpy" and getattr(np, name, None) is impl:
        return _function(f"np.{name}")
    if getattr(impl, "module", "") == _SPECIAL:
        return _function(f"special.{impl.name}")  # type: ignore[attr-defined]
    raise _unwritten(equation, "it has no equivalent in NumPy or scipy.special")


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
