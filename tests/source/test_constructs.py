"""Every construct of the language in a function that is rewritten: its loops are staged rightly, or left with a note."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import warnings

import numpy as np
import pytest
from looped import defined

import adjoint as ad
from adjoint.compiler.jit import CompileWarning

#: By name: the program, and what its report says.
PROGRAMS = {
    "class inside": (
        """
def f(x, n):
    class Box:
        def __init__(self, v): self.v = v
        def twice(self): return self.v * 2
    s = 0.0
    for i in range(n):
        s += x * i
    return Box(s).twice()
""",
        "for became a while_loop",
    ),
    "class in loop": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        class Box:
            v = i
        s += x * Box.v
    return s
""",
        "for became a while_loop",
    ),
    "class with methods": (
        """
def f(x, n):
    class A:
        k = 2.0
        def g(self, y):
            t = y
            for i in range(n):
                t = t * 0.9 + self.k
            return t
        @staticmethod
        def h(y): return y * 3
        @classmethod
        def m(cls, y): return y * cls.k
        @property
        def p(self): return x
    a = A()
    return a.g(x) + A.h(x) + a.m(x) + a.p
""",
        "for became a while_loop",
    ),
    "super in class": (
        """
def f(x, n):
    class A:
        def g(self): return 1.0
    class B(A):
        def g(self): return super().g() + x
    s = 0.0
    for i in range(n):
        s += B().g() * i
    return s
""",
        "for became a while_loop",
    ),
    "dataclass inside": (
        """
def f(x, n):
    P = dataclasses.make_dataclass("P", ["a"])
    class Q:
        b: float = 2.0
    p = P(x)
    s = p.a
    for i in range(n):
        s = s * 0.5 + Q.b * x
    return s
""",
        "for became a while_loop",
    ),
    "decorator": (
        """
def twice(g):
    @functools.wraps(g)
    def w(*a, **k): return 2 * g(*a, **k)
    return w
@twice
def f(x, n):
    s = 0.0
    for i in range(n): s += x * i
    return s
""",
        "for became a while_loop",
    ),
    "nested functions": (
        """
def f(x, n):
    def outer(y):
        def inner(z):
            t = z
            for i in range(n):
                t = t * 0.5 + y
            return t
        return inner
    return outer(x)(2.0)
""",
        "for became a while_loop",
    ),
    "lambdas on one line": (
        """
a, f = (lambda x, n: x), (lambda x, n: functools.reduce(lambda s, i: s + x * i, range(n), 0.0))
""",
        "",
    ),
    "two lambdas": (
        """
def f(x, n):
    g, h = (lambda y: y * 2 if y > 0 else -y), (lambda y: y + 1)
    s = x
    for i in range(n): s = g(s) * 0.3 - h(s)
    return s
""",
        "for became a while_loop",
    ),
    "nonlocal": (
        """
def f(x, n):
    c = 0.0
    def inc(v):
        nonlocal c
        c += v
        return c
    for i in range(n):
        inc(x * i)
    return c
""",
        "for runs in Python: it changes c of inc",
    ),
    "match in loop": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        match i % 3:
            case 0: s += x
            case 1: s -= 2 * x
            case _: s *= 0.5
    return s
""",
        "for runs in Python",
    ),
    "walrus while": (
        """
def f(x, n):
    s = 0.0
    k = 0
    while (k := k + 1) < n:
        s += x * k
    return s
""",
        "while became a while_loop",
    ),
    "walrus if": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        if (y := x * i) > 1:
            s += y
    return s
""",
        "for became a while_loop",
    ),
    "comprehensions": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        s += sum([x * j for j in range(3) if j != 1]) + max(x * j for j in range(2)) + sum({j: x for j in range(2)}.values())
    return s
""",
        "for became a while_loop",
    ),
    "comprehension outside": (
        """
def f(x, n):
    ys = [x * i for i in range(n)]
    return sum(ys) + sum(y * y for y in ys)
