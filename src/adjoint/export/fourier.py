"""Fourier transforms, written out: a pass over the array for each factor of its length, or a convolution with a chirp.

    n = 4·4·3:   load → u,   radix 4: u → v,   radix 4: v → u,   radix 3: u → v,   store      (Stockham: no bit reversal)

A length with a prime factor above 7 becomes a convolution of a power of two (Bluestein). The inverse transform exchanges real and
imaginary parts of its input and of its result. Roots of unity are constants of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.lower.fourier import scale_of
from ..compiler.lower.kernel import PARTS, View
from ..compiler.lower.lowered import Rules
from ..core.types import Type
from ..ir.graph import Equation, Literal
from ..ops import fft as ops
from .array_routines import run

if TYPE_CHECKING:
    from ..compiler.lower.fuse import Lowering

_RADICES = (4, 2, 3, 5, 7)
Load = tuple[str, str, str]  # statements, then the real and the imaginary part of element i
Store = Callable[[str, str], str]  # statements for the two parts of element i of the result


def radices(n: int) -> list[int] | None:
    """The passes of a length; None if a prime factor is too large."""
    found = []
    for p in _RADICES:
        while n % p == 0:
            found.append(p)
            n //= p
    return found if n == 1 else None


def roots(count: int, of: int) -> np.ndarray[Any, Any]:
    """exp(-2πik/of) for k < count, as pairs."""
    angles = 8 * np.arctan(np.longdouble(1)) * (np.arange(count) % of) / of
    return np.stack([np.cos(angles), -np.sin(angles)], 1).astype(float).ravel()


def passes(n: int) -> tuple[str, str]:
    """The text of all passes, from u and v, and the one of the two that has the result."""
    lines, source, target = [], "u", "v"
    found = radices(n)
    assert found is not None
    apart, length = 1, n
    for p in found:
        length //= p
        lines.append(_pass(p, length, apart, n, source, target))
        apart *= p
        source, target = target, source
    return "".join(lines), source


def _pass(p: int, length: int, apart: int, n: int, source: str, target: str) -> str:
    """One pass: `length` butterflies of p elements for each of `apart` transforms side by side."""
    body = []
    for q in range(p):
        at = f"2 * ((j + {length * q}) * {apart} + k)"
        body += [f"REAL a{q} = {source}[{at}];", f"REAL b{q} = {source}[{at} + 1];"]
    body += _FOUR if p == 4 else _sums(p)
    for r in range(p):
        at = f"2 * ((j * {p} + {r}) * {apart} + k)"
        if r and length > 1:
            turned = f"y{r} * c{r} - z{r} * d{r}", f"y{r} * d{r} + z{r} * c{r}"
        else:
            turned = f"y{r}", f"z{r}"
        body += [f"{target}[{at}] = {turned[0]};", f"{target}[{at} + 1] = {turned[1]};"]
    fixed = [f"REAL {name}{k} = w[{2 * k * n // p + i}];" for k in range(1, p) for i, name in enumerate("fg") if p not in (2, 4)]
    turns = [f"REAL {name}{r} = w[j * {2 * r * apart} + {i}];" for r in range(1, p) for i, name in enumerate("cd") if length > 1]
    inside = "\n        ".join(body)
    before, begun = "\n      ".join(fixed), "\n      ".join(turns)
    return f"""
    {{
      {before}
      for (INT j = 0; j < {length}; ++j) {{
      {begun}
      for (INT k = 0; k < {apart}; ++k) {{
        {inside}
      }} }}
    }}"""


def _sums(p: int) -> list[str]:
    """The transform of p elements by its definition."""
    lines = []
    for r in range(p):
        y, z = ["a0"], ["b0"]
        for q in range(1, p):
            k = q * r % p
            if p == 2 or not k:
                sign = "-" if k else "+"
                y.append(f"{sign} a{q}")
                z.append(f"{sign} b{q}")
            else:
                y.append(f"+ (a{q} * f{k} - b{q} * g{k})")
                z.append(f"+ (a{q} * g{k} + b{q} * f{k})")
        lines += [f"REAL y{r} = {' '.join(y)};", f"REAL z{r} = {' '.join(z)};"]
    return lines


_FOUR = """\
REAL s = a0 + a2; REAL t = b0 + b2; REAL sd = a0 - a2; REAL td = b0 - b2;
REAL o = a1 + a3; REAL p = b1 + b3; REAL od = a1 - a3; REAL pd = b1 - b3;
REAL y0 = s + o; REAL z0 = t + p; REAL y1 = sd + pd; REAL z1 = td - od;
REAL y2 = s - o; REAL z2 = t - p; REAL y3 = sd - pd; REAL z3 = td + od;""".splitlines()


def _transform(n: int, load: Load, store: Store) -> tuple[str, dict[str, Any], int]:
    """The text of a transform, its constants, and the elements of its work arrays."""
    before, re, im = load
    if radices(n) is not None:
        text, last = passes(n)
        begin = f"\n    for (INT i = 0; i < {n}; ++i) {{ {before}u[2 * i] = {re}; u[2 * i + 1] = {im}; }}"
        end = f"\n    for (INT i = 0; i < {n}; ++i) {{ {store(f'{last}[2 * i]', f'{last}[2 * i + 1]')} }}"
        return begin + text + end, {"w": roots(n, n)}, n
    m = 1 << (2 * n - 2).bit_length()
    chirp = roots(2 * n, 2 * n).reshape(-1, 2)[np.arange(n) ** 2 % (2 * n)]
    b = np.zeros(m, complex)
    b[:n] = chirp[:, 0] - 1j * chirp[:, 1]
    b[m - n + 1 :] = b[n - 1 : 0 : -1]
    spectrum = np.fft.fft(b) / m
    text, last = passes(m)
    convolved = f"""
    for (INT i = 0; i < {n}; ++i) {{
      {before}REAL a = {re};
      REAL b = {im};
      u[2 * i] = a * c[2 * i] - b * c[2 * i + 1];
      u[2 * i + 1] = a * c[2 * i + 1] + b * c[2 * i];
    }}
    for (INT i = {2 * n}; i < {2 * m}; ++i) u[i] = ZERO;{text}
    for (INT i = 0; i < {m}; ++i) {{
      REAL a = {last}[2 * i];
      REAL b = {last}[2 * i + 1];
      u[2 * i + 1] = a * h[2 * i] - b * h[2 * i + 1];
      u[2 * i] = a * h[2 * i + 1] + b * h[2 * i];
    }}{text}
    for (INT i = 0; i < {n}; ++i) {{
      REAL a = {last}[2 * i + 1];
      REAL b = {last}[2 * i];
      {store("(a * c[2 * i] - b * c[2 * i + 1])", "(a * c[2 * i + 1] + b * c[2 * i])")}
    }}"""
    pairs = np.stack([spectrum.real, spectrum.imag], 1).ravel()
    return convolved, {"w": roots(m, m), "c": chirp.ravel(), "h": pairs}, m


def _run(low: Lowering, x: View, out: View, n: int, load: Load, store: Store, scale: float, axes: int) -> None:
    """Add the step for all lines of an array."""
    real = out.dtype
    text, constants, size = _transform(n, load, store)
    reads = {"x": x}
    stack = out.shape[: len(out.shape) - axes]
    for name, data in {**constants, "scale": np.array([scale])}.items():
        view = low.view(Literal(data.astype(real)))
        reads[name] = View(view.buffer, (*stack, data.size), (*(0 for _ in stack), 1), view.offset)
    work = {name: low.local(Type((2 * size,), real)) for name in ("u", "v")}
    run(low, "fourier", text, real, reads, {"out": out}, work, axes)


def last(view: View, axis: int) -> View:
    """A view with one axis moved to the end, as pairs if it is complex."""
    order = [k for k in range(len(view.shape)) if k != axis] + [axis]
    moved = View(
        view.buffer, tuple(view.shape[k] for k in order), tuple(view.strides[k] for k in order), view.offset, view.is_complex
    )
    return moved.parts if view.is_complex else moved


def _fft(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), params = equation.inputs, equation.types, equation.params
    if low.type_of(x).dtype != result.dtype or result.dtype not in PARTS:
        return False
    view, inverse = low.view(x), params["inverse"]
    if 0 in result.shape:
        return low.hold(equation, low.local(result))
    first, second = (1, 0) if inverse else (0, 1)
    for axis in reversed(params["axes"]):
        n, made = result.shape[axis], low.local(result)
        given, out = last(view, axis), last(made, axis)
        load = "", f"x[i * {given.strides[-2]} + {first}]", f"x[i * {given.strides[-2]} + {second}]"

        def store(re: str, im: str, to: str = f"i * {out.strides[-2]}") -> str:
            return f"out[{to} + {first}] = {re} * scale[0]; out[{to} + {second}] = {im} * scale[0];"

        _run(low, given, out, n, load, store, scale_of(n, params["norm"], inverse), 2)
        view = made
    return low.hold(equation, view)


def _rfft(low: Lowering, equation: Equation) -> bool:
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    if PARTS.get(result.dtype) != t.dtype:
        return False
    made = low.local(result)
    if 0 not in t.shape:
        n, given, out = t.shape[axis], last(low.view(x), axis), last(made, axis)
        to = f"i * {out.strides[-2]}"

        def store(re: str, im: str) -> str:
            return f"if (i < {n // 2 + 1}) {{ out[{to}] = {re} * scale[0]; out[{to} + 1] = {im} * scale[0]; }}"

        _run(
            low,
            given,
            out,
            n,
            ("", f"x[i * {given.strides[-1]}]", "ZERO"),
            store,
            scale_of(n, equation.params["norm"], inverse=False),
            2,
        )
    return low.hold(equation, made)


def _irfft(low: Lowering, equation: Equation) -> bool:
    """The spectrum is continued: the other half has the conjugates. Imaginary parts of its ends do not count."""
    (x,), (result,), axis = equation.inputs, equation.types, equation.params["axis"]
    t = low.type_of(x)
    n = result.shape[axis]
    if PARTS.get(t.dtype) != result.dtype or t.shape[axis] != n // 2 + 1:
        return False
    made = low.local(result)
    if 0 not in result.shape:
        given, out = last(low.view(x), axis), last(made, axis)
        step = given.strides[-2]
        ends = f"i == 0 || 2 * i == {n}"
        half = f"INT half = 2 * i <= {n} ? i : {n} - i; REAL high = {ends} ? ZERO : x[half * {step} + 1]; "

        def store(re: str, im: str) -> str:
            return f"out[i * {out.strides[-1]}] = {im} * scale[0];"

        _run(
            low,
            given,
            out,
            n,
            (half, f"2 * i <= {n} ? high : -high", f"x[half * {step}]"),
            store,
            scale_of(n, equation.params["norm"], inverse=True),
            1,
        )
    return low.hold(equation, made)


RULES: Rules = {ops.fft: _fft, ops.rfft: _rfft, ops.irfft: _irfft}
