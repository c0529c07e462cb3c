"""Returns and jumps: the rewritten statements do what the original ones do, and what cannot be rewritten is named."""

from __future__ import annotations

import ast
import itertools
import textwrap

import pytest

from adjoint.source.jumps import _MOST_REPEATED, NEEDS_FRAME, Jumps, at_line, jumps, plain_loops, returns_at_the_end, why_not


def function_of(text: str) -> ast.FunctionDef:
    return ast.parse(textwrap.dedent(text)).body[0]


def run(function: ast.FunctionDef, *args):
    space: dict = {}
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "<jumps>", "exec"), space)
    return space[function.name](*args)


def without_jumps(function: ast.FunctionDef) -> ast.FunctionDef:
    count = itertools.count()
    function.body = Jumps(lambda what: f"{what}{next(count)}", set()).block(function.body)
    return function


def has(node: ast.AST, *kinds: type) -> bool:
    return any(isinstance(x, kinds) for x in ast.walk(node))


# -- returns -----------------------------------------------------------------------------------------------------------

RETURNS = {
    "one branch": "if x > 0:\n    return 'a'\nx = x - 1\nreturn x",
    "other branch": "if x > 0:\n    x = x * 2\nelse:\n    return 'b'\nreturn x",
    "both": "if x > 0:\n    return 'a'\nelse:\n    return 'b'\nreturn 'never'",
    "nested": "if x > 0:\n    if x > 1:\n        return 'a'\n    x = x + 5\nreturn x",
    "chain": "if x > 1:\n    return 'a'\nelif x > 0:\n    return 'b'\nelif x == 0:\n    x = 7\nreturn x",
    "falls off": "if x > 0:\n    return 'a'\nx = 3",
    "nothing after": "if x > 0:\n    return 'a'",
    "no value": "if x > 0:\n    return\nreturn x",
    "raises": "if x > 5:\n    raise ValueError\nif x > 0:\n    return 'a'\nreturn x",
    "two": "if x > 1:\n    return 'a'\ny = x\nif y < 0:\n    return 'b'\nreturn y",
    "in a loop": "for i in range(3):\n    if i == x:\n        return i\nreturn 'none'",
}


@pytest.mark.parametrize("name", RETURNS)
def test_returns_move_to_the_end(name):
    text = "def f(x):\n" + textwrap.indent(RETURNS[name], "    ")
    function = function_of(text)
    function.body = returns_at_the_end(function.body)
    for x in (-1, 0, 1, 2):
        assert run(function, x) == run(function_of(text), x)
    if name != "in a loop":  # a loop that returns is left to run
        *_, last = function.body
        assert last.is_last
        assert not any(isinstance(x, ast.Return) for s in function.body[:-1] for x in ast.walk(s))


def test_statements_without_a_return_stay_as_they_are():
    body = function_of("def f(x):\n    if x:\n        y = 1\n    return y").body
    assert returns_at_the_end(body) is body


@pytest.mark.parametrize("inner", ["for i in x:\n            return i", "with x:\n            return 1", "pass"])
def test_a_return_in_a_loop_or_with_of_a_branch_is_not_moved(inner):
    body = function_of(f"def f(x):\n    if x:\n        {inner}\n    return x").body
    assert returns_at_the_end(body) is body


def size(statements) -> int:
    return sum(1 for s in statements for _ in ast.walk(s))


@pytest.mark.parametrize("is_long", [False, True])
def test_long_code_is_not_written_into_both_branches(is_long):
    """Neither branch of the outer `if` always returns, so that both would get the statements after it."""
    after = "x = x + 1\n" * (20 if is_long else 2) + "return x"
    text = "def f(x):\n" + textwrap.indent("if x > 0:\n    if x > 1:\n        return 'a'\n" + after, "    ")
    body = function_of(text).body
    assert (size(body[1:]) > _MOST_REPEATED) == is_long
    assert (returns_at_the_end(body) is body) == is_long


