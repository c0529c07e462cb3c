"""How each library runs a workload: its namespace, its derivatives, its compiler.

`prepare(name, workload, arrays)` gives a `Prepared`: `run()` computes the derivatives and waits for them, `function()` the value
alone where that is of interest, and `arrays(result)` gives the result as NumPy arrays in one order for all.
Libraries are loaded when they are asked for, each in a process of its own.
"""

from __future__ import annotations

import os
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from workloads import Workload

THREADS = int(os.environ.get("ADJOINT_BENCHMARK_THREADS", "2"))


class UnsuitedError(Exception):
    """A contender does not take part in a workload, for the reason given."""


@dataclass
class Prepared:
    run: Callable[[], Any]
    arrays: Callable[[Any], list[numpy.ndarray]]
    start: float  # seconds that the library took for a first, trivial program
    function: Callable[[], Any] | None = None
    steps: Callable[[], dict[str, Any]] | None = None
    text: Callable[[], str] | None = None  # of the compiled program


class Namespace:
    """The names of a library's NumPy, and others given."""

    def __init__(self, module: Any, array: Callable[[Any], Any], **names: Any) -> None:
        self._module, self._array = module, array
        self._constants: dict[Any, Any] = {}
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def constant(self, build: Callable[[int], Any], n: int) -> Any:
        key = (build.__name__, n)
        if key not in self._constants:
            self._constants[key] = self._array(build(n))
        return self._constants[key]


def python_loop(step: Any, carry: Any, xs: Any, length: int) -> tuple[Any, None]:
    """`loop` for a library without a scan; no workload uses the stacked results."""
    for i in range(length):
        carry, _ = step(carry, None if xs is None else tuple(x[i] for x in xs))
    return carry, None


def python_while(goes_on: Any, step: Any, carry: Any) -> Any:
    while goes_on(carry):
        carry = step(carry)
    return carry


def flat(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]


def clocked(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def chosen(workload: Workload) -> Any:
    """The inputs to differentiate, as `argnums`."""
    return 0 if workload.differentiated == 1 else tuple(range(workload.differentiated))


# -- adjoint ----------------------------------------------------------------------------------------------------


def with_adjoint(workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    import scipy.special

    import adjoint as ad
    import adjoint.scipy.linalg
    import adjoint.scipy.special

    def start() -> None:
        ad.set_num_threads(THREADS)
        ad.jit(lambda x: x + 1.0)(numpy.zeros(3))

    np = types.ModuleType("names")  # as a user's module: the guards of its names are short
    np.__dict__.update(
        vars(numpy),
        erf=scipy.special.erf,
        logsumexp=adjoint.scipy.special.logsumexp,
        solve_triangular=lambda a, b: adjoint.scipy.linalg.solve_triangular(a, b, lower=True),
        constant=lambda build, n: build(n),  # part of the program; a cache outside would make the function impure
        loop=python_loop if workload.unrolled else ad.scan,
        repeat_while=ad.while_loop,
    )

    def f(*args: Any) -> Any:
        return workload.function(np, *args)

    argnums = chosen(workload)
    if workload.kind == "gradient":
        derivatives = ad.value_and_grad(f, argnums)
    elif workload.kind == "hvp":
        derivatives = lambda x, v: ad.jvp(ad.grad(f), (x,), (v,))
    elif workload.kind == "jacobians":
        derivatives = ad.vmap(ad.jacrev(f, argnums))
    elif workload.kind == "hessian":
        derivatives = ad.hessian(f)
    else:
        derivatives = f
    compiled, plain = ad.jit(derivatives, donate_argnums=(0,) if workload.kind == "donated" else ()), ad.jit(f)
    values = inputs[: len(inputs) - (workload.kind == "hvp")]

    def steps() -> dict[str, Any]:
        (paths,) = compiled.specializations.values()
        found: dict[str, int] = {}
        counted = count_steps(paths[0].lowered, found)
        return {"equations": len(paths[0].graph), "steps": counted, "foreign": found}

    return Prepared(
        lambda: compiled(*inputs),
        lambda result: [numpy.asarray(x) for x in flat(result)],
        clocked(start),
        (lambda: plain(*values)) if workload.kind == "gradient" else None,
        steps,
        lambda: next(iter(compiled.specializations.values()))[0].native.text,
    )


def count_steps(lowered: Any, foreign: dict[str, int]) -> int:
    """The number of steps of a program, including its loops; foreign calls are counted by operation."""
    total = 0
    for step in lowered.steps:
        total += 1
        if type(step).__name__ == "Foreign":
            foreign[step.op.name] = foreign.get(step.op.name, 0) + 1
    return total + sum(count_steps(body, foreign) for body in lowered.inner)


# -- jax --------------------------------------------------------------------------------------------------------


def with_jax(workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import jax.scipy.linalg
    import jax.scipy.special

    np = Namespace(
        jnp,
        jnp.asarray,
        erf=jax.scipy.special.erf,
        logsumexp=jax.scipy.special.logsumexp,
        solve_triangular=lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        repeat_while=jax.lax.while_loop,
        loop=jax.lax.scan,  # also for Python loops: XLA takes minutes to compile them
    )
    began = clocked(lambda: jax.block_until_ready(jax.jit(lambda x: x + 1.0)(jnp.zeros(3))))
    held = [jnp.asarray(x) for x in inputs]

    def f(*args: Any) -> Any:
        return workload.function(np, *args)

    argnums = chosen(workload)
    if workload.forward:
        derivatives = lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))
    elif workload.kind == "gradient":
        derivatives = jax.value_and_grad(f, argnums)
    elif workload.kind == "hvp":
        derivatives = lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))
    elif workload.kind == "jacobians":
        derivatives = jax.vmap(jax.jacrev(f, argnums))
    else:
        derivatives = jax.hessian(f)
    compiled = jax.jit(derivatives)
    return Prepared(
        lambda: jax.block_until_ready(compiled(*held)), lambda result: [numpy.asarray(x) for x in flat(result)], began
    )


