"""The report of a failed check of gradients: the element that disagrees most, and how its error depends on the step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ..api.grad import vjp
from ..core.errors import CheckError
from ..core.tree import flatten
from ..core.types import dtype_of, shape_of
from .differences import OUTSIDE, Arrays, Numeric

if TYPE_CHECKING:
    from .probe import Probe

MODES = {"fwd": "forward", "rev": "reverse"}
ELEMENTS = 1000  # of an argument, and of a result, checked one by one after a failure


def inner(us: Sequence[Any], vs: Sequence[Any]) -> float:
    """Re Σ uv, the pairing in which ∂f/∂re − i ∂f/∂im is the cotangent of a complex number."""
    return float(sum(np.real(np.sum(u * v)) for u, v in zip(us, vs, strict=True)))


class _Mismatch(NamedTuple):
    """An element of a derivative that disagrees with differences, in one direction."""

    where: str
    ours: Any
    numeric: Any
    excess: float
    direction: list[Any]
    pick: Callable[[Arrays], Any]
    limit: float


def raise_mismatch(
    probe: Probe, mode: str, where: Sequence[int], ours: Arrays, numeric: Numeric, pulled: Arrays | None = None
) -> NoReturn:
    """Find the element of these arguments that is wrong, and raise."""
    found = max(filter(None, (_element(probe, mode, i, pulled) for i in where)), key=lambda m: m.excess, default=None)
    if found is None or found.excess <= 1:
        found = _along_all(probe, mode, where, ours, numeric)
    modes = " over ".join(MODES[m] for m in (mode, *probe.trail))
    raise CheckError(
        f"check_grads: {modes} mode of {probe.options.name} disagrees with finite differences at order {len(probe.trail) + 1}\n"
        f"  where        {found.where}\n"
        f"  ours         {found.ours!s}\n"
        f"  numerical    {found.numeric!s}\n"
        f"  difference   {abs(found.ours - found.numeric):.3g}, allowed {found.limit:.3g}\n"
        f"  {_convergence(probe, found)}\n "
    )


def _along_all(probe: Probe, mode: str, where: Sequence[int], ours: Arrays, numeric: Numeric) -> _Mismatch:
    """The worst element of the result along the random direction, if element by element the derivatives agree."""
    excess = [probe.excess(*each) for each in zip(ours, numeric.values, numeric.sizes, strict=True)]
    n = max(range(len(ours)), key=lambda n: float(np.max(excess[n], initial=0)))
    at = np.unravel_index(int(np.argmax(excess[n])), np.shape(ours[n]))
    mine, theirs = ours[n][at], numeric.values[n][at]
    names = ", ".join(probe.names_of_leaves[i] for i in where)
    return _Mismatch(
        f"{names} along a random direction (element by element they agree)",
        mine,
        theirs,
        np.inf,
        [v if i in where else None for i, v in enumerate(probe.vs)],
        lambda d: inner(probe.us, d) if mode == "rev" else d[n][at],
        probe.allowed(mine, theirs, numeric.sizes[n]),
    )


def _directions(probe: Probe, i: int) -> Iterator[tuple[str, Any]]:
    x = probe.point.leaves[i]
    units = [(" (real part)", 1.0), (" (imaginary part)", 1j)] if dtype_of(x).kind == "c" else [("", 1.0)]
    for k in range(min(math.prod(shape_of(x)), ELEMENTS)):
        index = tuple(int(j) for j in np.unravel_index(k, shape_of(x)))
        for part, unit in units:
            v = np.zeros(shape_of(x), dtype_of(x))
            v[index] = unit
            v = probe.direction(i, v)
            yield f"{probe.names_of_leaves[i]}{at_index(index)}{part}", v[()]


def _element(probe: Probe, mode: str, i: int, pulled: Arrays | None) -> _Mismatch | None:
    """The worst element of argument leaf i, with the element of the result that shows it."""
    worst: _Mismatch | None = None
    for where, v in _directions(probe, i):
        direction = [v if i == j else None for j in range(len(probe.vs))]
        numeric = probe.differences(direction)
        if mode == "fwd":
            ours = probe.push([np.zeros_like(w) if u is None else u for u, w in zip(direction, probe.vs, strict=True)])
        elif _agrees(probe, i, v, pulled, numeric) or (worst is not None and worst.excess == np.inf):
            continue
        else:
            ours = _row_by_row(probe, i, v, numeric)
        for n, (a, b, size) in enumerate(zip(ours, numeric.values, numeric.sizes, strict=True)):
            excess = probe.excess(a, b, size)
            if excess.size and (worst is None or np.max(excess) > worst.excess):
                at = tuple(int(j) for j in np.unravel_index(int(np.argmax(excess)), excess.shape))
                mine, theirs = a[at], np.asarray(b)[at]
                limit = float(np.asarray(probe.allowed(mine, theirs, size)))
                pick = functools.partial(_pick, n, at)
                place = f"{where}{in_result(probe.names[n], at)}"
                worst = _Mismatch(place, mine, theirs, float(excess[at]), direction, pick, limit)
    return worst


def _agrees(probe: Probe, i: int, v: Any, pulled: Arrays | None, numeric: Numeric) -> bool:
    """Whether ⟨pull(u), v⟩ is what the differences along v give."""
    assert pulled is not None
    mine, theirs = inner([pulled[i]], [v]), inner(probe.us, numeric.values)
    spread = sum(float(np.sum(abs(u * d))) for u, d in zip(probe.us, numeric.values, strict=True))
    return bool(abs(mine - theirs) <= probe.allowed(spread, spread, probe.size_of_sum(numeric)))


def _row_by_row(probe: Probe, i: int, v: Any, numeric: Numeric) -> Arrays:
    """The derivative of every element of the result in a direction of argument i, each by its own reverse pass."""
    back = vjp(probe.f, *probe.args)[1]
    result = []
    for n, y in enumerate(probe.value):
        found = np.array(numeric.values[n])
        for k in range(min(y.size, ELEMENTS)):
            index = np.unravel_index(k, y.shape)
            parts = []
            for unit in (1.0, -1j) if y.dtype.kind == "c" else (1.0,):
                us = [np.zeros(z.shape, z.dtype) for z in probe.value]
                us[n][index] = unit
                parts.append(inner([np.asarray(flatten(back([u[()] for u in us]))[0][i])], [v]))
            found[index] = parts[0] + 1j * parts[1] if len(parts) > 1 else parts[0]
        result.append(found)
    return result


def _convergence(probe: Probe, found: _Mismatch) -> str:
    """How the error of central differences depends on the step, and its interpretation."""
    steps = [probe.start / 2**k for k in range(7 if probe.eps < 1e-10 else 5)]
    errors = []
    with np.errstate(all="ignore"):
        for h in steps:
            try:
                errors.append(float(abs(found.pick(probe.quotient(found.direction, h)) - found.ours)))
            except OUTSIDE:
                errors.append(math.nan)
    usable = [(h, e) for h, e in zip(steps, errors, strict=True) if math.isfinite(e) and e > 0]
    shown = ", ".join(f"{e:.2g}" for e in errors[::2])
    told = f"as the step shrinks from {steps[0]:.2g} to {steps[-1]:.2g} the error of central differences goes {shown}"
    if not np.isfinite(found.ours):
        return f"convergence  none: our derivative is {found.ours}, as at the edge of a domain (sqrt at 0); check elsewhere"
    if len(usable) < 2:
        return f"convergence  none to see: {told}"
    slope = float(np.polyfit(np.log([h for h, _ in usable]), np.log([e for _, e in usable]), 1)[0])
    slope = round(slope, 1) + 0.0  # no minus before a zero
    return f"convergence  slope {slope:.1f}: {told}.\n  {_meaning(slope)}"


def _meaning(slope: float) -> str:
    if slope > 1.5:
        return "A slope of 2 or more means that the derivative is correct: the tolerance is too tight, or eps too large."
    if slope > 0.5:
        return "Between 0 (wrong) and 2 (right): the function has a kink near this point, or its second derivative jumps there."
    if slope > -0.5:
        return "A correct derivative has slope 2; at slope 0 the error does not shrink with the step: the derivative is wrong."
    return "The error grows as the step shrinks: the function jumps or is noisy at this point, so differences do not converge."


def _pick(n: int, at: tuple[int, ...], arrays: Arrays) -> Any:
    return arrays[n][at]


def at_index(index: tuple[int, ...]) -> str:
    return f", element [{', '.join(map(str, index))}]" if index else ""


def in_result(name: str, index: tuple[int, ...]) -> str:
    if not name and not index:
        return ""
    return f"; {'result' + name if name.startswith(('[', '.')) or not name else name}{at_index(index)}"