def test_long_code_goes_into_the_branch_that_does_not_return():
    text = "def f(x):\n" + textwrap.indent("if x > 0:\n    return 'a'\n" + "x = x + 1\n" * 20 + "return x", "    ")
    body = returns_at_the_end(function_of(text).body)
    assert len(body) == 1
    assert len(body[0].orelse) == 21


# -- break and continue ------------------------------------------------------------------------------------------------

LOOPS = {
    "break": "if i == x: break\ns += i",
    "continue": "if i == x: continue\ns += i",
    "both": "if i == x: break\nif i % 2: continue\ns += i",
    "at once": "s += i\nbreak",
    "in else": "if i < x:\n    s += 1\nelse:\n    break\ns += 10",
    "deep": "if i > 1:\n    if i == x:\n        s += 7\n        break\n    s += 1\ns += 100",
    "deep and both": "if i > 1:\n    if i == x:\n        break\n    elif i == x + 1:\n        continue\n    s += 1\ns += 100",
    "maybe on both sides": "if i > 2:\n    if i == x: break\nelse:\n    if i == x: continue\ns += i",
    "inner loop": "for j in range(3):\n    if j == x: break\n    s += j\ns += i",
    "inner continue": "for j in range(3):\n    if j == x: continue\n    s += j\nelse:\n    s += 50\nif s > 120: break",
    "unreachable": "continue\ns += 1",
    "neither": "s += i",
}


@pytest.mark.parametrize("tail", ["", "else:\n    s = -s - 1\n"], ids=["", "else"])
@pytest.mark.parametrize("head", ["for i in range(6):", "i = -1\nwhile i < 5:\n    i += 1"])
@pytest.mark.parametrize("name", LOOPS)
def test_flags_do_what_jumps_do(name, head, tail):
    text = f"s = 0\n{head}\n{textwrap.indent(LOOPS[name], '    ')}\n{tail}return s"
    text = "def f(x):\n" + textwrap.indent(text, "    ")
    function = without_jumps(function_of(text))
    assert not has(function, ast.Continue)
    loops = [x for x in ast.walk(function) if isinstance(x, (ast.For, ast.While))]
    assert all(x.why_not == "" and not x.orelse for x in loops)
    assert not has(function, ast.Break)
    assert any(hasattr(x, "stop") for x in loops) == ("break" in text)
    for x in (-1, 0, 2, 4, 5):
        # A flag does not end the loop by itself: whoever runs the body asks for it after each iteration.
        assert run(_asking(function_of(text)), x) == run(_asking(without_jumps(function_of(text))), x)


