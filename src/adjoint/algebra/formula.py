"""Formulas in text, safely: names, numbers, operators and known functions. No Python code is run.

>>> f = Formula("x**2*y + y + 2")
>>> f.names
('x', 'y')
>>> f(3.0, 4.0)
42.0

A formula is a function: it can be differentiated and traced. A mistake raises `FormulaError`, which shows the columns with a
caret.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import keyword
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import numpy as face
from ..core.bind import Traced
from ..core.errors import AdjointError, ShapeError
from ..core.op import OPS
from .parse import ALIASES, FOLDED, LEADING, OPERATORS, known_functions

LONGEST = 10_000  # characters of a formula
LARGEST = 10_000_000  # elements: an untrusted formula must not exhaust memory

CONSTANTS = {"pi": math.pi, "π": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}


class FormulaError(AdjointError, ValueError):
    """A mistake in a formula, with the text and the columns (from 0)."""

    def __init__(self, reason: str, text: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.reason, self.text, self.start, self.end = reason, text, start, max(end, start + 1)
        self.args = (f"{self.args[0]}\n{self.caret()}",)

    def __reduce__(self) -> tuple[Any, ...]:
        return FormulaError, (self.reason, self.text, self.start, self.end)

    def caret(self, window: int = 100, spelled: Callable[[str], str] = str) -> str:
        """The formula, or the part of a long one, with carets under the mistake; `spelled` gives the text as the terminal shows
        it."""
        first = max(0, self.start - window // 2) if len(self.text) > window else 0
        shown = "".join(c if c.isprintable() else "?" for c in self.text[first : first + window])
        length = max(1, min(self.end, first + len(shown)) - self.start)
        head, tail = "…" * (first > 0), "…" * (first + window < len(self.text))
        before, marked = spelled(head + shown[: self.start - first]), spelled(shown[self.start - first :][:length])
        return f"    {spelled(head + shown + tail)}\n    {' ' * len(before)}{'^' * max(len(marked), 1)}"


class _Instruction(NamedTuple):
    """One step of a stack machine: `run` takes `taken` values off the stack and puts its result on it."""

    run: Callable[..., Any]
    taken: int


class _Sum(NamedTuple):
    """Terms added from the left: `runs` has the sign of each but the first."""

    runs: tuple[Callable[..., Any], ...]


class _Listed(NamedTuple):
    """A list of values as an array."""

    run: Callable[..., Any]
    taken: int


class _Name(NamedTuple):
    name: str


class _Choice(NamedTuple):
    """`body if test else orelse`, with both branches compiled; only one is run."""

    body: list[Any]
    orelse: list[Any]


_RUN: dict[type[ast.AST], Callable[..., Any]] = {kind: op.impl for kind, op in OPERATORS.items()} | {ast.MatMult: operator.matmul}
_OVER_ARRAYS: dict[str, Callable[[Any], Any]] = {
    name: getattr(face, name) for name in ("sum", "mean", "prod", "var", "std", "cumsum", "cumprod", "sort", "transpose", "trace")
}
_OVER_ARRAYS |= {name: getattr(face.linalg, name) for name in ("norm", "det", "inv")}
_OF_TWO = {name: getattr(face, name) for name in ("dot", "outer", "cross", "inner")} | {"solve": face.linalg.solve}


def _numeric(run: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on Python numbers in NumPy's arithmetic: 9**9**9 is inf, 1/0 is inf, and both are fast."""

    def apply(*args: Any) -> Any:
        if any(type(a) is not float for a in args):
            return run(*args)
        result = run(*map(np.float64, args))
        return float(result) if isinstance(result, np.floating) else result

    return apply


