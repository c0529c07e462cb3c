"""Ops on integers. They have no derivative; traced integers occur inside vmap, where each op runs on the whole batch."""

from __future__ import annotations

import operator

import numpy as np

from ..core.op import case
from .declare import constant

_PAIR = case(np.array([6, 4]), np.array([2, 3]))

gcd = constant("gcd", np.gcd, cases=[_PAIR])
lcm = constant("lcm", np.lcm, cases=[_PAIR])
left_shift = constant("left_shift", operator.lshift, cases=[_PAIR], cost=1, scalar="bits.left")
right_shift = constant("right_shift", operator.rshift, cases=[_PAIR], cost=1, scalar="bits.right")
bitwise_count = constant("bitwise_count", np.bitwise_count, cases=[case(np.array([6, 4]))])
