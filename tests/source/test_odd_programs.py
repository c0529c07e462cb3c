"""Programs that are easily staged wrongly: names that share an array, functions that assign, variables that change their kind."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from looped import defined

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.tree import flatten

#: By name: the program, its calls, and what its report says.
PROGRAMS = {
    "two names that are swapped": (
        """
def f(x, y, n):
    for i in range(n):
        x, y = y, x + 0.1 * y
    return x, y
""",
        [(1.0, 2.0, 9), (1.0, 2.0, 12)],
        "for became a while_loop",
    ),
    "two arrays that are swapped and written to": (
        """
def f(x, n):
    a, b = np.zeros(3), np.ones(3) * x
    for i in range(n):
        a, b = b, a
        a[0] += 1.0
    return a, b
""",
        [(1.0, 9), (1.0, 10)],
        "for ",
    ),
    "an array that gets a second name in the loop": (
        """
def f(x, n):
    a = np.zeros(3)
    b = a + x
    for i in range(n):
        b = a
        b[0] += x
    return a, b
""",
        [(1.0, 9), (1.0, 10)],
        "for ",
    ),
    "a function that assigns a variable of the function around it": (
        """
def f(x, n):
    def shrink():
        nonlocal x
        x = x * 0.9
    for i in range(n):
        shrink()
    return x
""",
        [(1.0, 9), (1.0, 10)],
        "it changes x of shrink",
    ),
    "such a function, and a loop that reads the variable": (
        """
def f(x, n):
    y = 0.0
    def more():
        nonlocal y
        y = y + x
        return y
    for i in range(n):
        x = x + 0.1 * more() + y
    return x + y
""",
        [(1.0, 9), (-1.0, 10)],
        "for became a while_loop",
    ),
    "such a function in a branch": (
        """
def f(x):
    y = 0.0
    def more():
        nonlocal y
        y = y + 1
    if x > 0:
        more()
    return x + y
""",
        [(1.0,), (-2.0,)],
        "if is a guard: it changes y of more",
    ),
    "a function that is made in the loop": (
        """
def f(x, n):
    for i in range(n):
        def g(u):
            return u * i
        x = x + 0.1 * g(x)
    return x
""",
        [(1.0, 9), (0.5, 12)],
        "for became a while_loop",
    ),
    "a variable that is a string": (
        """
def f(x, n):
    mode = "up"
    for i in range(n):
        if mode == "up":
            mode, x = "down", x + 1
        else:
            mode, x = "up", x * 0.5
    return x
""",
        [(1.0, 9), (1.0, 12)],
        "which are not numbers",
    ),
    "a variable that is None at first": (
        """
def f(x):
    best = None
    for i in range(12):
        v = np.sin(x * i)
        if best is None or v > best:
            best = v
    return best
""",
        [(1.0,), (2.0,)],
        "for became a scan of 11 iterations, after 1 that run",
    ),
    "a variable that keeps its first value without iterations": (
        """
def f(x, n):
    y = 5
    for i in range(n):
        y = x * i
    return y
""",
        [(1.0, 0), (1.0, 3)],
        "for became a while_loop",
    ),
    "integers, odd and even": (
        """
def f(n):
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count
""",
        [(27,), (6,), (1,)],
        "while became a while_loop",
    ),
    "an error that is caught outside": (
        """
def f(x, n):
    try:
        for i in range(n):
            x = x / (5 - i)
    except ZeroDivisionError:
        return -1.0
    return x
""",
        [(1.0, 4), (1.0, 9), (1.0, 5)],
        "for became a while_loop",
    ),
    "an array that is written to in one branch and assigned in the other": (
        """
def f(x, n):
    a = np.zeros(4)
    for i in range(n):
        if x > 0.5:
            a[i % 4] = x
            x = x * 0.9
        else:
            a = a + x
            x = x + 0.3
    return a, x
""",
        [(1.0, 9), (0.1, 20)],
        "for became a while_loop",
    ),
    "a result of the last iteration": (
        """
def f(x, tol):
    count = 0
    while True:
        count += 1
        new = 0.5 * (x + 2.0 / x)
        if abs(new - x) < tol or count > 50:
            break
        x = new
    return new, count
""",
        [(1.0, 1e-9), (30.0, 1e-3)],
        "while became a while_loop",
    ),
    "a condition with nan": (
        """
def f(x):
    while x == x and x < 1e3:
        x = x * 2 + 1
    return x
""",
        [(1.0,), (float("nan"),), (5e3,)],
        "while became a while_loop",
    ),
    "bounds that depend on the loop around": (
        """
def f(x, n):
    for i in range(n):
        for j in range(i):
            for k in range(9):
                x = x + 0.001 * np.sin(x * k * j)
    return x
""",
        [(1.0, 9), (0.1, 12)],
        "for became a scan of 9 iterations",
    ),
    "an array of NumPy in a list, written to by a function": (
        """
def bump(a):
    a[0] += 1
def f(x):
    a = onp.zeros(3)
    held = [a]
    for i in range(9):
        bump(held[0])
        x = x * 0.5
    return x + a[0]
""",
        [(1.0,), (2.0,)],
        "for runs in Python: it changes held[0]",
    ),
    "an assignment in the condition": (
        """
def f(x):
    k = 0
    while (k := k + 1) < 20:
        x = x * 0.9
    return x
""",
        [(1.0,)],
        "while became a while_loop",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_odd_program(name):
    text, calls, expected = PROGRAMS[name]
    f = defined(text, onp=np)
    value = ad.jit(f, source=True)
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            found = flatten(value(*call))[0]
        for mine, theirs in zip(found, flatten(f(*call))[0], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=value.report())
    assert expected in value.report()