""",
        "",
    ),
    "try in loop": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        try:
            s += x / i
        except ZeroDivisionError:
            s += 1.0
        finally:
            s *= 0.9
    return s
""",
        None,
    ),
    "loop in try": (
        """
def f(x, n):
    s = 0.0
    try:
        for i in range(n):
            s += x * i
    finally:
        s = s * 2
    return s
""",
        "for became a while_loop",
    ),
    "with": (
        """
def f(x, n):
    s = 0.0
    with np.errstate(all="ignore"):
        for i in range(n):
            with contextlib.nullcontext(i) as j:
                s += x * j
    return s
""",
        "for became a while_loop",
    ),
    "for else": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        s += x
        if s > 4: break
    else:
        s = -s
    return s
""",
        "with break",
    ),
    "while else": (
        """
def f(x, n):
    s, k = 0.0, 0
    while k < n:
        s += x
        k += 1
        if s > 4: break
        if k % 2: continue
        s *= 0.9
    else:
        s = -s
    return s
""",
        "while became a while_loop",
    ),
    "return in the middle": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        s += x
        if s > 4: return s * 2
    return s
""",
        "for became a while_loop that counts, with break",
    ),
    "return from an endless loop": (
        """
def f(x, n):
    k = 0
    while True:
        new = 0.5 * (x + 2.0 / x)
        k += 1
        if abs(new - x) < 1e-9 or k > n:
            return new, k
        x = new
""",
        "while became a while_loop",
    ),
    "return or raise": (
        """
def f(x, n):
    for i in range(n + 20):
        x = x + 0.5
        if x > 3:
            return x * 2
    raise ArithmeticError("no convergence")
""",
        "for became a while_loop that counts, with break",
    ),
    "return from a nest": (
        """
def f(x, n):
    for i in range(n):
        for j in range(n):
            x = x + 0.1 * j
            if x > 3:
                return x * i
        x = x * 0.9
    else:
        x = -x
    return x
""",
        "for became a while_loop that counts, with break",
    ),
    "return of nothing or something": (
        """
def f(x, n):
    for i in range(n):
        if x > 100:
            return
        x = x + 0.5
    return x
""",
        "if is a guard: it gives None in one branch",
    ),
    "return in a with": (
        """
def f(x, n):
    for i in range(n):
        with contextlib.nullcontext():
            if x > 100:
                return x
        x = x + 0.5
    return x
""",
        "a return in the middle",
    ),
    "walrus while with else and break": (
        """
def f(x, n):
    k = 0
    while (k := k + 1) < n:
        x = x * 0.9
        if x < 0.01:
            break
    else:
        x = -x
    return x
""",
        "its condition assigns a variable",
    ),
    "a long chain of comparisons": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        if 0 < x * i < 2 <= i + 2 < 1000:
            s += x
    return s
""",
        "for became a while_loop",
    ),
    "a count in a branch": (
        """
def f(x, n):
    s, hits = 0.0, 0
    for i in range(n):
        if x * i > 2:
            hits += 1
            s += x
    return s / (1 + hits)
""",
        "for became a while_loop",
    ),
    "early returns": (
        """
def f(x, n):
    if x > 0.6:
        return x * 3
    s = 0.0
    for i in range(n):
        s += x
    if s > 3:
        return s
    return -s
""",
        "if became a cond",
    ),
    "generator": (
        """
def f(x, n):
    def gen():
        for i in range(n): yield x * i
    s = 0.0
    for v in gen(): s += v
    return s
""",
        "it runs over a generator",
    ),
    "tuple targets": (
        """
def f(x, n):
    a, (b, c), d = x, (1.0, 2.0), [0.0, x]
    for i in range(n):
        a, (b, c) = b, (c, a * 0.5 + 0.1)
        (d[0], d[1]) = d[1], d[0] + 1
    return a + b + c + d[0] - d[1]
""",
        "for became a while_loop",
    ),
    "starred targets": (
        """
def f(x, n):
    for a, (b, *c) in zip(range(n), [(x, 1.0, 2.0)] * n):
        x = x + a * b + c[0]
    return x
""",
        "more than variables in its first line",
    ),
    "augmented items": (
        """
def f(x, n):
    a = np.zeros(n) + x
    for i in range(n - 1):
        a[i + 1] += a[i] * 0.5
        a[i] *= x
        a[-1] -= 0.1
    return a.sum()
""",
        "for became a while_loop",
    ),
    "augmented attributes": (
        """
class O: pass
def f(x, n):
    o = O()
    o.v, o.w = x, 0.0
    for i in range(n):
        o.v *= 0.9
        o.w += o.v
    return o.w
