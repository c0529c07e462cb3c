import numpy as np
from harness import check, draw

import adjoint as ad

RNG = np.random.default_rng(3)
W = draw(RNG, (3,))
Z = draw(RNG, (4,), dtype=complex)


def test_ends_of_grids():
    check(lambda a, b: [np.linspace(a, b, 5), np.linspace(a, b, 4, endpoint=False), np.linspace(a, b, 1)], 0.3, 2.0)
    check(lambda a, b: np.linspace(a, b, 5, retstep=True), 0.3, 2.0)
    check(lambda a, b: [np.linspace(a, b, 3), np.linspace(a, b[0], 3, axis=-1)], W, W**2)
    check(lambda a, b: [np.logspace(a, b, 4), np.logspace(a, b, 3, base=2.0, endpoint=False)], 0.3, 1.2)
    check(lambda a, b, c: np.logspace(a, b, 4, base=c), 0.3, 1.2, 3.0)
    check(lambda a, b: [np.geomspace(a, b, 4), np.geomspace(-a, -b, 4), np.geomspace(a, 5.0, 3)], 0.3, 1.2)
    check(lambda a, b: np.geomspace(a, b, 4, axis=1), np.abs(W) + 0.1, np.abs(W) + 2)
    check(lambda z: np.linspace(z[0], z[1], 4), Z)
    check(lambda z: np.geomspace(z[0], z[1], 4), Z)
    assert ad.vjp(lambda a: np.linspace(a, 1, 3), np.float32(0))[0].dtype == np.linspace(np.float32(0), 1, 3).dtype
    x = ad.vjp(lambda a: np.linspace(a, 0.7, 7), 0.1)[0]
    assert x[0] == 0.1
    assert x[-1] == 0.7
