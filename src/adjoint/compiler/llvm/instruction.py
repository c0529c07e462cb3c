"""Scalar operations as LLVM instructions, for each dtype."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..lower import special
from ..lower.kernel import STARTS, Buffer, Dtype
from .builder import Builder

#: The LLVM types in a register and in memory, by dtype (NumPy takes 10 µs for a name): a bool is i1 or i8.
REGISTER: dict[Dtype, str] = {np.dtype(np.float64): "double", np.dtype(np.float32): "float", np.dtype(np.bool_): "i1"}
REGISTER[np.dtype(np.float16)] = "half"
REGISTER |= {np.dtype(f"{sign}int{bits}"): f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)
MEMORY = {**REGISTER, np.dtype(np.bool_): "i8"}
_SUFFIX = {"double": "f64", "float": "f32", **{f"i{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}}
_COMPARE = {
    "equal": ("oeq", "eq", "eq"),
    "not_equal": ("une", "ne", "ne"),
    "less": ("olt", "slt", "ult"),
    "less_equal": ("ole", "sle", "ule"),
    "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"),
}
_C_TYPES = {"f": "float", "d": "double", "l": "i64"}
_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven"}


def is_number(buffer: Buffer) -> bool:
    """Whether a buffer is one number that a register holds."""
    return buffer.size == 1 and buffer.dtype in MEMORY and not buffer.shared


def literal(value: Any, dtype: Dtype) -> str:
    """A number as LLVM writes it; floats by their bits."""
    if dtype == _HALF:
        return "0xH" + struct.pack(">e", dtype.type(value)).hex().upper()
    if dtype.kind == "f":
        return "0x" + struct.pack(">d", float(dtype.type(value))).hex().upper()
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(value))


class VecmathFunction(NamedTuple):
    """A function of `vecmath` that some code calls."""

    name: str
    kind: str
    arity: int
    apart: bool

    @property
    def inlined(self) -> str:
        return f"@adjoint.{self.name}.{_SUFFIX[self.kind]}"

    @property
    def symbol(self) -> str:
        return f"{self.inlined}.apart" if self.apart else self.inlined

    def define(self) -> str:
        """An out-of-line function that calls the inlined one."""
        arguments = ", ".join(f"{self.kind} %x{i}" for i in range(self.arity))
        call = f"  %y = call {self.kind} {self.inlined}({arguments})"
        head = f"define internal {self.kind} {self.symbol}({arguments}) nounwind noinline {{"
        return "\n".join([head, call, f"  ret {self.kind} %y", "}"])


class Code(Builder):
    """A function that computes numbers: the intrinsics it declares, and the functions of `vecmath` it calls."""

    def __init__(self, apart: bool = False, form: Callable[[str, str], str] = lambda name, kind: name) -> None:
        super().__init__()
        self.apart = apart  # call functions out of line: the code runs a few times only
        self.form = form  # the name of the function to call, by its usual name and the type
        self.declared: set[str] = set()
        self.functions: set[VecmathFunction] = set()

    def smaller(self, a: str, b: str) -> str:
        """Of two numbers of 64 bits."""
        return self.let(f"select i1 {self.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def slot(self, table: str, i: int | str) -> str:
        """The address of a table entry."""
        return self.let(f"getelementptr ptr, ptr {table}, i64 {i}")

    def intrinsic(self, name: str, kind: str, *args: str, flags: str = "") -> str:
        """A call of an intrinsic whose arguments and result are of one type."""
        full = f"llvm.{name}.{_SUFFIX[kind]}"
        self.declared.add(f"declare {kind} @{full}({', '.join([kind] * len(args))})")
        return self.let(f"call {flags}{kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    def load(self, pointer: str, dtype: Dtype) -> str:
        kind = MEMORY[dtype]
        value = self.let(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
        return self.let(f"icmp ne i8 {value}, 0") if dtype.kind == "b" else value

    def store(self, value: str, pointer: str, dtype: Dtype) -> None:
        kind = MEMORY[dtype]
        if dtype.kind == "b":
            value = self.let(f"zext i1 {value} to i8")
        self.do(f"store {kind} {value}, ptr {pointer}, align {dtype.itemsize}")

    def operation(self, name: str, args: list[str], source: Dtype, result: Dtype) -> str:
        """One operation on values of the dtype `source`."""
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, source, result, *args)
        if name.startswith(special.PREFIX):
            return self.special(special.of_line(name), name, args)
        kind = REGISTER[source]
        function = VecmathFunction(self.form(name, kind), kind, len(args), self.apart)
        self.functions.add(function)
        return self.let(f"call {kind} {function.symbol}({', '.join(f'{kind} {a}' for a in args)})")

    def special(self, function: special.Special, name: str, args: list[str]) -> str:
        """A call of a function of SciPy; see `lower.special`. It depends on its arguments alone."""
        kinds = [_C_TYPES[letter] for letter in function.parameters]
        result = _C_TYPES[function.result]
        self.declared.add(f"declare {result} @{name}({', '.join([*kinds, 'i32'])}) nounwind willreturn memory(none)")
        given = [f"{kind} {a}" for kind, a in zip(kinds, args, strict=True)]
        return self.let(f"call {result} @{name}({', '.join([*given, 'i32 0'])})")

    def compare(self, name: str, dtype: Dtype, a: str, b: str) -> str:
        real, signed, unsigned = _COMPARE[name]
        kind = REGISTER[dtype]
        if dtype.kind == "f":
            return self.let(f"fcmp {real} {kind} {a}, {b}")
        return self.let(f"icmp {unsigned if dtype.kind in 'bu' else signed} {kind} {a}, {b}")

    def pick(self, condition: str, dtype: Dtype, a: str, b: str) -> str:
        kind = REGISTER[dtype]
        return self.let(f"select i1 {condition}, {kind} {a}, {kind} {b}")


Emitter = Callable[..., str]


def _arithmetic(real: str, whole: str) -> Emitter:
    def rule(c: Code, source: Dtype, result: Dtype, a: str, b: str) -> str:
        return c.let(f"{real if source.kind == 'f' else whole} {REGISTER[source]} {a}, {b}")

    return rule


def _negate(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    kind = REGISTER[source]
    return c.let(f"fneg {kind} {x}" if source.kind == "f" else f"sub {kind} 0, {x}")


def _absolute(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    if source.kind == "f":
        return c.intrinsic("fabs", REGISTER[source], x)
    return c.pick(c.compare("less", source, x, "0"), source, _negate(c, source, result, x), x)


def _extremum(comparison: str) -> Emitter:
    def rule(c: Code, source: Dtype, result: Dtype, a: str, b: str) -> str:
        first = c.compare(comparison, source, a, b)
        if source.kind == "f":  # nan propagates
            first = c.let(f"or i1 {first}, {_is_nan(c, source, result, a)}")
        return c.pick(first, source, a, b)

    return rule


def _is_nan(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    return c.let(f"fcmp uno {REGISTER[source]} {x}, {x}")


def _sign_bit(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    kind = REGISTER[source]
    bits = c.let(f"bitcast {kind} {x} to i{source.itemsize * 8}")
    return c.let(f"icmp slt i{source.itemsize * 8} {bits}, 0")


def _cast(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    before, after = REGISTER[source], REGISTER[result]
    if before == after:
        return x
    if result == _HALF and source != _SINGLE:  # processors convert from float32 only
        single = _odd_single(c, x) if source.kind == "f" else _cast(c, source, _SINGLE, x)
        return _cast(c, _SINGLE, result, single)
    if source.kind == "b":
        return c.let(f"{'uitofp' if result.kind == 'f' else 'zext'} i1 {x} to {after}")
    if source.kind in "iu":
        sign = "s" if source.kind == "i" else "u"
        wider = "sext" if source.kind == "i" else "zext"
        how = f"{sign}itofp" if result.kind == "f" else wider if result.itemsize > source.itemsize else "trunc"
        return c.let(f"{how} {before} {x} to {after}")
    if result.kind == "f":
        return c.let(f"{'fpext' if result.itemsize > source.itemsize else 'fptrunc'} {before} {x} to {after}")
    return _whole(c, source, result, x)


def _odd_single(c: Code, x: str) -> str:
    """A float64 as a float32 that rounds to the same float16: what is not exact gets an odd last bit, towards zero."""
    near = c.let(f"fptrunc double {x} to float")
    back = c.let(f"fpext float {near} to double")
    exact = c.let(f"fcmp ueq double {back}, {x}")
    sizes = [c.intrinsic("fabs", "double", y) for y in (back, x)]
    is_above = c.let(f"fcmp ogt double {sizes[0]}, {sizes[1]}")
    bits = c.let(f"bitcast float {near} to i32")
    below = c.let(f"sub i32 {bits}, {c.let(f'zext i1 {is_above} to i32')}")
    odd = c.let(f"bitcast i32 {c.let(f'or i32 {below}, 1')} to float")
    return c.let(f"select i1 {exact}, float {near}, float {odd}")


def _whole(c: Code, source: Dtype, result: Dtype, x: str) -> str:
    """A float as an integer. Out of range, and for nan, processors give the smallest integer; in LLVM it is undefined.

    Few bits are the last ones of an int32; those of an unsigned integer, of the next larger signed one, or of the same size.
    """
    before, after = REGISTER[source], REGISTER[result]
    if result.itemsize < 4 or result.kind == "u":
        way = np.dtype(np.int32 if result.itemsize < 4 else np.int64)
        signed = _whole(c, source, way, x)
        if result.itemsize < 8:
            return _cast(c, way, result, signed)
        large = c.let(f"fcmp oge {before} {x}, {literal(2.0**63, source)}")
        inside = c.let(f"and i1 {large}, {c.let(f'fcmp olt {before} {x}, {literal(2.0**64, source)}')}")
        whole = c.let(f"fptoui {before} {c.pick(inside, source, x, literal(0, source))} to {after}")
        return c.pick(inside, result, whole, signed)
    bits = result.itemsize * 8
    least = -(2 ** (bits - 1))
    inside = c.let(f"fcmp oge {before} {x}, {literal(least, source)}")
    below = c.let(f"fcmp olt {before} {x}, {literal(-least, source)}")
    good = c.let(f"and i1 {inside}, {below}")
    whole = c.let(f"fptosi {before} {c.pick(good, source, x, literal(0, source))} to {after}")
    return c.pick(good, result, whole, str(least))


def _select(c: Code, source: Dtype, result: Dtype, condition: str, a: str, b: str) -> str:
    return c.pick(condition, result, a, b)


def _shift(how: str) -> Emitter:
    """A shift by all bits or more leaves nothing, or the sign."""

    def rule(c: Code, source: Dtype, result: Dtype, a: str, b: str) -> str:
        kind, bits = REGISTER[source], 8 * source.itemsize
        word = "lshr" if how == "ashr" and source.kind == "u" else how
        inside = c.let(f"icmp ult {kind} {b}, {bits}")
        made = c.let(f"{word} {kind} {a}, {c.pick(inside, source, b, str(bits - 1))}")
        return made if word == "ashr" else c.pick(inside, source, made, "0")

    return rule


def _quotient(c: Code, source: Dtype, result: Dtype, a: str, b: str) -> str:
    """Of integers, towards zero; 0 if b is, and wrapped around where it overflows."""
    kind = REGISTER[source]
    if source.kind == "u":
        zero = c.let(f"icmp eq {kind} {b}, 0")
        return c.pick(zero, source, "0", c.let(f"udiv {kind} {a}, {c.pick(zero, source, '1', b)}"))
    zero, minus = c.let(f"icmp eq {kind} {b}, 0"), c.let(f"icmp eq {kind} {b}, -1")
    plain = c.let(f"sdiv {kind} {a}, {c.pick(c.let(f'or i1 {zero}, {minus}'), source, '1', b)}")
    return c.pick(zero, source, "0", c.pick(minus, source, _negate(c, source, result, a), plain))


_RULES: dict[str, Emitter] = {
    "add": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _arithmetic("fdiv", "sdiv"),
    "and": _arithmetic("", "and"),
    "or": _arithmetic("", "or"),
    "xor": _arithmetic("", "xor"),
    "not": lambda c, source, result, x: c.let(f"xor i1 {x}, true"),
    "bits.and": _arithmetic("", "and"),
    "bits.or": _arithmetic("", "or"),
    "bits.xor": _arithmetic("", "xor"),
    "bits.not": lambda c, source, result, x: c.let(f"xor {REGISTER[source]} {x}, -1"),
    "bits.left": _shift("shl"),
    "bits.right": _shift("ashr"),
    "quotient": _quotient,
    "fmod": _arithmetic("frem", "srem"),
    "neg": _negate,
    "abs": _absolute,
    "maximum": _extremum("greater_equal"),
    "minimum": _extremum("less_equal"),
    "isnan": _is_nan,
    "signbit": _sign_bit,
    "cast": _cast,
    "select": _select,
    **{name: (lambda c, source, result, a, b, name=name: c.compare(name, source, a, b)) for name in _COMPARE},
    **{
        name: (lambda c, source, result, x, full=full: c.intrinsic(full, REGISTER[source], x))
        for name, full in _INTRINSICS.items()
    },
}

# -- reductions: where they start, and how two parts are combined ------------------------------------------------


def start_of(how: str, dtype: Dtype) -> str:
    if dtype.kind in "iu" and how in ("max", "min"):
        return literal(np.iinfo(dtype).min if how == "max" else np.iinfo(dtype).max, dtype)
    return literal(STARTS[how], dtype)


def combine(c: Code, how: str, dtype: Dtype, a: str, b: str) -> str:
    """Combine two parts of a reduction. Sums and products may be reassociated, so that they vectorize.

    A sum of bools is True where one of them is.
    """
    kind = REGISTER[dtype]
    if dtype.kind == "b":
        how = {"sum": "any", "prod": "all"}.get(how, how)
    if how in ("max", "min"):
        return c.intrinsic({"f": f"{how}imum", "i": f"s{how}", "u": f"u{how}"}[dtype.kind], kind, a, b)
    if how in ("any", "all"):
        return c.let(f"{'or' if how == 'any' else 'and'} i1 {a}, {b}")
    if dtype.kind == "f":
        return c.let(f"{'fadd' if how == 'sum' else 'fmul'} reassoc {kind} {a}, {b}")
    return c.let(f"{'add' if how == 'sum' else 'mul'} {kind} {a}, {b}")