class Formula:
    """A formula as a function of its names, in the order in which they occur unless given.

    `known` are names that have values: they take precedence over functions and constants of the same name.
    """

    def __init__(self, text: str, names: Sequence[str] | None = None, known: Collection[str] = ()) -> None:
        reader = _Reader(text, {*(names or ()), *known})
        self.text = text.strip()
        self.code = reader.compiled()
        self.names = tuple(names) if names is not None else tuple(reader.found)
        self.__name__ = "f"
        #: The columns of the first occurrence of each name.
        self.places = {
            name: (reader.column(node.col_offset), reader.column(node.end_col_offset or 0)) for name, node in reader.found.items()
        }
        for name, node in reader.found.items():
            if name not in self.names:
                reader.fail(node, f"{name!r} has no value{near(name, self.names)}")

    def __call__(self, *args: Any) -> Any:
        if len(args) != len(self.names):
            raise TypeError(f"the formula takes {len(self.names)} arguments ({', '.join(self.names)}), got {len(args)}")
        with np.errstate(all="ignore"):  # non-finite numbers show in the result
            return _run(self.code, dict(zip(self.names, args, strict=True)))

    def as_function(self) -> Callable[..., Any]:
        """The formula as a function with a signature, so that the names of its arguments are visible."""

        def f(*args: Any) -> Any:
            return self(*args)

        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in self.names]
        f.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return f


def _run(code: list[Any], values: dict[str, Any]) -> Any:
    stack: list[Any] = []
    pending = list(reversed(code))

    def taken(count: int) -> list[Any]:
        parts = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        return parts

    while pending:
        match pending.pop():
            case _Name(name):
                stack.append(values[name])
            case _Choice(body, orelse):
                test = stack.pop()
                if isinstance(test, Traced) and not test.by.has_numbers:  # staged without numbers: both branches
                    stack.append(face.where(test, _run(body, values), _run(orelse, values)))
                else:
                    pending.extend(reversed(body if test else orelse))
            case _Listed(run, count):
                stack.append(run(*taken(count)))
            case _Sum(runs):
                total, *terms = taken(1 + len(runs))
                for run, term in zip(runs, terms, strict=True):
                    total = _applied(run, [total, term])
                stack.append(total)
            case _Instruction(run, count):
                stack.append(_applied(run, taken(count)))
            case constant:
                stack.append(constant)
    return stack[0]


def _applied(run: Callable[..., Any], args: list[Any]) -> Any:
    if math.prod(max(math.prod(np.shape(a)), 1) for a in args) > LARGEST:  # a bound on the broadcast size
        raise ShapeError("the arrays of the formula are too large; write a function in a file instead")
    return run(*args)


def near(name: str, known: Collection[str]) -> str:
    """A hint at the intended name."""
    close = difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