# -- torch ------------------------------------------------------------------------------------------------------


def torch_namespace(torch: Any) -> Namespace:
    return Namespace(
        torch,
        torch.as_tensor,
        erf=torch.special.erf,
        logsumexp=lambda x, axis: torch.logsumexp(x, dim=axis),
        solve_triangular=lambda a, b: torch.linalg.solve_triangular(a, b[:, None], upper=False)[:, 0],
        min=lambda x, axis: torch.amin(x, dim=axis),
        pad=lambda x, width: torch.nn.functional.pad(x, (width,) * 4),
        loop=python_loop,
        repeat_while=python_while,
    )


def with_torch(workload: Workload, inputs: Sequence[numpy.ndarray], compiling: bool = False) -> Prepared:
    import torch

    if compiling and workload.loops:
        raise UnsuitedError("it would unroll the loop")
    torch.set_num_threads(THREADS)
    np = torch_namespace(torch)
    count = workload.differentiated
    held = [torch.tensor(x) for x in inputs]
    leaves = [x.requires_grad_() for x in held[:count]]

    def f(*args: Any) -> Any:
        return workload.function(np, *args)

    if compiling:
        began = clocked(lambda: torch.compile(lambda x: x + 1.0)(torch.zeros(3)))
        f(*(held[:-1] if workload.kind == "hvp" else held))  # the constants
    else:
        began = clocked(lambda: (torch.zeros(3) + 1.0).sum())
    compiled = torch.compile if compiling else lambda g: g
    if workload.kind == "gradient":
        g = compiled(f)

        def run() -> Any:
            value = g(*held)
            return value, torch.autograd.grad(value, leaves)

    elif workload.kind == "hvp":
        x, v = held

        if compiling:
            g = compiled(lambda x, v: torch.func.jvp(torch.func.grad(f), (x,), (v,)))
            still = x.detach()

            def run() -> Any:
                return g(still, v)

        else:

            def run() -> Any:
                (slope,) = torch.autograd.grad(f(x), x, create_graph=True)
                return slope, torch.autograd.grad(slope, x, v)

    elif workload.kind == "jacobians":
        if compiling:
            g = compiled(torch.func.vmap(torch.func.jacrev(f, tuple(range(count)))))
            still_all = [x.detach() for x in held]

            def run() -> Any:
                return g(*still_all)

        else:

            def run() -> Any:
                residuals = f(*held)
                rows = [torch.autograd.grad(residuals[:, i].sum(), leaves, retain_graph=i == 0) for i in range(2)]
                return [torch.stack(pair, 1) for pair in zip(*rows, strict=True)]

    else:
        g = compiled(torch.func.hessian(f))
        still_all = [x.detach() for x in held]

        def run() -> Any:
            return g(*still_all)

    return Prepared(run, lambda result: [x.detach().numpy() for x in flat(result)], began)


