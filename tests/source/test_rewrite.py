"""Rewritten functions compute what the original ones do, with a runtime that only runs what it is given, and notes it."""

from __future__ import annotations

import types

import pytest
from looped import defined

from adjoint.source.rewrite import RUNTIME, NoSourceError, Site, rewritten


class Plain:
    """A runtime in which nothing is staged."""

    def __init__(self, sites: list[Site]) -> None:
        self.sites = sites
        self.calls: list[str] = []
        self.left = self.note("left", lambda number: None)
        self.looped = self.note("looped", lambda f: f)
        self.call = self.note("call", lambda f: f)
        self.tested = self.note("tested", lambda number, test: test)
        self.fails = self.note("fails", bool)
        self.holds = self.note("holds", bool)
        self.not_ = self.note("not_", lambda number, x: not x)
        self.choose = self.note("choose", lambda number, test, true, false: true() if test else false())
        self.if_ = self.note("if_", lambda number, test, true, false: (true() if test else false()) and None)

    def note(self, name, f):
        def noted(*args):
            self.calls.append(name)
            return f(*args)

        return noted

    def named(self, name, value):
        return value

    def and_(self, number, *parts):
        self.calls.append("and_")
        for part in parts:
            value = part()
            if not value:
                return value
        return value

    def or_(self, number, *parts):
        self.calls.append("or_")
        for part in parts:
            value = part()
            if value:
                return value
        return value

    def stopped(self, number, body):
        stop = self.sites[number].stop
        return bool(stop) and body.__closure__[body.__code__.co_freevars.index(stop)].cell_contents

    def for_(self, number, iterable, body):
        self.calls.append("for_")
        for x in iterable:
            body(x)
            if self.stopped(number, body):
                break

    def while_(self, number, test, body):
        self.calls.append("while_")
        while test():
            body()
            if self.stopped(number, body):
                break


