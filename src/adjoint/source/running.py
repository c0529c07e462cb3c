"""What rewritten code calls: loops and branches that are staged where that is possible, and run where it is not.

    __adjoint__.for_(3, iterable, body)         a scan or while_loop of the current program; or `for item in iterable: body(item)`

A loop over values of this call alone, or of a few iterations, runs: its iterations are staged one by one. So does a loop whose
body cannot be staged; `notes.py` has the reason. Inside the body of another loop there are no numbers to run it with, so the
loop around it runs as well.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..core.bind import Traced
from ..core.code import describe
from ..core.errors import UnsupportedError, user_line
from ..core.home import RUNTIME, is_own
from ..core.quick import unquick
from ..core.types import shape_of
from ..ops.broadcast import where
from ..ops.elementwise import greater, less, logical_not
from ..staging.body import Body
from ..staging.guard import Guarded
from ..staging.reach import is_users
from ..staging.stage import Stage
from . import items, notes, rewrite
from .body import WholeFunction
from .branch import stage_branch
from .rewrite import NoSourceError, Site
from .scope import ALL, Scope, is_adopted
from .staged import innermost, is_staged, keep_python, require, stage_for, stage_while, truth
from .state import ChangeError, common_class, is_number
from .variables import Cells, NotStagedError, contents, with_article

FEW = 8  # iterations; a shorter loop is unrolled,
#: unless the program is one for people to read (`export.python`), who have loops of these.
fewest: ContextVar[int] = ContextVar("adjoint_fewest", default=FEW)
_MOST_PEELED = 2  # iterations that run before a loop, until the shapes of its variables no longer change

#: The branches that are being staged, to detect recursion: both sides of an `if` are staged, so that it would not end.
_branches: ContextVar[tuple[int, ...]] = ContextVar("adjoint_source_branches", default=())


def _why(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return text if isinstance(error, NotStagedError) else f"{type(error).__name__}: {text}"


@contextmanager
def _tried() -> Iterator[None]:
    """Undo the guards of an attempt to stage that fails, and the equations that a graph would keep."""
    stage = innermost()
    undo = stage.undoing() if isinstance(stage, WholeFunction) else None
    guarded = stage if isinstance(stage, Guarded) else None
    kept = (dict(guarded.guards), list(guarded.conditions), guarded.arithmetic, set(guarded.checked)) if guarded else None
    lists = list(getattr(stage, "conditions", ()))
    noted = notes.saved()
    try:
        yield
    except Exception:
        notes.restore(noted)
        if guarded is not None and kept is not None:
            guarded.guards, guarded.conditions, guarded.arithmetic, guarded.checked = kept
        elif undo is not None:
            undo()
        elif stage is not None and hasattr(stage, "conditions"):
            stage.conditions = lists
        raise


@contextmanager
def _explained(site: Site, why: str) -> Iterator[None]:
    """Add to an error of staging why the loop that it comes from is not a loop of the graph."""
    try:
        yield
    except UnsupportedError as error:
        if why:
            error.add_note(f"the {site.kind} at {site.line} runs in Python: {why}")
        raise


class Runtime:
    """The free variable of a rewritten function."""

    def __init__(self, sites: list[Site], scope: Scope = ALL, only_calls: bool = False) -> None:
        self.sites, self.scope, self.only_calls = sites, scope, only_calls

    # -- loops --

    def left(self, number: int) -> None:
        """A loop that was not rewritten is about to run."""
        site = self.sites[number]
        notes.note(site, f"runs in Python: {site.why_not}")

    def looped(self, function: Any) -> Any:
        return items.looped(function) or self.call(function)

    def for_(self, number: int, iterable: Any, body: Callable[[Any], None]) -> None:
        site = self.sites[number]
        found = items.items_of(iterable) if innermost() is not None else None
        if found is None:
            notes.note(site, f"runs in Python: it runs over {_described(iterable)}")
            return self._run_for(site, iter(iterable), body)
        if not isinstance(found.count, Traced) and found.count < fewest.get():
            if found.count:
                notes.note(site, f"is unrolled: it has {found.count} iterations, fewer than {fewest.get()}")
            return self._run_for(site, iter(iterable), body)
        rest = None  # of the items, once some have run
        why = notes.hopeless(site)
        for peeled in range(0 if why else _MOST_PEELED + 1):
            try:
                with _tried():
                    became = stage_for(site, Cells(body), found, body)
                notes.note(site, became + (f", after {peeled} that run" if peeled else ""))
                return None
            except ChangeError as error:
                why = _why(error)
                if isinstance(found.count, Traced) or site.stop or peeled == _MOST_PEELED:
                    break
            except Exception as error:
                why = _why(error)
                break
            rest = rest or iter(iterable)
            body(next(rest))
            found = _later(found)
        notes.failed(site, why)
        notes.note(site, f"runs in Python: {why}")
        with _explained(site, why):
            return self._run_for(site, rest or iter(iterable), body)

    def _run_for(self, site: Site, iterator: Iterator[Any], body: Callable[[Any], None]) -> None:
        stop = _flag(body, site)
        for item in iterator:
            body(item)
            if stop():
                break

    def while_(self, number: int, test: Callable[[], Any], body: Callable[[], None]) -> None:
        site = self.sites[number]
        why = "nothing is staged" if innermost() is None else notes.hopeless(site)
        if not why:
            try:
                with _tried():
                    notes.note(site, stage_while(site, Cells(body, test), test, body))
                return
            except Exception as error:
                why = _why(error)
                notes.failed(site, why)
        notes.note(site, f"runs in Python: {why}")
        stop = _flag(body, site)
        with _explained(site, why):
            while test():
                body()
                if stop():
                    break

    # -- branches --

    def is_staged(self, x: Any, site: Site | None = None) -> bool:
        """Whether a branch on x, at a site or at the line that runs, is to be staged: always in the body of a loop."""
        if not is_staged(x):
            return False
        if self.scope.is_all or isinstance(innermost(), Body):
            return True
        lines = site.lines if site is not None else {user_line()} if self.scope.varying else frozenset()
        return not self.scope.varying.isdisjoint(lines)

    def if_(self, number: int, test: Any, true: Callable[[], None], false: Callable[[], None]) -> None:
        self.choose(number, test, true, false)

    def tested(self, number: int, test: Any) -> Any:
        site = self.sites[number]
        if self.is_staged(test, site):
            notes.note(site, f"is a guard: {site.why_not}")
        return test

    def choose(self, number: int, test: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
        site = self.sites[number]
        if not self.is_staged(test, site):
            return true() if test else false()
        why = notes.hopeless(site)
        if not why:
            try:
                with _tried():
                    result = self._branch(site, test, true, false)
                notes.note(site, "became a cond")
                return result
            except Exception as error:
                why = _why(error)
                notes.failed(site, why)
        if isinstance(innermost(), Body):  # no number to decide with
            raise NotStagedError(why if site.line in why else f"the if at {site.line} cannot be a cond: {why}")
        notes.note(site, f"is a guard: {why}")
        return true() if test else false()

    def _branch(self, site: Site, test: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
        if id(site) in _branches.get():
            raise NotStagedError("it is reached again from one of its branches, by recursion")
        token = _branches.set((*_branches.get(), id(site)))
        try:
            return stage_branch(site, Cells(true, false), truth(test), true, false)
        finally:
            _branches.reset(token)

    def and_(self, number: int, *parts: Callable[[], Any]) -> Any:
        return self._either(self.sites[number], parts, False)

    def or_(self, number: int, *parts: Callable[[], Any]) -> Any:
        return self._either(self.sites[number], parts, True)

    def _either(self, site: Site, parts: tuple[Callable[[], Any], ...], ends: bool) -> Any:
        """`a and b`, `a or b`: the first operand whose truth is `ends`, or the last."""
        first, *rest = parts
        value = first()
        if not rest:
            return value
        if not self.is_staged(value, site):
            return value if bool(value) is ends else self._either(site, tuple(rest), ends)

        def further() -> Any:
            return self._either(site, tuple(rest), ends)

        try:
            with _tried():
                ways = (lambda: value, further) if ends else (further, lambda: value)
                return self._branch(Site("if", ""), value, *ways)
        except Exception:
            return value if bool(value) is ends else further()

    def not_(self, number: int, value: Any) -> Any:
        return logical_not(truth(value)) if self.is_staged(value, self.sites[number]) else not value

    def holds(self, test: Any) -> Any:
        """The condition of an `assert`: the program is for calls where it holds; others run eagerly, and raise."""
        return True if self.is_staged(test) and require(truth(test)) else test

    def fails(self, test: Any) -> Any:
        """The condition of an `if` that raises."""
        return False if self.is_staged(test) and require(logical_not(truth(test))) else test

    # -- names --

    def named(self, name: str, value: Any) -> Any:
        """A value that the source assigns to a variable: a graph shows its name."""
        x = value
        while isinstance(x, Traced):
            if isinstance(x.by, Stage):
                x.by.name_result(x, name)
                break
            x = x.underlying
        return value

    # -- calls --

    def call(self, f: Any) -> Any:
        """What is called in place of f: user code is rewritten too."""
        if self.only_calls:
            return transformed(f, self.scope)
        if (f is print or f is warnings.warn) and isinstance(innermost(), Body):
            raise NotStagedError("it prints" if f is print else "it warns")
        if f is max or f is min:
            return functools.partial(_extreme, f, self.is_staged)
        return transformed(f, self.scope)


def _extreme(f: Callable[..., Any], is_staged: Callable[[Any], bool], *args: Any, **options: Any) -> Any:
    """`max` and `min` of numbers, without asking which is larger."""
    numbers = args if len(args) > 1 else tuple(args[0]) if args and isinstance(args[0], (list, tuple)) else ()
    if (
        options
        or len(numbers) < 2
        or not any(map(is_staged, numbers))
        or not all(is_number(x) and shape_of(x) == () for x in numbers)
    ):
        return f(*args, **options)
    result = numbers[0]
    for x in numbers[1:]:
        cls = common_class([x, result])
        result = where((greater if f is max else less)(x, result), x, result)
        keep_python(result, cls)
    return result


def _flag(body: Callable[..., Any], site: Site) -> Callable[[], Any]:
    if not site.stop:
        return lambda: False
    cell = Cells(body).by_name[site.stop]
    return lambda: contents(cell)


def _later(found: items.Items) -> items.Items:
    """The items from the second on."""
    return items.Items(found.count - 1, [row[1:] for row in found.rows], lambda k, rows: found.item(k + 1, rows))


def _described(x: Any) -> str:
    return "a number" if isinstance(x, Traced) else with_article(type(x).__name__)


def transformed(f: Any, scope: Scope = ALL) -> Any:
    """A function with its loops and branches staged, and those of the functions that it calls; anything else unchanged."""
    f = unquick(f)
    if isinstance(f, types.FunctionType):
        return _function(f, scope)
    if isinstance(f, types.MethodType):
        made = transformed(f.__func__, scope)
        return f if made is f.__func__ else types.MethodType(made, f.__self__)
    if isinstance(f, functools.partial):
        return functools.partial(transformed(f.func, scope), *f.args, **f.keywords)
    if isinstance(f, type):
        return f
    cls = type(f)
    if is_own(cls.__module__):
        return _rewrapped(f, scope)
    method = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    if isinstance(method, types.FunctionType) and is_users(method):
        return types.MethodType(_function(method, scope), f)
    return f


def _function(f: types.FunctionType, scope: Scope) -> Any:
    if not is_users(f):
        return _around_functions(f, scope) if is_own(f.__module__ or "") else f
    if RUNTIME in f.__code__.co_freevars:  # rewritten already, or defined in rewritten code
        return f
    only_calls = not scope.is_all and not (
        is_adopted(f) and (isinstance(innermost(), Body) or rewrite.has_loop(f.__code__) or scope.is_in(f.__code__))
    )
    try:
        found = rewrite.rewritten(f, only_calls)
    except NoSourceError as error:
        code = f.__code__
        notes.note_function(
            f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}", f"{f.__name__} is left as it is: {error}"
        )
        return f
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    cells[RUNTIME] = types.CellType(Runtime(found.sites, scope, only_calls))
    closure = tuple([cells[name] for name in found.code.co_freevars])
    made = types.FunctionType(found.code, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__ = f.__kwdefaults__
    describe(made, f)
    made.__dict__.update(f.__dict__)
    return made


def _around_functions(f: types.FunctionType, scope: Scope) -> Any:
    """A function of ours that holds functions of the user's in its closure, such as a derivative of one."""
    held = [contents(cell) for cell in f.__closure__ or ()]
    new = [transformed(x, scope) if _is_function(x) else x for x in held]
    if all(a is b for a, b in zip(held, new, strict=True)):
        return f
    closure = tuple([cell if a is b else types.CellType(b) for cell, a, b in zip(f.__closure__ or (), held, new, strict=True)])
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def _rewrapped(value: Any, scope: Scope) -> Any:
    """One of our own objects that holds functions, such as grad(f), around the rewritten ones."""
    inner = getattr(type(value), "staged_as", None)
    if inner is not None:
        return transformed(getattr(value, inner), scope)
    held = getattr(value, "__dict__", None)
    if not callable(value) or not isinstance(held, dict) or hasattr(value, "functions_inside"):
        return value
    new = {key: transformed(x, scope) if _is_function(x) and key != "__wrapped__" else x for key, x in held.items()}
    if all(new[key] is held[key] for key in held):
        return value
    made = object.__new__(type(value))
    made.__dict__.update(new)
    return made


def _is_function(x: Any) -> bool:
    return callable(x) and not isinstance(x, type)


__all__ = ["FEW", "Runtime", "fewest", "transformed"]
