"""Staging a function as a graph: what it loads, the plain arrays that it reads, the integers of its loops."""

import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import adjoint as ad

STAGED = """
import sys
import numpy as np
import adjoint as ad

program = ad.graph(ad.grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
str(program), program(np.ones(3)), program.simplify()
drawing = [m for m in sys.modules if m.startswith(("adjoint.view", "adjoint.export", "adjoint.algebra", "adjoint.cli"))]
assert not drawing, drawing
"""


def test_a_graph_that_is_not_drawn_loads_no_drawing_code():
    subprocess.run([sys.executable, "-c", STAGED], check=True)


# -- plain arrays at traced indices ------------------------------------------------------------------------------------

TABLE = np.array([1.0, 2.0, 4.0, 8.0])
ROWS = np.arange(12.0).reshape(3, 4)
ORDER = np.array([3, 1, 2, 0])
PARTS = [np.arange(4.0), {"ones": np.ones(4)}]
EDGES = np.linspace(0.0, 1.0, 5)


class Model:
    def __init__(self):
        self.table = TABLE * 2

    def at(self, x, n):
        return x * self.table[n]


MODEL = Model()


def closure():
    table = np.array([5.0, 6.0, 7.0, 8.0])
    return lambda x, n: x * table[n]


def over_range(x, n):
    total = 0.0
    for k in range(n):
        total = total + x**k * TABLE[k % 4]
    return total


def until_large(x, n):
    k, total = n, 0.0 * x
    while total < 10:
        total, k = total + x * TABLE[k % 4], k + 1
    return total


def caught(x, n):
    try:
        return x * TABLE[n]
    except TypeError:
        return x


READS = {
    "global": lambda x, n: x * TABLE[n],
    "row": lambda x, n: (x * ROWS[n]).sum(),
    "two axes": lambda x, n: x * ROWS[n, (n + 1) % 4],
    "twice": lambda x, n: x * TABLE[ORDER[n]],
    "list of indices": lambda x, n: x * TABLE[[n, 0]].sum(),
    "containers": lambda x, n: x * PARTS[0][n] + PARTS[1]["ones"][n],
    "attribute": MODEL.at,
    "closure": closure(),
    "made inside": lambda x, n: x * np.array([1.0, 2.0, 4.0])[n],
    "take": lambda x, n: x * TABLE.take(n),
    "searched": lambda x, n: x * TABLE[np.searchsorted(EDGES, x * n / 2) - 1],
    "batched": lambda x, n: ad.vmap(lambda y: y * TABLE[n])(np.ones(3) * x).sum(),
    "caught": caught,
}
LOOPS = {"range": over_range, "while": until_large}


@pytest.mark.parametrize("name, source", [*product(READS, [False, True]), *[(name, True) for name in LOOPS]])
def test_plain_arrays_are_read_at_traced_indices(name, source):
    f = (READS | LOOPS)[name]
    staged = ad.graph(ad.value_and_grad(f), source=source)(0.7, 2)
    for n in (1, 2):
        np.testing.assert_allclose(staged(0.7, n), ad.value_and_grad(f)(0.7, n), rtol=1e-14)


def test_tables_are_constants_of_the_graph():
    table = TABLE.copy()
    staged = ad.graph(lambda n: table[n])(2)
    table[2] = 100.0
    assert staged(2) == 4.0
    assert staged(-1) == 8.0


def test_a_table_that_is_written_to_is_refused():
    table = TABLE.copy()

    def f(x, n):
        table[0] = x
        return table[n]

    with pytest.raises(ad.AdjointError):
        ad.graph(f)(0.7, 2)
    assert table[0] == 1.0


# -- Python's integers in loops ----------------------------------------------------------------------------------------


def series(x, n):
    """The sum of x**k / k! with factorials of integers, which need more than 64 bits from 21! on."""
    factorial, total = 1, 1.0
    for k in range(1, n):
        factorial = factorial * k
        total = total + x**k / factorial
    return total


