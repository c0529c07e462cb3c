"""Uses of type(x) that may differ for a traced value, found in the code of a function, on each interpreter."""

import numpy as np
import pytest

from adjoint.core.type_decisions import decisions

DECIDING = [
    "type(x) is float",
    "float is type(x)",
    "type(x) is not np.ndarray",
    "type(x) == float",
    "type(x) in (float, int)",
    "type(x) not in [list, np.float64]",
    "type(x) in TABLE",
    "TABLE[type(x)]",
    "TABLE.get(type(x), 1)",
    "type(x) is unknown",
    "type(x) is type(y)",
    "[type(v) for v in x]",
    "(lambda: type(x) is float)()",
    "issubclass(type(x), float)",
    "map(type, x)",
    "'a' in type(x).__name__",
    "(kind := type(x))",
]
OTHERS = [
    "isinstance(x, float)",
    "x.type is float",
    "type(self) is float",
    "type(x) is list",
    "type(x) is dict",
    "type(x) == str",
    "type(x) in (list, tuple)",
    "type(x)(y)",
    "type(x).zero",
    "f'{type(x).__name__}'",
    "f'{type(x).__name__!r}'",
]


def of(expression, **names):
    return eval(f"lambda x, y=0, self=0: {expression}", {"np": np, "TABLE": {}, **names})


@pytest.mark.parametrize("expression", DECIDING)
def test_decisions_are_found(expression):
    found = decisions(of(expression))
    assert [d.line for d in found] == [1] * len(found)
    assert found
    assert not decisions(of(expression, type=lambda x: x))  # the user's own


@pytest.mark.parametrize("expression", OTHERS)
def test_what_cannot_depend_on_a_traced_value_is_not(expression):
    assert decisions(of(expression)) == []


def test_the_lines_of_functions_inside_others():
    namespace = {}
    exec(
        "def f(x):\n    def g(y):\n        return type(y) is float\n    z = [type(v) is float for v in x]\n    return g, z",
        namespace,
    )
    assert sorted(d.line for d in decisions(namespace["f"])) == [3, 4]
