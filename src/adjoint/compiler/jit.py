"""`jit`: a function compiled to machine code, for the types of its arguments and the branches that it takes.

>>> import numpy as np
>>> @jit
... def f(x):
...     return np.sum(np.sin(x)) if x[0] > 0 else np.sum(x)
>>> f(np.array([0.0, 1.0])), f(np.array([1.0, 0.0]))
(np.float64(1.0), np.float64(0.8414709848078965))

The first call with arguments of new types stages the function as a graph, simplifies the graph and compiles it. Each number that
Python asked for on the way (the condition of an `if`) becomes a guard: a call for which the answer differs is compiled
separately.
"""

from __future__ import annotations

import functools
import os
import re
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..api.arguments import adopted, callee, check_callable, name_of
from ..api.transformed import NotCompiledError, Transformed
from ..core.bind import Traced, is_tracking, unwrap_fresh
from ..core.boundary import adjoint_error_behind, boundary, is_bug, passed_boundary
from ..core.errors import (
    ArgumentError,
    CompilerError,
    DeviceError,
    OperationError,
    UnsupportedError,
    last_line,
    user_level,
    user_line,
)
from ..core.locks import cached, lock
from ..core.strict import QUIET, raises
from ..core.strict import state as error_state
from ..core.tree import flatten, map_leaves
from ..staging.python import PythonNumberError
from ..staging.type_queries import line_of_type
from .arguments import (
    DEFAULT,
    Arguments,
    Options,
    both_ways,
    gpu_of_argument,
    listed,
    own_on_host,
    own_together,
    sent,
)
from .calls import Chain, StaticChains
from .comparison import Tries, TypeCheck
from .compose import Derivatives
from .gpu import GPUSpecialization
from .recompilation import why_again
from .specialization import Signature, Specialization, Staged, same_program
from .stage_call import Stager

Function = Callable[..., Any]
MANY = 3  # times that a function is recompiled for one reason before a warning
MOST_SPECIALIZATIONS = 16  # per signature; a function that needs more runs eagerly from then on


class CompileWarning(UserWarning):
    """A function, or some of its calls, runs without being compiled."""


def jit(
    f: Function | None = None,
    *,
    static_argnums: Any = (),
    static_argnames: Any = (),
    deterministic: bool = False,
    device: str | None = None,
    precision: str = "highest",
    donate_argnums: Any = (),
    adopt: bool = False,
    source: bool | None = None,
) -> Any:
    """Compile a function. Static arguments are part of the program: they must be hashable, and each value is compiled separately.

    With `deterministic` the results are bitwise the same for any number of threads, those of BLAS included.

    For arguments on a GPU (CuPy arrays, or those of any library with `__cuda_array_interface__` or DLPack) the program runs on
    that GPU and returns CuPy arrays. With `device="cuda"` NumPy arrays are copied to the current GPU, and results back.
    `precision="tf32"` lets products of float32 on a GPU round their factors to 10 bits.

    Arguments in `donate_argnums` are donated: results may be written over them, and their contents are undefined afterwards.

    With `adopt=True`, compile `ad.adopt(f)`: a function that uses numpy, math or other libraries as they are.

    With `source=True`, `for`, `while` and `if` in the source of f, and of the functions that it calls, become loops and branches
    of the program, where they can: see docs/control-flow.md. `report()` says what became of each. Without it, this is done for
    adopted code that f calls; with `source=False` for none.

    >>> import adjoint as ad
    >>> step = ad.jit(ad.grad(lambda x: np.sum(np.exp(-(x**2)))))
    >>> step(np.zeros(2))
    array([-0., -0.])
    >>> print(step.report())  # doctest: +ELLIPSIS
    jit of ...
      (float64[2]) specialization 1: ... equations, 1 kernel, ... ms
    """
    given = {"static_argnums": static_argnums, "static_argnames": static_argnames, "deterministic": deterministic}
    given |= {"device": device, "precision": precision, "donate_argnums": donate_argnums, "adopt": adopt}
    given["source"] = source
    if f is None:
        return functools.partial(jit, **given)
    check_callable(f, "jit")
    f = adopted(f) if adopt else f
    if device is not None and not re.fullmatch(r"cuda(:\d+)?", str(device)):
        raise ArgumentError(f"device of jit is 'cuda', 'cuda:0', … or None, not {device!r}")
    if precision not in ("highest", "tf32"):
        raise ArgumentError(f"precision of jit is 'highest' or 'tf32', not {precision!r}")
    numbers = listed(static_argnums, int, "static_argnums")
    names = listed(static_argnames, str, "static_argnames")
    donated = listed(donate_argnums, int, "donate_argnums")
    static = both_ways(f, numbers, names)
    if any(i < 0 for i in donated) or not set(donated).isdisjoint(static[0]):
        raise ArgumentError(f"donate_argnums={donate_argnums!r} of jit names positions from 0 on, and no static argument")
    return (Deterministic if deterministic else Jitted)(
        f, *static, Options(device, precision, donated, None if source is None else bool(source))
    )


