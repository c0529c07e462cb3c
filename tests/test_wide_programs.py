"""Random programs over all dtypes (see `wide.py`): as those of mixed dtypes are checked, and under nested transforms.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz wide` runs any range of seeds.
"""

import numpy as np
import pytest
import test_mixed_programs as mixed
from night import asked
from wide import Program

import adjoint as ad

ASKED = asked(100)
CHUNK = 25


class Nested:
    """Transforms of transforms of a program, as functions of its two arguments."""

    def pullback_along(self, x, y):
        """The tangent of a pullback, in its primals and its cotangent."""

        def slopes(g, *xs):
            value, pull = ad.vjp(self.of_chosen((x, y)), *xs)
            return pull(g.astype(value.dtype))

        return ad.jvp(slopes, (np.float64(1.25), *self.chosen((x, y))), (np.float64(0.5), *self.directions((x, y))))

    def third(self, x, y):
        """The tangent of the tangent of the gradient."""
        vs = self.directions((x, y))
        slope = ad.grad(self.of_chosen((x, y)), tuple(range(len(vs))))
        return ad.jvp(lambda *xs: ad.jvp(slope, xs, vs)[1], self.chosen((x, y)), vs)

    def gradients_of_rows(self, x, y):
        return ad.vmap(ad.grad(self.scalar, self.where))(*mixed.rows(x, y))

    def tangents_of_rows(self, x, y):
        """Of a batch of tangents at one point."""
        vs = tuple(np.stack([v, v * 0.5]) for v in self.directions((x, y)))
        push = lambda *vs: ad.jvp(self.of_chosen((x, y)), self.chosen((x, y)), vs)[1]
        return ad.vmap(push)(*vs)


class Asked(Nested, mixed.Asked):
    """What is asked of a compiled program."""


class Eager(Nested, mixed.Eager):
    """What is asked of an eager one."""

    def second_order(self, args):
        super().second_order(args)
        if any(np.asarray(a).dtype.kind == "c" for a in self.chosen(args)):
            return
        (_, found), (_, wanted) = self.pullback_along(*args), self.curvature(*args)
        slopes = ad.grad(self.of_chosen(args), tuple(range(len(self.where))))(*self.chosen(args))
        wanted = tuple((1.25 * h + 0.5 * g).astype(h.dtype) for h, g in zip(wanted, slopes, strict=True))
        mixed.agree(found, wanted, "tangent of a pullback", 10 * self.tolerance())

    def batched(self, call):
        super().batched(call)
        args = self.ours.prepare(call)
        tangents = self.tangents_of_rows(*args)
        _, tangent = self.tangent(*args)
        mixed.agree(tangents, np.stack([tangent, tangent * 0.5]), "batch of tangents", 10 * self.tolerance())


COMPILED = (*mixed.COMPILED, "pullback_along", "third", "gradients_of_rows", "tangents_of_rows")


def check_eager(seed):
    mixed.check_eager(seed, Program, Eager)


def check_compiled(seed):
    mixed.check_compiled(seed, Program, Asked, COMPILED)


@pytest.mark.parametrize("start", range(0, ASKED, CHUNK))
def test_programs(start):
    for seed in range(start, start + CHUNK):
        check_eager(seed)


@pytest.mark.parametrize("start", range(0, ASKED // 6, CHUNK))
def test_compiled_programs(start):
    for seed in range(start, start + CHUNK):
        check_compiled(seed)
