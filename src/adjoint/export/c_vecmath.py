"""The functions of `vecmath` in C: their LLVM text, translated line by line.

    %t1 = call double @llvm.fma.f64(double %x0, double %t0, double 0x3FF0000000000000)
    const double t1 = fma(x0, t0, 1.0);

A function is straight-line code, with at most one branch, to a slow path for few arguments. Integers are unsigned, of 32 or 64
bits. Two slow paths work with wider ones, and are written here by hand.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..compiler.llvm import vecmath
from ..compiler.llvm.vecmath import coefficients
from ..compiler.lower.kernel import Dtype

if TYPE_CHECKING:
    from .c_source import CSpelling

_TYPES = {"double": "double", "float": "float", "i64": "uint64_t", "i32": "uint32_t", "i1": "bool"}
_SIGNED = {"i64": "int64_t", "i32": "int32_t"}
_ARITHMETIC = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|"}
_ARITHMETIC |= {"xor": "^", "shl": "<<", "lshr": ">>"}
_LOGIC = {"and": "&&", "or": "||", "xor": "!="}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WIDE = ("@adjoint.huge", "@adjoint.rare.log_of_sum.f64", "@adjoint.rare.log_of_sum_two.f64")

_HEAD = re.compile(r"define internal (\w+) (@[\w.]+)\((.*?)\) ")
_LINE = re.compile(r"^  (%[\w.]+) = (\w+) (.*)$")


def define(spelling: CSpelling, name: str, dtype: Dtype, arity: int) -> str:
    """The name of a function of `vecmath`, which is added to the helpers with what it needs."""
    kind = "double" if dtype.itemsize == 8 else "float"
    symbol = f"@adjoint.{name}.{'f64' if kind == 'double' else 'f32'}"
    if _word(symbol) not in spelling.helpers:
        for text in vecmath.definitions([(name, kind, arity)]):
            _add(spelling, text)
    return _word(symbol)


def _add(spelling: CSpelling, text: str) -> None:
    head = _HEAD.match(text)
    if text.startswith("define internal {"):
        _needs(spelling, "to_word64")
        spelling.helper("adjoint_huge", _huge(spelling))
    elif head is not None and head[2] in _WIDE:
        for needed in ("exp", "log1p") if head[2] == _WIDE[1] else ("exp2", "log1p"):
            define(spelling, needed, np.dtype(float), 1)
        spelling.helper(_word(head[2]), _LOG_OF_SUM if head[2] == _WIDE[1] else _LOG_OF_SUM_TWO)
    elif head is not None:
        spelling.helper("muladd", MULADD)
        translated = _Translation(spelling, head, text).text()
        _needs(spelling, *(name for name in _WORDS if name in translated))
        spelling.helper(_word(head[2]), translated)


def _needs(spelling: CSpelling, *names: str) -> None:
    for name in names:
        spelling.helper(name, _WORDS[name])


def _word(symbol: str) -> str:
    return symbol[1:].replace(".", "_")


class _Translation:
    def __init__(self, spelling: CSpelling, head: re.Match[str], text: str) -> None:
        self.spelling, self.head, self.source = spelling, head, text.splitlines()[1:-1]
        self.types: dict[str, str] = {}
        self.lines: list[str] = []
        self.slow: list[str] = []  # lines of the slow path
        self.condition = ""

    def text(self) -> str:
        kind, symbol, given = self.head[1], self.head[2], self.head[3].split(", ")
        parameters = [f"{_TYPES[t]} {self.value(t, n)}" for t, n in (g.split() for g in given)]
        lines = self.lines
        for line in self.source:
            found = _LINE.match(line)
            if found is not None and found[2] == "phi":
                self.merge(found)
                lines = self.lines
            elif found is not None:
                lines.append(f"const {self.instruction(found[1], found[2], found[3])};")
            elif line.startswith("  br i1"):
                self.condition = self.value("i1", line.split()[2].rstrip(","))
                lines = self.slow
            elif line.startswith("  ret"):
                _, t, value = line.split()
                lines.append(f"return {self.value(t, value)};")
        body = "\n".join(f"  {line}" for line in used(self.lines))
        inlined = "static" if ".rare." in symbol else "ADJOINT_INLINE"
        return f"{inlined} {_TYPES[kind]} {_word(symbol)}({', '.join(parameters)}) {{\n{body}\n}}"

    def merge(self, found: re.Match[str]) -> None:
        """The usual value, or that of the slow path."""
        kind, rest = found[3].split(" ", 1)
        usual, slow = (part.split(",")[0].strip("[ ") for part in rest.split("],"))
        name = self.value(kind, found[1])
        self.lines.append(f"{_TYPES[kind]} {name} = {self.value(kind, usual)};")
        inside = " ".join([*self.slow, f"{name} = {self.value(kind, slow)};"])
        self.lines.append(f"if ({self.condition}) {{ {inside} }}")

    def value(self, kind: str, text: str) -> str:
        if text.startswith("%"):
            return text[1:].replace(".", "_")
        if kind in ("double", "float"):
            number = struct.unpack(">d", bytes.fromhex(text[2:].zfill(16)))[0] if text.startswith("0x") else float(text)
            return self.spelling.literal(number, np.dtype(np.float64 if kind == "double" else np.float32))
        if kind == "i1":
            return text if text in ("true", "false") else str(bool(int(text))).lower()
        bits = int(kind[1:])
        number = int(text.removeprefix("u0x"), 16) if text.startswith("u0x") else int(text)
        return f"UINT{bits}_C({number % 2**bits})"

    def instruction(self, name: str, what: str, rest: str) -> str:
        """`type name = expression` of a line."""
        made = self.value("", name)
        if what in _ARITHMETIC:
            words = rest.replace(",", "").split()
            kind, a, b = words[-3:]
            x, y = self.value(kind, a), self.value(kind, b)
            sign = _LOGIC[what] if kind == "i1" else _ARITHMETIC[what]
            return f"{_TYPES[kind]} {made} = {x} {sign} {y}"
        if what == "fneg":
            kind, a = rest.split()
            return f"{_TYPES[kind]} {made} = -{self.value(kind, a)}"
        if what in ("fcmp", "icmp"):
            return f"bool {made} = {self.comparison(what, *rest.replace(',', '').split())}"
        if what == "select":
            condition, yes, no = (part.split() for part in rest.split(", "))
            values = self.value("i1", condition[1]), self.value(yes[0], yes[1]), self.value(no[0], no[1])
            return f"{_TYPES[yes[0]]} {made} = {values[0]} ? {values[1]} : {values[2]}"
        if what == "call":
            return self.call(made, rest)
        if what == "extractvalue":
            value, which = rest.split("} ")[1].split(", ")
            source = self.value("double", value)
            return f"double {made} = {source}.{'nr'[int(which)]}"
        kind, a, _, to = rest.split()
        return f"{_TYPES[to]} {made} = {self.conversion(what, kind, self.value(kind, a), to)}"

    def comparison(self, what: str, how: str, kind: str, a: str, b: str) -> str:
        x, y = self.value(kind, a), self.value(kind, b)
        if how == "uno":
            return f"({x} != {x}) || ({y} != {y})"
        if how == "ord":
            return f"({x} == {x}) && ({y} == {y})"
        if what == "icmp":
            if how[0] == "s" and how != "eq":
                x, y = f"({_SIGNED[kind]}){x}", f"({_SIGNED[kind]}){y}"
            return f"{x} {_COMPARE[how if how in ('eq', 'ne') else how[1:]]} {y}"
        if how[0] == "u" and how != "une":  # true if unordered: the opposite of the ordered opposite
            opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<", "eq": "!="}[how[1:]]
            return f"!({x} {opposite} {y})" if how != "ueq" else f"!({x} < {y} || {x} > {y})"
        if how == "one":
            return f"{x} < {y} || {x} > {y}"
        return f"{x} {_COMPARE[how[1:]]} {y}"

    def conversion(self, what: str, kind: str, x: str, to: str) -> str:
        if what == "bitcast":
            names = {"double": "to_word64", "float": "to_word32", "i64": "from_word64", "i32": "from_word32"}
            return f"{names[kind]}({x})"
        if what == "sitofp":
            return f"({_TYPES[to]})({_SIGNED[kind]}){x}"
        return f"({_TYPES[to]}){x}"

    def call(self, made: str, rest: str) -> str:
        if rest.startswith("{"):
            argument = rest.partition("(")[2].rstrip(")").split()[1]
            return f"struct adjoint_angle {made} = adjoint_huge({self.value('double', argument)})"
        found = re.match(r"(\w+) (@[\w.]+)\((.*)\)", rest)
        assert found is not None, rest
        args = [self.value(*part.split()) for part in found[3].split(", ")]
        kind, symbol = found[1], found[2]
        if symbol.startswith("@llvm."):
            short = symbol.split(".")[1]
            f = "f" if kind == "float" else ""
            if short == "fmuladd":
                return f"{_TYPES[kind]} {made} = MULADD{f.upper()}({', '.join(args)})"
            return f"{_TYPES[kind]} {made} = {short}{f}({', '.join(args)})"
        return f"{_TYPES[kind]} {made} = {_word(symbol)}({', '.join(args)})"


def used(lines: Sequence[str]) -> list[str]:
    """Lines without definitions that no later line uses."""
    kept: list[str] = []
    words: set[str] = set()
    for line in reversed(lines):
        defined = re.match(r" *const (?:struct )?\w+ (\w+) = ", line)
        if defined is None or defined[1] in words:
            kept.append(line)
            words.update(re.findall(r"\w+", line[defined.end() :] if defined else line))
    return kept[::-1]


MULADD = """\
/* Inlined, so that loops over them are vectorized. */
#ifdef __GNUC__
#define ADJOINT_INLINE static inline __attribute__((always_inline))
#else
#define ADJOINT_INLINE static inline
#endif
#ifdef FP_FAST_FMA
#define MULADD(a, b, c) fma(a, b, c)
#else
#define MULADD(a, b, c) ((a) * (b) + (c))
#endif
#ifdef FP_FAST_FMAF
#define MULADDF(a, b, c) fmaf(a, b, c)
#else
#define MULADDF(a, b, c) ((a) * (b) + (c))
#endif"""

