"""Graphs as readable text, and back: `parse(str(g)) == g`.

    graph f(x: float64[3], scale: float64[]) {
      const c0 = float64[2]([1.0, -0.5])
      v2: float64[3] = mul x, scale           # model.py:12
      v3: float64[3] = mul v2, 2.0            # a Python number; float64(2.0) would be NumPy's
      v4: float64[] = sum v3 {axis=(0,), keepdims=False}
      return v4
    }

A Python number is written as it is; an array becomes a `const` line, in hexadecimal bytes if it is large. In a saved program
(`export/container.py`) the line names the file that holds a large one: `const c0 = float64[100] file constants/0.npy`. Parameters
are Python literals, slices, dtypes and `...`. Nested graphs of an equation follow it, indented:

      v3: float64[], v4: float64[5] = scan w, c, xs {length=5, reverse=False, carries=1, consts=1}
        body = graph step(w: float64[], c: float64[], x: float64[]) {
          v3: float64[] = mul c, w
          return v3, v3
        }
"""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.op import find
from ..core.types import PYTHON_NUMBERS, Type
from .check import GraphError
from .graph import Equation, Graph, Literal, Operand

READABLE = 64  # elements; a longer constant is written as bytes
DEEPEST = 64  # graphs inside one another


class GraphSyntaxError(GraphError):
    """Invalid text: names line, column and reason."""


# -- printing ---------------------------------------------------------------------------------------------------


def show(graph: Graph, names: dict[int, str] | None = None, store: Callable[[Any], str] | None = None) -> str:
    """The text of a graph. `names` are those of the inputs, where these are not numbered from 0.

    With `store`, large constants are not part of the text: it takes an array, and returns the name of the file for it.
    """
    names = dict(enumerate(graph.input_names)) if names is None else names
    constants: dict[Literal, str] = {}
    lines: list[str] = []

    def operand(o: Operand) -> str:
        if isinstance(o, int):
            return names.get(o, f"v{o}")
        if o.is_weak:
            return show_value(o.value)
        if not o.value.ndim and not _is_extended(o.value.dtype):
            return f"{o.value.dtype.name}({show_value(o.value.item())})"
        return constants.setdefault(o, f"c{len(constants)}")

    for equation in graph.equations:
        targets = ", ".join(f"v{n}: {t!r}" for n, t in zip(equation.outputs, equation.types, strict=True))
        held = {key: value for key, value in equation.params.items() if isinstance(value, Graph)}
        options = ", ".join(f"{key}={show_value(value)}" for key, value in equation.params.items() if key not in held)
        line = f"  {targets} = {equation.op.name} {', '.join(map(operand, equation.inputs))}".rstrip()
        line += f" {{{options}}}" if options else ""
        lines.append(line + (f"  # {equation.line}" if equation.line else ""))
        for key, part in held.items():
            first, *rest = show(part, None, store).split("\n")
            lines += [f"    {key} = {first}", *(f"    {line}" for line in rest)]
    lines.append(f"  return {', '.join(map(operand, graph.outputs))}".rstrip())
    inputs = ", ".join(f"{name}: {t!r}" for name, t in zip(graph.input_names, graph.input_types, strict=True))
    head = [f"  const {name} = {show_array(literal.value, store)}" for literal, name in constants.items()]
    return "\n".join([f"graph {graph.name}({inputs}) {{", *head, *lines, "}"])


def show_value(value: Any) -> str:
    """A parameter or a number."""
    if isinstance(value, np.dtype):
        return f"dtype({value.name!r})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(show_value, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, complex):
        return f"complex({show_value(value.real)}, {show_value(value.imag)})"  # keeps the sign of a zero
    if isinstance(value, float) and not math.isfinite(value):
        return _show_nan(value) if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _show_nan(value: float) -> str:
    bits = struct.pack(">d", value).hex()
    return "nan" if bits == _NAN else f"nan(0x{bits})"


_NAN = struct.pack(">d", math.nan).hex()


def _is_extended(dtype: Any) -> bool:
    """Whether numbers of this dtype have more digits than a Python number."""
    return bool(dtype.itemsize > (16 if dtype.kind == "c" else 8))


def show_array(array: Any, store: Callable[[Any], str] | None = None) -> str:
    type_ = Type.of(array)
    if store is not None and (array.size > READABLE or _is_extended(array.dtype)):
        return f"{type_!r} file {store(array)}"
    if array.size > READABLE or _is_extended(array.dtype):
        return f"{type_!r} hex {array.astype(array.dtype.newbyteorder('<')).tobytes().hex()}"
    return f"{type_!r}([{', '.join(show_value(x.item()) for x in array.ravel())}])"