def nested(x, n):
    total = x
    for i in range(n):
        power = 1
        for _ in range(i):
            power = power * 10
        total = total + x / power
    return total


def branched(x, n):
    power, total = 1, x
    for k in range(n):
        if k % 2 == 0:
            power = power * 100
        total = total + x / power
    return total


def squares(x, n):
    power, k = 3, 0
    while k < n:
        power, k = power * power, k + 1
    return x / power


INTEGERS = {  # the function, calls that fit into 64 bits, and calls that do not
    "series": (series, [1, 2, 12, 20], [25, 100]),
    "nested": (nested, [0, 1, 10, 18], [21, 40]),
    "branched": (branched, [0, 3, 17], [20, 60]),
    "while": (squares, [0, 1, 5], [6, 9]),
}


@pytest.mark.parametrize("adopted", [False, True], ids=["own", "adopted"])
@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integers_in_loops(name, adopted):
    """The results are Python's, or nan; and so are the derivatives of the graph."""
    f, fitting, too_large = INTEGERS[name]
    staged = ad.graph(ad.adopt(f) if adopted else f, source=True)(0.5, 2)
    gradient = ad.graph(ad.grad(f), source=True)(0.5, 2)
    for n in fitting:
        assert staged(0.5, n) == pytest.approx(f(0.5, n), rel=1e-15)
        assert gradient(0.5, n) == ad.grad(staged)(0.5, n) == pytest.approx(ad.grad(f)(0.5, n), rel=1e-14)
    for n in too_large:
        assert math.isfinite(f(0.5, n))
        results = [staged(0.5, n), gradient(0.5, n), ad.grad(staged)(0.5, n), ad.jacfwd(staged)(0.5, n)]
        assert np.isnan(results).all()


@pytest.mark.parametrize("count", [12, 20, 25, 60])
def test_a_loop_of_a_fixed_count_gives_pythons_numbers(count):
    """Whether its integers fit is known: if not, its iterations are staged one by one."""
    f = lambda x: series(x, count)
    staged = ad.graph(ad.value_and_grad(f), source=True)(0.5)
    np.testing.assert_allclose(staged(0.5), ad.value_and_grad(f)(0.5), rtol=1e-15)
    assert ("scan" in str(staged)) == (count <= 20)


def test_a_batch_of_a_loop_of_a_fixed_count():
    f = lambda x: ad.vmap(lambda y: series(y, 25))(x).sum()
    x = np.array([0.5, 0.25])
    assert ad.graph(f, source=True)(x)(x) == pytest.approx(f(x), rel=1e-15)


def test_integers_that_a_loop_gives_are_pythons_after_it():
    def f(x, n):
        power = 1
        for _ in range(n):
            power = power * 10
        return x / (power * power)

    staged = ad.graph(f, source=True)(0.5, 9)
    assert staged(0.5, 9) == f(0.5, 9)
    assert math.isnan(staged(0.5, 10))

    def beside(x, n):
        count = 0
        while n > 0:
            n, count = n // 2, count + 1
        return x * count

    x = np.ones(3, np.float32)
    found = ad.graph(beside, source=True)(x, 9)(x, 9)
    assert found.dtype == beside(x, 9).dtype == np.float32
    np.testing.assert_array_equal(found, beside(x, 9))


def test_integers_that_are_returned_are_refused():
    def f(n):
        power = 1
        for _ in range(n):
            power = power * 10
        return power

    with pytest.raises(ad.AdjointError, match=r"returns an int64, .* more than 64 bits"):
        ad.graph(f, source=True)(3)


def test_the_adjoint_with_products_of_integers_is_readable():
    text = ad.graph(ad.grad(series), source=True)(0.5, 12).python()
    assert "factorial" in text
    assert "x_bar" in text
    names = {}
    exec(text, names)
    assert names["series"](0.5, 12) == pytest.approx(ad.grad(series)(0.5, 12), rel=1e-14)
    assert math.isnan(names["series"](0.5, 25))