class _Reader:
    """From text to steps of the stack machine."""

    def __init__(self, text: str, given: Collection[str]) -> None:
        self.text, self.given = text.strip(), given
        self.found: dict[str, ast.Name] = {}
        self.functions = function_names()

    def fail(self, node: Any, reason: str) -> NoReturn:
        if isinstance(node, int):
            raise FormulaError(reason, self.text, node, node + 1)
        raise FormulaError(reason, self.text, self.column(node.col_offset), self.column(node.end_col_offset))

    def column(self, offset: int) -> int:
        """A column in the text from an offset in its UTF-8 bytes, which Python's parser counts."""
        return len(self.text.encode()[:offset].decode(errors="ignore"))

    def compiled(self) -> list[Any]:
        if not self.text:
            self.fail(0, "the formula is empty")
        if len(self.text) > LONGEST:
            self.fail(LONGEST, f"the formula is longer than {LONGEST} characters")
        for i, c in enumerate(self.text):
            if not c.isprintable():
                self.fail(i, f"the character {c!r} is not allowed in a formula, which is one line of text")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # for "2(x)", which is refused below
                tree = ast.parse(self.text, mode="eval").body
            return self.code(tree)
        except SyntaxError as error:
            self.explain(error)
        except (RecursionError, MemoryError):
            self.fail(0, "the formula is nested too deeply")

    def explain(self, error: SyntaxError) -> NoReturn:
        """The error of Python's parser, in terms of formulas."""
        start = (error.offset or 0) - 1
        end = error.end_offset - 1 if error.end_offset and error.end_lineno in (1, None) else start + 1
        reason = (error.msg or "invalid syntax").partition(". Perhaps")[0]
        if "digits" in reason:
            long = re.search(r"\d{1000,}", self.text)
            start = long.start() if long else 0
            end, reason = start + 1, "the number is too long"
        elif not 0 <= start < len(self.text) or error.lineno != 1:
            start, end, reason = len(self.text), len(self.text) + 1, "the formula ends too early"
        elif self.text[start] == "=":
            reason = "a formula has no '='; give values after it, as in x=3"
        elif reason == "invalid syntax":
            reason = "this does not fit here"
        elif reason == "invalid decimal literal":
            reason = "a product is written with *, as in 2*x, and a name does not begin with a digit"
        raise FormulaError(reason, self.text, start, min(end, len(self.text) + 1)) from None

    def code(self, node: ast.expr) -> list[Any]:
        """The steps that leave the value of a node on the stack."""
        match node:
            case ast.Constant():
                return [self.literal(node)]
            case ast.Name():
                return [self.name(node)]
            case ast.BinOp():
                return self.chain(node)
            case ast.UnaryOp(op=op, operand=operand):
                if type(op) not in _RUN:
                    self.fail(node, f"the operator {self.text[self.column(node.col_offset)]!r} is not known here")
                return [*self.code(operand), _Instruction(_numeric(_RUN[type(op)]), 1)]
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self.comparison(node, [left, *comparators], ops)
            case ast.BoolOp(op=op, values=values):
                steps = self.code(values[0])
                for value in values[1:]:
                    steps += [*self.code(value), _Instruction(_RUN[type(op)], 2)]
                return steps
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return [*self.code(test), _Choice(self.code(body), self.code(orelse))]
            case ast.Call():
                return self.call(node)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return self.listed(node, elements)
            case ast.Subscript(value=value, slice=index):
                key = self.index(index)
                return [*self.code(value), _Instruction(lambda x: _item(x, key), 1)]
            case ast.Attribute(attr=attr, value=value) if ast.unparse(value) in LEADING and attr in CONSTANTS:
                return [CONSTANTS[attr]]
        self.fail(node, f"this is not allowed in a formula of names, numbers, operators and functions{_hint(node)}")

    def literal(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool):
            return node.value
        if not isinstance(node.value, (int, float)):
            self.fail(node, "only real numbers are allowed in a formula")
        try:
            return float(node.value)
        except OverflowError:
            self.fail(node, "the number is too large")

    def name(self, node: ast.Name) -> Any:
        if node.id in self.given:
            self.found.setdefault(node.id, node)
            return _Name(node.id)
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        if node.id in self.functions:
            self.fail(node, f"{node.id!r} is a function; call it, as in {node.id}(x), or give it a value")
        self.found.setdefault(node.id, node)
        return _Name(node.id)

    def chain(self, node: ast.BinOp) -> list[Any]:
        """a + b + c + …, or a product, of any length, without recursion. The terms of a sum come before its additions."""
        links = []
        left: ast.expr = node
        is_sum = isinstance(node.op, (ast.Add, ast.Sub))
        while isinstance(left, ast.BinOp) and isinstance(left.op, (ast.Add, ast.Sub)) == is_sum:
            if isinstance(left.op, ast.BitXor):
                at = self.text.find("^", self.column(left.left.end_col_offset or 0))
                self.fail(at, "write ** for a power: x**2")
            if type(left.op) not in _RUN:
                self.fail(left, "this operator is not known; the operators are + - * / ** // % @")
            links.append((left.right, _RUN[type(left.op)]))
            left = left.left
        steps = self.code(left)
        for right, run in reversed(links):
            steps += self.code(right)
            if not is_sum:
                steps.append(_Instruction(_numeric(run), 2))
        return [*steps, _Sum(tuple(_numeric(run) for _, run in reversed(links)))] if is_sum else steps

    def comparison(self, node: ast.Compare, operands: list[ast.expr], ops: list[ast.cmpop]) -> list[Any]:
        steps: list[Any] = []
        for i, op in enumerate(ops):
            if type(op) not in _RUN:
                self.fail(node, "only ==, !=, <, <=, > and >= compare numbers")
            steps += [*self.code(operands[i]), *self.code(operands[i + 1]), _Instruction(_RUN[type(op)], 2)]
            if i:
                steps.append(_Instruction(np.logical_and, 2))
        return steps

    def call(self, node: ast.Call) -> list[Any]:
        path = ast.unparse(node.func)
        leading, _, name = path.rpartition(".")
        if not isinstance(node.func, (ast.Name, ast.Attribute)) or (name in self.given and not leading):
            self.fail(node, f"{path} is not a function; write * for a product: {path}*(…)")
        if name not in self.functions or (leading and leading not in LEADING):
            hint = near(name, self.functions)
            product = f"; write * for a product: {path}*(…)" if not hint and not leading else ""
            self.fail(node.func, f"{path!r} is not a known function{hint or product}")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.fail(node, "functions take plain arguments here")
        run, counts = _function(name, len(node.args))
        if run is None:
            wanted = " or ".join(map(str, sorted(counts)))
            self.fail(node, f"{path} takes {wanted} argument{'s' * (counts != {1})}, got {len(node.args)}")
        steps = [step for a in node.args for step in self.code(a)]
        return [*steps, _Instruction(_numeric(run), len(node.args))]

    def listed(self, node: ast.expr, elements: list[ast.expr]) -> list[Any]:
        if not elements:
            return [np.zeros(0)]
        steps = [step for element in elements for step in self.code(element)]

        def stacked(*parts: Any) -> Any:
            if sum(math.prod(np.shape(part)) for part in parts) > LARGEST:
                self.fail(node, "the array is too large")
            if len({np.shape(part) for part in parts}) > 1:
                self.fail(node, "the rows of an array must have the same length")
            return face.stack(parts)

        return [*steps, _Listed(stacked, len(elements))]

    def index(self, node: ast.expr) -> Any:
        """An index: integers, slices, and tuples of them."""
        if isinstance(node, ast.Tuple):
            return tuple(map(self.index, node.elts))
        if isinstance(node, ast.Slice):
            return slice(*[None if part is None else self.index(part) for part in (node.lower, node.upper, node.step)])
        sign = 1
        inner = node
        if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub):
            sign, inner = -1, inner.operand
        if isinstance(inner, ast.Constant) and type(inner.value) is int and inner.value < 2**31:
            return sign * inner.value
        self.fail(node, "an index is an integer or a slice")


