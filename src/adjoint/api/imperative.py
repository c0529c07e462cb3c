"""The imperative style: arrays that record what is done to them, and `backward()`.

>>> x = array(3.0, requires_grad=True)
>>> y = x**2 - x
>>> y.backward()
>>> x.grad
np.float64(5.0)
>>> y.grad_fn
<SubBackward>

All such arrays share one ambient tape. Its nodes are kept alive by the arrays alone, so unused nodes are freed.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import types
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from ..core import floating
from ..core.bind import FRESH, Traced, class_of, variables
from ..core.boundary import boundary
from ..core.errors import ArgumentError, ReadOnlyError, ShapeError
from ..core.op import Op
from ..core.types import Type, Value, dtype_of, shape_of
from ..device.arrays import gpu_of
from ..eager.backward import Pass
from ..eager.dual import Dual
from ..eager.on_gpu import landed, lift
from ..eager.record import AMBIENT
from ..eager.tape import FREED, Node, Pick, Tape
from ..numpy.standin import Sought, is_sought, missing
from ..numpy.views import View
from .arguments import Results, differentiable, match_type, without_class
from .grad import stop_gradient

_recording: ContextVar[bool] = ContextVar("adjoint_recording", default=True)


class Leaf(Node):
    """The node of an array made by the user; it accumulates the gradient. Copies of the array share the node."""

    __slots__ = ("array", "grad")
    array: ref[Traced]
    grad: Any

    def __init__(self, value: Any, grad: Any = None) -> None:
        super().__init__(None, (), None, None, {}, value.shape, value.dtype)
        self.grad = grad
        variables.add(id(self))

    def __del__(self) -> None:
        variables.discard(id(self))


class Ambient(Tape):
    """The tape of the imperative style: never closed, and switched off inside `no_grad()`."""

    __slots__ = ()
    joint = False  # a recorded backward pass needs the arguments among the residuals

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        held = _before()
        try:
            return self.run(op, args, params)
        finally:
            _after(held)

    def run(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if _recording.get():
            return super().process(op, args, params)
        plain = [a.underlying if isinstance(a, Traced) and a.by is self else a for a in args]
        fresh = [Traced(FRESH, a, None) if isinstance(a, np.ndarray) else a for a in plain]
        return op(*fresh, **params)

    def is_plain(self, x: Traced) -> bool:
        return x.aux.saved is FREED or x.aux in _ended  # it has been differentiated

    def secure(self, x: Any) -> Any:
        return x.copy()  # this tape has no end at which protection could be lifted

    def adopt(self, x: Traced, new: Any) -> None:
        if not _recording.get():
            # An update of a parameter: the same leaf with new numbers.
            x.underlying = np.asarray(new.underlying if isinstance(new, Traced) else new)
            return
        if _leaf(x) is not None:
            raise ReadOnlyError(
                "an array with requires_grad=True was written to in place, which would make its gradient meaningless; "
                "update it inside `with ad.no_grad():`, or compute a new array"
            )
        super().adopt(x, new)  # the tape has saved the old value, which does not change


_ended: WeakSet[Node] = WeakSet()  # nodes that a backward pass has started from
_AMBIENT = Ambient("backward", level=0.5)
_AMBIENT_DUAL = Dual("dual", level=0.25)
_busy: ContextVar[bool] = ContextVar("adjoint_busy", default=False)  # an op of the ambient tape is running
floating.LISTENERS.append(lambda: _AMBIENT.overflow() if _busy.get() else None)


def _before() -> Any:
    """An op of the ambient tape begins: that tape is never entered, as those of transforms are."""
    return floating.replace(), _busy.set(True)


def _after(held: Any) -> None:
    modes, busy = held
    _busy.reset(busy)
    floating.restore(modes)


AMBIENT[Ambient] = _recording.get, _before, _after


@boundary
def array(data: Any, requires_grad: bool = False, dtype: Any = None) -> Any:
    """An array that records operations on it if `requires_grad`, so that `backward()` can give its gradient.

    >>> import adjoint as ad
    >>> x = ad.array(3.0, requires_grad=True)
    >>> y = x**2 - x
    >>> y.backward()
    >>> x.grad
    np.float64(5.0)
    """
    if isinstance(data, Traced):
        data = _numbers(data)
    elif gpu_of(data) is not None:
        value = lift(data.copy() if dtype is None else data.astype(dtype))
        return _variable(differentiable(value, "the data", "ad.array(requires_grad=True)"), None) if requires_grad else value
    value = np.array(without_class(data, "the data of ad.array"), dtype=dtype)
    if value.dtype.kind in "OUSV":
        raise ArgumentError(f"ad.array holds numbers, got {type(data).__name__} of dtype {value.dtype}")
    if not requires_grad:
        return Traced(FRESH, value if value.dtype.kind in "fc" else value.astype(float), None)
    differentiable(value, "the data", "ad.array(requires_grad=True)")
    return _variable(value, None)


def _variable(value: Any, grad: Any) -> Traced:
    leaf = Leaf(value, grad)
    x = Traced(_AMBIENT, value, leaf)
    leaf.array = ref(x)
    return x


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Inside this block nothing is recorded, and parameters may be updated in place.

    >>> import adjoint as ad
    >>> w = ad.array(3.0, requires_grad=True)
    >>> (w**2).backward()
    >>> with ad.no_grad():
    ...     w -= 0.5 * w.grad
    >>> float(w.numpy())
    0.0
    """
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def _numbers(x: Any) -> Any:
    """The plain array of a value of the imperative style."""
    if isinstance(x, Traced):
        if x.by is not _AMBIENT and x.by is not FRESH:
            raise ArgumentError(f"this value belongs to {x.by.name}; return it from the function instead")
        return x.underlying
    return x


