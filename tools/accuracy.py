"""Accuracy and speed of the compiler's elementary functions; writes docs/accuracy.md.

    python tools/accuracy.py                 print a table, from a few thousand samples each
    python tools/accuracy.py --dense         twelve thousand samples each, and write the page
    python tools/accuracy.py sin tan         these only

The reference is mpmath. An error is given in units in the last place of the reference value in the format.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import scipy.special

from adjoint.compiler.llvm import vecmath
from adjoint.compiler.llvm.instruction import REGISTER
from adjoint.compiler.llvm.vecmath.scalar import FORMATS

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "accuracy.md"
Array = Any


# -- a loop around one function ---------------------------------------------------------------------------------


class Loop(NamedTuple):
    """A compiled loop out[i] = f(a[i], …), and measurements of it."""

    run: Callable[..., Array]
    native: Callable[..., None]  # on addresses, and the number of elements
    optimised: str
    build_ms: float  # to write the IR
    compile_ms: float  # to optimise and assemble it


def machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3)


def loop_text(names: Sequence[str], count: int, kind: str) -> str:
    """The LLVM text of the loop; for several functions, of their sum."""
    suffix = FORMATS[kind].suffix
    pointers = [*(f"%a{k}" for k in range(count)), "%out"]
    places = [f"  %p{k} = getelementptr {kind}, ptr {pointer}, i64 %i" for k, pointer in enumerate(pointers)]
    loads = [f"  %x{k} = load {kind}, ptr %p{k}" for k in range(count)]
    given = ", ".join(f"{kind} %x{k}" for k in range(count))
    calls = [f"  %y{k} = call {kind} @adjoint.{name}.{suffix}({given})" for k, name in enumerate(names)]
    sums = [f"  %s{k} = fadd {kind} {'%y0' if k == 1 else f'%s{k - 1}'}, %y{k}" for k in range(1, len(names))]
    result = f"%s{len(names) - 1}" if sums else "%y0"
    return "\n".join(
        [
            *vecmath.definitions([(name, kind, count) for name in names]),
            f"define void @loop({', '.join(f'ptr noalias {pointer}' for pointer in pointers)}, i64 %n) {{",
            "start:",
            "  %some = icmp sgt i64 %n, 0",
            "  br i1 %some, label %body, label %end",
            "body:",
            "  %i = phi i64 [ 0, %start ], [ %following, %body ]",
            *places,
            *loads,
            *calls,
            *sums,
            f"  store {kind} {result}, ptr %p{count}",
            "  %following = add i64 %i, 1",
            "  %more = icmp slt i64 %following, %n",
            "  br i1 %more, label %body, label %end",
            "end:",
            "  ret void",
            "}",
        ]
    )


def compiled(name: str, dtype: Any, also: tuple[str, ...] = (), soft: bool = False) -> Loop:
    """The loop over arrays of a dtype; of several functions, their sum; `soft` is without fused multiply-add.

    "exp.alone" is the form of exp for one number at a time.
    """
    dtype = np.dtype(dtype)
    count = CASES[name.partition(".")[0]].arity
    began = time.process_time()
    text = loop_text([name, *also], count, REGISTER[dtype])
    if soft:
        text = vecmath.soften(text)
    built = time.process_time()
    module = llvm.parse_assembly(text)
    module.verify()
    target = machine()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    passes = llvm.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)
    optimised = str(module)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    address = engine.get_function_address("loop")
    done = time.process_time()
    native: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)(address)
    native.engine = engine  # which owns the code

    def run(*arrays: Array, out: Array | None = None) -> Array:
        arrays = tuple(np.ascontiguousarray(array, dtype) for array in arrays)
        out = np.empty_like(arrays[0]) if out is None else out
        native(*(array.ctypes.data for array in arrays), out.ctypes.data, out.size)
        return out

    return Loop(run, native, optimised, 1e3 * (built - began), 1e3 * (done - built))


# -- what is measured -------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A function: its reference, NumPy's own, where its interesting arguments lie, and where it is timed."""

    reference: Callable[..., Any]
    numpy: Callable[..., Array]
    usual: tuple[tuple[float, float], ...]  # intervals sampled evenly; of two arguments, one for each
    near: tuple[float, ...] = ()  # points to sample densely around
    domain: tuple[float, float] = (-math.inf, math.inf)
    arity: int = 1


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _log_sum(a: Any, b: Any) -> Any:
    most, least = max(a, b), min(a, b)
    return most + mp.log1p(mp.exp(least - most))


