"""An ONNX model with free axes, from models of three sizes.

    n = 61:  Reshape(v1, [61, 3])      n = 67:  Reshape(v1, [67, 3])      →      Reshape(v1, n·[1, 0] + [0, 3])

The three models have the same nodes; their constants may differ. A constant that is affine in n (a shape, the end of a slice, the
number of examples), a reciprocal of that or a square root, an array of one number, or the numbers up to n, is computed from the
size of an input.
Anything else would make f depend on the size in a way that the model cannot say, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from ..core.errors import ArgumentError, UnsupportedError
from ..core.tree import flatten
from ..core.types import shape_of

SIZES = (61, 67, 71)  # larger than what passes treat specially, and unlikely as another size
NAME = "batch"  # of the free size, in types
SIZE = "batch.size"  # its value; names of inputs contain no dot


def free(build: Callable[[tuple[Any, ...]], Any], args: tuple[Any, ...], batch: Any) -> Any:
    """The model that `build` makes of arguments, for any size of their axes `batch`."""
    axes = _axes(batch, args)
    models = [build(tuple(_resized(x, axis, n) for x, axis in zip(args, axes, strict=True))) for n in SIZES]
    return _Merge(models).model()


def _axes(batch: Any, args: tuple[Any, ...]) -> list[int | None]:
    axes = list(batch) if isinstance(batch, (tuple, list)) else [batch] * len(args)
    if len(axes) != len(args) or not all(a is None or (isinstance(a, int) and a >= 0) for a in axes):
        raise ArgumentError(
            f"batch of export.onnx is an axis, or one (or None) for each of the {len(args)} arguments; got {batch!r}"
        )
    if all(a is None for a in axes):
        raise ArgumentError("batch of export.onnx names no axis: leave it away for fixed sizes")
    sizes = set()
    for i, (x, axis) in enumerate(zip(args, axes, strict=True)):
        for leaf in flatten(x)[0] if axis is not None else ():
            if len(shape_of(leaf)) <= axis:  # type: ignore[operator]
                raise ArgumentError(f"batch of export.onnx names axis {axis} of argument {i}, which has shape {shape_of(leaf)}")
            sizes.add(shape_of(leaf)[axis])  # type: ignore[index]
    if len(sizes) > 1:
        raise ArgumentError(f"batch of export.onnx frees one size, but the arguments have {sorted(sizes)} along these axes")
    return axes


def _resized(x: Any, axis: int | None, n: int) -> Any:
    if axis is None:
        return x
    leaves, structure = flatten(x)
    made = [np.zeros((*np.shape(v)[:axis], n, *np.shape(v)[axis + 1 :]), np.asarray(v).dtype) for v in leaves]
    return structure.unflatten(made)


def _refused(why: str, line: str = "") -> UnsupportedError:
    return UnsupportedError(f"the size of a batch cannot be free: {why}; export for a fixed size, without batch=", line or None)


class _Merge:
    """The first model, in which each constant that differs between the models is computed from the size."""

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = models
        self.constants = [{t.name: numpy_helper.to_array(t) for t in m.graph.initializer} for m in models]
        self.computed: list[Any] = []  # nodes in front of all others

    def model(self) -> Any:
        first = self.models[0]
        graphs = [m.graph for m in self.models]
        self.same(graphs)
        values = [list(c) for c in self.constants]
        if any(names != values[0] for names in values):
            raise _refused("its constants differ")
        kept = []
        self.size(first.graph)
        users = {name: node for node in first.graph.node for name in node.input}
        for name in values[0]:
            found = [c[name] for c in self.constants]
            if all(a.dtype == found[0].dtype and a.shape == found[0].shape and a.tobytes() == found[0].tobytes() for a in found):
                kept.append(numpy_helper.from_array(found[0], name))
            else:
                self.compute(name, found, users.get(name))
        nodes = [*self.computed, *first.graph.node]
        initializers = [*kept, *self.own]
        del first.graph.node[:]
        del first.graph.initializer[:]
        first.graph.node.extend(nodes)
        first.graph.initializer.extend(initializers)
        helper.set_model_props(first, {"batch": NAME})
        return first

    # -- comparing ----------------------------------------------------------------------------------------------

    def same(self, graphs: Sequence[Any]) -> None:
        """Checks that the nodes are the same, in bodies too, and frees the sizes of inputs and results."""
        if len({len(g.node) for g in graphs}) > 1:
            raise _refused("the number of operations depends on it")
        for infos in zip(*([*g.input, *g.output] for g in graphs), strict=True):
            _free_shape(infos)
        for nodes in zip(*(g.node for g in graphs), strict=True):
            first = nodes[0]
            for node in nodes[1:]:
                if (node.op_type, node.input, node.output) != (first.op_type, first.input, first.output):
                    raise _refused("the operations depend on it", first.doc_string)
            for attributes in zip(*(n.attribute for n in nodes), strict=True):
                if attributes[0].HasField("g"):
                    self.same([a.g for a in attributes])
                elif any(a != attributes[0] for a in attributes):
                    raise _refused(f"{first.op_type} has another {attributes[0].name} for another size", first.doc_string)

    # -- computing ----------------------------------------------------------------------------------------------

    def size(self, graph: Any) -> None:
        """The size itself, as an integer array of one element."""
        self.own: list[Any] = []
        for info in graph.input:
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if dim.dim_param == NAME:
                    self.node("Shape", [info.name], SIZE, start=axis, end=axis + 1)
                    return
        raise _refused("no input has it")

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.computed.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, name: str) -> str:
        self.own.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def affine(self, factor: Any, offset: Any, name: str) -> str:
        """factor · n + offset, of integers."""
        scaled = self.node("Mul", [SIZE, self.constant(factor, f"{name}.factor")], f"{name}.scaled")
        return self.node("Add", [scaled, self.constant(offset, f"{name}.offset")], name)

    def constant_or_computed(self, name: str, values: Sequence[Any], user: Any) -> None:
        if all(v == values[0] for v in values):
            self.constant(values[0], name)
        else:
            self.compute(name, values, user)

    def compute(self, name: str, values: Sequence[Any], user: Any) -> None:
        """A constant that differs between the models: one of a few functions of the size, or refused."""
        if not any(make(name, values, user) for make in (self.affine_values, self.rational_values, self.filled, self.counted)):
            raise _refused("a constant depends on it", user.doc_string if user is not None else "")

    def affine_values(self, name: str, values: Sequence[Any], user: Any) -> bool:
        """Whole numbers a·n + b in an array of one shape."""
        if not _one_shape(values) or not all(np.array_equal(v, np.round(v)) for v in values):
            return False
        found = _affine([np.asarray(v, np.float64) for v in values])
        if found is None:
            return False
        factor, offset = (np.atleast_1d(part).ravel() for part in found)
        self.converted(self.affine(factor, offset, f"{name}.n"), values[0], name)
        return True

    def rational_values(self, name: str, values: Sequence[Any], user: Any) -> bool:
        """Numbers (a·n + b)/d, their reciprocals and the square roots of both, as the factors of means and variances are."""
        dtype, shape = values[0].dtype, values[0].shape
        if dtype.kind != "f" or not _one_shape(values) or not values[0].size:
            return False
        found = next(filter(None, (_rational(values, power) for power in (1, -1, 2, -2))), None)
        if found is None:
            return False
        power, *parts = found
        factor, offset, below, sign = (self.constant(v.astype(dtype), f"{name}.{i}") for i, v in enumerate(parts))
        count = self.node("Cast", [SIZE], f"{name}.n", to=helper.np_dtype_to_tensor_dtype(dtype))
        scaled = self.node("Mul", [count, factor], f"{name}.scaled")
        above = self.node("Add", [scaled, offset], f"{name}.above")
        ratio = self.node("Div", [above, below] if power > 0 else [below, above], f"{name}.ratio")
        root = self.node("Sqrt", [ratio], f"{name}.root") if abs(power) == 2 else ratio
        signed = self.node("Mul", [root, sign], f"{name}.signed")
        self.node("Reshape", [signed, self.constant(np.array(shape, np.int64), f"{name}.shape")], name)
        return True

    def filled(self, name: str, values: Sequence[Any], user: Any) -> bool:
        """An array of one number, whose sizes are a·n + b."""
        if _one_shape(values) or not all(v.size and v.ndim == values[0].ndim and (v == v.flat[0]).all() for v in values):
            return False
        found = _affine([np.array(v.shape, np.float64) for v in values])
        if found is None:
            return False
        self.constant_or_computed(f"{name}.one", [np.asarray(v.flat[0]) for v in values], user)
        self.node("Expand", [f"{name}.one", self.affine(*found, f"{name}.shape")], name)
        return True

    def counted(self, name: str, values: Sequence[Any], user: Any) -> bool:
        """The numbers 0, 1, …, n − 1."""
        if not all(v.ndim == 1 and np.array_equal(v, np.arange(n)) for v, n in zip(values, SIZES, strict=True)):
            return False
        count = self.node("Squeeze", [SIZE], f"{name}.count")
        ends = [self.constant(np.int64(k), f"{name}.{k}") for k in (0, 1)]
        numbers = self.node("Range", [ends[0], count, ends[1]], f"{name}.range")
        self.node("Cast", [numbers], name, to=helper.np_dtype_to_tensor_dtype(values[0].dtype))
        return True

    def converted(self, x: str, like: Any, name: str) -> str:
        """Integers of one axis as a constant of another dtype and shape."""
        cast = self.node("Cast", [x], f"{name}.cast", to=helper.np_dtype_to_tensor_dtype(like.dtype))
        return self.node("Reshape", [cast, self.constant(np.array(np.shape(like), np.int64), f"{name}.to")], name)


def _one_shape(values: Sequence[Any]) -> bool:
    return all(v.shape == values[0].shape for v in values)


def _affine(values: Sequence[Any]) -> tuple[Any, Any] | None:
    """Integers (a, b) with a·n + b for each size, if there are any."""
    factor = (values[1] - values[0]) / (SIZES[1] - SIZES[0])
    offset = values[0] - factor * SIZES[0]
    if not np.array_equal(factor, np.round(factor)) or not np.array_equal(values[2], factor * SIZES[2] + offset):
        return None
    return factor.astype(np.int64), offset.astype(np.int64)


def _rational(values: Sequence[Any], power: int) -> tuple[Any, ...] | None:
    """(power, a, b, d, sign), with whole a, b and d, of numbers sign·((a·n + b)/d)^(1/power) for each size, if there are any."""
    flat = [np.asarray(v, np.float64).ravel() for v in values]
    rounding = 4 * float(np.finfo(values[0].dtype).eps)
    most = 64 if values[0].dtype.itemsize < 8 else 4096  # the largest d that three rounded numbers tell
    sign = np.sign(flat[0])
    if not all(np.isfinite(v).all() and np.array_equal(np.sign(v), sign) and sign.all() for v in flat):
        return None
    bases = [np.abs(v) ** power for v in flat]
    slopes = (bases[1] - bases[0]) / (SIZES[1] - SIZES[0])
    pairs = [
        [Fraction(float(x)).limit_denominator(most) for x in pair]
        for pair in zip(slopes, bases[0] - slopes * SIZES[0], strict=True)
    ]
    below = np.array([math.lcm(a.denominator, b.denominator) for a, b in pairs])
    factor, offset = (np.array([int(pair[i] * d) for pair, d in zip(pairs, below, strict=True)]) for i in (0, 1))
    for v, n in zip(flat, SIZES, strict=True):
        above = factor * n + offset
        if not (above > 0).all() or not np.allclose(sign * (above / below) ** (1 / power), v, rounding, 0):
            return None
    return power, factor, offset, below, sign


def _free_shape(infos: Sequence[Any]) -> None:
    """Names the sizes of one value that differ."""
    shapes = [[d.dim_value for d in info.type.tensor_type.shape.dim] for info in infos]
    if len({len(s) for s in shapes}) > 1:
        raise _refused("the number of axes depends on it")
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        if len(set(sizes)) > 1:
            found = _affine([np.float64(s) for s in sizes])
            if found is None:
                raise _refused(f"a size is {', '.join(map(str, sizes))} for {', '.join(map(str, SIZES))} examples")
            factor, offset = map(int, found)
            text = NAME if (factor, offset) == (1, 0) else f"{factor}*{NAME}{offset:+}"
            infos[0].type.tensor_type.shape.dim[axis].dim_param = text


__all__ = ["free"]
