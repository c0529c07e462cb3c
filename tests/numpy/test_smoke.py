import numpy as np

from harness import check


def test_harness():
    check(lambda x, w: np.tanh(x @ w).sum(axis=0), np.ones((2, 3)) * 0.3, np.arange(6.0).reshape(3, 2) / 7)
