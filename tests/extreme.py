"""Random compositions of exp, log, sqrt, powers, division and where over the whole range of doubles, against mpmath.

`check(seed)` differentiates one program at one point in several ways. A derivative is infinite or nan, or it is as near to the
true one as docs/adr/0001-the-zero-of-a-mask-wins.md promises: every number on the way has the error of rounding and of underflow,
and the derivative that which these make of it.
"""

import math
import random
import sys
from collections import Counter

import mpmath as mp
import numpy as np

import adjoint as ad

NAMES = ("exp", "log", "sqrt", "log1p", "expm1", "cosh", "cos", "arctan")
NUMPY = {name: getattr(np, name) for name in NAMES} | {
    "1/": lambda x: 1 / x,
    "-": lambda x: -x,
    "square": lambda x: x**2,
    "1 + ": lambda x: 1 + x,
    "-1 + ": lambda x: x - 1,
    "half ": lambda x: 0.5 * x,
    "power 1.5 ": lambda x: x**1.5,
    "power -0.5 ": lambda x: x**-0.5,
}
BINARY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}
POINTS = [0.0, 1.0, -1.0, 1e-30, 1e30, -1e30, 1000.0, -1000.0, 800.0, 1e-20, 1e20, 30.0, -40.0, 50.0, 1e8, 1e-8, 0.7, -0.7]
POINTS += [1e300, -1e300, 1e-300, 1e200, -1e160, 1e-200, 5e-324, -1e-310, 1.7e308, 1e103, 1e-103, 1.4e154, -1.2e-154]


class UnknownError(Exception):
    """There is no derivative, the point is at the edge of a domain, or it is not known to mpmath."""


def slopes(name, x):
    """The value of a unary function, and its first two derivatives, in mpmath."""
    if name in ("exp", "expm1", "cosh", "cos") and mp.mag(x) > 2000:
        raise UnknownError
    if (
        (x <= 0 and name in ("log", "sqrt", "power 1.5 ", "power -0.5 "))
        or (x <= -1 and name == "log1p")
        or (x == 0 and name == "1/")
    ):
        raise UnknownError
    match name:
        case "exp":
            return (mp.exp(x),) * 3
        case "log":
            return mp.log(x), 1 / x, -1 / x**2
        case "sqrt":
            return mp.sqrt(x), 1 / (2 * mp.sqrt(x)), -1 / (4 * x * mp.sqrt(x))
        case "log1p":
            return mp.log(1 + x), 1 / (1 + x), -1 / (1 + x) ** 2
        case "expm1":
            return mp.expm1(x), mp.exp(x), mp.exp(x)
        case "cosh":
            return mp.cosh(x), mp.sinh(x), mp.cosh(x)
        case "cos":
            return mp.cos(x), -mp.sin(x), -mp.cos(x)
        case "arctan":
            return mp.atan(x), 1 / (1 + x**2), -2 * x / (1 + x**2) ** 2
        case "1/":
            return 1 / x, -1 / x**2, 2 / x**3
        case "-":
            return -x, mp.mpf(-1), mp.mpf(0)
        case "square":
            return x**2, 2 * x, mp.mpf(2)
        case "1 + ":
            return 1 + x, mp.mpf(1), mp.mpf(0)
        case "-1 + ":
            return x - 1, mp.mpf(1), mp.mpf(0)
        case "half ":
            return x / 2, mp.mpf(0.5), mp.mpf(0)
        case "power 1.5 ":
            return x * mp.sqrt(x), 1.5 * mp.sqrt(x), 0.75 / mp.sqrt(x)
        case _:
            return 1 / mp.sqrt(x), -0.5 / (x * mp.sqrt(x)), 0.75 / (x**2 * mp.sqrt(x))


