"""compare: every way to take a derivative, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..api.arguments import callee, check_callable, name_of, positions, regroup
from ..api.forward import jvp
from ..api.grad import grad
from ..api.jacobian import jacrev
from ..core.boundary import boundary
from ..core.errors import ArgumentError
from ..core.tree import LEAF, flatten, map_leaves
from ..core.types import dtype_of, shape_of
from .differences import METHODS, Point, assemble, finite_difference, in_structure, own

Function = Callable[..., Any]

REPEATS, LONG = 5, 0.05  # a method is timed as the best of five runs, unless one run takes longer than this


class MethodResult(NamedTuple):
    """One method: its derivative, its error against the reference, and its cost; or why it does not apply."""

    method: str
    value: Any
    error: float | None
    evaluations: int
    seconds: float
    note: str = ""


class Comparison:
    """The result of `compare`. Prints as a table; `rows` holds the numbers, `reference` the method that errors are relative
    to."""

    def __init__(self, title: str, rows: list[MethodResult], reference: str) -> None:
        self.title, self.rows, self.reference = title, rows, reference

    def __getitem__(self, method: str) -> MethodResult:
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(method)

    def __str__(self) -> str:
        head = ("method", "derivative", "max error", "evaluations", "time")
        lines = [head]
        for row in self.rows:
            if row.note:
                lines.append((row.method, f"skipped: {row.note}", "", "", ""))
                continue
            error = "other shape" if row.error is None else f"{row.error:.2g}"
            lines.append((row.method, abbreviated(row.value), error, str(row.evaluations), _duration(row.seconds)))
        widths = [max(len(line[c]) for line in lines if c == 0 or line[2:] != ("", "", "")) for c in range(len(head))]
        table = ["  ".join([line[0].ljust(widths[0]), line[1].ljust(widths[1]), *_right(line[2:], widths[2:])]) for line in lines]
        note = f"max error: the largest difference from {self.reference}; evaluations: calls of the function"
        return "\n".join([self.title, *[line.rstrip() for line in table], note])

    __repr__ = __str__


def _right(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def abbreviated(value: Any) -> str:
    """A derivative on one line: numbers in full, arrays by their first elements."""
    leaves, structure = flatten(value)
    if structure is not LEAF and not all(path.count("[") == 1 and path[1:-1].isdigit() for path in structure.paths()):
        return ", ".join(f"{path} {_short(leaf)}" for path, leaf in zip(structure.paths(), leaves, strict=True))
    return ", ".join(map(_short, leaves))


def _short(x: Any) -> str:
    x = np.asarray(x)
    if not x.ndim:
        return f"{x[()] + 0.0:.12g}"
    shown = " ".join(f"{v + 0.0:.6g}" for v in x.ravel()[:4])
    more = x.ndim > 1 or x.size > 4
    return f"[{shown}{' …' * (x.size > 4)}]" + f" {x.shape}" * more


class _Counted:
    """A function that counts its calls."""

    def __init__(self, f: Function) -> None:
        self.f, self.calls = f, 0
        self.__name__ = name_of(f)

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.f(*args)


def _forward(f: Function, args: Sequence[Any], indices: Sequence[int], single: bool) -> Any:
    """The Jacobian by one forward pass per number in the arguments."""
    point = Point(lambda *xs: 0.0, args, indices, "compare")
    chosen = tuple(args[i] for i in indices)

    def on_chosen(*parts: Any) -> Any:
        full = list(args)
        for i, part in zip(indices, parts, strict=True):
            full[i] = part
        return f(*full)

    def column(i: int, k: int, unit: complex) -> list[Any]:
        tangents = [np.zeros(shape_of(x), dtype_of(x)) for x in point.leaves]
        tangents[i].flat[k] = unit
        out, pushed = jvp(on_chosen, chosen, tuple(regroup(point.structures, [t[()] for t in tangents])))
        if point.structure is None:
            point.see(out)
        return [np.asarray(t) for t in flatten(pushed)[0]]

    return in_structure(point, assemble(point, column), single)


def _reverse(f: Function, args: Sequence[Any], argnums: Any, kinds: tuple[bool, bool]) -> Any:
    """The Jacobian by reverse mode: one run of f for any number of arguments."""
    complex_arguments, complex_results = kinds
    if complex_arguments and not complex_results:
        return grad(f, argnums)(*args)
    return map_leaves(lambda x: x[()], jacrev(f, argnums, holomorphic=complex_arguments)(*args))


def _any_complex(tree: Any) -> bool:
    return any(np.asarray(x).dtype.kind == "c" for x in flatten(tree)[0])


def _measured(method: str, run: Callable[[_Counted], Any], f: Function) -> MethodResult:
    """Run one method: the first time to count evaluations, then a few times for the clock."""
    counted = _Counted(f)
    try:
        value = run(counted)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return MethodResult(method, None, None, counted.calls, 0.0, reason.removesuffix(f" ({getattr(error, 'line', '')})"))
    calls, best = counted.calls, np.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        run(counted)
        best = min(best, time.perf_counter() - start)
        if best > LONG:
            break
    return MethodResult(method, value, None, calls, float(best))


def _error(value: Any, reference: Any) -> float | None:
    ours, theirs = flatten(value)[0], flatten(reference)[0]
    if len(ours) != len(theirs) or any(np.shape(a) != np.shape(b) for a, b in zip(ours, theirs, strict=True)):
        return None
    return max((float(np.max(abs(np.asarray(a) - b), initial=0.0)) for a, b in zip(ours, theirs, strict=True)), default=0.0)


@boundary
def compare(f: Function, *args: Any, manual: Function | None = None, argnums: Any = None) -> Comparison:
    """The derivative of f at a point by every method: its value, error, evaluations of f and time, as a table.

    `manual` is your own derivative, a function of the same arguments that returns the gradient, or a tuple of them
    for several arguments. Without `argnums`, all arguments are differentiated.

    >>> result = compare(lambda x, y: x**2 * y + y + 2, 3.0, 4.0, manual=lambda x, y: (2 * x * y, x**2 + 1))
    >>> result["reverse"].value, result["manual"].error
    ((np.float64(24.0), np.float64(10.0)), 0.0)
    """
    check_callable(f, "compare")
    if manual is not None:
        check_callable(manual, "compare")
    if not args:
        raise ArgumentError("compare needs the point at which to differentiate: compare(f, x)")
    chosen = argnums if argnums is not None else (0 if len(args) == 1 else tuple(range(len(args))))
    indices, single = positions(chosen, len(args), "compare")
    Point(f, args, indices, "compare")  # raises for arguments that cannot be differentiated, once for all methods
    rows = []
    if manual is not None:
        rows.append(_measured("manual", lambda g: manual(*map_leaves(own, tuple(args))), f))
    for method in METHODS:
        rows.append(_measured(method, lambda g, method=method: finite_difference(g, *args, method=method, argnums=chosen), f))  # type: ignore[misc]
    rows.append(_measured("forward", lambda g: _forward(g, args, indices, single), callee(f)))
    complex_arguments = _any_complex([args[i] for i in indices])
    kinds = complex_arguments, complex_arguments and _any_complex(f(*map_leaves(own, tuple(args))))
    rows.append(_measured("reverse", lambda g: _reverse(g, args, chosen, kinds), callee(f)))
    exact = [row for name in ("reverse", "forward", "richardson") for row in rows if row.method == name and not row.note]
    if exact:
        rows = [row if row.note else row._replace(error=_error(row.value, exact[0].value)) for row in rows]
    return Comparison(f"derivative of {name_of(f)}", rows, exact[0].method if exact else "none")
