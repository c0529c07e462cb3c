"""Derivatives by finite differences: independent of the rules of this library, so a check of them.

one-sided      (f(x+h) − f(x)) / h                  error ~ h       h = √ε
two-sided      (f(x+h) − f(x−h)) / 2h               error ~ h²      h = ∛ε
complex-step   Im f(x+ih) / h                       exact to rounding, for analytic f that takes complex numbers
richardson     two-sided at shrinking h, extrapolated to h = 0
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..api.arguments import check_callable, name_of, open_arguments, output_leaf, positions, regroup, replace
from ..core.bind import Traced
from ..core.boundary import boundary
from ..core.errors import AdjointError, ArgumentError, DtypeError, ShapeError
from ..core.tree import Structure, flatten, leaf_names, map_leaves
from ..core.types import Type, Value, dtype_of, shape_of

Function = Callable[..., Any]
Arrays = list[Any]

METHODS = ("one-sided", "two-sided", "complex-step", "richardson")
#: Errors of a function outside its domain: math.log(-1), an index out of a grid, an assertion.
OUTSIDE = (ValueError, ArithmeticError, IndexError, AssertionError)
RATIO = 4.0  # the extrapolation's steps are h, h/4, h/16, …


class Numeric(NamedTuple):
    """A derivative by differences: for every result leaf the value and the size of the numbers subtracted."""

    values: Arrays
    sizes: list[float]


def own(x: Any) -> Any:
    """A copy of an array, so that a function may write to it."""
    return np.array(x) if isinstance(x, np.ndarray) else x


class Point:
    """A function at a point. Calling it with new leaves gives the leaves of the result, as copies."""

    def __init__(self, f: Function, args: Sequence[Any], indices: Sequence[int], transform: str) -> None:
        self.f, self.args, self.indices, self.transform = f, args, indices, transform
        self.leaves, self.structures = open_arguments(args, indices, transform)
        self.names = [name for i, s in zip(indices, self.structures, strict=True) for name in leaf_names(f"argument {i}", s)]
        for x, name in zip(self.leaves, self.names, strict=True):
            if isinstance(x, Traced):
                raise ArgumentError(
                    f"{transform} works on numbers, but {name} is traced by {x.by.name}: differences cannot be differentiated; "
                    "use grad, jvp or jacobian there"
                )
        self.structure: Structure | None = None
        self.types: list[Type] = []
        self.result_names: list[str] = []

    def __call__(self, leaves: Sequence[Value]) -> Arrays:
        args = map_leaves(own, tuple(self.args))  # f may write to its arguments
        return self.see(self.f(*replace(args, self.indices, self.structures, [own(x) for x in leaves])))

    def see(self, result: Any) -> Arrays:
        """The leaves of a result of f, which must be floats with the same shapes each time."""
        if result is None:
            output_leaf(None, self.f, self.transform)
        parts, structure = flatten(result)
        names = leaf_names("", structure)
        ys = [np.array(output_leaf(y, self.f, self.transform, name)) for y, name in zip(parts, names, strict=True)]
        for y, name in zip(ys, names, strict=True):
            if y.dtype.kind not in "fc":
                where = f" in {name}" if name else ""
                raise DtypeError(f"{self.transform} needs a float result, but {name_of(self.f)} returned {y.dtype}{where}")
        if self.structure is None:
            self.structure, self.types, self.result_names = structure, [Type.of(y) for y in ys], list(names)
        elif structure != self.structure or [y.shape for y in ys] != [t.shape for t in self.types]:
            raise ShapeError(
                f"{name_of(self.f)} returns results of different shapes at neighbouring points: they have no difference"
            )
        return ys

    def moved(self, i: int, k: int, delta: Any) -> list[Value]:
        """The leaves with `delta` added to element k of leaf i."""
        leaves = list(self.leaves)
        x = leaves[i]
        if isinstance(x, np.ndarray):
            y = x.astype(np.result_type(x.dtype, delta))
            y.flat[k] = x.flat[k] + delta
            leaves[i] = y
        else:
            leaves[i] = x + delta
        return leaves

    def element(self, i: int, k: int) -> Any:
        x = self.leaves[i]
        return x.flat[k] if isinstance(x, np.ndarray) else x


def precision(*dtypes: np.dtype[Any]) -> float:
    """The coarsest relative spacing of numbers among float or complex dtypes."""
    return max(float(np.finfo(dtype).eps) for dtype in dtypes)


def good_step(x: Any, power: float, dtype: np.dtype[Any]) -> float:
    """A step near ε^power·max(1, |x|) with (x + h) − x == h, so that h is the exact step."""
    h = precision(dtype) ** power * max(1.0, abs(complex(x)))
    h = 2.0 ** round(math.log2(h)) if math.isfinite(h) else 1.0
    at = x.real
    return float((at + type(at)(h)) - at)


# -- the formulas: each gives the derivative of all results with respect to one number --------------------------


class _Differences:
    """Columns of the Jacobian at a point, by one method."""

    def __init__(self, point: Point, method: str, step: float | None) -> None:
        self.point, self.step = point, step
        self.centre: Arrays | None = None
        self.column: Callable[[int, int, complex], Arrays] = {
            "one-sided": self.one_sided,
            "two-sided": self.two_sided,
            "complex-step": self.complex_step,
            "richardson": self.richardson,
        }[method]

    def _step(self, i: int, k: int, power: float) -> float:
        if self.step is not None:
            return self.step
        return good_step(self.point.element(i, k), power, dtype_of(self.point.leaves[i]))

    def one_sided(self, i: int, k: int, unit: complex) -> Arrays:
        h = self._step(i, k, 1 / 2)
        if self.centre is None:
            self.centre = self.point(self.point.leaves)
        ahead = self.point(self.point.moved(i, k, h * unit))
        return [(a - b) / h for a, b in zip(ahead, self.centre, strict=True)]

    def two_sided(self, i: int, k: int, unit: complex) -> Arrays:
        return self._central(i, k, unit, self._step(i, k, 1 / 3))

    def _central(self, i: int, k: int, unit: complex, h: float) -> Arrays:
        ahead, behind = self.point(self.point.moved(i, k, h * unit)), self.point(self.point.moved(i, k, -h * unit))
        return [(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]

    def richardson(self, i: int, k: int, unit: complex) -> Arrays:
        size = max(1.0, abs(complex(self.point.element(i, k))))
        eps = precision(dtype_of(self.point.leaves[i])) * size
        return extrapolate(lambda h: self._central(i, k, unit, h), self._step(i, k, 1 / 10), eps)[0]

    def complex_step(self, i: int, k: int, unit: complex) -> Arrays:
        point, name = self.point, name_of(self.point.f)
        h = self.step if self.step is not None else 2.0 ** (math.frexp(max(1.0, abs(float(point.element(i, k)))))[1] - 66)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                ys = point(point.moved(i, k, h * 1j))
        except AdjointError:
            raise
        except (TypeError, np.exceptions.ComplexWarning) as error:
            raise ArgumentError(
                f"{name} does not take complex numbers ({error}), which method='complex-step' needs; use 'two-sided'"
            ) from error
        if any(y.dtype.kind != "c" for y in ys):
            plain = self._unmoved(i, k)
            for y, still in zip(ys, plain, strict=True):
                if y.dtype.kind != "c" and not still:
                    raise ArgumentError(
                        f"{name} lost the imaginary part: it returned {y.dtype} for a complex {point.names[i]}, so "
                        "method='complex-step' does not see its derivative; avoid abs, real and the like, or use 'two-sided'"
                    )
        return [y.imag / h for y in ys]

    def _unmoved(self, i: int, k: int) -> list[bool]:
        """Which results do not depend on an element: these may be real."""
        h = good_step(self.point.element(i, k), 1 / 3, dtype_of(self.point.leaves[i]))
        here, ahead, behind = (self.point(self.point.moved(i, k, d)) for d in (0.0, h, -h))
        return [np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(here, ahead, behind, strict=True)]


def extrapolate(quotient: Callable[[float], Arrays], h: float, eps: float) -> tuple[Arrays, Arrays]:
    """The limit of difference quotients with an even error expansion as h → 0, and an estimate of its error.

    Neville's tableau on h, h/4, h/16, …; of all its entries, each element takes the one that differs least from its neighbours
    (Ridders), so steps that are too large or too small do no harm. Steps that leave the domain are skipped.
    """
    levels = max(3, 1 + int(math.log(h / eps**0.6, RATIO)))  # with smaller steps the quotient is all rounding
    tableaus: list[_Tableau] = []
    failure: Exception | None = None
    with np.errstate(all="ignore"):
        for level in range(levels):
            try:
                quotients = quotient(h / RATIO**level)
            except AdjointError:
                raise
            except OUTSIDE as error:
                failure = error
                for tableau in tableaus:
                    tableau.row = []
                continue
            if not tableaus or not tableaus[0].row:
                tableaus = [_Tableau(q) for q in quotients]
                continue
            for tableau, q in zip(tableaus, quotients, strict=True):
                tableau.add(q)
            if all(_converged(tableau.best, tableau.error) for tableau in tableaus):
                break
    if not tableaus and failure is not None:
        raise failure
    return [tableau.best for tableau in tableaus], [tableau.error for tableau in tableaus]


class _Tableau:
    """Neville's tableau for one array, of which the last row is kept, and the best entry of each element so far."""

    def __init__(self, first: Any) -> None:
        self.row = [first]
        self.best, self.error = first, np.full(np.shape(first), np.inf)

    def add(self, first: Any) -> None:
        """The row of a step that is smaller by RATIO."""
        row = [first]
        for j, old in enumerate(self.row):
            new = row[j] + (row[j] - old) / (RATIO ** (2 * j + 2) - 1)
            gap = np.maximum(abs(new - row[j]), abs(new - old))
            is_better = gap < self.error
            self.best = np.where(is_better, new, self.best)
            self.error = np.where(is_better, gap, self.error)
            row.append(new)
        self.row = row


