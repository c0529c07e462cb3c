"""A reader of saved programs as docs/format.md describes them, which needs zipfile, json and NumPy alone.

names, program = load("energy.adjoint");  results = run(program, arguments)
"""

import json
import re
import zipfile

import numpy as np

WORDS = {"slice": slice, "complex": complex, "dtype": np.dtype, "nan": np.nan, "inf": np.inf, "__builtins__": {}}
WORDS |= {t: getattr(np, t) for t in ("float64", "float32", "int64", "int32", "complex128", "complex64")} | {"bool": np.bool_}
NAMES = {"mul": "multiply", "sub": "subtract", "div": "divide", "abs": "absolute", "neg": "negative"}


def load(path):
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert (manifest["format"], manifest["version"]) == ("adjoint program", 1)
        arrays = {n: np.load(archive.open(n), allow_pickle=False) for n in archive.namelist() if n.endswith(".npy")}
        lines = archive.read("graph.txt").decode().split("\n")
    rest = iter([line.strip() for line in lines if line.strip() and not line.strip().startswith("#")])
    return [i["name"] for i in manifest["inputs"]], graph(next(rest), rest, arrays)


def graph(head, lines, arrays):
    """(names of the inputs, equations, operands of the return line, constants)."""
    equations, constants = [], {}
    for line in lines:
        if match := re.fullmatch(r"const (\w+) = (\w+)\[([\d,]*)\](?: file (\S+)|\((.*)\))", line):
            name, dtype, shape, file, values = match.groups()
            size = [int(n) for n in shape.split(",") if n]
            constants[name] = arrays[file] if file else np.array(literal(values), dtype).reshape(size)
        elif match := re.fullmatch(r"(\w+) = (graph .*\{)", line):
            equations[-1][3][match[1]] = graph(match[2], lines, arrays)
        elif line.startswith("return"):
            outputs = split(line.removeprefix("return"))
        elif line == "}":
            return re.findall(r"(\w+): \w+\[[\d,]*\]", head), equations, outputs, constants
        else:
            left, right = line.split("  # ")[0].split(" = ", 1)
            op, operands, params = re.fullmatch(r"(\w+)(?: (.*?))?(?: \{(.*)\})?", right).groups()
            given = dict(p.split("=", 1) for p in split(params or ""))
            made = [w.split(":")[0] for w in split(left)]
            equations.append((made, op, split(operands or ""), {k: literal(v) for k, v in given.items()}))


def split(text):
    """The parts between commas that are not in brackets."""
    depths = np.cumsum([(c in "([{") - (c in ")]}") for c in text]) if text else []
    ends = [i for i, c in enumerate(text) if c == "," and not depths[i]]
    parts = [text[i:j].strip(" ,") for i, j in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [part for part in parts if part]


def literal(text):
    return eval(text, WORDS)


def run(program, args):
    names, equations, outputs, constants = program
    known = {**constants, **dict(zip(names, args, strict=True))}
    for made, op, operands, params in equations:
        xs = [known[w] if w in known else literal(w) for w in operands]
        y = OPS[op](*xs, **params) if op in OPS else getattr(np, NAMES.get(op, op))(*xs, **params)
        known.update(zip(made, y, strict=True) if len(made) > 1 or op in MANY else [(made[0], y)])
    return [known[o] if o in known else literal(o) for o in outputs]


def scan(*xs, body, length, reverse, carries, consts):
    state, rows = list(xs[consts : consts + carries]), [None] * length
    for i in range(length)[:: -1 if reverse else 1]:
        y = run(body, [*xs[:consts], *state, *(x[i] for x in xs[consts + carries :])])
        state, rows[i] = y[:carries], y[carries:]
    return [*state, *map(np.stack, zip(*rows, strict=True))]


def while_(*xs, cond, body, cond_consts, body_consts, checkpoint):
    state = xs[cond_consts + body_consts :]
    while run(cond, [*xs[:cond_consts], *state])[0]:
        state = run(body, [*xs[cond_consts:][:body_consts], *state])
    return state


def place(x, *, spec, shape):
    y = np.zeros(shape, x.dtype)
    y[spec] = x
    return y


MANY = ("scan", "while", "cond", "checkpoint")
OPS = {
    "scan": scan,
    "while": while_,
    "cond": lambda p, *xs, true, false: run(true if p else false, xs),
    "checkpoint": lambda *xs, body: run(body, xs),
    "place": place,
    "getitem": lambda x, *, spec: x[spec],
    "gather": lambda x, *index, axis: x[(slice(None),) * axis + index],
    "cast": lambda x, *, dtype: np.asarray(x).astype(dtype)[()],
    "concatenate": lambda *xs, axis: np.concatenate(xs, axis),
}
