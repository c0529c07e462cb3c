"""Loops and branches as functions: scan, map, fori_loop, while_loop, cond.

>>> import numpy as np
>>> scan(lambda c, x: (c + x, c * x), 0.0, np.array([1.0, 2.0, 3.0]))
(np.float64(6.0), array([0., 2., 9.]))

The body is staged once, as a graph, and becomes one op (`ops/control.py`), whose derivatives are loops too. A body that asks for
numbers (`if x > 0`) cannot be staged; where the numbers are known it runs as a Python loop. What it writes to its arguments does
not reach the user's arrays in either case: it gets copies (`own`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.bind import Traced, class_of, is_staged, unwrap_fresh
from ..core.boundary import boundary
from ..core.errors import ArgumentError, BatchError, DtypeError, ReadOnlyError, ShapeError
from ..core.tree import Structure, final, flatten, leaf_names, map_leaves
from ..core.types import Type, Value, dtype_of, is_weak, shape_of
from ..numpy.layout import own
from ..numpy.shape import stack
from ..ops import control as ops
from ..ops.control import Checkpoint
from ..ops.elementwise import not_equal
from ..staging.body import NumbersNeededError
from ..transform.checkpoint import scan_in_segments
from .arguments import NUMBERS, callee, name_of
from .bodies import Function, LoopCarry, StagedBody, agrees, check_width, kind_of, leaf, opened, strong, typed, write

# -- arguments -------------------------------------------------------------------------------------------------


def _bodies(transform: str, **functions: Any) -> list[Function]:
    """What runs in place of the functions."""
    for name, f in functions.items():
        if not callable(f):
            raise ArgumentError(f"{transform} expects a function for {name}, got {kind_of(f)}")
    return [callee(f) for f in functions.values()]


def _checked_policy(checkpoint: Any, transform: str) -> Checkpoint:
    if checkpoint is None or (isinstance(checkpoint, str) and checkpoint == "sqrt"):
        return checkpoint  # type: ignore[no-any-return]
    if isinstance(checkpoint, (int, np.integer)) and not isinstance(checkpoint, bool) and checkpoint >= 1:
        return int(checkpoint)
    raise ArgumentError(f'checkpoint of {transform} is None, "sqrt", or a number of segments, 1 or more; not {checkpoint!r}')


def _refuse_steps(error: NumbersNeededError, checkpoint: Checkpoint, transform: str) -> None:
    """Refuse `checkpoint=` for a Python loop, which saves everything."""
    if checkpoint is not None:
        raise ArgumentError(f"checkpoint={checkpoint!r} of {transform} needs a body that can be staged, but {error}") from error


# -- scan -------------------------------------------------------------------------------------------------------


@boundary
def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    checkpoint: Checkpoint = None,
) -> tuple[Any, Any]:
    """Run carry, y = f(carry, x) over the rows of xs, backwards if `reverse`; returns the last carry, and all ys stacked.

    Carry, x and y may be containers. The carry keeps its structure, shapes and dtypes. Without xs, f gets None, `length` times.
    `checkpoint` bounds the memory of reverse mode: the loop is cut into so many segments, or "sqrt" for the square root of
    its length, and each saves only its first carry; it is recomputed when the backward pass reaches it.

    >>> scan(lambda c, _: (2 * c, None), 1, length=10)[0]
    np.int64(1024)
    """
    (f,) = _bodies("scan", f=f)
    policy = _checked_policy(checkpoint, "scan")
    rows, row_structure, row_labels = opened(xs, "xs")
    iterations = _length(rows, row_labels, length)
    carry, structure, labels = opened(init, "init")
    return _scan(f, carry, structure, labels, rows, row_structure, iterations, bool(reverse), policy, "scan")


def _length(rows: Sequence[Value], labels: Sequence[str], length: Any) -> int:
    sizes = {}
    for x, label in zip(rows, labels, strict=True):
        if not shape_of(x):
            raise ShapeError(f"{label} of scan is a scalar; it has no rows. Close over it, or make it part of init")
        sizes[label] = shape_of(x)[0]
    if len(set(sizes.values())) > 1:
        raise ShapeError(f"the lengths of scan differ: {', '.join(f'{label} has {n} rows' for label, n in sizes.items())}")
    if length is None:
        if not sizes:
            raise ArgumentError("scan needs xs, or length= for the number of iterations")
        return next(iter(sizes.values()))
    try:
        iterations = operator.index(length)
    except TypeError:
        raise ArgumentError(f"length of scan is an integer known in advance, not {length!r}; use while_loop otherwise") from None
    if iterations < 0:
        raise ShapeError(f"length of scan is {iterations}; it must not be negative")
    for label, n in sizes.items():
        if n != iterations:
            raise ShapeError(f"{label} of scan has {n} rows, but length={iterations}")
    return iterations


def _scan(
    f: Function,
    carry: list[Value],
    structure: Structure,
    labels: Sequence[str],
    rows: list[Value],
    row_structure: Structure,
    iterations: int,
    reverse: bool,
    policy: Checkpoint,
    transform: str,
) -> tuple[Any, Any]:
    """The loop as one op, if its body can be staged; if the body asks for numbers, iteration by iteration."""
    rows = [strong(x) for x in rows]
    example = row_structure.unflatten([_Row(x) for x in rows])

    def pair(state: Any, x: Any) -> tuple[Any, Any]:
        result = f(state, x)
        if not isinstance(result, tuple) or len(result) != 2:
            what = f"a tuple of {len(result)}" if isinstance(result, tuple) else kind_of(result)
            raise ArgumentError(f"{name_of(f)} must return (carry, y) for {transform}; it returned {what}")
        return result

    carry = typed(carry, structure, _named_like(f, lambda c, x: pair(c, x)[0]), (example,), transform)
    kept = LoopCarry(structure, carry, labels, transform)
    outer: list[Structure] = []

    def iteration(state: Any, x: Any) -> list[Value]:
        after, y = pair(state, x)
        leaves, found = flatten(y)
        outer.append(found)
        return [*kept.back(f, after), *leaves]

    written = write(_named_like(f, iteration), (structure.unflatten(carry), example), transform)
    if isinstance(written, NumbersNeededError):
        _refuse_steps(written, policy, transform)
        return _scan_steps(f, iteration, kept, carry, rows, row_structure, iterations, reverse, outer, written)
    graph, captured = written.graph()
    params = {"body": graph, "length": iterations, "reverse": reverse, "carries": len(carry), "consts": len(captured)}
    if not graph.outputs:
        results: Sequence[Value] = ()
    elif policy is None or iterations == 0:
        results = ops.scan(*captured, *carry, *rows, **params)
    else:
        results = scan_in_segments(captured, carry, rows, policy, params)
    return structure.unflatten(results[: len(carry)]), outer[-1].unflatten(results[len(carry) :])


class _Row:
    """The type of a row of an array: shape and dtype."""

    def __init__(self, x: Value) -> None:
        self.shape, self.dtype = shape_of(x)[1:], dtype_of(x)


def _named_like(f: Function, g: Function) -> Function:
    """A function under the name and with the parameter names of another."""
    g.__name__ = name_of(f)
    g.__wrapped__ = f  # type: ignore[attr-defined]
    return g


def _scan_steps(
    f: Function,
    iteration: Function,
    kept: LoopCarry,
    carry: list[Value],
    rows: Sequence[Value],
    row_structure: Structure,
    iterations: int,
    reverse: bool,
    outer: list[Structure],
    error: NumbersNeededError,
) -> tuple[Any, Any]:
    """The same loop in Python, for a body that asks for numbers."""
    if not iterations:
        raise ShapeError(f"a {kept.transform} of no iterations cannot know what {name_of(f)} returns, since {error}") from error
    stacks: list[list[Value]] = []
    carry = [own(x) for x in carry]
    for i in range(iterations - 1, -1, -1) if reverse else range(iterations):
        results = iteration(kept.structure.unflatten(carry), row_structure.unflatten([own(x[i]) for x in rows]))
        carry = results[: len(carry)]
        stacks.append(results[len(carry) :])
        if outer[-1] != outer[0]:
            raise ShapeError(f"{name_of(f)} returned {outer[0]} in one iteration of {kept.transform} and {outer[-1]} in another")
    labels = leaf_names("y", outer[0])
    columns = zip(labels, *(reversed(stacks) if reverse else stacks), strict=True)
    ys = [_stacked(column, label, f, f"the iterations of {kept.transform}") for label, *column in columns]
    return kept.structure.unflatten(carry), outer[0].unflatten(ys)


def _stacked(column: list[Value], label: str, f: Function, transform: str) -> Value:
    """One result of all iterations, or examples."""
    shapes = dict.fromkeys(shape_of(y) for y in column)
    if len(shapes) > 1:
        raise ShapeError(f"{name_of(f)} returned {label} of different shapes in {transform}: {', '.join(f'{s}' for s in shapes)}")
    return stack(column)


@boundary
def map(f: Function, xs: Any) -> Any:
    """Apply f to the examples of xs one by one, along the leading axes, and stack the results.

    For functions that cannot be batched: a branch on a value, an op without a batching rule. In a graph it is a loop.

    >>> map(lambda x: x if x > 0 else 0.1 * x, np.array([-1.0, 2.0]))
    array([-0.1,  2. ])
    """
    (f,) = _bodies("map", f=f)
    rows, structure, _ = opened(xs, "xs")
    sizes = {shape_of(x)[0] if shape_of(x) else None for x in rows}
    if len(sizes) != 1 or None in sizes:
        raise BatchError(f"map needs arrays with one common leading length; got shapes {[shape_of(x) for x in rows]}")
    (size,) = sizes
    if size == 0 or any(is_staged(x) for x in rows):
        empty = flatten(None)[1]
        return _scan(_named_like(f, lambda _, x: (None, f(x))), [], empty, [], rows, structure, size, False, None, "map")[1]  # type: ignore[arg-type]
    results = [flatten(f(structure.unflatten([own(x[i]) for x in rows]))) for i in range(size)]  # type: ignore[arg-type]
    if any(found != results[0][1] for _, found in results):
        raise BatchError(f"{name_of(f)} returned different structures for different examples")
    labels = leaf_names("a result", results[0][1])
    columns = zip(labels, *(leaves for leaves, _ in results), strict=True)
    return results[0][1].unflatten([_stacked(column, label, f, "map") for label, *column in columns])


# -- fori_loop and while_loop -----------------------------------------------------------------------------------


@boundary
def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, checkpoint: Checkpoint = None) -> Any:
    """val = body_fun(i, val) for i in range(lower, upper), from init_val on. `checkpoint` as for `scan`.

    The bounds are integers; in a graph they may be computed.

    >>> fori_loop(1, 6, lambda i, product: product * i, 1)
    np.int64(120)
    """
    (body_fun,) = _bodies("fori_loop", body_fun=body_fun)
    policy = _checked_policy(checkpoint, "fori_loop")
    bounds = [_bound(lower, "lower"), _bound(upper, "upper")]
    leaves, structure, labels = opened(init_val, "init_val")

    def step(state: Any) -> Any:
        after = body_fun(state[0], state[1])
        kept.check_structure(body_fun, flatten(after)[1])
        return state[0] + 1, after

    kept = LoopCarry(structure, leaves, labels, "fori_loop")
    if any(isinstance(b, Traced) for b in bounds):

        def on(state: Any) -> Any:
            return state[0] < bounds[1]

        start = (bounds[0], structure.unflatten(leaves))
        return _while(on, _named_like(body_fun, step), start, ["lower", *labels], policy, "fori_loop")[1]

    def iteration(state: Any, _: Any) -> Any:
        return step(state), None

    first, last = bounds
    leaves_all, whole = flatten((first, structure.unflatten(leaves)))
    empty = flatten(None)[1]
    iterations = max(int(last) - int(first), 0)
    result = _scan(
        _named_like(body_fun, iteration), leaves_all, whole, ["lower", *labels], [], empty, iterations, False, policy, "fori_loop"
    )
    return result[0][1]


def _bound(x: Any, name: str) -> Value:
    x = unwrap_fresh(x)
    if isinstance(x, Traced):
        if dtype_of(x).kind in "iu" and shape_of(x) == ():
            return x
    else:
        try:
            number = operator.index(x)
        except TypeError:
            pass
        else:
            check_width(number, f" {name} of fori_loop")
            return np.int64(number)
    raise ArgumentError(f"{name} of fori_loop is an integer, not {x!r:.60}")


@boundary
def while_loop(cond_fun: Function, body_fun: Function, init_val: Any, *, checkpoint: Checkpoint = None) -> Any:
    """val = body_fun(val) while cond_fun(val) is true, starting from init_val.

    Both modes differentiate it: reverse mode counts the iterations, and recomputes the states for the backward pass. All of them
    are stored then, or with `checkpoint` only those at the start of so many segments ("sqrt": of √iterations) and of one segment.

    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0)
    np.float64(192.0)
    """
    cond_fun, body_fun = _bodies("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    policy = _checked_policy(checkpoint, "while_loop")
    leaves, structure, labels = opened(init_val, "init_val")
    return _while(cond_fun, body_fun, structure.unflatten(leaves), labels, policy, "while_loop")


def _while(cond_fun: Function, body_fun: Function, init: Any, labels: Sequence[str], policy: Checkpoint, transform: str) -> Any:
    carry, structure = flatten(init)
    if not carry:
        raise ArgumentError(f"init_val of {transform} has no arrays, so its condition could never change")
    carry = typed(carry, structure, body_fun, (), transform)
    kept = LoopCarry(structure, carry, labels, transform)
    start = structure.unflatten(carry)
    test = write(cond_fun, (start,), transform)
    step = write(_named_like(body_fun, lambda state: kept.back(body_fun, body_fun(state))), (start,), transform)
    for written in (test, step):
        if isinstance(written, NumbersNeededError):
            _refuse_steps(written, policy, transform)
            carry = [own(x) for x in carry]
            while _truth(cond_fun(structure.unflatten(carry)), cond_fun, transform):
                carry = kept.back(body_fun, final(body_fun(structure.unflatten(carry))))
            return structure.unflatten(carry)
    assert isinstance(test, StagedBody)
    assert isinstance(step, StagedBody)
    test = test._replace(outputs=[_truth(test.structure.unflatten(test.outputs), cond_fun, transform)])
    (cond_graph, asked), (body_graph, fixed) = test.graph(), step.graph()
    options = {"cond_consts": len(asked), "body_consts": len(fixed), "checkpoint": policy}
    return structure.unflatten(ops.while_(*asked, *fixed, *carry, cond=cond_graph, body=body_graph, **options))


def _truth(result: Any, f: Function, transform: str) -> Value:
    """The result of a condition: one bool."""
    result = unwrap_fresh(result)
    if isinstance(result, NUMBERS) and shape_of(result) == () and dtype_of(result).kind == "b":
        return result
    raise ArgumentError(f"{name_of(f)} must return one bool for {transform}, bool[]; it returned {kind_of(result)}")


# -- cond -------------------------------------------------------------------------------------------------------


@boundary
def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """true_fun(*operands) if pred else false_fun(*operands); both return the same structure, shapes and dtypes.

    If pred is known, one of them is called, as by an `if`, with copies of plain arrays. In a graph both are staged and one runs.
    Inside vmap, if pred differs between examples, both run, and the results are selected.

    >>> cond(np.pi > 3, lambda x: x + 1.0, lambda x: -x, 2.0)
    np.float64(3.0)
    """
    true_fun, false_fun = _bodies("cond", true_fun=true_fun, false_fun=false_fun)
    chosen = _predicate(pred)
    leaves, structure, _ = opened(operands, "operands")
    args = structure.unflatten([strong(x) for x in leaves])
    if not isinstance(chosen, Traced):  # it is known, as in Python
        return (true_fun if chosen else false_fun)(*map_leaves(own, args))
    true = write(true_fun, args, "cond", alone=True)
    sibling = None if isinstance(true, NumbersNeededError) else true.body
    false = write(false_fun, args, "cond", sibling=sibling, alone=True)
    if isinstance(true, NumbersNeededError) or isinstance(false, NumbersNeededError):
        return (true_fun if chosen else false_fun)(*map_leaves(own, args))
    if true.structure != false.structure:
        raise ShapeError(
            f"the branches of cond must return the same structure: {name_of(true_fun)} returned {true.structure}, "
            f"{name_of(false_fun)} returned {false.structure}"
        )
    labels = leaf_names("the result", true.structure)
    pairs = [_matched(a, b, label, true_fun, false_fun) for a, b, label in zip(true.outputs, false.outputs, labels, strict=True)]
    true, false = true._replace(outputs=[a for a, _ in pairs]), false._replace(outputs=[b for _, b in pairs])
    (true_graph, captured), (false_graph, _) = true.graph(), false.graph()
    if not pairs:
        return true.structure.unflatten([])
    leaves = flatten(args)[0]
    return true.structure.unflatten(ops.cond(chosen, *captured, *leaves, true=true_graph, false=false_graph))


def _predicate(pred: Any) -> Value:
    pred = unwrap_fresh(pred)
    if not isinstance(pred, NUMBERS) or shape_of(pred) != ():
        raise ArgumentError(f"pred of cond is one bool, not {kind_of(pred)}; use np.where to choose element by element")
    if dtype_of(pred).kind == "b":
        return np.bool_(pred) if type(pred) is bool else pred
    return not_equal(strong(pred), 0)


def _matched(a: Value, b: Value, label: str, true_fun: Function, false_fun: Function) -> tuple[Value, Value]:
    """One result of both branches; a Python number takes the dtype of the other branch."""
    if is_weak(a) and is_weak(b):
        common = np.result_type(np.asarray(a), np.asarray(b)).type
        a, b = common(a), common(b)
    elif is_weak(a) and agrees(a, dtype_of(b)):
        a = dtype_of(b).type(a)
    elif is_weak(b) and agrees(b, dtype_of(a)):
        b = dtype_of(a).type(b)
    if Type.of(a) != Type.of(b):
        kind = ShapeError if shape_of(a) != shape_of(b) else DtypeError
        raise kind(
            f"the branches of cond must return the same types: for {label}, {name_of(true_fun)} returned {Type.of(a)!r} and "
            f"{name_of(false_fun)} returned {Type.of(b)!r}"
        )
    return a, b


# -- checkpoint -------------------------------------------------------------------------------------------------


@contextmanager
def own_arguments(f: Function, values: Sequence[Value]) -> Iterator[None]:
    """Refuse a function that writes to its arguments, if it will be run again."""
    before = [(x.underlying, x.aux) if isinstance(x, Traced) else None for x in values]
    yield
    for x, was in zip(values, before, strict=True):
        if was is not None and (x.underlying is not was[0] or x.aux is not was[1]):
            raise ReadOnlyError(
                f"{name_of(f)} writes to its argument, which cannot be done twice; in a function given to checkpoint, write to a "
                "copy of the argument"
            )


def checkpointed(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """f(*args, **kwargs) as one op that saves only its inputs for a backward pass."""
    leaves, structure = flatten((args, kwargs))
    # Python numbers have no dtype of their own: they are constants of the body, or captured.
    places = [i for i, x in enumerate(leaves) if isinstance(x, NUMBERS) and class_of(x) not in (int, float, complex)]
    numbers = [strong(leaf(leaves[i], "an argument of checkpoint")) for i in places]

    def call(*values: Value) -> Any:
        full = list(leaves)
        for i, x in zip(places, values, strict=True):
            full[i] = x
        positional, named = structure.unflatten(full)
        with own_arguments(f, values):
            return callee(f)(*positional, **named)

    call.__name__ = name_of(f)
    written = write(call, tuple(numbers), "checkpoint", alone=True)
    if isinstance(written, NumbersNeededError):
        args, kwargs = map_leaves(own, (args, kwargs))
        return f(*args, **kwargs)
    graph, captured = written.graph()
    if not graph.outputs:
        return written.structure.unflatten([])
    return written.structure.unflatten(ops.checkpoint(*captured, *numbers, body=graph))


__all__ = ["cond", "fori_loop", "map", "scan", "while_loop"]
