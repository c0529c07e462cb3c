"""check_grads: both modes against finite differences, to any order, with a report of the first disagreement.

The differences are taken along a random direction in each argument, then, where one disagrees, element by element. Forward mode
must give J·v. Reverse mode must give ⟨Jᵀu, v⟩ = ⟨u, J·v⟩ for a random cotangent u; both must be linear. For order 2 the same is
required of the functions (x, v) ↦ J(x)·v and (x, u) ↦ J(x)ᵀu, and so on.

Factorisations of a Hermitian matrix read one triangle, and their derivatives are those along Hermitian matrices
(`ops.matrix.hermitian_tangent`): a Hermitian argument of a function that uses them is perturbed within the Hermitian matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..api.arguments import callee, check_callable, name_of, open_arguments, output_leaf
from ..api.grad import Recording
from ..core.boundary import boundary
from ..core.errors import ArgumentError
from ..core.op import Op
from ..core.tree import flatten, leaf_names, map_leaves
from ..core.types import dtype_of
from ..ops.decompose import cholesky, eigh
from ..ops.matrix import hermitian
from .differences import check_step, own
from .probe import CheckOptions, Deeper, Probe

Function = Callable[..., Any]


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
    options = CheckOptions(name_of(f), _hermitian(first, args), chosen, rtol, atol, eps)
    rng = np.random.default_rng(0)
    pending: list[tuple[Deeper, tuple[str, ...]]] = [(Deeper(first, list(args), names, []), ())]
    while pending:
        level, trail = pending.pop(0)
        probe = Probe(level.function, level.args, level.names, options, rng, trail, level.given, level.terms)
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
        leaves = flatten(callee(f)(*xs))[0]
        return [leaves[n] for n in keep]

    return floats, [names[n] for n in keep]
