"""Graphs as lines of LaTeX."""

import numpy as np

import adjoint as ad


def test_equations_are_aligned():
    text = ad.graph(lambda x1, weights: np.log(x1) * weights / 2)(2.0, 3.0).latex()
    assert text == "\n".join(
        [
            r"\begin{aligned}",
            r"v_{2} &= \ln x_{1} \\",
            r"v_{3} &= v_{2} \cdot \mathrm{weights} \\",
            r"v_{4} &= \frac{v_{3}}{2} \\",
            r"\mathrm{lambda}(x_{1}, \mathrm{weights}) &= v_{4}",
            r"\end{aligned}",
        ]
    )


def test_arrays_and_several_results():
    text = ad.graph(lambda a: (a @ a.T, np.sum(a, axis=0), a[0, 1:]))(np.ones((2, 2))).latex()
    assert r"^{\top}" in text
    assert r"\operatorname{sum}(a, \mathtt{axis=(0,)})" in text
    assert text.count("{") == text.count("}")


def test_no_equations():
    assert "&= x" in ad.graph(lambda x: x)(1.0).latex()
