"""Liveness: the variables whose values may still be read after a statement.

    for i in range(n):
        t = f(x, i)         t is not live at the end of the loop: every iteration assigns it before it is read
        x = x + t           x is live: the next iteration reads it

Only live variables are the state of a loop, and the results of a branch. The analysis runs backwards over the statements of a
function; where control flow is not followed (`try`, `break` in a loop that is left alone), all variables
that occur count as live.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """The node and the nodes inside it, without those of functions and classes defined there."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            yield child
        else:
            yield from inside(child)


def assigned(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that statements assign."""
    found: set[str] = set()
    for node in nodes:
        _assigned(node, found)
    return found


def _assigned(node: ast.AST, found: set[str]) -> None:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        found.add(node.id)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if not hasattr(node, "made"):  # else the body of a loop or branch, whose assignments are those of the function around it
            found.add(node.name)
            return
    elif isinstance(node, ast.alias):
        found.add((node.asname or node.name).partition(".")[0])
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        found.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        found.add(node.rest)
    elif isinstance(node, ast.Lambda):
        return
    if isinstance(node, _COMPREHENSIONS):  # its targets are its own; an assignment expression is not
        found.update(x.target.id for x in inside(node) if isinstance(x, ast.NamedExpr))
        return
    for child in ast.iter_child_nodes(node):
        _assigned(child, found)


def written(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables whose items are assigned, `a` in `a[i] = 1` and `a[i][j] += 1`."""
    found: set[str] = set()
    for node in nodes:
        for x in ast.walk(node):
            if isinstance(x, ast.Subscript) and not isinstance(x.ctx, ast.Load):
                base: ast.AST = x
                while isinstance(base, (ast.Subscript, ast.Attribute)):
                    base = base.value
                if isinstance(base, ast.Name):
                    found.add(base.id)
    return found


def read(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that occur in nodes, functions defined there included, other than to be assigned."""
    return {x.id for node in nodes for x in ast.walk(node) if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Store)}


def annotate(function: ast.FunctionDef) -> None:
    """Set `live_out` of each `if` and loop of a function, and `live_head` of each loop: before the next iteration."""
    captured: set[str] = set()  # by functions defined inside, which may run at any time
    for node in ast.walk(function):
        if isinstance(node, SCOPES) and node is not function:
            captured |= read([node])
    _Analysis(captured).block(function.body, set())


class _Analysis:
    def __init__(self, captured: set[str]) -> None:
        self.captured = captured

    def block(self, statements: Sequence[ast.stmt], out: set[str]) -> set[str]:
        for statement in reversed(statements):
            out = self.statement(statement, out)
        return out

    def statement(self, node: ast.stmt, out: set[str]) -> set[str]:
        """The variables that are live before a statement, from those after it."""
        if isinstance(node, ast.If):
            node.live_out = out | self.captured  # type: ignore[attr-defined]
            return self.block(node.body, out) | self.block(node.orelse, out) | read([node.test])
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node, out)
        if isinstance(node, ast.Return):
            return read([node])
        if isinstance(node, ast.Raise):
            return read([node])
        if isinstance(node, (ast.Break, ast.Continue)):
            return out  # the loop counts all its variables as live
        if isinstance(node, ast.With):
            targets = assigned(list(node.items))
            return (self.block(node.body, out) - targets) | read(list(node.items))
        if isinstance(node, (ast.Try, ast.Match)) or type(node).__name__ in ("TryStar", "AsyncFor", "AsyncWith"):
            everything = out | read([node]) | assigned([node])
            for child in ast.iter_child_nodes(node):
                self.nested(child, everything)
            return everything
        if isinstance(node, ast.AugAssign):
            return out | read([node]) | assigned([node.target])
        return (out - assigned([node])) | read([node])

    def nested(self, node: ast.AST, out: set[str]) -> None:
        for child in [node, *ast.iter_child_nodes(node)]:
            if isinstance(child, ast.stmt) and not isinstance(child, SCOPES):
                self.statement(child, out)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.stmt, *SCOPES)):
                self.nested(child, out)

    def loop(self, node: ast.For | ast.While, out: set[str]) -> set[str]:
        after = self.block(node.orelse, out)
        targets = assigned([node.target]) if isinstance(node, ast.For) else set()
        tested = (read([node.test]) if isinstance(node, ast.While) else set()) | {getattr(node, "stop", "")} - {""}
        jumps = any(isinstance(x, (ast.Break, ast.Continue, ast.Return)) for x in inside(node))
        head = after | tested | (out | read([node]) if jumps else set())
        while True:
            found = head | (self.block(node.body, head) - targets)
            if found == head:
                break
            head = found
        node.live_out, node.live_head = after | self.captured, head | self.captured  # type: ignore[union-attr]
        return head | (read([node.iter]) if isinstance(node, ast.For) else set())
