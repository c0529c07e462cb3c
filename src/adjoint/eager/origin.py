"""Where the zeros of a cotangent come from: a mask, or arithmetic.

    where(x > 0, sqrt(x), 0) at 0      0 · 0.5/√0: the zero is that of the element not chosen, and wins
    log(1 + exp(x)) at 1000            1/∞ · ∞: the zero is that of an overflow, and the product is nan

An `Origin` goes with each cotangent of a backward pass: through which step it came, and the origin of what went in. It is
worked out only when a product is not finite. An element is live unless it was masked on the way; whether a linear step leads
from a live element to a given one is found by sending weights through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, numbers
from ..core.op import Elementwise, Linear, Multilinear, Op, Opaque
from ..core.types import Type, Value, ndim_of, shape_of
from ..derive import any_along, coupled, coupled_all, is_declared
from ..ops.broadcast import broadcast_to, cast, conj, expand_dims, reshape, sum_, transpose, where
from ..ops.elementwise import (
    PRODUCTS,
    equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
)
from ..ops.index import gather, getitem, place, put, put_at, scatter_add
from ..ops.linalg import einsum, matmul
from ..ops.reduce import any_
from ..ops.zero import generic
from .batch import Batch

_UNKNOWN: Any = object()


class Origin:
    """Of one cotangent: handed on by a node to its i-th parent, or, if there is no origin above, given as it is.

    It keeps of the node what it may have to look into, and no more: nodes are freed as the pass moves on.

    live  an array of bools, or None if all elements are live
    mask  the same in a program that is written down: True if all are live, an array of bools, or None if it is not known; then
          the zeros that come up when the program runs count as those of a mask
    """

    __slots__ = ("_live", "_mask", "above", "dtype", "index", "op", "params", "parents", "plan", "saved", "shape")

    def __init__(self, above: Origin | None, node: Any = None, index: int = 0, saved: Any = ()) -> None:
        self.above, self.index = above, index
        self._live = self._mask = _UNKNOWN
        if node is not None:
            self.op, self.plan, self.params, self.shape, self.dtype = node.op, node.plan, node.params, node.shape, node.dtype
            self.parents = [Type(p.shape, p.dtype) for p in node.parents]
            self.saved: Any = saved if isinstance(node.op, (Linear, Opaque)) or node.plan.masks is not None else ()

    @property
    def live(self) -> Any:
        if self._live is _UNKNOWN:
            for origin in self._unresolved("_live"):
                origin._live = origin._find_live()
        return self._live

    @property
    def mask(self) -> Any:
        if self._mask is _UNKNOWN:
            for origin in self._unresolved("_mask"):
                mask = origin._find_mask()
                origin._mask = True if mask is not None and not isinstance(mask, Traced) and np.all(mask) else mask
        return self._mask

    def _behind(self) -> Iterable[Origin]:
        """The origins that this one asks."""
        return () if self.above is None else (self.above,)

    def _unresolved(self, name: str) -> Iterator[Origin]:
        """The origins whose answer is not known yet, each after those that it asks: the chain is as long as the program."""
        waiting: list[Origin] = [self]
        while waiting:
            origin = waiting[-1]
            asked = [other for other in origin._behind() if getattr(other, name) is _UNKNOWN]
            if asked:
                waiting += asked
                continue
            waiting.pop()
            if getattr(origin, name) is _UNKNOWN:
                yield origin

    def live_in(self, g: Value) -> Value | None:
        """Which elements of the cotangent are live, as a value with the batch axes of it."""
        live = self.live
        return live if live is None or np.ndim(live) == ndim_of(g) else _batched_like(live, g)

    def masks(self, gs: Sequence[Value | None]) -> list[Any]:
        """The masks of the cotangents, as a `Pull` takes them."""
        has_numbers = all(g is None or numbers(g) is not None for g in gs)
        found = []
        for g, origin in zip(gs, self._each(len(gs)), strict=True):
            mask = None
            if g is not None and origin is not None:
                mask = origin.live if has_numbers else origin.mask
                if mask is None:
                    mask = True if has_numbers else None
                elif mask is not True and not isinstance(mask, Traced) and np.ndim(mask) > ndim_of(g):
                    mask = _batched_like(mask, g)
            found.append(mask)
        return found

    def _each(self, count: int) -> Sequence[Origin | None]:
        """The origins of the results of a node, by number."""
        return [self]

    def _find_live(self) -> Any:
        above, saved = self.above, self.saved
        assert above is not None
        parent = self.parents[self.index].shape
        known = [numbers(x) for x in saved]
        leads = [_lead(k, ndim_of(x)) if isinstance(x, Traced) else () for k, x in zip(known, saved, strict=True)]
        lead = () if above.live is None else _lead(above.live, len(self.shape))
        distinct = {x for x in (*leads, lead) if x}
        if not distinct:
            return self._of_one(above.live, known)
        if len(distinct) > 1:
            return None  # batches in batches, some in one only: all count as live
        (batch,) = distinct
        found = []
        for at in np.ndindex(batch):
            values = [k[at] if n else k for k, n in zip(known, leads, strict=True)]
            of_one = self._of_one(above.live[at] if lead else above.live, values)
            found.append(np.ones(parent, bool) if of_one is None else of_one)
        return _or_none(np.reshape(found, (*batch, *parent)))

    def _of_one(self, live: Any, known: list[Any]) -> Any:
        """Of one example of a batch, or without one."""
        op, plan, i = self.op, self.plan, self.index
        if "of" in self.params:  # a part of a number (split.py), whose other parts do not count here
            return live
        if isinstance(op, Elementwise) or op in PRODUCTS:
            masked = None if plan.masks is None else plan.masks(known, i)
            return _through_product(live, masked, self.shape, self.parents[i].shape)
        if isinstance(op, Opaque) and not op.choice:
            return None if live is None else _or_none(self._coupled(live))
        weights = self._weights()
        weights = weights if live is None else weights * live
        if isinstance(op, Multilinear):
            known = [_positive(x, k - 1 in plan.wanted) for k, x in enumerate(known)]
        send = plan.pull if isinstance(op, Opaque) else plan.quick
        sent = send(weights, tuple(known), self.parents, self.params)[i]
        return None if sent is None else _or_none(np.not_equal(sent, 0))

    def _find_mask(self) -> Any:
        assert self.above is not None
        above = self.above.mask
        if above is None or (above is not True and ndim_of(above) > len(self.shape)):  # or numbers of a batch
            return None
        op, parent = self.op, self.parents[self.index].shape
        if op is where:
            chosen = self.saved[1] if self.plan.wanted[self.index] == 1 else logical_not(self.saved[1])
            return any_along(_both(above, chosen), self.shape, parent)
        if above is True and (op in PRODUCTS[:2] or op in WHOLE or (isinstance(op, Opaque) and not op.choice)):
            return True
        if isinstance(op, Elementwise) or op in PRODUCTS:
            masked = None if self.plan.masks is None else self.plan.masks(self.saved, self.index)
            if masked is None or (not isinstance(masked, Traced) and not np.any(masked)):
                return above if above is True else any_along(above, self.shape, parent)
            return any_along(_both(above, logical_not(masked)), self.shape, parent)
        if isinstance(op, Opaque) and not op.choice:
            return self._coupled(above)
        return self._moved(above)

    def _coupled(self, live: Value) -> Value:
        return coupled(self.op, self.params, 0, self.plan.wanted[self.index], live, self.shape, self.parents[self.index].shape)

    def _moved(self, above: Any) -> Any:
        """Through a linear op: by computing with numbers, if all that matters is known, or else when the program runs."""
        saved = list(self.saved)
        if isinstance(self.op, Multilinear):
            if (mask := self._by_shapes(above)) is not None:
                return mask
            saved = [_marks(x, k - 1 in self.plan.wanted) for k, x in enumerate(saved)]
        known = [None if x is None else numbers(x) for x in saved]
        is_known = not any(k is None and x is not None for k, x in zip(known, saved, strict=True))
        if is_known and not isinstance(above, Traced):
            of_batch = any(np.ndim(k) > ndim_of(x) for k, x in zip(known, saved, strict=True) if k is not None)
            if of_batch or (above is not True and np.ndim(above) > len(self.shape)):
                return True  # all count as live
            live = self._of_one(None if above is True else above, known)
            return True if live is None else live
        if self.op in MOVES:
            bools = [Type(t.shape, np.dtype(bool)) for t in self.parents]
            marks = np.ones(self.shape, bool) if above is True else broadcast_to(above, shape=self.shape)
            return self.plan.quick(marks, tuple(saved), bools, self.params)[self.index]
        weights = self._weights()
        weights = weights if above is True else where(broadcast_to(above, shape=self.shape), weights, 0.0)
        send = self.plan.pull if isinstance(self.op, Opaque) else self.plan.quick
        sent = send(weights, tuple(saved), self.parents, self.params)[self.index]
        return None if sent is None else not_equal(sent, 0)

    def _by_shapes(self, above: Any) -> Any:
        """Through a multilinear op, if that needs no values of the other factors; None if it does."""
        parent = self.parents[self.index].shape
        if 0 in parent:
            return True
        if 0 in self.shape:
            return np.zeros(parent, bool)
        if above is True and self._reaches_all():
            return True
        if self.op is matmul and (mask := self._through_matmul(above)) is not None:
            return mask
        largest = max(math.prod(shape) for shape in (parent, *(shape_of(x) for x in self.saved if x is not None)))
        return above is True or coupled_all(above, parent) if largest > MOST else None

    def _weights(self) -> Any:
        """Cotangents whose sums and differences are not 0."""
        is_signed = isinstance(self.op, Linear) and not self.op.terms
        return generic(self.shape, self.dtype) if is_signed else np.broadcast_to(1.0, self.shape)

    def _factors(self) -> list[tuple[int, Any]]:
        """The other factors of a product, where their zeros are those of a mask; None for one that has none."""
        own = self.plan.wanted[self.index]
        return [(k, zeros_of_mask(x, k in self.plan.wanted)) for k, x in enumerate(self.saved[1:]) if k != own]

    def _reaches_all(self) -> bool:
        """Whether a sum of products leads back to every element of the argument if all of the cotangent is live."""
        if any(factor is not None for _, factor in self._factors()):
            return False
        if self.op is einsum:
            letters = self.params["inputs"][self.plan.wanted[self.index]]
            return len(set(letters)) == len(letters)
        return self.op is matmul

    def _through_matmul(self, above: Any) -> Any:
        """Of a matrix product with a factor without zeros, or of a cotangent that is live throughout: no product is needed."""
        ((other, factor),) = self._factors()
        own = self.parents[self.index].shape
        if len(own) < 2 or len(own) != len(self.shape) or ndim_of(self.saved[1 + other]) != 2:
            return None
        axis = -1 if other == 1 else -2  # along which the cotangent, or the other factor, is summed over
        if factor is None:
            whole = broadcast_to(above, shape=self.shape)  # a condition may have fewer axes
            return broadcast_to(any_(whole, axis=(len(own) + axis,), keepdims=True), shape=own)
        if above is True:
            reached = any_(factor, axis=(2 + axis,), keepdims=False)
            return broadcast_to(reached if other == 1 else expand_dims(reached, (1,)), shape=own)
        return None


class Given(Origin):
    """Of a cotangent of which nothing else is known: its zeros are meant. Those of a program are looked for when it runs."""

    __slots__ = ("given",)

    def __init__(self, g: Value) -> None:
        super().__init__(None)
        known = numbers(g)
        self.given = g if known is None or np.ndim(known) > ndim_of(g) else None  # or numbers of a batch
        self._live = None if known is None else _or_none(np.not_equal(known, 0))
        self._mask = _UNKNOWN

    def _find_mask(self) -> Any:
        if self.given is not None:
            return True if self._live is None and numbers(self.given) is not None else not_equal(self.given, 0)
        return True if self._live is None else self._live


class Marked(Origin):
    """Of a cotangent whose mask a loop or a branch gives, or the caller of a pass; `find` computes it when it is asked for."""

    __slots__ = ("find",)

    def __init__(self, find: Callable[[], Any]) -> None:
        super().__init__(None)
        self.find = find

    def _find_live(self) -> Any:
        mask = self.find()
        return None if mask is True else _or_none(numbers(mask))

    def _find_mask(self) -> Any:
        return self.find()


class Several(Origin):
    """Of the cotangents of several results, by number."""

    __slots__ = ("each",)

    def __init__(self) -> None:
        super().__init__(None)
        self.each: dict[int, Origin] = {}

    def _each(self, count: int) -> Sequence[Origin | None]:
        return [self.each.get(i) for i in range(count)]


class Joint(Origin):
    """Of a cotangent that an opaque op of several results hands on, or a custom rule.

    Nothing is declared of a custom rule. What it makes of the live elements alone tells whether they lead to an element; where it
    is 0 even if all are live, the partial is 0, or a mask is, and the element counts as live.
    """

    __slots__ = ("part", "types")

    def __init__(self, above: Origin, node: Any, index: int, saved: Any, part: Value) -> None:
        super().__init__(above, node, index, saved)
        self.part = part  # for its batch axes
        self.types = node.types if node.op.many else (Type(node.shape, node.dtype),)

    def _above(self) -> dict[int, Origin]:
        return self.above.each if isinstance(self.above, Several) else {0: self.above}  # type: ignore[dict-item]

    def _behind(self) -> Iterable[Origin]:
        return self._above().values()

    def _find_live(self) -> Any:
        masks: dict[int, Any] = {}
        for i, origin in self._above().items():
            live = True if origin.live is None else origin.live
            if live is not True and np.ndim(live) > self.types[i].ndim:
                live = _batched_like(live, self.part) if isinstance(self.part, Traced) else True
            masks[i] = live
        found = self._reached(masks)
        return None if found is True else _or_none(numbers(found))

    def _find_mask(self) -> Any:
        masks = {i: origin.mask for i, origin in self._above().items()}
        return None if any(mask is None for mask in masks.values()) else self._reached(masks)

    def _reached(self, masks: dict[int, Any]) -> Any:
        if any(mask is True for mask in masks.values()):
            return True
        if not is_declared(self.op):
            return self._by_rule(masks)
        k, parent = self.plan.wanted[self.index], self.parents[self.index].shape
        found = [coupled(self.op, self.params, i, k, mask, self.types[i].shape, parent) for i, mask in masks.items()]
        return functools.reduce(logical_or, found)

    def _by_rule(self, masks: dict[int, Any]) -> Any:
        draw = np.random.default_rng(0)
        weights = {i: draw.uniform(1.0, 2.0, self.types[i].shape).astype(self.types[i].dtype) for i in masks}
        some = self._handed_on({i: where(masks[i], w, np.zeros((), w.dtype)) for i, w in weights.items()})
        every = self._handed_on(weights)
        return some is not None and logical_or(not_equal(some, 0), equal(every, 0))

    def _handed_on(self, gs: dict[int, Value]) -> Value | None:
        given = [gs.get(i) for i in range(len(self.types))]
        handed = self.plan.pull(given if self.op.many else given[0], self.saved, self.parents, self.params)
        return handed[self.index]


def through(above: Origin | None, node: Any, index: int, saved: Any, part: Value) -> Origin:
    """Of the cotangent `part` that a node has handed on to one of its parents."""
    op = node.op
    if above is None or not isinstance(op, (Elementwise, Linear, Opaque)):
        return Given(part)
    if isinstance(op, Opaque) and (op.many or not is_declared(op)):
        return Joint(above, node, index, saved, part)
    if isinstance(op, Elementwise) and node.plan.masks is None and node.shape == node.parents[index].shape:
        return above
    return Origin(above, node, index, saved)


class Sum(Origin):
    """Of the sum of two cotangents."""

    __slots__ = ("other",)

    def __init__(self, one: Origin, other: Origin) -> None:
        super().__init__(one)
        self.other = other

    def _behind(self) -> Iterable[Origin]:
        return self.above, self.other  # type: ignore[return-value]

    def _find_live(self) -> Any:
        a, b = self.above.live, self.other.live  # type: ignore[union-attr]
        return None if a is None or b is None else _or_none(a | b)

    def _find_mask(self) -> Any:
        a, b = self.above.mask, self.other.mask  # type: ignore[union-attr]
        if a is True or b is True:
            return True
        return None if a is None or b is None else logical_or(a, b)


def zeros_of_mask(x: Any, is_differentiated: bool) -> Any:
    """Where a factor is not zero, if its zeros are those of a mask: of a constant, or an input that is not differentiated."""
    if is_differentiated:
        return None
    known = numbers(x)
    return not_equal(x, 0) if known is None or not np.all(known) else None


def _marks(x: Any, is_differentiated: bool) -> Any:
    """A factor as marks that do not cancel: zero where it is a zero of a mask."""
    if x is None or isinstance(x, Type):
        return x
    weights = np.random.default_rng(1).uniform(1.0, 2.0, shape_of(x))
    factor = zeros_of_mask(x, is_differentiated)
    return weights if factor is None else where(factor, weights, 0.0)


#: Elements of a factor up to which its zeros, if they are those of a mask, are looked at by another sum of products.
MOST = 1 << 16
#: Linear ops that move elements to or from an index. What they make of a mask costs as little as what they make of a cotangent,
#: which matters in a loop that reads a few elements of a long array.
MOVES: frozenset[Op] = frozenset({gather, getitem, place, put, put_at, reshape, scatter_add, transpose})
#: Linear ops that hand every cotangent on.
WHOLE: frozenset[Op] = frozenset({broadcast_to, cast, conj, reshape, sum_, transpose})


def _both(above: Any, chosen: Value) -> Value:
    return chosen if above is True else logical_and(above, chosen)


def _lead(x: Any, ndim: int) -> tuple[int, ...]:
    """The lengths of batch axes in front."""
    return np.shape(x)[: np.ndim(x) - ndim]


def _batched_like(x: Any, g: Value) -> Value:
    """Numbers with batch axes in front as g has them, as a value that has none."""
    if not isinstance(g, Traced):
        return x
    inside = _batched_like(x, g.underlying)
    return Traced(g.by, inside, None) if isinstance(g.by, Batch) else inside


def _positive(x: Any, is_differentiated: bool) -> Any:
    """A factor that cannot make terms cancel; zero where it is a constant that is."""
    if not isinstance(x, (np.ndarray, np.generic, float)):
        return x
    weights = np.random.default_rng(1).uniform(1.0, 2.0, np.shape(x))
    return weights if is_differentiated else weights * np.not_equal(x, 0)


def _through_product(live: Any, masked: Any, shape: tuple[int, ...], parent: tuple[int, ...]) -> Any:
    if live is None and masked is None:
        return None
    alive = np.ones(shape, bool) if live is None else np.broadcast_to(live, shape)
    alive = alive if masked is None else alive & ~np.asarray(masked)
    extra = alive.ndim - len(parent)
    alive = np.any(alive, axis=tuple(range(extra))) if extra else alive
    short = tuple(a for a, n in enumerate(parent) if n == 1 and np.shape(alive)[a] != 1)
    return _or_none(np.any(alive, axis=short, keepdims=True) if short else alive)


def _or_none(live: Any) -> Any:
    return None if np.all(live) or math.prod(np.shape(live)) == 0 else live