# -- parsing ----------------------------------------------------------------------------------------------------

_NAME = r"[^\W\d][\w.]*"  # as in Python, letters of any script
_WORD = re.compile(_NAME)
_BRACKETED = re.compile(r"[(\[{'\"]")
_RESULT = re.compile(r"v[0-9]+")
_SCALAR = re.compile(r"([a-z]+[0-9]+|bool)\((.*)\)")
_TYPE = re.compile(r"([a-z]+[0-9]*)\[([0-9,]*)\]")
_HEAD = re.compile(rf"graph ({_NAME})\((.*)\) \{{")
_CONST = re.compile(rf"const ({_NAME}) = ([a-z0-9]+\[[0-9,]*\])(?:\(\[(.*)\]\)| hex ([0-9a-f]*)| file ([a-z0-9/.]+))")
_HELD = re.compile(rf"({_NAME}) = (graph .*)")
_APPLIED = re.compile(rf"({_NAME})( [^{{#]*)?")


class _Parser:
    """Reads one graph, from line `at` on; it ends at the line with its closing brace."""

    def __init__(self, lines: list[str], places: dict[int, int], files: Mapping[str, Any], at: int = 0, depth: int = 0) -> None:
        self.lines = lines
        self.places = places  # the line of each equation, by identity
        self.files = files  # constants that the text names
        self.depth = depth
        self.names: dict[str, Operand] = {}
        self.types: dict[int, Type] = {}
        self.known_types: dict[str, Type] = {}
        self.known_numbers: dict[str, Literal] = {}
        self.at = at

    def fail(self, reason: str, column: int = 1) -> GraphSyntaxError:
        return GraphSyntaxError(f"line {max(self.at, 0) + 1}, column {column}: {reason}")

    def where(self, part: str, behind: str = "") -> int:
        """The column at which a part of the current line starts, as a whole word if possible."""
        line = self.lines[self.at]
        start = line.find(behind) + len(behind) if behind in line else 0
        word = re.compile(rf"(?<![\w.]){re.escape(part)}(?!\w)").search(line, start)
        return (word.start() if word else max(line.find(part, start), 0)) + 1

    def next(self, otherwise: str) -> str:
        """The next line that is neither empty nor a comment."""
        last = self.at
        self.at = self.peek()
        if self.at == len(self.lines):
            self.at = last
            raise self.fail(otherwise)
        return self.lines[self.at].strip()

    def peek(self) -> int:
        """The index of the next line that is neither empty nor a comment."""
        at = self.at + 1
        while at < len(self.lines) and self.lines[at].strip()[:1] in ("", "#"):
            at += 1
        return at

    def graph(self, first: str) -> Graph:
        head = _HEAD.fullmatch(first)
        if head is None:
            raise self.fail("expected 'graph name(input: type, ...) {'")
        inputs = [self.declaration(part) for part in split_commas(head[2])]
        for i, (name, type_) in enumerate(inputs):
            self.define(name, i, type_)
        equations: list[Equation] = []
        while True:
            line = self.next("the graph has no return line")
            if line.startswith("const "):
                self.constant(line)
            elif line == "return" or line.startswith("return "):
                break
            else:
                equations.append(self.equation(line))
        outputs = tuple(self.operand(part) for part in split_commas(line[len("return") :]))
        if self.next("expected '}' after the return line") != "}":
            raise self.fail("expected '}' after the return line")
        names, types = zip(*inputs, strict=True) if inputs else ((), ())
        return Graph(head[1], tuple(names), tuple(types), tuple(equations), outputs)

    def held(self) -> dict[str, Graph]:
        """The nested graphs of an equation."""
        found: dict[str, Graph] = {}
        while (at := self.peek()) < len(self.lines) and (match := _HELD.fullmatch(self.lines[at].strip())):
            inner = _Parser(self.lines, self.places, self.files, at, self.depth + 1)
            if inner.depth > DEEPEST:
                raise inner.fail(f"more than {DEEPEST} graphs stand inside one another")
            if match[1] in found:
                raise inner.fail(f"{match[1]!r} is given twice", inner.where(match[1]))
            found[match[1]] = inner.graph(match[2])
            self.at = inner.at
        return found

    def define(self, name: str, number: int, type_: Type) -> None:
        if name in self.names:
            raise self.fail(f"{name!r} is defined twice", self.lines[self.at].rfind(f"{name}: ") + 1)
        self.names[name] = number
        self.types[number] = type_

    def declaration(self, text: str) -> tuple[str, Type]:
        name, colon, type_ = text.partition(": ")
        if not colon or not _WORD.fullmatch(name):
            raise self.fail(f"expected 'name: type', got {text!r}", self.where(text))
        return name, self.type(type_)

    def type(self, text: str) -> Type:
        known = self.known_types.get(text)  # a long graph has few distinct types
        if known is not None:
            return known
        match = _TYPE.fullmatch(text)
        if match is None:
            raise self.fail(f"{text!r} is not a type such as float64[2,3]", self.where(text))
        try:
            dtype = np.dtype(match[1])
        except TypeError:
            raise self.fail(f"{match[1]!r} is not a dtype", self.where(text)) from None
        if dtype.kind not in "biufc":
            raise self.fail(f"{match[1]!r} is not a dtype of numbers", self.where(text))
        sizes = match[2].split(",") if match[2] else []
        if not all(0 < len(n) < 19 for n in sizes) or dtype.itemsize * math.prod(int(n) or 1 for n in sizes) >= 1 << 63:
            raise self.fail(f"{_short(text)!r} is not the type of an array that can exist", self.where(text))
        found = self.known_types[text] = Type(tuple(map(int, sizes)), dtype)
        return found

    def constant(self, line: str) -> None:
        match = _CONST.fullmatch(line)
        if match is None:
            raise self.fail("expected 'const name = type([numbers])'")
        type_ = self.type(match[2])
        if match[1] in self.names:
            raise self.fail(f"{match[1]!r} is defined twice", self.where(match[1]))
        try:
            if match[5] is not None:
                if match[5] not in self.files:
                    raise self.fail(f"there is no file {match[5]!r}", self.where(match[5]))
                array = self.files[match[5]]
                if array.dtype != type_.dtype or array.shape != type_.shape:
                    raise self.fail(f"{match[5]!r} holds {Type.of(array)!r}, not {type_!r}", self.where(match[2]))
            elif match[4] is not None:
                array = np.frombuffer(bytes.fromhex(match[4]), type_.dtype.newbyteorder("<")).astype(type_.dtype)
            else:
                array = _numbers([self.number(part) for part in split_commas(match[3])], type_.dtype)
        except (ValueError, TypeError, ArithmeticError) as error:
            if isinstance(error, GraphSyntaxError):
                raise
            raise self.fail(f"these are not {type_.dtype} ({error})", self.where(match[2])) from None
        if array.size != type_.size:
            raise self.fail(f"{array.size} numbers for the type {type_!r}", self.where(match[2]))
        self.names[match[1]] = Literal(array.reshape(type_.shape))

    def equation(self, line: str) -> Equation:
        targets, _, applied = line.partition(" = ")
        match = _APPLIED.match(applied)
        if match is None or not targets:
            raise self.fail("expected 'name: type = op operands {parameters}'")
        name, operands = match[1], (match[2] or "").strip()
        rest, options = applied[match.end() :], ""
        if rest.startswith("{") and (inside := _braced(rest)) is not None:
            options, rest = inside, rest[len(inside) + 2 :]
        if rest[:2] not in ("", "# ") and rest[:4] != "  # ":
            raise self.fail("expected 'name: type = op operands {parameters}'")
        source = rest.partition("# ")[2]
        if name.startswith("custom."):
            raise self.fail(
                f"{name!r} is a function with a custom rule, written in Python, which the text does not contain; stage the "
                "function again",
                self.where(name),
            )
        op = find(name)
        if op is None:
            raise self.fail(f"there is no op named {name!r}", self.where(name))
        inputs = tuple(self.operand(part) for part in split_commas(operands))
        params: dict[str, Any] = {}
        for part in split_commas(options) if options else ():
            key, value = self.parameter(part)
            if key in params:
                raise self.fail(f"{key!r} is given twice", self.where(part))
            params[key] = value
        numbers, types = [], []
        for declared, type_ in [self.declaration(part) for part in split_commas(targets)]:
            if not _RESULT.fullmatch(declared):
                raise self.fail(f"a result is named v and a number, not {declared!r}", self.where(declared))
            self.define(declared, int(declared[1:]), type_)
            numbers.append(int(declared[1:]))
            types.append(type_)
        at = self.at
        params.update(self.held())
        equation = Equation(op, inputs, params, tuple(numbers), tuple(types), source)
        self.places[id(equation)] = at
        return equation

    def operand(self, text: str) -> Operand:
        if text in self.names:
            return self.names[text]
        known = self.known_numbers.get(text)
        if known is not None:
            return known
        if _WORD.fullmatch(text) and text not in ("nan", "inf", "True", "False"):
            raise self.fail(
                f"{text!r} is not defined here", self.where(text, " = " if " = " in self.lines[self.at] else "return ")
            )
        scalar = _SCALAR.fullmatch(text)
        if scalar is None:
            found = Literal(self.number(text))
        else:
            try:
                found = Literal(_numbers(self.number(scalar[2]), self.type(f"{scalar[1]}[]").dtype))
            except (TypeError, ArithmeticError) as error:
                raise self.fail(f"{text!r} is not a number of that dtype ({error})", self.where(text)) from None
        self.known_numbers[text] = found
        return found

    def number(self, text: str) -> Any:
        value = self.value(text)
        if type(value) not in PYTHON_NUMBERS:
            raise self.fail(f"{text!r} is not a number", self.where(text))
        return value

    def parameter(self, text: str) -> tuple[str, Any]:
        key, equals, value = text.partition("=")
        if not equals:
            raise self.fail(f"expected 'name=value', got {text!r}", self.where(text))
        return key, self.value(value)

    def value(self, text: str) -> Any:
        try:
            return literal(text)
        except ValueError as error:
            raise self.fail(f"{_short(text)!r} is not a number or a parameter ({error})", self.where(text)) from None