def _asking(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with a `break` at the end of each body whose loop has a flag."""
    for node in ast.walk(function):
        if hasattr(node, "stop"):
            node.body.append(ast.If(ast.Name(node.stop, ast.Load()), [ast.Break()], []))
    return function


def test_a_loop_that_is_left_keeps_its_jumps():
    function = without_jumps(function_of("def f(x):\n    for i in x:\n        with i:\n            break"))
    (loop,) = function.body
    assert loop.why_not == "a break or continue inside with or match"
    assert has(loop, ast.Break)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("for i in x:\n    break", True),
        ("if x:\n    continue", True),
        ("if x:\n    for i in x:\n        break", False),
        ("if x:\n    for i in x:\n        pass\n    else:\n        break", True),  # leaves the loop around it
        ("if x:\n    y = 1", False),
    ],
)
def test_jumps_that_leave_a_statement(text, expected):
    assert jumps(ast.parse(text).body[0]) is expected


# -- what is left ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, reason",
    [
        ("for i in x:\n    y = i", ""),
        ("for a.b in x:\n    pass", "it assigns more than variables in its first line"),
        ("for a[0] in x:\n    pass", "it assigns more than variables in its first line"),
        ("for a, *b in x:\n    pass", "it assigns more than variables in its first line"),
        ("while (y := x):\n    pass", "its condition assigns a variable"),
        ("while x:\n    return 1", "a return in the middle"),
        ("if x:\n    try:\n        y = 1\n    except E:\n        pass", "it contains try"),
        ("if x:\n    try:\n        y = 1\n    except* E:\n        pass", "it contains trystar"),
        ("for i in x:\n    if i:\n        class C: pass", "it contains classdef"),
        ("if x:\n    del y", "it contains delete"),
        ("if x:\n    pass\nelse:\n    global y", "it contains global"),
        ("if x:\n    y = __class__", "it uses __class__"),
        ("if x:\n    g = 1", "it assigns the global g"),
        ("for g in x:\n    pass", "it assigns the global g"),
        ("for i in x:\n    def h():\n        return 1", ""),  # a return of another function
        ("for i in x:\n    y.locals()", ""),
        *[(f"if x:\n    y = {name}()", f"it calls {name}()") for name in sorted(NEEDS_FRAME)],
    ],
)
def test_why_a_statement_is_left(text, reason):
    assert why_not(ast.parse(text).body[0], {"g"}) == reason


def test_a_branch_at_the_end_may_return():
    node = ast.parse("if x:\n    return 1").body[0]
    assert why_not(node, set()) == "a return in the middle"
    assert why_not(node, set(), may_return=True) == ""


def test_new_nodes_end_on_their_first_line():
    old = ast.parse("f(\n  1,\n)").body[0]
    new = at_line(ast.Pass(), old)
    assert (new.lineno, new.end_lineno) == (1, 1)
    one = at_line(ast.Pass(), ast.parse("f(1)").body[0])
    assert (one.col_offset, one.end_col_offset) == (0, 4)


# -- loops that return -------------------------------------------------------------------------------------------------


def plain(text):
    """The statements of a function's body, with loops that do not return."""
    count = iter("abcdefgh")
    return ast.unparse(ast.Module(plain_loops(ast.parse(text).body, lambda what: f"{what}_{next(count)}"), [])).splitlines()


def test_a_return_in_a_loop_is_a_flag_a_value_and_a_break():
    assert plain("for x in xs:\n    if x:\n        return x\n    y = x\nreturn y") == [
        "returned_a = False",
        "for x in xs:",
        "    if x:",
        "        value_b = x",
        "        returned_a = True",
        "        break",
        "    y = x",
        "if returned_a:",
        "    return value_b",
        "return y",
    ]


def test_an_endless_loop_returns_what_it_found():
    assert plain("while True:\n    if x:\n        return x")[-2:] == ["        break", "return value_b"]


def test_a_loop_that_returns_or_raises():
    assert plain("for x in xs:\n    if x:\n        return x\nraise E")[-3:] == [
        "if not returned_a:",
        "    raise E",
        "return value_b",
    ]


def test_a_return_in_a_loop_in_a_loop_leaves_both():
    lines = plain("for x in xs:\n    for y in x:\n        if y:\n            return y\nreturn 0")
    assert lines[-7:] == [
        "    if returned_a:",
        "        value_d = value_b",
        "        returned_c = True",
        "        break",
        "if returned_c:",
        "    return value_d",
        "return 0",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "for x in xs:\n    with x:\n        return x",
        "for x in xs:\n    try:\n        return x\n    finally:\n        pass",
        "for x in xs:\n    def f():\n        return x",
        "while (x := f()):\n    if x:\n        break\nelse:\n    y = 1",
        "while x:\n    y = 1",
    ],
)
def test_other_loops_stay(text):
    assert plain(text) == ast.unparse(ast.parse(text)).splitlines()


def test_a_condition_that_assigns_is_tested_in_the_body():
    assert plain("while (x := f(x)) > 1:\n    y = x") == [
        "while True:",
        "    if not (x := f(x)) > 1:",
        "        break",
        "    y = x",
    ]
