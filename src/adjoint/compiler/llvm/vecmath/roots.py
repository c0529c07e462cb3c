"""Square and cube roots, and the length of a vector."""

from __future__ import annotations

import math

from adjoint.compiler.llvm.vecmath import coefficients as table
from adjoint.compiler.llvm.vecmath.logarithm import split
from adjoint.compiler.llvm.vecmath.pair import Pair, ordered_sum, pair_root, product
from adjoint.compiler.llvm.vecmath.scalar import Scalar, copysign, fma, horner, magnitude, nearest, scaled, select, square_root


def sqrt(x: Scalar) -> Scalar:
    return square_root(x)


def cbrt(x: Scalar) -> Scalar:
    """From a polynomial for m^(−1/3), one step of third order, and one of Newton with an exact remainder."""
    a = magnitude(x)
    k, m = split(a, 1.0)
    third = nearest((k - 1.0) * (1 / 3))
    rest = k - third * 3.0  # 0, 1 or 2
    one, two = rest.equals(1.0), rest.equals(2.0)
    guess = horner(m, table.CBRT_64)
    guess = guess * select(one, x.constant(2 ** (-1 / 3)), select(two, x.constant(2 ** (-2 / 3)), 1.0))
    m = m * select(one, x.constant(2.0), select(two, x.constant(4.0), 1.0))
    error = fma(-(m * guess), guess * guess, 1.0)
    inverse = fma(guess * error, fma(error, 2 / 9, 1 / 3), guess)
    square = inverse * inverse
    root = m * square
    exact = product(root, root)
    excess = fma(exact.high, root, -m) + exact.low * root
    root = fma(excess * square, -1 / 3, root)
    ordinary = (a > 0.0) & (a < math.inf)
    return copysign(select(ordinary, scaled(root, third), a), x)


def hypot(x: Scalar, y: Scalar) -> Scalar:
    """√(x² + y²) as a pair, scaled by a power of two where squares would overflow or underflow."""
    a, b = magnitude(x), magnitude(y)
    large, small = select(a < b, b, a), select(a < b, a, b)
    reach = 2.0 ** (x.format.bias // 2 - 30)
    up, down = large < 1 / reach, large > reach
    factor = 2.0 ** (x.format.bias * 5 // 8)
    scale = select(down, x.constant(1 / factor), select(up, x.constant(factor), 1.0))
    back = select(down, x.constant(factor), select(up, x.constant(1 / factor), 1.0))
    large, small = large * scale, small * scale
    first, second = product(large, large), product(small, small)
    total, error = ordered_sum(first.high, second.high)
    root = pair_root(Pair(total, error + (first.low + second.low)))
    value = (root.high + root.low) * back
    return select(a.equals(math.inf) | b.equals(math.inf), math.inf, value)
