"""Kernels split into parts that share no computation: the parts compute the same."""

import numpy as np

import adjoint as ad
from adjoint.compiler.lower.fuse import lower
from adjoint.compiler.lower.kernel import Buffer, Kernel, Reduce, Scatter, Store, View
from adjoint.compiler.lower.parts import only, parts

FLOAT, INDEX = np.dtype(float), np.dtype(np.int64)


def view(number, dtype=FLOAT, size=3):
    return View.whole(Buffer(number, dtype, size, "local"), (size,))


def test_results_that_share_a_computation_stay_together():
    kernel = Kernel((3,))
    a, b = (kernel.add("load", (), view(i), FLOAT) for i in range(2))
    sine = kernel.add("op", (a,), "sin", FLOAT)
    total = kernel.add("op", (sine, b), "add", FLOAT)
    square = kernel.add("op", (b, b), "mul", FLOAT)
    stores = [Store(line, view(10 + i)) for i, line in enumerate((sine, total, square, b, b))]
    kernel.stores += stores
    assert parts(kernel) == [stores[:2], [stores[2]], [stores[3]], [stores[4]]]


def test_reductions_and_scatters():
    kernel = Kernel((3,))
    a, i = kernel.add("load", (), view(0), FLOAT), kernel.add("load", (), view(1, INDEX), INDEX)
    one = kernel.add("const", (), 1, INDEX)
    at = kernel.add("op", (i, one), "add", INDEX)
    sine = kernel.add("op", (a,), "sin", FLOAT)
    out = Buffer(5, FLOAT, 9, "local")
    kernel.scatters.append(Scatter(sine, (at,), (1,), View(out, (3,), (0,))))
    kernel.reductions += [
        Reduce("any", at, (0,), View(view(6).buffer, (3,), (0,))),
        Reduce("sum", a, (0,), View(view(7).buffer, (3,), (0,))),
    ]
    together, alone = parts(kernel)  # in the order of stores, reductions, scatters
    assert together == [kernel.reductions[0], kernel.scatters[0]]
    assert alone == [kernel.reductions[1]]
    made = only(kernel, together)
    assert [line.data for line in made.code if line.kind == "op"] == ["add", "sin"]
    assert (len(made.scatters), len(made.reductions), len(made.loops)) == (1, 1, 1)
    assert len(only(kernel, alone).code) == 1


def test_all_parts_are_the_kernel():
    (kernel,) = lower(ad.graph(lambda x, y: (np.sin(x), y * 2, np.sin(x) * 3))(np.ones(3), np.ones(3))).steps
    found = parts(kernel)
    assert [len(results) for results in found] == [2, 1]
    assert str(only(kernel, [result for results in found for result in results])).count("store") == 3
