"""The functions of scalar code in C: those of libm, or `vecmath` translated ("exact").

exp(x)          math="libm"
adjoint_exp(x)  math="exact": the code that jit has, from its LLVM text to C
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..compiler.lower.kernel import Dtype
from .c_vecmath import define
from .spelling import MATH

if TYPE_CHECKING:
    from .c_source import CSpelling

_SAME = """
sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot erf erfc floor ceil trunc rint
"""
_LIBM = {**{name: name for name in _SAME.split()}, **MATH, "power": "pow", "abs": "fabs", "fmod": "fmod"}
_EXACT = frozenset({"sqrt", "floor", "ceil", "trunc", "rint", "abs", "fmod"})  # rounded correctly by every library
_COMPOSED = {
    "expit": """\
static REAL NAME(REAL x) {
  const REAL e = EXP(-FABS(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}""",
    "logaddexp": """\
static REAL NAME(REAL a, REAL b) {
  const REAL top = a > b ? a : b;
  const REAL low = a > b ? b : a;
  if (a == b) return a + LN2;
  if (a != a || b != b) return a + b;
  return top + LOG1P(EXP(low - top));
}""",
    "logaddexp2": """\
static REAL NAME(REAL a, REAL b) {
  const REAL top = a > b ? a : b;
  const REAL low = a > b ? b : a;
  if (a == b) return a + 1;
  if (a != a || b != b) return a + b;
  return top + LOG1P(EXP2(low - top)) * RECIPROCAL;
}""",
}


#: Loops with a function that may set errno are not vectorized, and gcc's option against it does not count inside a file.
_SQRT = """\
#ifdef __GNUC__
{kind} sqrt{f}({kind}) __attribute__((const));
#endif"""


def call(spelling: CSpelling, name: str, args: Sequence[str], dtype: Dtype) -> str:
    """The call of a function of floats."""
    if spelling.exact and name not in _EXACT:
        return f"{define(spelling, name, dtype, len(args))}({', '.join(args)})"
    f = "" if dtype.itemsize == 8 else "f"
    if name == "sqrt":
        spelling.helper(f"sqrt{f}", _SQRT.format(kind="float" if f else "double", f=f))
    if name.startswith("power."):
        return f"pow{f}({args[0]}, {spelling.literal(int(name[6:].replace('minus.', '-')), dtype)})"
    if name in _LIBM:
        return f"{_LIBM[name]}{f}({', '.join(args)})"
    made = f"adjoint_{name}{f}"
    text = _COMPOSED[name].replace("REAL", "double" if not f else "float").replace("NAME", made)
    for word, value in (("LN2", 0.6931471805599453), ("RECIPROCAL", 1.4426950408889634)):
        text = text.replace(word, spelling.literal(value, dtype))
    for word in ("EXP2", "LOG1P", "FABS", "EXP"):
        text = text.replace(word, word.lower() + f)
    return f"{spelling.helper(made, text)}({', '.join(args)})"