def literal(text: str) -> Any:
    """The value of a literal; ValueError if the text is anything else."""
    try:
        return _evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _evaluate(node: ast.expr) -> Any:
    """Literals, tuples, slices, dtypes, nan and inf: nothing that runs code."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=parts):
            return tuple(map(_evaluate, parts))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluate(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _evaluate(inner)
        case ast.Name(id="nan"):
            return math.nan
        case ast.Name(id="inf"):
            return math.inf
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, [_evaluate(arg) for arg in args])
    raise ValueError(_ALLOWED)


def _called(name: str, args: list[Any]) -> Any:
    """The value that is written as a call."""
    match name, args:
        case "slice", [_, _, _]:
            return slice(*args)
        case "complex", [_, _]:
            return complex(*args)
        case "nan", [int(bits)]:
            return struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        case "dtype", [str(text)]:
            dtype = np.dtype(text)
            if dtype.kind not in "biufc":
                raise ValueError(f"{text!r} is not a dtype of numbers")
            return dtype
    raise ValueError(_ALLOWED)


_ALLOWED = "only literals, tuples, slice(...), complex(...), dtype(...), nan, nan(...) and inf are allowed"


def _short(text: str) -> str:
    return text if len(text) < 80 else f"{text[:60]}…"


def _numbers(values: Any, dtype: Any) -> Any:
    with np.errstate(over="raise"):
        return np.array(values, dtype)


def _unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters of a text outside quotes: index, character, and the brackets that are open behind it."""
    depth, quote = 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        else:
            depth += (c in "([{") - (c in ")]}")
            yield i, c, depth


