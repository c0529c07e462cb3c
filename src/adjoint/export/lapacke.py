"""Systems and decompositions of exported C through LAPACKE, and triangular systems through CBLAS.

    return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', 4, a, 4, w, work, 57, whole, 23) != 0;

The middle layer of LAPACKE (`…_work`) allocates nothing for column-major matrices, and does not search them for nan. The steps,
with their work memory, are those that `jit` calls LAPACK for: see `compiler.lower.matrix`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.lower.step import Lapack
from .template import Template


def _letter(step: Lapack) -> str:
    return "d" if (*step.inout, *step.outs)[0].dtype.itemsize == 8 else "s"


def _call(step: Lapack, name: str, *arguments: object) -> str:
    return f"LAPACKE_{_letter(step)}{name}_work(LAPACK_COL_MAJOR, {', '.join(map(str, arguments))})"


def _sizes(step: Lapack) -> list[int]:
    """The lengths of the work arrays."""
    return [view.buffer.size for view in step.work]


def _cholesky(step: Lapack) -> Template:
    """Row-major: LAPACK sees the transpose, whose upper triangle is our lower one."""
    n = step.inout[0].shape[-1]
    text = f"""
    if ({_call(step, "potrf", "'U'", n, "a", n)} != 0) return 1;
    for (INT i = 0; i < {n}; ++i) for (INT j = i + 1; j < {n}; ++j) a[i * {n} + j] = ZERO;
    return 0;"""
    return Template((), ("a",), text, tells=True)


def _factors(step: Lapack) -> Template:
    n = step.inout[0].shape[-1]
    text = f"""
    zero[0] = {_call(step, "getrf", n, n, "a", n, "pivots")} != 0;
    return zero[0];"""
    return Template((), ("a", "pivots", "zero"), text, tells=True)


def _solve(step: Lapack) -> Template:
    n, columns = step.inout[0].shape[-2:]
    how = f"'{step.options['transposed']}'"
    return Template(("a", "pivots"), ("x",), f"\n    {_call(step, 'getrs', how, n, columns, 'a', n, 'pivots', 'x', n)};")


def _inverse(step: Lapack) -> Template:
    """From the factors, in place; nan if there is none."""
    n = step.inout[0].shape[-1]
    text = f"""
    if (zero[0]) for (INT i = 0; i < {n * n}; ++i) x[i] = NOT_A_NUMBER;
    else {_call(step, "getri", n, "x", n, "pivots", "work", *_sizes(step))};"""
    return Template(("pivots", "zero"), ("x", "work"), text)


def _eigen(step: Lapack) -> Template:
    n = step.inout[0].shape[-1]
    size, whole = _sizes(step)
    job, triangle = "'V'" if step.options["vectors"] else "'N'", f"'{step.options['triangle']}'"
    call = _call(step, "syevd", job, triangle, n, "a", n, "w", "work", size, "whole", whole)
    return Template((), ("a", "w", "work", "whole"), f"\n    return {call} != 0;", tells=True)


def _reflectors(step: Lapack) -> Template:
    m, n = step.inout[0].shape[-2:]
    return Template((), ("a", "tau", "work"), f"\n    {_call(step, 'geqrf', m, n, 'a', m, 'tau', 'work', *_sizes(step))};")


def _orthogonal(step: Lapack) -> Template:
    (m, n), k = step.inout[0].shape[-2:], step.operands[0].shape[-1]
    return Template(("tau",), ("q", "work"), f"\n    {_call(step, 'orgqr', m, n, k, 'q', m, 'tau', 'work', *_sizes(step))};")


def _singular(step: Lapack) -> Template:
    (m, n), job = step.inout[0].shape[-2:], f"'{step.options['job']}'"
    vectors = ("u", "vh") if job != "'N'" else ()
    u, vh, rows = (*vectors, step.outs[2].shape[-2]) if vectors else ("NULL", "NULL", n)
    call = _call(step, "gesdd", job, m, n, "a", m, "s", u, m, vh, rows, "work", _sizes(step)[0], "whole")
    return Template((), ("a", "s", *vectors, "work", "whole"), f"\n    return {call} != 0;", tells=True)


_CALLS: dict[str, Callable[[Lapack], Template]] = {
    "cholesky": _cholesky,
    "factors": _factors,
    "solve": _solve,
    "inverse": _inverse,
    "eigen": _eigen,
    "reflectors": _reflectors,
    "orthogonal": _orthogonal,
    "singular": _singular,
}


def has(step: Lapack) -> bool:
    """Whether LAPACKE is called for a step."""
    return step.routine in _CALLS and "template" not in step.options


def template(step: Lapack) -> Template:
    return _CALLS[step.routine](step)


def triangular(step: Lapack) -> str:
    """A triangular system by CBLAS; a row-major x is its transpose, which is solved from the right."""
    options, letter = step.options, _letter(step)
    rows, columns = step.inout[0].shape[-2:]
    uplo = "CblasUpper" if options["triangle"] == "U" else "CblasLower"
    trans = "CblasTrans" if options["transposed"] == "T" else "CblasNoTrans"
    leading = options["leading"]
    if columns == 1:
        return f"\n    cblas_{letter}trsv(CblasColMajor, {uplo}, {trans}, CblasNonUnit, {rows}, a, {leading}, x, 1);"
    side, m, n = ("CblasRight", columns, rows) if options["by_rows"] else ("CblasLeft", rows, columns)
    return f"\n    cblas_{letter}trsm(CblasColMajor, {side}, {uplo}, {trans}, CblasNonUnit, {m}, {n}, ONE, a, {leading}, x, {m});"
