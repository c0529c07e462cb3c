"""A compiled function inside an eager transform: `grad(jit(f))`, `vmap(jit(f))`, in any order and depth.

A transform of the function alone is one program, `jit(grad(f))`, kept beside it (`Derivatives.whole`). Inside other code, as in
`grad(lambda x: jit(f)(x) ** 2)`, its derivative is compiled: on a tape the call is one node, for which one program computes the
results and the residuals, and a second one the cotangents from the residuals; in forward mode one program computes results and
tangents; under vmap the batched function is compiled. Each of these programs is itself a compiled function, so a call with values
of several transforms peels them off one by one.

A function that cannot be compiled, or that closes over traced values of the transform, runs eagerly.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..api.arguments import NUMBERS
from ..api.bodies import write
from ..api.custom_call import CustomCall
from ..api.forward import jvp
from ..api.grad import vjp
from ..api.transformed import NotCompiledError, Transformed
from ..api.vmap import vmap
from ..core.bind import Trace, Traced, unwrap_fresh
from ..core.tree import Structure, flatten
from ..core.types import Value, dtype_of, is_inexact
from ..eager.batch import Batch
from ..eager.dual import Dual
from ..eager.tape import Tape
from ..ir.graph import Graph
from ..staging.body import NumbersNeededError

if TYPE_CHECKING:
    from .jit import Jitted

Function = Callable[..., Any]
RESULTS, RESIDUALS = "results", "residuals "


class Form(NamedTuple):
    """How a function is called with flat leaves: the structure of its arguments, and those that are static."""

    structure: Structure
    static: tuple[tuple[int | str, Any], ...]  # by position or name

    def call(self, f: Function, leaves: Sequence[Any]) -> Any:
        free, named = self.structure.unflatten(leaves)
        positional = list(free)
        for place, value in self.static:
            if isinstance(place, int):
                positional.insert(place, value)
            else:
                named[place] = value
        return f(*positional, **named)


def form_of(
    args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Sequence[int], names: Sequence[str]
) -> tuple[list[Any], Form]:
    """The leaves of the arguments that are not static, and how to call a function with such leaves."""
    static: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(numbers) if i < len(args)]
    static += [(name, kwargs[name]) for name in names if name in kwargs]
    free = tuple(a for i, a in enumerate(args) if i not in numbers)
    leaves, structure = flatten((free, {k: v for k, v in kwargs.items() if k not in names}))
    return [unwrap_fresh(x) for x in leaves], Form(structure, tuple(static))


class Derivatives:
    """The compiled derivatives of one compiled function, by kind."""

    def __init__(self, jitted: Jitted) -> None:
        self.jitted = jitted
        self.programs: dict[Any, Jitted] = {}
        self.pullbacks: dict[str, Jitted] = {}  # from residuals and cotangents (or tangents) to cotangents (or tangents)
        self.linear_maps: dict[str, Callable[[Sequence[Value]], Any]] = {}  # of `vjp` and `linearize`, from residuals
        self.numbers = itertools.count()

    def result(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call with traced arguments; NotCompiledError if there is no program for it."""
        leaves, form = form_of(args, kwargs, self.jitted.static_argnums, self.jitted.static_argnames)
        traces = [x.by for x in leaves if isinstance(x, Traced)]
        if not all(isinstance(x, NUMBERS) for x in leaves) or not all(map(_has_numbers, leaves)):
            raise NotCompiledError
        top = max(traces, key=lambda trace: trace.level)
        if top.ended:
            raise top.leaked()
        chosen = tuple(i for i, x in enumerate(leaves) if isinstance(x, Traced) and x.by is top)
        if isinstance(top, Batch):
            return self.on_batch(top, leaves, form, chosen)
        return self.on_tape_or_dual(leaves, form, chosen)

    def program(self, kind: str, run: Function, form: Form, chosen: tuple[int, ...], **more: Any) -> Jitted:
        """The compiled function `run(f, leaves)` of flat leaves."""
        key = (kind, form.structure, _told_apart(form.static), chosen, *more.values())
        if key not in self.programs:
            derived = Transformed(kind, run, self.jitted.f, form=form, chosen=chosen, **more)
            self.programs[key] = self.jitted.derived(derived)
        found = self.programs[key]
        if found.eager:
            raise NotCompiledError
        return found

    def whole(self, made: Transformed) -> Jitted | None:
        """A transform of the function, or several around each other, as one program; None if options cannot be told apart."""
        return self._kept(made.key(), lambda: self.jitted.whole(made.around(self.jitted.f)))

    def _kept(self, key: Hashable, make: Callable[[], Jitted]) -> Jitted | None:
        """The program of a key, made if there is none yet; None if the key has an option that cannot be hashed, as a list."""
        try:
            found = self.programs.get(key)
        except TypeError:
            return None
        if found is None:
            found = self.programs[key] = make()
        return found

    def linear_map(self, made: Transformed, args: tuple[Any, ...]) -> Any:
        """The result of `vjp` or `linearize`, None without a program.

        One program computes the result and the residuals, a second one is the linear map.
        """
        run = functools.partial(self.with_linear_map, made.run)
        program = self._kept(made.key(), lambda: self.jitted.derived(made.around(self.jitted.f, run)))
        if program is None:
            return None
        try:
            out, aux, by_number = program(*args)
        except NotCompiledError:
            return None
        ((number, residuals),) = by_number.items()
        return out, self.linear_maps[number](residuals), *aux

    def with_linear_map(self, run: Function, f: Function, args: Any, kwargs: Any, *, transform: str, **options: Any) -> Any:
        """Called while staging: the results, and the values that the linear map reads, under a key that identifies it."""
        out, linear, *aux = run(f, args, kwargs, transform=transform, **options)
        written = write(linear.flat, tuple(linear.seeds), transform)
        if isinstance(written, NumbersNeededError):
            raise written
        graph, residuals = written.graph()
        number = f"{RESIDUALS}{next(self.numbers)}"
        pullback = self.pullbacks[number] = self.jitted.derived(_Run(graph))
        self.linear_maps[number] = linear.compiled(functools.partial(_run_linear, pullback))
        return out, aux, {number: residuals}

    def on_batch(self, batch: Batch, leaves: Sequence[Any], form: Form, chosen: tuple[int, ...]) -> Any:
        program = self.program("vmap", _batched, form, chosen, size=batch.size)
        results, structure = flatten(program(*[leaves[i].underlying if i in chosen else x for i, x in enumerate(leaves)]))
        return structure.unflatten([Traced(batch, y, None) for y in results])

    def on_tape_or_dual(self, leaves: Sequence[Any], form: Form, chosen: tuple[int, ...]) -> Any:
        found: list[Structure] = []

        def results_of(tree: Any) -> list[Value]:
            results, structure = flatten(tree)
            found.append(structure)
            return list(results)

        def forward(values: Sequence[Value]) -> tuple[list[Value], Any]:
            made = self.program("vjp", self.with_residuals, form, chosen)(*values)
            (key,) = (key for key in made if key != RESULTS)
            return results_of(made[RESULTS]), (key, made[key])

        def pull(saved: Any, gs: Sequence[Value]) -> list[Value | None]:
            number, residuals = saved
            given = [g for g in gs if is_inexact(dtype_of(g))]
            cotangents = iter(_run_linear(self.pullbacks[number], *residuals, *given))
            return [next(cotangents) if i in chosen else None for i in range(len(leaves))]

        def push(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[list[Value], list[Value | None]]:
            program = self.program("jvp", _pushed, form, chosen)
            ys, ts = program(*primals, *[tangents[i] for i in chosen])
            out, of_inexact = results_of(ys), iter(ts)
            return out, [next(of_inexact) if is_inexact(dtype_of(y)) else None for y in out]

        name = getattr(self.jitted, "__name__", "f")
        run = lambda values: results_of(form.call(self.jitted, values))
        results = CustomCall(name, run, push, forward, pull, may_write=False)(leaves)
        return found[-1].unflatten(results)

    def with_residuals(
        self, f: Function, leaves: tuple[Any, ...], named: Any, *, transform: str, form: Form, chosen: tuple[int, ...]
    ) -> dict[str, Any]:
        """Called while staging: the results, and the values that the pullback reads, under a key that identifies the pullback."""
        found: list[Any] = []

        def of_chosen(*xs: Any) -> tuple[list[Any], list[Any]]:
            results, structure = flatten(form.call(f, _filled(leaves, chosen, xs)))
            found.append((structure, [is_inexact(dtype_of(y)) for y in results]))
            return _split(results, found[-1][1])

        ys, pullback, others = vjp(of_chosen, *[leaves[i] for i in chosen], has_aux=True)
        if not ys:
            raise NotCompiledError
        written = write(lambda *gs: pullback(list(gs)), tuple(ys), transform)
        if isinstance(written, NumbersNeededError):
            raise written
        graph, residuals = written.graph()
        number = f"{RESIDUALS}{next(self.numbers)}"
        self.pullbacks[number] = self.jitted.derived(_Run(graph))
        structure, flags = found[-1]
        return {RESULTS: structure.unflatten(_joined(ys, others, flags)), number: residuals}


class _Run:
    """A graph as a function of its flat inputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.__name__ = graph.name

    def __call__(self, *values: Any) -> list[Any]:
        return list(self.graph.run_flat(values))


def _run_linear(program: Jitted, *values: Value) -> list[Value]:
    """The results of a linear map from residuals and (co)tangents."""
    try:
        results: list[Value] = program(*values)
    except NotCompiledError:  # where errors are to be raised, for example: then its graph runs
        results = program.f(*values)
    return results


def _batched(
    f: Function, leaves: tuple[Any, ...], named: Any, *, transform: str, form: Form, chosen: tuple[int, ...], size: int
) -> Any:
    axes = tuple(0 if i in chosen else None for i in range(len(leaves)))
    return vmap(lambda *xs: form.call(f, xs), in_axes=axes)(*leaves)


def _pushed(f: Function, given: tuple[Any, ...], named: Any, *, transform: str, form: Form, chosen: tuple[int, ...]) -> Any:
    """Results, and tangents of those that are inexact."""
    count = len(given) - len(chosen)
    leaves, found = given[:count], []

    def of_chosen(*xs: Any) -> tuple[list[Any], list[Any]]:
        results, structure = flatten(form.call(f, _filled(leaves, chosen, xs)))
        found.append((structure, [is_inexact(dtype_of(y)) for y in results]))
        return _split(results, found[-1][1])

    ys, ts, others = jvp(of_chosen, tuple(leaves[i] for i in chosen), given[count:], has_aux=True)
    structure, flags = found[-1]
    return structure.unflatten(_joined(ys, others, flags)), ts


def _filled(leaves: Sequence[Any], places: Iterable[int], values: Sequence[Any]) -> list[Any]:
    full = list(leaves)
    for i, x in zip(places, values, strict=True):
        full[i] = x
    return full


def _split(values: Sequence[Any], flags: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    return list(itertools.compress(values, flags)), list(itertools.compress(values, [not flag for flag in flags]))


def _joined(some: Iterable[Any], others: Iterable[Any], flags: Iterable[bool]) -> list[Any]:
    some, others = iter(some), iter(others)
    return [next(some) if flag else next(others) for flag in flags]


def _has_numbers(x: Any) -> bool:
    """Whether there are only tapes, tangents and batches between a value and its numbers: no program is being written."""
    while isinstance(x, Traced):
        trace: Trace = x.by
        if trace.taken is not None or not isinstance(trace, (Tape, Dual, Batch)):
            return False
        x = x.underlying
    return True


def _told_apart(static: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
    return tuple((place, type(value), value) for place, value in static)