def step(name, parts):
    """Value, first and second derivative of a function of numbers that have them; and the sums of the sizes of their terms."""
    sizes = [[abs(p) for p in part] for part in parts]
    if name in ("+", "-") and len(parts) == 2:
        a, b = parts
        sign = 1 if name == "+" else -1
        return [p + sign * q for p, q in zip(a, b, strict=True)], [p + q for p, q in zip(*sizes, strict=True)]
    if name in ("*", "/"):
        a, b, of_a, of_b = *parts, *sizes
        if name == "/":
            b, of_b = step("1/", [b])
        return _product(a, b), _product(of_a, [abs(b[0]), *of_b[1:]])
    known = slopes(name, parts[0][0])
    return _composed(known, parts[0]), _composed([abs(s) for s in known], sizes[0])


def slopes_of_partials(name, parts):
    """The sizes of the derivatives of the partials of a function, along x: of 1/b and −(a/b)/b, for a quotient."""
    sizes = [[abs(p) for p in part] for part in parts]
    if name in ("+", "-") and len(parts) == 2:
        return mp.mpf(0)
    if name == "*":
        return sizes[0][1] + sizes[1][1]
    if name == "/":
        a, b = sizes
        return b[1] / b[0] ** 2 + a[1] / b[0] ** 2 + 2 * a[0] * b[1] / b[0] ** 3
    return abs(slopes(name, parts[0][0])[2]) * sizes[0][1]


def _product(a, b):
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[0] * b[2] + 2 * a[1] * b[1] + a[2] * b[0]


def _composed(known, a):
    f, s, t = known
    return f, s * a[1], s * a[2] + t * a[1] ** 2


#: What is promised of each number on the way. Relative: a few roundings. Absolute: a unit of the subnormal numbers for a value,
#: cotangent or tangent; the smallest normal number for a partial, which may be the reciprocal of an overflow, as 1/(1 + x²) is,
#: and in compiled code, where exp has no subnormal results. No absolute error is allowed in what is computed from an overflow.
ROUNDING, SUBNORMAL, NORMAL, LARGEST = 2e-15, 1e-323, 2.3e-308, sys.float_info.max


class Exact:
    """The value and two derivatives of a program, in mpmath; one number of one step may be changed by part of its error.

    steps      value and derivatives of each step
    errors     what is promised of them
    partials   the derivatives of its partials, as sums of sizes
    """

    def __init__(self, tree, x, underflow=SUBNORMAL, changed=(-1, 0, 0)):
        self.x, self.underflow, self.changed = x, mp.mpf(underflow), changed
        self.steps, self.errors, self.partials = [], [], []
        self.result = self.at(tree)

    def at(self, tree):
        head, *rest = tree
        if head == "x":
            return self.note((mp.mpf(self.x), mp.mpf(1), mp.mpf(0)), (0, ROUNDING, 0), 0)  # the cotangent that arrives here
        if head == "where":
            return self.at(rest[1] if self.x > rest[0] else rest[2])
        parts = [self.at(part) for part in rest]
        y, terms = step(head, parts)
        # A partial underflows, or a number that it is computed from, and is multiplied by derivatives of the arguments; that of a
        # partial by the argument as well, as −1/(1 + x²)² is by 2x in the second derivative of arctan.
        size, u, v = (sum(abs(a[k]) for a in parts) for k in (0, 1, 2))
        absolute = self.underflow, self.underflow + NORMAL * u, NORMAL * (1 + u + v + u**2) * (1 + size)
        if any(abs(a[0]) > LARGEST for a in parts):
            absolute = (0, 0, 0)
        return self.note(y, [ROUNDING * p + e for p, e in zip(terms, absolute, strict=True)], slopes_of_partials(head, parts))

    def note(self, y, errors, partials):
        number, k, part = self.changed
        if number == len(self.steps):
            y = (*y[:k], y[k] + part * errors[k], *y[k + 1 :])
        self.steps.append(y)
        self.errors.append(errors)
        self.partials.append(partials)
        return y