""",
        "for became a while_loop",
    ),
    "a test of a float and an integer": (
        """
def f(x, n):
    t = 0.0
    while t < n:
        x = 0.9 * x + 0.1
        t = t + (x if x > 0.5 else 1.0)
    return t * x
""",
        "while became a while_loop",
    ),
    "a test that divides": (
        """
def f(x, n):
    k = 1
    while n / k > 0.5 and x / k > 1e-3:
        x = x * 0.9
        k += 1
    return x * k
""",
        "while became a while_loop",
    ),
    "attributes in slots, by a method": (
        """
class O:
    __slots__ = ("a", "b")
    def __init__(self, a):
        self.a, self.b = a, 0.0
    def step(self):
        self.b = 0.9 * self.b + self.a
        self.a *= 0.99
def f(x, n):
    o = O(x)
    for i in range(n):
        o.step()
    return o.b
""",
        "for became a while_loop",
    ),
    "attributes by a property": (
        """
class O:
    def __init__(self, y):
        self._y, self.count = y, 0
    @property
    def y(self):
        return self._y
    @y.setter
    def y(self, value):
        self._y, self.count = 0.5 * value, self.count + 1
def f(x, n):
    o = O(x)
    for i in range(n):
        o.y = o.y + 1.0
    return o.y + o.count
""",
        "for became a while_loop",
    ),
    "attributes in branches": (
        """
class O:
    def __init__(self, x):
        self.x, self.v = x, 0.0
def f(x, n):
    o = O(x)
    while o.v < n:
        o.x = 0.9 * o.x + 0.1
        if o.x > 0.5:
            o.v = o.v + o.x
        else:
            o.v = o.v + 1.0
    return o.v * o.x
""",
        "while became a while_loop",
    ),
    "attributes of an object with two names": (
        """
class O: pass
def f(x, n):
    o = p = O()
    o.v, o.w = x, 0.0
    for i in range(n):
        o.w = o.w + p.v
        p.v = p.v * 0.9
    return p.w
""",
        "for became a while_loop",
    ),
    "attributes of objects in a list": (
        """
class O:
    def __init__(self, x):
        self.x = x
def f(x, n):
    parts = [O(x), O(2 * x)]
    s = 0.0
    for i in range(n):
        for p in parts:
            p.x = 0.9 * p.x
        s = s + parts[0].x * parts[1].x
    return s
""",
        "for became a while_loop",
    ),
    "attributes that are arrays, written to": (
        """
class O: pass
def f(x, n):
    o = O()
    o.a = np.array([x, 2 * x, 1.0])
    for i in range(n):
        o.a[0] = o.a[1] * 0.5
        o.a *= 0.9
        o.a = o.a[::-1] + 0.1
    return np.sum(o.a)
""",
        None,
    ),
    "arrays that are two attributes, written to": (
        """
class O: pass
def f(x, n):
    o = O()
    o.a = o.b = np.array([x, 2 * x, 1.0])
    for i in range(n):
        o.a[0] = o.a[1] * 0.5 + o.a[0]
    return np.sum(o.b)
""",
        "for runs in Python",
    ),
    "attributes that are made in the loop": (
        """
class O: pass
def f(x, n):
    o = O()
    o.v = x
    for i in range(n):
        o.v = o.v * 0.9
        o.w = o.v
    return o.v
""",
        "it changes o",
    ),
    "attributes of a class": (
        """
class O:
    count = 0.0
def f(x, n):
    O.count = 0.0
    for i in range(n):
        O.count = O.count + x
    return O.count
""",
        None,
    ),
    "dict items": (
        """
def f(x, n):
    d = {"a": x, "b": 1.0}
    for i in range(n):
        d["a"] += d["b"] * 0.1
        d["b"] *= 0.5
    s = 0.0
    for k, v in d.items(): s += v
    for k in d: s += d[k]
    return s
""",
        "it runs over a dict_items",
    ),
    "enumerate zip reversed": (
        """