def with_torch_compile(workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    return with_torch(workload, inputs, compiling=True)


# -- autograd ---------------------------------------------------------------------------------------------------


def with_autograd(workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    import autograd
    import autograd.numpy as agnp
    import autograd.scipy.linalg
    import autograd.scipy.special

    np = Namespace(
        agnp,
        numpy.asarray,
        erf=autograd.scipy.special.erf,
        logsumexp=autograd.scipy.special.logsumexp,
        solve_triangular=lambda a, b: autograd.scipy.linalg.solve_triangular(a, b, lower=True),
        pad=lambda x, width: agnp.pad(x, width, "constant"),
        diagonal=lambda a: agnp.diagonal(a, 0, -1, -2),  # the axes that its derivative supports
        loop=python_loop,
        repeat_while=python_while,
    )

    def f(*args: Any) -> Any:
        return workload.function(np, *args)

    argnums = chosen(workload)
    if workload.kind == "gradient":
        derivatives = autograd.value_and_grad(f, argnums)
    elif workload.kind == "hvp":
        slope = autograd.grad(f)

        def derivatives(x: Any, v: Any) -> Any:
            back, value = autograd.make_vjp(slope, 0)(x)
            return value, back(v)

    elif workload.kind == "jacobians":

        def derivatives(*args: Any) -> Any:
            back, value = autograd.make_vjp(lambda both: f(*both), 0)(args)
            rows = []
            for i in range(2):
                seed = numpy.zeros(value.shape)
                seed[:, i] = 1.0
                rows.append(back(seed))
            return [numpy.stack(pair, 1) for pair in zip(*rows, strict=True)]

    else:
        derivatives = autograd.hessian(f)
    return Prepared(
        lambda: derivatives(*inputs),
        lambda result: [numpy.asarray(x) for x in flat(result)],
        clocked(lambda: autograd.grad(agnp.sin)(1.0)),
    )


# -- CasADi -----------------------------------------------------------------------------------------------------


def with_casadi(workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    import casadi

    if not workload.casadi:
        raise UnsuitedError("its expressions are scalar")
    np = Namespace(casadi, casadi.DM, sum=casadi.sum1)

    def symbol(i: int, x: numpy.ndarray) -> Any:
        return casadi.SX.sym(f"x{i}", *((1, 1) if x.ndim == 0 else (*x.shape, 1)[:2]))

    def build() -> Any:
        symbols = [symbol(i, x) for i, x in enumerate(inputs)]
        y = workload.function(np, *symbols)
        hessian, slope = casadi.hessian(y, symbols[0])
        results = [hessian] if workload.kind == "hessian" else [y, slope]
        return casadi.Function("f", symbols, [casadi.densify(r) for r in results])

    shapes = [inputs[0].shape * 2] if workload.kind == "hessian" else [(), inputs[0].shape]
    held = [numpy.empty(x.size) for x in inputs]
    results = [numpy.empty(shape or (1,)) for shape in shapes]
    ready: list[Any] = []

    def run() -> Any:
        if not ready:
            buffer, trigger = build().buffer()
            for i, x in enumerate(held):
                buffer.set_arg(i, memoryview(x))
            for i, x in enumerate(results):
                buffer.set_res(i, memoryview(x.reshape(-1)))
            ready.extend((trigger, buffer))
        for there, x in zip(held, inputs, strict=True):  # column-major; takes arguments and returns new arrays
            there[...] = x.ravel(order="F")
        ready[0]()
        return [x.copy() for x in results]

    return Prepared(run, lambda found: [x.reshape(s) for x, s in zip(found, shapes, strict=True)], 0.0)


CONTENDERS: dict[str, tuple[str, Callable[..., Prepared]]] = {
    "adjoint": ("adjoint", with_adjoint),
    "jax": ("jax", with_jax),
    "torch": ("torch", with_torch),
    "torch.compile": ("torch", with_torch_compile),
    "autograd": ("autograd", with_autograd),
    "casadi": ("casadi", with_casadi),
}


def prepare(name: str, workload: Workload, inputs: Sequence[numpy.ndarray]) -> Prepared:
    return CONTENDERS[name][1](workload, inputs)
