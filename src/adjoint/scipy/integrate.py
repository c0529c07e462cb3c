"""scipy.integrate, differentiable: integrals of functions and of samples, and initial value problems.

    from adjoint.scipy import integrate
    ad.grad(lambda k: integrate.quad(lambda t: np.exp(-k * t), 0, np.inf)[0])(2.0)
    ad.grad(lambda k: integrate.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0]).y[0, -1])(2.0)

What SciPy writes in Python (`solve_ivp` with its methods in Python, rules for samples, `quad_vec`) runs as an adopted copy. The
value of `quad` is QUADPACK's; its derivatives are those of a sum over nodes, which are refined until it has that value. A
compiled program checks that it has, and calls QUADPACK again for other numbers (`host.py`). The value of `odeint` is LSODA's; its
derivatives are those of a solution by explicit steps. Step sizes and intervals count as constants. The rest of the module is
SciPy's.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.integrate as _scipy

from .. import numpy as anp
from ..adopt.builtin import is_batched
from ..adopt.copies import world_with
from ..core.errors import UnsupportedError
from . import host
from .guard import guarded
from .numbers import Noted, holds, is_traced, number, plain, seen, with_value

# -- integrals of functions ---------------------------------------------------------------------------------------

_WHAT = "the integral by"
_MOST_INTERVALS = 400
_REACH, _STEPS = 4.25, (0.125, 0.03125)  # the range of the double exponential rule to each side, and the distances of its nodes
_SHARPER = 1e-2  # the share of the tolerance of `quad` to which its sum is refined: derivatives are less smooth
#: The rule of Kronrod with 15 nodes on [−1, 1], and the weights of the Gauss rule with 7 of them: place, weight, weight.
_HALF_RULE = (
    (0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0),
    (0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.129484966168869693270611432679082),
    (0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0),
    (0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.279705391489276667901467771423780),
    (0.586087235467691130294144691693201, 0.169004726639267902826583426598550, 0.0),
    (0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.381830050505118944950369775488975),
    (0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0),
)
_MIDDLE = (0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327)
_RULE = (*((-x, w, g) for x, w, g in _HALF_RULE), _MIDDLE, *reversed(_HALF_RULE))


def quad(
    func: Any,
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    weight: Any = None,
    wvar: Any = None,
    wopts: Any = None,
    maxp1: int = 50,
    limlst: int = 50,
    complex_func: bool = False,
) -> Any:
    """`scipy.integrate.quad`, of a function that computes with traced values, or between traced limits."""
    options = {"full_output": full_output, "epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points, "weight": weight}
    options |= {"wvar": wvar, "wopts": wopts, "maxp1": maxp1, "limlst": limlst, "complex_func": complex_func}
    if not callable(func):  # compiled code
        return _scipy.quad(func, a, b, args, **options)
    args = args if isinstance(args, tuple) else (args,)
    a, b = plain(a), plain(b)
    of, result, depends = _by_scipy(func, args, a, b, options)
    if not depends:
        return result
    if weight is not None:
        raise UnsupportedError("quad with weight= has no derivative; multiply the function by the weight")
    tolerance = anp.maximum(epsabs, epsrel * abs(result[0]))
    sharp = anp.maximum(_SHARPER * tolerance, 1e-14 * abs(result[0]))
    lines = list(_lines(a, b, points))
    total, bound = _total(of, lines, result[0], sharp), sharp
    if not _is_near(total, result[0], sharp):
        bound = 10 * anp.maximum(tolerance, result[1])
    if not holds(abs(total - result[0]) <= bound):
        raise UnsupportedError(
            f"quad cannot differentiate this integral, {number(result[0], _WHAT)}: a sum over {_MOST_INTERVALS} intervals gives "
            f"{number(total, _WHAT)}; divide the range at its singularities"
        )
    return (with_value(total, result[0]), *result[1:])


def _by_scipy(func: Any, args: tuple[Any, ...], a: Any, b: Any, options: dict[str, Any]) -> tuple[Any, Any, bool]:
    """The integrand, SciPy's result, and whether that depends on traced values. A compiled program calls SciPy where it can."""

    def close(func: Any) -> Any:
        return lambda t: func(t, *args)

    def solve(functions: dict[str, Any], given: Any) -> Any:
        return _scipy.quad(functions["f"], *given, **options)

    for staged in host.ways({"f": func}) if host.is_deferred() else ():
        of = close(staged["f"])
        result = host.called(solve, {"f": of}, (), (a, b))
        if result is not None:
            return of, result, True
    of = close(func)
    noted = Noted(of, _WHAT)
    result = solve({"f": noted}, (number(a, _WHAT), number(b, _WHAT)))
    return of, result, noted.traced or is_traced(a) or is_traced(b)


