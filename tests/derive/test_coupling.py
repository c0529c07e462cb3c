"""Which elements of an argument the live elements of a result depend on: the declarations against the rules themselves."""

import numpy as np
import pytest

import adjoint.scipy.special  # noqa: F401  - whose ops are in the table then
from adjoint.core.op import OPS, Opaque, find
from adjoint.core.types import Type
from adjoint.derive import coupled, plan
from adjoint.derive.coupling import core, is_declared

find("no such op")  # loads the table
COUPLING = [op for op in OPS.values() if isinstance(op, Opaque) and op.cases and op.vjp and not op.choice]


@pytest.mark.parametrize("op", COUPLING, ids=lambda op: op.name)
def test_an_element_that_the_rule_reaches_is_live(op):
    """Where the cotangent of one element of a result gives a cotangent that is not 0, the mask is true."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for case in op.cases[:3]:
            xs = case.draw(op.domain, rng)
            y = op.impl(*xs, **case.params)
            ys = y if op.many else (y,)
            wanted = [i for i, x in enumerate(xs) if np.asarray(x).dtype.kind == "f"]
            step = plan(op, len(xs), sum(1 << i for i in wanted))
            types = [Type.of(xs[i]) for i in wanted]
            for number, result in enumerate(ys):
                if np.asarray(result).dtype.kind not in "fc" or np.size(result) == 0:
                    continue
                live = np.zeros(np.shape(result), bool)
                live.flat[0] = True
                gs = [np.zeros(np.shape(r), np.asarray(r).dtype) for r in ys]
                gs[number] = np.where(live, 1.5, 0.0).astype(np.asarray(result).dtype)
                pulled = step.pull(tuple(gs) if op.many else gs[0], (y, *xs), types, case.params)
                for i, part in zip(wanted, pulled, strict=True):
                    mask = coupled(op, case.params, number, i, live, np.shape(result), np.shape(xs[i]))
                    assert np.shape(mask) == np.shape(xs[i])
                    assert part is None or not np.any((np.asarray(part) != 0) & ~np.asarray(mask))


def masked(name, live, parent, result=0, argument=0, **params):
    return coupled(OPS[name], params, result, argument, np.array(live), np.shape(live), parent).tolist()


def test_what_is_coupled():
    assert masked("prod", [True, False], (2, 3), axis=1) == [[True] * 3, [False] * 3]
    assert masked("cumprod", [[True, False], [False, False]], (2, 2), axis=1) == [[True, True], [False, False]]
    assert masked("norm", [[True, False]], (2, 2), axis=(0,), keepdims=True) == [[True, False]] * 2
    assert masked("inv", [[[True, False]] * 2, [[False, False]] * 2], (2, 2, 2)) == [[[True] * 2] * 2, [[False] * 2] * 2]
    assert masked("det", [True, False], (2, 1, 1)) == [[[True]], [[False]]]
    assert masked("sici", [True, False], (2,)) == [True, False]
    assert masked("solve", [[[True]], [[False]]], (1, 1)) == [[True]]  # a matrix that both examples share


def test_the_axes_of_one_example():
    assert core(OPS["inv"]) == ((2,), (2,))
    assert core(OPS["slogdet"]) == ((2,), (0, 0))
    assert core(OPS["sici"]) == ((0,), (0, 0))


def test_nothing_is_declared_of_a_custom_rule():
    assert not is_declared(Opaque("rule", np.sin, None, None))
    assert is_declared(OPS["prod"])
