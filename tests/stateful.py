"""Random functions of a float that read outside state, which changes between calls, and that catch errors.

    def f(x):
        v1 = x * model.scale + rate
        try:
            v2 = math.sin(v1)              # refused on a traced value
        except TypeError:
            v2 = np.sin(v1)                # the same number
        for item in model.items:
            v2 = v2 * 0.5 + item
        return v2 + helper(v1, table)

Between calls a name is rebound, an array written to, an attribute, entry, item, method, property, default or helper replaced. A
function is text, so that one that fails can be read and run by itself. All numbers stay moderate.
"""

import contextlib
import decimal
import json
import math
import sys

import numpy as np

SPACE = """
rate, flag, count, table, outer = 0.3, True, 2, np.array([0.5, -0.25, 1.0]), [0.2]

class Base:
    scale = 0.7
    def shifted(self, v): return v + 0.1
    @property
    def doubled(self): return 2.0 * self.weight

class Model(Base):
    def __init__(self):
        self.weight, self.w = 0.4, np.array([0.1, 0.2])
        self.entries, self.items = {"rate": 0.5, "depth": 1}, [0.1, -0.2]
    def layer(self, v): return np.tanh(self.shifted(v)) * self.scale
    def __call__(self, v): return self.layer(v) + np.sum(self.w)
    @staticmethod
    def half(v): return v * 0.5

def helper(v, t=table, scale=0.5): return v * scale + t[1]

def make():
    inner = 0.6
    def closure(v): return v * inner + outer[0]
    def rebind(n):
        nonlocal inner
        inner = n
    return closure, rebind

model = Model()
closure, rebind = make()
"""

#: A number that is made of v and of what is outside.
NUMBERS = (
    "{v} * rate", "{v} + np.sum(table)", "{v} * model.scale", "model.layer({v})", "model({v})", "model.half({v})", "helper({v})",
    "helper({v}, scale=rate)", "closure({v})", "{v} * model.doubled", "{v} + model.entries['rate']", "{v} * len(model.items)",
    "{v} + table[count % 3]", "{v} * getattr(model, 'bonus', 0.9)", "({v} if flag else -{v})", "{v} + model.w @ model.w",
    "np.tanh({v}) * outer[-1]", "{v} + sum(model.items)", "{v} * model.entries.get('extra', 0.8)", "{v} + 0.1 * count",
    "sum({v} * s for s in model.items)", "(lambda u, t=rate: u * t)({v})", "np.sin({v}) + {u}", "{v} * {u} * 0.3",
    "{v} * (0.5 if 'extra' in model.entries else 0.25)", "{v} + table.max()", "np.where(table > {v}, table, {v}).sum() * 0.3",
)  # fmt: skip
#: What is tried, of v; the error; and what is computed instead.
TRIED = (
    ("math.sin({v})", "TypeError", "np.sin({v})"),
    ("float({v}) * {v}", "TypeError", "{v} * {v}"),
    ("float({v}) * {v}", "TypeError", "-7.0 * {v}"),
    ("np.array([{v}, 1.0]).sum()", "Exception", "{v} + 1.0"),
    ("np.array([{v}, 1.0]).sum()", "Exception", "{v} * 3.0"),
    ("model.bonus * {v}", "AttributeError", "{v} * 0.3"),
    ("model.entries['extra'] * {v}", "KeyError", "{v} * 0.2"),
    ("model.items[3] * {v}", "IndexError", "{v} * 0.4"),
    ("1.0 / (count - 2) * {v}", "ZeroDivisionError", "{v} * 0.6"),
    ("np.linalg.cholesky(np.array([[rate]]))[0, 0] * {v}", "np.linalg.LinAlgError", "{v} * 0.1"),
    ("len({v})", "TypeError", "{v} * 0.9"),
    ("{v}.nothing", "AttributeError", "{v} * 0.35"),
    ("int('a')", "ValueError", "{v} - 0.15"),
    ("math.sqrt({v})", "(TypeError, ValueError)", "0.5 * {v}"),
)
if hasattr(sys, "monitoring"):  # errors of other code are noticed
    TRIED += (
        ("float(decimal.Decimal({v})) * {v}", "TypeError", "{v} * 5.0"),
        ("json.loads(json.dumps({v})) * {v}", "TypeError", "{v} * {v}"),
    )
CHANGES = (
    "rate = {n}", "flag = not flag", "count = (count + 1) % 4", "table = np.array([{n}, 0.1, {m}])", "table[0] = {n}",
    "table *= 0.9", "outer[0] = {n}", "outer.append({n})", "model.weight = {n}", "model.w = np.array([{n}, {m}])",
    "model.w[1] = {n}",
    "model.scale = {n}", "Base.scale = {n}", "model.__dict__.pop('scale', None)", "model.entries['rate'] = {n}",
    "model.entries['extra'] = {n}", "model.entries.pop('extra', None)", "model.items.append({n})", "model.items[0] = {n}",
    "model.items = [{n}, {m}, 0.3, 0.4]", "model.bonus = {n}", "model.__dict__.pop('bonus', None)", "rebind({n})",
    "helper = lambda v, t=table, scale=0.4: v * scale - {n}", "Model.layer = lambda self, v: v * {n}", "model = Model()",
    "Base.shifted = lambda self, v: v - {n}", "Base.doubled = property(lambda self: {n})",
    "Model.half = staticmethod(lambda v: v * {n})",
    "model.layer = lambda v: v + {n}", "model.__dict__.pop('layer', None)", "closure, rebind = make()", "rate = np.float64({n})",
    "Model.__call__ = lambda self, v: v * {n}", "rate = 1", "None",
)  # fmt: skip


class Program:
    """The text of a function, and its outside state."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([31, seed])
        names, lines = ["x"], []
        for number in range(1, int(self.rng.integers(3, 7))):
            lines += self.statement(f"v{number}", names)
            names.append(f"v{number}")
        body = "".join("    " + line + "\n" for line in lines)
        self.text = f"def f(x):\n{body}    return np.tanh({' + '.join(names[-3:])})\n"
        self.space = {
            "np": np,
            "math": math,
            "json": json,
            "decimal": decimal,
            "contextlib": contextlib,
            "__name__": "stateful_program",
        }
        exec(SPACE + self.text, self.space)
        self.changes = []

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def statement(self, name, names):
        number = lambda: self.pick(NUMBERS).format(v=self.pick(names), u=self.pick(names))
        kind = self.rng.integers(6)
        if kind <= 2:
            return [f"{name} = {number()}"]
        if kind == 3:
            return [
                f"{name} = {self.pick(names)}",
                f"for item in model.items[:{self.rng.integers(1, 4)}]:",
                f"    {name} = {name} * 0.5 + item",
            ]
        asked, error, other = (text.format(v=self.pick(names)) for text in self.pick(TRIED))
        if kind == 4:
            return ["try:", f"    {name} = {asked}", f"except {error}:", f"    {name} = {other}"]
        return [f"{name} = {number()}", f"with contextlib.suppress({error.strip('()')}):", f"    {name} = {asked}"]

    def change(self):
        """Change the outside state."""
        text = self.pick(CHANGES).format(n=f"{self.rng.uniform(-0.9, 0.9):.3f}", m=f"{self.rng.uniform(-0.9, 0.9):.3f}")
        self.changes.append(text)
        exec(text, self.space)

    @property
    def f(self):
        return self.space["f"]
