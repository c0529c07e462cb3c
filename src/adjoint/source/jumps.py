"""Returns and jumps: an `if` that returns takes the statements after it along, `break` and `continue` become flags.

A `return` in a loop becomes a flag, a value and a `break`; the condition of a `while` that assigns becomes an `if` that breaks.

if x > 0:                   if x > 0:               for x in xs:                stop = False
    return a                    return a                if x < 0:               for x in xs:
y = b                       else:                           break                   if x < 0:
return y                        y = b                   total += x                      stop = True
                                return y                                            else:
                                                                                        total += x
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

from .liveness import SCOPES, assigned, inside

NEEDS_FRAME = frozenset({"locals", "exec", "eval", "vars", "dir", "super", "globals"})
_MOST_REPEATED = 40  # nodes after an `if` that are written into both its branches


def at_line(new: Any, old: ast.AST) -> Any:
    """A new node at the first line of an old one."""
    made = ast.copy_location(new, old)
    if getattr(old, "end_lineno", None) != getattr(old, "lineno", None):  # CPython gives a method call its last line
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made


def _ends(statements: Sequence[ast.stmt], kinds: Any = (ast.Return, ast.Raise)) -> bool:
    """Whether control never reaches the end of a block."""
    if not statements:
        return False
    last = statements[-1]
    return isinstance(last, kinds) or (isinstance(last, ast.If) and _ends(last.body, kinds) and _ends(last.orelse, kinds))


def _returns(statement: ast.stmt) -> bool:
    """Whether a return is in the branches of an `if`, and not in a loop, `with` or `try` there."""
    if isinstance(statement, ast.Return):
        return True
    return isinstance(statement, ast.If) and any(map(_returns, [*statement.body, *statement.orelse]))


def returns_at_the_end(statements: list[ast.stmt]) -> list[ast.stmt]:
    """An `if` that returns takes the statements after it into the branch that does not."""
    for k, node in enumerate(statements):
        if not isinstance(node, ast.If) or not _returns(node):
            continue
        rest = statements[k + 1 :]
        ends = [_ends(node.body), _ends(node.orelse)]
        if not any(ends) and sum(1 for x in rest for _ in ast.walk(x)) > _MOST_REPEATED:
            return statements
        after = rest or [at_line(ast.Return(None), node)]
        body = node.body if ends[0] else [*node.body, *copy.deepcopy(after)]
        orelse = node.orelse if ends[1] else [*node.orelse, *after]
        if not rest or not _ends(rest):
            body, orelse = (b if _ends(b) else [*b, at_line(ast.Return(None), node)] for b in (body, orelse))
        new = at_line(ast.If(node.test, returns_at_the_end(body), returns_at_the_end(orelse)), node)
        new.is_last = _only_at_the_end(new.body) and _only_at_the_end(new.orelse)
        return [*statements[:k], new]
    return statements


def _only_at_the_end(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block returns as its last statement, and nowhere else."""
    *others, last = statements
    if any(isinstance(x, ast.Return) for s in others for x in inside(s) if not isinstance(s, SCOPES)):
        return False
    return isinstance(last, ast.Return) or getattr(last, "is_last", False)


# -- loops that return, conditions that assign -------------------------------------------------------------------------


def is_returned(name: str) -> bool:
    """Whether a variable holds what a loop returns: it is read only if it has been assigned."""
    return name.startswith("__adjoint_value_")


