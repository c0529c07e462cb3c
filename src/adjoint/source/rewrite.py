"""A function rewritten so that its loops and branches are calls, which can be staged.

    for x in xs:                    def body(item):
        total += x * w                  nonlocal total, x
                                        x = item
                                        total += x * w
                                    __adjoint__.for_(3, xs, body)

The functions made from a loop or a branch share the variables of the function by closure cells: whoever runs them (`running.py`)
reads and writes the cells. `break` and `continue` become flags, an `if` that returns takes the statements after it along. What
cannot be rewritten is left as it is, with the reason. Calls go through `__adjoint__.call`, which rewrites the functions that are
called. Lines and columns are those of the source, so that tracebacks show it.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
import os
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import liveness
from .liveness import SCOPES, assigned, inside, written

RUNTIME = "__adjoint__"  # the free variable through which rewritten code calls `running.py`
_FUTURES = functools.reduce(int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_LOOPED = frozenset({"range", "enumerate", "zip", "reversed"})
_NEEDS_FRAME = frozenset({"locals", "exec", "eval", "vars", "dir", "super", "globals"})
_MOST_REPEATED = 40  # nodes after an `if` that are written into both its branches


@dataclass(frozen=True)
class Site:
    """A loop or a branch of the source."""

    kind: str  # "for", "while", "if"
    line: str  # file:line
    state: frozenset[str] = frozenset()  # assigned variables that are read later
    after: frozenset[str] = frozenset()  # those that are read after it
    written: frozenset[str] = frozenset()  # variables whose items are assigned
    stop: str = ""  # the flag of a `break`
    why_not: str = ""  # it is left as it is


@dataclass(frozen=True)
class Rewritten:
    """The code of a rewritten function, with the sites that it names by number."""

    code: types.CodeType
    sites: list[Site] = field(default_factory=list)


class NoSourceError(Exception):
    """The source of a function is not available, or cannot be rewritten."""


# -- finding the source ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _functions_of(text: str) -> dict[int, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, str | None]]]:
    """The functions of a file by their first line, each with the class that it is a method of."""
    found: dict[int, list[tuple[Any, str | None]]] = {}

    def visit(node: ast.AST, owner: str | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                decorators = getattr(child, "decorator_list", [])
                line = min([child.lineno, *(d.lineno for d in decorators)])
                found.setdefault(line, []).append((child, owner))
                visit(child, owner)
            else:
                visit(child, child.name if isinstance(child, ast.ClassDef) else owner)

    visit(ast.parse(text), None)
    return found


def _node_of(f: types.FunctionType) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, str | None]:
    code = f.__code__
    text = "".join(linecache.getlines(code.co_filename, f.__globals__))
    if not text:
        raise NoSourceError(f"its source is not available ({code.co_filename})")
    try:
        at_line = _functions_of(text).get(code.co_firstlineno, [])
    except SyntaxError as error:  # not a file of Python, as a template is
        raise NoSourceError(f"its source cannot be read: {error}") from None
    fitting = [pair for pair in at_line if _fits(pair[0], code)]
    if len(fitting) > 1:
        fitting = [pair for pair in fitting if _has_code(pair[0], code)] or fitting
        if len({ast.dump(node) for node, _ in fitting}) == 1:
            fitting = fitting[:1]
    if len(fitting) != 1:
        raise NoSourceError(f"its source is not to be found at {os.path.basename(code.co_filename)}:{code.co_firstlineno}")
    return fitting[0]


def _fits(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: types.CodeType) -> bool:
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return name == code.co_name and (tuple(names) == code.co_varnames[:count] or any(n.startswith("__") for n in names))


def _has_code(node: Any, code: types.CodeType) -> bool:
    """Whether a function of the same line is the one with this code: two lambdas, say."""
    if not isinstance(node, ast.Lambda):
        return True
    (made,) = [c for c in compile(ast.Expression(node), "", "eval").co_consts if isinstance(c, types.CodeType)]
    return (made.co_names, made.co_varnames) == (code.co_names, code.co_varnames) and _plain(made) == _plain(code)


def _plain(code: types.CodeType) -> list[Any]:
    return [c for c in code.co_consts if not isinstance(c, types.CodeType)]


# -- rewriting ---------------------------------------------------------------------------------------------------------


_known: dict[int, tuple[types.CodeType, Rewritten | NoSourceError]] = {}  # by the id of the code, which is kept alive


def rewritten(f: types.FunctionType) -> Rewritten:
    """The code of a function with its loops and branches as calls; NoSourceError if that cannot be."""
    code = f.__code__
    if id(code) not in _known:
        try:
            made: Rewritten | NoSourceError = _rewrite(f)
        except NoSourceError as error:
            made = error
        _known[id(code)] = code, made
    found = _known[id(code)][1]
    if isinstance(found, NoSourceError):
        raise found
    return found


def _rewrite(f: types.FunctionType) -> Rewritten:
    code = f.__code__
    original, owner = _node_of(f)
    sites: list[Site] = []
    node = copy.deepcopy(original)
    if isinstance(node, ast.AsyncFunctionDef):
        raise NoSourceError("it is asynchronous")
    if any(isinstance(x, (ast.Yield, ast.YieldFrom, ast.Await)) for x in _own(node)):
        raise NoSourceError("it is a generator")
    rewriter = _Rewriter(sites, os.path.basename(code.co_filename))
    a = node.args
    a.defaults, a.kw_defaults = [_none() for _ in a.defaults], [d and _none() for d in a.kw_defaults]
    for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
        if x is not None:
            x.annotation = None
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
        rewriter.function(node)
        inner: ast.stmt = node
    else:
        node.body = rewriter.visit(node.body)
        inner = ast.Return(node)
    return Rewritten(_compiled(inner, code, owner), sites)


def _own(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function's body, without those of functions inside."""
    body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    return [x for part in body for x in inside(part) if not isinstance(part, SCOPES)]