def _braced(text: str) -> str | None:
    """What stands inside the brace that a text begins with, up to the one that closes it, if one does."""
    end, closing = next(((i, c) for i, c, depth in _unquoted(text) if not depth), (0, ""))
    return text[1:end] if closing == "}" else None


def split_commas(text: str) -> Iterator[str]:
    """The parts between commas that stand outside brackets and quotes."""
    if not _BRACKETED.search(text):  # as nearly always
        parts = [part.strip() for part in text.split(",")]
        yield from parts if parts[-1] else parts[:-1]
        return
    start = 0
    for i, c, depth in _unquoted(text):
        if c == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def parse(text: str, check: Callable[[Graph], None] | None = None, files: Mapping[str, Any] | None = None) -> Graph:
    """The graph that a text describes. Errors found by `check` are reported with the line in the text.

    `files` are the arrays that the text names.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"a graph is parsed from text, not {type(text).__name__}")
    lines = text.split("\n")
    places: dict[int, int] = {}
    parser = _Parser(lines, places, files or {}, -1)
    graph = parser.graph(parser.next("expected 'graph name(input: type, ...) {'"))
    parser.at = parser.peek()
    if parser.at < len(lines):
        raise parser.fail("expected nothing after the closing '}'")
    if check is not None:
        try:
            check(graph)
        except GraphError as error:
            if error.equation is None:
                raise
            parser.at = places[id(error.equation)]
            line = lines[parser.at]
            reason = str(error).removesuffix(f" ({error.line})")
            raise parser.fail(reason, len(line) - len(line.lstrip()) + 1) from error
    return graph
