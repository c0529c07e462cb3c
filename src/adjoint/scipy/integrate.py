"""scipy.integrate, differentiable: integrals of functions and of samples, and initial value problems.

    from adjoint.scipy import integrate
    ad.grad(lambda k: integrate.quad(lambda t: np.exp(-k * t), 0, np.inf)[0])(2.0)
    ad.grad(lambda k: integrate.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0]).y[0, -1])(2.0)

What SciPy writes in Python (`solve_ivp` with its methods in Python, rules for samples, `quad_vec`) runs as an adopted copy. The
value of `quad` is QUADPACK's; its derivatives are those of a sum over nodes, which are refined until it has that value. Step
sizes and intervals count as constants. The rest of the module is SciPy's.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import scipy.integrate as _scipy

from ..adopt.copies import world_with
from ..core.errors import UnsupportedError
from .guard import guarded
from .numbers import Noted, is_traced, number, plain, with_value

# -- integrals of functions ---------------------------------------------------------------------------------------

_WHAT = "the integral by"
_MOST_INTERVALS = 400
_REACH, _STEP = 34, 0.125  # nodes of the double exponential rule to each side
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
    noted = Noted(lambda t: func(t, *args), _WHAT)
    ends = number(a, _WHAT), number(b, _WHAT)
    result = _scipy.quad(noted, *ends, **options)
    if not (noted.traced or is_traced(a) or is_traced(b)):
        return result
    if weight is not None:
        raise UnsupportedError("quad with weight= has no derivative; multiply the function by the weight")
    tolerance = max(epsabs, epsrel * abs(result[0]))
    sharp = max(_SHARPER * tolerance, 1e-14 * abs(result[0]))
    lines = list(_lines(a, b, ends, points))
    total = sum(_by_both_ends(noted.f, line, *line[2]) for line in lines)
    if not abs(number(total, _WHAT) - result[0]) <= sharp:
        total = sum(_refined(noted.f, line, sharp) for line in lines)
    if not abs(number(total, _WHAT) - result[0]) <= 10 * max(tolerance, result[1]):
        raise UnsupportedError(
            f"quad cannot differentiate this integral, {result[0]}: a sum over {_MOST_INTERVALS} intervals gives "
            f"{number(total, _WHAT)}; divide the range at its singularities"
        )
    return (with_value(total, result[0]), *result[1:])


Line = tuple[Callable[[float], Any], Callable[[float], Any], tuple[float, float]]


def _lines(a: Any, b: Any, ends: tuple[float, float], points: Any) -> Iterator[Line]:
    """The range of integration in pieces: the place for a parameter t, its derivative, and the range of t."""
    low, high = ends
    if low > high:
        for place, slope, span in _lines(b, a, (high, low), points):
            yield place, _negative(slope), span
    elif math.isinf(low) and math.isinf(high) and low != high:
        yield lambda t: (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
        yield lambda t: (t - 1) / t, lambda t: 1 / t**2, (0.0, 1.0)
    elif math.isinf(high):
        yield lambda t: a + (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
    elif math.isinf(low):
        yield lambda t: b - (1 - t) / t, lambda t: 1 / t**2, (0.0, 1.0)
    else:
        inside = sorted({float(p) for p in ([] if points is None else points) if low < p < high})
        at = [0.0, *((p - low) / (high - low) for p in inside), 1.0] if high > low else [0.0, 1.0]
        for span in itertools.pairwise(at):
            yield lambda t: a + (b - a) * t, lambda t: b - a, span


def _negative(f: Callable[[float], Any]) -> Callable[[float], Any]:
    return lambda t: -f(t)


def _by_both_ends(f: Callable[[Any], Any], line: Line, begin: float, end: float) -> Any:
    """The double exponential rule: its nodes crowd at both ends, where a function and its derivatives may be singular."""
    place, slope, _ = line
    total: Any = 0.0
    for u in range(-_REACH, _REACH + 1):
        angle = 0.5 * math.pi * math.sinh(u * _STEP)
        t = begin + (end - begin) / (1 + math.exp(-2 * angle))
        weight = (end - begin) * 0.25 * math.pi * _STEP * math.cosh(u * _STEP) / math.cosh(angle) ** 2
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
        error = abs(number(fine, _WHAT) - number(coarse, _WHAT))
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


# -- copies of what SciPy writes in Python ------------------------------------------------------------------------

_OF_SAMPLES = frozenset(["trapezoid", "simpson", "romb", "cumulative_trapezoid", "cumulative_simpson"])
_COPIED = {
    **dict.fromkeys(["solve_ivp", "RK23", "RK45", "DOP853", "Radau", "BDF", "OdeSolver", "OdeSolution", "DenseOutput"], "_ivp"),
    **dict.fromkeys([*_OF_SAMPLES, "fixed_quad"], "_quadrature"),
    **dict.fromkeys(["dblquad", "tplquad", "nquad"], "_quadpack_py"),
    "quad_vec": "_quad_vec",
}
_COMPILED = "its steps are taken by compiled code; use solve_ivp with another method"
_REASONS = {
    **dict.fromkeys(["odeint", "ode", "complex_ode", "LSODA"], _COMPILED),
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