def _none() -> ast.expr:
    return ast.Constant(None)


def _compiled(inner: ast.stmt, code: types.CodeType, owner: str | None) -> types.CodeType:
    """The code of a function, compiled inside another that has its free variables, and inside a class for private names."""
    free = [name for name in code.co_freevars if owner is None or name != "__class__"]
    if owner is not None:
        if isinstance(inner, ast.Return):
            inner = ast.Assign([ast.Name("_", ast.Store())], inner.value or _none())
        inner = ast.ClassDef(owner, [], [], [inner], [], **({"type_params": []} if hasattr(ast, "TypeVar") else {}))
    around = ast.FunctionDef(
        "around",
        ast.arguments([], [ast.arg(name) for name in [*free, RUNTIME]], None, [], [], None, []),
        [inner],
        [],
        **({"type_params": []} if hasattr(ast, "TypeVar") else {}),
    )
    tree = ast.fix_missing_locations(ast.Module([around], []))
    at = compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    for _ in range(2 if owner is None else 3):
        (at,) = [c for c in at.co_consts if isinstance(c, types.CodeType)]
    return at.replace(co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=code.co_firstlineno)


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function and the functions inside it."""

    def __init__(self, sites: list[Site], file: str) -> None:
        self.sites, self.file = sites, file
        self.count = 0

    def function(self, node: ast.FunctionDef) -> None:
        outer = {name for x in _own(node) if isinstance(x, ast.Global) for name in x.names}
        if not any(isinstance(x, (ast.Yield, ast.YieldFrom, ast.Await)) for x in _own(node)):
            node.body = _with_returns_at_the_end(node.body)
            shape = _Jumps(self, outer)
            node.body = shape.block(node.body)
            liveness.annotate(node)
            declared: set[str] = set()
            node.body = _Statements(self, outer, declared).block(node.body)
            node.body = [*_declarations(node, declared - outer), *[self.visit(x) for x in node.body]]
        else:
            node.body = [self.visit(x) for x in node.body]

    def site(self, kind: str, node: ast.AST, **facts: Any) -> int:
        self.sites.append(Site(kind, f"{self.file}:{node.lineno}", **facts))  # type: ignore[attr-defined]
        return len(self.sites) - 1

    def name(self, what: str) -> str:
        self.count += 1
        return f"__adjoint_{what}_{self.count}__"

    # -- expressions --

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if getattr(node, "made", False):
            return self.generic_visit(node)
        node.decorator_list = [self.visit(x) for x in node.decorator_list]
        node.args.defaults = [self.visit(x) for x in node.args.defaults]
        node.args.kw_defaults = [x and self.visit(x) for x in node.args.kw_defaults]
        self.function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if getattr(node, "made", False):
            node.args, node.keywords = [self.visit(x) for x in node.args], [self.visit(x) for x in node.keywords]
            return node
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _NEEDS_FRAME:
            return node
        node.func = _call("call", node.func, [node.func])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if _is_fixed(node):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _call(name, node, [_thunk(x) for x in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("not_", node, [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _is_fixed(node):
            return node
        site = self.site("if", node)
        return _call("choose", node, [ast.Constant(site), node.test, _thunk(node.body), _thunk(node.orelse)])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 or _is_fixed(node):
            return node
        if len(node.ops) > 2:
            return node
        # a < b < c: (lambda p, q: p < q and q < c)(a, b), so that b is computed once, and c only if a < b.
        left, middle = (self.name("operand") for _ in range(2))
        p, q = (_at(ast.Name(name, ast.Load()), node) for name in (left, middle))
        parts = [ast.Compare(p, [node.ops[0]], [q]), ast.Compare(q, [node.ops[1]], [node.comparators[1]])]
        both = _call("and_", node, [_thunk(_at(x, node)) for x in parts])
        parameters = ast.arguments([], [ast.arg(left), ast.arg(middle)], None, [], [], None, [])
        return _made(_at(ast.Call(_at(ast.Lambda(parameters, both), node), [node.left, node.comparators[0]], []), node))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("holds", node, [node.test])
        return node


def _is_fixed(node: ast.AST) -> bool:
    """Whether parts of an expression cannot become functions: they assign, or wait."""
    return any(isinstance(x, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for x in ast.walk(node))


def _thunk(x: ast.expr) -> ast.expr:
    return _at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), x), x)


def _at(new: Any, old: ast.AST) -> Any:
    return ast.copy_location(new, old)


def _made(node: Any) -> Any:
    node.made = True
    return node


def _call(name: str, at: ast.AST, args: Sequence[ast.expr]) -> ast.Call:
    function = _at(ast.Attribute(_at(ast.Name(RUNTIME, ast.Load()), at), name, ast.Load()), at)
    return _made(_at(ast.Call(function, list(args), []), at))


def _declarations(node: ast.FunctionDef, names: set[str]) -> list[ast.stmt]:
    """Statements that never run and make names variables of the function."""
    own = {name for x in _own(node) if isinstance(x, ast.Nonlocal) for name in x.names}
    targets = [_at(ast.Name(name, ast.Store()), node.body[0]) for name in sorted(names - own)]
    at = node.body[0]
    return (
        [_at(ast.If(_at(ast.Constant(False), at), [_at(ast.Assign(targets, _at(_none(), at)), at)], []), at)] if targets else []
    )


# -- returns -----------------------------------------------------------------------------------------------------------


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


def _with_returns_at_the_end(statements: list[ast.stmt]) -> list[ast.stmt]:
    """An `if` that returns takes the statements after it into the branch that does not."""
    for k, node in enumerate(statements):
        if not isinstance(node, ast.If) or not _returns(node):
            continue
        rest = statements[k + 1 :]
        ends = [_ends(node.body), _ends(node.orelse)]
        if not any(ends) and sum(1 for x in rest for _ in ast.walk(x)) > _MOST_REPEATED:
            return statements
        after = rest or [_at(ast.Return(None), node)]
        body = node.body if ends[0] else [*node.body, *copy.deepcopy(after)]
        orelse = node.orelse if ends[1] else [*node.orelse, *after]
        if not rest or not _ends(rest):
            body, orelse = (b if _ends(b) else [*b, _at(ast.Return(None), node)] for b in (body, orelse))
        new = _at(ast.If(node.test, _with_returns_at_the_end(body), _with_returns_at_the_end(orelse)), node)
        new.is_last = _only_at_the_end(new.body) and _only_at_the_end(new.orelse)
        return [*statements[:k], new]
    return statements


def _only_at_the_end(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block returns as its last statement, and nowhere else."""
    *others, last = statements
    if any(isinstance(x, ast.Return) for s in others for x in inside(s) if not isinstance(s, SCOPES)):
        return False
    return isinstance(last, ast.Return) or getattr(last, "is_last", False)


