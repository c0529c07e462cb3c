"""A function rewritten so that its loops and branches are calls, which can be staged.

    for x in xs:                    def body(item):
        total += x * w                  nonlocal total, x
                                        x = item
                                        total += x * w
                                    __adjoint__.for_(3, xs, body)

The functions made from a loop or a branch share the variables of the function through closure cells: `running.py` runs them,
and reads and writes the cells. `break` and `continue` become flags, an `if` that returns takes the statements after it along.
What cannot be rewritten is left as it is, with the reason. Calls go through `__adjoint__.call`, which rewrites the functions
that are called. Lines and columns are those of the source, so that tracebacks show it.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import inspect
import os
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.home import RUNTIME
from . import liveness
from .jumps import NEEDS_FRAME, Jumps, at_line, jumps, plain_loops, returns_at_the_end, why_not
from .liveness import SCOPES, assigned, inside, written
from .locate import NoSourceError, node_of

_FUTURES = functools.reduce(int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_TYPE_PARAMETERS: dict[str, Any] = {"type_params": []} if hasattr(ast, "TypeVar") else {}  # from Python 3.12 on
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.IfExp, ast.Compare)
_LOOPED = frozenset({"range", "enumerate", "zip", "reversed"})


@dataclass(frozen=True)
class Site:
    """A loop or a branch of the source."""

    kind: str  # "for", "while", "if", "and", "or", "not"
    line: str  # file:line
    lines: frozenset[str] = frozenset()  # those of its condition
    assigned: frozenset[str] = frozenset()  # variables
    state: frozenset[str] = frozenset()  # those that are read later
    after: frozenset[str] = frozenset()  # those that are read after it
    written: frozenset[str] = frozenset()  # variables whose items are assigned
    stop: str = ""  # the flag of a `break`
    target: str = "k"  # the variable of a loop, if it is one
    why_not: str = ""  # it is left as it is


@dataclass(frozen=True)
class RewrittenCode:
    """The code of a rewritten function, with the sites that it names by number."""

    code: types.CodeType
    sites: list[Site] = field(default_factory=list)


# -- rewriting ---------------------------------------------------------------------------------------------------------


#: By the id of the code, which is kept alive, and whether only calls are rewritten.
_known: dict[tuple[int, bool], tuple[types.CodeType, RewrittenCode | NoSourceError]] = {}


def rewritten(f: types.FunctionType, only_calls: bool = False) -> RewrittenCode:
    """The code of a function with its loops and branches as calls; NoSourceError if that is not possible.

    With `only_calls` its loops and branches stay, and those of the functions that it calls may be rewritten.
    """
    code = f.__code__
    key = (id(code), only_calls)
    if key not in _known:
        try:
            made: RewrittenCode | NoSourceError = _rewrite(f, only_calls)
        except NoSourceError as error:
            made = error
        _known[key] = code, made
    found = _known[key][1]
    if isinstance(found, NoSourceError):
        raise found
    return found


@functools.cache
def has_loop(code: types.CodeType) -> bool:
    """Whether a function, or one inside it, may have a `for` or a `while`; comprehensions are not counted."""
    if any("FOR_ITER" in i.opname or "JUMP_BACKWARD" in i.opname for i in dis.get_instructions(code)):
        return True
    return any(has_loop(c) for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name not in _COMPREHENSIONS)


_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def _rewrite(f: types.FunctionType, only_calls: bool) -> RewrittenCode:
    code = f.__code__
    original, owner = node_of(f)
    sites: list[Site] = []
    node = copy.deepcopy(original)
    if isinstance(node, ast.AsyncFunctionDef):
        raise NoSourceError("it is asynchronous")
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise NoSourceError("it is a generator")
    _strip(node)
    _check_unchanged(node, code, owner)
    if only_calls:
        node = _Calls().generic_visit(node)  # type: ignore[assignment]
    else:
        rewriter = _Rewriter(sites, os.path.basename(code.co_filename))
        if isinstance(node, ast.FunctionDef):
            rewriter.function(node)
        else:
            node.body = rewriter.visit(node.body)
    inner = node if isinstance(node, ast.FunctionDef) else ast.Return(node)
    return RewrittenCode(_compiled(inner, code, owner), sites)


def _strip(node: ast.FunctionDef | ast.Lambda) -> None:
    """Remove what was evaluated when the function was defined: defaults, decorators, annotations."""
    a = node.args
    a.defaults, a.kw_defaults = [_none() for _ in a.defaults], [d and _none() for d in a.kw_defaults]
    for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
        if x is not None:
            x.annotation = None
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None


def _check_unchanged(node: ast.FunctionDef | ast.Lambda, code: types.CodeType, owner: str | None) -> None:
    """Refuse a source that no longer matches the code: the file may have been edited. (pytest rewrites `assert`.)"""
    if any(isinstance(x, ast.Assert) for x in ast.walk(node)):
        return
    twin = copy.deepcopy(node)
    found = _compiled(twin if isinstance(twin, ast.FunctionDef) else ast.Return(twin), code, owner)
    if _facts(found) != _facts(code):
        raise NoSourceError("its source has been changed since it was loaded")


def _facts(code: types.CodeType) -> list[Any]:
    inner = [_facts(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    plain = [repr(c) for c in code.co_consts if not isinstance(c, types.CodeType)]
    return [code.co_names, code.co_varnames, sorted(plain), inner]


def _own(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function's body, without those of functions inside."""
    body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    return [x for part in body for x in inside(part) if not isinstance(part, SCOPES)]


