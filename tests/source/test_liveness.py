"""Liveness: which variables each loop and branch has as state, and which names statements assign, write to and read."""

from __future__ import annotations

import ast

import pytest

from adjoint.source.liveness import annotate, assigned, inside, read, written


def statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def annotated(text: str) -> ast.FunctionDef:
    (function,) = statements(text)
    assert isinstance(function, ast.FunctionDef)
    annotate(function)
    return function


def first(text: str, kind: type) -> ast.AST:
    return next(x for x in ast.walk(annotated(text)) if isinstance(x, kind))


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, names",
    [
        ("a = b", {"a"}),
        ("a, (b, *c) = d", {"a", "b", "c"}),
        ("a = b = c", {"a", "b"}),
        ("a += b", {"a"}),
        ("a: int = 1", {"a"}),
        ("a[i] = b", set()),
        ("a.b = c", set()),
        ("del a", {"a"}),
        ("for i, j in x: k = i", {"i", "j", "k"}),
        ("with f() as (a, b): c = 1", {"a", "b", "c"}),
        ("import a.b", {"a"}),
        ("import a.b as c", {"c"}),
        ("from a import b, c as d", {"b", "d"}),
        ("try: a = 1\nexcept E as e: b = 2", {"a", "e", "b"}),
        ("match x:\n case [a, *b]: pass\n case {'k': c, **d}: pass\n case e: pass", {"a", "b", "c", "d", "e"}),
        ("def f(a):\n  b = 1", {"f"}),  # its variables are its own
        ("class C:\n  a = 1", {"C"}),
        ("f(lambda a: (b := a))", set()),
        ("x = [i for i in y]", {"x"}),
        ("x = [(last := i) for i in y]", {"x", "last"}),
        ("f(y := 1)", {"y"}),
    ],
)
def test_what_is_assigned(text, names):
    assert assigned(statements(text)) == names


def test_a_function_that_the_rewriter_made_assigns_for_the_one_around_it():
    (function,) = statements("def body():\n  nonlocal a\n  a = 1")
    assert assigned([function]) == {"body"}
    function.made = True
    assert assigned([function]) == {"a"}


@pytest.mark.parametrize(
    "text, names",
    [
        ("a[0] = 1", {"a"}),
        ("a[i][j] += b[k]", {"a"}),
        ("a.x[0].y[1] = 1", {"a"}),
        ("f(x)[0] = 1", set()),  # no variable
        ("a, b[0] = 1, 2", {"b"}),
        ("del a[0]", {"a"}),
        ("x = a[0]", set()),
        ("a.x = 1", set()),
    ],
)
def test_variables_whose_items_are_assigned(text, names):
    assert written(statements(text)) == names


@pytest.mark.parametrize(
    "text, names",
    [
        ("a = b + c", {"b", "c"}),
        ("a[i] = b", {"a", "i", "b"}),
        ("def f(): return a", {"a"}),
        ("del a", {"a"}),
    ],
)
def test_what_is_read(text, names):
    assert read(statements(text)) == names


def test_functions_inside_are_passed_over():
    (function,) = statements("def f():\n  x = 1\n  def g():\n    y = 2\n  class C:\n    z = 3")
    found = list(inside(function))
    assert {x.id for x in found if isinstance(x, ast.Name)} == {"x"}
    assert {x.name for x in found if isinstance(x, (ast.FunctionDef, ast.ClassDef))} == {"f", "g", "C"}  # but named


# -- live variables ----------------------------------------------------------------------------------------------------


def test_what_a_branch_gives():
    node = first("def f(x):\n  if x:\n    a = 1\n    b = 2\n  else:\n    a = 3\n  return a", ast.If)
    assert node.live_out == {"a"}


def test_a_variable_assigned_before_it_is_read_is_not_carried():
    node = first("def f(x, n):\n  for i in range(n):\n    t = x * i\n    x = x + t\n  return x", ast.For)
    assert node.live_head == {"x"}
    assert node.live_out == {"x"}


def test_a_variable_read_before_it_is_assigned_is_carried_though_it_is_dead_afterwards():
    node = first("def f(x, n):\n  t = 0\n  for i in range(n):\n    x = x + t\n    t = i\n  return x", ast.For)
    assert node.live_head == {"x", "t"}
    assert node.live_out == {"x"}


def test_a_chain_through_several_iterations():
    """c reaches x after three iterations, so that one pass over the body does not find it."""
    node = first("def f(x, a, b, c):\n  while x:\n    x = a\n    a = b\n    b = c\n    c = 1\n  return x", ast.While)
    assert node.live_head == {"x", "a", "b", "c"}


def test_the_condition_of_a_while_is_read_before_each_iteration():
    node = first("def f(x, k):\n  while k < 3:\n    k = k + 1\n  return x", ast.While)
    assert node.live_head == {"k", "x"}
    assert node.live_out == {"x"}


def test_the_target_of_a_loop_is_not_carried():
    node = first("def f(x):\n  for i in x:\n    y = i\n  return y", ast.For)
    assert node.live_head == {"y"}


@pytest.mark.parametrize("jump", ["break", "continue", "return x"])
def test_a_loop_with_a_jump_keeps_what_it_reads(jump):
    node = first(f"def f(x, n):\n  for i in n:\n    t = x\n    if t:\n      {jump}\n    x = t\n  return x", ast.For)
    assert {"t", "x"} <= node.live_head


def test_the_flag_of_a_break_is_carried():
    (function,) = statements("def f(x):\n  for i in x:\n    stop = i\n  return x")
    function.body[0].stop = "stop"
    annotate(function)
    assert "stop" in function.body[0].live_head
    assert "stop" not in function.body[0].live_out


def test_variables_that_functions_capture_are_always_live():
    node = first("def f(x):\n  def g():\n    return a\n  if x:\n    a = 1\n    b = 2\n  return g()", ast.If)
    assert node.live_out == {"a", "g"}


@pytest.mark.parametrize(
    "around",
    ["try:\n    {}\n  finally:\n    print(c)", "match x:\n   case 1:\n    {}\n   case _:\n    print(c)"],
)
def test_control_flow_that_is_not_followed_keeps_all_variables(around):
    inner = "if x:\n      a = 1\n    b = 2"
    node = first(f"def f(x, c):\n  {around.format(inner)}\n  return x", ast.If)
    assert {"a", "b", "c", "x"} <= node.live_out


def test_nothing_is_live_after_a_return():
    function = annotated("def f(x, y):\n  if x:\n    pass\n  return x\n  return y")
    assert function.body[0].live_out == {"x"}


def test_an_augmented_assignment_reads_its_target():
    node = first("def f(x):\n  a = 0\n  if x:\n    pass\n  a += 1\n  return 0", ast.If)
    assert node.live_out == {"a"}


def test_what_a_with_assigns_is_dead_before_it():
    node = first("def f(x):\n  if x:\n    pass\n  with open(x) as file:\n    return file", ast.If)
    assert node.live_out == {"open", "x"}