# -- break and continue ------------------------------------------------------------------------------------------------


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
            if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in _NEEDS_FRAME:
                return f"it calls {x.func.id}()"
            if isinstance(x, ast.Name) and x.id == "__class__":
                return "it uses __class__"
    written = assigned(parts) & outer
    return f"it assigns the global {min(written)}" if written else ""


def _jumps(node: ast.AST, top: bool = True) -> bool:
    """Whether a `break` or `continue` leaves this statement, and not a loop inside it."""
    if isinstance(node, (ast.Break, ast.Continue)):
        return True
    if isinstance(node, (*SCOPES, ast.For, ast.While)) and not top:
        return any(_jumps(x, False) for x in getattr(node, "orelse", []))
    return any(_jumps(x, False) for x in ast.iter_child_nodes(node))


class _Jumps:
    """Replaces `break` and `continue` by flags, in loops that can become functions."""

    def __init__(self, rewriter: _Rewriter, outer: set[str]) -> None:
        self.rewriter, self.outer = rewriter, outer

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
        stop, skip = self.rewriter.name("stop"), self.rewriter.name("skip")
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
                if isinstance(x, (ast.With, ast.Match)) and _jumps(x):
                    return "a break or continue inside with or match"
        return ""

    def without(self, statements: Sequence[ast.stmt], stop: str, skip: str) -> list[ast.stmt]:
        """A block of a loop, with flags for its jumps."""
        made: list[ast.stmt] = []
        for k, node in enumerate(statements):
            if isinstance(node, (ast.Break, ast.Continue)):
                return [*made, _assign(stop if isinstance(node, ast.Break) else skip, True, node)]
            if not isinstance(node, ast.If) or not _jumps(node):
                made.append(node)
                continue
            rest = statements[k + 1 :]
            jumps = [_ends(b, (ast.Break, ast.Continue, ast.Raise)) for b in (node.body, node.orelse)]
            if any(jumps):
                body = [*node.body, *([] if jumps[0] else rest)]
                orelse = [*node.orelse, *([] if jumps[1] else rest)]
                new = ast.If(node.test, self.without(body, stop, skip), self.without(orelse, stop, skip))
                return [*made, _at(new, node)]
            new = ast.If(node.test, self.without(node.body, stop, skip), self.without(node.orelse, stop, skip))
            made.append(_at(new, node))
            if rest:
                flags = sorted(assigned([new]) & {stop, skip})
                made.append(_unless(flags, self.without(rest, stop, skip), node))
            return made
        return made


