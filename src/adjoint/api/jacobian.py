"""Jacobians and Hessians: a whole basis pushed or pulled in one batched pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import ArgumentError, DtypeError, ShapeError
from ..core.types import Value, dtype_of, shape_of
from ..ops.broadcast import moveaxis, reshape
from .arguments import Results, check_callable, name_of, open_arguments, positions, regroup
from .forward import ForwardRun, run_jvp
from .grad import Recording, choice, gradient_of
from .protection import run_protected
from .transformed import Transformed
from .vmap import batch_apply

Function = Callable[..., Any]


def _basis(xs: Sequence[Value]) -> list[Value]:
    """The standard basis of all leaves together: for each leaf an array (total, *shape)."""
    sizes = [math.prod(shape_of(x)) for x in xs]
    total = sum(sizes)
    result, start = [], 0
    for x, n in zip(xs, sizes, strict=True):
        block = np.zeros((total, n), dtype_of(x))
        block[start : start + n] = np.eye(n)
        result.append(block.reshape(total, *shape_of(x)))
        start += n
    return result


def _split_axis(block: Value, xs: Sequence[Value], axis: int) -> list[Value]:
    """Cut the basis axis of a result into one part per leaf, each with that leaf's shape."""
    parts, start = [], 0
    for x in xs:
        n = math.prod(shape_of(x))
        part = block[(slice(None),) * axis + (slice(start, start + n),)]
        shape = shape_of(part)
        parts.append(reshape(part, shape=shape[:axis] + shape_of(x) + shape[axis + 1 :]))
        start += n
    return parts


def _or_zeros(t: Value | None, y: Value) -> Value:
    return np.zeros(shape_of(y), dtype_of(y)) if t is None else t


def _run_jacfwd(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool, holomorphic: bool, transform: str
) -> Any:
    indices, single = positions(argnums, len(args), transform)
    inputs, structures = open_arguments(args, indices, transform)
    _check_holomorphic(inputs, holomorphic, transform)
    chosen = [args[i] for i in indices]
    seen: dict[str, Any] = {}

    def on_chosen(*parts: Any) -> Any:
        full = list(args)
        for i, part in zip(indices, parts, strict=True):
            full[i] = part
        return run_protected(f, full, kwargs)

    on_chosen.__name__ = name_of(f)

    def push(*tangents: Value) -> Any:
        structure, ys, ts, aux = ForwardRun(on_chosen, chosen, inputs, structures, tangents, has_aux, transform).push()
        seen.update(structure=structure, ys=ys, aux=aux)
        return [_or_zeros(t, y) for t, y in zip(ts, ys, strict=True)]

    columns = batch_apply(push, _basis(inputs))
    results = Results()
    rows = []
    for column in columns:
        block = moveaxis(column, 0, len(shape_of(column)) - 1)
        parts = [results.own(part) for part in _split_axis(block, inputs, len(shape_of(block)) - 1)]
        groups = regroup(structures, parts)
        rows.append(groups[0] if single else tuple(groups))
    jacobian = seen["structure"].unflatten(rows)
    return (jacobian, seen["aux"]) if has_aux else jacobian


def _check_holomorphic(inputs: Sequence[Value], holomorphic: bool, transform: str) -> None:
    kinds = {dtype_of(x).kind for x in inputs}
    if holomorphic and kinds != {"c"}:
        raise DtypeError(f"{transform} with holomorphic=True needs complex arguments; pass x.astype(complex)")
    if not holomorphic and "c" in kinds:
        raise DtypeError(
            f"{transform} of complex arguments needs holomorphic=True; for a real function use grad, or split x into "
            "x.real and x.imag"
        )


def _run_jacrev(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool, holomorphic: bool, transform: str
) -> Any:
    recording = Recording(f, args, kwargs, argnums, has_aux, transform)
    _check_holomorphic(recording.inputs, holomorphic, transform)
    if _has_complex_result(recording, holomorphic):
        raise DtypeError(f"{transform} needs a real result, but {name_of(f)} returned a complex one; use jacfwd")
    return _jacobian_by_rows(recording, has_aux)


def _has_complex_result(recording: Recording, holomorphic: bool) -> bool:
    """Whether rows alone cannot give the Jacobian: a real argument, a complex result."""
    return not holomorphic and any(dtype_of(y).kind == "c" for y in recording.outputs)