def promised(tree, x, order, underflow, parts, is_joined):
    """The error of a derivative, if each number on the way has these parts of what is promised of it, one number at a time.

    In reverse over reverse mode (`is_joined`) a partial has a cotangent, too: the product of those of both passes, which
    underflows where neither does.
    """
    exact = Exact(tree, x, underflow)
    total = mp.mpf(0)
    for number, y in enumerate(exact.steps):
        # Of a cotangent that underflows, by which the derivatives of this step are multiplied.
        if abs(y[0]) <= LARGEST:
            total += exact.underflow * (abs(y[1]) if order == 1 else abs(y[1]) + abs(y[2]) + y[1] ** 2)
            total += exact.underflow * exact.partials[number] * is_joined
        for k in range(order + 1):
            if exact.errors[number][k]:
                changes = (Exact(tree, x, underflow, (number, k, part)).result[order] - exact.result[order] for part in parts)
                total += max(abs(change / part) for change, part in zip(changes, parts, strict=True))
    return total


SMALL = mp.mpf(2) ** -100  # of an error: its effect is linear


def verdict(found, tree, x, order, underflow=SUBNORMAL, is_joined=False):
    """Whether a derivative is right, as near as promised, wrong, or unknown."""
    if not math.isfinite(found):
        return "not finite"
    for digits in (60, 1000):  # the more for what looks wrong
        with mp.workdps(digits):
            try:
                expected = Exact(tree, x).result[order]
                error = abs(mp.mpf(found) - expected)
                if error <= 1e-12 * abs(expected):
                    return "right"
                if any(error <= promised(tree, x, order, underflow, parts, is_joined) for parts in ([SMALL], [SMALL, 1, -1])):
                    return "as near as promised"
            except UnknownError:
                return "unknown"
    return "wrong"


def draw(rng, depth):
    """A random expression."""
    kind = rng.random()
    if depth == 0:
        return ("x",)
    if kind < 0.7:
        return (rng.choice(list(NUMPY)), draw(rng, depth - 1))
    if kind < 0.92:
        return (rng.choice(list(BINARY)), draw(rng, depth - 1), draw(rng, rng.randint(0, depth - 1)))
    return ("where", rng.choice([0.0, 1.0, -1.0, 50.0]), draw(rng, depth - 1), draw(rng, rng.randint(0, depth - 1)))


def draw_point(rng):
    return rng.choice(POINTS) if rng.random() < 0.6 else rng.choice([1, -1]) * 10.0 ** rng.uniform(-320, 308)


def evaluate(tree, x):
    head, *rest = tree
    if head == "x":
        return x
    if head == "where":
        return np.where(x > rest[0], evaluate(rest[1], x), evaluate(rest[2], x))
    parts = [evaluate(part, x) for part in rest]
    return NUMPY[head](parts[0]) if len(parts) == 1 else BINARY[head](parts[0], parts[1])


FORMS = {
    "reverse": (1, lambda f, x: ad.grad(f)(x)),
    "forward": (1, lambda f, x: ad.jvp(f, (x,), (1.0,))[1]),
    "reverse over reverse": (2, lambda f, x: ad.grad(ad.grad(f))(x)),
    "forward over reverse": (2, lambda f, x: ad.hvp(f)(x, 1.0)),
    "array": (1, lambda f, x: ad.elementwise_grad(f)(np.array([0.3, x]))[1]),
    "batched": (1, lambda f, x: ad.vmap(ad.grad(f))(np.array([0.3, x]))[1]),
}
COMPILED = {
    "compiled reverse": (1, lambda f, x: ad.jit(ad.grad(f))(x)),
    "compiled forward": (1, lambda f, x: ad.jit(ad.derivative(f))(x)),
    "compiled reverse over reverse": (2, lambda f, x: ad.jit(ad.grad(ad.grad(f)))(x)),
    "compiled pullback": (1, lambda f, x: ad.jit(lambda x, g: ad.vjp(f, x)[1](g)[0])(x, 1.0)),
}


