"""Calls of the methods of ufuncs: reduce, accumulate, reduceat, outer, at."""

import numpy as np
from surface.calls import F, O, call, entry, writes

MASK = np.array([[True, False, True], [True, True, False]])


def P(*shape):  # noqa: N802
    return F(*shape, low=0.5, high=2.0)


REDUCE = [
    call(P(3)), call(P(1)), call(P(2, 3)), call(P(2, 3), 1), call(P(2, 3), axis=-1), call(P(2, 3), axis=0, keepdims=True),
    call(P(2, 3), 0, None, O(3)), call(P(2, 3), dtype=np.float64), call(P(2, 3), axis=1, initial=0.7),
]  # fmt: skip
#: For those that do not care for the order of their operands.
ANY_ORDER = [
    call(P(2, 3), axis=None), call(P(2, 2, 3), axis=(0, -1)), call(P(2, 3), axis=1, initial=0.7, where=MASK),
    call(P(2, 3), axis=(0, 1), keepdims=True),
]  # fmt: skip
ACCUMULATE = [
    call(P(3)), call(P(1)), call(P(2, 3)), call(P(2, 3), 1), call(P(2, 3), axis=-1), call(P(2, 3), axis=1, out=O(2, 3)),
    call(P(2, 3), dtype=np.float64),
]  # fmt: skip
REDUCEAT = [call(P(4), [0, 2]), call(P(2, 4), [0, 3, 1], axis=-1), call(P(3, 2), [0, 1], 0), call(P(1), [0])]
OUTER = [call(P(2), P(3)), call(P(), P(2)), call(P(2, 1), P(2)), call(P(2), 1.5), call(P(2), P(2), out=O(2, 2))]
AT = entry(call(P(4), [0, 2], P(2)), call(P(4), [1, 1, 3], P(3)), call(P(2, 3), (np.array([0, 1]), 1), P()), call(P(1), 0, P()),
           run=writes)  # fmt: skip

COMMUTATIVE = ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "hypot")
ORDERED = ("subtract", "divide", "power", "arctan2")

CASES = {
    f"{name}.{method}": calls
    for name in (*COMMUTATIVE, *ORDERED)
    for method, calls in {
        "reduce": [*REDUCE, *(ANY_ORDER if name in COMMUTATIVE else [])],
        "accumulate": ACCUMULATE,
        "reduceat": REDUCEAT,
        "outer": OUTER,
        "at": AT,
    }.items()
    if not (name in ("power", "arctan2") and method.startswith("reduce"))  # NumPy 2.4 leaves out the numbers in the middle
}
