"""Templates of matrix routines: C with a few words replaced, from which each language makes a function.

INT declares a number that counts elements (COUNT, a constant one), REAL a number of the dtype of the matrix; `a[…]` reads or
writes the array a, wherever it begins. Sizes and strides are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..compiler.lower.kernel import Dtype

#: The dtypes of arrays that are not those of the matrix, by name.
NAMED: dict[str, Dtype] = {name: np.dtype(np.int32) for name in ("pivots", "whole")} | {
    name: np.dtype(bool) for name in ("zero", "truth")
}


class Template(NamedTuple):
    """A routine for one matrix: the arrays that it reads, those that it writes, and the text."""

    reads: Sequence[str]
    writes: Sequence[str]
    text: str
    tells: bool = False  # it returns whether it failed
    dtypes: Mapping[str, Dtype] = NAMED  # of arrays whose dtype is not that of the matrix

    def with_sizes(self, **sizes: object) -> Template:
        """The same, with numbers for the names of sizes."""
        text = self.text
        for name, size in sizes.items():
            text = text.replace(name, str(size))
        return self._replace(text=text)


class Templates(Protocol):
    """What makes a function of a template: a `Spelling`, or `LlvmRoutines`."""

    lanes: int
    copies: bool  # whether innermost loops are unrolled, since the language's compilers do not
    tile: tuple[int, int] | None  # rows and bytes of a row of a product's tile, if it is made of vectors
    tall: int  # rows of a tile where AVX-512 has 32 registers; 0 if the language cannot ask
    blas: bool  # products and triangular systems through CBLAS
    lapack: bool  # other matrix routines through LAPACKE

    def literal(self, value: Any, dtype: Dtype) -> str: ...

    def routine(self, name: str, template: Template, dtype: Dtype) -> str: ...
