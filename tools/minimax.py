"""Write src/adjoint/compiler/llvm/vecmath/coefficients.py: the polynomials of the elementary functions.

    python tools/minimax.py            write the module
    python tools/minimax.py erf sin    print these only

Each polynomial is the minimax one for its weight, by Remez' exchange in 60 digits (Remez 1934; Cheney, Introduction to
Approximation Theory, chapter 3). Coefficients are rounded to the format one by one, from the constant term up, and those that
are still free are fitted again each time, so that little is lost to the rounding (after Brisebarre and Chevillard, "Efficient
polynomial L∞-approximations", 2007, in a simpler form). The bits written beside each table are those of the rounded
polynomial: −log₂ of the greatest weighted error, so 53 (or 24) is half a unit in the last place of a result near 1.
"""

from __future__ import annotations

import argparse
import pathlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp

MODULE = pathlib.Path(__file__).parent.parent / "src" / "adjoint" / "compiler" / "llvm" / "vecmath" / "coefficients.py"
Function = Callable[[Any], Any]
mp.mp.dps = 60


class Target(NamedTuple):
    """The function that a polynomial approximates, the interval, and the weight of the error in the final result."""

    name: str
    says: str
    function: Function
    weight: Function
    low: Any
    high: Any
    degrees: dict[int, int]  # bits of the format: degree


def exp_rest(r: Any) -> Any:
    return mp.fsum(r**k / mp.factorial(k + 2) for k in range(60))


def sin_rest(z: Any) -> Any:
    return mp.fsum((-1) ** (k + 1) * z**k / mp.factorial(2 * k + 3) for k in range(40))


def cos_rest(z: Any) -> Any:
    return mp.fsum((-1) ** k * z**k / mp.factorial(2 * k + 4) for k in range(40))


def sinh_rest(z: Any) -> Any:
    return mp.fsum(z**k / mp.factorial(2 * k + 3) for k in range(40))


def erf_rest(z: Any) -> Any:
    return 2 / mp.sqrt(mp.pi) * mp.fsum((-z) ** k / (mp.factorial(k) * (2 * k + 1)) for k in range(80)) - 1


def atanh_rest(power: int) -> Function:
    """Σ z^k / (2k + 2·power + 1): atanh(√z)/√z without its first terms."""
    return lambda z: mp.fsum(z**k / (2 * k + 2 * power + 1) for k in range(80))


def atan_rest(z: Any) -> Any:
    return -mp.fsum((-z) ** k / (2 * k + 3) for k in range(160))


def asin_rest(z: Any) -> Any:
    if z < mp.mpf("1e-3"):
        return mp.fsum(mp.binomial(2 * k, k) / 4**k * z ** (k - 1) / (2 * k + 1) for k in range(1, 60))
    x = mp.sqrt(z)
    return (mp.asin(x) - x) / x**3


ERFCX_CENTRE = mp.mpf("3.75")


def erfcx_scaled(t: Any) -> Any:
    x = ERFCX_CENTRE * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x) - mp.mpf("1.25")


def one(v: Any) -> Any:
    return mp.mpf(1)


QUARTER = mp.mpf("0.63")  # (π/4)², plus a margin, as the nearest multiple of π/2 is found in rounded arithmetic
HALF_LN2 = mp.mpf("0.34661")
LOG_MIDDLE = mp.mpf(53) / 128  # near √2 − 1, and short