def _none() -> ast.expr:
    return ast.Constant(None)


def _compiled(inner: ast.stmt, code: types.CodeType, owner: str | None) -> types.CodeType:
    """The code of a function, compiled inside another that has its free variables, and inside a class for private names.

    The function and the class have names of their own there: theirs are globals, which the function may read.
    """
    free = [name for name in code.co_freevars if owner is None or name != "__class__"]
    if isinstance(inner, ast.FunctionDef):
        inner.name = f"{RUNTIME}{inner.name}__"
    if owner is not None:
        if isinstance(inner, ast.Return):
            inner = ast.Assign([ast.Name("_", ast.Store())], inner.value or _none())
        # Private names are mangled with the name of the class without its leading underscores.
        inner = ast.ClassDef(f"___{owner}", [], [], [inner], [], **_TYPE_PARAMETERS)
    parameters = ast.arguments([], [ast.arg(name) for name in [*free, RUNTIME]], None, [], [], None, [])
    around = ast.FunctionDef("around", parameters, [inner], [], **_TYPE_PARAMETERS)
    tree = ast.fix_missing_locations(ast.Module([around], []))
    at = compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    for _ in range(2 if owner is None else 3):
        (at,) = [c for c in at.co_consts if isinstance(c, types.CodeType)]
    # The first line stays that of the `def`, not of a decorator: all others are relative to it.
    return _qualified(at.replace(co_name=code.co_name), at.co_qualname, code.co_qualname)


def _qualified(code: types.CodeType, before: str, after: str) -> types.CodeType:
    """The code with the qualified names of the original, of the functions and classes inside it as well."""
    name = after + code.co_qualname.removeprefix(before)
    # A class has its qualified name as a constant.
    constants = [
        _qualified(c, before, after) if isinstance(c, types.CodeType) else name if c == code.co_qualname else c
        for c in code.co_consts
    ]
    return code.replace(co_qualname=name, co_consts=tuple(constants))