def _jacobian_by_rows(recording: Recording, has_aux: bool) -> Any:
    outputs, inputs = recording.outputs, recording.inputs

    def pull(*cotangents: Value) -> list[Value]:
        return [_or_zeros(g, x) for g, x in zip(recording.pull(cotangents), inputs, strict=True)]

    blocks = batch_apply(pull, _basis(outputs))  # one per input leaf: (total outputs, *input shape)
    results = Results()
    by_output = list(zip(*[_split_axis(block, outputs, 0) for block in blocks], strict=True)) or [()] * len(outputs)
    rows = []
    for parts in by_output:
        groups = regroup(recording.structures, [results.own(part) for part in parts])
        rows.append(groups[0] if recording.single else tuple(groups))
    jacobian = recording.structure.unflatten(rows)
    return (jacobian, recording.aux) if has_aux else jacobian


def _run_jacobian(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool, holomorphic: bool, transform: str
) -> Any:
    indices, _ = positions(argnums, len(args), transform)
    inputs, _ = open_arguments(args, indices, transform)
    width = sum(math.prod(shape_of(x)) for x in inputs)
    if width > 1:
        recording = Recording(f, args, kwargs, argnums, has_aux, transform)
        _check_holomorphic(recording.inputs, holomorphic, transform)
        rows = sum(math.prod(shape_of(y)) for y in recording.outputs)
        if rows <= width and not _has_complex_result(recording, holomorphic):
            return _jacobian_by_rows(recording, has_aux)
    return _run_jacfwd(f, args, kwargs, argnums, has_aux, holomorphic, transform)


def _jacobian_transform(name: str, run: Function, f: Function, argnums: Any, has_aux: bool, holomorphic: bool) -> Transformed:
    check_callable(f, name)
    return Transformed(name, run, f, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)


def jacfwd(f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None) -> Transformed:
    """The Jacobian by forward mode, all columns in one pass: best for few inputs. Shape: result, then argument.

    >>> import adjoint as ad
    >>> ad.jacfwd(lambda t: np.stack([np.sin(t), t**2, 3 * t]))(0.0)
    array([1., 0., 3.])
    """
    return _jacobian_transform("jacfwd", _run_jacfwd, f, choice(argnums, argnum), has_aux, holomorphic)


def jacrev(f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None) -> Transformed:
    """The Jacobian by reverse mode, all rows in one pass: best for few outputs. Shape: result, then argument.

    >>> import adjoint as ad
    >>> ad.jacrev(lambda x: np.stack([x[0] * x[1], x[2]]))(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.],
           [0., 0., 1.]])
    """
    return _jacobian_transform("jacrev", _run_jacrev, f, choice(argnums, argnum), has_aux, holomorphic)


def jacobian(
    f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None
) -> Transformed:
    """The Jacobian by the cheaper mode: reverse unless there are more outputs than inputs.

    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jacobian_transform("jacobian", _run_jacobian, f, choice(argnums, argnum), has_aux, holomorphic)


def hessian(
    f: Function, argnums: Any = 0, *, has_aux: bool = False, holomorphic: bool = False, argnum: Any = None
) -> Transformed:
    """The matrix of second derivatives, forward over reverse, all columns in one pass.

    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 4.0]))
    array([[8., 6.],
           [6., 0.]])
    """
    chosen = choice(argnums, argnum)
    inner = gradient_of(f, chosen, "hessian", has_aux, holomorphic)
    return _jacobian_transform("hessian", _run_jacfwd, inner, chosen, has_aux, holomorphic)


def _run_hvp(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, transform: str) -> Any:
    if len(args) < 2:
        raise ArgumentError("hvp(f) takes the arguments of f and, last, the vector: hvp(f)(x, v)")
    *primals, v = args
    indices, single = positions(argnums, len(primals), transform)
    gradient = gradient_of(f, argnums, transform)

    def on_chosen(*parts: Any) -> Any:
        full = list(primals)
        for i, part in zip(indices, parts, strict=True):
            full[i] = part
        return gradient(*full, **kwargs)

    tangents = (v,) if single else tuple(v)
    if len(tangents) != len(indices):
        raise ShapeError(f"hvp needs one vector for each of the {len(indices)} arguments in argnums, got {len(tangents)}")
    return run_jvp(on_chosen, tuple(primals[i] for i in indices), tangents, False, transform)[1]


def hvp(f: Function, argnums: Any = 0) -> Transformed:
    """The Hessian times a vector, forward over reverse, without forming the Hessian: hvp(f)(x, v).

    >>> import adjoint as ad
    >>> ad.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    check_callable(f, "hvp")
    return Transformed("hvp", _run_hvp, f, argnums=argnums)
