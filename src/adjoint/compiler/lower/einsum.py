"""Sums of products: `einsum` with explicit letters, as loops or as matrix products.

    ij,ij->i      a loop over i and j that multiplies and sums
    bik,bjk->bij  matrix products, one for each b; no copies
    ii->i         a view of the diagonal

Several factors are multiplied pair by pair, in the order that NumPy chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.types import Type
from ...ir.graph import Equation
from ...ops import broadcast, linalg
from ..switches import Switch
from .kernel import Dtype, Reduce, View, size_of
from .lowered import Rules
from .scalar import BOOL, FLOATS, KernelWriter

if TYPE_CHECKING:
    from .fuse import Lowering

_SMALL = 1000  # multiplications; below, loops beat a call


@dataclass(frozen=True, slots=True)
class Factor:
    """An array whose axes are letters, each once."""

    letters: str
    view: View


def einsum(low: Lowering, equation: Equation) -> bool:
    inputs, output = equation.params["inputs"], equation.params["output"]
    (result,) = equation.types
    types = [low.type_of(o) for o in equation.inputs]
    sizes = _sizes(inputs, types)
    if sizes is None or 0 in sizes.values() or result.dtype == BOOL or any(t.dtype not in low.dtypes for t in (*types, result)):
        return False
    factors = [_with_diagonals(letters, low.view(o)) for o, letters in zip(equation.inputs, inputs, strict=True)]
    for chosen in _path(inputs, output, types):
        taken = [factors[i] for i in chosen]
        factors = [f for i, f in enumerate(factors) if i not in chosen]
        kept = set(output).union(*(f.letters for f in factors))
        letters = output if not factors else "".join(c for c in sizes if c in kept and any(c in f.letters for f in taken))
        factors.append(_contracted(low, taken, letters, sizes, result.dtype))
    (last,) = factors
    return low.hold(equation, last.view)


def _sizes(inputs: Sequence[str], types: Sequence[Type]) -> dict[str, int] | None:
    """The length of each letter; None if an axis of length one is broadcast."""
    sizes: dict[str, int] = {}
    for t, letters in zip(types, inputs, strict=True):
        if any(sizes.setdefault(c, n) != n for c, n in zip(letters, t.shape, strict=True)):
            return None
    return sizes


def _path(inputs: Sequence[str], output: str, types: Sequence[Type]) -> list[tuple[int, ...]]:
    """Which factors to contract, one group after another; each product goes to the end of the list."""
    if len(inputs) > 2 and any(c not in output for letters in inputs for c in letters):
        shapes = [np.broadcast_to(0.0, t.shape) for t in types]
        return list(np.einsum_path(f"{','.join(inputs)}->{output}", *shapes, optimize=True)[0][1:])
    return [tuple(range(len(inputs)))]


def _with_diagonals(letters: str, view: View) -> Factor:
    """A repeated letter moves along both axes."""
    once = "".join(dict.fromkeys(letters))
    strides = tuple(sum(s for c, s in zip(letters, view.strides, strict=True) if c == wanted) for wanted in once)
    shape = tuple(view.shape[letters.index(c)] for c in once)
    return Factor(once, View(view.buffer, shape, strides, view.offset))


def _arranged(factor: Factor, letters: str, sizes: dict[str, int]) -> View:
    """A view over letters; those that a factor lacks have stride 0."""
    at = dict(zip(factor.letters, factor.view.strides, strict=True))
    return View(factor.view.buffer, tuple(sizes[c] for c in letters), tuple(at.get(c, 0) for c in letters), factor.view.offset)


def _contracted(low: Lowering, factors: Sequence[Factor], output: str, sizes: dict[str, int], dtype: Dtype) -> Factor:
    """The product of some factors, summed over the letters that are not in the output."""
    summed = "".join(c for c in sizes if c not in output and any(c in f.letters for f in factors))
    if not summed and len(factors) == 1 and factors[0].view.dtype == dtype:
        return Factor(output, _arranged(factors[0], output, sizes))
    if _is_matrix_product(factors, output, summed, sizes, dtype):
        left, right = factors
        return Factor(output, _product(low, left, right, output, summed, sizes))
    return Factor(output, _summed_products(low, factors, output, summed, sizes, dtype))


def _is_matrix_product(factors: Sequence[Factor], output: str, summed: str, sizes: dict[str, int], dtype: Dtype) -> bool:
    """Whether two factors share all summed letters, and are large enough for a matrix product."""
    if not Switch.EINSUM_PRODUCTS.on or len(factors) != 2 or dtype not in FLOATS or any(f.view.dtype != dtype for f in factors):
        return False
    left, right = (set(f.letters) for f in factors)
    rows, columns = (size_of([sizes[c] for c in output if c in letters]) for letters in (left - right, right - left))
    work = rows * columns * size_of([sizes[c] for c in summed])
    return left & right >= set(summed) and work > _SMALL and max(rows, columns) > 1


def _summed_products(
    low: Lowering, factors: Sequence[Factor], output: str, summed: str, sizes: dict[str, int], dtype: Dtype
) -> View:
    """One kernel over the letters of the output and those that are summed."""
    domain = output + summed
    views = [_arranged(f, domain, sizes) for f in factors]
    shape = tuple(sizes[c] for c in domain)
    position = low.place(shape, views)
    w = KernelWriter(low.kernel(position))
    line, *rest = (w.cast(low.read(position, v), dtype) for v in views)
    for other in rest:
        line = w("mul", line, other)
    out = low.local(Type(tuple(sizes[c] for c in output), dtype))
    if summed:
        view = View(out.buffer, shape, (*out.strides, *(0,) * len(summed)))
        low.kernel(position).reductions.append(Reduce("sum", line, tuple(range(len(output), len(domain))), view))
        low.ready[out.buffer] = position
    else:
        low.write(position, line, out)
    return out


def _product(low: Lowering, left: Factor, right: Factor, output: str, summed: str, sizes: dict[str, int]) -> View:
    """Two factors that share all summed letters: the letters of each side become rows and columns of matrices."""
    stack = "".join(c for c in output if c in left.letters and c in right.letters)
    rows = "".join(c for c in output if c not in right.letters)
    columns = "".join(c for c in output if c not in left.letters)
    dtype = left.view.dtype

    def matrices(factor: Factor, first: str, second: str) -> int:
        whole = _arranged(factor, stack + first + second, sizes)
        number = low.fresh_number(whole.type)
        low.values[number] = whole
        shape = (*(sizes[c] for c in stack), size_of([sizes[c] for c in first]), size_of([sizes[c] for c in second]))
        return low.emit(broadcast.reshape, (number,), Type(shape, dtype), shape=shape)

    a, b = matrices(left, rows, summed), matrices(right, summed, columns)
    outer = tuple(sizes[c] for c in stack)
    shape = (*outer, low.types[a].shape[-2], low.types[b].shape[-1])
    y = low.emit(linalg.matmul, (a, b), Type(shape, dtype))
    letters = stack + rows + columns
    shape = tuple(sizes[c] for c in letters)
    y = low.emit(broadcast.reshape, (y,), Type(shape, dtype), shape=shape)
    return _arranged(Factor(letters, low.view(y)), output, sizes)


RULES: Rules = {linalg.einsum: einsum}
