"""check_grads: both modes against finite differences, to any order, with a report of the first disagreement.

The differences are taken along a random direction in each argument, then, where one disagrees, element by element. Forward mode
must give J·v. Reverse mode must give ⟨Jᵀu, v⟩ = ⟨u, J·v⟩ for a random cotangent u; both must be linear. For order 2 the same is
required of the functions (x, v) ↦ J(x)·v and (x, u) ↦ J(x)ᵀu, and so on.

Factorisations of a Hermitian matrix read one triangle, and their derivatives are those along Hermitian matrices
(`ops.matrix.hermitian_tangent`): a Hermitian argument of a function that uses them is perturbed within the Hermitian matrices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..api.arguments import check_callable, name_of, open_arguments, output_leaf, regroup
from ..api.grad import Recording, jvp, vjp
from ..core.errors import AdjointError, ArgumentError, CheckError, boundary
from ..core.op import Op
from ..core.tree import flatten, leaf_names, map_leaves
from ..core.types import dtype_of, shape_of
from ..ops.decompose import cholesky, eigh
from ..ops.matrix import hermitian
from .differences import OUTSIDE, Arrays, Point, check_step, extrapolate, own, precision

Function = Callable[..., Any]

MODES = {"fwd": "forward", "rev": "reverse"}
ELEMENTS = 1000  # of an argument, and of a result, checked one by one after a failure


def _draw(x: Any, rng: np.random.Generator) -> Any:
    """A random tangent or cotangent for x, bounded away from zero."""
    shape, dtype = shape_of(x), dtype_of(x)
    v = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        v = v + 1j * rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(v, dtype)[()]


def _inner(us: Sequence[Any], vs: Sequence[Any]) -> float:
    """Re Σ uv, the pairing in which ∂f/∂re − i ∂f/∂im is the cotangent of a complex number."""
    return float(sum(np.real(np.sum(u * v)) for u, v in zip(us, vs, strict=True)))


class _Numeric(NamedTuple):
    """A derivative by differences: for every result leaf the value and the size of the numbers subtracted."""

    values: Arrays
    sizes: list[float]


class _Probe:
    """One function, of one order, under test at one point; results are lists of float arrays."""

    def __init__(
        self,
        f: Function,
        args: Sequence[Any],
        names: Sequence[str] | None,
        options: _Options,
        rng: np.random.Generator,
        trail: tuple[str, ...],
        names_of_leaves: Sequence[str] = (),
        terms: float = 0.0,
    ) -> None:
        self.f, self.args, self.options, self.trail = f, args, options, trail
        self.point = Point(f, args, range(len(args)), "check_grads")
        self.value = self.point(self.point.leaves)
        self.names = list(names) if names is not None else self.point.result_names
        self.names_of_leaves = list(names_of_leaves) or self.point.names
        self.terms = terms  # the size of what was added up in the functions of lower orders
        self.vs = [_draw(x, rng) * np.asarray(_size(x), dtype_of(x).type(0).real.dtype) for x in self.point.leaves]
        self.vs = [self._allowed(i, v) for i, v in enumerate(self.vs)]
        self.us = [_draw(y, rng) for y in self.value]
        self.eps = precision(*[dtype_of(x) for x in self.point.leaves], *[y.dtype for y in self.value])
        self.start = 2.0 ** round(math.log2(self.eps**0.1))  # the largest step, relative to max(1, |x|)

    def _allowed(self, i: int, v: Any) -> Any:
        """A direction in which argument leaf i may be perturbed."""
        return (v + np.conj(np.swapaxes(v, -1, -2))) / 2 if i in self.options.hermitian else v

    # -- the two derivatives --

    def push(self, vs: Sequence[Any]) -> Arrays:
        """J·v by forward mode."""
        tangents = regroup(
            self.point.structures, [np.asarray(v, dtype_of(x))[()] for v, x in zip(vs, self.point.leaves, strict=True)]
        )
        return [np.asarray(t) for t in jvp(self.f, tuple(self.args), tuple(tangents))[1]]

    def pull(self, us: Sequence[Any]) -> Arrays:
        """Jᵀu by reverse mode."""
        return [np.asarray(g) for g in flatten(vjp(self.f, *self.args)[1](list(us)))[0]]

    def moved(self, vs: Sequence[Any], h: float) -> Arrays:
        """f(x + hv)."""
        return self.point([x if v is None else _plus(x, h * v) for x, v in zip(self.point.leaves, vs, strict=True)])

    def quotient(self, vs: Sequence[Any], h: float, sizes: list[float] | None = None) -> Arrays:
        """(f(x + hv) − f(x − hv)) / 2h."""
        ahead, behind = self.moved(vs, h), self.moved(vs, -h)
        if sizes is not None:
            for n, (a, b) in enumerate(zip(ahead, behind, strict=True)):
                finite = [float(m) for y in (a, b) if math.isfinite(m := np.max(abs(y), initial=0.0))]
                sizes[n] = max([sizes[n], *finite])
        return [(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]

    def differences(self, vs: Sequence[Any]) -> _Numeric:
        """J·v by differences."""
        sizes = [float(np.max(abs(y), initial=0.0)) for y in self.value]
        step = self.options.eps
        if step is not None:
            values = self.quotient(vs, step, sizes)
        else:
            values = extrapolate(lambda h: self.quotient(vs, h, sizes), self.start, self.eps)[0]
        scale = self.eps if step is None else 0.25 * self.eps**0.5 * step
        moves = self.rounding(vs)
        self.terms = max(self.terms, *sizes, *(m / self.eps for m in moves))
        return _Numeric(values, [max(s, m / scale) for s, m in zip(sizes, moves, strict=True)])

    def rounding(self, vs: Sequence[Any]) -> list[float]:
        """How far each result moves if the arguments do by about a rounding error.

        Divided by ε, it is the size of the terms that the result is the difference of, where they cancel: at a minimum, say.
        """
        h, rng = self.options.eps or self.eps**0.5, np.random.default_rng(2)
        try:
            with np.errstate(all="ignore"):
                here, *near = (self.moved(self._nearly(vs, d * self.eps / h, rng), h) for d in (0, 2, 2, 5, 5, 9))
        except AdjointError:
            raise
        except OUTSIDE:
            return [0.0] * len(self.value)
        found = []
        for n, y in enumerate(here):
            moves = np.array([abs(other[n] - y) for other in near])
            found.append(float(np.max(moves, initial=0.0, where=np.isfinite(moves))) / 2)
        return found

    def _nearly(self, vs: Sequence[Any], distance: float, rng: np.random.Generator) -> list[Any]:
        """Directions with a random change of that size in each element; None for an argument that does not move."""
        scaled = [
            None if v is None else distance * _draw(v, rng) * np.asarray(_size(x))
            for v, x in zip(vs, self.point.leaves, strict=True)
        ]
        return [None if v is None else v + np.asarray(d, dtype_of(v)) for v, d in zip(vs, scaled, strict=True)]

    # -- what counts as equal --

    def allowed(self, ours: Any, numeric: Any, size: float) -> Any:
        """The largest difference that rounding explains: relative to the derivative and to the numbers subtracted."""
        rtol = self.eps**0.4 if self.options.rtol is None else self.options.rtol
        atol = self.eps**0.5 * size + 1e3 * self.eps * self.terms if self.options.atol is None else self.options.atol
        return atol + rtol * np.maximum(abs(ours), abs(numeric))

    def excess(self, ours: Any, numeric: Any, size: float) -> Any:
        """The ratio of an error to the allowed error; infinite where either number is nan or infinite."""
        with np.errstate(all="ignore"):
            gap = np.asarray(abs(np.asarray(ours) - numeric), float)
            limit = self.allowed(ours, numeric, size)
            ratio = np.where(gap == 0, 0.0, gap / np.maximum(limit, np.finfo(float).tiny))
            return np.where(np.isfinite(gap) & np.isfinite(np.real(ours)), ratio, np.inf)

    # -- the check --

    def run(self) -> None:
        self._finite()
        leaves = range(len(self.point.leaves))
        alone = [self.differences([v if i == j else None for j, v in enumerate(self.vs)]) for i in leaves]
        if "fwd" in self.options.modes:
            self._forward(alone)
        if "rev" in self.options.modes:
            self._reverse(alone)
        self._linear()

    def _forward(self, alone: Sequence[_Numeric]) -> None:
        """Check the tangents of each argument alone, then of all together, against differences."""
        self._same_value("fwd", jvp(self.f, tuple(self.args), tuple(regroup(self.point.structures, self.vs)))[0])
        for i, numeric in enumerate(alone):
            ours = self.push([v if i == j else np.zeros_like(v) for j, v in enumerate(self.vs)])
            if self._worst(ours, numeric) > 1:
                self._fail("fwd", [i], ours, numeric)
        if len(alone) > 1:
            total = _Numeric([sum(parts) for parts in zip(*[a.values for a in alone], strict=True)], _most(alone))
            ours = self.push(self.vs)
            if self._worst(ours, total) > 1:
                self._fail("fwd", list(range(len(alone))), ours, total)

    def _reverse(self, alone: Sequence[_Numeric]) -> None:
        """Check ⟨pull(u), v⟩ = ⟨u, difference along v⟩ for each argument."""
        self._same_value("rev", vjp(self.f, *self.args)[0])
        pulled = self.pull(self.us)
        for i, difference in enumerate(alone):
            weighted = [np.real(u * d) for u, d in zip(self.us, difference.values, strict=True)]
            size = sum(s * max(1, np.size(u)) ** 0.5 for s, u in zip(difference.sizes, self.us, strict=True))
            spread = sum(float(np.sum(abs(w))) for w in weighted)
            numeric = float(sum(np.sum(w) for w in weighted))
            mine = _inner([pulled[i]], [self.vs[i]])
            if not abs(mine - numeric) <= self.allowed(spread, spread, size):
                self._fail("rev", [i], [np.asarray(mine)], _Numeric([np.asarray(numeric)], [size]), pulled)

    def _linear(self) -> None:
        """Check that both derivatives are linear maps of the tangent or cotangent."""
        rng = np.random.default_rng(1)
        maps = {"fwd": (self.push, self.vs, "tangent"), "rev": (self.pull, self.us, "cotangent")}
        for mode in self.options.modes:
            apply, first, what = maps[mode]
            second = [_draw(x, rng) for x in first]
            both = apply([2 * np.asarray(a) - b for a, b in zip(first, second, strict=True)])
            given = max((float(np.max(np.abs(x), initial=0.0)) for x in (*first, *second)), default=0.0)
            for x, a, b in zip(both, apply(first), apply(second), strict=True):
                size = np.max(abs(a), initial=0.0) + np.max(abs(b), initial=0.0)
                rounding = 1e4 * self.eps * given * max(1.0, self.terms)  # all that is left of terms that cancel
                if np.max(abs(x - (2 * a - b)), initial=0.0) > 100 * self.eps**0.75 * size + rounding:
                    raise CheckError(
                        f"check_grads: {MODES[mode]} mode of {self._function()} is not linear in the {what}: a rule uses it "
                        "more than once, or compares it with something; it must be a factor of every term, once"
                    )

    def _worst(self, ours: Arrays, numeric: _Numeric) -> float:
        return max(
            float(np.max(self.excess(a, b, s), initial=0.0)) for a, b, s in zip(ours, numeric.values, numeric.sizes, strict=True)
        )

    def _finite(self) -> None:
        for y, name in zip(self.value, self.names, strict=True):
            if not np.all(np.isfinite(y)):
                at = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
                raise CheckError(
                    f"check_grads: {self._function()} is {y[at]} at the point given{_in(name, at)}, so there is nothing to "
                    "check; choose a point where it is finite"
                )

    def _same_value(self, mode: str, found: Sequence[Any]) -> None:
        for y, z, name in zip(self.value, found, self.names, strict=True):
            if np.shape(z) != y.shape or not np.allclose(
                z, y, rtol=self.eps**0.5, atol=self.eps**0.5 * np.max(abs(y), initial=0.0)
            ):
                raise CheckError(
                    f"check_grads: {self._function()} has the value {np.asarray(z)!r} in {MODES[mode]} mode{_in(name, ())}, but "
                    f"{y!r} by itself: it depends on something other than its arguments, or a function in it is wrong"
                )

    def deeper(self, mode: str) -> _Deeper:
        """The function of the next order: of the point, and of the tangent or cotangent that the derivative is applied to."""
        f, count = self.f, len(self.args)
        if mode == "fwd":
            tangents = regroup(
                self.point.structures, [np.asarray(v, dtype_of(x))[()] for v, x in zip(self.vs, self.point.leaves, strict=True)]
            )
            names = [f"the tangent of {name or 'the result'}" for name in self.names]
            given = [f"the tangent of {name}" for name in self.names_of_leaves]
            every = [*self.names_of_leaves, *given]
            return _Deeper(lambda *xs: jvp(f, xs[:count], xs[count:])[1], [*self.args, *tangents], names, every, self.terms)
        names = [f"the cotangent of {name}" for name in self.names_of_leaves]
        given = [f"the cotangent of {name or 'the result'}" for name in self.names]
        us = [np.asarray(u)[()] for u in self.us]
        every = [*self.names_of_leaves, *given]
        return _Deeper(
            lambda *xs: flatten(vjp(f, *xs[:count])[1](list(xs[count:])))[0], [*self.args, *us], names, every, self.terms
        )

    # -- the report --

    def _function(self) -> str:
        return self.options.name if not self.trail else f"a derivative of order {len(self.trail)} of {self.options.name}"

    def _fail(self, mode: str, where: list[int], ours: Arrays, numeric: _Numeric, pulled: Arrays | None = None) -> None:
        """Find the wrong element and raise."""
        found = None
        for i in where:
            found = max(filter(None, [found, self._element(mode, i, pulled)]), key=lambda m: m.excess, default=None)
        if found is None or found.excess <= 1:
            n = max(
                range(len(ours)),
                key=lambda n: float(np.max(self.excess(ours[n], numeric.values[n], numeric.sizes[n]), initial=0)),
            )
            at = np.unravel_index(int(np.argmax(self.excess(ours[n], numeric.values[n], numeric.sizes[n]))), np.shape(ours[n]))
            names = ", ".join(self.names_of_leaves[i] for i in where)
            every = [v if i in where else None for i, v in enumerate(self.vs)]
            found = _Mismatch(
                f"{names} along a random direction (element by element they agree)",
                ours[n][at], numeric.values[n][at], np.inf, every, lambda d: _inner(self.us, d) if mode == "rev" else d[n][at],
                self.allowed(ours[n][at], numeric.values[n][at], numeric.sizes[n]),
            )  # fmt: skip
        modes = " over ".join(MODES[m] for m in (mode, *self.trail))
        raise CheckError(
            f"check_grads: {modes} mode of {self.options.name} disagrees with finite differences at order {len(self.trail) + 1}\n"
            f"  where        {found.where}\n"
            f"  ours         {found.ours!s}\n"
            f"  numerical    {found.numeric!s}\n"
            f"  difference   {abs(found.ours - found.numeric):.3g}, allowed {found.limit:.3g}\n"
            f"  {self._convergence(found)}\n "
        )

    def _directions(self, i: int) -> Iterator[tuple[str, Any]]:
        x = self.point.leaves[i]
        units = [(" (real part)", 1.0), (" (imaginary part)", 1j)] if dtype_of(x).kind == "c" else [("", 1.0)]
        for k in range(min(math.prod(shape_of(x)), ELEMENTS)):
            index = tuple(int(j) for j in np.unravel_index(k, shape_of(x)))
            for part, unit in units:
                v = np.zeros(shape_of(x), dtype_of(x))
                v[index] = unit
                v = self._allowed(i, v)
                yield f"{self.names_of_leaves[i]}{_at(index)}{part}", v[()]

    def _element(self, mode: str, i: int, pulled: Arrays | None) -> _Mismatch | None:
        """The worst element of argument leaf i, with the element of the result that shows it."""
        worst: _Mismatch | None = None
        for where, v in self._directions(i):
            vs = [v if i == j else None for j in range(len(self.vs))]
            numeric = self.differences(vs)
            if mode == "fwd":
                ours = self.push([np.zeros_like(w) if u is None else u for u, w in zip(vs, self.vs, strict=True)])
            else:
                assert pulled is not None
                mine, theirs = _inner([pulled[i]], [v]), _inner(self.us, numeric.values)
                spread = sum(float(np.sum(abs(u * d))) for u, d in zip(self.us, numeric.values, strict=True))
                size = sum(s * max(1, np.size(u)) ** 0.5 for s, u in zip(numeric.sizes, self.us, strict=True))
                if abs(mine - theirs) <= self.allowed(spread, spread, size) or (worst is not None and worst.excess == np.inf):
                    continue
                ours = self._row_by_row(i, v, numeric)
            for n, (a, b, s) in enumerate(zip(ours, numeric.values, numeric.sizes, strict=True)):
                excess = self.excess(a, b, s)
                if not excess.size or (worst is not None and np.max(excess) <= worst.excess):
                    continue
                at = tuple(int(j) for j in np.unravel_index(int(np.argmax(excess)), excess.shape))
                worst = _Mismatch(
                    f"{where}{_in(self.names[n], at)}", a[at], np.asarray(b)[at], float(excess[at]), vs,
                    functools.partial(_pick, n, at), float(np.asarray(self.allowed(a[at], np.asarray(b)[at], s))),
                )  # fmt: skip
        return worst

    def _row_by_row(self, i: int, v: Any, numeric: _Numeric) -> Arrays:
        """The derivative of every element of the result in a direction of argument i, each by its own reverse pass."""
        back = vjp(self.f, *self.args)[1]
        result = []
        for n, y in enumerate(self.value):
            found = np.array(numeric.values[n])
            for k in range(min(y.size, ELEMENTS)):
                index = np.unravel_index(k, y.shape)
                parts = []
                for unit in (1.0, -1j) if y.dtype.kind == "c" else (1.0,):
                    us = [np.zeros(z.shape, z.dtype) for z in self.value]
                    us[n][index] = unit
                    parts.append(_inner([np.asarray(flatten(back([u[()] for u in us]))[0][i])], [v]))
                found[index] = parts[0] + 1j * parts[1] if len(parts) > 1 else parts[0]
            result.append(found)
        return result

    def _convergence(self, found: _Mismatch) -> str:
        """How the error of central differences depends on the step, and its interpretation."""
        steps = [self.start / 2**k for k in range(7 if self.eps < 1e-10 else 5)]
        errors = []
        with np.errstate(all="ignore"):
            for h in steps:
                try:
                    errors.append(float(abs(found.pick(self.quotient(found.direction, h)) - found.ours)))
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


class _Deeper(NamedTuple):
    """A function of the next order, its arguments, the names of its results and arguments, and the size of what was added up."""

    function: Function
    args: list[Any]
    names: list[str]
    given: list[str]
    terms: float = 0.0


class _Options(NamedTuple):
    name: str
    hermitian: frozenset[int]  # leaves of the arguments that the user gave, which are perturbed within the Hermitian matrices
    modes: tuple[str, ...]
    rtol: float | None
    atol: float | None
    eps: float | None


class _Mismatch(NamedTuple):
    where: str
    ours: Any
    numeric: Any
    excess: float
    direction: list[Any]
    pick: Callable[[Arrays], Any]
    limit: float


def _plus(x: Any, d: Any) -> Any:
    return np.asarray(x + d, dtype_of(x)) if isinstance(x, np.ndarray) else type(x)(x + d)


def _size(x: Any) -> Any:
    return np.maximum(1.0, abs(np.asarray(x)))


def _pick(n: int, at: tuple[int, ...], arrays: Arrays) -> Any:
    return arrays[n][at]


def _most(numerics: Sequence[_Numeric]) -> list[float]:
    return [max(sizes) for sizes in zip(*[n.sizes for n in numerics], strict=True)]


def _at(index: tuple[int, ...]) -> str:
    return f", element [{', '.join(map(str, index))}]" if index else ""


def _in(name: str, index: tuple[int, ...]) -> str:
    if not name and not index:
        return ""
    return f"; {'result' + name if name.startswith(('[', '.')) or not name else name}{_at(index)}"


@boundary
def check_grads(
    f: Function,
    *args: Any,
    order: int = 2,
    modes: str | Sequence[str] = ("fwd", "rev"),
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare forward and reverse mode of f with finite differences, up to the order; raise CheckError where they differ.

    Arguments and results may be containers, and complex. The tolerances follow from the dtypes unless given; `eps`
    fixes the step of the differences, which are otherwise extrapolated from several steps.

    >>> check_grads(lambda x: np.sin(x) * x, np.array([0.5, 1.5]))
    """
    check_callable(f, "check_grads")
    if not args:
        raise ArgumentError("check_grads needs the point at which to check: write check_grads(f, x), not check_grads(f)(x)")
    if len(args) == 2 and isinstance(args[0], (tuple, list)) and type(args[1]) is int:
        raise ArgumentError(
            "check_grads takes the arguments of the function one by one, and the order by name: write "
            f"check_grads(f, *args, order={args[1]}), not check_grads(f, args, {args[1]})"
        )
    chosen = tuple(modes) if isinstance(modes, (tuple, list, set, frozenset)) else (modes,)
    if not chosen or any(mode not in ("fwd", "rev") for mode in chosen):
        raise ArgumentError(f"modes of check_grads are 'fwd' and 'rev', one or both, not {modes!r}")
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 1:
        raise ArgumentError(f"order of check_grads is a positive integer, not {order!r}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        number = isinstance(tolerance, (int, float, np.integer, np.floating)) and not isinstance(tolerance, bool)
        if tolerance is not None and not (number and tolerance >= 0):
            raise ArgumentError(f"{name} of check_grads is a number that is not negative, or None, not {tolerance!r}")
    try:
        _check(f, args, int(order), chosen, rtol, atol, check_step(eps, "eps"))
    except (TypeError, ValueError, LookupError) as error:
        if _are_arguments(f, args):
            raise ArgumentError(
                f"check_grads takes the arguments of the function one by one: write check_grads({name_of(f)}, *args), not "
                f"check_grads({name_of(f)}, args). With one argument that is a {type(args[0]).__name__}, the function raises "
                f"{type(error).__name__}: {error}"
            ) from error
        raise


def _are_arguments(f: Function, args: Sequence[Any]) -> bool:
    """Whether the only argument is a sequence of arguments that f does take, as JAX's check_grads and PyTorch's gradcheck do."""
    if len(args) != 1 or not isinstance(args[0], (tuple, list)) or not args[0]:
        return False
    try:
        f(*map_leaves(own, tuple(args[0])))
    except Exception:  # whatever it is, the error that is reported is the first one
        return False
    return True


def _check(
    f: Function,
    args: Sequence[Any],
    order: int,
    chosen: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    eps: float | None,
) -> None:
    first, names = _float_results(f, args)
    options = _Options(name_of(f), _hermitian(first, args), chosen, rtol, atol, eps)
    rng = np.random.default_rng(0)
    pending: list[tuple[_Deeper, tuple[str, ...]]] = [(_Deeper(first, list(args), names, []), ())]
    while pending:
        level, trail = pending.pop(0)
        probe = _Probe(level.function, level.args, level.names, options, rng, trail, level.given, level.terms)
        probe.run()
        if len(trail) + 1 < order:
            pending.extend((probe.deeper(mode), (mode, *trail)) for mode in chosen)


#: Ops that read one triangle of a matrix and take it to be Hermitian.
_READ_A_TRIANGLE: frozenset[Op] = frozenset({cholesky, eigh, hermitian})


def _hermitian(f: Function, args: Sequence[Any]) -> frozenset[int]:
    """The leaves of the arguments that are Hermitian matrices, if f reads triangles of such."""
    found = frozenset(i for i, x in enumerate(map(np.asarray, flatten(tuple(args))[0])) if x.ndim >= 2 and _is_hermitian(x))
    if not found:
        return found
    recording = Recording(f, map_leaves(own, tuple(args)), {}, tuple(range(len(args))), False, "check_grads")
    stack, seen = [node for node in recording.ends if node is not None], set()
    while stack:
        node = stack.pop()
        if node.op in _READ_A_TRIANGLE:
            break
        for parent in node.parents:
            if parent.serial not in seen:
                seen.add(parent.serial)
                stack.append(parent)
    else:
        return frozenset()
    return found


def _is_hermitian(x: Any) -> bool:
    return x.shape[-1] == x.shape[-2] and bool(np.all(x == np.conj(np.swapaxes(x, -1, -2))))


def _float_results(f: Function, args: Sequence[Any]) -> tuple[Function, list[str]]:
    """f with a flat list of its float results, and their names. Integers and booleans in a result have no derivative."""
    open_arguments(args, range(len(args)), "check_grads")  # refuses what cannot be differentiated
    result = f(*map_leaves(own, tuple(args)))
    if result is None:
        output_leaf(None, f, "check_grads")
    parts, structure = flatten(result)
    names = leaf_names("", structure)
    kinds = [dtype_of(output_leaf(y, f, "check_grads", name)).kind for y, name in zip(parts, names, strict=True)]
    keep = [n for n, kind in enumerate(kinds) if kind in "fc"]
    if not keep:
        raise ArgumentError(f"{name_of(f)} returned no float, so check_grads has nothing to differentiate")

    def floats(*xs: Any) -> list[Any]:
        leaves = flatten(f(*xs))[0]
        return [leaves[n] for n in keep]

    return floats, [names[n] for n in keep]