TARGETS = [
    Target("EXP", "(eʳ − 1 − r)/r², |r| ≤ ln 2 / 2", exp_rest, lambda r: r * r / mp.exp(r), -HALF_LN2, HALF_LN2, {64: 9, 32: 4}),
    Target(
        "EXP_QUARTER",
        "2(eʰ − 1 − h − h²/2)/h³, |h| ≤ ln 2 / 8, for the pair of logaddexp",
        lambda h: 2 * mp.fsum(h**k / mp.factorial(k + 3) for k in range(60)),
        lambda h: h * h * HALF_LN2 / 2,  # not less than 4·|h|³/2: the fourth power has four times the error
        -HALF_LN2 / 4,
        HALF_LN2 / 4,
        {64: 6},
    ),
    Target(
        "LOG_THIRDS",
        "(2 atanh(s/2) − s)/s³ in s², |s| ≤ 0.173, for the pair of logaddexp",
        lambda z: atanh_rest(1)(z / 4) / 4,
        lambda z: z,
        mp.mpf(0),
        mp.mpf("0.03"),
        {64: 5},
    ),
    Target(
        "LOG",
        "(log((1+s)/(1−s))/s − 2)/s² in s², |s| ≤ (√2−1)/(√2+1)",
        lambda z: 2 * atanh_rest(1)(z),
        lambda z: z / 2,
        mp.mpf(0),
        mp.mpf("0.02945"),
        {64: 6, 32: 2},
    ),
    Target(
        "LOG_TAIL",
        "(atanh(s)/s − 1 − s²/3)/s⁴ in s², for the pair of the power",
        atanh_rest(2),
        lambda z: z * z,
        mp.mpf(0),
        mp.mpf("0.02945"),
        {64: 7},
    ),
    Target("SIN", "(sin r − r)/r³ in r², |r| ≤ π/4", sin_rest, lambda z: z, mp.mpf(0), QUARTER, {64: 5, 32: 2}),
    Target("COS", "(cos r − 1 + r²/2)/r⁴ in r²", cos_rest, lambda z: z * z * mp.sqrt(2), mp.mpf(0), QUARTER, {64: 5, 32: 2}),
    Target("SINH", "(sinh x − x)/x³ in x², |x| ≤ 1", sinh_rest, lambda z: z, mp.mpf(0), mp.mpf(1), {64: 6, 32: 3}),
    Target("ASIN", "(asin x − x)/x³ in x², |x| ≤ 1/2", asin_rest, lambda z: z, mp.mpf(0), mp.mpf("0.25"), {64: 11, 32: 4}),
    Target("ATAN", "(atan t − t)/t³ in t², |t| ≤ √2−1", atan_rest, lambda z: z, mp.mpf(0), mp.mpf("0.1717"), {64: 10, 32: 4}),
    Target("ERF", "erf(x)/x − 1 in x², |x| ≤ 1", erf_rest, lambda z: 1 / (1 + erf_rest(z)), mp.mpf(0), mp.mpf(1), {64: 12}),
    Target(
        "ERFCX",
        "(1+2x) exp(x²) erfc(x) − 5/4 in t = (x−3.75)/(x+3.75), 1/2 ≤ x ≤ 28 (Shepherd, Laframboise 1981)",
        erfcx_scaled,
        one,
        mp.mpf("-0.765"),
        mp.mpf("0.765"),
        {64: 22},
    ),
    Target("CBRT", "m^(−1/3), 1 ≤ m ≤ 2", lambda m: m ** (-mp.mpf(1) / 3), lambda m: mp.cbrt(m), mp.mpf(1), mp.mpf(2), {64: 6}),
]


def rounded(value: Any, bits: int) -> Any:
    """The nearest number of the format."""
    return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0]) if bits == 32 else mp.mpf(float(value))


def evaluate(coefficients: list[Any], v: Any) -> Any:
    return mp.polyval(coefficients[::-1], v)


def remez(function: Function, weight: Function, low: Any, high: Any, powers: list[int]) -> list[Any]:
    """The coefficients of v^powers that make the greatest |w·(p − f)| least: Remez' exchange.

    >>> [round(float(c), 3) for c in remez(mp.sqrt, one, mp.mpf(0), mp.mpf(1), [0, 1])]
    [0.125, 1.0]
    """
    count = len(powers) + 1
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    grid = [middle - half * mp.cos(mp.pi * i / (24 * count)) for i in range(24 * count + 1)]
    targets, weights = [function(v) for v in grid], [weight(v) for v in grid]
    solution: list[Any] = []
    for _ in range(12):
        matrix = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, v in enumerate(nodes):
            for j, power in enumerate(powers):
                matrix[i, j] = v**power
            # A weight that vanishes at an end would divide by zero: the error there does not matter.
            matrix[i, count - 1] = (-1) ** i / max(weight(v), mp.mpf("1e-30"))
            right[i] = function(v)
        answer = mp.lu_solve(matrix, right)
        solution = [answer[j] for j in range(count - 1)]
        level = abs(answer[count - 1])
        fitted = [mp.fsum(c * v**p for c, p in zip(solution, powers, strict=True)) for v in grid]
        errors = [w * (p - f) for w, p, f in zip(weights, fitted, targets, strict=True)]
        nodes, peaks = extremes(grid, errors, count)
        if max(peaks) < level * mp.mpf("1.01"):
            break
    return solution