COUNTS = Counter()
SHARE = 20  # one program in so many is compiled


def check(seed):
    """Raise if a derivative of one random program is wrong; count what is said of each."""
    rng = random.Random(seed)
    tree, x = draw(rng, rng.randint(1, 4)), draw_point(rng)
    x = rng.choice([float, np.float64])(x)
    f = lambda x: evaluate(tree, x)
    try:
        with np.errstate(all="ignore"):
            f(x)
    except (ZeroDivisionError, OverflowError):  # of Python's numbers
        x = np.float64(x)
    is_compiled = seed % SHARE == 0
    forms = COMPILED if is_compiled else FORMS
    wrong = []
    with np.errstate(all="ignore"):
        for name in rng.sample(list(forms), 3):
            order, run = forms[name]
            found = float(run(f, x))
            said = verdict(found, tree, float(x), order, NORMAL if is_compiled else SUBNORMAL, "reverse over reverse" in name)
            COUNTS[said] += 1
            if said == "wrong":
                wrong.append((name, found))
    assert not wrong, (tree, x, wrong)


# -- masks in programs of arrays ----------------------------------------------------------------------------------

SIZE = 3
WEIGHTS = np.array([[1.0, 0.0, 2.0], [0.0, 0.5, 0.0], [3.0, -1.0, 1.0]])


def _exactly(name):
    """A function of arrays of numbers of mpmath, for real arguments and results."""

    def f(x):
        if name in ("exp", "cos") and mp.mag(x) > 2000:
            raise UnknownError
        if (x < 0 and name == "sqrt") or (x <= 0 and name == "log"):
            raise UnknownError
        return mp.sign(x) * mp.cbrt(abs(x)) if name == "cbrt" else getattr(mp, name)(x)

    return np.frompyfunc(f, 1, 1)


EXACT = {name: _exactly(name) for name in ("sqrt", "log", "cbrt", "cos", "exp")}


def of(name, v):
    """A function of NumPy's; of mpmath's for its numbers."""
    return EXACT[name](v) if v.dtype == object else getattr(np, name)(v)


SINGULAR = {
    "sqrt": lambda v: of("sqrt", v),
    "square": lambda v: v**2,
    "log": lambda v: of("log", v),
    "cube root": lambda v: of("cbrt", v),
    "1/": lambda v: 1 / v,
    "product": lambda v: v * v[::-1],
    "cos - 1": lambda v: of("cos", v) - 1,
    "abs": np.abs,
    "exp": lambda v: of("exp", -1 / v**2),
    "softplus": lambda v: of("log", 1 + of("exp", v)),
    "fourth power": lambda v: v * v * v * v,
    "power 1.5": lambda v: of("sqrt", v) * v,
    "tail": lambda v: of("exp", -of("exp", v)),
}
MASKING = {
    "where": lambda v, x, w: np.where(x > 0.5, v, 0.0),
    "where not": lambda v, x, w: np.where(x > 0.5, 2.0, v),
    "maximum": lambda v, x, w: np.maximum(v, 0.3),
    "maximum of a root": lambda v, x, w: np.maximum(of("sqrt", v - 1), 0.3),
    "minimum by a factor": lambda v, x, w: v * np.minimum(of("log", v), w[0]),
    "clip": lambda v, x, w: np.clip(v * v[::-1], -2.0, v),
    "mask": lambda v, x, w: v * np.array([1.0, 0.0, 1.0]),
    "mask by hand": lambda v, x, w: v * (x > 0.5),
    "constant matrix": lambda v, x, w: WEIGHTS @ v,
    "matrix": lambda v, x, w: w @ v,
    "rows": lambda v, x, w: np.sum(np.where(x[:, None] > 0.5, v[:, None] @ np.ones((1, 2)), 0.0), axis=1),
    "matrix of v": lambda v, x, w: (v[:, None] * w) @ v,
    "einsum": lambda v, x, w: np.einsum("ij,j->i", w, v),
    "sorted": lambda v, x, w: v[np.argsort(x)],
    "largest": lambda v, x, w: v[np.argmax(x)] * np.ones(SIZE),
    "picked": lambda v, x, w: np.concatenate([v[1:], v[1:2]]),
    "sums": lambda v, x, w: np.cumsum(v),
    "max": lambda v, x, w: np.max(v) * np.array([1.0, 2.0, 0.0]),
    "norm": lambda v, x, w: v * np.linalg.norm(v),
    "prod": lambda v, x, w: v + np.prod(v),
    "prod alone": lambda v, x, w: np.prod(v) * np.array([1.0, 0.0, 2.0]),
    "prod of rows": lambda v, x, w: np.prod(v[:, None] * np.ones((1, 2)), axis=1),
    "cumprod": lambda v, x, w: np.cumprod(v),
    "first of cumprod": lambda v, x, w: np.where(x > 0.5, np.cumprod(v), v),
    "det": lambda v, x, w: v * (np.prod(3 * v) if is_wide(v) else np.linalg.det(np.diag(3 * v))),
    "norm alone": lambda v, x, w: 2**0.5 * np.abs(v) if is_wide(v) else np.linalg.norm(v * np.ones((2, SIZE)), axis=0),
    "median": lambda v, x, w: v[::-1] * np.sort(v)[1],
    "solve": lambda v, x, w: INVERSE @ v if is_wide(v) else np.linalg.solve(WEIGHTS, v),
    "inverse": lambda v, x, w: FIRST / (3 + v) if is_wide(v) else np.linalg.inv(np.diag(v) + 3 * np.eye(SIZE))[0],
}
INVERSE = np.linalg.inv(WEIGHTS)
FIRST = np.array([1.0, 0.0, 0.0])


