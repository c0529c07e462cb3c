"""LU factors and inverses of small matrices, inline: for a few rows, a call of LAPACK takes several times as long as the work.

Both are as LAPACK has them: column-major, in place, with partial pivoting and pivots that count from one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..switches import Switch
from .instruction import literal
from .substitution import ROWS_WRITTEN_OUT, WORK_WRITTEN_OUT, Unknowns, by_factors

if TYPE_CHECKING:
    from .lapack import Matrix


_ROWS = 12  # beyond, LAPACK is faster


def is_small(n: int) -> bool:
    return Switch.SMALL_SYSTEMS.on and n <= _ROWS


def factors(c: Matrix, a: str, pivots: str, n: int) -> str:
    """P L U = a, one column after the other; returns whether a pivot is zero. Its column is then left as it is."""
    code, zero = c.code, literal(0, c.dtype)
    c.writes_out = n <= ROWS_WRITTEN_OUT
    failed, largest, row = (code.let(f"alloca {kind}") for kind in ("i1", c.kind, "i64"))
    code.do(f"store i1 false, ptr {failed}")

    def at(i: str, j: str) -> str:
        return c.element(a, code.let(f"add nuw nsw i64 {i}, {code.let(f'mul nuw nsw i64 {j}, {n}')}"))

    def column(k: str) -> None:
        following = c.next(k)
        code.do(f"store {c.kind} {_size(c, at(k, k))}, ptr {largest}")
        code.do(f"store i64 {k}, ptr {row}")

        def compare(i: str) -> None:
            size, so_far = _size(c, at(i, k)), code.let(f"load {c.kind}, ptr {largest}")
            is_larger = code.let(f"fcmp ogt {c.kind} {size}, {so_far}")
            code.do(f"store {c.kind} {code.let(f'select i1 {is_larger}, {c.kind} {size}, {c.kind} {so_far}')}, ptr {largest}")
            before = code.let(f"load i64, ptr {row}")
            code.do(f"store i64 {code.let(f'select i1 {is_larger}, i64 {i}, i64 {before}')}, ptr {row}")

        c.span(following, str(n), compare)
        found = code.let(f"load i64, ptr {row}")
        counted = code.let(f"trunc i64 {code.let(f'add nuw nsw i64 {found}, 1')} to i32")
        code.do(f"store i32 {counted}, ptr {code.let(f'getelementptr i32, ptr {pivots}, i64 {k}')}")

        def exchange(j: str) -> None:
            here, there = at(k, j), at(found, j)
            one, other = code.load(here, c.dtype), code.load(there, c.dtype)
            code.store(other, here, c.dtype)
            code.store(one, there, c.dtype)

        c.span("0", str(n), exchange)
        pivot = code.load(at(k, k), c.dtype)
        is_zero = code.let(f"fcmp oeq {c.kind} {pivot}, {zero}")
        before = code.let(f"load i1, ptr {failed}")
        code.do(f"store i1 {code.let(f'or i1 {before}, {is_zero}')}, ptr {failed}")

        def divide(i: str) -> None:
            value = code.load(at(i, k), c.dtype)
            quotient = code.let(f"fdiv {c.kind} {value}, {pivot}")
            code.store(code.let(f"select i1 {is_zero}, {c.kind} {value}, {c.kind} {quotient}"), at(i, k), c.dtype)

        c.span(following, str(n), divide)

        def eliminate(j: str) -> None:
            above = code.load(at(k, j), c.dtype)

            def subtract(i: str) -> None:
                term = code.let(f"fmul {c.kind} {code.load(at(i, k), c.dtype)}, {above}")
                code.store(code.let(f"fsub {c.kind} {code.load(at(i, j), c.dtype)}, {term}"), at(i, j), c.dtype)

            c.span(following, str(n), subtract)

        c.span(following, str(n), eliminate)

    c.span("0", str(n), column)
    return code.let(f"load i1, ptr {failed}")


def inverse(c: Matrix, x: str, pivots: str, work: str, n: int) -> None:
    """The inverse in the place of its factors: the solutions for the columns of the identity."""
    size = n * n * c.dtype.itemsize
    c.writes_out = n**3 <= WORK_WRITTEN_OUT
    c.code.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    c.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {work}, ptr {x}, i64 {size}, i1 false)")
    c.clear(x, str(n * n))
    one = literal(1, c.dtype)
    c.span("0", str(n), lambda i: c.code.store(one, c.element(x, c.code.let(f"mul nuw nsw i64 {i}, {n + 1}")), c.dtype))
    by_factors(c, work, pivots, Unknowns(x, n, n, 1, n), transposed=False)


def _size(c: Matrix, place: str) -> str:
    """The absolute value of an element."""
    name = f"llvm.fabs.{'f64' if c.kind == 'double' else 'f32'}"
    c.code.declared.add(f"declare {c.kind} @{name}({c.kind})")
    return c.code.let(f"call {c.kind} @{name}({c.kind} {c.code.load(place, c.dtype)})")