def f(x, n):
    s = 0.0
    a = np.arange(n) * x
    for i, v in enumerate(a): s += i * v
    for i, v in enumerate(a, 3): s += i * v
    for u, v in zip(a, a[::-1]): s = 0.9 * s + u * v
    for v in reversed(a): s = 0.9 * s + v
    for i in reversed(range(n)): s = 0.9 * s + i
    for i, (u, v) in enumerate(zip(a, reversed(a))): s = 0.9 * s + i * u - v
    for i in range(n, 0, -2): s = 0.9 * s + i
    for i in range(2, 2 + n, 3): s = 0.9 * s + i
    return s
""",
        "for became a scan",
    ),
    "nested with jumps": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        for j in range(i):
            if j == 2: continue
            if j > 5: break
            s += x * i * j
    return s, i
""",
        "with break",
    ),
    "del": (
        """
def f(x, n):
    for i in range(n):
        x = x * 0.9
    del i
    y = x
    del x
    return y
""",
        "for became a while_loop",
    ),
    "while True": (
        """
def f(x, n):
    s = 0.0
    i = 0
    while True:
        s += x * i
        i += 1
        if i >= n: break
    return s
""",
        "while became a while_loop",
    ),
    "append": (
        """
def f(x, n):
    s = []
    for i in range(n):
        s.append(x * i)
    return sum(s)
""",
        "it changes s",
    ),
    "conditional expressions": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        t = i if i < 3 else x
        s = s + t if not (1 < i < 5) else s - t
        s = (s or 1.0) and s + 1
        assert s == s, "nan"
        if s > 1e9: raise ValueError("large")
    return s
""",
        "for became a while_loop",
    ),
    "annotations": (
        """
def f(x, n):
    print_ = []
    s = x
    for i in range(n):
        s: float = s * 0.5 + 1
        t: int
    return s
""",
        "for became a while_loop",
    ),
    "signature": (
        """
def f(x, n, *args, k=2.0, **kw):
    s = x
    for i in range(n): s = s * 0.5 + k
    return s
""",
        "for became a while_loop",
    ),
    "global": (
        """
def f(x, n):
    global G
    G = 1.0
    s = x
    for i in range(n): s = s * 0.5 + G
    return s
""",
        None,
    ),
    "recursion": (
        """
def f(x, n):
    def fib(k): return x if k < 2 else fib(k - 1) + fib(k - 2)
    return fib(min(n, 8))
""",
        "by recursion",
    ),
    "imports": (
        """
def f(x, n):
    import math as m
    from math import sqrt
    s = 0.0
    for i in range(n):
        import math
        s += x * m.sqrt(i) + math.sin(i)
    return s
""",
        "for runs in Python",
    ),
    "matmul": (
        """
def f(x, n):
    A = np.eye(2) * 0.9
    v = np.array([1.0, 2.0]) * x
    for i in range(n):
        v = A @ v
        v **= 1
        v //= 1e-9
        v *= 1e-9
    return v.sum()
""",
        "for became a while_loop",
    ),
    "rows written through views": (
        """
def f(x, n):
    a = np.zeros((n, n)) + x
    for i, row in enumerate(a):
        row[0] = i * x
        row *= 2
        for j in range(i):
            a[i, j] += a[j, i]
    return a.sum()
""",
        "for ",
    ),
    "loop variable assigned": (
        """
def f(x, n):
    k = 0
    s = x
    for k in range(n):
        s = s * 0.9 + k
        k = k + 1
    return s + k
""",
        "for became a while_loop",
    ),
    "late binding": (
        """
def f(x, n):
    fs = []
    for i in range(3):
        fs.append(lambda y: y * i)
    return sum(g(x) for g in fs) + n
""",
        "",
    ),
    "loop over functions": (
        """
def f(x, n):
    s = 0.0
    fs = [lambda y, i=i: y * i for i in range(n)]
    for g in fs: s += g(x)
    return s
""",
        "it runs over a list",
    ),
    "def in loop": (
        """
def f(x, n):
    s = 0.0
    for i in range(n):
        def sq(v): return v * v + i
        s += sq(x)
    return s
""",
        "for became a while_loop",
    ),
    "iterator": (
        """
def f(x, n):
    it = iter(range(n))
    s = 0.0
    for i in it:
        s += x * i + next(it, 0)
    return s
""",
        "it runs over a range_iterator",
    ),
    "other iterables": (
        """
