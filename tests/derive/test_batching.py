"""The batched form of an op, and the type rule that follows from it."""

import numpy as np
import pytest

from adjoint.core.errors import ShapeError
from adjoint.core.op import OPS
from adjoint.core.types import Type
from adjoint.derive.batching import batched, type_rule

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shapes", [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((), (3,)), ((2, 1), (1, 3))])
def test_elementwise_ops_broadcast_within_each_example(flags, shapes):
    args = [RNG.normal(size=(5, *shape) if flag else shape) for flag, shape in zip(flags, shapes, strict=True)]
    found = batched(OPS["arctan2"], flags, args, {})
    for i in range(5):
        one = [x[i] if flag else x for flag, x in zip(flags, args, strict=True)]
        np.testing.assert_array_equal(found[i], np.arctan2(*one))


@pytest.mark.parametrize("axis", [(0,), (1,), (-1,), (0, 1), (-2, -1)])
def test_axes_move_on_by_one(axis):
    x = RNG.normal(size=(4, 2, 3))
    found = batched(OPS["sum"], (True,), [x], {"axis": axis, "keepdims": False})
    np.testing.assert_allclose(found, np.stack([np.sum(part, axis=axis) for part in x]))


FLOAT, SINGLE, WHOLE = (np.dtype(kind) for kind in (float, np.float32, np.int64))


@pytest.mark.parametrize(
    "name, types, numbers, expected",
    [
        ("add", [Type((2, 1), FLOAT), Type((3,), SINGLE)], None, Type((2, 3), FLOAT)),
        ("add", [Type((2,), SINGLE), Type((), FLOAT)], [None, 1.5], Type((2,), SINGLE)),  # a Python number is weak
        ("add", [Type((2,), WHOLE), Type((), FLOAT)], [None, 1.5], Type((2,), FLOAT)),
        ("less", [Type((0, 2), FLOAT), Type((), FLOAT)], None, Type((0, 2), np.dtype(bool))),
    ],
)
def test_types(name, types, numbers, expected):
    assert type_rule(OPS[name], types, {}, numbers) == expected
    assert type_rule(OPS[name], types, {}, numbers) == expected  # as it was kept


def test_shape_errors_leave_out_the_batch_axis():
    with pytest.raises(ShapeError, match=r"add does not take arguments of the shapes \(2,\), \(3,\): they do not broadcast"):
        type_rule(OPS["add"], [Type((2,), FLOAT), Type((3,), FLOAT)], {})