# -- the backward pass ------------------------------------------------------------------------------------------


class _Recorded(Pass):
    """A recorded backward pass: the residuals of a node become part of the graph again."""

    def pull(self, node: Node, g: Value, saved: Any) -> Any:
        return node.plan.pull(g, saved, node.parents, node.params), False  # type: ignore[union-attr]

    def saved_of(self, node: Node) -> Any:
        plan = node.plan
        if plan is None or not plan.keep:
            return node.saved
        saved = list(node.saved)
        if plan.keep[0] == 1:
            saved[0] = Traced(_AMBIENT, saved[0], node)
        for parent, i in zip(node.parents, plan.wanted, strict=True):
            if plan.keep[i + 1] == 1:
                saved[i + 1] = Traced(_AMBIENT, saved[i + 1], parent)
        return tuple(saved)


def backward(y: Traced, gradient: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False) -> None:
    """Add the gradient of y to `.grad` of every array it was computed from.

    y is a scalar, or `gradient` gives the cotangent. The graph is freed unless `retain_graph`; with `create_graph`
    the gradients are recorded too, for higher derivatives.
    """
    if y.by.level > _AMBIENT.level:
        raise ArgumentError(
            f"backward() was called on a value of {y.by.name}, inside the function that it runs; return the value instead: "
            f"{y.by.name} does the differentiating, or use only one of the two styles"
        )
    if y.by is not _AMBIENT:
        raise ArgumentError("backward() needs a value computed from ad.array(…, requires_grad=True), outside no_grad()")
    if gradient is None:
        if shape_of(y) != ():
            raise ShapeError(
                f"backward() of a value of shape {shape_of(y)} needs the cotangent: y.backward(gradient), or sum y first"
            )
        gradient = np.ones((), dtype_of(y))[()]
    else:
        gradient = match_type(lift(gradient), Type.of(y.underlying), "the gradient given to backward()")
    keep = create_graph if retain_graph is None else retain_graph
    _ended.add(y.aux)
    _AMBIENT.measure([y.underlying], [gradient])
    with floating.quiet():
        work = Pass((), free=not keep)
        is_plain = not (create_graph or isinstance(gradient, Traced) or _AMBIENT.lost is not None)
        if not (is_plain and work.attempt([(y.aux, gradient)])):
            work = _Recorded((), free=not keep) if create_graph else Pass((), free=not keep)
            work.run([(y.aux, gradient)])
    results = Results(gradient)
    for node, g in work.leaves.values():
        if isinstance(node, Leaf):
            g = g if isinstance(g, Traced) else results.own(g)
            node.grad = g if node.grad is None else node.grad + g


