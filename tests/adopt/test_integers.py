"""Whole numbers in adopted code: `int(x)` and its kin give the number, and are constant."""

import numpy as np
import pytest

import adjoint as ad

LIBRARY = """
import math
import numpy as np

class Count(int):
    pass

def power(x): return sum(x**k for k in range(int(x)))
def table(x): return x * [1.0, 2.0, 3.0][int(x)]
def fraction(x): return x - int(x)
def between(x):
    i = int(x)
    t = x - i
    values = [1.0, 4.0, 9.0, 16.0]
    return (1 - t) * values[i] + t * values[i + 1]
def checked(x): return x if x == int(x) else -x
def subclass(x): return x * Count(x)
def scalar(x): return x * np.int64(x) + x * np.intp(x) + x * np.uint8(x)
def array(x): return np.sum(np.array([x, 1.7 * x]) * np.int32(np.array([x, 1.7 * x])))
def rounded(x): return x * math.floor(x) + x * round(x) + x * math.trunc(x)
def size(x): return np.zeros(int(x)).sum() + x * len(np.arange(np.int64(x)))
def kind(x): return x if isinstance(np.int64(3), np.int64) and np.dtype(np.int64) == int and isinstance(int(x), int) else 0.0
def text(x): return x * (int("12") + int(3.7) + int("ff", 16))
"""
NAMES = [line.partition("(")[0][4:] for line in LIBRARY.splitlines() if line.startswith("def ")]
#: The slope at 2.5 and, where it differs, that on the right of 2.0.
SLOPES = {
    "power": (1.0,),
    "table": (3.0,),
    "fraction": (1.0,),
    "between": (7.0,),
    "checked": (-1.0, 1.0),
    "subclass": (2.0,),
    "scalar": (6.0,),
    "array": (2.0 + 1.7 * 4, 2.0 + 1.7 * 3),
    "rounded": (6.0,),
    "size": (2.0,),
    "kind": (1.0,),
    "text": (12.0 + 3.0 + 255.0,),
}


@pytest.fixture
def library(write):
    write("whole_numbers.py", LIBRARY)
    return ad.adopt("whole_numbers")


@pytest.mark.parametrize("name", NAMES)
def test_slopes(library, name):
    f = getattr(library, name)
    for x, slope in ((2.5, SLOPES[name][0]), (2.0, SLOPES[name][-1])):
        for transform in (ad.grad, ad.derivative, lambda f: ad.jit(ad.grad(f))):
            assert transform(f)(x) == pytest.approx(slope)


def test_plain_numbers_are_as_before(library, write):
    import whole_numbers

    for name in NAMES:
        for x in (2.0, 2.5, np.float64(2.5)):
            ours, theirs = getattr(library, name)(x), getattr(whole_numbers, name)(x)
            assert ours == theirs
            assert type(ours) is type(theirs)
    assert type(library.np.int64(3)) is np.int64
    with pytest.raises(ValueError):
        library.np.int64("three")


def test_a_function_outside_of_any_module():
    names = {}
    exec("import math\ndef f(x):\n    return math.sin(float(x)) * int(x)", names)
    assert ad.grad(ad.adopt(names["f"]))(2.5) == pytest.approx(2 * np.cos(2.5))