def plain_loops(statements: Sequence[ast.stmt], name: Callable[[str], str]) -> list[ast.stmt]:
    """Loops without `return` and without assignments in their conditions, as far as breaks can stand for them.

    for x in xs:                        returned = False
        if x > limit:                   for x in xs:
            return x                        if x > limit:
    return limit                                value, returned = x, True
                                                break
                                        if returned:
                                            return value
                                        return limit
    """
    made: list[ast.stmt] = []
    for k, node in enumerate(statements):
        if not isinstance(node, SCOPES):
            _map_blocks(node, lambda block: plain_loops(block, name))
        if isinstance(node, ast.While) and not (node.orelse and _breaks(node)):
            _move_test(node)
        if not isinstance(node, (ast.For, ast.While)) or not _returns_by_branches(node.body):
            made.append(node)
            continue
        is_endless = isinstance(node, ast.While) and _is_true(node.test) and not _breaks(node)
        rest = list(statements[k + 1 :])
        if node.orelse and not _breaks(node):
            rest, node.orelse = [*node.orelse, *rest], []
        flag, value = name("returned"), name("value")
        node.body = _with_breaks(node.body, flag, value)
        returned = at_line(ast.Name(flag, ast.Load()), node)
        leave = at_line(ast.Return(at_line(ast.Name(value, ast.Load()), node)), node)
        made += [_assign(flag, False, node), node]
        if is_endless:
            return [*made, leave]
        if rest and isinstance(rest[0], ast.Raise):
            unless = at_line(ast.UnaryOp(ast.Not(), returned), node)
            return [*made, at_line(ast.If(unless, [rest[0]], []), node), leave]
        return [*made, at_line(ast.If(returned, [leave], []), node), *plain_loops(rest, name)]
    return made