class Uncompiled(NamedTuple):
    """The result of a call for which there is no program."""

    result: Any


class Jitted:
    """A compiled function: call it like the one it was made from."""

    staged_as = "f"  # inside another staged function, it is inlined

    def __init__(
        self, f: Function, static_argnums: tuple[int, ...], static_argnames: tuple[str, ...], options: Options = DEFAULT
    ) -> None:
        self.f = f
        self.static_argnums, self.static_argnames, self.options = static_argnums, static_argnames, options
        self.arguments = Arguments(f, static_argnums, static_argnames, options)
        self.specializations: dict[Signature, list[Specialization]] = {}
        self.eager: dict[Signature, str] = {}  # signatures that are not compiled, and why
        self._tried: dict[Signature, Tries] = {}  # signatures that are not compiled again, but whose programs are tried
        self.reasons: dict[str, int] = {}  # why it was compiled again, and how often
        self._stager = Stager(self.arguments)
        self._lock = lock()
        self._calls = Chain((), self._find)  # without keywords
        self._named: dict[tuple[str, ...], Chain] = {}  # by keywords, as they are given
        self._static: StaticChains | None = None  # of all calls, if there are static arguments
        if static_argnums or static_argnames:
            self._calls.entry = self._static = StaticChains(static_argnums, static_argnames, self._find)
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if error_state() is not QUIET[0] and raises():
            return self._eagerly(args, kwargs)  # a program raises nothing
        try:
            if not kwargs:
                return self._calls.entry(*args)  # native, for calls like earlier ones
            chain = self._named.get(tuple(kwargs))
            if chain is None:
                return (self._static or self._find)(*args, **kwargs)
            return chain.entry(*args, *[kwargs[name] for name in chain.names])
        except (OperationError, IndexError, np.linalg.LinAlgError) as error:
            if passed_boundary(error):
                raise
            return self._find(*args, **kwargs)  # an operation failed; the function may handle that

    @boundary
    def _find(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no native entry accepted: its arguments have to be flattened in Python, or have new types."""
        if is_tracking() and any(isinstance(unwrap_fresh(x), Traced) for x in flatten((args, kwargs))[0]):
            return self._inside(args, kwargs)
        leaves, signature = self.arguments.open(args, kwargs, self._stager.by_order)
        if signature is None or signature in self.eager:
            programs = None if signature is None else self._tried.get(signature)
            if programs is None or signature is None:
                return self._eagerly(args, kwargs)
            return self._compared(args, kwargs, signature, programs)
        tried: list[Specialization] = []
        by_order = self._stager.by_order
        compiled: Specialization | Uncompiled | None = None
        while compiled is None:
            for specialization in [p for p in self.specializations.get(signature, ()) if p not in tried]:
                tried.append(specialization)
                result = self._attempt(specialization, leaves, args, kwargs)
                if result is not specialization.missed:
                    self._remember(specialization, signature, args, kwargs)
                    return result
            with self._lock:
                if all(p in tried for p in self.specializations.get(signature, ())):  # no other thread made one meanwhile
                    if signature in self.eager:
                        break
                    compiled = self._compile(args, kwargs, leaves, signature)
        if compiled is None:
            return self._eagerly(args, kwargs)
        if isinstance(compiled, Uncompiled):
            return compiled.result
        if self._stager.by_order and not by_order:
            return self._find(*args, **kwargs)  # the arrays may be in another memory order than the program expects
        result = self._attempt(compiled, leaves, args, kwargs)
        # By rounding, a value at a threshold may be on its other side in machine code.
        return self._eagerly(args, kwargs) if result is compiled.missed else result

    def _attempt(self, specialization: Specialization, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """The result of a program; if an operation fails, that of the function, which may catch the error or raise its own."""
        found, changed = specialization.outside()
        if changed is not None:
            self._stager.varying.add(changed)
            return specialization.missed
        if self.arguments.compares_identity or specialization.apart:
            given = self.arguments.given(args, kwargs)[0]
            if self.arguments.compares_identity and specialization.identical(given) != specialization.same_arrays:
                return specialization.missed
            if (pair := specialization.sharing(given)) is not None:
                self._refuse_outside(specialization, pair, len(given))
                return self._eagerly(args, kwargs)
        try:
            return specialization.run([*leaves, *found])
        except (OperationError, IndexError, np.linalg.LinAlgError):
            return self._eagerly(args, kwargs)

    def _refuse_outside(self, specialization: Specialization, pair: tuple[int, int], count: int) -> None:
        """Raise if a function writes to an argument and reads the same memory outside: a call must leave the argument alone."""
        outside = [i - count for i in pair if i >= count]
        if outside:
            name = specialization.places[specialization.captured[outside[0]]].name
            raise ArgumentError(
                f"{name_of(self.f)} writes to an argument that shares memory with {name}, which it reads outside; pass a copy"
            )

    def _eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the function itself. Like a program, it must not change its arguments, so it gets copies.

        Arrays on a GPU are copied to the host, where operations fail as NumPy's do; results are copied to the GPU. Inside
        another transform, arguments are passed unchanged.
        """
        given = flatten((args, kwargs))[0]
        inside = any(isinstance(unwrap_fresh(x), Traced) for x in given)
        gpus = [] if inside else [gpu for gpu in map(gpu_of_argument, given) if gpu is not None]
        leaves = self.arguments.given(args, kwargs)[0]
        copies = own_together(leaves) if inside or not gpus else [own_on_host(x) for x in leaves]
        positional, named = self.arguments.replaced(args, kwargs, copies)
        result = (callee(self.f) if inside else self.f)(*positional, **named)
        return map_leaves(functools.partial(sent, gpus[0]), result) if gpus else result

    def _inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with values of other transforms: runs compiled derivatives, or the function itself."""
        if self.eager or self.options.device is not None:
            return self._eagerly(args, kwargs)
        try:
            return self._derivatives.result(args, kwargs)
        except NotCompiledError as error:
            give_up = error.give_up
        result = self._eagerly(args, kwargs)  # first: if the function fails too, its own error is raised
        if give_up is not None:
            give_up()
        return result

    @cached
    def _derivatives(self) -> Derivatives:
        return Derivatives(self)

    def compiled_transform(self, made: Transformed) -> Jitted | None:
        """The program of a transform of this function, whose arguments are plain: grad(jit(f)) is jit(grad(f)).

        None if the transform is computed from the programs of this function instead.
        """
        return None if self.eager or self.options.device is not None else self._derivatives.whole(made)

    def compiled_linear_map(self, made: Transformed, args: tuple[Any, ...]) -> Any:
        """The result of `vjp` or `linearize` of this function, by two programs; None if it is not compiled."""
        if self.eager or self.options.device is not None or self._line_of_type is not None:
            return None
        return self._derivatives.linear_map(made, args)

    def whole(self, f: Function) -> Jitted:
        """A transform of this function, compiled in the same way. If it calls `type`, the transform also runs eagerly once."""
        cls = Whole if self._line_of_type is None else Jitted
        return cls(f, self.static_argnums, self.static_argnames, self.options._replace(donated=()))

    def derived(self, f: Function) -> Jitted:
        """A derivative of this function, compiled in the same way."""
        return Derived(f, (), (), self.options._replace(donated=()))

    @cached
    def _line_of_type(self) -> str | None:
        return line_of_type(self.f)

    # -- compiling --

    def _specialize(self, staged: Staged, signature: Signature, began: float) -> Specialization:
        if signature.target is None:
            return Specialization(staged, signature, began)
        from .cuda import gpu  # heavy: loads LLVM, and CuPy

        return GPUSpecialization(staged, signature, began, gpu.numbered(signature.target.gpu), self.options.precision)

    def _compile(self, args: Any, kwargs: Any, leaves: list[Any], signature: Signature) -> Specialization | Uncompiled:
        """A specialization for this call; if it cannot be compiled, or there are too many, the call runs eagerly."""
        began = time.perf_counter()
        known = self.specializations.setdefault(signature, [])
        if len(known) >= MOST_SPECIALIZATIONS:
            lines = sorted({g.line for specialization in known for g in specialization.guards})
            self._give_up(
                signature,
                f"its calls take more than {MOST_SPECIALIZATIONS} paths through the code at {', '.join(lines)}",
            )
            self._tried[signature] = tried = Tries(known, leaves)
            return Uncompiled(self._compared(args, kwargs, signature, tried))
        try:
            staged = self._stage(args, kwargs, leaves, signature)
            if known and self._stager.varies(staged, known):
                staged = self._stage(args, kwargs, leaves, signature)
            if staged.failed or any(same_program(staged, specialization) for specialization in known):
                # The function has caught an error; or, by rounding, a value is on the other side of a threshold in machine code.
                return Uncompiled(self._eagerly(args, kwargs))
        except PythonNumberError:
            return Uncompiled(self._eagerly(args, kwargs))
        except (DeviceError, NotCompiledError):
            raise
        except Exception as error:  # of the function, which sees traced values; or a bug
            return self._run_instead(args, kwargs, signature, error, is_bug(error))
        try:
            specialization = self._specialize(staged, signature, began)
        except (DeviceError, MemoryError):
            raise
        except Exception as error:
            return self._run_instead(args, kwargs, signature, error, not isinstance(error, (UnsupportedError, ImportError)))
        if self.arguments.compares_identity:
            specialization.same_arrays = specialization.identical(self.arguments.given(args, kwargs)[0])
        if self._line_of_type is not None:
            check = TypeCheck(self._line_of_type, self.arguments, self._eagerly, self._attempt, self._stager.by_order)
            other = check.difference(specialization, leaves, args, kwargs)
            if other is not None:
                if other.why is not None:
                    self._give_up(signature, other.why)
                return Uncompiled(other.result)
        self._count(signature, specialization)
        known.insert(0, specialization)
        self._chain(args, kwargs).add(lambda other: specialization.function(signature, name_of(self.f), other))
        return specialization

    def _compared(self, args: Any, kwargs: Any, signature: Signature, tried: Tries) -> Any:
        """The result of a call that no program took. If trying them took much longer than the function, no later call does."""
        began = time.perf_counter()
        result = self._eagerly(args, kwargs)
        if tried.is_waste(time.perf_counter() - began):
            self._chain(args, kwargs).forget()
            self._tried.pop(signature, None)
        elif tried.has_enough_calls:
            self._tried.pop(signature, None)
        return result

    def _chain(self, args: Any, kwargs: Any) -> Chain:
        """The native functions for calls like this one."""
        if self._static is not None:
            chain = self._static.chain(args, kwargs)
        elif kwargs:
            given = tuple(kwargs)
            chain = self._named.setdefault(given, Chain(tuple(sorted(given)), self._find, given))  # as dicts are flattened
        else:
            chain = self._calls
        chain.copies = not (self._stager.by_order or self._stager.writes)
        return chain

    def _remember(self, specialization: Specialization, signature: Signature, args: Any, kwargs: Any) -> None:
        """Let later calls like this one, which went through Python, find their function by the types of their arguments."""
        chain = self._chain(args, kwargs)
        free = args if self._static is None else self._static.free(args)
        make = functools.partial(specialization.function, signature, name_of(self.f), None)
        chain.remember([*free, *(kwargs[name] for name in chain.names)], specialization, make, specialization.missed)

    def _run_instead(self, args: Any, kwargs: Any, signature: Signature, error: Exception, bug: bool) -> Uncompiled:
        """The result of a call that cannot be compiled. If the function fails too, its own error is raised."""
        result = self._eagerly(args, kwargs)
        self._not_compiled(signature, error, bug)
        return Uncompiled(result)

    def _not_compiled(self, signature: Signature, error: Exception, bug: bool) -> None:
        """Run eagerly from now on, and warn. A bug in adjoint is raised instead, unless the user asked for eager runs."""
        if bug and os.environ.get("ADJOINT_COMPILER_ERRORS") != "eager":
            raise CompilerError(
                f"the compiler failed on {name_of(self.f)}: {type(error).__name__}: {error}. This is a bug in adjoint, please "
                "report it; meanwhile call the function without jit, or set ADJOINT_COMPILER_ERRORS=eager"
            ) from error
        ours = adjoint_error_behind(error)
        where = last_line(error) or user_line()
        self._give_up(signature, f"{type(error).__name__}: {error} ({where})" if ours is None else str(ours))

    def _count(self, signature: Signature, specialization: Specialization) -> None:
        """Warn, once, when a function is recompiled repeatedly for the same reason."""
        reason = why_again(self.f, self.specializations, signature, specialization)
        if reason is None:
            return
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if self.reasons[reason] == MANY:
            warnings.warn(
                f"{name_of(self.f)} was compiled again for the third time because {reason}; report() lists the specializations "
                f"(called at {user_line()})",
                CompileWarning,
                stacklevel=user_level(),
            )

    def _give_up(self, signature: Signature, why: str) -> None:
        self.eager[signature] = why
        warnings.warn(
            f"{name_of(self.f)} is not compiled for ({signature}), and runs eagerly: {why}",
            CompileWarning,
            stacklevel=user_level(),
        )

    def _stage(self, args: Any, kwargs: Any, leaves: list[Any], signature: Signature) -> Staged:
        try:
            return self._stager.stage(args, kwargs, leaves, signature)
        finally:
            if self._stager.by_order or self._stager.writes:
                for chain in (self._calls, *self._named.values(), *(self._static.chains.values() if self._static else ())):
                    chain.copies = False

    def lower(self, *args: Any, **kwargs: Any) -> Specialization:
        """The program for these arguments, compiled if necessary, for inspection: `.graph`, `.lowered`, `.native.text`."""
        leaves, signature = self.arguments.open(args, kwargs, self._stager.by_order)
        if signature is None:
            raise ArgumentError("lower needs arrays, not values inside another transform")
        for specialization in self.specializations.get(signature, ()):
            outside, changed = specialization.outside()
            if changed is None and specialization.flat(*leaves, *outside) is not specialization.missed:
                return specialization
        with self._lock:
            found = None if signature in self.eager else self._compile(args, kwargs, leaves, signature)
        if not isinstance(found, Specialization):
            why = self.eager.get(signature, "an operation fails for these numbers, or a value is on the edge of a guard")
            raise ArgumentError(f"{name_of(self.f)} is not compiled for ({signature}): {why}")
        return found

    def profile(self, *args: Any, **kwargs: Any) -> str:
        """How long each step of the program for these arguments takes, the longest first."""
        specialization = self.lower(*args, **kwargs)
        leaves, _ = self.arguments.open(args, kwargs, self._stager.by_order)
        return f"{name_of(self.f)}: {specialization.profile([*leaves, *specialization.outside()[0]])}"

    def report(self) -> str:
        """What was compiled, for which types and specializations, how long it took, and what calls back into NumPy."""
        lines = [f"jit of {name_of(self.f)}"]
        for signature, specializations in self.specializations.items():
            for i, specialization in enumerate(specializations):
                first, *rest = specialization.report()
                lines += [f"  ({signature}) specialization {i + 1}: {first}", *(f"    {line}" for line in rest)]
        lines += [f"  ({signature}) runs eagerly: {why}" for signature, why in self.eager.items()]
        return "\n".join(lines)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self.f)}>"

    def __reduce__(self) -> Any:
        return type(self), (self.f, self.static_argnums, self.static_argnames, self.options)


class Deterministic(Jitted):
    """A compiled function whose results do not depend on the number of threads: our loops never do, BLAS may."""

    def compiled_transform(self, made: Transformed) -> None:
        return None

    def compiled_linear_map(self, made: Transformed, args: tuple[Any, ...]) -> None:
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from . import native  # heavy: loads LLVM

        with native.one_thread_of_blas():
            return super().__call__(*args, **kwargs)


class Derived(Jitted):
    """A derivative of a compiled function. Where it is not compiled, the function runs instead of it."""

    def _eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotCompiledError

    def _run_instead(self, args: Any, kwargs: Any, signature: Signature, error: Exception, bug: bool) -> Uncompiled:
        known = bug or adjoint_error_behind(error) is not None
        raise NotCompiledError(functools.partial(self._not_compiled, signature, error, bug) if known else None) from error


class Whole(Derived):
    """A transform of a compiled function as one program. Where there is none, it is computed from those of the function."""

    def _run_instead(self, args: Any, kwargs: Any, signature: Signature, error: Exception, bug: bool) -> Uncompiled:
        self.eager[signature] = f"{type(error).__name__}: {error}"
        raise NotCompiledError(functools.partial(self._not_compiled, signature, error, bug) if bug else None) from error
