"""Matrix products and small matrix routines, written out in C, JavaScript or LLVM: see `template`.

Matrices are column-major unless stated otherwise, as `compiler.lower.matrix` has them for LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiler.lower.kernel import Dtype, View
from ..compiler.lower.step import Lapack, Product
from . import decompositions, lapacke
from .template import Template, Templates

#: Of both factors of a product: the distance between rows, and between columns.
Strides = tuple[tuple[int, ...], tuple[int, ...]]
#: Tiles of a product that are single numbers: for JavaScript, and where both factors run along the inner axis.
_FEW = 4
_DOTS = 2
_TILE = 3  # rows and columns: 9 totals and 6 factors, of 16 registers
_WIDE = 6  # columns of a tile of one row
_PARTS = ("", "p")  # totals of an element in such a tile, or in one of one column, by their names
_AT_A_TIME = len(_PARTS)
_PANEL = 256  # inner elements of a block


def product(spelling: Templates, step: Product) -> str:
    """The name of the function out = a @ b, for one pair of matrices; `out` is row-major."""
    template = Template(("a", "b"), ("out",), _blas_product(spelling, step) or _product(spelling, step))
    return spelling.routine("product", template, step.out.dtype)


def _blas_product(spelling: Templates, step: Product) -> str:
    """The call of CBLAS; none if it cannot read the factors, or is not to be called."""
    a, b = step.left, step.right
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    left, right = _layout(rows, inner, *a.strides[-2:]), _layout(inner, columns, *b.strides[-2:])
    if not spelling.blas or left is None or right is None:
        return ""
    letter = "d" if step.out.dtype.itemsize == 8 else "s"
    return (
        f"\n    cblas_{letter}gemm(CblasRowMajor, Cblas{left[0]}Trans, Cblas{right[0]}Trans, {rows}, {columns}, {inner}, ONE, "
        f"a, {left[1]}, b, {right[1]}, ZERO, out, {columns});"
    )


def _product(spelling: Templates, step: Product) -> str:
    """The loops of a product, chosen by the layout of the factors and the features of the language."""
    a, b = step.left, step.right
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    (ad, aa), (bd, ba) = strides = a.strides[-2:], b.strides[-2:]
    if not inner:
        return f"\n    for (INT i = 0; i < {rows * columns}; ++i) out[i] = ZERO;"
    if spelling.copies and 1 in (rows, columns) and inner > 1:
        return _unrolled(rows, columns, inner, strides, (1, _WIDE) if rows == 1 else (_FEW, 1), _AT_A_TIME)
    if columns == 1 and ad == 1 and aa != 1:
        return _combined("a", aa, rows, "b", bd, inner)
    if rows == 1 and ba == 1:
        return _combined("b", bd, columns, "a", aa, inner)
    if spelling.tile is not None and columns >= _FEW and rows > 1:
        most, line = spelling.tile

        def packed(height: int) -> str:
            return _packed(rows, columns, inner, strides, height, line // step.out.dtype.itemsize)

        if most < min(rows, spelling.tall):
            return f"\n#if ADJOINT_VECTOR == 64{packed(spelling.tall)}\n#else{packed(most)}\n#endif"
        return packed(most)
    if spelling.lanes > 1:
        return _in_lanes(rows, columns, inner, strides)
    size = _DOTS if (aa == 1 or inner == 1) and bd == 1 and ba != 1 and columns > 1 else _TILE
    return _unrolled(rows, columns, inner, strides, (size, size))


def _in_lanes(rows: int, columns: int, inner: int, strides: Strides) -> str:
    """Each element is a sum in eight parts, which compilers make a vector of."""
    (ad, aa), (bd, ba) = strides
    whole = inner - inner % 8
    return f"""
    for (INT i = 0; i < {rows}; ++i) for (INT j = 0; j < {columns}; ++j) {{
      REAL t[8] = {{ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO}};
      for (INT k = 0; k < {whole}; k += 8)
        for (INT l = 0; l < 8; ++l) t[l] += a[i * {ad} + (k + l) * {aa}] * b[(k + l) * {bd} + j * {ba}];
      for (INT k = {whole}; k < {inner}; ++k) t[0] += a[i * {ad} + k * {aa}] * b[k * {bd} + j * {ba}];
      out[i * {columns} + j] = ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
    }}"""


def _combined(lines: str, apart: int, length: int, factors: str, step: int, inner: int) -> str:
    """Contiguous lines of a matrix, times numbers, added up: a few lines at a time, so that the sum is read and written less."""
    text = [f"for (INT i = 0; i < {length}; ++i) out[i] = ZERO;"]
    for first, last, count in _stripes(inner, _FEW):
        text.append(f"for (INT k = {first}; k < {last}; k += {count}) {{")
        text += [f"  REAL v{c} = {factors}[(k + {c}) * {step}];" for c in range(count)]
        terms = " + ".join(f"v{c} * {lines}[(k + {c}) * {apart} + i]" for c in range(count))
        text += [f"  for (INT i = 0; i < {length}; ++i) out[i] += {terms};", "}"]
    return "\n".join(["", *(f"    {line}" for line in text)])


def _stripes(length: int, size: int) -> list[tuple[int, int, int]]:
    """A range in pieces of one size, and what is left: (start, stop, size)."""
    whole = length - length % size
    return [piece for piece in ((0, whole, size), (whole, length, length - whole)) if piece[0] < piece[1]]


def _packed(rows: int, columns: int, inner: int, strides: Strides, most: int, line: int) -> str:
    """A block of columns of b is copied next to each other, and multiplied with tiles of rows of a.

    Each row of a tile is a vector (`ROW8` has 8 numbers), which stays in a register.
    """
    (ad, aa), (bd, ba) = strides
    height = -(-rows // -(-rows // most))  # so that all tiles are about as high
    lines = [f"REAL panel[{min(inner, _PANEL) * min(line, 2 * columns)}];"]
    lines.append(f"for (INT start = 0; start < {inner}; start += {_PANEL}) {{")
    lines.append(f"  COUNT stop = start + {_PANEL} < {inner} ? start + {_PANEL} : {inner};")
    for left, right, kept in _stripes(columns, line):
        width = line if kept > line // 2 else line // 2  # columns beyond the last one are zeros, which are not stored
        lines.append(f"  for (INT j = {left}; j < {right}; j += {kept}) {{")
        lines.append("    for (INT k = start; k < stop; ++k) {")
        lines.append(f"      for (INT c = 0; c < {kept}; ++c) panel[(k - start) * {width} + c] = b[k * {bd} + (j + c) * {ba}];")
        if kept < width:
            lines.append(f"      for (INT c = {kept}; c < {width}; ++c) panel[(k - start) * {width} + c] = ZERO;")
        lines.append("    }")
        for top, bottom, down in _stripes(rows, height):
            lines.append(f"    for (INT i = {top}; i < {bottom}; i += {down}) {{")
            lines += [f"      ROW{width} t{r};" for r in range(down)]
            whole, again = kept == width, inner > _PANEL  # of a partial row, the elements are stored one by one
            places = [f"(i + {r}) * {columns} + j" for r in range(down)]
            before = [f"if (start > 0) LOAD_ROW(t{r}, out, {at}); else " * (whole and again) for r, at in enumerate(places)]
            lines += [f"      {text}CLEAR_ROW(t{r});" for r, text in enumerate(before)]
            lines.append("      for (INT k = start; k < stop; ++k) {")
            lines.append(f"        ROW{width} v;")
            lines.append(f"        LOAD_ROW(v, panel, (k - start) * {width});")
            lines += [f"        ADD_ROW(t{r}, a[(i + {r}) * {ad} + k * {aa}], v);" for r in range(down)]
            lines.append("      }")
            each = f"for (INT c = 0; c < {kept}; ++c)"
            if whole:
                lines += [f"      STORE_ROW(t{r}, out, {at});" for r, at in enumerate(places)]
            else:
                stored, added = (
                    " ".join(f"out[{at} + c] {sign} ROW_AT(t{r}, c);" for r, at in enumerate(places)) for sign in ("=", "+=")
                )
                lines += [f"      if (start > 0) {each} {{ {added} }}", "      else"] * again
                lines.append(f"      {each} {{ {stored} }}")
            lines.append("    }")
        lines.append("  }")
    return "\n".join(["", *(f"    {line}" for line in [*lines, "}"])])


def _unrolled(rows: int, columns: int, inner: int, strides: Strides, size: tuple[int, int], at_a_time: int = 1) -> str:
    """Tiles of a few rows and columns, each element a variable, or several that are added up at the end."""
    (ad, aa), (bd, ba) = strides
    lines = []
    for top, bottom, down in _stripes(rows, size[0]):
        for left, right, across in _stripes(columns, size[1]):
            tile = [(r, c) for r in range(down) for c in range(across)]
            lines.append(f"for (INT i = {top}; i < {bottom}; i += {down}) for (INT j = {left}; j < {right}; j += {across}) {{")
            lines += [f"  REAL t{r}{c}{x} = ZERO;" for r, c in tile for x in _PARTS[:at_a_time]]
            lines.append(f"  INT at = i * {ad};")
            lines.append(f"  INT from = j * {ba};")
            for start, stop, count in _stripes(inner, at_a_time):
                lines.append(f"  for (INT k = {start}; k < {stop}; k += {count}) {{")
                for n, x in enumerate(_PARTS[:count]):
                    lines += [f"    REAL b{c}{x} = b[from + {c * ba + n * bd}];" for c in range(across)]
                    for r in range(down):
                        lines.append(f"    REAL a{r}{x} = a[at + {r * ad + n * aa}];")
                        lines += [f"    t{r}{c}{x} += a{r}{x} * b{c}{x};" for c in range(across)]
                lines.append(f"    at = at + {count * aa};")
                lines.append(f"    from = from + {count * bd};")
                lines.append("  }")
            for r, c in tile:
                total = " + ".join(f"t{r}{c}{x}" for x in _PARTS[:at_a_time])
                lines.append(f"  out[(i + {r}) * {columns} + j + {c}] = {total};")
            lines.append("}")
    return "\n".join(["", *(f"    {line}" for line in lines)])


def _layout(rows: int, columns: int, down: int, across: int) -> tuple[str, int] | None:
    """How CBLAS reads a matrix: by rows ("No") or transposed (""), and the distance of rows; None if it cannot."""
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return "No", max(down, columns, 1)
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return "", max(across, rows, 1)
    return None


def views_of(spelling: Templates, step: Lapack) -> tuple[tuple[int, ...], list[View], tuple[View, ...]]:
    """The axes of a stack of matrices, or of other parts of arrays; what a routine is given of each; and work memory for all."""
    *outs, _ = step.outs
    work = step.work if needs_work(spelling, step) else ()
    stack = (*step.inout, *outs)[0].shape
    return stack[: len(stack) - step.options.get("axes", 2)], [*step.operands, *step.inout, *outs], work


def needs_work(spelling: Templates, step: Lapack) -> bool:
    """Whether a routine uses the work memory, which is sized for LAPACK; some written-out routines use it too."""
    return step.routine == "inverse" or "template" in step.options or (spelling.lapack and lapacke.has(step))


def matrix(spelling: Templates, step: Lapack) -> tuple[str, bool]:
    """The name of the function for one matrix, and whether it returns a failure flag."""
    if "template" in step.options:
        _, views, work = views_of(spelling, step)
        names, count = step.options["names"], len(step.operands)
        dtypes = {name: view.dtype for name, view in zip(names, (*views, *work), strict=True)}
        dtype = step.options["dtype"]
        template = Template(names[:count], names[count:], step.options["template"], step.options["tells"], dtypes)
    else:
        dtype = next(v.dtype for v in (*step.inout, *step.operands) if v.dtype.kind == "f")
        if spelling.lapack and lapacke.has(step):
            template = lapacke.template(step)
        else:
            template = _WRITTEN_OUT[step.routine](spelling, step, dtype)
    return spelling.routine(step.routine, template, dtype), template.tells


def _triangular_loops(step: Lapack) -> str:
    """As BLAS sees it; a row-major x is its transpose, so that the transposed system is solved from the right."""
    options = step.options
    rows, columns = step.inout[0].shape[-2:]
    down, across = (columns, 1) if options["by_rows"] else (1, rows)
    lower = options["triangle"] == "L"
    transposed = (options["transposed"] == "T") != (options["by_rows"] and columns > 1)
    leading = options["leading"]
    i, j = (1, leading) if not transposed else (leading, 1)  # strides of a, transposed or not
    forward = lower != transposed
    span = "INT c = 0; c < k; ++c" if forward else f"INT c = k + 1; c < {rows}; ++c"
    return f"""
    for (INT count = 0; count < {rows}; ++count) {{
      INT k = {"count" if forward else f"{rows - 1} - count"};
      for ({span}) {{
        REAL v = a[k * {i} + c * {j}];
        for (INT s = 0; s < {columns}; ++s) x[k * {down} + s * {across}] -= v * x[c * {down} + s * {across}];
      }}
      REAL d = a[k * {leading + 1}];
      for (INT s = 0; s < {columns}; ++s) x[k * {down} + s * {across}] /= d;
    }}"""


# Row-major: the lower triangle of a becomes the factor, the upper one zero.
_CHOLESKY = """
    for (INT i = 0; i < N_; ++i) {
      for (INT j = 0; j <= i; ++j) {
        REAL t = a[i * N_ + j];
        for (INT k = 0; k < j; ++k) t -= a[i * N_ + k] * a[j * N_ + k];
        if (i == j) {
          if (!(t > ZERO)) return 1;
          a[i * N_ + j] = SQRT(t);
        } else {
          a[i * N_ + j] = t / a[j * N_ + j];
        }
      }
    }
    for (INT i = 0; i < N_; ++i) for (INT j = i + 1; j < N_; ++j) a[i * N_ + j] = ZERO;
    return 0;"""

# Row-major, by columns from the last (after Murray, arXiv:1602.07527): g, the cotangent of the factor, becomes p, that of l lᵀ,
# symmetric.
_PULLBACK = """
    for (INT count = 0; count < N_; ++count) {
      INT j = N_ - 1 - count;
      REAL d = l[j * LEADING + j];
      REAL t = g[j * N_ + j];
      for (INT i = j + 1; i < N_; ++i) {
        g[i * N_ + j] /= d;
        t -= g[i * N_ + j] * l[i * LEADING + j];
      }
      t /= d;
      for (INT k = 0; k < j; ++k) g[j * N_ + k] -= t * l[j * LEADING + k];
      for (INT i = j + 1; i < N_; ++i) {
        REAL v = g[i * N_ + j];
        for (INT k = 0; k < j; ++k) {
          g[j * N_ + k] -= v * l[i * LEADING + k];
          g[i * N_ + k] -= v * l[j * LEADING + k];
        }
      }
      g[j * N_ + j] = t;
    }
    for (INT i = 0; i < N_; ++i) for (INT j = 0; j < i; ++j) g[j * N_ + i] = g[i * N_ + j];"""

# P L U with partial pivoting; pivots count from one.
_FACTORS = """
    INT failed = 0;
    for (INT k = 0; k < N_; ++k) {
      INT p = k;
      for (INT i = k + 1; i < N_; ++i) if (ABS(a[i + k * N_]) > ABS(a[p + k * N_])) p = i;
      pivots[k] = INT32(p + 1);
      if (p != k) for (INT j = 0; j < N_; ++j) {
        REAL t = a[k + j * N_];
        a[k + j * N_] = a[p + j * N_];
        a[p + j * N_] = t;
      }
      REAL d = a[k + k * N_];
      if (d == ZERO) failed = 1;
      else for (INT i = k + 1; i < N_; ++i) a[i + k * N_] /= d;
      for (INT j = k + 1; j < N_; ++j) {
        REAL v = a[k + j * N_];
        for (INT i = k + 1; i < N_; ++i) a[i + j * N_] -= v * a[i + k * N_];
      }
    }
    zero[0] = failed != 0;
    return failed != 0 ? 1 : 0;"""

_SOLVE = """
    for (INT s = 0; s < COLUMNS; ++s) {
      for (INT i = 0; i < N_; ++i) {
        INT p = pivots[i] - 1;
        REAL t = x[i + s * N_];
        x[i + s * N_] = x[p + s * N_];
        x[p + s * N_] = t;
      }
      for (INT k = 0; k < N_; ++k) {
        REAL v = x[k + s * N_];
        for (INT i = k + 1; i < N_; ++i) x[i + s * N_] -= v * a[i + k * N_];
      }
      for (INT count = 0; count < N_; ++count) {
        INT k = N_ - 1 - count;
        REAL v = x[k + s * N_] / a[k + k * N_];
        x[k + s * N_] = v;
        for (INT i = 0; i < k; ++i) x[i + s * N_] -= v * a[i + k * N_];
      }
    }"""

_SOLVE_TRANSPOSED = """
    for (INT s = 0; s < COLUMNS; ++s) {
      for (INT k = 0; k < N_; ++k) {
        REAL t = x[k + s * N_];
        for (INT i = 0; i < k; ++i) t -= a[i + k * N_] * x[i + s * N_];
        x[k + s * N_] = t / a[k + k * N_];
      }
      for (INT count = 0; count < N_; ++count) {
        INT k = N_ - 1 - count;
        REAL t = x[k + s * N_];
        for (INT i = k + 1; i < N_; ++i) t -= a[i + k * N_] * x[i + s * N_];
        x[k + s * N_] = t;
      }
      for (INT count = 0; count < N_; ++count) {
        INT i = N_ - 1 - count;
        INT p = pivots[i] - 1;
        REAL t = x[i + s * N_];
        x[i + s * N_] = x[p + s * N_];
        x[p + s * N_] = t;
      }
    }"""

# In place, from the factors: U⁻¹, then X L = U⁻¹ by columns from the last, then the columns exchanged; nan if there is none.
_INVERSE = """
    if (zero[0]) {
      for (INT i = 0; i < N_ * N_; ++i) x[i] = NOT_A_NUMBER;
      return;
    }
    for (INT j = 0; j < N_; ++j) {
      x[j + j * N_] = ONE / x[j + j * N_];
      for (INT i = 0; i < j; ++i) {
        REAL t = ZERO;
        for (INT k = i; k < j; ++k) t += x[i + k * N_] * x[k + j * N_];
        x[i + j * N_] = -t * x[j + j * N_];
      }
    }
    for (INT count = 0; count < N_; ++count) {
      INT j = N_ - 1 - count;
      for (INT k = j + 1; k < N_; ++k) {
        work[k] = x[k + j * N_];
        x[k + j * N_] = ZERO;
      }
      for (INT k = j + 1; k < N_; ++k)
        for (INT i = 0; i < N_; ++i) x[i + j * N_] -= work[k] * x[i + k * N_];
    }
    for (INT count = 0; count < N_; ++count) {
      INT j = N_ - 1 - count;
      INT p = pivots[j] - 1;
      if (p != j) for (INT i = 0; i < N_; ++i) {
        REAL t = x[i + j * N_];
        x[i + j * N_] = x[i + p * N_];
        x[i + p * N_] = t;
      }
    }"""

_IS_SYMMETRIC = """
    REAL largest = ZERO;
    REAL widest = ZERO;
    for (INT i = 0; i < N_; ++i) for (INT j = 0; j < N_; ++j) {
      REAL v = a[i * DOWN + j * ACROSS];
      REAL w = a[j * DOWN + i * ACROSS];
      REAL gap = v == w ? ZERO : ABS(v - w);
      if (!(ABS(v) <= largest)) largest = ABS(v);
      if (!(gap <= widest)) widest = gap;
    }
    truth[0] = widest <= SLACK * largest;"""


def _cholesky(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    return Template((), ("a",), _CHOLESKY, tells=True).with_sizes(N_=step.inout[0].shape[-1])


def _pullback(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    return Template(("l",), ("g",), _PULLBACK).with_sizes(N_=step.inout[0].shape[-1], LEADING=step.options["leading"])


def _factors(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    return Template((), ("a", "pivots", "zero"), _FACTORS, tells=True).with_sizes(N_=step.inout[0].shape[-1])


def _solve(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    n, columns = step.inout[0].shape[-2:]
    text = _SOLVE_TRANSPOSED if step.options["transposed"] == "T" else _SOLVE
    return Template(("a", "pivots"), ("x",), text).with_sizes(N_=n, COLUMNS=columns)


def _inverse(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    return Template(("pivots", "zero"), ("x", "work"), _INVERSE).with_sizes(N_=step.inout[0].shape[-1])


def _is_symmetric(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    (view,) = step.operands
    down, across = view.strides[-2:]
    slack = spelling.literal(float(np.sqrt(np.finfo(dtype).eps)), dtype)
    return Template(("a",), ("truth",), _IS_SYMMETRIC).with_sizes(N_=view.shape[-1], DOWN=down, ACROSS=across, SLACK=slack)


def _reflectors(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    m, n = step.inout[0].shape[-2:]
    return Template((), ("a", "tau"), decompositions.reflectors(m, n))


def _orthogonal(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    m, n = step.inout[0].shape[-2:]
    return Template(("tau",), ("q",), decompositions.orthogonal(m, n, step.operands[0].shape[-1]))


def _triangular(spelling: Templates, step: Lapack, dtype: Dtype) -> Template:
    return Template(("a",), ("x",), lapacke.triangular(step) if spelling.blas else _triangular_loops(step))


#: Routines that every language writes itself, unless it calls LAPACK.
_WRITTEN_OUT: dict[str, Callable[[Templates, Lapack, Dtype], Template]] = {
    "cholesky": _cholesky,
    "cholesky_pullback": _pullback,
    "factors": _factors,
    "solve": _solve,
    "inverse": _inverse,
    "is_symmetric": _is_symmetric,
    "reflectors": _reflectors,
    "orthogonal": _orthogonal,
    "triangular": _triangular,
}
WRITTEN_OUT = frozenset(_WRITTEN_OUT)