def _map_blocks(node: ast.stmt, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> None:
    """Change the blocks of a statement."""
    for part in [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(part, name, None), list):
                setattr(part, name, change(getattr(part, name)))


def _breaks(node: ast.For | ast.While) -> bool:
    """Whether a `break` ends this loop."""

    def found(x: ast.AST) -> bool:
        if isinstance(x, ast.Break):
            return True
        inner = x.orelse if isinstance(x, (ast.For, ast.While)) else ast.iter_child_nodes(x)
        return not isinstance(x, SCOPES) and any(map(found, inner))

    return any(map(found, node.body))


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _move_test(node: ast.While) -> None:
    """`while (x := f(x)) > 1:` as `while True: if not (x := f(x)) > 1: break`."""
    if not any(isinstance(x, ast.NamedExpr) for x in inside(node.test)):
        return
    ends = at_line(
        ast.If(at_line(ast.UnaryOp(ast.Not(), node.test), node.test), [at_line(ast.Break(), node.test)], []), node.test
    )
    node.test, node.body = at_line(ast.Constant(True), node.test), [ends, *node.body]


def _returns_by_branches(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block of a loop returns, in branches of an `if` only."""
    found = [x for s in statements if not isinstance(s, SCOPES) for x in inside(s) if isinstance(x, ast.Return)]
    reached = sum(_count_returns(s) for s in statements)
    return bool(found) and len(found) == reached


def _count_returns(statement: ast.stmt) -> int:
    if isinstance(statement, ast.If):
        return sum(map(_count_returns, [*statement.body, *statement.orelse]))
    return int(isinstance(statement, ast.Return))


def _with_breaks(statements: Sequence[ast.stmt], flag: str, value: str) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.Return):
            target = at_line(ast.Name(value, ast.Store()), node)
            given = node.value or at_line(ast.Constant(None), node)
            return [*made, at_line(ast.Assign([target], given), node), _assign(flag, True, node), at_line(ast.Break(), node)]
        if isinstance(node, ast.If):
            node.body, node.orelse = (_with_breaks(block, flag, value) for block in (node.body, node.orelse))
        made.append(node)
    return made


# -- what cannot be rewritten --------------------------------------------------------------------------------------------


def why_not(node: ast.For | ast.While | ast.If, outer: set[str], may_return: bool = False) -> str:
    """Why a loop or a branch cannot become functions; '' if it can."""
    parts: list[ast.AST] = [*node.body, *node.orelse]
    if isinstance(node, ast.For):
        parts.append(node.target)
        if any(isinstance(x, (ast.Attribute, ast.Subscript, ast.Starred)) for x in ast.walk(node.target)):
            return "it assigns more than variables in its first line"
    if isinstance(node, ast.While) and any(isinstance(x, ast.NamedExpr) for x in ast.walk(node.test)):
        return "its condition assigns a variable"
    for part in parts:
        if isinstance(part, SCOPES):
            continue
        for x in inside(part):
            if isinstance(x, ast.Return) and not may_return:
                return "a return in the middle"
            if isinstance(x, (ast.Try, ast.ClassDef, ast.Delete, ast.Global, ast.Nonlocal)) or type(x).__name__ == "TryStar":
                return f"it contains {'try' if isinstance(x, ast.Try) else type(x).__name__.lower()}"
            if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in NEEDS_FRAME:
                return f"it calls {x.func.id}()"
            if isinstance(x, ast.Name) and x.id == "__class__":
                return "it uses __class__"
    written = assigned(parts) & outer
    return f"it assigns the global {min(written)}" if written else ""


def jumps(node: ast.AST, top: bool = True) -> bool:
    """Whether a `break` or `continue` leaves this statement, and not a loop inside it."""
    if isinstance(node, (ast.Break, ast.Continue)):
        return True
    if isinstance(node, (*SCOPES, ast.For, ast.While)) and not top:
        return any(jumps(x, False) for x in getattr(node, "orelse", []))
    return any(jumps(x, False) for x in ast.iter_child_nodes(node))


class Jumps:
    """Replaces `break` and `continue` by flags, in loops that can become functions."""

    def __init__(self, name: Callable[[str], str], outer: set[str]) -> None:
        self.name, self.outer = name, outer  # makes a new name; globals that the function declares

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [x for s in statements for x in self.statement(s)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, SCOPES):
            return [node]
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                setattr(node, name, self.block(getattr(node, name)))
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            handler.body = self.block(handler.body)
        if not isinstance(node, (ast.For, ast.While)):
            return [node]
        node.why_not = why_not(node, self.outer) or self._jumps_from_within(node)  # type: ignore[union-attr]
        if node.why_not:  # type: ignore[union-attr]
            return [node]
        stop, skip = self.name("stop"), self.name("skip")
        before = node.body
        node.body = self.without(before, stop, skip)
        uses = {x.id for s in node.body for x in ast.walk(s) if isinstance(x, ast.Name)}
        if skip in uses:
            node.body.insert(0, _assign(skip, False, node))
        made: list[ast.stmt] = [node]
        if stop in uses:
            node.stop = stop  # type: ignore[union-attr]
            made.insert(0, _assign(stop, False, node))
        if node.orelse:
            rest, node.orelse = node.orelse, []
            made += [_unless([stop], rest, node)] if stop in uses else rest
        return made

    def _jumps_from_within(self, node: ast.For | ast.While) -> str:
        """`break` inside a `with` of the loop cannot be a flag."""
        for s in node.body:
            for x in inside(s):
                if isinstance(x, (ast.With, ast.Match)) and jumps(x):
                    return "a break or continue inside with or match"
        return ""

    def without(self, statements: Sequence[ast.stmt], stop: str, skip: str) -> list[ast.stmt]:
        """A block of a loop, with flags for its jumps."""
        made: list[ast.stmt] = []
        for k, node in enumerate(statements):
            if isinstance(node, (ast.Break, ast.Continue)):
                return [*made, _assign(stop if isinstance(node, ast.Break) else skip, True, node)]
            if not isinstance(node, ast.If) or not jumps(node):
                made.append(node)
                continue
            rest = statements[k + 1 :]
            leaves = [_ends(b, (ast.Break, ast.Continue, ast.Raise)) for b in (node.body, node.orelse)]
            if any(leaves):
                body = [*node.body, *([] if leaves[0] else rest)]
                orelse = [*node.orelse, *([] if leaves[1] else rest)]
                new = ast.If(node.test, self.without(body, stop, skip), self.without(orelse, stop, skip))
                return [*made, at_line(new, node)]
            new = ast.If(node.test, self.without(node.body, stop, skip), self.without(node.orelse, stop, skip))
            made.append(at_line(new, node))
            if rest:
                flags = sorted(assigned([new]) & {stop, skip})
                made.append(_unless(flags, self.without(rest, stop, skip), node))
            return made
        return made


def _assign(name: str, value: bool, at: ast.AST) -> ast.stmt:
    return at_line(ast.Assign([at_line(ast.Name(name, ast.Store()), at)], at_line(ast.Constant(value), at)), at)


def _unless(flags: Sequence[str], body: list[ast.stmt], at: ast.AST) -> ast.stmt:
    """`if not (a or b): body`"""
    names: list[ast.expr] = [at_line(ast.Name(name, ast.Load()), at) for name in flags]
    either = names[0] if len(names) == 1 else at_line(ast.BoolOp(ast.Or(), names), at)
    return at_line(ast.If(at_line(ast.UnaryOp(ast.Not(), either), at), body, []), at)