def is_wide(v):
    """LAPACK has no extended precision, and no numbers of mpmath."""
    return v.dtype in (np.longdouble, object)


def draw_array_program(rng, depth, can_loop=True):
    """The names of its steps, and a random function of (v, x, w, loop), which repeats steps by `loop`."""
    steps = []
    for _ in range(depth):
        kind = rng.random()
        if kind < 0.45:
            name = rng.choice(list(SINGULAR))
            steps.append((name, lambda v, x, w, loop, f=SINGULAR[name]: f(v)))
        elif kind < 0.85 or not can_loop:
            name = rng.choice(list(MASKING))
            steps.append((name, lambda v, x, w, loop, f=MASKING[name]: f(v, x, w)))
        else:
            names, body = draw_array_program(rng, rng.randint(1, 2), can_loop=False)
            count = rng.choice([1, 2, 3, 9])  # as a Python loop, 9 are rolled up again
            steps.append(
                (f"{count} times {names}", lambda v, x, w, loop, f=body, n=count: loop(n, lambda v: f(v, x, w, loop), v))
            )

    def program(v, x, w, loop):
        for _, step in steps:
            v = step(v, x, w, loop)
        return v

    return [name for name, _ in steps], program


def python_loop(count, f, v):
    for _ in range(count):
        v = f(v)
    return v


def for_loop(count, f, v):
    return ad.fori_loop(0, count, lambda i, v: f(v), v)


def while_loop(count, f, v):
    return ad.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, f(c[1])), (0, v))[1]


