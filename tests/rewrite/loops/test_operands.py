"""The table of operands: what each column is, and which iterations fit."""

import numpy as np

from adjoint.rewrite.loops.operands import OperandKind, Operands
from adjoint.rewrite.loops.roles import RowSource

NO_ROWS = np.full(100, -1, np.int64)


def table_of(*columns, rows=NO_ROWS, first_value=10, stride=2):
    return Operands(np.array(columns, np.int64).T, first_value, stride, rows)


def test_the_kinds_of_columns():
    rows = NO_ROWS.copy()
    rows[2:8] = 5
    found = table_of(
        [0, 11, 13, 15, 17, 19],  # the second value of the iteration before
        [10, 12, 14, 16, 18, 20],  # the first value of the same one
        [1, 1, 1, 1, 1, 1],
        [-1, -2, -3, -1, -1, -2],
        [2, 3, 4, 5, 6, 7],
        [9, 0, 8, 9, 1, 0],
        rows=rows,
    )
    kinds = OperandKind
    assert found.kind.tolist() == [kinds.COMPUTED, kinds.COMPUTED, kinds.INVARIANT, kinds.CONSTANT, kinds.ROW, kinds.UNKNOWN]
    assert found.offset[:2].tolist() == [1, 0]
    assert found.lag[:2].tolist() == [1, 0]
    assert found.source[4] == 5
    assert found.fits.all(axis=0).tolist() == [False, True, True, True, True, False]
    assert found.misfit() == (3, 5)


def test_an_iteration_in_which_a_carry_starts_is_the_first():
    found = table_of([0, 11, 13, 15, 17, 19], [1] * 6)
    assert found.longest_fit() == (0, 6)
    assert found.initial(0, 6) == {(1, 1): 0}
    assert table_of([-1, 11, 13, 15, 17, 19], [1] * 6).longest_fit() == (1, 6)  # not from a constant


def test_lags():
    found = table_of([0, 1, 11, 13, 15, 17, 19], [1, 11, 13, 15, 17, 19, 21])
    assert found.lag.tolist() == [2, 1]
    assert found.longest_fit() == (1, 7)
    assert found.initial(1, 7) == {(1, 2): 1, (1, 1): 11}
    assert table_of([0, 1, 11, 13, 15, 17, 19], [2, 11, 13, 15, 17, 19, 21]).initial(0, 7) is None  # two starts of one carry


def test_iterations_that_feed_all_others():
    found = table_of([10] * 6, [10, 12, 14, 16, 18, 20])
    assert found.feeds_all(0, {})
    assert not found.feeds_all(1, {})
    rows = NO_ROWS.copy()
    rows[2:8] = 5
    found = table_of([2, 3, 4, 5, 6, 7], rows=rows)
    assert found.feeds_all(0, {5: RowSource(11, (slice(None),), 0)})
    assert not found.feeds_all(0, {5: RowSource(1, (slice(None),), 0)})