_WORDS = {
    "to_word64": "static inline uint64_t to_word64(double x) { uint64_t w; memcpy(&w, &x, sizeof w); return w; }",
    "to_word32": "static inline uint32_t to_word32(float x) { uint32_t w; memcpy(&w, &x, sizeof w); return w; }",
    "from_word64": "static inline double from_word64(uint64_t w) { double x; memcpy(&x, &w, sizeof x); return x; }",
    "from_word32": "static inline float from_word32(uint32_t w) { float x; memcpy(&x, &w, sizeof x); return x; }",
}

_LOG_OF_SUM = """\
static double adjoint_rare_log_of_sum_f64(double a, double b) {
  const double top = a > b ? a : b;
  return top + adjoint_log1p_f64(adjoint_exp_f64((a > b ? b : a) - top));
}"""
_LOG_OF_SUM_TWO = """\
static double adjoint_rare_log_of_sum_two_f64(double a, double b) {
  const double top = a > b ? a : b;
  return top + adjoint_log1p_f64(adjoint_exp2_f64((a > b ? b : a) - top)) * 1.4426950408889634;
}"""


def _huge(spelling: CSpelling) -> str:
    """a modulo π/2, for large a: `adjoint.huge` of `vecmath.remainder`, in words of 64 bits."""
    words = coefficients.TWO_OVER_PI_DIGITS.split()
    high, low = (spelling.literal(x, np.dtype(float)) for x in coefficients.HALF_PI_64[:2])
    table = ",\n  ".join(", ".join(f"UINT64_C(0x{word})" for word in words[i : i + 4]) for i in range(0, len(words), 4))
    return f"""\
static const uint64_t two_over_pi[{len(words)}] = {{
  {table}
}};

static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *high) {{
  const uint64_t mask = UINT64_C(0xFFFFFFFF);
  const uint64_t low = (a & mask) * (b & mask);
  const uint64_t one = (a >> 32) * (b & mask) + (low >> 32);
  const uint64_t two = (a & mask) * (b >> 32) + (one & mask);
  *high = (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);
  return (two << 32) | (low & mask);
}}

struct adjoint_angle {{ double n; double r; }};

static struct adjoint_angle adjoint_huge(double a) {{
  const uint64_t bits = to_word64(a);
  const uint64_t fraction = (bits & UINT64_C({2**52 - 1})) | UINT64_C({2**52});
  const uint64_t first = UINT64_C({64 * (len(words) - 2) + 1075 - 190}) - (bits >> 52);
  const uint64_t *word = two_over_pi + (first >> 6);
  const uint64_t shift = first & 63;
  uint64_t digits[3];
  for (int i = 0; i < 3; ++i) digits[i] = shift ? (word[i] >> shift) | (word[i + 1] << (64 - shift)) : word[i];
  uint64_t carry0, carry1, unused;
  multiply(digits[0], fraction, &carry0);
  const uint64_t middle = multiply(digits[1], fraction, &carry1);
  uint64_t low = carry0 + middle;
  uint64_t high = multiply(digits[2], fraction, &unused) + carry1 + (low < middle);
  const uint64_t n = (high + (UINT64_C(1) << 61)) >> 62;
  high -= n << 62;
  const bool negative = (high >> 63) != 0;
  if (negative) {{
    low = 0 - low;
    high = 0 - high - (low != 0);
  }}
  const double x = (double)(high >> 10) * {spelling.literal(2.0**-52, np.dtype(float))};
  const double y = (double)((low >> 10) | (high << 54)) * {spelling.literal(2.0**-116, np.dtype(float))};
  const double product = x * {high};
  const double error = fma(x, {low}, fma(y, {high}, fma(x, {high}, -product)));
  const struct adjoint_angle angle = {{(double)n, negative ? -(product + error) : product + error}};
  return angle;
}}"""