def check_masks(seed):
    """Raise if a gradient is finite, that of a plain tape is another or none, and so are those with wider exponents."""
    rng = random.Random(seed)
    names, program = draw_array_program(rng, rng.randint(2, 5))
    x = np.array([rng.choice([0.0, 0.0, 1.0, 0.25, 4.0, -1.0, 1000.0, 1e200]) for _ in range(SIZE)])
    w = np.array([[rng.choice([0.0, 1.0, -2.0, 0.5]) for _ in range(SIZE)] for _ in range(SIZE)])
    f = lambda loop: lambda x, w: np.sum(program(x, ad.stop_gradient(x), w, loop))
    forms = {"compiled": ad.jit(ad.grad(f(python_loop)))}
    if any("times" in name for name in names):
        for name, loop in (("loop", for_loop), ("while", while_loop)):
            forms |= {name: ad.grad(f(loop)), f"compiled {name}": ad.jit(ad.grad(f(loop)))}
    with np.errstate(all="ignore"):
        try:
            expected = ad.grad(f(python_loop))(x, w)
        except np.linalg.LinAlgError:  # a singular matrix
            for name, run in forms.items():
                assert _is_singular(run, x, w), (name, names, x, w)
            return
        # Of the cosine of a large number, nothing is left: what a rounding of the arguments changes is not compared.
        allowed = sum(1e3 * np.abs(ad.grad(f(python_loop))(x * r, w * r) - expected) for r in (1 + 2**-52, 1 - 2**-52))
        allowed = 1e-12 + np.where(np.isnan(allowed) & np.isfinite(expected), 0.0, allowed)
        for name, run in forms.items():
            g = run(x, w)
            wrong = np.isfinite(g) & ~(np.abs(g - expected) <= 1e-9 * np.abs(expected) + allowed)
            if wrong.any() and np.isnan(expected[wrong]).all():
                wrong &= ~np.isclose(g, wide_gradient(f(python_loop), x, w), rtol=1e-9, atol=1e-12)
                wrong &= [not (wrong[k] and is_exact(program, x, w, k, g[k])) for k in range(SIZE)]
            assert not wrong.any(), (name, names, x, w, g, expected)
            COUNTS["masks: finite", bool(np.isfinite(g).all()), bool(np.isfinite(expected).all())] += 1
        k = rng.randrange(SIZE)
        check_pushed(f, program, names, x, w, k, expected[k], allowed[k])
        check_second(f, program, names, x, w, k, rng)


SECOND = {
    "reverse over reverse": lambda f: lambda x, w, v: ad.grad(lambda x: np.sum(v * ad.grad(f)(x, w)))(x),
    "forward over reverse": lambda f: lambda x, w, v: ad.jvp(lambda x: ad.grad(f)(x, w), (x,), (v,))[1],
    "reverse over forward": lambda f: lambda x, w, v: ad.grad(lambda x: ad.jvp(lambda x: f(x, w), (x,), (v,))[1])(x),
}


def check_second(f, program, names, x, w, k, rng):
    """A row of the Hessian, in one of the forms of each loop: that of a plain tape, the limit of differences, or nan."""
    seed = np.eye(SIZE)[k]
    forms = {name: run(f(python_loop)) for name, run in SECOND.items()}
    try:
        expected = forms.pop("reverse over reverse")(x, w, seed)
    except np.linalg.LinAlgError:  # a singular matrix, or one of an overflow
        return
    is_looped = any("times" in name for name in names)
    for loop in (python_loop, *((for_loop, while_loop, while_loop) if is_looped else ())):
        name = rng.choice(list(SECOND))
        forms[f"{name} {loop.__name__}"] = run = SECOND[name](f(loop))
        forms[f"compiled {name} {loop.__name__}"] = ad.jit(run)
    sure = 1e-9 * np.abs(expected) + 1e-9
    near = [forms["forward over reverse"](x * r, w * r, seed) for r in (1 + 2**-50, 1 - 2**-50)]
    sure += sum(np.where(np.isfinite(expected), 1e3 * np.abs(row - expected), 0.0) for row in near)
    for name, run in forms.items():
        try:
            row = run(x, w, seed)
        except np.linalg.LinAlgError:  # of a matrix that only this form factors
            continue
        wrong = np.isfinite(row) & ~(np.abs(row - expected) <= sure) & ~np.isnan(sure)
        for j in np.flatnonzero(wrong):
            found = second_slope(program, x, w, k, j) if np.isnan(expected[j]) else expected[j]
            assert found is None or np.isclose(row[j], found, rtol=1e-6, atol=1e-9), (name, names, x, w, k, row, expected, found)
        COUNTS[f"{name}: finite", bool(np.isfinite(row).all()), bool(np.isfinite(expected).all())] += 1