def _converged(value: Any, error: Any) -> bool:
    if not np.size(value):
        return True
    return bool(np.max(error) <= precision(value.dtype) ** (2 / 3) * np.max(abs(value)))


# -- assembling -------------------------------------------------------------------------------------------------


def assemble(point: Point, column: Callable[[int, int, complex], Arrays]) -> list[list[Any]]:
    """The Jacobian from its columns: for every result leaf, one block per argument leaf, shape result + argument."""
    every = [[_column(point, column, i, k) for k in range(math.prod(shape_of(x)))] for i, x in enumerate(point.leaves)]
    if point.structure is None:  # nothing to move: all arguments are empty
        point(point.leaves)
    blocks: list[list[Any]] = [[] for _ in point.types]
    for x, columns in zip(point.leaves, every, strict=True):
        for n, kind in enumerate(point.types):
            shape = kind.shape + shape_of(x)
            if not columns:
                block: Any = np.zeros(shape, np.result_type(kind.dtype, dtype_of(x)))
            else:
                block = np.stack([np.asarray(c[n]) for c in columns], axis=-1).reshape(shape)
            blocks[n].append(block if shape or isinstance(x, np.ndarray) else block[()])
    return blocks


def _column(point: Point, column: Callable[[int, int, complex], Arrays], i: int, k: int) -> Arrays:
    along = column(i, k, 1.0)
    if dtype_of(point.leaves[i]).kind != "c":
        return along
    across = column(i, k, 1j)
    result = []
    for re, im in zip(along, across, strict=True):
        if re.dtype.kind != "c":  # the convention of grad: ∂f/∂re − i ∂f/∂im
            result.append(re - 1j * im)
            continue
        if not np.allclose(im, 1j * re, rtol=1e-3, atol=1e-3 * float(np.max(abs(re), initial=1e-30))):
            raise DtypeError(
                f"{name_of(point.f)} is not holomorphic in {point.names[i]}, so it has no complex derivative; "
                "split the argument into real and imaginary parts"
            )
        result.append(re)
    return result


