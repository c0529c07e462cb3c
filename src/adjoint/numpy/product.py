"""Products with NumPy's signatures: dot, matmul, tensordot, einsum and their relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..core.types import Value, canonical_axis, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import index as indexing
from ..ops import linalg
from .layout import asked, held_by
from .reduce import sum as sum_
from .shape import astype, converted, moveaxis, ravel
from .table import implements, lift
from .ufunc import deliver
from .views import view
from .ways import Written, strong

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@implements(np.matmul)
def matmul(a: Any, b: Any) -> Value:
    return linalg.matmul(lift(a), lift(b))


def _full(x: Any) -> Value:
    """An array_like as a value; here a Python number counts as float64, as in NumPy."""
    return strong(lift(x))


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Value:
    a, b = _full(a), _full(b)
    na, nb = ndim_of(a), ndim_of(b)
    if na == 0 or nb == 0:
        y = a * b
    elif nb <= 2:
        y = linalg.matmul(a, b)
    else:
        y = tensordot(a, b, ((na - 1,), (nb - 2,)))
    return deliver_product(y, out)


def deliver_product(y: Value, out: Any) -> Value:
    if out is not None and dtype_of(out) != dtype_of(y):
        raise ValueError(f"output array is not acceptable: its dtype is {dtype_of(out)}, and that of the product {dtype_of(y)}")
    return deliver(y, out)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Value:
    a, b = _full(a), _full(b)
    if ndim_of(a) == 0 or ndim_of(b) == 0:
        return a * b
    if ndim_of(a) == ndim_of(b) == 1:
        return linalg.matmul(a, b)
    return tensordot(a, b, ((ndim_of(a) - 1,), (ndim_of(b) - 1,)))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Value:
    return deliver(linalg.column(ravel(a)) * linalg.row(ravel(b)), out)


def _conj(x: Value) -> Value:
    return shapes.conj(x) if dtype_of(x).kind == "c" else x


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Value:
    return linalg.matmul(_conj(ravel(a)), ravel(b))


@implements(np.vecdot)
def vecdot(x1: Any, x2: Any, axis: int = -1, out: Any = None, *, axes: Any = None) -> Value:
    left, right = (axis, axis) if axes is None else (_axis(i) for i in axes[:2])
    a, b = moveaxis(x1, left, -1), moveaxis(x2, right, -1)
    if shape_of(a)[-1] != shape_of(b)[-1]:  # the product would broadcast the vectors, which NumPy does not
        raise ShapeError(f"np.vecdot takes vectors of one length, got different lengths: {shape_of(a)[-1]} and {shape_of(b)[-1]}")
    y = sum_(_conj(a) * b, axis=-1)
    kind = np.result_type(dtype_of(a), dtype_of(b))  # a sum of narrow whole numbers is wider, a product is not
    return deliver(y if dtype_of(y) == kind else astype(y, kind), out)


def _axis(entry: Any) -> int:
    """One entry of axes=: a number, or a tuple of one."""
    return entry if isinstance(entry, (int, np.integer)) else entry[0]  # type: ignore[return-value]


def _check_cores(name: str, *operands: tuple[Value, int]) -> None:
    """Refuse operands with fewer axes than the vector or the matrix that is asked for."""
    for i, (x, least) in enumerate(operands):
        if ndim_of(x) < least:
            raise ShapeError(f"operand {i} of {name} has {ndim_of(x)} axes; it needs {least} or more")


def matvec(x1: Any, x2: Any, out: Any = None) -> Value:
    """A matrix times a vector, over all leading axes."""
    a, b = lift(x1), lift(x2)
    _check_cores("np.matvec", (a, 2), (b, 1))
    y = linalg.matmul(a, linalg.column(b))
    return deliver(shapes.reshape(y, shape=shape_of(y)[:-1]), out)


def vecmat(x1: Any, x2: Any, out: Any = None) -> Value:
    """A vector, conjugated, times a matrix, over all leading axes."""
    a, b = lift(x1), lift(x2)
    _check_cores("np.vecmat", (a, 1), (b, 2))
    y = linalg.matmul(linalg.row(_conj(a)), b)
    return deliver(shapes.reshape(y, shape=(*shape_of(y)[:-2], shape_of(y)[-1])), out)


if hasattr(np, "matvec"):  # since NumPy 2.2
    implements(np.matvec)(matvec)
    implements(np.vecmat)(vecmat)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Value:
    a, b = lift(a), lift(b)
    na, nb = ndim_of(a), ndim_of(b)
    if isinstance(axes, (int, np.integer)):
        left, right = list(range(na - int(axes), na)), list(range(int(axes)))
    else:
        first, second = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
        left, right = [canonical_axis(int(x), na) for x in first], [canonical_axis(int(x), nb) for x in second]
    sa, sb = shape_of(a), shape_of(b)
    if [sa[i] for i in left] != [sb[i] for i in right]:
        raise ValueError("shape-mismatch for sum")
    rest_a = [i for i in range(na) if i not in left]
    rest_b = [i for i in range(nb) if i not in right]
    k = math.prod(sa[i] for i in left)
    outer_a, outer_b = tuple(sa[i] for i in rest_a), tuple(sb[i] for i in rest_b)
    flat_a = shapes.reshape(shapes.transpose(a, axes=(*rest_a, *left)), shape=(math.prod(outer_a), k))
    flat_b = shapes.reshape(shapes.transpose(b, axes=(*right, *rest_b)), shape=(k, math.prod(outer_b)))
    return shapes.reshape(linalg.matmul(flat_a, flat_b), shape=outer_a + outer_b)


# -- einsum -----------------------------------------------------------------------------------------------------


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Value:
    subscripts, values = _einsum_arguments(operands)
    if options.get("dtype") is not None:
        values = [converted(v, np.dtype(options["dtype"])) for v in values]
    inputs, output = _explicit(subscripts, [ndim_of(v) for v in values], optimize is not False)
    sizes = _einsum_sizes(inputs, values)
    wanted = [tuple(sizes[c] for c in letters) for letters in inputs]  # NumPy broadcasts an axis of length one
    full = [v if shape_of(v) == t else shapes.broadcast_to(v, shape=t) for v, t in zip(values, wanted, strict=True)]

    def look(*xs: Value) -> Value:
        return linalg.einsum(*xs, inputs=tuple(inputs), output=output)

    if len(full) != 1 or set(output) != set(inputs[0]) or out is not None:
        y = look(*full)
        written = f"{','.join(inputs)}->{output}"
        y = held_by(y, lambda: asked(y, lambda *xs: np.einsum(written, *xs, optimize=optimize), *values))
        return deliver(y, out, casting=options.get("casting", "safe"))
    # A transpose or a diagonal, which NumPy gives as a view.
    place = tuple(np.arange(sizes[c]).reshape((-1,) + (1,) * (len(output) - 1 - output.index(c))) for c in inputs[0])
    ask = lambda memory: np.einsum(f"{inputs[0]}->{output}", memory)
    return view(full[0], Written(look, ask, lambda base, part: indexing.write(base, place, part)))


def _einsum_sizes(inputs: Sequence[str], values: Sequence[Value]) -> dict[str, int]:
    """The length of each subscript."""
    sizes: dict[str, int] = {}
    for letters, v in zip(inputs, values, strict=True):
        lengths = list(zip(letters, shape_of(v), strict=True))
        if len(set(lengths)) > len(set(letters)):
            raise ValueError(f"einsum: an operand of shape {shape_of(v)} has different lengths at one subscript of {letters!r}")
        for c, n in lengths:
            if sizes.setdefault(c, n) != n and 1 not in (sizes[c], n):
                raise ValueError(f"operands could not be broadcast together: subscript {c!r} has lengths {sizes[c]} and {n}")
            sizes[c] = n if sizes[c] == 1 else sizes[c]
    return sizes


def _einsum_arguments(operands: tuple[Any, ...]) -> tuple[str, list[Value]]:
    """Both forms of a call: ("ij,jk", a, b) and (a, [0, 1], b, [1, 2])."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [lift(x) for x in operands[1:]]
    values = [lift(x) for x in operands[: len(operands) // 2 * 2 : 2]]
    lists = list(operands[1 : len(values) * 2 : 2])
    explicit = len(operands) % 2 == 1
    if explicit:
        lists.append(operands[-1])
    labels = sorted({k for part in lists for k in part if k is not Ellipsis})
    letter = dict(zip(labels, _LETTERS, strict=False))
    words = ["".join("..." if k is Ellipsis else letter[k] for k in part) for part in lists]
    return (",".join(words[:-1]) + "->" + words[-1] if explicit else ",".join(words)), values


def _explicit(subscripts: str, ndims: list[int], sums_ellipsis: bool) -> tuple[list[str], str]:
    """Subscripts without ellipsis and with an output. NumPy sums over an ellipsis only with optimize=."""
    left, arrow, output = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ndims):
        raise ValueError(f"einsum: {len(inputs)} subscripts for {len(ndims)} operands")
    unused = [c for c in _LETTERS if c not in subscripts]
    widest = 0
    for word, n in zip(inputs, ndims, strict=True):
        if "..." in word:
            widest = max(widest, n - len(word.replace("...", "")))
    fill = "".join(unused[:widest])
    inputs = [
        word.replace("...", fill[widest - (n - len(word.replace("...", ""))) :]) if "..." in word else word
        for word, n in zip(inputs, ndims, strict=True)
    ]
    for word, n in zip(inputs, ndims, strict=True):
        if len(word) != n:
            raise ValueError(f"einsum: the subscripts {word!r} have {len(word)} axes, the operand has {n}")
    if arrow:
        if widest and "..." not in output and not sums_ellipsis:
            raise ValueError("einsum: an operand has axes at '...', and the output subscripts have no '...' for them")
        output = output.replace("...", fill)
    else:
        every = "".join(inputs)
        output = fill + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in fill))
    for c in output:
        if not any(c in word for word in inputs):
            raise ValueError(f"einsum: the output subscript {c!r} is in no input")
    return inputs, output
