"""Integers of all sizes in C: they wrap around, as NumPy's do.

    (int8_t)((uint32_t)a * (uint32_t)b)

Signed overflow is undefined in C, which computes with integers of few bits as int: unsigned ones of 32 bits or more compute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiler.lower.kernel import Dtype

TYPES = {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def literal(number: int, dtype: Dtype) -> str:
    if number == -(2 ** (8 * dtype.itemsize - 1)):
        return f"INT{8 * dtype.itemsize}_MIN"
    unsigned = dtype.kind == "u" and dtype.itemsize >= 4
    text = f"{abs(number)}{'u' * unsigned}"
    if dtype.itemsize == 8 and abs(number) >= 2**31:
        text = f"{'U' * unsigned}INT64_C({abs(number)})"
    return f"(-{text})" if number < 0 else text


def arithmetic(sign: str) -> Callable[[Dtype, str, str], str]:
    return lambda dtype, a, b: _wrapped(dtype, f"{_unsigned(dtype, a)} {sign} {_unsigned(dtype, b)}")


def of_bits(sign: str) -> Callable[[Dtype, str, str], str]:
    return lambda dtype, a, b: _wrapped(dtype, f"{a} {sign} {b}")


def inverted(dtype: Dtype, x: str) -> str:
    return _wrapped(dtype, f"~{x}")


def negated(dtype: Dtype, x: str) -> str:
    return _wrapped(dtype, f"0u - {_unsigned(dtype, x)}")


def absolute(dtype: Dtype, x: str) -> str:
    return x if dtype.kind == "u" else f"({x} < 0 ? {negated(dtype, x)} : {x})"


def left(dtype: Dtype, a: str, b: str) -> str:
    """A shift by all bits or more leaves nothing."""
    return _wrapped(dtype, f"{_is_shift(dtype, b)} ? {_unsigned(dtype, a)} << {b} : 0")


def right(dtype: Dtype, a: str, b: str) -> str:
    """A shift by all bits or more leaves the sign, or nothing."""
    if dtype.itemsize == 8 and not a.isidentifier():  # a literal may be an int
        a = f"({TYPES[dtype.name]}){a}"
    if dtype.kind == "u":
        return _wrapped(dtype, f"{_is_shift(dtype, b)} ? {a} >> {b} : 0")
    return _wrapped(dtype, f"{a} >> ({_is_shift(dtype, b)} ? {b} : {8 * dtype.itemsize - 1})")


def quotient(dtype: Dtype, a: str, b: str) -> str:
    """Towards zero; 0 if b is."""
    minus = f"{b} == -1 ? {negated(dtype, a)} : " * (dtype.kind == "i")
    return _wrapped(dtype, f"{b} == 0 ? 0 : {minus}{a} / {b}")


def from_float(spell: Callable[[float, Dtype], str], x: str, source: Dtype, result: Dtype) -> str:
    """A float as an integer, as `jit` has it: out of range, and for nan, the least one. `spell` writes a literal.

    Few bits are the last ones of an int32; those of an unsigned integer, of an int64, unless it has 64 bits itself.
    """
    kind = TYPES[result.name]
    if result.itemsize < 4 or result.kind == "u":
        signed = from_float(spell, x, source, np.dtype(np.int32 if result.itemsize < 4 else np.int64))
        if result.itemsize < 8:
            return f"({kind}){signed}"
        low, high = spell(2.0**63, source), spell(2.0**64, source)
        return f"(({x} >= {low} && {x} < {high}) ? ({kind}){x} : ({kind}){signed})"
    low, high = (spell(s * 2.0 ** (8 * result.itemsize - 1), source) for s in (-1, 1))
    return f"(({x} >= {low} && {x} < {high}) ? ({kind}){x} : {literal(np.iinfo(result).min, result)})"


def _unsigned(dtype: Dtype, x: str) -> str:
    return f"(uint{max(32, 8 * dtype.itemsize)}_t){x}"


def _wrapped(dtype: Dtype, text: str) -> str:
    return f"({TYPES[dtype.name]})({text})"


def _is_shift(dtype: Dtype, b: str) -> str:
    return f"{f'{b} >= 0 && ' * (dtype.kind == 'i')}{b} < {8 * dtype.itemsize}"


#: By the name of the operation.
OPERATIONS: dict[str, Callable[..., str]] = {
    **{name: arithmetic(sign) for name, sign in {"add": "+", "sub": "-", "mul": "*"}.items()},
    **{f"bits.{name}": of_bits(sign) for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()},
    "bits.not": inverted,
    "bits.left": left,
    "bits.right": right,
    "neg": negated,
    "abs": absolute,
    "quotient": quotient,
}