def _item(x: Any, key: Any) -> Any:
    return operator.getitem(x if isinstance(x, Traced) else np.asarray(x), key)  # type: ignore[arg-type]


def _hint(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return "; write sin(x), not x.sin()"
    return ""


#: Ops that occur only in derivatives, and take options.
_PARTS = re.compile(r".*_by_.*|.*_slope|real_argument|root|strong_mul|strong_mul_either|ieee_mul")


def function_names() -> set[str]:
    """Every function that a formula may call."""
    elementwise = {name for name in known_functions() if not _PARTS.fullmatch(name)}
    return {*elementwise, *ALIASES, *_OVER_ARRAYS, *_OF_TWO} - set(keyword.kwlist)


def _function(name: str, count: int) -> tuple[Callable[..., Any] | None, set[int]]:
    """The function of that name with so many arguments, or None and the numbers of arguments it takes."""
    if name in _OVER_ARRAYS:
        return (_OVER_ARRAYS[name] if count == 1 else None), {1}
    if name in _OF_TWO:
        return (_OF_TWO[name] if count == 2 else None), {2}
    if name in ("max", "min") and count == 1:
        return getattr(face, name), {1}
    name = ALIASES.get(name, name)
    arity = known_functions()[name]
    if name in FOLDED and count > 2:
        return _folded(_op(name)), {count}
    return (_op(name) if count == arity else None), {arity}


def _op(name: str) -> Callable[..., Any]:
    op = getattr(face, name, None)
    return op if callable(op) else OPS[name]


def _folded(run: Callable[..., Any]) -> Callable[..., Any]:
    def apply(first: Any, *rest: Any) -> Any:
        for x in rest:
            first = run(first, x)
        return first

    return apply


__all__ = ["CONSTANTS", "Formula", "FormulaError", "function_names", "near"]