class _Calls(ast.NodeTransformer):
    """Rewrites the calls of a function and of the functions inside it."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if getattr(node, "made", False):
            node.args, node.keywords = [self.visit(x) for x in node.args], [self.visit(x) for x in node.keywords]
            return node
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in NEEDS_FRAME:
            return node
        node.func = _call("call", node.func, [node.func])
        return node


class _Rewriter(_Calls):
    """Rewrites one function and the functions inside it."""

    def __init__(self, sites: list[Site], file: str) -> None:
        self.sites, self.file = sites, file
        self.count = 0

    def function(self, node: ast.FunctionDef) -> None:
        outer = {name for x in _own(node) if isinstance(x, ast.Global) for name in x.names}
        if not any(isinstance(x, (ast.Yield, ast.YieldFrom, ast.Await)) for x in _own(node)):
            without = _Unannotated()
            node.body = [without.visit(x) for x in node.body]
            node.body = returns_at_the_end(plain_loops(node.body, self.name))
            shape = Jumps(self.name, outer)
            node.body = shape.block(node.body)
            liveness.annotate(node)
            declared = without.declared
            node.body = _Statements(self, outer, declared).block(node.body)
            node.body = [*_declarations(node, declared - outer), *[self.visit(x) for x in node.body]]
        else:
            node.body = [self.visit(x) for x in node.body]

    def site(self, kind: str, node: Any, **facts: Any) -> int:
        lines = range(node.lineno, (getattr(node, "test", node).end_lineno or node.lineno) + 1)
        self.sites.append(Site(kind, f"{self.file}:{node.lineno}", frozenset(f"{self.file}:{n}" for n in lines), **facts))
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

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        return node if _is_fixed(node) else self.either(node, node.op, node.values)

    def either(self, node: ast.expr, op: ast.boolop, values: Sequence[ast.expr]) -> ast.expr:
        name = "and" if isinstance(op, ast.And) else "or"
        return _call(f"{name}_", node, [ast.Constant(self.site(name, node)), *[_thunk(x) for x in values]])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return _call("not_", node, [ast.Constant(self.site("not", node)), node.operand])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _is_fixed(node):
            return node
        site = self.site("if", node)
        return _call("choose", node, [ast.Constant(site), node.test, _thunk(node.body), _thunk(node.orelse)])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return node if len(node.ops) == 1 or _is_fixed(node) else self.chained(node)

    def chained(self, node: ast.Compare) -> ast.expr:
        """a < b < c: (lambda p, q: p < q and q < c)(a, b), so that b is computed once, and c only if a < b."""
        left, middle = (self.name("operand") for _ in range(2))
        p, q = (at_line(ast.Name(name, ast.Load()), node) for name in (left, middle))
        first, rest = ast.Compare(p, [node.ops[0]], [q]), ast.Compare(q, node.ops[1:], node.comparators[1:])
        second = at_line(rest, node)
        parts = [at_line(first, node), second if len(rest.ops) == 1 else self.chained(second)]
        both = self.either(node, ast.And(), parts)
        parameters = ast.arguments([], [ast.arg(left), ast.arg(middle)], None, [], [], None, [])
        return _made(at_line(ast.Call(at_line(ast.Lambda(parameters, both), node), [node.left, node.comparators[0]], []), node))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("holds", node, [node.test])
        return node


class _Unannotated(ast.NodeTransformer):
    """Assignments without annotations, which a function does not evaluate, and which nonlocal variables cannot have."""

    def __init__(self) -> None:
        self.declared: set[str] = set()  # by an annotation alone

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            return at_line(ast.Assign([node.target], node.value), node)
        if isinstance(node.target, ast.Name):
            self.declared.add(node.target.id)
        return at_line(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # `function` is called for it too

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node


def _is_fixed(node: ast.AST) -> bool:
    """Whether parts of an expression cannot become functions: they assign, or wait."""
    return any(isinstance(x, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for x in ast.walk(node))


def _thunk(x: ast.expr) -> ast.expr:
    return at_line(ast.Lambda(ast.arguments([], [], None, [], [], None, []), x), x)


def _made(node: Any) -> Any:
    node.made = True
    return node


def _call(name: str, at: ast.AST, args: Sequence[ast.expr]) -> ast.Call:
    function = at_line(ast.Attribute(at_line(ast.Name(RUNTIME, ast.Load()), at), name, ast.Load()), at)
    return _made(at_line(ast.Call(function, list(args), []), at))


def _declarations(node: ast.FunctionDef, names: set[str]) -> list[ast.stmt]:
    """Statements that never run and make names variables of the function."""
    own = {name for x in _own(node) if isinstance(x, ast.Nonlocal) for name in x.names}
    targets = [at_line(ast.Name(name, ast.Store()), node.body[0]) for name in sorted(names - own)]
    at = node.body[0]
    return (
        [at_line(ast.If(at_line(ast.Constant(False), at), [at_line(ast.Assign(targets, at_line(_none(), at)), at)], []), at)]
        if targets
        else []
    )


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
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            node.value = _named(node.targets[0], node.value)
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
        head: list[ast.stmt] = [at_line(ast.Nonlocal(names), at)] if names else []
        arguments = ast.arguments([], [at_line(ast.arg(p), at) for p in parameters], None, [], [], None, [])
        made = at_line(
            ast.FunctionDef(name, arguments, [*head, *(body or [at_line(ast.Pass(), at)])], [], **_TYPE_PARAMETERS), at
        )
        return name, _made(made)

    def call(self, name: str, node: ast.AST, site: int, *rest: ast.expr) -> ast.stmt:
        return at_line(ast.Expr(_call(name, node, [at_line(ast.Constant(site), node), *rest])), node)

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
            body = [at_line(ast.Assign([node.target], at_line(ast.Name(item, ast.Load()), node.target)), node), *body]
        changed = assigned(body)
        stop = getattr(node, "stop", "")
        names = {"state": frozenset(changed & (live_head | {stop})), "after": frozenset(changed & live_out)}
        names |= {"assigned": frozenset(changed), "written": frozenset(written(body))}
        target = getattr(node, "target", None)
        target = target.id if isinstance(target, ast.Name) else "k"
        site = self.rewriter.site(kind, node, stop=stop, target=target, **names)
        body_name, body_function = self.function("body", body, [item] if isinstance(node, ast.For) else [], node)
        run = at_line(ast.Name(body_name, ast.Load()), node)
        if isinstance(node, ast.For):
            return [body_function, self.call("for_", node, site, _looped(node.iter), run)]
        test_name, test = self.function("test", [at_line(ast.Return(node.test), node.test)], [], node)
        return [body_function, test, self.call("while_", node, site, at_line(ast.Name(test_name, ast.Load()), node), run)]

    def branch(self, node: ast.If) -> list[ast.stmt]:
        last = getattr(node, "is_last", False)
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not last:
            node.test = _call("fails", node.test, [node.test])
            node.orelse = self.block(node.orelse)
            return [node]
        live_out: set[str] = getattr(node, "live_out", set())
        reason = why_not(node, self.outer, may_return=last)
        if jumps(node):
            reason = "a break or continue of a loop that runs"
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        if reason:
            site = self.rewriter.site("if", node, why_not=reason)
            node.test = _call("tested", node.test, [at_line(ast.Constant(site), node.test), node.test])
            return [node]
        changed = assigned([*node.body, *node.orelse])
        items = frozenset(written([*node.body, *node.orelse]))
        names = {"assigned": frozenset(changed), "state": frozenset(changed & live_out), "written": items}
        site = self.rewriter.site("if", node, **names)
        true_name, true = self.function("true", node.body, [], node)
        false_name, false = self.function("false", node.orelse, [], node)
        ways = [at_line(ast.Name(name, ast.Load()), node) for name in (true_name, false_name)]
        arguments = [at_line(ast.Constant(site), node), node.test, *ways]
        if last:
            return [true, false, at_line(ast.Return(_call("choose", node, arguments)), node)]
        return [true, false, at_line(ast.Expr(_call("if_", node, arguments)), node)]


def _named(target: ast.expr, value: ast.expr) -> ast.expr:
    """A value that is assigned to a variable, whose name the program shows."""
    if isinstance(target, ast.Name) and isinstance(value, _COMPUTED) and not target.id.startswith("__adjoint_"):
        return _call("named", value, [at_line(ast.Constant(target.id), value), value])
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        parts = [*target.elts, *value.elts]
        if len(parts) == 2 * len(value.elts) and not any(isinstance(x, ast.Starred) for x in parts):
            value.elts = [_named(x, y) for x, y in zip(target.elts, value.elts, strict=True)]
    return value


def _looped(node: ast.expr) -> ast.expr:
    """What a loop runs over, where `range(n)` must not ask for the number n."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOPED:
        node.func = _call("looped", node.func, [node.func])
        node.args = [_looped(x) for x in node.args]
        return _made(node)
    return node


__all__ = ["NoSourceError", "RewrittenCode", "Site", "rewritten"]