class GradFn:
    """The operation that produced a value, as a node of the graph."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        if isinstance(self._node, Leaf):
            return "AccumulateGrad"
        op = self._node.op
        return "".join(part.capitalize() for part in (op.name if op else "leaf").split("_")) + "Backward"

    @property
    def variable(self) -> Any:
        """The array that accumulates gradients, for an AccumulateGrad."""
        if not isinstance(self._node, Leaf):
            raise AttributeError("only AccumulateGrad has a variable")
        return self._node

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The operations that the arguments came from; None for a constant."""
        node = self._node.parents[0] if isinstance(self._node, Pick) else self._node
        if node.plan is None:
            return ()
        count = max(len(node.plan.keep) - 1, len(node.plan.wanted))
        found = dict(zip(node.plan.wanted, node.parents, strict=True))
        return tuple(_function(found.get(i)) for i in range(count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and self._node is other._node

    def __hash__(self) -> int:
        return hash(self._node.serial)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def _function(node: Node | None) -> tuple[GradFn | None, int]:
    if node is None:
        return None, 0
    return GradFn(node), node.index if isinstance(node, Pick) else 0


# -- attributes of arrays ---------------------------------------------------------------------------------------


def _leaf(x: Traced) -> Leaf | None:
    """The node of a variable, which a copy or a view of it is not."""
    leaf = x.aux
    return leaf if x.by is _AMBIENT and isinstance(leaf, Leaf) and leaf.array() is x else None


def _get_grad(x: Traced) -> Any:
    leaf = _leaf(x)
    return None if leaf is None else landed(leaf.grad)


def _set_grad(x: Traced, value: Any) -> None:
    leaf = _leaf(x)
    if leaf is None:
        raise ArgumentError("only an array made with requires_grad=True has a gradient to set")
    leaf.grad = None if value is None else match_type(lift(value), Type.of(x.underlying), "the gradient")


def _get_grad_fn(x: Traced) -> GradFn | None:
    return GradFn(x.aux) if x.by is _AMBIENT and _leaf(x) is None else None


def _zero_grad(x: Traced) -> None:
    _set_grad(x, None)


def _detach(x: Traced) -> Any:
    """The same numbers, without history."""
    if x.by is _AMBIENT:
        return landed(x.underlying) if isinstance(x.underlying, Traced) else Traced(FRESH, np.array(x.underlying), None)
    return stop_gradient(x)


def _plain(x: Traced) -> Any:
    """The numbers as a new NumPy array."""
    return np.array(_numbers(x))


_repr_of_traced = Traced.__repr__
_item_of_traced = Traced.item  # type: ignore[attr-defined]


def _repr(x: Traced) -> str:
    if isinstance(x, View):
        x.refresh()
    if x.by is _AMBIENT:
        tail = "requires_grad=True" if _leaf(x) else f"grad_fn={GradFn(x.aux)!r}"
        body = repr(x.underlying) if isinstance(x.underlying, np.ndarray) else f"array({x.underlying})"
        return f"{body[:-1]}, {tail})"
    if x.by is _AMBIENT_DUAL:
        return f"{x.underlying} + {x.aux}ε"
    return _repr_of_traced(x)


_str_of_traced = Traced.__str__


def _str(x: Traced) -> str:
    return _repr(x) if x.by is _AMBIENT_DUAL else _str_of_traced(x)


def _item(x: Traced, *args: Any) -> Any:
    return x.underlying.item(*args) if x.by is _AMBIENT else _item_of_traced(x, *args)


# -- copies of variables ----------------------------------------------------------------------------------------


def _deepcopy(x: Traced, memo: Any = None) -> Any:
    """A copy of a variable is a new variable, with its own gradient."""
    leaf = _leaf(x)
    return _copy_of_traced(x, memo) if leaf is None else _variable(np.array(x.underlying), copy.deepcopy(leaf.grad, memo))


def _reduce(x: Traced) -> Any:
    leaf = _leaf(x)
    if leaf is not None:
        return _variable, (np.asarray(x.underlying), leaf.grad)
    return (array, (np.asarray(x.underlying),)) if x.by is FRESH else _reduce_of_traced(x)


_copy_of_traced = Traced.__deepcopy__  # type: ignore[attr-defined]
_reduce_of_traced = Traced.__reduce__


# -- dual numbers -----------------------------------------------------------------------------------------------


def dual(primal: Any, tangent: Any = 0.0) -> Any:
    """The dual number a + bε, with ε² = 0; arrays are elementwise. Functions act as h(a + bε) = h(a) + h′(a)·bε.

    >>> dual(3.0, 1.0) * dual(4.0, 0.0)
    12.0 + 4.0ε
    """
    value, slope = _part(primal, "primal"), _part(tangent, "tangent")
    dtype = np.result_type(value, slope)
    try:
        slope = np.broadcast_to(slope, value.shape)
    except ValueError:
        raise ShapeError(f"the tangent of a dual number has shape {slope.shape}, its primal {value.shape}") from None
    return Traced(_AMBIENT_DUAL, value.astype(dtype)[()], slope.astype(dtype)[()])


def _part(x: Any, name: str) -> np.ndarray[Any, Any]:
    part = np.asarray(x)
    if part.dtype.kind not in "biufc":
        raise ArgumentError(f"the {name} of a dual number is a number or an array, not {type(x).__name__}")
    return part if part.dtype.kind == "c" else part.astype(float)


def _get_primal(x: Traced) -> Value:
    return x.underlying


def _get_tangent(x: Traced) -> Value:
    if not isinstance(x.by, Dual):
        raise AttributeError("only a dual number has a tangent")
    return x.aux


def _is_imperative(x: Traced) -> bool:
    """Whether x is an array of the imperative style, or a transform's value of one."""
    inside: Any = x
    while isinstance(inside, Traced):
        if inside.by is _AMBIENT or inside.by is FRESH or inside.by is _AMBIENT_DUAL:
            return True
        inside = inside.underlying
    return False


class _Imperative:
    """An attribute of arrays of the imperative style. Other traced values lack it, as plain arrays do.

    Code for several libraries asks: `x = x.detach() if hasattr(x, "detach") else x`. A transform would lose the derivative.
    """

    def __init__(self, name: str, get: Any, set_: Any = None, is_method: bool = False) -> None:
        self.name, self.get, self.set, self.is_method = name, get, set_, is_method

    def __get__(self, x: Traced | None, owner: Any = None) -> Any:
        if x is None:
            return self.get if self.is_method else self
        if not _is_imperative(x) and (self.name != "backward" or is_sought(sys._getframe(1))):
            raise missing(x, self.name)
        return types.MethodType(self.get, x) if self.is_method else self.get(x)

    def __set__(self, x: Traced, value: Any) -> None:
        if self.set is None:
            raise AttributeError(f"attribute {self.name!r} of {class_of(x).__name__!r} objects is not writable")
        self.set(x, value)


for _attribute in (
    _Imperative("grad", _get_grad, _set_grad),
    _Imperative("grad_fn", _get_grad_fn),
    _Imperative("requires_grad", lambda x: x.by is _AMBIENT),
    _Imperative("is_leaf", lambda x: x.by is not _AMBIENT or _leaf(x) is not None),
    _Imperative("primal", _get_primal),
    _Imperative("tangent", _get_tangent),
    _Imperative("backward", backward, is_method=True),
    _Imperative("zero_grad", _zero_grad, is_method=True),
    _Imperative("detach", _detach, is_method=True),
    _Imperative("numpy", _plain, is_method=True),
):
    setattr(Traced, _attribute.name, _attribute)
for _name, _method in (
    ("item", Sought("item", _item)),
    ("__repr__", _repr),
    ("__str__", _str),
    ("__deepcopy__", _deepcopy),
    ("__copy__", _deepcopy),
    ("__reduce__", _reduce),
):
    setattr(Traced, _name, _method)

__all__ = ["array", "backward", "dual", "no_grad"]