def _is_near(total: Any, value: Any, distance: Any) -> bool:
    near = abs(total - value) <= distance
    return holds(near) if is_batched(near) else bool(seen(near, _WHAT))


def _total(f: Callable[[Any], Any], lines: list[Line], value: Any, tolerance: Any) -> Any:
    """The sum over nodes that are chosen by the numbers of this call. A program checks that the sum is near the integral."""
    for step in _STEPS:
        total = sum(_by_both_ends(f, line, *line[2], step) for line in lines)
        if _is_near(total, value, tolerance):
            return total
    tolerance = seen(tolerance, _WHAT)
    return sum(_refined(f, line, tolerance) for line in lines)


Line = tuple[Callable[[float], Any], Callable[[float], Any], tuple[float, float]]


def _lines(a: Any, b: Any, points: Any) -> Iterator[Line]:
    """The range of integration in pieces: the place for a parameter t, its derivative, and the range of t."""
    ends = [holds(anp.isinf(x)) for x in (a, b)]
    if holds(a > b):
        for place, slope, span in _lines(b, a, points):
            yield place, _negative(slope), span
    elif all(ends) and not holds(a == b):
        yield lambda t: (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
        yield lambda t: (t - 1) / t, lambda t: 1 / t**2, (0.0, 1.0)
    elif ends[1]:
        yield lambda t: a + (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
    elif ends[0]:
        yield lambda t: b - (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
    else:
        at = [0.0, 1.0]
        if points is not None and len(points):
            low, high = number(a, _WHAT), number(b, _WHAT)
            at[1:1] = sorted({(float(p) - low) / (high - low) for p in points if low < p < high})
        for span in itertools.pairwise(at):
            yield lambda t: a + (b - a) * t, lambda t: b - a, span


def _negative(f: Callable[[float], Any]) -> Callable[[float], Any]:
    return lambda t: -f(t)


def _by_both_ends(f: Callable[[Any], Any], line: Line, begin: float, end: float, step: float = _STEPS[0]) -> Any:
    """The double exponential rule: its nodes crowd at both ends, where a function and its derivatives may be singular."""
    place, slope, _ = line
    total: Any = 0.0
    for i in range(-int(_REACH / step), int(_REACH / step) + 1):
        u = i * step
        angle = 0.5 * math.pi * math.sinh(u)
        t = begin + (end - begin) / (1 + math.exp(-2 * angle))
        weight = (end - begin) * 0.25 * math.pi * step * math.cosh(u) / math.cosh(angle) ** 2
        if begin < t < end:
            total = total + weight * slope(t) * f(place(t))
    return total


def _refined(f: Callable[[Any], Any], line: Line, tolerance: float) -> Any:
    """The sum over intervals, which are halved where two rules differ most; at both ends the double exponential rule."""
    place, slope, span = line

    def on(begin: float, end: float) -> tuple[float, float, float, Any]:
        half = (end - begin) / 2
        at = [(begin + half * (1 + x), half * w, half * g) for x, w, g in _RULE]
        values = [slope(t) * f(place(t)) for t, _, _ in at]
        fine = sum(w * y for (_, w, _), y in zip(at, values, strict=True))
        coarse = sum(g * y for (_, _, g), y in zip(at, values, strict=True) if g)
        error = abs(seen(fine, _WHAT) - seen(coarse, _WHAT))
        return (-error if math.isfinite(error) else -math.inf), begin, end, fine

    intervals = [on(*span)]
    while len(intervals) < _MOST_INTERVALS and -sum(part[0] for part in intervals) > tolerance:
        _, begin, end, _ = heapq.heappop(intervals)
        middle = begin + (end - begin) / 2
        heapq.heappush(intervals, on(begin, middle))
        heapq.heappush(intervals, on(middle, end))
    total: Any = 0.0
    for _, begin, end, fine in sorted(intervals, key=lambda part: part[1]):
        total = total + (_by_both_ends(f, line, begin, end) if begin == span[0] or end == span[1] else fine)
    return total


# -- odeint -------------------------------------------------------------------------------------------------------

_SLOPES = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-12}  # the steps that derivatives are taken through
_WHAT_STEPS = "the steps of"
_OF_ODEINT = "Dfun col_deriv full_output ml mu rtol atol tcrit h0 hmax hmin ixpr mxstep mxhnil mxordn mxords printmessg tfirst"
_APART = 1e-3  # relative distance at which two solutions of one problem are not the same


def _solution(slope: Callable[[Any, Any], Any], y0: Any, times: Any) -> Any:
    return _copy("_ivp").solve_ivp(slope, (times[0], times[-1]), y0, t_eval=times, **_SLOPES).y


def _by_intervals(slope: Callable[[Any, Any], Any], y0: Any, t: Any) -> Any:
    """The solution at times that are traced: of each interval, as a problem from 0 to 1."""
    found = [y0]
    for i in range(len(t) - 1):
        begin, length = t[i], t[i + 1] - t[i]
        scaled = lambda s, y, begin=begin, length=length: length * anp.asarray(slope(begin + s * length, y))
        found.append(_solution(scaled, found[-1], np.array([0.0, 1.0]))[:, -1])
    return anp.stack(found)


def _time_first(f: Any, args: tuple[Any, ...], is_first: bool) -> Callable[[Any, Any], Any]:
    return (lambda t, y: f(t, y, *args)) if is_first else (lambda t, y: f(y, t, *args))


def odeint(func: Any, y0: Any, t: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
    """`scipy.integrate.odeint`, of a function that computes with traced values, or of traced times and initial values.

    The value is that of LSODA. Its derivatives are those of a solution by explicit steps of order 8.
    """
    options |= dict(zip(_OF_ODEINT.split(), rest, strict=False))
    args = args if isinstance(args, tuple) else (args,)
    is_first = options.pop("tfirst", False)
    slope = _time_first(func, args, is_first)
    y0, t = anp.atleast_1d(plain(y0)), plain(t)
    noted = Noted(lambda t, y: anp.asarray(slope(t, y)), _WHAT_STEPS)
    numbers = number(y0, _WHAT_STEPS), number(t, _WHAT_STEPS)
    jacobian: Any = options.pop("Dfun", None)
    if jacobian is not None:
        options["Dfun"] = Noted(_time_first(jacobian, args, is_first), _WHAT_STEPS)
    found = _scipy.odeint(noted, *numbers, tfirst=True, **options)
    value = found[0] if isinstance(found, tuple) else found
    if not (noted.traced or is_traced(y0) or is_traced(t)):
        return found
    y = _by_intervals(slope, y0, t) if is_traced(t) else _solution(slope, y0, numbers[1]).T
    apart = np.max(np.abs(number(y, _WHAT_STEPS) - value)) / max(np.max(np.abs(value)), 1e-300)
    if not apart <= _APART:
        raise UnsupportedError(
            f"odeint cannot differentiate this problem: two methods differ by {apart:.1e} of the solution; use solve_ivp with BDF"
        )
    result = with_value(y, value)
    return (result, *found[1:]) if isinstance(found, tuple) else result


# -- copies of what SciPy writes in Python ------------------------------------------------------------------------

_OF_SAMPLES = frozenset(["trapezoid", "simpson", "romb", "cumulative_trapezoid", "cumulative_simpson"])
_COPIED = {
    **dict.fromkeys(["solve_ivp", "RK23", "RK45", "DOP853", "Radau", "BDF", "OdeSolver", "OdeSolution", "DenseOutput"], "_ivp"),
    **dict.fromkeys([*_OF_SAMPLES, "fixed_quad"], "_quadrature"),
    **dict.fromkeys(["dblquad", "tplquad", "nquad"], "_quadpack_py"),
    "quad_vec": "_quad_vec",
}
_COMPILED = "its steps are taken by compiled code; use odeint, or solve_ivp with another method"
_REASONS = {
    **dict.fromkeys(["ode", "complex_ode", "LSODA"], _COMPILED),
    "solve_bvp": "there is no rule for it; write the collocation equations and solve them with scipy.optimize.root",
}


@functools.cache
def _copy(part: str) -> Any:
    copy = world_with().load(f"scipy.integrate.{part}")
    if part == "_quadpack_py":
        vars(copy)["quad"] = quad  # the integrals that the others consist of
    return copy


def _of_samples(name: str) -> Callable[..., Any]:
    original, ours = getattr(_scipy, name), getattr(_copy(_COPIED[name]), name)

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        args, options = tuple(map(plain, args)), {key: plain(x) for key, x in options.items()}
        return (ours if any(map(is_traced, (*args, *options.values()))) else original)(*args, **options)

    return call


def __getattr__(name: str) -> Any:
    if name in _OF_SAMPLES:
        found = _of_samples(name)
    elif name in _COPIED:
        found = getattr(_copy(_COPIED[name]), name)
    elif name in _REASONS and not isinstance(getattr(_scipy, name), type):
        found = guarded(getattr(_scipy, name), f"scipy.integrate.{name}", _REASONS[name])
    else:
        return getattr(_scipy, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return dir(_scipy)