def _log_sum_two(a: Any, b: Any) -> Any:
    most, least = max(a, b), min(a, b)
    return most + mp.log1p(mp.power(2, least - most)) / mp.log(2)


def _complement(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 100 else mp.mpf(0 if x > 0 else 2)


def _cube_root(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _power(x: Any, y: Any) -> Any:
    if x < 0:
        return mp.power(-x, y) * (-1 if int(y) % 2 else 1) if y == int(y) else mp.nan
    return mp.power(x, y)


_QUADRANTS = tuple(k * math.pi / 2 for k in (1, 2, 3, 4, 5, 11, 344, 1e5, 314159, 2**25, 2**40, 1e15))

CASES: dict[str, Case] = {
    "exp": Case(
        mp.exp, np.exp, ((-1, 1), (-50, 50), (-746, 710)), (0, 709.782712893384, -745.1332191019411, -708.3964185322641, 0.34657)
    ),
    "exp2": Case(lambda x: mp.power(2, x), np.exp2, ((-1, 1), (-50, 50), (-1076, 1025)), (0, 1024, -1022, -1074, 0.5)),
    "expm1": Case(mp.expm1, np.expm1, ((-1, 1), (-50, 50), (-60, 710)), (0, 0.34657, -0.34657, 709.782712893384, 1.04)),
    "expit": Case(_logistic, scipy.special.expit, ((-1, 1), (-30, 30), (-746, 750)), (0, -745.133, -708.396, 36.7)),
    "sinh": Case(mp.sinh, np.sinh, ((-2, 2), (-50, 50), (-711, 711)), (0, 1, 710.4758600739439)),
    "cosh": Case(mp.cosh, np.cosh, ((-2, 2), (-50, 50), (-711, 711)), (0, 1, 710.4758600739439)),
    "tanh": Case(mp.tanh, np.tanh, ((-1, 1), (-5, 5), (-25, 25)), (0, 0.17, 0.35, 0.55, 19.06)),
    "log": Case(mp.log, np.log, ((0.5, 2), (0, 100)), (1, 0.7071067811865476, 1.4142135623730951), (0, math.inf)),
    "log2": Case(
        lambda x: mp.log(x) / mp.log(2), np.log2, ((0.5, 2), (0, 100)), (1, 2, 4, 0.70710678, 1.41421356), (0, math.inf)
    ),
    "log10": Case(
        lambda x: mp.log(x) / mp.log(10), np.log10, ((0.5, 2), (0, 100)), (1, 10, 100, 0.70710678, 1.41421356), (0, math.inf)
    ),
    "log1p": Case(mp.log1p, np.log1p, ((-0.9, 1), (-1, 100)), (0, -1, 0.4142135623, -0.29289321881), (-1, math.inf)),
    "logaddexp": Case(_log_sum, np.logaddexp, ((-5, 50), (-5, 50)), (0, 1), arity=2),
    "logaddexp2": Case(_log_sum_two, np.logaddexp2, ((-5, 50), (-5, 50)), (0, 1), arity=2),
    "arcsinh": Case(mp.asinh, np.arcsinh, ((-2, 2), (-100, 100)), (0, 0.5, 1)),
    "arccosh": Case(mp.acosh, np.arccosh, ((1, 2), (1, 100)), (1, 1.0000001, 2), (1, math.inf)),
    "arctanh": Case(mp.atanh, np.arctanh, ((-1, 1),), (0, 1, -1, 0.5, 0.17157), (-1, 1)),
    "sin": Case(mp.sin, np.sin, ((-1, 1), (-10, 10), (-1e5, 1e5)), (0, *_QUADRANTS, 1e22, 1e300)),
    "cos": Case(mp.cos, np.cos, ((-1, 1), (-10, 10), (-1e5, 1e5)), (0, *_QUADRANTS, 1e22, 1e300)),
    "tan": Case(mp.tan, np.tan, ((-1, 1), (-10, 10), (-1e5, 1e5)), (0, math.pi / 4, *_QUADRANTS, 1e22, 1e300)),
    "arcsin": Case(mp.asin, np.arcsin, ((-1, 1),), (0, 0.5, -0.5, 1, -1), (-1, 1)),
    "arccos": Case(mp.acos, np.arccos, ((-1, 1),), (0, 0.5, -0.5, 1, -1), (-1, 1)),
    "arctan": Case(mp.atan, np.arctan, ((-1, 1), (-10, 10)), (0, 0.41421356237, 2.414213562373, 1)),
    "arctan2": Case(mp.atan2, np.arctan2, ((-3, 3), (-3, 3)), (0.0, 1, 2.41421356), arity=2),
    "sqrt": Case(mp.sqrt, np.sqrt, ((0, 2), (0, 100)), (0, 1), (0, math.inf)),
    "cbrt": Case(_cube_root, np.cbrt, ((-2, 2), (-100, 100)), (0, 1, 2, 4, 8, 27)),
    "hypot": Case(mp.hypot, np.hypot, ((-3, 3), (-3, 3)), (0, 1), arity=2),
    "erf": Case(mp.erf, scipy.special.erf, ((-1, 1), (-6, 6)), (0, 1, -1, 0.5, 5.9)),
    "erfc": Case(_complement, scipy.special.erfc, ((-1, 1), (-6, 28)), (0, 0.5, -0.5, 1, 26.5, 27.2)),
    "power": Case(_power, np.power, ((0, 10), (-20, 20)), (1,), (0, math.inf), arity=2),
}


def everywhere(rng: Any, count: int, dtype: Any) -> Array:
    """Finite numbers of every magnitude and sign, from random bits."""
    word = np.dtype("u8" if dtype == np.float64 else "u4")
    found = rng.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(dtype)
    return found[np.isfinite(found)]


def edges(dtype: Any) -> Array:
    limits = np.finfo(dtype)
    tiny = [
        limits.smallest_subnormal,
        limits.tiny,
        limits.tiny - limits.smallest_subnormal,
        limits.tiny * 1.5,
        limits.eps,
        limits.eps / 2,
    ]
    return np.array([0.0, 1.0, 2.0, 0.5, 3.0, limits.max, limits.max / 2, 1e30, *tiny], dtype)


def samples(name: str, dtype: Any, count: int, seed: int = 0) -> tuple[Array, ...]:
    """Arguments of a function: of every magnitude, uniform in the usual intervals, dense around hard points, and the edges."""
    case, rng = CASES[name], np.random.default_rng([seed, len(name), np.dtype(dtype).itemsize])
    dtype = np.dtype(dtype).type
    if case.arity == 2:
        return _samples_of_two(name, dtype, count, rng)
    parts = [everywhere(rng, count // 4, dtype)]
    parts += [rng.uniform(low, high, count // (2 * len(case.usual))) for low, high in case.usual]
    crowd = max(1, count // (4 * max(1, len(case.near))))
    parts += [_around(point, rng, crowd, dtype) for point in case.near]
    found = np.concatenate([np.asarray(part, dtype) for part in [*parts, edges(dtype), -edges(dtype)]])
    found = found[np.isfinite(found)]
    low, high = case.domain
    return (found[(found >= low) & (found <= high)],)


def _around(point: float, rng: Any, count: int, dtype: Any) -> Array:
    """Neighbours of a point, at distances of every magnitude."""
    point = float(np.clip(point, -np.finfo(dtype).max / 4, np.finfo(dtype).max / 4))
    centre = dtype(point)
    steps = rng.integers(-40, 41, count // 2 + 1) * np.spacing(centre)
    spread = np.exp(rng.uniform(np.log(1e-17), np.log(0.1), count // 2 + 1)) * rng.choice([-1, 1], count // 2 + 1)
    found = np.concatenate([centre + steps.astype(dtype), centre * (1 + spread).astype(dtype) + (spread if point == 0 else 0)])
    return found.astype(dtype)


def _samples_of_two(name: str, dtype: Any, count: int, rng: Any) -> tuple[Array, ...]:
    case = CASES[name]
    first, second = (rng.uniform(low, high, count // 2).astype(dtype) for low, high in case.usual)
    wide = [everywhere(rng, count // 4, dtype) for _ in range(2)]
    length = min(map(len, wide))
    parts = [(first, second), (wide[0][:length], wide[1][:length])]
    near = _around(rng.choice(case.near), rng, count // 8, dtype)
    some = rng.uniform(-2, 2, len(near)).astype(dtype)
    parts += [(near, some), (some, near), (near, near[::-1])]
    corners = np.array([(a, b) for a in edges(dtype) for b in edges(dtype)], dtype).T
    parts.append((corners[0], corners[1]))
    if name in ("arctan2", "hypot"):
        ratio = np.exp(rng.uniform(-40, 40, count // 8)).astype(dtype)
        size = everywhere(rng, len(ratio), dtype)[: len(ratio)]
        with np.errstate(over="ignore", under="ignore"):
            parts.append((size, size * ratio[: len(size)]))
        parts.append((-first, second))
        parts.append((corners[0], -corners[1]))
    if name in ("logaddexp", "logaddexp2"):
        parts += _cancelling(2.0 if name == "logaddexp2" else math.e, rng, count // 8, dtype)
    if name == "power":
        limits = np.finfo(dtype)
        with np.errstate(all="ignore"):
            base = np.abs(everywhere(rng, count // 4, dtype)) + limits.smallest_subnormal
            reach = np.log(float(limits.max)) / np.log(base.astype(np.float64))
            parts.append((base, (reach * rng.uniform(-1.1, 1.02, len(base))).astype(dtype)))
            close = (1 + rng.choice([-1, 1], count // 4) * np.exp(rng.uniform(np.log(limits.eps), -1, count // 4))).astype(dtype)
            reach = np.log(float(limits.max)) / np.log(close.astype(np.float64))
            parts.append((close, (reach * rng.uniform(-1.05, 1, len(close))).astype(dtype)))
        whole = rng.integers(-40, 41, count // 8).astype(dtype)
        parts.append((-np.abs(first[: len(whole)]), whole))
    a, b = (np.concatenate(column) for column in zip(*parts, strict=True))
    keep = np.isfinite(a) & np.isfinite(b)
    if name == "power":
        keep &= (a > 0) | ((a < 0) & (b == np.floor(b)))
    if name in ("arctan2", "hypot"):
        keep &= (a != 0) | (b != 0)
    return a[keep], b[keep]


def _cancelling(base: float, rng: Any, count: int, dtype: Any) -> Iterator[tuple[Array, Array]]:
    """Arguments close to the curve base^a + base^b = 1, where the logarithm of the sum is 0: the nearest pairs, some ulps away,
    and at distances of every magnitude."""
    scale, least = math.log(base), float(np.finfo(dtype).smallest_subnormal)
    for low in (0.1, 1e-6, least):  # how much of 1 the smaller term is
        most = -np.exp(rng.uniform(math.log(low), math.log(math.log(2)), count)) / scale
        other = np.log(-np.expm1(most.astype(dtype).astype(np.float64) * scale)) / scale
        most, other = most.astype(dtype), other.astype(dtype)
        spread = np.exp(rng.uniform(-36, -1, count)) * rng.choice([-1, 1], count)
        yield most, other
        yield other + rng.integers(-3, 4, count).astype(dtype) * np.spacing(other), most
        yield (most * (1 + spread)).astype(dtype), other


# -- errors -----------------------------------------------------------------------------------------------------


def ulps(got: float, exact: Any, dtype: Any) -> float:
    """|got − exact| in units in the last place of the exact value; infinity counts as the next number after the greatest."""
    fraction, least, greatest = (52, -1022, 1024) if np.dtype(dtype) == np.float64 else (23, -126, 128)
    if mp.isnan(exact) or math.isnan(got):
        return 0.0 if mp.isnan(exact) and math.isnan(got) else math.inf
    top = mp.ldexp(1, greatest)
    exact = max(-top, min(top, exact))
    value = mp.sign(mp.mpf(got)) * top if math.isinf(got) else mp.mpf(got)
    if exact == 0:
        return 0.0 if value == 0 else math.inf
    exponent = max(int(mp.frexp(exact)[1]) - 1, least)
    return float(abs(value - exact) / mp.ldexp(1, min(exponent, greatest - 1) - fraction))


def references(name: str, arguments: tuple[Array, ...]) -> Iterator[Any]:
    reference = CASES[name].reference
    with mp.workprec(160):
        for numbers in zip(*(argument.tolist() for argument in arguments), strict=True):
            largest = max(abs(number) for number in numbers)
            least = min(abs(number) for number in numbers) or 1.0
            extra = max(0, math.frexp(largest)[1]) - min(0, math.frexp(least)[1])
            # Cancellation against a constant, as in 1 − erf or log1p, needs the digits that a small argument has.
            with mp.workprec(160 + (min(2 * extra, 2400) if name in _CANCELLING else 120)):
                exact = reference(*map(mp.mpf, numbers))
            yield exact


_CANCELLING = {"power", "arcsinh", "arccosh", "arctanh", "tanh", "sinh", "erf", "hypot"}


class Found(NamedTuple):
    worst: float
    at: tuple[float, ...]
    count: int


def greatest_error(name: str, dtype: Any, count: int, seed: int = 0, loop: Loop | None = None) -> Found:
    """The greatest error over samples, in units in the last place."""
    arguments = samples(name, dtype, count, seed)
    got = (loop or compiled(name, dtype)).run(*arguments)
    errors = [ulps(value, exact, dtype) for value, exact in zip(got.tolist(), references(name, arguments), strict=True)]
    worst = int(np.argmax(errors))
    return Found(errors[worst], tuple(argument[worst] for argument in arguments), len(errors))


# -- speed ------------------------------------------------------------------------------------------------------


def nanoseconds(run: Callable[[], Any], count: int) -> float:
    best = math.inf
    for _ in range(60):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return 1e9 * best / count


def speed(name: str, dtype: Any, loop: Loop) -> tuple[float, float]:
    """Nanoseconds per element of the loop and of NumPy (or SciPy), on arguments from a usual interval that fit in the cache."""
    case, rng, count = CASES[name], np.random.default_rng(0), 8192
    intervals = case.usual if case.arity == 2 else (case.usual[min(1, len(case.usual) - 1)],)
    arguments = [rng.uniform(low, high, count).astype(dtype) for low, high in intervals]
    out = np.empty_like(arguments[0])
    addresses = [array.ctypes.data for array in [*arguments, out]]
    with np.errstate(all="ignore"):
        theirs = nanoseconds(lambda: case.numpy(*arguments, out=out), count)
    return nanoseconds(lambda: loop.native(*addresses, count), count), theirs


# -- the page ---------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Accuracy of compiled elementary functions

Generated by `tools/accuracy.py --dense`; do not edit. Greatest error found, in units in the last place (ulp) against mpmath, over
samples of every magnitude from the smallest subnormal to the largest number, uniform in the usual range, and dense around zeros,
poles, thresholds and the limits of overflow. A correctly rounded result has at most 0.5. The guaranteed bound is 2.

`logaddexp` is zero where e^a + e^b = 1 (`logaddexp2` where 2^a + 2^b = 1). The bound holds up to that curve, where the terms
cancel to the last digit: results below 2⁻⁷ of the larger argument (float32: 2⁻²⁶) are computed with 192 bits, 0.3 µs each.

Time is nanoseconds per element in one thread, 8192 elements in the cache, on {machine} (LLVM target {cpu}; load
average {load:.1f} at the end), beside NumPy's (SciPy's for erf, erfc, expit). *Compile* is milliseconds of processor
time to optimise and assemble a loop with the function.

| function | dtype | max ulp | at | samples | ns | NumPy ns | compile ms |
|---|---|---|---|---|---|---|---|
"""


def processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dense", action="store_true", help="many samples, and write the page")
    parser.add_argument("--samples", type=int, default=0)
    chosen = parser.parse_args()
    count = chosen.samples or (12_000 if chosen.dense else 3000)
    rows = []
    for name in chosen.names or sorted(CASES):
        for dtype in (np.float64, np.float32):
            loop = compiled(name, dtype)
            found = greatest_error(name, dtype, count, seed=1, loop=loop)
            ours, theirs = speed(name, dtype, loop)
            at = ", ".join(f"{float(x):.17g}" if dtype == np.float64 else f"{x}" for x in found.at)
            kind = np.dtype(dtype).name
            times = f"{ours:.2f} | {theirs:.2f} | {loop.compile_ms:.0f}"
            rows.append(f"| {name} | {kind} | {found.worst:.2f} | {at} | {found.count} | {times} |\n")
            print(rows[-1], end="")
            sys.stdout.flush()
    if chosen.dense and not chosen.names:
        PAGE.write_text(
            INTRODUCTION.format(machine=processor(), cpu=llvm.get_host_cpu_name(), load=os.getloadavg()[0]) + "".join(rows)
        )


if __name__ == "__main__":
    main()
