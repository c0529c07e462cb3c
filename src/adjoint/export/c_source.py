"""`export.c`: a function and its derivatives as one C99 file and its header, without dependencies.

    int energy(const double *restrict x, double *restrict y, energy_work *restrict work);
    int energy_gradient(const double *restrict x, double *restrict x_bar, energy_work *restrict work);

Arrays are in C order; numbers are passed by value. The work array holds the intermediate arrays; its type has a fixed size, and
one per thread makes the functions reentrant. The result is 0, or a code that the header explains.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..compiler.lower.kernel import Dtype
from ..core.boundary import boundary
from ..core.errors import ArgumentError
from . import c_integers, c_math
from .c_names import check_names, names_of
from .c_vecmath import used
from .lowering import lower
from .program import Part, file_named, parts, titled, write_beside
from .spelling import BOOL, COMPARISONS, RULES, WORK, Language, Pointer, filled
from .steps import DTYPES, ERRORS, StepWriter, Work
from .template import Template

#: Types in memory.
TYPES = {"float64": "double", "float32": "float", "bool": "uint8_t", **c_integers.TYPES}
_VALUES = {**TYPES, "bool": "bool"}  # gcc does not load vectors of bool
_LONGEST_ROW = 8  # numbers of a constant on a line
_READABLE = 1000  # numbers of a constant with decimal digits


class Source(NamedTuple):
    """The two files. Printed, it is the source."""

    source: str
    header: str

    def __str__(self) -> str:
        return self.source


@boundary
def c(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: str | Iterable[str] = (),
    argnums: Any = 0,
    name: str | None = None,
    math: Literal["libm", "exact"] = "libm",
    blas: Literal["cblas"] | None = None,
    lapack: Literal["lapacke"] | None = None,
    **kwargs: Any,
) -> Source:
    """A function, and the derivatives asked for, as C99. With `path` ("energy.c"), the file and its header are written.

    `math="exact"` brings the functions of `jit`, equal on every platform that has IEEE arithmetic; `"libm"` calls the C library.
    `blas="cblas"` calls CBLAS for matrix products and triangular systems, instead of loops. `lapack="lapacke"` calls LAPACKE for
    systems and decompositions.

    >>> from adjoint import export
    >>> "int square(double x, double *ADJOINT_RESTRICT y" in export.c(lambda x: x * x, 2.0, name="square").header
    True
    """
    if math not in ("libm", "exact"):
        raise ArgumentError(f"math of export.c is 'libm' or 'exact', not {math!r}")
    if blas not in (None, "cblas"):
        raise ArgumentError(f"blas of export.c is None or 'cblas', not {blas!r}")
    if lapack not in (None, "lapacke"):
        raise ArgumentError(f"lapack of export.c is None or 'lapacke', not {lapack!r}")
    made = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)
    check_names(made, "export.c")
    result = write(made, math, blas, lapack)
    if path is not None:
        where = file_named(path, "export.c", ".c")
        header = where.with_suffix(".h")
        source = result.source.replace(f'#include "{made[0].name}.h"', f'#include "{header.name}"', 1)
        result = Source(source, titled(result.header, where))
        write_beside(header, result.header)
        where.write_text(source, encoding="utf-8")
    return result


def write(made: Sequence[Part], math: str = "libm", blas: str | None = None, lapack: str | None = None) -> Source:
    """The source and the header of some parts; the first part gives them their name."""
    spelling = CSpelling(made[0].name, math == "exact", blas == "cblas", lapack == "lapacke")
    work, bodies = Work(), []
    for part in made:
        lines = _function(spelling, part, work)
        bodies.append(head(part, made[0].name) + " {\n" + "\n".join(lines) + "\n}")
    base = made[0].name
    fields = [f"{TYPES[d.name]} {WORK[d.name]}[{work.sizes[d]}]" for d in DTYPES if work.sizes[d]] or ["char unused"]
    includes = ["#include <math.h>", "#include <stddef.h>", "#include <string.h>"]
    if spelling.blas:
        includes.append("#include <cblas.h>")
    if spelling.lapack:
        includes.append(_LAPACKE)
    top = f'#include "{base}.h"\n\n' + "\n".join(includes) + f"\n{_PRAGMA}"
    inside = [*spelling.helpers.values(), *spelling.used_constants(bodies), *spelling.definitions(), *bodies]
    libraries = [name for name, used in (("CBLAS", spelling.blas), ("LAPACKE", spelling.lapack)) if used]
    title = _TITLE.format(needs=f"with {' and '.join(libraries)}" if libraries else "without dependencies")
    return Source("\n\n".join([title, top, *inside]) + "\n", header(made, fields))


def header(made: Sequence[Part], fields: Sequence[str]) -> str:
    """The header of some functions; `fields` are the members of the work array."""
    base = made[0].name
    heads = [head(part, base).replace("*restrict", "*ADJOINT_RESTRICT") for part in made]
    return _HEADER.format(
        guard=f"ADJOINT_{re.sub(r'[^A-Z0-9]', '_', base.upper())}_H",
        base=base,
        fields="\n".join(f"  {member};" for member in fields),
        errors="\n".join(f"     {code}  {text}" for code, text in ERRORS.items()),
        declared="\n\n".join(f"/* {part.summary} */\n{text};" for part, text in zip(made, heads, strict=True)),
    )


def head(part: Part, base: str) -> str:
    """A function of C, without its body. Numbers are passed by value."""
    count = len(part.given)
    parameters = []
    for i, (name, t) in enumerate(zip(names_of(part), (*part.given, *part.made), strict=True)):
        kind = TYPES[t.dtype.name]
        parameters.append(f"{kind} {name}" if i < count and t.shape == () else f"{'const ' * (i < count)}{kind} *restrict {name}")
    return f"int {part.name}({', '.join([*parameters, f'{base}_work *restrict work'])})"


def _function(spelling: CSpelling, part: Part, work: Work) -> list[str]:
    """The lines of an exported function."""
    lowered = lower(part.graph, "export.c", spelling.lapack)
    writer = StepWriter(spelling, lowered, work)
    names = names_of(part)
    scalars = [t.shape == () for t in part.given] + [False] * len(lowered.outputs)
    buffers = [*lowered.inputs, *(v.buffer for v in lowered.outputs)]
    for name, buffer, is_scalar in zip(names, buffers, scalars, strict=True):
        writer.places[buffer] = Pointer(f"&{name}" if is_scalar else name)
    writer.run()
    lines = _unused([*names, "work"], writer.text.lines) + writer.text.lines
    return lines if lowered.can_fail else [*lines, "  return 0;"]


class CSpelling(Language):
    """C99. Memory is a pointer."""

    lanes = 8
    tile: tuple[int, int] | None = (6, 64)
    tall = 10
    work_argument = ("work",)

    def __init__(self, base: str, exact: bool = False, blas: bool = False, lapack: bool = False) -> None:
        super().__init__()
        self.base, self.exact, self.blas, self.lapack = base, exact, blas, lapack

    def literal(self, value: Any, dtype: Dtype) -> str:
        if dtype.kind == "b":
            return "true" if value else "false"
        if dtype.kind in "iu":
            return c_integers.literal(int(value), dtype)
        x = float(dtype.type(value))
        if math.isnan(x):
            return "NAN" if dtype.itemsize == 4 else "(double)NAN"
        if math.isinf(x):
            text = "INFINITY" if dtype.itemsize == 4 else "(double)INFINITY"
            return f"(-{text})" if x < 0 else text
        text = (
            repr(abs(x)) if dtype.itemsize == 8 else f"{np.format_float_scientific(np.float32(abs(x)), unique=True, trim='0')}f"
        )
        return f"(-{text})" if math.copysign(1.0, x) < 0 else text

    def let(self, name: str, dtype: Dtype, value: str) -> str:
        return f"const {_VALUES[dtype.name]} {name} = {_bare(value)};"

    def variable(self, name: str, dtype: Dtype, value: str) -> str:
        return f"{_VALUES[dtype.name]} {name} = {_bare(value)};"

    def index(self, name: str, value: str, fixed: bool = True) -> str:
        return f"{'const ' * fixed}ptrdiff_t {name} = {value};"

    def index_parameter(self, name: str) -> str:
        return f"ptrdiff_t {name}"

    def loop(self, index: str, start: str, stop: str, step: int = 1) -> str:
        move = f"++{index}" if step == 1 else f"{index} += {step}"
        return f"for (ptrdiff_t {index} = {_bare(start)}; {index} < {stop}; {move})"

    def element(self, place: Pointer, index: str, dtype: Dtype) -> str:
        read = self.target(place, index)
        return f"({read} != 0)" if dtype.kind == "b" else read

    def target(self, place: Pointer, index: str) -> str:
        if place.array.startswith("&") and index == "0":
            return place.array[1:]
        return f"{place.array}[{_sum(place.at, index)}]"

    def parameter(self, name: str, dtype: Dtype, constant: bool, given: Pointer | None = None) -> tuple[str, Pointer]:
        return f"{'const ' * constant}{TYPES[dtype.name]} *restrict {name}", Pointer(name)

    def argument(self, place: Pointer) -> str:
        return place.array if place.at == "0" else f"{place.array} + {place.at}"

    def pointer(self, name: str, place: Pointer, dtype: Dtype, constant: bool) -> tuple[str, Pointer]:
        return f"{'const ' * constant}{TYPES[dtype.name]} *{name} = {self.argument(place)};", Pointer(name)

    def assign(self, target: Pointer, source: Pointer) -> str:
        return f"{target.array} = {source.array};"

    def as_index(self, value: str) -> str:
        return f"(ptrdiff_t){value}"

    def operation(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str:
        if source.kind in "iu" and name in c_integers.OPERATIONS:
            return c_integers.OPERATIONS[name](source, *args)
        if name in _RULES:
            return _RULES[name].format(*args)
        if name in COMPARISONS:
            if source.kind == "u" and args[1] == self.literal(0, source) and name in ("less", "greater_equal"):
                return f"(((void){args[0]}, {self.literal(name == 'greater_equal', BOOL)}))"  # compilers would warn of it
            return f"({args[0]} {COMPARISONS[name]} {args[1]})"
        if name == "cast":
            return self.cast(args[0], source, result)
        if name == "maximum" or name == "minimum":
            sign = ">=" if name == "maximum" else "<="
            nan = f" || {args[0]} != {args[0]}" if source.kind == "f" else ""
            return f"(({args[0]} {sign} {args[1]}{nan}) ? {args[0]} : {args[1]})"
        return c_math.call(self, name, args, source)

    def cast(self, x: str, source: Dtype, result: Dtype) -> str:
        kind = _VALUES[result.name]
        if source == result:
            return x
        if source.kind == "b":  # a choice is vectorized, a conversion of a truth is not
            return f"({x} ? {self.literal(1, result)} : {self.literal(0, result)})"
        if source.kind == "f" and result.kind in "iu":
            return c_integers.from_float(self.literal, x, source, result)
        return f"({kind}){x}"

    def function(
        self,
        what: str,
        parameters: Sequence[str],
        body: Sequence[str],
        fails: bool = False,
        uses_work: bool = False,
        attribute: str = "",
    ) -> str:
        given = [*parameters, *[f"{self.base}_work *restrict work"] * uses_work]
        kind = "int" if fails else "void"
        lines = used("\n".join(body).split("\n"))  # a window that is empty reads nothing
        text = "\n".join([*_unused(given, lines), *lines])
        return self.shared(what, lambda name: f"{attribute}static {kind} {name}({', '.join(given) or 'void'}) {{\n{text}\n}}")

    def constant(self, data: np.ndarray[Any, Any]) -> Pointer:
        name = f"c{len(self.constants)}"
        numbers = self.numbers(data) or [self.literal(0, data.dtype)]
        rows = [", ".join(numbers[i : i + _LONGEST_ROW]) for i in range(0, len(numbers), _LONGEST_ROW)]
        inside = "\n  " + ",\n  ".join(rows) + "\n" if len(rows) > 1 else rows[0]
        self.constants.append(f"static const {TYPES[data.dtype.name]} {name}[{len(numbers)}] = {{{inside}}};")
        return Pointer(name)

    def numbers(self, data: np.ndarray[Any, Any]) -> list[str]:
        """The elements of a constant. Many floats have hexadecimal digits, which are written and read faster."""
        if data.dtype.kind != "f" or data.size <= _READABLE or not np.isfinite(data).all():
            return [self.literal(x, data.dtype) for x in data.ravel().tolist()]
        numbers = list(map(float.hex, data.ravel().tolist()))
        return numbers if data.dtype.itemsize == 8 else [f"{x}f" for x in numbers]

    def work(self, dtype: Dtype, offset: int) -> Pointer:
        return Pointer(f"work->{WORK[dtype.name]}", str(offset))

    def routine(self, name: str, template: Template, dtype: Dtype) -> str:
        f = "" if dtype.itemsize == 8 else "f"
        meanings = {
            "INT32": "(int32_t)",
            "INT": "ptrdiff_t",
            "COUNT": "const ptrdiff_t",
            "REAL": TYPES[dtype.name],
            "ZERO": self.literal(0, dtype),
            "ONE": self.literal(1, dtype),
            "NOT_A_NUMBER": self.literal(math.nan if dtype.kind == "f" else 0, dtype),
            "SQRT": f"sqrt{f}",
            "ABS": f"fabs{f}",
            "AT": "(ptrdiff_t)",
            "HALF": "adjoint_half",
        }
        for width in sorted(set(re.findall(r"\bROW(\d+)\b", template.text)), key=int):
            meanings[f"ROW{width}"] = self.row(TYPES[dtype.name], int(width))
        if "HALF(" in template.text:
            self.helper("adjoint_half", "static ptrdiff_t adjoint_half(ptrdiff_t n) { return n / 2; }")
        text = filled(template.text, meanings)
        if f:
            text = re.sub(r"(?<![\w.])(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])", r"\1f", text)
        arrays = (*template.reads, *template.writes)
        parameters = [self.parameter(n, template.dtypes.get(n, dtype), n in template.reads)[0] for n in arrays]
        if "ADD_ROW(" in template.text:
            body = ["  ADJOINT_CONTRACT", text.rstrip()]
            return self.function(name, parameters, body, template.tells, attribute="ADJOINT_CONTRACTS ")
        return self.function(name, parameters, [text.rstrip()], template.tells)

    def row(self, kind: str, width: int) -> str:
        """The type of a row of a tile of a product."""
        self.helper("rows", _ROWS)
        name = f"adjoint_{kind}{width}"
        return self.helper(name, _ROW.format(kind=kind, name=name, width=width))


def _unused(parameters: Iterable[str], body: Sequence[str]) -> list[str]:
    """Lines that mark unused parameters as intended."""
    words = set(re.findall(r"\w+", "\n".join(body)))
    names = [parameter.split()[-1].lstrip("*") for parameter in parameters]
    return [f"  (void){name};" for name in names if name not in words]


def _bare(text: str) -> str:
    """An expression without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def _sum(a: str, b: str) -> str:
    return b if a == "0" else a if b == "0" else f"{a} + {b}"


