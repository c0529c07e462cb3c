"""scipy.optimize, differentiable: roots of functions that depend on traced values.

    from adjoint.scipy import optimize
    ad.grad(lambda c: optimize.brentq(lambda x: x**3 - c, 0.0, 4.0))(8.0)

SciPy finds the root of the function of plain numbers. Its derivatives are those of three Newton steps from there, each of which
doubles the order of the error: they are right up to order 7. A compiled program calls SciPy again for other numbers (`host.py`).
Minima and fits are roots of a gradient; a variable at a bound stays there (`minima.py`). Minima under constraints, and searches
for global minima, are SciPy's and take plain numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize as _scipy

from .. import numpy as anp
from ..api.forward import jvp
from ..api.jacobian import jacfwd
from . import host
from .numbers import Noted, number, plain, with_value

_WHAT = "the root by"
_STEPS = 3


def by_number(f: Callable[[Any], Any], root: Any) -> Any:
    """A root with its derivatives: of a number, or of each number by itself."""
    x = root
    for _ in range(_STEPS):
        y, slope = jvp(f, (x,), (anp.ones_like(x),))
        x = x - y / slope
    return with_value(x, root)


def by_system(f: Callable[[Any], Any], root: Any) -> Any:
    """A root of a system of equations with its derivatives."""
    shape, x = anp.shape(root), anp.ravel(root)

    def flat(t: Any) -> Any:
        return anp.ravel(anp.asarray(f(t.reshape(shape))))

    for _ in range(_STEPS):
        x = x - anp.linalg.solve(jacfwd(flat)(x), flat(x))
    return with_value(x.reshape(shape), root)


def solved(name: str, f: Any, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What SciPy finds for plain numbers, whether f computes with traced values, and f with its arguments."""
    args = options.pop("args", ())
    if not isinstance(args, tuple):
        args = tuple(args) if name in ("newton", "fixed_point") else (args,)  # which take any sequence
    rules = {key: options.pop(key) for key in ("fprime", "fprime2", "jac", "hess") if callable(options.get(key))}
    functions = {"f": f, **rules}
    given = tuple(map(plain, given))
    has_rule = options.get("jac") is True or options.get("fprime") is True  # the function returns its derivative too

    def close(functions: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """The functions with their arguments, and the one whose root is sought."""
        closed = {key: lambda x, rule=rule: rule(x, *args) for key, rule in functions.items()}
        return closed, (lambda x: closed["f"](x)[0]) if has_rule else closed["f"]

    def solve(of: dict[str, Any], where: Any) -> Any:
        rest = {key: rule for key, rule in of.items() if key != "f"}
        return getattr(_scipy, name)(of["f"], *where[0], **where[1], **rest)

    shape = _argument(name, given)
    closed, value = close(functions)
    ways = host.ways(functions) if host.is_deferred() else iter(())
    while shape is not None and (staged := next(ways, None)) is not None:
        closed_too, value_too = close(staged)
        found = host.called(lambda of, where: _of_any_call(solve(of, where)), closed_too, shape, (given, options))
        if found is not None:
            return found, True, value_too
    noted = {key: Noted(rule, _WHAT) for key, rule in closed.items()}
    result = solve(noted, ([number(x, _WHAT) for x in given], {key: number(x, _WHAT) for key, x in options.items()}))
    return result, noted["f"].traced, value


def _of_any_call(result: Any) -> Any:
    """A result without what is said of one call alone: why it ended, and operators that stand for matrices."""
    if isinstance(result, _scipy.OptimizeResult):
        for key, value in list(result.items()):
            if key == "message" or not isinstance(value, (bool, int, float, str, np.generic, np.ndarray, list, tuple)):
                del result[key]
    return result


def _argument(name: str, given: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The shape of the argument with which SciPy calls the function; None if its numbers are not float64."""
    if name in ("fsolve", "root", "minimize", "least_squares"):
        return (anp.size(given[0]),)
    if name not in ("newton", "fixed_point"):
        return ()  # one number
    start = anp.asarray(given[0])
    return start.shape if start.dtype.kind in "iu" or start.dtype == float else None


def _bracketed(name: str) -> Callable[..., Any]:
    def call(f: Any, a: Any, b: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
        options |= {"args": args, **dict(zip(_BRACKETED[name], rest, strict=False))}
        result, is_traced, of = solved(name, f, (a, b), options)
        if not is_traced:
            return result
        return (by_number(of, result[0]), *result[1:]) if isinstance(result, tuple) else by_number(of, result)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.optimize.{name}`, of a function that computes with traced values."
    return call


_BRACKETED = {
    **dict.fromkeys(("bisect", "ridder", "brentq", "brenth"), ("xtol", "rtol", "maxiter", "full_output", "disp")),
    "toms748": ("k", "xtol", "rtol", "maxiter", "full_output", "disp"),
}
bisect, ridder, brentq, brenth, toms748 = map(_bracketed, _BRACKETED)


def newton(
    func: Any,
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    **options: Any,
) -> Any:
    """`scipy.optimize.newton`, of a function that computes with traced values."""
    options |= {"fprime": fprime, "args": args, "tol": tol, "maxiter": maxiter, "fprime2": fprime2}
    result, is_traced, of = solved("newton", func, (x0,), options)
    if not is_traced:
        return result
    return (by_number(of, result[0]), *result[1:]) if isinstance(result, tuple) else by_number(of, result)


def root_scalar(f: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
    """`scipy.optimize.root_scalar`, of a function that computes with traced values."""
    names = ("method", "bracket", "fprime", "fprime2", "x0", "x1", "xtol", "rtol", "maxiter", "options")
    result, is_traced, of = solved("root_scalar", f, (), {**dict(zip(names, rest, strict=False)), **options, "args": args})
    if is_traced:
        result.root = by_number(of, result.root)
    return result


def fixed_point(func: Any, x0: Any, args: Any = (), xtol: float = 1e-8, maxiter: int = 500, method: str = "del2") -> Any:
    """`scipy.optimize.fixed_point`, of a function that computes with traced values, number by number."""
    result, is_traced, of = solved("fixed_point", func, (x0,), {"args": args, "xtol": xtol, "maxiter": maxiter, "method": method})
    return by_number(lambda x: of(x) - x, result) if is_traced else result


def fsolve(func: Any, x0: Any, args: Any = (), fprime: Any = None, full_output: Any = 0, *rest: Any, **options: Any) -> Any:
    """`scipy.optimize.fsolve`, of a function that computes with traced values."""
    names = ("col_deriv", "xtol", "maxfev", "band", "epsfcn", "factor", "diag")
    options |= {"args": args, "fprime": fprime, "full_output": full_output, **dict(zip(names, rest, strict=False))}
    result, is_traced, of = solved("fsolve", func, (x0,), options)
    if not is_traced:
        return result
    return (by_system(of, result[0]), *result[1:]) if full_output else by_system(of, result)


def root(fun: Any, x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """`scipy.optimize.root`, of a function that computes with traced values."""
    result, is_traced, of = solved("root", fun, (x0,), {**options, "args": args, "method": method})
    if is_traced:
        result.x = by_system(of, result.x)
    return result


def __getattr__(name: str) -> Any:
    if name in _MINIMA:
        globals()[name] = found = getattr(importlib.import_module(f"{__package__}.minima"), name)
        return found
    return getattr(_scipy, name)


_MINIMA = frozenset(["minimize", "minimize_scalar", "least_squares", "leastsq", "curve_fit"])


def __dir__() -> list[str]:
    return dir(_scipy)
