"""Traced values that leave their transform."""

import numpy as np
from complaints import TRANSFORMS, complaint, every_transform

import adjoint as ad


@every_transform
def test_a_leaked_value_is_refused_wherever_it_is_used(transform):
    kept = []

    def leaks(x):
        kept.append(x)
        return x * 2.0

    TRANSFORMS[transform](leaks)
    leaked = kept[-1]
    with complaint(RuntimeError, "after", "had returned", "has_aux=True", clean=False):
        leaked + 1.0
    with complaint(RuntimeError, "had returned", clean=False):
        np.sin(leaked)
    with complaint(RuntimeError, "had returned", clean=False):
        np.greater(leaked, 1)
    with complaint(RuntimeError, "had returned", clean=False):
        np.ones(3) * leaked
    with complaint(RuntimeError, "had returned", clean=False):
        ad.stop_gradient(leaked)
    with complaint(RuntimeError, "had returned", clean=False):
        np.stack([leaked, 1.0])
    for again in TRANSFORMS:
        with complaint(RuntimeError, "had returned"):
            TRANSFORMS[again](lambda y: leaked)
        with complaint(RuntimeError, "had returned"):
            TRANSFORMS[again](lambda y: y * leaked)
    for use in (
        lambda: ad.grad(np.sin)(leaked),
        lambda: ad.jvp(np.sin, (leaked,), (1.0,)),
        lambda: ad.vjp(np.sin, leaked),
        lambda: ad.grad(lambda y: (y, leaked), has_aux=True)(1.0),
        lambda: ad.jvp(lambda y: (y, leaked), (1.0,), (1.0,), has_aux=True),
        lambda: ad.checkpoint(np.sin)(leaked),
    ):
        with complaint(RuntimeError, "had returned", clean=False):
            use()


def test_a_value_of_an_inner_transform_leaks_into_the_outer_one():
    def outer(x):
        kept = []
        ad.grad(lambda y: (kept.append(y), y * x)[1])(2.0)
        return x * kept[0]

    with complaint(RuntimeError, "traced by grad", "had returned"):
        ad.grad(outer)(3.0)
