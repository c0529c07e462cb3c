"""Terms from text: Python's expression syntax, read as a syntax tree. Nothing is evaluated.

`a = ...; b = ...; result` names sub-terms; so does the list after `where` that expressions are printed with.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..core.errors import ArgumentError
from ..core.op import OPS, Elementwise, Op
from ..ops import bessel, distribution, elliptic, gamma, hypergeometric, parameter, special  # noqa: F401 - they enter their functions
from ..ops import elementwise as ops
from ..ops.broadcast import where
from . import canonical
from .convert import apply
from .terms import PI, Term, number

OPERATORS: dict[type[ast.AST], Op] = {
    ast.Add: ops.add, ast.Sub: ops.sub, ast.Mult: ops.mul, ast.Div: ops.div, ast.Pow: ops.power,
    ast.Mod: ops.remainder, ast.FloorDiv: ops.floor_divide, ast.USub: ops.neg, ast.UAdd: ops.pos,
    ast.Not: ops.logical_not, ast.And: ops.logical_and, ast.Or: ops.logical_or,
    ast.Eq: ops.equal, ast.NotEq: ops.not_equal,
    ast.Lt: ops.less, ast.LtE: ops.less_equal, ast.Gt: ops.greater, ast.GtE: ops.greater_equal,
}  # fmt: skip
#: Piecewise constant functions that an expression may call.
_CONSTANT = (
    *(ops.sign, ops.signbit, ops.floor, ops.ceil, ops.trunc, ops.rint, special.round_, ops.floor_divide, ops.stop_gradient),
    *(ops.isnan, ops.isinf, ops.isfinite, ops.logical_not, ops.logical_and, ops.logical_or, ops.logical_xor),
    *(ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal),
)
#: Functions that take more than two arguments too.
FOLDED: frozenset[str] = frozenset(op.name for op in (ops.maximum, ops.minimum, ops.logical_and, ops.logical_or))
ALIASES = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "ln": "log",
    "atan2": "arctan2",
    "sigmoid": "expit",
    "max": "maximum",
    "min": "minimum",
    "pow": "power",
    "ceiling": "ceil",
    "Abs": "abs",
    "absolute": "abs",
    "fabs": "abs",
    "mod": "remainder",
}
_CONSTANTS = {"pi": PI, "inf": Term("number", math.inf), "nan": Term("number", math.nan)}
LEADING = ("np", "numpy", "math", "special", "scipy.special", "ad.numpy")  # np.sin is sin


class ExpressionError(ArgumentError):
    """Invalid text: the reason, and the column (from 1) of its line."""

    def __init__(self, reason: str, source: str, line: int, column: int) -> None:
        super().__init__(f"the expression {_shown(source)} cannot be read: {reason} (line {line}, column {column})")
        self.reason, self.source, self.column = reason, source, column


def parse(text: str, names: Mapping[str, Term]) -> Term:
    """The term of a text over the given names."""
    result, _, listed = text.partition("\n  where ")
    source = "\n".join([*(line.strip() for line in listed.splitlines()), result.strip()]) if listed else text.strip()
    try:
        statements = ast.parse(source).body
        return _Reader(source, names).read(statements)
    except SyntaxError as error:
        raise ExpressionError(error.msg, source, error.lineno or 1, error.offset or 1) from None
    except (RecursionError, MemoryError):
        raise ArgumentError("the expression is nested too deeply; name its parts: t1 = ...; t2 = ...; t1 + t2") from None


def _shown(source: str) -> str:
    return repr(source if len(source) <= 60 else source[:57] + "...")


class _Reader:
    def __init__(self, source: str, names: Mapping[str, Term]) -> None:
        self.source = source
        self.names: dict[str, Term] = {**_CONSTANTS, **names}

    def read(self, statements: list[ast.stmt]) -> Term:
        if not statements:
            raise ArgumentError("the expression is empty")
        *definitions, last = statements
        for statement in definitions:
            if not (isinstance(statement, ast.Assign) and [type(t) for t in statement.targets] == [ast.Name]):
                self.refuse(statement, "only assignments to a name may come before the result")
            self.names[statement.targets[0].id] = self.term(statement.value)  # type: ignore[attr-defined]
        if not isinstance(last, ast.Expr):
            self.refuse(last, "the last line must be an expression")
        return canonical.arithmetic(self.term(last.value))

    def refuse(self, node: Any, why: str) -> NoReturn:
        raise ExpressionError(why, self.source, node.lineno, node.col_offset + 1)

    def term(self, root: ast.expr) -> Term:
        """Reads without recursion: operands before their operators."""
        stack: list[tuple[ast.expr, bool]] = [(root, False)]
        results: list[Term] = []
        while stack:
            node, is_ready = stack.pop()
            operands = self.operands(node)
            if is_ready:
                args = [results.pop() for _ in operands][::-1]
                results.append(self.build(node, args))
            elif operands:
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(operands))
            else:
                results.append(self.leaf(node))
        return results[0]

    def operands(self, node: ast.expr) -> list[ast.expr]:
        match node:
            case ast.BinOp(left=left, right=right):
                return [left, right]
            case ast.UnaryOp(operand=operand):
                return [operand]
            case ast.BoolOp(values=values):
                return values
            case ast.Compare(left=left, comparators=comparators):
                return [left, *comparators]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return [test, body, orelse]
            case ast.Call(args=args, keywords=keywords):
                if keywords or any(isinstance(a, ast.Starred) for a in args) or not args:
                    self.refuse(node, "functions take plain arguments")
                return args
            case _:
                return []

    def leaf(self, node: ast.expr) -> Term:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            return number(node.value)
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            known = ", ".join(n for n in self.names if n not in _CONSTANTS) or "none"
            self.refuse(node, f"{node.id!r} is not one of the names given ({known})")
        if isinstance(node, ast.Attribute) and node.attr in _CONSTANTS and ast.unparse(node.value) in LEADING:
            return _CONSTANTS[node.attr]
        what = re.sub(r"(?<!^)(?=[A-Z])", " ", type(node).__name__).lower()
        self.refuse(node, f"{what} is not allowed in an expression of names, numbers, operators and functions")

    def build(self, node: ast.expr, args: list[Term]) -> Term:
        match node:
            case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
                known = OPERATORS.get(type(op))
                if known is None:
                    self.refuse(node, f"the operator {type(op).__name__} is not known")
                return args[0] if known is ops.pos else _fold_left(known.name, args)
            case ast.Compare(ops=signs):
                if any(type(op) not in OPERATORS for op in signs):
                    self.refuse(node, "only ==, !=, <, <=, > and >= compare numbers")
                pairs = zip(signs, args, args[1:], strict=False)
                return _fold_left(ops.logical_and.name, [apply(OPERATORS[type(op)].name, a, b) for op, a, b in pairs])
            case ast.IfExp():
                return canonical.where(*args)
            case ast.Call(func=func):
                return self.function(func, args, node)
        raise AssertionError(node)

    def function(self, func: ast.expr, args: list[Term], node: ast.expr) -> Term:
        path = ast.unparse(func)
        leading, _, name = path.rpartition(".")
        name = ALIASES.get(name, name)
        arity = known_functions().get(name)
        if arity is None or (leading and leading not in LEADING):
            self.refuse(node, f"{path!r} is not a known function")
        if name in FOLDED and len(args) > 2:
            return _fold_left(name, args)
        if len(args) != arity:
            self.refuse(node, f"{path} takes {arity} argument{'s' * (arity != 1)}, got {len(args)}")
        return apply(name, *args)


def _fold_left(name: str, args: list[Term]) -> Term:
    if len(args) == 1 and name in FOLDED:
        return args[0]
    result = args[0] if len(args) > 1 else apply(name, args[0])
    for a in args[1:]:
        result = apply(name, result, a)
    return result


def known_functions() -> dict[str, int]:
    """The functions of real scalars by name, with the number of their arguments."""
    smooth = {op.name: op.arity for op in OPS.values() if isinstance(op, Elementwise)}
    return smooth | {op.name: op.arity or 1 for op in _CONSTANT} | {where.name: 3}
