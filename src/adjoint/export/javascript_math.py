"""Functions that JavaScript lacks, or that V8 has slow ones for, as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ..compiler.llvm.vecmath import coefficients


def _series(variable: str, numbers: Sequence[float]) -> str:
    """A polynomial by Horner's rule, the coefficient of the lowest power first."""
    text = repr(float(numbers[-1]))
    for number in reversed(numbers[:-1]):
        text = f"({text}) * {variable} + {float(number)!r}"
    return text


def _polynomial(numbers: Sequence[float]) -> str:
    """A polynomial in t as four in q = t^4, which do not wait for each other; w = t^2."""
    first, second, third, fourth = (_series("q", numbers[i::4]) for i in range(4))
    return f"{first} + t * ({second}) +\n    w * ({third} + t * ({fourth}))"


def _table(numbers: Sequence[float]) -> str:
    rows = [", ".join(map(repr, numbers[i : i + 6])) for i in range(0, len(numbers), 6)]
    return ",\n  ".join(rows)


HELPERS = {
    "exponential": f"""\
const powers_of_two = new Float64Array(2046);
for (let k = 0, power = 2.2250738585072014e-308; k < 2046; ++k, power *= 2) powers_of_two[k] = power;

const roots_of_two = new Float64Array([
  {_table([float(Decimal(2) ** (Decimal(j) / 64)) for j in range(64)])}
]);

function exponential(x) {{  // x = (64 k + j) ln(2)/64 + r; to 1.3 units in the last place
  if (!(x > -708 && x < 709)) return Math.exp(x);
  const n = x * 92.33248261689366 + 6755399441055744 - 6755399441055744, i = n | 0;
  const r = x - n * 0.010830424696223417 - n * 2.572804622327669e-14;
  const t = roots_of_two[i & 63];
  const p = r + r * r * (0.5 + r * (0.16666666666666666 + r * (0.041666666666666664 + r * 0.008333333333333333)));
  return (t + t * p) * powers_of_two[(i >> 6) + 1022];
}}""",
    "hyperbolic_tangent": """\
function hyperbolic_tangent(x) {
  const a = Math.abs(x);
  if (a < 0.55) {  // Lambert's continued fraction
    const s = x * x;
    const top = 34459425 + s * (4729725 + s * (135135 + s * (990 + s)));
    return x * (top / (34459425 + s * (16216200 + s * (945945 + s * (13860 + s * 45)))));
  }
  if (!(a < 20)) return x < 0 ? -1 : x > 0 ? 1 : x;
  return x / a * (1 - 2 / (exponential(2 * a) + 1));  // x / a is the sign: no branch, which processors would mispredict
}""",
    "to_single": """\
function to_single(x) {  // of a BigInt: the bits that a double has no room for round a single all the same
  return x < 9007199254740992n ? Number(x) : Number(x >> 11n | ((x & 2047n) === 0n ? 0n : 1n)) * 2048;
}""",
    "exact": """\
function exact(x) {  // an int64
  if (x > -9007199254740992 && x < 9007199254740992) return x + 0;
  throw new RangeError("an int64 has reached 2^53, where numbers of JavaScript are no longer exact; WebAssembly has all 64 bits");
}""",
    "numbers_of": """\
function numbers_of(kind, text) {  // from base64; all processors that run JavaScript are little-endian
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}""",
    "rint": """\
function rint(x) {
  if (Math.abs(x) >= 4503599627370496 || x !== x) return x;
  const shifter = x < 0 ? -4503599627370496 : 4503599627370496;
  const y = x + shifter - shifter;
  return y === 0 ? (x < 0 || 1 / x < 0 ? -0 : 0) : y;
}""",
    "power": """\
function power(x, y) {
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y);
}""",
    "expit": """\
function expit(x) {
  return x < -700 ? exponential(x) : 1 / (1 + exponential(-x));
}""",
    "logaddexp": """\
function logaddexp(a, b) {
  if (a === b) return a + Math.LN2;
  if (a !== a || b !== b) return NaN;
  return a > b ? a + Math.log1p(exponential(b - a)) : b + Math.log1p(exponential(a - b));
}""",
    "logaddexp2": """\
function logaddexp2(a, b) {
  if (a === b) return a + 1;
  if (a !== a || b !== b) return NaN;
  return (a > b ? a : b) + Math.log1p(Math.pow(2, -Math.abs(a - b))) * Math.LOG2E;
}""",
    "growth": f"""\
function growth(a) {{  // (1 + 2 a) exp(a^2) erfc(a)
  const t = (a - 3.75) / (a + 3.75), w = t * t, q = w * w;
  return 1.25 + ({_polynomial(coefficients.ERFCX_64)});
}}""",
    "small": f"""\
function small(a) {{  // erf(a) - a, for |a| <= 1
  const t = a * a, w = t * t, q = w * w;
  return a * ({_polynomial(coefficients.ERF_64)});
}}""",
    "erf": """\
function erf(x) {
  const a = Math.abs(x);
  if (a <= 1 || a !== a) return x + small(x);
  if (a > 6.5) return x < 0 ? -1 : 1;
  return x / a * (1 - exponential(-a * a) * growth(a) / (1 + 2 * a));  // x / a is the sign
}""",
    "exp_of_square": """\
function exp_of_square(a) {  // exp(-a^2), of the square without its rounding error
  const high = Math.fround(a);
  return exponential(-high * high) * exponential(-(a - high) * (a + high));
}""",
    "erfc": """\
function erfc(x) {
  const a = Math.abs(x);
  if (a < 0.5 || a !== a) return 1 - x - small(x);
  const y = a > 28 ? 0 : exp_of_square(a) * growth(a) / (1 + 2 * a);
  return x < 0 ? 2 - y : y;
}""",
}
_ERROR = ("growth", "small", "exponential")
NEEDS = {"erf": _ERROR, "erfc": (*_ERROR, "exp_of_square")}
NEEDS |= dict.fromkeys(("expit", "logaddexp", "hyperbolic_tangent"), ("exponential",))
#: Functions that V8 has slow ones for.
OURS = {"exp": "exponential", "tanh": "hyperbolic_tangent"}