_RULES = RULES | {
    "and": "({0} & {1})",  # of truths: no branch, so that loops are vectorized
    "or": "({0} | {1})",
    "xor": "({0} != {1})",
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "neg": "(-{0})",
    "isnan": "({0} != {0})",
    "signbit": "(signbit({0}) != 0)",
}

_TITLE = "/* Written by adjoint. C99, {needs}. */"
_LAPACKE = """\
#include <lapacke.h>
#ifdef LAPACK_ILP64
#error "pivots are int32_t: use LAPACKE with integers of 32 bits"
#endif
#undef I /* of complex.h */
#undef complex"""
#: Products and sums are not contracted to multiply-adds; the next options let gcc vectorize selects (clang needs nothing). With wide
#: vectors, gcc interleaves independent chains of a function such as exp: 10 to 30 % less time. With SSE alone it would be 4 % more.
_PRAGMA = """
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize ("fp-contract=off", "no-trapping-math", "no-math-errno", "no-thread-jumps")
#ifdef __AVX2__
#pragma GCC optimize ("schedule-insns", "sched-pressure")
#endif
#endif"""
#: The order of the sums in a matrix product is not fixed anyway, so multiply-adds are allowed there.
_ROWS = """\
/* Rows of tiles of matrix products: vectors, where the compiler has them. */
#if defined(__clang__)
#define ADJOINT_CONTRACTS
#define ADJOINT_CONTRACT _Pragma("clang fp contract(fast)")
#elif defined(__GNUC__)
#define ADJOINT_CONTRACTS __attribute__((optimize("fp-contract=fast")))
#define ADJOINT_CONTRACT
#else
#define ADJOINT_CONTRACTS
#define ADJOINT_CONTRACT
#endif
#if defined(__AVX512F__) /* bytes of a vector: gcc keeps longer ones in memory */
#define ADJOINT_VECTOR 64
#elif defined(__AVX__)
#define ADJOINT_VECTOR 32
#else
#define ADJOINT_VECTOR 16
#endif
#define ADJOINT_BYTES(n) ((n) < ADJOINT_VECTOR ? (n) : ADJOINT_VECTOR)
#define EACH_PIECE(t) for (size_t p = 0; p < sizeof(t) / sizeof((t).piece[0]); ++p)
#define PIECE(t, from, at) ((from) + (at) + p * (sizeof((t).piece[0]) / sizeof((from)[0])))
#define CLEAR_ROW(t) memset(&(t), 0, sizeof(t))
#define LOAD_ROW(t, from, at) EACH_PIECE(t) memcpy(&(t).piece[p], PIECE(t, from, at), sizeof((t).piece[0]))
#define STORE_ROW(t, to, at) EACH_PIECE(t) memcpy(PIECE(t, to, at), &(t).piece[p], sizeof((t).piece[0]))
#define ADD_ROW(t, x, v) EACH_PIECE(t) (t).piece[p] += (x) * (v).piece[p]
#ifdef __GNUC__
#define IN_PIECE(t) ((ptrdiff_t)(sizeof((t).piece[0]) / sizeof((t).piece[0][0])))
#define ROW_AT(t, c) (t).piece[(c) / IN_PIECE(t)][(c) % IN_PIECE(t)]
#else
#define ROW_AT(t, c) (t).piece[c]
#endif"""
_ROW = """\
#ifdef __GNUC__
typedef {kind} {name}_piece __attribute__((vector_size(ADJOINT_BYTES({width} * sizeof({kind})))));
#else
typedef {kind} {name}_piece;
#endif
typedef struct {{ {name}_piece piece[{width} * sizeof({kind}) / sizeof({name}_piece)]; }} {name};"""
_HEADER = """\
/* Written by adjoint.

   Arrays are in C order and do not overlap; the work array may be anywhere, one per thread. Each function returns 0, or

{errors}
*/
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifndef ADJOINT_RESTRICT
#if defined(__cplusplus) || defined(_MSC_VER)
#define ADJOINT_RESTRICT __restrict
#else
#define ADJOINT_RESTRICT restrict
#endif
#endif

#ifdef __cplusplus
extern "C" {{
#endif

/* Memory for intermediate arrays, of {base} and its derivatives; fastest at a multiple of 64 bytes. */
typedef struct {{
{fields}
}} {base}_work;

{declared}

#ifdef __cplusplus
}}
#endif

#endif
"""
