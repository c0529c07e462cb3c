"""The syntax tree of a function, found in the text of its file by its first line, name and parameters."""

from __future__ import annotations

import ast
import functools
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
    text = "" if code.co_filename == "<string>" else "".join(linecache.getlines(code.co_filename, f.__globals__))
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


def _fits(node: Function, code: types.CodeType) -> bool:
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