def _assign(name: str, value: bool, at: ast.AST) -> ast.stmt:
    return _at(ast.Assign([_at(ast.Name(name, ast.Store()), at)], _at(ast.Constant(value), at)), at)


def _unless(flags: Sequence[str], body: list[ast.stmt], at: ast.AST) -> ast.stmt:
    """`if not (a or b): body`"""
    names: list[ast.expr] = [_at(ast.Name(name, ast.Load()), at) for name in flags]
    either = names[0] if len(names) == 1 else _at(ast.BoolOp(ast.Or(), names), at)
    return _at(ast.If(_at(ast.UnaryOp(ast.Not(), either), at), body, []), at)


# -- statements --------------------------------------------------------------------------------------------------------


class _Statements:
    """Loops and branches become functions, and a call that runs them."""

    def __init__(self, rewriter: _Rewriter, outer: set[str], declared: set[str]) -> None:
        self.rewriter, self.outer = rewriter, outer
        self.declared = declared  # variables that those functions assign

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [x for s in statements for x in self.statement(s)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, SCOPES):
            return [node]
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node)
        if isinstance(node, ast.If):
            return self.branch(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                setattr(node, name, self.block(getattr(node, name)))
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            handler.body = self.block(handler.body)
        return [node]

    def function(self, what: str, body: list[ast.stmt], parameters: Sequence[str], at: ast.AST) -> tuple[str, ast.stmt]:
        """A function with these statements, which assigns the variables around it."""
        name = self.rewriter.name(what)
        names = sorted(assigned(body))
        self.declared.update(names)
        head: list[ast.stmt] = [_at(ast.Nonlocal(names), at)] if names else []
        arguments = ast.arguments([], [_at(ast.arg(p), at) for p in parameters], None, [], [], None, [])
        options: dict[str, Any] = {"type_params": []} if hasattr(ast, "TypeVar") else {}
        made = _at(ast.FunctionDef(name, arguments, [*head, *(body or [_at(ast.Pass(), at)])], [], **options), at)
        return name, _made(made)

    def call(self, name: str, node: ast.AST, site: int, *rest: ast.expr) -> ast.stmt:
        return _at(ast.Expr(_call(name, node, [_at(ast.Constant(site), node), *rest])), node)

    def loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        reason = node.why_not  # type: ignore[union-attr]
        kind = "for" if isinstance(node, ast.For) else "while"
        live_head, live_out = node.live_head, node.live_out  # type: ignore[union-attr]
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse)
        if reason:
            site = self.rewriter.site(kind, node, why_not=reason)
            return [self.call("left", node, site), node]
        body = node.body
        item = self.rewriter.name("item")
        if isinstance(node, ast.For):
            body = [_at(ast.Assign([node.target], _at(ast.Name(item, ast.Load()), node.target)), node), *body]
        changed = assigned(body)
        stop = getattr(node, "stop", "")
        names = {"state": frozenset(changed & (live_head | {stop})), "after": frozenset(changed & live_out)}
        names["written"] = frozenset(written(body))
        site = self.rewriter.site(kind, node, stop=stop, **names)
        body_name, body_function = self.function("body", body, [item] if isinstance(node, ast.For) else [], node)
        run = _at(ast.Name(body_name, ast.Load()), node)
        if isinstance(node, ast.For):
            return [body_function, self.call("for_", node, site, _looped(node.iter), run)]
        test_name, test = self.function("test", [_at(ast.Return(node.test), node.test)], [], node)
        return [body_function, test, self.call("while_", node, site, _at(ast.Name(test_name, ast.Load()), node), run)]

    def branch(self, node: ast.If) -> list[ast.stmt]:
        last = getattr(node, "is_last", False)
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not last:
            node.test = _call("fails", node.test, [node.test])
            node.orelse = self.block(node.orelse)
            return [node]
        live_out = getattr(node, "live_out", set())
        reason = why_not(node, self.outer, may_return=last)
        if _jumps(node):
            reason = "a break or continue of a loop that runs"
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        if reason:
            site = self.rewriter.site("if", node, why_not=reason)
            node.test = _call("tested", node.test, [_at(ast.Constant(site), node.test), node.test])
            return [node]
        changed = assigned([*node.body, *node.orelse])
        items = frozenset(written([*node.body, *node.orelse]))
        site = self.rewriter.site("if", node, state=frozenset(changed & live_out), written=items)
        true_name, true = self.function("true", node.body, [], node)
        false_name, false = self.function("false", node.orelse, [], node)
        ways = [_at(ast.Name(name, ast.Load()), node) for name in (true_name, false_name)]
        arguments = [_at(ast.Constant(site), node), node.test, *ways]
        if last:
            return [true, false, _at(ast.Return(_call("choose", node, arguments)), node)]
        return [true, false, _at(ast.Expr(_call("if_", node, arguments)), node)]


def _looped(node: ast.expr) -> ast.expr:
    """What a loop runs over, where `range(n)` must not ask for the number n."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOPED:
        node.func = _call("looped", node.func, [node.func])
        node.args = [_looped(x) for x in node.args]
        return _made(node)
    return node


__all__ = ["RUNTIME", "NoSourceError", "Rewritten", "Site", "rewritten"]