def f(x, n):
    s = 0.0
    for c in "abc" * n: s += x * ord(c) * 1e-3
    for t in {1, 2, 3}: s += t
    for v in [x, 2.0, 3]: s += v
    for k in map(lambda q: q * x, range(n)): s += k
    return s
""",
        "it runs over a map",
    ),
    "rows that are written to": (
        """
def f(x, n):
    a = np.zeros((12, 3)) + x
    for i, row in enumerate(a):
        row[0] = i * x; row *= 2
    return a.sum()
""",
        "it writes to the array that it runs over",
    ),
    "an array that is written to ahead": (
        """
def f(x, n):
    a = np.ones(12) * x
    for i, v in enumerate(a):
        if i < 11: a[i + 1] += v * 0.5
    return a.sum()
""",
        "for became a scan",
    ),
    "an array with a second name": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    b = a
    for row in a:
        b[:, 0] += row[1] * 0.1
    return b.sum()
""",
        "for became a scan",
    ),
    "reversed rows": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    for row in reversed(a):
        a[0] += row * 0.5
    return a.sum()
""",
        "runs over the same array or a part of it",
    ),
    "an array that is assigned": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    for row in a:
        a = a * 0.9 + row
    return a.sum()
""",
        "for became a scan",
    ),
    "rows of a part": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    for row in a[1:]:
        a[0] += row * 0.5; row += 1.0
    return a.sum()
""",
        "it writes to the array that it runs over",
    ),
    "rows and break": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    s = 0.0
    for row in a:
        row[0] = s; s += row[1]
        if s > 3: break
    return a.sum() + s
""",
        "it changes the array that it runs over",
    ),
    "rows of a temporary array": (
        """
def f(x, n):
    s = 0.0
    for row in np.ones((12, 2)) * x:
        row[0] += s; s += row[0]
        if s > 30: break
    return s
""",
        "it changes the array that it runs over",
    ),
    "rows that a function writes to": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    def w(r): r[1] = r[0] * 3
    for row in a: w(row)
    return a.sum()
""",
        "it writes to the array",
    ),
    "rows of two arrays": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x; b = np.zeros((12, 2))
    for r, q in zip(a, b):
        q[:] = r * 2
        r[0] += q[1]
    return (a * b).sum()
""",
        "it writes to the array",
    ),
    "rows and a count": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    for i, row in zip(range(n), a):
        row *= i
        a[0, 0] += row[1]
    return a.sum()
""",
        "for became a while_loop",
    ),
    "rows of rows": (
        """
def f(x, n):
    a = np.ones((12, 4, 2)) * x
    for m in a:
        for r in m:
            r[0] *= 2
            m[0] += r
    return a.sum()
""",
        "it writes to the array",
    ),
    "rows of an array in a list": (
        """
def f(x, n):
    a = [np.ones((12, 2)) * x, np.zeros(2)]
    for r in a[0]:
        r[1] = 5.0 * x
        a[1] += r
        a[1][0] *= 0.5
    return a[0].sum() + a[1].sum()
""",
        "it writes to the array",
    ),
    "rows and a transposed view": (
        """
def f(x, n):
    a = np.ones((12, 2)) * x
    t = a.T
    for r in t:
        pass
    for r in a:
        t[0] += r[1]
    return a.sum()
""",
        "a view of another array",
    ),
    "rows of zeros": (
        """
def f(x, n):
    a = np.zeros((12, 2))
    for i, r in enumerate(a):
        r[0] = i * x
    for r in a: a[3] = r + 1
    return a.sum()
""",
        "it writes to the array",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_construct(name):
    text, expected = PROGRAMS[name]
    modules = {m.__name__: m for m in (collections, contextlib, dataclasses, functools, math)}
    f = defined(text, **modules)
    total = lambda *args: sum(r) if isinstance(r := f(*args), tuple) else r
    value, slope = ad.jit(f, source=True), ad.jit(ad.grad(total), source=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for call in ((0.5, 3), (0.5, 12), (0.7, 12)):
            np.testing.assert_allclose(value(*call), f(*call), rtol=1e-12, err_msg=value.report())
            np.testing.assert_allclose(slope(*call), ad.grad(total)(*call), rtol=1e-11, err_msg=slope.report())
    assert expected is None or expected in value.report()