def remade(f):
    """The rewritten function, and its runtime."""
    found = rewritten(f)
    runtime = Plain(found.sites)
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)) | {RUNTIME: types.CellType(runtime)}
    closure = tuple(cells[name] for name in found.code.co_freevars)
    made = types.FunctionType(found.code, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__ = f.__kwdefaults__
    return made, runtime


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


#: By name: a function of x and n, and what it calls of the runtime.
PROGRAMS = {
    "for": ("s = 0\nfor i in range(n):\n    s += x * i\nreturn s", {"for_", "looped"}),
    "for over a call": ("s = 0\nfor a in sorted([x, n]):\n    s = a - s\nreturn s", {"for_", "call"}),
    "for with a pair": ("s = 0\nfor i, (a, b) in enumerate(zip([x], [n])):\n    s += a * b + i\nreturn s", {"for_", "looped"}),
    "for with else": ("for i in range(n):\n    if i > x: break\nelse:\n    i = -1\nreturn i", {"for_", "if_", "not_"}),
    "while": ("k = 0\nwhile k < n and x < 50:\n    x *= 2\n    k += 1\nreturn x, k", {"while_", "and_"}),
    "break and continue": (
        "s = 0\nfor i in range(n):\n    if i % 2: continue\n    if s > 5: break\n    s += i + x\nreturn s, i",
        {"for_", "if_"},
    ),
    "nested loops": ("s = 0\nfor i in range(n):\n    for j in range(i):\n        s += x * j\nreturn s", {"for_"}),
    "if": ("if x > 0:\n    y = x\nelse:\n    y = -x\nreturn y", {"if_"}),
    "elif": ("if x > 1:\n    y = 1\nelif x > 0:\n    y = 2\nelse:\n    y = 3\nreturn y", {"if_"}),
    "unbound": ("if x > 0:\n    y = x\nreturn y", {"if_"}),
    "returns": ("if x > 0:\n    return x\nx = x - n\nreturn x * 2", {"choose"}),
    "falls off": ("if x > 0:\n    return x", {"choose"}),
    "expression": ("return x if x > 0 else n", {"choose"}),
    "or": ("return x > 0 or n > 2 or 'neither'", {"or_"}),
    "not": ("return not x", {"not_"}),
    "negative": ("return -x, ~n", set()),
    "comparison of three": ("return -1 < x < n", {"and_"}),
    "comparison of four": ("return -1 < x < n < 5", {"and_"}),
    "assert": ("assert x > 0, 'not positive'\nreturn x", {"holds"}),
    "raise": ("if x < 0:\n    raise ValueError('negative')\nreturn x", {"fails"}),
    "raise in else": ("if x >= 0:\n    y = x\nelse:\n    raise ValueError('negative')\nreturn y", {"if_"}),
    "return in a loop": ("for i in range(n):\n    if i == x: return i\nreturn -1", {"for_", "if_", "choose"}),
    "break in with": (
        "import contextlib\nfor i in range(n):\n    with contextlib.nullcontext():\n        if i == 2: break\nreturn i",
        {"left", "tested"},
    ),
    "try": ("try:\n    for i in range(n):\n        x = x / i\nexcept ZeroDivisionError:\n    return 'zero'\nreturn x", {"for_"}),
    "assignment expression": ("return (y := x) if x > 0 else n", set()),
    "function inside": ("def g(u):\n    for i in range(n):\n        u += i\n    return u\nreturn g(x)", {"for_", "call"}),
    "generator inside": ("def g():\n    for i in range(n):\n        yield i * x\nreturn list(g())", {"call"}),
    "lambda inside": ("g = lambda u: u if u > 0 else -u\nreturn g(x)", {"choose", "call"}),
    "nonlocal": ("def g():\n    nonlocal x\n    if x > 0:\n        x = x + n\ng()\nreturn x", {"if_", "call"}),
    "comprehension": ("return [i for i in range(n) if i > x]", {"call"}),
    "locals": ("y = x\nreturn sorted(locals())[-1]", {"call"}),
    "match": ("match n:\n    case 0: y = x\n    case _:\n        if x > 0: y = 1\n        else: y = 2\nreturn y", {"if_"}),
    "del": ("y = x\nif x > 0:\n    del y\nreturn y", {"tested"}),
    "empty bodies": ("for i in range(n): pass\nif x: pass\nreturn x", {"for_", "if_"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name):
    body, called = PROGRAMS[name]
    f = defined("def f(x, n):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    made, runtime = remade(f)
    seen = set()
    for x in (-2, 0, 1, 3):
        for n in (0, 1, 4):
            assert outcome(made, x, n) == outcome(f, x, n)
            seen |= set(runtime.calls)
    assert seen - {"call", "looped"} == called - {"call", "looped"}
    assert called <= seen


# -- sites -------------------------------------------------------------------------------------------------------------


def test_the_sets_of_a_loop():
    f = defined("""
def f(x, a, n):
    t = last = 0
    for i in range(n):
        u = x * i
        t = t + u
        last = u
        a[i] = t
    return x, last
""")
    (site,) = rewritten(f).sites
    assert (site.kind, site.target, site.stop, site.why_not) == ("for", "i", "", "")
    assert site.line.endswith(":4")
    assert site.assigned == {"i", "u", "t", "last"}
    assert site.state == {"t", "last"}
    assert site.after == {"last"}
    assert site.written == {"a"}


def test_the_sets_of_a_branch():
    (site,) = rewritten(defined("def f(x, a):\n    if x:\n        y = z = 1\n        a[0] = 2\n    return y\n")).sites
    assert (site.kind, site.assigned, site.state, site.written) == ("if", {"y", "z"}, {"y"}, {"a"})


def test_a_flag_is_part_of_the_state():
    sites = rewritten(defined("def f(x):\n    for i, j in x:\n        if i: break\n    return x\n")).sites
    loop = next(s for s in sites if s.kind == "for")
    assert loop.stop in loop.state
    assert loop.target == "k"  # it has no single variable


def test_why_a_loop_is_left():
    sites = rewritten(
        defined("def f(x):\n    for i in x:\n        del i\n    while x:\n        with x:\n            return 1\n")
    ).sites
    assert [(s.kind, s.why_not) for s in sites] == [("for", "it contains delete"), ("while", "a return in the middle")]


# -- functions ---------------------------------------------------------------------------------------------------------


def test_the_code_keeps_its_name_lines_and_parameters():
    head = "def f(x, /, y=2, *rest, z: int = 3, **more):"
    f = defined(f"\n\n{head}\n    if x:\n        y = 1\n    return x, y, rest, z, more\n")
    made, _ = remade(f)
    for fact in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_argcount", "co_kwonlyargcount"):
        assert getattr(made.__code__, fact) == getattr(f.__code__, fact), fact
    assert made(0) == f(0)
    assert made(1, 5, 6, z=7, w=8) == f(1, 5, 6, z=7, w=8)


def test_defaults_and_decorators_are_not_evaluated_again():
    count = []
    f = defined("@note\ndef f(x=make()):\n    if x: x = 1\n    return x\n", note=lambda f: count.append(1) or f, make=lambda: 7)
    made, _ = remade(f)
    assert made() == 1
    assert len(count) == 1


def test_free_variables_are_the_same_cells():
    outer = defined("""
def f():
    rate = 2
    def g(x):
        nonlocal rate
        if x: rate = rate + x
        return rate
    return g
""")
    g = outer()
    made, _ = remade(g)
    assert made(1) == 3
    assert g(0) == 3


def test_private_names_and_super():
    cls = defined(
        """
class A:
    def run(self, x): return x
class B(A):
    __rate = 3
    def run(self, x):
        if x > 0: x = super().run(x) * self.__rate
        return x
""",
        "B",
    )
    made, _ = remade(cls.run)
    assert [made(cls(), x) for x in (2, -1)] == [6, -1]


def test_a_lambda():
    f = defined("f = lambda x: x if x > 0 else -x\n")
    made, runtime = remade(f)
    assert [made(x) for x in (-2, 3)] == [2, 3]
    assert "choose" in runtime.calls


def test_a_traceback_has_the_lines_of_the_source():
    f = defined("def f(x):\n    for i in x:\n        y = i\n        y = 1 / y\n    return y\n")
    with pytest.raises(ZeroDivisionError) as caught:
        remade(f)[0]([0])
    assert caught.traceback[-1].lineno + 1 == 4


def test_code_is_rewritten_once():
    f = defined("def f(x):\n    return x if x else 1\n")
    assert rewritten(f) is rewritten(f)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("def f(x):\n    yield x\n", "it is a generator"),
        ("def f(x):\n    for i in x:\n        y = yield from i\n", "it is a generator"),
        ("async def f(x):\n    return x\n", "it is asynchronous"),
    ],
)
def test_what_is_refused(text, reason):
    f = defined(text)
    for _ in range(2):  # the second time from memory
        with pytest.raises(NoSourceError, match=reason):
            rewritten(f)


def test_a_source_that_was_changed():
    import linecache

    text = "def f(x):\n    for i in x:\n        x = x * 0.5\n    return x\n"
    f = defined(text)
    file = f.__code__.co_filename
    linecache.cache[file] = (len(text), None, text.replace("0.5", "0.25").splitlines(keepends=True), file)
    with pytest.raises(NoSourceError, match="has been changed since it was loaded"):
        rewritten(f)


def test_no_source():
    space: dict = {}
    exec("def f(x):\n    return x\n", space)
    with pytest.raises(NoSourceError, match="not available"):
        rewritten(space["f"])


def test_the_text_of_an_exec_is_not_that_of_another(monkeypatch):
    import linecache

    space: dict = {}
    exec("def f(x):\n    return x\n", space)
    text = "def f(x):\n    return 2 * x\n"  # as Python 3.13 keeps the program of "python -c"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, text.splitlines(keepends=True), "<string>"))
    with pytest.raises(NoSourceError, match="not available"):
        rewritten(space["f"])
