"""The tree of a function in the text of its file: parsed alone where that is possible."""

from __future__ import annotations

import ast
import functools
import inspect

import pytest

from adjoint.source import locate
from adjoint.source.locate import NoSourceError, node_of


def plain(x, y=(1, 2)):
    """A text
    with a line that is not indented."""
    return x


@functools.cache
def decorated(x):
    return (
        x
    )  # fmt: skip


class Outer:
    class Inner:
        def method(self):
            def inside(x):
                return self.__private + x

            return inside

    def after_return(self):
        return 1
        return 2

    def ends_with_finally(self):
        try:
            return 1
        finally:
            pass

    def empty(self):
        pass

    @property
    def property(self):
        if self:
            return """
no indentation
"""
        else:
            pass


def local():
    class Local:
        def method(self):
            return 1

    return Local.method


first, second = lambda x: x + 1, lambda x: x + 2

FUNCTIONS = {
    "plain": (plain, None),
    "decorated": (decorated.__wrapped__, None),
    "method": (Outer.Inner.method, "Inner"),
    "inside": (Outer.Inner().method(), "Inner"),
    "after_return": (Outer.after_return, "Outer"),
    "ends_with_finally": (Outer.ends_with_finally, "Outer"),
    "empty": (Outer.empty, "Outer"),
    "property": (Outer.property.fget, "Outer"),
    "local": (local(), "Local"),
    "local function": (local, None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_found(name):
    f, owner = FUNCTIONS[name]
    node, found = node_of(f)
    assert found == owner
    assert node.name == f.__name__
    assert min([node.lineno, *(d.lineno for d in node.decorator_list)]) == f.__code__.co_firstlineno
    whole = next(n for n in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(f)))) if _is_at(n, node))
    assert ast.dump(node.args) == ast.dump(whole.args)
    assert [ast.dump(x) for x in node.body] == [ast.dump(x) for x in whole.body][: len(node.body)]  # without dead code at the end
    assert [x.lineno for x in node.body] == [x.lineno for x in whole.body][: len(node.body)]


def _is_at(n, node):
    return isinstance(n, ast.FunctionDef) and (n.name, n.lineno) == (node.name, node.lineno)


def test_lambdas_on_one_line():
    assert [node_of(f)[0].body.right.value for f in (first, second)] == [1, 2]


def test_a_file_that_has_become_shorter(monkeypatch):
    monkeypatch.setattr(locate.linecache, "getlines", lambda *_: ["x = 1\n"])
    with pytest.raises(NoSourceError, match="not to be found"):
        node_of(plain)
    monkeypatch.setattr(locate.linecache, "getlines", lambda *_: [])
    with pytest.raises(NoSourceError, match="not available"):
        node_of(plain)
    monkeypatch.setattr(locate.linecache, "getlines", lambda *_: ["{% if %}\n"])
    with pytest.raises(NoSourceError, match="cannot be read"):
        node_of(plain)