def check_step(step: Any, name: str = "step") -> float | None:
    if step is None:
        return None
    number = isinstance(step, (int, float, np.integer, np.floating)) and not isinstance(step, bool)
    if not number or not 0 < step < math.inf:
        raise ArgumentError(f"{name} is a positive number or None, not {step!r}")
    return float(step)


@boundary
def finite_difference(f: Function, *args: Any, method: str = "two-sided", step: float | None = None, argnums: Any = 0) -> Any:
    """The derivative of f at a point by differences: of a scalar result the gradient, else the Jacobian.

    Arguments and results may be containers, as for `jacobian`. `method` is one of "one-sided", "two-sided",
    "complex-step" (f must be analytic and take complex numbers) and "richardson" (the most accurate for any f).
    The step is chosen for each element from its dtype and size unless given.

    >>> f = lambda x, y: x**2 * y + y + 2
    >>> finite_difference(f, 3.0, 4.0, argnums=(0, 1), method="one-sided", step=1e-5)
    (np.float64(24.000039999805264), np.float64(10.000000000331966))
    """
    check_callable(f, "finite_difference")
    if method not in METHODS:
        raise ArgumentError(f"finite_difference has no method {method!r}; choose one of {', '.join(map(repr, METHODS))}")
    step = check_step(step)
    if not args:
        raise ArgumentError("finite_difference needs the point at which to differentiate: finite_difference(f, x)")
    indices, single = positions(argnums, len(args), "finite_difference")
    point = Point(f, args, indices, "finite_difference")
    if method == "complex-step":
        for x, name in zip(point.leaves, point.names, strict=True):
            if dtype_of(x).kind == "c":
                raise ArgumentError(f"method='complex-step' needs real arguments, but {name} is complex; use 'two-sided'")
    return in_structure(point, assemble(point, _Differences(point, method, step).column), single)


def in_structure(point: Point, blocks: Sequence[Sequence[Any]], single: bool) -> Any:
    """Blocks of a Jacobian in the structure of the result, each in the structure of the arguments."""
    assert point.structure is not None
    rows = []
    for parts in blocks:
        groups = regroup(point.structures, parts)
        rows.append(groups[0] if single else tuple(groups))
    return point.structure.unflatten(rows)