def extremes(grid: list[Any], errors: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    """The points of greatest error in each run of one sign, cut to `count` of them by dropping the smaller end."""
    best: list[int] = []
    for i in range(len(grid)):
        if best and mp.sign(errors[best[-1]]) == mp.sign(errors[i]):
            if abs(errors[i]) > abs(errors[best[-1]]):
                best[-1] = i
        elif errors[i] != 0:
            best.append(i)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    if len(best) < count:
        raise ArithmeticError(f"only {len(best)} alternations of {count}: the function or its weight is wrong")
    return [grid[i] for i in best], [abs(errors[i]) for i in best]


def fit(target: Target, bits: int) -> tuple[list[Any], float]:
    """The coefficients in the format, and the bits that they reach."""
    degree = target.degrees[bits]
    fixed: list[Any] = []
    # The leading coefficients matter most and are rounded one by one; the tail is rounded at once. Where the error matters at
    # zero, higher powers cannot correct a rounded constant, and all are rounded at once.
    one_by_one = 0 if target.low <= 0 <= target.high and target.weight(mp.mpf(0)) != 0 else 3
    while len(fixed) <= degree:
        powers = list(range(len(fixed), degree + 1))

        def remaining(v: Any, known: tuple[Any, ...] = tuple(fixed)) -> Any:
            return target.function(v) - (evaluate(list(known), v) if known else 0)

        solution = remez(remaining, target.weight, target.low, target.high, powers)
        if len(fixed) < one_by_one:
            fixed.append(rounded(solution[0], bits))
        else:
            fixed += [rounded(c, bits) for c in solution]
    points = [target.low + (target.high - target.low) * mp.mpf(i) / 2000 for i in range(2001)]
    worst = max(abs(target.weight(v) * (evaluate(fixed, v) - target.function(v))) for v in points)
    return fixed, float(-mp.log(worst, 2))


def table(target: Target, bits: int) -> str:
    coefficients, reached = fit(target, bits)
    lines = "".join(f"    {float(c)!r},\n" for c in coefficients)
    note = f"# {target.says}: {reached:.1f} bits on [{mp.nstr(target.low, 5)}, {mp.nstr(target.high, 5)}]\n"
    return f"{note}{target.name}_{bits} = (\n{lines})\n"


# Constants as sums of two or three numbers of the format. Those that are multiplied by an exponent have a short first part, so
# that the product is exact.
CONSTANTS: list[tuple[str, Any, int, int]] = [  # name, value, parts, bits cut from the first part
    ("LN2", mp.log(2), 2, 0),
    ("LN2_SHORT", mp.log(2), 2, 12),
    ("LN2_QUARTER", mp.log(2) / 4, 2, 0),
    ("LOG_MIDDLE", mp.log(1 + LOG_MIDDLE), 2, 0),
    ("LOG2_E", 1 / mp.log(2), 2, 0),
    ("LOG10_2_SHORT", mp.log10(2), 2, 12),
    ("LOG10_E", 1 / mp.log(10), 2, 0),
    ("HALF_PI", mp.pi / 2, 3, 0),
    ("QUARTER_PI", mp.pi / 4, 2, 0),
    ("TWO_OVER_PI", 2 / mp.pi, 1, 0),
    ("THIRD", mp.mpf(1) / 3, 2, 0),
]


def parts(value: Any, count: int, bits: int, cut: int) -> list[float]:
    """`value` as a sum of `count` numbers of the format, the first without its last `cut` bits."""
    first = mp.mpf(mp.nint(mp.ldexp(value, keep := (53 if bits == 64 else 24) - cut - 1)))
    found = [rounded(mp.ldexp(first, -keep) if cut else value, bits)]
    while len(found) < count:
        found.append(rounded(value - mp.fsum(found), bits))
    return [float(part) for part in found]


def constants() -> str:
    lines = []
    for name, value, count, cut in CONSTANTS:
        for bits in (64, 32):
            numbers = ", ".join(repr(part) for part in parts(value, count, bits, cut // (1 if bits == 64 else 2)))
            lines.append(f"{name}_{bits} = {numbers if count == 1 else f'({numbers})'}\n")
    return "# Constants and what is left of them after rounding\n" + "".join(lines)


def binary_digits() -> str:
    """2/π as 64-bit words, the last digits first, and two words of zeros: for arguments of every size (Payne and Hanek 1983)."""
    count = 20
    with mp.workprec(64 * count + 64):
        digits = int(mp.floor(mp.ldexp(2 / mp.pi, 64 * count)))
    words = [*((digits >> 64 * i) & (2**64 - 1) for i in range(count)), 0, 0]
    rows = "".join(" ".join(f"{w:016X}" for w in words[i : i + 6]) + "\n" for i in range(0, len(words), 6))
    title = "# The binary digits of 2/π, from the last word to the first, and two words of zeros"
    return f'{title}\nTWO_OVER_PI_DIGITS = """\n{rows}"""\n'


HEADER = '''\
"""Coefficients of the elementary functions, constant term first. Made by tools/minimax.py; do not edit."""

'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="print only these")
    names = [name.upper() for name in parser.parse_args().names]
    chosen = [target for target in TARGETS if not names or target.name in names]
    tables = [table(target, bits) for target in chosen for bits in target.degrees]
    if names:
        print("\n".join(tables))
    else:
        MODULE.write_text(HEADER + "\n".join([*tables, constants(), binary_digits()]))


if __name__ == "__main__":
    main()