def second_slope(program, x, w, k, j):
    """The limit of second differences of a program along two elements; None if there is none, or it cannot be computed."""
    w = np.array([[mp.mpf(float(a)) for a in row] for row in w], object)

    def value(at, one, other):
        v = np.array([mp.mpf(float(a)) for a in at], object)
        v[k] += one
        v[j] += other
        return np.sum(program(v, x, w, python_loop))

    def slope(at, h):
        return sum(a * b * value(at, a * h, b * h) for a in (1, -1) for b in (1, -1)) / (4 * h * h)

    with mp.workdps(2500):
        try:
            found = [slope(at, h) for at in (x, x * (1 + 2**-52)) for h in (STEP, STEP / 1000)]
        except (UnknownError, ZeroDivisionError):
            return None
        agree = all(abs(s - found[0]) <= 1e-6 * abs(found[0]) + 1e-9 for s in found)
        return float(found[0]) if agree else None


STEP = mp.mpf(10) ** -400


def exact_slope(program, x, w, k):
    """The slope of a program along one element, the mean of both sides, with numbers that neither round nor overflow."""
    w = np.array([[mp.mpf(float(a)) for a in row] for row in w], object)

    def value(change):
        v = np.array([mp.mpf(float(a)) for a in x], object)
        v[k] += change
        return np.sum(program(v, x, w, python_loop))

    return (value(STEP) - value(-STEP)) / (2 * STEP)


def is_exact(program, x, w, k, found):
    """Whether a number is the slope of a program along one element, up to rounding of its arguments; None if there is none."""
    with mp.workdps(2000):
        try:
            here, *near = (exact_slope(program, x * r, w * r, k) for r in (1, 1 + 2**-52, 1 - 2**-52))
        except (UnknownError, ZeroDivisionError):  # the value is infinite, or no real number
            return None
        allowed = 1e-9 * abs(here) + 1e-12 + 1e3 * sum(abs(s - here) for s in near)
        return bool(abs(mp.mpf(float(found)) - here) <= allowed)


def check_pushed(f, program, names, x, w, k, expected, allowed):
    """Forward mode along one element, in the forms of `check_masks`: that element of the gradient, or nan."""
    seed = np.eye(SIZE)[k]
    push = lambda loop: lambda x, w, v: ad.jvp(lambda x: f(loop)(x, w), (x,), (v,))[1]
    forms = {"forward": push(python_loop), "compiled forward": ad.jit(push(python_loop))}
    if any("times" in name for name in names):
        for name, loop in (("loop", for_loop), ("while", while_loop)):
            forms |= {f"forward {name}": push(loop), f"compiled forward {name}": ad.jit(push(loop))}
    for name, run in forms.items():
        try:
            t = run(x, w, seed)
        except np.linalg.LinAlgError:  # of a matrix of an overflow, which only this form factors
            continue
        wrong = np.isfinite(t) and not abs(t - expected) <= 1e-9 * abs(expected) + allowed
        if wrong and np.isnan(expected):  # reverse mode may know less
            wrong = is_exact(program, x, w, k, t) is False
        assert not wrong, (name, names, x, w, k, t, expected)
        COUNTS[f"{name}: finite", bool(np.isfinite(t)), bool(np.isfinite(expected))] += 1


def _is_singular(run, x, w):
    """Whether a gradient raises, or shows that it is none; compiled code does not compute what a mask ends."""
    try:
        return not np.isfinite(run(x, w)).all()
    except np.linalg.LinAlgError:
        return True


def wide_gradient(f, x, w):
    """The gradient with extended precision, whose exponents reach to 1e4932."""
    return ad.grad(f)(x.astype(np.longdouble), w.astype(np.longdouble))
