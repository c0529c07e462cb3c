"""Random programs of whole numbers of all dtypes: unsigned ones wrap around below zero, wider ones meet narrower ones.

    def f(a, b, c):                    # uint32, int8, bool
        v1 = -a
        v2 = np.abs(v1) + b
        return v1, v2,

A program is text, so that one that fails can be read and run by itself.
"""

import numpy as np

DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "?")
NUMBERS = (0, 1, 2, 3, 7, 100, -1, -2)
FORMS = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} // {y}", "{x} % {y}", "-{x}", "np.abs({x})", "np.abs(-{x})", "np.sign({x})",
    "np.maximum({x}, {y})", "np.minimum({x}, {y})", "np.where({x} > {y}, {x}, {y})", "{x} < {y}", "({x} == {y})",
    "np.square({x})", "np.cumsum({x})", "{x}[::-1]", "np.sum({x}) + {z}", "np.max({x}) - {z}", "np.bitwise_and({x}, 3)",
    "{x}.astype({d!r})", "np.clip({x}, {n}, {m})", "{x} ** 2", "{x} * {n} * {m}", "{x} + {n} + {m}", "({x} - {z}) + {z}",
    "({x} + {z}) - {z}", "-({x} - {z})", "{z} - (-{x})", "np.insert({x}, 1, {n})[:5]", "np.bitwise_xor({x}, {z})",
)  # fmt: skip


class Program:
    """The text of a function, the function, and arguments for it."""

    def __init__(self, seed):
        rng = np.random.default_rng([57, seed])
        names, lines = ["a", "b", "c"], []
        for number in range(1, int(rng.integers(3, 10))):
            x, z = rng.choice(names, 2)
            n, m = rng.choice(NUMBERS, 2)
            y = z if rng.random() < 0.75 else n
            form = FORMS[rng.integers(len(FORMS))].format(x=x, y=y, z=z, n=n, m=m, d=str(rng.choice(DTYPES)))
            lines.append(f"    v{number} = {form}\n")
            names.append(f"v{number}")
        self.text = f"def f(a, b, c):\n{''.join(lines)}    return {', '.join(names[3:])},\n"
        space = {"np": np}
        exec(self.text, space)
        self.f = space["f"]
        self.args = [_argument(rng) for _ in range(3)]


def _argument(rng):
    """Small numbers, and some at the ends of the range."""
    dtype = np.dtype(rng.choice(DTYPES))
    small = rng.integers(-5, 9, 5)
    if dtype.kind == "b":
        return small > 0
    info = np.iinfo(dtype)
    end = (info.min, info.max, info.max // 2)[rng.integers(3)]
    return np.array([end if rng.random() < 0.2 else max(int(n), info.min) for n in small], dtype)
