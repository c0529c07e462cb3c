"""Lines of StableHLO: types, constants, and the operations that several ops share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.types import Shape, Type
from .normal import Dtype


def element(dtype: Dtype) -> str:
    if dtype.kind == "b":
        return "i1"
    bits = 8 * dtype.itemsize
    return {"f": f"f{bits}", "i": f"i{bits}", "u": f"ui{bits}", "c": f"complex<f{bits // 2}>"}[dtype.kind]


def tensor(type_: Type) -> str:
    return f"tensor<{''.join(f'{n}x' for n in type_.shape)}{element(type_.dtype)}>"


# -- constants --------------------------------------------------------------------------------------------------

_READABLE = 64  # elements; a longer constant is written as its bytes


def number(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.complexfloating):
        return f"({number(value.real)}, {number(value.imag)})"
    if isinstance(value, np.floating):
        if np.isfinite(value):
            text = repr(value.item())
            return text if "." in text else text.replace("e", ".0e") if "e" in text else f"{text}.0"
        return f"0x{value.view(f'u{value.itemsize}'):0{2 * value.itemsize}X}"
    return str(value)


def dense(value: Any) -> str:
    """The elements of a constant, as an attribute."""
    flat = value.reshape(-1)
    if not flat.size:
        return "dense<>"
    if (flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all():
        return f"dense<{number(flat[0])}>"
    if flat.size > _READABLE and value.dtype != bool:
        return f'dense<"0x{flat.astype(flat.dtype.newbyteorder("<")).tobytes().hex().upper()}">'

    def nested(x: Any) -> str:
        return f"[{', '.join(map(nested, x))}]" if np.ndim(x) else number(x)

    return f"dense<{nested(value)}>"


# -- lines ------------------------------------------------------------------------------------------------------


class Lines:
    """The lines of a function, and the types of its values."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self.types: dict[str, Type] = {}
        self.count = 0
        self.indent = "    "
        self.line = ""

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def add(self, text: str) -> None:
        self.list.append(self.indent + text)

    def __call__(self, text: str, type_: Type) -> str:
        """Adds a line that makes one value."""
        name = self.fresh()
        self.types[name] = type_
        self.add(f"{name} = {text}" + (f"  // {self.line}" if self.line else ""))
        return name

    def op(self, kind: str, *args: str, type_: Type, attributes: str = "") -> str:
        """An op in the usual form: operands, attributes, types."""
        given = ", ".join(tensor(self.types[a]) for a in args)
        given = given if kind.startswith("chlo.") else f"({given})"
        return self(f"{kind} {', '.join(args)}{attributes} : {given} -> {tensor(type_)}", type_)

    def constant(self, value: Any) -> str:
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        type_ = Type(value.shape, value.dtype)
        return self(f"stablehlo.constant {dense(value)} : {tensor(type_)}", type_)

    def like(self, x: str, value: Any) -> str:
        """A number, with the type of a value."""
        type_ = self.types[x]
        return self.constant(np.broadcast_to(type_.dtype.type(value), type_.shape))

    def broadcast(self, x: str, to: Shape) -> str:
        """Axes are aligned at the end, as in NumPy."""
        t = self.types[x]
        if t.shape == to:
            return x
        axes = list(range(len(to) - len(t.shape), len(to)))
        return self.op("stablehlo.broadcast_in_dim", x, type_=Type(to, t.dtype), attributes=f", dims = {axes}")

    def reshape(self, x: str, to: Shape) -> str:
        t = self.types[x]
        return x if t.shape == to else self.op("stablehlo.reshape", x, type_=Type(to, t.dtype))

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        t = self.types[x]
        if list(axes) == list(range(len(t.shape))):
            return x
        made = Type(tuple(t.shape[a] for a in axes), t.dtype)
        return self.op("stablehlo.transpose", x, type_=made, attributes=f", dims = {list(axes)}")

    def compare(self, how: str, a: str, b: str) -> str:
        t = self.types[a]
        kind = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(t.dtype.kind, "UNSIGNED")
        return self.op(f"stablehlo.compare {how},", a, b, type_=Type(t.shape, np.dtype(bool)), attributes=f", {kind}")

    def convert(self, x: str, dtype: Dtype) -> str:
        t = self.types[x]
        if t.dtype.kind == "c" and dtype.kind != "c":
            x = self.op("stablehlo.real", x, type_=Type(t.shape, np.empty((), t.dtype).real.dtype))
        return x if self.types[x].dtype == dtype else self.op("stablehlo.convert", x, type_=Type(t.shape, dtype))

    def select(self, c: str, a: str, b: str) -> str:
        return self.op("stablehlo.select", c, a, b, type_=self.types[a])

    def reduce(self, x: str, kind: str, start: Any, axes: Sequence[int]) -> str:
        t = self.types[x]
        first = self.constant(t.dtype.type(start))
        made = Type(tuple(n for i, n in enumerate(t.shape) if i not in axes), t.dtype)
        text = f"stablehlo.reduce({x} init: {first}) applies stablehlo.{kind} across dimensions = {list(axes)}"
        return self(f"{text} : ({tensor(t)}, {tensor(Type((), t.dtype))}) -> {tensor(made)}", made)

    def slice(self, x: str, ranges: Sequence[tuple[int, int, int]]) -> str:
        t = self.types[x]
        made = Type(tuple(len(range(*r)) for r in ranges), t.dtype)
        if made == t:
            return x
        parts_ = ", ".join(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in ranges)
        return self(f"stablehlo.slice {x} [{parts_}] : ({tensor(t)}) -> {tensor(made)}", made)

    def reverse(self, x: str, axes: Sequence[int]) -> str:
        return self(f"stablehlo.reverse {x}, dims = {list(axes)} : {tensor(self.types[x])}", self.types[x]) if axes else x

    def dot(self, a: str, b: str, batch: int) -> str:
        """A stack of matrix products."""
        s, t = self.types[a], self.types[b]
        lead = list(range(batch))
        made = Type((*s.shape[:-1], t.shape[-1]), s.dtype)
        text = f", batching_dims = {lead} x {lead}, contracting_dims = [{batch + 1}] x [{batch}]"
        return self.op("stablehlo.dot_general", a, b, type_=made, attributes=f"{text}, precision = [HIGHEST, HIGHEST]")


__all__ = ["Lines", "tensor"]
