"""One function, of one order, under test at one point: its derivatives in both modes, differences, and what counts as equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..api.arguments import regroup
from ..api.forward import jvp
from ..api.grad import vjp
from ..core.errors import AdjointError, CheckError
from ..core.tree import flatten
from ..core.types import dtype_of, shape_of
from .differences import OUTSIDE, Arrays, Numeric, Point, extrapolate, precision
from .mismatch import MODES, in_result, inner, raise_mismatch

Function = Callable[..., Any]


class CheckOptions(NamedTuple):
    """What check_grads was asked."""

    name: str
    hermitian: frozenset[int]  # leaves of the arguments that the user gave, which are perturbed within the Hermitian matrices
    modes: tuple[str, ...]
    rtol: float | None
    atol: float | None
    eps: float | None


class Deeper(NamedTuple):
    """A function of the next order, its arguments, the names of its results and arguments, and the size of what was added up."""

    function: Function
    args: list[Any]
    names: list[str]
    given: list[str]
    terms: float = 0.0


class Probe:
    """One function, of one order, under test at one point; results are lists of float arrays."""

    def __init__(
        self,
        f: Function,
        args: Sequence[Any],
        names: Sequence[str] | None,
        options: CheckOptions,
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
        self.vs = [self.direction(i, v) for i, v in enumerate(self.vs)]
        self.us = [_draw(y, rng) for y in self.value]
        self.eps = precision(*[dtype_of(x) for x in self.point.leaves], *[y.dtype for y in self.value])
        self.start = 2.0 ** round(math.log2(self.eps**0.1))  # the largest step, relative to max(1, |x|)

    def direction(self, i: int, v: Any) -> Any:
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

    def differences(self, vs: Sequence[Any]) -> Numeric:
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
        return Numeric(values, [max(s, m / scale) for s, m in zip(sizes, moves, strict=True)])

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

    def _forward(self, alone: Sequence[Numeric]) -> None:
        """Check the tangents of each argument alone, then of all together, against differences."""
        self._same_value("fwd", jvp(self.f, tuple(self.args), tuple(regroup(self.point.structures, self.vs)))[0])
        for i, numeric in enumerate(alone):
            ours = self.push([v if i == j else np.zeros_like(v) for j, v in enumerate(self.vs)])
            if self._worst(ours, numeric) > 1:
                raise_mismatch(self, "fwd", [i], ours, numeric)
        if len(alone) > 1:
            total = Numeric([sum(parts) for parts in zip(*[a.values for a in alone], strict=True)], _most(alone))
            ours = self.push(self.vs)
            if self._worst(ours, total) > 1:
                raise_mismatch(self, "fwd", list(range(len(alone))), ours, total)

    def _reverse(self, alone: Sequence[Numeric]) -> None:
        """Check ⟨pull(u), v⟩ = ⟨u, difference along v⟩ for each argument."""
        self._same_value("rev", vjp(self.f, *self.args)[0])
        pulled = self.pull(self.us)
        for i, difference in enumerate(alone):
            weighted = [np.real(u * d) for u, d in zip(self.us, difference.values, strict=True)]
            size = self.size_of_sum(difference)
            spread = sum(float(np.sum(abs(w))) for w in weighted)
            numeric = float(sum(np.sum(w) for w in weighted))
            mine = inner([pulled[i]], [self.vs[i]])
            if not abs(mine - numeric) <= self.allowed(spread, spread, size):
                raise_mismatch(self, "rev", [i], [np.asarray(mine)], Numeric([np.asarray(numeric)], [size]), pulled)

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
                        f"check_grads: {MODES[mode]} mode of {self.title} is not linear in the {what}: a rule uses it "
                        "more than once, or compares it with something; it must be a factor of every term, once"
                    )

    def _worst(self, ours: Arrays, numeric: Numeric) -> float:
        return max(
            float(np.max(self.excess(a, b, s), initial=0.0)) for a, b, s in zip(ours, numeric.values, numeric.sizes, strict=True)
        )

    def _finite(self) -> None:
        for y, name in zip(self.value, self.names, strict=True):
            if not np.all(np.isfinite(y)):
                at = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
                raise CheckError(
                    f"check_grads: {self.title} is {y[at]} at the point given{in_result(name, at)}, so there is nothing to "
                    "check; choose a point where it is finite"
                )

    def _same_value(self, mode: str, found: Sequence[Any]) -> None:
        for y, z, name in zip(self.value, found, self.names, strict=True):
            if np.shape(z) != y.shape or not np.allclose(
                z, y, rtol=self.eps**0.5, atol=self.eps**0.5 * np.max(abs(y), initial=0.0)
            ):
                raise CheckError(
                    f"check_grads: {self.title} has the value {np.asarray(z)!r} in {MODES[mode]} mode{in_result(name, ())}, but "
                    f"{y!r} by itself: it depends on something other than its arguments, or a function in it is wrong"
                )

    def deeper(self, mode: str) -> Deeper:
        """The function of the next order: of the point, and of the tangent or cotangent that the derivative is applied to."""
        f, count = self.f, len(self.args)
        if mode == "fwd":
            tangents = regroup(
                self.point.structures, [np.asarray(v, dtype_of(x))[()] for v, x in zip(self.vs, self.point.leaves, strict=True)]
            )
            names = [f"the tangent of {name or 'the result'}" for name in self.names]
            given = [f"the tangent of {name}" for name in self.names_of_leaves]
            every = [*self.names_of_leaves, *given]
            return Deeper(lambda *xs: jvp(f, xs[:count], xs[count:])[1], [*self.args, *tangents], names, every, self.terms)
        names = [f"the cotangent of {name}" for name in self.names_of_leaves]
        given = [f"the cotangent of {name or 'the result'}" for name in self.names]
        us = [np.asarray(u)[()] for u in self.us]
        every = [*self.names_of_leaves, *given]
        return Deeper(
            lambda *xs: flatten(vjp(f, *xs[:count])[1](list(xs[count:])))[0], [*self.args, *us], names, every, self.terms
        )

    @property
    def title(self) -> str:
        return self.options.name if not self.trail else f"a derivative of order {len(self.trail)} of {self.options.name}"

    def size_of_sum(self, numeric: Numeric) -> float:
        """The size of the numbers that a sum over all elements of the results is made of."""
        return sum(s * max(1, np.size(u)) ** 0.5 for s, u in zip(numeric.sizes, self.us, strict=True))


def _draw(x: Any, rng: np.random.Generator) -> Any:
    """A random tangent or cotangent for x, bounded away from zero."""
    shape, dtype = shape_of(x), dtype_of(x)
    v = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        v = v + 1j * rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(v, dtype)[()]


def _plus(x: Any, d: Any) -> Any:
    return np.asarray(x + d, dtype_of(x)) if isinstance(x, np.ndarray) else type(x)(x + d)


def _size(x: Any) -> Any:
    return np.maximum(1.0, abs(np.asarray(x)))


def _most(numerics: Sequence[Numeric]) -> list[float]:
    return [max(sizes) for sizes in zip(*[n.sizes for n in numerics], strict=True)]
