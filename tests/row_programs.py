"""Random programs on stacks of small arrays: reductions along some axes, products and einsum between elementwise functions.

`drawn(seed)` gives a function of two arrays of shape (rows, a, b, c), the arrays, and the steps of the function as text. All
steps are smooth, so that rounding errors stay small.
"""

import itertools

import numpy as np

from adjoint.scipy.special import logsumexp

FUNCTIONS = {"tanh": np.tanh, "sin": np.sin, "exp(-²)": lambda x: np.exp(-x * x)}
EINSUMS = ["nijk,nilk->nij", "nijk,nijl->nik", "nijk,nljk->nijk", "nijk,nijk->njk", "nijk,nijk->n", "nijk,nijk->ijk"]
AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations(range(4), n)]


def drawn(seed, rows=(1, 2, 37, 300), sizes=(1, 2, 3, 8)):
    """A function of two stacks, the stacks, and the steps of the function."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.choice(rows)), *(int(n) for n in rng.choice(sizes, 3)))
    dtype = rng.choice([np.float64, np.float64, np.float32])
    steps = [_step(rng, i) for i in range(rng.integers(2, 8))]
    args = [rng.normal(size=shape).astype(dtype) for _ in range(2)]

    def f(x, y):
        values = [x, y]
        for _, step in steps:
            values.append(step([v.astype(dtype) for v in values]))
        return values[-1]

    return f, args, f"{seed}: {shape} {np.dtype(dtype)}: " + "; ".join(name for name, _ in steps)


def _step(rng, number):
    """The name of a step and a function of the values so far, whose result has four axes."""
    a, b = (int(n) for n in rng.integers(0, number + 2, 2))
    kind = rng.integers(0, 7)
    if kind == 0:
        name = str(rng.choice([*FUNCTIONS]))
        return f"{name}(v{a})", lambda v: FUNCTIONS[name](v[a])
    if kind == 1:
        return f"v{a} * v{b} + v0", lambda v: v[a] * v[b] + v[0]
    if kind == 2:
        return f"v{a} @ v{b}ᵀ @ v0", lambda v: np.tanh(_whole(v, a) @ np.swapaxes(_whole(v, b), -1, -2)) @ v[0]
    if kind == 3:
        text = str(rng.choice(EINSUMS))
        return f"einsum {text} v{a} v{b}", lambda v: _einsum(text, _whole(v, a), _whole(v, b))
    axes = AXES[rng.integers(0, len(AXES))]
    how = {4: np.max, 5: np.mean, 6: logsumexp}[int(kind)]
    return f"{how.__name__}(v{a}, {axes}) + v{b}", lambda v: how(v[a], axis=axes, keepdims=True) + v[b]


def _whole(v, i):
    """A value with the shape of the stack."""
    return v[i] + 0 * v[0]


def _einsum(text, x, y):
    """With an axis of length one for each that is summed over."""
    found = np.einsum(text, np.tanh(x), np.tanh(y) / y.size)
    kept = text[text.index(">") + 1 :]
    return np.sin(np.expand_dims(found, [i for i, axis in enumerate("nijk") if axis not in kept]))
