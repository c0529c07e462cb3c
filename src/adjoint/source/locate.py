"""The syntax tree of a function, found in the text of its file by its first line, name and parameters."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import types
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NoSourceError(Exception):
    """The source of a function is not available, or cannot be rewritten."""


@functools.lru_cache(maxsize=256)
def _functions_of(text: str) -> dict[int, list[tuple[Function, str | None]]]:
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


def node_of(f: types.FunctionType) -> tuple[Function, str | None]:
    """The tree of a function, and the class that it is a method of."""
    code = f.__code__
    # "<string>" names the text of every exec; from Python 3.13 on, linecache has the program of "python -c" under it.
    lines = [] if code.co_filename == "<string>" else linecache.getlines(code.co_filename, f.__globals__)
    if not lines:
        raise NoSourceError(f"its source is not available ({code.co_filename})")
    alone = _alone(code, lines)
    if alone is not None:
        return alone, _owner(code)
    try:
        at_line = _functions_of("".join(lines)).get(code.co_firstlineno, [])
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


def _alone(code: types.CodeType, lines: list[str]) -> ast.FunctionDef | None:
    """The tree of a function, parsed without the rest of its file, which may be long; None if that is not possible."""
    if code.co_name == "<lambda>":
        return None
    first, last = code.co_firstlineno, _last_line(code)
    text = lines[first - 1 : last]
    is_inside = bool(text) and text[0][:1].isspace()
    try:
        body = ast.parse("".join(["if 1:\n", *text] if is_inside else text)).body
    except SyntaxError:
        return None
    if is_inside and len(body) == 1 and isinstance(body[0], ast.If):
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or not _fits(body[0], code):
        return None
    return ast.increment_lineno(body[0], first - 1 - is_inside)


def _last_line(code: types.CodeType) -> int:
    inner = [_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return max([code.co_firstlineno, *inner, *(end for _, end, _, _ in code.co_positions() if end is not None)])


def _owner(code: types.CodeType) -> str | None:
    """The innermost class around a function, by its qualified name: A in `A.f.<locals>.g`."""
    parts = code.co_qualname.split(".")
    classes = [name for name, after in itertools.pairwise(parts) if "<locals>" not in (name, after)]
    return classes[-1] if classes else None


def _fits(node: Function, code: types.CodeType) -> bool:
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return name == code.co_name and (tuple(names) == code.co_varnames[:count] or any(n.startswith("__") for n in names))


def _has_code(node: Any, code: types.CodeType) -> bool:
    """Whether a function is the one with this code; several on one line, such as two lambdas, are told apart."""
    if not isinstance(node, ast.Lambda):
        return True
    (made,) = [c for c in compile(ast.Expression(node), "", "eval").co_consts if isinstance(c, types.CodeType)]
    return (made.co_names, made.co_varnames) == (code.co_names, code.co_varnames) and _plain(made) == _plain(code)


def _plain(code: types.CodeType) -> list[Any]:
    return [c for c in code.co_consts if not isinstance(c, types.CodeType)]
